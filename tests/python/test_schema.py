# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JSON Schemas: strings drawn from the automaton of each are validated by the package jsonschema, or the schema is refused."""
import array
import itertools
import json
import random
import re
from decimal import Decimal

import numpy as np
import pytest
import unmask
from unmask import _compile, _schema, constraints

pytest.importorskip("outlines_core")
jsonschema = pytest.importorskip("jsonschema")

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def record(properties, **others):
    return {"type": "object", "properties": properties, "required": list(properties), **others}


NODE = record({"value": INTEGER, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}})
KEPT = {
    "integer": INTEGER, "number": {"type": "number"}, "boolean": {"type": "boolean"}, "null": {"type": "null"}, "string": STRING,
    "anything": {}, "annotations": {"type": "integer", "title": "t", "description": "d", "default": 3, "$comment": "c"},
    "a keyword that is none": {"type": "integer", "frobnicate": 3}, "of another type": {"type": "integer", "minLength": 3},
    "types": {"type": ["integer", "null"]}, "no type": {"minimum": 3},
    "minimum": {"type": "integer", "minimum": 5}, "maximum": {"type": "integer", "maximum": 5}, "18": {"type": "integer", "minimum": 18},
    "exclusive": {"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": 400}, "below -6": {"type": "integer", "maximum": -7},
    "range": {"type": "integer", "minimum": 99, "maximum": 1001}, "both signs": {"type": "integer", "minimum": -5, "maximum": 120},
    "multiples": {"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 5},
    "share": {"type": "number", "minimum": 0, "maximum": 1}, "latitude": {"type": "number", "minimum": -90, "maximum": 90},
    "positive": {"type": "number", "exclusiveMinimum": 0}, "below 5": {"type": "number", "exclusiveMaximum": 5},
    "number from 3": {"type": "number", "minimum": 3}, "number to -3": {"type": "number", "maximum": -3},
    "a half and more": {"type": "number", "minimum": 0.5}, "probability": {"type": "number", "minimum": 0.05, "maximum": 0.95},
    "temperature": {"type": "number", "exclusiveMinimum": -273.15, "maximum": 36.6}, "tiny": {"type": "number", "minimum": 1e-7, "exclusiveMaximum": 2.5e-7},
    "half open": {"type": "number", "exclusiveMinimum": -2, "maximum": 0},
    "length": {"type": "string", "minLength": 2, "maxLength": 3}, "pattern": {"type": "string", "pattern": "^[a-c]+$"},
    "pattern and length": {"type": "string", "pattern": r"^[A-Z]\w*-?\d+$", "minLength": 4, "maxLength": 9},
    "pattern and least length": {"type": "string", "pattern": "^a?.{1,2}[^,]*$", "minLength": 3},
    "pattern within": {"type": "string", "pattern": "[a-c]+"}, "any character": {"type": "string", "pattern": "^.+@x$"},
    "any but": {"type": "string", "pattern": "^[^,]{1,3}$"}, "alternatives": {"type": "string", "pattern": "^ab|cd$"},
    "classes": {"type": "string", "pattern": r"^\S{2}\d\w\s\W[\d_]\D$"},
    **{"format " + f: {"type": "string", "format": f} for f in ("date", "time", "date-time", "uuid", "email", "hostname", "ipv4", "uri")},
    "enum": {"enum": ["a", 1, None, True, 'q"uote', "é", {"a.b": 1, 'c"d': [2]}, [1, 2]]}, "const": {"const": {"a+": "*"}},
    "enum of a type": {"type": "integer", "enum": ["a", 1]}, "enum and const": {"enum": [1, True, 2], "const": 1},
    "items": {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 4}, "any items": {"type": "array"},
    "no items": {"type": "array", "items": False}, "at most none": {"type": "array", "items": INTEGER, "maxItems": 0},
    "tuple": {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}, "one unique": {"uniqueItems": True, "maxItems": 1},
    "required": record({"a": INTEGER, "b": STRING}), "optional": {"type": "object", "properties": {"a": INTEGER, "b": STRING}, "required": ["b"]},
    "no others": record({"a": INTEGER}, additionalProperties=False), "others": record({"a": INTEGER}, additionalProperties=INTEGER),
    "unevaluated": record({"a": INTEGER}, unevaluatedProperties=False), "map": {"type": "object", "additionalProperties": INTEGER},
    "some in a map": {"type": "object", "additionalProperties": INTEGER, "minProperties": 1}, "empty object": {"type": "object", "additionalProperties": False},
    "names": record({'a"b': INTEGER, "c\\d": INTEGER, "e.f": INTEGER, "é": INTEGER}), "an optional that cannot be": {"properties": {"a": False, "b": INTEGER}},
    "anyOf": {"anyOf": [INTEGER, STRING]}, "oneOf": {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "string", "pattern": "a+"}, {"enum": [True, None]}]}, "allOf": {"allOf": [INTEGER]},
    "told apart by a constant": {"oneOf": [record({"k": {"const": "a"}, "x": INTEGER}), record({"k": {"const": "b"}, "y": STRING})]},
    "an object or nothing": {"type": ["object", "null"], "properties": {"a": INTEGER}, "required": ["a"]},
    "reference": {"$defs": {"a/b": INTEGER}, **record({"x": {"$ref": "#/$defs/a~1b"}})},
    "list": {"$defs": {"n": record({"v": INTEGER, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}})}, "$ref": "#/$defs/n"},
    "tree": {"$defs": {"node": NODE}, "$ref": "#/$defs/node"},
}
REFUSED = {
    "/multipleOf: ": {"type": "integer", "multipleOf": 5}, "/minimum: must be finite": {"type": "number", "minimum": float("inf")},
    "/maximum: must be finite": {"type": "integer", "maximum": float("nan")},
    "/pattern: with a length": {"type": "string", "pattern": "^(a|b)+$", "minLength": 3}, "/format: is kept": {"type": "string", "format": "date", "minLength": 3},
    "/pattern: its parts": {"type": "string", "pattern": "^a*b*c*d*$", "maxLength": 60}, "/pattern: lets a string have byte 0x22": {"type": "string", "pattern": 'a"b'},
    "/pattern: lets a string have byte 0x5c": {"type": "string", "pattern": r"a\\b"}, "/pattern: ": {"type": "string", "pattern": "a)(b"},
    "/pattern: [^] means": {"type": "string", "pattern": "[^]"}, "/format: must be one of": {"type": "string", "format": "ipv6"},
    "/uniqueItems: ": {"type": "array", "uniqueItems": True}, "/contains: ": {"type": "array", "contains": INTEGER},
    "/prefixItems: ": {"type": "array", "prefixItems": [INTEGER], "minItems": 2}, "/items: a list": {"type": "array", "items": [INTEGER]},
    '/required: "b" must be': {"type": "object", "properties": {"a": INTEGER}, "required": ["a", "b"]},
    "/minProperties: ": {"type": "object", "minProperties": 2}, "/maxProperties: ": {"type": "object", "maxProperties": 1},
    "/patternProperties: ": {"type": "object", "patternProperties": {"^x": INTEGER}}, "/propertyNames: ": {"type": "object", "propertyNames": STRING},
    "/dependentRequired: ": record({"a": INTEGER}, dependentRequired={"a": ["b"]}), "/oneOf: a value might": {"oneOf": [INTEGER, {"type": "number"}]},
    "/oneOf: a value might obey": {"oneOf": [{"minimum": 3}, STRING]},
    "/oneOf: a value": {"$defs": {"n": {"oneOf": [{"type": "object"}, {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}]}}, "$ref": "#/$defs/n"},
    "/allOf: more than one": {"allOf": [INTEGER, {"minimum": 3}]}, "/not: ": {"type": "integer", "not": {"const": 3}}, "/if: ": {"if": {}, "then": {}},
    "/properties/a/anyOf/1/not: ": record({"a": {"anyOf": [INTEGER, {"not": {}}]}}), "/type: this keyword": {"type": "integer", "anyOf": [INTEGER]},
    "/pattern: this keyword": {"enum": ["a"], "pattern": "a"}, "/type: must be of": {"type": "float"}, "/$ref: '#/x' is no place": {"$ref": "#/x"},
    "/$ref: must be a place": {"$ref": "https://x.y/z"}, "no finite JSON value": {"$ref": "#"}, "the schema: a schema must be": 3,
    "which are in private use": {"const": "\ue0000\ue001"}, "U+E000 to U+E002": {"type": "string", "pattern": "\ue002"}, "/minLength: must be": {"type": "string", "minLength": -1}, "/minimum: must be": {"minimum": "3"},
    "/enum: must be": {"enum": 3}, "/anyOf: must be": {"anyOf": []},
}


def strings(table, count):
    """Strings of a table, drawn at random; every string can be drawn."""
    states, start = (int.from_bytes(table[i : i + 4], "little") for i in (0, 4))
    accepting, numbers = table[8 : 8 + states], array.array("I")
    numbers.frombytes(table[8 + states :])
    after = [{b: q for b, q in enumerate(numbers[256 * s : 256 * s + 256]) if q != _compile.DEAD} for s in range(states)]
    distance = {s: 0 for s in range(states) if accepting[s]}
    queue = list(distance)
    before = [[] for _ in range(states)]
    for s, by in enumerate(after):
        for q in set(by.values()):
            before[q].append(s)
    for s in queue:
        for q in before[s]:
            if q not in distance:
                distance[q] = distance[s] + 1
                queue.append(q)
    rng = random.Random(1)
    for _ in range(count):
        state, text, budget = start, bytearray(), rng.choice([0, 5, 20, 60])
        while not (accepting[state] and (rng.random() < 0.3 or len(text) > budget)):
            by = {b: q for b, q in after[state].items() if q in distance}
            if len(text) > budget:
                by = {b: q for b, q in by.items() if distance[q] < distance[state]} or by
            if not by:
                break
            to = rng.choice(sorted(set(by.values())))
            text.append(rng.choice([b for b, q in by.items() if q == to]))
            state = to
        yield bytes(text)


@pytest.mark.parametrize("name", KEPT)
def test_a_string_of_a_schema_obeys_it(name):
    schema = KEPT[name]
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    seen = set(strings(_compile.table_of_schema(json.dumps(schema), None), 150))
    for text in seen:
        assert validator.is_valid(json.loads(text)), text
    assert len(seen) > 10 or name in ("boolean", "null", "const", "enum", "enum of a type", "enum and const", "no items", "at most none",
                                      "empty object", "alternatives", "one unique", "multiples", "range")


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_kept_is_refused_with_its_place(message):
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    with pytest.raises(ValueError, match="json_schema: .*" + re.escape(message)):
        constraints.json_schema(json.dumps(REFUSED[message]), words, timeout=None)


def test_every_whole_number_of_a_range_is_in_it_and_no_other():
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    rng = random.Random(2)
    for _ in range(24):
        low, high = sorted(rng.randint(-130, 1300) for _ in range(2))
        language = constraints.json_schema({"type": "integer", "minimum": low, "maximum": high}, words, timeout=None)
        for value in [*range(low - 12, low + 13), *range(high - 12, high + 13), *(rng.randint(-3000, 3000) for _ in range(40))]:
            assert language.accepts(list(str(value).encode())) == (low <= value <= high), (low, high, value)


def test_every_number_between_bounds_is_in_them_and_no_other():
    rng = random.Random(3)

    def bound():
        return rng.choice([-1, 1]) * Decimal(rng.choice([0, 1, 7, 9, 10, 19, 99, 1234])) + Decimal(rng.choice([0, 5, 10, 25, 99, 105, 900, 995])) / 1000

    for _ in range(200):
        low, high = sorted((bound(), bound()))
        low, high = rng.choice([(low, high), (low, high), (low, low), (low, None), (None, high)])
        above, below = rng.random() < .5, rng.random() < .5
        if (low, above or below) == (high, True):
            continue
        schema = {"type": "number", **({} if low is None else {"exclusiveMinimum" if above else "minimum": float(low)}),
                  **({} if high is None else {"exclusiveMaximum" if below else "maximum": float(high)})}
        _, expressions, _ = _schema.kept(json.dumps(schema))
        (expression,) = expressions.values()
        near = [of for of in (low, high) if of is not None]
        values = [x + Decimal(d) / scale for x in near for scale in (1, 10, 100, 1000, 10000) for d in range(-11, 12)]
        values += [Decimal(rng.randint(-20000, 20000)) / 10 ** rng.randint(0, 4) for _ in range(40)]
        for value in values:
            within = (low is None or (value > low if above else value >= low)) and (high is None or (value < high if below else value <= high))
            for text in {format(value, "f"), f"{value:.5f}", f"{value:.1f}"}:
                if Decimal(text) == value:
                    assert (re.fullmatch(expression, text) is not None) == within, (schema, text, expression)


def test_a_string_of_a_pattern_and_a_length_obeys_both_and_no_other():
    rng = random.Random(4)
    texts = ["".join(t) for size in range(7) for t in itertools.product("ab.", repeat=size)]
    for _ in range(300):
        pattern = "".join(rng.choice(["a", "b", "[ab]", "[^a]", ".", r"\."]) + rng.choice(["", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "{0}"])
                          for _ in range(rng.randint(0, 4)))
        least, most = rng.randint(0, 4), rng.choice([None, rng.randint(0, 6)])
        if most is not None and most < least:
            continue
        schema = {"type": "string", "pattern": f"^{pattern}$", "minLength": least, **({} if most is None else {"maxLength": most})}
        _, expressions, _ = _schema.kept(json.dumps({"anyOf": [schema, {"const": 3}]}))
        kept = [e for e in expressions.values() if e.startswith('"')]
        for text in texts:
            obeys = re.fullmatch(pattern, text) is not None and least <= len(text) <= (99 if most is None else most)
            assert any(re.fullmatch(e, f'"{text}"') for e in kept) == obeys, (schema, text, kept)


def test_a_schema_that_would_grow_without_bound_is_refused_in_time():
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    names = [f"p{i}" for i in range(40)]
    bomb = {"$defs": {"n": {"type": "object", "properties": {n: {"$ref": "#/$defs/n"} for n in names}}}, "$ref": "#/$defs/n"}
    with pytest.raises(ValueError, match="json_schema: (the automaton was not made within|it takes more than)"):
        constraints.json_schema(bomb, words, timeout=3.0, memory=1 << 29)


def test_a_decode_obeys_bounds():
    model = record({"age": {"type": "integer", "minimum": 18, "maximum": 99}, "share": {"type": "number", "minimum": 0, "maximum": 1}})
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    language = constraints.json_schema(model, words)
    for seed in range(20):
        rng, tokens = np.random.default_rng(seed), np.full(40, 256, np.int32)
        session = unmask.Session("threshold(0.3)", vocab=258, mask_token=256, eos_token=257, length=40, window=40)
        session.start(0, tokens, prompt_length=0, block_length=20, constraint=language)
        while (request := session.next()) is not None:
            session.supply(rng.normal(0, 3, (request.rows, 258)).astype(np.float32))
        value = json.loads(bytes(t for t in tokens.tolist() if t < 256))
        assert 18 <= value["age"] <= 99 and 0 <= value["share"] <= 1
