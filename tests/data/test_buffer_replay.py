"""ReplayBuffer and VectorReplayBuffer: values worked out by hand."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from argosy.data import (
    Batch,
    CachedReplayBuffer,
    ReplayBuffer,
    ReplayBufferManager,
    Sampling,
    VectorReplayBuffer,
    as_tensors,
)
from argosy.data.buffer.devices import MappedColumn
from argosy.errors import ConfigError, DataError


def row(value: float, *, terminated: bool = False, truncated: bool = False, n: int = 1, **more) -> Batch:
    """One transition per env: obs = [value, value], obs_next = obs + 1, act = rew = value."""
    return Batch(
        obs=np.full((n, 2), value, np.float32),
        act=np.full(n, int(value)),
        rew=np.full(n, value, np.float32),
        terminated=np.full(n, terminated),
        truncated=np.full(n, truncated),
        obs_next=np.full((n, 2), value + 1, np.float32),
        **more,
    )


def wrapped(**options) -> ReplayBuffer:
    """Rows 0 .. 6 in 5 slots: 2 is terminated, 4 truncated. Slots hold 5 6 2 3 4."""
    buffer = ReplayBuffer(5, **options)
    for value in range(7):
        buffer.add(row(value, terminated=value == 2, truncated=value == 4))
    return buffer


def test_add_returns_slot_and_the_finished_episode():
    buffer = ReplayBuffer(5)
    results = [buffer.add(row(v, terminated=v == 2, truncated=v == 4)) for v in range(6)]
    assert [tuple(x.tolist()[0] for x in result) for result in results] == [
        (0, 0.0, 0, 0),
        (1, 0.0, 0, 0),
        (2, 3.0, 3, 0),
        (3, 0.0, 0, 3),
        (4, 7.0, 2, 3),
        (0, 0.0, 0, 0),
    ]
    assert len(buffer) == 5
    assert buffer.maxsize == 5


def test_results_do_not_change_with_later_additions():
    buffer = VectorReplayBuffer(12, 3)
    slot, *_ = buffer.add(row(0, n=3))
    buffer.add(row(1, n=2), [0, 1])
    assert slot.tolist() == [0, 4, 8]


def test_single_transition_without_leading_axis():
    buffer = ReplayBuffer(3)
    one = row(4)[0]
    assert [x.tolist() for x in buffer.add(one)] == [[0], [0.0], [0], [0]]
    buffer.add(SimpleNamespace(**one.to_dict()))  # anything with these attributes
    assert buffer.act[:2].tolist() == [4, 4]


@pytest.mark.parametrize("ignore", [False, True])
def test_time_order_neighbours_and_true_successors(ignore):
    buffer = wrapped(ignore_obs_next=ignore)
    stored = buffer[:]
    assert stored.act.tolist() == [2, 3, 4, 5, 6]
    assert stored.obs_next[:, 0].tolist() == [3, 4, 5, 6, 7]
    assert stored.done.tolist() == [True, False, True, False, False]
    assert buffer.prev(np.arange(5)).tolist() == [0, 0, 2, 3, 3]
    assert buffer.next(np.arange(5)).tolist() == [1, 1, 2, 4, 4]
    assert buffer.unfinished_index().tolist() == [1]
    assert buffer.last_index.tolist() == [1]


@pytest.mark.parametrize("ignore", [False, True])
def test_n_step_values(ignore):
    batch, index = wrapped(ignore_obs_next=ignore).sample(0, Sampling(n_step=3, gamma=0.5))
    assert index.tolist() == [2, 3, 4, 0, 1]
    # 2 ends; 3 + 4/2, truncated; 4, truncated; 5 + 6/2, newest; 6, newest
    assert batch.rew.tolist() == [2.0, 5.0, 4.0, 8.0, 6.0]
    assert batch.discount.tolist() == [0.0, 0.25, 0.5, 0.25, 0.5]
    assert batch.obs_next[:, 0].tolist() == [3.0, 5.0, 5.0, 7.0, 7.0]
    assert batch.terminated.tolist() == [True, False, False, False, False]
    assert batch.truncated.tolist() == [False, True, True, False, False]
    assert batch.obs[:, 0].tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert batch.weight.tolist() == [1.0] * 5
    assert batch.rew.dtype == batch.discount.dtype == batch.weight.dtype == np.float32


@pytest.mark.parametrize("ignore", [False, True])
def test_stacks_end_at_the_first_frame_of_the_episode(ignore):
    buffer = wrapped(ignore_obs_next=ignore, stack_num=3)
    batch, _ = buffer.sample(0)
    assert batch.obs.shape == (5, 3, 2)
    assert batch.obs[..., 0].tolist() == [[2, 2, 2], [3, 3, 3], [3, 3, 4], [5, 5, 5], [5, 5, 6]]
    assert batch.obs_next[..., 0].tolist() == [[2, 2, 3], [3, 3, 4], [3, 4, 5], [5, 5, 6], [5, 6, 7]]
    assert buffer.get([4], "obs", stack_num=1).tolist() == [[4.0, 4.0]]
    assert buffer.get([4], "obs", stack_num=2)[..., 0].tolist() == [[3.0, 4.0]]


def test_save_only_last_obs_stores_one_frame():
    buffer = ReplayBuffer(4, stack_num=2, save_only_last_obs=True)
    for value in range(3):
        frames = np.array([[[value - 1.0], [value]]])
        batch = row(value)
        batch.obs, batch.obs_next = frames, frames + 1
        buffer.add(batch)
    assert buffer.obs.shape == (4, 1)
    batch, _ = buffer.sample(0)
    assert batch.obs[..., 0].tolist() == [[0, 0], [0, 1], [1, 2]]
    assert batch.obs_next[..., 0].tolist() == [[0, 1], [1, 2], [2, 3]]


def test_sample_avail_draws_only_full_stacks():
    buffer = wrapped(stack_num=2, sample_avail=True, seed=0)
    assert buffer.sample_indices(0).tolist() == [4, 1]
    assert set(buffer.sample_indices(5).tolist()) == {1, 4}
    fresh = ReplayBuffer(5, stack_num=2, sample_avail=True)
    fresh.add(row(0))
    with pytest.raises(DataError, match="no row of 1 has 1 predecessors"):
        fresh.sample(1)


def test_end_episodes_cuts_without_done():
    buffer = VectorReplayBuffer(8, 2)
    for value in (0, 1):
        buffer.add(row(value, n=2))
    buffer.end_episodes([1])
    assert buffer.unfinished_index().tolist() == [1]
    buffer.add(row(2, n=2))
    batch, _ = buffer.sample(0, Sampling(n_step=3, gamma=0.5))
    assert batch.rew.tolist() == [0 + 0.5 + 0.5, 1 + 1, 2, 0.5, 1, 2]
    assert not batch.done.any()
    assert buffer.rollout().cut.tolist() == [[False, False], [False, True], [True, True]]
    _, ep_rew, ep_len, ep_start = buffer.add(row(3, n=2, truncated=True))
    assert ep_rew.tolist() == [6.0, 5.0]
    assert ep_len.tolist() == [4, 2]
    assert ep_start.tolist() == [0, 6]


def test_rollout_in_order_of_time():
    buffer = VectorReplayBuffer(6, 2)
    for value in range(4):  # wraps
        batch = row(value, n=2, terminated=value == 2, policy=Batch(log_prob=np.full(2, -value, np.float32)))
        buffer.add(batch)
    rollout = buffer.rollout()
    assert rollout.act.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert rollout.cut.tolist() == [[False, False], [True, True], [True, True]]
    assert rollout.policy.log_prob.tolist() == [[-1, -1], [-2, -2], [-3, -3]]
    assert rollout.obs.flags["C_CONTIGUOUS"]
    assert rollout.obs.shape == (3, 2, 2)
    buffer.add(row(9), [1])  # still full: equally long
    buffer.reset()
    buffer.add(row(5, n=2))
    buffer.add(row(6), [1])
    rollout = buffer.rollout()
    assert rollout.act.tolist() == [[5], [5], [6]]
    assert rollout.cut.tolist() == [[True], [False], [True]]
    with pytest.raises(DataError, match="empty"):
        ReplayBuffer(3).rollout()


def test_dict_observations_policy_and_info():
    buffer = VectorReplayBuffer(8, 2, info_keys=("lives", "pos"))
    for value in range(3):
        batch = row(value, n=2)
        batch.obs = Batch(image=np.full((2, 2, 2), value, np.uint8), place=Batch(x=np.full(2, value)))
        batch.obs_next = {"image": batch.obs.image + 1, "place": {"x": np.full(2, value + 1)}}
        if value:  # the first rows came from random actions
            batch.policy = Batch(state=Batch(h=np.full((2, 3), value)))
        batch.info = [{"lives": value, "other": [1, 2]}, {"lives": value, "pos": [1.0, value]}]
        buffer.add(batch)
    batch, _ = buffer.sample(0)
    assert batch.obs.image.shape == (6, 2, 2)
    assert batch.obs.image.dtype == np.uint8
    assert batch.obs_next.place.x.tolist() == [1, 2, 3, 1, 2, 3]
    assert batch.policy.state.h[:, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert batch.info.lives.tolist() == [0, 1, 2, 0, 1, 2]
    assert batch.info.pos.tolist() == [[0, 0]] * 3 + [[1, 0], [1, 1], [1, 2]]
    assert set(batch.info.keys()) == {"lives", "pos"}
    assert isinstance(batch.obs, Batch)


def test_info_of_arrays():
    buffer = VectorReplayBuffer(4, 2, info_keys=["lives"])
    buffer.add(row(0, n=2, info={"lives": np.array([3, 5]), "elapsed": np.zeros(2)}))
    buffer.add(row(1, n=2))
    assert buffer[:].info.lives.tolist() == [3, 0, 5, 0]
    single = ReplayBuffer(2, info_keys=["lives"])
    single.add(Batch(row(0)[0], info={"lives": 7}))
    assert single[:].info.lives.tolist() == [7]


def test_multi_agent_rewards():
    buffer = VectorReplayBuffer(8, 2)
    for value in range(3):
        batch = row(value, n=2, terminated=value == 2)
        batch.rew = np.array([[value, 1.0], [2.0 * value, 1.0]])
        result = buffer.add(batch)
    assert result[1].tolist() == [[3.0, 3.0], [6.0, 3.0]]
    sample, _ = buffer.sample(0, Sampling(n_step=2, gamma=0.5))
    assert sample.rew.tolist() == [[0.5, 1.5], [2.0, 1.5], [2.0, 1.0], [1.0, 1.5], [4.0, 1.5], [4.0, 1.0]]


def test_from_data_and_update():
    obs = np.arange(6, dtype=np.float32)[:, None]
    flags = np.zeros(6, bool)
    done = np.array([0, 0, 1, 0, 0, 0], bool)
    source = ReplayBuffer.from_data(obs, np.arange(6), np.ones(6), flags, flags, done, obs + 1)
    assert len(source) == source.maxsize == 6
    batch, _ = source.sample(0, Sampling(n_step=3, gamma=1.0))
    assert batch.rew.tolist() == [3, 2, 1, 3, 2, 1]
    assert not batch.terminated.any()
    cut = ReplayBuffer.from_data(obs, np.arange(6), np.ones(6), flags, done, flags, obs + 1)  # it need not say so twice
    assert cut.sample(0, Sampling(n_step=3, gamma=1.0))[0].rew.tolist() == [3, 2, 1, 3, 2, 1]
    for ignore in (False, True):
        target = ReplayBuffer(4, ignore_obs_next=ignore)
        target.add(Batch(row(0), obs=np.zeros((1, 1)), obs_next=np.ones((1, 1))))
        assert target.update(source).tolist() == [1, 2, 3, 0]
        assert target[:].act.tolist() == [2, 3, 4, 5]
        assert target[:].obs_next[:, 0].tolist() == [3, 4, 5, 6]
        assert target.prev(target.sample_indices(0)).tolist() == [1, 2, 2, 3]
    assert ReplayBuffer(4).update(ReplayBuffer(3)).tolist() == []
    with pytest.raises(ConfigError, match="2 sub-buffers"):
        VectorReplayBuffer(4, 2).update(source)
    with pytest.raises(DataError, match="act has 5 rows and done has 6"):
        ReplayBuffer.from_data(obs, np.arange(5), np.ones(6), flags, flags, done, obs + 1)
    with pytest.raises(DataError, match=r"done has shape \(6, 1\); it must hold a flag per row"):
        ReplayBuffer.from_data(obs, np.arange(6), np.ones(6), flags, flags, done[:, None], obs + 1)
    with pytest.raises(DataError, match="rew is NaN in row 2"):
        ReplayBuffer.from_data(obs, done, np.where(done, np.nan, 0), flags, flags, done, obs + 1)


def test_manager_takes_over_sizes_and_rows():
    one, two = ReplayBuffer(3), ReplayBuffer(5)
    for value in range(4):
        one.add(row(value))
        two.add(row(10 + value))
    manager = ReplayBufferManager([one, two])
    assert manager.maxsize == 8
    assert manager.buffer_num == 2
    assert manager[:].act.tolist() == [1, 2, 3, 10, 11, 12, 13]
    assert manager.next([3, 4, 5, 6]).tolist() == [4, 5, 6, 6]
    slot, *_ = manager.add(row(20, n=2))
    assert slot.tolist() == [0, 7]
    assert set(manager.sample_indices(8)) <= set(range(8))
    with pytest.raises(ConfigError, match="different options"):
        ReplayBufferManager([ReplayBuffer(3), ReplayBuffer(3, stack_num=2)])
    with pytest.raises(ConfigError, match="empty"):
        ReplayBufferManager([])


def test_managers_keep_where_the_columns_are_and_go_on_from_the_first_generator(tmp_path):
    def draws(seed):
        on_device = ReplayBufferManager([ReplayBuffer(3, device="cpu", seed=seed), ReplayBuffer(5)])
        on_device.add(row(1, n=2))
        assert isinstance(on_device.sample(1)[0].obs, torch.Tensor)
        return on_device.sample_indices(8).tolist()

    assert draws(3) == draws(3) != draws(4)
    main = ReplayBuffer(3, storage_dir=tmp_path)
    main.add(row(7))
    cached = CachedReplayBuffer(main, 2, 5)
    assert isinstance(cached.fields["obs"].single, MappedColumn)
    assert cached[:].act.tolist() == [7]


def test_slots_of_an_episode_in_unequal_rings():
    buffer = ReplayBuffer([3, 5])
    for t in range(4):
        buffer.add(row(t, n=2, terminated=t == 3))
    assert buffer.episode_slots(0, 4).tolist() == [1, 2, 0]  # the first of the four was overwritten
    assert buffer.episode_slots(6, 4).tolist() == [3, 4, 5, 6]
    assert buffer.episode_slots(6, 1).tolist() == [6]


@pytest.mark.parametrize("device", [None, "cpu"])
def test_numbers_are_stored_in_the_order_of_bytes_that_torch_takes(device):
    buffer = ReplayBuffer(3, device=device)
    for t in range(4):
        transition = row(t)
        transition.update(obs=np.full((1, 2), t, ">f4"), obs_next=np.full((1, 2), t + 1, ">f4"))
        buffer.add(transition)
    obs = as_tensors(buffer[:].obs)
    assert obs.dtype == torch.float32
    assert obs[:, 0].tolist() == [1, 2, 3]


def test_sampling_is_uniform_over_rows_of_unequal_rings():
    buffer = VectorReplayBuffer(30, 3, seed=0)
    for value in range(8):
        buffer.add(row(value), [0])
    buffer.add(row(8, n=2), [1, 2])
    index = np.concatenate([buffer.sample_indices(30) for _ in range(400)])
    slots, counts = np.unique(index, return_counts=True)
    assert slots.tolist() == [*range(8), 10, 20]
    assert abs(counts - 1200).max() < 5 * np.sqrt(1200)


def test_seed_repeats_the_draws():
    buffer = wrapped(seed=3)
    first = buffer.sample_indices(5).tolist()
    buffer.seed(3)
    assert buffer.sample_indices(5).tolist() == first


def test_sample_sizes():
    buffer = wrapped()
    assert len(buffer.sample_indices(None)) == 5
    assert buffer.sample_indices(-1).tolist() == []
    few = ReplayBuffer(10)
    few.add(row(0))
    assert few.sample(10)[0].act.tolist() == [0] * 10  # with replacement


def test_indexing():
    buffer = wrapped()
    assert buffer[1].act == 6
    assert buffer[-1].act == 4
    assert buffer[[0, 2]].act.tolist() == [5, 2]
    assert buffer[1:3].act.tolist() == [6, 2]
    assert buffer[buffer.done].act.tolist() == [2, 4]
    assert buffer.get([0], "nothing", default_value=7) == 7
    with pytest.raises(DataError, match="did you mean 'obs'"):
        buffer.get([0], "obz")
    with pytest.raises(IndexError, match="5 slots"):
        buffer[5]


def test_reset_keeps_running_episodes_only_if_asked():
    for keep, expected in ((False, 1.0), (True, 6.0)):
        buffer = ReplayBuffer(5)
        buffer.add(row(5))
        buffer.reset(keep_statistics=keep)
        assert len(buffer) == 0
        assert buffer.unfinished_index().tolist() == []
        assert buffer.add(row(1, terminated=True))[1].tolist() == [expected]


def test_tensors_and_pickle():
    buffer = ReplayBuffer(5)
    batch = row(1)
    batch.obs = torch.ones(1, 2)
    buffer.add(batch)
    assert isinstance(buffer.obs, np.ndarray)
    again = pickle.loads(pickle.dumps(buffer))
    again.add(row(2))
    assert again[:].act.tolist() == [1, 2]
    assert again[:].obs.tolist() == [[1, 1], row(2).obs[0].tolist()]


def test_side_table_stays_small():
    """1,000 one-row episodes: entries of overwritten rows are used again."""
    buffer = VectorReplayBuffer(20, 2, ignore_obs_next=True)
    for value in range(500):
        buffer.add(row(value, n=2, terminated=True))
    assert buffer.successors.field.slots <= 80
    assert buffer[:].obs_next[:, 0].tolist() == [*range(491, 501)] * 2


def test_repr():
    assert repr(VectorReplayBuffer(10, 2)) == "VectorReplayBuffer(0 of 10 transitions, 2 sub-buffers)"
