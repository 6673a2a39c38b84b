"""Makes the parts of an experiment: envs, algorithm, buffer, collectors, trainer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from argosy.algorithm import algorithm_class
from argosy.collect import AsyncCollector, Collector
from argosy.collect.labels import LabellingCollector
from argosy.data import ReplayBuffer, VectorReplayBuffer
from argosy.env import VectorEnv, VectorEnvNormReward, make_vector_env
from argosy.env.tasks import atari_game
from argosy.errors import CheckpointError, ConfigError
from argosy.experiment import Experiment
from argosy.logger import Logger
from argosy.policy import Policy
from argosy.rng import spawn_seeds
from argosy.run.callbacks import FQE, EarlyStop, Video
from argosy.run.dataset import load_data
from argosy.run.saved import find_policy, read_saved
from argosy.run.warm import warm_start
from argosy.trainer import OfflineToOnlineTrainer, OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer
from argosy.trainer.callbacks import listed, make_callbacks
from argosy.trainer.fqe import can_be_judged, check_judgeable
from argosy.trainer.parts import make_algorithm, make_buffer

LocalTrainer = OnpolicyTrainer | OffpolicyTrainer | OfflineTrainer


def build(
    experiment: Experiment, *, logger: Logger | None = None, show_progress: bool = False, **options: Any
) -> LocalTrainer:
    """Make the trainer of an experiment with all its parts; close the envs of its collectors in the end.

    With `experiment.data` it is an `OfflineTrainer`, whose epochs have `trainer.step_per_epoch` updates; with
    `trainer.offline_updates`, too, an `OfflineToOnlineTrainer`.

    Args:
        experiment: what to make.
        logger: takes the metrics.
        show_progress: a progress bar and a line per epoch, on standard error.
        options: further arguments of the trainer, e.g. `stop_fn`.

    Raises:
        ConfigError: settings contradict each other, or there is no such data set.
        DataError: the data set is damaged, or does not fit the task.
        CheckpointError: what it is to begin with is not there, or does not fit.
        SpaceError: the algorithm cannot act in the task's action space.
    """
    check(experiment)
    settings, tests = experiment.trainer, experiment.trainer.episode_per_test
    seeds, callbacks = spawn_seeds(experiment.seed, 4), make_callbacks(experiment.callbacks)
    with contextlib.ExitStack() as on_error:
        num_test_envs = max(1, min(experiment.env.test_num_envs, tests))  # without tests, for its spaces
        test_env = make_vector_env(experiment.task, num_test_envs, test=True, config=experiment.env)
        on_error.callback(test_env.close)
        spaces = test_env.single_observation_space, test_env.single_action_space
        algorithm = make_algorithm(experiment, *spaces, seeds[0])
        if experiment.init is not None:
            taken = warm_start(algorithm, experiment.init)
            if show_progress:
                sys.stderr.write(f"init: {taken}\n")
        if idle := [type(one).__name__ for one in callbacks if not tests and isinstance(one, EarlyStop | Video)]:
            raise ConfigError(f"{idle[0]} goes by tests, and trainer.episode_per_test is 0; test, or leave it out")
        if any(isinstance(one, FQE) for one in callbacks):
            check_judgeable(algorithm.policy, experiment.data)
        data = None
        if experiment.data is not None:
            data = load_data(experiment.data, experiment.task, algorithm.policy, test_env, seeds[1], show_progress)
            has_judge = any(isinstance(one, FQE) for one in callbacks)
            if not tests and not has_judge and can_be_judged(algorithm.policy, data):
                callbacks.append(FQE())
        parts: dict[str, Any] = {
            "algorithm": algorithm,
            "test_collector": Collector(algorithm.policy, test_env, seed=seeds[3]) if tests else None,
            "max_epoch": settings.max_epoch,
            "total_steps": settings.total_steps,
            "episode_per_test": max(1, tests),
            "test_in_train": False,
            "logger": logger,
            "verbose": show_progress,
            "show_progress": show_progress,
        }
        options["callbacks"] = [*callbacks, *listed(options.get("callbacks", ()))]
        if experiment.collects:
            env = make_vector_env(experiment.task, experiment.env.num_envs, config=experiment.env)
            on_error.callback(env.close)
            parts["train_collector"] = _train_collector(experiment, algorithm.policy, env, test_env, seeds)
        trainer = _trainer(experiment, parts, data, options)
        on_error.pop_all()
        if not tests:
            test_env.close()
    return trainer


def check(experiment: Experiment) -> None:
    """Check that settings do not contradict each other, and that a data set or an expert is named where it must be.

    Raises:
        ConfigError: they do, or none is.
    """
    cls, wait_num = algorithm_class(experiment.algorithm), experiment.env.wait_num
    if wait_num is not None and (cls.kind == "onpolicy" or not experiment.collects):
        raise ConfigError(
            f"env.wait_num is {wait_num}, but only a run that fills a replay buffer steps its envs out of step; "
            "leave it out"
        )
    goals = experiment.buffer.hindsight.future_k > 0.0
    if experiment.env.norm_rew and (experiment.data is not None or goals):
        source = "goals in hindsight" if goals else "a data set"
        raise ConfigError(f"env.norm_rew is True, but the rewards of {source} are not in its units; leave it out")
    both = experiment.data is not None and experiment.collects and not cls.expert_rows
    if both and experiment.env.reward_clip and atari_game(experiment.task):
        raise ConfigError(
            "env.reward_clip is True, but the rewards of a data set are the game's own, and both would be learned from;"
            " env.reward_clip=False leaves the env's as they are"
        )
    if experiment.data is None and (not experiment.collects or cls.expert_rows):
        raise ConfigError(
            f"{experiment.algorithm} learns from a data set; which? --data FILE (in Python: data=), for instance one "
            "that `argosy collect RUN --steps 100000 -o FILE` has written"
        )
    if cls.needs_expert:
        if experiment.expert is None:
            raise ConfigError(
                f"{experiment.algorithm} learns from what an expert would have done; which one? --expert RUN (in "
                "Python: expert=), the folder of a run or the file of a policy"
            )
        if wait_num is not None:
            raise ConfigError(f"env.wait_num is {wait_num}, but an expert is asked in step; leave it out")


def _train_collector(
    experiment: Experiment, policy: Policy, env: VectorEnv, test_env: VectorEnv, seeds: Sequence[int]
) -> Collector:
    """Make what collects experience in `env`, with its buffer."""
    config, step_per_collect = experiment.env, experiment.trainer.step_per_collect
    if config.norm_rew:
        env = VectorEnvNormReward(env, experiment.config.gamma)
    if algorithm_class(experiment.algorithm).kind == "onpolicy":  # room for one rollout
        rows = -(-step_per_collect // config.num_envs)
        buffer = VectorReplayBuffer(rows * config.num_envs, config.num_envs, seed=seeds[1])
    else:
        buffer = make_buffer(experiment, config.num_envs, seeds[1])
    kind: Callable[..., Collector] = Collector if config.wait_num is None else AsyncCollector
    if experiment.expert is not None:
        kind = partial(LabellingCollector, expert=_load_expert(experiment, test_env))
    return kind(policy, env, buffer, exploration_noise=True, seed=seeds[2])


def _trainer(
    experiment: Experiment, parts: dict[str, Any], data: ReplayBuffer | None, options: Mapping[str, Any]
) -> LocalTrainer:
    """Make the trainer of its parts; `options` come before what the experiment says."""
    settings = experiment.trainer
    sampled = {"batch_size": settings.batch_size or 64}
    if not experiment.collects:
        return OfflineTrainer(
            **{**parts, **sampled, "buffer": data, "update_per_epoch": settings.step_per_epoch, **options}
        )
    parts |= {"step_per_epoch": settings.step_per_epoch, "step_per_collect": settings.step_per_collect}
    if algorithm_class(experiment.algorithm).kind == "onpolicy":
        return OnpolicyTrainer(**{**parts, "data": data, **options})
    parts |= {**sampled, "update_per_step": settings.update_per_step or 1.0, "start_steps": settings.start_steps}
    if data is None:
        return OffpolicyTrainer(**{**parts, **options})
    parts |= {"data": data, "offline_updates": settings.offline_updates, "data_share": settings.data_share}
    return OfflineToOnlineTrainer(**{**parts, **options})


def _load_expert(experiment: Experiment, env: VectorEnv) -> Policy:
    """Return the policy that `experiment.expert` names, as `argosy.load` does; it must be of this task and its env."""
    assert experiment.expert is not None
    saved = read_saved(find_policy(experiment.expert))
    if saved.experiment.task != experiment.task:
        raise CheckpointError(
            f"expert is {experiment.expert!r}, which was trained on {saved.experiment.task}; this run's task is "
            f"{experiment.task}"
        )
    own = (env.single_observation_space, env.single_action_space)
    for name, theirs, ours in zip(("observations of", "actions in"), saved.spaces, own, strict=True):
        if theirs != ours:
            raise CheckpointError(f"expert is {experiment.expert!r}, made for {name} {theirs}; this run has {ours}")
    return saved.policy(experiment.device).eval()
