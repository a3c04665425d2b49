# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies in d2Cache: the decoding strategy `unmask`, beside its `vanilla`.

    python -m unmask.d2cache eval.py generation.strategy=unmask '+generation.policy="trace_credit + threshold(0.9)"' ...

runs a script of the checkout, with the strategy registered. Programs call register().
"""
from __future__ import annotations

import os
import runpy
import sys
from typing import Any, Optional, Sequence

from . import _text
from ._unmask import Ending, Session

_BLOCKS = "d2Cache runs one block after another: generation.block_length, which may be gen_length"
_ONLY_MASKS = "a step of d2Cache commits masked positions"
_REFUSED = {
    "cache": "d2Cache has caches of its own: cache=d2cache, prefix or dllm",
    "layer rule": "d2Cache's caches choose the positions of a layer",
    "branches": "d2Cache runs no branches of a sequence",
    "probe": "d2Cache has no place for its answers; use unmask.Session",
    "canvas": "the models of d2Cache have masks",
    "token editing": _ONLY_MASKS,
    "remask": _ONLY_MASKS,
    "edited_blocks": _ONLY_MASKS,
    "block_pipeline": _BLOCKS,
    "single_block": _BLOCKS,
    "slow_fast": _BLOCKS,
    "max_steps": "it leaves masks, and d2Cache decodes no frame that has them",
}
# Settings of vanilla that decide, with the values at which they say nothing.
_VANILLA: dict[str, tuple[Any, ...]] = {
    "alg": ("maskgit_plus",),
    "num_transfer_tokens": (1,),
    "temperature": (0, None),
    "threshold": (None,),
    "factor": (None,),
    "gamma": (None,),
    "debias": (False, None),
    "output_hidden_states": (False, None),
    "output_probs": (False, None),
}


def register() -> None:
    """Makes `generation.strategy=unmask` known. The root of d2Cache's checkout must be in sys.path."""
    from src.generation import register as strategies

    strategies("unmask")(generate)


def generate(
    model: Any,
    input_ids: Any,
    attention_mask: Any = None,
    policy: Optional[str] = None,
    block_length: int = 32,
    gen_length: int = 128,
    mask_token_id: Optional[int] = None,
    pad_token_id: Optional[int] = None,
    eos_token_id: Optional[int] = None,
    stop_until_eos: bool = False,
    cache_cls: Any = None,
    seed: int = 0,
    suppress_mask: bool = True,
    threads: int = 1,
    alg: str = "maskgit_plus",
    num_transfer_tokens: int = 1,
    temperature: Optional[float] = None,
    threshold: Optional[float] = None,
    factor: Optional[float] = None,
    gamma: Optional[float] = None,
    debias: Optional[bool] = None,
    output_hidden_states: Optional[bool] = None,
    output_probs: Optional[bool] = None,
) -> Any:
    """The strategy: d2Cache's DecodeRecord of a batch.

    input_ids        int64 [batch, prompt], padded on the left; attention_mask of that shape
    policy           a policy as text
    block_length     divides gen_length
    mask_token_id    and eos_token_id: without them MASK_TOKEN_ID and EOS_TOKEN_ID of the environment
    stop_until_eos   as in vanilla: a row is done once no mask is left of its first EOS token
    cache_cls        makes a cache of d2Cache from the model's configuration. A position whose logits
                     it did not compute in a step is not committed in that step
    seed             of draws; row i has seed + i
    suppress_mask    whether the mask token is never proposed
    threads          of the session

    The other arguments are settings of vanilla that must say nothing. ValueError names the one that
    does, or the part of the policy that d2Cache cannot run; RuntimeError if a step with a cache
    commits nothing, which its record cannot hold, or if the cache computed no position that could
    be committed.
    """
    import torch
    import torch.nn.functional as F
    from src.frame import INVALID_TOKEN_ID, DecodeRecord, Frame, FrameDelta
    from src.generation.utils import check_can_generate, prepare_logits_for_generation
    from src.utils import is_adapted_from_ar

    given = locals()
    for name, neutral in _VANILLA.items():
        if given[name] not in neutral:
            raise ValueError(f"{name}={given[name]} is a setting of vanilla, which strategy unmask does not read: "
                             "the policy has parts for it")
    mask_token = _token("mask_token_id", mask_token_id)
    if mask_token is None:
        raise ValueError("mask_token_id must be given, or MASK_TOKEN_ID in the environment")
    eos_token = _token("eos_token_id", eos_token_id)
    if stop_until_eos and eos_token is None:
        raise ValueError("eos_token_id must be given, or EOS_TOKEN_ID in the environment, for stop_until_eos")
    if policy is None:
        raise ValueError("policy must be given: '+generation.policy=\"threshold(0.9)\"'")
    _text.check(policy, "d2Cache", _REFUSED, eos_token=eos_token)
    if block_length < 1 or gen_length % block_length:
        raise ValueError(f"block_length must divide gen_length, got {block_length} and {gen_length}")

    device = model.device
    batch, prompt = input_ids.shape
    first = Frame.create_initial_frame(input_ids, gen_length=gen_length, mask_token_id=mask_token)
    frame = first = first.to(device=device, dtype=model.dtype)
    if attention_mask is None and pad_token_id is not None:
        attention_mask = (input_ids != pad_token_id).long()
    if attention_mask is not None and attention_mask.shape == input_ids.shape:
        attention_mask = F.pad(attention_mask, (0, gen_length), value=1).to(device)
    cache = None if cache_cls is None else cache_cls(model.config)

    session = Session(
        policy,
        vocab=model.config.vocab_size,
        mask_token=mask_token,
        eos_token=eos_token,
        length=prompt + gen_length,
        window=gen_length,
        sequences=batch,
        suppress_mask=suppress_mask,
        threads=threads,
    )
    rows = torch.cat([first.prompts, first.generated_tokens], dim=1).cpu()
    texts = [row.clone() for row in rows]  # written by the session
    for slot, text in enumerate(texts):
        session.start(slot, text, prompt_length=prompt, block_length=block_length, seed=seed + slot)

    deltas = []
    for begin in range(0, gen_length, block_length):
        block = torch.zeros((batch, gen_length), dtype=torch.bool, device=device)
        block[:, begin : begin + block_length] = True
        before, of_block = frame.clone(), []
        if cache is not None:
            cache.on_block_start(block, frame)
        while True:
            if cache is not None:
                cache.on_step_start(block, frame)
            # This takes positions out of `block` that are decided or behind the first EOS token.
            running = check_can_generate(
                frame,
                eligible_mask=block,
                stop_until_eos=stop_until_eos,
                mask_token_id=mask_token,
                eos_token_id=eos_token,
            )
            ended = [session.report(slot).end != Ending.running for slot in range(batch)]
            running &= ~torch.tensor(ended, device=device)
            slots = running.nonzero().flatten().tolist()
            request = session.next(slots) if slots else None
            if request is None:
                break
            if cache is not None:
                cache.active_seq_mask = running
            with torch.no_grad():
                logits = model(
                    torch.cat([frame.prompts, frame.generated_tokens], dim=1)[running],
                    attention_mask=None if attention_mask is None else attention_mask[running],
                    past_key_values=cache,
                    use_cache=cache is not None,
                ).logits
            logits = prepare_logits_for_generation(model, logits)
            computed = None if cache is None else cache.active_q_mask
            if computed is not None and is_adapted_from_ar(model):
                computed = F.pad(computed[:, :-1], (1, 0), value=True)
            supplied = []
            for segment in request.segments:
                place = slots.index(segment.slot)
                if not begin <= segment.rows.start - prompt < segment.rows.stop - prompt <= begin + block_length:
                    raise RuntimeError(f"'{policy}' reads positions {segment.rows} outside d2Cache's block")
                wanted = block[segment.slot, segment.rows.start - prompt : segment.rows.stop - prompt]
                if computed is not None:
                    wanted = wanted & computed[place, segment.rows]
                if not wanted.any():
                    raise RuntimeError(f"{type(cache).__name__} computed no masked position of row {segment.slot}")
                # Rows of NaN are not committed while there are others.
                read = logits[place, segment.rows].masked_fill(~wanted[:, None], float("nan"))
                supplied.append(read.cpu().contiguous())
            session.supply(supplied)

            chosen = [torch.empty(0, dtype=torch.long, device=device)] * batch
            tokens = torch.full((batch, gen_length), INVALID_TOKEN_ID, device=device)
            for slot in slots:
                commits = session.committed(slot)
                chosen[slot] = torch.tensor([c.position - prompt for c in commits], dtype=torch.long, device=device)
                tokens[slot, chosen[slot]] = torch.tensor([c.token for c in commits], dtype=torch.long, device=device)
            wrote = [slot for slot in slots if len(chosen[slot])]
            if cache is not None and wrote != slots:
                raise RuntimeError(f"a step of '{policy}' commits nothing, which d2Cache's caches cannot follow")
            if not wrote:
                continue
            masked = frame.generated_tokens == mask_token
            best = torch.softmax(logits[:, prompt:], dim=-1).amax(dim=-1)
            confidence = torch.full((batch, gen_length), -torch.inf, dtype=best.dtype, device=device)
            confidence[running] = torch.where(masked[running], best, -torch.inf)
            delta = FrameDelta(transfer_index=tuple(chosen), decoded_tokens=tokens[wrote], confidence=confidence[wrote])
            if cache is not None:
                cache.on_step_end(block, frame, delta)
            of_block.append(delta.to("cpu"))
            frame = frame.apply_delta(delta, mask_token)
        if cache is not None:
            cache.on_block_end(block, before, of_block)
        deltas.extend(of_block)
    return DecodeRecord(initial_frame=first.to("cpu"), deltas=deltas, block_length=block_length)


def _token(name: str, given: Optional[int]) -> Optional[int]:
    found = os.environ.get(name.upper()) if given is None else given
    return None if found is None else int(found)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs a script of d2Cache's checkout, with its arguments, after register()."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print("python -m unmask.d2cache SCRIPT [ARGUMENT...]: a script of d2Cache's checkout, such as eval.py, which "
              "then knows generation.strategy=unmask")
        return
    sys.argv = given
    sys.path.insert(0, os.path.dirname(os.path.abspath(given[0])))
    register()
    runpy.run_path(given[0], run_name="__main__")


if __name__ == "__main__":
    main()
