"""What trainers ask of their settings, before the first step.

Each check raises a ConfigError that says what does not fit, and what does.
"""

from __future__ import annotations

from argosy.algorithm import Algorithm
from argosy.collect import Collector
from argosy.config import check_range
from argosy.data import ReplayBuffer
from argosy.errors import ConfigError


def check_kind(trainer: object, algorithm: Algorithm, kinds: tuple[str, ...]) -> None:
    """Check that a trainer can train an algorithm: its kind must be one of `kinds`."""
    if algorithm.kind not in kinds:
        raise ConfigError(
            f"{type(algorithm).__name__} is an {algorithm.kind} algorithm; {type(trainer).__name__} trains "
            f"{' and '.join(kinds)} ones"
        )


def check_test_collector(algorithm: Algorithm, collector: Collector) -> None:
    """Check that a collector tests what is trained: it acts with that policy, and does not explore."""
    _check_policy("test_collector", algorithm, collector)
    if collector.exploration_noise:
        raise ConfigError(
            "test_collector has exploration_noise=True, so tests would measure the exploration; make it with "
            "Collector(policy, env)"
        )


def check_train_collector(algorithm: Algorithm, collector: Collector) -> ReplayBuffer:
    """Check that a collector brings what can be learned from; return its buffer.

    What learns from data, e.g. by imitation, may learn from what any policy collects, exploring or not.
    """
    if collector.buffer is None:
        raise ConfigError("train_collector has no buffer to learn from; give it one: Collector(policy, env, buffer)")
    if algorithm.kind == "offline":
        return collector.buffer
    _check_policy("train_collector", algorithm, collector)
    if not collector.exploration_noise:
        raise ConfigError(
            "train_collector has exploration_noise=False, so it would collect the same greedy actions again and "
            "again; make it with Collector(policy, env, buffer, exploration_noise=True)"
        )
    return collector.buffer


def _check_policy(name: str, algorithm: Algorithm, collector: Collector) -> None:
    if collector.policy is not algorithm.policy:
        raise ConfigError(
            f"{name} acts with another policy object than the algorithm trains; make it with "
            "Collector(algorithm.policy, ...)"
        )


def check_rollout_fits(buffer: ReplayBuffer, num_envs: int, steps: int) -> None:
    """Check that a buffer has room for a rollout of `steps` over all envs."""
    rows, room = -(-steps // num_envs), buffer.maxsize // buffer.buffer_num
    if rows > room:
        raise ConfigError(
            f"step_per_collect is {steps}, {rows} steps of each of {num_envs} envs, but the buffer holds {room} of "
            f"each; make it VectorReplayBuffer({rows * num_envs}, {num_envs}) or larger"
        )


def check_batch_size(batch_size: int, buffer: ReplayBuffer, *, fixed: bool = False) -> None:
    """Check that a buffer can hold a batch; a `fixed` one holds no more than it does now."""
    rows, holds, remedy = buffer.maxsize, "holds at most", "make the buffer larger"
    if fixed:
        rows, holds, remedy = len(buffer), "holds", "give more data"
    if batch_size > rows:
        raise ConfigError(
            f"batch_size is {batch_size}, but the buffer {holds} {rows} transitions; {remedy} or make the batch smaller"
        )


def pick_one(trainer: object, first: str, second: str, default: int) -> None:
    """Resolve two settings, at least 1, of which one may be given: neither sets the first to `default`."""
    one, other = getattr(trainer, first), getattr(trainer, second)
    if one is not None and other is not None:
        raise ConfigError(f"{type(trainer).__name__}: {first} is {one} and {second} is {other}; give one of them")
    if one is None and other is None:
        setattr(trainer, first, default)
    check_range(trainer, first, second, ge=1)


def check_data_is_uniform(data: ReplayBuffer) -> None:
    """Check that a data set does not draw by priority: it is not part of a checkpoint, nor would its priorities be."""
    if data.priorities is not None:
        raise ConfigError(
            "the data set draws by priority, which data sets do not; make it a ReplayBuffer or VectorReplayBuffer"
        )
