# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JSON Schemas: strings drawn from the automaton of each are validated by the package jsonschema, or the schema is refused."""
import itertools
import json
import random
import re
import signal
import subprocess
import sys
import time
from decimal import Decimal

import numpy as np
import pytest
import unmask
from unmask import constraints
from unmask.constraints import DEAD, Language

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
    "classes": {"type": "string", "pattern": r"^[!-~]{2}\d\w[ -/][\d_][^\d\W]$"},
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
    "multiples without bounds": {"type": "integer", "multipleOf": 5}, "groups and a length": {"type": "string", "pattern": "^(a|b)+$", "minLength": 3},
    "format and a length": {"type": "string", "format": "date", "minLength": 3}, "many lengths": {"type": "string", "pattern": "^a*b*c*d*$", "maxLength": 60},
    "a quote": {"type": "string", "pattern": 'a"b'}, "a backslash": {"type": "string", "pattern": r"a\\b"},
    "contains": {"type": "array", "contains": INTEGER}, "longer than its tuple": {"type": "array", "prefixItems": [INTEGER], "minItems": 2},
    "required and not listed": {"type": "object", "properties": {"a": INTEGER}, "required": ["a", "b"]}, "a small object": {"type": "object", "maxProperties": 1},
    "names by pattern": {"type": "object", "patternProperties": {"^x": INTEGER}}, "short names": {"type": "object", "propertyNames": {"maxLength": 2}},
    "dependencies": {"type": "object", "properties": {"a": INTEGER, "b": STRING}, "dependentRequired": {"a": ["b"]}},
    "one of numbers": {"oneOf": [INTEGER, {"type": "number", "minimum": 3}]}, "all of two": {"allOf": [INTEGER, {"minimum": 3}]},
    "not": {"type": "integer", "not": {"const": 3}}, "if": {"type": "integer", "if": {"minimum": 3}, "then": {"multipleOf": 2}, "else": {"maximum": 1}},
    "beside anyOf": {"type": "integer", "anyOf": [{"minimum": 7}, {"maximum": 3}]}, "enum and pattern": {"enum": ["a", "b"], "pattern": "a"},
    "private use": {"type": "string", "pattern": "\ue002"}, "of some types": {"type": ["string", "integer"], "enum": ["a", 1, None]},
}
REFUSED = {
    "the schema, line 1, column 31: expected a value": {"type": "number", "minimum": float("inf")},
    "/pattern: column 2: ')' closes no group": {"type": "string", "pattern": "a)(b"}, "/pattern: column 5: look-ahead": {"pattern": "(?<=(?=a))"},
    "/items/pattern: column 2: back references": {"items": {"pattern": r"a\1"}}, "/properties/a~1b/uniqueItems: is kept for items of at most 10": record({"a/b": {"type": "array", "uniqueItems": True}}),
    "the schema: `minProperties` asks for several names": {"type": "object", "minProperties": 2}, "references and combinations lead to others": {"$ref": "#"},
    "/type: must be object, array": {"type": "float"}, '/$ref: "#/x" is not a place in this schema': {"$ref": "#/x"}, "/$ref: must be a place": {"$ref": "https://x.y/z"},
    "the schema: a schema must be an object, true or false": 3, "/minLength: must be a whole number": {"type": "string", "minLength": -1},
    "/minimum: must be a number": {"minimum": "3"}, "/enum: must be a list": {"enum": 3}, "the schema: no finite JSON value obeys it": {"anyOf": []},
}


def strings(language, count):
    """Strings of a language, drawn at random; every string can be drawn."""
    table, accepting, start = language.table()
    states = len(accepting)
    after = [{b: q for b, q in enumerate(row) if q != DEAD} for row in table.tolist()]
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
    seen = set(strings(Language.json_schema(json.dumps(schema)), 150))
    for text in seen:
        assert validator.is_valid(json.loads(text)), text
    assert len(seen) > 10 or name in ("boolean", "null", "const", "enum", "enum of a type", "enum and const", "no items", "at most none",
                                      "empty object", "alternatives", "one unique", "multiples", "range", "enum and pattern", "of some types")


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
        language = Language.json_schema(json.dumps(schema))
        near = [of for of in (low, high) if of is not None]
        values = [x + Decimal(d) / scale for x in near for scale in (1, 10, 100, 1000, 10000) for d in range(-11, 12)]
        values += [Decimal(rng.randint(-20000, 20000)) / 10 ** rng.randint(0, 4) for _ in range(40)]
        for value in values:
            within = (low is None or (value > low if above else value >= low)) and (high is None or (value < high if below else value <= high))
            for text in {format(value, "f"), f"{value:.5f}", f"{value:.1f}"}:
                if Decimal(text) == value:
                    assert language.accepts(text) == (within and text[:2] != "-0" or within and "." in text and value != 0), (schema, text)


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
        language = Language.json_schema(json.dumps({"anyOf": [schema, {"const": 3}]}))
        for text in texts:
            obeys = re.fullmatch(pattern, text) is not None and least <= len(text) <= (99 if most is None else most)
            assert language.accepts(f'"{text}"') == obeys, (schema, text)


def test_a_schema_that_would_grow_without_bound_is_refused_in_time():
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    names = [f"p{i}" for i in range(40)]
    bomb = {"$defs": {"n": {"type": "object", "properties": {n: {"$ref": "#/$defs/n"} for n in names}}}, "$ref": "#/$defs/n"}
    begin = time.monotonic()
    with pytest.raises(ValueError, match="json_schema: .*(the limit `|over 4096 states whose rows)"):
        constraints.json_schema(bomb, words, timeout=3.0, memory=1 << 29)
    assert time.monotonic() - begin < 30


HOSTILE = {
    "an exponential expression": ("regex", ".*a.{40}"), "nested counts": ("regex", "((((a{0,1000}){0,1000}){0,1000}){0,1000})"),
    "letters of any script": ("regex", r"\p{L}{1,100000}"), "groups": ("regex", "(" * 100_000),
    "long letters": ("json_schema", {"type": "string", "pattern": r"^\p{L}*$", "maxLength": 200_000}),
    "a long string": ("json_schema", {"type": "string", "minLength": 10**9}), "lists in lists": ("json_schema", '{"items":' * 100_000 + "1" + "}" * 100_000),
    "constants": ("json_schema", {"enum": [{"a": i, "b": [i] * 5} for i in range(20_000)]}),
    "properties": ("json_schema", {"type": "object", "properties": {f"p{i}": INTEGER for i in range(20_000)}}),
    "patterns": ("json_schema", {"type": "object", "patternProperties": {f"a.{{{i}}}b": INTEGER for i in range(60)}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_refused_in_bounded_time_and_memory_while_others_run(name):
    kind, given = HOSTILE[name]
    program = f"""
import json, resource, sys, threading, time
from unmask import constraints
words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
ticks, done = [time.monotonic()], threading.Event()
def run():
    while not done.is_set():
        time.sleep(0.001)
        ticks.append(time.monotonic())
threading.Thread(target=run).start()
before, given = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, json.loads(sys.stdin.read())
try:
    constraints.{kind}(given, words, timeout=1.0)
    message = ""
except ValueError as error:
    message = str(error)
done.set()
took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([message[:200], max((b - a for a, b in zip(ticks, ticks[1:])), default=0), took / 1024]))
"""
    begin = time.monotonic()
    made = subprocess.run([sys.executable, "-c", program], input=json.dumps(given), capture_output=True, text=True, timeout=120, check=True)
    message, pause, megabytes = json.loads(made.stdout)
    assert message.startswith(kind + ": ") and megabytes < 700 and time.monotonic() - begin < 40
    assert pause < 1.0, pause  # a compilation of seconds lets other threads run


def test_an_interrupted_compilation_ends_by_its_limits():
    program = "from unmask import Language; print('begun', flush=True); Language.regex('.*a.{40}', states=1 << 31, milliseconds=2000)"
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "begun\n"
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors


def test_limits_and_options():
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    for wrong in ({"timeout": -1.0}, {"timeout": float("nan")}, {"memory": -1}):
        with pytest.raises(ValueError, match="must be (seconds|bytes)"):
            constraints.json_schema(True, words, **wrong)
    with pytest.raises(ValueError, match="it takes over 50 ms"):
        constraints.regex(".*a.{20}", words, timeout=0.05, memory=1 << 38)
    with pytest.raises(ValueError, match="over 1000 positions"):
        constraints.regex("a{2000}", words, memory=128_000)
    assert constraints.regex("a+", words, timeout=None).accepts([97, 97])
    long = {"type": "string", "maxLength": 4000}
    with pytest.raises(ValueError, match="states, the limit is 4096"):
        constraints.json_schema(long, words, states=4096)
    assert constraints.json_schema(long, words).states > 4096
    assert constraints.json_schema(long, words, longest=100).states < 20
    for option, given, schema, text in [
            ("closed_objects", False, record({"a": INTEGER}), '{"a":1,"b":2}'), ("unicode_escapes", True, STRING, r'"\u0001"'),
            ("integer_fractions", True, INTEGER, "1.0"), ("any_depth", 4, {}, "[[[[]]]]"), ("whitespace", "[ \n]*", record({"a": INTEGER}), '{\n  "a": 1\n}'),
            ("recursion", 5, {"type": "array", "items": {"$ref": "#"}}, "[[[[[]]]]]")]:
        usual, with_option = constraints.json_schema(schema, words), constraints.json_schema(schema, words, **{option: given})
        assert with_option.accepts(list(text.encode())) and not usual.accepts(list(text.encode())), option
    with pytest.raises(ValueError, match="/format"):
        constraints.json_schema({"format": "x"}, words, refuse_unknown_formats=True)
    with pytest.raises(ValueError, match="whitespace"):
        constraints.json_schema({}, words, whitespace="x")
    for depth in (1, 2, 5):
        language = constraints.json_object(words, depth=depth)
        nested = '{"a":' * (depth - 1) + '{"b":0' + "}" * depth
        assert language.accepts(list(nested.encode())) and not language.accepts(list(f'{{"a":{nested}}}'.encode()))


def test_a_language_has_a_table_and_a_constraint():
    language = Language.regex("(ab)+", search=False)
    table, accepting, start = language.table()
    assert language.states == len(accepting) == len(table) and table.dtype == np.uint32 and accepting.dtype == np.uint8
    words = constraints.vocabulary(token_bytes=[b"a", b"b", b"ab", b"", b""], mask_token=3, eos_token=4)
    at_once, by_table = language.constraint(words), unmask.Constraint(table, accepting, words, start=start)
    for tokens in itertools.product(range(3), repeat=4):
        text = b"".join([b"a", b"b", b"ab"][t] for t in tokens)
        assert at_once.accepts(tokens) == by_table.accepts(tokens) == language.accepts(text) == (text == b"ab" * (len(text) // 2))
    assert Language.regex("b", search=True).accepts("abc") and not Language.regex("b").accepts("abc")
    assert Language.regex('"', json_string=True).accepts(r'"\""') and Language.json_schema(b"true").accepts(b"[]")
    with pytest.raises(ValueError, match="column 1: "):
        Language.regex("(")
    with pytest.raises(ValueError, match="not UTF-8 at byte 2"):
        Language.regex("a\ud800")
    for given in (3, None, ["a"]):
        with pytest.raises(TypeError, match="expression must be str or bytes, got "):
            Language.regex(given)
    with pytest.raises(TypeError, match="schema must be str or bytes, got dict"):
        Language.json_schema({})


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
