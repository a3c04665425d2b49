# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin for vLLM beside vLLM's own sampler of DiffusionGemma, step for step.

UNMASK_VLLM names the unpacked Python files of vLLM's wheel. Its sampler and states run here on a CPU;
its Triton kernels run in Triton's interpreter. No engine, no model and no GPU take part.
"""
import math
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import unmask
from draws import probability_of_a_fit, sampled

VOCAB, CANVAS, HIDDEN, SLOTS, STEPS = 64, 16, 8, 6, 12
POLICY = "by_entropy + entropy_bound(0.1) + canvas(12)"


@pytest.fixture(scope="module")
def vllm():
    folder = os.environ.get("UNMASK_VLLM")
    if not folder:
        pytest.skip("UNMASK_VLLM does not name unpacked Python files of vllm")
    pytest.importorskip("triton", reason="triton is not installed")
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(folder)
    patch.setattr("torch._dynamo.config.disable", True)
    patch.setattr("torch.accelerator.get_memory_info", lambda *_: (1 << 33, 1 << 33))
    from triton.backends import backends

    for name, backend in backends.items():  # vLLM uses Triton where exactly one driver is active
        patch.setattr(backend.driver, "is_active", staticmethod(lambda name=name: name == "nvidia"))
    platforms = pytest.importorskip("vllm.platforms")
    platforms.current_platform.device_type = "cpu"
    platforms.current_platform.is_pin_memory_available = lambda: False
    from vllm.model_executor.models import diffusion_gemma, diffusion_gemma_sampler
    patch.setattr("vllm.v1.sample.ops.topk_topp_sampler.HAS_TRITON", False)  # wants a GPU's properties
    from vllm.sampling_params import SamplingParams
    from vllm.v1.worker.gpu.sample.logprob import LogprobTokenIdsState
    from vllm.v1.worker.gpu.sample.states import SamplingStates

    import unmask.vllm.diffusion_gemma as plugin

    yield SimpleNamespace(
        gemma=diffusion_gemma, stats=diffusion_gemma_sampler, SamplingParams=SamplingParams,
        SamplingStates=SamplingStates, LogprobTokenIdsState=LogprobTokenIdsState, plugin=plugin,
    )  # fmt: skip
    patch.undo()


def theirs(vllm):
    """vLLM's sampler with states of its own."""
    states = vllm.gemma.DiffusionGemmaRequestStates(
        SLOTS, CANVAS, VOCAB, STEPS, torch.device("cpu"), HIDDEN, stability_threshold=2
    )
    base = SimpleNamespace(
        sampling_states=vllm.SamplingStates(SLOTS, VOCAB),
        logprob_token_ids_state=vllm.LogprobTokenIdsState(SLOTS, torch.device("cpu")),
        req_states=SimpleNamespace(draft_tokens=torch.zeros(SLOTS, CANVAS, dtype=torch.int64)),
        logprobs_mode="raw_logprobs",
    )
    weight = torch.randn(VOCAB, HIDDEN, generator=torch.Generator().manual_seed(1))
    return vllm.gemma.DiffusionSampler(
        base, SimpleNamespace(canvas_length=CANVAS), VOCAB, states, confidence_threshold=0.005, t_min=0.4, t_max=0.8,
        entropy_bound=0.1, embed_weight=weight, normalizer=torch.tensor(2.0),
    )  # fmt: skip


def ours(vllm, policy=POLICY):
    return vllm.plugin.UnmaskSampler(theirs(vllm), policy)


def batch(slots, counts):
    """What the runner gives a sampler: a request with 0 rows has just had its prompt of 5 tokens run."""
    counts = np.array(counts)
    queries = np.where(counts > 0, counts, 5)
    starts = np.concatenate([[0], np.cumsum(queries)])
    return SimpleNamespace(
        num_reqs=len(slots),
        num_draft_tokens=int(counts.sum()),
        idx_mapping_np=np.array(slots),
        idx_mapping=torch.tensor(slots, dtype=torch.int32),
        cu_num_logits_np=np.concatenate([[0], np.cumsum(counts)]),
        query_start_loc_np=starts,
        query_start_loc=torch.tensor(starts),
        num_computed_prefill_tokens_np=np.where(counts > 0, 5, 0),
        num_scheduled_tokens=queries,
        prefill_len_np=np.full(len(slots), 5),
    )


class Model:
    """Logits of a position from its token, its neighbours' and itself, multiplied by `sharpness`."""

    def __init__(self, seed, sharpness):
        draw = torch.Generator().manual_seed(seed)
        self.own = torch.randn(CANVAS, VOCAB, generator=draw) * sharpness
        self.near = torch.randn(3, VOCAB, VOCAB, generator=draw) * (0.4 * sharpness)

    def __call__(self, canvas):
        n = len(canvas)
        left, right = canvas.roll(1), canvas.roll(-1)
        return self.own[:n] + self.near[0][left] + self.near[1][right] + self.near[2][canvas]


def begin(sampler, requests):
    """Adds requests {slot: sampling parameters}, in the order given, with their prompts; the slots."""
    for slot, params in requests.items():
        sampler.diffusion_states.add_request(slot)
        sampler.add_request(slot, params)
    sampler.apply_staged_writes()
    slots = list(requests)
    sampler(torch.zeros(0, VOCAB), batch(slots, [0] * len(slots)))
    return slots


def serve(sampler, model, requests, steps=STEPS + 3, shared=None):
    """Runs requests {slot: sampling parameters} in the order given; what each slot emitted and went through.

    `shared` are the columns of logits that vLLM computes where all requests have one allowed set.
    """
    states, drafts = sampler.diffusion_states, sampler.req_states.draft_tokens
    slots = begin(sampler, requests)
    log, emitted, logprobs = {s: [] for s in slots}, {s: [] for s in slots}, {}
    widths = {s: int(states.canvas_width_np[s]) for s in slots}
    for _ in range(steps):
        running = [s for s in slots if not emitted[s]]
        if not running:
            break
        logits = torch.cat([model(drafts[s, : widths[s]]) for s in running])
        states.step_allowed = None
        if shared is not None:
            states.step_allowed = torch.tensor(shared)
            logits = logits[:, shared]
        counts = [widths[s] for s in running]
        out = sampler(logits, batch(running, counts))
        for i, s in enumerate(running):
            log[s].append((
                drafts[s, : widths[s]].tolist(), bool(states.is_encoder_phase[s]), int(out.num_rejected[i]),
                states.self_conditioning_embeds[s, : widths[s]].clone(),
            ))  # fmt: skip
            if out.num_sampled[i]:
                emitted[s] = out.sampled_token_ids[i, : int(out.num_sampled[i])].tolist()
                if out.logprobs_tensors is not None:
                    t = out.logprobs_tensors
                    first, last = [*t.cu_num_generated_tokens, len(t.logprobs)][i : i + 2]
                    if last > first:
                        rows = slice(first, last)
                        logprobs[s] = (t.logprob_token_ids[rows], t.logprobs[rows], t.selected_token_ranks[rows])
    return emitted, log, logprobs


def seeded(width=CANVAS, **extra):
    draw = torch.Generator().manual_seed(width)
    ids = torch.randint(0, VOCAB, (width,), generator=draw).tolist()
    return dict(diffusion_seed_canvas=ids, diffusion_canvas_length=width, **extra)


def params(vllm, seed=3, extra=None, **rest):
    return vllm.SamplingParams(seed=seed, extra_args=extra, **rest)


@pytest.mark.parametrize("seed", range(6))
def test_a_sure_model_is_sampled_as_by_vllm(vllm, seed):
    """Every draw is of the best token: same canvases, phases, soft embeddings and answers in the same steps."""
    requests = {
        2: params(vllm, extra=seeded(), logprobs=3),
        0: params(vllm, extra=seeded(6)),
        5: params(vllm, extra=seeded(9, diffusion_max_steps=3)),
        1: params(vllm, extra=seeded(7, diffusion_read_only=True)),
        4: params(vllm, extra=seeded(5, diffusion_read_only=True, diffusion_constrained=True),
                  logprob_token_ids=[3, 9, 30, 41]),
    }  # fmt: skip
    model = Model(seed, 1e6)
    expected, log, logprobs = serve(theirs(vllm), model, requests)
    found, our_log, our_logprobs = serve(ours(vllm), model, requests)
    assert found == expected and all(expected.values())
    assert set(expected[4]) <= {3, 9, 30, 41}
    for slot in requests:
        emits = slot not in (1, 4)  # the canvas that follows is of other random tokens
        kept = log[slot][: len(log[slot]) - emits]
        assert len(our_log[slot]) == len(log[slot]) > 1
        for a, b in zip(kept, our_log[slot]):
            assert a[:3] == b[:3]
            assert torch.allclose(a[3], b[3], atol=1e-5)
    assert our_logprobs.keys() == {2, 4}  # vLLM also has them for requests beside these
    for slot, columns in ((2, 2), (4, 5)):  # of one-hot rows the third best is arbitrary
        (ids, values, ranks), (our_ids, our_values, our_ranks) = logprobs[slot], our_logprobs[slot]
        assert torch.equal(ids[:, :columns], our_ids[:, :columns]) and torch.equal(ranks, our_ranks)
        assert torch.allclose(values[:, :columns], our_values[:, :columns], rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_statistics_are_those_of_its_kernel(vllm, seed):
    """Its Triton kernel, interpreted: best token, entropy, probabilities; and the set that it accepts."""
    draw = torch.Generator().manual_seed(seed)
    vocab = 5000
    logits = torch.randn(CANVAS, vocab, generator=draw) * torch.linspace(1, 14, CANVAS)[:, None]
    argmax, _, entropy, probs = vllm.stats.sample_row_stats(logits, torch.tensor([0.8]), CANVAS, 7, torch.float32)
    order = entropy.sort()
    bound = order.values.cumsum(0) - order.values.cummax(0).values <= 0.1
    accepted = torch.zeros(CANVAS, dtype=torch.bool).scatter(0, order.indices, bound)
    session = unmask.Session(
        POLICY, vocab=vocab, mask_token=0, suppress_mask=False, length=CANVAS, window=CANVAS, trace=True
    )
    tokens = torch.zeros(CANVAS, dtype=torch.int32)
    session.start(0, tokens, prompt_length=0, block_length=CANVAS, seed=seed)
    session.next()
    session.supply(logits)
    candidates = session.candidates()
    assert [c.position for c in candidates if c.committed] == accepted.nonzero().flatten().tolist()
    assert 0 < accepted.sum() < CANVAS
    for c in sorted(candidates, key=lambda c: c.position):
        assert c.entropy == pytest.approx(float(entropy[c.position]), abs=2e-5)
        assert c.confidence == pytest.approx(float(probs[c.position, c.token]), rel=2e-4)
    assert torch.equal(argmax, logits.argmax(-1))


def place_in_batch(sampler, vllm, beside):
    """The canvases of the request in slot 3, alone or behind others, from the same state of PyTorch."""
    torch.manual_seed(0)
    requests = {s: params(vllm, seed=50 + s) for s in [*beside, 3]}
    _, log, _ = serve(sampler, Model(1, 1.0), requests, steps=6)
    return [step[0] for step in log[3]]


def test_draws_do_not_depend_on_the_place_in_the_batch(vllm):
    alone = place_in_batch(ours(vllm), vllm, [])
    assert place_in_batch(ours(vllm), vllm, [0]) == alone
    assert place_in_batch(ours(vllm), vllm, [1, 5, 0]) == alone
    assert len({tuple(c) for c in alone}) == len(alone)


def test_draws_of_vllm_depend_on_it(vllm):
    """Its noise is keyed by the row in the batch and by one seed a step; a request's own seed is not used."""
    assert place_in_batch(theirs(vllm), vllm, [0]) != place_in_batch(theirs(vllm), vllm, [])
    row = torch.randn(VOCAB, generator=torch.Generator().manual_seed(2))
    logits = row.expand(2 * CANVAS, VOCAB).contiguous()
    _, drawn, _, _ = vllm.stats.sample_row_stats(logits, torch.tensor([0.8, 0.8]), CANVAS, 7, None)
    assert not torch.equal(drawn[:CANVAS], drawn[CANVAS:])


def test_the_seed_of_a_request_decides_its_draws(vllm, monkeypatch):
    errors = []
    monkeypatch.setattr("unmask.vllm._requests.logger.error", lambda *a: errors.append(a))

    def canvases(seed=None, extra=None):
        request = params(vllm, seed=seed, extra=extra)
        return [s[0] for s in serve(ours(vllm), Model(1, 1.0), {0: request}, steps=5)[1][0]]

    assert canvases(4) == canvases(4) != canvases(5)
    assert canvases(extra={"unmask_seed": 4}) == canvases(9, {"unmask_seed": 4}) == canvases(4)  # vLLM refuses `seed`
    assert canvases(4, {"unmask_seed": "4"}) == canvases(4) and "unmask_seed" in errors[0][0]


def test_vllm_refuses_what_the_page_says(vllm):
    """Before a sampler sees the request: so a seed goes by extra_args."""
    from vllm.exceptions import VLLMValidationError

    for given in (dict(seed=3), dict(temperature=0.5), dict(min_p=0.1), dict(logit_bias={3: 1.0}), dict(min_tokens=2)):
        with pytest.raises(VLLMValidationError, match=next(iter(given))):
            vllm.SamplingParams(**given)._validate_diffusion(SimpleNamespace(is_diffusion=True))
    allowed = vllm.SamplingParams(top_k=4, top_p=0.9, extra_args={"unmask_seed": 3, "unmask_policy": POLICY})
    allowed._validate_diffusion(SimpleNamespace(is_diffusion=True))


def test_pinned_positions_are_fixed(vllm):
    extra = seeded(diffusion_pinned=[0, 3, 4], diffusion_read_only=True)
    seed = extra["diffusion_seed_canvas"]
    emitted, log, _ = serve(ours(vllm), Model(2, 2.0), {0: params(vllm, extra=extra)})
    for canvas, _, _, soft in log[0]:
        assert [canvas[p] for p in (0, 3, 4)] == [seed[p] for p in (0, 3, 4)]
        assert not soft[[0, 3, 4]].any()
    assert [emitted[0][p] for p in (0, 3, 4)] == [seed[p] for p in (0, 3, 4)] and len(log[0]) > 2
    assert any(soft.any() for *_, soft in log[0][:-1])


@pytest.mark.parametrize("sharpness", [1.0, 4.0])
def test_allowed_tokens_are_the_same_from_a_shared_step(vllm, sharpness):
    """Where all requests have one set, vLLM computes its columns only; the decisions are the same."""
    allowed = [3, 9, 30, 41]
    extra = seeded(8, diffusion_constrained=True, diffusion_read_only=True)
    requests = {0: params(vllm, extra=extra, logprob_token_ids=allowed)}
    model = Model(3, sharpness)
    full, log, logprobs = serve(ours(vllm), model, requests)
    shared, shared_log, shared_logprobs = serve(ours(vllm), model, requests, shared=allowed)
    assert full == shared and set(full[0]) <= set(allowed) and len(set(full[0])) > 1
    assert [s[0] for s in log[0]] == [s[0] for s in shared_log[0]]
    ids, values, ranks = logprobs[0]
    assert torch.equal(ids, shared_logprobs[0][0]) and torch.allclose(values, shared_logprobs[0][1])
    assert ids[:, 1:].tolist() == [allowed] * 8 and ids[:, 0].tolist() == full[0]
    assert torch.allclose(values[:, 1:].exp().sum(-1), torch.ones(8), atol=1e-5)
    assert any(t not in allowed for canvas, *_ in log[0][:1] for t in canvas)  # noise is of all tokens


def test_top_k_is_that_of_vllm(vllm):
    requests = {0: params(vllm, extra=seeded(), top_k=1), 1: params(vllm, extra=seeded(10))}
    model = Model(4, 1e6)
    assert serve(ours(vllm), model, requests)[0] == serve(theirs(vllm), model, requests)[0]
    _, log, _ = serve(ours(vllm), Model(4, 0.1), {0: params(vllm, top_k=1)}, steps=2)
    assert log[0][0][1] is False  # rows of one token are accepted everywhere
    model, (first, *_), (second, *_) = Model(4, 0.1), *log[0]
    assert second == model(torch.tensor(first)).argmax(-1).tolist()


@pytest.mark.parametrize("read_only", [True, False])
def test_log_probs_are_those_of_vllm(vllm, read_only):
    """After one step nothing is drawn; read-only requests report them at temperature 1."""
    extra = seeded(diffusion_max_steps=1, diffusion_read_only=read_only)
    requests = {0: params(vllm, extra=extra, logprobs=3), 1: params(vllm, extra=extra, logprob_token_ids=[7, 5])}
    model = Model(9, 1.5)
    expected, _, logprobs = serve(theirs(vllm), model, requests)
    found, _, our_logprobs = serve(ours(vllm), model, requests)
    assert found == expected
    rows = model(torch.tensor(extra["diffusion_seed_canvas"])) / (1.0 if read_only else 0.8)
    for slot, columns in ((0, 4), (1, 3)):
        (ids, values, ranks), (our_ids, our_values, our_ranks) = logprobs[slot], our_logprobs[slot]
        assert torch.equal(ids[:, :columns], our_ids[:, :columns]) and torch.equal(ranks, our_ranks)
        assert torch.allclose(values[:, :columns], our_values[:, :columns], atol=1e-5)
        assert torch.allclose(our_values[:, :columns], rows.log_softmax(-1).gather(1, our_ids[:, :columns]), atol=1e-5)


def test_the_next_canvas_is_another(vllm):
    sampler, model = ours(vllm), Model(5, 1e6)
    canvas = sampler.req_states.draft_tokens[0]
    serve(sampler, model, {0: params(vllm)}, steps=0)
    first = canvas.tolist()
    emitted, log, _ = serve(sampler, model, {0: params(vllm)})
    assert log[0][-1][0] == canvas.tolist() not in (first, emitted[0])
    assert not sampler.diffusion_states.is_encoder_phase[0]
    for _ in range(STEPS + 2):
        out = sampler(model(canvas), batch([0], [CANVAS]))
        if out.num_sampled[0]:
            break
    assert int(out.num_sampled[0]) == CANVAS


def test_a_canvas_may_be_cut_short(vllm):
    """Near the longest sequence vLLM schedules fewer positions than the canvas has."""
    sampler, model = ours(vllm), Model(6, 1e6)
    sampler.diffusion_states.add_request(0)
    sampler.add_request(0, params(vllm))
    sampler.apply_staged_writes()
    sampler(torch.zeros(0, VOCAB), batch([0], [0]))
    canvas = sampler.req_states.draft_tokens[0]
    for _ in range(STEPS + 2):
        out = sampler(model(canvas[:5]), batch([0], [5]))
        if out.num_sampled[0]:
            break
    assert int(out.num_sampled[0]) == 5


def test_a_request_may_name_a_policy(vllm, monkeypatch):
    errors = []
    monkeypatch.setattr("unmask.vllm._requests.logger.error", lambda *a: errors.append(a))
    model = Model(7, 1.0)
    own = "by_entropy + entropy_bound(0.5) + canvas(2)"
    file = "by_entropy + canvas(2) + calibrated_threshold('profile.json')"
    extra = [None, *(dict(unmask_policy=p) for p in (own, "threshold(0.9)", file))]
    lengths = [len(serve(ours(vllm), model, {0: params(vllm, extra=e)})[1][0]) for e in extra]
    assert lengths == [STEPS + 1, 3, STEPS + 1, STEPS + 1]  # and the pass that writes the K/V
    assert ["has no canvas" in str(e[1]) for e in errors] == [True, False] and "names a file" in str(errors[1][1])


@pytest.mark.parametrize(
    "policy, says",
    [
        ("threshold(0.9)", "has no canvas"),
        (POLICY + " + dual_cache", "cannot run dual_cache"),
        ("es_dllm", "no layer's hidden states"),
        ("by_entropy + entropy_bound(-1) + canvas", "bound"),
    ],
)
def test_a_policy_that_cannot_run_is_refused(vllm, policy, says):
    with pytest.raises(ValueError, match=says):
        ours(vllm, policy)


def model_state(vllm, monkeypatch, config):
    """A ModelState as vLLM's runner asks it for a sampler, with no engine around it."""
    monkeypatch.setattr(vllm.gemma, "get_tp_group", lambda: SimpleNamespace(world_size=1, unique_name="tp"))
    made = theirs(vllm)
    state = vllm.plugin.ModelState.__new__(vllm.plugin.ModelState)
    shard = SimpleNamespace(org_vocab_start_index=0, org_vocab_end_index=VOCAB)
    embed = SimpleNamespace(shard_indices=shard, weight=made.embed_weight)
    vars(state).update(
        vllm_config=SimpleNamespace(
            additional_config=config, diffusion_config=SimpleNamespace(canvas_length=CANVAS)
        ),
        gen_config=dict(
            sampler_config=dict(_cls_name="EntropyBoundSamplerConfig", entropy_bound=0.1), t_min=0.4, t_max=0.8,
            stability_threshold=1, confidence_threshold=0.005,
        ),
        model_config=SimpleNamespace(get_vocab_size=lambda: VOCAB, hf_text_config=SimpleNamespace(eos_token_id=1)),
        model=SimpleNamespace(model=SimpleNamespace(embed_tokens=embed, normalizer=made.normalizer)),
        diffusion_states=made.diffusion_states,
    )  # fmt: skip
    return state.custom_sampler(made)


def test_the_seam_gives_a_sampler_where_a_policy_is_named(vllm, monkeypatch):
    made = theirs(vllm)
    made.logprobs_mode = "raw_logprobs"
    monkeypatch.setitem(globals(), "theirs", lambda _: made)
    plain, rejection = model_state(vllm, monkeypatch, {})
    assert type(plain) is vllm.gemma.DiffusionSampler and rejection is None
    named, rejection = model_state(
        vllm, monkeypatch, {"unmask_policy": "generation_config", "unmask_threads": 2}
    )
    assert type(named) is vllm.plugin.UnmaskSampler and rejection is None
    assert named.policy == "by_entropy + entropy_bound(0.1) + canvas(12, 0.4, 0.8, 1, 0.005)"
    model, request = Model(8, 1e6), {0: params(vllm, extra=seeded())}
    assert serve(named, model, request)[0] == serve(ours(vllm), model, request)[0]
    with pytest.raises(ValueError, match="has no canvas"):
        model_state(vllm, monkeypatch, {"unmask_policy": "threshold(0.9)"})


def test_vllm_loads_the_plugin(vllm):
    import importlib.metadata

    import vllm.plugins
    from vllm import ModelRegistry

    points = importlib.metadata.entry_points(group="vllm.general_plugins")
    assert [p.value for p in points if p.name == "unmask"] == ["unmask.vllm:register"]
    architecture = "DiffusionGemmaForBlockDiffusion"
    before = ModelRegistry.models[architecture]
    others = dict(ModelRegistry.models)
    vllm.plugins.load_plugins_by_group("vllm.general_plugins")["unmask"]()
    registered = ModelRegistry.models[architecture]
    assert registered is not before and set(ModelRegistry.models) == set(others)
    model = registered.load_model_cls()
    assert issubclass(model, before.load_model_cls())
    from unmask.vllm.diffusion_gemma import ModelState

    assert model.get_model_state_cls() is ModelState


def texts():
    """Bytes of the tokens of these tests: one that ends an answer, one without text, digits and letters."""
    letters = [bytes([c]) for c in b"0123456789abcdefghijklmnopqrstuvwxyz{}[]:,\" .-"]
    return [b"", b"", *letters, *[b""] * (VOCAB - 2 - len(letters))]


def constrained(vllm, words=None):
    from unmask import constraints

    def own():
        return constraints.vocabulary(token_bytes=texts(), vocab=VOCAB, mask_token=0, eos_token=1)

    return vllm.plugin.UnmaskSampler(theirs(vllm), POLICY, 1, 1, words or own)


def text_of(tokens):
    tokens = tokens[: tokens.index(1)] if 1 in tokens else tokens
    return b"".join(texts()[t] for t in tokens).decode()


@pytest.mark.parametrize(
    "asked, expression",
    [
        ({"regex": "[a-c]{3,6}[0-9]{2}"}, "[a-c]{3,6}[0-9]{2}"),
        ({"choice": ["yes", "no", "perhaps"]}, "yes|no|perhaps"),
        ({"json": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
         r'\{ ?"a" ?: ?-?(0|[1-9][0-9]*) ?\}'),
    ],
)
def test_a_request_may_have_a_constraint(vllm, asked, expression):
    import re

    for seed in range(8):
        extra = dict(unmask_constraint=asked)
        if seed == 7:
            extra["diffusion_max_steps"] = 2
        requests = {0: params(vllm, seed=seed, extra=extra), 1: params(vllm, seed=seed)}
        emitted, log, _ = serve(constrained(vllm), Model(seed, 1.0), requests)
        assert re.fullmatch(expression, text_of(emitted[0])), text_of(emitted[0])
        assert len(log[0]) <= STEPS + 2
        alone = serve(constrained(vllm), Model(seed, 1.0), {1: requests[1]})[0]
        assert emitted[1] == alone[1]  # the other request of the batch has none


TOOLS = [{"type": "function", "function": {"name": "get", "strict": True, "parameters": {
    "type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"],
    "additionalProperties": False}}}]


class Tokenizer:
    """What the parsers of vLLM ask of one."""

    def get_vocab(self):
        return {text.decode(): token for token, text in enumerate(texts()) if text}


def chat_params(vllm, name, **fields):
    """The sampling parameters that vLLM makes of a chat, with a parser that the plugin has registered."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser import ParserManager

    import unmask.vllm.tools

    unmask.vllm.tools.register()
    request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "a"}], **fields)
    parser = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True)
    made = parser(Tokenizer(), request.tools).adjust_request(request).to_sampling_params(7 * CANVAS, {})
    assert made.structured_outputs is None  # which vLLM would refuse
    return made


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "get"}}])
def test_tools_of_a_chat_are_obeyed(vllm, choice):
    """From a chat request of vLLM, by its parser of Hermes, to the answers of its sampler, which the parser reads."""
    import re

    from unmask.vllm._requests import language_of

    request = chat_params(vllm, "unmask_hermes", tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    made = language_of(request.extra_args["unmask_constraint"], bytes_of_words, 1)
    call = '<tool_call>\n{"name": "get", "arguments": {"age": %s}}\n</tool_call>'
    for text, there in [("", choice == "auto"), ("so", choice == "auto"), (call % 7, True), (call % 700, False),
                        ("so " + call % 7, choice == "auto"), (call % 7 + call % 8, False)]:
        assert made.accepts([2 + b for b in text.encode()]) == there, text
    if choice == "auto":
        return
    sampler, model = constrained(vllm, words=long_words), Model(5, 1.0)
    canvas = sampler.req_states.draft_tokens[0]
    request.seed = 3
    found = serve(sampler, model, {0: request})[0][0]
    for _ in range(9 * STEPS):
        if 1 in found:
            break
        out = sampler(model(canvas), batch([0], [CANVAS]))
        if out.num_sampled[0]:
            found = found + out.sampled_token_ids[0, :CANVAS].tolist()
    text = b"".join(long_texts()[t] for t in found[: found.index(1)]).decode()
    assert re.fullmatch(r'<tool_call>\n\{"name": "get", "arguments": \{ ?"age" ?: ?[0-9]{1,2} ?\}\}\n</tool_call>', text), text


def bytes_of_words():
    from unmask import constraints

    return constraints.vocabulary(token_bytes=[b"", b"", *(bytes([b]) for b in range(256))], vocab=258, mask_token=0, eos_token=1)


def long_texts():
    texts = [b"<tool_call>\n", b'{"name": "', b'get", "arguments": ', b"}\n</tool_call>", b'{"age"', b":", b" ", b"}",
             *(b"%d" % d for d in range(10))]
    return [b"", b"", *texts, *[b""] * (VOCAB - 2 - len(texts))]


def long_words():
    from unmask import constraints

    return constraints.vocabulary(token_bytes=long_texts(), vocab=VOCAB, mask_token=0, eos_token=1)


@pytest.mark.parametrize("fields, kind", [
    ({"response_format": {"type": "json_object"}}, "json_object"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "integer"}}}}, "json"),
    ({"response_format": {"type": "structural_tag", "structures": [{"begin": "a", "schema": {"type": "integer"}, "end": "b"}],
                          "triggers": ["a"]}}, "structural_tag"),
    ({"response_format": {"type": "structural_tag", "format": {"type": "const_string", "value": "abc"}}}, "structural_tag"),
    ({"structured_outputs": {"choice": ["yes", "no"]}}, "choice"),
    ({"structured_outputs": {"regex": "[ab]{3}"}}, "regex"),
    ({"structured_outputs": {"grammar": 'root ::= "a" root "b" | "c"'}}, "grammar"),
    ({"tools": TOOLS, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "integer"}}}},
     "structural_tag"),
    ({}, None),
])
def test_structured_outputs_of_a_chat_reach_the_sampler(vllm, fields, kind):
    import json

    from unmask.vllm._requests import language_of

    given = (chat_params(vllm, "unmask_hermes", vllm_xargs={"unmask_seed": 3}, **fields).extra_args or {})
    assert given["unmask_seed"] == 3
    wanted = given.get("unmask_constraint")
    assert (list(json.loads(wanted)) == [kind] and language_of(wanted, bytes_of_words, 1)) if kind else wanted is None


@pytest.mark.parametrize("fields, says", [
    ({"structured_outputs": {"json": {}, "whitespace_pattern": " "}}, "whitespace_pattern is not supported"),
    ({"structured_outputs": {"regex": "a"}, "vllm_xargs": {"unmask_constraint": "{}"}}, "unmask_constraint must not be given with tools"),
])
def test_structured_outputs_that_cannot_be_obeyed_are_refused(vllm, fields, says):
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match=says):
        chat_params(vllm, "unmask_hermes", **fields)


def test_every_parser_of_vllm_has_one_that_hands_on(vllm):
    from vllm.tool_parsers import ToolParserManager

    import unmask.vllm.tools as tools

    tools.register()
    tools.register()
    names = ToolParserManager.list_registered()
    theirs = [name for name in names if not name.startswith("unmask_")]
    assert "hermes" in theirs and sorted(names) == sorted(theirs + ["unmask_" + name for name in theirs])
    for name in ("hermes", "deepseek_v3", "llama3_json"):
        parser = ToolParserManager.get_tool_parser("unmask_" + name)
        assert issubclass(parser, ToolParserManager.get_tool_parser(name))


def test_a_constraint_goes_over_the_canvases_of_an_answer(vllm):
    sampler, model = constrained(vllm), Model(11, 1.0)
    canvas = sampler.req_states.draft_tokens[0]
    request = params(vllm, extra=dict(unmask_constraint={"regex": "[a-z]{20,24}[0-9]{4}"}), max_tokens=2 * CANVAS)
    first, _, _ = serve(sampler, model, {0: request})
    assert 1 not in first[0]
    for _ in range(STEPS + 2):
        out = sampler(model(canvas), batch([0], [CANVAS]))
        if out.num_sampled[0]:
            break
    whole = text_of(first[0] + out.sampled_token_ids[0, :CANVAS].tolist())
    assert whole[:-4].isalpha() and 20 <= len(whole) - 4 <= 24 and whole[-4:].isdigit()


def test_a_constraint_that_cannot_be_obeyed_leaves_an_empty_answer(vllm, monkeypatch):
    errors = []
    monkeypatch.setattr("unmask.vllm._requests.logger.error", lambda *a: errors.append(str(a[1])))
    for asked, says in [("a", "must be a dict"), ({"regex": "(a"}, "this group is not closed"), ({"choice": ["a" * 40]}, "needs at least")]:
        request = params(vllm, extra=dict(unmask_constraint=asked), max_tokens=CANVAS)
        emitted, _, _ = serve(constrained(vllm), Model(3, 1.0), {0: request})
        assert set(emitted[0]) == {1} and says in errors.pop(), asked


MASK, BLOCK = 5, 8


@pytest.fixture(scope="module")
def nemotron(vllm):
    """The plugin beside vLLM's sampler of Nemotron-Labs-Diffusion: the installed vLLM's, that of the file that
    UNMASK_NEMOTRON names, or a stand-in."""
    import importlib.util

    name = "vllm.model_executor.models.nemotron_dllm"
    if importlib.util.find_spec(name) is None:
        file = os.environ.get("UNMASK_NEMOTRON") or os.path.join(os.path.dirname(__file__), "nemotron_stand_in.py")
        spec = importlib.util.spec_from_file_location(name, file)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    theirs = importlib.import_module(name)
    import unmask.vllm.nemotron as plugin

    return SimpleNamespace(theirs=theirs, plugin=plugin, vllm=vllm)


def masked_sampler(n, selection="confidence_threshold", threshold=0.9, steps=BLOCK):
    """vLLM's sampler of masked blocks, with states of its own."""
    states = n.theirs.NemotronLabsDiffusionRequestStates(SLOTS, BLOCK, MASK, steps, torch.device("cpu"))
    base = SimpleNamespace(
        sampling_states=n.vllm.SamplingStates(SLOTS, VOCAB),
        req_states=SimpleNamespace(draft_tokens=torch.zeros(SLOTS, BLOCK, dtype=torch.int64)),
    )
    return n.theirs.MaskedDiffusionSampler(
        sampler=base, vocab_size=VOCAB, diffusion_states=states, selection_policy=selection,
        confidence_threshold=threshold,
    )


def masked_ours(n, policy, steps=BLOCK, **options):
    return n.plugin.UnmaskSampler(masked_sampler(n, steps=steps), policy, **options)


def serve_blocks(sampler, model, requests, blocks=2, widths=None):
    """Runs requests {slot: sampling parameters} over some blocks each: the blocks, the canvases of each pass, log-probs."""
    states, drafts = sampler.diffusion_states, sampler.req_states.draft_tokens
    slots = begin(sampler, requests)
    emitted, log, logprobs = ({s: [] for s in slots} for _ in range(3))
    for _ in range(blocks * (BLOCK + 1)):
        running = [s for s in slots if len(emitted[s]) < blocks]
        if not running:
            break
        counts = [(widths or {}).get(s, BLOCK) for s in running]
        logits = torch.cat([model(drafts[s, :c]) for s, c in zip(running, counts)])
        out = sampler(logits, batch(running, counts))
        for i, (s, c) in enumerate(zip(running, counts)):
            log[s].append((drafts[s, :c].tolist(), bool(states.is_encoder_phase[s]), int(out.num_rejected[i])))
            if out.num_sampled[i]:
                emitted[s].append(out.sampled_token_ids[i, : int(out.num_sampled[i])].tolist())
                if (t := out.logprobs_tensors) is not None:
                    first, last = [*t.cu_num_generated_tokens, len(t.logprobs)][i : i + 2]
                    rows = slice(first, last)
                    logprobs[s].append((t.logprob_token_ids[rows], t.logprobs[rows], t.selected_token_ranks[rows]))
    return emitted, log, logprobs


@pytest.mark.parametrize("selection, threshold", [("low_confidence", 0.9), ("leftmost", 0.9),
                                                  ("confidence_threshold", 0.9), ("confidence_threshold", 0.3)])
@pytest.mark.parametrize("steps", [BLOCK, 3])
def test_blocks_are_decided_as_by_its_selection_policies(nemotron, selection, threshold, steps):
    n, model = nemotron, Model(3, 1.5)
    requests = {s: params(n.vllm, temperature=0.0) for s in (2, 0, 5)}
    widths = {0: 5}  # near the longest sequence
    expected = serve_blocks(masked_sampler(n, selection, threshold, steps), model, requests, widths=widths)
    policy = n.plugin.policy_of(selection, steps, threshold)
    found = serve_blocks(masked_ours(n, policy, steps), model, requests, widths=widths)
    assert found[:2] == expected[:2]
    assert all(len(b) == 2 and MASK not in b[0] for b in found[0].values())
    passes = {len(steps) for steps in found[1].values()}
    assert passes != {2 * (BLOCK + 1)} or (selection != "confidence_threshold" and steps == BLOCK)


def test_requests_of_a_batch_have_their_own_policies_and_draws(nemotron):
    n, model = nemotron, Model(4, 1.0)
    requests = {
        0: params(n.vllm, temperature=0.0),
        1: params(n.vllm, seed=7, temperature=1.3, top_k=9, extra=dict(unmask_policy="by_margin + tokens_per_step(3)")),
        4: params(n.vllm, seed=8, extra=dict(unmask_seed=7, unmask_policy="trace_credit + threshold(0.4)")),
        5: params(n.vllm, temperature=0.0, logit_bias={9: 30.0}),
    }
    together = serve_blocks(masked_ours(n, "threshold(0.9)"), model, requests)
    for slot, request in requests.items():
        alone = serve_blocks(masked_ours(n, "threshold(0.9)"), model, {slot: request})
        assert together[0][slot] == alone[0][slot] and together[1][slot] == alone[1][slot]
    assert [sum(t == MASK for t in c) for c, *_ in together[1][1][:3]] == [5, 2, 0]
    assert together[0][5] == [[9] * BLOCK] * 2
    assert together[0][4][0] != together[0][4][1]  # blocks draw differently
    other = {4: params(n.vllm, seed=8, extra=dict(unmask_seed=6, unmask_policy="trace_credit + threshold(0.4)"))}
    assert serve_blocks(masked_ours(n, "threshold(0.9)"), model, other)[0][4] != together[0][4]


@pytest.mark.parametrize("wanted", [0, 3])
@pytest.mark.parametrize("temperature, top_k", [(0.0, 0), (0.7, 5)])
def test_log_probs_are_those_of_the_step_that_committed(nemotron, wanted, temperature, top_k):
    n, model = nemotron, Model(5, 1.0)
    request = params(n.vllm, temperature=temperature, top_k=top_k, logprobs=wanted)
    beside = params(n.vllm, temperature=0.0)
    emitted, log, logprobs = serve_blocks(masked_ours(n, "tokens_per_step(3)"), model, {0: request, 2: beside}, blocks=1)
    assert not logprobs[2] or not len(logprobs[2][0][1])
    (ids, values, ranks), (tokens,) = logprobs[0][0], emitted[0]
    assert ids.shape == (BLOCK, 1 + wanted) and ids[:, 0].tolist() == tokens
    before = [MASK] * BLOCK
    for canvas, *_ in log[0][:-1]:
        rows = model(torch.tensor(before))
        rows[:, MASK] = -torch.inf
        kept = rows / (temperature or 1)
        if top_k:
            kept = kept.masked_fill(kept < kept.topk(top_k).values[:, -1:], -torch.inf)
        logs = kept.log_softmax(-1)
        for p in (p for p in range(BLOCK) if before[p] == MASK != canvas[p]):
            assert values[p, 0] == pytest.approx(float(logs[p, tokens[p]]), abs=1e-5)
            assert ranks[p] == (logs[p] >= logs[p, tokens[p]]).sum()
            assert torch.allclose(values[p, 1:], logs[p].topk(wanted).values, atol=1e-5)
        before = canvas
    assert before == tokens


@pytest.mark.parametrize("given", [
    dict(temperature=2.0, top_p=0.6), dict(temperature=0.5, top_p=0.9), dict(temperature=1.5, top_k=12, top_p=0.7),
    dict(temperature=1.4, min_p=0.3), dict(temperature=2.0, min_p=0.1, top_k=20, top_p=0.8, logit_bias={9: 3.0, 11: -2.0}),
    dict(temperature=0.6, logit_bias={9: 2.0})], ids=str)
@pytest.mark.parametrize("how", ["rows", "parts"])
def test_draws_are_those_of_the_samplers_of_vllm(nemotron, given, how):
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch

    if how == "parts" and {"top_k", "top_p"} <= given.keys():
        pytest.skip("top_p of a policy counts the mass of the whole row")
    n, row = nemotron, torch.randn(VOCAB, generator=torch.Generator().manual_seed(2)) * 1.3
    row[MASK] = -torch.inf
    rule = "left_to_right + tokens_per_step" + (" + allowed_tokens([5], first=60, last=61)" if how == "parts" else "")
    z = row.clone()
    for token, bias in given.get("logit_bias", {}).items():
        z[token] += bias
    z = z / given["temperature"]
    z[z < z.max() + math.log(given.get("min_p", 1e-9))] = -torch.inf
    expected = apply_top_k_top_p_pytorch(
        z[None].clone(), torch.tensor([given.get("top_k", VOCAB)]), torch.tensor([given.get("top_p", 1.0)]))[0].softmax(-1)
    assert np.allclose(expected, sampled(row, **given, top_p_of_the_kept=True), atol=1e-5)
    counts = np.zeros(VOCAB, int)
    sampler = masked_ours(n, rule)
    for seed in range(1200):
        sampler.add_request(0, params(n.vllm, seed=seed, **given))
        sampler._requests[0].steps = 0
        sampler._decide({0: row.repeat(BLOCK, 1)})
        counts[int(sampler._requests[0].tokens[0])] += 1
    assert (expected > 0).sum() > 2 and probability_of_a_fit(counts, expected) > 1e-3
    assert probability_of_a_fit(counts, row.softmax(-1)) < 1e-3


def test_what_its_requests_may_not_have_is_logged(nemotron, monkeypatch):
    n, errors = nemotron, []
    monkeypatch.setattr(n.plugin.logger, "error", lambda *a: errors.append(" ".join(map(str, a))))
    sampler = masked_ours(n, "threshold(0.9)")
    for given, says in [
        (dict(presence_penalty=1.0), "presence_penalty"),
        (dict(min_tokens=4), "min_tokens"),
        (dict(extra=dict(unmask_policy="by_entropy + canvas(3)")), "has a mask token"),
        (dict(extra=dict(unmask_policy="threshold(0.9) + max_steps(4)")), "max_denoising_steps"),
        (dict(temperature=0.5, extra=dict(unmask_policy="threshold(0.9) + sampling(2)")), "a policy that has sampling"),
        (dict(temperature=0.5, extra=dict(unmask_policy="tokens_per_step(1) + drafts(2)")), "drafts"),
    ]:
        sampler.add_request(0, params(n.vllm, **given))
        assert len(errors) == 1 and says in errors.pop(), given
    sampler.add_request(0, params(n.vllm, extra=dict(unmask_policy="threshold(0.9) + sampling(2)")))
    assert not errors  # temperature 1 is vLLM's default


def test_an_aborted_request_leaves_its_slot(nemotron):
    n, model = nemotron, Model(6, 1.0)
    sampler, request = masked_ours(n, "tokens_per_step(2)"), params(n.vllm, temperature=0.0)
    first = serve_blocks(sampler, model, {3: request})
    sampler.diffusion_states.add_request(3)
    sampler.add_request(3, request)
    sampler(torch.zeros(0, VOCAB), batch([3], [0]))
    sampler(model(sampler.req_states.draft_tokens[3]), batch([3], [BLOCK]))  # and then it is gone
    assert serve_blocks(sampler, model, {3: request}) == first


def test_blocks_obey_a_language(nemotron):
    import re

    from unmask import constraints

    def words():
        return constraints.vocabulary(token_bytes=texts(), vocab=VOCAB, mask_token=MASK, eos_token=1)

    n = nemotron
    for seed in range(4):
        sampler = masked_ours(n, "tokens_per_step(3)", eos_token=1, words=words)
        request = params(n.vllm, seed=seed, max_tokens=2 * BLOCK, extra=dict(unmask_constraint={"regex": "[a-z]{9,12}[0-9]{2}"}))
        emitted, *_ = serve_blocks(sampler, Model(seed, 1.0), {0: request, 1: params(n.vllm, temperature=0.0)})
        assert re.fullmatch("[a-z]{9,12}[0-9]{2}", text_of(sum(emitted[0], []))), text_of(sum(emitted[0], []))


@pytest.mark.parametrize("policy, says", [
    ("canvas(4) + by_entropy", "has a mask token"),
    ("threshold(0.9) + dual_cache", "cannot run dual_cache"),
    ("any_of(threshold(0.9), tokens_per_step(2)) + block_pipeline", "canvas_length"),
    ("threshold(7)", "must be in"),
])
def test_a_policy_that_cannot_decide_blocks_is_refused(nemotron, policy, says):
    with pytest.raises(ValueError, match=says):
        masked_ours(nemotron, policy)


def test_the_seam_of_masked_blocks(nemotron):
    n, theirs_ = nemotron, nemotron.theirs
    model = n.plugin.NemotronLabsDiffusion.__new__(n.plugin.NemotronLabsDiffusion)
    torch.nn.Module.__init__(model) if isinstance(model, torch.nn.Module) else None
    model.ar_mode = False
    assert model.get_model_state_cls() is n.plugin.ModelState
    model.ar_mode = True
    assert model.get_model_state_cls() is not n.plugin.ModelState
    states = theirs_.NemotronLabsDiffusionRequestStates(SLOTS, BLOCK, MASK, 5, torch.device("cpu"))
    state = n.plugin.ModelState.__new__(n.plugin.ModelState)
    vars(state).update(
        diffusion_states=states, selection_policy="leftmost", confidence_threshold=0.9,
        model_config=SimpleNamespace(get_vocab_size=lambda: VOCAB, hf_text_config=SimpleNamespace(eos_token_id=1),
                                     try_get_generation_config=dict),
    )
    base = masked_sampler(n)
    for config, policy in [({}, None), ({"unmask_policy": "selection_policy"}, "left_to_right + steps_per_block(5)"),
                           ({"unmask_policy": "threshold(0.5)", "unmask_threads": 2}, "threshold(0.5)")]:
        state.vllm_config = SimpleNamespace(additional_config=config)
        sampler, rejection = state.custom_sampler(base)
        assert rejection is None and getattr(sampler, "policy", None) == policy
        assert type(sampler) is (theirs_.MaskedDiffusionSampler if policy is None else n.plugin.UnmaskSampler)


def test_the_plugin_registers_what_this_vllm_has(monkeypatch, nemotron):
    import vllm

    import unmask.vllm as plugin

    registered = {}
    monkeypatch.setattr(vllm.ModelRegistry, "register_model", registered.__setitem__)
    for there in ([], ["DiffusionGemmaForBlockDiffusion"], [*plugin.MODELS, "LlamaForCausalLM"]):
        monkeypatch.setattr(vllm.ModelRegistry, "get_supported_archs", lambda there=there: there)
        plugin.register()
        assert registered == {a: m for a, m in plugin.MODELS.items() if a in there}
        registered.clear()
