"""Callbacks: objects of a user's own that a trainer tells what has happened.

An object has any of these methods; each gets the trainer first, whose `state` counts steps and updates:

| method | called |
| --- | --- |
| `on_step(trainer)` | after each training step: a collection and the updates that it earned |
| `on_update(trainer, stats)` | after each update, with its `TrainingStats` |
| `on_eval(trainer, stats)` | after each test, with its `CollectStats` |
| `on_epoch(trainer, stats)` | after each epoch, with its `EpochStats` |
| `begin(folder)` | once, with the folder of a run that has one, before it begins or goes on |

`trainer.logger.log({"my/metric": 1.0}, env_step=trainer.position)` adds to the metrics of a run. Some callbacks that
many runs want have names: early_stop, fqe, keep_checkpoints, video (`argosy.run.callbacks`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from argosy.config import check_arguments
from argosy.errors import CallbackError, ConfigError, told
from argosy.named import Registry

EVENTS = ("on_step", "on_update", "on_eval", "on_epoch")
_BUILT_IN = {"early_stop": "EarlyStop", "fqe": "FQE", "keep_checkpoints": "KeepCheckpoints", "video": "Video"}
_CALLBACKS = Registry("callback", {name: (cls, "argosy.run.callbacks") for name, cls in _BUILT_IN.items()})

register_callback = _CALLBACKS.register
"""Give a class of callbacks a name for `Experiment.callbacks`."""


def make_callbacks(calls: Iterable[str]) -> list[object]:
    """Make the callbacks that an experiment names: "NAME" or "NAME(key=value, ...)".

    Raises:
        ConfigError: one is unknown, or does not take its arguments.
    """
    made = []
    for call in calls:
        cls, arguments = _CALLBACKS.call(call)
        check_arguments(cls, arguments, f"callback {call!r}")
        made.append(cls(**arguments))
    return made


def listed(callbacks: object) -> list[object]:
    """Return callbacks as a list.

    Raises:
        ConfigError: there is one that stands in no list.
    """
    if not isinstance(callbacks, list | tuple):
        raise ConfigError(f"callbacks is {callbacks!r}; it must be a list: [{callbacks!r}]")
    return [*callbacks]


def listeners(callbacks: Sequence[object]) -> dict[str, list[Callable[..., None]]]:
    """Return by each event what is to be called.

    Raises:
        ConfigError: an object listens to nothing.
    """
    for callback in callbacks:
        if isinstance(callback, type | str) or not any(callable(getattr(callback, event, None)) for event in EVENTS):
            raise ConfigError(f"{callback!r} is no callback: it must be an object with a method {', '.join(EVENTS)}")
    return {
        event: [functools.partial(call, callback, event) for callback in callbacks if hasattr(callback, event)]
        for event in EVENTS
    }


def call(callback: object, event: str, *what: Any) -> Any:
    """Call a method of a callback.

    Raises:
        CallbackError: it raised.
    """
    try:
        return getattr(callback, event)(*what)
    except (Exception, SystemExit) as error:
        raise CallbackError(f"{event} of {type(callback).__name__} raised {told(error)}") from error
