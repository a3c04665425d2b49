# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times one decision about a block of 32 rows, beside the same in PyTorch: step_time.py [VOCAB]

PyTorch computes what engines compute: arg max, softmax, gather, and a comparison with a threshold.
Then a step of 64 requests in one session, beside the read of its rows alone (unmask.read).
One thread each, best of 20.
"""
import sys
import time

import torch
import unmask

VOCAB = int(sys.argv[1]) if len(sys.argv) > 1 else 157184
LENGTH, MASK, THRESHOLD = 32, VOCAB - 1, 0.95


def in_torch(logits, tokens):
    best = torch.argmax(logits, dim=-1)
    p = torch.gather(torch.softmax(logits, dim=-1), -1, best[:, None]).squeeze(-1)
    p = torch.where(tokens == MASK, p, -float("inf"))
    chosen = p > THRESHOLD
    chosen[p.argmax()] |= ~chosen.any()
    return torch.where(chosen, best, tokens)


def milliseconds(work):
    times = []
    for _ in range(20):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


torch.set_num_threads(1)
block = unmask.Block(f"threshold({THRESHOLD})", length=LENGTH, vocab=VOCAB, mask_token=MASK)
print(f"{LENGTH} rows of {VOCAB} logits, milliseconds a step")
for dtype in (torch.float32, torch.bfloat16):
    rows = (3 * torch.randn(LENGTH, VOCAB, generator=torch.Generator().manual_seed(1))).to(dtype)
    rows[:, MASK] = -float("inf")  # unmask never proposes it
    open_tokens = torch.full((LENGTH,), MASK)

    def step():
        tokens = open_tokens.clone()
        block.start(tokens, tokens == MASK)
        block.step(rows)
        return tokens

    if dtype == torch.float32:
        assert torch.equal(step(), in_torch(rows, open_tokens))
    theirs = milliseconds(lambda: in_torch(rows, open_tokens))
    print(f"{dtype}: unmask {milliseconds(step):.3f}, PyTorch {theirs:.3f}")

REQUESTS = 64
session = unmask.Session(f"threshold({THRESHOLD})", vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH, sequences=REQUESTS)
for dtype in (torch.float32, torch.bfloat16):
    rows = (3 * torch.randn(8, LENGTH, VOCAB, generator=torch.Generator().manual_seed(1))).to(dtype).repeat(REQUESTS // 8, 1, 1)
    steps, reads = [], []
    for _ in range(20):  # in turns, for others use the machine, too
        for slot in range(REQUESTS):
            session.start(slot, torch.full((LENGTH,), MASK, dtype=torch.int32), prompt_length=0, block_length=LENGTH)
        start = time.perf_counter()
        assert session.next().rows == REQUESTS * LENGTH
        session.supply(list(rows))
        end = time.perf_counter()
        unmask.read(rows.view(-1, VOCAB), suppressed=[MASK])
        steps.append(1000 * (end - start))
        reads.append(1000 * (time.perf_counter() - end))
        for slot in range(REQUESTS):
            session.cancel(slot)
    step, read = min(steps), min(reads)
    print(f"{dtype}: step of {REQUESTS} requests {step:.1f}, read of its rows {read:.1f}, ratio {step / read:.3f}")
