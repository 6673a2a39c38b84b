"""Trains in this process: runs the loop of an experiment, with checkpoints and metrics in the run's folder."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from argosy.algorithm import Algorithm
from argosy.config import to_plain
from argosy.env.tasks import TaskOf
from argosy.errors import CheckpointError, ConfigError, DataError, EnvError
from argosy.experiment import Experiment
from argosy.logger import JSONLLogger, Logger, Loggers, TensorBoardLogger, WandbLogger
from argosy.presets import preset
from argosy.process import computing_threads, tuned_process
from argosy.run.build import LocalTrainer, build
from argosy.run.folder import RunFolder
from argosy.run.result import BestPolicy, Result
from argosy.run.saved import write_description
from argosy.trainer.checkpoint import collectors_of, load_checkpoint, save_checkpoint


def train(
    algorithm: str | type[Algorithm[Any, Any]] | Experiment,
    task: TaskOf | None = None,
    *,
    runs: str | Path = "runs",
    show_progress: bool = True,
    **changes: Any,
) -> Result:
    """Train in a new folder under `runs`, as an experiment or the preset for an algorithm and a task says.

        argosy.train("dqn", "CartPole-v1", seed=1, lr=5e-4, env={"num_envs": 4})
        argosy.train(experiment)

    Does what `argosy train` does. Ctrl-C ends the training after the current step; everything is saved then, and
    `resume` goes on.

    Args:
        algorithm: its name, see `argosy algorithms`; a class of one's own, or "MODULE:CLASS"; or an experiment.
        task: id of the environment, or the class or function that makes it; an experiment names its own.
        runs: folder under which the run gets its own.
        show_progress: a progress bar and a line per epoch, on standard error.
        changes: settings, named as the command's flags are; a section (env, net, buffer, trainer, ...) takes a dict.

    Raises:
        ConfigError: something is unknown or out of range; says what is allowed.
        SpaceError: the algorithm cannot act in the task's action space.
        EnvError, DataError: an environment failed, or a number was NaN; everything before is saved.
    """
    if isinstance(algorithm, Experiment):
        experiment = algorithm.replaced(changes if task is None else {"task": task, **changes})
    elif task is None:
        raise ConfigError(f"which task? argosy.train({algorithm!r}, task), for instance with task 'CartPole-v1'")
    else:
        experiment = preset(algorithm, task, **changes)
    if experiment.data is not None:  # so that `resume` finds it from anywhere
        experiment = experiment.replaced({"data": str(Path(experiment.data).resolve())})
    folder = RunFolder.create(runs, experiment.task, experiment.algorithm, experiment.seed)
    try:
        return _train(experiment, folder, from_checkpoint=False, show_progress=show_progress)
    finally:
        folder.remove_if_empty()


def resume(run_dir: str | Path, *, show_progress: bool = True, trust: bool = False) -> Result:
    """Go on with the run in the folder `run_dir`, from its checkpoint.

    Args:
        run_dir: the run's folder.
        show_progress: a progress bar and a line per epoch, on standard error.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.

    Raises:
        TrustError: the run names such code, and `trust` is not set.
        CheckpointError: there is no such run, it has no checkpoint, or the checkpoint is damaged.
    """
    folder = RunFolder.find(run_dir)
    experiment = folder.experiment(trust=trust)
    if not folder.checkpoint.is_file():
        raise CheckpointError(f"the run {str(run_dir)!r} has no checkpoint to go on from")
    return _train(experiment, folder, from_checkpoint=True, show_progress=show_progress)


def _train(experiment: Experiment, folder: RunFolder, *, from_checkpoint: bool, show_progress: bool) -> Result:
    with contextlib.ExitStack() as stack:
        stack.enter_context(tuned_process())
        stack.enter_context(computing_threads(experiment.threads))
        trainer = build(experiment, show_progress=show_progress)
        for collector in collectors_of(trainer).values():
            stack.callback(collector.env.close)
        if from_checkpoint:
            load_checkpoint(folder.checkpoint, trainer)
        else:
            experiment.save(folder.config)
            policy = trainer.algorithm.policy
            write_description(folder.path, policy.observation_space, policy.action_space)
        logger = _make_logger(experiment, folder, trainer.position if from_checkpoint else None)
        stack.callback(logger.close)
        best = BestPolicy(experiment, folder, trainer)
        trainer.logger, trainer.stop_fn, trainer.save_best_fn = logger, best.reaches_target, best.save
        interrupted = _loop(experiment, folder, trainer)
        save_checkpoint(folder.checkpoint, trainer)
        return best.result(interrupted)


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
