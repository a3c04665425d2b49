#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the table of position_frequency and linear_position from a tokenised corpus.

usage: token_frequencies.py [COUNT] < TOKENS

TOKENS: the token ids of the corpus, separated by white space. Prints the arguments `tokens`,
`frequencies` and `rest` of the parts for the COUNT most frequent tokens (256, which is their most):
of equals the lower token is first, and `rest` is the mean frequency of all other tokens that occur.
"""
import collections
import sys


def table(tokens, most):
    """The most frequent tokens with their frequencies, and the mean of the others."""
    counts = collections.Counter(tokens)
    total = sum(counts.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed, others = ranked[:most], ranked[most:]
    rest = sum(count for _, count in others) / total / len(others) if others else 0.0
    return [token for token, _ in listed], [count / total for _, count in listed], rest


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        print(__doc__)
        return 0
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    if not 1 <= most <= 256:
        raise SystemExit(f"token_frequencies.py: COUNT must be in [1, 256], got {most}")
    tokens = [int(word) for line in sys.stdin for word in line.split()]
    if not tokens:
        raise SystemExit("token_frequencies.py: the corpus has no tokens")
    listed, frequencies, rest = table(tokens, most)
    print(f"[{', '.join(map(str, listed))}], [{', '.join(f'{f:.9g}' for f in frequencies)}], rest={rest:.9g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
