# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies in LMDeploy: the step that unmasks the blocks of its PyTorch engine (SDAR).

    python -m unmask.lmdeploy --policy "trace_credit + threshold(0.9)" serve api_server JetLM/SDAR-1.7B-Chat

The rest of the command line is LMDeploy's. Programs call install(policy) before they make a pipeline.
"""
from __future__ import annotations

import argparse
import collections
import os
import sys
from typing import Any, Optional, Sequence

from . import _text
from ._unmask import Ending, Session

_BLOCKS = "LMDeploy runs one block of a request after another: `dllm_block_length`"
_ONE_BLOCK = "it counts over the whole answer, and LMDeploy shows one block at a time"
_REFUSED = {
    "cache": "LMDeploy keeps K/V of finished blocks and runs the current one",
    "layer rule": "LMDeploy gives logits only, no layer's hidden states",
    "branches": "LMDeploy runs no branches of a sequence",
    "probe": "LMDeploy has no place for its answers; use unmask.Session",
    "canvas": "the models of LMDeploy have masks",
    "edited_blocks": "LMDeploy stores a block when it is complete",
    "block_pipeline": _BLOCKS,
    "single_block": _BLOCKS,
    "slow_fast": _BLOCKS,
    "joint_threshold_indel": _BLOCKS + ", and their lengths",
    "daedal": _BLOCKS + ", and their lengths",
    "rho_eos": _BLOCKS + ", and their lengths",
    "self_speculation": "LMDeploy uses the attention of its model",
    "min_new_tokens": _ONE_BLOCK,
    "stop_sequence": _ONE_BLOCK,
    "max_steps": _ONE_BLOCK,
    "replay": _ONE_BLOCK,
}
_MASKED, _UNMASKED, _CACHED = 0, 1, 2  # lmdeploy.pytorch.consts
_POLICY = "UNMASK_LMDEPLOY_POLICY"  # processes that the engine starts have it, too
_SUPPRESS = "UNMASK_LMDEPLOY_SUPPRESS_MASK"
_WAITING = 256  # most blocks that wait while other requests run


class UnmaskingProcessor:
    """Takes the place of LMDeploy's class of this name: a policy decides which masked tokens of a block become final.

    Called with logits [blocks * block_length, vocab] after LMDeploy's own edits (penalties, temperature,
    bad words, grammar), the blocks' tokens, the tokens that LMDeploy drew for them and the states of their
    positions. Returns the new states and tokens.
    """

    def __init__(self, dllm_config: Any, policy: Optional[str] = None, suppress_mask: Optional[bool] = None) -> None:
        self.dllm_config = dllm_config
        self.policy = os.environ[_POLICY] if policy is None else policy
        self.suppress_mask = os.environ.get(_SUPPRESS, "1") == "1" if suppress_mask is None else suppress_mask
        _text.check(self.policy, "LMDeploy", _REFUSED)
        draw = _text.arguments(self.policy, "sampling")
        self._draws = draw is not None and draw["temperature"] > 0
        self._free: list[tuple[Session, int]] = []
        self._started = 0
        # Blocks by what the step before left of them; of equal ones the first comes first, as in LMDeploy's batch.
        self._blocks: "collections.OrderedDict[Any, collections.deque[Any]]" = collections.OrderedDict()

    def __call__(self, logits: Any, input_ids: Any, token_ids: Any, dllm_mask: Any) -> tuple[Any, Any]:
        import torch

        size = self.dllm_config.block_length
        states = dllm_mask.view(-1, size).cpu().clone()
        before = input_ids.view(-1, size).cpu().int()
        drawn = token_ids.view(-1, size).cpu().int()
        rows = logits.view(len(states), size, -1)
        tokens = torch.where(states == _MASKED, drawn, before)
        states[(states == _UNMASKED).all(1)] = _CACHED
        running: dict[Any, dict[int, tuple[int, Any]]] = {}
        for i, state in enumerate(states):
            if bool((state == _MASKED).any()):
                session, slot, own = self._resumed(state, before[i], rows.shape[-1])
                running.setdefault(session, {})[slot] = i, own
        for session, blocks in running.items():
            request = session.next(sorted(blocks))
            read = []
            for s in request.segments if request else ():
                block = rows[blocks[s.slot][0], s.rows].detach()
                read.append(block.float().cpu() if block.dtype == torch.float64 else block.cpu())
            if request is not None:
                session.supply(read)
            for slot, (i, own) in blocks.items():
                was = states[i] == _MASKED
                now = self._masks(session, slot, own)
                if not self._draws:  # LMDeploy's draw stands where its request samples
                    take = was & ~now & (drawn[i] != self._mask_token)
                    own[take] = drawn[i][take]
                tokens[i] = torch.where(now, drawn[i], own)
                states[i] = torch.where(now, _MASKED, _UNMASKED).to(states)
                self._leave(session, slot, own, states[i])
        return states.flatten().to(dllm_mask), tokens.flatten().to(token_ids)

    def _masks(self, session: Session, slot: int, own: Any) -> Any:
        masks = own == self._mask_token
        # The mask token may be an answer where it is not suppressed; it then goes out, as in LMDeploy.
        return masks & (session.report(slot).end == Ending.running)

    def _resumed(self, state: Any, tokens: Any, vocab: int) -> tuple[Session, int, Any]:
        """The session, slot and tokens of a block: as its last step left it, or started now."""
        key = (state.numpy().tobytes(), tokens.numpy().tobytes())
        waiting = self._blocks.get(key)
        if waiting:
            session, slot, own = waiting.popleft()
            if not waiting:
                del self._blocks[key]
            return session, slot, own
        masked = state == _MASKED
        self._mask_token = int(tokens[masked][0])
        if not self._free:
            slots = 64
            session = Session(self.policy, sequences=slots, length=len(tokens), window=len(tokens), vocab=vocab,
                              mask_token=self._mask_token, suppress_mask=self.suppress_mask)
            self._free = [(session, slot) for slot in reversed(range(slots))]
        session, slot = self._free.pop()
        own = tokens.clone()
        session.start(slot, own, prompt_length=0, block_length=len(own), editable=masked, seed=self._started)
        self._started += 1
        return session, slot, own

    def _leave(self, session: Session, slot: int, own: Any, state: Any) -> None:
        """Keeps a block for its next step, or gives its slot back."""
        if not bool((state == _MASKED).any()):
            session.cancel(slot)
            self._free.append((session, slot))
            return
        key = (state.numpy().tobytes(), own.numpy().tobytes())
        self._blocks.setdefault(key, collections.deque()).append((session, slot, own))
        self._blocks.move_to_end(key)
        while sum(map(len, self._blocks.values())) > _WAITING:  # of requests that were aborted
            oldest = next(iter(self._blocks))
            gone, gone_slot, _ = self._blocks[oldest].popleft()
            if not self._blocks[oldest]:
                del self._blocks[oldest]
            gone.cancel(gone_slot)
            self._free.append((gone, gone_slot))


def install(policy: str, *, suppress_mask: bool = True) -> None:
    """Makes engines that are made from now on decide by a policy, in this process and those it starts."""
    _text.check(policy, "LMDeploy", _REFUSED)
    os.environ[_POLICY], os.environ[_SUPPRESS] = policy, str(int(suppress_mask))
    from lmdeploy.pytorch.strategies.dllm import model_agent

    model_agent.UnmaskingProcessor = UnmaskingProcessor


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """LMDeploy's command line, with a policy for diffusion models."""
    parser = argparse.ArgumentParser(
        prog="python -m unmask.lmdeploy", description="LMDeploy's command line, with a policy for diffusion models")
    parser.add_argument("--policy", required=True, help="a policy as text")
    parser.add_argument("--propose-mask", action="store_true", help="the mask token may be an answer, as in LMDeploy")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what lmdeploy takes: serve api_server MODEL, ...")
    chosen = parser.parse_args(arguments)
    try:
        install(chosen.policy, suppress_mask=not chosen.propose_mask)
    except ValueError as error:
        parser.error(str(error))
    from lmdeploy import cli

    sys.argv = ["lmdeploy", *chosen.command]
    cli.run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
if __name__ == "__mp_main__" and _POLICY in os.environ:  # a process that the engine started
    install(os.environ[_POLICY], suppress_mask=os.environ[_SUPPRESS] == "1")
