# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Languages of `structural_tag`, as xgrammar 0.2 defines it, which SGLang and vLLM take and make of tools."""
from __future__ import annotations

import collections
import json
import threading
from typing import Any, Callable, Sequence

from ._refused import RefusedAt
from ._tags import Automaton, of_schema
from ._unmask import Constraint, Language, Vocabulary

_DEPTH = 64
_KEPT = 16
_kept: collections.OrderedDict[Any, tuple[Constraint, Vocabulary]] = collections.OrderedDict()
_lock = threading.Lock()

_NO_TOKENS = "a language is over bytes here: write the text of the token, if it has one, in a format of texts"
_REFUSED = {
    "token": _NO_TOKENS,
    "exclude_token": _NO_TOKENS,
    "any_tokens": _NO_TOKENS,
    "token_triggered_tags": _NO_TOKENS,
    "token_dispatch": _NO_TOKENS,
    "grammar": "a grammar may recurse: write it as regex, json_schema, or by the other formats",
    "qwen_xml_parameter": "arguments are JSON here: use json_schema",
}


def structural_tag(given: Any, words: Vocabulary, *, states: int = 4096, timeout: float = 10.0) -> Constraint:
    """The language of `structural_tag`, an object or its text, in either form:

    {"structures": [{"begin", "schema", "end"}], "triggers": [], "at_least_one": false}
        text in which no trigger stands, and structures in any number and order; from its beginning, with at_least_one
    {"format": {"type": ...}}
        a format of xgrammar. Refused: those of tokens, `grammar`, styles other than JSON, max_tokens

    Properties stand in the order of the schema, with any_order too. In JSON whose format has `excludes` these texts stand
    nowhere. Results are kept, the latest 16.

    Errors: ValueError with the place, for what is not kept, more than `states` states, or after `timeout` seconds.
    """
    try:
        spec = json.loads(given) if isinstance(given, str) else given
        key = (json.dumps(spec), id(words), states)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"structural_tag must be JSON: {error}") from None
    with _lock:
        if key in _kept and _kept[key][1] is words:
            _kept.move_to_end(key)
            return _kept[key][0]
    newer = isinstance(spec, dict) and "format" in spec
    automaton = Automaton(timeout)
    try:
        made = _Formats(automaton, older=not newer)
        form = _members(spec, "", {"type": "structural_tag", "format": None})["format"] if newer else _of_structures(spec)
        table, accepting = automaton.determinised(made.start_of(form, "format" if newer else "", automaton.state(accepting=True)))
    except RefusedAt as error:
        at = error.place.removeprefix(".")
        raise ValueError(f"structural_tag: {at}: {error}" if at else f"structural_tag {error}") from None
    except ValueError as error:
        raise ValueError(f"structural_tag: {error}") from None
    language = Constraint(table, accepting, words, states=states)
    with _lock:
        _kept[key] = (language, words)
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return language


def _of_structures(spec: Any) -> dict[str, Any]:
    """The older form as a format."""
    structures, triggers = (spec.get(name) if isinstance(spec, dict) else None for name in ("structures", "triggers"))
    if not isinstance(structures, list) or not structures or not isinstance(triggers, list):
        raise RefusedAt("", f"must be an object with format, or with structures and triggers, got {spec!r:.200}")
    given = _members(spec, "", {"type": "structural_tag", "structures": None, "triggers": None, "at_least_one": False})
    tags = []
    for i, structure in enumerate(structures):
        begin, end = (structure.get(n) if isinstance(structure, dict) else None for n in ("begin", "end"))
        if not isinstance(begin, str) or not isinstance(end, str):
            raise RefusedAt(f"structures[{i}]", f"must have the texts begin and end, and a schema, got {structure!r:.200}")
        _members(structure, f"structures[{i}]", {"begin": None, "end": None, "schema": None})
        tags.append({"type": "tag", "begin": begin, "end": end, "content": {"type": "json_schema", "json_schema": structure.get("schema")}})
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags, "at_least_one": given["at_least_one"]}


def _members(given: dict[str, Any], place: str, known: dict[str, Any]) -> dict[str, Any]:
    """The members with defaults; null is a default."""
    if unknown := sorted(set(map(str, given)) - set(known)):
        raise RefusedAt(place, f"has no {unknown[0]}; there are {', '.join(known)}")
    if (kind := known.get("type")) and given.get("type", kind) != kind:
        raise RefusedAt(place, f"type must be {kind!r}, got {given['type']!r:.200}")
    return {**known, **{name: value for name, value in given.items() if value is not None}}


class _Formats:
    """Makes states of formats, from their ends."""

    def __init__(self, automaton: Automaton, *, older: bool) -> None:
        self._made, self._older = automaton, older
        self._kinds: dict[str, Callable[..., int]] = {
            "const_string": self._const_string, "json_schema": self._json_schema, "any_text": self._any_text, "regex": self._regex,
            "sequence": self._sequence, "or": self._or, "optional": self._optional, "plus": self._plus, "star": self._star,
            "repeat": self._repeat, "tag": self._tag, "triggered_tags": self._triggered_tags,
            "tags_with_separator": self._tags_with_separator, "dispatch": self._dispatch,
        }
        self._depth = 0

    def start_of(self, given: Any, place: str, to: int, until: Sequence[str] = ()) -> int:
        """The first of the states that read a format and go on at `to`. Free text has no text of `until`, the ends of the tag around it."""
        kind = given.get("type") if isinstance(given, dict) else None
        if isinstance(kind, str) and kind in _REFUSED:
            raise RefusedAt(place, f"type {kind} is not supported: {_REFUSED[kind]}")
        if not isinstance(kind, str) or kind not in self._kinds:
            raise RefusedAt(place, f"must be an object whose type is one of {', '.join(self._kinds)}, got {given!r:.200}")
        if self._depth == _DEPTH:
            raise RefusedAt(place, f"formats may be nested {_DEPTH} deep")
        self._depth += 1
        start = self._kinds[kind](given, place, to, until)
        self._depth -= 1
        return start

    def _const_string(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "const_string", "value": None})
        return self._made.chain(_text(of["value"], f"{place}.value"), to)

    def _json_schema(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "json_schema", "json_schema": {}, "style": "json", "any_order": False, "max_whitespace_cnt": None,
                                     "excludes": []})
        if of["style"] != "json":
            raise RefusedAt(f"{place}.style", f"must be json, got {of['style']!r:.200}")
        if not isinstance(of["json_schema"], (dict, bool)):
            raise RefusedAt(f"{place}.json_schema", f"must be an object or a boolean, got {of['json_schema']!r:.200}")
        _boolean(of["any_order"], f"{place}.any_order")
        if of["max_whitespace_cnt"] is not None:  # one blank at most is written in any case
            _whole(of["max_whitespace_cnt"], f"{place}.max_whitespace_cnt", 1)
        schema_place = self._schema_place(place)
        return self._made.language(of_schema(of["json_schema"]), to, schema_place, _texts(of["excludes"], f"{place}.excludes"))

    def _schema_place(self, place: str) -> str:
        if self._older:
            return place.removesuffix(".content").replace("tags[", "structures[") + ".schema"
        return f"{place}.json_schema"

    def _any_text(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "any_text", "excludes": [], "max_tokens": None, "max_chars": None})
        if of["max_tokens"] is not None:
            raise RefusedAt(f"{place}.max_tokens", f"is not supported: use max_chars, or the length of the answer, got {of['max_tokens']!r:.200}")
        if of["max_chars"] is not None:
            _whole(of["max_chars"], f"{place}.max_chars", 0)
        return self._made.characters({}, [*_texts(of["excludes"], f"{place}.excludes"), *until], to, most=of["max_chars"])

    def _regex(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "regex", "pattern": None})
        pattern = _text(of["pattern"], f"{place}.pattern")
        return self._made.language(lambda seconds: Language.regex(pattern, milliseconds=int(1000 * seconds)), to, f"{place}.pattern")

    def _sequence(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "sequence", "elements": None})
        elements = _list(of["elements"], f"{place}.elements")
        for i in reversed(range(len(elements))):
            to = self.start_of(elements[i], f"{place}.elements[{i}]", to, until)
        return to

    def _or(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "or", "elements": None})
        elements = _list(of["elements"], f"{place}.elements")
        return self._one_of([self.start_of(element, f"{place}.elements[{i}]", to, until) for i, element in enumerate(elements)])

    def _one_of(self, starts: Sequence[int]) -> int:
        start = self._made.state(accepting=False)
        for state in starts:
            self._made.free(start, state)
        return start

    def _content(self, given: Any, place: str, kind: str) -> Any:
        return _members(given, place, {"type": kind, "content": None})["content"]

    def _optional(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        return self._one_of([to, self.start_of(self._content(given, place, "optional"), f"{place}.content", to, until)])

    def _plus(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        after = self._one_of([to])
        start = self.start_of(self._content(given, place, "plus"), f"{place}.content", after, until)
        self._made.free(after, start)
        return start

    def _star(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        return self._one_of([to, self._plus({**given, "type": "plus"}, place, to, until)])

    def _repeat(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "repeat", "min": None, "max": None, "content": None})
        least, most = _whole(of["min"], f"{place}.min", 0), _whole(of["max"], f"{place}.max", -1)
        if -1 < most < least:
            raise RefusedAt(f"{place}.max", f"must be at least min, {least}, or -1, got {most}")
        inside = {"type": "star", "content": of["content"]}
        end, start = to, self._star(inside, place, to, until) if most < 0 else self._one_of([to])
        for i in range(max(least, most)):
            start = self.start_of(of["content"], f"{place}.content", start, until)
            if most - i > least:  # one of those that may be left out
                start = self._one_of([end, start])
        return start

    def _tag(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        begin, after = self._of_tag(given, place, to)
        return self._made.chain(begin, after)

    def _of_tag(self, given: Any, place: str, to: int) -> tuple[str, int]:
        """The text with which a tag begins, and the state behind it."""
        if not isinstance(given, dict):
            raise RefusedAt(place, f"must be an object of type tag, got {given!r:.200}")
        of = _members(given, place, {"type": "tag", "begin": None, "content": None, "end": None})
        for name in ("begin", "end"):
            if isinstance(of[name], dict):
                raise RefusedAt(f"{place}.{name}", f"must be a text: {_NO_TOKENS}, got {of[name]!r:.200}")
        ends = of["end"] if isinstance(of["end"], list) else [of["end"]]
        ends = [_text(end, f"{place}.end") for end in _list(ends, f"{place}.end")]
        inside = self._one_of([self._made.chain(end, to) for end in ends])
        return _text(of["begin"], f"{place}.begin"), self.start_of(of["content"], f"{place}.content", inside, [end for end in ends if end])

    def _triggered_tags(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "triggered_tags", "triggers": None, "tags": None, "at_least_one": False, "stop_after_first": False,
                                     "excludes": []})
        triggers = of["triggers"]
        if not isinstance(triggers, list) or not triggers or not all(isinstance(t, str) and t for t in triggers):
            raise RefusedAt(f"{place}.triggers", f"must be texts, at least one, none of them empty, got {triggers!r:.200}")
        once = _boolean(of["stop_after_first"], f"{place}.stop_after_first")
        after = to if once else self._made.state(accepting=False)
        begun: dict[str, list[int]] = {_text(trigger, f"{place}.triggers"): [] for trigger in triggers}
        starts = []
        for i, tag in enumerate(_list(of["tags"], f"{place}.tags")):
            begin, behind = self._of_tag(tag, f"{place}.tags[{i}]", after)
            own = [trigger for trigger in begun if begin.startswith(trigger)]
            if len(own) != 1:
                raise RefusedAt(f"{place}.tags[{i}].begin" if not self._older else f"structures[{i}].begin",
                                f"must begin with one of triggers {triggers!r:.200}, and not with two, got {begin!r:.200}")
            begun[own[0]].append(self._made.chain(begin[len(own[0]) :], behind))
            starts.append(self._made.chain(begin, behind))
        text = self._made.characters(begun, [*_texts(of["excludes"], f"{place}.excludes"), *until], to)
        if not once:
            self._made.free(after, text)
        return self._one_of(starts) if _boolean(of["at_least_one"], f"{place}.at_least_one") else text

    def _tags_with_separator(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "tags_with_separator", "tags": None, "separator": None, "at_least_one": False, "stop_after_first": False})
        after = self._one_of([to])
        starts = [self._tag(tag, f"{place}.tags[{i}]", after, ()) for i, tag in enumerate(_list(of["tags"], f"{place}.tags"))]
        first = self._one_of(starts)
        separator = _text(of["separator"], f"{place}.separator")
        if not _boolean(of["stop_after_first"], f"{place}.stop_after_first"):
            self._made.free(after, self._made.chain(separator, first))
        return first if _boolean(of["at_least_one"], f"{place}.at_least_one") else self._one_of([to, first])

    def _dispatch(self, given: Any, place: str, to: int, until: Sequence[str]) -> int:
        of = _members(given, place, {"type": "dispatch", "rules": None, "loop": True, "excludes": []})
        loop = _boolean(of["loop"], f"{place}.loop")
        after = self._made.state(accepting=False) if loop else to
        begun: dict[str, list[int]] = {}
        for i, rule in enumerate(_list(of["rules"], f"{place}.rules")):
            if not isinstance(rule, (list, tuple)) or len(rule) != 2 or not isinstance(rule[0], str) or not rule[0]:
                raise RefusedAt(f"{place}.rules[{i}]", f"must be a text that is not empty, and a format, got {rule!r:.200}")
            start = self.start_of(rule[1], f"{place}.rules[{i}][1]", after)
            begun.setdefault(_text(rule[0], f"{place}.rules[{i}][0]"), []).append(start)
        text = self._made.characters(begun, _texts(of["excludes"], f"{place}.excludes"), to)
        if loop:
            self._made.free(after, text)
        return text


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise RefusedAt(place, f"must be a text, got {value!r:.200}")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise RefusedAt(place, f"must be Unicode without lone surrogates, got {value!r:.200}")
    return value


def _texts(value: Any, place: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise RefusedAt(place, f"must be a list of texts, none of them empty, got {value!r:.200}")
    return [_text(text, place) for text in value]


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise RefusedAt(place, f"must be a list that is not empty, got {value!r:.200}")
    return value


def _boolean(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise RefusedAt(place, f"must be true or false, got {value!r:.200}")
    return value


def _whole(value: Any, place: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RefusedAt(place, f"must be an integer, at least {least}, got {value!r:.200}")
    return value
