# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs unmask_llama_cpp_tune as a user would, beside the program that decodes and beside unmask_tune.

usage: tune.py UNMASK_LLAMA_CPP_TUNE UNMASK_LLAMA_CPP UNMASK_TUNE TINY_F32 [test name]...
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TUNE, PROGRAM, EXAMPLE, F32 = sys.argv[1:5]
PROMPTS = ("U:ab", "U:cd", "R:ab", "R:cd", "S:2 1", "S:9 3", "U:ef", "R:gh")
SHAPE = ("--length", "6", "--block-length", "6", "--threads", "1")


def run(program, *arguments):
    return subprocess.run([program, "--model", F32, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


class Tune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.problems = os.path.join(cls.folder.name, "problems.jsonl")
        with open(cls.problems, "w", encoding="ascii") as file:
            for prompt in PROMPTS:
                file.write(json.dumps({"task": "a", "prompt": prompt}) + "\n")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def search(self, program, log, *arguments):
        log = os.path.join(self.folder.name, log)
        done = run(program, "--problems", self.problems, *SHAPE, "--target", "agreement >= 0.1", "--resume", log, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(log, encoding="utf-8") as file:
            head, *results = map(json.loads, file)
        return done.stdout, head, {(policy, p): rest for policy, p, *rest in results}

    def test_decodes_as_the_program_and_the_example_engine_do(self):
        said, head, found = self.search(TUNE, "llama.jsonl", "--depth", "0")
        policy = said.split("\n")[0]
        self.assertEqual(head["program"], "unmask_llama_cpp_tune")
        done = run(PROGRAM, "--json", "--prompts", self.problems, *SHAPE, "--limit", "0", "--policy", policy)
        self.assertEqual(done.returncode, 0, done.stderr)
        forwards = {r["prompt"]: r["forwards"] for r in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(len(forwards), len(PROMPTS))
        for p, prompt in enumerate(PROMPTS):
            self.assertEqual(found[policy, p][1], forwards[prompt], prompt)
        _, _, others = self.search(EXAMPLE, "example.jsonl", "--depth", "0")
        both = found.keys() & others.keys()
        # right, forwards, segments and layer-positions; engines may tie differently in one decode of many
        different = [key for key in both if found[key][:4] != others[key][:4]]
        self.assertGreater(len(both), 500)
        self.assertLess(len(different), len(both) / 100, different[:5])

    def test_caches_are_searched_and_layer_rules_are_not(self):
        _, _, found = self.search(TUNE, "cached.jsonl", "--depth", "1", "--minimise", "layer_positions")
        policies = {policy for policy, _ in found}
        self.assertTrue(any("prefix_cache" in p for p in policies))
        self.assertFalse([p for p in policies if "early_skip" in p or "key_eviction" in p])
        cached = {key: rest for key, rest in found.items() if key[0].endswith(" + prefix_cache(0)") and rest[1] > 1}
        alone = {key: found.get((key[0].removesuffix(" + prefix_cache(0)"), key[1])) for key in cached}
        pairs = [(cached[key][3], alone[key][3]) for key in cached if alone[key] and alone[key][1] == cached[key][1]]
        self.assertTrue(pairs)
        for kept, whole in pairs:  # later passes leave out the prompt
            self.assertLess(kept, whole)

    def test_refusals_say_what_is_wrong(self):
        for arguments, said in ((("--gpu-layers", "x"), "--gpu-layers must be a whole number of at least 0, got 'x'"),
                                (("--gpu-layers",), "--gpu-layers must be followed by a value"),
                                (("--model", __file__), "can not load it"),
                                (("--no-such",), "--no-such")):
            done = run(TUNE, *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(said, done.stderr)
        self.assertIn("--gpu-layers N", run(TUNE, "--help").stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
