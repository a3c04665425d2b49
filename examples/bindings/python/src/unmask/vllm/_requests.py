# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a request of vLLM names by its extra_args: a policy, a seed and a language.

An exception in a sampler would end the engine, so what cannot be honoured is logged.
"""
from __future__ import annotations

import json
from typing import Any, Callable, Optional

import numpy as np
import torch
from vllm.logger import init_logger
from vllm.model_executor.models.diffusion_gemma import _concat_logprob_stashes

from .. import constraints
from .._unmask import Constraint, Field, Session, Vocabulary

logger = init_logger(__name__)

NOTHING: Any = object()  # the language of a request that cannot be obeyed

REFUSED = {
    "cache": "vLLM decides what its passes run",
    "layer rule": "vLLM gives the sampler logits only, no layer's hidden states",
    "branches": "vLLM runs one copy of a sequence",
    "probe": "vLLM has no place for its answers; ask for logprob_token_ids",
    "replay": "a trace belongs to one sequence",
}


def server_settings(state: Any) -> tuple[Optional[str], Optional[int], int]:
    """The policy of --additional-config, the model's EOS token and the threads; None is what is not given."""
    config = state.vllm_config.additional_config
    config = config if isinstance(config, dict) else {}
    eos = getattr(state.model_config.hf_text_config, "eos_token_id", None)
    return config.get("unmask_policy"), eos if isinstance(eos, int) else None, config.get("unmask_threads", 1)


def joined(stashes: list[Any]) -> Any:
    """The log-probs of a batch from those of its requests, None for one that emits none."""
    sizes = [0 if s is None else len(s.logprobs) for s in stashes]
    there = [s for s in stashes if s is not None]
    return _concat_logprob_stashes(there, np.cumsum([0, *sizes[:-1]]).tolist()) if there else None


def language_of(wanted: Any, words: Callable[[], Vocabulary] | None, eos_token: int | None) -> Constraint:
    """The language that `unmask_constraint` of a request describes, a dict or its JSON. Raises ValueError and TypeError."""
    given = wanted
    if isinstance(wanted, str):
        try:
            given = json.loads(wanted)
        except (ValueError, RecursionError):
            pass
    if not isinstance(given, dict) or len(given) != 1 or next(iter(given)) not in constraints.KINDS:
        raise ValueError(f"unmask_constraint must be a dict with one of {', '.join(constraints.KINDS)}, or its JSON, got {wanted!r:.200}")
    if words is None or eos_token is None:
        raise ValueError("unmask_constraint needs a tokenizer and an EOS token")
    kind, value = next(iter(given.items()))
    return constraints.KINDS[kind](value, words())


def words_of(model_config: Any, mask_token: int, eos_token: int | None, generation_config: Any) -> Vocabulary:
    """The bytes of the model's tokens."""
    from vllm.tokenizers import cached_tokenizer_from_config

    ends = generation_config.get("eos_token_id") or []
    return constraints.vocabulary(
        cached_tokenizer_from_config(model_config), vocab=model_config.get_vocab_size(), mask_token=mask_token,
        eos_token=eos_token, also_eos=sorted({*([ends] if isinstance(ends, int) else ends)} - {eos_token}),
    )


class Named:
    """What samplers share: `policy`, `_eos_token`, `_words` and `check(policy, files)` are theirs."""

    policy: str
    _eos_token: int | None
    _words: Callable[[], Vocabulary] | None

    def check(self, policy: Any, *, files: bool) -> None:
        """Raises ValueError for a text that the sampler cannot run."""
        raise NotImplementedError

    def _policy_for(self, wanted: Any) -> str:
        if wanted is None:
            return self.policy
        try:
            self.check(wanted, files=False)
            return wanted
        except ValueError as error:
            logger.error("unmask_policy of a request: %s; the server's is used", error)
            return self.policy

    def _language_of(self, wanted: Any) -> Constraint | None:
        if wanted is None:
            return None
        try:
            return language_of(wanted, self._words, self._eos_token)
        except (ImportError, TypeError, ValueError) as error:
            logger.error("unmask_constraint of a request: %s; its answer is empty", error)
            return NOTHING

    @staticmethod
    def _seed_of(wanted: Any, otherwise: int) -> int:
        if wanted is None:
            return otherwise
        if isinstance(wanted, bool) or not isinstance(wanted, int):
            logger.error("unmask_seed of a request must be an integer, got %r; it is drawn", wanted)
            return otherwise
        return wanted


class Answer:
    """The policy, seed and language of a request, and how far its answer has come: by canvases, or by blocks."""

    def __init__(self, policy: str, seed: int, language: Optional[Constraint], most_tokens: Optional[int]) -> None:
        self.policy, self.seed, self.language, self.most_tokens = policy, seed, language, most_tokens
        self.language_state: Optional[int] = None
        self.block = 0

    def start(self, session: Session, slot: int, tokens: torch.Tensor, **options: Any) -> None:
        """Starts the block, which obeys its part of the language. One that cannot be obeyed leaves the answer empty."""
        if self.language is NOTHING:
            return
        length = len(tokens)
        try:
            session.start(
                slot, tokens, prompt_length=0, block_length=length,
                seed=(self.seed + 0x9E3779B97F4A7C15 * self.block) % 2**64, constraint=self._field(length), **options,
            )
        except ValueError as error:
            if self.language is None:
                raise
            logger.error("unmask_constraint of a request: %s; its answer is empty", error)
            self.language = NOTHING

    def leave(self, session: Session, slot: int, length: int) -> None:
        """The block is part of the answer: the next one continues from the state of its language."""
        if self.language is not None and self.language is not NOTHING:
            self.language_state = session.constraint_state(slot)
        if self.most_tokens is not None:
            self.most_tokens -= length
        self.block += 1

    def _field(self, length: int) -> Optional[Field]:
        """The part of the language in a block of the given number of tokens."""
        if self.language is None:
            return None
        left = self.most_tokens
        after = None if left is None else max(left - length, 0)
        end = length if left is None else max(min(length, left), 0)
        return Field(self.language, 0, end, tokens_after=after, state=self.language_state)
