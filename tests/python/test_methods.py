# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole methods by one word: each decodes, and those with a layer rule choose what is computed."""
import json

import numpy as np
import pytest
import unmask

VOCAB, MASK, LENGTH, PROMPT, LAYERS, WIDTH = 40, 39, 36, 4, 8, 6


def weights(seed, *shape):
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


class Transformer:
    """Layers that mix a position with the mean of the values of all: enough to decide with.

    `keys[l]` are the values of every position at layer l, of the pass that last computed it;
    `added[l]` what the layer added there; `stored[l]` what a rule compares with."""

    embedding, at, mix = weights(1, VOCAB, WIDTH), weights(2, LENGTH, WIDTH), weights(3, LAYERS, WIDTH, WIDTH)
    head = 2 * weights(4, WIDTH, VOCAB)

    def __init__(self):
        self.keys, self.added, self.stored = (np.full((LAYERS, LENGTH, WIDTH), np.nan, np.float32) for _ in range(3))
        self.computed = 0

    def layer(self, l, hidden, positions, attend):
        self.keys[l, positions] = hidden @ self.mix[l]
        self.added[l, positions] = 0.3 * np.tanh(self.keys[l, positions] + self.keys[l, attend].mean(axis=0))
        self.computed += len(positions)

    def __call__(self, session, tokens, segment, i):
        positions = session.positions(i)
        hidden = self.embedding[tokens[positions]] + self.at[positions]
        for l in range(LAYERS):
            chosen = list(range(len(positions)))
            asked = session.hooks(i, l)
            if asked and session.reads != "hidden":
                chosen = session.at_layer(i, l, np.tanh(hidden), self.stored[l])
                assert session.kept
            self.layer(l, hidden[chosen], [positions[k] for k in chosen], segment.keys)
            hidden = hidden + self.added[l, positions]
            if asked and session.reads == "hidden":
                hidden = hidden[session.at_layer(i, l, hidden, self.stored[l])]
                assert not session.kept
            positions = session.positions(i)
            assert len(positions) == len(hidden)
        return (hidden @ self.head)[session.rows(i)]


def decode(policy, calibrator=None, **options):
    tokens = np.full(LENGTH, MASK, dtype=np.int64)
    tokens[:PROMPT] = [3, 1, 4, 1]
    session = unmask.Session(policy, vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH, **options)
    session.start(0, tokens, prompt_length=PROMPT, block_length=16)
    engines = {0: Transformer()}
    while (request := session.next()) is not None:
        logits = []
        for i, s in enumerate(request.segments):
            seen = tokens.copy()
            for position, token in s.placed:
                seen[position] = token
            logits.append(engines.setdefault(s.branch, Transformer())(session, seen, s, i))
        session.supply(logits)
        if calibrator is not None:
            calibrator.observe(session)
    report = session.report()
    assert report.end == unmask.Ending.complete and MASK not in tokens
    return tokens.tolist(), report.forwards, engines[0].computed


@pytest.mark.parametrize(
    "word, text",
    [
        ("credit_decoding", "threshold(0.9, inclusive=true) + trace_credit"),
        ("credit_decoding_adaptive", "threshold(0.9, inclusive=true) + adaptive_credit"),
        ("dynamic_cache_updating", "tokens_per_step(1) + cache_budget + interval_cache(1, 0)"),
        ("dynamic_dllm", "adaptive_threshold + cache_budget + interval_cache(1, 0)"),
        ("es_dllm", "tokens_per_step(1) + early_skip + block_cache + eos_gate"),
        ("es_dllm_parallel", "threshold(0.9) + early_skip + block_cache + eos_gate"),
        ("es_dllm_sparse", "tokens_per_step(1) + early_skip + block_cache + eos_gate + key_eviction"),
        ("es_dllm_parallel_sparse", "threshold(0.9) + early_skip + block_cache + eos_gate + key_eviction"),
        ("lopa", "threshold(0.9) + lookahead(14)"),
        ("lopa_d2f", "threshold(0.9) + lookahead(14) + block_pipeline"),
    ],
)
def test_a_method_decodes_as_what_it_stands_for(word, text):
    assert f"{word}\n    method: " in unmask.describe_parts() and f"    = {text}\n" in unmask.describe_parts()
    found = decode(word, layers=LAYERS)
    assert found == decode(text, layers=LAYERS)
    assert found == decode(word + " + max_steps(1000)", layers=LAYERS, threads=2)


def test_a_layer_rule_computes_less():
    full = decode("tokens_per_step(1)", layers=LAYERS)
    assert full[2] == full[1] * LENGTH * LAYERS
    assert decode("es_dllm", layers=LAYERS)[2] < full[2] / 3
    budget = decode("threshold(0.9) + cache_budget(4, 4) + interval_cache(1, 0)", layers=LAYERS)
    assert budget[2] < 0.6 * budget[1] * LENGTH * LAYERS


@pytest.mark.parametrize("task, cap, slack, mode, statistic", [
    ("gsm8k", 0.75, 0.2, "block", "q1"),
    ("gpqa", 0.75, 0.2, "step_block", "median"),
    ("humaneval", 0.8, 0.1, "block", "q1"),
])
def test_osdt_takes_the_file_of_a_profile(tmp_path, task, cap, slack, mode, statistic):
    profile = {"unmask_profile": 1, "mode": mode, "statistic": statistic, "recorded": "committed",
               "threshold": 0.9, "cap": cap, "slack": slack, "block_length": 16, "blocks": [[0.5], [0.7]]}
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(profile))
    tokens = decode(f"osdt_{task}('{file}')")
    assert tokens == decode(f'calibrated_threshold(file="{file}")')
    file.write_text(json.dumps({**profile, "cap": 0.5}))
    with pytest.raises(ValueError, match=f"cap of calibrated_threshold must be that of its profile, 0.5, got {cap}"):
        decode(f"osdt_{task}('{file}')")
    with pytest.raises(ValueError, match="file of calibrated_threshold, 'no/such': "):
        decode(f"osdt_{task}('no/such')")


@pytest.mark.parametrize("policy", ["osdt_humaneval", "osdt_gpqa(threshold=0.5, cap=1, recorded=candidates)"])
def test_a_calibrator_makes_the_profile_of_a_decode(tmp_path, policy):
    calibrator = unmask.Calibrator(policy, block_length=16)
    first = decode(policy, calibrator, trace=True)
    profile = json.loads(calibrator.profile())
    assert profile["block_length"] == 16 and len(profile["blocks"]) == (LENGTH - PROMPT + 15) // 16
    file = tmp_path / "profile.json"
    calibrator.save(str(file))
    assert file.read_text() == calibrator.profile()
    later = decode(f"calibrated_threshold('{file}')")
    assert later[1] != first[1]  # the recorded thresholds decide


def test_a_calibrator_says_what_is_wrong():
    with pytest.raises(ValueError, match="policy must be one with calibrated_threshold, such as osdt_gsm8k, got threshold"):
        unmask.Calibrator("threshold", 16)
    with pytest.raises(ValueError, match="block_length must be at least 1, got 0"):
        unmask.Calibrator("osdt_gsm8k", 0)
    with pytest.raises(RuntimeError, match="cannot be written"):
        unmask.Calibrator("osdt_gsm8k", 16).save("/no/such/folder/profile.json")
    with pytest.raises(RuntimeError, match="trace"):
        decode("osdt_gsm8k", unmask.Calibrator("osdt_gsm8k(recorded=candidates)", 16))


def test_layers_are_named_where_they_are_asked():
    with pytest.raises(ValueError, match="^layers must be at least 1"):
        decode("es_dllm")
    session = unmask.Session("tokens_per_step", vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH)
    assert session.reads is None and not session.kept
    with pytest.raises(RuntimeError, match="next"):
        session.positions(0)


def test_models_are_their_policies():
    words = [m.word for m in unmask.models()]
    assert len(set(words)) == len(words) > 15
    for model in unmask.models():
        listed = unmask.policy_parts(model.word)
        assert listed[0] == (model.word, {})
        assert listed[1:] == unmask.policy_parts(model.policy)
        assert unmask.find_model(model.word).policy == model.policy and repr(model).startswith(f"Model('{model.word}'")
    llada2_1 = unmask.model_of("llada2_moe", "inclusionAI/LLaDA2.1-mini")
    assert llada2_1.word == "model:llada2_1" and llada2_1.eos_tokens == (156892,) and llada2_1.mask_token == 156895
    assert llada2_1.length(10, 5) == 32 and llada2_1.length(10) == 2080
    assert unmask.model_of("qwen2") is None and unmask.find_model("none") is None
    assert unmask.find_model("diffusion_gemma").mask_token is None


def test_an_answer_is_a_row_of_a_table():
    from unmask.tiny_llada import TinyLlada, decode

    answer = decode(TinyLlada(), "threshold(0.9)", "J:age 27")
    row = json.loads(json.dumps(answer._asdict()))
    assert row["text"] == answer.text == '{"age":27}' and row["tokens"] == answer.tokens.tolist()
    members = {name for name in dir(unmask.Report) if not name.startswith("_")}
    assert set(row) == {"text", "tokens"} | members and row["end"] == answer.report.end.name
    assert all(row[name] == getattr(answer.report, name) for name in members - {"end"})
