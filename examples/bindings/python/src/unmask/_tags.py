# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Languages of tagged JSON with free text around it: calls of tools, and structural_tag of SGLang and vLLM."""
from __future__ import annotations

import dataclasses
import json
import time
from typing import Any, Iterable, Sequence

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
    made = _Automaton()
    done = made.state(accepting=True)
    after = made.state(accepting=False) if between is not None else done
    made.free(after, made.chain(closing, done))
    starts = [made.chain(tag.begin, made.schema(tag, made.chain(tag.end, after), _left(timeout))) for tag in tags]
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


def structural_tag(given: Any, words: Vocabulary, *, states: int = 4096) -> Constraint:
    """The language of `structural_tag`, an object or its text: {"structures": [{"begin", "schema", "end"}], "triggers": []}.

    Text, in which no trigger stands, and structures in any number and order.
    """
    spec = json.loads(given) if isinstance(given, str) else given
    structures, triggers = (spec.get(name) if isinstance(spec, dict) else None for name in ("structures", "triggers"))
    if not isinstance(structures, list) or not structures or not isinstance(triggers, list):
        raise ValueError("structural_tag must be an object with structures and triggers, lists that are not empty; "
                         f"write other forms this way, got {given!r:.200}")
    if not triggers or not all(isinstance(t, str) and t for t in triggers):
        raise ValueError(f"structural_tag: triggers must be texts, at least one, none of them empty, got {triggers!r:.200}")
    tags = []
    for i, structure in enumerate(structures):
        begin, schema, end = (structure.get(n) if isinstance(structure, dict) else None for n in ("begin", "schema", "end"))
        if not isinstance(begin, str) or not isinstance(end, str) or not isinstance(schema, (dict, bool)):
            raise ValueError(f"structural_tag: structures[{i}] must have the texts begin and end, and a schema, "
                             f"got {structure!r:.200}")
        tags.append(Tag(begin, schema, end, f"structures[{i}].schema"))
    try:
        return tagged(tags, words, triggers=triggers, states=states)
    except RefusedAt as error:
        raise ValueError(f"structural_tag: {error.place}: {error}") from None


def _left(timeout: float) -> Any:
    end = time.monotonic() + timeout
    return lambda: end - time.monotonic()


class _Automaton:
    """States over bytes, each with a move for each byte, moves of no byte, and whether a string may end."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []  # blocks of states
        self._count = 0
        self._free: dict[int, list[int]] = {}
        self._accepting: set[int] = set()

    def _add(self, rows: np.ndarray, accepting: Iterable[int] = ()) -> int:
        """Adds states whose moves count from the first of them; returns that one."""
        first = self._count
        self._rows.append(np.where(rows == _DEAD, np.int64(-1), rows.astype(np.int64) + first))
        self._count += len(rows)
        self._accepting |= {first + state for state in accepting}
        return first

    def state(self, *, accepting: bool) -> int:
        return self._add(np.full((1, 256), _DEAD, np.uint32), [0] if accepting else [])

    def free(self, state: int, to: int) -> None:
        self._free.setdefault(state, []).append(to)

    def chain(self, text: str, to: int) -> int:
        """States that read a text and go on at `to`."""
        data = text.encode()
        rows = np.full((len(data) + 1, 256), _DEAD, np.uint32)
        rows[np.arange(len(data)), list(data)] = np.arange(1, len(data) + 1)
        first = self._add(rows)
        self.free(first + len(data), to)
        return first

    def schema(self, tag: Tag, to: int, left: Any) -> int:
        """States that read JSON of a schema and go on at `to`."""
        try:
            if (seconds := left()) <= 0:
                raise ValueError("the automaton was not made in time: give fewer or smaller schemas")
            made = Language.json_schema(json.dumps(tag.schema), milliseconds=int(1000 * seconds))
            if self._count + made.states > _MOST_STATES:
                raise ValueError(_TOO_MANY)
            table, accepting, start = made.table()
        except ValueError as error:
            raise RefusedAt(tag.place, str(error)) from None
        first = self._add(table)
        for state in np.flatnonzero(accepting).tolist():
            self.free(first + state, to)
        return first + start

    def text_without(self, triggers: Sequence[str], to: int | None, *, accepting: bool) -> int:
        """States that read any bytes without a trigger (Aho, Corasick), and go on at `to` everywhere."""
        nodes, rows = _trie(triggers)
        fail, queue = {0: 0}, [0]
        for node in queue:
            for byte, child in rows[node].items():
                fail[child] = rows[fail[node]].get(byte, 0) if node else 0
                queue.append(child)
            rows[node] = {**rows[fail[node]], **rows[node]}
        table = np.zeros((len(nodes), 256), np.uint32)
        for node, row in enumerate(rows):
            table[node, list(row)] = list(row.values())
        whole = [i for i, text in enumerate(nodes) if any(text.endswith(t.encode()) for t in triggers)]
        table[np.isin(table, whole)] = _DEAD
        first = self._add(table, range(len(table)) if accepting else [])
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
        return self._add(table, range(len(table)))

    def _closure(self, states: Iterable[int]) -> list[int]:
        found = list(dict.fromkeys(states))
        for state in found:
            found += [to for to in self._free.get(state, ()) if to not in found]
        return found

    def determinised(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """The deterministic automaton that begins in its state 0."""
        moves = np.concatenate(self._rows)
        closures: dict[int, frozenset[int]] = {}

        def closed(state: int) -> frozenset[int]:
            if state not in closures:
                closures[state] = frozenset(self._closure([state]))
            return closures[state]

        numbers = {closed(start): 0}
        queue = [closed(start)]
        rows = []
        for states in queue:
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
