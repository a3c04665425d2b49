# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fast-dLLM's and dInfer's seams against what their own code decided, step by step."""
import json

import numpy as np
import pytest
import torch
from conftest import REPOSITORY
from hash_logits import FakeModel, logits_sum

TRACES = REPOSITORY / "tests" / "data" / "goldens" / "commit_rules.jsonl"

# dInfer's threshold and credit leave rows out whose best token is the mask token; a Decider with
# suppress_mask=False lets them take part. The only such line:
MASK_TOKEN_LEADS = {"commit_rules-0073"}
# The released decoder kept credit of the request before.
STALE_CREDIT = {"commit_rules-0092"}
# Several positions are equally good and none is above the threshold: dInfer commits all within 1e-5
# of the best, a Decider the leftmost. From the recorded state on both agree again.
EQUALLY_GOOD = {"commit_rules-0076", "commit_rules-0084"}


def lines(*rules):
    with open(TRACES, encoding="utf-8") as file:
        every = [json.loads(line) for line in file]
    chosen = [line for line in every if line["rule"] in rules and "bf16" not in line["labels"]]
    assert chosen
    return [
        pytest.param(line, id=line["id"].replace("commit_rules-", line["rule"] + "-"))
        for line in chosen
        if line["id"] not in MASK_TOKEN_LEADS | STALE_CREDIT
    ]


def replay(line, decide):
    """Calls decide(x, logits, first, step) for each recorded forward; x [1, length] is changed."""
    model = FakeModel(line["model"])
    mask = line["model"]["mask_id"]
    x = torch.tensor([line["prompt"] + [mask] * line["args"]["gen_length"]])
    for number, step in enumerate(line["steps"]):
        start, end = step["block"]
        first = start if line["rule"].startswith("dinfer") else 0
        before = x[0].clone()
        tokens = before.tolist()
        masked = [p for p in range(first, end) if tokens[p] == mask]
        assert len(masked) == step["n_masked"], number
        logits = model.rows(tokens, masked, first, end)
        assert logits_sum(logits, first, masked) == step["logits_sum"], number
        decide(x, torch.from_numpy(logits)[None], start, end)
        changed = [[p, int(x[0, p])] for p in range(len(tokens)) if x[0, p] != before[p]]
        wanted = [c for c in step["commits"] if c[0] < end]
        if line["id"] in EQUALLY_GOOD:
            assert changed == wanted[: len(changed)] and bool(changed) == bool(wanted)
        else:
            assert changed == wanted, f"step {number}"
        x[0] = before
        for position, token in step["commits"]:
            x[0, position] = token
    assert x[0].tolist() == line["final"]


@pytest.mark.parametrize("line", lines("fastdllm.threshold", "fastdllm.fixed", "fastdllm.factor"))
def test_fast_dllm(line, load_host):
    host = load_host("fast_dllm/generate.py")
    args, mask = line["args"], line["model"]["mask_id"]
    quotas = {}

    def decide(x, logits, start, end):
        mask_index = x[:, :end] == mask
        if line["rule"] == "fastdllm.factor":
            x0, transfer = host.get_transfer_index_dynamic(
                logits, 0, "low_confidence", mask_index, x[:, :end], None, args["factor"]
            )
        else:
            if start not in quotas:  # get_num_transfer_tokens
                count = int((x[:, start:end] == mask).sum())
                steps = args["steps"] // (args["gen_length"] // args["block_length"])
                quotas[start] = iter([count // steps + (i < count % steps) for i in range(steps)])
            k = torch.tensor([next(quotas[start], 0)])
            threshold = args["threshold"]
            x0, transfer = host.get_transfer_index(
                logits, 0, "low_confidence", mask_index, x[:, :end],
                k if threshold is None else None, threshold,
            )
        assert x0.dtype == torch.int64 and transfer.dtype == torch.bool
        x[:, :end][transfer] = x0[transfer]

    replay(line, decide)


@pytest.mark.parametrize(
    "line",
    lines("dinfer.threshold", "dinfer.credit", "dinfer.hierarchy", "dinfer.hierarchy_fast_v2"),
)
def test_dinfer(line, load_host):
    host = load_host("dinfer/parallel_strategy.py")
    args, model = line["args"], line["model"]
    tokens = {"mask_id": model["mask_id"], "eos_id": model["eos_id"]}
    if line["rule"].startswith("dinfer.hierarchy"):
        decoder = host.HierarchyDecoder(args["low_threshold"], args["threshold"], **tokens)
    elif line["rule"] == "dinfer.threshold":
        decoder = host.ThresholdParallelDecoder(args["threshold"], **tokens)
    else:
        names = ("credit_alpha", "boost_gamma", "decay_beta", "threshold")
        decoder = host.CreditThresholdParallelDecoder(
            **{k: args[k] for k in names if k in args}, **tokens
        )

    def decide(x, logits, start, end):
        decoder.decode(logits, start, end, x)

    replay(line, decide)
