# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strategy `unmask` of d2Cache beside its `vanilla`, on its models with random weights.

UNMASK_D2CACHE names a checkout of d2Cache, whose requirements are installed.
"""
import functools
import os
import subprocess
import sys

import pytest

CHECKOUT = os.environ.get("UNMASK_D2CACHE")
if CHECKOUT is None:
    pytest.skip("UNMASK_D2CACHE names no checkout of d2Cache", allow_module_level=True)
sys.path.insert(0, CHECKOUT)

import torch  # noqa: E402
from src.cache import PrefixCache, d2Cache  # noqa: E402
from src.generation import generate, utils  # noqa: E402
from src.models import DreamConfig, DreamModel, LLaDAConfig, LLaDAModelLM  # noqa: E402
from unmask import d2cache  # noqa: E402

VOCAB, MASK, EOS, PAD = 48, 47, 46, 45


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setenv("MASK_TOKEN_ID", str(MASK))
    monkeypatch.setattr(utils, "get_token_freq", lambda family, vocab: None)  # counts of released vocabularies
    d2cache.register()


@functools.lru_cache(maxsize=None)
def model(family, seed=0):
    torch.manual_seed(seed)
    if family == "llada":
        config = LLaDAConfig(
            d_model=32, n_heads=4, n_layers=2, mlp_hidden_size=64, vocab_size=VOCAB, embedding_size=VOCAB, rope=True,
            block_type="llama", layer_norm_type="rms", activation_type="silu", include_bias=False, weight_tying=False,
            max_sequence_length=128, attention_dropout=0.0, residual_dropout=0.0, embedding_dropout=0.0,
            mask_token_id=MASK, eos_token_id=EOS, pad_token_id=PAD, init_device="cpu", attn_implementation="eager")
        made = LLaDAModelLM(config)
    else:
        config = DreamConfig(
            vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=128, mask_token_id=MASK, pad_token_id=PAD,
            eos_token_id=EOS, bos_token_id=EOS, attn_implementation="eager")
        made = DreamModel(config)
    for weights in made.parameters():
        if weights.dim() == 2:
            torch.nn.init.normal_(weights, std=0.4)
    output = made.get_output_embeddings()
    with torch.no_grad():
        output.weight[MASK] = 0  # vanilla may propose the mask token
    return made.eval()


def prompts(rows, length, seed=0):
    return torch.randint(0, PAD, (rows, length), generator=torch.Generator().manual_seed(seed))


CACHES = {
    "none": None,
    "prefix": PrefixCache,
    "dual": functools.partial(PrefixCache, use_dual=True),
    "d2cache": functools.partial(d2Cache, current_k=8, inflate_w=2),
}


def steps(record):
    """Which tokens each step wrote, and the answer."""
    written = []
    for delta in record.deltas:
        place = 0
        for row, chosen in enumerate(delta.transfer_index):
            if chosen.numel():
                written.append((row, sorted((int(p), int(delta.decoded_tokens[place, p])) for p in chosen)))
                place += 1
    return written, record[-1].generated_tokens.tolist()


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("settings, policy", [
    ({}, "tokens_per_step(1)"),
    ({"num_transfer_tokens": 2}, "tokens_per_step(2)"),
    ({"threshold": 0.6}, "threshold(0.6, inclusive=true)"),
    ({"alg": "entropy"}, "by_entropy + tokens_per_step(1)"),
    ({"alg": "topk_margin"}, "by_margin + tokens_per_step(1)"),
])
def test_the_steps_of_vanilla(family, cache, settings, policy):
    if cache == "d2cache" and "alg" in settings:
        pytest.skip("vanilla gives d2Cache the scores of its alg, which we have no need for")
    arguments = dict(block_length=8, gen_length=24, mask_token_id=MASK, cache_cls=CACHES[cache])
    for seed in range(3):
        ids = prompts(2, 5 + seed, seed)
        if seed == 2:
            ids[0, :3] = PAD
            arguments["pad_token_id"] = PAD
        expected = generate(model(family), ids, strategy="vanilla", **arguments, **settings)
        found = generate(model(family), ids, strategy="unmask", policy=policy, suppress_mask=False, **arguments)
        assert steps(found) == steps(expected)
        assert found.num_steps == expected.num_steps > 3


@pytest.mark.parametrize("cache", CACHES)
def test_rows_that_stop_at_their_first_eos(cache):
    answers = []
    whole = generate(model("llada"), prompts(3, 6), strategy="vanilla", block_length=8, gen_length=24,
                     mask_token_id=MASK)
    eos = int(whole[-1].generated_tokens[0, 4])
    for seed in range(3):
        ids = prompts(3, 6, seed)[: 1 if cache == "dual" else 3]
        arguments = dict(block_length=8, gen_length=24, mask_token_id=MASK, eos_token_id=eos, stop_until_eos=True,
                         cache_cls=CACHES[cache])
        expected = generate(model("llada"), ids, strategy="vanilla", **arguments)
        found = generate(model("llada"), ids, strategy="unmask", policy="tokens_per_step(1)", suppress_mask=False,
                         **arguments)
        assert steps(found) == steps(expected)
        answers += found[-1].generated_tokens.tolist()
    assert any(MASK in answer for answer in answers) and not all(MASK in answer for answer in answers)


def test_rows_that_the_cache_did_not_compute():
    """vanilla takes their logits, zeros, for those of a model, and commits token 0."""
    arguments = dict(block_length=8, gen_length=24, mask_token_id=MASK,
                     cache_cls=functools.partial(d2Cache, current_k=2, inflate_w=0))
    theirs = generate(model("llada"), prompts(1, 6), strategy="vanilla", num_transfer_tokens=4, **arguments)
    ours = generate(model("llada"), prompts(1, 6), strategy="unmask", policy="tokens_per_step(4)", **arguments)
    assert (theirs[-1].generated_tokens == 0).sum() > 6
    assert (ours[-1].generated_tokens == 0).sum() == 0 and ours.num_steps > theirs.num_steps


def test_a_cache_that_computed_nothing_of_a_row():
    """The dual cache has one row's positions for all once a row has ended; vanilla then commits token 0."""
    arguments = dict(block_length=8, gen_length=24, mask_token_id=MASK, eos_token_id=46, stop_until_eos=True,
                     cache_cls=CACHES["dual"])
    theirs = generate(model("llada"), prompts(3, 6, 1), strategy="vanilla", **arguments)
    assert (theirs[-1].generated_tokens == 0).sum() > 6
    with pytest.raises(RuntimeError, match="PrefixCache computed no masked position of row"):
        generate(model("llada"), prompts(3, 6, 1), strategy="unmask", policy="tokens_per_step(1)", suppress_mask=False,
                 **arguments)


def test_draws_come_from_the_seed_of_the_row():
    ids = prompts(1, 6).expand(2, -1)
    arguments = dict(policy="threshold(0.9) + sampling(1)", gen_length=16, block_length=8, mask_token_id=MASK)
    one, two, other = (generate(model("llada"), ids, strategy="unmask", seed=s, **arguments)[-1].generated_tokens
                       for s in (1, 1, 2))
    assert one.tolist() == two.tolist()
    assert one[1].tolist() == other[0].tolist() != one[0].tolist()  # row i has seed + i


def test_a_step_that_commits_nothing():
    arguments = dict(policy="independent_timesteps(40)", gen_length=16, block_length=8, mask_token_id=MASK)
    record = generate(model("llada"), prompts(2, 6), strategy="unmask", **arguments)
    assert (record[-1].generated_tokens != MASK).all()
    with pytest.raises(RuntimeError, match="commits nothing"):
        generate(model("llada"), prompts(2, 6), strategy="unmask", cache_cls=PrefixCache, **arguments)


@pytest.mark.parametrize("arguments, reason", [
    ({"policy": "dual_cache"}, "cache=d2cache, prefix or dllm"),
    ({"policy": "es_dllm"}, "d2Cache"),
    ({"policy": "lookahead(3)"}, "no branches"),
    ({"policy": "single_block"}, "generation.block_length"),
    ({"policy": "edit_committed(0.5)"}, "commits masked positions"),
    ({"policy": "max_steps(3)"}, "leaves masks"),
    ({"policy": "treshold(0.9)"}, "did you mean threshold"),
    ({}, "policy must be given"),
    ({"policy": "threshold(0.9)", "threshold": 0.9}, "threshold=0.9 is a setting of vanilla"),
    ({"policy": "threshold(0.9)", "temperature": 0.5}, "temperature=0.5"),
    ({"policy": "threshold(0.9)", "block_length": 7}, "must divide gen_length, got 7 and 24"),
    ({"policy": "threshold(0.9)", "stop_until_eos": True}, "EOS_TOKEN_ID"),
])
def test_refused(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        generate(model("llada"), prompts(1, 4), strategy="unmask",
                 **{"gen_length": 24, "block_length": 8, "mask_token_id": MASK, **arguments})


def test_a_script_of_the_checkout_knows_the_strategy():
    """eval.py, up to the configuration that it would run with; and its configuration reaches generate()."""
    ran = subprocess.run(
        [sys.executable, "-m", "unmask.d2cache", "eval.py", "dataset.name=gsm8k", "model=llada-inst", "cache=d2cache",
         "generation.strategy=unmask", '+generation.policy="trace_credit + threshold(0.9)"', "--cfg", "job"],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    import yaml

    settings = yaml.safe_load(ran.stdout)["generation"]
    assert settings["policy"] == "trace_credit + threshold(0.9)"
    settings.update(gen_length=16, block_length=16, sigma=10.0)  # as configs/gen_args.py does
    record = generate(model("llada"), prompts(1, 6), **settings, mask_token_id=MASK, cache_cls=CACHES["d2cache"],
                      ignore_unknown_args="ignore")
    assert (record[-1].generated_tokens != MASK).all() and record.num_steps <= 16
