# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The word of a model in the table of released models, for adapters that are given no policy."""
from __future__ import annotations

from typing import Any

from . import _text
from ._unmask import Model, find_model, model_of

OTHERWISE = "threshold(0.9)"
"""The policy for a model that has no word."""


def of_config(config: Any) -> Model | None:
    """The model of a configuration, by its model_type and the name of its checkpoint; None if it has no word."""
    for one in (config, config.get_text_config() if hasattr(config, "get_text_config") else None):
        kind = getattr(one, "model_type", None)
        if isinstance(kind, str) and kind:
            found = model_of(kind, str(getattr(config, "_name_or_path", "") or ""))
            if found is not None:
                return found
    return None


def of_served(model: Any) -> Model | None:
    """The released model that a model of the server is, by its `config`; one with another mask token is none."""
    found = of_config(getattr(model, "config", None))
    return found if found is not None and found.mask_token in (None, model.mask_token) else None


def of_policy(policy: Any) -> Model | None:
    """The model whose word a text has, or the first of a list of texts; None if there is none."""
    for text in policy if isinstance(policy, (list, tuple)) else [policy]:
        names = _text.names(text) if isinstance(text, str) and "model:" in text else ()
        for name in names:
            if name.startswith("model:"):
                return find_model(name)
    return None


def default(config: Any) -> str:
    """The policy for a model when none was given: its word, or OTHERWISE."""
    model = of_config(config)
    return OTHERWISE if model is None else model.word
