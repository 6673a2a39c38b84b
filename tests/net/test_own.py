"""A plain nn.Module as network of every algorithm."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm import ALGORITHMS, DQN, PPO, DQNConfig, PPOConfig, Task, algorithm_class
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.net import Backbone, NetConfig
from argosy.policy import RolloutRequest

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (1, 8, 8), np.uint8)
BOTH = spaces.Dict({"image": IMAGE, "cell": spaces.Discrete(5)})


def two_layers(space, width=16):
    return nn.Sequential(nn.Linear(space.shape[0], width), nn.Tanh(), nn.Linear(width, 8))


class Pixels(nn.Module):
    """As everyone writes it: rows of images only, no word about its width."""

    def __init__(self, space):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(space.shape[0], 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(6))

    def forward(self, x):
        assert x.dim() == 4
        assert x.dtype is torch.float32
        self.largest = x.max().item()
        return self.layers(x)


class Mixed(nn.Module):
    def __init__(self, space):
        super().__init__()
        self.pixels = Pixels(space["image"])
        self.cell = nn.Embedding(5, 2)

    def forward(self, obs):
        return torch.cat((self.pixels(obs["image"]), self.cell(obs["cell"])), dim=-1)


@pytest.mark.parametrize(
    "name", [name for name in ALGORITHMS if isinstance(VECTOR, algorithm_class(name).observation_spaces)]
)
def test_every_algorithm_acts_and_has_parameters_in_it(name):
    cls = algorithm_class(name)
    kinds = (spaces.Discrete(2), spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2]))
    actions = next(space for space in kinds if isinstance(space, cls.action_spaces))
    net = NetConfig(encoder=two_layers, hidden_sizes=(16,))
    algorithm = cls.make(cls.config_type(), Task(observation_space=VECTOR, action_space=actions, net=net), seed=0)
    made = [module for module in algorithm.policy.modules() if isinstance(module, nn.Sequential) and len(module) == 3]
    assert any(isinstance(module[1], nn.Tanh) and module[2].out_features == 8 for module in made)
    acted = algorithm.policy.rollout(RolloutRequest(obs=np.zeros((5, 3), np.float32)))
    assert len(acted.action) == 5


def test_it_learns():
    net = NetConfig(encoder=two_layers, encoder_args={"width": 32}, hidden_sizes=())
    dqn = DQN.make(DQNConfig(), Task(observation_space=VECTOR, action_space=spaces.Discrete(2), net=net), seed=0)
    assert dqn.policy.head.in_features == 8  # nothing but the head comes after it
    batch = Batch(
        obs=np.zeros((4, 3), np.float32),
        act=np.array([0, 1, 0, 1]),
        rew=np.ones(4, np.float32),
        obs_next=np.zeros((4, 3), np.float32),
        discount=np.zeros(4, np.float32),
        weight=np.ones(4, np.float32),
    )
    losses = [dqn.update(batch).loss for _ in range(300)]
    assert losses[-1] < 1e-3 < losses[0]


def stacked(rows, lead):
    """Observations as tensors with leading axes; the entries of dicts in another order than the space's."""
    if isinstance(rows[0], dict):
        return {key: stacked([row[key] for row in rows], lead) for key in reversed(list(rows[0]))}
    return torch.as_tensor(np.stack(rows)).reshape((*lead, *np.shape(rows[0])))


@pytest.mark.parametrize(("space", "network", "width"), [(IMAGE, Pixels, 6), (BOTH, Mixed, 8), (VECTOR, two_layers, 8)])
@pytest.mark.parametrize("lead", [(), (4,), (3, 2)])
def test_it_is_given_rows_whatever_the_leading_axes(space, network, width, lead):
    backbone = Backbone(space, NetConfig(encoder=network, hidden_sizes=()))
    rows = [space.sample() for _ in range(max(int(np.prod(lead)), 1))]

    found = backbone(stacked(rows, lead))[0]
    assert found.shape == (*lead, width)
    alone = backbone.encoder(stacked(rows[-1:], (1,)))
    torch.testing.assert_close(found.reshape(-1, width)[-1:], alone)


@pytest.mark.parametrize(("scale_uint8", "largest"), [(True, 1.0), (False, 255.0)])
def test_images_are_scaled_as_the_config_says(scale_uint8, largest):
    backbone = Backbone(IMAGE, NetConfig(encoder=Pixels, scale_uint8=scale_uint8))
    backbone(torch.full((2, 1, 8, 8), 255, dtype=torch.uint8))
    assert backbone.encoder.network.largest == largest


class Numbered(nn.Embedding):
    """Reads numbers of its space alone, counted from its first one."""

    def __init__(self, space):
        super().__init__(int(space.n), 8)
        self.start = int(space.start)

    def forward(self, x):
        return super().forward(x - self.start)


def test_it_is_asked_for_its_width_with_observations_of_its_space():
    space = spaces.Discrete(4, start=3)
    assert Backbone(space, NetConfig(encoder=Numbered, hidden_sizes=()))(torch.tensor([3, 6]))[0].shape == (2, 8)


def loaded(space):
    """A network with numbers of its own: as if they came from a file."""
    network = nn.Linear(space.shape[0], 8)
    nn.init.constant_(network.weight, 0.5)
    return nn.Sequential(network, nn.ReLU())


def test_what_it_starts_with_stays():
    task = Task(observation_space=VECTOR, action_space=spaces.Discrete(2), net=NetConfig(encoder=loaded))
    ppo = PPO.make(PPOConfig(), task, seed=0)
    for backbone in (ppo.policy.actor, ppo.policy.critic):
        assert (backbone.encoder.network[0].weight == 0.5).all()


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (nn.Linear(3, 8), "is a Linear that is made already.*give its class, or a function"),
        (lambda space: nn.Linear(4, 8).requires_grad_(), "mat1 and mat2 shapes cannot be multiplied"),
        (lambda space: nn.Sequential(nn.Linear(4, 8)), r"cannot read observations of Box\(.*mat1 and mat2"),
        (lambda space: nn.Sequential(nn.Flatten(0)), r"gave shape \(6,\) for two observations"),
        (lambda space: nn.LSTM(3, 8), "gave a tuple for two observations"),
        (lambda space: "network", "made a str; it must be an nn.Module"),
        (lambda: nn.Linear(3, 8), "takes 0 arguments without name, but is called with the observation space first"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(encoder, message):
    with pytest.raises((ConfigError, RuntimeError), match=message):
        Backbone(VECTOR, NetConfig(encoder=encoder))(torch.zeros(2, 3))
