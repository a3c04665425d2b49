# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answers that obey a JSON Schema, a regular expression, a grammar or a list of choices, in any order of commits.

    from unmask import constraints

    words = constraints.vocabulary(tokenizer)            # once a model
    person = constraints.json_schema(Person.model_json_schema(), words)
    session.start(0, tokens, prompt_length=n, constraint=person)

Every answer that ends by itself is then a string of the language, padded with EOS tokens, whatever the
policy and the logits. Language compiles texts to automata, in this package; the functions here lift what it makes to the
tokens of a vocabulary.
"""
from __future__ import annotations

import collections
import json
import threading
import weakref
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from . import _token_bytes
from ._unmask import Constraint, Field, Language, Vocabulary

__all__ = ["Constraint", "Field", "Language", "Vocabulary", "choice", "from_transitions", "grammar", "json_object", "json_schema",
           "read", "regex", "save", "structural_tag", "vocabulary"]

DEAD = 0xFFFFFFFF
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
    mask_token   and eos_token: by default the tokens of the tokenizer
    also_eos     tokens other than eos_token that end an answer, such as the end of a chat turn

    The vocabulary of a tokenizer is kept as long as the tokenizer.
    """
    def known(name: str, given: int | None) -> int | None:
        return given if given is not None else getattr(tokenizer, name + "_id", None)

    if isinstance(tokenizer, str):
        raise ValueError(f"tokenizer must be a tokenizer, got {tokenizer!r}: load it, such as with AutoTokenizer.from_pretrained()")
    if tokenizer is None and token_bytes is None:
        raise ValueError("tokenizer or token_bytes must be given")
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
    search: bool = False,
    states: int = 65536,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
) -> Constraint:
    """Strings that match a regular expression from their beginning to their end; with `search`, that have a match in them.

    The syntax is that of ECMA-262 with flag u, as JSON Schema has it: `\\d` is 0 to 9, and back
    references are refused, with their column. `states` limits the automaton, `timeout` the seconds of its
    compilation and `memory` its bytes, about, because an expression of a request may take any amount; other threads
    run meanwhile. Results are kept, the latest 16.
    """
    if not isinstance(expression, str):
        raise TypeError(f"expression must be str, got {type(expression).__name__}")
    return _lifted("regex", expression, vocabulary, states, _limits(timeout, memory), {"search": search})


def json_schema(
    schema: str | bool | dict[str, Any] | type,
    vocabulary: Vocabulary,
    *,
    whitespace: str | None = None,
    any_depth: int = 2,
    recursion: int = 3,
    longest: int = 0,
    closed_objects: bool = True,
    unicode_escapes: bool = False,
    integer_fractions: bool = False,
    refuse_unknown_formats: bool = False,
    states: int = 65536,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
) -> Constraint:
    """JSON that obeys every keyword of a schema, of draft 2020-12 or 7: a dict, its text, or a class of pydantic.

    A keyword that is not kept is refused with its place (ValueError). Properties are in the order of the schema.

    whitespace              an expression for the space between elements, `[ ]?` by default. A layout that the model would
                            not write itself keeps the syntax and may lose the contents, so allow what the model writes
    any_depth               how deep a value is nested that the schema says nothing about
    recursion               how often a schema is entered in itself
    longest                 bytes of the longest answer, if they are known: a maxLength that none reaches costs nothing
    closed_objects          only names of `properties`, unless the schema allows others
    unicode_escapes         also characters below U+0020 without a short escape, as \\u001f
    integer_fractions       1.0 is also an integer
    refuse_unknown_formats  a format that is not known is an error, and not an annotation

    `states`, `timeout` and `memory` are those of regex(). A length of strings counts every character, with nine states
    for each: leave a long maxLength out, or give `longest`.
    """
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    options = {
        "any_depth": any_depth, "recursion": recursion, "longest": longest, "closed_objects": closed_objects,
        "unicode_escapes": unicode_escapes, "integer_fractions": integer_fractions,
        "refuse_unknown_formats": refuse_unknown_formats, **({} if whitespace is None else {"whitespace": whitespace}),
    }
    text = schema if isinstance(schema, str) else _json("schema", schema)
    return _lifted("json_schema", text, vocabulary, states, _limits(timeout, memory), options)


def grammar(
    text: str,
    vocabulary: Vocabulary,
    *,
    root: str = "root",
    recursion: int = 3,
    states: int = 65536,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
) -> Constraint:
    """Texts of a grammar in the notation of llama.cpp (GBNF), which is also the EBNF of xgrammar.

    A grammar that is not kept is refused with its line and column (ValueError).

    root       the rule that whole texts obey
    recursion  how often a rule is entered in itself; one that leads to itself at its end only repeats without a bound

    `states`, `timeout` and `memory` are those of regex(). Each level of recursion takes about twice the states.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be str, got {type(text).__name__}")
    return _lifted("grammar", text, vocabulary, states, _limits(timeout, memory), {"root": root, "recursion": recursion})


def structural_tag(
    tag: str | dict[str, Any],
    vocabulary: Vocabulary,
    *,
    states: int = 65536,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
    **options: Any,
) -> Constraint:
    """Texts between tags that obey schemas, with free text around them: a `structural_tag` of SGLang, vLLM or xgrammar.

    A dict or its text, in either form: {"structures": [{"begin", "schema", "end"}], "triggers": []}, or
    {"format": {"type": ...}}. What is not kept is refused with its place (ValueError). `options` are those of
    json_schema(), from whitespace to refuse_unknown_formats; `states`, `timeout` and `memory` are those of regex().
    """
    text = tag if isinstance(tag, str) else _json("tag", tag)
    return _lifted("structural_tag", text, vocabulary, states, _limits(timeout, memory), options)


def json_object(
    vocabulary: Vocabulary,
    *,
    depth: int = 2,
    whitespace: str = r"[ ]?",
    states: int = 65536,
    timeout: float | None = 10.0,
    memory: int = 1 << 30,
) -> Constraint:
    """Any JSON object whose objects and arrays are nested at most `depth` deep.

    JSON of any depth is not a regular language; each level takes twice the states.
    """
    if not isinstance(depth, int) or depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}")
    return _lifted("json_object", '{"type": "object"}', vocabulary, states, _limits(timeout, memory),
                   {"any_depth": depth, "whitespace": whitespace})


def choice(choices: Sequence[str], vocabulary: Vocabulary, *, states: int = 65536) -> Constraint:
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
    states: int = 65536,
) -> Constraint:
    """A language given by an automaton over tokens: {state: {token: next state}}, with any numbers as states.

    `accepting` are the states in which a string may end. EOS tokens then follow by themselves: transitions of
    EOS tokens are left out. An Index of outlines-core has get_transitions(), get_initial_state() and
    get_final_states(); up to 0.2.14 it leaves out a token after which a whole string is not whole any more
    (the second a of abab in (ab)+).
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


KINDS: dict[str, Callable[..., Constraint]] = {
    "json": json_schema,
    "regex": regex,
    "choice": choice,
    "json_object": lambda _, words, **options: json_object(words, **options),
    "grammar": grammar,
    "structural_tag": structural_tag,
}
"""What makes the constraint of a value and a vocabulary, by the names of vLLM's structured outputs."""


def save(constraint: Constraint, path: Any) -> None:
    """Writes the automaton over bytes to a file: `constraint::read(path, words)` of C++ reads it."""
    constraint.save(str(path))


def read(path: Any, vocabulary: Vocabulary, *, states: int = 65536) -> Constraint:
    """Reads a file of save()."""
    return Constraint.read(str(path), vocabulary, states=states)


_MOST_KEPT = 16
_kept: collections.OrderedDict[Any, tuple[Constraint, Vocabulary]] = collections.OrderedDict()
_lock = threading.Lock()


def _limits(timeout: float | None, memory: int) -> dict[str, Any]:
    """The limits of a compilation: seconds, and about how many bytes."""
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout must be seconds, at least 0, or None, got {timeout}")
    if memory < 0:
        raise ValueError(f"memory must be bytes, at least 0, got {memory}")
    most = (1 << 32) - 1
    return {"milliseconds": most if timeout is None else int(min(1000 * timeout, most)), "positions": min(memory // 128, most)}


def _json(name: str, given: Any) -> str:
    """The text of a value."""
    try:
        return json.dumps(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON: {error}") from None


def _lifted(call: str, text: str, words: Vocabulary, states: int, limits: Mapping[str, Any], options: Mapping[str, Any]) -> Constraint:
    """The constraint of a text; `options` are those of Language."""
    if not isinstance(words, Vocabulary):
        raise TypeError(f"vocabulary must be Vocabulary, got {type(words).__name__}: unmask.constraints.vocabulary()")
    key = (call, text, tuple(options.items()), id(words), states)
    with _lock:
        if key in _kept and _kept[key][1] is words:
            _kept.move_to_end(key)
            return _kept[key][0]
    compiler = Language.json_schema if call == "json_object" else getattr(Language, call)
    try:
        made = compiler(text, **options, **limits).constraint(words, states=states)
    except ValueError as error:
        raise ValueError(f"{call}: {error}") from None
    with _lock:
        _kept[key] = (made, words)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return made
