"""Acting with what a run has learned: evaluation, films."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

import numpy as np

from argosy.collect import CollectHook, Collector, StepEvent
from argosy.collect.seats import Arena
from argosy.collect.video import DEFAULT_FPS, check_video_path, checked_picture, fps_of, picture, write_video
from argosy.config import check_range
from argosy.data import CollectStats
from argosy.env import VectorEnv, make_vector_env
from argosy.errors import ConfigError, EnvError
from argosy.experiment import Experiment
from argosy.policy import Policy
from argosy.process import computing_threads, device_here
from argosy.rng import check_seed
from argosy.run.fleet import play
from argosy.run.folder import environment_of
from argosy.run.saved import Which, fleet_policies, read_policy


def evaluate(
    run_dir: str | os.PathLike[str],
    *,
    episodes: int = 100,
    seed: int = 0,
    trust: bool = False,
    **which: Unpack[Which],
) -> CollectStats:
    """Play `episodes` with a policy that a run has saved, without exploration, in fresh test environments.

    Of a fleet each agent plays with its own policy, and every environment plays equally many episodes.

    Args:
        run_dir: the folder of a run, or of a fleet's; or a file that `pack` wrote.
        episodes: episodes to play.
        seed: of the environments.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.
        which: policy, version and tag, see `load`. Of a fleet with several policies the episodes of `policy` are
            counted; all others play in their best version.

    Raises:
        TrustError, CheckpointError: as `load` says.
        ConfigError: the environment is not known here (says what to do), or `episodes` or `seed` are out of range.
    """
    if not isinstance(episodes, int | np.integer) or episodes < 1:
        raise ConfigError(f"episodes is {episodes!r}; it must be a whole number >= 1")
    check_seed(seed)
    if fleet_policies(run_dir):
        return play(Path(run_dir), episodes, seed, trust=trust, **which)
    saved = read_policy(run_dir, trust=trust, **which)
    experiment = saved.experiment
    num_envs = min(experiment.env.test_num_envs, episodes)
    with environment_of(run_dir):
        env = make_vector_env(experiment.task, num_envs, test=True, config=experiment.env)
    with contextlib.closing(env), computing_threads(experiment.threads):
        return Collector(saved.policy(device_here(experiment.device)), env, seed=seed).collect(n_episode=episodes)


def film(
    run_dir: str | os.PathLike[str],
    path: str | Path,
    *,
    episodes: int = 1,
    seed: int = 0,
    max_steps: int = 2000,
    trust: bool = False,
    **which: Unpack[Which],
) -> CollectStats:
    """Film a policy that a run has saved.

    Args:
        run_dir: the folder of a run, or of a fleet's.
        path: the film, .gif or .mp4.
        episodes: episodes to show.
        seed: of the environment.
        max_steps: frames of the film at most, however long the episodes last.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.
        which: policy, version and tag, see `evaluate`.

    Raises:
        TrustError, CheckpointError: as `load` says.
        ConfigError: the film's ending is neither .gif nor .mp4, `seed` is below 0, or the environment is not known
            here.
        EnvError: the environment gives no pictures.
        MissingExtraError: the writer, or what the environment draws with, is not installed.
    """
    check_seed(seed)
    if not fleet_policies(run_dir):
        saved = read_policy(run_dir, trust=trust, **which)
        policy = saved.policy(device_here(saved.experiment.device))
        return film_policy(run_dir, saved.experiment, policy, path, episodes, max_steps, seed)
    camera = Film(path, episodes, max_steps)
    with _drawn():
        stats = play(Path(run_dir), episodes, seed, trust=trust, on_step=camera.take, render_mode="rgb_array", **which)
    write_video(path, camera.frames, camera.fps)
    return stats


def film_policy(
    run_dir: str | os.PathLike[str],
    experiment: Experiment,
    policy: Policy,
    path: str | Path,
    episodes: int,
    max_steps: int,
    seed: int = 0,
) -> CollectStats:
    """Film a policy in the env of an experiment; all else as of `film`."""
    camera = Film(path, episodes, max_steps)
    env, stats = _stage(run_dir, experiment), CollectStats()
    with contextlib.closing(env), computing_threads(experiment.threads):
        collector = Collector(policy, env, hooks=[camera], seed=seed)
        with contextlib.suppress(_FilmFullError):  # one by one, so that those that have ended count
            for _ in range(episodes):
                ended = collector.collect(n_episode=1)
                stats = CollectStats.merged([stats, ended]) or ended
    write_video(path, camera.frames, camera.fps)
    return stats


def check_film(run_dir: str | os.PathLike[str], experiment: Experiment, path: str | Path) -> None:
    """Check that the env of an experiment draws, and that a film of it can be written.

    Raises:
        ConfigError, EnvError, MissingExtraError: as `film` says.
    """
    check_video_path(path)
    with contextlib.closing(_stage(run_dir, experiment)) as env:
        env.reset()
        picture(env)


def _stage(run_dir: str | os.PathLike[str], experiment: Experiment) -> VectorEnv:
    """Make the env of a film."""
    with environment_of(run_dir), _drawn():
        return make_vector_env(experiment.task, 1, test=True, config=experiment.env, render_mode="rgb_array")


@contextlib.contextmanager
def _drawn() -> Iterator[None]:
    """Say of an environment that cannot be told to draw how it could."""
    try:
        yield
    except EnvError as error:
        if not any(words in str(error) for words in ("argument 'render_mode'", "() takes no arguments")):
            raise
        raise EnvError(
            f"there is nothing to film: {error}. Let the environment's constructor take render_mode=None, and its "
            'render() return an array [height, width, 3] of uint8 when that is "rgb_array"; `argosy eval` needs neither'
        ) from error


class _FilmFullError(Exception):
    pass


class Film(CollectHook):
    """Keeps the picture of every step, of a collector or of an arena; refuses what cannot become a film at once."""

    def __init__(self, path: str | Path, episodes: int, max_steps: int) -> None:
        check_video_path(path)
        self.episodes, self.max_steps, self.fps = episodes, max_steps, DEFAULT_FPS
        check_range(self, "episodes", "max_steps", ge=1)
        self.frames: list[np.ndarray] = []
        if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a screen, and without complaints

    def on_step(self, event: StepEvent) -> None:
        """Take a picture."""
        if not self.frames:
            self.fps = fps_of(event.env)
        self.frames.append(picture(event.env))
        if len(self.frames) >= self.max_steps:
            raise _FilmFullError

    def take(self, arena: Arena) -> bool:
        """Take a picture; return whether there is room for another."""
        self.frames.append(checked_picture(arena.render))
        return len(self.frames) < self.max_steps
