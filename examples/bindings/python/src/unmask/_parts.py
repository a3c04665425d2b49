# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules in Python: functions of NumPy arrays that decide for a part of policies."""
from __future__ import annotations

import atexit
import enum
import inspect
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypeVar, overload

from ._unmask import Ending, _give_name  # type: ignore[attr-defined]

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Reals = npt.NDArray[np.float32]
    Wholes = npt.NDArray[np.int32]
    Truths = npt.NDArray[np.bool_]

__all__ = ["FilterResult", "Step", "filter", "ranking", "rule", "stop"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

STAGES = ("rule", "ranking", "filter", "stop")
REALS = ("confidence", "log_probability", "margin", "entropy", "score")
# As callback_candidate has them, 32 bits each.
MEMBERS = ("position", "token", "confidence", "log_probability", "margin", "entropy", "score", "rank", "block",
           "block_step", "block_masked", "block_masked_at_first", "block_length")


class FilterResult(enum.IntEnum):
    """What a filter does with a candidate in a step."""

    keep = 0
    ranked_last = 1  # last of all, with confidence and margin 0 and infinite entropy
    rejected = 2  # commits only if its block must commit and has no other candidate
    excluded = 3  # is no candidate of this step


class Step:
    """What a function sees: the candidates of a step of one sequence, as arrays with an entry for each, and the sequence
    before the commits of the step. A rule gets the candidates that it decides about, the best-ranked first; a ranking and
    a filter get all, in ascending positions; a stop gets none. The arrays cannot be written, and may be kept."""

    position: Wholes
    token: Wholes  # the proposed tokens
    confidence: Reals  # softmax probability of the proposed token
    log_probability: Reals  # its logarithm
    margin: Reals  # confidence minus the second largest probability
    entropy: Reals  # of the row, in nats
    score: Reals  # for a rule, that of the ranking; otherwise NaN
    rank: Wholes  # for a rule, 0 for the best-ranked; otherwise -1
    block: Wholes  # index of its block, from the first position after the prompt
    block_step: Wholes  # passes of that block before this one
    block_masked: Wholes  # its masked positions
    block_masked_at_first: Wholes  # the same when it was first decided
    block_length: Wholes  # its positions

    tokens: Wholes  # of the whole sequence, with the mask token where it is masked
    masked: Truths  # of the whole sequence
    committed: Truths  # of the whole sequence; a position that is neither was given
    slot: int
    number: int  # forward passes of the sequence before this one
    seed: int
    sequence: int
    prompt_length: int
    committed_prefix: int  # every position before it is committed or given
    eos_token: int | None
    mask_token: int

    def __init__(self, candidates: bytes, tokens: bytes, marks: bytes, about: Sequence[int]) -> None:
        import numpy as np

        wholes = np.frombuffer(candidates, np.int32).reshape(-1, len(MEMBERS)).T
        reals = wholes.view(np.float32)
        for i, name in enumerate(MEMBERS):
            setattr(self, name, reals[i] if name in REALS else wholes[i])
        self.tokens = np.frombuffer(tokens, np.int32)
        state = np.frombuffer(marks, np.uint8)
        self.masked, self.committed = state == 1, state == 2
        (self.slot, self.number, self.seed, self.sequence, self.prompt_length, self.committed_prefix, eos,
         self.mask_token) = about
        self.eos_token = None if eos == 0x7FFFFFFF else eos

    def __len__(self) -> int:
        """The number of candidates."""
        return len(self.position)

    def __repr__(self) -> str:
        return f"Step(slot={self.slot}, number={self.number}, candidates={len(self)})"


class _Part:
    """A function with the name of its part."""

    def __init__(self, stage: str, name: str, function: Callable[..., Any], wholes: Mapping[str, bool]) -> None:
        self.stage, self.name, self.function, self.wholes = stage, name, function, wholes

    def answers(self, step: Step, arguments: Sequence[float]) -> bytes:
        values = {name: int(value) if whole else value for (name, whole), value in zip(self.wholes.items(), arguments)}
        given = self.function(step, **values)
        return self.ending(given) if self.stage == "stop" else self.checked(given, len(step))

    def checked(self, given: Any, count: int) -> bytes:
        import numpy as np

        array = np.asarray(given)
        kinds = {"rule": "b", "ranking": "fiu", "filter": "biu"}[self.stage]
        if array.shape != (count,) or array.dtype.kind not in kinds:
            wanted = {"rule": "bool, true where a candidate commits",
                      "ranking": "numbers, the highest for the candidate that commits first",
                      "filter": "bool, false where a candidate is rejected, or unmask.FilterResult"}[self.stage]
            raise self.mistake(f"an array of {count}, one for each candidate: {wanted}", describe(given, array))
        if self.stage == "filter" and array.dtype.kind == "b":
            array = np.where(array, FilterResult.keep, FilterResult.rejected)
        elif self.stage == "filter" and count and not (array.min() >= 0 and array.max() <= 3):
            raise self.mistake("values of unmask.FilterResult, 0 to 3", f"{array.min()} to {array.max()}")
        with np.errstate(over="ignore"):  # a score of any size
            return array.astype(np.float32).tobytes()

    def ending(self, given: Any) -> bytes:
        import numpy as np

        may = (Ending.running, Ending.eos_token, Ending.stop_tokens, Ending.max_steps)
        if isinstance(given, (bool, np.bool_)):
            given = Ending.stop_tokens if given else Ending.running
        if not isinstance(given, Ending) or given not in may:
            raise self.mistake("bool, or Ending.running, eos_token, stop_tokens or max_steps",
                               str(given) if isinstance(given, Ending) else type(given).__name__)
        return np.float32(given.value).tobytes()

    def mistake(self, wanted: str, got: str) -> TypeError:
        return TypeError(f"the {self.stage} '{self.name}' must return {wanted}; got {got}")


def describe(given: Any, array: Any) -> str:
    if array.dtype.kind == "O":
        return type(given).__name__
    shape = "one value" if array.ndim == 0 else f"shape {array.shape}"
    return f"{array.dtype} of {shape}"


# Policies point to functions by their place here until the interpreter ends.
_parts: list[_Part] = []
atexit.register(_parts.clear)  # functions have sessions among their globals


def answers(place: int, candidates: bytes, tokens: bytes, marks: bytes, arguments: Sequence[float],
            about: Sequence[int]) -> bytes:
    """The answers of a function about a step, as 32-bit floats. Called by the extension."""
    part = _parts[place]
    step = Step(candidates, tokens, marks, about)
    try:
        return part.answers(step, arguments)
    except BaseException as error:
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"in the {part.stage} '{part.name}' of a policy: slot {step.slot} is cancelled, after "
                           f"{step.number} forward passes; the other sequences of the step were decided")
        raise


def _register(stage: str, function: Callable[..., Any], name: str | None,
              within: Mapping[str, tuple[float, float]] | None) -> None:
    if not callable(function):
        raise TypeError(f"unmask.{stage} must be given a function, got {type(function).__name__}")
    called = name if name is not None else getattr(function, "__name__", "")
    first, *others = inspect.signature(function).parameters.values() or (None,)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise TypeError(f"{stage} '{called}' must have a parameter for the step, as in def {called}(step): ...")
    ranges = dict(within or {})
    arguments = []
    for p in others:
        value = p.default
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD) or not is_number:
            raise TypeError(f"parameter '{p.name}' of {stage} '{called}' must have a number as its default, which a text "
                            f"may change, as in {called}(step, {p.name.lstrip('*')}=0.5)")
        least, most = ranges.pop(p.name, (float("-inf"), float("inf")))
        arguments.append((p.name, float(value), float(least), float(most), isinstance(value, int)))
    if ranges:
        raise TypeError(f"within= of {stage} '{called}' names '{next(iter(ranges))}', which is no parameter of it")
    about = (inspect.getdoc(function) or "").partition("\n")[0] or f"a {stage} in Python"
    _parts.append(_Part(stage, called, function, {a[0]: a[4] for a in arguments}))
    try:
        _give_name(STAGES.index(stage), called, about, arguments, len(_parts) - 1)
    except BaseException:
        _parts.pop()
        raise


def _decorator(stage: str, function: Any, name: str | None, within: Mapping[str, tuple[float, float]] | None) -> Any:
    def decorate(f: Any) -> Any:
        _register(stage, f, name, within)
        return f

    return decorate if function is None else decorate(function)


@overload
def rule(function: _Function, /) -> _Function: ...
@overload
def rule(*, name: str | None = None,
         within: Mapping[str, tuple[float, float]] | None = None) -> Callable[[_Function], _Function]: ...
def rule(function: Any = None, /, *, name: str | None = None,
         within: Mapping[str, tuple[float, float]] | None = None) -> Any:
    """Makes a function a commit rule that policies name.

        @unmask.rule
        def certain(step, value=0.9):
            return step.confidence > value

        session = unmask.Session("certain(0.8) + dual_cache + stop_at_eos", ...)

    The function gets a Step and returns a bool for each candidate: whether it commits. Its other parameters, up to
    four with numbers as defaults, are arguments in texts; `within` gives their ranges, {"value": (0, 1)}, and `name` the
    name of the part if it is not that of the function. The first line of its documentation is that of the help.

    It is a part as any other: with any_of() and all_of(), constraints, lookahead, traces, tune() and the server, in this
    process and on the host. It is called once for each step of a sequence, which takes about 17 us longer than a rule of
    the library, and holds the GIL. What it raises comes out of Session.supply(), or of start() for a stop: its sequence
    is cancelled, the others of the step are decided. It must not call the session.

    A name that is given again replaces the function for sessions made and texts read later. Errors: ValueError for a
    name that the library has or that no text can spell, TypeError for a function that cannot be called so."""
    return _decorator("rule", function, name, within)


@overload
def ranking(function: _Function, /) -> _Function: ...
@overload
def ranking(*, name: str | None = None,
            within: Mapping[str, tuple[float, float]] | None = None) -> Callable[[_Function], _Function]: ...
def ranking(function: Any = None, /, *, name: str | None = None,
            within: Mapping[str, tuple[float, float]] | None = None) -> Any:
    """Makes a function a ranking that policies name, as rule() does: it returns a score for each candidate. The highest
    commits first, NaN last."""
    return _decorator("ranking", function, name, within)


@overload
def filter(function: _Function, /) -> _Function: ...
@overload
def filter(*, name: str | None = None,
           within: Mapping[str, tuple[float, float]] | None = None) -> Callable[[_Function], _Function]: ...
def filter(function: Any = None, /, *, name: str | None = None,  # noqa: A001
           within: Mapping[str, tuple[float, float]] | None = None) -> Any:
    """Makes a function a filter that policies name, as rule() does: it returns a bool for each candidate, false where it
    is rejected, or one of FilterResult for each. A policy has at most one. Lookahead asks about single candidates."""
    return _decorator("filter", function, name, within)


@overload
def stop(function: _Function, /) -> _Function: ...
@overload
def stop(*, name: str | None = None,
         within: Mapping[str, tuple[float, float]] | None = None) -> Callable[[_Function], _Function]: ...
def stop(function: Any = None, /, *, name: str | None = None,
         within: Mapping[str, tuple[float, float]] | None = None) -> Any:
    """Makes a function a stop that policies name, as rule() does: it returns whether the sequence ends, or the Ending:
    running, eos_token, stop_tokens (what True means) or max_steps. It is asked after each step, and at the start."""
    return _decorator("stop", function, name, within)
