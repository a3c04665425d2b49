# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tools of a chat: how a model is told of them, the language of its calls, and calls in a text."""
from __future__ import annotations

import dataclasses
import json
import re
import uuid
from typing import Any, Sequence

from .. import constraints
from .._refused import RefusedAt
from .._unmask import Constraint, Vocabulary
from .batch import _Stop

MOST_STATES = 4096  # of the language of an answer, over tokens
MOST_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclasses.dataclass(frozen=True)
class Tool:
    name: str
    description: str | None
    parameters: dict[str, Any]

    def described(self) -> dict[str, Any]:
        """As chat templates are given it."""
        about = {} if self.description is None else {"description": self.description}
        return {"type": "function", "function": {"name": self.name, **about, "parameters": self.parameters}}


@dataclasses.dataclass(frozen=True)
class Format:
    """How calls are written in an answer: opening, calls with `between` between them, closing."""

    begin: str  # in front of a name
    middle: str  # between a name and its arguments
    end: str
    trigger: str  # free text does not contain it
    opening: str = ""
    between: str = "\n"
    closing: str = ""
    after_text: str = "\n"  # between the text of an answer and its calls, in the history
    several: bool = True
    alone: bool = False  # an answer is text or a call

    def written(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls, each a name and arguments, as the model writes them."""
        return self.opening + self.between.join(
            f"{self.begin}{name}{self.middle}{arguments}{self.end}" for name, arguments in calls) + self.closing


HERMES = Format('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", "<tool_call>")
NEMOTRON = Format('{"name": "', '", "arguments": ', "}", "<TOOLCALL>", opening="<TOOLCALL>[", between=", ", closing="]</TOOLCALL>",
                  after_text="\n\n")
LLAMA = Format('{"name": "', '", "parameters": ', "}", '{"name": "', several=False, alone=True)
PLAIN = Format('<tool_call>{"name": "', '", "arguments": ', "}</tool_call>", "<tool_call>", between="", after_text="")
"""For a model without a chat template: it is told nothing about tools."""


def format_of(template: str | None) -> Format:
    """The format of a chat template, by the texts in it; that of Hermes and Qwen if it has none of these."""
    if template is None:
        return PLAIN
    if "<TOOLCALL>" in template:
        return NEMOTRON
    if "<tool_call>" not in template and re.search(r'"parameters\\?": dictionary of argument name', template):
        return LLAMA
    return HERMES


def with_tools(messages: Sequence[dict[str, Any]], tools: Sequence[Tool], form: Format) -> list[dict[str, str]]:
    """Messages of text alone: what tools there are, calls and their results as the chat template of `form` writes them.

    Of `messages` an assistant's may have `calls`, names and arguments, and those with the role tool are results.
    """
    out: list[dict[str, str]] = []
    results: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            results.append(message["content"])
            if i + 1 == len(messages) or messages[i + 1]["role"] != "tool":
                out += _results(results, form)
                results = []
        elif message.get("calls"):
            text, calls = message["content"], form.written(message["calls"])
            out.append({"role": "assistant", "content": text + form.after_text * bool(text) + calls})
        else:
            out.append({"role": message["role"], "content": message["content"]})
    if tools and form is not PLAIN:
        _describe(out, tools, form)
    return out


def _results(results: Sequence[str], form: Format) -> list[dict[str, str]]:
    if form is LLAMA:  # its template has a role for them
        return [{"role": "tool", "content": text} for text in results]
    if form is NEMOTRON:
        return [{"role": "user", "content": f"<TOOL_RESPONSE>[{', '.join(results)}]</TOOL_RESPONSE>"}]
    if form is HERMES:
        return [{"role": "user", "content": "\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in results)}]
    return [{"role": "user", "content": text} for text in results]


def _describe(messages: list[dict[str, str]], tools: Sequence[Tool], form: Format) -> None:
    """Writes what tools there are where the template of `form` does, in its words."""
    texts = [json.dumps(tool.described(), ensure_ascii=False) for tool in tools]
    if form is LLAMA:
        about = ("Given the following functions, please respond with a JSON for a function call with its proper arguments that best "
                 'answers the given prompt.\n\nRespond in the format {"name": function name, "parameters": dictionary of argument '
                 "name and its value}. Do not use variables.\n\n")
        about += "".join(json.dumps(tool.described(), indent=4, ensure_ascii=False) + "\n\n" for tool in tools)
        at = next((i for i, message in enumerate(messages) if message["role"] == "user"), None)
        if at is not None:
            messages[at] = {"role": "user", "content": about + messages[at]["content"]}
            return
    elif form is NEMOTRON:
        functions = ", ".join(json.dumps(tool.described()["function"], ensure_ascii=False) for tool in tools)
        about = (
            f"You can use the following tools to assist the user if required:\n<AVAILABLE_TOOLS>[{functions}]</AVAILABLE_TOOLS>\n\n"
            'If you decide to call any tool(s), use the following format:\n<TOOLCALL>[{{"name": "tool_name1", "arguments": '
            '"tool_args1"}}, {{"name": "tool_name2", "arguments": "tool_args2"}}]</TOOLCALL>\n\nThe user will execute tool-calls '
            "and return responses from tool(s) in this format:\n"
            '<TOOL_RESPONSE>[{{"tool_response1"}}, {{"tool_response2"}}]</TOOL_RESPONSE>\n\n'
            "Based on the tool responses, you can call additional tools if needed, correct tool calls if any errors are found, "
            "or just respond to the user.")
    else:
        about = (
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
            "signatures within <tools></tools> XML tags:\n<tools>\n" + "\n".join(texts) + "\n</tools>\n\nFor each function call, "
            "return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
            '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>')
    if messages and messages[0]["role"] in ("system", "developer"):
        text = messages[0]["content"]
        messages[0] = {"role": "system", "content": text + "\n\n" * bool(text) + about}
    else:
        messages.insert(0, {"role": "system", "content": about})


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which tools an answer may call, and whether it must."""

    tools: tuple[Tool, ...]
    places: tuple[str, ...]  # of their parameters in the request
    must: bool
    several: bool
    form: Format

    def language(self, words: Vocabulary) -> Constraint:
        """Text, or text and calls; calls alone if it must call.

        Errors: RefusedAt, with the place of the tool, for a schema that is not kept; those of structural_tag().
        """
        try:
            return constraints.structural_tag({"format": self._format()}, words, states=MOST_STATES)
        except ValueError as error:
            found = re.match(r"structural_tag: /format[^ ]*?/tags/(\d+)/content/json_schema(/|: )", str(error))
            if found is None:
                raise
            raise RefusedAt(self.places[int(found[1])], str(error)[found.start(2) :].removeprefix(": ")) from None

    def _format(self) -> dict[str, Any]:
        """That language as a format of a structural tag."""
        form = self.form
        tags = [{"begin": f"{form.begin}{tool.name}{form.middle}", "end": form.end,
                 "content": {"type": "json_schema", "json_schema": tool.parameters}} for tool in self.tools]
        calls = {"type": "sequence", "elements": [
            {"type": "const_string", "value": form.opening},
            {"type": "tags_with_separator", "tags": tags, "separator": form.between, "at_least_one": True,
             "stop_after_first": not (self.several and form.several)},
            {"type": "const_string", "value": form.closing}]}
        if self.must:
            return calls
        if form.alone:
            trigger = "".join(f"\\u{{{ord(c):x}}}" for c in form.trigger)
            return {"type": "or", "elements": [{"type": "regex", "pattern": f"(?!{trigger})[^]*"}, calls]}
        return {"type": "sequence", "elements": [{"type": "any_text", "excludes": [form.trigger]}, {"type": "optional", "content": calls}]}


@dataclasses.dataclass
class Call:
    name: str
    arguments: str = ""
    ended: bool = False
    id: str = dataclasses.field(default_factory=lambda: "call_" + uuid.uuid4().hex[:24])


class Calls:
    """Reads the text of an answer that grows: its content, and its calls. Time linear in the text."""

    def __init__(self, form: Format) -> None:
        self.content, self.calls = "", list[Call]()
        self._form = form
        self._trigger = _Stop(form.trigger)
        self._text: str | None = ""  # that may become a trigger, in front of calls
        self._lead = form.opening + form.begin
        self._rest = ""  # in front of the next arguments
        self._depth, self._quoted, self._escaped = 0, False, False

    def read(self, more: str, last: bool = False) -> None:
        """Reads more of the text. `last`: no more follows."""
        if self._text is not None:
            more = self._outside(more, last)
        while more:
            if self.calls and not self.calls[-1].ended:
                more = self._arguments(more)
            else:
                more = self._head(more)

    def _outside(self, more: str, last: bool) -> str:
        """Adds to the content; returns the text from a trigger on."""
        assert self._text is not None
        self._text += more
        if self._form.alone:
            trigger = self._form.trigger
            at = len(trigger) if self._text.startswith(trigger) and not self.content else None
            held = 0 if self.content or not trigger.startswith(self._text) else len(self._text)
        else:
            at = self._trigger.read(more)
            at = None if at is None else len(self._text) - len(more) + at
            held = self._trigger.matched
        if at is not None:
            begin = at - len(self._form.trigger)
            text, self._text = self._text, None
            self.content += text[:begin]
            return text[begin:]
        keep = 0 if last else held
        cut = len(self._text) - keep
        self.content, self._text = self.content + self._text[:cut], self._text[cut:]
        return ""

    def _head(self, more: str) -> str:
        """Reads up to the arguments of the next call."""
        for i, character in enumerate(more):
            self._rest += character
            if character == self._form.middle[-1] and self._rest.endswith(self._form.middle) and self._rest.startswith(self._lead):
                self.calls.append(Call(self._rest[len(self._lead) : -len(self._form.middle)]))
                self._rest, self._lead = "", self._form.end + self._form.between + self._form.begin
                return more[i + 1 :]
        return ""

    def _arguments(self, more: str) -> str:
        """Reads an object up to its last brace."""
        for i, character in enumerate(more):
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._escaped, self._quoted = character == "\\", character != '"'
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.calls[-1].arguments += more[: i + 1]
                    self.calls[-1].ended = True
                    return more[i + 1 :]
        self.calls[-1].arguments += more
        return ""
