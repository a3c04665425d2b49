#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A launcher of the compiler for tests of what is built when: unmask's libraries without a minute of compiling.

usage: stand_in_compiler.py COMPILER ARG...

In place of a source of the libraries it compiles one that depends on version.hpp alone and contains the last
line of that header, and the user-defined parts that are given.
"""
import os
import re
import subprocess
import sys


def main(command):
    source = next((a for a in command if re.search(r"/compiled/\w+\.cpp$", a)), None)
    if source is None:
        return subprocess.call(command)
    folders = [a[2:] for a in command if a.startswith("-I")]
    folders += [b for a, b in zip(command, command[1:]) if a == "-isystem"]
    folder = next(f for f in folders if os.path.exists(f + "/unmask/version.hpp"))
    with open(folder + "/unmask/version.hpp", encoding="utf-8") as file:
        mark = "mark: " + file.read().splitlines()[-1]
    mark += " ".join([""] + [a for a in command if a.startswith("-DUNMASK_OWN_PARTS=")]).replace('"', "")
    stand_in = source[:-len(".cpp")] + "_stand_in.cpp"
    name = re.sub(r"\W", "_", os.path.basename(source))
    with open(stand_in, "w", encoding="utf-8") as file:
        file.write(f'#include <unmask/version.hpp>\nextern const char {name}[];\nconst char {name}[] = "{mark}";\n')
    return subprocess.call([stand_in if a == source else a for a in command])


sys.exit(main(sys.argv[1:]))
