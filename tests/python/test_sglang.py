# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's dLLM algorithms beside ours in its own loops, token for token.

The algorithm modules are those of the released wheel, unpacked to UNMASK_SGLANG; what they import of
the rest of SGLang for its types only is replaced by empty modules.
"""
import importlib
import os
import shutil
import sys
import types

import pytest
import torch

BLOCK, VOCAB, MASK = 16, 64, 63


@pytest.fixture(scope="module")
def sglang(tmp_path_factory, repository):
    """A copy of the wheel's dllm package, with our module dropped into it as a user would."""
    wheel = os.environ.get("UNMASK_SGLANG")
    if not wheel:
        pytest.skip("UNMASK_SGLANG does not name an unpacked wheel of sglang")
    root = tmp_path_factory.mktemp("sglang") / "sglang"
    shutil.copytree(os.path.join(wheel, "sglang", "srt", "dllm"), root / "srt" / "dllm")
    hosts = repository / "examples" / "python" / "hosts" / "sglang"
    shutil.copy(hosts / "unmask_policy.py", root / "srt" / "dllm" / "algorithm")
    for name in ("sglang", "sglang.srt", "sglang.srt.dllm"):
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(root / name.replace("sglang", "", 1).replace(".", "/").lstrip("/"))]
    for name, attributes in {
        "arg_groups": {},
        "arg_groups.overrides": {"resolving_view": None},
        "configs": {},
        "configs.model_config": {"ModelConfig": object},
        "server_args": {"ServerArgs": object},
        "layers": {},
        "layers.logits_processor": {"LogitsProcessorOutput": object},
        "model_executor": {},
        "model_executor.forward_batch_info": {"ForwardBatch": object},
        "model_executor.model_runner": {"ModelRunner": object},
        "utils": {"is_npu": lambda: False},
    }.items():
        module = sys.modules["sglang.srt." + name] = types.ModuleType(name)
        module.__path__ = []
        vars(module).update(attributes)
    yield importlib.import_module("sglang.srt.dllm.algorithm")
    for name in [n for n in sys.modules if n.split(".")[0] == "sglang"]:
        del sys.modules[name]


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


def config(sglang, name, fdfo, **knobs):
    return sys.modules["sglang.srt.dllm.config"].DllmConfig(
        name, knobs, BLOCK, MASK, 8, first_done_first_out_mode=fdfo
    )


def trace(algorithm, seed, size, spread, mask_bias, literal_masks):
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
        for i, length in enumerate(lengths):  # a request that is done leaves; its row stays full
            if length:
                batch.input_ids.view(-1, BLOCK)[i] = 0
                if batch.dllm_prompt_mask is not None:
                    batch.dllm_prompt_mask[i] = True
    return seen


# The third number raises the mask token's logits. LowConfidence is followed also where that token is
# proposed; JointThreshold would edit committed tokens back into it, which ours never does.
CASES = [
    ("low_confidence", dict(threshold=0.95), 0.0),
    ("low_confidence", dict(threshold=0.4), 0.0),
    ("low_confidence", dict(threshold=0.6), 4.0),
    ("joint_threshold", dict(), -60.0),
    ("joint_threshold", dict(threshold=0.7, edit_threshold=0.3, max_post_edit_steps=3), -60.0),
    ("joint_threshold", dict(threshold=0.6, edit_threshold=0.5, max_post_edit_steps=0), -60.0),
    ("joint_threshold", dict(threshold=0.5, edit_threshold=0.2, penalty_lambda=1.5), -60.0),
]


@pytest.mark.parametrize("fdfo", [False, True], ids=["sync", "fdfo"])
@pytest.mark.parametrize("literal_masks", [False, True], ids=["plain", "literal_masks"])
@pytest.mark.parametrize("name, knobs, mask_bias", CASES)
def test_token_for_token(sglang, load_host, name, knobs, mask_bias, literal_masks, fdfo):
    theirs = importlib.import_module(f"sglang.srt.dllm.algorithm.{name}").Algorithm
    ours = load_host(f"sglang/{name}.py", "ours_" + name).Algorithm
    assert ours.__name__ == theirs.__name__ and ours is not theirs
    for seed in range(10):
        arguments = (seed, 1 + seed % 5, 0.5 + 0.25 * (seed % 6), mask_bias, literal_masks)
        both = [
            trace(algorithm(config(sglang, theirs.__name__, fdfo, **knobs)), *arguments)
            for algorithm in (theirs, ours)
        ]
        assert both[0] == both[1], f"seed {seed}"


def test_the_registry_finds_a_policy_by_its_text(sglang):
    """What a user does: --dllm-algorithm UnmaskPolicy, and a policy in the configuration."""
    algorithm = sglang.get_algorithm(
        config(sglang, "UnmaskPolicy", True, policy="trace_credit + threshold(0.8)")
    )
    *_, (tokens, lengths) = trace(algorithm, 3, 4, 1.5, 4.0, False)
    assert all(lengths) and not any(MASK in row for row in tokens)
