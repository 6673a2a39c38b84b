"""SegmentTree against plain sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.data import SegmentTree
from argosy.errors import ConfigError


def test_by_hand():
    tree = SegmentTree(5)
    assert (len(tree), tree.reduce()) == (5, 0)
    tree[np.array([0, 1, 2])] = [1, 2, 3]
    tree[4] = 4
    assert tree[2] == 3
    assert tree[np.array([4, 3])].tolist() == [4, 0]
    assert [tree.reduce(), tree.reduce(1), tree.reduce(1, 3), tree.reduce(0, -1), tree.reduce(3, 2)] == [10, 9, 5, 6, 0]
    assert [tree.get_prefix_sum_idx(x) for x in (0, 0.9, 1, 2.9, 3, 5.9, 6, 9.9, 10, 99)] == [
        0,
        0,
        1,
        1,
        2,
        2,
        4,
        4,
        4,
        4,
    ]
    assert tree.get_prefix_sum_idx(np.array([[0.5, 6.5]])).tolist() == [[0, 4]]
    with pytest.raises(IndexError, match="from 5 to 5; the tree holds 5 numbers"):
        tree[5] = 1
    with pytest.raises(ConfigError, match="size is 0"):
        SegmentTree(0)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.data())
def test_like_plain_sums(numbers, data):
    tree = SegmentTree(len(numbers))
    tree[np.arange(len(numbers))] = numbers
    start, end = (data.draw(st.integers(-len(numbers), len(numbers))) for _ in range(2))
    assert tree.reduce(start, end) == sum(numbers[start:end])
    value = data.draw(st.integers(0, 2 * sum(numbers)))
    above = np.flatnonzero(np.cumsum(numbers) > value)
    if len(above):
        assert tree.get_prefix_sum_idx(value) == above[0]
