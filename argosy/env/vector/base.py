"""What every vector env over Python envs has in common, wherever they live; synchronous and asynchronous."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar  # with a default

from argosy.env.spaces import Space, join_received, take
from argosy.env.vector.protocol import Ids, Infos, Obs, Received, StepReturn, check_ids, env_seeds
from argosy.env.worker.base import (
    Command,
    EnvFn,
    EnvWorker,
    Given,
    StepArrays,
    action_rows,
    as_slice,
    common_spaces,
    select_rows,
)
from argosy.errors import ConfigError, EnvError

WorkerT = TypeVar("WorkerT", bound=EnvWorker, default=EnvWorker)
CLOSE_GRACE_S = 5.0


class BaseVectorEnv(Generic[WorkerT]):
    """n envs, dealt out to workers; steps them together, or (asynchronous) hands out those that are ready.

    Asynchronous when `wait_num` is below the number of envs or `timeout` is given: then `step(action, id)` starts
    the envs `id` and returns as soon as `wait_num` envs are ready, or when `timeout` seconds have passed and one
    is; `info[i]["env_id"]` says which. `reset` is for envs that are not at work; that of all envs gives up what is.

    Args:
        env_fns: functions that make one env each.
        worker_fn: makes a worker from its env functions and the index of its first env.
        wait_num: asynchronous: how many envs to wait for, 1 .. n.
        timeout: asynchronous: seconds to wait for `wait_num` envs before those that are ready are handed out.
        envs_per_worker: how many envs a worker holds (all in one by default).

    Raises:
        ConfigError: no envs, or `wait_num`, `timeout` or `envs_per_worker` out of range.
        EnvError: an env could not be made, or the envs' spaces differ.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        worker_fn: Callable[[Sequence[EnvFn], int], WorkerT],
        wait_num: int | None = None,
        timeout: float | None = None,
        *,
        envs_per_worker: int | None = None,
    ) -> None:
        n = len(env_fns)
        self.is_closed = True  # until the workers stand
        _check_arguments(n, wait_num, timeout, envs_per_worker)
        self.num_envs = self.env_num = n
        self.is_async = (wait_num is not None and wait_num < n) or timeout is not None
        self.wait_num, self.timeout = wait_num or n, timeout
        bounds = np.linspace(0, n, -(-n // (envs_per_worker or n)) + 1).round().astype(int).tolist()
        self.workers: list[WorkerT] = []
        # A finaliser runs after gc, at the interpreter's exit and after an unhandled Ctrl-C
        self._finalizer = weakref.finalize(self, _close_workers, self.workers)
        try:
            for low, high in pairwise(bounds):
                self.workers.append(worker_fn(env_fns[low:high], low))
            self._spaces = common_spaces({worker.ids[0]: worker.made() for worker in self.workers})
            for worker in self.workers:
                worker.siblings = self.workers
            self._prepare()
        except BaseException:
            self._finalizer()
            raise
        self.is_closed = False
        self.single_observation_space = self._spaces.observation
        """Space of one env's observation; Tuples appear as Dicts with the keys "0", "1", ..."""
        self.single_action_space = self._spaces.action
        self._worker_of = [worker for worker in self.workers for _ in worker.ids]
        self._seeds: list[int | None] = [None] * n
        self._at_work: set[int] = set()
        self._stash: list[Received] = []

    def _prepare(self) -> None:
        """Do what a kind of vector env needs once its workers stand."""

    # what it is

    def __len__(self) -> int:
        return self.num_envs

    @property
    def observation_space(self) -> list[Space]:
        """Every env's observation space, as in Tianshou."""
        return [self.single_observation_space] * self.num_envs

    @property
    def action_space(self) -> list[Space]:
        """Every env's action space, as in Tianshou."""
        return [self.single_action_space] * self.num_envs

    # reset and step

    def seed(self, seed: int | list[int] | None = None) -> list[int | None]:
        """Let the next reset of each env start it anew; returns the seeds of the envs.

        Args:
            seed: one number from which every env's seed is derived, or a list with a seed per env.
        """
        self._seeds = env_seeds(seed, self.num_envs)
        return list(self._seeds)

    def reset(self, id: Ids = None, **kwargs: Any) -> tuple[Obs, Infos]:
        """Start new episodes in the envs `id` and return their observations [k, ...] and infos [k] in that order.

        Args:
            id: which envs (all by default).
            **kwargs: for each env's `reset`; a number as `seed` means `self.seed(seed)` for these envs.

        Raises:
            EnvError: an env raised, died, hung, or its first observation is not in its space.
        """
        ids = self._ids(id)
        if self.is_async and len(ids) < self.num_envs:
            return self._reset_async(ids, kwargs)
        self._give_up()
        try:
            out, infos = self._run("reset", ids, self._reset_kwargs(ids, kwargs))
        except BaseException:
            self._give_up()
            raise
        return out.obs, infos

    def step(self, action: object, id: Ids = None) -> StepReturn:
        """Step the envs `id` (all by default) with one action each.

        Args:
            action: [k, ...]: an array, a list, or a dict (tuple) of arrays for Dict (Tuple) action spaces.
                Asynchronous: None starts nothing and only fetches.
            id: which envs, in the order of the actions.

        Returns:
            obs [k, ...], rew [k] float32, terminated [k], truncated [k], info [k]; rows in the order of `id`, or
            whichever are ready when asynchronous.

        Raises:
            EnvError: an env raised, died or hung.
        """
        if self.is_async:
            if action is not None:
                self.send(action, id)
            got = self.recv()
            return got.obs, got.rew, got.terminated, got.truncated, got.info
        self._drain()
        if id is None:
            return self._step_all(action)
        ids = self._ids(id)
        out, infos = self._run("step", ids, action_rows(action, len(ids), self._spaces.action))
        return out.obs, out.rew, out.terminated, out.truncated, infos

    def _step_all(self, action: object) -> StepReturn:
        out, infos = self._run("step", None, action_rows(action, self.num_envs, self._spaces.action))
        return out.obs, out.rew, out.terminated, out.truncated, infos

    def _run(self, command: Command, ids: list[int] | None, given: Given) -> tuple[StepArrays, NDArray[np.object_]]:
        """Send the workers what the envs `ids` (None: all) are to do, and wait for all of them."""
        n = self.num_envs if ids is None else len(ids)
        out = StepArrays.empty(self._spaces, n)
        infos: NDArray[np.object_] = np.empty(n, dtype=object)
        parts: Sequence[tuple[WorkerT, Sequence[int] | None, Sequence[int]]]
        parts = [(worker, None, worker.ids) for worker in self.workers] if ids is None else self._parts(ids)
        for worker, own, rows in parts:
            worker.send(command, own, select_rows(given, rows))
        for worker, _, rows in reversed(parts):  # whoever began last: the others have mostly finished, too, by then
            infos[as_slice(rows)] = worker.recv(out, rows)
        self._note_rewards(out)
        return out, infos

    # started now, fetched later

    def send(self, action: object, id: Ids = None) -> None:
        """Start a step in the envs `id`; `recv` fetches the results."""
        ids = self._idle(id)
        self._start("step", ids, action_rows(action, len(ids), self._spaces.action))

    def send_reset(self, id: Ids = None, **kwargs: Any) -> None:
        """Start a reset in the envs `id`; `recv` fetches the first observations (rows with `is_reset`)."""
        ids = self._idle(id)
        self._start("reset", ids, self._reset_kwargs(ids, kwargs))

    def _start(self, command: Command, ids: list[int], given: Given) -> None:
        for worker, own, rows in self._parts(ids):
            worker.send(command, own, select_rows(given, rows))
            self._at_work.update(own)

    def recv(self) -> Received:
        """Wait for started envs and return their rows.

        Synchronous: all that were started. Asynchronous: `wait_num` of them at least (fewer when `timeout` has
        passed, or fewer are at work).

        Raises:
            EnvError: nothing was started; or an env raised, died or hung (the others can still be fetched).
        """
        self._check_open()
        if self._stash:
            got, self._stash = join_received(self._stash), []
            return got
        if not self._at_work:
            raise EnvError("recv: no env is at work; start some with send or send_reset first")
        wanted = min(self.wait_num, len(self._at_work)) if self.is_async else len(self._at_work)
        timeout = self.timeout if self.is_async else None
        return join_received(self._fetch(lambda got: len(got) >= wanted, timeout))

    def _reset_async(self, ids: list[int], kwargs: Mapping[str, Any]) -> tuple[Obs, Infos]:
        self.send_reset(ids, **kwargs)
        parts = self._fetch(lambda got: got.issuperset(ids), None)
        mine = [part for part in parts if part.is_reset[0] and set(part.env_id.tolist()) <= set(ids)]
        self._stash += [part for part in parts if not any(part is m for m in mine)]
        got = join_received(mine)
        order = np.argsort(got.env_id)[np.argsort(np.argsort(ids))]
        assert isinstance(got.info, np.ndarray)
        return take(got.obs, order), got.info[order]

    def _fetch(self, enough: Callable[[set[int]], bool], timeout: float | None) -> list[Received]:
        """Receive from whichever workers are ready until `enough`, or until `timeout` passed and one was."""
        deadline = None if timeout is None else time.monotonic() + timeout
        parts: list[Received] = []
        got: set[int] = set()
        while not enough(got):
            busy = [worker for worker in self.workers if worker.sent]
            ready_of = type(busy[0]).ready
            ready = ready_of(busy, None if deadline is None else max(0.0, deadline - time.monotonic()))
            if not ready and parts:
                break
            for worker in ready or ready_of(busy, None):  # out of time with nothing to show: wait for the first
                try:
                    part = self._receive_one(worker)
                except EnvError:
                    self._stash += parts  # what others have done is kept for the next recv
                    raise
                parts.append(part)
                got.update(part.env_id.tolist())
        return parts

    def _receive_one(self, worker: EnvWorker) -> Received:
        command, sent, _ = worker.sent[0]
        ids = worker.ids if sent is None else sent
        self._at_work.difference_update(ids)
        out = StepArrays.empty(self._spaces, len(ids))
        infos = np.fromiter(worker.recv(out, range(len(ids))), object, len(ids))
        self._note_rewards(out)
        flags = np.full(len(ids), command == "reset")
        return Received(np.asarray(ids, np.int64), flags, out.obs, out.rew, out.terminated, out.truncated, infos)

    # the rest of the surface

    def render(self, **kwargs: object) -> list[object]:
        """Return what each env's `render` gives."""
        return self._call("render", None, **kwargs)

    def get_env_attr(self, key: str, id: Ids = None) -> list[object]:
        """Return the attribute `key` of the envs `id`; it is looked up through the wrappers."""
        return self._call("get_attr", id, key)

    def set_env_attr(self, key: str, value: object, id: Ids = None) -> None:
        """Set the attribute `key` of the envs `id` where a wrapper or the env has it, else on the innermost env."""
        self._call("set_attr", id, key, value)

    def close(self) -> None:
        """Close every env and end every worker process; calling twice is allowed."""
        self.is_closed = True
        self._finalizer()

    # small things

    def _call(self, name: str, id: Ids, *args: object, **kwargs: object) -> list[object]:
        ids = self._idle(id)
        self._drain()
        result: list[object] = [None] * len(ids)
        for worker, own, rows in self._parts(ids):
            for row, value in zip(rows, worker.call(name, own, *args, **kwargs), strict=True):
                result[row] = value
        return result

    def _ids(self, id: Ids) -> list[int]:
        self._check_open()
        return check_ids(id, self.num_envs)

    def _parts(self, ids: Sequence[int]) -> list[tuple[WorkerT, list[int], list[int]]]:
        """Deal `ids` out to the workers that hold those envs: each with its own, and their rows."""
        parts: dict[int, tuple[WorkerT, list[int], list[int]]] = {}
        for row, i in enumerate(ids):
            worker = self._worker_of[i]
            _, own, rows = parts.setdefault(worker.ids[0], (worker, [], []))
            own.append(i)
            rows.append(row)
        return list(parts.values())

    def _reset_kwargs(self, ids: Sequence[int], kwargs: Mapping[str, Any]) -> list[dict[str, object]]:
        """Return what the reset of each env is given: `kwargs`, and a seed if it has one."""
        common = dict(kwargs)
        seed = common.pop("seed", None)
        seeds = [self._seeds[i] for i in ids] if seed is None else env_seeds(seed, len(ids))
        for i in ids:
            self._seeds[i] = None
        return [common if own is None else {**common, "seed": own} for own in seeds]

    def _idle(self, id: Ids) -> list[int]:
        ids = self._ids(id)
        if busy := self._at_work.intersection(ids):
            raise EnvError(f"env {min(busy)} is still at work; fetch its result with recv (or step) first")
        return ids

    def _note_rewards(self, out: StepArrays) -> None:
        """Remember the shape of rewards that no env told beforehand."""
        if out.rew.shape[1:] != self._spaces.reward_shape:
            self._spaces = replace(self._spaces, reward_shape=out.rew.shape[1:])

    def _check_open(self) -> None:
        if self.is_closed:
            raise EnvError("this vector env is closed")

    def _drain(self) -> None:
        """Synchronous calls start from idle workers: drop what an error or Ctrl-C left unread."""
        self._check_open()
        if not self.is_async:
            self._give_up()

    def _give_up(self) -> None:
        """Wait no longer for what was started; answers that come yet are skipped."""
        self._at_work.clear()
        self._stash.clear()
        for worker in self.workers:
            worker.sent.clear()


def _check_arguments(n: int, wait_num: int | None, timeout: float | None, envs_per_worker: int | None) -> None:
    if n == 0:
        raise ConfigError("env_fns is empty; a vector env needs at least one env")
    if wait_num is not None and not 1 <= wait_num <= n:
        raise ConfigError(f"wait_num is {wait_num}; it must be between 1 and the number of envs, {n}")
    if timeout is not None and timeout <= 0:
        raise ConfigError(f"timeout is {timeout}; it must be > 0 seconds")
    if envs_per_worker is not None and envs_per_worker < 1:
        raise ConfigError(f"envs_per_worker is {envs_per_worker}; it must be >= 1")


def _close_workers(workers: Sequence[EnvWorker]) -> None:
    deadline = time.monotonic() + CLOSE_GRACE_S
    for worker in workers:
        worker.start_close()
    for worker in workers:
        worker.close(deadline)
