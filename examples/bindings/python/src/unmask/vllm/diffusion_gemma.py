# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DiffusionGemma of vLLM 0.33 with a sampler that a policy decides."""
from __future__ import annotations

import functools
from typing import Any, Callable, Mapping, Optional

import numpy as np
import torch
from vllm.model_executor.models.diffusion_gemma import (
    DiffusionGemmaForConditionalGeneration,
    DiffusionGemmaModelState,
    DiffusionSampler,
)
from vllm.utils.torch_utils import async_tensor_h2d
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p
from vllm.v1.worker.gpu.sample.logprob import compute_topk_scores

from .. import _text
from .._unmask import Ending, Session, Vocabulary
from ._requests import NOTHING, REFUSED, Answer, Named, joined, server_settings, words_of

GENERATION_CONFIG = "generation_config"


def policy_of(generation_config: Mapping[str, Any], steps: int) -> str:
    """The text of the policy that a DiffusionGemma was released with."""
    g = generation_config
    return (
        f"by_entropy + entropy_bound({g['sampler_config']['entropy_bound']}) + canvas({steps}, "
        f"{g['t_min']}, {g['t_max']}, {g['stability_threshold']}, {g['confidence_threshold']})"
    )


def check(policy: str, eos_token: int | None = None, threads: int = 1, *, files: bool = True) -> None:
    """Raises ValueError for a text that is not a policy for DiffusionGemma."""
    _text.check(policy, "vLLM", REFUSED, files=files, eos_token=eos_token, suppress_mask=False, threads=threads)
    if _text.arguments(policy, "canvas") is None:
        raise ValueError(f"policy '{policy}' has no canvas, and DiffusionGemma has no mask token")


class DiffusionGemma(DiffusionGemmaForConditionalGeneration):
    """vLLM's model; only its sampler may be another."""

    @staticmethod
    def get_model_state_cls() -> type[DiffusionGemmaModelState]:
        return ModelState


class ModelState(DiffusionGemmaModelState):
    def custom_sampler(self, sampler: Any) -> tuple[Any, Any] | None:
        """vLLM's own sampler, or UnmaskSampler if `unmask_policy` is in --additional-config."""
        custom = super().custom_sampler(sampler)
        policy, eos, threads = server_settings(self)
        if custom is None or policy is None:
            return custom
        if policy == GENERATION_CONFIG:
            policy = policy_of(self.gen_config, self.diffusion_states.max_denoising_steps)
        words = functools.partial(words_of, self.model_config, 0, eos, self.gen_config)
        return UnmaskSampler(custom[0], policy, eos, threads, words), custom[1]


class UnmaskSampler(Named, DiffusionSampler):
    """Decides each canvas by a policy: a session for each request, the same in any batch.

    A request may name its own policy as `unmask_policy` of its extra_args; one that cannot run is
    logged, and the server's is used. `unmask_constraint` is a language that its answer obeys, over all
    of its canvases: {"json": schema}, {"regex": expression}, {"choice": [...]} or {"json_object": true},
    as vLLM's structured_outputs have them; one that cannot be obeyed is logged, and the answer is empty.
    vLLM's own arguments of a request mean:

    diffusion_pinned         fixed positions: never drawn, emitted as the seed has them
    diffusion_constrained    the allowed tokens: every other logit is -inf
    diffusion_read_only, diffusion_max_steps, diffusion_canvas_length, top_k, top_p, logprobs,
    logprob_token_ids        as in vLLM

    unmask_seed of its extra_args is that of draws, noise and first canvas, as `seed`, which vLLM 0.33 refuses for
    this model before a plugin sees it.
    """

    def __init__(
        self,
        base: DiffusionSampler,
        policy: str,
        eos_token: int | None = None,
        threads: int = 1,
        words: Callable[[], Vocabulary] | None = None,
    ) -> None:
        check(policy, eos_token, threads)
        self.__dict__.update(vars(base))  # all that vLLM's sampler was made with
        self.policy = policy
        self._eos_token, self._threads, self._words = eos_token, threads, words
        self._requests: dict[int, _Request] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> None:
        super().add_request(req_idx, sampling_params)
        extra = getattr(sampling_params, "extra_args", None) or {}
        self._requests[req_idx] = _Request(
            policy=self._policy_for(extra.get("unmask_policy")),
            options=dict(
                vocab=self.vocab_size, mask_token=0, suppress_mask=False, eos_token=self._eos_token,
                threads=self._threads,
            ),
            width=int(self.diffusion_states.canvas_width_np[req_idx]),
            seed=self._seed_of(extra.get("unmask_seed"), int(self.sampling_states.seeds.np[req_idx])),
            most_steps=int(self.diffusion_states.max_steps[req_idx]),
            pinned=extra.get("diffusion_pinned") or [],
            seed_canvas=extra.get("diffusion_seed_canvas"),
            language=self._language_of(extra.get("unmask_constraint")),
            most_tokens=getattr(sampling_params, "max_tokens", None),
        )

    def check(self, policy: Any, *, files: bool) -> None:
        check(policy, self._eos_token, files=files)

    def _finish_prefills(self, input_batch: Any, prefill_indices_np: np.ndarray) -> None:
        """Begins the first canvas of requests whose prompt is complete."""
        run = (
            input_batch.num_computed_prefill_tokens_np[prefill_indices_np]
            + input_batch.num_scheduled_tokens[prefill_indices_np]
        )
        done = prefill_indices_np[run >= input_batch.prefill_len_np[prefill_indices_np]]
        for slot in input_batch.idx_mapping_np[done].tolist():
            self._begin(slot)
            seeded = self._requests[slot].seed_canvas
            if seeded is not None:
                self.diffusion_states.canvas[slot, : len(seeded)] = torch.as_tensor(seeded)
            self.req_states.draft_tokens[slot, : self.canvas_length] = self.diffusion_states.canvas[slot]

    def _begin(self, slot: int) -> None:
        """The next canvas of a request, of random tokens."""
        request, states = self._requests[slot], self.diffusion_states
        request.begin()
        states.canvas[slot, : request.width] = request.tokens.to(states.canvas)
        states.step[slot] = 0
        states.is_encoder_phase[slot] = False
        states.self_conditioning_embeds[slot] = 0

    def __call__(self, logits: torch.Tensor, input_batch: Any, draft_logits: Any = None) -> Any:
        if input_batch.num_draft_tokens == 0:
            return self._handle_prefill(input_batch, logits.device)
        num_reqs = input_batch.num_reqs
        slots = input_batch.idx_mapping_np[:num_reqs]
        counts = np.diff(input_batch.cu_num_logits_np[: num_reqs + 1])
        prefills = np.where(counts == 0)[0]
        if len(prefills):
            self._finish_prefills(input_batch, prefills)
        logits = self._filtered(logits, slots[counts > 0], counts[counts > 0])
        sampled, num_sampled = self._sampled[:num_reqs], self._num_sampled[:num_reqs]
        sampled.zero_()
        num_sampled.zero_()

        first, emitted = 0, []
        for i in np.where(counts > 0)[0].tolist():
            slot, count = int(slots[i]), int(counts[i])
            if self._advance(slot, logits[first : first + count]):
                sampled[i, :count] = self.diffusion_states.argmax_canvas[slot, :count].to(sampled)
                num_sampled[i] = count
                emitted.append(slot)
            first += count
        all_slots = input_batch.idx_mapping[:num_reqs].long()
        self.req_states.draft_tokens[all_slots, : self.canvas_length] = self.diffusion_states.canvas[all_slots]

        stashes = [self._pending_logprobs.pop(s, None) if s in emitted else None for s in slots.tolist()]
        return self._build_output(input_batch, sampled, num_sampled, counts, logits.device, joined(stashes))

    def _advance(self, slot: int, logits: torch.Tensor) -> bool:
        """One step of a request; whether its canvas is to be emitted."""
        request, states = self._requests[slot], self.diffusion_states
        if bool(states.is_encoder_phase[slot]):  # the pass wrote the K/V of the canvas
            self._begin(slot)
            return True
        count = len(logits)
        rows = self._widened(slot, logits)
        temperature = request.temperature()
        ended = request.step(rows)
        tokens = request.tokens.to(states.canvas)
        states.canvas[slot, :count] = tokens
        states.step[slot] = request.steps
        if ended:
            states.argmax_canvas[slot, :count] = tokens
            states.self_conditioning_embeds[slot] = 0
            read_only = slot in states.read_only_slots
            self._stash_logprobs(slot, rows if read_only else rows.float() / temperature, tokens)
            states.is_encoder_phase[slot] = not read_only
            return read_only
        probs = torch.softmax(rows.float() / temperature, dim=-1)
        local = probs[:, self.sc_vocab_start : self.sc_vocab_end].to(self.embed_weight.dtype)
        soft = torch.matmul(local, self.embed_weight[: self.sc_vocab_end - self.sc_vocab_start])
        if self.tp_size > 1:
            soft = torch.ops.vllm.all_reduce(soft, group_name=self.tp_group_name)
        soft = soft * self.normalizer
        soft[request.fixed[:count].to(soft.device)] = 0
        states.self_conditioning_embeds[slot, :count] = soft.to(states.self_conditioning_embeds)
        return False

    def _filtered(self, logits: torch.Tensor, slots: np.ndarray, counts: np.ndarray) -> torch.Tensor:
        """The logits after top_k and top_p of the requests, as vLLM's sampler applies them."""
        slots_of_rows = async_tensor_h2d(np.repeat(slots.astype(np.int64), counts), device=logits.device)
        top_k, top_p, only_p = self.sampling_states.get_top_k_top_p(slots_of_rows, slots, logits.shape[-1])
        if top_k is None and top_p is None:
            return logits
        return apply_top_k_top_p(logits.float(), top_k, top_p, has_topp_only_rows=only_p)

    def _widened(self, slot: int, logits: torch.Tensor) -> torch.Tensor:
        """Rows over the whole vocabulary, -inf outside the allowed tokens of a constrained request."""
        states = self.diffusion_states
        ids = states.constrained.get(slot)
        if ids is None:
            return logits
        allowed = states.allowed_tensor(ids)
        rows = logits.new_full((len(logits), self.vocab_size), -torch.inf)
        rows[:, allowed] = logits if states.step_allowed is not None else logits[:, allowed]
        return rows

    def _stash_logprobs(self, slot: int, rows: torch.Tensor, tokens: torch.Tensor) -> None:
        """Of the final tokens, for the step that emits them."""
        count = self.sampling_states.max_num_logprobs(np.array([slot]))
        ids = self.logprob_token_ids_state.max_num_token_ids(np.array([slot]))
        if count < 0 and ids <= 0:
            return
        self._pending_logprobs[slot] = compute_topk_scores(
            rows.float(),
            max(count, 0),
            tokens,
            logprob_token_ids_state=self.logprob_token_ids_state if ids > 0 else None,
            expanded_idx_mapping=(
                torch.full((len(rows),), slot, dtype=torch.int32, device=rows.device) if ids > 0 else None
            ),
            max_per_req_token_ids=ids,
            logits_mode=self.logits_mode,
        )


class _Request(Answer):
    """One request: its session, and the canvas that the session writes."""

    def __init__(
        self,
        policy: str,
        options: dict[str, Any],
        width: int,
        seed: int,
        most_steps: int,
        pinned: list[int],
        seed_canvas: list[int] | None,
        language: Any = None,
        most_tokens: int | None = None,
    ) -> None:
        if language is not None:  # its canvas ends in the language where the policy ends it
            policy = f"{policy} + max_steps({most_steps})"
        super().__init__(policy, seed, language, most_tokens)
        self.options, self.width, self.most_steps = options, width, most_steps
        self.seed_canvas = seed_canvas
        self.fixed = torch.zeros(width, dtype=torch.bool)
        if seed_canvas is not None:
            self.fixed[pinned] = True
        self.canvas = _text.arguments(policy, "canvas")
        self.session: Optional[Session] = None
        self.steps = 0

    def begin(self) -> None:
        """The next canvas of random tokens."""
        if self.session is not None:
            self.leave(self.session, 0, len(self.tokens))
        self._start(self.width)

    def _start(self, length: int) -> None:
        self.steps = 0
        self.tokens = torch.zeros(length, dtype=torch.int32)
        if self.seed_canvas is not None:
            self.tokens[:] = torch.as_tensor(self.seed_canvas[:length], dtype=torch.int32)
        self.session = Session(self.policy, length=length, window=length, **self.options)
        self.start(self.session, 0, self.tokens, editable=~self.fixed[:length])

    def temperature(self) -> float:
        """Of the next step."""
        c = self.canvas
        return c["coldest"] + (c["hottest"] - c["coldest"]) * max(c["steps"] - self.steps, 1) / c["steps"]

    def step(self, rows: torch.Tensor) -> bool:
        """Decides; whether the canvas is final, and `tokens` its answer."""
        if len(rows) != len(self.tokens):  # the last canvas ends at the longest sequence
            self.most_tokens = min(len(rows), self.most_tokens or len(rows))
            self._start(len(rows))
        if self.language is NOTHING:
            self.tokens[:] = self.options["eos_token"] or 0
            return True
        request = self.session.next()
        if request is not None:
            self.session.supply(rows[request.segments[0].rows].cpu().contiguous())
        self.steps += 1
        if self.session.report().end != Ending.running:
            return True
        if self.steps >= self.most_steps:
            best = rows.argmax(dim=-1).cpu().int()
            self.tokens.copy_(torch.where(self.fixed[: len(best)], self.tokens, best))
            return True
        return False
