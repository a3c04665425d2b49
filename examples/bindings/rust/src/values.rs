// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Arguments and results of a session.

use crate::sys;
use std::fmt;
use std::ops::Range;

/// Options of a session: the model, and capacities for all sequences.
#[derive(Clone, Debug)]
pub struct Options {
    /// Valid columns of a row of logits; padding behind them is not read.
    pub vocab: i32,
    /// Stands at masked positions, never proposed.
    pub mask_token: i32,
    pub eos_token: Option<i32>,
    /// Row p - shift predicts position p: 0 LLaDA, 1 Dream.
    pub logits_shift: i32,
    /// Number of slots.
    pub sequences: i32,
    /// Largest number of positions of a sequence, prompt included.
    pub length: i32,
    /// Most rows read in a step: the block length, up to the whole length.
    pub window: i32,
    /// Threads that read rows, with the calling one.
    pub threads: i32,
    /// Each step also reports the candidates that it did not commit.
    pub trace: bool,
    /// Layers of the model, for a policy with a layer rule.
    pub layers: i32,
    /// False: the mask token may be proposed, as in released decoders; its position then stays
    /// masked, and a decode may need `max_steps` to end.
    pub suppress_mask: bool,
    /// Lookahead branches that there is memory for, at least; up to 16.
    pub branches: i32,
    /// Whether the texts of policies may name files. False for texts that come from others.
    pub files: bool,
    /// Whether the engine runs segments with [`Attention::Causal`]; policies that need them are
    /// refused otherwise.
    pub causal_attention: bool,
    /// The same for [`Attention::Shadow`].
    pub shadow_attention: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            vocab: 0,
            mask_token: sys::NO_TOKEN,
            eos_token: None,
            logits_shift: 0,
            sequences: 1,
            length: 0,
            window: 0,
            threads: 1,
            trace: false,
            layers: 0,
            suppress_mask: true,
            branches: 0,
            files: true,
            causal_attention: false,
            shadow_attention: false,
        }
    }
}

/// Geometry and seed of one sequence.
#[derive(Clone, Debug)]
pub struct Sequence<'a> {
    /// Length of the prompt, which never changes.
    pub prompt_length: usize,
    /// Positions decoded together.
    pub block_length: usize,
    pub seed: u64,
    /// Distinguishes sequences of one seed.
    pub sequence: u32,
    /// Tokens never proposed, besides the mask token.
    pub suppressed: &'a [i32],
    /// One entry for each position: 0 fixed, 1 masked, 2 committed: the token stays, and parts that edit or
    /// remask committed tokens may change it. `None`: the whole answer is masked.
    pub editable: Option<&'a [u8]>,
    /// A policy of its own; `None`: the session's.
    pub policy: Option<&'a str>,
    /// The language of the whole answer; `None`: any. [`crate::Session::start`] takes what it needs.
    pub constraint: Option<&'a crate::Constraint>,
    /// In place of it: fields of the answer, each with its language.
    pub fields: &'a [crate::ConstrainedField<'a>],
    /// Tokens of a row in [`crate::Session::soft_tokens`]; 0: none.
    pub soft_tokens: usize,
}

impl Default for Sequence<'_> {
    fn default() -> Self {
        Sequence {
            prompt_length: 0,
            block_length: 32,
            seed: 0,
            sequence: 0,
            suppressed: &[],
            editable: None,
            policy: None,
            constraint: None,
            fields: &[],
            soft_tokens: 0,
        }
    }
}

/// Keys outside the decided blocks in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// All receive attention.
    None,
    /// All do; each layer then selects those for the next passes.
    Choose,
    /// The selected ones and those of the decided blocks do.
    Chosen,
}

/// Attention of the positions of a pass, among [`Segment::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// All.
    Bidirectional,
    /// Those that are not to the right of it.
    Causal,
    /// Those of the segment with this index, but for the one with its own position.
    Shadow(usize),
}

/// Positions that a forward pass computes for one slot, and the rows of logits to return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub slot: usize,
    /// 0 is the sequence itself.
    pub branch: usize,
    /// Of a branch: the positions and the tokens in which it differs, in this pass only.
    pub placed: Vec<(usize, i32)>,
    /// Compute these positions.
    pub query: Range<usize>,
    /// They attend to these.
    pub keys: Range<usize>,
    /// Return these rows of the model's output as they are: with `logits_shift` 1 they already begin
    /// one position earlier.
    pub rows: Range<usize>,
    /// Index of the first of them in the tensor.
    pub first_row: usize,
    pub evict: Evict,
    /// [`Attention::Bidirectional`] unless the options have another.
    pub attention: Attention,
    /// Row p - shift of this segment predicts position p.
    pub logits_shift: usize,
}

/// The next forward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub segments: Vec<Segment>,
    /// Rows of all segments.
    pub rows: usize,
}

/// Requirements of sequences of one shape under a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// Least [`Options::window`].
    pub window: usize,
    /// Upper bound on the forward passes of a sequence.
    pub most_forwards: i64,
    /// Memory of a session's slots, with at least that window.
    pub state_bytes: u64,
}

/// Why a sequence has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Running,
    Complete,
    EosToken,
    StopTokens,
    MaxSteps,
    Cancelled,
    /// No sequence was started in the slot yet.
    Idle,
}

/// The name that it has in C++, C and Python: "complete".
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ending::Running => "running",
            Ending::Complete => "complete",
            Ending::EosToken => "eos_token",
            Ending::StopTokens => "stop_tokens",
            Ending::MaxSteps => "max_steps",
            Ending::Cancelled => "cancelled",
            Ending::Idle => "idle",
        })
    }
}

/// Report of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub end: Ending,
    /// Forward passes supplied.
    pub forwards: usize,
    /// Tokens committed by decisions.
    pub committed: usize,
    /// Every position before this one is committed, or filled with the EOS token by the end of the
    /// sequence.
    pub committed_prefix: usize,
    pub masked: usize,
    pub rewritten: usize,
    pub forced: usize,
    pub invalid_rows: usize,
    /// Rows that truncation has read twice.
    pub second_reads: usize,
    /// One past the last position of the answer. While the sequence runs: its length. Of an ended
    /// sequence: after the EOS token or the stop sequence, and never after the first position that
    /// no decision committed, such as those that `max_steps` fills with EOS tokens or that
    /// `cancel()` leaves masked. The text to show ends before the lower of this and
    /// `committed_prefix`.
    pub answer_end: usize,
    /// Candidates that a constraint refused and that stayed as they were.
    pub refused: usize,
    /// Committed tokens that a constraint left no choice about.
    pub filled: usize,
    /// Whether the sequence has ended with a string of its constraint.
    pub constraint_met: bool,
}

/// One line, with the counts of unusual events where they are not 0: "complete, forwards=39,
/// committed=39, masked=0, forced=39, invalid_rows=39".
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, forwards={}, committed={}, masked={}",
            self.end, self.forwards, self.committed, self.masked
        )?;
        for (name, count) in [
            ("forced", self.forced),
            ("invalid_rows", self.invalid_rows),
            ("rewritten", self.rewritten),
            ("second_reads", self.second_reads),
        ] {
            if count != 0 {
                write!(f, ", {name}={count}")?;
            }
        }
        Ok(())
    }
}

/// Plan of a sequence for an engine with a cache, in addition to its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The branch that won the last step: keep its K/V; 0, the sequence itself.
    pub winner: usize,
    /// K/V of these positions are final from now on.
    pub freeze: Range<usize>,
    /// The next pass computes all its positions in every layer.
    pub refresh: bool,
}

/// A tensor of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    Hidden,
    Input,
    Query,
    Key,
    Value,
}

/// Demands of a policy on an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRule {
    /// The tensor that a layer rule compares; `None`: the policy has no layer rule. `Hidden`: call
    /// [`Session::at_layer`] behind the layer, for the layers that follow; others: inside it, before
    /// attention, for this layer.
    pub reads: Option<Feature>,
    /// Positions that are not selected keep the outputs that the engine stored; otherwise they are
    /// dropped from the pass.
    pub kept: bool,
    /// A pass is the positions of [`Session::positions`].
    pub single_positions: bool,
    /// The policy drops keys.
    pub evicts: bool,
}

/// Eviction of keys in the pass of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    pub evict: Evict,
    /// The decided blocks, whose keys are never dropped.
    pub blocks: Range<usize>,
    /// Share of the other keys that is kept.
    pub keep: f64,
    /// Neighbouring keys whose largest score is that of a key.
    pub pool: usize,
}
