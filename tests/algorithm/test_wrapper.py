"""Algorithms around algorithms: what they change, what they leave, what of them is saved."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from algorithm_checks import differences, flat, make_batch
from bonus import Surprise
from gymnasium import spaces

from argosy.algorithm import AlgorithmWrapper, Task, algorithm_class, register_algorithm_wrapper
from argosy.algorithm.wrapper import wrapped
from argosy.data import TrainingStatsMean
from argosy.errors import CheckpointError, ConfigError
from argosy.experiment import Experiment
from argosy.named import trust_names
from argosy.presets import preset

OBS = spaces.Box(-10, 10, (2,), np.float32)
KINDS = {"dqn": spaces.Discrete(3), "ppo": spaces.Discrete(3), "sac": spaces.Box(-1, 1, (2,), np.float32)}


def make(name, *wrap, seed=0):
    cls = algorithm_class(name)
    task = Task(observation_space=OBS, action_space=KINDS[name])
    return wrapped(cls.make(cls.config_type(), task, seed), wrap, task, seed)


def state(algorithm):
    return flat(algorithm.state_dict()["parts"])


@pytest.mark.parametrize("name", KINDS)
def test_the_inner_algorithm_learns_from_the_changed_batch(name):
    """As if the rewards had been twice as large in the first place; the caller's batch stays as it was."""
    plain, around = make(name), make(name, "bonus:Twice")
    batch = make_batch(plain)
    doubled = copy.deepcopy(batch)
    doubled.rew = 2 * doubled.rew
    before = copy.deepcopy(batch.rew)
    plain.update(doubled)
    around.update(batch)
    np.testing.assert_array_equal(batch.rew, before)
    assert not differences(state(plain), state(around.inner))
    assert around.policy is around.inner.policy
    assert around.kind == plain.kind
    assert around.sampling == plain.sampling


def test_a_wrapper_changes_no_random_number_of_what_it_wraps():
    plain, around = make("dqn", seed=3), make("dqn", "bonus:CountBonus", "bonus:Surprise", seed=3)
    assert not differences(state(plain), state(around.inner.inner))
    assert plain.policy.rng.draw_seed() == around.policy.rng.draw_seed()


def test_its_numbers_stand_beside_the_inner_one_s():
    around = make("dqn", "bonus:CountBonus(scale=0.5)", "bonus:Surprise")
    stats = [around.update(make_batch(around)) for _ in range(2)]
    metrics = stats[0].metrics()
    assert {"loss/total", "stat/q_mean", "stat/bonus_mean", "loss/surprise"} <= set(metrics)
    mean = TrainingStatsMean()
    for one in stats:
        mean.add(one)
    assert mean.mean().metrics()["stat/bonus_mean"] == pytest.approx(np.mean([s.bonus_mean for s in stats]))
    assert stats[0].priorities is not None


@pytest.mark.parametrize("name", KINDS)
def test_it_goes_on_exactly_where_it_was_saved(name):
    one = make(name, "bonus:CountBonus", "bonus:Surprise", seed=1)
    for i in range(3):
        one.update(make_batch(one, seed=i))
    saved = copy.deepcopy(one.state_dict())
    other = make(name, "bonus:CountBonus", "bonus:Surprise", seed=2)
    other.load_state_dict(saved)
    batch = make_batch(one, seed=9)
    for algorithm in (one, other):
        algorithm.update(batch)
    assert not differences(state(one), state(other))
    assert one.inner.counts.sum() > 0
    with pytest.raises(CheckpointError):
        make(name, "bonus:CountBonus").load_state_dict(saved)


def test_schedules_reach_both():
    around = make("dqn", "bonus:Surprise(lr=0.5)")
    around.schedule(5_000, 10_000)
    assert around.policy.exploration.eps == pytest.approx(0.525)
    assert isinstance(around, Surprise)


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        ("bonus:CountBonus", r"wrap is 'bonus:CountBonus'; it must be a tuple"),
        (("bonus:NoSuch",), r"wrapper of algorithms 'bonus:NoSuch': .* could not be imported"),
        (("nosuch",), r"unknown wrapper of algorithms 'nosuch'"),
        (("bonus:CountBonus(scales=1)",), r"holds 'scales', which CountBonus does not take: did you mean 'scale'\?"),
        (("bonus:CountBonus(0.5)",), r"must be keyword arguments with plain values"),
        (("argosy.algorithm:DQN",), r"must be a subclass of argosy.AlgorithmWrapper"),
    ],
)
def test_a_wrapper_that_is_none_is_refused_when_the_experiment_is_made(wrap, message):
    dqn = preset("dqn", "CartPole-v1")
    with pytest.raises(ConfigError, match=message):
        Experiment(**{**vars(dqn), "wrap": wrap})


def test_two_wrappers_of_one_metric_are_told_of():
    around = make("dqn", "bonus:CountBonus(scale=0.5)", "bonus:CountBonus(scale=0.1)")
    with pytest.raises(ConfigError, match=r"the metric 'bonus_mean' is there already"):
        around.update(make_batch(around))


def test_a_wrapper_is_no_algorithm():
    with pytest.raises(ConfigError, match=r"Twice goes around an algorithm: name it in `wrap`"):
        preset("bonus:Twice", "CartPole-v1")


def test_a_registered_name_is_enough(tmp_path):
    class Thrice(AlgorithmWrapper):
        def change(self, batch):
            batch.rew = 3 * batch.rew
            return {}

    register_algorithm_wrapper("thrice", Thrice)
    assert isinstance(make("dqn", "thrice"), Thrice)
    saved = preset("dqn", "CartPole-v1", wrap=("thrice",))
    saved.save(tmp_path / "config.json")
    assert Experiment.load(tmp_path / "config.json") == saved


def test_experiments_take_their_wrappers_along():
    """To a process that has not heard of the name."""
    register_algorithm_wrapper("my-surprise", Surprise)
    sent = pickle.dumps(preset("dqn", "CartPole-v1", wrap=("my-surprise(lr=0.1)",)))
    code = f"import pickle; print(pickle.loads({sent!r}).replaced({{'seed': 3}}).wrap)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd="tests/algorithm", check=True
    )
    assert done.stdout.strip() == "('my-surprise(lr=0.1)',)"


def test_code_that_a_file_names_is_not_imported_by_reading_it(tmp_path):
    from argosy.errors import TrustError

    data = preset("dqn", "CartPole-v1", wrap=("bonus:Twice",)).to_dict() | {"wrap": ["unheard_of:Wrapper"]}
    (tmp_path / "config.json").write_text(json.dumps(data))
    with pytest.raises(TrustError, match="unheard_of:Wrapper"):
        Experiment.load(tmp_path / "config.json")
    trust_names(data)
    with pytest.raises(ConfigError, match="could not be imported"):
        Experiment.load(tmp_path / "config.json")


def test_gradients_of_wrapped_networks_are_averaged_over_trainers():
    from argosy.distributed.workers.group import TrainerGroup

    around = make("dqn", "bonus:Surprise")
    group = TrainerGroup.__new__(TrainerGroup)
    group.sum = lambda array: array
    group.mean = lambda tensor: torch.zeros_like(tensor)
    group.tie(around)
    before = state(around)
    around.update(make_batch(around))
    after = state(around)
    weights = {"net.weight", "net.bias", *(name for name in before if name.startswith("inner.parts.policy."))}
    assert not differences(before, after) & weights
    assert weights < set(before)
