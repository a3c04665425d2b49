# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""unmask.transformers.generate beside loops of a page, on BERTs of random weights and on the tiny LLaDA."""
import json
from types import SimpleNamespace

import pytest
import torch
import unmask
from conftest import REPOSITORY

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
from unmask.transformers import generate  # noqa: E402

VOCAB, MASK, PAD = 60, 59, 0
LLADA = dict(mask_token_id=0, eos_token_id=1, vocab_size=98)


@pytest.fixture(scope="module", params=["Bert", "ModernBert"])
def bert(request):
    torch.manual_seed(1)
    sizes = dict(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    if request.param == "ModernBert":
        sizes.update(pad_token_id=0, cls_token_id=1, bos_token_id=1, sep_token_id=2, eos_token_id=2)
    config = getattr(transformers, request.param + "Config")(**sizes)
    return getattr(transformers, request.param + "ForMaskedLM")(config).eval()


@pytest.fixture(scope="module")
def llada(load_host):
    host = load_host("dlmserve/tiny_llada.py")
    model = host.TinyLlada(REPOSITORY / "examples" / "tiny_llada" / "tiny-f16.gguf")
    return model, host.CharTokenizer()


def references(count):
    with open(REPOSITORY / "tests" / "data" / "tiny_llada" / "reference_decodes.jsonl", encoding="utf-8") as file:
        every = [json.loads(line) for line in file]
    return every[:: len(every) // count][:count]


def texts(seed, lengths, masked=0.4):
    """Rows of random tokens with masks among them, without padding."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randint(1, MASK, (n,), generator=draw) for n in lengths]
    for row in rows:
        row[torch.rand(len(row), generator=draw) < masked] = MASK
        row[-2] = MASK
    return rows


def padded(rows, left):
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), PAD)
    there = torch.zeros(len(rows), width, dtype=torch.long)
    for i, row in enumerate(rows):
        at = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, at], there[i, at] = row, 1
    return ids, there


@torch.no_grad()
def naive(model, tokens, per_step, cfg_scale=0.0):
    """LLaDA's loop for one row: the per_step most confident masks of the row in each pass."""
    tokens, prompt, forwards = tokens.clone(), tokens != MASK, 0
    while (masked := tokens == MASK).any():
        logits = model(tokens[None]).logits[0].double()
        if cfg_scale:
            without = torch.where(prompt, MASK, tokens)
            unconditional = model(without[None]).logits[0].double()
            logits = unconditional + (cfg_scale + 1) * (logits - unconditional)
        logits[:, MASK] = -torch.inf
        confidence, best = logits.softmax(-1).max(-1)
        order = confidence.where(masked, -1).argsort(descending=True, stable=True)
        for p in order[: min(per_step, int(masked.sum()))]:
            tokens[p] = best[p]
        forwards += 1
    return tokens, forwards


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("per_step", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_fills_masks_as_the_naive_loop(bert, seed, per_step, left):
    rows = texts(seed, [9, 20, 14, 20])
    ids, there = padded(rows, left)
    out = generate(bert, ids, f"tokens_per_step({per_step})", attention_mask=there, mask_token_id=MASK)
    assert out.forwards == max(r.forwards for r in out.reports)
    for i, row in enumerate(rows):
        tokens, forwards = naive(bert, row, per_step)
        assert out.sequences[i][there[i] == 1].tolist() == tokens.tolist()
        assert out.sequences[i][there[i] == 0].tolist() == [PAD] * int((there[i] == 0).sum())
        assert (out.reports[i].forwards, out.reports[i].committed) == (forwards, int((row == MASK).sum()))
    total = sum(r.forwards for r in out.reports)
    assert out.tokens_per_forward == sum(int((r == MASK).sum()) for r in rows) / total


@pytest.mark.parametrize("cfg_scale", [-0.5, 0.7, 2.0])
def test_guidance_is_that_of_the_naive_loop(bert, cfg_scale):
    for row in texts(7, [12, 16]):
        out = generate(bert, row[None], "tokens_per_step(1)", mask_token_id=MASK, cfg_scale=cfg_scale)
        assert out.sequences[0].tolist() == naive(bert, row, 1, cfg_scale)[0].tolist()


@pytest.mark.parametrize("policy, rule", [("threshold(0.9)", "threshold_0.9"), ("threshold(0.5)", "threshold_0.5")])
def test_decodes_prompts_as_the_example_engine(llada, policy, rule):
    model, tokenizer = llada
    lines = references(12)
    batch = tokenizer([line["prompt"] for line in lines])
    assert batch["attention_mask"].min() == 0
    settings = dict(max_new_tokens=40, block_length=20, attention_mask=batch["attention_mask"], **LLADA)
    out = generate(model, batch["input_ids"], policy, **settings)
    assert torch.equal(out.sequences[:, :-40], batch["input_ids"])
    for line, row, report in zip(lines, out.sequences, out.reports):
        assert row[-40:].tolist() == line[rule]["tokens"]
        assert report.forwards == line[rule]["forwards"]


def test_one_token_a_pass_is_the_example_engine_too(llada):
    model, tokenizer = llada
    (line,) = references(1)
    ids = tokenizer([line["prompt"]])["input_ids"]
    out = generate(model, ids, "tokens_per_step(1)", max_new_tokens=40, block_length=20, **LLADA)
    assert out.sequences[0, -40:].tolist() == line["one_a_forward"]["tokens"] and out.forwards == 40


def test_shifted_logits(llada):
    model, tokenizer = llada
    ids = tokenizer([references(1)[0]["prompt"]])["input_ids"]

    def shifted(ids, **rest):  # row i predicts position i + 1, and the object is a tensor
        return model(ids, **rest).logits.roll(-1, 1)

    settings = dict(max_new_tokens=40, block_length=20, **LLADA)
    plain = generate(model, ids, "threshold(0.6)", **settings)
    out = generate(shifted, ids, "threshold(0.6)", shifted_logits=True, **settings)
    assert out.sequences.tolist() == plain.sequences.tolist() and out.forwards == plain.forwards
    assert generate(shifted, ids, "threshold(0.6)", **settings).sequences.tolist() != plain.sequences.tolist()


def test_draws_of_a_row_do_not_depend_on_the_others(bert):
    rows = texts(3, [12, 18, 15])
    ids, there = padded(rows, left=False)
    policy = "tokens_per_step(1) + sampling(2)"
    out = generate(bert, ids, policy, attention_mask=there, mask_token_id=MASK, seed=40)
    for i, row in enumerate(rows):
        alone = generate(bert, row[None], policy, mask_token_id=MASK, seed=40 + i).sequences[0]
        assert alone.tolist() == out.sequences[i, : len(row)].tolist()
    other = generate(bert, ids, policy, attention_mask=there, mask_token_id=MASK, seed=41).sequences
    assert not torch.equal(other, out.sequences)


def test_lookahead_runs_branches_in_the_same_pass(bert):
    policy, widths, differ = "tokens_per_step(1) + lookahead(3)", [], 0

    def counted(ids, **rest):
        widths.append(len(ids))
        return bert(ids, **rest)

    for row in texts(11, [20, 24, 30, 30], masked=0.7):
        out = generate(counted, row[None], policy, mask_token_id=MASK, vocab_size=VOCAB)
        first = int((row == MASK).int().argmax())
        tokens = row.clone()
        session = unmask.Session(
            policy, vocab=VOCAB, mask_token=MASK, length=len(row), window=len(row), branches=3
        )
        session.start(
            0, tokens, prompt_length=first, block_length=len(row) - first, editable=row == MASK
        )
        while (request := session.next()) is not None:
            logits = []
            for s in request.segments:
                branch = tokens.clone()
                for position, token in s.placed:
                    branch[position] = token
                logits.append(bert(branch[None]).logits[0, s.rows].detach().contiguous())
            session.supply(logits)
        assert out.sequences[0].tolist() == tokens.tolist() and out.forwards == session.report().forwards
        differ += out.sequences[0].tolist() != naive(bert, row, 1)[0].tolist()
    assert max(widths) == 4 and differ > 0


def test_streams_what_is_settled(llada):
    model, tokenizer = llada
    lines = references(3)
    seen = {}

    def callback(row, commits, report):
        tokens, prefixes = seen.setdefault(row, ({}, []))
        tokens.update((c.position, c.token) for c in commits)
        prefixes.append(report.committed_prefix)

    batch = tokenizer([line["prompt"] for line in lines])
    settings = dict(max_new_tokens=40, block_length=20, **LLADA)
    out = generate(
        model, batch["input_ids"], "threshold(0.9) + stop_at_eos", attention_mask=batch["attention_mask"],
        callback=callback, **settings,
    )  # fmt: skip
    shorter = 0
    for row, (tokens, prefixes) in seen.items():
        start = int(batch["attention_mask"][row].sum())
        answer = out.sequences[row, -40:].tolist()
        assert {p - start: t for p, t in tokens.items()} == dict(enumerate(answer[: len(tokens)]))
        assert set(answer[len(tokens) :]) <= {1}  # behind the EOS token
        shorter += len(tokens) < 40
        assert prefixes == sorted(prefixes)
    assert len(seen) == 3 and shorter > 0

    class Streamer:
        def __init__(self):
            self.got, self.ended = [], 0

        def put(self, tokens):
            assert not self.ended
            self.got.append(tokens.tolist())

        def end(self):
            self.ended += 1

    streamer = Streamer()
    ids = batch["input_ids"][:1]
    out = generate(model, ids, "threshold(0.9)", streamer=streamer, **settings)
    assert sum(streamer.got, []) == out.sequences[0].tolist() and streamer.ended == 1 and len(streamer.got) > 2
    with pytest.raises(ValueError, match="cannot take a token back"):
        generate(model, ids, "threshold(0.9) + edit_committed + edited_blocks", streamer=streamer, **settings)


def test_writes_a_trace(llada, tmp_path):
    model, tokenizer = llada
    ids = tokenizer([references(1)[0]["prompt"]])["input_ids"]
    settings = dict(max_new_tokens=40, block_length=20, **LLADA)
    file = str(tmp_path / "decode.jsonl")
    out = generate(model, ids, "threshold(0.9)", trace=file, token_text=lambda t: chr(29 + t), **settings)
    again = generate(model, ids, f"replay('{file}')", **settings)
    assert again.sequences.tolist() == out.sequences.tolist() and again.forwards == out.forwards


POLICIES = ["tokens_per_step(1)", "by_margin + tokens_per_step(3)", "threshold(0.2) + trace_credit"]


def test_rows_have_policies_of_their_own(bert, tmp_path):
    rows = texts(3, [20, 14, 17])
    ids, there = padded(rows, left=True)
    name = str(tmp_path / "decode.jsonl")
    out = generate(bert, ids, POLICIES, attention_mask=there, mask_token_id=MASK, trace=name)
    for i, row in enumerate(rows):
        alone = generate(bert, row[None], POLICIES[i], mask_token_id=MASK)
        assert out.sequences[i][there[i] == 1].tolist() == alone.sequences[0].tolist()
        assert out.reports[i].forwards == alone.reports[0].forwards
        again = generate(bert, row[None], f"replay('{name}', {i})", mask_token_id=MASK)  # the trace has each policy
        assert again.sequences.tolist() == alone.sequences.tolist()
    assert len({r.forwards for r in out.reports}) == 3
    with open(name, encoding="utf-8") as file:
        head = json.loads(file.readline())
    assert [s.get("policy", head["policy"]) for s in head["sequences"]] == POLICIES
    with pytest.raises(ValueError, match="for each of 3 rows, got 2"):
        generate(bert, ids, POLICIES[:2], attention_mask=there, mask_token_id=MASK)
    with pytest.raises(ValueError, match="did you mean threshold"):
        generate(bert, ids, [*POLICIES[:2], "treshold(0.2)"], attention_mask=there, mask_token_id=MASK)


def test_a_row_longer_than_the_model_is_named():
    torch.manual_seed(1)
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=32)).eval()
    with pytest.raises(ValueError, match="a row has 72 positions, new tokens included; the model has max_position_embeddings=32"):
        generate(model, torch.ones(1, 8, dtype=torch.long), max_new_tokens=64, mask_token_id=MASK)


def test_only_editable_positions_change(bert):
    (row,) = texts(5, [20])
    editable = torch.zeros(1, 20, dtype=torch.bool)
    editable[0, 4:9] = True
    out = generate(bert, row[None], "threshold(0.9)", mask_token_id=MASK, editable=editable).sequences[0]
    assert torch.equal(out[~editable[0]], row[~editable[0]]) and MASK not in out[editable[0]]


def test_a_text_that_is_there_is_edited(bert):
    (row,) = texts(5, [20])
    row[row == MASK] = (MASK + 1) % VOCAB
    editable = torch.zeros(1, 20, dtype=torch.uint8)
    editable[0, 4:9] = 2
    out = generate(bert, row[None], "threshold + edit_committed + edited_blocks(1)", mask_token_id=MASK, editable=editable)
    with torch.no_grad():
        logits = bert(row[None]).logits[0]
    logits[:, MASK] = -torch.inf
    assert out.forwards == 1 and torch.equal(out.sequences[0], torch.where(editable[0] == 2, logits.argmax(-1), row))


def test_a_stop_fills_with_eos_or_leaves_masks(bert):
    (row,) = texts(5, [20])
    out = generate(bert, row[None], "tokens_per_step(1) + max_steps(2)", mask_token_id=MASK)
    rest = getattr(bert.config, "eos_token_id", None) or MASK
    before = int((row == rest).sum()) if rest != MASK else 0
    assert out.forwards == 2 and int((out.sequences == rest).sum()) >= before + int((row == MASK).sum()) - 2


def test_a_mask_in_a_prompt_is_text(bert):
    (row,) = texts(5, [20])
    out = generate(bert, row[None], "threshold(0.9)", mask_token_id=MASK, max_new_tokens=6)
    assert torch.equal(out.sequences[0, :20], row) and MASK not in out.sequences[0, 20:]


@pytest.mark.parametrize(
    "change, says",
    [
        (dict(policy="threshold(0.9) + dual_cache"), "keeps no K/V"),
        (dict(policy="es_dllm"), "no layer's hidden states"),
        (dict(policy="by_entropy + entropy_bound(0.1) + canvas"), "unmask.diffusers"),
        (dict(policy="threshold(2)"), "value of threshold"),
        (dict(mask_token_id=None), "mask_token_id must be given"),
        (dict(max_new_tokens=0), "max_new_tokens must be an integer, at least 1, got 0"),
        (dict(input_ids=torch.zeros(3, dtype=torch.long)), "input_ids must have two dimensions, got \\[3\\]: input_ids\\[None\\]"),
        (dict(input_ids=torch.ones(1, 3, dtype=torch.long)), "nothing to decode"),
        (dict(attention_mask=torch.ones(1, 3)), "attention_mask must be of the shape"),
        (dict(editable=torch.ones(1, 3)), "editable must be of the shape"),
        (dict(streamer=SimpleNamespace(), input_ids=torch.full((2, 4), MASK)), "batch of 1, got 2"),
    ],
)
def test_bad_arguments_are_named(bert, change, says):
    arguments = {**dict(input_ids=texts(1, [8])[0][None], policy="threshold(0.9)", mask_token_id=MASK), **change}
    with pytest.raises(ValueError, match=says):
        generate(bert, **arguments)


@pytest.fixture(scope="module")
def causal():
    """A model with transformers' own generate(); of random weights, so that what it attends to does not matter."""
    torch.manual_seed(2)
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
        intermediate_size=48, max_position_embeddings=64, initializer_range=0.5, eos_token_id=None, pad_token_id=PAD)).eval()


OPTIONS = dict(max_new_tokens=12, mask_token_id=MASK, block_length=6)


def test_custom_generate_takes_a_policy_for_each_row(causal):
    ids = torch.tensor([[3, 4, 5, 6, 7], [9, 8, 7, 6, 5]])
    policies = ["tokens_per_step(1)", "tokens_per_step(3)"]
    custom = dict(custom_generate=unmask.transformers.custom_generate, repetition_penalty=3.0, **OPTIONS)
    both = causal.generate(ids, policy=policies, **custom)
    for i in range(2):
        assert both[i].tolist() == causal.generate(ids[i : i + 1], policy=policies[i], **custom)[0].tolist()
    assert not torch.equal(both, causal.generate(ids, policy=policies[0], **custom))


@pytest.mark.parametrize("settings, parts", [
    ({}, ""),
    ({"repetition_penalty": 3.0}, " + repetition_penalty(3.0, window=17)"),
    ({"do_sample": True, "temperature": 1.5, "top_k": 0}, " + sampling(1.5)"),
    ({"do_sample": True, "temperature": 1.5, "top_k": 3}, " + sampling(1.5) + top_k(3)"),
    ({"do_sample": True, "top_p": 0.4, "top_k": 0}, " + sampling(1.0) + top_p(0.4)"),
    ({"do_sample": True, "min_p": 0.3, "temperature": 2.0, "top_k": 0}, " + sampling(2.0) + min_p(0.3)"),
])
def test_custom_generate(causal, settings, parts):
    ids = torch.tensor([[3, 4, 5, 6, 7], [9, 8, 7, 6, 5]])
    policy = "tokens_per_step(2)"
    expected = generate(lambda x, **k: causal(x, use_cache=False, **k), ids, policy + parts, vocab_size=VOCAB, seed=5, **OPTIONS)
    got = causal.generate(ids, custom_generate=unmask.transformers.custom_generate, policy=policy, seed=5, **settings, **OPTIONS)
    assert torch.equal(got, expected.sequences)
    if settings:
        plain = causal.generate(ids, custom_generate=unmask.transformers.custom_generate, policy=policy, seed=5, **OPTIONS)
        assert not torch.equal(got, plain)


def test_custom_generate_by_a_folder_and_its_forms(causal):
    ids = torch.tensor([[3, 4, 5, 6, 7]])
    folder = str(REPOSITORY / "examples" / "bindings" / "python")
    plain = causal.generate(ids, custom_generate=unmask.transformers.custom_generate, policy="threshold(0.2)", **OPTIONS)
    by_folder = causal.generate(ids, custom_generate=folder, trust_remote_code=True, policy="threshold(0.2)", **OPTIONS)
    assert torch.equal(plain, by_folder)
    whole = causal.generate(ids, custom_generate=unmask.transformers.custom_generate, policy="threshold(0.2)",
                            return_dict_in_generate=True, **OPTIONS)
    assert torch.equal(whole.sequences, plain)
    torch.manual_seed(3)
    drawn = [causal.generate(ids, custom_generate=unmask.transformers.custom_generate, policy="threshold(0.2) + sampling(5)", **OPTIONS)
             for _ in range(2)]
    assert not torch.equal(*drawn)


@pytest.mark.parametrize("settings, message", [
    ({"num_beams": 2}, "num_beams must be 1: a policy keeps one answer, got 2"),
    ({"no_repeat_ngram_size": 2}, "cannot honour NoRepeatNGramLogitsProcessor"),
    ({"max_time": 1.0}, "cannot honour MaxTimeCriteria"),
    ({"do_sample": True, "temperature": 0.5, "policy": "threshold(0.9) + sampling(1)"},
     "temperature must not be given with a policy that has sampling"),
])
def test_custom_generate_refuses_what_it_cannot_honour(causal, settings, message):
    with pytest.raises(ValueError, match=message):
        causal.generate(torch.tensor([[3, 4, 5]]), custom_generate=unmask.transformers.custom_generate, **settings, **OPTIONS)
