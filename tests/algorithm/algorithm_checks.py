"""`check_algorithm`: what every algorithm must do, whatever it learns and sees, with or without memory."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import inspect
import math
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.algorithm import Algorithm, Task, algorithm_class
from argosy.collect.rows import begin_anew, with_state
from argosy.data import Batch, as_tensors, tree
from argosy.errors import CheckpointError, DataError
from argosy.net import NetConfig
from argosy.policy import Policy, RolloutRequest
from argosy.policy.sequences import sequences, starts
from argosy.trainer.statefile import read_state, write_state

NET = NetConfig(hidden_sizes=(16, 16), cnn_features=8, memory_size=6, sequence_length=4, burn_in=2)

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

NUMBER = spaces.Discrete(5, start=2)
"""Observations for algorithms that take none of the others."""

FACES = {"analyze", "analyze_next", "explore_by", "to", "parameters", "device", "map_action", "map_action_inverse"}
FACES |= {"actor_parameters", "critic_parameters"}
"""What an algorithm may call of a policy, beside what says how its spaces are read and what its own test declares."""
SIZES = {"action_dim", "num_actions", "action_space", "observation_space", "mask_key"}


def observation_kinds(cls: Any, action_space: spaces.Space[Any]) -> list[str]:
    """Names of the observations that are checked; "mask" where actions can be forbidden."""
    discrete = isinstance(action_space, spaces.Discrete | spaces.MultiDiscrete)
    kinds = [*OBSERVATIONS, "mask"] if discrete else list(OBSERVATIONS)
    return [kind for kind in kinds if isinstance(observation_space(kind, action_space), cls.observation_spaces)] or [
        "number"
    ]


def observation_space(kind: str, action_space: spaces.Space[Any]) -> spaces.Space[Any]:
    if kind != "mask":
        return NUMBER if kind == "number" else OBSERVATIONS[kind]
    count = int(action_space.n) if isinstance(action_space, spaces.Discrete) else int(action_space.nvec.sum())
    return spaces.Dict({"obs": OBSERVATIONS["vector"], "action_mask": spaces.MultiBinary(count)})


def observations(space: spaces.Space[Any], lead: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Random observations [*lead, *obs] as a collector would hold them."""
    if isinstance(space, spaces.Dict):
        return {key: observations(part, lead, rng) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return space.start + rng.integers(space.n, size=lead)
    if isinstance(space, spaces.MultiBinary):  # a mask: the first choice of each action is always allowed
        mask = rng.integers(0, 2, size=(*lead, *space.shape)).astype(np.int8)
        mask[..., 0] = 1
        mask[..., 2] = 1
        return mask
    assert isinstance(space, spaces.Box)
    return rng.uniform(space.low, space.high, (*lead, *space.shape)).astype(space.dtype)


def play(policy: Policy, seed: int, size: tuple[int, int], *, evaluates: bool = False) -> Batch:
    """Random experience [T, B, ...] of a policy, with the states that its memory went through."""
    rng, own, (T, B) = np.random.default_rng(seed), policy.rng.state_dict(), size
    policy.seed(seed)
    obs, state, begins = observations(policy.observation_space, (B,), rng), policy.first_states(B), np.ones(B, bool)
    rows = []
    for t in range(T):
        if state is not None:
            state = begin_anew(state, begins, policy.default_policy_state)
        request = RolloutRequest(
            obs=obs, policy_state=state, is_evaluation=np.ones(B, bool) if evaluates else None, on_reset=begins
        )
        result = policy.rollout(request)
        stored = with_state(policy, result.analyzed_result, state)
        terminated = rng.random(B) < 0.2
        truncated = (rng.random(B) < 0.2) & ~terminated
        obs_next = observations(policy.observation_space, (B,), rng)
        rows.append(
            Batch(
                obs=obs,
                act=result.action,
                rew=rng.normal(size=B).astype(np.float32),
                terminated=terminated,
                truncated=truncated,
                done=terminated | truncated,
                obs_next=obs_next,
                policy=Batch() if stored is None else stored,
                cut=terminated | truncated | (t == T - 1),
                on_reset=begins,
            )
        )
        fresh, begins = observations(policy.observation_space, (B,), rng), terminated | truncated
        obs, state = tree.map_leaves(np.copy, obs_next), result.policy_state
        if isinstance(obs, dict):
            tree.assign(obs, begins, tree.index(fresh, begins))
        else:
            obs[begins] = fresh[begins]
    policy.rng.load_state_dict(own)  # as if it had not acted
    return Batch.stack(rows)


def make_batch(algorithm: Any, seed: int = 0, size: tuple[int, int] = (8, 4)) -> Batch:
    """A random batch of the form that the algorithm's trainer would hand it, with actions of its own policy."""
    policy, rng, (T, B) = algorithm.policy, np.random.default_rng(seed), size
    batch = play(policy, seed, size)
    if algorithm.kind == "onpolicy":
        del batch.on_reset
        if algorithm.expert_rows:
            expert = {name: batch[name][::-1] for name in ("obs_next", "obs", "act", "terminated")}
            rows = tree.map_leaves(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:-2].copy(), Batch(expert))
            batch.expert = rows
        return batch
    batch.discount = (algorithm.config.gamma * ~batch.terminated).astype(np.float32)
    batch.weight = rng.uniform(0.5, 1.0, (T, B)).astype(np.float32)
    batch.indices = np.arange(T * B).reshape(T, B)
    others = {
        "returns": batch.rew * 3.0,
        "ended": np.ones((T, B), bool),
        "act_next": np.where(rng.random(batch.act.shape) < 0.2, np.nan, -batch.act).astype(np.float32),
    }
    for field in algorithm.sampling.fields:
        batch[field] = others[field]
    if policy.is_recurrent:
        batch.mask = np.ones((T, B), bool)
        batch.mask[:2] = False
        return batch
    del batch.on_reset
    return tree.map_leaves(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), batch)


def flat(state: Any, at: str = "") -> dict[str, Any]:
    """Nested dicts and lists as one dict of copied leaves."""
    if isinstance(state, dict | list | tuple):
        pairs = state.items() if isinstance(state, dict) else enumerate(state)
        return {name: leaf for key, value in pairs for name, leaf in flat(value, f"{at}.{key}").items()}
    return {at[1:]: state.clone() if isinstance(state, torch.Tensor) else copy.copy(state)}


def same(a: Any, b: Any) -> bool:
    return bool(torch.equal(a, b)) if isinstance(a, torch.Tensor) else bool(np.array_equal(a, b))


def differences(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    new = {name for name in after if name not in before}
    assert before.keys() <= after.keys()
    assert all(".slots." in name for name in new)  # torch's optimisers keep nothing before their first step
    return new | {name for name in before if not same(before[name], after[name])}


def check_algorithm(
    name: str,
    config: Any,
    action_space: spaces.Space[Any],
    tmp_path: Any,
    *,
    memory: str | None = None,
    observation: str = "vector",
    learns: tuple[str, ...] = ("policy",),
    follows: tuple[str, ...] = (),
    bootstraps: bool = True,
    acts_on_data: bool = True,
    context: tuple[str, ...] = (),
    faces: tuple[str, ...] = (),
) -> None:
    """Run all checks.

    Args:
        name: the algorithm.
        config: its config.
        action_space: a space that it can act in.
        tmp_path: a folder.
        memory: of policy and critics.
        observation: one of `observation_kinds`.
        learns: parts of its state whose every parameter one update must change.
        follows: parts that one update may leave alone, but nothing else than `update` may change.
        bootstraps: whether it values the successors of a sample.
        acts_on_data: whether what it says of stored data needs nothing but what it knows when it acts.
        context: fields of a row that other rows of a sample are learned with, whatever it weighs.
        faces: what it may call of its policy beside `FACES`.
    """
    cls, space = algorithm_class(name), observation_space(observation, action_space)

    def make(seed: int = 0, **net: Any) -> Any:
        shape = dataclasses.replace(NET, memory=memory, **net)
        return cls.make(config, Task(observation_space=space, action_space=action_space, net=shape), seed)

    _check_faces(cls, {*FACES, *SIZES, *faces})
    _check_way_in(cls)
    _check_update(make(), learns, follows)
    if acts_on_data:
        _check_acting_is_learning(make())
    _check_ends(make, bootstraps)
    if cls.kind != "onpolicy" and memory is None and observation == "vector":
        _check_weights(make, context)
    if memory is not None:
        _check_sequences_cut_anywhere(make)
    _check_same_seed(make)
    _check_save_and_load(make, tmp_path)
    if observation == "number":  # there may be no network to differ in
        foreign = cls.make(config, Task(observation_space=spaces.Discrete(7), action_space=action_space), 0)
    else:
        foreign = make(hidden_sizes=(6,), cnn_features=5, memory_size=5)
    _check_foreign_state(make(), foreign)
    _check_nan(make(), observation)
    _check_rewards_of_several_agents(make())
    _check_tensors_do_as_well_as_arrays(make)


@functools.cache
def _own_code(cls: Any) -> list[ast.AST]:
    """Everything that stands in the files of an algorithm and of what it shares with others."""
    files = {inspect.getmodule(part) for part in cls.__mro__[: cls.__mro__.index(Algorithm)]}
    return [node for file in files for node in ast.walk(ast.parse(inspect.getsource(file)))]


def _check_faces(cls: Any, faces: set[str]) -> None:
    """An algorithm, and what it shares with others, calls nothing of a policy but its declared faces."""
    for node in _own_code(cls):
        owner = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id == "self":
            name = owner.attr
        else:
            name = owner.id if isinstance(owner, ast.Name) else ""
        if name.startswith("policy"):
            assert node.attr in faces, f"{cls.__name__} uses {name}.{node.attr}"


def _check_way_in(cls: Any) -> None:
    """`update` prepares its batch before it looks at it; what it and the losses take is a protocol."""
    for node in (node for node in _own_code(cls) if isinstance(node, ast.FunctionDef)):
        for argument in node.args.args:
            kind = "" if argument.annotation is None else ast.unparse(argument.annotation)
            if argument.arg in ("batch", "rollout", "sample", "mb"):
                assert kind in ("TransitionBatch", "TrajectoryBatch", "AdvantageBatch", "SampleBatch"), (
                    node.name,
                    kind,
                )
        if node.name == "update" and len(node.args.args) > 1:
            name = node.args.args[1].arg
            first = next(part for part in node.body if any(_is_named(inner, name) for inner in ast.walk(part)))
            calls = {ast.unparse(call) for call in ast.walk(first) if isinstance(call, ast.Call)}
            assert f"self.prepare({name})" in calls, f"{cls.__name__}.update begins otherwise"


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _check_update(algorithm: Any, learns: tuple[str, ...], follows: tuple[str, ...]) -> None:
    batch = make_batch(algorithm)
    untouched = copy.deepcopy(batch)
    before, global_rng = flat(algorithm.state_dict()), torch.get_rng_state()
    assert algorithm.policy.version == -1
    metrics = algorithm.update(batch).metrics()
    changed = differences(before, flat(algorithm.state_dict()))

    assert any(key.startswith("loss/") for key in metrics)
    assert all(isinstance(value, float) and math.isfinite(value) for value in metrics.values())
    assert batch == untouched, "update wrote into the caller's batch"
    assert torch.equal(torch.get_rng_state(), global_rng), "update drew from torch's global generator"
    assert {"parts.num_updates", "version"} <= changed
    assert (algorithm.num_updates, algorithm.policy.version) == (1, 0)
    for part in learns:
        still = {key for key in before if key.startswith(f"parts.{part}.") and key not in changed}
        still = {key for key in still if not key.endswith("_extra_state") and ".waiting_" not in key}
        assert not still, f"update left {still} as they were"
    for key in changed:
        part = key.split(".")[1] if key.startswith("parts.") else key.split(".")[0]
        known = {*learns, *follows, "num_updates", "version", "rng"}
        assert part in known or part.endswith(("optim", "stat")) or part.startswith("update_"), f"update changed {key}"
    assert all(parameter.grad is None for parameter in algorithm.policy.parameters())


def _check_acting_is_learning(algorithm: Any) -> None:
    """What a policy says of stored data is what it did: the same numbers, after the same states."""
    policy = algorithm.policy
    batch = play(policy, 3, (9, 3), evaluates=True)
    batch.on_reset = starts(torch.from_numpy(batch.cut)).numpy()
    batch.rew = batch.rew.astype(np.float32)
    with torch.no_grad():
        analysis = policy.analyze(algorithm.prepare(batch))
        if "logp" in batch.policy:
            np.testing.assert_allclose(analysis.logp.numpy(), batch.policy.logp, rtol=1e-5, atol=1e-5)
        elif hasattr(analysis, "greedy"):
            assert np.array_equal(analysis.greedy.numpy(), batch.act)
        else:
            np.testing.assert_allclose(analysis.act.numpy(), batch.act, rtol=1e-5, atol=1e-5)
        if "value" in batch.policy:
            np.testing.assert_allclose(analysis.value.numpy(), batch.policy.value, rtol=1e-5, atol=1e-5)


def _check_ends(make: Any, bootstraps: bool) -> None:
    """What comes after a terminated row counts for nothing, after a truncated one as after any other."""
    whole = make_batch(make(), 6)

    def losses(end: str | None) -> dict[str, float]:
        algorithm, batch = make(), copy.deepcopy(whole)
        rows = np.zeros_like(batch.terminated) if end is None else batch[end]
        other = observations(algorithm.policy.observation_space, rows.shape, np.random.default_rng(7))
        tree.assign(batch.obs_next, rows, tree.index(other, rows))
        metrics = algorithm.update(batch).metrics()
        return {name: value for name, value in metrics.items() if name.startswith("loss/")}

    plain, terminated, truncated = (losses(end) for end in (None, "terminated", "truncated"))
    assert terminated == pytest.approx(plain, rel=1e-6, abs=1e-6), "a terminated row bootstraps"
    assert (truncated != pytest.approx(plain, rel=1e-6, abs=1e-6)) == bootstraps, "a truncated row does not bootstrap"


def _check_weights(make: Any, context: tuple[str, ...]) -> None:
    """A row teaches by its weight: what is said of one without any changes nothing that is learned."""
    whole = make_batch(make(), 8)
    rows = np.abs(whole.rew) < np.median(np.abs(whole.rew))  # the largest reward may be the unit of the others

    def learned(weight: float, *erased: str) -> dict[str, Any]:
        algorithm, batch = make(), copy.deepcopy(whole)
        batch.weight[rows] = weight
        for field in erased:
            batch[field][rows] = 0
        algorithm.update(batch)
        return flat(algorithm.state_dict())

    matter = [field for field in ("rew", "act") if differences(learned(1.0), learned(1.0, field))]
    assert matter
    for field in set(matter) - set(context):
        assert not differences(learned(0.0), learned(0.0, field)), f"{field} of a row counts whatever its weight is"


def _check_sequences_cut_anywhere(make: Any) -> None:
    """Sequences of any length give the loss of the whole, as each starts from its state or is warmed up from there."""

    def losses(length: int, burn_in: int) -> dict[str, float]:
        algorithm = make(sequence_length=length, burn_in=burn_in)
        batch = make_batch(algorithm, 5, (9, 3))
        if algorithm.kind == "onpolicy":
            algorithm.config = _one_pass(algorithm.config)
        else:
            batch.mask[:] = True
            batch.cut[-1] = True
            batch = sequences(as_tensors(batch), length, burn_in)
        with (  # draws that are the same for any shape
            mock.patch.object(torch.Tensor, "normal_", lambda self, *_, **__: self.zero_()),
            mock.patch.object(torch.Tensor, "uniform_", lambda self, *_, **__: self.fill_(0.5)),
            mock.patch.object(torch.Tensor, "bernoulli_", lambda self, *_, **__: self.fill_(1.0)),
        ):
            metrics = algorithm.update(batch).metrics()
        return {name: value for name, value in metrics.items() if name.startswith("loss/")}

    whole = losses(9, 0)
    warmed_up = [losses(length, 9) for length in (4, 1)]
    # Where all that learns has stored states, nothing has to be warmed up
    from_states = [] if hasattr(make(), "critic") else [losses(length, 0) for length in (4, 1)]
    for cut in (*warmed_up, *from_states):
        assert cut == pytest.approx(whole, rel=1e-5, abs=1e-5)


def _one_pass(config: Any) -> Any:
    changes = {"repeat_per_collect": 1, "batch_size": None, "critic_steps": 1}
    return dataclasses.replace(config, **{name: value for name, value in changes.items() if hasattr(config, name)})


def _check_same_seed(make: Any) -> None:
    states = []
    for seed, noise, updates in ((3, 1, 2), (3, 2, 2), (4, 3, 1)):
        torch.default_generator.manual_seed(noise)  # what happened before must not matter
        algorithm = make(seed=seed)
        for i in range(updates):
            algorithm.update(make_batch(algorithm, i))
        states.append(flat(algorithm.state_dict()))
    assert not differences(states[0], states[1]), "equal seeds gave different results"
    assert differences(states[0], states[2]), "different seeds gave equal results"


def _check_save_and_load(make: Any, tmp_path: Any) -> None:
    first, second = make(seed=1), make(seed=2)
    policy = first.policy
    for i in range(2):
        first.schedule(10 * i, 1000)
        first.update(make_batch(first, i))
    write_state(tmp_path / "state", "algorithm", first.state_dict())
    second.load_state_dict(read_state(tmp_path / "state", "algorithm"))
    assert not differences(flat(first.state_dict()), flat(second.state_dict()))
    obs = observations(policy.observation_space, (16,), np.random.default_rng(0))
    request = RolloutRequest(obs=obs, policy_state=policy.first_states(16))
    for i in range(2, 4):
        actions = [algorithm.policy.rollout(request).action for algorithm in (first, second)]
        assert np.array_equal(*actions), "a resumed policy explores differently"
        batch = make_batch(first, i)
        for algorithm in (first, second):
            algorithm.schedule(10 * i, 1000)
            algorithm.update(batch)
        assert not differences(flat(first.state_dict()), flat(second.state_dict())), "resumed learning went elsewhere"


def _check_foreign_state(algorithm: Any, other: Any) -> None:
    before = flat(algorithm.state_dict())
    with pytest.raises(CheckpointError, match="does not fit"):
        algorithm.load_state_dict(other.state_dict())
    assert not differences(before, flat(algorithm.state_dict())), "a refused state was loaded in part"
    foreign = algorithm.state_dict()
    with pytest.raises(CheckpointError, match="'else'"):
        algorithm.load_state_dict({**foreign, "parts": {"else": {}}})


def _check_nan(algorithm: Any, observation: str) -> None:
    before, batch = flat(algorithm.state_dict()), make_batch(algorithm)
    for field, kinds, value in (
        ("rew", ("vector", "image", "dict", "number"), np.nan),
        ("rew", ("vector", "number"), np.inf),
        ("obs", ("vector",), np.nan),
        ("obs", ("vector",), -np.inf),
        ("obs_next", ("vector",), np.nan),
        ("obs.speed", ("dict",), np.nan),
    ):
        if observation not in kinds:
            continue
        broken = copy.deepcopy(batch)
        leaf = broken[field] if "." not in field else broken.obs.speed
        leaf.reshape(-1)[-1] = value
        with pytest.raises(DataError, match=rf"batch\.{field} holds 1 NaN or infinite"):
            algorithm.update(broken)
        assert not differences(before, flat(algorithm.state_dict())), f"{value} in {field} changed something"


def _check_rewards_of_several_agents(algorithm: Any) -> None:
    batch = make_batch(algorithm)
    batch.rew = np.stack([batch.rew] * 2, axis=-1)
    before = flat(algorithm.state_dict())
    with pytest.raises(DataError, match=r"batch\.rew has shape"):
        algorithm.update(batch)
    if algorithm.kind != "onpolicy":  # samples need not say where episodes end: their discounts do
        del batch.terminated
        with pytest.raises(DataError, match=r"batch\.rew has shape .*, batch\.discount"):
            algorithm.update(batch)
    assert not differences(before, flat(algorithm.state_dict()))


def _check_tensors_do_as_well_as_arrays(make: Any) -> None:
    states, batch = [], make_batch(make())
    for given in (batch, as_tensors(batch)):
        algorithm = make()
        algorithm.update(given)
        states.append(flat(algorithm.state_dict()))
    assert not differences(*states)
