"""What a run has come to: its best policy, evaluated by fresh episodes."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import warnings
from html import escape
from pathlib import Path
from typing import Any

from argosy.algorithm import algorithm_name
from argosy.collect import Collector
from argosy.data import CollectStats
from argosy.errors import CheckpointError
from argosy.experiment import Experiment
from argosy.files import damage_named, read_json, write_atomically
from argosy.policy import Policy
from argosy.rng import spawn_seeds
from argosy.run.build import LocalTrainer
from argosy.run.callbacks import FQE
from argosy.run.folder import RunFolder, draw_curve
from argosy.run.saved import POLICY, read_saved
from argosy.trainer.statefile import read_state, write_state

TESTS, FITTED_Q, LAST = "tests", "fitted Q evaluation", "time: it is the last one"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a run has come to."""

    algorithm: str
    task: str
    seed: int
    env_steps: int
    """Training steps of the environments, warm-up included; 0 for a run that learns from a data set."""
    gradient_steps: int
    """Steps of the optimiser."""
    wall_s: float
    """Seconds of training, tests between the epochs included (over resumes)."""
    steps_per_s: float
    """`env_steps / wall_s`; of a run that learns from a data set: updates, and steps if any, per second."""
    test_return_mean: float
    """Mean return of `test_episodes` episodes of the run's best policy; NaN before the first test."""
    test_return_std: float
    run_dir: str
    """The run's folder."""
    test_episodes: int
    """Fresh episodes that the run is evaluated by; those of the best test when Ctrl-C ended the run."""
    test_success_rate: float | None = None
    """Share of them that succeeded; None where the env does not say."""
    interrupted: bool = False
    """Ctrl-C ended it; `resume` goes on."""
    reason: str | None = None
    """Why it ended before its length was reached; None: it did not, or Ctrl-C ended it."""
    curve: str | None = None
    """Picture of the learning curve; None without matplotlib."""
    chosen_by: str = TESTS
    """What has said which version of the policy is the best: tests; fitted Q evaluation, or nothing but time, where
    `trainer.episode_per_test` is 0."""
    policy: Policy = dataclasses.field(repr=False, compare=False)
    """The best policy, ready to act."""

    @classmethod
    def read(cls, folder: RunFolder) -> Result:
        """Return what a run has noted in its folder when it had come to its end."""
        noted, experiment = read_json(folder.result), folder.experiment()
        with damage_named(folder.result):
            numbers: dict[str, Any] = {name: math.nan if value is None else value for name, value in noted.items()}
            return cls(
                **(numbers | {"run_dir": str(folder.place)}),  # it may have been moved
                test_episodes=0 if noted["test_return_mean"] is None else experiment.stop.episodes,
                curve=str(folder.curve) if folder.curve.is_file() else None,
                policy=read_saved(folder.best_policy).policy(experiment.device),
            )

    def __fspath__(self) -> str:
        """Return the run's folder: a result may stand for it."""
        return self.run_dir

    @property
    def score(self) -> str:
        """Return the return in words, or that nobody knows it."""
        if self.chosen_by != TESTS:
            return f"unknown: nothing was tested; its best version was chosen by {self.chosen_by}"
        success = "" if self.test_success_rate is None else f", success {self.test_success_rate:.2f}"
        return (
            f"{self.test_return_mean:.1f} ± {self.test_return_std:.1f}{success} over {self.test_episodes} test episodes"
        )

    def to_json(self) -> str:
        """Return the result as one line of JSON: everything up to `run_dir`, and of the rest what is to be known.

        NaN is null there. The rest: the success rate, where the env says it; why it ended early, if it did; without
        tests, what has chosen the policy.
        """
        names = [field.name for field in dataclasses.fields(self)]
        names = names[: names.index("run_dir") + 1]
        names += [name for name in ("test_success_rate", "reason") if getattr(self, name) is not None]
        if self.chosen_by != TESTS:
            names.append("chosen_by")
        shown = {name: getattr(self, name) for name in names}
        return json.dumps({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in shown.items()})

    def _repr_html_(self) -> str:
        """Show the result in a notebook: numbers, and the learning curve."""
        early = f"; ended early: {self.reason}" if self.reason else ""
        rows = {
            "run": f"{self.algorithm} on {self.task}, seed {self.seed}{', interrupted' if self.interrupted else ''}",
            "return": self.score,
            "steps": f"{self.env_steps:,} in {self.wall_s:.1f} s{early}",
            "files": self.run_dir,
        }
        cells = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        picture = base64.b64encode(self._repr_png_() or b"").decode("ascii")
        shown = picture and f'<img alt="learning curve" src="data:image/png;base64,{picture}">'
        return f"<table>{cells}</table>{shown}"

    def _repr_png_(self) -> bytes | None:
        """Return the learning curve for a notebook; None: it was not drawn, or is gone."""
        file = None if self.curve is None else Path(self.curve)
        return file.read_bytes() if file is not None and file.is_file() else None


def drop_later_policy(folder: RunFolder, trainer: LocalTrainer) -> None:
    """Remove a best policy of steps that the trainer, which goes on from an older checkpoint, has not made.

    Where the run is repeated it comes again; where it takes another way it is none of its policies.
    """
    if folder.best_policy.is_file():
        try:
            version = float(read_state(folder.best_policy, POLICY)["policy"]["version"])
        except CheckpointError as error:
            warnings.warn(f"{error}; it is dropped, and the next policy that is tested is the best one", stacklevel=2)
            version = math.inf
        if version > trainer.algorithm.policy.version:
            folder.best_policy.unlink()
            trainer.state.best_reward = -math.inf  # whatever was the best before is not kept: the next test's is
            for one in trainer.callbacks:
                if isinstance(one, FQE):
                    one.best = -math.inf


class BestPolicy:
    """Keeps the best policy of a run, confirms that it has reached the target, and evaluates it in the end."""

    def __init__(self, experiment: Experiment, folder: RunFolder, trainer: LocalTrainer) -> None:
        self.experiment, self.folder, self.trainer = experiment, folder, trainer
        self.env = None if trainer.test_collector is None else trainer.test_collector.env
        self.confirmed: CollectStats | None = None
        self._judge: Collector | None = None

    @property
    def steps(self) -> int:
        """Steps of the evaluation that is under way, or was the last one."""
        return 0 if self._judge is None else self._judge.collect_step

    def reaches_target(self, test_return: float) -> bool:
        """Whether the current policy has reached `stop.test_return`, confirmed by `stop.episodes` fresh episodes."""
        target, learned = self.experiment.stop.test_return, self.trainer.state.update_step > 0
        if target is None or test_return < target or not learned:
            return False
        stats = self._evaluate(self.trainer.algorithm.policy)
        self.trainer.state.test_time += stats.collect_time
        if stats.returns.mean() < target:
            return False
        self.confirmed = stats
        self.save(self.trainer.algorithm.policy)
        return True

    def save(self, policy: Policy) -> None:
        """Keep `policy` as the best one."""
        write_state(self.folder.best_policy, POLICY, {"policy": policy.get_checkpoint()})

    def result(self, interrupted: bool) -> Result:
        """Evaluate the best policy and draw the curve."""
        state = self.trainer.state
        episodes, policy = self.experiment.stop.episodes, self.trainer.algorithm.policy
        chosen_by, success, target, reason = TESTS, None, self.experiment.stop.test_return, None
        is_kept = self.folder.best_policy.is_file()
        if self.env is None:
            chosen_by = FITTED_Q if any(isinstance(one, FQE) for one in self.trainer.callbacks) else LAST
            if chosen_by == LAST or not is_kept:
                self.save(policy)
            policy = read_saved(self.folder.best_policy).policy(self.experiment.device)
            mean, std, episodes = math.nan, math.nan, 0
        elif interrupted:
            tested = math.isfinite(state.best_reward)
            mean, std = (state.best_reward, state.best_reward_std) if tested else (math.nan, math.nan)
            episodes = self.experiment.trainer.episode_per_test if tested else 0
        else:
            if not is_kept:  # see `drop_later_policy`
                self.save(policy)
            policy = read_saved(self.folder.best_policy).policy(self.experiment.device)
            stats = self.confirmed or self._evaluate(policy)
            mean, std, success = float(stats.returns.mean()), float(stats.returns.std()), stats.success_rate
        if not interrupted and state.update_step == 0:
            warnings.warn(
                f"nothing was learned: the run ended after {state.env_step:,} steps, before its first update (see "
                "trainer.start_steps, .update_per_step and .batch_size)",
                stacklevel=2,
            )
        if state.stopped:
            reached = target is not None and mean >= target
            reason = f"test return {target:g} was reached (stop.test-return)" if reached else "a callback ended it"
        experiment = self.experiment
        title = f"{experiment.algorithm} on {experiment.task}, seed {experiment.seed}"
        unit = "environment steps" if experiment.unit == "steps" else experiment.unit
        curve = draw_curve(self.folder, title, unit)
        result = Result(
            algorithm=algorithm_name(experiment.algorithm),
            task=experiment.task,
            seed=experiment.seed,
            env_steps=state.env_step,
            gradient_steps=state.gradient_step,
            wall_s=round(state.total_time, 3),
            steps_per_s=round(self.trainer.position / max(state.total_time, 1e-9), 1),
            test_return_mean=mean,
            test_return_std=std,
            run_dir=str(self.folder.place),
            test_episodes=episodes,
            test_success_rate=success,
            interrupted=interrupted,
            reason=reason,
            curve=None if curve is None else str(curve),
            chosen_by=chosen_by,
            policy=policy,
        )
        noted = json.loads(result.to_json()) | ({"interrupted": True} if interrupted else {})
        write_atomically(self.folder.result, (json.dumps(noted) + "\n").encode())
        return result

    def _evaluate(self, policy: Policy) -> CollectStats:
        """Play the episodes that a run is evaluated by: the same ones for every policy of the run."""
        assert self.env is not None
        seed = spawn_seeds(self.experiment.seed, 5)[4]
        self._judge = Collector(policy, self.env, seed=seed)
        return self._judge.collect(n_episode=self.experiment.stop.episodes)
