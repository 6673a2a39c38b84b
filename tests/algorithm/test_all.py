"""What holds for every algorithm."""

import dataclasses

import numpy as np
import pytest
import torch
from algorithm_checks import NUMBER, OBSERVATIONS, check_algorithm, observation_kinds, observation_space
from declared import cases, declared
from gymnasium import spaces

from argosy.algorithm import ALGORITHMS, PPOConfig, Task, algorithm_class
from argosy.errors import ConfigError, SpaceError

CASES = cases()
SPACES = [
    spaces.Box(-2.0, 2.0, (2,), np.float32),
    spaces.Discrete(2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(2),
]


def combinations():
    """Every case with every memory and every kind of observation; all that is more than a pair is slow."""
    firsts = {}
    for case, (name, _, space) in CASES.items():
        first = firsts.setdefault(name, case) == case
        kinds = observation_kinds(algorithm_class(name), space)
        for memory in declared(name, "MEMORIES"):
            for observation in kinds:
                plain = observation == kinds[0]
                quick = (memory is None and plain) or (first and (memory is None or plain))
                marks = () if quick else pytest.mark.slow
                yield pytest.param(case, memory, observation, marks=marks, id=f"{case}-{memory}-{observation}")


@pytest.mark.parametrize(("case", "memory", "observation"), combinations())
def test_check_algorithm(case, memory, observation, tmp_path):
    name, config, action_space = CASES[case]
    check_algorithm(
        name,
        config,
        action_space,
        tmp_path,
        memory=memory,
        observation=observation,
        learns=declared(name, "LEARNS"),
        follows=declared(name, "FOLLOWS"),
        bootstraps=declared(name, "BOOTSTRAPS"),
        acts_on_data=declared(name, "ACTS_ON_DATA"),
        context=declared(name, "CONTEXT"),
        faces=declared(name, "FACES"),
    )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_kind_of_action_space_is_checked(name):
    checked = {type(space) for own, _, space in CASES.values() if own == name}
    assert checked == set(algorithm_class(name).action_spaces) - {spaces.MultiBinary}  # to them a MultiDiscrete


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_wrong_action_spaces_are_refused_with_the_algorithms_that_fit(space):
    fitting = [name for name in ALGORITHMS if isinstance(space, algorithm_class(name).action_spaces)]
    for name in set(ALGORITHMS) - set(fitting):
        cls = algorithm_class(name)
        wanted = " or ".join(wanted.__name__ for wanted in cls.action_spaces)
        with pytest.raises(SpaceError) as refused:
            cls.make(cls.config_type(), Task(observation_space=NUMBER, action_space=space))
        assert str(refused.value) == (
            f"{cls.__name__} needs a {wanted} action space, not {space}; algorithms that fit it: {', '.join(fitting)}"
        )


@pytest.mark.parametrize(
    ("space", "mend"),
    [
        (spaces.Tuple([spaces.Discrete(2)]), "none; --env.wrappers FlatAction makes one that fits"),
        (spaces.Text(3), r"none; a wrapper of yours \(env.wrappers\) makes one that fits"),
    ],
)
def test_what_makes_actions_that_no_algorithm_takes_into_others_is_said(space, mend):
    with pytest.raises(SpaceError, match=f"^PPO needs .* algorithms that fit it: {mend}$"):
        algorithm_class("ppo").make(PPOConfig(), Task(observation_space=NUMBER, action_space=space))


def test_boxes_without_bounds_are_for_the_algorithms_that_squash_nothing():
    seen, endless = OBSERVATIONS["vector"], spaces.Box(-np.inf, np.inf, (2,), np.float32)
    takes = [name for name in ALGORITHMS if isinstance(endless, algorithm_class(name).action_spaces)]
    fitting = [name for name in takes if not algorithm_class(name).needs_bounds]
    assert {"ppo", "awac", "bc", "iql"} <= set(fitting) <= set(takes) - {"sac", "td3", "branching_dqn", "bcq"}
    for name in takes:
        cls, task = algorithm_class(name), Task(observation_space=seen, action_space=endless)
        if name in fitting:
            assert cls.make(cls.config_type(), task).policy.action_space == endless
            continue
        with pytest.raises(SpaceError) as refused:
            cls.make(cls.config_type(), task)
        assert str(refused.value) == (
            f"{cls.__name__} needs finite bounds of actions, not {endless}; algorithms that fit it: "
            f"{', '.join(fitting)}"
        )


def test_wrong_observation_spaces_are_refused_with_the_algorithms_that_fit():
    seen, actions = OBSERVATIONS["vector"], spaces.Discrete(2)
    fit = {name: isinstance(seen, algorithm_class(name).observation_spaces) for name in ALGORITHMS}
    assert not all(fit.values())
    others = [n for n in ALGORITHMS if fit[n] and isinstance(actions, algorithm_class(n).action_spaces)]
    for name in (name for name, fits in fit.items() if not fits):
        cls = algorithm_class(name)
        with pytest.raises(SpaceError) as refused:
            cls.make(cls.config_type(), Task(observation_space=seen, action_space=actions))
        assert str(refused.value) == (
            f"{cls.__name__} needs a Discrete observation space, not {seen}; algorithms that fit it: "
            f"{', '.join(others)}"
        )


@pytest.mark.parametrize(
    ("name", "field", "value"), [(name, *pair) for name in ALGORITHMS for pair in declared(name, "RANGES")]
)
def test_configs_check_their_ranges(name, field, value):
    config = algorithm_class(name).config_type
    with pytest.raises(ConfigError, match=rf"{config.__name__}\.{field} is {value!r}; it must be"):
        config(**{field: value})


@pytest.mark.parametrize("case", CASES)
def test_every_part_is_where_the_task_says(case):
    """ "meta" is a device on which nothing is computed, but that is not the CPU."""
    name, config, space = CASES[case]
    cls = algorithm_class(name)
    (kind, *_) = observation_kinds(cls, space)
    task = Task(observation_space=observation_space(kind, space), action_space=space, device="cpu")
    algorithm = cls.make(config, task, seed=0)
    on_device = cls.make(config, dataclasses.replace(task, device="meta"), seed=0)
    for part, other in zip(vars(algorithm).values(), vars(on_device).values(), strict=True):
        if isinstance(part, torch.nn.Module):
            assert [p.shape for p in part.parameters()] == [p.shape for p in other.parameters()]
            assert {p.device.type for p in other.parameters()} <= {"meta"}
