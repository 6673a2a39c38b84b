import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import BOX, GAMMA, NET, OBS_SPACE, Probe, collect, greedy
from stand_ins import Recorder

from argosy.algorithm import GAIL, GAILConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.errors import DataError
from argosy.policy import RolloutRequest
from argosy.policy.rollouts import advantage_rows

SMALL = {"repeat_per_collect": 2, "batch_size": 16, "reward_sizes": (8,)}
CASES = {
    "discrete": (GAILConfig(**SMALL), spaces.Discrete(3)),
    "multi-discrete": (GAILConfig(**SMALL, return_scaling=True), spaces.MultiDiscrete([2, 3])),
    "box": (GAILConfig(**{**SMALL, "batch_size": None}), spaces.Box(-2.0, 2.0, (2,), np.float32)),
    "airl": (GAILConfig(**SMALL, airl=True), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
LEARNS = ("policy", "reward")
FOLLOWS = ("shaping",)
RANGES = [("reward_steps", 0), ("clip_ratio", -0.1)]
ZERO = dict.fromkeys(("loss_reward", "expert_accuracy", "own_accuracy"), 0.0)
RESUME = {"batch_size": 32, "repeat_per_collect": 2}


def make(space=None, **config):
    task = Task(observation_space=OBS_SPACE, action_space=space or spaces.Discrete(2), net=NET)
    return GAIL.make(GAILConfig(**config), task, seed=0)


def expert_of(probe, count=64, seed=1):
    """Rows of who always does the right thing in the probe "both"."""
    rng = np.random.default_rng(seed)
    obs = rng.choice([-1.0, 1.0], (count, 1)).astype(np.float32)
    act = (obs[:, 0] > 0).astype(np.int64)
    return Batch(obs=obs, act=act, obs_next=obs, terminated=np.ones(count, bool))


def rollout(algorithm, steps=4):
    batch = collect(algorithm, Probe("both", 8, np.random.default_rng(0)), steps)
    batch.expert = expert_of("both", 8 * steps)
    return batch


def with_logits(algorithm, monkeypatch, own, expert):
    """Let the discriminator say a number for the policy's rows and one for the expert's, which have no wrong action."""
    monkeypatch.setattr(algorithm.reward, "value", lambda rows, act: torch.where(_right(rows, act), expert, own)[None])
    algorithm.reward_optim = Recorder()


def _right(rows, act):
    return (rows.obs[..., 0] > 0) == (act > 0)


def test_discriminator_s_loss_by_hand(monkeypatch):
    algorithm = make(reward_steps=1)
    with_logits(algorithm, monkeypatch, torch.tensor(-2.0), torch.tensor(1.0))
    batch = rollout(algorithm)
    batch.act = (batch.obs[..., 0] <= 0).astype(np.int64)  # always wrong
    stats = algorithm.update(batch)
    cross_entropy = math.log1p(math.exp(-2.0)) + math.log1p(math.exp(-1.0))  # -log(1 - D) at -2, -log D at 1
    assert algorithm.reward_optim.losses[0].item() == pytest.approx(cross_entropy)
    assert stats.loss_reward == pytest.approx(cross_entropy)
    assert (stats.expert_accuracy, stats.own_accuracy) == (1.0, 1.0)
    assert stats.reward_mean == pytest.approx(math.log1p(math.exp(-2.0)))


def test_the_policy_learns_from_minus_log_1_minus_d_instead_of_what_the_env_pays(monkeypatch):
    seen = []

    def look(policy, batch, *how):
        seen.append(batch)
        return advantage_rows(policy, batch, *how)

    monkeypatch.setattr("argosy.algorithm.ppo.advantage_rows", look)
    algorithm = make(reward_steps=1)
    with_logits(algorithm, monkeypatch, torch.tensor(-2.0), torch.tensor(1.0))
    batch = rollout(algorithm)
    algorithm.update(batch)
    right = (batch.obs[..., 0] > 0) == (batch.act > 0)
    expected = np.where(right, math.log1p(math.exp(1.0)), math.log1p(math.exp(-2.0)))
    np.testing.assert_allclose(seen[0].rew, expected, rtol=1e-6)
    assert right.any()
    assert not right.all()


def test_logit_of_airl_by_hand(monkeypatch):
    algorithm = make(airl=True, gamma=0.5)
    monkeypatch.setattr(algorithm.reward, "value", lambda rows, act: torch.tensor([[3.0, 3.0]]))
    monkeypatch.setattr(algorithm.shaping, "value", lambda rows: torch.tensor([[1.0, 1.0]]))
    monkeypatch.setattr(algorithm.shaping, "next_value", lambda rows: torch.tensor([[4.0, 4.0]]))
    rows = Batch(act=torch.zeros(2), terminated=torch.tensor([False, True]))
    rows.logp = torch.tensor([-0.5, -0.25])
    assert algorithm._score(rows).tolist() == [3.0 + 0.5 * 4.0 - 1.0, 3.0 - 1.0]  # nothing follows a termination
    assert algorithm._logit(rows).tolist() == [4.5, 2.25]


@pytest.mark.parametrize("airl", [False, True])
def test_it_comes_to_do_as_the_expert_does_whatever_the_env_pays(airl):
    algorithm = make(
        airl=airl, gamma=GAMMA, optim=OptimConfig(lr=0.02), reward_optim=OptimConfig(lr=0.02), repeat_per_collect=4
    )
    probe = Probe("both", 8, np.random.default_rng(0))
    for seed in range(30):
        batch = collect(algorithm, probe, 8)
        batch.rew = -batch.rew  # the opposite of what the expert is after
        batch.expert = expert_of("both", seed=seed)
        algorithm.update(batch)
    assert greedy(algorithm, 1.0) == 1
    assert greedy(algorithm, -1.0) == 0


def test_actions_beyond_the_bounds_do_not_betray_the_policy(monkeypatch):
    algorithm, seen = make(BOX), []
    monkeypatch.setattr(
        algorithm, "_learn_reward", lambda own, expert: seen.extend((own.act, expert.act)) or ({**ZERO}, 0)
    )
    batch = rollout(algorithm)
    batch.expert.act = np.linspace(-3.0, 3.0, 32, dtype=np.float32)[:, None]  # nor an expert that was a Gaussian, too
    batch.act[:2] = 7.0  # the env took 1
    algorithm.update(batch)
    assert (seen[0].reshape(4, 8)[:2] == 1.0).all()
    np.testing.assert_allclose(seen[1], batch.expert.act.clip(-1, 1), atol=1e-6)
    np.testing.assert_allclose(seen[0].reshape(4, 8, 1)[2:], batch.act[2:].clip(-1, 1), atol=1e-6)


def test_of_several_choices_at_once_each_counts_by_itself_not_by_its_number():
    algorithm = make(spaces.MultiDiscrete([20, 3], start=[5, -1]), reward_optim=OptimConfig(lr=0.02), reward_steps=1)
    rng = np.random.default_rng(0)
    for _ in range(60):
        own, expert = (rng.integers((20, 3), size=(64, 2)) for _ in range(2))
        expert[:, 0] -= expert[:, 0] % 2  # only the even ones, among which no line divides them from the odd ones
        mine, theirs = (Batch(obs=torch.zeros(64, 1), act=torch.as_tensor(act)) for act in (own, expert))
        found, _ = algorithm._learn_reward(mine, theirs)
    assert found["expert_accuracy"] == 1.0
    score = algorithm._score(Batch(obs=torch.zeros(20, 1), act=torch.tensor([[i, 0] for i in range(20)])))
    assert score[::2].min() > 0 > score[1::2].max()


def test_a_discriminator_that_cannot_tell_says_a_half():
    algorithm = make(reward_optim=OptimConfig(lr=0.01), repeat_per_collect=1)
    for _ in range(60):
        batch = rollout(algorithm, steps=8)
        batch.expert = Batch(
            {name: batch[name].reshape(-1, *batch[name].shape[2:]) for name in ("obs", "act", "obs_next", "terminated")}
        )
        stats = algorithm.update(batch)
    assert stats.loss_reward == pytest.approx(math.log(4.0), abs=0.05)
    assert stats.reward_mean == pytest.approx(math.log(2.0), abs=0.15)


def test_fewer_rows_of_an_expert_than_steps_are_learned_from_all_the_same():
    algorithm = make()
    batch = rollout(algorithm)
    before = algorithm.update(rollout(algorithm)).gradient_steps - algorithm.config.reward_steps
    batch.expert = batch.expert[:2]
    stats = algorithm.update(batch)
    assert math.isfinite(stats.loss_reward)
    assert stats.gradient_steps == before + min(2, algorithm.config.reward_steps)


def test_rows_that_a_mask_hides_are_not_learned_from():
    def reward(hide, act):
        algorithm = make()
        batch = rollout(algorithm)
        batch.mask = np.ones((4, 8), bool)
        batch.mask[0] = not hide
        batch.act[0] = act
        algorithm.update(batch)
        return torch.cat([p.detach().flatten() for p in algorithm.reward.parameters()])

    assert torch.equal(reward(True, 0), reward(True, 1))
    assert not torch.equal(reward(False, 0), reward(False, 1))


def test_a_rollout_without_an_expert_is_refused():
    algorithm = make()
    batch = rollout(algorithm)
    del batch.expert
    with pytest.raises(DataError, match=r"GAIL learns from rollouts beside which an expert's rows lie.*--data FILE"):
        algorithm.update(batch)


@pytest.mark.parametrize("airl", [False, True])
def test_an_expert_that_is_the_policy_cannot_be_told_from_it(airl):
    """Although most draws lie beyond the bounds: the loss stays log 4."""
    algorithm = make(
        spaces.Box(-1.0, 1.0, (1,), np.float32),
        airl=airl,
        log_std_init=-0.5,
        optim=OptimConfig(lr=1e-12),
        reward_optim=OptimConfig(lr=3e-3),
    )
    with torch.no_grad():
        algorithm.policy.action_head.output.bias.fill_(2.0)
    rng, no, losses = np.random.default_rng(0), np.zeros((512, 1), bool), []
    for _ in range(40):
        (obs, mine), (seen, theirs) = (
            (obs, algorithm.policy.rollout(RolloutRequest(obs=obs)))
            for obs in rng.uniform(-1, 1, (2, 512, *OBS_SPACE.shape)).astype(np.float32)
        )
        rollout = Batch(
            obs=obs[:, None],
            act=mine.action[:, None],
            rew=np.zeros((512, 1), np.float32),
            terminated=no,
            truncated=no,
            cut=np.arange(512)[:, None] == 511,
            obs_next=obs[:, None],
            policy=Batch(logp=mine.analyzed_result.logp[:, None]),
            expert=Batch(obs=seen, act=np.clip(theirs.action, -1.0, 1.0), obs_next=seen, terminated=no[:, 0]),
        )
        losses.append(algorithm.update(rollout).loss_reward)
    assert np.mean(losses[-10:]) == pytest.approx(np.log(4.0), abs=0.06)
