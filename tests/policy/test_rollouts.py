"""Values, sequences and minibatches of rollouts, by hand, above all of recurrent policies."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm import PPO, PPOConfig
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.policy import ActorCriticPolicy, RolloutRequest, RolloutResult, SingleModelPytorchPolicy
from argosy.policy.rollouts import advantage_rows, minibatches, rollout_values, rows_to_learn
from argosy.policy.sequences import sequences, starts
from argosy.rng import Rng

OBS, ACT = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)


class Adder(SingleModelPytorchPolicy):
    """State: the sum of the observations; value: the state after the observation, times its one weight."""

    def __init__(self, **kwargs):
        super().__init__(OBS, ACT, nn.Linear(1, 1, bias=False), default_policy_state=np.zeros(1, np.float32), **kwargs)
        nn.init.ones_(self.net.weight)

    def rollout(self, requests):
        state = requests.policy_state + requests.obs
        return RolloutResult(action=np.zeros(len(state), np.int64), policy_state=state)

    def states_after(self, sample):
        h, after = sample.policy.state[0], []
        for t, obs in enumerate(sample.obs):
            h = torch.where(sample.on_reset[t][:, None], sample.policy.state[t], h) + obs
            after.append(h)
        return torch.stack(after)

    def analyze(self, sample):
        value = self.net(self.states_after(sample)).squeeze(-1)
        return Batch(logp=0.1 * value, entropy=value, value=value)

    def analyze_next(self, sample, rows):
        return Batch(value=self.net(self.states_after(sample)[rows] + sample.obs_next[rows]).squeeze(-1))


def rollout():
    """Two columns of 5 steps; the first is cut after row 1 (a new episode begins), the second goes on."""
    obs = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [5.0, 50.0]])
    state = torch.tensor([[7.0, 100.0], [8.0, 110.0], [0.0, 130.0], [3.0, 160.0], [7.0, 200.0]])
    cut = torch.zeros(5, 2, dtype=torch.bool)
    cut[1, 0] = cut[4] = True
    return Batch(
        on_reset=starts(cut),
        obs=obs[..., None],
        obs_next=obs[..., None] + 0.5,
        act=torch.zeros(5, 2, dtype=torch.int64),
        rew=torch.ones(5, 2),
        terminated=torch.zeros(5, 2, dtype=torch.bool),
        cut=cut,
        policy=Batch(state=state[..., None], logp=torch.zeros(5, 2)),
    )


def test_rows_start_anew_after_a_cut():
    assert starts(rollout().cut).T.tolist() == [[True, False, True, False, False], [True] + [False] * 4]


def test_sequences_hold_each_row_once_behind_its_burn_in():
    cut = sequences(rollout(), 2, burn_in=1)
    # columns: (sequence 0, env 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1); 3 sequences of 2 rows and 1 before them
    assert cut.obs[..., 0].T.tolist() == [[1, 1, 2], [10, 10, 20], [2, 3, 4], [20, 30, 40], [4, 5, 5], [40, 50, 50]]
    assert cut.mask.T.tolist() == [[False, True, True]] * 4 + [[False, True, False]] * 2
    assert cut.on_reset[:, 2].tolist() == [False, True, False]
    assert cut.on_reset[:, 0].tolist() == [True, True, False]  # what stands before the first row does not matter
    assert cut.policy.state[:, 2, 0].tolist() == [8, 0, 3]
    assert sorted(cut.obs[..., 0][cut.mask].tolist()) == sorted(rollout().obs.flatten().tolist())
    rows = rollout()
    del rows.on_reset
    assert torch.equal(sequences(rows, 2, burn_in=1).on_reset, cut.on_reset)
    assert "on_reset" not in rows


@pytest.mark.parametrize("length", [1, 5, 9])
def test_sequences_of_any_length_hold_all_rows(length):
    cut = sequences(rollout(), length)
    assert cut.mask.shape == (length, 2 * -(-5 // length))
    assert sorted(cut.obs[..., 0][cut.mask].tolist()) == [1, 2, 3, 4, 5, 10, 20, 30, 40, 50]


def test_values_follow_the_state_and_successors_are_one_step_later():
    data = rollout()
    value, value_next = rollout_values(Adder(), data)
    assert value.T.tolist() == [[8, 10, 3, 7, 12], [110, 130, 160, 200, 250]]
    # the next row's value, but computed with the episode's own state at the rows (1, 0), (4, 0), (4, 1)
    assert value_next.T.tolist() == [
        [10, 8 + 2 + 2.5, 7, 12, 7 + 5 + 5.5],
        [130, 160, 200, 250, 200 + 50 + 50.5],
    ]


def test_stored_values_are_taken_unless_they_shall_be_computed_anew():
    data, policy = rollout(), Adder()
    data.policy.value = torch.full((5, 2), 3.0)
    assert (rollout_values(policy, data)[0] == 3.0).all()
    assert rollout_values(policy, data, anew=True)[0].T.tolist()[0] == [8, 10, 3, 7, 12]


def test_ppo_learns_from_sequences_with_the_values_of_a_recurrent_policy():
    policy = Adder(sequence_length=2, burn_in=1)
    ppo = PPO(PPOConfig(gamma=0.5, gae_lambda=1.0, batch_size=3, repeat_per_collect=1, normalize_adv=False), policy)
    data = rollout()
    rows = advantage_rows(policy, data, 0.5, 1.0)
    assert rows.value.T.tolist() == [[8, 10, 3, 7, 12], [110, 130, 160, 200, 250]]
    assert rows.returns[1, 0].item() == 1 + 0.5 * 12.5  # truncated: bootstraps with the state of its own episode
    seen = []
    analyze = policy.analyze

    def spy(sample):
        if "adv" in sample:
            seen.append(sample.mask.clone())
            if len(seen) == 1:  # the stored states lead to the values of the whole rollout, burn-in and all
                assert torch.equal(analyze(sample).value[sample.mask], sample.value[sample.mask])
        return analyze(sample)

    policy.analyze = spy
    before = policy.net.weight.item()
    data.policy.logp = 0.1 * rows.value
    stats = ppo.update(data)
    assert [mask.shape[1] for mask in seen] == [2, 2, 2]  # 10 rows in 3 shares of the 6 sequences
    assert sum(int(mask.sum()) for mask in seen) == 10
    assert policy.net.weight.item() != before
    assert stats.gradient_steps == 3


@pytest.mark.parametrize("masked", [False, True])
def test_images_to_learn_from_are_laid_out_once(masked):
    policy = ActorCriticPolicy(spaces.Box(0, 255, (4, 36, 36), np.uint8), spaces.Discrete(2))
    obs = torch.randint(0, 256, (3, 2, 4, 36, 36), dtype=torch.uint8)
    mask = torch.tensor([[True, True], [True, False], [True, True]])
    rollout = Batch(obs=obs, mask=mask) if masked else Batch(obs=obs)
    rows = rows_to_learn(policy, rollout, Batch(obs=obs))
    assert torch.equal(rows.obs, obs[mask] if masked else obs.flatten(0, 1))
    assert rows.obs.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", [(36, 40, 4), (36, 40), (2, 36, 40, 3), (7,)])
def test_other_observations_stay_as_they_lie(shape):
    policy = ActorCriticPolicy(spaces.Box(0, 255, shape, np.uint8), spaces.Discrete(2))
    obs = torch.randint(0, 256, (3, 2, *shape), dtype=torch.uint8)
    rows = rows_to_learn(policy, Batch(obs=obs), Batch(obs=obs))
    assert torch.equal(rows.obs, obs.flatten(0, 1))
    assert rows.obs.data_ptr() == obs.data_ptr()


def test_lengths_are_checked():
    with pytest.raises(ConfigError, match="sequence_length is 0"):
        Adder(sequence_length=0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_networks_of_the_library_learn_the_values_that_they_acted_with(memory, shared):
    torch.manual_seed(0)
    net = NetConfig(hidden_sizes=(4,), memory=memory, memory_size=3, shared_backbone=shared, sequence_length=2)
    policy, rng = ActorCriticPolicy(OBS, ACT, net), np.random.default_rng(0)
    state, begins, rows = np.stack([policy.default_policy_state] * 2), np.ones(2, bool), []
    for t in range(5):
        obs, done = rng.uniform(-1, 1, (2, 1)).astype(np.float32), np.array([t == 1, t == 3])
        state[begins] = 0.0
        result = policy.rollout(RolloutRequest(obs=obs, policy_state=state))
        stored = Batch({**vars(result.analyzed_result), "state": state})
        cut = done | (t == 4)
        rows.append(Batch(obs=obs, act=result.action, rew=np.zeros(2), terminated=done, cut=cut, policy=stored))
        state, begins = result.policy_state.copy(), done
    data = Batch.stack(rows)
    data.to_torch()
    data.on_reset, data.obs_next = starts(data.cut), data.obs
    value, _ = rollout_values(policy, data, anew=True)
    torch.testing.assert_close(value, data.policy.value)
    torch.testing.assert_close(policy.analyze(data).logp, data.policy.logp)
    mb_rows = rows_to_learn(policy, data, Batch(obs=data.obs, act=data.act, logp=data.policy.logp, value=value))
    parts = list(minibatches(policy, mb_rows, 4, Rng(0)))
    assert [part.mask.shape for part in parts] == [(2, 3), (2, 3)]
    for mb in parts:
        now = policy.analyze(mb)
        torch.testing.assert_close(now.value[mb.mask], mb.value[mb.mask])
        torch.testing.assert_close(now.logp[mb.mask], mb.logp[mb.mask])


def test_a_mask_of_the_rollout_is_kept():
    rows = Batch(cut=torch.zeros(4, 1, dtype=torch.bool), mask=torch.tensor([[False], [True], [True], [False]]))
    found = sequences(rows, 2, burn_in=1)
    assert found.mask.T.tolist() == [[False, False, True], [False, True, False]]
    rows.mask[1] = False  # nothing is left of the first sequence
    assert sequences(rows, 2, burn_in=1).mask.T.tolist() == [[False, True, False]]


def test_rows_that_a_mask_hides_do_not_count_as_rows_of_a_minibatch():
    policy = Adder()
    rows = Batch(x=torch.arange(64).view(4, 16), cut=torch.zeros(4, 16, dtype=torch.bool))
    rows.mask = torch.arange(4)[:, None].repeat(1, 16) < 2
    rows.policy = Batch(state=torch.zeros(4, 16, 1))
    assert len(list(minibatches(policy, rows, 8, Rng(0)))) == 4
