# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions: typed questions, compared with a naive reader in double precision, and passes counted."""
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import unmask
from unmask.decisions import MOST_PASSES, Layout, questions_of
from unmask.tiny_llada import BEGIN, END, MASK, TinyLlada, tokens_of

VOCAB, MASKED, EOS = 40, 38, 39
WORDS = "abcdefghijklmnopqrstuvwxyz0123456789-{"  # a token for each; other characters are left out


def encode(text):
    return [WORDS.index(c) for c in text.lower() if c in WORDS]


class Hashed:
    """Logits that depend on every token of the sequence and on the position; counts its sequences."""

    def __init__(self, seed=0, shift=0, columns=VOCAB):
        self.seed, self.shift, self.columns, self.passes, self.calls = seed, shift, columns, 0, 0

    def rows(self, tokens, position):
        random = np.random.default_rng([self.seed, position, *map(int, tokens)])
        return random.normal(0, 3, self.columns).astype(np.float32)

    def __call__(self, tokens):
        self.calls += 1
        self.passes += len(tokens)
        return np.stack([np.stack([self.rows(row, p) for p in range(len(row))]) for row in tokens])


def log_softmax(row):
    row = [float(z) for z in row[:VOCAB]]
    row[MASKED] = -math.inf
    best = max(row)
    total = math.log(math.fsum(math.exp(z - best) for z in row)) + best
    return [z - total for z in row]


def naive(model, prompt, questions, exact, shift=0, temperature=1.0):
    """Each option's probability, from the definition: fields of masks between texts, a product or the chain rule."""
    fields, tokens = [], list(prompt)
    for question in questions:
        tokens += encode(question["before"])
        options = [encode(option) for option in question["options"]]
        longest = max(map(len, options))
        options = [option + [EOS] * (longest - len(option)) for option in options]
        common = next(j for j in range(longest) if len({option[j] for option in options}) > 1)
        tokens += options[0][:common]
        fields.append((len(tokens), [option[common:] for option in options]))
        tokens += [MASKED] * (longest - common) + encode(question.get("after", ""))
    out = []
    for first, options in fields:
        scores = []
        for option in options:
            score, filled = 0.0, list(tokens)
            for j, token in enumerate(option):
                row = model.rows(filled, first + j - shift) / np.float32(temperature)
                score += log_softmax(row)[token]
                if exact:
                    filled[first + j] = token
            scores.append(score)
        mass = math.fsum(map(math.exp, scores))
        best = max(scores)
        shares = [math.exp(score - best) for score in scores]
        out.append(([share / math.fsum(shares) for share in shares], mass))
    return out


QUESTIONS = [
    {"name": "a", "type": "choice", "options": ["x", "y", "z"], "before": "is"},
    {"name": "b", "type": "choice", "options": ["abc", "abd", "ab", "xyz"], "before": "or", "after": "end"},
    {"name": "c", "type": "choice", "options": ["commonone", "commontwo", "common"], "before": "so", "after": "."},
    {"name": "d", "type": "choice", "options": ["aa", "ab", "ba", "bb"], "before": "to"},
]


@pytest.mark.parametrize("exact, passes", [(False, 1), (True, 1 + 0 + (2 + 2) + (3 + 3) + 2)])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("together", [1, 5])
def test_probabilities_are_those_of_a_naive_reader(exact, passes, shift, together):
    for seed in range(4):
        model = Hashed(seed, shift, columns=VOCAB + 3)  # columns behind the vocabulary are ignored
        found = unmask.decide(model, [1, 2, 3], QUESTIONS, encode=encode, mask_token=MASKED, eos_token=EOS, vocab=VOCAB,
                              logits_shift=shift, exact=exact, together=together, temperature=1.5 if seed == 3 else 1)
        assert model.passes == passes and model.calls == -(-passes // together)
        expected = naive(Hashed(seed, columns=VOCAB + 3), [1, 2, 3], QUESTIONS, exact, shift, 1.5 if seed == 3 else 1)
        for question, (shares, mass) in zip(QUESTIONS, expected):
            decision = found[question["name"]]
            assert list(decision.probabilities) == question["options"]
            assert list(decision.probabilities.values()) == pytest.approx(shares, rel=1e-5, abs=1e-12)
            assert decision.mass == pytest.approx(mass, rel=1e-5)
            assert math.fsum(decision.probabilities.values()) == pytest.approx(1, abs=1e-12)
            assert decision.answer == question["options"][int(np.argmax(shares))]


def test_options_of_one_token_need_one_pass_in_both_modes():
    questions = [QUESTIONS[0], {**QUESTIONS[0], "name": "b"}]
    results = []
    for exact in (False, True):
        model = Hashed(1)
        results.append(unmask.decide(model, [1], questions, encode=encode, mask_token=MASKED, eos_token=EOS, exact=exact))
        assert model.passes == 1
    assert results[0] == results[1]


def test_the_answers_are_members_of_a_json_object():
    questions = questions_of([{"name": "u\"", "type": "boolean"}, {"name": "t", "type": "choice", "options": ["a\"b", "c"]},
                              {"name": "s", "type": "score", "minimum": 9, "maximum": 11}])
    layout = Layout(b"P", questions, lambda text: list(text.encode()), mask_token=256, eos_token=257)
    shown = "".join("_" if token == 256 else chr(token) for token in layout.tokens)
    assert shown == 'P{"u\\"": _____, "t": "____", "s": __}'
    for values, expected in (((True, 'a"b', 10), {'u"': True, "t": 'a"b', "s": 10}), ((False, "c", 9), {'u"': False, "t": "c", "s": 9})):
        tokens = layout.tokens.copy()
        for question, value, first, table in zip(questions, values, layout._first, layout._options):
            tokens[first : first + table.shape[1]] = table[question.values.index(value)]
        assert json.loads(bytes(t for t in tokens[1:].tolist() if t < 256)) == expected
    assert [q.values for q in questions] == [(True, False), ('a"b', "c"), (9, 10, 11)]
    assert layout.masked.sum() == 11 and (layout.tokens[layout.masked] == 256).all()


def test_scores_have_a_mean_and_booleans_are_booleans():
    def forward(tokens):
        logits = np.full((1, tokens.shape[1], VOCAB), -40, np.float32)
        logits[..., encode("2")] = math.log(0.25)
        logits[..., encode("4")] = math.log(0.75)
        logits[..., encode("n")] = math.log(0.5)
        return logits

    found = unmask.decide(forward, [1], [
        {"name": "s", "type": "score", "minimum": 1, "maximum": 5, "before": "a"},
        {"name": "b", "type": "boolean", "options": ["y", "n"], "before": "b"}], encode=encode, mask_token=MASKED)
    assert found["s"].answer == 4 and found["s"].mean == pytest.approx(3.5, abs=1e-6)
    assert found["s"].probabilities[2] == pytest.approx(0.25, abs=1e-6) and list(found["s"].probabilities) == [1, 2, 3, 4, 5]
    assert found["b"].answer is False and found["b"].mean is None and found["b"].mass == pytest.approx(0.5 / 1.5, abs=1e-6)


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("a, b, other, answer, mass", [
    (-INF, 1, 0, "b", None), (-INF, -INF, 0, None, 0.0), (-INF, -INF, -INF, None, 0.0), (NAN, 1, 0, None, NAN), (1, 1, NAN, None, NAN),
    (INF, 1, 0, None, NAN), (1, 1, INF, None, NAN), (1, 1, 0, "a", None), (-3e38, 3e38, 0, "b", 1.0), (3e38, 3e38, 3e38, "a", None),
])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_that_are_no_distribution(a, b, other, answer, mass, dtype):
    def forward(tokens):
        logits = np.full((len(tokens), tokens.shape[1], VOCAB), other, dtype)
        logits[..., 0], logits[..., 1] = np.clip([a, b], *(np.finfo(dtype).min, np.finfo(dtype).max)) if np.isfinite([a, b]).all() else (a, b)
        return logits

    if dtype == np.float16 and abs(other) > 1e38 and math.isfinite(other):
        pytest.skip("no number of half precision")
    for exact in (False, True):
        found = unmask.decide(forward, [1], [{"name": "q", "type": "choice", "options": ["a", "b"], "before": "c"}], encode=encode,
                              mask_token=MASKED, exact=exact)["q"]
        assert found.answer == answer
        if answer is None:
            assert found.probabilities == {} and (found.mass == mass or math.isnan(found.mass) == math.isnan(mass))
        else:
            assert math.fsum(found.probabilities.values()) == pytest.approx(1) and 0 < found.mass <= 1 + 1e-6
            assert (a > -INF) or found.probabilities["a"] == 0


def test_the_mask_token_is_no_answer():
    def forward(tokens):
        logits = np.zeros((1, tokens.shape[1], VOCAB), np.float32)
        logits[..., MASKED] = 50
        return logits

    found = unmask.decide(forward, [1], [QUESTIONS[0]], encode=encode, mask_token=MASKED)["a"]
    assert found.mass == pytest.approx(3 / (VOCAB - 1), rel=1e-5)


def test_the_tiny_model_decides():
    model, prompt = TinyLlada(), [BEGIN] + tokens_of("Q:Ora has 2 books. Buys 8. How many?")
    options = dict(encode=tokens_of, mask_token=MASK, eos_token=END)
    found = unmask.decide(model, prompt, [{"name": "sum", "type": "score", "minimum": 0, "maximum": 19, "before": "2+8=", "after": ";"}],
                          **options)["sum"]
    assert found.answer == 10 and found.probabilities[10] > 0.99 and found.mass > 0.99
    torch = pytest.importorskip("torch")
    of_torch = unmask.decide(lambda tokens: torch.from_numpy(model(tokens)), prompt, [
        {"name": "sum", "type": "score", "minimum": 0, "maximum": 19, "before": "2+8=", "after": ";"}], **options)["sum"]
    assert of_torch == found


def test_importing_the_package_imports_no_numpy():
    done = subprocess.run([sys.executable, "-c", "import sys, unmask; sys.exit('numpy' in sys.modules)"], timeout=60, check=False)
    assert done.returncode == 0


CHOICE = {"name": "q", "type": "choice", "options": ["a", "b"]}
SCORE = {"name": "q", "type": "score", "minimum": 1, "maximum": 5}


def deep():
    value = []
    for _ in range(10**5):
        value = [value]
    return value


BAD = [
    ([], "questions", "questions must be a list of 1 to 64 objects, got []"),
    ("x", "questions", 'got "x"'),
    (None, "questions", "got null"),
    ([CHOICE] * 65, "questions", "must be a list of 1 to 64 objects, got an? "),
    ([1], "questions[0]", "questions[0] must be an object, got 1"),
    ([deep()], "questions[0]", "must be an object, got a list of 1"),
    ([{**CHOICE, "type": "text"}], "questions[0].type", 'must be boolean, choice or score, got "text"'),
    ([{**CHOICE, "type": ["choice"]}], "questions[0].type", 'got ["choice"]'),
    ([{**CHOICE, "minimum": 1}], "questions[0].minimum", 'of type choice has no member "minimum": it has name'),
    ([{**CHOICE, "name": ""}], "questions[0].name", "must be a text of 1 to 1024 characters"),
    ([{**CHOICE, "name": None}], "questions[0].name", "got null"),
    ([{**CHOICE, "name": "\ud800"}], "questions[0].name", "must be Unicode"),
    ([CHOICE, CHOICE], "questions[1].name", 'must differ from those of other questions, got "q"'),
    ([{**CHOICE, "options": ["a"]}], "questions[0].options", '2 to 255 texts, got ["a"]'),
    ([{**CHOICE, "options": [str(i) for i in range(256)]}], "questions[0].options", "2 to 255 texts"),
    ([{**CHOICE, "options": ["a", "a"]}], "questions[0].options", 'must differ, got "a" twice'),
    ([{**CHOICE, "options": ["a", ""]}], "questions[0].options[1]", "1 to 1024 characters"),
    ([{**CHOICE, "options": ["a", 1]}], "questions[0].options[1]", "got 1"),
    ([{**CHOICE, "options": ["a", "x" * 1025]}], "questions[0].options[1]", "1 to 1024 characters"),
    ([{"name": "q", "type": "boolean", "options": ["a", "b", "c"]}], "questions[0].options", "the texts of true and of false"),
    ([{**SCORE, "maximum": 1}], "questions[0].maximum", "2 to 255 from the first to the last, got [1, 1]"),
    ([{**SCORE, "maximum": 256}], "questions[0].maximum", "2 to 255"),
    ([{**SCORE, "maximum": 10**400}], "questions[0].maximum", "at most 1e9 in size"),
    ([{**SCORE, "minimum": True}], "questions[0].maximum", "must be integers"),
    ([{**SCORE, "minimum": None}], "questions[0].maximum", "must be integers"),
    ([{**CHOICE, "after": "x"}], "questions[0].after", "after must be given with before"),
    ([{**CHOICE, "before": "x"}, {**CHOICE, "name": "r"}], "questions[1].before", "for all questions or for none"),
    ([{**CHOICE, "before": ""}], "questions[0].before", "1 to 1024 characters"),
    ([{**CHOICE, "before": "x", "after": 1}], "questions[0].after", "0 to 1024 characters, got 1"),
    ([{**CHOICE, "x" * 10**5: 1}], "questions[0]." + "x" * 50, "has no member"),
]


@pytest.mark.parametrize("questions, place, message", BAD, ids=range(len(BAD)))
def test_bad_questions_are_refused(questions, place, message):
    with pytest.raises(ValueError) as refused:
        questions_of(questions)
    assert refused.value.place.startswith(place) and len(str(refused.value)) < 500
    assert message.replace("an? ", "") in str(refused.value)


def test_options_that_are_no_question_of_the_model_are_refused():
    def refused(message, questions, **options):
        with pytest.raises(ValueError, match=message):
            unmask.decide(Hashed(), [1], questions, **{"encode": encode, "mask_token": MASKED, "eos_token": EOS, **options})

    refused(r"questions\[0\].options must differ in their tokens", [{**CHOICE, "options": ["a", "A"]}])
    refused(r"options must have as many tokens each: .* got \[1, 2\]", [{**CHOICE, "options": ["a", "ab"], "before": "x"}], eos_token=None)
    refused(r"before must have tokens of the vocabulary other than the mask token, got \[38\]", [CHOICE], encode=lambda text: [MASKED])
    refused(r"options must have tokens of the vocabulary", [{**CHOICE, "before": "x"}],
            encode=lambda text: [1] if text == "x" else [VOCAB], vocab=VOCAB)
    refused(r"temperature must be a number in \[1e-6, 1e6\], got 0", [CHOICE], temperature=0)
    refused(r"temperature must be a number", [CHOICE], temperature=math.nan)
    with pytest.raises(ValueError, match="prompt must have at least 9 tokens"):
        unmask.decide(Hashed(), [1], [{**CHOICE, "before": "x"}], encode=encode, mask_token=MASKED, logits_shift=9)
    letters = [c for c in WORDS if c != "{"]
    many = {**CHOICE, "options": [a + b + "x" for a in letters[:16] for b in letters[:15]]}
    refused(f"exact takes more than {MOST_PASSES} forward passes", [many], exact=True)
    unmask.decide(Hashed(), [1], [many], encode=encode, mask_token=MASKED, eos_token=EOS)


def test_the_server_decides():
    """POST /v1/decide has what decide() returns, in as many passes; requests that are wrong have status 400 and a place."""
    pytest.importorskip("uvicorn")
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("openai")
    from test_serve import serving

    prompt = "J:age 73 name Eve"
    questions = [{"name": "age", "type": "score", "minimum": 1, "maximum": 99},
                 {"name": "name", "type": "choice", "options": ["Eve", "Bob", "Alan"]}, {"name": "old", "type": "boolean"}]
    with serving(api_key="k") as made:
        def post(**fields):
            body = {"model": "tiny", "prompt": prompt, "questions": questions, **fields}
            return httpx.post(made.url + "/v1/decide", content=json.dumps(body), timeout=60,
                              headers={"Content-Type": "application/json", "Authorization": fields.pop("key", "Bearer k")})

        for exact in (False, True):
            model = TinyLlada()
            expected = unmask.decide(model, [BEGIN] + tokens_of(prompt), questions, encode=tokens_of, mask_token=MASK, eos_token=END,
                                     exact=exact)
            before = made.batch.load()["passes"]
            answer = post(exact=exact).json()
            assert answer["object"] == "decision" and answer["usage"]["forwards"] == (1 if not exact else answer["usage"]["forwards"])
            assert 1 <= made.batch.load()["passes"] - before <= answer["usage"]["forwards"]
            for name, decision in expected.items():
                found = answer["answers"][name]
                assert found["answer"] == decision.answer and (
                    decision.mean is None and "mean" not in found or found["mean"] == pytest.approx(decision.mean, rel=1e-5))
                assert list(found["probabilities"].values()) == pytest.approx(list(decision.probabilities.values()), rel=1e-4, abs=1e-9)
        chat = post(prompt=None, messages=[{"role": "user", "content": prompt}]).json()
        assert chat["answers"].keys() == answer["answers"].keys()
        for change, param in [({"questions": []}, "questions"), ({"messages": [{"role": "user", "content": "x"}]}, "messages"),
                              ({"temperature": 0}, "temperature"), ({"exact": 1}, "exact"), ({"policy": "x"}, "policy"),
                              ({"prompt": ["a", "b"]}, "prompt"), ({"prompt": "x" * 240}, "questions"),
                              ({"questions": [{"name": "q", "type": "choice", "options": ["\u00e9", "b"]}]}, "questions[0].options")]:
            refused = post(**change)
            assert refused.status_code == 400 and refused.json()["error"]["param"] == param, refused.text
        assert httpx.post(made.url + "/v1/decide", json={}).status_code == 401
