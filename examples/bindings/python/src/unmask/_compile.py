# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a regular expression to an automaton over bytes, in a process of its own: a short expression
may need any amount of time and memory.

usage: python _compile.py BYTES < EXPRESSION > TABLE

BYTES is the most memory that the process may take, 0 for any. TABLE: 32 bits each for the number of
states and the start, a byte for each state that is 1 if it accepts, and 256 numbers of 32 bits for each.
"""
from __future__ import annotations

import array
import sys

DEAD = 0xFFFFFFFF


def table_of(expression: str) -> bytes:
    """The table of an expression."""
    from outlines_core import Index, Vocabulary

    index = Index(expression, Vocabulary(256, {bytes([b]): [b] for b in range(256)}))
    transitions, accepting = index.get_transitions(), set(index.get_final_states())
    start = index.get_initial_state()
    names = {state: i for i, state in enumerate(sorted({start, *transitions, *accepting}))}
    next_state = array.array("I", [DEAD]) * (256 * len(names))
    for state, by_byte in transitions.items():
        for byte, after in by_byte.items():
            if byte < 256 and after in names:  # 256 ends a string
                next_state[256 * names[state] + byte] = names[after]
    if sys.byteorder == "big":
        next_state.byteswap()
    head = len(names).to_bytes(4, "little") + names[start].to_bytes(4, "little")
    return head + bytes(s in accepting for s in names) + next_state.tobytes()


def main() -> None:
    most = int(sys.argv[1])
    if most:
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        except (ImportError, ValueError, OSError):
            pass  # no such limit on this system; that of time still holds
    expression = sys.stdin.buffer.read().decode("utf-8")
    try:
        table = table_of(expression)
    except Exception as error:  # shown by the caller
        print(error, file=sys.stderr)
        sys.exit(3)
    sys.stdout.buffer.write(table)


if __name__ == "__main__":
    main()
