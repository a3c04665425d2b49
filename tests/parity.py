#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that every part of the table of include/unmask/policy/README.md is decoded on a device, too.

usage: parity.py

That is: a text of the parity suite (tests/unmask/device/texts.hpp), or a policy that it decodes composed
(policies.hpp), has it, and the kernels of both are in tests/unmask/cuda.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Parts of the table that are not parts of a step.
ELSEWHERE = {
    "threshold_calibrator": "reads reports on the host",
    "order": "stands for any ranking",
    "a": "stands for any commit rule",
    "b": "stands for any commit rule",
    "allowed": "names a token",
    "yes": "names a token",
}

# The page of the parts.
PAGE = "include/unmask/policy/README.md"


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def parts_of(page):
    """The names in the first column of the table."""
    table = page[page.index("| part | stage |"):]
    table = table[:table.index("\n\n")]
    for row in table.splitlines()[2:]:
        cell = re.split(r"(?<!\\)\|", row)[1]
        for code in re.findall(r"`([^`]*)`", cell):
            yield from re.findall(r"\b[a-z]\w*\b(?=[{<,]|$| &&| \\\|)", re.sub(r"\.\w+", "", code))


def main():
    policies = read("tests", "unmask", "device", "policies.hpp")
    defined = dict(re.findall(r"inline constexpr policy\s+(\w+)\{(.*?)\};\n", policies, re.S))
    composed = re.findall(r"with<(\w+)>", re.search(r"using composed = policy_list<(.*?)>;", policies, re.S)[1])
    kernels = "".join(read("tests", "unmask", "cuda", f"sessions_{name}.cu") for name in ("by_name", "composed"))
    library = "unmask/cuda/c_library.cuh"  # whose kernels are those of policies by name
    if f"#include <{library}>" in kernels:
        kernels += read("include", *library.split("/")).replace("<named_policy>", "<unmask::named_policy>")
    complaints = []
    for name in ["unmask::named_policy"] + [f"std::remove_const_t<decltype(policies::{name})>" for name in composed]:
        if f"workspace<{name}>" not in kernels:
            complaints.append(f"no file of tests/unmask/cuda instantiates the kernels of {name}")
    decoded = read("tests", "unmask", "device", "texts.hpp") + "\n".join(defined[name] for name in composed)
    parts = sorted(set(parts_of(read(*PAGE.split("/")))) - set(ELSEWHERE))
    if len(parts) < 30:
        complaints.append(f"only {len(parts)} parts were found in {PAGE}: has the table changed?")
    for part in parts:
        if not re.search(rf"\b{part}\b", decoded):
            complaints.append(f"no policy that a device decodes has the part {part}")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
