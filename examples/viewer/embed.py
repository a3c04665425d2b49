#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Puts traces into the viewer: one HTML file without a server or a network.

usage: embed.py TRACE.jsonl [SECOND.jsonl] > decode.html   shows one trace, or two side by side; - is standard input
       embed.py --write                                    makes viewer.html from src, the viewer without a trace
       embed.py --check                                    status 1 if viewer.html is not what --write makes
"""
import base64
import hashlib
import html
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
VIEWER = FOLDER / "viewer.html"
MODULES = ["trace", "decode", "surface", "canvas", "map", "chart", "position", "main"]  # each needs those before it
PLACE = "<!-- traces -->"


def source_of(name):
    """A module as a function that returns what it exports: all are in one script."""
    text = (FOLDER / "src" / f"{name}.js").read_text(encoding="utf-8")
    text = re.sub(r"^import (.*?) from '\./(\w+)\.js';", r"const \1 = module_\2;", text, flags=re.M | re.S)
    exported = re.compile(r"^export ((?:async )?(?:function|class|const|let) )(\w+)", re.M)
    names = ", ".join(m[2] for m in exported.finditer(text))
    return f"const module_{name} = (() => {{\n" + exported.sub(r"\1\2", text) + f"\nreturn {{{names}}};\n}})();\n"


def build():
    """The viewer from its sources. The policy of the page allows the script and the style by their hashes."""
    script = "\n" + "\n".join(source_of(name) for name in MODULES)
    style = "\n" + "".join((FOLDER / "src" / f"{name}.css").read_text(encoding="utf-8") for name in ("colours", "style"))
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("a source ends its own element")

    def allowed(text):
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    policy = (f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; base-uri 'none'; "
              "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
    page = (FOLDER / "src" / "page.html").read_text(encoding="utf-8")
    example, llada = ((FOLDER / "src" / name).read_text(encoding="utf-8").replace("<", "\\u003c")
                      for name in ("example.jsonl", "llada.jsonl"))
    for name, text in {"@policy": policy, "@style": style, "@example": example, "@llada": llada, "@script": script,
                       "@made": "made from examples/viewer/src by examples/viewer/embed.py"}.items():
        if page.count(name) != 1:
            raise ValueError(f"page.html has {name} {page.count(name)} times")
        page = page.replace(name, text)
    return page


def embed(viewer, traces):
    """The page `viewer` with traces, a list of (name, text). No `<` of a text is left: as JSON it means the same."""
    elements = "".join(f'<script type="text/plain" class="trace" title="{html.escape(name)}">\n'
                       + text.replace("<", "\\u003c") + "</script>\n" for name, text in traces)
    before, place, behind = viewer.partition(PLACE)
    if not place:
        raise ValueError(f"the viewer has no {PLACE}")
    return before + elements + behind


def read(path):
    data = sys.stdin.buffer.read() if path == "-" else pathlib.Path(path).read_bytes()
    return "standard input" if path == "-" else pathlib.Path(path).name, data.decode("utf-8", errors="replace")


def main(arguments):
    if arguments == ["--write"]:
        VIEWER.write_text(build(), encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        if not VIEWER.exists() or VIEWER.read_text(encoding="utf-8") != build():
            print("examples/viewer/viewer.html is not made from src: python3 examples/viewer/embed.py --write")
            return 1
        return 0
    if not 1 <= len(arguments) <= 2 or arguments[0] in ("-h", "--help"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        page = embed(VIEWER.read_text(encoding="utf-8"), [read(path) for path in arguments])
    except OSError as error:
        print(f"embed.py: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(page.encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
