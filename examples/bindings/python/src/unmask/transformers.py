# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""generate() for masked language models of transformers, and for any module that returns logits.

    from unmask.transformers import generate

    out = generate(model, input_ids, "trace_credit + threshold(0.9)", max_new_tokens=256)
    print(tokenizer.batch_decode(out.sequences[:, input_ids.shape[1]:]), out.tokens_per_forward)

Models with a generate() take custom_generate() as its argument of that name.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Callable, Sequence

import torch

from . import _settings, _text
from ._unmask import Commit, Constraint, Field, Report, Session

_REFUSED = {
    "cache": "it runs the whole sequence in every pass and keeps no K/V",
    "layer rule": "it gets logits only, no layer's hidden states",
    "canvas": "its model is told no step's temperature or probabilities; use unmask.diffusers",
    "probe": "it returns no probabilities; use unmask.Session",
}
_REWRITES = {name: "a streamer cannot take a token back" for name in _text.REWRITES}


@dataclasses.dataclass
class Generated:
    """What generate() returns.

    sequences   [batch, length], as input_ids with its padding, then the new tokens; what a stop left
                masked holds the EOS token, or the mask token where there is no EOS token
    reports     of each row: forwards, committed, committed_prefix, end, tokens_per_forward
    forwards    calls of the model, each with all rows that were running
    """

    sequences: torch.Tensor
    reports: list[Report]
    forwards: int

    @property
    def tokens_per_forward(self) -> float:
        """Tokens committed for each forward pass of a sequence."""
        passes = sum(r.forwards for r in self.reports)
        return sum(r.committed for r in self.reports) / passes if passes else 0.0


@torch.no_grad()
def generate(
    model: Callable[..., Any],
    input_ids: torch.Tensor,
    policy: str | Sequence[str] = "threshold(0.9)",
    *,
    attention_mask: torch.Tensor | None = None,
    max_new_tokens: int | None = None,
    block_length: int | None = None,
    editable: torch.Tensor | None = None,
    mask_token_id: int | None = None,
    eos_token_id: int | None = None,
    vocab_size: int | None = None,
    shifted_logits: bool = False,
    suppress_mask: bool = True,
    cfg_scale: float = 0.0,
    seed: int = 0,
    callback: Callable[[int, list[Commit], Report], Any] | None = None,
    streamer: Any = None,
    trace: bool | str = False,
    token_text: Callable[[int], str] | None = None,
    threads: int = 1,
    constraint: Constraint | Field | Sequence[Constraint | Field | None] | None = None,
    **model_kwargs: Any,
) -> Generated:
    """Decodes a batch with a policy.

    model            model(input_ids, **model_kwargs) returns logits [batch, length, vocab], or an
                     object with them as `logits`; it gets attention_mask, too, where rows have
                     different lengths
    policy           a policy as text, or a list with one for each row
    input_ids        [batch, length]; attention_mask is 0 at padding, on either side
    max_new_tokens   appended masks, the same number for each row. Without it the mask tokens in
                     input_ids are filled in, and everything else stays
    block_length     decoded at a time, from left to right; 32 behind a prompt, all when filling in
    editable         [batch, length], bool: which positions to decode instead of those; or uint8: 0
                     fixed, 1 masked, 2 committed, which parts that edit may change
    mask_token_id    and eos_token_id, vocab_size: those of model.config by default
    shifted_logits   True for models whose row i predicts position i + 1, such as Dream
    suppress_mask    False lets the mask token be proposed, as released decoders do
    cfg_scale        LLaDA's guidance: a second pass with the prompt masked; 0 is off
    seed             of draws; row i has seed + i, wherever it stands among running rows
    callback         called for each row after each step: (row, commits, report)
    streamer         as of transformers, for one row: gets tokens once all before them are committed
    constraint       the language of the answers (unmask.constraints), or a list with one, or None, for
                     each row
    trace            name of a file that gets the decode as a trace; token_text(token) adds texts

    Rows that have ended leave the batch of the model. Logits on a GPU are copied to the host, only
    the rows that the policy reads. Errors: ValueError with the argument, its value and the rule.
    """
    host = "unmask.transformers.generate"
    config = getattr(model, "config", None)
    mask_token_id = _known("mask_token_id", mask_token_id, config)
    vocab_size = _known("vocab_size", vocab_size, config)
    if eos_token_id is None and isinstance(getattr(config, "eos_token_id", None), int):
        eos_token_id = config.eos_token_id
    if eos_token_id == mask_token_id:
        eos_token_id = None
    policies = _policies(policy)
    for one in policies:
        _text.check(one, host, _REFUSED if streamer is None else {**_REFUSED, **_REWRITES}, eos_token=eos_token_id)
    rows = _rows(input_ids, attention_mask, max_new_tokens, editable, mask_token_id)
    if len(policies) not in (1, len(rows)):
        raise ValueError(f"policy must be a text, or a list with one for each of {len(rows)} rows, got {len(policies)}")
    if streamer is not None and len(rows) != 1:
        raise ValueError(f"streamer is for a batch of 1, got {len(rows)} rows")

    widest = max(len(r.tokens) for r in rows)
    session = Session(
        policies[0],
        vocab=vocab_size,
        mask_token=mask_token_id,
        eos_token=eos_token_id,
        length=widest,
        window=max(len(r.tokens) - r.prompt for r in rows),
        sequences=len(rows),
        branches=16 if {"lookahead", "drafts", "beam"} & {n for p in policies for n in _text.names(p)} else 0,
        logits_shift=int(shifted_logits),
        suppress_mask=suppress_mask,
        trace=trace,
        token_text=token_text,
        threads=threads,
    )
    constraints = list(constraint) if isinstance(constraint, (list, tuple)) else [constraint] * len(rows)
    if len(constraints) != len(rows):
        raise ValueError(f"constraint must be one, or a list with one for each of {len(rows)} rows, got {len(constraints)}")
    for slot, row in enumerate(rows):
        session.start(
            slot,
            row.tokens,
            prompt_length=row.prompt,
            block_length=block_length or (32 if max_new_tokens is not None else len(row.tokens) - row.prompt),
            editable=row.editable,
            seed=seed + slot,
            constraint=constraints[slot],
            policy=policies[slot] if len(policies) > 1 and slot > 0 else None,
        )
    given = [row.tokens.clone() for row in rows]  # with masks where tokens will be
    streamed = _Streamed(streamer, rows[0], session) if streamer is not None else None
    forwards = 0
    while (request := session.next()) is not None:
        batch = [_copy_of(rows[s.slot].tokens, s.placed) for s in request.segments]
        if cfg_scale:
            batch += [_without_prompt(t, given[s.slot], mask_token_id) for t, s in zip(batch, request.segments)]
        try:
            logits = _forward(model, batch, input_ids.device, model_kwargs)
        except (IndexError, RuntimeError) as error:
            most = getattr(config, "max_position_embeddings", None)
            if isinstance(most, int) and widest > most:
                raise ValueError(f"a row has {widest} positions, new tokens included; the model has max_position_embeddings={most}") from error
            raise
        half = len(request.segments)
        read = [logits[i, s.rows].cpu().contiguous() for i, s in enumerate(request.segments)]
        guide = [logits[half + i, s.rows].cpu().contiguous() for i, s in enumerate(request.segments)] if cfg_scale else None
        session.supply(read, unconditional=guide, cfg_scale=cfg_scale)
        forwards += 1
        if callback is not None:
            for slot in sorted({s.slot for s in request.segments}):
                callback(slot, session.committed(slot), session.report(slot))
        if streamed is not None:
            streamed.put()
    if streamed is not None:
        streamed.end()

    new = 0 if max_new_tokens is None else max_new_tokens
    sequences = torch.cat([input_ids, input_ids.new_full((len(rows), new), mask_token_id)], dim=1)
    for slot, row in enumerate(rows):
        sequences[slot, row.places.to(sequences.device)] = row.tokens.to(sequences)
    return Generated(sequences, [session.report(slot) for slot in range(len(rows))], forwards)


_OF_SETTINGS = {  # what transformers makes of the settings that become parts, and of the length
    "TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper", "MinPLogitsWarper", "RepetitionPenaltyLogitsProcessor",
    "MinNewTokensLengthLogitsProcessor", "MaxLengthCriteria", "EosTokenCriteria",
}
_OF_CACHES = ("cache", "past_key_values", "cache_position", "logits_to_keep", "position_ids", "use_cache")


def custom_generate(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Sequence[Any] = (),
    stopping_criteria: Sequence[Any] = (),
    generation_config: Any = None,
    policy: str | Sequence[str] = "threshold(0.9)",
    block_length: int | None = None,
    mask_token_id: int | None = None,
    shifted_logits: bool = False,
    suppress_mask: bool = True,
    seed: int | None = None,
    constraint: Any = None,
    **model_kwargs: Any,
) -> Any:
    """generate() of this module as a decoding method of transformers.

        model.generate(input_ids, custom_generate=unmask.transformers.custom_generate, max_new_tokens=128,
                       policy="trace_credit + threshold(0.9)", mask_token_id=M)

    Settings of the generation config become parts of the policy: temperature, top_k, top_p and min_p with
    do_sample, repetition_penalty, min_new_tokens. ValueError names what it cannot honour. `seed` is drawn
    from PyTorch's generator by default; the other arguments are those of generate(). The whole sequence runs
    in each pass, without K/V: what a position attends to is the model's own. transformers 5.23 gives such a
    function no streamer: generate() takes one.
    """
    for made in (*logits_processor, *stopping_criteria):
        if type(made).__name__ not in _OF_SETTINGS:
            raise ValueError(f"unmask.transformers.custom_generate cannot honour {type(made).__name__}: the policy decides")
    config = generation_config
    if (config.num_beams or 1) > 1:
        raise ValueError(f"num_beams must be 1: a policy keeps one answer, got {config.num_beams}")
    drawn = {n: getattr(config, n, None) for n in ("temperature", "top_k", "top_p", "min_p")} if config.do_sample else {}
    if config.do_sample:  # what transformers does where none is given
        drawn["temperature"] = 1.0 if drawn["temperature"] is None else drawn["temperature"]
    texts = [
        _settings.with_parts(
            one,
            {**drawn, "repetition_penalty": config.repetition_penalty, "min_tokens": config.min_new_tokens},
            length=config.max_length,
            vocab=_known("vocab_size", None, model.config),
        )
        for one in _policies(policy)
    ]
    eos = config.eos_token_id
    out = generate(
        lambda ids, **rest: model(ids, **rest, use_cache=False),
        input_ids,
        texts,
        attention_mask=model_kwargs.pop("attention_mask", None),
        max_new_tokens=config.max_length - input_ids.shape[1],
        block_length=block_length,
        mask_token_id=_known("mask_token_id", mask_token_id, model.config),
        eos_token_id=eos[0] if isinstance(eos, list) else eos,
        vocab_size=_known("vocab_size", None, model.config),
        shifted_logits=shifted_logits,
        suppress_mask=suppress_mask,
        seed=int(torch.randint(2**62, ())) if seed is None else seed,
        constraint=constraint,
        **{name: value for name, value in model_kwargs.items() if name not in _OF_CACHES},
    )
    if not config.return_dict_in_generate:
        return out.sequences
    from transformers.generation.utils import GenerateDecoderOnlyOutput

    return GenerateDecoderOnlyOutput(sequences=out.sequences)


def _policies(policy: str | Sequence[str]) -> list[str]:
    """The texts of one policy, or of a list of them."""
    return list(policy) if isinstance(policy, (list, tuple)) else [policy]  # type: ignore[list-item]


@dataclasses.dataclass
class _Row:
    """One sequence without its padding."""

    tokens: torch.Tensor  # int64, on the CPU; written by the session
    editable: torch.Tensor
    places: torch.Tensor  # of its tokens in the row of Generated.sequences
    prompt: int  # positions before the first that is decoded


def _rows(input_ids: Any, attention_mask: Any, new: int | None, editable: Any, mask_token: int) -> list[_Row]:
    if isinstance(input_ids, torch.Tensor) and input_ids.dim() == 1:
        raise ValueError(f"input_ids must have two dimensions, got {list(input_ids.shape)}: input_ids[None] is a batch of one")
    if input_ids.dim() != 2 or input_ids.dtype != torch.long or input_ids.numel() == 0:
        raise ValueError(f"input_ids must be int64 [batch, length], got {input_ids.dtype} {list(input_ids.shape)}")
    for name, given in (("attention_mask", attention_mask), ("editable", editable)):
        if given is not None and given.shape != input_ids.shape:
            raise ValueError(f"{name} must be of the shape {list(input_ids.shape)} of input_ids, got {list(given.shape)}")
    if new is not None and (isinstance(new, bool) or not isinstance(new, int) or new < 1):
        raise ValueError(f"max_new_tokens must be an integer, at least 1, got {new}")
    ids = input_ids.cpu()
    there = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask.cpu().bool()
    rows = []
    for i in range(len(ids)):
        places = there[i].nonzero().flatten()
        tokens = ids[i, places]
        if editable is not None:
            marks = editable[i].cpu()[places]
            chosen = marks if marks.dtype == torch.uint8 else marks.bool()
        else:
            chosen = tokens == mask_token if new is None else torch.zeros_like(tokens, dtype=torch.bool)
        if new is not None:
            tokens = torch.cat([tokens, tokens.new_full((new,), mask_token)])
            chosen = torch.cat([chosen, torch.ones(new, dtype=chosen.dtype)])
            places = torch.cat([places, torch.arange(new) + ids.shape[1]])
        if not chosen.any():
            raise ValueError(f"row {i} of input_ids has nothing to decode: no mask token {mask_token}, and no max_new_tokens")
        rows.append(_Row(tokens.contiguous(), chosen, places, int(chosen.bool().int().argmax())))
    return rows


def _forward(model: Any, batch: Sequence[torch.Tensor], device: Any, model_kwargs: dict[str, Any]) -> torch.Tensor:
    """Logits of sequences, which are padded on the right where they have different lengths."""
    lengths = torch.tensor([len(t) for t in batch])
    ids = torch.nn.utils.rnn.pad_sequence(list(batch), batch_first=True).to(device)
    if int(lengths.min()) < ids.shape[1]:
        there = torch.arange(ids.shape[1])[None] < lengths[:, None]
        model_kwargs = {"attention_mask": there.long().to(device), **model_kwargs}
    output = model(ids, **model_kwargs)
    logits = getattr(output, "logits", output)
    return logits[0] if isinstance(logits, tuple) else logits


def _copy_of(tokens: torch.Tensor, placed: list[tuple[int, int]]) -> torch.Tensor:
    """The sequence, or a branch of it, which has more tokens."""
    if not placed:
        return tokens
    branch = tokens.clone()
    for position, token in placed:
        branch[position] = token
    return branch


def _without_prompt(tokens: torch.Tensor, given: torch.Tensor, mask_token: int) -> torch.Tensor:
    return torch.where(given == mask_token, tokens, mask_token)


def _known(name: str, given: int | None, config: Any) -> int:
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    found = given if given is not None else getattr(text, name, None)
    if not isinstance(found, int):
        raise ValueError(f"{name} must be given: model.config has none")
    return found


class _Streamed:
    """Gives a streamer the tokens of a row, in order, once all before them are committed."""

    def __init__(self, streamer: Any, row: _Row, session: Session) -> None:
        self._streamer, self._row, self._session, self._next = streamer, row, session, row.prompt
        streamer.put(row.tokens[: row.prompt])

    def put(self) -> None:
        report = self._session.report()
        prefix = max(min(report.committed_prefix, report.answer_end), self._next)
        for position in range(self._next, prefix):
            self._streamer.put(self._row.tokens[position : position + 1])
        self._next = prefix

    def end(self) -> None:
        self._streamer.end()
