# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For llada/generate.py of Fast-dLLM: its two seams, decided by unmask.

`policy` puts any other rule in their place: get_transfer_index(...,
policy="trace_credit + threshold(0.9, inclusive=true)").
"""
from functools import lru_cache

import torch
import unmask

MASK_ID = 126336


@lru_cache(maxsize=64)
def decider(policy: str, mask_id: int) -> unmask.Decider:
    return unmask.Decider(policy, mask_token=mask_id, suppress_mask=False)


def get_transfer_index(
    logits, temperature, remasking, mask_index, x, num_transfer_tokens,
    threshold=None, policy=None, mask_id=MASK_ID,
):
    if policy is not None or threshold is not None:
        decide = decider(policy or f"threshold({threshold}, inclusive=true)", mask_id)
        return decide(logits, x, mask_index)
    rows = [  # a number of tokens for each row of the batch
        decider(f"tokens_per_step({int(k)})", mask_id)(logits[j : j + 1], x[j : j + 1], mask_index[j : j + 1])
        for j, k in enumerate(num_transfer_tokens)
    ]
    return tuple(torch.cat(column) for column in zip(*rows))


def get_transfer_index_dynamic(
    logits, temperature, remasking, mask_index, x, num_transfer_tokens,
    factor=1, mask_id=MASK_ID,
):
    return decider(f"factor({factor}, accept_last=1)", mask_id)(logits, x, mask_index)
