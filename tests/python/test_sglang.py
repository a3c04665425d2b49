# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin for SGLang beside SGLang's own algorithms: in their loops, and in the whole engine.

bash tests/sglang.sh runs them, with the released wheel of SGLang on a CPU.
"""
import json
import os
import re
import subprocess
import sys
import types

import pytest
import torch
from draws import probability_of_a_fit, sampled

sglang = pytest.importorskip("sglang", reason="bash tests/sglang.sh installs SGLang")

from sglang.srt import plugins  # noqa: E402
from sglang.srt.dllm import algorithm as algorithms  # noqa: E402
from sglang.srt.dllm.config import DllmConfig  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402

BLOCK, VOCAB, MASK = 16, 64, 63


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """SGLang's loader finds the entry point of the installed package."""
    assert "Unmask" not in algorithms.algo_name_to_cls
    plugins.load_plugins()
    assert algorithms.algo_name_to_cls["Unmask"].__module__ == "unmask.sglang"


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


def made(name, fdfo=True, **settings):
    return algorithms.get_algorithm(DllmConfig(name, settings, BLOCK, MASK, 8, first_done_first_out_mode=fdfo))


def decoded(algorithm, seed, size, spread, mask_bias, literal_masks):
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
        batch.input_ids = batch.input_ids.clone()  # SGLang's scheduler makes another batch of each step
        for i, length in enumerate(lengths):  # a request that is done leaves; its row stays full
            if length:
                batch.input_ids.view(-1, BLOCK)[i] = 0
                if batch.dllm_prompt_mask is not None:
                    batch.dllm_prompt_mask[i] = True
    return seen


# The third number raises the mask token's logits. LowConfidence is followed also where that token is
# proposed; JointThreshold would edit committed tokens back into it, which ours never does.
CASES = [
    ("LowConfidence", dict(threshold=0.95), 0.0),
    ("LowConfidence", dict(threshold=0.4), 0.0),
    ("LowConfidence", dict(threshold=0.6), 4.0),
    ("JointThreshold", dict(), -60.0),
    ("JointThreshold", dict(threshold=0.7, edit_threshold=0.3, max_post_edit_steps=3), -60.0),
    ("JointThreshold", dict(threshold=0.6, edit_threshold=0.5, max_post_edit_steps=0), -60.0),
    ("JointThreshold", dict(threshold=0.5, edit_threshold=0.2, penalty_lambda=1.5), -60.0),
]


@pytest.mark.parametrize("fdfo", [False, True], ids=["sync", "fdfo"])
@pytest.mark.parametrize("literal_masks", [False, True], ids=["plain", "literal_masks"])
@pytest.mark.parametrize("name, knobs, mask_bias", CASES)
def test_token_for_token(name, knobs, mask_bias, literal_masks, fdfo):
    endless = {"max_steps": 10**6} if fdfo else {}  # as theirs, where the mask token is proposed for ever
    for seed in range(10):
        arguments = (seed, 1 + seed % 5, 0.5 + 0.25 * (seed % 6), mask_bias, literal_masks)
        theirs = decoded(made(name, fdfo, **knobs), *arguments)
        ours = decoded(made("Unmask", fdfo, policy=name, **knobs, **endless), *arguments)
        assert theirs == ours, f"seed {seed}"


def test_a_block_that_proposes_the_mask_token_ends():
    """LowConfidence of SGLang repeats it, first done first out, as long as it is asked to."""
    arguments = (3, 2, 1.0, 60.0, False)
    theirs = decoded(made("LowConfidence"), *arguments)
    assert len(theirs) == 4 * BLOCK and not all(theirs[-1][1])
    ours = decoded(made("Unmask", policy="LowConfidence"), *arguments)
    assert len(ours) == BLOCK + 2 and all(ours[-1][1])
    assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs[: BLOCK + 2]]


@pytest.mark.parametrize(
    "name, text, suppress_mask",
    [
        ("LowConfidence", "threshold(0.95)", False),
        ("JointThreshold", "threshold(0.5) + edit_committed(0) + edited_blocks(16)", True),
    ],
)
def test_the_names_of_sglang_stand_for_texts(name, text, suppress_mask):
    for fdfo in (False, True):
        arguments = (5, 3, 1.25, -60.0, False)  # the mask token is never proposed
        written = made("Unmask", fdfo, policy=text, suppress_mask=suppress_mask)
        assert decoded(made(name, fdfo), *arguments) == decoded(written, *arguments)


@pytest.mark.parametrize("fdfo", [False, True], ids=["sync", "fdfo"])
def test_any_policy_leaves_no_mask(fdfo):
    for text in ("trace_credit + threshold(0.8)", "steps_per_block(4)", "by_entropy + entropy_bound(0.3)"):
        result = decoded(made("Unmask", fdfo, policy=text), 3, 4, 1.5, 4.0, False)
        tokens = result[-1][0] if fdfo else result[0]
        assert not any(MASK in row for row in tokens)


def test_max_steps_ends_a_block():
    tokens, _, forwards = decoded(made("Unmask", False, policy="tokens_per_step(1)", max_steps=3), 2, 1, 1.0, 0.0, False)
    assert forwards == 1 + 3
    assert sum(t == MASK for t in tokens[0]) == len(tokens[0]) - 3


@pytest.mark.parametrize(
    "settings, message",
    [
        ({}, "policy must be the text of a policy, got None; --dllm-algorithm-config names"),
        ({"policy": 3}, "policy must be the text of a policy, got 3"),
        ({"policy": "nonsense(1)"}, "column 1: there is no part 'nonsense'"),
        ({"policy": "threshold(0.9)", "treshold": 1}, "unknown setting treshold; there are policy, suppress_mask"),
        ({"policy": "threshold(0.9)", "threshold": 0.5}, "unknown setting threshold"),
        ({"policy": "threshold(0.9)", "suppress_mask": 1}, "suppress_mask must be true or false, got 1"),
        ({"policy": "threshold(0.9)", "eos_token": True}, "eos_token must be an integer, at least 0, got True"),
        ({"policy": "threshold(0.9)", "max_steps": 0}, "max_steps must be an integer, at least 1, got 0"),
        ({"policy": "lookahead(2) + threshold(0.9)"}, "SGLang cannot run lookahead: SGLang runs no branches"),
        ({"policy": "dual_cache + threshold(0.9)"}, "SGLang cannot run dual_cache: SGLang keeps K/V of finished blocks"),
        ({"policy": "threshold(0.9) + max_steps(3)"}, "cannot run max_steps: use the setting max_steps"),
        ({"policy": "joint_threshold_indel"}, "cannot run joint_threshold_indel: SGLang chooses the blocks"),
        ({"policy": "JointThresholdInDel"}, "blocks of a policy keep their length"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError) as error:
        made("Unmask", **settings)
    assert message in str(error.value)


EOS = 0


class Request:
    """What the algorithm reads of a request of SGLang, whose sampling parameters are SGLang's own."""

    def __init__(self, prompt, tokenizer=None, policy=None, **params):
        custom = {**params.pop("custom_params", {}), **({"policy": policy} if policy else {})}
        self.sampling_params = SamplingParams(**{"max_new_tokens": 40, "custom_params": custom, **params})
        self.rid, self.origin_input_ids, self.output_ids = f"r{id(self)}", list(prompt), []
        self.eos_token_ids, self.vocab_size, self.tokenizer = {EOS}, VOCAB, tokenizer
        self.customized_info = self.metrics_collector = self.custom_logit_processor = None
        self.return_logprob = False
        self.dllm_config = DllmConfig("Unmask", {"policy": "threshold(0.9)"}, BLOCK, MASK, 8, first_done_first_out_mode=True)

    @property
    def most(self):
        return self.sampling_params.max_new_tokens

    @property
    def answer(self):
        tokens = self.output_ids[: self.most]
        return tokens[: tokens.index(EOS)] if EOS in tokens else tokens


def served(requests, logits, config=None, rounds=400):
    """Decodes requests as SGLang's scheduler does, first done first out; logits(ids) of blocks [n, BLOCK]."""
    algorithm = made("Unmask", **(config or {"policy": "threshold(0.9)"}))
    for request in requests:
        request.dllm_config = DllmConfig("Unmask", config or {"policy": "threshold(0.9)"}, BLOCK, MASK, 8,
                                         first_done_first_out_mode=True)
        assert algorithm.validate_request(request) is None
    running = [[request, None, None] for request in requests]  # with its block, and the state of that
    for _ in range(rounds):
        running = [r for r in running if len(r[0].output_ids) < r[0].most and EOS not in r[0].output_ids]
        if not running:
            return algorithm
        offsets = []
        for r in running:
            sequence = r[0].origin_input_ids + r[0].output_ids
            offset = len(sequence) // BLOCK * BLOCK
            offsets.append(offset)
            r[1] = r[1] or (sequence[offset:] + [MASK] * BLOCK)[:BLOCK]
        batch = types.SimpleNamespace(
            batch_size=len(running), input_ids=torch.tensor([r[1] for r in running]).flatten(), dllm_prompt_mask=None,
            rids=[r[0].rid for r in running], positions=torch.cat([torch.arange(o, o + BLOCK) for o in offsets]))
        forward = types.SimpleNamespace(forward=lambda b, pp_proxy_tensors=None: types.SimpleNamespace(
            logits_output=types.SimpleNamespace(full_logits=logits(b.input_ids.view(-1, BLOCK)).reshape(-1, VOCAB)),
            can_run_graph=False))
        _, tokens, lengths, states, _ = algorithm.run(forward, batch, [r[2] for r in running])
        for r, ids, done, state, offset in zip(running, tokens, lengths, states, offsets):
            r[1], r[2] = ids, state
            if done:
                r[0].output_ids += ids[len(r[0].origin_input_ids) + len(r[0].output_ids) - offset :]
                r[1] = None
    raise AssertionError("it does not end")


def falling(ids):
    """The same everywhere: token 1, then 2, 3, ...; the EOS token is last."""
    row = -0.1 * torch.arange(VOCAB, dtype=torch.float32) + 10
    row[EOS] = -10
    return row.repeat(*ids.shape, 1)


def random_logits(ids):
    return Runner(4, 1.0, -60.0).near[0][ids.roll(1, 1)] + Runner(4, 1.0, -60.0).own


def policy_of(policy="threshold(0.9)", **params):
    request = Request([5] * 4, policy=policy, **params)
    error = algorithms.algo_name_to_cls["Unmask"].validate_request(request)
    assert error is None, error
    return request.unmask.policy


@pytest.mark.parametrize("params, parts", [
    ({}, ""),
    ({"temperature": 0}, ""),
    ({"temperature": 0.7}, " + sampling(0.7)"),
    ({"temperature": 0.7, "top_p": 0.9}, " + temperature(0.7) + sampling + top_p(0.9)"),
    ({"top_k": 5}, " + sampling + top_k(5)"),
    ({"min_p": 0.1, "temperature": 2}, " + temperature(2) + sampling + min_p(0.1)"),
    ({"logit_bias": {"7": -5.0}, "repetition_penalty": 1.5, "presence_penalty": 1.0, "frequency_penalty": -1.0}, ""),
])
def test_sampling_parameters_are_parts(params, parts):
    assert policy_of(**params) == "threshold(0.9)" + parts


def test_a_temperature_of_1_draws_where_the_configuration_says_so():
    request = Request([5] * 4, policy="tokens_per_step(2)")
    request.dllm_config.algorithm_config["sampling"] = True
    assert algorithms.algo_name_to_cls["Unmask"].validate_request(request) is None
    assert request.unmask.policy == "tokens_per_step(2) + sampling(1.0)"


@pytest.mark.parametrize("params, message", [
    ({"policy": "sampling(1) + threshold(0.9)", "temperature": 0.5},
     "temperature must not be given with a policy that has sampling, got 0.5"),
    ({"policy": "sampling(1) + threshold(0.9)", "temperature": 0}, "temperature must not be given with a policy that has sampling"),
    ({"policy": "min_new_tokens(3) + threshold(0.9)"}, "cannot run min_new_tokens: the request has a field for it"),
    ({"policy": "temperature(2) + threshold(0.9)", "temperature": 0.5}, "temperature must not be given with a policy that has temperature"),
    ({"logit_bias": {"64": 1.0}}, "logit_bias must have tokens in [0, 64) as keys, got '64'"),
    ({"logit_bias": {"7": float("inf")}}, "logit_bias[7] must be a finite number, got inf"),
    ({"ebnf": "root ::= a"}, "ebnf needs a tokenizer"),
    ({"ebnf": "root ::= a", "tokenizer": True}, "grammar: line 1, column 10: there is no rule 'a'"),
    ({"structural_tag": "{}"}, "structural_tag needs a tokenizer"),
    ({"structural_tag": "{}", "tokenizer": True}, "structural_tag: the structural tag: must be an object with `format`"),
    ({"beam_width": 3}, "beam_width must be 1: a policy keeps one answer, got 3"),
    ({"regex": "a"}, "regex needs a tokenizer: the server was started with --skip-tokenizer-init"),
    ({"regex": "a", "ignore_eos": True}, "regex needs an EOS token"),
    ({"min_new_tokens": 3, "stop_token_ids": {5, 6}}, "min_new_tokens must be 0 where more than two tokens end an answer"),
    ({"custom_params": {"return_step_maps": "yes"}}, "return_step_maps must be true or false, got 'yes'"),
    ({"custom_params": {"return_step_maps": True}, "top_k": 3, "policy": "repetition_penalty(1.5) + threshold(0.9)"},
     "the mass that top_k keeps is not known with repetition_penalty"),
])
def test_what_cannot_be_honoured_is_refused(params, message):
    if params.get("tokenizer"):
        params = {**params, "tokenizer": Letters()}
    error = algorithms.algo_name_to_cls["Unmask"].validate_request(Request([5] * 4, **params))
    assert error is not None and error.startswith("Unmask: ") and message in error


@pytest.mark.parametrize("field", ["return_logprob", "custom_logit_processor", "watermark"])
def test_fields_that_sglang_reads_itself_are_refused(field):
    request = Request([5] * 4)
    setattr(request.sampling_params if field == "watermark" else request, field, True)
    assert f"{field} is not supported" in algorithms.algo_name_to_cls["Unmask"].validate_request(request)


@pytest.mark.parametrize("params, tokens", [
    ({"temperature": 0}, {1}),
    ({"temperature": 3, "top_k": 3}, {1, 2, 3}),
    ({"top_p": 0.15}, {1, 2}),  # each token of these logits has .905 times the probability of the one before
    ({"min_p": 0.85}, {1, 2}),
    ({"logit_bias": {"7": 5.0}}, {7}),
])
def test_what_is_drawn_is_what_a_field_allows(params, tokens):
    request = Request([5] * 4, policy="tokens_per_step(2)", **params)
    served([request], falling)
    assert set(request.answer) == tokens and len(request.answer) == 40


def test_a_temperature_draws():
    hot, seeded, again = requests = [
        Request([5] * 4, policy="tokens_per_step(2)", temperature=3, sampling_seed=seed) for seed in (1, 2, 2)]
    served(requests, falling)
    assert len(set(hot.answer)) > 5 and seeded.answer == again.answer != hot.answer


def test_the_page_has_every_field_of_a_request_and_a_test_of_it(repository):
    page = (repository / "examples" / "bindings" / "python" / "docs" / "sglang.md").read_text()
    table = page[page.index("| parameter | is | test |") :].split("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    tested = {name: re.findall(r"`(test_\w+)`", row[3]) for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    own = {"stop_strs", "stop_regex_strs", "stop_str_max_len", "stop_regex_max_len", "is_normalized"}  # SGLang makes them
    fields = set(SamplingParams.__struct_fields__) - own
    assert fields - set(tested) == set()
    assert set(tested) - fields == {"return_logprob", "custom_logit_processor"}
    for name, tests in tested.items():
        assert tests and all(callable(globals().get(test)) for test in tests), (name, tests)


def test_penalties_reach_over_blocks():
    """Under these logits an answer without penalties repeats token 1."""
    one = "tokens_per_step(1)"
    plain, frequency, presence, repetition = requests = [
        Request([1] * 21, policy=one),
        Request([1] * 21, policy=one, frequency_penalty=2.0),
        Request([1] * 21, policy=one, presence_penalty=2.0, max_new_tokens=18),
        Request([1] * 21, policy=one, repetition_penalty=2.0, max_new_tokens=18),
    ]
    served(requests, falling)
    assert plain.answer == [1] * 40
    assert sorted(frequency.answer[:18]) == list(range(1, 19))  # another token each time; the prompt does not count
    assert sorted(presence.answer) == list(range(1, 19))
    assert sorted(repetition.answer) == list(range(2, 20))  # and here it does


def test_penalties_count_every_token():
    """A prompt of 40 different tokens, of which the library's own parts would count 32."""
    request = Request(list(range(1, 41)), policy="tokens_per_step", repetition_penalty=3.0, max_new_tokens=15)
    served([request], falling)
    assert sorted(request.answer) == list(range(41, 56))
    far = Request([1] * 5, policy="tokens_per_step", presence_penalty=20.0, max_new_tokens=55)
    served([far], falling)
    assert sorted(far.answer) == list(range(1, 56))


def test_a_token_that_may_be_replaced_is_no_reason_to_replace_it():
    """A policy reads the rows of its own tokens again: those do not count themselves."""
    def sure(ids):
        rows = torch.zeros(*ids.shape, VOCAB)
        rows[..., EOS] = -20
        places = torch.arange(ids.shape[-1])
        rows[:, places, 1 + places] = 1.5
        return rows

    policy = "threshold(0.05) + edit_committed(0.01) + edited_blocks(3)"
    plain, penalised = Request([60] * BLOCK, policy=policy, max_new_tokens=32), Request([60] * BLOCK, policy=policy, max_new_tokens=32,
                                                                                        frequency_penalty=2.0)
    served([plain, penalised], sure)
    assert plain.answer == [*range(1, 17)] * 2 and penalised.answer[:16] == plain.answer[:16]


@pytest.mark.parametrize("params", [
    {"temperature": 2.0, "top_p": 0.6}, {"temperature": 0.6, "top_p": 0.9, "top_k": 9, "min_p": 0.05},
    {"temperature": 1.5, "min_p": 0.4}, {"temperature": 1.4, "presence_penalty": 1.5, "frequency_penalty": 0.8, "top_p": 0.9},
    {"temperature": 0.7, "repetition_penalty": 1.6, "presence_penalty": 0.9, "logit_bias": {"3": 2.0, "50": -1.0}},
    {"temperature": 3.0, "logit_bias": {str(t): 0.1 * t for t in range(20)}, "top_k": 30}], ids=str)
def test_draws_are_those_of_the_sampler_of_sglang(params):
    from sglang.srt.layers.sampler import top_k_top_p_min_p_sampling_from_probs_torch

    row = torch.randn(VOCAB, generator=torch.Generator().manual_seed(3)) * 2
    row[[MASK, EOS]] = -200
    prompt = [7, 7, 8, 9, *range(10, 50)]
    p = torch.from_numpy(sampled(row, **params, prompt=prompt))
    plain = torch.from_numpy(sampled(row, **{k: v for k, v in params.items() if k not in ("top_k", "top_p", "min_p")}, prompt=prompt))
    torch.manual_seed(0)
    count = 20000
    theirs = top_k_top_p_min_p_sampling_from_probs_torch(
        plain.float().repeat(count, 1), torch.full((count,), params.get("top_k", VOCAB)), torch.full((count,), params.get("top_p", 1.0)),
        torch.full((count,), params.get("min_p", 0.0)), need_min_p_sampling=True, sampling_seed=None,
        positions=None)
    assert probability_of_a_fit(torch.bincount(theirs.flatten().long(), minlength=VOCAB), p) > 1e-3  # the formula is SGLang's
    requests = [Request(prompt, policy="left_to_right + tokens_per_step", max_new_tokens=1, sampling_seed=i, **params) for i in range(1500)]
    served(requests, lambda ids: row.repeat(*ids.shape, 1))
    counts = torch.bincount(torch.tensor([r.answer[0] for r in requests]), minlength=VOCAB)
    assert (p > 0).sum() > 2 and probability_of_a_fit(counts, p) > 1e-3
    assert probability_of_a_fit(counts, row.double().softmax(-1)) < 1e-3


def test_min_new_tokens_counts_over_the_answer():
    def ending(ids):
        logits = falling(ids).clone()
        logits[..., EOS] = 30
        return logits

    requests = [Request([5] * 13, policy="tokens_per_step(4)", min_new_tokens=n) for n in (0, 2, 3, 4, 21)]
    served(requests, ending)
    assert [len(r.answer) for r in requests] == [0, 2, 3, 4, 21]


class Letters:
    """A tokenizer of single characters, in the manner of tiktoken."""

    n_vocab, special_tokens_set = VOCAB, set()

    def decode_single_token_bytes(self, token):
        if not 1 <= token <= 26:
            raise KeyError(token)
        return bytes([96 + token])


@pytest.mark.parametrize("policy", ["tokens_per_step(3)", "threshold(0.3)", "at_random + tokens_per_step(2)"])
def test_answers_obey_a_language_over_blocks(policy):
    given = [Request([30] * n, tokenizer=Letters(), policy=policy, regex="(ab|cde){8,}f") for n in (5, 16, 27)]
    free = Request([30] * 5, tokenizer=Letters(), policy=policy)
    served([*given, free], random_logits)
    for request in given:
        text = "".join(chr(96 + t) for t in request.answer)
        assert re.fullmatch("(ab|cde){8,}f", text) and len(text) > BLOCK and request.sampling_params.regex is None
    assert not re.fullmatch("(ab|cde){8,}f", "".join(chr(96 + t) for t in free.answer))
    short = Request([30] * 5, tokenizer=Letters(), policy=policy, regex="(ab|cde){8,}f", max_new_tokens=16)
    assert "max_new_tokens must be at least 17, the fewest tokens of regex, got 16" in type(served([], None)).validate_request(short)


def test_answers_obey_a_grammar():
    given = [Request([30] * n, tokenizer=Letters(), ebnf='root ::= ("ab" | "c" root "d"){8,} "f"', policy="threshold(0.3)",
                     max_new_tokens=90) for n in (3, 8)]
    served(given, random_logits)
    for request in given:
        text = "".join(chr(96 + t) for t in request.answer)
        while (shorter := re.sub("c((ab|@){8,}f)d", "@", text)) != text:
            text = shorter
        assert re.fullmatch("(ab|@){8,}f", text) and request.sampling_params.ebnf is None


class Digits(Letters):
    """The characters of a JSON integer."""

    def decode_single_token_bytes(self, token):
        if not 1 <= token <= 11:
            raise KeyError(token)
        return b"-0123456789"[token - 1 : token]


def test_an_answer_obeys_a_json_schema():
    given = [Request([30] * n, tokenizer=Digits(), json_schema=json.dumps({"type": "integer"}), policy="threshold(0.3)")
             for n in (5, 16)]
    served(given, random_logits)
    for request in given:
        text = "".join("-0123456789"[t - 1] for t in request.answer)
        assert text and str(json.loads(text)) == text and request.sampling_params.json_schema is None


class Calls(Letters):
    """The characters of calls of the tools below."""

    letters = b'<>/_{}[]":, \n|acdeghilmnoprstuyTAG0123456789-'

    def decode_single_token_bytes(self, token):
        if not 1 <= token <= len(self.letters):
            raise KeyError(token)
        return self.letters[token - 1 : token]

    def text_of(self, tokens):
        return bytes(self.letters[t - 1] for t in tokens).decode()


TOOLS = [
    {"type": "function", "function": {"name": "get", "strict": True, "parameters": {
        "type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"],
        "additionalProperties": False}}},
    {"type": "function", "function": {"name": "plus", "strict": True, "parameters": {
        "type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}}},
]


@pytest.mark.parametrize("tool_choice", ["auto", "required", "plus"])
@pytest.mark.parametrize("parser", ["qwen25", "hermes"])
def test_calls_of_tools_obey_their_schemas(parser, tool_choice):
    """From the chat request of SGLang, by its parsers, to a call that its parser reads."""
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, Tool, ToolChoice
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    tools = [Tool(**tool) for tool in TOOLS]
    named = tool_choice == "plus"
    choice = ToolChoice(type="function", function={"name": "plus"}) if named else tool_choice
    calls = FunctionCallParser(tools[1:] if named else tools, parser)
    chat = ChatCompletionRequest(messages=[{"role": "user", "content": "a"}], model="m", tools=tools, tool_choice=choice,
                                 max_completion_tokens=140)
    params = chat.to_sampling_params([], {}, tool_call_constraint=calls.get_structure_constraint(choice))
    assert params.get("structural_tag"), params
    words, found = Calls(), []
    for seed in range(5):
        request = Request([20] * 5, tokenizer=words, max_new_tokens=140, structural_tag=params["structural_tag"],
                          policy="tokens_per_step(3) + sampling", sampling_seed=seed)

        def logits(ids):
            rows = Runner(seed, 1.0, -60.0).own.repeat(len(ids), 1, 1)
            rows[..., 1] += 3.0  # <
            rows[..., EOS] += 2.0
            return rows

        served([request], logits)
        assert request.sampling_params.structural_tag is None
        text = words.text_of(request.answer)
        _, read = calls.parse_non_stream(text) if calls.has_tool_call(text) else (text, [])
        found += read
        assert read or tool_choice == "auto", text
        for call in read:
            arguments = json.loads(call.parameters)
            assert (call.name == "plus" and arguments in ({"n": 1}, {"n": 2})) or (
                call.name == "get" and not named and 0 <= arguments["age"] <= 99 and len(arguments) == 1), text
    assert found or tool_choice == "auto"


def test_a_structural_tag_of_a_response_format():
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest

    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"}, {"type": "regex", "pattern": "[0-9]{2}"}]}}
    chat = ChatCompletionRequest(messages=[{"role": "user", "content": "a"}], model="m", response_format=tag)
    asked = chat.to_sampling_params([], {})["structural_tag"]
    request = Request([20] * 5, tokenizer=Calls(), structural_tag=asked, policy="threshold(0.3)")
    served([request], random_logits)
    assert re.fullmatch(r"(?s)<t>((?!</t>).)*</t>[0-9]{2}", Calls().text_of(request.answer))
    refused = json.dumps({"type": "structural_tag", "format": {"type": "any_tokens"}})
    error = type(served([], None)).validate_request(Request([20] * 5, tokenizer=Calls(), structural_tag=refused))
    assert error.startswith("Unmask: structural_tag: /format/type: is not a known format")


def test_requests_of_a_batch_are_as_alone():
    """One session, any policy in any slot, requests that join and leave."""
    policies = ["threshold(0.4)", "tokens_per_step(3)", "trace_credit + threshold(0.3)", "by_entropy + entropy_bound(0.5)"]

    def asked():
        return [Request([3 + i] * (3 + 5 * i), policy=policies[i % 4], max_new_tokens=10 + 9 * i, sampling_seed=i,
                        temperature=0.5 + i / 4) for i in range(6)]

    together = asked()
    algorithm = served(together, random_logits)
    alone = asked()
    for request in alone:
        served([request], random_logits)
    assert [r.output_ids for r in together] == [r.output_ids for r in alone]
    (sessions,) = algorithm._sessions.values()
    assert len(sessions._free) == 8 and len({id(session) for session, _ in sessions._free}) == 1  # all given back


def test_an_aborted_request_frees_its_slot():
    algorithm = made("Unmask", policy="tokens_per_step(1)")
    batch = new_batch(1, 3, False)
    batch.input_ids[:] = MASK
    *_, states, _ = algorithm.run(Runner(1, 1.0, 0.0), batch, None)
    (sessions,) = algorithm._sessions.values()
    assert len(sessions._free) == 5
    states.pop()
    assert len(sessions._free) == 6
    del states
    assert len(sessions._free) == 8


def test_more_blocks_than_max_running_requests_say():
    batch = new_batch(1, 20, False)
    ours = made("Unmask", False, policy="LowConfidence")
    theirs = made("LowConfidence", False)
    expected = theirs.run(Runner(1, 1.0, 0.0), new_batch(1, 20, False))[1]
    assert [t.tolist() for t in ours.run(Runner(1, 1.0, 0.0), batch)[1]] == [t.tolist() for t in expected]


def test_step_maps():
    asked = {"return_step_maps": True}
    requests = [Request([5] * 13, policy="tokens_per_step(4)", custom_params=asked, max_new_tokens=35),
                Request([5] * 13, policy="threshold(0.3)", custom_params=asked), Request([5] * 13, policy="threshold(0.3)")]
    served(requests, random_logits)
    steps = requests[0].customized_info["step_maps"]
    assert [steps.count(n) for n in range(1, max(steps) + 1)] == [3, 4, 4, 4, 4, 4, 4, 4, 4]
    for request in requests[:2]:
        info = request.customized_info
        assert len(info["step_maps"]) == len(info["commit_logprobs"]) == len(request.output_ids)
        assert set(info["step_maps"]) == set(range(1, max(info["step_maps"]) + 1))
        assert all(p <= 0 for p in info["commit_logprobs"]) and any(p < 0 for p in info["commit_logprobs"])
    assert requests[2].customized_info is None


def test_rollouts():
    """The lists of a rollout are those that the rows of its blocks have, under its request's parameters."""
    from unmask import rollout

    asked = {"return_step_maps": True}
    drawn = Request([5] * 13, policy="tokens_per_step(4)", custom_params=asked, max_new_tokens=35, top_k=3, sampling_seed=9)
    plain = Request([5] * 13, policy="tokens_per_step(4)", custom_params=asked, max_new_tokens=35)
    served([drawn, plain], random_logits)
    for request in (drawn, plain):
        found = rollout.from_sglang({"output_ids": list(request.output_ids), "meta_info": request.customized_info})
        assert found.drawn == [request is drawn] * len(found.tokens)
        assert all(m == 0 for m in found.log_kept_masses) == (request is plain)
        assert all(m <= 0 for m in found.log_kept_masses)
        assert all(p <= m for p, m in zip(found.log_probabilities, found.log_kept_masses))
        blocks = {(seed, found.steps[i] - step) for i, (seed, (step, _, _)) in enumerate(zip(found.seeds, found.counters))}
        assert len(blocks) == len(set(found.seeds)) > 1  # steps count on from block to block
        assert rollout.Rollout.from_json(found.to_json()) == found


class StateRunner(Runner):
    """The same model on a branch of SGLang whose ranks exchange statistics: no full_logits."""

    def forward(self, batch, pp_proxy_tensors=None):
        made = super().forward(batch)
        logits = made.logits_output.full_logits
        best, tokens = logits.max(-1)
        made.logits_output.full_logits = None
        made.logits_output.dllm_vocab_state = types.SimpleNamespace(
            max_values=best, argmax_ids=tokens, logsumexp=logits.logsumexp(-1), max_probs=logits.softmax(-1).amax(-1))
        self.output = made.logits_output
        return made


def of_states(policy, seed, literal_masks=False, **settings):
    algorithm, runner = made("Unmask", policy=policy, **settings), StateRunner(seed, 1.0, 3.0)
    step = algorithm.step
    algorithm.step = lambda batch, _, states: step(batch, runner.output, states)  # as that branch calls it
    return algorithm, runner, new_batch(seed, 6, literal_masks)


@pytest.mark.parametrize("literal_masks", [False, True], ids=["plain", "literal_masks"])
@pytest.mark.parametrize("policy", ["LowConfidence", "threshold(0.3)", "tokens_per_step(3)", "factor(1)",
                                    "left_to_right + tokens_per_step(2)", "any_of(threshold(0.6), tokens_per_step(2))",
                                    "steps_per_block(3)", "at_random + tokens_per_step(2)"])
def test_statistics_in_place_of_logits(policy, literal_masks):
    settings = {} if policy == "LowConfidence" else {"suppress_mask": False}
    for seed in range(4):
        algorithm, runner, batch = of_states(policy, seed, literal_masks, **settings)
        dense = new_batch(seed, 6, literal_masks)
        expected, theirs, states, their_states = made("Unmask", policy=policy, **settings), Runner(seed, 1.0, 3.0), None, None
        for _ in range(4 * BLOCK):
            _, tokens, lengths, states, _ = algorithm.run(runner, batch, states)
            _, others, their_lengths, their_states, _ = expected.run(theirs, dense, their_states)
            assert [list(t) for t in tokens] == [list(t) for t in others] and list(lengths) == list(their_lengths)
            if all(lengths):
                break
            for b in (batch, dense):
                b.input_ids = b.input_ids.clone()
                for i, length in enumerate(lengths):
                    if length:
                        b.input_ids.view(-1, BLOCK)[i] = 0
                        if b.dllm_prompt_mask is not None:
                            b.dllm_prompt_mask[i] = True
        else:
            raise AssertionError("it does not end")


@pytest.mark.parametrize("policy, settings, message", [
    ("by_entropy + tokens_per_step(2)", {"suppress_mask": False}, "by_entropy reads more than the confidence"),
    ("threshold(0.5) + sampling", {"suppress_mask": False}, "sampling reads more than the confidence"),
    ("threshold(0.5)", {}, "suppress_mask must be false: the state has no second token"),
])
def test_statistics_that_are_not_enough(policy, settings, message):
    algorithm, runner, batch = of_states(policy, 0, **settings)
    with pytest.raises(ValueError, match=message):
        algorithm.run(runner, batch, None)


def test_no_logits_and_no_statistics():
    algorithm, _, batch = of_states("LowConfidence", 0)
    with pytest.raises(ValueError, match="full_logits must be given, got None"):
        type(algorithm).step(algorithm, batch, None, algorithm.init_step_state(batch))


ENGINE = """
import json, sys
import sglang
import torch
from prometheus_client import CollectorRegistry, multiprocess

if __name__ == "__main__":
    model, algorithm, config, fdfo, calls = json.loads(sys.argv[1])
    engine = sglang.Engine(
        model_path=model, device="cpu", dtype="float32", attention_backend="torch_native", skip_tokenizer_init=True,
        disable_cuda_graph=True, mem_fraction_static=0.05, max_total_tokens=2048, max_running_requests=4,
        log_level="error", enable_metrics=True, dllm_algorithm=algorithm, dllm_algorithm_config=config, dllm_fdfo=fdfo)
    answers = []
    for prompts, policies in calls:
        sampling = [{"max_new_tokens": 12, "ignore_eos": True, **p} if isinstance(p, dict) else
                    {"max_new_tokens": 12, "ignore_eos": True,
                     "custom_params": {"return_step_maps": True, **({"policy": p} if p else {})}} for p in policies]
        try:
            answers.append([(a["output_ids"], a["meta_info"].get("step_maps"))
                            for a in engine.generate(input_ids=prompts, sampling_params=sampling)])
        except ValueError as error:
            answers.append(str(error))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    counted = {s.name: s.value for f in registry.collect() if f.name.startswith("unmask") for s in f.samples}
    print("RESULT" + json.dumps([answers, counted]), flush=True)
    engine.shutdown()
"""

# SGLang without its kernels takes this one function from vLLM.
ROTARY = """
def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox):
    cos, sin = (x[:, None] for x in cos_sin_cache[positions.flatten()].float().chunk(2, dim=-1))
    for x in (query, key):
        halves = x.view(len(positions), -1, head_size)
        a, b = (h.float().clone() for h in halves.chunk(2, dim=-1))
        halves[..., : head_size // 2] = a * cos - b * sin
        halves[..., head_size // 2 :] = b * cos + a * sin
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The engine of SGLang with a small random SDAR: its scheduler, memory, processes and layers."""
    from transformers import Qwen3Config, Qwen3ForCausalLM  # SDAR has Qwen3's weights

    folder = tmp_path_factory.mktemp("engine")
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").touch()
    (folder / "vllm" / "_custom_ops.py").write_text(ROTARY)
    (folder / "run.py").write_text(ENGINE)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=151936, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=256, eos_token_id=151643))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder / "model")
    described = json.loads((folder / "model" / "config.json").read_text())
    (folder / "model" / "config.json").write_text(json.dumps(described | {"architectures": ["SDARForCausalLM"]}))

    def run(algorithm, calls, fdfo=True, config=None):
        path = None
        if config is not None:
            path = str(folder / "config.yaml")
            (folder / "config.yaml").write_text(config)
        done = subprocess.run(
            [sys.executable, folder / "run.py", json.dumps([str(folder / "model"), algorithm, path, fdfo, calls])],
            env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
            cwd=folder, capture_output=True, text=True, timeout=300)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
        assert lines, done.stderr[-3000:]
        return json.loads(lines[-1][len("RESULT"):])

    return run


PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 6], [5] * 9]


@pytest.mark.parametrize("fdfo", [False, True], ids=["sync", "fdfo"])
def test_the_engine_decodes_alike(engine, fdfo):
    plain = [[PROMPTS, [None] * 3]]
    (low,), _ = engine("LowConfidence", plain, fdfo)
    (joint,), _ = engine("JointThreshold", plain, fdfo)
    (ours, mixed, drawn, nonsense, growing, file, number, ebnf, regex), counted = engine(
        "Unmask",
        plain + [
            [PROMPTS, ["JointThreshold", None, "threshold(0)"]],
            [PROMPTS[:1] * 4, [{"temperature": 5.0, "sampling_seed": 1}, {"temperature": 5.0, "sampling_seed": 2},
                               {"temperature": 5.0, "sampling_seed": 1}, {"temperature": 0}]],
            [PROMPTS[:1], ["nonsense(1)"]],
            [PROMPTS[:1], ["JointThresholdInDel"]],
            [PROMPTS[:1], ["calibrated_threshold('/etc/hostname')"]],
            [PROMPTS[:1], [["threshold(0.9)"]]],
            [PROMPTS[:1], [{"ebnf": "root ::= \"a\""}]],
            [PROMPTS[:1], [{"regex": "a", "ignore_eos": False}]],
        ],
        fdfo,
        "policy: LowConfidence\n",
    )
    tokens = lambda answers: [answer[0] for answer in answers]  # noqa: E731
    assert tokens(ours) == tokens(low)
    assert tokens(mixed)[:2] == [tokens(joint)[0], tokens(low)[1]] and tokens(joint)[0] != tokens(low)[0]
    assert nonsense.startswith("Unmask: policy 'nonsense(1)', column 1")
    assert growing.startswith("Unmask: policy JointThresholdInDel inserts and deletes")
    assert file.startswith("Unmask: policy") and "names a file, which it may not" in file
    assert number.startswith("Unmask: policy must be the text of a policy, got ['threshold(0.9)']")

    assert ebnf.startswith("Unmask: ebnf needs ")
    assert regex.startswith("Unmask: regex needs ")
    assert drawn[0] == drawn[2] != drawn[1] and drawn[3][0] == tokens(ours)[0] and drawn[3][1] is None

    # Which of a request's decisions wrote each token: threshold(0) decides a block in one. Blocks have 4
    # positions; the prompt of 9 tokens leaves 3 in its last one.
    assert mixed[2][1] == [1] * 3 + [2] * 4 + [3] * 4 + [4]
    assert all(len(steps) == 12 and 1 <= steps[0] <= 4 for _, steps in ours)
    assert counted["unmask:tokens_total"] >= 6 * 12
    assert counted["unmask:forwards_total"] < 6 * 4 * (4 + 1 + 16)


def test_a_configuration_is_a_mapping():
    with pytest.raises(ValueError, match="the configuration must be a mapping, got 'threshold'"):
        from unmask.sglang import Settings

        Settings("threshold")


def test_the_engine_refuses_a_bad_configuration(engine):
    with pytest.raises(AssertionError, match="there is no part 'nonsense'"):
        engine("Unmask", [], config="policy: nonsense")
    with pytest.raises(AssertionError, match="Unmask needs --dllm-algorithm-config"):
        engine("Unmask", [])
