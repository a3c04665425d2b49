# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constraints: every answer is in its language, checked by a walk, by `re` and by `json`."""
import json
import re

import numpy as np
import pytest
import unmask
from unmask import constraints
from unmask.tiny_llada import TinyLlada, decode, text_of
from unmask.tiny_llada import vocabulary as tiny_vocabulary

ALPHABET = [bytes([c]) for c in range(32, 127)] + [b"ab", b'":', b"true", "é".encode(), "é".encode()[:1], b"\xa9", b"12"]
MASK, EOS = len(ALPHABET), len(ALPHABET) + 1
VOCAB = len(ALPHABET) + 3  # and a special token
WORDS = [*ALPHABET, b"", b"", b""]
POLICIES = [
    "threshold(0.5)",
    "by_margin + tokens_per_step(3)",
    "threshold(0.3) + sampling(1.0)",
    "steps_per_block(4)",
    "threshold(0.4) + edit_committed(0.5)",
    "trace_credit + threshold(0.6) + stop_at_eos",
    "at_random + tokens_per_step(2) + eos_gate",
]


@pytest.fixture(scope="module")
def words():
    return constraints.vocabulary(token_bytes=WORDS, mask_token=MASK, eos_token=EOS)


def bytes_of(tokens):
    tokens = list(map(int, tokens))
    end = tokens.index(EOS) if EOS in tokens else len(tokens)
    assert all(t == EOS for t in tokens[end:]), tokens
    return b"".join(WORDS[t] for t in tokens[:end])


def answer(constraint, policy="threshold(0.5)", length=24, block=12, seed=0, session=None, fields=None, eos=EOS):
    """Decodes with random logits; returns the bytes of the answer and the report."""
    rng = np.random.default_rng(seed)
    session = session or unmask.Session(
        policy, vocab=VOCAB, mask_token=MASK, eos_token=eos, length=length + 2, window=length, trace=True
    )
    tokens = np.full(length + 2, MASK, np.int32)
    tokens[:2] = 5
    session.start(0, tokens, prompt_length=2, block_length=block, seed=seed, constraint=constraint, fields=fields)
    while (request := session.next()) is not None:
        session.supply(rng.normal(0, 3, (request.rows, VOCAB)).astype(np.float32))
    return tokens[2:], session.report()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("expression", [r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"(yes|no|maybe)( and (yes|no))*", r"[a-c]*é?[0-9]+"])
def test_expressions_are_obeyed(words, policy, expression):
    c = constraints.regex(expression, words)
    for seed in range(6):
        tokens, report = answer(c, policy, seed=seed)
        assert re.fullmatch(expression.encode().decode(), bytes_of(tokens).decode()), bytes_of(tokens)
        assert report.constraint_met and c.accepts(list(map(int, tokens)))
        assert report.forwards <= 24 + 24


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["name", "age"],
}


@pytest.mark.parametrize("policy", POLICIES)
def test_schemas_are_obeyed(words, policy):
    c = constraints.json_schema(SCHEMA, words)
    for seed in range(4):
        tokens, report = answer(c, policy, length=48, seed=seed)
        value = json.loads(bytes_of(tokens))
        assert isinstance(value["name"], str) and len(value["name"]) <= 6 and isinstance(value["age"], int)
        assert set(value) <= {"name", "age", "tags"} and set(value.get("tags", [])) <= {"a", "b"}
        assert report.constraint_met and report.refused >= 0


@pytest.mark.parametrize("policy", POLICIES)
def test_grammars_are_obeyed(words, policy):
    c = constraints.grammar('sum ::= term ("+" term)*\nterm ::= [0-9] | "(" sum ")"', words, root="sum", recursion=3)
    for seed in range(6):
        text = bytes_of(answer(c, policy, seed=seed)[0]).decode()
        deep = [text[:i].count("(") - text[:i].count(")") for i in range(len(text) + 1)]
        assert min(deep) == deep[-1] == 0 and max(deep) <= 2, text
        assert re.fullmatch(r"\(*[0-9]\)*(\+\(*[0-9]\)*)*", text), text
    assert c is constraints.grammar('sum ::= term ("+" term)*\nterm ::= [0-9] | "(" sum ")"', words, root="sum", recursion=3)


def test_any_json_and_choices(words):
    for seed in range(4):
        tokens, _ = answer(constraints.json_object(words), length=30, seed=seed)
        assert isinstance(json.loads(bytes_of(tokens)), dict)
    for seed in range(8):
        tokens, report = answer(constraints.choice(["yes", "no", "absolute"], words), length=12, seed=seed)
        assert bytes_of(tokens) in (b"yes", b"no", b"absolute")
    tokens, report = answer(constraints.choice(["abba"], words), length=4, eos=EOS)
    assert bytes_of(tokens) == b"abba"


def test_the_first_answer_of_a_model():
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
              "required": ["name", "age"]}
    person = constraints.json_schema(schema, tiny_vocabulary())
    for policy in ("threshold(0.9)", "threshold(0.5)", "tokens_per_step(4)"):
        got = decode(TinyLlada(), policy, "Q:Write JSON for Ann, 7.", constraint=person)
        assert set(json.loads(got.text)) == {"name", "age"}, got.text
        assert got.report.constraint_met


def test_transitions_give_the_same_language(words):
    """Law: an automaton over tokens, walked by hand from the one over bytes, is what lifting makes."""
    language = constraints.Language.regex(r"(ab|b)*[0-9]{1,3}")
    table, accepting, start = language.table()
    transitions = {}
    for state in range(language.states):
        for token, text in enumerate(WORDS[:MASK]):
            at = state
            for byte in text:
                at = int(table[at, byte]) if at != constraints.DEAD else at
            if at != constraints.DEAD:
                transitions.setdefault(state, {})[token] = at
    by_tokens = constraints.from_transitions(transitions, words, start=start, accepting=np.flatnonzero(accepting).tolist())
    by_bytes = constraints.regex(r"(ab|b)*[0-9]{1,3}", words)
    assert by_tokens.shortest == by_bytes.shortest == 1
    rng = np.random.default_rng(0)
    usual = [t for t, text in enumerate(WORDS) if set(text) <= set(b"ab0123456789")]
    accepted = 0
    for _ in range(4000):
        string = [int(t) for t in rng.choice(usual, rng.integers(1, 6))]
        assert by_tokens.accepts(string) == by_bytes.accepts(string)
        accepted += by_bytes.accepts(string)
    assert accepted > 50


@pytest.mark.parametrize(
    "expression", [r"-?[0-9]+(\.[0-9]+)?", "(ab)+", "[0-9]{2}( [0-9]{2})*", "^(a(ba)*|[0-9]b)$", "a|ab[0-9]"]
)
def test_a_string_may_go_on_with_what_is_no_string_yet(words, expression):
    c = constraints.regex(expression, words)
    rng = np.random.default_rng(1)
    usual = [t for t, text in enumerate(WORDS) if text and set(text) <= set(b"ab01.- ")]
    accepted = 0
    for _ in range(6000):
        string = [int(t) for t in rng.choice(usual, rng.integers(1, 7))]
        matches = re.fullmatch(expression.strip("^$"), b"".join(WORDS[t] for t in string).decode()) is not None
        assert c.accepts(string) == matches, string
        accepted += matches
    assert accepted > 10


def test_one_memory_for_many_requests_of_several_schemas(words):
    session = unmask.Session("threshold(0.5)", vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=26, window=24, trace=True)
    for seed in range(40):
        expression = f"[a-c]{{{1 + seed % 20}}}"
        tokens, report = answer(constraints.regex(expression, words, timeout=None), seed=seed, session=session)
        assert re.fullmatch(expression, bytes_of(tokens).decode()) and report.constraint_met


def test_fields_and_blocks(words):
    date = constraints.regex(r"[0-9]{4}", words)
    tokens, report = answer(None, length=12, fields=[(0, 4, date), (6, None, date)])
    assert re.fullmatch(b"[0-9]{4}", bytes_of(tokens[:4])) and re.fullmatch(b"[0-9]{4}", bytes_of(tokens[6:]))
    word = constraints.regex(r"\{[a-z]{5,20}\}", words)
    block = unmask.Block("threshold(0.4)", length=16, vocab=VOCAB, mask_token=MASK, eos_token=EOS)
    tokens, state = np.full(16, MASK, np.int64), None
    rng = np.random.default_rng(1)
    for b in range(4):
        masked = np.zeros(16, bool)
        masked[4 * b : 4 * b + 4] = True
        field = unmask.Field(word, 4 * b, 4 * b + 4, tokens_after=12 - 4 * b, state=state)
        block.start(tokens, masked, fields=[field])
        while not block.ended:
            block.step(rng.normal(0, 3, (16, VOCAB)).astype(np.float32))
        assert block.report.constraint_met
        state = block.constraint_state()
    assert re.fullmatch(rb"\{[a-z]{5,20}\}", bytes_of(tokens))


def test_candidates_say_what_was_refused_and_filled():
    words = constraints.vocabulary(token_bytes=WORDS, mask_token=MASK)  # no EOS token: the length is exact
    rng = np.random.default_rng(3)
    session = unmask.Session("tokens_per_step(4)", vocab=VOCAB, mask_token=MASK, length=6, window=5, trace=True)
    outcomes, refused = set(), 0
    for _ in range(20):
        tokens = np.full(6, MASK, np.int32)
        tokens[0] = 3
        session.start(0, tokens, prompt_length=1, constraint=constraints.regex(r"([ab]{4}|[cd]{4})!", words))
        seen = list(session.candidates())
        while (request := session.next()) is not None:
            session.supply(rng.normal(0, 3, (request.rows, VOCAB)).astype(np.float32))
            seen += session.candidates()
        assert re.fullmatch(rb"([ab]{4}|[cd]{4})!", b"".join(WORDS[t] for t in tokens[1:]))
        outcomes |= {c.outcome for c in seen}
        assert session.report().filled == sum(c.outcome == unmask.Outcome.filled for c in seen) >= 1
        assert session.report().refused == sum(c.outcome == unmask.Outcome.refused for c in seen)
        refused += session.report().refused
    assert {unmask.Outcome.refused, unmask.Outcome.filled, unmask.Outcome.committed} <= outcomes and refused > 0


def test_traces(words, tmp_path):
    """Letters of refused and filled candidates; the tokens of the last line are those of the answer."""
    path = tmp_path / "decode.jsonl"
    session = unmask.Session("tokens_per_step(3)", vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=14, window=12,
                             trace=str(path))
    tokens, report = answer(constraints.regex(r"\{([ab]{4}|[cd]{5})\}", words), length=12, session=session, seed=3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    letters = "".join(line.get("outcome", "") for line in lines)
    assert letters.count("g") == report.refused and "l" in letters
    filled = set(lines[0]["sequences"][0]["filled"])  # before the first pass
    for line in lines[1:-1]:
        filled |= {p for p, o in zip(line["position"], line["outcome"]) if o in "cfl"}
    assert filled == set(range(2, 14)) and lines[-1]["tokens"][2:] == tokens.tolist()
    assert report.filled == letters.count("l") + len(lines[0]["sequences"][0]["filled"])


def test_a_replay_fills_what_was_filled(words, tmp_path):
    path = tmp_path / "decode.jsonl"
    language = constraints.regex(r"\{([ab]{4}|[cd]{5})\}", words)
    session = unmask.Session("tokens_per_step(3)", vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=14, window=12,
                             trace=str(path))
    tokens, report = answer(language, length=12, session=session, seed=3)
    begun = json.loads(path.read_text().splitlines()[0])["sequences"][0]
    again = np.array(begun["tokens"], np.int32)
    editable = np.ones(14, bool)
    editable[[0, 1]] = False
    session = unmask.Session(f"replay('{path}')", vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=14, window=12)
    shape = {"prompt_length": 2, "block_length": 12, "editable": editable}
    with pytest.raises(ValueError, match="a constraint filled positions of the trace"):
        session.start(0, again, **shape)
    session.start(0, again, **shape, constraint=language)
    while (request := session.next()) is not None:
        session.supply(np.zeros((request.rows, VOCAB), np.float32))
    assert again[2:].tolist() == tokens.tolist()
    assert session.report().filled == report.filled > len(begun["filled"]) > 0


def test_the_first_answer_of_the_page_is_what_the_page_says(repository, capsys):
    page = (repository / "include" / "unmask" / "constraint" / "README.md").read_text(encoding="utf-8")
    program, printed = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.S).groups()
    assert len(program.splitlines()) <= 6
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out == printed
    assert json.loads(printed) == {"name": "Eve", "age": 73}


def test_an_order_of_properties_that_the_model_would_not_choose_loses_the_contents(repository):
    page = (repository / "include" / "unmask" / "constraint" / "README.md").read_text(encoding="utf-8")
    properties = {"name": {"type": "string"}, "age": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["name", "age"]}
    c = constraints.json_schema(schema, tiny_vocabulary(), whitespace="")
    answer = decode(TinyLlada(), "threshold(0.9)", "J:age 73 name Eve", constraint=c)
    assert answer.report.constraint_met and f"`{answer.text}`: valid, and nonsense" in page


def test_fields_that_are_read_again_keep_the_number_of_passes(words):
    c = constraints.regex(r"([0-9]{2}|[a-z]{3})+", words)
    waits, again = 0, 0
    for seed in range(30):
        for read_again in (False, True):
            field = unmask.Field(c, fill=False, read_again=read_again)
            tokens, report = answer(field, "tokens_per_step(4)", seed=seed)
            assert report.constraint_met and c.accepts(list(map(int, tokens)))
            if read_again:
                assert report.forwards == 6 and report.refused == 0
                again += report.second_reads
            else:
                waits += report.forwards - 6
    assert waits > 0 and again > 0


def test_a_canvas_ends_in_the_language(words):
    c = constraints.json_schema(SCHEMA, words)
    for seed in range(10):
        session = unmask.Session("canvas(6) + by_entropy + entropy_bound(0.5)", vocab=VOCAB, mask_token=MASK,
                                 eos_token=EOS, length=66, window=64)
        tokens, report = answer(c, length=64, block=64, seed=seed, session=session)
        assert report.forwards <= 6 and report.constraint_met
        json.loads(bytes_of(tokens))


def test_files(words, tmp_path):
    c = constraints.regex(r"[a-z]+", words)
    constraints.save(c, tmp_path / "a.dfa")
    again = constraints.read(tmp_path / "a.dfa", words)
    assert again.accepts([66, 67]) == c.accepts([66, 67]) is True
    (tmp_path / "b.dfa").write_bytes((tmp_path / "a.dfa").read_bytes()[:-1])
    with pytest.raises(RuntimeError, match="it ends too early"):
        constraints.read(tmp_path / "b.dfa", words)


def test_refusals(words):
    with pytest.raises(ValueError, match="needs at least 5 tokens, but the answer has 3"):
        answer(constraints.regex("[a]{5}", words), length=3)
    with pytest.raises(ValueError, match="states, the limit is 20"):
        constraints.regex("[a]{50}", words, states=20)
    for malformed in ("(", "a)(b", "a)|(?:b", "[a"):
        with pytest.raises(ValueError, match="regex: "):
            constraints.regex(malformed, words)
    assert constraints.regex("(a$)|b", words).shortest == 1
    with pytest.raises(ValueError, match="does not combine with lookahead"):
        session = unmask.Session("lookahead(2) + threshold(0.9)", vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=8,
                                 window=8, branches=2, trace=True)
        answer(constraints.regex("[a]+", words), length=6, session=session)
    with pytest.raises(ValueError, match="regex: column 1: this group is not closed"):
        constraints.regex("(a", words)
    with pytest.raises(ValueError, match="regex: it takes over 300 ms, the limit `milliseconds`"):
        constraints.regex(".*a.{20}b{40}", words, timeout=0.3, memory=1 << 38)
    with pytest.raises(ValueError, match="json_schema: /properties: must be an object"):
        constraints.json_schema({"type": "object", "patternProperties": 3, "properties": 7}, words)
    for given in (7, ("{}", None)):
        with pytest.raises(TypeError, match="expression must be str, got "):
            constraints.regex(given, words)
    with pytest.raises(TypeError, match="vocabulary must be Vocabulary, got list"):
        constraints.regex("a", [b"a"])
    with pytest.raises(ValueError, match="^grammar: line 3, column 9: "):
        constraints.grammar('root ::= "a"\n\n  b ::= $', words)
    with pytest.raises(ValueError, match="^grammar: .*there is no rule 'sum'"):
        constraints.grammar('root ::= "a"', words, root="sum")
    with pytest.raises(ValueError, match="the option `recursion` must be at least 1, got 0"):
        constraints.grammar('root ::= "a"', words, recursion=0)
    with pytest.raises(TypeError, match="text must be str, got bytes"):
        constraints.grammar(b"", words)
    with pytest.raises(TypeError, match="constraint must be Constraint or Field, got str"):
        answer("a")
    with pytest.raises(ValueError, match="token_bytes has 3 entries"):
        constraints.vocabulary(token_bytes=WORDS[:3], vocab=5, mask_token=0)


def test_text_of_a_tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import decoders, models

    byte_level = tokenizers.Tokenizer(models.BPE({"a": 0, "\u0120b": 1, "\u00c3": 2, "\u010a": 3}, []))
    byte_level.decoder = decoders.ByteLevel()
    byte_level.add_special_tokens(["<mask>"])
    words = constraints.vocabulary(byte_level, mask_token=4)
    assert constraints.choice(["a b\n"], words).accepts([0, 1, 3])
    pieces = tokenizers.Tokenizer(models.BPE({"a": 0, "\u2581b": 1, "<0x0A>": 2}, []))
    pieces.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback()])
    pieces.add_special_tokens(["<mask>"])
    words = constraints.vocabulary(pieces, mask_token=3)
    assert constraints.choice(["a b\n"], words).accepts([0, 1, 2])
    assert text_of([1]) == ""


@pytest.mark.parametrize("arguments, message", [
    (("gpt2",), "tokenizer must be a tokenizer, got 'gpt2'"), ((), "tokenizer or token_bytes must be given")])
def test_what_is_no_tokenizer_is_refused_as_such(arguments, message):
    with pytest.raises(ValueError, match=message):
        constraints.vocabulary(*arguments)
