# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small real LLaDA in NumPy, with its weights, to try policies: 1.3 million parameters, 98 characters.

    from unmask.tiny_llada import TinyLlada, decode, problems

    answer = decode(TinyLlada(), "trace_credit + threshold(0.9)", "Q:Ora has 2 books. Buys 8. How many?")
    print(answer.text, answer.report.forwards)
"""
from __future__ import annotations

import json
import os
import pathlib
import struct
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from .._unmask import Commit, Constraint, Field, Probability, Report, Session, Vocabulary

MASK, END, BEGIN, FIRST = 0, 1, 2, 3  # then printable ASCII from 32 on
ANSWER, BLOCK = 40, 20  # positions behind the prompt, and of a block
CONTEXT = 256  # most tokens of a sequence
FOLDER = pathlib.Path(__file__).resolve().parent


def read_gguf(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and tensors, as float32, of a GGUF file of version 3 with tensors of 32 and 16 bits."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0

    def take(form: str) -> Any:
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text() -> str:
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size : at].decode()

    def value(kind: int) -> Any:
        if kind == 8:
            return text()
        if kind == 9:
            element, count = take("IQ")
            return [value(element) for _ in range(count)]
        return take("BbHhIif?__Qqd"[kind])

    if len(data) < 24 or take("II") != (0x46554747, 3):
        raise ValueError(f"{path}: no GGUF file of version 3")
    tensors, pairs = take("QQ")
    meta = {}
    for _ in range(pairs):
        key = text()
        meta[key] = value(take("I"))
    shapes = []
    for _ in range(tensors):
        name, dimensions = text(), take("I")
        shape = [take("Q") for _ in range(dimensions)]
        kind, offset = take("IQ")
        if kind not in (0, 1):
            raise ValueError(f"{path}: tensor {name} is of type {kind}, only f32 (0) and f16 (1) are read here")
        shapes.append((name, shape[::-1], (np.float32, np.float16)[kind], offset))
    alignment = meta.get("general.alignment", 32)
    start = -(-at // alignment) * alignment
    weights = {
        name: np.frombuffer(data, kind, int(np.prod(shape)), start + offset).reshape(shape).astype(np.float32)
        for name, shape, kind, offset in shapes
    }
    return meta, weights


class TinyLlada:
    """Called with tokens [batch, length], returns logits [batch, length, 98] in float32.

    `positions` are those of the tokens, by default 0, 1, ...; `sees` [length, length] is True where the row attends to
    the column, by default everywhere. `soft` has the soft tokens of masked positions (Session.soft_tokens): the embedding
    of such a position is that of its token and, with `weight`, the mixture of theirs by `share`. `between_layers` is
    called in front of each layer, and may raise.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        meta, self.w = read_gguf(path or FOLDER / "tiny-f16.gguf")
        self.layers = meta["llada.block_count"]
        self.heads = meta["llada.attention.head_count"]
        self.epsilon = np.float32(meta["llada.attention.layer_norm_rms_epsilon"])
        width = meta["llada.embedding_length"] // self.heads
        self.scale = np.float32(width**-0.5)
        self.turns = np.float32(meta["llada.rope.freq_base"]) ** (-np.arange(0, width, 2, dtype=np.float32) / width)

    def __call__(
        self,
        tokens: Any,
        positions: np.ndarray | None = None,
        sees: np.ndarray | None = None,
        soft: Sequence[Probability] = (),
        weight: float = 0.0,
        between_layers: Callable[[], None] = lambda: None,
    ) -> np.ndarray:
        tokens = np.asarray(tokens)
        batch, length = tokens.shape
        places = np.arange(length) if positions is None else positions
        angle = places.astype(np.float32)[:, None] * self.turns
        cos, sin = np.cos(angle), np.sin(angle)

        def turned(x: np.ndarray) -> np.ndarray:  # neighbouring pairs turn together
            even, odd = x[..., 0::2], x[..., 1::2]
            return np.stack((even * cos - odd * sin, even * sin + odd * cos), -1).reshape(x.shape)

        h = self.w["token_embd.weight"][tokens]
        for position in {s.position for s in soft}:
            h[:, position] *= np.float32(1 - weight)
        for s in soft:
            h[:, s.position] += np.float32(weight * s.share) * self.w["token_embd.weight"][s.token]
        for i in range(self.layers):
            between_layers()
            w = {n: self.w[f"blk.{i}.{n}.weight"].T for n in (
                "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")}
            x = self._norm(h, w["attn_norm"])
            q, k, v = ((x @ w[n]).reshape(batch, length, self.heads, -1).swapaxes(1, 2)
                       for n in ("attn_q", "attn_k", "attn_v"))
            scores = turned(q) @ turned(k).swapaxes(-1, -2) * self.scale
            if sees is not None:
                scores = np.where(sees, scores, np.float32(-np.inf))
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            attended = scores / scores.sum(-1, keepdims=True) @ v
            h = h + attended.swapaxes(1, 2).reshape(batch, length, -1) @ w["attn_output"]
            x = self._norm(h, w["ffn_norm"])
            gate = x @ w["ffn_gate"]
            h = h + (gate / (1 + np.exp(-gate)) * (x @ w["ffn_up"])) @ w["ffn_down"]
        return self._norm(h, self.w["output_norm.weight"]) @ self.w["output.weight"].T

    def _norm(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * weight


def tokens_of(text: str) -> list[int]:
    """A token for each character."""
    for c in text:
        if not 32 <= ord(c) <= 126:
            raise ValueError(f"text has {c!r}; the model knows the printable characters of ASCII")
    return [FIRST + ord(c) - 32 for c in text]


def token_text(token: int) -> str:
    """The character of a token; a mask is `_`, the end of the answer nothing."""
    return {MASK: "_", END: "", BEGIN: ""}[token] if token < FIRST else chr(32 + token - FIRST)


def vocabulary() -> Vocabulary:
    """The bytes of its tokens, for constraints."""
    return Vocabulary([b""] * FIRST + [bytes([c]) for c in range(32, 127)], vocab=98, mask_token=MASK, eos_token=END)


def text_of(tokens: Sequence[int]) -> str:
    """The text of tokens before the first end token."""
    tokens = list(map(int, tokens))
    return "".join(map(token_text, tokens[: tokens.index(END)] if END in tokens else tokens))


class Attention:
    """Whole passes of a TinyLlada over one sequence, for segments of every kind of attention.

    Each position attends to what it attended to in the pass that computed it last, so that a causal pass leaves keys
    and values that a later pass finds, although none are kept here.
    """

    def __init__(self, model: TinyLlada, length: int) -> None:
        self.model = model
        self.sees = np.ones((length, length), dtype=bool)

    def logits(self, tokens: np.ndarray, segments: Sequence[Any]) -> list[np.ndarray]:
        """The rows of each segment: the sequence, and its shadow if there is one."""
        run, last = segments[0].query, segments[0].keys.stop
        self.sees[run] = False
        self.sees[run, :last] = True
        if segments[0].attention == "causal":
            self.sees[run] &= np.tri(len(tokens), dtype=bool)[run]
        if len(segments) == 1:
            return [self.model(tokens[None, :last], sees=self.sees[:last, :last])[0][segments[0].rows]]
        shadow = np.arange(last)[segments[1].query]
        positions = np.concatenate((np.arange(last), shadow))
        sees = np.ones((len(positions), len(positions)), dtype=bool)
        sees[:last] = np.pad(self.sees[:last, :last], ((0, 0), (0, len(shadow))))  # which sees no shadow
        sees[last + np.arange(len(shadow)), shadow] = False
        everything = np.concatenate((tokens[:last], np.full(len(shadow), MASK)))
        rows = self.model(everything[None], positions, sees)[0]
        wanted = segments[1].rows
        return [rows[segments[0].rows], rows[last + wanted.start - shadow[0] : last + wanted.stop - shadow[0]]]


@dataclass
class Answer:
    """A decode: its text before the end token, all tokens, the session's report."""

    text: str
    tokens: np.ndarray
    report: Report

    def _asdict(self) -> dict[str, Any]:
        """Text, tokens and the members of the report: a row for pandas.DataFrame, and JSON."""
        return {"text": self.text, "tokens": self.tokens.tolist(), **self.report._asdict()}


def decode(
    model: Callable[[np.ndarray], np.ndarray],
    policy: str,
    prompt: str,
    *,
    length: int = ANSWER,
    block_length: int = BLOCK,
    seed: int = 0,
    trace: bool | str = False,
    show: Callable[[np.ndarray, list[Commit]], None] | None = None,
    constraint: Constraint | Field | None = None,
    soft_tokens: int = 0,
    soft_weight: float = 0.25,
) -> Answer:
    """Answers one prompt; show(tokens of the answer, what was committed) is called after each pass.

    `trace` names a file for the decode as a trace. The whole sequence runs in each pass; policies
    with a layer rule need an engine that computes single positions. A TinyLlada also runs causal and shadow
    segments; any other `model` is called with tokens alone. `constraint` is the language of the answer
    (unmask.constraints). With `soft_tokens` a pass mixes into the embedding of each position that
    stayed masked those of its most probable tokens in the pass before, with the weight
    `soft_weight`, in a TinyLlada without causal or shadow segments; the model was not trained so.
    """
    start = [BEGIN] + tokens_of(prompt)
    if len(start) + length > CONTEXT:
        raise ValueError(f"prompt has {len(prompt)} characters; it must have at most {CONTEXT - 1 - length}")
    tokens = np.array(start + [MASK] * length, dtype=np.int32)
    session = Session(
        policy,
        vocab=98,
        mask_token=MASK,
        eos_token=END,
        length=len(tokens),
        window=length,
        causal_attention=isinstance(model, TinyLlada),
        shadow_attention=isinstance(model, TinyLlada),
        branches=16,
        layers=1,  # whatever the model has: layer rules are refused below
        trace=trace,
        model="tiny-llada",
        token_text=token_text if trace else None,
    )
    if session.single_positions:
        raise ValueError(f"policy '{policy}' needs an engine that computes single positions; "
                         "this one runs every position in each layer")
    session.start(0, tokens, prompt_length=len(start), block_length=block_length, seed=seed, constraint=constraint,
                  soft_tokens=soft_tokens)
    attention = None
    while (request := session.next()) is not None:
        if attention is None and any(s.attention != "bidirectional" for s in request.segments):
            attention = Attention(model, len(tokens))
        if attention is not None:
            session.supply(attention.logits(tokens, request.segments))
            if show is not None:
                show(tokens[len(start) :], session.committed(0))
            continue
        passed = np.repeat(tokens[None], len(request.segments), 0)
        for row, segment in zip(passed, request.segments):
            for position, token in segment.placed:
                row[position] = token
        logits = model(passed, soft=session.soft_tokens(0), weight=soft_weight) if soft_tokens else model(passed)
        session.supply([rows[s.rows] for rows, s in zip(logits, request.segments)])
        if show is not None:
            show(tokens[len(start) :], session.committed(0))
    return Answer(text_of(tokens[len(start) :]), tokens, session.report(0))


def problems() -> list[dict[str, str]]:
    """400 tasks with their answers: {"task", "prompt", "answer"}."""
    with open(FOLDER / "prompts.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
