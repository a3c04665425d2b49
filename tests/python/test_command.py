# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m unmask, and the small LLaDA in NumPy that it decodes with."""
import json
import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import unmask.tiny_llada
from unmask.__main__ import main, summary
from unmask.tiny_llada import ANSWER, END, FOLDER, MASK, TinyLlada, decode, problems, read_gguf, tokens_of


@pytest.fixture(scope="module")
def model():
    return TinyLlada()


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "unmask", *map(str, arguments)], capture_output=True, text=True, **options)


def test_logits_are_those_of_the_reference(model, repository):
    with open(repository / "tests" / "data" / "tiny_llada" / "reference_logits.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) == 8
    for line in lines:
        assert np.abs(model([line["tokens"]])[0] - np.array(line["logits"])).max() < 1e-4
    short = [line["tokens"][:40] for line in lines]
    for row, tokens in zip(model(short), short):  # a batch has the logits of its rows
        assert np.abs(row - model([tokens])[0]).max() < 1e-4


@pytest.mark.parametrize("name, policy", [("one_a_forward", "tokens_per_step(1)"), ("threshold_0.9", "threshold(0.9)")])
def test_decodes_are_those_of_the_reference(model, repository, name, policy):
    with open(repository / "tests" / "data" / "tiny_llada" / "reference_decodes.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines[:: 40 if name == "one_a_forward" else 10]:
        answer = decode(model, policy, line["prompt"])
        assert answer.tokens[-ANSWER:].tolist() == line[name]["tokens"]
        assert answer.report.forwards == line[name]["forwards"]


def test_the_package_has_the_model_of_the_repository(repository):
    assert (FOLDER / "tiny-f16.gguf").read_bytes() == (repository / "examples/tiny_llada/tiny-f16.gguf").read_bytes()
    assert len(problems()) == 400


def test_bad_arguments_of_the_model_are_refused(model, tmp_path):
    with pytest.raises(ValueError, match="text has '\\\\n'; the model knows"):
        tokens_of("a\nb")
    with pytest.raises(ValueError, match="prompt has 300 characters; it must have at most 215"):
        decode(model, "threshold(0.9)", "a" * 300)
    (tmp_path / "no.gguf").write_bytes(b"GGUF")
    with pytest.raises(ValueError, match="no GGUF file of version 3"):
        read_gguf(tmp_path / "no.gguf")


def test_version_and_help(repository):
    text = (repository / "include" / "unmask" / "version.hpp").read_text()
    numbers = [text.split(f"UNMASK_VERSION_{part} ")[1].split()[0] for part in ("MAJOR", "MINOR", "PATCH")]
    assert run("--version").stdout == f"unmask {'.'.join(numbers)}\n" == f"unmask {unmask.__version__}\n"
    for command in ((), ("parts",), ("decode",), ("tune",), ("trace",)):
        done = run(*command, "-h")
        assert done.returncode == 0 and done.stdout.startswith("usage: python -m unmask")
    assert run().returncode == 2


def test_parts(capsys):
    assert main(["parts"]) == 0
    everything = capsys.readouterr().out
    assert everything.strip() == unmask.describe_parts().strip()
    assert main(["parts", "threshold", "top_k"]) == 0
    some = capsys.readouterr().out
    assert some.startswith("threshold(value=") and "\ntop_k(" in some and len(some.splitlines()) < 12
    assert main(["parts", "treshold"]) == 2
    assert "no part 'treshold'; did you mean threshold" in capsys.readouterr().err


def test_models(capsys):
    assert main(["models"]) == 0
    assert capsys.readouterr().out.strip() == unmask.describe_models().strip()
    assert main(["models", "llada2_1", "model:dream"]) == 0
    some = capsys.readouterr().out
    assert some.startswith("model:llada2_1\n") and "\nmodel:dream\n" in some and "mask token 156895" in some
    assert main(["models", "llada2_9"]) == 2
    assert "no model 'model:llada2_9'; did you mean model:llada2" in capsys.readouterr().err


def test_decode_and_trace(capsys, tmp_path):
    trace, page = tmp_path / "decode.jsonl", tmp_path / "decode.html"
    arguments = ["decode", "--task", "1", "--policy", "threshold(0.9)", "--trace", str(trace), "--html", str(page)]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    task = problems()[1]
    assert lines[0] == task["prompt"] and lines[-2] == f"{task['answer']}, right"
    passes = int(lines[-1].split()[0])
    assert [int(line.split()[0]) for line in lines[2:-2]] == list(range(1, passes + 1))
    assert sum(int(line.split()[1]) for line in lines[2:-2]) == ANSWER
    assert lines[-3].split()[-1] == task["answer"] + "." * (ANSWER - len(task["answer"]))
    assert "_" in lines[2].split()[-1] and len(lines[2].split()[-1]) == ANSWER
    assert "unmask-trace/1" in page.read_text(encoding="utf-8")

    assert main(["trace", str(trace)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "tiny-llada: threshold(0.9)" and shown[1].endswith(task["prompt"])
    assert len(shown) == 3 + passes + 1 and task["answer"] in shown[-2]
    assert shown[-1].startswith(f"slot 0: complete after {passes} forward passes, {ANSWER} tokens: {task['answer']}")
    assert [line.split()[2] for line in shown[3:-1]] == [line.split()[1] for line in lines[2:-2]]
    assert run("trace", "-", input=trace.read_text()).stdout.splitlines() == shown
    second = tmp_path / "second.html"
    assert main(["trace", str(trace), "--other", str(trace), "--html", str(second)]) == 0
    assert second.read_text(encoding="utf-8").count('class="trace"') >= 2


def test_a_trace_with_tokens_that_are_masked_again(tmp_path):
    """Its text follows them; a line that was cut is left out, and so are texts that it lacks."""
    trace, random = tmp_path / "decode.jsonl", np.random.default_rng(1)

    def noise(tokens):
        return random.standard_normal((*tokens.shape, 98)).astype(np.float32)

    decode(noise, "tokens_per_step(4) + remask_current_below(0.05, 1)", "Q", trace=str(trace))
    lines = trace.read_text().splitlines()
    shown = list(summary("\n".join(lines) + '\n{"slot":0,"st'))
    remasked = sum("r" in json.loads(line).get("outcome", "") for line in lines)
    assert remasked > 0
    final = json.loads(lines[-1])["tokens"]
    texts = {}
    for line in lines:
        texts.update(json.loads(line).get("text", {}))
    assert shown[-2].endswith("".join(texts[str(t)] for t in final[-ANSWER:]))
    bare = [json.dumps({k: v for k, v in json.loads(line).items() if k != "text"}) for line in lines]
    assert f"{final[-1]}" in list(summary("\n".join(bare)))[-1].split()[-1]


def test_what_goes_wrong_is_said(capsys, tmp_path):
    (tmp_path / "no.jsonl").write_text("{}\n")
    for arguments, message in (
        (["decode", "--policy", "nonsense(1)"], "unmask decode: policy 'nonsense(1)', column 1"),
        (["decode", "--policy", "es_dllm"], "policy 'es_dllm' needs an engine that computes single positions"),
        (["decode", "--policy", "threshold + delayed_cache"], "delayed_cache' needs an engine"),
        (["decode", "--task", "400"], "--task must be at least 0 and at most 399, got 400"),
        (["tune", "--problems", "1"], "--problems must be at least 8 and at most 400, got 1"),
        (["trace", str(tmp_path / "none")], "No such file"),
        (["trace", str(tmp_path / "no.jsonl")], "is not the head of an unmask-trace"),
        (["trace", str(tmp_path / "no.jsonl"), "--other", "x"], "--other needs --html"),
    ):
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert message in said.err and said.out == ""


def test_tune(capsys, monkeypatch):
    """The search is tested in test_tune.py; here an engine that is right under every policy takes its place."""
    decoded = []

    def fast(model, policy, prompt):
        decoded.append((policy, prompt))
        task = next(t for t in problems() if t["prompt"] == prompt)
        passes = 3.0 if policy.startswith("by_margin") else 4.0
        return types.SimpleNamespace(text=task["answer"], report=types.SimpleNamespace(forwards=passes))

    monkeypatch.setattr(unmask.tiny_llada, "decode", fast)
    assert main(["tune", "--problems", "8", "--target", "0.15", "--depth", "0"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("by_margin + ")
    assert "4 of 4 right on tasks that the search did not see" in said.out and "3.00 forward passes" in said.out
    assert "\nsingle rule: " in said.out and "4 right, 4.00 passes" in said.out
    assert re.fullmatch(r"(\d+ policies, \d+ answers decoded( \(.*\))?\n)+", said.err)  # no terminal
    assert {task for _, task in decoded} == {t["prompt"] for t in problems()[::50]}


def test_a_closed_pipe_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "unmask", "parts"], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.returncode == 0 and done.stderr == ""


def test_masks_are_never_in_an_answer(model):
    for policy in ("credit_decoding", "lookahead(3) + threshold(0.8)", "steps_per_block(4) + sampling(1)"):
        answer = decode(model, policy, problems()[3]["prompt"], seed=3)
        assert MASK not in answer.tokens.tolist() and END in answer.tokens[-ANSWER:].tolist()


def test_the_first_program_prints_what_its_page_shows(repository):
    folder = repository / "examples" / "bindings" / "python"
    page = (folder / "README.md").read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, folder / "first.py"], capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in page
