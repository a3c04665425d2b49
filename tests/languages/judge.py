#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judges the compiler of schemas by JSON-Schema-Test-Suite and by a folder of schemas.

usage: judge.py JUDGED suite FOLDER [--samples N]    FOLDER/draft2020-12/*.json and so on
       judge.py JUDGED corpus FOLDER [--every N]     files {"schema": ..., "tests": [{"data", "valid"}]}, or schemas

JUDGED is judged.cpp, compiled. Counts the four cells (valid and invalid, accepted and not), says
of each valid instance that is not accepted which option admits it, draws strings of each language
and validates them with `jsonschema`. The status is 1 if a string is wrong, an invalid instance is
accepted in any order of its members, or a valid one is missed by no documented choice.
"""
import argparse
import collections
import glob
import itertools
import json
import os
import re
import statistics
import sys

import jsonschema

from judge_texts import Judged, written

ANNOTATIONS = re.compile(r"/content\.json$")  # JSON Schema says that content* reject nothing
VOCABULARIES = re.compile(r"/vocabulary\.json$")  # a $schema in another document, which turns keywords off


def is_misread(value):
    """Whether the other validator may be wrong: characters that Python's \\s \\w \\d take and ECMA's do not, or the
    other way round, and numbers that are other floats."""
    if isinstance(value, str):
        return any(ord(c) > 127 or 0x1C <= ord(c) <= 0x1F for c in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return isinstance(value, float) or abs(value) > 2**53
    if isinstance(value, dict):
        return any(is_misread(x) for pair in value.items() for x in pair)
    return isinstance(value, list) and any(is_misread(x) for x in value)


def is_unicode(text):
    return not re.search("[\ud800-\udfff]", text)


def without_formats(schema):
    if isinstance(schema, dict):
        return {k: without_formats(v) for k, v in schema.items() if k != "format" or not isinstance(v, str)}
    return [without_formats(s) for s in schema] if isinstance(schema, list) else schema


# What the page leaves out by choice, with flags of judged.cpp that take it in.
CHOICES = {"names that are not listed": ["o"], "spellings of numbers": ["i"], "escapes": ["u"],
           "depth": ["a4", "r5", "a4r5", "a7", "a3"], "part of a format": [""]}


def plain(value):
    """A value with its numbers as JSON writes integers."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def why_missed(judged, schema, value):
    """The fewest choices of the page that leave a valid value out, "order" of members among them; or None."""
    for names in [c for n in range(1, len(CHOICES) + 1) for c in itertools.combinations(CHOICES, n)]:
        source = json.dumps(without_formats(schema) if "part of a format" in names else schema)
        text = written(plain(value) if "spellings of numbers" in names else value)
        for flags in itertools.product(*[CHOICES[n] for n in names]):
            got = judged.ask("schema", source, [text], flags="".join(flags) + "m2000")
            if got["ok"] and got["match"] != "0":
                return " and ".join([*names, *(["order"] if got["match"] == "o" else [])])
    return None


def validator_of(schema):
    cls = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return cls(schema)


class Counts:
    def __init__(self):
        self.cells = collections.Counter()
        self.refusals = collections.Counter()
        self.wrong, self.accepted, self.times, self.states, self.missed = [], [], [], [], collections.Counter()
        self.slow, self.unexplained = [], []

    def judge(self, judged, name, schema, tests, samples):
        source = json.dumps(schema)
        texts = [(t, written(t["data"])) for t in tests]
        texts = [(t, text) for t, text in texts if is_unicode(text)]
        got = judged.ask("schema", source, [text for _, text in texts], samples)
        self.cells["schemas"] += 1
        self.times.append(got["ms"])
        self.slow.append((got["ms"], name))
        if not got["ok"]:
            self.cells["refused"] += 1
            self.refusals[re.sub(r"^(?:/[^/ ]*)*/([^/ ]*): ", r"\1: ", got["message"])[:90]] += 1
            return
        self.cells["compiled"] += 1
        self.states.append(got["states"])
        for (test, text), match in zip(texts, got["match"]):
            is_in = match != "0" if not test["valid"] else match == "1"
            self.cells[("valid" if test["valid"] else "invalid") + (" accepted" if is_in else " not accepted")] += 1
            if is_in and not test["valid"]:
                self.accepted.append((name, test.get("description", ""), text[:100]))
            if test["valid"] and not is_in:
                is_other = VOCABULARIES.search(name.split(":")[0])
                why = ("vocabularies" if is_other else "order" if match == "o" else
                       why_missed(judged, schema, test["data"]))
                self.missed[why] += 1
                if why is None:
                    self.unexplained.append((name, test.get("description", ""), text[:200]))
        try:
            validator = validator_of(schema)
        except Exception:  # a schema that the other validator does not read
            return
        for sample in got["samples"]:
            self.cells["samples"] += 1
            try:
                value = json.loads(sample)
            except ValueError as error:
                self.wrong.append((name, str(error), sample[:200]))
                continue
            try:
                if validator.is_valid(value):
                    continue
                error = next(validator.iter_errors(value))
                is_text = error.validator in ("pattern", "patternProperties", "additionalProperties", "propertyNames")
                is_number = error.validator in ("multipleOf", "anyOf", "oneOf", "allOf", "minimum", "maximum")
                if (is_text or is_number) and is_misread(error.instance):
                    self.cells["samples that the other validator misreads"] += 1
                else:
                    self.wrong.append((name, error.message[:150], sample[:200]))
            except Exception:  # a reference that it cannot fetch, an expression that Python cannot read
                self.cells["samples not judged"] += 1

    def show(self, title):
        print(title, dict(self.cells))
        if self.times:
            times = sorted(self.times)
            at = lambda share: times[min(len(times) - 1, int(share * len(times)))]
            print(f"  ms of CPU: median {statistics.median(times):.2f}, p95 {at(.95):.1f}, p99 {at(.99):.1f}, most {times[-1]:.0f}")
        if self.states:
            states = sorted(self.states)
            print(f"  states: median {statistics.median(states):.0f}, p95 {states[int(.95 * len(states))]}, most {states[-1]}")
        for message, count in self.refusals.most_common(40):
            print(f"  {count:5} {message}")
        for item in self.accepted[:40]:
            print("  INVALID ACCEPTED", *item)
        for item in self.wrong[:40]:
            print("  WRONG STRING", *item)
        for item in self.unexplained:
            print("  MISSED", *item)
        print("  missed by choices of the page:", self.missed.most_common())
        print("  slowest:", sorted(self.slow)[-6:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged")
    parser.add_argument("what", choices=["suite", "corpus"])
    parser.add_argument("folder")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    judged, counts = Judged(arguments.judged), Counts()
    if arguments.what == "suite":
        drafts = {"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
                  "draft7": "http://json-schema.org/draft-07/schema#"}
        for draft, address in drafts.items():
            for path in sorted(glob.glob(f"{arguments.folder}/{draft}/**/*.json", recursive=True)):
                for group in json.load(open(path, encoding="utf-8")):
                    schema = group["schema"]
                    if isinstance(schema, dict) and "$schema" not in schema:
                        schema = {"$schema": address, **schema}
                    counts.judge(judged, f"{os.path.relpath(path, arguments.folder)}: {group['description']}", schema,
                                 group["tests"], arguments.samples)
    else:
        paths = sorted(glob.glob(f"{arguments.folder}/**/*.json", recursive=True))[::arguments.every]
        for path in paths:
            content = json.load(open(path, encoding="utf-8"))
            is_case = isinstance(content, dict) and "schema" in content and "tests" in content
            schema, tests = (content["schema"], content["tests"]) if is_case else (content, [])
            counts.judge(judged, os.path.basename(path), schema, tests, arguments.samples)
    counts.show(arguments.what)
    accepted = [a for a in counts.accepted if not ANNOTATIONS.search(a[0].split(":")[0])]
    sys.exit(bool(counts.wrong or accepted or counts.unexplained))


main()
