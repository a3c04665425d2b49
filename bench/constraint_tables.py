#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the inputs of bench/constraints: automata over bytes, and the tokens of a vocabulary.

usage: constraint_tables.py FOLDER [TOKENS.tiktoken]

Writes FOLDER/<language>.dfa and, from a file of tiktoken, a token in base64 in each line, FOLDER/vocabulary. Needs
the package unmask with its extra [constraints].
"""
import base64
import json
import pathlib
import sys

from outlines_core import json_schema
from unmask import constraints

PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
          "required": ["name", "age"]}
ITEM = {"type": "object", "properties": {"sku": {"type": "string", "maxLength": 20}, "count": {"type": "integer"},
                                         "price": {"type": "number"}}, "required": ["sku", "count", "price"]}
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "date": {"type": "string", "format": "date"},
        "status": {"enum": ["open", "paid", "shipped"]},
        "customer": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 60},
                                                      "vip": {"type": "boolean"}}, "required": ["name", "vip"]},
        "items": {"type": "array", "items": ITEM},
        "note": {"anyOf": [{"type": "string", "maxLength": 60}, {"type": "null"}]},
        "total": {"type": "number"},
    },
    "required": ["id", "date", "status", "customer", "items", "note", "total"],
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    options = {"states": 1 << 16, "timeout": 300.0, "memory": 8 << 30}
    languages = {
        "date": constraints.regex("[0-9]{4}-[0-9]{2}-[0-9]{2}", words, **options),
        "person": constraints.regex(json_schema.build_regex_from_schema(json.dumps(PERSON)), words, **options),
        "json2": constraints.json_object(words, depth=2, **options),
        "json3": constraints.json_object(words, depth=3, **options),
        "order": constraints.regex(json_schema.build_regex_from_schema(json.dumps(ORDER)), words, **options),
    }
    for name, language in languages.items():
        constraints.save(language, folder / f"{name}.dfa")
    if len(sys.argv) > 2:
        with open(folder / "vocabulary", "wb") as out:
            for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
                token = base64.b64decode(line.split()[0])
                out.write(len(token).to_bytes(4, "little") + token)


if __name__ == "__main__":
    main()
