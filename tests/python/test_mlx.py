# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of MLX with random weights, on a CPU: policies beside a loop in NumPy and beside LLaDA2's own generate()."""
import re
import types

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="pip install 'mlx[cpu]'")

import unmask  # noqa: E402
from unmask import constraints  # noqa: E402
from unmask.mlx import generate  # noqa: E402

VOCABULARY, MASK, EOS = 64, 63, 62


class Function:
    """Logits by the tokens of the sequence, of any type."""

    def __init__(self, dtype=None, **config):
        self.dtype = dtype or mx.float32
        self.config = types.SimpleNamespace(vocab_size=VOCABULARY, mask_token_id=MASK, eos_token_id=EOS, **config)
        table = np.random.default_rng(1).normal(0, 3, (VOCABULARY, VOCABULARY)).astype(np.float32)
        self.table = table

    def rows(self, tokens):
        near = self.table[tokens]
        return (near + np.roll(near, 1, 0) + 0.5 * np.roll(near, -2, 0)).astype(np.float32)

    def __call__(self, tokens):
        return types.SimpleNamespace(logits=mx.array(self.rows(np.array(tokens[0])))[None].astype(self.dtype))


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16])
@pytest.mark.parametrize("policy", ["threshold(0.9)", "by_margin + tokens_per_step(2) + stop_at_eos", "threshold(0.5) + sampling",
                                    "threshold(0.9) + trace_credit + remask_below(0.2)", "model:llada", "model:dream"])
def test_a_function_decodes_as_a_session_with_its_rows(policy, dtype):
    model, word = Function(dtype), unmask.find_model(policy)
    prompt, new = [3, 4, 5, 6, 7], 24
    seen = []
    out = generate(model, mx.array(prompt), policy, max_new_tokens=new, seed=9, callback=lambda commits, report: seen.append(len(commits)))
    shift = 0 if word is None else word.logits_shift
    block = 32 if word is None else word.block_length or new
    session = unmask.Session(policy, vocab=VOCABULARY, mask_token=MASK, eos_token=EOS, length=5 + new, window=new, logits_shift=shift)
    tokens = np.array(prompt + [MASK] * new, np.int32)
    session.start(0, tokens, prompt_length=5, block_length=block, seed=9)
    while (request := session.next()) is not None:
        rows = model.rows(tokens)[request.segments[0].rows]
        session.supply([np.array(mx.array(rows).astype(dtype).astype(mx.float32))])
    expected = tokens[5:].tolist()
    expected = expected[: expected.index(EOS) + 1] if EOS in expected else expected
    assert out.tokens == expected and out.report.forwards == session.report().forwards == len(seen)


def test_answers_obey_a_language():
    token_bytes = [bytes([48 + i]) for i in range(62)] + [b"", b""]
    words = constraints.vocabulary(token_bytes=token_bytes, vocab=VOCABULARY, mask_token=MASK, eos_token=EOS)
    out = generate(Function(), [1, 2], "at_random + tokens_per_step(2)", max_new_tokens=9, constraint=constraints.regex("[A-C]{3}[0-9]+", words))
    text = bytes(48 + t for t in out.tokens if t != EOS).decode()
    assert re.fullmatch("[A-C]{3}[0-9]+", text)


@pytest.mark.parametrize("settings, says", [
    ({"policy": "threshold(0.9) + dual_cache"}, "cannot run dual_cache"),
    ({"policy": "threshold(0.9) + lookahead(2)"}, "cannot run lookahead"),
    ({"policy": "model:diffusion_gemma"}, "it is for masked models"),
    ({"input_ids": []}, "input_ids must have at least one token"),
    ({"max_new_tokens": 0}, "max_new_tokens must be an integer, at least 1, got 0"),
    ({"mask_token_id": 1.5}, "mask_token_id must be an integer, got 1.5"),
    ({"model": 3}, "must be given"),
])
def test_what_it_cannot_run_is_refused(settings, says):
    given = {"model": Function(), "input_ids": [1, 2], "policy": "threshold(0.9)", "max_new_tokens": 4, **settings}
    with pytest.raises(ValueError, match=says):
        generate(given.pop("model"), given.pop("input_ids"), given.pop("policy"), **given)


@pytest.fixture(scope="module")
def llada2():
    llada2_moe = pytest.importorskip("mlx_vlm.models.llada2_moe", reason="pip install mlx-vlm")
    mx.random.seed(4)
    config = llada2_moe.config.ModelConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        num_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=16, first_k_dense_replace=1,
        pad_token_id=EOS, eos_token_id=EOS, mask_token_id=MASK)
    model = llada2_moe.llada2_moe.Model(config)
    head = model.language_model.lm_head
    head.weight = head.weight * 40  # sure of some tokens, and not of others
    mx.eval(model.parameters())
    return model


@pytest.mark.parametrize("threshold", [0.95, 0.6])
@pytest.mark.parametrize("length, new", [(5, 40), (32, 32), (33, 70), (70, 20)])
def test_llada2_has_the_tokens_of_its_own_generate(llada2, length, new, threshold):
    prompt = [(7 * i + length) % 60 for i in range(length)]
    expected = llada2.language_model.generate(
        mx.array([prompt]), gen_length=new, threshold=threshold, eos_early_stop=True, stability_steps=2, steps=32)[0].tolist()
    out = generate(llada2, prompt, f"model:llada2_mlx({threshold})", max_new_tokens=new, suppress_mask=False)
    assert out.tokens == expected
    barred = generate(llada2, prompt, f"model:llada2_mlx({threshold})", max_new_tokens=new)
    assert MASK not in barred.tokens
    assert generate(llada2, prompt, "model:llada2_1", max_new_tokens=new).report.forwards <= 40 * (2 + (length + new) // 32)


def test_llada2_needs_blocks_at_multiples(llada2):
    with pytest.raises(ValueError, match="this model has blocks of 32 that begin at multiples"):
        generate(llada2, [1, 2, 3], "threshold(0.9)", max_new_tokens=40)
    assert generate(llada2, [1, 2, 3], max_new_tokens=9).report.forwards >= 1  # the word of llada2_moe
