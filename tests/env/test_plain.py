"""Spaces as plain data."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from argosy.env.plain import space_from_plain, space_to_plain

IMAGE = spaces.Box(0, 255, (84, 84, 4), np.uint8)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.float32([-0.1, -np.inf]), np.float32([0.3, np.inf])),
        spaces.Box(-1e300, 1.0, (2, 3), np.float64),
        spaces.Box(-1, 1, ()),
        IMAGE,
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, 7]]),
        spaces.MultiBinary(3),
        spaces.MultiBinary([2, 3]),
        spaces.Tuple((spaces.Discrete(2), spaces.Dict({"a": spaces.Discrete(3)}))),
    ],
    ids=str,
)
def test_a_space_comes_back_from_json(space):
    again = space_from_plain(json.loads(json.dumps(space_to_plain(space))))
    assert again == space
    assert again.dtype == space.dtype


def test_the_order_of_a_dict_is_kept():
    parts = [("z", spaces.Discrete(2)), ("a", spaces.Box(0, 1, (2,)))]
    again = space_from_plain(space_to_plain(spaces.Dict(parts)))
    assert list(again) == list(spaces.Dict(parts)) == ["z", "a"]


def test_an_image_takes_a_line_and_objects_are_left_out():
    assert len(json.dumps(space_to_plain(IMAGE))) < 100
    assert space_to_plain(spaces.Text(3)) is None
    assert space_to_plain(spaces.Dict({"a": spaces.Text(3), "b": spaces.Discrete(2)})) is None
    with pytest.raises(ValueError, match="unknown space 'Text'"):
        space_from_plain({"type": "Text"})
