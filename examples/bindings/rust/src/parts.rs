// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Parts of policies for which a function decides.
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null;
use std::slice::from_raw_parts;

use crate::{c_text, check, index, sys, Result, StepCandidate};

/// What a function decides, and its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Which candidates commit: 1 or 0 for each.
    Rule,
    /// Their order: a score for each, the higher commits earlier, NaN last.
    Ranking,
    /// 0 keeps a candidate, 1 ranks it last, 2 rejects it, 3 takes it out of the step.
    Filter,
    /// One answer: 0 running, or the end 2 EOS token, 3 stop tokens, 4 max steps.
    Stop,
}

/// An argument of a part, with its default and the values that it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Argument<'a> {
    pub name: &'a str,
    pub value: f64,
    /// The least and the largest value; `None`: any.
    pub range: Option<(f64, f64)>,
    pub whole: bool,
}

/// A step of a sequence, before its commits, as a function sees it.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    raw: &'a sys::unmask_step,
    lent: PhantomData<&'a ()>,
}

impl<'a> Step<'a> {
    /// For a rule the candidates that it decides about, the best-ranked first; for a ranking or a
    /// filter all, in ascending positions; for a stop none.
    pub fn candidates(&self) -> &'a [StepCandidate] {
        list(self.raw.candidates, self.raw.candidate_count)
    }
    /// The tokens of the sequence.
    pub fn tokens(&self) -> &'a [i32] {
        list(self.raw.tokens, self.raw.length)
    }
    /// For each position 0 fixed, 1 masked, 2 committed.
    pub fn marks(&self) -> &'a [u8] {
        list(self.raw.marks, self.raw.length)
    }
    /// Values of the part's arguments.
    pub fn arguments(&self) -> &'a [f32] {
        list(self.raw.arguments, self.raw.argument_count)
    }
    /// The numbers of the step.
    pub fn numbers(&self) -> &'a sys::unmask_step {
        self.raw
    }
}

fn list<'a, T>(first: *const T, count: i32) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    unsafe { from_raw_parts(first, count as usize) }
}

type Function = Box<dyn Fn(&Step, &mut [f32]) + Send + Sync>;

struct Owned {
    function: Function,
    stage: Stage,
}

unsafe extern "C" fn call(context: *mut c_void, step: *const sys::unmask_step, answers: *mut f32) -> i32 {
    let owned = &*context.cast::<Owned>();
    let step = Step { raw: &*step, lent: PhantomData };
    let count = if owned.stage == Stage::Stop { 1 } else { step.candidates().len() };
    let answers = std::slice::from_raw_parts_mut(answers, count);
    match catch_unwind(AssertUnwindSafe(|| (owned.function)(&step, answers))) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// Gives a function a name: texts of policies know it as a part from then on, in all sessions of
/// the process. It writes an answer for each candidate, 0 at first, or one for a stop. If it
/// panics, or writes a wrong answer, its sequence is cancelled and `Session::supply` fails with a
/// message that names it.
pub fn register_part<F>(stage: Stage, name: &str, about: &str, arguments: &[Argument], function: F) -> Result<()>
where
    F: Fn(&Step, &mut [f32]) + Send + Sync + 'static,
{
    let (called, line) = (c_text("name", name)?, c_text("about", about)?);
    let names = arguments.iter().map(|a| c_text("name", a.name)).collect::<Result<Vec<_>>>()?;
    let all: Vec<_> = arguments
        .iter()
        .zip(&names)
        .map(|(a, name)| sys::unmask_part_argument {
            name: name.as_ptr(),
            value: a.value,
            least: a.range.map_or(0.0, |r| r.0),
            most: a.range.map_or(0.0, |r| r.1),
            whole: a.whole as i32,
        })
        .collect();
    let argument_count = index("arguments", all.len())?;
    let owned = Box::into_raw(Box::new(Owned { function: Box::new(function), stage }));
    let part = sys::unmask_part {
        struct_size: size_of::<sys::unmask_part>() as u32,
        stage: match stage {
            Stage::Rule => sys::RULE,
            Stage::Ranking => sys::RANKING,
            Stage::Filter => sys::FILTER,
            Stage::Stop => sys::STOP,
        },
        step_size: size_of::<sys::unmask_step>() as u32,
        candidate_size: size_of::<StepCandidate>() as u32,
        name: called.as_ptr(),
        about: line.as_ptr(),
        arguments: if all.is_empty() { null() } else { all.as_ptr() },
        argument_count,
        argument_size: size_of::<sys::unmask_part_argument>() as u32,
        function: Some(call),
        context: owned.cast(),
    };
    let made = check(unsafe { sys::unmask_register_part(&part) });
    if made.is_err() {
        drop(unsafe { Box::from_raw(owned) });
    }
    made
}
