from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from argosy.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer
from argosy.errors import DataError


def rows(rng: np.random.Generator, steps: int, num: int, agents: int) -> dict[str, Any]:
    shape = (steps, num)
    return {
        "obs": {"x": rng.standard_normal((*shape, 2)).astype(np.float32), "k": rng.integers(0, 9, shape)},
        "act": rng.integers(0, 3, shape),
        "rew": rng.integers(0, 5, (*shape, agents) if agents else shape).astype(np.float32),
        "terminated": rng.random(shape) < 0.2,
        "truncated": rng.random(shape) < 0.1,
        "obs_next": {"x": rng.standard_normal((*shape, 2)).astype(np.float32), "k": rng.integers(0, 9, shape)},
        "policy": {"logp": rng.standard_normal(shape)},
        "info": {"speed": rng.standard_normal(shape)},
    }


def mapped(tree: Any, change: Any) -> Any:
    return {k: mapped(v, change) for k, v in tree.items()} if isinstance(tree, dict) else change(tree)


def state(buffer: Any) -> dict[str, Any]:
    flat: dict[str, Any] = {}

    def walk(value: Any, at: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{at}.{key}")
        else:
            flat[at] = value.tolist() if isinstance(value, np.ndarray) else value

    walk(buffer.state_dict(), "")
    return flat


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["plain", "successors", "priorities", "agents"])
def test_adding_steps_at_once_equals_adding_them_one_by_one(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    num, size = int(rng.integers(1, 4)), int(rng.integers(1, 9))

    def make() -> VectorReplayBuffer:
        if kind == "priorities":
            return PrioritizedVectorReplayBuffer(num * size, num, alpha=0.6, beta=0.4, seed=0)
        return VectorReplayBuffer(num * size, num, ignore_obs_next=kind == "successors", info_keys=("speed",), seed=0)

    one, many = make(), make()
    for _ in range(8):
        steps = int(rng.integers(1, size + 1))
        given = rows(rng, steps, num, agents=2 if kind == "agents" else 0)
        written = [one.add(mapped(given, lambda leaf, t=t: leaf[t]))[0].tolist() for t in range(steps)]
        flat = mapped(given, lambda leaf: leaf.reshape(-1, *leaf.shape[2:]))
        assert many.add_steps(flat, steps).tolist() == written
        assert state(many) == state(one)
        every = many.rollout().indices.ravel()
        assert many.next(every).tolist() == one.next(every).tolist()
        assert many.prev(every).tolist() == one.prev(every).tolist()
        assert many[every] == one[every]
        if rng.random() < 0.3:
            one.end_episodes()
            many.end_episodes()
        if rng.random() < 0.3:  # and single rows between
            given = mapped(rows(rng, 1, num, agents=2 if kind == "agents" else 0), lambda leaf: leaf[0])
            assert [part.tolist() for part in one.add(given)] == [part.tolist() for part in many.add(given)]


def test_nothing_is_written_where_something_does_not_fit() -> None:
    buffer = VectorReplayBuffer(8, 2)
    given = mapped(rows(np.random.default_rng(0), 2, 2, 0), lambda leaf: leaf.reshape(-1, *leaf.shape[2:]))
    buffer.add_steps(given, 2)
    before = state(buffer)
    for bad in (
        {**given, "act": given["act"][:, None]},
        {**given, "rew": np.full(4, np.nan, np.float32)},
        {**given, "obs_next": {"x": given["obs"]["x"]}},
    ):
        with pytest.raises(DataError, match=r"act|rew|obs_next"):
            buffer.add_steps(bad, 2)
        assert state(buffer) == before
