# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counters of the server, as text for Prometheus. Labels have values of this file only: nothing of a request is one."""
from __future__ import annotations

import bisect
import collections
from typing import Iterator, Mapping, Sequence

PATHS = ("/", "/health", "/metrics", "/v1/models", "/v1/chat/completions", "/v1/completions", "/v1/decide")
OTHER = "other"
_ERRORS = {400: "invalid_request", 401: "key", 404: "not_found", 405: "not_found", 408: "timeout", 413: "too_large", 415: "invalid_request",
           429: "too_many", 500: "failed", 501: "failed", 503: "shutdown", 504: "timeout"}
_SECONDS = (.0025, .005, .01, .025, .05, .1, .25, .5, 1., 2.5, 5., 10., 30., 60., 120., 300., 600.)
_TOKENS = (1., 1.5, 2., 3., 4., 6., 8., 12., 16., 24., 32., 64., 128.)


class Histogram:
    """Counts by upper bounds. One thread adds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(repr, self._bounds), "+Inf"), list(self._counts)):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum!r}"
        yield f"{name}_count {total}"


class Passes:
    """What the thread of the batch counts."""

    def __init__(self) -> None:
        self.steps = Histogram(_SECONDS)
        self.answers: dict[str, int] = dict.fromkeys(("stop", "length", "failed", "gone"), 0)
        self.forwards = self.committed = 0
        self.tokens_per_pass = Histogram(_TOKENS)

    def ended(self, how: str, forwards: int, committed: int) -> None:
        """An answer that has begun ends."""
        self.answers[how] += 1
        self.forwards += forwards
        self.committed += committed
        if forwards:
            self.tokens_per_pass.add(committed / forwards)


class Requests:
    """What the event loop counts."""

    def __init__(self) -> None:
        self._requests: collections.Counter[tuple[str, int]] = collections.Counter()
        self._errors: collections.Counter[str] = collections.Counter()
        self._seconds = Histogram(_SECONDS)

    def ended(self, path: str, status: int, seconds: float, error: str | None) -> None:
        """A request ends. error  failed, gone or stalled, where the status does not say so"""
        self._requests[path if path in PATHS else OTHER, status] += 1
        if error is not None or status >= 400:
            self._errors[error or _ERRORS.get(status, OTHER)] += 1
        self._seconds.add(seconds)

    def text(self, load: Mapping[str, int], passes: Passes) -> str:
        """All of it, in the format of Prometheus 0.0.4."""
        out: list[str] = []

        def metric(name: str, kind: str, about: str, lines: Iterator[str]) -> None:
            out.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}", *lines))

        def values(name: str, label: str, of: Mapping[str, int]) -> Iterator[str]:
            return (f'{name}{{{label}="{key}"}} {of[key]}' for key in sorted(of))

        name = "unmask_requests_total"
        metric(name, "counter", "Requests that were answered, or whose client went away.", (
            f'{name}{{path="{path}",status="{status}"}} {count}' for (path, status), count in sorted(self._requests.items())))
        metric("unmask_errors_total", "counter", "Requests without an answer, by kind.", values("unmask_errors_total", "kind", self._errors))
        metric("unmask_request_seconds", "histogram", "Time of a request, to the end of its answer.", self._seconds.lines("unmask_request_seconds"))
        for name, about, value in (("unmask_slots", "Answers of a pass.", load["slots"]),
                                   ("unmask_answers_running", "Answers that have begun.", load["running"]),
                                   ("unmask_answers_waiting", "Answers that wait for a place.", load["waiting"])):
            metric(name, "gauge", about, iter([f"{name} {value}"]))
        for name, about, value in (("unmask_steps_total", "Passes of the batch.", load["passes"]),
                                   ("unmask_answer_passes_total", "Forward passes of the answers that have ended.", passes.forwards),
                                   ("unmask_tokens_total", "Tokens that these passes committed.", passes.committed)):
            metric(name, "counter", about, iter([f"{name} {value}"]))
        metric("unmask_answers_total", "counter", "Answers that have ended, by how.", values("unmask_answers_total", "end", passes.answers))
        metric("unmask_tokens_per_pass", "histogram", "Tokens a forward pass of an answer.", passes.tokens_per_pass.lines("unmask_tokens_per_pass"))
        metric("unmask_step_seconds", "histogram", "Time of a pass of the batch: the model, and what is decided.",
               passes.steps.lines("unmask_step_seconds"))
        return "\n".join(out) + "\n"
