#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes languages.js, the tables of the playground's menu.

usage: python3 examples/playground/languages.py     needs the package unmask
"""
import base64
import json
import pathlib
import tempfile

from unmask import constraints

HERE = pathlib.Path(__file__).resolve().parent
MEMBER = r'"[a-z]{1,8}":("[A-Za-z]{1,12}"|[0-9]{1,4})'
LANGUAGES = {
    "a number": "[0-9]{1,4}",
    "a flat JSON object": r"\{" + MEMBER + "(," + MEMBER + r")*\}",
    "JSON with age and name": r'\{"age":[0-9]{1,3},"name":"[A-Z][a-z]{1,11}"\}',
    "numbers of two digits": "[0-9]{2}( [0-9]{2})*",
}


def main():
    out = []
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b""], mask_token=256)
    for name, expression in LANGUAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "table.dfa")
            constraints.save(constraints.regex(expression, words), path)
            table = base64.b64encode(path.read_bytes()).decode()
        out.append({"name": name, "expression": expression, "table": table})
    text = json.dumps(out, indent=1)
    (HERE / "languages.js").write_text(
        "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n// Written by languages.py.\n"
        f"globalThis.playgroundLanguages = {text};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
