#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks the rules of a file, at their published and at their tuned settings, on the small models.

usage: bash bench/board.sh [--add FILE] [--only MODEL] [--test N] [--validation N] [--out STEM]

Every setting is decoded on the problems of bench/judge.py, judge_chains.py and judge_waiting.py, whose results it shares,
and on reactions and antibodies, whose models bash tests/masked_lms.sh fetches. Its controls are the constant thresholds next to it in
layer-positions on the same problems: the cheapest that computes no fewer, or the dearest of all, and the dearest that
computes no more. Where a constant that is right costs hardly more than one that is not, the first is the one that on the
validation set is right most often of those that cost at most 5 % more than it. A setting is better if it is better than
the first, and worse if it is worse than the second. The tuned setting of a rule is the one that on the validation set is
furthest above the first. Writes STEM.csv and the part of STEM.md between its two markers, for traces that wait
STEM_waiting.csv and .md, for reactions STEM_reactions.csv and .md, for antibodies STEM_antibodies.csv and .md; the site of
the documentation sorts their tables.
"""
import argparse
import csv
import functools
import json
import pathlib
import sys

import judge
import judge_chains
import judge_waiting
import masked_lms
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


def read_file(file):
    return read(file.open(encoding="utf-8"), file.name)


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

    def controls(self, j, which):
        """The constant that costs no less, or the dearest, and the one that costs no more, or None."""
        cost, own = {c: j.cost(c, "layer_positions", which) for c in j.families["constant"]}, self.cost(j, which)
        dearer, cheaper = [c for c in cost if cost[c] >= own], [c for c in cost if cost[c] <= own]
        first = min(dearer, key=cost.get) if dearer else max(cost, key=cost.get)
        as_dear = [c for c in cost if cost[first] <= cost[c] <= cost[first] * (1 + j.slack)]
        return max(as_dear, key=lambda c: (j.right(c), -cost[c])), max(cheaper, key=lambda c: (cost[c], j.right(c))) if cheaper else None

    def on(self, j, which):
        return j.decode(self.policy, which, self.calibration)

    def cost(self, j, which):
        return self.on(j, which)["layer_positions"]

    def above(self, j):
        """What a tuned setting has most of: right answers above the control, then cheapness."""
        return j.count(self.on(j, "validation")) - j.right(self.controls(j, "validation")[0]), -self.cost(j, "validation")


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


BESIDE = ["its right", "gained, lost", "95 %, points", "p"]
HEAD = ["rule", "setting", "policy", "right", "95 %", "passes", "segments", "layer-positions", "verdict", "frontier",
        "no cheaper constant", *BESIDE, "no dearer constant", *BESIDE]


def verdict(first, second, comparisons, is_dearest):
    """What (difference, p) against the constant that costs no less, and that against the other or None, say together."""
    said = "not told apart"
    for (difference, p), word, sign in ((first, "better", 1), (second or (0, 1), "worse", -1)):
        if p < .05 and difference * sign > 0:
            said = word if p * comparisons < .05 else f"in part {word}"
    return said.replace("better", "**better**") + (", dearer than every constant" if is_dearest else "")


def rows_of(j, made, comparisons):
    """(difference in points, cells) of each setting, best first."""
    constants = [(c, j.right(c, "test"), j.cost(c, "layer_positions", "test")) for c in j.families["constant"]]
    best = frontier(constants + [(e.policy, j.count(e.on(j, "test")), e.cost(j, "test")) for e in made])
    found = []
    for e in made:
        a, compared, cells = e.on(j, "test"), [], []
        for control in e.controls(j, "test"):
            if control is None:
                compared.append(None)
                cells += ["", "", "", "", ""]
                continue
            b = j.decode(control, "test")
            gained, lost, low, high, p = j.compare(a, b)
            compared.append((gained - lost, p))
            cells += [f"`{control}`", f"{j.count(b)}", f"+{gained} -{lost}", f"{low:+.1f} to {high:+.1f}", f"{p:.2g}"]
        share, dearest = j.interval(a), max(j.cost(c, "layer_positions", "test") for c in j.families["constant"])
        found.append((compared[0][0], [
            e.rule, e.kind, f"`{e.policy}`", f"{j.count(a)}", f"{share[0]:.1f} to {share[1]:.1f}", f"{a['forwards']}", f"{a['segments']}",
            f"{a['layer_positions'] / 1e6:.3f} M", verdict(*compared, comparisons, e.cost(j, "test") > 1.02 * dearest),
            "yes" if e.policy in best else "", *cells]))
    return sorted(found, key=lambda row: -row[0]), [c for c, _, _ in constants if c in best]


class reactions(judge.judge):
    """Reactions of which a share is masked; right is the reaction itself. No generator makes more, so validation and
    calibration take the last ones of the file."""
    model = weights = str(ROOT / "build/masked_lms/rxnmapper.gguf")
    problems, block = "masked_lms/reactions.jsonl", "160"   # longer than all
    families = {"constant": [judge.constant(t) for t in (0, *judge.CONSTANTS, .999, .9999)]}
    budget = 12   # an eighth of the answer, as long as it is in the middle, rounded up

    def __init__(self, options, task):
        self.task = task
        if not pathlib.Path(self.model).exists():
            sys.exit(f"board: {self.model} must be there: bash tests/masked_lms.sh makes it; --only decodes other models")
        super().__init__(options)

    def make(self, file, count, seed=None):
        with open(self.files["test"], encoding="ascii") as all_of:
            of_task = [line for line in all_of if json.loads(line)["task"] == self.task]
        last = len(of_task) - 1   # calibrates
        if self.o.test + self.o.validation > last:
            sys.exit(f"board: problems of {self.task} must be at most {last} to choose and to test with, got {self.o.test + self.o.validation}")
        file.write_text("".join(of_task[last - count:last] if seed is None else of_task[last:]), encoding="ascii")


class antibodies(reactions):
    """Antibodies of which a share is masked. No policy restores a whole one, so tokens are counted: those that are wrong
    or masked at the start, less those that are wrong at the end. Intervals take a sequence as one draw (Student's)."""
    model = weights = str(ROOT / "build/masked_lms/antiberty.gguf")
    problems, budget = "masked_lms/antibodies.jsonl", 15

    @staticmethod
    def points(done):
        return [a - b for a, b in zip(done["masked_each"], done["wrong_each"])]

    def count(self, done):
        return sum(self.points(done))

    def interval(self, done):
        share, half = masked_lms.ratio(self.points(done), done["masked_each"])
        return share - half, share + half

    def compare(self, a, b):
        apart = [x - y for x, y in zip(self.points(a), self.points(b))]
        more, fewer = sum(x > 0 for x in apart), sum(x < 0 for x in apart)
        difference, half = masked_lms.ratio(apart, a["masked_each"])
        return more, fewer, difference - half, difference + half, paired.sign_test(more, fewer)


class heavy_chains(antibodies):
    """Antibodies of which a share of the amino acids is wrong, for a model that was trained to see such ones."""
    model = weights = str(ROOT / "build/masked_lms/sapiens_heavy.gguf")
    problems, budget = "masked_lms/heavy_chains.jsonl", 14
    rules = ROOT / "bench/board/editing.txt"
    families = {"constant": [f"threshold + edit_committed({t:g}) + edited_blocks(1)" for t in (0, .3, .35, .4, .45, .5, .55, .6, .65, .7, .8, .9, .95)]}


# name for --only: page behind the stem, folder behind the name of the work folder, problems to test and to choose with,
# [(title, maker of a judge)]
MODELS = {
    "sudoku": ("", "", 1000, 500, [("Sudoku", judge.judge)]),
    "chains": ("", "_chains", 200, 60, [(f"Chains: {task}", functools.partial(judge_chains.chains, task=task)) for task in ("trace", "path", "reach")]),
    "waiting": ("_waiting", "_waiting", 100, 40, [(f"Traces that wait: seed {seed}", functools.partial(judge_waiting.waiting, seed=seed)) for seed in (1, 2)]),
    "reactions": ("_reactions", "_reactions", 100, 40, [("Reactions: half masked", functools.partial(reactions, task="mask_50"))]),
    "antibodies": ("_antibodies", "_antibodies", 30, 15, [("Antibodies: 15 % masked", functools.partial(antibodies, task="mask_15"))]),
    "heavy_chains": ("_antibodies", "_heavy_chains", 120, 60, [(f"Heavy chains: {share} % wrong", functools.partial(heavy_chains, task=f"edit_{share}"))
                                                              for share in (5, 15)]),
}


def judges_of(page, o):
    """(title, judge) of the models and tasks of a page."""
    for name, (its_page, folder, test, validation, judges) in MODELS.items():
        if its_page == page and o.only in (None, name):
            for title, make in judges:
                own = argparse.Namespace(**vars(o))
                own.work, own.test, own.validation = o.folder + folder, o.n or test, o.v or validation
                yield title, make(own)


def write(judges, rules, stem):
    """Decodes and writes a page: STEM.csv, and the part of STEM.md between its two markers."""
    board = []
    for title, j in judges:
        own = read_file(j.rules) if j.rules else rules
        decode(j, own)
        board.append((title, j, list(entries(j, own))))
    comparisons = sum(2 if e.controls(j, "test")[1] else 1 for _, j, made in board for e in made)
    text = ["", f"The tables below make **{comparisons} comparisons**: *better* and *worse* stand where p is below .05 / {comparisons} = "
            f"{.05 / comparisons:.2g}, *in", "part* where it is below .05 alone."]
    with open(f"{stem}.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["model", *HEAD[:-len(BESIDE)], *(f"{name} (no dearer)" for name in BESIDE)])
        for title, j, made in board:
            rows, constants = rows_of(j, made, comparisons)
            text += ["", f"### {title}", "", f"{len(made)} settings, {j.limits['test']} problems. On the frontier, of the constants: "
                     + ", ".join(f"`{c}`" for c in constants) + ".", "", *judge.head(*HEAD), *(judge.line(*cells) for _, cells in rows)]
            out.writerows([title, *(cell.strip("`") for cell in cells)] for _, cells in rows)
    measured.write(pathlib.Path(f"{stem}.md"), text)


def self_test():
    rules = read(["# comment", "a (b)", "    published x(1)", "    y + z", "", "c", "    w"])
    assert rules == [("a (b)", [(True, "x(1)"), (False, "y + z")]), ("c", [(False, "w")])], rules
    assert frontier([("a", 5, 10), ("b", 5, 9), ("c", 4, 9), ("d", 3, 2), ("e", 5, 9)]) == {"b", "d", "e"}
    assert verdict((5, .001), (9, .001), 10, False) == "**better**" and verdict((5, .01), None, 10, True).startswith("in part **better**, dearer")
    assert verdict((-5, .001), (-1, .5), 10, False) == "not told apart" and verdict((-9, .001), (-5, .001), 10, False) == "worse"
    low, high = paired.wilson(5, 10)
    assert abs(low - 23.66) < .01 and abs(high - 76.34) < .01, (low, high)
    assert len({policy for _, settings in read_file(FILE) for _, policy in settings}) > 80
    assert read_file(heavy_chains.rules)
    a, b = ({"masked_each": [4, 4, 2], "wrong_each": wrong} for wrong in ([1, 2, 0], [2, 2, 3]))
    j = antibodies.__new__(antibodies)
    assert (j.points(a), j.count(b), j.compare(a, b)[:2]) == ([3, 2, 2], 3, (2, 0))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--demo", help="the program unmask_demo")
    options.add_argument("--layers", help="not used: the judges' option")
    options.add_argument("--work", dest="folder", default="build/judge/judge", help="folder for what was decoded")
    options.add_argument("--policies", type=pathlib.Path, default=FILE, help="file of rules")
    options.add_argument("--add", type=pathlib.Path, action="append", default=[], help="another file of rules")
    options.add_argument("--only", choices=MODELS, help="one model")
    options.add_argument("--test", dest="n", type=int, help="problems of each task; 1000 Sudokus, 200 of chains, 30 antibodies, 120 heavy chains, 100 of the others")
    options.add_argument("--validation", dest="v", type=int, help="problems to choose with; 500 Sudokus, 60 of chains and heavy chains, 15 antibodies, 40 of the others")
    options.add_argument("--out", default=str(ROOT / "bench/results/board"), help="files to write, without ending")
    options.add_argument("--self-test", action="store_true")
    o = options.parse_args()
    if o.self_test:
        return self_test()
    if not o.demo:
        options.error("--demo must name the program that bench/board.sh builds")
    rules = [rule for file in (o.policies, *o.add) for rule in read_file(file)]
    for page in dict.fromkeys(page for name, (page, *_) in MODELS.items() if o.only in (None, name)):
        write(judges_of(page, o), rules, f"{o.out}{page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
