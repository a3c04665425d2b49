# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines that compute single positions of their layers, and the keys that a policy drops."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
import unmask

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples" / "bindings" / "python"))
from layers import END, LayeredLlada, decode  # noqa: E402

LINES = [json.loads(line) for line in (ROOT / "tests/data/tiny_llada/layered_decodes.jsonl").open()]
# Rows that did not change differ from the stored ones by rounding alone, and these rules rank them:
# where all changes are that small, the last bit of PyTorch's sums decides which are computed.
ROUNDED = "cache_budget", "dynamic_dllm", "reads=key"


@pytest.fixture(scope="module")
def model():
    return LayeredLlada(ROOT / "examples/tiny_llada/tiny-f16.gguf")


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['policy']}, {line['prompt'][:5]}")
def test_decodes_as_the_engine_in_cpp_does(model, line):
    tokens, forwards, computed = decode(model, line["policy"], line["prompt"], line["answer"], line["block"])
    text = lambda t: list(t)[: list(t).index(END)]  # noqa: E731
    assert text(tokens.tolist()) == text(line["tokens"])
    if any(word in line["policy"] for word in ROUNDED):
        assert forwards == line["forwards"] and abs(computed / line["computed"] - 1) < 0.05
    else:
        assert (tokens.tolist(), forwards, computed) == (line["tokens"], line["forwards"], line["computed"])


def test_the_example_runs():
    program = [sys.executable, ROOT / "examples/bindings/python/layers.py", "--policy", "es_dllm"]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert said == "10+8=18;18-7=11;11+4=15;#15\n40 passes, 14 % of their layers computed\n"


VOCAB, LENGTH, PROMPT, BLOCK = 4, 12, 4, 4


def new_session(policy):
    return unmask.Session(policy, vocab=VOCAB, mask_token=VOCAB - 1, length=LENGTH, window=BLOCK, layers=2)


@pytest.mark.parametrize(
    "policy, reads, kept, single_positions, evicts",
    [
        ("tokens_per_step", None, False, False, False),
        ("tokens_per_step + dual_cache", None, False, False, False),
        ("tokens_per_step + dual_cache(whole=2) + key_eviction", None, False, False, True),
        ("tokens_per_step + delayed_cache", None, False, True, False),
        ("tokens_per_step + entropy_cache", None, False, True, False),
        ("tokens_per_step + early_skip", "hidden", False, True, False),
        ("es_dllm_sparse", "hidden", False, True, True),
        ("tokens_per_step + cache_budget", "input", True, True, False),
        ("tokens_per_step + cache_budget(reads=query)", "query", True, True, False),
        ("tokens_per_step + similarity_refresh", "value", True, True, False),
    ],
)
def test_a_policy_says_what_it_demands_of_an_engine(policy, reads, kept, single_positions, evicts):
    session = new_session(policy)
    assert (session.reads, session.kept) == (reads, kept)
    assert (session.single_positions, session.evicts) == (single_positions, evicts)
    served = new_session("threshold")  # where it is the policy of one request
    served.start(0, np.zeros(LENGTH, np.int32), prompt_length=PROMPT, block_length=BLOCK, policy=policy)
    served.next()
    rule = served.layer_rule(0)
    assert (rule.reads, rule.kept) == (reads, kept)
    assert (rule.single_positions, rule.evicts) == (single_positions, evicts)
    assert (served.reads, served.single_positions) == (None, False)


def naive_selection(scores, blocks, keep, pool):
    """key_eviction in Python."""
    outside = [p for p in range(len(scores)) if not blocks.start <= p < blocks.stop]
    pooled = [max(scores[q] for q in outside[max(0, i - pool // 2) : i + pool // 2 + 1]) for i in range(len(outside))]
    best = sorted(range(len(outside)), key=lambda i: (-pooled[i], i))[: int(keep * len(outside))]
    return sorted(outside[i] for i in best)


def test_keys_are_selected_as_the_rule_says():
    session = new_session("tokens_per_step + dual_cache(whole=2) + key_eviction(0.4, 1, 3)")
    with pytest.raises(RuntimeError, match="next"):
        session.eviction(0)
    session.start(0, np.zeros(LENGTH, np.int32), prompt_length=PROMPT, block_length=BLOCK)
    draw, seen = np.random.default_rng(1), []
    while (request := session.next()) is not None:
        (segment,) = request.segments
        eviction = session.eviction(0)
        seen.append(eviction.evict)
        assert (eviction.evict, eviction.keep, eviction.pool) == (segment.evict, 0.4, 3)
        assert eviction.blocks.stop - eviction.blocks.start == BLOCK
        scores = draw.integers(-9, 9, segment.keys.stop).astype(np.float32)
        if eviction.evict == "choose":
            assert session.select_keys(0, scores) == naive_selection(scores, eviction.blocks, 0.4, 3)
            with pytest.raises(ValueError, match=r"number of scores must be Segment.keys.stop = 12, got 11"):
                session.select_keys(0, scores[:-1])
            with pytest.raises(ValueError, match="scores must be float32, got float64"):
                session.select_keys(0, scores.astype(np.float64))
            with pytest.raises(ValueError, match="scores must have one dimension"):
                session.select_keys(0, scores[None])
        else:
            with pytest.raises(RuntimeError, match='Segment.evict is "choose"'):
                session.select_keys(0, scores)
        with pytest.raises(ValueError, match="index of the segment must be less than .*, got 1"):
            session.eviction(1)
        session.supply(np.zeros((request.rows, VOCAB), np.float32))
    assert seen == [None, "choose", "chosen", "chosen"] * 2


def test_a_policy_that_drops_no_key_keeps_all():
    session = new_session("tokens_per_step")
    session.start(0, np.zeros(LENGTH, np.int32), prompt_length=PROMPT, block_length=BLOCK)
    assert session.next().segments[0].evict is None
    eviction = session.eviction(0)
    assert (eviction.evict, eviction.keep) == (None, 1.0) and eviction.blocks == slice(PROMPT, PROMPT + BLOCK)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scores_are_products(dtype):
    keys, query = torch.randn(9, 7, generator=torch.Generator().manual_seed(1)).to(dtype), torch.arange(7).to(dtype)
    wide, scores = torch.full((9, 16), float("nan"), dtype=dtype), torch.empty(9)
    wide[:, :7] = keys
    unmask.score_keys(wide[:, :7], query, scores)  # rows with a stride
    assert torch.allclose(scores, keys.float() @ query.float(), atol=1e-4)
    with pytest.raises(ValueError, match="query must have the dtype of the keys"):
        unmask.score_keys(keys, query.double(), scores)
    with pytest.raises(ValueError, match="columns of the query must be those of the keys, 7, got 6"):
        unmask.score_keys(keys, query[:6], scores)
    with pytest.raises(ValueError, match="scores must be at least as many as keys, 9, got 8"):
        unmask.score_keys(keys, query, scores[:8])
    with pytest.raises(ValueError, match="scores must be float32"):
        unmask.score_keys(keys, query, scores.double())


def test_a_hook_takes_its_rows_only():
    """The errors of at_layer(), before anything changes; C gives the same."""
    session = new_session("tokens_per_step + early_skip(0.5, [0], [0.5])")
    session.start(0, np.zeros(LENGTH, np.int32), prompt_length=PROMPT, block_length=BLOCK)
    session.next()
    now, stored = np.ones((LENGTH, 5), np.float32), np.zeros((LENGTH, 5), np.float32)
    with pytest.raises(ValueError, match="rows at the layer must be those of the positions that reach it, 12, got 11"):
        session.at_layer(0, 0, now[:-1], stored)
    with pytest.raises(ValueError, match="columns of the stored rows must be those of the rows at the layer, 5, got 4"):
        session.at_layer(0, 0, now, stored[:, :4])
    with pytest.raises(ValueError, match="element type of the stored rows must be .*, float32, got float16"):
        session.at_layer(0, 0, now, stored.astype(np.float16))
    with pytest.raises(RuntimeError, match="no hook"):
        session.at_layer(0, 1, now, stored)
    with pytest.raises(ValueError, match="layer must be in .*the session's layers = 2.*, got 2"):
        session.hooks(0, 2)
    assert not stored.any()
    assert session.at_layer(0, 0, now, stored) == list(range(LENGTH)) and (stored == 1).all()
    with pytest.raises(RuntimeError, match="already left"):
        session.at_layer(0, 0, now, stored)
    with pytest.raises(RuntimeError, match="abandon.. after .*at_layer"):
        session.abandon()
