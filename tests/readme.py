# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that every C++ block of README.md is a region of a compiled example.

A block is preceded by `<!-- region FILE NAME -->`; the region stands in FILE between lines that hold
`[NAME]` and `[/NAME]`. With --write the blocks are brought up to date instead.
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- region (\S+) (\S+) -->\n```cpp\n(.*?)```\n", re.S)


def region(file, name):
    lines = (ROOT / file).read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if f"[{name}]" in line)
    last = next(i for i, line in enumerate(lines) if f"[/{name}]" in line)
    return textwrap.dedent("\n".join(lines[first + 1 : last])).strip("\n") + "\n"


def main():
    readme = ROOT / "README.md"
    text = readme.read_text()
    fresh = BLOCK.sub(
        lambda m: f"<!-- region {m[1]} {m[2]} -->\n```cpp\n{region(m[1], m[2])}```\n", text)
    if "--write" in sys.argv:
        readme.write_text(fresh)
        return 0
    if text.count("```cpp") != len(BLOCK.findall(text)):
        print("README.md: a C++ block without `<!-- region FILE NAME -->` before it")
        return 1
    if fresh != text:
        print("README.md: a C++ block differs from its example; run tests/readme.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
