"""Trains in this process: runs the loop of an experiment, with checkpoints and metrics in the run's folder."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from types import FrameType
from typing import Any

from argosy.algorithm import Algorithm, algorithm_name
from argosy.env import Obs
from argosy.env.tasks import TaskOf
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.files import read_json, write_atomically
from argosy.presets import preset
from argosy.process import computing_threads, tuned_process
from argosy.rng import spawn_seeds
from argosy.run.build import LocalTrainer, build
from argosy.run.checkpoints import Checkpoints, is_due
from argosy.run.folder import RunFolder, located, resume_command
from argosy.run.loggers import make_loggers
from argosy.run.machine import machine
from argosy.run.profile import profiled
from argosy.run.result import BestPolicy, Result, drop_later_policy
from argosy.run.saved import write_description
from argosy.run.standstill import Watch
from argosy.run.threads import threads_of
from argosy.trainer.callbacks import call, listed
from argosy.trainer.checkpoint import collectors_of, seeded_globals
from argosy.unread import warn_of_unread


def train(
    algorithm: str | type[Algorithm] | Experiment,
    task: TaskOf | None = None,
    *,
    runs: str | Path = "runs",
    show_progress: bool = True,
    callbacks: Sequence[object] = (),
    profile: bool = False,
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
        callbacks: objects that are told what happens, see `argosy.trainer.callbacks`; those of which a name is given
            ("MODULE:CLASS") become part of the experiment, so that `resume` makes them, too.
        profile: note where the time goes, in the run's profile.json and flame.svg.
        changes: settings, named as the command's flags are; a section (env, net, buffer, trainer, ...) takes a dict.

    Raises:
        ConfigError: something is unknown or out of range; says what is allowed.
        SpaceError: the algorithm cannot act in the task's action space.
        EnvError, DataError, CallbackError: an environment or a callback failed, or a number was NaN; everything before
            is saved, and `resume` goes on. After any other error, too, from what its note says.
    """
    if names := tuple(callback for callback in listed(callbacks) if isinstance(callback, str)):
        changes["callbacks"] = names
    experiment = located(asked_for(algorithm, task, changes))
    warn_of_unread(experiment)
    folder = RunFolder.create(runs, experiment.task, algorithm_name(experiment.algorithm), experiment.seed)
    try:
        with folder.claimed():
            objects = [one for one in callbacks if not isinstance(one, str)]
            return _train(experiment, folder, show_progress, objects, profile=profile)
    finally:
        folder.remove_if_empty()


def asked_for(
    algorithm: str | type[Algorithm] | Experiment, task: TaskOf | None, changes: dict[str, Any]
) -> Experiment:
    """Return the experiment that is meant, see `train`."""
    changes |= {name: fspath(path) for name, path in changes.items() if isinstance(path, PathLike)}
    if isinstance(algorithm, Experiment):
        return algorithm.replaced(changes if task is None else {"task": task, **changes})
    if task is None:
        raise ConfigError(f"which task? argosy.train({algorithm!r}, task), for instance with task 'CartPole-v1'")
    return preset(algorithm, task, **changes)


def resume(
    run_dir: str | PathLike[str],
    *,
    total_steps: int | None = None,
    device: str | None = None,
    show_progress: bool = True,
    callbacks: Sequence[object] = (),
    trust: bool = False,
) -> Result:
    """Go on with the run in the folder `run_dir`, from its checkpoint.

    Args:
        run_dir: the run's folder, or its `Result`.
        total_steps: the run's new length in steps (offline: updates), also of a run that has finished; a target return
            that it has reached ends it no more. Learning rates with a schedule follow the new length.
        device: where to learn on, if the run's own device is not here; another one rounds otherwise.
        show_progress: a progress bar and a line per epoch, on standard error.
        callbacks: objects that are told what happens, beside those that the run names; their state goes on.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.

    Raises:
        TrustError: as `load` says.
        CheckpointError: there is no such run, it has no checkpoint, or the checkpoint is damaged.
        ConfigError: the run has finished, or has made as many steps as `total_steps` already.
    """
    folder = RunFolder.find(run_dir)
    experiment = folder.experiment(trust=trust)
    if total_steps is not None:
        try:
            experiment = experiment.replaced({"trainer.total_steps": total_steps})
        except ConfigError:  # it may be too short for other settings, but that is not what is wrong with it
            _check_longer(total_steps, folder.position, experiment)
            raise
    if device is not None:
        kept_on = None if experiment.buffer.device is None else device
        experiment = experiment.replaced({"device": device, "buffer.device": kept_on})
    with folder.claimed():
        return _train(
            experiment, folder, show_progress, callbacks, from_checkpoint=True, extends=total_steps is not None
        )


def _train(
    experiment: Experiment,
    folder: RunFolder,
    show_progress: bool,
    callbacks: Sequence[object],
    *,
    from_checkpoint: bool = False,
    extends: bool = False,
    profile: bool = False,
) -> Result:
    with contextlib.ExitStack() as stack:
        stack.enter_context(tuned_process())
        stack.enter_context(computing_threads(experiment.threads))
        stack.enter_context(seeded_globals(spawn_seeds(experiment.seed, 5)[4]))  # beside its parts' four
        watch = stack.enter_context(Watch(experiment.trainer.standstill_s, folder.place))
        begun = experiment.replaced({"init": None}) if from_checkpoint else experiment
        trainer = build(begun, show_progress=show_progress, callbacks=callbacks)
        for collector in collectors_of(trainer).values():
            stack.callback(collector.env.close)
        checkpoints = Checkpoints(folder, experiment.trainer.keep_checkpoints)
        if from_checkpoint:
            checkpoints.load(trainer)
            drop_later_policy(folder, trainer)
            experiment = _to_go_on(experiment, checkpoints, trainer, extends)
        else:
            experiment = experiment.replaced({"threads": threads_of(experiment, trainer.algorithm)})
            stack.enter_context(computing_threads(experiment.threads))
            experiment.save(folder.config)
            write_atomically(folder.machine, (json.dumps(machine()) + "\n").encode())
            policy = trainer.algorithm.policy
            write_description(folder.place, policy.observation_space, policy.action_space)
        description = experiment.to_dict()
        resume_step = trainer.position if from_checkpoint else None
        logger = make_loggers(experiment.logger, folder.place, description, resume_step)
        stack.callback(logger.close)
        best = BestPolicy(experiment, folder, trainer)
        watch.follow(trainer, lambda: best.steps)
        trainer.logger, trainer.stop_fn, trainer.save_best_fn = logger, best.reaches_target, best.save
        for callback in trainer.callbacks:
            if hasattr(callback, "begin"):
                call(callback, "begin", folder.place)
        with profiled(folder.place) if profile else contextlib.nullcontext():
            interrupted = _loop(experiment.trainer.checkpoint_epochs, checkpoints, trainer)
        saved = False
        try:
            saved = checkpoints.save(trainer)
            return best.result(interrupted)
        except BaseException as error:
            how = f"the training is saved, evaluate it with: {resume_command(folder.path)}"
            error.add_note(how if saved else checkpoints.failed(error, trainer))
            raise


def _loop(every: int | None, checkpoints: Checkpoints, trainer: LocalTrainer) -> bool:
    """Run the epochs that are left, with checkpoints between them; return whether Ctrl-C has ended it before."""
    due = False
    try:
        with _ctrl_c(trainer) as pressed:
            for _ in trainer:
                if pressed.is_set():
                    break
                due = due or is_due(every, trainer)
                if due and not trainer.is_over:
                    due = not checkpoints.save(trainer)
    except BaseException as error:  # a second Ctrl-C, too
        error.add_note(checkpoints.failed(error, trainer))
        raise
    if not pressed.is_set() and not trainer.is_over:
        trainer.state.stopped = True  # by a callback's `interrupt`
    return not trainer.is_over


def _check_longer(length: int, position: int, experiment: Experiment) -> None:
    if isinstance(length, int) and length <= position:
        raise ConfigError(
            f"total_steps is {length:,}, but the run has made {position:,} {experiment.unit} already; give more"
        )


def _to_go_on(experiment: Experiment, checkpoints: Checkpoints, trainer: LocalTrainer, extends: bool) -> Experiment:
    """Make a run that is loaded ready to go on; return its experiment, which is saved if the run gets longer."""
    state, settings, folder = trainer.state, experiment.trainer, checkpoints.folder
    if not extends:
        if trainer.is_over and folder.result.is_file():
            how = "a test or a callback ended it" if state.stopped else f"{trainer.position:,} {experiment.unit}"
            raise ConfigError(
                f"the run {str(folder.path)!r} has finished ({how}); to go on with it, say how long: "
                f"{resume_command(folder.path, '--total-steps', 'N')} (in Python: total_steps=N)"
            )
        return experiment
    _check_longer(settings.length, trainer.position, experiment)
    noted = read_json(folder.result) if folder.result.is_file() else {}
    target, mean = experiment.stop.test_return, noted.get("test_return_mean", state.best_reward)
    if state.stopped and target is not None and mean is not None and mean >= target:
        experiment = experiment.replaced({"stop.test_return": None})
    epoch = min(state.epoch, trainer.position // settings.step_per_epoch)  # the last one may have been short
    if (state.stopped, state.epoch) != (False, epoch):
        state.stopped, state.epoch = False, epoch
        checkpoints.correct(trainer)  # or, if it dies now, the run would be taken for one that has ended
    folder.result.unlink(missing_ok=True)  # first: of the shorter run, it would say that the longer one has ended
    experiment.save(folder.config)
    return experiment


@contextlib.contextmanager
def _ctrl_c(trainer: LocalTrainer) -> Iterator[threading.Event]:
    """Let the first Ctrl-C, or SIGTERM, end the training after the current step; the second does as usual."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed  # only the main thread may handle signals
        return

    def stop(number: int, frame: FrameType | None) -> None:
        pressed.set()
        trainer.interrupt()
        in_step = any(each.f_code is type(trainer)._training_step.__code__ for each, _ in traceback.walk_stack(frame))
        if trainer.test_collector is not None and not in_step:  # or the step would be cut in two
            trainer.test_collector.see = end  # a test may be long, or never end; the run goes on with it
        restore()

    def end(obs: Obs) -> None:
        raise StopIteration

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {signal.SIGINT: signal.signal(signal.SIGINT, stop) or signal.default_int_handler}
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # whose own it is knows better
        signal.signal(signal.SIGTERM, stop)
        before[signal.SIGTERM] = signal.SIG_DFL
    try:
        yield pressed
    finally:
        restore()
