// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The safe interface beside what the library decodes in C++, its errors, and its hooks in layers.

#[allow(dead_code)]
#[path = "../examples/quickstart.rs"]
mod quickstart;

use std::mem::size_of;
use unmask::{
    sys, Calibrator, Ending, Error, ErrorKind, Evict, Modifiers, Options, Rows, Sequence, Session, Stored,
};

/// The block of text of the first page, which the same program in C++ prints.
#[test]
fn the_quickstart_prints_what_it_prints_in_cpp() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../README.md")).unwrap();
    let (_, text) = page.split_once("```text\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let expected: Vec<&str> = text.lines().collect();
    assert_eq!(quickstart::decode("by_confidence + threshold(0.9)").unwrap(), expected);
}

#[test]
fn layouts_are_those_of_the_headers() {
    assert_eq!(size_of::<sys::unmask_options>(), 72);
    assert_eq!(size_of::<sys::unmask_sequence>(), 72);
    assert_eq!(size_of::<sys::unmask_modifiers>(), 40);
    assert_eq!(size_of::<sys::unmask_segment>(), 64);
    assert_eq!(size_of::<sys::unmask_request>(), 24);
    assert_eq!(size_of::<sys::unmask_logits>(), 40);
    assert_eq!(size_of::<sys::unmask_language_options>(), 48);
    assert_eq!(size_of::<sys::unmask_commit>(), 36);
    assert_eq!(size_of::<sys::unmask_candidate>(), 56);
    assert_eq!(size_of::<sys::unmask_probability>(), 24);
    assert_eq!(size_of::<sys::unmask_report>(), 56);
    assert_eq!(size_of::<sys::unmask_plan>(), 20);
    assert_eq!(size_of::<sys::unmask_layer_rule>(), 24);
    assert_eq!(size_of::<sys::unmask_stored>(), 40);
    assert_eq!(size_of::<sys::unmask_eviction>(), 32);
    assert_eq!(size_of::<sys::unmask_device_list>(), 32);
    assert_eq!(size_of::<sys::unmask_requirements>(), 24);
    assert_eq!(size_of::<sys::unmask_step_candidate>(), 52);
    assert_eq!(size_of::<sys::unmask_step>(), 88);
    assert_eq!(size_of::<sys::unmask_part_argument>(), 40);
    assert_eq!(size_of::<sys::unmask_part>(), 64);
    assert!(unsafe { sys::unmask_abi_version() } >= sys::ABI_VERSION);
    assert!(unmask::version().contains('.'));
    assert!(unmask::describe_parts().contains("threshold(value=0.9, inclusive=false)"));
    assert!(unmask::describe_models().contains("model:llada2_1\n"));
    let word = unmask::model_of("llada2_moe", "LLaDA2.1-mini").unwrap();
    assert_eq!(word.as_deref(), Some("model:llada2_1"));
    assert_eq!(unmask::model_of("qwen2", "").unwrap(), None);
}

#[test]
fn every_call_of_the_headers_is_declared() {
    let mut calls = 0;
    for header in ["c_api.h", "c_layers.h", "c_parts.h"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../include/unmask/");
        let text = std::fs::read_to_string(folder.to_owned() + header).unwrap();
        for declared in text.split("UNMASK_API ").skip(1).filter_map(|d| d.split_once('(')) {
            let name = declared.0.rsplit([' ', '*']).next().unwrap();
            if name.starts_with("unmask_") {
                calls += 1;
                let found = include_str!("../src/sys.rs").contains(&format!("pub fn {name}("));
                assert!(found, "{name} of {header}");
            }
        }
    }
    assert!(calls >= 36, "{calls}");
}

/// Rows that are sure of token p % 3 at position p, or hold nothing but NaN.
fn report_after_a_pass(policy: &str, broken: bool) -> unmask::Report {
    let mut session = Session::new(policy, &options()).unwrap();
    let sequence = Sequence { block_length: LENGTH, ..Sequence::default() };
    session.start(0, vec![MASK; LENGTH], &sequence).unwrap();
    assert_eq!(session.report(0).unwrap().answer_end, LENGTH);
    session.next().unwrap().unwrap();
    let mut rows = vec![if broken { f32::NAN } else { 0.0 }; LENGTH * VOCAB];
    for p in (0..LENGTH).filter(|_| !broken) {
        rows[p * VOCAB + p % 3] = 9.0;
    }
    session.supply(Rows::f32(&rows, VOCAB)).unwrap();
    session.report(0).unwrap()
}

#[test]
fn a_report_says_where_the_answer_ends() {
    let report = report_after_a_pass("threshold(0.5) + stop_sequence([1, 2])", false);
    assert_eq!((report.end, report.answer_end), (Ending::StopTokens, 3));
    assert_eq!(report.to_string(), "stop_tokens, forwards=1, committed=16, masked=0");
}

/// One token is committed, in the middle; the end fills the others with EOS tokens, or leaves masks.
#[test]
fn the_answer_ends_before_what_no_decision_committed() {
    for cancels in [false, true] {
        let policy = if cancels { "tokens_per_step(1)" } else { "tokens_per_step(1) + max_steps(1)" };
        let mut session = Session::new(policy, &options()).unwrap();
        assert_eq!(session.report(0).unwrap().end, Ending::Idle);
        let sequence = Sequence { block_length: LENGTH, ..Sequence::default() };
        session.start(0, vec![MASK; LENGTH], &sequence).unwrap();
        session.next().unwrap().unwrap();
        let mut rows = vec![0.0; LENGTH * VOCAB];
        rows[7 * VOCAB] = 9.0;
        session.supply(Rows::f32(&rows, VOCAB)).unwrap();
        if cancels {
            session.cancel(0).unwrap();
        }
        let report = session.report(0).unwrap();
        assert_eq!(report.end, if cancels { Ending::Cancelled } else { Ending::MaxSteps });
        assert_eq!((report.committed, report.answer_end), (1, 0));
    }
}

#[test]
fn a_report_shows_invalid_rows_and_forced_commits() {
    let report = report_after_a_pass("threshold(0.5)", true);
    assert_eq!(
        report.to_string(),
        "running, forwards=1, committed=1, masked=15, forced=1, invalid_rows=16"
    );
}

const VOCAB: usize = 5;
const MASK: i32 = 4;
const LENGTH: usize = 16;

fn options() -> Options {
    let length = LENGTH as i32;
    Options { vocab: VOCAB as i32, mask_token: MASK, length, window: length, ..Options::default() }
}

/// A number in [-1, 1) of what stands at a position and in which layer.
fn hashed(numbers: &[usize]) -> f32 {
    let mut h = 0x9E37_79B9_7F4A_7C15u64;
    for &n in numbers {
        h = (h ^ n as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        h ^= h >> 29;
    }
    (h >> 40) as f32 / 8_388_608.0 - 1.0
}

fn logits(tokens: &[i32], positions: impl Iterator<Item = usize>) -> Vec<f32> {
    let around = |p: usize| tokens.get(p).map_or(9, |&t| t as usize);
    positions
        .flat_map(|p| (0..VOCAB).map(move |v| (p, v)))
        .map(|(p, v)| 4.0 * hashed(&[p, v, around(p.wrapping_sub(1)), around(p + 1)]))
        .collect()
}

fn decode(policy: &str, slots: usize) -> Vec<Vec<i32>> {
    let sequences = slots as i32;
    let mut session =
        Session::new(policy, &Options { sequences, trace: true, ..options() }).unwrap();
    for slot in 0..slots {
        let sequence = Sequence { prompt_length: 2 + slot, block_length: 7, ..Sequence::default() };
        session.start(slot, vec![slot as i32; LENGTH], &sequence).unwrap();
    }
    let mut written = 0;
    while let Some(request) = session.next().unwrap() {
        let mut all = Vec::new();
        for s in &request.segments {
            let mut tokens = session.tokens(s.slot).to_vec();
            for &(position, token) in &s.placed {
                tokens[position] = token;
            }
            assert_eq!(s.first_row * VOCAB, all.len());
            all.extend(logits(&tokens, s.rows.clone()));
        }
        assert_eq!(all.len(), request.rows * VOCAB);
        session.supply(Rows::f32(&all, VOCAB)).unwrap();
        for slot in 0..slots {
            let tokens = session.tokens(slot).to_vec();
            for c in session.committed(slot).unwrap() {
                assert_eq!(tokens[c.position as usize], c.token);
                assert!(c.log_probability <= 0.0);
                written += 1;
            }
            assert!(session.candidates(slot).unwrap().len() <= LENGTH);
            assert!(session.probabilities(slot).unwrap().is_empty());
            assert!(session.plan(slot).unwrap().winner <= 3);
        }
    }
    for slot in 0..slots {
        let report = session.report(slot).unwrap();
        assert_eq!(report.end, Ending::Complete);
        assert_eq!(report.committed_prefix, LENGTH);
        written -= report.committed;
    }
    assert_eq!(written, 0);
    (0..slots).map(|slot| session.tokens(slot).to_vec()).collect()
}

#[test]
fn a_batch_decodes_as_its_sequences_do_alone() {
    for policy in ["threshold(0.6)", "trace_credit + threshold(0.6) + lookahead(3)"] {
        let together = decode(policy, 3);
        assert_eq!(together[0], decode(policy, 1)[0], "{policy}");
        assert_eq!(together[..2], decode(policy, 2));
        assert!(together.iter().all(|tokens| !tokens.contains(&MASK)));
    }
}

#[test]
fn soft_tokens_are_given_to_a_sequence_that_asks() {
    let mut session = Session::new("tokens_per_step(1)", &options()).unwrap();
    let sequence = Sequence { block_length: 7, soft_tokens: 3, ..Sequence::default() };
    session.start(0, vec![0; LENGTH], &sequence).unwrap();
    let request = session.next().unwrap().unwrap();
    let rows = logits(session.tokens(0), request.segments[0].rows.clone());
    session.supply(Rows::f32(&rows, VOCAB)).unwrap();
    let masked = session.tokens(0)[..7].iter().filter(|&&token| token == MASK).count();
    let soft = session.soft_tokens(0).unwrap();
    assert_eq!((masked, soft.len()), (6, 18));
    for of_position in soft.chunks(3) {
        assert!(of_position.windows(2).all(|w| w[0].probability >= w[1].probability));
        let shares: f32 = of_position.iter().map(|s| s.share).sum();
        assert!((shares - 1.0).abs() < 1e-5);
    }
    let too_many = Sequence { soft_tokens: 65, ..Sequence::default() };
    let error = session.start(0, vec![0; LENGTH], &too_many).unwrap_err();
    assert!(error.to_string().contains("soft_tokens"), "{error}");
}

#[test]
fn other_types_and_strides_decode_alike() {
    let run = |narrow: bool| {
        let mut session = Session::new("tokens_per_step(2)", &options()).unwrap();
        session
            .start(0, vec![0; LENGTH], &Sequence { block_length: LENGTH, ..Sequence::default() })
            .unwrap();
        while let Some(request) = session.next().unwrap() {
            // Rounded to bfloat16, so that both see the same numbers.
            let z = logits(session.tokens(0), request.segments[0].rows.clone());
            let bits: Vec<u16> = z.iter().map(|x| (x.to_bits() >> 16) as u16).collect();
            if narrow {
                let wide: Vec<u16> =
                    bits.chunks(VOCAB).flat_map(|r| r.iter().copied().chain([0x7fc0; 3])).collect();
                session.supply(Rows::bf16(&wide, VOCAB).with_stride(VOCAB + 3)).unwrap();
            } else {
                let rounded: Vec<f32> =
                    bits.iter().map(|&b| f32::from_bits(u32::from(b) << 16)).collect();
                session.supply(Rows::f32(&rounded, VOCAB)).unwrap();
            }
        }
        session.tokens(0).to_vec()
    };
    assert_eq!(run(true), run(false));
}

/// Starts a sequence with slices that are overwritten and dropped behind the call.
fn start_lent(session: &mut Session, slot: usize, token: i32, sequence: &Sequence) {
    let mut editable = sequence.editable.map(<[u8]>::to_vec);
    let mut suppressed = sequence.suppressed.to_vec();
    let lent =
        Sequence { editable: editable.as_deref(), suppressed: &suppressed, ..sequence.clone() };
    session.start(slot, vec![token; LENGTH], &lent).unwrap();
    if let Some(e) = &mut editable {
        e.iter_mut().for_each(|b| *b = !*b);
    }
    suppressed.fill(MASK);
    assert!(editable.as_deref() != sequence.editable || sequence.editable.is_none());
}

/// A recording reads neither the marks of fixed positions behind `start`, nor the tokens of a
/// sequence that has nothing to decode and makes way for another.
#[test]
fn a_recording_reads_no_argument_behind_its_call() {
    let file = std::env::temp_dir().join(format!("unmask_rust_{}.jsonl", std::process::id()));
    let mut session =
        Session::new("tokens_per_step(3)", &Options { sequences: 2, trace: true, ..options() })
            .unwrap();
    session.record(file.to_str().unwrap(), "model").unwrap();
    let mut editable = [1; LENGTH];
    editable[9] = 0;
    let block_length = LENGTH;
    let fixed = Sequence { block_length, editable: Some(&editable), ..Sequence::default() };
    start_lent(&mut session, 0, 1, &fixed);
    let nothing = Sequence { prompt_length: LENGTH, block_length, ..Sequence::default() };
    start_lent(&mut session, 1, 2, &nothing);
    assert_eq!(session.report(1).unwrap().end, Ending::Complete);
    start_lent(&mut session, 1, 3, &Sequence { prompt_length: 2, ..nothing.clone() });
    while let Some(request) = session.next().unwrap() {
        let mut z = Vec::new();
        for s in &request.segments {
            z.extend(logits(session.tokens(s.slot), s.rows.clone()));
        }
        session.supply(Rows::f32(&z, VOCAB)).unwrap();
    }
    start_lent(&mut session, 0, 1, &fixed);
    session.cancel(0).unwrap();
    drop(session);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let count = |words: &str| text.matches(words).count();
    assert_eq!((count("\"fixed\":[9]"), count("\"fixed\":[]")), (2, 2), "{text}");
    assert_eq!((count("\"end\":\"complete\""), count("\"end\":\"cancelled\"")), (3, 1), "{text}");
    assert_eq!(count(&format!("\"committed\":0,\"tokens\":[{}]", ["2"; LENGTH].join(","))), 1);
}

/// A recording into a disk that is full fails once, and the decode goes on.
#[test]
fn a_full_disk_ends_the_recording() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let mut session =
        Session::new("tokens_per_step(4)", &Options { trace: true, ..options() }).unwrap();
    session.record("/dev/full", "model").unwrap();
    start_lent(&mut session, 0, 1, &Sequence { block_length: LENGTH, ..Sequence::default() });
    let mut steps = 0;
    while let Some(request) = session.next().unwrap() {
        let z = logits(session.tokens(0), request.segments[0].rows.clone());
        let result = session.supply(Rows::f32(&z, VOCAB));
        if steps == 0 {
            refused(result, ErrorKind::Failed, &["/dev/full", "last whole line is number 0"]);
        } else {
            result.unwrap();
        }
        steps += 1;
    }
    assert_eq!((steps, session.report(0).unwrap().end), (4, Ending::Complete));
}

/// Two requests of one batch with policies of their own, one of them paused in every second pass,
/// decode as each does alone; a bitmask holds for its segment.
#[test]
fn requests_have_policies_pauses_and_bitmasks_of_their_own() {
    let alone = |policy: &str, slot: usize, allowed: Option<u32>| {
        let mut session = Session::new(policy, &options()).unwrap();
        let sequence = Sequence { prompt_length: 2, block_length: 7, ..Sequence::default() };
        session.start(0, vec![slot as i32; LENGTH], &sequence).unwrap();
        while let Some(request) = session.next().unwrap() {
            let z = logits(session.tokens(0), request.segments[0].rows.clone());
            let words = allowed.map(|a| vec![a; request.rows]);
            let modifiers = Modifiers { allowed: words.as_deref(), ..Modifiers::default() };
            session.supply_segments(&[Rows::f32(&z, VOCAB)], &[modifiers]).unwrap();
        }
        session.tokens(0).to_vec()
    };
    let mut session =
        Session::new("tokens_per_step(1)", &Options { sequences: 2, ..options() }).unwrap();
    for (slot, policy) in [None, Some("by_margin + tokens_per_step(3)")].into_iter().enumerate() {
        let sequence =
            Sequence { prompt_length: 2, block_length: 7, policy, ..Sequence::default() };
        session.start(slot, vec![slot as i32; LENGTH], &sequence).unwrap();
    }
    let allowed = [0b1_0110]; // tokens 1, 2 and 4, the mask
    let mut passes = 0;
    loop {
        let slots: &[usize] = if passes % 2 == 0 { &[0, 1] } else { &[0] };
        passes += 1;
        let request = match session.next_slots(slots).unwrap() {
            Some(request) => request,
            None if slots.len() == 2 => break,
            None => continue,
        };
        assert!(request.segments.iter().all(|s| slots.contains(&s.slot)));
        let rows: Vec<Vec<f32>> = request
            .segments
            .iter()
            .map(|s| logits(session.tokens(s.slot), s.rows.clone()))
            .collect();
        let tensors: Vec<Rows> = rows.iter().map(|z| Rows::f32(z, VOCAB)).collect();
        let modifiers: Vec<Modifiers> = request
            .segments
            .iter()
            .map(|s| Modifiers {
                allowed: (s.slot == 1).then_some(&allowed[..]),
                ..Modifiers::default()
            })
            .collect();
        refused(
            session.supply_segments(&tensors, &[Modifiers::default(); 3]),
            ErrorKind::InvalidArgument,
            &["number of modifiers", "got 3"],
        );
        let wrong = Modifiers { allowed: Some(&[0; 99]), ..Modifiers::default() };
        refused(
            session.supply_segments(&tensors[..1], &[wrong]),
            ErrorKind::InvalidArgument,
            &["words of allowed must be 1 for each", "got 99"],
        );
        let unconditional = Some(Rows::bf16(&[0; VOCAB], VOCAB));
        refused(
            session.supply_segments(
                &tensors[..1],
                &[Modifiers { unconditional, ..Modifiers::default() }],
            ),
            ErrorKind::InvalidArgument,
            &["unconditional must have the type", "got 1 rows"],
        );
        session.supply_segments(&tensors, &modifiers).unwrap();
    }
    assert_eq!(session.tokens(0), alone("tokens_per_step(1)", 0, None));
    assert_eq!(session.tokens(1), alone("by_margin + tokens_per_step(3)", 1, Some(allowed[0])));
    assert!(session.tokens(1)[2..].iter().all(|t| [1, 2].contains(t)));
    assert!(session.report(1).unwrap().forwards < session.report(0).unwrap().forwards);
    let sequence = Sequence { policy: Some("threshold(2)"), ..Sequence::default() };
    refused(
        session.start(0, vec![0; LENGTH], &sequence),
        ErrorKind::InvalidArgument,
        &["in [0, 1], got 2"],
    );
}

#[test]
fn a_policy_says_what_it_requires() {
    let sequence = Sequence { prompt_length: 2, block_length: 7, ..Sequence::default() };
    let options = Options { window: 0, ..options() };
    let found = unmask::requirements("threshold(0.9)", &options, LENGTH, &sequence).unwrap();
    assert_eq!((found.window, found.most_forwards), (7, 14));
    let twice = Options { sequences: 2, ..options.clone() };
    let both = unmask::requirements("threshold(0.9)", &twice, LENGTH, &sequence).unwrap();
    assert_eq!(both.state_bytes, 2 * found.state_bytes);
    refused(
        unmask::requirements("threshold(0.9)", &options, LENGTH + 1, &sequence),
        ErrorKind::InvalidArgument,
        &["length", "17"],
    );
}

#[test]
fn a_host_may_keep_the_loop() {
    let mut session = Session::new("threshold(0.7)", &options()).unwrap();
    let mut tokens = vec![MASK, 1, MASK, MASK];
    let mut z = vec![0.0; 4 * VOCAB];
    z[2] = 9.0;
    z[3 * VOCAB + 1] = 9.0;
    let written = session.decide(0, &mut tokens, None, 0, Rows::f32(&z, VOCAB)).unwrap();
    assert_eq!(written, [true, false, false, true]);
    assert_eq!(tokens, [2, 1, MASK, 1]);
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.message.contains(word), "{word:?} is not in {error}");
    }
}

#[test]
fn errors_name_argument_value_and_rule() {
    use ErrorKind::{InvalidArgument, OutOfOrder};
    let of = |policy: &str| Session::new(policy, &options());
    refused(
        of("threshold(1.5)"),
        InvalidArgument,
        &["column 11", "value of threshold must be in [0, 1], got 1.5"],
    );
    refused(of("thresh\0old"), InvalidArgument, &["policy", "byte 6"]);
    refused(unmask::check_policy("by_margin"), InvalidArgument, &["commit rule"]);
    refused(Session::new("tokens_per_step", &Options::default()), InvalidArgument, &["vocab"]);
    refused(of("es_dllm"), InvalidArgument, &["unmask_options::layers", "0"]);
    let mut session = of("tokens_per_step").unwrap();
    refused(session.supply(Rows::f32(&[], VOCAB)), OutOfOrder, &["next()"]);
    refused(session.report(1), InvalidArgument, &["slot", "1"]);
    refused(session.report(usize::MAX), InvalidArgument, &["slot", "at most 2147483647"]);
    refused(session.committed(1 << 32), InvalidArgument, &["slot", "4294967296"]);
    refused(session.record("-", "model"), OutOfOrder, &["trace"]);
    refused(session.abandon(), OutOfOrder, &["next()"]);
    refused(session.cancel_request(), OutOfOrder, &["next()"]);
    let block_length = 0;
    refused(
        session.start(0, vec![0; LENGTH], &Sequence { block_length, ..Sequence::default() }),
        InvalidArgument,
        &["block_length", "0"],
    );
    let editable = Some(&[1][..]);
    refused(
        session.start(0, vec![0; LENGTH], &Sequence { editable, ..Sequence::default() }),
        InvalidArgument,
        &["editable", "16", "got 1"],
    );
    assert!(session.tokens(0).is_empty() && session.tokens(7).is_empty());
    session.start(0, vec![0; LENGTH], &Sequence::default()).unwrap();
    session.next().unwrap().unwrap();
    let z = vec![0.0; LENGTH * VOCAB];
    refused(
        session.supply(Rows::f32(&z[1..], VOCAB)),
        InvalidArgument,
        &["whole rows of 5", "got 79"],
    );
    refused(session.supply(Rows::f32(&z, 0)), InvalidArgument, &["at least 1"]);
    refused(
        session.supply(Rows::f32(&z, VOCAB).with_stride(4)),
        InvalidArgument,
        &["stride", "got 4"],
    );
    // The stride of a single row is never used, but one that no memory has is refused.
    for (stride, says) in [
        (usize::MAX, "stride"),
        (usize::MAX / 2, "stride"),
        (usize::MAX / LENGTH + 1, "rows of the logits must be unmask_request::rows = 16, got 1"),
    ] {
        let row = Rows::f32(&z[..VOCAB], VOCAB).with_stride(stride);
        refused(session.supply(row), InvalidArgument, &[says]);
        refused(
            session.supply(Rows::f32(&z[..1], VOCAB).with_stride(stride)),
            InvalidArgument,
            &["got 1"],
        );
    }
    refused(session.supply(Rows::f32(&z[..60], 4)), InvalidArgument, &["logits", "columns"]);
    session.abandon().unwrap();
    session.cancel(0).unwrap();
    assert_eq!(session.report(0).unwrap().end, Ending::Cancelled);
    assert!(session.next().unwrap().is_none());
    session.start(0, vec![0; LENGTH], &Sequence::default()).unwrap();
    session.next().unwrap().unwrap();
    session.cancel_request().unwrap();
    assert_eq!(session.report(0).unwrap().end, Ending::Cancelled);
}

/// The text of a policy that comes from others opens no file of this machine.
#[test]
fn a_calibrator_makes_the_profile_of_a_decode() {
    let mut calibrator = Calibrator::new("osdt_gpqa(threshold=0.5, cap=1)", 7).unwrap();
    let mut session = Session::new("osdt_gpqa(threshold=0.5, cap=1)", &options()).unwrap();
    let sequence = Sequence { prompt_length: 2, block_length: 7, ..Sequence::default() };
    session.start(0, vec![0; LENGTH], &sequence).unwrap();
    while let Some(request) = session.next().unwrap() {
        let rows = logits(session.tokens(0), request.segments[0].rows.clone());
        session.supply(Rows::f32(&rows, VOCAB)).unwrap();
        calibrator.observe(&mut session, 0).unwrap();
    }
    let profile = calibrator.profile().unwrap();
    assert!(profile.contains("\"mode\":\"step_block\"") && profile.contains("\"block_length\":7"));
    let file = std::env::temp_dir().join("unmask_rust_profile.json");
    std::fs::write(&file, profile).unwrap();
    unmask::check_policy(&format!("osdt_gpqa('{}', cap=1)", file.display())).unwrap();
    std::fs::remove_file(file).unwrap();
    refused(Calibrator::new("threshold", 7), ErrorKind::InvalidArgument, &["policy", "threshold"]);
}

#[test]
fn a_policy_may_be_refused_its_files() {
    let text = "calibrated_threshold('profile.json')";
    let words = &["column 22", "names a file, which it may not"];
    let options = Options { files: false, ..options() };
    refused(Session::new(text, &options), ErrorKind::InvalidArgument, words);
    refused(unmask::check_policy_without_files(text), ErrorKind::InvalidArgument, words);
    refused(unmask::check_policy(text), ErrorKind::InvalidArgument, &["cannot be read"]);
    refused(
        unmask::requirements(text, &options, LENGTH, &Sequence::default()),
        ErrorKind::InvalidArgument,
        words,
    );
    let mut session = Session::new("threshold", &options).unwrap();
    let sequence = Sequence { policy: Some(text), ..Sequence::default() };
    refused(session.start(0, vec![0; LENGTH], &sequence), ErrorKind::InvalidArgument, words);
}

/// Reports, plans and rules are looked at through a shared reference.
#[test]
fn what_changes_nothing_needs_no_exclusive_reference() {
    let mut session = Session::new("threshold", &options()).unwrap();
    session.start(0, vec![0; LENGTH], &Sequence::default()).unwrap();
    session.next().unwrap().unwrap();
    let shared = &session;
    let tokens = shared.tokens(0);
    assert_eq!(shared.report(0).unwrap().masked, LENGTH);
    assert!(!shared.hooks(0, 0).unwrap() && shared.layer_rule().unwrap().reads.is_none());
    assert_eq!(shared.segment_rule(0).unwrap(), shared.layer_rule().unwrap());
    assert_eq!(shared.eviction(0).unwrap().evict, Evict::None);
    assert_eq!(shared.plan(0).unwrap().winner, 0);
    assert_eq!(tokens, vec![MASK; LENGTH]);
}

/// Decodes with rows of a hash in every layer and checks what the hooks promise. Returns tokens and
/// computed positions, summed over the layers.
fn decode_in_layers(policy: &str) -> (Vec<i32>, usize) {
    const LAYERS: usize = 4;
    const WIDTH: usize = 6;
    let mut session =
        Session::new(policy, &Options { layers: LAYERS as i32, ..options() }).unwrap();
    let rule = session.layer_rule().unwrap();
    let sequence = Sequence { prompt_length: 4, block_length: 6, ..Sequence::default() };
    session.start(0, vec![1; LENGTH], &sequence).unwrap();
    let mut stored = vec![vec![f32::NAN; LENGTH * WIDTH]; LAYERS];
    let (mut computed, mut selected) = (0, 0);
    while let Some(request) = session.next().unwrap() {
        let segment = &request.segments[0];
        let tokens = session.tokens(0).to_vec();
        let eviction = session.eviction(0).unwrap();
        assert_eq!(eviction.evict, segment.evict);
        assert_eq!(session.segment_rule(0).unwrap(), rule);
        for (layer, stored) in stored.iter_mut().enumerate() {
            let positions = session.positions(0).unwrap().to_vec();
            let mut run = positions.len();
            if session.hooks(0, layer).unwrap() {
                assert!(rule.reads.is_some() && rule.single_positions);
                let now: Vec<f32> = positions
                    .iter()
                    .flat_map(|&p| (0..WIDTH).map(move |i| (p as usize, i)))
                    .map(|(p, i)| hashed(&[layer, p, i, tokens[p] as usize]))
                    .collect();
                let rows = Rows::f32(&now, WIDTH);
                refused(
                    session.at_layer(0, layer, rows, Stored::bf16(&mut [0; LENGTH * WIDTH], WIDTH)),
                    ErrorKind::InvalidArgument,
                    &["element type of the stored rows", "float32, got bfloat16"],
                );
                let chosen =
                    session.at_layer(0, layer, rows, Stored::f32(stored, WIDTH)).unwrap().to_vec();
                assert!(chosen.windows(2).all(|w| w[0] < w[1]));
                for &row in &chosen {
                    let (row, at) = (row as usize, positions[row as usize] as usize);
                    assert_eq!(stored[at * WIDTH..][..WIDTH], now[row * WIDTH..][..WIDTH]);
                }
                run = chosen.len();
                let left = if rule.kept { positions.len() } else { run };
                assert_eq!(session.positions(0).unwrap().len(), left);
            }
            computed += run;
            if eviction.evict == Evict::Choose {
                let keys: Vec<f32> =
                    (0..segment.keys.end * 2).map(|i| hashed(&[layer, i])).collect();
                let mut scores = vec![0.0; segment.keys.end];
                unmask::score_keys(Rows::f32(&keys, 2), &[1.0, -0.5], &mut scores).unwrap();
                assert!(scores
                    .iter()
                    .zip(keys.chunks(2))
                    .all(|(s, k)| (s - k[0] + 0.5 * k[1]).abs() < 1e-6));
                let kept = session.select_keys(0, &scores).unwrap();
                assert_eq!(
                    kept.len(),
                    (eviction.keep * (LENGTH - eviction.blocks.len()) as f64) as usize
                );
                assert!(kept.iter().all(|&p| !eviction.blocks.contains(&(p as usize))));
                selected += 1;
                refused(
                    session.select_keys(0, &scores[1..]),
                    ErrorKind::InvalidArgument,
                    &["scores_count"],
                );
            }
        }
        let positions = session.positions(0).unwrap().to_vec();
        let wanted: Vec<usize> =
            session.rows(0).unwrap().iter().map(|&r| positions[r as usize] as usize).collect();
        session.supply(Rows::f32(&logits(&tokens, wanted.into_iter()), VOCAB)).unwrap();
    }
    assert_eq!(selected > 0, rule.evicts);
    let whole = session.report(0).unwrap().forwards * LENGTH * LAYERS;
    assert_eq!(computed < whole, rule.single_positions || rule.evicts, "{policy}");
    (session.tokens(0).to_vec(), computed)
}

#[test]
fn hooks_in_the_layers_select_positions_and_keys() {
    let (full, _) = decode_in_layers("tokens_per_step(1)");
    for policy in [
        "tokens_per_step(1) + delayed_cache",
        "tokens_per_step(1) + dual_cache(whole=2) + key_eviction",
        "es_dllm",
        "es_dllm_sparse",
        "tokens_per_step(1) + cache_budget(2, 2) + interval_cache(1, 0)",
        "tokens_per_step(1) + similarity_refresh(0.25) + interval_cache(8, 2)",
    ] {
        let (tokens, _) = decode_in_layers(policy);
        assert!(!tokens.contains(&MASK), "{policy}");
        if !policy.starts_with("es_dllm") {
            assert_eq!(tokens, full, "{policy}"); // the logits here do not depend on the layers
        }
    }
    let session = Session::new("tokens_per_step", &options());
    refused(session.unwrap().positions(0), ErrorKind::OutOfOrder, &["next()"]);
}

#[test]
fn an_answer_is_in_its_language() {
    let (mask, eos, vocab) = (2, 3, 4);
    let o = Options { vocab, mask_token: mask, eos_token: Some(eos), length: 6, window: 6, ..Options::default() };
    let words = unmask::Vocabulary::new(&["a", "b", "", "$"], &o, &[]).unwrap();
    let mut next = vec![u32::MAX; 512]; // a*b
    next[b'a' as usize] = 0;
    next[b'b' as usize] = 1;
    let automaton = unmask::ByteAutomaton { next: &next, accepting: &[false, true], start: 0 };
    let language = unmask::Constraint::new(&automaton, &words).unwrap();
    assert_eq!(language.shortest(), 1);
    for seed in 0..20u64 {
        let mut s = Session::new("threshold(0.3)", &o).unwrap();
        let sequence = Sequence { block_length: 6, constraint: Some(&language), ..Sequence::default() };
        s.start(0, vec![0; 6], &sequence).unwrap();
        let mut x = seed;
        while let Some(request) = s.next().unwrap() {
            let rows = request.rows;
            let logits: Vec<f32> = (0..rows * vocab as usize)
                .map(|_| {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (x >> 40) as f32 / 1e6
                })
                .collect();
            s.supply(Rows::f32(&logits, vocab as usize)).unwrap();
        }
        assert!(language.accepts(s.tokens(0)).unwrap());
        assert!(s.report(0).unwrap().constraint_met);
    }
    let short = Sequence { constraint: Some(&language), ..Sequence::default() };
    let mut s = Session::new("threshold(0.3)", &o).unwrap();
    let given = Sequence { editable: Some(&[0]), ..short };
    assert!(s.start(0, vec![0], &given).unwrap_err().message.contains("constraint"));
}

#[test]
fn fields_of_an_answer_have_languages_of_their_own() {
    let (mask, eos, vocab) = (2, 3, 4);
    let o = Options { vocab, mask_token: mask, eos_token: Some(eos), length: 7, window: 7, ..Options::default() };
    let words = unmask::Vocabulary::new(&["a", "b", "", "$"], &o, &[]).unwrap();
    // a*b by its transitions over tokens.
    let steps = [(0, 0, 0), (0, 1, 1)];
    let language = unmask::Constraint::from_transitions(&steps, 0, &[false, true], &words).unwrap();
    let decode = |s: &mut Session, sequence: &Sequence<'_>, length: usize| {
        s.start(0, vec![0; length], sequence).unwrap();
        while let Some(request) = s.next().unwrap() {
            // The model wants to write a alone.
            let logits: Vec<f32> = (0..request.rows).flat_map(|_| [9.0, 1.0, 0.0, 0.0]).collect();
            s.supply(Rows::f32(&logits, vocab as usize)).unwrap();
        }
        assert!(s.report(0).unwrap().constraint_met);
        s.tokens(0).to_vec()
    };
    let mut s = Session::new("threshold(0.3)", &o).unwrap();
    let whole = language.whole_answer();
    let two = [
        unmask::ConstrainedField { last: Some(3), ..whole },
        unmask::ConstrainedField { first: 4, read_again: true, ..whole },
    ];
    let sequence = Sequence { block_length: 7, fields: &two, ..Sequence::default() };
    let tokens = decode(&mut s, &sequence, 7);
    assert!(language.accepts(&tokens[..3]).unwrap() && language.accepts(&tokens[4..]).unwrap());
    assert_eq!(tokens[3], 0);

    // In two blocks: the second begins where the first has ended.
    let open = [unmask::ConstrainedField { tokens_after: Some(4), ..whole }];
    let first = Sequence { block_length: 3, fields: &open, ..Sequence::default() };
    let mut tokens = decode(&mut s, &first, 3);
    let state = s.constraint_state(0, 0).unwrap();
    let rest = [unmask::ConstrainedField { state: Some(state), ..whole }];
    let second = Sequence { block_length: 4, fields: &rest, ..Sequence::default() };
    tokens.extend(decode(&mut s, &second, 4));
    assert!(language.accepts(&tokens).unwrap());
    refused(s.constraint_state(0, 1), ErrorKind::InvalidArgument, &["field"]);

    let both = Sequence { constraint: Some(&language), fields: &open, ..Sequence::default() };
    refused(s.start(0, vec![0; 3], &both), ErrorKind::InvalidArgument, &["constraint and fields"]);
}

#[test]
fn languages_compile_under_limits_to_constraints() {
    use unmask::{Expressions, Grammars, Language, Limits, Schemas};

    let even = Language::expression("(ab)+", &Expressions::default()).unwrap();
    assert_eq!(even.states(), 3);
    assert!(even.accepts(b"abab") && !even.accepts(b"aba") && !even.accepts(b""));
    let within =
        Language::expression("b", &Expressions { search: true, ..Expressions::default() }).unwrap();
    assert!(within.accepts(b"abc") && !within.accepts(b"ac"));
    let quoted = Expressions { json_string: true, ..Expressions::default() };
    assert!(Language::expression("\"", &quoted).unwrap().accepts(br#""\"""#));

    let schema = r#"{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}"#;
    let person = Language::json_schema(schema, &Schemas::default()).unwrap();
    assert!(person.accepts(br#"{"age": 73}"#) && !person.accepts(br#"{"age":73,"b":1}"#));
    let packed = Schemas { whitespace: Some(""), closed_objects: false, ..Schemas::default() };
    let open = Language::json_schema(schema, &packed).unwrap();
    assert!(!open.accepts(br#"{"age": 73}"#) && open.accepts(br#"{"age":73,"b":1}"#));

    let refused = |r: unmask::Result<Language>| match r {
        Err(Error { kind: ErrorKind::InvalidArgument, message }) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(Language::expression("[0-9]{4}-(\\d", &Expressions::default())),
        "column 10: this group is not closed"
    );
    let nested = r#"expr ::= "(" expr ")" | [0-9]"#;
    let twice = Grammars { root: Some("expr"), recursion: 2, ..Grammars::default() };
    let two = Language::grammar(nested, &twice).unwrap();
    assert!(two.accepts(b"(1)") && !two.accepts(b"((1))") && !two.accepts(b"(1"));
    let message = refused(Language::grammar("root ::= \"a\"\n\n  b ::= $", &Grammars::default()));
    assert!(message.starts_with("line 3, column 9: "), "{message}");
    let calls = r#"{"triggers":["<f"],"structures":[{"begin":"<f>","schema":{"type":"integer"},"end":"</f>"}]}"#;
    let calls = Language::structural_tag(calls, &Schemas::default()).unwrap();
    assert!(calls.accepts(b"so <f>7</f>!") && !calls.accepts(b"so <f>x</f>"));
    assert_eq!(
        refused(Language::structural_tag(r#"{"format": {"type": 3}}"#, &Schemas::default())),
        "/format/type: must be a text, got 3"
    );
    let bad = r#"{"properties":{"a/b":{"minimum":"x"}}}"#;
    let message = refused(Language::json_schema(bad, &Schemas::default()));
    assert!(message.starts_with("/properties/a~1b/minimum: "), "{message}");
    let few = Limits { states: 100, ..Limits::default() };
    let message = refused(Language::expression(
        "a{200}",
        &Expressions { limits: few, ..Expressions::default() },
    ));
    assert!(message.contains("100 states"), "{message}");
    refused(Language::json_schema("{", &Schemas { whitespace: Some("\0"), ..Schemas::default() }));

    let o = Options {
        vocab: 4,
        mask_token: 2,
        eos_token: Some(3),
        length: 1,
        window: 1,
        ..Options::default()
    };
    let words = unmask::Vocabulary::new(&["a", "b", "", "$"], &o, &[]).unwrap();
    let constraint = even.constraint(&words).unwrap();
    drop(even);
    assert!(
        constraint.accepts(&[0, 1, 0, 1, 3]).unwrap() && !constraint.accepts(&[0, 1, 0]).unwrap()
    );
}

#[test]
fn a_rule_in_rust_decodes_as_the_part_with_that_rule() {
    use unmask::{register_part, Argument, Stage};
    let arguments = [
        Argument { name: "value", value: 0.9, range: Some((0.0, 1.0)), whole: false },
        Argument { name: "count", value: 1.0, range: None, whole: true },
    ];
    register_part(Stage::Rule, "certain_or_first", "in Rust", &arguments, |step, answers| {
        let (value, count) = (step.arguments()[0], step.arguments()[1] as i32);
        for (c, answer) in step.candidates().iter().zip(answers) {
            assert_eq!(step.marks()[c.position as usize], 1);
            assert_eq!(step.tokens()[c.position as usize], step.numbers().mask_token);
            *answer = f32::from(u8::from(c.confidence > value || c.rank < count));
        }
    })
    .unwrap();
    for (own, library) in [
        ("certain_or_first", "any_of(threshold(0.9), tokens_per_step(1))"),
        ("by_margin + certain_or_first(0.3, 2)", "by_margin + any_of(threshold(0.3), tokens_per_step(2))"),
    ] {
        let decoded = |policy: &str| {
            let mut session = Session::new(policy, &options()).unwrap();
            session.start(0, vec![MASK; LENGTH], &Sequence { block_length: 4, ..Sequence::default() }).unwrap();
            while session.next().unwrap().is_some() {
                let request = session.next().unwrap().unwrap();
                let rows = request.segments[0].rows.clone();
                let logits: Vec<f32> =
                    rows.flat_map(|r| (0..VOCAB).map(move |v| ((r * 7 + v * 13) % 11) as f32)).collect();
                session.supply(Rows::f32(&logits, VOCAB)).unwrap();
            }
            (session.tokens(0).to_vec(), session.report(0).unwrap().forwards)
        };
        assert_eq!(decoded(own), decoded(library));
    }
    let refused = register_part(Stage::Rule, "threshold", "", &[], |_, _| ()).unwrap_err();
    assert!(refused.message.contains("one that the library does not have"), "{refused}");
}

#[test]
fn a_rule_that_panics_cancels_its_sequence() {
    unmask::register_part(unmask::Stage::Rule, "panics", "", &[], |_, _| panic!("on purpose")).unwrap();
    let mut session = Session::new("panics", &options()).unwrap();
    session.start(0, vec![MASK; LENGTH], &Sequence { block_length: LENGTH, ..Sequence::default() }).unwrap();
    let rows = session.next().unwrap().unwrap().segments[0].rows.len();
    let error = session.supply(Rows::f32(&vec![0.5; rows * VOCAB], VOCAB)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Failed);
    assert!(error.message.starts_with("the rule 'panics' failed in slot 0"), "{error}");
    assert_eq!(session.report(0).unwrap().end, Ending::Cancelled);
    assert!(session.next().unwrap().is_none());
}
