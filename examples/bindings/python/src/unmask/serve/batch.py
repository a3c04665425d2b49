# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests that are decoded together: one session, one thread, a slot for each answer."""
from __future__ import annotations

import codecs
import collections
import dataclasses
import math
import threading
from typing import Any, Callable, Sequence

import numpy as np

from .. import _text
from .._unmask import Constraint, Ending, Outcome, Report, Session
from .models import Model

_PROPOSED = (Outcome.held, Outcome.excluded, Outcome.refused)
_REFUSED = {
    "layer rule": "it gets logits only, no layer's hidden states",
    "canvas": "its models are told no step's temperature or probabilities",
    "probe": "its answers have no place for probabilities; use unmask.Session",
    "delayed_cache": "its models run whole sequences, no single positions",
    "entropy_cache": "its models run whole sequences, no single positions",
    "key_eviction": "its models keep all keys",
    "replay": "a request names no file",
}


class Full(Exception):
    """As many requests wait as may."""


@dataclasses.dataclass(frozen=True)
class Canvas:
    """The answer after a pass, position by position."""

    tokens: list[int]
    passes: list[int]  # in which each was committed, from 1; 0 is masked. What a language fills at the start has 1
    proposed: list[tuple[int, int, float]]  # position, token and confidence of those that stay masked
    committed_prefix: int  # of the answer


@dataclasses.dataclass(frozen=True)
class View:
    """What is known of an answer. Later ones have the text of earlier ones in front."""

    text: str = ""
    started: bool = False
    report: Report | None = None
    canvas: Canvas | None = None
    finish_reason: str | None = None  # "stop" or "length" at the end
    error: Exception | None = None

    @property
    def ended(self) -> bool:
        return self.finish_reason is not None or self.error is not None


@dataclasses.dataclass(frozen=True)
class Probable:
    """A token, its log-probability in the step that committed it, and the most probable tokens of that row."""

    token: int
    log_probability: float
    alternatives: list[tuple[int, float]]


class Job:
    """One answer. `view` is replaced after each pass by the thread of the batch, which then calls `changed`."""

    def __init__(
        self,
        prompt: Sequence[int],
        length: int,
        policy: str,
        *,
        block_length: int,
        seed: int = 0,
        sequence: int = 0,
        constraint: Constraint | None = None,
        stop: Sequence[str] = (),
        canvas: bool = False,
        alternatives: int | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.prompt, self.length, self.policy = list(prompt), length, policy
        self.block_length, self.seed, self.sequence = block_length, seed, sequence
        self.constraint, self.stop, self.canvas, self.changed = constraint, list(stop), canvas, changed
        self.alternatives = alternatives
        self.view = View()
        self.gone = False  # no client reads it any more
        self.completion_tokens = 0
        self._tokens: np.ndarray | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""  # of the tokens up to _read
        self._read = 0
        self._end_of_text: str | None = None  # why no more text follows
        self._passes = [0] * length
        self._holds = _text.rewrites(policy)
        self._spoken: list[tuple[int, int]] = []  # of each token of the text: its position, where its text begins
        self._probable: dict[int, Probable] = {}

    def tell(self, **changes: Any) -> None:
        self.view = dataclasses.replace(self.view, **changes)
        self.changed()

    def probable(self) -> list[tuple[int, Probable]]:
        """Where the text of each token of the answer begins, and how probable it was when it was committed."""
        return [(begin, self._probable[p]) for p, begin in self._spoken if begin < len(self.view.text) and p in self._probable]

    def take(self, session: Session, slot: int, model: Model, ends: frozenset[int]) -> bool:
        """Reads what a pass did. Returns whether the answer has ended."""
        report = session.report(slot)
        first = len(self.prompt)
        if self.alternatives is not None:
            self._note(session, slot)
        over = report.end != Ending.running
        tokens = self._tokens[first:]  # type: ignore[index]
        prefix = min(report.committed_prefix, report.answer_end) - first
        if over or not self._holds:  # tokens that may be rewritten are no text before the end
            self._extend(tokens, prefix, model, ends)
        canvas = self._shown(session, slot, report.forwards, tokens, prefix) if self.canvas else None
        if not over and self._end_of_text == "stop sequence":
            session.cancel(slot)
            report, over = session.report(slot), True
        text = self._text
        if not over:
            text = text[: len(text) - self._kept_back()]
        elif self._end_of_text is None:
            text += self._decoder.decode(b"", final=True)
        reason = None
        if over:
            reason = "stop" if self._end_of_text or report.constraint_met else "length"
        self.tell(text=text, report=report, canvas=canvas, finish_reason=reason)
        return over

    def _extend(self, tokens: Any, until: int, model: Model, ends: frozenset[int]) -> None:
        while self._read < until and self._end_of_text is None:
            token = int(tokens[self._read])
            self._read += 1
            if token in ends:
                self._end_of_text = "EOS token"
                self._text += self._decoder.decode(b"", final=True)
                return
            if token == model.mask_token:  # an answer that ended by its policy's max_steps
                continue
            self.completion_tokens += 1
            self._spoken.append((self._read - 1, len(self._text)))
            self._text += self._decoder.decode(model.token_bytes[token])
            found = [at for at in map(self._text.find, self.stop) if at >= 0]
            if found:
                self._text = self._text[: min(found)]
                self._end_of_text = "stop sequence"

    def _note(self, session: Session, slot: int) -> None:
        """How probable the tokens are that the last step wrote, and their alternatives."""
        first = len(self.prompt)
        others: dict[int, list[tuple[int, float]]] = {}
        for a in session.alternatives(slot):
            others.setdefault(a.position - first, []).append((a.token, math.log(a.probability) if a.probability else -math.inf))
        for commit in session.committed(slot):
            at = commit.position - first
            self._probable[at] = Probable(commit.token, commit.log_probability, others.get(at, []))

    def _kept_back(self) -> int:
        """Characters at the end that may be the beginning of a stop sequence."""
        if self._end_of_text is not None:
            return 0
        return max((n for stop in self.stop for n in range(1, len(stop)) if self._text.endswith(stop[:n])), default=0)

    def _shown(self, session: Session, slot: int, forwards: int, tokens: Any, prefix: int) -> Canvas:
        first = len(self.prompt)
        for commit in session.committed(slot):
            self._passes[commit.position - first] = max(1, forwards)
        masked = set(np.flatnonzero(tokens == session.mask_token).tolist())
        for place in masked:
            self._passes[place] = 0
        proposed = [
            (c.position - first, c.token, c.confidence) for c in session.candidates(slot)
            if c.outcome in _PROPOSED and c.position - first in masked
        ]
        return Canvas(tokens.tolist(), list(self._passes), proposed, prefix)


class Batch:
    """Decodes jobs: each joins when a slot is free, leaves when it ends or is gone, and may have another policy.

    slots     answers that are decoded together
    waiting   most jobs that wait for a slot
    branches  most lookahead branches of an answer; each is one more sequence of a pass
    """

    def __init__(self, model: Model, *, slots: int = 16, waiting: int = 512, branches: int = 0, threads: int = 1) -> None:
        self.model, self.slots, self.waiting, self.branches = model, slots, waiting, branches
        self.passes = 0
        self._ends = frozenset(model.also_eos) | ({model.eos_token} if model.eos_token is not None else set())
        self._session = Session(
            "threshold(0.9)",
            vocab=model.vocab,
            mask_token=model.mask_token,
            eos_token=model.eos_token,
            length=model.context,
            window=model.context,
            sequences=slots,
            branches=branches,
            logits_shift=model.logits_shift,
            trace=True,
            threads=threads,
            files=False,
        )
        self._queue: collections.deque[Job] = collections.deque()
        self._running: dict[int, Job] = {}
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="unmask.serve", daemon=True)
        self._thread.start()

    def check(self, policy: str) -> None:
        """Raises ValueError for a text that is no policy, or one that this server cannot run."""
        refused = dict(_REFUSED)
        if self.branches == 0:
            refused["branches"] = "it was started with --branches 0"
        _text.check(policy, "this server", refused, files=False, eos_token=self.model.eos_token, branches=self.branches)

    def submit(self, jobs: Sequence[Job]) -> None:
        """All of them, or Full."""
        with self._wake:
            if self._closed:
                raise Full("the server is shutting down")
            if len(self._queue) + len(jobs) > self.waiting:
                self._queue = collections.deque(job for job in self._queue if not job.gone)
            if len(self._queue) + len(jobs) > self.waiting:
                raise Full(f"{len(self._queue)} answers wait already, at most {self.waiting} may")
            self._queue.extend(jobs)
            self._wake.notify()

    def load(self) -> dict[str, int]:
        """Numbers of slots, of answers in them, of those that wait, and of passes so far."""
        with self._wake:
            return {"slots": self.slots, "running": len(self._running), "waiting": len(self._queue), "passes": self.passes}

    def close(self) -> None:
        """Ends the thread after the pass that runs; jobs that have not ended fail."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._queue or self._running or self._closed):
                    self._wake.wait()
                if self._closed:
                    left = [*self._running.values(), *self._queue]
                    self._queue.clear()
                    break
            self._leave()
            self._join()
            self._pass()
        for job in left:
            job.tell(error=ConnectionError("the server is shutting down"))

    def _leave(self) -> None:
        for slot, job in list(self._running.items()):
            if job.gone:
                self._session.cancel(slot)
                self._free(slot)

    def _free(self, slot: int) -> Job:
        with self._wake:
            return self._running.pop(slot)

    def _join(self) -> None:
        for slot in range(self.slots):
            while slot not in self._running:
                with self._wake:
                    job = self._queue.popleft() if self._queue else None
                    if job is None:
                        return
                    if job.gone:
                        continue
                    self._running[slot] = job
                self._start(slot, job)

    def _start(self, slot: int, job: Job) -> None:
        job._tokens = np.array(job.prompt + [self.model.mask_token] * job.length, dtype=np.int32)
        try:
            self._session.start(
                slot,
                job._tokens,
                prompt_length=len(job.prompt),
                block_length=min(job.block_length, job.length),
                seed=job.seed,
                sequence=job.sequence,
                policy=job.policy,
                constraint=job.constraint,
                soft_tokens=job.alternatives or 0,
            )
            job.tell(started=True)
            if job.take(self._session, slot, self.model, self._ends):  # a language with one string
                self._free(slot)
        except Exception as error:
            self._free(slot)
            job.tell(error=error)

    def _pass(self) -> None:
        request = self._session.next()
        if request is None:
            return
        slots = sorted({s.slot for s in request.segments})
        try:
            sequences = []
            for s in request.segments:
                tokens = self._running[s.slot]._tokens
                if s.placed:
                    tokens = tokens.copy()  # type: ignore[union-attr]
                    for position, token in s.placed:
                        tokens[position] = token
                sequences.append(tokens)
            self._session.supply(self.model.forward(sequences, [s.rows for s in request.segments]))  # type: ignore[arg-type]
        except Exception as error:  # of the model: its answers fail, the server goes on
            self._session.cancel_request()
            for job in [self._free(slot) for slot in slots]:
                job.tell(error=RuntimeError(f"the model failed: {error}"))
            return
        self.passes += 1
        for slot in slots:
            if self._running[slot].take(self._session, slot, self.model, self._ends):
                self._free(slot)
