# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tools of chats: OpenAI's client against the server, calls in their formats, and what is refused."""
import json
import time
import types

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason='pip install "unmask[server]"')
openai = pytest.importorskip("openai")
httpx = pytest.importorskip("httpx")
jsonschema = pytest.importorskip("jsonschema")

from test_serve import Slow, serving  # noqa: E402
from unmask import constraints  # noqa: E402
from unmask.serve import Tiny, tools  # noqa: E402

PERSON = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"], "additionalProperties": False}
CITY = {"type": "object", "properties": {"city": {"type": "string", "pattern": "^[a-z]{1,6}$"}, "unit": {"enum": ["C", "F"]}},
        "required": ["city"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": name, "description": f"is {name}", "parameters": schema}}
         for name, schema in (("get", PERSON), ("getx", CITY))]
USER = [{"role": "user", "content": "J:age 73"}]
CHAT = "/v1/chat/completions"
HERMES, NEMOTRON, LLAMA = (
    "{%- if tools %}<tool_call>\\n{\\\"name\\\": <function-name>, \\\"arguments\\\": <args-json-object>}\\n</tool_call>{%- endif %}",
    "{{- '<TOOLCALL>[' -}}", "'Respond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its value}. '")
FORMATS = {None: tools.PLAIN, HERMES: tools.HERMES, NEMOTRON: tools.NEMOTRON, LLAMA: tools.LLAMA, "no tools": tools.HERMES}


class Bytes:
    """A model with a token for each byte, and random logits. `says` raises those of a text by `weight`."""

    name, vocab, mask_token, eos_token, also_eos, logits_shift = "bytes", 258, 256, 257, (), 0
    context, answer_length, block_length = 4000, 320, 320
    token_bytes = [bytes([b]) for b in range(256)] + [b"", b""]

    def __init__(self, says="", template=None, weight=30.0):
        self.says, self.chat_template, self.weight, self.asked = says.encode(), template, weight, None

    def encode(self, text):
        return list(text.encode())

    def encode_chat(self, messages):
        self.asked = messages
        return self.encode(messages[-1]["content"])

    def forward(self, sequences, rows):
        out = []
        for tokens, r in zip(sequences, rows):
            first = len(tokens) - self.length
            logits = np.random.default_rng(len(self.says)).normal(0, 3, (r.stop - r.start, 258)).astype(np.float32)
            logits[:, 127:256] = -40
            for i, p in enumerate(range(r.start, r.stop)):
                if p >= first:
                    logits[i, self.says[p - first] if p - first < len(self.says) else 257] += self.weight
            out.append(logits)
        return out

    length = 320


def asked(made, **fields):
    model = made.model.name
    return made.client.chat.completions.create(model=model, messages=fields.pop("messages", USER), **{"tools": TOOLS, **fields})


def written(form, *calls):
    return form.written(calls)


CALLS = [("get", '{"age": 3}'), ("getx", '{"city":"rome", "unit": "C"}'), ("get", '{ "age":-12 }')]


@pytest.mark.parametrize("template", FORMATS)
def test_calls_stand_in_the_format_of_the_chat_template(template):
    form = FORMATS[template]
    assert tools.format_of(template) is form
    calls = CALLS if form.several else CALLS[1:2]
    text = "" if form.alone else "I look."
    with serving(Bytes(text + form.after_text * bool(text) + written(form, *calls), template)) as made:
        answer = asked(made).choices[0]
        assert answer.finish_reason == "tool_calls"
        assert (answer.message.content or "").strip() == text
        assert [(c.function.name, c.function.arguments) for c in answer.message.tool_calls] == calls
        assert len({c.id for c in answer.message.tool_calls}) == len(calls)
        assert all(c.type == "function" and c.id.startswith("call_") for c in answer.message.tool_calls)
        one = asked(made, parallel_tool_calls=False).choices[0]
        assert [c.function.name for c in one.message.tool_calls] == [calls[0][0]]


@pytest.mark.parametrize("template", FORMATS)
@pytest.mark.parametrize("choice", ["required", "auto", {"type": "function", "function": {"name": "getx"}},
                                    {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOLS[0]]}}])
def test_arguments_obey_their_schema_whatever_the_model_says(template, choice):
    """Random logits: with `required` and a name there is always a call, and its arguments are valid."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    seen = set()
    for policy in ("threshold(0.9)", "at_random + tokens_per_step(7)"):
        with serving(Bytes("x" * len(policy), template, weight=1.0)) as made:
            for choices in asked(made, tool_choice=choice, n=3, seed=4, extra_body={"policy": policy}).choices:
                calls = choices.message.tool_calls or []
                for call in calls:
                    jsonschema.validate(json.loads(call.function.arguments), schemas[call.function.name])
                    seen.add(call.function.name)
                if choice != "auto":
                    assert calls and choices.finish_reason == "tool_calls" and choices.message.content is None
                elif not calls:
                    assert choices.finish_reason in ("stop", "length")
    if isinstance(choice, dict):
        assert seen == {"getx" if choice["type"] == "function" else "get"}


def test_the_tiny_model_calls_a_tool():
    with serving() as made:
        answer = asked(made, tool_choice="required", max_tokens=120).choices[0]
        call = answer.message.tool_calls[0]
        assert answer.finish_reason == "tool_calls" and answer.message.content is None
        jsonschema.validate(json.loads(call.function.arguments), PERSON if call.function.name == "get" else CITY)
        result = {"role": "tool", "tool_call_id": call.id, "content": "Q:Ora has 2 books. Buys 8. How many?"}
        again = asked(made, messages=[*USER, answer.message, result], tools=openai.omit).choices[0]
        assert again.finish_reason == "stop" and again.message.tool_calls is None
        short = httpx.post(made.url + CHAT, json={"model": "tiny", "messages": USER, "tools": TOOLS, "tool_choice": "required"})
        assert short.status_code == 400 and short.json()["error"]["param"] == "max_tokens"
        assert "max_tokens must be at least 62, the fewest tokens of a call, got 40" in short.json()["error"]["message"]
        none = asked(made, tool_choice="none").choices[0]
        plain = asked(made, tools=openai.omit).choices[0]
        assert none.message.content == plain.message.content and none.finish_reason == "stop" and none.message.tool_calls is None


@pytest.mark.parametrize("template", FORMATS)
@pytest.mark.parametrize("policy", ["left_to_right + tokens_per_step(1)", "at_random + tokens_per_step(11)", "threshold(0.9)",
                                    "threshold(0.9) + edit_committed"])
def test_a_stream_has_the_calls_of_the_whole_answer(template, policy):
    form = FORMATS[template]
    calls = CALLS if form.several else CALLS[:1]
    text = "" if form.alone else "a < b <tool <TOOL"
    with serving(Bytes(text + written(form, *calls), template)) as made:
        whole = asked(made, extra_body={"policy": policy}).choices[0]
        assert len(whole.message.tool_calls) == len(calls)
        content, found, reasons = "", [], []
        for chunk in asked(made, stream=True, extra_body={"policy": policy}):
            (choice,) = chunk.choices
            content += choice.delta.content or ""
            for delta in choice.delta.tool_calls or []:
                if delta.index == len(found):  # the first one of a call has its id and its name, the others have arguments
                    assert delta.id and delta.type == "function" and delta.function.name
                    found.append([delta.id, delta.function.name, delta.function.arguments])
                else:
                    assert delta.index == len(found) - 1 and delta.id is None and delta.function.name is None
                    found[-1][2] += delta.function.arguments
            reasons.append(choice.finish_reason)
        assert [(name, arguments) for _, name, arguments in found] == calls and content == (whole.message.content or "")
        assert reasons == [None] * (len(reasons) - 1) + ["tool_calls"] and len({i for i, _, _ in found}) == len(calls)
        with made.client.chat.completions.stream(  # which OpenAI's helper puts together
                model="bytes", messages=USER, tools=TOOLS, extra_body={"policy": policy}) as stream:
            final = stream.get_final_completion().choices[0]
        assert [(c.function.name, c.function.arguments) for c in final.message.tool_calls] == calls


def test_arguments_are_streamed_as_they_are_known():
    form = tools.PLAIN
    with serving(type("SlowBytes", (Bytes,), {"forward": lambda s, *a: (time.sleep(0.01), Bytes.forward(s, *a))[1]})(
            written(form, CALLS[1]))) as made:
        chunks = list(asked(made, stream=True, extra_body={"policy": "left_to_right + tokens_per_step(1)"}))
        pieces = [d for c in chunks for d in c.choices[0].delta.tool_calls or []]
        assert len(pieces) > 5


def test_text_without_a_call_is_an_answer():
    for template, form in FORMATS.items():
        with serving(Bytes("no call", template)) as made:
            answer = asked(made).choices[0]
            assert (answer.message.content, answer.finish_reason, answer.message.tool_calls) == ("no call", "stop", None)
        with serving(Bytes(form.trigger + "!", template)) as made:  # a trigger begins nothing but a call
            answer = asked(made).choices[0]
            assert answer.message.tool_calls or form.trigger not in answer.message.content


def test_a_call_that_is_cut_has_the_reason_length():
    with serving(Bytes(written(tools.PLAIN, CALLS[1]))) as made:
        answer = asked(made, tool_choice="required",
                       extra_body={"policy": "left_to_right + tokens_per_step(1) + max_steps(9)"}).choices[0]
        assert answer.finish_reason == "length"
        (call,) = answer.message.tool_calls
        assert call.function.name == "getx" and CALLS[1][1].startswith(call.function.arguments) and call.function.arguments != CALLS[1][1]


@pytest.mark.parametrize("template", FORMATS)
def test_a_history_of_calls_is_written_as_the_model_wrote_it(template):
    form = FORMATS[template]
    history = [
        {"role": "system", "content": "Be brief."}, *USER,
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(CALLS)]},
        *({"role": "tool", "tool_call_id": f"c{i}", "content": f"result {i}"} for i in (1, 0, 2)),
        {"role": "assistant", "content": "So.", "tool_calls": [
            {"id": "c9", "type": "function", "function": {"name": "get", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c9", "content": [{"type": "text", "text": "last"}]},
    ]
    with serving(Bytes("x", template)) as made:
        asked(made, messages=history)
    seen = made.model.asked
    assert all(set(m) == {"role", "content"} and isinstance(m["content"], str) for m in seen)
    said = [m["content"] for m in seen if m["role"] == "assistant"]
    assert said == [written(form, *CALLS), "So." + form.after_text + written(form, ("get", "{}"))]
    results = "\n".join(m["content"] for m in seen[3:] if m["role"] != "assistant")
    places = [results.index(text) for text in ("result 1", "result 0", "result 2", "last")]
    assert places == sorted(places)
    if form is not tools.PLAIN:
        about = "\n".join(m["content"] for m in seen[:2])
        assert all(f'"name": "{t["function"]["name"]}"' in about and t["function"]["description"] in about for t in TOOLS)
        assert "Be brief." in seen[0]["content"] and USER[0]["content"] in seen[1]["content"]
    else:
        assert seen[0]["content"] == "Be brief." and "is get" not in str(seen)


def hermes_of(messages, given):
    """The turns of Qwen's template: what with_tools() has to make of messages."""
    out = "system\n" + (messages[0]["content"] + "\n\n" if messages[0]["role"] == "system" else "")
    out += ("# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures "
            "within <tools></tools> XML tags:\n<tools>" + "".join("\n" + json.dumps(tool) for tool in given) + "\n</tools>\n\nFor each "
            "function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n"
            '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>;')
    for i, message in enumerate(messages):
        if message["role"] == "user":
            out += f"user\n{message['content']};"
        elif message["role"] == "assistant":
            out += "assistant\n" + message["content"]
            for j, (name, arguments) in enumerate(message.get("calls", ())):
                out += "\n" * bool(message["content"] or j) + f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
            out += ";"
        elif message["role"] == "tool":
            out += "user" * (messages[i - 1]["role"] != "tool") + f"\n<tool_response>\n{message['content']}\n</tool_response>"
            out += ";" * (i + 1 == len(messages) or messages[i + 1]["role"] != "tool")
    return out


def test_a_prompt_with_tools_is_that_of_qwen():
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                {"role": "assistant", "content": "", "calls": CALLS[:2]}, {"role": "tool", "content": "one"},
                {"role": "tool", "content": "two"}, {"role": "assistant", "content": "T", "calls": CALLS[:1]},
                {"role": "tool", "content": "three"}, {"role": "user", "content": "V"}]
    given = [tools.Tool(t["function"]["name"], t["function"]["description"], t["function"]["parameters"]) for t in TOOLS]
    for part in (messages, messages[1:]):
        made = tools.with_tools(part, given, tools.HERMES)
        assert "".join(f"{m['role']}\n{m['content']};" for m in made) == hermes_of(part, TOOLS)


def whole(form, text):
    calls = tools.Calls(form)
    calls.read(text, last=True)
    return calls.content, [(c.name, c.arguments, c.ended) for c in calls.calls]


@pytest.mark.parametrize("form", FORMATS.values(), ids=range(len(FORMATS)))
def test_a_text_is_read_alike_however_it_is_cut(form):
    random = np.random.default_rng(0)
    hard = [("f", '{"a": "}]\\"{", "b": [{"c": "\\\\"}, []]}'), ("g-_9", "{}")]
    texts = ["", "x", form.trigger[:-1], "a" + form.trigger[:-1] + "b", "<<" + form.trigger[:3]]
    for text in texts:
        calls = hard if form.several else hard[:1]
        for written_calls in ([], calls):
            if form.alone and text and written_calls:
                continue
            answer = text + (form.written(written_calls) if written_calls else "")
            expected = (text, [(name, arguments, True) for name, arguments in written_calls])
            assert whole(form, answer) == expected
            for _ in range(20):
                reader, seen, at = tools.Calls(form), "", 0
                while at < len(answer):
                    cut = at + int(random.integers(1, 9))
                    reader.read(answer[at:cut], last=cut >= len(answer))
                    at = cut
                    assert expected[0].startswith(reader.content) and reader.content.startswith(seen)
                    seen = reader.content
                assert (reader.content, [(c.name, c.arguments, c.ended) for c in reader.calls]) == expected


def test_hostile_texts_take_linear_time():
    begin = time.perf_counter()
    for form in FORMATS.values():
        for text in ("<" * 200_000, form.trigger * 20_000, form.opening + form.begin * 20_000,
                     form.written([("f", '{"a":' * 50_000)]), form.trigger + "x" * 200_000):
            reader = tools.Calls(form)
            for at in range(0, len(text), 1000):
                reader.read(text[at : at + 1000])
    assert time.perf_counter() - begin < 20


def in_language(form, names, must, text):
    """A naive reader: whether a text is free text and calls. Contents are digits."""
    def from_tag(rest):  # at a tag, the opening read
        for name in names:
            begin = form.begin + name + form.middle
            if rest.startswith(begin):
                rest_of = rest[len(begin):]
                for i in (i for i in range(1, len(rest_of) + 1) if rest_of[:i].isdigit()):
                    left = rest_of[i:]
                    if left.startswith(form.end) and after(left[len(form.end):]):
                        return True
        return False

    def after(rest):
        return rest == form.closing or (form.several and rest.startswith(form.between) and from_tag(rest[len(form.between):]))

    def calls(rest):
        return rest.startswith(form.opening) and from_tag(rest[len(form.opening):])

    if must:
        return calls(text)
    if form.alone:
        return calls(text) or not text.startswith(form.trigger)
    return any(form.trigger not in text[:i] and (i == len(text) or calls(text[i:])) for i in range(len(text) + 1))


FORMS = [
    tools.Format("<a", ">", "</a>", "<a", between=""),
    tools.Format("<a", ">", "]", "<a", several=False),
    tools.Format("a", "", "b", "a", between=","),
    tools.Format("a", "b", "b", "<a", opening="<", between=",", closing=">"),
    tools.Format("aa", "", "a", "aa", between=""),
    tools.Format("a", "<", ">", "a<", between="b", several=False, alone=True),
    tools.Format("<é", ">", "é", "<é", between="é", alone=True),
]


@pytest.mark.parametrize("must", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_languages_of_calls_are_those_of_a_naive_reader(form, must):
    words = constraints.vocabulary(token_bytes=[bytes([b]) for b in range(256)] + [b"", b""], mask_token=256, eos_token=257)
    schema = {"type": "integer", "minimum": 0, "maximum": 99}
    names = ["", "b"]
    given = tuple(tools.Tool(name, None, schema) for name in names)
    made = tools.Choice(given, ("x", "y"), must, True, form).language(words)
    random = np.random.default_rng(1)
    pieces = ["<", "a", "b", ">", "]", ",", "1", "7", "x", "aa", "ab", "é", form.opening, form.closing, form.trigger]
    pieces += [form.written([(name, content)]) for name in names for content in "17"]
    pieces += [form.written([("", "1"), ("b", "7")]), form.between, form.written([("b", "7")]).removeprefix(form.opening)]
    found = [0, 0]
    for _ in range(4000):
        text = "".join(random.choice(pieces, random.integers(0, 5)))
        if "11" in text or "17" in text or "71" in text or "77" in text:
            continue  # digits of contents: a number has no leading zero, and at most two of them
        expected = in_language(form, names, must, text)
        assert made.accepts(list(text.encode())) == expected, text
        found[expected] += 1
    assert min(found) > 10


def test_a_language_of_calls_is_compiled_once(monkeypatch):
    made = []
    compiled = constraints.Language.structural_tag
    counting = types.SimpleNamespace(structural_tag=lambda *a, **k: made.append(a) or compiled(*a, **k))
    monkeypatch.setattr(constraints, "Language", counting)
    with serving(Bytes("x")) as server:
        for _ in range(3):
            asked(server)
        assert len(made) == 1
        asked(server, tool_choice="required")
        assert len(made) == 2


CALL = {"id": "c", "type": "function", "function": {"name": "get", "arguments": "{}"}}
ASKED = {"role": "assistant", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "x"}


def function(**members):
    return [{"type": "function", "function": {"name": "f", **members}}]


@pytest.mark.parametrize("change, param, message", [
    ({"tools": {}}, "tools", "tools must be a list, at most 128 of them, got {}"),
    ({"tools": TOOLS * 65}, "tools", "at most 128 of them"),
    ({"tools": [1]}, "tools[0]", "tools[0] must be an object of type function"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]", "tools[0] must be an object of type function"),
    ({"tools": function(name="a b")}, "tools[0].function.name", "must be 1 to 64 letters, digits, _ and -, got \"a b\""),
    ({"tools": function(name="a" * 65)}, "tools[0].function.name", "1 to 64 letters"),
    ({"tools": function(name=None)}, "tools[0].function.name", "got null"),
    ({"tools": TOOLS + TOOLS[:1]}, "tools[2].function.name", "must differ from those of other tools, got \"get\""),
    ({"tools": function(description=1)}, "tools[0].function.description", "must be a string, got 1"),
    ({"tools": function(strict="yes")}, "tools[0].function.strict", "must be true or false"),
    ({"tools": function(parameters=[])}, "tools[0].function.parameters", "must be a schema of type object, got []"),
    ({"tools": function(parameters={"type": "array"})}, "tools[0].function.parameters", "must be a schema of type object"),
    ({"tools": function(returns={})}, "tools[0].function.returns", "tools[0].function.returns is not supported"),
    ({"tools": TOOLS + function(parameters={"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}})},
     "tools[2].function.parameters", "/properties/a/uniqueItems: is kept for items of at most 10 constants"),
    ({"tools": function(name="\ud800")}, "tools[0].function.name", "1 to 64 letters"),
    ({"tools": function(description="\ud800")}, "tools", "tools must be Unicode"),
    ({"tool_choice": "any"}, "tool_choice", "tool_choice must be none, auto, required, or an object"),
    ({"tool_choice": {"type": "none"}}, "tool_choice", "tool_choice must be none, auto, required, or an object"),
    ({"tool_choice": "required", "tools": []}, "tool_choice", "tool_choice must be none or auto without tools, got \"required\""),
    ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice", "must have the name of one of tools"),
    ({"tool_choice": {"type": "function"}}, "tool_choice", "must have the name of one of tools"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "any", "tools": []}}}, "tool_choice", "tool_choice must be"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}},
     "tool_choice.allowed_tools.tools", "at least one tool"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{}]}}},
     "tool_choice.allowed_tools.tools[0]", "must have the name of one of tools"),
    ({"parallel_tool_calls": 2}, "parallel_tool_calls", "must be true or false, got 2"),
    ({"regex": "a"}, "regex", "regex must not be given with tools that may be called"),
    ({"response_format": {"type": "json_object"}}, "response_format", "must not be given with tools that may be called"),
    ({"functions": [{}]}, "functions", "use tools"),
    ({"messages": [*USER, RESULT]}, "messages[1].tool_call_id", "must be the id of a call of the assistant's message before"),
    ({"messages": [*USER, ASKED]}, "messages", "must end with a result of each call, none found of [\"c\"]"),
    ({"messages": [*USER, ASKED, USER[0]]}, "messages[2].role", "messages[2] must have the role tool"),
    ({"messages": [*USER, ASKED, RESULT, RESULT]}, "messages[3].tool_call_id", "that has no result yet, got \"c\""),
    ({"messages": [*USER, ASKED, {**RESULT, "tool_call_id": None}]}, "messages[2].tool_call_id", "got null"),
    ({"messages": [*USER, ASKED, {**RESULT, "content": None}]}, "messages[2].content", "must be a string, got null"),
    ({"messages": [*USER, {**ASKED, "tool_calls": {}}]}, "messages[1].tool_calls", "must be a list, got {}"),
    ({"messages": [*USER, {**ASKED, "tool_calls": [CALL, CALL]}]}, "messages[1].tool_calls[1].id", "must differ"),
    ({"messages": [*USER, {**ASKED, "tool_calls": [{**CALL, "type": "custom"}]}]}, "messages[1].tool_calls[0]", "of type function"),
    ({"messages": [*USER, {**ASKED, "tool_calls": [{**CALL, "id": 1}]}]}, "messages[1].tool_calls[0].id", "must be a string, got 1"),
    ({"messages": [*USER, {**ASKED, "tool_calls": [{**CALL, "function": {"name": "get", "arguments": {}}}]}]},
     "messages[1].tool_calls[0].function.arguments", "must be a string, got {}"),
    ({"messages": [{"role": "function", "name": "f", "content": "x"}]}, "messages[0].role", "got \"function\""),
])
def test_bad_tools_are_refused(refusing, change, param, message):
    body = {"model": "bytes", "messages": USER, "tools": TOOLS, **change}
    answer = httpx.post(refusing.url + CHAT, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["param"] == param and message in error["message"], error
    assert len(answer.content) < 1500


@pytest.fixture(scope="module")
def refusing():
    with serving(Bytes("x")) as made:
        yield made


def test_tools_are_of_chats(refusing):
    with pytest.raises(openai.BadRequestError, match="tools is not supported: tools are of a chat"):
        refusing.client.completions.create(model="bytes", prompt="x", extra_body={"tools": TOOLS})


def test_tools_without_parameters_take_an_empty_object():
    with serving(Bytes(written(tools.PLAIN, ("f", "{}")))) as made:
        (call,) = asked(made, tools=function()).choices[0].message.tool_calls
        assert (call.function.name, call.function.arguments) == ("f", "{}")


def test_a_stop_text_ends_an_answer_before_its_calls():
    with serving(Bytes("ab " + written(tools.PLAIN, CALLS[0]))) as made:
        answer = asked(made, stop=["b"]).choices[0]
        assert (answer.message.content, answer.finish_reason, answer.message.tool_calls) == ("a", "stop", None)


def test_log_probabilities_and_the_canvas_have_the_whole_text():
    text = written(tools.PLAIN, CALLS[0])
    with serving(Bytes(text)) as made:
        answer = asked(made, logprobs=True).choices[0]
        assert "".join(c.token for c in answer.logprobs.content) in text  # tokens that are certain have no row
        events = list(asked(made, stream=True, extra_body={"canvas": True}))
        shown = [e for e in events if e.object == "unmask.canvas"][-1]
        assert "".join(t for t in shown.tokens if t).startswith(text)


def test_the_slow_model_streams_text_in_front_of_nothing():
    """Text that could begin a call waits until it cannot."""
    with serving(Slow()) as made:
        chunks = list(made.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Q:Ora has 2 books. Buys 8. How many?"}], tools=TOOLS, stream=True,
            max_tokens=70, extra_body={"policy": "left_to_right + tokens_per_step(1)"}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks)
    with serving(Tiny()) as made:
        assert text == asked(made, messages=[{"role": "user", "content": "Q:Ora has 2 books. Buys 8. How many?"}], max_tokens=70,
                             extra_body={"policy": "left_to_right + tokens_per_step(1)"}).choices[0].message.content
