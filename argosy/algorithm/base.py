"""What every algorithm offers: learn (`update`), follow schedules, save and restore all that it has learned."""

from __future__ import annotations

import functools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypedDict, cast

import numpy as np
import torch
from gymnasium import spaces
from typing_extensions import TypeVar  # with defaults

from argosy.algorithm.optim import Optim
from argosy.algorithm.state import find_state, restore_state, state_of
from argosy.algorithm.task import Space as Space
from argosy.algorithm.task import Task as Task
from argosy.algorithm.task import check_policy, check_spaces
from argosy.config import Checked, limited
from argosy.data import SampleBatch, Sampling, TrainingStats, check_finite, for_learning
from argosy.errors import ConfigError, DataError
from argosy.net import NetConfig
from argosy.policy import Policy
from argosy.policy.sequences import starts
from argosy.rng import Rng, RngState, seeded, spawn_seeds


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Checked):
    """Base of every algorithm's config: frozen, keyword-only, checked when made."""

    gamma: float = limited(0.99, ge=0.0, le=1.0)
    """Discount factor per env step."""


ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig, default=Any)
StatsT = TypeVar("StatsT", bound=TrainingStats, default=Any)
BatchT = TypeVar("BatchT")


class AlgorithmState(TypedDict):
    """What `Algorithm.state_dict` returns: nested dicts with string keys; leaves are tensors, numbers, strings."""

    version: int
    policy_rng: RngState
    parts: dict[str, Any]


class Algorithm(ABC, Generic[ConfigT, StatsT]):
    """Learns. Owns the policy, critics, target networks and optimisers; sees no buffer, env, logger or stream.

    A subclass sets the class variables, makes its objects in `build` and `__init__`, and learns in `update`. Whatever
    it holds that has state is saved, under the attribute's name (see `parts`).
    """

    kind: Literal["onpolicy", "offpolicy", "offline"]
    """Which trainer and which form of batch: [T, B, ...] rollouts ("onpolicy") or [B, ...] samples."""
    config_type: ClassVar[type[AlgorithmConfig]]
    """The config's dataclass."""
    action_spaces: ClassVar[tuple[type[Space], ...]]
    """Action spaces that it can learn in."""
    needs_bounds: ClassVar[bool] = False
    """Whether its policy needs finite bounds of a Box of actions."""
    observation_spaces: ClassVar[tuple[type[Space], ...]] = (spaces.Space,)
    """Observation spaces that it can learn from; those that networks read, where it has one."""
    goes_online: ClassVar[bool] = True
    """Whether what it collects itself is worth learning from after a data set."""
    expert_rows: ClassVar[bool] = False
    """Whether a rollout is to come with rows [N, ...] of a data set beside it, `expert`."""
    needs_expert: ClassVar[bool] = False
    """Whether what it collects is to hold an expert's actions, `Experiment.expert`."""
    is_joint: ClassVar[bool] = False
    """Whether it learns for several agents at once: rows with an axis of agents, rewards [B, N]."""
    corrects_staleness: ClassVar[bool] = False
    """Whether it makes up for experience of older policies by itself (V-trace), so that actors need not wait for it."""
    default_net: ClassVar[NetConfig] = NetConfig()
    """Network used where the caller gives none."""
    presets: ClassVar[Mapping[str, Mapping[str, object]] | Path] = {}
    """Of one's own: settings by families of tasks ("classic", ...) or a TOML file of them, on top of its parent's."""

    def __init__(self, config: ConfigT, policy: Policy) -> None:
        check_policy(type(self), policy)
        self.config = config
        self.policy: Policy = policy
        self.device = policy.device
        self.rng = Rng()
        """Draws for learning (shuffles, noise in losses); acting draws from `policy.rng`."""
        self.num_updates = 0
        """Calls of `update` so far."""

    @classmethod
    def make(cls, config: ConfigT, task: Task, seed: int | None = None) -> Self:
        """Make policy, networks and algorithm for a task.

        Equal seeds give equal parameters and random numbers, whatever torch's global generator is at (which is left
        as it was).

        Raises:
            SpaceError: this algorithm cannot learn in the task's spaces; names those that can.
            ConfigError: it learns for one agent, and the task has several.
        """
        check_spaces(cls, task.observation_space, task.action_space, own_policy=task.policy is not None)
        if task.num_agents > 1 and not cls.is_joint:
            raise ConfigError(
                f"{cls.__name__} learns for one agent, the task has {task.num_agents}; let each of them be a row"
            )
        init_seed, run_seed = spawn_seeds(seed, 2)
        with seeded(init_seed):
            algorithm = cls.build(config, task)
        algorithm.seed(run_seed)
        return algorithm

    @classmethod
    @abstractmethod
    def build(cls, config: ConfigT, task: Task) -> Self:
        """Make policy (by `task.policy_or`) and other networks on `task.device`, and the algorithm of them."""

    @abstractmethod
    def update(self, batch: Any) -> StatsT:
        """Learn from one batch: a sample [B, ...] or, on-policy, the whole rollout [T, B, ...]. Numpy or tensors.

        With memory, samples are sequences [T, B, ...].

        Raises:
            DataError: something in the batch, or the loss, is NaN or infinite; names it. That step changes nothing.
        """

    @property
    def sampling(self) -> Sampling:
        """What a buffer's samples must be prepared for; sequences where the policy has memory."""
        policy, n_step = self.policy, getattr(self.config, "n_step", 1)
        if not policy.is_recurrent:
            return Sampling(gamma=self.config.gamma, n_step=n_step)
        return Sampling(
            gamma=self.config.gamma, n_step=n_step, sequence_length=policy.sequence_length, burn_in=policy.burn_in
        )

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Set what depends on progress (exploration, learning rates); trainers call it before each collect."""
        if self.policy.exploration is not None:
            self.policy.exploration.schedule(env_step)
        for set_rate in self._rates:
            set_rate(min(env_step / max_env_step, 1.0))

    @functools.cached_property
    def _rates(self) -> tuple[Callable[[float], None], ...]:
        """What sets learning rates; found once, as it is asked at every step."""
        return tuple(part.schedule for part in _optimisers(vars(self)))

    def take_in(self, obs: Any, mask: np.ndarray | None = None) -> None:
        """Let new experience [..., *obs] count in the statistics of observations, from the end of the next update on.

        A `mask` [...] says which rows do. Trainers call it for what comes into a replay buffer or lies in a data set;
        on-policy updates see to it themselves.
        """
        if self.policy.normaliser is not None:
            self.policy.normaliser.take_in(obs, None if mask is None else torch.from_numpy(mask))

    def seed(self, seed: int | None) -> None:
        """Start the random numbers of learning and of acting anew."""
        learn_seed, act_seed = spawn_seeds(seed, 2)
        self.rng.seed(learn_seed)
        self.policy.seed(act_seed)

    # -- state ---------------------------------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """Return all that it holds and that has state, by attribute: networks, optimisers, statistics, numbers.

        Found are objects with `state_dict` and `load_state_dict`, tensors, arrays, numbers and text, also in lists,
        tuples and dicts.

        Raises:
            ConfigError: it holds something that may have state and does not say how to save it.
        """
        return find_state(self)

    def state_dict(self) -> AlgorithmState:
        """Return all learning state (tensors are not copies: save or copy them before the next update)."""
        parts = {name: state_of(part) for name, part in self.parts().items()}
        return {"version": self.policy.version, "policy_rng": self.policy.rng.state_dict(), "parts": parts}

    def load_state_dict(self, state: AlgorithmState) -> None:
        """Continue exactly where `state` was taken.

        Raises:
            CheckpointError: it belongs to another algorithm or to other networks; nothing has changed.
        """
        restore_state(self, state["parts"])
        self.policy.version = state["version"]
        self.policy.rng.load_state_dict(state["policy_rng"])

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def prepare(self, batch: BatchT) -> BatchT:
        """Bring a batch to the device as tensors, check it, and normalise its observations; first line of `update`.

        The caller's batch stays as it is. On-policy, the observations count in the statistics at the update's end.

        Raises:
            DataError: a number is not finite, or the rewards have another shape than this algorithm learns from.
        """
        check_finite(batch, *_CHECKED)
        prepared: Any = for_learning(batch, self.device)
        rows = "terminated" if "terminated" in prepared else "discount"
        if rows in prepared and "rew" in prepared and not self.is_joint and prepared.rew.shape != prepared[rows].shape:
            raise DataError(
                f"batch.rew has shape {tuple(prepared.rew.shape)}, batch.{rows} {tuple(prepared[rows].shape)};"
                f" {type(self).__name__} learns from one reward per row (rewards of several agents: AgentsTrainer"
                " gives each policy its own, or sum them up)"
            )
        normaliser = self.policy.normaliser
        if normaliser is not None:
            if self.kind == "onpolicy":
                normaliser.hold(prepared.obs, prepared.get("mask"))
            for name in ("obs", "obs_next"):
                if name in prepared:
                    setattr(prepared, name, normaliser(prepared[name]))
        if self.policy.is_recurrent and "on_reset" not in prepared:
            prepared.on_reset = starts(prepared.cut)
        return cast(BatchT, prepared)

    def _finish(self, **metrics: torch.Tensor | None) -> dict[str, Any]:
        """End an update: count it, and fetch its metrics (scalar tensors) as floats in the one device sync.

        None stays None.

        Raises:
            DataError: a metric is not finite, and so the optimiser's guard has left the parameters as they were.
        """
        held = {name: metric for name, metric in metrics.items() if metric is not None}
        if self.device.type == "cpu":
            values = {name: metric.item() for name, metric in held.items()}
        else:
            fetched = torch.stack([metric.detach() for metric in held.values()]).tolist()
            values = dict(zip(held, fetched, strict=True))
        if not math.isfinite(sum(values.values())):
            raise DataError(f"the loss or another metric of {type(self).__name__} is not finite: {values}")
        if self.policy.normaliser is not None:
            self.policy.normaliser.merge()
        self.num_updates += 1
        self.policy.version += 1
        return dict.fromkeys(metrics) | values


def _optimisers(held: object) -> list[Optim]:
    """Return the optimisers in dicts, lists and tuples, however deep."""
    parts = held.values() if isinstance(held, dict) else held if isinstance(held, list | tuple) else ()
    return [held] if isinstance(held, Optim) else [found for part in parts for found in _optimisers(part)]


def batch_mean(x: torch.Tensor, batch: SampleBatch) -> torch.Tensor:
    """Mean [...] over the rows of a batch, x [..., B] or [..., T, B]: those that its mask leaves, where it has one."""
    return _rows(x, batch).mean(dim=-1)


def batch_standardised(x: torch.Tensor, batch: SampleBatch) -> torch.Tensor:
    """Return x [B] or [T, B] shifted and scaled so that the rows of the batch have mean 0 and deviation 1.

    Of one row it stays as it is (it would be 0), with a warning.
    """
    rows = _rows(x, batch)
    if len(rows) == 1:
        warnings.warn("a batch of one row cannot be standardised and is taken as it is: collect more", stacklevel=3)
        return x
    std, mean = torch.std_mean(rows, correction=0)
    return (x - mean) / (std + 1e-8)


def _rows(x: torch.Tensor, batch: SampleBatch) -> torch.Tensor:
    """[..., B] as it is; of [..., T, B] the rows [..., n] that the mask leaves."""
    return x[..., batch.mask] if "mask" in batch else x


def batch_priorities(error: torch.Tensor, batch: SampleBatch) -> torch.Tensor:
    """New priorities [B] of a sample from the errors [B] of its rows, or [T, B] of its sequences.

    A sequence counts 0.9 times its largest error and 0.1 times its mean one (R2D2, Kapturowski et al., 2019,
    https://openreview.net/forum?id=r1lyTjAqYX, section 2.3).
    """
    error = error.detach().abs()
    if "mask" not in batch:
        return error
    error = error * batch.mask
    return 0.9 * error.amax(dim=0) + 0.1 * error.sum(dim=0) / batch.mask.sum(dim=0).clamp(min=1)


_CHECKED = ("obs", "act", "rew", "obs_next", "policy")
