import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import NET, OBS, Recorder, batch, learn_two_of_three

from argosy.algorithm import DiscreteBCQ, DiscreteBCQConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.policy import RolloutRequest
from argosy.policy.likely import LikelyPolicy


def likely_value(algorithm, obs):
    found = algorithm.policy.analyze(Batch(obs=obs, act=None))
    return found.of(found.greedy)


SPACE = spaces.Discrete(3)
FOUR = spaces.Discrete(4)
CASES = {
    "plain": (DiscreteBCQConfig(target_update_freq=1), FOUR),
    "dueling": (DiscreteBCQConfig(target_update_freq=1, dueling=True, threshold=0.0, double=False), FOUR),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [("threshold", 1.5), ("logits_penalty", -1.0), ("tau", 0.0), ("n_step", 0)]
PROBED = {
    "plain": Probed(config=DiscreteBCQConfig(**FAST_VALUES), updates=300, value=likely_value),
}


def make(space=SPACE, net=NET, obs=OBS, **config):
    task = Task(observation_space=obs, action_space=space, net=net)
    return DiscreteBCQ.make(DiscreteBCQConfig(**config), task, seed=0)


def analysis(policy, q, probabilities, mask=None, act=0):
    output = torch.stack((torch.tensor(q), torch.tensor(probabilities).log()), dim=-1).flatten().expand(4, -1)
    allowed = None if mask is None else torch.tensor(mask).expand(4, -1)
    return policy._read(output, allowed, torch.full((4,), act))


@pytest.mark.parametrize(
    ("threshold", "mask", "best"),
    [
        (0.3, None, 1),
        (0.0, None, 2),
        (0.5, None, 0),
        (1.0, None, 0),
        (0.5, [False, True, True], 1),
        (0.3, [0, 0, 1], 2),
    ],
)
def test_the_best_of_the_likely_actions_is_taken(threshold, mask, best):
    """Probabilities 0.6, 0.28 and 0.12; the less likely an action, the better."""
    policy = LikelyPolicy(OBS, SPACE, NET, threshold=threshold)
    mask = None if mask is None else [bool(entry) for entry in mask]
    found = analysis(policy, (1.0, 2.0, 3.0), (0.6, 0.28, 0.12), mask)
    assert found.greedy.tolist() == [best] * 4
    allowed = None if mask is None else np.tile(np.array(mask), (4, 1))
    output = np.tile(np.array([1.0, math.log(0.6), 2.0, math.log(0.28), 3.0, math.log(0.12)], np.float32), (4, 1))
    assert policy._choose(output, allowed).tolist() == [best] * 4


def test_loss_by_hand():
    algorithm = make(logits_penalty=0.5, loss="mse")
    q, probabilities = (1.0, 2.0, 3.0), (0.6, 0.28, 0.12)
    algorithm.policy.analyze = lambda sample: analysis(algorithm.policy, q, probabilities, act=1)
    algorithm._target = lambda sample: torch.full((4,), 5.0)
    algorithm.optim = Recorder()
    weight = np.array([1.0, 0.5, 1.0, 0.5], np.float32)
    stats = algorithm.update(batch(4, act=np.ones(4, np.int64), weight=weight))
    penalty = sum(math.log(p) ** 2 for p in probabilities) / 3
    assert (stats.loss_td, stats.loss_imitation) == pytest.approx((0.75 * 9.0, -0.75 * math.log(0.28)))
    assert algorithm.optim.losses[0].item() == pytest.approx(0.75 * (9.0 - math.log(0.28)) + 0.5 * penalty)
    assert stats.priorities.tolist() == pytest.approx([3.0] * 4)


def test_the_target_is_of_a_likely_action():
    """The target's best action is unlikely, both for the online network, which chooses, and for its own."""
    for double in (False, True):
        algorithm = make(double=double)
        for policy in (algorithm.policy, algorithm.policy_target):
            policy.analyze_next = lambda sample, policy=policy: analysis(policy, (1.0, 2.0, 9.0), (0.6, 0.3, 0.1))
        target = algorithm._target(algorithm.prepare(batch(4, act=np.zeros(4, np.int64), rew=np.ones(4, np.float32))))
        assert target.tolist() == pytest.approx([1.0 + 0.9 * 2.0] * 4)


def test_imitates_the_data():
    algorithm = make(threshold=1.0, optim=OptimConfig(lr=0.01))
    for i in range(150):
        data = batch(64, seed=i, discount=np.zeros(64, np.float32))
        data.act = data.obs.argmax(axis=1)
        algorithm.update(data)
    data = batch(200)
    request = RolloutRequest(obs=data.obs, is_evaluation=np.ones(200, bool))
    assert (algorithm.policy.rollout(request).action == data.obs.argmax(axis=1)).mean() > 0.9


def test_takes_the_better_choice_and_not_the_unknown_one():
    fast = {"optim": OptimConfig(lr=0.003)}
    assert learn_two_of_three(make(threshold=0.0, **fast), 150)[2] > 0.95
    assert learn_two_of_three(make(**fast), 150)[0] > 0.95


def test_munchausen_s_bonus_is_refused():
    with pytest.raises(ConfigError, match=r"munchausen_alpha is 0.9, but actions that may not be taken have no log"):
        DiscreteBCQConfig(munchausen_alpha=0.9)
