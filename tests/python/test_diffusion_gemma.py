# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DiffusionGemma of transformers with random weights: its generate() by a policy, beside its own sampler."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
if not hasattr(transformers, "DiffusionGemmaForBlockDiffusion"):
    pytest.skip(f"transformers {transformers.__version__} has no DiffusionGemma", allow_module_level=True)

import unmask  # noqa: E402
from unmask.diffusion_gemma import install  # noqa: E402

WORD = "model:diffusion_gemma"
CANVAS, VOCABULARY, EOS = 16, 64, 2
POLICIES = [WORD, "model:diffusion_gemma_mlx", "by_entropy + entropy_bound(0.5) + canvas(12)", "by_margin + tokens_per_step(3) + canvas(9)",
            "any_of(threshold(0.5), tokens_per_step(1)) + canvas(20, 0.4, 0.8, 1, 0.005, absorbing=true, draws=false)",
            "by_entropy + entropy_bound(0.1) + canvas(30) + max_steps(5)"]


@pytest.fixture(scope="module")
def model():
    """Its logits are raised by `sharpness`; with None it is sure of one token at each position."""
    torch.manual_seed(0)
    text = dict(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, global_head_dim=16, num_experts=2, top_k_experts=1, moe_intermediate_size=16,
        initializer_range=0.3, sliding_window=16, layer_types=["sliding_attention", "full_attention"])
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=8)
    config = transformers.DiffusionGemmaConfig(
        text_config=text, vision_config=vision, canvas_length=CANVAS, boi_token_id=60, eoi_token_id=61, image_token_id=62)
    made = transformers.DiffusionGemmaForBlockDiffusion(config).eval()
    made.generation_config.eos_token_id, made.generation_config.pad_token_id = [1, EOS], 0
    made.seen = []

    forward = made.forward

    def sharpened(*args, **given):
        output = forward(*args, **given)
        sure = made.sharpness is None
        output.logits = 1e4 * torch.nn.functional.one_hot(output.logits.argmax(-1), VOCABULARY).float() if sure else (
            output.logits * made.sharpness).float()
        made.seen.append(output.logits.detach().clone())
        return output

    made.forward = sharpened  # generate() calls it, and no hooks
    return made


class Streamer:
    """As TextDiffusionStreamer: drafts, then the tokens of each canvas."""

    def __init__(self):
        self.drafts, self.put_tokens, self.ended = [], [], False

    def put_draft(self, value):
        self.drafts.append(value.tolist())

    def put(self, value):
        self.put_tokens.append(value.tolist())

    def end(self):
        self.ended = True


def generated(model, sharpness, rows=4, streamer=None, seed=3, **settings):
    model.sharpness = sharpness
    model.seen.clear()
    torch.manual_seed(seed)
    ids = torch.arange(rows * 6).view(rows, 6) % 50 + 3
    with torch.no_grad():
        return model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, streamer=streamer, **settings)


@pytest.mark.parametrize("settings", [{}, {"cache_implementation": "static", "disable_compile": True}, {"return_dict_in_generate": True}])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_sure_model_has_the_tokens_of_its_own_sampler(model, rows, settings, monkeypatch):
    """With its passes, its drafts, several canvases, EOS tokens and padding."""
    begin = type(model)._prepare_denoiser_inputs

    def begins_alike(self, **given):  # each of both draws as many numbers in a canvas as it likes
        torch.manual_seed(given["cache" if "cache" in given else "past_key_values"].get_seq_length())  # 5.24 and 5.23
        return begin(self, **given)

    monkeypatch.setattr(type(model), "_prepare_denoiser_inputs", begins_alike)
    theirs, ours = Streamer(), Streamer()
    expected = generated(model, None, rows, theirs, **settings)
    with install(model) as installed:
        found = generated(model, None, rows, ours, **settings)
    assert installed.policy == WORD
    assert found.sequences.tolist() == expected.sequences.tolist()
    assert found.tokens_per_forward.tolist() == expected.tokens_per_forward.tolist()
    assert (ours.drafts, ours.put_tokens, ours.ended) == (theirs.drafts, theirs.put_tokens, True)
    assert 6 + CANVAS * len(installed.reports) == found.sequences.shape[1] and {len(r) for r in installed.reports} == {rows}
    assert rows == 1 or len(installed.reports) == 3
    assert len(set(map(tuple, expected.sequences[:, 6:].tolist()))) == rows
    again = generated(model, None, rows, **settings)  # the model has its own sampler again
    assert again.sequences.tolist() == expected.sequences.tolist()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sharpness", [0.3, 3.0])
def test_every_canvas_is_that_of_a_session(model, policy, sharpness):
    """What is returned are the tokens of a session that is given the same rows, after as many passes."""
    model.generation_config.eos_token_id, ends = None, model.generation_config.eos_token_id
    try:
        with install(model, policy) as installed:
            found = generated(model, sharpness, 3)
            seen = list(model.seen)
            repeated = generated(model, sharpness, 3)
            assert repeated.sequences.tolist() == found.sequences.tolist()
            other = generated(model, sharpness, 3, seed=4)
    finally:
        model.generation_config.eos_token_id = ends
    assert other.sequences.tolist() != found.sequences.tolist()
    first = 0
    torch.manual_seed(3)
    for canvas, reports in enumerate(installed.reports):
        start = torch.randint(VOCABULARY, (3, CANVAS))
        seed = int(torch.randint(2**62, ()))
        passes = max(r.forwards for r in reports)
        for row in range(3):
            session = unmask.Session(policy, vocab=VOCABULARY, mask_token=0, length=CANVAS, window=CANVAS, suppress_mask=False)
            tokens = start[row].clone()
            session.start(0, tokens, prompt_length=0, block_length=CANVAS, seed=seed + row)
            for step in seen[first : first + passes]:
                if session.next() is None:
                    break
                session.supply([step[row].contiguous()])
            assert session.next() is None and session.report().forwards == reports[row].forwards
            at = 6 + CANVAS * canvas
            assert found.sequences[row, at : at + CANVAS].tolist() == tokens.tolist()
        first += passes
        for _ in range(passes):  # what transformers draws in a step, and drops
            torch.multinomial(torch.ones(3 * CANVAS, VOCABULARY), 1)
    assert first == len(seen)


def test_one_row_of_a_batch_ends_before_others(model):
    with install(model, "by_entropy + entropy_bound(0.1) + canvas(40, 0.4, 0.8, 1, 0.5)") as installed:
        generated(model, 30.0)
    assert any(len({r.forwards for r in canvas}) > 1 for canvas in installed.reports)


@pytest.mark.parametrize("settings, says", [
    ({"max_denoising_steps": 20}, "max_denoising_steps is 20, which has no effect under a policy; write canvas"),
    ({"t_max": 2.0}, "t_max is 2.0, which has no effect"),
    ({"stability_threshold": 3}, r"write canvas\(stable_steps=N\) in it"),
])
def test_settings_that_a_policy_replaces_are_refused(model, settings, says):
    with install(model, WORD), pytest.raises(ValueError, match=says):
        generated(model, 1.0, **settings)
    generated(model, 1.0, **settings)


@pytest.mark.parametrize("policy, says", [
    ("threshold(0.9)", "has no canvas, and DiffusionGemma has no mask token"),
    ("nonsense", "there is no part 'nonsense'"),
    ("by_entropy + entropy_bound(0.1) + canvas(9) + dual_cache", "cannot run dual_cache"),
])
def test_policies_that_it_cannot_run_are_refused(model, policy, says):
    with pytest.raises(ValueError, match=says):
        install(model, policy)
    assert not set(vars(model)) & {"_prepare_sampler", "_prepare_logits_processor"}


def test_models_that_are_none():
    with pytest.raises(ValueError, match="model must be a DiffusionGemmaForBlockDiffusion of transformers, got Linear"):
        install(torch.nn.Linear(1, 1))


def test_a_model_has_one_policy(model):
    with install(model), pytest.raises(ValueError, match="model has a policy already"):
        install(model)
