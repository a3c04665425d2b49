# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What needs no browser: viewer.html is made from its sources, traces are embedded without a way out, order maps are
SVG that shows what the trace has, the notebook's frame, and the colours.

usage: files.py [-v]
"""
import html
import importlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
VIEWER = HERE.parent.parent / "examples" / "viewer"
sys.path[:0] = [str(HERE), str(VIEWER)]
sys.dont_write_bytecode = True

import embed  # noqa: E402
import order_map  # noqa: E402
import traces  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def run(program, *arguments, text=""):
    return subprocess.run([sys.executable, str(VIEWER / program), *arguments], input=text.encode("utf-8", "surrogatepass"),
                          capture_output=True, check=False)


class Embedding(unittest.TestCase):
    def test_the_viewer_is_made_from_its_sources(self):
        self.assertEqual(embed.VIEWER.read_text(encoding="utf-8"), embed.build())
        self.assertEqual(run("embed.py", "--check").returncode, 0)

    def test_the_page_loads_nothing(self):
        page = embed.build()
        self.assertIn("default-src 'none'", page)
        self.assertNotRegex(page, r"(src|href)=[\"']?(http|//)|@import|url\(|fetch\(|XMLHttpRequest|\binnerHTML\b|\beval\(")

    def test_a_trace_has_no_way_out_of_its_element(self):
        bad = '{"a":"</script><script>ran=1</script><!--<script>","b":"\\u003c & \\\\ é"}\n'
        done = run("embed.py", "-", text=bad)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = done.stdout.decode()
        inside = re.search(r'<script type="text/plain" class="trace" title="standard input">\n(.*?)</script>', page, re.S)[1]
        self.assertNotIn("<", inside)
        self.assertEqual(json.loads(inside), json.loads(bad))
        self.assertEqual(page.replace(re.search(r'<script type="text/plain" class="trace".*?</script>\n', page, re.S)[0], embed.PLACE),
                         embed.build())

    def test_two_traces_and_names(self):
        page = embed.embed(embed.build(), [('a"><script>x', "{}"), ("b", "{}")])
        self.assertEqual(page.count('class="trace"'), 2)
        self.assertIn('title="a&quot;&gt;&lt;script&gt;x"', page)

    def test_a_missing_file_and_no_arguments(self):
        self.assertEqual(run("embed.py", "none.jsonl").returncode, 1)
        self.assertEqual(run("embed.py").returncode, 2)
        self.assertEqual(run("embed.py", "a", "b", "c").returncode, 2)


class OrderMap(unittest.TestCase):
    def draw(self, lines, *arguments):
        done = run("order_map.py", *arguments, "-", text=lines if isinstance(lines, str) else traces.text_of(lines))
        self.assertEqual(done.returncode, 0, done.stderr)
        return xml.fromstring(done.stdout), done

    def test_every_commit_is_a_square_of_its_shade(self):
        lines = traces.decode(0.9, edits=True)
        picture, _ = self.draw(lines)
        wanted = {}
        for row, step in enumerate(lines[1:-1]):
            for p, c, letter in zip(step["position"], step["confidence"], step["outcome"]):
                if letter in "cf":
                    colour = order_map.SHADES[sum(c >= x for x in (0.5, 0.9, 0.99, 0.999))][1]
                elif letter in "er":
                    colour = order_map.CHANGED
                else:
                    continue
                wanted[(p - len(traces.PROMPT), row)] = colour
        self.assertGreater(len(wanted), 40)
        cell = min(16, order_map.WIDEST / 40)
        drawn = {}
        for r in picture.iter(SVG + "rect"):
            if r.get("fill") in {s[1] for s in order_map.SHADES} | {order_map.CHANGED} and r.get("width") == "15":
                drawn[(round((float(r.get("x")) - order_map.LEFT) / cell), round((float(r.get("y")) - 28) / cell))] = r.get("fill")
        self.assertEqual({k: v for k, v in drawn.items() if k[1] < len(lines) - 2}, wanted)
        self.assertEqual(sum(p.get("fill") == order_map.FORCED for p in picture.iter(SVG + "path")),
                         sum(s["outcome"].count("f") for s in lines[1:-1]))

    def test_sequences_that_start_later(self):
        first, second = traces.decode(0.9), traces.decode(0.8)
        lines = first[:2] + [{"slot": 0, "end": "cancelled"}, {"start": second[0]["sequences"][0]}] + second[1:]
        for n, steps in ((0, 1), (1, len(second) - 2)):
            picture, _ = self.draw(lines, "--sequence", str(n))
            self.assertTrue(picture.find(SVG + "title").text.endswith(f": {steps} forward passes"))
        self.assertIn(b"there are 2 sequences", run("order_map.py", "--sequence", "2", "-", text=traces.text_of(lines)).stderr)

    def test_the_title_is_the_policy_of_the_sequence(self):
        lines = traces.decode(0.9)
        lines[0]["sequences"][0].update(policy="left_to_right + threshold(0.7)", parts=["left_to_right", "threshold(0.7)"])
        picture, _ = self.draw(lines)
        self.assertTrue(any(t.text.startswith("left_to_right + threshold(0.7): ") for t in picture.iter(SVG + "text")))

    def test_titles_and_several_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for t in (0.9, 0.8):
                paths.append(str(pathlib.Path(folder, f"{t}.jsonl")))
                pathlib.Path(paths[-1]).write_text(traces.text_of(traces.decode(t)), encoding="utf-8")
            done = run("order_map.py", "--title", "A <b>", *paths)
        said = [t.text for t in xml.fromstring(done.stdout).iter(SVG + "text")]
        self.assertTrue(any(t.startswith("A <b>: ") for t in said))
        self.assertTrue(any(t.startswith("by_confidence + threshold(0.8): ") for t in said))

    def test_control_characters_are_no_error_of_xml(self):
        lines = traces.decode()
        lines[0]["text"] = {k: "\x00\x1b\u202e\ud800\ufffe" for k in lines[0]["text"]}
        lines[0]["policy"] = "\x07<&>\""
        done = run("order_map.py", "-", text="".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(done.returncode, 0, done.stderr)
        xml.fromstring(done.stdout)

    def test_what_is_cut_off_is_drawn_up_to_there(self):
        text = traces.text_of(traces.decode())
        _, done = self.draw(text[:len(text) * 2 // 3])
        self.assertIn(b"cut off", done.stderr)

    def test_every_cut_of_a_trace_is_drawn_or_refused_with_a_sentence(self):
        text = traces.text_of(traces.decode(length=6, block=6, pieces=list("10+8=1")))
        for n in range(0, len(text), 37):
            lines = text[:n].split("\n")
            try:
                order_map.Trace([line + "\n" for line in lines[:-1]] + lines[-1:], 0)
            except order_map.Wrong as rule:
                self.assertLess(n, text.index("\n"), rule)

    def test_bad_traces(self):
        good = traces.text_of(traces.decode()).splitlines(keepends=True)
        step = json.loads(good[1])
        cases = {
            "": "the file is empty",
            "hello\n": "line 1 is not JSON",
            "[]\n": "line 1: it is no object",
            '{"format":"unmask-trace/2"}\n': 'line 1: "format" is "unmask-trace/2"; it must be "unmask-trace/1"',
            good[0] + "[" * 100000 + "\n" + good[1]: "line 2 is not JSON",
            good[0] + json.dumps(step | {"position": [-1] + step["position"][1:]}) + "\n": "positions ascend",
            good[0] + json.dumps(step | {"token": 5}) + "\n": '"token" must have',
            good[0] + json.dumps(step | {"confidence": ["x"] * len(step["token"])}) + "\n": '"confidence" must have numbers',
            good[0] + json.dumps(step | {"slot": {}}) + "\n": '"slot" is {}',
            good[0] + '{"start":{"slot":1}}\n': "line 2: a sequence must have a shape",
        }
        for text, sentence in cases.items():
            done = run("order_map.py", "-", text=text)
            self.assertEqual(done.returncode, 1, text[:80])
            self.assertIn(sentence, done.stderr.decode())
            self.assertNotIn("Traceback", done.stderr.decode())
        self.assertEqual(run("order_map.py", "--sequence", "1", "-", text="".join(good)).returncode, 1)


class Notebook(unittest.TestCase):
    def test_a_trace_shows_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "unmask_notebook_test")
            package.mkdir()
            (package / "__init__.py").write_text("")
            shutil.copy(HERE.parent.parent / "examples/bindings/python/src/unmask/trace_view.py", package)
            shutil.copy(VIEWER / "viewer.html", package)
            shutil.copy(VIEWER / "embed.py", package / "_embed.py")
            sys.path.insert(0, folder)
            try:
                view = importlib.import_module("unmask_notebook_test.trace_view").TraceView
                text = traces.text_of(traces.decode())
                path = pathlib.Path(folder, "a.jsonl")
                path.write_text(text, encoding="utf-8")
                for trace in (text, text.encode(), path, str(path)):
                    shown = view(trace, other=text)._repr_html_()
                    frame = re.fullmatch(r'<iframe sandbox="allow-scripts" .*? srcdoc="([^"]*)"></iframe>', shown, re.S)
                    self.assertEqual(html.unescape(frame[1]).count('class="trace"'), 2)
                for bad, rule in ((None, "trace is None"), (5, "trace is a int")):
                    with self.assertRaisesRegex(ValueError, rule):
                        view(bad)
                with self.assertRaisesRegex(ValueError, "height is 0"):
                    view(text, height=0)
            finally:
                sys.path.remove(folder)


# Linear RGB as the three kinds of dichromats see it (Machado, Oliveira and Fernandes 2009, severity 1).
DICHROMATS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))]


def luminance(colour):
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour)))


def contrast(a, b):
    x, y = sorted((luminance(a), luminance(b)))
    return (y + 0.05) / (x + 0.05)


def lab(rgb):
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(m * min(1, max(0, c)) for m, c in zip(row, rgb)) / white for row, white in zip(to_xyz, (0.9505, 1, 1.089))]
    f = [t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


class Colours(unittest.TestCase):
    def setUp(self):
        style = (VIEWER / "src" / "colours.css").read_text(encoding="utf-8")
        found = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", style)
        self.themes = [{name: pair[i] for name, *pair in found} for i in (0, 1)]
        self.assertGreaterEqual(len(found), 20)

    def test_text_is_readable(self):
        for c in self.themes:
            pairs = [("ink", "panel"), ("ink", "page"), ("soft", "panel"), ("soft", "page"), ("accent", "panel"),
                     ("error", "panel"), ("page", "changed"), ("page", "accent")]
            pairs += [(f"on{i}", f"shade{i}") for i in range(5)]
            for text, ground in pairs:
                self.assertGreaterEqual(contrast(c[text], c[ground]), 4.5, (text, c[text], ground, c[ground]))

    def test_shades_order_by_lightness(self):
        for c in self.themes:
            values = [luminance(c[f"shade{i}"]) for i in range(5)]
            self.assertIn(values, (sorted(values), sorted(values, reverse=True)))

    def test_the_colour_blind_tell_states_apart(self):
        for c in self.themes:
            names = ["shade3", "changed", "forced", "now", "differs", "masked"]
            for kind, matrix in DICHROMATS.items():
                seen = [lab([sum(m * x for m, x in zip(row, linear(c[n]))) for row in matrix]) for n in names]
                for i, a in enumerate(seen):
                    for j, b in enumerate(seen[:i]):
                        apart = sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5
                        self.assertGreater(apart, 11, (kind, names[i], names[j], apart))

    def test_the_map_for_papers_has_the_same_colours(self):
        light = self.themes[0]
        self.assertEqual([s[1] for s in order_map.SHADES], [light[f"shade{i}"] for i in range(5)])
        self.assertEqual([order_map.CHANGED, order_map.MASKED, order_map.SCORED, order_map.FORCED],
                         [light[n] for n in ("changed", "masked", "held", "forced")])


if __name__ == "__main__":
    unittest.main()
