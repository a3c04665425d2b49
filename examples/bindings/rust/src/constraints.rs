// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Answers that obey a regular language: `<unmask/c_constraints.h>`.
use std::ptr::{null, null_mut, NonNull};

use crate::{c_options, c_text, check, index, invalid, sys, Options, Result};

/// The bytes of each token of a model.
#[derive(Debug)]
pub struct Vocabulary {
    pub(crate) raw: NonNull<sys::unmask_vocabulary>,
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
    pub(crate) fn made(
        make: impl FnOnce(*mut *mut sys::unmask_constraint) -> sys::unmask_status,
    ) -> Result<Constraint> {
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

    /// A language given by transitions over tokens, `(state, token, next state)`, such as those of
    /// an outlines-core Index; `accepting` has an entry for each state.
    pub fn from_transitions(
        transitions: &[(u32, i32, u32)],
        start: u32,
        accepting: &[bool],
        words: &Vocabulary,
    ) -> Result<Constraint> {
        let list: Vec<_> = transitions
            .iter()
            .map(|&(from, token, next)| sys::unmask_token_transition { from, token, next })
            .collect();
        let states = index("states", accepting.len())? as u32;
        Constraint::made(|raw| unsafe {
            sys::unmask_constraint_from_transitions(
                list.as_ptr(),
                list.len(),
                states,
                start,
                accepting.as_ptr().cast(),
                words.raw.as_ptr(),
                null(),
                raw,
            )
        })
    }

    /// The field of the whole answer.
    pub fn whole_answer(&self) -> ConstrainedField<'_> {
        ConstrainedField {
            language: self,
            first: 0,
            last: None,
            tokens_after: Some(0),
            state: None,
            fill: true,
            read_again: false,
        }
    }
}

/// Positions of an answer whose tokens are to form a string of a language; several fields of one
/// answer come from left to right and do not overlap. [`Constraint::whole_answer`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct ConstrainedField<'a> {
    pub language: &'a Constraint,
    /// Positions, counted from the end of the prompt; `last` is one after them, `None` the end.
    pub first: usize,
    pub last: Option<usize>,
    /// Tokens that follow in later sequences, of an answer decoded block by block; `None`: any number.
    pub tokens_after: Option<usize>,
    /// [`crate::Session::constraint_state`] of the block before; `None`: the first state.
    pub state: Option<u32>,
    /// Whether a token that is certain is written without a forward pass.
    pub fill: bool,
    /// Whether refused candidates are read again, from the logits of the step, and committed in it.
    /// What parts of the policy remember of such a position begins anew there.
    pub read_again: bool,
}

impl ConstrainedField<'_> {
    pub(crate) fn raw(&self) -> Result<sys::unmask_constrained_field> {
        Ok(sys::unmask_constrained_field {
            language: self.language.raw.as_ptr(),
            first: index("first", self.first)?,
            last: self.last.map_or(Ok(i32::MAX), |n| index("last", n))?,
            tokens_after: self.tokens_after.map_or(Ok(-1), |n| index("tokens_after", n))?,
            state: self.state.map_or(0, |s| s.wrapping_add(1)),
            no_fill: i32::from(!self.fill),
            read_again: i32::from(self.read_again),
        })
    }
}

impl Drop for Constraint {
    fn drop(&mut self) {
        unsafe { sys::unmask_constraint_free(self.raw.as_ptr()) }
    }
}
