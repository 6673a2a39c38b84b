import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stand_ins import BOX, OBS, Recorder

from argosy.algorithm import (
    BC,
    BCConfig,
    DecisionTransformer,
    DecisionTransformerConfig,
    OptimConfig,
    Task,
)
from argosy.data import Batch, ReplayBuffer
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.decision import DecisionAnalysis

CASES = {
    "discrete": (DecisionTransformerConfig(heads=2, context=4), spaces.Discrete(3)),
    "box": (DecisionTransformerConfig(context=5, target_return=5.0), BOX),
}
MEMORIES = (None,)
BOOTSTRAPS = ACTS_ON_DATA = False
CONTEXT = ("act",)
FACES = ("take_in_returns", "reward_scale", "best_return")
RANGES = [("gamma", 0.99), ("gamma", 1.5), ("heads", 0), ("context", 0), ("target_return", float("inf"))]
NET = NetConfig(hidden_sizes=(8, 8))


def make(space=None, net=NET, observation_space=OBS, **config):
    task = Task(observation_space=observation_space, action_space=space or spaces.Discrete(3), net=net)
    return DecisionTransformer.make(DecisionTransformerConfig(**{"context": 4, **config}), task, seed=0)


def sequences(T=4, B=2, seed=0, **changes):
    rng = np.random.default_rng(seed)
    fields = {
        "obs": rng.uniform(-1, 1, (T, B, 3)).astype(np.float32),
        "act": rng.integers(3, size=(T, B)),
        "rew": np.ones((T, B), np.float32),
        "returns": rng.uniform(1, 9, (T, B)).astype(np.float32),
        "ended": np.ones((T, B), bool),
        "on_reset": np.arange(T)[:, None].repeat(B, 1) == 0,
        "mask": np.ones((T, B), bool),
        "weight": np.ones((T, B), np.float32),
    }
    return Batch({**fields, **changes})


def test_losses_by_hand():
    said = DecisionAnalysis(torch.tensor([[0.5, 0.25, 0.25]] * 2).log()[:, None], torch.tensor([[0.5], [0.75]]))
    algorithm = make()
    algorithm.optim, algorithm.policy.analyze = Recorder(), lambda sample: said
    data = sequences(2, 1, act=np.array([[0], [1]]), rew=np.array([[4.0], [8.0]], np.float32))
    data.returns = np.array([[12.0], [8.0]], np.float32)  # the largest are the units
    data.weight = np.array([[1.0], [0.5]], np.float32)
    stats = algorithm.update(data)
    assert stats.loss_actor == pytest.approx((math.log(2) + 0.5 * math.log(4)) / 2)
    assert stats.loss_reward == pytest.approx(((0.5 - 4 / 8) ** 2 + 0.5 * (0.75 - 8 / 8) ** 2) / 2)
    assert algorithm.optim.losses[0].item() == pytest.approx(stats.loss_actor + stats.loss_reward)
    assert (algorithm.policy.return_scale.item(), stats.best_return) == (12.0, 12.0)


def test_loss_of_continuous_actions_by_hand():
    algorithm = make(BOX)
    algorithm.optim = Recorder()
    algorithm.policy.analyze = lambda sample: DecisionAnalysis(torch.full((2, 1, 2), 0.5), torch.zeros(2, 1))
    act = np.array([[[0.5, 0.0]], [[0.0, 0.0]]], np.float32)
    mask = np.array([[True], [False]])
    assert algorithm.update(sequences(2, 1, act=act, mask=mask)).loss_actor == pytest.approx(0.25 / 2)


def corridor(seed=0, episodes=60, length=6):
    """Three episodes of ten go right, which is paid, the others left; one action of ten is the other one."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(episodes):
        right = rng.random() < 0.3
        for t in range(length):
            act = int(right) if rng.random() < 0.9 else int(not right)
            rows.append((t / length, act, float(act), t == length - 1))
    t, act, rew, last = (np.array(column) for column in zip(*rows, strict=True))
    obs = t[:, None].astype(np.float32)
    no = np.zeros(len(last), bool)
    return ReplayBuffer.from_data(obs, act, rew.astype(np.float32), no, last, last, obs)


def test_wanting_more_than_most_of_the_data_brought_beats_cloning():
    """Most of the data goes left, which is worth nothing, so that a clone goes left."""
    data, box = corridor(), spaces.Box(0, 1, (1,), np.float32)
    data.seed(0)
    task = Task(observation_space=box, action_space=spaces.Discrete(2), net=NetConfig(hidden_sizes=(16,)))
    clone = BC.make(BCConfig(optim=OptimConfig(lr=0.01)), task, seed=0)
    told = DecisionTransformer.make(DecisionTransformerConfig(context=6, optim=OptimConfig(lr=0.01)), task, seed=0)
    for _ in range(150):
        clone.update(data.sample(64, clone.sampling)[0])
        stats = told.update(data.sample(16, told.sampling)[0])
    assert stats.best_return >= 5.0

    def earned(policy):
        state, total = policy.first_states(1), 0.0
        for t in range(6):
            obs = np.full((1, 1), t / 6, np.float32)
            request = RolloutRequest(obs=obs, policy_state=state, is_evaluation=np.ones(1, bool))
            result = policy.rollout(request)
            state, total = result.policy_state, total + float(result.action[0])
        return total

    assert earned(clone.policy) == 0.0
    assert earned(told.policy) >= 5.0
    told.policy.target_return = 0.0
    assert earned(told.policy) <= 1.0


@pytest.mark.parametrize(("whole", "best"), [((6, 7), -6.0), ((), -2.0)])
def test_an_episode_whose_recording_stopped_is_not_what_is_wanted_unless_there_is_no_other(whole, best):
    """Every row costs 1: what there is of a stump is more than any whole episode brought."""
    lengths = (6, 7, 2, 6)
    last = np.cumsum(lengths) - 1
    done, truncated = np.zeros(sum(lengths), bool), np.zeros(sum(lengths), bool)
    done[last] = True
    truncated[last] = [length in whole for length in lengths]
    zero = np.zeros((len(done), 3), np.float32)
    data = ReplayBuffer.from_data(zero, done.astype(int), -np.ones(len(done)), done & False, truncated, done, zero)
    data.seed(0)
    algorithm = make(context=3)
    for _ in range(5):
        stats = algorithm.update(data.sample(16, algorithm.sampling)[0])
    assert stats.best_return == best


def test_returns_are_those_to_the_episode_s_end():
    data = corridor(episodes=3)
    batch, _ = data.sample(0, make(context=3).sampling)
    rew, whole = np.asarray(data[:].rew).reshape(3, 6), np.asarray(data[:].obs)[:, 0]
    to_go = rew[:, ::-1].cumsum(axis=1)[:, ::-1].reshape(-1)
    assert batch.returns.shape[0] == 3
    np.testing.assert_allclose(batch.returns, to_go[batch.indices], atol=1e-6)
    assert (batch.on_reset == (whole[batch.indices] == 0.0)).all()
