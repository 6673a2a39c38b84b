"""Stepping a vector env with a policy and writing what happens into a buffer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from argosy.collect.hooks import CollectHook, StepEvent, ended_episodes
from argosy.collect.rows import Rows, Staging, planned, with_state
from argosy.collect.state import CollectorState
from argosy.data import Batch, ReplayBuffer, tree
from argosy.data.stats import CollectStats
from argosy.env import Obs, VectorEnv, as_vector_env, info_column
from argosy.env.vector.border import Border
from argosy.env.vector.protocol import StepReturn, successes
from argosy.errors import ConfigError
from argosy.policy import Policy, RolloutRequest
from argosy.policy.fitting import fitting_policy
from argosy.policy.forward import act_randomly, mixed
from argosy.rng import Rng, spawn_seeds

_EMPTY = Batch()
STAGING_FROM = 4
"""Vector steps from which on a collection is staged instead of stored step by step."""
Ended: TypeAlias = list[tuple[np.ndarray, ...]]  # returns, lengths, successes of episodes, in order of their ends


class Collector:
    """Steps a vector env with a policy, `num_envs` envs at a time, and writes into a buffer.

    Episodes run on from one call of `collect` to the next; envs are reset when an episode of theirs ends.

    Args:
        policy: acts.
        env: a vector env, or anything that `as_vector_env` takes (a gymnasium env, a list of env functions, ...).
        buffer: where transitions go; None keeps none (evaluation). It has at least as many sub-buffers as there are
            envs.
        exploration_noise: whether the policy explores; otherwise every row asks for its evaluation action.
        hooks: see `argosy.collect.hooks`.
        seed: where random actions and the envs' seeds come from; None: the envs are not seeded.

    Raises:
        ConfigError: the buffer has fewer sub-buffers than there are envs, or the env is asynchronous.
    """

    def __init__(
        self,
        policy: Policy,
        env: object,
        buffer: ReplayBuffer | None = None,
        exploration_noise: bool = False,
        *,
        hooks: Sequence[CollectHook] = (),
        seed: int | None = None,
    ) -> None:
        self.env: VectorEnv = as_vector_env(env)
        self.policy = fitting_policy(policy, self.env.single_observation_space, self.env.single_action_space)
        self._border = Border(self.env.single_observation_space, self.env.single_action_space)
        self.exploration_noise = exploration_noise
        self.hooks = tuple(hooks)
        self._check_kind()
        self.buffer = buffer
        self.rng = Rng(seed)
        self._pending_seeds = None if seed is None else spawn_seeds(self.rng.draw_seed(), self.env.num_envs)
        self._step_hooks = [h.on_step for h in hooks if type(h).on_step is not CollectHook.on_step]
        self._episode_hooks = [h.on_episode for h in hooks if type(h).on_episode is not CollectHook.on_episode]
        self._rows: Rows | None = None
        self._stale = np.ones(self.env.num_envs, dtype=bool)
        self._may_stage = False
        self.see: Callable[[Obs], None] | None = None
        """Called with the observations [k, ...] of every vector step, e.g. by who keeps statistics of them."""
        self._longest = self._restarted_at = 0
        self._stagger_at: np.ndarray | None = None  # [num_envs] steps after the restart, see `_stagger`
        self.reset_stat()

    # what a user calls

    @property
    def buffer(self) -> ReplayBuffer | None:
        """Where transitions go."""
        return self._buffer

    @buffer.setter
    def buffer(self, buffer: ReplayBuffer | None) -> None:
        n = self.env.num_envs
        if buffer is not None and buffer.buffer_num < n:
            raise ConfigError(
                f"the buffer has {buffer.buffer_num} sub-buffer(s) for {n} envs; "
                f"make a VectorReplayBuffer(total_size, buffer_num={n})"
            )
        if buffer is not None:
            buffer.end_episodes()  # what is to come does not continue them
        self._buffer = buffer
        self._stored_info = tuple(buffer.info_keys) if buffer is not None else ()
        # Hooks are told where each step is stored, so with hooks each is stored at once
        self._staging = Staging(buffer, n) if buffer is not None and not self.hooks else None

    def collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        random: float = False,
        render: float | None = None,
        gym_reset_kwargs: Mapping[str, object] | None = None,
    ) -> CollectStats:
        """Collect some steps or some episodes.

        With `n_episode` every env runs its quota, `n_episode / num_envs` (the first ones one more where that does
        not divide), and then rests: taking whichever episodes end first would over-represent short ones. Episodes
        that are under way are finished and count; call `reset_env` first where that is not wanted.

        Args:
            n_step: transitions over all envs, rounded up to a multiple of their number.
            n_episode: episodes over all envs.
            random: share of actions that are drawn uniformly instead of asking the policy; True: all.
            render: call the env's `render` after each step and sleep so many seconds.
            gym_reset_kwargs: for every `env.reset`.

        Raises:
            ConfigError: neither or both of `n_step` and `n_episode`, or not a positive number.
            EnvError: an env raised, or gave a reward or an observation that is not a number; names env, step and
                field. Nothing of that vector step is stored; the next call starts new episodes.
        """
        quota, remaining = planned(n_step, n_episode, self.env.num_envs)
        ended: Ended = []
        start, steps = time.perf_counter(), self.collect_step
        self._may_stage = quota is None and remaining >= STAGING_FROM * self.env.num_envs
        try:
            self._loop(quota, remaining, random, render, dict(gym_reset_kwargs or {}), ended)
        except BaseException:
            self._abandon()
            raise
        finally:
            self._may_stage = False
        if quota is not None and getattr(self.env, "moves_left_out", False):
            self._abandon()
        self._flush()
        elapsed = time.perf_counter() - start
        self.collect_time += elapsed
        stats = CollectStats(n_collected_steps=self.collect_step - steps, collect_time=elapsed)
        if not ended:
            return stats
        returns, lens, successes = (np.concatenate(parts) for parts in zip(*ended, strict=True))
        self._longest = max(self._longest, int(lens.max()))
        return replace(stats, n_collected_episodes=len(lens), returns=returns, lens=lens, successes=successes)

    def reset(self, reset_buffer: bool = True) -> None:
        """Start new episodes at the next `collect`, set the counters to zero, empty the buffer (unless told not to)."""
        self.reset_env()
        if reset_buffer:
            self.reset_buffer()
        self.reset_stat()

    def reset_env(self, seed: int | None = None) -> None:
        """Start new episodes at the next `collect`; with `seed`, from envs that are seeded anew."""
        if seed is not None:
            self._pending_seeds = spawn_seeds(seed, self.env.num_envs)
        self._abandon()

    def reset_buffer(self, keep_statistics: bool = False) -> None:
        """Empty the buffer; `keep_statistics` keeps its returns and lengths of the running episodes."""
        if self.buffer is not None:
            self.buffer.reset(keep_statistics)

    def reset_stat(self) -> None:
        """Set `collect_step`, `collect_episode` and `collect_time` to zero."""
        self.collect_step, self.collect_episode, self.collect_time = 0, 0, 0.0
        self._restarted_at = 0

    def state_dict(self) -> CollectorState:
        """Return what a collector needs to go on: generators, counters, the seeds to come, wrappers and hooks.

        Simulators cannot give their state: call `restart_envs` first, so that going on and resuming are the same.
        """
        return {
            "rng": self.rng.state_dict(),
            "counters": {
                "step": self.collect_step,
                "episode": self.collect_episode,
                "time": self.collect_time,
                "longest": self.longest_episode,
                "restarted_at": self._restarted_at,
            },
            "pending_seeds": self._pending_seeds,
            "stagger_at": self._stagger_at,
            "env": self.env.state_dict() if hasattr(self.env, "state_dict") else None,
            "hooks": [hook.state_dict() for hook in self.hooks],
        }

    def load_state_dict(self, state: CollectorState) -> None:
        """Continue from `state`, with new episodes; the buffer is not part of it."""
        self.rng.load_state_dict(state["rng"])
        counters = state["counters"]
        self.collect_step, self.collect_episode = int(counters["step"]), int(counters["episode"])
        self.collect_time = float(counters["time"])
        self._longest, self._restarted_at = int(counters["longest"]), int(counters["restarted_at"])
        self._rows = None
        self._pending_seeds, self._stagger_at = state["pending_seeds"], state["stagger_at"]
        if state["env"] is not None and hasattr(self.env, "load_state_dict"):
            self.env.load_state_dict(state["env"])
        for hook, hook_state in zip(self.hooks, state["hooks"], strict=False):
            hook.load_state_dict(hook_state)

    def restart_envs(self) -> None:
        """Start new episodes at the next `collect`, in envs seeded anew from the collector's own generator.

        Where several take part in each step, each begins anew once more in the time of the longest episode so far.
        """
        n, self._longest, self._restarted_at = self.env.num_envs, self.longest_episode, self.collect_step
        self.reset_env(self.rng.draw_seed())
        self._stagger_at = self.rng.numpy.integers(1, self._longest + 1, n) if self._longest and n > 1 else None

    @property
    def longest_episode(self) -> int:
        """Steps of the longest episode so far; those under way count with the steps that they have made."""
        return self._longest if self._rows is None else max(self._longest, int(self._rows.lens.max()))

    @property
    def steps_since_restart(self) -> int:
        """Steps of each env, on average, since `restart_envs` (else since the beginning)."""
        return (self.collect_step - self._restarted_at) // self.env.num_envs

    # the loop

    def _check_kind(self) -> None:
        if getattr(self.env, "is_async", False):
            raise ConfigError("the env is asynchronous (wait_num, timeout, batch_size); use AsyncCollector")

    def _loop(
        self,
        quota: np.ndarray | None,
        remaining: int,
        random: float,
        render: float | None,
        reset_kwargs: Mapping[str, object],
        ended: Ended,
    ) -> None:
        rows = self._start(quota, reset_kwargs)
        while remaining > 0:
            ids = None if rows.is_all else rows.env_ids
            act, env_act, policy_state, stored = self._act(rows, random)
            outcome = self.env.step(env_act, ids)
            done = self._record(rows, act, stored, outcome, ended)
            rows.advance(outcome[0], policy_state)
            if render is not None:
                self.env.render()
                time.sleep(render)
            if quota is None:
                remaining -= len(rows)
            elif done is not None:
                remaining -= len(done)
                rows, done = self._rest(rows, done, quota)
            if done is not None and len(done):
                self._begin_anew(rows, done, reset_kwargs)
            if self._stagger_at is not None and quota is None:
                self._stagger(rows, self._stagger_at, reset_kwargs)

    def _begin_anew(self, rows: Rows, which: np.ndarray, reset_kwargs: Mapping[str, object]) -> None:
        """Reset the envs of the rows `which` (indices)."""
        ids = rows.env_ids[which]
        obs, _ = self.env.reset(ids, **reset_kwargs)
        self._border.check_obs(obs, ids)
        rows.restart(which, obs)

    def _stagger(self, rows: Rows, stagger_at: np.ndarray, reset_kwargs: Mapping[str, object]) -> None:
        """Some time after a restart, begin new episodes in the envs whose turn it is: they have all begun at once.

        In step, a batch from many envs says little more than one from a single one, and so they would stay for long.
        """
        now = self.steps_since_restart
        which = np.flatnonzero((stagger_at == now) & (rows.lens > 0))  # else it has just begun anew
        if len(which):
            self._flush()
            if self.buffer is not None:
                self.buffer.end_episodes(which)
            self._begin_anew(rows, which, reset_kwargs)
        if now >= stagger_at.max():
            self._stagger_at = None

    def _rest(self, rows: Rows, done: np.ndarray, quota: np.ndarray) -> tuple[Rows, np.ndarray]:
        """Count ended episodes against the quotas; leave out the envs that have filled theirs."""
        quota[rows.env_ids[done]] -= 1
        works = quota[rows.env_ids] > 0
        if works.all():
            return rows, done
        self._stale[rows.env_ids[~works]] = True
        return rows.take(works), np.flatnonzero(np.isin(np.flatnonzero(works), done))

    def _start(self, quota: np.ndarray | None, reset_kwargs: Mapping[str, object]) -> Rows:
        """Reset the envs that need it and return the rows of those that take part."""
        if quota is None and self._rows is not None and not np.count_nonzero(self._stale):
            return self._rows
        taking_part = np.ones(self.env.num_envs, dtype=bool) if quota is None else quota > 0
        ids = np.flatnonzero(self._stale & taking_part)
        if self._rows is None or self._pending_seeds is not None or len(ids) == len(taking_part):
            self._rows = self._first_rows(reset_kwargs)
        elif len(ids):
            self._begin_anew(self._rows, ids, reset_kwargs)
            self._stale[ids] = False
        return self._rows if taking_part.all() else self._rows.take(taking_part)

    def _first_rows(self, reset_kwargs: Mapping[str, object]) -> Rows:
        """Reset all envs, seeded anew where a seed waits."""
        n = self.env.num_envs
        self._abandon()  # those of the buffer, too, which another collector, or another run, may have filled
        if self._pending_seeds is not None:
            self.env.seed(self._pending_seeds)
            self._pending_seeds = None
        obs, _ = self.env.reset(None, **reset_kwargs)
        self._border.check_obs(obs, np.arange(n))
        self._stale[:] = False
        return Rows.first(obs, n, self.policy)

    def _act(self, rows: Rows, random: float) -> tuple[np.ndarray, np.ndarray, object, object]:
        """Return actions in the policy's scale, in the env's, the next policy state, and what is stored."""
        policy = self.policy
        drawn = act_randomly(policy, rows.obs, len(rows), self.rng.numpy) if random else None
        if drawn is not None and random >= 1 and rows.policy_state is None:
            return *drawn, None, None
        # A recurrent policy is asked even where its action is not taken: its state must see every observation.
        is_evaluation = None if self.exploration_noise else np.ones(len(rows), dtype=bool)
        request = RolloutRequest(
            obs=rows.obs, policy_state=rows.policy_state, is_evaluation=is_evaluation, on_reset=rows.on_reset
        )
        result = policy.rollout(request)
        act, env_act = result.action, policy.map_action(result.action)
        if drawn is not None:
            act, env_act = drawn if random >= 1 else mixed((act, env_act), drawn, random, self.rng.numpy)
        return act, env_act, result.policy_state, with_state(policy, result.analyzed_result, rows.policy_state)

    def _record(
        self, rows: Rows, act: np.ndarray, stored: object, outcome: StepReturn, ended: Ended
    ) -> np.ndarray | None:
        """Check, store and count one vector step; return the indices of the rows that are done, None if none is."""
        obs_next, rew, terminated, truncated, info = outcome
        self._border.check_step(obs_next, rew, terminated, truncated, rows.env_ids, rows.lens)
        slots = None
        if self.buffer is not None:
            fields: dict[str, object] = {
                "obs": rows.obs,
                "act": act,
                "rew": rew,
                "terminated": terminated,
                "truncated": truncated,
                "obs_next": obs_next,
            }
            if stored is not None:
                fields["policy"] = stored
            if self._stored_info:
                fields["info"] = {key: info_column(info, key) for key in self._stored_info}
            if not (self._may_stage and rows.is_all and self._staging is not None and self._staging.put(fields)):
                # None: every ring in order, which spares the buffer from looking
                ids = None if rows.is_all and len(rows) == self.buffer.buffer_num else rows.env_ids
                slots = self.buffer.add(tree.rebuild(_EMPTY, fields), ids)[0]
        if self.see is not None:
            self.see(rows.obs)
        self.collect_step += len(rows)
        rows.count(rew)
        for step_hook in self._step_hooks:
            step_hook(
                StepEvent(
                    self.env, rows.env_ids, rows.obs, act, rew, terminated, truncated, obs_next, info, stored,
                    self.buffer, slots, rows.lens,
                )
            )  # fmt: skip
        ended_rows: np.ndarray = terminated | truncated
        if not np.count_nonzero(ended_rows):
            return None
        done = np.flatnonzero(ended_rows)
        returns, lens = rows.returns[done], rows.lens[done]
        ended.append((returns, lens, successes(info, done)))
        self.collect_episode += len(lens)
        if self._episode_hooks:
            last = None if slots is None else slots[done]
            for event in ended_episodes(self.buffer, rows.env_ids[done], returns, lens, last):
                for episode_hook in self._episode_hooks:
                    episode_hook(event)
        return done

    def _flush(self) -> None:
        if self._staging is not None:
            self._staging.flush()

    def _abandon(self) -> None:
        """Give up the episodes under way; what was stored of them ends there."""
        self._stale[:] = True
        self._flush()
        if self.buffer is not None:
            self.buffer.end_episodes()
