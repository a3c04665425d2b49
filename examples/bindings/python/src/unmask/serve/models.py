# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of the server: a small protocol, and the LLaDA of the package under it."""
from __future__ import annotations

from typing import Callable, Protocol, Sequence

import numpy as np


class GivenUp(Exception):
    """A call of forward() ended early because it was asked to."""


class Model(Protocol):
    """What the server asks of a model. Its thread alone calls forward()."""

    name: str
    vocab: int
    """Valid columns of the logits."""
    mask_token: int
    eos_token: int | None
    also_eos: Sequence[int]
    """Other tokens that end a text, such as the end of a turn."""
    logits_shift: int
    """Row p - shift predicts position p: 0 LLaDA, 1 Dream."""
    context: int
    """Most tokens of a prompt and its answer."""
    answer_length: int
    """Positions of an answer, and of a block of it, where a request names none."""
    block_length: int
    token_bytes: Sequence[bytes]
    """The bytes of each token, b"" for those without text."""

    # together: int = the slots of the server
    #     Most sequences of a call of forward(). 1 for a model that takes twice as long for two: the server can then
    #     let the first pass of a new answer go between the calls.
    # give_up: Callable[[], bool]
    #     A model that has it is given a function before each call. forward() asks it every few milliseconds; once it
    #     returns True, forward() raises GivenUp, and is called again later. The first pass of a new answer then waits
    #     for no call to end.
    # config: Any = None
    #     Its `model_type`, and the name of its checkpoint as `_name_or_path`, find the word of the model, which is then the
    #     policy of requests that name none.
    # encode_text(text: str) -> list[int]
    #     The tokens of a text inside a prompt. Without it: those of encode(text), without those of encode("") in front.
    # chat_template: str | None = None
    #     The template of encode_chat(), by whose text the server finds the format of calls. A model without one is told
    #     nothing about tools. With that of Llama a message may have the role tool.

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt, with those in front of it; ValueError for a text that it cannot have."""

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Like encode(), of {"role", "content"}, up to the begin of the answer. A content is text: special tokens that
        are spelled out in it are not parsed.
        """

    def forward(self, sequences: list[np.ndarray], rows: list[slice]) -> list[np.ndarray]:
        """The logits of these rows of each sequence, [rows, vocab or more], until the next call.

        Sequences of int32 have different lengths, none sees another, and all positions see each other.
        Where the logits of a sequence do not depend on those next to it, neither do a request's tokens.
        """


class Tiny:
    """The small LLaDA of the package, in NumPy."""

    name = "tiny"
    logits_shift = 0
    together = 1
    also_eos: Sequence[int] = ()
    eos_token: int | None
    token_bytes: Sequence[bytes]

    def __init__(self) -> None:
        from .. import tiny_llada

        self._tiny = tiny_llada
        self._model = tiny_llada.TinyLlada()
        self.give_up: Callable[[], bool] = lambda: False
        self.vocab, self.mask_token, self.eos_token = 98, tiny_llada.MASK, tiny_llada.END
        self.context, self.answer_length, self.block_length = tiny_llada.CONTEXT, tiny_llada.ANSWER, tiny_llada.BLOCK
        self.token_bytes = [b""] * tiny_llada.FIRST + [bytes([c]) for c in range(32, 127)]

    def encode(self, text: str) -> list[int]:
        return [self._tiny.BEGIN, *self._tiny.tokens_of(text)]

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """It knows no turns: contents follow one another."""
        return self.encode(" ".join(m["content"] for m in messages))

    def forward(self, sequences: list[np.ndarray], rows: list[slice]) -> list[np.ndarray]:
        found: list[np.ndarray] = [np.empty(0)] * len(sequences)
        alike: dict[int, list[int]] = {}
        for i, tokens in enumerate(sequences):  # it has no padding
            alike.setdefault(len(tokens), []).append(i)
        for group in alike.values():
            for i, logits in zip(group, self._model(np.stack([sequences[i] for i in group]), between_layers=self._between_layers)):
                found[i] = logits[rows[i]]
        return found

    def _between_layers(self) -> None:
        if self.give_up():
            raise GivenUp


def load(name: str, *, threads: int = 1) -> Model:
    """`tiny`, or the path of a GGUF file, which llama-cpp-python runs."""
    if name == "tiny":
        return Tiny()
    if not name.endswith(".gguf"):
        raise ValueError(f"model must be tiny or a file *.gguf, got {name!r}")
    from ..llama_cpp import LlamaCpp

    return LlamaCpp(name, threads=threads)
