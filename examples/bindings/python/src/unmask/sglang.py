# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies in SGLang: the dLLM algorithm `Unmask`, which SGLang finds by itself.

    sglang serve --model-path MODEL --dllm-algorithm Unmask --dllm-algorithm-config unmask.yaml

with unmask.yaml:

    policy: trace_credit + threshold(0.9)

register() is the entry point of the group `sglang.srt.plugins`. A request names another policy with
sampling_params["custom_params"] = {"policy": TEXT}; its other sampling parameters become parts of it.
"""
from __future__ import annotations

import copy
import functools
import hashlib
import math
import sys
import weakref
from typing import Any, Callable, Optional

import torch
from sglang.srt.dllm.algorithm.base import DllmAlgorithm

from . import _settings, _text, constraints, rollout
from ._unmask import Constraint, Ending, Field, Session, has_cuda
from .rollout import Notes

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
    "joint_threshold_indel": _BLOCKS + ", and their lengths",
    "daedal": _BLOCKS + ", and their lengths",
    "rho_eos": _BLOCKS + ", and their lengths",
    "self_speculation": "SGLang uses the attention of its model",
    "min_new_tokens": "the request has a field for it",
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
_OWN = {"policy": None, "suppress_mask": None, "max_steps": None, "eos_token": None, "sampling": None, "threads": None}

# Fields of a request that nothing here can honour.
_REFUSED_FIELDS = {
    "watermark": "a policy has no part for it",
    "custom_logit_processor": "a policy has parts for it",
    "return_logprob": "custom_params return_step_maps has those of the commits",
}
# Fields of a request that describe a language.
_LANGUAGES = {
    "json_schema": constraints.json_schema,
    "regex": constraints.regex,
    "ebnf": constraints.grammar,
    "structural_tag": constraints.structural_tag,
}
# What decides by the confidence of the most probable tokens alone.
_BY_CONFIDENCE = {
    "by_confidence", "left_to_right", "at_random", "linear_position", "threshold", "tokens_per_step", "steps_per_block",
    "ascending_step_size", "factor", "moving_threshold", "timesteps", "any_of", "all_of", "at_most",
}
_COLUMNS = 1024  # of a row with the confidence of dllm_vocab_state
_TOP_K_ALL = 1 << 30  # SGLang's number for no top_k


class Settings:
    """The settings of --dllm-algorithm-config, checked.

    policy          a policy as text, or LowConfidence or JointThreshold with SGLang's own settings
    suppress_mask   whether the mask token is never proposed: true, but false for LowConfidence
    max_steps       most forward passes that decide a block, at least 1; without it block_size + 1
                    where the mask token may be proposed, and no limit elsewhere: a policy ends
    eos_token       the token that parts such as stop_at_eos mean; without it that of the request
    sampling        whether a request's temperature of 1, which is also SGLang's default, draws: false
    threads         that read the rows of a batch on a CPU: 1
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
        self.sampling = _checked(values, "sampling", None, False)
        self.threads = _checked(values, "threads", 1, 1)
        _text.check(self.policy, "SGLang", _REFUSED, files=files)


    def of_server(self, server: "Settings") -> "Settings":
        """The same, with what the configuration alone says."""
        made = copy.copy(self)
        made.sampling, made.threads = server.sampling, server.threads
        return made


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
    """What is known of a request. It lives as long as SGLang's.

    Its sampling parameters are parts of its policy. Temperature 1 with no truncation is SGLang's default, so
    it means that the policy decides, unless the setting `sampling` is true.
    """

    def __init__(self, settings: Settings, request: Any = None, config: Any = None) -> None:
        self.settings = settings
        self.policy = settings.policy
        self.decisions = 0  # forward passes that decided something
        self.forwards = 0
        self.seed = 0
        self.eos_token = settings.eos_token
        self.least = 0  # tokens before an EOS token
        self.also = ""  # another token that ends an answer, as an argument
        self.edits: Optional[_Edits] = None
        self.language: Optional[Constraint] = None
        self.language_state: Optional[int] = None
        self.returns_steps = False
        self.prompt_length = 0
        self.most: Optional[int] = None
        self.request = lambda: None
        if request is not None:
            self._take(request, config)

    def _take(self, request: Any, config: Any) -> None:
        given = request.sampling_params
        self.request = weakref.ref(request)
        drawn = given.sampling_seed
        if drawn is None:  # another one for each request, and the same on every rank
            drawn = int.from_bytes(hashlib.blake2b(str(request.rid).encode(), digest_size=8).digest(), "big")
        self.seed = drawn
        tokens = request.eos_token_ids
        if self.eos_token is None and tokens and not given.ignore_eos:
            self.eos_token = min(tokens)
        for name, why in _REFUSED_FIELDS.items():
            if value := getattr(given, name, None) or getattr(request, name, None):
                raise ValueError(f"{name} is not supported: {why}, got {value!r}")
        if (given.beam_width or 1) > 1:
            raise ValueError(f"beam_width must be 1: a policy keeps one answer, got {given.beam_width}")
        vocab = request.vocab_size or config.mask_id + 1
        self.policy = _settings.with_parts(self.policy, self._given(given), length=0, vocab=vocab)
        self.edits = _Edits.of(given, vocab, config.mask_id)
        self._last(given, tokens)
        self.prompt_length, self.most = len(request.origin_input_ids), given.max_new_tokens
        custom = given.custom_params or {}
        if not isinstance(steps := custom.get("return_step_maps", False), bool):
            raise ValueError(f"return_step_maps must be true or false, got {steps!r}")
        self.returns_steps = steps
        if steps:  # what cannot be recorded is refused before a block is decoded
            self.notes_of(0, 1, 0, config.mask_id)
        self._constrain(request, given, config, vocab)

    def _last(self, given: Any, tokens: Any) -> None:
        """Reads which tokens end the answer no earlier than it may."""
        ends = sorted({*(given.stop_token_ids or ()), *(() if given.ignore_eos else tokens or ())})
        if not given.min_new_tokens or not ends:
            return
        self.least = given.min_new_tokens
        others = [t for t in ends if t != self.eos_token]
        if self.eos_token is None or len(others) > 1:
            raise ValueError(f"min_new_tokens must be 0 where more than two tokens end an answer, or no EOS token does, "
                             f"got {self.least} and {ends}")
        self.also = f", also={others[0]}" if others else ""

    def _given(self, params: Any) -> dict[str, Any]:
        """The sampling parameters that a client has set."""
        found: dict[str, Any] = {}
        truncation = {
            "top_k": params.top_k if params.top_k < _TOP_K_ALL else None,
            "top_p": params.top_p if params.top_p < 1 else None,
            "min_p": params.min_p or None,
        }
        if params.top_k == 1:  # temperature 0, after SGLang has read it
            found["temperature"] = 0
        elif params.temperature != 1 or any(v is not None for v in truncation.values()) or self.settings.sampling:
            found |= {"temperature": params.temperature, **truncation}
        return found

    def _constrain(self, request: Any, given: Any, config: Any, vocab: int) -> None:
        name = next((n for n in _LANGUAGES if getattr(given, n, None)), None)
        if name is None:
            return
        if self.eos_token is None:
            raise ValueError(f"{name} needs an EOS token: the request has none, or ignore_eos")
        if request.tokenizer is None:
            raise ValueError(f"{name} needs a tokenizer: the server was started with --skip-tokenizer-init")
        words = constraints.vocabulary(request.tokenizer, vocab=vocab, mask_token=config.mask_id, eos_token=self.eos_token,
                                       also_eos=sorted(set(request.eos_token_ids or ()) - {self.eos_token}))
        self.language = _LANGUAGES[name](getattr(given, name), words)
        if self.most is not None and self.language.shortest > self.most:
            raise ValueError(f"max_new_tokens must be at least {self.language.shortest}, the fewest tokens of {name}, "
                             f"got {self.most}")
        setattr(given, name, None)  # SGLang has nothing left to do about it

    def before(self, offset: int) -> tuple[list[int], list[int]]:
        """The tokens of prompt and answer before a block, which penalties count."""
        request = self.request()
        if request is None:
            return [], []
        return list(request.origin_input_ids[:offset]), list(request.output_ids[: max(0, offset - self.prompt_length)])

    def policy_at(self, offset: int) -> str:
        """Its policy in the block at an offset of prompt and answer."""
        left = self.least + self.prompt_length - offset
        return self.policy + (f" + min_new_tokens({left}{self.also})" if self.least and left > 0 else "")

    def notes_of(self, offset: int, length: int, seed: int, mask_token: int) -> Notes:
        """Empty notes about the block there."""
        return Notes(self.policy_at(offset), first=0, length=length, seed=seed, sequence=0,
                     mask_token=mask_token, suppressed=[mask_token] if self.settings.suppress_mask else [])

    def field(self, offset: int, length: int) -> Optional[Field]:
        """The part of its language in that block."""
        if self.language is None:
            return None
        first = max(0, self.prompt_length - offset)
        end = length if self.most is None else min(length, self.prompt_length + self.most - offset)
        after = None if self.most is None else max(0, self.prompt_length + self.most - offset - length)
        return Field(self.language, first, end, tokens_after=after, state=self.language_state)


class _Edits:
    """The penalties and biases of a request, over all of its tokens, in SGLang's order and before its temperature."""

    def __init__(self, params: Any, bias: dict[int, float], vocab: int, mask_token: int) -> None:
        self.presence, self.frequency, self.repetition = (
            params.presence_penalty, params.frequency_penalty, params.repetition_penalty)
        self.bias, self.vocab, self.mask_token = bias, vocab, mask_token

    @classmethod
    def of(cls, params: Any, vocab: int, mask_token: int) -> "Optional[_Edits]":
        """None if they do nothing. Raises ValueError for one outside of its range."""
        bias = {}
        for token, value in (params.logit_bias or {}).items():
            if not str(token).isdecimal() or int(token) >= vocab:
                raise ValueError(f"logit_bias must have tokens in [0, {vocab}) as keys, got {token!r}")
            if not math.isfinite(value):
                raise ValueError(f"logit_bias[{token}] must be a finite number, got {value!r}")
            bias[int(token)] = float(value)
        acts = params.presence_penalty or params.frequency_penalty or params.repetition_penalty != 1 or bias
        return cls(params, bias, vocab, mask_token) if acts else None

    def counts(self, tokens: Any) -> torch.Tensor:
        """How often each token is among those given, the mask token never."""
        counted = torch.bincount(torch.as_tensor(tokens, dtype=torch.long), minlength=self.vocab)
        counted[self.mask_token] = 0
        return counted

    def edited(self, rows: torch.Tensor, prompt: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """Rows of logits; `prompt` and `answer` have counts, for all of them or for each."""
        more = rows.shape[-1] - self.vocab  # columns that no token has
        prompt, answer = (torch.nn.functional.pad(c, (0, more)).to(rows.device) for c in (prompt, answer))
        rows = rows.float() - self.frequency * answer - self.presence * (answer > 0)
        scaled = torch.where(rows > 0, rows / self.repetition, rows * self.repetition)
        rows = torch.where(prompt + answer > 0, scaled, rows)
        if self.bias:
            rows[:, list(self.bias)] += torch.tensor(list(self.bias.values()), device=rows.device)
        return rows


class _Sessions:
    """Sessions of one kind, which blocks take slots of: one, as long as no more run than SGLang says."""

    def __init__(self, make: Callable[[], Session], slots: int) -> None:
        self._make, self._slots = make, slots
        self._free: list[tuple[Session, int]] = []

    def take(self) -> tuple[Session, int]:
        if not self._free:
            session = self._make()
            self._free = [(session, slot) for slot in reversed(range(self._slots))]
        return self._free.pop()

    def give(self, session: Session, slot: int) -> None:
        session.cancel(slot)
        self._free.append((session, slot))


class _Pending:
    """A block that is being decoded. Its slot is free again when it is done, or gone with an aborted request."""

    def __init__(self, request: _Request, masked: torch.Tensor, offset: int) -> None:
        self.request, self.masked, self.offset = request, masked, offset
        self.seed = (request.seed + offset * 0x9E3779B97F4A7C15) % 2**64
        self.sessions: Optional[_Sessions] = None
        self.session: Any = None
        self.slot = -1
        self.counts: Any = None  # of the tokens before the block, of a request with edits
        self.tokens: Any = None
        settings = request.settings
        self.limit = settings.max_steps or (sys.maxsize if settings.suppress_mask else len(masked) + 1)
        self.forwards = self.decisions = 0
        self.notes: Optional[Notes] = None  # of a request with return_step_maps
        self.done = False
        self.of_state = False  # whether the policy decides by dllm_vocab_state

    def start(self, ids: torch.Tensor, device: Any, mask_token: int) -> None:
        if self.of_state:  # every token but the mask token is 0 to the policy
            ids, mask_token = torch.where(ids == mask_token, _COLUMNS - 1, 0), _COLUMNS - 1
        self.tokens = ids.to("cpu", torch.int32).to(device)
        edits = self.request.edits
        if edits is not None:
            prompt, answer = self.request.before(self.offset)
            self.counts = edits.counts(prompt), edits.counts(answer)
        if self.request.returns_steps:
            self.notes = self.request.notes_of(self.offset, len(self.masked), self.seed, mask_token)
        self.session.start(
            self.slot,
            self.tokens,
            prompt_length=0,
            block_length=len(self.masked),
            editable=self.masked,
            seed=self.seed,
            policy=self.request.policy_at(self.offset),
            constraint=self.request.field(self.offset, len(self.masked)),
        )

    def edited(self, rows: torch.Tensor, read: slice) -> torch.Tensor:
        """Rows of the block as the request's penalties and biases change them."""
        edits = self.request.edits
        if edits is None:
            return rows
        tokens = self.tokens.cpu().long()
        of_prompt = torch.arange(len(tokens)) < self.request.prompt_length - self.offset
        prompt = self.counts[0] + edits.counts(tokens[of_prompt])
        answer = self.counts[1] + edits.counts(tokens[~of_prompt])
        own = tokens[read]  # a row's own token, which a policy may replace, does not count
        if bool((own != edits.mask_token).any()):
            answer = answer.repeat(len(own), 1)
            committed = (own != edits.mask_token).nonzero().flatten()
            answer[committed, own[committed]] -= 1
        return edits.edited(rows, prompt, answer)

    def note(self, segment: Any = None, logits: Any = None) -> bool:
        """Records what the last step wrote; returns whether it wrote anything."""
        commits = self.session.committed(self.slot)
        if self.notes is not None and commits:
            self.notes.note(commits, self.request.decisions + self.decisions + 1, segment, logits)
        return bool(commits)

    def leave(self) -> None:
        if self.sessions is not None:
            self.sessions.give(self.session, self.slot)
            self.sessions = self.session = None

    def __del__(self) -> None:
        self.leave()


def _session(settings: Settings, eos_token: Optional[int], *, slots: int, length: int, window: int, vocab: int,
             mask_token: int, stream: Optional[int] = None) -> Session:
    return Session(settings.policy, sequences=slots, length=length, window=window, vocab=vocab, mask_token=mask_token,
                   eos_token=eos_token, suppress_mask=settings.suppress_mask, stream=stream, threads=settings.threads)


class Unmask(DllmAlgorithm):
    """Decides the blocks of a batch in one session, each by a policy: of the configuration, or of its request."""

    # By the request's name, for as long as SGLang keeps the request.
    _requests: "weakref.WeakValueDictionary[str, _Request]" = weakref.WeakValueDictionary()
    _configured: "weakref.WeakKeyDictionary[Any, Settings]" = weakref.WeakKeyDictionary()
    _counters: Any = None

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.settings = Settings(config.algorithm_config)
        self._slots = max(1, config.max_running_requests)
        self._sessions: dict[Any, _Sessions] = {}

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
        """Takes note of the request; returns what is wrong with its policy, or with another field."""
        config = req.dllm_config
        given = (req.sampling_params.custom_params or {}).get("policy")
        try:
            if config not in cls._configured:
                cls._configured[config] = Settings(config.algorithm_config)
            settings = cls._configured[config]
            if given is not None:
                own = _of_request(given) if isinstance(given, str) else Settings({"policy": given})
                settings = own.of_server(settings)
            noted = _Request(settings, req, config)
            length = config.block_size  # what its first block would be refused for
            session = _session(settings, noted.eos_token, slots=1, length=length, window=length,
                               vocab=req.vocab_size or config.mask_id + 1, mask_token=config.mask_id)
            session.start(0, torch.full((length,), config.mask_id, dtype=torch.int32), prompt_length=0, block_length=length,
                          policy=noted.policy_at(noted.prompt_length), constraint=noted.field(noted.prompt_length, length))
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

    def _enter(self, state: _Pending, ids: torch.Tensor, vocab: int, stream: Optional[int]) -> None:
        """Gives a block a slot."""
        request = state.request
        eos_token = None if state.of_state else request.eos_token  # no part of such a policy reads it
        key = (eos_token, request.settings.suppress_mask, vocab, stream, state.of_state)
        if key not in self._sessions:
            self._sessions[key] = _Sessions(
                functools.partial(_session, request.settings, eos_token, slots=self._slots,
                                  length=self.block_size, window=self.block_size, vocab=vocab,
                                  mask_token=_COLUMNS - 1 if state.of_state else self.mask_id, stream=stream),
                self._slots)
        state.sessions = self._sessions[key]
        state.session, state.slot = state.sessions.take()
        state.start(ids, "cpu" if stream is None else ids.device, self.mask_id)

    def _rows_of(self, vocab_state: Any, states: list[Any]) -> torch.Tensor:
        """Logits of 1,024 columns with the confidence of each row: of token 0, or of the last one, the mask token.

        The rest of a row's probability is in equal columns, none more probable. Confidences below 1/1022 are equal.
        """
        for state in states:
            others = [n for n in _text.names(state.request.policy) if n not in _BY_CONFIDENCE]
            if others or state.request.edits or state.request.settings.suppress_mask:
                why = (f"{others[0]} reads more than the confidence" if others else
                       "penalties and biases need the logits" if state.request.edits else
                       "suppress_mask must be false: the state has no second token")
                raise ValueError(f"policy '{state.request.policy}' cannot decide by dllm_vocab_state: {why}")
            state.of_state = True
        rest = torch.expm1((vocab_state.logsumexp - vocab_state.max_values).float().cpu()).clamp(0, _COLUMNS - 2)
        count = rest.ceil()
        logits = torch.where(torch.arange(1, _COLUMNS + 1) <= count[:, None], (rest / count).log()[:, None], -torch.inf)
        logits = logits.roll(1, -1)
        logits[torch.arange(len(logits)), torch.where(vocab_state.argmax_ids.cpu() == self.mask_id, _COLUMNS - 1, 0)] = 0
        return logits

    def step(self, forward_batch: Any, given: Any, states: list[Any]) -> list[bool]:
        """`given` is full_logits, or the whole output of the model, which may have dllm_vocab_state in their place."""
        input_ids = forward_batch.input_ids.view(-1, self.block_size)
        full_logits = getattr(given, "full_logits", given) if not isinstance(given, torch.Tensor) else given
        vocab_state = None if full_logits is not None else getattr(given, "dllm_vocab_state", None)
        if full_logits is None and vocab_state is None:
            raise ValueError("full_logits must be given, got None without dllm_vocab_state: a policy reads rows of logits")
        if full_logits is None:
            full_logits = self._rows_of(vocab_state, states)
        logits = full_logits.view(*input_ids.shape, -1)
        stream = torch.cuda.current_stream().cuda_stream if logits.is_cuda and has_cuda else None
        running: dict[Any, dict[int, int]] = {}  # rows of the batch by session and slot
        written = set()
        for i, state in enumerate(states):
            if state.done:
                continue
            if state.session is None:
                self._enter(state, input_ids[i], logits.shape[-1], stream)
                if state.note():  # what its language leaves no choice about
                    written.add(i)
            if state.forwards < state.limit:
                running.setdefault(state.session, {})[state.slot] = i
        for session, rows in running.items():
            request = session.next(list(rows))
            if request is None:
                continue
            read = []
            for s in request.segments:
                i = rows[s.slot]
                block = logits[i, s.rows] if stream is not None else logits[i, s.rows].cpu()
                read.append(states[i].edited(block, s.rows))
            if len({block.dtype for block in read}) > 1:
                read = [block.float() for block in read]
            session.supply(read)
            for s, block in zip(request.segments, read):
                if states[rows[s.slot]].note(s, block):
                    states[rows[s.slot]].decisions += 1
                    written.add(rows[s.slot])
        for i in written:
            state = states[i]
            tokens = state.tokens
            if vocab_state is not None:
                decided = vocab_state.argmax_ids.view(input_ids.shape)[i]
                decided = torch.where((input_ids[i] == self.mask_id) & (tokens.to(decided) == 0), decided, input_ids[i])
                input_ids[i].copy_(decided)
                continue
            input_ids[i].copy_(tokens)
        for i, state in enumerate(states):
            if state.done:
                continue
            state.forwards += 1
            # A forward that changed nothing has left the block's final K/V behind.
            if i not in written and (
                    state.session.report(state.slot).end != Ending.running or state.forwards > state.limit):
                self._finish(state)
        return [state.done for state in states]

    def _finish(self, state: _Pending) -> None:
        """Reports a block: in the request's meta_info, and in the metrics of the server."""
        state.done = True
        noted, masked = state.request, state.masked.tolist()
        if noted.language is not None:
            noted.language_state = state.session.constraint_state(state.slot)
        state.leave()
        if not any(masked):  # a block of the prompt
            return
        noted.forwards += state.forwards
        noted.decisions += state.decisions
        request = noted.request()
        if request is None:
            return
        if state.notes is not None:
            if request.customized_info is None:
                request.customized_info = {}
            for theirs, ours in rollout.SGLANG.items():
                values = zip(getattr(state.notes, ours), masked)
                request.customized_info.setdefault(theirs, []).extend(v for v, m in values if m)
        if request.metrics_collector is not None:
            forwards, committed = self._metrics(request.metrics_collector)
            forwards.inc(state.forwards)
            committed.inc(sum(masked))

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
