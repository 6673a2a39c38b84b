"""PettingZoo's games: as an `Environment` of several agents, and as gymnasium envs, for every kind of vector env."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from argosy.env.agents.environment import Environment, StepResult
from argosy.env.spaces import Space, nearest_to_zero
from argosy.env.vector.protocol import Info
from argosy.errors import SpaceError

Results = Sequence[StepResult | None]
Parts = dict[str, object]


class PettingZoo(Environment):
    """A PettingZoo game: in turns (AEC), or parallel, where all agents act at once.

    In turns, a reward reaches an agent's `StepResult` when it is its turn again, or at the end; `rewards` has it at
    once.

    Args:
        env: the game, or a function that makes it.
    """

    def __init__(self, env: Any) -> None:  # one of PettingZoo's classes, or their like
        self.env = env() if callable(env) else env
        self.agents = list(self.env.possible_agents)
        self.agent_count = len(self.agents)
        self.observation_spaces = [self.env.observation_space(name) for name in self.agents]
        self.action_spaces = [self.env.action_space(name) for name in self.agents]
        self.state_space = getattr(self.env, "state_space", None)
        self.in_turns = hasattr(self.env, "last")
        self.turn = 0
        """In turns: the agent that acts next; when the episode is over, the last one that heard of it."""
        self.rewards = np.zeros(self.agent_count)
        """[N] What the last step gave to each agent."""
        self._owed = np.zeros(self.agent_count)  # of that, what its agent was not told yet
        self._seed: int | None = None

    @property
    def present(self) -> list[bool]:
        """Whether each agent is still in the game."""
        return [name in self.env.agents for name in self.agents]

    def seed(self, seed: int | None) -> None:
        """Make the episodes that follow reproducible."""
        self._seed = seed

    def reset(self, options: Parts | None = None) -> list[StepResult | None]:
        """Start an episode; in turns, the first agent acts."""
        seed, self._seed = self._seed, None
        first = self.env.reset(seed=seed, options=options)
        self._owed[:] = 0.0
        if self.in_turns:
            return self._next_turn()
        obs, info = first
        return [StepResult(obs[name], info=info.get(name, {})) if name in obs else None for name in self.agents]

    def step(self, actions: list[Any]) -> list[StepResult | None]:
        """Apply the actions of those whose turn it is, and who are still there."""
        if self.in_turns:
            self.env.step(actions[self.turn])
            self.rewards = self._by_agent(self.env.rewards)
            self._owed += self.rewards
            return self._next_turn()
        before = self.present
        acting = {name: act for name, act, is_there in zip(self.agents, actions, before, strict=True) if is_there}
        obs, rew, terminated, truncated, info = self.env.step(acting)
        self.rewards = self._by_agent(rew)
        results: list[StepResult | None] = [None] * self.agent_count
        for i, name in enumerate(self.agents):
            if name in obs and (before[i] or name in self.env.agents):
                over = False if terminated[name] else truncated[name]
                results[i] = StepResult(obs[name], rew[name], terminated[name], over, info[name])
        return results

    def state(self) -> Any:
        """Return the game's state, of which some games know."""
        return self.env.state()

    def _next_turn(self) -> list[StepResult | None]:
        """Return what the next agent sees; those who are done hear of it at once."""
        results: list[StepResult | None] = [None] * self.agent_count
        while self.env.agents:
            self.turn = i = self.agents.index(self.env.agent_selection)
            obs, _, terminated, truncated, info = self.env.last()
            over = False if terminated else truncated
            results[i] = StepResult(obs, float(self._owed[i]), terminated, over, info)
            self._owed[i] = 0.0
            if not (terminated or truncated):
                break
            self.env.step(None)  # PettingZoo wants that of each agent that is done; `rewards` are stale then
        return results

    def _by_agent(self, rewards: Mapping[str, float]) -> NDArray[np.float64]:
        return np.array([rewards.get(name, 0.0) for name in self.agents], np.float64)

    def render(self) -> object:
        """Return what the game's `render` gives."""
        return self.env.render()

    def close(self) -> None:
        """Close the game."""
        self.env.close()


class _JointEnv(gym.Env[object, object]):
    """All agents of a game as one gymnasium env; a reward is an array [N], in the order of `agents`."""

    def __init__(self, env: object) -> None:
        self._game = PettingZoo(env)
        self.env = self._game.env
        self.agents = self._game.agents
        self.agent_idx = {name: i for i, name in enumerate(self.agents)}
        self.reward_shape = (len(self.agents),)
        self.render_mode = getattr(self.env, "render_mode", None)

    def reset(self, *, seed: int | None = None, options: Parts | None = None) -> tuple[Parts, Info]:
        """Start a game."""
        super().reset(seed=seed)
        self._game.seed(seed)
        self._any_terminated = False
        return self._seen(self._game.reset(options))

    def step(self, action: object) -> tuple[Parts, NDArray[np.float32], bool, bool, Info]:
        """Step the game; `info["terminated"]` and `info["truncated"]` say by agent whose end this was."""
        results = self._game.step(self._by_agent(action))
        terminated = [result is not None and result.terminated for result in results]
        truncated = [result is not None and result.truncated for result in results]
        over = all(result is None or result.terminated or result.truncated for result in results)
        # In turns, those who leave last say how the episode ended
        self._any_terminated = any(terminated) or (self._any_terminated and not self._game.in_turns)
        obs, info = self._seen(results)
        info |= {"terminated": terminated, "truncated": truncated}
        rewards = self._game.rewards.astype(np.float32)
        return obs, rewards, over and self._any_terminated, over and not self._any_terminated, info

    def _by_agent(self, action: Any) -> list[object]:
        """Return one action per agent."""
        raise NotImplementedError

    def _seen(self, results: Results) -> tuple[Parts, Info]:
        """Return the observation and the info."""
        raise NotImplementedError

    def render(self) -> object:  # type: ignore[override]  # whatever the game draws
        """Return what the game's `render` gives."""
        return self._game.render()

    def close(self) -> None:
        """Close the game."""
        self._game.close()


class PettingZooEnv(_JointEnv):
    """A turn-based (AEC) game: one step is one agent's move.

    The observation is that of the agent whose turn it is: {"agent_id": its number, "obs", "action_mask"}; the mask is
    there for Discrete actions (all ones where the game has none). A reward array holds what the move gave to each
    agent. Agents that are done are passed over; the episode ends when no agent is left.

    Args:
        env: the game; its agents share one observation and one action space.

    Raises:
        SpaceError: the agents' spaces differ.
    """

    def __init__(self, env: object) -> None:
        super().__init__(env)
        space, self.action_space = _common_spaces(self._game)
        self._mask_size = int(self.action_space.n) if isinstance(self.action_space, spaces.Discrete) else None
        self._nested = isinstance(space, spaces.Dict) and "observation" in space.spaces
        inner = space["observation"] if self._nested and isinstance(space, spaces.Dict) else space
        parts: dict[str, Space] = {"agent_id": spaces.Discrete(len(self.agents)), "obs": inner}
        if self._mask_size is not None:
            parts["action_mask"] = spaces.MultiBinary(self._mask_size)
        self.observation_space = spaces.Dict(parts)

    def _by_agent(self, action: object) -> list[object]:
        return [action] * len(self.agents)  # only one of them has the turn

    def _seen(self, results: Results) -> tuple[Parts, Info]:
        result = results[self._game.turn]
        assert result is not None
        obs, mask = result.obs, result.info.get("action_mask")
        if self._nested:
            obs, mask = obs["observation"], obs.get("action_mask", mask)
        seen: Parts = {"agent_id": self._game.turn, "obs": obs}
        if self._mask_size is not None:
            seen["action_mask"] = np.ones(self._mask_size, np.int8) if mask is None else np.asarray(mask, np.int8)
        return seen, dict(result.info)


class PettingZooParallelEnv(_JointEnv):
    """A game in which all agents act at once: observations and actions are dicts by agent.

    An agent that has left keeps its last observation, one that has not come yet sees zeros, or what is nearest to them;
    both get reward 0, and what they "do" is not passed on.
    `info["alive"]` says by agent who is still there. The episode ends when nobody is; it is truncated if nobody was
    terminated.

    Args:
        env: the game.
    """

    def __init__(self, env: object) -> None:
        super().__init__(env)
        self._last: Parts = {}
        self.observation_space = spaces.Dict(dict(zip(self.agents, self._game.observation_spaces, strict=True)))
        self.action_space = spaces.Dict(dict(zip(self.agents, self._game.action_spaces, strict=True)))

    def reset(self, *, seed: int | None = None, options: Parts | None = None) -> tuple[Parts, Info]:
        """Start a game."""
        self._last = dict(zip(self.agents, map(nearest_to_zero, self._game.observation_spaces), strict=True))
        return super().reset(seed=seed, options=options)

    def _by_agent(self, action: Any) -> list[object]:
        return [action[name] for name in self.agents]

    def _seen(self, results: Results) -> tuple[Parts, Info]:
        told = {name: result for name, result in zip(self.agents, results, strict=True) if result is not None}
        self._last |= {name: copy.deepcopy(result.obs) for name, result in told.items()}
        info: Info = {"agents": {name: result.info for name, result in told.items()}, "alive": self._game.present}
        return dict(self._last), info


def joint_env(env: object) -> gym.Env[object, object]:
    """Return a PettingZoo game, of either kind, as one gymnasium env."""
    return PettingZooEnv(env) if hasattr(env, "last") else PettingZooParallelEnv(env)


def _common_spaces(game: PettingZoo) -> tuple[Space, Space]:
    own = list(zip(game.agents, game.observation_spaces, game.action_spaces, strict=True))
    first, observation, action = own[0]
    for name, *others in own:
        if others != [observation, action]:
            raise SpaceError(
                f"agents {first!r} and {name!r} have different spaces ({observation}, {action} and "
                f"{others[0]}, {others[1]}); make them alike with supersuit's pad_observations and pad_action_space"
            )
    return observation, action
