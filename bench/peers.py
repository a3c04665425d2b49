#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the recipes of published decoders cost in PyTorch, and the same decisions here.

    python3 -m venv peers && peers/bin/pip install torch numpy
    peers/bin/python bench/peers.py build/bench/read [--threads N] [--rows R] [--vocab V]

Each recipe and the program `read` run in turns; a recipe counts with its best repetition, ours with its
median. Goals: C6 in bench/README.md.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch

GOALS = {"fast_dllm": 25, "credit": 45, "entropy": 20, "margin": 10, "softmax": 3, "max": 4}


def recipes(logits, mask, credits):
    """One decision about `logits` [rows, vocab] each."""

    def maximum():
        return logits.max(-1)

    def softmax():
        return torch.softmax(logits, -1)

    def fast_dllm():  # Fast-dLLM, get_transfer_index: argmax, softmax in float64, gather, choose
        x0 = logits.argmax(-1)
        p = torch.softmax(logits.to(torch.float64), -1)
        x0_p = p.gather(-1, x0.unsqueeze(-1)).squeeze(-1)
        confidence = torch.where(mask, x0_p, torch.full_like(x0_p, float("-inf")))
        return confidence.topk(4)

    def margin():
        p = torch.softmax(logits, -1)
        top = p.topk(2, -1).values
        return (top[:, 0] - top[:, 1]).topk(4)

    def entropy():
        log_p = torch.log_softmax(logits, -1)
        return (-(log_p.exp() * log_p).sum(-1)).topk(4, largest=False)

    def credit():  # CreditDecoding, section 4.2, on a dense [rows, vocab] tensor
        p = torch.softmax(logits, -1)
        best, token = p.max(-1)
        credits.mul_(0.9).scatter_add_(-1, token.unsqueeze(-1), best.pow(0.5).to(credits.dtype).unsqueeze(-1))
        fused = torch.softmax(logits + 0.7 * torch.log1p(credits).to(logits.dtype), -1)
        return fused.max(-1)

    return {"max": maximum, "softmax": softmax, "fast_dllm": fast_dllm, "margin": margin,
            "entropy": entropy, "credit": credit}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("read")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--vocab", type=int, default=126464)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        logits = (2.5 * torch.randn(options.rows, options.vocab)).to(dtype)
        logits[:, options.vocab // 3] = 18.0
        mask = torch.ones(options.rows, dtype=torch.bool)
        work = recipes(logits, mask, torch.zeros(options.rows, options.vocab))
        times = {key: [] for key in work}
        ours = []
        for _ in range(options.rounds):
            for key, recipe in work.items():
                start = time.perf_counter()
                recipe()
                times[key].append(time.perf_counter() - start)
            read = subprocess.run(
                [options.read, name, str(options.rows), str(options.vocab),
                 str(options.threads)], check=True, capture_output=True, text=True)
            ours.append(json.loads(read.stdout)["nanoseconds"] * 1e-9)
        own = statistics.median(ours)
        print(f"{name}, {options.rows} x {options.vocab}, {options.threads} threads: "
              f"all statistics {own * 1e3:.2f} ms")
        for key, seconds in times.items():
            least = min(seconds)
            ratio = least / own
            print(f"  {key:10} best {least * 1e3:9.2f} ms, median "
                  f"{statistics.median(seconds) * 1e3:9.2f} ms: {ratio:6.1f} x, goal {GOALS[key]}: "
                  f"{'met' if ratio >= GOALS[key] else 'not met here'}")


if __name__ == "__main__":
    main()
