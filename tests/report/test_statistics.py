"""Averages and intervals: by hand, and beside what rliable says (recorded by record_rliable.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

from argosy.errors import DataError
from argosy.report import improvement, interval, iqm, profile

CASES = json.loads(Path(__file__).with_name("rliable.json").read_text())


def test_the_interquartile_mean_leaves_a_quarter_out_on_either_side():
    assert iqm(np.array([0.0, 1.0, 2.0, 3.0, 100.0])) == pytest.approx(2.0)  # 0 and 100 are left out
    assert iqm(np.array([[0.0, 1.0, 2.0, 3.0], [9.0, 9.0, 1.0, 1.0]])).tolist() == [1.5, 5.0]
    assert iqm(np.array([7.0])) == 7.0


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{np.shape(case['scores'])}")
def test_equal_to_rliable(case):
    found = interval(case["scores"], resamples=20_000)
    assert found.value == pytest.approx(case["iqm"])
    width = case["interval"][1] - case["interval"][0]
    assert (found.low, found.high) == pytest.approx(case["interval"], abs=0.05 * width)  # random draws on both sides
    assert profile(case["scores"], case["thresholds"]) == pytest.approx(case["profile"])
    assert improvement(case["scores"], case["others"]) == pytest.approx(case["improvement"])


def test_equal_seeds_give_equal_intervals_and_one_run_none():
    scores = np.random.default_rng(1).normal(size=(5, 2))
    assert interval(scores, seed=3) == interval(scores, seed=3)
    one = interval([4.0])
    assert one.value == 4.0
    assert np.isnan([one.low, one.high]).all()


def test_an_interval_holds_the_true_value_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):  # symmetric scores: their interquartile mean is 0
        low, high = interval(rng.normal(size=20), resamples=400)[1:]
        held += low <= 0.0 <= high
    assert 0.85 * 200 <= held <= 0.98 * 200  # percentile intervals of 20 runs are a little narrow


def test_improvement_counts_ties_half():
    assert improvement([1.0, 2.0], [1.0, 0.0]) == pytest.approx((0.5 + 1.0 + 1.0 + 1.0) / 4)
    with pytest.raises(DataError, match="1 and of 2 tasks"):
        improvement([1.0], [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("scores", "said"), [([], "at least one"), ([[[1.0]]], "at least one"), ([1.0, np.nan], "nan")]
)
def test_what_is_no_score_is_named(scores, said):
    with pytest.raises(DataError, match=said):
        interval(scores)
