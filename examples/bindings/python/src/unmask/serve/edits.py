# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of a request that change logits before the policy reads them."""
from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import numpy as np

from .models import Model


@dataclasses.dataclass(frozen=True)
class Edits:
    """In the order of vLLM: biases and banned tokens, repetition_penalty, then frequency_penalty and presence_penalty.

    They count every token that is committed or given, however many there are: those of prompt and answer for
    repetition_penalty, those of the answer for the others. A position does not count its own token.
    """

    bias: Mapping[int, float]
    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    min_tokens: int = 0
    """Positions of the answer that get none of Model.also_eos; the policy's min_new_tokens knows eos_token alone."""

    def act(self) -> bool:
        return self != Edits({})

    def of(self, logits: Any, position: int, tokens: np.ndarray, prompt: int, model: Model) -> np.ndarray:
        """A copy of rows, which begin at `position`, with the edits of a sequence of `tokens`."""
        edited = np.array(logits)
        positions = np.arange(position, position + len(edited))
        if self.bias:
            edited[:, list(self.bias)] += np.array(list(self.bias.values()), edited.dtype)
        if self.min_tokens and len(model.also_eos):
            edited[np.ix_(np.flatnonzero(positions < prompt + self.min_tokens), np.array(model.also_eos))] = -np.inf
        if self.repetition != 1:
            found, times = _counted(tokens, 0, positions, model)
            z = edited[:, found].astype(np.float32)
            penalised = np.where(z > 0, z / self.repetition, z * self.repetition)
            edited[:, found] = np.where(times > 0, penalised, z)
        if self.frequency or self.presence:
            found, times = _counted(tokens, prompt, positions, model)
            edited[:, found] -= (self.frequency * times + self.presence * (times > 0)).astype(edited.dtype)
        return edited


def _counted(tokens: np.ndarray, first: int, positions: np.ndarray, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The distinct tokens from `first` on, and how often each is there, without the position of each row."""
    found, counts = np.unique(tokens[first:][tokens[first:] != model.mask_token], return_counts=True)
    inside = (positions >= first) & (positions < len(tokens))
    own = np.where(inside, tokens[np.clip(positions, 0, len(tokens) - 1)], model.mask_token)
    return found, counts - (own[:, None] == found)
