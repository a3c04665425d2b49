# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A JSON Schema in a form of which outlines-core makes an expression that keeps every keyword.

By itself outlines-core passes over what it does not know (minimum, uniqueItems, not), joins the members of allOf, and lets
formats and patterns write characters that a JSON string must escape. Here each keyword is kept, written in another way,
or refused by its name and place. The language may be smaller than the schema's, and is never larger.
"""
from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

MOST_NESTED = 3  # of one reference within itself
ANY_DEPTH = 2  # of values of any kind
SPACE = "\ue002"  # stands for the space between elements
MOST_LISTED = 10_000  # multiples that are written one by one
MOST_CASES = 1_000  # of the lengths of a pattern's parts

TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
OF_TYPE = {
    "object": {"properties", "patternProperties", "additionalProperties", "propertyNames", "minProperties", "maxProperties",
               "required", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"},
    "array": {"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "minItems", "maxItems",
              "uniqueItems", "unevaluatedItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
OF_TYPE["integer"] = OF_TYPE["number"]
ANYWHERE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const", "$ref", "$dynamicRef", "$recursiveRef", "type"}
ASSERTIONS = ANYWHERE.union(*OF_TYPE.values())

_DAY = "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
_FOURTH = "(0[48]|[2468][048]|[13579][26])"
_YEAR = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_DATE = f"({_YEAR}-({_DAY})|([0-9]{{2}}{_FOURTH}|{_FOURTH}00)-02-29)"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_HOST = "[a-z0-9]+(-[a-z0-9]+)*([.][a-z0-9]+(-[a-z0-9]+)*)"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
FORMATS = {  # RFC 3339, 5321, 3986, 2673; some strings of a format are left out, none is another's
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "email": rf"[a-z0-9]+([.+_-][a-z0-9]+)*@{_HOST}+",
    "hostname": rf"{_HOST}*",
    "ipv4": rf"{_BYTE}([.]{_BYTE}){{3}}",
    "uri": rf"https?://{_HOST}*(:[1-9][0-9]{{0,3}})?(/[A-Za-z0-9._~-]*)*([?][A-Za-z0-9=&._~-]*)?(#[A-Za-z0-9._~-]*)?",
}


def any_json(depth: int, space: str) -> dict[str, str]:
    """Expressions of any value, object and array that are nested at most `depth` deep; depth is at least 1."""
    text = r'"([^"\\\x00-\x1F\x7F-\x9F]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
    scalar = value = rf"({text}|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null)"
    found = {}
    for _ in range(depth):
        pair = f"{text}{space}:{space}{value}"
        found["object"] = rf"\{{{space}({pair}({space},{space}{pair})*{space})?\}}"
        found["array"] = rf"\[{space}({value}({space},{space}{value})*{space})?\]"
        found["value"] = value = f"({scalar[1:-1]}|{found['object']}|{found['array']})"
    return found


def place_of(at: tuple[str, ...]) -> str:
    return "/" + "/".join(at) if at else "the schema"


class Refused(ValueError):
    """A schema that is not kept, with the place."""

    def __init__(self, at: tuple[str, ...], what: str):
        super().__init__(f"{place_of(at)}: {what}")


def kept(text: str) -> tuple[dict[str, Any], dict[str, str], list[tuple[str, str]]]:
    """The schema for outlines-core; expressions for the constants in it that stand for them; patterns, with their place."""
    if re.search(r"[\ue000-\ue002]|\\u[eE]00[0-2]", text):
        raise ValueError("the schema has a character of U+E000 to U+E002, which are in private use here")
    try:
        root = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the schema is no JSON: {error}") from None
    writer = _Writer(root)
    out = writer.kept(root, ())
    if out is None:
        raise ValueError("no finite JSON value obeys the schema")
    return out, writer.expressions, writer.patterns


class _Writer:
    def __init__(self, root: Any):
        self._root = root
        self._open: list[str] = []  # references that are being followed
        self.expressions: dict[str, str] = {}
        self.patterns: list[tuple[str, str]] = []

    def kept(self, schema: Any, at: tuple[str, ...]) -> dict[str, Any] | None:
        """A schema that outlines-core keeps; None if it is for no value."""
        if schema is True:
            return self._any("value")
        if schema is False:
            return None
        if not isinstance(schema, dict):
            raise Refused(at, f"a schema must be an object, true or false, got {json.dumps(schema)[:60]}")
        asserted = {k: v for k, v in schema.items() if k in ASSERTIONS}
        for keyword in ("then", "else"):
            if "if" not in asserted:
                asserted.pop(keyword, None)
        for keyword, follow in (("$ref", self._reference), ("enum", self._values), ("const", self._values),
                                ("anyOf", self._any_of), ("oneOf", self._one_of), ("allOf", self._all_of)):
            if keyword in asserted:
                return follow(asserted, at)
        types = asserted.pop("type", None)
        if types is None:
            types = [t for t, words in OF_TYPE.items() if words & set(asserted) and t != "integer"]
            if not types:
                self._only(asserted, set(), at)
                return self._any("value")
        types = [types] if isinstance(types, str) else types
        if not isinstance(types, list) or not types or any(t not in TYPES for t in types):
            raise Refused((*at, "type"), f"must be of {', '.join(TYPES)}, got {json.dumps(types)[:60]}")
        return self._alternatives([self._of_type(t, asserted, at) for t in types])

    def _only(self, asserted: dict[str, Any], known: set[str], at: tuple[str, ...]) -> None:
        """Refuses keywords that nothing here keeps."""
        for keyword in asserted:
            if keyword not in known:
                raise Refused((*at, keyword), "this keyword is not kept here; leave it out, or say it in another way")

    @staticmethod
    def _alternatives(found: list[dict[str, Any] | None]) -> dict[str, Any] | None:
        some = [s for s in found if s is not None]
        return None if not some else some[0] if len(some) == 1 else {"anyOf": some}

    def _constant(self, expression: str) -> dict[str, Any]:
        """A constant that stands for an expression."""
        name = f"\ue000{len(self.expressions)}\ue001"
        self.expressions[f'"{name}"'] = expression
        return {"const": name}

    def _any(self, kind: str) -> dict[str, Any]:
        """Any value, object or array."""
        return self._constant(any_json(ANY_DEPTH, SPACE)[kind])

    def _reference(self, asserted: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        self._only(asserted, {"$ref"}, at)
        name = asserted["$ref"]
        if not isinstance(name, str) or not re.match(r"#(/|\Z)", name):
            raise Refused((*at, "$ref"), f"must be a place in this schema, '#/...', got {json.dumps(name)[:60]}")
        if self._open.count(name) >= MOST_NESTED:
            return None
        found = self._place(name)
        if found is None:
            raise Refused((*at, "$ref"), f"{name!r} is no place in this schema")
        self._open.append(name)
        try:
            return self.kept(found, at)
        finally:
            self._open.pop()

    def _place(self, name: str) -> Any:
        """What a reference names; None if that is nothing."""
        found = self._root
        for part in filter(None, name[1:].split("/")):
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            else:
                found = found.get(part) if isinstance(found, dict) else None
        return found

    def _values(self, asserted: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        self._only(asserted, {"enum", "const", "type"}, at)
        values = asserted.get("enum", [asserted.get("const")])
        if not isinstance(values, list):
            raise Refused((*at, "enum"), "must be a list of values")
        if "const" in asserted:
            values = [v for v in values if _same(v, asserted["const"])]
        types = asserted.get("type", list(TYPES))
        values = [v for v in values if set(_types_of(v)) & set([types] if isinstance(types, str) else types)]
        return {"enum": [self._literal(v, at) for v in values]} if values else None

    def _literal(self, value: Any, at: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._literal(v, at) for v in value]
        if isinstance(value, dict):  # outlines-core takes keys as they are into its expression
            return {re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", _key(k)): self._literal(v, at) for k, v in value.items()}
        return value

    def _any_of(self, asserted: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        self._only(asserted, {"anyOf"}, at)
        return self._alternatives([self.kept(s, (*at, "anyOf", str(i))) for i, s in enumerate(self._list(asserted, "anyOf", at))])

    def _all_of(self, asserted: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        self._only(asserted, {"allOf"}, at)
        all_of = self._list(asserted, "allOf", at)
        if len(all_of) != 1:
            raise Refused((*at, "allOf"), "more than one schema at a time is not kept here; write them as one")
        return self.kept(all_of[0], (*at, "allOf", "0"))

    def _one_of(self, asserted: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        self._only(asserted, {"oneOf"}, at)
        one_of = self._list(asserted, "oneOf", at)
        for i, one in enumerate(one_of):
            if not all(self._apart(one, other) for other in one_of[:i]):
                raise Refused((*at, "oneOf"), "a value might obey two of them, which is not kept here; use anyOf, a type in each, or "
                                              "a required property with another constant in each")
        return self._alternatives([self.kept(s, (*at, "oneOf", str(i))) for i, s in enumerate(one_of)])

    def _apart(self, a: Any, b: Any) -> bool:
        """Whether no value obeys both schemas, as far as types, constants and required properties say."""
        a, b = self._followed(a), self._followed(b)
        values = [_listed(s) for s in (a, b)]
        if values[0] is not None and values[1] is not None:
            return not any(_same(x, y) for x in values[0] for y in values[1])
        if not self._kinds(a, MOST_NESTED) & self._kinds(b, MOST_NESTED):
            return True
        if a.get("type") != "object" or b.get("type") != "object":
            return False
        properties = [s.get("properties") if isinstance(s.get("properties"), dict) else {} for s in (a, b)]
        for name in set(properties[0]) & set(properties[1]):
            if all(isinstance(s.get("required"), list) and name in s["required"] for s in (a, b)):
                x, y = (_listed(self._followed(p[name])) for p in properties)
                if x is not None and y is not None and not any(_same(v, w) for v in x for w in y):
                    return True
        return False

    def _kinds(self, schema: Any, depth: int) -> set[str]:
        """The types that the values of a schema may have, at most."""
        schema = self._followed(schema)
        listed = _listed(schema)
        if listed is not None:
            found = {t for v in listed for t in _types_of(v)}
        elif "type" in schema:
            types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
            found = {t for t in types if isinstance(t, str)} if isinstance(types, list) else set(TYPES)
        else:
            parts = schema.get("anyOf") or schema.get("oneOf")
            if not isinstance(parts, list) or depth == 0:
                return set(TYPES)
            found = set().union(*(self._kinds(s, depth - 1) for s in parts))
        return found | {"integer", "number"} if found & {"integer", "number"} else found

    def _followed(self, schema: Any) -> dict[str, Any]:
        """The schema that references, and allOf with one member, lead to; one for anything if that is none."""
        for _ in range(100):
            if not isinstance(schema, dict):
                return {}
            if isinstance(schema.get("$ref"), str):
                schema = self._place(schema["$ref"])
            elif isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1 and not set(schema) & (ASSERTIONS - {"allOf"}):
                schema = schema["allOf"][0]
            else:
                return schema
        return {}

    @staticmethod
    def _list(asserted: dict[str, Any], keyword: str, at: tuple[str, ...]) -> list[Any]:
        if not isinstance(asserted[keyword], list) or not asserted[keyword]:
            raise Refused((*at, keyword), "must be a list of schemas, at least one")
        return asserted[keyword]

    def _of_type(self, kind: str, asserted: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        others = set().union(*OF_TYPE.values()) - OF_TYPE.get(kind, set())
        mine = {k: v for k, v in asserted.items() if k not in others}  # those of another type say nothing of this one
        if kind in ("boolean", "null"):
            self._only(mine, set(), at)
            return {"type": kind}
        return {"object": self._object, "array": self._array, "string": self._string,
                "integer": self._integer, "number": self._number}[kind](mine, at)

    def _object(self, mine: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        least, most = _count(mine, "minProperties", 0, at), _count(mine, "maxProperties", None, at)
        required, properties = mine.get("required", []), mine.get("properties", {})
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise Refused(at, "properties must be an object, and required a list")
        absent = [name for name in required if name not in properties]
        if absent:
            raise Refused((*at, "required"), f"{json.dumps(absent[0])} must be one of the properties")
        if properties:
            self._only(mine, {"properties", "required", "additionalProperties", "unevaluatedProperties", "minProperties",
                              "maxProperties"}, at)
            inside = {name: self.kept(s, (*at, "properties", name)) for name, s in properties.items()}
            if any(inside[name] is None for name in required):
                return None
            some = {_key(name): s for name, s in inside.items() if s is not None}
            if least > len(required) or (most is not None and most < len(some)):
                raise Refused((*at, "minProperties" if least > len(required) else "maxProperties"),
                              "the number of properties is not counted here; require them, or leave them out")
            if some:
                return {"type": "object", "properties": some, "required": [_key(name) for name in required]}
            most = 0
        self._only(mine, {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}, at)
        others = mine.get("additionalProperties", True)
        values = {} if others in (True, {}) else self.kept(others, (*at, "additionalProperties"))
        if values is None or most == 0:
            return {"type": "object", "maxProperties": 0} if least == 0 else None
        if least > 1 or most is not None:
            raise Refused((*at, "minProperties" if least > 1 else "maxProperties"),
                          "the number of properties is not counted here; name them in properties")
        if not values and least == 0:
            return self._any("object")
        return {"type": "object", **({"minProperties": 1} if least else {}), "additionalProperties": values or self._any("value")}

    def _array(self, mine: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        least, most = _count(mine, "minItems", 0, at), _count(mine, "maxItems", None, at)
        if mine.get("uniqueItems") is False or (most is not None and most < 2):
            mine.pop("uniqueItems", None)
        self._only(mine, {"items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems"}, at)
        if most is not None and most < least:
            return None
        if "prefixItems" in mine:
            items = [self.kept(s, (*at, "prefixItems", str(i))) for i, s in enumerate(self._list(mine, "prefixItems", at))]
            if len(items) < least or (most is not None and len(items) > most):
                raise Refused((*at, "prefixItems"), "an array has one item for each of these here; minItems and maxItems must agree")
            return None if None in items else {"type": "array", "prefixItems": items}
        if isinstance(mine.get("items"), list):
            raise Refused((*at, "items"), "a list is prefixItems in newer drafts; use that")
        if mine.get("items", True) in (True, {}) and least == 0 and most is None:
            return self._any("array")
        items = self.kept(mine.get("items", True), (*at, "items"))
        if items is None or most == 0:
            return {"type": "array", "maxItems": 0} if least == 0 else None
        return {"type": "array", "items": items, "minItems": least, **({} if most is None else {"maxItems": most})}

    def _string(self, mine: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        least, most = _count(mine, "minLength", 0, at), _count(mine, "maxLength", None, at)
        self._only(mine, {"minLength", "maxLength", "pattern", "format"}, at)
        if most is not None and most < least:
            return None
        if "format" in mine and ("pattern" in mine or least > 0 or most is not None):
            raise Refused((*at, "format"), "is kept here without a pattern and a length")
        if "pattern" in mine:
            if not isinstance(mine["pattern"], str):
                raise Refused((*at, "pattern"), "must be an expression")
            pattern = _whole_pattern(mine["pattern"])
            if least > 0 or most is not None:
                pattern = _of_length(pattern, least, most, (*at, "pattern"))
                if pattern is None:
                    return None
            written = _escaping(pattern, (*at, "pattern"))
            self.patterns.append((written, place_of((*at, "pattern"))))
            return self._constant(f'"(?:{written})"')
        if "format" in mine:
            if mine["format"] not in FORMATS:
                raise Refused((*at, "format"), f"must be one of {', '.join(FORMATS)}, got {json.dumps(mine['format'])[:60]}")
            return self._constant(f'"{FORMATS[mine["format"]]}"')
        if least == 0 and most is None:
            return {"type": "string"}
        return {"type": "string", "minLength": least, **({} if most is None else {"maxLength": most})}

    def _bounds(self, mine: dict[str, Any], at: tuple[str, ...]) -> tuple[float | None, bool, float | None, bool]:
        """The least value and whether it is left out, and the greatest."""
        for keyword in sorted(OF_TYPE["number"] & set(mine)):
            if isinstance(mine[keyword], bool) or not isinstance(mine[keyword], (int, float)):
                raise Refused((*at, keyword), f"must be a number, got {json.dumps(mine[keyword])[:60]}")
            if not math.isfinite(mine[keyword]):
                raise Refused((*at, keyword), f"must be finite, got {mine[keyword]}")
        low = max(((mine[k], k == "exclusiveMinimum") for k in ("minimum", "exclusiveMinimum") if k in mine), default=(None, False))
        high = min(((mine[k], k != "exclusiveMaximum") for k in ("maximum", "exclusiveMaximum") if k in mine), default=(None, True))
        return low[0], low[1], high[0], not high[1]

    def _integer(self, mine: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        low, above, high, below = self._bounds(mine, at)
        self._only(mine, OF_TYPE["integer"], at)
        least = None if low is None else math.floor(low) + 1 if above else math.ceil(low)
        most = None if high is None else math.ceil(high) - 1 if below else math.floor(high)
        if least is not None and most is not None and most < least:
            return None
        step = mine.get("multipleOf", 1)
        if step != 1:
            if step != int(step) or step < 1 or least is None or most is None or (most - least) / step > MOST_LISTED:
                raise Refused((*at, "multipleOf"), f"is kept for a whole number, between a minimum and a maximum, up to {MOST_LISTED} of them")
            values = list(range(-(-least // int(step)) * int(step), most + 1, int(step)))
            return {"enum": values} if values else None
        if least is None and most is None:
            return {"type": "integer"}
        return self._constant(f"({_whole(least, most)})")

    def _number(self, mine: dict[str, Any], at: tuple[str, ...]) -> dict[str, Any] | None:
        low, above, high, below = self._bounds(mine, at)
        self._only(mine, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}, at)
        if low is None and high is None:
            return {"type": "number"}
        if low is not None and high is not None and (low > high or (low == high and (above or below))):
            return None
        parts = []
        if high is None or high > 0 or (high == 0 and not below):
            from_zero = low is None or low < 0
            parts.append(_magnitudes(0 if from_zero else low, above and not from_zero, high, below))
        if low is None or low < 0:
            to_zero = high is None or high > 0
            parts.append("-" + _magnitudes(0 if to_zero else -high, below and not to_zero, None if low is None else -low, above))
        return self._constant(f"({'|'.join(parts)})")


def _key(name: str) -> str:
    """A key as it stands within quotes."""
    return json.dumps(name, ensure_ascii=False)[1:-1]


def _types_of(value: Any) -> tuple[str, ...]:
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, (int, float)):
        return ("integer", "number") if value == int(value) else ("number",)
    return ({str: "string", list: "array"}.get(type(value), "object"),)


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _count(mine: dict[str, Any], keyword: str, usual: Any, at: tuple[str, ...]) -> Any:
    value = mine.get(keyword, usual)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise Refused((*at, keyword), f"must be a whole number, at least 0, got {json.dumps(value)[:60]}")
    return value


def _listed(schema: dict[str, Any]) -> list[Any] | None:
    """The values of a schema that lists them; None of another."""
    if isinstance(schema.get("enum"), list):
        return schema["enum"]
    return [schema["const"]] if "const" in schema else None


_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": " "}  # ECMA-262's, of characters that a JSON string does not escape


def _whole_pattern(pattern: str) -> str:
    """The pattern for the whole of a string, without anchors."""
    whole = pattern.removeprefix("^")
    return whole[:-1] if re.search(r"(?<!\\)(\\\\)*\$\Z", whole) else whole


def _of_length(pattern: str, least: int, most: int | None, at: tuple[str, ...]) -> str | None:
    """The strings of a pattern that have from `least` to `most` characters; None if there are none.

    Of a pattern that is characters and classes one after the other, each with its repetition: how often each is there
    decides the length, and all but the last that may vary are written case by case.
    """
    part = re.compile(r"(\\[^bBpPkuxc0-9]|\[\^?(?:\\.|[^\]\\])+\]|[^\\\[\](){}|*+?^$])(\*|\+|\?|\{(\d{1,9})(,?)(\d{0,9})\})?(?![*+?{])")
    parts: list[tuple[str, int, int | None]] = []
    end = 0
    for found in part.finditer(pattern):
        if found.start() != end:
            break
        end = found.end()
        how, low, comma, high = found.group(2), found.group(3), found.group(4), found.group(5)
        if low is not None:
            parts.append((found.group(1), int(low), int(low) if not comma else int(high) if high else None))
        else:
            parts.append((found.group(1), *{None: (1, 1), "*": (0, None), "+": (1, None), "?": (0, 1)}[how]))
    if end != len(pattern):
        raise Refused(at, "with a length it may be characters and classes and their repetitions, without groups and '|'")
    cases = 0

    def written(of: list[tuple[str, int, int | None]]) -> str:
        return "".join(c if (low, high) == (1, 1) else "" if high == 0 else f"{c}{{{low}}}" if low == high
                       else f"{c}{{{low},{'' if high is None else high}}}" for c, low, high in of)

    def cut(of: list[tuple[str, int, int | None]], least: int, most: int | None) -> str | None:
        nonlocal cases
        cases += 1
        if cases > MOST_CASES:
            raise Refused(at, f"its parts have more than {MOST_CASES} lengths that add up to one from minLength to maxLength")
        shortest, longest = sum(low for _, low, _ in of), None if any(high is None for _, _, high in of) else sum(high or 0 for _, _, high in of)
        if (most is not None and shortest > most) or (longest is not None and longest < least):
            return None
        if shortest >= least and (most is None or (longest is not None and longest <= most)):
            return written(of)
        at_part = next(i for i, (_, low, high) in enumerate(of) if low != high)
        head, (c, low, high), rest = of[:at_part], of[at_part], of[at_part + 1:]
        others = shortest - low
        last = high if most is None else most - others if high is None else min(high, most - others)
        if all(low == high for _, low, high in rest):
            return written([*head, (c, max(low, least - others), last), *rest])
        before, kept = sum(low for _, low, _ in head), []
        n = low
        while last is None or n <= last:
            if most is None and n + others >= least:  # the rest is free from here on
                kept.append(written([(c, n, high), *rest]))
                break
            after = cut(rest, max(0, least - before - n), None if most is None else most - before - n)
            if after is not None:
                kept.append(written([(c, n, n)]) + after)
            n += 1
        return f"{written(head)}(?:{'|'.join(kept)})" if kept else None

    return cut(parts, least, most)


def _escaping(whole: str, at: tuple[str, ...]) -> str:
    """The expression, whose 'any' and 'any but' leave out what a JSON string must escape."""
    never = r'"\\\x00-\x1F'
    out, in_class = [], False
    for token in re.findall(r"\\.|\[\^?\]?|\]|.", whole, flags=re.DOTALL):
        kind = token[1:] if token[0] == "\\" else ""
        if in_class:
            in_class = token != "]"
            token = _CLASSES.get(kind, token)
        elif token in ("[]", "[^]"):
            raise Refused(at, f"{token} means one thing in JSON Schema and another to the compiler; escape the bracket")
        elif token[0] == "[":
            in_class = True
            token = "[^" + never + token[2:] if token.startswith("[^") else token
        elif token == ".":
            token = f"[^{never}]"
        elif kind in _CLASSES:
            token = f"[{_CLASSES[kind]}]"
        elif kind in ("D", "W", "S"):
            token = f"[^{token.lower()}{never}]"  # of any script, so that it is neither here nor there
        out.append(token)
    return "".join(out)


def _magnitudes(low: float, above: bool, high: float | None, below: bool) -> str:
    """Decimal numbers without a sign from `low` to `high`, both at least 0; above and below: without them."""
    first, after = _decimal(low)
    if high is None:
        return rf"(({_whole(first + 1, None)})(\.[0-9]+)?|{first}{_fraction(after, above, None, False)})"
    last, until = _decimal(high)
    if first == last:
        return f"({first}{_fraction(after, above, until, below)})"
    parts = [f"{first}{_fraction(after, above, None, False)}"]
    if first + 1 < last:
        parts.append(rf"({_whole(first + 1, last - 1)})(\.[0-9]+)?")
    to_last = _fraction("", False, until, below)
    return f"({'|'.join(parts if to_last is None else [*parts, f'{last}{to_last}'])})"


def _decimal(value: float) -> tuple[int, str]:
    """The whole part of a number, at least 0, and the digits of its fraction, of which the last is not 0."""
    whole, _, fraction = format(Decimal(repr(value)), "f").partition(".")
    return int(whole), fraction.rstrip("0")


def _fraction(low: str, above: bool, high: str | None, below: bool) -> str | None:
    """A point and digits, or neither, from the fraction `low` to `high`; None if there is none."""
    tail = _tail(low, above, high, below)
    return None if tail is None else rf"\.{tail}" if low or above else r"(\.0+)?" if high == "" else rf"(\.{_nonempty(low, above, high, below)})?"


def _tail(low: str, above: bool, high: str | None, below: bool) -> str | None:
    """As many digits as one likes, from `low` to `high`, which stand for what follows the same digits; None if there are none."""
    if high == "":
        return None if low or above or below else "0*"
    if high is None and low == "":
        return "[0-9]*[1-9][0-9]*" if above else "[0-9]*"
    some = _nonempty(low, above, high, below)
    return some if low or above else f"{some}?"


def _nonempty(low: str, above: bool, high: str | None, below: bool) -> str:
    """The same with at least one digit; `high` is not empty."""
    first, last = int(low[:1] or 0), 10 if high is None else int(high[0])
    until = None if high is None else high[1:]
    if first == last:
        return f"({first}{_tail(low[1:], above, until, below)})"
    parts = [f"{first}{_tail(low[1:], above, None, False)}"]
    if first + 1 < last:
        parts.append(f"[{first + 1}-{last - 1}][0-9]*")
    to_last = None if high is None else _tail("", False, until, below)
    return f"({'|'.join(parts if to_last is None else [*parts, f'{last}{to_last}'])})"


def _whole(least: int | None, most: int | None) -> str:
    """Whole numbers from `least` to `most`."""
    parts = []
    if least is None or least < 0:
        parts.append(f"-({_digits(max(1, -most if most is not None else 1), None if least is None else -least)})")
    if most is None or most >= 0:
        parts.append(_digits(max(0, least or 0), most))
    return "|".join(parts)


def _digits(least: int, most: int | None) -> str:
    """Whole numbers, at least 0, in decimal."""
    a = str(least)
    if most is None:
        longer = f"[1-9][0-9]{{{len(a)},}}"
        return f"{_same_length(a, '9' * len(a))}|{longer}"
    b = str(most)
    if len(a) == len(b):
        return _same_length(a, b)
    between = [f"[1-9][0-9]{{{len(a)},{len(b) - 2}}}"] if len(b) - len(a) > 1 else []
    return "|".join([_same_length(a, "9" * len(a)), *between, _same_length("1" + "0" * (len(b) - 1), b)])


def _same_length(a: str, b: str) -> str:
    """Strings of digits from `a` to `b`, which are as long."""
    if a == b:
        return a
    rest = len(a) - 1
    if a[0] == b[0]:
        return f"{a[0]}({_same_length(a[1:], b[1:])})"
    if rest == 0:
        return f"[{a}-{b}]"
    first, last = int(a[0]), int(b[0])
    parts = []
    if a[1:] != "0" * rest:
        parts.append(f"{first}({_same_length(a[1:], '9' * rest)})")
        first += 1
    if b[1:] != "9" * rest:
        parts.append(f"{last}({_same_length('0' * rest, b[1:])})")
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}][0-9]{{{rest}}}")
    return "|".join(parts)
