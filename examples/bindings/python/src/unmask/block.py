# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any, Sequence

from ._unmask import Commit, Constraint, Ending, Field, Report, Session


class Block:
    """One block of one request, decided in a loop that the host owns.

        block = unmask.Block("trace_credit + threshold(0.9)", length=32, vocab=V, mask_token=M)
        block.start(tokens, tokens == M)
        while not block.ended:
            block.step(model(tokens))

    `length` is the number of positions that logits have rows for. What the policy remembers lives
    from start() to the end; a block may be started again, at any time. Other options are those of
    Session.
    Policies with lookahead, drafts or a beam need an engine that runs branches: use Session.
    """

    def __init__(
        self, policy: str, *, length: int, vocab: int, mask_token: int, **options: Any
    ) -> None:
        self._length = length
        self._on_device = options.get("stream") is not None
        self._session = Session(
            policy, length=length, window=length, vocab=vocab, mask_token=mask_token, **options
        )

    def start(
        self,
        tokens: Any,
        masked: Any,
        *,
        seed: int = 0,
        constraint: Constraint | Field | None = None,
        fields: Sequence[Any] | None = None,
    ) -> None:
        """Begins with the positions that `masked` marks (bool); the others are context.

        `tokens` (int64 or int32, one dimension) are written in place by step(). `constraint` is the
        language of all of them, or `fields` have some: as of Session.start(). Of an answer in several
        blocks each is a Field with `tokens_after`, and with `state` from constraint_state() of the one before.
        """
        # On a device the session takes tokens of 32 bits, and a session on the CPU takes none from
        # there: both are written by way of a copy.
        self._tokens = self._written = tokens
        if getattr(tokens, "is_cuda", False):
            self._written = tokens.int() if self._on_device else tokens.cpu()
        self._session.start(
            0,
            self._written,
            prompt_length=0,
            block_length=self._length,
            editable=masked.cpu() if hasattr(masked, "cpu") else masked,
            seed=seed,
            constraint=constraint,
            fields=fields,
        )

    def constraint_state(self, field: int = 0) -> int:
        """The state of a constrained field behind its committed prefix, for the next block."""
        return self._session.constraint_state(0, field)

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
            raise ValueError(f"Block and Decider cannot run the branches of '{self._session.policy}': use a Session")
        rows = request.segments[0].rows
        self._session.supply(
            self._read(logits, rows),
            allowed=self._read(allowed, rows),
            unconditional=self._read(unconditional, rows),
            cfg_scale=cfg_scale,
        )
        if self._written is not self._tokens:
            self._tokens.copy_(self._written)
        return self._session.committed()

    def _read(self, tensor: Any, rows: slice) -> Any:
        """Rows of a tensor, on the CPU for a session there."""
        if tensor is None:
            return None
        copied = not self._on_device and getattr(tensor, "is_cuda", False)
        return tensor[rows].cpu() if copied else tensor[rows]
