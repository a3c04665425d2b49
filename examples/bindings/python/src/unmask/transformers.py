# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""generate() for masked language models of transformers, and for any module that returns logits.

    from unmask.transformers import generate

    out = generate(model, input_ids, "trace_credit + threshold(0.9)", max_new_tokens=256)
    print(tokenizer.batch_decode(out.sequences[:, input_ids.shape[1]:]), out.tokens_per_forward)

Models with a generate() take custom_generate() as its argument of that name.
"""
from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from typing import Any, Callable, Mapping, ParamSpec, Sequence, TypeVar

import torch

from . import _models, _text
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

    sequences    [batch, length], as input_ids with its padding, then the new tokens; what a stop left
                 masked holds the EOS token, or the mask token if there is no EOS token
    reports      of each row: forwards, committed, committed_prefix, end, tokens_per_forward
    forwards     calls of the model, each with all rows that were running
    answer_ends  of each row: the column of `sequences` after its answer, which ends with the token that stopped
                 it, and before the first position that no step decided, as max_steps leaves them
    """

    sequences: torch.Tensor
    reports: list[Report]
    forwards: int
    answer_ends: list[int]

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each row, for pandas.DataFrame and JSON: its tokens, the end of its answer, the members of its report."""
        return [{"tokens": tokens, "answer_end": end, **{n: v for n, v in report._asdict().items() if n != "answer_end"}}
                for tokens, end, report in zip(self.sequences.tolist(), self.answer_ends, self.reports)]

    @property
    def tokens_per_forward(self) -> float:
        """Tokens committed for each forward pass of a sequence."""
        passes = sum(r.forwards for r in self.reports)
        return sum(r.committed for r in self.reports) / passes if passes else 0.0


# What to write for arguments that are settings of a GenerationConfig, or of transformers' generate().
_SETTINGS = {
    "temperature": "write it in the policy: `+ temperature({0}) + sampling`",
    "do_sample": "write it in the policy: `+ sampling` draws, and without it the most probable token is taken",
    "top_k": "write it in the policy: `+ sampling + top_k({0})`",
    "top_p": "write it in the policy: `+ sampling + top_p({0})`",
    "min_p": "write it in the policy: `+ sampling + min_p({0})`",
    "repetition_penalty": "write it in the policy: `+ repetition_penalty({0})`, which counts the 32 nearest different tokens",
    "min_new_tokens": "write it in the policy: `+ min_new_tokens({0})`",
    "suppress_tokens": "write it in the policy: `+ logit_bias([TOKEN], [-100])`",
    "stop_strings": "write its tokens in the policy: `+ stop_sequence([TOKEN, TOKEN])`",
    "max_length": "write max_new_tokens, the number of new tokens",
    "min_length": "write min_new_tokens in the policy: `+ min_new_tokens(N)`",
    "num_beams": "a policy keeps one answer; `+ beam` in the policy searches orders",
    "num_return_sequences": "repeat the rows of input_ids; row i draws with seed + i",
    "guidance_scale": "write cfg_scale, which is guidance_scale - 1",
    "return_dict_in_generate": "generate() always returns a Generated",
    "pad_token_id": "padding is where attention_mask is 0",
    "generation_config": "write its settings in the policy",
    "logits_processor": "write parts in the policy, or give a function as the model that edits its logits",
    "stopping_criteria": "write a part in the policy, such as `+ stop_at_eos`",
    "custom_generate": "it is an argument of model.generate()",
}

P = ParamSpec("P")
R = TypeVar("R")


def _names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Refuses arguments that a function does not have, with what to write instead."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        for name, value in given.items():
            if name not in known:
                raise TypeError(f"{function.__name__}() has no argument {name}, got {_short(value)}: {_instead(name, value, known)}")
        return function(*args, **given)

    return checked


def _instead(name: str, value: Any, known: list[str]) -> str:
    if name in _SETTINGS:
        return _SETTINGS[name].format(_short(value))
    if name in _generation_config():
        return ("it is a setting of a GenerationConfig, and the policy decides; "
                "model.generate(custom_generate=unmask.transformers.custom_generate) reads such settings or refuses them")
    near = difflib.get_close_matches(name, [*known, *_SETTINGS], n=1, cutoff=0.7)
    said = "" if not near else f"did you mean {near[0]}? " if near[0] in known else (
        f"if that is {near[0]}, {_SETTINGS[near[0]].format(_short(value))}. ")
    return said + f"Arguments of the model go in a dictionary, model_kwargs={{{name!r}: ...}}"


@functools.lru_cache(maxsize=1)
def _generation_config() -> frozenset[str]:
    """The names of the settings that the installed transformers knows."""
    try:
        from transformers import GenerationConfig
    except ImportError:
        return frozenset()
    return frozenset(name for name in vars(GenerationConfig()) if not name.startswith("_"))


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


@_names_arguments
def generate(
    model: Callable[..., Any],
    input_ids: torch.Tensor,
    policy: str | Sequence[str] | None = None,
    *,
    attention_mask: torch.Tensor | None = None,
    max_new_tokens: int | None = None,
    block_length: int | None = None,
    editable: torch.Tensor | None = None,
    mask_token_id: int | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    vocab_size: int | None = None,
    shifted_logits: bool | None = None,
    suppress_mask: bool = True,
    cfg_scale: float = 0.0,
    seed: int = 0,
    callback: Callable[[int, list[Commit], Report], Any] | None = None,
    streamer: Any = None,
    trace: bool | str = False,
    token_text: Callable[[int], str] | None = None,
    threads: int = 1,
    constraint: Constraint | Field | Sequence[Constraint | Field | None] | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
) -> Generated:
    """Decodes a batch with a policy.

    model            model(input_ids, **model_kwargs) returns logits [batch, length, vocab], or an
                     object with them as `logits`; it also gets attention_mask if rows have
                     different lengths
    policy           a policy as text, or a list with one for each row; without one the word of the model, by
                     config.model_type and the name of the checkpoint (`python -m unmask models`), or threshold(0.9).
                     What such a word says of blocks, tokens and shift is the default of those arguments
    input_ids        [batch, length]; attention_mask is 0 at padding, on either side
    max_new_tokens   appended masks, the same number for each row. Without it the mask tokens in
                     input_ids are filled in, and everything else stays
    block_length     decoded at a time, from left to right; 32 behind a prompt, all when filling in. A model that
                     decodes whole blocks gets masks up to the end of the last one, which are not returned
    editable         [batch, length], bool: which positions to decode instead of those; or uint8: 0
                     fixed, 1 masked, 2 committed, which parts that edit may change
    mask_token_id    and eos_token_id, vocab_size: those of model.config by default. Of a list of EOS tokens
                     stop_at_eos stops at each; other parts, and what follows an answer, have the first
    shifted_logits   True for models whose row i predicts position i + 1, such as Dream; that of the model's word,
                     or False
    suppress_mask    False lets the mask token be proposed, as released decoders do
    cfg_scale        LLaDA's guidance: a second pass with the prompt masked; 0 is off
    seed             of draws; row i has seed + i, whichever rows are running
    callback         called for each row after each step: (row, commits, report)
    streamer         as of transformers, for one row: gets tokens once all before them are committed
    constraint       the language of the answers (unmask.constraints), or a list with one, or None, for
                     each row
    trace            name of a file that gets the decode as a trace; token_text(token) adds texts
    model_kwargs     arguments of the model, by name

    Rows that have ended leave the batch of the model. Logits on a GPU are copied to the host, only
    the rows that the policy reads. Errors: ValueError with the argument, its value and the rule;
    TypeError for an argument that there is not, with what to write instead.
    """
    return _decode(
        model, input_ids, policy, attention_mask=attention_mask, max_new_tokens=max_new_tokens, block_length=block_length,
        editable=editable, mask_token_id=mask_token_id, eos_token_id=eos_token_id, vocab_size=vocab_size,
        shifted_logits=shifted_logits, suppress_mask=suppress_mask, cfg_scale=cfg_scale, seed=seed, callback=callback,
        streamer=streamer, trace=trace, token_text=token_text, threads=threads, constraint=constraint,
        model_kwargs=model_kwargs,
    )


@torch.no_grad()
def _decode(
    model: Any, input_ids: Any, policy: Any, *, attention_mask: Any, max_new_tokens: Any, block_length: Any, editable: Any,
    mask_token_id: Any, eos_token_id: Any, vocab_size: Any, shifted_logits: bool | None, suppress_mask: bool, cfg_scale: float,
    seed: int, callback: Any, streamer: Any, trace: Any, token_text: Any, threads: int, constraint: Any, model_kwargs: Any,
    edit: Callable[[torch.Tensor, int, torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
) -> Generated:
    """generate(), with logits that edit(tokens, prompt, positions, logits) changes."""
    host = "unmask.transformers.generate"
    if not callable(model):
        raise ValueError(f"model must be a module, or a function that returns logits, got {_short(model)}"
                         + (": AutoModelForMaskedLM.from_pretrained() of transformers loads one" if isinstance(model, str) else ""))
    if model_kwargs is not None and not isinstance(model_kwargs, Mapping):
        raise ValueError(f"model_kwargs must be a dictionary of the model's arguments, got {_short(model_kwargs)}")
    config = getattr(model, "config", None)
    rows_of_batch = _batch_of(input_ids)
    policy, word, mask_token_id, ends = _of_model(policy, config, mask_token_id, eos_token_id, config)
    vocab_size = _known("vocab_size", vocab_size, config)
    if shifted_logits is None:
        shifted_logits = word is not None and word.logits_shift > 0
    policies = _policies(policy, rows_of_batch)
    for one in policies:
        _text.check(one, host, _REFUSED if streamer is None else {**_REFUSED, **_REWRITES}, eos_token=ends[0] if ends else None)
    policies = [_at_each_eos(one, ends[1:]) for one in policies]
    rows = _rows(input_ids, attention_mask, max_new_tokens, editable, mask_token_id, word)
    if streamer is not None and len(rows) != 1:
        raise ValueError(f"streamer is for a batch of 1, got {len(rows)} rows")
    if block_length is None and max_new_tokens is not None:
        block_length = 32 if word is None else word.block_length or None

    widest = max(len(r.tokens) for r in rows)
    session = Session(
        policies[0],
        vocab=vocab_size,
        mask_token=mask_token_id,
        eos_token=ends[0] if ends else None,
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
    if max_new_tokens is not None:  # what is decoded right of an answer is no part of it
        constraints = [Field(c, 0, max_new_tokens) if isinstance(c, Constraint) else c for c in constraints]
    for slot, row in enumerate(rows):
        session.start(
            slot,
            row.tokens,
            prompt_length=row.prompt,
            block_length=len(row.tokens) - row.prompt if block_length is None else block_length,
            editable=row.editable,
            seed=seed + slot,
            constraint=constraints[slot],
            policy=policies[slot] if len(policies) > 1 and slot > 0 else None,
        )
        row.note(session.committed(slot), mask_token_id)  # what its constraint leaves no choice about
    given = [row.tokens.clone() for row in rows]  # with masks where tokens will be
    streamed = _Streamed(streamer, rows[0], session) if streamer is not None else None
    forwards = 0
    while (request := session.next()) is not None:
        batch = [_copy_of(rows[s.slot].tokens, s.placed) for s in request.segments]
        read = batch
        if cfg_scale:
            read = batch + [_without_prompt(t, given[s.slot], mask_token_id) for t, s in zip(batch, request.segments)]
        try:
            logits = _forward(model, read, input_ids.device, model_kwargs or {})
        except (IndexError, RuntimeError) as error:
            most = getattr(config, "max_position_embeddings", None)
            if isinstance(most, int) and widest > most:
                raise ValueError(f"a row has {widest} positions, new tokens included; the model has max_position_embeddings={most}") from error
            raise
        half = len(request.segments)
        supplied = [logits[i, s.rows].cpu().contiguous() for i, s in enumerate(request.segments)]
        if edit is not None:
            supplied = [
                edit(tokens, rows[s.slot].prompt, torch.arange(s.rows.start, s.rows.stop) + s.logits_shift, z)
                for tokens, s, z in zip(batch, request.segments, supplied)
            ]
        guide = [logits[half + i, s.rows].cpu().contiguous() for i, s in enumerate(request.segments)] if cfg_scale else None
        session.supply(supplied, unconditional=guide, cfg_scale=cfg_scale)
        forwards += 1
        for slot in sorted({s.slot for s in request.segments}):
            commits = session.committed(slot)
            rows[slot].note(commits, mask_token_id)
            if callback is not None:
                callback(slot, commits, session.report(slot))
        if streamed is not None:
            streamed.put()
    if streamed is not None:
        streamed.end()

    new = 0 if max_new_tokens is None else max_new_tokens
    sequences = torch.cat([input_ids, input_ids.new_full((len(rows), new), mask_token_id)], dim=1)
    for slot, row in enumerate(rows):
        sequences[slot, row.places.to(sequences.device)] = row.tokens[: len(row.places)].to(sequences)
    reports = [session.report(slot) for slot in range(len(rows))]
    moves = [any(n in _text.MOVING for n in _text.names(p)) for p in policies]
    answer_ends = [
        row.column(report.answer_end if moves[slot % len(moves)] else min(report.answer_end, row.first_undecided()))
        for slot, (row, report) in enumerate(zip(rows, reports))
    ]
    return Generated(sequences, reports, forwards, answer_ends)


_WARPERS = ("TopKLogitsWarper", "TopPLogitsWarper", "MinPLogitsWarper")
_PROCESSORS = ("RepetitionPenaltyLogitsProcessor", "TemperatureLogitsWarper", *_WARPERS)  # run on each row, in their order
_OF_SETTINGS = {*_PROCESSORS, "MinLengthLogitsProcessor", "MinNewTokensLengthLogitsProcessor", "MaxLengthCriteria", "EosTokenCriteria"}
_OF_CACHES = ("cache", "past_key_values", "cache_position", "logits_to_keep", "position_ids", "use_cache")
# Settings that no processor shows, with the values at which they do nothing, and why no other can be honoured.
_REFUSED_SETTINGS = {
    "num_beams": (1, "a policy keeps one answer"),
    "output_scores": (False, "no list of scores has a row for each token"),
    "output_logits": (False, "no list of logits has a row for each token"),
    "output_attentions": (False, "a policy reads logits only"),
    "output_hidden_states": (False, "a policy reads logits only"),
    "penalty_alpha": (0, "the policy decides"),
    "prompt_lookup_num_tokens": (0, "the policy decides"),
    "assistant_early_exit": (0, "the policy decides"),
    "dola_layers": (None, "the policy decides"),
    "use_mtp": (False, "the policy decides"),
}
# Parts that make tokens impossible: with them a truncation comes after, as part of the policy.
_REMOVING = {"allowed_tokens", "min_new_tokens", "eos_penalty"}


def custom_generate(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Sequence[Any] = (),
    stopping_criteria: Sequence[Any] = (),
    generation_config: Any = None,
    policy: str | Sequence[str] | None = None,
    block_length: int | None = None,
    mask_token_id: int | None = None,
    shifted_logits: bool | None = None,
    suppress_mask: bool = True,
    seed: int | None = None,
    constraint: Any = None,
    **model_kwargs: Any,
) -> Any:
    """generate() of this module as a decoding method of transformers.

        model.generate(input_ids, custom_generate=unmask.transformers.custom_generate, max_new_tokens=128,
                       policy="trace_credit + threshold(0.9)", mask_token_id=M)

    do_sample draws, from rows that transformers' own repetition_penalty, temperature, top_k, top_p and min_p
    have changed, in that order; min_new_tokens and min_length count positions. An answer ends with the first of the EOS
    tokens, and padding follows, as in transformers. ValueError names a setting that cannot be honoured. `seed`
    is drawn from PyTorch's generator by default; the other arguments are those of generate(). The whole sequence
    runs in each pass, without K/V: what a position attends to is the model's own. transformers 5.23 gives such a
    function no streamer: generate() takes one.
    """
    for made in (*logits_processor, *stopping_criteria):
        if type(made).__name__ not in _OF_SETTINGS:
            raise ValueError(f"unmask.transformers.custom_generate cannot honour {type(made).__name__}: the policy decides")
    config = generation_config
    for name, (nothing, why) in _REFUSED_SETTINGS.items():
        value = getattr(config, name, None)
        if value is not None and value != nothing:
            raise ValueError(f"{name} must be {nothing}: {why}, got {value!r}")
    policy, _, mask_token, ends = _of_model(policy, model.config, mask_token_id, config.eos_token_id, None)
    texts = [_drawn(one, config) if config.do_sample else one for one in _policies(policy, len(input_ids))]
    removes = constraint is not None or any(n in _REMOVING for one in texts for n in _text.names(one))
    if config.do_sample and removes:
        limits = {"top_k": config.top_k or None, "top_p": config.top_p, "min_p": config.min_p}
        texts = [" + ".join([one, *(f"{n}({v!r})" for n, v in limits.items() if v is not None)]) for one in texts]
    processors = [p for p in logits_processor
                  if type(p).__name__ in _PROCESSORS and not (removes and type(p).__name__ in _WARPERS)]

    least = max(config.min_new_tokens or 0, (config.min_length or 0) - input_ids.shape[1])

    def edit(tokens: torch.Tensor, prompt: int, positions: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        scores = logits.float().clone()
        if ends and least > 0:
            early = positions < prompt + least
            scores[early[:, None] & torch.isin(torch.arange(scores.shape[1]), torch.tensor(ends))] = -torch.inf
        if suppress_mask:
            scores[:, mask_token] = -torch.inf
        others = tokens[None].repeat(len(positions), 1)  # of each position the tokens but its own
        others[torch.arange(len(positions)), positions] = mask_token
        for processor in processors:
            mask = scores[:, mask_token].clone()
            scores = processor(others, scores)
            if type(processor).__name__ == "RepetitionPenaltyLogitsProcessor":
                scores[:, mask_token] = mask
        return scores.contiguous()

    out = _decode(
        lambda ids, **rest: model(ids, **rest, use_cache=False),
        input_ids,
        texts[0] if isinstance(policy, str) else texts,
        attention_mask=model_kwargs.pop("attention_mask", None),
        max_new_tokens=config.max_length - input_ids.shape[1],
        block_length=block_length,
        editable=None,
        mask_token_id=mask_token,
        eos_token_id=ends or None,
        vocab_size=_known("vocab_size", None, model.config),
        shifted_logits=shifted_logits,
        suppress_mask=suppress_mask,
        cfg_scale=0.0,
        seed=int(torch.randint(2**62, ())) if seed is None else seed,
        callback=None,
        streamer=None,
        trace=False,
        token_text=None,
        threads=1,
        constraint=constraint,
        model_kwargs={name: value for name, value in model_kwargs.items() if name not in _OF_CACHES},
        edit=edit,
    )
    pad = config.pad_token_id if config.pad_token_id is not None else ends[0] if ends else mask_token
    sequences = _cut(out, input_ids.shape[1], ends, pad)
    if not config.return_dict_in_generate:
        return sequences
    from transformers.generation.utils import GenerateDecoderOnlyOutput

    return GenerateDecoderOnlyOutput(sequences=sequences)


def _drawn(policy: str, config: Any) -> str:
    """The policy with draws, which none of its own parts may say otherwise."""
    there = set(_text.names(policy))
    for part in ("sampling", "temperature", "top_k", "top_p", "min_p"):
        if part in there:
            name = "temperature" if part == "sampling" else part
            raise ValueError(f"{name} must not be given with a policy that has {part}: do_sample=False leaves it to the policy, "
                             f"got {getattr(config, name, None)!r} and '{policy}'")
    return policy + " + sampling"


def _cut(out: Generated, prompt: int, ends: Sequence[int], pad: int) -> torch.Tensor:
    """The sequences up to the longest answer, with padding after each answer: its first EOS token is its last token."""
    last = []
    for row, end in zip(out.sequences, out.answer_ends):
        is_end = torch.isin(row[prompt:end], row.new_tensor(list(ends)))
        last.append(prompt + int(is_end.int().argmax()) + 1 if is_end.any() else end)
    sequences = out.sequences[:, : max(last)].clone()
    for row, end in zip(sequences, last):
        row[end:] = pad
    return sequences


def _policies(policy: Any, rows: int) -> list[str]:
    """The text of one policy, or the texts of a list with one for each row."""
    if isinstance(policy, str):
        return [policy]
    if not isinstance(policy, (list, tuple)) or len(policy) != rows:
        got = len(policy) if isinstance(policy, (list, tuple)) else _short(policy)
        raise ValueError(f"policy must be a text, or a list with one for each of {rows} rows, got {got}")
    return list(policy)


def _eos_tokens(given: Any, config: Any, mask_token: int) -> list[int]:
    """The EOS tokens, the first of which the session knows as such."""
    if given is None:
        given = getattr(_of_text(config), "eos_token_id", None)
    tokens = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int) or token < 0:
            raise ValueError(f"eos_token_id must be a token, or a list of tokens, got {_short(given)}")
    return [t for t in dict.fromkeys(tokens) if t != mask_token]


def _at_each_eos(policy: str, others: Sequence[int]) -> str:
    """The policy, which stops at other EOS tokens, too, if it stops at the first."""
    stops = others and "stop_at_eos" in _text.names(policy)
    return policy + "".join(f" + stop_sequence([{t}])" for t in others) if stops else policy


def _batch_of(input_ids: Any) -> int:
    """The number of rows of a batch, which is one."""
    if not isinstance(input_ids, torch.Tensor):
        raise ValueError(f"input_ids must be a tensor, int64 [batch, length], got {_short(input_ids)}: "
                         "torch.tensor([[1, 2, 3]]) is a batch of one row")
    if input_ids.dim() == 1:
        raise ValueError(f"input_ids must have two dimensions, got {list(input_ids.shape)}: input_ids[None] is a batch of one")
    if input_ids.dim() != 2 or input_ids.dtype != torch.long or input_ids.numel() == 0:
        raise ValueError(f"input_ids must be int64 [batch, length], got {input_ids.dtype} {list(input_ids.shape)}")
    return len(input_ids)


@dataclasses.dataclass
class _Row:
    """One sequence without its padding."""

    tokens: torch.Tensor  # int64, on the CPU; written by the session
    editable: torch.Tensor
    places: torch.Tensor  # of its tokens in the row of Generated.sequences; what follows them is not returned
    prompt: int  # positions before the first that is decoded
    undecided: set[int] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        self.undecided = set((self.editable == 1).nonzero().flatten().tolist())

    def note(self, commits: Sequence[Commit], mask_token: int) -> None:
        """Takes what a step wrote; a mask token is a position that is open again."""
        for c in commits:
            (self.undecided.add if c.token == mask_token else self.undecided.discard)(c.position)

    def first_undecided(self) -> int:
        return min(self.undecided, default=len(self.tokens))

    def column(self, position: int) -> int:
        """The column of Generated.sequences that a position has; one past the last one at the end."""
        return int(self.places[position]) if position < len(self.places) else int(self.places[-1]) + 1


def _rows(
    input_ids: Any, attention_mask: Any, new: int | None, editable: Any, mask_token: int, word: Any
) -> list[_Row]:
    for name, given in (("attention_mask", attention_mask), ("editable", editable)):
        if given is None:
            continue
        if not isinstance(given, torch.Tensor):
            raise ValueError(f"{name} must be a tensor of the shape {list(input_ids.shape)} of input_ids, got {_short(given)}")
        if given.shape != input_ids.shape:
            raise ValueError(f"{name} must be of the shape {list(input_ids.shape)} of input_ids, got {list(given.shape)}")
    if editable is not None and editable.dtype not in (torch.bool, torch.uint8):
        raise ValueError(f"editable must be bool or uint8, got {editable.dtype}")
    if new is not None and (isinstance(new, bool) or not isinstance(new, int) or new < 1):
        raise ValueError(f"max_new_tokens must be an integer, at least 1, got {new}")
    ids = input_ids.cpu()
    there = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask.cpu().bool()
    rows = []
    for i in range(len(ids)):
        places = there[i].nonzero().flatten()
        tokens = ids[i, places]
        if editable is not None:
            chosen = editable[i].cpu()[places]
        else:
            chosen = tokens == mask_token if new is None else torch.zeros_like(tokens, dtype=torch.bool)
        if new is not None:
            all_new = new if word is None else word.length(len(tokens), new) - len(tokens)
            tokens = torch.cat([tokens, tokens.new_full((all_new,), mask_token)])
            chosen = torch.cat([chosen, torch.ones(all_new, dtype=chosen.dtype)])
            places = torch.cat([places, torch.arange(new) + ids.shape[1]])
        if not chosen.any():
            raise ValueError(f"row {i} of input_ids has nothing to decode: no mask token {mask_token}, and no max_new_tokens")
        rows.append(_Row(tokens.contiguous(), chosen, places, int(chosen.bool().int().argmax())))
    return rows


def _forward(model: Any, batch: Sequence[torch.Tensor], device: Any, model_kwargs: Mapping[str, Any]) -> torch.Tensor:
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


def _of_text(config: Any) -> Any:
    """The settings of the text model, in the configuration of one that may read images, too."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _of_model(policy: Any, config: Any, mask_token_id: Any, eos_token_id: Any, eos_config: Any) -> tuple[Any, Any, int, list[int]]:
    """The policy, that of the model if none is given; the model whose word it has; the mask token and the EOS tokens."""
    policy = _models.default(config) if policy is None else policy
    word = _models.of_policy(policy)
    mask_token = _known("mask_token_id", mask_token_id, config, None if word is None else word.mask_token)
    return policy, word, mask_token, _eos_tokens(eos_token_id, eos_config, mask_token) or ([] if word is None else list(word.eos_tokens))


def _known(name: str, given: int | None, config: Any, otherwise: int | None = None) -> int:
    found = given if given is not None else getattr(_of_text(config), name, None)
    if found is None:
        found = otherwise
    if given is None and not isinstance(found, int):
        raise ValueError(f"{name} must be given: model.config has none")
    if isinstance(found, bool) or not isinstance(found, int):
        raise ValueError(f"{name} must be an integer, got {_short(found)}")
    return found


class _Streamed:
    """Gives a streamer the tokens of a row, in order, once all before them are committed."""

    def __init__(self, streamer: Any, row: _Row, session: Session) -> None:
        self._streamer, self._row, self._session, self._next = streamer, row, session, row.prompt
        streamer.put(row.tokens[: row.prompt])

    def put(self) -> None:
        report = self._session.report()
        prefix = max(min(report.committed_prefix, report.answer_end, self._row.first_undecided()), self._next)
        for position in range(self._next, prefix):
            self._streamer.put(self._row.tokens[position : position + 1])
        self._next = prefix

    def end(self) -> None:
        self._streamer.end()
