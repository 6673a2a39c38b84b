"""What a logger is, and the rule that a failing one never ends a training."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class Logger(Protocol):
    """Takes numbers while a run goes on."""

    def log(self, metrics: Mapping[str, float], *, env_step: int, gradient_step: int = 0) -> None:
        """Record `metrics` (keys like `loss/policy`, `episode/return_mean`) at these two counters."""
        ...

    def close(self) -> None:
        """Write out what is pending and let go of files and connections; may be called twice."""
        ...


class LoggerWarning(UserWarning):
    """A logger could not write; the training goes on without its record."""


class SafeLogger(ABC):
    """Base of the loggers here: an `Exception` in `_write` or `_finish` becomes one warning, and the training goes on.

    Where `retries` it keeps trying, so that a record goes on when, say, a full disk has room again.
    """

    retries: ClassVar[bool] = True
    place: object = None
    """Where to, for the warning."""
    _warned = False
    _warned_of_value = False

    def log(self, metrics: Mapping[str, float], *, env_step: int, gradient_step: int = 0) -> None:
        """Record `metrics` at these two counters; never raises for what the record's place does.

        What is no number is left out, with one warning: it says nothing about the place.
        """
        if self.retries or not self._warned:
            numbers = self._numbers(metrics)
            self._guard(lambda: self._write(numbers, env_step, gradient_step))

    def close(self) -> None:
        """Write out what is pending and let go of files and connections; may be called twice."""
        self._guard(self._finish)

    @abstractmethod
    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        """Record for real; may raise."""

    def _finish(self) -> None:
        """Close for real; may raise."""
        return

    def _numbers(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        numbers = {}
        for name, value in metrics.items():
            try:
                numbers[name] = float(value)
            except Exception:  # tensors of several numbers, integers beyond floats, ...: each has its own
                if not self._warned_of_value:
                    self._warned_of_value = True
                    said = f"{self!r} leaves out {name!r}, which is {value!r:.60}: metrics are numbers"
                    warnings.warn(said, LoggerWarning, stacklevel=3)
        return numbers

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"{self!r} failed ({type(error).__name__}: {error}); the training goes on without its record",
                    LoggerWarning,
                    stacklevel=3,
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}{'' if self.place is None else f'({str(self.place)!r})'}"


class _Guarded(SafeLogger):
    """Gives any logger the promise of `SafeLogger`."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def _numbers(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        return metrics  # it may take more than numbers

    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        self._logger.log(metrics, env_step=env_step, gradient_step=gradient_step)

    def _finish(self) -> None:
        self._logger.close()

    def __repr__(self) -> str:
        return repr(self._logger)


class Loggers:
    """Several loggers as one; one that fails, of whatever make, does not keep the others from writing."""

    def __init__(self, *loggers: Logger) -> None:
        self._loggers = [logger if isinstance(logger, SafeLogger) else _Guarded(logger) for logger in loggers]

    def log(self, metrics: Mapping[str, float], *, env_step: int, gradient_step: int = 0) -> None:
        """Record `metrics` with each of them."""
        for logger in self._loggers:
            logger.log(metrics, env_step=env_step, gradient_step=gradient_step)

    def close(self) -> None:
        """Close each of them."""
        for logger in self._loggers:
            logger.close()
