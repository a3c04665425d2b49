# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of unmask-conformance/1: recorded decisions, and small blocks that the formulas decide.

A case is one block. Its steps begin from the recorded state, so a deviation does not spread.
"""
import json
import pathlib
import sys
from dataclasses import dataclass, field

import numpy as np

from rules import Rule

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "python"))
from hash_logits import FakeModel  # noqa: E402


@dataclass
class Step:
    tokens: list
    masked: list
    logits: np.ndarray  # float32 [length, vocab]; NaN in rows that are not read
    expected: dict  # position -> token, of those that change


@dataclass
class Case:
    name: str
    rule: str
    settings: dict
    aspect: str
    vocab: int
    mask_token: int
    fixed: list  # positions that are never written
    steps: list = field(default_factory=list)


# Recorded rules: the rule here, and its settings from the arguments of the line.
RECORDED = {
    "llada.low_confidence": ("steps_per_block", lambda a: {"steps": a["steps"] * a["block_length"] // a["gen_length"]}),
    "fastdllm.fixed": ("steps_per_block", lambda a: {"steps": a["steps"] * a["block_length"] // a["gen_length"]}),
    "fastdllm.threshold": ("threshold_inclusive", lambda a: {"threshold": a["threshold"]}),
    "dinfer.threshold": ("threshold_inclusive", lambda a: {"threshold": a["threshold"]}),
    "sglang.low_confidence": ("threshold", lambda a: {"threshold": a["threshold"]}),
    "fastdllm.factor": ("factor", lambda a: {"factor": a["factor"]}),
    "dinfer.hierarchy": (
        "hierarchical", lambda a: {"low_threshold": a["low_threshold"], "threshold": a["threshold"]}
    ),
    "dinfer.credit": (
        "trace_credit",
        lambda a: {
            "alpha": a.get("credit_alpha", 0.7), "beta": a.get("decay_beta", 0.8), "gamma": a.get("boost_gamma", 0.2),
            "threshold": a["threshold"],
        },
    ),
    "sglang.joint_threshold": (
        "edit_committed",
        lambda a: {
            "threshold": a["threshold"], "edit_threshold": a["edit_threshold"], "max_edits": a["max_post_edit_steps"]
        },
    ),
    **{
        f"dream.{name}": (
            "timesteps", lambda a, order=order: {"steps": a["steps"], "epsilon": a["eps"], "order": order}
        )
        for name, order in (("maskgit_plus", "confidence"), ("topk_margin", "margin"), ("entropy", "entropy"))
    },
}
# Lines that another rule decides: masks that stay and compete in later blocks, the higher position among
# equals, rows left out that propose the mask token, all rows within 1e-5 of the best, credit of an earlier
# request.
OTHER = {"0008", "0010", "0073", "0076", "0084", "0092"}


def recorded(rules=None, quick=False, most_vocab=300):
    """Cases of the traces with a vocabulary of at most `most_vocab`, one for each block.

    `quick` takes the shortest trace of each recorded rule.
    """
    with open(TESTS / "data" / "goldens" / "commit_rules.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    lines = [line for line in lines if usable(line, most_vocab)]
    lines = [line for line in lines if rules is None or RECORDED[line["rule"]][0] in rules]
    if quick:
        lines = {line["rule"]: line for line in sorted(lines, key=lambda one: -one["nfe"])}.values()
    for line in lines:
        rule, settings = RECORDED[line["rule"]]
        yield from blocks(line, rule, {**settings(line["args"]), "suppress_mask": False})


def usable(line, most_vocab):
    return (
        line["rule"] in RECORDED and isinstance(line["model"], dict) and line["model"]["V"] <= most_vocab
        and line["id"][-4:] not in OTHER and "bf16" not in line["labels"]
    )


def blocks(line, rule, settings):
    model, mask, memory = FakeModel(line["model"]), line["model"]["mask_id"], {}
    aspect = next((a for a in ("mask_argmax", "tie") if a in line["labels"]), "plain")
    aspect = {"mask_argmax": "mask_token", "tie": "equal_positions"}.get(aspect, aspect)
    prompt = len(line["prompt"])
    x = line["prompt"] + [mask] * line["args"]["gen_length"]
    case = None
    for step in line["steps"]:
        first, end = step["block"]
        begins = max(first, 0 if rule != "timesteps" else prompt)
        name = f"{line['rule']}-{line['id'][-4:]}/{first}"
        if case is None or case.name != name:
            if case is not None:
                yield case
            fixed = [p - begins for p in range(begins, end) if p < prompt]
            case = Case(name, rule, settings, aspect, line["model"]["V"], mask, fixed)
        masked = [p for p in range(begins, end) if x[p] == mask]
        read = list(range(max(begins, prompt), end)) if rule == "edit_committed" else masked
        seen = x[:end] if line["rule"].startswith("sglang") else x
        logits = np.full((end - begins, case.vocab), np.nan, np.float32)
        for p in read:
            at = max(p - 1, 0) if line["rule"].startswith("dream") else p  # Dream: the row before predicts p
            near = range(max(0, at - model.m["radius"]), min(len(seen), at + model.m["radius"] + 1))
            key = (at, sum(1 for j in near if j != at and seen[j] != mask))
            if key not in memory:
                memory[key] = model.row(seen, at)
            logits[p - begins] = memory[key]
        commits = {p - begins: t for p, t in step["commits"] if p < end}
        full = not masked and rule != "edit_committed"
        if not full and len(case.steps) < most_steps(rule, settings, end - begins):
            case.steps.append(Step(x[begins:end], [p - begins for p in masked], logits, commits))
        for p, t in step["commits"]:
            x[p] = t
    yield case


def most_steps(rule, settings, length):
    return settings["steps"] if "steps" in settings else 2 * length


# ---- small blocks ----

LENGTH, VOCAB, MASK = 12, 24, 23
VARIANTS = {  # of each rule
    "threshold": [{"threshold": 0.6}, {"threshold": 0.85}],
    "threshold_inclusive": [{"threshold": 0.6}, {"threshold": 0.85}],
    "steps_per_block": [{"steps": 5}, {"steps": 12}],
    "threshold_or_steps": [{"threshold": 0.6, "steps": 5}, {"threshold": 0.9, "steps": 12}],
    "factor": [{"factor": 1.0}, {"factor": 0.4}],
    "hierarchical": [{"low_threshold": 0.4, "threshold": 0.8}, {"low_threshold": 0.5, "threshold": None}],
    "trace_credit": [{"alpha": 0.7, "beta": 0.8, "gamma": 0.2, "threshold": 0.8}],
    "edit_committed": [
        {"threshold": 0.6, "edit_threshold": 0.5, "max_edits": 4},
        {"threshold": 0.6, "edit_threshold": 0.0, "max_edits": 2},
    ],
    "timesteps": [{"steps": 6, "epsilon": 0.001, "order": o} for o in ("confidence", "margin", "entropy")],
}
THRESHOLDS = [rule for rule, variants in VARIANTS.items() if "threshold" in variants[0]]
ASPECTS = {
    "plain": "confidences far from each other and from every threshold",
    "equal_positions": "rows with the same logits: the lower position ranks first",
    "near_positions": "rows whose confidences differ by about one part in a million",
    "equal_tokens": "two best tokens with the same logit: the lower token",
    "at_threshold": "confidences of exactly the threshold",
    "none_pass": "no confidence above the threshold: the best commits all the same",
    "mask_token": "rows whose best token is the mask token",
    "literal_mask": "fixed positions that hold the mask token: text of the prompt",
    "large_logits": "all logits shifted by 8192, which changes no probability",
}


def draw(rng, aspect, masked):
    """Logits of one step: multiples of 1/64, so sums with 8192 are exact in float32."""
    logits = rng.integers(-128, 128, (LENGTH, VOCAB)).astype(np.float32) / 64
    best = rng.integers(0, VOCAB - 1, LENGTH)
    unsure = aspect == "none_pass" or aspect.endswith("_positions") and rng.random() < 0.5
    rise = rng.integers(0, 96, LENGTH) / 64 if unsure else rng.integers(64, 448, LENGTH) / 64
    logits[np.arange(LENGTH), best] += rise
    logits[:, MASK] = -200
    if aspect.endswith("_positions") and len(masked) > 2:
        top = max(masked, key=lambda p: row_confidence(logits[p]))
        for i, p in enumerate(rng.choice(masked, 3, replace=False)):
            logits[p] = logits[top]
            logits[p, np.argmax(logits[p])] += 2.0**-17 * i if aspect == "near_positions" else 0
    if aspect == "equal_tokens":
        for p in range(LENGTH):
            low, high = np.sort(rng.choice(VOCAB - 1, 2, replace=False))
            logits[p, low] = logits[p, high] = logits[p, best[p]] + 1
    if aspect == "at_threshold":  # two equal tokens and nothing else: exactly one half
        for p in rng.choice(LENGTH, LENGTH // 2, replace=False):
            logits[p] = -200
            logits[p, rng.choice(VOCAB - 1, 2, replace=False)] = 3
    if aspect == "mask_token":
        for p in rng.choice(LENGTH, LENGTH // 3, replace=False):
            logits[p, MASK] = logits[p, best[p]] + rng.integers(8, 64) / 64
    if aspect == "large_logits":
        logits += 8192
    return logits


def row_confidence(logits):
    e = np.exp(logits.astype(np.float64) - logits.max())
    return 1 / e.sum()


def clear(rule, aspect, logits):
    """Whether nothing is near a tie, and what is equal is so on purpose."""
    best = np.sort(logits, axis=1)[:, -2:]
    if aspect not in ("equal_tokens", "at_threshold") and (best[:, 0] == best[:, 1]).any():
        return False
    ranks = sorted(r.rank for r in rule.rows.values())
    gaps = [b - a for a, b in zip(ranks, ranks[1:])]
    gaps += [abs(row_confidence(z) - c) for z in logits for c in rule.cuts]
    gaps += [abs(r.confidence - c) for r in rule.rows.values() for c in rule.cuts]
    if aspect == "near_positions":
        return all(g > 5e-7 for g in gaps)
    return all(g == 0 or g > 1e-4 for g in gaps)


def small(rules=None, seeds=2):
    for name, variants in VARIANTS.items():
        if rules is not None and name not in rules:
            continue
        for aspect in ASPECTS:
            if aspect in ("at_threshold", "none_pass") and (name not in THRESHOLDS):
                continue
            if aspect == "at_threshold" and name == "trace_credit":  # credit moves it off the threshold
                continue
            if aspect == "near_positions" and name in ("trace_credit", "timesteps"):  # of longer float32 sums
                continue
            for i, settings in enumerate(variants):
                settings = dict(settings)
                if aspect == "at_threshold":
                    both = ("threshold", "low_threshold")
                    settings = {k: 0.5 if k in both and v else v for k, v in settings.items()}
                suppressions = [True, False] if aspect == "mask_token" and name != "edit_committed" else [True]
                for suppress in suppressions:
                    for seed in range(seeds):
                        label = "" if len(suppressions) == 1 else "-suppressed" if suppress else "-proposed"
                        yield made(
                            f"{name}.{aspect}{label}-{i}.{seed}", name, {**settings, "suppress_mask": suppress},
                            aspect, (i, seed, list(ASPECTS).index(aspect), list(VARIANTS).index(name)),
                        )


def made(name, rule_name, settings, aspect, seed):
    rng = np.random.default_rng(list(seed))
    fixed = [0, 1, 2, 3] if aspect == "literal_mask" else []
    tokens = [int(t) for t in rng.integers(0, VOCAB - 1, LENGTH)]
    for p in range(LENGTH):
        if p not in fixed or p in (1, 3):
            tokens[p] = MASK
    case = Case(name, rule_name, settings, aspect, VOCAB, MASK, fixed)
    rule = Rule(rule_name, settings, MASK)
    for _ in range(min(most_steps(rule_name, settings, LENGTH), LENGTH + 4)):
        masked = [p for p in range(LENGTH) if tokens[p] == MASK and p not in fixed]
        if not masked and rule_name != "edit_committed":
            break
        kept = vars(rule).copy()
        for attempt in range(1000):
            logits = draw(rng, aspect, masked)
            vars(rule).update(kept)
            expected = rule(tokens, masked, fixed, logits)
            if clear(rule, aspect, logits):
                break
        else:
            raise RuntimeError(f"{name}: no logits without near ties in 1000 draws")
        case.steps.append(Step(list(tokens), masked, logits, expected))
        for p, t in expected.items():
            tokens[p] = t
        if not masked and not expected:
            break
    return case


def every(rules=None, quick=False):
    """All cases of `rules` (None: of all); `quick` leaves out most recorded ones."""
    yield from recorded(rules, quick)
    yield from small(rules, seeds=1 if quick else 2)
