#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that what one place lists is in all places that must have it.

usage: parity.py [--self-test]

Every part of the table of include/unmask/policy/README.md is decoded on a device: a text of the parity suite
(tests/unmask/device/texts.hpp), or a policy that it decodes composed (policies.hpp), has it, and the kernels of both are
in tests/unmask/cuda. Every member of sequence_report is in the reports of C, Python and Rust, and they have no other.
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


# Members of sequence_report that say how long a list of a session is: C and Rust return it with the list.
LENGTH = re.compile(r"last_(commits|candidates|probabilities)")
# Members that C and Rust do not have yet.
NOT_IN_C = {"last_moved"}


def members_of(text, begin, member):
    """The names that `member` finds in the block of a text that begins so, in order."""
    block = text[text.index(begin):]
    block = block[:re.search(r"^}", block, re.M).end()]
    return re.findall(member, re.sub(r"//.*", "", block), re.M)


def fields_of(text, begin, kind):
    """The members of a structure of C or C++ whose declarations begin with `kind`, several to a line or not."""
    return [name for line in members_of(text, begin, rf"^  (?:{kind}) ([^;(]+);")
            for name in re.findall(r"(\w+)(?: = [^,]*)?(?:,|$)", line)]


def report_complaints(files):
    """Complaints about the reports of C, Python and Rust, which have the members of sequence_report."""
    members = fields_of(files["plan"], "struct sequence_report {", "ending|index_t|bool")
    shown = [m for m in members if not LENGTH.fullmatch(m) and m not in NOT_IN_C]
    copied = dict(re.findall(r"answer\.(\w+) = (?:static_cast<std::int32_t>\()?r\.(\w+)",
                             files["results"][files["results"].index("unmask_get_report("):]))
    c = fields_of(files["c"], "typedef struct unmask_report {", "u?int32_t")
    rust_c = members_of(files["sys"], "pub struct unmask_report {", r"^    pub (\w+):")
    places = {
        "unmask_report of c_api.h": (c[1:], shown),
        "unmask_get_report() of c_api/results.hpp": (list(copied), shown),
        "unmask_report of sys.rs": (rust_c[1:], shown),
        "Report of values.rs": (members_of(files["values"], "pub struct Report {", r"^    pub (\w+):"), shown),
        "Report of the extension of Python": (re.findall(r"&sequence_report::(\w+),", files["module"]), members),
    }
    if len(members) < 10:
        yield f"only {len(members)} members of sequence_report were found: has core/plan.hpp changed?"
    for place, (has, wanted) in places.items():
        yield from (f"{place} has no {name}" for name in wanted if name not in has)
        yield from (f"{place} has {name}, which sequence_report has not" for name in has if name not in wanted)
    if rust_c != c:
        yield "unmask_report of sys.rs has its members in another order than c_api.h"
    yield from (f"unmask_get_report() gives {to} the value of {of}" for to, of in copied.items() if to != of)


def report_files():
    bindings = "examples/bindings"
    return {name: read(*path.split("/")) for name, path in {
        "plan": "include/unmask/core/plan.hpp",
        "c": "include/unmask/c_api.h",
        "results": "include/unmask/c_api/results.hpp",
        "sys": f"{bindings}/rust/src/sys.rs",
        "values": f"{bindings}/rust/src/values.rs",
        "module": f"{bindings}/python/extension/module.cpp",
    }.items()}


def self_test():
    """Each place without one of its members, and with another name for it, is complained about."""
    files = report_files()
    assert not list(report_complaints(files))
    for name, text in (("plan", "  index_t filled = 0;"), ("c", "refused, filled, constraint_met;"),
                       ("results", "    answer.filled = r.filled;"), ("sys", "    pub filled: i32,\n    pub constraint"),
                       ("values", "    pub filled: usize,"), ("module", "&sequence_report::filled,")):
        assert text in files[name], (name, text)
        for other in (text.replace("filled", "poured"), text.replace("filled", "refused")):
            changed = dict(files, **{name: files[name].replace(text, other)})
            assert list(report_complaints(changed)), (name, other)
    swapped = files["sys"].replace("    pub filled: i32,\n    pub constraint_met: i32,",
                                   "    pub constraint_met: i32,\n    pub filled: i32,")
    assert any("order" in c for c in report_complaints(dict(files, sys=swapped)))
    crossed = files["results"].replace("answer.filled = r.filled", "answer.filled = r.refused")
    assert any("filled the value of refused" in c for c in report_complaints(dict(files, results=crossed)))


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
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
    complaints.extend(report_complaints(report_files()))
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
