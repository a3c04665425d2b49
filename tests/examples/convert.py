# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts small decodes into traces: convert.py [test name]..."""
import json
import math
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
    def lines(self, text, *arguments, ends=1):
        done = converted(text, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("<", done.stdout)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        with open(SCHEMA, encoding="utf-8") as file:
            forms = json.load(file)["$defs"]
        for line, form in zip(lines, ["head", *["step"] * (len(lines) - 1 - ends), *["end"] * ends]):
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

    # Two blocks of two positions behind a prompt of one, two steps a block; position 4 is a constraint.
    PROPHET = {"x0_history": [[[9, 5, 6, 8, 2], [9, 5, 7, 8, 2]], [[1, 5, 7, 3, 2], [1, 5, 7, 4, 2]]],
               "true_indices_history": [[[[0, 1]], [[0, 2]]], [[[0, 3]], []]],
               "correct": True, "pred_text": "x", "ans_posidx": 3, "pred_ans": "x", "gt_text": "x",
               "pred_token_id": [3], "gt_token_id": [3], "prompt_token_len": 1, "gen_ids": [5, 7, 3, 6]}

    def test_prophet(self):
        head, *steps, end = self.lines(json.dumps(self.PROPHET), "prophet", "--mask", "10")
        self.assertEqual(head["sequences"][0]["tokens"], [11, 10, 10, 10, 6])
        self.assertEqual((head["sequences"][0]["fixed"], head["sequences"][0]["shape"]["block_length"]), ([4], 2))
        self.assertEqual((head["text"], head["model"]["vocab"]), ({"11": "?", "10": "_"}, 12))
        self.assertEqual([s["score"] for s in steps], [[1, 3], [1, 3], [3, 5], [3, 5]])
        self.assertEqual([(s["position"], s["token"], s["outcome"]) for s in steps],
                         [([1, 2], [5, 6], "ch"), ([2], [7], "c"), ([3], [3], "c"), ([], [], "")])
        self.assertEqual((end["tokens"], end["end"], end["committed"]), ([11, 5, 7, 3, 6], "complete", 3))
        self.assertEqual(self.lines(json.dumps(self.PROPHET), "prophet")[0]["model"]["mask"], 126336)

    def test_prophet_that_exits_early(self):
        early = {**self.PROPHET, "x0_history": self.PROPHET["x0_history"][:1],
                 "true_indices_history": self.PROPHET["true_indices_history"][:1], "gen_ids": [5, 7, 8, 2]}
        _, *steps, end = self.lines(json.dumps(early), "prophet", "--mask", "10", "--block-length", "2")
        self.assertEqual([(s["position"], s["outcome"], s["score"]) for s in steps],
                         [([1, 2], "ch", [1, 3]), ([2, 3, 4], "ccc", [1, 5])])
        self.assertEqual((end["tokens"], end["end"]), ([11, 5, 7, 8, 2], "complete"))

    def test_prophet_refuses(self):
        def wrong(said, **members):
            self.fails(said, json.dumps({**self.PROPHET, **members}), "prophet", "--mask", "10")
        self.fails("it has no 'x0_history'", "{}", "prophet")
        self.fails("it has no 'x0_history'", "[]", "prophet")
        wrong("the same blocks", true_indices_history=[[[[0, 1]]]])
        wrong("step 0 must have 6 tokens, got 5", gen_ids=[5, 7, 3, 6, 1])
        wrong("position 3 is 9 in gen_ids, the steps give it 3", gen_ids=[5, 7, 9, 6])
        wrong("step 2 commits position 0", true_indices_history=[[[[0, 1]], [[0, 2]]], [[[0, 3], [0, 0]], []]])

    # Two rows of a prompt of one and a block of two, and then of a second block.
    DIFFUSERS = [
        {"block_x": [[1, 5, 9], [2, 9, 9]], "transfer_index": [[False, True, False], [False, True, False]],
         "editing_transfer_index": [[False] * 3] * 2, "sampled_tokens": [[4, 5, 6], [4, 9, 7]],
         "sampled_probs": [[0.5, 1.0, 0.25], [0.5, 0.5, 0.0]], "active_block": [[False, True, True]] * 2},
        {"block_x": [[1, 8, 6], [2, 9, 9]], "transfer_index": [[False, False, True], [False, True, True]],
         "editing_transfer_index": [[False, True, False]] + [[False] * 3], "sampled_tokens": [[4, 8, 6], [4, 3, 7]],
         "sampled_probs": [[0.5, 0.75, 0.5], [0.5, 0.5, 0.5]],
         "active_block": [[False, False, True], [False, True, True]]},
        {"block_x": [[1, 8, 6, 3, 3, 9], [2, 9, 9, 0, 9, 9]], "transfer_index": [[True, True, False]] + [[True, False, False]],
         "editing_transfer_index": [[False] * 3] * 2, "sampled_tokens": [[3, 3, 3], [0, 0, 0]],
         "sampled_probs": [[0.5] * 3] * 2, "active_block": [[True] * 3] * 2}]

    def test_diffusers(self):
        arguments = "diffusers", "--mask", "9", "--prompt-length", "1", "--vocab", "16"
        head, *lines, first, second = self.lines(json.dumps(self.DIFFUSERS), *arguments, ends=2)
        self.assertEqual([s["tokens"] for s in head["sequences"]], [[1, 9, 9, 9, 9, 9], [2, 9, 9, 9, 9, 9]])
        self.assertEqual((head["model"]["vocab"], head["sequences"][1]["shape"]["block_length"]), (16, 3))
        self.assertEqual([(s["slot"], s["step"], s["forward"], s["score"], s["keys"]) for s in lines],
                         [(slot, i, i + 1, *window) for i, window in enumerate([([1, 3], [0, 3])] * 2 + [([3, 6], [0, 6])])
                          for slot in (0, 1)])
        # The mask token is proposed and "committed"; the second row has ended in the second step.
        self.assertEqual([(s["position"], s["token"], s["outcome"]) for s in lines],
                         [([1, 2], [5, 6], "ch"), ([1, 2], [9, 7], "hh"), ([1, 2], [8, 6], "ec"), ([1, 2], [3, 7], "hh"),
                          ([3, 4, 5], [3, 3, 3], "cch"), ([3, 4, 5], [0, 0, 0], "chh")])
        self.assertEqual((lines[0]["confidence"], lines[0]["log_probability"]), ([1.0, 0.25], [0.0, math.log(0.25)]))
        self.assertEqual((lines[1]["confidence"], lines[1]["log_probability"]), ([0.5, 0.0], [math.log(0.5), None]))
        self.assertEqual((first["tokens"], first["end"], first["committed"]), ([1, 8, 6, 3, 3, 9], "max_steps", 4))
        self.assertEqual((second["slot"], second["tokens"], second["forwards"]), (1, [2, 9, 9, 0, 9, 9], 3))

    def test_diffusers_refuses(self):
        def wrong(said, **members):
            self.fails(said, json.dumps([{**self.DIFFUSERS[0], **members}]), "diffusers", "--mask", "9",
                       "--prompt-length", "1")
        self.fails("diffusers needs --mask", "[]", "diffusers")
        self.fails("at least one step", "[]", "diffusers", "--mask", "9")
        self.fails("step 0: it has no 'transfer_index'", '[{"block_x": [[1]]}]', "diffusers", "--mask", "9")
        self.fails("prompt_length must be in [0, 3], got 4", json.dumps(self.DIFFUSERS[:1]), "diffusers", "--mask", "9",
                   "--prompt-length", "4")
        wrong("step 0: its tensors must have 2 rows", sampled_probs=[[1, 1, 1]])
        wrong("step 0: its tensors must have 2 rows", active_block=[[True], [True, True]])
        wrong("step 0, row 0: block_x has 7 at position 1, the steps give it 5", block_x=[[1, 7, 9], [2, 9, 9]])

    def test_what_torch_saves_is_read(self):
        try:
            import torch
        except ImportError:
            self.skipTest("PyTorch is not here")
        tensors = [{k: torch.tensor(v) for k, v in step.items()} for step in self.DIFFUSERS]
        history = {**self.PROPHET, "x0_history": [torch.tensor(b) for b in self.PROPHET["x0_history"]],
                   "true_indices_history": [[torch.tensor(s, dtype=torch.int64) for s in b]
                                            for b in self.PROPHET["true_indices_history"]]}
        for saved, plain, *arguments in ((tensors, self.DIFFUSERS, "diffusers", "--mask", "9", "--prompt-length", "1"),
                                         (history, self.PROPHET, "prophet")):
            with tempfile.TemporaryDirectory() as folder:
                name = os.path.join(folder, "saved.pt")
                torch.save(saved, name)
                done = subprocess.run([sys.executable, PROGRAM, arguments[0], name, *arguments[1:]],
                                      capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, converted(json.dumps(plain), *arguments).stdout)


if __name__ == "__main__":
    unittest.main()
