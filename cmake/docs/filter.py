# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Headers and pages as Doxygen shall read them; every line keeps its number.

- A comment in front of the namespace is about the file.
- The fixed heads of comments (Range, State, ...) become headings, drawn formulas become blocks.
- A part's table of knobs becomes the text of its members, its label becomes the line that says how a
  text writes it, and its hooks point to their concepts: none of that has to be written twice.
"""

import pathlib
import re
import shutil

HEADS = "Shape|Range|State|Ties|Cost|Errors|Example|Source"
HEAD = re.compile(rf"(?:^|(?<=\s))({HEADS}):(?=\s|$)")
EXAMPLE = re.compile(r"(\\head\{Example\})(?= `[^`]+`, )")  # of a part; the page of policies says how to read it
COMMENT = re.compile(r"^(\s*)///(?!<)(.*)$")
FIELD = r"^\s+(?!return\b|using\b|static\b)[\w:<>, ]+?\s{name}(?:\[\w*\])?(?:\s*=[^;]*|\{{[^;]*\}})?;"


def hooks(include):
    """What concepts ask of a part: {name: concept}."""
    found, inner, everything = {}, {}, ""
    for file in sorted((include / "core").rglob("*.hpp")):
        text = file.read_text(encoding="utf-8") + "\n\n"
        everything += text
        for m in re.finditer(r"^concept (\w+) =(.*?);\n(?:}\)?;\n)?\n", text, re.S | re.M):
            for used in re.findall(r"\bdetail::(\w+)<", m[2]):
                inner.setdefault(used, m[1])
            for hook in re.findall(r"\bp\.(\w+)\b|\bP::(?:template )?(\w+)\b", m[2]):
                found.setdefault(hook[0] or hook[1], m[1])
    public = re.sub(r"^namespace detail \{.*?^}", "", everything, flags=re.S | re.M)
    found = {hook: inner.get(concept, concept) for hook, concept in found.items()}
    table = (include / "core/part/hooks.inl").read_text(encoding="utf-8")
    found.update(dict.fromkeys(re.findall(r"^UNMASK_HOOK\(.*, (\w+_now)[,)]", table, re.M), ""))
    return {h: c if re.search(rf"^concept {c} =", public, re.M) else "" for h, c in found.items()}


def states(include):
    """Types that a part may have for its state, as concepts call them."""
    text = "".join(file.read_text(encoding="utf-8") for file in sorted((include / "core").rglob("*.hpp")))
    return "|".join(sorted(set(re.findall(r"\btypename P::(\w+);", text))))


def range_text(expression):
    """`within(0, 1).in("nats")` in words."""
    call = re.match(r"(\w+)\(([^)]*)\)", expression)
    if not call:
        return ""
    name, arguments = call[1], [a.strip() for a in call[2].split(",")]
    rest = dict(re.findall(r"\.(\w+)\(([^)]*)\)", expression[call.end():]))
    unit = rest.get("in", "").strip('"').strip("()")
    opening = "(" if name == "above" else "["
    least, most = arguments[0], None
    if name == "within":
        most, closing = arguments[1], "]"
    elif "up_to" in rest:
        most, closing = rest["up_to"], "]"
    elif "below" in rest:
        most, closing = rest["below"], ")"
    elif name == "any_finite":
        return "Range: any finite number."
    if most is None:
        text = f"Range: {'more than' if name == 'above' else 'at least'} {least}"
        text += " and finite" if "finite" in rest else ""
    else:
        text = f"Range: {opening}{least}, {most}{closing}"
    return text + (f" ({unit})" if unit else "") + "."


def knob_docs(table):
    """{member: text} of a table of knobs."""
    docs = {}
    for m in re.finditer(r'word_knob<&[\w:]*?(\w+)>\(\s*"\w+",\s*"([^"]+)"\)', table):
        words = ", ".join(f"`{word}`" for word in m[2].split("|"))
        docs[m[1]] = f"In a text one of {words}."
    for m in re.finditer(r'\{\s*"\w+",\s*&[\w:<>]*?::(\w+)\s*(?:,\s*([^{}]*?))?\s*\}', table):
        if m[2] is None:
            docs[m[1]] = "True or false."
        elif m[2] == "a_token":
            docs[m[1]] = "A token, or `no_token`."
        else:
            docs[m[1]] = range_text(m[2])
    return docs


KNOB = re.compile(r'(?:word_knob<&[\w:<>]*?(?P<word>\w+)>\(\s*|\{\s*)"(?P<name>\w+)",\s*'
                  r'(?:knob_kind::\w+,[^{}"]*(?:"(?P<list>[^"]*)")?|&[\w:<>]*?::(?P<member>\w+))?')


def arguments(part):
    """`(value=0.9, inclusive=false)`: the arguments of a part in a text, with the defaults of its members."""
    table = re.search(r"knobs\[\] = \{", part)
    shown = []
    for m in KNOB.finditer(part[table.end() : closing(part, table.end() - 1)] if table else ""):
        member = m["word"] or m["member"]
        default = re.search(rf"^\s+(?!return\b)[\w:<>, ]+?\s{member}(?:\s*=\s*([^;]*)|\{{([^;]*)\}})?;", part, re.M)
        value = m["list"] or (default and (default[1] or default[2])) or ""
        value = re.sub(r"(?<=[\d.])F$|^\w+::", "", value.strip())
        shown.append(m["name"] + (f"={value}" if re.fullmatch(r"[][\w., +-]+", value) else ""))
    return f"({', '.join(shown)})" if shown else ""


def closing(text, at):
    """The index behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def blank(text):
    return "\n" * text.count("\n")


def without(text, pattern, instead=lambda m, piece: ""):
    """Takes out what begins as `pattern` and ends with the brace that closes its last character."""
    while m := re.search(pattern, text, re.M):
        end = closing(text, m.end() - 1)
        end += text[end : end + 1] == ";"
        said = instead(m, text[m.start() : end])
        text = text[: m.start()] + said + blank(text[m.start() : end]) + text[end:]
    return text


def filtered(text, hook_of, state, part, names):
    text = re.sub(r"\n\n((?:///.*\n)+)(namespace )", r"\n/// \\file\n\1\2", text, count=1)
    text = re.sub(r"^(?:#define UNMASK_HOOK\b.*|#define UNMASK_TRAIT\b.*|#include .*/hooks\.inl>)$", "", text, flags=re.M)
    text = re.sub(r"^ (?:private|protected):\n.*?(?=^}|^ public:)", lambda m: blank(m[0]), text,
                  flags=re.S | re.M)
    guide = r"^template <[^;{}]*>\n(?:  requires.*\n)?\w+\([^;{}]*\) -> [^;{}]*;"
    text = re.sub(guide, lambda m: blank(m[0]), text, flags=re.M)
    text = re.sub(r"^  (\w+) (\w+(?:, \w+)+); *///< (.*)$", each_of_several, text, flags=re.M)
    if part:
        docs, piece = {}, ""

        def label(m, all_of_it):
            strings = re.findall(r'"([^"]*)"', all_of_it)
            return f"// in a text: {strings[0]}{arguments(piece)}" if len(strings) > 1 else ""

        def knobs(m, all_of_it):
            docs.update(knob_docs(all_of_it))
            return ""

        start, pieces = 0, []
        for m in re.finditer(r"^};\n", text, re.M):  # one class at a time: members share names
            pieces.append(text[start : m.end()])
            start = m.end()
        pieces.append(text[start:])
        done = ""
        for piece in pieces:
            docs.clear()
            before = text
            text = done + piece
            offset = len(done)
            new = text
            new = without(new, r"static constexpr part_label label\s*\{", label)
            new = without(new, r"static constexpr knob<[\w<>]+> knobs\[\] = \{", knobs)
            new = re.sub(rf"^  using (?:{state}) = .*;$", "", new, flags=re.M)
            new = without(new, rf"^  struct (?:{state})(?: : [\w:]+)? \{{")
            head, tail = new[:offset], new[offset:]
            for member, said in docs.items():
                tail = re.sub(FIELD.format(name=member), lambda m: with_text(m, said, tail), tail,
                              count=1, flags=re.M)
            done = head + tail
            text = before
        text = done
        text = re.sub(r"(^///.*)(\n(?:template.*\n|  requires.*\n)*struct \w+ (?:(?!^};).*\n)*?"
                      r"  )// in a text: (\w+)(.*)",
                      lambda m: rf"{m[1]} \head{{In a text}} `{m[3]}{m[4]}`{picture_of(m[3], names)}{m[2]}", text, flags=re.M)
    lines = text.split("\n")
    out = []
    for i, line in enumerate(lines):
        comment = COMMENT.match(line)
        if comment:
            said = comment[2]
            if not drawn(line):
                said = HEAD.sub(r"\\head{\1}", said)
                said = EXAMPLE.sub(r'\1 (\\ref page_include_unmask_policy "notation")', said)
                if i and drawn(lines[i - 1]):
                    said = " @endcode" + said
                if drawn(lines[i + 1]):
                    said += " @code{.unparsed}"
            elif not COMMENT.match(lines[i + 1]):
                said += " @endcode"
            line = f"{comment[1]}///{said}"
        elif part and not re.match(r"^\s+///", lines[i - 1] if i else ""):
            line = hook_text(line, lines[i + 1] if i + 1 < len(lines) else "", hook_of)
        out.append(line)
    return "\n".join(out)


def panels(svg):
    """{title: picture} of the order maps that a picture has next to and below each other."""
    head = svg[: svg.index("<rect")]
    size = re.search(r"width='(\d+)' height='(\d+)'", head)
    if not size:  # of another program, in one piece
        return {}
    width, height = (float(x) for x in size.groups())
    line = r"<text x='{}' y='{}' class='f'>([^<]*)</text>\n"
    more = line.format(r"\1", r"\d+")
    titles = list(re.finditer(line.format(r"(\d+)", r"(\d+)") + f"(?:{more})*", svg))
    xs, ys = (sorted({float(m[i]) for m in titles}) for i in (1, 2))
    found = {}
    for m, following in zip(titles, [*titles[1:], None]):
        x, y = float(m[1]) - xs[0], float(m[2]) - ys[0]
        right, bottom = ([v - first for v in (*values, end + first) if v - first > at][0] if end else end
                         for values, first, at, end in ((xs, xs[0], x, width), (ys, ys[0], y, height)))
        body = svg[m.start() : following.start() if following else svg.index("</svg>")]
        box = f"{x:g} {y:g} {right - x:g} {bottom - y:g}"
        top = re.sub(r"width='.*?' height='.*?' viewBox='.*?'",
                     f"width='{right - x:g}' height='{bottom - y:g}' viewBox='{box}'", head)
        rect = "<rect x='{}' y='{}' width='{}' height='{}' class='b'/>\n".format(*box.split())
        found[" ".join(re.findall(">([^<]*)</text>", m[0]))] = top + rect + body.rstrip() + "\n</svg>\n"
    return found


def pictures(root, folder):
    """Writes a picture for each panel of the pictures of parts, and returns {title: its file's name}."""
    names = {}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in sorted((root / "examples/pictures").glob("*.svg")):
        for i, (title, svg) in enumerate(panels(file.read_text(encoding="utf-8")).items()):
            (folder / f"{file.stem}_{i}.svg").write_text(svg, encoding="utf-8")
            names.setdefault(title, f"{file.stem}_{i}.svg")
    return names


def picture_of(part, names):
    """The picture with the part in its title; of several the shortest that ends with it."""
    titles = [title for title in names if re.search(rf"\b{part}\b", title)]
    last = [title for title in titles if re.search(rf"(^|[ (]){part}(\(.*\))?$", title)]
    return rf" \image html {names[min(last or titles, key=len)]}" if titles else ""


def each_of_several(m):
    """Doxygen gives a comment behind `int a, b;` to the last of them alone."""
    return "  " + " ".join(f"{m[1]} {name}; /**< {m[3]} */" for name in m[2].split(", "))


def drawn(line):
    return re.match(r"^\s*///     +\S", line)


def with_text(m, said, text):
    end = text[m.end() : text.find("\n", m.end())]
    return m[0] + ("" if end.lstrip().startswith("///<") else f" ///< {said}")


def concept_link(name):
    """Doxygen 1.9 has a page for each concept and no command that leads there."""
    return f'<a href="conceptunmask_1_1{name.replace("_", "__")}.html">{name}</a>'


def hook_text(line, following, hook_of):
    m = re.match(r"^  static constexpr [\w:<>]+ (\w+) = .*;$", line)
    if m and "///<" not in line:
        concept = hook_of.get(m[1])
        if m[1] == "required":
            return line + " ///< Statistics that the part reads."
        return line + (f" ///< See the concept {concept_link(concept)}." if concept else
                       " ///< A trait, read when a policy is composed.")
    m = (re.match(r"^  (?:\[\[nodiscard\]\] )?(?:static )?(?:UNMASK_HD )?(?:static )?(?:constexpr )?"
                  r"[\w:]+ (\w+)\(", line) or
         re.match(r"^  (?:\[\[nodiscard\]\] )?(?:UNMASK_HD )?(?:constexpr )?[\w:]+\n  (\w+)\(",
                  line + "\n" + following))
    if m and m[1] in hook_of:
        concept = f" of the concept {concept_link(hook_of[m[1]])}" if hook_of[m[1]] else ""
        return f"  /** Hook{concept}. */ " + line.lstrip()
    if re.match(r"^  friend bool operator==\(.*= default;$", line):
        return ""
    return line


def label(root, page):
    """The name of a page in links of Doxygen."""
    path = page.relative_to(root).with_suffix("")
    path = path.parent if path.name == "README" else path
    return "index" if path.as_posix() == "." else "page_" + re.sub(r"\W", "_", path.as_posix())


def anchor(heading):
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def page_text(root, page, text, pages, repository):
    """A page whose links and headings Doxygen 1.9 follows as GitHub does. Links to a file that is in `pages` go
    to its page, others to the file in the repository."""
    own = label(root, page)

    def heading(m):
        if m[1] == "#":
            return m[0] if own == "index" else f"# {m[2]} {{#{own}}}"
        if own == "index":  # its sections would stand in the menu with the pages
            return f'<h2 id="{anchor(m[2])}">{m[2]}</h2>\n'
        return f"{m[1]} {m[2]} {{#{own}-{anchor(m[2])}}}"

    def link(m):
        target, _, fragment = m[2].partition("#")
        if re.match(r"\w+:", target):
            return m[0]
        file = (page.parent / target).resolve() if target else page
        file = file / "README.md" if file.is_dir() and file / "README.md" in pages else file
        said = re.sub(r"\s+", " ", m[1])
        if file in pages:  # \ref would show the backticks of code in the text of a link
            name = label(root, file)
            fragment = f"#{'' if name == 'index' else name + '-'}{fragment}" if fragment else ""
            return f'<a href="{name}.html{fragment}">{said}</a>'
        if not file.exists():
            raise ValueError(f"{page.relative_to(root)}: {m[2]} is no file")
        return f'<a href="{repository}/{file.relative_to(root).as_posix()}">{said}</a>'

    text = re.sub(r"<!--.*?-->", lambda m: blank(m[0]), text, flags=re.S)
    text = re.sub(r" *\[!\[[^\]]*\]\(\S*/actions/\S*\)\]\(\S*\)", "", text)  # badges of the repository
    pieces = re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)
    for i in range(0, len(pieces), 2):
        piece = re.sub(r"^(#+) +(.*)$", heading, pieces[i], flags=re.M)
        piece = re.sub(r"!\[([^\]]*)\]\((?:[^()]*/)?([^()/]+)\)", r"\n![\1](\2)\n", piece)
        piece = re.sub(r"`([^`]+)`", lambda m: f"``{m[1]}``" if "'" in m[1] else m[0], piece)  # ' would end it
        pieces[i] = re.sub(r"(?<!!)\[([^\]]*)\]\(([^()\s]+)\)", link, piece)
    return "".join(pieces)


def prepared(root, file, hook_of, state, pages, repository, names):
    """The text of a header or page."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return page_text(root, file, text, pages, repository)
    name = file.relative_to(root / "include/unmask").as_posix()
    has_parts = name.startswith("policy/") or name in ("core/semi_autoregressive.hpp", "trace/replay.hpp")
    return filtered(text, hook_of, state, has_parts, names)
