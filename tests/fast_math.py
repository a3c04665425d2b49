#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Do the kernels compute the same whatever a host asks nvcc for?

usage: fast_math.py [--arch ARCH] [--jobs N] [SOURCE.cu]...
       fast_math.py --host COMPILER
       fast_math.py --self-test

Compiles each source (by default those of tests/unmask/cuda that hold kernels of the library) to PTX twice,
with -use_fast_math and with --fmad=false, and requires of every kernel that

  * both are the same text, but for .ftz (numbers below 2^-126 count as zero) and for the word that forbids
    ptxas to join a product and a sum: quotients and roots are rounded correctly and no sum is contracted,
    whatever the flags;
  * nothing is left for ptxas to join: no plain product reaches a plain sum;
  * no instruction approximates. Who asks for device::hardware_exponential gets one, on purpose.

So the flags between the two change no bit either. Needs nvcc and no GPU, and twelve seconds of processor time a
policy. Ends with status 1 if something differs, and 2 without nvcc.

With --host, a C++ compiler translates sessions of the same policies on the host with -ffp-contract=fast and
with =off, and must write the same instructions: two minutes of processor time.
"""
import argparse
import concurrent.futures
import os
import platform
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernels  # noqa: E402

MODES = {"fast": ["-use_fast_math"], "exact": ["--fmad=false"]}
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-lineinfo", "-ptx"]

FREE = re.compile(r"\b(add|sub|mul)\.rn(\.f\d+)")
APPROXIMATE = re.compile(r"\.approx|\.full\b|^(sin|cos|ex2|lg2|tanh)\.")
INSTRUCTION = re.compile(r"(?:@!?%p\d+\s+)?([a-z][\w.]*)\s+(%\w+)(?:,\s*(.*))?;")
PLAIN = re.compile(r"(add|sub|mul)\.f(32|64)$")
CARRIES = re.compile(r"(mov|neg|abs|selp)\.(f32|f64|b32|b64)$")


def normalised(text):
    """The lines of PTX that tell, without what the flags may change."""
    return [FREE.sub(r"\1\2", line.replace(".ftz", "")) for line in text.splitlines()
            if line.strip() and not line.startswith("//")]


def functions(lines):
    """Name and lines of each kernel and function."""
    name = None
    for line in lines:
        start = re.search(r"\.(?:entry|func)\b.*?(\w+)\s*\(?\s*$", line)
        if start:
            name, body = start[1], []
        if name:
            body.append(line)
            if line.startswith("}"):
                yield name, body
                name = None


def files_of(lines):
    return {m[1]: m[2].split("/include/")[-1] for line in lines
            if (m := re.match(r'\s*\.file\s+(\d+) "([^"]+)"', line))}


def approximations(body):
    return [op for line in body if (m := INSTRUCTION.match(line.strip()))
            and APPROXIMATE.search(op := m[1])]


def joinable(body, files):
    """(line of a plain product, line of a plain sum that it may reach) for each such sum."""
    made, found = {}, set()
    for final in (False, True):  # twice, because a loop may carry a product back
        where = "?"
        for line in body:
            line = line.strip()
            if m := re.match(r"\.loc\s+(\d+) (\d+)", line):
                where = f"{files.get(m[1], m[1])}:{m[2]}"
                continue
            m = INSTRUCTION.match(line)
            if not m:
                continue
            op, to, operands = m[1].replace(".ftz", ""), m[2], re.findall(r"%\w+", m[3] or "")
            products = [made[r] for r in operands if r in made]
            if PLAIN.match(op) and op.startswith("mul"):
                made[to] = where
            elif PLAIN.match(op) and products and final:
                found |= {(p, where) for p in products}
            elif CARRIES.match(op) and products:
                made[to] = products[0]
    return sorted(found)


def complaints(fast, exact):
    """What is wrong with a source, compiled both ways."""
    ours, others = (dict(functions(normalised(text))) for text in (fast, exact))
    for name in ours.keys() | others.keys():
        if ours.get(name) != others.get(name):
            yield f"{name}: not the same with -use_fast_math and with --fmad=false"
    files = files_of(fast.splitlines())
    for name, body in functions(fast.splitlines()):  # as it is: what says .rn stays as it is
        for op in sorted(set(approximations(body))):
            yield f"{name}: {op} approximates"
        for product, total in joinable(body, files):
            yield f"{name}: the product of {product} may be joined with the sum of {total}"


def ptx(nvcc, source, arch, mode, folder):
    out = os.path.join(folder, f"{os.path.basename(source)}.{mode}.ptx")
    done = subprocess.run(
        [nvcc, *FLAGS, *MODES[mode], f"-arch={arch}", f"-I{kernels.ROOT}/include",
         f"-I{kernels.ROOT}/tests", source, "-o", out], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source} does not compile ({mode}):\n{done.stdout}{done.stderr}")
    with open(out, encoding="utf-8") as file:
        return file.read()


def host_complaints(fast, exact):
    """The functions of assembler text that are not the same."""
    def by_function(text):
        bodies, name = {}, ""
        for line in text.splitlines():
            label = re.match(r"([A-Za-z_]\w*):", line)
            name = label[1] if label else name
            bodies.setdefault(name, []).append(line)
        return bodies
    ours, others = by_function(fast), by_function(exact)
    return sorted(name for name in ours.keys() | others.keys() if ours.get(name) != others.get(name))


def compare_on_host(compiler):
    flags = ["-std=c++20", "-O2", "-DNDEBUG", "-S", "-o", "-", f"-I{kernels.ROOT}/include",
             f"-I{kernels.ROOT}/tests", os.path.join(kernels.ROOT, "tests", "fast_math.cpp")]
    if platform.machine() == "x86_64":
        flags.append("-march=x86-64-v3")  # without it only the kernels have multiply-adds
    texts = [subprocess.run([compiler, f"-ffp-contract={mode}", *flags], stdout=subprocess.PIPE,
                            text=True, check=True).stdout for mode in ("fast", "off")]
    found = host_complaints(*texts)
    for name in found:
        print(f"{name}: not the same with -ffp-contract=fast and =off", file=sys.stderr)
    print(f"{compiler}: {len(texts[0].splitlines())} lines, {len(found)} complaints")
    return 1 if found or "fma" not in texts[0] else 0


def self_test():
    head = '.file 1 "/a/include/unmask/x.hpp"\n.visible .entry k(\n{\n.loc 1 7 3\n'
    same = (head + "mul.ftz.f32 %f1, %f2, %f3;\nmul.rn.ftz.f32 %f8, %f2, %f3;\nadd.ftz.f32 %f4, %f8, %f3;\n"
            "div.rn.ftz.f32 %f5, %f1, %f2;\n}\n",
            head + "mul.rn.f32 %f1, %f2, %f3;\nmul.rn.f32 %f8, %f2, %f3;\nadd.rn.f32 %f4, %f8, %f3;\n"
            "div.rn.f32 %f5, %f1, %f2;\n}\n")
    assert not list(complaints(*same)), list(complaints(*same))
    wrong = [(fast, exact) for fast, exact in (
        ("fma.rn.ftz.f32 %f1, %f2, %f3, %f4;", "mul.rn.f32 %f5, %f2, %f3;\nadd.rn.f32 %f1, %f5, %f4;"),
        ("div.approx.ftz.f32 %f1, %f2, %f3;", "div.rn.f32 %f1, %f2, %f3;"),
        ("ex2.approx.ftz.f32 %f1, %f2;", "ex2.approx.f32 %f1, %f2;"),
        ("mul.ftz.f32 %f1, %f2, %f3;\n@%p1 mov.f32 %f6, %f1;\n.loc 1 9 1\nsub.ftz.f32 %f4, %f5, %f6;",
         "mul.rn.f32 %f1, %f2, %f3;\n@%p1 mov.f32 %f6, %f1;\n.loc 1 9 1\nsub.rn.f32 %f4, %f5, %f6;"),
        ("add.ftz.f32 %f4, %f5, %f1;\nmul.ftz.f32 %f1, %f2, %f3;",
         "add.rn.f32 %f4, %f5, %f1;\nmul.rn.f32 %f1, %f2, %f3;"))]
    for fast, exact in wrong:
        assert list(complaints(head + fast + "\n}\n", head + exact + "\n}\n")), fast
    said = list(complaints(head + wrong[3][0] + "\n}\n", head + wrong[3][1] + "\n}\n"))
    assert host_complaints("a:\n mul\nb:\n fma\n", "a:\n mul\nb:\n mul\n add\n") == ["b"]
    assert said == ["k: the product of unmask/x.hpp:7 may be joined with the sum of unmask/x.hpp:9"], said


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--host", metavar="COMPILER")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("sources", nargs="*")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if arguments.host:
        return compare_on_host(arguments.host)
    nvcc = kernels.compiler()
    if not nvcc:
        return 2
    failed = False
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {source: [pool.submit(ptx, nvcc, source, arguments.arch, mode, folder)
                         for mode in MODES]
                for source in arguments.sources or kernels.library_sources()}
        for source, (fast, exact) in jobs.items():
            found = list(complaints(fast.result(), exact.result()))
            names = [c.split(": ", 1) for c in found]
            for name, (_, what) in zip(kernels.readable([n for n, _ in names]), names):
                print(f"{name}: {what}", file=sys.stderr)
            count = len(list(functions(fast.result().splitlines())))
            print(f"{os.path.relpath(source, kernels.ROOT)}: {count} kernels and functions, "
                  f"{len(found)} complaints")
            failed = failed or found or not count
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
