#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random grammars and structural tags beside xgrammar, on every short text.

usage: grammars.py JUDGED grammars|tags SEED COUNT

JUDGED is judged.cpp, compiled; needs the package xgrammar, and PyTorch, which it imports. The status is 1 where they
differ: of grammars with recursion enough for the texts.
"""
import itertools
import json
import os
import random
import signal
import subprocess
import sys

import xgrammar
from xgrammar.testing import _is_grammar_accept_string

judged = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
rng = random.Random(int(sys.argv[3]))


def ask(kind, source, texts, flags="-"):
    lines = [f"{kind} {flags} 0 {len(texts)}"] + [t.encode().hex() for t in [source, *texts]]
    judged.stdin.write(("\n".join(lines) + "\n").encode())
    judged.stdin.flush()
    return json.loads(judged.stdout.readline().decode("utf-8", "surrogateescape"))


def part(depth, names):
    kind = rng.random()
    if depth == 0 or kind < .25:
        return rng.choice(['"a"', '"b"', "[ab]", "[^b]", '"ab"', '"\\x61"', '[\\u0061-c]', '""'])
    if kind < .5:
        return rng.choice(names)
    if kind < .8:
        return "(" + rng.choice([" ", " | "]).join(part(depth - 1, names) for _ in range(rng.choice([2, 3]))) + ")"
    return "(" + part(depth - 1, names) + ")" + rng.choice(["*", "+", "?", "{2}", "{0,2}", "{1,}"])


def grammar():
    names = ["root", "x", "y.z"][:rng.choice([1, 2, 3])]
    return "\n".join(f"{n} ::= {part(3, names)}" for n in names)


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
    cells = dict.fromkeys(("compared", "strings", "refused", "empty", "xgrammar refuses",
                           "xgrammar crashes or hangs"), 0)
    different = []
    for _ in range(count):
        source = json.dumps({"type": "structural_tag", "format": form(2)}) if is_tags else grammar()
        if not (others := theirs(source, texts, is_tags)):
            cells["xgrammar refuses" if others == "" else "xgrammar crashes or hangs"] += 1
            continue
        ours = ask("tag", source, texts) if is_tags else ask("grammar", source, texts, "r12")
        is_empty = not ours["ok"] and ("derives no text" in ours["message"] or "no text obeys" in ours["message"])
        if not ours["ok"] and not is_empty:
            cells["refused"] += 1
            continue
        match = "0" * len(texts) if is_empty else ours["match"]
        cells["empty" if is_empty else "compared"] += 1
        cells["strings"] += len(texts)
        different += [(source, t, m) for t, m, n in zip(texts, match, others) if m != n]
    print(cells, len(different), "different")
    for item in sorted(different, key=lambda d: len(d[0]))[:10]:
        print("DIFFERENT", *item)
    sys.exit(bool(different))


main()
