# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Typed questions with a probability for each option, all answered in one forward pass.

    found = unmask.decide(model, prompt, [{"name": "urgent", "type": "boolean"}], encode=encode, mask_token=M)
    print(found["urgent"].answer, found["urgent"].probabilities)
"""
from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence, Union

from ._read import read
from ._refused import RefusedAt

if TYPE_CHECKING:  # otherwise in functions: a program may set the threads of NumPy before
    import numpy as np

MOST_QUESTIONS = 64
MOST_OPTIONS = 255
MOST_PASSES = 256
_MOST_TEXT = 1024  # characters of a name, an option or a text around an answer
_KINDS = {"boolean": ("options",), "choice": ("options",), "score": ("minimum", "maximum")}

Value = Union[bool, int, str]


@dataclasses.dataclass(frozen=True)
class Decision:
    """The answer to a question.

    answer         the most probable option, the first of equals: a boolean, a text of a choice, or an integer.
                   None if no option is possible, or a row of logits has NaN or infinity
    probabilities  of each option, in the order of the question. They add up to 1. Empty without an answer
    mass           probability of all options together, in the model's distribution over all tokens. A small one says
                   that the model would write something else. NaN if a row has NaN or infinity
    mean           of a score: the mean of its distribution. None for other questions
    """

    answer: Value | None
    probabilities: dict[Value, float]
    mass: float
    mean: float | None = None


@dataclasses.dataclass(frozen=True)
class Question:
    """A question that was checked: its options as values, and as they are written."""

    name: str
    kind: str
    values: tuple[Value, ...]
    texts: tuple[str, ...]
    before: str
    after: str

    def decided(self, scores: np.ndarray) -> Decision:
        """The decision from the log-probability of each option."""
        import numpy as np

        best = scores.max()
        if not np.isfinite(best):
            return Decision(None, {}, float("nan") if np.isnan(best) or best > 0 else 0.0)
        shares = np.exp(scores - best)
        shares = shares / shares.sum()
        mean = float(shares @ np.array(self.values, np.float64)) if self.kind == "score" else None
        return Decision(self.values[int(np.argmax(scores))], dict(zip(self.values, shares.tolist())),
                        float(np.exp(scores).sum()), mean)


def questions_of(given: Any) -> list[Question]:
    """Checks questions. Errors: RefusedAt."""
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MOST_QUESTIONS:
        raise RefusedAt("questions", f"questions must be a list of 1 to {MOST_QUESTIONS} objects, got {_shown(given)}")
    own = [isinstance(q, dict) and q.get("before") is not None for q in given]
    if any(own) and not all(own):
        at = own.index(False)
        raise RefusedAt(f"questions[{at}].before", "before must be given for all questions or for none: the answers are then the "
                        "members of a JSON object")
    out: list[Question] = []
    for i, question in enumerate(given):
        where = f"questions[{i}]"
        if not isinstance(question, dict):
            raise RefusedAt(where, f"{where} must be an object, got {_shown(question)}")
        kind = question.get("type")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise RefusedAt(f"{where}.type", f"{where}.type must be boolean, choice or score, got {_shown(kind)}")
        known = ("name", "type", "before", "after", *_KINDS[kind])
        for name, value in question.items():
            if name not in known and value is not None:
                raise RefusedAt(f"{where}.{name}"[:200], f"{where} of type {kind} has no member {_shown(name)}: it has {', '.join(known)}")
        name = _text(question.get("name"), f"{where}.name")
        if any(name == other.name for other in out):
            raise RefusedAt(f"{where}.name", f"{where}.name must differ from those of other questions, got {_shown(name)}")
        values, texts = _options(question, kind, where)
        if all(own):
            before = _text(question["before"], f"{where}.before")
            after = _text(question.get("after") or "", f"{where}.after", empty=True)
        else:
            if question.get("after") is not None:
                raise RefusedAt(f"{where}.after", "after must be given with before")
            before, after, texts = _member(name, kind, texts, first=i == 0, last=i + 1 == len(given))
        out.append(Question(name, kind, values, texts, before, after))
    return out


def _options(question: dict[str, Any], kind: str, where: str) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """The options of a question: values, and their texts."""
    if kind == "score":
        bounds = [question.get("minimum"), question.get("maximum")]
        if not all(type(b) is int and abs(b) <= 10**9 for b in bounds) or not 1 <= bounds[1] - bounds[0] < MOST_OPTIONS:
            raise RefusedAt(f"{where}.maximum", f"{where}.minimum and maximum must be integers, at most 1e9 in size, with 2 to "
                            f"{MOST_OPTIONS} from the first to the last, got {_shown(bounds)}")
        scale = range(bounds[0], bounds[1] + 1)
        return tuple(scale), tuple(map(str, scale))
    given = question.get("options")
    if kind == "boolean" and given is None:
        given = ["true", "false"]
    least, most = (2, 2) if kind == "boolean" else (2, MOST_OPTIONS)
    if not isinstance(given, (list, tuple)) or not least <= len(given) <= most:
        rule = "the texts of true and of false" if kind == "boolean" else f"{least} to {most} texts"
        raise RefusedAt(f"{where}.options", f"{where}.options must be a list, {rule}, got {_shown(given)}")
    texts = tuple(_text(option, f"{where}.options[{j}]") for j, option in enumerate(given))
    if len(set(texts)) < len(texts):
        raise RefusedAt(f"{where}.options", f"{where}.options must differ, got {_shown(max(texts, key=texts.count))} twice")
    return ((True, False) if kind == "boolean" else texts), texts


def _member(name: str, kind: str, texts: tuple[str, ...], *, first: bool, last: bool) -> tuple[str, str, tuple[str, ...]]:
    """The texts around an answer that is a member of a JSON object, and those of its options there.

    A space belongs to the option after it: tokens of words begin with it.
    """
    head = ("{" if first else ", ") + json.dumps(name, ensure_ascii=False) + ":"
    tail = "}" if last else ""
    if kind == "choice":
        return head + ' "', '"' + tail, tuple(json.dumps(text, ensure_ascii=False)[1:-1] for text in texts)
    return head, tail, tuple(" " + text for text in texts)


def _text(value: Any, where: str, *, empty: bool = False) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT or not (value or empty):
        least = 0 if empty else 1
        raise RefusedAt(where, f"{where} must be a text of {least} to {_MOST_TEXT} characters, got {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RefusedAt(where, f"{where} must be Unicode, got a surrogate without its other half") from None
    return value


def _shown(value: Any) -> str:
    """A value in a message, cut. Of a list or an object its size, of which a client chooses the depth."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, (list, tuple, dict)) for v in value[:4]):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    shown = json.dumps(list(value[:8]) if isinstance(value, (list, tuple)) else value[:101] if isinstance(value, str) else value,
                       default=lambda v: type(v).__name__)
    return shown if len(shown) <= 100 else shown[:97] + "..."


@dataclasses.dataclass(frozen=True)
class Ask:
    """Options `which` of question `question`, whose tokens at `position` are `tokens`."""

    question: int
    position: int
    which: np.ndarray
    tokens: np.ndarray


@dataclasses.dataclass(frozen=True)
class Pass:
    """A forward pass over the sequence with tokens `filled` at positions from `at` on, and what is asked of its rows."""

    at: int
    filled: tuple[int, ...]
    asks: list[Ask]


class Layout:
    """The sequence of some questions: the prompt, and for each question its text before, masks, and its text after.

    Tokens with which all options of a question begin are part of the text before it. Each question has as many masks as
    its longest option has tokens left; shorter ones end with EOS tokens.

    encode  the tokens of a text, without any in front
    Errors: RefusedAt.
    """

    def __init__(
        self, prompt: Sequence[int], questions: Sequence[Question], encode: Callable[[str], Sequence[int]], *, mask_token: int,
        eos_token: int | None, vocab: int | None = None, logits_shift: int = 0,
    ) -> None:
        import numpy as np

        self.questions = list(questions)
        tokens = [int(token) for token in prompt]
        self.prompt_length = len(tokens)
        self._first: list[int] = []
        self._options: list[np.ndarray] = []

        def encoded(text: str, where: str) -> list[int]:
            try:
                found = [int(token) for token in encode(text)] if text else []
            except ValueError as error:
                raise RefusedAt(where, f"{where}: {error}") from None
            if any(token == mask_token or token < 0 or (vocab is not None and token >= vocab) for token in found):
                raise RefusedAt(where, f"{where} must have tokens of the vocabulary other than the mask token, got {_shown(found)}")
            return found

        text = ""
        for i, question in enumerate(questions):
            tokens += encoded(text + question.before, f"questions[{i}].before")
            where = f"questions[{i}].options"
            options = [encoded(option, where) for option in question.texts]
            longest = max(map(len, options))
            if any(len(option) < longest for option in options):
                if eos_token is None:
                    raise RefusedAt(where, f"{where} must have as many tokens each: shorter ones end with EOS tokens, which this model "
                                    f"does not have; got {_shown([len(option) for option in options])}")
                options = [option + [eos_token] * (longest - len(option)) for option in options]
            if len({tuple(option) for option in options}) < len(options):
                raise RefusedAt(where, f"{where} must differ in their tokens, got two options with the same ones")
            table = np.array(options, np.int64).reshape(len(options), longest)
            common = int(np.argmin((table == table[0]).all(0)))  # options differ somewhere
            tokens += options[0][:common]
            self._first.append(len(tokens))
            self._options.append(table[:, common:])
            tokens += [mask_token] * (longest - common)
            text = question.after
        tokens += encoded(text, f"questions[{len(questions) - 1}].after")
        self.tokens = np.array(tokens, np.int32)
        self.masked = np.zeros(len(tokens), bool)
        """Where the sequence is masked: the positions of the answers."""
        for first, table in zip(self._first, self._options):
            self.masked[first : first + table.shape[1]] = True
        if self._first[0] < logits_shift:
            raise RefusedAt("prompt", f"prompt must have at least {logits_shift} tokens in front of the first answer: logits_shift is "
                            f"{logits_shift}, got {self._first[0]}")

    def passes(self, *, exact: bool, most: int = MOST_PASSES) -> list[Pass]:
        """The forward passes that answer the questions.

        One, in which each position of an option is read from the same rows. If `exact`, the first one and one for each
        distinct beginning of an option: all other questions stay masked in it. Errors: RefusedAt over `most` passes.
        """
        import numpy as np

        if not exact:
            return [Pass(0, (), [ask for q in range(len(self.questions)) for ask in self._asks(q, range(self._options[q].shape[1]))])]
        out = [Pass(0, (), [ask for q in range(len(self.questions)) for ask in self._asks(q, [0])])]
        for q, (first, table) in enumerate(zip(self._first, self._options)):
            for depth in range(1, table.shape[1]):
                prefixes, which = np.unique(table[:, :depth], axis=0, return_inverse=True)
                if len(out) + len(prefixes) > most:
                    raise RefusedAt("exact", f"exact takes more than {most} forward passes for these questions: give fewer or shorter options")
                which = which.reshape(-1)
                for i, prefix in enumerate(prefixes.tolist()):
                    of = np.flatnonzero(which == i)
                    out.append(Pass(first, tuple(prefix), [Ask(q, first + depth, of, table[of, depth])]))
        return out

    def _asks(self, q: int, depths: Sequence[int]) -> Iterator[Ask]:
        import numpy as np

        table = self._options[q]
        for depth in depths:
            yield Ask(q, self._first[q] + depth, np.arange(len(table)), table[:, depth])

    def sequence(self, one: Pass) -> np.ndarray:
        """The tokens of a pass."""
        tokens = self.tokens.copy()
        tokens[one.at : one.at + len(one.filled)] = one.filled
        return tokens

    def decisions(self, passes: Sequence[Pass], read: Sequence[list[np.ndarray]]) -> dict[str, Decision]:
        """The decisions from what log_probabilities() returned for each pass."""
        import numpy as np

        scores = [np.zeros(len(question.values)) for question in self.questions]
        for one, found in zip(passes, read, strict=True):
            for ask, logs in zip(one.asks, found, strict=True):
                scores[ask.question][ask.which] += logs
        return {question.name: question.decided(of) for question, of in zip(self.questions, scores)}


def log_probabilities(
    one: Pass, rows: Callable[[np.ndarray], Any], *, mask_token: int, vocab: int | None = None, temperature: float = 1.0
) -> list[np.ndarray]:
    """The log-probability of each token that a pass asks for, in double precision.

    rows(positions) returns the logits that predict these positions. The mask token is impossible.
    """
    import numpy as np

    positions, which = np.unique([ask.position for ask in one.asks], return_inverse=True)
    logits = np.array(rows(positions), np.float32)[:, :vocab] / np.float32(temperature)
    known = read(logits, suppressed=[mask_token])
    invalid = np.isposinf(logits).any(1) | np.isnan(logits).any(1)
    best, total = np.asarray(known.best, np.float64), np.asarray(known.log_total, np.float64)
    out = []
    for ask, row in zip(one.asks, which.reshape(-1).tolist()):
        logs = logits[row, ask.tokens].astype(np.float64)
        if invalid[row]:
            out.append(np.full(len(logs), np.nan))
        elif not np.isfinite(best[row]):  # no token is possible
            out.append(np.full(len(logs), -np.inf))
        else:
            out.append(logs - best[row] - total[row])
    return out


def decide(
    forward: Callable[[np.ndarray], Any],
    prompt: str | Sequence[int],
    questions: Sequence[dict[str, Any]],
    *,
    encode: Callable[[str], Sequence[int]],
    mask_token: int,
    eos_token: int | None = None,
    vocab: int | None = None,
    logits_shift: int = 0,
    exact: bool = False,
    temperature: float = 1.0,
    together: int = 1,
) -> dict[str, Decision]:
    """Answers typed questions about a prompt in one forward pass, with the probability of each option.

        questions = [{"name": "urgent", "type": "boolean"},
                     {"name": "topic", "type": "choice", "options": ["billing", "bug", "other"]},
                     {"name": "anger", "type": "score", "minimum": 1, "maximum": 5}]

    The answers stand behind the prompt as a JSON object, {"urgent": true, "topic": "bug", "anger": 2}, with masks in
    place of the values; or each between the texts `before` and `after` of its question. No answer is decided from
    another one: all are masked.

    forward       tokens, int32 [n, length], to logits [n, length, vocab or more]: NumPy, or a tensor that is copied to the host
    prompt        its tokens, or a text for `encode`, which then puts no tokens in front
    encode        a text to its tokens, without special tokens
    eos_token     ends options that have fewer tokens than others of their question
    logits_shift  row p - shift predicts position p
    exact         an option of several tokens has the product of the probabilities of its tokens, each from the same
                  pass. True takes the chain rule instead, with a pass for each distinct beginning of an option, 256 at most
    temperature   divides the logits
    together      sequences of a call of `forward`, for `exact`

    Errors: ValueError with the place and the rule. Cost: a pass over prompt and answers, and the rows of the answers.
    """
    import numpy as np

    if not (isinstance(temperature, (int, float)) and 1e-6 <= temperature <= 1e6):
        raise ValueError(f"temperature must be a number in [1e-6, 1e6], got {temperature!r}")
    tokens = encode(prompt) if isinstance(prompt, str) else prompt
    layout = Layout(tokens, questions_of(questions), encode, mask_token=mask_token, eos_token=eos_token, vocab=vocab,
                    logits_shift=logits_shift)
    passes = layout.passes(exact=exact)
    found = []
    for at in range(0, len(passes), max(1, together)):
        some = passes[at : at + max(1, together)]
        logits = forward(np.stack([layout.sequence(one) for one in some]))
        for i, one in enumerate(some):
            def rows(positions: np.ndarray, i: int = i) -> Any:
                of = logits[i][(positions - logits_shift).tolist()]
                of = of.detach().float().cpu().numpy() if hasattr(of, "detach") else of
                return of

            found.append(log_probabilities(one, rows, mask_token=mask_token, vocab=vocab, temperature=temperature))
    return layout.decisions(passes, found)
