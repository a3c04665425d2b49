#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random schemas beside `jsonschema`, and random expressions beside Node, by the compiler.

usage: random_texts.py JUDGED schemas SEED COUNT
       random_texts.py JUDGED expressions SEED COUNT

JUDGED is judged.cpp, compiled, best with sanitizers. The status is 1 where an invalid value is
accepted in some order of its members, where a string of a language is invalid, or where an
expression and Node differ.
"""
import collections
import itertools
import json
import random
import re
import subprocess
import sys

import jsonschema

from judge_texts import Judged

judged = Judged(sys.argv[1])
rng = random.Random(int(sys.argv[3]))
ask = judged.ask


SCALARS = [0, 1, 2, 3, -1, 1.5, 10, 15, 7, "", "a", "ab", "abc", "ba", "a1", None, True, False, [], {}, 2.5, -0.5, 100]
LEAVES = [lambda: {"type": rng.choice(["string", "integer", "number", "null", "boolean", "array", "object"])},
          lambda: {"const": rng.choice([0, 1, "a", "ab", None, True, 1.5, [1], {"a": 1}, [], {}])},
          lambda: {"enum": rng.sample([0, "a", 2.5, None, [0, "a"], {"a": 1, "b": 2}], 3)},
          lambda: {"minimum": rng.choice([0, 1, 2.5, -1])}, lambda: {"exclusiveMaximum": rng.choice([2, 10])},
          lambda: {"multipleOf": rng.choice([3, 0.5, 5])}, lambda: {"minLength": rng.choice([1, 2])},
          lambda: {"maxLength": rng.choice([0, 1, 2])}, lambda: {"pattern": rng.choice(["^a", "b$", "^[ab]*$", "[0-9]"])},
          lambda: True, lambda: False, lambda: {"minItems": 1}, lambda: {"maxItems": 1}, lambda: {"required": ["a"]},
          lambda: {"minProperties": rng.choice([1, 2])}, lambda: {"maxProperties": 1},
          lambda: {"items": {"enum": [0, 1, "a"]}, "uniqueItems": True}]


def schema(depth):
    if depth == 0 or rng.random() < .15:
        return rng.choice(LEAVES)()
    sub = lambda: schema(depth - 1)
    kind = rng.choice(["allOf", "anyOf", "oneOf", "not", "if", "object", "list", "and", "contains", "dependent",
                       "patterns", "names", "unevaluated", "unevaluated items"])
    if kind in ("allOf", "anyOf", "oneOf"):
        return {kind: [sub() for _ in range(rng.choice([2, 2, 3]))]}
    if kind == "not":
        return {"not": sub()}
    if kind == "if":
        return {"if": sub(), "then": sub(), "else": sub()}
    if kind == "object":
        out = {"type": "object", "properties": {n: sub() for n in rng.sample("abc", rng.choice([1, 2, 3]))}}
        if rng.random() < .5:
            out["required"] = rng.sample("abc", 1)
        if rng.random() < .6:
            out["additionalProperties"] = rng.choice([False, True, sub()])
        return out
    if kind == "list":
        out = {"type": "array"}
        if rng.random() < .4:
            out["prefixItems"] = [sub()]
        if rng.random() < .7:
            out["items"] = rng.choice([sub(), False, True])
        return out
    if kind == "contains":
        out = {"type": "array", "contains": sub()}
        if rng.random() < .4:
            out["minContains"] = rng.choice([0, 1, 2])
        if rng.random() < .4:
            out["maxContains"] = rng.choice([1, 2])
        return out
    if kind == "dependent":
        return rng.choice([{"dependentRequired": {"a": ["b"]}}, {"dependentSchemas": {"a": sub()}}])
    if kind == "patterns":
        out = {"type": "object", "patternProperties": {"^a": sub()}}
        return {**out, "additionalProperties": rng.choice([False, sub()])} if rng.random() < .5 else out
    if kind == "names":
        return {"type": "object", "propertyNames": {"pattern": "^[ab]"}}
    if kind == "unevaluated":
        beside = rng.choice(["allOf", "anyOf", "oneOf"])
        return {"properties": {"a": sub()}, beside: [{"properties": {n: sub()}} for n in rng.sample("abc", 2)],
                "unevaluatedProperties": rng.choice([False, sub()])}
    if kind == "unevaluated items":
        return {"type": "array", rng.choice(["allOf", "anyOf", "oneOf"]): [{"prefixItems": [sub()]}, {"contains": sub()}],
                "unevaluatedItems": rng.choice([False, sub()])}
    first, second = sub(), sub()
    return {**first, **second} if isinstance(first, dict) and isinstance(second, dict) else first


def instance(depth=2):
    kind = rng.random()
    if depth == 0 or kind < .5:
        return rng.choice(SCALARS)
    if kind < .75:
        return {name: instance(depth - 1) for name in rng.sample(["a", "b", "c", "aa", "x"], rng.randrange(4))}
    return [instance(depth - 1) for _ in range(rng.randrange(4))]


def schemas(count):
    cells, refusals, wrong, missed = collections.Counter(), collections.Counter(), [], []
    for _ in range(count):
        given = schema(3)
        validator = jsonschema.Draft202012Validator(given)
        values = [instance() for _ in range(40)]
        got = ask("schema", json.dumps(given), [json.dumps(v, separators=(",", ":")) for v in values], 40)
        if not got["ok"]:
            is_empty = "no finite JSON value" in got["message"]
            if is_empty:
                cells["empty"] += 1
                missed += [(given, v) for v in values if validator.is_valid(v)]
            else:
                cells["refused"] += 1
                refusals[got["message"].split(": ")[-1][:70]] += 1
            continue
        cells["compiled"] += 1
        for value, match in zip(values, got["match"]):
            is_in, is_valid = match != "0", validator.is_valid(value)
            cells[("valid" if is_valid else "invalid") + (" accepted" if is_in else " not accepted")] += 1
            if is_in and not is_valid:
                wrong.append((given, value))
            if is_valid and not is_in:
                missed.append((given, value))
        for sample in got["samples"]:
            cells["samples"] += 1
            try:
                value = json.loads(sample)
                is_valid = validator.is_valid(value)
            except OverflowError:
                continue
            # Numbers that are other floats: the other validator's, not ours.
            if not is_valid and not re.search(r"[0-9.]{16}|\.[0-9]*0(?![0-9])|\.[0-9]{12}|[eE]", sample):
                wrong.append((given, sample))
    print(dict(cells), refusals.most_common(8))
    short = lambda pairs: sorted(pairs, key=lambda p: len(json.dumps(p)))
    for pair in short(wrong)[:8]:
        print("WRONG", json.dumps(pair[0]), json.dumps(pair[1]))
    for pair in short([m for m in missed if not isinstance(m[1], dict)])[:4] + short(missed)[:4]:
        print("missed", json.dumps(pair[0]), json.dumps(pair[1]))
    return not wrong


def expression(depth):
    if depth == 0 or rng.random() < .3:
        return rng.choice(["a", "b", ".", "[ab]", "[^a]", r"\s", r"\S", r"\w", r"\W", r"\d", "^", "$", r"\n", r"[^\s]",
                           r"[^\W]", r"\u{61}", r"\x62", r"[\]a]", r"\p{L}", r"\P{Ll}", "", "[]", "[^]", r"\cJ", "-",
                           r"\b", r"\B"])
    kind, first = rng.random(), expression(depth - 1)
    if kind < .35:
        return first + expression(depth - 1)
    if kind < .55:
        return f"(?:{first}|{expression(depth - 1)})"
    if kind < .65:
        return f"({rng.choice(['?=', '?!', '?<=', '?<!'])}{first})"
    return f"({first})" + rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,3}?", "{2,}", "*?", "+?", "{0}"])


# A match begins at each character, as the standard has it: Node itself looks between the halves of a pair, too.
NODE = """const rows = JSON.parse(require('fs').readFileSync(0));
const found = (re, t) => { for (let i = 0; ; i += t.codePointAt(i) > 0xffff ? 2 : 1) { re.lastIndex = i
  if (re.test(t)) return true
  if (i >= t.length) return false } }
console.log(JSON.stringify(rows.map(([p, texts]) => { let re; try { re = new RegExp(p, 'uy') } catch { return null }
  return texts.map((t) => found(re, t) ? '1' : '0').join('') })))"""


def expressions(count):
    texts = ["".join(t) for n in range(5) for t in itertools.product("ab\n", repeat=n)]
    texts += ["é", "\u2028", "aé", "\u00a0", "\ufeffb", "A_9", "😀", "a😀b", "1", "\r\n", "-a"]
    rows = [[expression(4), texts] for _ in range(count)]
    asked = json.dumps(rows).encode()
    node = json.loads(subprocess.run(["node", "-e", NODE], input=asked, stdout=subprocess.PIPE, check=True).stdout)
    cells, wrong = collections.Counter(), []
    for (source, _), theirs in zip(rows, node):
        ours = ask("expression", source, texts, flags="s")
        is_empty = not ours["ok"] and "matches no text" in ours["message"]
        if not ours["ok"] and not is_empty:
            cells["refused, Node too" if theirs is None else "refused: " + ours["message"].split(": ", 1)[-1][:30]] += 1
            continue
        match = "0" * len(texts) if is_empty else ours["match"]
        cells["compared" if theirs is not None else "Node alone refuses"] += 1
        cells["strings"] += len(texts)
        wrong += [(source, t, m) for t, m, n in zip(texts, match, theirs or match) if m != n]
    print(dict(cells))
    for item in sorted(wrong, key=lambda w: len(w[0]))[:12]:
        print("DIFFERENT", *map(repr, item))
    return not wrong


sys.exit(not {"schemas": schemas, "expressions": expressions}[sys.argv[2]](int(sys.argv[4])))
