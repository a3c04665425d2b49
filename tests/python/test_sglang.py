# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin for SGLang beside SGLang's own algorithms: in their loops, and in the whole engine.

bash tests/sglang.sh runs them, with the released wheel of SGLang on a CPU.
"""
import json
import os
import subprocess
import sys
import types

import pytest
import torch

sglang = pytest.importorskip("sglang", reason="bash tests/sglang.sh installs SGLang")

from sglang.srt import plugins  # noqa: E402
from sglang.srt.dllm import algorithm as algorithms  # noqa: E402
from sglang.srt.dllm.config import DllmConfig  # noqa: E402

BLOCK, VOCAB, MASK = 16, 64, 63


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """SGLang's loader finds the entry point of the installed package."""
    assert "Unmask" not in algorithms.algo_name_to_cls
    plugins.load_plugins()
    assert algorithms.algo_name_to_cls["Unmask"].__module__ == "unmask.sglang"


class Runner:
    """A model whose logits depend on the block; counts its forward passes."""

    def __init__(self, seed, spread, mask_bias):
        draw = torch.Generator().manual_seed(seed)
        self.own = torch.randn(BLOCK, VOCAB, generator=draw) * spread
        self.near = torch.randn(2, VOCAB, VOCAB, generator=draw) * spread
        self.own[:, MASK] += mask_bias
        self.forwards = 0

    def forward(self, batch, pp_proxy_tensors=None):
        self.forwards += 1
        ids = batch.input_ids.view(-1, BLOCK)
        logits = self.own + self.near[0][ids.roll(1, 1)] + self.near[1][ids.roll(-1, 1)]
        output = types.SimpleNamespace(full_logits=logits.reshape(-1, VOCAB))
        return types.SimpleNamespace(logits_output=output, can_run_graph=False)


def new_batch(seed, size, literal_masks):
    """Blocks with prompts of different lengths, some full, some holding the mask token as text."""
    draw = torch.Generator().manual_seed(1000 + seed)
    ids = torch.randint(0, MASK, (size, BLOCK), generator=draw)
    prompts = torch.randint(0, BLOCK + 1, (size, 1), generator=draw)
    prompt_mask = torch.arange(BLOCK) < prompts
    ids[~prompt_mask] = MASK
    if literal_masks:
        ids[prompt_mask & (torch.rand(size, BLOCK, generator=draw) < 0.2)] = MASK
    return types.SimpleNamespace(
        batch_size=size,
        input_ids=ids.reshape(-1),
        dllm_prompt_mask=prompt_mask if literal_masks else None,
        mark_forward_metadata_ready=lambda **_: None,
    )


def made(name, fdfo=True, **settings):
    return algorithms.get_algorithm(DllmConfig(name, settings, BLOCK, MASK, 8, first_done_first_out_mode=fdfo))


def decoded(algorithm, seed, size, spread, mask_bias, literal_masks):
    """Every token after every call of run(), in the loop that the algorithm is configured for."""
    batch, runner = new_batch(seed, size, literal_masks), Runner(seed, spread, mask_bias)
    if not algorithm.fdfo:
        _, tokens, *_ = algorithm.run(runner, batch)
        return [t.tolist() for t in tokens], batch.input_ids.tolist(), runner.forwards
    states, seen = None, []
    for _ in range(4 * BLOCK):
        _, tokens, lengths, states, _ = algorithm.run(runner, batch, states)
        seen.append((tokens, lengths))
        if all(lengths):
            break
        batch.input_ids = batch.input_ids.clone()  # SGLang's scheduler makes another batch of each step
        for i, length in enumerate(lengths):  # a request that is done leaves; its row stays full
            if length:
                batch.input_ids.view(-1, BLOCK)[i] = 0
                if batch.dllm_prompt_mask is not None:
                    batch.dllm_prompt_mask[i] = True
    return seen


# The third number raises the mask token's logits. LowConfidence is followed also where that token is
# proposed; JointThreshold would edit committed tokens back into it, which ours never does.
CASES = [
    ("LowConfidence", dict(threshold=0.95), 0.0),
    ("LowConfidence", dict(threshold=0.4), 0.0),
    ("LowConfidence", dict(threshold=0.6), 4.0),
    ("JointThreshold", dict(), -60.0),
    ("JointThreshold", dict(threshold=0.7, edit_threshold=0.3, max_post_edit_steps=3), -60.0),
    ("JointThreshold", dict(threshold=0.6, edit_threshold=0.5, max_post_edit_steps=0), -60.0),
    ("JointThreshold", dict(threshold=0.5, edit_threshold=0.2, penalty_lambda=1.5), -60.0),
]


@pytest.mark.parametrize("fdfo", [False, True], ids=["sync", "fdfo"])
@pytest.mark.parametrize("literal_masks", [False, True], ids=["plain", "literal_masks"])
@pytest.mark.parametrize("name, knobs, mask_bias", CASES)
def test_token_for_token(name, knobs, mask_bias, literal_masks, fdfo):
    endless = {"max_steps": 10**6} if fdfo else {}  # as theirs, where the mask token is proposed for ever
    for seed in range(10):
        arguments = (seed, 1 + seed % 5, 0.5 + 0.25 * (seed % 6), mask_bias, literal_masks)
        theirs = decoded(made(name, fdfo, **knobs), *arguments)
        ours = decoded(made("Unmask", fdfo, policy=name, **knobs, **endless), *arguments)
        assert theirs == ours, f"seed {seed}"


def test_a_block_that_proposes_the_mask_token_ends():
    """LowConfidence of SGLang repeats it, first done first out, as long as it is asked to."""
    arguments = (3, 2, 1.0, 60.0, False)
    theirs = decoded(made("LowConfidence"), *arguments)
    assert len(theirs) == 4 * BLOCK and not all(theirs[-1][1])
    ours = decoded(made("Unmask", policy="LowConfidence"), *arguments)
    assert len(ours) == BLOCK + 2 and all(ours[-1][1])
    assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs[: BLOCK + 2]]


@pytest.mark.parametrize(
    "name, text, suppress_mask",
    [
        ("LowConfidence", "threshold(0.95)", False),
        ("JointThreshold", "threshold(0.5) + edit_committed(0) + edited_blocks(16)", True),
    ],
)
def test_the_names_of_sglang_stand_for_texts(name, text, suppress_mask):
    for fdfo in (False, True):
        arguments = (5, 3, 1.25, -60.0, False)  # the mask token is never proposed
        written = made("Unmask", fdfo, policy=text, suppress_mask=suppress_mask)
        assert decoded(made(name, fdfo), *arguments) == decoded(written, *arguments)


@pytest.mark.parametrize("fdfo", [False, True], ids=["sync", "fdfo"])
def test_any_policy_leaves_no_mask(fdfo):
    for text in ("trace_credit + threshold(0.8)", "steps_per_block(4)", "by_entropy + entropy_bound(0.3)"):
        result = decoded(made("Unmask", fdfo, policy=text), 3, 4, 1.5, 4.0, False)
        tokens = result[-1][0] if fdfo else result[0]
        assert not any(MASK in row for row in tokens)


def test_max_steps_ends_a_block():
    tokens, _, forwards = decoded(made("Unmask", False, policy="tokens_per_step(1)", max_steps=3), 2, 1, 1.0, 0.0, False)
    assert forwards == 1 + 3
    assert sum(t == MASK for t in tokens[0]) == len(tokens[0]) - 3


@pytest.mark.parametrize(
    "settings, message",
    [
        ({}, "policy must be the text of a policy, got None; --dllm-algorithm-config names"),
        ({"policy": 3}, "policy must be the text of a policy, got 3"),
        ({"policy": "nonsense(1)"}, "column 1: there is no part 'nonsense'"),
        ({"policy": "threshold(0.9)", "treshold": 1}, "unknown setting treshold; there are policy, suppress_mask"),
        ({"policy": "threshold(0.9)", "threshold": 0.5}, "unknown setting threshold"),
        ({"policy": "threshold(0.9)", "suppress_mask": 1}, "suppress_mask must be true or false, got 1"),
        ({"policy": "threshold(0.9)", "eos_token": True}, "eos_token must be an integer, at least 0, got True"),
        ({"policy": "threshold(0.9)", "max_steps": 0}, "max_steps must be an integer, at least 1, got 0"),
        ({"policy": "lookahead(2) + threshold(0.9)"}, "SGLang cannot run lookahead: SGLang runs no branches"),
        ({"policy": "dual_cache + threshold(0.9)"}, "SGLang cannot run dual_cache: SGLang keeps K/V of finished blocks"),
        ({"policy": "threshold(0.9) + max_steps(3)"}, "cannot run max_steps: use the setting max_steps"),
        ({"policy": "JointThresholdInDel"}, "blocks of a policy keep their length"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError) as error:
        made("Unmask", **settings)
    assert message in str(error.value)


ENGINE = """
import json, sys
import sglang
import torch
from prometheus_client import CollectorRegistry, multiprocess

if __name__ == "__main__":
    model, algorithm, config, fdfo, calls = json.loads(sys.argv[1])
    engine = sglang.Engine(
        model_path=model, device="cpu", dtype="float32", attention_backend="torch_native", skip_tokenizer_init=True,
        disable_cuda_graph=True, mem_fraction_static=0.05, max_total_tokens=2048, max_running_requests=4,
        log_level="error", enable_metrics=True, dllm_algorithm=algorithm, dllm_algorithm_config=config, dllm_fdfo=fdfo)
    answers = []
    for prompts, policies in calls:
        sampling = [{"max_new_tokens": 12, "ignore_eos": True, "custom_params": p and {"policy": p}} for p in policies]
        try:
            answers.append([(a["output_ids"], a["meta_info"].get("unmask_forward"))
                            for a in engine.generate(input_ids=prompts, sampling_params=sampling)])
        except ValueError as error:
            answers.append(str(error))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    counted = {s.name: s.value for f in registry.collect() if f.name.startswith("unmask") for s in f.samples}
    print("RESULT" + json.dumps([answers, counted]), flush=True)
    engine.shutdown()
"""

# SGLang without its kernels takes this one function from vLLM.
ROTARY = """
def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox):
    cos, sin = (x[:, None] for x in cos_sin_cache[positions.flatten()].float().chunk(2, dim=-1))
    for x in (query, key):
        halves = x.view(len(positions), -1, head_size)
        a, b = (h.float().clone() for h in halves.chunk(2, dim=-1))
        halves[..., : head_size // 2] = a * cos - b * sin
        halves[..., head_size // 2 :] = b * cos + a * sin
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The engine of SGLang with a small random SDAR: its scheduler, memory, processes and layers."""
    from transformers import Qwen3Config, Qwen3ForCausalLM  # SDAR has Qwen3's weights

    folder = tmp_path_factory.mktemp("engine")
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").touch()
    (folder / "vllm" / "_custom_ops.py").write_text(ROTARY)
    (folder / "run.py").write_text(ENGINE)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=151936, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=256, eos_token_id=151643))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder / "model")
    described = json.loads((folder / "model" / "config.json").read_text())
    (folder / "model" / "config.json").write_text(json.dumps(described | {"architectures": ["SDARForCausalLM"]}))

    def run(algorithm, calls, fdfo=True, config=None):
        path = None
        if config is not None:
            path = str(folder / "config.yaml")
            (folder / "config.yaml").write_text(config)
        done = subprocess.run(
            [sys.executable, folder / "run.py", json.dumps([str(folder / "model"), algorithm, path, fdfo, calls])],
            env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
            cwd=folder, capture_output=True, text=True, timeout=300)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
        assert lines, done.stderr[-3000:]
        return json.loads(lines[-1][len("RESULT"):])

    return run


PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 6], [5] * 9]


@pytest.mark.parametrize("fdfo", [False, True], ids=["sync", "fdfo"])
def test_the_engine_decodes_alike(engine, fdfo):
    plain = [[PROMPTS, [None] * 3]]
    (low,), _ = engine("LowConfidence", plain, fdfo)
    (joint,), _ = engine("JointThreshold", plain, fdfo)
    (ours, mixed, nonsense, growing, file, number), counted = engine(
        "Unmask",
        plain + [
            [PROMPTS, ["JointThreshold", None, "threshold(0)"]],
            [PROMPTS[:1], ["nonsense(1)"]],
            [PROMPTS[:1], ["JointThresholdInDel"]],
            [PROMPTS[:1], ["calibrated_threshold('/etc/hostname')"]],
            [PROMPTS[:1], [["threshold(0.9)"]]],
        ],
        fdfo,
        "policy: LowConfidence\n",
    )
    tokens = lambda answers: [answer[0] for answer in answers]  # noqa: E731
    assert tokens(ours) == tokens(low)
    assert tokens(mixed)[:2] == [tokens(joint)[0], tokens(low)[1]] and tokens(joint)[0] != tokens(low)[0]
    assert nonsense.startswith("Unmask: policy 'nonsense(1)', column 1")
    assert growing.startswith("Unmask: policy JointThresholdInDel inserts and deletes")
    assert file.startswith("Unmask: policy") and "names a file, which it may not" in file
    assert number.startswith("Unmask: policy must be the text of a policy, got ['threshold(0.9)']")

    # Which forward pass decided each token: a block of threshold(0) is decided in one, and stored in
    # the next. Blocks have 4 positions; the prompt of 9 tokens leaves 3 in its last one.
    assert mixed[2][1] == [0] * 3 + [2] * 4 + [4] * 4 + [6]
    assert all(len(passes) == 12 and passes[0] < 4 for _, passes in ours)
    assert counted["unmask:tokens_total"] >= 6 * 12
    assert counted["unmask:forwards_total"] < 6 * 4 * (4 + 1 + 16)


def test_a_configuration_is_a_mapping():
    with pytest.raises(ValueError, match="the configuration must be a mapping, got 'threshold'"):
        from unmask.sglang import Settings

        Settings("threshold")


def test_the_engine_refuses_a_bad_configuration(engine):
    with pytest.raises(AssertionError, match="there is no part 'nonsense'"):
        engine("Unmask", [], config="policy: nonsense")
    with pytest.raises(AssertionError, match="Unmask needs --dllm-algorithm-config"):
        engine("Unmask", [])
