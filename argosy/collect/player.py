"""One seat at play: asks for actions, remembers what its rows did, and completes transitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from argosy.collect.rows import begin_anew, put_rows, with_state
from argosy.collect.seats import Arena, Seat, Stepped
from argosy.data import tree
from argosy.data.stats import CollectStats
from argosy.env.spaces import take
from argosy.env.vector.border import warn_of_endless
from argosy.errors import EnvError
from argosy.policy import Policy, RolloutRequest, RolloutResult
from argosy.policy.forward import act_randomly

_LONG_S = 1.0


@dataclass(frozen=True, slots=True)
class Reply:
    """Actions, and which version of the policy chose them."""

    result: RolloutResult
    version: int


class InferenceStream(Protocol):
    """The asking end: one question at a time."""

    def post(self, request: RolloutRequest) -> None:
        """Ask for actions."""

    def reply(self, timeout_s: float) -> Reply | None:
        """Return the answer, once; None if it is not there after `timeout_s`."""

    def close(self) -> None:
        """Free everything, if there is something to free."""
        return


class Inline(InferenceStream):
    """The policy is here: answers are there at once."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def post(self, request: RolloutRequest) -> None:
        """Act."""
        self._reply = Reply(self._policy.rollout(request), self._policy.version)

    def reply(self, timeout_s: float) -> Reply:
        """Return what was done."""
        return self._reply


class Player:
    """The rows of one seat.

    Args:
        seat: what they see.
        policy: maps actions to the env's scale; with inline inference it is also the one that acts.
        stream: where actions come from.
        deterministic: act without exploration.
    """

    def __init__(self, seat: Seat, policy: Policy, stream: InferenceStream, *, deterministic: bool = False) -> None:
        self.seat, self.policy = seat, policy
        self._stream = stream
        self._deterministic = deterministic
        self._waits = False
        self._reply: Reply | None = None
        self._asking = np.arange(seat.rows)
        self._acted: Any = None  # [R, ...] what the rows that wait for their step's outcome did
        self._state: Any = policy.first_states(seat.rows)  # before the next step of each row

    def ask(self) -> None:
        """Ask for the actions of the rows that act now; unless none does."""
        self._asking = np.flatnonzero(self.seat.acting)
        count = len(self._asking)
        self._waits, self._reply = count > 0, None
        if count == 0:
            return
        all_act = count == self.seat.rows
        begins = self.seat.on_reset
        if self._state is not None and begins.any():
            self._state = begin_anew(self._state, begins, self.policy.default_policy_state)
        self._stream.post(
            RolloutRequest(
                obs=self.seat.obs if all_act else take(self.seat.obs, self._asking),
                policy_state=self._state if all_act else tree.index(self._state, self._asking),
                is_evaluation=np.ones(count, bool) if self._deterministic else None,
                on_reset=None if self._state is None else begins[self._asking],
            )
        )

    def ready(self, timeout_s: float) -> bool:
        """Whether the actions are there, after waiting for `timeout_s` at most."""
        if self._waits:
            self._reply = self._stream.reply(timeout_s)
            self._waits = self._reply is None
        return not self._waits

    def act(self) -> np.ndarray:
        """Return the actions [number of acting rows, ...] in the env's scale."""
        while not self.ready(_LONG_S):
            pass
        reply, self._reply = self._reply, None
        if reply is None:
            return np.zeros(0)
        result, rows = reply.result, self._asking
        fields: tree.Fields = {"act": result.action, "version": np.full(len(rows), reply.version)}
        stored = with_state(self.policy, result.analyzed_result, tree.index(self._state, rows))
        if stored is not None:
            fields["policy"] = stored
        self._remember(fields)
        if self._state is not None:
            self._state = _merged(self._state, rows, result.policy_state, self.seat.rows)
        return self.policy.map_action(result.action)

    def play(self) -> np.ndarray:
        """Ask, wait, and return the actions."""
        self.ask()
        return self.act()

    def act_randomly(self, rng: np.random.Generator) -> np.ndarray:
        """Return uniformly random actions instead of the policy's, which is asked only where its state must go on."""
        self._asking = np.flatnonzero(self.seat.acting)
        count, policy = len(self._asking), self.policy
        act, env_act = act_randomly(policy, take(self.seat.obs, self._asking), count, rng)
        fields: tree.Fields = {"act": act, "version": np.full(count, policy.version)}
        if self._state is not None and count:
            self.play()
            if "policy" in self._acted:
                fields["policy"] = tree.index(self._acted["policy"], self._asking)
        self._remember(fields)
        return env_act

    def complete(self, stepped: Stepped) -> tree.Fields:
        """Return the fields [k, ...] of the transitions that a step completed."""
        rows = stepped.rows
        acted = self._acted if len(rows) == self.seat.rows else tree.index(self._acted, rows)
        return {
            **acted,
            "rew": stepped.rew,
            "terminated": stepped.terminated,
            "truncated": stepped.truncated,
            "obs_next": stepped.obs_next,
        }

    def renew(self, seat: Seat) -> None:
        """Play on at a seat of new environments; the question under way is dropped."""
        self.seat = seat
        self._waits, self._reply, self._acted = False, None, None

    def close(self) -> None:
        """Ask no more."""
        self._stream.close()

    def _remember(self, fields: tree.Fields) -> None:
        seat, rows = self.seat, self._asking
        fields["obs"] = seat.obs if len(rows) == seat.rows else take(seat.obs, rows)
        old = self._acted
        if old is not None and (late := fields.keys() - old.keys()):  # what the policy notes of no random action
            old = {key: put_rows(None, seat.rows, rows, fields[key]) if key in late else old[key] for key in fields}
        self._acted = _merged(old, rows, fields, seat.rows)


class Scores:
    """Returns and lengths of the first `quota` episodes of each row: short ones do not count more than others."""

    def __init__(self, rows: int, quota: int) -> None:
        self._quota = quota
        self.played = np.zeros(rows, np.int64)
        """[rows] episodes that have ended."""
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._ended: list[tuple[float, int]] = []

    @property
    def complete(self) -> bool:
        """Whether all rows have played theirs."""
        return bool((self.played >= self._quota).all())

    @property
    def idle(self) -> list[int]:
        """Rows that have made no step yet."""
        return np.flatnonzero((self.played == 0) & (self._lengths == 0)).tolist()

    def add(self, stepped: Stepped) -> None:
        """Count the transitions that a step completed."""
        rows = stepped.rows
        self._returns[rows] += stepped.rew
        self._lengths[rows] += 1
        warn_of_endless(self._lengths)
        for row in rows[stepped.terminated | stepped.truncated]:
            if self.played[row] < self._quota:
                self._ended.append((self._returns[row], self._lengths[row]))
            self.played[row] += 1
            self._returns[row] = self._lengths[row] = 0

    def stats(self) -> CollectStats:
        """Return the episodes that ended."""
        returns = np.array([episode_return for episode_return, _ in self._ended])
        lens = np.array([length for _, length in self._ended], np.int64)
        return CollectStats(
            n_collected_episodes=len(lens), n_collected_steps=int(lens.sum()), returns=returns, lens=lens
        )


def play_out(
    arena: Arena, players: Sequence[Player], quota: int, on_step: Callable[[Arena], bool] = lambda arena: True
) -> list[CollectStats]:
    """Play `quota` episodes of each row, from a reset; return those of each player.

    `on_step` is called before each step; False ends it.

    Raises:
        EnvError: an agent has made no step, and another one has played a hundred times as many as it should.
    """
    arena.reset()
    scores = [Scores(player.seat.rows, quota) for player in players]
    while not all(own.complete for own in scores) and on_step(arena):
        for own, stepped in zip(scores, arena.step([player.play() for player in players]), strict=True):
            own.add(stepped)
        check_all_play(players, scores, quota)
    return [own.stats() for own in scores]


def check_all_play(players: Sequence[Player], scores: Sequence[Scores], quota: int) -> None:
    """Refuse a test without an end.

    Raises:
        EnvError: as `play_out` says.
    """
    if max(own.played.max() for own in scores) <= 100 * quota:
        return
    for player, own in zip(players, scores, strict=True):
        if own.idle:
            raise EnvError(
                f"a test has no end: of agent spec {player.seat.spec}, rows {own.idle} have made no step, while others "
                f"have ended more than {100 * quota} episodes. Does that agent come into the game?"
            )


def _merged(old: Any, rows: np.ndarray, new: Any, count: int) -> Any:
    """Return [count, ...]: `new` in `rows`, `old` elsewhere. Neither is written to."""
    return new if len(rows) == count else put_rows(tree.map_leaves(np.copy, old), count, rows, new)
