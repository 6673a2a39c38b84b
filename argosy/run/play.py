"""Acting with what a run has learned: its best policy as a file, evaluation, films."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from argosy.collect import CollectHook, Collector, StepEvent
from argosy.collect.film import check_video_path, write_video
from argosy.collect.video import DEFAULT_FPS, fps_of, picture
from argosy.data import CollectStats
from argosy.env import VectorEnv, make_vector_env
from argosy.errors import CheckpointError, ConfigError
from argosy.experiment import Experiment
from argosy.policy import Policy
from argosy.process import computing_threads
from argosy.run.folder import RunFolder
from argosy.trainer.parts import make_algorithm
from argosy.trainer.statefile import read_state, write_state

KIND = "policy"


def save_policy(folder: RunFolder, policy: Policy, env: VectorEnv) -> None:
    """Write what acting needs: the policy's parameters and the statistics of the env's wrappers."""
    env_state = getattr(env, "state_dict", None)
    state = {"policy": policy.get_checkpoint(), "env": None if env_state is None else env_state()}
    write_state(folder.best_policy, KIND, state)


def load_policy(folder: RunFolder, experiment: Experiment, env: VectorEnv) -> Policy:
    """Return the best policy of a run, and set the statistics of the wrappers of `env` to what it was trained with.

    Raises:
        CheckpointError: there is none yet, or its file is damaged.
    """
    if not folder.best_policy.is_file():
        raise CheckpointError(f"the run {str(folder.path)!r} has no policy yet: it ended before its first test")
    state = read_state(folder.best_policy, KIND)
    policy = make_algorithm(experiment, env.single_observation_space, env.single_action_space, 0).policy
    policy.load_checkpoint(state["policy"])
    if state["env"] is not None:
        load: Any = getattr(env, "load_state_dict", None)
        if load is None:
            raise CheckpointError(f"{str(folder.best_policy)!r} holds statistics of wrappers that the env lacks")
        load(state["env"])
    return policy


def evaluate(run_dir: str | Path, *, episodes: int = 100, seed: int = 0, trust: bool = False) -> CollectStats:
    """Play `episodes` with the best policy of a run, without exploration, in fresh test environments.

    Args:
        run_dir: the run's folder.
        episodes: episodes to play.
        seed: of the environments.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.

    Raises:
        TrustError: the run names such code, and `trust` is not set.
        CheckpointError: there is no such run, or its policy is missing or damaged.
    """
    if episodes < 1:
        raise ConfigError(f"episodes is {episodes}; it must be >= 1")
    folder = RunFolder.find(run_dir)
    experiment = folder.experiment(trust=trust)
    num_envs = min(experiment.env.test_num_envs, episodes)
    env = make_vector_env(experiment.task, num_envs, test=True, config=experiment.env)
    with contextlib.closing(env), computing_threads(experiment.threads):
        policy = load_policy(folder, experiment, env)
        return Collector(policy, env, seed=seed).collect(n_episode=episodes)


def film(
    run_dir: str | Path,
    path: str | Path,
    *,
    episodes: int = 1,
    seed: int = 0,
    max_steps: int = 2000,
    trust: bool = False,
) -> CollectStats:
    """Film the best policy of a run.

    Args:
        run_dir: the run's folder.
        path: the film, .gif or .mp4.
        episodes: episodes to show.
        seed: of the environment.
        max_steps: frames of the film at most, however long the episodes last.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.

    Raises:
        TrustError: the run names such code, and `trust` is not set.
        CheckpointError: there is no such run, or its policy is missing or damaged.
        ConfigError: the film's ending is neither .gif nor .mp4.
        EnvError: the environment gives no pictures.
        MissingExtraError: the writer, or what the environment draws with, is not installed.
    """
    check_video_path(path)
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; it must be >= 1")
    folder = RunFolder.find(run_dir)
    experiment = folder.experiment(trust=trust)
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a screen, and without complaints
    env = make_vector_env(experiment.task, 1, test=True, config=experiment.env, render_mode="rgb_array")
    with contextlib.closing(env), computing_threads(experiment.threads):
        policy = load_policy(folder, experiment, env)
        camera = _Camera(max_steps)
        collector = Collector(policy, env, hooks=[camera], seed=seed)
        stats = CollectStats()
        with contextlib.suppress(_FilmFullError):
            stats = collector.collect(n_episode=episodes)
    write_video(path, camera.frames, camera.fps)
    return stats


class _FilmFullError(Exception):
    pass


class _Camera(CollectHook):
    """Keeps the picture of every step."""

    def __init__(self, max_steps: int) -> None:
        self.max_steps = max_steps
        self.frames: list[np.ndarray] = []
        self.fps = DEFAULT_FPS

    def on_step(self, event: StepEvent) -> None:
        """Take a picture."""
        if not self.frames:
            self.fps = fps_of(event.env)
        self.frames.append(picture(event.env))
        if len(self.frames) >= self.max_steps:
            raise _FilmFullError
