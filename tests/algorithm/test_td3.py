import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import BOX as PROBE_BOX
from probes import FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, FixedCritic, Recorder, batch, parameters, two_rows

from argosy.algorithm import TD3, OptimConfig, Task, TD3Config
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import NoiseConfig, RolloutRequest

CASES = {
    "plain": (TD3Config(policy_freq=1), BOX),
    "three critics": (TD3Config(policy_freq=1, num_critics=3, target_noise=0.0, popart=True), BOX),
    "scalar": (TD3Config(policy_freq=1), spaces.Box(-1.0, 1.0, (), np.float32)),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("policy_target", "critic_target", "update_policy_target", "update_critic_target")
RANGES = [
    ("n_step", 0),
    ("policy_freq", 0),
    ("num_critics", 0),
    ("tau", 0.0),
    ("target_noise", -0.1),
    ("target_noise_clip", -0.5),
]
RESUME = {"policy_freq": 3, "exploration": NoiseConfig(noise_std_end=0.01, noise_decay_steps=200)}
PROBED = {
    "plain": Probed(
        config=TD3Config(**FAST_CRITIC, tau=0.1, exploration=NoiseConfig(noise_std=1.0)), space=PROBE_BOX, updates=200
    )
}
BANDIT = (TD3Config(actor_optim=OptimConfig(lr=0.003), critic_optim=OptimConfig(lr=0.01)), 600)


def make(space=BOX, net=NET, obs=OBS, **config):
    return TD3.make(TD3Config(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


def test_critic_loss_by_hand():
    # target = 1 + 0.9 * min(4, 3) = 3.7; errors 1 - 3.7 and 2 - 3.7
    algorithm = make()
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 2.0), FixedCritic(4.0, 3.0)
    algorithm.critic_optim = Recorder()
    stats = algorithm.update(batch(rew=np.ones(16, np.float32)))
    assert algorithm.critic_optim.losses[0].item() == pytest.approx(2.7**2 + 1.7**2)
    assert stats.loss_critic == pytest.approx(2.7**2 + 1.7**2)
    assert stats.priorities.tolist() == pytest.approx([2.2] * 16)
    assert (stats.q_mean, stats.loss_actor) == (1.5, None)


def test_weights_and_discount_enter_the_critic_loss():
    algorithm = make()
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 1.0), FixedCritic(4.0, 4.0)
    algorithm.critic_optim = Recorder()
    algorithm.update(two_rows())  # errors 1 and -1
    assert algorithm.critic_optim.losses[0].item() == pytest.approx(2 * (1.0 + 0.5) / 2)


def test_the_actor_climbs_the_first_critic_alone():
    algorithm = make(policy_freq=1)
    algorithm.critic, algorithm.critic_target = FixedCritic(5.0, -7.0, slope=1.0), FixedCritic(0.0, 0.0)
    algorithm.critic_optim, algorithm.actor_optim = Recorder(), Recorder()
    algorithm.update_critic_target = lambda: None
    data = batch()
    act = algorithm.policy(Batch(obs=data.obs)).act.detach()
    stats = algorithm.update(data)
    assert algorithm.actor_optim.losses[0].item() == pytest.approx(-(5.0 + act.sum(-1).mean().item()), abs=1e-5)
    assert stats.loss_actor == pytest.approx(algorithm.actor_optim.losses[0].item())


def test_the_target_policys_action_gets_clipped_noise_and_stays_in_bounds():
    algorithm = make(target_noise=10.0, target_noise_clip=0.25)
    algorithm.critic, algorithm.critic_target = FixedCritic(0.0, 0.0), FixedCritic(0.0, 0.0)
    algorithm.critic_optim = Recorder()
    data = batch(400)
    plain = algorithm.policy_target(Batch(obs=data.obs_next)).act
    algorithm.update(data)
    noise = algorithm.critic_target.asked[0] - plain
    # a deviation of 10 is nearly always clipped, to one side as often as to the other
    assert noise.abs().max().item() == pytest.approx(0.25, abs=1e-6)
    assert (noise.abs() > 0.2499).float().mean().item() > 0.9
    assert (noise > 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert torch.equal(algorithm._smoothed(torch.ones(50, 2)).amax(), torch.tensor(1.0))


def test_small_noise_has_the_configured_deviation_and_none_leaves_the_action():
    assert make(target_noise=0.05)._smoothed(torch.zeros(20_000, 1)).std().item() == pytest.approx(0.05, rel=0.03)
    act = torch.tensor([[0.3, -1.0]])
    assert torch.equal(make(target_noise=0.0)._smoothed(act), act)


def test_the_delay_goes_on_after_a_resume():
    algorithm = make(policy_freq=3)
    algorithm.update(batch())
    algorithm.update(batch())
    resumed = make(policy_freq=3)
    resumed.load_state_dict(copy.deepcopy(algorithm.state_dict()))
    assert resumed.update(batch()).loss_actor is not None


def test_only_exploring_rows_get_noise_which_follows_the_schedule():
    algorithm = make(exploration=NoiseConfig(noise_std=0.4, noise_std_end=0.0, noise_decay_steps=100))
    policy = algorithm.policy
    evaluating = np.arange(1000) % 2 == 0
    request = RolloutRequest(obs=np.zeros((1000, 3), np.float32), is_evaluation=evaluating)
    plain = policy(Batch(obs=np.zeros((1, 3), np.float32))).act.detach().numpy()
    for env_step, std in ((0, 0.4), (50, 0.2), (100, 0.0), (500, 0.0)):
        algorithm.schedule(env_step, 1000)
        act = policy.rollout(request).action
        assert act[evaluating] == pytest.approx(np.repeat(plain, 500, axis=0), abs=1e-6)
        assert (act[~evaluating] - plain).std() == pytest.approx(std, rel=0.1, abs=1e-6)
    assert algorithm.policy_target.exploration is None


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_with_memory_it_learns_from_sequences(memory):
    algorithm = make(net=NetConfig(hidden_sizes=(8,), memory=memory, memory_size=4, sequence_length=3), policy_freq=1)
    assert (algorithm.sampling.sequence_length, algorithm.sampling.burn_in) == (3, 0)
    rng, shape = np.random.default_rng(0), (3, 5)
    data = Batch(
        obs=rng.uniform(-1, 1, (*shape, 3)).astype(np.float32),
        obs_next=rng.uniform(-1, 1, (*shape, 3)).astype(np.float32),
        act=rng.uniform(-1, 1, (*shape, 2)).astype(np.float32),
        rew=rng.normal(size=shape).astype(np.float32),
        discount=np.full(shape, 0.9, np.float32),
        weight=np.ones(5, np.float32),
        on_reset=np.arange(3)[:, None].repeat(5, 1) == 0,
        mask=np.ones(shape, bool),
        policy=Batch(state=np.zeros((*shape, algorithm.policy.default_policy_state.size), np.float32)),
    )
    before = parameters(algorithm.policy, algorithm.critic)
    stats = algorithm.update(data)
    assert stats.priorities.shape == (5,)
    assert not any(
        torch.equal(a, b) for a, b in zip(before, parameters(algorithm.policy, algorithm.critic), strict=True)
    )
