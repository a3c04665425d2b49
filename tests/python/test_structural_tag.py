# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Languages of structural_tag, compared with xgrammar, which defines them."""
import json
import re
import time

import numpy as np
import pytest
from unmask import constraints
from unmask.constraints import structural_tag

WORDS = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
PIECES = ["<", ">", "<a", "<ab", "a", "b", "ab", "1", "2", ",", "]", "<a>", "</a>"]  # xgrammar also splits a text inside of é


def accepts(language, text):
    return language.accepts(list(text.encode()))


def made(kind, **given):
    return structural_tag({"type": "structural_tag", "format": {"type": kind, **given}}, WORDS)


class Formats:
    """Random formats, and random strings of their texts."""

    def __init__(self, seed):
        self._random, self.texts = np.random.default_rng(seed), [*PIECES, "é"]

    def text(self, *, empty=False):
        text = "".join(self._random.choice(PIECES, self._random.integers(0 if empty else 1, 3)))
        self.texts.append(text)
        return text

    def several(self, make):
        return [make() for _ in range(self._random.integers(1, 3))]

    def flag(self):
        return bool(self._random.integers(2))

    def tag(self, depth):
        ends = self.several(self.text)
        content = self.format(depth)
        made = {"type": "tag", "begin": self.text(), "content": content, "end": ends if len(ends) > 1 else ends[0]}
        if content["type"] == "const_string":
            self.texts.append(made["begin"] + content["value"] + ends[0])
        return made

    def format(self, depth):
        kinds = ["const_string", "any_text", "json_schema", "regex"]
        if depth:
            kinds += ["sequence", "or", "optional", "plus", "star", "repeat", "tag", "triggered_tags", "tags_with_separator", "dispatch"] * 2
        kind = str(self._random.choice(kinds))
        more = {
            "const_string": lambda: {"value": self.text(empty=True)},
            "any_text": lambda: {"excludes": self.several(self.text) if self.flag() else [], **({"max_chars": 2} if self.flag() else {})},
            "json_schema": lambda: {"json_schema": {"type": "integer", "minimum": 1, "maximum": 2}},
            "regex": lambda: {"pattern": "1+|é?"},
            "sequence": lambda: {"elements": self.several(lambda: self.format(depth - 1))},
            "or": lambda: {"elements": self.several(lambda: self.format(depth - 1))},
            "optional": lambda: {"content": self.format(depth - 1)},
            "plus": lambda: {"content": self.format(depth - 1)},
            "star": lambda: {"content": self.format(depth - 1)},
            "repeat": lambda: {"min": int(self._random.integers(0, 3)), "max": int(self._random.choice([-1, 2, 3])), "content": self.format(depth - 1)},
            "tag": lambda: self.tag(depth - 1),
            "triggered_tags": lambda: self.triggered(depth - 1),
            "tags_with_separator": lambda: {"tags": self.several(lambda: self.tag(depth - 1)), "separator": self.text(empty=True),
                                            "at_least_one": self.flag(), "stop_after_first": self.flag()},
            "dispatch": lambda: {"rules": self.several(lambda: [self.text(), self.format(depth - 1)]), "loop": self.flag(),
                                 "excludes": self.several(self.text) if self.flag() else []},
        }[kind]()
        return {"type": kind, **more}

    def triggered(self, depth):
        tags = self.several(lambda: self.tag(depth))
        triggers = sorted({tag["begin"][: self._random.integers(1, len(tag["begin"]) + 1)] for tag in tags})
        return {"tags": tags, "triggers": triggers, "at_least_one": self.flag(), "stop_after_first": self.flag(),
                "excludes": self.several(self.text) if self.flag() else []}

    def string(self):
        return "".join(self._random.choice(self.texts, self._random.integers(0, 7)))


def texts_of(form):
    """The texts that begin something in free text, and those that may not stand in it."""
    begin, other = [], []
    for name, value in form.items():
        if name == "triggers":
            begin += value
        elif name == "rules":
            begin += [text for text, _ in value]
        elif name in ("excludes", "end"):
            other += value if isinstance(value, list) else [value]
        for inside in [v[1] if name == "rules" else v for v in (value if isinstance(value, list) else [value])]:
            if isinstance(inside, dict) and name != "json_schema":
                more = texts_of(inside)
                begin, other = begin + more[0], other + more[1]
    return begin, other


def is_one_inside_another(form):
    """xgrammar overlooks a trigger inside of another text that it looks for, and 0.2.7 any text there."""
    begin, other = texts_of(form)
    return any(text in longer and text != longer for text in begin + other for longer in begin + other)


@pytest.mark.parametrize("seed", range(8))
def test_random_formats_have_the_strings_of_xgrammar(seed):
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as in_grammar

    compared, found = 0, [0, 0]
    for number in range(40):
        formats = Formats(1000 * seed + number)
        form = formats.format(2)
        tag = {"type": "structural_tag", "format": form}
        if is_one_inside_another(form):
            continue
        try:
            theirs = xgrammar.Grammar.from_structural_tag(tag)
        except RuntimeError:
            continue
        ours = structural_tag(json.dumps(tag), WORDS)
        compared += 1
        for _ in range(60):
            text = formats.string()
            expected = in_grammar(theirs, text)
            assert accepts(ours, text) == expected, (json.dumps(form), text)
            found[expected] += 1
    assert compared > 15 and min(found) > 100


PERSON = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
OLDER = {"type": "structural_tag", "structures": [{"begin": "<f=get>", "schema": PERSON, "end": "</f>"}], "triggers": ["<f="]}


def test_the_older_form():
    for given in (OLDER, json.dumps(OLDER), {**OLDER, "at_least_one": True}):
        language = structural_tag(given, WORDS)
        at_least_one = "at_least_one" in given and given is not OLDER and not isinstance(given, str)
        for text, there in [('<f=get>{"age":3}</f> and <f=get>{"age": 4}</f>.', True), ('so <f=get>{"age":3}</f>', not at_least_one),
                            ("", not at_least_one), ('<f=get>{"age":"x"}</f>', False), ("<f=other>", False)]:
            assert accepts(language, text) == there, (given, text)
    anything = structural_tag({**OLDER, "structures": [{"begin": "<f=", "schema": None, "end": ">"}]}, WORDS)
    assert accepts(anything, '<f=[1, "a"]>') and not accepts(anything, "<f=[>")


def test_text_is_utf8_and_what_is_excluded_stands_nowhere():
    text = made("any_text")
    for data in (b"\xc3\xa9", b"\xf4\x8f\xbf\xbf", b""):
        assert text.accepts(list(data))
    for data in (b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xff"):
        assert not text.accepts(list(data))
    schema = made("json_schema", json_schema={"type": "string"}, excludes=["bad", "x"])
    assert accepts(schema, '"good"') and not accepts(schema, '"a bad one"') and not accepts(schema, '"x"')


@pytest.mark.parametrize("given, says", [
    ({}, "the structural tag: must be an object with `format`, or with `structures` and `triggers`, got {}"),
    ("[", "the structural tag"),
    ("[" * 100000, "the structural tag"),
    ({1j}, "tag must be JSON: "),
    ({**OLDER, "triggers": [""]}, "/triggers/0: must not be empty"),
    ({**OLDER, "triggers": ["x"]}, '/structures/0/begin: must begin with one of `triggers`, got "<f=get>"'),
    ({**OLDER, "triggers": ["<", "<f"]}, '/structures/0/begin: begins with several of `triggers`, got "<f=get>"'),
    ({**OLDER, "structures": [{"begin": "<f=", "schema": PERSON}]}, "/structures/0: needs the member `end`, got {"),
    ({**OLDER, "structures": [{"begin": "<f=", "schema": {"type": "array", "uniqueItems": True}, "end": ""}]},
     "/structures/0/schema/uniqueItems: "),
    ({**OLDER, "other": 1}, "/other: is not a known member"),
    ({"type": "tag", "format": {}}, '/type: must be "structural_tag", got "tag"'),
    ({"format": {"type": "none"}}, '/format/type: is not a known format, got "none"'),
    ({"format": {"type": ["or"]}}, '/format/type: must be a text, got ["or"]'),
    ({"format": {"type": "const_string", "value": "a", "more": 1}}, "/format/more: is not a known member"),
    ({"format": {"type": "const_string", "value": "\ud800"}}, "line 1, column 53: half of a pair"),
    ({"format": {"type": "or", "elements": [{"type": "token", "token": 3}]}}, "/format/elements/0/type: is not a known format"),
    ({"format": {"type": "grammar", "grammar": ""}}, "/format/grammar: line 1, column 1: "),
    ({"format": {"type": "any_text", "max_tokens": 3}}, "/format/max_tokens: a number of tokens is not kept: write `max_chars`"),
    ({"format": {"type": "any_text", "max_chars": -1}}, "/format/max_chars: must be a whole number under 10^9, got -1"),
    ({"format": {"type": "json_schema", "json_schema": {}, "style": "qwen_xml"}}, '/format/style: only "json" is supported, got "qwen_xml"'),
    ({"format": {"type": "json_schema", "json_schema": {"type": "array", "uniqueItems": True}}}, "/format/json_schema/uniqueItems: "),
    ({"format": {"type": "regex", "pattern": "(a"}}, "/format/pattern: column 1: "),
    ({"format": {"type": "tag", "begin": {"type": "token", "token": 1}, "content": {}, "end": ""}},
     '/format/begin: must be a text, got {"type":"token","token":1}'),
    ({"format": {"type": "repeat", "min": 2, "max": 1, "content": {}}}, "/format: `max` must be at least `min`, or -1"),
    ({"format": {"type": "dispatch", "rules": [["", {}]]}}, "/format/rules/0/0: must not be empty"),
])
def test_what_is_not_kept_is_refused_with_its_place(given, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        structural_tag(given, WORDS)


def nested(depth, form=None):
    return form if depth == 0 else {"type": "optional", "content": nested(depth - 1, form or {"type": "const_string", "value": "a"})}


@pytest.mark.parametrize("form", [
    {"type": "repeat", "min": 0, "max": 10**9, "content": {"type": "const_string", "value": ""}},
    {"type": "repeat", "min": 10**9, "max": -1, "content": {"type": "repeat", "min": 0, "max": 0, "content": {"type": "any_text"}}},
    {"type": "any_text", "max_chars": 10**9},
    {"type": "const_string", "value": "a" * 100000},
    {"type": "sequence", "elements": [  # it needs 2^20 states
        {"type": "star", "content": {"type": "regex", "pattern": "[ab]"}}, {"type": "const_string", "value": "a"},
        {"type": "repeat", "min": 20, "max": 20, "content": {"type": "regex", "pattern": "[ab]"}}]},
    nested(300),
], ids=range(6))
def test_hostile_formats_are_refused_in_time(form):
    begin = time.monotonic()
    with pytest.raises(ValueError, match="structural_tag: "):
        structural_tag({"format": form}, WORDS, timeout=3.0)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("least", [0, 9])
def test_repetitions_of_nothing_cost_nothing(least):
    begin = time.monotonic()
    inside = {"type": "optional", "content": {"type": "const_string", "value": ""}}
    language = made("repeat", min=least, max=30000, content=inside)
    assert accepts(language, "") and not accepts(language, "a")
    assert time.monotonic() - begin < 5


def test_options_are_those_of_schemas():
    language = structural_tag(OLDER, WORDS, whitespace="", closed_objects=False)
    assert accepts(language, '<f=get>{"age":3,"b":1}</f>') and not accepts(language, '<f=get>{"age": 3}</f>')
    with pytest.raises(TypeError, match="root"):
        structural_tag(OLDER, WORDS, root="a")


def test_a_language_is_compiled_once():
    assert structural_tag(OLDER, WORDS) is structural_tag(json.dumps(OLDER), WORDS)


def string_of(form, random):
    """A string of a format."""
    kind = form["type"]
    if kind in ("sequence", "or"):
        parts = form["elements"] if kind == "sequence" else [random.choice(form["elements"])]
        return "".join(string_of(part, random) for part in parts)
    if kind in ("triggered_tags", "tags_with_separator"):
        return string_of(random.choice(form["tags"]), random)
    if kind == "tag":
        return form["begin"] + string_of(form["content"], random) + (form["end"] if isinstance(form["end"], str) else form["end"][0])
    if kind in ("optional", "star", "plus", "repeat"):
        return string_of(form["content"], random)
    return {"const_string": form.get("value"), "json_schema": '{"age": 3}', "any_text": "so", "regex": "0"}[kind]


@pytest.mark.parametrize("model", ["llama", "kimi", "deepseek_r1", "deepseek_v3_1", "qwen_3", "exaone"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_tools_of_models_whose_calls_are_json(model, choice):
    """What the hosts make of tools: calls, and calls with a character less or more, are judged as by xgrammar."""
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as in_grammar

    tools = [{"type": "function", "function": {"name": name, "strict": True, "parameters": PERSON}} for name in ("get", "put")]
    tag = xgrammar.get_model_structural_tag(model, tools=tools, tool_choice=choice, reasoning="disabled")
    language = structural_tag(tag.model_dump(), WORDS)
    theirs = xgrammar.Grammar.from_structural_tag(tag)
    for text in ("", "so"):
        assert accepts(language, text) == in_grammar(theirs, text) == (choice == "auto")
    random, form, found = np.random.default_rng(3), tag.model_dump()["format"], [0, 0]
    for _ in range(60):
        text = string_of(form, random)
        at = int(random.integers(len(text)))
        for changed in (text, text[:at] + text[at + 1 :], text[:at] + "x" + text[at:], text + text, "so" + text, text + "so"):
            if ": }" in changed or '"age" ' in changed or "{ " in changed:
                continue  # other blanks than ours
            expected = in_grammar(theirs, changed)
            assert accepts(language, changed) == expected, changed
            found[expected] += 1
    assert min(found) > 20, found
