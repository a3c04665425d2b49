// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Answers that obey a regular language: `<unmask/c_constraints.h>`.
use std::ptr::{null, null_mut, NonNull};

use crate::{c_options, c_text, check, index, invalid, sys, Options, Result};

/// The bytes of each token of a model.
#[derive(Debug)]
pub struct Vocabulary {
    raw: NonNull<sys::unmask_vocabulary>,
}

impl Vocabulary {
    /// Takes the bytes of every token, empty for tokens without text. `also_eos` are tokens besides
    /// [`Options::eos_token`] that end an answer.
    pub fn new<T: AsRef<[u8]>>(tokens: &[T], options: &Options, also_eos: &[i32]) -> Result<Vocabulary> {
        let bytes: Vec<_> = tokens
            .iter()
            .map(|t| sys::unmask_token_bytes { data: t.as_ref().as_ptr().cast(), size: t.as_ref().len() })
            .collect();
        let count = index("number of tokens", bytes.len())?;
        let ends = index("also_eos", also_eos.len())?;
        let o = c_options(options);
        let mut raw = null_mut();
        check(unsafe {
            sys::unmask_vocabulary_new(bytes.as_ptr(), count, &o, also_eos.as_ptr(), ends, &mut raw)
        })?;
        Ok(Vocabulary { raw: NonNull::new(raw).expect("a vocabulary that was made") })
    }
}

impl Drop for Vocabulary {
    fn drop(&mut self) {
        unsafe { sys::unmask_vocabulary_free(self.raw.as_ptr()) }
    }
}

/// A deterministic automaton over bytes.
pub struct ByteAutomaton<'a> {
    /// `[states][256]`: the state after each byte, or `u32::MAX`.
    pub next: &'a [u32],
    /// `[states]`: where a string may end.
    pub accepting: &'a [bool],
    /// The state before the first byte.
    pub start: u32,
}

/// A regular language over the tokens of a model, and the memory that its sequences share. For one
/// thread at a time; [`Constraint::another`] makes one for another thread.
#[derive(Debug)]
pub struct Constraint {
    raw: NonNull<sys::unmask_constraint>,
}

impl Constraint {
    fn made(make: impl FnOnce(*mut *mut sys::unmask_constraint) -> sys::unmask_status) -> Result<Constraint> {
        let mut raw = null_mut();
        check(make(&mut raw))?;
        Ok(Constraint { raw: NonNull::new(raw).expect("a constraint that was made") })
    }

    /// Lifts an automaton to the tokens of a vocabulary.
    pub fn new(automaton: &ByteAutomaton<'_>, words: &Vocabulary) -> Result<Constraint> {
        if automaton.next.len() != 256 * automaton.accepting.len() {
            return Err(invalid(format!(
                "next must have 256 entries for each of {} states, got {}",
                automaton.accepting.len(),
                automaton.next.len()
            )));
        }
        let a = sys::unmask_byte_automaton {
            struct_size: std::mem::size_of::<sys::unmask_byte_automaton>() as u32,
            states: index("states", automaton.accepting.len())? as u32,
            next: automaton.next.as_ptr(),
            accepting: automaton.accepting.as_ptr().cast(),
            start: automaton.start,
            reserved: 0,
        };
        Constraint::made(|raw| unsafe { sys::unmask_constraint_new(&a, words.raw.as_ptr(), null(), raw) })
    }

    /// Reads a file of `unmask.constraints.save()` in Python or `write_byte_table()` in C++.
    pub fn read(file: &str, words: &Vocabulary) -> Result<Constraint> {
        let file = c_text("file", file)?;
        Constraint::made(|raw| unsafe {
            sys::unmask_constraint_read(file.as_ptr(), words.raw.as_ptr(), null(), raw)
        })
    }

    /// The same language with a separate memory.
    pub fn another(&self) -> Result<Constraint> {
        Constraint::made(|raw| unsafe { sys::unmask_constraint_another(self.raw.as_ptr(), raw) })
    }

    /// Fewest tokens of a string of the language.
    pub fn shortest(&self) -> usize {
        unsafe { sys::unmask_constraint_shortest(self.raw.as_ptr()) as usize }
    }

    /// Whether tokens are a string of the language, with or without EOS tokens after it.
    pub fn accepts(&self, tokens: &[i32]) -> Result<bool> {
        let count = index("number of tokens", tokens.len())?;
        let mut accepts = 0;
        check(unsafe {
            sys::unmask_constraint_accepts(self.raw.as_ptr(), tokens.as_ptr(), count, &mut accepts)
        })?;
        Ok(accepts != 0)
    }

    pub(crate) fn whole_answer(&self) -> sys::unmask_constrained_field {
        sys::unmask_constrained_field {
            language: self.raw.as_ptr(),
            first: 0,
            last: i32::MAX,
            tokens_after: 0,
            state: 0,
            no_fill: 0,
            read_again: 0,
        }
    }
}

impl Drop for Constraint {
    fn drop(&mut self) {
        unsafe { sys::unmask_constraint_free(self.raw.as_ptr()) }
    }
}
