# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What hosts know of a policy's text: its parts, their families and arguments."""
import pytest
import unmask
from unmask import _text


def test_every_part_has_a_family():
    parts = [line.split("(")[0] for line in unmask.describe_parts().splitlines() if line and line[0] != " "]
    assert list(_text.families()) == parts and len(parts) > 60
    assert {f for f in _text.families().values() if len(f) > 20} == set()
    expected = {"dual_cache": "cache", "early_skip": "layer rule", "lookahead": "branches", "es_dllm": "method"}
    assert expected.items() <= _text.families().items()


@pytest.mark.parametrize(
    "policy, names",
    [
        ("threshold(0.9)", ["threshold"]),
        ("any_of(threshold(0.9), all_of(tokens_per_step(2), at_frontier)) + stop_at_eos",
         ["threshold", "tokens_per_step", "at_frontier", "stop_at_eos"]),
        ("lopa_d2f", ["lopa_d2f", "threshold", "lookahead", "block_pipeline"]),
        ("osdt_gsm8k('dual_cache.json')", ["osdt_gsm8k", "calibrated_threshold"]),
        ("at_most(8, any_of(factor(1), local_leap)) + alg_temperature(by_entropy, temperature=0.3)",
         ["factor", "local_leap", "alg_temperature"]),
        ("replay('threshold(0.9).jsonl')", []),
    ],
)  # fmt: skip
def test_names_of_parts(policy, names):
    assert list(_text.names(policy)) == names


@pytest.mark.parametrize("policy, parts", [
    ("sampling(temperature=1)+temperature( 0.5 ) + threshold", [
        ("sampling", {"temperature": 1}), ("temperature", {"value": 0.5}), ("threshold", {"value": 0.9, "inclusive": False})]),
    ("any_of(threshold(5e-1, true), all_of(tokens_per_step(count=2)))", [
        ("threshold", {"value": 0.5, "inclusive": True}), ("tokens_per_step", {"count": 2})]),
    ("credit_decoding(value=0.3)", [
        ("credit_decoding", {}), ("threshold", {"value": 0.3, "inclusive": True}), ("trace_credit", None)]),
    ("logit_bias([3, 4], [.5, -1])", [("logit_bias", {"tokens": [3, 4], "biases": [0.5, -1]})]),
    ('calibrated_threshold(cap=0.5, file="threshold(0.3)")', [("calibrated_threshold", None)]),
    ("eos_gate + min_new_tokens(4, also=7)", [
        ("eos_gate", {"until_first": False, "also": None}), ("min_new_tokens", {"tokens": 4, "also": 7})]),
])
def test_parts_have_all_of_their_arguments(policy, parts):
    found = unmask.policy_parts(policy)
    assert [name for name, _ in found] == [name for name, _ in parts]
    for (_, expected), (_, arguments) in zip(parts, found):
        assert expected is None or arguments == expected


@pytest.mark.parametrize("policy, says", [
    ("bogus", "column 1: there is no part 'bogus'"),
    ("any_of(treshold)", "did you mean threshold"),
    ("threshold(value=2)", "value of threshold must be in \\[0, 1\\], got 2"),
    ("threshold(high=0.2)", "threshold has no argument 'high'"),
    ("threshold(0.9", "must end with '\\)'"),
    ("", "expected the name of a part"),
])
def test_parts_of_a_bad_text(policy, says):
    for read in (unmask.policy_parts, lambda text: list(_text.names(text))):
        with pytest.raises(ValueError, match=says):
            read(policy)


@pytest.mark.parametrize(
    "policy, expected",
    [
        ("canvas", dict(steps=48, coldest=0.4, hottest=0.8, stable_steps=1, certain=0.005, absorbing=False, draws=True)),
        ("by_entropy + canvas(12, 0.3, certain=1e-3, draws=false)",
         dict(steps=12, coldest=0.3, hottest=0.8, stable_steps=1, certain=1e-3, absorbing=False, draws=False)),
        ("threshold(0.9)", None),
    ],
)  # fmt: skip
def test_arguments_of_a_part(policy, expected):
    assert _text.arguments(policy, "canvas") == expected


def test_what_a_host_refuses():
    refused = {"cache": "no cache here", "max_steps": "no end here"}
    _text.check("threshold(0.9)", "a host", refused)
    for policy, says in [
        ("threshold(0.9) + dual_cache", "a host cannot run dual_cache: no cache here"),
        ("threshold(0.9) + max_steps(3)", "a host cannot run max_steps: no end here"),
        ("es_dllm", "a host cannot run block_cache: no cache here"),
        ("threshold(1.5)", "value of threshold must be in"),
        (7, "policy must be a text, got int"),
    ]:
        with pytest.raises(ValueError, match=says):
            _text.check(policy, "a host", refused)


def test_a_request_names_no_file():
    _text.check("threshold(0.9)", "a host", {}, files=False)
    for policy in ("osdt_gsm8k('profile.json')", 'calibrated_threshold("profile.json")', "replay('decode.jsonl')"):
        with pytest.raises(ValueError, match="names a file"):
            _text.check(policy, "a host", {}, files=False)
