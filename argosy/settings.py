"""Sections of an experiment: the replay buffer, the loop, when it stops, where metrics go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from argosy.config import Checked, limited
from argosy.data import Hindsight, Priority, VectorReplayBuffer
from argosy.env.tasks import GoalRules
from argosy.errors import ConfigError
from argosy.process import usable_device


@dataclass(frozen=True, kw_only=True)
class HindsightConfig(Checked):
    """Hindsight experience replay (Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495), strategy "future"."""

    future_k: float = limited(0.0, ge=0.0)
    """Rows with a goal that their episode achieved later, per row that keeps its own (the paper's k; 0: none)."""
    horizon: int = limited(100, ge=1)
    """New goals come from fewer rows than this after the sampled one; e.g. the longest episode's length."""

    def build(self, rules: GoalRules) -> Hindsight:
        """Return what a buffer takes."""
        return Hindsight(
            compute_reward_fn=rules.reward,
            compute_terminated_fn=rules.terminated,
            horizon=self.horizon,
            future_k=self.future_k,
        )


@dataclass(frozen=True, kw_only=True)
class BufferConfig(Checked):
    """Where transitions are kept. An on-policy algorithm keeps just what one collection brings."""

    size: int = limited(20_000, ge=1)
    """Transitions that an off-policy algorithm keeps, over all environments."""
    stack_num: int = limited(1, ge=1, le=1000)
    """Frames stacked when sampling (1: none), for environments that stack; only the newest frame is then stored."""
    ignore_obs_next: bool = False
    """Look the next observation up instead of storing it: half the memory."""
    priority: Priority = field(default_factory=lambda: Priority(alpha=0.0))
    """Draw rows with large errors more often; `alpha` 0 draws uniformly."""
    hindsight: HindsightConfig = field(default_factory=HindsightConfig)
    """Give a part of each sample goals that were achieved later; for environments with goals."""
    device: str | None = None
    """Keep the transitions on this device, e.g. cuda, where samples are tensors then; None: in host memory."""
    storage_dir: str | None = None
    """Keep the transitions in memory-mapped files in this folder, for buffers larger than memory; they have no names,
    and are gone when the run ends, in whatever way. None: in memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.device is not None and self.storage_dir is not None:
            raise ConfigError(
                f"buffer.device is {self.device!r} and buffer.storage_dir {self.storage_dir!r}; choose one of them"
            )

    @property
    def stored(self) -> dict[str, Any]:
        """What is stored of observations, and how it is read: options of a buffer."""
        return {
            "stack_num": self.stack_num,
            "ignore_obs_next": self.ignore_obs_next,
            "save_only_last_obs": self.stack_num > 1,
        }

    def make(self, rows: int, seed: int, rules: GoalRules | None = None) -> VectorReplayBuffer:
        """Return an empty replay buffer for `rows` environments; `rules` of its goals, for hindsight."""
        if self.size < rows:
            raise ConfigError(f"buffer.size is {self.size}, less than one transition for each of {rows} envs")
        return VectorReplayBuffer(
            self.size,
            rows,
            **self.stored,
            priority=self.priority if self.priority.alpha else None,
            hindsight=None if rules is None else self.hindsight.build(rules),
            device=None if self.device is None else usable_device(self.device),
            storage_dir=self.storage_dir,
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True)
class TrainerConfig(Checked):
    """The loop: how much to collect, how often to learn, how often to test."""

    max_epoch: int = limited(10, ge=1)
    """Epochs at most; each ends with a test."""
    total_steps: int | None = limited(None, ge=1)
    """Length of the run in steps (offline: updates), whatever `max_epoch` says; the last epoch is as long as is left.
    None: `max_epoch` epochs."""
    step_per_epoch: int = limited(10_000, ge=1)
    """Environment steps (off-policy, on-policy) or updates (offline) per epoch."""
    step_per_collect: int = limited(10, ge=1)
    """Environment steps between two phases of learning, over all environments."""
    episode_per_test: int = limited(10, ge=0)
    """Episodes of each test. 0: a run that learns from data alone tests nothing, and fitted Q evaluation says which
    version of its policy is the best."""
    update_per_step: float | None = limited(None, gt=0, le=1e6)
    """Updates per environment step; off-policy only (None: 1)."""
    batch_size: int | None = limited(None, ge=1)
    """Transitions per update; off-policy and offline only (None: 64). On-policy configs have one of their own."""
    start_steps: int = limited(0, ge=0)
    """Environment steps before the first update, with random actions; off-policy only."""
    offline_updates: int = limited(0, ge=0)
    """With a data set: updates from it before the run goes on in the environment (0: it never does). They count in the
    run's length as steps do."""
    data_share: float | None = limited(None, ge=0.0, le=1.0)
    """Share of each later batch that is drawn from the data set; None: as if all transitions lay in one buffer."""
    checkpoint_epochs: int | None = limited(None, ge=0)
    """Epochs between two full checkpoints (0: only when the run ends or is interrupted). At each the envs start new
    episodes, so None waits, after the first epoch, until each env has had the time of ten of the longest episodes so
    far (20,000 steps at most); where nothing is collected, that is each epoch."""
    keep_checkpoints: int = limited(3, ge=1, le=1000)
    """Newest full checkpoints to keep; if the newest one is damaged, the one before it is used."""
    standstill_s: float | None = limited(60.0, gt=0.0)
    """Seconds without any step or update after which the run says so, and where its processes are (None: never)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = f"{self.max_epoch} x {self.step_per_epoch}" if self.total_steps is None else self.total_steps
        if self.offline_updates >= self.length:
            raise ConfigError(
                f"TrainerConfig.offline_updates is {self.offline_updates}, but the run has only {steps} updates and "
                "steps, so that nothing would be collected; run longer, or leave it out to learn from the data alone"
            )
        if self.start_steps >= self.length - self.offline_updates:
            raise ConfigError(
                f"TrainerConfig.start_steps is {self.start_steps}, but the run has only {steps} steps, so that nothing "
                "would be learned; start earlier or run longer"
            )

    @property
    def length(self) -> int:
        """Steps of the whole run (offline: updates)."""
        return self.total_steps or self.max_epoch * self.step_per_epoch

    @property
    def epochs(self) -> int:
        """Epochs of the whole run."""
        return -(-self.length // self.step_per_epoch)


@dataclass(frozen=True, kw_only=True)
class StopConfig(Checked):
    """When a run ends before its last epoch, and how it is evaluated."""

    test_return: float | None = None
    """End when the mean test return is this high (None: never)."""
    episodes: int = limited(100, ge=1)
    """Episodes that confirm that return, and evaluate the run at its end."""


@dataclass(frozen=True, kw_only=True)
class LoggerConfig(Checked):
    """Where metrics go beside the run's metrics.jsonl."""

    tensorboard: bool = False
    """Write an event file for TensorBoard into the run's folder."""
    wandb: Literal["off", "online", "offline"] = "off"
    """Send metrics to Weights & Biases, or keep them for `wandb sync`."""
    wandb_project: str = "argosy"
    """Project at Weights & Biases."""
    mlflow: str | None = None
    """Send metrics to MLflow: a server, http://HOST:5000, or a data base without one, sqlite:///FILE (None: not)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mlflow is not None and "://" not in self.mlflow and self.mlflow != "databricks":
            raise ConfigError(
                f"LoggerConfig.mlflow is {self.mlflow!r}; it must be the address of a server, http://HOST:5000, or of "
                "a data base, sqlite:///FILE"
            )
