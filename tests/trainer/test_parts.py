"""What an experiment says of its replay buffer is what the buffer is."""

import contextlib

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch, Sampling
from argosy.errors import ConfigError
from argosy.presets import preset
from argosy.trainer.parts import make_algorithm, make_buffer


def experiment(task="bitflip:BitFlip", **buffer):
    return preset("dqn", task, buffer={"size": 600, **buffer})


def filled(buffer, rng, episodes=30, bits=6):
    """Random flips; the goal is never reached."""
    for _ in range(episodes):
        bit = rng.integers(2, size=bits).astype(np.float32)
        for t in range(bits):
            after = bit.copy()
            after[rng.integers(bits)] += 1
            after %= 2

            def obs(place):
                return {
                    "observation": place[None],
                    "achieved_goal": place[None],
                    "desired_goal": np.full((1, bits), 9.0),
                }

            buffer.add(
                Batch(
                    obs=obs(bit),
                    obs_next=obs(after),
                    act=np.zeros(1, np.int64),
                    rew=np.full(1, -1.0, np.float32),
                    terminated=np.zeros(1, bool),
                    truncated=np.full(1, t == bits - 1),
                )
            )
            bit = after
    return buffer


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (
            spaces.Box(-1, 1, (4,)),
            r"stack_num is 4, but the observations of CartPole-v1 have shape \(4,\), which is no stack",
        ),
        (spaces.Box(-1, 1, (3, 4)), r"shape \(3, 4\), which is no stack of 4 frames"),
        (
            spaces.Dict(a=spaces.Box(-1, 1, (4, 2)), b=spaces.Discrete(3)),
            r"CartPole-v1 have a part 'b' of shape \(\)",
        ),
        (spaces.Box(-1, 1, (4, 2)), None),
    ],
)
def test_a_buffer_stacks_only_what_is_stacked(space, said):
    stacking, act = preset("dqn", "CartPole-v1", buffer={"stack_num": 4}), spaces.Discrete(2)
    with contextlib.nullcontext() if said is None else pytest.raises(ConfigError, match=said):
        make_algorithm(stacking, space, act)
    make_algorithm(preset("dqn", "CartPole-v1"), space, act)


def test_hindsight_gives_goals_that_were_achieved_later_and_the_env_s_rewards_for_them():
    buffer = filled(make_buffer(experiment(hindsight={"future_k": 4.0}), 1, seed=0), np.random.default_rng(0))
    batch, _ = buffer.sample(500, Sampling())
    relabelled = (batch.obs.desired_goal != 9.0).all(axis=1)
    assert 0.7 < relabelled.mean() < 0.9  # 4 of 5
    reached = (batch.obs_next.achieved_goal == batch.obs.desired_goal).all(axis=1)
    assert reached.sum() > 50
    np.testing.assert_array_equal(batch.rew, np.where(reached, 0.0, -1.0))


def test_without_hindsight_goals_stay():
    buffer = filled(make_buffer(experiment(), 1, seed=0), np.random.default_rng(0))
    assert (buffer.sample(100)[0].obs.desired_goal == 9.0).all()


def test_the_horizon_bounds_how_late_goals_are():
    buffer = filled(
        make_buffer(experiment(hindsight={"future_k": 1e9, "horizon": 1}), 1, seed=0), np.random.default_rng(0)
    )
    batch, _ = buffer.sample(200)
    np.testing.assert_array_equal(batch.obs.desired_goal, batch.obs_next.achieved_goal)  # the row's own successor
    assert (batch.rew == 0.0).all()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("CartPole-v1", r"buffer.hindsight needs an env with goals.*those of 'CartPole-v1' are Box"),
        ("bitflip:Rewardless", r"buffer.hindsight needs the env's method compute_reward"),
    ],
)
def test_hindsight_without_goals_is_refused_by_name(task, message):
    with pytest.raises(ConfigError, match=message):
        make_buffer(experiment(task, hindsight={"future_k": 4.0}), 1, seed=0)


def test_a_buffer_on_a_device_gives_tensors():
    buffer = filled(make_buffer(experiment(device="cpu"), 1, seed=0), np.random.default_rng(0))
    assert isinstance(buffer.sample(10)[0].rew, torch.Tensor)
    with pytest.raises(ConfigError, match="device is 'cuda:99'"):
        make_buffer(experiment(device="cuda:99"), 1, seed=0)


def test_stored_transitions_lie_in_files_of_their_own(tmp_path):
    """Two buffers in one folder do not share them."""
    one, two = (make_buffer(experiment(storage_dir=str(tmp_path / "disk")), 1, seed=0) for _ in range(2))
    filled(one, np.random.default_rng(0))
    before = one.obs.observation.tolist()
    filled(two, np.random.default_rng(1))
    assert one.obs.observation.tolist() == before != two.obs.observation.tolist()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"the folder '.*' cannot be made or used: .*Not a directory"):
        make_buffer(experiment(storage_dir=str(tmp_path / "file" / "disk")), 1, seed=0)


def test_a_device_and_a_folder_are_one_too_many():
    with pytest.raises(ConfigError, match=r"buffer.device is 'cpu' and buffer.storage_dir 'x'; choose one"):
        experiment(device="cpu", storage_dir="x")
