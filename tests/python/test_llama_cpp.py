# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""llama.cpp through llama-cpp-python, on the tiny LLaDA, and the server over it."""
import sys

import numpy as np
import pytest
from unmask.tiny_llada import FOLDER, TinyLlada, decode, problems, tokens_of

pytest.importorskip("llama_cpp", reason="pip install llama-cpp-python==0.3.36")

from unmask.llama_cpp import LlamaCpp  # noqa: E402

PROMPT = "Q:Ora has 2 books. Buys 8. How many?"


@pytest.fixture(scope="module")
def model():
    return LlamaCpp(FOLDER / "tiny-f16.gguf")


@pytest.fixture(scope="module")
def tiny():
    return TinyLlada()


def whole(model):
    """As a model of tiny_llada.decode()."""
    return lambda batch: np.stack(model.forward(list(np.asarray(batch, np.int32)), [slice(None)] * len(batch)))


def test_what_the_file_says(model):
    assert (model.name, model.vocab, model.mask_token, model.eos_token, model.context) == ("tiny-f16", 98, 0, 1, 256)
    assert model.logits_shift == 0 and model.also_eos == []
    assert model.token_bytes == [b""] * 3 + [bytes([c]) for c in range(32, 127)]
    assert model.encode(PROMPT) == model.encode_chat([{"role": "user", "content": PROMPT}]) == [2, *tokens_of(PROMPT)]


def test_the_word_of_a_file_is_the_servers_policy(model, tmp_path, repository, monkeypatch):
    pytest.importorskip("starlette", reason='pip install "unmask[server]"')
    monkeypatch.setattr(sys, "path", [str(repository / "tests" / "llama_cpp"), *sys.path])
    from blank_gguf import MASK, write_gguf
    from unmask.serve import DEFAULT_POLICY, Server

    def policy_of(model):
        server = Server(model)
        server.batch.close()
        return server.policy

    assert policy_of(model) == DEFAULT_POLICY  # a llada that is not LLaDA
    for architecture, name, mask, policy in (("llada", "LLaDA 8B Instruct", MASK, "model:llada"), ("llada", "D3LLM", MASK, "model:d3llm"),
                                             ("llada", "LLaDA 8B Instruct", MASK - 1, DEFAULT_POLICY)):
        write_gguf(tmp_path / "weights.gguf", architecture, name, mask)
        assert policy_of(LlamaCpp(tmp_path / "weights.gguf")) == policy


def test_special_tokens_in_a_message_are_text(model):
    specials = [text for text, _, _ in model._specials()]
    assert len(specials) == 3
    for text in (*specials, f"a{specials[0]}b", "".join(specials), specials[1][:-1]):
        assert model.encode_chat([{"role": "user", "content": text}]) == model.encode(text)


def test_logits_depend_on_their_sequence_alone(model, tiny):
    tokens = [np.array([2, *tokens_of(p)] + [0] * 40, np.int32) for p in (PROMPT, "J:age 27", "S:9 8 7")]
    together = model.forward(tokens, [slice(0, 30)] * 3)
    for row, t in zip(together, tokens):
        alone = model.forward([t], [slice(0, 30)])[0]
        assert row.tobytes() == alone.tobytes()
        assert np.abs(alone - tiny([t])[0][:30]).max() < 0.05  # llama.cpp rounds activations to half under these weights
    view = model.forward([tokens[0]], [slice(3, 5)])[0]
    assert view.base is not None and view.shape == (2, 98)


@pytest.mark.parametrize("policy", ["threshold(0.9)", "trace_credit + threshold(0.9) + stop_at_eos", "threshold(0.9) + lookahead(2)"])
def test_decodes_are_those_of_the_tiny_model(model, tiny, policy):
    for task in problems()[::20]:
        ours, theirs = (decode(m, policy, task["prompt"]) for m in (whole(model), tiny))
        assert ours.text == theirs.text and ours.report.forwards == theirs.report.forwards


def test_longer_sequences_make_room(model):
    made = LlamaCpp(FOLDER / "tiny-f16.gguf")
    short = np.array([2, 5, 6, 0], np.int32)
    before = made.forward([short], [slice(0, 4)])[0].copy()
    made.forward([np.zeros(256, np.int32)], [slice(0, 1)])
    assert np.array_equal(made.forward([short], [slice(0, 4)])[0], before)
    with pytest.raises(ValueError, match="a sequence must have at most 256 tokens, got 257"):
        made.forward([np.zeros(257, np.int32)], [slice(0, 1)])
    with pytest.raises(ValueError, match=r"tokens must be in \[0, 98\), got -1 at position 1"):
        made.forward([np.array([2, -1], np.int32)], [slice(0, 1)])


def test_files_that_are_no_model(tmp_path):
    with pytest.raises(ValueError, match="there is no such file"):
        LlamaCpp(tmp_path / "none.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing")
    with pytest.raises(ValueError, match="llama.cpp cannot load it"):
        LlamaCpp(tmp_path / "bad.gguf")


def test_the_server_runs_it(model):
    starlette = pytest.importorskip("starlette.testclient", reason='pip install "unmask[server]"')
    from unmask.serve import Server

    server = Server(model)
    with starlette.TestClient(server.app, base_url="http://localhost") as client:
        answer = client.post("/v1/chat/completions", json={"model": "tiny-f16", "messages": [{"role": "user", "content": PROMPT}]})
    assert answer.json()["choices"][0]["message"]["content"] == "2+8=10;#10"
