#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks the rules of a file, at their published and at their tuned settings, on the small models.

usage: bash bench/board.sh [--add FILE] [--only MODEL] [--test N] [--validation N] [--out STEM]

Every setting is decoded on the problems of bench/judge.py and bench/judge_chains.py, whose results it shares. Its control
is the constant threshold that computes as many layer-positions: the cheapest that computes no fewer on the same
problems, or the dearest of all. The tuned setting of a rule is the one that on the validation set is furthest above its
control. Writes STEM.csv and the part of STEM.md between its two markers; the site of the documentation sorts its tables.
"""
import argparse
import csv
import math
import pathlib
import sys

import judge
import judge_chains
import measured
import paired

ROOT = judge.ROOT
FILE = ROOT / "bench/board/policies.txt"


def read(lines, name="policies"):
    """[(rule, [(whether it is published, policy)])] of the lines of a file."""
    rules = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if line[0] != " ":
            rules.append((text, []))
        elif not rules:
            sys.exit(f"{name}:{number}: a setting must be under a rule, got '{text}'")
        else:
            published, policy = text.startswith("published "), text.removeprefix("published ")
            rules[-1][1].append((published, policy.strip()))
    for rule, settings in rules:
        if not settings:
            sys.exit(f"{name}: rule '{rule}' must have a setting")
    return rules


def wilson(right, n):
    """Ends of the 95 % interval of a share, in percent (Wilson)."""
    z, p = paired.Z95, right / n
    middle, half = p + z * z / 2 / n, z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return 100 * (middle - half) / (1 + z * z / n), 100 * (middle + half) / (1 + z * z / n)


def frontier(rows):
    """Names of the rows that no other row dominates: as right at no more cost, and better in one. Rows are (name, right,
    cost)."""
    return {name for name, right, cost in rows
            if not any(r >= right and c <= cost and (r > right or c < cost) for _, r, c in rows)}


class entry:
    """A setting of a rule."""

    def __init__(self, rule, kind, policy):
        self.rule, self.kind, self.policy = rule, kind, policy
        self.calibration = 0 if "osdt" in policy or "calibrated_threshold" in policy else None

    def control(self, j, which):
        cost = {c: j.cost(c, "layer_positions", which) for c in j.families["constant"]}
        fitting = [c for c in cost if cost[c] >= self.cost(j, which)]
        return min(fitting, key=cost.get) if fitting else max(cost, key=cost.get)

    def on(self, j, which):
        return j.decode(self.policy, which, self.calibration)

    def cost(self, j, which):
        return self.on(j, which)["layer_positions"]

    def above(self, j):
        """What a tuned setting has most of: right answers above the control, then cheapness."""
        return self.on(j, "validation")["right"].count("1") - j.right(self.control(j, "validation")), -self.cost(j, "validation")


def decode(j, rules):
    """Decodes every setting; policies that compute the same passes together."""
    texts = [policy.replace("{eighth}", f"{j.budget}") for _, settings in rules for _, policy in settings]
    calibrated = [t for t in texts if "osdt" in t or "calibrated_threshold" in t]
    for which in ("validation", "test"):
        j.decode_all(j.families["constant"] + [t for t in texts if t not in calibrated], which)
        j.decode_all(calibrated, which, 0)


def entries(j, rules):
    """The published and the tuned setting of each rule."""
    for rule, settings in rules:
        made = [entry(rule, "published" if published else "", policy.replace("{eighth}", f"{j.budget}"))
                for published, policy in settings]
        best = max(made, key=lambda e: e.above(j))
        best.kind = f"{best.kind}, tuned".removeprefix(", ")
        yield from (e for e in made if e.kind)


HEAD = ["rule", "setting", "policy", "right", "95 %", "passes", "segments", "layer-positions", "control", "its right",
        "gained, lost", "95 %, points", "p", "", "frontier"]


def rows_of(j, made, comparisons):
    """(difference in points, cells) of each setting, best first."""
    constants = [(c, j.right(c, "test"), j.cost(c, "layer_positions", "test")) for c in j.families["constant"]]
    best = frontier(constants + [(e.policy, e.on(j, "test")["right"].count("1"), e.cost(j, "test")) for e in made])
    found = []
    for e in made:
        control = e.control(j, "test")
        a, b = e.on(j, "test"), j.decode(control, "test")
        gained, lost, low, high, p, _, verdict = judge.compare(a, b, "layer_positions", 0, comparisons)
        n, right = len(a["right"]), a["right"].count("1")
        share = wilson(right, n)
        found.append((gained - lost, [
            e.rule, e.kind, f"`{e.policy}`", f"{right}", f"{share[0]:.1f} to {share[1]:.1f}", f"{a['forwards']}", f"{a['segments']}",
            f"{a['layer_positions'] / 1e6:.3f} M", f"`{control}`", f"{b['right'].count('1')}", f"+{gained} -{lost}",
            f"{low:+.1f} to {high:+.1f}", f"{p:.2g}", verdict, "yes" if e.policy in best else ""]))
    return sorted(found, key=lambda row: -row[0]), [c for c, _, _ in constants if c in best]


def models(o):
    """(title, judge) of the models and tasks."""
    if o.only in (None, "sudoku"):
        o.work, o.test, o.validation = o.folder, o.n or 1000, o.v or 500
        yield "Sudoku", judge.judge(o)
    if o.only in (None, "chains"):
        o.work, o.test, o.validation = o.folder + "_chains", o.n or 200, o.v or 60
        yield from ((f"Chains: {task}", judge_chains.chains(o, task)) for task in ("trace", "path", "reach"))


def self_test():
    rules = read(["# comment", "a (b)", "    published x(1)", "    y + z", "", "c", "    w"])
    assert rules == [("a (b)", [(True, "x(1)"), (False, "y + z")]), ("c", [(False, "w")])], rules
    assert frontier([("a", 5, 10), ("b", 5, 9), ("c", 4, 9), ("d", 3, 2), ("e", 5, 9)]) == {"b", "d", "e"}
    low, high = wilson(5, 10)
    assert abs(low - 23.66) < .01 and abs(high - 76.34) < .01, (low, high)
    assert len({policy for _, settings in read(FILE.open(encoding="utf-8"), FILE.name) for _, policy in settings}) > 80


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--demo", help="the program unmask_demo")
    options.add_argument("--layers", help="not used: the judges' option")
    options.add_argument("--work", dest="folder", default="build/judge/judge", help="folder for what was decoded")
    options.add_argument("--policies", type=pathlib.Path, default=FILE, help="file of rules")
    options.add_argument("--add", type=pathlib.Path, action="append", default=[], help="another file of rules")
    options.add_argument("--only", choices=["sudoku", "chains"], help="one model")
    options.add_argument("--test", dest="n", type=int, help="problems of each task; 1000 Sudokus, 200 chains")
    options.add_argument("--validation", dest="v", type=int, help="problems to choose with; 500 Sudokus, 60 chains")
    options.add_argument("--out", default=str(ROOT / "bench/results/board"), help="files to write, without ending")
    options.add_argument("--self-test", action="store_true")
    o = options.parse_args()
    if o.self_test:
        return self_test()
    if not o.demo:
        options.error("--demo must name the program that bench/board.sh builds")
    rules = [rule for file in (o.policies, *o.add) for rule in read(file.open(encoding="utf-8"), file.name)]
    board = []
    for title, j in models(o):
        decode(j, rules)
        board.append((title, j, list(entries(j, rules))))
    comparisons = sum(len(made) for _, _, made in board)
    text = ["", *judge.counted(comparisons)]
    with open(pathlib.Path(o.out).with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["model", *(name or "verdict" for name in HEAD)])
        for title, j, made in board:
            rows, constants = rows_of(j, made, comparisons)
            text += ["", f"### {title}", "", f"{len(made)} settings, {j.limits['test']} problems. On the frontier, of the constants: "
                     + ", ".join(f"`{c}`" for c in constants) + ".", "", *judge.head(*HEAD), *(judge.line(*cells) for _, cells in rows)]
            out.writerows([title, *(cell.strip("`") for cell in cells)] for _, cells in rows)
    measured.write(pathlib.Path(o.out).with_suffix(".md"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
