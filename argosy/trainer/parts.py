"""What a run is made of, from its experiment: the same algorithm and the same buffer in every loop and every fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from argosy.algorithm import algorithm_class
from argosy.algorithm.base import Algorithm, Space, Task
from argosy.algorithm.compiled import compile_update
from argosy.algorithm.wrapper import wrapped
from argosy.data import VectorReplayBuffer
from argosy.env.tasks import goal_rules
from argosy.experiment import Experiment
from argosy.policy import Policy
from argosy.process import usable_device


def make_algorithm(
    experiment: Experiment,
    observation_space: Space,
    action_space: Space,
    seed: int | None = None,
    device: str | None = None,
    policy: Callable[[Space, Space], Policy] | None = None,
    own: Callable[..., Algorithm] | None = None,
) -> Algorithm:
    """Make the experiment's algorithm, with its policy and the algorithms around it, for the spaces of the task.

    `policy` makes a policy of one's own, and `own` an algorithm of one's own, of the config and the policy.

    Raises:
        ConfigError: the device is not there, or what is to be compiled cannot be.
        SpaceError: the algorithm cannot act in the action space.
    """
    task = Task(
        observation_space=observation_space,
        action_space=action_space,
        net=experiment.net,
        device=usable_device(device or experiment.device),
        policy=policy,
    )
    algorithm = algorithm_class(experiment.algorithm).make(experiment.config, task, seed)
    if own is not None:
        algorithm = own(experiment.config, algorithm.policy)
        algorithm.seed(seed)
    if experiment.compile is not None:
        compile_update(algorithm)
    return wrapped(algorithm, experiment.wrap, task, seed)


def make_buffer(experiment: Experiment, rows: int, seed: int) -> VectorReplayBuffer:
    """Make an empty replay buffer for `rows` environments.

    Raises:
        ConfigError: it is too small, has no place, or the task has no goals for its hindsight.
    """
    config = experiment.buffer
    if algorithm_class(experiment.algorithm).needs_expert:  # which learns from all that it was ever told
        config = replace(config, size=max(config.size, experiment.trainer.length))
    rules = goal_rules(experiment.task, experiment.env) if config.hindsight.future_k else None
    return config.make(rows, seed, rules)
