# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rollouts: what a trainer recomputes from the recorded logits has the rollout's bits, and so has a replay."""
import json
import math

import numpy as np
import pytest
import rollout_formulas as formulas
import unmask
from unmask import rollout as converters

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # -inf minus -inf in formulas.fma
VOCAB, MASK, PROMPT, LENGTH, BLOCK = 2500, 2499, 5, 21, 8
LIBRARIES = [np, torch]
POLICIES = [
    "threshold(0.3)",
    "threshold(0.3) + sampling",
    "tokens_per_step(2) + sampling(0.7)",
    "tokens_per_step(2) + temperature(0.6) + sampling",
    "tokens_per_step(3) + sampling + top_k(7)",
    "tokens_per_step(3) + temperature(1.7) + sampling + top_p(0.8)",
    "tokens_per_step(3) + sampling(1.3) + top_k(200) + min_p(0.01)",
    "tokens_per_step(4) + sampling + remask_below(0.3)",
    "threshold(0.3) + edit_committed(0.1) + edited_blocks(4)",
]


def logits_of(step, length=LENGTH, vocab=VOCAB):
    rows = np.random.default_rng(step).normal(size=(length, vocab)).astype(np.float32)
    rows *= np.linspace(0.5, 4, length, dtype=np.float32)[:, None]
    rows[np.arange(length), np.arange(length) * 37 % vocab] += 6
    return rows


def recorded(policy, *, seed=3, sequence=2, logits=logits_of, **options):
    """A rollout, and the logits of its passes."""
    recorder = unmask.Recorder(unmask.Session(policy, vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH, **options))
    tokens = np.full(LENGTH, 7, np.int32)
    recorder.start(0, tokens, prompt_length=PROMPT, block_length=BLOCK, seed=seed, sequence=sequence)
    passes = []
    while (request := recorder.next()) is not None:
        passes.append(logits(len(passes)))
        recorder.supply([passes[-1][s.rows] for s in request.segments])
    return recorder.rollout(), passes


def argument(policy, name, otherwise):
    found = [part for part in policy.split(" + ") if part.split("(")[0] == name]
    return float(found[0].rstrip(")").split("(")[1]) if found and "(" in found[0] else 1.0 if found else otherwise


def row_of(policy, logits):
    """The row that a decision rests on: the mask token is impossible, and a temperature multiplies."""
    z = logits.copy()
    scale = argument(policy, "temperature", 1.0)
    if scale != 1:
        z *= np.float32(1) / np.float32(scale)
    z[MASK] = -np.inf
    return z


def rules_of(policy):
    rules = {"top_p": argument(policy, "top_p", 1.0), "min_p": argument(policy, "min_p", 0.0)}
    return rules | ({"top_k": int(argument(policy, "top_k", 0))} if "top_k" in policy else {})


@pytest.mark.parametrize("policy", POLICIES)
def test_the_bits_of_a_rollout_are_those_of_its_logits(policy):
    rollout, passes = recorded(policy)
    assert rollout.tokens and len(set(rollout.steps)) > 2
    truncates = any(name in policy for name in ("top_k", "top_p", "min_p"))
    for i, token in enumerate(rollout.tokens):
        step, position, sequence = rollout.counters[i]
        assert (step + 1, position, sequence, rollout.seeds[i]) == (rollout.steps[i], PROMPT + i, 2, 3)
        z = row_of(policy, passes[step][position])
        for xp in LIBRARIES:
            row = formulas.array(xp, z)
            assert float(formulas.log_probability(xp, row, token)) == rollout.log_probabilities[i]
            expected = float(formulas.log_kept_mass(xp, row, **rules_of(policy))) if truncates else 0.0
            assert expected == rollout.log_kept_masses[i]
        assert rollout.drawn[i] == ("sampling" in policy)
        if not rollout.drawn[i]:
            assert token == z.argmax()
            continue
        temperature = argument(policy, "sampling", 1.0)
        if truncates:
            kept = formulas.kept(np, z, **rules_of(policy))[0]
            assert token == formulas.draw_of_kept(z, kept, temperature, 3, rollout.counters[i])
        else:
            assert token == formulas.draw_of_row(z, temperature, 3, rollout.counters[i])
    if "sampling" in policy:
        assert any(t != row_of(policy, passes[c[0]][c[1]]).argmax() for t, c in zip(rollout.tokens, rollout.counters))
    if truncates:
        assert any(m < 0 for m in rollout.log_kept_masses)


@pytest.mark.parametrize("policy, scale, rules", [
    ("sampling(temperature=1) + temperature(0.5) + top_p(0.8) + tokens_per_step(2)", 0.5, {"top_p": 0.8}),
    ("top_p(p=0.8) + sampling + tokens_per_step(2) + temperature(value=0.5)", 0.5, {"top_p": 0.8}),
    ("sampling(1) + temperature( 5e-1 )+top_p + tokens_per_step(count=2)", 0.5, {"top_p": 0.95}),
    ("alg_temperature(by_entropy, temperature=0.3) + temperature(1.5) + sampling + top_k(k=9) + tokens_per_step", 1.5, {"top_k": 9}),
    ("alg_temperature(order=by_margin, temperature=0.3) + sampling(temperature=0.7) + top_k + tokens_per_step", 1.0, {"top_k": 50}),
    ("sampling + top_k(9) + min_p + top_k(4) + top_p(0.9) + min_p(0.2) + top_p(0.7) + tokens_per_step", 1.0,
     {"top_k": 4, "top_p": 0.7, "min_p": 0.2}),
    ("temperature + at_most(3, any_of(threshold(value=0.4), tokens_per_step)) + sampling + min_p(ratio=0.1)", 1.0, {"min_p": 0.1}),
])
def test_masses_are_of_the_policy_and_not_of_its_spelling(policy, scale, rules):
    rollout, passes = recorded(policy)
    assert all(rollout.drawn) and min(rollout.log_kept_masses) < 0
    for i, token in enumerate(rollout.tokens):
        step, position, _ = rollout.counters[i]
        z = row_of(f"temperature({scale})", passes[step][position])
        assert float(formulas.log_probability(np, z, token)) == rollout.log_probabilities[i]
        assert float(formulas.log_kept_mass(np, z, **rules)) == rollout.log_kept_masses[i]


@pytest.mark.parametrize("policy, drawn", [
    ("sampling(temperature=0) + tokens_per_step(3)", False), ("sampling(0.0) + tokens_per_step(3)", False),
    ("sampling(temperature=2) + tokens_per_step(3)", True), ("sampling + tokens_per_step(3)", True),
    ("alg_temperature(by_entropy, temperature=2) + tokens_per_step(3)", False)])
def test_what_is_drawn(policy, drawn):
    assert set(recorded(policy)[0].drawn) == {drawn}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_replay_has_the_bits_again(policy, tmp_path):
    file = str(tmp_path / "decode.jsonl")
    rollout, passes = recorded(policy, trace=file)
    again, _ = recorded(f"replay({file!r})", logits=lambda step: passes[step])
    for name in ("tokens", "steps", "log_probabilities", "stop_length"):
        assert getattr(again, name) == getattr(rollout, name)


@pytest.mark.parametrize("xp", LIBRARIES, ids=lambda xp: xp.__name__)
@pytest.mark.parametrize("vocab", [1, 2, 63, 64, 65, 2048, 2049, 9000])
def test_rows_have_the_bits_of_the_formulas(xp, vocab):
    rng = np.random.default_rng(vocab)
    rows = np.concatenate([rng.normal(size=(3, vocab)) * [[0.01], [3], [40]], np.zeros((1, vocab)),
                           rng.normal(size=(1, vocab)) * 3e6]).astype(np.float32)
    rows[1, vocab // 2] = -np.inf if vocab > 1 else 0
    rows[2, : vocab // 3] = -np.inf
    found = unmask.read(xp.asarray(rows), top_k=5, top_p=0.7, min_p=0.001)
    assert type(found.best).__module__ == xp.__name__
    for i, row in enumerate(map(lambda r: formulas.array(xp, r), rows)):
        best, rest = formulas.row_sums(xp, row)
        assert found.best[i] == best and found.tokens[i] == rows[i].argmax()
        assert found.log_total[i] == formulas.log1p(xp, rest)
        assert found.log_kept_mass[i] == formulas.log_kept_mass(xp, row, top_k=5, top_p=0.7, min_p=0.001)
        with np.errstate(invalid="ignore", divide="ignore"):
            p = np.exp(rows[i].astype(np.float64) - rows[i].max())
            p /= p.sum()
            assert float(found.entropy[i]) == pytest.approx(-np.sum(np.where(p > 0, p * np.log(p), 0)), abs=1e-5)
        assert float(found.second[i]) == (np.sort(rows[i])[-2] if vocab > 1 else -np.inf)


def test_options_of_rows():
    rows = logits_of(0, 4, 300)
    half = torch.from_numpy(rows).bfloat16()
    assert torch.equal(unmask.read(half).log_total, unmask.read(half.float()).log_total)
    edited = rows * (np.float32(1) / np.float32(0.7))
    edited[:, [4, 9]] = -np.inf
    found = unmask.read(rows, temperature=0.7, suppressed=[9, 4], top_p=0.99, min_p=0.0)
    assert np.array_equal(found, unmask.read(edited, top_p=0.99))
    allowed = np.zeros((4, 10), np.int32)
    allowed[:, 1] = -1  # tokens 32 to 63
    only = np.where((np.arange(300) >= 32) & (np.arange(300) < 64), rows, np.float32(-np.inf))
    assert np.array_equal(unmask.read(rows, allowed=allowed, top_k=3), unmask.read(only, top_k=3))
    beside = logits_of(1, 4, 300)
    guided = formulas.fma(np, np.float32(2.5), rows - beside, beside)
    assert np.array_equal(unmask.read(rows, unconditional=beside, cfg_scale=1.5, top_p=0.999),
                          unmask.read(guided, top_p=0.999))
    rows[2, 5] = np.nan
    rows[3] = -np.inf
    found = unmask.read(rows, top_k=3)
    assert np.isnan(found.log_total).tolist() == [False, False, True, True]
    assert np.isnan(found.log_kept_mass).tolist() == [False, False, True, True]
    assert found.tokens[3] == -1 and unmask.read(rows[:0]).tokens.shape == (0,)


@pytest.mark.parametrize("given, message", [
    ({"temperature": 0.0}, "temperature must be at least 1e-6 and finite, got 0"),
    ({"top_k": 0}, "top_k must be at least 1, got 0"),
    ({"top_p": 1.5}, r"top_p must be in \[0, 1\], got 1.5"),
    ({"min_p": float("nan")}, r"min_p must be in \[0, 1\], got nan"),
    ({"suppressed": [300]}, r"suppressed token must be in \[0, columns of the logits\), 300, got 300"),
])
def test_read_refuses(given, message):
    with pytest.raises(ValueError, match=message):
        unmask.read(logits_of(0, 2, 300), **given)


def test_a_line_of_json():
    rollout, _ = recorded("tokens_per_step(3) + sampling + top_k(7)")
    rollout.log_probabilities[3] = -math.inf
    line = rollout.to_json()
    assert "\n" not in line and json.loads(line)["log_probabilities"][3] is None
    assert unmask.Rollout.from_json(line) == rollout
    assert unmask.Rollout.from_json(json.dumps({**json.loads(line), "new": 1})) == rollout
    bare = unmask.Rollout([1], [2, 3], [1, 1])
    assert unmask.Rollout.from_json(bare.to_json()) == bare and bare.stop_length == 2
    for text, message in (('{"format":"unmask-rollout/2"}', "format must be 'unmask-rollout/1', got 'unmask-rollout/2'"),
                          ("3", "format must be 'unmask-rollout/1', got 3"),
                          ('{"format":"unmask-rollout/1","prompt":[],"steps":[]}', "must have the member 'tokens'")):
        with pytest.raises(ValueError, match=message):
            unmask.Rollout.from_json(text)


@pytest.mark.parametrize("given, message", [
    ({"steps": [1]}, "steps must have an entry for each of the 2 tokens, got 1"),
    ({"log_probabilities": []}, "log_probabilities must have an entry for each of the 2 tokens, got 0"),
    ({"stop_length": 3}, r"stop_length must be in \[0, 2\], got 3"),
    ({"steps": [1, -1]}, "steps must be at least 0, got -1"),
])
def test_lists_fit_together(given, message):
    with pytest.raises(ValueError, match=message):
        unmask.Rollout(**{"prompt": [1], "tokens": [2, 3], "steps": [1, 1], **given})


@pytest.mark.parametrize("eos", [None, 9])
@pytest.mark.parametrize("rule, decided", [("left_to_right + tokens_per_step(2)", 6), ("by_margin + tokens_per_step(2)", None)])
def test_a_reader_sees_nothing_that_no_step_decided(eos, rule, decided):
    options = {} if eos is None else {"eos_token": eos}
    whole, (rollout, _) = recorded(rule, **options)[0], recorded(rule + " + max_steps(3)", **options)
    first = next(i for i, step in enumerate(rollout.steps) if step == 0)
    assert rollout.stop_length == first and decided in (None, first) and len(whole.steps) > first
    assert rollout.tokens[:first] == whole.tokens[:first] and whole.stop_length == len(whole.tokens)
    assert rollout.tokens[first] == (MASK if eos is None else eos)


def test_an_answer_that_ends_early():
    """The tokens of the block in which it ends are all there, those of later blocks are not."""
    def logits(step):
        rows = logits_of(step)
        rows[PROMPT + 2, 9] = 40  # EOS
        return rows

    rollout, _ = recorded("tokens_per_step(2) + stop_at_eos", logits=logits, eos_token=9)
    assert len(rollout.tokens) == BLOCK and rollout.stop_length == 3 and rollout.tokens[2] == 9
    assert converters.to_sglang(rollout)["output_ids"] == rollout.tokens[:3]


def test_given_and_filled_tokens_have_no_decision():
    session = unmask.Session("max_steps(2) + threshold(1) + sampling", vocab=VOCAB, mask_token=MASK, length=LENGTH,
                             window=LENGTH)
    recorder = unmask.Recorder(session)
    masked = np.arange(LENGTH) != 8
    recorder.start(0, np.full(LENGTH, 7, np.int32), prompt_length=PROMPT, block_length=LENGTH, editable=masked)
    while (request := recorder.next()) is not None:
        recorder.supply(logits_of(0)[request.segments[0].rows])
    rollout = recorder.rollout()
    assert rollout.tokens[3] == 7 and rollout.steps[3] == 0 and not rollout.drawn[3]
    for i, (step, p) in enumerate(zip(rollout.steps, rollout.log_probabilities)):
        assert rollout.drawn[i] == (p < 0)
    assert sum(rollout.drawn) >= 2


def test_refusals_of_the_recorder():
    session = unmask.Session("threshold(0.9)", vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH)
    recorder = unmask.Recorder(session)
    tokens = np.full(LENGTH, 7, np.int32)
    with pytest.raises(RuntimeError, match="slot 0, which no sequence was started in"):
        recorder.rollout()
    for policy, message in (
            ("canvas(4)", "canvas moves tokens, or draws them anew"),
            ("threshold(0.9) + sampling + top_k(3) + repetition_penalty(1.2)", "mass that top_k keeps is not known with repetition"),
    ):
        with pytest.raises(ValueError, match=message):
            recorder.start(0, tokens, prompt_length=PROMPT, policy=policy)
    recorder.start(0, tokens, prompt_length=PROMPT)
    with pytest.raises(RuntimeError, match="slot 0, whose sequence has not ended"):
        recorder.rollout()


def test_two_slots_and_one_tensor_for_all_rows():
    def run(together):
        session = unmask.Session("tokens_per_step(3) + sampling + top_p(0.6)", vocab=VOCAB, mask_token=MASK, length=LENGTH,
                                 window=LENGTH, sequences=2)
        recorder = unmask.Recorder(session)
        for slot in (0, 1):
            recorder.start(slot, np.full(LENGTH, 7, np.int32), prompt_length=PROMPT + slot, block_length=BLOCK, seed=slot)
        step = 0
        while (request := recorder.next()) is not None:
            rows = [logits_of(step + 50 * s.slot)[s.rows] for s in request.segments]
            recorder.supply(np.concatenate(rows) if together else rows)
            step += 1
        return [recorder.rollout(slot) for slot in (0, 1)]

    assert run(True) == run(False)
    assert all(any(m < 0 for m in r.log_kept_masses) for r in run(True))


def test_masks_and_guidance_of_a_pass():
    """The mass is that of the row with the pass's bitmask and guidance."""
    session = unmask.Session("tokens_per_step(4) + sampling + top_p(0.9)", vocab=VOCAB, mask_token=MASK, length=LENGTH,
                             window=LENGTH)
    recorder = unmask.Recorder(session)
    recorder.start(0, np.full(LENGTH, 7, np.int32), prompt_length=PROMPT, block_length=LENGTH)
    allowed = np.random.default_rng(5).integers(-(2**31), 2**31, (LENGTH, (VOCAB + 31) // 32)).astype(np.int32)
    step = 0
    while (request := recorder.next()) is not None:
        rows = request.segments[0].rows
        recorder.supply([logits_of(step)[rows]], allowed=[allowed[rows]], unconditional=[logits_of(step + 30)[rows]],
                        cfg_scale=[0.5])
        step += 1
    rollout = recorder.rollout()
    for token, mass, log_probability, (step, position, _) in zip(
            rollout.tokens, rollout.log_kept_masses, rollout.log_probabilities, rollout.counters):
        beside = logits_of(step + 30)[position]
        z = formulas.fma(np, np.float32(1.5), logits_of(step)[position] - beside, beside)
        z[(allowed[position, np.arange(VOCAB) // 32] >> np.arange(VOCAB) % 32 & 1) == 0] = -np.inf
        z[MASK] = -np.inf
        assert mass == formulas.log_kept_mass(np, z, top_p=0.9) and mass < 0
        assert log_probability == formulas.log_probability(np, z, token)


# Converters.

FULL = unmask.Rollout([1, 2, 3, 4], [11, 12, 13, 14, 15, 16, 17, 18], [3, 1, 1, 3, 6, 5, 6, 6],
                      log_probabilities=[-0.5, -1.0, -2.0, -0.25, -0.75, -3.0, -0.125, -4.0],
                      log_kept_masses=[-0.25, 0.0, -0.5, 0.0, -0.125, 0.0, 0.0, -1.0], drawn=[True] * 8, seeds=[2**63] * 8,
                      counters=[(s, 4 + i, 0) for i, s in enumerate([2, 0, 0, 2, 5, 4, 5, 5])], stop_length=6,
                      policy="threshold(0.9)", block_length=4)


def test_sglang():
    response = converters.to_sglang(FULL)
    assert response["output_ids"] == FULL.tokens[:6] and response["meta_info"]["step_maps"] == FULL.steps[:6]
    again = converters.from_sglang(json.loads(json.dumps(response)), prompt=FULL.prompt, policy=FULL.policy)
    assert converters.to_sglang(again) == response and again.seeds == [2**63] * 6
    plain = converters.from_sglang({"output_ids": [5, 6], "meta_info": {"step_maps": [2, 1]}})
    assert plain.steps == [2, 1] and plain.log_probabilities is None
    with pytest.raises(ValueError, match="return_step_maps"):
        converters.from_sglang({"output_ids": [5], "meta_info": {}})


def test_dare():
    response = converters.to_dare(FULL)
    about = response["meta_info"]
    assert response["output_ids"] == FULL.tokens[:6] == about["dllm_replay_token_ids"][:6]
    assert about["dllm_replay_step_maps"] == [2, 1, 1, 2, 4, 3, 4, 4] and about["step_maps"] == [2, 1, 1, 2, 4, 3]
    assert about["dllm_stop_length"] == 6 and about["dllm_replay_contract_version"] == 1
    again = converters.from_dare(response, prompt=FULL.prompt, block_length=4)
    assert converters.to_dare(again)["meta_info"]["dllm_replay_step_maps"] == about["dllm_replay_step_maps"]
    assert again.tokens == FULL.tokens and again.stop_length == 6
    for made, message in ((unmask.Rollout([1], [2, 3], [1, 1], block_length=2), "must end with a block for DARE, got 1 and 2"),
                          (unmask.Rollout([1, 2], [2, 3], [1, 0], block_length=2), "at least 1 for DARE, got 0 for token 1"),
                          (unmask.Rollout([], [2, 3, 4, 5], [1] * 4, block_length=2, stop_length=2), "at most one block")):
        with pytest.raises(ValueError, match=message):
            converters.to_dare(made)
    with pytest.raises(ValueError, match="dllm_replay_contract_version must be 1, got 2"):
        converters.from_dare({"meta_info": {"dllm_replay_contract_version": 2}})


def test_dllm_rl():
    entry = converters.to_dllm_rl(FULL, prompt="p", response="r", reward=0.5)
    assert entry == {"prompt": "p", "reward": 0.5, "response": "r", "step_map": [1, 0, 0, 1, 3, 2]}
    for shift in (0, 1):  # LLaDA's begin with 0, SDAR's with 1
        entry = {"step_map": [1 + shift, shift, shift]}
        assert converters.from_dllm_rl(entry, prompt=[1], tokens=[5, 6, 7, 8]).steps == [2, 1, 1, 3]
    assert converters.from_dllm_rl(entry, prompt=[1], tokens=[5, 6]).steps == [2, 1]


def test_lmdeploy():
    made = converters.to_lmdeploy(FULL)
    assert made["token_ids"] == FULL.tokens[:6] and made["step_map"] == [2, 1, 1, 2, 4, 3]
    assert made["logprobs"][5] == {16: -3.0}
    again = converters.from_lmdeploy(made, prompt=FULL.prompt)
    assert again.log_probabilities == FULL.log_probabilities[:6] and converters.to_lmdeploy(again) == made

    class Response:
        token_ids, step_map, logprobs = [5, 6], [1, 2], None

    assert converters.from_lmdeploy(Response).steps == [1, 2]
    with pytest.raises(ValueError, match="step_map must be known, got None"):
        converters.from_lmdeploy({"token_ids": [5]})


def test_maxtext():
    short = unmask.Rollout([9], [8], [1], log_probabilities=[-1.0], log_kept_masses=[0.0])
    trace = converters.to_maxtext([FULL, short], pad_token=99)
    assert trace["tokens"].tolist() == [[1, 2, 3, 4, 11, 12, 13, 14, 15, 16, 17, 18], [9, 8] + [99] * 10]
    assert trace["action_steps"].tolist() == [[-1] * 4 + [1, 0, 0, 1, 3, 2, 3, 3], [-1, 0] + [-1] * 10]
    assert trace["action_logps"][0].tolist() == [0] * 4 + [-0.25, -1, -1.5, -0.25, -0.625, -3, -0.125, -3]
    first, second = converters.from_maxtext(trace, prompt_lengths=[4, 1])
    assert first.tokens == FULL.tokens and first.steps == [2, 1, 1, 2, 4, 3, 4, 4] and second.tokens == [8]
    assert {k: v.tolist() for k, v in converters.to_maxtext([first, second], pad_token=99).items()} == {
        k: v.tolist() for k, v in trace.items()}
    with pytest.raises(ValueError, match="length must be at least 12.* got 3"):
        converters.to_maxtext([FULL], length=3)
    with pytest.raises(ValueError, match="log_probabilities and log_kept_masses must be known"):
        converters.to_maxtext([unmask.Rollout([1], [2], [1])])
