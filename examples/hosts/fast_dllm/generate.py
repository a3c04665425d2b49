# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For llada/generate.py of Fast-dLLM, and examples/dllm_generate/utils.py of NeMo Automodel: their seams, decided by
unmask.

`policy` puts any other rule in their place: get_transfer_index(...,
policy="trace_credit + threshold(0.9, inclusive=true)").
"""
from functools import lru_cache

import torch
import unmask


@lru_cache(maxsize=64)
def decider(policy: str, mask_id: int) -> unmask.Decider:
    return unmask.Decider(policy, mask_token=mask_id, suppress_mask=False)


def check(temperature, remasking):
    """Their loops draw with noise at a temperature, or remask at random: parts of a policy do it here."""
    if temperature:
        raise ValueError(f"temperature must be 0, got {temperature}: write `+ sampling({temperature})` in `policy`")
    if remasking != "low_confidence":
        raise ValueError(f"remasking must be 'low_confidence', got {remasking!r}: write `at_random +` in `policy`")


def decide(policy, logits, mask_index, x):
    if not mask_index.any():
        return x.clone(), torch.zeros_like(mask_index)
    return decider(policy, int(x[mask_index][0]))(logits, x, mask_index)


def get_transfer_index(
    logits, temperature, remasking, mask_index, x, num_transfer_tokens,
    threshold=None, policy=None,
):
    check(temperature, remasking)
    if policy is not None or threshold is not None:
        return decide(policy or f"threshold({threshold}, inclusive=true)", logits, mask_index, x)
    rows = []
    for j, k in enumerate(num_transfer_tokens):  # a number of tokens for each row of the batch
        row = slice(j, j + 1)
        masked = mask_index[row] & bool(k)
        rows.append(decide(f"tokens_per_step({max(int(k), 1)})", logits[row], masked, x[row]))
    return tuple(torch.cat(column) for column in zip(*rows))


def get_transfer_index_dynamic(
    logits, temperature, remasking, mask_index, x, num_transfer_tokens, factor=1,
):
    check(temperature, remasking)
    return decide(f"factor({factor}, accept_last=1)", logits, mask_index, x)
