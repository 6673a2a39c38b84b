import numpy as np
import pytest

from argosy.env import check_env
from argosy.env.bitflip import BitFlip


def test_it_is_a_sound_environment():
    assert not check_env(lambda: BitFlip(3))


@pytest.mark.parametrize("bits", [1, 4])
def test_flipping_what_is_wrong_ends_the_episode(bits):
    env = BitFlip(bits)
    for seed in range(10):
        obs, _ = env.reset(seed=seed)
        wrong = np.flatnonzero(obs["observation"] != obs["desired_goal"])
        if not len(wrong):
            continue
        steps = [env.step(bit) for bit in wrong]
        assert [reward for _, reward, *_ in steps] == [-1.0] * (len(wrong) - 1) + [0.0]
        assert [terminated for _, _, terminated, *_ in steps] == [False] * (len(wrong) - 1) + [True]
        assert [info["is_success"] for *_, info in steps] == [False] * (len(wrong) - 1) + [True]
        assert (steps[-1][0]["achieved_goal"] == obs["desired_goal"]).all()


def test_it_is_cut_after_as_many_steps_as_bits():
    env = BitFlip(3)
    env.reset(seed=1)
    right = [i for i in range(3) if env._now[i] == env._goal[i]] or [0]
    ends = [env.step(right[0])[2:4] for _ in range(3)]
    assert [truncated for _, truncated in ends] == [False, False, True]


def test_rewards_of_many_goals_at_once():
    env = BitFlip(2)
    goals = np.array([[0, 0], [0, 1], [1, 1]], np.float32)
    assert env.compute_reward(goals, goals[[0, 0, 2]], {}).tolist() == [0.0, -1.0, 0.0]
    assert env.compute_terminated(goals, goals[[0, 0, 2]], {}).tolist() == [True, False, True]
