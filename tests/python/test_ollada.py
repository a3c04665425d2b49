# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The adapter for ollada beside the loop of its wheel, on a model of random weights."""
import io
import json
import types

import pytest
import torch

pytest.importorskip("ollada", reason="pip install ollada")

from ollada import recipes, worker  # noqa: E402
from ollada.adapters import sdar  # noqa: E402
from unmask import ollada as adapter  # noqa: E402

VOCAB, MASK, EOS, WIDE = 40, 39, 38, 24


class Inner(torch.nn.Module):
    """One layer of attention behind the interface that ollada drives: keys are stored when it says so."""

    def __init__(self, seed):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        for name, shape in {"embed": (VOCAB, WIDE), "place": (256, WIDE), "qkv": (3, WIDE, WIDE)}.items():
            self.register_buffer(name, torch.randn(shape, generator=draw))
        self.stored = []
        self.passes = 0

    def forward(self, input_ids, attention_mask, position_ids, past_key_values, use_cache, store_kv):
        if past_key_values.get_seq_length() == 0:
            self.stored = []
        self.passes += 1
        x = self.embed[input_ids[0]] + self.place[position_ids[0]]
        q, k, v = x @ self.qkv / WIDE**0.5
        keys = torch.cat([*(s[0] for s in self.stored), k])
        values = torch.cat([*(s[1] for s in self.stored), v])
        if store_kv:
            self.stored.append((k, v))
            past_key_values.update(k[None, None], v[None, None], 0)
        assert attention_mask.shape == (1, len(x), len(keys))
        weights = (q @ keys.T / WIDE**0.5).masked_fill(attention_mask[0] == 0, -torch.inf).softmax(-1)
        return types.SimpleNamespace(last_hidden_state=(x + weights @ values)[None])


class Model(torch.nn.Module):
    def __init__(self, seed, sharpness=3.0):
        super().__init__()
        self.model = Inner(seed)
        self.lm_head = torch.nn.Linear(WIDE, VOCAB)
        draw = torch.Generator().manual_seed(seed + 1)
        self.lm_head.weight.data = torch.randn(VOCAB, WIDE, generator=draw) * sharpness / WIDE**0.5
        self.lm_head.bias.data = torch.zeros(VOCAB)
        self.lm_head.bias.data[MASK] = -1e4  # the wheel's loop fails where the mask token is proposed
        self.device = torch.device("cpu")


class Tokenizer:
    chat_template, mask_token = None, "<mask>"

    def __call__(self, text, return_tensors=None):
        return types.SimpleNamespace(input_ids=torch.tensor([[ord(c) % 37 for c in text]]))

    def decode(self, ids, skip_special_tokens):
        return " ".join(str(int(i)) for i in ids)

    def convert_ids_to_tokens(self, ids):
        return [str(i) for i in ids]


def loaded(cls, *arguments, seed=1):
    made = cls(recipes.get_recipe("sdar:1.7b"), *arguments)
    made.load = lambda: None
    made.model, made.tokenizer = Model(seed), Tokenizer()
    made._mask_id, made._stopping_ids, made._mask_contract = MASK, [EOS], "tensor"
    return made


def ours(policy=None, seed=1):
    return loaded(lambda recipe: adapter.create_adapter(recipe, policy), seed=seed)


def prompt(seed, length):
    return torch.randint(0, EOS, (1, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("length", [3, 8, 13, 16, 22, 32])
@pytest.mark.parametrize("strategy, block, steps", [
    ("low_confidence_dynamic", 4, 4), ("low_confidence_dynamic", 8, 8),
    ("low_confidence_static", 4, 4), ("low_confidence_static", 8, 4), ("low_confidence_static", 16, 4),
    ("sequential", 4, 4), ("sequential", 8, 4), ("sequential", 16, 4),
])
def test_the_strategies_of_the_wheel(monkeypatch, length, strategy, block, steps):
    """Tokens and passes of the wheel's loop, whose draw is replaced by the most probable token."""
    monkeypatch.setattr(torch, "multinomial", lambda p, n: p.argmax(-1, keepdim=True))
    text = {
        "low_confidence_dynamic": "threshold(0.5)",
        "low_confidence_static": f"tokens_per_step({block // steps})",
        "sequential": f"left_to_right + tokens_per_step({block // steps})",
    }[strategy]
    length -= length % (block // steps)  # the wheel's loop writes over decided tokens where fewer are left
    seed = length
    theirs, model = Model(seed), Model(seed)
    expected = sdar._block_diffusion_generate(
        theirs, prompt(seed, length), MASK, gen_length=40, block_length=block, denoising_steps=steps,
        remasking_strategy=strategy, confidence_threshold=0.5, stopping_ids=[EOS], mask_contract="tensor")
    found, report = adapter.decode(
        model, prompt(seed, length), text, mask_token=MASK, stopping_ids=[EOS], gen_length=40, block_length=block)
    assert found.tolist() == expected.tolist()
    stored = model.model.passes - report.forwards
    assert report.forwards > 1 and stored >= 1
    # The wheel stores the last block, too, which nothing reads.
    assert model.model.passes in (theirs.model.passes, theirs.model.passes - 1)


@pytest.mark.parametrize("stopping", [[], [EOS]])
@pytest.mark.parametrize("order", ["left_to_right", "by_confidence"])
def test_nothing_is_shown_that_no_step_decided(order, stopping):
    def decoded(policy, shown=None):
        return adapter.decode(Model(3), prompt(3, 13), policy, mask_token=MASK, stopping_ids=stopping, gen_length=24, block_length=8,
                              tokenizer=Tokenizer(), on_step=lambda pieces, *_: None if shown is None else shown.append(pieces))[0][0].tolist()

    shown = []
    whole, found = decoded(f"{order} + tokens_per_step"), decoded(f"{order} + tokens_per_step + max_steps(5)", shown)
    first = found.index(MASK)
    assert first < len(found) and set(found[first:]) == {MASK} and found[:first] == whole[:first]
    assert order != "left_to_right" or first == 13 + 5
    assert len(shown) == 6


def test_a_worker_of_ollada_decodes_with_the_policy_of_a_request():
    made = ours("threshold(0.9)")
    messages = [{"role": "user", "content": "hello there"}]
    requests = [
        {"id": 1, "op": "load", "model": "sdar:1.7b"},
        {"id": 2, "op": "chat", "messages": messages, "overrides": {"gen_length": 16}},
        {"id": 3, "op": "chat", "messages": messages, "overrides": {"gen_length": 16, "policy": "tokens_per_step(4)"}},
        {"id": 4, "op": "chat", "messages": messages, "overrides": {"policy": "tokens_per_step(2) + temperature"}},
        {"id": 5, "op": "chat", "messages": messages, "overrides": {"policy": "dual_cache"}},
        {"id": 6, "op": "chat", "messages": messages, "overrides": {"temperature": 0.5}},
        {"id": 7, "op": "chat", "messages": messages, "overrides": {"policy": "calibrated_threshold('/etc/passwd')"}},
        {"id": 8, "op": "chat", "messages": messages, "overrides": {"policy": "threshold(2)"}},
        {"id": 9, "op": "chat", "messages": messages, "overrides": {"gen_length": 0}},
    ]
    out = io.StringIO()
    lines = io.StringIO("\n".join(map(json.dumps, requests)))
    worker.main(adapter_factory=lambda recipe: made, stdin=lines, stdout=out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    answers = {line["id"]: line for line in lines if "id" in line}
    frames = [line for line in lines if line.get("event") == "step"]
    assert [answers[i]["ok"] for i in range(1, 10)] == [True, True, True, True, False, False, False, False, False]
    assert answers[2]["result"]["nfe"] > answers[3]["result"]["nfe"] >= 16 // 4
    assert frames[0]["num_blocks"] > 4
    assert sum(state == "mask" for _, state in frames[0]["pieces"]) >= 16
    assert "ollada keeps K/V" in answers[5]["error"]
    assert "temperature is not read together with a policy" in answers[6]["error"]
    assert "names a file" in answers[7]["error"]
    assert "threshold(2)" in answers[8]["error"]
    assert "gen_length must be an integer, at least 1, got 0" in answers[9]["error"]


def test_without_a_policy_ollada_decodes():
    messages = [{"role": "user", "content": "hello"}]
    torch.manual_seed(5)
    theirs = loaded(sdar.SdarAdapter).chat(messages, {"gen_length": 12})
    torch.manual_seed(5)
    assert ours().chat(messages, {"gen_length": 12}).text == theirs.text
    with pytest.raises(ValueError, match="seed needs a policy"):
        ours().chat(messages, {"seed": 1})


def test_draws_come_from_the_seed():
    text = "threshold(0.5) + sampling(1)"
    draw = [adapter.decode(Model(1, 1.0), prompt(1, 6), text, mask_token=MASK, gen_length=16, seed=s)[0].tolist()
            for s in (1, 1, 2)]
    assert draw[0] == draw[1] != draw[2]


def test_an_answer_ends_behind_the_block_with_a_stopping_token():
    model = Model(3)
    model.lm_head.bias.data[EOS] = 1e3
    tokens, report = adapter.decode(model, prompt(3, 6), "tokens_per_step(1)", mask_token=MASK, stopping_ids=[EOS],
                                    gen_length=16)
    assert tokens[0, 6:8].tolist() == [EOS] * 2 and (tokens[0, 8:] == MASK).all() and report.forwards == 2


@pytest.mark.parametrize("policy, reason", [
    ("prefix_cache", "ollada keeps K/V"), ("lookahead(3)", "no branches"), ("single_block", "one block after another"),
    ("es_dllm", "ollada"), ("canvas(4)", "have masks"), ("nothing", "nothing"), (3, "must be a text"),
])
def test_refused(policy, reason):
    with pytest.raises(ValueError, match=reason):
        adapter.create_adapter(recipes.get_recipe("sdar:1.7b"), policy)


def test_other_families_are_refused():
    with pytest.raises(ValueError, match="dream:7b is of the family dream"):
        adapter.create_adapter(recipes.get_recipe("dream:7b"), "threshold(0.9)")


def test_the_command_line(monkeypatch, capsys):
    """ollada's own `run`, without the check of the machine's memory."""
    from ollada.runtime import manager

    monkeypatch.setenv("OLLADA_INPROCESS", "")
    monkeypatch.setattr(manager, "create_adapter", manager.create_adapter)
    monkeypatch.setattr(manager.measurements, "capture_and_record", lambda name: None)
    made, create = [], adapter.create_adapter

    def stand_in(recipe, policy):
        made.append(loaded(lambda recipe: create(recipe, policy)))
        return made[0]

    monkeypatch.setattr(adapter, "create_adapter", stand_in)
    assert adapter.main(["--policy", "threshold(0.9)", "run", "--force", "--length", "8", "sdar:1.7b", "hello"]) == 0
    assert made[0].policy == "threshold(0.9)" and len(capsys.readouterr().out.split()) >= 8
    with pytest.raises(SystemExit):
        adapter.main(["--policy", "treshold(0.9)", "list"])
    assert "did you mean threshold" in capsys.readouterr().err
