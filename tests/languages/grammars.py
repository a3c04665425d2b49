#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random grammars beside a naive recogniser, and structural tags beside xgrammar, on every short text.

usage: grammars.py JUDGED grammars|tags SEED COUNT

JUDGED is judged.cpp, compiled. Where the package xgrammar is installed, and PyTorch, which it imports, it judges
grammars, too: what it says otherwise is counted. Tags need it. The status is 1 where the compiler and the recogniser
differ, of tags the compiler and xgrammar.
"""
import itertools
import json
import os
import random
import signal
import sys

from judge_texts import Judged

try:
    import xgrammar
    from xgrammar.testing import _is_grammar_accept_string
except ImportError:
    xgrammar = None

judged = Judged(sys.argv[1])
rng = random.Random(int(sys.argv[3]))
ask = judged.ask


# A grammar is drawn as a tree: (kind, parts or what it has), and a rule's name leads to its tree.
LEAVES = {'"a"': "a", '"b"': "b", '"ab"': "ab", '"\\x61"': "a", '""': ""}
CLASSES = {"[ab]": lambda c: c in "ab", "[^b]": lambda c: c != "b", "[\\u0061-c]": lambda c: c in "abc"}
COUNTS = {"*": (0, 99), "+": (1, 99), "?": (0, 1), "{2}": (2, 2), "{0,2}": (0, 2), "{1,}": (1, 99)}


def part(depth, names):
    kind = rng.random()
    if depth == 0 or kind < .25:
        written = rng.choice([*LEAVES, *CLASSES])
        return ("text" if written in LEAVES else "class", written)
    if kind < .5:
        return ("rule", rng.choice(names))
    if kind < .8:
        return (rng.choice(["sequence", "choice"]), [part(depth - 1, names) for _ in range(rng.choice([2, 3]))])
    return ("repetition", [part(depth - 1, names)], rng.choice([*COUNTS]))


def grammar():
    names = ["root", "x", "y.z"][:rng.choice([1, 2, 3])]
    return {name: part(3, names) for name in names}


def written(node):
    if node[0] in ("text", "class", "rule"):
        return node[1]
    inside = {"sequence": " ", "choice": " | "}.get(node[0], "").join(map(written, node[1]))
    return f"({inside})" + (node[2] if node[0] == "repetition" else "")


def derives(rules, text):
    """Whether a grammar derives a text: what each rule derives from each place, until nothing is added."""
    known = {(name, i): frozenset() for name in rules for i in range(len(text) + 1)}

    def ends(node, i):  # of what a part derives from place i
        if node[0] == "text":
            return {i + len(LEAVES[node[1]])} if text.startswith(LEAVES[node[1]], i) else set()
        if node[0] == "class":
            return {i + 1} if i < len(text) and CLASSES[node[1]](text[i]) else set()
        if node[0] == "rule":
            return known[node[1], i]
        if node[0] == "choice":
            return set().union(*(ends(p, i) for p in node[1]))
        least, most, parts = 1, 1, node[1]
        if node[0] == "repetition":
            (least, most), parts = COUNTS[node[2]], node[1] * (len(text) + 3)
        at, out = {i}, {i} if least == 0 else set()
        for number, p in enumerate(parts[:most] if node[0] == "repetition" else parts, 1):
            at = set().union(*(ends(p, k) for k in at))
            if node[0] != "repetition" or number >= least:
                out = out | at if node[0] == "repetition" else at
        return out

    while True:
        more = {(name, i): frozenset(ends(rules[name], i)) for name, i in known}
        if more == known:
            return len(text) in known["root", 0]
        known = more


def text(value):
    return {"type": "const_string", "value": value}


def form(depth):
    leaf = lambda: rng.choice([text(rng.choice(["a", "b", "ab"])), {"type": "regex", "pattern": "[ab]b?"},
                               {"type": "grammar", "grammar": 'root ::= "a" root | "b"'},
                               {"type": "any_text", "excludes": [rng.choice(["a", "ab", "bb"])]},
                               {"type": "any_text", "max_chars": 2}])
    if depth == 0:
        return leaf()
    sub = lambda: form(depth - 1)
    tag = lambda begin: {"type": "tag", "begin": begin, "content": sub(), "end": rng.choice(["b", "ba", ["a", "bb"]])}
    kind = rng.randrange(7)
    flags = {"at_least_one": rng.random() < .5, "stop_after_first": rng.random() < .5}
    if kind == 0:
        return {"type": rng.choice(["sequence", "or"]), "elements": [sub(), sub()]}
    if kind == 1:
        return {"type": rng.choice(["optional", "plus", "star"]), "content": leaf()}
    if kind == 2:
        return {"type": "repeat", "min": rng.choice([0, 1]), "max": rng.choice([1, 2, -1]), "content": leaf()}
    if kind == 3:
        return tag(rng.choice(["a", "b"]))
    if kind == 4:
        return {"type": "tags_with_separator", "tags": [tag("a"), tag("ba")], "separator": "b", **flags}
    if kind == 5:
        return {"type": "triggered_tags", "triggers": ["a", "bb"], "tags": [tag("ab"), tag("bb")], **flags}
    return {"type": "dispatch", "rules": [["ab", leaf()], ["bb", leaf()]], "loop": rng.random() < .5}


def theirs(source, texts, is_tags):
    """0 or 1 for each text, "" where xgrammar refuses the source, None where it crashes or takes 5 s."""
    read, write = os.pipe()
    if not (child := os.fork()):
        signal.alarm(5)
        try:
            made = xgrammar.Grammar.from_structural_tag(source) if is_tags else xgrammar.Grammar.from_ebnf(source)
            os.write(write, "".join("01"[_is_grammar_accept_string(made, t)] for t in texts).encode())
        except Exception:
            pass
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        match = pipe.read()
    return match if os.waitpid(child, 0)[1] == 0 else None


def main():
    is_tags, count = sys.argv[2] == "tags", int(sys.argv[4])
    texts = ["".join(t) for n in range(6 if is_tags else 5) for t in itertools.product("ab", repeat=n)] + ["c", "ca"]
    if is_tags and xgrammar is None:
        sys.exit("structural tags are judged by xgrammar, which is not installed: pip install xgrammar torch")
    cells = dict.fromkeys(("compared", "strings", "refused", "empty", "xgrammar refuses", "xgrammar crashes or hangs",
                           "grammars that xgrammar judges otherwise"), 0)
    different = []
    for _ in range(count):
        rules = None if is_tags else grammar()
        source = (json.dumps({"type": "structural_tag", "format": form(2)}) if is_tags else
                  "\n".join(f"{name} ::= {written(tree)}" for name, tree in rules.items()))
        others = theirs(source, texts, is_tags) if xgrammar else None
        if xgrammar and not others:
            cells["xgrammar refuses" if others == "" else "xgrammar crashes or hangs"] += 1
        if is_tags and not others:
            continue
        expected = others if is_tags else "".join("01"[derives(rules, t)] for t in texts)
        ours = ask("tag", source, texts) if is_tags else ask("grammar", source, texts, flags="r6")
        is_empty = not ours["ok"] and ("derives no text" in ours["message"] or "no text obeys" in ours["message"])
        if not ours["ok"] and not is_empty:
            cells["refused"] += 1
            continue
        match = "0" * len(texts) if is_empty else ours["match"]
        cells["empty" if is_empty else "compared"] += 1
        cells["strings"] += len(texts)
        cells["grammars that xgrammar judges otherwise"] += bool(others) and others != expected
        different += [(source, t, m) for t, m, n in zip(texts, match, expected) if m != n]
    print(cells, len(different), "different")
    for item in sorted(different, key=lambda d: len(d[0]))[:10]:
        print("DIFFERENT", *item)
    sys.exit(bool(different))


main()
