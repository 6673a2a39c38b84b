"""What every algorithm offers: learn (`update`), follow schedules, save and restore all that it has learned."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypedDict, TypeVar

import numpy as np
import torch
from gymnasium import spaces

from argosy.config import check_range
from argosy.data import Sampling, TrainingStats
from argosy.errors import CheckpointError, ConfigError, DataError, SpaceError
from argosy.net import NetConfig
from argosy.policy import Policy
from argosy.rng import Rng, RngState, spawn_seeds


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """Base of every algorithm's config: frozen, keyword-only, checked when made."""

    gamma: float = 0.99
    """Discount factor per env step."""

    def __post_init__(self) -> None:
        check_range(self, "gamma", ge=0.0, le=1.0)


ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig)
StatsT = TypeVar("StatsT", bound=TrainingStats)


class Stateful(Protocol):
    """Something whose state can be saved and restored."""

    def state_dict(self) -> Any: ...  # noqa: D102
    def load_state_dict(self, state: Any, /) -> Any: ...  # noqa: D102


class AlgorithmState(TypedDict):
    """What `Algorithm.state_dict` returns: nested dicts with string keys; leaves are tensors, numbers, strings."""

    num_updates: int
    version: int
    rng: RngState
    policy_rng: RngState
    parts: dict[str, Any]


class Algorithm(ABC, Generic[ConfigT, StatsT]):
    """Learns. Owns the policy, critics, target networks and optimisers; sees no buffer, env, logger or stream.

    A subclass sets the class variables, makes its objects in `__init__` and `build`, names those with state in
    `parts`, and learns in `update`.
    """

    kind: ClassVar[Literal["onpolicy", "offpolicy", "offline"]]
    """Which trainer and which form of batch: [T, B, ...] rollouts ("onpolicy") or [B, ...] samples."""
    config_type: ClassVar[type[AlgorithmConfig]]
    """The config's dataclass."""
    action_spaces: ClassVar[tuple[type[spaces.Space[Any]], ...]]
    """Action spaces that it can learn in."""
    default_net: ClassVar[NetConfig] = NetConfig()
    """Network used where the caller gives none."""
    presets: ClassVar[Mapping[str, Mapping[str, object]] | Path] = {}
    """Of an algorithm of one's own: settings for each family of tasks ("classic", ...), or a TOML file of them."""
    takes_recurrent: ClassVar[bool] = False
    """Whether it learns with policies that have a state."""

    def __init__(self, config: ConfigT, policy: Policy) -> None:
        if policy.is_recurrent and not self.takes_recurrent:
            raise ConfigError(
                f"{type(self).__name__} does not learn with policies that have a state, and {type(policy).__name__} has"
                " one (default_policy_state); use PPO, or set takes_recurrent = True in an algorithm of yours that does"
            )
        self.config = config
        self.policy: Policy = policy
        self.device = policy.device
        self.rng = Rng()
        """Draws for learning (shuffles, noise in losses); acting draws from `policy.rng`."""
        self.num_updates = 0
        """Calls of `update` so far."""

    @classmethod
    def from_spaces(
        cls,
        config: ConfigT,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        net: NetConfig | None = None,
        device: str | torch.device = "cpu",
        seed: int | None = None,
    ) -> Self:
        """Make policy, networks and algorithm for the given spaces.

        Equal seeds give equal parameters and random numbers, whatever torch's global generator is at (which is left
        as it was).

        Raises:
            SpaceError: this algorithm cannot learn in `action_space`; names those that can.
        """
        if not isinstance(action_space, cls.action_spaces):
            from argosy.algorithm import ALGORITHMS, algorithm_class  # here, because that module names this one

            fitting = [name for name in ALGORITHMS if isinstance(action_space, algorithm_class(name).action_spaces)]
            wanted = " or ".join(space.__name__ for space in cls.action_spaces)
            raise SpaceError(
                f"{cls.__name__} needs a {wanted} action space, not {action_space}; algorithms that fit it:"
                f" {', '.join(fitting) or 'none yet'}"
            )
        init_seed, run_seed = spawn_seeds(seed, 2)
        with _seeded(init_seed):
            algorithm = cls.build(config, observation_space, action_space, net or cls.default_net, torch.device(device))
        algorithm.seed(run_seed)
        return algorithm

    @classmethod
    @abstractmethod
    def build(
        cls,
        config: ConfigT,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        net: NetConfig,
        device: torch.device,
    ) -> Self:
        """Make the policy and the other networks on `device`, and the algorithm of them."""

    @abstractmethod
    def update(self, batch: Any) -> StatsT:
        """Learn from one batch: a sample [B, ...] or, on-policy, the whole rollout [T, B, ...]. Numpy or tensors.

        Raises:
            DataError: something in the batch, or the loss, is NaN or infinite; names it. Parameters are unchanged.
        """

    @abstractmethod
    def parts(self) -> Mapping[str, Stateful]:
        """Name all objects with learning state: policy, other networks, targets, optimisers, statistics."""

    @property
    def sampling(self) -> Sampling:
        """What a buffer's samples must be prepared for."""
        return Sampling(gamma=self.config.gamma, n_step=getattr(self.config, "n_step", 1))

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Set what depends on progress (exploration, learning rate); trainers call it before each collect."""

    def seed(self, seed: int | None) -> None:
        """Start the random numbers of learning and of acting anew."""
        learn_seed, act_seed = spawn_seeds(seed, 2)
        self.rng.seed(learn_seed)
        self.policy.seed(act_seed)

    def state_dict(self) -> AlgorithmState:
        """Return all learning state (tensors are not copies: save or copy them before the next update)."""
        return {
            "num_updates": self.num_updates,
            "version": self.policy.version,
            "rng": self.rng.state_dict(),
            "policy_rng": self.policy.rng.state_dict(),
            "parts": {name: dict(part.state_dict()) for name, part in self.parts().items()},
        }

    def load_state_dict(self, state: AlgorithmState) -> None:
        """Continue exactly where `state` was taken.

        Raises:
            CheckpointError: it belongs to another algorithm or to other networks; nothing has changed.
        """
        _check_fits(self.state_dict()["parts"], state["parts"], type(self).__name__)
        for name, part in self.parts().items():
            part.load_state_dict(state["parts"][name])
        self.num_updates = state["num_updates"]
        self.policy.version = state["version"]
        self.rng.load_state_dict(state["rng"])
        self.policy.rng.load_state_dict(state["policy_rng"])

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _finish(self, **metrics: torch.Tensor | None) -> dict[str, Any]:
        """Count the update and fetch its metrics (scalar tensors) as floats in the one device sync; None stays None.

        Raises:
            DataError: a metric is not finite, and so the optimiser's guard has left the parameters as they were.
        """
        tensors = {name: metric.detach() for name, metric in metrics.items() if metric is not None}
        values = dict(zip(tensors, torch.stack(list(tensors.values())).tolist(), strict=True))
        if not math.isfinite(sum(values.values())):
            raise DataError(f"the loss or another metric of {type(self).__name__} is not finite: {values}")
        self.num_updates += 1
        self.policy.version += 1
        return dict.fromkeys(metrics) | values


def check_finite(batch: Any, *fields: str) -> None:
    """Check that float fields of a batch of tensors hold neither NaN nor infinity; costs one sum per field.

    Raises:
        DataError: names the first field that does.
    """
    total = torch.zeros(())
    for field in fields:
        value = batch[field]
        if type(value) is not torch.Tensor:
            total = sum((leaf.sum() for _, leaf in _float_leaves(value, field)), total)
        elif value.is_floating_point():
            total = total + value.sum()
    if not math.isfinite(total.item()):
        for field in fields:
            for name, leaf in _float_leaves(batch[field], field):
                bad = ~torch.isfinite(leaf)
                if bad.any():
                    where = tuple(bad.nonzero()[0].tolist())
                    raise DataError(
                        f"batch.{name} holds {int(bad.sum())} NaN or infinite value(s), the first one"
                        f" {leaf[where].item()} at index {where}; no parameter has changed"
                    )


def _float_leaves(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield name, value
    elif value is not None:
        for key in value.keys():  # noqa: SIM118  # a Batch iterates over rows, not over keys
            yield from _float_leaves(value[key], f"{name}.{key}")


def _check_fits(own: Any, saved: Any, name: str) -> None:
    """Check that a saved state has the names and shapes of one's own; a CheckpointError names what differs."""
    if isinstance(own, dict) and isinstance(saved, Mapping):
        if own.keys() != saved.keys():
            raise CheckpointError(f"the state does not fit: {name} has {sorted(own)}, the saved one {sorted(saved)}")
        for key, value in own.items():
            _check_fits(value, saved[key], f"{name}.{key}")
    elif _form(own) != _form(saved):
        raise CheckpointError(f"the state does not fit: {name} is {_form(own)}, the saved one {_form(saved)}")
    elif isinstance(own, list):
        for i, value in enumerate(own):
            _check_fits(value, saved[i], f"{name}[{i}]")


def _form(value: Any) -> str:
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"an array of shape {tuple(value.shape)}"
    return f"a list of {len(value)}" if isinstance(value, list) else f"a {type(value).__name__}"


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator (layers initialise themselves from it) and put it back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
