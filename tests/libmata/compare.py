# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of examples/libmata beside those of outlines-core: the same languages, and errors.

usage: compare.py PROGRAM [-v] [CLASS[.TEST]...]
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples" / "bindings" / "python" / "src" / "unmask"))
sys.dont_write_bytecode = True

import _compile  # noqa: E402
from outlines_core import json_schema  # noqa: E402

PROGRAM = None
SCHEMA = {"type": "object",
          "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}, "vip": {"type": "boolean"},
                         "day": {"type": "string", "format": "date"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
                         "inner": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
          "required": ["name", "age", "vip", "day", "tags", "inner"]}
EXPRESSIONS = ["", "a", "a|b", "(ab)*", "[0-9]{4}-[0-9]{2}-[0-9]{2}", "x{0,3}y+", "(a|b)*a(a|b){5}", "é|ü{2}|[α-ω]+", "[^a]", ".b", r"-?[0-9]+(\.[0-9]+)?", "[0-9]{2}( [0-9]{2})*", "(ab|cd)+", "a(bc)*",
               r'"([^"\\\x00-\x1F\x7F-\x9F]|\\["\\/bfnrt])*"', r"\{[ ]?\}", r"[ \n]*"]


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

    def test_the_languages_are_those_of_outlines_core(self):
        schema = json_schema.build_regex_from_schema(json.dumps(SCHEMA)).replace(r"\d", "[0-9]")  # Unicode's digits there
        for expression in [*EXPRESSIONS, schema]:
            with self.subTest(expression=expression):
                ours = self.table(expression)
                theirs = states_of(_compile.file_of(_compile.table_of(expression)))
                self.assertIsNone(difference(ours, theirs))
                self.assertLessEqual(len(ours[1]), len(theirs[1]))

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
    PROGRAM = sys.argv.pop(1)
    unittest.main()
