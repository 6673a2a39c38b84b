import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import BOX as PROBE_BOX
from probes import FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, FixedCritic, batch, recorded, two_rows

from argosy.algorithm import DDPG, DDPGConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.policy import NoiseConfig, RolloutRequest

CASES = {
    "plain": (DDPGConfig(), BOX),
    "ornstein-uhlenbeck": (DDPGConfig(exploration=NoiseConfig(noise="ou")), BOX),
    "scalar": (DDPGConfig(n_step=3, return_scaling=True), spaces.Box(-1.0, 1.0, (), np.float32)),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("policy_target", "critic_target", "update_policy_target", "update_critic_target")
RANGES = [("n_step", 0), ("tau", 0.0), ("tau", 1.5)]
RESUME = {"exploration": NoiseConfig(noise_std_end=0.01, noise_decay_steps=200)}
PROBED = {
    "plain": Probed(
        config=DDPGConfig(**FAST_CRITIC, tau=0.1, exploration=NoiseConfig(noise_std=1.0)), space=PROBE_BOX, updates=200
    )
}
BANDIT = (DDPGConfig(actor_optim=OptimConfig(lr=0.003), critic_optim=OptimConfig(lr=0.01)), 300)


def make(space=BOX, net=NET, obs=OBS, **config):
    return DDPG.make(DDPGConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


def test_losses_by_hand():
    # target = 1 + 0.9 * 4 = 4.6; error 1 - 4.6
    algorithm = make()
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, slope=1.0), FixedCritic(4.0)
    critic, actor = recorded(algorithm, "critic_optim", "actor_optim")
    algorithm.update_critic_target = lambda: None
    data = batch(act=np.zeros((16, 2), np.float32), rew=np.ones(16, np.float32))
    act = algorithm.policy(Batch(obs=data.obs)).act
    stats = algorithm.update(data)
    assert critic[0].item() == stats.loss_critic == pytest.approx(3.6**2)
    assert actor[0].item() == stats.loss_actor == pytest.approx(-(1.0 + act.sum(-1).mean().item()), abs=1e-5)
    assert stats.q_mean == pytest.approx(1.0)
    assert stats.priorities.tolist() == pytest.approx([3.6] * 16)


def test_weights_and_discount_enter_the_critic_loss():
    algorithm = make()
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0), FixedCritic(4.0)
    critic, _ = recorded(algorithm, "critic_optim", "actor_optim")
    algorithm.actor_optim.step = lambda loss: None
    algorithm.update_critic_target = lambda: None
    algorithm.update(two_rows())  # errors 1 and -1
    assert critic[0].item() == pytest.approx((1.0 + 0.5) / 2)


def test_the_target_is_the_value_of_the_target_policys_own_action():
    algorithm = make()
    algorithm.critic_target = FixedCritic(0.0)
    algorithm.update_critic_target = lambda: None
    with torch.no_grad():
        algorithm.policy_target.head.bias.fill_(9.0)
    algorithm.update(batch())
    assert algorithm.critic_target.asked[0].min().item() > 0.99


def test_only_exploring_rows_get_noise():
    policy = make(exploration=NoiseConfig(noise_std=0.4)).policy
    evaluating = np.arange(1000) % 2 == 0
    act = policy.rollout(RolloutRequest(obs=np.zeros((1000, 3), np.float32), is_evaluation=evaluating)).action
    plain = policy(Batch(obs=np.zeros((1, 3), np.float32))).act.detach().numpy()
    assert act[evaluating] == pytest.approx(np.repeat(plain, 500, axis=0), abs=1e-6)
    assert (act[~evaluating] - plain).std() == pytest.approx(0.4, rel=0.1)
