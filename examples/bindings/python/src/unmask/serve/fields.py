# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bodies of requests: each field is honoured, or refused by its name."""
from __future__ import annotations

import dataclasses
import difflib
import json
import secrets
from typing import Any, Iterator, NoReturn, Sequence

from .. import _models, _settings, _text, constraints, decisions
from .._refused import RefusedAt
from .._unmask import requirements
from .batch import Batch
from .edits import Edits
from .models import Model
from .tools import _NAME, _NOTHING, MOST_TOOLS, Choice, Tool, format_of, with_tools

MOST_CHOICES = 16
MOST_STOPS = 4
MOST_STOP = 1024  # characters
MOST_POLICY = 4096
MOST_TEXT = 1 << 16  # characters of an expression and a grammar
MOST_CHOICE = 1 << 14  # bytes of the choices of an answer
MOST_NAME = 100  # characters of a field's name
MOST_MESSAGE = 1000
MOST_ALTERNATIVES = 20
_SETTINGS = (*_settings.NAMES,)
_EDITS = ("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias")
_OF_ANSWERS = ("annotations", "audio", "function_call", "refusal")  # members that are empty in one's own answers
_SAY_NOTHING = ("user", "metadata", "safety_identifier", "prompt_cache_key", "store")
_REFUSED = {
    "audio": "it has no audio",
    "best_of": "it does not rank answers; n returns several",
    "echo": "the prompt is not repeated",
    "function_call": "use tool_choice",
    "functions": "use tools",
    "modalities": "it has text alone",
    "parallel_tool_calls": "tools are of a chat",
    "prediction": "a policy has no such draft",
    "reasoning_effort": "its models have no such setting",
    "service_tier": "it has one",
    "suffix": "an answer follows its prompt",
    "tool_choice": "tools are of a chat",
    "tools": "tools are of a chat",
    "verbosity": "its models have no such setting",
    "web_search_options": "it searches nothing",
}
_NOT_ASKED: tuple[Any, ...] = (None, False, [], ["text"], "none", "auto", 1)  # values of those by which nothing is asked for


class Refused(Exception):
    """A request that is answered with an error, as OpenAI shapes it."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(_sent(message, MOST_MESSAGE))
        self.status, self.param, self.code = status, param and _sent(param, MOST_NAME), code

    def body(self) -> dict[str, Any]:
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclasses.dataclass
class Language:
    """What an answer is: one of constraints.KINDS, or tools."""

    kind: str
    of: Any
    field: str


@dataclasses.dataclass
class Asked:
    """A request for answers, checked."""

    prompts: list[list[int]]
    word: Any  # the model whose word the policy has, or None
    choices: int  # for each prompt
    length: int
    length_field: str
    policy: str
    edits: Edits | None
    block_length: int
    seed: int
    stop: list[str]
    stream: bool
    include_usage: bool
    canvas: bool
    alternatives: int | None  # of each token, with its log-probability; None: neither
    language: Language | None


def parsed(body: bytes, most_values: int) -> dict[str, Any]:
    """The object in a body."""
    def no_number(text: str) -> NoReturn:
        raise ValueError(f"{text} is not a number of JSON")

    # In strings they count, too: what has more of them has more tokens than a context.
    if (values := sum(body.count(mark) for mark in b"[{,")) > most_values:
        raise Refused(f"the body must have at most {most_values} of the characters [ {{ and comma, got {values}")
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=no_number)
    except RecursionError:
        raise Refused("the body is nested too deep") from None
    except ValueError as error:
        raise Refused(f"the body must be JSON in UTF-8: {error}") from None
    if not isinstance(value, dict):
        raise Refused(f"the body must be an object, got {_shown(value)}")
    return value


def read(
    body: dict[str, Any], batch: Batch, *, chat: bool, policy: str, most_state: int, most_forwards: int | None = None
) -> Asked:
    """Checks a request. Raises Refused, which names the field, its value and the rule."""
    if (long := max(body, key=len, default="")) and len(long) > MOST_NAME:
        raise Refused(f"there is no field {_shown(long)}", long)
    model, fields = batch.model, _Fields(body)
    _check_model(fields, model)
    own = fields.text("policy", policy)
    if len(own) > MOST_POLICY:
        raise Refused(f"policy must have at most {MOST_POLICY} characters, got {len(own)}", "policy")
    try:
        batch.check(own)
    except ValueError as error:
        raise Refused(str(error), "policy") from None
    word = _models.of_policy(own)
    param = "max_completion_tokens" if fields.has("max_completion_tokens") else "max_tokens"
    choice = _tool_choice(fields, model) if chat else None
    prompts = (_messages(fields.take("messages"), choice, batch, param) if chat
               else _prompts(fields.take("prompt"), batch, param))
    for field, value in body.items():
        if not _is_unicode(field) or not _is_unicode(value):
            raise Refused(f"{_sent(field, MOST_NAME)} must be Unicode, got a surrogate without its other half, in {_shown(value)}",
                          field)

    longest = max(map(len, prompts))
    room = model.context - longest
    while word is not None and room > 0 and word.length(longest, room) > model.context:
        room -= 1
    if room < 1:
        raise _no_room(longest, model, param)
    length = fields.integer(param, min(model.answer_length if word is None else word.answer_length, room), 1)
    if fields.has("max_tokens"):
        raise Refused("max_tokens must not be given with max_completion_tokens", "max_tokens")
    if length > room:
        raise Refused(f"{param} must be at most {room}: the prompt has {longest} tokens and the model a context of "
                      f"{model.context}, got {_shown(length)}", param, code="context_length_exceeded")

    whole = longest + length if word is None else word.length(longest, length)
    given = {key: _setting(fields.take(key), key) for key in _SETTINGS}
    usual = min(model.block_length, length) if word is None else word.block_length or length
    block = fields.integer("block_length", usual, 1, max(usual, length))
    try:
        text, edits = _with_settings(own, given, longest + length, model)
        needed = requirements(
            text, vocab=model.vocab, mask_token=model.mask_token, eos_token=model.eos_token, length=whole,
            prompt_length=longest, block_length=block, branches=batch.branches, files=False)
    except ValueError as error:
        named = [key for key in _SETTINGS if given[key] is not None and str(error).startswith(key)]
        raise Refused(str(error), (named or ["policy"])[0]) from None
    if needed.state_bytes > most_state:
        raise Refused(f"policy '{text}' takes {needed.state_bytes} bytes for this answer, at most {most_state} are allowed",
                      "policy")
    forwards = min(needed.most_forwards, (_text.arguments(text, "max_steps") or {}).get("steps", needed.most_forwards))
    allowed = 512 + 32 * length if most_forwards is None else most_forwards
    if forwards > allowed:
        raise Refused(f"policy '{text}' may take {forwards:.0f} forward passes for this answer of {length} positions, at most "
                      f"{allowed} are allowed: give it fewer steps or add max_steps({allowed})", "policy")

    asked = Asked(
        prompts=prompts,
        word=word,
        choices=fields.integer("n", 1, 1, MOST_CHOICES),
        length=length,
        length_field=param,
        policy=text,
        edits=edits,
        block_length=block,
        seed=fields.integer("seed", secrets.randbits(53), -(2**63), 2**64 - 1) % 2**64,
        stop=_stops(fields.take("stop")),
        stream=fields.boolean("stream"),
        include_usage=_stream_options(fields.take("stream_options")),
        canvas=fields.boolean("canvas"),
        alternatives=_alternatives(fields, chat),
        language=_language(fields),
    )
    if choice is not None:
        if asked.language is not None:
            other = asked.language.field.split(".")[0]
            raise Refused(f"{other} must not be given with tools that may be called: set tool_choice to \"none\"", other)
        asked.language = Language("tools", choice, "tools")
    if asked.alternatives is not None and asked.stream:
        raise Refused("logprobs must not be given with stream: they come with the whole answer", "logprobs")
    if asked.canvas and not asked.stream:
        raise Refused("canvas must be given with stream: its events are of a stream", "canvas")
    fields.finish(("messages" if chat else "prompt", param))
    return asked


@dataclasses.dataclass
class Decisions:
    """A request for decisions, checked."""

    layout: decisions.Layout
    passes: list[decisions.Pass]
    temperature: float


def read_decisions(body: dict[str, Any], batch: Batch) -> Decisions:
    """Checks a request for decisions. Raises Refused, which names the field, its value and the rule."""
    model, fields = batch.model, _Fields(body)
    _check_model(fields, model)
    if fields.has("messages") == fields.has("prompt"):
        raise Refused("messages or prompt must be given, and not both", "messages" if fields.has("messages") else "prompt")
    if fields.has("messages"):
        (prompt,) = _messages(fields.take("messages"), None, batch, "messages")
    else:
        prompts = _prompts(fields.take("prompt"), batch, "prompt")
        if len(prompts) > 1:
            raise Refused(f"prompt must be one prompt, got {len(prompts)}", "prompt")
        prompt = prompts[0]
    exact = fields.boolean("exact")
    temperature = fields.take("temperature")
    if temperature is not None and (type(temperature) not in (int, float) or not 1e-6 <= temperature <= 1e6):
        raise Refused(f"temperature must be a number in [1e-6, 1e6], got {_shown(temperature)}", "temperature")
    questions = fields.take("questions")
    fields.finish(("messages", "prompt", "questions", "exact", "temperature"))
    most = model.context - len(prompt)
    try:
        layout = decisions.Layout(prompt, decisions.questions_of(questions), lambda text: _encode_text(model, text, batch),
                                  mask_token=model.mask_token, eos_token=model.eos_token, vocab=model.vocab,
                                  logits_shift=model.logits_shift)
        if len(layout.tokens) - len(prompt) > most:
            raise Refused(f"questions must have at most {most} tokens, texts and options: the prompt has {len(prompt)} tokens and the "
                          f"model a context of {model.context}, got {len(layout.tokens) - len(prompt)}", "questions",
                          code="context_length_exceeded")
        return Decisions(layout, layout.passes(exact=exact), 1.0 if temperature is None else float(temperature))
    except RefusedAt as error:
        raise Refused(str(error), error.place) from None


def _check_model(fields: _Fields, model: Model) -> None:
    name = fields.text("model")
    if name != model.name:
        raise Refused(f"model must be {model.name!r}, got {_shown(name)}", "model", status=404, code="model_not_found")


def _encode_text(model: Model, text: str, batch: Batch) -> list[int]:
    """The tokens of a text inside a prompt."""
    if len(text) // batch.longest_token > model.context:  # no need to read it
        raise ValueError(f"the text has {len(text)} characters, more than the model's context of {model.context} tokens")
    encode = getattr(model, "encode_text", None)
    if encode is not None:
        return list(encode(text))
    before, tokens = list(model.encode("")), list(model.encode(text))
    return tokens[len(before):] if tokens[: len(before)] == before else tokens


def _no_room(tokens: int, model: Model, param: str, least: str = "") -> Refused:
    return Refused(f"{param} leaves no room: the prompt has {least}{tokens} tokens and the model a context of {model.context}; "
                   "shorten the prompt", param, code="context_length_exceeded")


def _setting(value: Any, name: str) -> Any:
    """A setting that with_parts() can check at no cost: it converts numbers and quotes values as they are."""
    for number in value.values() if name == "logit_bias" and isinstance(value, dict) else [value]:
        if value is not None and (not isinstance(number, (int, float)) or abs(number) > 1e30):
            kind = "an object of tokens and numbers" if name == "logit_bias" else "a number"
            raise Refused(f"{name} must be {kind}, at most 1e30 in size, got {_shown(value)}", name)
    return value


def _with_settings(policy: str, given: dict[str, Any], length: int, model: Model) -> tuple[str, Edits | None]:
    """The policy with the parts of settings, and the settings that change logits before it."""
    _settings.with_parts(policy, given, length=length, vocab=model.vocab)  # refuses what is no setting
    settings = {name: value for name, value in given.items() if name not in _EDITS}
    least = settings.pop("min_tokens") or 0
    text = _settings.with_parts(policy, settings, length=length, vocab=model.vocab)
    if least:  # before parts that store tokens
        text = f"min_new_tokens({least}) + {text}"
    edits = Edits(
        {int(token): float(bias) for token, bias in (given["logit_bias"] or {}).items()},
        **{field: float(value) for field, name in (
            ("repetition", "repetition_penalty"), ("frequency", "frequency_penalty"), ("presence", "presence_penalty"))
            if (value := given[name]) is not None},
        min_tokens=least,
    )
    return text, edits if edits.act() else None


class _Fields:
    """Takes fields out of a body; what is left at the end is refused."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._left = {key: value for key, value in body.items() if value is not None}
        self._known = {*_SAY_NOTHING}

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Any:
        self._known.add(name)
        return self._left.pop(name, None)

    def text(self, name: str, otherwise: str | None = None) -> str:
        value = self.take(name)
        if value is None and otherwise is not None:
            return otherwise
        if not isinstance(value, str):
            raise Refused(f"{name} must be a string, got {_shown(value)}", name)
        if not _is_unicode(value):
            raise Refused(f"{name} must be Unicode, got {_shown(value)}", name)
        return value

    def boolean(self, name: str) -> bool:
        value = self.take(name)
        if not isinstance(value, (bool, type(None))):
            raise Refused(f"{name} must be true or false, got {_shown(value)}", name)
        return bool(value)

    def integer(self, name: str, otherwise: int, least: int, most: int | None = None) -> int:
        value = self.take(name)
        if value is None:
            return otherwise
        if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
            bounds = f"at least {least}" if most is None else f"in [{least}, {most}]"
            raise Refused(f"{name} must be an integer, {bounds}, got {_shown(value)}", name)
        return value

    def finish(self, also: Sequence[str]) -> None:
        for name, value in self._left.items():
            if name in _SAY_NOTHING:
                continue
            if name in _REFUSED:
                if any(value is v or (type(value) is type(v) and value == v) for v in _NOT_ASKED):
                    continue
                raise Refused(f"{name} is not supported: {_REFUSED[name]}, got {_shown(value)}", name)
            near = difflib.get_close_matches(name, [*self._known, *also], 1)
            raise Refused(f"there is no field {_shown(name)}" + (f"; did you mean {near[0]}?" if near else ""), name)


def _messages(given: Any, choice: Choice | None, batch: Batch, param: str) -> list[list[int]]:
    if not isinstance(given, list) or not given:
        raise Refused(f"messages must be a list with at least one message, got {_shown(given)}", "messages")
    out = []
    calls: dict[str, None] = {}  # ids that the next messages have to answer
    for i, message in enumerate(given):
        where = f"messages[{i}]"
        if not isinstance(message, dict):
            raise Refused(f"{where} must be an object, got {_shown(message)}", where)
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise Refused(f"{where}.role must be system, developer, user, assistant or tool, got {_shown(role)}", f"{where}.role")
        if calls and role != "tool":
            raise Refused(f"{where} must have the role tool: the calls {_shown(list(calls))} of the message before have no result",
                          f"{where}.role")
        read: dict[str, Any] = {"role": role, "content": _content(message, role, where)}
        if role == "tool":
            call = message.get("tool_call_id")
            if not isinstance(call, str) or call not in calls:
                raise Refused(f"{where}.tool_call_id must be the id of a call of the assistant's message before that has no "
                              f"result yet, got {_shown(call)}", f"{where}.tool_call_id")
            del calls[call]
        elif role == "assistant":
            found = _calls(message.get("tool_calls"), f"{where}.tool_calls")
            read["calls"], calls = [call[1:] for call in found], {call[0]: None for call in found}
        _no_others(message, ("role", "content", "name", *(("tool_call_id",) if role == "tool" else ("tool_calls",) * (role == "assistant"))),
                   where, _OF_ANSWERS if role == "assistant" else ())
        out.append(read)
    if calls:
        raise Refused(f"messages must end with a result of each call, none found of {_shown(list(calls))}", "messages")
    texts = with_tools(out, () if choice is None else choice.tools, format_of(getattr(batch.model, "chat_template", None)))
    return [_encoded(batch.model.encode_chat, texts, "messages", sum(len(m["content"]) for m in texts), batch, param)]


def _content(message: dict[str, Any], role: str, where: str) -> str:
    content = message.get("content")
    if isinstance(content, list):
        for j, part in enumerate(content):
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise Refused(f"{where}.content[{j}] must be of type text, with a string, got {_shown(part)}",
                              f"{where}.content[{j}]")
            _no_others(part, ("type", "text"), f"{where}.content[{j}]", ("annotations",))
        content = "".join(part["text"] for part in content)
    if content is None and role == "assistant":
        content = ""
    if not isinstance(content, str):
        raise Refused(f"{where}.content must be a string, got {_shown(content)}", f"{where}.content")
    return content


def _calls(given: Any, where: str) -> list[tuple[str, str, str]]:
    """The id, the name and the arguments of each call of an assistant's message."""
    if given is None:
        return []
    if not isinstance(given, list):
        raise Refused(f"{where} must be a list, got {_shown(given)}", where)
    out: list[tuple[str, str, str]] = []
    for i, call in enumerate(given):
        at = f"{where}[{i}]"
        if not isinstance(call, dict) or call.get("type", "function") != "function" or not isinstance(call.get("function"), dict):
            raise Refused(f"{at} must be an object of type function, with the object function, got {_shown(call)}", at)
        function = call["function"]
        for value, name in ((call.get("id"), "id"), (function.get("name"), "function.name"),
                            (function.get("arguments"), "function.arguments")):
            if not isinstance(value, str):
                raise Refused(f"{at}.{name} must be a string, got {_shown(value)}", f"{at}.{name}")
        if any(call["id"] == other[0] for other in out):
            raise Refused(f"{at}.id must differ from those of other calls, got {_shown(call['id'])}", f"{at}.id")
        _function_name(function["name"], f"{at}.function.name")
        _no_others(call, ("id", "type", "function", "index"), at)
        _no_others(function, ("name", "arguments"), f"{at}.function", ("parsed_arguments",))
        out.append((call["id"], function["name"], function["arguments"]))
    return out


def _function_name(name: Any, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(f"{where} must be 1 to 64 letters, digits, _ and -, got {_shown(name)}", where)
    return name


def _tool_choice(fields: _Fields, model: Model) -> Choice | None:
    """The tools that an answer may call. None: it calls none."""
    given, choice, several = fields.take("tools"), fields.take("tool_choice"), fields.take("parallel_tool_calls")
    if not isinstance(several, (bool, type(None))):
        raise Refused(f"parallel_tool_calls must be true or false, got {_shown(several)}", "parallel_tool_calls")
    if given is None:
        given = []
    if not isinstance(given, list) or len(given) > MOST_TOOLS:
        raise Refused(f"tools must be a list, at most {MOST_TOOLS} of them, got {_shown(given)}", "tools")
    tools: dict[str, tuple[Tool, str]] = {}
    for i, tool in enumerate(given):
        read = _tool(tool, f"tools[{i}]")
        if read.name in tools:
            raise Refused(f"tools[{i}].function.name must differ from those of other tools, got {_shown(read.name)}",
                          f"tools[{i}].function.name")
        tools[read.name] = read, f"tools[{i}].function.parameters"
    names, must = _chosen(choice, tools)
    if not names:
        return None
    return Choice(tuple(tools[name][0] for name in names), tuple(tools[name][1] for name in names), must, several is not False,
                  format_of(getattr(model, "chat_template", None)))


def _tool(given: Any, where: str) -> Tool:
    if not isinstance(given, dict) or given.get("type") != "function" or not isinstance(given.get("function"), dict):
        raise Refused(f"{where} must be an object of type function, with the object function, got {_shown(given)}", where)
    function = given["function"]
    name = _function_name(function.get("name"), f"{where}.function.name")
    about, schema = function.get("description"), function.get("parameters")
    if not isinstance(about, (str, type(None))):
        raise Refused(f"{where}.function.description must be a string, got {_shown(about)}", f"{where}.function.description")
    if not isinstance(function.get("strict"), (bool, type(None))):  # arguments obey their schema either way
        raise Refused(f"{where}.function.strict must be true or false, got {_shown(function['strict'])}", f"{where}.function.strict")
    if schema is None:
        schema = _NOTHING
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refused(f"{where}.function.parameters must be a schema of type object, got {_shown(schema)}",
                      f"{where}.function.parameters")
    _no_others(given, ("type", "function"), where)
    _no_others(function, ("name", "description", "parameters", "strict"), f"{where}.function")
    return Tool(name, about, schema)


def _chosen(choice: Any, tools: dict[str, Any]) -> tuple[list[str], bool]:
    """The names of the tools that may be called, and whether one must be."""
    if choice in (None, "none", "auto", "required"):
        if choice == "required" and not tools:
            raise Refused("tool_choice must be none or auto without tools, got \"required\"", "tool_choice")
        return ([] if choice == "none" else list(tools)), choice == "required"

    def known(given: Any, where: str) -> str:
        name = given.get("function", {}).get("name") if isinstance(given, dict) and isinstance(given.get("function"), dict) else None
        if not isinstance(name, str) or name not in tools:
            raise Refused(f"{where} must have the name of one of tools as function.name, got {_shown(given)}", where)
        return name

    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind == "function":
        return [known(choice, "tool_choice")], True
    allowed = choice.get("allowed_tools") if kind == "allowed_tools" else None
    if not isinstance(allowed, dict) or allowed.get("mode") not in ("auto", "required") or not isinstance(allowed.get("tools"), list):
        raise Refused("tool_choice must be none, auto, required, or an object of type function or allowed_tools, "
                      f"got {_shown(choice)}", "tool_choice")
    names = [known(tool, f"tool_choice.allowed_tools.tools[{i}]") for i, tool in enumerate(allowed["tools"])]
    if not names and allowed["mode"] == "required":
        raise Refused("tool_choice.allowed_tools.tools must have at least one tool, got []", "tool_choice.allowed_tools.tools")
    return list(dict.fromkeys(names)), allowed["mode"] == "required"


def _no_others(given: dict[str, Any], known: Sequence[str], where: str, may_be_empty: Sequence[str] = ()) -> None:
    """Refuses what would be ignored; null asks for nothing."""
    for name, value in given.items():
        if name not in known and value is not None and not (name in may_be_empty and value in ("", [])):
            raise Refused(f"{where}.{_sent(name, MOST_NAME)} is not supported, got {_shown(value)}", f"{where}.{name}")


def _prompts(given: Any, batch: Batch, param: str) -> list[list[int]]:
    model = batch.model

    def is_tokens(value: Any) -> bool:
        return isinstance(value, list) and bool(value) and all(type(t) is int for t in value)

    several = given if isinstance(given, list) and not is_tokens(given) else [given]
    if not 1 <= len(several) <= MOST_CHOICES or not all(isinstance(p, str) or is_tokens(p) for p in several):
        raise Refused(f"prompt must be a string or a list of tokens, or a list with 1 to {MOST_CHOICES} of them, "
                      f"got {_shown(given)}", "prompt")
    out = []
    for prompt in several:
        if isinstance(prompt, str):
            out.append(_encoded(model.encode, prompt, "prompt", len(prompt), batch, param))
            continue
        if wrong := [t for t in prompt if not 0 <= t < model.vocab]:
            raise Refused(f"prompt must have tokens in [0, {model.vocab}), got {_shown(wrong[0])}", "prompt")
        out.append(prompt)
    return out


def _encoded(encode: Any, given: Any, field: str, characters: int, batch: Batch, param: str) -> list[int]:
    if (least := characters // batch.longest_token) > batch.model.context:  # no need to read it
        raise _no_room(least, batch.model, param, "at least ")
    try:
        tokens = list(encode(given))
    except ValueError as error:
        raise Refused(f"{field}: {error}", field) from None
    except Exception:
        if _is_unicode(given):
            raise
    if not _is_unicode(given):
        raise Refused(f"{field} must be Unicode, got a surrogate without its other half", field)
    return tokens


def _stops(given: Any) -> list[str]:
    stops = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or len(stops) > MOST_STOPS or not all(isinstance(s, str) and s for s in stops):
        raise Refused(f"stop must be a string, or a list with at most {MOST_STOPS}, none of them empty, got {_shown(given)}",
                      "stop")
    if (longest := max(map(len, stops), default=0)) > MOST_STOP:
        raise Refused(f"stop must have at most {MOST_STOP} characters, got {longest}", "stop")
    return stops


def _stream_options(given: Any) -> bool:
    options = {} if given is None else given
    if not isinstance(options, dict) or set(options) - {"include_usage"} or not isinstance(
            options.get("include_usage", False), bool):
        raise Refused(f"stream_options must be an object with include_usage, true or false, got {_shown(given)}",
                      "stream_options")
    return bool(options.get("include_usage", False))


def _alternatives(fields: _Fields, chat: bool) -> int | None:
    """`logprobs` and `top_logprobs` of a chat, or the number that `logprobs` is otherwise."""
    if not chat:
        return fields.integer("logprobs", 0, 0, MOST_ALTERNATIVES) if fields.has("logprobs") else None
    wanted = fields.boolean("logprobs")
    if fields.has("top_logprobs") and not wanted:
        raise Refused("top_logprobs must be given with logprobs=true", "top_logprobs")
    count = fields.integer("top_logprobs", 0, 0, MOST_ALTERNATIVES)
    return count if wanted else None


# Fields of other servers that say what an answer is, and their kinds.
_LANGUAGES = {
    "regex": "regex",  # of SGLang
    "ebnf": "grammar",
    "grammar": "grammar",  # of llama.cpp
    "json_schema": "json",
    "guided_json": "json",  # of older versions of vLLM
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
}


def _language(fields: _Fields) -> Language | None:
    """The field that says what the answer is; None: any text."""
    formatted, structured = _response_format(fields.take("response_format")), _structured(fields.take("structured_outputs"))
    given = [language for language in (formatted, structured) if language is not None]
    given += [Language(kind, fields.take(name), name) for name, kind in _LANGUAGES.items() if fields.has(name)]
    if len(given) > 1:
        first, second = (language.field.split(".")[0] for language in given[:2])
        raise Refused(f"{second} must not be given with {first}: both say what the answer is", second)
    for language in given:
        _check_language(language)
    return given[0] if given else None


def _check_language(language: Language) -> None:
    kind, value, field = language.kind, language.of, language.field
    if kind in ("regex", "grammar"):
        if not isinstance(value, str):
            raise Refused(f"{field} must be a string, got {_shown(value)}", field)
        if len(value) > MOST_TEXT:
            raise Refused(f"{field} must have at most {MOST_TEXT} characters, got {len(value)}", field)
    elif kind == "choice":
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise Refused(f"{field} must be a list of strings, at least one, got {_shown(value)}", field)
        if (size := sum(len(v.encode()) for v in value)) > MOST_CHOICE:
            raise Refused(f"{field} must have at most {MOST_CHOICE} bytes together, got {size}", field)
    elif kind == "json_object" and field == "structured_outputs.json_object" and value is not True:
        raise Refused(f"{field} must be true, got {_shown(value)}", field)
    elif kind in ("json", "structural_tag") and not isinstance(value, (dict, str)):
        raise Refused(f"{field} must be an object, or its JSON as a string, got {_shown(value)}", field)


def _response_format(given: Any) -> Language | None:
    """That of OpenAI, and of SGLang and vLLM."""
    kind = "text" if given is None else given.get("type") if isinstance(given, dict) else None
    if kind not in ("text", "json_object", "json_schema", "structural_tag"):
        raise Refused("response_format must be an object of type text, json_object, json_schema or structural_tag, "
                      f"got {_shown(given)}", "response_format")
    if kind == "structural_tag":
        return Language(kind, given, "response_format")
    if kind != "json_schema":
        return None if kind == "text" else Language(kind, None, "response_format")
    schema = given.get("json_schema")
    schema = schema.get("schema") if isinstance(schema, dict) else None
    if not isinstance(schema, dict):
        raise Refused(f"response_format.json_schema.schema must be an object, got {_shown(schema)}",
                      "response_format.json_schema.schema")
    return Language("json", schema, "response_format")


def _structured(given: Any) -> Language | None:
    """`structured_outputs` of vLLM."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise Refused(f"structured_outputs must be an object, got {_shown(given)}", "structured_outputs")
    asked = {name: value for name, value in given.items() if value not in (None, False)}
    if len(asked) != 1 or not set(asked) <= set(constraints.KINDS):
        raise Refused(f"structured_outputs must have one of {', '.join(constraints.KINDS)}, and no other, got {_shown(given)}",
                      "structured_outputs")
    (kind, value), = asked.items()
    return Language(kind, value, f"structured_outputs.{kind}")


def _sent(text: str, most: int) -> str:
    """A text that UTF-8 can have, cut."""
    text = text if len(text) <= most else text[: most - 3] + "..."
    return text.encode("utf-8", "backslashreplace").decode()


def _is_unicode(value: Any) -> bool:
    """Whether no string in a value of JSON has a surrogate without its other half."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except RecursionError:
        raise Refused("the body is nested too deep") from None
    return True


def _shown(value: Any) -> str:
    """A value in a message: as JSON, cut. Reads no more of it than is shown."""
    shown = ""
    for piece in _pieces(value):
        shown += piece
        if len(shown) > 100:
            return shown[:97] + "..."
    return shown


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield json.dumps(value[:101])
    elif isinstance(value, (list, dict)):
        begin, end = "[]" if isinstance(value, list) else "{}"
        yield begin
        for i, member in enumerate(value):
            yield ", " * (i > 0)
            yield from _pieces(member)
            if isinstance(value, dict):
                yield ": "
                yield from _pieces(value[member])
        yield end
    else:
        yield json.dumps(value)
