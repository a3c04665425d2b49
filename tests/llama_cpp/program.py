# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs unmask_llama_cpp as a user would and looks at what it prints.

usage: program.py UNMASK_LLAMA_CPP UNMASK_DEMO TINY_F32 [test name]...
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from blank_gguf import MASK, write_gguf

PROGRAM, DEMO, F32 = sys.argv[1:4]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)


def records(*arguments):
    """The objects that --json prints, one a prompt, in the order of the prompts."""
    done = run("--json", *arguments)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return sorted(map(json.loads, done.stdout.splitlines()), key=lambda r: (r["task"], r["prompt"]))


LOOKAHEAD = "trace_credit + threshold(0.9) + lookahead(3)"
WITHOUT_TIMES = ("text", "tokens", "forwards", "committed", "forced", "rewritten", "end")


SCHEMA = '{"type": "object", "properties": {"age": {"type": "integer"}, "ok": {"type": "boolean"}}, "required": ["age", "ok"]}'
GRAMMAR = 'root ::= "(" sum ")"\nsum ::= [0-9] ("+" sum)?\n'


def facts(found):
    return [{key: r[key] for key in WITHOUT_TIMES} for r in found]


class Program(unittest.TestCase):
    def test_a_record_says_what_happened(self):
        (r,) = records("--prompt", "S:30 21 77 36 63", "--policy", "threshold(0.9)")
        self.assertEqual(r["text"], "21 30 36 63 77")
        self.assertEqual((r["forwards"], r["committed"], r["answer_tokens"]), (2, 40, 14))
        self.assertEqual(r["tokens_per_forward"], 20.0)
        self.assertEqual((r["policy"], r["end"], len(r["tokens"])), ("threshold(0.9)", "complete", 40))
        self.assertGreater(r["forward_seconds"], 0.0)
        self.assertGreater(r["policy_seconds"], 0.0)
        self.assertNotIn("exact", r)

    def test_known_answers_are_compared(self):
        for r in records("--limit", "1", "--policy", "tokens_per_step(1)"):
            self.assertEqual(r["exact"], r["text"] == r["answer"])
            self.assertEqual(r["forwards"], 40)

    def test_batches_branches_and_threads_change_nothing(self):
        alone = records("--policy", LOOKAHEAD)
        self.assertEqual(facts(records("--policy", LOOKAHEAD, "--batch", "5")), facts(alone))
        self.assertEqual(facts(records("--policy", LOOKAHEAD, "--threads", "2")), facts(alone))
        self.assertEqual(len(alone), 8)

    def replayed(self, program, trace, count):
        """Log-probabilities of a replay that equal the trace's, of how many, and the largest difference."""
        done = subprocess.run([program, "--model", F32, "--replay", trace], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        lines = re.findall(r"(\d+) tokens, the same in the same steps; (\d+) log-probabilities equal, "
                           r"largest difference (\S+)", done.stdout)
        self.assertEqual(len(lines), count, done.stdout)
        return sum(int(n) for _, n, _ in lines), sum(int(n) for n, *_ in lines), max(float(d) for *_, d in lines)

    def test_a_trace_is_replayed_by_both_engines(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "decode.jsonl")
            for policy in ("threshold(0.9)", LOOKAHEAD, "tokens_per_step(2) + prefix_cache", "threshold(0.5) + sampling",
                           "threshold(0.5) + remask_current_below(0.4, 3)"):
                done = run("--model", F32, "--policy", policy, "--limit", "1", "--quiet", "--trace", trace)
                self.assertEqual(done.returncode, 0, done.stderr)
                equal, of, difference = self.replayed(PROGRAM, trace, 4)
                if policy == LOOKAHEAD:  # llama.cpp's rows depend a little on what else its batch holds
                    self.assertTrue(equal > 0.9 * of and difference < 1e-5, (policy, equal, of, difference))
                else:
                    self.assertEqual((equal, difference), (of, 0.0), policy)
                equal, of, difference = self.replayed(DEMO, trace, 4)
                # Logits of the engines differ by 1.3e-4 at most, a log-probability by twice as much.
                self.assertTrue(equal < of and difference < 2.6e-4, (policy, equal, of, difference))
                done = subprocess.run([DEMO, "--model", F32, "--policy", policy, "--live", "4", "--trace", trace],
                                      capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                equal, of, difference = self.replayed(PROGRAM, trace, 4)
                self.assertTrue(equal < of and difference < 2.6e-4, (policy, equal, of, difference))
            for policy in ("es_dllm", "threshold(0.9) + key_eviction(0.5) + dual_cache"):
                done = subprocess.run([DEMO, "--policy", policy, "--trace", trace], capture_output=True, text=True,
                                      check=False, stdin=subprocess.DEVNULL)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                done = run("--replay", trace)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("the policy of --replay must do without", done.stderr)
        done = run("--replay", trace, "--policy", "threshold")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--policy must be left out with --replay", done.stderr)
        done = run("--replay", "/no/such")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/no/such", done.stderr)

    def test_stops_at_the_end_token(self):
        (r,) = records("--prompt", "J:age 27", "--policy", "tokens_per_step(1) + stop_at_eos")
        self.assertEqual((r["text"], r["end"]), ('{"age":27}', "eos_token"))
        self.assertLess(r["forwards"], 40)

    def test_a_cache_is_a_part_of_the_policy(self):
        for cache in ("prefix_cache", "dual_cache"):
            (r,) = records("--prompt", "S:30 21 77 36 63", "--policy", f"threshold(0.9) + {cache}")
            self.assertEqual(r["text"], "21 30 36 63 77")

    def test_text_appears_as_it_settles(self):
        done = run("--prompt", "S:30 21 77 36 63", "--policy", "left_to_right + tokens_per_step(1)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("> S:30 21 77 36 63\n21 30 36 63 77\n"), done.stdout)
        self.assertIn("40 forwards, 1.0 tokens a forward", done.stdout)

    def test_drawn_answers_repeat_with_the_seed(self):
        arguments = ("--policy", "threshold(0.5) + sampling", "--limit", "5", "--seed")
        self.assertEqual(facts(records(*arguments, "7")), facts(records(*arguments, "7")))
        self.assertNotEqual(facts(records(*arguments, "7")), facts(records(*arguments, "8")))

    def test_special_tokens_may_be_spelled_out(self):
        ended = "J:age 27</s>J:age 31"
        (spelled,) = records("--prompt", ended, "--policy", "threshold(0.9)")
        (special,) = records("--prompt", ended, "--policy", "threshold(0.9)", "--special")
        self.assertNotEqual(spelled["tokens"], special["tokens"])

    def test_flash_attention_gives_the_same_words(self):
        arguments = ("--prompt", "S:30 21 77 36 63", "--policy", "threshold(0.9)")
        self.assertEqual(facts(records(*arguments, "--fast")), facts(records(*arguments)))

    def test_the_summary_has_a_line_for_each_policy(self):
        done = run("--quiet", "--limit", "1", "--policy", LOOKAHEAD, "--policy", "threshold(0.9)")
        lines = done.stdout.strip().splitlines()
        self.assertTrue(lines[1].startswith(LOOKAHEAD))
        self.assertEqual(len(lines), 3)
        self.assertEqual(len({len(line) for line in lines}), 1, done.stdout)

    def test_help_lists_options_and_policies(self):
        text = run("--help").stdout
        for word in ("--model", "--json", "threshold(value=0.9, inclusive=false)", "lookahead"):
            self.assertIn(word, text)

    def test_answers_obey_the_language_in_a_file(self):
        # [0-9]{2}-[a-z]+, as write_byte_table() writes it: whether a state accepts, and its runs of bytes.
        states = [(0, "09", 1), (0, "09", 2), (0, "--", 3), (0, "az", 4), (1, "az", 4)]
        table = b"unmaskDF" + struct.pack("<III", 1, len(states), 0) + b"".join(
            struct.pack("<BHBBI", accepts, 1, ord(run[0]), ord(run[1]), to) for accepts, run, to in states)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "word.dfa")
            with open(path, "wb") as file:
                file.write(table)
            for policy in ("threshold(0.9)", "tokens_per_step(4)", "threshold(0.5) + sampling(1.0)"):
                for r in records("--constraint", path, "--limit", "1", "--policy", policy):
                    self.assertRegex(r["text"], r"^[0-9]{2}-[a-z]+$")
                    self.assertLessEqual(r["forwards"], 40)
            with open(path, "wb") as file:
                file.write(table[:-1])
            refused = run("--constraint", path, "--limit", "1")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("word.dfa", refused.stderr)

    def test_answers_obey_a_schema_a_grammar_or_an_expression(self):
        def of_schema(text):
            found = json.loads(text)
            self.assertEqual((list(found), type(found["age"]), type(found["ok"])), (["age", "ok"], int, bool))

        with tempfile.TemporaryDirectory() as folder:
            schema, grammar = os.path.join(folder, "schema.json"), os.path.join(folder, "sum.gbnf")
            for path, text in ((schema, SCHEMA), (grammar, GRAMMAR)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            for arguments, check in (
                (("-j", SCHEMA), of_schema),
                (("--json-schema", SCHEMA), of_schema),
                (("-jf", schema), of_schema),
                (("--json-schema-file", schema), of_schema),
                (("--grammar", GRAMMAR), lambda text: self.assertRegex(text, r"^\([0-9](\+[0-9])*\)$")),
                (("--grammar-file", grammar), lambda text: self.assertRegex(text, r"^\([0-9](\+[0-9])*\)$")),
                (("--regex", "[A-F]{3}-\\d+"), lambda text: self.assertRegex(text, r"^[A-F]{3}-[0-9]+$")),
                (("--structural-tag", json.dumps({"format": {"type": "tag", "begin": "<a>", "end": "</a>", "content": {
                    "type": "regex", "pattern": "x|y"}}})), lambda text: self.assertIn(text, ("<a>x</a>", "<a>y</a>"))),
                # 36,006 states; the answer has room for less
                (("-j", '{"type": "string", "maxLength": 4000}'), lambda text: self.assertIsInstance(json.loads(text), str)),
            ):
                for policy in ("threshold(0.9)", "tokens_per_step(4)", "threshold(0.5) + sampling(1.0)"):
                    found = records(*arguments, "--limit", "1", "--policy", policy)
                    self.assertEqual(len(found), 4)
                    for r in found:
                        with self.subTest(arguments=arguments, policy=policy, text=r["text"]):
                            check(r["text"])

    def test_the_words_numbers_are_those_of_the_decode(self):
        (r,) = records("--prompt", "J:age 27", "--policy", "model:llada + stop_at_eos")
        self.assertEqual(len(r["tokens"]), 128)
        (r,) = records("--prompt", "J:age 27", "--policy", "model:llada", "--length", "9", "--block-length", "3")
        self.assertEqual((len(r["tokens"]), r["forwards"]), (9, 9))
        # Blocks of 4 at multiples of 4: what is decoded beyond the answer is not printed.
        word = "model:sdar(0.9)"
        for length in range(5, 9):
            (r,) = records("--prompt", "J:age 27", "--policy", word, "--length", str(length))
            self.assertEqual(len(r["tokens"]), length)
            (r,) = records("--prompt", "J:age 27", "--policy", word, "--length", str(length), "--regex", "[a-c]{5}")
            self.assertRegex(r["text"], "^[a-c]{5}$")
        # Two words in one run have numbers of their own.
        found = records("--prompt", "J:age 27", "--policy", "model:llada", "--policy", "model:sdar", "--length", "9")
        self.assertEqual(sorted(len(r["tokens"]) for r in found), [9, 9])

    def test_the_word_of_a_file_is_that_of_its_architecture(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights.gguf")
            for architecture, name, mask, word in (
                ("llada", "LLaDA 8B Instruct", MASK, "model:llada"),
                ("llada", "d3LLM LLaDA", MASK, "model:d3llm"),
                ("llada", "another", MASK - 1, None),  # its mask token is not that of LLaDA
            ):
                write_gguf(path, architecture, name, mask)
                done = run("--json", "--model", path, "--prompt", "ab", "--length", "6")
                self.assertEqual(done.returncode, 0, done.stderr)
                (r,) = map(json.loads, done.stdout.splitlines())
                self.assertEqual((r["policy"], len(r["tokens"])), (word or "trace_credit + threshold(0.9)", 6))
                self.assertEqual(done.stderr.count("\n"), 0 if word is None else 1, done.stderr)
                self.assertTrue(word is None or done.stderr.startswith(f"policy {word}, by the file's architecture: "))
                if word == "model:llada":
                    (r,) = records("--model", path, "--prompt", "ab")
                    self.assertEqual(len(r["tokens"]), 128)
        done = run("--prompt", "J:age 27", "--quiet")  # the tiny model is a llada that is not LLaDA
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refusals_say_what_is_wrong(self):
        for arguments, said in (
            (("--no-such",), "--no-such"),
            (("--limit", "x"), "--limit must be a whole number of at least 0, got 'x'"),
            (("--length", "300"), "at most the model's context, 256"),
            (("--policy",), "with its value"),
            (("--policy", "nonsense"), "column 1: there is no part 'nonsense'"),
            (("--policy", "tokens_per_step(1) + dual_cache + key_eviction"), "without key_eviction"),
            (("--policy", "es_dllm"), "without a layer rule"),
            (("--prompt", "caf\u00e9"), "can spell"),
            (("--model", "/no/such.gguf"), "/no/such.gguf"),
            (("--prompts", "/no/such.jsonl"), "/no/such.jsonl"),
            (("-j", '{"properties": {"a": {"minimum": "x"}}}'), "--json-schema: /properties/a/minimum"),
            (("-j", "{"), "--json-schema: "),
            (("--grammar", "root ::= a"), "--grammar: line 1, column 10"),
            (("--grammar-file", "/no/such.gbnf"), "--grammar-file '/no/such.gbnf': the file cannot be read"),
            (("--regex", "a(b"), "--regex: column 2"),
            (("--regex", "[a-z]{41}"), "41"),
            (("--structural-tag", "{}"), "--structural-tag: "),
            (("--regex", "a", "-j", "{}"), "-j must be left out: --regex says what the answers are"),
            (("--regex", "a", "--regex", "b"), "--regex must be left out"),
            (("--regex", "a", "--replay", "b"), "--regex must be left out with --replay"),
            (("--constraint", "/no/such.dfa"), "/no/such.dfa"),
            (("--policy", "model:nonsense"), "nonsense"),
        ):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(said, done.stderr, arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
