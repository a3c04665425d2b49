# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DiffusionGemma of transformers 5.23 and 5.24: its generate(), with every canvas decided by a policy.

    from unmask.diffusion_gemma import install

    with install(model, "model:diffusion_gemma_mlx"):
        out = model.generate(**inputs, streamer=streamer)

The model keeps its loop, cache, streamer and EOS tokens; the policy takes the place of its sampler, of the temperature
and of the criteria by which a canvas ends.
"""
from __future__ import annotations

from typing import Any

import torch

from . import _models, _text
from ._unmask import Ending, Session

_REFUSED = {
    "cache": "transformers keeps the K/V of the canvases before this one",
    "layer rule": "it gets logits only, no layer's hidden states",
    "branches": "transformers runs one copy of a canvas",
    "probe": "it returns no probabilities; use unmask.Session",
    "replay": "a policy is given one canvas at a time",
}
# Settings of a generation that a policy replaces, and where it has them.
_REPLACED = {
    "max_denoising_steps": "canvas(steps=N)",
    "t_min": "canvas(coldest=X)",
    "t_max": "canvas(hottest=X)",
    "stability_threshold": "canvas(stable_steps=N)",
    "confidence_threshold": "canvas(certain=X)",
    "sampler_config": "entropy_bound(X)",
}
_METHODS = ("_prepare_sampler", "_prepare_logits_processor", "_prepare_diffusion_stopping_criteria")
_FINAL = 1e4  # over the other logits of a position whose token is final


class Installed:
    """A policy in a model, until remove(), or until the end of a `with` block.

    policy   its text
    reports  of the last generate(): a list for each canvas, with the report of each row
    """

    def __init__(self, model: Any, policy: str, threads: int) -> None:
        self.policy, self.reports = policy, []
        self._model, self._threads = model, threads

    def remove(self) -> None:
        """The model has its own sampler again."""
        for name in _METHODS:
            self._model.__dict__.pop(name, None)

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


def install(model: Any, policy: str | None = None, *, threads: int = 1) -> Installed:
    """Lets a policy decide in model.generate().

    model    a DiffusionGemmaForBlockDiffusion
    policy   a text with a canvas; without one the word of the model, by config.model_type. It replaces max_denoising_steps,
             t_min, t_max, stability_threshold, confidence_threshold and sampler_config
    threads  that read the logits

    Draws come from PyTorch's generator, one number for each canvas: torch.manual_seed() repeats an answer. Logits on a GPU
    are copied to the host. Errors: ValueError for a text that is no policy, for parts that generate() cannot run, and in
    generate() for settings that the policy replaces.
    """
    for name in _METHODS:
        if not callable(getattr(type(model), name, None)):
            raise ValueError(f"model must be a DiffusionGemmaForBlockDiffusion of transformers, got {type(model).__name__}, "
                             f"which has no {name}()")
        if name in model.__dict__:
            raise ValueError("model has a policy already: call remove() of what install() returned")
    policy = _models.default(model.config) if policy is None else policy
    _text.check(policy, "generate() of DiffusionGemma", _REFUSED, suppress_mask=False, threads=threads)
    canvas = _text.arguments(policy, "canvas")
    if canvas is None:
        raise ValueError(f"policy '{policy}' has no canvas, and DiffusionGemma has no mask token: add canvas(48)")
    made = Installed(model, policy, threads)
    running: list[_Canvases] = []  # of the generate() that has begun

    def prepare_sampler(generation_config: Any) -> _Canvases:
        _check(generation_config, model.generation_config)
        generation_config.max_denoising_steps = int(canvas["steps"])
        generation_config.disable_compile = True
        eos = generation_config.eos_token_id
        running[:] = [_Canvases(made, canvas, model.config.canvas_length, model.config.text_config.vocab_size,
                                eos[0] if isinstance(eos, (list, tuple)) and eos else eos or None)]
        return running[0]

    def prepare_logits_processor(generation_config: Any, logits_processor: Any = None) -> Any:
        from transformers import LogitsProcessorList

        return LogitsProcessorList([*(logits_processor or ()), _Processor(running[0])])

    model._prepare_sampler = prepare_sampler
    model._prepare_logits_processor = prepare_logits_processor
    model._prepare_diffusion_stopping_criteria = lambda generation_config: running[0]
    return made


def _check(given: Any, usual: Any) -> None:
    """Refuses settings of a call that would have no effect."""
    defaults = type(given)._get_default_generation_params()
    for name, instead in _REPLACED.items():
        value = getattr(given, name, None)
        if value is not None and value not in (getattr(usual, name, None), defaults.get(name)):
            raise ValueError(f"{name} is {value}, which has no effect under a policy; write {instead} in it")


class _Processor:
    def __init__(self, canvases: _Canvases) -> None:
        self._canvases = canvases

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, cur_step: Any) -> torch.Tensor:
        return self._canvases.decide(scores, int(cur_step))


class _Canvases:
    """The sampler and the stopping criterion of one generate(), and what its processor of logits does."""

    def __init__(self, made: Installed, canvas: dict[str, Any], length: int, vocab: int, eos_token: int | None) -> None:
        self._made, self._canvas, self._length, self._vocab, self._eos = made, canvas, length, vocab, eos_token
        self._session: Session | None = None
        self._tokens: list[torch.Tensor] = []  # of each row, as the session writes them
        self._ended: list[bool] = []
        made.reports = []

    def initialize_canvas(self, batch_size: int, device: Any) -> torch.Tensor:
        """Begins a canvas with random tokens."""
        if self._session is None:
            self._session = Session(
                self._made.policy, vocab=self._vocab, mask_token=0, eos_token=self._eos, length=self._length, window=self._length,
                sequences=batch_size, suppress_mask=False, threads=self._made._threads)
        canvas = torch.randint(self._vocab, (batch_size, self._length), device=device)  # as transformers draws it
        self._tokens = list(canvas.cpu().clone())
        seed = int(torch.randint(2**62, ()))
        self._ended = [False] * batch_size
        for row, tokens in enumerate(self._tokens):
            # Draws differ between rows.
            self._session.start(row, tokens, prompt_length=0, block_length=self._length, seed=(seed + row) % 2**64)
        self._made.reports.append([self._session.report(row) for row in range(batch_size)])
        return canvas

    def decide(self, scores: torch.Tensor, left: int) -> torch.Tensor:
        """A step of the policy; `left` are left, with this one. Returns the logits at its temperature, where a row is final those
        of its tokens.
        """
        session = self._session
        assert session is not None
        request = session.next()
        running = [] if request is None else [s.slot for s in request.segments]
        if request is not None:
            session.supply([scores[s.slot, s.rows].detach().cpu().contiguous() for s in request.segments])
        coldest, hottest, steps = (self._canvas[name] for name in ("coldest", "hottest", "steps"))
        out = scores / (coldest + (hottest - coldest) * left / steps)
        for row in running:
            self._made.reports[-1][row] = report = session.report(row)
            self._ended[row] = report.end != Ending.running
        for row in (row for row in running if self._ended[row]):  # what it writes is the best of its logits
            final = self._tokens[row].to(out.device)[:, None]
            out[row] = out[row].scatter(-1, final, out[row].amax(-1, keepdim=True) + _FINAL)
        return out

    def accept_canvas(self, current_canvas: torch.Tensor, denoiser_canvas: Any, logits: Any, cur_step: Any) -> torch.Tensor:
        return torch.stack(self._tokens).to(current_canvas)

    def renoise_canvas(self, accepted_canvas: torch.Tensor, cur_step: Any) -> torch.Tensor:
        return accepted_canvas  # the policy has drawn its noise

    def __call__(self, argmax_canvas: torch.Tensor, logits: torch.Tensor, **_: Any) -> torch.Tensor:
        """Which rows have ended."""
        return torch.tensor(self._ended, device=argmax_canvas.device)

    def reset(self) -> None:
        """A canvas begins: initialize_canvas() does what is to be done."""
