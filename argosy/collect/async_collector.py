"""Collecting from envs of which some step while the policy acts for others."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from argosy.collect.collector import Collector, Ended
from argosy.collect.rows import Rows, put_rows
from argosy.data import tree
from argosy.env import AsyncVectorEnv, EnvPoolVectorEnv, Received
from argosy.env.spaces import take
from argosy.errors import ConfigError


class AsyncCollector(Collector):
    """A Collector over an asynchronous vector env: acts for whichever envs are ready while the others step.

    All else is as in `Collector`, tests included. `n_step` may be exceeded by what one `recv` hands out; envs that are
    at work at the end are fetched by the next call. With `n_episode`, episodes of envs without a quota that were at
    work from an earlier call count too.

    Raises:
        ConfigError: the env cannot be stepped asynchronously.
    """

    def _check_kind(self) -> None:
        if not isinstance(self.env, AsyncVectorEnv):
            raise ConfigError(f"{type(self.env).__name__} has no send and recv; use Collector")
        self._async_env: AsyncVectorEnv = self.env
        self._at_work = np.zeros(self.env.num_envs, dtype=bool)
        self._acted: dict[str, object] = {}
        """Of every env's last action [num_envs, ...]: act, stored (for the buffer), state (that follows it)."""

    def _loop(
        self,
        quota: np.ndarray | None,
        remaining: int,
        random: float,
        render: float | None,
        reset_kwargs: Mapping[str, object],
        ended: Ended,
    ) -> None:
        env = self._async_env
        if quota is not None and isinstance(env, EnvPoolVectorEnv) and env.is_async:
            raise ConfigError("an asynchronous EnvPool cannot let envs rest, as n_episode asks; collect by n_step")
        rows = self._ready(reset_kwargs)
        taking_part = np.ones(len(rows), dtype=bool) if quota is None else quota > 0
        idle = np.flatnonzero(taking_part & ~self._at_work)
        stale = self._stale[idle]
        self._send_reset(idle[stale], reset_kwargs)
        self._send(rows, idle[~stale], random)
        while remaining > 0:
            got = env.recv()
            self._at_work[got.env_id] = False
            first, stepped, done = self._take_in(rows, got, ended)
            if quota is None:
                remaining -= len(stepped)
            else:
                counted = done[quota[done] > 0]
                remaining -= len(counted)
                quota[counted] -= 1
                taking_part = quota > 0
            self._stale[done] = True
            if render is not None:
                self.env.render()
                time.sleep(render)
            if remaining > 0:
                self._send_reset(done[taking_part[done]], reset_kwargs)
                on = np.concatenate([first, np.setdiff1d(stepped, done)])
                self._send(rows, on[taking_part[on]], random)

    def _ready(self, reset_kwargs: Mapping[str, object]) -> Rows:
        """Return the rows of all envs, reset together where all need it."""
        if self._rows is None or self._pending_seeds is not None or self._stale.all():
            self._rows = self._first_rows(reset_kwargs).take(np.arange(self.env.num_envs))  # in memory of our own
            self._at_work[:] = False
        return self._rows

    def _send_reset(self, ids: np.ndarray, reset_kwargs: Mapping[str, object]) -> None:
        if len(ids):
            self._async_env.send_reset(ids, **reset_kwargs)
            self._at_work[ids], self._stale[ids] = True, False

    def _send(self, rows: Rows, ids: np.ndarray, random: float) -> None:
        """Act for the envs `ids` and start their steps."""
        if not len(ids):
            return
        act, env_act, state, stored = self._act(rows.take(ids), random)
        for name, value in (("act", act), ("stored", stored), ("state", state)):
            if value is not None:
                self._acted[name] = put_rows(self._acted.get(name), len(rows), ids, value)
            elif name in self._acted:  # what was stored of actions before stays with them
                tree.assign(self._acted[name], ids, None)
        self._async_env.send(env_act, ids)
        self._at_work[ids] = True

    def _take_in(self, rows: Rows, got: Received, ended: Ended) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Record what was received; return the envs that were reset, that stepped, and of these the ones done."""
        which = ~got.is_reset
        first, ids = got.env_id[got.is_reset], got.env_id[which]
        if len(first):
            obs = take(got.obs, got.is_reset)
            self._border.check_obs(obs, first)
            rows.restart(first, obs, in_place=True)
        if not len(ids):
            return first, ids, ids
        part = rows.take(ids)
        flags = got.terminated[which], got.truncated[which]
        outcome = (take(got.obs, which), got.rew[which], *flags, tree.index(got.info, which))
        last = {name: tree.index(value, ids) for name, value in self._acted.items()}
        act = last["act"]
        assert isinstance(act, np.ndarray)
        done = self._record(part, act, last.get("stored"), outcome, ended)
        part.advance(outcome[0], last.get("state"))
        rows.put(ids, part)
        return first, ids, ids[:0] if done is None else ids[done]
