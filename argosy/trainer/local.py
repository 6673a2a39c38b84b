"""Runs an experiment in this process: makes its parts, trains, keeps the run's folder, judges the best policy."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from argosy.algorithm.base import Algorithm
from argosy.collect import Collector
from argosy.config import to_plain
from argosy.data import CollectStats, VectorReplayBuffer
from argosy.env import VectorEnvNormObs, make_vector_env
from argosy.errors import CheckpointError, ConfigError, DataError, EnvError
from argosy.experiment import Experiment
from argosy.logger import JSONLLogger, Logger, Loggers, TensorBoardLogger, WandbLogger
from argosy.policy import Policy
from argosy.presets import preset
from argosy.rng import spawn_seeds
from argosy.trainer.checkpoint import load_checkpoint, save_checkpoint
from argosy.trainer.offpolicy import OffpolicyTrainer
from argosy.trainer.onpolicy import OnpolicyTrainer
from argosy.trainer.play import computing_threads, load_policy, make_algorithm, save_policy
from argosy.trainer.run_folder import RunFolder, draw_curve

LocalTrainer = OnpolicyTrainer[Any] | OffpolicyTrainer[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a run has come to."""

    algorithm: str
    task: str
    seed: int
    env_steps: int
    """Training steps of the environments, warm-up included."""
    gradient_steps: int
    """Steps of the optimiser."""
    wall_s: float
    """Seconds of training, tests between the epochs included (over resumes)."""
    steps_per_s: float
    """`env_steps / wall_s`."""
    test_return_mean: float
    """Mean return of `test_episodes` episodes of the run's best policy; NaN before the first test."""
    test_return_std: float
    run_dir: str
    """The run's folder."""
    test_episodes: int
    """Fresh episodes that the run is judged by; those of the best test when Ctrl-C ended the run."""
    interrupted: bool = False
    """Ctrl-C ended it; `resume` goes on."""
    curve: str | None = None
    """Picture of the learning curve; None without matplotlib."""
    policy: Policy = dataclasses.field(repr=False, compare=False)
    """The best policy, ready to act."""

    def to_json(self) -> str:
        """Return the result as one line of JSON: everything up to `run_dir`; null for NaN."""
        values = [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)]
        names = [name for name, _ in values]
        shown = values[: names.index("run_dir") + 1]
        return json.dumps({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in shown})


def train(
    algorithm: str, task: str, *, runs: str | Path = "runs", show_progress: bool = True, **changes: Any
) -> Result:
    """Train `algorithm` on `task` with the preset for both; does what `argosy train` does.

        argosy.train("dqn", "CartPole-v1", seed=1, lr=5e-4, env={"num_envs": 4})

    Args:
        algorithm: its name, see `argosy algorithms`.
        task: id of the environment.
        runs: folder under which the run gets its own.
        show_progress: a progress bar and a line per epoch, on standard error.
        changes: settings, named as the command's flags are; a section (env, net, buffer, trainer, ...) takes a dict.

    Raises:
        ConfigError: something is unknown or out of range; says what is allowed.
        SpaceError: the algorithm cannot act in the task's action space.
    """
    return run(preset(algorithm, task, **changes), runs=runs, show_progress=show_progress)


def run(experiment: Experiment, *, runs: str | Path = "runs", show_progress: bool = True) -> Result:
    """Train as `experiment` says, in a new folder under `runs`.

    Ctrl-C ends the training after the current step; everything is saved then, and `resume` goes on.

    Raises:
        EnvError, DataError: an environment failed, or a number was NaN; everything before is saved.
    """
    folder = RunFolder.create(runs, experiment.task, experiment.algorithm, experiment.seed)
    try:
        return _train(experiment, folder, from_checkpoint=False, show_progress=show_progress)
    finally:
        folder.remove_if_empty()


def resume(run_dir: str | Path, *, show_progress: bool = True) -> Result:
    """Go on with the run in the folder `run_dir`, from its checkpoint.

    Raises:
        CheckpointError: there is no such run, it has no checkpoint, or the checkpoint is damaged.
    """
    folder = RunFolder.find(run_dir)
    experiment = folder.experiment()
    if not folder.checkpoint.is_file():
        raise CheckpointError(f"the run {str(run_dir)!r} has no checkpoint to go on from")
    return _train(experiment, folder, from_checkpoint=True, show_progress=show_progress)


def build(
    experiment: Experiment, *, logger: Logger | None = None, show_progress: bool = False, **options: Any
) -> LocalTrainer:
    """Make the trainer of an experiment with all its parts; close the envs of its two collectors in the end.

    Args:
        experiment: what to make.
        logger: takes the metrics.
        show_progress: a progress bar and a line per epoch, on standard error.
        options: further arguments of the trainer, e.g. `stop_fn`.

    Raises:
        ConfigError: settings contradict each other.
        SpaceError: the algorithm cannot act in the task's action space.
    """
    settings, config = experiment.trainer, experiment.env
    if config.wait_num is not None:
        raise ConfigError(f"env.wait_num is {config.wait_num}, but this trainer steps all envs together; leave it out")
    seeds = spawn_seeds(experiment.seed, 4)
    with contextlib.ExitStack() as on_error:
        env = make_vector_env(experiment.task, config.num_envs, config=config)
        on_error.callback(env.close)
        algorithm = make_algorithm(experiment, env, seeds[0])
        num_test_envs = min(config.test_num_envs, settings.episode_per_test)
        test_env = make_vector_env(experiment.task, num_test_envs, test=True, config=config)
        on_error.callback(test_env.close)
        if isinstance(env, VectorEnvNormObs) and isinstance(test_env, VectorEnvNormObs):
            test_env.set_obs_rms(env.get_obs_rms())
        buffer = _make_buffer(experiment, algorithm, seeds[1])
        common: dict[str, Any] = {
            "algorithm": algorithm,
            "train_collector": Collector(algorithm.policy, env, buffer, exploration_noise=True, seed=seeds[2]),
            "test_collector": Collector(algorithm.policy, test_env, seed=seeds[3]),
            "max_epoch": settings.max_epoch,
            "step_per_epoch": settings.step_per_epoch,
            "step_per_collect": settings.step_per_collect,
            "episode_per_test": settings.episode_per_test,
            "test_in_train": False,
            "logger": logger,
            "verbose": show_progress,
            "show_progress": show_progress,
            **options,
        }
        trainer: LocalTrainer
        if algorithm.kind == "onpolicy":
            trainer = OnpolicyTrainer(**common)
        elif algorithm.kind == "offpolicy":
            trainer = OffpolicyTrainer(
                update_per_step=settings.update_per_step or 1.0,
                batch_size=settings.batch_size or 64,
                start_steps=settings.start_steps,
                **common,
            )
        else:
            raise ConfigError(f"{experiment.algorithm} learns from a data set; make an OfflineTrainer for it")
        on_error.pop_all()
    return trainer


def _make_buffer(experiment: Experiment, algorithm: Algorithm[Any, Any], seed: int) -> VectorReplayBuffer:
    """Make room for one rollout (on-policy) or for `buffer.size` transitions."""
    num_envs, config = experiment.env.num_envs, experiment.buffer
    if algorithm.kind == "onpolicy":
        rows = -(-experiment.trainer.step_per_collect // num_envs)
        return VectorReplayBuffer(rows * num_envs, num_envs, seed=seed)
    return config.make(num_envs, seed)


def _train(experiment: Experiment, folder: RunFolder, *, from_checkpoint: bool, show_progress: bool) -> Result:
    with contextlib.ExitStack() as stack:
        stack.enter_context(computing_threads(experiment.threads))
        trainer = build(experiment, show_progress=show_progress)
        for collector in (trainer.train_collector, trainer.test_collector):
            assert collector is not None
            stack.callback(collector.env.close)
        if from_checkpoint:
            load_checkpoint(folder.checkpoint, trainer)
        else:
            experiment.save(folder.config)
        logger = _make_logger(experiment, folder, trainer.state.env_step if from_checkpoint else None)
        stack.callback(logger.close)
        judge = _Judge(experiment, folder, trainer)
        trainer.logger, trainer.stop_fn, trainer.save_best_fn = logger, judge.good_enough, judge.save
        interrupted = _loop(experiment, folder, trainer)
        save_checkpoint(folder.checkpoint, trainer)
        return judge.result(interrupted)


def _loop(experiment: Experiment, folder: RunFolder, trainer: LocalTrainer) -> bool:
    """Run the epochs that are left, with checkpoints between them; return whether Ctrl-C ended it."""
    every = experiment.trainer.checkpoint_epochs
    try:
        with _ctrl_c(trainer) as pressed:
            for epoch in trainer:
                if pressed.is_set():
                    break
                if every and epoch.epoch % every == 0 and epoch.epoch < trainer.max_epoch:
                    save_checkpoint(folder.checkpoint, trainer)
    except (EnvError, DataError) as error:
        save_checkpoint(folder.checkpoint, trainer)
        saved = f"the training so far is saved, go on with: argosy resume {folder.path}"
        raise type(error)(f"{error}\n{saved}") from error
    return pressed.is_set() and not trainer.state.stopped and trainer.state.epoch < trainer.max_epoch


@contextlib.contextmanager
def _ctrl_c(trainer: LocalTrainer) -> Iterator[threading.Event]:
    """Let the first Ctrl-C end the training after the current step; the second one is the usual KeyboardInterrupt."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed  # only the main thread may handle signals
        return

    def stop(number: int, frame: FrameType | None) -> None:
        pressed.set()
        trainer.interrupt()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop) or signal.default_int_handler
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _make_logger(experiment: Experiment, folder: RunFolder, resume_step: int | None) -> Loggers:
    settings = experiment.logger
    loggers: list[Logger] = [JSONLLogger(folder.metrics, resume_step=resume_step)]
    if settings.tensorboard:
        loggers.append(TensorBoardLogger(folder.path / "tensorboard"))
    if settings.wandb != "off":
        name = "-".join(folder.path.parts[-3:])
        data = to_plain(experiment)
        assert isinstance(data, dict)
        loggers.append(
            WandbLogger(
                settings.wandb_project, name=name, save_dir=folder.path, config=data, mode=settings.wandb, run_id=name
            )
        )
    return Loggers(*loggers)


class _Judge:
    """Decides when a run is good enough, keeps its best policy, and says what the run has come to."""

    def __init__(self, experiment: Experiment, folder: RunFolder, trainer: LocalTrainer) -> None:
        assert trainer.test_collector is not None
        self.experiment, self.folder, self.trainer = experiment, folder, trainer
        self.env = trainer.test_collector.env
        self.confirmed: CollectStats | None = None

    def good_enough(self, test_return: float) -> bool:
        """Whether the current policy has reached `stop.test_return`, confirmed by `stop.episodes` fresh episodes."""
        target = self.experiment.stop.test_return
        if target is None or test_return < target:
            return False
        stats = self._play(self.trainer.algorithm.policy)
        if stats.returns.mean() < target:
            return False
        self.confirmed = stats
        self.save(self.trainer.algorithm.policy)
        return True

    def save(self, policy: Policy) -> None:
        """Keep `policy` as the best one."""
        save_policy(self.folder, policy, self.env)

    def result(self, interrupted: bool) -> Result:
        """Judge the best policy and draw the curve."""
        state = self.trainer.state
        episodes, policy = self.experiment.stop.episodes, self.trainer.algorithm.policy
        if interrupted:
            tested = math.isfinite(state.best_reward)
            mean, std = (state.best_reward, state.best_reward_std) if tested else (math.nan, math.nan)
            episodes = self.experiment.trainer.episode_per_test if tested else 0
        else:
            policy = load_policy(self.folder, self.experiment, self.env)
            stats = self.confirmed or self._play(policy)
            mean, std = float(stats.returns.mean()), float(stats.returns.std())
        experiment = self.experiment
        curve = draw_curve(self.folder, f"{experiment.algorithm} on {experiment.task}, seed {experiment.seed}")
        result = Result(
            algorithm=experiment.algorithm,
            task=experiment.task,
            seed=experiment.seed,
            env_steps=state.env_step,
            gradient_steps=state.gradient_step,
            wall_s=round(state.total_time, 3),
            steps_per_s=round(state.env_step / max(state.total_time, 1e-9), 1),
            test_return_mean=mean,
            test_return_std=std,
            run_dir=str(self.folder.path),
            test_episodes=episodes,
            interrupted=interrupted,
            curve=None if curve is None else str(curve),
            policy=policy,
        )
        self.folder.result.write_text(result.to_json() + "\n")
        return result

    def _play(self, policy: Policy) -> CollectStats:
        """Play the episodes that a run is judged by: the same ones for every policy of the run."""
        seed = spawn_seeds(self.experiment.seed, 5)[4]
        return Collector(policy, self.env, seed=seed).collect(n_episode=self.experiment.stop.episodes)
