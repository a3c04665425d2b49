// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Decodes with a toy model, sure of vowels and next to known letters: cargo run --example quickstart

use unmask::{Error, Options, Rows, Sequence, Session};

const ANSWER: &[u8] = b"commit what is certain, then look again";
const VOCAB: usize = 128;
const MASK: i32 = b'_' as i32;

/// Rows of logits of some positions.
fn model(tokens: &[i32], positions: std::ops::Range<usize>) -> Vec<f32> {
    let known = |p: Option<usize>| matches!(p.and_then(|p| tokens.get(p)), Some(&t) if t != MASK);
    let mut logits = vec![0.0; positions.len() * VOCAB];
    for (row, p) in positions.enumerate() {
        let sure = b"aeiou".contains(&ANSWER[p]) || known(p.checked_sub(1)) || known(Some(p + 1));
        logits[row * VOCAB + usize::from(ANSWER[p])] = if sure { 9.0 } else { 3.0 };
    }
    logits
}

/// The text after each forward pass.
pub fn decode(policy: &str) -> Result<Vec<String>, Error> {
    let length = ANSWER.len();
    let mut lines = Vec::new();
    // [decode]
    let options = Options {
        vocab: VOCAB as i32,
        mask_token: MASK,
        length: length as i32,
        window: length as i32,
        ..Options::default()
    };
    let mut session = Session::new(policy, &options)?;
    session.start(
        0,
        vec![MASK; length],
        &Sequence { block_length: length, ..Sequence::default() },
    )?;
    while let Some(request) = session.next()? {
        let logits = model(session.tokens(0), request.segments[0].rows.clone());
        session.supply(Rows::f32(&logits, VOCAB))?;
        lines.push(session.tokens(0).iter().map(|&t| char::from(t as u8)).collect());
    }
    // [/decode]
    Ok(lines)
}

fn main() -> Result<(), Error> {
    let policy = std::env::args().nth(1);
    for line in decode(policy.as_deref().unwrap_or("by_confidence + threshold(0.9)"))? {
        println!("{line}");
    }
    Ok(())
}
