import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import BOX as PROBE_BOX
from probes import FAST_CRITIC, Probed, greedy
from stand_ins import BOX, NET, OBS, batch, parameters, recorded

from argosy.algorithm import BCQ, BCQConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.policy import RolloutRequest
from argosy.policy.batch_constrained import BatchConstrainedPolicy


def value_of_the_best(algorithm, obs):
    act = torch.full((1, 1), greedy(algorithm, obs.item()))
    return algorithm.policy.analyze(Batch(obs=obs)).value(act).min()


CASES = {
    "plain": (BCQConfig(num_candidates=4, num_draws=2), BOX),
    "scalar": (
        BCQConfig(num_candidates=3, num_draws=3, num_critics=3, popart=True),
        spaces.Box(-1.0, 1.0, (), np.float32),
    ),
}
FOLLOWS = ("policy_target", "update_target")
FACES = (
    "critic",
    "model_parameters",
)
RANGES = [
    ("n_step", 0),
    ("num_critics", 0),
    ("num_draws", 1),
    ("num_candidates", 1),
    ("max_perturbation", 1.5),
    ("pessimism", -0.1),
    ("tau", 0.0),
]
# of the others the best action is not among those that its own policy takes at first, and so not in their data
REACHED = ("one", "sight", "discount", "endless")
PROBED = {
    "plain": Probed(
        config=BCQConfig(**FAST_CRITIC, tau=0.1), space=PROBE_BOX, updates=300, value=value_of_the_best, probes=REACHED
    )
}
OPTIMS = ("model_optim", "critic_optim", "actor_optim")


def make(space=BOX, net=NET, **config):
    return BCQ.make(BCQConfig(**config), Task(observation_space=OBS, action_space=space, net=net), seed=0)


class FixedAnalysis:
    """Latents of mean 0.5 and deviation 2, decoded to themselves (the first half); the critics say the sum and more."""

    def __init__(self, more, move=0.0):
        self.more, self.move, self.asked = torch.tensor(more), move, []

    def posterior(self, act):
        shape = (len(act), 4)
        return torch.full(shape, 0.5), torch.full(shape, math.log(2.0))

    def decoded(self, latent):
        return latent[..., :2]

    def perturbed(self, act):
        return act + self.move

    def value(self, act):
        self.asked.append(act)
        return act.sum(-1) + self.more.reshape(-1, *(1,) * (act.dim() - 1))


def test_losses_by_hand():
    algorithm = make(num_draws=3, pessimism=0.75)
    now, target = FixedAnalysis((1.0, 2.0), move=0.25), FixedAnalysis((4.0, 6.0), move=0.5)
    algorithm.policy.analyze = algorithm.policy.analyze_next = lambda sample: now
    algorithm.policy_target.analyze_next = lambda sample: target
    noise = torch.arange(-3.0, 4.0)
    algorithm._noise = lambda shape: noise.repeat(200)[: math.prod(shape)].reshape(shape)
    losses = recorded(algorithm, *OPTIMS)
    data = batch(8, rew=np.ones(8, np.float32))
    stats = algorithm.update(data)
    act = torch.from_numpy(data.act)
    drawn = 0.5 + 2.0 * noise.repeat(200)[:32].reshape(8, 4)[:, :2]
    divergence = 0.5 * (4.0 + 0.25 - 1.0) - math.log(2.0)
    assert losses[0][0].item() == pytest.approx((drawn - act).square().mean().item() + 0.5 * divergence, rel=1e-5)
    # the best of three draws, cut at 0.5 and moved by the target; its values are 4 and 6 beside the sum
    draws = noise.repeat(200)[:96].reshape(3, 8, 4)[..., :2].clamp(-0.5, 0.5) + 0.5
    y = 1.0 + 0.9 * (draws.sum(-1).amax(0) + 0.75 * 4.0 + 0.25 * 6.0)
    errors = act.sum(-1) + torch.tensor([[1.0], [2.0]]) - y
    assert losses[1][0].item() == pytest.approx(errors.square().sum(0).mean().item(), rel=1e-5)
    assert stats.priorities.tolist() == pytest.approx(errors.abs().mean(0).tolist(), rel=1e-5)
    moved = noise.repeat(200)[:32].reshape(8, 4)[:, :2].clamp(-0.5, 0.5) + 0.25
    assert losses[2][0].item() == pytest.approx(-(moved.sum(-1) + 1.0).mean().item(), rel=1e-5)


def test_a_row_counts_by_its_weight():
    losses = []
    for weight in (np.ones(2, np.float32), np.full(2, 0.5, np.float32)):
        algorithm = make()
        model, critic, _ = recorded(algorithm, *OPTIMS)
        algorithm.update(batch(2, weight=weight))
        losses.append((model[0].item(), critic[0].item()))
    assert losses[1] == pytest.approx([loss / 2 for loss in losses[0]])


def test_each_optimiser_moves_its_own_part():
    parts = ("model_parameters", "actor_parameters", "critic_parameters")
    for moved in range(3):
        algorithm = make()
        recorded(algorithm, *(name for name in OPTIMS if name != ("model_optim", "actor_optim", "critic_optim")[moved]))
        before = [[p.detach().clone() for p in getattr(algorithm.policy, part)()] for part in parts]
        algorithm.update(batch())
        for i, part in enumerate(parts):
            now = getattr(algorithm.policy, part)()
            assert all(torch.equal(a, b) != (i == moved) for a, b in zip(before[i], now, strict=True))
    assert sum(len(part) for part in before) == len(list(algorithm.policy.parameters()))


def test_where_no_action_is_moved_no_perturbation_is_learned():
    algorithm = make(max_perturbation=0.0)
    before = [p.detach().clone() for p in algorithm.policy.parameters()]
    algorithm.update(batch())
    still = {id(p) for p, old in zip(algorithm.policy.parameters(), before, strict=True) if torch.equal(p, old)}
    assert still == {id(p) for p in algorithm.policy.perturbation.parameters()}


def test_targets_follow_softly():
    algorithm = make(tau=0.25)
    before = parameters(algorithm.policy_target)
    algorithm.update(batch())
    for old, new, moved in zip(before, parameters(algorithm.policy), parameters(algorithm.policy_target), strict=True):
        torch.testing.assert_close(moved, 0.75 * old + 0.25 * new)


def test_the_policy_takes_the_best_candidate_by_the_first_critic():
    policy = BatchConstrainedPolicy(OBS, BOX, NET, num_candidates=6)
    obs = torch.from_numpy(batch(5).obs)
    with torch.no_grad():
        analysis = policy.analyze(Batch(obs=obs))
        candidates = [analysis.perturbed(analysis.decoded(policy.fixed[n].expand(5, -1))) for n in range(6)]
        values = torch.stack([policy.critic.value(Batch(obs=obs), act)[0] for act in candidates])
        best = torch.stack(candidates)[values.argmax(0), torch.arange(5)]
    torch.testing.assert_close(analysis.act, best)


@pytest.mark.parametrize("bound", [0.0, 0.05])
def test_an_action_is_moved_by_no_more_than_the_bound(bound):
    policy = BatchConstrainedPolicy(OBS, BOX, NET, max_perturbation=bound)
    analysis = policy.analyze(Batch(obs=torch.from_numpy(batch(50).obs)))
    act = torch.from_numpy(batch(50, seed=1).act)
    move = analysis.perturbed(act) - act
    assert move.abs().amax().item() <= bound + 1e-6
    assert (move != 0.0).any().item() == (bound > 0.0)
    assert analysis.perturbed(torch.ones(50, 2)).amax().item() <= 1.0


def test_exploring_rows_draw_and_evaluating_ones_act_alike():
    policy = make(num_candidates=3).policy
    obs = batch(200).obs
    evaluating = np.arange(200) % 2 == 0
    acts = [policy.rollout(RolloutRequest(obs=obs, is_evaluation=evaluating)).action for _ in range(2)]
    assert np.array_equal(acts[0][evaluating], acts[1][evaluating])
    assert not np.isclose(acts[0][~evaluating], acts[1][~evaluating]).all(axis=1).any()
    np.testing.assert_allclose(policy(Batch(obs=obs)).act.detach().numpy()[evaluating], acts[0][evaluating], atol=1e-6)
    policy.seed(3)
    again = policy.rollout(RolloutRequest(obs=obs)).action
    policy.seed(3)
    assert np.array_equal(again, policy.rollout(RolloutRequest(obs=obs)).action)


def test_takes_the_better_of_two_actions_and_none_between_or_beyond():
    """Both elements are 0.6 or both -0.6, and reward grows with them."""
    fast = {name: OptimConfig(lr=0.003) for name in OPTIMS}
    algorithm = make(net=NetConfig(hidden_sizes=(64, 64)), **fast)
    for i in range(400):
        data = batch(128, seed=i, discount=np.zeros(128, np.float32))
        data.act = np.repeat(np.where(data.act[:, :1] > 0, 0.6, -0.6), 2, axis=1).astype(np.float32)
        data.rew = data.act.sum(-1)
        algorithm.update(data)
    analysis = algorithm.policy.analyze(Batch(obs=torch.from_numpy(batch(200).obs)))
    drawn = analysis.decoded(algorithm._latents((200,)))
    assert (drawn.abs() - 0.6).abs().median().item() < 0.2
    assert (drawn[:, 0] - drawn[:, 1]).abs().median().item() < 0.1
    assert 0.2 < (drawn[:, 0] > 0).float().mean().item() < 0.8
    assert analysis.act.mean(0).tolist() == pytest.approx([0.65, 0.65], abs=0.1)
