"""`check_algorithm`: what every algorithm must do, whatever it learns."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.algorithm import algorithm_class
from argosy.data import Batch, as_tensors, tree
from argosy.errors import CheckpointError, DataError
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.trainer.statefile import read_state, write_state

NET = NetConfig(hidden_sizes=(16, 16), cnn_features=8)

OBSERVATIONS = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "image": spaces.Box(0, 255, (2, 36, 36), np.uint8),
    "dict": spaces.Dict(
        {
            "image": spaces.Box(0, 255, (36, 36, 1), np.uint8),
            "speed": spaces.Box(-1, 1, (2,), np.float64),
            "room": spaces.Discrete(3),
        }
    ),
}


def observations(space: spaces.Space[Any], lead: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Random observations [*lead, *obs] as a collector would hold them."""
    if isinstance(space, spaces.Dict):
        return {key: observations(part, lead, rng) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.n, size=lead)
    assert isinstance(space, spaces.Box)
    return rng.uniform(space.low, space.high, (*lead, *space.shape)).astype(space.dtype)


def make_batch(algorithm: Any, seed: int = 0, size: tuple[int, int] = (8, 4)) -> Batch:
    """A random batch of the form that the algorithm's trainer would hand it, with actions of its own policy."""
    policy, rng = algorithm.policy, np.random.default_rng(seed)
    T, B = size
    lead = (T, B) if algorithm.kind == "onpolicy" else (T * B,)
    obs, obs_next = (observations(policy.observation_space, (T * B,), rng) for _ in range(2))
    actor = copy.deepcopy(policy)  # acting must not move the policy's random numbers
    actor.seed(seed)
    result = actor.rollout(RolloutRequest(obs=obs))
    terminated, truncated = rng.random((2, T * B)) < 0.2
    batch = Batch(
        obs=obs,
        act=result.action,
        rew=rng.normal(size=T * B).astype(np.float32),
        terminated=terminated,
        truncated=truncated & ~terminated,
        done=terminated | truncated,
        obs_next=obs_next,
        policy=result.analyzed_result if result.analyzed_result is not None else Batch(),
        info=Batch(),
        indices=np.arange(T * B),
    )
    if algorithm.kind == "onpolicy":
        last = np.arange(T * B) // B == T - 1
        batch.cut = batch.done | last
        return tree.map_leaves(lambda leaf: leaf.reshape(*lead, *leaf.shape[1:]), batch)
    batch.discount = (algorithm.config.gamma * ~terminated).astype(np.float32)
    batch.weight = rng.uniform(0.5, 1.0, T * B).astype(np.float32)
    return batch


def flat(state: Any, at: str = "") -> dict[str, Any]:
    """Nested dicts and lists as one dict of copied leaves."""
    if isinstance(state, dict | list | tuple):
        pairs = state.items() if isinstance(state, dict) else enumerate(state)
        return {name: leaf for key, value in pairs for name, leaf in flat(value, f"{at}.{key}").items()}
    return {at[1:]: state.clone() if isinstance(state, torch.Tensor) else copy.copy(state)}


def same(a: Any, b: Any) -> bool:
    return bool(torch.equal(a, b)) if isinstance(a, torch.Tensor) else bool(np.array_equal(a, b))


def differences(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if not same(before[name], after[name])}


def check_algorithm(
    name: str,
    config: Any,
    action_space: spaces.Space[Any],
    tmp_path: Any,
    *,
    learns: tuple[str, ...] = ("policy",),
    follows: tuple[str, ...] = (),
) -> None:
    """Run all checks.

    Args:
        name: the algorithm.
        config: its config.
        action_space: a space that it can act in.
        tmp_path: a folder.
        learns: parts of its state whose every parameter one update must change.
        follows: parts that one update may leave alone, but nothing else than `update` may change.
    """
    cls = algorithm_class(name)

    def make(observation: str = "vector", seed: int = 0) -> Any:
        return cls.from_spaces(config, OBSERVATIONS[observation], action_space, NET, seed=seed)

    for observation in OBSERVATIONS:
        _check_update(make(observation), learns, follows)
    _check_stats(make())
    _check_same_seed(make)
    _check_save_and_load(make, tmp_path)
    _check_foreign_state(make(), cls.from_spaces(config, OBSERVATIONS["vector"], action_space, NetConfig()))
    _check_nan(make)
    _check_tensors_do_as_well_as_arrays(make)


def _check_update(algorithm: Any, learns: tuple[str, ...], follows: tuple[str, ...]) -> None:
    batch = make_batch(algorithm)
    untouched = copy.deepcopy(batch)
    before, global_rng = flat(algorithm.state_dict()), torch.get_rng_state()
    assert algorithm.policy.version == -1
    algorithm.update(batch)
    changed = differences(before, flat(algorithm.state_dict()))

    assert batch == untouched, "update wrote into the caller's batch"
    assert torch.equal(torch.get_rng_state(), global_rng), "update drew from torch's global generator"
    assert {"num_updates", "version"} <= changed
    assert (algorithm.num_updates, algorithm.policy.version) == (1, 0)
    for part in learns:
        still = {key for key in before if key.startswith(f"parts.{part}.") and key not in changed}
        still = {key for key in still if not key.endswith("_extra_state")}
        assert not still, f"update left {still} as they were"
    for key in changed:
        part = key.split(".")[1] if key.startswith("parts.") else key.split(".")[0]
        known = {*learns, *follows, "num_updates", "version", "rng"}
        assert part in known or part.endswith(("optim", "stat")), f"update changed {key}"
    assert all(parameter.grad is None for parameter in algorithm.policy.parameters())


def _check_stats(algorithm: Any) -> None:
    stats = algorithm.update(make_batch(algorithm))
    metrics = stats.metrics()
    assert any(key.startswith("loss/") for key in metrics)
    assert all(isinstance(value, float) and math.isfinite(value) for value in metrics.values())


def _check_same_seed(make: Any) -> None:
    states = []
    for seed, noise in ((3, 1), (3, 2), (4, 3)):
        torch.manual_seed(noise)  # what happened before must not matter
        algorithm = make(seed=seed)
        for i in range(2):
            algorithm.update(make_batch(algorithm, i))
        states.append(flat(algorithm.state_dict()))
    assert not differences(states[0], states[1]), "equal seeds gave different results"
    assert differences(states[0], states[2]), "different seeds gave equal results"


def _check_save_and_load(make: Any, tmp_path: Any) -> None:
    first, second = make(seed=1), make(seed=2)
    for i in range(3):
        first.schedule(10 * i, 1000)
        first.update(make_batch(first, i))
    write_state(tmp_path / "state", "algorithm", first.state_dict())
    second.load_state_dict(read_state(tmp_path / "state", "algorithm"))
    assert not differences(flat(first.state_dict()), flat(second.state_dict()))
    request = RolloutRequest(obs=observations(OBSERVATIONS["vector"], (16,), np.random.default_rng(0)))
    for i in range(3, 6):
        actions = [algorithm.policy.rollout(request).action for algorithm in (first, second)]
        assert np.array_equal(*actions), "a resumed policy explores differently"
        for algorithm in (first, second):
            algorithm.schedule(10 * i, 1000)
            algorithm.update(make_batch(algorithm, i))
        assert not differences(flat(first.state_dict()), flat(second.state_dict())), "resumed learning went elsewhere"


def _check_foreign_state(algorithm: Any, other: Any) -> None:
    before = flat(algorithm.state_dict())
    with pytest.raises(CheckpointError, match="does not fit"):
        algorithm.load_state_dict(other.state_dict())
    assert not differences(before, flat(algorithm.state_dict())), "a refused state was loaded in part"
    foreign = algorithm.state_dict()
    with pytest.raises(CheckpointError, match="'else'"):
        algorithm.load_state_dict({**foreign, "parts": {"else": {}}})


def _check_nan(make: Any) -> None:
    for field, observation, value in (
        ("rew", "vector", np.nan),
        ("rew", "vector", np.inf),
        ("obs", "vector", np.nan),
        ("obs", "vector", -np.inf),
        ("obs_next", "vector", np.nan),
        ("obs.speed", "dict", np.nan),
    ):
        algorithm = make(observation)
        batch = make_batch(algorithm)
        leaf = batch[field] if "." not in field else batch.obs.speed
        leaf.reshape(-1)[-1] = value
        before = flat(algorithm.state_dict())
        with pytest.raises(DataError, match=rf"batch\.{field} holds 1 NaN or infinite"):
            algorithm.update(batch)
        assert not differences(before, flat(algorithm.state_dict())), f"{value} in {field} changed something"


def _check_tensors_do_as_well_as_arrays(make: Any) -> None:
    states = []
    for convert in (lambda batch: batch, as_tensors):
        algorithm = make()
        algorithm.update(convert(make_batch(algorithm)))
        states.append(flat(algorithm.state_dict()))
    assert not differences(*states)
