"""One call saves all that a run needs to go on, one call goes on."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from argosy.collect import Collector
from argosy.collect.state import HasState
from argosy.config import from_plain
from argosy.data import ReplayBuffer, VectorReplayBuffer, tree
from argosy.data.buffer.state import append
from argosy.data.tree import State, host
from argosy.errors import CheckpointError, DataError
from argosy.trainer.base import BaseTrainer, TrainerState
from argosy.trainer.callbacks import call
from argosy.trainer.offline import OfflineTrainer
from argosy.trainer.offline_to_online import OfflineToOnlineTrainer
from argosy.trainer.onpolicy import OnpolicyTrainer
from argosy.trainer.statefile import or_as_before, read_state, write_state

KIND = "checkpoint"
_LOOKED_AT = 1 << 16
"""Rows of a data set, about, whose rewards and actions tell it from another one."""


def save_checkpoint(path: str | Path, trainer: BaseTrainer) -> None:
    """Save a trainer with all that it works with: between two epochs, in `save_checkpoint_fn`, or after `interrupt`.

    Saved are the algorithm (networks, optimisers, targets, schedules, normalisers, counters, random numbers), the
    replay buffer, the collectors (counters, random numbers, wrappers' statistics), callbacks that have `state_dict` and
    `load_state_dict`, the trainer's own counters and best result, and the global generators of Python, numpy and torch.
    A data set is not: it does not change.

    Simulators cannot be saved. So the envs are seeded anew and start new episodes after a checkpoint, in the run that
    goes on as in the run that is resumed; both are the same run.

    Raises:
        CheckpointError: the file could not be written; the old one is unchanged.
    """
    collectors = collectors_of(trainer)
    for collector in collectors.values():
        collector.restart_envs()
    state = _state_but_data(trainer)
    buffer = _replay_buffer(collectors)
    if buffer is not None:
        state["buffer"] = buffer.state_dict(lazy=True)
    data = data_of(trainer)
    if data is not None:
        # As with the envs: the sampler starts anew in both runs
        state["data"] = _digest(data)
        state["sampler_seed"] = trainer.algorithm.rng.draw_seed()
        data.seed(state["sampler_seed"])
        state["algorithm"] = trainer.algorithm.state_dict()  # it has given the seed
    write_state(path, KIND, state)


def load_checkpoint(path: str | Path, trainer: BaseTrainer) -> None:
    """Continue exactly where `save_checkpoint` was called.

    Args:
        path: the file.
        trainer: made as the saved one was: same algorithm and networks, same number of envs, same buffer or a larger
            one. The length of the run, the logger and the callbacks may differ.

    Raises:
        CheckpointError: the file is missing, damaged or foreign, or it does not fit this trainer. Nothing has changed
            then; but where rows had begun to come into a replay buffer that held others, it is empty.
    """
    restore_checkpoint(path, read_state(path, KIND), trainer)


def restore_checkpoint(path: str | Path, state: State, trainer: BaseTrainer) -> None:
    """Continue from what was read from the file `path`; see `load_checkpoint`."""
    before = copy.deepcopy(_state_but_data(trainer))
    with or_as_before(path, lambda: _restore_but_data(before, trainer)):
        _restore(path, state, trainer)


def _restore(path: str | Path, state: State, trainer: BaseTrainer) -> None:
    for key, own in (("trainer_class", trainer), ("algorithm_class", trainer.algorithm)):
        if state[key] != type(own).__name__:
            raise CheckpointError(
                f"{str(path)!r} is of a {state[key]} and cannot be loaded into a {type(own).__name__}"
            )
    collectors = collectors_of(trainer)
    for name in state["collectors"]:
        if name not in collectors:
            raise CheckpointError(f"{str(path)!r} holds a {name}; this trainer has none")
    data = data_of(trainer)
    if data is not None and (digest := _digest(data)) != (wanted := state["data"]):
        rows = "others" if digest["rows"] == wanted["rows"] else f"{digest['rows']:,}"
        raise CheckpointError(
            f"{str(path)!r} is of a training from {wanted['rows']:,} transitions, the data set has {rows}"
        )
    from_plain(TrainerState, state["trainer"], "trainer")  # it says what is wrong
    if missed := state["callbacks"].keys() - _callbacks(trainer).keys():
        warnings.warn(
            f"the checkpoint holds the state of callbacks that are not here: {', '.join(sorted(missed))}", stacklevel=2
        )
    _restore_but_data(state, trainer)
    buffer = _replay_buffer(collectors)
    if buffer is not None:
        try:
            _restore_buffer(buffer, state["buffer"])
        except DataError as error:
            raise CheckpointError(f"{str(path)!r} does not fit the buffer: {error}") from error
    if data is not None:
        data.seed(state["sampler_seed"])


def _restore_buffer(buffer: ReplayBuffer, state: State) -> None:
    """Let a buffer continue where `state` was taken; one that has become larger begins with the rows of that one."""
    sizes = state["rings"]["capacity"]
    if buffer.priorities is not None or len(sizes) != buffer.buffer_num or (buffer.rings.capacity <= sizes).any():
        buffer.load_state_dict(state)
        return
    smaller = VectorReplayBuffer(int(sizes.sum()), len(sizes), **buffer.options())
    smaller.load_state_dict(state)
    buffer.reset()
    for ring in range(len(sizes)):
        append(buffer, ring, smaller, smaller.rings.stored(ring))


def _state_but_data(trainer: BaseTrainer) -> State:
    """Return all that a trainer works with but what it learns from."""
    return {
        "trainer_class": type(trainer).__name__,
        "algorithm_class": type(trainer.algorithm).__name__,
        "trainer": dataclasses.asdict(trainer.state),
        "collectors": {name: collector.state_dict() for name, collector in collectors_of(trainer).items()},
        "callbacks": {name: call(callback, "state_dict") for name, callback in _callbacks(trainer).items()},
        "algorithm": trainer.algorithm.state_dict(),
        "rng": _global_rng_state(),
    }


def _restore_but_data(state: State, trainer: BaseTrainer) -> None:
    """Undo `_state_but_data`."""
    trainer.algorithm.load_state_dict(state["algorithm"])
    for name, collector in collectors_of(trainer).items():
        if name in state["collectors"]:
            collector.load_state_dict(state["collectors"][name])
    for name, callback in _callbacks(trainer).items():
        if name in state["callbacks"]:
            callback.load_state_dict(state["callbacks"][name])
    trainer.state = TrainerState(**state["trainer"])
    _set_global_rng_state(state["rng"])


def collectors_of(trainer: BaseTrainer) -> dict[str, Collector]:
    """Return the collectors of a trainer by their names."""
    found = {name: getattr(trainer, name, None) for name in ("train_collector", "test_collector")}
    return {name: collector for name, collector in found.items() if collector is not None}


def _callbacks(trainer: BaseTrainer) -> dict[str, HasState]:
    """Return the callbacks that have state, by class and their place among those of it."""
    found: dict[str, HasState] = {}
    for callback in trainer.callbacks:
        if isinstance(callback, HasState):
            name = type(callback).__name__
            found[f"{name} {sum(type(one).__name__ == name for one in found.values())}"] = callback
    return found


def _replay_buffer(collectors: dict[str, Collector]) -> ReplayBuffer | None:
    return collectors["train_collector"].buffer if "train_collector" in collectors else None


def data_of(trainer: BaseTrainer) -> ReplayBuffer | None:
    """Return the data set that a trainer learns from, if it does."""
    if isinstance(trainer, OfflineTrainer):
        return trainer.buffer
    return trainer.data if isinstance(trainer, OfflineToOnlineTrainer | OnpolicyTrainer) else None


def _digest(data: ReplayBuffer) -> State:
    """Return what tells data sets apart, at a bounded cost: their rows, and a checksum of some of these."""
    slots, checksum = data.rings.all_stored()[:: max(1, len(data) // _LOOKED_AT)], 0
    for name in ("rew", "act"):
        for _, leaf in tree.leaves(data.get(slots, name, stack_num=1)):
            checksum = zlib.crc32(host(leaf).tobytes(), checksum)
    return {"rows": len(data), "checksum": checksum}


@contextlib.contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed the generators that only code outside of argosy draws from; they are as before in the end."""
    before = _global_rng_state()
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # the global generator, on purpose
    torch.manual_seed(seed)
    try:
        yield
    finally:
        _set_global_rng_state(before)


def _global_rng_state() -> State:
    """State of the generators that code outside of argosy may draw from."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002  # the global generator, on purpose
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_global_rng_state(state: State) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002  # the global generator, on purpose
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
