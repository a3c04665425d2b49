# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a caller may get wrong, and what is printed then; the memory of what Python shares with a session."""
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import unmask

VOCAB, MASK, LENGTH = 8, 7, 12


def new_session(policy="threshold(0.9)", **options):
    return unmask.Session(policy, **{"vocab": VOCAB, "mask_token": MASK, "length": LENGTH, "window": LENGTH, **options})


def logits(request):
    return np.random.default_rng(3).normal(0.0, 3.0, (request.rows, VOCAB)).astype(np.float32)


def decode(session):
    while (request := session.next()) is not None:
        session.supply(logits(request))


def test_int64_tokens_must_fit_in_32_bits():
    for wrong in (2**31, 2**32 + 5, -(2**31) - 1):
        tokens = np.zeros(LENGTH, np.int64)
        tokens[3] = wrong
        with pytest.raises(ValueError, match=f"tokens must fit in 32 bits, got {wrong} at 3"):
            new_session().start(0, tokens, prompt_length=4)
        assert tokens[3] == wrong
    tokens = np.full(LENGTH, 2**31 - 1, np.int64)
    session = new_session()
    session.start(0, tokens, prompt_length=4)
    decode(session)
    assert (tokens[:4] == 2**31 - 1).all() and (tokens[4:] < VOCAB).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_running_slots_share_no_tokens(dtype):
    session = new_session(sequences=2)
    tokens = np.zeros(2 * LENGTH - 1, dtype)
    session.start(0, tokens[:LENGTH], prompt_length=4)
    for part in (tokens[:LENGTH], tokens[LENGTH - 1 :], tokens[3:5]):
        with pytest.raises(ValueError, match="tokens of slot 1 overlap those of slot 0, which runs"):
            session.start(1, part, prompt_length=0)
    session.start(1, tokens[LENGTH:], prompt_length=0)
    decode(session)
    session.start(1, tokens[3:5], prompt_length=0)  # none runs any more
    session.cancel(1)
    session.start(0, tokens[3:5], prompt_length=0)


class Owner:
    """An engine whose session asks it for the texts of tokens."""

    def __init__(self, file):
        self.session = new_session(trace=str(file), token_text=self.text)

    def text(self, token):
        return str(token)


class Subclass(unmask.Session):
    pass


def test_cycles_are_collected(tmp_path):
    owner = Owner(tmp_path / "decode.jsonl")
    other = Subclass("threshold", vocab=VOCAB, mask_token=MASK, length=LENGTH, window=LENGTH)
    other.me = other
    gone = [weakref.ref(owner), weakref.ref(other)]
    gc.collect()
    assert all(ref() is not None for ref in gone)
    owner.session.start(0, np.zeros(LENGTH, np.int32), prompt_length=4)
    decode(owner.session)
    del owner, other
    gc.collect()
    assert all(ref() is None for ref in gone)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: new_session(mask=7), "Session() has no argument 'mask': it has policy, vocab, mask_token"),
        (lambda: unmask.Session("threshold", vocab=VOCAB), "Session() needs the argument 'mask_token'"),
        (lambda: unmask.Session("threshold", VOCAB), "Session() takes at most 1 arguments by place, got 2"),
        (lambda: unmask.Session("threshold", policy="threshold"), "Session() has got 'policy' twice"),
        (lambda: new_session(vocab="8"), "vocab must be int, got str"),
        (lambda: new_session(vocab=8.0), "vocab must be int, got float"),
        (lambda: new_session(None), "policy must be str, got NoneType"),
        (lambda: new_session(eos_token="a"), "eos_token must be int | None, got str"),
        (lambda: new_session(trace=3), "trace must be bool | str, got int"),
        (lambda: new_session(token_text=3), "token_text must be a function of a token, got int"),
        (lambda: new_session(files="no"), "files must be bool, got str"),
        (lambda: started([0] * LENGTH), "tokens must be an array or a tensor, got list"),
        (lambda: started(np.zeros(LENGTH, np.int32), length="a"), "length must be int | None, got str"),
        (lambda: new_session().start(0, np.zeros(LENGTH, np.int32)), "start() needs the argument 'prompt_length'"),
        (lambda: started(np.zeros(LENGTH, np.int32), prompt=4), "start() has no argument 'prompt'"),
        (lambda: started(np.zeros(LENGTH, np.int32), editable=[1]), "editable must be an array or a tensor, got list"),
        (lambda: started(np.zeros(LENGTH, np.int32), suppressed=3), "suppressed must be"),
        (lambda: new_session().next(3), "slots must be a list of int, got int"),
        (lambda: supplied("logits"), "logits must be an array or a tensor, got str"),
        (lambda: supplied([[0.0] * VOCAB]), "logits[0] must be an array or a tensor, got list"),
        (lambda: supplied(None), "logits must be an array or a tensor, got NoneType"),
        (lambda: supplied(rows(), allowed=[1]), "allowed must be an array or a tensor, got list"),
        (lambda: supplied([rows()], allowed=rows()), "allowed must be a list, as the logits are, got ndarray"),
        (lambda: supplied(rows(), cfg_scale="a"), "cfg_scale must be a number, or a list of them, got str"),
        (lambda: unmask.requirements("threshold", vocab=8, mask=7), "requirements() has no argument 'mask'"),
        (lambda: unmask.tune(3, problems=100), "decode must be a function, got int"),
        (lambda: unmask.tune(len, problem=100), "tune() has no argument 'problem': it has decode, problems"),
    ],
)  # fmt: skip
def test_a_wrong_argument_gets_a_sentence(call, says):
    with pytest.raises(TypeError) as error:
        call()
    assert str(error.value).startswith(says) and len(str(error.value)) < 300


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: new_session(vocab=2**40), f"vocab must be in [-2147483648, 2147483647], got {2**40}"),
        (lambda: started(np.zeros(LENGTH, np.int32), seed=-1), "seed must be in [0, 18446744073709551615], got -1"),
        (lambda: supplied([rows()], allowed=[None, None]), "allowed must have one entry for each of the 1 tensors, got 2"),
        (lambda: supplied(np.zeros(VOCAB, np.float32)), "logits must be rows and columns, got shape (8)"),
        (lambda: supplied(np.zeros((LENGTH, VOCAB))), "logits must be float32, bfloat16 or float16, got float64"),
        (lambda: new_session(branches=-1), "branches must be in [0, 16], got -1"),
        (lambda: requirements(branches=-1), "branches must be in [0, 16], got -1"),
        (lambda: requirements(window=-1), "window must be at least 1, got -1"),
    ],
)  # fmt: skip
def test_a_wrong_value_gets_a_sentence(call, says):
    with pytest.raises(ValueError) as error:
        call()
    assert says in str(error.value)


def requirements(**options):
    return unmask.requirements(
        **{"policy": "threshold", "vocab": VOCAB, "mask_token": MASK, "length": 9, "prompt_length": 9, **options}
    )


def test_a_sequence_without_an_answer_requires_a_window_that_a_session_can_have():
    new_session(window=requirements().window)


def started(tokens, **arguments):
    session = new_session()
    session.start(0, tokens, **{"prompt_length": 4, **arguments})
    return session


def rows():
    return np.zeros((LENGTH - 4, VOCAB), np.float32)


def supplied(logits, **arguments):
    session = started(np.zeros(LENGTH, np.int32))
    session.next()
    session.supply(logits, **arguments)


def test_read_only_arrays_are_read_and_not_written():
    def frozen(array):
        array.flags.writeable = False
        return array

    for dtype in (np.int32, np.int64):
        with pytest.raises(ValueError, match="tokens must be writable, got a read-only ndarray"):
            started(frozen(np.zeros(LENGTH, dtype)))
    scores = frozen(np.zeros(2, np.float32))
    keys = frozen(np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match="scores must be writable, got a read-only ndarray"):
        unmask.score_keys(keys, keys[0], scores)
    unmask.score_keys(keys, keys[0], scores := np.zeros(2, np.float32))
    assert scores.tolist() == [4.0, 4.0]
    session = started(np.zeros(LENGTH, np.int32), editable=frozen(np.ones(LENGTH, bool)))
    while (request := session.next()) is not None:
        words = frozen(np.full((request.rows, 1), 0b11, np.uint32))
        session.supply(frozen(logits(request)), allowed=words)


def test_the_file_of_a_trace_has_no_nul(tmp_path):
    with pytest.raises(ValueError, match="trace must have no NUL character"):
        new_session(trace=str(tmp_path / "a.jsonl") + "\0.txt")
    assert not list(tmp_path.iterdir())


def test_files_may_be_refused(tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text("hunter2")
    for policy in (f"calibrated_threshold('{profile}')", f"replay('{profile}')"):
        with pytest.raises(ValueError, match="names a file, which it may not"):
            new_session(policy, files=False)
        with pytest.raises(ValueError) as error:
            new_session(policy)
        assert "line 1" in str(error.value) or "trace" in str(error.value)
        assert "hunter2" not in str(error.value)
    with pytest.raises(ValueError, match="names a file, which it may not"):
        requirements(policy=f"calibrated_threshold('{profile}')", files=False)
    session = new_session(files=False)
    with pytest.raises(ValueError, match="names a file, which it may not"):
        session.start(0, np.zeros(LENGTH, np.int32), prompt_length=4, policy=f"calibrated_threshold('{profile}')")
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(ValueError, match="must be a regular file"):
            new_session(f"calibrated_threshold('{file}')")


def test_threads_of_python_run_while_a_session_is_made():
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)  # makes way

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    sys.setswitchinterval(1000.0)  # a thread that does not make way keeps the GIL
    try:
        thread.start()
        before = counted[0]
        new_session("adaptive_threshold", vocab=1 << 18, length=128, window=128)  # writes 128 MB
        assert counted[0] > before + 10  # with the GIL kept: 0
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


def test_objects_show_what_they_are():
    session = new_session("by_margin + threshold('0.9')".replace("'", ""), sequences=2)
    assert repr(session) == (
        "Session(policy='by_margin + threshold(0.9)', vocab=8, mask_token=7, sequences=2, length=12, window=12)"
    )
    session.start(0, np.zeros(LENGTH, np.int32), prompt_length=4, block_length=5)
    request = session.next()
    segment = (
        "Segment(slot=0, branch=0, query=slice(0, 12, None), keys=slice(0, 12, None), "
        "rows=slice(4, 9, None), first_row=0)"
    )
    assert repr(request.segments[0]) == segment
    assert repr(request) == f"Request(rows=5, segments=[{segment}])"

    def result(policy, problems):
        return [unmask.Decoded(True, forwards=4.0)] * len(problems)

    point = unmask.tune(result, problems=64, depth=0).best
    assert repr(point) == f"OperatingPoint(policy='{point.policy}', problems=16, right=16, forwards=4.0)"
    assert repr(point.each[0]) == "Decoded(right=True, forwards=4.0, segments=4.0, layer_positions=0.0, seconds=0.0)"


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_costs_are_numbers_from_0_on(cost):
    def result(policy, problems):
        return [unmask.Decoded(True, forwards=1.0, seconds=cost)] * len(problems)

    with pytest.raises(ValueError, match=r"^Decoded\.seconds must be finite and at least 0, got"):
        unmask.tune(result, problems=64, minimise="seconds")


PROGRAM = """
import threading
import numpy as np
import unmask

def decode():
    session = unmask.Session("threshold(0.5)", vocab=50_000, mask_token=7, length=64, window=64, threads=2)
    logits = np.zeros((64, 50_000), np.float32)
    while True:
        session.start(0, np.zeros(64, np.int32), prompt_length=0)
        while session.next() is not None:
            session.supply(logits[:len(range(*session.next().segments[0].rows.indices(64)))])
            started.set()

started = threading.Event()
threading.Thread(target=decode, daemon=True).start()
started.wait()
"""


def test_a_program_ends_while_a_daemon_thread_decodes():
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "terminate" not in done.stderr and "FATAL" not in done.stderr
