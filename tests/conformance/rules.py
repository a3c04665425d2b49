# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules of unmask-conformance/1, each from its formula, in double precision and without any care for speed.

    decide = Rule("threshold", {"threshold": 0.9, "suppress_mask": True}, mask_token=7)
    changes = decide(tokens, masked, fixed, logits)     # {position: token}, of one step

A Rule holds what a rule remembers of one block. `rows` has the candidates of its last step, `cuts` the
values with which their confidences were compared.
"""
from dataclasses import dataclass

import numpy as np


@dataclass
class Row:
    """A candidate: its token, its confidence and what ranks it, the highest first."""

    token: int
    confidence: float
    rank: float


class Rule:
    def __init__(self, name, settings, mask_token):
        self._rule = RULES[name]
        self.settings, self.mask_token = settings, mask_token
        self.step, self.rows, self.cuts = 0, {}, []
        self.masks = 0  # masked positions of the first step
        self.credit = None
        self.edits = 0  # steps without masked positions

    def __call__(self, tokens, masked, fixed, logits):
        if self.step == 0:
            self.masks = len(masked)
        logits = logits.astype(np.float64)
        if self.settings.get("suppress_mask"):
            logits = logits.copy()
            logits[:, self.mask_token] = -np.inf
        self.rows, self.cuts = {p: row(logits[p]) for p in masked}, []
        changes = self._rule(self, tokens, fixed, logits)
        self.step += 1
        return {p: t for p, t in changes.items() if t != tokens[p]}

    def ranked(self):
        """The candidates, the best first, the lower position first among equals."""
        return sorted(self.rows, key=lambda p: (-self.rows[p].rank, p))

    def above(self, threshold):
        self.cuts.append(threshold)
        return {p for p, r in self.rows.items() if r.confidence > threshold}

    def at_least(self, threshold):
        self.cuts.append(threshold)
        return {p for p, r in self.rows.items() if r.confidence >= threshold}

    def chosen(self, positions):
        return {p: self.rows[p].token for p in positions}

    def or_best(self, positions):
        return self.chosen(positions or self.ranked()[:1])


def probabilities(logits):
    with np.errstate(under="ignore"):
        e = np.exp(logits - logits.max())
    return e / e.sum()


def row(logits):
    p = probabilities(logits)
    token = int(np.argmax(logits))  # the lowest among equals
    return Row(token, float(p[token]), float(p[token]))


def threshold(rule, tokens, fixed, logits):
    return rule.or_best(rule.above(rule.settings["threshold"]))


def threshold_inclusive(rule, tokens, fixed, logits):
    return rule.or_best(rule.at_least(rule.settings["threshold"]))


def quota(rule):
    each, more = divmod(rule.masks, rule.settings["steps"])
    return each + (rule.step < more)


def steps_per_block(rule, tokens, fixed, logits):
    return rule.chosen(rule.ranked()[: quota(rule)])


def threshold_or_steps(rule, tokens, fixed, logits):
    return rule.chosen(rule.above(rule.settings["threshold"]) | set(rule.ranked()[: quota(rule)]))


def factor(rule, tokens, fixed, logits):
    order = rule.ranked()
    for n, p in enumerate(order, 1):
        cut = 1 - rule.settings["factor"] / (n + 1)
        rule.cuts.append(cut)
        if n > 1 and rule.rows[p].confidence < cut:
            return rule.chosen(order if n == len(order) else order[: n - 1])
    return rule.chosen(order)


def hierarchical(rule, tokens, fixed, logits):
    chosen = set() if rule.settings["threshold"] is None else rule.above(rule.settings["threshold"])
    above_low = rule.above(rule.settings["low_threshold"])
    run = []
    for p in [*sorted(rule.rows), None]:
        if run and (p is None or p != run[-1] + 1):
            best = max(run, key=lambda q: (rule.rows[q].rank, -q))
            chosen |= {best} & above_low
            run = []
        run.append(p)
    return rule.chosen(chosen | set(rule.ranked()[:1]))


def trace_credit(rule, tokens, fixed, logits):
    s = rule.settings
    rule.credit = np.zeros(logits.shape) if rule.credit is None else rule.credit * s["beta"]
    for p, r in rule.rows.items():
        rule.credit[p, r.token] += r.confidence ** s["gamma"]
        rule.rows[p] = row(logits[p] + s["alpha"] * np.log1p(rule.credit[p]))
    return threshold_inclusive(rule, tokens, fixed, logits)


def edit_committed(rule, tokens, fixed, logits):
    s = rule.settings
    if not rule.rows:
        rule.edits += 1
        if rule.edits > s["max_edits"]:
            return {}
    changes = rule.or_best(rule.above(s["threshold"])) if rule.rows else {}
    rule.cuts.append(s["edit_threshold"])
    for p in set(range(len(tokens))) - set(fixed) - set(rule.rows):
        r = row(logits[p])
        if r.confidence > s["edit_threshold"]:
            changes[p] = r.token
    return changes


def timesteps(rule, tokens, fixed, logits):
    s = rule.settings
    for p, r in rule.rows.items():
        share = np.sort(probabilities(logits[p]))
        if s["order"] == "margin":
            r.rank = float(share[-1] - share[-2])
        elif s["order"] == "entropy":
            r.rank = float((share * np.log(share + 1e-10)).sum())
    t = np.linspace(1, s["epsilon"], s["steps"] + 1, dtype=np.float32)
    last = rule.step == s["steps"] - 1
    count = len(rule.rows) * (1 - t[rule.step + 1] / t[rule.step])
    return rule.chosen(rule.ranked()[: len(rule.rows) if last else int(count)])


RULES = {
    f.__name__: f
    for f in (
        threshold, threshold_inclusive, steps_per_block, threshold_or_steps, factor, hierarchical, trace_credit,
        edit_committed, timesteps,
    )
}
