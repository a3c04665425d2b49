# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sampling settings of requests as parts of a policy: what is drawn is what a sampler would draw."""
import numpy as np
import pytest
import unmask
from draws import probability_of_a_fit, sampled, softmax
from unmask import _settings

VOCAB, MASK, PROMPT = 40, 39, [3, 4, 4, 9, 11]
ROW = np.random.default_rng(5).normal(size=VOCAB).astype(np.float32) * 2
ROW[MASK] = -30


def drawn(policy, row=ROW, count=6000, confidences=None):
    """How often each token was drawn for the position behind the prompt; `confidences` gets those of tokens."""
    length = len(PROMPT) + 1
    session = unmask.Session(policy, vocab=VOCAB, mask_token=MASK, length=length, window=1, sequences=200)
    counts = np.zeros(VOCAB, int)
    for first in range(0, count, 200):
        texts = [np.array([*PROMPT, MASK], np.int32) for _ in range(200)]
        for slot, text in enumerate(texts):
            session.start(slot, text, prompt_length=len(PROMPT), block_length=1, seed=first + slot)
        request = session.next()
        session.supply([row[None]] * len(request.segments))
        if confidences is not None:
            for slot in range(200):
                (commit,) = session.committed(slot)
                confidences[commit.token] = np.exp(commit.log_probability)
        counts += np.bincount([text[-1] for text in texts], minlength=VOCAB)
    return counts


@pytest.mark.parametrize("given", [
    {"temperature": 0.7}, {"temperature": 2.0, "top_p": 0.6}, {"temperature": 0.4, "top_p": 0.95},
    {"temperature": 1.5, "min_p": 0.3}, {"temperature": 3, "top_k": 7}, {"temperature": 1, "top_p": 0.8, "top_k": 9},
    {"temperature": 1.6, "top_p": 0.9, "min_p": 0.05, "top_k": 12},
    {"temperature": 1.8, "repetition_penalty": 2.5, "top_p": 0.9},
    {"temperature": 0.5, "presence_penalty": 1.5, "frequency_penalty": 0.7},
    {"temperature": 2.5, "frequency_penalty": -1.5, "min_p": 0.1},
    {"temperature": 0.6, "logit_bias": {"5": 2.0, 7: -1}, "top_p": 0.9},
], ids=str)
def test_draws_are_those_of_a_sampler(given):
    policy = _settings.with_parts("tokens_per_step", given, length=len(PROMPT) + 1, vocab=VOCAB, prompt=True)
    counts = drawn(policy)
    row = np.append(ROW[:MASK], -np.inf)
    expected = sampled(row, **given, prompt=PROMPT, answer=PROMPT)  # with `prompt` all penalties count there
    assert (expected > 0).sum() > 2 and probability_of_a_fit(counts, expected) > 1e-3
    assert given["temperature"] == 1 or probability_of_a_fit(counts, softmax(row)) < 1e-3


def test_a_truncation_before_the_temperature_is_another_distribution():
    row = np.append(ROW[:MASK], -np.inf)
    first = {"temperature": 2.0, "top_p": 0.6}
    counts = drawn("tokens_per_step + sampling(2) + top_p(0.6)")  # llama.cpp's order
    cut = sampled(row, top_p=0.6) > 0
    assert probability_of_a_fit(counts, softmax(np.where(cut, row / 2, -np.inf))) > 1e-3
    assert probability_of_a_fit(counts, sampled(row, **first)) < 1e-3


@pytest.mark.parametrize("given, parts", [
    ({}, ""), ({"temperature": 0}, ""), ({"temperature": 0, "top_p": 0.5}, ""), ({"temperature": 1}, " + sampling(1)"),
    ({"temperature": 0.7, "top_k": -1, "top_p": 1, "min_p": 0}, " + sampling(0.7)"),
    ({"temperature": 1, "top_p": 0.9}, " + sampling + top_p(0.9)"),
    ({"temperature": 1e-7, "top_p": 0.9}, " + sampling(1e-07) + top_p(0.9)"),
    ({"temperature": 2, "top_p": 0.9, "top_k": 5}, " + temperature(2) + sampling + top_k(5) + top_p(0.9)"),
    ({"temperature": 0.5, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": 2},
     " + temperature(0.5) + sampling + min_p(0.1) + presence_frequency_penalty(2.0, 4.0, window=8)"),
    ({"temperature": 0.5, "presence_penalty": 1}, " + sampling(0.5) + presence_frequency_penalty(1.0, 0.0, window=8)"),
    ({"temperature": 4, "top_k": 3, "logit_bias": {2: 4}}, " + temperature(4) + sampling + top_k(3) + logit_bias([2], [1.0])"),
])
def test_parts_of_settings(given, parts):
    assert _settings.with_parts("threshold(0.9)", given, length=8, vocab=VOCAB) == "threshold(0.9)" + parts


@pytest.mark.parametrize("policy, given, says", [
    ("threshold + sampling(temperature=1)", {"temperature": 0.5}, "temperature must not be given with a policy that has sampling"),
    ("threshold + temperature(value=2)", {"temperature": 0.5}, "temperature must not be given with a policy that has temperature"),
    ("threshold + temperature(2)", {"temperature": 0}, "temperature must not be given with a policy that has temperature"),
    ("threshold + sampling + top_p(p=1)", {"top_p": 0.5}, "top_p must not be given with a policy that has top_p"),
    ("threshold", {"temperature": -1}, "temperature must be a number, at least 0 and finite, got -1"),
    ("threshold", {"temperature": True}, "temperature must be a number"),
])
def test_settings_that_are_refused(policy, given, says):
    with pytest.raises(ValueError, match=says):
        _settings.with_parts(policy, given, length=8, vocab=VOCAB)


def dream(torch, logits, temperature, top_p=None, top_k=None):
    """What Dream's sample_tokens does, and d2Cache's, for rows of logits: tokens and their confidence."""
    logits = logits / temperature
    if top_p is not None:
        ordered, places = logits.sort(descending=True)
        out = ordered.softmax(-1).cumsum(-1) > top_p
        out[..., 1:] = out[..., :-1].clone()
        out[..., 0] = False
        logits = logits.masked_fill(out.scatter(-1, places, out), -torch.inf)
    if top_k is not None:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[..., -1:], -torch.inf)
    p = logits.softmax(-1)
    token = torch.multinomial(p, 1)
    return token[:, 0], p.gather(-1, token)[:, 0]


def sampler_of(host, torch):
    if host == "Dream":
        return lambda z, t, **k: dream(torch, z, t, **k)
    if host == "diffusers":
        scheduler = pytest.importorskip("diffusers").BlockRefinementScheduler
        return lambda z, t, top_k=None, top_p=None: scheduler._sample_from_logits(
            z, temperature=t, top_k=top_k, top_p=top_p, generator=None, use_multinomial=True)
    sample = pytest.importorskip("ollada.adapters.sdar")._sample
    return lambda z, t, top_k=0, top_p=1.0: sample(z, temperature=t, top_k=top_k, top_p=top_p)


@pytest.mark.parametrize("host", ["Dream", "diffusers", "ollada"])
@pytest.mark.parametrize("t, given", [(0.4, {"top_p": 0.95}), (2.0, {"top_p": 0.6}), (1.5, {"top_k": 6}), (3.0, {"top_p": 0.9})])
def test_draws_and_confidences_are_those_of_the_host(repository, host, t, given):
    """The text of the page's table, beside the sampler that the host has."""
    torch = pytest.importorskip("torch")
    page = (repository / "examples" / "bindings" / "python" / "README.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("|") and host in line and "temperature(t)" in line)
    parts = line.split("`")[1].split(" + ")
    assert parts == ["temperature(t)", "sampling", "top_k(k)", "top_p(p)", "confidence_after_truncation"]
    policy = f"tokens_per_step + temperature({t}) + sampling + confidence_after_truncation"
    policy += "".join(f" + {name}({value})" for name, value in given.items())
    row = np.append(ROW[:MASK], -np.inf).astype(np.float32)
    torch.manual_seed(1)
    tokens, theirs = sampler_of(host, torch)(torch.from_numpy(row).repeat(20000, 1), t, **given)
    expected, ours = sampled(row, temperature=t, **given), {}
    assert (expected > 0).sum() > 2
    assert probability_of_a_fit(np.bincount(tokens.numpy(), minlength=VOCAB), expected) > 1e-3
    assert probability_of_a_fit(drawn(policy, confidences=ours), expected) > 1e-3
    for token, confidence in zip(tokens.tolist(), theirs.tolist()):
        assert token not in ours or abs(confidence - ours[token]) < 1e-5
