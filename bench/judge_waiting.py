#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The comparisons that bench/results/waiting.md fixed beforehand, on the models whose positions wait.

usage: bash bench/judge.sh --model waiting [--seeds 1 2] [--calibrations N] [--test N] [--validation N] [--out STEM]

Writes STEM.csv (what was decoded on the test set) and the part of STEM.md between its two markers.
"""
import argparse
import csv
import hashlib
import pathlib
import statistics
import sys
import typing

import judge
import measured
import paired
from judge import constant

sys.path.insert(0, str(judge.ROOT / "examples" / "chains" / "make"))
import tasks  # noqa: E402

COMPARISONS = 70  # of the page, 35 for each seed
ONE, START = "tokens_per_step(1)", constant(.9)
CONSTANTS = [constant(t) for t in (.3, .5, .6, .7, .8, .85, .875, .9, .925, .95, .97, .99)]
BLOCKS = (" @32", " @16")
PAPER = BLOCKS[0]   # of LoPA with D2F on GSM8K; the blocks of the model with block-causal masks
LOPA, SURER, EARLY = (f"{rule}{PAPER}" for rule in ("lopa_d2f", "lopa_d2f(0.99)", "threshold(0.9) + block_pipeline"))
WINDOW = f"{LOPA} --open-window"   # as the paper's: the blocks that are decoded attend to one another
IN_BLOCKS = {f"constant{b}": [f"{constant(t)}{b}" for t in (.3, .4, .5, .6, .7, .8, .9, .99)] for b in BLOCKS}
CAUSAL = IN_BLOCKS[f"constant{PAPER}"] + CONSTANTS + [EARLY, LOPA, WINDOW, SURER]
PROFILES = [f"{method}{reading}" for reading in ("", "(recorded=candidates)") for method in ("osdt_gsm8k", "osdt_gpqa")]
FEWER, MORE, LESS = "fewer passes at no loss", "more right", "less work at no loss"


class waiting(judge.judge):
    problems, block, task = "chains/waiting.jsonl", "237", "waiting"
    families = {"constant": CONSTANTS, **IN_BLOCKS}
    slack = .05   # from 0.3 to 0.99 passes grow by 8 and 2 %, right answers from 2 and 5 of 100 to 99 and 94
    budget, quarter = 30, 60   # an eighth and a quarter of the answer, rounded up

    def __init__(self, options, seed, name="waiting"):
        self.seed, self.model, self.weights = seed, f"{name}_{seed}", f"chains/{name}_{seed}-f16.gguf"
        super().__init__(options)

    def make(self, file, count, seed=None):
        tasks.write(file, tasks.problems("validation", count, seed, tasks.WAITING))

    def no_cheaper(self, text, family="constant", by="forwards"):
        """The cheapest setting of the family that on the validation set takes no fewer passes, or segments, of equals the
        one with the most right answers, or the dearest."""
        cost = {c: self.cost(c, by) for c in self.families[family]}
        fitting = [c for c in cost if cost[c] >= self.cost(text, by)]
        return min(fitting, key=lambda c: (cost[c], -self.right(c))) if fitting else max(cost, key=cost.get)

    def as_much(self, text, rule):
        """The budget of `rule` for which the layers compute as many positions as under `text`, on the first problems of
        the validation set."""
        work = self.decode(text, "validation", limit=4)["layer_positions"]
        return min((f"layers: {rule} {b} {self.budget}" for b in range(self.budget - 10, self.budget + 11)),
                   key=lambda t: abs(self.decode(t, "validation", limit=4)["layer_positions"] - work))

    def profiles(self, blocks):
        """{rule: [policies with the profiles of so many problems]}"""
        found = {p: [] for p in PROFILES}
        for i in range(self.o.calibrations):
            named = [p + blocks for p in PROFILES]
            if not all(self.place(name, "validation", 1, i)[1].exists() for name in named):
                self.run(named, "validation", 1, i, None, "--share-passes", "200")
            for p in PROFILES:
                text = self.decode(p + blocks, "validation", i, limit=1)["profile"]
                file = self.work / f"profile_{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
                file.write_text(text)
                found[p].append(f'{p.partition("(")[0]}("{file}"){blocks}')
        return found


class block_causal(waiting):
    """The model whose rows see no later block, for policies of blocks."""

    def __init__(self, options, seed):
        super().__init__(options, seed, "block_causal")


class compared_on(typing.NamedTuple):
    """A comparison of the page: the judge whose model decodes, the pairs of policy and control."""
    rule: str
    control: str
    direction: str
    pairs: list
    judge: waiting


def fixed(j):
    """The comparisons of the page, in its order."""
    eighth, wide = f"dynamic_cache_updating(budget={j.budget}, window={{}})", "threshold(0.9) + block_cache(64, 16)"
    moved, credited, published = "adaptive_threshold(0.9, 0.001, 0.0008)", "threshold(0.9) + trace_credit", eighth.format(j.budget)
    pair = lambda rule, control, direction, on=j: compared_on(rule, control, direction, [(rule, control)], on)  # noqa: E731
    yield pair(credited, START, FEWER)
    yield pair(credited, "threshold(0.9) + trace_credit(decay=0)", FEWER)
    yield pair(credited, j.no_cheaper(credited), MORE)
    yield pair("threshold(0.9) + adaptive_credit", START, FEWER)
    yield pair(moved, START, FEWER)
    yield pair(moved, "adaptive_threshold(0.9, 0.001, 0)", MORE)
    yield pair(moved, "layers: falling 0.9 0.001", MORE)
    for rule in PROFILES:
        for blocks in BLOCKS:
            made = j.made[blocks][rule]
            yield compared_on(rule + blocks, constant(.6) + blocks, MORE, [(p, constant(.6) + blocks) for p in made], j)
            yield compared_on(rule + blocks, "constants in no fewer passes", MORE,
                              [(p, j.no_cheaper(p, f"constant{blocks}")) for p in made], j)
    yield pair(published, j.as_much(published, "even"), MORE)
    yield pair(published, j.as_much(published, "random"), MORE)
    yield pair(published, eighth.format(0), MORE)
    yield pair(published, eighth.format(j.quarter), MORE)
    yield pair("es_dllm", "es_dllm(weight=0)", MORE)
    yield pair("es_dllm", "es_dllm(weight=1)", MORE)
    for first, second in ((.75, .5), (.5, .25), (.25, .125)):
        yield pair(f"es_dllm(keeps=[{first:g}, {second:g}], depths=[0.125, 0.25])", f"layers: skip_random {first:g} {second:g}", MORE)
    yield pair("es_dllm_parallel", wide, LESS)
    yield pair(LOPA, START + PAPER, FEWER, j.causal)
    yield pair(LOPA, j.causal.no_cheaper(LOPA, f"constant{PAPER}", "segments"), FEWER, j.causal)


def added(j):
    """Comparisons that the page did not fix, of the same kind: credit where the constant has nearly all right."""
    credited, start = "threshold(0.99) + trace_credit", constant(.99)
    for control, direction in ((start, FEWER), ("threshold(0.99) + trace_credit(decay=0)", FEWER), (j.no_cheaper(credited), MORE)):
        yield compared_on(credited, control, direction, [(credited, control)], j)
    yield from added_of_blocks(j.causal)


def added_of_blocks(j):
    """The same of lopa_d2f: what each of its parts adds, the canvas as one block, the paper's attention, another threshold."""
    for rule, control, direction in ((EARLY, START + PAPER, FEWER), (LOPA, EARLY, FEWER), (LOPA, START, FEWER), (LOPA, j.no_cheaper(LOPA), MORE),
                                     (WINDOW, START + PAPER, FEWER), (WINDOW, j.no_cheaper(WINDOW, f"constant{PAPER}", "segments"), FEWER),
                                     (SURER, constant(.99) + PAPER, FEWER)):
        yield compared_on(rule, control, direction, [(rule, control)], j)


def decode(j):
    """Decodes what the comparisons name, as far as it is known before a choice."""
    texts = CONSTANTS + [f"threshold({t}) + trace_credit{memory}" for t in (.9, .99) for memory in ("", "(decay=0)")] + [
        "threshold(0.9) + adaptive_credit", "adaptive_threshold(0.9, 0.001, 0.0008)", "adaptive_threshold(0.9, 0.001, 0)"]
    j.causal = block_causal(j.o, j.seed)
    for which in ("validation", "test"):
        j.decode_all(texts, which)
        j.causal.decode_all(CONSTANTS + IN_BLOCKS[f"constant{PAPER}"], which)
    j.made = {blocks: {p: [] for p in PROFILES} for blocks in BLOCKS}
    for blocks in BLOCKS if j.o.calibrations else ():
        j.made[blocks] = j.profiles(blocks)
        for which in ("validation", "test"):
            j.decode_all(IN_BLOCKS[f"constant{blocks}"] + [p for made in j.made[blocks].values() for p in made], which)


HOLDS, PART, REFUTED, OPEN = "holds", "in part", "refuted", "not shown"


def normal_p(differences):
    """Two-sided p of the mean of paired differences, by the normal distribution."""
    mean, half = paired.mean_interval(differences)
    return (1.0 if mean == 0 else 0.0) if half == 0 else 2 * statistics.NormalDist().cdf(-abs(mean) * paired.Z95 / half)


class outcome:
    """What a pair of decodes says of one direction."""

    def __init__(self, a, b, direction):
        pairs = list(zip(a["right"], b["right"]))
        self.n, self.a, self.b = len(pairs), a, b
        self.gained, self.lost = pairs.count(("1", "0")), pairs.count(("0", "1"))
        self.low, self.high = paired.difference(self.gained, self.lost, self.n)
        self.p = paired.sign_test(self.gained, self.lost)
        differences = [x - y for x, y in zip(a["forwards_each"], b["forwards_each"])]
        self.mean, self.half = paired.mean_interval(differences)
        self.p_passes = normal_p(differences)
        self.work = a["layer_positions"] / b["layer_positions"] - 1
        self.same = a["right"] == b["right"] and a["forwards_each"] == b["forwards_each"]
        self.verdict = self.judged(direction)

    def judged(self, direction):
        if direction == MORE:
            if self.p < .05 and self.gained > self.lost:
                return HOLDS if self.p * COMPARISONS < .05 else PART
            return REFUTED if self.high < 0 else OPEN
        p, difference = (self.p_passes, self.mean) if direction == FEWER else (float(self.work == 0), self.work)
        if self.high < 0 or (p < .05 and difference > 0):
            return REFUTED
        if self.low <= -2 or difference >= 0 or p >= .05:
            return OPEN
        return HOLDS if p * COMPARISONS < .05 else PART


def shown(value, most=1.0):
    return f"{min(most, value):.2g}"


def cells_of(outcomes):
    """Right, control's right, gained and lost, interval, corrected p, passes, corrected p, layer-positions, verdict of a
    comparison; of several calibrations the least, median and most, and how many say what."""
    if not outcomes:
        return ["", "", "", "", "", "", "", "", "not run"], None
    right = lambda r: r["right"].count("1")  # noqa: E731
    if len(outcomes) == 1:
        o = outcomes[0]
        return [f"{right(o.a)}", f"{right(o.b)}", f"+{o.gained} -{o.lost}", f"{o.low:+.1f} to {o.high:+.1f}", shown(o.p * COMPARISONS),
                f"{o.mean:+.2f} ± {o.half:.2f}", shown(o.p_passes * COMPARISONS), f"{100 * o.work:+.1f} %",
                f"{o.verdict}{', the same problems right' if o.same else ''}"], o.verdict
    spread = lambda values: " / ".join(f"{v:.4g}" for v in (min(values), statistics.median(values), max(values)))  # noqa: E731
    count = {v: sum(o.verdict == v for o in outcomes) for v in (HOLDS, PART, REFUTED, OPEN)}
    same, most = sum(o.same for o in outcomes), len(outcomes) / 2
    verdict = HOLDS if count[HOLDS] > most else PART if count[HOLDS] + count[PART] > most else REFUTED if count[REFUTED] > most else OPEN
    return [spread([right(o.a) for o in outcomes]), spread([right(o.b) for o in outcomes]), spread([o.gained - o.lost for o in outcomes]),
            f"{min(o.low for o in outcomes):+.1f} to {max(o.high for o in outcomes):+.1f}", spread([min(1, o.p * COMPARISONS) for o in outcomes]),
            spread([o.mean for o in outcomes]), "", "",
            f"{'a constant' if same > most else verdict}: {count[HOLDS]} hold, {count[PART]} in part, {count[REFUTED]} refute, of {len(outcomes)}; "
            f"{same} the same problems right in as many passes"], verdict


def together(verdicts):
    """The verdict of the seeds together."""
    run = [v for v in verdicts if v is not None]
    if not run:
        return "not run"
    if len(verdicts) > 1 and set(verdicts) == {HOLDS}:
        return "**holds**"
    if HOLDS in verdicts or PART in verdicts:
        return PART + (", and refuted" if REFUTED in verdicts else "")
    return f"**{REFUTED}**" if set(verdicts) == {REFUTED} and len(verdicts) > 1 else "refuted for one seed" if REFUTED in verdicts else OPEN


def served(title, judges, policies, costs=("forwards",)):
    """What policies have right on each seed's model, and what a trace costs."""
    names = {"forwards": "passes a trace", "segments": "segments"}
    seeds = (x for j in judges for x in (f"seed {j.seed}: right of {j.o.test}", *(names[by] for by in costs)))
    return ["", f"### {title}", "", *judge.head("policy", *seeds),
            *(judge.line(f"`{p}`", *(x for j in judges for x in (
                f"{j.right(p, 'test')}", *(f"{j.cost(p, by, 'test') / j.o.test:.2f}" for by in costs)))) for p in policies)]


def self_test():
    def result(right, passes, work=100):
        return {"right": right, "forwards_each": passes, "layer_positions": work}
    good, bad = result("1" * 40, [2] * 39 + [1], 50), result("0" * 20 + "1" * 20, [3] * 40)
    assert outcome(good, bad, MORE).verdict == HOLDS and outcome(bad, good, MORE).verdict == REFUTED
    assert outcome(good, good, MORE).verdict == OPEN and outcome(good, good, MORE).same
    many = result("1" * 200, [3] * 200)
    fewer = result("1" * 200, [2] * 199 + [1], 50)
    assert outcome(fewer, many, FEWER).verdict == HOLDS and outcome(many, fewer, FEWER).verdict == REFUTED
    assert outcome(fewer, many, LESS).verdict == HOLDS and outcome(many, fewer, LESS).verdict == REFUTED
    lossy = result("1" * 190 + "0" * 10, [2] * 199 + [1])
    assert outcome(lossy, many, FEWER).verdict == REFUTED and outcome(many, many, FEWER).verdict == OPEN
    assert outcome(result("1" * 199 + "0", [2] * 199 + [1]), many, FEWER).verdict == HOLDS
    assert outcome(result("1" * 196 + "0" * 4, [2] * 199 + [1]), many, FEWER).verdict != HOLDS
    assert together([HOLDS, HOLDS]) == "**holds**" and together([HOLDS]) == PART and together([HOLDS, OPEN]) == PART
    assert together([REFUTED, REFUTED]) == "**refuted**" and together([OPEN, OPEN]) == OPEN and together([None]) == "not run"
    assert together([HOLDS, None]) == PART and together([REFUTED, None]) == "refuted for one seed"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--demo", help="the program unmask_demo")
    options.add_argument("--layers", help="the program layer_controls")
    options.add_argument("--work", default="build/judge/judge", help="folder for what was decoded")
    options.add_argument("--model", default="waiting", choices=["waiting"])
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="of the training")
    options.add_argument("--calibrations", type=int, default=20, help="problems that a profile is made of, one each")
    options.add_argument("--test", type=int, default=200, help="problems, test set")
    options.add_argument("--validation", type=int, default=60, help="problems, validation set")
    options.add_argument("--out", default=str(judge.ROOT / "bench/results/waiting"), help="files to write, without ending")
    options.add_argument("--self-test", action="store_true")
    o = options.parse_args()
    if o.self_test:
        return self_test()
    if not o.demo or not o.layers:
        options.error("--demo and --layers must name the programs that bench/judge.sh builds")
    o.work += "_waiting"
    judges = [waiting(o, seed) for seed in o.seeds]
    compared = []
    for j in judges:
        decode(j)
        made = list(fixed(j))
        assert len(made) == COMPARISONS // 2
        compared.append([(c.rule, c.control, c.direction,
                          [outcome(c.judge.decode(a, "test"), c.judge.decode(b, "test"), c.direction) for a, b in c.pairs],
                          [b for _, b in c.pairs]) for c in (*made, *added(j))])
    stem = pathlib.Path(o.out)
    text = served("Does the model serve?", judges, [ONE] + CONSTANTS)
    text += served("The models with block-causal masks", [j.causal for j in judges], CAUSAL, ("forwards", "segments"))
    head = judge.head("rule", "control", "direction", "seed", f"right of {o.test}", "control's", "gained, lost", "95 %, points", f"p x {COMPARISONS}",
                      "passes a trace", f"p x {COMPARISONS}", "layer-positions", "this seed", "seeds together")
    text += ["", "### The comparisons that were fixed", "", *head]
    with open(stem.with_suffix(".csv"), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["seed", "rule", "control", "direction", "calibration", "decoded_control", "problems", "right", "control_right", "gained", "lost",
                      "forwards", "control_forwards", "segments", "control_segments", "layer_positions", "control_layer_positions", "verdict"])
        for number, rows in enumerate(zip(*compared)):
            if number == COMPARISONS / 2:
                text += ["", "### Comparisons that were added later", "", *head]
            made = [cells_of(outcomes) for _, _, _, outcomes, _ in rows]
            for i, (seed, (rule, control, direction, outcomes, decoded), (cells, _)) in enumerate(zip(o.seeds, rows, made)):
                control = f"`{decoded[0] if len(decoded) == 1 else control}`" if len(set(decoded)) == 1 else control
                text.append(judge.line(f"`{rule}`", control, direction, f"{seed}", *cells, "" if i else together([v for _, v in made])))
                for k, (x, b) in enumerate(zip(outcomes, decoded)):
                    out.writerow([seed, rule, control.strip("`"), direction, k if len(outcomes) > 1 else "", b, x.n, x.a["right"].count("1"),
                                  x.b["right"].count("1"), x.gained, x.lost, *(r[by] for by in ("forwards", "segments", "layer_positions") for r in (x.a, x.b)),
                                  x.verdict])
    measured.write(stem.with_suffix(".md"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
