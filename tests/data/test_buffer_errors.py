"""Bad input: refused with the field named, and nothing half-written."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from argosy.data import (
    Batch,
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    Priority,
    ReplayBuffer,
    Sampling,
    VectorReplayBuffer,
)
from argosy.errors import ConfigError, DataError


def batch(n: int = 2, **changes) -> Batch:
    fields = {
        "obs": np.ones((n, 3), np.float32),
        "act": np.zeros(n, np.int64),
        "rew": np.ones(n, np.float32),
        "terminated": np.zeros(n, bool),
        "truncated": np.zeros(n, bool),
        "obs_next": np.ones((n, 3), np.float32),
    }
    return Batch(fields | changes)


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": np.ones((2, 4), np.float32)}, r"obs has shape \(2, 4\); the buffer stores \(2, 3\)"),
        ({"obs_next": np.ones((2, 4), np.float32)}, r"obs_next has shape \(2, 4\)"),
        ({"obs": np.ones((2, 3), np.complex64)}, "obs has dtype complex64; the buffer stores float32"),
        ({"obs": np.array([["a"] * 3] * 2)}, "obs has dtype (<U1|object)"),
        ({"obs": np.array([[None] * 3] * 2)}, "obs has dtype object"),
        ({"obs": {"image": np.ones((2, 3))}}, r"obs has the keys \['image'\]; the buffer stores one array"),
        ({"act": np.zeros(2)}, "act has dtype float64; the buffer stores int64"),
        ({"act": np.array([1, 2**63], np.uint64)}, "act holds 9223372036854775808, beyond what the buffer's int64"),
        ({"act": np.zeros((2, 1), np.int64)}, r"act has shape \(2, 1\)"),
        ({"rew": np.array([1.0, np.nan])}, r"rew is NaN in sub-buffer \(environment\) \[1\]; nothing was stored"),
        ({"rew": np.ones(3)}, r"rew has shape \(3,\); the buffer stores \(2,\)"),
        ({"truncated": np.zeros(2)}, "truncated has dtype float64; the buffer stores bool"),
        ({"info": [{"lives": [1, 2]}, {"lives": [1]}]}, "info.lives (is ragged|has dtype object)"),
        ({"info": [{"lives": "many"}, {"lives": "few"}]}, "info.lives has dtype (<U4|object)"),
        ({"info": [{"lives": [1, 2]}, {"lives": [3, 4]}]}, r"info.lives has shape \(2, 2\); the buffer stores \(2,\)"),
        ({"policy": Batch(logp=np.ones(3))}, r"policy.logp has shape \(3,\)"),
    ],
)
def test_refused_and_nothing_written(ignore, changes, message):
    buffer = VectorReplayBuffer(8, 2, ignore_obs_next=ignore, info_keys=("lives",))
    good = batch(info=[{"lives": 1}, {"lives": 2}], policy=Batch(logp=np.ones(2)))
    buffer.add(good)
    before = buffer.state_dict()
    with pytest.raises(DataError, match=message):
        buffer.add(batch(**changes))
    after = buffer.state_dict()
    assert_same(before, after)
    assert len(buffer) == 2
    buffer.add(good)
    assert len(buffer) == 4


def assert_same(one: object, two: object) -> None:
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same(one[key], two[key])
    else:
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": [[1.0, 2.0], [3.0]]}, "obs"),
        ({"obs": np.array([None, None])}, "obs has dtype object"),
        ({"obs": Batch()}, "obs is missing or empty"),
        ({"rew": {"a": np.ones(2)}}, "rew is a container"),
        ({"terminated": np.zeros((2, 1), bool)}, "terminated .*has several flags per row"),
        ({"act": np.array(["left", "right"])}, "act has dtype (<U5|object)"),
        ({"rew": np.array([np.nan, 0.0])}, "rew is NaN"),
    ],
)
def test_the_first_rows_are_checked_too(changes, message):
    buffer = VectorReplayBuffer(8, 2)
    with pytest.raises(DataError, match=message):
        buffer.add(batch(**changes))
    assert len(buffer) == 0
    buffer.add(batch())
    assert len(buffer) == 2


def test_missing_field_is_named():
    fields = batch().to_dict()
    del fields["truncated"]
    with pytest.raises(DataError, match="no field 'truncated'"):
        VectorReplayBuffer(8, 2).add(Batch(fields))


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ([{"lives": [1, 2]}, {"lives": [1]}], "info.lives is ragged"),
        ([{"lives": "many"}, {"lives": "few"}], "info.lives has dtype <U4"),
        ([{"lives": {"a": 1}}, {}], r"info.lives has the keys \['a'\]"),
    ],
)
def test_info_as_environments_give_it(info, message):
    """One dict per env, not parsed into a Batch: keys come and go, lists are fine, what cannot be stored is named."""
    buffer = VectorReplayBuffer(8, 2, info_keys=("lives", "place"))
    fields = batch().to_dict()
    for rows in ([{}, {}], [{"lives": 3, "junk": object()}, {}], [{"place": [1, 2]}, {"lives": 2, "place": [3, 4]}]):
        buffer.add(SimpleNamespace(**fields, info=rows))
    assert buffer[:].info.lives.tolist() == [0, 3, 0, 0, 0, 2]
    assert buffer[:].info.place.tolist() == [[0, 0], [0, 0], [1, 2], [0, 0], [0, 0], [3, 4]]
    with pytest.raises(DataError, match=message):
        buffer.add(SimpleNamespace(**fields, info=info))
    assert len(buffer) == 6


def test_float64_goes_into_a_float32_schema():
    buffer = VectorReplayBuffer(8, 2)
    buffer.add(batch())
    buffer.add(batch(obs=np.full((2, 3), 0.5)))
    assert buffer[:].obs[:, 0].tolist() == [1.0, 0.5, 1.0, 0.5]


def test_flags_may_be_zeros_and_ones():
    buffer = VectorReplayBuffer(8, 2)
    buffer.add(batch(terminated=np.array([0, 1]), truncated=np.zeros(2, np.uint8)))
    assert buffer[:].terminated.tolist() == [False, True]
    with pytest.raises(DataError, match="terminated has dtype int64"):
        buffer.add(batch(terminated=np.array([0, 2])))
    assert len(buffer) == 2


def test_column_that_is_not_there_yet():
    buffer = ReplayBuffer(4)
    assert not hasattr(buffer, "obs")
    with pytest.raises(DataError, match="nothing was stored"):
        _ = buffer.obs


def test_buffer_ids():
    buffer = VectorReplayBuffer(9, 3)
    with pytest.raises(DataError, match="got 2 rows for 3 sub-buffers"):
        buffer.add(batch())
    with pytest.raises(DataError, match="1 entries for 2 rows"):
        buffer.add(batch(), [0])
    with pytest.raises(DataError, match=r"\[1, 3\]; ids must be within 0 .. 2"):
        buffer.add(batch(), [1, 3])
    with pytest.raises(DataError, match="one row per call"):
        buffer.add(batch(), [1, 1])
    with pytest.raises(DataError, match=r"within 0 \.\. 1"):
        CachedReplayBuffer(ReplayBuffer(3), 2, 3).add(batch(), [-1, 0])


@pytest.mark.parametrize("size", [0, -1])
def test_buffer_without_slots(size):
    with pytest.raises(ConfigError, match="at least 1"):
        ReplayBuffer(size)
    with pytest.raises(ConfigError, match="at least 1"):
        VectorReplayBuffer(size, 2)
    with pytest.raises(ConfigError, match="buffer_num is 0"):
        VectorReplayBuffer(4, 0)
    with pytest.raises(ConfigError, match="must be >= 1"):
        CachedReplayBuffer(ReplayBuffer(3), size, 3)


def test_settings_out_of_range(tmp_path):
    with pytest.raises(ConfigError, match="stack_num is 0"):
        ReplayBuffer(3, stack_num=0)
    with pytest.raises(ConfigError, match="choose one"):
        ReplayBuffer(3, device="cpu", storage_dir=tmp_path)
    with pytest.raises(ConfigError, match="device is 'gpu', which cannot be used"):
        ReplayBuffer(3, device="gpu")
    with pytest.raises(ConfigError, match=r"Sampling\.gamma is 1.5"):
        Sampling(gamma=1.5)
    with pytest.raises(ConfigError, match=r"Sampling\.n_step is 0"):
        Sampling(n_step=0)
    with pytest.raises(ConfigError, match="without sequence_length"):
        Sampling(burn_in=2)
    with pytest.raises(ConfigError, match=r"Priority\.alpha is -1"):
        Priority(alpha=-1)
    with pytest.raises(ConfigError, match=r"Hindsight\.horizon is 0"):
        HERReplayBuffer(3, lambda a, d: a, 0)


def test_types_that_a_device_cannot_hold():
    buffer = VectorReplayBuffer(4, 2, device="cpu")
    with pytest.raises(DataError, match="act has dtype uint64, which torch cannot store"):
        buffer.add(batch(act=np.zeros(2, np.uint64)))
    assert len(buffer) == 0


def test_batch_larger_than_the_buffer():
    buffer = ReplayBuffer(5)
    with pytest.raises(DataError, match=r"cannot sample 3 transitions: the buffer is empty \(0 of 5\)"):
        buffer.sample(3)
    buffer.add(batch(1))
    with pytest.raises(ConfigError, match="batch_size is 6; the buffer holds at most 5 transitions"):
        buffer.sample(6)
    with pytest.raises(DataError, match="nothing to index"):
        ReplayBuffer(5)[:]
    with pytest.raises(DataError, match="nothing was stored"):
        _ = ReplayBuffer(5).obs


def test_obs_next_is_not_a_column_when_ignored():
    buffer = ReplayBuffer(5, ignore_obs_next=True)
    buffer.add(batch(1))
    with pytest.raises(DataError, match="ignore_obs_next=True"):
        _ = buffer.obs_next


def test_priorities_are_checked_before_any_is_set():
    buffer = PrioritizedReplayBuffer(5)
    for _ in range(3):
        buffer.add(batch(1))
    before = buffer.priorities.tree.nodes.copy()
    for indices, priorities, message in [
        ([0, 1], [1.0], "2 indices and 1 priorities"),
        ([0, 1], [1.0, np.nan], r"priorities\[1\] of slot 1 is nan"),
        ([0, 1], [1.0, np.inf], "is inf"),
        ([0, 5], [1.0, 1.0], "slots are 0 .. 4"),
        ([0, -1], [1.0, 1.0], "slots are 0 .. 4"),
        ([0, 4], [1.0, 1.0], "slot 4 holds no transition"),
    ]:
        with pytest.raises(DataError, match=message):
            buffer.update_weight(np.array(indices), np.array(priorities))
        assert buffer.priorities.tree.nodes.tolist() == before.tolist()
    with pytest.raises(ConfigError, match="draws uniformly"):
        ReplayBuffer(5).update_weight([0], [1.0])
    with pytest.raises(ConfigError, match="draws uniformly"):
        ReplayBuffer(5).set_beta(1.0)


def test_hindsight_needs_goals_and_rewards():
    buffer = HERReplayBuffer(5, lambda achieved, desired: np.zeros(1), horizon=3)
    buffer.add(batch(1))
    with pytest.raises(DataError, match="achieved_goal and desired_goal; the buffer's obs has no keys"):
        buffer.sample(2)
    for reward, message in ((lambda a, d: np.zeros(999), r"shape \(999,\)"), (lambda a, d: a[:, 0] * np.nan, "NaN")):
        buffer = HERReplayBuffer(5, reward, horizon=3, future_k=1e9)
        goal = {key: np.ones((1, 2)) for key in ("observation", "achieved_goal", "desired_goal")}
        buffer.add(batch(1, obs=goal, obs_next=goal))
        with pytest.raises(DataError, match=message):
            buffer.sample(5)
