#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks who includes whom, and the form of the files.

usage: layering.py [REPOSITORY]
       layering.py --self-test
"""
import os
import re
import sys
import tempfile

# Headers of this library that a header may include. A key is a file, or a folder with a final
# slash; the longest key that fits a header is its rule. `*.hpp` after a folder leaves out its .cuh
# files.
CORE = ["version.hpp", "core/", "text/"]
MATHS = CORE + ["stats/", "ranks/", "step/"]
DECODING = MATHS + ["policy/", "named/", "session.hpp", "session_layers.hpp", "session_rows.hpp",
                    "sharded_session.hpp", "named_policy.hpp"]
MAY_INCLUDE = {
    "version.hpp": [],
    "core/": CORE,
    "text/": CORE,
    "stats/": CORE + ["stats/"],
    "ranks/": CORE + ["stats/", "ranks/"],
    "step/": MATHS,
    "constraint/": CORE + ["constraint/"],
    "constraint.hpp": CORE + ["constraint/"],
    # Compilers of languages: of the rest the table of an automaton alone.
    "language/": CORE + ["language/", "constraint/byte_automaton.hpp"],
    "language.hpp": ["language/"],
    "policy/": CORE + ["policy/"],
    "named/": CORE + ["policy/", "named/"],
    "host/": MATHS + ["host/"],
    "cuda/": MATHS + ["cuda/"],
    "interop/": CORE,
    "trace/": CORE + ["policy/", "named/", "trace/"],
    "trace.hpp": ["trace/"],
    "tune.hpp": ["tune/"],
    "threads.hpp": ["host/"],
    "tune/": CORE + ["policy/", "named/", "tune/"],
    "session.hpp": CORE + ["step/", "session.inl", "session_layers.hpp", "session_rows.hpp"],
    "session.inl": [],
    "session_rows.hpp": CORE,
    "session_layers.hpp": CORE + ["step/"],
    "sharded_session.hpp": MATHS + ["session.hpp"],
    "named_policy.hpp": CORE + ["policy/", "named/", "host/backend.hpp", "session.hpp"],
    "named_requirements.hpp": CORE + ["step/", "policy/", "named/", "named_policy.hpp"],
    "compiled.hpp": DECODING + ["constraint.hpp", "language.hpp", "host/", "trace/", "named_requirements.hpp"],
    "c_api.h": [],
    "c_layers.h": ["c_api.h"],
    "c_constraints.h": ["c_api.h"],
    "c_language.h": ["c_constraints.h"],
    "c_parts.h": ["c_api.h"],
    "c_api/": DECODING + ["host/", "trace/", "cuda/c_device.hpp", "named_requirements.hpp", "c_api.h",
                          "c_layers.h", "c_constraints.h", "c_language.h", "c_parts.h", "constraint.hpp", "language.hpp", "c_api/"],
    "c_library.hpp": ["c_api/"],
    "cuda/c_device.hpp": ["cuda.hpp", "named_policy.hpp"],
    "cuda/c_library.cuh": ["cuda.cuh", "named_policy.hpp", "cuda/"],
    "unmask.hpp": DECODING + ["host/"],
    "cuda.hpp": DECODING + ["unmask.hpp", "cuda/"],
    "cuda.cuh": DECODING + ["unmask.hpp", "cuda.hpp", "cuda/"],
}

# Headers of others that it must not include, as regular expressions for the name between the
# brackets; the first rule that fits the header's own name counts.
OTHERS = r"(gtest|gmock|benchmark|nlohmann)/"
TOOLKIT = r"(cuda|cub|thrust|nv|cooperative_groups)"
EIGEN = r"(Eigen|unsupported/Eigen)/"
MUST_NOT_INCLUDE = [
    (r"interop/eigen\.hpp", [OTHERS, TOOLKIT]),
    (r"interop/half\.hpp", [OTHERS, EIGEN, r"(cub|thrust)/", r"cuda/"]),
    (r"cuda(/.*)?\.hpp", [OTHERS, EIGEN, r"(cub|thrust)/", r"cuda/", r"cuda_runtime\.h"]),
    (r"cuda(/.*)?\.cuh", [OTHERS, EIGEN, r"thrust/", r"cub/cub\.cuh"]),
    (r".*", [OTHERS, EIGEN, TOOLKIT]),
]

# Headers for users; programs to copy from, and pages, include no others. The extension of Python is a
# part of the library that lies elsewhere.
PUBLIC = re.compile(r"unmask/([a-z_]+|(policy|interop)/[a-z_/]+)\.(hpp|cuh|h)")
FOR_USERS = re.compile(r"(examples/(?!bindings/python/extension/).*\.(hpp|cuh|cpp|cu|c|h)|(.*/)?[A-Za-z_]+\.md)")

LONG = 400
LICENSE = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
CODE = (".hpp", ".inl", ".cuh", ".cpp", ".cu")
COMMENTABLE = CODE + (".h", ".py", ".sh", ".cmake", "CMakeLists.txt")
FOLDERS = ["include", "tests", "examples", "bench", "cmake", ".ci"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]*)[>"]')


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def files_under(folder):
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(("build", "__pycache__")))
        for name in sorted(names):
            yield os.path.join(where, name)


def allowed(name, entries):
    return any(name == entry or (entry.endswith("/") and name.startswith(entry)) for entry in entries)


def rule_of(header):
    fitting = [key for key in MAY_INCLUDE if allowed(header, [key])]
    return max(fitting, key=len, default=None)


def header_complaints(header, lines):
    """Complaints about one header; `header` is its name as it is included, without unmask/."""
    rule = rule_of(header)
    if rule is None:
        yield 1, "no rule for this place: add one to MAY_INCLUDE in tests/layering.py"
        return
    # The text of a kernel, which is compiled once for each instruction set, says that it has none.
    if "#pragma once" not in lines and not any("no #pragma once" in line for line in lines[:10]):
        yield 1, "no `#pragma once`"
    forbidden = next(names for place, names in MUST_NOT_INCLUDE if re.fullmatch(place, header))
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, name = match.groups()
        if bracket == '"':
            yield number, f'"{name}": include with angle brackets, <unmask/...>'
        elif name.startswith("unmask/"):
            ours = name.removeprefix("unmask/")
            if not allowed(ours, MAY_INCLUDE[rule]):
                yield number, f"{rule} must not include <{name}>"
            elif header.endswith(".hpp") and ours.endswith(".cuh"):
                yield number, f"a .hpp must not include <{name}>: a C++ compiler cannot read it"
        elif any(re.match(pattern, name) for pattern in forbidden):
            yield number, f"must not include <{name}>"


def inclusions_of_users(shown, lines):
    """Complaints about headers that are not for users, in what users copy from."""
    if not FOR_USERS.fullmatch(shown.replace(os.sep, "/")):
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and match.group(2).startswith("unmask/") and not PUBLIC.fullmatch(match.group(2)):
            yield f"{shown}:{number}: <{match.group(2)}> is not a header for users"


def complaints(repository):
    include = os.path.join(repository, "include", "unmask")
    if os.path.exists(first := os.path.join(repository, "README.md")):
        yield from inclusions_of_users("README.md", read(first))
    for folder in FOLDERS:
        for path in files_under(os.path.join(repository, folder)):
            shown = os.path.relpath(path, repository)
            if path.endswith(".md"):
                yield from inclusions_of_users(shown, read(path))
            if not path.endswith(COMMENTABLE):
                continue
            lines = read(path)
            # The second line where the first names the interpreter.
            if not any(LICENSE in line for line in lines[: 1 + (lines[:1] or [""])[0].startswith("#!")]):
                yield f"{shown}:1: the first line is not `{LICENSE}`"
            if not path.endswith(CODE):
                continue
            yield from inclusions_of_users(shown, lines)
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                if match and ".." in match.group(2).split("/"):
                    yield f'{shown}:{number}: "../" in an include'
            if os.path.commonpath([include, path]) == include:
                header = os.path.relpath(path, include).replace(os.sep, "/")
                for number, text in header_complaints(header, lines):
                    yield f"{shown}:{number}: {text}"
                if len(lines) > LONG:  # no complaint: a concept lives where it belongs
                    print(f"{shown}: {len(lines)} lines, a header that is hard to read in one go")


def self_test():
    """Feeds one bad header at a time to the checks above."""
    head = [f"// {LICENSE}", "#pragma once"]
    good = {
        "core/config.hpp": ["#include <unmask/version.hpp>", "#include <cstdint>"],
        "cuda/commit.cuh": ["#include <unmask/step/decide.hpp>", "#include <cub/block/block_reduce.cuh>"],
        "cuda/error.hpp": ["#include <cuda_runtime_api.h>"],
        "interop/eigen.hpp": ["#include <unmask/core/logits.hpp>", "#include <Eigen/Core>"],
        "session_layers.hpp": ["#include <unmask/core/part/layer.hpp>"],
        "unmask.hpp": ["#include <unmask/policy/commit.hpp>", "// #include <unmask/cuda.hpp>"],
    }
    bad = {
        "core/a.hpp": "#include <unmask/policy/commit.hpp>",
        "stats/a.hpp": "#include <unmask/step/decide.hpp>",
        "step/a.hpp": "#include <unmask/host/backend.hpp>",
        "policy/a.hpp": "#include <unmask/stats/drift.hpp>",
        "host/a.hpp": "#  include <unmask/policy/commit.hpp>",
        "host/b.hpp": "#include <cuda_runtime_api.h>",
        "host/c.hpp": "#include <gtest/gtest.h>",
        "host/d.hpp": "#include <Eigen/Core>",
        "host/e.hpp": '#include "../core/types.hpp"',
        "host/f.hpp": '#include "unmask/core/types.hpp"',
        "cuda/a.cuh": "#include <unmask/host/backend.hpp>",
        "cuda/b.cuh": "#include <cub/cub.cuh>",
        "cuda/c.cuh": "#include <thrust/device_vector.h>",
        "cuda/d.hpp": "#include <cub/block/block_reduce.cuh>",
        "cuda/e.hpp": "#include <unmask/cuda/commit.cuh>",
        "interop/a.hpp": "#include <unmask/session.hpp>",
        "session.hpp": "#include <unmask/host/backend.hpp>",
        "unmask.hpp": "#include <unmask/cuda.hpp>",
        "version.hpp": "#include <unmask/core/config.hpp>",
        "elsewhere/a.hpp": "int x;",
    }
    failures = []

    def judge(name, lines):
        with tempfile.TemporaryDirectory() as repository:
            path = os.path.join(repository, name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            return list(complaints(repository))

    for name, lines in good.items():
        if found := judge("include/unmask/" + name, head + lines):
            failures.append(f"not expected: {found}")
    for name, line in bad.items():
        if not judge("include/unmask/" + name, head + [line]):
            failures.append(f"let through in {name}: {line}")
    for lines in ([head[0]], [head[1]], [head[1], head[0]]):
        if not judge("include/unmask/core/a.hpp", lines):
            failures.append(f"let through: {lines}")
    for name in ("examples/a.cpp", "include/unmask/README.md"):
        if not judge(name, [head[0], "#include <unmask/core/types.hpp>"]):
            failures.append(f"let through: a header of the library's own in {name}")
        for header in ("session.hpp", "c_api.h", "policy/schedule/slow_fast.hpp"):
            if found := judge(name, [head[0], f"#include <unmask/{header}>"]):
                failures.append(f"not expected: {found}")
    if not judge("tests/unmask/a.test.cpp", [head[0], '#include "../a.hpp"']):
        failures.append("let through: ../ in a test")
    if judge("tests/a.py", ["#!/usr/bin/env python3", "# " + LICENSE]):
        failures.append("not expected: licence after the interpreter")
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        found = self_test()
    else:
        found = list(complaints(os.path.abspath(arguments[0] if arguments else ".")))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))


main(sys.argv[1:])
