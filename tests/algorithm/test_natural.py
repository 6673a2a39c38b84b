"""What holds for every algorithm whose actor follows the natural gradient, while its critic learns by itself."""

import pytest
import torch
from gymnasium import spaces
from natural_parts import OBS, flat, make, rollout, rows_of

from argosy.algorithm import ALGORITHMS, Task, algorithm_class
from argosy.algorithm.natural import NaturalGradient
from argosy.distributed import PolicySpec
from argosy.errors import ConfigError, DataError
from argosy.net import NetConfig
from argosy.presets import preset

NATURAL = [name for name in ALGORITHMS if issubclass(algorithm_class(name), NaturalGradient)]
pytestmark = pytest.mark.parametrize("name", NATURAL)


def test_the_critic_learns_by_itself(name):
    algorithm = make(algorithm_class(name), critic_steps=7)
    policy = algorithm.policy
    actor = {id(p) for p in policy.actor_parameters()}
    assert [id(p) for p in policy.parameters() if id(p) not in actor] == [id(p) for p in policy.critic_parameters()]
    assert [id(p) for p in algorithm.optim.parameters] == [id(p) for p in policy.critic_parameters()]
    steps, step = [], algorithm.optim.step
    algorithm.optim.step = lambda loss: steps.append(loss.item()) or step(loss)
    stats = algorithm.update(rollout(algorithm))
    assert (len(steps), stats.gradient_steps) == (7, 8)
    assert steps[-1] < steps[0]
    assert stats.loss_value == pytest.approx(steps[-1])


def test_what_is_not_finite_moves_nothing(name):
    algorithm = make(algorithm_class(name))
    mb = rows_of(algorithm)
    mb.adv[3] = float("inf")
    before = flat(algorithm.policy.parameters())
    with pytest.raises(DataError, match="this step has changed nothing"):
        algorithm._move_actor(mb)
    assert torch.equal(flat(algorithm.policy.parameters()), before)


def test_shared_layers_and_groups_of_trainers_are_refused(name):
    cls = algorithm_class(name)
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=NetConfig(shared_backbone=True))
    match = rf"net\.shared_backbone is True, but {cls.__name__} lets actor and critic learn apart"
    with pytest.raises(ConfigError, match=match):
        cls.make(cls.config_type(), task)
    with pytest.raises(ConfigError, match=f"trainers is 2, but {cls.__name__} learns in one trainer only"):
        PolicySpec(experiment=preset(name, "CartPole-v1"), trainers=2)
