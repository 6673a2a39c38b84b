"""Envs in Ray actors, on this machine or on a cluster."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Self

from argosy.env.vector.protocol import Info
from argosy.env.worker.base import Command, EnvFn, EnvSpaces, EnvWorker, Given, StepArrays, as_slice
from argosy.env.worker.channel import POLL_S
from argosy.env.worker.group import EnvGroup
from argosy.env.worker.localray import start_local_ray
from argosy.errors import EnvError, require


class _Actor(EnvGroup):
    """What runs in the actor, of which only methods can be asked for."""

    def made(self) -> EnvSpaces:
        return self.spaces


def _running_ray() -> ModuleType:
    ray = require("ray", "fleet")
    if not ray.is_initialized():
        start_local_ray(ray)
    return ray


def cores_of_each(num_actors: int, asked: float | None) -> float:
    """Return what each of `num_actors` actors reserves: what is asked, or its share of the free cores, 1 at most.

    Warns where more is asked than there is: some actors then wait for cores that others hold.
    """
    ray = _running_ray()
    if asked is None:
        free = float(ray.available_resources().get("CPU", 0.0))
        return min(1.0, math.floor(free / max(1, num_actors) * 1e4) / 1e4)  # Ray counts in ten-thousandths
    there = float(ray.cluster_resources().get("CPU", 0.0))
    if asked * num_actors > there:
        warnings.warn(
            f"{num_actors} actors of envs ask for {asked:g} cores each (num_cpus), and Ray has {there:g}: some wait "
            "until the cluster grows; leave num_cpus out, and each gets its share",
            stacklevel=4,
        )
    return asked


class RayEnvWorker(EnvWorker):
    """Runs its envs in one Ray actor; see `RayVectorEnv`."""

    def __init__(
        self, env_fns: Sequence[EnvFn], first: int = 0, *, num_cpus: float = 1, hang_timeout_s: float | None = 300.0
    ) -> None:
        super().__init__(first, len(env_fns))
        self.ray, self.hang_timeout_s = _running_ray(), hang_timeout_s
        options = {"num_cpus": num_cpus, "enable_task_events": False}  # no record of each step in Ray's server
        self.actor = self.ray.remote(_Actor).options(**options).remote(list(env_fns), first)

    def made(self) -> EnvSpaces:  # noqa: D102
        spaces: EnvSpaces = self._get(self.actor.made.remote())
        return spaces

    def _start(self, command: Command, ids: Sequence[int] | None, given: Given) -> object:
        ref: object = self.actor.answer.remote(command, ids, given)
        return ref

    def recv(self, out: StepArrays, rows: Sequence[int]) -> list[Info]:  # noqa: D102
        arrays: StepArrays
        infos: list[Info]
        arrays, infos = self._get(self.sent.popleft()[-1], self.sent_at)
        out.write(as_slice(rows), arrays)
        return infos

    @classmethod
    def wait_any(cls, workers: Sequence[Self], limit_s: float | None) -> list[Self]:  # noqa: D102
        by_ref = {worker.sent[0][-1]: worker for worker in workers}
        refs = list(by_ref)
        ray = workers[0].ray
        ready, _ = ray.wait(refs, num_returns=1, timeout=limit_s)
        more, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        return [by_ref[ref] for ref in refs if ref in {*ready, *more}]

    def check(self) -> None:  # noqa: D102
        if self.sent and self.ray.wait([self.sent[0][-1]], timeout=0)[0]:
            self._get(self.sent[0][-1])

    def call(self, name: str, ids: Sequence[int], *args: object, **kwargs: object) -> list[object]:  # noqa: D102
        results: list[object] = self._get(getattr(self.actor, name).remote(list(ids), *args, **kwargs))
        return results

    def close(self, deadline: float) -> None:  # noqa: D102
        with contextlib.suppress(Exception):
            self.ray.get(self.actor.close.remote(), timeout=5.0)
        self._kill()

    def _get(self, ref: object, since: float | None = None) -> Any:  # what the actor's method has returned
        try:
            if self._is_ready(ref, time.monotonic() if since is None else since):
                return self.ray.get(ref)
            self._kill()
            raise EnvError(f"the Ray actor of {self.held} did not answer in {self.hang_timeout_s} s and was killed")
        except self.ray.exceptions.RayTaskError as error:
            raise EnvError(f"{error.cause or error}\n\nIn the Ray actor of {self.held}:\n{error}") from None
        except self.ray.exceptions.RayError as error:
            raise EnvError(f"the Ray actor of {self.held} died: {error}") from None

    def _is_ready(self, ref: object, since: float) -> bool:
        """Wait for a result or for the actor's end, with an eye on the siblings; False: the time is up."""
        while not self.ray.wait([ref], timeout=POLL_S)[0]:
            if self.hang_timeout_s is not None and time.monotonic() - since > self.hang_timeout_s:
                return False
            for worker in self.siblings:
                worker.check()
        return True

    def _kill(self) -> None:
        with contextlib.suppress(Exception):  # Ray is shut down already, and the actor with it
            self.ray.kill(self.actor)
