# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refusals that know their place in what a user wrote."""
from __future__ import annotations


class RefusedAt(ValueError):
    """A value that is refused. `place` is its place, such as `questions[0].options`."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(message)
        self.place = place
