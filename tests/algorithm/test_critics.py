"""What holds for every algorithm with an actor and critics, each with an optimiser of its own."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from algorithm_checks import make_batch
from declared import declared
from gymnasium import spaces
from stand_ins import BOX, NET, OBS, Recorder, batch, equal, parameters

from argosy.algorithm import ALGORITHMS, IQL, OptimConfig, Task, algorithm_class
from argosy.algorithm.critics import critic_loss
from argosy.data import Batch
from argosy.net import EnsembleCritic, NetConfig
from argosy.net.statistics import Scaled

CRITICS = [name for name in ALGORITHMS if "critic" in declared(name, "LEARNS")]


def make(name, space=None, **changes):
    config, own_space = next(iter(declared(name, "CASES").values()))
    task = Task(observation_space=OBS, action_space=space or own_space, net=NET)
    changes = {field: value for field, value in changes.items() if hasattr(config, field)}
    return algorithm_class(name).make(dataclasses.replace(config, **changes), task, seed=0)


@pytest.mark.parametrize("name", CRITICS)
def test_the_actors_step_does_not_touch_the_critics(name):
    algorithm = make(name, policy_freq=1)
    algorithm.critic_optim = Recorder()
    critic, actor = parameters(algorithm.critic), parameters(algorithm.policy)
    algorithm.update(make_batch(algorithm))
    assert equal(critic, parameters(algorithm.critic))
    assert not any(torch.equal(a, b) for a, b in zip(actor, parameters(algorithm.policy), strict=True))
    assert all(parameter.grad is None for parameter in algorithm.critic.parameters())


@pytest.mark.parametrize("name", CRITICS)
def test_critics_learn_in_every_update_and_all_else_when_it_is_its_turn(name):
    """A target policy, and the target critics beside it, wait for the policy; target critics alone wait for nobody."""
    algorithm = make(name, policy_freq=3, tau=0.25)
    pairs = [(part, f"{part}_target") for part in ("policy", "critic") if hasattr(algorithm, f"{part}_target")]
    moved = []
    for i in range(7):
        actor, critic = parameters(algorithm.policy), parameters(algorithm.critic)
        alpha = getattr(algorithm, "log_alpha", torch.zeros(())).item()
        targets = [parameters(getattr(algorithm, target)) for _, target in pairs]
        stats = algorithm.update(make_batch(algorithm, i))
        moved.append(not equal(actor, parameters(algorithm.policy)))
        present = [getattr(stats, field, stats.loss_actor) for field in ("loss_actor", "loss_alpha", "entropy")]
        assert [value is not None for value in present] == [moved[-1]] * 3
        if hasattr(algorithm, "log_alpha"):
            assert (algorithm.log_alpha.item() != alpha) == moved[-1]
        assert not equal(critic, parameters(algorithm.critic))
        follows = moved[-1] or not hasattr(algorithm, "policy_target")
        for (online, target), before in zip(pairs, targets, strict=True):
            for old, new, now in zip(
                before, parameters(getattr(algorithm, online)), parameters(getattr(algorithm, target)), strict=True
            ):
                torch.testing.assert_close(now, 0.75 * old + 0.25 * new if follows else old)
    waits = hasattr(algorithm.config, "policy_freq")
    assert moved == ([False, False, True, False, False, True, False] if waits else [True] * 7)


@pytest.mark.parametrize("name", [name for name in CRITICS if spaces.Box in algorithm_class(name).action_spaces])
def test_actions_with_several_axes(name):
    algorithm = make(name, spaces.Box(-1.0, 1.0, (2, 1), np.float32), policy_freq=1)
    assert all(math.isfinite(value) for value in algorithm.update(make_batch(algorithm)).metrics().values())


def test_the_critics_loss_by_hand():
    q = torch.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True)  # two critics, two rows
    plain = EnsembleCritic(OBS, 2, NET)
    found = critic_loss(plain, q, torch.tensor([0.0, 1.0]), Batch(weight=torch.tensor([1.0, 0.5])))
    assert found.loss.item() == ((1 + 9) + 0.5 * (1 + 1)) / 2
    assert found.q.tolist() == [2.0, 1.0]
    assert found.error.tolist() == [2.0, 1.0]
    assert not found.q.requires_grad
    assert not found.error.requires_grad
    (gradient,) = torch.autograd.grad(found.loss, q)
    assert gradient.tolist() == [[1.0, 0.5], [3.0, -0.5]]


def test_scaled_critics_learn_in_units_of_the_deviation_by_hand():
    critic = EnsembleCritic(OBS, 2, NET, scaling="popart")
    critic.take_in(torch.tensor([10.0, 30.0]), Batch(weight=torch.ones(2)))  # mean 20, deviation 10
    q = torch.tensor([[20.0, 40.0], [30.0, 20.0]], requires_grad=True)
    found = critic_loss(critic, q, torch.tensor([0.0, 30.0]), Batch(weight=torch.tensor([1.0, 0.5])))
    # in these units targets are -2 and 1, values 0 and 2, 1 and 0: errors 2 and 1, 3 and -1
    assert found.loss.item() == pytest.approx(((4 + 9) + 0.5 * (1 + 1)) / 2)
    assert found.error.tolist() == pytest.approx([2.5, 1.0])
    assert found.q.tolist() == [25.0, 30.0]  # in units of reward
    assert found.target.tolist() == [0.0, 30.0]


SCALING = [name for name in ALGORITHMS if hasattr(algorithm_class(name).config_type, "value_scaling")]


def heads(algorithm):
    """What learns, not what follows it."""
    parts = [part for part in vars(algorithm).values() if isinstance(part, torch.nn.Module)]
    found = [head for part in parts for head in part.modules() if isinstance(head, Scaled)]
    return [head for head in found if head.weight.requires_grad]


def by_targets(algorithm):
    """What learns the values of targets, which follow slowly: V of IQL."""
    return (
        [head for head in algorithm.value.modules() if isinstance(head, Scaled)] if isinstance(algorithm, IQL) else []
    )


@pytest.mark.parametrize("setting", ["popart", "return_scaling"])
@pytest.mark.parametrize("name", SCALING)
def test_every_critic_scales_where_it_is_told_to(name, setting):
    """Its targets count in the statistics, and rewards a thousand times as large are learned from alike."""
    scaling = {"popart": setting == "popart", "return_scaling": setting != "popart"}
    small, large = (make(name, **scaling) for _ in range(2))
    assert heads(small)
    assert not heads(make(name, popart=False, return_scaling=False))
    for algorithm, unit in ((small, 1.0), (large, 1000.0)):
        for seed in range(3):
            batch = make_batch(algorithm, seed)
            batch.rew = batch.rew * unit
            algorithm.update(batch)
    for head in heads(small):
        assert head.statistics.count > 0
    if name not in LEARNS_REWARDS:
        for head, other in zip(heads(small), heads(large), strict=True):
            if head not in by_targets(small):
                assert other.std > 10.0 * head.std


LEARNS_REWARDS = ("gail",)


@pytest.mark.parametrize("name", ["discrete_sac", "discrete_crr", "iql"])
def test_of_a_single_choice_there_is_a_value(name):
    cls = algorithm_class(name)
    task = Task(observation_space=spaces.Box(-1, 1, (3,)), action_space=spaces.Discrete(1), net=NetConfig())
    algorithm = cls.make(cls.config_type(), task, seed=0)
    rng = np.random.default_rng(0)
    obs, obs_next = rng.normal(size=(2, 4, 3)).astype(np.float32)
    ones = np.ones(4, np.float32)
    rows = Batch(obs=obs, obs_next=obs_next, act=np.zeros(4, np.int64), rew=ones, discount=ones, weight=ones)
    assert algorithm.critic.value(algorithm.prepare(rows[:])).shape[1:] == (4, 1)
    assert np.isfinite(algorithm.update(rows).loss_critic)


def weighted(name, **config):
    """An algorithm that imitates actions by their advantages, in a Box."""
    cls = algorithm_class(name)
    return cls.make(cls.config_type(**config), Task(observation_space=OBS, action_space=BOX, net=NET), seed=0)


@pytest.mark.parametrize("name", ["iql", "awac"])
def test_stored_draws_beyond_the_bounds_are_what_the_env_took(name):
    """Whoever goes on online stores a Gaussian's draws, which the env cuts."""
    one, other = weighted(name), weighted(name)
    losses = [
        algorithm.update(batch(act=np.full((16, 2), act, np.float32))).loss_actor
        for algorithm, act in ((one, 3.0), (other, 1.0))
    ]
    assert losses[0] == losses[1]
    assert equal(parameters(one.policy, one.critic), parameters(other.policy, other.critic))


@pytest.mark.parametrize("name", ["iql", "awac"])
def test_the_deviation_does_not_shrink_for_ever(name):
    algorithm = weighted(name, actor_optim=OptimConfig(lr=0.05))
    for seed in range(300):
        algorithm.update(batch(seed=seed, act=np.ones((16, 2), np.float32)))
    assert algorithm.policy.action_head.log_std.tolist() == [-5.0, -5.0]
