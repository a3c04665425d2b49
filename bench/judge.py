#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decodes unseen problems under many policies and compares each with its control, on the same problems.

usage: bash bench/judge.sh [--model sudoku] [--test N] [--validation N] [--out STEM]

Every setting is decoded on a validation set and on the test set. Settings and controls are chosen on the first, by the
rules in `claims`; the tables are of the second. Writes STEM.csv (every setting on both sets), STEM.svg (right answers
over forward passes, test set) and the part of STEM.md between its two markers. What was decoded once is kept in the
work folder and not decoded again as long as model and problems stay the same: remove it after a change of the library.
"""
import argparse
import csv
import hashlib
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys

import measured
import paired

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "sudoku" / "make"))
import puzzles  # noqa: E402

CONSTANTS = [.3, .4, .5, .55, .6, .65, .675, .7, .7125, .725, .7375, .75, .7625, .775, .7875, .8, .8125, .825, .8375, .85, .8625, .875, .8875,
             .9, .9125, .925, .9375, .95, .9625, .97, .975, .98, .985, .99, .9925, .995]


def constant(t):
    return f"threshold({t:g})"


# Settings of each family, from which one is chosen on the validation set.
FAMILIES = {
    "constant": [constant(t) for t in CONSTANTS],
    "k a pass": [f"tokens_per_step({k})" for k in (1, 2, 3, 4, 6)],
    "order, one a pass": [f"{order} + tokens_per_step(1)" for order in
                          ("by_margin", "by_entropy", "at_random", "left_to_right")],
    "margin": [f"by_margin + threshold({t:g})" for t in (.7, .8, .9, .95, .99)],
    "steps": [f"steps_per_block({k})" for k in (3, 4, 6)],
    "factor": [f"factor({f:g})" for f in (.05, .1, .2, .35, .5, .75, 1, 2)],
    "entropy bound": [f"by_entropy + entropy_bound({b:g})" for b in (.01, .03, .1, .2, .4, .7, 1)],
    "credit": [f"threshold({t:g}) + trace_credit" for t in (.8, .9, .95, .99)],
    "credit, no memory": [f"threshold({t:g}) + trace_credit(decay=0)" for t in (.8, .9, .95, .99)],
    "adaptive credit": [f"threshold({t:g}) + adaptive_credit" for t in (.8, .9, .95, .99)],
    "lookahead": [f"threshold({t:g}) + lookahead({n})" for n in (3, 7) for t in (.8, .9, .95, .99)],
    "adaptive threshold": [f"adaptive_threshold({t:g}, {low:g}, {.8 * low:g})" for low in (.001, .02, .1)
                           for t in (.8, .9, .99)],
    "KLASS": [f"stable_and_confident({t:g}, 0.01, 1)" for t in (.7, .9)],
    "runs": [f"hierarchical({low:g}, 0.9)" for low in (.4, .6, .8)],
    "leap": [f"local_leap(0.9, {low:g}, {r})" for low in (.6, .75) for r in (1, 4)],
    "slow fast": [f"threshold({t:g}, inclusive=true) + slow_fast(6, 0.3, 1)" for t in (.8, .9, .95)],
    "remask current": [f"threshold({t:g}) + remask_current_below({b:g})" for t in (.5, .7) for b in (.4, .6)],
    "remask": [f"threshold({t:g}) + remask_below({b:g})" for t in (.5, .7) for b in (.4, .6)],
    "unequal neighbours": [f"threshold({t:g}) + no_equal_neighbours" for t in (.5, .7, .9)],
    "finish": [f"finish({t:g}, {low:g})" for t in (.9, .97) for low in (.3, .5)],
    "beam": [f"threshold({t:g}) + beam({n})" for n in (2, 4) for t in (.8, .9, .95)],
    "steady leader": [f"steady_leader({k})" for k in (2,)],
    "Dream": [f"by_entropy + timesteps({k}, 0.001)" for k in (2, 3, 4)],
}
BUDGETS = (4, 8, 12, 16, 20, 24, 28)
FAMILIES["budget by change"] = [f"threshold(0.9) + cache_budget({b}, 8, reads=input) + interval_cache(1, 0)" for b in BUDGETS]
FAMILIES["same share in each layer"] = [f"threshold(0.9) + similarity_refresh({s:g}, reads=input) + interval_cache(1, 7)" for s in
                                        (.1, .2, .3, .4, .5, .6, .7, .8)]
for weight in (0, .5, 1):
    FAMILIES[f"early skip, weight {weight:g}"] = [
        f"threshold(0.9) + early_skip({weight:g}, [{first:g}, {second:g}], [{keep:g}, {keep:g}]) + block_cache(64, 16)"
        for first, second in ((.125, .25), (.5, .75)) for keep in (.5, .7)]
# Constants in blocks, for rules that tell blocks apart.
IN_BLOCKS = {f"constant @{length}": [f"{constant(t)} @{length}" for t in (.3, .4, .5, .55, .6, .65, .7, .75, .8, .85, .9, .95, .99)]
             for length in (12, 6)}
# OSDT: settings, blocks, the constant that their cap leaves at most, and how many problems calibrate.
PROFILES = [("osdt", "", .6, 20), ("osdt_by_step", "", .8, 20)] + [
    (f"{task}{reading}", blocks, .6, 5) for blocks in ("", " @12", " @6") for task in ("osdt_gsm8k", "osdt_gpqa")
    for reading in ("", "(recorded=candidates)") if task + reading + blocks != "osdt_gsm8k"]
SHOWN = ["tokens_per_step(1)", "tokens_per_step(2)", "tokens_per_step(4)"] + [constant(t) for t in (.99, .95, .9, .8, .7, .5, .3)] + [
    "threshold(0.99) + lookahead(3)", "threshold(0.9) + lookahead(3)", "threshold(0.9) + lookahead(7)",
    "threshold(0.9) + early_skip(0.5, [0.125, 0.25], [0.7, 0.7]) + block_cache(64, 16)",
    "threshold(0.9) + similarity_refresh(0.8, reads=input) + interval_cache(1, 7)"]
# Rules that the library does not have: arguments of bench/layer_controls.cpp, one token a pass, without a window.
BUDGET_CONTROLS = [(budget, dealt) for budget in (2, 3, 4, 6, 8) for dealt in ("change", "even", "reversed", "random")]
SKIP_CONTROLS = [(keep, rule) for keep in (.25, .15) for rule in ("skip", "skip_drift", "skip_confidence", "skip_random")]
LAYERS = [f"layers: {rule} {value:g}" for value, rule in BUDGET_CONTROLS + SKIP_CONTROLS]


class judge:
    """Decodes with the demo and keeps the results. Other models have other names, problems and families of settings."""
    model, weights, problems, block, task = "sudoku", "sudoku/sudoku-f16.gguf", "sudoku/puzzles.jsonl", "36", "sudoku"
    families, layers, profiles, branched = FAMILIES | IN_BLOCKS, LAYERS, PROFILES, (1, 2)
    budget, even = 5, (5, 6)     # an eighth of the answer, rounded up; even budgets among which one works as much
    comparisons = 1              # of the page, for which verdicts are corrected
    rules = None                 # of the board: a file of rules of its own
    slack = 0                    # of the board: constants whose costs differ by no more than this share count as equally dear

    def __init__(self, options):
        self.o, self.done = options, {}
        self.work = pathlib.Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.files = {"validation": self.work / f"validation_{self.task}.jsonl", "test": ROOT / "examples" / self.problems}
        self.make(self.files["validation"], options.validation)
        self.limits = {"validation": options.validation, "test": options.test}
        weights = (ROOT / "examples" / self.weights).read_bytes()
        self.key = hashlib.sha256(weights + b"".join(file.read_bytes() for file in self.files.values())).hexdigest()[:16]

    def make(self, file, count, seed=None):
        """Problems of the validation set, or with a seed others of its kind."""
        puzzles.write(file, puzzles.puzzles("validation", count, **({} if seed is None else {"seed": seed})))

    def decode(self, text, which, calibration=None, limit=None, again=None):
        """What the demo prints for one policy on one set; "POLICY @6" decodes in blocks of 6 cells; options of
        the demo may follow the 6."""
        limit = limit or self.limits[which]
        name, kept = self.place(text, which, limit, calibration, again)
        if name not in self.done:
            if not kept.exists():
                self.run([text], which, limit, calibration, again)
            self.done[name] = json.loads(kept.read_text())
        return self.done[name]

    def place(self, text, which, limit, calibration=None, again=None):
        """The name of a result, and the file that keeps it."""
        name = json.dumps([text, which, limit, calibration, self.key] + ([] if again is None else [again]))
        return name, self.work / (hashlib.sha256(name.encode()).hexdigest()[:24] + ".json")

    def decode_all(self, texts, which, calibration=None):
        """Decodes what is not yet decoded, all of the same blocks in one process, which computes a pass that policies
        have in common once."""
        limit, missing = self.limits[which], {}
        for t in dict.fromkeys(texts):
            if not t.startswith("layers: ") and not self.place(t, which, limit, calibration)[1].exists():
                missing.setdefault(t.partition(" @")[2], []).append(t)
        for same in missing.values():
            self.run(same, which, limit, calibration, None, "--share-passes", "2000")

    def run(self, texts, which, limit, calibration, again, *options):
        """Decodes and keeps the results of policies that have the same blocks."""
        policies, _, block = zip(*(t.partition(" @") for t in texts))
        command = [self.o.demo, "--model", self.model, "--json", "--threads", "1", "--prompts", str(self.files[which]), "--task", self.task,
                   "--limit", str(limit), "--block-length", *(block[0] or self.block).split(), *options, *(x for p in policies for x in ("--policy", p))]
        if texts[0].startswith("layers: "):
            command = [self.o.layers, str(ROOT / "examples" / self.weights), str(self.files[which]), self.task, str(limit), *texts[0].split()[1:]]
        if calibration is not None:
            file = self.work / f"calibration_{self.task}_{calibration}.jsonl"
            self.make(file, 1, 100_000 + calibration)  # a problem that is in neither set
            command += ["--calibration", str(file)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if ran.returncode != 0:
            sys.exit(f"judge: {texts}: {ran.stderr.strip()}")
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        for text, policy in zip(texts, json.loads(ran.stdout)["policies"]):
            name, kept = self.place(text, which, limit, calibration, again)
            kept.with_suffix(".new").write_text(json.dumps({"name": name, "processor_seconds": seconds / len(texts), **policy}))
            os.replace(kept.with_suffix(".new"), kept)
            print(f"{self.task:8} {which:10} {policy['right'].count('1'):5} right {policy['forwards']:7} passes  {text}", file=sys.stderr)

    def masked(self, which):
        with open(self.files[which], encoding="ascii") as file:
            problems = [p for p in map(json.loads, file) if p["task"] == self.task][: self.limits[which]]
        return sum(p["given"].count("_") for p in problems)

    def milliseconds(self, text):
        """Processor time of a puzzle on one thread, engine and policy: 101 puzzles less one, the least of three runs
        each. Not the clock's time, which a busy machine stretches."""
        least = lambda count: min(self.decode(text, "test", None, count, f"cpu {i}")["processor_seconds"] for i in range(3))  # noqa: E731
        return f"{10 * (least(101) - least(1)):.2f}"

    # --- choices, on the validation set ---

    def count(self, done):
        """Right answers, of the board what it counts; interval() and compare() are of it."""
        return done["right"].count("1")

    def interval(self, done):
        return paired.wilson(self.count(done), len(done["right"]))

    def compare(self, a, b):
        return compare(a, b, "layer_positions")[:5]

    def right(self, text, which="validation"):
        return self.count(self.decode(text, which))

    def cost(self, text, by="forwards", which="validation"):
        return self.decode(text, which)[by]

    def matched(self, text, family="constant", by="forwards", calibration=None):
        """The setting of a family whose cost on the validation set is nearest to that of the policy; the first of
        equals."""
        cost = self.decode(text, "validation", calibration)[by]
        return min(self.families[family], key=lambda c: abs(self.cost(c, by) - cost))

    def best(self, text, family, by):
        """The row of a policy and the setting of a family that on the validation set is right most often among those
        that cost at most as much."""
        fitting = [c for c in self.families[family] if self.cost(c, by) <= self.cost(text, by)]
        return text, max(fitting or self.families[family], key=lambda c: (self.right(c), -self.cost(c, by))), by, 0

    def dearer(self, text, family="constant", by="forwards"):
        """The row of a policy and the setting of a family that bounds it from above: on the test set, the cheapest that
        costs no less, or the dearest of all. What a setting costs says nothing of what it has right."""
        cost = {c: self.cost(c, by, "test") for c in self.families[family]}
        fitting = [c for c in cost if cost[c] >= self.cost(text, by, "test")]
        return text, min(fitting, key=cost.get) if fitting else max(cost, key=cost.get), by, .02

    def against(self, text, family="constant", by="forwards"):
        """The row of a policy and its matched control."""
        return text, self.matched(text, family, by), by, .02

    def chosen(self, family, by="forwards", against="constant"):
        """The setting of a family that on the validation set is furthest above its matched control."""
        return max(self.families[family], key=lambda p: (self.right(p) - self.right(self.matched(p, against, by)), -self.cost(p, by)))


VERDICTS = {(0, 0): "not told apart", (1, 0): "**better**: more right", (0, -1): "**cheaper**, right not told apart",
            (1, -1): "**better**: more right and cheaper", (-1, 0): "worse: fewer right", (0, 1): "worse: dearer",
            (-1, 1): "worse: fewer right and dearer", (1, 1): "more right, and dearer", (-1, -1): "cheaper, and fewer right"}
# The same where p is below .05, but not after the correction.
IN_PART = {(1, 0): "in part better: more right", (1, -1): "**cheaper**, in part more right", (-1, 0): "in part worse: fewer right",
           (-1, 1): "worse: dearer, in part fewer right", (1, 1): "worse: dearer, in part more right",
           (-1, -1): "cheaper, and in part fewer right"}


def compare(policy, control, by="forwards", tolerance=0.0, comparisons=1):
    """Counts, interval and verdict of a policy against a control, both as the demo reports them. The verdict holds for
    as many comparisons (Bonferroni): p and the level of the interval of the cost are corrected for their number. A cost
    that differs by no more than the tolerance, as a share of the control's, or than chance, counts as equal."""
    pairs = list(zip(policy["right"], control["right"]))
    gained, lost, n = pairs.count(("1", "0")), pairs.count(("0", "1")), len(pairs)
    low, high = paired.difference(gained, lost, n)
    p = paired.sign_test(gained, lost)
    if by == "layer_positions":
        relative = policy[by] / control[by] - 1
        cost, half = relative, max(tolerance, .02)  # there is no count for each problem
        shown = f"{100 * relative:+.0f} % layer-positions"
    else:
        cost, half = paired.mean_interval([a - b for a, b in zip(policy[by + "_each"], control[by + "_each"])])
        shown = f"{cost:+.3f} ± {half:.3f} {by}"
        half *= statistics.NormalDist().inv_cdf(1 - .025 / comparisons) / paired.Z95
        half = max(half, tolerance * control[by] / n)
    accuracy = 0 if p >= .05 else 1 if gained > lost else -1
    expense = 0 if abs(cost) <= half else 1 if cost > 0 else -1
    verdict = (VERDICTS if accuracy == 0 or p * comparisons < .05 else IN_PART)[accuracy, expense]
    if policy["right"] == control["right"] and policy[by] == control[by]:
        verdict = "the same problems right"
    return gained, lost, low, high, p, shown, verdict


def aup(points):
    """Accuracy under parallelism (Qian et al., d3LLM, 2026, as released): points are (tokens a pass, right answers in
    percent) of one family; those more than 5 points below the one with the fewest tokens a pass are left out. The
    weight is exp(-3 (1 - y / best)) with the best accuracy of all families, at most 1."""
    def of(family, best):
        pairs = sorted(family)
        pairs = [pair for pair in pairs if pair[1] >= pairs[0][1] - 5]
        value = pairs[0][0] * pairs[0][1]
        weighted = [y * min(1.0, math.exp(-3 * (1 - y / best))) for _, y in pairs]
        for i in range(1, len(pairs)):
            value += (pairs[i][0] - pairs[i - 1][0]) * (weighted[i] + weighted[i - 1]) / 2
        return value
    best = max(y for family in points.values() for _, y in family)
    return {name: of(family, best) for name, family in points.items()}


def beside(pairs, by="forwards"):
    return [(policy, control, by, 0) for policy, control in pairs]


def credit(j):
    rows = []
    for p in j.families["credit"]:
        rows += [(p, p.split(" + ")[0], "forwards", 0), (p, p.replace("trace_credit", "trace_credit(decay=0)"), "forwards", 0), j.against(p)]
    return "Credit for tokens that keep leading (CreditDecoding)", rows + [j.against(j.chosen("adaptive credit"))]


def lookahead(j):
    rows = []
    for p in ("threshold(0.9) + lookahead(3)", "threshold(0.99) + lookahead(3)", "threshold(0.9) + lookahead(7)"):
        rows += [(p, p.split(" + ")[0], "forwards", 0), *dict.fromkeys((j.against(p), j.dearer(p))), j.against(p, by="segments")]
    for k in j.branched:
        p = f"tokens_per_step({k}) + lookahead(3)"
        rows += [(p, f"tokens_per_step({k + 1})", "forwards", 0), (p, f"tokens_per_step({k})", "segments", 0)]
    return "Lookahead branches (LoPA)", rows


def moving(j):
    default, moved = "adaptive_threshold(0.9, 0.001, 0.0008)", j.chosen("adaptive threshold")
    return "Thresholds that move (Dynamic-dLLM)", [(default, constant(.9), "forwards", 0), j.against(default), j.against(moved)]


def budgets(j):
    rows = []
    for p in j.families["budget by change"][1:6:2]:
        rows += [(p, constant(.9), "layer_positions", 0), j.best(p, "same share in each layer", "layer_positions")]
    return "Budgets of what each layer computes (Dynamic-dLLM), under a threshold", rows


def layer_controls(j):
    """Each rule of `layers` beside the others with the same number, of which the first is the library's."""
    for title, rule in (("Ablation: the same budget dealt out otherwise, without the paper's window, one token a pass", "change"),
                        ("The same number of positions skipped otherwise, one token a pass", "skip")):
        same = [(name, f"layers: {rule} {name.split()[2]}") for name in j.layers]
        yield title, [(p, control, "layer_positions", 0) for control, p in same if p in j.layers and control != p]


def early_skip(j):
    rows = []
    for i, half in enumerate(j.families["early skip, weight 0.5"]):
        rows += [(half, constant(.9), "layer_positions", 0)] + [
            (half, j.families[f"early skip, weight {w}"][i], "layer_positions", 0) for w in (0, 1)]
    return "Early skipping with one stage, settings of this library (ES-dLLM's are above)", rows


STAGES = "[0.125, 0.25], [0.5, 0.25]"  # ES-dLLM's: a half of what entered from an eighth of the layers on, a quarter from a quarter on


def whole(j):
    """Methods with all published values, beside what they are made from, and the rules that their papers take away."""
    cache, rows = "block_cache(64, 16)", []
    for rule in ("tokens_per_step(1)", constant(.9)):
        skip = f"{rule} + early_skip(0.5, {STAGES}) + {cache}"
        rows += [(skip, control, "layer_positions", 0) for control in
                 (rule, f"{rule} + {cache}", *(f"{rule} + early_skip({w}, {STAGES}) + {cache}" for w in (0, 1)))]
    rows += [("layers: skip 0.5 0.25", "layers: skip_random 0.5 0.25", "layer_positions", 0)]
    budgets = f"cache_budget({j.budget}, {j.budget}) + interval_cache(1, 0)"
    rows += [(f"adaptive_threshold + {budgets}", control, "layer_positions", 0) for control in (constant(.9), "adaptive_threshold")]
    return "Whole methods as published (ES-dLLM, ES-dLLM with parallel decoding, Dynamic-dLLM)", rows


def published_budgets(j):
    """Budgets by change with the paper's budget and window, beside as large ones dealt out otherwise, and beside an even
    one for which the layers compute as many positions."""
    b = f"{j.budget} {j.budget}"
    work = lambda even: abs(j.cost(f"layers: even {even} {j.budget}", "layer_positions", "test") -  # noqa: E731
                            j.cost(f"layers: change {b}", "layer_positions", "test"))
    controls = [f"layers: {dealt} {b}" for dealt in ("random", "even", "reversed")] + [f"layers: even {min(j.even, key=work)} {j.budget}"]
    return "Published budgets and window (an eighth of the answer), one token a pass", [
        (f"layers: change {b}", control, "layer_positions", 0) for control in dict.fromkeys(controls)]


def others(j, families):
    return "Other rules, at the setting that validation chose", [j.against(p) for p in map(j.chosen, families)]


def claims(j):
    """(title, [(policy, control, cost, tolerance)]): what is compared, and with what."""
    yield "Which position first, one token a pass", beside(
        (f"{order} + tokens_per_step(1)", control) for order, control in
        (("by_margin", "tokens_per_step(1)"), ("by_entropy", "tokens_per_step(1)"),
         ("at_random", "tokens_per_step(1)"), ("left_to_right", "tokens_per_step(1)"),
         ("left_to_right", "at_random + tokens_per_step(1)")))
    yield "A fixed number of tokens a pass, and orders under a threshold", [
        j.against(p) for p in
        FAMILIES["k a pass"][1:4] + ["steps_per_block(4)", "by_entropy + timesteps(4, 0.001)", "by_margin + threshold(0.9)"]]
    yield credit(j)
    yield lookahead(j)
    yield "Blocks, and blocks that start early (D2F); @6 is blocks of 6 cells", beside(
        pair for length in (6, 12) for pair in (
            (f"threshold(0.9) @{length}", constant(.9)),
            (f"threshold(0.9) + block_pipeline(0.1) @{length}", f"threshold(0.9) @{length}"),
            (f"threshold(0.9) + block_pipeline(0.1, whole_canvas=true) @{length}", f"threshold(0.9) @{length}"),
            (f"threshold(0.9) + block_pipeline(0.1, whole_canvas=true) @{length}", constant(.9))))
    yield moving(j)
    yield budgets(j)
    yield published_budgets(j)
    yield from layer_controls(j)
    yield whole(j)
    yield early_skip(j)
    yield others(j, ("factor", "entropy bound", "KLASS", "runs", "leap", "slow fast", "remask current", "remask",
                     "unequal neighbours", "steady leader", "finish", "beam"))


HEAD = ["policy", "right", "passes", "tokens a pass", "segments", "layer-positions", "against", "right", "passes", "gained, lost",
        "95 %, points", "p", "cost, a problem", ""]


def line(*texts):
    return "| " + "".join(f"{t} | " if t else "| " for t in texts).rstrip()


def head(*names):
    return [line(*names), "|" + " --- |" * len(names)]


def cells(j, policy, control, by, tolerance):
    a, b = j.decode(policy, "test"), j.decode(control, "test")
    gained, lost, low, high, p, cost, verdict = compare(a, b, by, tolerance, j.comparisons)
    return [f"`{policy}`", f"{a['right'].count('1')}", f"{a['forwards']}", f"{j.masked('test') / a['forwards']:.2f}", f"{a['segments']}",
            f"{a['layer_positions'] / 1e6:.3f} M", f"`{control}`", f"{b['right'].count('1')}", f"{b['forwards']}", f"+{gained} -{lost}",
            f"{low:+.1f} to {high:+.1f}", f"{p:.2g}", cost, verdict]


def counted(n):
    """What the verdicts of a page are corrected for."""
    return [f"The tables below make **{n} comparisons**: *better*, *worse* and *fewer right* stand where p is below .05 / {n} = {.05 / n:.2g}, *in",
            f"part* where it is below .05 alone. *Cheaper* and *dearer* have a normal interval of level 1 - .05 / {n}."]


def table(j, rows):
    return head(*HEAD) + [line(*cells(j, *row)) for row in rows]


def profiles(j):
    """The profiles of some problems against the constant that made them, and against the matched constant: rows of cells.
    Verdicts are corrected for the number of problems."""
    spread = lambda values: " / ".join(str(v) for v in (min(values), sorted(values)[len(values) // 2], max(values)))  # noqa: E731
    for settings, blocks, most, calibrations in j.profiles:
        text, family = settings + blocks, "constant" + blocks
        results = [j.decode(text, "test", i) for i in range(calibrations)]
        fixed = constant(most) + blocks
        for label, controls in ((f"`{fixed}`", [fixed] * calibrations),
                                ("the matched constant", [j.matched(text, family, calibration=i) for i in range(calibrations)])):
            verdicts = [compare(r, j.decode(c, "test"), tolerance=.02, comparisons=calibrations)[-1] for r, c in zip(results, controls)]
            better, worse = sum("**" in v for v in verdicts), sum("worse" in v for v in verdicts)
            same = sum(v == "the same problems right" for v in verdicts)
            yield [f"`{text}`", f"{calibrations}", spread([r['right'].count('1') for r in results]), spread([r['forwards'] for r in results]),
                   label, f"{better}", f"{worse}", f"{calibrations - better - worse}, of which {same} with the same problems right"]


def profile_head(*first):
    return head(*first, "profile", "calibrations", "right, least / median / most", "passes, the same", "against", "better", "worse", "neither")


def picture(points, n, thing="puzzle", steep=(1.8, 2, 2.5, 3, 3.5, 4)):
    """Right answers over forward passes as SVG, the constants joined by a line: everything, then the part between these
    passes."""
    colours = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac", "#2f4b7c", "#ffa600", "#665191", "#00876c"]

    def mark(i, a, b):
        colour = colours[i % len(colours)]
        return (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>',
                f'<rect x="{a - 3:.1f}" y="{b - 3:.1f}" width="6" height="6" fill="{colour}"/>',
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#ffffff" stroke="{colour}" stroke-width="2"/>')[i // len(colours)]

    def panel(top, height, passes, shares):
        """One pair of axes: ticks of passes on a logarithmic scale, ticks of shares in percent."""
        left, width = 60, 600
        x = lambda v: left + width * math.log(v / passes[0]) / math.log(passes[-1] / passes[0])  # noqa: E731
        y = lambda v: top + height * (shares[-1] - v) / (shares[-1] - shares[0])  # noqa: E731
        for v in passes:
            yield f'<path d="M{x(v):.1f} {top}v{height}" stroke="#dddddd"/><text x="{x(v):.1f}" y="{top + height + 18}" text-anchor="middle">{v:g}</text>'
        for v in shares:
            yield f'<path d="M{left} {y(v):.1f}h{width}" stroke="#dddddd"/><text x="{left - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v}</text>'
        yield f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">forward passes a {thing}</text>'
        middle = top + height / 2
        yield f'<text x="16" y="{middle}" transform="rotate(-90 16 {middle})" text-anchor="middle">right, % of {n} unseen {thing}s</text>'
        for i, (name, family) in enumerate(points.items()):
            inside = [(x(a), y(b)) for a, b in sorted(family) if passes[0] <= a <= passes[-1] and shares[0] <= b <= shares[-1]]
            if name == "constant":
                yield f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in inside)}" fill="none" stroke="{colours[i]}"/>'
            yield from (mark(i, a, b) for a, b in inside)

    lowest = min(90, int(min(b for family in points.values() for _, b in family) // 10 * 10))
    svg = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 900" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#ffffff"/>',
           *panel(20, 360, (1, 2, 4, 8, 16, 32), range(lowest, 101, 10)), *panel(460, 380, steep, range(80, 101, 5))]
    for i, name in enumerate(points):
        svg += [mark(i, 680, 30 + 18 * i), f'<text x="694" y="{34 + 18 * i}">{name}</text>']
    return "\n".join(svg + ["</svg>"]) + "\n"


def self_test():
    drawn = picture({"constant": [(1, 40.0), (2, 90.0), (3, 100.0)], "other": [(2.5, 85.0)]}, 10)
    assert drawn.count("<circle") == 4 + 3 + 2 and "nan" not in drawn  # all, those of the steep part, the legend
    best = {"a": [(1, 80.0), (2, 80.0)], "b": [(1, 80.0), (3, 70.0)]}
    result = aup(best)
    assert abs(result["a"] - 160) < 1e-9 and abs(result["b"] - 80) < 1e-9, result  # the second of b is 10 points lower
    assert paired.mean_interval([1, 1, 1]) == (1, 0)
    one = {"right": "1100", "forwards": 8, "forwards_each": [2, 2, 2, 2]}
    assert compare(one, one)[-1] == "the same problems right"
    two = {"right": "1100", "forwards": 4, "forwards_each": [1, 1, 1, 1]}
    assert compare(two, one)[-1] == "**cheaper**, right not told apart" and compare(one, two)[-1] == "worse: dearer"
    many = {"right": "1" * 8, "forwards": 8, "forwards_each": [1] * 8}
    none = {"right": "0" * 8, "forwards": 8, "forwards_each": [1] * 8}
    assert compare(many, none)[-1] == "**better**: more right" and compare(none, many)[-1] == "worse: fewer right"
    assert compare(many, none, comparisons=6)[-1] == "**better**: more right"  # p = 2 / 256
    assert compare(many, none, comparisons=7)[-1] == "in part better: more right"
    varied = dict(one, forwards=9, forwards_each=[3, 3, 2, 1])  # +1, +1, 0, -1
    assert compare(varied, one, comparisons=9)[-1] == "not told apart"
    slower = dict(one, forwards=14, forwards_each=[4, 4, 3, 3])  # 1.5 ± .57, and ± .8 for nine
    assert compare(slower, one)[-1] == "worse: dearer" and compare(slower, one, comparisons=10 ** 9)[-1] == "not told apart"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--demo", help="the program unmask_demo")
    options.add_argument("--layers", help="the program layer_controls")
    options.add_argument("--work", default="build/judge/judge", help="folder for what was decoded")
    options.add_argument("--model", default="sudoku", choices=["sudoku"])
    options.add_argument("--test", type=int, default=1000, help="problems of the test set")
    options.add_argument("--validation", type=int, default=500, help="problems of the validation set")
    options.add_argument("--out", default=str(ROOT / "bench/results/sudoku"), help="files to write, without ending")
    options.add_argument("--self-test", action="store_true")
    o = options.parse_args()
    if o.self_test:
        return self_test()
    if not o.demo or not o.layers:
        options.error("--demo and --layers must name the programs that bench/judge.sh builds")
    j = judge(o)
    for which in ("validation", "test"):
        j.decode_all([text for family in j.families.values() for text in family], which)
        for i in range(max(p[-1] for p in PROFILES)):
            j.decode_all([settings + blocks for settings, blocks, _, calibrations in PROFILES if i < calibrations], which, i)
    masked = j.masked("test")
    points = {name: [(j.cost(t, which="test") / o.test, 100 * j.right(t, "test") / o.test) for t in family] for name, family in FAMILIES.items()}
    parallel, by_segment = (aup({name: [(masked / j.cost(t, by, "test"), 100 * j.right(t, "test") / o.test) for t in family]
                                 for name, family in FAMILIES.items()}) for by in ("forwards", "segments"))
    stem = pathlib.Path(o.out)
    with open(stem.with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["family", "policy", "set", "problems", "right", "forwards", "segments", "layer_positions", "tokens_per_forward", "aup_of_family"])
        for name, family in j.families.items():
            for text in family:
                for which in ("validation", "test"):
                    r = j.decode(text, which)
                    out.writerow([name, text, which, j.limits[which], r["right"].count("1"), r["forwards"], r["segments"], r["layer_positions"],
                                  f"{j.masked(which) / r['forwards']:.4f}", f"{parallel[name]:.1f}" if name in parallel else ""])
        for name in LAYERS:
            r = j.decode(name, "test")
            out.writerow(["layer controls", name, "test", o.test, r["right"].count("1"), r["forwards"], r["segments"], r["layer_positions"],
                          f"{masked / r['forwards']:.4f}", ""])
    stem.with_suffix(".svg").write_text(picture(points, o.test), encoding="utf-8")
    text = ["", "### Overview", "", "| policy | right | passes | tokens a pass | segments | layer-positions | processor, ms a puzzle |",
            "| --- | --- | --- | --- | --- | --- | --- |"]
    for name in SHOWN:
        r = j.decode(name, "test")
        text.append(f"| `{name}` | {r['right'].count('1')} | {r['forwards']} | {masked / r['forwards']:.2f} | {r['segments']} | "
                    f"{r['layer_positions'] / 1e6:.3f} M | {j.milliseconds(name)} |")
    tables = list(claims(j))
    j.comparisons = sum(len(rows) for _, rows in tables)
    text += ["", *counted(j.comparisons)]
    for title, rows in tables:
        text += ["", f"### {title}", ""] + table(j, rows)
    text += ["", "### Thresholds from one puzzle (OSDT)", ""] + profile_head() + [line(*row) for row in profiles(j)]
    text += ["", "### Accuracy under parallelism", "", *head("family", "by passes", "by segments", "place by segments")]
    places = sorted(by_segment, key=lambda name: -by_segment[name])
    text += [line(name, f"{value:.0f}", f"{by_segment[name]:.0f}", f"{places.index(name) + 1} of {len(places)}")
             for name, value in sorted(parallel.items(), key=lambda item: -item[1])]
    measured.write(stem.with_suffix(".md"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
