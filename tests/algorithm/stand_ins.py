"""Batches of random numbers, and parts whose answers are known, for losses computed by hand."""

import numpy as np
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.net import NetConfig

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)
NET = NetConfig(hidden_sizes=(16,))


def batch(count=16, seed=0, **changes):
    """Transitions [count, ...] of observations [3] and actions [2]."""
    rng = np.random.default_rng(seed)
    obs, obs_next = rng.uniform(-1, 1, (2, count, 3)).astype(np.float32)
    fields = {
        "obs": obs,
        "act": rng.uniform(-1, 1, (count, 2)).astype(np.float32),
        "rew": rng.normal(size=count).astype(np.float32),
        "obs_next": obs_next,
        "discount": np.full(count, 0.9, np.float32),
        "weight": np.ones(count, np.float32),
    }
    return Batch({**fields, **changes})


def transitions(obs, act, rew, obs_next, discount, weight):
    """Transitions of numbers that are given, with discrete actions."""
    fields = {"obs": obs, "rew": rew, "obs_next": obs_next, "discount": discount, "weight": weight}
    return Batch({key: np.asarray(value, np.float32) for key, value in fields.items()}, act=np.asarray(act))


def two_rows():
    """A terminated row (whose target is 0), and one that bootstraps by half and counts by half."""
    discount, weight = np.array([0.0, 0.5], np.float32), np.array([1.0, 0.5], np.float32)
    return batch(2, rew=np.zeros(2, np.float32), discount=discount, weight=weight)


def parameters(*modules):
    return [parameter.detach().clone() for module in modules for parameter in module.parameters()]


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


class Recorder:
    """Stands for an optimiser: notes losses, moves nothing."""

    def __init__(self):
        self.losses = []

    def step(self, loss):
        self.losses.append(loss)


def recorded(algorithm, *names):
    """Let optimisers only note the losses; -> these lists."""
    for name in names:
        setattr(algorithm, name, Recorder())
    return [getattr(algorithm, name).losses for name in names]


class Unscaled:
    """What critics say that learn returns as they are."""

    def scaled(self, values):
        return values

    def take_in(self, returns, sample):
        pass


class FixedCritic(Unscaled):
    """An ensemble of which each member says one value of everything, and the action beside; notes the actions."""

    def __init__(self, *values, slope=0.0):
        self.values, self.slope, self.asked = values, slope, []

    def value(self, sample, act):
        self.asked.append(act.detach().clone())
        return torch.tensor(self.values).unsqueeze(1).expand(-1, len(act)) + self.slope * act.sum(-1)

    next_value = value


class FixedValues(Unscaled):
    """An ensemble of which each member says the same values of all choices everywhere."""

    def __init__(self, *values):
        self.values = torch.tensor(values)

    def value(self, sample, act=None):
        values = self.values.unsqueeze(1).expand(-1, len(sample.weight), -1)
        return values if act is None else values[:, torch.arange(len(act)), act]

    next_value = value


class FixedActor:
    """What an actor's analysis says that always takes `act` with log-density `logp`."""

    def __init__(self, sample, act, logp):
        self.drawn = (
            torch.full((len(sample.obs), 2), act, requires_grad=True),
            torch.full((len(sample.obs),), logp, requires_grad=True),
        )

    def sample(self, generator, count=None):
        return self.drawn if count is None else tuple(x.expand(count, *x.shape).clone() for x in self.drawn)


def fixed_actor(algorithm, act, logp):
    algorithm.policy.analyze = algorithm.policy.analyze_next = lambda sample: FixedActor(sample, act, logp)


def learn_a_bandit(algorithm, updates, count=64):
    """Reward -(a - 0.5)^2 whatever is seen: the best action is (0.5, 0.5). -> the actions that it takes [2]."""
    for i in range(updates):
        data = batch(count, seed=i, discount=np.zeros(count, np.float32))
        data.rew = -np.square(data.act - 0.5).sum(-1)
        algorithm.update(data)
    return algorithm.policy(Batch(obs=batch(200).obs)).act.mean(0).tolist()


def learn_what_ends(algorithm, updates, **fields):
    """Learn from actions of -0.6 to 0.2, of which the larger are the better; none beyond. -> the ones it takes [2]."""
    for i in range(updates):
        data = batch(64, seed=i, discount=np.zeros(64, np.float32), **fields)
        data.act = 0.4 * data.act - 0.2
        data.rew = data.act.sum(-1)
        algorithm.update(data)
    return algorithm.policy(Batch(obs=batch(200).obs)).act.mean(0).tolist()


def learn_two_of_three(algorithm, updates):
    """Learn from choices of 0, worth -1, and of 1, worth -2; 2, of which nothing is known, looks better at first.

    -> the share of each choice [3] at observations at random.
    """
    for i in range(updates):
        act = np.random.default_rng(i).integers(2, size=64)
        data = batch(64, seed=i, act=act, rew=(-1.0 - act).astype(np.float32), discount=np.zeros(64, np.float32))
        algorithm.update(data)
    taken = algorithm.policy(Batch(obs=batch(200).obs)).act
    return torch.bincount(taken, minlength=3).div(200).tolist()
