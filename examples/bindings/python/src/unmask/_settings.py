# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sampling settings of a request as parts of its policy, for hosts whose requests have such fields."""
from __future__ import annotations

import math
from typing import Any, Mapping

from . import _text

# The part of each setting, the range of its values, and the values at which it does nothing.
_PARTS: dict[str, tuple[str, float, float, tuple[float, ...]]] = {
    "temperature": ("sampling", 0, math.inf, (0,)),
    "top_k": ("top_k", -1, 2**31 - 1, (-1, 0)),
    "top_p": ("top_p", 0, 1, (1,)),
    "min_p": ("min_p", 0, 1, (0,)),
    "repetition_penalty": ("repetition_penalty", 1e-6, 1e6, (1,)),
    "presence_penalty": ("presence_frequency_penalty", -1e6, 1e6, (0,)),
    "frequency_penalty": ("presence_frequency_penalty", -1e6, 1e6, (0,)),
    "min_tokens": ("min_new_tokens", 0, 2**31 - 1, (0,)),
    "logit_bias": ("logit_bias", 0, 0, ()),
}
_WHOLE = ("top_k", "min_tokens")
_TRUNCATION = ("top_k", "top_p", "min_p")
_DRAWS = {"sampling", "confidence_after_truncation"}  # parts with which truncation changes something
_COLDEST = 1e-6  # of the part temperature
_MOST_BIASES = 16

NAMES = tuple(_PARTS)


def with_parts(policy: str, given: Mapping[str, Any], *, length: int, vocab: int, prompt: bool = False) -> str:
    """The text of a policy with a part for each setting that does something.

    A truncation looks at the row of vLLM, SGLang and transformers: the logits, then penalties and biases, divided by
    the temperature. Without one sampling(t) draws the same, and confidences stay those at temperature 1.

    `given` has settings by name; None is a setting that was not given. `length` is the number of
    positions of prompt and answer, over which penalties count; with `prompt` all of them count over the
    prompt, which otherwise repetition_penalty alone does. Of a request that draws nothing the most
    probable token stays the same under top_k, top_p and min_p, which then add no part.
    Raises ValueError, which names the setting, its value and the rule.
    """
    set_ = {name: _checked(name, value, vocab) for name, value in given.items() if value is not None}
    there = set(_text.names(policy))
    for name, value in set_.items():
        for part in ("sampling", "temperature") if name == "temperature" else (_PARTS[name][0],):
            if part in there and (name == "temperature" or _acts(name, value)):
                raise ValueError(f"{name} must not be given with a policy that has {part}, got {value!r} and '{policy}'")
    acting = {name: value for name, value in set_.items() if _acts(name, value)}
    parts = [policy]
    truncation = [f"{name}({acting[name]!r})" for name in _TRUNCATION if name in acting]
    divisor = 1  # of the row that penalties and biases edit
    if "temperature" in acting:
        t = acting["temperature"]
        if truncation and t >= _COLDEST:
            divisor = t
            parts += [f"temperature({t!r})"] * (t != 1) + ["sampling"]
        else:
            parts.append(f"sampling({t!r})")
    if "temperature" in acting or there & _DRAWS:
        parts += truncation
    if "repetition_penalty" in acting:
        parts.append(f"repetition_penalty({acting['repetition_penalty']!r}, window={length})")
    penalties = [acting.get(name, 0) / divisor for name in ("presence_penalty", "frequency_penalty")]
    if any(penalties):
        also = ", prompt=true" if prompt else ""
        parts.append(f"presence_frequency_penalty({penalties[0]!r}, {penalties[1]!r}, window={length}{also})")
    if "min_tokens" in acting:
        parts.append(f"min_new_tokens({acting['min_tokens']})")
    if "logit_bias" in acting:
        tokens, biases = zip(*sorted(acting["logit_bias"].items()))
        parts.append(f"logit_bias({list(tokens)}, {[b / divisor for b in biases]})")
    return " + ".join(parts)


def _acts(name: str, value: Any) -> bool:
    return bool(value) if name == "logit_bias" else value not in _PARTS[name][3]


def _checked(name: str, value: Any, vocab: int) -> Any:
    if name == "logit_bias":
        return _biases(value, vocab)
    _, least, most, _ = _PARTS[name]
    whole = name in _WHOLE
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not (
            least <= value <= most and math.isfinite(value)):
        kind = "an integer" if whole else "a number"
        bounds = f"in [{least:g}, {most:g}]" if most < 1e6 else f"at least {least:g} and finite"
        raise ValueError(f"{name} must be {kind}, {bounds}, got {value!r}")
    return value


def _biases(given: Any, vocab: int) -> dict[int, float]:
    if not isinstance(given, Mapping) or len(given) > _MOST_BIASES:
        got = f"{len(given)} tokens" if isinstance(given, Mapping) else repr(given)
        raise ValueError(f"logit_bias must be an object with at most {_MOST_BIASES} tokens, got {got}")
    out = {}
    for key, value in given.items():
        try:
            token = int(key)
        except (TypeError, ValueError):
            token = -1
        if not 0 <= token < vocab:
            raise ValueError(f"logit_bias must have tokens in [0, {vocab}) as keys, got {key!r}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"logit_bias[{token}] must be a finite number, got {value!r}")
        out[token] = float(value)
    return out
