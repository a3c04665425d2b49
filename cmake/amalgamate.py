#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the CPU side of the library as one header.

usage: amalgamate.py OUTPUT

The file stands for <unmask/unmask.hpp> and what that leaves to others of APART; it needs nothing but
the standard library. Every header is taken in once, where it is first included; the text of a
kernel, which has no `#pragma once`, each time that it is.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r"^(\s*#\s*)include\s*(?:<([^>]*)>|(UNMASK_KERNEL)\b)")
KERNEL = re.compile(r"^\s*#\s*define UNMASK_KERNEL <([^>]*)>")
LICENSE = "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
APART = ["constraint.hpp", "host/thread_pool.hpp", "policy/commit/profile_json.hpp"]
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "include"


class Amalgamation:
    def __init__(self):
        self.seen = set()
        self.kernel = None
        self.lines = []

    def take(self, name):
        text = (FOLDER / name).read_text(encoding="utf-8").splitlines()
        once = "#pragma once" in text
        if once and name in self.seen:
            return
        self.seen.add(name)
        self.lines.append(f"// ---- {name}")
        for line in text:
            if line in (LICENSE, "#pragma once"):
                continue
            if match := KERNEL.match(line):
                self.kernel = match[1]
            match = INCLUDE.match(line)
            header = match and (self.kernel if match[3] else match[2])
            if header and header.startswith("unmask/"):
                self.take(header)
            else:
                self.lines.append(line)


def version():
    text = (FOLDER / "unmask/version.hpp").read_text(encoding="utf-8")
    return ".".join(
        re.search(rf"^#define UNMASK_VERSION_{part} +(\d+)$", text, re.M)[1]
        for part in ("MAJOR", "MINOR", "PATCH"))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    whole = Amalgamation()
    for name in ["unmask.hpp", *APART]:
        whole.take("unmask/" + name)
    head = [LICENSE, "//", f"// unmask {version()} in one file, made by cmake/amalgamate.py: do not "
            "edit.", "#pragma once", ""]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(head + whole.lines)) + "\n"
    output = pathlib.Path(sys.argv[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")


main()
