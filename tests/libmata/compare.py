# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of examples/libmata beside those of unmask::language: the same languages, state for state, and errors.

usage: compare.py PROGRAM OURS [-v] [CLASS[.TEST]...]
"""
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = OURS = None
EXPRESSIONS = ["", "a", "a|b", "(ab)*", "[0-9]{4}-[0-9]{2}-[0-9]{2}", "x{0,3}y+", "(a|b)*a(a|b){5}", "é|ü{2}|[α-ω]+", "[^a]", r"[^\n]b", r"-?[0-9]+(\.[0-9]+)?", "[0-9]{2}( [0-9]{2})*", "(ab|cd)+", "a(bc)*",
               r'"([^"\\\x00-\x1F\x7F-\x9F]|\\["\\/bfnrt])*"', r"\{[ ]?\}", r"[ \n]*"]


def random_expression(rng, depth=3):
    """One that RE2 and ECMA-262 read alike."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(["a", "b", "é", "[ab]", "[^a]", "[b-é]", "0", r"\.", "😀"])
    kind, inner = rng.randrange(4), random_expression(rng, depth - 1)
    if kind == 0:
        return inner + random_expression(rng, depth - 1)
    if kind == 1:
        return f"({inner}|{random_expression(rng, depth - 1)})"
    return f"({inner})" + rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}"])


def states_of(data):
    """The start of a table and, for each state, whether it accepts and what follows a byte."""
    assert data[:8] == b"unmaskDF"
    _, count, start = struct.unpack_from("<III", data, 8)
    at, states = 20, []
    for _ in range(count):
        accepts, runs = struct.unpack_from("<BH", data, at)
        at += 3
        after = {}
        for _ in range(runs):
            first, last, to = struct.unpack_from("<BBI", data, at)
            at += 6
            after.update(dict.fromkeys(range(first, last + 1), to))
        states.append((accepts == 1, after))
    assert at == len(data)
    return start, states


def difference(a, b):
    """The shortest string that one of two languages has and the other has not; None if there is none."""
    (start_a, of_a), (start_b, of_b) = a, b
    dead = (False, {})
    queue, seen = [(start_a, start_b, b"")], {(start_a, start_b)}
    for p, q, text in queue:
        (accepts_a, after_a), (accepts_b, after_b) = (dead if p is None else of_a[p]), (dead if q is None else of_b[q])
        if accepts_a != accepts_b:
            return text
        for byte in after_a.keys() | after_b.keys():
            pair = (after_a.get(byte), after_b.get(byte))
            if pair not in seen:
                seen.add(pair)
                queue.append((*pair, text + bytes([byte])))
    return None


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60)


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(pathlib.Path(folder.name, "table.dfa"))

    def table(self, expression):
        done = run(expression, self.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""), expression)
        return states_of(pathlib.Path(self.path).read_bytes())

    def test_the_languages_are_those_of_the_library(self):
        rng = random.Random(7)
        for expression in [*EXPRESSIONS, *(random_expression(rng) for _ in range(200))]:
            with self.subTest(expression=expression):
                libmata = self.table(expression)
                self.assertEqual(subprocess.run([OURS, expression, self.path], check=False, timeout=60).returncode, 0)
                ours = states_of(pathlib.Path(self.path).read_bytes())
                self.assertIsNone(difference(ours, libmata))
                self.assertEqual(len(ours[1]), len(libmata[1]))

    def test_that_can_fail(self):
        for a, b, text in (("a|b", "a", b"b"), ("x{0,3}", "x{0,4}", b"xxxx"), ("é", "e", None)):
            self.assertIsNotNone(found := difference(self.table(a), self.table(b)))
            self.assertIn(found, (text, "é".encode(), b"e") if text is None else (text,))

    def test_errors(self):
        for arguments, status, sentence in (
                (["(", self.path], 1, "missing )"), (["a{1001}", self.path], 1, "invalid repetition"),
                (["--states", "3000", "(a|b)*a(a|b){18}", self.path], 1, "more than 3000 states"),
                (["--states", "x", "a", self.path], 2, "no number"), (["--states", "-1", "a", self.path], 2, "no number"),
                (["a"], 2, "usage"), (["a", "/nowhere/table.dfa"], 1, "/nowhere/table.dfa")):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, status)
                self.assertIn(sentence, done.stderr)
                self.assertFalse(pathlib.Path(self.path).exists())


if __name__ == "__main__":
    PROGRAM, OURS = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
