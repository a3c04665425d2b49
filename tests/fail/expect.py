#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes if a program is refused by the compiler for the reason that it states itself.

usage: expect.py FILE CASE -- COMPILER ARG...
       expect.py --self-test -- COMPILER ARG...

A file holds programs. Each begins at a line `// case: <name>` and ends before the next one.
The reason is a line `// expect: <regular expression>` anywhere in the program; with several such lines
all of them must match. A fatal error (a header that is not found) is the reason only if such a line
says so. `// flags: <argument>...` are for the compiler, and it may say no more lines than a line
`// lines: <number>` allows.
"""
import os
import re
import subprocess
import sys
import tempfile


def program(path, name):
    """The text of a case, with as many empty lines before it as the file has lines there."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("// case: ")]
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        if lines[start] == f"// case: {name}":
            return "\n" * start + "\n".join(lines[start:end]) + "\n"
    return None


def complaint(path, name, command):
    """What is wrong with a case of the file as a test, or None."""
    text = program(path, name)
    if text is None:
        return f"no line `// case: {name}`"

    def said_of(what):
        return re.findall(rf"^\s*// {what}: (.+?)\s*$", text, re.MULTILINE)

    expected = said_of("expect")
    flags = " ".join(said_of("flags")).split()
    if not expected:
        return "no line `// expect: <regex>`"
    # Messages in English, whatever the locale of the machine.
    with tempfile.TemporaryDirectory() as folder:
        case = os.path.join(folder, name + ".cpp")
        with open(case, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run(command + flags + [case], capture_output=True, text=True, check=False,
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
        path = os.path.join(folder, "programs.fail.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"// case: {name}\n{text}" for name, (text, _) in cases.items()))
        for name, verdict in [*((name, verdict) for name, (_, verdict) in cases.items()), ("none", "no line")]:
            got = complaint(path, name, command)
            if (got is None) != (verdict is None) or (verdict and verdict not in got):
                print(f"{name}: expected {verdict!r}, got {got!r}")
                failures += 1
    return failures


def main(arguments):
    if arguments[:2] == ["--self-test", "--"] and len(arguments) > 2:
        sys.exit(self_test(arguments[2:]) != 0)
    if len(arguments) < 4 or arguments[2] != "--":
        sys.exit(__doc__)
    wrong = complaint(arguments[0], arguments[1], arguments[3:])
    if wrong:
        sys.exit(f"{arguments[0]}, {arguments[1]}: {wrong}")


main(sys.argv[1:])
