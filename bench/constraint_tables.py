#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the inputs of bench/constraints: automata over bytes, and the tokens of a vocabulary.

usage: constraint_tables.py FOLDER [TOKENS.tiktoken]

Writes FOLDER/<language>.dfa and, from a file of tiktoken, a token in base64 in each line, FOLDER/vocabulary. Needs
the package unmask.
"""
import base64
import pathlib
import sys

from unmask import constraints

PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
          "required": ["name", "age"]}
KINDS = [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"enum": ["low", "middle", "high"]},
         {"type": "number"}, {"type": "array", "items": {"type": "string"}}, {"type": "string", "format": "date"}]
NAMES = ("name city street country phone email birthday height weight status active priority language currency timezone "
         "employer salary manager department project").split()
RECORD = {"type": "object", "properties": {n: KINDS[i % len(KINDS)] for i, n in enumerate(NAMES)}, "required": NAMES}


def order(most, few):
    """An order whose strings have at most so many characters."""
    item = {"type": "object", "properties": {"sku": {"type": "string", "maxLength": few}, "count": {"type": "integer"},
                                             "price": {"type": "number"}}, "required": ["sku", "count", "price"]}
    customer = {"type": "object", "properties": {"name": {"type": "string", "maxLength": most},
                                                 "vip": {"type": "boolean"}}, "required": ["name", "vip"]}
    properties = {
        "id": {"type": "string", "format": "uuid"},
        "date": {"type": "string", "format": "date"},
        "status": {"enum": ["open", "paid", "shipped"]},
        "customer": customer,
        "items": {"type": "array", "items": item},
        "note": {"anyOf": [{"type": "string", "maxLength": most}, {"type": "null"}]},
        "total": {"type": "number"},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    options = {"states": 1 << 16, "timeout": 300.0, "memory": 8 << 30}
    languages = {
        "date": constraints.regex("[0-9]{4}-[0-9]{2}-[0-9]{2}", words, **options),
        "json2": constraints.json_object(words, depth=2, **options),
        "json3": constraints.json_object(words, depth=3, **options),
    }
    schemas = {"person": PERSON, "record": RECORD, "order12": order(12, 4), "order26": order(26, 8), "order": order(60, 20)}
    for name, schema in schemas.items():
        languages[name] = constraints.json_schema(schema, words, **options)
    for name, language in languages.items():
        constraints.save(language, folder / f"{name}.dfa")
    if len(sys.argv) > 2:
        with open(folder / "vocabulary", "wb") as out:
            for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
                token = base64.b64decode(line.split()[0])
                out.write(len(token).to_bytes(4, "little") + token)


if __name__ == "__main__":
    main()
