#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the site of the reference: pages and the comments of the interface's headers.

usage: build.py OUTPUT [DOXYGEN]    the site is OUTPUT/html/index.html
       build.py --self-test

Links to sources lead to the files of the checkout, or into UNMASK_REPOSITORY: the address at which its files
are shown, such as https://example.org/unmask/blob/v0.1.0.

Fails on any warning of Doxygen, a public name without a comment being one, on links that lead nowhere and on
links that are shown as plain text.
"""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import filter

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = "cmake/docs"

# Folders and headers that are how the interface is made, and not what it is.
INNER = ["stats", "step", "c_api", "core/part/composition.hpp", "core/part/held_list.hpp", "core/lent_tokens.hpp",
         "core/part/family.hpp", "core/part/pack.hpp", "core/part/part_check.hpp", "core/part/traits.hpp", "core/part/composition_rules.hpp", "ranks/gather.hpp", "ranks/shard.hpp"]
OUTER = {"constraint": ["byte_automaton.hpp", "byte_automaton_file.hpp", "vocabulary.hpp"],
         "cuda": ["backend.hpp", "key_selector.hpp", "error.hpp", "memory.hpp"],
         "language": ["automaton.hpp", "expression.hpp", "schema.hpp"],
         "host": ["backend.hpp", "executor.hpp", "key_selector.hpp", "thread_pool.hpp"],
         "named": ["policy_text.hpp", "read_policy.hpp"]}  # of these folders these alone
# The menu: groups of pages, in order. A page stands in the first group that names it.
GROUPS = {
    "Use": ["include/unmask/policy/README.md", "include/unmask/policy/CHOOSE.md", "include/unmask/named/README.md", "include/unmask/constraint/README.md",
            "include/unmask/language/README.md", "examples/README.md", "examples/bindings/python/README.md", "examples/bindings/python/docs/*.md",
            "examples/bindings/c/README.md", "examples/bindings/rust/README.md", "include/unmask/tune/README.md",
            "include/unmask/trace/README.md", "examples/viewer/README.md", "examples/playground/README.md", "examples/libmata/README.md",
            "include/unmask/GLOSSARY.md"],
    "Extend": ["include/unmask/README.md", "include/unmask/core/part/README.md", ".github/CONTRIBUTING.md",
               ".github/GOOD_FIRST_ISSUES.md", ".github/SECURITY.md", ".github/CHANGELOG.md"],
    "Engines": ["include/unmask/policy/layers/README.md", "examples/hosts/llama_cpp/README.md",
                "include/unmask/ranks/README.md", "examples/mpi/README.md", "include/unmask/cuda/README.md",
                "include/unmask/cuda/DESIGN.md",
                "examples/hosts/patches/README.md"],
    "Models": ["examples/*/README.md", "examples/*/make/README.md"],
    "Numbers": ["bench/README.md", "bench/results/*.md", "bench/results/*/*.md"],
}


def groups():
    """{title: pages} of the menu."""
    seen, menu = set(), {}
    for title, patterns in GROUPS.items():
        files = [file for pattern in patterns for file in sorted(ROOT.glob(pattern)) if file not in seen]
        menu[title] = list(dict.fromkeys(files))
        seen.update(files)
    return menu


def menu_text():
    """The groups as pages of Doxygen, which make the menu's levels."""
    text = ""
    for title, files in groups().items():
        entries = "".join(f"- \\subpage {filter.label(ROOT, file)}\n" for file in files)
        text += f"/** \\page group_{title.lower()} {title}\n\n{entries}*/\n"
    return text


def inputs():
    """{name in the prepared folder: file}; README.md of the top level is the first page."""
    found = {"index.md": ROOT / "README.md"}
    for files in groups().values():
        for file in files:
            found[f"page_{len(found):02}.md"] = file
    include = ROOT / "include"
    for page in sorted([*include.rglob("*.md"), *(ROOT / "bench").rglob("*.md")]):
        if page not in found.values():
            sys.exit(f"no group of {HERE}/build.py has {page.relative_to(ROOT)}")
    for name in INNER + [f"{folder}/{name}" for folder in OUTER for name in OUTER[folder]]:
        if not (include / "unmask" / name).exists():
            sys.exit(f"{HERE}/build.py names include/unmask/{name}, which is not there")
    for file in sorted((include / "unmask").rglob("*")):
        name = file.relative_to(include / "unmask")
        if name.parts[0] in OUTER and name.name not in OUTER[name.parts[0]]:
            continue
        if file.suffix in (".hpp", ".cuh", ".h") and not any(name.is_relative_to(i) for i in INNER):
            found[file.relative_to(include).as_posix()] = file
    return found


def version():
    text = (ROOT / "include/unmask/version.hpp").read_text(encoding="utf-8")
    return ".".join(re.search(rf"VERSION_{part} +(\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


CODE_TAGS = "code", "pre", "script", "style", "span"  # "span": what is typed as code in tables of members


class Links(html.parser.HTMLParser):
    """Identifiers and links of a page, and links that did not become any."""

    def __init__(self):
        super().__init__()
        self.names, self.links, self.plain, self.code = set(), [], [], 0

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (name == "name" and tag == "a"):
                self.names.add(value)
            elif name in ("href", "src", "data") and value:
                self.links.append(value)
        self.code += tag in CODE_TAGS

    def handle_endtag(self, tag):
        self.code -= tag in CODE_TAGS

    def handle_data(self, data):
        if not self.code:
            self.plain += re.findall(r"\S*\]\([^)\s]+\)|@ref\b.*|`[^`]+`", data)


def broken(site):
    """`page: link` of each link that leads nowhere, and of each that is shown as text."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        pages[file.resolve()] = Links()
        pages[file.resolve()].feed(file.read_text(encoding="utf-8", errors="replace"))
    for file, page in pages.items():
        if re.match("index|page_", file.name):
            yield from (f"{file.relative_to(site.resolve())}: {text} is plain text" for text in page.plain)
        for link in page.links:
            address = urllib.parse.urlsplit(link)
            if address.scheme or address.netloc:
                continue
            path = urllib.parse.unquote(address.path)
            target = (file.parent / path).resolve() if path else file
            fragment = urllib.parse.unquote(address.fragment)
            if not target.exists() or (
                    fragment and target in pages and fragment not in pages[target].names):
                yield f"{file.relative_to(site.resolve())}: {link} leads nowhere"


def header(doxygen, output):
    """Doxygen's own header, and the theme's scripts."""
    names = [output / name for name in ("header.html", "footer.html", "unused.css")]
    subprocess.run([doxygen, "-w", "html", *map(str, names)], check=True, stdout=subprocess.DEVNULL)
    scripts = "".join(f'<script type="text/javascript" src="$relpath^{file.name}"></script>\n'
                      for file in sorted((ROOT / HERE).rglob("*.js")))
    scripts += ('<script type="text/javascript">DoxygenAwesomeDarkModeToggle.init(); '
                "DoxygenAwesomeFragmentCopyButton.init();</script>\n</head>")
    text = names[0].read_text(encoding="utf-8")
    names[0].write_text(text.replace("</head>", scripts), encoding="utf-8")


def layout(doxygen, output):
    """Doxygen's own layout, with what a thing is before the list of its members."""
    file = output / "layout.xml"
    subprocess.run([doxygen, "-l", str(file)], check=True, stdout=subprocess.DEVNULL)
    text = file.read_text(encoding="utf-8")
    description = re.compile(r' *<detaileddescription title=""/>\n')
    kinds = re.split(r"(?=^  <(?:class|namespace|concept)>$)", text, flags=re.M)
    for i, kind in enumerate(kinds[1:], 1):
        kinds[i] = description.sub("", kind, count=1).replace(
            '<briefdescription visible="yes"/>', '<detaileddescription title="Description"/>', 1)
    text = "".join(kinds)
    for name, title in {"publicattributes": "Arguments and members", "publicmethods": "Functions",
                        "publicstaticattributes": "Constants", "publictypes": "Types"}.items():
        text = text.replace(f'<{name} title=""/>', f'<{name} title="{title}"/>')
    text = text.replace('<tab type="pages" visible="yes" title=""', '<tab type="pages" visible="yes" title="Pages"')
    file.write_text(text, encoding="utf-8")


def build(output, doxygen):
    output.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(output / "html", ignore_errors=True)
    source = output / "source"
    shutil.rmtree(source, ignore_errors=True)
    hook_of = filter.hooks(ROOT / "include/unmask")
    state = filter.states(ROOT / "include/unmask")
    origin = {}
    files = inputs()
    pages = {file for file in files.values() if file.suffix == ".md"}
    names = filter.pictures(ROOT, output / "pictures")
    repository = os.environ.get("UNMASK_REPOSITORY") or os.path.relpath(ROOT, output / "html")
    for name, file in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(filter.prepared(ROOT, file, hook_of, state, pages, repository.rstrip("/"),
                                                   names), encoding="utf-8")
        origin[name] = file.relative_to(ROOT).as_posix()
    header(doxygen, output)
    layout(doxygen, output)
    shutil.copy(ROOT / HERE / "namespaces.dox", source)
    (source / "groups.dox").write_text(menu_text(), encoding="utf-8")
    settings = (ROOT / HERE / "Doxyfile.in").read_text(encoding="utf-8")
    for name, value in {"output": output, "source": ROOT, "version": version()}.items():
        settings = settings.replace(f"@{name}@", str(value))
    (output / "Doxyfile").write_text(settings, encoding="utf-8")
    ran = subprocess.run([doxygen, str(output / "Doxyfile")], cwd=source, stdout=subprocess.DEVNULL)
    said = (output / "warnings.txt").read_text(encoding="utf-8")
    said = re.sub(rf"{re.escape(str(source))}/([\w/.]+)", lambda m: origin.get(m[1], m[1]), said)
    complaints = sorted(set(said.splitlines()))
    complaints += broken(output / "html")
    for complaint in complaints:
        print(complaint)
    if not complaints and not ran.returncode:
        print(f"Open {output / 'html/index.html'}")
    return 1 if complaints or ran.returncode else 0


def self_test():
    """A site with one page that is right, and links of each kind that are not."""
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder)
        (site / "page_a.html").write_text('<h1 id="top">A</h1><a href="#top">t</a><a href="b.html#b">b</a>'
                                     '<a href="#none">n</a><a href="c.html">c</a><img src="d.png">'
                                     "<p>see [e](e.md) <code>[f](f.md)</code> `g`</p>")
        (site / "b.html").write_text('<a name="b"></a><a href="page_a.html#top">a</a>')
        got = list(broken(site))
        wanted = [f"page_a.html: {text}" for text in
                  ("[e](e.md) is plain text", "`g` is plain text", "#none leads nowhere", "c.html leads nowhere",
                   "d.png leads nowhere")]
        if got != wanted:
            sys.exit(f"broken links: got {got}, wanted {wanted}")
    part = ("  float value = 0.9F;\n  bool inclusive = false;\n  order by = order::by_margin;\n"
            '  knobs[] = {{"value", &p::value, within(0, 1)}, {"inclusive", &p::inclusive},\n'
            '    word_knob<&p::by>("order", "by_margin|by_entropy"),\n'
            '    {"keeps", knob_kind::reals, 2, &take, "[0.5, 0.2]"}, {"tokens", knob_kind::tokens, 2, &take_tokens}};\n')
    wanted = "(value=0.9, inclusive=false, order=by_margin, keeps=[0.5, 0.2], tokens)"
    if filter.arguments(part) != wanted:
        sys.exit(f"arguments: got {filter.arguments(part)}, wanted {wanted}")
    svg = ("<svg width='20' height='30' viewBox='0 0 20 30'>\n<rect/>\n<text x='1' y='2' class='f'>a + b</text>\n1\n"
           "<text x='11' y='2' class='f'>c(1)</text>\n<text x='11' y='3' class='f'>+ e</text>\n2\n<text x='1' y='12' class='f'>b</text>\n3\n</svg>\n")
    found = filter.panels(svg)
    boxes = [re.search("viewBox='(.*?)'", picture)[1] for picture in found.values()]
    if boxes != ["0 0 10 10", "10 0 10 10", "0 10 10 20"] or "2\n</svg>" not in found["c(1) + e"]:
        sys.exit(f"panels: got {boxes}, {found}")
    for name, wanted in {"b": "3", "c": "2", "a": "1", "d": ""}.items():
        got = filter.picture_of(name, {"a + b": "1", "c(1)": "2", "b": "3"})
        if got != (rf" \image html {wanted}" if wanted else ""):
            sys.exit(f"picture of {name}: got {got}")
    for text, wanted in {'within(0, 1).in("nats")': "Range: [0, 1] (nats).",
                         "above(0)": "Range: more than 0.", "above(0).up_to(1)": "Range: (0, 1].",
                         "any_finite()": "Range: any finite number."}.items():
        if filter.range_text(text) != wanted:
            sys.exit(f"{text}: got {filter.range_text(text)!r}, wanted {wanted!r}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) in (2, 3):
        sys.exit(build(pathlib.Path(sys.argv[1]).resolve(), (sys.argv + ["doxygen"])[2]))
    else:
        sys.exit(__doc__)
