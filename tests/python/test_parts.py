# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules in Python: each beside the part of the library with the same rule, decoded alike in every bit."""
import gc
import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest
import unmask
from unmask import constraints

VOCAB, MASK, EOS = 24, 23, 22
MEMBERS = [name for name in dir(unmask.Candidate) if not name.startswith("_")]
ROOT = pathlib.Path(__file__).resolve().parents[2]


@unmask.rule(within={"value": (0, 1)})
def certain(step, value=0.9):
    """Every token above a confidence.

    More about it."""
    return step.confidence > value


@unmask.rule
def first_ranked(step, count=2):
    return step.rank < count


@unmask.rule(name="within_entropy")
def entropies(step, bound=0.1):
    before = np.concatenate([[0], np.cumsum(step.entropy, dtype=np.float32)[:-1]]).astype(np.float32)
    largest = np.concatenate([[-np.inf], np.maximum.accumulate(step.entropy)[:-1]])
    # The sum without its largest term, as the library adds it up.
    with np.errstate(invalid="ignore"):
        rest = np.where(step.entropy >= largest, before, before - largest.astype(np.float32) + step.entropy)
    return (rest <= np.float32(bound)) & ((step.rank == 0) | np.isfinite(step.entropy))


@unmask.rule
def in_steps(step, steps=3):
    share, left = np.divmod(step.block_masked_at_first, steps)
    return step.rank < np.where(step.block_step >= steps, 0, share + (step.block_step < left))


@unmask.rule
def nothing(step):
    return np.zeros(len(step), bool)


@unmask.ranking
def margins(step):
    return step.margin


@unmask.ranking
def low_entropy(step):
    return -step.entropy.astype(np.float64)


@unmask.ranking
def leftmost(step):
    return -step.position


@unmask.filter
def ends_last(step):
    return np.where(step.token == step.eos_token, unmask.FilterResult.ranked_last, unmask.FilterResult.keep)


@unmask.filter
def ends_after_neighbour(step):
    left = step.masked[step.position - 1]
    return ~((step.token == step.eos_token) & (step.position > step.prompt_length) & left)


@unmask.stop
def ends(step):
    answer = step.tokens[step.prompt_length : step.committed_prefix]
    return unmask.Ending.eos_token if (answer == step.eos_token).any() else unmask.Ending.running


@unmask.stop
def after(step, passes=3):
    return unmask.Ending.max_steps if step.number >= passes and step.masked.any() else False


def rows_of(seed, tokens, rows):
    """Rows of a model that sees the tokens near them."""
    out = np.empty((rows.stop - rows.start, VOCAB), np.float32)
    for i, r in enumerate(range(rows.start, rows.stop)):
        near = tokens[max(0, r - 2) : r + 3]
        key = np.random.default_rng([seed, r, *np.asarray(near, dtype=np.int64)])
        out[i] = key.normal(0, 1.5, VOCAB)
        out[i, key.integers(VOCAB)] += key.uniform(0, 6)
        out[i, EOS] += 2 * (key.uniform() < 0.2)
    return out


def decode(policy, seed, *, length=26, prompt=3, block=8, sequences=2, constraint=None, policies=None, dtype=np.int64,
           **options):
    """Everything that a decode says."""
    session = unmask.Session(policy, vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=length, window=length,
                             sequences=sequences, trace=options.pop("trace", True), branches=4, **options)
    tokens = [np.full(length, 5, dtype) for _ in range(sequences)]
    for slot in range(sequences):
        session.start(slot, tokens[slot], prompt_length=prompt, block_length=block + slot, seed=seed,
                      constraint=constraint, policy=policies[slot] if policies else None)
    said = []
    while (request := session.next()) is not None:
        logits = []
        for s in request.segments:
            shown = tokens[s.slot].copy()
            for position, token in s.placed:
                shown[position] = token
            logits.append(rows_of(seed, shown, s.rows))
        session.supply(logits)
        for slot in range(sequences):
            said.append((tokens[slot].tolist(), session.report(slot)._asdict(),
                         [[getattr(c, name) for name in MEMBERS] for c in session.candidates(slot)],
                         session.planned(slot).winner))
    assert said
    return said


def same(a, b):
    return json.dumps(a, default=str) == json.dumps(b, default=str)


TWINS = [
    ("threshold(0.9)", "certain"),
    ("threshold(0.5)", "certain(0.5)"),
    ("tokens_per_step(2)", "first_ranked"),
    ("by_margin + tokens_per_step(3)", "margins + first_ranked(count=3)"),
    ("by_entropy + entropy_bound(0.8)", "low_entropy + within_entropy(0.8)"),
    ("left_to_right + any_of(threshold(0.4), tokens_per_step(1))", "leftmost + any_of(certain(0.4), first_ranked(1))"),
    ("steps_per_block(3)", "in_steps"),
    ("by_margin + at_most(2, all_of(threshold(0.2), steps_per_block(2)))",
     "margins + at_most(2, all_of(certain(0.2), in_steps(2)))"),
    ("threshold(0.4) + eos_last + stop_at_eos", "certain(0.4) + ends_last + ends"),
    ("tokens_per_step(2) + eos_gate + stop_at_eos", "first_ranked + ends_after_neighbour + ends"),
    ("threshold(0.4) + max_steps(3)", "certain(0.4) + after"),
    ("by_margin + tokens_per_step(2) + stop_at_eos + max_steps(4)", "margins + first_ranked + ends + after(4)"),
]
MORE = ["dual_cache", "single_block", "trace_credit", "sampling(1) + temperature(1.3)", "lookahead(3)", "drafts(2)",
        "edit_committed(0.4)", "remask_current_below(0.5, 4)", "slow_fast", "no_equal_neighbours"]


@pytest.mark.parametrize("library, python", TWINS)
def test_a_rule_decodes_as_the_part_with_that_rule(library, python):
    for seed in range(3):
        assert same(decode(library, seed), decode(python, seed))


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("library, python", [TWINS[0], TWINS[4], TWINS[7], TWINS[9]])
def test_it_does_with_other_parts(library, python, more):
    assert same(decode(f"{library} + {more}", 7), decode(f"{python} + {more}", 7))


def test_it_does_in_each_sequence_and_with_threads_and_int32_tokens():
    library, python = zip(*(TWINS[i] for i in (1, 4, 8)))
    options = dict(sequences=3, threads=3, dtype=np.int32)
    assert same(decode("threshold(0.9)", 5, policies=library, **options),
                decode("threshold(0.9)", 5, policies=python, **options))


def test_it_does_with_constraints():
    words = constraints.vocabulary(token_bytes=[bytes([97 + v]) for v in range(VOCAB)], vocab=VOCAB, mask_token=MASK, eos_token=EOS)
    language = constraints.regex("(ab|cde|[f-k]{2,5})+", words)
    for library, python in TWINS[:8]:
        expected = decode(library, 2, constraint=language)
        assert same(expected, decode(python, 2, constraint=language))
        assert expected[-1][1]["constraint_met"]


def test_a_rule_that_answers_nothing_ends_within_the_bound():
    said = decode("nothing", 3, sequences=1, length=20)
    assert len(said) == 17 and said[-1][1]["forced"] == 17 and said[-1][1]["end"] == "complete"


def test_a_trace_names_it_and_replays(tmp_path):
    file = tmp_path / "decode.jsonl"
    text = "margins + any_of(certain(0.6), first_ranked(1)) + ends"
    session = unmask.Session(text, vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=20, window=20, trace=str(file))
    tokens = np.full(20, 5)
    session.start(0, tokens, prompt_length=2, block_length=6)
    while (request := session.next()) is not None:
        session.supply(rows_of(4, tokens, request.segments[0].rows))
    head = json.loads(file.read_text().splitlines()[0])
    assert head["policy"] == text and "certain(0.6)" in json.dumps(head)
    code = f"""
import numpy as np, sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import unmask
session = unmask.Session("replay({str(file)!r})", vocab={VOCAB}, mask_token={MASK}, eos_token={EOS}, length=20, window=20)
tokens = np.full(20, 5)
session.start(0, tokens, prompt_length=2, block_length=6)
while (request := session.next()) is not None:
    session.supply(np.zeros((request.rows, {VOCAB}), np.float32))
print(tokens.tolist(), session.report(0).forwards)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "there is no part 'margins'" in ran.stderr  # another process needs the function, too
    again = unmask.Session(f"replay('{file}')", vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=20, window=20)
    copy = np.full(20, 5)
    again.start(0, copy, prompt_length=2, block_length=6)
    while (request := again.next()) is not None:
        again.supply(np.zeros((request.rows, VOCAB), np.float32))
    assert copy.tolist() == tokens.tolist() and again.report(0).forwards == session.report(0).forwards


def test_help_and_parts_and_requirements_know_it():
    assert "certain(value=0.9)\n    commit rule: Every token above a confidence.\n    value: in [0, 1]\n" in (
        unmask.describe_parts())
    assert unmask.policy_parts("any_of(certain(0.5), first_ranked)") == [("certain", {"value": 0.5}),
                                                                          ("first_ranked", {"count": 2})]
    assert unmask.requirements("certain", vocab=VOCAB, mask_token=MASK, prompt_length=2, length=20).most_forwards == 18
    with pytest.raises(ValueError, match=r"did you mean certain\?"):
        decode("certan", 1)
    with pytest.raises(ValueError, match=r"value of certain must be in \[0, 1\], got 2"):
        decode("certain(2)", 1)
    with pytest.raises(ValueError, match="count of first_ranked must be a whole number"):
        decode("first_ranked(1.5)", 1)


def test_arguments_arrive_as_they_are_written():
    seen = set()

    @unmask.rule(name="with_arguments")
    def looks(step, share=0.9, count=3, *, limit=-2.5):
        seen.add((share, count, limit, type(count)))
        return step.rank == 0

    for text in ("with_arguments", "with_arguments(0.123, 7, limit=1e-3)"):
        session, tokens = one_step(text)
        session.start(0, tokens[0], prompt_length=0)
        session.supply(rows_of(2, tokens[0], session.next().segments[0].rows))
    assert seen == {(0.9, 3, -2.5, int), (0.123, 7, 0.001, int)}


def test_what_a_step_is():
    kept = []

    @unmask.rule
    def looks(step):
        kept.append(step)
        return step.rank == 0

    session = unmask.Session("by_margin + looks", vocab=VOCAB, mask_token=MASK, length=12, window=12, sequences=2)
    tokens = np.arange(12)
    session.start(1, tokens, prompt_length=4, block_length=5, seed=3, sequence=8)
    while (request := session.next()) is not None:
        session.supply(rows_of(1, tokens, request.segments[0].rows))
    del session
    gc.collect()
    first = kept[0]
    assert (first.slot, first.number, first.seed, first.sequence, first.prompt_length) == (1, 0, 3, 8, 4)
    assert (first.eos_token, first.mask_token, first.committed_prefix) == (None, MASK, 4)
    assert len(first) == 5 and first.rank.tolist() == [0, 1, 2, 3, 4]
    assert sorted(first.position.tolist()) == [4, 5, 6, 7, 8]
    assert (np.diff(first.score) <= 0).all() and (first.score == first.margin).all()
    assert np.allclose(np.exp(first.log_probability), first.confidence)
    assert first.tokens.tolist() == [0, 1, 2, 3] + [MASK] * 8
    assert first.masked.tolist() == [False] * 4 + [True] * 8 and not first.committed.any()
    assert (first.block_length == 5).all() and (first.block_masked_at_first == 5).all()
    assert kept[1].committed.sum() == 1 and kept[1].block_step.tolist() == [1] * 4
    assert repr(first) == "Step(slot=1, number=0, candidates=5)"
    with pytest.raises(ValueError):
        first.confidence[0] = 1
    assert [s.number for s in kept] == list(range(8))


def one_step(policy, sequences=1):
    session = unmask.Session(policy, vocab=VOCAB, mask_token=MASK, eos_token=EOS, length=6, window=6,
                             sequences=sequences)
    tokens = [np.full(6, 5) for _ in range(sequences)]
    return session, tokens


def test_what_a_rule_raises_comes_out_with_its_traceback():
    class Mine(Exception):
        pass

    @unmask.rule
    def breaks(step):
        if step.number == 1 and step.slot == 1:
            raise Mine("halfway")
        return step.rank == 0

    session, tokens = one_step("breaks", sequences=3)
    for slot in range(3):
        session.start(slot, tokens[slot], prompt_length=0, block_length=6)
    passes = 0
    for _ in range(20):
        request = session.next()
        if request is None:
            break
        logits = [rows_of(2, tokens[s.slot], s.rows) for s in request.segments]
        passes += 1
        if passes == 2:
            with pytest.raises(Mine, match="halfway") as raised:
                session.supply(logits)
            frames = traceback.extract_tb(raised.value.__traceback__)
            assert "breaks" in [f.name for f in frames]
            if sys.version_info >= (3, 11):
                assert raised.value.__notes__ == [
                    "in the rule 'breaks' of a policy: slot 1 is cancelled, after 1 forward passes; the other "
                    "sequences of the step were decided"]
            assert session.report(1).end == unmask.Ending.cancelled
            assert session.report(0).committed == session.report(2).committed == 2
        else:
            session.supply(logits)
    assert [session.report(s).end.name for s in range(3)] == ["complete", "cancelled", "complete"]
    alone, other = one_step("tokens_per_step(1)")
    alone.start(0, other[0], prompt_length=0, block_length=6)
    while (request := alone.next()) is not None:
        alone.supply(rows_of(2, other[0], request.segments[0].rows))
    assert tokens[0].tolist() == tokens[2].tolist() == other[0].tolist()
    session.start(1, tokens[1], prompt_length=0, block_length=6, policy="first_ranked(6)")
    session.supply(rows_of(2, tokens[1], session.next().segments[0].rows))
    assert session.report(1).end == unmask.Ending.complete


def test_a_stop_that_raises_at_the_start_starts_nothing():
    @unmask.stop
    def breaks_at_once(step):
        raise KeyError("at once")

    session, tokens = one_step("certain + breaks_at_once")
    with pytest.raises(KeyError, match="at once"):
        session.start(0, tokens[0], prompt_length=0)
    assert session.next() is None
    session.start(0, tokens[0], prompt_length=0, policy="first_ranked(6)")
    assert session.next() is not None


def answer(stage, value):
    """What a function of a stage that returns `value` makes of a decode."""
    getattr(unmask, stage)(name=f"answers_{stage}")(lambda step: value(step) if callable(value) else value)
    text = {"rule": "", "ranking": "certain + ", "filter": "certain + ", "stop": "certain + "}[stage]
    session, tokens = one_step(f"{text}answers_{stage}")
    session.start(0, tokens[0], prompt_length=0, block_length=6)
    session.supply(rows_of(2, tokens[0], session.next().segments[0].rows))
    return session.report(0)


@pytest.mark.parametrize("stage, value, message", [
    ("rule", lambda s: s.confidence, r"the rule 'answers_rule' must return an array of 6, one for each candidate: bool, "
     r"true where a candidate commits; got float32 of shape \(6,\)"),
    ("rule", lambda s: s.confidence[:3] > 0, r"got bool of shape \(3,\)"),
    ("rule", lambda s: (s.confidence > 0)[:, None], r"got bool of shape \(6, 1\)"),
    ("rule", True, "got bool of one value"),
    ("rule", None, "got NoneType"),
    ("rule", lambda s: np.flatnonzero(s.confidence > 0), r"got int64 of shape \(6,\)"),
    ("rule", lambda s: [None] * 6, "got list"),
    ("ranking", lambda s: s.confidence > 0, "the ranking 'answers_ranking' must return an array of 6, one for each "
     "candidate: numbers, the highest for the candidate that commits first; got bool"),
    ("ranking", lambda s: s.confidence.astype(complex), "got complex64|got complex128"),
    ("ranking", lambda s: "high", "got <U4 of one value"),
    ("filter", lambda s: s.confidence, "or unmask.FilterResult; got float32"),
    ("filter", lambda s: np.full(6, 4), "the filter 'answers_filter' must return values of unmask.FilterResult, 0 to 3; "
     "got 4 to 4"),
    ("filter", lambda s: np.full(6, -1), "got -1 to -1"),
    ("stop", 1, "the stop 'answers_stop' must return bool, or Ending.running, eos_token, stop_tokens or max_steps; got "
     "int"),
    ("stop", None, "got NoneType"),
    ("stop", unmask.Ending.complete, "got Ending.complete"),
])
def test_wrong_answers_are_refused_by_name(stage, value, message):
    with pytest.raises(TypeError, match=message):
        answer(stage, value)


def test_answers_of_other_kinds_are_taken():
    assert answer("rule", lambda s: [True] * 6).committed == 6
    assert answer("rule", lambda s: tuple(c > 2 for c in s.confidence)).forced == 1
    assert answer("ranking", lambda s: [1, 2, 3, 4, 5, 6]).end == unmask.Ending.running
    assert answer("ranking", lambda s: np.full(6, 1e300)).end == unmask.Ending.running
    assert answer("ranking", lambda s: np.full(6, np.nan)).end == unmask.Ending.running
    assert answer("filter", lambda s: [unmask.FilterResult.excluded] * 6).committed == 1  # the bound on passes holds
    assert answer("stop", lambda s: s.number > 0).end == unmask.Ending.stop_tokens
    assert answer("stop", lambda s: np.bool_(s.number > 0)).end == unmask.Ending.stop_tokens


@pytest.mark.parametrize("make, error, message", [
    (lambda: unmask.rule(name="threshold")(lambda step: step), ValueError, "one that the library does not have"),
    (lambda: unmask.rule(lambda step: step), ValueError, "the name of a part must be letters, digits"),
    (lambda: unmask.rule(name="a b")(lambda step: step), ValueError, "got 'a b'"),
    (lambda: unmask.rule(name="fine")(lambda: 1), TypeError, "'fine' must have a parameter for the step"),
    (lambda: unmask.rule(name="fine")(lambda *all: 1), TypeError, "'fine' must have a parameter for the step"),
    (lambda: unmask.rule(name="fine")(lambda step, x: 1), TypeError, "parameter 'x' of rule 'fine' must have a number"),
    (lambda: unmask.rule(name="fine")(lambda step, x="a": 1), TypeError, "must have a number as its default"),
    (lambda: unmask.rule(name="fine")(lambda step, **x: 1), TypeError, "must have a number as its default"),
    (lambda: unmask.rule(name="fine")(lambda step, x=float("inf"): 1), ValueError, "the default of x of 'fine'"),
    (lambda: unmask.rule(name="fine", within={"x": (0, 1)})(lambda step, x=2.0: 1), ValueError, r"in \[0, 1\], got 2"),
    (lambda: unmask.rule(name="fine", within={"y": (0, 1)})(lambda step: 1), TypeError, "names 'y', which is no parameter"),
    (lambda: unmask.rule(name="fine")(lambda step, a=1, b=2, c=3, d=4, e=5: 1), ValueError, "must be at most 4, got 5"),
    (lambda: unmask.stop(3), TypeError, "unmask.stop must be given a function, got int"),
])
def test_functions_that_cannot_be_parts_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
    assert "\nfine" not in unmask.describe_parts()


def test_a_name_that_is_given_again_is_for_later_texts():
    @unmask.rule(name="again")
    def one(step):
        return step.rank < 1

    before, tokens = one_step("again")

    @unmask.rule(name="again")
    def all_of_them(step):
        return step.rank >= 0

    after, others = one_step("again")
    for session, text, passes in ((before, tokens[0], 6), (after, others[0], 1)):
        session.start(0, text, prompt_length=0, block_length=6)
        while (request := session.next()) is not None:
            session.supply(rows_of(2, text, request.segments[0].rows))
        assert session.report(0).forwards == passes
    assert one(unmask.Step(b"", b"", b"", range(8))).shape == (0,)  # still a function


def test_a_rule_cannot_call_the_session_that_calls_it():
    @unmask.rule
    def calls_back(step):
        return step.rank < session.report(0).forwards

    session, tokens = one_step("calls_back")
    session.start(0, tokens[0], prompt_length=0)
    with pytest.raises(RuntimeError, match="inside a function that decides for its policy"):
        session.supply(rows_of(2, tokens[0], session.next().segments[0].rows))
    assert session.report(0).end == unmask.Ending.cancelled


def test_a_rule_may_decode_in_another_session():
    @unmask.rule
    def nested(step):
        decode("margins + certain(0.5) + ends", 3, sequences=1, length=9)
        return step.confidence > 0.4

    assert same(decode("threshold(0.4)", 6), decode("nested", 6))


def test_threads_decode_with_rules_at_a_time():
    expected = [decode("by_margin + any_of(threshold(0.5), tokens_per_step(1))", seed) for seed in range(4)]
    found = [None] * 4

    def run(seed):
        found[seed] = decode("margins + any_of(certain(0.5), first_ranked(1))", seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert all(same(a, b) for a, b in zip(expected, found))


def test_the_search_of_a_policy_tries_it():
    tried = set()

    def engine(policy, problems):
        tried.add(policy)
        if "certain(" not in policy and "threshold(" not in policy:
            raise ValueError("not here")
        return [unmask.Decoded(True, forwards=1 if "certain(" in policy else 2) for _ in problems]

    found = unmask.tune(engine, problems=16, target=0.5, depth=0)
    assert "certain(" in found.best.policy
    assert any(p.startswith("margins + ") for p in tried)


def test_a_block_and_a_decider_take_it():
    block = unmask.Block("certain(0.4)", vocab=VOCAB, mask_token=MASK, length=6)
    other = unmask.Block("threshold(0.4)", vocab=VOCAB, mask_token=MASK, length=6)
    tokens, masked = np.full(6, MASK), np.ones(6, bool)
    block.start(tokens.copy(), masked)
    other.start(tokens.copy(), masked)
    while not block.ended:
        rows = rows_of(1, tokens, slice(0, 6))
        block.step(rows)
        other.step(rows)
    assert other.ended


def test_the_interpreter_ends_without_a_word():
    code = """
import numpy as np, unmask
@unmask.rule
def all_at_once(step):
    return step.rank >= 0
session = unmask.Session("all_at_once", vocab=4, mask_token=3, length=4, window=4)
tokens = np.zeros(4, np.int64)
session.start(0, tokens, prompt_length=0)
session.supply(np.zeros((session.next().rows, 4), np.float32))
print(tokens)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[0 0 0 0]\n", "")


# [rule]
@unmask.rule
def next_to_known(step):
    """The clearest right of a known token."""
    known = (step.position > 0) & ~step.masked[step.position - 1]
    margin = np.where(known, step.margin, -1)
    return (margin >= 0) & (margin == margin.max())
# [/rule]


PROGRAM = """
#include "my_parts.hpp"
#include <unmask/unmask.hpp>
#include <cstdio>
#include <vector>
int main() {
  int vocab = 0, length = 0, prompt = 0, block = 0;
  if (std::scanf("%d %d %d %d", &vocab, &length, &prompt, &block) != 4) return 1;
  std::vector<float> rows(std::size_t(vocab) * std::size_t(length));
  for (float& x : rows) if (std::scanf("%f", &x) != 1) return 1;
  std::vector<int> tokens(std::size_t(length), 5);
  constexpr unmask::policy mine{unmask::by_entropy{}, next_to_known{}};
  unmask::session<std::remove_const_t<decltype(mine)>> s(mine, {.vocab = vocab, .mask_token = vocab - 1},
                                                         {.length = length, .window = length});
  s.start(0, {tokens.data(), length}, {.prompt_length = prompt, .length = length, .block_length = block});
  while (const auto request = s.next()) {
    const unmask::segment& g = request->segments[0];
    s.supply(unmask::host_logits<float>(rows.data() + std::size_t(g.rows.first) * std::size_t(vocab),
                                        g.rows.size(), vocab));
    for (const unmask::commit_entry& e : s.committed(0)) std::printf("%d:%d ", e.position, e.token);
    std::printf("/ ");
  }
}
"""


def test_the_rule_of_the_page_is_the_same_in_cpp(tmp_path):
    """The page goes from the rule above to the one of my_parts.hpp."""
    page = (ROOT / "include/unmask/policy/README.md").read_text()
    assert re.search(r"region tests/python/test_parts.py rule", page)
    assert re.search(r"region examples/my_parts.hpp reduction", page)
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "rule.cpp").write_text(PROGRAM)
    subprocess.run([compiler, "-std=c++20", "-I", ROOT / "include", "-I", ROOT / "examples", tmp_path / "rule.cpp",
                    "-o", tmp_path / "rule"], check=True)
    for seed in range(20):
        random = np.random.default_rng(seed)
        length, prompt, block = 18, int(random.integers(0, 5)), int(random.integers(2, 19))
        rows = random.normal(0, 2, (length, VOCAB)).astype(np.float32)
        rows[random.integers(0, length, 4)] = rows[0]  # ties
        text = f"{VOCAB} {length} {prompt} {block}\n" + "\n".join(repr(float(x)) for x in rows.ravel())
        ran = subprocess.run([tmp_path / "rule"], input=text, capture_output=True, text=True, check=True)
        session = unmask.Session("by_entropy + next_to_known", vocab=VOCAB, mask_token=MASK, length=length,
                                 window=length)
        tokens = np.full(length, 5)
        session.start(0, tokens, prompt_length=prompt, block_length=block)
        said = ""
        while (request := session.next()) is not None:
            session.supply(rows[request.segments[0].rows])
            said += "".join(f"{c.position}:{c.token} " for c in session.committed(0)) + "/ "
        assert said == ran.stdout


def test_the_small_llada_and_its_server_decode_with_it():
    from unmask.tiny_llada import TinyLlada, problems
    from unmask.tiny_llada import decode as answer

    model, prompt = TinyLlada(), problems()[3]["prompt"]
    expected = answer(model, "threshold(0.9) + stop_at_eos", prompt)
    found = answer(model, "certain + ends", prompt)
    assert found.text == expected.text and found.report.forwards == expected.report.forwards
    pytest.importorskip("uvicorn")
    testing = pytest.importorskip("starlette.testclient")
    from unmask.serve import Server, Tiny

    with testing.TestClient(Server(Tiny()).app, base_url="http://localhost") as client:
        for policy in ("threshold(0.9) + stop_at_eos", "certain + ends"):
            said = client.post("/v1/completions", json={"model": "tiny", "prompt": prompt, "policy": policy}).json()
            assert said["choices"][0]["text"] == expected.text, said
        assert client.post("/v1/completions", json={"model": "tiny", "prompt": prompt, "policy": "certan"}).status_code == 400
