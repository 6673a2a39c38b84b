"""What every policy offers: act (`rollout`), evaluate stored data (`analyze`), ship itself (checkpoints)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, NamedArray, namedarray
from argosy.data.protocols import Obs
from argosy.errors import CheckpointError, ConfigError, SpaceError
from argosy.rng import Rng

ActionBound: TypeAlias = Literal["auto", "clip", "tanh"] | None
PolicyState: TypeAlias = Any  # a named array or Batch [B, ...] that only its own policy looks into

MASK_KEYS = ("action_mask", "mask")
"""Keys of a dict observation under which discrete policies look for the allowed actions."""


@namedarray
class RolloutRequest(NamedArray):
    """Observations that want actions; axis 0 mixes rows of any envs and agents."""

    obs: object
    """[B, *obs] numpy array, or a nested dict of them."""
    policy_state: object = None
    """[B, ...] recurrent state, None for memoryless policies."""
    is_evaluation: np.ndarray | None = None
    """[B] bool: act without exploration. None: every row explores."""
    on_reset: np.ndarray | None = None
    """[B] bool: first step of an episode; `policy_state` is the default one there. None: no row is."""


@namedarray
class RolloutResult(NamedArray):
    """Actions and what the policy wants to find again in the stored batch."""

    action: np.ndarray
    """[B, *act] in the policy's own scale; `Policy.map_action` takes it to the env's."""
    policy_state: object = None
    """[B, ...] recurrent state after this step."""
    analyzed_result: Batch | None = None
    """Stored under `policy` in the buffer, e.g. log-probabilities and values [B]."""


class PolicyCheckpoint(TypedDict):
    """What acting needs; never an optimiser."""

    version: int
    state_dict: dict[str, torch.Tensor]


class Policy(nn.Module, ABC):
    """Observation -> action. Shipped to whoever acts: no optimiser, no target network.

    Args:
        observation_space: space of one observation.
        action_space: space of one action.
        action_scaling: whether `map_action` stretches [-1, 1] to a Box's bounds; None: yes for bounded Boxes.
        action_bound_method: how `map_action` keeps actions within bounds: "clip", "tanh", None (not at all);
            "auto": clip for Boxes.

    Raises:
        ConfigError: the two settings do not fit the action space.
        SpaceError: the policy cannot act in this space.
    """

    version: int = -1
    """Number of updates it has seen, minus one: -1 was never trained."""
    default_policy_state: PolicyState = None
    """Recurrent state [...] of one env at an episode's start; None for memoryless policies."""
    sequence_length: int = 16
    """Rows of a sequence that a recurrent policy learns from."""
    burn_in: int = 0
    """Rows before them that only warm its state up."""
    action_spaces: ClassVar[tuple[type[spaces.Space[Any]], ...]] = ()
    """Spaces that the policy can act in."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        action_scaling: bool | None = None,
        action_bound_method: ActionBound = "auto",
    ) -> None:
        super().__init__()
        if not isinstance(action_space, self.action_spaces):
            names = " or ".join(space.__name__ for space in self.action_spaces)
            raise SpaceError(f"{type(self).__name__} acts in {names} spaces, not in {action_space}")
        self.observation_space = observation_space
        self.action_space = action_space
        self.action_scaling, self.action_bound_method = _action_mapping(
            action_space, action_scaling, action_bound_method
        )
        start = np.asarray(getattr(action_space, "start", 0))
        self._action_start = start if start.any() else None  # the policy counts a discrete action's choices from 0
        self.mask_key = _mask_key(observation_space, action_space)
        """Entry of the observation that says which discrete actions are allowed; None: all are."""
        self.rng = Rng()
        self._anchor: nn.Parameter | None = None

    @abstractmethod
    def forward(self, batch: Any, state: PolicyState = None) -> Batch:
        """Greedy actions for `batch.obs` (numpy or tensors) [..., *obs].

        Returns:
            Batch with `act` [..., *act], `logits` (what the action was taken from) and `state`.
        """

    @abstractmethod
    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Act: numpy in, numpy out, no gradient, one network call for all rows, exploring and evaluating ones mixed."""

    @abstractmethod
    def analyze(self, sample: Any, target: str = "") -> NamedArray:
        """Evaluate stored data (tensors [..., *obs]) with gradient; `target` narrows what is computed."""

    def lay_out(self, obs: Obs) -> Obs:
        """Return the same observations [N, *obs] (tensors), in memory as `analyze` reads them fastest."""
        return obs

    @property
    def is_recurrent(self) -> bool:
        """Whether it has a state."""
        return self.default_policy_state is not None

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        if self._anchor is None:  # looking it up costs more than all else that `rollout` does before its network call
            self.__dict__["_anchor"] = next(self.parameters())
        assert self._anchor is not None
        return self._anchor.device

    def seed(self, seed: int | None) -> None:
        """Start the exploration's random numbers anew."""
        self.rng.seed(seed)

    # -- between the policy's and the env's scale --------------------------------------------------------------------

    def map_action(self, act: np.ndarray) -> np.ndarray:
        """Take actions [B, *act] of the policy to the env's scale (new array; the stored action stays as it was)."""
        space = self.action_space
        if not isinstance(space, spaces.Box):
            return act if self._action_start is None else act + self._action_start
        low, high = (-1.0, 1.0) if self.action_scaling else (space.low, space.high)
        if self.action_bound_method == "clip":
            act = np.clip(act, low, high)
        elif self.action_bound_method == "tanh":
            act = np.tanh(act)
        if self.action_scaling:
            act = space.low + (space.high - space.low) * (act + 1.0) * 0.5
        return np.asarray(act, dtype=space.dtype)

    def map_action_inverse(self, act: np.ndarray) -> np.ndarray:
        """Take actions [B, *act] of the env (e.g. random ones, or a data set's) to the policy's scale."""
        space = self.action_space
        act = np.asarray(act)
        if not isinstance(space, spaces.Box):
            return act if self._action_start is None else np.asarray(act - self._action_start)
        out = act.astype(np.float32)
        if self.action_scaling:
            out = (out - space.low) / (space.high - space.low) * 2.0 - 1.0
        if self.action_bound_method == "tanh":
            edge = 1.0 - np.finfo(np.float32).eps
            out = np.arctanh(np.clip(out, -edge, edge))
        return np.asarray(out, dtype=np.float32)

    # -- shipping ------------------------------------------------------------------------------------------------------

    def get_checkpoint(self) -> PolicyCheckpoint:
        """Return what another copy of this policy needs to act the same; tensors are copies on the CPU."""
        state = {key: value.detach().cpu().clone() for key, value in self.state_dict().items()}
        return {"version": self.version, "state_dict": state}

    def load_checkpoint(self, checkpoint: PolicyCheckpoint) -> None:
        """Act as the policy did that gave the checkpoint.

        Raises:
            CheckpointError: it belongs to a policy with other networks.
        """
        try:
            self.load_state_dict(checkpoint["state_dict"])
        except RuntimeError as error:
            raise CheckpointError(f"the checkpoint does not fit this {type(self).__name__}: {error}") from error
        self.version = checkpoint["version"]

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _tensors(self, obs: Any) -> Obs:
        """Observations of a request (arrays, nested dicts) as tensors on the policy's device; no copy on the CPU."""
        if isinstance(obs, np.ndarray):
            tensor, device = torch.from_numpy(obs), self.device
            return tensor if device.type == "cpu" else tensor.to(device, non_blocking=True)
        if isinstance(obs, torch.Tensor):
            return obs.to(self.device)
        return {key: self._tensors(value) for key, value in obs.items()}

    def _mask(self, obs: Any) -> Any:
        """The allowed actions [..., n] bool, tensor or array as `obs` is; None when the observation has no mask."""
        return None if self.mask_key is None else obs[self.mask_key] != 0

    @property
    def _no_input(self) -> tuple[str, ...]:
        """Top-level keys of the observation that the networks do not see."""
        return () if self.mask_key is None else (self.mask_key,)


def _action_mapping(
    space: spaces.Space[Any], scaling: bool | None, bound: ActionBound
) -> tuple[bool, Literal["clip", "tanh"] | None]:
    """Resolve "auto" settings for `space` and check explicit ones."""
    if bound not in ("auto", "clip", "tanh", None):
        raise ConfigError(f"action_bound_method is {bound!r}; it must be one of 'auto', 'clip', 'tanh', None")
    if not isinstance(space, spaces.Box):
        if scaling:
            raise ConfigError(f"action_scaling is True, but only Box actions can be scaled, not {space}; use None")
        if bound not in ("auto", None):
            raise ConfigError(f"action_bound_method is {bound!r}, but {space} has no bounds to keep; use 'auto'")
        return False, None
    bounded = space.is_bounded()
    if scaling and not bounded:
        raise ConfigError(f"action_scaling is True, but {space} has infinite bounds; use None or False")
    scaled = bounded if scaling is None else scaling
    if bound == "tanh" and not scaled:
        raise ConfigError(f"action_bound_method is 'tanh', which needs action_scaling and finite bounds; got {space}")
    return scaled, "clip" if bound == "auto" else bound


def _mask_key(observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> str | None:
    """Find the action mask's key: an entry of a Dict observation with one element per (flattened) discrete action."""
    if not isinstance(observation_space, spaces.Dict):
        return None
    if isinstance(action_space, spaces.Discrete):
        size = int(action_space.n)
    elif isinstance(action_space, spaces.MultiDiscrete):
        size = int(action_space.nvec.sum())
    else:
        return None
    for key in MASK_KEYS:
        if key in observation_space.spaces and observation_space[key].shape == (size,):
            return key
    return None
