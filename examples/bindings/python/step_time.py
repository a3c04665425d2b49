# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times one decision about a block of 32 rows, beside the same in PyTorch: step_time.py [VOCAB]

PyTorch computes what engines compute: arg max, softmax, gather, and a comparison with a threshold.
Then a step of 1, 8 and 64 requests: a Block for each, one session for all, where SGLang is installed its algorithm
`Unmask` with all, and the read of their rows alone (unmask.read).
One thread each, best of 20; of the steps best of 10 in turns, in processor time: others may use the machine, too.
"""
import sys
import time
import types

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


def in_blocks(rows):
    """A Block for each request."""
    blocks = [unmask.Block(f"threshold({THRESHOLD})", length=LENGTH, vocab=VOCAB, mask_token=MASK) for _ in rows]
    for block in blocks:
        tokens = torch.full((LENGTH,), MASK)
        block.start(tokens, tokens == MASK)

    def step():
        for block, logits in zip(blocks, rows):
            block.step(logits)

    return step


sessions = {}


def in_a_session(rows):
    """One session for the batch."""
    count = len(rows)
    if count not in sessions:
        sessions[count] = unmask.Session(f"threshold({THRESHOLD})", vocab=VOCAB, mask_token=MASK, length=LENGTH,
                                         window=LENGTH, sequences=count)
    session = sessions[count]
    for slot in range(count):
        session.cancel(slot)
        session.start(slot, torch.full((LENGTH,), MASK, dtype=torch.int32), prompt_length=0, block_length=LENGTH)

    def step():
        assert session.next().rows == count * LENGTH
        session.supply(list(rows))

    return step


def in_sglang(rows):
    """The step of SGLang's algorithm for a forward batch; it starts the blocks, too."""
    if "sglang" not in sessions:
        sessions["sglang"] = get_algorithm(DllmConfig("Unmask", {"policy": f"threshold({THRESHOLD})"}, LENGTH, MASK, 64,
                                                      first_done_first_out_mode=True))
    algorithm = sessions["sglang"]
    batch = types.SimpleNamespace(batch_size=len(rows), input_ids=torch.full((len(rows) * LENGTH,), MASK), dllm_prompt_mask=None)
    states = algorithm.init_step_state(batch)
    return lambda: algorithm.step(batch, rows.view(-1, VOCAB), states)


ways = {"a Block each": in_blocks, "one session": in_a_session}
try:
    from sglang.srt import plugins
    from sglang.srt.dllm.algorithm import get_algorithm
    from sglang.srt.dllm.config import DllmConfig

    plugins.load_plugins()
    ways["SGLang"] = in_sglang
except ImportError:
    pass
for dtype in (torch.float32, torch.bfloat16):
    eight = (3 * torch.randn(8, LENGTH, VOCAB, generator=torch.Generator().manual_seed(1))).to(dtype)
    for count in (1, 8, 64):
        rows = eight[:count].repeat(max(1, count // 8), 1, 1)
        ways["read"] = lambda rows: lambda: unmask.read(rows.view(-1, VOCAB), suppressed=[MASK])
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(10):
            for name, prepare in ways.items():
                step = prepare(rows)
                start = time.process_time()
                step()
                least[name] = min(least[name], 1000 * (time.process_time() - start))
        ratio = least["one session"] / least["read"]
        print(f"{dtype}, {count} requests: " + ", ".join(f"{n} {t:.2f}" for n, t in least.items()) + f"; session / read {ratio:.3f}")
