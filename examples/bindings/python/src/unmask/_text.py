# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts that a policy's text names, for hosts that cannot run every part."""
from __future__ import annotations

import functools
import re
from typing import Iterator, Mapping

from ._unmask import Session, describe_parts


@functools.lru_cache(maxsize=1)
def _described() -> dict[str, list[str]]:
    """The lines of the description of each part and method by name: its signature, then the rest."""
    found, lines = {}, []
    for line in filter(None, describe_parts().splitlines()):
        if not line.startswith(" "):
            lines = found[line.split("(")[0]] = []
        lines.append(line)
    return found


@functools.lru_cache(maxsize=1)
def families() -> dict[str, str]:
    """The family of each part and method by name: "ranking", "commit rule", "cache", "method"."""
    return {name: lines[1].strip().split(":")[0] for name, lines in _described().items()}


@functools.lru_cache(maxsize=1)
def _methods() -> dict[str, str]:
    """The text that each method stands for."""
    return {name: line[6:] for name, lines in _described().items() for line in lines if line.startswith("    = ")}


def names(policy: str) -> Iterator[str]:
    """The names of parts in a text, those inside any_of(), all_of(), at_most() and methods included."""
    for name in re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"|\'[^\']*\'', "", policy)):
        if name in families():
            yield name
            if name in _methods():
                yield from names(_methods()[name])


REWRITES = (
    "token editing", "remask", "canvas", "edited_blocks", "running_confidence", "remdm_loop", "remdm_conf", "wino",
    "joint_threshold_indel", "daedal", "rho_eos",
)
"""Families and names of parts that may replace, mask or move a committed token."""


def rewrites(policy: str) -> bool:
    """Whether a committed token may be replaced or masked before the end, so that none can be streamed."""
    return any(name in REWRITES or families().get(name) in REWRITES for name in names(policy))


def arguments(policy: str, name: str) -> dict[str, float] | None:
    """The numbers that a text gives to a part, defaults included; None if it has no such part."""
    written = re.search(rf"\b{name}\b\s*(?:\(([^()]*)\))?", policy)
    if written is None:
        return None
    header = _described()[name][0]
    values = dict(item.split("=") for item in header[len(name) + 1 : -1].split(", ") if "=" in item)
    for place, item in enumerate(filter(None, (written[1] or "").split(","))):
        key, _, value = item.rpartition("=")
        values[key.strip() or list(values)[place]] = value
    return {key: float(value) for key, value in values.items() if re.fullmatch(r"[\d.e+-]+", value.strip())}


def check(
    policy: str, host: str, refused: Mapping[str, str], *, files: bool = True, **options: int | None
) -> None:
    """Raises ValueError if the text is none, or has a part, or a part of a family, in `refused`.

    `refused` has the reason by name of part or family; `files` and `options` are those of Session: a
    request may come from anyone, so that its policy names no file.
    """
    if not isinstance(policy, str):
        raise ValueError(f"policy must be a text, got {type(policy).__name__}")
    for name in ["replay"] * bool(re.match(r"\s*replay\s*\(", policy)) + list(names(policy)):
        reason = refused.get(name) or refused.get(families().get(name, ""))
        if reason:
            raise ValueError(f"policy '{policy}': {host} cannot run {name}: {reason}")
    # A vocabulary that has every token of the text; 1 row.
    Session(policy, files=files, **{"vocab": 1 << 20, "mask_token": (1 << 20) - 1, "length": 1, "window": 1, **options})
