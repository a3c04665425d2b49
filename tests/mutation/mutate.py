#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutation testing of the headers: tests/mutation.sh calls it and says how.

usage: mutate.py [--sample FRACTION] [--seed N] [--build DIR] [--jobs N] [--slowest MS]
                 [--again STATUS,...] [FOLDER...]
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import schemata

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ["step", "policy", "core", "stats"]
# Tests of decisions. The others test what these four folders do not have, or take minutes.
TESTS = ["session/session", "policy/**/*", "step/*", "session/[!s]*", "session/s[ci]*", "layers/*",
         "goldens/*", "device/emulated_decide*", "device/emulated_layers*", "device/emulated_block*",
         "named/examples_in*", "compose/*", "core/*", "stats/*", "host/*"]
# One set of row kernels: they decide alike, and compile for long.
FLAGS = ["-std=c++20", "-O1", "-w", "-DUNMASK_NO_AVX512", "-DUNMASK_NO_AVX2", "-fmax-errors=0",
         "-fdiagnostics-column-unit=byte",
         f"-I{ROOT}/include", f"-I{ROOT}/tests", f"-I{ROOT}/examples",
         "-isystem", "/usr/include/eigen3", f'-DUNMASK_TEST_DATA="{ROOT}/tests/data"',
         f'-DUNMASK_EXAMPLES_DIR="{ROOT}/examples"']
LIBRARIES = ["-lgmock", "-lgtest", "-pthread"]
FAKE_CUDA = [f"-I{ROOT}/tests/unmask/device/fake_cuda", "-I/usr/local/cuda/include"]


def run(program, tests, mutant, seconds, reached=None):
    """Status of a program's tests with a mutant: "passed", "killed" or "timeout", by processor time."""
    env = dict(os.environ, UNMASK_MUTANT=str(mutant))
    if tests is not None:
        env["GTEST_FILTER"] = ":".join(tests)
    if reached:
        env["UNMASK_REACHED"] = reached

    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    command = [program, "--gtest_brief=1", *([] if reached else ["--gtest_fail_fast"])]
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=30 * seconds, preexec_fn=limit, check=False)
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout"
    return "killed" if done.returncode else "passed"


class Programs:
    """The tests with the rewritten headers, a program a file."""

    def __init__(self, build, sources):
        self.build = build
        self.sources = sources
        self.mutants = dict(enumerate(schemata.numbered(sources), 1))
        self.path = f"{build}/dropped.json"
        self.dropped = set()
        self.is_same = False  # as in the last run: its programs still serve
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                known = json.load(file)
            if known["mutants"] == self.fingerprint():
                self.dropped = set(known["dropped"])
                self.is_same = True
        self.texts = {}
        self.lock = threading.Lock()
        self.write()

    def fingerprint(self):
        return [[m[0].name, *m[1:4]] for m in self.mutants.values()]

    def write(self):
        self.texts = schemata.write(self.sources, self.mutants, self.dropped, f"{self.build}/include")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"mutants": self.fingerprint(), "dropped": sorted(self.dropped)}, file)

    def drop(self, test, errors):
        """Drops the mutants that a compiler complains about."""
        found = set()
        for path, line, column in re.findall(r"^(\S+?):(\d+):(\d+): (?:fatal )?error", errors, re.M):
            header = os.path.relpath(path, f"{self.build}/include")
            source = self.sources.get(f"{ROOT}/include/{header}")
            if source:
                found |= set(schemata.blamed(source, self.texts[header], int(line), int(column)))
        if not found - self.dropped:
            raise SystemExit(f"{test} does not compile:\n{errors[:4000]}")
        print(f"{test}: {len(found)} mutants do not compile", flush=True)
        self.dropped |= found
        self.write()

    def compile(self, test):
        """The program of a test file; drops mutants that do not compile on the way."""
        name = re.sub(r"\W", "_", test[:-len(".test.cpp")])
        program = f"{self.build}/{name}"
        file = f"{ROOT}/tests/unmask/{test}"
        if self.is_same and os.path.exists(program) and os.path.getmtime(program) > os.path.getmtime(file):
            return program
        fake = FAKE_CUDA if test.startswith("device/") else []
        command = ["ccache", "g++", f"-I{self.build}/include", f"-I{ROOT}/tests/mutation", *fake, *FLAGS]
        began = time.time()
        while True:
            texts = self.texts
            said = subprocess.run([*command, "-c", file, "-o", f"{program}.o"],
                                  capture_output=True, text=True, check=False)
            if said.returncode == 0:
                break
            with self.lock:
                if texts is self.texts:  # else another one has just dropped some
                    self.drop(test, said.stderr)
        main = f"{self.build}/main.o"
        if not os.path.exists(main):
            subprocess.run([*command, "-c", f"{ROOT}/tests/mutation/main.cpp", "-o", main], check=True)
        subprocess.run(["g++", f"{program}.o", main, *LIBRARIES, "-o", program], check=True)
        print(f"{test} {time.time() - began:.0f} s", flush=True)
        return program


def reach(program, slowest):
    """[(test, milliseconds, numbers of mutants)] of the tests that pass without a mutant."""
    path = program + ".reached"
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(program):
        status = run(program, None, 0, 600, path)
        if status != "passed":
            print(f"{os.path.basename(program)}: {status} without a mutant", flush=True)
    tests = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, ms, *numbers = line.split()
            if int(ms) <= slowest:
                tests.append((name, int(ms), frozenset(map(int, numbers))))
    return tests


def examine(number, header, tests_of, kills):
    """(status, program that noticed, seconds): the likely and quick programs first."""
    plans = []
    for program, tests in tests_of.items():
        reaching = [t for t in tests if number in t[2]]
        if reaching:
            ms = sum(t[1] for t in reaching) + 20
            plans.append((ms / (1 + kills[header, program]), program, ms, reaching))
    began = time.monotonic()
    for _, program, ms, reaching in sorted(plans, key=lambda p: p[:2]):
        names = [t[0] for t in sorted(reaching, key=lambda t: t[1])]
        for at in range(0, len(names), 500):
            status = run(program, names[at:at + 500], number, 2 + ms // 100)
            if status != "passed":
                kills[header, program] += 1
                return status, os.path.basename(program), time.monotonic() - began
    return "survived" if plans else "unreached", "", time.monotonic() - began


def later(old, new):
    """The result of two: a mutant that some test kills or reaches is killed or reached."""
    order = ["unreached", "survived", "timeout", "killed"]
    return new if old is None or order.index(new["status"]) >= order.index(old["status"]) else old


def report(programs, results, folders):
    """Prints what became of the mutants, by folder and by file, and those that no test notices."""
    print("\n| code | mutants | do not compile | run | killed | by a time limit | survived "
          "| reached by no test | score |\n| :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    names = [s.name[len("unmask/"):] for s in programs.sources.values()]
    for group in folders + [n for f in folders for n in names if n.startswith(f + "/")]:
        own = [n for n, m in programs.mutants.items()
               if (m[0].name[len("unmask/"):] + "/").startswith(group + "/")]
        counts = collections.Counter(results[n]["status"] for n in own
                                     if n in results and n not in programs.dropped)
        dead = counts["killed"] + counts["timeout"]
        score = f"{100 * dead / counts.total():.1f} %" if counts else ""
        print(f"| {group} | {len(own)} | {len(programs.dropped.intersection(own))} | {counts.total()} "
              f"| {counts['killed']} | {counts['timeout']} | {counts['survived']} | {counts['unreached']} "
              f"| {score} |")
    for number, r in sorted(results.items()):
        if r["status"] in ("survived", "unreached") and r["file"].split("/")[1] in folders:
            print(f"{r['file']}:{r['line']}: {r['status']}: {r['kind']}: {' '.join(r['text'].split())}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=f"{ROOT}/build/mutation")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--slowest", type=int, default=6000)
    parser.add_argument("--again", default="")
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    options = parser.parse_args()
    os.makedirs(options.build, exist_ok=True)

    headers = sorted(os.path.relpath(h, f"{ROOT}/include") for f in FOLDERS
                     for h in glob.glob(f"{ROOT}/include/unmask/{f}/**/*.hpp", recursive=True))
    programs = Programs(options.build, schemata.read(headers, ROOT, []))
    print(f"{len(programs.mutants)} mutants", flush=True)
    tests = [os.path.relpath(t, f"{ROOT}/tests/unmask") for pattern in TESTS
             for t in sorted(glob.glob(f"{ROOT}/tests/unmask/{pattern}.test.cpp", recursive=True))]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        built = list(pool.map(programs.compile, tests))
    tests_of = {p: reach(p, options.slowest) for p in built}

    chosen = []
    for folder in options.folders:
        for source in programs.sources.values():
            own = [n for n, m in programs.mutants.items() if m[0] is source and n not in programs.dropped]
            if source.name.split("/")[1] == folder and own:
                size = max(1, round(len(own) * options.sample))
                chosen += sorted(random.Random(f"{options.seed} {source.name}").sample(own, size))
    path = f"{options.build}/results.jsonl"
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for r in map(json.loads, file):
                known[r["number"]] = later(known.get(r["number"]), r)
    left = [n for n in chosen if n not in known or known[n]["status"] in options.again.split(",")]
    random.Random(options.seed).shuffle(left)  # so that a part of a run is a sample, too
    kills = collections.Counter()
    lock = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
            open(path, "a", encoding="utf-8") as out:
        def one(number):
            source, begin, end, kind, _ = programs.mutants[number]
            status, noticed, seconds = examine(number, source.name, tests_of, kills)
            with lock:
                result = {"number": number, "file": source.name, "line": source.line(begin),
                          "kind": kind, "status": status, "by": noticed,
                          "text": source.text[begin:end].decode(), "seconds": round(seconds, 2)}
                known[number] = later(known.get(number), result)
                out.write(json.dumps(result) + "\n")
                out.flush()
        list(pool.map(one, left))
    report(programs, known, options.folders)


if __name__ == "__main__":
    sys.exit(main())
