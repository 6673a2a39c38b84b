import numpy as np
import pytest
import torch
from gymnasium import spaces
from stand_ins import BOX, NET, OBS, FixedCritic, batch, learn_what_ends, recorded

from argosy.algorithm import OptimConfig, ReBRAC, ReBRACConfig, Task
from argosy.data import Batch, Sampling
from argosy.net.regularise import EnsembleLayerNorm

CASES = {
    "plain": (ReBRACConfig(policy_freq=1), BOX),
    "scalar": (ReBRACConfig(policy_freq=1, critic_penalty=1.0, popart=True), spaces.Box(-1.0, 1.0, (), np.float32)),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("policy_target", "critic_target", "update_policy_target", "update_critic_target")
RANGES = [("actor_penalty", -1.0), ("critic_penalty", -1.0), ("n_step", 0)]


def make(**config):
    return ReBRAC.make(ReBRACConfig(**config), Task(observation_space=OBS, action_space=BOX, net=NET), seed=0)


def test_critic_loss_by_hand():
    """The data's next action is known of half of the rows: there the target falls by its distance."""
    algorithm = make(critic_penalty=0.5, target_noise=0.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 2.0), FixedCritic(4.0, 3.0)
    losses, _ = recorded(algorithm, "critic_optim", "actor_optim")
    data = batch(4, rew=np.ones(4, np.float32), act_next=np.zeros((4, 2), np.float32))
    data.act_next[2:] = np.nan
    act_next = algorithm.policy_target(Batch(obs=data.obs_next)).act
    algorithm.update(data)
    fallen = 0.5 * act_next.square().sum(-1) * torch.tensor([1.0, 1.0, 0.0, 0.0])
    target = 1.0 + 0.9 * (3.0 - fallen)
    expected = ((1.0 - target).square() + (2.0 - target).square()).mean().item()
    assert losses[0].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_actor_loss_by_hand(scale):
    algorithm = make(policy_freq=1, actor_penalty=0.5)
    algorithm.critic = FixedCritic(50.0 * scale, 3.0 * scale)
    _, losses = recorded(algorithm, "critic_optim", "actor_optim")
    data = batch(act_next=np.zeros((16, 2), np.float32))
    act = algorithm.policy(Batch(obs=data.obs)).act.detach()
    algorithm.update(data)
    distance = (act - torch.from_numpy(data.act)).square().sum(-1).mean().item()
    assert losses[0].item() == pytest.approx(0.5 * distance - 1.0, rel=1e-5)


def test_asks_for_the_actions_that_follow():
    assert make(n_step=2).sampling == Sampling(n_step=2, fields=("act_next",))


def test_critics_are_normalised_and_targets_too():
    algorithm = make()
    for critic in (algorithm.critic, algorithm.critic_target):
        assert sum(isinstance(layer, EnsembleLayerNorm) for layer in critic.q) == len(NET.hidden_sizes)


def test_takes_the_best_actions_that_there_are_and_none_beyond():
    optims = {"actor_optim": OptimConfig(lr=0.003), "critic_optim": OptimConfig(lr=0.003)}
    fields = {"act_next": np.full((64, 2), np.nan, np.float32)}
    assert all(act > 0.7 for act in learn_what_ends(make(policy_freq=1, actor_penalty=0.0, **optims), 300, **fields))
    near = learn_what_ends(make(policy_freq=1, actor_penalty=10.0, **optims), 300, **fields)
    assert all(-0.2 < act < 0.3 for act in near)
