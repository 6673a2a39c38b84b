"""Returns of episodes whose rows come in parts, and the best of them alone."""

import numpy as np
import pytest

pytest.importorskip("h5py")

from filed import columns, write_hdf5

from argosy.data import Batch, ReplayBuffer
from argosy.data.datasets import convert, open_source, read_attributes
from argosy.data.datasets.episodes import Sums, best_episodes
from argosy.errors import ConfigError, DataError


def part(rew, ends, cut=None):
    ends = np.array(ends, bool)
    fields = {"rew": np.array(rew, np.float32), "terminated": ends, "truncated": np.zeros(len(ends), bool)}
    return Batch(**fields) if cut is None else Batch(**fields, cut=np.array(cut, bool))


def test_sums_run_across_parts():
    sums = Sums()
    assert list(sums.take_in(part([1, 2, 4], [0, 1, 0]))) == [(3.0, 2, True)]
    assert list(sums.take_in(part([8], [0]))) == []
    assert list(sums.take_in(part([16, 1], [1, 1], cut=[0, 1]))) == [(28.0, 3, True), (1.0, 1, False)]
    assert (sums.total, sums.length) == (0.0, 0)


def recorded(tmp_path, returns, length=3, without_end=0):
    """Write episodes of equal length that return so much; after them so many rows whose end nobody knows."""
    rows = length * len(returns) + without_end
    given = columns()
    given = {name: np.resize(value, (rows, *value.shape[1:])) for name, value in given.items()}
    given["observations"][:, 0] = given["next_observations"][:, 0] = np.arange(rows)
    given["terminals"] = (np.arange(rows) % length == length - 1) & (np.arange(rows) < length * len(returns))
    given["timeouts"] = np.zeros(rows, bool)
    given["rewards"] = np.append(np.repeat(np.array(returns) / length, length), np.full(without_end, 100.0))
    return write_hdf5(tmp_path / "a.hdf5", given)


@pytest.mark.parametrize("part_rows", [2, 1 << 14])
def test_whole_episodes_that_returned_most_are_kept_in_their_order(tmp_path, part_rows, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.source.PART_ROWS", part_rows)
    done = []
    with open_source(recorded(tmp_path, [3.0, 9.0, -1.0, 6.0, 5.0], without_end=2)) as source:
        best = best_episodes(source, 0.4, done.append)
        assert (best.rows, done[-1]) == (6, 17)
        assert best.notes[-1] == "the best 2 of 5 episodes, with returns from 6 on"
        convert(best, tmp_path / "b.hdf5")
    data = ReplayBuffer.load_hdf5(tmp_path / "b.hdf5")[:]
    assert data.obs[:, 0].tolist() == [3, 4, 5, 9, 10, 11]
    assert data.terminated.tolist() == [False, False, True] * 2
    told = read_attributes(tmp_path / "b.hdf5")
    assert (told["episodes"], told["return_mean"], told["return_std"]) == (2, pytest.approx(7.5), pytest.approx(1.5))


def test_shares_are_rounded_up_and_the_first_of_equals_is_taken(tmp_path):
    with open_source(recorded(tmp_path, [3.0, 9.0, 9.0])) as source:
        best = best_episodes(source, 0.01)
        assert [row for rows in best.parts() for row in rows.obs[:, 0].tolist()] == [3, 4, 5]
        assert best_episodes(source, 1.0).rows == source.rows


def test_what_cannot_be_chosen_from_is_refused(tmp_path):
    with open_source(recorded(tmp_path, [], without_end=4)) as source:
        with pytest.raises(DataError, match=r"no episode ends in 4 rows"):
            best_episodes(source, 0.5)
        with pytest.raises(ConfigError, match=r"is 10; it must be > 0 and <= 1, e.g. 0.1"):
            best_episodes(source, 10)
