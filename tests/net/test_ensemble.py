import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, ensemble, frozen_copy
from argosy.net.regularise import add_dropout_and_layer_norm

BOX = spaces.Box(-1, 1, (3,), np.float32)


def test_ensemble_critic_shapes_and_independence():
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), size=3)
    q = critic.value(Batch(obs=torch.randn(5, 3)), torch.randn(5, 2))
    assert q.shape == (3, 5)
    assert not torch.allclose(q[0], q[1])
    sample = Batch(obs=torch.ones(1, 3))
    assert torch.equal(critic.value(sample, torch.ones(1, 2, 1)), critic.value(sample, torch.ones(1, 2)))
    sequences = Batch(obs=torch.randn(4, 5, 3))
    act = torch.randn(4, 5, 2)
    q = critic.value(sequences, act)
    assert q.shape == (3, 4, 5)
    torch.testing.assert_close(q[:, 2], critic.value(Batch(obs=sequences.obs[2]), act[2]))


def test_ensemble_critic_values_successors_as_it_would_the_observations():
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)))
    obs_next, act = torch.randn(5, 3), torch.randn(5, 2)
    found = critic.next_value(Batch(obs=torch.zeros(5, 3), obs_next=obs_next), act)
    assert torch.equal(found, critic.value(Batch(obs=obs_next), act))


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_ensemble_critic_with_memory_starts_every_sequence_from_nothing(memory):
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,), memory=memory, memory_size=4))
    obs, obs_next, act = torch.randn(3, 2, 3), torch.randn(3, 2, 3), torch.randn(3, 2, 2)
    on_reset = torch.tensor([[True, True], [False, True], [False, False]])
    # what a policy has stored is its own memory's and not the critic's
    sample = Batch(obs=obs, obs_next=obs_next, on_reset=on_reset, policy=Batch(state=torch.randn(3, 2, 8)))
    q, q_next = critic.value(sample, act), critic.next_value(sample, act)
    assert q.shape == q_next.shape == (2, 3, 2)

    def alone(first, last, column, successor=False):
        """Value of the last row of a sequence that begins at its first one."""
        rows = (slice(first, last + 1), slice(column, column + 1))
        part = Batch(
            obs=obs[rows], obs_next=obs_next[rows], policy=Batch(), on_reset=torch.zeros(last - first + 1, 1) > 0
        )
        ask = critic.next_value if successor else critic.value
        return ask(part, act[rows])[:, -1, 0]

    torch.testing.assert_close(q[:, 2, 0], alone(0, 2, 0))
    torch.testing.assert_close(q[:, 2, 1], alone(1, 2, 1))
    torch.testing.assert_close(q_next[:, 2, 1], alone(1, 2, 1, successor=True))
    torch.testing.assert_close(q_next[:, 0, 1], alone(0, 0, 1, successor=True))
    assert not torch.allclose(q_next[:, 2, 1], alone(0, 2, 1, successor=True))


@pytest.mark.parametrize("lead", [(5,), (4, 5)])
def test_several_numbers_instead_of_each_value_are_a_last_axis(lead):
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), size=3, atoms=4)
    obs, act = torch.randn(*lead, 3), torch.randn(*lead, 2)
    value = critic.value(Batch(obs=obs), act)
    assert value.shape == (3, *lead, 4)
    torch.testing.assert_close(value[:, -1], critic.value(Batch(obs=obs[-1:]), act[-1:])[:, 0])


def test_values_of_all_discrete_actions_need_none():
    critic = EnsembleCritic(BOX, 0, NetConfig(hidden_sizes=(8,)), size=2, atoms=6)
    assert critic.value(Batch(obs=torch.randn(5, 3))).shape == (2, 5, 6)


@pytest.mark.parametrize("lead", [(5,), (4, 5)])
@pytest.mark.parametrize("atoms", [1, 3])
def test_one_pass_values_observations_and_successors_as_two_do(lead, atoms):
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), size=2, atoms=atoms)
    sample = Batch(obs=torch.randn(*lead, 3), obs_next=torch.randn(*lead, 3))
    act, act_next = torch.randn(*lead, 2), torch.randn(*lead, 2)
    q, q_next = critic.values(sample, act, act_next)
    torch.testing.assert_close(q, critic.value(sample, act))
    torch.testing.assert_close(q_next, critic.next_value(sample, act_next))


@pytest.mark.parametrize("atoms", [1, 4])
def test_scaled_critics_speak_in_units_of_reward(atoms):
    torch.manual_seed(0)
    sample, act = Batch(obs=torch.randn(5, 3)), torch.randn(5, 2)
    made = {how: EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), 3, atoms=atoms, scaling=how) for how in WAYS}
    for critic in made.values():
        critic.load_state_dict(made[None].state_dict(), strict=False)
    plain = made[None].value(sample, act)
    for how, critic in made.items():
        torch.testing.assert_close(critic.value(sample, act), plain)  # it has seen no returns
        critic.take_in(
            torch.tensor([100.0, 300.0, 9.0]), Batch(weight=torch.tensor([0.1, 1.0, 0.0]))
        )  # mean 200, deviation 100
        expected = {None: plain, "std": 100.0 * plain, "popart": plain}[how]
        torch.testing.assert_close(critic.value(sample, act), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(
            critic.value(sample, act, torch.tensor([2, 0])), expected[[2, 0]], rtol=1e-4, atol=1e-4
        )
        values = torch.tensor([100.0, 400.0])
        assert critic.scaled(values).tolist() == {None: [100.0, 400.0], "std": [1.0, 4.0], "popart": [-1.0, 2.0]}[how]


def test_rows_that_only_warm_a_memory_up_do_not_count_in_the_scale():
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), scaling="popart")
    mask = torch.tensor([[False, True], [True, True]])
    critic.take_in(torch.tensor([[999.0, 1.0], [2.0, 3.0]]), Batch(weight=torch.ones(2, 2), mask=mask))
    assert critic.q[-1].mean.item() == 2.0


WAYS = (None, "std", "popart")


def test_a_target_follows_the_scale_of_what_it_follows():
    """With a step of 1 it says the same; with shorter ones it moves smoothly, though layer and scale move apart."""
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8,)), scaling="popart")
    target, half = frozen_copy(critic), frozen_copy(critic)
    sample, act = Batch(obs=torch.randn(64, 3)), torch.randn(64, 2)
    critic.take_in(torch.randn(1000) * 3.0 - 5.0, Batch(weight=torch.ones(1000)))
    TargetUpdate(target, critic, tau=1.0)()
    torch.testing.assert_close(target.value(sample, act), critic.value(sample, act))
    follow = TargetUpdate(half, critic, tau=0.1)
    for _ in range(100):
        follow()
    torch.testing.assert_close(half.value(sample, act), critic.value(sample, act), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("members", "scaling", "normalised"),
    [(None, None, False), ([2, 0], None, False), (None, "popart", False), (None, None, True)],
)
def test_a_large_ensemble_in_blocks_of_rows_is_the_same(monkeypatch, members, scaling, normalised):
    torch.manual_seed(0)
    critic = EnsembleCritic(BOX, 2, NetConfig(hidden_sizes=(8, 8)), 3, atoms=2, scaling=scaling)
    critic.take_in(torch.tensor([1.0, 300.0]), Batch(weight=torch.ones(2)))
    if normalised:
        add_dropout_and_layer_norm(critic.q, 0.0)
        nn.init.normal_(critic.q[2].weight)
    obs, act = torch.randn(7, 3), torch.randn(7, 2).requires_grad_()
    leaves, which = [act, *critic.q.parameters()], None if members is None else torch.tensor(members)
    seen = []
    for large in (2**62, 0):
        monkeypatch.setattr(ensemble, "LARGE", large)
        monkeypatch.setattr(ensemble, "BLOCK", 3)
        q = critic.value(Batch(obs=obs), act, which)
        seen.append([q, *torch.autograd.grad(q.square().sum(), leaves)])
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
