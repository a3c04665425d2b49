#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures how long programs take to compile, beside one that parses and dumps with nlohmann/json.

usage: bash bench/compile.sh [--repetitions N]       prints the table of bench/results/compile.md
       bash bench/compile.sh --check                 fails where g++ takes 1.25 times of that table

Processor seconds of the compiler itself (user time), the least of N repetitions in turns; -O2 and no
other flag. Seconds differ from machine to machine and from minute to minute, so ratios are what
counts: the check compiles a program and json one after the other, and again where that was too slow.
"""
import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TABLE = os.path.join(HERE, "results", "compile.md")
BOUND = 1.25
SKIPPED = 77

# Name, file, arguments, goal as a ratio to json (None: no goal), whether --check tests it.
PROGRAMS = [
    ("json", "compile/json.cpp", [], None, False),
    ("Eigen", "compile/eigen.cpp", [], None, False),
    ("unmask.hpp alone", "compile/include.cpp", [], .25, True),
    ("one policy", "compile/policies.cpp", ["-DUNMASK_POLICIES=1"], None, True),
    ("examples/quickstart", "../examples/quickstart.cpp",
     ["-Iexamples", '-DUNMASK_EXAMPLES_DIR="examples"'], None, False),
    ("two policies", "compile/policies.cpp", ["-DUNMASK_POLICIES=2"], None, False),
    ("eight policies", "compile/policies.cpp", ["-DUNMASK_POLICIES=8"], None, False),
    ("a policy of one's own", "compile/custom_policy.cpp", [], 1.0, True),
    ("by name", "compile/named.cpp", [], None, False),
    ("one policy, with unmask::compiled", "compile/policies.cpp", ["-DUNMASK_POLICIES=1", "-DUNMASK_COMPILED"],
     .4, True),
    ("by name, with unmask::compiled", "compile/named.cpp", ["-DUNMASK_COMPILED"], .4, True),
]
FURTHER = ("each further policy", "one policy", "eight policies", 7, .25)


def eigen_flags():
    """Where Eigen's headers are, which need not be on the compiler's path."""
    asked = subprocess.run(["pkg-config", "--cflags", "eigen3"], capture_output=True, text=True, check=False) \
        if shutil.which("pkg-config") else None
    return asked.stdout.split() if asked and asked.returncode == 0 else ["-I/usr/include/eigen3"]


def cost(compiler, program, folder):
    """User seconds, MB and kB of one compilation."""
    _, file, arguments, _, _ = program
    output = os.path.join(folder, "a.o")
    command = [compiler, "-std=c++20", "-O2", "-Iinclude", *eigen_flags(), *arguments, "-c",
               os.path.join(HERE, file), "-o", output]
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {process.returncode}")
    return used.ru_utime, used.ru_maxrss / 1024, os.path.getsize(output) / 1024


def measured(compiler, repetitions, folder):
    """The least cost of each program, by its name."""
    least = {}
    for _ in range(repetitions):
        for program in PROGRAMS:
            now = cost(compiler, program, folder)
            least[program[0]] = [min(pair) for pair in zip(now, least.get(program[0], now))]
            print(f"  {compiler}, {program[0]}: {now[0]:.1f} s", file=sys.stderr, flush=True)
    name, one, many, count, _ = FURTHER
    least[name] = [(b - a) / count for a, b in zip(least[one], least[many])]
    return least


def rows():
    """Names and goals, in the table's order."""
    all_rows = [(name, goal) for name, _, _, goal, _ in PROGRAMS]
    at = [name for name, _ in all_rows].index(FURTHER[2])
    return all_rows[:at + 1] + [(FURTHER[0], FURTHER[4])] + all_rows[at + 1:]


def about(compiler):
    return subprocess.run([compiler, "--version"], capture_output=True, text=True,
                          check=True).stdout.splitlines()[0]


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return re.search(r"^model name\s*: (.*)$", file.read(), re.M).group(1)
    except (OSError, AttributeError):
        return platform.machine()


def print_table(compilers, repetitions):
    with tempfile.TemporaryDirectory() as folder:
        costs = {c: measured(c, repetitions, folder) for c in compilers}
    print(f"""# Compile times of programs

{time.strftime('%Y-%m-%d')}, {processor()}, {os.cpu_count()} CPUs that other programs may use, too;
{', '.join(about(c) for c in compilers)}; the least of {repetitions}.
`bash bench/compile.sh` prints this page; its `--check` compares ratios of g++ with it.

Seconds are the compiler's user time at `-O2` with no other flag, and in brackets relative to the first row. *eight
policies* are of eight types in one file. *By name* without the library compiles every part, its text and one
session with its kernels; a program that takes policies by name should link unmask::compiled.

| program | goal | {' | '.join(f'{c}: s | MB | kB' for c in compilers)} |
| :--- | ---: |{' ---: | ---: | ---: |' * len(compilers)}""")
    for name, goal in rows():
        cells = []
        for c in compilers:
            seconds, mb, kb = costs[c][name]
            cells += [f"{seconds:.1f} ({seconds / costs[c]['json'][0]:.2f})", f"{mb:.0f}", f"{kb:.0f}"]
        print(f"| {name} | {'' if goal is None else f'{goal:g}'} | {' | '.join(cells)} |")


def check():
    if shutil.which("g++") is None:
        print("SKIPPED: there is no g++")
        return SKIPPED
    has_json = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-include", "nlohmann/json_fwd.hpp", "-xc++",
                               os.devnull], capture_output=True, check=False).returncode == 0
    if not has_json:
        print("SKIPPED: g++ finds no nlohmann/json.hpp")
        return SKIPPED
    with open(TABLE, encoding="utf-8") as file:
        recorded = {m.group(1): float(m.group(2))
                    for m in re.finditer(r"^\| ([^|]*) \| [^|]*\| [^|(]*\(([\d.]+)\)", file.read(), re.M)}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS:
            name = program[0]
            if not program[4]:
                continue
            ratio = float("inf")
            for _ in range(5):  # what else runs here takes its share of the caches
                json = cost("g++", PROGRAMS[0], folder)[0]
                ratio = min(ratio, cost("g++", program, folder)[0] / json)
                if ratio <= BOUND * recorded[name]:
                    break
            verdict = "ok" if ratio <= BOUND * recorded[name] else "TOO SLOW"
            failed |= verdict != "ok"
            print(f"{name}: {ratio:.2f} x json, recorded {recorded[name]:.2f}: {verdict}", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    if options.check:
        return check()
    print_table([c for c in ("g++", "clang++") if shutil.which(c)], options.repetitions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
