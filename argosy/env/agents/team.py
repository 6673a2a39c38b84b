"""A game whose agents are paid together, as one task: an action has a part for each of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.env.agents.pettingzoo import PettingZooParallelEnv
from argosy.env.vector.protocol import Info
from argosy.env.worker.base import Env
from argosy.errors import SpaceError

Parts = dict[str, object]
_MASK, _SEEN = "action_mask", "observation"  # as PettingZoo calls them


class Team(gym.Wrapper[object, object, object, object]):
    """All N agents of a parallel PettingZoo game as one, for QMIX and whatever acts in MultiDiscrete spaces.

    The observation has the entries "agents" [N, *obs], what each of them sees; "alive" [N], who is still there; where
    the game has them "action_mask", the choices of all agents in a row, and "state", as the game tells it. An action
    has a choice for each agent. The reward is the mean of theirs who acted, so that it is the same for a team of any
    size that is paid as one. Who has left, or not come yet, sees zeros and has its first choice, which is not passed
    on; a time limit at which the episode ends lets nobody leave.

    Args:
        env: of a parallel game; its agents see Boxes of one shape and have as many choices.

    Raises:
        SpaceError: it is something else.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        game = env.unwrapped
        if not isinstance(game, PettingZooParallelEnv):
            raise SpaceError(f"Team is for games of PettingZoo in which all agents act at once; this is {env}")
        self._game, self._names = game, game.agents
        of_agents: list[Any] = [game.observation_space, game.action_space]
        seen, acts = ([space[name] for name in self._names] for space in of_agents)
        self._has_masks = all(isinstance(part, spaces.Dict) and _MASK in part.spaces for part in seen)
        boxes = [part[_SEEN] if self._has_masks else part for part in seen]
        if not (
            all(
                isinstance(box, spaces.Box) and (box.shape, box.dtype) == (boxes[0].shape, boxes[0].dtype)
                for box in boxes
            )
            and all(isinstance(act, spaces.Discrete) and act.n == acts[0].n and act.start == 0 for act in acts)
        ):
            raise SpaceError(
                "Team needs agents that see Boxes of one shape and have as many choices, counted from 0; they see "
                f"{boxes} and choose among {acts}: pad them (supersuit's pad_observations and pad_action_space)"
            )
        low, high = (np.stack([getattr(box, side) for box in boxes]) for side in ("low", "high"))
        parts = {"agents": spaces.Box(low, high, dtype=boxes[0].dtype), "alive": spaces.MultiBinary(len(boxes))}
        if self._has_masks:
            parts[_MASK] = spaces.MultiBinary(len(acts) * int(acts[0].n))
        if getattr(game.env, "state_space", None) is not None:
            parts["state"] = game.env.state_space
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.MultiDiscrete([int(act.n) for act in acts])
        self._choices, self.reward_shape = int(acts[0].n), ()
        self._acts = np.zeros(len(acts), bool)

    def reset(self, *, seed: int | None = None, options: Parts | None = None) -> tuple[Parts, Info]:
        """Start a game."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._acts = np.asarray(info["alive"], bool)
        return self._together(obs, self._acts), info

    def step(self, action: Any) -> tuple[Parts, float, bool, bool, Info]:
        """Step the game by a choice of each agent [N]."""
        choices = dict(zip(self._names, np.asarray(action).tolist(), strict=True))
        obs, rewards, terminated, truncated, info = self.env.step(choices)
        reward = float(np.asarray(rewards)[self._acts].mean())
        self._acts = alive = np.asarray(info["alive"], bool)
        cut = np.asarray(info["truncated"], bool)  # of who acted until now
        is_cut = truncated or ((terminated or truncated) and bool(cut.any()))
        # Who is cut off as the episode ends is there for what a bootstrap asks of it, though the game lets it go
        seen = self._together(obs, alive | cut if is_cut else alive)
        return seen, reward, terminated and not is_cut, is_cut, info

    def _together(self, obs: Any, alive: NDArray[np.bool_]) -> Parts:
        space = self.observation_space["agents"]  # type: ignore[index]  # a Dict
        rows: NDArray[Any] = np.zeros(space.shape, space.dtype)
        masks = np.zeros((len(alive), self._choices), np.int8)
        masks[:, 0] = 1
        for i, name in enumerate(self._names):
            if alive[i]:
                rows[i] = obs[name][_SEEN] if self._has_masks else obs[name]
                if self._has_masks:
                    masks[i] = obs[name][_MASK]
        parts: Parts = {"agents": rows, "alive": alive.astype(np.int8)}
        if self._has_masks:
            parts[_MASK] = masks.reshape(-1)
        if "state" in self.observation_space.spaces:  # type: ignore[attr-defined]  # a Dict
            parts["state"] = self._game.env.state()
        return parts
