# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A scheduler for the text pipelines of diffusers: any policy where BlockRefinementScheduler stands.

    pipe.scheduler = UnmaskScheduler(policy="trace_credit + threshold(0.9)")

The pipeline keeps its loop, its model and its prompt; the policy decides which tokens of a block to
commit, and when the block is complete.
"""
from __future__ import annotations

import inspect
from typing import Any

import torch
from diffusers import BlockRefinementScheduler, LLaDA2Pipeline
from diffusers.configuration_utils import register_to_config
from diffusers.schedulers.scheduling_block_refinement import BlockRefinementSchedulerOutput

from . import _text
from ._unmask import Ending, Session

_BLOCKS = "the pipeline chooses the blocks; give it block_length"
_ONE_BLOCK = "it counts over the whole answer, and a scheduler is given one block at a time"
_REFUSED = {
    "cache": "the pipeline runs the whole sequence in every pass and keeps no K/V",
    "layer rule": "the pipeline gives logits only, no layer's hidden states",
    "branches": "the pipeline runs one copy of a sequence",
    "probe": "the pipeline has no place for its answers; use unmask.Session",
    "block_pipeline": _BLOCKS,
    "single_block": _BLOCKS,
    "slow_fast": _BLOCKS,
    "min_new_tokens": _ONE_BLOCK,
    "max_steps": _ONE_BLOCK,
    "stop_sequence": _ONE_BLOCK,
    "replay": _ONE_BLOCK,
}
# Arguments of the pipelines that a policy replaces, and the part that takes their place.
_REPLACED = {
    "threshold": "threshold(X)",
    "editing_threshold": "edit_committed(X) + edited_blocks(N)",
    "minimal_topk": "tokens_per_step(X)",
    "temperature": "sampling(X)",
    "top_k": "top_k(X)",
    "top_p": "top_p(X)",
}


def block_refinement_policy(
    num_inference_steps: int = 32,
    threshold: float = 0.7,
    editing_threshold: float | None = None,
    max_post_steps: int = 16,
    block_length: int = 32,
) -> str:
    """The text of the policy that decides as BlockRefinementScheduler does with these settings.

    In a first block that begins with the end of the prompt the quota of a step is the same only if
    num_inference_steps divides block_length, and with threshold <= 1.
    """
    per_step, rest = divmod(block_length, num_inference_steps)
    if rest == 0 or per_step == 0:
        quota = f"tokens_per_step({max(per_step, 1)})"
    else:
        quota = f"steps_per_block({num_inference_steps})"
    policy = quota if threshold >= 1 else f"any_of(threshold({threshold}), {quota})"
    if editing_threshold is not None and editing_threshold > 0:
        policy += f" + edit_committed({editing_threshold}) + edited_blocks({max_post_steps + 1})"
    return policy


class UnmaskScheduler(BlockRefinementScheduler):
    """Decides the blocks of LLaDA2Pipeline, and the canvases of DiffusionGemmaPipeline, by a policy.

    policy          a text; one with canvas is for DiffusionGemmaPipeline, any other for LLaDA2Pipeline
    block_length    of LLaDA2Pipeline where its call names none
    eos_token_id    the EOS token of parts that need one, such as stop_at_eos
    suppress_mask   False lets the mask token be proposed, as BlockRefinementScheduler does
    threads         read the logits

    A policy decides each block on its own: what it remembers ends with the block, and positions
    count from the block's first. Draws come from `generator`, or PyTorch's default one; from one
    number of it for each call of the pipeline. Logits on a GPU are copied to the host, only the rows
    that the policy reads.

    Errors: ValueError for a text that is no policy, for parts that a pipeline cannot run, and for
    arguments of the pipeline that the policy replaces (threshold, temperature, ...) if they are not
    at their defaults. num_inference_steps bounds nothing: a block ends when the policy has filled it.
    """

    @register_to_config
    def __init__(
        self,
        policy: str = "threshold(0.9)",
        block_length: int = 32,
        num_inference_steps: int = 32,
        eos_token_id: int | None = None,
        suppress_mask: bool = True,
        threads: int = 1,
    ):
        _text.check(policy, "a diffusers pipeline", _REFUSED, eos_token=eos_token_id, threads=threads)
        self.num_inference_steps = num_inference_steps
        self.timesteps = torch.arange(num_inference_steps - 1, -1, -1, dtype=torch.long)
        self._canvas = _text.arguments(policy, "canvas")
        self._session: Session | None = None
        self._shape: tuple[Any, ...] = ()
        self._tokens: list[torch.Tensor] = []  # of each row, as the session writes them
        self._reset()

    def _reset(self) -> None:
        self._seed: int | None = None
        self._block = 0
        self._finished: torch.Tensor | None = None  # rows of the pipeline's that have their EOS
        self._ended: set[int] = set()  # rows that the policy ended before their block was full

    def set_timesteps(
        self,
        num_inference_steps: int,
        device: str | torch.device | None = None,
        block_length: int | None = None,
    ) -> None:
        """Begins a call of the pipeline."""
        super().set_timesteps(num_inference_steps, device, block_length)
        if self._canvas is not None and num_inference_steps != int(self._canvas["steps"]):
            raise ValueError(
                f"num_inference_steps is {num_inference_steps} and the canvas of policy "
                f"'{self.config.policy}' has {int(self._canvas['steps'])} steps; both must be the same"
            )
        self._reset()

    def step(
        self,
        model_output: torch.Tensor,
        timestep: int | torch.Tensor,
        sample: torch.LongTensor,
        *,
        mask_token_id: int | None = None,
        temperature: float = 0.0,
        top_p: float | None = None,
        top_k: int | None = None,
        sampling_method: str = "auto",
        threshold: float | None = None,
        editing_threshold: float | None = None,
        minimal_topk: int | None = None,
        prompt_mask: torch.BoolTensor | None = None,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
    ) -> BlockRefinementSchedulerOutput | tuple:
        """One step of the policy: logits [batch, block, vocab] and tokens [batch, block].

        `timestep` 0 begins a block. `prompt_mask` marks positions that are never written.
        """
        _check_replaced(
            threshold=threshold,
            editing_threshold=editing_threshold,
            minimal_topk=minimal_topk,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        canvas = self._canvas is not None
        if canvas != (mask_token_id is None):
            raise ValueError(
                f"policy '{self.config.policy}' has {'a' if canvas else 'no'} canvas: it is for "
                + ("DiffusionGemmaPipeline, which has no mask token" if canvas else "a pipeline with a mask token")
            )
        first = int(timestep) == 0 or tuple(model_output.shape) != self._shape[:3]
        session = self._session_for(model_output, mask_token_id)
        if first:
            self._block += 1
        if self._seed is None:
            self._seed = int(torch.randint(2**62, (), generator=generator, device=getattr(generator, "device", "cpu")))
        before = sample.cpu()
        for row in range(len(before)):
            fresh = first or not (canvas or torch.equal(self._tokens[row], before[row]))
            if fresh:
                self._start(row, before[row], mask_token_id, prompt_mask)

        request = session.next()
        if request is not None:
            session.supply([model_output[s.slot, s.rows].detach().cpu().contiguous() for s in request.segments])
        running = {s.slot for s in request.segments} if request is not None else set()

        after, sampled = before.clone(), before.clone()
        probs = torch.zeros(before.shape, dtype=torch.float32)
        written = torch.zeros(before.shape, dtype=torch.bool)
        for row in running:
            for c in session.candidates(row):
                sampled[row, c.position] = c.token
                probs[row, c.position] = c.confidence
                written[row, c.position] = c.committed
            after[row] = self._tokens[row]
            if not canvas:  # edits, and EOS tokens behind the end
                changed = after[row] != before[row]
                sampled[row] = torch.where(changed, after[row], sampled[row])
                written[row] |= changed
            end = session.report(row).end
            if end not in (Ending.running, Ending.complete) and not canvas:
                self._ended.add(row)
        masked = torch.ones_like(written) if canvas else before == mask_token_id
        output = dict(
            prev_sample=after.to(sample.device),
            transfer_index=(written & masked).to(sample.device),
            editing_transfer_index=(written & ~masked).to(sample.device),
            sampled_tokens=sampled.to(sample.device),
            sampled_probs=probs.to(sample.device),
            pred_logits=model_output / self._canvas_temperature(int(timestep)) if canvas else model_output,
        )
        return BlockRefinementSchedulerOutput(**output) if return_dict else tuple(output.values())

    def check_eos_finished(
        self,
        cur_x: torch.LongTensor,
        sampled_tokens: torch.LongTensor,
        final_transfer: torch.BoolTensor,
        finished: torch.BoolTensor,
        eos_token_id: int,
        mask_token_id: int,
        prompt_length: int,
    ) -> torch.BoolTensor:
        """As BlockRefinementScheduler; a row that its policy ended is finished, too."""
        finished = BlockRefinementScheduler.check_eos_finished(
            cur_x, sampled_tokens, final_transfer, finished, eos_token_id, mask_token_id, prompt_length
        )
        for row in self._ended:
            finished[row] = True
        for row in finished.nonzero().flatten().tolist():
            if self._session.report(row).end == Ending.running:
                self._session.cancel(row)
        self._finished = finished
        return finished

    def check_block_should_continue(self, *_: Any, finished: torch.BoolTensor, **__: Any) -> bool:
        """Whether the policy has something left to decide in some row that is not finished."""
        rows = (row for row in range(len(finished)) if not finished[row] and row not in self._ended)
        return any(self._session.report(row).end == Ending.running for row in rows)

    def _session_for(self, logits: torch.Tensor, mask_token_id: int | None) -> Session:
        batch, length, vocab = logits.shape
        if self._shape != (batch, length, vocab, mask_token_id):
            self._session = Session(
                self.config.policy,
                vocab=vocab,
                mask_token=0 if mask_token_id is None else mask_token_id,
                eos_token=self.config.eos_token_id,
                length=length,
                window=length,
                sequences=batch,
                suppress_mask=self.config.suppress_mask and mask_token_id is not None,
                trace=True,
                threads=self.config.threads,
            )
            self._shape = (batch, length, vocab, mask_token_id)
            self._tokens = [torch.empty(0, dtype=torch.long)] * batch
        return self._session

    def _start(self, row: int, tokens: torch.Tensor, mask_token_id: int | None, prompt_mask: Any) -> None:
        """Begins a block in a slot; one of which nothing is masked is not begun."""
        editable = torch.ones(tokens.shape, dtype=torch.bool) if mask_token_id is None else tokens == mask_token_id
        if prompt_mask is not None:
            editable &= ~prompt_mask.cpu()
        self._tokens[row] = tokens.clone()
        skipped = row in self._ended or (self._finished is not None and bool(self._finished[row]))
        self._session.start(
            row,
            self._tokens[row],
            prompt_length=0,
            block_length=len(tokens),
            editable=editable & (not skipped),
            # Draws differ between rows and blocks.
            seed=(self._seed + 0x9E3779B97F4A7C15 * ((self._block << 20) + row + 1)) % 2**64,
        )

    def _canvas_temperature(self, step: int) -> float:
        coldest, hottest, steps = (self._canvas[k] for k in ("coldest", "hottest", "steps"))
        return coldest + (hottest - coldest) * (steps - step) / steps


def _check_replaced(**given: Any) -> None:
    parameters = inspect.signature(LLaDA2Pipeline.__call__).parameters
    for name, value in given.items():
        if value is not None and value != parameters[name].default:
            raise ValueError(
                f"{name} is {value}, which has no effect on an UnmaskScheduler; write "
                f"{_REPLACED[name].replace('X', str(value))} in its policy"
            )
