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
import types
import zlib

import numpy as np
import pytest
import unmask.tiny_llada
from draws import sampled
from unmask.tiny_llada import TinyLlada, decode, problems

uvicorn = pytest.importorskip("uvicorn", reason='pip install "unmask[server]"')
openai = pytest.importorskip("openai")
httpx = pytest.importorskip("httpx")

from unmask.serve import DEFAULT_POLICY, GivenUp, Limits, Server, Tiny, http_protocol, load  # noqa: E402
from unmask.serve.batch import Batch, Job, _Stop  # noqa: E402
from unmask.serve.fields import Refused, read  # noqa: E402

PROMPT = "Q:Ora has 2 books. Buys 8. How many?"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": PROMPT}]
PERSON = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


@contextlib.contextmanager
def serving(model=None, **options):
    """A server in a thread, over sockets."""
    server = Server(model or Tiny(), **options)
    listening = socket.create_server(("127.0.0.1", 0))
    runner = uvicorn.Server(uvicorn.Config(
        server.app, log_level="critical", timeout_graceful_shutdown=1, http=http_protocol(server.limits.headers)))
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
    return server.client.completions.create(model=fields.pop("model", "tiny"), prompt=prompt, **known, extra_body=fields)


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


# Each setting is the part that it stands for; the values change the answer, so that none is ignored. Penalties and
# biases are no parts of the text, but do what the parts do where those have room for all tokens.
@pytest.mark.parametrize("policy", ["tokens_per_step(2)", None])
@pytest.mark.parametrize("fields, parts", [
    ({"temperature": 5}, "{} + sampling(5)"),
    ({"temperature": 5, "top_k": 2}, "{} + temperature(5) + sampling + top_k(2)"),
    ({"temperature": 5, "top_p": 0.5}, "{} + temperature(5) + sampling + top_p(0.5)"),
    ({"temperature": 5, "min_p": 0.3}, "{} + temperature(5) + sampling + min_p(0.3)"),
    ({"repetition_penalty": 3.0}, "{} + repetition_penalty(3, window=52)"),
    ({"presence_penalty": 9.0}, "{} + presence_frequency_penalty(9, 0, window=52)"),
    ({"frequency_penalty": 9.0}, "{} + presence_frequency_penalty(0, 9, window=52)"),
    ({"min_tokens": 40}, "min_new_tokens(40) + {}"),
    ({"logit_bias": {"5": -100, "7": 30.5}}, "{} + logit_bias([5, 7], [-100, 30.5])"),
])
def test_settings_are_parts(server, model, fields, parts, policy):
    prompt, own = "hello there", {} if policy is None else {"policy": policy}
    answer = completed(server, prompt, seed=3, **own, **fields).choices[0].text
    assert answer == decode(model, parts.format(policy or DEFAULT_POLICY), prompt, seed=3).text
    less = {"temperature": 5} if len(fields) > 1 else {}
    assert answer != completed(server, prompt, seed=3, **own, **less).choices[0].text


TOOLS = [{"type": "function", "function": {"name": "f"}}]
ALL = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": 0.5,
       "repetition_penalty": 1.2, "logit_bias": {"5": -1}, "min_tokens": 12}


def test_the_default_policy_takes_every_field_of_the_page(server, repository):
    page = (repository / "examples/bindings/python/docs/serve.md").read_text()
    rows = re.findall(r"(?m)^\| (`.*?`) \|", page[page.index("## Requests") : page.index("An event of the canvas")])
    documented = {name for row in rows for name in re.findall("`([a-z_]+)`", row)}
    more = {"policy": DEFAULT_POLICY, "block_length": 10, "seed": 1, "n": 2, "stop": ["x"], "regex": "[a-z]{2,9}",
            "structured_outputs": {"choice": ["a", "b"]}, "ebnf": "root ::= [0-9]+", "grammar": "root ::= [0-9]+", "json_schema": PERSON,
            "response_format": {"type": "json_object"}, "tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": True, "stream": True, "stream_options": {"include_usage": True},
            "logprobs": True, "top_logprobs": 2, "canvas": True, "max_tokens": 30, "max_completion_tokens": 30}
    assert documented == {*ALL, *more}
    with_another = {"top_logprobs": {"logprobs": True}, "canvas": {"stream": True}, "stream_options": {"stream": True}}
    for name, value in {**ALL, **more}.items():
        body = {"model": "tiny", "messages": USER, name: value, **with_another.get(name, {})}
        answer = httpx.post(server.url + CHAT, json=body, timeout=60)
        assert answer.status_code == 200 and '"error"' not in answer.text, (name, answer.text)
    for several in ([*ALL], ["temperature", "top_p"], ["min_tokens", "top_k", "temperature"]):
        answer = httpx.post(server.url + CHAT, json={"model": "tiny", "messages": USER, **{k: ALL[k] for k in several}})
        assert answer.status_code == 200, answer.text


class Rows(Tiny):
    """The same logits at every position: those of `row`, by token. Its tokens are characters from "0" on."""

    name, vocab, mask_token, eos_token, also_eos = "rows", 80, 79, 78, ()
    context, answer_length, block_length = 300, 1, 1
    token_bytes = [bytes([48 + i]) for i in range(77)] + [b""] * 3

    def __init__(self, row):
        self.row = np.full(80, -30, np.float32)
        self.row[: len(row)] = row

    def encode(self, text):
        return [ord(c) - 48 for c in text]

    def encode_chat(self, messages):
        return self.encode(messages[-1]["content"])

    def forward(self, sequences, rows):
        return [np.tile(self.row, (r.stop - r.start, 1)) for r in rows]


def drawn(made, count, **fields):
    """How often each token is drawn for one position."""
    found = np.zeros(80, int)
    for i in range(count // 16):
        body = {"model": "rows", "prompt": "0", "n": 16, "max_tokens": 1, "seed": i, **fields}
        for choice in httpx.post(made.url + TEXT, json=body, timeout=60).json()["choices"]:
            found[ord(choice["text"]) - 48] += 1
    return found


@pytest.mark.parametrize("fields", [
    {"temperature": 2, "top_p": 0.6}, {"temperature": 0.5, "top_p": 0.9}, {"temperature": 2, "top_k": 3},
    {"temperature": 2, "min_p": 0.35}, {"temperature": 2, "top_k": 5, "top_p": 0.8, "min_p": 0.1},
    {"temperature": 2, "top_p": 0.7, "presence_penalty": 2, "repetition_penalty": 1.5, "logit_bias": {"3": 2.5}},
    {"temperature": 2},
])
def test_the_temperature_divides_before_rows_are_truncated(fields):
    """As in vLLM: biases, penalties, temperature, top_k, top_p, min_p."""
    row = np.array([3.0, 2.5, 2.0, 1.0, 0.5, 0.0, -1.0])
    expected = sampled(row, **fields, prompt=[0], top_p_of_the_kept=True) * 1024
    with serving(Rows(row)) as made:
        found = drawn(made, 1024, **fields)[:7]
    assert found.sum() == 1024 and (found[expected == 0] == 0).all()
    inside = expected > 0
    statistic, degrees = ((found - expected)[inside] ** 2 / expected[inside]).sum(), inside.sum() - 1
    assert statistic < degrees + 5 * math.sqrt(2 * degrees) + 5  # five standard deviations


class Random(Rows):
    """Random rows, which depend on the position and on the tokens to its left."""

    answer_length, block_length = 120, 120

    def __init__(self, seed=0):
        self.table = np.random.default_rng(seed).normal(0, 3, (300, 80)).astype(np.float32)
        self.table[:, 77:] = -30

    def forward(self, sequences, rows):
        return [self.table[r] for r in rows]


@pytest.mark.parametrize("fields", [
    {"repetition_penalty": 1.7}, {"repetition_penalty": 0.6}, {"presence_penalty": 4}, {"frequency_penalty": 3},
    {"presence_penalty": -2, "frequency_penalty": -0.5}, {"repetition_penalty": 2.5, "presence_penalty": 1, "frequency_penalty": 2},
    {"repetition_penalty": 1.3, "logit_bias": {"4": 6, "9": -100}},
])
def test_penalties_count_every_token(fields):
    """More distinct tokens than the library's parts have room for, beside a loop that counts them."""
    model = Random()
    prompt = "".join(chr(48 + i) for i in range(70))
    tokens = model.encode(prompt)
    first = len(tokens)
    for position in range(first, first + 120):
        z = model.table[position].astype(np.float64)
        for token, bias in fields.get("logit_bias", {}).items():
            z[int(token)] += bias
        for token in set(tokens):
            r = fields.get("repetition_penalty", 1)
            z[token] = z[token] / r if z[token] > 0 else z[token] * r
        for token in set(tokens[first:]):
            z[token] -= fields.get("presence_penalty", 0) + fields.get("frequency_penalty", 0) * tokens[first:].count(token)
        tokens.append(int(np.argmax(z)))
    assert len(set(tokens[first:])) > 32 or fields.get("presence_penalty", 1) < 0
    with serving(model) as made:
        answer = completed(made, prompt, model="rows", policy="left_to_right + tokens_per_step(1)", **fields).choices[0].text
    assert answer == "".join(chr(48 + t) for t in tokens[first:])


@pytest.mark.parametrize("policy", [DEFAULT_POLICY, "threshold(0.9) + remask_below(0.1) + stop_at_eos", "threshold(0.9)"])
def test_every_eos_token_of_a_model_ends_the_decode(policy):
    """After as many passes as the one that the session knows."""
    class Two(Rows):
        """Says "ab", the token that the prompt names, then "x" for ever."""

        also_eos, answer_length, block_length = (77,), 200, 8

        def encode(self, text):
            return [int(text), 0]

        def forward(self, sequences, rows):
            out = []
            for tokens, r in zip(sequences, rows):
                logits = np.zeros((r.stop - r.start, 80), np.float32)
                for i, p in enumerate(range(r.start, r.stop)):
                    logits[i, {2: 49, 3: 50, 4: int(tokens[0])}.get(p, 72)] = 20
                out.append(logits)
            return out

    with serving(Two([])) as made:
        for eos in ("77", "78"):
            answer = completed(made, eos, model="rows", policy=policy)
            stops = "stop_at_eos" in policy
            assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("ab", "stop")
            assert answer.usage.forwards == (1 if stops else 25) and answer.usage.completion_tokens == 2
            longer = completed(made, eos, model="rows", policy=policy, min_tokens=5)
            assert len(longer.choices[0].text) > 5


@pytest.mark.parametrize("policy", [
    "tokens_per_step(1) + stop_at_eos", "at_random + tokens_per_step(2) + stop_at_eos(whole_block=true)",
    "any_of(threshold(0.95), tokens_per_step(2)) + semi_autoregressive(aligned=true) + stop_at_eos(whole_block=true)",
    "at_random + tokens_per_step(2) + stop_at_eos(1)", "at_random + threshold(0.5) + remask_below(0.4) + stop_at_eos"])
def test_eos_tokens_are_alike(policy):
    """Decodes whose end is another EOS token have the passes and the text of those with the first one."""
    class Ends(Random):
        answer_length, block_length = 40, 8

    found = []
    for eos, also in ((78, (77,)), (77, (78,))):
        model = Ends(11)
        model.table[:, 78] = np.random.default_rng(2).normal(3, 3, 300)
        model.eos_token, model.also_eos = eos, also
        batch = Batch(model)
        jobs = [Job([prompt] * (1 + prompt % 7), 40, policy, block_length=8, seed=prompt) for prompt in range(12)]
        batch.submit(jobs)
        until(lambda: all(job.view.ended for job in jobs))
        batch.close()
        found.append([(job.view.text, job.view.report.forwards, job.view.finish_reason) for job in jobs])
    assert found[0] == found[1] and any(reason == "stop" and passes < 20 for _, passes, reason in found[0])


@pytest.mark.parametrize("eos", [78, None])
@pytest.mark.parametrize("policy, text, passes", [
    ("at_random + tokens_per_step(1) + max_steps(60)", None, 60),
    ("left_to_right + tokens_per_step(1) + max_steps(7)", 7, 7),
    ("tokens_per_step(1) + max_steps(3)", None, 3),
    ("at_random + tokens_per_step(3) + remask_below(0.3) + max_steps(9)", None, 9),
])
def test_no_token_that_nobody_decided_is_shown(policy, text, passes, eos):
    """Where max_steps ends an answer, the text is what was decided without a gap, in a stream, too."""
    model = Random(3)
    model.eos_token = eos
    decided = {}

    class Listening(Batch):
        def _take(self, slot):
            for commit in self._session.committed(slot):
                decided[commit.position - 2] = commit.token
            for masked in np.flatnonzero(self._running[slot]._tokens[2:] == model.mask_token):
                decided.pop(int(masked), None)
            super()._take(slot)

    batch = Listening(model)
    views = []
    job = Job([3, 4], 100, policy, block_length=100, seed=5, canvas=True, changed=lambda: views.append(job.view))
    batch.submit([job])
    until(lambda: job.view.ended)
    batch.close()
    expected = ""
    while len(expected) in decided:
        expected += chr(48 + decided[len(expected)])
    assert job.view.text == expected and job.view.finish_reason == "length" and job.view.report.forwards == passes
    assert text is None or len(expected) == text
    assert all(expected.startswith(view.text) for view in views) and job.view.canvas.committed_prefix == len(expected)
    assert [place for place, when in enumerate(job.view.canvas.passes) if when] == sorted(decided)


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
    schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    for prompt in ("J:age 73", "S:9 8 7", PROMPT):
        chat = server.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": prompt}], response_format=schema)
        assert isinstance(json.loads(chat.choices[0].message.content)["age"], int)
        assert chat.choices[0].finish_reason == "stop"
    assert re.fullmatch("[a-c]{3}-[0-9]", completed(server, regex="[a-c]{3}-[0-9]").choices[0].text)
    assert isinstance(json.loads(completed(server, response_format={"type": "json_object"}).choices[0].text), dict)


SUM = 'root ::= "(" sum ")"\nsum ::= [0-9] ("+" sum)?\n'
TAG = {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": {"type": "regex", "pattern": "x|y"}, "end": "</a>"}}


@pytest.mark.parametrize("field, value, pattern", [
    ("regex", "[a-c]{3}", "[a-c]{3}"),
    ("guided_regex", "[a-c]{3}", "[a-c]{3}"),
    ("ebnf", SUM, r"\([0-9](\+[0-9])*\)"),
    ("grammar", SUM, r"\([0-9](\+[0-9])*\)"),
    ("guided_grammar", SUM, r"\([0-9](\+[0-9])*\)"),
    ("json_schema", PERSON, r'\{ ?"age": ?-?[0-9]+ ?\}'),
    ("guided_json", json.dumps(PERSON), r'\{ ?"age": ?-?[0-9]+ ?\}'),
    ("guided_choice", ["yes", "no (really)"], r"yes|no \(really\)"),
    ("structured_outputs", {"json": PERSON, "regex": None}, r'\{ ?"age": ?-?[0-9]+ ?\}'),
    ("structured_outputs", {"regex": "[a-c]{3}"}, "[a-c]{3}"),
    ("structured_outputs", {"choice": ["yes", "no"], "json_object": False}, "yes|no"),
    ("structured_outputs", {"json_object": True}, r"\{.*\}"),
    ("structured_outputs", {"grammar": SUM}, r"\([0-9](\+[0-9])*\)"),
    ("structured_outputs", {"structural_tag": json.dumps(TAG)}, "<a>[xy]</a>"),
    ("response_format", TAG, "<a>[xy]</a>"),
    # 4,503 states: what an answer of 40 characters has no room for is left out
    ("json_schema", {"type": "string", "maxLength": 500}, '".*"'),
])
@pytest.mark.parametrize("policy", [DEFAULT_POLICY, "at_random + tokens_per_step(3) + stop_at_eos"])
def test_fields_of_other_servers_say_what_an_answer_is(server, field, value, pattern, policy):
    for path, asked in ((CHAT, {"messages": USER}), (TEXT, {"prompt": PROMPT})):
        body = {"model": "tiny", **asked, field: value, "policy": policy, "seed": 1}
        choice = httpx.post(server.url + path, json=body, timeout=60).json()["choices"][0]
        text = choice["message"]["content"] if path == CHAT else choice["text"]
        assert re.fullmatch(pattern, text) and choice["finish_reason"] == "stop"


class Blocks(Random):
    """Random rows, which depend on every token of the sequence."""

    context = 120

    def forward(self, sequences, rows):
        out = []
        for tokens, r in zip(sequences, rows):
            seen = np.random.default_rng(zlib.crc32(tokens.tobytes())).normal(0, 4, (len(tokens), 80)).astype(np.float32)
            seen[:, 77:] = -30
            seen[:, 78] = 4
            out.append(seen[r])
        return out


@pytest.mark.parametrize("policy", ["model:sdar", "model:llada2_1", "model:stable_diffcoder + trace_credit", "model:wedlm", "model:llada",
                                    "model:dream"])
def test_a_models_word_has_its_numbers(policy):
    """Its blocks, what is decoded beyond the answer, its length: the tokens of a session with the shape of the release."""
    model = Blocks()
    word = unmask.find_model(policy.split(" ")[0])
    with serving(model) as made:
        for prompt, length in (("0", 5), ("0123", 8), ("012345", 30), ("0" * 119, None), ("0" * 100, None), ("01", None)):
            tokens = model.encode(prompt)
            asked = {} if length is None else {"max_tokens": length}
            answer = httpx.post(made.url + TEXT, timeout=60, json={
                "model": "rows", "prompt": prompt, "policy": policy, "seed": 7, **asked}).json()
            if length is None:  # its own, or the longest that the context has room for
                fits = [n for n in range(1, word.answer_length + 1) if word.length(len(tokens), n) <= model.context]
                if not fits:
                    assert answer["error"]["code"] == "context_length_exceeded"
                    continue
                length = fits[-1]
            whole = word.length(len(tokens), length)
            session = unmask.Session(policy, vocab=80, mask_token=79, eos_token=78, length=whole, window=whole)
            decoded = np.array(tokens + [79] * (whole - len(tokens)), np.int32)
            session.start(0, decoded, prompt_length=len(tokens), seed=7, sequence=0, block_length=word.block_length or length)
            while (request := session.next()) is not None:
                (segment,) = request.segments
                session.supply(model.forward([decoded], [segment.rows]))
            expected = decoded[len(tokens) : len(tokens) + length].tolist()
            expected = expected[: expected.index(78)] if 78 in expected else expected
            assert answer["choices"][0]["text"] == "".join(chr(48 + t) for t in expected)
            assert answer["usage"]["forwards"] == session.report().forwards
            for body in ({"regex": "[0-9]{%d}" % min(length, 5)}, {"stream": True, "canvas": True}):
                more = httpx.post(made.url + TEXT, timeout=60, json={
                    "model": "rows", "prompt": prompt, "policy": policy, "max_tokens": length, **body})
                if "regex" in body:
                    assert re.fullmatch(body["regex"], more.json()["choices"][0]["text"])
                else:
                    events = [json.loads(line[6:]) for line in more.text.splitlines() if line.startswith('data: {"id"')]
                    canvases = [e for e in events if e["object"] == "unmask.canvas"]
                    assert canvases and {len(e["tokens"]) for e in canvases} == {length}
        refused = httpx.post(made.url + TEXT, json={"model": "rows", "prompt": "0123", "policy": policy, "max_tokens": 117})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "max_tokens"


def test_the_word_of_a_model_is_its_policy():
    class Released(Blocks):
        config = types.SimpleNamespace(model_type="llada_moe", _name_or_path="inclusionAI/LLaDA-MoE-7B-A1B-Instruct")

    def policy_of(**options):
        made = Server(model, **options)
        made.batch.close()
        return made.policy

    model = Released()
    assert policy_of() == DEFAULT_POLICY  # its mask token is not that of LLaDA-MoE
    model.mask_token = unmask.find_model("llada_moe").mask_token
    model.vocab = 156_896
    model.token_bytes = Rows.token_bytes + [b""] * (model.vocab - 80)
    model.forward = lambda sequences, rows: [
        np.pad(z, ((0, 0), (0, model.vocab - 80)), constant_values=-30) for z in Blocks.forward(model, sequences, rows)]
    with serving(model) as made:
        assert made.policy == "model:llada_moe" == made.client.models.list().data[0].policy
        answer = completed(made, "01", model="rows", max_tokens=4)
        assert (answer.policy, answer.usage.forwards) == ("model:llada_moe", 4)
        assert '"policy": "model:llada_moe", "length": 128, "block_length": 32' in httpx.get(made.url).text
    assert policy_of(policy="threshold(0.5)") == "threshold(0.5)"
    model.config.model_type = "another"
    assert policy_of() == DEFAULT_POLICY
    model.config.model_type = "diffusion_gemma"
    with pytest.raises(ValueError, match="policy 'model:diffusion_gemma': this server cannot run canvas"):
        Server(model)


@pytest.mark.parametrize("path, change, param, message", [
    (CHAT, {"model": "gpt"}, "model", "model must be 'tiny', got \"gpt\""),
    (CHAT, {"model": None}, "model", "model must be a string, got null"),
    (CHAT, {"messages": []}, "messages", "messages must be a list with at least one message, got []"),
    (CHAT, {"messages": "hi"}, "messages", "messages must be a list with at least one message, got \"hi\""),
    (CHAT, {"messages": [1]}, "messages[0]", "messages[0] must be an object, got 1"),
    (CHAT, {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "got \"robot\""),
    (CHAT, {"messages": [{"role": "user"}]}, "messages[0].content", "messages[0].content must be a string, got null"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]", "of type text"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "tool_calls": []}]}, "messages[0].tool_calls", "not supported"),
    (CHAT, {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]}, "messages[0].tool_calls[0]",
     "messages[0].tool_calls[0] must be an object of type function, with the object function, got {\"id\": \"1\"}"),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache": 1}]}]}, "messages[0].content[0].cache",
     "messages[0].content[0].cache is not supported, got 1"),
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
    (CHAT, {"temperature": 10**400}, "temperature", "temperature must be a number, at most 1e30 in size, got 1000"),
    (CHAT, {"logit_bias": {"5": -(10**400)}}, "logit_bias", "an object of tokens and numbers, at most 1e30 in size"),
    (CHAT, {"logit_bias": {"9" * 401: 1}}, "logit_bias", "as keys, got '999"),
    (CHAT, {"seed": 10**400}, "seed", "seed must be an integer"),
    (CHAT, {"max_tokens": 10**400}, "max_tokens", "must be at most 219"),
    (CHAT, {"n": -(10**400)}, "n", "n must be an integer"),
    (TEXT, {"prompt": [10**400]}, "prompt", "prompt must have tokens in [0, 98), got 1000"),
    (CHAT, {"temperature": "x" * 250_000}, "temperature", "temperature must be a number"),
    (CHAT, {"top_k": [1] * 10**4}, "top_k", "top_k must be a number"),
    (CHAT, {"temperature": 1, "policy": "threshold(0.9) + temperature(2)"}, "temperature",
     "temperature must not be given with a policy that has temperature, got 1"),
    (CHAT, {"policy": "timesteps(5000)"}, "policy", "may take 5039 forward passes for this answer of 40 positions, "
     "at most 1792 are allowed: give it fewer steps or add max_steps(1792)"),
    (CHAT, {"policy": "timesteps(2147483647)"}, "policy", "forward passes for this answer"),
    (CHAT, {"policy": "timesteps(5000) + max_steps(1793)"}, "policy", "may take 1793 forward passes"),
    (CHAT, {"policy": "remdm_loop(1,0.5,2147483647)"}, "policy", "forward passes for this answer"),
    (CHAT, {"policy": "threshold(0.9) + edit_committed(0.1) + edited_blocks(2147483647)"}, "policy", "forward passes for this answer"),
    (CHAT, {"policy": "threshold(0.9)" + " " * 4096}, "policy", "policy must have at most 4096 characters, got 4110"),
    (CHAT, {"policy": "\ud800"}, "policy", "policy must be Unicode"),
    (CHAT, {"\udfff": 1}, "\\udfff", "\\udfff must be Unicode"),
    (CHAT, {"x" * 250_000: 1}, "x" * 97 + "...", "there is no field \"xxxx"),
    (CHAT, {"user": {"a": ["\udc00"]}}, "user", "user must be Unicode"),
    (CHAT, {"model": "\ud800"}, "model", "model must be Unicode"),
    (CHAT, {"stop": ["a", "\ud800"]}, "stop", "stop must be Unicode"),
    (CHAT, {"regex": "\ud83d"}, "regex", "regex must be Unicode"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"schema": {"\ud83d": 1}}}}, "response_format", "must be Unicode"),
    (CHAT, {"messages": [{"role": "user", "content": "a", "\udfff": 1}]}, "messages[0].\\udfff", "\\udfff is not supported, got 1"),
    (CHAT, {"messages": [{"role": "\ud800", "content": "a"}]}, "messages[0].role", "got \"\\ud800\""),
    (CHAT, {"messages": [{"role": "user", "name": "\ud800", "content": "a"}]}, "messages", "messages must be Unicode"),
    (TEXT, {"prompt": "\ud800"}, "prompt", "the model knows"),
    (CHAT, {"stop": "a" * 1025}, "stop", "stop must have at most 1024 characters, got 1025"),
    (CHAT, {"regex": "a" * 65537}, "regex", "regex must have at most 65536 characters, got 65537"),
    (CHAT, {"metadata": [[]] * 50_000}, None, "the body must have at most 81920 of the characters"),
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
    (TEXT, {"tools": [{"type": "function"}]}, "tools", "tools is not supported: tools are of a chat"),
    (CHAT, {"logprobs": True, "stream": True}, "logprobs", "logprobs must not be given with stream"),
    (CHAT, {"top_logprobs": 2}, "top_logprobs", "top_logprobs must be given with logprobs=true"),
    (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs", "top_logprobs must be an integer, in [0, 20], got 21"),
    (CHAT, {"logprobs": 1}, "logprobs", "logprobs must be true or false, got 1"),
    (TEXT, {"logprobs": True}, "logprobs", "logprobs must be an integer, in [0, 20], got true"),
    (CHAT, {"reasoning_effort": "high"}, "reasoning_effort", "reasoning_effort is not supported"),
    (CHAT, {"temprature": 1}, "temprature", "there is no field \"temprature\"; did you mean temperature?"),
    (CHAT, {"response_format": {"type": "xml"}}, "response_format", "of type text, json_object, json_schema or structural_tag, got"),
    (CHAT, {"response_format": {"type": "structural_tag"}}, "response_format", "structural_tag: "),
    (CHAT, {"regex": "a", "ebnf": "root ::= a"}, "ebnf", "ebnf must not be given with regex: both say what the answer is"),
    (CHAT, {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs",
     "structured_outputs must not be given with response_format"),
    (CHAT, {"ebnf": "root ::= a"}, "ebnf", "grammar: line 1, column 10"),
    (CHAT, {"grammar": 3}, "grammar", "grammar must be a string, got 3"),
    (TEXT, {"guided_grammar": "a" * 65537}, "guided_grammar", "guided_grammar must have at most 65536 characters, got 65537"),
    (TEXT, {"json_schema": True}, "json_schema", "json_schema must be an object, or its JSON as a string, got true"),
    (TEXT, {"guided_json": "{"}, "guided_json", "json_schema: "),
    (TEXT, {"guided_choice": []}, "guided_choice", "guided_choice must be a list of strings, at least one, got []"),
    (TEXT, {"guided_choice": ["a", 1]}, "guided_choice", "guided_choice must be a list of strings, at least one"),
    (TEXT, {"structured_outputs": {"choice": ["a" * 8000, "b" * 8385]}}, "structured_outputs.choice",
     "structured_outputs.choice must have at most 16384 bytes together, got 16385"),
    (TEXT, {"structured_outputs": {"choice": ["a" * 41]}}, None, "tokens"),
    (TEXT, {"structured_outputs": 1}, "structured_outputs", "structured_outputs must be an object, got 1"),
    (TEXT, {"structured_outputs": {}}, "structured_outputs",
     "structured_outputs must have one of json, regex, choice, json_object, grammar, structural_tag, and no other, got {}"),
    (TEXT, {"structured_outputs": {"json_object": "yes"}}, "structured_outputs.json_object",
     "structured_outputs.json_object must be true, got \"yes\""),
    (TEXT, {"structured_outputs": {"regex": "a", "whitespace_pattern": " "}}, "structured_outputs", "and no other"),
    (TEXT, {"structured_outputs": {"regex": 1}}, "structured_outputs.regex", "structured_outputs.regex must be a string, got 1"),
    (CHAT, {"policy": "model:nonsense"}, "policy", "nonsense"),
    (CHAT, {"policy": "model:diffusion_gemma"}, "policy", "this server cannot run canvas"),
    (CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "must be an object, got null"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array", "uniqueItems": True}}}},
     "response_format", "/uniqueItems: is kept for items of at most 10 constants"),
    (CHAT, {"regex": "(["}, "regex", "regex: column 2: this class is not closed"),
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
    body = {"model": "tiny", **({"messages": USER} if path == CHAT else {"prompt": PROMPT}), **change}
    answer = httpx.post(server.url + path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == (404 if change.get("model") == "gpt" else 400), answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["param"] == param and message in error["message"]
    assert len(answer.content) < 1500  # what came is cut
    until(lambda: server.batch.load()["running"] == server.batch.load()["waiting"] == 0)


@pytest.mark.parametrize("body, message", [
    (b"", "the body must be JSON"),
    (b"{", "the body must be JSON"),
    (b"\xff\xfe", "the body must be JSON"),
    (b"[]", "the body must be an object, got []"),
    (b"[" * 100000, "the body"),
    (b'{"temperature": NaN}', "NaN is not a number of JSON"),
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


def test_refusals_of_one_client_are_spaced_and_hold_up_nobody_else():
    with serving(limits=Limits(apart=0.2)) as made, contextlib.ExitStack() as clients:
        def from_(host):
            return clients.enter_context(httpx.Client(transport=httpx.HTTPTransport(local_address=host), timeout=60))

        one, other = from_("127.0.0.1"), from_("127.0.0.2")

        def seconds(client, times, send):
            begin = time.monotonic()
            assert [send(client) for _ in range(times)] == [404] * times
            return time.monotonic() - begin

        def absent(client):
            return client.get(made.url + "/absent").status_code

        assert seconds(one, 10, absent) < 0.2
        assert 0.8 < seconds(one, 5, absent) < 2
        assert seconds(other, 1, absent) < 0.2
        begin = time.monotonic()
        assert one.post(made.url + TEXT, json={"model": "tiny", "prompt": PROMPT}).status_code == 200
        assert time.monotonic() - begin < 0.2  # an answer is no refusal


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
        assert f"must have at most {(256 << 10) + 64 * Tiny().context} bytes" in answer.json()["error"]["message"]
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


def test_the_passes_of_an_answer_have_a_limit():
    assert Limits().forwards is None
    with serving(limits=Limits(forwards=9)) as made:
        assert completed(made, max_tokens=9, policy="tokens_per_step(1)").usage.forwards == 9
        assert completed(made, max_tokens=30, policy="tokens_per_step(1) + max_steps(9)").usage.forwards == 9
        with pytest.raises(openai.BadRequestError, match="may take 10 forward passes .* at most 9 are allowed"):
            completed(made, max_tokens=10, policy="tokens_per_step(1)")


def test_the_limit_of_passes_refuses_no_part_as_it_is(server):
    """Methods and parts with their own arguments, in answers of any length."""
    tried = 0
    for line in unmask.describe_parts().splitlines():
        if line and not line.startswith(" "):
            for policy in (line.split("(")[0], line.split("(")[0] + " + threshold(0.9)"):
                for length in (1, 8, 40, 219):
                    body = {"model": "tiny", "prompt": PROMPT, "policy": policy, "max_tokens": length}
                    try:
                        read(body, server.batch, chat=False, policy=DEFAULT_POLICY, most_state=1 << 28)
                        tried += 1
                    except Refused as error:  # of a part that is no policy, or not this server's
                        assert "forward passes" not in str(error)
    assert tried > 200


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


@pytest.mark.parametrize("fields", [{"stream": True}, {}, {"logprobs": 5, "n": 4}])
def test_a_client_that_reads_nothing_is_given_up(fields):
    made = Server(Tiny(), limits=Limits(stalled=0.1))
    body = json.dumps({"model": "tiny", "prompt": PROMPT, **fields}).encode()
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


def of_client(host, path, port, body, seconds=30):
    """The status, and the seconds to the first text of a stream, for a client with an address of its own."""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=seconds, source_address=(host, 0)) as client:
        data = json.dumps({"model": "tiny", **body}).encode()
        client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                       b"Content-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
        answer = b""
        while not re.search(rb'"text":"[^"]', answer) and (more := client.recv(1 << 16)):
            answer += more
    return answer, time.monotonic() - begin


class Counting(Tiny):
    """Passes one after another, each with a length of its own."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, sequences, rows):
        self.calls += [len(tokens) for tokens in sequences]
        time.sleep(0.01)
        return [np.tile(np.eye(98, dtype=np.float32)[40] * 20, (r.stop - r.start, 1)) for r in rows]


@pytest.mark.parametrize("hosts", [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "127.0.0.2")])
@pytest.mark.parametrize("together", [1, 16])
def test_who_holds_every_slot_holds_up_nobody(hosts, together):
    """16 long answers of one client: the first text of another comes with the first pass after the one that runs."""
    model = Counting()
    model.together = together
    holds = {"prompt": "x" * 30, "max_tokens": 200, "policy": "left_to_right + tokens_per_step(1)", "stream": True}
    with serving(model) as made:
        held = [socket.create_connection(made.address, source_address=(hosts[0], 0)) for _ in range(16)]
        data = json.dumps({"model": "tiny", **holds}).encode()
        for client in held:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(data) + data)
        until(lambda: made.batch.load()["running"] == 16 and not any(j.fresh() for j in list(made.batch._running.values())))
        del model.calls[:]
        answer, _ = of_client(hosts[1], TEXT, made.address[1], {"prompt": "y" * 7, "max_tokens": 3, "stream": True})
        assert b"200 OK" in answer
        first = model.calls.index(11)
        assert first <= 3 + 2 * (together if together > 1 else 0) * 2, model.calls[: first + 1]
        for client in held:
            client.close()


def test_a_client_with_many_answers_leaves_places_and_turns_to_others():
    """It fills the queue, too: another's answer takes the place of its newest one, which gets status 429."""
    model = Counting()
    batch = Batch(model, slots=4, waiting=8)
    policy = "left_to_right + tokens_per_step(1)"
    many = [Job([2, 3], 60, policy, block_length=20, client="many") for _ in range(12)]
    batch.submit(many[:4])
    until(lambda: batch.load()["running"] == 4)  # three quarters of 6
    batch.submit(many[4:])
    assert batch.load()["waiting"] == 8
    with pytest.raises(Exception, match="8 answers wait already"):
        batch.submit([Job([2, 3], 60, policy, block_length=20, client="many")])
    other = Job([2, 3, 4], 3, policy, block_length=3, client="other")
    batch.submit([other])
    assert "8 answers wait already" in str(many[-1].view.error) and many[-2].view.error is None
    until(lambda: other.view.ended)
    assert other.view.finish_reason == "length" and not any(job.view.ended for job in many[:-1])
    for job in many:
        job.gone = True
    batch.close()


def test_an_error_that_comes_while_an_answer_is_looked_at_is_no_answer():
    from unmask.serve.app import _Submitted

    waiting = object.__new__(_Submitted)
    view = types.SimpleNamespace(error=None)
    waiting._jobs, waiting._changed = [types.SimpleNamespace(view=view)], asyncio.Event()

    def ready():
        view.error = ValueError("it has no room")  # by the thread of the batch; it ends the job
        return True

    with pytest.raises(Refused, match="it has no room"):
        asyncio.run(waiting._until(ready, time.monotonic() + 1))


def test_hostile_languages_are_refused_while_others_are_answered(server):
    """Requests that compile for seconds, or would need any number of states: the server answers others meanwhile."""
    letters = {"type": "string", "pattern": r"^\p{L}{1,200000}$"}
    hostile = [
        {"regex": ".*a.{17}"}, {"regex": r"\p{L}{1,100000}"}, {"regex": "((((a{0,1000}){0,1000}){0,1000}){0,1000})"}, {"regex": "(" * 30_000},
        *({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}} for schema in (
            letters, {"enum": [{"a": i, "b": [i] * 5} for i in range(6_000)]}, {"$ref": "#"},
            {"patternProperties": {f"a.{{{i}}}b": {} for i in range(60)}}, {"type": "string", "minLength": 10**9})),
        {"tools": [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object", "properties": {
            "x": {"type": "string", "pattern": f"a.{{1{i}}}$"}}}}} for i in range(8)], "tool_choice": "required"},
    ]
    bodies = [{"model": "tiny", "messages": USER, **body} for body in hostile]
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        sent = [pool.submit(httpx.post, server.url + CHAT, json=body, timeout=300) for body in bodies]
        waits = []
        while not all(answer.done() for answer in sent):
            begin = time.monotonic()
            assert httpx.get(server.url + "/health", timeout=60).status_code == 200
            waits.append(time.monotonic() - begin)
            time.sleep(0.02)
            if len(waits) == 5:
                answer = httpx.post(server.url + TEXT, json={"model": "tiny", "prompt": PROMPT}, timeout=60)
                assert answer.status_code == 200
    for body, answer in zip(hostile, sent):
        assert answer.result().status_code == 400, (str(body)[:80], answer.result().text[:200])
        assert len(answer.result().content) < 1500
    assert len(waits) > 5 and sorted(waits)[int(0.9 * len(waits))] < 1, sorted(waits)[-5:]


def test_clients_take_turns_to_compile():
    """A client has one of the two compilers; what was asked before by one that has it does not go first."""
    from unmask.serve.app import _Turns

    begun, gates = [], {}

    def work(name):
        gates[name] = threading.Event()

        def run():
            begun.append(name)
            assert gates[name].wait(10)
            return name

        return run

    async def main():
        turns = _Turns(2)
        first = [asyncio.ensure_future(turns.run(work(f"a{i}"), "a")) for i in range(4)]
        await asyncio.sleep(0.1)
        assert begun == ["a0"]
        other = asyncio.ensure_future(turns.run(work("b0"), "b"))
        await asyncio.sleep(0.1)
        assert begun == ["a0", "b0"]
        third = asyncio.ensure_future(turns.run(work("c0"), "c"))
        first[1].cancel()  # its client is gone
        await asyncio.sleep(0.1)
        gates["a0"].set()
        await asyncio.sleep(0.1)
        assert begun == ["a0", "b0", "c0"] and not other.done()
        for gate in gates.values():
            gate.set()
        assert await asyncio.gather(*first[2:], other, third) == ["a2", "a3", "b0", "c0"]
        assert begun[3:] == ["a2", "a3"] and turns._running.total() == 0

    asyncio.run(main())


def test_the_steps_of_a_pass_that_was_cut_are_the_same(model):
    """An answer that arrives within a pass cuts it: what was computed is used, the rest is asked again."""
    class Arriving(Tiny):
        def __init__(self):
            super().__init__()
            self.later, self.calls = [], 0

        def forward(self, sequences, rows):
            self.calls += 1
            if self.calls % 7 == 0 and self.later:
                batch.submit([self.later.pop()])
            return super().forward(sequences, rows)

    arriving = Arriving()
    batch = Batch(arriving, branches=2)
    policies = ["tokens_per_step(1)", "tokens_per_step(1) + sampling(2)", "threshold(0.9) + lookahead(2)", "remask_below(0.4) + tokens_per_step(2)"]
    tasks = [(task["prompt"], policies[i % 4], i) for i, task in enumerate(problems()[:24])]
    jobs = [Job(arriving.encode(prompt), 40, policy, block_length=20, seed=seed, client=seed % 3) for prompt, policy, seed in tasks]
    arriving.later = jobs[6:]
    batch.submit(jobs[:6])
    until(lambda: all(job.view.ended for job in jobs), 60)
    batch.close()
    for job, (prompt, policy, seed) in zip(jobs, tasks):
        alone = decode(model, policy, prompt, seed=seed)
        assert (job.view.text, job.view.report.forwards) == (alone.text, alone.report.forwards)


def test_a_call_of_the_model_is_given_up_for_a_new_answer_every_other_time_at_most(model):
    class Interrupted(Tiny):
        def __init__(self):
            super().__init__()
            self.calls, self.later = [], []

        def _between_layers(self):
            if len(self.calls[-1][0]) == old and self.later and batch.load()["running"] + batch.load()["waiting"] == 1:
                batch.submit([self.later.pop()])
            super()._between_layers()

        def forward(self, sequences, rows):
            self.calls.append((sequences[0], False))
            try:
                return super().forward(sequences, rows)
            except GivenUp:
                self.calls[-1] = (sequences[0], True)
                raise

    interrupted = Interrupted()
    batch = Batch(interrupted)
    prompts = [task["prompt"] for task in problems()[:7]]
    first, *later = [Job(interrupted.encode(prompt), 2 if i else 40, "tokens_per_step(1)", block_length=20, client=i)
                     for i, prompt in enumerate(prompts)]
    old = len(first.prompt) + 40
    assert all(len(job.prompt) + 2 != old for job in later)
    interrupted.later = later
    batch.submit([first])
    until(lambda: all(job.view.ended for job in (first, *later)), 60)
    batch.close()
    own = [given_up for tokens, given_up in interrupted.calls if len(tokens) == old]
    assert sum(own) >= 3 and not any(a and b for a, b in zip(own, own[1:]))
    at = next(i for i, (_, given_up) in enumerate(interrupted.calls) if given_up)
    assert len(interrupted.calls[at + 1][0]) != old  # the answer for which it was
    assert not any(given_up for tokens, given_up in interrupted.calls if len(tokens) != old)
    for job, prompt in zip((first, *later), prompts):
        alone = decode(model, "tokens_per_step(1)", prompt, length=job.length, block_length=min(20, job.length))
        assert (job.view.text, job.view.report.forwards) == (alone.text, alone.report.forwards)


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


def test_a_model_that_fails_fails_its_answers_alone(caplog):
    class Failing(Tiny):
        def forward(self, sequences, rows):
            if any(len(tokens) == 8 for tokens in sequences):
                raise OSError("no memory")
            return super().forward(sequences, rows)

    with serving(Failing()) as made:
        for stream in (False, True):
            with pytest.raises(openai.APIError, match="the model failed, twice; the server's log has the reason") as failed:
                for _ in made.client.completions.create(model="tiny", prompt="ab", max_tokens=5, stream=stream):
                    pass
            assert "no memory" not in str(failed.value.body)
        assert failed.value.body["type"] == "server_error"
        assert any(str(r.exc_info[1]) == "no memory" for r in caplog.records if r.name == "unmask.serve")  # with its traceback
        assert completed(made).choices[0].text == "2+8=10;#10"
        assert made.batch.load()["running"] == 0


def test_a_pass_that_fails_once_is_tried_again():
    """Answers that share it are tried one by one: the one that the model cannot compute fails alone."""
    class Together(Tiny):
        together, calls, down = 16, 0, False

        def forward(self, sequences, rows):
            self.calls += 1
            if any(len(tokens) == 8 for tokens in sequences) or self.calls == 5:
                raise OSError("no memory")
            return super().forward(sequences, rows)

    batch = Batch(Together())
    batch._wake.acquire()  # all of them come at once
    prompts = [batch.model.encode(p) for p in (PROMPT, "ab", "J:age 27")]
    jobs = [Job(p, 5 if len(p) == 3 else 40, "threshold(0.9)", block_length=20) for p in prompts]
    batch.submit(jobs)
    batch._wake.release()
    until(lambda: all(job.view.ended for job in jobs))
    batch.close()
    assert "failed, twice" in str(jobs[1].view.error) and batch.model.calls > 4
    assert jobs[0].view.error is None and jobs[0].view.text == "2+8=10;#10" and jobs[2].view.finish_reason


def test_policies_with_branches_and_those_that_need_much_memory():
    with serving(branches=3, limits=Limits(state=1 << 18)) as made:
        plain = decode(TinyLlada(), "threshold(0.9) + lookahead(3)", PROMPT)
        answer = completed(made, policy="threshold(0.9) + lookahead(3)")
        assert (answer.choices[0].text, answer.usage.forwards) == (plain.text, plain.report.forwards)
        with pytest.raises(openai.BadRequestError, match="bytes for this answer, at most 262144 are allowed"):
            completed(made, "a", policy="trace_credit + threshold(0.9)", max_tokens=250, block_length=250)


def test_a_stop_sequence_is_found_in_what_the_decoder_flushes():
    """A text that ends within a character ends with U+FFFD."""
    class Bytes(Rows):
        token_bytes = [b"a", b"\xf0\x9f"] + [b""] * 78

        def forward(self, sequences, rows):
            out = []
            for r in rows:
                logits = np.zeros((r.stop - r.start, 80), np.float32)
                for i, p in enumerate(range(r.start, r.stop)):
                    logits[i, {1: 0, 2: 1}.get(p, 78)] = 20
                out.append(logits)
            return out

    model = Bytes([])
    for length, policy in ((2, "threshold(0.9)"), (9, "threshold(0.9)"), (9, "threshold(0.9) + remask_below(0.1)")):
        for stop, text in (([], "a\ufffd"), (["\ufffd"], "a"), (["a\ufffd"], ""), (["\ufffdx"], "a\ufffd")):
            batch = Batch(model)
            job = Job([5], length, policy, block_length=length, stop=stop)
            batch.submit([job])
            until(lambda: job.view.ended)
            batch.close()
            assert (job.view.text, job.view.finish_reason) == (text, "stop" if length == 9 or text != "a\ufffd" else "length")


def test_stop_sequences_are_found_as_by_search():
    random = np.random.default_rng(0)
    for _ in range(2000):
        stop = "".join(random.choice(list("ab"), random.integers(1, 8)))
        text = "".join(random.choice(list("ab"), 40))
        reader, seen, at = _Stop(stop), "", None
        while at is None and len(seen) < len(text):
            more = text[len(seen) : len(seen) + random.integers(1, 6)]
            at = reader.read(more)
            if at is None:
                seen += more
                held = max((n for n in range(len(stop)) if seen.endswith(stop[:n])), default=0)
                assert reader.matched == held
        found = text.find(stop)
        assert (found if found >= 0 else None) == (None if at is None else len(seen) + at - len(stop))


def test_many_answers_of_a_request_share_what_is_read_of_it(server):
    """256 answers with long stop texts and a long policy begin at once: nothing is computed for each."""
    policy = "any_of(" + ", ".join(["threshold(0.9)"] * 200) + ")"
    begin = time.perf_counter()
    for i in range(256):
        Job([2], 5, policy, block_length=5, stop=[c * 1000 + "x" for c in "abcd"])
    assert time.perf_counter() - begin < 0.5


def test_nobody_waits_while_many_log_probabilities_are_written(server):
    body = {"model": "tiny", "prompt": ["x" * 30] * 16, "n": 4, "max_tokens": 40, "logprobs": 20, "policy": "tokens_per_step(40)"}
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        many = pool.submit(httpx.post, server.url + TEXT, json=body, timeout=120)
        waits = []
        while not many.done():
            begin = time.perf_counter()
            assert httpx.get(server.url + "/health").status_code == 200
            waits.append(time.perf_counter() - begin)
    choices = many.result().json()["choices"]
    assert len(choices) == 64 and all(len(c["logprobs"]["top_logprobs"]) == len(c["text"]) for c in choices)
    assert [c["index"] for c in choices] == list(range(64)) and max(waits) < 2


def test_long_stop_sequences_take_linear_time():
    """As long as the answer, and beginning with it: neither the pass nor the thread of others waits."""
    reader = _Stop("a" * 10**5 + "b")
    begin = time.perf_counter()
    for _ in range(10):
        assert reader.read("a" * 10**4) is None
    assert time.perf_counter() - begin < 2  # quadratic: minutes


def test_answers_come_back_as_history(server):
    """Those of the official client, as it has them and as it writes them."""
    said = server.client.chat.completions.create(model="tiny", messages=USER).choices[0].message
    plain = {"role": "assistant", "content": said.content}
    forms = [said, said.model_dump(), plain, {**plain, "refusal": None, "annotations": [], "audio": None, "function_call": None,
                                              "tool_calls": []}, {**plain, "tool_calls": None, "refusal": ""}]
    last = {"role": "user", "content": "Q:Ed has 3 keys. Buys 4. How many?"}
    answers = {server.client.chat.completions.create(model="tiny", messages=[*USER, form, last]).choices[0].message.content
               for form in forms}
    assert len(answers) == 1
    whole = httpx.post(server.url + CHAT, json={"model": "tiny", "messages": USER}).json()["choices"][0]["message"]
    for silent in (whole, {"role": "assistant", "content": None}, {"role": "assistant"}):
        assert httpx.post(server.url + CHAT, json={"model": "tiny", "messages": [*USER, silent, last]}).status_code == 200


def test_headers_that_never_end():
    with serving(limits=Limits(headers=0.3)) as made:
        clients = [socket.create_connection(made.address) for _ in range(4)]
        clients[1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        clients[2].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")  # its second request never ends
        clients[2].settimeout(5)
        assert b"200" in clients[2].recv(1 << 16)
        clients[2].sendall(b"GET /he")
        begin = time.monotonic()
        for client in clients[:3]:
            client.settimeout(5)
            with contextlib.suppress(OSError):
                while client.recv(1 << 16):
                    pass
        assert 0.2 < time.monotonic() - begin < 3
        for byte in b"GET /health HTTP/1.1\r\nX: ":  # one at a time: the time is that of all of them
            with contextlib.suppress(OSError):
                clients[3].send(bytes([byte]))
            time.sleep(0.05)
        clients[3].settimeout(5)
        with contextlib.suppress(ConnectionError):
            assert clients[3].recv(1) == b""
        for client in clients:
            client.close()
        gated = completed(made)  # an answer that takes longer than headers may
        assert gated.choices[0].text == "2+8=10;#10"
    with serving(Slow(), limits=Limits(headers=0.2)) as made:
        assert completed(made, policy="tokens_per_step(1)").usage.forwards == 40


def test_a_key_that_is_none():
    for key in ("", " ", "\n", "key\n"):
        with pytest.raises(ValueError, match="api_key must be a text without space at its ends"):
            Server(Tiny(), api_key=key)


def test_keys_are_utf_8():
    with serving(api_key="schl\u00fcssel \u9375") as made:
        for head, status in (("Bearer schl\u00fcssel \u9375".encode(), 200), ("Bearer schl\u00fcssel".encode("latin-1"), 401)):
            assert httpx.get(made.url + "/v1/models", headers={"Authorization": head}).status_code == status


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
    assert "--max-forwards must be at least 1, got 0" in refused("--max-forwards", "0")
    assert "api_key must be a text without space" in refused("--api-key", "")
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
        said = running.stderr.read().decode()
        assert (f"model tiny, policy {DEFAULT_POLICY}, 16 slots, a context of 256 tokens, no key. Page http://127.0.0.1:{port}/, "
                "API /v1, numbers /metrics") in said
        assert re.search(r"INFO id=req-[0-9a-f]{32} client=127.0.0.1 method=GET path=/health status=200 seconds=", said)
    finally:
        running.kill()
        running.stderr.close()


def test_the_log_of_the_command_has_a_level():
    command = [sys.executable, "-m", "unmask", "serve", "--port", "0", "--log-level"]
    assert "argument --log-level: invalid choice: 'loud'" in subprocess.run([*command, "loud"], capture_output=True, text=True).stderr
    running = subprocess.Popen([*command, "info"], stderr=subprocess.PIPE, text=True)
    try:
        port = int(next(found for line in running.stderr if (found := re.search(r"Page http://127.0.0.1:(\d+)/", line)))[1])
        assert port > 0 and httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    finally:
        running.kill()
        running.stderr.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert subprocess.run([sys.executable, "-m", "unmask", "serve", "--port", port], capture_output=True, timeout=60).returncode in (1, 3)
    quiet = subprocess.Popen([sys.executable, "-m", "unmask", "serve", "--port", port, "--log-level", "warning"],
                             stderr=subprocess.PIPE, text=True)
    try:
        def up():
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200

        until(up, 30)
        quiet.send_signal(signal.SIGINT)
        quiet.wait(20)
        assert quiet.stderr.read() == ""
    finally:
        quiet.kill()
        quiet.stderr.close()


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


def lines_of(caplog):
    """The lines about requests, as dicts."""
    lines = [r.getMessage() for r in caplog.records if r.name == "unmask.serve" and r.getMessage().startswith("id=req-")]
    return [dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', line)) for line in lines]


def test_a_line_about_each_request(caplog):
    caplog.set_level("INFO", "unmask.serve")
    with serving() as server:
        raw = server.client.completions.with_raw_response.create(model="tiny", prompt=PROMPT, extra_body={"policy": "tokens_per_step(5)\n"})
        answer = raw.parse()
        assert raw.headers["x-request-id"] == "req-" + answer.id.removeprefix("cmpl-")
        stream = list(server.client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": PROMPT}], stream=True, n=2, stream_options={"include_usage": True}))
        with pytest.raises(openai.BadRequestError) as refused:
            server.client.completions.create(model="tiny", prompt="SECRET\nid=req-forged", extra_body={"policy": "SECRET"})
        httpx.get(server.url + "/SECRET%0Aid=req-forged")
    plain, streamed, bad, other = lines_of(caplog)
    assert plain["id"] == raw.headers["x-request-id"] and (plain["path"], plain["status"], plain["answers"]) == ("/v1/completions", "200", "1")
    assert json.loads(plain["policy"]) == answer.policy and int(plain["passes"]) == answer.usage.forwards
    assert int(plain["tokens"]) == answer.usage.completion_tokens and int(plain["prompt_tokens"]) == answer.usage.prompt_tokens
    assert 0 < float(plain["first"]) <= float(plain["seconds"])
    assert streamed["answers"] == "2" and int(streamed["passes"]) == stream[-1].usage.forwards and float(streamed["first"]) > 0
    assert (bad["status"], bad["path"]) == ("400", "/v1/completions") and "policy" not in bad
    assert bad["id"] == refused.value.response.headers["x-request-id"]
    assert (other["status"], other["path"]) == ("404", "other")
    assert "SECRET" not in caplog.text and "forged" not in caplog.text and PROMPT not in caplog.text


class Fails(Tiny):
    def encode(self, text):
        if "fail" in text:
            raise RuntimeError("SECRET of the machine")
        return super().encode(text)


def test_what_fails_is_in_the_log_and_not_in_the_answer(caplog):
    with serving(Fails()) as server:
        with pytest.raises(openai.InternalServerError) as failed:
            completed(server, "fail")
        assert failed.value.body["message"] == "the server failed; its log has the reason"
        assert completed(server).choices[0].text
        text = httpx.get(server.url + "/metrics").text
    (record,) = [r for r in caplog.records if r.exc_info]
    assert record.getMessage() == f"request {failed.value.response.headers['x-request-id']} failed"
    assert "SECRET of the machine" in caplog.text and "SECRET" not in failed.value.response.text
    assert 'unmask_errors_total{kind="failed"} 1' in text


def numbers_of(server, **headers):
    """The samples of /metrics, read by the client of Prometheus where it is there."""
    text = httpx.get(server.url + "/metrics", headers=headers)
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.text.splitlines() if not line.startswith("#")}
    found = {}
    for family in text_string_to_metric_families(text.text):
        assert family.documentation and family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            labels = ",".join(f'{k}="{v}"' for k, v in sample.labels.items())
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def test_numbers_for_prometheus():
    with serving(slots=3) as server:
        answers = [completed(server, max_tokens=8 + i) for i in range(3)]
        failed = 0
        for body in ({"model": "none", "prompt": "a"}, {"model": "tiny", "prompt": "a", "n": -1}):
            failed += httpx.post(server.url + "/v1/completions", json=body).status_code >= 400
        for i in range(30):
            httpx.request("GET" if i % 2 else "PUT", f"{server.url}/path{i}?q={i}")
        found = numbers_of(server)
        forwards = sum(a.usage.forwards for a in answers)
        assert found['unmask_requests_total{path="/v1/completions",status="200"}'] == 3
        assert found['unmask_requests_total{path="other",status="404"}'] == 30
        assert found['unmask_errors_total{kind="not_found"}'] == 31 and found['unmask_errors_total{kind="invalid_request"}'] == 1
        assert found["unmask_slots"] == 3 and found["unmask_answers_running"] == found["unmask_answers_waiting"] == 0
        assert found["unmask_answer_passes_total"] == forwards == found["unmask_steps_total"] == found["unmask_step_seconds_count"]
        assert found["unmask_tokens_total"] == round(sum(a.usage.forwards * a.usage.tokens_per_forward for a in answers))
        assert sum(v for k, v in found.items() if k.startswith("unmask_answers_total")) == found["unmask_tokens_per_pass_count"] == 3
        assert found['unmask_step_seconds_bucket{le="+Inf"}'] == forwards and found["unmask_step_seconds_sum"] > 0
        again = numbers_of(server)
        assert again['unmask_requests_total{path="/metrics",status="200"}'] == 1
        assert len(again) <= len(found) + 1  # of /metrics itself: nothing that a client sends is a label


def test_numbers_of_answers_that_fail_or_whose_client_goes():
    class Broken(Tiny):
        def forward(self, sequences, rows):
            raise RuntimeError("broken")

    with serving(Broken()) as server:
        with pytest.raises(openai.InternalServerError):
            completed(server)
        assert numbers_of(server)['unmask_answers_total{end="failed"}'] == 1
    with serving(Slow()) as server:
        stream = server.client.completions.create(model="tiny", prompt=PROMPT, stream=True, max_tokens=150,
                                                  extra_body={"policy": "tokens_per_step(1)"})
        next(iter(stream))
        stream.close()
        until(lambda: server.batch.counted.answers["gone"] == 1)
        until(lambda: numbers_of(server).get('unmask_errors_total{kind="gone"}') == 1)


def test_numbers_need_the_key():
    with serving(api_key="abc") as server:
        assert httpx.get(server.url + "/metrics").status_code == 401
        assert numbers_of(server, Authorization="Bearer abc")["unmask_slots"] == 16


@pytest.mark.parametrize("canvas", [False, True])
def test_a_stream_without_final_text_has_comments(canvas):
    """Under a policy that rewrites tokens the text comes at the end."""
    policy = "remask_below(0.2) + tokens_per_step(1)"
    with serving(Slow(), limits=Limits(heartbeat=5.0 if canvas else 0.1)) as server:
        body = {"model": "tiny", "prompt": PROMPT, "policy": policy, "stream": True, "canvas": canvas, "seed": 1}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=60) as response:
            lines = list(response.iter_lines())
        beats = [line for line in lines if line.startswith(":")]
        assert all(re.fullmatch(r": pass [0-9]+", line) for line in beats)
        assert (len(beats) == 0) if canvas else 3 < len(beats), beats
        passes = [int(line.split()[2]) for line in beats]
        assert passes == sorted(passes) and (canvas or len(set(passes)) > 3)
        events = list(server.client.completions.create(model="tiny", prompt=PROMPT, stream=True, extra_body={"policy": policy, "seed": 1}))
        assert "".join(e.choices[0].text for e in events) == completed(server, policy=policy, seed=1).choices[0].text
    with serving(Gated(), limits=Limits(heartbeat=0.05)) as server:  # while a pass takes long, too
        body = {"model": "tiny", "prompt": PROMPT, "stream": True}
        with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            for line in lines:
                if line.startswith(": pass 0"):
                    break
            server.model.gate.release(1000)
            assert "data: [DONE]" in list(lines)
