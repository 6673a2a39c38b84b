"""What `Policy.predict` does, as one function of tensors: to be traced and taken elsewhere."""

from __future__ import annotations

import copy
from functools import reduce
from operator import getitem
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from argosy.data import Batch
from argosy.data.protocols import ObsBatchProtocol
from argosy.env.spaces import build, is_array_space, leaves, normal_form
from argosy.errors import ConfigError
from argosy.policy.base import Policy


class PolicyGraph(nn.Module):
    """A copy of a policy on the CPU: (parts of the observation, state) -> (action in the env's scale, state after it).

    Without memory there is no state. Normaliser, masks and the mapping of actions are inside; exploration is not.

    Args:
        policy: it acts by its `forward`, on tensors.

    Raises:
        ConfigError: its `forward` is not one of tensors, or it maps actions in a way of its own.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        name = type(policy).__name__
        if type(policy).map_action is not Policy.map_action:
            raise ConfigError(f"{name} has a map_action of its own, which cannot be exported; map actions in `forward`")
        self.space = normal_form(policy.acts_on)
        if not is_array_space(self.space):
            raise ConfigError(f"{name} observes {policy.observation_space}, which no tensors are made of")
        self.policy = copy.deepcopy(policy).cpu().eval().requires_grad_(False)
        self.parts = {f"obs.{leaf}" if leaf else "obs": (shape, dtype) for leaf, shape, dtype in leaves(self.space)}
        """Inputs: shape of one, and dtype, of each part of an observation."""
        self.act_dtype = torch.from_numpy(np.empty(0, policy.action_space.dtype)).dtype
        self.start, self.low, self.high, self.width = (nn.Buffer(torch.zeros(0)) for _ in range(4))
        if policy._box is not None:
            self.low, self.high, self.width = (
                nn.Buffer(torch.from_numpy(bound)) for bound in (policy._box.low, policy._box.high, policy._box.width)
            )
        elif policy._action_start is not None:
            self.start = nn.Buffer(torch.from_numpy(policy._action_start))
        self.has_state = False
        self._try()

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Inputs [B, ...] in the order of `parts`, then states [B, S] -> (act [B, *act], states [B, S])."""
        result = self._asked(*inputs)
        act, box = result.act, self.policy._box
        if box is not None:
            act = box.mapped(torch, act, self.low, self.high, self.width)
        elif self.start.numel():
            act = act + self.start
        act = act.to(self.act_dtype)
        return (act, result.state) if self.has_state else (act,)

    def example(self, rows: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
        """Return inputs [rows, ...]: elements of the observation space, and states in the midst of an episode."""
        space = copy.deepcopy(self.space)
        space.seed(seed)
        samples, inputs = [space.sample() for _ in range(rows)], list[torch.Tensor]()
        for name, (_, dtype) in self.parts.items():
            column = [reduce(getitem, name.split(".")[1:], sample) for sample in samples]
            inputs.append(torch.from_numpy(np.stack(column).astype(dtype)))
        if not self.has_state:
            return tuple(inputs)
        state: torch.Tensor = self._asked(*inputs, None).state
        return (*inputs, state)

    def _asked(self, *inputs: torch.Tensor | None) -> Any:
        named = dict(zip(self.parts, inputs, strict=False))
        obs: Any = build(self.space, lambda name, shape, dtype: cast(Any, named[f"obs.{name}" if name else "obs"]))
        return self.policy(cast(ObsBatchProtocol, Batch(obs=obs)), inputs[-1] if self.has_state else None)

    @torch.no_grad()
    def _try(self) -> None:
        """Find out whether it has a state, and whether it acts on tensors at all."""
        result = self._asked(*self.example(2))
        state = result.get("state")
        for what, value in (("action", result.act), ("state", state)):
            if not (isinstance(value, torch.Tensor) or (value is None and what == "state")):
                raise ConfigError(
                    f"the forward() of {type(self.policy).__name__} gives {type(value).__name__} as {what}; what is "
                    "exported goes from tensors to one tensor each. Write a forward(batch, state) in torch alone"
                )
        self.has_state = state is not None
