# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Languages of tagged JSON with free text around it, as in calls of tools, and the automata that such languages are made of."""
from __future__ import annotations

import dataclasses
import json
import time
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from . import constraints
from ._refused import RefusedAt
from ._unmask import Constraint, Language, Vocabulary

_MOST_STATES = 1 << 15  # over bytes
_TOO_MANY = f"the tags need more than {_MOST_STATES} states over bytes: give fewer or smaller schemas"
_DEAD = int(constraints.DEAD)


@dataclasses.dataclass(frozen=True)
class Tag:
    """JSON of a schema between two texts."""

    begin: str
    schema: Any
    end: str
    place: str
    """Where the schema stands in what the user wrote, for messages."""


def tagged(
    tags: Sequence[Tag],
    words: Vocabulary,
    *,
    triggers: Sequence[str],
    opening: str = "",
    between: str | None = None,
    closing: str = "",
    least: int = 0,
    several: bool = True,
    text: bool = True,
    alone: bool = False,
    states: int = 4096,
    timeout: float = 10.0,
) -> Constraint:
    """Free text, `opening`, a tag or several with `between` between them, `closing`.

    triggers  texts that free text does not contain: the opening with the begin of each tag begins with one of them
    between   None: free text stands between tags and after the last one, and there is neither opening nor closing
    least     0, or 1: an answer of text alone is not in the language
    several   more than one tag
    text      whether text may stand in front of the first tag
    alone     text and tags exclude each other: an answer that begins with a trigger is a tag
    timeout   seconds for all schemas together

    Errors: RefusedAt, with the place of its tag, for a schema that is not kept. ValueError for more than `states` states, a tag without a trigger,
    or a language that the tokens cannot write.
    """
    for tag in tags:
        if not any((opening + tag.begin).startswith(trigger) for trigger in triggers):
            raise ValueError(f"begin must begin with one of triggers {list(triggers)}, got {tag.begin!r}")
    made = Automaton(timeout)
    done = made.state(accepting=True)
    after = made.state(accepting=False) if between is not None else done
    made.free(after, made.chain(closing, done))
    starts = [made.chain(tag.begin, made.schema(tag, made.chain(tag.end, after))) for tag in tags]
    first = made.state(accepting=False)
    for begin in starts:
        made.free(first, begin)
    opened = made.chain(opening, first)
    if not text:
        begin = made.state(accepting=least == 0)
        made.free(begin, opened)
    elif alone:
        begin = made.state(accepting=least == 0)
        made.free(begin, opened)
        made.free(begin, made.text_after_no(triggers))
    else:
        begin = made.text_without(triggers, opened, accepting=least == 0)
    if several and between is not None:
        made.free(after, made.chain(between, first))
    elif between is None:
        made.free(done, made.text_without(triggers, opened if several else None, accepting=True))
    table, accepting = made.determinised(begin)
    return Constraint(table, accepting, words, states=states)


class Automaton:
    """States over bytes, each with a move for each byte, moves of no byte, and whether a string may end.

    Errors: ValueError for more than 32,768 states, or after `timeout` seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._end = time.monotonic() + timeout
        self._rows: list[np.ndarray] = []  # blocks of states
        self._count = 0
        self._free: dict[int, list[int]] = {}
        self._accepting: set[int] = set()

    def _left(self) -> float:
        if (seconds := self._end - time.monotonic()) <= 0:
            raise ValueError("the automaton was not made in time: give fewer or smaller schemas")
        return seconds

    def add(self, rows: np.ndarray, accepting: Iterable[int] = ()) -> int:
        """Adds states whose moves count from the first of them; returns that one."""
        first = self._count
        if first + len(rows) > _MOST_STATES:
            raise ValueError(f"it needs more than {_MOST_STATES} states over bytes: give fewer or smaller schemas and repetitions")
        self._rows.append(np.where(rows == _DEAD, -1, rows.astype(np.int32) + np.int32(first)))
        self._count += len(rows)
        self._accepting |= {first + state for state in accepting}
        return first

    def state(self, *, accepting: bool) -> int:
        return self.add(np.full((1, 256), _DEAD, np.uint32), [0] if accepting else [])

    def free(self, state: int, to: int) -> None:
        self._free.setdefault(state, []).append(to)

    def chain(self, text: str, to: int) -> int:
        """States that read a text and go on at `to`."""
        data = text.encode()
        rows = np.full((len(data) + 1, 256), _DEAD, np.uint32)
        rows[np.arange(len(data)), list(data)] = np.arange(1, len(data) + 1)
        first = self.add(rows)
        self.free(first + len(data), to)
        return first

    def schema(self, tag: Tag, to: int) -> int:
        """States that read JSON of a schema and go on at `to`."""
        return self.language(of_schema(tag.schema), to, tag.place)

    def language(self, make: Callable[[float], Language], to: int, place: str, without: Sequence[str] = ()) -> int:
        """States that read a string of a language, in which no text of `without` stands, and go on at `to`."""
        try:
            made = make(self._left())
            if self._count + made.states > _MOST_STATES:
                raise ValueError(_TOO_MANY)
            table, accepting, start = made.table()
        except ValueError as error:
            raise RefusedAt(place, str(error)) from None
        if without:
            table, accepting, start = self._less(table, accepting, start, without)
        first = self.add(table)
        for state in np.flatnonzero(accepting).tolist():
            self.free(first + state, to)
        return first + start

    def _less(self, table: np.ndarray, accepting: np.ndarray, start: int, without: Sequence[str]) -> tuple[np.ndarray, np.ndarray, int]:
        """An automaton without the strings that contain one of some texts."""
        read, found = matcher(without)
        rows: list[np.ndarray] = []
        numbers, queue = {(start, 0): 0}, [(start, 0)]
        for state, node in queue:
            self._left()
            row = np.full(256, _DEAD, np.uint32)
            for byte in np.flatnonzero(table[state] != _DEAD).tolist():
                after = (int(table[state, byte]), int(read[node, byte]))
                if found[after[1]]:
                    continue
                if after not in numbers:
                    numbers[after] = len(numbers)
                    queue.append(after)
                row[byte] = numbers[after]
            if len(rows) == _MOST_STATES:
                raise ValueError(f"it needs more than {_MOST_STATES} states over bytes: leave excludes out")
            rows.append(row)
        return np.stack(rows), np.array([accepting[state] for state, _ in queue], np.uint8), 0

    def characters(self, begun: Mapping[str, Sequence[int]], without: Sequence[str], to: int | None, *, most: int | None = None) -> int:
        """States that read UTF-8 without the texts of `without`, and go on at `to` between any two characters.

        begun  what follows each text: behind its first place there is only this. Of two that end together the longer counts
        most   characters
        """
        read, ends = matcher([*begun, *without])
        excluded = [any(text in without for text in texts) for texts in ends]
        taken = [max((text for text in texts if text in begun), key=len, default=None) for texts in ends]
        begin = (0, 0, 0)  # of the matcher, inside a character, characters so far
        rows: list[np.ndarray] = []
        on: list[int] = []
        numbers, queue = {begin: 0}, [begin]
        counts = np.r_[np.ones(128, int), np.zeros(64, int), np.ones(64, int)]  # bytes that begin a character
        for at, (node, inside, count) in enumerate(queue):
            self._left()
            row = np.full(256, _DEAD, np.uint32)
            rows.append(row)
            if inside == 0:
                on.append(at)
            if taken[node] is not None:
                continue
            for byte in np.flatnonzero(_UTF8[inside] >= 0).tolist():
                after = (int(read[node, byte]), int(_UTF8[inside, byte]), count + int(counts[byte]) if most is not None else 0)
                if excluded[after[0]] or (most is not None and after[2] > most):
                    continue
                if after not in numbers:
                    numbers[after] = len(numbers)
                    queue.append(after)
                row[byte] = numbers[after]
            if len(rows) == _MOST_STATES:
                raise ValueError(f"it needs more than {_MOST_STATES} states over bytes: give a smaller max_chars")
        first = self.add(np.stack(rows))
        for at in on:
            text = taken[queue[at][0]]
            if text is not None:
                for state in begun[text]:
                    self.free(first + at, state)
            elif to is not None:
                self.free(first + at, to)
        return first

    def text_without(self, triggers: Sequence[str], to: int | None, *, accepting: bool) -> int:
        """States that read any bytes without a trigger (Aho, Corasick), and go on at `to` everywhere."""
        table, found = matcher(triggers)
        table[np.isin(table, np.flatnonzero([bool(texts) for texts in found]))] = _DEAD
        first = self.add(table, range(len(table)) if accepting else [])
        if to is not None:
            for state in range(len(table)):
                self.free(first + state, to)
        return first

    def text_after_no(self, triggers: Sequence[str]) -> int:
        """States that read any bytes that do not begin with a trigger."""
        nodes, rows = _trie(triggers)
        table = np.full((len(nodes) + 1, 256), len(nodes), np.uint32)  # the last state reads anything
        for node, row in enumerate(rows):
            table[node, list(row)] = list(row.values())
        table[np.isin(table, [i for i, text in enumerate(nodes) if text in {t.encode() for t in triggers}])] = _DEAD
        return self.add(table, range(len(table)))

    def _closure(self, state: int) -> frozenset[int]:
        found, queue = {state}, [state]
        for state in queue:
            more = [to for to in self._free.get(state, ()) if to not in found]
            found.update(more)
            queue += more
        return frozenset(found)

    def determinised(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """The deterministic automaton that begins in its state 0."""
        moves = np.concatenate(self._rows)
        closures: dict[int, frozenset[int]] = {}

        def closed(state: int) -> frozenset[int]:
            if state not in closures:
                self._left()
                closures[state] = self._closure(state)
            return closures[state]

        numbers = {closed(start): 0}
        queue = [closed(start)]
        rows = []
        for states in queue:
            self._left()
            columns = moves[sorted(states)]
            columns = columns[(columns >= 0).any(1)]
            row = np.full(256, _DEAD, np.uint32)
            if len(columns) == 1:
                patterns, which = np.unique(columns[0], return_inverse=True)
                patterns = patterns[:, None]
            else:
                patterns, which = np.unique(columns.T, axis=0, return_inverse=True)
            for i, pattern in enumerate(patterns):
                after = frozenset().union(*(closed(int(t)) for t in pattern if t >= 0))
                if not after:
                    continue
                if after not in numbers:
                    if len(numbers) == _MOST_STATES:
                        raise ValueError(_TOO_MANY)
                    numbers[after] = len(numbers)
                    queue.append(after)
                row[which.reshape(-1) == i] = numbers[after]
            rows.append(row)
        return np.stack(rows), np.array([not self._accepting.isdisjoint(states) for states in queue], np.uint8)


def of_schema(schema: Any) -> Callable[[float], Language]:
    """Compiles a schema within some seconds."""
    return lambda seconds: Language.json_schema(json.dumps(schema), milliseconds=int(1000 * seconds))


def _trie(texts: Sequence[str]) -> tuple[list[bytes], list[dict[int, int]]]:
    """The beginnings of some texts, and which one each byte makes of each."""
    nodes, rows = [b""], [dict[int, int]()]
    for text in texts:
        node = 0
        for byte in text.encode():
            if byte not in rows[node]:
                rows[node][byte] = len(nodes)
                nodes.append(nodes[node] + bytes([byte]))
                rows.append({})
            node = rows[node][byte]
    return nodes, rows


def matcher(texts: Sequence[str]) -> tuple[np.ndarray, list[list[str]]]:
    """Where each byte leads from each beginning of some texts (Aho, Corasick), and the texts that end there."""
    nodes, rows = _trie(texts)
    fail, queue = {0: 0}, [0]
    for node in queue:
        for byte, child in rows[node].items():
            fail[child] = rows[fail[node]].get(byte, 0) if node else 0
            queue.append(child)
        rows[node] = {**rows[fail[node]], **rows[node]}
    table = np.zeros((len(nodes), 256), np.uint32)
    for node, row in enumerate(rows):
        table[node, list(row)] = list(row.values())
    own = {text.encode(): text for text in texts}
    ends: list[list[str]] = [[] for _ in nodes]
    for node in queue:  # shorter ones first
        if node:
            ends[node] = ends[fail[node]] + ([own[nodes[node]]] if nodes[node] in own else [])
    return table, ends


def _utf8() -> np.ndarray:
    """Moves between places inside a character: 0 is between two of them, -1 is no UTF-8."""
    table = np.full((8, 256), -1, np.int8)
    table[0, :0x80] = 0
    for lead, last, to in ((0xC2, 0xDF, 1), (0xE0, 0xEF, 2), (0xF0, 0xF4, 3), (0xE0, 0xE0, 4), (0xED, 0xED, 5), (0xF0, 0xF0, 6), (0xF4, 0xF4, 7)):
        table[0, lead : last + 1] = to
    for place, low, high, to in ((1, 0x80, 0xBF, 0), (2, 0x80, 0xBF, 1), (3, 0x80, 0xBF, 2), (4, 0xA0, 0xBF, 1), (5, 0x80, 0x9F, 1),
                                 (6, 0x90, 0xBF, 2), (7, 0x80, 0x8F, 2)):
        table[place, low : high + 1] = to
    return table


_UTF8 = _utf8()
