"""The evaluation worker: plays episodes with pinned versions, in environments of its own, and tags the best one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.distributed.arena import Arena
from argosy.distributed.host import Peer, PeerLostError, Progress
from argosy.distributed.inference import ParameterReader
from argosy.distributed.player import Player
from argosy.errors import CheckpointError
from argosy.policy import Policy

_STEPS_PER_POLL = 50


@dataclass(frozen=True, kw_only=True)
class EvalResult:
    """How one policy has done in one evaluation."""

    policy: str
    version: int
    return_mean: float
    return_std: float
    length_mean: float
    episodes: int
    time: float
    """Seconds since 1970."""


class EvalWorker:
    """Judges the newest versions, one evaluation after the other.

    Args:
        name: of this worker; the versions that it plays with carry it as a tag, so that they are kept meanwhile.
        arena: environments of its own.
        players: one per seat.
        policy_of_seat: name of the policy of each seat.
        policies: by name; loaded by `readers`.
        readers: by policy name.
        store: the parameter server.
        episodes: per evaluation, at least; every environment plays equally many, so that short ones do not count more.
    """

    def __init__(
        self,
        name: str,
        arena: Arena,
        players: Sequence[Player],
        policy_of_seat: Sequence[str],
        policies: Mapping[str, Policy],
        readers: Mapping[str, ParameterReader],
        store: Peer,
        *,
        num_envs: int,
        episodes: int,
    ) -> None:
        self._name, self._arena, self._players, self._policy_of_seat = name, arena, list(players), list(policy_of_seat)
        self._policies, self._readers, self._store = policies, readers, store
        self._quota = -(-episodes // num_envs)
        self._results: list[EvalResult] = []
        self._judged: dict[str, int] = {}
        self._best: dict[str, float] = {}
        self._running = False
        self._steps = 0

    def results(self, start: int = 0) -> list[EvalResult]:
        """Return the results from number `start` on, oldest first."""
        return self._results[start:]

    def poll(self) -> Progress:
        """Play some steps of the evaluation under way, or begin one if there are new parameters."""
        if not self._running and not self._begin():
            return Progress.IDLE
        for _ in range(_STEPS_PER_POLL):
            self._step()
            if all((played >= self._quota).all() for played in self._played):
                self._end()
                break
        return Progress.BUSY

    def stats(self) -> Mapping[str, float]:
        """Return counters."""
        return {"evaluations": float(len(self._results)), "steps": float(self._steps)}

    def close(self) -> None:
        """Close the environments."""
        self._arena.close()

    def _begin(self) -> bool:
        for reader in self._readers.values():
            reader.poll()
        tokens = {name: reader.token for name, reader in self._readers.items()}
        if 0 in tokens.values() or tokens == self._judged:
            return False
        self._judged = tokens
        if not self._call_store([("tag", name, policy.version, self._name) for name, policy in self._policies.items()]):
            return False  # dropped meanwhile: there is a newer one
        self._arena.reset()
        for player in self._players:
            player.forget()
        rows = [player.seat.rows for player in self._players]
        self._played = [np.zeros(n, np.int64) for n in rows]
        self._returns, self._lengths = [np.zeros(n) for n in rows], [np.zeros(n) for n in rows]
        self._finished: list[list[tuple[float, float]]] = [[] for _ in rows]
        self._running = True
        return True

    def _step(self) -> None:
        actions = []
        for player in self._players:
            player.ask()
            actions.append(player.act())
        for seat, stepped in enumerate(self._arena.step(actions)):
            rows = stepped.rows
            self._steps += len(rows)
            self._returns[seat][rows] += stepped.rew
            self._lengths[seat][rows] += 1
            for row in rows[stepped.terminated | stepped.truncated]:
                if self._played[seat][row] < self._quota:
                    self._finished[seat].append((self._returns[seat][row], self._lengths[seat][row]))
                self._played[seat][row] += 1
                self._returns[seat][row] = self._lengths[seat][row] = 0.0

    def _end(self) -> None:
        self._running = False
        for name, policy in self._policies.items():
            pairs = [
                pair
                for own, finished in zip(self._policy_of_seat, self._finished, strict=True)
                for pair in finished
                if own == name
            ]
            returns, lengths = np.array(pairs).T
            result = EvalResult(
                policy=name,
                version=policy.version,
                return_mean=float(returns.mean()),
                return_std=float(returns.std()),
                length_mean=float(lengths.mean()),
                episodes=len(pairs),
                time=time.time(),
            )
            self._results.append(result)
            self._tell(result)

    def _tell(self, result: EvalResult) -> None:
        """Let the store know; it may have gone back behind this version meanwhile, then nobody needs to know."""
        values = {"return_mean": result.return_mean, "return_std": result.return_std, "episodes": result.episodes}
        calls: list[tuple[object, ...]] = [("update_metadata", result.policy, result.version, values)]
        if result.return_mean > self._best.get(result.policy, -np.inf):
            self._best[result.policy] = result.return_mean
            calls.append(("tag", result.policy, result.version, "best"))
        self._call_store(calls)

    def _call_store(self, calls: Sequence[tuple[object, ...]]) -> bool:
        """Call methods of the store; returns whether all could be done."""
        answers = [self._store.call(str(method), *args) for method, *args in calls]
        try:
            for answer in answers:
                answer.result(5.0)
        except (PeerLostError, CheckpointError, TimeoutError):
            return False
        return True
