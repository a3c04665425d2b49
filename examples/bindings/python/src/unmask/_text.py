# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts that a policy's text names, for hosts that cannot run every part."""
from __future__ import annotations

import functools
import re
from typing import Any, Iterator, Mapping

from ._unmask import Session, describe_parts, policy_parts


@functools.lru_cache(maxsize=1)
def families() -> dict[str, str]:
    """The family of each part and method by name: "ranking", "commit rule", "cache", "method"."""
    lines = [line for line in describe_parts().splitlines() if line]  # a signature, then indented lines about it
    return {name.split("(")[0]: about.strip().split(":")[0] for name, about in zip(lines, lines[1:]) if name[0] != " "}


@functools.lru_cache(maxsize=64)  # a request is read several times
def parts(policy: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The parts of a text with all of their arguments, as policy_parts(); those of a replay are in its trace."""
    return () if _is_replay(policy) else tuple(policy_parts(policy))


def _is_replay(policy: str) -> bool:
    return re.match(r"\s*replay\s*\(", policy) is not None


def names(policy: str) -> Iterator[str]:
    """The names of the parts of a text, those inside any_of(), all_of(), at_most() and methods included."""
    return (name for name, _ in parts(policy))


MOVING = ("joint_threshold_indel", "daedal", "rho_eos")
"""Names of parts that may move text: their reports say where it ends."""

REWRITES = (
    "token editing", "remask", "canvas", "edited_blocks", "running_confidence", "remdm_loop", "remdm_conf", "wino", *MOVING,
)
"""Families and names of parts that may replace, mask or move a committed token."""


def rewrites(policy: str) -> bool:
    """Whether a committed token may be replaced or masked before the end, so that none can be streamed."""
    return any(name in REWRITES or families().get(name) in REWRITES for name in names(policy))


def arguments(policy: str, name: str) -> dict[str, Any] | None:
    """The arguments of the first part of that name, defaults included; None if the text has no such part."""
    return next((given for part, given in parts(policy) if part == name), None)


def check(
    policy: str, host: str, refused: Mapping[str, str], *, files: bool = True, **options: int | None
) -> None:
    """Raises ValueError if the text is none, or has a part, or a part of a family, in `refused`.

    `refused` has the reason by name of part or family; `files` and `options` are those of Session: a
    request may come from anyone, so that its policy names no file.
    """
    if not isinstance(policy, str):
        raise ValueError(f"policy must be a text, got {type(policy).__name__}")
    for name in ["replay"] * _is_replay(policy) + list(names(policy)):
        reason = refused.get(name) or refused.get(families().get(name, ""))
        if reason:
            raise ValueError(f"policy '{policy}': {host} cannot run {name}: {reason}")
    # A vocabulary that has every token of the text; 1 row.
    Session(policy, files=files, **{"vocab": 1 << 20, "mask_token": (1 << 20) - 1, "length": 1, "window": 1, **options})
