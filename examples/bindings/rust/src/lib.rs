// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Decoding policies for masked diffusion language models.
//!
//! An engine computes logits; a policy, given as text, decides which masked positions to fill with
//! which tokens. [`Session`] requests forward passes for any number of sequences; it owns their
//! tokens. Engines that compute single positions of their layers use the calls from
//! [`Session::layer_rule`] on. This is the C interface of the library, `<unmask/c_api.h>`, without
//! its pointers: [`sys`] has it as it is.
//!
//! ```no_run
//! use unmask::{Options, Rows, Sequence, Session};
//! # fn engine(_: &[i32], _: std::ops::Range<usize>) -> Vec<f32> { vec![] }
//! # fn main() -> Result<(), unmask::Error> {
//! let mut session = Session::new("trace_credit + threshold(0.9)",
//!                                &Options { vocab: 126_464, mask_token: 126_336, length: 512, window: 32,
//!                                           ..Options::default() })?;
//! session.start(0, vec![126_336; 512], &Sequence { prompt_length: 0, ..Sequence::default() })?;
//! while let Some(request) = session.next()? {
//!     let logits = engine(session.tokens(0), request.segments[0].rows.clone());
//!     session.supply(Rows::f32(&logits, 126_464))?;
//! }
//! # Ok(())
//! # }
//! ```

use std::ffi::{CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::Range;
use std::os::raw::c_char;
use std::ptr::{null, null_mut, NonNull};

mod calibrator;
mod constraints;
mod languages;
mod parts;
mod rows;
pub mod sys;
mod values;

pub use calibrator::Calibrator;
pub use constraints::{ByteAutomaton, ConstrainedField, Constraint, Vocabulary};
pub use languages::{Expressions, Grammars, Language, Limits, Schemas};
pub use parts::{register_part, Argument, Stage, Step};
pub use rows::{Modifiers, Rows, Stored};
pub use sys::{
    unmask_candidate as Candidate, unmask_commit as Commit, unmask_probability as Probability,
    unmask_step_candidate as StepCandidate,
};
pub use values::*;

/// Kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// An argument breaks a rule.
    InvalidArgument,
    /// Another call has to be made before this one.
    OutOfOrder,
    /// No memory for it.
    OutOfMemory,
    /// Not built into the library, or the library is older than this crate.
    Unsupported,
    /// Anything else.
    Failed,
}

/// A call that failed, which has changed nothing. The message names argument, value and rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

fn invalid(message: String) -> Error {
    Error { kind: ErrorKind::InvalidArgument, message }
}

fn check(status: sys::unmask_status) -> Result<()> {
    let kind = match status {
        sys::OK => return Ok(()),
        sys::INVALID_ARGUMENT => ErrorKind::InvalidArgument,
        sys::OUT_OF_ORDER => ErrorKind::OutOfOrder,
        sys::OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        sys::UNSUPPORTED => ErrorKind::Unsupported,
        _ => ErrorKind::Failed,
    };
    Err(Error { kind, message: text(unsafe { sys::unmask_last_error() }) })
}

fn text(from: *const c_char) -> String {
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

fn c_text(name: &str, from: &str) -> Result<CString> {
    CString::new(from).map_err(|e| {
        invalid(format!("{name} must have no NUL character, got one at byte {}", e.nul_position()))
    })
}

fn index(name: &str, value: usize) -> Result<i32> {
    i32::try_from(value)
        .map_err(|_| invalid(format!("{name} must be at most {}, got {value}", i32::MAX)))
}

fn evict_of(value: i32) -> Evict {
    match value {
        1 => Evict::Choose,
        2 => Evict::Chosen,
        _ => Evict::None,
    }
}

fn range(first: i32, last: i32) -> Range<usize> {
    first as usize..last as usize
}

/// The entries of a list that the library owns.
unsafe fn entries<'a, T>(first: *const T, count: i32) -> &'a [T] {
    if count <= 0 {
        &[]
    } else {
        std::slice::from_raw_parts(first, count as usize)
    }
}

/// The version of the library, "0.1.0".
pub fn version() -> String {
    text(unsafe { sys::unmask_version() })
}
/// The parts that a policy can be composed of, with their arguments, as text.
pub fn describe_parts() -> String {
    text(unsafe { sys::unmask_describe_parts() })
}
/// The released models that have a word, with their policies, numbers and sources, as text.
pub fn describe_models() -> String {
    text(unsafe { sys::unmask_describe_models() })
}
/// The word for a model, "model:llada2_1", by the `model_type` of its configuration or the
/// architecture of its GGUF file, and by the name of its checkpoint.
pub fn model_of(model_type: &str, checkpoint: &str) -> Result<Option<String>> {
    let model_type = c_text("model_type", model_type)?;
    let checkpoint = c_text("checkpoint", checkpoint)?;
    let word = unsafe { sys::unmask_model_of(model_type.as_ptr(), checkpoint.as_ptr()) };
    Ok((!word.is_null()).then(|| text(word)))
}
/// Checks the text of a policy, and reads the file that it names, if any.
pub fn check_policy(policy: &str) -> Result<()> {
    let policy = c_text("policy", policy)?;
    check(unsafe { sys::unmask_check_policy(policy.as_ptr()) })
}
/// The same for a text from others, which may name no file: [`Options::files`].
pub fn check_policy_without_files(policy: &str) -> Result<()> {
    let policy = c_text("policy", policy)?;
    let flags = sys::NO_FILES | sys::CAUSAL_ATTENTION | sys::SHADOW_ATTENTION;
    check(unsafe { sys::unmask_check_policy_with(policy.as_ptr(), flags) })
}

/// Scores of keys, one a row: their products with the mean query of the decided blocks, all heads
/// in one row. For [`Session::select_keys`].
pub fn score_keys(keys: Rows<'_>, query: &[f32], scores: &mut [f32]) -> Result<()> {
    let view = keys.view()?;
    if view.kind != sys::F32 || query.len() != view.columns as usize {
        return Err(invalid(format!(
            "columns of the query must be those of the keys, {} f32, got {}",
            view.columns,
            query.len()
        )));
    }
    if scores.len() != view.rows as usize {
        return Err(invalid(format!(
            "scores must be as many as keys, {}, got {}",
            view.rows,
            scores.len()
        )));
    }
    check(unsafe { sys::unmask_score_keys(&view, query.as_ptr().cast(), scores.as_mut_ptr()) })
}

fn rule_of(r: &sys::unmask_layer_rule) -> LayerRule {
    let feature = match r.reads {
        0 => Feature::Hidden,
        1 => Feature::Input,
        2 => Feature::Query,
        3 => Feature::Key,
        _ => Feature::Value,
    };
    LayerRule {
        reads: (r.has_hooks != 0).then_some(feature),
        kept: r.kept != 0,
        single_positions: r.single_positions != 0,
        evicts: r.evicts != 0,
    }
}

fn request_of(request: &sys::unmask_request) -> Option<Request> {
    if request.count == 0 {
        return None;
    }
    let segments = unsafe { entries(request.segments, request.count) }
        .iter()
        .map(|s| Segment {
            slot: s.slot as usize,
            branch: s.branch as usize,
            placed: unsafe { entries(s.placed, s.placed_count) }
                .iter()
                .map(|p| (p.position as usize, p.token))
                .collect(),
            query: range(s.query_first, s.query_last),
            keys: range(s.keys_first, s.keys_last),
            rows: range(s.row_first, s.row_last),
            first_row: s.first_row as usize,
            evict: evict_of(s.evict),
            attention: match s.attention {
                1 => Attention::Causal,
                2 => Attention::Shadow(s.shadow_of as usize),
                _ => Attention::Bidirectional,
            },
            logits_shift: s.logits_shift as usize,
        })
        .collect();
    Some(Request { segments, rows: request.rows as usize })
}

/// The tokens of a slot: the library writes them between calls, so no Rust reference may last.
struct Tokens {
    first: NonNull<i32>,
    count: usize,
}

impl Tokens {
    fn new(tokens: Vec<i32>) -> Tokens {
        let boxed = Box::leak(tokens.into_boxed_slice());
        Tokens { count: boxed.len(), first: NonNull::from(boxed).cast() }
    }
}
impl Drop for Tokens {
    fn drop(&mut self) {
        let whole = std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.count);
        drop(unsafe { Box::from_raw(whole) });
    }
}

/// Decodes one or many sequences with a policy. One thread at a time may use it.
pub struct Session {
    raw: NonNull<sys::unmask_session>,
    tokens: Vec<Option<Tokens>>,
    vocab: i32,
    one_thread: PhantomData<*mut ()>,
}

unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        unsafe { sys::unmask_destroy(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("slots", &self.tokens.len()).finish()
    }
}

macro_rules! empty {
    ($name:ident) => {
        sys::$name { struct_size: size_of::<sys::$name>() as u32, ..unsafe { std::mem::zeroed() } }
    };
}

fn empty_request() -> sys::unmask_request {
    sys::unmask_request {
        segment_size: size_of::<sys::unmask_segment>() as u32,
        ..empty!(unmask_request)
    }
}

fn c_options(options: &Options) -> sys::unmask_options {
    sys::unmask_options {
        memory_space: sys::HOST,
        threads: options.threads,
        vocab: options.vocab,
        mask_token: options.mask_token,
        eos_token: options.eos_token.unwrap_or(sys::NO_TOKEN),
        logits_shift: options.logits_shift,
        sequences: options.sequences,
        length: options.length,
        window: options.window,
        trace: options.trace.into(),
        layers: options.layers,
        propose_mask: (!options.suppress_mask).into(),
        branches: options.branches,
        flags: (if options.files { 0 } else { sys::NO_FILES })
            | (if options.causal_attention { sys::CAUSAL_ATTENTION } else { 0 })
            | (if options.shadow_attention { sys::SHADOW_ATTENTION } else { 0 }),
        ..empty!(unmask_options)
    }
}

/// Requirements of a policy for sequences of `length` positions, before a session is made;
/// [`Options::window`] may be 0.
pub fn requirements(
    policy: &str,
    options: &Options,
    length: usize,
    sequence: &Sequence<'_>,
) -> Result<Requirements> {
    let policy = c_text("policy", policy)?;
    let q = sys::unmask_sequence {
        prompt_length: index("prompt_length", sequence.prompt_length)?,
        length: index("length", length)?,
        block_length: sequence.block_length.try_into().unwrap_or(i32::MAX),
        ..empty!(unmask_sequence)
    };
    let mut r = empty!(unmask_requirements);
    let o = c_options(options);
    check(unsafe { sys::unmask_get_requirements(policy.as_ptr(), &o, &q, &mut r) })?;
    Ok(Requirements {
        window: r.window as usize,
        most_forwards: r.most_forwards,
        state_bytes: r.state_bytes,
    })
}

impl Session {
    /// A session of a policy such as "trace_credit + threshold(0.9)" or "es_dllm".
    pub fn new(policy: &str, options: &Options) -> Result<Session> {
        let policy = c_text("policy", policy)?;
        let o = c_options(options);
        let mut raw = null_mut();
        check(unsafe { sys::unmask_create(policy.as_ptr(), &o, &mut raw) })?;
        let mut tokens = Vec::new();
        tokens.resize_with(options.sequences as usize, || None);
        Ok(Session {
            raw: NonNull::new(raw).expect("a session that was made"),
            tokens,
            vocab: options.vocab,
            one_thread: PhantomData,
        })
    }

    fn raw(&self) -> *mut sys::unmask_session {
        self.raw.as_ptr()
    }

    /// Starts a sequence in a slot: masks the positions behind the prompt, or those where `editable`
    /// is 1. One that still runs in the slot is given up without an error, and its tokens are dropped.
    pub fn start(&mut self, slot: usize, tokens: Vec<i32>, sequence: &Sequence<'_>) -> Result<()> {
        let count = index("number of tokens", tokens.len())?;
        if let Some(editable) = sequence.editable {
            if editable.len() != tokens.len() {
                return Err(invalid(format!(
                    "editable must have one entry for each of the {count} tokens, got {}",
                    editable.len()
                )));
            }
        }
        let policy = sequence.policy.map(|p| c_text("policy", p)).transpose()?;
        if sequence.constraint.is_some() && !sequence.fields.is_empty() {
            return Err(invalid("constraint and fields are both given: a constraint is one field".into()));
        }
        let whole = sequence.constraint.map(Constraint::whole_answer);
        let fields: Vec<_> =
            whole.iter().chain(sequence.fields).map(ConstrainedField::raw).collect::<Result<_>>()?;
        let q = sys::unmask_sequence {
            prompt_length: index("prompt_length", sequence.prompt_length)?,
            length: count,
            block_length: sequence.block_length.try_into().unwrap_or(i32::MAX),
            seed: sequence.seed,
            sequence: sequence.sequence,
            suppressed_count: index("suppressed", sequence.suppressed.len())? as u32,
            suppressed: sequence.suppressed.as_ptr(),
            editable: sequence.editable.map_or(null(), <[u8]>::as_ptr),
            policy: policy.as_ref().map_or(null(), |p| p.as_ptr()),
            constraints: fields.as_ptr(),
            constraint_count: index("fields", fields.len())? as u32,
            soft_tokens: index("soft_tokens", sequence.soft_tokens)?,
            ..empty!(unmask_sequence)
        };
        let fresh = Tokens::new(tokens);
        let slot_index = index("slot", slot)?;
        check(unsafe {
            sys::unmask_start(self.raw(), slot_index, fresh.first.as_ptr(), count, &q)
        })?;
        self.tokens[slot] = Some(fresh);
        Ok(())
    }

    /// The tokens of a slot, as far as they are decided; empty before the first `start`.
    pub fn tokens(&self, slot: usize) -> &[i32] {
        match self.tokens.get(slot) {
            Some(Some(t)) => unsafe { std::slice::from_raw_parts(t.first.as_ptr(), t.count) },
            _ => &[],
        }
    }

    /// The next forward pass; `None` when no sequence runs. The same until `supply`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Request>> {
        let mut request = empty_request();
        check(unsafe { sys::unmask_next(self.raw(), &mut request) })?;
        Ok(request_of(&request))
    }
    /// Like `next`, for some slots only, of which those that run are in the pass. `None` if none of
    /// them runs, also for no slots. Not while a request is out.
    pub fn next_slots(&mut self, slots: &[usize]) -> Result<Option<Request>> {
        let slots = slots.iter().map(|&s| index("slot", s)).collect::<Result<Vec<i32>>>()?;
        let mut request = empty_request();
        let count = index("number of slots", slots.len())?;
        check(unsafe { sys::unmask_next_slots(self.raw(), slots.as_ptr(), count, &mut request) })?;
        Ok(request_of(&request))
    }

    /// Takes the logits of the request (or log-probabilities, never probabilities), the rows of its
    /// segments behind each other, and decides.
    pub fn supply(&mut self, logits: Rows<'_>) -> Result<()> {
        let view = logits.view()?;
        check(unsafe { sys::unmask_supply(self.raw(), &view) })
    }

    /// Takes the logits of each segment, in the request's order, and modifiers for each or for none.
    pub fn supply_segments(
        &mut self,
        logits: &[Rows<'_>],
        modifiers: &[Modifiers<'_>],
    ) -> Result<()> {
        if !modifiers.is_empty() && modifiers.len() != logits.len() {
            return Err(invalid(format!(
                "number of modifiers must be 0 or that of the tensors, {}, got {}",
                logits.len(),
                modifiers.len()
            )));
        }
        let tensors = logits.iter().map(Rows::view).collect::<Result<Vec<_>>>()?;
        let beside = modifiers
            .iter()
            .zip(&tensors)
            .map(|(m, z)| m.view(z, self.vocab()))
            .collect::<Result<Vec<_>>>()?;
        let modifiers = if beside.is_empty() { null() } else { beside.as_ptr() };
        let count = index("number of tensors", tensors.len())?;
        check(unsafe {
            sys::unmask_supply_segments(self.raw(), tensors.as_ptr(), modifiers, count)
        })
    }

    /// Decides one block once, for a host that keeps the loop; returns which tokens were written.
    /// Masked are the positions that `editable` marks, or those that contain the mask token.
    pub fn decide(
        &mut self,
        slot: usize,
        tokens: &mut [i32],
        editable: Option<&[bool]>,
        seed: u64,
        logits: Rows<'_>,
    ) -> Result<Vec<bool>> {
        let count = index("number of tokens", tokens.len())?;
        if editable.map_or(false, |e| e.len() != tokens.len()) {
            return Err(invalid("editable must have one entry for each token".into()));
        }
        let view = logits.view()?;
        let mut transfer = vec![0u8; tokens.len()];
        let slot = index("slot", slot)?;
        check(unsafe {
            sys::unmask_decide(
                self.raw(),
                slot,
                tokens.as_mut_ptr(),
                count,
                editable.map_or(null(), |e| e.as_ptr().cast()),
                seed,
                &view,
                transfer.as_mut_ptr(),
            )
        })?;
        Ok(transfer.into_iter().map(|t| t != 0).collect())
    }

    /// The state of a constrained field after its committed prefix: [`ConstrainedField::state`] of
    /// the sequence with the next block.
    pub fn constraint_state(&mut self, slot: usize, field: usize) -> Result<u32> {
        let mut state = 0;
        check(unsafe {
            sys::unmask_constraint_state(
                self.raw(),
                index("slot", slot)?,
                index("field", field)? as u32,
                &mut state,
            )
        })?;
        Ok(state)
    }

    /// Report of the sequence in a slot.
    pub fn report(&self, slot: usize) -> Result<Report> {
        let mut r = empty!(unmask_report);
        check(unsafe { sys::unmask_get_report(self.raw(), index("slot", slot)?, &mut r) })?;
        Ok(Report {
            end: match r.end {
                0 => Ending::Running,
                1 => Ending::Complete,
                2 => Ending::EosToken,
                3 => Ending::StopTokens,
                4 => Ending::MaxSteps,
                5 => Ending::Cancelled,
                _ => Ending::Idle,
            },
            forwards: r.forwards as usize,
            committed: r.committed as usize,
            committed_prefix: r.committed_prefix as usize,
            masked: r.masked as usize,
            rewritten: r.rewritten as usize,
            forced: r.forced as usize,
            invalid_rows: r.invalid_rows as usize,
            second_reads: r.second_reads as usize,
            answer_end: r.answer_end as usize,
            refused: r.refused as usize,
            filled: r.filled as usize,
            constraint_met: r.constraint_met != 0,
        })
    }

    /// Plan of a slot's next step.
    pub fn plan(&self, slot: usize) -> Result<Plan> {
        let mut p = empty!(unmask_plan);
        check(unsafe { sys::unmask_get_plan(self.raw(), index("slot", slot)?, &mut p) })?;
        Ok(Plan {
            winner: p.winner as usize,
            freeze: range(p.freeze_first, p.freeze_last),
            refresh: p.refresh != 0,
        })
    }

    /// Ends a sequence in its current state.
    pub fn cancel(&mut self, slot: usize) -> Result<()> {
        check(unsafe { sys::unmask_cancel(self.raw(), index("slot", slot)?) })
    }
    /// Forgets the request of a forward pass that failed: `next` requests the same step again.
    pub fn abandon(&mut self) -> Result<()> {
        check(unsafe { sys::unmask_abandon(self.raw()) })
    }
    /// Cancels every sequence of the request and forgets it.
    pub fn cancel_request(&mut self) -> Result<()> {
        check(unsafe { sys::unmask_cancel_request(self.raw()) })
    }
    /// Records the decodes as a trace in a file; needs `Options::trace`, before the first `start`.
    /// A line that the file does not take ends the recording: `supply`, a `cancel`, or the `start` of
    /// a sequence with nothing to decode, which have had their effect, then fail once.
    pub fn record(&mut self, file: &str, model: &str) -> Result<()> {
        let (file, model) = (c_text("file", file)?, c_text("model", model)?);
        check(unsafe { sys::unmask_record(self.raw(), file.as_ptr(), model.as_ptr()) })
    }

    /// Tokens that the last step wrote in a slot.
    pub fn committed(&mut self, slot: usize) -> Result<&[Commit]> {
        self.list("slot", slot, |raw, i, e, n| unsafe {
            sys::unmask_committed(raw, i, size_of::<sys::unmask_commit>(), e, n)
        })
    }
    /// Candidates of the last step; needs `Options::trace`.
    pub fn candidates(&mut self, slot: usize) -> Result<&[Candidate]> {
        self.list("slot", slot, |raw, i, e, n| unsafe {
            sys::unmask_candidates(raw, i, size_of::<sys::unmask_candidate>(), e, n)
        })
    }
    /// Probabilities of the tokens that the policy probes, in the last step.
    pub fn probabilities(&mut self, slot: usize) -> Result<&[Probability]> {
        self.list("slot", slot, |raw, i, e, n| unsafe {
            sys::unmask_probabilities(raw, i, size_of::<sys::unmask_probability>(), e, n)
        })
    }

    /// The most probable tokens of each position that the last step read and left masked, best
    /// first: as many as [`Sequence::soft_tokens`]. For an engine that feeds such a position with a
    /// mixture of embeddings.
    pub fn soft_tokens(&mut self, slot: usize) -> Result<&[Probability]> {
        self.list("slot", slot, |raw, i, e, n| unsafe {
            sys::unmask_soft_tokens(raw, i, size_of::<sys::unmask_probability>(), e, n)
        })
    }
    /// The same of each position that the last step read and committed. A token that was drawn need
    /// not be among them.
    pub fn alternatives(&mut self, slot: usize) -> Result<&[Probability]> {
        self.list("slot", slot, |raw, i, e, n| unsafe {
            sys::unmask_alternatives(raw, i, size_of::<sys::unmask_probability>(), e, n)
        })
    }

    /// Demands of the policy on an engine that computes single positions of its layers. The calls
    /// below belong between `next` and `supply`; examples/bindings/c/layers.c makes all of them.
    pub fn layer_rule(&self) -> Result<LayerRule> {
        let mut r = empty!(unmask_layer_rule);
        check(unsafe { sys::unmask_get_layer_rule(self.raw(), &mut r) })?;
        Ok(rule_of(&r))
    }
    /// Those of the policy of a segment's sequence, which [`Sequence::policy`] may have named.
    pub fn segment_rule(&self, segment: usize) -> Result<LayerRule> {
        let mut r = empty!(unmask_layer_rule);
        let segment = index("segment", segment)?;
        check(unsafe { sys::unmask_get_segment_rule(self.raw(), segment, &mut r) })?;
        Ok(rule_of(&r))
    }
    /// Positions that the next layer computes, ascending.
    pub fn positions(&mut self, segment: usize) -> Result<&[i32]> {
        self.list("segment", segment, |raw, i, e, n| unsafe { sys::unmask_positions(raw, i, e, n) })
    }
    /// Whether `at_layer` has to be called for a layer.
    pub fn hooks(&self, segment: usize, layer: usize) -> Result<bool> {
        let mut hooked = 0;
        let (segment, layer) = (index("segment", segment)?, index("layer", layer)?);
        check(unsafe { sys::unmask_hooks(self.raw(), segment, layer, &mut hooked) })?;
        Ok(hooked != 0)
    }
    /// Chooses the positions that are computed at a layer: indices of their rows in `now`, which
    /// has one for each of `positions`. `stored` has one for each position of the sequence, the
    /// engine's own of this layer, and is written.
    pub fn at_layer(
        &mut self,
        segment: usize,
        layer: usize,
        now: Rows<'_>,
        stored: Stored<'_>,
    ) -> Result<&[i32]> {
        let (now, stored) = (now.view()?, stored.view()?);
        let layer = index("layer", layer)?;
        self.list("segment", segment, |raw, i, e, n| unsafe {
            sys::unmask_at_layer(raw, i, layer, &now, &stored, e, n)
        })
    }
    /// Rows whose logits to return, behind the last layer: indices into `positions`.
    pub fn rows(&mut self, segment: usize) -> Result<&[i32]> {
        self.list("segment", segment, |raw, i, e, n| unsafe { sys::unmask_rows(raw, i, e, n) })
    }
    /// Eviction of keys in the pass of a segment.
    pub fn eviction(&self, segment: usize) -> Result<Eviction> {
        let mut e = empty!(unmask_eviction);
        check(unsafe { sys::unmask_get_eviction(self.raw(), index("segment", segment)?, &mut e) })?;
        Ok(Eviction {
            evict: evict_of(e.evict),
            blocks: range(e.first, e.last),
            keep: e.keep,
            pool: e.pool as usize,
        })
    }
    /// Selects the keys that one layer keeps, in a pass with [`Evict::Choose`], by the scores of the
    /// keys of [0, `Segment::keys.end`): the kept positions outside the decided blocks.
    pub fn select_keys(&mut self, segment: usize, scores: &[f32]) -> Result<&[i32]> {
        let count = index("number of scores", scores.len())?;
        self.list("segment", segment, |raw, i, e, n| unsafe {
            sys::unmask_select_keys(raw, i, scores.as_ptr(), count, e, n)
        })
    }

    /// Columns of logits that are read.
    pub fn vocab(&self) -> usize {
        self.vocab as usize
    }

    // A list about a slot or segment, which the session owns as long as nothing else is called.
    fn list<T>(
        &mut self,
        name: &str,
        of: usize,
        call: impl FnOnce(*mut sys::unmask_session, i32, *mut *const T, *mut i32) -> sys::unmask_status,
    ) -> Result<&[T]> {
        let (mut first, mut count) = (null(), 0);
        check(call(self.raw(), index(name, of)?, &mut first, &mut count))?;
        Ok(unsafe { entries(first, count) })
    }
}
