#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the probabilities of unmask.decide() are right: typed questions about problems of the small LLaDA.

usage: python bench/calibration.py [--problems N] [--exact N] [--out bench/results/decisions.md]

Each problem is a prompt of a task that the model was trained on, drawn anew, and several questions with one right answer,
all masked in the same sequence. The exact mode answers the first of them. Writes the part of the page between its two markers.
"""
import argparse
import collections
import math
import pathlib
import platform
import random
import subprocess
import sys
import time

import numpy as np
import unmask
from unmask.tiny_llada import ANSWER, END, MASK, TinyLlada, tokens_of

import measured

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "tiny_llada" / "make"))
import tasks  # noqa: E402

BINS, RESAMPLES = 10, 1000


def sorted_places(r):
    """The numbers of a prompt in ascending order: a choice among them for each place."""
    prompt, answer = tasks.sort_numbers(r)
    right = answer.split()
    if len(set(right)) < len(right):
        return None
    options = prompt[2:].split()
    return prompt, [(right[i], options, " " if i else "", "") for i in range(len(right))]


def traced(r):
    """The values of a variable after each statement: a choice among 10 to 29 for each."""
    prompt, answer = tasks.code_trace(r)
    values = [line.removeprefix("a=") for line in answer.split("|")]
    if len(values) < 2 or any(len(value) < 2 for value in values[1:]):
        return None
    numbers = [str(n) for n in range(10, 30)]
    return prompt, [(value, numbers, (f"a={values[0]}" if i == 0 else "") + "|a=", "") for i, value in enumerate(values[1:])]


def counted(r):
    """The results of a word problem whose operands are given: a choice among 10 to 29 for each."""
    prompt, answer = tasks.word_problem(r)
    steps = [step.split("=") for step in answer.split(";") if "=" in step]
    if any(len(value) < 2 for _, value in steps):
        return None
    numbers, asked, text = [str(n) for n in range(10, 30)], [], ""
    for i, (left, value) in enumerate(steps):
        if i == 0:
            text = left + "="
        else:  # its left operand is the result before, which is asked for, too
            asked.append((steps[i - 1][1], numbers, ";", ""))
            text = left.lstrip("0123456789") + "="
        asked.append((value, numbers, text, ";" if i + 1 == len(steps) else ""))
    return prompt, asked


TASKS = {"sort": sorted_places, "code": traced, "word": counted}


def problems(name, count, seed):
    r, found = random.Random(f"{seed}-{name}"), {}
    while len(found) < count:
        made = TASKS[name](r)
        if made is not None:
            found.setdefault(made[0], made)
    return list(found.values())


def forward(model):
    """On the canvas that the model was trained with: END behind the answers. Counts its sequences."""
    def run(tokens):
        padded = np.full((len(tokens), max(run.length, tokens.shape[1])), END, np.int32)
        padded[:, : tokens.shape[1]] = tokens
        run.passes += len(tokens)
        return model(padded)[:, : tokens.shape[1]]

    run.length, run.passes = 0, 0
    return run


def asked(model, run, name, items, exact):
    """For each question: its problem, the probabilities, the place of the right answer, the options, and the mass."""
    out = []
    for number, (prompt, questions) in enumerate(items):
        given = [{"name": f"q{i}", "type": "choice", "options": options, "before": before if i else prompt[-1] + before, "after": after}
                 for i, (_, options, before, after) in enumerate(questions)]
        run.length = 1 + len(prompt) + ANSWER
        found = unmask.decide(run, [tasks.BOS, *tokens_of(prompt[:-1])], given, encode=tokens_of, mask_token=MASK, eos_token=END,
                              vocab=98, exact=exact, together=64)
        for i, (right, options, _, _) in enumerate(questions):
            decision = found[f"q{i}"]
            out.append((number, np.array(list(decision.probabilities.values())), options.index(right), tuple(options), decision.mass))
    return out


def frequencies(items):
    """How often each option is right, by its text where all questions have the same, otherwise by its place; plus one."""
    same = len({tuple(options) for _, questions in items for _, options, _, _ in questions}) == 1
    counts = collections.Counter()
    for _, questions in items:
        for right, options, _, _ in questions:
            counts[(options.index(right), None if same else len(options))] += 1

    def shares(options):
        given = np.array([1 + counts[(i, None if same else len(options))] for i in range(len(options))], float)
        return given / given.sum()

    return shares


def scored(rows):
    """Columns: problem, whether the most probable option is right, its probability, -ln of the right one's."""
    return np.array([(number, p.argmax() == right, p.max(), -math.log(max(p[right], 1e-12))) for number, p, right, _, _ in rows])


def calibration_error(columns):
    at = np.minimum((columns[:, 2] * BINS).astype(int), BINS - 1)
    return sum(abs(columns[at == b, 1].sum() - columns[at == b, 2].sum()) for b in range(BINS)) / len(columns)


MEASURES = {"accuracy": lambda c: c[:, 1].mean(), "error": calibration_error, "loss": lambda c: c[:, 3].mean()}


def interval(columns, measure):
    """95 %, over problems drawn again."""
    of = [columns[columns[:, 0] == n] for n in np.unique(columns[:, 0])]
    draw = np.random.default_rng(1)
    values = [measure(np.concatenate([of[i] for i in draw.integers(len(of), size=len(of))])) for _ in range(RESAMPLES)]
    return np.percentile(values, [2.5, 97.5])


def instructions():
    flags = pathlib.Path("/proc/cpuinfo")
    text = flags.read_text() if flags.exists() else ""
    return next((name for word, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON")) if word in text), platform.machine())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=400)
    parser.add_argument("--exact", type=int, default=100)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench" / "results" / "decisions.md")
    options = parser.parse_args()
    model, lines = TinyLlada(), []
    run = forward(model)
    lines += ["", f"`python bench/calibration.py --problems {options.problems} --exact {options.exact}`, {instructions()}, NumPy {np.__version__}.", "",
              "| task | probabilities | questions | right | calibration error | log-loss | passes a problem |",
              "| --- | --- | --- | --- | --- | --- | --- |"]
    bins = []
    for name in TASKS:
        items = problems(name, options.problems, "test")
        chosen = frequencies(problems(name, 2000, "frequencies"))
        rows = {}
        for mode, exact in (("product", False), ("exact", True)):
            run.passes, begin = 0, time.perf_counter()
            some = items[: options.exact] if exact else items
            rows[mode] = asked(model, run, name, some, exact)
            rows[mode, "passes"] = run.passes / len(some)
            print(name, mode, f"{time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
        rows["product, the same"] = [row for row in rows["product"] if row[0] < options.exact]
        rows["product, the same", "passes"] = rows["product", "passes"]
        rows["uniform"] = [(n, np.full(len(p), 1 / len(p)), right, o, m) for n, p, right, o, m in rows["product"]]
        rows["frequency"] = [(n, chosen(o), right, o, m) for n, p, right, o, m in rows["product"]]
        for mode in ("product", "frequency", "uniform", "exact", "product, the same"):
            columns = scored(rows[mode])
            cells = [name, mode, str(len(columns))]
            for label, measure in MEASURES.items():
                low, high = interval(columns, measure)
                cells.append(f"{measure(columns):.3f} ({low:.3f} to {high:.3f})")
            lines.append("| " + " | ".join([*cells, f"{rows[mode, 'passes']:.1f}" if (mode, "passes") in rows else "0"]) + " |")
        columns = scored(rows["product"])
        at = np.minimum((columns[:, 2] * BINS).astype(int), BINS - 1)
        bins.append([name, *(f"{columns[at == b, 2].mean():.2f}: {columns[at == b, 1].mean():.2f} of {(at == b).sum()}" if (at == b).any() else ""
                             for b in range(BINS))])
        mass = np.array([m for *_, m in rows["product"]])
        bins[-1].append(f"{np.median(mass):.3f}")
    lines += ["", "Bins of the product: the mean probability of the most probable option, the share that is right, and the number.", "",
              "| task | " + " | ".join(f"{b / BINS:.1f}" for b in range(BINS)) + " | median mass |", "| --- " * (BINS + 2) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in bins]
    measured.write(options.out, lines)


if __name__ == "__main__":
    main()
