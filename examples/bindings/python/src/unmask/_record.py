# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports as dicts."""
from __future__ import annotations

from typing import Any

from ._unmask import Report

_NAMES = tuple(name for name in dir(Report) if not name.startswith("_") and not callable(getattr(Report, name)))


def as_dict(report: Report) -> dict[str, Any]:
    """The members of a report, with its `end` as a text."""
    return {name: value.name if name == "end" else value for name in _NAMES for value in [getattr(report, name)]}
