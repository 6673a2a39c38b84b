"""Returns of episodes whose rows come in parts, and the best of them alone."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("h5py")

from filed import columns, write_hdf5

from argosy.data import Batch, CachedReplayBuffer, ReplayBuffer
from argosy.data.datasets import convert, open_source, read_attributes
from argosy.data.datasets.card import make_card
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


def test_rows_before_the_best_episode_are_not_read_one_by_one(tmp_path):
    sizes = []
    with open_source(recorded(tmp_path, list(range(100)))) as source:
        counted = dataclasses.replace(source, read=lambda size: sizes.append(size) or source.read(size))
        best_episodes(counted, 0.01).load()
    assert min(sizes) > 1


def test_shares_are_rounded_up_and_the_first_of_equals_is_taken(tmp_path):
    with open_source(recorded(tmp_path, [3.0, 9.0, 9.0])) as source:
        best = best_episodes(source, 0.01)
        assert [row for rows in best.parts() for row in rows.obs[:, 0].tolist()] == [3, 4, 5]
        assert best_episodes(source, 1.0).rows == source.rows


def test_what_cannot_be_chosen_from_is_refused(tmp_path):
    with open_source(recorded(tmp_path, [], without_end=4)) as source:
        with pytest.raises(DataError, match=r"no episode is whole in 4 rows"):
            best_episodes(source, 0.5)
        with pytest.raises(ConfigError, match=r"is 10; it must be > 0 and <= 1, e.g. 0.1"):
            best_episodes(source, 10)


def ring_that_went_round():
    """Four episodes of 20 rows in a ring of 45: of the second one 5 rows are left, all of them of negative rewards."""
    buffer = ReplayBuffer(45)
    for t in range(80):
        obs, is_last = np.array([t // 20, t % 20], np.float32), t % 20 == 19
        step = {"obs": obs, "obs_next": obs + np.array([0, 1], np.float32), "act": 0, "rew": -1.0}
        buffer.add(Batch(**step, terminated=False, truncated=is_last))
    return buffer


@pytest.mark.parametrize("converted", [False, True])
def test_a_piece_without_its_beginning_is_no_episode(tmp_path, converted, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.source.PART_ROWS", 3)
    path = tmp_path / "ring.hdf5"
    ring_that_went_round().save_hdf5(path)
    if converted:
        with open_source(path) as source:
            convert(source, tmp_path / "converted.hdf5")
        path = tmp_path / "converted.hdf5"
    with open_source(path) as source:
        card = make_card(source)
        assert (card.returns, card.unfinished) == ([-20.0, -20.0], 1)
        best = best_episodes(source, 0.5)
        assert {tuple(row) for part in best.parts() for row in part.obs[:1].tolist()} >= {(2.0, 0.0)}
        assert best.rows == 20
        loaded = dataclasses.replace(source, whole=None).load()
    assert loaded.rings.first.nonzero()[0].tolist() == [5, 25]
    assert not {"first", "cut"} & loaded.fields.keys()


def test_what_a_cached_buffer_has_left_of_an_episode_is_no_episode(tmp_path):
    buffer = CachedReplayBuffer(ReplayBuffer(40), 1, max_episode_length=5)
    for t in range(20):  # of 4 and 6 rows in turn
        step = {"obs": np.array([[t]]), "obs_next": np.array([[t + 1]]), "act": [0], "rew": [-1.0]}
        buffer.add(Batch(**step, terminated=[t % 10 in (3, 9)], truncated=[False]))
    buffer.save_hdf5(tmp_path / "cached.hdf5")
    with open_source(tmp_path / "cached.hdf5") as source:
        assert make_card(source).returns == [-4.0, -4.0]


@pytest.mark.parametrize(("share", "count"), [(0.07, 7), (0.14, 14), (0.55, 55), (0.071, 8)])
def test_a_share_is_not_rounded_up_by_rounding_errors(tmp_path, share, count):
    with open_source(recorded(tmp_path, list(map(float, range(100))))) as source:
        assert best_episodes(source, share).rows == 3 * count
