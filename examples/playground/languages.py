#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes languages.js, the tables of the playground's menu: a page has no compiler of expressions.

usage: python3 examples/playground/languages.py     needs outlines-core
"""
import base64
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "bindings" / "python" / "src" / "unmask"))

import _compile  # noqa: E402

MEMBER = r'"[a-z]{1,8}":("[A-Za-z]{1,12}"|[0-9]{1,4})'
LANGUAGES = {
    "a number": "[0-9]{1,4}",
    "a flat JSON object": r"\{" + MEMBER + "(," + MEMBER + r")*\}",
    "JSON with age and name": r'\{"age":[0-9]{1,3},"name":"[A-Z][a-z]{1,11}"\}',
    "numbers of two digits": "[0-9]{2}( [0-9]{2})*",
}


def main():
    out = []
    for name, expression in LANGUAGES.items():
        table = base64.b64encode(_compile.file_of(_compile.table_of(expression))).decode()
        out.append({"name": name, "expression": expression, "table": table})
    text = json.dumps(out, indent=1)
    (HERE / "languages.js").write_text(
        "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n// Written by languages.py.\n"
        f"globalThis.playgroundLanguages = {text};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
