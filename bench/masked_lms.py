#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Restores masked reactions and antibodies under many policies, and compares each with its control.

usage: bash bench/masked_lms.sh [--reactions N] [--antibodies N] [--out FILE]

Every policy decodes the same N sequences, each with 15, 30 and 50 % of its tokens masked. A share is restored tokens of
masked ones; its interval and that of a difference take a sequence, with its three masks, as one draw. Writes the part of
FILE between its two markers. What was decoded once is kept in the work folder, ten or forty sequences a file.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys

import measured
import paired

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: model file, problems, sequences of one kept file
SETS = {"reactions": ("rxnmapper.gguf", ROOT / "examples/masked_lms/reactions.jsonl", 40),
        "antibodies": ("antiberty.gguf", ROOT / "examples/masked_lms/antibodies.jsonl", 10)}
ONE = "tokens_per_step(1)"
THRESHOLDS = [f"threshold({t:g})" for t in (.99, .95, .9, .8, .7, .5, 0)]
# (title, [(policy, control)]); a control of None is the threshold whose number of passes is nearest
CLAIMS = [
    ("Which position first, one token a pass", [(f"{order} + {ONE}", ONE) for order in ("by_margin", "by_entropy", "at_random", "left_to_right")]),
    ("A fixed number of tokens a pass", [(f"tokens_per_step({k})", control) for k in (2, 3, 4) for control in (ONE, None)]),
    ("Thresholds; `threshold(0)` commits everything in one pass", [(t, ONE) for t in THRESHOLDS]),
    ("Credit for tokens that keep leading (CreditDecoding)",
     [(f"threshold({t:g}) + trace_credit", control) for t in (.9, .7) for control in (f"threshold({t:g}) + trace_credit(decay=0)", None)]),
    ("Lookahead branches (LoPA)", [(f"threshold({t:g}) + lookahead(3)", control) for t in (.9, .5) for control in (f"threshold({t:g})", None)]),
    ("A bound on the summed entropy (EB-Sampler)", [(f"by_entropy + entropy_bound({b:g})", None) for b in (.1, .4, 1)]),
]
# A pass of antiberty costs five times as much as one of rxnmapper, so it decodes under fewer policies.
LEFT_OUT = {"reactions": (), "antibodies": (f"by_margin + {ONE}", f"by_entropy + {ONE}", "tokens_per_step(3)", "threshold(0.99)", "threshold(0.95)",
                                            "threshold(0.8)", "threshold(0.9) + trace_credit", "threshold(0.9) + trace_credit(decay=0)",
                                            "threshold(0.9) + lookahead(3)", "by_entropy + entropy_bound(0.1)")}


def total(values):
    return sum(values)


def student(degrees):
    """The 97.5 % point of Student's distribution, by the first terms of its expansion around the normal one."""
    z = paired.Z95
    return z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2)


def ratio(parts, wholes):
    """sum(parts) / sum(wholes) in percent and the half width of its 95 % interval; one pair is one draw."""
    n, whole = len(parts), total(wholes)
    share = total(parts) / whole
    spread = total((a - share * b) ** 2 for a, b in zip(parts, wholes)) * n / max(1, n - 1)
    return 100 * share, 100 * student(max(1, n - 1)) * math.sqrt(spread) / whole


class results:
    """What each policy did with the first `count` sequences of a set."""

    def __init__(self, name, count, options):
        self.model, self.problems, self.chunk = SETS[name]
        self.name, self.count, self.o, self.done = name, count, options, {}
        self.model = pathlib.Path(options.models) / self.model
        with open(self.problems, encoding="ascii") as file:
            self.tasks = list(dict.fromkeys(json.loads(line)["task"] for line in file))
        left_out = LEFT_OUT[name]
        self.thresholds = [t for t in THRESHOLDS if t not in left_out]
        self.claims = [(title, [row for row in rows if row[0] not in left_out]) for title, rows in CLAIMS]
        self.policies = list(dict.fromkeys([ONE] + self.thresholds + [p for _, rows in self.claims for row in rows for p in row if p]))
        self.key = hashlib.sha256(self.model.read_bytes() + self.problems.read_bytes()).hexdigest()[:16]

    def decode(self, text):
        """Lists by sequence of masked and restored tokens under each share, of passes and of right answers."""
        if text in self.done:
            return self.done[text]
        all_of = {"masked": [], "restored": [], "passes": [], "segments": [], "right": []}
        for first in range(0, self.count, self.chunk):
            many = min(self.chunk, self.count - first)
            got = self.decode_some(text, first, many)
            for i in range(many):
                of = lambda values: [values[t * many + i] for t in range(len(self.tasks))]  # noqa: E731
                all_of["masked"].append(of(got["masked_each"]))
                all_of["restored"].append(of(got["restored_each"]))
                all_of["passes"].append(total(of(got["forwards_each"])))
                all_of["segments"].append(total(of(got["segments_each"])))
                all_of["right"].append(of(got["right"]))
        self.done[text] = all_of
        return all_of

    def decode_some(self, text, first, many):
        name = json.dumps([self.key, text, first, many])
        kept = pathlib.Path(self.o.work) / (hashlib.sha256(name.encode()).hexdigest()[:24] + ".json")
        if not kept.exists():
            ran = subprocess.run([self.o.demo, "--model", str(self.model), "--problems", str(self.problems), "--json", "--threads", "1",
                                  "--skip", str(first), "--limit", str(many), "--policy", text],
                                 capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                sys.exit(f"masked_lms: {text}: {ran.stderr.strip()}")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.with_suffix(".new").write_text(json.dumps({"name": name, **json.loads(ran.stdout)["policies"][0]}))
            os.replace(kept.with_suffix(".new"), kept)
            print(f"{self.name} {first:4} to {first + many - 1:4}  {text}", file=sys.stderr)
        return json.loads(kept.read_text())

    def nearest(self, text):
        passes = total(self.decode(text)["passes"])
        return min(self.thresholds, key=lambda t: abs(total(self.decode(t)["passes"]) - passes))


def compare(policy, control):
    """Sequences of which more and fewer tokens are restored, p, difference of shares with its half width, verdict."""
    a, b, masked = (list(map(total, of)) for of in (policy["restored"], control["restored"], policy["masked"]))
    more, fewer = sum(x > y for x, y in zip(a, b)), sum(x < y for x, y in zip(a, b))
    p = paired.sign_test(more, fewer)
    difference, half = ratio([x - y for x, y in zip(a, b)], masked)
    if policy["restored"] == control["restored"]:
        verdict = "the same tokens"
    elif abs(difference) <= half or p >= .05:
        verdict = "not told apart"
    else:
        verdict = "**more restored**" if difference > 0 else "fewer restored"
    return more, fewer, p, difference, half, verdict


def table(of, rows):
    text = ["| policy | restored, % | passes | against | restored, % | passes | sequences | difference, points | p | |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for policy, control in dict.fromkeys((policy, control or of.nearest(policy)) for policy, control in rows):
        a, b = of.decode(policy), of.decode(control)
        share = lambda r: ratio(list(map(total, r["restored"])), list(map(total, r["masked"])))[0]  # noqa: E731
        more, fewer, p, difference, half, verdict = compare(a, b)
        text.append(f"| `{policy}` | {share(a):.1f} | {total(a['passes'])} | `{control}` | {share(b):.1f} | {total(b['passes'])} | "
                    f"+{more} -{fewer} | {difference:+.2f} ± {half:.2f} | {p:.2g} | {verdict} |")
    return text


def overview(of):
    names = [t.replace("mask_", "") + " %" for t in of.tasks]
    text = ["| policy | restored, % | " + " | ".join(f"{n} masked" for n in names) + " | exact, of each | exact, % (Wilson) | passes | segments | tokens a pass |",
            "| --- " * (len(names) + 7) + "|"]
    for policy in of.policies:
        r = of.decode(policy)
        share, half = ratio(list(map(total, r["restored"])), list(map(total, r["masked"])))
        parts = [ratio([x[t] for x in r["restored"]], [x[t] for x in r["masked"]])[0] for t in range(len(names))]
        right = [sum(x[t] == "1" for x in r["right"]) for t in range(len(names))]
        low, high = paired.wilson(total(right), of.count * len(names))
        masked = total(map(total, r["masked"]))
        text.append(f"| `{policy}` | {share:.1f} ± {half:.1f} | " + " | ".join(f"{p:.1f}" for p in parts) + f" | {', '.join(map(str, right))} | "
                    f"{low:.1f} to {high:.1f} | {total(r['passes'])} | {total(r['segments'])} | {masked / total(r['passes']):.2f} |")
    return text


def self_test():
    share, half = ratio([1, 2, 3], [2, 4, 6])
    assert share == 50 and half == 0
    share, half = ratio([0, 10] * 10, [10] * 20)  # residuals -5 and 5: 2.093 sqrt(20 * 25 * 20 / 19) / 200
    assert share == 50 and abs(half - 100 * 2.093 * math.sqrt(10000 / 19) / 200) < .01, half
    assert abs(student(9) - 2.262) < .01 and abs(student(39) - 2.0227) < .001
    low, high = paired.wilson(0, 10)
    assert abs(low) < 1e-12 and abs(high - 27.75) < .01, (low, high)
    one = {"restored": [[1, 2], [3, 4]], "masked": [[4, 4], [4, 4]]}
    assert compare(one, one)[-1] == "the same tokens"
    many = {"restored": [[4]] * 10, "masked": [[4]] * 10}
    none = {"restored": [[0]] * 10, "masked": [[4]] * 10}
    assert compare(many, none)[-1] == "**more restored**" and compare(none, many)[-1] == "fewer restored"
    few = {"restored": [[3]] + [[4]] * 9, "masked": [[4]] * 10}
    assert compare(few, many)[-1] == "not told apart"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--demo", help="the program unmask_demo")
    options.add_argument("--models", default=str(ROOT / "build/masked_lms"), help="folder of the models")
    options.add_argument("--work", default=str(ROOT / "build/masked_lms/decoded"), help="folder for what was decoded")
    options.add_argument("--reactions", type=int, default=80, help="sequences, 0 to leave them out")
    options.add_argument("--antibodies", type=int, default=10, help="sequences, 0 to leave them out")
    options.add_argument("--out", default=str(ROOT / "bench/results/masked_lms.md"))
    options.add_argument("--self-test", action="store_true")
    o = options.parse_args()
    if o.self_test:
        return self_test()
    if not o.demo:
        options.error("--demo must name the program that bench/masked_lms.sh builds")
    text = []
    for name, count in (("reactions", o.reactions), ("antibodies", o.antibodies)):
        if count == 0:
            continue
        of = results(name, count, o)
        for first in range(0, count, of.chunk):  # all policies of some sequences, then of more
            for policy in of.policies:
                of.decode_some(policy, first, min(of.chunk, count - first))
        masked = total(map(total, of.decode(ONE)["masked"]))
        text += ["", f"### {name.capitalize()}: {count} sequences, {count * len(of.tasks)} problems, {masked} masked tokens", ""] + overview(of)
        for title, rows in of.claims:
            text += ["", f"#### {name.capitalize()}: {title[0].lower() + title[1:]}", ""] + table(of, rows)
    measured.write(pathlib.Path(o.out), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
