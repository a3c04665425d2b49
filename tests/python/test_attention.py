# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Causal and shadow passes of the engine in NumPy, and the policies that need them."""
from types import SimpleNamespace

import numpy as np
import pytest

from unmask.tiny_llada import BEGIN, MASK, Attention, TinyLlada, decode, problems, tokens_of


@pytest.fixture(scope="module")
def model():
    return TinyLlada()


def segment(query, keys, rows, attention="bidirectional"):
    return SimpleNamespace(query=slice(*query), keys=slice(*keys), rows=slice(*rows), attention=attention)


def greedy(model, prompt, count):
    tokens = [BEGIN] + tokens_of(prompt)
    for _ in range(count):
        row = model(np.array([tokens]), sees=np.tri(len(tokens), dtype=bool))[0][-1].copy()
        row[MASK] = -np.inf
        tokens.append(int(row.argmax()))
    return tokens


@pytest.mark.parametrize("policy", ["linear_spec", "threshold(0.5, inclusive=true) + self_speculation(4)"])
def test_self_speculation_is_greedy_decoding_of_the_causal_model(model, policy):
    for problem in problems()[:2]:
        answer = decode(model, policy, problem["prompt"], length=12)
        assert list(answer.tokens) == greedy(model, problem["prompt"], 12)
        assert answer.report.forwards <= 24


def test_a_pass_over_cached_keys_sees_what_a_causal_pass_has_left(model):
    tokens = np.array([BEGIN] + tokens_of("Q:Ora has 2 books."))
    n = len(tokens)
    attention = Attention(model, n)
    attention.logits(tokens, [segment((0, n - 4), (0, n - 4), (0, 0), "causal")])
    rows, = attention.logits(tokens, [segment((n - 4, n), (0, n), (n - 4, n))])
    sees = np.tri(n, dtype=bool)
    sees[n - 4:] = True
    np.testing.assert_allclose(rows, model(tokens[None], sees=sees)[0][n - 4:], atol=1e-4)


def test_a_row_of_a_shadow_sees_all_but_its_own_token(model):
    tokens = np.array([BEGIN] + tokens_of("7+5=12;12+1=13"))
    n = len(tokens)
    whole = segment((0, n), (0, n), (0, n))

    def shadow(of):
        main, rows = Attention(model, n).logits(of, [whole, segment((4, 9), (0, n), (5, 8), "shadow")])
        np.testing.assert_allclose(main, model(of[None])[0], atol=1e-4)  # which the shadow does not change
        return rows

    before = shadow(tokens)
    assert before.shape[0] == 3  # of positions 5, 6 and 7
    changed = tokens.copy()
    changed[6] = MASK
    after = shadow(changed)
    assert not np.allclose(before[0], after[0], atol=1e-3)
    assert not np.allclose(before[2], after[2], atol=1e-3)


def test_the_own_token_reaches_a_row_of_a_shadow_only_through_the_others(model):
    one = TinyLlada()
    one.layers = 1  # through other positions it would come in the second layer
    tokens = np.array([BEGIN] + tokens_of("7+5=12;12+1=13"))
    n = len(tokens)
    segments = [segment((0, n), (0, n), (0, n)), segment((4, 9), (0, n), (5, 8), "shadow")]
    changed = tokens.copy()
    changed[6] = MASK
    before, after = (Attention(one, n).logits(x, segments)[1] for x in (tokens, changed))
    np.testing.assert_allclose(before[1], after[1], atol=1e-6)
    assert not np.allclose(before[0], after[0], atol=1e-3)


def test_an_embedding_is_mixed_of_soft_tokens(model):
    tokens = np.array([BEGIN] + tokens_of("7+5=") + [MASK, MASK])
    mixed = [SimpleNamespace(position=5, token=20, share=0.75), SimpleNamespace(position=5, token=30, share=0.25)]
    one = [SimpleNamespace(position=5, token=20, share=1.0)]
    hard = tokens.copy()
    hard[5] = 20
    np.testing.assert_allclose(model(tokens[None], soft=one, weight=1.0), model(hard[None]), atol=1e-4)
    np.testing.assert_array_equal(model(tokens[None], soft=mixed, weight=0.0), model(tokens[None]))
    assert not np.allclose(model(tokens[None], soft=mixed, weight=0.5), model(tokens[None]), atol=1e-2)


def test_a_decode_feeds_soft_tokens(model):
    prompt = problems()[0]["prompt"]
    plain, unmixed = (decode(model, "threshold(0.9)", prompt, soft_tokens=k, soft_weight=0.0) for k in (0, 3))
    assert plain.tokens.tolist() == unmixed.tokens.tolist() and plain.report.forwards == unmixed.report.forwards
    assert MASK not in decode(model, "threshold(0.9)", prompt, soft_tokens=3).tokens


@pytest.mark.parametrize("policy", ["wino(0.6, 0.9)", "core(20, 2)"])
def test_policies_that_check_their_tokens_answer(model, policy):
    right = sum(decode(model, policy, p["prompt"]).text == p["answer"] for p in problems()[:4])
    assert right >= 3


def test_another_model_is_refused_what_it_cannot_attend_to(model):
    with pytest.raises(ValueError, match="attention"):
        decode(lambda tokens: model(tokens), "linear_spec", "Q:Ora has 2 books. Buys 8. How many?")
