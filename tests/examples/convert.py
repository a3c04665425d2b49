# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts small decodes into traces: convert.py [test name]..."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = os.path.join(ROOT, "examples", "trace", "convert.py")
SCHEMA = os.path.join(ROOT, "include", "unmask", "trace", "unmask-trace-1.schema.json")


def converted(text, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "source")
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
        return subprocess.run([sys.executable, PROGRAM, arguments[0], name, *arguments[1:]],
                              capture_output=True, text=True, check=False)


class Convert(unittest.TestCase):
    def lines(self, text, *arguments):
        done = converted(text, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("<", done.stdout)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        with open(SCHEMA, encoding="utf-8") as file:
            forms = json.load(file)["$defs"]
        for line, form in zip(lines, ["head", *["step"] * (len(lines) - 2), "end"]):
            self.assertLessEqual(set(forms[form]["required"]), set(line))
            self.assertLessEqual(set(line), set(forms[form]["properties"]))
        return lines

    def fails(self, said, text, *arguments):
        done = converted(text, *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(said, done.stderr)

    def test_llada(self):
        mask = "*<|mdm_mask|>&"
        head, one, two, end = self.lines(f"1, {mask}*a&{mask}**&\n2, *&&*a&{mask}**&\n", "llada")
        self.assertEqual(head["sequences"][0]["tokens"], [0, 0, 0, 0])
        self.assertEqual(head["text"], {"0": "_", "1": "a", "2": "*", "3": "&"})
        self.assertEqual((one["position"], one["token"], one["outcome"]), ([1, 3], [1, 2], "cc"))
        self.assertEqual((two["position"], two["token"], two["step"], two["forward"]), ([0], [3], 1, 2))
        self.assertEqual((end["tokens"], end["end"], end["committed"]), ([3, 1, 0, 2], "max_steps", 3))
        self.fails("line 2 must be", f"1, {mask}\nnothing\n", "llada")
        self.fails("step 1 must have 1 tokens, got 2", f"1, {mask}\n2, {mask}{mask}\n", "llada")
        self.fails("at least one step", "", "llada")

    def test_history(self):
        states = [[7, 4, 9, 9], [7, 4, 5, 9], [7, 6, 9, 8], [7, 6, 3, 8]]
        head, *steps, end = self.lines(json.dumps(states), "history", "--mask", "9", "--prompt-length", "1")
        self.assertEqual(head["sequences"][0]["tokens"], [7, 9, 9, 9])
        self.assertEqual(head["model"]["vocab"], 10)
        self.assertEqual([s["outcome"] for s in steps], ["c", "c", "erc", "c"])
        self.assertEqual(steps[2]["token"], [6, 5, 8])
        self.assertEqual((end["tokens"], end["end"]), ([7, 6, 3, 8], "complete"))
        self.fails("--mask", "[[1]]", "history")
        self.fails("step 1 changes the prompt", "[[1,2],[3,2]]", "history", "--mask", "9", "--prompt-length", "1")
        self.fails("prompt_length must be in [0, 2]", "[[1,2]]", "history", "--mask", "9", "--prompt-length", "3")


if __name__ == "__main__":
    unittest.main()
