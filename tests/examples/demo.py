# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs unmask_demo as a user would and looks at what it prints.

usage: demo.py UNMASK_DEMO REFERENCE_DECODES [test name]...
"""
import csv
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

from refusal import assert_refuses

DEMO, REFERENCE = sys.argv[1:3]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Methods whose passes need attention of kinds that the demo's engine does not have.
NEED_ATTENTION = {"linear_spec"}


def run(*arguments):
    return subprocess.run([DEMO, *arguments], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)


def measured(*arguments):
    """The object that --json prints."""
    done = run("--json", *arguments)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout)


class Demo(unittest.TestCase):
    def fails(self, arguments, *said):
        assert_refuses(self, [DEMO, *arguments], *said)

    def test_help_lists_options_and_policies(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for text in ("--policy NAME", "--check FILE", "= threshold(0.9)", "= by_entropy + entropy_bound(0.1)"):
            self.assertIn(text, done.stdout)

    def test_short_help_and_version(self):
        self.assertEqual(run("-h").stdout, run("--help").stdout)
        done = run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"\Aunmask_demo \d+\.\d+\.\d+(, commit [0-9a-f]{12})?\n\Z")

    def interrupted(self, *arguments):
        """Standard output of a run with Ctrl-C after its first measured policy."""
        with subprocess.Popen([DEMO, "--limit", "1", "--task", "json", "--no-live", "--policy", "threshold(0.9)",
                               *["--policy=one"] * 300, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as running:
            said = ""
            if "--json" in arguments:
                time.sleep(1)  # it prints nothing before its end
            else:
                while not re.search(r"\d/1|100\.0%|0\.0%", said):
                    said += running.stdout.readline()
            running.send_signal(signal.SIGINT)
            said += running.stdout.read()
        self.assertEqual(running.returncode, 130, said)
        return said

    def test_an_interrupt_shows_what_is_done(self):
        table = self.interrupted()
        self.assertRegex(table, r"interrupted: [1-9]\d* of 301 policies")
        self.assertIn("exact match: the text", table)
        found = json.loads(self.interrupted("--json"))
        self.assertTrue(found["interrupted"])
        self.assertLess(len(found["policies"]), 301)
        with tempfile.TemporaryDirectory() as folder:
            frontier = self.interrupted("--frontier", os.path.join(folder, "points"))
            self.assertIn("interrupted", frontier)
            with open(os.path.join(folder, "points.csv"), encoding="utf-8") as file:
                self.assertGreater(len(file.readlines()), 1)

    def test_json_has_texts_version_and_commit(self):
        found = measured("--limit", "1", "--task", "json", "--policy", "one")
        self.assertEqual(found["policies"][0]["answers"], ['{"age":27}'])
        self.assertFalse(found["interrupted"])
        self.assertRegex(found["version"], r"\A\d+\.\d+\.\d+\Z")
        self.assertIn("commit", found)

    def test_the_live_part_has_a_legend(self):
        done = run("--limit", "1", "--task", "json", "--policy", "one")
        self.assertIn("_ masked, \u00b7 EOS", done.stdout)

    def test_by_default_two_policies_are_live_and_the_best_known_in_the_table(self):
        def shown(*arguments):
            done = run("--limit", "1", "--task", "json", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            live, table = done.stdout.split("exact match", 1)
            return (re.findall(r"^([a-z0-9_]+): ", live, re.MULTILINE),
                    re.findall(r"^([a-z0-9_]+) +\d/1 ", table, re.MULTILINE), done.stdout)
        live, table, said = shown()
        self.assertEqual(live, ["one", "fast_dllm"])
        self.assertLess(len(said.splitlines()), 60)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            self.assertIn(f"a real model under {len(table)} policies", file.read())
        for option in re.findall(r"^  (--[a-z-]+)", said.split("\nnext\n")[1], re.MULTILINE):
            self.assertIn(f"  {option} ", run("--help").stdout)
        presets = re.findall(r"^  ([a-z0-9_]+)\n      ", run("--help").stdout.split("\npolicies\n")[1].split("\ncaches\n")[0],
                             re.MULTILINE)
        live, table, said = shown("--all", "--length", "16")
        self.assertEqual((live, table), (presets, presets))
        self.assertNotIn("\nnext\n", said)
        self.assertEqual(shown("--policy", "one")[:2], (["one"], ["one"]))

    def test_bad_options_name_option_value_and_rule(self):
        self.fails(["--speed"], "--speed", "--help")
        self.fails(["--limit"], "--limit", "followed by N")
        self.fails(["--limit", "x"], "--limit", "whole number from 0", "'x'")
        self.fails(["--skip", "x"], "--skip", "whole number from 0", "'x'")
        self.fails(["--skip", "100"], "--skip", "less than the number of prompts", "'100'")
        self.fails(["--limit=-1"], "--limit", "whole number from 0", "'-1'")
        self.fails(["--plain=1"], "--plain", "without a value", "'1'")
        self.fails(["--batch", "0"], "--batch", "from 1 to", "'0'")
        self.fails(["--model", "no/such"], "--model", "a file that can be read", "'no/such'")
        self.fails(["--blocks", "41"], "--blocks", "at most --length, 40", "'41'")
        self.fails(["--blocks", "2", "--block-length", "20"], "--blocks", "--block-length")
        self.fails(["--task", "chess"], "--task", "word, json, sort, code", "'chess'")
        self.fails(["--prompt", "caf\u00e9"], "prompt 'caf\u00e9'", "offset 3", "not in the vocabulary")
        self.fails(["--prompt", "x", "--length", "300"], "at most the model's context of 256", "302")
        self.fails(["--all", "--policy", "one"], "--policy", "--all", "'one'")
        self.fails(["--check", REFERENCE, "--policy", "one"], "--policy", "--check", "'one'")

    def test_bad_policies_are_refused_as_the_library_does(self):
        self.fails(["--policy", "wizardry"], "--policy wizardry", "no part 'wizardry'", "tokens_per_step")
        self.fails(["--policy", "fast_dllm(0.8)"], "no part 'fast_dllm'")
        self.fails(["--policy", "threshold(x)"], "--policy threshold(x)", "in [0, 1]", "got x")
        self.fails(["--policy", "steps_per_block(2.5)"], "steps of steps_per_block", "whole number", "2.5")
        self.fails(["--policy", "threshold(1, 2)"], "threshold", "2")
        self.fails(["--policy", "threshold(0.9"], "threshold(0.9", "column")
        self.fails(["--policy", "threshold(level=1)"], "threshold", "level")
        self.fails(["--policy", "threshold(1.5)"], "--policy threshold(1.5)", "in [0, 1]", "1.5")
        self.fails(["--policy", "steps_per_block(0)"], "--policy steps_per_block(0)", "at least 1")

    def test_a_preset_has_a_name_of_its_own_and_is_the_text_it_stands_for(self):
        said = re.split(r"\n(?:policies|caches)\n", run("--help").stdout)[1:]
        parts = set(re.findall(r"^([a-z_0-9]+)", run("--parts").stdout, re.MULTILINE))
        presets = [re.findall(r"^  ([a-z_0-9]+)\n      .*\n(?:      = (.*)\n)?", text, re.MULTILINE) for text in said]
        self.assertEqual(parts & {name for table in presets for name, _ in table}, set())
        options = [part for pair in presets[0] for text in pair for part in ("--policy", text)]
        found = measured("--limit", "1", "--task", "code", "--length", "16", "--seed", "5", *options)["policies"]
        for name, text in zip(found[::2], found[1::2]):
            for key in ("forwards", "segments", "committed", "exact"):
                self.assertEqual(name[key], text[key], (name["policy"], text["policy"]))
        caches = [part for pair in presets[1] for text in pair if text for part in ("--cache", text)][2:]
        found = measured("--limit", "1", "--task", "code", "--length", "16", "--policy", "threshold", *caches)["policies"]
        for name, text in zip(found[::2], found[1::2]):
            for key in ("forwards", "layer_positions", "exact"):
                self.assertEqual(name[key], text[key], (name["cache"], text["cache"]))

    def test_the_readme_counts_the_parts_and_the_methods(self):
        listed = re.findall(r"^[a-z_0-9]+.*\n    (method: )?", run("--parts").stdout, re.MULTILINE)
        methods = sum(map(bool, listed))
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            said = re.search(r"\*\*Over (\d+) parts, (\d+) whole methods of papers\*\*", file.read())
        self.assertIn(len(listed) - methods, range(int(said[1]) + 1, int(said[1]) + 11))
        self.assertEqual(methods, int(said[2]))

    def test_policies_are_composed_by_the_names_of_their_parts(self):
        shape = ("--limit", "2", "--task", "sort", "--seed", "3")
        name, parts, other = measured(*shape, "--policy", "credited", "--policy", "threshold(0.9) + trace_credit",
                                      "--policy", "by_entropy + any_of(entropy_bound(0.3), tokens_per_step(2)) + lookahead(2)")["policies"]
        self.assertEqual(parts["policy"], "threshold(0.9) + trace_credit")
        for key in ("forwards", "committed", "exact"):
            self.assertEqual(name[key], parts[key], key)
        self.assertLess(other["forwards"], other["committed"])
        self.fails(["--policy", "trace_credit + treshold(0.9)"], "column 16", "did you mean threshold?")
        self.fails(["--policy", "tokens_per_step(-1)"], "count of tokens_per_step", "at least 0", "-1")
        self.fails(["--policy", "any_of(by_margin)"], "got by_margin (ranking)")
        self.fails(["--policy", "top_k + tokens_per_step"], "sampling")
        done = run("--parts")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for text in ("threshold(value=0.9, inclusive=false)", "in [0, 1]", "logits processor: raises the logits of tokens"):
            self.assertIn(text, done.stdout)

    def test_bad_files_name_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lines.jsonl")
            for text, said in (("{}", "'task'"), ("[", "line 1"), ("", "no prompt"),
                               ('{"task": "a", "prompt": 1}', "line 1")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.fails(["--prompts", path], path, said)
                if text:
                    self.fails(["--check", path, "--limit", "1"], path)
            self.fails(["--model", path], path)

    def test_every_policy_decodes_a_prompt(self):
        text = run("--help").stdout.split("\npolicies\n")[1].split("\ncaches\n")[0]
        names = re.findall(r"^  ([a-z_0-9]+)$", text, re.MULTILINE)
        self.assertGreater(len(names), 8)
        options = [part for name in names for part in ("--policy", name)]
        found = measured("--limit", "1", "--task", "sort", *options)
        self.assertEqual([p["policy"] for p in found["policies"]], names)
        for policy in found["policies"]:
            self.assertGreater(policy["forwards"], 0, policy)
            self.assertLessEqual(policy["forwards"], policy["segments"], policy)
            self.assertLessEqual(policy["committed"], 80, policy)  # remasked positions count again
            self.assertAlmostEqual(policy["tokens_per_forward"],
                                   policy["committed"] / policy["forwards"], 12, policy)
            self.assertEqual(policy["exact"]["sort"]["of"], 1, policy)

    def test_every_method_decodes_a_prompt_as_what_it_stands_for(self):
        methods = dict(re.findall(r"^([a-z0-9_]+)\n    method: .*\n    = (.*)$", run("--parts").stdout, re.MULTILINE))
        self.assertEqual(methods["es_dllm"], "tokens_per_step(1) + early_skip + block_cache + eos_gate")
        settings = {"osdt_gsm8k": (0.75, 0.2, "block", "q1"), "osdt_gpqa": (0.75, 0.2, "step_block", "median"),
                    "osdt_humaneval": (0.8, 0.1, "block", "q1")}
        with tempfile.TemporaryDirectory() as folder:
            options = []
            for name, text in methods.items():
                file = ""
                if name in settings:
                    cap, slack, mode, statistic = settings.pop(name)
                    path = os.path.join(folder, name + ".json")
                    with open(path, "w", encoding="utf-8") as out:
                        json.dump({"unmask_profile": 1, "mode": mode, "statistic": statistic, "recorded": "committed",
                                   "threshold": 0.9, "cap": cap, "slack": slack, "block_length": 20,
                                   "blocks": [[0.9], [0.6]]}, out)
                    file, text = f"('{path}')", text.replace("(", f"('{path}', ", 1)
                if name not in NEED_ATTENTION:
                    options += ["--policy", name + file, "--policy", text + " + max_steps(1000)"]
            found = measured("--limit", "1", "--task", "sort", *options)["policies"]
        self.assertEqual((len(found), settings), (2 * len(methods) - 2 * len(NEED_ATTENTION), {}))
        for word, text in zip(found[::2], found[1::2]):
            for key in ("forwards", "committed", "segments", "layer_positions", "exact"):
                self.assertEqual(word[key], text[key], word["policy"])
            self.assertEqual(word["layer_positions"] < word["layer_positions_in_full"],
                             word["policy"].startswith(("es_dllm", "dynamic_")), word["policy"])

    def test_caches_are_parts(self):
        for text in ("--cache NAME", "= dual_cache", "= early_skip(0.5, [0.125, 0.25],"):
            self.assertIn(text, run("--help").stdout)
        self.fails(["--cache", "wizardry"], "--cache wizardry", "no part 'wizardry'", "dual_cache")
        self.fails(["--cache", "dual_cache(x)"], "period of dual_cache", "x")
        self.fails(["--cache", "early_skip(1.5)", "--policy", "one"], "--cache early_skip(1.5)", "in [0, 1]", "1.5")
        self.fails(["--cache", "dual", "--check", REFERENCE], "--cache", "--check", "'dual'")
        # Incompatible options are refused with the reason.
        self.fails(["--cache", "skip", "--policy", "lopa_3"], "lopa_3 + skip", "each branch")

    def test_a_cache_decodes_with_a_rule_that_compares_rows_and_one_that_edits(self):
        found = measured("--limit", "1", "--task", "sort", "--cache", "budget",
                         "--policy", "stable_and_confident + edit_committed")["policies"]
        self.assertEqual([p["committed"] for p in found], [40])

    def test_every_cache_decodes_with_every_kind_of_rule(self):
        text = run("--help").stdout.split("\ncaches\n")[1]
        names = re.findall(r"^  ([a-z_0-9]+)$", text, re.MULTILINE)
        self.assertGreater(len(names), 9)
        options = [part for name in names for part in ("--cache", name)]
        found = measured("--limit", "1", "--task", "sort", "--task", "json", *options,
                         "--policy", "threshold(0.9)", "--policy", "credited")["policies"]
        self.assertEqual([(p["policy"], p["cache"]) for p in found],
                         [(p, c) for p in ("threshold(0.9)", "credited") for c in names])
        for p in found:
            self.assertEqual(p["committed"], 80, p)
            self.assertLessEqual(p["layer_positions"], p["layer_positions_in_full"], p)
            whole = p["layer_positions"] == p["layer_positions_in_full"]
            if p["cache"] in ("none", "block", "skip", "skip_released"):
                self.assertEqual(whole, p["cache"] == "none", p)

    def test_a_cache_that_refreshes_always_changes_nothing(self):
        def decoded(shape, *caches):
            options = [part for name in caches for part in ("--cache", name)]
            found = measured("--limit", "2", "--policy", "credited", *shape, *options)["policies"]
            drop = ("seconds", "cache")
            return [{k: v for k, v in p.items() if not any(d in k for d in drop)} for p in found]

        early = "early_skip(0.5, [0.125, 0.25], [0.5, 0.25]"
        caches = ("none", "prefix_cache(1)", "dual_cache(1)", "delayed_cache(1)",
                  "dual_cache(1, whole=2) + key_eviction(1, pool=3)", early + ") + dual_cache(1)",
                  "similarity_refresh(0.25) + interval_cache(1, 1)", "cache_budget(8, 8) + interval_cache(1, 1)")
        none, *others = decoded((), *caches)
        for name, other in zip(caches[1:], others):
            self.assertEqual(none, other, name)
        # The block cache never runs what is right of the block, so the block is the answer here.
        released = ", floor=true, cap=true, first_masked=5, committed=3, confident=2, forgets_held=true)"
        caches = ("none", "block_cache(1, 1)", early + ") + block_cache(1, 1)",
                  early + released + " + block_cache(1, 1, reaches_back=true, aligned=true)")
        none, *others = decoded(("--blocks", "1"), *caches)
        for name, other in zip(caches[1:], others):
            self.assertEqual(none, other, name)

    def test_branches_keep_their_winner_s_cache(self):
        # Lookahead over a cache that refreshes always is lookahead alone; over one that does not,
        # the passes still commit everything.
        plain, always, seldom = measured("--limit", "2", "--policy", "lopa_3", "--cache", "none", "--cache",
                                         "dual_cache(1)", "--cache", "dual")["policies"]
        for key in ("exact", "forwards", "segments", "layer_positions"):
            self.assertEqual(plain[key], always[key], key)
        self.assertLess(seldom["layer_positions"], plain["layer_positions"])
        self.assertEqual(seldom["committed"], plain["committed"])

    def test_early_skipping_computes_what_its_ratio_says(self):
        # Six layers, of which the last four have half or a quarter of the block: 3.25 of 6 layers'
        # worth. The passes that refresh compute more, and a count is rounded down.
        block, skip = measured("--limit", "1", "--policy", "one", "--cache", "block", "--cache", "skip")["policies"]
        self.assertEqual((block["forwards"], skip["forwards"]), (160, 160))
        self.assertGreater(skip["layer_positions"], 0.54 * block["layer_positions"])
        self.assertLess(skip["layer_positions"], 0.75 * block["layer_positions"])

    def test_frontier_measures_each_policy_over_its_knob(self):
        with tempfile.TemporaryDirectory() as folder:
            stem = os.path.join(folder, "frontier")
            done = run("--frontier", stem, "--limit", "1", "--task", "word", "--task", "sort", "--policy",
                       "fast_dllm", "--policy", "llada", "--policy", "threshold(0.9) + lookahead(2)", "--policy", "one")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(stem + ".csv", encoding="utf-8") as file:
                points = list(csv.DictReader(file))
            picture = xml.etree.ElementTree.parse(stem + ".svg").getroot()
        series = [p["series"] for p in points]
        self.assertEqual(list(dict.fromkeys(series)), ["fast_dllm", "llada", "threshold(0.9) + lookahead(2)", "one"])
        cost = {p["label"]: (float(p["forwards"]), float(p["exact"])) for p in points}
        self.assertEqual(len(cost), len(points))
        self.assertEqual([cost[f"llada: steps {k}"][0] for k in (1, 2, 4, 8, 20)], [2, 4, 8, 16, 40])
        self.assertEqual(cost["one"][0], 40)
        for p in points:
            tasks = [float(p["exact_word"]), float(p["exact_sort"])]
            self.assertAlmostEqual(float(p["exact"]), sum(tasks) / 2, 9, p)
            self.assertLessEqual(float(p["forwards"]), float(p["segments"]), p)
            mine = cost[p["label"]]
            beaten = any(f <= mine[0] and e >= mine[1] and (f, e) != mine for f, e in cost.values())
            self.assertEqual(p["efficient"], "0" if beaten else "1", p)
        # Each point has the numbers of the table.
        same, = measured("--limit", "1", "--task", "word", "--task", "sort", "--policy", "threshold(0.5)")["policies"]
        self.assertEqual(cost["fast_dllm: threshold 0.5"][0], same["forwards"] / 2)
        # Every point is drawn in the overview and in its own panel, with its numbers.
        circles = picture.findall(".//{http://www.w3.org/2000/svg}circle")
        self.assertEqual(len(circles), 2 * len(points))
        self.fails(["--frontier", "no/such/folder/x"], "--frontier", "existing folder", "no/such/folder/x")
        self.fails(["--frontier", "x", "--prompt", "Q:"], "--frontier", "answers are known")

    def test_a_profile_is_made_from_the_first_prompt(self):
        # With a cap below everything recorded the rule is the constant cap * (1 - slack). Without
        # one, by step and of all candidates, it is another.
        plain, capped = measured("--limit", "4", "--policy", "threshold(0.6)", "--policy", "osdt")["policies"]
        self.assertEqual((plain["forwards"], plain["exact"]), (capped["forwards"], capped["exact"]))
        with tempfile.TemporaryDirectory() as folder:
            stem = os.path.join(folder, "slacks")
            done = run("--frontier", stem, "--limit", "2", "--policy", "osdt", "--policy", "osdt_by_step")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(stem + ".csv", encoding="utf-8") as file:
                points = [(p["series"], p["knob"], float(p["forwards"])) for p in csv.DictReader(file)]
        self.assertEqual({knob for _, knob, _ in points}, {"slack"})
        capped, by_step = ([f for s, _, f in points if s == name] for name in ("osdt", "osdt_by_step"))
        self.assertEqual((len(capped), len(by_step)), (8, 8))
        self.assertNotEqual(capped, by_step)
        for forwards in (capped, by_step):
            self.assertGreater(forwards[0], forwards[-1])  # the more slack the sooner

    def test_a_profile_may_come_from_a_prompt_of_another_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "one.jsonl")
            with open(file, "w", encoding="utf-8") as out:
                out.write('{"task": "sudoku", "given": "63__21__2________5__61__2_4____63_5_", "checker": "sudoku_6x6"}\n')
            both = ["--model", "sudoku", "--limit", "20", "--policy", "osdt_by_step"]
            own, other = measured(*both), measured(*both, "--calibration", file)
            self.assertEqual(own["prompts"], other["prompts"])
            self.assertNotEqual(own["policies"][0]["forwards_each"], other["policies"][0]["forwards_each"])
            for learned in (own, other):  # what was learned, from a file
                saved = os.path.join(folder, "profile.json")
                with open(saved, "w", encoding="utf-8") as out:
                    out.write(learned["policies"][0]["profile"])
                again = measured(*both[:-1], f"calibrated_threshold('{saved}')")["policies"][0]
                self.assertEqual(again["forwards_each"], learned["policies"][0]["forwards_each"])
                self.assertEqual(again["profile"], "")
            self.fails(["--calibration", file], "prompt ''", "characters of the given answer", "as many as")
            with open(file, "w", encoding="utf-8") as out:  # longer than what is decoded
                out.write('{"task": "S", "prompt": "S:30 21 77 36 63 30 21 77 36 63"}\n')
            short, = measured("--prompt", "S:1 2", "--policy", "osdt", "--calibration", file)["policies"]
            self.assertGreater(short["forwards"], 0)

    def test_sudokus_keep_their_clues_and_are_judged_by_a_checker(self):
        result = measured("--model", "sudoku", "--limit", "60", "--policy", "threshold(0.9)", "--policy", "threshold(0)")
        careful, hasty = result["policies"]
        self.assertEqual((result["answer_length"], result["block_length"]), (36, 36))
        self.assertGreater(careful["right"].count("1"), hasty["right"].count("1"))
        self.assertGreater(careful["right"].count("1"), 48)
        self.assertEqual(hasty["forwards_each"], [1] * 60)
        self.assertEqual(sum(careful["forwards_each"]), careful["forwards"])
        with open(os.path.join(os.path.dirname(__file__), "../../examples/sudoku/puzzles.jsonl"), encoding="ascii") as file:
            masked = sum(json.loads(line)["given"].count("_") for line, _ in zip(file, range(60)))
        self.assertEqual(hasty["committed"], masked)

    def test_tokens_of_a_given_answer_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "given.jsonl")
            answer, given = "12+2=14;14+6=20;#20", "12+2=14;1_+_=20;#20"
            with open(file, "w", encoding="utf-8") as out:
                for task in "ab":
                    out.write(json.dumps({"task": task, "prompt": "Q:Gus has 12 books. Gets 2. Gets 6. How many?", "given": given, "answer": answer}) + "\n")
            arguments = ["--problems", file, "--length", "19", "--policy", "threshold(0.9)"]
            policy = measured(*arguments)["policies"][0]
            self.assertEqual((policy["masked_each"], policy["restored_each"], policy["right"]), ([2, 2], [2, 2], "11"))
            self.assertRegex(run(*arguments, "--no-live").stdout, r"threshold\(0\.9\) +1/1 +1/1 +100\.0% ")
            self.assertNotIn("restored", run("--limit", "1", "--no-live", "--policy", "threshold(0.9)").stdout)
            with open(file, "w", encoding="utf-8") as out:
                out.write(json.dumps({"task": "a", "prompt": "Q:", "given": given, "answer": answer[:-1] + "1"}) + "\n")
            self.fails(arguments, "prompt 'Q:'", "must be the given one with its '_' filled")

    def test_given_tokens_may_be_edited(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "edit.jsonl")
            answer, drafts = "12+2=14;14+6=20;#20", ["12+2=14;14+6=31;#_0", "12+2=14;14+6=31;#31"]
            problem = {"task": "a", "prompt": "Q:Gus has 12 books. Gets 2. Gets 6. How many?", "answer": answer, "edit": True}
            with open(file, "w", encoding="utf-8") as out:
                out.writelines(json.dumps({**problem, "given": given}) + "\n" for given in drafts)
            arguments = ["--problems", file, "--length", "19", "--policy", "threshold(0.9)", "--policy", "threshold(0.9) + edit_committed(0) + edited_blocks"]
            kept, edited = measured(*arguments)["policies"]
            self.assertEqual((kept["masked_each"], edited["masked_each"]), ([3, 4], [3, 4]))
            self.assertEqual((kept["forwards_each"], kept["answers"][0][:17], kept["answers"][1]), ([1, 0], drafts[0][:17], drafts[1]))
            self.assertTrue(all(passes > 1 for passes in edited["forwards_each"]))
            for got, given, wrong, restored in zip(kept["answers"], drafts, kept["wrong_each"], kept["restored_each"]):
                self.assertEqual(wrong, sum(a != b for a, b in zip(got, answer)))
                self.assertEqual(restored, sum(a == b != c for a, b, c in zip(got, answer, given)))
            self.assertNotEqual(edited["answers"], kept["answers"])
            with open(file, "w", encoding="utf-8") as out:
                out.write(json.dumps({**problem, "given": drafts[0], "answer": answer[:-1]}) + "\n")
            self.fails(arguments, "prompt 'Q:", "must be the given one, token by token")

    def test_bad_puzzles_name_what_is_wrong(self):
        for line, *said in (('{"task": "s", "given": "12", "checker": "sudoku_6x6"}', "as many as the answer has positions, 36", "2"),
                            ('{"task": "s", "given": "%s", "checker": "sudoku_6x6"}' % ("7" + "_" * 35), "'7'", "not in the vocabulary"),
                            ('{"task": "s", "checker": "chess"}', "line 1", "must be sudoku_6x6, shortest_paths")):
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "bad.jsonl")
                with open(file, "w", encoding="utf-8") as out:
                    out.write(line + "\n")
                self.fails(["--model", "sudoku", "--prompts", file], *said)

    def test_one_token_a_forward(self):
        found = measured("--limit", "1", "--policy", "one")
        policy, = found["policies"]
        self.assertEqual(found["prompts"], 4)
        self.assertEqual(list(policy["exact"]), sorted(["word", "json", "sort", "code"]))
        self.assertEqual((policy["forwards"], policy["committed"]), (160, 160))
        self.assertEqual(policy["tokens_per_forward"], 1.0)

    def test_skipped_prompts_are_left_out(self):
        options = ("--task", "word", "--task", "code", "--policy", "threshold(0.5)")
        all_of_them, = measured("--limit", "8", *options)["policies"]
        first, = measured("--limit", "5", *options)["policies"]
        rest, = measured("--limit", "3", "--skip", "5", *options)["policies"]
        self.assertEqual(all_of_them["forwards"], first["forwards"] + rest["forwards"])
        # One character a prompt: whether its answer is right, task by task.
        self.assertEqual(all_of_them["right"], first["right"][:5] + rest["right"][:3] + first["right"][5:] + rest["right"][3:])
        self.assertEqual(all_of_them["right"].count("1"), sum(e["right"] for e in all_of_them["exact"].values()))

    def test_batch_threads_and_shared_passes_change_no_answer(self):
        def counts(*arguments):
            found = measured("--limit", "2", "--seed", "7", "--policy", "at_random + tokens_per_step(8)", "--policy",
                             "by_entropy + entropy_bound(0.3)", "--policy", "threshold + lookahead(2)", "--policy",
                             "threshold + dual_cache", "--policy", "threshold(0.8) + block_pipeline(0.1)", "--policy",
                             "threshold(0.8)", *arguments)
            return [{k: v for k, v in p.items() if "seconds" not in k} for p in found["policies"]]

        alone = counts("--batch", "1", "--threads", "1")
        self.assertEqual(alone, counts("--batch", "5", "--threads", "3"))
        self.assertEqual(alone, counts("--share-passes", "50"))

    def test_the_seed_changes_random_orders_only(self):
        def frames(seed):
            return run("--plain", "--limit", "1", "--task", "word", "--seed", seed, "--policy",
                       "at_random + tokens_per_step(4)").stdout.split("policy  ")[0]

        self.assertEqual(frames("1"), frames("1"))
        self.assertNotEqual(frames("1"), frames("2"))

    def test_stop_saves_forwards(self):
        options = ("--limit", "1", "--task", "json", "--policy", "one")
        every, = measured(*options)["policies"]
        stopped, = measured("--stop", *options)["policies"]
        self.assertEqual(every["forwards"], 40)
        self.assertLess(stopped["forwards"], 40)
        self.assertEqual(every["exact"], stopped["exact"])

    def test_plain_output_fills_in_line_by_line(self):
        done = run("--prompt", "J:age 27", "--policy", "threshold(0.9)", "--length", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\033", done.stdout)
        self.assertIn("J:age 27\n", done.stdout)
        self.assertRegex(done.stdout, r'    1  \{"age":27\}')
        self.assertRegex(done.stdout, r"threshold\(0\.9\) +- +0 ")

    def test_no_live_prints_the_table_alone(self):
        done = run("--no-live", "--limit", "1", "--task", "code", "--policy", "threshold(0.5)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("1 prompts, answers of 40"), done.stdout)
        self.assertRegex(done.stdout, r"\nthreshold\(0\.5\) +[01]/1 ")
        self.assertTrue(all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout)

    def test_a_trace_is_the_decode_of_a_policy(self):
        done = run("--policy", "lopa_3", "--live", "2", "--trace", "-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, *lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(head["format"], "unmask-trace/1")
        self.assertEqual(head["parts"], ["threshold(0.9)", "lookahead(3)"])
        tokens = {s["slot"]: list(s["tokens"]) for s in head["sequences"]}
        ends = {}
        for line in lines:
            if "end" in line:
                ends[line["slot"]] = line
            else:
                for position, token, outcome in zip(line["position"], line["token"], line["outcome"]):
                    if outcome in "cfw":
                        tokens[line["slot"]][position] = token
        self.assertEqual(tokens, {slot: end["tokens"] for slot, end in ends.items()})
        said = "".join(head["text"].get(str(t), "") for t in tokens[0])
        self.assertTrue(said.startswith("<bos>"), said)
        self.fails(["--trace", "-"], "--trace", "one --policy", "'-'")
        self.fails(["--trace", "-", "--policy", "one", "--policy", "lopa_3"], "--trace", "one --policy")
        self.fails(["--trace", "", "--policy", "one"], "--trace", "name of a file", "''")
        self.fails(["--trace", "/no/such/folder/x", "--policy", "one"], "/no/such/folder/x")
        if os.path.exists("/dev/full"):
            self.fails(["--trace", "/dev/full", "--policy", "one"], "/dev/full", "last whole line")

    def test_a_page_has_the_traces_of_two_policies(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "decode.html")
            done = run("--policy", "one", "--policy", "threshold(0.9)", "--html", file)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            with open(file, encoding="utf-8") as page:
                text = page.read()
        traces = re.findall(r'<script type="text/plain" class="trace">\n(.*?)</script>\n', text, re.S)
        policies = [json.loads(t.splitlines()[0])["policy"] for t in traces]
        self.assertEqual((policies[1], len(policies)), ("threshold(0.9)", 2))
        for trace in traces:
            self.assertNotIn("<", trace)
            self.assertEqual(json.loads(trace.splitlines()[-1])["end"], "complete")
        with open(os.path.join(os.path.dirname(__file__), "../../examples/viewer/viewer.html"), encoding="utf-8") as page:
            viewer = page.read()
        self.assertEqual(re.sub(r'(<script type="text/plain" class="trace".*?</script>\n)+', "<!-- traces -->", text, flags=re.S), viewer)
        self.fails(["--html", "x.html"], "--html", "one or two --policy", "x.html")
        self.fails(["--html", "", "--policy", "one"], "--html", "name of a file", "''")
        self.fails(["--html", "/no/such/folder/x", "--policy", "one"], "/no/such/folder/x", "cannot be written")

    def test_every_policy_is_replayed_with_the_same_bits(self):
        listed = run("--help").stdout
        names = re.findall(r"^  (\w+)", listed[listed.index("\npolicies\n"):listed.index("\ncaches\n")], re.M)
        caches = re.findall(r"^  (\w+)", listed[listed.index("\ncaches\n"):], re.M)
        methods = dict(re.findall(r"^([a-z0-9_]+)\n    method: .*\n    = (.*)$", run("--parts").stdout, re.MULTILINE))
        names += [name for name, text in methods.items() if name not in NEED_ATTENTION and not re.search("canvas|calibrated", text)]
        cases = [(name, "none") for name in names] + [("fast_dllm", cache) for cache in caches]
        with tempfile.TemporaryDirectory() as folder:
            for name, cache in cases:
                file = os.path.join(folder, "decode.jsonl")
                done = run("--length", "16", "--policy", name, "--cache", cache, "--trace", file)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                again = run("--replay", file)
                self.assertEqual((again.returncode, again.stderr), (0, ""), (name, cache, again.stdout))
                tokens, equal, difference = re.search(
                    r"(\d+) tokens, the same in the same steps; (\d+) log-probabilities equal, "
                    r"largest difference (\S+)", again.stdout).groups()
                self.assertEqual((tokens, difference), (equal, "0"), (name, cache))
                self.assertGreater(int(tokens), 10)
            self.fails(["--replay", file, "--policy", "one"], "--policy", "left out with --replay")
            with open(file, "a", encoding="utf-8") as cut:
                cut.write('{"slot":0,"step"')  # no whole line
            self.assertEqual(run("--replay", file).returncode, 0)
            with open(file, "a", encoding="utf-8") as wrong:
                wrong.write("x}\n")
            self.fails(["--replay", file], "trace, line", "column")
        self.fails(["--replay", "/no/such"], "--replay", "a file that can be read")

    @unittest.skipUnless(hasattr(signal, "SIGXFSZ"), "needs a limit of file sizes")
    def test_a_full_disk_leaves_whole_lines(self):
        def read(file):
            with open(file, encoding="utf-8") as trace:
                lines = trace.read().split("\n")[:-1]  # the last is no whole line
            return [{key: v for key, v in json.loads(line).items() if key != "milliseconds"} for line in lines]

        arguments = "--policy", "tokens_per_step(4)", "--live", "3", "--trace"
        with tempfile.TemporaryDirectory() as folder:
            whole, cut = os.path.join(folder, "whole"), os.path.join(folder, "cut")
            self.assertEqual(run(*arguments, whole).returncode, 0)
            lines, size = read(whole), os.path.getsize(whole)
            for most in (0, 100, size // 3, size // 2 + 7, size - size // 10):
                def limit(most=most):  # a write beyond it fails as on a full disk, its beginning is written
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
                done = subprocess.run([DEMO, *arguments, cut], capture_output=True, text=True, check=False,
                                      stdin=subprocess.DEVNULL, preexec_fn=limit)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                count = int(re.search(r"last whole line is number (\d+)", done.stderr)[1])
                self.assertEqual(os.path.getsize(cut), most)
                self.assertEqual(read(cut), lines[:count])
                again = run("--replay", cut)
                if count == 0:
                    self.assertIn("it has no whole line", again.stderr)
                else:
                    self.assertEqual((again.returncode, again.stderr), (0, ""), again.stdout)
                    self.assertEqual(again.stdout.count("the same in the same steps"), 3)
            self.assertGreater(count, 20)

    def test_a_trace_of_another_program_is_replayed(self):
        convert = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/trace/convert.py")
        with tempfile.TemporaryDirectory() as folder:
            file, history, converted = (os.path.join(folder, name) for name in ("decode", "history", "converted"))
            self.assertEqual(run("--policy", "threshold(0.9)", "--prompt", "sort: cab", "--trace", file).returncode, 0)
            with open(file, encoding="utf-8") as trace:
                head, *steps, end = [json.loads(line) for line in trace]
            (sequence,), states = head["sequences"], []
            state = sequence["tokens"]
            for step in steps:
                state = list(state)
                for position, token, outcome in zip(step["position"], step["token"], step["outcome"]):
                    state[position] = token if outcome in "cf" else state[position]
                states.append(state)
            self.assertEqual(state, end["tokens"])
            with open(history, "w", encoding="utf-8") as saved:
                json.dump(states, saved)
            with open(converted, "w", encoding="utf-8") as trace:
                subprocess.run([sys.executable, convert, "history", history, "--mask", str(head["model"]["mask"]),
                                "--vocab", str(head["model"]["vocab"]), "--prompt-length",
                                str(sequence["shape"]["prompt_length"])], stdout=trace, check=True)
            again = run("--replay", converted)
            self.assertEqual((again.returncode, again.stderr), (0, ""), again.stdout)
            self.assertIn(f"{len(steps)} forwards, 40 tokens, the same in the same steps", again.stdout)

    def test_check_finds_equality(self):
        done = run("--check", REFERENCE, "--limit", "1", "--batch", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("4 of 4 equal in tokens and forwards"), 3, done.stdout)

    def test_check_finds_a_difference(self):
        with tempfile.TemporaryDirectory() as folder, open(REFERENCE, encoding="utf-8") as file:
            line = json.loads(file.readline())
            line["threshold_0.9"]["tokens"][3] = 50
            line["threshold_0.5"]["forwards"] += 1
            path = os.path.join(folder, "changed.jsonl")
            with open(path, "w", encoding="utf-8") as changed:
                changed.write(json.dumps(line))
            done = run("--check", path, "--task", "word", "--limit", "1", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        one, strict, loose = json.loads(done.stdout)["check"]
        self.assertEqual((one["equal"], strict["equal"], loose["equal"]), (1, 0, 0))
        self.assertIn("position 3, '2' and the reference's", strict["differences"][0]["text"])
        self.assertIn("the tokens are the same", loose["differences"][0]["text"])


unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
