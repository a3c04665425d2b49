# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators of PyTorch: what they compute, and their fakes."""
import numpy as np
import pytest
import unmask

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from unmask import ops  # noqa: E402

MASK, VOCAB, LENGTH = 39, 40, 12
LOGITS = torch.randn(6, VOCAB, generator=torch.Generator().manual_seed(1)) * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [(), (0.7, [3, 5]), (1.0, [], 4, 0.8, 0.01)])
def test_read(dtype, options):
    logits = LOGITS.to(dtype)
    tokens, statistics = torch.ops.unmask.read(logits, *options)
    names = dict(zip(("temperature", "suppressed", "top_k", "top_p", "min_p"), options))
    expected = unmask.read(logits, **names)
    assert torch.equal(tokens, expected.tokens) and torch.equal(statistics, torch.stack(expected[1:], 1))
    torch.library.opcheck(ops.read, (logits, *options))


class Model(torch.nn.Module):
    """A row for each position, from the tokens next to it."""

    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(2)
        self.register_buffer("near", torch.randn(VOCAB, VOCAB, generator=draw) * 2)
        self.register_buffer("own", torch.randn(LENGTH, VOCAB, generator=draw) * 2)

    def forward(self, x):
        return self.own + self.near[x.roll(1, 1)] + self.near[x.roll(-1, 1)]


def start(dtype):
    x = torch.full((3, LENGTH), MASK, dtype=dtype)
    x[:, :2] = torch.tensor([[1, 2], [3, 4], [5, 6]])
    return x


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("policy", ["trace_credit + threshold(0.6)", "by_entropy + tokens_per_step(2)"])
def test_a_compiled_step_decodes_as_a_decider(policy, dtype):
    model, rule = Model(), ops.decider(policy, mask_token=MASK)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(x):
        return torch.ops.unmask.decide(model(x), x, x == MASK, rule)

    decide = unmask.Decider(policy, mask_token=MASK)
    x, y = start(dtype), start(dtype)
    for _ in range(LENGTH):
        wrote = step(x)
        x0, transfer = decide(model(y), y, y == MASK)
        y[transfer] = x0[transfer].to(dtype)
        assert torch.equal(x, y) and torch.equal(wrote, transfer)
        if not (x == MASK).any():
            break
    assert not (x == MASK).any()


def test_the_operators_are_well_formed():
    rule = ops.decider("tokens_per_step(2)", mask_token=MASK)
    x = start(torch.int64)
    # Each call of the check is another step of a fresh block: a Decider begins anew where the mask is another.
    torch.library.opcheck(ops.decide, (Model()(x), x, x == MASK, rule),
                          test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


class Rows(Model):
    """The model for one sequence."""

    def forward(self, x):
        return self.own + self.near[x.roll(1)] + self.near[x.roll(-1)]


def start_session(policy, tokens):
    session = unmask.Session(policy, vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH)
    session.start(0, tokens, prompt_length=2, block_length=5)
    return session


@pytest.mark.parametrize("policy", ["trace_credit + threshold(0.6)", "tokens_per_step(2) + sampling(0.8)"])
def test_a_compiled_step_decodes_as_a_session(policy):
    model, expected = Rows(), start(torch.int32)[0].clone()
    session = start_session(policy, expected)
    while (request := session.next()) is not None:
        session.supply(model(expected)[request.segments[0].rows])

    tokens = start(torch.int32)[0].clone()
    session = start_session(policy, tokens)
    number = ops.session(session, tokens)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(x, first, last):
        torch.ops.unmask.supply(model(x)[first:last], x, number)
        return (x == MASK).sum()  # after the step

    while (request := session.next()) is not None:
        rows = request.segments[0].rows
        left = step(tokens, rows.start, rows.stop)
        assert left == (tokens == MASK).sum()
    assert torch.equal(tokens, expected) and not (tokens == MASK).any()


def test_a_supply_that_does_not_fit():
    tokens = start(torch.int32)[0].clone()
    session = start_session("threshold(0.6)", tokens)
    assert session.stream is None
    with pytest.raises(ValueError, match="tokens must be int32 of one dimension, got torch.int64"):
        ops.session(session, tokens.long())
    number, rows = ops.session(session, tokens), torch.zeros(5, VOCAB)
    with pytest.raises(ValueError, match="session must be a number that ops.session\\(\\) returned, got 1000"):
        torch.ops.unmask.supply(rows, tokens, 1000)
    with pytest.raises(ValueError, match="tokens must have the session's 12 tokens, got \\(3,\\)"):
        torch.ops.unmask.supply(rows, tokens[:3], number)
    with FakeTensorMode(), pytest.raises(Exception, match="logits and tokens must be"):
        torch.ops.unmask.supply(torch.zeros(1, 5, VOCAB), torch.zeros(12, dtype=torch.int32), number)


def test_fakes_have_the_shapes():
    with FakeTensorMode():
        tokens, statistics = torch.ops.unmask.read(torch.empty(64, 157184, dtype=torch.bfloat16))
        assert tokens.shape == (64,) and tokens.dtype == torch.int32
        assert statistics.shape == (64, 5) and statistics.dtype == torch.float32
        x = torch.empty(8, 32, dtype=torch.int64)
        moved = torch.ops.unmask.decide(torch.empty(8, 32, 157184), x, x == 1, 0)
        assert moved.shape == (8, 32) and moved.dtype == torch.bool


def test_shapes_that_do_not_fit():
    x = torch.zeros(2, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match="decider must be a number that ops.decider\\(\\) returned, got 1000"):
        torch.ops.unmask.decide(torch.zeros(2, 4, VOCAB), x, x == 1, 1000)
    with FakeTensorMode(), pytest.raises(Exception, match="logits, tokens and masked must be"):
        x = torch.zeros(2, 4, dtype=torch.int64)
        torch.ops.unmask.decide(torch.zeros(2, 5, VOCAB), x, x == 1, 0)


def test_export():
    class Reader(torch.nn.Module):
        def forward(self, logits):
            return torch.ops.unmask.read(logits * 2, 1.0, [MASK])

    rows = torch.export.Dim("rows", min=2, max=1000)
    program = torch.export.export(Reader(), (LOGITS,), dynamic_shapes=({0: rows},))
    for logits in (LOGITS, LOGITS[:3]):
        found, expected = program.module()(logits), unmask.read(logits * 2, suppressed=[MASK])
        assert np.array_equal(found[0], expected.tokens) and torch.equal(found[1], torch.stack(expected[1:], 1))
