#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares policies with a control on the same prompts, as a table in Markdown.

usage: bash examples/run.sh --json --limit 50 --policy CONTROL --policy OTHER ... | bench/paired.py

The first policy is the control, unless `--against LABEL` names another one. A prompt on
which both are right, or both wrong, says nothing of their difference, so the table counts the others:
*gained* are those that only the policy answers right, *lost* those that only the control does. The
interval is that of the difference in percentage points (Agresti and Min, 2005: a half added to each of
the four counts), p is the exact two-sided sign test of gained against lost (McNemar's). The last column is
the mean difference of forward passes of a prompt, with the half width of its 95 % interval (paired, normal).
"""
import argparse
import json
import math
import sys

Z95 = 1.959964


def wilson(right, n):
    """Ends of the 95 % interval of a share, in percent (Wilson)."""
    z, p = Z95, right / n
    middle, half = p + z * z / 2 / n, z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return 100 * (middle - half) / (1 + z * z / n), 100 * (middle + half) / (1 + z * z / n)


def difference(gained, lost, n):
    """Low and high end, in percentage points, of the 95 % interval of a paired difference."""
    a, b, m = gained + .5, lost + .5, n + 2
    middle = (a - b) / m
    half = Z95 * math.sqrt(a + b - (a - b) ** 2 / m) / m
    return 100 * (middle - half), 100 * (middle + half)


def sign_test(gained, lost):
    """Two-sided: how likely a split at least as uneven is where each side is equally likely."""
    n, few = gained + lost, min(gained, lost)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(few + 1)) / 2 ** n)


def mean_interval(differences):
    """Mean of paired differences with the half width of its 95 % interval (normal)."""
    n, mean = len(differences), sum(differences) / len(differences)
    variance = sum((d - mean) ** 2 for d in differences) / max(1, n - 1)
    return mean, Z95 * math.sqrt(variance / n)


def row_of(policy, control, n):
    right = policy["right"]
    pairs = list(zip(right, control["right"]))
    gained, lost = pairs.count(("1", "0")), pairs.count(("0", "1"))
    cells = [f"`{label(policy)}`", f"{right.count('1')} of {n}", f"{policy['forwards']}", f"{policy['segments']}",
             f"{policy['answer_tokens_per_forward']:.2f}"]
    if policy is control:
        return cells + ["control", "", "", ""]
    low, high = difference(gained, lost, n)
    passes, half = mean_interval([a - b for a, b in zip(policy["forwards_each"], control["forwards_each"])])
    return cells + [f"+{gained} -{lost}", f"{low:+.1f} to {high:+.1f}", f"{sign_test(gained, lost):.2f}",
                    f"{passes:+.3f} ± {half:.3f}"]


def label(policy):
    return policy["policy"] + ("" if policy["cache"] == "none" else " + " + policy["cache"])


def self_test():
    assert sign_test(0, 0) == 1.0 and sign_test(5, 5) == 1.0
    assert abs(sign_test(0, 6) - 2 / 64) < 1e-12 and abs(sign_test(1, 7) - 18 / 256) < 1e-12
    low, high = difference(3, 3, 200)
    assert abs(low + high) < 1e-12 and low < -2 < 2 < high
    # 10 gained, 2 lost of 100: 8.5 - .5 ... by hand: (10.5 - 2.5) / 102 = 7.84, half 1.96 sqrt(13 - 64 / 102) / 102 = 6.76
    low, high = difference(10, 2, 100)
    assert abs(low - 1.084) < .01 and abs(high - 14.602) < .01, (low, high)
    # -1, 0, 1, 4: mean 1, variance (4 + 1 + 0 + 9) / 3, half 1.96 sqrt(14 / 12)
    mean, half = mean_interval([-1, 0, 1, 4])
    assert mean == 1 and abs(half - 2.117) < .001, (mean, half)
    policy = {"policy": "p", "cache": "none", "right": "110", "forwards": 6, "segments": 6, "forwards_each": [1, 2, 3],
              "answer_tokens_per_forward": 1.0}
    assert row_of(policy, dict(policy, right="100", forwards_each=[2, 3, 4]), 3)[-1] == "-1.000 ± 0.000"
    assert len(row_of(policy, policy, 3)) == len(row_of(policy, dict(policy), 3))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", metavar="LABEL", help="the control, by its label (default: the first policy)")
    options.add_argument("--self-test", action="store_true")
    chosen = options.parse_args()
    if chosen.self_test:
        return self_test()
    measured = json.load(sys.stdin)
    policies, n = measured["policies"], measured["prompts"]
    control = policies[0]
    if chosen.against:
        named = [p for p in policies if label(p) == chosen.against]
        if not named:
            sys.exit(f"--against must be one of {', '.join(map(label, policies))}, got '{chosen.against}'")
        control = named[0]
    print("| policy | right | forwards | segments | text tokens a forward | gained, lost | 95 %, points | p "
          "| forwards a prompt, 95 % |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for policy in policies:
        print("| " + " | ".join(row_of(policy, control, n)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
