# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""unmask.transformers.generate beside loops of a page, on BERTs of random weights and on the tiny LLaDA."""
import json
import re
from types import SimpleNamespace

import pytest
import torch
import unmask
from conftest import REPOSITORY
from draws import probability_of_a_fit, sampled

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
from unmask import constraints  # noqa: E402
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
        (dict(input_ids=[1, 2, 3]), r"input_ids must be a tensor, int64 \[batch, length\], got \[1, 2, 3\]: torch.tensor"),
        (dict(input_ids="text"), "input_ids must be a tensor"),
        (dict(policy=["threshold(0.9)"] * 2), "policy must be a text, or a list with one for each of 1 rows, got 2"),
        (dict(policy=["threshold(0.9)"], input_ids=torch.full((2, 4), MASK)), "one for each of 2 rows, got 1"),
        (dict(policy=[]), "one for each of 1 rows, got 0"),
        (dict(policy=0.9), "policy must be a text, or a list with one for each of 1 rows, got 0.9"),
        (dict(policy=[3]), "policy must be a text, got int"),
        (dict(eos_token_id=[1, "a"]), "eos_token_id must be a token, or a list of tokens, got"),
        (dict(eos_token_id="1"), "eos_token_id must be a token, or a list of tokens, got '1'"),
        (dict(mask_token_id="[MASK]"), "mask_token_id must be an integer, got '\\[MASK\\]'"),
        (dict(model_kwargs=3), "model_kwargs must be a dictionary of the model's arguments, got 3"),
        (dict(attention_mask=[[1] * 8]), "attention_mask must be a tensor of the shape"),
        (dict(editable=torch.ones(1, 8, dtype=torch.long)), "editable must be bool or uint8, got torch.int64"),
        (dict(block_length=0), "block_length must be at least 1"),
        (dict(model="bert-base-uncased"), "model must be a module, or a function that returns logits, got 'bert-base-uncased': AutoModel"),
        (dict(attention_mask=torch.ones(1, 3)), "attention_mask must be of the shape"),
        (dict(editable=torch.ones(1, 3)), "editable must be of the shape"),
        (dict(streamer=SimpleNamespace(), input_ids=torch.full((2, 4), MASK)), "batch of 1, got 2"),
    ],
)
def test_bad_arguments_are_named(bert, change, says):
    arguments = {**dict(input_ids=texts(1, [8])[0][None], policy="threshold(0.9)", mask_token_id=MASK), **change}
    with pytest.raises(ValueError, match=says):
        generate(**{"model": bert, **arguments})


@pytest.mark.parametrize("given, says", [
    ({"temperature": 5.0}, r"generate\(\) has no argument temperature, got 5.0: write it in the policy: `\+ temperature\(5.0\) \+ sampling`"),
    ({"do_sample": True}, r"do_sample, got True: write it in the policy: `\+ sampling`"),
    ({"top_p": 0.9}, r"`\+ sampling \+ top_p\(0.9\)`"),
    ({"top_k": 5}, r"`\+ sampling \+ top_k\(5\)`"),
    ({"min_p": 0.1}, r"`\+ sampling \+ min_p\(0.1\)`"),
    ({"repetition_penalty": 9.0}, r"`\+ repetition_penalty\(9.0\)`"),
    ({"min_new_tokens": 4}, r"`\+ min_new_tokens\(4\)`"),
    ({"num_beams": 4}, "num_beams, got 4: a policy keeps one answer"),
    ({"return_dict_in_generate": True}, "always returns a Generated"),
    ({"max_length": 50}, "write max_new_tokens"),
    ({"no_repeat_ngram_size": 2}, "a setting of a GenerationConfig"),
    ({"typical_p": 0.2}, "a setting of a GenerationConfig"),
    ({"generation_config": object()}, "write its settings in the policy"),
    ({"logits_processor": []}, "write parts in the policy"),
    ({"block_lenght": 3}, "did you mean block_length\\?"),
    ({"eos_token": 5}, "did you mean eos_token_id\\?"),
    ({"mask_token": 5}, "did you mean mask_token_id\\?"),
    ({"sead": 7}, "did you mean seed\\?"),
    ({"max_tokens": 7}, "did you mean max_new_tokens\\?"),
    ({"polcy": "threshold"}, "did you mean policy\\?"),
    ({"temprature": 2}, r"if that is temperature, write it in the policy: `\+ temperature\(2\) \+ sampling`"),
    ({"token_type_ids": 0}, r"Arguments of the model go in a dictionary, model_kwargs=\{'token_type_ids': ...\}"),
    ({"zzz": 1}, r"model_kwargs=\{'zzz': ...\}"),
])
def test_arguments_that_generate_does_not_have_are_refused(bert, given, says):
    with pytest.raises(TypeError, match=says):
        generate(bert, texts(1, [8])[0][None], "threshold(0.9)", mask_token_id=MASK, **given)


def test_every_setting_of_a_generation_config_is_refused(bert):
    ids = texts(1, [8])[0][None]
    for name in vars(transformers.GenerationConfig()):
        if not name.startswith("_") and name not in ("max_new_tokens", "eos_token_id"):
            with pytest.raises(TypeError, match=f"has no argument {name}, got 1"):
                generate(bert, ids, "threshold(0.9)", mask_token_id=MASK, **{name: 1})


def test_arguments_of_the_model_are_a_dictionary(bert):
    ids, seen = texts(1, [8])[0][None], []

    def model(x, **rest):
        seen.append(rest)
        return bert(x)

    settings = dict(mask_token_id=MASK, vocab_size=VOCAB)
    assert torch.equal(generate(model, ids, model_kwargs={"color": 3}, **settings).sequences, generate(model, ids, **settings).sequences)
    assert seen[0] == {"color": 3} and seen[-1] == {}


def test_rows_of_a_table(llada):
    import json

    model, _ = llada
    out = generate(model, torch.tensor([[2] * 12, [3] * 12]), "threshold(0.9)", max_new_tokens=8, mask_token_id=0, vocab_size=98)
    rows = json.loads(json.dumps(out.rows()))
    assert [row["tokens"] for row in rows] == out.sequences.tolist() and [row["answer_end"] for row in rows] == out.answer_ends
    for row, report in zip(rows, out.reports):
        assert row["end"] == report.end.name and row["forwards"] == report.forwards and row["committed"] == report.committed


def test_a_list_of_eos_tokens(llada):
    model, tokenizer = llada
    (line,) = references(1)
    ids = tokenizer([line["prompt"]])["input_ids"]
    settings = dict(max_new_tokens=40, block_length=20, mask_token_id=0, vocab_size=98)
    plain = generate(model, ids, "threshold(0.9) + stop_at_eos", eos_token_id=1, **settings)
    n = ids.shape[1]
    assert 1 in plain.sequences[0, n : plain.answer_ends[0]].tolist() and plain.sequences[0, plain.answer_ends[0] - 1] == 1
    for eos in ([1, 97], [97, 1], (97, 1), [1]):  # 97 is never written
        out = generate(model, ids, "threshold(0.9) + stop_at_eos", eos_token_id=eos, **settings)
        assert out.answer_ends == plain.answer_ends and out.forwards == plain.forwards
        assert torch.equal(out.sequences[:, : out.answer_ends[0]], plain.sequences[:, : out.answer_ends[0]])
        assert set(out.sequences[0, out.answer_ends[0] :].tolist()) <= {1, eos[0]}
    first = int(plain.sequences[0, n + 2])  # ends the answer as another EOS token
    out = generate(model, ids, "left_to_right + tokens_per_step + stop_at_eos", eos_token_id=[97, first], **settings)
    at = plain.sequences[0, n:].tolist().index(first)
    assert out.answer_ends == [n + at + 1] and out.forwards == at + 1


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("eos", [None, 3])
def test_an_answer_ends_before_what_no_step_decided(bert, left, eos):
    rows = texts(5, [20, 12])
    ids, there = padded(rows, left)
    settings = dict(attention_mask=there, mask_token_id=MASK, eos_token_id=eos)
    whole = generate(bert, ids, "tokens_per_step(2)", **settings)
    out = generate(bert, ids, "tokens_per_step(2) + max_steps(2)", **settings)
    for i in range(2):
        filled = eos or getattr(bert.config, "eos_token_id", None) or MASK
        undecided = ((ids[i] == MASK) & (out.sequences[i] == filled) & (whole.sequences[i] != out.sequences[i])).nonzero()
        assert 0 < len(undecided) and out.answer_ends[i] == int(undecided[0])
        last = int(there[i].nonzero()[-1]) + 1
        assert whole.answer_ends[i] == last
    longer = generate(bert, ids, "left_to_right + tokens_per_step(2) + max_steps(2)", max_new_tokens=9, **settings)
    assert longer.answer_ends == [ids.shape[1] + 4] * 2

    class Streamer:
        got = []

        def put(self, tokens):
            self.got += tokens.tolist()

        def end(self):
            pass

    out = generate(bert, rows[0][None], "left_to_right + tokens_per_step(2) + max_steps(2)", max_new_tokens=9, streamer=Streamer(),
                   mask_token_id=MASK, eos_token_id=eos)
    assert Streamer.got == out.sequences[0, : 20 + 4].tolist()
    Streamer.got.clear()


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


CUSTOM = dict(custom_generate=unmask.transformers.custom_generate)


@pytest.mark.parametrize("settings, parts", [
    ({}, ""),
    ({"repetition_penalty": 3.0}, " + repetition_penalty(3.0, window=17)"),
    ({"do_sample": True, "temperature": 1.5, "top_k": 0}, " + temperature(1.5) + sampling"),
    ({"do_sample": True, "temperature": 0.3, "top_k": 1}, " + temperature(0.3) + confidence_after_truncation + top_k(1)"),
])
def test_custom_generate(causal, settings, parts):
    ids = torch.tensor([[3, 4, 5, 6, 7], [9, 8, 7, 6, 5]])
    policy = "left_to_right + tokens_per_step(2)"
    expected = generate(lambda x, **k: causal(x, use_cache=False, **k), ids, policy + parts, vocab_size=VOCAB, seed=5, **OPTIONS)
    got = causal.generate(ids, policy=policy, seed=5, **settings, **CUSTOM, **OPTIONS)
    assert torch.equal(got, expected.sequences)
    if settings and settings.get("top_k") != 1:
        plain = causal.generate(ids, policy=policy, seed=5, **CUSTOM, **OPTIONS)
        assert not torch.equal(got, plain)


@pytest.mark.parametrize("settings", [
    {"temperature": 2.0, "top_p": 0.6, "top_k": 0}, {"temperature": 0.5, "top_p": 0.9, "top_k": 0},
    {"temperature": 1.7, "top_p": 0.8, "top_k": 6}, {"temperature": 1.4, "min_p": 0.2, "top_k": 0},
    {"temperature": 3.0, "top_k": 12, "top_p": 0.7, "min_p": 0.1, "repetition_penalty": 1.8},
    {"repetition_penalty": 0.5, "top_p": 0.5}, {"temperature": 1.2}, {},
], ids=str)
@pytest.mark.parametrize("how", ["custom_generate", "custom_generate with parts"])
def test_draws_are_those_of_the_processors_of_transformers(causal, settings, how):
    if how != "custom_generate" and {"top_k", "top_p"} <= settings.keys() and settings["top_k"]:
        pytest.skip("top_p of a policy counts the mass of the whole row")
    count, prompt = 2000, torch.tensor([[3, 4, 5, 6, 7, 5]])
    with torch.no_grad():
        row = causal(torch.cat([prompt, torch.tensor([[MASK]])], 1)).logits[0, -1].float()
    row[MASK] = -torch.inf
    settings = {"top_k": 0, **settings}
    config = transformers.GenerationConfig(do_sample=True, **settings)
    processors = causal._get_logits_processor(config, input_ids_seq_length=6)
    expected = processors(prompt, row[None].clone())[0].softmax(-1)
    oracle = sampled(row, **settings, prompt=prompt[0].tolist(), top_p_of_the_kept=True)
    assert torch.allclose(expected.double(), torch.from_numpy(oracle), atol=1e-5)
    policy = "tokens_per_step"
    if how != "custom_generate":  # truncated after parts that make tokens impossible, here one that never happens
        policy += " + allowed_tokens([5], first=60, last=61)"
    drawn = causal.generate(prompt.repeat(count, 1), do_sample=True, policy=policy, seed=1, max_new_tokens=1, mask_token_id=MASK,
                            **settings, **CUSTOM)[:, -1]
    assert (expected > 0).sum() > 2
    assert probability_of_a_fit(torch.bincount(drawn, minlength=VOCAB), expected) > 1e-3
    wrong = row.softmax(-1) if len(settings) > 1 else (row / 2).softmax(-1)
    assert probability_of_a_fit(torch.bincount(drawn, minlength=VOCAB), wrong) < 1e-3


@pytest.mark.parametrize("different", [5, 31, 32, 33, 50])
def test_repetition_penalty_counts_every_token(causal, different):
    prompt = torch.arange(different)[None] + 3
    row = torch.full((VOCAB,), -5.0)
    row[:8], row[55] = torch.tensor([0, 0, 0, 3.0, -1, 2, -3, 1]), 1.9
    processor = transformers.RepetitionPenaltyLogitsProcessor(2.0)
    best = processor(prompt, row[None].clone())[0].argmax().item()
    head = causal.lm_head.forward
    causal.lm_head.forward = lambda x: row.expand(*x.shape[:-1], VOCAB).clone()
    try:
        out = causal.generate(prompt, policy="left_to_right + tokens_per_step", repetition_penalty=2.0, max_new_tokens=3,
                              mask_token_id=MASK, **CUSTOM)
    finally:
        causal.lm_head.forward = head
    expected = prompt
    for _ in range(3):
        next_ = processor(expected, row[None].clone())[0].argmax()
        expected = torch.cat([expected, next_[None, None]], 1)
    assert out[0, different] == best == 55 and torch.equal(out, expected)


def scripted(causal, answer, prompt):
    """The model, with a head that says an answer behind a prompt, and 7 after it."""
    def head(x):
        z = torch.zeros(*x.shape[:-1], VOCAB)
        for p in range(z.shape[1]):
            k = p - prompt
            z[:, p, answer[k] if 0 <= k < len(answer) else 7] = 20
        return z
    return head


@pytest.mark.parametrize("policy", ["threshold(0.9)", "threshold(0.9) + stop_at_eos", "tokens_per_step + stop_at_eos"])
@pytest.mark.parametrize("eos, end", [([1, 2], 3), ([2, 1], 3), (2, 3), ([1], 8), (7, 4), ([9, 2, 1], 2), (None, 8)])
def test_custom_generate_ends_with_the_first_eos_token(causal, policy, eos, end):
    if eos is None and "stop" in policy:
        pytest.skip("stop_at_eos needs an EOS token")
    answer, own = [8, 9, 2, 7, 7, 6, 6, 6], causal.lm_head.forward
    ids = torch.tensor([[3, 4, 5], [5, 4, 3]])
    causal.lm_head.forward = scripted(causal, answer, 3)
    try:
        out = causal.generate(ids, policy=policy, max_new_tokens=8, mask_token_id=MASK, block_length=4, eos_token_id=eos, **CUSTOM)
    finally:
        causal.lm_head.forward = own
    assert out.tolist() == [row + answer[:end] for row in ids.tolist()]


def test_rows_that_end_early_are_padded(causal):
    own, ids = causal.lm_head.forward, torch.tensor([[PAD, 4, 5], [5, 4, 3]])
    causal.lm_head.forward = lambda x: torch.stack([scripted(causal, a, 3)(x[i : i + 1])[0] for i, a in enumerate(
        [[8, 2], [8, 8, 9, 1]][-len(x):])])
    try:
        out = causal.generate(ids, attention_mask=torch.tensor([[1, 1, 1], [1, 1, 1]]), policy="tokens_per_step",
                              max_new_tokens=8, mask_token_id=MASK, eos_token_id=[1, 2], pad_token_id=PAD, **CUSTOM)
    finally:
        causal.lm_head.forward = own
    assert out.tolist() == [[PAD, 4, 5, 8, 2, PAD, PAD], [5, 4, 3, 8, 8, 9, 1]]


def test_custom_generate_puts_no_eos_token_before_min_new_tokens(causal):
    own, ids = causal.lm_head.forward, torch.tensor([[3, 4, 5]])
    causal.lm_head.forward = scripted(causal, [8, 2, 1, 1], 3)
    try:
        out = causal.generate(ids, policy="threshold(0.9) + stop_at_eos", max_new_tokens=8, min_new_tokens=3, mask_token_id=MASK,
                              eos_token_id=[6, 1, 2], **CUSTOM)
    finally:
        causal.lm_head.forward = own
    assert out[0, 3] == 8 and not {1, 2, 6} & set(out[0, 3:6].tolist()) and out.shape == (1, 7) and out[0, 6] == 1


def test_custom_generate_pads_what_no_step_decided(causal):
    ids = torch.tensor([[3, 4, 5]])
    for eos in (None, 1):
        out = causal.generate(ids, policy="left_to_right + tokens_per_step(2) + max_steps(2)", eos_token_id=eos, **CUSTOM, **OPTIONS)
        whole = causal.generate(ids, policy="left_to_right + tokens_per_step(2)", eos_token_id=eos, **CUSTOM, **OPTIONS)
        assert torch.equal(out, whole[:, :7])


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
    ({"output_scores": True, "return_dict_in_generate": True}, "output_scores must be False"),
    ({"do_sample": True, "top_k": 0, "top_p": 0.5, "policy": "threshold + top_p(0.9)"}, "top_p must not be given with a policy that has top_p"),
    ({"policy": ["threshold"]}, None),
    ({"policy": ["threshold", "threshold"]}, "policy must be a text, or a list with one for each of 1 rows, got 2"),
    ({"block_lenght": 3}, "block_lenght"),
    ({"no_repeat_ngram_size": 2}, "cannot honour NoRepeatNGramLogitsProcessor"),
    ({"max_time": 1.0}, "cannot honour MaxTimeCriteria"),
    ({"do_sample": True, "temperature": 0.5, "policy": "threshold(0.9) + sampling(1)"},
     "temperature must not be given with a policy that has sampling"),
])
def test_custom_generate_refuses_what_it_cannot_honour(causal, settings, message):
    if message is None:
        causal.generate(torch.tensor([[3, 4, 5]]), **CUSTOM, **settings, **OPTIONS)
        return
    with pytest.raises(ValueError, match=message):
        causal.generate(torch.tensor([[3, 4, 5]]), custom_generate=unmask.transformers.custom_generate, **settings, **OPTIONS)


class Blocks:
    """A model whose row prefers a token of its position, whatever stands there, with a configuration."""

    def __init__(self, model_type, name=""):
        self.config = SimpleNamespace(model_type=model_type, _name_or_path=name, vocab_size=156896)
        self.widths = []

    def __call__(self, ids, **_):
        self.widths.append(ids.shape[1])
        logits = torch.zeros(*ids.shape, 32)
        logits[:, torch.arange(ids.shape[1]), torch.arange(ids.shape[1]) % 31] = 9.0
        wide = torch.full((*ids.shape, 156896 - 32), -9.0)
        return torch.cat([logits, wide], dim=-1)


def test_a_language_ends_with_the_answer_where_whole_blocks_are_decoded():
    words = constraints.vocabulary(token_bytes=[bytes([97 + i]) for i in range(28)] + [b"", b""], mask_token=28, eos_token=29)
    table = torch.randn(30, 30, generator=torch.Generator().manual_seed(1)) * 3
    for new in (3, 5, 8):
        out = generate(lambda ids: table[ids], torch.tensor([[1, 2, 3]]), "model:sdar", max_new_tokens=new, mask_token_id=28,
                       eos_token_id=29, vocab_size=30, constraint=constraints.regex("[a-c]{2}x*[d-f]", words))
        text = "".join(chr(97 + t) for t in out.sequences[0, 3:].tolist() if t != 29)
        assert re.fullmatch("[a-c]{2}x*[d-f]", text) and out.sequences.shape == (1, 3 + new)


def test_without_a_policy_the_word_of_the_model_decides():
    prompt = torch.tensor([[5, 6, 7]])
    model = Blocks("llada2_moe", "inclusionAI/LLaDA2.1-mini")
    out = generate(model, prompt, max_new_tokens=8)
    assert out.sequences.tolist() == [[5, 6, 7, *range(3, 11)]]
    assert set(model.widths) == {32}, "up to the end of a block"
    named = generate(model, prompt, "model:llada2_1", max_new_tokens=8)
    assert named.sequences.tolist() == out.sequences.tolist() and named.forwards == out.forwards == 2  # an idle pass
    # Arguments that are given stay.
    given = generate(model, prompt, "threshold(0.9)", max_new_tokens=8, mask_token_id=40, eos_token_id=41, block_length=4)
    assert given.sequences.tolist() == out.sequences.tolist() and given.forwards == 2
    model = Blocks("Dream", "Dream-org/Dream-v0-Instruct-7B")
    model.config.vocab_size = 156896
    shifted = generate(model, prompt, "model:dream(steps=4) + max_steps(9)", max_new_tokens=4, seed=3)
    assert shifted.forwards == 4 and shifted.sequences[0, 3:].tolist() == [2, 3, 4, 5], "row p - 1 predicts position p"


def test_a_model_without_a_word_is_decoded_as_before():
    model = Blocks("qwen2")
    out = generate(model, torch.tensor([[5, 6]]), max_new_tokens=6, mask_token_id=40)
    again = generate(model, torch.tensor([[5, 6]]), "threshold(0.9)", max_new_tokens=6, mask_token_id=40)
    assert out.sequences.tolist() == again.sequences.tolist() and out.forwards == again.forwards


def test_a_word_that_this_host_cannot_run_is_refused():
    with pytest.raises(ValueError, match="canvas"):
        generate(Blocks("diffusion_gemma"), torch.tensor([[5, 6]]), max_new_tokens=6, mask_token_id=40)
    with pytest.raises(ValueError, match="causal"):
        generate(Blocks("nemotron_labs_diffusion"), torch.tensor([[5, 6]]), max_new_tokens=6)
