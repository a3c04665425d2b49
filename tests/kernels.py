#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registers, shared memory, stack, spills and instructions of every kernel, as the assembler has them.

usage: kernels.py [--arch ARCH]... [--jobs N] [--write FILE] [--keep FOLDER] [SOURCE.cu]...
       kernels.py --self-test

Compiles the sources (by default those of tests/unmask/cuda that hold kernels of the library) for each
architecture (by default sm_80, sm_90, sm_100 and sm_120) with warnings as errors, and prints a table in
Markdown. The instructions are those of the kernel's section, with what is rarely run and what fills it up.
Needs nvcc and no GPU. Ends with status 1 if a source does not compile or a kernel spills
registers, save those that SPILLS names with a reason.
"""
import argparse
import concurrent.futures
import datetime
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTRUCTION = 16  # bytes, from sm_70 on
ARCHITECTURES = ["sm_80", "sm_90", "sm_100", "sm_120"]
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-Xcompiler=-Wall,-Wextra", "-Werror=all-warnings",
         "-Werror=cross-execution-space-call", "-Xptxas=-v"]

# Kernels that may spill, as regular expressions for their name, how many bytes they may store, and why.
SPILLS = [
    (r"read_(rows|shards)<b?float16, ", 36,
     "eight blocks of 64 registers read faster than fewer of more (bench/results/gpu.md)"),
    (r"hold_rows<float, ", 12, "a block of 512 threads has 128 registers for each"),
    (r"read_rows<float, 151u, ", 4, "a thread has no more than the 255 registers of this truncation"),
]

ENTRY = re.compile(r"'(?P<name>[^']+)' for '(?P<arch>[^']+)'")
PROPERTIES = re.compile(r"Function properties for (\S+)\s+(\d+) bytes stack frame, "
                        r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def compiler():
    """Path of nvcc; says so if there is none."""
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or shutil.which(
        "nvcc", path="/usr/local/cuda/bin")
    if not nvcc:
        print("no nvcc on PATH or in /usr/local/cuda/bin", file=sys.stderr)
    return nvcc


def library_sources():
    """The tests' sources that hold kernels of the library."""
    folder = os.path.join(ROOT, "tests", "unmask", "cuda")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.endswith(".cu") and name.startswith("sessions"))


def facts_of(text):
    """One dictionary for each kernel that ptxas -v speaks of."""
    for said in text.split("Compiling entry function ")[1:]:
        entry = ENTRY.match(said)
        used = re.search(r"Used (\d+) registers", said)
        shared = re.search(r"(\d+) bytes smem", said)
        fact = {"name": entry["name"], "arch": entry["arch"], "registers": int(used[1]),
                "shared": int(shared[1]) if shared else 0, "stack": 0, "stores": 0, "loads": 0}
        # Functions that a kernel calls are its own, too.
        for _, stack, stores, loads in PROPERTIES.findall(said):
            fact["stack"] = max(fact["stack"], int(stack))
            fact["stores"] += int(stores)
            fact["loads"] += int(loads)
        yield fact


def sizes_of(cubin):
    """Bytes of each kernel's section in a 64-bit ELF file."""
    first, = struct.unpack_from("<Q", cubin, 0x28)
    entry, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, first + i * entry) for i in range(count)]
    for name, _, _, _, _, size in headers:
        begin = headers[names][4] + name
        text = cubin[begin:cubin.index(b"\0", begin)].decode()
        if text.startswith(".text."):
            yield text.removeprefix(".text."), size


def readable(names):
    """Demangled, without what all of them share."""
    said = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout.splitlines()
    short = []
    for name in said:
        name = re.sub(r"unmask::v\d+_\d+::(device::)?|\(anonymous namespace\)::|testing::", "", name)
        name = re.sub(r"^void |exact_exponential, ", "", name)
        depth, end = 0, len(name)
        for i, c in enumerate(name):  # the arguments begin at the first bracket outside < >
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0:
                end = i
                break
        short.append(name[:end].replace(" >", ">"))
    return short


def excuse(name, stores):
    return next((why for pattern, most, why in SPILLS if re.search(pattern, name) and stores <= most), None)


def compile_one(nvcc, source, arch, folder):
    out = os.path.join(folder, f"{os.path.basename(source)}.{arch}.cubin")
    command = [nvcc, *FLAGS, f"-arch={arch}", f"-I{ROOT}/include", f"-I{ROOT}/tests", f"-I{ROOT}/examples", "-cubin",
               source, "-o", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    facts = []
    if done.returncode == 0:
        with open(out, "rb") as file:
            sizes = dict(sizes_of(file.read()))
        facts = [fact | {"instructions": sizes[fact["name"]] // INSTRUCTION} for fact in facts_of(text)]
    return source, arch, done.returncode, text, facts


def table(facts):
    yield "| kernel | arch | registers | shared B | stack B | spill stores B | spill loads B | instructions |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for f in sorted(facts, key=lambda f: (f["kernel"], int(re.sub(r"\D", "", f["arch"])))):
        name = f["kernel"].replace("|", "\\|")
        yield (f"| `{name}` | {f['arch']} | {f['registers']} | {f['shared']} | {f['stack']} | "
               f"{f['stores']} | {f['loads']} | {f['instructions']} |")


def self_test():
    text = """ptxas info    : Compiling entry function '_Z1av' for 'sm_90'
ptxas info    : Function properties for _Z1av
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compiling entry function '_Z1bv' for 'sm_90'
ptxas info    : Function properties for _Z1bv
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers
ptxas info    : Function properties for _Z1cv
    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
"""
    a, b = facts_of(text)
    assert (a["registers"], a["shared"], a["stores"]) == (8, 256, 0), a
    assert (b["registers"], b["stack"], b["stores"], b["loads"]) == (40, 16, 16, 12), b
    assert readable(["_Z1av"]) == ["a"]
    names = b"\0.text._Z1av\0"
    header = bytearray(0x40)
    struct.pack_into("<Q", header, 0x28, 0x40 + len(names))
    struct.pack_into("<HHH", header, 0x3A, 64, 2, 1)
    sections = struct.pack("<IIQQQQ24x", 1, 1, 0, 0, 0, 512) + struct.pack("<IIQQQQ24x", 0, 3, 0, 0, 0x40, 14)
    assert list(sizes_of(bytes(header) + names + sections)) == [("_Z1av", 512)]
    SPILLS.append((r"by_margin", 8, "a reason"))
    assert excuse("read_rows<float, policy<by_margin>>", 8) == "a reason"
    assert not excuse("read_rows<float, policy<by_margin>>", 9)
    assert not excuse("read_rows<float, policy<by_confidence, tokens_per_step>>", 8)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--arch", action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write")
    parser.add_argument("--keep", help="a folder for the object files")
    parser.add_argument("sources", nargs="*")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    nvcc = compiler()
    if not nvcc:
        return 2
    sources = arguments.sources or library_sources()
    facts, failed = [], False
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(compile_one, nvcc, source, arch, arguments.keep or scratch)
                for arch in arguments.arch or ARCHITECTURES for source in sources]
        for job in concurrent.futures.as_completed(jobs):
            source, arch, status, text, found = job.result()
            if status:
                failed = True
                print(f"{source} does not compile for {arch}:\n{text}", file=sys.stderr)
            facts += found
    for fact, name in zip(facts, readable([f["name"] for f in facts])):
        fact["kernel"] = name
    release = re.search(r"V([\d.]+)", subprocess.run([nvcc, "--version"], capture_output=True,
                                                     text=True, check=True).stdout)[1]
    report = [
        "# Registers, memory and spills of the kernels: " + ", ".join(arguments.arch or ["all architectures"]), "",
        f"nvcc {release}, {datetime.date.today().isoformat()}, `nvcc {' '.join(FLAGS)}` for",
        f"{', '.join(arguments.arch or ARCHITECTURES)}; sources: " +
        ", ".join(f"`{os.path.relpath(s, ROOT)}`" for s in sources) + ".",
        "Made by `tests/kernels.py`. Figures of the compiler: nothing is run.", "", *table(facts), ""]
    print("\n".join(report))
    if arguments.write:
        with open(arguments.write, "w", encoding="utf-8") as file:
            file.write("\n".join(report))
    for f in facts:
        if f["stores"] or f["loads"]:
            why = excuse(f["kernel"], f["stores"])
            print(f"{f['arch']}: {f['kernel']} spills {f['stores']} bytes" +
                  (f": {why}" if why else ""), file=sys.stderr)
            failed = failed or why is None
    return 1 if failed or not facts else 0


if __name__ == "__main__":
    sys.exit(main())
