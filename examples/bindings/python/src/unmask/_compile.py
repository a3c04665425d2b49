# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a regular expression, or a JSON Schema, to an automaton over bytes, in a process of its own: a short one
may need any amount of time and memory.

usage: python _compile.py BYTES regex < EXPRESSION > TABLE
       python _compile.py BYTES schema < [SCHEMA, WHITESPACE] > TABLE

BYTES is the most memory that the process may take, 0 for any; the list is JSON. TABLE: 32 bits each for the number of
states and the start, a byte for each state that is 1 if it accepts, and 256 numbers of 32 bits for each.
"""
from __future__ import annotations

import array
import json
import os
import re
import runpy
import sys
import warnings
from typing import Callable, Iterable

DEAD = 0xFFFFFFFF


# What ends each string for outlines-core, the last character of Unicode: its Index leaves out a byte that follows
# a whole string where the longer one is not whole yet (the second a of abab in (ab)+).
END = "\U0010ffff".encode()


def without_anchors(expression: str) -> str:
    """The expression without a ^ at its beginning and a $ at its end: all of an answer must match anyway."""
    text = expression.removeprefix("^")
    if re.search(r"(?<!\\)(\\\\)*\$\Z", text):
        text = text[:-1]
    outside = re.sub(r"\\[^z]|\[\^?\]?(?:\\.|[^\]\\])*\]", "", text, flags=re.DOTALL)  # of classes and escapes
    if "$" in outside or "\\z" in outside:
        raise ValueError("$ and \\z may stand at the end of an expression only: all of an answer must match anyway")
    return text


def table_of(expression: str) -> bytes:
    """The table of an expression."""
    from outlines_core import Index, Vocabulary

    expression = without_anchors(expression)
    every_byte = Vocabulary(256, {bytes([b]): [b] for b in range(256)})
    try:
        re.compile(expression)
    except Exception:  # perhaps another syntax, perhaps a parenthesis that would close ours
        Index(expression, every_byte)
    index = Index(rf"(?:{expression})\x{{10FFFF}}", every_byte)
    transitions, ended = index.get_transitions(), set(index.get_final_states())
    start = index.get_initial_state()
    names = {state: i for i, state in enumerate(sorted({start, *transitions, *ended}))}

    def is_whole(state: int | None) -> bool:
        for byte in END:
            state = transitions.get(state, {}).get(byte)
        return state in ended

    next_state = array.array("I", [DEAD]) * (256 * len(names))
    for state, by_byte in transitions.items():
        for byte, after in by_byte.items():
            if byte < 256 and after in names:  # 256 ends a string
                next_state[256 * names[state] + byte] = names[after]
    if sys.byteorder == "big":
        next_state.byteswap()
    head = len(names).to_bytes(4, "little") + names[start].to_bytes(4, "little")
    return head + bytes(is_whole(s) for s in names) + next_state.tobytes()


def table_of_schema(text: str, whitespace: str | None) -> bytes:
    """The table of a JSON Schema. Errors: ValueError with the place of what is not kept."""
    from outlines_core import json_schema

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_schema.py")
    module, usual = runpy.run_path(path), "[ ]?"  # outlines-core's
    schema, expressions, patterns = module["kept"](text)
    for pattern, place in patterns:
        try:
            escaped = _escaped_bytes(table_of(pattern))
        except Exception as error:
            raise ValueError(f"{place}: {error}") from None
        if escaped:
            raise ValueError(f"{place}: lets a string have byte 0x{escaped[0]:02x}, which JSON escapes; leave it out of the pattern")
    expression = json_schema.build_regex_from_schema(json.dumps(schema), whitespace)
    for name, of in expressions.items():
        expression = expression.replace(name, of.replace(module["SPACE"], usual if whitespace is None else whitespace))
    return table_of(expression)


def _moves_of(table: bytes) -> array.array[int]:
    """The states after each state and byte."""
    numbers = array.array("I")
    numbers.frombytes(table[8 + int.from_bytes(table[:4], "little") :])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _escaped_bytes(table: bytes) -> list[int]:
    """The bytes of a table's strings that must not stand in a JSON string as they are."""
    states, start = (int.from_bytes(table[i : i + 4], "little") for i in (0, 4))
    numbers = _moves_of(table)
    after = [{b: to for b, to in enumerate(numbers[256 * q : 256 * q + 256]) if to != DEAD} for q in range(states)]
    before: list[set[int]] = [set() for _ in range(states)]
    for q, by in enumerate(after):
        for to in by.values():
            before[to].add(q)

    def reached(queue: list[int], neighbours: Callable[[int], Iterable[int]]) -> set[int]:
        found = set(queue)
        for q in queue:
            more = set(neighbours(q)) - found
            found |= more
            queue.extend(more)
        return found

    ends = reached([q for q in range(states) if table[8 + q]], lambda q: before[q])
    live = reached([start], lambda q: after[q].values()) & ends
    return sorted({b for q in live for b, to in after[q].items() if to in live and (b < 32 or b in b'"\\')})


def file_of(table: bytes) -> bytes:
    """The same as a file of write_byte_table(), which constraint::read() of C++ reads."""
    states, numbers = int.from_bytes(table[:4], "little"), _moves_of(table)
    out = bytearray(b"unmaskDF" + (1).to_bytes(4, "little") + table[:8])
    for state in range(states):
        row = numbers[256 * state : 256 * state + 256]
        runs, first = bytearray(), 0
        for last in range(256):
            if last == 255 or row[last + 1] != row[first]:
                if row[first] != DEAD:
                    runs += bytes([first, last]) + row[first].to_bytes(4, "little")
                first = last + 1
        out += bytes([table[8 + state]]) + (len(runs) // 6).to_bytes(2, "little") + runs
    return bytes(out)


def main() -> None:
    most = int(sys.argv[1])
    if most:
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        except (ImportError, ValueError, OSError):
            pass  # no such limit on this system; that of time still holds
    given = sys.stdin.buffer.read().decode("utf-8")
    warnings.simplefilter("ignore")  # of expressions that Python reads in another way
    try:
        table = table_of(given) if sys.argv[2] == "regex" else table_of_schema(*json.loads(given))
    except Exception as error:  # shown by the caller
        print(error, file=sys.stderr)
        sys.exit(3)
    sys.stdout.buffer.write(table)


if __name__ == "__main__":
    main()
