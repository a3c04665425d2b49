#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long each target of a build took, and its slowest files and tests.

usage: times.py BUILD [--slowest N]
       times.py --self-test

Reads what Ninja and CTest write down in the folder of a build: seconds from start to end of each command,
so that a busy machine shows in them.
"""
import argparse
import os
import re
import sys

SLOWEST = 10


def commands(text):
    """{output: seconds} of a .ninja_log, whose last word about an output counts, and the seconds of
    commands before it with other flags."""
    made, others = {}, 0.0  # {output: (command, seconds)}
    for line in text.splitlines():
        fields = line.split("\t")
        if line.startswith("#") or len(fields) < 5:
            continue
        output, command = fields[3:5]
        if output in made and made[output][0] != command:
            others += made[output][1]
        made[output] = command, (int(fields[1]) - int(fields[0])) / 1000
    return {output: seconds for output, (_, seconds) in made.items()}, others


def target_of(output):
    found = re.search(r"CMakeFiles/([^/]+)\.dir/", output)
    return found.group(1) if found else "(linked, generated)"


def name_of(output):
    """The file that an object is made of, in its target."""
    return re.sub(r"^.*CMakeFiles/([^/]+)\.dir/", r"\1: ", output)


def by_target(seconds):
    """[(seconds, files, target)], the most first."""
    totals = {}
    for output, took in seconds.items():
        files, total = totals.get(target_of(output), (0, 0.0))
        totals[target_of(output)] = (files + 1, total + took)
    return sorted(((total, files, name) for name, (files, total) in totals.items()), reverse=True)


def tests(text):
    """{test: seconds} of CTest's cost data: name, runs, mean seconds."""
    found = re.findall(r"^(\S+) ([0-9]+) ([0-9.e+-]+)$", text, re.MULTILINE)
    return {name: float(mean) for name, runs, mean in found if int(runs) > 0}


def table(rows):
    return "".join(f"{took:9.1f}  {rest}\n" for took, rest in rows)


def report(ninja, ctest, slowest):
    (built, others), ran = commands(ninja), tests(ctest)
    text = ""
    for what, seconds, name in (("files", built, name_of), ("tests", ran, str)):
        worst = sorted(((took, name(key)) for key, took in seconds.items()), reverse=True)[:slowest]
        text += f"Slowest {what}, in seconds:\n{table(worst)}"
    text += "Targets, in seconds:\n"
    text += table((total, f"{name} ({files})") for total, files, name in by_target(built))
    more = f", {others:.0f} more with other flags" if others >= 1 else ""
    return text + (f"Built in {sum(built.values()):.0f} seconds of commands{more}, "
                   f"tested in {sum(ran.values()):.0f}.\n")


def self_test():
    ninja = ("# ninja log v5\n"
             "0\t1500\t7\ta/CMakeFiles/t.dir/x.cpp.o\tf\n"
             "0\t9000\t7\ta/CMakeFiles/t.dir/y.cpp.o\tf\n"
             "9000\t9500\t7\ta/CMakeFiles/t.dir/y.cpp.o\tf\n"
             "0\t2000\t7\ta/CMakeFiles/u.dir/z.cpp.o\te\n"
             "1\t3001\t7\ta/CMakeFiles/u.dir/z.cpp.o\tf\n"
             "1\t101\t7\ta/t\tf\n")
    said = report(ninja, "one 1 0.25\nnever 0 0\ntwo.x/1 3 1.5\n---\n", 2)
    wanted = ("Slowest files, in seconds:\n      3.0  u: z.cpp.o\n      1.5  t: x.cpp.o\n"
              "Slowest tests, in seconds:\n      1.5  two.x/1\n      0.2  one\n"
              "Targets, in seconds:\n      3.0  u (1)\n      2.0  t (2)\n      0.1  (linked, generated) (1)\n"
              "Built in 5 seconds of commands, 2 more with other flags, tested in 2.\n")
    if said != wanted:
        print(f"expected\n{wanted}got\n{said}")
    return said != wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?")
    parser.add_argument("--slowest", type=int, default=SLOWEST)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        sys.exit(self_test())
    if arguments.build is None:
        parser.error("the folder of a build is missing")

    def read(*path):
        file = os.path.join(arguments.build, *path)
        if not os.path.exists(file):
            return ""
        with open(file, encoding="utf-8") as lines:
            return lines.read()

    print(report(read(".ninja_log"), read("Testing", "Temporary", "CTestCostData.txt"), arguments.slowest), end="")


main()
