"""Policy gradient algorithms have the losses and gradients, or the steps, of Tianshou 1.0's."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from peers import Gradients, layers, load, members, take_over

from argosy import algorithm as algorithms
from argosy.algorithm import GAIL, GAILConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig

OBS = spaces.Box(-np.inf, np.inf, (4,), np.float32)
NET = NetConfig(hidden_sizes=(8,), activation="tanh")
NATURAL = {"gae_lambda": 0.95, "normalize_adv": False, "critic_steps": 1}
CLIPPED = {"clip_ratio": 0.1, "dual_clip": 1.5, "value_coef": 0.25, "entropy_coef": 0.02, "normalize_adv": False}

CASES = {
    "reinforce": ("REINFORCE", {"normalize_returns": False}),
    "a2c": ("A2C", {"gae_lambda": 0.95}),
    "ppo": ("PPO", {"batch_size": None, "repeat_per_collect": 1, **CLIPPED}),
    "npg": ("NPG", {"step_size": 0.5, **NATURAL}),
    "trpo": ("TRPO", {"max_kl": 0.01, **NATURAL}),
}


def made(case):
    """The algorithm with the peer's weights, the pairs of actor and critic, and the batch as a rollout [T, 1, ...]."""
    name, settings = CASES[case]
    cls, recorded = getattr(algorithms, name), load(f"tianshou1_gradient-{case}")
    task = Task(observation_space=OBS, action_space=spaces.Discrete(3), net=NET)
    algorithm = cls.make(cls.config_type(gamma=0.9, **settings), task, seed=0)
    policy = algorithm.policy
    actor = layers([*policy.actor.trunk, policy.action_head.output], ["actor.layers.0", "actor.layers.2"])
    critic = []
    if policy.critic is not None:
        critic = layers([*policy.critic.trunk, policy.value_head], ["critic.layers.0", "critic.layers.2"])
    take_over([*actor, *critic], recorded)
    fields = {name: column[:, None] for name, column in vars(recorded.batch).items() if name != "logp"}
    cut = fields["terminated"] | fields["truncated"]
    cut[-1] = True
    return (
        algorithm,
        actor,
        critic,
        Batch({**fields, "cut": cut, "policy": Batch(logp=recorded.batch.logp[:, None])}),
        recorded,
    )


@pytest.mark.parametrize("case", ["reinforce", "a2c", "ppo"])
def test_loss_and_gradient_are_the_peers(case):
    algorithm, actor, critic, rollout, recorded = made(case)
    algorithm.optim = Gradients([*actor, *critic])
    algorithm.update(rollout)
    algorithm.optim.check(recorded, "loss")


@pytest.mark.parametrize("case", ["npg", "trpo"])
def test_the_step_of_the_actor_and_the_critic_s_loss_and_gradient_are_the_peers(case):
    algorithm, actor, critic, rollout, recorded = made(case)
    algorithm.optim = Gradients(critic)
    before = [pair.view(pair.parameter).detach().clone() for pair in actor]
    stats = algorithm.update(rollout)
    algorithm.optim.check(recorded, "value")
    assert stats.loss_policy == pytest.approx(recorded.losses["policy"], rel=1e-4)
    for pair, old in zip(actor, before, strict=True):
        step = pair.of(recorded.gradients)
        torch.testing.assert_close(pair.view(pair.parameter).detach() - old, step, rtol=1e-3, atol=1e-6)
        assert step.abs().max() > 1e-3


def test_the_discriminator_of_gail_and_the_rewards_are_the_peers():
    recorded, box = load("tianshou1_gradient-gail"), spaces.Box(-1, 1, (3,), np.float32)
    config = GAILConfig(reward_sizes=(8,), reward_steps=1)
    algorithm = GAIL.make(config, Task(observation_space=OBS, action_space=box, net=NET), seed=0)
    pairs = members(algorithm.reward.q, [["disc.layers.0"], ["disc.layers.2"]])
    take_over(pairs, recorded)
    algorithm.reward_optim = Gradients(pairs)
    data = recorded.batch
    rows = {name: data[name][:, None] for name in ("obs", "act", "obs_next", "terminated", "truncated")}
    rollout = Batch(rows, rew=np.zeros((16, 1), np.float32), cut=np.ones((16, 1), bool))
    rollout.policy = Batch(logp=np.zeros((16, 1), np.float32))
    nothing = {"obs_next": data.obs_next, "terminated": data.terminated}
    rollout.expert = Batch(obs=data.expert_obs, act=data.expert_act, **nothing)
    stats = algorithm.update(rollout)
    algorithm.reward_optim.check(recorded, "reward")
    assert stats.reward_mean == pytest.approx(float(data.reward.mean()), rel=1e-5)
    np.testing.assert_allclose(softplus(algorithm, data), data.reward, rtol=1e-5)


def softplus(algorithm, data):
    """What the discriminator pays for rows."""
    rows = Batch(obs=torch.from_numpy(data.obs), act=torch.from_numpy(data.act))
    with torch.no_grad():
        return torch.nn.functional.softplus(algorithm._score(rows)).numpy()
