#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""judge.py for the model of examples/chains, each task by itself.

usage: bash bench/judge.sh --model chains [--seed 2] [--test N] [--validation N] [--out STEM]

N counts problems of each task. Settings and controls are chosen on the validation set of a task; the tables are of its
test set. With --seed 2 they are of the second model, and STEM is chains_2. Writes STEM.csv, STEM.svg and the part of
STEM.md between its two markers.
"""
import argparse
import csv
import pathlib
import sys

import judge
import measured
from judge import beside, constant

sys.path.insert(0, str(judge.ROOT / "examples" / "chains" / "make"))
import tasks  # noqa: E402

# Families of every task, and those of tasks whose tokens depend on each other.
SHORT = {
    "constant": [constant(t) for t in (.3, .4, .5, .6, .7, .75, .8, .85, .9, .925, .95, .97, .98, .99, .995, .999)],
    "k a pass": [f"tokens_per_step({k})" for k in (1, 2, 3, 4)],
    "order, one a pass": judge.FAMILIES["order, one a pass"],
    **{name: judge.FAMILIES[name] for name in ("credit", "credit, no memory", "adaptive credit")},
    "lookahead": [f"{rule} + lookahead({n})" for rule, n in (("threshold(0.9)", 3), ("threshold(0.99)", 3), ("threshold(0.9)", 7),
                                                             *((f"tokens_per_step({k})", 3) for k in (1, 2, 3)))],
}
LONG = SHORT | {
    **{name: judge.FAMILIES[name] for name in (
        "margin", "factor", "entropy bound", "adaptive threshold", "KLASS", "runs", "leap", "slow fast",
        "remask current", "unequal neighbours", "steady leader", "same share in each layer")},
    "budget by change": [f"threshold(0.9) + cache_budget({b}, 8, reads=input) + interval_cache(1, 0)" for b in (8, 16, 32, 48, 64, 96)],
    **{name: family for name, family in judge.FAMILIES.items() if name.startswith("early skip")},
    "block cache": ["threshold(0.9) + block_cache(64, 16)"],   # what early skipping rests on
}
LAYERS = [f"layers: {dealt} {budget}" for budget in (8, 16, 32) for dealt in ("change", "even", "reversed", "random")] + [
    f"layers: {rule} {keep}" for keep in (.5, .25) for rule in ("skip", "skip_drift", "skip_confidence", "skip_random")]


class chains(judge.judge):
    model, weights, problems, block = "chains", "chains/chains-f16.gguf", "chains/problems.jsonl", "128"
    profiles, branched = [("osdt", "", .6, 6), ("osdt_by_step", "", .8, 6)], (1, 2, 3)
    budgets = {"trace": (13, range(13, 18)), "path": (4, range(4, 7)), "reach": (3, range(3, 6))}  # as judge.budget and even, by task

    def __init__(self, options, task, seed=1):
        self.task, self.is_long = task, task in ("trace", "path", "reach")
        self.budget, self.even = self.budgets.get(task, (0, ()))
        self.families, self.layers = (LONG, LAYERS) if self.is_long else (SHORT, [])
        if seed != 1:
            self.model = f"chains_{seed}"
            self.weights = f"chains/{self.model}-f16.gguf"
        super().__init__(options)

    def make(self, file, count, seed=None):
        tasks.write(file, [p for p in tasks.problems("validation", count, *([] if seed is None else [seed])) if p.task == self.task])

    def decode_families(self):
        for which in ("validation", "test"):
            self.decode_all([text for family in self.families.values() for text in family], which)
            for i in range(self.profiles[0][-1] if self.is_long else 0):
                self.decode_all([settings for settings, *_ in self.profiles], which, i)


def claims(j):
    """As in judge.py, of one task."""
    one = "tokens_per_step(1)"
    yield "Several tokens a pass against one", beside(
        (p, one) for p in (constant(.99), constant(.9), constant(.7), constant(.5), "tokens_per_step(2)", "tokens_per_step(4)"))
    yield "Which position first, one token a pass", beside((p, one) for p in j.families["order, one a pass"])
    yield "A fixed number of tokens a pass", [j.against(p) for p in j.families["k a pass"][1:]]
    yield judge.credit(j)
    yield judge.lookahead(j)
    if j.is_long:
        yield judge.moving(j)
        yield judge.budgets(j)
        yield judge.published_budgets(j)
        yield from judge.layer_controls(j)
        yield judge.whole(j)
        title, rows = judge.early_skip(j)
        yield title, rows + beside(((p, j.families["block cache"][0]) for p in j.families["early skip, weight 0.5"]), "layer_positions")
        yield judge.others(j, ("margin", "factor", "entropy bound", "KLASS", "runs", "leap", "slow fast", "remask current",
                               "unequal neighbours", "steady leader"))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--demo", required=True, help="the program unmask_demo")
    options.add_argument("--layers", required=True, help="the program layer_controls")
    options.add_argument("--work", default="build/judge/judge", help="folder for what was decoded")
    options.add_argument("--model", default="chains", choices=["chains"])
    options.add_argument("--seed", type=int, default=1, choices=[1, 2], help="of the training")
    options.add_argument("--test", type=int, default=200, help="problems of each task, test set")
    options.add_argument("--validation", type=int, default=60, help="problems of each task, validation set")
    options.add_argument("--out", help="files to write, without ending; bench/results/chains, or chains_2")
    o = options.parse_args()
    name = "chains" if o.seed == 1 else f"chains_{o.seed}"
    o.out = o.out or str(judge.ROOT / "bench/results" / name)
    o.work += "_" + name
    judges = [chains(o, task, o.seed) for task in tasks.JUDGED]
    for j in judges:
        j.decode_families()
    stem, n = pathlib.Path(o.out), o.test
    with open(stem.with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["task", "family", "policy", "set", "problems", "right", "forwards", "segments", "layer_positions"])
        for j in judges:
            rows = [(name, text, which) for name, family in j.families.items() for text in family for which in ("validation", "test")]
            for name, text, which in rows + [("layer controls", text, "test") for text in j.layers]:
                r = j.decode(text, which)
                out.writerow([j.task, name, text, which, j.limits[which], r["right"].count("1"), r["forwards"], r["segments"], r["layer_positions"]])
    drawn = [j for j in judges if j.task in ("trace", "path")]
    total = n * len(drawn)
    points = {name: [(sum(j.cost(t, which="test") for j in drawn) / total, 100 * sum(j.right(t, "test") for j in drawn) / total) for t in family]
              for name, family in LONG.items()}
    stem.with_suffix(".svg").write_text(judge.picture(points, total, "problem", (1.4, 1.6, 1.8, 2, 2.5, 3)), encoding="utf-8")
    text = ["", f"### Overview: right of {n}, and passes a problem", "", *judge.head("policy", *(x for j in judges for x in (j.task, "passes")))]
    for p in dict.fromkeys(p for family in SHORT.values() for p in family):
        text.append(judge.line(f"`{p}`", *(x for j in judges for x in (f"{j.right(p, 'test')}", f"{j.cost(p, which='test') / n:.2f}"))))
    tables, compared = {}, [(j, *claim) for j in judges for claim in claims(j)]
    comparisons = sum(len(rows) for _, _, rows in compared)
    text += ["", *judge.counted(comparisons)]
    for j, title, rows in compared:
        j.comparisons = comparisons
        tables.setdefault(title, judge.head("task", *judge.HEAD)).extend(judge.line(j.task, *judge.cells(j, *row)) for row in rows)
    for title, lines in tables.items():
        text += ["", f"### {title}", "", *lines]
    text += ["", "### Thresholds from one problem (OSDT)", "", *judge.profile_head("task"),
             *(judge.line(j.task, *row) for j in judges if j.is_long for row in judge.profiles(j))]
    measured.write(stem.with_suffix(".md"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
