#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws order maps of traces as SVG: columns are positions, rows are forward passes, a square is a commit.

usage: order_map.py [--title TEXT]... [--sequence N] TRACE.jsonl... > map.svg     - is standard input

Each trace has its own map, one below the other, with its policy or its --title above. --sequence N takes the N-th
sequence of each trace, from 0.
"""
import argparse
import json
import pathlib
import re
import sys

FORMAT = "unmask-trace/1"
SHADES = [(0.5, "#dfeefa", "#1a1d21"), (0.9, "#b4d8f1", "#1a1d21"), (0.99, "#74b4e2", "#0a0c0e"), (0.999, "#1f77b6", "#fff"),
          (float("inf"), "#004f86", "#fff")]  # confidences below, colour, colour of text on it
SHADE_NAMES = ["below 50 %", "to 90 %", "to 99 %", "to 99.9 %", "above"]
CHANGED, MASKED, SCORED, INK, SOFT = "#b84a00", "#e1e5ea", "#f4eecf", "#1a1d21", "#5a626b"
FORCED = "#e69f00"
LEFT, WIDEST = 44, 960
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb\ufffe\uffff]")


class Wrong(Exception):
    pass


def want(condition, rule):
    if not condition:
        raise Wrong(rule)


def is_int(x, first, last):
    return isinstance(x, int) and not isinstance(x, bool) and first <= x <= last


class Trace:
    """The sequence `wanted` of a trace: `steps`, each a list of (position, token, confidence, outcome)."""

    def __init__(self, lines, wanted):
        self.wanted, self.text, self.steps, self.cut = wanted, {}, [], False
        self.head, self.tokens = None, None
        self.running, self.count = {}, 0  # slot -> index of its sequence
        lines = list(lines)
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                if number == len(lines) and self.head and not line.endswith("\n"):
                    self.cut = True  # within its last line
                    break
                raise Wrong(f"line {number} is not JSON") from None
            try:
                want(isinstance(value, dict), "it is no object")
                if self.head is None:
                    self.take_head(value)
                elif "step" in value:
                    self.take_step(value)
                elif "end" in value:
                    self.running.pop(self.slot_of(value), None)
                elif "start" in value:
                    self.add_sequence(value["start"])
                text = value.get("text", {})
                want(isinstance(text, dict) and all(isinstance(t, str) for t in text.values()), '"text" must be an object of strings')
                self.text.update(text)
            except Wrong as rule:
                raise Wrong(f"line {number}: {rule}") from None
        want(self.head is not None, "the file is empty; a trace begins with its head")
        want(self.tokens is not None, f"there are {self.count} sequences, and --sequence is {wanted}")

    @staticmethod
    def slot_of(value):
        slot = value.get("slot", 0)
        want(is_int(slot, 0, 2**31 - 1), f'"slot" is {json.dumps(slot)[:40]}; it must be an integer, at least 0')
        return slot

    def take_head(self, head):
        want(head.get("format") == FORMAT, f'"format" is {json.dumps(head.get("format"))[:60]}; it must be "{FORMAT}"')
        sequences = head.get("sequences")
        want(isinstance(sequences, list) and sequences, '"sequences" must be a list of one sequence or more')
        self.head = head
        model = head.get("model")
        self.eos = model.get("eos") if isinstance(model, dict) else None
        for s in sequences:
            self.add_sequence(s)

    def add_sequence(self, s):
        want(isinstance(s, dict) and isinstance(s.get("shape"), dict), "a sequence must have a shape")
        self.running[self.slot_of(s)] = self.count
        self.count += 1
        if self.count != self.wanted + 1:
            return
        self.policy = s.get("policy", self.head.get("policy"))
        self.tokens = s.get("tokens")
        want(isinstance(self.tokens, list) and self.tokens, '"tokens" must be a list')
        self.length = len(self.tokens)
        self.prompt = s["shape"].get("prompt_length")
        want(is_int(self.prompt, 0, self.length), f'"prompt_length" must be an integer from 0 to {self.length}')
        fixed = s.get("fixed") or []
        want(isinstance(fixed, list) and all(is_int(p, 0, self.length - 1) for p in fixed), '"fixed" must be a list of positions')
        committed = s.get("committed") or []
        want(isinstance(committed, list) and all(is_int(p, 0, self.length - 1) for p in committed), '"committed" must be a list of positions')
        filled = s.get("filled") or []
        want(isinstance(filled, list) and all(is_int(p, 0, self.length - 1) for p in filled), '"filled" must be a list of positions')
        self.fixed = set(range(self.prompt)) | set(fixed) | set(filled)
        self.given = self.fixed | set(committed)

    def take_step(self, step):
        if self.running.get(self.slot_of(step)) != self.wanted:
            return
        columns = [step.get(name) for name in ("position", "token", "confidence", "outcome")]
        positions = columns[0]
        want(isinstance(positions, list), '"position" must be a list')
        columns[2] = columns[2] if columns[2] is not None else [None] * len(positions)
        want(isinstance(columns[3], str), '"outcome" must be a string')
        for name, column in zip(("position", "token", "confidence", "outcome"), columns):
            want(isinstance(column, (list, str)) and len(column) == len(positions), f'"{name}" must have {len(positions)} values')
        before = -1
        for p, token, c, letter in zip(*columns):
            want(is_int(p, before + 1, self.length - 1), f'"position" has {json.dumps(p)[:40]}; positions ascend from 0 to {self.length - 1}')
            want(is_int(token, -1, 2**31 - 1), f'"token" has {json.dumps(token)[:40]}; it must be a token')
            want(c is None or isinstance(c, (int, float)) and not isinstance(c, bool), '"confidence" must have numbers or null')
            before = p
        self.steps.append(list(zip(*columns)))

    def shown(self, token):
        text = "·" if token == self.eos else self.text.get(str(token), f"#{token}")
        text = text.replace("\n", "↵").replace("\t", "⇥")
        text = "␣" if text.strip() == "" else text.strip()
        return HIDDEN.sub("�", text)


def escape(text):
    return HIDDEN.sub("�", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def shade_of(confidence):
    return next(i for i, (below, _, _) in enumerate(SHADES) if (confidence or 0) < below)


class Drawing:
    def __init__(self, traces, titles):
        self.out = []
        self.first = [min([p for p in range(t.length) if p not in t.fixed] + [t.length - 1]) for t in traces]
        columns = max(t.length - f for t, f in zip(traces, self.first))
        self.cell = max(0.5, min(16, WIDEST / columns))
        self.row = max(0.5, min(16, self.cell if self.cell >= 4 else 480 / max(1, max(len(t.steps) for t in traces))))
        self.width = LEFT + columns * self.cell + 8
        y = 8.0
        for trace, first, title in zip(traces, self.first, titles):
            y = self.panel(trace, first, title, y)
        y = self.legend(y)
        self.width = max(self.width, 460)
        label = "; ".join(f"{title}: {len(t.steps)} forward passes" for t, title in zip(traces, titles))
        self.head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{y:.0f}" viewBox="0 0 {self.width:.0f} {y:.0f}" '
                     f'font-family="sans-serif" font-size="11" role="img">\n<title>{escape(label)}</title>\n'
                     f'<rect width="{self.width:.0f}" height="{y:.0f}" fill="#fff"/>\n')

    def rect(self, x, y, width, height, colour):
        self.out.append(f'<rect x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}" fill="{colour}"/>')

    def say(self, x, y, text, more=""):
        self.out.append(f'<text x="{x:.5g}" y="{y:.5g}"{more}>{escape(text)}</text>')

    def panel(self, trace, first, title, y):
        cell, row, gap = self.cell, self.row, 1 if self.cell >= 6 else 0
        self.say(LEFT, y + 12, f"{title}: {len(trace.steps)} forward passes", ' font-weight="bold"')
        y += 20
        rows = max(1, len(trace.steps))
        # A column is masked (runs of one colour) until it is committed.
        holds = [p in trace.given for p in range(trace.length)]
        runs = {}  # position -> (colour, first row)
        events = []

        def close(p, until):
            colour, since = runs.pop(p)
            self.rect(LEFT + (p - first) * cell, y + since * row, cell - gap, (until - since) * row - gap, colour)

        for r, step in enumerate(trace.steps):
            scored = {c[0]: c for c in step}
            for p in range(first, trace.length):
                colour = SCORED if p in scored else None if holds[p] else MASKED
                if p in scored and scored[p][3] in "cfwerl":
                    events.append((r, scored[p]))
                    holds[p] = scored[p][3] != "r"
                    colour = None
                elif p in scored:
                    holds[p] = scored[p][3] == "k"  # kept; or a canvas that was given noise again
                    colour = None if holds[p] else colour
                if p in runs and runs[p][0] != colour:
                    close(p, r)
                if colour and p not in runs:
                    runs[p] = (colour, r)
        for p in list(runs):
            close(p, rows)
        for r, (p, token, confidence, letter) in events:
            x, top = LEFT + (p - first) * cell, y + r * row
            shade = shade_of(confidence)
            changed = letter in "er"
            self.rect(x, top, max(1, cell - gap), max(1, row - gap), CHANGED if changed else SHADES[shade][1])
            if letter == "f" and cell >= 6:
                self.out.append(f'<path d="M{x:.5g} {top + row - gap:.5g}v-5h1l4 5z" fill="{FORCED}"/>')
            text = "×" if letter == "r" else trace.shown(token)
            if cell >= 11 and len(text) <= 2:
                colour = "#fff" if changed else SHADES[shade][2]
                self.say(x + (cell - gap) / 2, top + row / 2 + 3.5, text, f' text-anchor="middle" fill="{colour}"')
        every = next(n for k in range(9) for n in (10**k, 2 * 10**k, 5 * 10**k) if n * row >= 14)
        for r in range(rows):
            if r == 0 or (r + 1) % every == 0:
                self.say(LEFT - 6, y + (r + 0.5) * row + 4, str(r + 1), f' text-anchor="end" fill="{SOFT}"')
        y += rows * row
        every = next(n for k in range(9) for n in (10**k, 2 * 10**k, 5 * 10**k) if n * cell >= 34)
        for p in range(first, trace.length):
            if p % every == 0:
                self.say(LEFT + (p - first + 0.5) * cell, y + 13, str(p), f' text-anchor="middle" fill="{SOFT}"')
        return y + 32

    def legend(self, y):
        x = LEFT
        for (_, colour, _), name in zip(SHADES, SHADE_NAMES):
            self.rect(x, y, 12, 12, colour)
            self.say(x + 16, y + 10, name)
            x += 28 + 6.2 * len(name)
        self.say(x, y + 10, "confidence at the commit")
        y += 18
        x = LEFT
        for colour, name in ((MASKED, "masked"), (SCORED, "scored, not committed"), (FORCED, "corner: forced"), (CHANGED, "changed")):
            self.rect(x, y, 12, 12, colour)
            self.say(x + 16, y + 10, name)
            x += 28 + 6 * len(name)
        self.say(LEFT, y + 28, "Columns are positions, rows are forward passes; a dot is the EOS token.", f' fill="{SOFT}"')
        return y + 38

    def svg(self):
        return self.head + "\n".join(self.out) + "\n</svg>\n"


def main(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--title", action="append", default=[])
    parser.add_argument("--sequence", type=int, default=0)
    parser.add_argument("traces", nargs="+")
    options = parser.parse_args(arguments)
    if options.sequence < 0:
        parser.error("--sequence must be at least 0")
    traces, titles = [], []
    for i, path in enumerate(options.traces):
        try:
            data = sys.stdin.buffer.read() if path == "-" else pathlib.Path(path).read_bytes()
            lines = data.decode("utf-8", errors="replace").split("\n")
            trace = Trace([line + "\n" for line in lines[:-1]] + lines[-1:], options.sequence)
        except (OSError, Wrong) as error:
            print(f"order_map.py: {path}: {error}", file=sys.stderr)
            return 1
        if trace.cut:
            print(f"order_map.py: {path}: cut off within its last line; what stands before it is drawn", file=sys.stderr)
        traces.append(trace)
        policy = trace.policy
        titles.append(options.title[i] if i < len(options.title) else policy if isinstance(policy, str) and policy else path)
    sys.stdout.buffer.write(Drawing(traces, titles).svg().encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
