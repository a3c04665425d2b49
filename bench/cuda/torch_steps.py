# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step on a GPU as engines write it in PyTorch, and as a session of this package:

    torch_steps.py [ROWS]... [--policy TEXT]... [--soft K]...

With policies or soft tokens named, only those are timed: each policy, or threshold(0.9), with each number of soft tokens.

Rows of bfloat16 logits of LLaDA 8B (126,464 columns) and Dream (151,936), all masked, of which a step commits an
eighth, or those above a threshold. The recipes compute what the engines' code computes:

  llada      arg max, softmax in float64, gather, where, top k           (LLaDA's sampler)
  fast_dllm  the same, and a comparison with a threshold in place of top k
  float32    as fast_dllm, with a softmax in float32
  compiled   float32 under torch.compile, which fuses it
  unmask     supply() of a session of each of some policies by name, if the package was built with sessions on a device

Microseconds, the median of nine replays of a CUDA graph (`eager`: calls without a graph) over buffers of four times
the L2 cache together. `floor` is the time in which `torch.sum` reads the same bytes.
"""
from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from typing import Any, Callable

import torch

THRESHOLD, RUNS = 0.9, 9
POLICIES = (f"threshold({THRESHOLD})", f"temperature(0.7) + threshold({THRESHOLD})", f"by_margin + threshold({THRESHOLD})",
            "by_entropy + tokens_per_step(4)", f"sampling(0.7) + threshold({THRESHOLD})")
warnings.simplefilter("ignore")  # of the compiler, about how it splits a reduction


def confidence(logits: torch.Tensor, tokens: torch.Tensor, mask: int, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    best = torch.argmax(logits, dim=-1)
    p = torch.gather(torch.softmax(logits.to(kind), dim=-1), -1, best[:, None]).squeeze(-1)
    masked = tokens == mask
    return torch.where(masked, best, tokens), torch.where(masked, p, -float("inf"))


def llada(logits: torch.Tensor, tokens: torch.Tensor, mask: int) -> torch.Tensor:
    best, p = confidence(logits, tokens, mask, torch.float64)
    top = torch.topk(p, (len(p) + 7) // 8).indices
    chosen = torch.zeros_like(tokens, dtype=torch.bool).index_fill_(0, top, True)
    return torch.where(chosen, best, tokens)


def by_threshold(logits: torch.Tensor, tokens: torch.Tensor, mask: int, kind: torch.dtype) -> torch.Tensor:
    best, p = confidence(logits, tokens, mask, kind)
    chosen = (p > THRESHOLD) | (torch.arange(len(p), device=p.device) == p.argmax())
    return torch.where(chosen, best, tokens)


def fast_dllm(logits: torch.Tensor, tokens: torch.Tensor, mask: int) -> torch.Tensor:
    return by_threshold(logits, tokens, mask, torch.float64)


def float32(logits: torch.Tensor, tokens: torch.Tensor, mask: int) -> torch.Tensor:
    return by_threshold(logits, tokens, mask, torch.float32)


compiled = torch.compile(float32, dynamic=False)


def floor(logits: torch.Tensor, tokens: torch.Tensor, mask: int) -> torch.Tensor:
    return torch.sum(logits.view(torch.int32))


def microseconds(once: Callable[[], Any], steps: int) -> float:
    times = []
    for _ in range(RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        once()
        end.record()
        end.synchronize()
        times.append(1000 * begin.elapsed_time(end) / steps)
    return statistics.median(times)


def of_recipe(recipe: Callable[..., torch.Tensor], buffers: list[torch.Tensor], tokens: torch.Tensor, mask: int) -> tuple[float, float]:
    def all_of_them() -> None:
        for logits in buffers:
            recipe(logits, tokens, mask)

    all_of_them()
    torch.cuda.synchronize()
    eager = microseconds(all_of_them, len(buffers))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        all_of_them()
    graph.replay()
    return microseconds(graph.replay, len(buffers)), eager


def of_session(policy: str, soft: int, buffers: list[torch.Tensor], vocab: int, mask: int) -> tuple[float, float] | None:
    """The rows favour the mask token, which may be proposed: a step reads, ranks and decides, and nothing ends."""
    try:
        import unmask
        from unmask._unmask import has_cuda
    except ImportError:
        return None
    if not has_cuda:
        return None
    rows = len(buffers[0])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        sessions = []
        for _ in buffers:
            session = unmask.Session(policy, vocab=vocab, mask_token=mask, length=rows, window=rows, suppress_mask=False,
                                     stream=stream.cuda_stream)
            tokens = torch.full((rows,), mask, dtype=torch.int32, device="cuda")
            session.start(0, tokens, prompt_length=0, block_length=rows, soft_tokens=soft)
            sessions.append(session)

        def ask() -> None:
            for session in sessions:
                session.next()

        def supply() -> None:
            for session, logits in zip(sessions, buffers):
                session.supply(logits)

        def step() -> None:
            ask()
            supply()

        step()
        eager = microseconds(step, len(buffers))
        ask()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            supply()
        graph.replay()
        return microseconds(graph.replay, len(buffers)), eager


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("rows", nargs="*", type=int, default=[32, 64, 128, 256])
    parse.add_argument("--policy", action="append", default=[])
    parse.add_argument("--soft", action="append", type=int, default=[])
    options = parse.parse_args()
    named = options.policy or options.soft
    recipes = [] if named else [floor, llada, fast_dllm, float32, compiled]
    policies = (options.policy or [POLICIES[0]]) if named else POLICIES
    if not torch.cuda.is_available():
        print("SKIPPED: PyTorch finds no GPU", file=sys.stderr)
        sys.exit(77)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| columns | rows | step | us in a graph | us eager |\n| ---: | ---: | --- | ---: | ---: |")
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    for vocab in (126464, 151936):
        mask = vocab - 1
        for rows in options.rows:
            count = max(4, 4 * l2 // (2 * rows * vocab) + 2)
            buffers = [2.5 * torch.randn(rows, vocab, device="cuda") for _ in range(count)]
            buffers = [logits.bfloat16() for logits in buffers]
            tokens = torch.full((rows,), mask, device="cuda")
            results = {}
            for recipe in recipes:
                name = "compiled" if recipe is compiled else recipe.__name__
                results[name] = of_recipe(recipe, buffers, tokens, mask)
            for logits in buffers:
                logits[:, mask] = 18.0
            for policy in policies:
                for soft in options.soft or [0]:
                    own = of_session(policy, soft, buffers, vocab, mask)
                    if own is not None:
                        results[f"unmask, {policy}" + (f", {soft} soft tokens" if soft else "")] = own
            for name, (graph, eager) in results.items():
                print(f"| {vocab} | {rows} | {name} | {graph:.1f} | {eager:.1f} |", flush=True)


main()
