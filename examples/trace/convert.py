#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts what other programs print of a decode into a trace (include/unmask/trace/README.md).

usage: convert.py llada FILE > decode.jsonl
       convert.py history FILE --mask TOKEN [--prompt-length N] [--vocab N] > decode.jsonl

llada    `sample_process.txt` of LLaDA's visualization: a line after each step, "N, " and then
         "*text&" for each position of the answer, of which "<|mdm_mask|>" is the mask
history  a JSON list of the sequence's tokens after each step, each a list of numbers, such as the
         history that Dream's generation returns

Both tell which positions changed in a step, and nothing else: a step of the result has these
positions only, without probabilities and without parts.
"""
import argparse
import json
import re
import sys

LLADA_MASK = "<|mdm_mask|>"


def trace_lines(states, mask, *, prompt_length=0, vocab=None, model="", policy="", texts=None):
    """The lines of a trace of one sequence: objects for json.dumps().

    `states` are its tokens after each step. Before the first step every position from
    `prompt_length` on is masked. `texts` maps tokens to their text. Raises ValueError naming the
    step for states of different lengths, and for a prompt that changes.
    """
    states = [list(state) for state in states]
    if not states:
        raise ValueError("there must be at least one step")
    length = len(states[0])
    if not 0 <= prompt_length <= length:
        raise ValueError(f"prompt_length must be in [0, {length}], got {prompt_length}")
    before = states[0][:prompt_length] + [mask] * (length - prompt_length)
    vocab = vocab or max(mask, *(token for state in states for token in state)) + 1
    sequence = {"slot": 0, "sequence": 0, "seed": 0, "tokens": before, "fixed": [],
                "shape": {"prompt_length": prompt_length, "length": length,
                          "block_length": max(length - prompt_length, 1)}}
    head = {"format": "unmask-trace/1", "library": "convert.py",
            "model": {"name": model, "vocab": vocab, "mask": mask, "layers": 0},
            "policy": policy, "parts": [], "seed": 0, "sequences": [sequence]}
    if texts:
        head["text"] = {str(token): text for token, text in texts.items()}
    yield head
    committed = 0
    for step, state in enumerate(states):
        if len(state) != length:
            raise ValueError(f"step {step} must have {length} tokens, got {len(state)}")
        if state[:prompt_length] != before[:prompt_length]:
            raise ValueError(f"step {step} changes the prompt")
        changed = [p for p in range(length) if state[p] != before[p]]
        outcome = "".join("r" if state[p] == mask else "c" if before[p] == mask else "e" for p in changed)
        unknown = [None] * len(changed)
        yield {"slot": 0, "step": step, "forward": step + 1, "segment": 0, "score": [prompt_length, length],
               "compute": [0, length], "position": changed,
               "token": [before[p] if state[p] == mask else state[p] for p in changed],
               "log_probability": unknown, "confidence": unknown, "outcome": outcome, "by": [-1] * len(changed)}
        committed += outcome.count("c")
        before = state
    yield {"slot": 0, "end": "max_steps" if mask in before else "complete", "forwards": len(states),
           "committed": committed, "tokens": before}


def llada_states(lines):
    """The states of a `sample_process.txt`, and the texts of their tokens: numbers in the order in
    which the texts occur, 0 for the mask."""
    tokens = {LLADA_MASK: 0}
    states = []
    for number, line in enumerate(lines, 1):
        begin, written = re.match(r"\d+, \*", line), line.rstrip()
        if not begin or not written.endswith("&"):
            raise ValueError(f"line {number} must be 'N, *text&*text&...', got {line[:40]!r}")
        pieces = written[begin.end():-1].split("&*")
        states.append([tokens.setdefault(piece, len(tokens)) for piece in pieces])
    return states, {token: "_" if text == LLADA_MASK else text for text, token in tokens.items()}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=["llada", "history"])
    parser.add_argument("file")
    parser.add_argument("--mask", type=int)
    parser.add_argument("--prompt-length", type=int, default=0)
    parser.add_argument("--vocab", type=int)
    o = parser.parse_args(arguments)
    try:
        with open(o.file, encoding="utf-8") as file:
            if o.form == "llada":
                states, texts = llada_states(file.read().splitlines())
                lines = trace_lines(states, 0, model="LLaDA", texts=texts)
            elif o.mask is None:
                raise ValueError("history needs --mask")
            else:
                lines = trace_lines(json.load(file), o.mask, prompt_length=o.prompt_length, vocab=o.vocab)
            lines = list(lines)
            # As the recorder writes: without < > &, so that a trace may stand in a page.
            for line in lines:
                text = json.dumps(line, separators=(",", ":"))
                print(re.sub("[<>&\x7f]", lambda c: f"\\u{ord(c[0]):04x}", text))
    except (OSError, ValueError) as e:
        print(f"convert.py: {o.file}: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
