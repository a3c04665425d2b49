#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws results/sudoku_frontier.svg from results/sudoku.csv: right answers over forward passes of a few families.

usage: frontier.py            writes the picture
       frontier.py --check    compares it with what it would write; status 1 if they differ
"""
import csv
import math
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 692, 330, 48, 680, 36, 288
LEAST, PASSES, SHARES = 1.25, (1.5, 2, 3, 4, 6, 8, 12, 24), range(40, 101, 10)
# class, label and where it stands, policies with their labels (text, dx, dy, anchor)
FAMILIES = [
    ("a", "threshold(t)", (1.86, 63), "start", [
        ("threshold(0.5)", ("0.5", 8, 4)), ("threshold(0.6)", ("0.6", 8, 4)), ("threshold(0.7)", ("0.7", 8, 4)),
        ("threshold(0.8)", ("0.8", 8, 5)), ("threshold(0.9)", ("0.9", 7, 12)), ("threshold(0.95)", ("", 0, 0)),
        ("threshold(0.99)", ("0.99", 3, 17))]),
    ("b", "+ lookahead(7)", (1.93, 95.2), "end", [
        ("threshold(0.8) + lookahead(7)", ("0.8", -28, 4)), ("threshold(0.9) + lookahead(7)", ("0.9", -28, 8)),
        ("threshold(0.95) + lookahead(7)", ("", 0, 0)), ("threshold(0.99) + lookahead(7)", ("", 0, 0))]),
    ("c", "tokens_per_step(k)", (9.5, 91), "middle", [
        ("tokens_per_step(6)", ("6", -4, 18)), ("tokens_per_step(4)", ("4", -4, 18)), ("tokens_per_step(3)", ("3", -4, 18)),
        ("tokens_per_step(2)", ("2", -4, 18)), ("tokens_per_step(1)", ("1", -4, 18))]),
    ("d", "", None, "", [("left_to_right + tokens_per_step(1)", ("left_to_right, k = 1", -10, 0)),
                         ("at_random + tokens_per_step(1)", ("at_random, k = 1", -10, 10))]),
]
STYLE = ("text{fill:#1f2328}.b{fill:#fff}.g{stroke:#e3e6ea}.n{fill:#6b7280}.e{text-anchor:end}.m{text-anchor:middle}"
         ".l{fill:none;stroke-width:2}.la{stroke:#1f6feb}.lb{stroke:#8250df}.lc{stroke:#bc4c00}"
         ".a{fill:#1f6feb}.b1{fill:#8250df}.c{fill:#bc4c00}.d{fill:#6b7280}.h{font-weight:bold}"
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#0d1117}.g{stroke:#30363d}.n{fill:#9aa4af}"
         ".la{stroke:#58a6ff}.lb{stroke:#bc8cff}.lc{stroke:#f0883e}.a{fill:#58a6ff}.b1{fill:#bc8cff}.c{fill:#f0883e}.d{fill:#9aa4af}}")


def x(passes):
    return LEFT + (RIGHT - LEFT) * math.log(passes / LEAST) / math.log(PASSES[-1] * 1.03 / LEAST)


def y(share):
    return BOTTOM - (BOTTOM - TOP) * (share - SHARES[0]) / (SHARES[-1] - SHARES[0])


def mark(name, a, b):
    """A shape of its own for each family: colour is not all that tells them apart."""
    return {"a": f"<circle cx='{a:.1f}' cy='{b:.1f}' r='4' class='a'/>",
            "b": f"<path d='M{a:.1f} {b - 5:.1f}l5 9h-10z' class='b1'/>",
            "c": f"<rect x='{a - 3.5:.1f}' y='{b - 3.5:.1f}' width='7' height='7' class='c'/>",
            "d": f"<path d='M{a:.1f} {b - 5:.1f}l5 5l-5 5l-5 -5z' class='d'/>"}[name]


def picture(rows):
    """The SVG, from {policy: (right in percent, passes a puzzle)}."""
    yield (f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}' "
           "font-family='sans-serif' font-size='12'>")
    yield f"<style>{STYLE}</style>"
    yield f"<rect width='{WIDTH}' height='{HEIGHT}' class='b'/>"
    yield f"<text x='{LEFT}' y='20' class='h'>Right answers, % of 1,000 unseen Sudokus</text>"
    for v in PASSES:
        yield f"<path d='M{x(v):.1f} {TOP}V{BOTTOM}' class='g'/><text x='{x(v):.1f}' y='{BOTTOM + 18}' class='n m'>{v:g}</text>"
    for v in SHARES:
        yield f"<path d='M{LEFT} {y(v):.1f}H{RIGHT}' class='g'/><text x='{LEFT - 8}' y='{y(v) + 4:.1f}' class='n e'>{v}</text>"
    yield f"<text x='{(LEFT + RIGHT) / 2:.0f}' y='{BOTTOM + 36}' class='m'>forward passes a puzzle</text>"
    for name, label, place, anchor, policies in FAMILIES:
        points = [(x(rows[policy][1]), y(rows[policy][0]), *text) for policy, text in policies]
        if label:
            yield f"<polyline points='{' '.join(f'{p[0]:.1f},{p[1]:.1f}' for p in points)}' class='l l{name}'/>"
            yield (f"<text x='{x(place[0]):.1f}' y='{y(place[1]):.1f}' text-anchor='{anchor}' "
                   f"class='{'b1' if name == 'b' else name} h'>{label}</text>")
        for a, b, text, dx, dy in points:
            yield mark(name, a, b)
            if text:
                end = " class='e'" if name == "d" else ""
                yield f"<text x='{a + dx:.1f}' y='{b + dy:.1f}'{end}>{text}</text>"
    yield "</svg>"


def main(arguments):
    with open(RESULTS / "sudoku.csv", encoding="utf-8", newline="") as file:
        rows = {row["policy"]: (100 * int(row["right"]) / int(row["problems"]), int(row["forwards"]) / int(row["problems"]))
                for row in csv.DictReader(file) if row["set"] == "test"}
    file, drawn = RESULTS / "sudoku_frontier.svg", "\n".join(picture(rows)) + "\n"
    if arguments == ["--check"]:
        return 0 if file.read_text(encoding="utf-8") == drawn else f"{file.name} differs from what frontier.py draws"
    file.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
