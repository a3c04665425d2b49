// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! `<unmask/c_api.h>`, `<unmask/c_layers.h>`, `<unmask/c_constraints.h>`, `<unmask/c_language.h>` and
//! `<unmask/c_parts.h>`, declaration by declaration. Their comments are there.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void};

/// The version that these declarations are of.
pub const ABI_VERSION: u32 = 1;
pub const NO_TOKEN: i32 = 0x7fff_ffff;

pub type unmask_status = i32;
pub const OK: unmask_status = 0;
pub const INVALID_ARGUMENT: unmask_status = 1;
pub const OUT_OF_ORDER: unmask_status = 2;
pub const OUT_OF_MEMORY: unmask_status = 3;
pub const UNSUPPORTED: unmask_status = 4;
pub const FAILED: unmask_status = 5;

pub const F32: i32 = 0;
pub const BF16: i32 = 1;
pub const F16: i32 = 2;
pub const HOST: i32 = 0;
pub const NO_FILES: u32 = 1;
pub const CAUSAL_ATTENTION: u32 = 2;
pub const SHADOW_ATTENTION: u32 = 4;

pub const EXPRESSION: i32 = 0;
pub const JSON_SCHEMA: i32 = 1;
pub const GRAMMAR: i32 = 2;
pub const STRUCTURAL_TAG: i32 = 3;
pub const SEARCH: u32 = 1;
pub const STRICT: u32 = 2;
pub const JSON_STRING: u32 = 4;
pub const UNICODE_ESCAPES: u32 = 8;
pub const OPEN_OBJECTS: u32 = 16;
pub const INTEGER_FRACTIONS: u32 = 32;
pub const REFUSE_UNKNOWN_FORMATS: u32 = 64;

pub const RULE: i32 = 0;
pub const RANKING: i32 = 1;
pub const FILTER: i32 = 2;
pub const STOP: i32 = 3;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct unmask_step_candidate {
    pub position: i32,
    pub token: i32,
    pub confidence: f32,
    pub log_probability: f32,
    pub margin: f32,
    pub entropy: f32,
    pub score: f32,
    pub rank: i32,
    pub block: i32,
    pub block_step: i32,
    pub block_masked: i32,
    pub block_masked_at_first: i32,
    pub block_length: i32,
}

#[repr(C)]
pub struct unmask_step {
    pub candidates: *const unmask_step_candidate,
    pub tokens: *const i32,
    pub marks: *const u8,
    pub arguments: *const f32,
    pub seed: u64,
    pub sequence: u32,
    pub candidate_count: i32,
    pub argument_count: i32,
    pub slot: i32,
    pub step: i32,
    pub prompt_length: i32,
    pub length: i32,
    pub masked_count: i32,
    pub committed_prefix: i32,
    pub eos_token: i32,
    pub mask_token: i32,
}

pub type unmask_function =
    unsafe extern "C" fn(context: *mut c_void, step: *const unmask_step, answers: *mut f32) -> i32;

#[repr(C)]
pub struct unmask_part_argument {
    pub name: *const c_char,
    pub value: f64,
    pub least: f64,
    pub most: f64,
    pub whole: i32,
}

#[repr(C)]
pub struct unmask_part {
    pub struct_size: u32,
    pub stage: i32,
    pub step_size: u32,
    pub candidate_size: u32,
    pub name: *const c_char,
    pub about: *const c_char,
    pub arguments: *const unmask_part_argument,
    pub argument_count: i32,
    pub argument_size: u32,
    pub function: Option<unmask_function>,
    pub context: *mut c_void,
}

/// A session: slots that decode with one policy. Opaque.
#[repr(C)]
pub struct unmask_session {
    _private: [u8; 0],
}

#[repr(C)]
pub struct unmask_options {
    pub struct_size: u32,
    pub memory_space: i32,
    pub stream: *mut c_void,
    pub threads: i32,
    pub vocab: i32,
    pub mask_token: i32,
    pub eos_token: i32,
    pub logits_shift: i32,
    pub sequences: i32,
    pub length: i32,
    pub window: i32,
    pub trace: i32,
    pub layers: i32,
    pub propose_mask: i32,
    pub branches: i32,
    pub shared_threads: i32,
    pub flags: u32,
}

#[repr(C)]
pub struct unmask_sequence {
    pub struct_size: u32,
    pub prompt_length: i32,
    pub length: i32,
    pub block_length: i32,
    pub seed: u64,
    pub sequence: u32,
    pub suppressed_count: u32,
    pub suppressed: *const i32,
    pub editable: *const u8,
    pub policy: *const c_char,
    pub constraints: *const unmask_constrained_field,
    pub constraint_count: u32,
    pub soft_tokens: i32,
}

/// A regular language that answers obey. Opaque.
#[repr(C)]
pub struct unmask_constraint {
    _private: [u8; 0],
}

/// A record of the confidences of one sequence. Opaque.
#[repr(C)]
pub struct unmask_calibrator {
    _private: [u8; 0],
}

/// The bytes of each token of a model. Opaque.
#[repr(C)]
pub struct unmask_vocabulary {
    _private: [u8; 0],
}

#[repr(C)]
pub struct unmask_constrained_field {
    pub language: *const unmask_constraint,
    pub first: i32,
    pub last: i32,
    pub tokens_after: i32,
    pub state: u32,
    pub no_fill: i32,
    pub read_again: i32,
}

#[repr(C)]
pub struct unmask_token_bytes {
    pub data: *const c_char,
    pub size: usize,
}

#[repr(C)]
pub struct unmask_byte_automaton {
    pub struct_size: u32,
    pub states: u32,
    pub next: *const u32,
    pub accepting: *const u8,
    pub start: u32,
    pub reserved: u32,
}

/// A language: a deterministic automaton over bytes. Opaque.
#[repr(C)]
pub struct unmask_language {
    _private: [u8; 0],
}

#[repr(C)]
pub struct unmask_language_options {
    pub struct_size: u32,
    pub flags: u32,
    pub states: u32,
    pub positions: u32,
    pub milliseconds: u32,
    pub any_depth: u32,
    pub recursion: u32,
    pub reserved: u32,
    pub longest: u64,
    pub whitespace: *const c_char,
    pub root: *const c_char,
}

#[repr(C)]
pub struct unmask_constraint_limits {
    pub struct_size: u32,
    pub states: u32,
    pub bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct unmask_token_transition {
    pub from: u32,
    pub token: i32,
    pub next: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct unmask_placement {
    pub position: i32,
    pub token: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct unmask_segment {
    pub slot: i32,
    pub branch: i32,
    pub query_first: i32,
    pub query_last: i32,
    pub keys_first: i32,
    pub keys_last: i32,
    pub row_first: i32,
    pub row_last: i32,
    pub first_row: i32,
    pub evict: i32,
    pub logits_shift: i32,
    pub placed_count: i32,
    pub placed: *const unmask_placement,
    pub attention: i32,
    pub shadow_of: i32,
}

#[repr(C)]
pub struct unmask_request {
    pub struct_size: u32,
    pub count: i32,
    pub rows: i32,
    pub segment_size: u32,
    pub segments: *const unmask_segment,
}

#[repr(C)]
pub struct unmask_logits {
    pub struct_size: u32,
    pub kind: i32,
    pub memory_space: i32,
    pub rows: i32,
    pub columns: i32,
    pub stride: i64,
    pub data: *const c_void,
}

#[repr(C)]
pub struct unmask_modifiers {
    pub struct_size: u32,
    pub cfg_scale: f32,
    pub allowed: *const u32,
    pub allowed_stride: i64,
    pub unconditional: *const c_void,
    pub unconditional_stride: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct unmask_commit {
    pub slot: i32,
    pub position: i32,
    pub token: i32,
    pub log_probability: f32,
    pub step: i32,
    pub block: i32,
    pub block_step: i32,
    pub committed: i32,
    pub rank: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct unmask_candidate {
    pub slot: i32,
    pub position: i32,
    pub token: i32,
    pub log_probability: f32,
    pub step: i32,
    pub block: i32,
    pub block_step: i32,
    pub committed: i32,
    pub outcome: i32,
    pub part: i32,
    pub confidence: f32,
    pub margin: f32,
    pub entropy: f32,
    pub rank: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct unmask_probability {
    pub slot: i32,
    pub position: i32,
    pub token: i32,
    pub step: i32,
    pub probability: f32,
    pub share: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct unmask_report {
    pub struct_size: u32,
    pub end: i32,
    pub forwards: i32,
    pub committed: i32,
    pub committed_prefix: i32,
    pub masked: i32,
    pub rewritten: i32,
    pub forced: i32,
    pub invalid_rows: i32,
    pub second_reads: i32,
    pub answer_end: i32,
    pub refused: i32,
    pub filled: i32,
    pub constraint_met: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct unmask_plan {
    pub struct_size: u32,
    pub winner: i32,
    pub freeze_first: i32,
    pub freeze_last: i32,
    pub refresh: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct unmask_layer_rule {
    pub struct_size: u32,
    pub has_hooks: i32,
    pub reads: i32,
    pub kept: i32,
    pub single_positions: i32,
    pub evicts: i32,
}

#[repr(C)]
pub struct unmask_stored {
    pub struct_size: u32,
    pub kind: i32,
    pub memory_space: i32,
    pub first: i32,
    pub last: i32,
    pub columns: i32,
    pub stride: i64,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct unmask_eviction {
    pub struct_size: u32,
    pub evict: i32,
    pub first: i32,
    pub last: i32,
    pub keep: f64,
    pub pool: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct unmask_requirements {
    pub struct_size: u32,
    pub window: i32,
    pub most_forwards: i64,
    pub state_bytes: u64,
}

#[repr(C)]
pub struct unmask_device_list {
    pub struct_size: u32,
    pub most: i32,
    pub first: i32,
    pub entries: *const i32,
    pub count: *const i32,
}

extern "C" {
    pub fn unmask_abi_version() -> u32;
    pub fn unmask_version() -> *const c_char;
    pub fn unmask_last_error() -> *const c_char;
    pub fn unmask_describe_parts() -> *const c_char;
    pub fn unmask_describe_models() -> *const c_char;
    pub fn unmask_model_of(kind: *const c_char, checkpoint: *const c_char) -> *const c_char;
    pub fn unmask_check_policy(policy: *const c_char) -> unmask_status;
    pub fn unmask_check_policy_with(policy: *const c_char, flags: u32) -> unmask_status;
    pub fn unmask_get_requirements(
        policy: *const c_char,
        options: *const unmask_options,
        sequence: *const unmask_sequence,
        requirements: *mut unmask_requirements,
    ) -> unmask_status;
    pub fn unmask_create(
        policy: *const c_char,
        options: *const unmask_options,
        session: *mut *mut unmask_session,
    ) -> unmask_status;
    pub fn unmask_vocabulary_new(
        tokens: *const unmask_token_bytes,
        count: i32,
        options: *const unmask_options,
        also_eos: *const i32,
        also_eos_count: i32,
        vocabulary: *mut *mut unmask_vocabulary,
    ) -> unmask_status;
    pub fn unmask_vocabulary_free(vocabulary: *mut unmask_vocabulary);
    pub fn unmask_constraint_new(
        automaton: *const unmask_byte_automaton,
        vocabulary: *const unmask_vocabulary,
        limits: *const unmask_constraint_limits,
        constraint: *mut *mut unmask_constraint,
    ) -> unmask_status;
    pub fn unmask_constraint_read(
        file: *const c_char,
        vocabulary: *const unmask_vocabulary,
        limits: *const unmask_constraint_limits,
        constraint: *mut *mut unmask_constraint,
    ) -> unmask_status;
    pub fn unmask_constraint_from_transitions(
        transitions: *const unmask_token_transition,
        count: usize,
        states: u32,
        start: u32,
        accepting: *const u8,
        vocabulary: *const unmask_vocabulary,
        limits: *const unmask_constraint_limits,
        constraint: *mut *mut unmask_constraint,
    ) -> unmask_status;
    pub fn unmask_constraint_another(
        constraint: *const unmask_constraint,
        another: *mut *mut unmask_constraint,
    ) -> unmask_status;
    pub fn unmask_constraint_free(constraint: *mut unmask_constraint);
    pub fn unmask_constraint_shortest(constraint: *const unmask_constraint) -> i32;
    pub fn unmask_constraint_accepts(
        constraint: *const unmask_constraint,
        tokens: *const i32,
        count: i32,
        accepts: *mut i32,
    ) -> unmask_status;
    pub fn unmask_language_new(
        kind: i32,
        text: *const c_char,
        size: usize,
        options: *const unmask_language_options,
        language: *mut *mut unmask_language,
    ) -> unmask_status;
    pub fn unmask_language_free(language: *mut unmask_language);
    pub fn unmask_language_states(language: *const unmask_language) -> u32;
    pub fn unmask_language_accepts(
        language: *const unmask_language,
        text: *const c_char,
        size: usize,
        accepts: *mut i32,
    ) -> unmask_status;
    pub fn unmask_language_table(
        language: *const unmask_language,
        next: *mut u32,
        accepting: *mut u8,
        automaton: *mut unmask_byte_automaton,
    ) -> unmask_status;
    pub fn unmask_language_constraint(
        language: *const unmask_language,
        vocabulary: *const unmask_vocabulary,
        limits: *const unmask_constraint_limits,
        constraint: *mut *mut unmask_constraint,
    ) -> unmask_status;
    pub fn unmask_constraint_state(
        session: *mut unmask_session,
        slot: i32,
        field: u32,
        state: *mut u32,
    ) -> unmask_status;
    pub fn unmask_destroy(session: *mut unmask_session);
    pub fn unmask_start(
        session: *mut unmask_session,
        slot: i32,
        tokens: *mut i32,
        count: i32,
        sequence: *const unmask_sequence,
    ) -> unmask_status;
    pub fn unmask_next(session: *mut unmask_session, request: *mut unmask_request)
        -> unmask_status;
    pub fn unmask_next_slots(
        session: *mut unmask_session,
        slots: *const i32,
        count: i32,
        request: *mut unmask_request,
    ) -> unmask_status;
    pub fn unmask_supply_segments(
        session: *mut unmask_session,
        tensors: *const unmask_logits,
        modifiers: *const unmask_modifiers,
        count: i32,
    ) -> unmask_status;
    pub fn unmask_supply(
        session: *mut unmask_session,
        logits: *const unmask_logits,
    ) -> unmask_status;
    pub fn unmask_get_report(
        session: *mut unmask_session,
        slot: i32,
        report: *mut unmask_report,
    ) -> unmask_status;
    pub fn unmask_get_plan(
        session: *mut unmask_session,
        slot: i32,
        plan: *mut unmask_plan,
    ) -> unmask_status;
    pub fn unmask_cancel(session: *mut unmask_session, slot: i32) -> unmask_status;
    pub fn unmask_abandon(session: *mut unmask_session) -> unmask_status;
    pub fn unmask_cancel_request(session: *mut unmask_session) -> unmask_status;
    pub fn unmask_committed(
        session: *mut unmask_session,
        slot: i32,
        entry_size: usize,
        entries: *mut *const unmask_commit,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_candidates(
        session: *mut unmask_session,
        slot: i32,
        entry_size: usize,
        entries: *mut *const unmask_candidate,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_probabilities(
        session: *mut unmask_session,
        slot: i32,
        entry_size: usize,
        entries: *mut *const unmask_probability,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_soft_tokens(
        session: *mut unmask_session,
        slot: i32,
        entry_size: usize,
        entries: *mut *const unmask_probability,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_alternatives(
        session: *mut unmask_session,
        slot: i32,
        entry_size: usize,
        entries: *mut *const unmask_probability,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_calibrator_new(
        policy: *const c_char,
        block_length: i32,
        calibrator: *mut *mut unmask_calibrator,
    ) -> unmask_status;
    pub fn unmask_calibrator_free(calibrator: *mut unmask_calibrator);
    pub fn unmask_calibrator_observe(
        calibrator: *mut unmask_calibrator,
        session: *mut unmask_session,
        slot: i32,
    ) -> unmask_status;
    pub fn unmask_calibrator_profile(
        calibrator: *mut unmask_calibrator,
        text: *mut *const c_char,
    ) -> unmask_status;
    pub fn unmask_record(
        session: *mut unmask_session,
        file: *const c_char,
        model: *const c_char,
    ) -> unmask_status;
    pub fn unmask_decide(
        session: *mut unmask_session,
        slot: i32,
        tokens: *mut i32,
        count: i32,
        editable: *const u8,
        seed: u64,
        logits: *const unmask_logits,
        transfer: *mut u8,
    ) -> unmask_status;

    pub fn unmask_get_layer_rule(
        session: *mut unmask_session,
        rule: *mut unmask_layer_rule,
    ) -> unmask_status;
    pub fn unmask_get_segment_rule(
        session: *mut unmask_session,
        segment: i32,
        rule: *mut unmask_layer_rule,
    ) -> unmask_status;
    pub fn unmask_positions(
        session: *mut unmask_session,
        segment: i32,
        positions: *mut *const i32,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_hooks(
        session: *mut unmask_session,
        segment: i32,
        layer: i32,
        hooked: *mut i32,
    ) -> unmask_status;
    pub fn unmask_at_layer(
        session: *mut unmask_session,
        segment: i32,
        layer: i32,
        now: *const unmask_logits,
        stored: *const unmask_stored,
        rows: *mut *const i32,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_rows(
        session: *mut unmask_session,
        segment: i32,
        rows: *mut *const i32,
        count: *mut i32,
    ) -> unmask_status;
    pub fn unmask_get_eviction(
        session: *mut unmask_session,
        segment: i32,
        eviction: *mut unmask_eviction,
    ) -> unmask_status;
    pub fn unmask_score_keys(
        keys: *const unmask_logits,
        query: *const c_void,
        scores: *mut f32,
    ) -> unmask_status;
    pub fn unmask_select_keys(
        session: *mut unmask_session,
        segment: i32,
        scores: *const f32,
        scores_count: i32,
        positions: *mut *const i32,
        count: *mut i32,
    ) -> unmask_status;

    pub fn unmask_device_positions(
        session: *mut unmask_session,
        segment: i32,
        positions: *mut unmask_device_list,
    ) -> unmask_status;
    pub fn unmask_device_at_layer(
        session: *mut unmask_session,
        layer: i32,
        segments: *const i32,
        now: *const unmask_logits,
        stored: *const unmask_stored,
        count: i32,
        rows: *mut unmask_device_list,
    ) -> unmask_status;
    pub fn unmask_device_rows(
        session: *mut unmask_session,
        segment: i32,
        rows: *mut unmask_device_list,
    ) -> unmask_status;
    pub fn unmask_device_score_keys(
        session: *mut unmask_session,
        keys: *const unmask_logits,
        query: *const c_void,
        scores: *mut f32,
    ) -> unmask_status;
    pub fn unmask_device_select_keys(
        session: *mut unmask_session,
        segment: i32,
        layer: i32,
        scores: *const f32,
        scores_count: i32,
        positions: *mut unmask_device_list,
    ) -> unmask_status;

    pub fn unmask_register_part(part: *const unmask_part) -> unmask_status;
}
