#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a kernel asks of a device, from its execution as PTX and its machine code: estimates, no measurement.

usage: estimates.py COUNTS COLUMNS ROWS [MORE_COUNTS MORE_COLUMNS MORE_ROWS] [--ptxas FILE]

COUNTS is what UNMASK_PTX_COUNTS of the interpreter (tests/ptx) got of a program whose launches each read ROWS
rows of COLUMNS logits, such as unmask_tests_example_cuda_step_time 1 COLUMNS ROWS. With a second shape, the cost of
a logit is that of the columns that it has more: the rest is the cost of a row. --ptxas has the output of `ptxas -v`
for sm_90. The bounds are those of an H100 SXM: 3.35 TB/s, 132 multiprocessors that start four warp
instructions a cycle, 1.755 GHz.
"""
import json
import pathlib
import re
import subprocess
import sys

BANDWIDTH = 3.35e12
WARP_INSTRUCTIONS = 132 * 4 * 1.755e9
REGISTERS, WARPS, BLOCKS = 65536, 64, 32  # of a multiprocessor of sm_90


def readable(name):
    said = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()
    said = re.sub(r"unmask::v\d+_\d+::(device::)?|^void |exact_exponential, |example::|bench::|\(anonymous namespace\)::|unmask::device::", "", said)
    depth = 0
    for i, c in enumerate(said):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            said = said[:i]
            break
    return re.sub(r"(\d+)u, ", "", said)


def counts(path):
    return {c["kernel"]: c for c in map(json.loads, pathlib.Path(path).read_text(encoding="utf-8").splitlines())}


def occupancy(registers, threads):
    """Warps of a multiprocessor, of 64: registers are given to warps in units of 256."""
    warps = threads // 32
    of_warp = (registers * 32 + 255) // 256 * 256
    return min(BLOCKS, WARPS // warps, REGISTERS // of_warp // warps) * warps


def ptxas(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    facts = {}
    for said in text.split("Compiling entry function ")[1:]:
        name = re.match(r"'([^']+)'", said)[1]
        spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
        shared = re.search(r"(\d+) bytes smem", said)
        facts[name] = (int(re.search(r"Used (\d+) registers", said)[1]), sum(map(int, spills)), int(shared[1]) if shared else 0)
    return facts


def main(arguments):
    known = {}
    if "--ptxas" in arguments:
        at = arguments.index("--ptxas")
        known = ptxas(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2:]
    few, many = [(counts(arguments[i]), int(arguments[i + 1]), int(arguments[i + 2])) for i in range(0, len(arguments), 3)][:2]
    print(f"| kernel | bytes of a row of {many[1]:,} | bytes read for it, in sectors | instructions a logit | of a row besides | bank conflicts | block barriers a block "
          "| registers, spills, warps of 64 | us for 64 rows of 126,464: memory, instructions |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    for name, c in few[0].items():
        d = many[0].get(name)
        label = readable(name)
        kind = re.search(r"\b(float|bfloat16)\b", label)
        if d is None or not re.search("read|softmax|program|slices|reduce", label) or kind is None:
            continue
        size = 4 if kind[1] == "float" else 2
        def each(x, key, shape):
            return x[key] / x["launches"] / shape[2]
        rows = [(each(x, "instructions", s), s[1]) for x, s in ((c, few), (d, many))]
        slope = (rows[1][0] - rows[0][0]) / (rows[1][1] - rows[0][1])
        besides = rows[0][0] - slope * rows[0][1]
        sectors = [each(x, "sectors_read", s) * 32 for x, s in ((c, few), (d, many))]
        per_logit = (sectors[1] - sectors[0]) / (many[1] - few[1])
        conflicts = d["shared_passes"] - d["least_shared_passes"]
        barriers = d["block_barriers"] / d["blocks"] / (d["threads"] / 32)
        registers = "not known"
        if name in known:
            r, spilt, _ = known[name]
            registers = f"{r}, {spilt} B, {occupancy(r, d['threads'])}"
        memory = 64 * 126464 * per_logit / BANDWIDTH * 1e6
        instructions = 64 * (126464 * slope + besides) / WARP_INSTRUCTIONS * 1e6
        print(f"| `{label}` | {size * many[1]:,} | {sectors[1]:,.0f}; {per_logit / size:.3f} of a logit's | {slope * 32:.1f} "
              f"| {besides * 32:,.0f} | {conflicts} | {barriers:.1f} | {registers} | {memory:.1f}, {instructions:.1f} |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
