# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of a search that outlive it: what a run has decoded, another one reads."""
from __future__ import annotations

import json
import os
from typing import Any, Callable, Sequence

from ._unmask import Decoded

Decode = Callable[[str, "list[int]"], "list[Decoded]"]


def kept(decode: Decode, file: str | os.PathLike[str], engine: str, problems: int) -> Decode:
    """`decode` that writes its results into a file, and takes those that the file has from there. A line of JSON each,
    [policy, problem, right, forwards, segments, layer positions, seconds], after one that says what they are of."""
    head = {"unmask": "results", "engine": engine, "problems": problems}
    known, length = _read(file, head)
    out = open(file, "r+b" if length else "wb", buffering=0)
    out.truncate(length)  # without a line that was cut
    out.seek(length)
    if not length:
        out.write(_line(head))

    def decoded(policy: str, indexes: list[int]) -> list[Decoded]:
        missing = [i for i in indexes if (policy, i) not in known]
        if missing:
            results = decode(policy, missing)
            if not _are_results(results, len(missing)):
                return results  # the search says what is wrong with them
            for i, r in zip(missing, results):
                known[policy, i] = r
            out.write(b"".join(_line([policy, i, r.right, r.forwards, r.segments, r.layer_positions, r.seconds])
                               for i, r in zip(missing, results)))
        return [known[policy, i] for i in indexes]

    return decoded


def _are_results(results: Any, count: int) -> bool:
    return isinstance(results, list) and len(results) == count and all(isinstance(r, Decoded) for r in results)


def _line(value: Any) -> bytes:
    return (json.dumps(value) + "\n").encode()


def _read(file: str | os.PathLike[str], head: dict[str, Any]) -> tuple[dict[tuple[str, int], Decoded], int]:
    """The results in a file, and its length without a last line that was cut."""
    known: dict[tuple[str, int], Decoded] = {}
    try:
        with open(file, "rb") as text:
            lines = text.read().splitlines(keepends=True)
    except FileNotFoundError:
        return known, 0
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if number == 1:
            if value != head:
                raise ValueError(f"resume must be a new file, or one of the same engine and problems: {os.fspath(file)!r} "
                                 f"begins with {line[:200].decode(errors='replace').strip()}, not {json.dumps(head)}")
            continue
        try:
            policy, problem, right, forwards, segments, layer_positions, seconds = value
            if not (isinstance(policy, str) and isinstance(problem, int) and isinstance(right, bool)):
                raise TypeError
            known[policy, problem] = Decoded(right, forwards=forwards, segments=segments,
                                             layer_positions=layer_positions, seconds=seconds)
        except (TypeError, ValueError):
            raise ValueError(f"resume: line {number} of {os.fspath(file)!r} is no result of a search: "
                             f"{line[:200].decode(errors='replace').strip()}") from None
    return known, sum(map(len, lines))


__all__: Sequence[str] = ["kept"]
