# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""UnmaskScheduler in the pipelines of diffusers, beside the schedulers of diffusers."""
import json

import pytest
import torch
from conftest import REPOSITORY

diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
from unmask.diffusers import UnmaskScheduler, block_refinement_policy  # noqa: E402

MASK, EOS, VOCAB = 0, 1, 98
PROMPTS = 8


@pytest.fixture(scope="module")
def tiny(load_host):
    host = load_host("dlmserve/tiny_llada.py")
    llada = host.TinyLlada(REPOSITORY / "examples" / "tiny_llada" / "tiny-f16.gguf")

    class Model(torch.nn.Module):
        """The tiny LLaDA; `without_mask` keeps its logits of the mask token below all others."""

        device, dtype = torch.device("cpu"), torch.float32

        def __init__(self):
            super().__init__()
            self.passes, self.without_mask = 0, False

        def forward(self, ids, attention_mask, position_ids):
            self.passes += 1
            output = llada(ids, attention_mask, position_ids)
            if self.without_mask:
                output.logits[..., MASK] = -60
            return output

    return Model(), host.CharTokenizer()


def prompts(tokenizer, count=PROMPTS):
    with open(REPOSITORY / "tests" / "data" / "tiny_llada" / "reference_decodes.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line)["prompt"] for line in file]
    return [tokenizer([p])["input_ids"] for p in lines[:: len(lines) // count][:count]]


def pipeline(tiny, scheduler):
    model, tokenizer = tiny
    pipe = diffusers.LLaDA2Pipeline(model=model, scheduler=scheduler, tokenizer=tokenizer)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def decode(pipe, ids, mask=None, **settings):
    """The answer, and the tokens after every step."""
    steps = []

    def record(_, step, timestep, tensors):
        steps.append(tensors["block_x"].tolist())
        return {}

    answer = pipe(
        input_ids=ids, attention_mask=mask, mask_token_id=MASK, callback_on_step_end=record,
        **{**dict(gen_length=40, block_length=20, output_type="seq", eos_token_id=EOS), **settings},
    )
    return answer.sequences.tolist(), steps


def without_idle(decoded):
    """Less the passes that change nothing: BlockRefinementScheduler needs one to see that a block is
    complete, and goes on until its steps are used up where only a finished row has masks."""
    sequences, steps = decoded
    return sequences, [s for i, s in enumerate(steps) if i == 0 or s != steps[i - 1]]


@pytest.mark.parametrize("steps", [20, 10, 4, 1])
@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.97])
def test_the_pipeline_decodes_as_with_its_own_scheduler(tiny, steps, threshold):
    theirs = dict(num_inference_steps=steps, threshold=threshold, editing_threshold=None)
    policy = block_refinement_policy(**theirs, block_length=20)
    ours = UnmaskScheduler(policy=policy, suppress_mask=False)
    idle = 0
    for ids in prompts(tiny[1]):
        expected = decode(pipeline(tiny, diffusers.BlockRefinementScheduler()), ids, **theirs)
        found = decode(pipeline(tiny, ours), ids)
        assert found == without_idle(expected)
        idle += len(expected[1]) - len(found[1])
    assert idle > 0 or steps == 1


def test_a_padded_batch_decodes_as_with_its_own_scheduler(tiny):
    rows = tiny[1](["".join(chr(29 + t) for t in ids[0].tolist()[1:]) for ids in prompts(tiny[1])])
    theirs = dict(num_inference_steps=20, threshold=0.9, editing_threshold=None)
    ours = UnmaskScheduler(policy=block_refinement_policy(20, 0.9, block_length=20), suppress_mask=False)
    batch = (rows["input_ids"], rows["attention_mask"])
    expected = decode(pipeline(tiny, diffusers.BlockRefinementScheduler()), *batch, **theirs)
    assert decode(pipeline(tiny, ours), *batch) == without_idle(expected)


@pytest.mark.parametrize("editing_threshold, max_post_steps", [(0.5, 16), (0.2, 16), (0.05, 2), (0.05, 0)])
def test_edits_as_its_own_scheduler(tiny, editing_threshold, max_post_steps):
    model = tiny[0]
    theirs = dict(
        num_inference_steps=20, threshold=0.3, editing_threshold=editing_threshold, max_post_steps=max_post_steps
    )
    policy = block_refinement_policy(**theirs, block_length=20)
    edited = 0
    try:
        model.without_mask = True  # an edit here never writes the mask token; theirs does
        for ids in prompts(tiny[1]):
            expected = decode(pipeline(tiny, diffusers.BlockRefinementScheduler()), ids, **theirs)
            assert decode(pipeline(tiny, UnmaskScheduler(policy=policy)), ids) == expected
            edited += sum(
                a != b and a != MASK
                for one, two in zip(expected[1], expected[1][1:]) for a, b in zip(one[0], two[0])
            )
    finally:
        model.without_mask = False
    assert edited > 0


@pytest.mark.parametrize(
    "length, steps, threshold, editing",
    [(32, 32, 0.95, None), (32, 5, 0.4, None), (16, 7, 1.5, None), (24, 48, 0.3, None), (16, 7, 0.5, 0.4)],
)
def test_hashed_logits_are_decided_alike(length, steps, threshold, editing):
    draw = torch.Generator().manual_seed(length * steps)
    near = torch.randn(2, VOCAB, VOCAB, generator=draw) * 1.5
    own = torch.randn(4, length, VOCAB, generator=draw)
    theirs = diffusers.BlockRefinementScheduler()
    policy = block_refinement_policy(steps, threshold, editing, block_length=length)
    ours, edits = UnmaskScheduler(policy=policy, suppress_mask=False), 0
    for scheduler in (theirs, ours):
        scheduler.set_timesteps(steps, block_length=length)
    for block in range(2):
        tokens = torch.full((4, length), MASK)
        for step in range(steps):
            logits = own + near[0][tokens.roll(1, 1)] + near[1][tokens.roll(-1, 1)]
            logits[..., MASK] = -60
            arguments = dict(timestep=step, sample=tokens, mask_token_id=MASK)
            a = theirs.step(logits, **arguments, threshold=threshold, editing_threshold=editing)
            b = ours.step(logits, **arguments)
            for name in ("prev_sample", "transfer_index", "editing_transfer_index"):
                assert torch.equal(a[name], b[name]), (name, step)
            where = a.transfer_index | a.editing_transfer_index
            edits += int(a.editing_transfer_index.sum())
            assert torch.equal(a.sampled_tokens[where], b.sampled_tokens[where])
            assert torch.allclose(a.sampled_probs[where], b.sampled_probs[where], atol=1e-5)
            tokens = a.prev_sample
        assert not (tokens == MASK).any()
    assert (edits > 0) == (editing is not None)


def test_the_policy_decides_how_many_passes(tiny):
    passes = {}
    for policy in ("tokens_per_step(1)", "threshold(0.9)", "trace_credit + threshold(0.9)"):
        (sequence,), steps = decode(
            pipeline(tiny, UnmaskScheduler(policy=policy)), prompts(tiny[1])[0], eos_early_stop=False
        )
        assert MASK not in sequence
        passes[policy] = len(steps)
    assert passes["threshold(0.9)"] < passes["tokens_per_step(1)"]


def test_a_policy_may_end_the_answer(tiny):
    ours = UnmaskScheduler(policy="threshold(0.9) + stop_at_eos", eos_token_id=EOS)
    rest = UnmaskScheduler(policy="threshold(0.9)")
    shorter = 0
    for ids in prompts(tiny[1]):
        (a,), steps_a = decode(pipeline(tiny, ours), ids)
        (b,), steps_b = decode(pipeline(tiny, rest), ids, eos_early_stop=False)
        end = b.index(EOS)
        assert a[: end + 1] == b[: end + 1]
        left = a.count(MASK)  # of blocks that were not begun; the block itself is filled
        assert a[40 - left :] == [MASK] * left
        assert left == 0 or (ids.shape[1] + 40 - left) % 20 == 0
        shorter += len(steps_b) - len(steps_a)
    assert shorter > 0


def test_a_row_is_finished_when_its_policy_ends_it():
    """The EOS token is committed before a token left of it: no step commits it last."""
    ours = UnmaskScheduler(policy="tokens_per_step(1) + stop_at_eos", eos_token_id=EOS)
    ours.set_timesteps(4, block_length=4)
    logits = torch.zeros(1, 4, VOCAB)
    for position, (token, logit) in enumerate([(5, 4.0), (6, 3.0), (EOS, 9.0), (7, 8.0)]):
        logits[0, position, token] = logit
    tokens, finished = torch.full((1, 4), MASK), torch.zeros(1, dtype=torch.bool)
    for step in range(4):
        assert not finished[0]
        out = ours.step(logits, step, tokens, mask_token_id=MASK)
        tokens = out.prev_sample
        finished = ours.check_eos_finished(tokens, out.sampled_tokens, out.transfer_index, finished, EOS, MASK, 0)
    assert tokens.tolist() == [[5, 6, EOS, 7]] and finished[0]


def test_a_finished_row_is_left_alone(tiny):
    rows = tiny[1](["".join(chr(29 + t) for t in ids[0].tolist()[1:]) for ids in prompts(tiny[1])])
    finished, transfers = torch.zeros(PROMPTS, dtype=torch.bool), 0
    answered = []

    def record(_, step, timestep, tensors):
        nonlocal transfers
        transfers += int(tensors["transfer_index"][finished].sum())
        answered.append(finished.clone())
        finished.copy_(pipe.scheduler._finished)
        return {}

    pipe = pipeline(tiny, UnmaskScheduler(policy="threshold(0.9)"))
    pipe(
        input_ids=rows["input_ids"], attention_mask=rows["attention_mask"], mask_token_id=MASK, eos_token_id=EOS,
        gen_length=60, block_length=20, output_type="seq", callback_on_step_end=record,
        callback_on_step_end_tensor_inputs=["transfer_index"],
    )  # fmt: skip
    assert transfers == 0 and any(f.any() and not f.all() for f in answered)


def test_a_mask_token_in_the_prompt_is_text(tiny):
    ids = prompts(tiny[1])[0].clone()
    ids[0, -2] = MASK
    passed = []

    def record(_, step, timestep, tensors):
        passed.append(int(tensors["block_x"][0, ids.shape[1] - 2]))
        return {}

    pipe = pipeline(tiny, UnmaskScheduler(policy="threshold(0.5)"))
    pipe(
        input_ids=ids, mask_token_id=MASK, eos_token_id=EOS, gen_length=40, block_length=20, output_type="seq",
        callback_on_step_end=record,
    )  # fmt: skip
    assert set(passed) == {MASK} and ids.shape[1] % 20 > 1


def test_draws_follow_the_generator(tiny):
    pipe = pipeline(tiny, UnmaskScheduler(policy="tokens_per_step(1) + sampling(3)"))
    ids = prompts(tiny[1])[0].repeat(2, 1)

    def drawn(seed):
        return decode(pipe, ids, generator=torch.Generator().manual_seed(seed), eos_early_stop=False)

    first = drawn(1)
    assert first == drawn(1) and first != drawn(2)
    assert first[0][0] != first[0][1]  # rows with the same prompt
    generator = torch.Generator().manual_seed(1)
    assert decode(pipe, ids, generator=generator) != decode(pipe, ids, generator=generator)


def test_is_saved_and_loaded(tiny, tmp_path):
    pipe = pipeline(tiny, diffusers.BlockRefinementScheduler())
    policy = "trace_credit + threshold(0.8)"
    pipe.scheduler = UnmaskScheduler.from_config(pipe.scheduler.config, policy=policy)
    pipe.scheduler.save_pretrained(tmp_path)
    loaded = UnmaskScheduler.from_pretrained(tmp_path)
    assert loaded.config.policy == policy
    ids = prompts(tiny[1])[1]
    assert decode(pipeline(tiny, loaded), ids) == decode(pipe, ids)


@pytest.mark.parametrize(
    "policy, says",
    [
        ("threshold(0.9) + dual_cache", "keeps no K/V"),
        ("threshold(0.9) + lookahead(3)", "one copy of a sequence"),
        ("es_dllm", "no layer's hidden states"),
        ("lopa_d2f", "cannot run lookahead"),
        ("any_of(threshold(0.9), tokens_per_step(2)) + block_pipeline", "give it block_length"),
        ("threshold(0.9) + max_steps(9)", "one block at a time"),
        ("threshold(0.9) + probability_of([4])", "unmask.Session"),
        ("replay('decode.jsonl')", "one block at a time"),
        ("threshold(2)", "value of threshold must be in"),
        (None, "policy must be a text"),
    ],
)
def test_what_a_pipeline_cannot_run_is_refused(policy, says):
    with pytest.raises(ValueError, match=says):
        UnmaskScheduler(policy=policy)


@pytest.mark.parametrize(
    "setting, says",
    [
        (dict(threshold=0.8), "threshold is 0.8, which has no effect"),
        (dict(temperature=0.7, sampling_method="multinomial"), r"temperature\(0.7\) \+ sampling in its policy"),
        (dict(editing_threshold=0.4), "edit_committed"),
        (dict(top_p=0.9), "top_p.0.9."),
    ],
)
def test_settings_without_effect_are_refused(tiny, setting, says):
    with pytest.raises(ValueError, match=says):
        decode(pipeline(tiny, UnmaskScheduler(policy="threshold(0.9)")), prompts(tiny[1])[0], **setting)


CANVAS = "by_entropy + entropy_bound(0.1) + canvas(12)"


@pytest.fixture(scope="module")
def gemma():
    """A DiffusionGemma of random weights, whose logits are raised until it is sure of some positions."""
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "DiffusionGemmaForBlockDiffusion"):
        pytest.skip(f"transformers {transformers.__version__} has no DiffusionGemma")
    torch.manual_seed(0)
    text = dict(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, global_head_dim=16, num_experts=2, top_k_experts=1,
        moe_intermediate_size=16, initializer_range=0.3, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    vision = dict(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        head_dim=8,
    )
    config = transformers.DiffusionGemmaConfig(
        text_config=text, vision_config=vision, canvas_length=16, boi_token_id=60, eoi_token_id=61, image_token_id=62
    )
    model = transformers.DiffusionGemmaForBlockDiffusion(config).eval()
    model.sharpness = 1.0

    def sharpen(_, __, output):
        output.logits = output.logits * model.sharpness
        return output

    model.register_forward_hook(sharpen)
    return model


class Processor:
    """Four prompts of the same length, whatever the text."""

    eos_token_id = 1

    def apply_chat_template(self, messages, **_):
        ids = torch.arange(24).view(4, 6) + 3
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def denoise(gemma, scheduler, sharpness, steps=12, **settings):
    gemma.sharpness = sharpness
    pipe = diffusers.DiffusionGemmaPipeline(model=gemma, scheduler=scheduler, processor=Processor())
    pipe.set_progress_bar_config(disable=True)
    passes = []
    answer = pipe(
        prompt=["a"] * 4, gen_length=16, num_inference_steps=steps, output_type="seq", eos_early_stop=False,
        generator=torch.Generator().manual_seed(5), callback_on_step_end=lambda *_: passes.append(1) or {}, **settings,
    )  # fmt: skip
    return answer.sequences, len(passes)


def test_a_canvas_of_a_sure_model_is_that_of_entropy_bound(gemma):
    """Where every draw is of the best token, both schedulers have the same canvas after the same passes."""
    expected, passes = denoise(gemma, diffusers.EntropyBoundScheduler(), 1e4)
    found = denoise(gemma, UnmaskScheduler(policy=CANVAS), 1e4)
    assert found[0].tolist() == expected.tolist() and found[1] == passes
    assert 1 < passes < 12 and len(set(map(tuple, expected.tolist()))) > 1


def test_an_unsure_canvas_ends_after_its_steps(gemma):
    scheduler = UnmaskScheduler(policy=CANVAS)
    first, passes = denoise(gemma, scheduler, 1.0)
    assert passes == 12 and first.tolist() == denoise(gemma, scheduler, 1.0)[0].tolist()


def test_positions_are_accepted_as_by_entropy_bound():
    theirs, ours = diffusers.EntropyBoundScheduler(), UnmaskScheduler(policy=CANVAS)
    for scheduler in (theirs, ours):
        scheduler.set_timesteps(12)
    draw = torch.Generator().manual_seed(2)
    sharpness = torch.linspace(1, 12, 16)[None, :, None]
    canvas = torch.randint(0, 64, (3, 16), generator=draw)
    accepted, same = 0, 0
    for step in range(12):
        logits = torch.randn(3, 16, 64, generator=draw) * sharpness
        a, b = theirs.step(logits, step, canvas), ours.step(logits, step, canvas)
        if step < 11:  # the last step of a canvas writes the best token everywhere
            assert torch.equal(a.accepted_index, b.transfer_index)
            assert torch.equal(b.prev_sample[b.transfer_index], b.sampled_tokens[b.transfer_index])
            same += (b.prev_sample == canvas)[~b.transfer_index].sum()
        assert torch.allclose(a.pred_logits, b.pred_logits, rtol=1e-6)
        accepted += a.accepted_index.sum()
        canvas = b.prev_sample
    assert 0 < accepted < 12 * 48 and same < 60
    assert torch.equal(canvas, logits.argmax(-1))


def test_draws_of_a_canvas_have_the_probabilities_of_its_rows():
    ours = UnmaskScheduler(policy=CANVAS)
    ours.set_timesteps(12)
    row = torch.randn(8, generator=torch.Generator().manual_seed(3))
    logits = row.expand(64, 64, 8).contiguous()
    tokens = ours.step(logits, 0, torch.zeros(64, 64, dtype=torch.long)).sampled_tokens
    share = torch.bincount(tokens.flatten(), minlength=8) / 4096
    expected = torch.softmax(row / 0.8, 0)  # the first step of a canvas is at the highest temperature
    assert (share - expected).abs().max() < 5 * 0.5 / 64


@pytest.mark.parametrize(
    "policy, steps, settings, says",
    [
        (CANVAS, 20, {}, "num_inference_steps is 20 and the canvas"),
        ("threshold(0.9)", 12, {}, "has no canvas"),
        (CANVAS, 12, dict(temperature=0.5), "temperature is 0.5, which has no effect"),
    ],
)
def test_what_a_canvas_cannot_run_is_refused(gemma, policy, steps, settings, says):
    with pytest.raises(ValueError, match=says):
        denoise(gemma, UnmaskScheduler(policy=policy), 1.0, steps, **settings)


def test_a_canvas_is_not_for_masks(tiny):
    with pytest.raises(ValueError, match="DiffusionGemmaPipeline"):
        decode(pipeline(tiny, UnmaskScheduler(policy=CANVAS)), prompts(tiny[1])[0], num_inference_steps=12)


def test_a_scheduler_is_loaded_from_a_saved_pipeline(gemma, tmp_path):
    pipe = diffusers.DiffusionGemmaPipeline(model=gemma, scheduler=UnmaskScheduler(policy=CANVAS), processor=None)
    pipe.save_pretrained(tmp_path)
    scheduler = UnmaskScheduler.from_pretrained(tmp_path, subfolder="scheduler")
    assert scheduler.config.policy == CANVAS


@pytest.fixture(scope="module")
def discrete():
    """The module with the signature of diffusers#14741, whose output class is what it looks for."""
    import dataclasses
    import importlib.util
    import sys

    from diffusers.schedulers import scheduling_utils
    from diffusers.utils import BaseOutput

    import unmask.diffusers as released

    if released.DiscreteSchedulerOutput is not None:
        yield released
        return
    names = ("prev_sample", "pred_original_sample", "sampled_probs", "pred_logits", "committed_mask", "edited_mask")
    output = dataclasses.make_dataclass("DiscreteSchedulerOutput", [(n, object, None) for n in names], bases=(BaseOutput,))
    scheduling_utils.DiscreteSchedulerOutput = output
    spec = importlib.util.spec_from_file_location("unmask.diffusers_discrete", released.__file__)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del scheduling_utils.DiscreteSchedulerOutput, sys.modules[spec.name]


class Rows:
    """Logits of a block from the tokens next to each position; the mask token is never proposed."""

    def __init__(self, batch=4, length=16, sharpness=1.5):
        draw = torch.Generator().manual_seed(length)
        self.near = torch.randn(2, VOCAB, VOCAB, generator=draw) * sharpness
        self.own = torch.randn(batch, length, VOCAB, generator=draw)

    def __call__(self, tokens):
        logits = self.own + self.near[0][tokens.roll(1, 1)] + self.near[1][tokens.roll(-1, 1)]
        logits[..., MASK] = -60
        return logits


def in_blocks(scheduler, rows, steps, blocks=2, overrides=None, max_post_steps=16, generator=None):
    """The tokens after every step, in the loop over blocks of diffusers#14741 without its prompt and its EOS token."""
    log = []
    scheduler.register_to_config(mask_token_id=MASK, **(overrides or {}))
    for _ in range(blocks):
        scheduler.set_timesteps(steps, device=None)
        tokens, cleared = torch.full(rows.own.shape[:2], MASK), False
        for t in scheduler.timesteps:
            out = scheduler.step(rows(tokens), t, tokens, generator=generator, return_dict=True)
            tokens = torch.where(out.committed_mask | out.edited_mask, out.prev_sample, tokens)
            log.append(tokens)
            if cleared := not (tokens == MASK).any():
                break
        if (scheduler.config.get("editing_threshold") or 0) > 0 and cleared:
            for _ in range(max_post_steps + 1):
                out = scheduler.step_edit(rows(tokens), tokens, generator=generator, return_dict=True)
                tokens = torch.where(out.edited_mask, out.prev_sample, tokens)
                log.append(tokens)
                if not out.edited_mask.any():
                    break
    return log


@pytest.mark.parametrize("steps, threshold, editing", [(16, 0.9, None), (5, 0.4, None), (7, 1.5, None), (7, 0.5, 0.4)])
def test_both_signatures_decide_alike(discrete, steps, threshold, editing):
    rows, policy = Rows(), block_refinement_policy(steps, threshold, editing, block_length=16)
    theirs, expected, edits = diffusers.BlockRefinementScheduler(), [], 0
    for _ in range(2):  # the released scheduler, whose steps are numbers from 0
        theirs.set_timesteps(steps, block_length=16)
        tokens = torch.full((4, 16), MASK)
        for step in range(steps + 17):
            out = theirs.step(rows(tokens), step, tokens, mask_token_id=MASK, threshold=threshold, editing_threshold=editing)
            idle = torch.equal(out.prev_sample, tokens)
            edits += int(out.editing_transfer_index.sum())
            tokens = out.prev_sample
            expected.append(tokens)
            if not (tokens == MASK).any() and (editing is None or idle):
                break
    found = in_blocks(discrete.UnmaskScheduler(policy=policy, suppress_mask=False), rows, steps)
    assert [t.tolist() for t in found] == [t.tolist() for t in expected]
    assert (edits > 0) == (editing is not None)


def test_the_grid_of_timesteps_and_its_index(discrete):
    scheduler = discrete.UnmaskScheduler(policy="tokens_per_step(1)", mask_token_id=MASK)
    scheduler.set_timesteps(4, device="cpu")
    assert scheduler.timesteps.tolist() == [1.0, 0.75, 0.5, 0.25] and scheduler.timesteps.dtype == torch.float32
    assert scheduler.num_inference_steps == 4 and scheduler.step_index is None and scheduler.begin_index is None
    assert [scheduler.index_for_timestep(t) for t in scheduler.timesteps] == [0, 1, 2, 3]
    rows = Rows(2, 8)
    tokens = torch.full((2, 8), MASK)
    scheduler.step(rows(tokens), scheduler.timesteps[1], tokens)
    assert scheduler.step_index == 2
    scheduler.set_timesteps(4)
    assert scheduler.step_index is None
    scheduler.set_begin_index(2)
    scheduler.step(rows(tokens), scheduler.timesteps[0], tokens)
    assert scheduler.begin_index == 2 and scheduler.step_index == 3
    for steps in (0, -1):
        with pytest.raises(ValueError, match="num_inference_steps must be at least 1"):
            scheduler.set_timesteps(steps)
    with pytest.raises(ValueError, match="timestep must be one of timesteps, 1 to 1 / 4"):
        scheduler.set_timesteps(4)
        scheduler.step(rows(tokens), 0.6, tokens)


def test_only_what_every_discrete_scheduler_takes(discrete):
    import inspect

    step = list(inspect.signature(discrete.UnmaskScheduler.step).parameters.values())[1:]
    assert [p.name for p in step if p.kind is p.POSITIONAL_OR_KEYWORD] == ["model_output", "timestep", "sample"]
    assert {p.name for p in step if p.kind is p.KEYWORD_ONLY} == {"generator", "return_dict"}
    assert [*inspect.signature(discrete.UnmaskScheduler.set_timesteps).parameters][1:] == ["num_inference_steps", "device"]


@pytest.mark.parametrize("policy", ["tokens_per_step(2)", "tokens_per_step(2) + sampling(2) + top_k(5)",
                                    "by_entropy + entropy_bound(0.1) + temperature(2)"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_its_output_is_that_of_every_discrete_scheduler(discrete, policy, dtype):
    scheduler, rows = discrete.UnmaskScheduler(policy=policy, mask_token_id=MASK), Rows(2, 8)
    tokens = torch.full((2, 8), MASK)
    for t in scheduler.timesteps[:2]:
        logits = rows(tokens).to(dtype)
        out = scheduler.step(logits, t, tokens, generator=torch.Generator().manual_seed(0))
        assert isinstance(out, discrete.DiscreteSchedulerOutput)
        assert out.prev_sample.dtype == out.pred_original_sample.dtype == torch.long
        assert out.committed_mask.dtype == torch.bool and out.committed_mask.any() and not out.edited_mask.any()
        assert torch.equal(out.prev_sample != tokens, out.committed_mask)
        assert torch.equal(out.prev_sample[out.committed_mask], out.pred_original_sample[out.committed_mask])
        raw = torch.softmax(logits.float(), -1).gather(-1, out.pred_original_sample[..., None])[..., 0]
        assert torch.allclose(out.sampled_probs, raw, atol=1e-6)  # before the policy's own shaping, at every position
        assert out.pred_logits is logits
        tokens = out.prev_sample
    scheduler.set_timesteps(4)
    tokens = torch.full((2, 8), MASK)
    fields = scheduler.step(rows(tokens), 1.0, tokens, generator=torch.Generator().manual_seed(3), return_dict=False)
    scheduler.set_timesteps(4)
    again = scheduler.step(rows(tokens), 1.0, tokens, generator=torch.Generator().manual_seed(3))
    assert len(fields) == 6 and torch.equal(fields[0], again.prev_sample) and torch.equal(fields[4], again.committed_mask)


def test_the_last_timestep_leaves_no_mask(discrete):
    log = in_blocks(discrete.UnmaskScheduler(policy="tokens_per_step(1)"), Rows(), 4)
    masks = [(t == MASK).sum(-1).tolist() for t in log]
    assert masks == [[15] * 4, [14] * 4, [13] * 4, [0] * 4] * 2


def test_blocks_and_generators_draw_differently(discrete):
    scheduler = discrete.UnmaskScheduler(policy="tokens_per_step(4) + sampling(3)")

    def drawn(seed):
        return [t.tolist() for t in in_blocks(scheduler, Rows(), 8, generator=torch.Generator().manual_seed(seed))]

    first = drawn(1)
    assert first == drawn(1) != drawn(2) and first[3] != first[7]


@pytest.mark.parametrize("setting, says", [
    (dict(temperature=0.7), r"temperature\(0.7\) \+ sampling in its policy"), (dict(threshold=0.5), "threshold is 0.5, which has no effect"),
    (dict(editing_threshold=0.4), "edit_committed"), (dict(top_k=3), "top_k.3."),
])
def test_settings_that_the_pipeline_hands_over_are_refused(discrete, setting, says):
    with pytest.raises(ValueError, match=says):
        in_blocks(discrete.UnmaskScheduler(policy="threshold(0.9)"), Rows(), 4, overrides=setting)


def test_of_another_scheduler_the_mask_token_is_kept(discrete):
    class Theirs(diffusers.BlockRefinementScheduler):
        config = {"mask_token_id": 7, "temperature": 0.5, "threshold": 0.95, "block_length": 20, "editing_threshold": 0.3}

    made = discrete.UnmaskScheduler.from_config(Theirs.config, policy="threshold(0.5)")
    assert made.config.mask_token_id == 7 and made.config.block_length == 20
    assert made.config.get("temperature") is None and made.config.get("editing_threshold") is None
    rows, tokens = Rows(2, 8), torch.full((2, 8), 7)
    assert (made.step(rows(tokens), 1.0, tokens).prev_sample != 7).any()
    with pytest.raises(ValueError, match="mask_token_id must be in the scheduler's config"):
        discrete.UnmaskScheduler(policy="threshold(0.5)").step(rows(tokens), 1.0, tokens)


def test_a_canvas_by_timesteps_is_that_by_numbers(discrete):
    ours, by_numbers = discrete.UnmaskScheduler(policy=CANVAS), UnmaskScheduler(policy=CANVAS)
    if discrete.UnmaskScheduler is UnmaskScheduler:
        pytest.skip("this diffusers has one signature")
    for scheduler in (ours, by_numbers):
        scheduler.set_timesteps(12)
    draw = torch.Generator().manual_seed(2)
    sharpness = torch.linspace(1, 12, 16)[None, :, None]
    one = two = torch.randint(0, 64, (3, 16), generator=draw)
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    for step, t in enumerate(ours.timesteps):
        logits = torch.randn(3, 16, 64, generator=draw) * sharpness
        a, b = ours.step(logits, t, one, generator=generators[0]), by_numbers.step(logits, step, two, generator=generators[1])
        one, two = a.prev_sample, b.prev_sample
        assert torch.equal(one, two) and torch.equal(a.committed_mask, b.transfer_index)
        assert torch.equal(a.pred_logits, b.pred_logits)
    with pytest.raises(ValueError, match="num_inference_steps is 20 and the canvas"):
        ours.set_timesteps(20)
    ours.register_to_config(mask_token_id=MASK)
    ours.set_timesteps(12)
    with pytest.raises(ValueError, match="DiffusionGemmaPipeline"):
        ours.step(logits, 1.0, one)
