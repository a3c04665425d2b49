#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the curves that `growth` writes: plot.py curves.csv folder. Needs nothing but Python.

One SVG a curve: microseconds of a read of all statistics (solid) and of a plain read of the same
bytes (dashed).
"""
import csv
import math
import pathlib
import sys

WIDTH, HEIGHT, MARGIN = 560, 340, 56


def axis(values, logarithmic, size):
    """A function from values to pixels and its ticks."""
    if logarithmic:
        low, high = math.log10(min(values)), math.log10(max(values))
        low, high = low - 0.02 * (high - low) - 0.01, high + 0.02 * (high - low) + 0.01
        ticks = sorted(set(values)) if len(set(values)) <= 10 else [
            10.0 ** e for e in range(math.ceil(low), math.floor(high) + 1)]
        return (lambda v: (math.log10(v) - low) / (high - low) * size), ticks
    high = max(values) * 1.05
    step = 10.0 ** math.floor(math.log10(high))
    step = step / 2 if high / step < 3 else step
    return (lambda v: v / high * size), [i * step for i in range(int(high / step) + 1)]


def draw(name, rows):
    xs = [float(r["x"]) for r in rows]
    series = [("read of all statistics" if name != "statistics" else "read",
               [float(r["read_us"]) for r in rows], ""),
              ("plain read of the same bytes", [float(r["floor_us"]) for r in rows],
               ' stroke-dasharray="5 4"')]
    logarithmic = min(xs) > 0 and max(xs) / min(xs) > 40
    ys = [y for _, values, _ in series for y in values]
    x_of, x_ticks = axis(xs, logarithmic, WIDTH - 2 * MARGIN) if name != "statistics" else (
        lambda v: (v + 0.5) / len(xs) * (WIDTH - 2 * MARGIN), [])
    y_of, y_ticks = axis(ys, logarithmic, HEIGHT - 2 * MARGIN)
    if logarithmic:
        y_ticks = [t for t in (10.0 ** e for e in range(-2, 7)) if min(ys) <= t <= max(ys)]
    at = lambda x, y: (MARGIN + x_of(x), HEIGHT - MARGIN - y_of(y))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="14">'
           f'microseconds by {name} ({rows[0]["label"] if name != "statistics" else "64 rows"})</text>',
           f'<path d="M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" fill="none" '
           f'stroke="black"/>']
    for t in x_ticks:
        out.append(f'<text x="{MARGIN + x_of(t):.1f}" y="{HEIGHT - MARGIN + 16}" '
                   f'text-anchor="middle">{t:g}</text>')
    if name == "statistics":
        for r, x in zip(rows, xs):
            out.append(f'<text x="{at(x, ys[0])[0]:.1f}" y="{HEIGHT - MARGIN + 16}" '
                       f'text-anchor="middle">{r["label"]}</text>')
    for t in y_ticks:
        y = HEIGHT - MARGIN - y_of(t)
        out.append(f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{t:g}</text>'
                   f'<path d="M{MARGIN} {y:.1f}H{WIDTH - MARGIN}" stroke="#ddd"/>')
    for i, (label, values, dash) in enumerate(series):
        points = " ".join("%.1f,%.1f" % at(x, y) for x, y in zip(xs, values))
        out.append(f'<polyline points="{points}" fill="none" stroke="#0a5" stroke-width="2"{dash}/>')
        out.append(f'<path d="M{MARGIN + 12} {MARGIN + 6 + 16 * i}h26" stroke="#0a5" '
                   f'stroke-width="2"{dash}/><text x="{MARGIN + 44}" y="{MARGIN + 10 + 16 * i}">'
                   f'{label}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    curves = {}
    with open(sys.argv[1], newline="") as file:
        for row in csv.DictReader(file):
            curves.setdefault(row["curve"], []).append(row)
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in curves.items():
        (folder / f"{name}.svg").write_text(draw(name, rows))


if __name__ == "__main__":
    main()
