# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a constraint costs a step on a GPU: constraint_steps.py TOKENS.tiktoken TABLE.dfa...

The tables are those of bench/constraint_tables.py. A block of 32 masked positions decodes under
"any_of(threshold(0.9), tokens_per_step(4))", from random logits of bfloat16, until it ends, with each language and with none;
a step is a replay of a graph. Microseconds a step, the median of nine decodes, each in a session of its own: reading,
masks, decisions and what a replay costs; of it, the time of each kernel, by the profiler, in one decode without graphs.
`start` is the time of Session.start(), which copies the automaton.
"""
from __future__ import annotations

import base64
import pathlib
import statistics
import sys
import time
from typing import Any

import torch
import unmask
from unmask import constraints

POLICY, ROWS, RUNS = "any_of(threshold(0.9), tokens_per_step(4))", 32, 9


def decode(constraint: Any, logits: torch.Tensor, vocab: int, mask: int, eos: int, steps: int) -> tuple[float, float, int]:
    """Microseconds of the start and of each of the first `steps` steps, and the number of steps of the decode."""
    stream = torch.cuda.current_stream()
    session = unmask.Session(POLICY, vocab=vocab, mask_token=mask, eos_token=eos, length=ROWS, window=ROWS,
                             stream=stream.cuda_stream)
    tokens = torch.full((ROWS,), mask, dtype=torch.int32, device="cuda")
    stream.synchronize()
    began = time.perf_counter()
    session.start(0, tokens, prompt_length=0, block_length=ROWS, constraint=constraint)
    stream.synchronize()
    start = 1e6 * (time.perf_counter() - began)
    rows = session.next().segments[0].rows  # fewer where the longest string is shorter
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        session.supply(logits[rows])
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(2_000_000)  # so that no replay waits for the host
    before.record()
    for _ in range(steps):
        graph.replay()
    after.record()
    after.synchronize()
    while (request := session.next()) is not None:
        session.supply(logits[request.segments[0].rows])
    report = session.report()
    assert constraint is None or report.constraint_met, report
    return start, 1000 * before.elapsed_time(after) / steps, report.forwards


def kernels(constraint: Any, logits: torch.Tensor, vocab: int, mask: int, eos: int) -> str:
    """Microseconds a step of each kernel of a step, in the order of their launches."""
    names = {"read_rows": "read", "write_masks": "masks", "decide_slots": "decide"}
    times: dict[str, list[float]] = {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        decode(constraint, logits, vocab, mask, eos, 1)
        torch.cuda.synchronize()
    for event in seen.events():
        for kernel, name in names.items():
            if kernel in event.name:
                times.setdefault(name, []).append(event.device_time)
    return ", ".join(f"{name} {statistics.median(of):.0f}" for name, of in times.items())


def main() -> None:
    pairs = (line.split() for line in pathlib.Path(sys.argv[1]).read_bytes().splitlines())
    texts = [base64.b64decode(token) for token, _ in pairs]
    vocab = (len(texts) + 2 + 127) // 128 * 128
    mask, eos = len(texts), len(texts) + 1
    words = constraints.vocabulary(token_bytes=texts + [b""] * (vocab - len(texts)), mask_token=mask, eos_token=eos)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {ROWS} rows of {vocab} columns\n")
    print("| language | states | start, us | a step, us | steps | kernels, us |\n| --- | ---: | ---: | ---: | ---: | --- |")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.manual_seed(1)
        all_logits = [(2.5 * torch.randn(ROWS, vocab, device="cuda")).bfloat16() for _ in range(RUNS)]
        for path in [None, *map(pathlib.Path, sys.argv[2:])]:
            constraint = path and constraints.read(path, words)
            times = []
            for logits in all_logits:
                steps = decode(constraint, logits, vocab, mask, eos, 1)[2]
                times.append(decode(constraint, logits, vocab, mask, eos, steps))
            start, step, steps = (statistics.median(of) for of in zip(*times))
            states = constraint.states if constraint else 0
            each = kernels(constraint, all_logits[0], vocab, mask, eos)
            print(f"| {path.stem if path else 'none'} | {states} | {start:.0f} | {step:.1f} | {steps:.0f} | {each} |",
                  flush=True)


main()
