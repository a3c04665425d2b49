# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tool parsers of vLLM whose requests a diffusion model obeys: --tool-call-parser unmask_hermes, and so on.

vLLM makes a structured output of the tools of a chat, and then refuses it for diffusion models. Each class here is a
parser of vLLM that hands what vLLM made to the sampler, as `unmask_constraint`. The same with `response_format` and
`structured_outputs`.
"""
from __future__ import annotations

import json
from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.tool_parsers import ToolParserManager

PREFIX = "unmask_"


def register() -> None:
    """Registers a parser for each one of vLLM; nothing is imported before it is used."""
    for name in ToolParserManager.list_registered():
        if not name.startswith(PREFIX):
            ToolParserManager.register_lazy_module(PREFIX + name, __name__, "of_" + name)


def constraint_of(wanted: Any) -> dict[str, Any]:
    """StructuredOutputsParams as `unmask_constraint`. Errors: VLLMValidationError, which is status 400."""
    from ..constraints import KINDS

    kind = next((kind for kind in KINDS if getattr(wanted, kind) not in (None, False)), None)
    if kind is None:
        raise VLLMValidationError(f"structured_outputs must have one of {', '.join(KINDS)} for a diffusion model, got {wanted}")
    for name in ("whitespace_pattern", "disable_additional_properties"):
        if getattr(wanted, name):
            raise VLLMValidationError(f"{name} is not supported for a diffusion model: leave it out, got {getattr(wanted, name)!r}")
    return {kind: getattr(wanted, kind)}


class _Handing:
    """In front of a parser of vLLM: hands the structured output of a request to the sampler."""

    def adjust_request(self, request: Any) -> Any:
        request = super().adjust_request(request)  # type: ignore[misc]
        wanted = request.extract_structured_outputs()
        if wanted is None:
            return request
        extra = dict(request.vllm_xargs or {})
        if "unmask_constraint" in extra:
            raise VLLMValidationError("unmask_constraint must not be given with tools, response_format or structured_outputs, "
                                      f"got {extra['unmask_constraint']!r:.200}")
        request.vllm_xargs = {**extra, "unmask_constraint": json.dumps(constraint_of(wanted))}
        request.structured_outputs = None
        for name in ("response_format", "text"):  # of chats, of the API of responses
            if hasattr(request, name):
                setattr(request, name, None)
        return request


def __getattr__(name: str) -> Any:
    if not name.startswith("of_"):
        raise AttributeError(f"module {__name__} has no {name}")
    parser = ToolParserManager.get_tool_parser(name.removeprefix("of_"))
    return type(parser.__name__, (_Handing, parser), {})
