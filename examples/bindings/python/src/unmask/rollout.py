# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rollouts for trainers: when and with which probability each token of a response was committed.

    recorder = unmask.Recorder(session)
    recorder.start(0, tokens, prompt_length=17, seed=1)
    while (request := recorder.next()) is not None:
        recorder.supply(model(request))
    file.write(recorder.rollout().to_json() + "\\n")

to_sglang() and the functions after it convert rollouts to and from what trainers and engines keep.
"""
from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Mapping, Optional, Sequence

from . import _text
from ._unmask import Ending, Session
from ._read import read

FORMAT = "unmask-rollout/1"
_LISTS = ("steps", "log_probabilities", "log_kept_masses", "drawn", "seeds", "counters")


@dataclasses.dataclass
class Rollout:
    """A response, and for each of its tokens the decision that wrote it. None means a list that is not known.

    steps               the decision that wrote the token, from 1; 0: none did
    log_probabilities   natural logarithm of its probability in that decision's row, in nats; -inf: an invalid row
    log_kept_masses     of the probability of the tokens that top_k, top_p and min_p kept, 0 without them
    drawn               whether it was drawn, and is not the most probable by rule
    seeds, counters     of the draw: the key of its random numbers, and (step, position, sequence) of their counter

    `tokens` are those of all blocks that were decoded; a reader of the text sees the first `stop_length`, which end
    before the first position that no step decided.
    """

    prompt: list[int]
    tokens: list[int]
    steps: list[int]
    log_probabilities: Optional[list[float]] = None
    log_kept_masses: Optional[list[float]] = None
    drawn: Optional[list[bool]] = None
    seeds: Optional[list[int]] = None
    counters: Optional[list[tuple[int, int, int]]] = None
    stop_length: int = -1  # -1: all
    policy: str = ""
    block_length: int = 0  # 0: not known

    def __post_init__(self) -> None:
        for name in _LISTS:
            values = getattr(self, name)
            if values is not None and len(values) != len(self.tokens):
                raise ValueError(f"{name} must have an entry for each of the {len(self.tokens)} tokens, got {len(values)}")
        if self.stop_length == -1:
            self.stop_length = len(self.tokens)
        if not 0 <= self.stop_length <= len(self.tokens):
            raise ValueError(f"stop_length must be in [0, {len(self.tokens)}], got {self.stop_length}")
        if any(step < 0 for step in self.steps):
            raise ValueError(f"steps must be at least 0, got {min(self.steps)}")

    @property
    def drawn_log_probabilities(self) -> list[float]:
        """The log-probability of each token among the kept tokens: of its draw at sampling(1)."""
        if self.log_probabilities is None or self.log_kept_masses is None:
            raise ValueError("log_probabilities and log_kept_masses must be known, got None")
        import numpy as np

        return [float(np.float32(p) - np.float32(m)) if p > -math.inf else p
                for p, m in zip(self.log_probabilities, self.log_kept_masses)]

    def to_json(self) -> str:
        """The rollout as a line of JSON. null is a number that is not finite, or a list that is not known."""
        values = {"format": FORMAT, **dataclasses.asdict(self)}
        for name in ("log_probabilities", "log_kept_masses"):
            if values[name] is not None:
                values[name] = [v if math.isfinite(v) else None for v in values[name]]
        return json.dumps(values, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> "Rollout":
        """The rollout of such a line. Members that it does not know are ignored."""
        values = json.loads(line)
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            got = values.get("format") if isinstance(values, dict) else values
            raise ValueError(f"format must be {FORMAT!r}, got {got!r}")
        known = {f.name: values[f.name] for f in dataclasses.fields(cls) if f.name in values}
        if missing := sorted({"prompt", "tokens", "steps"} - known.keys()):
            raise ValueError(f"a rollout must have the member {missing[0]!r}")
        for name in ("log_probabilities", "log_kept_masses"):
            if known.get(name) is not None:
                known[name] = [-math.inf if v is None else v for v in known[name]]
        if known.get("counters") is not None:
            known["counters"] = [tuple(c) for c in known["counters"]]
        return cls(**known)


class Notes:
    """The lists of a rollout for the positions [first, length) of a session's sequence, as its steps fill them."""

    def __init__(self, policy: str, *, first: int, length: int, seed: int, sequence: int, mask_token: int,
                 suppressed: Sequence[int]) -> None:
        parts = _text.parts(policy)
        names = {name for name, _ in parts}
        for name in ("canvas", "joint_threshold_indel", "daedal", "rho_eos"):
            if name in names:
                raise ValueError(f"policy '{policy}' cannot be recorded: {name} moves tokens, or draws them anew")
        self._first, self._mask_token, self._sequence, self._suppressed = first, mask_token, sequence, suppressed
        count = length - first
        self.steps, self.drawn = [0] * count, [False] * count
        self.log_probabilities, self.log_kept_masses = [0.0] * count, [0.0] * count
        self.seeds, self.counters = [seed] * count, [(0, first + i, sequence) for i in range(count)]
        given: dict[str, dict[str, Any]] = dict(parts)
        self._draws = given.get("sampling", {"temperature": 0})["temperature"] > 0
        self._scale = {"temperature": given["temperature"]["value"]} if "temperature" in given else {}
        self._limits: dict[str, Any] = {}
        if "confidence_after_truncation" in names:  # then the log-probability is among the kept tokens already
            return
        for name, knob, tightest in (("top_k", "k", min), ("top_p", "p", min), ("min_p", "ratio", max)):
            if name in names:  # of several, all keep the tokens
                self._limits[name] = tightest(arguments[knob] for part, arguments in parts if part == name)
        others = [n for n, _ in parts if n in ("lookahead", "drafts") or _text.families().get(n) == "logits processor"]
        if self._limits and others:
            raise ValueError(f"policy '{policy}' cannot be recorded: the mass that {', '.join(self._limits)} keeps is not "
                             f"known with {others[0]}")

    def note(self, commits: Sequence[Any], decision: int, segment: Any = None, logits: Any = None,
             beside: Mapping[str, Any] = {}) -> None:
        """Takes what a decision wrote, which was about the rows `logits` of a segment; from 1, 0 is none."""
        rows = {}
        for commit in commits:
            i = commit.position - self._first
            if i < 0:
                continue
            filled = commit.rank < 0 and commit.log_probability == 0
            self.steps[i] = 0 if commit.token == self._mask_token else decision
            self.log_probabilities[i], self.log_kept_masses[i] = commit.log_probability, 0.0
            self.drawn[i] = self._draws and not filled and commit.log_probability > -math.inf
            self.counters[i] = (max(commit.step, 0), commit.position, self._sequence)
            if segment is not None and not filled:
                rows[i] = commit.position - segment.logits_shift - segment.rows.start
        if not self._limits or not rows:
            return
        chosen = list(rows.values())
        own = {name: value if name == "cfg_scale" or value is None else value[chosen] for name, value in beside.items()}
        found = read(logits[chosen], suppressed=self._suppressed, **self._scale, **self._limits, **own)
        for i, mass in zip(rows, found.log_kept_mass.tolist()):
            self.log_kept_masses[i] = mass


class Recorder:
    """A session that keeps what a trainer needs: start(), next() and supply() are calls of the session.

    `suppress_mask` is that of the session. Of a policy with top_k, top_p or min_p each row that commits is
    read once more, for the mass that they keep.
    """

    def __init__(self, session: Session, *, suppress_mask: bool = True) -> None:
        self.session = session
        self._mask = [session.mask_token] if suppress_mask else []
        self._sequences: dict[int, dict[str, Any]] = {}
        self._request: Any = None

    def start(self, slot: int, tokens: Any, *, prompt_length: int, length: Optional[int] = None, block_length: int = 32,
              seed: int = 0, sequence: int = 0, suppressed: Sequence[int] = (), policy: Optional[str] = None,
              **options: Any) -> None:
        """Begins a sequence, as Session.start(), and its rollout."""
        length = len(tokens) if length is None else length
        text = policy or self.session.policy
        notes = Notes(text, first=prompt_length, length=length, seed=seed, sequence=sequence,
                      mask_token=self.session.mask_token, suppressed=[*suppressed, *self._mask])
        self.session.start(slot, tokens, prompt_length=prompt_length, length=length, block_length=block_length, seed=seed,
                           sequence=sequence, suppressed=suppressed, policy=policy, **options)
        marks = options.get("editable")
        undecided = {p for p in range(prompt_length, length) if marks is None or int(marks[p]) == 1}
        self._sequences[slot] = {"notes": notes, "tokens": tokens, "prompt_length": prompt_length, "decisions": 0,
                                 "block_length": block_length, "policy": text, "undecided": undecided, "length": length}
        self._note(slot, 0)

    def _note(self, slot: int, decision: int, *rows: Any) -> None:
        known, commits = self._sequences[slot], self.session.committed(slot)
        known["notes"].note(commits, decision, *rows)
        for commit in commits:  # a mask token is a position that is open again
            mine = known["undecided"]
            (mine.add if commit.token == self.session.mask_token else mine.discard)(commit.position)

    def next(self, slots: Optional[Sequence[int]] = None) -> Any:
        self._request = self.session.next() if slots is None else self.session.next(slots)
        return self._request

    def supply(self, logits: Any, *, allowed: Any = None, unconditional: Any = None, cfg_scale: Any = 0.0) -> None:
        """Decides, as Session.supply(), and records what was decided."""
        self.session.supply(logits, allowed=allowed, unconditional=unconditional, cfg_scale=cfg_scale)
        for i, segment in enumerate(self._request.segments):
            if segment.branch != 0 or segment.attention == "shadow" or segment.slot not in self._sequences:
                continue
            mine = slice(segment.first_row, segment.first_row + segment.rows.stop - segment.rows.start)

            def of(given: Any) -> Any:
                if isinstance(given, (list, tuple)):
                    return given[i]
                return given if given is None or isinstance(given, (int, float)) else given[mine]

            known = self._sequences[segment.slot]
            known["decisions"] += 1
            self._note(segment.slot, known["decisions"], segment, of(logits),
                       {"allowed": of(allowed), "unconditional": of(unconditional), "cfg_scale": of(cfg_scale)})

    def rollout(self, slot: int = 0) -> Rollout:
        """The rollout of a slot's sequence, which has ended."""
        if slot not in self._sequences:
            raise RuntimeError(f"rollout() of slot {slot}, which no sequence was started in")
        report = self.session.report(slot)
        if report.end == Ending.running:
            raise RuntimeError(f"rollout() of slot {slot}, whose sequence has not ended")
        known = self._sequences[slot]
        first, block, notes = known["prompt_length"], known["block_length"], known["notes"]
        stop = min(report.answer_end, min(known["undecided"], default=known["length"])) - first
        decided = max((i + 1 for i, step in enumerate(notes.steps) if step), default=0)
        count = min(len(notes.steps), -(-max(decided, stop) // block) * block)
        tokens = [int(t) for t in known["tokens"][: first + count]]
        return Rollout(tokens[:first], tokens[first:], **{name: list(getattr(notes, name)[:count]) for name in _LISTS},
                       stop_length=stop, policy=known["policy"], block_length=block)


def _dense(steps: Sequence[int]) -> list[int]:
    """The steps without gaps, from 1; 0 for tokens without a decision."""
    number = {step: i for i, step in enumerate(sorted({s for s in steps if s > 0}), 1)}
    return [number.get(s, 0) for s in steps]


# The lists in meta_info of SGLang's responses; those after step_maps, which counts from 1, are of unmask.sglang.
SGLANG = {
    "step_maps": "steps",
    "commit_logprobs": "log_probabilities",
    "commit_log_kept_masses": "log_kept_masses",
    "commit_drawn": "drawn",
    "commit_seeds": "seeds",
    "commit_counters": "counters",
}


def to_sglang(rollout: Rollout) -> dict[str, Any]:
    """A response of SGLang with the tokens that a reader sees."""
    end = rollout.stop_length
    known = {theirs: getattr(rollout, ours) for theirs, ours in SGLANG.items() if getattr(rollout, ours) is not None}
    return {"output_ids": rollout.tokens[:end],
            "meta_info": {name: [list(v) if isinstance(v, tuple) else v for v in values[:end]]
                          for name, values in known.items()}}


def from_sglang(response: Mapping[str, Any], *, prompt: Sequence[int] = (), policy: str = "") -> Rollout:
    """The rollout of a response whose request had return_step_maps."""
    about = response.get("meta_info") or {}
    if "step_maps" not in about:
        raise ValueError("meta_info must have step_maps: the request must have return_step_maps")
    lists = {ours: list(about[theirs]) for theirs, ours in SGLANG.items() if about.get(theirs) is not None}
    if "counters" in lists:
        lists["counters"] = [tuple(c) for c in lists["counters"]]
    if "drawn" in lists:
        lists["drawn"] = [bool(d) for d in lists["drawn"]]
    return Rollout(list(prompt), list(response["output_ids"]), policy=policy, **lists)


def to_dare(rollout: Rollout) -> dict[str, Any]:
    """The same with what DARE replays: all tokens of the last block, which must end where a block of it ends."""
    length, block = len(rollout.prompt) + len(rollout.tokens), rollout.block_length
    if block <= 0 or length % block:
        raise ValueError(f"prompt and response must end with a block for DARE, got {len(rollout.prompt)} and "
                         f"{len(rollout.tokens)} tokens with blocks of {block}")
    steps = _dense(rollout.steps)
    if 0 in steps:
        raise ValueError(f"steps must be at least 1 for DARE, got 0 for token {steps.index(0)}")
    if len(rollout.tokens) - rollout.stop_length >= block:
        raise ValueError(f"at most one block may go on after the end for DARE, got {len(rollout.tokens)} tokens and "
                         f"stop_length {rollout.stop_length}")
    response = to_sglang(rollout)
    response["meta_info"] |= {"step_maps": steps[: rollout.stop_length], "dllm_replay_token_ids": rollout.tokens,
                              "dllm_replay_step_maps": steps, "dllm_stop_length": rollout.stop_length,
                              "dllm_replay_contract_version": 1}
    return response


def from_dare(response: Mapping[str, Any], *, prompt: Sequence[int] = (), block_length: int = 0) -> Rollout:
    about = response["meta_info"]
    if about.get("dllm_replay_contract_version") != 1:
        raise ValueError(f"dllm_replay_contract_version must be 1, got {about.get('dllm_replay_contract_version')!r}")
    return Rollout(list(prompt), list(about["dllm_replay_token_ids"]), list(about["dllm_replay_step_maps"]),
                   stop_length=about["dllm_stop_length"], block_length=block_length)


def to_dllm_rl(rollout: Rollout, *, prompt: str, response: str, reward: float) -> dict[str, Any]:
    """An entry of the optimization data of dLLM-RL; texts as its tokenizer gives them. Steps from 0."""
    return {"prompt": prompt, "reward": reward, "response": response,
            "step_map": [s - 1 for s in _dense(rollout.steps[: rollout.stop_length])]}


def from_dllm_rl(entry: Mapping[str, Any], *, prompt: Sequence[int], tokens: Sequence[int]) -> Rollout:
    """The rollout of an entry, given the tokens of its texts.

    Its step_map begins with 0 or 1, by the model. Tokens that it has no step for are of one more, as in dLLM-RL.
    """
    steps = list(entry["step_map"])[: len(tokens)]
    steps += [max(steps, default=0) + 1] * (len(tokens) - len(steps))
    least = min(steps, default=0)
    return Rollout(list(prompt), list(tokens), [s - least + 1 for s in steps])


def to_lmdeploy(rollout: Rollout) -> dict[str, Any]:
    """The members token_ids, step_map (from 1, without gaps) and logprobs of a Response of LMDeploy."""
    end = rollout.stop_length
    made: dict[str, Any] = {"token_ids": rollout.tokens[:end], "step_map": _dense(rollout.steps)[:end]}
    if rollout.log_probabilities is not None:
        made["logprobs"] = [{t: p} for t, p in zip(rollout.tokens[:end], rollout.log_probabilities)]
    return made


def from_lmdeploy(response: Any, *, prompt: Sequence[int] = ()) -> Rollout:
    """The rollout of a Response, or of a mapping with these members."""
    def member(name: str) -> Any:
        return response.get(name) if isinstance(response, Mapping) else getattr(response, name, None)

    tokens, steps, found = list(member("token_ids")), member("step_map"), member("logprobs")
    if steps is None:
        raise ValueError("step_map must be known, got None")
    logs = None if found is None else [of[token] for of, token in zip(found, tokens)]
    return Rollout(list(prompt), tokens, list(steps), log_probabilities=logs)


def to_maxtext(rollouts: Sequence[Rollout], *, length: Optional[int] = None, pad_token: int = 0) -> dict[str, Any]:
    """tokens, action_steps and action_logps of a DenoiseTrace of maxtext, [batch, length]: prompts, then responses.

    Steps count from 0 without gaps; prompts and padding have -1. The log-probabilities belong to the draws.
    """
    import numpy as np

    longest = max((len(r.prompt) + len(r.tokens) for r in rollouts), default=0)
    length = longest if length is None else length
    if length < longest:
        raise ValueError(f"length must be at least {longest}, the longest prompt and response, got {length}")
    made = {"tokens": np.full((len(rollouts), length), pad_token, np.int32),
            "action_steps": np.full((len(rollouts), length), -1, np.int32),
            "action_logps": np.zeros((len(rollouts), length), np.float32)}
    for i, r in enumerate(rollouts):
        first, end = len(r.prompt), len(r.prompt) + len(r.tokens)
        made["tokens"][i, :end] = [*r.prompt, *r.tokens]
        made["action_steps"][i, first:end] = [s - 1 for s in _dense(r.steps)]
        made["action_logps"][i, first:end] = r.drawn_log_probabilities
    return made


def from_maxtext(trace: Mapping[str, Any], *, prompt_lengths: Sequence[int]) -> list[Rollout]:
    """The rollouts of such arrays. A response ends before the first -1 after it."""
    made = []
    for tokens, steps, logs, first in zip(trace["tokens"], trace["action_steps"], trace["action_logps"], prompt_lengths):
        count = next((i for i, s in enumerate(steps[first:]) if s < 0), len(steps) - first)
        made.append(Rollout([int(t) for t in tokens[:first]], [int(t) for t in tokens[first: first + count]],
                            [int(s) + 1 for s in steps[first: first + count]],
                            log_probabilities=[float(p) for p in logs[first: first + count]],
                            log_kept_masses=[0.0] * count))
    return made
