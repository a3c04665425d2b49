#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the pages: every *.md of the repository.

- Every C and C++ block is a region of a file that the tests compile. Before the block stands
  `<!-- region FILE NAME -->`; the region stands in FILE between lines that hold `[NAME]` and
  `[/NAME]`. `<!-- region FILE -->` takes the whole file but for its licence.
- Every block of Python is Python.
- Every script that a page calls exists, and every path in code that begins with a folder of the repository.
- Every relative link leads to a file or folder, and its `#anchor` to a heading of that page.
- The tables in the first section with one of include/unmask/README.md, examples/README.md and tests/README.md have all that is in
  the folder.
- Tables of the pages of policies and of C have each statistic, each field of the rank, the step and the
  sequence, and each call; those of the protocol of a
  part each member that the headers look for, and no other.
- The table of forward passes that parts add has each part whose header declares some, and no other.
- So does every script and preset that a *.yml of .github names, and that is YAML.
- No word has two rows of the glossary.
- README.md has at most 150 lines of at most 110 columns.

usage: readme.py              complains
       readme.py --write      brings the blocks up to date
       readme.py --first COMPILER
                              does with the first program as examples/README.md says, in an empty
                              folder beside a checkout, and compares the output
       readme.py --self-test
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- region (\S+)(?: (\S+))? -->\n```(\w+)\n(.*?)```\n", re.S)
CODES = "c", "cpp", "cuda"  # languages whose blocks are regions of files; others may be
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
# GitHub's own pages about a workflow, from README.md of the top level, where they are `../../actions`.
WORKFLOW = re.compile(r"\.\./\.\./actions/workflows/([\w-]+\.yml)(/badge\.svg)?")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:include|tests|bench|examples|cmake|\.github|\.ci)/[\w./*-]+)`")
HEADING = re.compile(r"^#+ +(.*)$", re.M)
LISTINGS = ["include/unmask/README.md", "examples/README.md", "tests/README.md"]
RULES, CALLS = "include/unmask/policy/README.md", "examples/bindings/c/README.md"
PROTOCOL = "include/unmask/core/part/README.md"
CONTRACT = {  # headers below include/unmask, and how they name what a part may have
    r"core/part/(?!traits\.|part_check\.|family\.)\w+\.hpp":
        r"(?:\bp\.|\bP::(?:template )?|\{ rule\.)(\w+)\b",
    r"core/part/traits\.hpp": r"^UNMASK_DECLARES\((\w+)\)",
    r"core/part/hooks\.inl": r"^UNMASK_HOOK\(.*, (\w+_now)[,)]",
}
NO_MEMBERS = "at", "count"  # of other things that the headers call p
NAMED = [  # a page, a header, the names in it, and how a table shows them
    (PROTOCOL, "include/unmask/core/part/hooks.inl", r"^  UNMASK_FUNCTION\((\w+),", "`{}("),
    (RULES, "include/unmask/core/part/rank_info.hpp", r"(?m)^  (?:index_t|float) (\w+) = ", "`{}`"),
    (RULES, "include/unmask/core/part/sequence_view.hpp", r"(?m)^  (?:const )?[\w:]+\*? (?!bytes)(\w+)(?: = [^;()]*)?;", "`{}"),
    (RULES, "include/unmask/core/statistics.hpp", r"inline constexpr statistics (\w+)\{", "`stat::{}`"),
    (CALLS, "include/unmask/c_api.h", r"UNMASK_API [\w* ]*?(unmask_\w+)\(", "`{}`"),
    (CALLS, "include/unmask/c_layers.h", r"UNMASK_API [\w* ]*?(unmask_\w+)\(", "`{}`"),
    (CALLS, "include/unmask/c_constraints.h", r"UNMASK_API [\w* ]*?(unmask_\w+)\(", "`{}`"),
    (CALLS, "include/unmask/c_language.h", r"UNMASK_API [\w* ]*?(unmask_\w+)\(", "`{}`"),
    (CALLS, "include/unmask/c_parts.h", r"UNMASK_API [\w* ]*?(unmask_\w+)\(", "`{}`"),
]
PRESET = re.compile(r"--preset[ =](\w+)|\bpreset: \[(.*?)\]")
MAX_LINES, MAX_COLUMNS, MAX_PROGRAM = 150, 110, 26  # of README.md


def pages(root):
    for where, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders
                            if not f.startswith(("build", "__pycache__")) and f not in (".git", ".cache"))
        for name in sorted(names):
            if name.endswith(".md"):
                yield pathlib.Path(where, name)


def region(root, file, name):
    lines = (root / file).read_text(encoding="utf-8").splitlines()
    if name:
        first = next(i for i, line in enumerate(lines) if f"[{name}]" in line)
        last = next(i for i, line in enumerate(lines) if f"[/{name}]" in line)
        lines = lines[first + 1 : last]
    else:
        lines = [line for line in lines if "SPDX-License-Identifier" not in line]
    return textwrap.dedent("\n".join(lines)).strip("\n") + "\n"


def up_to_date(root, text):
    def block(m):
        return f"<!-- region {' '.join(filter(None, m.group(1, 2)))} -->\n```{m[3]}\n{region(root, m[1], m[2])}```\n"
    return BLOCK.sub(block, text)


def anchors(text):
    """What GitHub calls the headings of a page."""
    for heading in HEADING.findall(FENCED.sub("", text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def broken_links(page, text):
    prose = re.sub(r"`[^`\n]*`", "`code`", FENCED.sub("", text))
    for link in LINK.findall(prose):
        if re.match(r"\w+:", link):
            continue
        workflow = WORKFLOW.fullmatch(link)
        if workflow and page.name == "README.md" and (page.parent / ".github/workflows" / workflow[1]).exists():
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield f"the link {link} leads nowhere"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"the link {link} names no heading of that page"


def missing_files(root, page, text):
    """Files in commands and in code of the text, from the root or from the page's own folder. The sources that a
    result was made with may be gone."""
    sources = [] if page.is_relative_to(root / "bench/results") else PATH.findall(text)
    for path in re.findall(r"\b(?:bash|python3?) ([\w./-]+\.(?:sh|py)|\.ci/\w+)\b", text) + sources:
        if not any(list(folder.glob(path.rstrip("/"))) for folder in (root, page.parent)):
            yield f"{path} is no file or folder"


def wrong_python(text):
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M):
        try:
            compile(code, "page", "exec")
        except SyntaxError as error:
            yield f"a block of Python: {error}"


def listing_complaints(page):
    """The page of a folder names all that is in it, in the first columns of its first section with tables. Where it
    names `folder/entry`, it names every entry of that folder."""
    if page.exists():
        section = re.search(r"^\|.*?(?=^## |\Z)", page.read_text(encoding="utf-8"), re.S | re.M)[0]
        rows = re.findall(r"^\|([^|]*)\|", section, re.M)
        named = set(re.findall(r"`([^`]+)`", " ".join(rows)))
        opened = {name.split("/")[0] for name in named if "/" in name}
        paths = [path for path in page.parent.iterdir() if path.name not in opened]
        paths += [path for folder in opened for path in (page.parent / folder).glob("*")]
        here = {str(path.relative_to(page.parent)) for path in paths
                if path.name not in (page.name, "__pycache__") and not path.name.startswith(".")}
        for name in sorted(named ^ here):
            yield f"its tables and the folder differ in {name}"


def twice(glossary):
    """Words that have two rows of the glossary."""
    seen = set()
    for cell in re.findall(r"^\| ([^|]+) \|", glossary, re.M):
        for word in re.split(r"[,;] ", cell):
            if word in seen and word not in ("term", "---"):
                yield f"'{word}' has two rows"
            seen.add(word)


def names(pattern, text):
    """What the first group of the pattern matches, split into words."""
    return [name for group in re.findall(pattern, text) for name in re.findall(r"\w+", group)]


def unnamed(root):
    """Names in a header that no table of a page has, as NAMED says."""
    for page, header, pattern, code in NAMED:
        if not (root / page).exists():
            continue
        lines = (root / page).read_text(encoding="utf-8").splitlines()
        rows = "\n".join(line for line in lines if line.startswith("|"))
        for name in names(pattern, (root / header).read_text(encoding="utf-8")):
            if code.format(name) not in rows:
                yield f"{page}: no row has {name} of {header}"


def protocol(root):
    """Members of a part that the headers look for and the page of the protocol lacks, and the reverse."""
    page = root / PROTOCOL
    if not page.exists():
        return
    wanted = set()
    for file in sorted((root / "include/unmask").rglob("*.[hi][pn][pl]")):
        for name, pattern in CONTRACT.items():
            if re.fullmatch(name, file.relative_to(root / "include/unmask").as_posix()):
                text = re.sub(r"//.*", "", file.read_text(encoding="utf-8"))
                wanted |= set(re.findall(pattern, text, re.M))
    wanted -= {"name", *NO_MEMBERS}
    rows = re.findall(r"^\| ([^|]*`[^|]*) \|", page.read_text(encoding="utf-8"), re.M)
    shown = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    for name in sorted(wanted - shown):
        yield f"{PROTOCOL}: no row has the member {name}"
    for name in sorted(shown - wanted):
        yield f"{PROTOCOL}: no header looks for {name}"


def unbounded(root):
    """Parts that add forward passes to the bound of a decode, and are missing from the table of them; and the reverse."""
    page = root / LISTINGS[0]
    table = re.search(r"^\| part \| forward passes that it adds.*?(?=\n\n|\Z)", page.read_text(encoding="utf-8"), re.S | re.M)
    shown = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", table[0], re.M)))) if table else set()
    known, adding = set(), set()
    for file in sorted((root / "include/unmask/policy").rglob("*.hpp")):
        if "presets" in file.parts:
            continue
        for part in re.split(r"(?m)^struct ", file.read_text(encoding="utf-8"))[1:]:
            label = re.search(r'part_label label\{\s*"(\w+)"', part)
            if label:
                known.add(label[1])
            if label and re.search(r"\bextra_(forwards|checks|remasks)\([^)]*\) const \{(?! return 0;)", part):
                adding.add(label[1])
    adding.discard("replay")
    for name in sorted(adding - shown):
        yield f"{LISTINGS[0]}: no row has the forward passes that {name} adds"
    for name in sorted((shown & known) - adding):
        yield f"{LISTINGS[0]}: {name} adds no forward passes"


def missing_presets(root, text):
    for preset in re.split(r"[, ]+", " ".join(filter(None, (g for m in PRESET.findall(text) for g in m)))):
        if preset and f'"name": "{preset}"' not in (root / "CMakePresets.json").read_text(encoding="utf-8"):
            yield f"there is no preset {preset}"


def workflows(root):
    for path in sorted((root / ".github").rglob("*.yml")):
        shown, text = path.relative_to(root), path.read_text(encoding="utf-8")
        scripts = re.sub(r"^ *- (?=[\w/]+\.sh\b)", "bash ", text, flags=re.M)
        for complaint in (*missing_files(root, path, scripts), *missing_presets(root, text)):
            yield f"{shown}: {complaint}"
        for action in re.findall(r"uses: *(\S+)", text):
            if not re.fullmatch(r"\S+@[0-9a-f]{40}", action):
                yield f"{shown}: {action} must be pinned by the hash of its commit: a tag can be moved"
        for tool in re.findall(r"pipx run (\S+)", text):
            if "==" not in tool:
                yield f"{shown}: pipx runs {tool}, which must have a version"
        try:
            import yaml  # where there is one
            yaml.safe_load(text)
        except ImportError:
            pass
        except yaml.YAMLError as error:
            yield f"{shown}: {error}"


def complaints(root):
    for page in pages(root):
        shown = page.relative_to(root)
        text = page.read_text(encoding="utf-8")
        regions = [m[3] for m in BLOCK.finditer(text) if m[3] in CODES]
        if len(re.findall(rf"^```(?:{'|'.join(CODES)})$", text, re.M)) != len(regions):
            yield f"{shown}: a block of C or C++ without `<!-- region FILE NAME -->` before it"
        elif up_to_date(root, text) != text:
            yield f"{shown}: a block differs from its file; run tests/readme.py --write"
        for complaint in (*broken_links(page, text), *missing_files(root, page, text), *missing_presets(root, text),
                          *wrong_python(text)):
            yield f"{shown}: {complaint}"
    for page in LISTINGS:
        for complaint in listing_complaints(root / page):
            yield f"{page}: {complaint}"
    glossary = root / "include/unmask/GLOSSARY.md"
    for complaint in twice(glossary.read_text(encoding="utf-8")) if glossary.exists() else ():
        yield f"{glossary.relative_to(root)}: {complaint}"
    yield from unnamed(root)
    yield from protocol(root)
    yield from unbounded(root)
    yield from workflows(root)
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    if len(lines) > MAX_LINES:
        yield f"README.md: {len(lines)} lines, at most {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield f"README.md:{number}: {len(line)} columns, at most {MAX_COLUMNS}"


def first_program(root, compiler):
    """Complaints about the program of examples/first.cpp, the commands and the output after it."""
    text = (root / "examples/README.md").read_text(encoding="utf-8")
    text = text[text.index("<!-- region examples/first.cpp -->\n"):]
    program, command, output = (re.search(rf"^```{kind}\n(.*?)^```$", text, re.S | re.M)[1]
                                for kind in ("cpp", "sh", "text"))
    if len(program.splitlines()) > MAX_PROGRAM:
        yield f"the first program has {len(program.splitlines())} lines, at most {MAX_PROGRAM}"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "first.cpp").write_text(program, encoding="utf-8")
        os.symlink(root, os.path.join(folder, "unmask"))
        done = subprocess.run(re.sub(r"^c\+\+ ", shlex.quote(compiler) + " ", command), shell=True, cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0 or done.stdout != output:
        yield f"the first program ended with {done.returncode} and printed\n{done.stdout}"


def write(root):
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        fresh = up_to_date(root, text)
        if fresh != text:
            page.write_text(fresh, encoding="utf-8")


def self_test():
    """Feeds one bad page at a time to the checks above."""
    assert list(twice("| term | x |\n| --- | --- |\n| a, b | 1 |\n| c; b | a |\n")) == ["'b' has two rows"]
    good = {
        ".github/workflows/w.yml": "",
        "README.md": "# Title: of `it`\n\n![b](../../actions/workflows/w.yml/badge.svg) [here](#title-of-it) [there](sub/page.md#two-words) `[no](link)`\n\n"
                     "<!-- region a.cpp mine -->\n```cpp\nint x;\n```\n"
                     "<!-- region a.cpp -->\n```cpp\n// [mine]\n  int x;\n// [/mine]\n```\n",
        "sub/page.md": "## Two words\n[up](../README.md) `include/unmask/*.hpp` `x.cpp` [folder](..) [far](https://example.org/x)\n",
        "include/unmask/README.md": "| where | contents |\n| --- | --- |\n| `a.hpp`, `core`, `policy`, `step` | `b` |\n\n## B\n\n"
                                    "| part | forward passes that it adds |\n| --- | --- |\n| `more` | `steps` |\n",
        "include/unmask/policy/a.hpp": "".join(f'struct {name} {{\n  static constexpr part_label label{{"{name}", ""}};\n{body}}};\n' for name, body in (
            ("more", "  int extra_forwards(int) const {\n    return steps;\n  }\n"), ("none", "  int extra_remasks(int) const { return 0; }\n"))),
        RULES: "| `stat::none` |\n| `rank` | `tokens[p]` |\n",
        "include/unmask/core/part/rank_info.hpp": "struct r {\n  index_t rank = 0;\n};\n",
        "include/unmask/core/part/sequence_view.hpp": "struct s {\n  const token_id* tokens = nullptr;\n  bool f();\n};\n",
        PROTOCOL: "| `f(x)`, `g(y)` | |\n| `most` | |\n| `says`, `off_now()` | |\n",
        "include/unmask/step/a.hpp": "",
        "include/unmask/core/part/hooks.inl": "UNMASK_HOOK(on, does, off_now,\n  UNMASK_FUNCTION(f, a, s)\n  UNMASK_FUNCTION(g, b, s))\n",
        "include/unmask/core/statistics.hpp": "inline constexpr statistics none{0U};\n",
        "include/unmask/a.hpp": "",
        "include/unmask/core/part/part.hpp": "{ p.f(x) } { p.g(y) } P::most // P::none\n",
        "include/unmask/core/part/traits.hpp": "#define UNMASK_DECLARES(name)\nUNMASK_DECLARES(says)\n",
        ".github/w.yml": "run: cmake --preset fast\nall:\n  - sub/a.sh\n",
        "sub/a.sh": "",
        "CMakePresets.json": '{"name": "fast"}',
        "bench/results/a.md": "`tests/none.cu`\n",
        "a.cpp": "// SPDX-License-Identifier: x\n// [mine]\n  int x;\n// [/mine]\n",
    }
    passes = "## B\n\n| part | forward passes that it adds |\n| --- | --- |\n| `{}` | `steps` |\n"
    bad = {
        "README.md": ["```cpp\nint x;\n```\n", "<!-- region a.cpp mine -->\n```cpp\nint y;\n```\n", "[x](y.md)\n",
                      "\n" * (MAX_LINES + 1), "x" * (MAX_COLUMNS + 1), "[x](sub/page.md#three-words)\n",
                      "![b](../../actions/workflows/none.yml/badge.svg)\n"],
        "include/unmask/README.md": ["| `a.hpp`, `core`, `policy` |\n\n" + passes.format("more"),
                                     "| `a.hpp`, `core`, `policy`, `step`, `b` |\n\n" + passes.format("more"),
                                     "| `a.hpp`, `core`, `policy`, `step` |\n\n" + passes.format("x"),
                                     "| `a.hpp`, `core`, `policy`, `step` |\n\n" + passes.format("more`, `none")],
        RULES: ["| `rank` | `tokens[p]` |\n", "`stat::none`, `rank`, `tokens[p]`\n", "| `stat::none`, `rank` |\n",
                "| `stat::none`, `tokens[p]` |\n"],
        PROTOCOL: ["| `f(x)`, `most` | |\n| `says`, `off_now()` | |\n", "`f(x)`, `g(y)`, `most`, `says`, `off_now()`\n",
                   "| `f(x)`, `g(y)`, `most`, `says`, `off_now()`, `h(z)` | |\n", "| `f(x)`, `g(y)`, `most`, `off_now()` | |\n"],
        ".github/w.yml": ["run: cmake --preset slow\n", "all:\n  - sub/b.sh\n", "run: bash .ci/none\n",
                          "preset: [fast, no]\n"],
        "bench/results/a.md": ["bash tests/none.sh\n"],
        "sub/page.md": ["cmake --preset no\n", "```c\nint x;\n```\n", "[x](a.cpp)\n", "[x](#none)\n", "`tests/none.py`\n",
                        "    bash none.sh\n",
                        "```python\nx = = 1\n```\n"],
    }

    def judge(files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return list(complaints(pathlib.Path(folder)))

    failures = [f"not expected: {found}" for found in judge(good)]
    for name, texts in bad.items():
        failures += [f"let through in {name}: {text[:60]!r}" for text in texts if not judge(good | {name: text})]
    return failures


def main(arguments):
    if arguments == ["--write"]:
        write(ROOT)
        return 0
    if arguments == ["--self-test"]:
        found = self_test()
    elif arguments[:1] == ["--first"]:
        found = list(first_program(ROOT, arguments[1]))
    else:
        found = list(complaints(ROOT))
    for complaint in found:
        print(complaint)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
