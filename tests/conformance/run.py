# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares a decoder with unmask-conformance/1, the protocol of README.md beside this file:

    python3 tests/conformance/run.py [options] -- COMMAND...

Prints which rule deviates where, and a table. Exit status: 0 if the decoder decides every case of its
rules as they do, 1 if it deviates, 2 if it cannot be compared.
"""
import argparse
import json
import queue
import subprocess
import sys
import threading
from collections import Counter, defaultdict

import numpy as np

import cases
from rules import RULES, Rule

PROTOCOL = "unmask-conformance/1"


class DecoderError(Exception):
    """The decoder ended, was silent for too long, or answered what is no answer."""


class Decoder:
    """A command that answers each line with one line."""

    def __init__(self, command, timeout):
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise DecoderError(f"cannot start {command[0]}: {error.strerror}") from None
        self._timeout = timeout
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, message):
        try:
            self._process.stdin.write(json.dumps(message, separators=(",", ":")) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            pass  # its status says why
        try:
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            raise DecoderError(f"no answer in {self._timeout} seconds") from None
        if line is None:
            raise DecoderError(f"the decoder ended with status {self._process.wait()}")
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise DecoderError(f"the answer must be a JSON object in one line, got {line[:80]!r}")
        return answer

    def close(self, seconds=10.0):
        try:
            self._process.stdin.close()
            self._process.wait(seconds)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


def request(case, number, step):
    rows = [None if np.isnan(r[0]) else r.astype(float).tolist() for r in step.logits]
    return {
        "case": case.name, "rule": case.rule, "settings": case.settings, "step": number, "vocab": case.vocab,
        "mask_token": case.mask_token, "tokens": step.tokens, "masked": step.masked, "fixed": case.fixed,
        "logits": rows,
    }


def checked(answer, case, step):
    """The changes that an answer makes; DecoderError if it is none."""
    tokens, transfers, length = answer.get("tokens"), answer.get("transfers"), len(step.tokens)
    where = f"{case.name}: "
    if not isinstance(tokens, list) or len(tokens) != length or not all(type(t) is int for t in tokens):
        raise DecoderError(f"{where}tokens must be {length} integers, got {str(tokens)[:80]}")
    if not isinstance(transfers, list) or not all(type(p) is int and 0 <= p < length for p in transfers):
        raise DecoderError(f"{where}transfers must be positions from 0 to {length - 1}, got {str(transfers)[:80]}")
    changes = {p: t for p, t in enumerate(tokens) if t != step.tokens[p]}
    if silent := sorted(changes.keys() - set(transfers)):
        raise DecoderError(f"{where}tokens of positions {silent} changed, and transfers lacks them")
    return changes


def reason(case, step, rule, changes, p):
    """What is special about position `p`, where `changes` differ from the expected ones."""
    leads = {q for q in step.masked if int(np.argmax(step.logits[q])) == case.mask_token}
    if any(q in case.fixed for q in changes):
        return "a fixed position is written"
    if case.mask_token in changes.values():
        return "a committed token becomes the mask token"
    if leads:
        return "the mask token is the best of a row"
    expected, got = step.expected.get(p), changes.get(p)
    if p not in step.masked:
        return "a committed token is not edited" if got is None else "a committed token is edited"
    if None not in (expected, got) and step.logits[p][expected] == step.logits[p][got]:
        return "equal tokens"
    row, ranks = rule.rows[p], [r.rank for q, r in rule.rows.items() if q != p]
    if row.rank in ranks and len(changes) == len(step.expected):
        return "equal positions"
    confidence = row.confidence
    for cut in rule.cuts:
        if confidence == cut:
            return f"exactly at the threshold {cut:g}"
        if abs(confidence - cut) < 1e-6:
            return f"near the threshold {cut:g}, confidence {confidence:.9g}"
    if row.rank in ranks:
        return "equal positions"
    if any(abs(r - row.rank) < 2e-5 for r in ranks):
        return "near another position"
    if not changes:
        return "nothing is committed"
    return f"confidence {confidence:.6g}"


def token(changes, p, step):
    if p in changes:
        return str(changes[p])
    return "masked" if p in step.masked else f"{step.tokens[p]} as before"


class Comparison:
    def __init__(self):
        self.cases, self.steps, self.wrong = Counter(), Counter(), Counter()
        self.first, self.reasons = {}, defaultdict(Counter)
        self.unsupported = {}
        self.deviations = defaultdict(list)

    def compare(self, decoder, case):
        key = (case.rule, case.aspect)
        rule = Rule(case.rule, case.settings, case.mask_token)
        for number, step in enumerate(case.steps):
            answer = decoder.ask(request(case, number, step))
            if "unsupported" in answer:
                self.unsupported[key] = str(answer["unsupported"])
                return
            changes = checked(answer, case, step)
            rule(step.tokens, step.masked, case.fixed, step.logits)
            self.cases[key] += number == 0
            self.steps[key] += 1
            if changes == step.expected:
                continue
            self.wrong[key] += 1
            wrong = [p for p in range(len(step.tokens)) if changes.get(p) != step.expected.get(p)]
            reasons = {p: reason(case, step, rule, changes, p) for p in wrong}
            self.reasons[key].update({r.split(" 0.")[0] for r in reasons.values()})
            for p in wrong:
                self.first.setdefault(key, f"{case.name} step {number} position {p}")
                self.deviations[case.rule].append(
                    f"{case.name} step {number} position {p}: expected {token(step.expected, p, step)}, "
                    f"got {token(changes, p, step)} ({reasons[p]})"
                )

    def table(self):
        yield "| rule | cases with | cases | steps | deviating | first, and why |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for rule in RULES:
            for aspect in cases.ASPECTS:
                key = (rule, aspect)
                if key in self.unsupported:
                    yield f"| `{rule}` | {aspect} | | | | not supported: {self.unsupported[key]} |"
                elif self.cases[key]:
                    why = ", ".join(r for r, _ in self.reasons[key].most_common(3))
                    first = f"{self.first[key]}: {why}" if key in self.first else ""
                    counts = " | ".join(str(c[key]) for c in (self.cases, self.steps, self.wrong))
                    yield f"| `{rule}` | {aspect} | {counts} | {first} |"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rules", help=f"some of {', '.join(RULES)}")
    parser.add_argument("--quick", action="store_true", help="without most recorded decodes")
    parser.add_argument("--shown", type=int, default=10, metavar="N", help="deviations of a rule to print (10)")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds to wait for an answer (60)")
    parser.add_argument("--write", metavar="FILE", help="write the cases, with `expected`, as JSON lines, and end")
    parser.add_argument("command", nargs="*", help="the decoder, behind --")
    options = parser.parse_args(arguments)
    rules = None if options.rules is None else options.rules.split(",")
    if rules and (unknown := sorted(set(rules) - RULES.keys())):
        parser.error(f"unknown rule {', '.join(unknown)}; there are {', '.join(RULES)}")
    if options.write:
        with open(options.write, "w", encoding="utf-8") as file:
            for case in cases.every(rules, options.quick):
                for number, step in enumerate(case.steps):
                    expected = {"expected": sorted(step.expected.items())}
                    print(json.dumps({**request(case, number, step), **expected}), file=file)
        return 0
    if not options.command:
        parser.error("name the decoder's command behind --")
    found, decoder = Comparison(), None
    try:
        decoder = Decoder(options.command, options.timeout)
        hello = decoder.ask({"protocol": PROTOCOL})
        if hello.get("protocol") != PROTOCOL:
            raise DecoderError(f"the decoder must speak {PROTOCOL}, got {str(hello)[:80]}")
        if not isinstance(hello.get("rules"), list) or not set(hello["rules"]) & RULES.keys():
            raise DecoderError(f"rules must name some of {', '.join(RULES)}, got {str(hello.get('rules'))[:80]}")
        known = [r for r in RULES if r in hello["rules"] and (rules is None or r in rules)]
        print(f"{hello.get('name', options.command[0])}: {', '.join(known)}", flush=True)
        for case in cases.every(known, options.quick):
            found.compare(decoder, case)
        decoder.close()
    except DecoderError as error:
        print(f"run.py: {error}", file=sys.stderr)
        if decoder is not None:
            decoder.close(0)
        return 2
    for rule, lines in found.deviations.items():
        print("", *lines[: options.shown], sep="\n")
        if len(lines) > options.shown:
            print(f"... and {len(lines) - options.shown} more positions of {rule}")
    print("\n".join(["", *found.table(), ""]))
    wrong, steps = sum(found.wrong.values()), sum(found.steps.values())
    if not steps:
        print("run.py: the decoder supports no case of these rules", file=sys.stderr)
        return 2
    print(f"{steps} steps of {sum(found.cases.values())} cases, {wrong} deviate")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
