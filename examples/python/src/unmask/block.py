# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any

from ._unmask import Commit, Ending, Report, Session


class Block:
    """One block of one request, decided in a loop that the host owns.

        block = unmask.Block("trace_credit + threshold(0.9)", length=32, vocab=V, mask_token=M)
        block.start(tokens, tokens == M)
        while not block.ended:
            block.step(model(tokens))

    `length` is the number of positions that logits have rows for. What the policy remembers lives
    from start() to the end; a block may be started again, at any time. Other options are those of
    Session.
    Policies with lookahead need an engine that runs branches: use Session.
    """

    def __init__(
        self, policy: str, *, length: int, vocab: int, mask_token: int, **options: Any
    ) -> None:
        self._length = length
        self._session = Session(
            policy, length=length, window=length, vocab=vocab, mask_token=mask_token, **options
        )

    def start(self, tokens: Any, masked: Any, *, seed: int = 0) -> None:
        """Begins with the positions that `masked` marks (bool); the others are context.

        `tokens` (int64 or int32, one dimension) are written in place by step().
        """
        # A session on a device takes tokens of 32 bits: others are written by way of a copy.
        on_device = getattr(tokens, "is_cuda", False)
        self._tokens = tokens
        self._written = tokens.int() if on_device else tokens
        self._session.start(
            0,
            self._written,
            prompt_length=0,
            block_length=self._length,
            editable=masked.cpu() if hasattr(masked, "cpu") else masked,
            seed=seed,
        )

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to decide."""
        return self._session.report().end != Ending.running

    @property
    def report(self) -> Report:
        return self._session.report()

    def step(
        self,
        logits: Any,
        *,
        allowed: Any = None,
        unconditional: Any = None,
        cfg_scale: float = 0.0,
    ) -> list[Commit]:
        """Decides one step from logits of all positions and returns what it wrote.

        Only rows of masked positions are read. Nothing happens once the block has ended.
        """
        if len(logits) != self._length:
            raise ValueError(f"logits must have {self._length} rows, got {len(logits)}")
        request = self._session.next()
        if request is None:
            return []
        if len(request.segments) != 1:
            raise ValueError(f"a Block cannot run the branches of '{self._session.policy}'")
        rows = request.segments[0].rows
        self._session.supply(
            logits[rows],
            allowed=None if allowed is None else allowed[rows],
            unconditional=None if unconditional is None else unconditional[rows],
            cfg_scale=cfg_scale,
        )
        if self._written is not self._tokens:
            self._tokens.copy_(self._written)
        return self._session.committed()
