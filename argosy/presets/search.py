"""Where a search for better settings looks: a range for each, from `search.toml` or a file of the user's own."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from argosy.config import from_plain, to_plain
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.presets import read_sections


@dataclass(frozen=True, kw_only=True)
class Range:
    """Values of one setting that are tried: numbers from `low` to `high`, both included, or some choices."""

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    """Draw by powers: as often between 0.001 and 0.01 as between 0.01 and 0.1."""
    choices: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None) or bool(self.choices) != (self.low is None):
            raise ConfigError("a range is { low = 1e-5, high = 1e-2, log = true } or { choices = [32, 64] }")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigError(f"the range from {self.low} to {self.high} is empty; low must be < high")
        if self.log and (self.low is None or self.low <= 0):
            raise ConfigError("log is for numbers from a low > 0 on")

    def draw(self, rng: np.random.Generator) -> object:
        """Return one of the values at random."""
        if self.low is None or self.high is None:
            return self.choices[int(rng.integers(len(self.choices)))]
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        drawn = float(rng.uniform(low, high))
        return self._kept(math.exp(drawn) if self.log else drawn)

    def near(self, value: object, factor: float) -> object:
        """Return a number times a factor, within the range; of choices the next one if > 1, else the one before."""
        if self.low is None or self.high is None:
            choices, plain = list(map(to_plain, self.choices)), to_plain(value)
            at = choices.index(plain) if plain in choices else 0
            return self.choices[min(max(at + (1 if factor > 1.0 else -1), 0), len(choices) - 1)]
        assert isinstance(value, int | float)
        moved = self._kept(value * factor)
        if moved == value and isinstance(moved, int):  # 2 times 1.25 is 2 again
            moved = self._kept(value + (1 if factor > 1.0 else -1))
        return moved

    def _kept(self, value: float) -> int | float:
        """Return a number within the range, whole if its ends are."""
        assert self.low is not None
        assert self.high is not None
        within = min(max(value, self.low), self.high)
        return round(within) if isinstance(self.low, int) and isinstance(self.high, int) else float(within)

    def __contains__(self, value: object) -> bool:
        if self.low is None or self.high is None:
            return to_plain(value) in to_plain(self.choices)  # type: ignore[operator]  # a list
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        return isinstance(value, int if whole else int | float) and self.low <= value <= self.high


def search_space(experiment: Experiment, own: Mapping[str, object] | None = None) -> dict[str, Range]:
    """Return the ranges of the settings that are to be searched, by their names with dots.

    Args:
        experiment: what is to be improved.
        own: ranges as in `search.toml`, of settings named as the command's flags are; None: those there.

    Raises:
        ConfigError: there is no such setting, it has no such values, or there is nothing to search.
    """
    if own is not None:
        space = {experiment.full_name(name).removeprefix("config."): where for name, where in _ranges(own)}
        space = {name: _accepted(experiment, name, where) for name, where in space.items()}
    else:
        shared, space = dict(_ranges(read_sections("search.toml"))), {}
        for name in experiment.setting_names():
            of_algorithm = experiment.full_name(name).startswith("config.")
            if (where := shared.get(name.rpartition(".")[2] if of_algorithm else name)) is not None:
                with contextlib.suppress(ConfigError):
                    space[name] = _accepted(experiment, name, where)
        # Target networks that are copied have no softness, and those that follow softly do so all the time
        space.pop("tau" if experiment.settings().get("tau") == 1.0 else "target_update_freq", None)
    if not space:
        raise ConfigError(f"there is nothing to search for {experiment.algorithm}; say what, in a file: --space FILE")
    return space


def _ranges(tables: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Range]]:
    """Yield what stands in tables of tables, until a table describes a range."""
    for key, value in tables.items():
        name = prefix + key
        if isinstance(value, Mapping) and not value.keys() & {field.name for field in dataclasses.fields(Range)}:
            yield from _ranges(value, f"{name}.")
            continue
        try:
            yield name, from_plain(Range, value if isinstance(value, Mapping) else {})
        except ConfigError as error:
            raise ConfigError(f"the range of {name}: {error}") from None


def _accepted(experiment: Experiment, name: str, where: Range) -> Range:
    """Return a range of the type that the setting has.

    Raises:
        ConfigError: the experiment refuses an end of it, or one of its choices.
    """
    try:
        values = [
            experiment.replaced({name: value}).settings()[name] for value in where.choices or (where.low, where.high)
        ]
    except ConfigError as error:
        raise ConfigError(f"the range of {name}: {error}") from None
    if where.choices:
        return where
    low, high = values  # 1e2 is 100 where the setting is whole, 1 is 1.0 where it is not
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return dataclasses.replace(where, low=low, high=high)
