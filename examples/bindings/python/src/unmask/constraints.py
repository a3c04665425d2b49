# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answers that obey a JSON Schema, a regular expression or a list of choices, in any order of commits.

    from unmask import constraints                       # pip install "unmask[constraints]"

    words = constraints.vocabulary(tokenizer)            # once a model
    person = constraints.json_schema(Person.model_json_schema(), words)
    session.start(0, tokens, prompt_length=n, constraint=person)

Every answer that ends by itself is then a string of the language, padded with EOS tokens, whatever the
policy and the logits. outlines-core compiles expressions and schemas; choice() and the automata of
unmask.Constraint need nothing.
"""
from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
import threading
import weakref
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from . import _compile, _schema, _token_bytes
from ._unmask import Constraint, Field, Vocabulary

__all__ = ["Constraint", "Field", "Vocabulary", "choice", "from_transitions", "json_object", "json_schema", "read", "regex", "save",
           "vocabulary"]

DEAD = _compile.DEAD
"""The state after a byte that no string has there, in the tables of unmask.Constraint."""

_of_tokenizers: Any = weakref.WeakKeyDictionary()


def vocabulary(
    tokenizer: Any = None,
    *,
    token_bytes: Sequence[bytes] | None = None,
    vocab: int | None = None,
    mask_token: int | None = None,
    eos_token: int | None = None,
    also_eos: Iterable[int] = (),
) -> Vocabulary:
    """The bytes of each token of a model, from its tokenizer or from `token_bytes`.

    vocab        valid columns of the model's logits; the tokenizer's size by default. Tokens that the
                 tokenizer does not have are in no string
    mask_token   and eos_token: those of the tokenizer by default
    also_eos     tokens besides eos_token that end an answer, such as the end of a chat turn

    The vocabulary of a tokenizer is kept as long as the tokenizer.
    """
    def known(name: str, given: int | None) -> int | None:
        return given if given is not None else getattr(tokenizer, name + "_id", None)

    mask_token, eos_token = known("mask_token", mask_token), known("eos_token", eos_token)
    if mask_token is None:
        raise ValueError("mask_token must be given: the tokenizer has no mask_token_id")
    if eos_token == mask_token:
        eos_token = None
    key = (vocab, mask_token, eos_token, tuple(also_eos))
    try:
        kept = _of_tokenizers.setdefault(tokenizer, {}) if token_bytes is None else {}
    except TypeError:  # one that has no weak references
        kept = {}
    if key not in kept:
        if token_bytes is None:
            if tokenizer is None:
                raise ValueError("tokenizer or token_bytes must be given")
            token_bytes = _token_bytes.token_bytes(tokenizer, vocab)
        size = len(token_bytes) if vocab is None else vocab
        kept[key] = Vocabulary(
            token_bytes, vocab=size, mask_token=mask_token, eos_token=eos_token, also_eos=list(also_eos)
        )
    return kept[key]


def regex(
    expression: str,
    vocabulary: Vocabulary,
    *,
    states: int = 4096,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
) -> Constraint:
    """Strings that match a regular expression from their beginning to their end.

    The syntax is that of the Rust crate regex-automata: no look-around, no back references, and `\\d` is a
    digit of any script. A `^` at the beginning and a `$` at the end change nothing, and may stand nowhere else.
    `states` limits the automaton. The expression is compiled in a process of its own
    that takes at most `timeout` seconds and `memory` bytes, because a request's may take any amount; with
    None it is compiled in this one. Results are kept, the latest 16.
    """
    if not isinstance(expression, str):
        raise TypeError(f"expression must be str, got {type(expression).__name__}")
    return _lifted("regex", expression, vocabulary, states, timeout, memory)


def json_schema(
    schema: str | dict[str, Any] | type,
    vocabulary: Vocabulary,
    *,
    whitespace: str | None = None,
    states: int = 4096,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
) -> Constraint:
    """JSON that obeys every keyword of a schema: a dict, its text, or a class of pydantic.

    A keyword that is not kept is refused with its place (ValueError); the page on constraints lists those that are.
    Properties stand in the order of the schema. `whitespace` is an expression for the space between
    elements, `[ ]?` by default. A layout that the model would not write itself keeps the syntax and may
    lose the contents, so allow what the model writes. A length of strings in the hundreds counts every
    character and needs as many states: leave maxLength out. A reference is followed within itself three times.
    """
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return _lifted("json_schema", (text, whitespace), vocabulary, states, timeout, memory)


def json_object(
    vocabulary: Vocabulary,
    *,
    depth: int = 2,
    whitespace: str = r"[ ]?",
    states: int = 4096,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
) -> Constraint:
    """Any JSON object whose objects and arrays are nested at most `depth` deep, 1 to 3.

    JSON of any depth is no regular language; each level takes four times the states.
    """
    if not isinstance(depth, int) or not 1 <= depth <= 3:
        raise ValueError(f"depth must be in [1, 3], got {depth}")
    return _lifted("json_object", _schema.any_json(depth, whitespace)["object"], vocabulary, states, timeout, memory)


def choice(choices: Sequence[str], vocabulary: Vocabulary, *, states: int = 4096) -> Constraint:
    """One of some strings."""
    if isinstance(choices, (str, bytes)) or not choices:
        raise ValueError(f"choices must be a list of strings, at least one, got {choices!r}")
    table: list[dict[int, int]] = [{}]
    ends = set()
    for text in choices:
        if not isinstance(text, str):
            raise TypeError(f"choices must be str, got {type(text).__name__}")
        state = 0
        for byte in text.encode():
            if byte not in table[state]:
                table[state][byte] = len(table)
                table.append({})
            state = table[state][byte]
        ends.add(state)
    next_state = np.full((len(table), 256), DEAD, np.uint32)
    for state, by_byte in enumerate(table):
        for byte, after in by_byte.items():
            next_state[state, byte] = after
    accepting = np.array([s in ends for s in range(len(table))], np.uint8)
    return Constraint(next_state, accepting, vocabulary, states=states)


def from_transitions(
    transitions: Mapping[int, Mapping[int, int]],
    vocabulary: Vocabulary,
    *,
    start: int,
    accepting: Iterable[int],
    states: int = 4096,
) -> Constraint:
    """A language given by an automaton over tokens: {state: {token: next state}}, with any numbers as states.

    `accepting` are the states in which a string may end. EOS tokens then follow by themselves: transitions of
    EOS tokens are left out. An Index of outlines-core has get_transitions(), get_initial_state() and
    get_final_states(); up to 0.2.14 it leaves out a token after which a whole string is not whole any more
    (the second a of abab in (ab)+), which regex() does not.
    """
    ends = set(accepting)
    named = {start, *ends, *transitions, *(n for by in transitions.values() for n in by.values())}
    names = {state: i for i, state in enumerate(sorted(named))}
    edges = [
        (names[q], token, names[n])
        for q, by in transitions.items()
        for token, n in by.items()
        if token != vocabulary.eos_token
    ]
    table = np.array(edges, np.int64).reshape(-1, 3)
    if len(table) and (table.min() < 0 or table[:, 1].max() >= vocabulary.vocab):
        raise ValueError(f"tokens of transitions must be in [0, {vocabulary.vocab})")
    return Constraint.from_transitions(
        table.astype(np.uint32),
        len(names),
        np.array([s in ends for s in sorted(named)], np.uint8),
        vocabulary,
        start=names[start],
        states=states,
    )


def save(constraint: Constraint, path: Any) -> None:
    """Writes the automaton over bytes to a file: `constraint::read(path, words)` of C++ reads it."""
    constraint.save(str(path))


def read(path: Any, vocabulary: Vocabulary, *, states: int = 4096) -> Constraint:
    """Reads a file of save()."""
    return Constraint.read(str(path), vocabulary, states=states)


_MOST_KEPT = 16
_kept: collections.OrderedDict[Any, tuple[Constraint, Vocabulary]] = collections.OrderedDict()
_lock = threading.Lock()


def _core() -> Any:
    try:
        import outlines_core
        import outlines_core.json_schema
    except ImportError:
        raise ImportError('unmask.constraints needs outlines-core: pip install "unmask[constraints]"') from None
    return outlines_core


def _lifted(
    call: str, source: str | tuple[str, str | None], words: Vocabulary, states: int, timeout: float | None, memory: int
) -> Constraint:
    """The constraint of an expression, or of a schema and its whitespace."""
    if not isinstance(words, Vocabulary):
        raise TypeError(f"vocabulary must be Vocabulary, got {type(words).__name__}: unmask.constraints.vocabulary()")
    key = (source, id(words), states)
    with _lock:
        if key in _kept and _kept[key][1] is words:
            _kept.move_to_end(key)
            return _kept[key][0]
    table, accepting, start = _compiled(call, source, timeout, memory)
    made = Constraint(table, accepting, words, start=start, states=states)
    with _lock:
        _kept[key] = (made, words)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return made


def _compiled(
    call: str, source: str | tuple[str, str | None], timeout: float | None, memory: int
) -> tuple[np.ndarray, np.ndarray, int]:
    _core()
    if timeout is None:
        try:
            out = _compile.table_of(source) if isinstance(source, str) else _compile.table_of_schema(*source)
        except Exception as error:
            raise ValueError(f"{call}: {error}") from None
    else:
        out = _compiled_elsewhere(call, source, timeout, memory)
    count, start = (int.from_bytes(out[i : i + 4], "little") for i in (0, 4))
    accepting = np.frombuffer(out, np.uint8, count, 8)
    table = np.frombuffer(out[8 + count :], "<u4").reshape(count, 256)
    return np.ascontiguousarray(table, np.uint32), accepting.copy(), start


def _compiled_elsewhere(call: str, source: str | tuple[str, str | None], timeout: float, memory: int) -> bytes:
    path = [str(pathlib.Path(_core().__file__).parent.parent), *filter(None, sys.path)]
    kind, given = ("regex", source) if isinstance(source, str) else ("schema", json.dumps(source))
    command = [sys.executable, "-c",
               f"import sys, runpy; sys.path[:] = {path!r}; sys.argv = ['', '{memory}', '{kind}']; "
               f"runpy.run_path({_compile.__file__!r}, run_name='__main__')"]
    try:
        done = subprocess.run(command, input=given.encode(), capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{call}: the automaton was not made within timeout = {timeout} s: simplify the {kind}") from None
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        reason = why[-1] if done.returncode == 3 and why else f"it takes more than memory = {memory} bytes, or fails"
        raise ValueError(f"{call}: {reason}")
    return done.stdout
