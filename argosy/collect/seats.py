"""Environments as rows: every (env, agent) pair that the same spec is for is one row of a seat.

An actor worker sees only arenas. One wraps a vector env (one agent per env, all act always), the other a list of
`Environment`s, where several agents act, some of them now and some later.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from argosy.data import tree
from argosy.env import Environment, StepResult, VectorEnv
from argosy.env.actions import MASK_KEYS, choices, find_mask_key
from argosy.env.spaces import allocate, copy_rows, normal_form, take, write
from argosy.env.vector.border import Border
from argosy.env.vector.protocol import Infos, Obs
from argosy.env.worker.group import FAILURES, kind_of
from argosy.errors import EnvError

_LARGEST = float(np.finfo(np.float32).max)  # that a buffer can hold


@dataclass(eq=False)
class Seat:
    """The rows of one agent spec in one arena, and what they see now."""

    spec: int
    """Index of the agent spec."""
    rows: int
    """R."""
    obs: Obs
    """[R, ...] what the next actions are for; rows that do not act hold something old."""
    acting: np.ndarray
    """[R] bool: rows that want an action now."""
    on_reset: np.ndarray
    """[R] bool: rows whose `obs` is the first one of an episode."""


@dataclass(slots=True)
class Stepped:
    """Transitions that one step of the arena completed, for one seat."""

    rows: np.ndarray
    """[k] indices of the rows whose transition is complete."""
    obs_next: Obs
    """[k, ...] true successors."""
    rew: np.ndarray
    """[k] float32."""
    terminated: np.ndarray
    """[k] bool."""
    truncated: np.ndarray
    """[k] bool."""
    info: Infos
    """Of the k rows."""


class Arena(Protocol):
    """Several environments that step together."""

    @property
    def seats(self) -> Sequence[Seat]:
        """The seats; their arrays are replaced by `reset` and `step`, never written to."""

    def reset(self) -> None:
        """Start new episodes everywhere."""

    def step(self, actions: Sequence[np.ndarray]) -> list[Stepped]:
        """Step with the actions [number of acting rows, ...] of each seat, in the env's scale."""

    def set_curriculum_stage(self, name: str) -> None:
        """Let the episodes that begin from now on be of this stage."""

    def render(self) -> object:
        """Return a picture of the first environment."""

    def close(self) -> None:
        """Free everything."""


class VectorArena:
    """A vector env: one seat, one agent per env."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self._border = Border(env.single_observation_space, env.single_action_space)
        n = env.num_envs
        self._all = np.arange(n)
        self._nobody = np.zeros(n, bool)
        self._seat = Seat(0, n, np.zeros(0), np.ones(n, bool), np.ones(n, bool))
        self.seats = [self._seat]
        self._lens = np.zeros(n, np.int64)

    def reset(self) -> None:
        """Start new episodes in all envs."""
        obs, _ = self._env.reset()
        self._border.check_obs(obs, self._all)
        self._seat.obs, self._seat.on_reset = obs, np.ones(self._seat.rows, bool)
        self._lens[:] = 0

    def step(self, actions: Sequence[np.ndarray]) -> list[Stepped]:
        """Step all envs; those whose episode ends start anew."""
        obs_next, rew, terminated, truncated, info = self._env.step(actions[0])
        if rew.ndim > 1:
            raise EnvError(
                f"an env gives {rew.shape[1]} rewards at once: a game of several agents has to be given a name with "
                "argosy.env.register; then each of them is a row of its own"
            )
        self._border.check_step(obs_next, rew, terminated, truncated, self._all, self._lens)
        self._lens += 1
        obs, seat = obs_next, self._seat
        seat.on_reset = self._nobody
        done = np.flatnonzero(terminated | truncated)
        if len(done):
            first, _ = self._env.reset(done)
            self._border.check_obs(first, done)
            obs = take(obs_next, self._all)  # a copy: the successors are stored as they are
            copy_rows(first, obs, done)
            seat.on_reset = self._nobody.copy()
            seat.on_reset[done] = True
            self._lens[done] = 0
        seat.obs = obs
        return [Stepped(self._all, obs_next, rew, terminated, truncated, info)]

    def set_curriculum_stage(self, name: str) -> None:
        """Refuse: only an `Environment` knows stages."""
        raise EnvError(f"a vector env has no curriculum stages; asked for {name!r}")

    def render(self) -> object:
        """Return what the first env's `render` gives."""
        return self._env.render()[0]

    def close(self) -> None:
        """Close the env."""
        self._env.close()


class AgentArena:
    """Several `Environment`s; their agents are seated by spec.

    Args:
        envs: all of one kind.
        spec_of_agent: index of the spec of each agent.
    """

    def __init__(self, envs: Sequence[Environment], spec_of_agent: Sequence[int]) -> None:
        self._envs = list(envs)
        self._spaces: Sequence[Any] = [normal_form(space) for space in envs[0].observation_spaces]
        self._discrete = [isinstance(space, spaces.Discrete) for space in envs[0].action_spaces]
        self.seats: list[Seat] = []
        self._borders: list[Border] = []
        self._where: list[list[tuple[int, int]]] = [[(-1, -1)] * len(spec_of_agent) for _ in envs]  # [env][agent]
        for number, spec in enumerate(sorted(set(spec_of_agent))):
            agents = [agent for agent, own in enumerate(spec_of_agent) if own == spec]
            pairs = [(env, agent) for env in range(len(envs)) for agent in agents]
            for row, (env, agent) in enumerate(pairs):
                self._where[env][agent] = (number, row)
            n = len(pairs)
            seat = Seat(spec, n, allocate(self._spaces[agents[0]], n), np.zeros(n, bool), np.zeros(n, bool))
            self.seats.append(seat)
            self._borders.append(Border(self._spaces[agents[0]], envs[0].action_spaces[agents[0]]))
        self._pending = [np.zeros(seat.rows, bool) for seat in self.seats]
        self._done = np.zeros((len(envs), len(spec_of_agent)), bool)

    def reset(self) -> None:
        """Start new episodes in all envs."""
        for seat, pending in zip(self.seats, self._pending, strict=True):
            seat.acting, seat.on_reset = np.zeros(seat.rows, bool), np.zeros(seat.rows, bool)
            pending[:] = False
        for env in range(len(self._envs)):
            self._reset(env)
        self._check_acting()

    def step(self, actions: Sequence[np.ndarray]) -> list[Stepped]:
        """Step all envs; those in which nobody is left start anew."""
        acting = [seat.acting for seat in self.seats]
        left = [iter(own) for own in actions]  # rows of a seat are numbered as they are gone through below
        for seat, pending in zip(self.seats, self._pending, strict=True):
            pending |= seat.acting
            seat.acting, seat.on_reset = np.zeros(seat.rows, bool), np.zeros(seat.rows, bool)
            seat.obs = tree.map_leaves(np.copy, seat.obs)  # the old ones may be stored
        finished: list[list[tuple[int, StepResult]]] = [[] for _ in self.seats]
        for number, env in enumerate(self._envs):
            given: list[object] = []
            for agent, (seat_number, row) in enumerate(self._where[number]):
                action = next(left[seat_number]) if acting[seat_number][row] else None
                given.append(int(action) if action is not None and self._discrete[agent] else action)
            with _named(number, "step"):
                self._take(number, _one_each(env.step(given), given), finished)
            if self._done[number].all():
                self._reset(number)
        outcome = [self._stepped(*each) for each in zip(self.seats, self._borders, finished, strict=True)]
        self._check_acting()
        return outcome

    def set_curriculum_stage(self, name: str) -> None:
        """Tell all envs."""
        for env in self._envs:
            env.set_curriculum_stage(name)

    def render(self) -> object:
        """Return what the first env's `render` gives."""
        return self._envs[0].render()

    def close(self) -> None:
        """Close the envs."""
        for env in self._envs:
            env.close()

    def _reset(self, number: int) -> None:
        self._done[number] = True  # who is heard of is in the game
        with _named(number, "reset"):
            for agent, result in enumerate(_one_each(self._envs[number].reset(), self._where[number])):
                if result is not None:
                    self._check_mask(number, agent, result)
                    seat_number, row = self._where[number][agent]
                    seat = self.seats[seat_number]
                    write(seat.obs, row, result.obs)
                    seat.acting[row] = seat.on_reset[row] = True
                    self._done[number, agent] = False

    def _check_mask(self, number: int, agent: int, result: StepResult) -> None:
        """Refuse a mask that no policy sees."""
        if MASK_KEYS[0] in result.info:
            env = self._envs[number]
            seen, acts = env.observation_spaces[agent], env.action_spaces[agent]
            if choices(acts) and find_mask_key(seen, acts) is None:
                raise EnvError(
                    f"agent {agent} is told in its info which actions are allowed ({MASK_KEYS[0]!r}), where policies "
                    f"do not look; put it into the observation: {{'obs': ..., {MASK_KEYS[0]!r}: ...}}"
                )

    def _check_acting(self) -> None:
        """Check what the next actions are for: first observations, and masks; and that there are such in each env."""
        for seat, border in zip(self.seats, self._borders, strict=True):
            rows = np.flatnonzero(seat.acting)
            border.check_obs(take(seat.obs, rows), rows)
        for number, where in enumerate(self._where):
            if not any(self.seats[seat].acting[row] for seat, row in where):
                left = np.flatnonzero(~self._done[number]).tolist()
                why = f"but agents {left} are not done" if left else "and its reset has given none anything to see"
                raise EnvError(f"env {number}: no agent is to act, {why}; give one a StepResult")

    def _take(
        self, number: int, results: Sequence[StepResult | None], finished: list[list[tuple[int, StepResult]]]
    ) -> None:
        for agent, result in enumerate(results):
            if result is None:
                continue
            self._check_mask(number, agent, result)
            seat_number, row = self._where[number][agent]
            seat, pending = self.seats[seat_number], self._pending[seat_number]
            reward = np.asarray(result.reward)  # a number, or an array or tensor of one
            if reward.ndim or reward.dtype.kind not in "biuf" or not abs(float(reward)) <= _LARGEST:
                raise EnvError(
                    f"agent {agent} was given the reward {result.reward!r:.60}; it has to be a finite number"
                )
            for name, flag in (("terminated", result.terminated), ("truncated", result.truncated)):
                if not isinstance(flag, bool | np.bool_):
                    raise EnvError(f"agent {agent}: {name} is {flag!r:.60}; it has to be True or False")
            if result.terminated and result.truncated:
                raise EnvError(f"agent {agent}: terminated and truncated are both True")
            # What an agent is given before its first action of an episode follows from no action: not stored.
            first, over = not pending[row], result.terminated or result.truncated
            if over:  # an env may use the same array again when it begins anew
                result = dataclasses.replace(result, obs=copy.deepcopy(result.obs))
            if not first:
                finished[seat_number].append((row, result))
                pending[row] = False
            self._done[number, agent] = over
            if not over:
                write(seat.obs, row, result.obs)
                seat.acting[row], seat.on_reset[row] = True, first

    def _stepped(self, seat: Seat, border: Border, pairs: list[tuple[int, StepResult]]) -> Stepped:
        count = len(pairs)
        obs_next: Obs = take(seat.obs, np.zeros(count, np.int64))
        for at, (_, result) in enumerate(pairs):
            write(obs_next, at, result.obs)
        rows = np.array([row for row, _ in pairs], np.int64)
        border.check_obs(obs_next, rows, "obs_next", np.ones(count, bool))  # masks are looked at when rows act
        return Stepped(
            rows=rows,
            obs_next=obs_next,
            rew=np.array([result.reward for _, result in pairs], np.float32),
            terminated=np.array([result.terminated for _, result in pairs], bool),
            truncated=np.array([result.truncated for _, result in pairs], bool),
            info=tree.object_array([result.info for _, result in pairs]),
        )


def _one_each(results: Sequence[StepResult | None], agents: Sequence[object]) -> Sequence[StepResult | None]:
    """Return what a reset or step gave, if it is one result per agent."""
    if not isinstance(results, list | tuple) or len(results) != len(agents):
        got = kind_of(tuple(results) if isinstance(results, list) else results)
        raise EnvError(f"it returned {got}; return a list of {len(agents)}, a StepResult or None for each agent")
    return results


@contextlib.contextmanager
def _named(number: int, call: str) -> Iterator[None]:
    """Say whose it is when an environment fails.

    Raises:
        EnvError: names the environment.
    """
    try:
        yield
    except FAILURES as error:
        why = str(error) if isinstance(error, EnvError) else f"{type(error).__name__}: {error}"
        raise EnvError(f"env {number} failed in {call}: {why}") from error


class StackedArena:
    """Shows rows their last observations, stacked along a new first axis as `argosy.env.FrameStack` does.

    Args:
        arena: whose observations are stacked.
        depth_of_spec: how many, for each agent spec; 1: they stay as they are.
    """

    def __init__(self, arena: Arena, depth_of_spec: Sequence[int]) -> None:
        self._arena = arena
        self._depths = [depth_of_spec[seat.spec] for seat in arena.seats]
        self.seats = [dataclasses.replace(seat) for seat in arena.seats]

    def reset(self) -> None:
        """Start new episodes everywhere."""
        self._arena.reset()
        for seat, own, depth in zip(self.seats, self._arena.seats, self._depths, strict=True):
            seat.obs = own.obs if depth == 1 else np.repeat(np.asarray(own.obs)[:, None], depth, axis=1)
            seat.acting, seat.on_reset = own.acting, own.on_reset

    def step(self, actions: Sequence[np.ndarray]) -> list[Stepped]:
        """Step, push what was seen, and fill the stacks of rows that begin an episode with its first observation."""
        outcome = self._arena.step(actions)
        for stepped, seat, own, depth in zip(outcome, self.seats, self._arena.seats, self._depths, strict=True):
            seat.acting, seat.on_reset = own.acting, own.on_reset
            if depth == 1:
                seat.obs = own.obs
                continue
            frames = np.array(seat.obs)  # a copy: the old one may be stored
            rows, begun = stepped.rows, np.flatnonzero(own.acting & own.on_reset)
            newest = np.asarray(stepped.obs_next)[:, None]
            stepped.obs_next = frames[rows] = np.concatenate((frames[rows, 1:], newest), axis=1)
            frames[begun] = np.asarray(own.obs)[begun, None]
            seat.obs = frames
        return outcome

    def set_curriculum_stage(self, name: str) -> None:
        """Pass it on."""
        self._arena.set_curriculum_stage(name)

    def render(self) -> object:
        """Pass it on."""
        return self._arena.render()

    def close(self) -> None:
        """Free everything."""
        self._arena.close()
