# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The viewer in Chromium: what is drawn against what the trace says, worked out here a second time.

Text looks different on each machine, so the tests compare regions of the canvases with the colours of the style
sheet, not whole pictures; --pictures FOLDER also writes screenshots for people. Driven by Selenium.

usage: browser.py [--pictures FOLDER] [-v] [CLASS[.TEST]...]
"""
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
VIEWER = HERE.parent.parent / "examples" / "viewer"
sys.path[:0] = [str(HERE), str(VIEWER)]
sys.dont_write_bytecode = True

import embed  # noqa: E402
import traces  # noqa: E402
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = os.environ.get("UNMASK_CHROMIUM", "/usr/bin/chromium")
DRIVER = os.environ.get("UNMASK_CHROMEDRIVER", "/usr/bin/chromedriver")
PICTURES = None
FIRST = len(traces.PROMPT)  # position behind the prompt
driver, folder = None, None


def setUpModule():
    global driver, folder
    folder = tempfile.TemporaryDirectory()
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
                     *(["--no-sandbox", "--disable-dev-shm-usage"] if os.geteuid() == 0 else [])):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))


def tearDownModule():
    driver.quit()
    folder.cleanup()


def js(script, *arguments):
    return driver.execute_script(script, *arguments)


def wait(condition, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        value = js("return " + condition)
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"never: {condition}")


def view(width=1280, height=900, dark=False):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})


def show(*texts, width=1280, dark=False):
    """Opens the page with these traces (texts or lists of lines) in it."""
    view(width, dark=dark)
    named = [(f"{'ab'[i]}.jsonl", t if isinstance(t, str) else traces.text_of(t)) for i, t in enumerate(texts)]
    path = pathlib.Path(folder.name, "page.html")
    path.write_text(embed.embed(embed.VIEWER.read_text(encoding="utf-8"), named), encoding="utf-8", errors="surrogatepass")
    driver.get(path.as_uri())
    wait("document.documentElement.dataset.ready")
    wait("document.readyState === 'complete'")


def save(name, lines):
    path = pathlib.Path(folder.name, name)
    path.write_text(lines if isinstance(lines, str) else traces.text_of(lines), encoding="utf-8")
    return str(path)


def go(n):
    js("unmaskViewer.go(arguments[0]); unmaskViewer.frame();", n)


def text(identity):
    return js("return document.getElementById(arguments[0]).textContent", identity)


def errors():
    return [text(i) for i in ("error-a", "error-b") if not js("return document.getElementById(arguments[0]).hidden", i)]


def colour(name):
    return tuple(int(x) for x in re.findall(r"\d+", js("""
        const s = document.createElement('span'); s.style.color = `var(--${arguments[0]})`; document.body.append(s);
        const c = getComputedStyle(s).color; s.remove(); return c;""", name))[:3])


PIXELS = """
const [surface, points] = [arguments[0], arguments[1]];
const {canvas, box} = surface;
const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
const ratio = devicePixelRatio;
return points.map(([x, y]) => {
  const i = 4 * (Math.floor((y - box.scrollTop) * ratio) * canvas.width + Math.floor((x - box.scrollLeft) * ratio));
  return [data[i], data[i + 1], data[i + 2]];
});"""


def pixels(surface, points):
    """Colours of a canvas at points of its content; `surface` is canvas, map or chart, of side 0 or 1."""
    name, side = surface if isinstance(surface, tuple) else (surface, 0)
    return [tuple(p) for p in js(PIXELS.replace("arguments[0]", f"unmaskViewer.pane({side}).{name}.surface", 1)
                                 .replace("arguments[1]", "arguments[0]"), points)]


def boxes(side=0):
    """(x, y, width) of each position in the canvas."""
    return js("const c = unmaskViewer.pane(arguments[0]).canvas; return [...c.x].map((x, p) => [x, c.y[p], c.widths[p]])", side)


class Oracle:
    """What a trace says, naively: one pass over its lines for each question."""

    def __init__(self, lines):
        self.head, self.steps = lines[0], [line for line in lines if "step" in line]
        self.sequence = self.head["sequences"][0]
        self.prompt = self.sequence["shape"]["prompt_length"]

    def at(self, n):
        """[(state, token, fresh)] after n steps."""
        tokens = self.sequence["tokens"]
        state = [("given" if p < self.prompt else "masked", tokens[p] if p < self.prompt else -1, 0) for p in range(len(tokens))]
        touched = set()
        for k, step in enumerate(self.steps[:n]):
            for p, token, letter in zip(step["position"], step["token"], step["outcome"]):
                fresh = int(k == n - 1)
                if letter in "cfw":
                    state[p] = ("changed" if p in touched else "committed", token, fresh)
                elif letter == "e":
                    touched.add(p)
                    state[p] = ("changed", token, fresh)
                elif letter == "r":
                    touched.add(p)
                    state[p] = ("changed" if fresh else "masked", -1, fresh)
                elif fresh and state[p][0] == "masked":
                    state[p] = ("proposed", token, 0)
        return state

    def confidence(self, n, position):
        """At the last commit up to step n."""
        for step in reversed(self.steps[:n]):
            for p, c, letter in zip(step["position"], step["confidence"], step["outcome"]):
                if p == position and letter in "cfwe":
                    return c
        return None


def shade(confidence):
    return "shade" + str(sum(confidence >= x for x in (0.5, 0.9, 0.99, 0.999)))


class Page(unittest.TestCase):
    def setUp(self):
        driver.get_log("browser")

    def tearDown(self):
        for entry in driver.get_log("browser"):
            if entry["level"] == "SEVERE":
                self.fail(entry["message"])


class Drawing(Page):
    """Canvas, order map, chart and numbers."""
    lines = traces.decode(0.9, edits=True)

    def test_counters(self):
        show(self.lines)
        steps = [s for s in self.lines if "step" in s]
        letters = "".join(s["outcome"] for s in steps)
        shown = dict(js("return [...document.querySelectorAll('.counters div')].map(d => [d.children[0].textContent, d.children[1].textContent])"))
        commits = sum(c in "cf" for c in letters)
        self.assertEqual(shown, {
            "forwards": str(len(steps)), "committed": str(commits), "tokens per forward": f"{commits / len(steps):.2f}",
            "rows of logits": str(20 * len(steps)), "layer-positions": f"{92 * 6 * len(steps):,}",
            "forced": str(letters.count("f")), "held": str(letters.count("h")), "replaced": "1", "remasked": "1",
            "milliseconds": str(round(1.25 * len(steps) + 1e-9, 1))})
        self.assertEqual(js("return document.querySelector('.policy').textContent"), self.lines[0]["policy"])

    def test_states_after_every_forward(self):
        show(self.lines)
        oracle = Oracle(self.lines)
        names = ["given", "masked", "proposed", "committed", "changed"]
        seen = set()
        for n in range(len(oracle.steps) + 1):
            state, token, fresh = js("const a = unmaskViewer.side(0).decode.at(arguments[0]); return [[...a.state], [...a.token], [...a.fresh]]", n)
            want = oracle.at(n)
            self.assertEqual([names[s] for s in state], [w[0] for w in want], n)
            self.assertEqual(token, [w[1] for w in want], n)
            self.assertEqual(fresh, [w[2] for w in want], n)
            seen |= {w[0] for w in want}
        self.assertEqual(seen, set(names))  # the trace has them all

    def test_the_canvas_draws_the_states(self):
        for dark in (False, True):
            show(self.lines, dark=dark)
            oracle = Oracle(self.lines)
            c = {n: colour(n) for n in ("panel", "masked", "changed", "forced", "now", "proposed", *(f"shade{i}" for i in range(5)))}
            for n in (0, 1, 2, 3, 4, len(oracle.steps)):
                go(n)
                places = boxes()
                want = oracle.at(n)
                ground = pixels("canvas", [(x + 3, y + 3) for x, y, w in places])
                bar = pixels("canvas", [(x + w / 2, y + 28) for x, y, w in places])
                for p, (state, token, fresh) in enumerate(want):
                    with self.subTest(n=n, p=p, state=state, dark=dark):
                        expected = {"given": c["panel"], "masked": c["masked"], "proposed": c["panel"],
                                    "committed": c[shade(oracle.confidence(n, p) or 0)],
                                    "changed": c["changed"] if token >= 0 else c["masked"]}[state]
                        self.assertEqual(ground[p], expected)
                        self.assertEqual(bar[p] == c["now"], bool(fresh))
            go(1)  # the forced token has a corner, the proposed ones a border
            want, places = oracle.at(1), boxes()
            forced = oracle.steps[0]["position"][oracle.steps[0]["outcome"].index("f")]
            x, y, _ = places[forced]
            self.assertEqual(pixels("canvas", [(x + 1.5, y + 24)])[0], c["forced"])
            for p in (p for p, w in enumerate(want) if w[0] == "proposed"):
                x, y, w = places[p]
                row = pixels("canvas", [(x + i, y + 0.5) for i in range(int(w))])
                dashes = sum(q != c["panel"] for q in row)
                self.assertTrue(0.3 * len(row) < dashes < 0.95 * len(row), (p, dashes, len(row)))
            go(3)  # what is changed has a cut corner
            p = next(p for p, w in enumerate(oracle.at(3)) if w[0] == "changed" and w[1] >= 0)
            x, y, w = boxes()[p]
            self.assertEqual(pixels("canvas", [(x + w - 1.5, y + 1.5)])[0], c["panel"])

    def test_rows_of_a_grid(self):
        show(self.lines)
        js("const f = document.getElementById('fold'); f.value = '8'; f.dispatchEvent(new Event('change'))")
        places = boxes()
        for p in range(FIRST, len(places)):
            self.assertEqual(places[p][1], places[FIRST][1] + (p - FIRST) // 8 * 34, p)
        js("unmaskViewer.frame()")
        x, y, _ = places[FIRST + 8]
        self.assertEqual(pixels("canvas", [(x + 3, y + 3)])[0], colour(shade(Oracle(self.lines).confidence(99, FIRST + 8))))

    def test_tokens_are_written(self):
        show(self.lines)
        go(99)
        p = FIRST
        x, y, w = boxes()[p]
        ground = pixels("canvas", [(x + 3, y + 3)])[0]
        inside = pixels("canvas", [(x + i, y + j) for i in range(5, int(w) - 4) for j in range(5, 21)])
        self.assertGreater(sum(q != ground for q in inside), 8)
        self.assertEqual(js("return unmaskViewer.pane(0).canvas.texts.get(unmaskViewer.side(0).decode.at(unmaskViewer.state.now).token[arguments[0]])", p), "1")

    def test_the_order_map_draws_each_cell(self):
        show(self.lines)
        js("unmaskViewer.state.now = 0; unmaskViewer.state.selected = -1; unmaskViewer.frame()")
        oracle = Oracle(self.lines)
        cw, ch = js("const m = unmaskViewer.pane(0).map; return [m.cellWidth, m.cellHeight]")
        c = {n: colour(n) for n in ("panel", "masked", "changed", "held", *(f"shade{i}" for i in range(5)))}
        held = set(range(FIRST))
        for row, step in enumerate(oracle.steps):
            cells = {p: (letter, conf) for p, letter, conf in zip(step["position"], step["outcome"], step["confidence"])}
            points = [(40 + (p - FIRST) * cw + 3, 4 + row * ch + 3) for p in range(FIRST, FIRST + 40)]
            for p, got in zip(range(FIRST, FIRST + 40), pixels("map", points)):
                letter, conf = cells.get(p, ("", 0))
                want = (shade(conf) if letter in "cf" else "changed" if letter in "er" else "held") if letter else \
                    "panel" if p in held else "masked"
                self.assertEqual(got, c[want], (row, p, letter))
                if letter and letter in "cfe":
                    held.add(p)
                elif letter == "r":
                    held.discard(p)

    def test_the_order_map_writes_tokens_and_marks_the_forced(self):
        show(self.lines)
        js("unmaskViewer.state.now = 0; unmaskViewer.state.selected = -1; unmaskViewer.frame()")
        cw, ch = js("const m = unmaskViewer.pane(0).map; return [m.cellWidth, m.cellHeight]")
        forced = 0
        for row, step in enumerate(Oracle(self.lines).steps):
            for p, letter in zip(step["position"], step["outcome"]):
                if letter not in "cfer":
                    continue
                x, y = 40 + (p - FIRST) * cw, 4 + row * ch
                cell = pixels("map", [(x + i, y + j) for i in range(2, int(cw) - 2) for j in range(2, int(ch) - 2)])
                self.assertGreater(sum(q != cell[0] for q in cell), 3, (row, p))
                corner = pixels("map", [(x + 1.5, y + ch - 2.5)])[0]
                self.assertEqual(corner == colour("forced"), letter == "f", (row, p))
                forced += letter == "f"
        self.assertGreater(forced, 0)

    def test_the_order_map_shades_every_candidate_when_asked(self):
        show(self.lines)
        go(0)
        js("document.getElementById('shade-all').click(); unmaskViewer.frame()")
        step = Oracle(self.lines).steps[0]
        cw, ch = js("const m = unmaskViewer.pane(0).map; return [m.cellWidth, m.cellHeight]")
        got = pixels("map", [(40 + (p - FIRST) * cw + 3, 7) for p in step["position"]])
        self.assertEqual(got, [colour(shade(c)) for c in step["confidence"]])

    def test_the_chart_has_a_bar_for_each_forward(self):
        show(self.lines)
        oracle = Oracle(self.lines)
        go(2)
        step = js("return unmaskViewer.pane(0).chart.step")
        most = max(sum(c in "cfer" for c in s["outcome"]) for s in oracle.steps)
        for i, s in enumerate(oracle.steps):
            commits = sum(c in "cf" for c in s["outcome"])
            changes = sum(c in "er" for c in s["outcome"])
            x = 40 + i * step + 3
            top = 64 - 44 * commits / most
            below, above = pixels("chart", [(x, top + 2), (x, top - 44 * changes / most - 3)])
            self.assertEqual(below, colour("now" if i == 1 else "shade3"), i)
            self.assertNotIn(above, (colour("now"), colour("shade3"), colour("changed")), i)
            if changes:
                self.assertEqual(pixels("chart", [(x, top - 2)])[0], colour("changed"))
            self.assertEqual(pixels("chart", [(x, 66 + 64 - 40)])[0], colour("now" if i == 1 else "shade3"))  # rows
        self.assertIn("Forward 2: 20 rows (positions 52 to 71), 552 positions computed in all layers.",
                      js("return document.querySelector('#cards .sentence').textContent"))

    def test_a_position_has_its_candidates(self):
        show(self.lines)
        oracle = Oracle(self.lines)
        for p in (FIRST, FIRST + 3, FIRST + 25):
            js("unmaskViewer.select(arguments[0]); unmaskViewer.frame()", p)
            rows = js("return [...document.querySelectorAll('#positions .A .row:not(.head)')].map(r => [...r.children].map(c => c.textContent))")
            want = []
            for k, s in enumerate(oracle.steps):
                if p in s["position"]:
                    i = s["position"].index(p)
                    want.append((str(k + 1), s["confidence"][i], f"{s['log_probability'][i]:.3f}", s["outcome"][i]))
            self.assertEqual([(r[0], r[3], r[4][0]) for r in rows], [(w[0], w[2], w[3]) for w in want])
            for r, w in zip(rows, want):
                self.assertAlmostEqual(float(r[2].rstrip(" %")), 100 * w[1], delta=0.06)
        js("unmaskViewer.select(arguments[0])", FIRST)
        go(1)
        self.assertIn("Held: threshold(0.9) did not choose it", js("return document.querySelector('#positions .A .sentence').textContent"))
        self.assertEqual(js("return document.querySelector('#positions .A [aria-current]').children[0].textContent"), "1")
        curve = js("""const c = document.querySelector('#positions .A .curve');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
            for (let i = 0; i < d.length; i += 4) { n += d[i] === arguments[0] && d[i + 1] === arguments[1]; } return n;""", *colour("shade3")[:2])
        self.assertGreater(curve, 300)

    def test_every_outcome_has_its_sentence(self):
        tokens = [3] * 2 + [1] * 6
        head = traces.head(tokens, 2, 6, "p", ["by_confidence", "rule", "filter"], 10, {"3": "a", "4": "b"})
        def step(n, positions, letters, by):
            return {"slot": 0, "step": n, "forward": n + 1, "position": positions, "token": [4] * len(positions),
                    "confidence": [0.5] * len(positions), "log_probability": [None] * len(positions), "outcome": letters, "by": by}
        show([head, step(0, [2, 3, 4, 5, 6, 7], "cfhxiw", [1, -1, 1, 2, -1, -1]), step(1, [2, 3, 7], "erk", [2, 2, 2]),
              step(2, [4], "z", [1])])
        wanted = {2: "Committed by rule.", 3: "Forced: no rule chose it", 4: "Held: rule did not choose it",
                  5: "Excluded from this step by filter.", 6: "Invalid row", 7: "Committed with the winning lookahead branch."}
        go(1)
        for p, sentence in wanted.items():
            js("unmaskViewer.select(arguments[0]); unmaskViewer.frame()", p)
            self.assertIn(sentence, js("return document.querySelector('#positions .A .sentence').textContent"))
        go(2)
        for p, sentence in {2: "A committed token, replaced by filter.", 3: "A committed token, masked again by filter.",
                            7: "A committed token, considered again by filter; it stays."}.items():
            js("unmaskViewer.select(arguments[0]); unmaskViewer.frame()", p)
            self.assertIn(sentence, js("return document.querySelector('#positions .A .sentence').textContent") if p != 7 else
                          js("return document.querySelector('#positions .A .row:last-child').textContent"))
        self.assertEqual(js("return [...unmaskViewer.side(0).decode.at(2).state].slice(2)"), [4, 4, 1, 1, 1, 3])
        go(3)
        js("unmaskViewer.select(4); unmaskViewer.frame()")  # a letter of a later version: as held
        self.assertIn("Held: rule", js("return document.querySelector('#positions .A .sentence').textContent"))

    def test_a_canvas_that_is_given_noise_again(self):
        head = traces.head([3] + [1] * 2, 1, 2, "canvas", ["canvas"], 10, {})
        step = {"position": [1, 2], "token": [4, 5], "confidence": [0.5, 0.6], "by": [0, 0]}
        show([head, step | {"step": 0, "outcome": "cc"}, step | {"step": 1, "outcome": "ch"}, step | {"step": 2, "outcome": "hc"},
              {"slot": 0, "end": "complete", "committed": 2}])
        self.assertEqual(js("return document.querySelectorAll('.counters dd')[1].textContent"), "2")
        for n, states in ((1, [3, 3]), (2, [3, 2]), (3, [2, 3])):
            self.assertEqual(js("return [...unmaskViewer.side(0).decode.at(arguments[0]).state].slice(1)", n), states)

    def test_text_that_moves(self):
        show(traces.growing())

        def at(n, column):
            return js("return [...unmaskViewer.side(0).decode.at(arguments[0])[arguments[1]]]", n, column)

        self.assertEqual(at(0, "state"), [0, 0, 1, 1, 1, 1, 5, 5, 5, 5])
        self.assertEqual(at(2, "state"), [0, 0, 3, 2, 2, 1, 1, 3, 5, 5])
        self.assertEqual(at(2, "shift"), [0] * 7 + [2, 0, 0])
        self.assertEqual(at(3, "token"), [3, 3, 4, 5, 5, 5, 6, -1, -1, -1])
        self.assertEqual(at(3, "shift"), [0, 0, 0, -1, -1, -1, -1, 0, 0, 0])

    def test_a_sequence_that_starts_later(self):
        first, second = traces.decode(0.9), traces.decode(0.8)
        show(first[:2] + [{"slot": 0, "end": "cancelled"}, {"start": second[0]["sequences"][0] | {"sequence": 9}}] + second[1:])
        self.assertEqual(js("return unmaskViewer.side(0).decode.forwards"), 1)
        self.assertEqual(js("return [...document.querySelectorAll('#cards option')].map((o) => o.textContent)"),
                         ["sequence 0 (slot 0)", "sequence 9 (slot 0)"])
        js("const s = document.querySelector('#cards select'); s.value = '1'; s.dispatchEvent(new Event('change'))")
        self.assertEqual(js("return unmaskViewer.side(0).decode.forwards"), len(second) - 2)

    def test_layers_branches_caches_and_slots(self):
        tokens = [3] + [1] * 3
        head = traces.head(tokens, 1, 3, "p", ["r"], 10, {})
        head["sequences"].append(head["sequences"][0] | {"slot": 1, "sequence": 7})
        step = {"step": 0, "forward": 1, "position": [1], "token": [4], "outcome": "w", "layers": [4, 3, 2], "cache": "refresh",
                "branches": [{"position": 1, "token": 4, "score": 0.5}, {"position": 2, "token": 5, "score": None}], "winner": 0}
        show([head, step | {"slot": 1}, step | {"slot": 0, "step": 3, "forward": 9, "layers": [1, 1, 1]}, {"slot": 1, "end": "eos"}])
        go(1)
        sentence = "return document.querySelector('#cards .sentence').textContent"
        self.assertIn("Forward 1 (number 9 of the session): 1 rows, 3 positions computed in all layers. 1 committed", js(sentence))
        js("const s = document.querySelector('#cards select'); s.value = '1'; s.dispatchEvent(new Event('change'))")
        go(1)
        self.assertIn("9 positions computed in all layers.", js(sentence))
        self.assertIn("cache: refresh; 2 branches, branch 1 won.", js(sentence))
        self.assertIn("end: eos", js("return document.querySelector('.facts').textContent"))


class Comparing(Page):
    def test_the_first_difference(self):
        a, b = traces.decode(0.9), traces.decode(0.85)
        show(a, b)
        step, position = None, None
        for n in range(1, 50):  # the first forward after which the committed tokens differ
            x, y = ([(w[1] if w[0] in ("committed", "changed") else -1) for w in Oracle(t).at(n)] for t in (a, b))
            if x != y:
                step, position = n, next(p for p in range(len(x)) if x[p] != y[p])
                break
        self.assertEqual(js("return [unmaskViewer.state.difference.step, unmaskViewer.state.difference.position]"), [step, position])
        self.assertRegex(text("difference-text"), rf"^First difference: forward {step}, position {position}\. A .*(commits|proposes) “.*; B ")
        driver.find_element("id", "difference-go").click()
        js("unmaskViewer.frame()")
        self.assertEqual(js("return [unmaskViewer.state.now, unmaskViewer.state.selected]"), [step, position])
        for side, lines in ((0, a), (1, b)):  # diamonds on the positions that differ now, and only there
            x, y = (Oracle(t).at(step) for t in (a, b))
            places = boxes(side)
            got = pixels(("canvas", side), [(px + 5, py - 1) for px, py, _ in places])
            for p, at in enumerate(got):
                differs = (x[p][1] if x[p][0] in ("committed", "changed") else -1) != (y[p][1] if y[p][0] in ("committed", "changed") else -1)
                self.assertEqual(at == colour("differs"), differs and p >= FIRST, p)
        m = js("const m = unmaskViewer.pane(0).map; return [m.x(arguments[0]) + m.cellWidth / 2, m.y(arguments[1] - 1)]", position, step)
        self.assertEqual(pixels("map", [(m[0], m[1] + 2), (m[0] - 3, m[1])]), [colour("differs")] * 2)
        self.assertFalse(js("return document.getElementById('mark').hidden"))
        columns = js("return ['A', 'B'].map(n => document.querySelector(`#canvases .${n}`).getBoundingClientRect().left)")
        self.assertGreater(columns[1], columns[0] + 400)  # side by side
        heights = js("return [0, 1].map(i => [unmaskViewer.pane(i).map.cellHeight, unmaskViewer.pane(i).chart.step])")
        self.assertEqual(heights[0], heights[1])  # aligned by forward

    def test_the_same_the_shorter_and_others(self):
        a = traces.decode(0.9)
        show(a, a)
        self.assertEqual(text("difference-text"), "Both decide the same in every forward.")
        self.assertTrue(js("return document.getElementById('difference-go').hidden"))
        show(a, a[:5])
        self.assertEqual(text("difference-text"), "B ends after forward 4; A goes on. Up to there they decide the same.")
        show(a, traces.decode(0.9, prompt=list(traces.PROMPT.replace("10", "19"))))
        self.assertEqual(text("difference-text"), f"The prompts differ at position {traces.PROMPT.index('10') + 1}.")
        show(a, traces.decode(0.9, length=20))
        self.assertRegex(text("difference-text"), "The canvases differ: 92 positions in A, 72 in B.")
        go(3)
        js("unmaskViewer.select(85); unmaskViewer.frame()")
        self.assertIn("There is no position 85", js("return document.querySelector('#positions .B .sentence').textContent"))
        driver.find_element("id", "close").click()
        self.assertFalse(js("return document.body.classList.contains('comparing')"))
        self.assertEqual(js("return unmaskViewer.side(1)"), None)

    def test_another_proposal_is_a_difference_of_the_token(self):
        a = traces.decode(0.9)
        b = json.loads(json.dumps(a))
        i = next(i for i, c in enumerate(b[4]["outcome"]) if c in "cf")
        b[4]["token"][i] += 1
        show(a, b)
        self.assertRegex(text("difference-text"), rf"^First difference: forward 4, position {a[4]['position'][i]}\. A commits “.*” at .* %; B commits “.*” at")


class Using(Page):
    """Keyboard, pointer, files, themes, widths."""
    lines = traces.decode(0.9, edits=True)

    def now(self):
        return js("return unmaskViewer.state.now")

    def keys(self, *keys):
        ActionChains(driver).send_keys(*keys).perform()

    def test_keys_move_the_forward(self):
        show(self.lines)
        last = self.now()
        self.assertEqual(last, len(self.lines) - 2)
        self.keys(Keys.HOME)
        self.assertEqual(self.now(), 0)
        self.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        self.assertEqual(self.now(), 1)
        js("unmaskViewer.frame()")
        self.assertEqual(js("return document.getElementById('forward').getAttribute('aria-valuetext')"), f"after forward 1 of {last}")
        self.assertEqual(text("count"), f"1 / {last}")
        self.keys(Keys.END)
        self.assertEqual(self.now(), last)
        self.keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.now(), last)
        js("document.getElementById('speed').value = '16'")
        self.keys(Keys.SPACE)
        self.assertEqual(js("return document.getElementById('play').getAttribute('aria-label')"), "pause")
        wait(f"unmaskViewer.state.now === {last} && unmaskViewer.state.playing === 0")

    def test_keys_in_the_canvas_and_in_the_map(self):
        show(self.lines)
        js("unmaskViewer.pane(0).canvas.surface.canvas.focus()")
        js("unmaskViewer.select(52)")
        self.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        self.assertEqual(js("return unmaskViewer.state.selected"), 53)
        self.assertIn("Position 53", text("say"))
        self.keys(Keys.ARROW_UP)
        up = js("return unmaskViewer.state.selected")
        self.assertLess(up, 52)
        self.keys(Keys.ARROW_DOWN)
        self.assertEqual(js("return unmaskViewer.state.selected"), 53)
        js("unmaskViewer.pane(0).map.surface.canvas.focus()")
        before = self.now()
        self.keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_DOWN)
        self.assertEqual(self.now(), before - 1)
        self.keys(Keys.ARROW_RIGHT)
        self.assertEqual(js("return unmaskViewer.state.selected"), 54)
        ActionChains(driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT).key_up(Keys.SHIFT).perform()
        self.assertEqual((self.now(), js("return unmaskViewer.state.selected")), (before - 2, 54))

    def test_tab_visits_every_control_in_order_and_shows_where_it_is(self):
        show(self.lines, traces.decode(0.8))
        js("unmaskViewer.select(60); unmaskViewer.frame(); document.activeElement.blur()")
        seen, visited = [], set()
        for _ in range(80):
            self.keys(Keys.TAB)
            name, place, ring = js("""const e = document.activeElement; const ring = e.matches('input[type=file]') ? e.parentElement : e;
                return [e.id || e.getAttribute('aria-label') || e.textContent.trim(),
                        [e.getBoundingClientRect().left, e.tagName === 'BODY', e.closest('.row') ? e.textContent : ''].join(),
                        parseFloat(getComputedStyle(ring).outlineWidth) * (getComputedStyle(ring).outlineStyle !== 'none')]""")
            if (name, place) in visited or "true" in place:
                break
            visited.add((name, place))
            seen.append(name)
            self.assertGreaterEqual(ring, 1, name)
        for wanted in ("open-a", "open-b", "paste", "close", "theme", "difference-go", "first", "back", "play", "next", "last",
                       "forward", "speed", "fold", "zoom-in", "shade-all", "Keys and words"):
            self.assertIn(wanted, seen)
        self.assertEqual(sum(s.startswith(("canvas ", "order map ", "forward passes ")) for s in seen), 6)
        self.assertLess(seen.index("theme"), seen.index("first"))
        self.assertLess(seen.index("speed"), seen.index("shade-all"))

    def test_every_control_has_a_name(self):
        show(self.lines)
        js("unmaskViewer.select(60); unmaskViewer.frame()")
        tree = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        roles = {"button", "slider", "combobox", "checkbox", "application", "image", "table", "dialog"}
        unnamed = [n for n in tree if not n.get("ignored") and n.get("role", {}).get("value") in roles and not n.get("name", {}).get("value")]
        self.assertEqual(unnamed, [])
        self.assertGreater(sum(n.get("role", {}).get("value") == "row" for n in tree), 3)

    def test_the_pointer(self):
        show(self.lines)
        x, y, w = boxes()[60]
        canvas = js("return unmaskViewer.pane(0).canvas.surface.canvas")
        js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        rect = js("const r = arguments[0].getBoundingClientRect(); return [r.width, r.height]", canvas)
        ActionChains(driver).move_to_element_with_offset(canvas, int(x + w / 2 - rect[0] / 2), int(y + 10 - rect[1] / 2)).click().perform()
        self.assertEqual(js("return unmaskViewer.state.selected"), 60)
        chart = js("return unmaskViewer.pane(0).chart.surface.canvas")
        js("arguments[0].scrollIntoView({block: 'center'})", chart)
        rect = js("const r = arguments[0].getBoundingClientRect(); return [r.width, r.height]", chart)
        step = js("return unmaskViewer.pane(0).chart.step")
        ActionChains(driver).move_to_element_with_offset(chart, int(40 + 2.5 * step - rect[0] / 2), 0).click().perform()
        self.assertEqual(self.now(), 3)
        cw, ch = js("const m = unmaskViewer.pane(0).map; return [m.cellWidth, m.cellHeight]")
        grid = js("return unmaskViewer.pane(0).map.surface.canvas")
        js("arguments[0].scrollIntoView({block: 'center'})", grid)
        rect = js("const r = arguments[0].getBoundingClientRect(); return [r.width, r.height]", grid)
        ActionChains(driver).move_to_element_with_offset(grid, int(40 + 2.5 * cw - rect[0] / 2), int(4 + 5.5 * ch - rect[1] / 2)).click().perform()
        self.assertEqual((self.now(), js("return unmaskViewer.state.selected")), (6, FIRST + 2))

    def test_files_are_opened_and_compared(self):
        show()
        self.assertTrue(js("return !document.getElementById('start').hidden && document.getElementById('main').hidden"))
        driver.find_element("id", "open-first").send_keys(save("one.jsonl", self.lines))
        wait("unmaskViewer.side(0)")
        driver.find_element("id", "open-b").send_keys(save("two.jsonl", traces.decode(0.8)))
        wait("unmaskViewer.side(1)")
        self.assertTrue(text("difference-text").startswith("First difference"))
        show()
        driver.find_element("id", "open-first").send_keys(save("one.jsonl", self.lines) + "\n" + save("two.jsonl", traces.decode(0.8)))
        wait("unmaskViewer.side(1)")
        self.assertTrue(text("difference-text").startswith("First difference"))

    def test_the_example(self):
        show()
        driver.find_element("id", "show-example").click()
        self.assertEqual(errors(), [])
        self.assertEqual(js("return document.querySelector('.policy').textContent"), "threshold(0.9)")
        self.assertEqual(js("return document.querySelectorAll('main .note').length"), 0)

    def test_the_decode_of_llada(self):
        show()
        driver.find_element("id", "show-llada").click()
        self.assertEqual(errors(), [])
        self.assertIn("tokens per forward1.00", js("return document.querySelector('main').textContent"))
        self.assertEqual(js("return unmaskViewer.side(0).decode.forwards"), 64)

    def test_dropping_and_pasting(self):
        show()
        drop = """const data = new DataTransfer(); data.items.add(new File([arguments[0]], 'x.jsonl'));
            const target = document.querySelector(arguments[1]);
            target.dispatchEvent(new DragEvent('dragover', {bubbles: true, cancelable: true, dataTransfer: data}));
            const shown = getComputedStyle(document.querySelector('.dropzones')).display;
            target.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: data}));
            return shown"""
        self.assertEqual(js(drop, traces.text_of(self.lines), "body"), "flex")
        wait("unmaskViewer.side(0)")
        js(drop, traces.text_of(traces.decode(0.8)), "#drop-b")
        wait("unmaskViewer.side(1)")
        self.assertEqual(js("return getComputedStyle(document.querySelector('.dropzones')).display"), "none")
        show()
        js("""const data = new DataTransfer(); data.setData('text/plain', arguments[0]);
            document.body.dispatchEvent(new ClipboardEvent('paste', {bubbles: true, clipboardData: data}))""", traces.text_of(self.lines))
        self.assertTrue(js("return unmaskViewer.side(0) !== null"))
        driver.find_element("id", "paste").click()
        js("document.getElementById('paste-text').value = arguments[0]", traces.text_of(traces.decode(0.8)))
        driver.find_element("id", "paste-b").click()
        self.assertTrue(js("return unmaskViewer.side(1) !== null"))

    def test_a_page_around_it_may_give_traces(self):
        show()
        outer = pathlib.Path(folder.name, "outer.html")
        outer.write_text('<iframe src="page.html" width="900" height="700"></iframe>', encoding="utf-8")
        driver.get(outer.as_uri())
        wait("document.readyState === 'complete'")
        post = "document.querySelector('iframe').contentWindow.postMessage(arguments[0], '*')"
        for message in (None, 5, "x", {}, {"unmaskTraces": []}, {"unmaskTraces": 7}, {"unmaskTheme": "<b>"}):
            js(post, message)
        js(post, {"unmaskTraces": [{"name": "a", "text": traces.text_of(self.lines)}, None], "unmaskTheme": "dark"})
        driver.switch_to.frame(0)
        try:
            wait("document.documentElement.dataset.theme === 'dark'")
            self.assertEqual(js("return unmaskViewer.side(0).decode.forwards"), len(self.lines) - 2)
            self.assertEqual(errors(), ["trace: Line 1: the file is empty; a trace begins with its head."])
        finally:
            driver.switch_to.default_content()

    def test_themes(self):
        show(self.lines)
        x, y, _ = boxes()[FIRST]
        def seen():
            js("unmaskViewer.frame()")
            return js("return getComputedStyle(document.body).backgroundColor"), pixels("canvas", [(x + 3, y + 3)])[0], \
                pixels("map", [(300, 60)])[0]
        light = seen()
        view(dark=True)
        wait("matchMedia('(prefers-color-scheme: dark)').matches")
        time.sleep(0.1)
        dark = seen()
        self.assertTrue(all(a != b for a, b in zip(light, dark)), (light, dark))
        js("const t = document.getElementById('theme'); t.value = 'light'; t.dispatchEvent(new Event('change'))")
        self.assertEqual(seen(), light)
        view(dark=False)
        js("const t = document.getElementById('theme'); t.value = 'dark'; t.dispatchEvent(new Event('change'))")
        self.assertEqual(seen(), dark)

    def test_a_telephone_has_no_horizontal_scrolling(self):
        wide = json.loads(json.dumps(self.lines))
        wide[0]["policy"] = "a" * 300
        wide[0]["text"] = {k: v * 80 for k, v in wide[0]["text"].items()}
        for texts in ([], [self.lines], [self.lines, traces.decode(0.8)], [wide, wide], ["x" * 500]):
            for width in (390, 320):
                show(*texts, width=width)
                if texts and not isinstance(texts[0], str):
                    js("unmaskViewer.go(3); unmaskViewer.select(54); unmaskViewer.frame(); document.querySelector('details').open = true")
                self.assertLessEqual(js("return document.documentElement.scrollWidth"), width)
                over = js("""return [...document.querySelectorAll('button, label, select, h2, h3, p, .counters div')].filter((e) => {
                    const r = e.getBoundingClientRect(); return r.width > 0 && getComputedStyle(e).clipPath === 'none' && r.right > innerWidth + 0.5;
                  }).map((e) => e.id || e.textContent)""")
                self.assertEqual(over, [])
                heights = js("return [...document.querySelectorAll('.buttons button')].map(b => b.getBoundingClientRect().height)")
                self.assertGreaterEqual(min(heights), 36 if texts and not isinstance(texts[0], str) else 0)

    def test_large_map_scrolls_to_what_is_chosen(self):
        show(self.lines, width=390)
        for _ in range(2):
            driver.find_element("id", "zoom-in").click()
        js("unmaskViewer.select(91); unmaskViewer.go(17); unmaskViewer.frame()")
        x = js("const m = unmaskViewer.pane(0).map; return [m.x(91), m.cellWidth, m.surface.box.scrollLeft, m.surface.box.clientWidth]")
        self.assertGreater(x[2], 0)
        self.assertTrue(x[2] <= x[0] and x[0] + x[1] <= x[2] + x[3] + 1, x)
        driver.find_element("id", "zoom-out").click()
        driver.find_element("id", "zoom-out").click()
        self.assertTrue(js("return document.getElementById('zoom-out').disabled"))


class BadInput(Page):
    """A sentence that names line and rule, and nothing runs."""
    good = traces.text_of(traces.decode(0.9)).splitlines(keepends=True)

    def opened(self, content):
        show()
        js("unmaskViewer.open(arguments[0], 'x.jsonl', 0)", content)
        return errors()

    def step(self, **changes):
        return json.dumps(json.loads(self.good[1]) | changes) + "\n"

    def head(self, **changes):
        return json.dumps(json.loads(self.good[0]) | changes) + "\n"

    def test_foreign_newer_and_empty(self):
        for content, sentence in {
            "": r"Line 1: the file is empty",
            "GIF89a\x00\x01\n\n": r"Line 1: this is no trace: a trace is JSON lines",
            "<!doctype html><script>window.ran=1</script>": r"Line 1: this is no trace",
            "[1,2]\n": r"Line 1: The line is a list of 2; it must be an object",
            "null\n": r"Line 1: The line is null; it must be an object",
            '{"format":"other/1"}\n': r'"format" is "other/1"; it must be "unmask-trace/1"',
            '{"a":1}\n': r'"format" is missing; it must be "unmask-trace/1"',
            '{"format":"unmask-trace/2"}\n': r"the format unmask-trace/2, and this viewer reads unmask-trace/1",
            '{"format":"unmask-trace/1"}\n': r'"sequences" is missing; it must be a list',
            '{"__proto__":{"format":"unmask-trace/1"}}\n': r'"format" is missing',
        }.items():
            said = self.opened(content)
            self.assertEqual(len(said), 1, content)
            self.assertRegex(said[0], r"^x\.jsonl: .*" + sentence)
            self.assertTrue(js("return document.getElementById('main').hidden"))

    def test_bad_heads(self):
        sequence = json.loads(self.good[0])["sequences"][0]
        shape = sequence["shape"]
        for changes, sentence in (
            ({"sequences": []}, r'"sequences" is a list of 0; it must be a list of one sequence or more'),
            ({"sequences": [5]}, r'"sequences"\[0\] is 5; it must be an object'),
            ({"sequences": [sequence | {"shape": shape | {"length": 10**9}}]}, r'\.tokens is a list of 92; it must be a list of shape.length = 1000000000 tokens'),
            ({"sequences": [sequence | {"shape": shape | {"prompt_length": -1}}]}, r'prompt_length is -1; it must be an integer from 0 to 92'),
            ({"sequences": [sequence | {"tokens": ["a"] * 92}]}, r'tokens\[0\] is "a"; it must be an integer, at least -1'),
            ({"sequences": [sequence | {"fixed": [92]}]}, r'fixed\[0\] is 92; it must be an integer from 0 to 91'),
            ({"sequences": [sequence | {"committed": [0]}]}, rf'committed\[0\] is 0; it must be an integer from {shape["prompt_length"]} to 91'),
            ({"model": "x"}, r'"model" is "x"; it must be an object'),
            ({"model": {"vocab": 0}}, r'"vocab" is 0; it must be an integer, at least 1'),
            ({"parts": [{}]}, r'"parts"\[0\] is an object; it must be a string'),
            ({"text": {"constructor": "x"}}, r'"text" has the key "constructor"; keys are token ids'),
            ({"text": {"5": {"toString": 1}}}, r'"text"."5" is an object; it must be a string'),
        ):
            said = self.opened(self.head(**changes) + self.good[1])
            self.assertEqual(len(said), 1, changes)
            self.assertRegex(said[0], r"^x\.jsonl: Line 1: .*" + sentence)

    def test_bad_steps(self):
        n = len(json.loads(self.good[1])["position"])
        positions = json.loads(self.good[1])["position"]
        for line, sentence in (
            (self.step(position=[-1] + positions[1:]), r'"position"\[0\] is -1; it must be an integer from 0 to 91'),
            (self.step(position=[52, 52] + positions[2:]), r'"position"\[1\] is 52; it must be an integer from 53 to 91, as positions ascend'),
            (self.step(position=positions[:-1] + [92]), r'"position"\[19\] is 92'),
            (self.step(position=[1.5] + positions[1:]), r'"position"\[0\] is 1.5'),
            (self.step(position="abc"), r'"position" is "abc"; it must be a list'),
            (self.step(token=[5]), r'"token" is a list of 1; it must be a list of 20'),
            (self.step(token=[-7] * n), r'"token"\[0\] is -7; it must be an integer, at least -1'),
            ('{"start":{"slot":0}}\n', r'"start".shape is missing; it must be an object'),
            (json.dumps({"start": json.loads(self.good[0])["sequences"][0]}) + "\n", r'"start".slot is 0, and a sequence is running there'),
            (self.step(confidence=["high"] * n), r'"confidence"\[0\] is "high"; it must be a number or null'),
            (self.step(outcome="c"), r'"outcome" has 1 letters; it must have 20'),
            (self.step(outcome=None), r'"outcome" is missing; it must be a string'),
            (self.step(by=[9] * n), r'"by"\[0\] is 9; it must be an integer from -1 to 1'),
            (self.step(slot=3), r'"slot" is 3; the slots of this trace are 0'),
            (self.step(slot="__proto__"), r'"slot" is "__proto__"'),
            (self.step(step="one"), r'"step" is "one"'),
            (self.step(score=[60, 50]), r'"score"\[1\] is 50; it must be an integer from 60 to 92'),
            (self.step(layers=[-5]), r'"layers"\[0\] is -5'),
            (self.step(branches=[{"position": 999}]), r'"branches"\[0\].position is 999'),
            (self.step(milliseconds="<b>"), r'"milliseconds" is "<b>"'),
            ('{"slot":0,"other":1}\n', r'none of "step", "end", "start" and "text"'),
            (self.step().replace('"confidence": [', '"confidence": [NaN, ', 1), r"this is not JSON"),
            ("[" * 200000 + "\n", r"this is not JSON"),
            ("[" * 100000 + "]" * 100000 + "\n", r"The line is a list of 1; it must be an object"),
            ('{"slot":0,"end":"eos","tokens":[1]}\n', r'"tokens" is a list of 1; it must be a list of 92'),
            ('{"slot":0,"end":"eos"}\n' + self.step(), r"the sequence in slot 0 has ended before this line"),
        ):
            said = self.opened(self.good[0] + line + self.good[2])
            self.assertEqual(len(said), 1, line[:200])
            self.assertRegex(said[0], r"^x\.jsonl: Line [23]: .*" + sentence)
            self.assertFalse(js("return document.getElementById('main').hidden"))  # the head is shown

    def test_what_stands_before_a_bad_line_is_shown(self):
        said = self.opened("".join(self.good[:4]) + "nonsense\n" + self.good[4])
        self.assertRegex(said[0], r"Line 5: this is not JSON.* The 4 lines before it are shown\.$")
        self.assertEqual(js("return unmaskViewer.side(0).decode.forwards"), 3)
        said = self.opened("".join(self.good[:3]) + self.good[2] + self.good[3])  # a step twice
        self.assertRegex(said[0], r'Line 4: "step" is 1; it must be an integer, at least 2')

    def test_cut_at_every_place(self):
        whole = traces.text_of(traces.decode(0.9, length=6, block=6, pieces=list("10+8=1")))
        show()
        result = js("""const [text] = arguments; const out = [];
            for (let n = 0; n < text.length; n += 7) {
              unmaskViewer.open(text.slice(0, n), 'x', 0);
              const box = document.getElementById('error-a');
              out.push([n, box.hidden ? '' : box.textContent, document.getElementById('cards').textContent]);
            } return out""", whole)
        head = whole.index("\n")
        for n, error, card in result:
            if n < head:
                self.assertRegex(error, "Line 1: (this is no trace|the file is empty)")
            else:
                self.assertEqual(error, "")
                self.assertTrue("cut off within line" in card or "No end is recorded" in card or n > len(whole) - 40, (n, card))

    def test_a_line_of_ten_million_characters(self):
        for content in ("a" * 10_000_000, self.good[0] + '{"x":"' + "b" * 10_000_000 + '"}\n' + self.good[1]):
            show()
            driver.find_element("id", "open-first").send_keys(save("x.jsonl", content))
            said = wait("[...document.querySelectorAll('.error:not([hidden])')].map(e => e.textContent).join()")
            self.assertRegex(said, r"^x\.jsonl: Line [12]: the line has more than 8 million characters")
        self.assertFalse(js("return document.getElementById('main').hidden"))

    def test_nothing_of_a_trace_runs(self):
        attack = "<img src=x onerror=window.ran=1></script><script>window.ran=1</script><svg onload=window.ran=1>${window.ran=1}"
        lines = traces.decode(0.9)
        lines[0] |= {"policy": attack, "library": attack, "seed": attack, "parts": [attack, attack]}
        lines[0]["model"]["name"] = attack
        lines[0]["text"] = {k: attack for k in lines[0]["text"]}
        lines[1]["cache"] = attack
        lines[-1]["end"] = attack
        raw = traces.text_of(lines)
        polluted = raw.replace('{"format"', '{"__proto__":{"ran":1,"slot":0},"constructor":{"prototype":{"ran":1}},"format"', 1) \
                      .replace('{"slot":0,"step":0', '{"__proto__":{"step":7,"ran":1},"slot":0,"step":0', 1)
        for content in (raw, polluted, attack, self.good[0] + attack + "\n"):
            show(content, content)
            js("""unmaskViewer.go(1); unmaskViewer.select(arguments[0]); unmaskViewer.frame();
                  document.querySelectorAll('#positions button').forEach((b) => b.click())""", FIRST)
            time.sleep(0.1)
            self.assertIsNone(js("return window.ran"))
            self.assertIsNone(js("return ({}).ran"))
            self.assertEqual(js("return document.querySelectorAll('main img, main script, main svg[onload], .error *').length"), 0)
            if content is raw:
                self.assertEqual(js("return document.querySelector('.policy').textContent"), attack)
                self.assertEqual(js("return unmaskViewer.side(0).decode.forwards"), len(lines) - 2)
        self.assertEqual(js("return performance.getEntriesByType('resource').length"), 0)

    def test_the_policy_of_the_page_refuses_code(self):
        show(self.good[0])
        said = js("""const out = [];
            for (const f of [() => { document.body.innerHTML = '<b>'; }, () => setTimeout('window.ran = 1'), () => document.write('<b>'),
                             () => document.body.setAttribute('onclick', 'window.ran = 1')]) {
              try { f(); out.push('ran'); } catch (e) { out.push(e.name); } }
            return out""")
        self.assertEqual(said, ["TypeError"] * 4)
        js("document.body.click()")
        self.assertIsNone(js("return window.ran"))
        driver.get_log("browser")  # the refusals are logged

    def test_texts_hide_nothing(self):
        lines = traces.decode(0.9)
        token = lines[0]["sequences"][0]["tokens"][0]
        lines[0]["text"][str(token)] = "a\u202eb\x00c\u200bd\n"
        show(lines)
        self.assertEqual(js("return unmaskViewer.text(0, arguments[0])", token), "a\\u202eb\\u0000c\\u200bd↵")

    def test_a_later_good_trace_takes_the_error_away(self):
        self.assertEqual(len(self.opened("x")), 1)
        js("unmaskViewer.open(arguments[0], 'y', 0)", "".join(self.good))
        self.assertEqual(errors(), [])


class Large(Page):
    def test_4096_positions_and_1000_steps_stay_smooth(self):
        for name, block in (("one block", None), ("blocks of 32", 32)):
            show()
            path = save("large.jsonl", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in traces.large(block=block)))
            js("document.getElementById('open-first').addEventListener('input', () => { window.began = performance.now(); })")
            driver.find_element("id", "open-first").send_keys(path)
            load = wait("unmaskViewer.side(0) && performance.now() - window.began", 120)
            forwards, frames, chosen = js("""
                const n = unmaskViewer.side(0).decode.forwards; const times = [];
                unmaskViewer.frame();
                for (let i = 0; i < 200; ++i) {
                  unmaskViewer.state.now = (i * 37) % n;
                  const began = performance.now();
                  unmaskViewer.frame();
                  times.push(performance.now() - began);
                }
                const began = performance.now();
                unmaskViewer.select(2000);
                unmaskViewer.frame();
                return [n, times.sort((a, b) => a - b), performance.now() - began]""")
            size = os.path.getsize(path) / 1e6
            print(f"\n{name}: {size:.1f} MB, 4096 positions, {forwards} forwards: loaded in {load / 1000:.2f} s; a frame {frames[100]:.1f} ms "
                  f"(median), {frames[190]:.1f} ms (95 %), {frames[-1]:.1f} ms (most); a position chosen in {chosen:.1f} ms", file=sys.stderr)
            self.assertLess(frames[100], 50)  # a few milliseconds, with room for a busy machine
            self.assertLess(load, 60000)
            self.assertLess(chosen, 1000)
            self.assertLess(js("return document.querySelectorAll('*').length"), 15000)
            size = js("const c = unmaskViewer.pane(0).canvas.surface.canvas; return c.width * c.height")
            self.assertLess(size, 2e6)  # what is in view, not the whole


class Pictures(Page):
    def test_for_people(self):
        if PICTURES is None:
            self.skipTest("without --pictures")
        PICTURES.mkdir(parents=True, exist_ok=True)
        one, two = traces.decode(0.9, edits=True), traces.decode(0.8)
        words = traces.decode(0.9, block=18, pieces=traces.WORDS, prompt=traces.QUESTION, length=36)
        for name, texts in {"one": [one], "two": [one, two], "words": [words], "start": [], "error": ["x"]}.items():
            for width in (1280, 390):
                for dark in (False, True):
                    show(*texts, width=width, dark=dark)
                    if texts and texts != ["x"]:
                        js("unmaskViewer.go(4); unmaskViewer.select(arguments[0])", 30 if name == "words" else 60)
                    time.sleep(0.3)  # the canvases get their size behind the layout
                    height = js("return document.documentElement.scrollHeight")
                    view(width, height, dark)
                    time.sleep(0.3)
                    driver.save_screenshot(str(PICTURES / f"{name}-{width}-{'dark' if dark else 'light'}.png"))


if __name__ == "__main__":
    if "--pictures" in sys.argv:
        at = sys.argv.index("--pictures")
        PICTURES = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at:at + 2]
    unittest.main()
