"""Algorithms around another one, e.g. for curiosity or imitation: they change what the inner one learns from.

An experiment names them, the innermost first, as `wrap=("rnd(scale=0.1)", "MODULE:CLASS")`.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Task
from argosy.config import check_arguments
from argosy.data import Batch, Sampling, TrainingStats, as_tensors
from argosy.errors import ConfigError
from argosy.named import Registry
from argosy.policy import Policy
from argosy.rng import seeded, spawn_seeds


class AlgorithmWrapper(Algorithm[AlgorithmConfig, TrainingStats]):
    """Changes each batch before the inner algorithm learns from it; config and policy are the inner one's.

    A subclass writes `change`. Networks, optimisers and numbers that it holds are found and saved as any algorithm's
    are, and the inner algorithm with them. First values come from torch's global generator, later draws from `rng`.

    Args:
        inner: learns.
        task: what both are made for. A subclass may take more arguments, with names.
    """

    config_type: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    action_spaces: ClassVar[tuple[type[spaces.Space[Any]], ...]] = (spaces.Space,)

    def __init__(self, inner: Algorithm[Any, Any], task: Task) -> None:
        self.inner = inner
        super().__init__(inner.config, inner.policy)
        self.kind = inner.kind

    @abstractmethod
    def change(self, batch: Batch) -> dict[str, float]:
        """Change what the inner algorithm will learn from, in place, and learn from it oneself.

        Args:
            batch: a sample [B, ...], or a rollout or sequences [T, B, ...]: tensors on `device`, observations not yet
                normalised. Put new tensors in its fields: the old ones may be the buffer's or the caller's own.

        Returns:
            Metrics, named as the fields of `TrainingStats` are: `loss_X` is a loss, any other name a diagnostic.
        """

    def update(self, batch: Any) -> TrainingStats:
        """Change a batch, and let the inner algorithm learn from it."""
        changed = as_tensors(batch, self.device)
        metrics = self.change(changed)
        stats: TrainingStats = self.inner.update(changed)
        self.num_updates += 1
        return _joined(stats, metrics)

    @classmethod
    def build(cls, config: AlgorithmConfig, task: Task) -> NoReturn:
        """Refuse: a wrapper is made around an algorithm."""
        raise ConfigError(f"{cls.__name__} goes around an algorithm; name it in `wrap`, and the algorithm as algorithm")

    @property
    def config(self) -> AlgorithmConfig:
        """The inner algorithm's."""
        config: AlgorithmConfig = self.inner.config
        return config

    @config.setter
    def config(self, config: AlgorithmConfig) -> None:
        self.inner.config = config

    @property
    def policy(self) -> Policy:
        """The inner algorithm's."""
        return self.inner.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.inner.policy = policy

    @property
    def sampling(self) -> Sampling:
        """What the inner algorithm needs."""
        return self.inner.sampling

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Follow the run's length, both of them."""
        super().schedule(env_step, max_env_step)
        self.inner.schedule(env_step, max_env_step)

    def take_in(self, obs: Any, mask: np.ndarray | None = None) -> None:
        """Let the inner algorithm take new experience in."""
        self.inner.take_in(obs, mask)

    def seed(self, seed: int | None) -> None:
        """Start all random numbers anew; the inner algorithm's are those that it has without a wrapper."""
        self.inner.seed(seed)
        self.rng.seed(spawn_seeds(seed, 3)[2])


_OWN = {"icm": ("ICM", "argosy.algorithm.icm"), "rnd": ("RND", "argosy.algorithm.rnd")}
_WRAPPERS = Registry("wrapper of algorithms", _OWN)


register_algorithm_wrapper = _WRAPPERS.register
"""Give a wrapper a name for `Experiment.wrap`."""


def wrapped(
    algorithm: Algorithm[Any, Any], wrappers: Sequence[str], task: Task, seed: int | None
) -> Algorithm[Any, Any]:
    """Return the algorithm with these wrappers around it, the first one innermost; all start from `seed`.

    Raises:
        ConfigError: a wrapper is unknown, is none, or does not take its arguments.
    """
    init_seed, run_seed = spawn_seeds(seed, 2)
    for call in wrappers:
        cls, arguments = wrapper_call(call)
        with seeded(init_seed):
            algorithm = cls(algorithm, task, **arguments)
        algorithm.seed(run_seed)
    return algorithm


def wrapper_call(call: str) -> tuple[type[AlgorithmWrapper], dict[str, Any]]:
    """Return the class and the arguments of "NAME" or "NAME(key=value, ...)".

    Raises:
        ConfigError: see `wrapped`.
    """
    found, arguments = _WRAPPERS.call(call)
    if not (isinstance(found, type) and issubclass(found, AlgorithmWrapper)):
        raise ConfigError(f"wrap names {call!r}, which is {found!r}; it must be a subclass of argosy.AlgorithmWrapper")
    check_arguments(found, arguments, f"wrap's {call!r}", first=("the inner algorithm", "its task"))
    return found, arguments


def remember_wrapper(call: str, cls: type[AlgorithmWrapper]) -> None:
    """Let the name in a call stand for a class in this process, as it does in the one that sent both."""
    _WRAPPERS.remember(call.partition("(")[0], cls)


def _joined(stats: TrainingStats, metrics: Mapping[str, float]) -> TrainingStats:
    """Return the inner algorithm's numbers and the wrapper's."""
    cls: Any = type(stats)
    if twice := metrics.keys() & {field.name for field in dataclasses.fields(stats)}:
        raise ConfigError(f"the metric {min(twice)!r} is there already; a wrapper's needs a name that no other one has")
    joined: TrainingStats = _stats_class(cls, tuple(metrics))(
        **{field.name: getattr(stats, field.name) for field in dataclasses.fields(stats)}, **metrics
    )
    return joined


@functools.cache
def _stats_class(inner: Any, names: tuple[str, ...]) -> Any:
    fields = [(name, float) for name in names]
    return dataclasses.make_dataclass(inner.__name__, fields, bases=(inner,), frozen=True, kw_only=True, eq=False)
