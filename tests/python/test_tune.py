# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""unmask.tune: the search for a policy, with an engine in Python."""
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import unmask


def threshold_of(policy):
    """The threshold of a policy that is nothing but one and a ranking; None for others."""
    found = re.fullmatch(r"(?:by_\w+ \+ )?threshold\(([0-9.]+)\)", policy)
    return float(found.group(1)) if found else None


def engine(policy, problems):
    """A threshold t answers t of the problems and takes 10 t + 1 passes."""
    t = threshold_of(policy)
    if t is None:
        raise ValueError("this engine knows thresholds only")
    return [unmask.Decoded((p * 7919) % 1000 < 1000 * t, forwards=10 * t + 1) for p in problems]


def test_finds_the_lowest_threshold_that_is_right_often_enough():
    found = unmask.tune(engine, problems=800, target=0.8)
    assert found.reaches and not found.stopped
    assert 0.8 <= threshold_of(found.best.policy) <= 0.9
    assert found.best.problems == found.chosen.problems == 200 and found.checked.problems == 400
    assert found.checked.right >= 0.78 * 400
    low, high = found.checked.share
    assert low < found.checked.right / 400 < high
    assert found.best.mean.forwards == pytest.approx(10 * threshold_of(found.best.policy) + 1)
    assert found.best.mean.segments == found.best.mean.forwards
    assert all(threshold_of(p.policy) is not None for p in found.points)
    assert [r.right for r in found.best.each].count(True) == found.best.right
    assert found.against_rival.problems == 400
    assert repr(found) == (f"Tuned(best='{found.best.policy}', reaches={found.reaches}, "
                           f"checked={found.checked!r}, rival={found.rival!r})")


def test_says_that_nothing_reaches_the_target():
    found = unmask.tune(lambda policy, ps: [unmask.Decoded(False, forwards=1)] * len(ps), problems=16, target=0.5)
    assert not found.reaches and found.best.right == 0


def test_minimises_another_cost_and_tells_how_far_it_is():
    stages = []

    def decode(policy, problems):
        return [unmask.Decoded(True, forwards=1, seconds=len(policy)) for _ in problems]

    found = unmask.tune(
        decode,
        problems=16,
        target=0.5,
        minimise="seconds",
        depth=0,
        progress=lambda stage, done, of: stages.append((stage, done, of)),
    )
    assert found.best.policy == min((p.policy for p in found.points), key=len)
    assert stages and all(0 < done <= of for _, done, of in stages)


def test_an_interrupt_keeps_what_was_found():
    calls = []

    def decode(policy, problems):
        calls.append(policy)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return engine(policy, problems)

    found = unmask.tune(decode, problems=800, target=0.3)
    assert found.stopped and threshold_of(found.best.policy) is not None
    assert found.checked.problems == 400


def test_errors_of_the_engine_are_not_hidden():
    def broken(policy, problems):
        raise KeyError("no such problem")

    with pytest.raises(KeyError, match="no such problem"):
        unmask.tune(broken, problems=16)
    with pytest.raises(TypeError, match="must return a list of unmask.Decoded"):
        unmask.tune(lambda policy, problems: [1] * len(problems), problems=16)
    with pytest.raises(RuntimeError, match="returned 1 results for"):
        unmask.tune(lambda policy, problems: [unmask.Decoded(True, forwards=1)], problems=16)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"problems": 7}, "^problems must be at least 8, got 7"),
        ({"problems": 16, "target": 1.5}, r"^target must be in \[0, 1\], got 1.5"),
        ({"problems": 16, "confidence_level": 0}, r"^confidence_level must be in \(0, 1\), got 0"),
        ({"problems": 16, "minimise": "tokens"}, "minimise must be .*, got 'tokens'"),
        ({"problems": 16, "depth": -1}, "^depth must be at least 0, got -1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        unmask.tune(engine, **arguments)


def test_a_search_that_no_policy_suits_says_so():
    def refuses(policy, problems):
        raise ValueError("not here")

    with pytest.raises(ValueError, match="able to decode one policy"):
        unmask.tune(refuses, problems=16)


def test_a_second_interrupt_ends_it_at_once():
    def decode(policy, problems):
        if len(calls) >= 12:
            raise KeyboardInterrupt
        calls.append(policy)
        return engine(policy, problems)

    calls = []
    with pytest.raises(KeyboardInterrupt):
        unmask.tune(decode, problems=800, target=0.3)


def test_progress_only_grows():
    shown = []
    unmask.tune(engine, problems=400, target=0.5, depth=2, progress=lambda *of: shown.append(of))
    stages = []
    for before, (stage, done, of) in zip([None, *shown], shown):
        if stages and stages[-1] == stage:
            assert done == before[1] + 1 and of == before[2]
        else:
            assert done == 1 and stage not in stages
            stages.append(stage)


def told(found):
    return (found.best.policy, found.best.right, found.checked.right, found.rival.policy, len(found.points),
            [d._asdict() for d in found.checked.each])


def test_a_search_resumes_from_its_file(tmp_path):
    file = tmp_path / "results.jsonl"
    search = dict(problems=400, target=0.8, resume=file, engine="thresholds")
    expected = told(unmask.tune(engine, problems=400, target=0.8))
    asked = []

    def interrupted(policy, problems):
        asked.extend(problems)
        if len(asked) > 900 and not raised:
            raised.append(True)
            raise KeyboardInterrupt
        return engine(policy, problems)

    raised = []
    assert unmask.tune(interrupted, **search).stopped
    lines = file.read_text().splitlines()
    assert json.loads(lines[0]) == {"unmask": "results", "engine": "thresholds", "problems": 400}
    file.write_text("\n".join(lines[:700]) + "\n" + lines[700][:9])  # cut in the middle of a line
    kept = {tuple(json.loads(line)[:2]) for line in lines[1:700]}

    def counted(policy, problems):
        again.extend((policy, p) for p in problems if threshold_of(policy) is not None)
        return engine(policy, problems)

    again = []
    assert told(unmask.tune(counted, **search)) == expected
    assert again and not kept & set(again) and len(again) == len(set(again))
    again = []
    assert told(unmask.tune(counted, **{**search, "resume": str(file)})) == expected
    assert not again  # the file has everything but refusals


def test_a_file_of_another_search_is_refused_and_stays(tmp_path):
    file = tmp_path / "results.jsonl"
    unmask.tune(engine, problems=16, target=0.5, depth=0, resume=file)
    text = file.read_bytes()
    with pytest.raises(ValueError, match="resume must be a new file, or one of the same engine and problems"):
        unmask.tune(engine, problems=20, target=0.5, depth=0, resume=file)
    with pytest.raises(ValueError, match='begins with .*"engine": "", .*, not .*"engine": "another"'):
        unmask.tune(engine, problems=16, target=0.5, depth=0, resume=file, engine="another")
    assert file.read_bytes() == text
    for line in (b"[]", b"nothing", b'["threshold(1)", 1, 1, 1, 1, 1, 1]', b'["a", 1, true, -1, 1, 1, "x"]'):
        file.write_bytes(text + line + b"\n")
        with pytest.raises(ValueError, match=r"line \d+ of .* is no result of a search"):
            unmask.tune(engine, problems=16, target=0.5, depth=0, resume=file)
    with pytest.raises(TypeError, match="must return a list of unmask.Decoded"):
        unmask.tune(lambda policy, problems: 1, problems=16, resume=tmp_path / "other.jsonl")
    with pytest.raises(OSError):
        unmask.tune(engine, problems=16, resume=tmp_path)


@pytest.mark.parametrize("signals, status", [((signal.SIGTERM,), 0), ((signal.SIGINT,), 0),
                                             ((signal.SIGTERM, signal.SIGTERM), 130)])
def test_the_command_says_what_it_has_at_a_signal(tmp_path, signals, status):
    """And shows its progress every few seconds: without a terminal a line."""
    file = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "unmask", "tune", "--problems", "40", "--resume", str(file)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})
    lines = [running.stderr.readline() for _ in range(2)]
    numbers = [[int(n) for n in re.match(r"(\d+) policies, (\d+) answers decoded", line).groups()] for line in lines]
    assert numbers[0] <= numbers[1] and numbers[0][1] < numbers[1][1]
    for one in signals:
        running.send_signal(one)
        time.sleep(0.05)
    out, _ = running.communicate(timeout=120)
    assert running.returncode == status
    if status == 0:
        assert out.splitlines()[1] == f"stopped early: the best so far; the same command goes on from {file}"
        assert "right on tasks that the search did not see" in out
    assert len(file.read_text().splitlines()) > numbers[0][1]
    known = {tuple(json.loads(line)[:2]) for line in file.read_text().splitlines()[1:]}
    assert len(known) == len(file.read_text().splitlines()) - 1
