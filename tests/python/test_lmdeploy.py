# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The adapter for LMDeploy beside the step of its wheel, in the batches that its engine makes."""
import os
import subprocess
import sys
import types

import pytest
import torch

if os.environ.get("UNMASK_LMDEPLOY"):
    sys.path.insert(0, os.environ["UNMASK_LMDEPLOY"])
pytest.importorskip("lmdeploy.pytorch", reason="tests/python.sh unpacks LMDeploy")

from lmdeploy.pytorch.config import DLLMConfig, UnmaskingStrategy  # noqa: E402
from lmdeploy.pytorch.strategies.dllm import model_agent, step_inputs, unmasking  # noqa: E402
from unmask import lmdeploy as adapter  # noqa: E402

VOCAB, MASK, BLOCK = 40, 39, 8


class Model:
    """Logits of a position, from its tokens and those next to it."""

    def __init__(self, seed):
        draw = torch.Generator().manual_seed(seed)
        self.own, self.near = (3 * torch.randn(n, VOCAB, generator=draw) for n in (BLOCK, VOCAB))

    def __call__(self, ids):
        logits = self.own + self.near[ids.roll(1, -1)] + self.near[ids.roll(-1, -1)]
        logits[..., MASK] = -50
        return logits


def config(strategy="low_confidence_dynamic", steps=BLOCK, threshold=0.3):
    return DLLMConfig(BLOCK, UnmaskingStrategy.from_str(strategy), steps, threshold)


def decoded(processor, models, prompts, blocks=3, choose=lambda logits: logits.argmax(-1), drop=None):
    """Decodes `blocks` blocks of each request as LMDeploy's decoding loop does; the tokens after each pass."""
    ids = torch.full((len(models), BLOCK), MASK)
    masks = torch.zeros(len(models), BLOCK, dtype=torch.uint8)
    for i, prompt in enumerate(prompts):  # the end of the prompt, in the first block
        ids[i, : len(prompt)] = torch.tensor(prompt)
        masks[i, : len(prompt)] = 1
    rows, left, passes, answers = list(range(len(models))), [blocks] * len(models), [], [[] for _ in models]
    while rows:
        if drop and len(passes) == drop[0] and drop[1] in rows:
            at = rows.index(drop[1])
            keep = [i for i in range(len(rows)) if i != at]
            rows, ids, masks = [r for r in rows if r != drop[1]], ids[keep], masks[keep]
        logits = torch.stack([models[r](block) for r, block in zip(rows, ids)]).view(-1, VOCAB)
        states, tokens = processor(logits, ids.flatten(), choose(logits), masks.flatten())
        passes.append((list(rows), states.tolist(), torch.where(states == 0, MASK, tokens).tolist()))
        for i, (r, state) in enumerate(zip(rows, states.view(-1, BLOCK))):
            if bool((state == 2).all()):
                answers[r].append(tokens.view(-1, BLOCK)[i].tolist())
                left[r] -= 1
        ids, masks, _ = step_inputs._update_dllm(tokens, states, torch.zeros(len(rows)), BLOCK, MASK)
        keep = [i for i, r in enumerate(rows) if left[r]]
        rows, ids, masks = [rows[i] for i in keep], ids.view(-1, BLOCK)[keep], masks.view(-1, BLOCK)[keep]
        assert len(passes) < 300
    return passes, answers


MODELS = [Model(seed) for seed in range(5)]
PROMPTS = [[], [3], [4, 5, 6], [1] * 7, []]


@pytest.mark.parametrize("given, policy", [
    ({"threshold": 0.3}, "threshold(0.3, inclusive=true)"),
    ({"threshold": 0.9}, "threshold(0.9, inclusive=true)"),
    ({"strategy": "low_confidence_static"}, "tokens_per_step(1)"),
    ({"strategy": "low_confidence_static", "steps": 3}, "tokens_per_step(2)"),
    ({"strategy": "sequential"}, "left_to_right + tokens_per_step(1)"),
])
def test_pass_for_pass(given, policy):
    theirs = decoded(unmasking.UnmaskingProcessor(config(**given)), MODELS, PROMPTS)
    assert decoded(adapter.UnmaskingProcessor(config(**given), policy), MODELS, PROMPTS) == theirs
    assert all(len(answer) == 3 for answer in theirs[1])


@pytest.mark.parametrize("policy", ["trace_credit + threshold(0.6)", "by_entropy + tokens_per_step(2)",
                                    "threshold(0.9) + edit_committed(0.5)", "remask_below(0.3) + tokens_per_step(3)"])
def test_requests_of_a_batch_are_as_alone(policy):
    """State stays with its block while others join, end and are aborted."""
    def answers(which, **options):
        made = adapter.UnmaskingProcessor(config(), policy)
        return decoded(made, [MODELS[i] for i in which], [PROMPTS[i] for i in which], **options)[1]

    alone = [answers([i])[0] for i in range(5)]
    assert answers(range(5)) == alone and not any(MASK in block for answer in alone for block in answer)
    aborted = answers(range(5), drop=(2, 1))
    assert [aborted[i] for i in (0, 2, 3, 4)] == [alone[i] for i in (0, 2, 3, 4)]


def test_a_block_that_waits_goes_on():
    """LMDeploy runs prefills between the passes of the blocks that it decodes."""
    policy = "trace_credit + threshold(0.95)"
    made = adapter.UnmaskingProcessor(config(), policy)
    expected = decoded(adapter.UnmaskingProcessor(config(), policy), MODELS[:1], [[]], blocks=1)[0]
    ids, masks = torch.full((BLOCK,), MASK), torch.zeros(BLOCK, dtype=torch.uint8)
    for _, states, shown in expected[:-1]:
        logits = MODELS[0](ids)
        masks, tokens = made(logits, ids, logits.argmax(-1), masks)
        assert masks.tolist() == states
        ids = torch.where(masks == 0, MASK, tokens)
        assert ids.tolist() == shown
        other = MODELS[1](torch.full((BLOCK,), MASK))
        made(other, torch.full((BLOCK,), MASK), other.argmax(-1), torch.zeros(BLOCK, dtype=torch.uint8))
    assert sum(map(len, made._blocks.values())) <= adapter._WAITING


def test_blocks_of_aborted_requests_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(adapter, "_WAITING", 10)
    made = adapter.UnmaskingProcessor(config(), "tokens_per_step(1)")
    for seed in range(100):
        logits = Model(seed)(torch.full((BLOCK,), MASK))
        made(logits, torch.full((BLOCK,), MASK), logits.argmax(-1), torch.zeros(BLOCK, dtype=torch.uint8))
    assert sum(map(len, made._blocks.values())) == 10 and len(made._free) == 64 - 10


def test_tokens_that_lmdeploy_draws_stand_unless_the_policy_draws():
    def choose(logits):  # the second best
        return logits.topk(2, -1).indices[:, 1]

    for policy in ("tokens_per_step(2)", "tokens_per_step(2) + sampling"):
        passes, _ = decoded(adapter.UnmaskingProcessor(config(), policy), MODELS[:1], [[]], blocks=1, choose=choose)
        first = choose(MODELS[0](torch.full((BLOCK,), MASK))).tolist()
        _, states, tokens = passes[0]
        same = [tokens[i] == first[i] for i in range(BLOCK) if states[i] == 1]
        assert len(same) == 2 and all(same) == ("sampling" not in policy)


def test_a_policy_that_cannot_run():
    for policy, message in (("dual_cache + threshold(0.9)", "LMDeploy cannot run dual_cache: LMDeploy keeps K/V"),
                            ("thresold(0.9)", "there is no part 'thresold'")):
        with pytest.raises(ValueError, match=message):
            adapter.UnmaskingProcessor(config(), policy)


def test_install(monkeypatch):
    monkeypatch.setattr(model_agent, "UnmaskingProcessor", model_agent.UnmaskingProcessor)
    for name in (adapter._POLICY, adapter._SUPPRESS):
        monkeypatch.setenv(name, "")
    adapter.install("tokens_per_step(2)")
    agent = model_agent.DLLMModelAgentStrategy(config(), MASK)
    logits = MODELS[0](torch.full((BLOCK,), MASK))
    inputs = types.SimpleNamespace(input_ids=torch.full((1, BLOCK), MASK), seq_length=torch.tensor([BLOCK]))
    extra = model_agent.DLLMExtraInputs(torch.zeros(BLOCK, dtype=torch.uint8))
    tokens, extra = agent.post_sampling(inputs, logits, logits.argmax(-1), extra)
    assert extra.dllm_mask.sum() == 2 and extra.dllm_mask.dtype == torch.uint8


def test_the_command_reaches_processes_that_are_started(tmp_path):
    """A process that multiprocessing spawns has the policy, too."""
    (tmp_path / "sitecustomize.py").write_text("""
import sys, types
cli = types.ModuleType("lmdeploy.cli")
def child(queue):
    from lmdeploy.pytorch.strategies.dllm import model_agent
    queue.put(model_agent.UnmaskingProcessor.__module__)
def run():
    import multiprocessing
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(sys.argv[1:], queue.get(timeout=200))
    process.join()
cli.run, cli.child = run, child
child.__module__ = "lmdeploy.cli"
sys.modules["lmdeploy.cli"] = cli
""")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("UNMASK_LMDEPLOY"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run([sys.executable, "-m", "unmask.lmdeploy", "--policy", "threshold(0.9)", "serve", "x"],
                          capture_output=True, text=True, timeout=400, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout == "['serve', 'x'] __mp_main__\n", done.stderr
    done = subprocess.run([sys.executable, "-m", "unmask.lmdeploy", "--policy", "thresold(0.9)", "serve"],
                          capture_output=True, text=True, timeout=400, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 2 and "there is no part 'thresold'" in done.stderr
