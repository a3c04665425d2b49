# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The playground in Chromium: the same tokens as the native program, errors at their column, the link.

usage: browser.py SITE DEMO [-v] [CLASS[.TEST]...]    SITE is made by examples/playground/build.sh, DEMO is unmask_demo
"""
import functools
import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "viewer"))
sys.dont_write_bytecode = True

sys.path.insert(0, str(ROOT / "bench"))

import browser  # noqa: E402
import paired  # noqa: E402
from browser import js, view, wait  # noqa: E402

SITE = DEMO = None
METHODS = ["es_dllm", "dynamic_dllm", "lopa_d2f", "threshold(0.8) + remask_below(0.6)", "threshold(0.9) + early_skip + dual_cache"]


def setUpModule():
    browser.setUpModule()


def tearDownModule():
    browser.tearDownModule()


def settle():
    wait("document.documentElement.dataset.ready")
    wait("document.getElementById('progress').textContent === ''", 120)


def show(link="", base=None, **look):
    view(**look)
    browser.driver.get("about:blank")
    browser.driver.get((base or pathlib.Path(SITE, "index.html").as_uri()) + link)
    settle()


def native(policy, prompt=None, model="sudoku"):
    """Of a prompt, or of the first problem of a model."""
    what = ["--model", model, "--live", "1"] if prompt is None else ["--prompt", prompt]
    done = subprocess.run([DEMO, "--policy", policy, *what, "--trace", "-"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{policy}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def decoded(policy, prompt, given="", block=20):
    """The trace of the playground."""
    text = js("""const [policy, prompt, given, block] = arguments;
        const wrong = text('start', START, [given ? 'sudoku' : 'text', policy, prompt, given, given ? 36 : 40, block, 0, 1]);
        if (wrong) { return wrong; }
        for (let more = 1; more > 0;) { more = integer('step'); }
        return text('trace');""", policy, prompt, given, block)
    return [json.loads(line) for line in text.splitlines()]


def shown_error(field):
    return js("const e = document.getElementById(arguments[0] + '-error'); return e.hidden ? '' : e.textContent", field)


def fill(field, value):
    js("const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('input'))", field, value)


class Playground(browser.Page):
    def test_the_same_tokens_as_native(self):
        show()
        policies = [p for _, p in js("return POLICIES")] + METHODS
        prompts = js("return PROMPTS")
        for policy in policies:
            for prompt in (prompts if "threshold(0.9)" == policy else prompts[:2]):
                with self.subTest(policy=policy, prompt=prompt):
                    ours, theirs = decoded(policy, prompt), native(policy, prompt)
                    self.assertEqual(ours[-1]["tokens"], theirs[-1]["tokens"])
                    self.assertEqual(ours[-1]["forwards"], theirs[-1]["forwards"])
                    columns = ("step", "score", "compute", "position", "token", "outcome", "by")
                    self.assertEqual([[s.get(c) for c in columns] for s in ours[1:-1]],
                                     [[s.get(c) for c in columns] for s in theirs[1:-1]])
                    if policy in METHODS:  # a layer may compute another position at a tie; tokens are those
                        continue
                    for a, b in zip(ours[1:-1], theirs[1:-1]):
                        for x, y in zip(a["confidence"], b["confidence"]):
                            self.assertAlmostEqual(x, y, delta=1e-4)

    def test_the_reference_of_the_model(self):
        show()
        with open(ROOT / "tests/data/tiny_llada/reference_decodes.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file][::40]
        for line in lines:
            for rule, policy in (("threshold_0.9", "threshold(0.9)"), ("one_a_forward", "tokens_per_step(1)")):
                ours = decoded(policy, line["prompt"])
                self.assertEqual(ours[-1]["tokens"][-40:], line[rule]["tokens"])
                self.assertEqual(ours[-1]["forwards"], line[rule]["forwards"])

    def test_sudoku(self):
        show("#model=sudoku&policy=threshold(0.99)&second=threshold(0)&block=36")
        rows = js("return [...document.querySelectorAll('#runs tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        self.assertRegex(rows[0][4], r"^solved: [1-6]{6}( [1-6]{6}){5}$")
        self.assertRegex(rows[1][4], r"^(solved|wrong): ")
        self.assertEqual(rows[1][1], "1")
        with open(ROOT / "examples/sudoku/puzzles.jsonl", encoding="utf-8") as file:
            puzzles = [json.loads(line)["given"] for line in file][:3]
        self.assertEqual(js("return [...document.getElementById('givens').options].slice(1).map((o) => o.value)"), puzzles)
        for policy in ("threshold(0.9)", "by_margin + tokens_per_step(1)"):
            theirs = native(policy)
            block = theirs[0]["sequences"][0]["shape"]["block_length"]
            ours = decoded(policy, "", puzzles[0], block)
            self.assertEqual(ours[0]["sequences"][0]["fixed"], theirs[0]["sequences"][0]["fixed"])
            self.assertEqual(ours[-1], theirs[-1])
            self.assertEqual([(s["position"], s["token"], s["outcome"]) for s in ours[1:-1]],
                             [(s["position"], s["token"], s["outcome"]) for s in theirs[1:-1]])
        js("const m = document.getElementById('model'); m.value = 'text'; m.dispatchEvent(new Event('change'))")
        wait("document.querySelector('#runs tbody tr').cells[4].textContent.startsWith('10+8')")

    def test_links_without_a_field_for_clues(self):
        show("#model=sudoku&policy=threshold(0.99)&second=&prompt=__36_4_4__2_41___6_6_1_______3_____2")
        self.assertEqual(js("return [document.getElementById('given').value, settings().prompt]"), ["__36_4_4__2_41___6_6_1_______3_____2", ""])

    def test_given_positions_stay(self):
        show("#policy=threshold(0.5)&second=&prompt=J%3Aage+73+name+Eve&given=%7B%22age%22%3A7__%22name%22______")
        self.assertRegex(js("return document.querySelector('#runs tbody tr').cells[4].textContent"), r'^\{"age":7..."?name".{6}')
        self.assertEqual(js("return settings().answer"), 22)

    def test_chains_and_traces_that_wait(self):
        for model, block in (("chains", 128), ("waiting", 237)):
            show(f"#model={model}&policy=threshold(0.99)&second=")
            row = js("return [...document.querySelector('#runs tbody tr').cells].map((c) => c.textContent)")
            theirs = native("threshold(0.99)", model=model if model == "chains" else "waiting_1")
            self.assertEqual(theirs[0]["sequences"][0]["shape"]["block_length"], block)
            self.assertEqual(int(row[1]), theirs[-1]["forwards"])
            self.assertTrue(row[4].endswith(" right"), row)

    def test_scores(self):
        cells = "return [...document.querySelectorAll('#scores tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
        for model, demo, task, count in (("sudoku", "sudoku", "sudoku", 60), ("text", "tiny_llada", "word", 12), ("chains", "chains", "path", 6),
                                         ("waiting", "waiting_1", "waiting", 2)):
            policies = ["threshold(0.9)", "threshold(0.5) + lookahead(3)"]
            show(f"#model={model}&task={task}&count={count}&policy={policies[0]}&second={policies[1].replace('+', '%2B')}")
            browser.driver.find_element("id", "score-start").click()
            wait("document.getElementById('score-stop').hidden && document.querySelectorAll('#scores tbody tr').length === 2", 120)
            done = subprocess.run([DEMO, "--model", demo, "--task", task, "--limit", str(count), "--json",
                                   *(x for p in policies for x in ("--policy", p))], capture_output=True, text=True, check=True)
            native_ones = json.loads(done.stdout)["policies"]
            rows = js(cells)
            for row, theirs in zip(rows, native_ones):
                self.assertEqual(row[1], f"{theirs['right'].count('1')} of {count}", (model, row))
                self.assertEqual(row[3:5], [f"{theirs[of] / count:.2f}" for of in ("forwards", "segments")], (model, row))
            gained, lost = ([a + b for a, b in zip(*(p["right"] for p in native_ones))].count(x) for x in ("01", "10"))
            self.assertEqual(rows[1][6], f"+{gained} -{lost}")
            low, high = paired.difference(gained, lost, count)
            self.assertEqual(rows[1][7], f"{low:+.1f} to {high:+.1f}")
            self.assertAlmostEqual(float(rows[1][8]), paired.sign_test(gained, lost), delta=.006)
        fill("policy", "tokens_per_step(40)")  # of the same problems: one row more; the first stays what others are compared with
        settle()
        browser.driver.find_element("id", "score-start").click()
        wait("document.querySelectorAll('#scores tbody tr').length === 3", 60)
        fill("policy", "tokens_per_step(1)")
        settle()
        fill("count", "200")
        browser.driver.find_element("id", "score-start").click()
        wait("document.getElementById('score-progress').textContent.includes('problem 2 ')", 60)
        browser.driver.find_element("id", "score-stop").click()
        wait("document.getElementById('score-progress').textContent === ''", 60)
        self.assertEqual(js(cells), [])

    def test_the_statistics_of_scores(self):
        show()
        self.assertEqual(js("return [signTest(0, 0), signTest(5, 5), signTest(0, 6), signTest(1, 7)]"), [1, 1, 2 / 64, 18 / 256])
        for gained, lost, n in ((3, 3, 200), (10, 2, 100), (0, 0, 1)):
            for ours, theirs in zip(js("return pairedDifference(...arguments)", gained, lost, n), paired.difference(gained, lost, n)):
                self.assertAlmostEqual(ours, theirs)
        self.assertEqual(js("return wilson(0, 1)[0]"), 0)

    def test_the_page_shows_two_policies(self):
        show()
        rows = js("return [...document.querySelectorAll('#runs tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        self.assertEqual([r[0] for r in rows], ["threshold(0.9)", "tokens_per_step(2)"])
        self.assertEqual([int(r[1]) for r in rows], [native(r[0], js("return PROMPTS[0]"))[-1]["forwards"] for r in rows])
        self.assertEqual(rows[0][4], "10+8=18;18-7=11;11+4=15;#15 right")
        browser.driver.switch_to.frame("viewer")
        try:
            self.assertTrue(js("return document.body.classList.contains('comparing')"))
            self.assertIn("First difference: forward 1", browser.text("difference-text"))
            self.assertEqual(js("return [...document.querySelectorAll('.policy')].map((e) => e.textContent)"), [r[0] for r in rows])
        finally:
            browser.driver.switch_to.default_content()
        js("document.querySelector('#runs tbody button').click()")  # Show
        browser.driver.switch_to.frame("viewer")
        try:
            wait("!document.body.classList.contains('comparing')")
        finally:
            browser.driver.switch_to.default_content()

    def test_the_example_of_the_viewer_is_what_the_demo_decodes(self):
        with open(ROOT / "examples/viewer/src/example.jsonl", encoding="utf-8") as file:
            example = [json.loads(line) for line in file]
        again = native("threshold(0.9)", "Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?")
        self.assertEqual(example[0].keys(), again[0].keys())
        self.assertEqual(example[-1], again[-1])
        self.assertEqual([(s["token"], s["outcome"], s["by"]) for s in example[1:-1]],
                         [(s["token"], s["outcome"], s["by"]) for s in again[1:-1]])

    def test_the_page_that_the_demo_writes(self):
        page = pathlib.Path(browser.folder.name, "decode.html")
        subprocess.run([DEMO, "--policy", "threshold(0.9)", "--policy", "lopa_3", "--html", str(page)], check=True)
        browser.driver.get(page.as_uri())
        wait("document.documentElement.dataset.ready")
        self.assertEqual(browser.errors(), [])
        self.assertEqual(js("return [0, 1].map((i) => unmaskViewer.side(i).decode.forwards)"),
                         js("return [0, 1].map((i) => unmaskViewer.side(i).trace.sequences[0].end.forwards)"))
        self.assertEqual(js("return document.querySelectorAll('.note').length"), 1)  # the one that is hidden
        self.assertEqual(js("return document.querySelector('.policy').textContent"), "threshold(0.9)")

    def test_errors_of_a_policy_stand_at_their_column(self):
        show()
        for policy, column, sentence in (("trace_credit + threshold(1.5)", 26, "value of threshold must be in [0, 1], got 1.5"),
                                         ("treshold(0.9)", 1, "threshold"), ("threshold(0.9) +", None, ""), ("", None, "")):
            fill("policy", policy)
            said = shown_error("policy")
            self.assertTrue(said, policy)
            self.assertEqual(js("return document.getElementById('policy').getAttribute('aria-invalid')"), "true")
            lines = said.split("\n")
            self.assertIn(sentence, said)
            if column is not None:
                self.assertEqual(lines[0], policy)
                self.assertEqual(lines[1], " " * (column - 1) + "^")
                self.assertTrue(lines[2].startswith(f"column {column}: "), lines)
        fill("policy", "threshold(0.5)")
        self.assertEqual(shown_error("policy"), "")
        fill("second", "threshold(<img src=x onerror=window.ran=1>)")
        self.assertTrue(shown_error("second"))
        self.assertIsNone(js("return window.ran"))
        fill("second", "")
        self.assertEqual(shown_error("second"), "")
        fill("prompt", "Q:é")
        wait("!document.getElementById('error').hidden")
        self.assertIn("é", browser.text("error"))

    def test_answers_obey_a_language(self):
        def row():
            return js("return [...document.querySelector('#runs tbody tr').cells].map((c) => c.textContent)")

        def choose(language):
            js("const l = document.getElementById('language'); l.value = arguments[0]; l.dispatchEvent(new Event('change'))", language)
            settle()

        def answer_of(value):
            fill("is", value)
            wait(f"new URLSearchParams(location.hash.slice(1)).get('is') === {json.dumps(value)}")
            settle()
            self.assertEqual(shown_error("is"), "", value)
            return re.fullmatch(r"(.*) \d+ refused, (\d+) filled", row()[4], re.S).groups()

        def is_schema(text):
            found = json.loads(text)
            self.assertTrue(0 <= found["age"] <= 150 and re.search("^[A-Z][a-z]+$", found["name"]))

        checks = {
            "expression": lambda text, of: self.assertRegex(text, f"^(?:{of})$"),
            "words": lambda text, of: self.assertIn(text, of.split(" | ")),
            "schema": lambda text, of: json.loads(text) if "enum" in of or "array" in of else is_schema(text),
            "grammar": lambda text, of: self.assertRegex(text, r"^\([0-9+()]+\)$" if "term" in of else r"^[0-9]+[-+].*;#[0-9]+$"),
        }
        show("#policy=threshold(0.5)&second=&prompt=J%3Aage+73+name+Eve")
        for kind, (_, examples) in js("return LANGUAGES").items():
            choose(kind)
            self.assertEqual(js("return document.getElementById('table').hidden"), kind != "table")
            for text in examples.values():
                checks[kind](answer_of(text)[0], text)
        choose("schema")
        text = js("return LANGUAGES.schema[1]['age and name']")
        answer, filled = answer_of(text)
        self.assertEqual(json.loads(answer), {"age": 73, "name": "Eve"})
        self.assertGreater(int(filled), 0)
        show(js("return location.hash"))  # the link has it
        self.assertEqual(js("return [settings().language, settings().is]"), ["schema", text])
        choose("words")
        for words in ("yes | no | perhaps", "a.b*c | (x|", "\\d | ^$"):
            self.assertIn(answer_of(words)[0], [w.strip() for w in words.split("|")])
        choose("table")  # none is chosen yet: any text
        self.assertNotIn("refused", row()[4])
        with tempfile.NamedTemporaryFile(suffix=".dfa") as wrong:
            wrong.write(b"no table")
            wrong.flush()
            browser.driver.find_element("id", "table").send_keys(wrong.name)
            wait("!document.getElementById('is-error').hidden")
            self.assertIn("no byte table", shown_error("is"))

    def test_errors_of_a_language_have_their_place(self):
        show("#policy=threshold(0.5)&second=&prompt=J%3Aage+73+name+Eve")
        runs = js("return document.querySelectorAll('#runs tbody tr').length")
        for kind, text, expected in (
            ("expression", "[0-9]{4}-(\\d", "[0-9]{4}-(\\d\n         ^\ncolumn 10: this group is not closed"),
            ("expression", "(?i)a", "(?i)a\n"),
            ("grammar", "root ::= a\na ::= [0-9", "a ::= [0-9\n      ^\nline 2, column 7: this class is not closed"),
            ("schema", '{"properties": {"a": {"minimum": "x"}}}', "/properties/a/minimum: "),
            ("schema", '{"type": "array", "uniqueItems": true}', "/uniqueItems: "),
            ("schema", '{"type": ', ""),
            ("expression", ".*a.{30}", "it "),  # a limit, after seconds at most
        ):
            with self.subTest(kind=kind, text=text):
                js("document.getElementById('is-error').hidden = true")
                show("#" + urllib.parse.urlencode({"policy": "threshold(0.5)", "second": "", "language": kind, "is": text}))
                self.assertTrue(shown_error("is").startswith(expected), shown_error("is"))
                self.assertNotEqual(shown_error("is"), "")
                self.assertEqual(js("return document.getElementById('is').getAttribute('aria-invalid')"), "true")
                self.assertEqual(js("return document.querySelectorAll('#runs tbody tr').length"), 0)  # nothing was decoded
        fill("is", "[0-9]")
        wait("document.querySelectorAll('#runs tbody tr').length === 1")
        self.assertEqual((shown_error("is"), runs), ("", 1))

    def test_typing_decodes(self):
        show()
        fill("second", "")
        fill("policy", "tokens_per_step(4)")
        wait("document.querySelector('#runs tbody td').textContent === 'tokens_per_step(4)'")
        self.assertEqual(js("return document.querySelector('#runs tbody tr').cells[1].textContent"), "10")
        self.assertIn("policy=tokens_per_step%284%29", js("return location.hash"))

    def test_runs_in_the_viewer_have_its_letters(self):
        show("#policy=threshold(0.9)&second=tokens_per_step(2)")
        sides = "return [...document.querySelectorAll('#runs tbody tr')].map((r) => r.cells[0].dataset.side ?? '')"
        self.assertEqual(js(sides), ["A", "B"])
        browser.driver.find_element("css selector", "#runs tbody tr:nth-child(2) button").click()  # Show
        self.assertEqual(js(sides), ["", ""])

    def test_the_link_has_the_state(self):
        show("#policy=factor(0.2)&second=&prompt=J%3Aage+27&answer=30&block=10&seed=3")
        self.assertEqual(js("return ['policy', 'second', 'prompt', 'answer', 'block', 'seed'].map((i) => document.getElementById(i).value)"),
                         ["factor(0.2)", "", "J:age 27", "30", "10", "3"])
        self.assertEqual(js("return document.querySelector('#runs tbody tr').cells[4].textContent"), '{"age":27} right')
        link = js("return location.hash")
        show(link)
        self.assertEqual(js("return location.hash"), link)
        show("#policy=%3Cscript%3Ewindow.ran%3D1%3C/script%3E&answer=-5&block=99999999999&seed=x")
        self.assertIsNone(js("return window.ran"))
        self.assertIn("<script>", shown_error("policy"))
        self.assertEqual(js("return ['answer', 'block', 'seed'].map((n) => settings()[n])"), [40, 20, 0])

    def test_every_example_is_a_policy(self):
        show()
        for name, policy in js("return POLICIES"):
            self.assertEqual(js("return text('check', ['string'], [arguments[0]])", policy), "", name)
        self.assertIn("threshold", browser.text("parts"))

    def test_widths_and_themes(self):
        for width in (1280, 390, 320):
            for dark in (False, True):
                show(width=width, dark=dark)
                self.assertLessEqual(js("return document.documentElement.scrollWidth"), width)
                if browser.PICTURES:
                    browser.PICTURES.mkdir(parents=True, exist_ok=True)
                    view(width, js("return document.documentElement.scrollHeight"), dark)
                    time.sleep(0.5)
                    browser.driver.save_screenshot(str(browser.PICTURES / f"playground-{width}-{'dark' if dark else 'light'}.png"))
        js("const t = document.getElementById('theme'); t.value = 'light'; t.dispatchEvent(new Event('change'))")
        light = js("return getComputedStyle(document.body).backgroundColor")
        browser.driver.switch_to.frame("viewer")
        try:
            wait("document.documentElement.dataset.theme === 'light'")
            self.assertEqual(js("return getComputedStyle(document.body).backgroundColor"), light)
            self.assertFalse(browser.driver.find_element("id", "theme").is_displayed())  # one for both pages is enough
        finally:
            browser.driver.switch_to.default_content()

    def test_from_a_server(self):
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            show(base=f"http://127.0.0.1:{server.server_port}/index.html")
            self.assertEqual(js("return document.querySelectorAll('#runs tbody tr').length"), 2)
            for entry in browser.driver.get_log("browser"):
                self.assertIn("favicon", entry["message"])
        finally:
            server.shutdown()
            server.server_close()


if __name__ == "__main__":
    SITE, DEMO = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
    del sys.argv[1:3]
    if "--pictures" in sys.argv:
        at = sys.argv.index("--pictures")
        browser.PICTURES = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at:at + 2]
    unittest.main()
