"""What a data set's card says."""

import numpy as np
import pytest

pytest.importorskip("h5py")

from filed import atari_rows, columns, write_hdf5, write_minari, write_records

from argosy.data import Batch, ReplayBuffer, VectorReplayBuffer
from argosy.data.datasets import open_source
from argosy.data.datasets.card import histogram, make_card


def card_of(path):
    with open_source(path) as source:
        return make_card(source)


@pytest.mark.parametrize("part_rows", [3, 1 << 14])
def test_sizes_ranges_ends_and_returns(tmp_path, part_rows, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.source.PART_ROWS", part_rows)
    given = columns()
    card = card_of(write_hdf5(tmp_path / "a.hdf5", given))
    assert (card.format, card.rows) == ("D4RL", 12)
    assert card.bytes == (tmp_path / "a.hdf5").stat().st_size
    assert (card.terminated, card.truncated, card.unfinished) == (1, 1, 1)
    assert card.lengths == [4, 3]
    np.testing.assert_allclose(card.returns, [given["rewards"][:4].sum(), given["rewards"][4:7].sum()], rtol=1e-5)
    np.testing.assert_array_equal(card.columns["obs"].low, given["observations"].min(axis=0))
    np.testing.assert_array_equal(card.columns["act"].high, given["actions"].max(axis=0))
    assert card.columns["rew"].total == pytest.approx(given["rewards"].sum(), rel=1e-5)
    assert card.wrong == []
    text = "\n".join(card.lines())
    assert "ends     1 terminated, 1 truncated, 1 without beginning or end" in text
    assert "lengths  3 .. 4, median 4" in text
    assert f"act      (2,) float32, {given['actions'].min():.4g} .. {given['actions'].max():.4g}" in text
    assert text.count("█" * 30) == 2  # two returns, two bars of one episode


@pytest.mark.parametrize(("terminated", "rows", "episodes"), [(True, 1, "1"), (False, 0, "0")])
def test_a_single_row_has_a_card(tmp_path, terminated, rows, episodes):
    """A last row without an end has no successor, and is left out."""
    given = {name: column[:1] for name, column in columns().items() if name != "next_observations"}
    given["terminals"], given["timeouts"] = np.array([terminated]), np.array([False])
    card = card_of(write_hdf5(tmp_path / "a.hdf5", given))
    lines = list(card.lines())
    assert f"rows     {rows} transitions, {episodes} episodes" in lines
    assert ("wrong    it holds no transitions" in lines) == ("rew      float32, empty, mean 0" in lines) == (rows == 0)


def test_where_cuts_are_found_the_last_row_ends_no_episode(tmp_path):
    given = {name: column for name, column in columns().items() if name != "timeouts"}
    card = card_of(write_hdf5(tmp_path / "a.hdf5", given))
    assert (card.terminated, card.truncated, card.unfinished, card.lengths) == (1, 1, 1, [4, 3])


@pytest.mark.parametrize("part_rows", [3, 1 << 14])
def test_what_is_wrong_is_said(tmp_path, part_rows, monkeypatch):
    monkeypatch.setattr("argosy.data.datasets.source.PART_ROWS", part_rows)
    given = columns()
    given["observations"][[2, 5], 1] = np.nan
    given["observations"][:, 2] = 7.0
    given["next_observations"][:, 2] = 7.0
    given["rewards"][:] = 0.0
    given["terminals"][:] = given["timeouts"][:] = False
    card = card_of(write_hdf5(tmp_path / "a.hdf5", given))
    assert card.wrong == [
        "obs holds 2 NaN or infinite numbers, the first in row 2",
        "obs[2] never changes",
        "every reward is 0: nothing tells good from bad",
        "no episode is whole in 12 rows: nobody knows what came of it",
        "2 rows are not followed by their successors (obs_next is not the next row's obs), though their episodes go on"
        ": ends are missing, or rows are in another order; sums over steps run across them",
    ]
    assert card.columns["obs"].high[1] == np.nanmax(given["observations"][:, 1])
    assert f"wrong    {card.wrong[0]}" in list(card.lines())
    np.savez(tmp_path / "b.npz", **{name: value[:0] for name, value in given.items()})
    assert card_of(tmp_path / "b.npz").wrong == ["it holds no transitions"]
    assert list(card_of(tmp_path / "b.npz").lines())


def test_rewards_that_are_none_are_counted_and_their_episodes_have_no_return(tmp_path):
    given = columns()
    given["rewards"][1] = np.nan
    card = card_of(write_hdf5(tmp_path / "a.hdf5", given))
    assert card.wrong == ["rew holds 1 NaN or infinite numbers, the first in row 1"]
    np.testing.assert_allclose(card.returns, [given["rewards"][4:7].sum()], rtol=1e-5)


def test_minari_and_images(tmp_path, monkeypatch):
    card = card_of(write_minari(tmp_path / "m", columns()))
    assert (card.attributes["task"], card.unfinished, card.lengths) == ("Hopper-v5", 1, [4, 3])
    assert "task     Hopper-v5" in list(card.lines())
    monkeypatch.setattr("argosy.data.datasets.unplugged.MEAN_SEGMENT", 5)
    card = card_of(write_records(tmp_path / "run", atari_rows()))
    assert (card.terminated, card.unfinished, card.lengths) == (1, 1, [7])
    assert card.columns["obs"].shape == (8, 8)


def test_the_end_of_a_buffer_s_ring_is_no_end_of_an_episode(tmp_path):
    buffer = VectorReplayBuffer(10, 2)
    for t in range(5):
        zero = np.zeros(2, np.float32)
        done = np.array([t == 2, t == 4])
        buffer.add(Batch(obs=zero + t, act=zero, rew=zero + 1, terminated=done, truncated=done & False, obs_next=zero))
    buffer.save_hdf5(tmp_path / "a.hdf5")
    card = card_of(tmp_path / "a.hdf5")
    assert (card.returns, card.terminated, card.truncated, card.unfinished) == ([3.0, 5.0], 2, 0, 1)


def test_actions_in_another_scale_than_the_file_says_are_noted(tmp_path):
    buffer = ReplayBuffer(3)
    for act in (0.5, -2.0, 1.0):
        one = np.zeros(1, np.float32)
        done = {"terminated": act == 1.0, "truncated": False}
        buffer.add(Batch(obs=one, act=one + np.float32(act), rew=1.0, obs_next=one, **done))
    buffer.save_hdf5(tmp_path / "a.hdf5")
    lines = list(card_of(tmp_path / "a.hdf5").lines())
    assert "act      (1,) float32, -2 .. 1, in the policy's scale" in lines
    assert any(line.startswith("note     act reaches 2 and is taken to be in the policy's scale") for line in lines)
    given = {**columns(), "actions": columns()["actions"] * 9}
    lines = list(card_of(write_hdf5(tmp_path / "b.hdf5", given)).lines())
    assert any(line.startswith("act ") and line.endswith(", in the env's scale") for line in lines)
    assert not any(line.startswith("note") for line in lines)


def test_observations_without_elements_are_said(tmp_path):
    given = columns()
    given["observations"] = given["next_observations"] = np.zeros((12, 0), np.float32)
    np.savez(tmp_path / "a.npz", **given)
    card = card_of(tmp_path / "a.npz")
    assert card.wrong == ["obs has no elements: every row has shape (0,)"]
    assert "obs      (0,) float32, empty" in list(card.lines())


def test_returns_that_differ_by_rounding_alone_have_one_bar(tmp_path):
    near = [1.0, float(np.nextafter(1.0, 2.0))]
    assert histogram(near)[0].tolist() == [2]
    assert histogram([1.0, 1.0 + 1e-9])[0].tolist() == [1, *[0] * 8, 1]
    card = card_of(write_hdf5(tmp_path / "a.hdf5", columns()))
    card.returns = near
    assert sum("█" in line for line in card.lines()) == 1


def test_a_histogram_of_one_value_has_one_bin():
    counts, edges = histogram([2.0, 2.0])
    assert (counts.tolist(), len(edges)) == ([2], 2)
    assert histogram([0.0, 1.0])[0].sum() == 2
