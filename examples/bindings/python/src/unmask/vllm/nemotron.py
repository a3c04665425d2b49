# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nemotron-Labs-Diffusion of vLLM's main branch with a sampler that a policy decides."""
from __future__ import annotations

import functools
import math
from typing import Any, Callable, Optional

import numpy as np
import torch
from vllm.model_executor.models.nemotron_dllm import (
    MaskedDiffusionSampler,
    NemotronLabsDiffusionForBlockDiffusion,
    NemotronLabsDiffusionModelState,
)
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p
from vllm.v1.worker.gpu.sample.logprob import compute_topk_scores

from .. import _settings, _text
from .._unmask import Constraint, Ending, Session, Vocabulary
from ._requests import NOTHING, REFUSED, Answer, Named, joined, logger, server_settings, words_of

SELECTION_POLICY = "selection_policy"
_BLOCKS = "vLLM chooses the blocks: canvas_length of --diffusion-config"
_ONE_BLOCK = "it counts over the whole answer, and vLLM shows one block at a time"
_REFUSED = {
    **REFUSED,
    "canvas": "this model has a mask token",
    "block_pipeline": _BLOCKS,
    "single_block": _BLOCKS,
    "slow_fast": _BLOCKS,
    "joint_threshold_indel": _BLOCKS,
    "daedal": _BLOCKS,
    "rho_eos": _BLOCKS,
    "self_speculation": "vLLM uses the attention of its model",
    "max_steps": "use max_denoising_steps of --diffusion-config, which counts in each block",
    "min_new_tokens": _ONE_BLOCK,
    "stop_sequence": _ONE_BLOCK,
}
_REMOVING = {"allowed_tokens", "eos_penalty"}  # parts that make tokens impossible, before a truncation
# Sampling parameters that nothing here can honour, with the values at which they do nothing.
_UNSUPPORTED = {"repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "min_tokens": 0, "bad_words": [],
                "allowed_token_ids": []}


def policy_of(selection: str, steps: int, threshold: float = 0.9) -> str:
    """The text that decides as vLLM does with a selection_policy and that many max_denoising_steps."""
    texts = {
        "low_confidence": f"steps_per_block({steps})",
        "leftmost": f"left_to_right + steps_per_block({steps})",
        "confidence_threshold": f"threshold({threshold}, inclusive=true)",
    }
    if selection not in texts:
        raise ValueError(f"selection_policy must be one of {', '.join(texts)}, got {selection!r}")
    return texts[selection]


def check(policy: Any, eos_token: int | None = None, threads: int = 1, *, files: bool = True) -> None:
    """Raises ValueError for a text that is not a policy for a model with blocks of masks."""
    _text.check(policy, "vLLM", _REFUSED, files=files, eos_token=eos_token, threads=threads)


class NemotronLabsDiffusion(NemotronLabsDiffusionForBlockDiffusion):
    """vLLM's model; only its sampler may be another."""

    def get_model_state_cls(self) -> Any:
        theirs = super().get_model_state_cls()  # another one where the model runs token by token
        return ModelState if theirs is NemotronLabsDiffusionModelState else theirs


class ModelState(NemotronLabsDiffusionModelState):
    def custom_sampler(self, sampler: Any) -> tuple[Any, Any] | None:
        """vLLM's own sampler, or UnmaskSampler if `unmask_policy` is in --additional-config."""
        custom = super().custom_sampler(sampler)
        policy, eos, threads = server_settings(self)
        if custom is None or policy is None:
            return custom
        states = self.diffusion_states
        if policy == SELECTION_POLICY:
            policy = policy_of(self.selection_policy, states.max_denoising_steps, self.confidence_threshold)
        words = functools.partial(words_of, self.model_config, states.mask_token_id, eos,
                                  self.model_config.try_get_generation_config())
        return UnmaskSampler(custom[0], policy, eos, threads, words), custom[1]


class UnmaskSampler(Named, MaskedDiffusionSampler):
    """Decides the blocks of a batch in one session, each by its request's policy.

    A request's logit_bias, temperature, min_p, top_k and top_p change its rows in vLLM's order, before the
    policy reads them; what else of its parameters would change logits is logged, since a sampler cannot
    refuse a request. Temperature 1, vLLM's default, draws as in vLLM, but where the policy has sampling,
    which then says how. Of its extra_args unmask_policy, unmask_seed and unmask_constraint are read.

    The log-probs of a token are those of the step that committed it.
    """

    def __init__(
        self,
        base: MaskedDiffusionSampler,
        policy: str,
        eos_token: int | None = None,
        threads: int = 1,
        words: Callable[[], Vocabulary] | None = None,
    ) -> None:
        check(policy, eos_token, threads)
        self.__dict__.update(vars(base))  # all that vLLM's sampler was made with
        self.policy, self._eos_token, self._words = policy, eos_token, words
        length = self.canvas_length
        self._requests: dict[int, _Request] = {}
        self._session = Session(
            policy, vocab=self.vocab_size, mask_token=self.mask_token_id, eos_token=eos_token, length=length,
            window=length, sequences=self.diffusion_states.max_num_reqs, threads=threads, trace=True,
        )

    def check(self, policy: Any, *, files: bool) -> None:
        check(policy, self._eos_token, files=files)

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        super().add_request(req_idx, sampling_params)
        extra = getattr(sampling_params, "extra_args", None) or {}
        self._session.cancel(req_idx)  # of a request that was aborted
        language = self._language_of(extra.get("unmask_constraint"))
        policy, edits = self._with_parts(self._policy_for(extra.get("unmask_policy")), sampling_params, language is not None)
        self._requests[req_idx] = _Request(
            policy=policy,
            seed=self._seed_of(extra.get("unmask_seed"), int(self.sampling_states.seeds.np[req_idx])),
            language=language,
            most_tokens=getattr(sampling_params, "max_tokens", None),
            mask_token=self.mask_token_id,
            edits=edits,
        )

    def _with_parts(self, policy: str, params: Any, in_language: bool) -> tuple[str, dict[str, Any]]:
        """A request's policy, and what changes its rows. A language comes before a truncation, which is then a part."""
        for name, nothing in _UNSUPPORTED.items():
            if (getattr(params, name, None) or nothing) != nothing:
                logger.error("%s of a request is not supported by a policy of vLLM and has no effect", name)
        given = {name: getattr(params, name, None) for name in ("temperature", "top_k", "top_p", "min_p", "logit_bias")}
        if given["top_k"] is not None and given["top_k"] >= self.vocab_size:
            given["top_k"] = None
        there = set(_text.names(policy))
        if given["temperature"] == 1 and "sampling" in there:
            given["temperature"] = None
        try:
            as_parts = _settings.with_parts(policy, given, length=self.canvas_length, vocab=self.vocab_size)
            draws = bool(given["temperature"]) or "sampling" in there
            edits = {"logit_bias": {int(t): float(b) for t, b in (given["logit_bias"] or {}).items()},
                     "temperature": given["temperature"] or 1}
            if in_language or there & _REMOVING:  # with the bias as a part, of the divided row
                text, edits = as_parts, {"logit_bias": {}, "temperature": 1}
            else:
                text = policy + " + sampling" * bool(given["temperature"])
                edits |= {name: given[name] for name in ("min_p", "top_k", "top_p") if draws and given[name] not in (None, -1)}
            self.check(text, files=True)  # the parts of the request are not files
            return text, edits
        except ValueError as error:
            logger.error("sampling parameters of a request: %s; they have no effect", error)
            return policy, {}

    def __call__(self, logits: torch.Tensor, input_batch: Any, draft_logits: Any = None) -> Any:
        if input_batch.num_draft_tokens == 0:
            return self._handle_prefill(input_batch)
        states, num_reqs = self.diffusion_states, input_batch.num_reqs
        slots = input_batch.idx_mapping_np[:num_reqs]
        counts = np.diff(input_batch.cu_num_logits_np[: num_reqs + 1])
        if len(prefills := np.where(counts == 0)[0]):
            self._finish_prefills(input_batch, prefills)
        sampled, num_sampled = self._sampled[:num_reqs], self._num_sampled[:num_reqs]
        sampled.zero_()
        num_sampled.zero_()

        commits = states.is_encoder_phase.tolist()
        first, rows, stashes = 0, {}, []
        for i, (slot, count) in enumerate(zip(slots.tolist(), counts.tolist())):
            stashes.append(None)
            if count and commits[slot]:  # the pass wrote the K/V of the block
                canvas = states.canvas[slot, :count]
                masked = (canvas == self.mask_token_id).nonzero()
                count_out = int(masked[0]) if len(masked) else count
                sampled[i, :count_out] = canvas[:count_out].to(sampled)
                num_sampled[i] = count_out
                stashes[i] = self._requests[slot].scores_of(count_out)
                self._end(slot)
            elif count:
                rows[slot] = logits[first : first + count]
            first += count
        self._decide(rows)
        all_slots = input_batch.idx_mapping[:num_reqs].long()
        self.req_states.draft_tokens[all_slots, : self.canvas_length] = states.canvas[all_slots]

        return self._build_output(input_batch, sampled, num_sampled, counts, logprobs_tensors=joined(stashes))

    def _end(self, slot: int) -> None:
        """The next block of a request, of masks."""
        states, request = self.diffusion_states, self._requests[slot]
        request.next_block(self._session, slot)
        states.canvas[slot] = self.mask_token_id
        states.step[slot] = 0
        states.is_encoder_phase[slot] = False

    def _decide(self, rows: dict[int, torch.Tensor]) -> None:
        """One step of the requests whose logits are given, by slot."""
        states = self.diffusion_states
        for slot, logits in rows.items():
            self._requests[slot].begin(self._session, slot, len(logits))
        rows = {slot: self._requests[slot].edited(logits) for slot, logits in rows.items()}
        running = [s for s in rows if self._requests[s].language is not NOTHING]
        request = self._session.next(running) if running else None
        if request is not None:
            self._session.supply([rows[s.slot][s.rows].cpu().contiguous() for s in request.segments])
        for slot, logits in rows.items():
            asked = self._requests[slot]
            asked.steps += 1
            states.step[slot] = asked.steps
            if asked.language is NOTHING:
                asked.tokens[:] = self._eos_token or 0
            ended = asked.language is NOTHING or self._session.report(slot).end != Ending.running
            wrote = [c.position for c in self._session.committed(slot)] if slot in running else []
            # The last step commits what is left; an answer in a language goes on until its policy ends it.
            if not ended and asked.steps >= states.max_denoising_steps and asked.language is None:
                for c in self._session.candidates(slot):
                    if int(asked.tokens[c.position]) == self.mask_token_id:
                        asked.tokens[c.position] = c.token
                        wrote.append(c.position)
                self._session.cancel(slot)
                ended = True
            asked.note(sorted(wrote), logits, self.sampling_states.max_num_logprobs(np.array([slot])))
            states.canvas[slot, : len(logits)] = asked.tokens.to(states.canvas)
            states.is_encoder_phase[slot] = ended


class _Request(Answer):
    """A request, and the block of it that is being decoded."""

    def __init__(self, policy: str, seed: int, language: Optional[Constraint], most_tokens: Optional[int],
                 mask_token: int, edits: dict[str, Any]) -> None:
        super().__init__(policy, seed, language, most_tokens)
        self.mask_token, self.edits = mask_token, edits
        self.steps = 0
        self.tokens = torch.empty(0, dtype=torch.int32)
        self.scores: Optional[tuple[torch.Tensor, ...]] = None  # of the block's tokens, each when it was committed

    def begin(self, session: Session, slot: int, count: int) -> None:
        """Begins the block if it has not begun; near the longest sequence it is shorter than others."""
        if self.steps and len(self.tokens) == count:
            return
        session.cancel(slot)
        self.steps = 0
        self.scores = None
        self.tokens = torch.full((count,), self.mask_token, dtype=torch.int32)
        self.start(session, slot, self.tokens, policy=self.policy)

    def next_block(self, session: Session, slot: int) -> None:
        self.leave(session, slot, len(self.tokens))
        session.cancel(slot)
        self.steps = 0

    def note(self, wrote: list[int], logits: torch.Tensor, most: int) -> None:
        """Keeps the log-probs of the tokens that a step wrote, under the distribution that they were drawn from."""
        if most < 0 or not wrote:
            return
        at = torch.tensor(wrote, device=logits.device)
        rows = self._drawn_from(logits[at])
        new = compute_topk_scores(rows, most, self.tokens[wrote].to(rows.device, torch.int64))
        names = ("logprob_token_ids", "logprobs", "selected_token_ranks")
        if self.scores is None:
            self.scores = tuple(t.new_zeros((len(self.tokens), *t.shape[1:])) for t in (getattr(new, n) for n in names))
        for kept, name in zip(self.scores, names):
            kept[at] = getattr(new, name)

    def edited(self, logits: torch.Tensor) -> torch.Tensor:
        """Rows as the request's own parameters change them."""
        rows = logits.float().clone()
        rows[:, self.mask_token] = -torch.inf
        for token, bias in self.edits.get("logit_bias", {}).items():
            rows[:, token] += bias
        rows /= self.edits.get("temperature", 1)
        return _truncated(rows, **{n: self.edits[n] for n in ("min_p", "top_k", "top_p") if n in self.edits})

    def _drawn_from(self, rows: torch.Tensor) -> torch.Tensor:
        """Such rows as the parts of the policy change them: the distribution of its draws."""
        parts = dict(_text.parts(self.policy))
        value = {n: next(iter(parts[n].values())) for n in ("temperature", "min_p", "top_k", "top_p", "sampling") if n in parts}
        rows = rows / value.pop("temperature", 1)
        heat = value.pop("sampling", 0)
        return (_truncated(rows, **value) if heat else rows) / (heat or 1)

    def scores_of(self, count: int) -> Optional[LogprobsTensors]:
        """Those of the block's first tokens."""
        if self.scores is None:
            return None
        ids, values, ranks = (t[:count] for t in self.scores)
        return LogprobsTensors(logprob_token_ids=ids, logprobs=values, selected_token_ranks=ranks)


def _truncated(rows: torch.Tensor, min_p: float = 0, top_k: int = 0, top_p: float = 1) -> torch.Tensor:
    """Rows with -inf for the tokens that vLLM's truncations leave out."""
    if min_p > 0:
        rows = rows.masked_fill(rows < rows.amax(-1, keepdim=True) + math.log(min_p), -torch.inf)
    if top_k <= 0 and top_p >= 1:
        return rows
    k = torch.full((len(rows),), top_k if top_k > 0 else rows.shape[1], dtype=torch.int32, device=rows.device)
    p = torch.full((len(rows),), float(top_p), device=rows.device)
    return apply_top_k_top_p(rows.clone(), k, p)
