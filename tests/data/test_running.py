from __future__ import annotations

import numpy as np
import pytest
import torch

from argosy.data.running import MovAvg, RunningMeanStd
from argosy.errors import DataError


def test_two_batches_equal_hand_computed_moments() -> None:
    stats = RunningMeanStd()
    stats.update(np.array([1.0, 2.0]))
    stats.update(np.array([3.0, 6.0, 8.0]))
    assert stats.count == 5
    assert stats.mean == pytest.approx(4.0)
    assert stats.var == pytest.approx((9 + 4 + 1 + 4 + 16) / 5)


def test_many_uneven_batches_equal_one_batch_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    rows = 1e6 + rng.standard_normal((1000, 3)) * np.array([1e-2, 1.0, 50.0])
    stats = RunningMeanStd((3,))
    for part in np.split(rows, [1, 2, 50, 51, 700]):
        stats.update(part)
    np.testing.assert_allclose(stats.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(stats.std, rows.std(0), rtol=1e-6)


def test_all_leading_axes_are_rows() -> None:
    rows = np.arange(24.0).reshape(3, 4, 2)
    stats = RunningMeanStd((2,))
    stats.update(rows)
    assert stats.count == 12
    np.testing.assert_allclose(stats.mean, rows.reshape(-1, 2).mean(0))


def test_norm_scales_clips_and_gives_float32() -> None:
    stats = RunningMeanStd((1,), clip_max=2.0, epsilon=0.0)
    stats.update(np.array([[-2.0], [2.0]]))
    normed = stats.norm(np.array([[1.0], [100.0], [-100.0]]))
    assert normed.dtype == np.float32
    np.testing.assert_allclose(normed, [[0.5], [2.0], [-2.0]])


def test_before_the_first_row_norm_changes_nothing() -> None:
    np.testing.assert_allclose(RunningMeanStd((2,)).norm(np.array([0.5, -3.0])), [0.5, -3.0], rtol=1e-6)


def test_frozen_statistics_stay() -> None:
    stats = RunningMeanStd()
    stats.update(np.array([1.0, 3.0]))
    stats.frozen = True
    stats.update(np.array([100.0]))
    assert (float(stats.mean), stats.count) == (2.0, 2)


def test_bad_rows_leave_the_statistics_as_they_were() -> None:
    stats = RunningMeanStd((2,))
    stats.update(np.ones((3, 2)))
    with pytest.raises(DataError, match=r"\(4,\).*\(2,\)"):
        stats.update(np.ones(4))
    with pytest.raises(DataError, match="NaN"):
        stats.update(np.array([[1.0, np.nan]]))
    assert stats.count == 3
    np.testing.assert_array_equal(stats.mean, [1.0, 1.0])


def test_state_goes_round() -> None:
    stats, other = RunningMeanStd((2,)), RunningMeanStd((2,))
    stats.update(np.random.default_rng(1).standard_normal((7, 2)))
    other.load_state_dict(stats.state_dict())
    more = np.random.default_rng(2).standard_normal((5, 2))
    stats.update(more)
    other.update(more)
    np.testing.assert_array_equal(stats.mean, other.mean)
    np.testing.assert_array_equal(stats.var, other.var)
    with pytest.raises(DataError, match="shape"):
        RunningMeanStd((3,)).load_state_dict(stats.state_dict())


def test_the_first_batch_gives_the_shape() -> None:
    stats = RunningMeanStd()
    assert stats.norm(np.array([0.5, -3.0])).tolist() == [0.5, -3.0]
    stats.update(np.array([[1.0, 2.0], [3.0, 6.0]]))
    assert stats.mean.tolist() == [2.0, 4.0]
    assert stats.std.tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match=r"last axes must be \(2,\)"):
        stats.update(np.zeros(3))
    restored, fresh = RunningMeanStd(), RunningMeanStd()
    restored.load_state_dict(stats.state_dict())
    restored.update(np.array([5.0, 4.0]))
    assert restored.mean.tolist() == [3.0, 4.0]
    fresh.load_state_dict(RunningMeanStd().state_dict())
    fresh.update(np.array([1.0, 2.0, 3.0]))  # rows that are numbers
    assert (fresh.shape, float(fresh.mean)) == ((), 2.0)


def test_moving_average_of_the_last_finite_numbers() -> None:
    average = MovAvg(size=3)
    assert (average.get(), average.std()) == (0, 0)
    assert average.add(6.0) == 6
    assert average.add([np.nan, 2, np.inf]) == 4
    assert average.add(torch.tensor([1.0, 3.0])) == 2
    assert average.std() == pytest.approx((2 / 3) ** 0.5)
    assert (average.get(), average.mean()) == (2, 2)
