# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The decoder's side of unmask-conformance/1."""
import json
import sys

import numpy as np


class Unsupported(Exception):
    """Settings that a decoder does not have; the text says which."""


def serve(name, rules, make):
    """Answers standard input until it ends.

    make(request) begins a case and returns decide(request), which returns the tokens after the step
    and the positions that it wrote. `request` is a line with `logits` as float32 [length, vocab];
    rows that are not read are 0.
    """
    out, sys.stdout = sys.stdout, sys.stderr  # what a host prints is no answer
    decide = None
    for line in sys.stdin:
        request = json.loads(line)
        if "case" not in request:
            answer = {"protocol": "unmask-conformance/1", "name": name, "rules": list(rules)}
        else:
            rows = [np.zeros(request["vocab"]) if row is None else row for row in request["logits"]]
            request["logits"] = np.array(rows, dtype=np.float32)
            try:
                if request["step"] == 0:
                    decide = make(request)
                tokens, transfers = decide(request)
                answer = {"tokens": [int(t) for t in tokens], "transfers": [int(p) for p in transfers]}
            except Unsupported as reason:
                answer = {"unsupported": str(reason)}
        print(json.dumps(answer), file=out, flush=True)


def written(before, after):
    """The answer of a decoder that returns tokens alone."""
    return after, [p for p, (a, b) in enumerate(zip(before, after)) if a != b]
