# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of logits without a session."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

from ._unmask import read_rows


class Rows(NamedTuple):
    """Statistics of rows of logits, an entry a row: NumPy arrays, or tensors for tensors of PyTorch.

    The log-probability of a token with logit z is (z - best) - log_total, in float32.
    """

    tokens: Any  # the most probable, the lowest of equals; -1 for a row without a finite logit
    best: Any  # its logit
    log_total: Any  # ln of the sum of e^(z - best), at least 0; NaN for a row with NaN
    second: Any  # the second largest logit, with multiplicity; -inf: there is none
    entropy: Any  # of the row's distribution, in nats
    log_kept_mass: Any  # ln of the probability of the tokens that top_k, top_p and min_p keep, at most 0


def read(
    logits: Any,
    *,
    temperature: float = 1.0,
    suppressed: Sequence[int] = (),
    allowed: Any = None,
    unconditional: Any = None,
    cfg_scale: float = 0.0,
    top_k: Optional[int] = None,
    top_p: Optional[float] = None,
    min_p: Optional[float] = None,
) -> Rows:
    """Reads rows of logits [rows, vocab], each once, with the bits of a Session.

    `temperature` divides the logits; `suppressed` tokens, and those that `allowed` does not have (int32,
    a bit a token), count as -inf; `unconditional` and `cfg_scale` guide, as of Session.supply(). top_k,
    top_p and min_p mean the same as in a policy. Float32, bfloat16 or float16, of any library with DLPack; rows
    of a GPU are copied to the host.
    """
    import numpy as np

    of_torch = type(logits).__module__.split(".")[0] == "torch"
    logits, allowed, unconditional = map(_on_host, (logits, allowed, unconditional))
    tokens = np.empty(len(logits), np.int32)
    statistics = np.empty((len(logits), 5), np.float32)
    if len(logits):
        read_rows(logits, tokens, statistics, temperature=temperature, suppressed=list(suppressed), allowed=allowed,
                  unconditional=unconditional, cfg_scale=cfg_scale, top_k=top_k, top_p=top_p, min_p=min_p)
    if not of_torch:
        return Rows(tokens, *statistics.T)
    import torch

    return Rows(torch.from_numpy(tokens), *torch.from_numpy(statistics).T)


def _on_host(tensor: Any) -> Any:
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
    return tensor.cpu() if getattr(tensor, "is_cuda", False) else tensor
