# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sessions on a CUDA device decode what sessions on the host do. Skipped without a GPU, or in a package without them."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no GPU", allow_module_level=True)

import unmask  # noqa: E402
from unmask import _unmask  # noqa: E402

if not _unmask.has_cuda:
    pytest.skip("built without UNMASK_PYTHON_CUDA", allow_module_level=True)

VOCAB, MASK, END, LENGTH, PROMPT = 4099, 4098, 4097, 48, 5
POLICIES = [
    "threshold(0.6)",
    "credit_decoding",
    "threshold(0.4) + lookahead(2, 0.5)",
    "osdt_gpqa(threshold=0.3)",
    "by_margin + tokens_per_step(2) + sampling(0.8) + top_p(0.9)",
    "by_entropy + entropy_bound(0.4) + trace_credit",
    "threshold(0.4) + block_pipeline(0.2, 0.6, 3) + stop_at_eos",
    "threshold(0.3) + edit_committed(0.2)",
    "tokens_per_step(2) + top_k(100) + sampling",
    "all_of(threshold(0.2), tokens_per_step(3)) + remask_current_below(0.3, 2)",
    "any_of(threshold(0.5), local_leap(0.3, 0.2, 2)) + repetition_penalty(1.5, window=3)",
]


class Model:
    """Logits that depend on the neighbours, with the same bits on the CPU and on a device."""

    def __init__(self, seed, dtype=torch.float32):
        draw = torch.Generator().manual_seed(seed)
        own, left, right = (4 * torch.rand(n, VOCAB, generator=draw) for n in (LENGTH, 97, 97))
        self.own, self.left, self.right = (t.to(dtype) for t in (own, left, right))

    def on(self, device):
        moved = object.__new__(Model)
        moved.own, moved.left, moved.right = (t.to(device) for t in (self.own, self.left, self.right))
        return moved

    def __call__(self, tokens):
        neighbours = (torch.roll(tokens, shift) % 97 for shift in (1, -1))
        left, right = (table[n.long()] for table, n in zip((self.left, self.right), neighbours))
        return torch.maximum(torch.maximum(self.own, left), right)  # no sum: the bits are the same


def canvas(seed):
    tokens = torch.full((LENGTH,), MASK, dtype=torch.int32)
    tokens[:PROMPT] = torch.from_numpy(np.random.default_rng(seed).integers(0, END, PROMPT).astype(np.int32))
    return tokens


def new_session(policy, **options):
    return unmask.Session(policy, **{**dict(vocab=VOCAB, mask_token=MASK, eos_token=END, length=LENGTH, window=LENGTH,
                                            branches=4), **options})


def on_stream(policy, **options):
    return new_session(policy, stream=torch.cuda.current_stream().cuda_stream, **options)


@pytest.fixture(autouse=True)
def a_stream():
    with torch.cuda.stream(torch.cuda.Stream()):
        yield


def decode(session, models, tokens, to=lambda rows: rows):
    """Returns what each step committed, and the reports."""
    for slot, one in enumerate(tokens):
        session.start(slot, one, prompt_length=PROMPT, block_length=16, seed=slot)
    steps = []
    while (request := session.next()) is not None:
        rows = []
        for s in request.segments:
            branch = tokens[s.slot].clone()
            for position, token in s.placed:
                branch[position] = token
            rows.append(models[s.slot](branch)[s.rows])
        session.supply(to(rows))
        steps.append([(slot, c.position, c.token, c.log_probability) for slot in range(len(tokens))
                      for c in session.committed(slot)])
    return steps, [repr(session.report(slot)) for slot in range(len(tokens))]


def compare(policy, dtype=torch.float32, **how):
    models, tokens = [Model(seed, dtype) for seed in (1, 2, 3)], [canvas(seed) for seed in (1, 2, 3)]
    expected = decode(new_session(policy, sequences=3), models, tokens)
    written = [one.cuda() for one in map(canvas, (1, 2, 3))]
    assert decode(on_stream(policy, sequences=3), [m.on("cuda") for m in models], written, **how) == expected
    assert [one.tolist() for one in written] == [one.tolist() for one in tokens]


@pytest.mark.parametrize("policy", POLICIES)
def test_decodes_as_a_session_on_the_host(policy):
    compare(policy)


@pytest.mark.parametrize("policy", [p for p in POLICIES if "lookahead" not in p and "edit" not in p])
def test_soft_tokens_are_those_of_the_host(policy):
    answers = []
    for device, make in (("cpu", new_session), ("cuda", on_stream)):
        model, tokens, session, steps = Model(8).on(device), canvas(8).to(device), make(policy), []
        session.start(0, tokens, prompt_length=PROMPT, block_length=16, seed=1, soft_tokens=5)
        while (request := session.next()) is not None:
            session.supply(model(tokens)[request.segments[0].rows])
            steps.append([[(e.position, e.token, e.probability, e.share) for e in entries]
                          for entries in (session.soft_tokens(), session.alternatives())])
        answers.append(steps)
    assert answers[0] == answers[1] and any(soft and alternatives for soft, alternatives in answers[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("to", [
    torch.cat,
    lambda rows: [torch.nn.functional.pad(r, (0, 9), value=float("nan"))[:, :VOCAB] for r in rows],
], ids=["packed", "with a stride"])
def test_logits_are_read_where_they_are(dtype, to):
    compare("trace_credit + threshold(0.6)", dtype, to=to)


def test_logits_of_another_stream_are_waited_for():
    model, expected, tokens = Model(4), canvas(4), canvas(4).cuda()
    decode(new_session("threshold(0.6)"), [model], [expected])
    session, model, other = on_stream("threshold(0.6)"), model.on("cuda"), torch.cuda.Stream()
    session.start(0, tokens, prompt_length=PROMPT, block_length=16)
    while (request := session.next()) is not None:
        with torch.cuda.stream(other):
            torch.cuda._sleep(2_000_000)
            logits = model(tokens)[request.segments[0].rows]
            session.supply(logits)  # while the other stream is the current one
    assert tokens.tolist() == expected.tolist()


def test_a_pass_and_its_step_are_one_graph():
    """Captured once a block, and replayed until the block is done: the host learns of no step between."""
    model, expected, tokens = Model(5), canvas(5), canvas(5).cuda()
    decode(new_session("threshold(0.6)"), [model], [expected])
    model, session, captures = model.on("cuda"), on_stream("threshold(0.6)"), 0
    model(tokens)
    session.start(0, tokens, prompt_length=PROMPT, block_length=16)
    while (request := session.next()) is not None:
        captures += 1
        assert captures <= 3, "one for each block is enough"
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            session.supply(model(tokens)[request.segments[0].rows])
        for _ in range(16):
            graph.replay()
    assert tokens.tolist() == expected.tolist()


@pytest.mark.parametrize("captured", [False, True])
def test_an_operator_supplies_what_torch_compiles(captured):
    from unmask import ops

    model, expected, tokens, one_block = Model(7), canvas(7), canvas(7).cuda(), dict(prompt_length=PROMPT, block_length=LENGTH)
    session = new_session("threshold(0.6)")
    session.start(0, expected, **one_block)
    while (request := session.next()) is not None:
        session.supply(model(expected)[request.segments[0].rows])
    model, session, stream = model.on("cuda"), on_stream("threshold(0.6)"), torch.cuda.current_stream()
    session.start(0, tokens, **one_block)
    number, captures = ops.session(session, tokens), 0

    @torch.compile(fullgraph=True)
    def step(x, first, last):
        torch.ops.unmask.supply(model(x)[first:last], x, number)

    with torch.cuda.stream(torch.cuda.Stream()):  # another than the session's
        torch.cuda.current_stream().wait_stream(stream)
        if captured:
            rows = session.next().segments[0].rows
            step(tokens, rows.start, rows.stop)  # compiles; then from the start
            tokens.copy_(canvas(7))
            session.start(0, tokens, **one_block)
        while (request := session.next()) is not None:
            rows = request.segments[0].rows
            if not captured:
                step(tokens, rows.start, rows.stop)
                continue
            captures += 1
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step(tokens, rows.start, rows.stop)
            for _ in range(LENGTH):
                graph.replay()
            stream.wait_stream(torch.cuda.current_stream())  # next() waits for the session's stream alone
        torch.cuda.synchronize()
    assert tokens.tolist() == expected.tolist()
    assert captures == int(captured)


def test_mistakes_are_named():
    session = on_stream("threshold(0.6)")
    with pytest.raises(ValueError, match="tokens must be in the session's memory, got host memory"):
        session.start(0, canvas(1), prompt_length=PROMPT)
    with pytest.raises(ValueError, match="tokens must be int32"):
        session.start(0, canvas(1).long().cuda(), prompt_length=PROMPT)
    with pytest.raises(ValueError, match="tokens must be in the session's memory, got device memory"):
        new_session("threshold(0.6)").start(0, canvas(1).cuda(), prompt_length=PROMPT)
    session.start(0, canvas(1).cuda(), prompt_length=PROMPT)
    (segment,) = session.next().segments
    with pytest.raises(ValueError, match="that of the session's backend"):
        session.supply(Model(1)(canvas(1))[segment.rows])
    with pytest.raises(ValueError, match="rows"):
        session.supply(Model(1).on("cuda")(canvas(1).cuda())[:3])


@pytest.mark.parametrize("stream", [True, False], ids=["on a stream", "on the host"])
def test_a_block_and_a_decider_take_tensors_of_a_device(stream):
    """Without a stream they copy the rows they read to the host."""
    policy, model = "trace_credit + threshold(0.6)", Model(6)
    options = dict(stream=torch.cuda.current_stream().cuda_stream) if stream else {}
    answers = []
    for device, more in (("cpu", {}), ("cuda", options)):
        on, tokens = model.on(device), canvas(6).long().to(device)
        block = unmask.Block(policy, length=LENGTH, vocab=VOCAB, mask_token=MASK, **more)
        block.start(tokens, tokens == MASK)
        commits = []
        while not block.ended:
            commits.append([(c.position, c.token) for c in block.step(on(tokens))])
        x, decide = canvas(6).long().to(device)[None], unmask.Decider(policy, mask_token=MASK, **more)
        while (x == MASK).any():
            x0, transfer = decide(on(x[0])[None], x, x == MASK)
            assert x0.device == transfer.device == x.device
            x[transfer] = x0[transfer]
        assert x[0].tolist() == tokens.tolist()
        answers.append((tokens.tolist(), commits))
    assert answers[0] == answers[1]
