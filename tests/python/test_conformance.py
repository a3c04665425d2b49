# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""unmask-conformance/1: the formulas reproduce the recorded decisions, our package passes, mistakes are found."""
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import REPOSITORY

FOLDER = REPOSITORY / "tests" / "conformance"
sys.path.append(str(FOLDER))
import cases  # noqa: E402
import rules  # noqa: E402

RULES = list(rules.RULES)


def run(*command, options=("--quick",)):
    return subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), *options, "--", *map(str, command)], capture_output=True, text=True
    )


def decoder(name, *arguments, **options):
    return run(sys.executable, FOLDER / "decoders" / name, *arguments, **options)


def script(text, **options):
    return run(sys.executable, "-c", text, **options)


def deviating(result, compared=frozenset(RULES)):
    """(rule, aspect) of the rows of the table that deviate."""
    rows = [[c.strip(" `") for c in line.split("|")[1:-1]] for line in result.stdout.splitlines() if line[:3] == "| `"]
    assert {row[0] for row in rows} == compared
    return {(row[0], row[1]) for row in rows if row[4] != "0"}


def test_the_formulas_decide_as_recorded():
    steps = {name: 0 for name in RULES}
    for case in cases.recorded():
        rule = rules.Rule(case.rule, case.settings, case.mask_token)
        for number, step in enumerate(case.steps):
            found = rule(step.tokens, step.masked, case.fixed, step.logits)
            assert found == step.expected, f"{case.name} step {number}"
            steps[case.rule] += 1
    assert [name for name, count in steps.items() if not count] == ["threshold_or_steps"]  # no recorded rule


def test_small_cases_have_what_they_are_named_after():
    for case in cases.small(seeds=1):
        assert any(step.expected for step in case.steps), case.name
        found = 0
        for step in case.steps:
            rows = step.logits[step.masked]
            best = np.sort(rows, axis=1)[:, -2:]
            confidences = [rules.row(row.astype(float)).confidence for row in rows]
            least = case.settings.get("threshold") or case.settings.get("low_threshold")
            found += {
                "plain": len(rows),
                "equal_positions": len(rows) - len(np.unique(rows, axis=0)),
                "near_positions": len(rows) - len(np.unique(np.round(rows, 3), axis=0)),
                "equal_tokens": (best[:, 0] == best[:, 1]).sum(),
                "at_threshold": confidences.count(0.5),
                "none_pass": bool(rows.size) and least is not None and max(confidences) < least,
                "mask_token": (rows.argmax(axis=1) == case.mask_token).sum(),
                "literal_mask": sum(step.tokens[p] == case.mask_token for p in case.fixed),
                "large_logits": (rows > 8000).any(),
            }[case.aspect]
        assert found, case.name


def test_our_package_passes():
    pytest.importorskip("unmask")
    result = decoder("unmask_decoder.py")
    assert result.returncode == 0, result.stdout + result.stderr
    assert not deviating(result)


def test_sglang_has_the_strict_threshold():
    if importlib.util.find_spec("sglang") is None:
        pytest.skip("bash tests/sglang.sh installs SGLang")
    result = decoder("sglang_decoder.py", options=())
    assert result.returncode == 1, result.stdout + result.stderr
    found = deviating(result, {"threshold", "threshold_inclusive", "edit_committed"})
    always = {("threshold_inclusive", "at_threshold"), ("threshold", "mask_token")}
    always |= {("threshold_inclusive", "mask_token"), ("edit_committed", "mask_token")}
    ties = {("edit_committed", "equal_positions"), ("edit_committed", "at_threshold")}  # PyTorch's choice
    assert always <= found <= always | ties


def test_diffusers_has_the_strict_threshold():
    pytest.importorskip("diffusers", reason="diffusers is not installed")
    result = decoder("diffusers_decoder.py", options=("--rules", "threshold,threshold_inclusive"))
    assert result.returncode == 1, result.stdout + result.stderr
    found = deviating(result, {"threshold", "threshold_inclusive"})
    always = {("threshold_inclusive", "at_threshold")}
    for rule in ("threshold", "threshold_inclusive"):
        always |= {(rule, "mask_token"), (rule, "literal_mask")}
    ties = {(rule, "equal_positions") for rule, _ in always} | {("threshold", "at_threshold")}  # PyTorch's choice
    assert always <= found <= always | ties


@pytest.mark.parametrize(
    "name, message",
    [
        ("fast_dllm_decoder.py", "FAST_DLLM must name a checkout of Fast-dLLM"),
        ("dinfer_decoder.py", "dInfer cannot be imported: no package dinfer"),
    ],
)
def test_a_driver_says_what_is_not_installed(name, message, monkeypatch):
    pytest.importorskip("torch")
    for variable in ("FAST_DLLM", "DINFER"):
        monkeypatch.delenv(variable, raising=False)
    result = decoder(name)
    assert result.returncode == 2 and message in result.stderr


# Each mistake of naive.py, and where it must be found and nowhere else.
BEST_COMMITS = {"threshold", "threshold_inclusive", "trace_credit", "edit_committed"}
FOUND = {
    "strict": ({("threshold_inclusive", "at_threshold")}, "exactly at the threshold"),
    "higher_position": ({("steps_per_block", "equal_positions"), ("timesteps", "equal_positions")}, "equal positions"),
    "higher_token": ({(r, "equal_tokens") for r in RULES}, "equal tokens"),
    "no_progress": ({(r, "none_pass") for r in BEST_COMMITS}, "nothing is committed"),
    "proposes_mask": ({(r, "mask_token") for r in RULES}, "the mask token is the best of a row"),
    "rewrites_prompt": ({(r, "literal_mask") for r in RULES}, "a fixed position is written"),
    "overflows": ({(r, "large_logits") for r in RULES}, None),
}
ONLY = ("strict", "proposes_mask", "rewrites_prompt", "overflows")


@pytest.mark.parametrize("mistake", FOUND)
def test_a_mistake_is_found_and_named(mistake):
    result = decoder("naive.py", mistake)
    assert result.returncode == 1, result.stdout + result.stderr
    wanted, text = FOUND[mistake]
    found = deviating(result)
    assert found == wanted if mistake in ONLY else found >= wanted
    assert (text or "expected") in result.stdout


def test_a_deviation_is_shown_with_case_step_position_and_tokens():
    result = decoder("naive.py", "strict", options=("--quick", "--rules", "threshold_inclusive", "--shown", "1"))
    line = next(line for line in result.stdout.splitlines() if " step " in line)
    assert line.startswith("threshold_inclusive.at_threshold-0.0 step 0 position ")
    assert ": expected " in line and ", got masked (exactly at the threshold 0.5)" in line
    assert "more positions of threshold_inclusive" in result.stdout


HELLO = """import json, sys
ask = lambda: json.loads(sys.stdin.readline())
say = lambda x: print(json.dumps(x), flush=True)
"""
GREETING = 'ask(); say({"protocol": "unmask-conformance/1", "name": "x", "rules": ["threshold"]})\n'


@pytest.mark.parametrize(
    "text, error",
    [
        ("", "the decoder ended with status 0"),
        ("raise SystemExit(3)", "the decoder ended with status 3"),
        (HELLO + 'ask(); print("hello", flush=True)', "the answer must be a JSON object in one line, got 'hello"),
        (HELLO + 'ask(); say({"protocol": "unmask-conformance/9"})', "must speak unmask-conformance/1"),
        (
            HELLO + 'ask(); say({"protocol": "unmask-conformance/1", "rules": ["x"]})',
            "rules must name some of threshold,",
        ),
        (HELLO + GREETING + 'ask(); say({"tokens": [1], "transfers": []})', "integers, got [1]"),
        (
            HELLO + GREETING + 'r = ask(); say({"tokens": r["tokens"], "transfers": [99]})',
            "transfers must be positions from 0 to ",
        ),
        (
            HELLO + GREETING + 'r = ask(); say({"tokens": [t + 1 for t in r["tokens"]], "transfers": []})',
            "changed, and transfers lacks them",
        ),
        (
            HELLO + GREETING + 'while r := ask(): say({"unsupported": "none"})',
            "the decoder supports no case of these rules",
        ),
    ],
)
def test_a_decoder_that_cannot_be_compared(text, error):
    result = script(text, options=("--quick", "--rules", "threshold"))
    assert result.returncode == 2 and error in result.stderr, result.stdout + result.stderr


def test_a_silent_decoder_and_one_that_is_not_there():
    result = script("import time; time.sleep(60)", options=("--timeout", "0.2"))
    assert result.returncode == 2 and "no answer in 0.2 seconds" in result.stderr
    result = run("./no-such-decoder")
    assert result.returncode == 2 and "cannot start ./no-such-decoder" in result.stderr


def test_the_cases_as_a_file(tmp_path):
    file = tmp_path / "cases.jsonl"
    command = [sys.executable, str(FOLDER / "run.py"), "--quick", "--rules", "factor", "--write", str(file)]
    subprocess.run(command, check=True)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["rule"] for line in lines} == {"factor"} and any(line["expected"] for line in lines)
    for line in lines:
        assert [row is None for row in line["logits"]].count(False) >= len(line["masked"])
