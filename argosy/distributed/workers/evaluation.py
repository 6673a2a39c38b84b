"""The evaluation worker: plays episodes with pinned versions, in environments of its own, and tags the best one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.collect.player import Player, Scores, check_all_play
from argosy.data.stats import CollectStats
from argosy.distributed.host.base import Context, Peer, Progress, Repeated
from argosy.distributed.store.parameters import BEST, RETURN
from argosy.distributed.streams.inference import ParameterReader
from argosy.distributed.workers.actor import Group, Tolerance
from argosy.errors import CheckpointError

_POLL_S = 0.1
_STORE_S = 20.0
"""In which a store that is restarted is there again: what was found is not to be lost by it."""


@dataclass(frozen=True, kw_only=True)
class EvalResult:
    """How one policy has done in one evaluation."""

    policy: str
    version: int
    return_mean: float
    return_std: float
    length_mean: float
    episodes: int
    """Of the environment, however many agents the policy plays in each."""
    time: float
    """Seconds since 1970."""
    stage: str = ""
    """Of the curriculum."""


class EvalWorker:
    """Evaluates the newest versions, one evaluation after the other.

    Args:
        context: where it runs; versions that it plays with carry its name as a tag, so that they are kept meanwhile.
        group: environments of its own, and their players.
        readers: by the names of the policies, which they keep up to date.
        store: the parameter server.
        episodes: per evaluation, at least; every environment plays equally many, so that short ones do not count more.
        cores: that it may keep busy, on average; after an evaluation it rests until it was no more.
        targets: by policy, a return that must be confirmed at once, with the same version, and in how many episodes.
        env_failures: failures of environments to survive.
        stage: of the curriculum, "" without.
    """

    def __init__(
        self,
        context: Context,
        group: Group[Player],
        readers: Mapping[str, ParameterReader],
        store: Peer,
        *,
        num_envs: int,
        episodes: int,
        cores: float,
        targets: Mapping[str, tuple[float, int]],
        env_failures: int,
        stage: str,
    ) -> None:
        self._group, self._stage = group, stage
        self._name, self._incarnation = context.name, context.incarnation
        self._tolerance = Tolerance(env_failures, "evaluation.env_failures")
        self._readers, self._store = readers, store
        self._num_envs, self._episodes, self._cores, self._targets = num_envs, episodes, cores, targets
        self._busy_s = self._spent_s = self._rest_until = 0.0
        self._results: list[EvalResult] = []  # that nobody has heard of yet
        self._heard = self._found = 0
        self._evaluated: dict[str, int] = {}
        self._evaluation: Iterator[None] | None = None
        """The one under way."""
        self._steps = 0

    def results(self, incarnation: int, start: int) -> tuple[int, list[EvalResult]]:
        """Return this worker's incarnation and its results, oldest first; from `start` on if `incarnation` is right.

        Who asks has those before `start`, and they are kept no longer.
        """
        if incarnation == self._incarnation:
            del self._results[: start - self._heard]
            self._heard = start
        return self._incarnation, list(self._results)

    @property
    def survived(self) -> str:
        """Traceback of the last failure of an environment, "" if there was none."""
        return self._tolerance.last

    def set_curriculum_stage(self, name: str) -> None:
        """Evaluate in this stage from the next evaluation on; the one under way is of no use any more."""
        self._stage = name

    def hurry(self) -> None:
        """Rest no more: the fleet is about to end."""
        self._cores = math.inf

    def poll(self) -> Progress:
        """Play some steps of the evaluation under way, or begin one if there are new parameters."""
        start = time.monotonic()
        if self._evaluation is None:
            if (start < self._rest_until and self._cores < math.inf) or not self._begin():
                return Progress.IDLE
            self._evaluation = self._evaluate()
        over = all(time.monotonic() - start < _POLL_S for _ in self._evaluation)
        now = time.monotonic()
        self._busy_s += now - start
        if over:
            self._evaluation = None
            spent, self._spent_s = self._busy_s - self._spent_s, self._busy_s
            self._rest_until = now + max(0.0, spent / self._cores - spent)
        return Progress.BUSY

    def stats(self) -> Mapping[str, float]:
        """Return counters."""
        return {
            "evaluations": float(self._found),
            "steps": float(self._steps),
            "busy_s": self._busy_s,
            "env_failures": float(self._tolerance.count),
        }

    def close(self) -> None:
        """Close the environments."""
        self._group.arena.close()

    def _begin(self) -> bool:
        for reader in self._readers.values():
            reader.poll()
        tokens = {name: reader.token for name, reader in self._readers.items()}
        if 0 in tokens.values() or (tokens == self._evaluated and self._group.stage == self._stage):
            return False
        versions = {name: reader.policy.version for name, reader in self._readers.items()}
        if not all(self._call_store("tag", name, version, self._name) for name, version in versions.items()):
            return False  # dropped meanwhile: there is a newer one
        self._evaluated = tokens
        self._group.set_stage(self._stage)
        return True

    def _evaluate(self) -> Iterator[None]:
        """Play the episodes, and more to confirm a return; yields after each step."""
        group, episodes = self._group, self._episodes
        while episodes:
            group.reset(self._tolerance)
            quota = -(-episodes // self._num_envs)
            scores = [Scores(player.seat.rows, quota) for player in group.seated]
            while not group.fresh and not all(own.complete for own in scores):
                outcome = group.step([player.play() for player in group.seated], self._tolerance)
                for own, stepped in zip(scores, outcome, strict=False):  # none where an environment failed
                    self._steps += len(stepped.rows)
                    own.add(stepped)
                check_all_play(group.seated, scores, quota)
                yield
            if group.fresh:  # new environments begin the evaluation again
                self._evaluated = {}
                return
            episodes = self._report(scores, quota * self._num_envs)

    def _report(self, played_by_seat: Sequence[Scores], episodes: int) -> int:
        """Say how every policy has done in so many; return how many are to confirm a return, 0 for none."""
        confirming = 0
        for name, reader in self._readers.items():
            seated = zip(played_by_seat, self._group.seated, strict=True)
            own = [scores.stats() for scores, player in seated if player.policy is reader.policy]
            played = CollectStats.merged(own)
            assert played is not None
            result = EvalResult(
                policy=name,
                version=reader.policy.version,
                return_mean=float(played.returns.mean()),
                return_std=float(played.returns.std()),
                length_mean=float(played.lens.mean()),
                episodes=episodes,
                time=time.time(),
                stage=self._group.stage,
            )
            if self._tell(result) is False:  # first: a fleet may end as soon as its driver has heard of it
                continue  # its trainer has gone back behind this version, which nobody has any more
            self._results.append(result)
            self._found += 1
            target, wanted = self._targets.get(name, (math.inf, 0))
            if result.return_mean >= target and result.episodes < wanted:
                confirming = max(confirming, wanted)
        return confirming

    def _tell(self, result: EvalResult) -> bool | None:
        """Let the store know, as `_call_store` does; False: the version that was evaluated is gone."""
        values = {"return_mean": result.return_mean, "return_std": result.return_std, "episodes": result.episodes}
        key = RETURN
        if result.stage:  # what was best in another stage need not be in this one
            key = f"return_mean in {result.stage}"
            values[key] = result.return_mean
        return self._call_store("tag_best", result.policy, result.version, values, key, BEST, self._name)

    def _call_store(self, method: str, *args: object) -> bool | None:
        """Call a method of the store, again if it is just being restarted; False: it refuses, None: it is away."""
        answer = Repeated(lambda: self._store.call(method, *args)).poll(_STORE_S)
        if answer is None:
            return None
        if isinstance(answer.exception(), CheckpointError):
            return False
        answer.result()
        return True


class Listener:
    """Hears what an evaluation worker has found: each result once, across the worker's restarts, without waiting."""

    def __init__(self, worker: Peer) -> None:
        self._incarnation, self._heard = -1, 0
        self._asked: Repeated[tuple[int, list[EvalResult]]] = Repeated(
            lambda: worker.call("results", self._incarnation, self._heard), pause_s=0.0
        )

    def poll(self) -> list[EvalResult]:
        """Ask, or return what came."""
        asked = self._asked.poll()
        if asked is None:
            return []
        incarnation, news = asked.result()
        if incarnation != self._incarnation:
            self._incarnation, self._heard = incarnation, 0
        self._heard += len(news)
        return news
