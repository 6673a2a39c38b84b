"""Range checks that configs share. A config is a frozen keyword-only dataclass beside its class."""

from __future__ import annotations

from argosy.errors import ConfigError


def check_range(
    config: object,
    field: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> None:
    """Check one numeric field of `config`; None and tuples of numbers are checked element by element.

    Raises:
        ConfigError: names the config, the field, its value and the allowed range.
    """
    value = getattr(config, field)
    if value is None:
        return
    for number in value if isinstance(value, tuple) else (value,):
        bounds = (
            (ge, ">=", ge is None or number >= ge),
            (gt, ">", gt is None or number > gt),
            (le, "<=", le is None or number <= le),
            (lt, "<", lt is None or number < lt),
        )
        if not all(holds for _, _, holds in bounds):
            allowed = " and ".join(f"{sign} {bound}" for bound, sign, _ in bounds if bound is not None)
            raise ConfigError(f"{type(config).__name__}.{field} is {value!r}; it must be {allowed}")


def check_choice(config: object, field: str, allowed: tuple[object, ...]) -> None:
    """Check that one field of `config` is among the `allowed` values.

    Raises:
        ConfigError: names the config, the field, its value and the choices.
    """
    value = getattr(config, field)
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ConfigError(f"{type(config).__name__}.{field} is {value!r}; it must be one of {choices}")
