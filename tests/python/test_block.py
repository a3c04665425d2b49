# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block and Decider beside a Session that asks for its own forward passes."""
import numpy as np
import pytest
import torch
import unmask
from test_session import LENGTH, MASK, PROMPT, VOCAB, Model, canvas, decode, new_session

POLICY = "trace_credit + threshold(0.7)"
WIDTH = LENGTH - PROMPT


def expected(seed, policy=POLICY):
    tokens = canvas(seed)
    report = decode(new_session(policy), Model(seed), tokens, block_length=WIDTH)
    return tokens.tolist(), report.forwards


def new_block(policy=POLICY):
    return unmask.Block(policy, length=LENGTH, vocab=VOCAB, mask_token=MASK)


@pytest.mark.parametrize("seed", range(5))
def test_a_block_decodes_as_a_session_does(seed):
    for tokens in (canvas(seed), torch.from_numpy(canvas(seed)), canvas(seed, np.int32)):
        block, model, forwards = new_block(), Model(seed), 0
        block.start(tokens, tokens == MASK)
        while not block.ended:
            before = tokens.tolist()
            written = block.step(model(tokens))
            assert {c.position for c in written} == {p for p in range(LENGTH) if tokens[p] != before[p]}
            forwards += 1
        assert (tokens.tolist(), forwards) == expected(seed)
        assert block.step(model(tokens)) == [] and block.report.forwards == forwards


def test_a_block_reads_rows_of_open_positions_only():
    model, tokens, block = Model(1), canvas(1), new_block()
    block.start(tokens, tokens == MASK)
    while not block.ended:
        logits = model(tokens)
        logits[tokens != MASK] = np.nan
        block.step(logits)
    assert (tokens.tolist(), block.report.invalid_rows) == (expected(1)[0], 0)


def test_a_block_starts_again_at_any_time():
    block, model = new_block(), Model(2)
    for steps in (0, 1, 2, 100):
        tokens = canvas(2)
        block.start(tokens, tokens == MASK)
        while not block.ended and block.report.forwards < steps:
            block.step(model(tokens))
    assert tokens.tolist() == expected(2)[0]


def test_a_block_without_open_positions_has_ended():
    block = new_block()
    tokens = np.zeros(LENGTH, dtype=np.int64)
    block.start(tokens, tokens == MASK)
    assert block.ended and block.step(Model(3)(tokens)) == []


def test_what_a_block_refuses():
    block = new_block()
    block.start(canvas(4), canvas(4) == MASK)
    with pytest.raises(ValueError, match=f"{LENGTH} rows, got 3"):
        block.step(Model(4)(canvas(4))[:3])
    block = unmask.Block("tokens_per_step(1) + lookahead(2)", length=4, vocab=5, mask_token=4)
    tokens = np.full(4, 4)
    block.start(tokens, tokens == 4)
    with pytest.raises(ValueError, match="cannot run the branches"):
        for _ in range(4):
            block.step(np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))


def run(decide, seeds, kind, order=lambda step, rows: rows):
    """A host's loop over a batch whose rows stand in another order at each step."""
    x = {seed: canvas(seed) for seed in seeds}
    forwards = dict.fromkeys(seeds, 0)
    step = 0
    while any((t == MASK).any() for t in x.values()):
        rows = order(step, list(seeds))
        batch = kind(np.stack([x[s] for s in rows]))
        logits = kind(np.stack([Model(s)(x[s]) for s in rows]))
        x0, transfer = decide(logits, batch, batch == MASK, keys=rows)
        assert type(x0) is type(batch) and x0.shape == batch.shape == transfer.shape
        batch[transfer] = x0[transfer]
        for i, s in enumerate(rows):
            forwards[s] += bool((x[s] == MASK).any())
            x[s] = np.asarray(batch[i]).copy()
        step += 1
    return {s: (x[s].tolist(), forwards[s]) for s in seeds}


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_decider_keeps_what_each_request_remembers(kind):
    decide = unmask.Decider(POLICY, mask_token=MASK)
    seeds = range(5, 10)
    wanted = {s: expected(s) for s in seeds}
    assert wanted != {s: expected(s, "threshold(0.7)") for s in seeds}  # credit matters here
    turn = lambda step, rows: rows[step % len(rows) :] + rows[: step % len(rows)]  # noqa: E731
    assert run(decide, seeds, kind, turn) == wanted
    assert run(decide, seeds, kind) == wanted  # and nothing is left of them


def test_a_decider_forgets_a_request_that_the_host_changed():
    decide, model = unmask.Decider(POLICY, mask_token=MASK), Model(11)
    x = canvas(11)[None]
    decide(model(x[0])[None], x, x == MASK)
    decide.forget(0)
    for fresh in (decide, unmask.Decider(POLICY, mask_token=MASK)):
        x = canvas(11)[None]
        x[0, PROMPT] = 3  # the host filled one by itself
        answers = []
        while (x == MASK).any():
            x0, transfer = fresh(model(x[0])[None], x, x == MASK)
            x[transfer] = x0[transfer]
            answers.append(x.tolist())
        first = answers if fresh is decide else first
    assert first == answers


def test_a_decider_begins_again_where_a_policy_has_given_up():
    decide, x = unmask.Decider("tokens_per_step(1) + max_steps(2)", mask_token=MASK), canvas(13)[None]
    for left in range(WIDTH, 0, -1):
        assert (x == MASK).sum() == left
        x0, transfer = decide(Model(13)(x[0])[None], x, x == MASK)
        x[transfer] = x0[transfer]
    assert not (x == MASK).any()


def test_a_decider_takes_a_bitmask():
    decide = unmask.Decider("tokens_per_step(3)", mask_token=MASK)
    x = canvas(12)[None]
    allowed = np.zeros((1, LENGTH, 3), dtype=np.int32)
    allowed[:, :, 0] = 1 << 5
    x0, transfer = decide(Model(12)(x[0])[None], x, x == MASK, allowed=allowed)
    assert transfer.sum() == 3 and (x0[transfer] == 5).all()


@pytest.mark.parametrize("name", ["vocab", "length", "window"])
def test_a_decider_takes_sizes_from_the_logits(name):
    with pytest.raises(ValueError, match=f"takes {name} from the shape of the logits, got 8: leave it out"):
        unmask.Decider(POLICY, mask_token=MASK, **{name: 8})
