# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs unmask_demo with rxnmapper, antiberty and sapiens and compares it with what transformers restores.

usage: masked_lms.py UNMASK_DEMO FOLDER, the folder of rxnmapper.gguf, antiberty.gguf and sapiens_heavy.gguf
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

DEMO, MODELS = sys.argv[1], pathlib.Path(sys.argv[2])
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments):
    return subprocess.run([DEMO, *map(str, arguments)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


class MaskedLms(unittest.TestCase):
    def test_restored_tokens_and_passes_are_those_of_transformers(self):
        for name, policy in (("rxnmapper", "threshold(0.9)"), ("antiberty", "threshold(0.9)"),
                             ("sapiens_heavy", "threshold + edit_committed(0.7) + edited_blocks(16)")):
            with open(ROOT / "tests/data/masked_lms" / f"{name}.jsonl", encoding="ascii") as file:
                problems = [json.loads(line) for line in file][1:]
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "problems.jsonl"
                file.write_text("".join(json.dumps({"task": "t", **{k: p[k] for k in ("given", "answer", "edit") if k in p}}) + "\n" for p in problems))
                done = run("--model", MODELS / f"{name}.gguf", "--problems", file, "--json", "--limit", "0", "--policy", policy)
            self.assertEqual(done.returncode, 0, done.stderr)
            got = json.loads(done.stdout)["policies"][0]
            self.assertEqual(got["forwards_each"], [p["forwards"] for p in problems], name)
            self.assertEqual(got["restored_each"], [p["restored"] for p in problems], name)
            if name != "sapiens_heavy":
                self.assertEqual(got["masked_each"], [p["given"].count("_") for p in problems], name)
            self.assertEqual(got["right"], "".join("1" if wrong == 0 else "0" for wrong in got["wrong_each"]), name)

    def test_the_live_picture_is_text_and_the_table_has_shares(self):
        done = run("--model", MODELS / "rxnmapper.gguf", "--problems", ROOT / "examples/masked_lms/reactions.jsonl", "--limit", "1", "--plain",
                   "--policy", "threshold(0.9)")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(ROOT / "examples/masked_lms/reactions.jsonl", encoding="ascii") as file:
            first = json.loads(file.readline())
        self.assertIn("  " + first["given"] + "\n", done.stdout)
        self.assertIn("restored: masked positions that have the token of the answer", done.stdout)
        self.assertRegex(done.stdout, r"threshold\(0\.9\) +\d/1 +\d/1 +\d/1 +\d+\.\d%")

    def test_text_that_the_model_has_no_token_for_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bad.jsonl"
            for given, answer, said in (("CCx_", "CCxC", "character 'x' at offset 2 is not in the vocabulary"),
                                        ("CC_", "CCCC", "must be the given one with its '_' filled"),
                                        ("C" * 600 + "_", "C" * 601, "at most the model's context of 512 tokens")):
                file.write_text(json.dumps({"task": "t", "given": given, "answer": answer}) + "\n")
                done = run("--model", MODELS / "rxnmapper.gguf", "--problems", file, "--policy", "threshold(0.9)")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
