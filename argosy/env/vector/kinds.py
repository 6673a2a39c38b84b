"""Vector envs by where their envs live: this process, others over pipes, others over shared memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from argosy.env.spaces import is_array_space, take
from argosy.env.vector.base import BaseVectorEnv
from argosy.env.vector.protocol import Obs, StepReturn
from argosy.env.worker.base import EnvFn, StepArrays, action_rows
from argosy.env.worker.group import DummyEnvWorker
from argosy.env.worker.process import ProcessWorker, StartMethod
from argosy.env.worker.shared import SharedArrays
from argosy.errors import SpaceError
from argosy.process import num_cores


class DummyVectorEnv(BaseVectorEnv[DummyEnvWorker]):
    """Envs in this process, one after the other: the fastest for cheap envs.

    Arguments and errors are those of `BaseVectorEnv`; every started env is ready at once here.
    """

    def __init__(self, env_fns: Sequence[EnvFn], wait_num: int | None = None, timeout: float | None = None) -> None:
        per_worker = 1 if wait_num is not None or timeout is not None else None
        super().__init__(env_fns, DummyEnvWorker, wait_num, timeout, envs_per_worker=per_worker)

    def _step_all(self, action: object) -> StepReturn:
        """Step all envs, which are one group here, at once: nothing is sent to and fro."""
        n, spaces = self.num_envs, self._spaces
        out = StepArrays.empty(spaces, n)
        infos = self.workers[0].group.step(None, action_rows(action, n, spaces.action), out, range(n))
        self._note_rewards(out)
        return out.obs, out.rew, out.terminated, out.truncated, np.fromiter(infos, object, n)


class SubprocVectorEnv(BaseVectorEnv[ProcessWorker]):
    """Envs in worker processes; actions and results are pickled through pipes. Any spaces, any infos.

    Arguments and errors are those of `BaseVectorEnv`, and:

    Args:
        env_fns: functions that make one env each; they run in the processes.
        envs_per_worker: how many envs a process holds. Default: as many processes as cores, or one env per process
            when asynchronous.
        hang_timeout_s: an env that needs longer for one command is an error and its process is killed.
        context: how processes start: "fork" (default on Linux), "spawn" or "forkserver".
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        wait_num: int | None = None,
        timeout: float | None = None,
        *,
        envs_per_worker: int | None = None,
        hang_timeout_s: float | None = 300.0,
        context: StartMethod | None = None,
    ) -> None:
        worker_fn = functools.partial(ProcessWorker, hang_timeout_s=hang_timeout_s, start_method=context)
        if envs_per_worker is None:
            is_async = wait_num is not None or timeout is not None
            envs_per_worker = 1 if is_async else max(1, -(-len(env_fns) // num_cores()))
        super().__init__(env_fns, worker_fn, wait_num, timeout, envs_per_worker=envs_per_worker)


class ShmemVectorEnv(SubprocVectorEnv):
    """Envs in worker processes; observations, actions, rewards and flags go through shared memory.

    Nothing is pickled in a step but the infos of envs that have any. Observations of a step of all envs are views of
    the shared memory: each byte is copied once, by the worker. They stay valid as long as something refers to them.

    Arguments and errors are those of `SubprocVectorEnv`, and:

    Raises:
        SpaceError: observations or actions are not arrays of one shape and type (text, graphs, sequences).
    """

    def _prepare(self) -> None:
        for name, space in (("observation", self._spaces.observation), ("action", self._spaces.action)):
            if not is_array_space(space):
                raise SpaceError(f"the {name} space {space} does not fit shared memory; use SubprocVectorEnv")
        self._shared = SharedArrays(self._spaces, self.num_envs)
        self._lent: tuple[Obs | None, int] = (None, 0)
        try:
            for worker in self.workers:
                worker.share(self._shared)
        finally:
            self._shared.close_fd()

    def _step_all(self, action: object) -> StepReturn:
        """Step all envs; what needs no results is done while the workers work."""
        n, shared = self.num_envs, self._shared
        shared.write_actions(range(n), action_rows(action, n, self._spaces.action))
        obs, slot = self._lent if self._lent[0] is not None else shared.lend()
        for worker in self.workers:
            worker.start_step(slot)
        self._lent = shared.lend()
        infos = np.fromiter(({"env_id": i} for i in range(n)), object, n)
        for worker in reversed(self.workers):  # the one that began last: the others have mostly finished, too, by then
            if told := worker.finish_step():
                infos[worker.ids.start : worker.ids.stop] = told
        if obs is None:  # so many observations are alive that no slot was free: this one is a copy
            obs = take(shared.obs[0], list(range(n)))
        return obs, shared.rew.copy(), shared.terminated.copy(), shared.truncated.copy(), infos


class RayVectorEnv(BaseVectorEnv):
    """Envs in Ray actors, on this machine or on a cluster. A step costs about a millisecond: for slow envs.

    A local Ray is started if none is connected. Arguments and errors are those of `BaseVectorEnv`, and:

    Args:
        env_fns: functions that make one env each; they run in the actors.
        envs_per_worker: how many envs an actor holds.
        num_cpus: cores that Ray reserves for an actor. Default: its share of those that are free, 1 at most, so that
            all of them find a place.
        hang_timeout_s: an env that needs longer for one command is an error and its actor is killed.

    Raises:
        MissingExtraError: Ray is not installed.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        wait_num: int | None = None,
        timeout: float | None = None,
        *,
        envs_per_worker: int = 1,
        num_cpus: float | None = None,
        hang_timeout_s: float | None = 300.0,
    ) -> None:
        from argosy.env.worker.ray import RayEnvWorker, cores_of_each

        cores = cores_of_each(-(-len(env_fns) // max(1, envs_per_worker)), num_cpus)
        worker_fn = functools.partial(RayEnvWorker, num_cpus=cores, hang_timeout_s=hang_timeout_s)
        super().__init__(env_fns, worker_fn, wait_num, timeout, envs_per_worker=envs_per_worker)
