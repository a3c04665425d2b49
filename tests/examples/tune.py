# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs unmask_tune as a user would and looks at what it prints.

usage: tune.py UNMASK_TUNE UNMASK_DEMO [test name]...
"""
import csv
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

from refusal import assert_refuses

TUNE, DEMO = sys.argv[1:3]
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SMALL = ("--model", "sudoku", "--depth", "0", "--target", "exact >= 0.5")


def decoded(*arguments):
    """What the demo's JSON says of sixteen puzzles under a policy."""
    done = subprocess.run([DEMO, "--json", "--model", "sudoku", "--limit", "16", *arguments],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["policies"][0]


def puzzles():
    """Sixteen of the examples', with half of the cells given that one token a pass finds: half the passes."""
    answers = decoded("--policy", "tokens_per_step")["answers"]
    with open(os.path.join(EXAMPLES, "sudoku", "puzzles.jsonl"), encoding="ascii") as file:
        lines = [json.loads(line) for line, _ in zip(file, answers)]
    for line, answer in zip(lines, answers):
        line["given"] = "".join(answer[i] if i % 2 else cell for i, cell in enumerate(line["given"]))
    return lines


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def run(*arguments):
    return subprocess.run([TUNE, *arguments], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)


class Tune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.log = os.path.join(cls.folder.name, "results.jsonl")
        cls.points = os.path.join(cls.folder.name, "points")
        cls.problems = os.path.join(cls.folder.name, "puzzles.jsonl")
        cls.puzzles = puzzles()
        write_lines(cls.problems, cls.puzzles)
        cls.small = (*SMALL, "--problems", cls.problems)
        cls.done = run(*cls.small, "--resume", cls.log, "--points", cls.points)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fails(self, arguments, *said):
        assert_refuses(self, [TUNE, *arguments], *said)

    def test_prints_a_policy_that_decodes_as_it_says(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        policy = self.done.stdout.split("\n")[0]
        right, of, forwards = re.search(r"unseen +(\d+) of (\d+) right.*, ([\d.]+) forwards", self.done.stdout).groups()
        self.assertEqual(of, "8")
        answers = decoded("--prompts", self.problems, "--policy", policy)
        self.assertEqual(answers["right"][1::2].count("1"), int(right))
        self.assertAlmostEqual(sum(answers["forwards_each"][1::2]) / 8, float(forwards), places=2)

    def test_prints_the_area_under_accuracy_over_parallelism(self):
        area, of_singles = map(float, re.search(r"AUP of the efficient ones ([\d.]+), of single rules alone ([\d.]+)",
                                                self.done.stdout).groups())
        self.assertGreater(of_singles, 0)
        self.assertEqual(area, of_singles)  # at depth 0 all are single
        with open(self.points + ".csv", encoding="utf-8", newline="") as file:
            rows = [(float(row["forwards"]), int(row["right"]) / 4) for row in csv.DictReader(file) if row["efficient"] == "1"]
        masked = sum(puzzle["given"].count("_") for puzzle in self.puzzles) / 16
        at = sorted((masked / forwards, 100 * share) for forwards, share in rows)
        top = max(y for _, y in at)
        at = [(x, y, y * min(1, math.exp(-3 * (1 - y / top)))) for x, y in at if y >= at[0][1] - 5]
        naive = at[0][0] * at[0][1] + sum((b[0] - a[0]) * (a[2] + b[2]) / 2 for a, b in zip(at, at[1:]))
        self.assertAlmostEqual(area / naive, 1, delta=2e-3)  # four digits are printed

    def test_writes_its_points(self):
        with open(self.points + ".csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["problems"] for row in rows}, {"4"})
        self.assertIn(self.done.stdout.split("\n")[0], [row["policy"] for row in rows])
        best = min((float(row["forwards"]) for row in rows if row["right"] == "4"), default=None)
        for row in rows:
            if row["efficient"] == "1" and row["right"] == "4":
                self.assertEqual(float(row["forwards"]), best)
        self.assertTrue(xml.etree.ElementTree.parse(self.points + ".svg").getroot().tag.endswith("svg"))

    def test_resumes(self):
        before = os.path.getsize(self.log)
        again = run(*self.small, "--resume", self.log)
        self.assertEqual(again.stdout, self.done.stdout)
        self.assertEqual(os.path.getsize(self.log), before)
        with open(self.log, "rb+") as file:  # a last line that was cut off
            file.truncate(before - 5)
        self.assertEqual(run(*self.small, "--resume", self.log).stdout, self.done.stdout)
        self.fails(("--model", "sudoku", "--limit", "18", "--resume", self.log), "--resume", "same engine, model")

    def test_stops_with_what_it_has(self):
        with subprocess.Popen([TUNE, "--model", "sudoku", "--limit", "80", "--threads", "1"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as running:
            running.stderr.read(20)  # the first progress
            time.sleep(0.2)
            running.send_signal(signal.SIGINT)
            said, _ = running.communicate(timeout=500)
        self.assertEqual(running.returncode, 0)
        self.assertRegex(said, r"\Aby_\S.*\nstopped: the best of what was decoded so far\n")
        self.assertRegex(said, r"unseen +\d+ of 40 right")

    def test_agreement_needs_no_answers(self):
        problems = os.path.join(self.folder.name, "problems.jsonl")
        write_lines(problems, [{"task": "a", "given": "__1__62_65146_3__5_24_3_1___________"},
                               {"task": "a", "given": "__36_4_4__2_41___6_6_1_______3_____2"}])
        arguments = ("--model", "sudoku", "--problems", problems, "--depth", "0")
        self.fails(arguments, "agreement")
        self.fails((*arguments, "--target", "agreement >= 0.5"), "search::problems must be at least 8, got 2")

    def test_each_set_has_every_task(self):
        problems = os.path.join(self.folder.name, "tasks.jsonl")
        lines = []
        for i, puzzle in enumerate(self.puzzles):  # the tasks in turn; of the second nothing is right
            wrong = {"task": "b", "given": puzzle["given"], "answer": puzzle["given"].replace("_", "1")}
            lines.append({**puzzle, "task": "a"} if i % 2 == 0 else wrong)
        write_lines(problems, lines)
        done = run("--model", "sudoku", "--problems", problems, "--depth", "0", "--target", "exact >= 0.3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\A\S+( \+ \S+)+\n(nothing is sure to reach .*\n)?\nsearch")
        for which, count in (("search", 4), ("choice", 4), ("unseen", 8)):
            right, of = map(int, re.search(which + r" +(\d+) of (\d+) right", done.stdout).groups())
            self.assertEqual(of, count)
            self.assertTrue(count / 4 <= right <= count / 2, done.stdout)

    def test_says_why_nothing_can_be_decoded(self):
        problems = os.path.join(self.folder.name, "unfit.jsonl")
        write_lines(problems, [{"task": "a", "given": 35 * "1" + "_", "answer": 36 * "2"}] * 8)
        done = run("--model", "sudoku", "--problems", problems, "--depth", "0")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"unmask_tune: the decoder must be able to decode one policy; .*'_' filled.*, got none\n$")

    def test_refuses_what_makes_no_search(self):
        self.fails(("--target", "exact > 0.9"), "--target must be", "exact > 0.9")
        self.fails(("--target", "exact >= 2"), "--target must be")
        self.fails(("--minimise", "watts"), "--minimise must be", "watts")
        self.fails(("--confidence-level", "1"), "--confidence-level must be", "1")
        self.fails(("--depth", "ten"), "--depth must be", "ten")
        self.fails(("--points", "/no/such/folder/x"), "--points must be")
        self.fails(("--target",), "--target must be followed by")
        self.fails(("--model", __file__), "tune.py")
        self.fails(("--no-such-option",), "--no-such-option")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
