# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies in ollada: an adapter of the family sdar whose blocks a policy decides.

    python -m unmask.ollada --policy "trace_credit + threshold(0.9)" run sdar:1.7b "Why is the sky blue?"
    python -m unmask.ollada --policy "trace_credit + threshold(0.9)" serve

The rest of the command line is ollada's. A request has a policy of its own with
"options": {"policy": TEXT}. create_adapter() is what ollada's worker takes as `adapter_factory`.
"""
from __future__ import annotations

import argparse
import functools
import os
import time
from typing import Any, Callable, Optional, Sequence

from . import _text
from ._unmask import Ending, Report, Session

_BLOCKS = "ollada runs one block after another: `block_length`"
_REFUSED = {
    "cache": "ollada keeps K/V of finished blocks and runs the current one",
    "layer rule": "ollada gives logits only, no layer's hidden states",
    "branches": "ollada runs no branches of a sequence",
    "probe": "ollada has no place for its answers; use unmask.Session",
    "canvas": "the models of ollada have masks",
    "block_pipeline": _BLOCKS,
    "single_block": _BLOCKS,
    "slow_fast": _BLOCKS,
}
_READ = {"policy", "gen_length", "block_length", "seed", "suppress_mask"}


def create_adapter(recipe: Any, policy: Optional[str] = None) -> Any:
    """The adapter of a recipe, with a policy for requests that name none.

    Requests without any policy are decoded by ollada. ValueError if the policy is none that ollada
    can run, or if the recipe is of another family than sdar: those decode inside their models' own
    code.
    """
    if policy is not None:
        _text.check(policy, "ollada", _REFUSED)
    if recipe.family != "sdar":
        raise ValueError(f"{recipe.name} is of the family {recipe.family}, which decodes in its model's own code; "
                         "a policy runs models of the family sdar")
    return _adapter_class()(recipe, policy)


@functools.lru_cache(maxsize=1)
def _adapter_class() -> Any:
    from ollada.adapters import sdar

    class Unmask(sdar.SdarAdapter):  # type: ignore[misc]
        """ollada's adapter, which loads the model; a policy decides."""

        def __init__(self, recipe: Any, policy: Optional[str]) -> None:
            super().__init__(recipe)
            self.policy = policy

        def chat(self, messages: Any, overrides: Any = None, on_step: Any = None) -> Any:
            given = dict(overrides or {})
            policy = given.get("policy", self.policy)
            if policy is None:
                if unknown := sorted(given.keys() & {"seed", "suppress_mask"}):
                    raise ValueError(f"option {', '.join(unknown)} needs a policy; ollada's own loop does not read it")
                given.pop("policy", None)
                return super().chat(messages, given or None, on_step=on_step)
            if unknown := sorted(map(str, given.keys() - _READ)):
                raise ValueError(f"option {', '.join(unknown)} is not read together with a policy, which has parts for it; "
                                 f"there are {', '.join(sorted(_READ))}")
            if "policy" in given:
                _text.check(policy, "ollada", _REFUSED, files=False)
            self._require_loaded()
            prompt = self._prompt_ids(messages).to(self.model.device)
            started = time.time()
            tokens, report = decode(
                self.model,
                prompt,
                policy,
                mask_token=self._mask_id,
                stopping_ids=self._stopping_ids,
                gen_length=_integer(given, "gen_length", 1, self.recipe.generate.get("gen_length", 256)),
                block_length=_integer(given, "block_length", 1, self.recipe.generate.get("block_length", 4)),
                seed=_integer(given, "seed", 0, None),
                suppress_mask=_truth(given, "suppress_mask", True),
                mask_contract=self._mask_contract,
                on_step=on_step,
                tokenizer=self.tokenizer,
            )
            result = self._finish(tokens, prompt.shape[1], started, nfe=report.forwards)
            result.text = result.text.replace(self.tokenizer.mask_token or "<|MASK|>", "").strip()
            return result

    return Unmask


def decode(
    model: Any,
    input_ids: Any,
    policy: str,
    *,
    mask_token: int,
    stopping_ids: Sequence[int] = (),
    gen_length: int = 256,
    block_length: int = 4,
    seed: Optional[int] = None,
    suppress_mask: bool = True,
    mask_contract: str = "tensor",
    on_step: Optional[Callable[..., Any]] = None,
    tokenizer: Any = None,
) -> tuple[Any, Report]:
    """Decodes one prompt, int64 [1, length], with a model that ollada has loaded.

    Blocks start at multiples of block_length, the first one maybe inside the prompt, and end behind
    at least gen_length new tokens. Returns the sequence, [1, blocks * block_length], and its report;
    positions behind the block with the first of stopping_ids hold the mask token, and so do those from
    the first on that no step decided, where max_steps ended the decode. The EOS token of
    the policy's parts is the first of stopping_ids. Without a seed PyTorch's generator draws it.
    """
    import torch
    from ollada.adapters import sdar
    from transformers import DynamicCache

    device = input_ids.device
    prompt = input_ids.shape[1]
    first = prompt // block_length * block_length
    end = -(-(prompt + gen_length) // block_length) * block_length
    tokens = torch.full((end,), mask_token, dtype=torch.long)
    tokens[:prompt] = input_ids[0].cpu()
    vocab = model.lm_head.weight.shape[0]
    session = Session(
        policy,
        vocab=vocab,
        mask_token=mask_token,
        eos_token=stopping_ids[0] if stopping_ids else None,
        length=end,
        window=end - first,
        suppress_mask=suppress_mask,
    )
    session.start(
        0,
        tokens,
        prompt_length=first,
        block_length=block_length,
        editable=torch.arange(end) >= prompt,
        seed=int(torch.randint(2**62, (1,))) if seed is None else seed,
    )

    undecided = set(range(prompt, end))
    blocks = torch.arange(end, device=device) // block_length
    places = torch.arange(end, device=device)[None]
    cache = DynamicCache()

    def forward(begin: int, until: int, store: bool) -> Any:
        seen = (blocks[begin:until, None] >= blocks[None, :until]).float()[None]
        return sdar._forward_logits(
            model, tokens[None, begin:until].to(device), seen, places[:, begin:until], cache, store_kv=store,
            mask_contract=mask_contract)

    def show(begin: int) -> None:
        if on_step is None or tokenizer is None:
            return
        pieces = sdar._watch_pieces(tokenizer, tokens[prompt:].tolist(), mask_token, {})
        try:
            on_step(pieces, begin // block_length, end // block_length, session.report().forwards, end - prompt)
        except Exception:  # as in ollada: a display that fails ends no decode
            pass

    with torch.no_grad():
        if first:
            forward(0, first, store=True)
        begin = first
        show(begin)
        while (request := session.next()) is not None:
            rows = request.segments[0].rows
            while rows.start >= begin + block_length:  # the block is complete
                if any(int(token) in stopping_ids for token in tokens[prompt : begin + block_length]):
                    session.abandon()
                    session.cancel(0)
                    break
                forward(begin, begin + block_length, store=True)
                begin += block_length
            else:
                logits = forward(begin, begin + block_length, store=False)[0]
                session.supply([logits[rows.start - begin : rows.stop - begin].cpu().contiguous()])
                for c in session.committed():
                    (undecided.add if c.token == mask_token else undecided.discard)(c.position)
                if session.report().end == Ending.max_steps and undecided:
                    tokens[min(undecided) :] = mask_token
                show(begin)
    return tokens[None].to(device), session.report()


def _integer(given: Any, name: str, least: int, otherwise: Any) -> Any:
    value = given.get(name, otherwise)
    if value is otherwise:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"option {name} must be an integer, at least {least}, got {value!r}")
    return value


def _truth(given: Any, name: str, otherwise: bool) -> bool:
    value = given.get(name, otherwise)
    if not isinstance(value, bool):
        raise ValueError(f"option {name} must be true or false, got {value!r}")
    return value


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """ollada's command line, with the adapter of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m unmask.ollada", description="ollada's command line, with a policy for the family sdar")
    parser.add_argument("--policy", help="of requests that name none; without it ollada decodes them")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what ollada takes: run sdar:1.7b, serve, ...")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.policy is not None:
            _text.check(chosen.policy, "ollada", _REFUSED)
    except ValueError as error:
        parser.error(str(error))

    from ollada import cli
    from ollada.runtime import manager

    # The environments that ollada builds for its workers do not have this package.
    os.environ["OLLADA_INPROCESS"] = "1"
    manager.create_adapter = functools.partial(create_adapter, policy=chosen.policy)
    return int(cli.main(chosen.command))


if __name__ == "__main__":
    raise SystemExit(main())
