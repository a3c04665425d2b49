# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a request of vLLM names by its extra_args: a policy, a seed and a language.

An exception in a sampler would end the engine, so what cannot be honoured is logged.
"""
from __future__ import annotations

from typing import Any, Callable

from vllm.logger import init_logger

from .. import constraints
from .._unmask import Constraint, Vocabulary

logger = init_logger(__name__)

NOTHING: Any = object()  # the language of a request that cannot be obeyed

REFUSED = {
    "cache": "vLLM decides what its passes run",
    "layer rule": "vLLM gives the sampler logits only, no layer's hidden states",
    "branches": "vLLM runs one copy of a sequence",
    "probe": "vLLM has no place for its answers; ask for logprob_token_ids",
    "replay": "a trace belongs to one sequence",
}


def language_of(wanted: Any, words: Callable[[], Vocabulary] | None, eos_token: int | None) -> Constraint:
    """The language that `unmask_constraint` of a request describes. Raises ValueError and TypeError."""
    kinds = {
        "json": constraints.json_schema,
        "regex": constraints.regex,
        "choice": constraints.choice,
        "json_object": lambda _, words: constraints.json_object(words),
    }
    if not isinstance(wanted, dict) or len(wanted) != 1 or next(iter(wanted)) not in kinds:
        raise ValueError(f"unmask_constraint must be a dict with one of {', '.join(kinds)}, got {wanted!r}")
    if words is None or eos_token is None:
        raise ValueError("unmask_constraint needs a tokenizer and an EOS token")
    kind, value = next(iter(wanted.items()))
    return kinds[kind](value, words())


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
