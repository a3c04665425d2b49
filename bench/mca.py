#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bounds of the row kernel's loop on processors that are not at hand, from the models of llvm-mca:
python3 bench/mca.py [--mca llvm-mca-22]

Compiles the read of all statistics of f32, cuts out the loop over the columns, and prints cycles for 16
logits: `simulated`, with the loop's own dependencies, and `bound`, by the units alone. The names of the
units tell which model a processor has: llvm-mca 22 has none for Zen 5 and takes that of Zen 4. NEON needs
aarch64-linux-gnu-g++. A model knows no memory, no chunk around the loop and no neighbour.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
X86, ARM = ("c++", "x86_64"), ("aarch64-linux-gnu-g++", "aarch64")
# instruction set: compiler, vectors in mangled names, an instruction that a vector has once, its width
SETS = {
    "AVX-512": (X86, "avx512_vectors", "vscalefps", 16),
    "AVX2": (X86, "avx2_vectors", "vcvtps2dq", 8),
    "NEON": (ARM, "neon_vectors", "fcvtns", 4),
}
PROCESSORS = {
    "AVX-512": ("cascadelake", "sapphirerapids", "znver4", "znver5"),
    "AVX2": ("cascadelake", "sapphirerapids", "znver4", "znver5"),
    "NEON": ("neoverse-v2",),
}


def assembly(compiler):
    command = [compiler, "-std=c++20", "-O2", "-S", "-o", "-", f"-I{HERE}", f"-I{HERE}/../include", f"{HERE}/read.cpp"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def loop(text, vectors, once):
    """The innermost loop of sums_kernel::with_sums for pointers to float."""
    function = re.search(rf"^_ZN\S*{vectors}\S*9with_sums\S*EEPKfLm4\S*:$(.*?)^\t\.cfi_endproc", text, re.M | re.S)
    blocks = re.findall(r"^\.L\d+:\n((?:\t.*\n)+?\t(?:j\w+|b[.\w]+)\t\.L\d+\n)", function[1], re.M)
    return next(b for b in blocks if once in b)


def simulate(mca, target, processor, code):
    command = [mca, f"-mtriple={target}", f"-mcpu={processor}", "-iterations=200"]
    out = subprocess.run(command, input=code, check=True, capture_output=True, text=True).stdout
    found = lambda pattern: re.search(pattern, out)[1]
    units = found(r"Resources:\n\[\S+\]\s+- (\w+)")
    return int(found(r"Total Cycles:\s+(\d+)")) / 200, float(found(r"Block RThroughput:\s+([\d.]+)")), units


def main():
    named = [f"llvm-mca-{v}" for v in range(30, 13, -1)] + ["llvm-mca"]
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mca", default=next(filter(shutil.which, named), None), help="the newest found by default")
    mca = arguments.parse_args().mca
    if mca is None:
        sys.exit("llvm-mca is needed: apt install llvm")
    print(re.search(r"LLVM version \S+", subprocess.run([mca, "--version"], capture_output=True, text=True).stdout)[0])
    print("\n| loop | processor | a unit of its model | simulated | bound |\n| --- | --- | --- | --- | --- |")
    for name, ((compiler, target), vectors, once, width) in SETS.items():
        if shutil.which(compiler) is None:
            print(f"| {name} | {compiler} is not installed | | | |")
            continue
        code = loop(assembly(compiler), vectors, once)
        each = code.count(once) * width / 16
        for processor in PROCESSORS[name]:
            cycles, bound, units = simulate(mca, target, processor, code)
            print(f"| {name} | {processor} | {units} | {cycles / each:.1f} | {bound / each:.1f} |")


if __name__ == "__main__":
    main()
