#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutation testing of the headers: tests/mutation.sh calls it and says how.

usage: mutate.py [--sample FRACTION] [--seed N] [--build DIR] [--jobs N] [--slowest MS]
                 [--tests PATTERN,...] [--again STATUS,...] [FOLDER...]
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
TESTS = ["mutation/*", "unmask/session/*", "unmask/policy/**/*", "unmask/step/*", "unmask/layers/*",
         "unmask/device/*", "unmask/named/*", "unmask/compose/*", "unmask/ranks/*", "unmask/core/*",
         "unmask/stats/*", "unmask/host/*", "unmask/constraint/*", "unmask/trace/*", "unmask/tune/*"]
# Sources beside a test: of all of them, and of the first.
SUPPORT = ["mutation/main.cpp", "support/emulated_block.cpp", "hostile/written_policy.cpp"]
# Those of a program whose checks are tests here: the files of its folder, without its main().
PROGRAMS = {name: [f"{name}/{os.path.basename(f)}" for f in sorted(glob.glob(f"{ROOT}/tests/{name}/*.cpp"))
                   if os.path.basename(f) not in ("main.cpp", "written_policy.cpp")]
            for name in ("goldens", "hostile")}
# One set of row kernels: they decide alike, and compile for long.
FLAGS = ["-std=c++20", "-Og", "-w", "-DUNMASK_NO_AVX512", "-DUNMASK_NO_AVX2", "-fmax-errors=0",
         "-fdiagnostics-column-unit=byte",
         f"-I{ROOT}/include", f"-I{ROOT}/tests", f"-I{ROOT}/examples",
         "-isystem", "/usr/include/eigen3", f'-DUNMASK_TEST_DATA="{ROOT}/tests/data"',
         f'-DUNMASK_TEST_CASES="{ROOT}/tests/cases"',
         f'-DUNMASK_EXAMPLES_DIR="{ROOT}/examples"']
# Of tests that are compiled as tests/hostile.sh does: they see what is behind the end of an array.
SANITIZED = {"mutation/hostile.test.cpp": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
                                           "-DUNMASK_RED_ZONES"]}
LIBRARIES = ["-lgmock", "-lgtest", "-pthread"]
FAKE_CUDA = [f"-I{ROOT}/tests/unmask/device/fake_cuda", "-I/usr/local/cuda/include"]


def run(program, tests, mutant, seconds, reached=None):
    """Status of a program's tests with a mutant: "passed", "killed" or "timeout", by processor time."""
    env = dict(os.environ, UNMASK_MUTANT=str(mutant), ASAN_OPTIONS="detect_leaks=0:hard_rss_limit_mb=4096")
    is_sanitized = program.endswith("_sanitized")
    if tests is not None:
        env["GTEST_FILTER"] = ":".join(tests)
    if reached:
        env["UNMASK_REACHED"] = reached

    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not is_sanitized:  # which reserves addresses that it does not use
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


def names(mutants, sources):
    """{number: name} of mutants: header, operator, changed text and its line, whatever is above it.

    tests/mutation/equivalent.txt and the results of earlier runs have these names.
    """
    lines = {s: s.text.decode().split("\n") for s in sources.values()}
    seen = collections.Counter()
    found = {}
    for number, (source, begin, end, kind, _) in mutants.items():
        text = " ".join(source.text[begin:end].decode().split())
        line = lines[source][source.line(begin) - 1].strip()
        name = " | ".join([source.name[len("unmask/"):], kind, text] + [line] * (line != text))
        seen[name] += 1
        found[number] = name if seen[name] == 1 else f"{name} | {seen[name]}"
    return found


def equivalents():
    """Names of the mutants that tests/mutation/equivalent.txt gives a reason for."""
    with open(f"{ROOT}/tests/mutation/equivalent.txt", encoding="utf-8") as file:
        return {line.strip() for line in file if line.strip() and not line.startswith("#")}


class Programs:
    """The tests with the rewritten headers, a program a file."""

    def __init__(self, build, sources, mutants, chosen):
        self.build = build
        self.sources = sources
        self.mutants = mutants
        self.names = names(mutants, sources)
        self.chosen = chosen
        self.path = f"{build}/dropped.json"
        self.dropped = set()
        self.is_same = False  # as in the last run: its programs still serve
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                known = json.load(file)
            self.dropped = {n for n in chosen if self.names[n] in known["dropped"]}
            self.is_same = known["mutants"] == self.fingerprint()
        self.support = []  # objects of SUPPORT
        self.texts = {}
        self.lock = threading.Lock()
        self.write()

    def fingerprint(self):
        return [[n, m[0].name, *m[1:4]] for n, m in self.mutants.items() if n in self.chosen]

    def write(self):
        written = {n: m for n, m in self.mutants.items() if n in self.chosen}
        self.texts = schemata.write(self.sources, written, self.dropped, f"{self.build}/include")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"mutants": self.fingerprint(),
                       "dropped": sorted(self.names[n] for n in self.dropped)}, file)

    def is_current(self, target):
        """True if a program or an object is newer than what it was made from."""
        if not self.is_same or not os.path.exists(target):
            return False
        with open(f"{target}.d", encoding="utf-8") as file:
            files = file.read().replace("\\\n", " ").split()[1:]
        files = [f.replace(f"{self.build}/include", f"{ROOT}/include") for f in files]
        return all(os.path.exists(f) and os.path.getmtime(f) < os.path.getmtime(target) for f in files)

    def drop(self, file, errors):
        """Drops the mutants that a compiler complains about."""
        found = set()
        for path, line, column in re.findall(r"^(\S+?):(\d+):(\d+): (?:fatal )?error", errors, re.M):
            header = os.path.relpath(path, f"{self.build}/include")
            source = self.sources.get(f"{ROOT}/include/{header}")
            if source:
                found |= set(schemata.blamed(source, self.texts[header], int(line), int(column)))
        if not found - self.dropped:
            raise RuntimeError(errors[:600])
        print(f"{file}: {len(found)} mutants do not compile", flush=True)
        self.dropped |= found
        self.write()

    def compile(self, file, flags=()):
        """The object of a file below tests/; drops mutants that do not compile on the way."""
        target = f"{self.build}/" + re.sub(r"\W", "_", file) + "_sanitized" * bool(flags) + ".o"
        if self.is_current(target):
            return target
        fake = FAKE_CUDA if "/device/" in file else []
        command = ["g++", f"-I{self.build}/include", f"-I{ROOT}/tests/mutation", *fake, *FLAGS, *flags, "-MMD", "-MF",
                   f"{target}.d", "-c", f"{ROOT}/tests/{file}", "-o", target]
        began = time.time()
        while True:
            texts = self.texts
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            if said.returncode == 0:
                print(f"{file} {time.time() - began:.0f} s", flush=True)
                return target
            with self.lock:
                if texts is self.texts:  # else another one has just dropped some
                    self.drop(file, said.stderr)

    def link(self, test):
        """The program of a test file; none of one that needs other sources or libraries."""
        flags = SANITIZED.get(test, [])
        program = f"{self.build}/" + re.sub(r"\W", "_", test[:-len(".test.cpp")]) + "_sanitized" * bool(flags)
        sources = [test] + [f for name, files in PROGRAMS.items() if test.endswith(f"{name}.test.cpp") for f in files]
        try:
            support = [self.compile(f, flags) for f in SUPPORT] if flags else self.support
            objects = [self.compile(f, flags) for f in sources] + support
            if not os.path.exists(program) or any(
                    os.path.getmtime(o) > os.path.getmtime(program) for o in objects):
                subprocess.run(["g++", *flags, *objects, *LIBRARIES, "-o", program], stderr=subprocess.PIPE, text=True,
                               check=True)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{test} is left out: {getattr(error, 'stderr', error)}", flush=True)
            return None
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
    print("\n| code | mutants | chosen | do not compile | equivalent | killed | by the time limit | survived "
          "| reached by no test | score |\n| :--- |" + " ---: |" * 9)
    equivalent = equivalents()
    for name in sorted(equivalent - set(programs.names.values())):
        print(f"equivalent.txt has a mutant that is not there: {name}")
    files = [s.name[len("unmask/"):] for s in programs.sources.values()]
    for group in folders + [n for f in folders for n in files if n.startswith(f + "/")]:
        own = [n for n, m in programs.mutants.items()
               if (m[0].name[len("unmask/"):] + "/").startswith(group + "/")]
        counts = collections.Counter(results[n]["status"] for n in own if n in results)
        dead = counts["killed"] + counts["timeout"]
        scored = dead + counts["survived"] + counts["unreached"]
        score = f"{100 * dead / scored:.1f} %" if scored else ""
        print(f"| {group} | {len(own)} | {len(programs.chosen.intersection(own))} "
              f"| {len(programs.dropped.intersection(own))} | {counts['equivalent']} "
              f"| {counts['killed']} | {counts['timeout']} | {counts['survived']} | {counts['unreached']} "
              f"| {score} |")
    for number, r in sorted(results.items()):
        if r["status"] in ("survived", "unreached"):
            print(f"{r['line']}: {r['status']}: {r['name']}")
        elif r["status"] != "equivalent" and r["name"] in equivalent:
            print(f"{r['line']}: {r['status']}, but equivalent.txt has it: {r['name']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=f"{ROOT}/build/mutation")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--slowest", type=int, default=6000)
    parser.add_argument("--tests", default=",".join(TESTS))
    parser.add_argument("--again", default="")
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    options = parser.parse_args()
    os.makedirs(options.build, exist_ok=True)

    headers = sorted(os.path.relpath(h, f"{ROOT}/include") for f in FOLDERS
                     for kind in ("hpp", "inl")
                     for h in glob.glob(f"{ROOT}/include/unmask/{f}/**/*.{kind}", recursive=True))
    sources = schemata.read(headers, ROOT, [])
    mutants = dict(enumerate(schemata.numbered(sources), 1))
    chosen = []
    for folder in options.folders:
        for source in sources.values():
            own = [n for n, m in mutants.items() if m[0] is source]
            if source.name.split("/")[1] == folder and own:
                size = max(1, round(len(own) * options.sample))
                chosen += sorted(random.Random(f"{options.seed} {source.name}").sample(own, size))
    programs = Programs(options.build, sources, mutants, set(chosen))
    print(f"{len(chosen)} of {len(mutants)} mutants", flush=True)
    tests = [os.path.relpath(t, f"{ROOT}/tests") for pattern in options.tests.split(",")
             for t in sorted(glob.glob(f"{ROOT}/tests/{pattern}.test.cpp", recursive=True))]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        programs.support = list(pool.map(programs.compile, SUPPORT))
        built = [p for p in pool.map(programs.link, tests) if p]
    tests_of = {p: reach(p, options.slowest) for p in built}

    path = f"{options.build}/results.jsonl"
    numbers = {name: n for n, name in programs.names.items() if n in programs.chosen - programs.dropped}
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for r in map(json.loads, file):
                if r["name"] in numbers:
                    number = numbers[r["name"]]
                    known[number] = later(known.get(number), r)
    equivalent = equivalents()
    left = [n for name, n in numbers.items() if n not in known or (
        known[n]["status"] in options.again.split(",") and name not in equivalent)]
    random.Random(options.seed).shuffle(left)  # so that a part of a run is a sample, too
    kills = collections.Counter()
    lock = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
            open(path, "a", encoding="utf-8") as out:
        def one(number):
            source, begin = programs.mutants[number][:2]
            status, noticed, seconds = examine(number, source.name, tests_of, kills)
            with lock:
                result = {"name": programs.names[number], "line": source.line(begin), "status": status,
                          "by": noticed, "seconds": round(seconds, 2)}
                known[number] = later(known.get(number), result)
                out.write(json.dumps(result) + "\n")
                out.flush()
        list(pool.map(one, left))
    for number, r in known.items():
        if r["status"] in ("survived", "unreached") and r["name"] in equivalent:
            r["status"] = "equivalent"
    report(programs, known, options.folders)


if __name__ == "__main__":
    sys.exit(main())
