#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that every part of the table of include/unmask/policy/README.md is decoded on a device, too.

usage: parity.py

That is: one of the policies in tests/unmask/device/policies.hpp has it, that policy is in a list of
the parity suite, and what the suite decodes on a device has its kernels in tests/unmask/cuda.
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
    lists = dict(re.findall(r"using (\w+) =\s+policy_list<(.*?)>;", policies, re.S))
    listed = {name: re.findall(r"with<(\w+)>", text) for name, text in lists.items()}
    suites = "".join(read("tests", "unmask", "device", f"emulated_parity_{n}.test.cpp")
                     for n in (1, 2, 3, 4, 5))
    on_a_device = [p for name in listed if name.startswith("every_part") for p in listed[name]]
    complaints = []
    for name in listed:
        if f"types_of<{name}>" not in suites:
            complaints.append(f"no emulated suite has the list {name}")
    for name in defined:
        if sum(name in names for names in listed.values()) != 1:
            complaints.append(f"the policy {name} is not in one list")
    sources = os.listdir(os.path.join(ROOT, "tests", "unmask", "cuda"))
    kernels = "".join(read("tests", "unmask", "cuda", name)
                      for name in sources if re.fullmatch(r"sessions_\d+\.cu", name))
    for name in on_a_device:
        if f"decltype(policies::{name})" not in kernels:
            complaints.append(f"no file of tests/unmask/cuda instantiates the kernels of {name}")
    composed = "\n".join(defined[name] for name in on_a_device if name in defined)
    parts = sorted(set(parts_of(read(*PAGE.split("/")))) - set(ELSEWHERE))
    if len(parts) < 30:
        complaints.append(f"only {len(parts)} parts were found in {PAGE}: has the table changed?")
    for part in parts:
        if not re.search(rf"\b{part}\b", composed):
            complaints.append(f"no policy that a device decodes with has the part {part}")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
