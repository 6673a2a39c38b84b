"""Sequences and values of recurrent policies, by hand."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm import DQN, PPO, DQNConfig, PPOConfig
from argosy.data import Batch, NamedArray
from argosy.errors import ConfigError
from argosy.net import GRU
from argosy.policy import ActorCriticAnalysis, ActorCriticPolicy, RolloutResult, SingleModelPytorchPolicy
from argosy.policy.recurrence import begin_anew, next_values, rows_to_learn, sequences, starts, values, with_state

OBS, ACT = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)


class Adder(SingleModelPytorchPolicy):
    """State: the sum of the observations; value: the state after the observation, times its one weight."""

    def __init__(self, **kwargs):
        super().__init__(OBS, ACT, nn.Linear(1, 1, bias=False), default_policy_state=np.zeros(1, np.float32), **kwargs)
        nn.init.ones_(self.net.weight)

    def rollout(self, requests):
        state = requests.policy_state + requests.obs
        return RolloutResult(action=np.zeros(len(state), np.int64), policy_state=state)

    def analyze(self, sample, target=""):
        h, out = sample.policy.state[0], []
        for t, obs in enumerate(sample.obs):
            h = torch.where(sample.on_reset[t][:, None], sample.policy.state[t], h) + obs
            out.append(self.net(h).squeeze(-1))
        value = torch.stack(out)
        return ActorCriticAnalysis(logp=0.1 * value, entropy=value, value=value)


def rollout():
    """Two columns of 5 steps; the first is cut after row 1 (a new episode begins), the second goes on."""
    obs = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [5.0, 50.0]])
    state = torch.tensor([[7.0, 100.0], [8.0, 110.0], [0.0, 130.0], [3.0, 160.0], [7.0, 200.0]])
    cut = torch.zeros(5, 2, dtype=torch.bool)
    cut[1, 0] = cut[4] = True
    return Batch(
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
    assert "on_reset" not in rollout()


@pytest.mark.parametrize("length", [1, 5, 9])
def test_sequences_of_any_length_hold_all_rows(length):
    cut = sequences(rollout(), length)
    assert cut.mask.shape == (length, 2 * -(-5 // length))
    assert sorted(cut.obs[..., 0][cut.mask].tolist()) == [1, 2, 3, 4, 5, 10, 20, 30, 40, 50]


def test_values_follow_the_state_and_successors_are_one_step_later():
    data, policy = rollout(), Adder()
    assert values(policy, data).T.tolist() == [[8, 10, 3, 7, 12], [110, 130, 160, 200, 250]]
    at = data.cut.nonzero(as_tuple=True)  # rows (1, 0), (4, 0), (4, 1)
    assert next_values(policy, data, at).tolist() == [8 + 2 + 2.5, 7 + 5 + 5.5, 200 + 50 + 50.5]


def test_ppo_learns_from_sequences_with_the_values_of_a_recurrent_policy():
    policy = Adder(sequence_length=2, burn_in=1)
    ppo = PPO(PPOConfig(gamma=0.5, gae_lambda=1.0, batch_size=3, repeat_per_collect=1, normalize_adv=False), policy)
    data = rollout()
    rows = ppo._rows(data)
    assert rows.value.T.tolist() == [[8, 10, 3, 7, 12], [110, 130, 160, 200, 250]]
    assert rows.returns[1, 0].item() == 1 + 0.5 * 12.5  # truncated: bootstraps with the state of its own episode
    seen = []
    analyze = policy.analyze

    def spy(sample, target=""):
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


def test_states_begin_anew_in_copies_and_are_put_to_what_is_stored():
    state = NamedArray(h=np.ones((3, 2)))
    begun = begin_anew(state, np.array([True, False, True]), NamedArray(h=np.array([5.0, 6.0])))
    assert begun.h.tolist() == [[5, 6], [1, 1], [5, 6]]
    assert state.h.tolist() == [[1, 1]] * 3
    assert begin_anew(np.ones((2, 1)), np.array([1]), np.zeros(1)).tolist() == [[1], [0]]
    stored = with_state(Batch(logp=np.zeros(3)), state)
    assert stored.state is state
    assert set(stored.keys()) == {"logp", "state"}
    assert with_state(None, state).state is state
    assert with_state(None, None) is None


def test_lengths_are_checked():
    with pytest.raises(ConfigError, match="sequence_length is 0"):
        Adder(sequence_length=0)


def test_gru_of_the_library_fits():
    torch.manual_seed(0)
    gru, data = GRU(1, 1), rollout()
    data.on_reset = starts(data.cut)
    obs, state = 0.01 * data.obs, 0.01 * data.policy.state  # far from where a GRU gives 1 whatever comes
    out = gru(obs, state, data.on_reset)
    again = gru(obs[2], state[2])
    torch.testing.assert_close(out[2, 0], again[0])
    assert not torch.allclose(out[2, 1], again[1])


def test_a_mask_of_the_rollout_is_kept():
    rows = Batch(cut=torch.zeros(4, 1, dtype=torch.bool), mask=torch.tensor([[False], [True], [True], [False]]))
    found = sequences(rows, 2, burn_in=1)
    assert found.mask.T.tolist() == [[False, False, True], [False, True, False]]
    rows.mask[1] = False  # nothing is left of the first sequence
    assert sequences(rows, 2, burn_in=1).mask.T.tolist() == [[False, True, False]]


def test_an_algorithm_that_learns_from_single_rows_refuses_a_policy_with_a_state():
    with pytest.raises(ConfigError, match="DQN does not learn with policies that have a state, and Adder has one"):
        DQN(DQNConfig(), Adder())
