# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fast-dLLM's host as get_transfer_index of NeMo Automodel, beside that function; NEMO_AUTOMODEL names a checkout."""
import ast
import os
import pathlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F

CHECKOUT = os.environ.get("NEMO_AUTOMODEL")
MASK, VOCAB, LENGTH = 29, 30, 16


@pytest.fixture(scope="module")
def theirs():
    """The functions of its file, which imports all of NeMo."""
    if not CHECKOUT:
        pytest.skip("NEMO_AUTOMODEL must name a checkout of NeMo Automodel")
    text = (pathlib.Path(CHECKOUT) / "examples" / "dllm_generate" / "utils.py").read_text(encoding="utf-8")
    wanted = [f for f in ast.parse(text).body if getattr(f, "name", "") in
              ("add_gumbel_noise", "get_num_transfer_tokens", "get_transfer_index")]
    found = {"torch": torch, "np": np, "F": F}
    exec(compile(ast.Module(wanted, []), "utils.py", "exec"), found)
    return found


@pytest.fixture(scope="module")
def ours(load_host):
    return load_host("fast_dllm/generate.py", "host_nemo")


def logits_of(x, step):
    draw = torch.Generator().manual_seed(step + int(x.sum()))
    logits = 3 * torch.randn(*x.shape, VOCAB, generator=draw)
    logits[..., MASK] = -50
    return logits


@pytest.mark.parametrize("threshold", [None, 0.3, 0.9])
@pytest.mark.parametrize("steps", [4, 8, 12])
def test_step_for_step(theirs, ours, threshold, steps):
    """The loop of its sampler without a cache: two blocks, a prompt longer in the first row."""
    x = torch.full((2, LENGTH), MASK)
    x[:, :3], x[0, 3] = 5, 6
    moved = 0
    for block in range(2):
        inside = (torch.arange(LENGTH) // 8 == block)[None]
        schedule = theirs["get_num_transfer_tokens"]((x == MASK) & inside, steps)
        for step in range(steps):
            masks = (x == MASK) & inside
            if threshold is not None and not masks.any(dim=1).all():
                break  # its topk takes at least one
            logits, numbers = logits_of(x, step), schedule[:, step]
            x0, transfer = theirs["get_transfer_index"](logits, 0.0, "low_confidence", masks, x, numbers, threshold)
            mine, moves = ours.get_transfer_index(logits, 0.0, "low_confidence", masks, x, numbers, threshold)
            assert torch.equal(moves, transfer) and torch.equal(mine[transfer], x0[transfer])
            x[transfer] = x0[transfer]
            moved += int(transfer.sum())
    assert moved >= 10


def test_nothing_is_masked_and_nothing_is_due(ours):
    x = torch.full((2, 4), 3)
    logits = torch.zeros(2, 4, VOCAB)
    assert not ours.get_transfer_index(logits, 0.0, "low_confidence", x == MASK, x, torch.tensor([1, 1]))[1].any()
    x[1] = MASK
    moves = ours.get_transfer_index(logits, 0.0, "low_confidence", x == MASK, x, torch.tensor([2, 0]))[1]
    assert not moves.any()
    assert ours.get_transfer_index(logits, 0.0, "low_confidence", x == MASK, x, torch.tensor([[2], [3]]))[1].sum() == 3


@pytest.mark.parametrize("temperature, remasking, says", [
    (0.7, "low_confidence", r"temperature must be 0, got 0.7: write `\+ sampling\(0.7\)`"),
    (0, "random", r"remasking must be 'low_confidence', got 'random': write `at_random \+`")])
def test_what_a_policy_has_parts_for_is_refused(ours, temperature, remasking, says):
    x, logits = torch.full((1, 4), MASK), torch.zeros(1, 4, VOCAB)
    for call in (lambda: ours.get_transfer_index(logits, temperature, remasking, x == MASK, x, torch.tensor([1])),
                 lambda: ours.get_transfer_index(logits, temperature, remasking, x == MASK, x, None, policy="threshold(0.9)"),
                 lambda: ours.get_transfer_index_dynamic(logits, temperature, remasking, x == MASK, x, None)):
        with pytest.raises(ValueError, match=says):
            call()
