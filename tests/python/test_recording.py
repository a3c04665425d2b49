# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recordings: of callers that forget their arguments, with texts that raise, into a disk that is full."""
import json
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import unmask
from lent import LentSession

VOCAB, MASK, LENGTH = 11, 10, 12


def recorded(file, policy="tokens_per_step(2)", **options):
    return LentSession(unmask.Session(
        policy, vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH, sequences=2, trace=str(file), **options))


def logits(tokens, request):
    """Rows that depend on position and slot."""
    rows = [np.sin(np.arange(VOCAB) * 37.0 + p * 5.0 + s.slot) * 4 for s in request.segments
            for p in range(s.rows.start, s.rows.stop)]
    return np.array(rows, np.float32)


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def decode(session):
    while (request := session.next()) is not None:
        session.supply(logits(session.tokens, request))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_recording_reads_no_argument_behind_its_call(tmp_path, dtype):
    file = tmp_path / "trace.jsonl"
    session = recorded(file, token_text=str)
    masked = np.ones(LENGTH, bool)
    masked[7] = False
    session.start(0, np.full(LENGTH, 5, dtype), prompt_length=2, editable=masked)
    session.start(1, np.full(LENGTH, 6, dtype), prompt_length=LENGTH)  # nothing to decode
    assert session.answers[1].tolist() == [6] * LENGTH
    assert lines_of(file)[-1]["end"] == "complete"  # at once
    decode(session)
    begins = (~masked).astype(np.uint8)
    begins[9] = 2
    session.start(1, np.full(LENGTH, 7, dtype), prompt_length=3, editable=begins)
    session.cancel(1)
    head, *lines = lines_of(file)
    starts = head["sequences"] + [line["start"] for line in lines if "start" in line]
    assert [s["fixed"] for s in starts] == [[7], [], [p for p in range(3, LENGTH) if p not in (7, 9)]]
    assert [s.get("committed") for s in starts] == [None, None, [9]]
    ends = [line for line in lines if "end" in line]
    assert [(e["slot"], e["end"]) for e in ends] == [(1, "complete"), (0, "complete"), (1, "cancelled")]
    assert ends[0]["tokens"] == [6] * LENGTH and ends[1]["tokens"] == session.answers[0].tolist()
    assert ends[2]["tokens"] == [7] * 7 + [MASK] + [7] * 4


def record_with_texts(file, text):
    """Decodes three sequences in two slots. Returns the exceptions of the calls."""
    errors = []

    def tried(call, *arguments):
        try:
            return call(*arguments)
        except ValueError as e:
            errors.append(e)
            return None

    session = recorded(file, token_text=text)
    session.start(0, np.full(LENGTH, 5, np.int32), prompt_length=9)
    session.start(1, np.full(LENGTH, 6, np.int32), prompt_length=2)
    third = False
    while True:
        count = len(errors)
        request = tried(session.next)
        if len(errors) > count:
            request = session.next()  # the same call again
        if request is None:
            break
        tried(session.supply, logits(session.tokens, request))
        if not third and 0 in session.answers:
            third = True
            session.start(0, np.full(LENGTH, 7, np.int32), prompt_length=4)  # next() raises what is raised here
    return errors


def test_a_text_that_raises_leaves_the_trace_whole(tmp_path):
    file = tmp_path / "trace.jsonl"

    def run(failing):
        calls = 0

        def text(token):
            nonlocal calls
            calls += 1
            if calls - 1 == failing:
                raise ValueError("no text")
            return f"<{token}>"

        errors = record_with_texts(file, text)
        lines, texts = lines_of(file), {}
        for line in lines:
            texts.update(line.pop("text", {}))
        return calls, [str(e) for e in errors], lines, texts

    calls, errors, lines, texts = run(-1)
    assert not errors and calls == len(texts)
    assert sum("end" in line for line in lines) == 3
    for failing in range(calls):
        assert run(failing)[1:] == (["no text"], lines, texts)


@pytest.mark.parametrize("call", [
    "session.report()", "session.next()", "session.candidates()", "session.cancel(0)", "session.abandon()",
    "session.start(0, tokens, prompt_length=2)", "session.supply(np.zeros((10, 11), np.float32))",
])
def test_a_text_that_calls_its_session_is_refused(tmp_path, call):
    program = f"""
        import numpy as np, unmask
        session = unmask.Session("tokens_per_step(4)", vocab=11, mask_token=10, length=12, window=12,
                                 trace={str(tmp_path / "trace.jsonl")!r}, token_text=lambda token: {call})
        tokens = np.full(12, 5, np.int32)
        session.start(0, tokens, prompt_length=2)
        try:
            session.next()
        except RuntimeError as e:
            print(e)
        session.next()
        try:
            session.supply(np.zeros((10, 11), np.float32))
        except RuntimeError as e:
            print(e)
        print(session.report().forwards)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=60, text=True, capture_output=True)
    assert done.stdout.splitlines() == ["a call of a session inside its own token_text"] * 2 + ["1"], done.stderr


def test_a_text_is_a_string(tmp_path):
    file = tmp_path / "trace.jsonl"
    session = recorded(file, token_text=lambda token: token)
    session.start(0, np.full(LENGTH, 5, np.int32), prompt_length=2)
    with pytest.raises(TypeError, match=r"token_text\(5\) must return a str, got int"):
        session.next()
    session = recorded(file, token_text=lambda token: "\ud800")
    session.start(0, np.full(LENGTH, 5, np.int32), prompt_length=2)
    with pytest.raises(UnicodeEncodeError):
        session.next()


def test_an_interrupt_inside_a_text_ends_the_call(tmp_path):
    file = tmp_path / "trace.jsonl"

    def text(token):
        if token != MASK and token != 5:
            signal.raise_signal(signal.SIGINT)
        return str(token)

    session = recorded(file, token_text=text)
    session.start(0, np.full(LENGTH, 5, np.int32), prompt_length=2)
    request = session.next()
    with pytest.raises(KeyboardInterrupt):
        session.supply(logits(session.tokens, request))
    assert session.report().forwards == 1 and lines_of(file)[-1]["step"] == 0


def test_an_interrupt_ends_the_wait_for_another_thread(tmp_path):
    """A text of another thread waits for this one, which waits for its turn."""
    waits, done = threading.Event(), threading.Event()

    def text(token):
        waits.set()
        done.wait(60)
        return str(token)

    session = recorded(tmp_path / "trace.jsonl", token_text=text)
    session.start(0, np.full(LENGTH, 5, np.int32), prompt_length=2)
    other = threading.Thread(target=session.next)
    other.start()
    waits.wait(60)
    main = threading.main_thread().ident
    threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        session.report()
    done.set()
    other.join()
    assert session.report().forwards == 0 and session.next() is not None


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no disk that is full")
def test_a_full_disk_is_reported_once(tmp_path):
    for nothing in (False, True):
        session = recorded("/dev/full")
        errors = []
        session.start(0, np.full(LENGTH, 5, np.int32), prompt_length=2)
        if nothing:
            with pytest.raises(RuntimeError, match="/dev/full.*last whole line is number 0"):
                session.start(1, np.full(LENGTH, 5, np.int32), prompt_length=LENGTH)
        while (request := session.next()) is not None:
            try:
                session.supply(logits(session.tokens, request))
            except RuntimeError as e:
                errors.append(str(e))
        assert len(errors) == (0 if nothing else 1)
        assert session.answers[0].tolist().count(MASK) == 0
