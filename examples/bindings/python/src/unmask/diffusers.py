# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A scheduler for the text pipelines of diffusers: any policy in the place of BlockRefinementScheduler.

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
from diffusers.schedulers import scheduling_utils
from diffusers.schedulers.scheduling_block_refinement import BlockRefinementSchedulerOutput

from . import _text
from ._read import read
from ._unmask import Ending, Session

# That of all schedulers with the signature of diffusers#14741; a released diffusers has none.
DiscreteSchedulerOutput = getattr(scheduling_utils, "DiscreteSchedulerOutput", None)

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
    "temperature": "temperature(X) + sampling",
    "top_k": "top_k(X) + confidence_after_truncation",
    "top_p": "top_p(X) + confidence_after_truncation",
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


class _Scheduler(BlockRefinementScheduler):
    """Decides the blocks of LLaDA2Pipeline, and the canvases of DiffusionGemmaPipeline, by a policy.

    policy          a text; one with canvas is for DiffusionGemmaPipeline, any other for LLaDA2Pipeline
    block_length    of LLaDA2Pipeline where its call names none
    eos_token_id    the EOS token of parts that need one, such as stop_at_eos
    suppress_mask   False lets the mask token be proposed, as BlockRefinementScheduler does
    threads         read the logits
    mask_token_id   of schedulers as diffusers#14741 has them, whose pipeline sets it

    A policy decides each block on its own: what it remembers ends with the block, and positions
    count from the block's first. Draws come from `generator`, or PyTorch's default one; from one
    number of it for each call of the pipeline. Logits on a GPU are copied to the host, only the rows
    that the policy reads.

    Errors: ValueError for a text that is not a policy, for parts that a pipeline cannot run, and for
    settings of the pipeline that the policy replaces (threshold, temperature, ...) if they are not
    at their defaults.

    The signature of schedulers follows the installed diffusers: of its release, where
    num_inference_steps bounds nothing, since a block ends when the policy has filled it; or of
    diffusers#14741, where the last of its timesteps commits what is left.
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
        mask_token_id: int | None = None,
    ):
        _text.check(policy, "a diffusers pipeline", _REFUSED, eos_token=eos_token_id, threads=threads)
        self.num_inference_steps = num_inference_steps
        self.timesteps = torch.arange(num_inference_steps - 1, -1, -1, dtype=torch.long)
        self._canvas = _text.arguments(policy, "canvas")
        self._session: Session | None = None
        self._shape: tuple[Any, ...] = ()
        self._tokens: list[torch.Tensor] = []  # of each row, as the session writes them
        self._reset()
        self._prepare()

    def _prepare(self) -> None:
        """What a signature needs once there is a configuration."""

    def _reset(self) -> None:
        self._seed: int | None = None
        self._block = 0
        self._finished: torch.Tensor | None = None  # rows of the pipeline's that have their EOS
        self._ended: set[int] = set()  # rows that the policy ended before their block was full

    @classmethod
    def from_config(cls, config: Any = None, **kwargs: Any) -> Any:
        """Of another scheduler's configuration what a policy does not replace."""
        return super().from_config({k: v for k, v in dict(config or {}).items() if k not in _REPLACED}, **kwargs)

    def _check_steps(self, num_inference_steps: int) -> None:
        if self._canvas is not None and num_inference_steps != int(self._canvas["steps"]):
            raise ValueError(
                f"num_inference_steps is {num_inference_steps} and the canvas of policy "
                f"'{self.config.policy}' has {int(self._canvas['steps'])} steps; both must be the same"
            )

    def _decide(
        self,
        logits: torch.Tensor,
        sample: torch.LongTensor,
        mask_token_id: int | None,
        *,
        first: bool,
        last: bool = False,
        prompt_mask: torch.BoolTensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """A step of the policy: tokens after it, tokens proposed, their confidences, and two masks of what was written:
        at masked positions, and at others. `first` begins a block, `last` leaves none masked."""
        canvas = self._canvas is not None
        if canvas != (mask_token_id is None):
            raise ValueError(
                f"policy '{self.config.policy}' has {'a' if canvas else 'no'} canvas: it is for "
                + ("DiffusionGemmaPipeline, which has no mask token" if canvas else "a pipeline with a mask token")
            )
        first = first or tuple(logits.shape) != self._shape[:3]
        session = self._session_for(logits, mask_token_id)
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
            session.supply([logits[s.slot, s.rows].detach().cpu().contiguous() for s in request.segments])
        running = {s.slot for s in request.segments} if request is not None else set()

        after, sampled = before.clone(), before.clone()
        probs = torch.zeros(before.shape, dtype=torch.float32)
        written = torch.zeros(before.shape, dtype=torch.bool)
        for row in running:
            after[row] = self._tokens[row]
            for c in session.candidates(row):
                sampled[row, c.position] = c.token
                probs[row, c.position] = c.confidence
                written[row, c.position] = c.committed
                if last and not canvas and after[row, c.position] == mask_token_id:
                    after[row, c.position] = c.token
            if not canvas:  # edits, and EOS tokens behind the end
                changed = after[row] != before[row]
                sampled[row] = torch.where(changed, after[row], sampled[row])
                written[row] |= changed
            end = session.report(row).end
            if end not in (Ending.running, Ending.complete) and not canvas:
                self._ended.add(row)
        masked = torch.ones_like(written) if canvas else before == mask_token_id
        return tuple(t.to(sample.device) for t in (after, sampled, probs, written & masked, written & ~masked))

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
        """Begins a block in a slot, unless no position of it is masked."""
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


class _Released(_Scheduler):
    def set_timesteps(
        self,
        num_inference_steps: int,
        device: str | torch.device | None = None,
        block_length: int | None = None,
    ) -> None:
        """Begins a call of the pipeline."""
        super().set_timesteps(num_inference_steps, device, block_length)
        self._check_steps(num_inference_steps)
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
        after, sampled, probs, committed, edited = self._decide(
            model_output, sample, mask_token_id, first=int(timestep) == 0, prompt_mask=prompt_mask, generator=generator
        )
        canvas = self._canvas is not None
        output = dict(
            prev_sample=after,
            transfer_index=committed,
            editing_transfer_index=edited,
            sampled_tokens=sampled,
            sampled_probs=probs,
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
        """Like BlockRefinementScheduler; a row that its policy ended is also finished."""
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


class _Discrete(_Scheduler):
    """The signature of diffusers#14741: timesteps in (0, 1], and only logits, timestep and tokens in a step."""

    def _prepare(self) -> None:
        edits = any(n == "edited_blocks" or _text.families()[n] == "token editing" for n in _text.names(self.config.policy))
        self._editing = 1.0 if edits else None  # by which the pipeline runs step_edit() after the last mask
        self.register_to_config(editing_threshold=self._editing)
        self.set_timesteps(int(self._canvas["steps"]) if self._canvas is not None else self.config.num_inference_steps)

    @property
    def step_index(self) -> int | None:
        return self._step_index

    @property
    def begin_index(self) -> int | None:
        return self._begin_index

    def set_begin_index(self, begin_index: int = 0) -> None:
        self._begin_index = begin_index

    def index_for_timestep(self, timestep: float | torch.Tensor) -> int:
        indices = (self.timesteps == torch.as_tensor(timestep).to(self.timesteps)).nonzero()
        if not len(indices):
            raise ValueError(f"timestep must be one of timesteps, 1 to 1 / {self.num_inference_steps}, got {float(timestep)}")
        return int(indices[0])

    def set_timesteps(self, num_inference_steps: int, device: str | torch.device | None = None) -> None:
        """Begins a block, or a canvas."""
        if num_inference_steps <= 0:
            raise ValueError(f"num_inference_steps must be at least 1, got {num_inference_steps}")
        self._check_steps(num_inference_steps)
        self.num_inference_steps = num_inference_steps
        self.timesteps = 1 - torch.arange(num_inference_steps, device=device, dtype=torch.float32) / num_inference_steps
        self._step_index: int | None = None
        self._begin_index: int | None = None
        self._reset()

    def step(
        self,
        model_output: torch.Tensor,
        timestep: float | torch.Tensor,
        sample: torch.LongTensor,
        *,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
    ) -> Any:
        """One step of the policy: logits [batch, block, vocab] and tokens [batch, block]."""
        index = self._step_index
        first = index is None
        if index is None:
            index = self._begin_index if self._begin_index is not None else self.index_for_timestep(timestep)
        last = index >= self.num_inference_steps - 1
        output = self._output(model_output, sample, index, return_dict, first=first, last=last, generator=generator)
        self._step_index = index + 1
        return output

    def step_edit(
        self,
        model_output: torch.Tensor,
        sample: torch.LongTensor,
        *,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
    ) -> Any:
        """A step after the last mask, in which the policy may edit."""
        return self._output(model_output, sample, 0, return_dict, first=False, generator=generator)

    def _output(self, logits: torch.Tensor, sample: torch.LongTensor, index: int, return_dict: bool, **how: Any) -> Any:
        replaced = {name: self.config.get(name) for name in _REPLACED}
        _refuse({n: v for n, v in replaced.items() if v is not None and (n, v) != ("editing_threshold", self._editing)})
        canvas = self._canvas is not None
        mask_token_id = self.config.mask_token_id
        if mask_token_id is None and not canvas:
            raise ValueError("mask_token_id must be in the scheduler's config, got None")
        after, sampled, _, committed, edited = self._decide(logits, sample, mask_token_id, **how)
        # What #14741 promises: of the rows as the model gave them, and of every position.
        rows = read(logits.detach().reshape(-1, logits.shape[-1]))
        proposed = logits.gather(-1, sampled[..., None])[..., 0].float()
        most = (rows.best + rows.log_total).view(sampled.shape).to(proposed)
        output = dict(
            prev_sample=after,
            pred_original_sample=sampled,
            sampled_probs=(proposed - most).exp(),
            pred_logits=logits / self._canvas_temperature(index) if canvas else logits,
            committed_mask=committed,
            edited_mask=edited,
        )
        return DiscreteSchedulerOutput(**output) if return_dict else tuple(output.values())


def _check_replaced(**given: Any) -> None:
    parameters = inspect.signature(LLaDA2Pipeline.__call__).parameters
    _refuse({n: v for n, v in given.items() if v is not None and v != parameters[n].default})


def _refuse(given: dict[str, Any]) -> None:
    for name, value in given.items():
        raise ValueError(
            f"{name} is {value}, which has no effect on an UnmaskScheduler; write "
            f"{_REPLACED[name].replace('X', str(value))} in its policy"
        )


class UnmaskScheduler(_Released if DiscreteSchedulerOutput is None else _Discrete):
    __doc__ = _Scheduler.__doc__
