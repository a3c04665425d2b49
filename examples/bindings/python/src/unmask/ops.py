# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of PyTorch, so that torch.compile keeps a model and its decisions in one graph.

    from unmask import ops

    rule = ops.decider("trace_credit + threshold(0.9)", mask_token=M)

    @torch.compile(fullgraph=True)
    def step(x):
        return torch.ops.unmask.decide(model(x), x, x == M, rule)  # writes x; returns what it wrote

unmask::read      rows of logits, as unmask.read()
unmask::decide    a step of a batch, as unmask.Decider
unmask::supply    a step of a session, as Session.supply()

All have fake implementations, for torch.compile and torch.export. read and decide run on a CPU and copy tensors of
a GPU to the host, so a CUDA graph cannot contain them. supply of a session on a stream enqueues launches alone, and
a CUDA graph may contain it, with the model. Where graphs are replayed on another stream than the session's, its
stream must wait for that one before next():

    session = unmask.Session("threshold(0.9)", ..., stream=torch.cuda.current_stream().cuda_stream)
    session.start(0, tokens, prompt_length=P)
    number = ops.session(session, tokens)

    @torch.compile(fullgraph=True)
    def step(x, first, last):
        torch.ops.unmask.supply(model(x)[first:last], x, number)

    while (request := session.next()) is not None:
        rows = request.segments[0].rows
        step(tokens, rows.start, rows.stop)
"""
from __future__ import annotations

import atexit
from typing import Any, Optional, Sequence

import torch

from ._read import read as _read
from ._unmask import Session
from .decider import Decider

_deciders: list[Decider] = []
_sessions: list[tuple[Session, torch.Tensor]] = []
for _list in _deciders, _sessions:
    atexit.register(_list.clear)  # PyTorch keeps this module, and so them, longer than their extension


def decider(policy: str, *, mask_token: int, **options: Any) -> int:
    """Makes a Decider, and returns its number for unmask::decide. It lives as long as the program."""
    _deciders.append(Decider(policy, mask_token=mask_token, **options))
    return len(_deciders) - 1


def session(session: Session, tokens: torch.Tensor) -> int:
    """Returns the number of a session for unmask::supply. It lives as long as the program.

    `tokens` (int32, one dimension) are those that the session was started with and writes, in its only slot.
    """
    if tokens.dtype != torch.int32 or tokens.dim() != 1:
        raise ValueError(f"tokens must be int32 of one dimension, got {tokens.dtype} of {tokens.dim()} dimensions")
    _sessions.append((session, tokens))
    return len(_sessions) - 1


@torch.library.custom_op("unmask::read", mutates_args=())
def read(logits: torch.Tensor, temperature: float = 1.0, suppressed: Optional[Sequence[int]] = None, top_k: int = 0,
         top_p: float = 1.0, min_p: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads logits [rows, vocab]: tokens, int32 [rows], and statistics, float32 [rows, 5].

    The columns are best, log_total, second, entropy and log_kept_mass of unmask.Rows. top_k 0 is none.
    """
    rows = _read(logits, temperature=temperature, suppressed=suppressed or (), top_k=top_k or None, top_p=top_p, min_p=min_p)
    return rows.tokens.to(logits.device), torch.stack(rows[1:], dim=1).to(logits.device)


@read.register_fake
def _(logits: torch.Tensor, temperature: float = 1.0, suppressed: Optional[Sequence[int]] = None, top_k: int = 0,
      top_p: float = 1.0, min_p: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    torch._check(logits.dim() == 2, lambda: f"logits must be rows and columns, got {logits.dim()} dimensions")
    rows = logits.shape[0]
    return logits.new_empty((rows,), dtype=torch.int32), logits.new_empty((rows, 5), dtype=torch.float32)


@torch.library.custom_op("unmask::decide", mutates_args=("tokens",))
def decide(logits: torch.Tensor, tokens: torch.Tensor, masked: torch.Tensor, decider: int) -> torch.Tensor:
    """Decides a step of logits [batch, length, vocab], writes it to tokens [batch, length], and returns what it wrote."""
    if not 0 <= decider < len(_deciders):
        raise ValueError(f"decider must be a number that ops.decider() returned, got {decider}")
    x0, transfer = _deciders[decider](logits.detach(), tokens, masked)
    tokens.copy_(torch.where(transfer, x0.to(tokens.dtype), tokens))
    return transfer


@decide.register_fake
def _(logits: torch.Tensor, tokens: torch.Tensor, masked: torch.Tensor, decider: int) -> torch.Tensor:
    torch._check(logits.dim() == 3 and logits.shape[:2] == tokens.shape and masked.shape == tokens.shape,
                 lambda: f"logits, tokens and masked must be [batch, length, vocab] and twice [batch, length], got "
                         f"{tuple(logits.shape)}, {tuple(tokens.shape)} and {tuple(masked.shape)}")
    return torch.empty_like(masked, dtype=torch.bool)


@torch.library.custom_op("unmask::supply", mutates_args=("tokens",))
def supply(logits: torch.Tensor, tokens: torch.Tensor, session: int) -> None:
    """Supplies a session with the rows of logits that its request names, and writes its tokens to `tokens`.

    `tokens` are those of ops.session(), or others of that shape, as a compiler may pass: they get a copy.
    """
    if not 0 <= session < len(_sessions):
        raise ValueError(f"session must be a number that ops.session() returned, got {session}")
    of, own = _sessions[session]
    if tokens.shape != own.shape:
        raise ValueError(f"tokens must have the session's {len(own)} tokens, got {tuple(tokens.shape)}")
    of.supply(logits.detach())
    if of.stream is not None:  # what the caller queues next comes after the step
        with torch.cuda.device(logits.device):
            torch.cuda.current_stream().wait_stream(torch.cuda.ExternalStream(of.stream))
    if tokens.data_ptr() != own.data_ptr():
        tokens.copy_(own)


@supply.register_fake
def _(logits: torch.Tensor, tokens: torch.Tensor, session: int) -> None:
    torch._check(logits.dim() == 2 and tokens.dim() == 1,
                 lambda: f"logits and tokens must be [rows, vocab] and [length], got {tuple(logits.shape)} and "
                         f"{tuple(tokens.shape)}")
