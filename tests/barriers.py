#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tells which barriers of the kernels a test would miss.

usage: barriers.py [--filter REGEX] [--check N] [--write FILE] PROGRAM
       barriers.py --self-test

PROGRAM is unmask_tests_cuda, executed from its PTX under a seed, with races watched. A barrier is
noticed if, somewhere, it alone orders two accesses of which one writes: without it the same run has
a race. --check leaves out N of them indeed, and all that are not noticed, each in a run of its own,
which ends at the first report. Ends with status 1 if a barrier is not noticed or never passed, save
those that KEPT names with a reason.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "include"
CALL = re.compile(r"(?:^|[\s.])(?:sync|sync_warp)\(\);|__syncthreads\(\);|__syncwarp\(\);")
# A function that is a barrier and nothing else: the place is that of its call.
FORWARDS = re.compile(r"void sync(_warp)?\(\) const \{")

# Barriers that no test can notice, by file and text of the line, and why they are there.
KEPT = {}


def lines_of(file, cache={}):
    if file not in cache:
        path = INCLUDE / file
        cache[file] = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return cache[file]


def line_of(place):
    file, _, line = place.rpartition(":")
    lines = lines_of(file)
    return lines[int(line) - 1] if 0 < int(line) <= len(lines) else ""


def lines_with(matches):
    """"file:line" of the lines of the headers whose code matches."""
    for path in sorted(INCLUDE.rglob("*.*")):
        if path.suffix in (".hpp", ".cuh"):
            file = path.relative_to(INCLUDE).as_posix()
            for number, line in enumerate(lines_of(file), 1):
                if matches(line.split("//")[0]):
                    yield f"{file}:{number}"


def written():
    """All lines that call a barrier."""
    return list(lines_with(lambda code: CALL.search(code) and not FORWARDS.search(code)))


def forwards():
    return [place for place in lines_with(FORWARDS.search)]


def run(program, tests, **settings):
    environment = os.environ | {f"UNMASK_PTX_{name}": str(value) for name, value in settings.items()}
    return subprocess.run([program, "--gtest_brief=1", "--gtest_filter=" + tests],
                          env=environment | {"UNMASK_PTX_FORWARDS": ",".join(forwards()), "UNMASK_PTX_SEED": "1"},
                          capture_output=True, text=True, check=False, timeout=7200)


def tests_of(program, wanted):
    suite = ""
    for line in subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if name and not name.startswith(" "):
            suite = name
        elif name and not suite.startswith("CudaError.") and re.search(wanted, suite + name.strip()):
            yield suite + name.strip()


def passed(program, tests):
    """{line of a barrier: (times passed, whether it alone orders accesses)}."""
    with tempfile.NamedTemporaryFile() as file:
        done = run(program, tests, BARRIERS=file.name)
        if done.returncode:
            print(f"the tests fail as they are:\n{done.stdout}{done.stderr}", file=sys.stderr)
            sys.exit(2)
        rows = [line.split(" ") for line in pathlib.Path(file.name).read_text(encoding="utf-8").splitlines()]
    return {line: (int(times), needed == "1") for times, needed, line in rows}


def missed(program, tests, place):
    """What notices that the barrier is missing, or None."""
    done = run(program, tests, STOP=1, WITHOUT=place)
    report = re.search(r"^ptx: (\w+)", done.stderr, re.M)
    return None if done.returncode == 0 else report[1] if report else "a test"


def self_test():
    assert any(p.startswith("unmask/step/decide.hpp:") for p in written())
    assert len(forwards()) >= 3
    assert not set(forwards()) & set(written())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--filter", default="", help="a regular expression for the names of tests")
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--write")
    parser.add_argument("program", nargs="?")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    tests = ":".join(tests_of(options.program, options.filter))
    found = passed(options.program, tests)
    rows, wrong, left_out = [], False, 0
    for place in written():
        times, is_needed = found.get(place, (0, False))
        said = "a race" if is_needed else "nothing" if times else "never passed"
        if times and ((is_needed and left_out < options.check) or (options.check and not is_needed)):
            left_out += is_needed
            really = missed(options.program, tests, place)
            said = (f"{really}, left out" if really else "nothing, left out") if is_needed or really else said
            wrong = wrong or (is_needed and not really)
        why = next((why for (file, text), why in KEPT.items() if place.startswith(file + ":") and text in line_of(place)), None)
        wrong = wrong or (said in ("never passed", "nothing") and why is None)
        rows.append(f"| `{place.removeprefix('unmask/')}` | {times} | {said}{': ' + why if why else ''} |")
        print(rows[-1], flush=True)
    text = [f"{len(rows)} barriers: {sum('| nothing' in r for r in rows)} that nothing notices, "
            f"{sum('never passed' in r for r in rows)} never passed.", "",
            "| barrier | times passed by warps | noticed by |", "| --- | ---: | --- |", *rows, ""]
    print(text[0])
    if options.write:
        pathlib.Path(options.write).write_text("\n".join(text), encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
