# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""unmask.tune: the search for a policy, with an engine in Python."""
import re

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
