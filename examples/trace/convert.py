#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts what other programs keep of a decode into a trace (include/unmask/trace/README.md).

usage: convert.py llada FILE > decode.jsonl
       convert.py history FILE --mask TOKEN [--prompt-length N] [--vocab N] > decode.jsonl
       convert.py prophet FILE [--mask TOKEN] [--vocab N] [--block-length N] > decode.jsonl
       convert.py diffusers FILE --mask TOKEN [--prompt-length N] [--vocab N] > decode.jsonl

llada      `sample_process.txt` of LLaDA's visualization: a line after each step, "N, " and then
           "*text&" for each position of the answer, of which "<|mdm_mask|>" is the mask
history    a JSON list of the sequence's tokens after each step, each a list of numbers, such as the
           history that Dream's generation returns
prophet    `question_NNNN_steps_NNN.pt` of Prophet's analysis: the tokens that each step proposed
           (`x0_history`), the positions that it committed (`true_indices_history`), the answer
           (`gen_ids`). It has no prompt, which becomes "?", no probabilities, and not the mask
           token, LLaDA's 126336 unless --mask says otherwise. Positions that no step committed are
           fixed, as constraints are; where the history ends early, the last step committed those
           that it proposed, as an early exit does
diffusers  a list with the `callback_kwargs` of each `callback_on_step_end` of LLaDA2Pipeline
           (diffusers 0.42.1), with all six of its tensors, one sequence a row. The sequences end
           where the last callback's block does. Blocks are counted from position 0 there, those of
           a trace from the prompt. Nothing tells which positions were considered for an edit, so
           the steps have those that were edited

    steps = []
    def keep(pipe, step, timestep, kwargs):
        steps.append({name: tensor.clone() for name, tensor in kwargs.items()})
        return kwargs
    pipe(..., callback_on_step_end=keep,
         callback_on_step_end_tensor_inputs=pipe._callback_tensor_inputs)
    torch.save(steps, "steps.pt")

FILE is JSON, or for the last two what torch.save() wrote, which needs PyTorch to read. The first
two tell which positions changed in a step, and nothing else: a step of the result has these
positions only, without probabilities. No form tells a part of a policy. With the model's --vocab
the result can be replayed.
"""
import argparse
import json
import math
import re
import sys

LLADA_MASK = "<|mdm_mask|>"
LLADA_MASK_TOKEN = 126336


def head_line(sequences, mask, vocab, *, model="", texts=None):
    """The first line of a trace: an object for json.dumps()."""
    head = {"format": "unmask-trace/1", "library": "convert.py",
            "model": {"name": model, "vocab": vocab, "mask": mask, "layers": 0},
            "policy": "", "parts": [], "seed": 0, "sequences": sequences}
    if texts:
        head["text"] = {str(token): text for token, text in texts.items()}
    return head


def sequence_of(tokens, prompt_length, *, slot=0, fixed=(), block_length=None):
    """A sequence of the head: its tokens before the first step."""
    return {"slot": slot, "sequence": slot, "seed": 0, "tokens": tokens, "fixed": list(fixed),
            "shape": {"prompt_length": prompt_length, "length": len(tokens),
                      "block_length": block_length or max(len(tokens) - prompt_length, 1)}}


def step_line(step, score, window, candidates, *, slot=0):
    """A step, from (position, token, outcome, probability or None) of each candidate."""
    candidates = sorted(candidates)
    confidence = [probability for *_, probability in candidates]
    return {"slot": slot, "step": step, "forward": step + 1, "segment": slot, "score": score,
            "compute": [0, window], "keys": [0, window], "position": [c[0] for c in candidates],
            "token": [c[1] for c in candidates],
            "log_probability": [math.log(p) if p else None for p in confidence], "confidence": confidence,
            "outcome": "".join(c[2] for c in candidates), "by": [-1] * len(candidates)}


def end_line(tokens, mask, steps):
    """The end of the sequence whose steps these are."""
    committed = sum(line["outcome"].count("c") for line in steps)
    return {"slot": steps[0]["slot"], "end": "max_steps" if mask in tokens else "complete",
            "forwards": len(steps), "committed": committed, "tokens": tokens}


def check_prompt_length(prompt_length, length):
    if not 0 <= prompt_length <= length:
        raise ValueError(f"prompt_length must be in [0, {length}], got {prompt_length}")


def trace_lines(states, mask, *, prompt_length=0, vocab=None, model="", texts=None):
    """The lines of a trace of one sequence: objects for json.dumps().

    `states` are its tokens after each step. Before the first step every position from
    `prompt_length` on is masked. `texts` maps tokens to their text. Raises ValueError naming the
    step for states of different lengths, and for a prompt that changes.
    """
    states = [list(state) for state in states]
    if not states:
        raise ValueError("there must be at least one step")
    length = len(states[0])
    check_prompt_length(prompt_length, length)
    before = states[0][:prompt_length] + [mask] * (length - prompt_length)
    vocab = vocab or max(mask, *(token for state in states for token in state)) + 1
    yield head_line([sequence_of(before, prompt_length)], mask, vocab, model=model, texts=texts)
    steps = []
    for step, state in enumerate(states):
        if len(state) != length:
            raise ValueError(f"step {step} must have {length} tokens, got {len(state)}")
        if state[:prompt_length] != before[:prompt_length]:
            raise ValueError(f"step {step} changes the prompt")
        changed = [(p, before[p], "r", None) if state[p] == mask else
                   (p, state[p], "c" if before[p] == mask else "e", None)
                   for p in range(length) if state[p] != before[p]]
        steps.append(step_line(step, [prompt_length, length], length, changed))
        yield steps[-1]
        before = state
    yield end_line(before, mask, steps)


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


def lists_of(value):
    """Tensors as lists, in dictionaries and lists, too."""
    if isinstance(value, dict):
        return {key: lists_of(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [lists_of(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def read_saved(file):
    """What json.dump() or torch.save() wrote, as lists. torch.load() runs no code of the file."""
    with open(file, "rb") as opened:
        if opened.read(2) == b"PK":  # torch.save() writes a zip archive
            try:
                import torch
            except ImportError as e:
                raise ValueError("it is written by torch.save(), which needs PyTorch to read") from e
            return lists_of(torch.load(file, map_location="cpu", weights_only=True))
    with open(file, encoding="utf-8") as opened:
        return json.load(opened)


def member(value, name, where=""):
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"{where}it has no '{name}'")
    return value[name]


def prophet_lines(saved, mask, *, vocab=None, block_length=None):
    """The lines of a trace of one of Prophet's histories. Raises ValueError."""
    blocks, committed_in = member(saved, "x0_history"), member(saved, "true_indices_history")
    answer, prompt_length = member(saved, "gen_ids"), member(saved, "prompt_token_len")
    length = prompt_length + len(answer)
    if not blocks or [len(b) for b in blocks] != [len(b) for b in committed_in] or not blocks[0]:
        raise ValueError("x0_history and true_indices_history must have the same blocks of at least one step")
    block_length = block_length or len(answer) // len(blocks)
    rows = [row for block in blocks for row in block]
    for step, row in enumerate(rows):
        if len(row) != length:
            raise ValueError(f"step {step} must have {length} tokens, got {len(row)}")
    vocab = vocab or max(mask, *answer, *(token for row in rows for token in row)) + 1
    commits = [{position for _, position in step} for block in committed_in for step in block]
    never = set(range(prompt_length, length)).difference(*commits)
    if len(blocks[-1]) < len(blocks[0]) or len(blocks) * block_length < len(answer):
        filled = {p for p in never if rows[-1][p] == answer[p - prompt_length]}
        never -= filled
    else:
        filled = set()
    # The prompt is not in the file: a token of its own behind the vocabulary.
    tokens = [vocab] * prompt_length
    tokens += [answer[p - prompt_length] if p in never else mask for p in range(prompt_length, length)]
    yield head_line([sequence_of(tokens, prompt_length, fixed=sorted(never), block_length=block_length)],
                    mask, vocab + 1, model="LLaDA", texts={vocab: "?", mask: "_"})
    tokens, steps = list(tokens), []
    for number, block in enumerate(blocks):
        first = prompt_length + number * block_length
        last = min(first + block_length, length)
        for row in block:
            now = commits[len(steps)]
            if len(steps) + 1 == len(rows):
                now, last = now | filled, max([last, *(p + 1 for p in filled)])
            for p in now:
                if not prompt_length <= p < length:
                    raise ValueError(f"step {len(steps)} commits position {p}, outside the answer")
            masked = [p for p in range(prompt_length, last) if tokens[p] == mask]
            steps.append(step_line(len(steps), [min([first, *masked]), last], length,
                                   [(p, row[p], "c" if p in now else "h", None) for p in masked]))
            yield steps[-1]
            for p in masked:
                tokens[p] = row[p] if p in now else mask
    if tokens[prompt_length:] != answer:
        p = next(p for p in range(prompt_length, length) if tokens[p] != answer[p - prompt_length])
        raise ValueError(f"position {p} is {answer[p - prompt_length]} in gen_ids, the steps give it {tokens[p]}")
    yield end_line(tokens, mask, steps)


CALLBACK = ("block_x", "transfer_index", "editing_transfer_index", "sampled_tokens", "sampled_probs", "active_block")


def diffusers_lines(saved, mask, *, prompt_length=0, vocab=None):
    """The lines of a trace of the callbacks of LLaDA2Pipeline: a slot for each row. Raises ValueError."""
    if not isinstance(saved, list) or not saved:
        raise ValueError("there must be a list of at least one step")
    calls = [[member(call, name, f"step {i}: ") for name in CALLBACK] for i, call in enumerate(saved)]
    rows, length = len(calls[0][0]), len(calls[-1][0][0])
    check_prompt_length(prompt_length, length)
    for i, call in enumerate(calls):
        windows, blocks = {len(row) for row in call[0]}, {len(row) for tensor in call[1:] for row in tensor}
        if {len(tensor) for tensor in call} != {rows} or len(windows) != 1 or len(blocks) != 1 \
                or not max(blocks) <= max(windows) <= length:
            raise ValueError(f"step {i}: its tensors must have {rows} rows of one window, and of one block in it")
    vocab = vocab or max(mask, *(t for call in calls for at in (0, 3) for row in call[at] for t in row)) + 1
    block_length = len(calls[0][1][0])
    starts = [calls[0][0][slot][:prompt_length] + [mask] * (length - prompt_length) for slot in range(rows)]
    yield head_line([sequence_of(start, prompt_length, slot=slot, block_length=block_length)
                     for slot, start in enumerate(starts)], mask, vocab)
    steps = [[] for _ in range(rows)]
    states = [list(start) for start in starts]
    for step, call in enumerate(calls):
        for slot in range(rows):
            block_x, transfer, edit, token, probability, active = (tensor[slot] for tensor in call)
            window, first = len(block_x), len(block_x) - len(active)
            candidates = []
            for i, was_masked in enumerate(active):
                p = first + i
                if was_masked and p >= prompt_length:
                    # A row that has ended, and a proposed mask token, leave the position masked.
                    outcome = "c" if transfer[i] and block_x[p] != mask else "h"
                elif edit[i] and block_x[p] == token[i]:
                    outcome = "e"
                else:
                    continue
                candidates.append((p, token[i], outcome, probability[i]))
            steps[slot].append(step_line(step, [max(first, prompt_length), window], window, candidates, slot=slot))
            yield steps[slot][-1]
            for p, t, outcome, _ in candidates:
                states[slot][p] = states[slot][p] if outcome == "h" else t
            if states[slot][:window] != block_x:
                p = next(p for p in range(window) if states[slot][p] != block_x[p])
                raise ValueError(f"step {step}, row {slot}: block_x has {block_x[p]} at position {p}, "
                                 f"the steps give it {states[slot][p]}")
    for slot in range(rows):
        yield end_line(states[slot], mask, steps[slot])


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=["llada", "history", "prophet", "diffusers"])
    parser.add_argument("file")
    parser.add_argument("--mask", type=int)
    parser.add_argument("--prompt-length", type=int, default=0)
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--block-length", type=int)
    o = parser.parse_args(arguments)
    try:
        if o.form == "llada":
            with open(o.file, encoding="utf-8") as file:
                states, texts = llada_states(file.read().splitlines())
            lines = trace_lines(states, 0, model="LLaDA", texts=texts)
        elif o.form == "prophet":
            mask = LLADA_MASK_TOKEN if o.mask is None else o.mask
            lines = prophet_lines(read_saved(o.file), mask, vocab=o.vocab, block_length=o.block_length)
        elif o.mask is None:
            raise ValueError(f"{o.form} needs --mask")
        elif o.form == "history":
            lines = trace_lines(read_saved(o.file), o.mask, prompt_length=o.prompt_length, vocab=o.vocab)
        else:
            lines = diffusers_lines(read_saved(o.file), o.mask, prompt_length=o.prompt_length, vocab=o.vocab)
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
