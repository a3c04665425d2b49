# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares two files of reference.py: logits within 1e-5, the rest exactly. usage: same_reference.py STORED MADE"""
import json
import sys

with open(sys.argv[1], encoding="ascii") as a, open(sys.argv[2], encoding="ascii") as b:
    stored, made = ([json.loads(line) for line in file] for file in (a, b))
logits = [line.pop("logits") for line in (stored[0], made[0])]
assert stored == made, "tokens, rows or decodes differ"
largest = max(abs(x - y) for rows in zip(*logits) for x, y in zip(*rows))
assert largest <= 1e-5, f"logits differ by {largest:g}"
