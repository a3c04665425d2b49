// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Views of an engine's tensors.

use crate::{index, invalid, sys, Result};
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::Range;
use std::os::raw::c_void;
use std::ptr::null;

/// Rows of numbers in memory: logits or log-probabilities (never probabilities, which decode one
/// forced token a pass), or a tensor of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: *const c_void,
    len: usize,
    kind: i32,
    columns: usize,
    stride: usize,
    borrowed: PhantomData<&'a [u16]>,
}

/// Per-row inputs of the logits of a segment, applied while they are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modifiers<'a> {
    /// ceil(vocab / 32) words for each row, or once for all rows; bit v % 32 of word v / 32 is set
    /// where token v is allowed. `None`: all are.
    pub allowed: Option<&'a [u32]>,
    /// Unconditional rows u, of the type of the logits.
    pub unconditional: Option<Rows<'a>>,
    /// Guidance s: u + (s + 1)(c - u) is read for c; 0 is off.
    pub cfg_scale: f32,
}

impl Modifiers<'_> {
    /// Beside rows of logits, of which `vocab` columns are read.
    pub(crate) fn view(
        &self,
        logits: &sys::unmask_logits,
        vocab: usize,
    ) -> Result<sys::unmask_modifiers> {
        let mut view = sys::unmask_modifiers {
            struct_size: size_of::<sys::unmask_modifiers>() as u32,
            cfg_scale: self.cfg_scale,
            allowed: null(),
            allowed_stride: 0,
            unconditional: null(),
            unconditional_stride: 0,
        };
        let (words, rows) = ((vocab + 31) / 32, logits.rows as usize);
        if let Some(allowed) = self.allowed {
            if allowed.len() != words && allowed.len() != words * rows {
                return Err(invalid(format!(
                    "words of allowed must be {words} for each of {rows} rows or for all, got {}",
                    allowed.len()
                )));
            }
            view.allowed = allowed.as_ptr();
            view.allowed_stride = if allowed.len() == words { 0 } else { words as i64 };
        }
        if let Some(unconditional) = &self.unconditional {
            let u = unconditional.view()?;
            if u.kind != logits.kind || u.rows != logits.rows || (u.columns as usize) < vocab {
                return Err(invalid(format!(
                    "unconditional must have the type and the {rows} rows of the logits and at \
                     least {vocab} columns, got {} rows and {} columns",
                    u.rows, u.columns
                )));
            }
            view.unconditional = u.data;
            view.unconditional_stride = u.stride;
        }
        Ok(view)
    }
}

/// Rows that an engine stores for a layer and lends for a call that overwrites them.
#[derive(Debug)]
pub struct Stored<'a> {
    data: *mut c_void,
    len: usize,
    kind: i32,
    positions: Range<usize>,
    columns: usize,
    borrowed: PhantomData<&'a mut [u16]>,
}

impl<'a> Rows<'a> {
    fn of<T>(data: &'a [T], kind: i32, columns: usize) -> Rows<'a> {
        Rows {
            data: data.as_ptr().cast(),
            len: data.len(),
            kind,
            columns,
            stride: columns,
            borrowed: PhantomData,
        }
    }
    /// Rows of `columns` numbers behind each other.
    pub fn f32(data: &'a [f32], columns: usize) -> Rows<'a> {
        Rows::of(data, sys::F32, columns)
    }
    /// The same of bfloat16, as bits.
    pub fn bf16(data: &'a [u16], columns: usize) -> Rows<'a> {
        Rows::of(data, sys::BF16, columns)
    }
    /// The same of IEEE half precision, as bits.
    pub fn f16(data: &'a [u16], columns: usize) -> Rows<'a> {
        Rows::of(data, sys::F16, columns)
    }
    /// The same with rows that begin every `stride` numbers.
    pub fn with_stride(self, stride: usize) -> Rows<'a> {
        Rows { stride, ..self }
    }

    pub(crate) fn view(&self) -> Result<sys::unmask_logits> {
        let Rows { len, columns, stride, .. } = *self;
        if columns == 0 || stride < columns {
            return Err(invalid(format!(
                "stride of the rows must be at least their columns, {columns}, which are at least 1, got {stride}"
            )));
        }
        // The last row need not have the padding of the others.
        let rows = if len < columns { 0 } else { (len - columns) / stride + 1 };
        if rows > 0 && len > rows.saturating_mul(stride) {
            return Err(invalid(format!(
                "numbers of the rows must be whole rows of {columns}, {stride} apart, got {len}"
            )));
        }
        if rows == 0 && len > 0 {
            return Err(invalid(format!(
                "numbers of the rows must be rows of {columns}, got {len}"
            )));
        }
        Ok(sys::unmask_logits {
            struct_size: size_of::<sys::unmask_logits>() as u32,
            kind: self.kind,
            memory_space: sys::HOST,
            rows: index("number of rows", rows)?,
            columns: index("number of columns", columns)?,
            stride: i64::try_from(stride).unwrap_or(i64::MAX), // refused there
            data: self.data,
        })
    }
}

impl<'a> Stored<'a> {
    fn of<T>(data: &'a mut [T], kind: i32, columns: usize) -> Stored<'a> {
        let positions = 0..data.len().checked_div(columns).unwrap_or(0);
        Stored {
            data: data.as_mut_ptr().cast(),
            len: data.len(),
            kind,
            positions,
            columns,
            borrowed: PhantomData,
        }
    }
    /// Rows of `columns` numbers behind each other, the first that of position 0.
    pub fn f32(data: &'a mut [f32], columns: usize) -> Stored<'a> {
        Stored::of(data, sys::F32, columns)
    }
    /// The same of bfloat16, as bits.
    pub fn bf16(data: &'a mut [u16], columns: usize) -> Stored<'a> {
        Stored::of(data, sys::BF16, columns)
    }
    /// The same of IEEE half precision, as bits.
    pub fn f16(data: &'a mut [u16], columns: usize) -> Stored<'a> {
        Stored::of(data, sys::F16, columns)
    }

    pub(crate) fn view(&self) -> Result<sys::unmask_stored> {
        if self.columns == 0 || self.len != self.positions.len() * self.columns {
            return Err(invalid(format!(
                "stored rows must be whole rows of {} columns, got {} numbers",
                self.columns, self.len
            )));
        }
        Ok(sys::unmask_stored {
            struct_size: size_of::<sys::unmask_stored>() as u32,
            kind: self.kind,
            memory_space: sys::HOST,
            first: 0,
            last: index("number of stored rows", self.positions.len())?,
            columns: index("columns of the stored rows", self.columns)?,
            stride: 0,
            data: self.data,
        })
    }
}
