# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The server: OpenAI's client against it, and what a server has to stand."""
import asyncio
import concurrent.futures
import contextlib
import json
import math
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import unmask.tiny_llada
from unmask.tiny_llada import TinyLlada, decode, problems

uvicorn = pytest.importorskip("uvicorn", reason='pip install "unmask[server]"')
openai = pytest.importorskip("openai")
httpx = pytest.importorskip("httpx")

from unmask.serve import Limits, Server, Tiny, load  # noqa: E402
from unmask.serve.batch import Batch, Job  # noqa: E402

PROMPT = "Q:Ora has 2 books. Buys 8. How many?"
PERSON = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


@contextlib.contextmanager
def serving(model=None, **options):
    """A server in a thread, over sockets."""
    server = Server(model or Tiny(), **options)
    listening = socket.create_server(("127.0.0.1", 0))
    runner = uvicorn.Server(uvicorn.Config(server.app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=runner.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not runner.started:
        time.sleep(0.01)
    server.address = listening.getsockname()
    server.url = "http://127.0.0.1:%d" % server.address[1]
    server.client = openai.OpenAI(base_url=server.url + "/v1", api_key=options.get("api_key") or "none", max_retries=0)
    try:
        yield server
    finally:
        runner.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def server():
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def slow():
    with serving(Slow()) as made:
        yield made


@pytest.fixture(scope="module")
def model():
    return TinyLlada()


def completed(server, prompt=PROMPT, **fields):
    known = {k: fields.pop(k) for k in ("max_tokens", "stop", "n", "seed", "temperature") if k in fields}
    return server.client.completions.create(model="tiny", prompt=prompt, **known, extra_body=fields)


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


class Slow(Tiny):
    """Leaves a client time to read the events of each pass."""

    def forward(self, sequences, rows):
        time.sleep(0.03)
        return super().forward(sequences, rows)


class Gated(Tiny):
    """Passes when it is let."""

    def __init__(self):
        super().__init__()
        self.gate, self.asked = threading.Semaphore(0), 0

    def forward(self, sequences, rows):
        self.asked += 1
        assert self.gate.acquire(timeout=20)
        return super().forward(sequences, rows)


@pytest.mark.parametrize("policy", ["threshold(0.9)", "tokens_per_step(3)", "trace_credit + threshold(0.8) + prefix_cache"])
def test_answers_are_those_of_the_library(server, model, policy):
    for task in problems()[::80]:
        answer = decode(model, policy, task["prompt"])
        chat = server.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": task["prompt"]}], extra_body={"policy": policy, "seed": 5})
        text = completed(server, task["prompt"], policy=policy)
        assert chat.choices[0].message.content == text.choices[0].text == answer.text
        assert chat.object == "chat.completion" and text.object == "text_completion"
        for usage in (chat.usage, text.usage):
            assert usage.prompt_tokens == len(task["prompt"]) + 1 and usage.completion_tokens == len(answer.text)
            assert usage.forwards == answer.report.forwards
            assert usage.tokens_per_forward == pytest.approx(answer.report.tokens_per_forward)
        assert chat.policy == policy and chat.seed == 5


def test_messages_have_contents_in_parts(server):
    parts = [{"type": "text", "text": PROMPT[:9]}, {"type": "text", "text": PROMPT[9:]}]
    chat = server.client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": parts}])
    assert chat.choices[0].message.content == "2+8=10;#10"


def test_finish_reasons(server):
    assert completed(server).choices[0].finish_reason == "stop"
    cut = completed(server, max_tokens=4)
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == ("2+8=", "length")
    assert completed(server, stop="=").choices[0].finish_reason == "stop"


def test_prompts_of_tokens_and_several(server):
    tokens = [server.model.encode(p) for p in (PROMPT, "J:age 27")]
    texts = [completed(server, p).choices[0].text for p in (PROMPT, "J:age 27")]
    assert completed(server, tokens[0]).choices[0].text == texts[0]
    assert [c.text for c in completed(server, tokens).choices] == texts
    assert [c.index for c in completed(server, [PROMPT, "J:age 27"], n=2).choices] == [0, 1, 2, 3]


@pytest.mark.parametrize("chat", [False, True])
def test_a_stream_has_the_text_and_the_canvas(slow, chat):
    server = slow
    policy = "at_random + tokens_per_step(2) + stop_at_eos"
    whole = completed(server, policy=policy, seed=9)
    extra = {"policy": policy, "seed": 9, "canvas": True}
    options = dict(model="tiny", stream=True, stream_options={"include_usage": True}, extra_body=extra)
    if chat:
        stream = server.client.chat.completions.create(messages=[{"role": "user", "content": PROMPT}], **options)
    else:
        stream = server.client.completions.create(prompt=PROMPT, **options)
    events = list(stream)
    shown = [e for e in events if e.object == "unmask.canvas"]
    pieces = [e.choices[0] for e in events if e.object != "unmask.canvas" and e.choices]
    said = [(p.delta.content if chat else p.text) or "" for p in pieces]
    assert "".join(said) == whole.choices[0].text and len([s for s in said if s]) > 1
    assert pieces[-1].finish_reason == "stop" and all(p.finish_reason is None for p in pieces[:-1])
    assert events[-1].usage.forwards == whole.usage.forwards == getattr(shown[-1], "pass")
    assert events[-1].usage.completion_tokens == whole.usage.completion_tokens

    passes = [getattr(e, "pass") for e in shown]
    assert passes == sorted(set(passes)) and shown[-1].committed_prefix >= len(whole.choices[0].text)
    for event in shown:
        provisional = {place for place, _, _ in event.provisional}
        for place, (token, when) in enumerate(zip(event.tokens, event.passes)):
            assert (token is None) == (when == 0) and (when == 0 or place not in provisional)
            assert when or place >= event.committed_prefix
    assert any(e.provisional for e in shown)
    assert any(sum(map(bool, e.passes)) > e.committed_prefix for e in shown)  # provisional: behind the prefix


def test_what_a_language_fills_is_on_the_canvas():
    constraints = pytest.importorskip("unmask.constraints")
    pytest.importorskip("outlines_core")
    batch = Batch(Tiny())
    views = []
    job = Job(batch.model.encode(PROMPT), 6, "threshold(0.9)", block_length=6, canvas=True,
              constraint=constraints.regex("ab[01]c", unmask.tiny_llada.vocabulary()), changed=lambda: views.append(job.view))
    batch.submit([job])
    until(lambda: job.view.ended)
    batch.close()
    _, first, last = views
    assert first.text == "ab" and first.canvas.passes == [1, 1, 0, 1, 1, 1] and first.canvas.committed_prefix == 2
    assert re.fullmatch("ab[01]c", last.text) and all(last.canvas.passes)


@pytest.mark.parametrize("policy", ["joint_threshold_indel", "daedal", "rho_eos", "threshold(0.9) + edit_committed"])
def test_texts_that_move_are_those_of_the_library(server, model, policy):
    prompt = "J:age 27"
    answer = completed(server, prompt, policy=policy)
    assert answer.choices[0].text == decode(model, policy, prompt).text
    stream = server.client.completions.create(
        model="tiny", prompt=prompt, stream=True, extra_body={"policy": policy, "canvas": True})
    assert [e.choices[0].text for e in stream if e.object != "unmask.canvas"] == [answer.choices[0].text]


def test_a_text_that_may_be_rewritten_waits(server):
    stream = server.client.completions.create(
        model="tiny", prompt=PROMPT, stream=True,
        extra_body={"policy": "running_confidence(8)", "seed": 1, "canvas": True})
    kinds = [e.object for e in stream]
    assert kinds.count("text_completion") == 1 and kinds.index("text_completion") == len(kinds) - 1
    assert not completed(server, policy="running_confidence(8)").choices[0].text == ""


@pytest.mark.parametrize("stop, text", [("=10", "2+8"), (["#1", "x"], "2+8=10;"), ("10;#11", "2+8=10;#10"), ("2", "")])
def test_stop_sequences_are_not_in_the_text(server, stop, text):
    assert completed(server, stop=stop, policy="left_to_right + tokens_per_step(1) + stop_at_eos").choices[0].text == text
    stream = server.client.completions.create(
        model="tiny", prompt=PROMPT, stop=stop, stream=True, extra_body={"policy": "left_to_right + tokens_per_step(1)"})
    assert "".join(e.choices[0].text for e in stream) == text


def test_a_stop_sequence_ends_the_decode(server):
    policy = "left_to_right + tokens_per_step(1)"
    assert completed(server, stop="+", policy=policy).usage.forwards == 2


# Each setting is the part that it stands for; the values change the answer, so that none is ignored.
@pytest.mark.parametrize("fields, parts", [
    ({"temperature": 5}, "sampling(5)"),
    ({"temperature": 5, "top_k": 2}, "temperature(5) + sampling + top_k(2)"),
    ({"temperature": 5, "top_p": 0.5}, "temperature(5) + sampling + top_p(0.5)"),
    ({"temperature": 5, "min_p": 0.3}, "temperature(5) + sampling + min_p(0.3)"),
    ({"repetition_penalty": 3.0}, "repetition_penalty(3, window=52)"),
    ({"presence_penalty": 9.0}, "presence_frequency_penalty(9, 0, window=52)"),
    ({"frequency_penalty": 9.0}, "presence_frequency_penalty(0, 9, window=52)"),
    ({"min_tokens": 20}, "min_new_tokens(20)"),
    ({"logit_bias": {"5": -100}}, "logit_bias([5], [-100])"),
])
def test_settings_are_parts(server, model, fields, parts):
    prompt, policy = "hello there", "tokens_per_step(2)"
    answer = completed(server, prompt, policy=policy, seed=3, **fields).choices[0].text
    assert answer == decode(model, f"{policy} + {parts}", prompt, seed=3).text
    less = {"temperature": 5} if len(fields) > 1 else {}
    assert answer != completed(server, prompt, policy=policy, seed=3, **less).choices[0].text


def test_settings_that_say_nothing_change_nothing(server):
    nothing = {"temperature": 0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0,
               "frequency_penalty": 0, "min_tokens": 0, "logit_bias": {}, "user": "u", "store": False, "tools": [], "n": 1,
               "metadata": {"a": "b"}, "logprobs": None, "top_logprobs": None, "response_format": {"type": "text"}}
    answer = completed(server, policy="threshold(0.9)", **nothing)
    assert answer.policy == "threshold(0.9)" and answer.choices[0].text == "2+8=10;#10"
    assert completed(server, policy="threshold(0.9)", top_p=0.5, top_k=1).policy == "threshold(0.9)"  # nothing is drawn


@pytest.mark.parametrize("policy", ["threshold(0.9)", "tokens_per_step(2)", "tokens_per_step(2) + temperature(3)",
                                    "threshold(0.9) + remask_below(0.4)"])
def test_tokens_have_alternatives(server, model, policy):
    """Of the row that committed each: the softmax of the model's logits there, by the policy's own probabilities."""
    message = [{"role": "user", "content": PROMPT}]
    choice = server.client.chat.completions.create(
        model="tiny", messages=message, logprobs=True, top_logprobs=3, extra_body={"policy": policy}).choices[0]
    content = choice.logprobs.content
    assert "".join(c.token for c in content) == choice.message.content and len(content) > 5
    for c in content:
        assert bytes(c.bytes).decode() == c.token and len(c.top_logprobs) == 3
        logs = [a.logprob for a in c.top_logprobs]
        assert logs == sorted(logs, reverse=True) and sum(map(math.exp, logs)) <= 1 + 1e-5
        assert c.top_logprobs[0].token == c.token  # nothing is drawn
        assert c.top_logprobs[0].logprob == pytest.approx(c.logprob, abs=2e-5)
    alone = server.client.chat.completions.create(model="tiny", messages=message, logprobs=True, extra_body={"policy": policy})
    assert [(c.token, c.logprob, c.top_logprobs) for c in alone.choices[0].logprobs.content] == [
        (c.token, c.logprob, []) for c in content]
    text = server.client.completions.create(model="tiny", prompt=PROMPT, logprobs=2, extra_body={"policy": policy}).choices[0]
    known = text.logprobs
    assert "".join(known.tokens) == text.text and known.token_logprobs == [c.logprob for c in content]
    assert known.text_offset == list(range(len(text.text)))
    assert all(len(t) == 2 and token in t for t, token in zip(known.top_logprobs, known.tokens))


def test_alternatives_end_with_the_text(server):
    stopped = server.client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": PROMPT}], stop=["="], logprobs=True, top_logprobs=1).choices[0]
    assert "".join(c.token for c in stopped.logprobs.content) == stopped.message.content == "2+8"


def test_choices_and_seeds(server):
    def drawn(**fields):
        return completed(server, "hello there", temperature=5, **fields)

    texts = [c.text for c in drawn(n=4, seed=1).choices]
    assert len(set(texts)) > 1 and texts == [c.text for c in drawn(n=4, seed=1).choices]
    assert texts != [c.text for c in drawn(n=4, seed=2).choices]
    once = drawn()
    assert drawn(seed=once.seed).choices[0].text == once.choices[0].text != drawn(seed=once.seed + 1).choices[0].text
    assert completed(server, seed=-1).seed == 2**64 - 1


def test_answers_obey_a_schema(server):
    pytest.importorskip("outlines_core")
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    for prompt in ("J:age 73", "S:9 8 7", PROMPT):
        chat = server.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": prompt}], response_format=schema)
        assert isinstance(json.loads(chat.choices[0].message.content)["age"], int)
        assert chat.choices[0].finish_reason == "stop"
    assert re.fullmatch("[a-c]{3}-[0-9]", completed(server, regex="[a-c]{3}-[0-9]").choices[0].text)
    assert isinstance(json.loads(completed(server, response_format={"type": "json_object"}).choices[0].text), dict)


CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": PROMPT}]


@pytest.mark.parametrize("path, change, param, message", [
    (CHAT, {"model": "gpt"}, "model", "model must be 'tiny', got \"gpt\""),
    (CHAT, {"model": None}, "model", "model must be a string, got null"),
    (CHAT, {"messages": []}, "messages", "messages must be a list with at least one message, got []"),
    (CHAT, {"messages": "hi"}, "messages", "messages must be a list with at least one message, got \"hi\""),
    (CHAT, {"messages": [1]}, "messages[0]", "messages[0] must be an object, got 1"),
    (CHAT, {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", "got \"tool\""),
    (CHAT, {"messages": [{"role": "user"}]}, "messages[0].content", "messages[0].content must be a string, got null"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]", "of type text"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "tool_calls": []}]}, "messages[0].tool_calls", "not supported"),
    (CHAT, {"messages": [{"role": "user", "content": "caf\u00e9"}]}, "messages", "text has '\u00e9'; the model knows"),
    (CHAT, {"messages": [{"role": "user", "content": "\ud800"}]}, "messages", "the model knows"),
    (CHAT, {"max_tokens": 0}, "max_tokens", "max_tokens must be an integer, at least 1, got 0"),
    (CHAT, {"max_tokens": 10**6}, "max_tokens", "must be at most 219: the prompt has 37 tokens"),
    (CHAT, {"max_tokens": True}, "max_tokens", "got true"),
    (CHAT, {"max_tokens": 3, "max_completion_tokens": 3}, "max_tokens", "must not be given with max_completion_tokens"),
    (CHAT, {"max_completion_tokens": 0}, "max_completion_tokens", "at least 1, got 0"),
    (CHAT, {"block_length": 41}, "block_length", "block_length must be an integer, in [1, 40], got 41"),
    (CHAT, {"policy": "nonsense(1)"}, "policy", "column 1: there is no part 'nonsense'"),
    (CHAT, {"policy": 3}, "policy", "policy must be a string, got 3"),
    (CHAT, {"policy": "calibrated_threshold('/etc/passwd')"}, "policy", "names a file, which it may not"),
    (CHAT, {"policy": "replay('/etc/passwd')"}, "policy", "cannot run replay"),
    (CHAT, {"policy": "es_dllm"}, "policy", "this server cannot run early_skip: it gets logits only"),
    (CHAT, {"policy": "threshold(0.9) + lookahead(2)"}, "policy", "cannot run lookahead: it was started with --branches 0"),
    (CHAT, {"policy": "threshold(0.9) + delayed_cache"}, "policy", "cannot run delayed_cache"),
    (CHAT, {"policy": "sampling(1) + threshold(0.9)", "temperature": 0}, "temperature",
     "temperature must not be given with a policy that has sampling, got 0"),
    (CHAT, {"temperature": -1}, "temperature", "temperature must be a number, at least 0 and finite, got -1"),
    (CHAT, {"top_p": 2}, "top_p", "top_p must be a number, in [0, 1], got 2"),
    (CHAT, {"top_k": 1.5}, "top_k", "top_k must be an integer"),
    (CHAT, {"logit_bias": {"98": 1}}, "logit_bias", "logit_bias must have tokens in [0, 98) as keys, got '98'"),
    (CHAT, {"logit_bias": {str(i): 1 for i in range(17)}}, "logit_bias", "at most 16 tokens, got 17 tokens"),
    (CHAT, {"n": 99}, "n", "n must be an integer, in [1, 16], got 99"),
    (CHAT, {"seed": 1.5}, "seed", "seed must be an integer"),
    (CHAT, {"stop": ["a"] * 5}, "stop", "stop must be a string, or a list with at most 4"),
    (CHAT, {"stop": ""}, "stop", "none of them empty"),
    (CHAT, {"stream": "yes"}, "stream", "stream must be true or false, got \"yes\""),
    (CHAT, {"stream_options": {"x": 1}}, "stream_options", "must be an object with include_usage"),
    (CHAT, {"canvas": True}, "canvas", "canvas must be given with stream"),
    (CHAT, {"tools": [{"type": "function"}]}, "tools", "tools is not supported: it calls no tools"),
    (CHAT, {"logprobs": True, "stream": True}, "logprobs", "logprobs must not be given with stream"),
    (CHAT, {"top_logprobs": 2}, "top_logprobs", "top_logprobs must be given with logprobs=true"),
    (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs", "top_logprobs must be an integer, in [0, 20], got 21"),
    (CHAT, {"logprobs": 1}, "logprobs", "logprobs must be true or false, got 1"),
    (TEXT, {"logprobs": True}, "logprobs", "logprobs must be an integer, in [0, 20], got true"),
    (CHAT, {"reasoning_effort": "high"}, "reasoning_effort", "reasoning_effort is not supported"),
    (CHAT, {"temprature": 1}, "temprature", "there is no field \"temprature\"; did you mean temperature?"),
    (CHAT, {"response_format": {"type": "xml"}}, "response_format", "of type text, json_object or json_schema"),
    (CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "must be an object, got null"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array", "uniqueItems": True}}}},
     "response_format", "/uniqueItems: this keyword is not kept"),
    (CHAT, {"regex": "(["}, "regex", "regex: Failed to build DFA"),
    (CHAT, {"regex": "a{50}"}, None, "tokens"),  # an answer of 40 has no room for it
    (TEXT, {"prompt": None}, "prompt", "prompt must be a string or a list of tokens"),
    (TEXT, {"prompt": []}, "prompt", "prompt must be a string or a list of tokens"),
    (TEXT, {"prompt": [98]}, "prompt", "prompt must have tokens in [0, 98), got 98"),
    (TEXT, {"prompt": "x" * 300}, "max_tokens", "max_tokens"),
    (TEXT, {"suffix": "x"}, "suffix", "suffix is not supported"),
    (TEXT, {"echo": True}, "echo", "echo is not supported"),
    (TEXT, {"messages": USER}, "messages", "there is no field \"messages\""),
])
def test_bad_requests_are_refused(server, path, change, param, message):
    if "regex" in change:
        pytest.importorskip("outlines_core")
    body = {"model": "tiny", **({"messages": USER} if path == CHAT else {"prompt": PROMPT}), **change}
    answer = httpx.post(server.url + path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == (404 if change.get("model") == "gpt" else 400), answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["param"] == param and message in error["message"]
    until(lambda: server.batch.load()["running"] == server.batch.load()["waiting"] == 0)


@pytest.mark.parametrize("body, message", [
    (b"", "the body must be JSON"),
    (b"{", "the body must be JSON"),
    (b"\xff\xfe", "the body must be JSON"),
    (b"[]", "the body must be an object, got []"),
    (b"[" * 100000, "the body"),
    (b'{"temperature": NaN}', "NaN is no number of JSON"),
    (b'{"seed": ' + b"9" * 5000 + b"}", "the body must be JSON"),
])
def test_bodies_that_are_no_object_are_refused(server, body, message):
    answer = httpx.post(server.url + CHAT, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and message in answer.json()["error"]["message"]


def test_other_paths_methods_and_types(server):
    assert httpx.get(server.url + "/v1/nothing").json()["error"]["message"] == "GET /v1/nothing: Not Found"
    assert httpx.get(server.url + CHAT).status_code == 405
    plain = httpx.post(server.url + CHAT, content="{}", headers={"Content-Type": "text/plain"})
    assert plain.status_code == 415 and "must be application/json, got 'text/plain'" in plain.json()["error"]["message"]
    assert [m.id for m in server.client.models.list()] == ["tiny"] and server.client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="model must be 'tiny', got 'gpt'"):
        server.client.models.retrieve("gpt")
    assert httpx.get(server.url + "/health").json()["status"] == "ok"


def test_a_body_of_100_mb_is_refused(server):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    headers = {"Content-Type": "application/json"}
    size = 100 << 20
    one = b"x" * (1 << 20)
    parts = lambda: (one for _ in range(100))  # noqa: E731
    for extra in ({"Content-Length": str(size)}, {}):  # with its size, and in chunks
        answer = httpx.post(server.url + CHAT, content=parts(), headers={**headers, **extra}, timeout=60)
        assert answer.status_code == 413
        assert "must have at most 4194304 bytes" in answer.json()["error"]["message"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert completed(server).choices[0].text == "2+8=10;#10"


def test_a_body_that_does_not_arrive(server):
    with serving(limits=Limits(upload=0.2)) as made, socket.create_connection(made.address) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 100\r\n\r\n{")
        client.settimeout(5)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 408")


def test_200_at_once_have_the_tokens_of_each_alone(server):
    policies = ["threshold(0.9)", "tokens_per_step(2) + stop_at_eos", "trace_credit + threshold(0.8)", "factor(1)",
                "by_entropy + entropy_bound(0.1) + sampling(0.7)"]
    asked = [(task["prompt"], policies[i % 5], 20 + i % 21, i) for i, task in enumerate(problems()[:200])]

    def run(request):
        prompt, policy, length, seed = request
        answer = completed(server, prompt, policy=policy, max_tokens=length, seed=seed)
        return answer.choices[0].text, answer.usage.forwards

    before = server.batch.load()["passes"]
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        together = list(pool.map(run, asked))
    passes = server.batch.load()["passes"] - before
    assert passes < sum(forwards for _, forwards in together) / 8  # they shared them
    assert together[::4] == [run(request) for request in asked[::4]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_slot_within_a_pass(stream):
    gated = Gated()
    with serving(gated, slots=1) as made:
        body = json.dumps({"model": "tiny", "prompt": PROMPT, "policy": "tokens_per_step(1)", "stream": stream}).encode()
        client = socket.create_connection(made.address)
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: gated.asked == 1)
        gated.gate.release()
        until(lambda: gated.asked == 2)  # the second pass runs
        client.close()
        until(lambda: made.batch._running[0].gone)
        gated.gate.release()
        until(lambda: made.batch.load()["running"] == 0)
        assert gated.asked == 2
        gated.gate.release(1000)
        assert completed(made).choices[0].text == "2+8=10;#10"


def test_a_client_that_goes_away_while_it_waits():
    gated = Gated()
    with serving(gated, slots=1) as made, concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(completed, made)
        until(lambda: gated.asked == 1)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(made.url + TEXT, json={"model": "tiny", "prompt": PROMPT}, timeout=0.3)
        until(lambda: all(job.gone for job in made.batch._queue))
        gated.gate.release(1000)
        assert first.result().choices[0].text == "2+8=10;#10"
        until(lambda: made.batch.load() == {"slots": 1, "running": 0, "waiting": 0, "passes": gated.asked})


def test_as_many_wait_as_may():
    gated = Gated()
    with serving(gated, slots=1, waiting=2) as made, concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(completed, made)]
        until(lambda: gated.asked == 1)
        jobs += [pool.submit(completed, made) for _ in range(2)]
        until(lambda: made.batch.load()["waiting"] == 2)
        with pytest.raises(openai.RateLimitError, match="2 answers wait already, at most 2 may") as full:
            completed(made)
        assert full.value.response.headers["retry-after"] == "1"
        gated.gate.release(1000)
        assert {job.result().choices[0].text for job in jobs} == {"2+8=10;#10"}


@pytest.mark.parametrize("stream", [False, True])
def test_the_time_of_an_answer_is_limited(stream):
    gated = Gated()
    with serving(gated, slots=1, limits=Limits(time=0.3)) as made:
        with pytest.raises(openai.APIError, match=r"the answer was not complete within 0\.3 s"):
            answer = made.client.completions.create(model="tiny", prompt=PROMPT, stream=stream)
            for _ in answer:
                pass
        gated.gate.release()
        until(lambda: made.batch.load()["running"] == 0)
        assert gated.asked == 1


def test_a_client_that_reads_nothing_is_given_up():
    made = Server(Tiny(), limits=Limits(stalled=0.1))
    body = json.dumps({"model": "tiny", "prompt": PROMPT, "stream": True}).encode()
    scope = {"type": "http", "method": "POST", "path": TEXT, "raw_path": TEXT.encode(), "query_string": b"", "root_path": "",
             "scheme": "http", "http_version": "1.1", "server": None, "client": None,
             "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]}

    async def run():
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return given.pop() if given else await asyncio.Event().wait()

        async def send(message):
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        await asyncio.wait_for(made.app(scope, receive, send), 10)

    asyncio.run(run())
    until(lambda: made.batch.load()["running"] == 0)
    made.batch.close()


def test_a_slow_client_gets_fewer_events_and_the_same_text():
    """Views replace each other, so that nothing grows while a client does not read."""
    batch = Batch(Tiny())
    views = []
    job = Job(batch.model.encode(PROMPT), 40, "tokens_per_step(1)", block_length=20, canvas=True,
              changed=lambda: views.append(job.view))
    batch.submit([job])
    until(lambda: job.view.ended)
    batch.close()
    assert len(views) == 40 + 2  # its start, the empty canvas, each pass
    assert all(b.text.startswith(a.text) for a, b in zip(views, views[1:]))
    assert views[-1].text == "2+8=10;#10"


def test_a_model_that_fails_fails_its_answers_alone():
    class Failing(Tiny):
        def forward(self, sequences, rows):
            if any(len(tokens) == 8 for tokens in sequences):
                raise OSError("no memory")
            return super().forward(sequences, rows)

    with serving(Failing()) as made:
        with pytest.raises(openai.InternalServerError, match="the model failed: no memory"):
            completed(made, "ab", max_tokens=5)
        assert completed(made).choices[0].text == "2+8=10;#10"
        assert made.batch.load()["running"] == 0


def test_policies_with_branches_and_those_that_need_much_memory():
    with serving(branches=3, limits=Limits(state=1 << 20)) as made:
        plain = decode(TinyLlada(), "threshold(0.9) + lookahead(3)", PROMPT)
        answer = completed(made, policy="threshold(0.9) + lookahead(3)")
        assert (answer.choices[0].text, answer.usage.forwards) == (plain.text, plain.report.forwards)
        with pytest.raises(openai.BadRequestError, match="bytes for this answer, at most 1048576 are allowed"):
            completed(made, "a", policy="adaptive_threshold", max_tokens=250, block_length=250)


def test_a_key():
    with serving(api_key="s3cret") as made:
        assert completed(made).choices[0].text == "2+8=10;#10"
        for wrong in (b"Bearer other", b"Bearer", b"Basic s3cret", b"Bearer s3cr\xe9t"):
            head = {"Authorization": wrong}
            for refused in (httpx.post(made.url + TEXT, json={}, headers=head), httpx.get(made.url + "/v1/models", headers=head)):
                assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
        assert "s3cret" not in httpx.get(made.url).text


def test_other_names_of_the_host_are_refused():
    """A page of another site whose name leads to the loopback reads nothing."""
    with serving(hosts=["127.0.0.1", "localhost"]) as made:
        assert httpx.get(made.url + "/health").status_code == 200
        assert httpx.get(made.url + "/health", headers={"Host": "evil.example:8000"}).status_code == 400


def test_the_page_takes_nothing_from_elsewhere(server):
    answer = httpx.get(server.url)
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.findall(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//""", answer.text)
    assert "--shade4: light-dark(" in answer.text and "COLOURS" not in answer.text  # the viewer's
    settings = json.loads(re.search(r"const SETTINGS = (\{.*\});", answer.text)[1])
    assert settings["model"] == "tiny" and settings["length"] == 40 and settings["key"] is False


def test_a_shutdown_ends_what_runs():
    gated = Gated()
    batch = Batch(gated, slots=1)
    jobs = [Job([2, 3], 5, "threshold(0.9)", block_length=5) for _ in range(2)]
    batch.submit(jobs)
    until(lambda: gated.asked == 1)
    closing = threading.Thread(target=batch.close)
    closing.start()
    gated.gate.release(1000)
    closing.join(10)
    assert all(isinstance(job.view.error, ConnectionError) or job.view.ended for job in jobs)
    with pytest.raises(Exception, match="shutting down"):
        batch.submit([Job([2], 5, "threshold(0.9)", block_length=5)])


def test_models_that_are_none():
    with pytest.raises(ValueError, match=r"model must be tiny or a file \*\.gguf, got 'gpt'"):
        load("gpt")


def test_the_command():
    def refused(*options):
        done = subprocess.run([sys.executable, "-m", "unmask", "serve", *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        return done.stderr

    assert "--slots must be at least 1, got 0" in refused("--slots", "0")
    assert "--time-limit must be positive, got 0" in refused("--time-limit", "0")
    assert "there is no part 'nonsense'" in refused("--policy", "nonsense")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = subprocess.Popen([sys.executable, "-m", "unmask", "serve", "--port", str(port)], stderr=subprocess.PIPE)
    try:
        def up():
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200

        until(up, 30)
        assert httpx.get(f"http://127.0.0.1:{port}/health", headers={"Host": "evil.example"}).status_code == 400
        running.send_signal(signal.SIGINT)
        assert running.wait(20) in (0, 130, -signal.SIGINT)
    finally:
        running.kill()
        running.stderr.close()


def test_a_model_of_ones_own():
    """Any object with the protocol: here one with a vocabulary of bytes that spells UTF-8."""
    word = "dé\U0001F600!".encode()

    class Bytes:
        name, vocab, mask_token, eos_token, also_eos, logits_shift = "bytes", 258, 256, 257, (), 0
        context, answer_length, block_length = 64, 16, 16
        token_bytes = [bytes([b]) for b in range(256)] + [b"", b""]

        def encode(self, text):
            return list(text.encode())

        def encode_chat(self, messages):
            return self.encode(messages[-1]["content"])

        def forward(self, sequences, rows):
            out = []
            for tokens, s in zip(sequences, rows):
                logits = np.zeros((len(tokens), 258), np.float32)
                start = len(tokens) - 16
                for i in range(16):
                    logits[start + i, word[i] if i < len(word) else 257] = 20
                out.append(logits[s])
            return out

    with serving(Bytes()) as made:
        stream = made.client.completions.create(
            model="bytes", prompt="x", stream=True, extra_body={"policy": "left_to_right + tokens_per_step(1)"})
        pieces = [e.choices[0].text for e in stream]
        assert "".join(pieces) == word.decode() and "\ufffd" not in "".join(pieces)
