# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""generate() for masked language models of MLX: LLaDA2 of mlx-vlm with its K/V, and any function that returns logits.

    from mlx_vlm import load
    from unmask.mlx import generate

    model, processor = load("inclusionAI/LLaDA2.1-mini")
    out = generate(model, processor.tokenizer.encode("..."), max_new_tokens=256)
    print(processor.tokenizer.decode(out.tokens), out.report.forwards)

Logits stay arrays of MLX, in float32, bfloat16 or float16, which the session reads where they are.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Callable, Sequence

import mlx.core as mx
import numpy as np

from . import _models, _text
from ._unmask import Commit, Constraint, Field, Report, Session

_REFUSED = {
    "cache": "it keeps the K/V that the model's own generate() keeps, and no others",
    "layer rule": "it gets logits only, no layer's hidden states",
    "branches": "it runs one copy of a sequence",
    "canvas": "it is for masked models",
    "probe": "it returns no probabilities; use unmask.Session",
}


@dataclasses.dataclass
class Generated:
    """What generate() returns.

    tokens   the answer, up to the token that stopped it
    report   forwards, committed, end, tokens_per_forward
    """

    tokens: list[int]
    report: Report


def generate(
    model: Any,
    input_ids: Sequence[int] | mx.array,
    policy: str | None = None,
    *,
    max_new_tokens: int | None = None,
    block_length: int | None = None,
    mask_token_id: int | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    shifted_logits: bool | None = None,
    suppress_mask: bool = True,
    seed: int = 0,
    callback: Callable[[list[Commit], Report], Any] | None = None,
    constraint: Constraint | None = None,
    threads: int = 1,
) -> Generated:
    """Decodes the answer to a prompt.

    model           a LLaDA2 of mlx-vlm, whose K/V of the blocks before are kept; or model(tokens) that returns logits
                    [1, length, vocab] of tokens [1, length], or an object with them as `logits`
    input_ids       the tokens of the prompt
    policy          a text; without one the word of the model, by config.model_type (`python -m unmask models`), or
                    threshold(0.9). What a word says of lengths, tokens and shift is the default of those arguments
    max_new_tokens  of the answer; without it the number of the word, or 256
    block_length    decoded at a time; 32 without a word
    mask_token_id   and eos_token_id: those of model.config by default. stop_at_eos stops at each EOS token
    shifted_logits  True for models whose row i predicts position i + 1
    suppress_mask   False lets the mask token be proposed, as released decoders do
    callback        called after each pass: (commits, report)
    constraint      the language of the answer (unmask.constraints)

    Errors: ValueError with the argument, its value and the rule.
    """
    config = getattr(model, "config", None)
    policy = _models.default(config) if policy is None else policy
    word = _models.of_policy(policy)
    mask = _known("mask_token_id", mask_token_id, config, None if word is None else word.mask_token)
    ends = eos_token_id if eos_token_id is not None else getattr(config, "eos_token_id", None)
    ends = list(word.eos_tokens if ends is None and word is not None else ends if isinstance(ends, (list, tuple)) else [ends])
    ends = [token for token in dict.fromkeys(ends) if token is not None and token != mask]
    _text.check(policy, "unmask.mlx.generate", _REFUSED, eos_token=ends[0] if ends else None)
    if "stop_at_eos" in _text.names(policy):
        policy += "".join(f" + stop_sequence([{token}])" for token in ends[1:])
    prompt = [int(token) for token in (input_ids.reshape(-1).tolist() if isinstance(input_ids, mx.array) else input_ids)]
    if not prompt:
        raise ValueError("input_ids must have at least one token, got none")
    new = max_new_tokens if max_new_tokens is not None else 256 if word is None else word.answer_length
    if isinstance(new, bool) or not isinstance(new, int) or new < 1:
        raise ValueError(f"max_new_tokens must be an integer, at least 1, got {new!r}")
    block = block_length if block_length is not None else 32 if word is None else word.block_length or new
    length = len(prompt) + new if word is None else word.length(len(prompt), new)
    tokens = np.array(prompt + [mask] * (length - len(prompt)), np.int32)
    shift = int(word is not None and word.logits_shift > 0 if shifted_logits is None else shifted_logits)
    engine = _engine(model, block)
    session = Session(
        policy, vocab=_known("vocab_size", None, config), mask_token=mask, eos_token=ends[0] if ends else None, length=length,
        window=length - len(prompt), logits_shift=shift, suppress_mask=suppress_mask, threads=threads)
    whole: Any = constraint if constraint is None else Field(constraint, 0, new)
    session.start(0, tokens, prompt_length=len(prompt), block_length=block, seed=seed, constraint=whole)
    while (request := session.next()) is not None:
        session.supply([engine(tokens, request.segments[0].rows)])
        if callback is not None:
            callback(session.committed(), session.report())
    report = session.report()
    end = min(report.answer_end, len(prompt) + new)
    answer = tokens[len(prompt) : end].tolist()
    stop = next((i + 1 for i, token in enumerate(answer) if token in ends), len(answer))
    return Generated(answer[:stop], report)


def _engine(model: Any, block_length: int) -> Callable[[np.ndarray, slice], mx.array]:
    """The logits of some rows of a sequence."""
    language = getattr(model, "language_model", model)
    if type(language).__module__ == "mlx_vlm.models.llada2_moe.language":
        return _Blocks(language, block_length)
    if not callable(model):
        raise ValueError(f"model must be a model of mlx-vlm, or a function that returns logits, got {type(model).__name__}")
    return lambda tokens, rows: _evaluated(model(mx.array(tokens)[None]), rows)


def _evaluated(output: Any, rows: slice) -> mx.array:
    logits = mx.contiguous(getattr(output, "logits", output)[0, rows])
    mx.eval(logits)
    return logits


class _Blocks:
    """LLaDA2 of mlx-vlm: a block sees itself and the blocks before it, which begin at multiples of their length."""

    def __init__(self, language: Any, length: int) -> None:
        from mlx_vlm.models import llada2_moe

        self._language, self._length = language, length
        self._kv = llada2_moe.language.StaticPrefixKVCache
        self._prefix: list[Any] | None = None
        self._kept = 0  # blocks whose K/V are in the prefix

    def __call__(self, tokens: np.ndarray, rows: slice) -> mx.array:
        at, n = rows.start // self._length, self._length
        if rows.stop > (at + 1) * n or len(tokens) % n:
            raise ValueError(f"the policy reads positions {rows.start} to {rows.stop - 1} at once; this model has blocks of {n} that "
                             "begin at multiples: write the word of the model, such as model:llada2_mlx, or a policy with "
                             "semi_autoregressive(aligned=true) and an answer that ends with a block")
        if self._prefix is None:
            self._prefix = [self._kv(len(tokens)) for _ in self._language.layers]
        ids = mx.array(tokens)[None]
        while self._kept < at:
            mx.eval(self._language.model(ids[:, self._kept * n : (self._kept + 1) * n], cache=self._prefix))
            self._kept += 1
        output = self._language(ids[:, at * n : (at + 1) * n], cache=[self._kv.from_prefix(kept) for kept in self._prefix])
        return _evaluated(output, slice(rows.start - at * n, rows.stop - at * n))


def _known(name: str, given: int | None, config: Any, otherwise: int | None = None) -> int:
    found = given if given is not None else getattr(config, name, None)
    found = otherwise if found is None else found
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError(f"{name} must be given: model.config has none" if given is None else f"{name} must be an integer, got {found!r}")
    return found
