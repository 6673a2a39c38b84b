"""Actions of a Box between the policy's scale, [-1, 1], and the environment's."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
import torch
from gymnasium import spaces

from argosy.env.spaces import Space, is_bounded
from argosy.errors import ConfigError

ActionBound: TypeAlias = Literal["auto", "clip", "tanh"] | None
Method: TypeAlias = Literal["clip", "tanh"] | None


class ActionMapping(TypedDict, total=False):
    """How `Policy.map_action` takes actions to the env's scale; see `Policy`."""

    action_scaling: bool | None
    action_bound_method: ActionBound


class BoxMap:
    """What `Policy.map_action` and its inverse do in a Box.

    An integer Box has a bin of equal width in [-1, 1] for each of its values. Of a dimension whose bounds are equal,
    every action means that one value. `scaling` and `method` are what `action_mapping` gives.
    """

    def __init__(self, space: spaces.Box, scaling: bool, method: Method) -> None:
        self.scaling, self.method, self.dtype = scaling, method, space.dtype
        self.is_integer = np.dtype(space.dtype).kind in "iub"
        # The width of an integer type, or of float16, may not fit in it
        kind = np.float64 if self.is_integer else np.promote_types(space.low.dtype, np.float32)
        self.low: np.ndarray = space.low.astype(kind)
        self.high: np.ndarray = space.high.astype(kind)
        self.width = np.zeros_like(self.low)
        if scaling:
            self.width = np.asarray(self.high - self.low + (1 if self.is_integer else 0))  # of a () Box a number

    def to_env(self, act: np.ndarray) -> np.ndarray:
        """[B, *act] -> [B, *act] of the space's dtype, a new array."""
        return np.asarray(self.mapped(np, act, self.low, self.high, self.width), dtype=self.dtype)

    def mapped(self, xp: Any, act: Any, own_low: Any, own_high: Any, width: Any) -> Any:
        """Do so in numpy or torch (`xp`), with the Box's low, high and width as its arrays; the dtype is left open."""
        if self.method == "tanh":
            act = xp.tanh(act)
        if self.scaling:
            act = own_low + width * (act + 1.0) * 0.5
        if self.is_integer:
            act = xp.floor(act if self.scaling else act + 0.5)
        # last of all: low + (high - low) may round to more than high
        return xp.clip(act, own_low, own_high) if self.method or self.is_integer else act

    def clipped(self, act: torch.Tensor) -> torch.Tensor:
        """[..., *act] -> what the env would take of it, in the policy's scale, where `method` is "clip"."""
        if self.method != "clip":
            return act
        if self.scaling:
            return act.clamp(-1.0, 1.0)
        return act.clamp(torch.from_numpy(self.low).to(act), torch.from_numpy(self.high).to(act))

    def from_env(self, act: np.ndarray) -> np.ndarray:
        """[B, *act] -> [B, *act] float32; an integer is the middle of its bin, the one value of a dimension 0."""
        out: np.ndarray = act.astype(np.float64 if self.is_integer else np.float32)
        if self.scaling:
            at = out - self.low + (0.5 if self.is_integer else 0.0)
            middle = np.full_like(at, 0.5)  # of a dimension without width
            out = np.divide(at, self.width, out=middle, where=self.width > 0) * 2.0 - 1.0
        if self.method == "tanh":
            edge = 1.0 - np.finfo(np.float32).eps
            out = np.arctanh(np.clip(out, -edge, edge))
        return np.asarray(out, dtype=np.float32)


def action_mapping(space: Space, scaling: bool | None, bound: ActionBound) -> tuple[bool, Method]:
    """Resolve "auto" settings for `space`.

    Raises:
        ConfigError: explicit ones do not fit it.
    """
    if bound not in ("auto", "clip", "tanh", None):
        raise ConfigError(f"action_bound_method is {bound!r}; it must be one of 'auto', 'clip', 'tanh', None")
    if not isinstance(space, spaces.Box):
        if scaling:
            raise ConfigError(f"action_scaling is True, but only Box actions can be scaled, not {space}; use None")
        if bound not in ("auto", None):
            raise ConfigError(f"action_bound_method is {bound!r}, but {space} has no bounds to keep; use 'auto'")
        return False, None
    bounded = is_bounded(space)
    if scaling and not bounded:
        raise ConfigError(f"action_scaling is True, but {space} has infinite bounds; use None or False")
    scaled = bounded if scaling is None else scaling
    if bound == "tanh" and not scaled:
        raise ConfigError(f"action_bound_method is 'tanh', which needs action_scaling and finite bounds; got {space}")
    return scaled, "clip" if bound == "auto" else bound
