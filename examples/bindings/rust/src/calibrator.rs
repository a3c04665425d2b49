// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Profiles of OSDT: thresholds that are recorded on one sequence, for all later ones.
use std::ffi::CStr;
use std::ptr::{null, null_mut, NonNull};

use crate::{c_text, check, index, sys, Result, Session};

/// A record of the confidences of one sequence, of which a profile is made.
#[derive(Debug)]
pub struct Calibrator {
    raw: NonNull<sys::unmask_calibrator>,
}

impl Calibrator {
    /// Makes a record for a policy with `calibrated_threshold` and without a file, such as
    /// `osdt_gsm8k`, which says what the profile is to be, and for blocks of that length.
    pub fn new(policy: &str, block_length: usize) -> Result<Calibrator> {
        let (policy, length) = (c_text("policy", policy)?, index("block_length", block_length)?);
        let mut raw = null_mut();
        check(unsafe { sys::unmask_calibrator_new(policy.as_ptr(), length, &mut raw) })?;
        Ok(Calibrator { raw: NonNull::new(raw).expect("a record that was made") })
    }

    /// Records the last step of a slot: call it once after each `supply`, the last one included.
    /// With `recorded=candidates` the session needs `Options::trace`.
    pub fn observe(&mut self, session: &mut Session, slot: usize) -> Result<()> {
        let slot = index("slot", slot)?;
        check(unsafe { sys::unmask_calibrator_observe(self.raw.as_ptr(), session.raw(), slot) })
    }

    /// Text of the profile of what has been recorded, for a file that `calibrated_threshold` names.
    pub fn profile(&mut self) -> Result<String> {
        let mut text = null();
        check(unsafe { sys::unmask_calibrator_profile(self.raw.as_ptr(), &mut text) })?;
        Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

impl Drop for Calibrator {
    fn drop(&mut self) {
        unsafe { sys::unmask_calibrator_free(self.raw.as_ptr()) }
    }
}
