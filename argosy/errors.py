"""Errors that say what happened, the value, what is allowed and what to do."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class ArgosyError(Exception):
    """Base of every error that argosy raises for the user to read."""


class ConfigError(ArgosyError, ValueError):
    """A setting is unknown, out of range or contradicts another one."""


class SpaceError(ArgosyError, ValueError):
    """An observation, an action or a space is not what the receiver can work with."""


class DataError(ArgosyError, ValueError):
    """Data has the wrong fields, shapes, types or values (NaN among them)."""


class EnvError(ArgosyError, RuntimeError):
    """An environment raised, died, hung or broke its contract."""


class CheckpointError(ArgosyError, RuntimeError):
    """A checkpoint is missing, damaged, foreign or written by a newer version."""


class CallbackError(ArgosyError, RuntimeError):
    """A callback of the user's own raised; the error itself is the cause."""


class TrustError(ArgosyError, RuntimeError):
    """A file names code to import that nobody has named or allowed in this process."""


class MissingExtraError(ArgosyError, ImportError):
    """An optional dependency is needed; the message names the extra that brings it."""


MALFORMED = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RuntimeError,  # a RecursionError among them
    MemoryError,
)
"""What content that somebody made up raises where code looks into it; whoever reads it gives that a name."""


def told(error: BaseException) -> str:
    """Return an error's type and what it says, if it can say it."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # raised by its own __str__
        return type(error).__name__


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return a sentence that offers the nearest of the `allowed` names, or lists them all."""
    names = sorted(allowed)
    lower = [n.lower() for n in names]
    match = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.65)
    match = match or [n for n in lower if name and n.startswith(name.lower())][:1]
    if match:
        found = next(n for n in names if n.lower() == match[0])
        return f"did you mean {found!r}?"
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"known names: {shown or 'none'}"


def require(module: str, extra: str) -> ModuleType:
    """Import an optional `module`.

    Raises:
        MissingExtraError: it is not installed; names the extra to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} could not be imported ({error}); install it with: pip install 'argosy[{extra}]'"
        ) from error
