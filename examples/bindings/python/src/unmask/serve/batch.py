# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests that are decoded together: one session, one thread, a slot for each answer."""
from __future__ import annotations

import codecs
import collections
import dataclasses
import functools
import logging
import math
import threading
import time
from typing import Any, Callable, Hashable, Iterator, Sequence

import numpy as np

from .. import _text
from .._unmask import Constraint, Ending, Field, Outcome, Report, Request, Session
from .edits import Edits
from .metrics import Passes
from .models import GivenUp, Model

_FRESH = 8  # passes of an answer without text that may go before older answers
_IN_A_ROW = 4  # such passes, while older answers wait
_FAILED = "the server failed; its log has the reason"
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


_log = logging.getLogger("unmask.serve")


class Full(Exception):
    """Too many answers wait."""


class Failed(Exception):
    """The server's own error. Its log has the reason, the client gets this sentence."""


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


def _longer(text: str, shorter: Sequence[int], matched: int, character: str) -> int:
    while matched and text[matched] != character:
        matched = shorter[matched - 1]
    return matched + (text[matched] == character)


@functools.lru_cache(maxsize=256)
def _shorter(text: str) -> Sequence[int]:
    """Of each beginning of a text: the length of the longest shorter one that ends it."""
    shorter = [0] * len(text)
    for end in range(1, len(text)):
        shorter[end] = _longer(text, shorter, shorter[end - 1], text[end])
    return shorter


class _Stop:
    """Finds a text in a text that grows, in time linear in both (Knuth, Morris, Pratt)."""

    def __init__(self, text: str) -> None:
        self.text, self._shorter = text, _shorter(text)
        self.matched = 0  # characters at the end of what was read that begin `text`

    def read(self, more: str) -> int | None:
        """Where in `more` the text ends for the first time."""
        for at, character in enumerate(more, 1):
            self.matched = _longer(self.text, self._shorter, self.matched, character)
            if self.matched == len(self.text):
                return at
        return None


class Job:
    """One answer. `view` is replaced after each pass by the thread of the batch, which then calls `changed`.

    beyond  positions that are decoded right of the answer, in its last block or for what a policy reads there
    answer  its tokens, with the mask token where they are to be decided; None: all are
    read    is called with the rows of the first pass, and the logits of these rows; the answer then ends
    client  who asked for it: clients share places and passes equally
    """

    def __init__(
        self,
        prompt: Sequence[int],
        length: int,
        policy: str,
        *,
        block_length: int,
        beyond: int = 0,
        seed: int = 0,
        sequence: int = 0,
        constraint: Constraint | None = None,
        stop: Sequence[str] = (),
        canvas: bool = False,
        alternatives: int | None = None,
        edits: Edits | None = None,
        answer: Sequence[int] | None = None,
        read: Callable[[slice, Any], None] | None = None,
        client: Hashable = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.prompt, self.length, self.policy, self.beyond = list(prompt), length, policy, beyond
        self.block_length, self.seed, self.sequence = block_length, seed, sequence
        self.constraint, self.canvas, self.changed = constraint, canvas, changed
        self.alternatives, self.edits, self.client = alternatives, edits, client
        self.answer, self.read = answer, read
        self.number = 0  # in order of arrival
        self.gave_way = False  # its last call of the model was given up
        self.view = View()
        self.gone = False  # no client reads it any more
        self.completion_tokens = 0
        self._tokens = np.empty(0, np.int32)  # prompt and answer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""  # of the tokens up to _read
        self._read = 0
        self._end_of_text: str | None = None  # why no more text follows
        self._stops = [_Stop(text) for text in stop]
        self._passes = [0] * (length + beyond)
        self._masked = frozenset(range(length + beyond))  # before the last pass
        self._holds = _text.rewrites(policy)
        self._whole_block = [given["whole_block"] for name, given in _text.parts(policy) if name == "stop_at_eos"]
        self._aligned = any(given.get("aligned") for _, given in _text.parts(policy))  # blocks begin at multiples
        self._spoken: list[tuple[int, int]] = []  # of each token of the text: its position, where its text begins
        self._probable: dict[int, Probable] = {}

    def tell(self, **changes: Any) -> None:
        self.view = dataclasses.replace(self.view, **changes)
        self.changed()

    def probable(self) -> list[tuple[int, Probable]]:
        """Where the text of each token of the answer begins, and how probable it was when it was committed."""
        return [(begin, self._probable[p]) for p, begin in self._spoken if begin < len(self.view.text) and p in self._probable]

    def fresh(self) -> bool:
        """Whether its client has waited for a text since few passes."""
        return not self.view.text and (self.view.report is None or self.view.report.forwards < _FRESH)

    def take(self, session: Session, slot: int, model: Model, ends: frozenset[int]) -> bool:
        """Reads what a pass did. Returns whether the answer has ended."""
        report = session.report(slot)
        if self.read is not None:
            return self._was_read(session, slot, report)
        first = len(self.prompt)
        if self.alternatives is not None:
            self._note(session, slot)
        over = report.end != Ending.running
        tokens = self._tokens[first:]
        prefix = min(report.committed_prefix - first, report.answer_end - first, self.length)
        if over:  # an end may write EOS tokens to positions that were never decided
            undecided = self._masked.difference(c.position - first for c in session.committed(slot))
            prefix = min([prefix, *undecided])
        else:
            self._masked = frozenset(np.flatnonzero(tokens == model.mask_token).tolist())
        canvas = self._shown(session, slot, report.forwards, tokens, prefix) if self.canvas else None
        ended = not over and self._has_ended(tokens, prefix, model, ends)
        if over or ended or not self._holds:  # tokens that may be rewritten are no text before the end
            self._extend(tokens, prefix, model, ends)
        if not over and (ended or self._end_of_text == "stop sequence"):
            session.cancel(slot)
            report, over = session.report(slot), True
        if over and self._end_of_text is None:
            self._append(self._decoder.decode(b"", final=True))
        text = self._text
        if not over and self._end_of_text is None:  # its end may be the beginning of a stop sequence
            text = text[: len(text) - max((stop.matched for stop in self._stops), default=0)]
        reason = None
        if over:
            reason = "stop" if self._end_of_text or report.constraint_met else "length"
        self.tell(text=text, report=report, canvas=canvas, finish_reason=reason)
        return over

    def _was_read(self, session: Session, slot: int, report: Report) -> bool:
        if report.forwards == 0:
            return False
        if report.end == Ending.running:
            session.cancel(slot)
        self.tell(report=report, finish_reason="stop")
        return True

    def _has_ended(self, tokens: np.ndarray, prefix: int, model: Model, ends: frozenset[int]) -> bool:
        """What stop_at_eos decides, for every EOS token: the session knows one of them."""
        if not self._whole_block:
            return False
        at = next((i for i, token in enumerate(tokens[:prefix].tolist()) if token in ends), None)
        if at is None or not all(self._whole_block):
            return at is not None
        start = at - (at + len(self.prompt) * self._aligned) % self.block_length
        return model.mask_token not in tokens[max(0, start) : start + self.block_length]

    def _extend(self, tokens: Any, until: int, model: Model, ends: frozenset[int]) -> None:
        while self._read < until and self._end_of_text is None:
            token = int(tokens[self._read])
            self._read += 1
            if token in ends:
                self._append(self._decoder.decode(b"", final=True))
                self._end_of_text = self._end_of_text or "EOS token"
                return
            self.completion_tokens += 1
            self._spoken.append((self._read - 1, len(self._text)))
            self._append(self._decoder.decode(model.token_bytes[token]))

    def _append(self, more: str) -> None:
        """Adds to the text, up to a stop sequence."""
        found = [at - len(stop.text) for stop in self._stops if (at := stop.read(more)) is not None]
        self._text += more
        if found:
            self._text = self._text[: len(self._text) - len(more) + min(found)]
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
        proposed = [one for one in proposed if one[0] < self.length]
        return Canvas(tokens[: self.length].tolist(), self._passes[: self.length], proposed, prefix)


class Batch:
    """Decodes jobs: each joins when a place is free, leaves when it ends or is gone, and may have another policy.

    slots     answers of a pass. There are half as many places more, and one client has three quarters of the places
              at most, so that others need not wait for its answers to end
    waiting   most jobs that wait for a place
    branches  most lookahead branches of an answer; each is one more sequence of a pass

    An answer without text goes before others, and of several clients the one that had the least. When such an answer
    arrives, a pass of others is cut between two calls of the model, and a call of a model that has `give_up` is given up,
    unless one of its answers gave way in its last pass.
    """

    def __init__(self, model: Model, *, slots: int = 16, waiting: int = 512, branches: int = 0, threads: int = 1) -> None:
        self.model, self.slots, self.waiting, self.branches = model, slots, waiting, branches
        self.places = slots + max(1, slots // 2)
        self._most = max(1, self.places * 3 // 4)  # of them for one client
        self.longest_token = max(1, max(map(len, model.token_bytes)))  # bytes
        self.passes = 0
        self.counted = Passes()
        self._together = max(1, min(getattr(model, "together", slots), slots))
        self._ends = frozenset(model.also_eos) | ({model.eos_token} if model.eos_token is not None else set())
        self._session = Session(
            "threshold(0.9)",
            vocab=model.vocab,
            mask_token=model.mask_token,
            eos_token=model.eos_token,
            length=model.context,
            window=model.context,
            sequences=self.places,
            branches=branches,
            logits_shift=model.logits_shift,
            trace=True,
            threads=threads,
            files=False,
        )
        self._queue: collections.deque[Job] = collections.deque()
        self._running: dict[int, Job] = {}
        self._served: dict[Hashable, int] = {}  # positions that were computed for each client that has jobs
        self._arrived = 0
        self._in_a_row = 0
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="unmask.serve", daemon=True)
        self._thread.start()

    def check(self, policy: str) -> None:
        """Raises ValueError for a text that is not a policy, or a policy that this server cannot run."""
        refused = dict(_REFUSED)
        if self.branches == 0:
            refused["branches"] = "it was started with --branches 0"
        _text.check(policy, "this server", refused, files=False, eos_token=self.model.eos_token, branches=self.branches)

    def submit(self, jobs: Sequence[Job]) -> None:
        """All of them, or Full. A client that has more waiting than another gives way to it."""
        with self._wake:
            if self._closed:
                raise Full("the server is shutting down")
            if len(self._queue) + len(jobs) > self.waiting:
                self._queue = collections.deque(job for job in self._queue if not job.gone)
            full = Full(f"{len(self._queue)} answers wait already, at most {self.waiting} may")
            waiting = collections.Counter(job.client for job in self._queue)
            leave: list[Job] = []
            for job in reversed(self._queue):
                if len(self._queue) - len(leave) + len(jobs) <= self.waiting:
                    break
                if waiting[job.client] > waiting[jobs[0].client] + len(jobs):
                    waiting[job.client] -= 1
                    leave.append(job)
            if len(self._queue) - len(leave) + len(jobs) > self.waiting:
                raise full
            for job in leave:
                self._queue.remove(job)
            for job in jobs:
                self._arrived += 1
                job.number = self._arrived
                lead = self.slots * self.model.context  # of a client that comes: a whole pass
                self._served.setdefault(job.client, min(self._served.values(), default=0) - lead)
            self._queue.extend(jobs)
            self._wake.notify()
        for job in leave:
            job.tell(error=full)

    def load(self) -> dict[str, int]:
        """Numbers of slots, of answers that have begun, of those that wait, and of passes so far."""
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
            try:
                self._leave()
                self._join()
                if self._running:
                    self._pass(self._chosen())
            except Exception:  # the thread serves everybody: it goes on without these answers
                _log.exception("a pass could not be decided")
                for slot in list(self._running):
                    self._session.cancel(slot)
                    self._free(slot, "failed").tell(error=Failed(_FAILED))
        for job in left:
            job.tell(error=ConnectionError("the server is shutting down"))

    def _leave(self) -> None:
        for slot, job in list(self._running.items()):
            if job.gone:
                self._session.cancel(slot)
                self._free(slot, "gone")

    def _free(self, slot: int, how: str | None = None) -> Job:
        """Ends a slot's job, which counts as `how`, or as it finished."""
        with self._wake:
            job = self._running.pop(slot)
            self._forget()
        report = job.view.report
        self.counted.ended(how or job.view.finish_reason or "failed", report.forwards if report else 0, report.committed if report else 0)
        return job

    def _forget(self) -> None:
        there = {job.client for job in (*self._running.values(), *self._queue)}
        self._served = {client: served for client, served in self._served.items() if client in there}

    def _join(self) -> None:
        """Starts answers where places are free. A client that comes waits for the starts of nobody else's."""
        came = 0
        for slot in range(self.places):
            while slot not in self._running:
                if came == self._together:
                    return
                with self._wake:
                    job = self._next()
                    if job is None:
                        return
                    self._queue.remove(job)
                    if job.gone:
                        self._forget()
                        continue
                    came += all(other.client != job.client for other in self._running.values())
                    self._running[slot] = job
                self._start(slot, job)

    def _next(self) -> Job | None:
        """The job that gets the next place: of the client with the fewest."""
        has = collections.Counter(job.client for job in self._running.values())
        may = (job for job in self._queue if job.gone or has[job.client] < self._most)
        return min(may, key=lambda job: has[job.client], default=None)

    def _start(self, slot: int, job: Job) -> None:
        answer = [self.model.mask_token] * (job.length + job.beyond) if job.answer is None else list(job.answer)
        job._tokens = np.array(job.prompt + answer, dtype=np.int32)
        editable = None
        if job.answer is not None:
            editable = job._tokens == self.model.mask_token
            editable[: len(job.prompt)] = False
        try:
            self._session.start(
                slot,
                job._tokens,
                prompt_length=len(job.prompt),
                block_length=job.block_length,
                seed=job.seed,
                sequence=job.sequence,
                policy=job.policy,
                editable=editable,
                constraint=Field(job.constraint, 0, job.length) if job.constraint is not None and job.beyond else job.constraint,
                soft_tokens=job.alternatives or 0,
            )
            job.tell(started=True)
        except Exception as error:
            self._free(slot, "failed")
            if not isinstance(error, (ValueError, TypeError)):  # not a mistake of the request
                _log.exception("an answer could not be started")
                error = Failed(_FAILED)
            job.tell(error=error)
            return
        self._take(slot)  # a language with one string

    def _take(self, slot: int) -> None:
        job = self._running[slot]
        try:
            if job.take(self._session, slot, self.model, self._ends):
                self._free(slot)
        except Exception:
            _log.exception("an answer could not be read")
            self._session.cancel(slot)
            self._free(slot, "failed").tell(error=Failed(_FAILED))

    def _chosen(self) -> list[int]:
        """The slots of the next pass."""
        running = sorted(self._running.items(), key=lambda item: item[1].number)
        with self._wake:
            waits = {job.client for job in self._queue}  # whose own answers hold each other up
        fresh = [item for item in running if item[1].fresh() and item[1].client not in waits]
        old = [item for item in running if item not in fresh]
        if fresh:
            least = min((job.client for _, job in fresh), key=lambda client: self._served[client])
            if not old or self._in_a_row < _IN_A_ROW:
                self._in_a_row += bool(old)
                own = [slot for slot, job in fresh if job.client == least][: self.slots]
                others = [slot for slot, job in (*fresh, *old) if slot not in own]
                return own + others[: max(0, self._together - len(own))]
        self._in_a_row = 0
        turn: collections.Counter[Hashable] = collections.Counter()
        turns = []
        for slot, job in old:
            turn[job.client] += 1
            turns.append((turn[job.client], job.number, slot))
        return [slot for _, _, slot in sorted(turns)[: self._together if fresh else self.slots]]

    def _is_held_up(self, slots: Sequence[int]) -> bool:
        """Whether an answer arrived that goes before those of this pass."""
        with self._wake:
            job = self._next()
            if job is None or job.gone or len(self._running) == self.places:
                return False
            if not all(self._running[slot].fresh() for slot in slots):
                return True
            return self._served[job.client] < min(self._served[self._running[slot].client] for slot in slots)

    def _pass(self, slots: list[int], *, again: bool = True) -> None:
        """Decides one step of these slots, or of the first of them."""
        begin = time.perf_counter()
        request = self._planned(slots)
        segments: dict[int, list[Any]] = {slot: [] for slot in slots}
        for s in request.segments:
            segments[s.slot].append(s)
        slots = [slot for slot in slots if segments[slot]]
        rows: dict[int, list[np.ndarray]] = {}
        try:
            for at in range(0, len(slots), self._together):
                if at and self._is_held_up(slots):
                    break
                now = slots[at : at + self._together]
                try:
                    for slot, logits in self._forward([(slot, s) for slot in now for s in segments[slot]], len(now) < len(slots)):
                        rows.setdefault(slot, []).append(logits)
                except GivenUp:
                    break
            if len(rows) < len(slots):  # the others' step is planned again
                self._session.abandon()
                slots = list(rows)
                if not slots:
                    return
                request = self._planned(slots)
            self._session.supply([rows[s.slot].pop(0) for s in request.segments])
        except Exception:
            _log.exception("the model failed in a pass of %d answers%s", len(slots),
                           ", each of which is tried once more, alone" if again else "")
            self._session.abandon()
            failed = slots
        else:
            failed = []
        for slot in failed:
            if again:
                self._pass([slot], again=False)
            else:
                self._session.cancel(slot)
                self._free(slot, "failed").tell(error=Failed("the model failed, twice; the server's log has the reason"))
        if failed:
            return
        self.passes += 1
        self.counted.steps.add(time.perf_counter() - begin)
        for slot in slots:
            self._served[self._running[slot].client] += len(self._running[slot]._tokens)
            self._take(slot)

    def _planned(self, slots: list[int]) -> Request:
        request = self._session.next(slots)
        if request is None:
            raise RuntimeError(f"slots {slots} have an answer but no step")
        return request

    def _forward(self, segments: list[tuple[int, Any]], keep: bool) -> Iterator[tuple[int, np.ndarray]]:
        """The logits of each segment, which outlive the next call if `keep`."""
        sequences = []
        for slot, s in segments:
            tokens = self._running[slot]._tokens
            if s.placed:
                tokens = tokens.copy()
                for position, token in s.placed:
                    tokens[position] = token
            sequences.append(tokens)
        found = self._run_model(sequences, [s.rows for _, s in segments], [slot for slot, _ in segments])
        for (slot, s), tokens, logits in zip(segments, sequences, found, strict=True):
            job = self._running[slot]
            if job.edits is not None:
                logits = job.edits.of(logits, s.rows.start + self.model.logits_shift, tokens, len(job.prompt), self.model)
            elif keep:
                logits = np.array(logits)
            if job.read is not None:
                job.read(s.rows, logits)
            yield slot, logits

    def _run_model(self, sequences: list[np.ndarray], rows: list[slice], slots: list[int]) -> list[np.ndarray]:
        jobs = [self._running[slot] for slot in slots]
        if hasattr(self.model, "give_up"):
            gave_way = any(job.gave_way for job in jobs)
            self.model.give_up = lambda: not gave_way and self._is_held_up(slots)
        try:
            found = self.model.forward(sequences, rows)
        except GivenUp:
            for job in jobs:
                job.gave_way = True
            raise
        for job in jobs:
            job.gave_way = False
        return found
