# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies in SGLang: the dLLM algorithm `Unmask`, which SGLang finds by itself.

    sglang serve --model-path MODEL --dllm-algorithm Unmask --dllm-algorithm-config unmask.yaml

with unmask.yaml:

    policy: trace_credit + threshold(0.9)

register() is the entry point of the group `sglang.srt.plugins`. A request names a policy of its own
with sampling_params["custom_params"] = {"policy": TEXT}.
"""
from __future__ import annotations

import functools
import hashlib
import sys
import weakref
from typing import Any, Optional

import torch
from sglang.srt.dllm.algorithm.base import DllmAlgorithm

from . import _text
from ._unmask import has_cuda
from .block import Block

_BLOCKS = "SGLang chooses the blocks: `block_size`"
_ONE_BLOCK = "it counts over the whole answer, and SGLang shows one block at a time"
_REFUSED = {
    "cache": "SGLang keeps K/V of finished blocks and runs the current one",
    "layer rule": "SGLang gives logits only, no layer's hidden states",
    "branches": "SGLang runs no branches of a sequence",
    "probe": "SGLang has no place for its answers; use unmask.Session",
    "block_pipeline": _BLOCKS,
    "single_block": _BLOCKS,
    "slow_fast": _BLOCKS,
    "min_new_tokens": _ONE_BLOCK,
    "stop_sequence": _ONE_BLOCK,
    "max_steps": "use the setting max_steps, which counts in each block",
    "replay": _ONE_BLOCK,
    "canvas": "SGLang runs models with a canvas under Gemma4Renoise alone",
}

# The algorithms of SGLang as texts, with the names and defaults of their settings.
_OF_SGLANG = {
    "LowConfidence": {"threshold": 0.95},
    "JointThreshold": {
        "threshold": 0.5,
        "edit_threshold": 0,
        "max_post_edit_steps": 16,
        "penalty_lambda": 0,
    },
}
_OWN = {"policy": None, "suppress_mask": None, "max_steps": None, "eos_token": None}


class Settings:
    """The settings of --dllm-algorithm-config, checked.

    policy          a policy as text, or LowConfidence or JointThreshold with SGLang's own settings
    suppress_mask   whether the mask token is never proposed: true, but false for LowConfidence
    max_steps       most forward passes that decide a block, at least 1; without it block_size + 1
                    where the mask token may be proposed, and no limit elsewhere: a policy ends
    eos_token       the token that parts such as stop_at_eos mean; without it that of the request
    """

    def __init__(self, given: Any, *, files: bool = True) -> None:
        if not isinstance(given, (dict, type(None))):
            raise ValueError(f"the configuration must be a mapping, got {given!r}")
        given = dict(given or {})
        name = given.get("policy")
        if name == "JointThresholdInDel":
            raise ValueError(
                "policy JointThresholdInDel inserts and deletes tokens, and the blocks of a policy keep their "
                "length; use --dllm-algorithm JointThresholdInDel"
            )
        if not isinstance(name, str) or not name.strip():
            raise ValueError(
                f"policy must be the text of a policy, got {name!r}; --dllm-algorithm-config names a YAML file "
                "with a line such as `policy: threshold(0.9)`"
            )
        known = {**_OWN, **_OF_SGLANG.get(name, {}), "block_size": None}
        if unknown := sorted(set(map(str, given)) - known.keys()):
            raise ValueError(f"unknown setting {', '.join(unknown)}; there are {', '.join(known)}")
        values = {**known, **given}
        self.policy = name
        if name == "LowConfidence":
            self.policy = "threshold({threshold})".format(**values)
        elif name == "JointThreshold":
            self.policy = (
                "threshold({threshold}) + edit_committed({edit_threshold}) + edited_blocks({max_post_edit_steps})"
            ).format(**values)
            if values["penalty_lambda"]:
                self.policy += " + neighbour_penalty({penalty_lambda})".format(**values)
        self.suppress_mask = _checked(values, "suppress_mask", None, name != "LowConfidence")
        self.max_steps = _checked(values, "max_steps", 1, None)
        self.eos_token = _checked(values, "eos_token", 0, None)
        _text.check(self.policy, "SGLang", _REFUSED, files=files)


@functools.lru_cache(maxsize=64)
def _of_request(policy: str) -> Settings:
    """The settings of a request, which names no file of the server."""
    return Settings({"policy": policy}, files=False)


def _checked(values: dict[str, Any], name: str, least: Optional[int], otherwise: Any) -> Any:
    """A setting that is an integer, at least `least`, or true or false if that is None."""
    value = values[name]
    if value is None:
        return otherwise
    if isinstance(value, bool) != (least is None) or not isinstance(value, int) or value < (least or 0):
        rule = "true or false" if least is None else f"an integer, at least {least}"
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return value


class _Request:
    """What is known of a request. It lives as long as SGLang's."""

    def __init__(self, settings: Settings, request: Any = None) -> None:
        self.settings = settings
        self.forwards = 0
        self.seed = 0
        self.eos_token = settings.eos_token
        self.request = lambda: None
        if request is not None:
            self.request = weakref.ref(request)
            drawn = request.sampling_params.sampling_seed
            if drawn is None:  # another one for each request, and the same on every rank
                drawn = int.from_bytes(hashlib.blake2b(str(request.rid).encode(), digest_size=8).digest(), "big")
            self.seed = drawn
            tokens = request.eos_token_ids
            if self.eos_token is None and tokens and not request.sampling_params.ignore_eos:
                self.eos_token = min(tokens)

    def block(self, length: int, vocab: int, mask_token: int, **options: Any) -> Block:
        return Block(
            self.settings.policy,
            length=length,
            vocab=vocab,
            mask_token=mask_token,
            eos_token=self.eos_token,
            suppress_mask=self.settings.suppress_mask,
            **options,
        )


class _Pending:
    """A block that is being decoded."""

    def __init__(self, request: _Request, masked: torch.Tensor, offset: int) -> None:
        self.request = request
        self.masked = masked
        self.seed = (request.seed + offset * 0x9E3779B97F4A7C15) % 2**64
        self.block: Optional[Block] = None
        self.tokens: Any = None
        settings = request.settings
        self.limit = settings.max_steps or (sys.maxsize if settings.suppress_mask else len(masked) + 1)
        self.forwards = 0
        self.passes = [0] * len(masked)  # which of the request's forwards decided each position
        self.done = False


class Unmask(DllmAlgorithm):
    """Decides each block by a policy: that of the configuration, or of the request."""

    # By the request's name, for as long as SGLang keeps the request.
    _requests: "weakref.WeakValueDictionary[str, _Request]" = weakref.WeakValueDictionary()
    _configured: "weakref.WeakKeyDictionary[Any, Settings]" = weakref.WeakKeyDictionary()
    _counters: Any = None

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.settings = Settings(config.algorithm_config)

    @classmethod
    def configure_server_args(cls, server_args: Any) -> None:
        """Refuses a bad configuration before a model is loaded."""
        import yaml
        from sglang.srt.arg_groups.overrides import resolving_view

        path = resolving_view(server_args).dllm_algorithm_config
        if path is None:
            raise ValueError("Unmask needs --dllm-algorithm-config, a YAML file with a line such as `policy: threshold(0.9)`")
        with open(path, encoding="utf-8") as file:
            Settings(yaml.safe_load(file))

    @classmethod
    def validate_request(cls, req: Any) -> Optional[str]:
        """Takes note of the request; returns what is wrong with its policy."""
        config = req.dllm_config
        given = (req.sampling_params.custom_params or {}).get("policy")
        try:
            if given is None:
                if config not in cls._configured:
                    cls._configured[config] = Settings(config.algorithm_config)
                settings = cls._configured[config]
            else:
                settings = _of_request(given) if isinstance(given, str) else Settings({"policy": given})
            noted = _Request(settings, req)
            noted.block(config.block_size, req.vocab_size or config.mask_id + 1, config.mask_id)
        except Exception as error:  # one that is raised here would end the scheduler
            return f"Unmask: {error}"
        req.unmask = noted
        cls._requests[req.rid] = noted
        return None

    def max_steps(self, block_size: int) -> int:
        return sys.maxsize  # each block has a limit of its own

    def init_step_state(self, forward_batch: Any) -> list[Any]:
        masked = (~self._prompt_mask(forward_batch)).cpu()
        rids = getattr(forward_batch, "rids", None) or [None] * len(masked)
        positions = getattr(forward_batch, "positions", None)
        offsets = [0] * len(masked) if positions is None else positions.view(len(masked), -1)[:, 0].tolist()
        return [
            _Pending(self._requests.get(rid) or _Request(self.settings), row, offset)
            for rid, row, offset in zip(rids, masked, offsets)
        ]

    def step(self, forward_batch: Any, full_logits: torch.Tensor, states: list[Any]) -> list[bool]:
        input_ids = forward_batch.input_ids.view(-1, self.block_size)
        logits = full_logits.view(*input_ids.shape, -1)
        stream = torch.cuda.current_stream().cuda_stream if logits.is_cuda and has_cuda else None
        for ids, rows, state in zip(input_ids, logits, states):
            if state.done:
                continue
            if state.block is None:
                state.block = state.request.block(self.block_size, rows.shape[-1], self.mask_id, stream=stream)
                # Not a row of input_ids, which first-done-first-out makes anew for each step.
                state.tokens = ids.to("cpu" if stream is None else ids.device, copy=True)
                state.block.start(state.tokens, state.masked, seed=state.seed)
            written = state.block.step(rows) if state.forwards < state.limit else []
            if written:
                ids.copy_(state.tokens)
            for commit in written:
                state.passes[commit.position] = state.request.forwards + state.forwards
            state.forwards += 1
            # A forward that changed nothing has left the block's final K/V behind.
            if not written and (state.block.ended or state.forwards > state.limit):
                self._finish(state)
        return [state.done for state in states]

    def _finish(self, state: _Pending) -> None:
        """Reports a block: in the request's meta_info, and in the metrics of the server."""
        state.done = True
        tokens = [p for p, masked in zip(state.passes, state.masked.tolist()) if masked]
        if not tokens:  # a block of the prompt
            return
        state.request.forwards += state.forwards
        request = state.request.request()
        if request is None:
            return
        if request.customized_info is None:
            request.customized_info = {}
        request.customized_info.setdefault("unmask_forward", []).extend(tokens)
        if request.metrics_collector is not None:
            forwards, committed = self._metrics(request.metrics_collector)
            forwards.inc(state.forwards)
            committed.inc(len(tokens))

    @classmethod
    def _metrics(cls, collector: Any) -> Any:
        """Counters in addition to those of the scheduler, with its labels."""
        if cls._counters is None:
            from prometheus_client import Counter  # after SGLang has set PROMETHEUS_MULTIPROC_DIR

            cls._counters = [
                Counter(name, text, labelnames=collector.labels.keys()).labels(**collector.labels)
                for name, text in (
                    ("unmask:forwards", "Forward passes of blocks of answers, one for each request in a batch."),
                    ("unmask:tokens", "Tokens that those passes decided."),
                )
            ]
        return cls._counters


def register() -> None:
    """The entry point: makes `--dllm-algorithm Unmask` known."""
    from sglang.srt.dllm.algorithm import algo_name_to_cls

    algo_name_to_cls.setdefault("Unmask", Unmask)
