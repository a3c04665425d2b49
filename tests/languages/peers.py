#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilers of JSON Schema beside this one, in one run, as a table.

usage: peers.py JUDGED FOLDER [--every N]     files {"schema": ..., "tests": [{"data", "valid"}]}

JUDGED is judged.cpp, compiled; needs the packages xgrammar, llguidance, outlines-core and lm-format-enforcer. Each has
10 s of the processor for a schema, in a process of its own, and its defaults; the least of three times counts. Instances are written without space,
their members in the order of the case. outlines-core: the expression alone, matched by Python's `re`.
"""
import argparse
import glob
import json
import os
import re
import resource
import statistics
import time

from judge_texts import Judged, written


def xgrammar_of(schema):
    import xgrammar
    from xgrammar.testing import _is_grammar_accept_string
    start = time.perf_counter()
    grammar = xgrammar.Grammar.from_json_schema(json.dumps(schema), strict_mode=False)
    return time.perf_counter() - start, lambda text: _is_grammar_accept_string(grammar, text)


def llguidance_of(schema):
    import llguidance
    tokens = llguidance.LLTokenizer("byte")
    source = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))

    def matcher():
        made = llguidance.LLMatcher(tokens, source)
        if made.is_error():
            raise ValueError(made.get_error())
        return made

    start = time.perf_counter()
    matcher()

    def accepts(text):
        made = matcher()
        ids = list(text.encode())
        return made.try_consume_tokens(ids) == len(ids) and made.is_accepting()

    return time.perf_counter() - start, accepts


def outlines_of(schema):
    from outlines_core.json_schema import build_regex_from_schema
    start = time.perf_counter()
    expression = re.compile(build_regex_from_schema(json.dumps(schema)))
    return time.perf_counter() - start, lambda text: expression.fullmatch(text) is not None


def lmfe_of(schema):
    from lmformatenforcer import JsonSchemaParser
    start = time.perf_counter()
    parser = JsonSchemaParser(schema)

    def accepts(text):
        at = parser
        for c in text:
            if c not in at.get_allowed_characters():
                return False
            at = at.add_character(c)
        return at.can_end()

    return time.perf_counter() - start, accepts


PEERS = {"xgrammar": xgrammar_of, "llguidance": llguidance_of, "outlines-core": outlines_of, "lm-format-enforcer": lmfe_of}


def asked(make, schema, texts):
    """Seconds and a 0 or 1 for each text; None where the schema is refused, or is not done in time."""
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            spent = int(time.process_time()) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (spent + 10, spent + 10))
            seconds, accepts = make(schema)
            if seconds < 1:
                seconds = min(seconds, make(schema)[0], make(schema)[0])
            os.write(write, json.dumps([seconds, "".join("01"[bool(accepts(t))] for t in texts)]).encode())
        except BaseException:
            pass
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged")
    parser.add_argument("folder")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    judged = Judged(arguments.judged)

    def ours(schema, texts):
        got = min((judged.ask("schema", json.dumps(schema), texts) for _ in range(3)), key=lambda g: g["ms"])
        return [got["ms"] / 1e3, got["match"].replace("o", "0")] if got["ok"] else None

    for make in PEERS.values():  # what they import is not timed
        try:
            make(True)
        except Exception:
            pass
    cells = {name: {"ms": [], "valid": [0, 0], "invalid": [0, 0]} for name in ["unmask", *PEERS]}
    count = 0
    for path in sorted(glob.glob(f"{arguments.folder}/**/*.json", recursive=True))[::arguments.every]:
        case = json.load(open(path, encoding="utf-8"))
        if not isinstance(case, dict) or "tests" not in case:
            continue
        count += 1
        texts = [written(t["data"]) for t in case["tests"]]
        for name, of in cells.items():
            got = ours(case["schema"], texts) if name == "unmask" else asked(PEERS[name], case["schema"], texts)
            if got:
                of["ms"].append(1e3 * got[0])
                for test, match in zip(case["tests"], got[1]):
                    of["valid" if test["valid"] else "invalid"][match == "1"] += 1
    print(f"{count} schemas\n\n| | compiled | ms: median | p95 | most | valid: accepted / missed | invalid: rejected / "
          "accepted |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, of in cells.items():
        ms = sorted(of["ms"]) or [0]
        print(f"| {name} | {len(of['ms'])}, {100 * len(of['ms']) / count:.0f} % | {statistics.median(ms):.2g} | "
              f"{ms[int(.95 * len(ms))]:.2g} | {ms[-1]:.0f} | {of['valid'][1]} / {of['valid'][0]} | "
              f"{of['invalid'][0]} / {of['invalid'][1]} |")


main()
