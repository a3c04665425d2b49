#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tells which barriers of the kernels a test would miss.

usage: barriers.py [--seeds N,N] [--filter REGEX] [--jobs N] [--check N] [--write FILE] PROGRAM
       barriers.py --self-test

PROGRAM is unmask_tests_cuda, executed from its PTX under seeds (1), with races watched. A barrier is
noticed if, somewhere, it alone orders two accesses of which one writes: without it the same run has
a race. --check leaves out N of them indeed, drawn at random, and all that are not noticed, each in
runs of its own, which end at the first report. The tests are shared out to --jobs processes. Ends
with status 1 if a barrier is not noticed, or never passed, and has no reason: the comment on its
line. --write puts the table into FILE, after its heading "## Barriers" and the text below that.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "include"
CALL = re.compile(r"(?:^|[\s.])(?:sync|sync_warp)\(\);|__syncthreads\(\);|__syncwarp\(\);")
# A function that is a barrier and nothing else: the place is that of its call.
FORWARDS = re.compile(r"void sync(_warp)?\(\) const \{")

def lines_of(file, cache={}):
    if file not in cache:
        path = INCLUDE / file
        cache[file] = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return cache[file]


def line_of(place):
    file, _, line = place.rpartition(":")
    lines = lines_of(file)
    return lines[int(line) - 1] if 0 < int(line) <= len(lines) else ""


def function_of(place):
    """The name of the function that calls the barrier: the innermost around it that is no lambda."""
    file, _, line = place.rpartition(":")
    code = [text.split("//")[0] for text in lines_of(file)[:int(line)]]
    text, depth = "\n".join(code).replace("{}", "  "), 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == "}") - (text[at] == "{")
        if depth < 0:
            depth = 0
            head = re.split(r"[;{}]", text[:at])[-1]
            if re.search(r"UNMASK_HD|__device__", head):
                return re.search(r"(\w+)\(", re.sub(r"__\w+__\(.*?\)", "", head))[1]
    return "?"


def names_of(places):
    """{place: a name without its line}: file and function, and which of its barriers."""
    functions = {place: (place.rpartition(":")[0].removeprefix("unmask/"), function_of(place)) for place in places}
    names, seen = {}, {}
    for place, function in functions.items():
        seen[function] = seen.get(function, 0) + 1
        all_of_it = list(functions.values()).count(function)
        names[place] = f"`{function[0]}`, `{function[1]}`" + (f" {seen[function]} of {all_of_it}" if all_of_it > 1 else "")
    return names


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


def run(program, tests, job=(0, 1), **settings):
    """Runs the share of job[0] of job[1] jobs."""
    shard = {"GTEST_SHARD_INDEX": str(job[0]), "GTEST_TOTAL_SHARDS": str(job[1])}
    settings |= {"FORWARDS": ",".join(forwards())}
    environment = os.environ | shard | {f"UNMASK_PTX_{name}": str(value) for name, value in settings.items()}
    return subprocess.run([program, "--gtest_brief=1", "--gtest_filter=" + tests],
                          env=environment, capture_output=True, text=True, check=False, timeout=7200)


def tests_of(program, wanted):
    suite = ""
    for line in subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if name and not name.startswith(" "):
            suite = name
        elif name and not suite.startswith("CudaError.") and re.search(wanted, suite + name.strip()):
            yield suite + name.strip()


def counted(program, tests, seed, job):
    """The lines that a run writes about barriers."""
    with tempfile.NamedTemporaryFile() as file:
        done = run(program, tests, job, BARRIERS=file.name, SEED=seed)
        if done.returncode:
            raise SystemExit(f"the tests fail as they are, seed {seed}:\n{done.stdout}{done.stderr}")
        return pathlib.Path(file.name).read_text(encoding="utf-8").splitlines()


def passed(program, tests, seeds, jobs):
    """{line of a barrier: (times passed, whether it alone orders accesses)}, of all seeds together."""
    found = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(counted, program, tests, seed, (job, jobs)) for seed in seeds for job in range(jobs)]
        for line in (line for one in runs for line in one.result()):
            times, needed, place = line.split(" ")
            before = found.get(place, (0, False))
            found[place] = (before[0] + int(times), before[1] or needed == "1")
    return found


def missed(program, tests, place, seeds, jobs):
    """What notices that the barrier is missing, or None."""
    for seed in seeds:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            runs = [pool.submit(run, program, tests, (job, jobs), STOP=1, WITHOUT=place, SEED=seed)
                    for job in range(jobs)]
            for done in (one.result() for one in runs):
                report = re.search(r"^ptx: (\w+)", done.stderr, re.M)
                if done.returncode:
                    return report[1] if report else "a test"
    return None


def self_test():
    assert any(p.startswith("unmask/step/decide.hpp:") for p in written())
    assert len(forwards()) >= 3
    assert not set(forwards()) & set(written())
    names = names_of(written())
    assert len(set(names.values())) == len(names) and not any("?" in name for name in names.values())
    assert "`step/rank.hpp`, `store_ranks`" in names.values()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--filter", default="", help="a regular expression for the names of tests")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--write")
    parser.add_argument("program", nargs="?")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    tests = ":".join(tests_of(options.program, options.filter))
    seeds = options.seeds.split(",")
    found = passed(options.program, tests, seeds, options.jobs)
    names = names_of(written())
    needed = [place for place in names if found.get(place, (0, False))[1]]
    drawn = set(random.sample(needed, min(options.check, len(needed))))
    rows, wrong = [], False
    for place, name in names.items():
        times, is_needed = found.get(place, (0, False))
        said = "a race" if is_needed else "nothing" if times else "never passed"
        if place in drawn or (options.check and times and not is_needed):
            really = missed(options.program, tests, place, seeds, options.jobs)
            said = (f"{really}, left out" if really else "nothing, left out") if is_needed or really else said
            wrong = wrong or (is_needed and not really)
        _, _, why = line_of(place).partition("// ")
        if said in ("never passed", "nothing"):
            wrong = wrong or not why
            said += f"; kept: {why}" if why else ""
        rows.append(f"| {name} | {times} | {said} |")
        print(rows[-1], flush=True)
    kept = sum("; kept: " in row for row in rows)
    text = [f"{len(rows)} barriers: {len(rows) - kept} that a run misses, {kept} kept for the reason in the code.", "",
            "| barrier | times passed by warps | noticed by |", "| --- | ---: | --- |", *rows, ""]
    print(text[0])
    if options.write:
        page = pathlib.Path(options.write)
        before, heading, below = page.read_text(encoding="utf-8").partition("## Barriers\n")
        said = re.split(r"^\d+ barriers: ", below, maxsplit=1, flags=re.M)[0]
        page.write_text(before + heading + said + "\n".join(text), encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
