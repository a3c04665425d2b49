# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The formulas as a decoder: NumPy alone. With the name of a mistake it makes that mistake.

    python3 tests/conformance/run.py -- python3 tests/conformance/decoders/naive.py [MISTAKE]
"""
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import rules  # noqa: E402
from serving import serve  # noqa: E402

MISTAKES = ("strict", "higher_position", "higher_token", "no_progress", "proposes_mask", "rewrites_prompt", "overflows")


def make(request, mistake=None):
    settings = dict(request["settings"])
    if mistake == "proposes_mask":
        settings["suppress_mask"] = False
    rule = rules.Rule(request["rule"], settings, request["mask_token"])
    if mistake == "higher_position":
        rule.ranked = lambda: sorted(rule.rows, key=lambda p: (-rule.rows[p].rank, -p))
    if mistake == "strict":
        rule.at_least = rule.above
    if mistake == "no_progress":
        rule.or_best = rule.chosen

    def decide(request):
        tokens, masked, logits = request["tokens"], request["masked"], request["logits"]
        if mistake == "rewrites_prompt":
            masked = [p for p, t in enumerate(tokens) if t == request["mask_token"]]
        if mistake == "overflows":
            with np.errstate(over="ignore", invalid="ignore"):
                logits = np.log(np.exp(logits))
        changes = rule(tokens, masked, request["fixed"], logits)
        if mistake == "higher_token":
            for p in changes:
                changes[p] = int(np.flatnonzero(logits[p] == logits[p][changes[p]])[-1])
        return [changes.get(p, t) for p, t in enumerate(tokens)], list(changes)

    return decide


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else None
    if chosen not in (None, *MISTAKES):
        sys.exit(f"naive.py: unknown mistake {chosen}; there are {', '.join(MISTAKES)}")
    serve("the formulas" + (f", {chosen}" if chosen else ""), rules.RULES, lambda request: make(request, chosen))
