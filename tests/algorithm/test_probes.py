import pytest
import torch
from gymnasium import spaces
from probes import OBS_SPACE, greedy, train_offpolicy, train_onpolicy

from argosy.algorithm import DQN, PPO, SAC, DQNConfig, PPOConfig, SACConfig
from argosy.net import NetConfig

NET = NetConfig(hidden_sizes=(16,), activation="tanh")
GAMMA = 0.5
VALUES = {
    "one": {0.0: 1.0},
    "sight": {-1.0: -1.0, 1.0: 1.0},
    "discount": {0.0: GAMMA, 1.0: 1.0},
    "act": {0.0: 1.0},
    "both": {-1.0: 1.0, 1.0: 1.0},
    "endless": {0.0: 1.0 / (1.0 - GAMMA)},
}
PROBES = sorted(VALUES)


def assert_solved(algorithm, name, value):
    for obs, expected in VALUES[name].items():
        found = value(torch.tensor([[obs]])).item()
        assert found == pytest.approx(expected, abs=0.1), f"V({obs})"
    if name == "act":
        assert greedy(algorithm, 0.0) > 0
    if name == "both":
        assert greedy(algorithm, 1.0) > 0 >= greedy(algorithm, -1.0)


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("double", [True, False])
def test_dqn(name, double):
    config = DQNConfig(gamma=GAMMA, lr=0.01, target_update_freq=20, double=double)
    algorithm = DQN.from_spaces(config, OBS_SPACE, spaces.Discrete(2), NET, seed=0)
    train_offpolicy(algorithm, name, 200)
    assert_solved(algorithm, name, lambda obs: algorithm.policy.net(obs)[0].max())


ACTIONS = {"discrete": spaces.Discrete(2), "box": spaces.Box(-1.0, 1.0, (1,)), "multi": spaces.MultiDiscrete([2])}


@pytest.mark.parametrize(
    ("actions", "shared", "name"),
    [(actions, False, name) for actions in ("discrete", "box") for name in PROBES]
    + [("discrete", True, "both"), ("discrete", True, "endless"), ("multi", True, "both"), ("multi", True, "discount")],
)
def test_ppo(actions, shared, name):
    config = PPOConfig(gamma=GAMMA, lr=0.02, repeat_per_collect=4, batch_size=32)
    net = NetConfig(hidden_sizes=(16,), activation="tanh", shared_backbone=shared)
    algorithm = PPO.from_spaces(config, OBS_SPACE, ACTIONS[actions], net, seed=0)
    train_onpolicy(algorithm, name, 20)
    assert_solved(algorithm, name, algorithm.policy.value)


@pytest.mark.parametrize(("auto_alpha", "name"), [(False, name) for name in PROBES] + [(True, "both")])
def test_sac(auto_alpha, name):
    # a small temperature, so that the entropy is worth little beside the reward
    config = SACConfig(
        gamma=GAMMA, actor_lr=0.01, critic_lr=0.01, alpha_lr=1e-4, alpha=0.01, auto_alpha=auto_alpha, tau=0.1
    )
    algorithm = SAC.from_spaces(config, OBS_SPACE, ACTIONS["box"], NET, seed=0)
    train_offpolicy(algorithm, name, 500)

    def value(obs):
        return algorithm.critic(obs, torch.full((1, 1), greedy(algorithm, obs.item()))).min()

    assert_solved(algorithm, name, value)
