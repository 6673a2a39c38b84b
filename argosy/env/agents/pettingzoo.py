"""PettingZoo games as gymnasium envs, so that they run in every kind of vector env.

The reward of a step is an array [N] with one entry per agent, in the order of `agents`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.env.spaces import Space
from argosy.errors import SpaceError

Info = dict[str, object]


class _Game(Protocol):
    """What both kinds of PettingZoo envs have in common."""

    possible_agents: list[str]
    agents: list[str]

    def observation_space(self, agent: str) -> Space:
        """Space of one agent's observation."""

    def action_space(self, agent: str) -> Space:
        """Space of one agent's action."""

    def reset(self, seed: int | None = None, options: dict[str, object] | None = None) -> object:
        """Start an episode."""

    def render(self) -> object:
        """Draw."""

    def close(self) -> None:
        """Free everything."""


class AECGame(_Game, Protocol):
    """PettingZoo's turn-based API."""

    agent_selection: str
    rewards: dict[str, float]

    def last(self) -> tuple[object, float, bool, bool, Info]:
        """Return what the agent whose turn it is sees."""

    def step(self, action: object) -> None:
        """Act for the agent whose turn it is; None for one that is done."""


class ParallelGame(_Game, Protocol):
    """PettingZoo's simultaneous API."""

    def step(self, actions: Mapping[str, object]) -> tuple[dict[str, object], ...]:
        """Act for all agents; returns observations, rewards, terminations, truncations, infos by agent."""


class _PettingZoo(gym.Env[object, object]):
    """What both adapters have in common."""

    def __init__(self, game: _Game) -> None:
        self.agents = list(game.possible_agents)
        self.agent_idx = {name: i for i, name in enumerate(self.agents)}
        self.reward_shape = (len(self.agents),)
        self.render_mode = getattr(game, "render_mode", None)
        self._game = game

    def render(self) -> object:  # type: ignore[override]  # whatever the game draws
        """Return what the game's `render` gives."""
        return self._game.render()

    def close(self) -> None:
        """Close the game."""
        self._game.close()


class PettingZooEnv(_PettingZoo):
    """A turn-based (AEC) game: one step is one agent's move.

    The observation is that of the agent whose turn it is: {"agent_id": its number, "obs", "action_mask"}; the mask is
    there for Discrete actions (all ones where the game has none). A reward array holds what the move gave to each
    agent. Agents that are done are passed over; the episode ends when no agent is left, and `info["terminated"]` and
    `info["truncated"]` say by agent how.

    Args:
        env: the game; its agents share one observation and one action space.

    Raises:
        SpaceError: the agents' spaces differ.
    """

    def __init__(self, env: AECGame) -> None:
        super().__init__(env)
        self.env = env
        space, self.action_space = _common_spaces(env)
        self._mask_size = int(self.action_space.n) if isinstance(self.action_space, spaces.Discrete) else None
        self._nested = isinstance(space, spaces.Dict) and "observation" in space.spaces
        inner = cast(Space, space["observation"]) if self._nested and isinstance(space, spaces.Dict) else space
        parts: dict[str, Space] = {"agent_id": cast(Space, spaces.Discrete(len(self.agents))), "obs": inner}
        if self._mask_size is not None:
            parts["action_mask"] = cast(Space, spaces.MultiBinary(self._mask_size))
        self.observation_space = cast(Space, spaces.Dict(parts))

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, object], Info]:
        """Start a game; the observation is the first agent's."""
        super().reset(seed=seed)
        self.env.reset(seed=seed, options=options)
        obs, _, _, _, info = self.env.last()
        return self._seen(self.env.agent_selection, obs, info), dict(info)

    def step(self, action: object) -> tuple[dict[str, object], NDArray[np.float32], bool, bool, Info]:
        """Make the move of the agent whose turn it is."""
        rewards = np.zeros(len(self.agents), np.float32)
        ends: dict[str, tuple[bool, bool]] = {}
        self._move(action, rewards)
        obs, _, terminated, truncated, info = self.env.last()
        name = self.env.agent_selection
        while terminated or truncated:  # PettingZoo wants an empty move from each agent that is done
            ends[name] = bool(terminated), bool(truncated)
            self._move(None, rewards)
            if not self.env.agents:
                break
            name = self.env.agent_selection
            obs, _, terminated, truncated, info = self.env.last()
        over = not self.env.agents
        cut = over and not any(t for t, _ in ends.values())
        info = {
            **info,
            "terminated": [ends.get(agent, (False, False))[0] for agent in self.agents],
            "truncated": [ends.get(agent, (False, False))[1] for agent in self.agents],
        }
        return self._seen(name, obs, info), rewards, over and not cut, cut, info

    def _move(self, action: object, rewards: NDArray[np.float32]) -> None:
        alive = action is not None
        self.env.step(action)
        if alive:  # an empty move gives nothing, and its `rewards` are stale
            for name, reward in self.env.rewards.items():
                rewards[self.agent_idx[name]] += reward

    def _seen(self, name: str, obs: object, info: Info) -> dict[str, object]:
        mask = info.get("action_mask")
        if self._nested:
            parts = cast("Mapping[str, object]", obs)
            obs, mask = parts["observation"], parts.get("action_mask", mask)
        seen: dict[str, object] = {"agent_id": self.agent_idx[name], "obs": obs}
        if self._mask_size is not None:
            seen["action_mask"] = np.ones(self._mask_size, np.int8) if mask is None else np.asarray(mask, np.int8)
        return seen


class PettingZooParallelEnv(_PettingZoo):
    """A game in which all agents act at once: observations and actions are dicts by agent.

    An agent that has left keeps its last observation, and gets reward 0; what it "does" is not passed on.
    `info["alive"]` says by agent who is still there. The episode ends when nobody is; it is truncated if nobody was
    terminated.

    Args:
        env: the game.
    """

    def __init__(self, env: ParallelGame) -> None:
        super().__init__(env)
        self.env = env
        self.observation_space = cast(Space, spaces.Dict({name: env.observation_space(name) for name in self.agents}))
        self.action_space = cast(Space, spaces.Dict({name: env.action_space(name) for name in self.agents}))

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, object], Info]:
        """Start a game."""
        super().reset(seed=seed)
        obs, info = cast("tuple[dict[str, object], Info]", self.env.reset(seed=seed, options=options))
        self._last = {name: obs[name] for name in self.agents}
        self._any_terminated = False
        return dict(self._last), self._told(info)

    def step(self, action: object) -> tuple[dict[str, object], NDArray[np.float32], bool, bool, Info]:
        """Make every agent's move."""
        given = cast("Mapping[str, object]", action)
        obs, rew, terminated, truncated, info = self.env.step({name: given[name] for name in self.env.agents})
        self._last.update(obs)
        rewards = np.array([rew.get(name, 0.0) for name in self.agents], np.float32)
        self._any_terminated |= any(terminated.values())
        over = not self.env.agents or all(terminated[n] or truncated[n] for n in terminated)
        told = self._told(info)
        told["terminated"] = [bool(terminated.get(name, False)) for name in self.agents]
        told["truncated"] = [bool(truncated.get(name, False)) for name in self.agents]
        return dict(self._last), rewards, over and self._any_terminated, over and not self._any_terminated, told

    def _told(self, info: Info) -> Info:
        return {"agents": info, "alive": [name in self.env.agents for name in self.agents]}


def _common_spaces(game: _Game) -> tuple[Space, Space]:
    first = game.possible_agents[0]
    observation, action = game.observation_space(first), game.action_space(first)
    for name in game.possible_agents:
        if game.observation_space(name) != observation or game.action_space(name) != action:
            raise SpaceError(
                f"agents {first!r} and {name!r} have different spaces ({observation}, {action} and "
                f"{game.observation_space(name)}, {game.action_space(name)}); make them alike with supersuit's "
                "pad_observations and pad_action_space"
            )
    return observation, action
