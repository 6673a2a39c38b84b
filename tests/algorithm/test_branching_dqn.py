import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import NET, OBS, Recorder

from argosy.algorithm import BranchingDQN, BranchingDQNConfig, Task
from argosy.data import Batch

PARTS = spaces.MultiDiscrete([2, 3])
BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)
CASES = {
    "parts": (BranchingDQNConfig(target_update_freq=2), PARTS),
    "box": (BranchingDQNConfig(bins=5, n_step=2, double=False, tau=0.1, target_update_freq=1), BOX),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [("bins", 1), ("n_step", 0), ("target_update_freq", 0), ("tau", 0.0), ("gamma", 1.5)]
PROBED = {
    case: Probed(
        config=BranchingDQNConfig(**FAST_VALUES, bins=3),
        updates=250,
        space=space,
        value=lambda algorithm, obs: algorithm.policy(Batch(obs=obs)).logits.max(dim=-1).values,
    )
    for case, space in (("parts", spaces.MultiDiscrete([2])), ("box", spaces.Box(-1.0, 1.0, (1,))))
}


def make(space=PARTS, net=NET, obs=OBS, **config):
    return BranchingDQN.make(
        BranchingDQNConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0
    )


class Table(torch.nn.Module):
    """A head that says the same values [D, n] everywhere."""

    def __init__(self, *values):
        super().__init__()
        self.values = torch.nn.Parameter(torch.tensor(values))

    def forward(self, features):
        return self.values.expand(*features.shape[:-1], *self.values.shape)


def with_tables(**config):
    """Two parts of two and of three choices; a third one of the first part would be the best."""
    algorithm = make(**config)
    algorithm.policy.head = Table([1.0, 4.0, 99.0], [3.0, 2.0, 0.0])
    algorithm.policy_target.head = Table([5.0, 6.0, 99.0], [1.0, 9.0, 4.0])
    algorithm.optim = Recorder()
    return algorithm


def batch(count=2, **changes):
    fields = {"rew": [1.0] * count, "discount": [0.5] * count, "weight": [1.0] * count} | changes
    arrays = {key: np.asarray(value, np.float32) for key, value in fields.items() if key != "act"}
    obs = np.zeros((count, *OBS.shape), np.float32)
    return Batch(obs=obs, obs_next=obs, act=np.asarray(changes.get("act", [[0, 2]] * count)), **arrays)


@pytest.mark.parametrize(("double", "value"), [(True, (6.0 + 1.0) / 2), (False, (6.0 + 9.0) / 2)])
def test_target_is_the_mean_over_the_parts(double, value):
    """Online choices are 1 and 0; the target network's own would be 1 and 1."""
    algorithm = with_tables(double=double)
    found = algorithm._target(algorithm.prepare(batch(rew=[1.0, 2.0], discount=[0.5, 0.0])))
    assert found.tolist() == [1.0 + 0.5 * value, 2.0]


def test_loss_and_priorities_by_hand():
    # target 1 + 0.5 * 3.5 = 2.75 and, terminated, 1. Taken: (1, 0) and (4, 3); errors (-1.75, -2.75) and (3, 2)
    algorithm = with_tables()
    stats = algorithm.update(batch(act=[[0, 2], [1, 0]], discount=[0.5, 0.0], weight=[1.0, 0.5]))
    assert stats.loss == pytest.approx(((1.75**2 + 2.75**2) / 2 + 0.5 * (9.0 + 4.0) / 2) / 2)
    assert stats.priorities.tolist() == pytest.approx([4.5, 5.0])
    assert stats.q_mean == pytest.approx((0.5 + 3.5) / 2)


def test_masks_hold_in_the_target():
    masked = spaces.Dict({"obs": OBS, "action_mask": spaces.MultiBinary(5)})
    algorithm = make(obs=masked)
    algorithm.policy.head = Table([1.0, 4.0, 99.0], [3.0, 2.0, 0.0])
    algorithm.policy_target.head = Table([5.0, 6.0, 99.0], [1.0, 9.0, 4.0])
    seen = {"obs": torch.zeros(3, *OBS.shape), "action_mask": torch.tensor([[1] * 5, [1, 0, 0, 0, 1], [0] * 5])}
    rows = {"rew": torch.zeros(3), "discount": torch.tensor([1.0, 1.0, 0.0])}
    assert algorithm._target(Batch(obs_next=seen, **rows)).tolist() == [3.5, 4.5, 0.0]
