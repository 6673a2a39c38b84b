"""State is found: an algorithm with parts of its own resumes exactly, and what cannot be saved is refused by name."""

import copy
import functools
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm import DQN, DQNConfig, OptimConfig, Task
from argosy.algorithm.state import find_state, restore_state, state_of
from argosy.data import Batch, RunningMeanStd
from argosy.errors import CheckpointError, ConfigError
from argosy.net import NetConfig, TargetUpdate, frozen_copy
from argosy.policy import EpsilonConfig
from argosy.trainer.statefile import read_state, write_state

OBS = spaces.Box(-1, 1, (2,), np.float32)


class Pair(NamedTuple):
    low: float
    high: float


class Curious(DQN):
    """DQN with a bonus for what a list of networks cannot predict: of every kind of state something."""

    def __init__(self, config, policy):
        super().__init__(config, policy)
        self.guesses = [nn.Linear(2, 2) for _ in range(2)]
        self.slow = frozen_copy(self.guesses[0])
        self.follow = TargetUpdate(self.slow, self.guesses[0], tau=0.3, every=2)
        self.guess_optims = {i: OptimConfig(lr=0.01, lr_schedule="linear").build(g) for i, g in enumerate(self.guesses)}
        self.bonus_stat = RunningMeanStd()
        self.scale, self.best, self.mood = 1.0, None, "calm"
        self.bounds = (0.0, 1.0)
        self.pair = Pair(0.0, 0.0)
        self.counts = {"seen": 0, 7: [0, 0.5]}
        self.share = nn.Parameter(torch.tensor(0.5))
        self.share_optim = OptimConfig(kind="sgd", lr=0.1, args={"momentum": 0.9}).build([self.share])
        self.table = np.zeros((2, 3))
        self.shaping = functools.partial(torch.mul, other=0.1)
        self.space, self.dtype, self.make_head = OBS, torch.float32, nn.Linear

    def update(self, batch):
        obs = torch.from_numpy(batch.obs)
        errors = [(guess(obs) - self.slow(obs) - 0.1 * self.share).square().mean() for guess in self.guesses]
        self.share_optim.step(errors[0])
        errors = [(guess(obs) - self.slow(obs) - 0.1 * self.share.detach()).square().mean() for guess in self.guesses]
        for i, error in enumerate(errors):
            self.guess_optims[i].step(error)
        self.follow()
        self.bonus_stat.update(np.array([error.item() for error in errors]))
        self.scale *= 0.9 + errors[0].item()
        self.best = min(self.best or 1e9, self.scale)
        self.mood = "excited" if self.scale > 1.0 else "calm"
        self.bounds = (min(self.bounds[0], self.scale), max(self.bounds[1], self.scale))
        self.pair = Pair(self.bounds[0], self.scale)
        self.counts["seen"] += len(obs)
        self.counts[7][0] += 1
        self.table[self.num_updates % 2] += batch.rew[:3]
        bonus = self.scale * float(self.bonus_stat.std) + self.bounds[0] + self.pair.high + self.counts["seen"]
        rew = batch.rew + np.float32(0.01 * bonus + self.table.mean() + self.counts[7][0] + (self.mood == "calm"))
        return super().update(Batch({**vars(batch), "rew": rew.astype(np.float32)}))


def make(seed=0, cls=Curious, net=(4,)):
    config = DQNConfig(target_update_freq=3, exploration=EpsilonConfig(eps_decay_steps=100))
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=NetConfig(hidden_sizes=net))
    return cls.make(config, task, seed=seed)


def batch(i):
    rng = np.random.default_rng(i)
    return Batch(
        obs=rng.uniform(-1, 1, (8, 2)).astype(np.float32),
        obs_next=rng.uniform(-1, 1, (8, 2)).astype(np.float32),
        act=rng.integers(2, size=8),
        rew=rng.normal(size=8).astype(np.float32),
        discount=np.full(8, 0.9, np.float32),
        weight=np.ones(8, np.float32),
    )


def leaves(state, at=""):
    if isinstance(state, dict | list | tuple):
        pairs = state.items() if isinstance(state, dict) else enumerate(state)
        return {name: leaf for key, part in pairs for name, leaf in leaves(part, f"{at}.{key}").items()}
    return {at: np.array(state.detach() if isinstance(state, torch.Tensor) else state)}


def assert_same(first, second):
    a, b = leaves(first.state_dict()), leaves(second.state_dict())
    assert a.keys() == b.keys()
    assert not [name for name in a if not np.array_equal(a[name], b[name])]


def test_a_subclass_with_parts_of_its_own_resumes_exactly(tmp_path):
    first, second = make(seed=1), make(seed=2)
    for i in range(5):
        first.schedule(10 * i, 100)
        first.update(batch(i))
    second.update(batch(9))  # has a past of its own
    write_state(tmp_path / "state", "algorithm", first.state_dict())
    second.load_state_dict(read_state(tmp_path / "state", "algorithm"))
    assert_same(first, second)
    assert (second.counts["seen"], second.counts[7]) == (40, [5, 0.5])
    assert second.bounds == first.bounds
    assert second.pair == first.pair
    assert type(second.pair) is Pair
    for i in range(5, 9):
        for algorithm in (first, second):
            algorithm.schedule(10 * i, 100)
            algorithm.update(batch(i))
        assert_same(first, second)


def test_names_are_those_of_attributes_and_of_entries():
    algorithm = make()
    assert set(algorithm.parts()) == {
        *("policy", "policy_target", "optim", "update_target", "num_updates", "rng"),
        *("guesses.0", "guesses.1", "slow", "follow", "guess_optims.0", "guess_optims.1", "bonus_stat"),
        *("scale", "best", "mood", "bounds.0", "bounds.1", "pair.0", "pair.1", "counts.seen", "counts.7.0"),
        *("counts.7.1", "share", "share_optim", "table"),
    }


def test_optimisers_in_containers_follow_their_schedule():
    algorithm = make()
    deep = OptimConfig(lr=0.04, lr_schedule="linear").build(nn.Linear(1, 1))
    algorithm.members = [{"critic": (deep,)}]
    algorithm.schedule(25, 100)
    assert [algorithm.guess_optims[i].lr for i in (0, 1)] == pytest.approx([0.0075] * 2)
    assert deep.lr == pytest.approx(0.03)


class Callable:
    """Can be called, and counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1


@dataclass
class Changing:
    count: int = 0


@pytest.mark.parametrize(
    "value",
    [deque([1]), {1, 2}, Callable(), Changing(), torch.Generator(), np.random.default_rng(0), Batch(x=np.ones(2))],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_saved_is_refused_by_name(value):
    algorithm = make(cls=DQN)
    before = find_state(algorithm).keys()
    kind = type(value).__name__
    for held, name in ((value, "extra"), ([value], r"extra\.0"), ({"inner": (value,)}, r"extra\.inner\.0")):
        algorithm.extra = held
        with pytest.raises(ConfigError, match=rf"DQN\.{name} is a {kind}, which cannot be saved: give it the methods"):
            algorithm.state_dict()
    del algorithm.extra
    assert find_state(algorithm).keys() == before


@dataclass(frozen=True)
class Settled:
    count: int = 0


@pytest.mark.parametrize(
    "value",
    [
        Settled(),
        OBS,
        torch.device("cpu"),
        torch.float64,
        nn.Linear,
        len,
        make,
        lambda: 0,
        functools.partial(len),
        OBS.seed,
    ],
)
def test_what_cannot_change_is_left_out(value):
    algorithm = make(cls=DQN)
    before = find_state(algorithm).keys()
    algorithm.extra = [value]
    assert find_state(algorithm).keys() == before
    algorithm.load_state_dict(copy.deepcopy(algorithm.state_dict()))
    assert algorithm.extra == [value]


def follows(net):
    def values(x):
        return net(x)

    return values


@dataclass(frozen=True)
class Kept:
    nets: tuple


NET = nn.Linear(2, 1)


@pytest.mark.parametrize(
    "value",
    [
        NET.forward,
        functools.partial(torch.add, NET.weight),
        functools.partial(follows, net=NET),
        follows(NET),
        follows(follows(NET)),
        lambda x, net=NET: net(x),
        Kept((NET,)),
        [{"inner": Kept(([NET.bias],))}],
    ],
)
def test_what_only_a_function_or_a_frozen_dataclass_knows_of_is_refused_by_name(value):
    algorithm = make(cls=DQN)
    algorithm.extra = value
    with pytest.raises(ConfigError, match=r"DQN\.extra is all that knows of a (Linear|Parameter), which would not be"):
        algorithm.state_dict()
    algorithm.net = NET
    assert not {name for name in algorithm.parts() if name.startswith("extra")}
    algorithm.load_state_dict(copy.deepcopy(algorithm.state_dict()))


class Notebook:
    """Anything with the two methods."""

    def __init__(self):
        self.pages = []

    def state_dict(self):
        return {"pages": list(self.pages)}

    def load_state_dict(self, state):
        self.pages = list(state["pages"])


class Owner:
    def __init__(self):
        self.book, self.array, self.tensor, self.number = Notebook(), np.zeros(2), torch.zeros(2), 1


def test_arrays_and_tensors_are_restored_in_place_so_that_views_of_them_see_it():
    owner, other = Owner(), Owner()
    owner.array[:], owner.tensor[:], owner.number = 3.0, 4.0, 5
    views = other.array[:1], other.tensor[:1]
    restore_state(other, {name: state_of(part) for name, part in find_state(owner).items()})
    assert (views[0].item(), views[1].item(), other.number) == (3.0, 4.0, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"array": np.zeros(3)}, r"Owner\.array is an array of shape \(2,\), the saved one an array of shape \(3,\)"),
        ({"tensor": 1.0}, r"Owner\.tensor is an array of shape \(2,\), the saved one a number or text"),
        ({"more": 1.0}, r"Owner has \[.*\], the saved one \[.*'more'.*\]"),
        ({"book": {"papers": []}}, r"Owner\.book has \['pages'\], the saved one \['papers'\]"),
    ],
)
def test_another_state_is_refused_and_nothing_has_changed(change, message):
    owner = Owner()
    saved = {"book": {"pages": []}, "array": np.ones(2), "tensor": torch.ones(2), "number": 2, **change}
    with pytest.raises(CheckpointError, match=message):
        restore_state(owner, saved)
    assert (owner.array.sum(), owner.tensor.sum().item(), owner.number) == (0.0, 0.0, 1)


def test_the_state_of_other_networks_is_refused():
    algorithm = make(cls=DQN)
    before = leaves(copy.deepcopy(algorithm.state_dict()))
    with pytest.raises(CheckpointError, match=r"does not fit: DQN\.policy"):
        algorithm.load_state_dict(make(cls=DQN, net=(5,)).state_dict())
    with pytest.raises(CheckpointError, match=r"does not fit: DQN has .*, the saved one .*'guesses\.0'"):
        algorithm.load_state_dict(make().state_dict())
    after = leaves(algorithm.state_dict())
    assert all(np.array_equal(before[name], after[name]) for name in before)
