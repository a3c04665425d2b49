# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A stand-in for vllm.model_executor.models.nemotron_dllm, which is on vLLM's main branch and in no release.

Written from the rules of its sampler, with the names, arguments and states of vLLM at commit 06c838a; no line is
vLLM's. A block of masks; each pass draws a token for every masked position, and `low_confidence` reveals the most
probable ceil(masks / steps left), `leftmost` as many from the left, `confidence_threshold` those that reach the
threshold, always one, and in the last step all. When none is masked, one pass more writes the K/V, and the block is
emitted. Temperatures above 0 are not needed by the tests.
"""
from types import SimpleNamespace

import numpy as np
import torch


class NemotronLabsDiffusionRequestStates:
    def __init__(self, max_num_reqs, canvas_length, mask_token_id, max_denoising_steps, device):
        self.max_num_reqs, self.canvas_length, self.mask_token_id = max_num_reqs, canvas_length, mask_token_id
        self.max_denoising_steps, self.device = max_denoising_steps, device
        self.is_encoder_phase = torch.zeros(max_num_reqs, dtype=torch.bool)
        self.canvas = torch.full((max_num_reqs, canvas_length), mask_token_id)
        self.step = torch.zeros(max_num_reqs, dtype=torch.int32)
        self.unmask_logprobs = torch.zeros(max_num_reqs, canvas_length)
        self.unmask_ranks = torch.zeros(max_num_reqs, canvas_length, dtype=torch.int32)

    def init_canvas(self, slot_indices):
        self.canvas[slot_indices] = self.mask_token_id

    def add_request(self, slot_idx):
        self.is_encoder_phase[slot_idx] = True
        self.canvas[slot_idx] = self.mask_token_id
        self.step[slot_idx] = 0


class MaskedDiffusionSampler:
    def __init__(self, sampler, vocab_size, diffusion_states, selection_policy="confidence_threshold",
                 confidence_threshold=0.9):
        self.sampling_states, self.req_states = sampler.sampling_states, sampler.req_states
        self.vocab_size, self.diffusion_states = vocab_size, diffusion_states
        self.canvas_length, self.mask_token_id = diffusion_states.canvas_length, diffusion_states.mask_token_id
        self.rule, self.threshold = selection_policy, confidence_threshold
        self._sampled = torch.zeros(diffusion_states.max_num_reqs, self.canvas_length, dtype=torch.int32)
        self._num_sampled = torch.zeros(diffusion_states.max_num_reqs, dtype=torch.int32)
        self._pending_logprobs = {}

    def add_request(self, req_idx, sampling_params):
        self.sampling_states.add_request(req_idx, sampling_params)

    def apply_staged_writes(self):
        self.sampling_states.apply_staged_writes()

    def _finish_prefills(self, input_batch, prefill_indices_np):
        for i in prefill_indices_np.tolist():
            run = input_batch.num_computed_prefill_tokens_np[i] + input_batch.num_scheduled_tokens[i]
            if run >= input_batch.prefill_len_np[i]:
                slot = int(input_batch.idx_mapping_np[i])
                self.diffusion_states.init_canvas(slot)
                self.req_states.draft_tokens[slot, : self.canvas_length] = self.mask_token_id
                self.diffusion_states.is_encoder_phase[slot] = False

    def _handle_prefill(self, input_batch):
        self._finish_prefills(input_batch, np.arange(input_batch.num_reqs))
        none = torch.zeros(input_batch.num_reqs, dtype=torch.int32)
        return SimpleNamespace(sampled_token_ids=none[:, None], logprobs_tensors=None, num_sampled=none, num_rejected=none)

    def _build_output(self, input_batch, sampled, num_sampled, per_req_nlogits_np, logprobs_tensors=None):
        rows, queries = torch.tensor(per_req_nlogits_np), input_batch.query_start_loc.diff()
        rejected = torch.where((rows > 0) & (num_sampled == 0), queries, rows - num_sampled)
        return SimpleNamespace(sampled_token_ids=sampled, logprobs_tensors=logprobs_tensors, num_sampled=num_sampled,
                               num_rejected=rejected)

    def _revealed(self, probabilities, masked, steps_left):
        """The masked positions that a step reveals, from the probabilities of their tokens."""
        count = -(-len(masked) // max(steps_left, 1))
        if self.rule == "leftmost":
            return masked[:count]
        ranked = sorted(masked, key=lambda p: -probabilities[p])
        if self.rule == "low_confidence":
            return ranked[:count]
        if steps_left <= 1:
            return masked
        return [p for p in masked if probabilities[p] >= self.threshold or p == ranked[0]]

    def __call__(self, logits, input_batch, draft_logits=None):
        if input_batch.num_draft_tokens == 0:
            return self._handle_prefill(input_batch)
        states, slots = self.diffusion_states, input_batch.idx_mapping_np
        counts = np.diff(input_batch.cu_num_logits_np)
        self._finish_prefills(input_batch, np.where(counts == 0)[0])
        sampled, num_sampled = self._sampled[: len(slots)], self._num_sampled[: len(slots)]
        sampled.zero_()
        num_sampled.zero_()
        first = 0
        for i, (slot, count) in enumerate(zip(slots.tolist(), counts.tolist())):
            rows, canvas = logits[first : first + count].float(), states.canvas[slot]
            first += count
            masked = (canvas[:count] == self.mask_token_id).nonzero().flatten().tolist()
            if count and states.is_encoder_phase[slot]:
                num_sampled[i] = min(masked, default=count)
                sampled[i] = canvas.int()
                states.init_canvas(slot)
                states.step[slot] = 0
                states.is_encoder_phase[slot] = False
            elif count:
                rows[:, self.mask_token_id] = -torch.inf
                best = rows.softmax(-1).max(-1)
                for p in self._revealed(best.values.tolist(), masked, states.max_denoising_steps - int(states.step[slot])):
                    canvas[p] = best.indices[p]
                states.step[slot] += 1
                done = states.step[slot] >= states.max_denoising_steps
                states.is_encoder_phase[slot] = bool(done) or not (canvas[:count] == self.mask_token_id).any()
            self.req_states.draft_tokens[slot, : self.canvas_length] = canvas
        return self._build_output(input_batch, sampled, num_sampled, counts)


class NemotronLabsDiffusionModelState:
    def custom_sampler(self, sampler):
        return MaskedDiffusionSampler(
            sampler=sampler, vocab_size=self.model_config.get_vocab_size(), diffusion_states=self.diffusion_states,
            selection_policy=self.selection_policy, confidence_threshold=self.confidence_threshold,
        ), None


class NemotronLabsDiffusionForBlockDiffusion:
    ar_mode = False

    def get_model_state_cls(self):
        return object if self.ar_mode else NemotronLabsDiffusionModelState
