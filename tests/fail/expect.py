#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if a file is refused by the compiler for the reason that the file itself states.

usage: expect.py FILE -- COMPILER ARG...
       expect.py --self-test -- COMPILER ARG...

The reason is a line `// expect: <regular expression>` anywhere in the file; with several such lines
all of them must match. A fatal error (a header that is not found) is the reason only if such a line
says so. `// flags: <argument>...` are for the compiler, and it may say no more lines than a line
`// lines: <number>` allows.
"""
import os
import re
import subprocess
import sys
import tempfile


def complaint(path, command):
    """What is wrong with the file as a test, or None."""
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def said_of(what):
        return re.findall(rf"^\s*// {what}: (.+?)\s*$", text, re.MULTILINE)

    expected = said_of("expect")
    flags = " ".join(said_of("flags")).split()
    if not expected:
        return "no line `// expect: <regex>`"
    # Messages in English, whatever the locale of the machine.
    run = subprocess.run(command + flags + [path], capture_output=True, text=True, check=False,
                         stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    # Compilers quote the source; the expectation must not match itself.
    said = "\n".join(line for line in (run.stdout + run.stderr).splitlines() if "// expect:" not in line)
    if run.returncode == 0:
        return "it compiles"
    if "fatal error:" in said and not any("fatal error" in pattern for pattern in expected):
        return "it does not get as far as the rule:\n" + said
    for pattern in expected:
        if not re.search(pattern, said):
            return f"no message matches '{pattern}':\n{said}"
    lines = len(said.splitlines())
    if any(lines > int(most) for most in said_of("lines")):
        return f"{lines} lines are too many:\n{said}"
    return None


def self_test(command):
    """The judge must not let everything pass."""
    rule = 'static_assert(sizeof(int) == 0, "an int has a size");\n'
    cases = {
        "refused": ("// expect: an int has (a|no) size\n" + rule, None),
        "accepted": ("// expect: an int has a size\nint main() {}\n", "it compiles"),
        "other_reason": ("// expect: a long has a size\n" + rule, "no message matches"),
        "quotes_itself": ('// expect: a long has a size\nint x = "" // expect: a long has a size\n;\n',
                          "no message matches"),
        "second_reason": ("// expect: an int has a size\n// expect: nothing like it\n" + rule,
                          "no message matches"),
        "missing_header": ("// expect: no_such\n#include <unmask/no_such.hpp>\n", "does not get as far"),
        "no_reason": (rule, "no line"),
        "flags": ("// expect: an int has a size\n// flags: -DRULE=1\n#if RULE\n" + rule + "#endif\n", None),
        "few_lines": ("// expect: an int has a size\n// lines: 9\n" + rule, None),
        "many_lines": ("// expect: an int has a size\n// lines: 9\n" + rule * 12, "too many"),
    }
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, verdict) in cases.items():
            path = os.path.join(folder, name + ".fail.cpp")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            got = complaint(path, command)
            if (got is None) != (verdict is None) or (verdict and verdict not in got):
                print(f"{name}: expected {verdict!r}, got {got!r}")
                failures += 1
    return failures


def main(arguments):
    if len(arguments) < 3 or arguments[1] != "--":
        sys.exit(__doc__)
    if arguments[0] == "--self-test":
        sys.exit(self_test(arguments[2:]) != 0)
    wrong = complaint(arguments[0], arguments[2:])
    if wrong:
        sys.exit(f"{arguments[0]}: {wrong}")


main(sys.argv[1:])
