"""Shared memory: observations that are lent out stay as they are for as long as someone holds them."""

import os

import numpy as np
from gymnasium import spaces

from argosy.env.worker.base import EnvSpaces
from argosy.env.worker.shared import SLOTS, SharedArrays

BOX = spaces.Box(0, 255, (3,), np.uint8)
NESTED = spaces.Dict(a=BOX, b=spaces.Dict(c=spaces.Discrete(5)))


def shared(observation=BOX, n=2):
    arrays = SharedArrays(EnvSpaces(observation, spaces.Discrete(4)), n)
    arrays.close_fd()
    return arrays


def test_both_sides_see_the_same_memory():
    spaces_ = EnvSpaces(NESTED, spaces.Tuple([spaces.Discrete(3), BOX]), (2,))
    mine = SharedArrays(spaces_, 4)
    theirs = SharedArrays(spaces_, 4, os.dup(mine.fd))
    mine.close_fd()
    theirs.close_fd()
    theirs.obs[2]["a"][:] = np.arange(12).reshape(4, 3)
    theirs.obs[2]["b"]["c"][:] = 4
    theirs.rew[:] = np.arange(8).reshape(4, 2)
    theirs.truncated[1] = True
    mine.action["0"][:] = 7
    assert mine.obs[2]["a"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert mine.obs[1]["a"].max() == 0
    assert mine.obs[2]["b"]["c"].tolist() == [4] * 4
    assert mine.rew.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mine.truncated.tolist() == [False, True, False, False]
    assert theirs.action["0"].tolist() == [7] * 4


def test_a_slot_is_lent_again_only_when_nothing_refers_to_it():
    arrays = shared()
    lent = [arrays.lend() for _ in range(SLOTS - 1)]
    assert sorted(slot for _, slot in lent) == list(range(1, SLOTS))
    assert arrays.lend() == (None, 0)
    (obs, slot), *others = lent
    part = obs[1:, :2].reshape(-1)  # a view of a view
    del obs, lent
    assert arrays.lend() == (None, 0)
    del part
    again, number = arrays.lend()
    assert number == slot
    del others
    assert again.shape == (2, 3)
    assert arrays.lend()[1] != slot


def test_nested_observations_are_lent_part_by_part():
    arrays = shared(NESTED)
    kept = []
    for _ in range(SLOTS - 1):
        obs, _ = arrays.lend()
        kept.append(obs["b"]["c"])
    assert arrays.lend() == (None, 0)
    kept.clear()
    del obs
    assert arrays.lend()[1] > 0


def test_lent_memory_outlives_the_block():
    arrays = shared()
    obs, _ = arrays.lend()
    obs[:] = 9
    del arrays
    assert obs.tolist() == [[9, 9, 9]] * 2


def test_nothing_in_the_file_system():
    before = set(os.listdir("/dev/shm"))
    arrays = shared(n=1000)
    assert arrays.nbytes > 1000 * 3
    assert set(os.listdir("/dev/shm")) == before
