# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Session beside a decoder in double precision, its tensors, its errors, its threads."""
import ast
import gc
import json
import pathlib
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch
import unmask
from unmask import _unmask
from lent import LentSession

VOCAB, MASK, END, LENGTH, PROMPT = 67, 66, 65, 24, 5


class Model:
    """Logits that depend on the neighbours, as float32."""

    def __init__(self, seed):
        draw = np.random.default_rng(seed)
        self.own, self.left, self.right = (
            draw.normal(0, 2, shape).astype(np.float32)
            for shape in ((LENGTH, VOCAB), (VOCAB, VOCAB), (VOCAB, VOCAB))
        )

    def __call__(self, tokens):
        tokens = np.asarray(tokens)
        return self.own + self.left[np.roll(tokens, 1)] + self.right[np.roll(tokens, -1)]


def probabilities(z, forbidden=(MASK,)):
    z = np.array(z, dtype=np.float64)
    z[:, list(forbidden)] = -np.inf
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def naive_threshold(model, tokens, block_length, threshold, allowed=None):
    """The rule of "threshold(t)" in a page of its own. Returns the forward passes."""
    forwards = 0
    for first in range(PROMPT, LENGTH, block_length):
        block = range(first, min(first + block_length, LENGTH))
        while any(tokens[p] == MASK for p in block):
            z = model(tokens).astype(np.float64)
            if allowed is not None:
                z[~allowed] = -np.inf
            p, forwards = probabilities(z), forwards + 1
            open_ = [i for i in block if tokens[i] == MASK]
            chosen = [i for i in open_ if p[i].max() > threshold]
            for i in chosen or [max(open_, key=lambda i: p[i].max())]:
                tokens[i] = p[i].argmax()
    return forwards


def new_session(policy="threshold(0.6)", **options):
    return unmask.Session(
        policy, **{**dict(vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH), **options}
    )


def canvas(seed, dtype=np.int64):
    tokens = np.full(LENGTH, MASK, dtype=dtype)
    tokens[:PROMPT] = np.random.default_rng(seed).integers(0, END, PROMPT)
    return tokens


def decode(session, model, tokens, slot=0, to=lambda z: z, **start):
    session.start(slot, tokens, prompt_length=PROMPT, **start)
    while (request := session.next()) is not None:
        (segment,) = request.segments
        assert segment.rows.stop - segment.rows.start == request.rows
        session.supply(to(model(tokens))[segment.rows])
    return session.report(slot)


@pytest.mark.parametrize("seed", range(20))
def test_decodes_as_the_rule_says(seed):
    model, ours = Model(seed), canvas(seed)
    theirs = ours.copy()
    report = decode(new_session(), model, ours, block_length=7)
    assert report.forwards == naive_threshold(model, theirs, 7, 0.6)
    assert ours.tolist() == theirs.tolist()
    assert report.end == unmask.Ending.complete and report.masked == 0
    assert report.committed == LENGTH - PROMPT and report.committed_prefix == LENGTH
    assert repr(report).startswith(f"Report(Ending.complete, forwards={report.forwards}, ")


def test_tokens_of_every_kind_are_written_in_place():
    model, expected = Model(1), canvas(1)
    decode(new_session(), model, expected)
    for tokens in (
        canvas(1, np.int32),
        torch.from_numpy(canvas(1)),
        torch.from_numpy(canvas(1, np.int32)),
        torch.from_numpy(np.tile(canvas(1), (3, 1)))[1],
    ):
        address = tokens.data_ptr() if torch.is_tensor(tokens) else tokens.ctypes.data
        decode(new_session(), model, tokens, to=torch.from_numpy)
        assert tokens.tolist() == expected.tolist()
        assert address == (tokens.data_ptr() if torch.is_tensor(tokens) else tokens.ctypes.data)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_logits_are_read_where_they_are(dtype):
    """Rows with a stride and with NaN around them decode as the same numbers in float32."""
    model, expected, ours = Model(2), canvas(2), canvas(2)
    decode(new_session(), model, expected, to=lambda z: torch.from_numpy(z).to(dtype).float())

    def padded(z):
        wide = torch.full((LENGTH, VOCAB + 9), float("nan"), dtype=dtype)
        wide[:, :VOCAB] = torch.from_numpy(z)
        return wide

    decode(new_session(), model, ours, to=padded)
    assert ours.tolist() == expected.tolist()


def test_a_batch_decodes_as_its_sequences_do_alone():
    models = [Model(seed) for seed in (3, 4, 5)]
    policy = "trace_credit + threshold(0.6) + temperature(0.9)"
    alone = [canvas(seed) for seed in (3, 4, 5)]
    for model, tokens in zip(models, alone):
        decode(new_session(policy), model, tokens, block_length=6)
    for packed in (False, True):
        together = [canvas(seed) for seed in (3, 4, 5)]
        session = new_session(policy, sequences=3, threads=2)
        for slot, tokens in enumerate(together):
            session.start(slot, tokens, prompt_length=PROMPT, block_length=6)
        while (request := session.next()) is not None:
            rows = [models[s.slot](together[s.slot])[s.rows] for s in request.segments]
            session.supply(np.concatenate(rows) if packed else rows)
        assert [t.tolist() for t in together] == [t.tolist() for t in alone]


@pytest.mark.parametrize("as_list", [False, True])
def test_a_bitmask_holds_for_its_row(as_list):
    model, ours = Model(6), canvas(6)
    theirs = ours.copy()
    allowed = np.random.default_rng(6).random((LENGTH, VOCAB)) < 0.3
    allowed[:, 0] = True
    bits = np.zeros((LENGTH, (VOCAB + 31) // 32), dtype=np.uint32)
    for row, column in np.argwhere(allowed):
        bits[row, column // 32] |= np.uint32(1 << (column % 32))
    session = new_session()
    session.start(0, ours, prompt_length=PROMPT)
    while (request := session.next()) is not None:
        rows = request.segments[0].rows
        logits, mask = model(ours)[rows], bits[rows]
        if as_list:
            session.supply([logits], allowed=[mask])
        else:
            session.supply(torch.from_numpy(logits), allowed=torch.from_numpy(mask.view(np.int32)))
    naive_threshold(model, theirs, LENGTH, 0.6, allowed)
    assert ours.tolist() == theirs.tolist()
    assert all(allowed[p, ours[p]] for p in range(PROMPT, LENGTH))


def test_guidance_is_that_of_llada():
    conditional, other, scale = Model(7), Model(8), 1.5
    ours, theirs = canvas(7), canvas(7)
    session = new_session()
    session.start(0, ours, prompt_length=PROMPT)
    while (request := session.next()) is not None:
        rows = request.segments[0].rows
        session.supply(conditional(ours)[rows], unconditional=other(ours)[rows], cfg_scale=scale)
    guided = lambda t: other(t) + (scale + 1) * (conditional(t) - other(t))  # noqa: E731
    naive_threshold(guided, theirs, LENGTH, 0.6)
    assert ours.tolist() == theirs.tolist()


def test_a_text_that_is_there_is_edited():
    session = unmask.Session("threshold + edit_committed(0.5) + edited_blocks", vocab=4, mask_token=3, length=5, window=5)
    tokens = np.array([0, 1, 1, 1, 1], np.int32)
    session.start(0, tokens, prompt_length=1, editable=np.array([0, 0, 2, 1, 2], np.uint8))
    rows = np.log(np.array([[.8, .1, .1], [.8, .1, .1], [.8, .1, .1], [.1, .1, .8], [.4, .3, .3]], np.float32))
    logits = np.concatenate([rows, np.full((5, 1), -9, np.float32)], 1)
    while (request := session.next()) is not None:
        session.supply(logits[request.segments[0].rows])
    assert tokens.tolist() == [0, 1, 0, 2, 1] and session.report(0).rewritten == 1
    with pytest.raises(ValueError, match=r"^editable must be 0 \(fixed\), 1 \(masked\) or 2 \(committed\), got 3"):
        session.start(0, tokens, prompt_length=1, editable=np.full(5, 3, np.uint8))


def test_what_a_step_wrote():
    model, tokens = Model(9), canvas(9)
    session = new_session(trace=True)
    session.start(0, tokens, prompt_length=PROMPT, editable=np.arange(LENGTH) % 3 > 0, suppressed=[1, 2])
    open_ = [p for p in range(PROMPT, LENGTH) if p % 3]
    assert [p for p in range(PROMPT, LENGTH) if tokens[p] == MASK and p % 3] == open_
    step = 0
    while (request := session.next()) is not None:
        before, z = tokens.copy(), model(tokens)
        session.supply(z[request.segments[0].rows])
        p = probabilities(z, (MASK, 1, 2))
        written = session.committed()
        assert [c.position for c in written] == np.flatnonzero(tokens != before).tolist()
        for c in written:
            assert (c.slot, c.step, c.block_step, c.token) == (0, step, step, tokens[c.position])
            assert repr(c).startswith(f"Commit(slot=0, position={c.position}, token={c.token}, ")
            assert c.log_probability == pytest.approx(np.log(p[c.position].max()), abs=1e-5)
        candidates = session.candidates()
        assert [c.position for c in candidates] == [i for i in open_ if before[i] == MASK]
        assert [c.position for c in candidates if c.committed] == [c.position for c in written]
        for c in candidates:
            row = np.sort(p[c.position])[::-1]
            assert c.committed == (c.outcome in (unmask.Outcome.committed, unmask.Outcome.forced))
            assert c.part == (-1 if c.outcome == unmask.Outcome.forced else 0)
            assert c.confidence == pytest.approx(row[0], abs=1e-5)
            assert c.margin == pytest.approx(row[0] - row[1], abs=1e-5)
            assert c.entropy == pytest.approx(-(row[row > 0] * np.log(row[row > 0])).sum(), abs=1e-4)
        step += 1


@pytest.mark.parametrize(
    "policy, window, forwards",
    [("threshold(0.6)", 7, 19), ("adaptive_threshold", 19, 19), ("by_entropy + timesteps(9) + single_block", 19, 27)],
)
def test_a_policy_says_what_it_requires(policy, window, forwards):
    model = dict(vocab=VOCAB, mask_token=MASK, length=LENGTH)
    found = unmask.requirements(policy, **model, prompt_length=PROMPT, block_length=7)
    assert (found.window, found.most_forwards) == (window, forwards)
    assert unmask.requirements(policy, **model, prompt_length=PROMPT, block_length=7, sequences=3).state_bytes == (
        3 * found.state_bytes)
    unmask.Session(policy, **model, window=window).start(0, canvas(1), prompt_length=PROMPT, block_length=7)
    with pytest.raises(ValueError, match="window"):
        unmask.Session(policy, **model, window=window - 1).start(0, canvas(1), prompt_length=PROMPT, block_length=7)
    assert repr(found).startswith(f"Requirements(window={window}, most_forwards={forwards}, state_bytes=")
    with pytest.raises(ValueError, match="^prompt_length must be at most length = 24, got 99"):
        unmask.requirements(policy, **model, prompt_length=99)


@pytest.mark.parametrize("flat", [False, True])
def test_rows_that_truncation_reads_twice_are_counted(flat):
    """A flat row of 300 logits has a nucleus larger than the 64 that are held."""
    session = unmask.Session("tokens_per_step + sampling + top_p(0.9)", vocab=300, mask_token=299, length=4, window=4)
    session.start(0, np.zeros(4, np.int32), prompt_length=0, block_length=4)
    session.next()
    logits = np.zeros((4, 300), np.float32)
    logits[:, 7] = 0 if flat else 20
    session.supply(logits)
    assert session.report().second_reads == (4 if flat else 0)


def test_a_trace_is_recorded(tmp_path):
    model = Model(9)
    file = tmp_path / "decode.jsonl"
    session = LentSession(
        new_session("by_margin + threshold(0.6)", trace=str(file), model="made up", token_text="<{}>".format))
    session.start(0, canvas(9), prompt_length=PROMPT)
    first = session.tokens[0].tolist()
    steps = []
    while (request := session.next()) is not None:
        assert session.next() is not None  # the same
        session.supply(model(session.tokens[0])[request.segments[0].rows])
        steps.append([(c.position, c.token, c.part) for c in session.candidates()])
    tokens = session.answers[0]
    head, *lines, end = [json.loads(line) for line in file.read_text().splitlines()]
    assert head["format"] == "unmask-trace/1" and head["model"]["name"] == "made up"
    assert head["parts"] == ["by_margin", "threshold(0.6)"]
    assert head["sequences"][0]["tokens"] == first
    assert [list(zip(line["position"], line["token"], line["by"])) for line in lines] == steps
    assert end["tokens"] == tokens.tolist() and end["end"] == "complete"
    texts = {token: text for line in [head, *lines, end] for token, text in line.get("text", {}).items()}
    assert texts == {str(t): f"<{t}>" for t in {*first, *(t for s in steps for _, t, _ in s), *tokens.tolist()}}
    with pytest.raises(RuntimeError, match="/no/such"):
        new_session(trace="/no/such/folder/file")


def written(session, model, tokens, **start):
    """Step, position, token and log-probability of what a decode writes; without branches."""
    session = LentSession(session)
    session.start(0, tokens, prompt_length=PROMPT, **start)
    entries = []
    while (request := session.next()) is not None:
        session.supply(model(session.tokens[0])[request.segments[0].rows])
        entries += [(c.step, c.position, c.token, c.log_probability) for c in session.committed()]
    tokens[:] = session.answers[0]
    return entries


@pytest.mark.parametrize("policy", [
    "trace_credit + threshold(0.6) + dual_cache",
    "by_margin + tokens_per_step(2) + temperature(1.5)",
    "threshold(0.5) + sampling(1) + top_k(4)",
    "threshold(0.6) + remask_current_below(0.4, 3)",
])
def test_a_trace_is_replayed(tmp_path, policy):
    model, tokens = Model(9), canvas(9)
    given = tokens == MASK
    given[PROMPT + 2] = False
    tokens[PROMPT + 2] = 7
    again = tokens.copy()
    file = tmp_path / "decode.jsonl"
    session = new_session(policy, trace=str(file))
    first = written(session, model, tokens, block_length=8, seed=3, editable=given)
    session = new_session(f"replay('{file}')", trace=True)
    # The draws are those of the trace, and so the seed has no effect.
    assert written(session, model, again, block_length=8, seed=4, editable=given) == first
    assert again.tolist() == tokens.tolist()
    assert len(first) >= LENGTH - PROMPT - 1

    # Other logits: the same tokens in the same steps, with the probabilities that these give.
    other, tokens = Model(10), np.where(given, MASK, tokens)
    session = new_session(f"replay('{file}', sequence=0)")
    second = written(session, other, tokens, block_length=8, editable=given)
    assert [entry[:3] for entry in second] == [entry[:3] for entry in first]
    assert [entry[3] for entry in second] != [entry[3] for entry in first]

    with pytest.raises(ValueError, match="position 7 is masked, in the trace it is fixed"):
        session.start(0, tokens, prompt_length=PROMPT)
    with pytest.raises(ValueError, match="prompt_length must be that of the trace, 5, got 4"):
        session.start(0, tokens, prompt_length=4, editable=given)
    with pytest.raises(ValueError, match="column 8: file '/no/such': the file cannot be read"):
        new_session("replay('/no/such')")
    with pytest.raises(ValueError, match="1 sequences, none has the index 1"):
        new_session(f"replay('{file}', 1)")


def test_probabilities_of_asked_tokens():
    model, tokens = Model(10), canvas(10)
    session = new_session("tokens_per_step(1) + probability_of([3, 4])")
    session.start(0, tokens, prompt_length=PROMPT, block_length=1)
    request = session.next()
    z = model(tokens)
    session.supply(z[request.segments[0].rows])
    p = probabilities(z)[PROMPT]
    answers = {a.token: a for a in session.probabilities()}
    assert answers[3].probability == pytest.approx(p[3], rel=1e-4)
    assert answers[4].share == pytest.approx(p[4] / (p[3] + p[4]), rel=1e-4)


@pytest.mark.parametrize("policy, options", [
    ("daedal(4, 0.5, 0.3, 3, 0.4, 0.6, 4)", {}),
    ("rho_eos(4, 0.5, 2, 0.3, 0.7, growth=linear)", {}),
    ("joint_threshold_indel(0.3, 0.2, 3, erase_token=2, insert_token=4)", dict(suppress_mask=False)),
])
def test_a_trace_in_which_text_moves_is_replayed(tmp_path, policy, options):
    model, file = Model(9), tmp_path / "decode.jsonl"
    first, again = canvas(9), canvas(9)
    entries = written(new_session(policy, eos_token=END, trace=str(file), **options), model, first, block_length=8)
    assert '"after":' in file.read_text()
    session = new_session(f"replay('{file}')", eos_token=END, **options)
    other = written(session, model, again, block_length=8)
    assert [e[:3] for e in other] == [e[:3] for e in entries]
    assert [e[3] for e in other] == pytest.approx([e[3] for e in entries], abs=1e-5)
    assert again.tolist() == first.tolist()


def test_soft_tokens_are_the_most_probable_of_what_stays_masked():
    model, tokens = Model(10), canvas(10)
    session = new_session("tokens_per_step(1)")
    with pytest.raises(ValueError, match=r"soft_tokens must be in \[0, 64\], got 65"):
        session.start(0, tokens, prompt_length=PROMPT, soft_tokens=65)
    session.start(0, tokens, prompt_length=PROMPT, block_length=8, soft_tokens=3)
    seen = 0
    while (request := session.next()) is not None:
        z = model(tokens)
        session.supply(z[request.segments[0].rows])
        soft = session.soft_tokens()
        p = probabilities(z)
        assert {s.position for s in soft} <= set(np.flatnonzero(tokens == MASK))
        for position in sorted({s.position for s in soft}):
            mine, best = [s for s in soft if s.position == position], np.argsort(-p[position], kind="stable")[:3]
            assert [s.token for s in mine] == best.tolist()
            assert [s.probability for s in mine] == pytest.approx(p[position][best], rel=1e-4)
            assert sum(s.share for s in mine) == pytest.approx(1, rel=1e-5)
            seen += 1
    assert seen > LENGTH - PROMPT
    session = new_session("tokens_per_step(1) + lookahead(2)", branches=2)
    with pytest.raises(ValueError, match="soft_tokens does not combine with lookahead"):
        session.start(0, canvas(10), prompt_length=PROMPT, soft_tokens=1)


def test_a_lookahead_policy_asks_for_its_branches():
    tokens, model = canvas(11), Model(11)
    session = new_session("threshold(0.9) + lookahead(2)", branches=2)
    session.start(0, tokens, prompt_length=PROMPT)
    seen = 0
    while (request := session.next()) is not None:
        rows = []
        for s in request.segments:
            branch = tokens.copy()
            for position, token in s.placed:
                branch[position], seen = token, seen + 1
            rows.append(model(branch)[s.rows])
        session.supply(rows)
    assert seen > 0 and MASK not in tokens


def test_the_plan_names_the_branch_to_keep_and_what_is_final():
    """A lookahead engine keeps the winner's K/V; one that decodes forward freezes whole blocks."""
    policy = "threshold(0.9) + lookahead(2) + block_pipeline(0.3, 0.6)"
    winners, final = 0, {}
    for seed in range(8):
        tokens, model = canvas(seed), Model(seed)
        session = new_session(policy, branches=2)
        session.start(0, tokens, prompt_length=PROMPT, block_length=4)
        assert session.planned().refresh and session.planned().winner == 0
        while (request := session.next()) is not None:
            rows = []
            for s in request.segments:
                branch = tokens.copy()
                for position, token in s.placed:
                    branch[position] = token
                rows.append(model(branch)[s.rows])
            session.supply(rows)
            plan = session.planned(0)
            if plan.winner > 0:
                ((position, token),) = request.segments[plan.winner].placed
                assert tokens[position] == token
                winners += 1
            final |= {(seed, p): tokens[p] for p in range(plan.freeze.start, plan.freeze.stop)}
        assert all(tokens[p] == token for (at, p), token in final.items() if at == seed)
    assert winners > 0 and len(final) > 8


SERVED = [
    dict(policy=None, seed=0),
    dict(policy="trace_credit + tokens_per_step(2)", seed=1),
    dict(policy="tokens_per_step(2) + sampling(0.8)", seed=2),
    dict(policy="tokens_per_step + remask_current_below(0.2)", seed=3),
    dict(policy="adaptive_threshold(0.7)", seed=4),
    dict(policy="tokens_per_step(2) + sampling + top_p(0.9)", seed=5),
]


@pytest.mark.parametrize("left_out", [False, True])
def test_each_request_has_a_policy_guidance_and_a_bitmask_of_its_own(left_out):
    """As a session of that policy decodes it alone, whichever slots a pass leaves out."""
    models = [(Model(20 + i), Model(40 + i)) for i in range(len(SERVED))]
    scales = [0.0, 0.5, 1.0, 0.0, 2.0, 0.25]
    bits = np.random.default_rng(3).integers(0, 2**32, (len(SERVED), 3), dtype=np.uint32)
    bits = (bits | 2).view(np.int32)  # token 1 is allowed everywhere

    def inputs(i, tokens, rows):
        ours, other = (m(tokens)[rows] for m in models[i])
        return ours, np.tile(bits[i], (len(ours), 1)), other

    alone = []
    for i, wanted in enumerate(SERVED):
        tokens = canvas(i)
        session = new_session(wanted["policy"] or "threshold(0.6)")
        session.start(0, tokens, prompt_length=PROMPT, block_length=7, seed=wanted["seed"])
        while (request := session.next()) is not None:
            logits, allowed, other = inputs(i, tokens, request.segments[0].rows)
            session.supply(logits, allowed=allowed, unconditional=other, cfg_scale=scales[i])
        alone.append((tokens.tolist(), session.report().forwards))

    canvases = [canvas(i) for i in range(len(SERVED))]
    session = new_session(sequences=len(SERVED))
    for i, wanted in enumerate(SERVED):
        session.start(i, canvases[i], prompt_length=PROMPT, block_length=7, **wanted)
    for step in range(1000):
        slots = [i for i in range(len(SERVED)) if not left_out or (i + step) % 3]
        request = session.next(slots if left_out else None)
        if request is None:
            if session.next() is None:
                break
            session.abandon()
            continue
        assert {s.slot for s in request.segments} <= set(slots)
        rows = [inputs(s.slot, canvases[s.slot], s.rows) for s in request.segments]
        logits, allowed, other = (list(x) for x in zip(*rows))
        session.supply(
            logits,
            allowed=allowed,
            unconditional=other,
            cfg_scale=[scales[s.slot] for s in request.segments],
        )
    assert [(t.tolist(), session.report(i).forwards) for i, t in enumerate(canvases)] == alone


def test_equal_prompts_draw_other_tokens_with_another_sequence():
    def drawn(**start):
        tokens = canvas(3)
        decode(new_session("tokens_per_step + sampling(2)"), Model(3), tokens, **start)
        return tokens.tolist()

    assert drawn(seed=5) == drawn(seed=5)
    assert drawn(seed=5) != drawn(seed=5, sequence=1)
    assert drawn(seed=5) != drawn(seed=6)


def test_what_does_not_go_with_a_policy_of_its_own_is_refused():
    tokens = canvas(1)
    session = new_session()
    with pytest.raises(ValueError, match="treshold"):
        session.start(0, tokens, prompt_length=PROMPT, policy="treshold(0.5)")
    with pytest.raises(ValueError, match="layers"):  # this session does not know how many
        session.start(0, tokens, prompt_length=PROMPT, policy="threshold + early_skip + block_cache(16, 4)")
    session.start(0, tokens, prompt_length=PROMPT)
    with pytest.raises(ValueError, match="slot"):
        session.next([1])
    assert session.next([0]).rows == LENGTH - PROMPT
    with pytest.raises(RuntimeError, match="while a request is out"):
        session.next([0])
    logits = Model(1)(tokens)[PROMPT:]
    with pytest.raises(ValueError, match="one for each of the 1 tensors"):
        session.supply([logits], unconditional=[logits], cfg_scale=[1.0, 2.0])
    with pytest.raises(ValueError, match="a number with one tensor"):
        session.supply(logits, unconditional=logits, cfg_scale=[1.0])
    session.supply(logits)
    assert session.report().forwards == 1


def test_a_request_is_abandoned_and_asked_for_again():
    session, model = new_session(), Model(12)
    tokens, expected = canvas(12), canvas(12)
    session.start(0, tokens, prompt_length=PROMPT)
    with pytest.raises(RuntimeError, match="abandon.. without a request"):
        session.abandon()
    while session.next() is not None:
        session.abandon()  # the pass failed
        (segment,) = session.next().segments
        session.supply(model(tokens)[segment.rows])
    decode(new_session(), model, expected)
    assert tokens.tolist() == expected.tolist()


def test_the_sequences_of_a_request_are_cancelled():
    session, model = new_session(), Model(12)
    session.start(0, canvas(12), prompt_length=PROMPT)
    with pytest.raises(RuntimeError, match="cancel_request.. without a request"):
        session.cancel_request()
    session.next()
    session.cancel_request()
    assert session.next() is None and session.report().end == unmask.Ending.cancelled
    tokens, expected = canvas(12), canvas(12)
    decode(session, model, tokens)
    decode(new_session(), model, expected)
    assert tokens.tolist() == expected.tolist()


def test_a_slot_is_cancelled_and_used_again():
    session, model = new_session(), Model(12)
    session.start(0, canvas(12), prompt_length=PROMPT)
    session.cancel(0)
    assert session.next() is None and session.report().end == unmask.Ending.cancelled
    first, again = canvas(12), canvas(12)
    decode(new_session(), model, first)
    decode(session, model, again)
    assert again.tolist() == first.tolist()


def test_an_ended_sequence_no_longer_owns_its_tokens():
    session = new_session(sequences=2)
    tokens, other, models = canvas(13), canvas(14), (Model(13), Model(14))
    session.start(0, tokens, prompt_length=LENGTH - 1)
    session.start(1, other, prompt_length=PROMPT, block_length=1)
    step = 0
    while (request := session.next()) is not None:
        session.supply([models[s.slot]((tokens, other)[s.slot])[s.rows] for s in request.segments])
        step += 1
        if session.report(0).end == unmask.Ending.complete:
            tokens[-1] = 7
    assert step > 1 and tokens[-1] == 7


def test_tensors_live_as_long_as_the_session_needs_them():
    session = new_session()
    tokens = torch.from_numpy(canvas(15)).clone()
    session.start(0, tokens, prompt_length=PROMPT)
    view = tokens.numpy()
    del tokens
    gc.collect()
    model = Model(15)
    while (request := session.next()) is not None:
        session.supply(model(view)[request.segments[0].rows])
    expected = canvas(15)
    decode(new_session(), model, expected)
    assert view.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: new_session("treshold(0.9)"), "did you mean threshold"),
        (lambda: new_session("threshold(2)"), "threshold"),
        (lambda: new_session(vocab=0), "^vocab must be at least 1"),
        (lambda: new_session(window=0), "^window must be at least 1, got 0"),
        (lambda: new_session(branches=17), "^branches must be in"),
        (lambda: new_session(eos_token=VOCAB), r"^eos_token must be in .* or None, got"),
        (lambda: new_session(eos_token=MASK), "^eos_token must be another token than the session's mask_token = 66"),
        (lambda: new_session(sequences=2**30), r"^sequences must .* \(1 \+ the session's branches\) \* the session's window"),
        (lambda: new_session(threads=0), "threads must be in"),
        *([] if _unmask.has_cuda else [(lambda: new_session(stream=0), "stream must be None")]),
        (lambda: new_session().start(3, canvas(0), prompt_length=1), "^slot must be in .* the session's sequences = 1"),
        (lambda: new_session().start(0, canvas(0).astype(np.float32), prompt_length=1), "tokens must be int32"),
        (lambda: new_session().start(0, canvas(0)[::2], prompt_length=1), "last stride of 1, got 2"),
        (lambda: new_session().start(0, canvas(0)[None], prompt_length=1), "one dimension"),
        (lambda: new_session().start(0, canvas(0), prompt_length=99), "^prompt_length must be at most length = 24"),
        (lambda: new_session().start(0, np.zeros(LENGTH + 1, np.int32), prompt_length=1),
         "^length must be at most the session's length = 24, got 25"),
        (lambda: new_session().start(0, canvas(0), prompt_length=1, suppressed=[0] * 1000), r"^len\(suppressed\) must"),
        (lambda: new_session().start(0, canvas(0), prompt_length=1, suppressed=[VOCAB]), "^suppressed must be a token"),
        (lambda: new_session().start(0, canvas(0), prompt_length=1, editable=np.ones(3, bool)),
         r"^len\(editable\) must be 0 or at least length = 24"),
        (
            lambda: new_session().start(0, canvas(0), prompt_length=1, editable=np.zeros(LENGTH)),
            "editable must be bool or uint8",
        ),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_bad_logits_leave_the_session_as_it_was():
    session, model, tokens = new_session(), Model(16), canvas(16)
    with pytest.raises(RuntimeError, match="next"):
        session.supply(model(tokens))
    with pytest.raises(RuntimeError, match="next"):
        session.supply([model(tokens)])
    with pytest.raises(RuntimeError, match="candidates.. of a session without trace"):
        session.candidates()
    session.start(0, tokens, prompt_length=PROMPT)
    rows = session.next().segments[0].rows
    good = model(tokens)[rows]
    for bad, says in [
        (good[:-1], "rows of the logits must be Request.rows = 19, got 18"),
        ([good[:-1]], "rows of a segment's logits must be the length of Segment.rows = 19, got 18"),
        ([], "number of tensors must be the number of segments, 1, got 0"),
        (good[:, :-1].copy(), "columns"),
        ([good[:, :-1].copy()], "columns"),
        (good.astype(np.float64), "float32, bfloat16 or float16, got float64"),
        (np.asfortranarray(good), "last stride"),
        (good[0], "rows and columns"),
    ]:
        with pytest.raises(ValueError, match=says):
            session.supply(bad)
    for bad, says in [
        (np.zeros((1, 3), np.uint32), "rows"),
        (np.zeros((len(good), 2), np.uint32), "columns"),
        (np.zeros((len(good), 3), np.uint8), "int32"),
    ]:
        with pytest.raises(ValueError, match=says):
            session.supply(good, allowed=bad)
    with pytest.raises(ValueError, match="dtype of the logits"):
        session.supply(good, unconditional=good.astype(np.float16))
    session.supply(good)
    while (request := session.next()) is not None:
        session.supply(model(tokens)[request.segments[0].rows])
    expected = canvas(16)
    decode(new_session(), model, expected)
    assert tokens.tolist() == expected.tolist()


def warnings_of(rows, supplies=2, **options):
    """The warnings of a decode whose model gives these rows, and its report."""
    session = new_session("threshold(0.9)", **options)
    session.start(0, canvas(21), prompt_length=PROMPT, block_length=LENGTH)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(supplies):
            session.supply(rows[session.next().segments[0].rows])
    return [str(w.message) for w in seen if w.category is RuntimeWarning], session.report()


def test_probabilities_in_place_of_logits_are_warned_about_once():
    p = probabilities(Model(21)(canvas(21)), forbidden=()).astype(np.float32)
    for rows in (p, p.astype(np.float16), torch.tensor(p).bfloat16()):
        (said,), _ = warnings_of(rows)
        assert "add up to 1, as probabilities do: supply logits or log-probabilities" in said
    padded = np.concatenate([p, np.full((LENGTH, 3), np.nan, np.float32)], axis=1)
    assert len(warnings_of(padded)[0]) == 1
    z = Model(21)(canvas(21))
    for rows in (z, np.log(p), p / 2, -p, p + 1, np.zeros_like(p)):
        assert warnings_of(rows)[0] == []


def test_a_warning_that_is_an_error_changes_nothing():
    p = probabilities(Model(22)(canvas(22)), forbidden=()).astype(np.float32)
    session, tokens = new_session(), canvas(22)
    session.start(0, tokens, prompt_length=PROMPT)
    rows = session.next().segments[0].rows
    before = tokens.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="as probabilities do"):
            session.supply(p[rows])
    assert tokens.tolist() == before and session.report().forwards == 0
    session.supply(p[rows])


def test_a_model_of_nan_is_warned_about_once_and_shown():
    said, report = warnings_of(np.full((LENGTH, VOCAB), np.nan, np.float32), supplies=3)
    assert len(said) == 1 and "NaN or infinite" in said[0] and "report(0).invalid_rows is 19" in said[0]
    assert f"forced=3, invalid_rows={report.invalid_rows}" in repr(report)


def test_a_report_says_where_the_answer_ends():
    rows = np.zeros((LENGTH, VOCAB), np.float32)
    rows[np.arange(LENGTH), np.arange(LENGTH) % 4] = 30
    session, tokens = new_session("threshold(0.5) + stop_sequence([2, 3])", eos_token=END), canvas(23)
    session.start(0, tokens, prompt_length=PROMPT, block_length=8)
    assert session.report().answer_end == LENGTH
    session.supply(rows[session.next().segments[0].rows])
    report = session.report()
    assert (report.end, report.answer_end) == (unmask.Ending.stop_tokens, 8)
    assert report.committed_prefix == LENGTH and tokens[7] == 3 and tokens[8] == 0


@pytest.mark.parametrize("policy, cancels", [("tokens_per_step(1) + max_steps(2)", False), ("tokens_per_step(1)", True)])
def test_the_answer_ends_before_what_no_decision_committed(policy, cancels):
    rows = np.zeros((LENGTH, VOCAB), np.float32)
    rows[PROMPT, 1], rows[PROMPT + 3, 2] = 30, 30
    session, tokens = new_session(policy, eos_token=END), canvas(23)
    assert session.report().end == unmask.Ending.idle
    session.start(0, tokens, prompt_length=PROMPT, block_length=LENGTH)
    for _ in range(2):
        session.supply(rows[session.next().segments[0].rows])
    if cancels:
        session.cancel(0)
    report = session.report()
    assert report.end == (unmask.Ending.cancelled if cancels else unmask.Ending.max_steps)
    assert (report.committed, report.answer_end) == (2, PROMPT + 1)
    assert tokens[PROMPT + 3] == 2 and tokens[PROMPT + 1] == (MASK if cancels else END)


def test_rows_of_another_layout_are_explained():
    session = new_session()
    session.start(0, canvas(24), prompt_length=PROMPT)
    session.next()
    good = Model(24)(canvas(24))
    for bad, says in [
        (good.T.copy(), r"vocab = 67 tokens, got shape \(67, 24\): rows and columns look swapped"),
        (good[:, ::2], r"last stride of 1, got 2: call \.contiguous\(\), or numpy\.ascontiguousarray"),
        (np.asfortranarray(good), "rows and columns look swapped; after a transposition call .contiguous"),
    ]:
        with pytest.raises(ValueError, match=says):
            session.supply(bad)
        with pytest.raises(ValueError, match=says):
            session.supply([bad])


def test_read_only_tokens_are_refused():
    tokens = canvas(17)
    tokens.flags.writeable = False
    with pytest.raises((TypeError, BufferError, ValueError)):
        new_session().start(0, tokens, prompt_length=PROMPT)


def test_threads_of_python_run_meanwhile():
    """Another thread counts while supply() works, though it is never made way for."""
    vocab, rows = 200_000, 64
    logits = np.random.default_rng(0).normal(size=(rows, vocab)).astype(np.float32)
    session = unmask.Session("threshold(0.9)", vocab=vocab, mask_token=0, length=rows, window=rows)
    tokens = np.zeros(rows, dtype=np.int32)
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # other threads get the GIL only where it is released
    counter = threading.Thread(target=count)
    counter.start()
    try:
        during = tries = 0
        while during == 0 and tries < 500:  # a busy machine may not run the other thread
            session.start(0, tokens, prompt_length=0, block_length=rows)
            session.next()
            before = counted[0]
            session.supply(logits)
            during, tries = counted[0] - before, tries + 1
    finally:
        ended.set()
        sys.setswitchinterval(interval)
        counter.join()
    assert during > 0


def test_sessions_of_several_threads_share_a_pool():
    """With one pool of threads between them, they decode as they do alone."""
    expected = []
    for seed in range(4):
        tokens = canvas(seed)
        decode(new_session("trace_credit + threshold(0.6)"), Model(seed), tokens)
        expected.append(tokens.tolist())
    results = [None] * 4

    def work(seed):
        for _ in range(10):
            tokens = canvas(seed)
            decode(new_session("trace_credit + threshold(0.6)", threads=3), Model(seed), tokens)
            results[seed] = tokens.tolist()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == expected


def test_the_stubs_say_what_there_is():
    module = unmask.Session.__module__.split(".")[0] + "._unmask"
    file = pathlib.Path(sys.modules[module].__file__).parent / "_unmask.pyi"
    classes = {
        c.name: {f.name for f in c.body if isinstance(f, ast.FunctionDef)}
        for c in ast.parse(file.read_text()).body
        if isinstance(c, ast.ClassDef)
    }
    assert classes["Session"] >= {"start", "next", "supply", "report", "committed", "cancel"}
    for name, members in classes.items():
        there = getattr(sys.modules[module], name)
        assert there.__doc__ and all(hasattr(there, m) for m in members)
    assert (file.parent / "py.typed").exists()


def test_the_parts_have_a_description():
    assert "threshold(" in unmask.describe_parts() and "trace_credit(" in unmask.describe_parts()
