"""What a run is made of, from its experiment: the same algorithm and the same buffer in every loop and every fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from argosy.algorithm import algorithm_class
from argosy.algorithm.base import Algorithm, Space, Task
from argosy.algorithm.compiled import compile_update
from argosy.algorithm.wrapper import wrapped
from argosy.data import VectorReplayBuffer
from argosy.env.spaces import leaves, normal_form
from argosy.env.tasks import goal_rules
from argosy.errors import ConfigError
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
        ConfigError: the device is not there, what is to be compiled cannot be, or observations are no stacks where the
            buffer is to stack them.
        SpaceError: the algorithm cannot act in the action space.
    """
    _check_stacks(experiment, observation_space)
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


def _check_stacks(experiment: Experiment, observation_space: Space) -> None:
    """Check that observations are as many frames as the buffer stacks: of each it stores the last one."""
    stack = experiment.buffer.stack_num
    if stack == 1 or algorithm_class(experiment.algorithm).kind == "onpolicy":
        return
    for name, shape, _ in leaves(normal_form(observation_space)):
        if len(shape) < 2 or shape[0] != stack:
            part = f"the observations of {experiment.task}" + (f" have a part {name!r} of" if name else " have")
            raise ConfigError(
                f"buffer.stack_num is {stack}, but {part} shape {shape}, which is no stack of {stack} frames, of which "
                f"the buffer would store the last one. Let the env stack them: --env.wrappers "
                f"'FrameStack(num_stack={stack})', of an Atari task --env.frame-stack {stack}; or leave it out"
            )


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
