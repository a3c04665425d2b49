#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""judge.py for the model of examples/chains: its tasks apart, and fewer families of settings.

usage: bash bench/judge.sh --model chains [--test N] [--validation N] [--out STEM]

N counts problems of each task. Settings and controls are chosen on the validation set; the tables are of the test set.
Writes STEM.csv, STEM.svg and the part of STEM.md between its two markers.
"""
import argparse
import csv
import pathlib
import sys

import judge
import measured
from judge import compare, constant

sys.path.insert(0, str(judge.ROOT / "examples" / "chains" / "make"))
import tasks  # noqa: E402

FAMILIES = {
    "constant": [constant(t) for t in (.3, .5, .7, .8, .9, .95, .99)],
    "k a pass": [f"tokens_per_step({k})" for k in (1, 2, 4)],
    "order, one a pass": ["at_random + tokens_per_step(1)", "left_to_right + tokens_per_step(1)"],
    "margin": ["by_margin + threshold(0.9)"],
    "factor": [f"factor({f:g})" for f in (.5, 1)],
    "entropy bound": [f"by_entropy + entropy_bound({b:g})" for b in (.1, .5)],
    "credit": ["threshold(0.9) + trace_credit"],
    "credit, no memory": ["threshold(0.9) + trace_credit(decay=0)"],
    "lookahead": ["threshold(0.9) + lookahead(3)"],
}


class chains(judge.judge):
    model, weights, problems, block, families = "chains", "chains/chains-f16.gguf", "chains/problems.jsonl", "68", FAMILIES

    def make_validation(self, file):
        tasks.write(file, tasks.problems("validation", self.o.validation))

    def part(self, text, task, which="test"):
        """What decode() gives, of one task: the demo decodes one after the other."""
        r, n = self.decode(text, which), self.limits[which]
        first = n * list(tasks.JUDGED).index(task)
        each = slice(first, first + n)
        return {"right": r["right"][each], "forwards_each": r["forwards_each"][each], "forwards": sum(r["forwards_each"][each])}


def claims(j):
    """(title, [(policy, control, tolerance)])."""
    one = "tokens_per_step(1)"
    yield "Several tokens a pass against one", [(p, one, 0) for p in (constant(.99), constant(.9), constant(.5), "tokens_per_step(2)", "tokens_per_step(4)")]
    yield "Which position first, one token a pass", [(p, one, 0) for p in FAMILIES["order, one a pass"]]
    rows = [("threshold(0.9) + trace_credit", "threshold(0.9) + trace_credit(decay=0)", 0), ("threshold(0.9) + lookahead(3)", constant(.9), 0)]
    for family in ("credit", "lookahead", "margin", "factor", "entropy bound"):
        p = j.chosen(family)
        rows.append((p, j.matched(p), .02))
    yield "Other rules against their controls and against the constant that costs as much", rows


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--demo", required=True, help="the program unmask_demo")
    options.add_argument("--layers", help="not used")
    options.add_argument("--work", default="build/judge/judge", help="folder for what was decoded")
    options.add_argument("--model", default="chains", choices=["chains"])
    options.add_argument("--test", type=int, default=240, help="problems of each task, test set")
    options.add_argument("--validation", type=int, default=60, help="problems of each task, validation set")
    options.add_argument("--out", default=str(judge.ROOT / "bench/results/chains"), help="files to write, without ending")
    o = options.parse_args()
    o.work += "_chains"
    j = chains(o)
    for which in ("test", "validation"):
        for family in FAMILIES.values():
            for text in family:
                j.decode(text, which)
    stem, names, n = pathlib.Path(o.out), list(tasks.JUDGED), o.test
    with open(stem.with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["family", "policy", "set", "task", "problems", "right", "forwards"])
        for name, family in FAMILIES.items():
            for text in family:
                for which in ("validation", "test"):
                    for task in names:
                        r = j.part(text, task, which)
                        out.writerow([name, text, which, task, len(r["right"]), r["right"].count("1"), r["forwards"]])
    total = n * len(names)
    points = {name: [(j.cost(t, which="test") / total, 100 * j.right(t, "test") / total) for t in family] for name, family in FAMILIES.items()}
    stem.with_suffix(".svg").write_text(judge.picture(points, total, "problem"), encoding="utf-8")
    text = ["", f"### Overview: right of {n}, and passes a problem", "", "| policy | " + " | ".join(f"{t} | passes" for t in names) + " |",
            "| --- |" + " --- | --- |" * len(names)]
    for family in FAMILIES.values():
        for p in family:
            cells = [f"{r['right'].count('1')} | {r['forwards'] / n:.2f}" for r in (j.part(p, t) for t in names)]
            text.append(f"| `{p}` | " + " | ".join(cells) + " |")
    for title, rows in claims(j):
        text += ["", f"### {title}", "", "| policy | against | task | right | passes | gained, lost | 95 %, points | p | cost, a problem | |",
                 "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
        for p, control, tolerance in rows:
            for task in names:
                a, b = j.part(p, task), j.part(control, task)
                gained, lost, low, high, value, cost, verdict = compare(a, b, tolerance=tolerance)
                text.append(f"| `{p}` | `{control}` | {task} | {a['right'].count('1')}, {b['right'].count('1')} | {a['forwards']}, {b['forwards']} | "
                            f"+{gained} -{lost} | {low:+.1f} to {high:+.1f} | {value:.2g} | {cost} | {verdict} |")
    measured.write(stem.with_suffix(".md"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
