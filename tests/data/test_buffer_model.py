"""Random operations on buffers against a plain-Python model: lists of rows, walked one step at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.data import (
    Batch,
    CachedReplayBuffer,
    Hindsight,
    PrioritizedVectorReplayBuffer,
    Priority,
    ReplayBuffer,
    Sampling,
    VectorReplayBuffer,
)


@dataclass
class Row:
    obs: int
    rew: float
    terminated: bool
    truncated: bool
    first: bool
    cut: bool = False  # the env was reset from outside after this row

    @property
    def last(self) -> bool:
        return self.terminated or self.truncated or self.cut


@dataclass
class Ring:
    """Rows of one environment; observations count up, so a successor is obs + 1 and nothing else."""

    size: int
    rows: deque[Row] = field(default_factory=deque)
    clock: int = 0
    ep_rew: float = 0.0
    ep_len: int = 0
    fresh: bool = True

    def add(self, rew: float, terminated: bool, truncated: bool) -> tuple[int, float, int]:
        obs = self.clock
        self.rows.append(Row(obs, rew, terminated, truncated, self.fresh))
        if len(self.rows) > self.size:
            self.rows.popleft()
        done = terminated or truncated
        self.fresh = done
        self.clock += 100 if done else 1
        self.ep_rew += rew
        self.ep_len += 1
        result = (obs, self.ep_rew, self.ep_len) if done else (obs, 0.0, 0)
        if done:
            self.ep_rew, self.ep_len = 0.0, 0
        return result

    def cut(self) -> None:
        if self.rows:
            self.rows[-1].cut = True
        self.fresh = True
        self.clock += 100
        self.ep_rew, self.ep_len = 0.0, 0

    def stack(self, at: int, num: int) -> list[int]:
        """Frames up to row `at`, the first stored one of the episode repeating."""
        frames = [self.rows[at].obs]
        while len(frames) < num:
            if at > 0 and not self.rows[at - 1].last:
                at -= 1
            frames.insert(0, self.rows[at].obs)
        return frames

    def n_step(self, at: int, n: int, gamma: float) -> tuple[float, float, int]:
        """Discounted reward, discount and the last row."""
        rew, scale = 0.0, 1.0
        for _ in range(n):
            rew += scale * self.rows[at].rew
            scale *= gamma
            if self.rows[at].last or at == len(self.rows) - 1:
                break
            at += 1
        else:
            at -= 1
        return rew, 0.0 if self.rows[at].terminated else scale, at


def obs_of(value: int, ring: int) -> list[float]:
    return [float(value), float(ring)]


ops = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"), st.lists(st.tuples(st.booleans(), st.sampled_from("rrrrtu")), min_size=3, max_size=3)
        ),
        st.tuples(st.just("cut"), st.sets(st.integers(0, 2))),
        st.tuples(st.just("reset"), st.booleans()),
    ),
    max_size=40,
)
# Mostly additions: a reset in every third operation would never let a ring wrap.
ops = ops.map(lambda found: [op for i, op in enumerate(found) if op[0] != "reset" or i % 7 == 0])


def drive(buffer: ReplayBuffer, operations: list, num: int) -> list[Ring]:
    """Run the operations on the buffer and the model, comparing what `add` returns."""
    rings = [Ring(buffer.maxsize // num) for _ in range(num)]
    rng = np.random.default_rng(0)
    for op, arg in operations:
        if op == "reset":
            buffer.reset()
            for ring in rings:
                ring.cut()
                ring.rows.clear()
        elif op == "cut":
            ids = sorted(i for i in arg if i < num)
            buffer.end_episodes(ids)
            for i in ids:
                rings[i].cut()
        else:
            chosen = [i for i, (take, _) in enumerate(arg) if take and i < num]
            if not chosen:
                continue
            rew = rng.integers(-3, 4, len(chosen)).astype(np.float32)
            ends = [arg[i][1] for i in chosen]
            expected = [rings[i].add(float(rew[k]), ends[k] == "t", ends[k] == "u") for k, i in enumerate(chosen)]
            obs = np.array([obs_of(e[0], i) for e, i in zip(expected, chosen, strict=True)])
            batch = Batch(
                obs=obs,
                act=np.array([e[0] for e in expected]),
                rew=rew,
                terminated=np.array([e == "t" for e in ends]),
                truncated=np.array([e == "u" for e in ends]),
                obs_next=obs + np.array([1.0, 0.0]),
            )
            ids = None if len(chosen) == num and rng.random() < 0.5 else np.array(chosen)
            slot, ep_rew, ep_len, ep_start = buffer.add(batch, ids)
            assert ep_rew.tolist() == [e[1] for e in expected]
            assert ep_len.tolist() == [e[2] for e in expected]
            assert (slot // rings[0].size).tolist() == chosen
            assert (ep_start // rings[0].size).tolist() == chosen
    return rings


def rows_of(rings: list[Ring]) -> list[tuple[int, int]]:
    return [(i, at) for i, ring in enumerate(rings) for at in range(len(ring.rows))]


options = st.fixed_dictionaries(
    {"stack_num": st.integers(1, 4), "ignore_obs_next": st.booleans()},
)


def check(buffer: ReplayBuffer, rings: list[Ring], n: int, gamma: float) -> None:
    where = rows_of(rings)
    assert len(buffer) == len(where)
    slots = buffer.sample_indices(0)
    assert len(slots) == len(where)
    if not where:
        return
    rows = [rings[i].rows[at] for i, at in where]
    slot_of = dict(zip(where, slots.tolist(), strict=True))
    prev = [slot_of[i, at - 1] if at and not rings[i].rows[at - 1].last else slot_of[i, at] for i, at in where]
    nxt = [
        slot_of[i, at + 1] if at + 1 < len(rings[i].rows) and not rings[i].rows[at].last else slot_of[i, at]
        for i, at in where
    ]
    assert buffer.prev(slots).tolist() == prev
    assert buffer.next(slots).tolist() == nxt
    unfinished = [slot_of[i, len(r.rows) - 1] for i, r in enumerate(rings) if r.rows and not r.rows[-1].last]
    assert buffer.unfinished_index().tolist() == unfinished

    num = buffer.stack_num
    single, _ = buffer.sample(0)
    complete, index = buffer.sample(0, Sampling(n_step=n, gamma=gamma))
    assert index.tolist() == slots.tolist()
    assert single.act.tolist() == [row.obs for row in rows]
    assert single.rew.tolist() == [row.rew for row in rows]
    assert single.discount.tolist() == pytest.approx([0.0 if row.terminated else 0.99 for row in rows])
    expected = [rings[i].n_step(at, n, gamma) for i, at in where]
    assert complete.rew.tolist() == pytest.approx([e[0] for e in expected], abs=1e-4)
    assert complete.discount.tolist() == pytest.approx([e[1] for e in expected], abs=1e-6)
    for batch, finals in ((single, [at for _, at in where]), (complete, [e[2] for e in expected])):
        last = [rings[i].rows[at] for (i, _), at in zip(where, finals, strict=True)]
        assert batch.terminated.tolist() == [row.terminated for row in last]
        assert batch.truncated.tolist() == [row.truncated for row in last]
        stacks = [[obs_of(f, i) for f in rings[i].stack(at, num)] for i, at in where]
        nexts = [
            [obs_of(f, i) for f in [*rings[i].stack(at, num)[1:], rings[i].rows[at].obs + 1]]
            for (i, _), at in zip(where, finals, strict=True)
        ]
        if num == 1:
            stacks, nexts = [s[-1] for s in stacks], [s[-1] for s in nexts]
        np.testing.assert_array_equal(batch.obs, stacks)
        np.testing.assert_array_equal(batch.obs_next, nexts)

    rollout = buffer.rollout()
    lengths = {len(r.rows) for r in rings}
    cut = [[row.last or at == len(r.rows) - 1 for at, row in enumerate(r.rows)] for r in rings]
    if len(lengths) == 1:
        np.testing.assert_array_equal(rollout.cut, np.array(cut).T)
        np.testing.assert_array_equal(rollout.act, np.array([[row.obs for row in r.rows] for r in rings]).T)
    else:
        np.testing.assert_array_equal(rollout.cut, np.concatenate(cut)[:, None])
        np.testing.assert_array_equal(rollout.act, np.array([row.obs for row in rows])[:, None])


@settings(max_examples=150, deadline=None)
@given(ops, options, st.integers(1, 6), st.integers(1, 4), st.sampled_from([0.5, 0.9, 1.0]))
def test_vector_buffer_follows_the_model(operations, options, size, n, gamma):
    buffer = VectorReplayBuffer(3 * size, 3, **options)
    check(buffer, drive(buffer, operations, 3), n, gamma)


@settings(max_examples=60, deadline=None)
@given(ops, options, st.integers(1, 6), st.integers(1, 4))
def test_single_buffer_follows_the_model(operations, options, size, n):
    buffer = ReplayBuffer(size, **options)
    check(buffer, drive(buffer, operations, 1), n, 0.9)


@settings(max_examples=60, deadline=None)
@given(ops, ops, options, st.integers(1, 6))
def test_a_restored_buffer_goes_on_like_the_model(before, after, options, size):
    """Save in the middle, load into a new buffer, go on there."""
    first = VectorReplayBuffer(3 * size, 3, **options)
    rings = drive(first, before, 3)
    second = VectorReplayBuffer(3 * size, 3, **options)
    second.load_state_dict(first.state_dict())
    check(second, rings, 3, 0.9)
    after = [op for op in after if op[0] != "reset"]
    for buffer in (first, second):
        drive_quietly(buffer, after)
    if len(first):
        one, two = first.sample(0, Sampling(n_step=2))[0], second.sample(0, Sampling(n_step=2))[0]
        for name, value in one.items():
            if name not in ("info", "policy"):
                np.testing.assert_array_equal(value, two[name], err_msg=name)
        assert first.sample_indices(5 if first.maxsize >= 5 else 1).tolist() == (
            second.sample_indices(5 if second.maxsize >= 5 else 1).tolist()
        )


def drive_quietly(buffer: ReplayBuffer, operations: list) -> None:
    for k, (op, arg) in enumerate(operations):
        if op == "cut":
            buffer.end_episodes(sorted(arg))
            continue
        ids = [i for i, (take, _) in enumerate(arg) if take]
        if ids:
            obs = np.full((len(ids), 2), 1000.0 + k)
            ends = np.array([arg[i][1] for i in ids])
            flags = {"terminated": ends == "t", "truncated": ends == "u"}
            buffer.add(Batch(obs=obs, act=np.arange(len(ids)), rew=np.ones(len(ids)), obs_next=obs + 1, **flags), ids)


@settings(max_examples=60, deadline=None)
@given(ops, st.integers(1, 6), st.sampled_from([0.0, 0.5, 1.0]))
def test_priorities_sum_up_and_only_stored_rows_are_drawn(operations, size, alpha):
    buffer = PrioritizedVectorReplayBuffer(3 * size, 3, alpha=alpha, beta=1.0, seed=0)
    drive(buffer, operations, 3)
    stored = buffer.sample_indices(0)
    tree = buffer.priorities.tree
    number = tree[np.arange(tree.size)]
    assert tree.total == pytest.approx(number.sum())
    assert sorted(np.flatnonzero(number)) == sorted(stored)
    if len(stored) == 0:
        return
    new = np.arange(1.0, len(stored) + 1)
    buffer.update_weight(stored, new)
    np.testing.assert_allclose(tree[stored], (new + np.finfo(np.float32).eps) ** alpha)
    batch, index = buffer.sample(min(3, buffer.maxsize))
    assert set(index) <= set(stored.tolist())
    raw = 1.0 / tree[index]
    np.testing.assert_allclose(batch.weight, raw / raw.max(), rtol=1e-5)


def goal_buffer(size: int, horizon: int, k: float, **options) -> VectorReplayBuffer:
    def reward(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return np.where((achieved == desired).all(axis=-1), 0.0, -1.0)

    return VectorReplayBuffer(
        3 * size, 3, hindsight=Hindsight(compute_reward_fn=reward, horizon=horizon, future_k=k), seed=1, **options
    )


@settings(max_examples=80, deadline=None)
@given(
    ops,
    st.integers(2, 8),
    st.integers(1, 6),
    st.integers(1, 3),
    st.booleans(),
    st.integers(1, 3),
    st.booleans(),
)
def test_hindsight_goals_lie_ahead_in_the_same_episode(operations, size, horizon, n, ignore, stack, prioritised):
    """Also with priorities, n-step returns and frame stacks at once; `obs` is (clock, env), goals are the clock."""
    options = {"priority": Priority()} if prioritised else {}
    buffer = goal_buffer(size, horizon, 4.0, ignore_obs_next=ignore, stack_num=stack, **options)
    real_add = buffer.add

    def add(batch, ids):
        def goals(obs):
            return Batch(achieved_goal=obs, desired_goal=np.full_like(obs, -7.0), observation=obs)

        batch.obs, batch.obs_next = goals(batch.obs), goals(batch.obs_next)
        return real_add(batch, ids)

    buffer.add = add
    rings = drive(buffer, operations, 3)
    where = rows_of(rings)
    if not where:
        return
    before = buffer.state_dict()["columns"]
    gamma = 0.5
    batch, _ = buffer.sample(0, Sampling(n_step=n, gamma=gamma))
    for column, name in ((before["obs"], "desired_goal"), (before, "rew")):
        now = buffer.state_dict()["columns"]
        np.testing.assert_array_equal((now["obs"] if name == "desired_goal" else now)[name], column[name])
    for k, (i, at) in enumerate(where):
        ring = rings[i]
        goal = batch.obs.desired_goal[k]
        goal = goal if stack == 1 else goal[-1]
        np.testing.assert_array_equal(batch.obs.desired_goal[k], np.broadcast_to(goal, batch.obs.desired_goal[k].shape))
        np.testing.assert_array_equal(batch.obs_next.desired_goal[k], batch.obs.desired_goal[k])
        if goal[0] == -7.0:  # kept: the stored rewards count
            assert batch.rew[k] == pytest.approx(ring.n_step(at, n, gamma)[0])
            continue
        end = at
        while end < len(ring.rows) - 1 and not ring.rows[end].last:
            end += 1
        end = min(end, at + horizon - 1)
        assert goal[1] == i
        assert ring.rows[at].obs + 1 <= goal[0] <= ring.rows[end].obs + 1
        expected, scale = 0.0, 1.0
        for row in list(ring.rows)[at : ring.n_step(at, n, gamma)[2] + 1]:
            expected += scale * (0.0 if row.obs + 1 == goal[0] else -1.0)
            scale *= gamma
        assert batch.rew[k] == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(ops, st.integers(1, 8), st.integers(1, 4), st.integers(0, 2), st.integers(1, 4), st.booleans())
def test_sequences_follow_the_ring(operations, size, length, burn_in, n, ignore):
    buffer = VectorReplayBuffer(3 * size, 3, ignore_obs_next=ignore, seed=0)
    rings = drive(buffer, operations, 3)
    where = rows_of(rings)
    if not where:
        return
    span = length + burn_in
    batch, index = buffer.sample(0, Sampling(sequence_length=length, burn_in=burn_in, n_step=n, gamma=0.5))
    assert index.tolist() == buffer.sample_indices(0).tolist()
    for k, (i, at) in enumerate(where):
        ring = rings[i]
        start = max(0, min(at, len(ring.rows) - span))
        warm = max(0, min(span, len(ring.rows)) - length)
        for t in range(span):
            row = ring.rows[min(start + t, len(ring.rows) - 1)]
            real = start + t < len(ring.rows)
            assert batch.obs[t, k].tolist() == obs_of(row.obs, i)
            assert batch.mask[t, k] == (real and t >= warm)
            assert batch.weight[t, k] == float(real and t >= warm)
            assert batch.on_reset[t, k] == (real and row.first)
            here = min(start + t, len(ring.rows) - 1)
            rew, discount, last = ring.n_step(here, min(n, span - t), 0.5)
            assert ("final" in batch) == (n > 1)
            assert n == 1 or batch.final[t, k] == t + last - here
            assert batch.rew[t, k] == pytest.approx(rew)
            assert batch.discount[t, k] == pytest.approx(discount)
            assert batch.obs_next[t, k].tolist() == obs_of(ring.rows[last].obs + 1, i)


@settings(max_examples=60, deadline=None)
@given(ops, st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_cached_buffer_holds_whole_episodes(operations, size, longest, ignore):
    """The model: finished episodes (their last `longest` rows) in the order in which they ended, and running ones."""
    buffer = CachedReplayBuffer(ReplayBuffer(size, ignore_obs_next=ignore), 3, longest)
    main: list[int] = []
    running: list[list[int]] = [[], [], []]
    clock = 0
    for op, arg in operations:
        if op == "reset":
            continue
        if op == "cut":
            ids = sorted(arg)
            buffer.end_episodes(ids)
            for i in ids:
                main += running[i][-longest:]
                running[i] = []
            continue
        ids = [i for i, (take, _) in enumerate(arg) if take]
        if not ids:
            continue
        act = np.arange(clock, clock + len(ids))
        clock += len(ids)
        ends = np.array([arg[i][1] for i in ids])
        obs = np.stack([act, act], 1).astype(np.float64)
        batch = Batch(
            obs=obs, act=act, rew=np.ones(len(ids)), terminated=ends == "t", truncated=ends == "u", obs_next=obs + 0.5
        )
        slot, _, ep_len, _ = buffer.add(batch, ids)
        for k, i in enumerate(ids):
            running[i].append(int(act[k]))
            if ends[k] in "tu":
                assert ep_len[k] == len(running[i]) or longest < len(running[i])
                main += running[i][-longest:]
                running[i] = []
        assert all(buffer.act[slot[k]] == act[k] for k in range(len(ids)) if slot[k] >= size or k == len(ids) - 1)
    expected = main[-size:] + [a for rows in running for a in rows[-longest:]]
    assert len(buffer) == len(expected)
    if expected:
        batch, _ = buffer.sample(0)
        assert batch.act.tolist() == expected
        # Inside an episode the next row is the successor (obs + 1 or more); at its end the stored successor stays.
        inside = buffer.next(buffer.sample_indices(0)) != buffer.sample_indices(0)
        np.testing.assert_array_equal(batch.obs_next[~inside, 0], np.array(expected)[~inside] + 0.5)
