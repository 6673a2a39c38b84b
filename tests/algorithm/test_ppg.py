import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import GAMMA, Probed

from argosy.algorithm import PPG, OptimConfig, PPGConfig, Task
from argosy.algorithm.compiled import compile_update
from argosy.algorithm.ppg import KeptRows
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.net import NetConfig, frozen_copy

OBS = spaces.Box(-10, 10, (1,), np.float32)
SMALL = {"rollouts_per_phase": 1, "aux_epochs": 1, "batch_size": 16}

FACES = ("normaliser",)
CASES = {
    "discrete": (PPGConfig(**SMALL), spaces.Discrete(3)),
    "multi-discrete": (PPGConfig(**SMALL, repeat_per_collect=2, popart=True), spaces.MultiDiscrete([2, 3])),
    "box": (PPGConfig(**{**SMALL, "batch_size": None}, return_scaling=True), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [
    ("gae_lambda", 1.5),
    ("clip_ratio", -0.1),
    ("batch_size", 0),
    ("rollouts_per_phase", 0),
    ("aux_epochs", 0),
    ("beta_clone", -1.0),
    ("entropy_coef_end", -0.1),
]
RESUME = {"batch_size": 32, "rollouts_per_phase": 2}
PROBED = {
    "plain": Probed(
        config=PPGConfig(
            gamma=GAMMA,
            optim=OptimConfig(lr=0.02),
            repeat_per_collect=2,
            batch_size=32,
            rollouts_per_phase=4,
            aux_epochs=2,
        ),
        updates=32,
    )
}


def make(**config):
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=NetConfig(hidden_sizes=(8,)))
    return PPG.make(PPGConfig(**config), task, seed=0)


def rollout(algorithm, seed=0, T=6, B=2):
    rng = np.random.default_rng(seed)
    obs, obs_next = rng.normal(size=(2, T, B, 1)).astype(np.float32)
    batch = Batch(obs=obs, obs_next=obs_next, act=rng.integers(2, size=(T, B)))
    batch.rew = rng.normal(size=(T, B)).astype(np.float32)
    batch.terminated, batch.cut = np.zeros((T, B), bool), np.arange(T)[:, None].repeat(B, 1) == T - 1
    with torch.no_grad():
        logp = algorithm.policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(batch.act))).logp
    batch.policy = Batch(logp=logp.numpy())
    return batch


def test_the_policy_phase_s_loss_by_hand():
    algorithm = make(clip_ratio=0.2, value_coef=0.25, entropy_coef=0.1)
    algorithm.policy.analyze = lambda mb: Batch(
        logp=torch.tensor([1.5, 0.5]).log(), entropy=torch.tensor([0.5, 0.7]), value=torch.tensor([1.0, 2.0])
    )
    fields = {"logp": [0.0, 0.0], "adv": [3.0, 1.0], "returns": [0.0, 4.0]}  # normalised: 1 and -1
    loss, means = algorithm._policy_loss(Batch({name: torch.tensor(value) for name, value in fields.items()}))
    # min(1.5, 1.2) and min(-0.5, -0.8)
    assert means.tolist() == pytest.approx([-(1.2 - 0.8) / 2, (1.0 + 4.0) / 2, 0.6])
    assert loss.item() == pytest.approx(-0.2 + 0.25 * 2.5 - 0.1 * 0.6)


@pytest.mark.parametrize("scaling", ["return_scaling", "popart"])
def test_rollouts_are_kept_in_units_of_reward_and_learned_in_the_critic_s(scaling):
    algorithm = make(
        gamma=0.0, rollouts_per_phase=3, batch_size=None, value_coef=1.0, entropy_coef=0.0, **{scaling: True}
    )
    given = []
    for scale in (1.0, 100.0):
        batch = rollout(algorithm)
        batch.rew = scale * batch.rew
        given.append(batch.rew.T.ravel())
        algorithm.update(batch)
    kept = [np.sort(rows.returns.numpy().ravel()) for rows in algorithm.kept.rollouts]
    np.testing.assert_allclose(kept, [np.sort(rew) for rew in given], rtol=1e-4, atol=1e-4)
    std = np.std(given)
    first = algorithm.kept.rollouts[0]
    with torch.no_grad():
        error = (algorithm.policy.analyze(first).value - first.returns) / std
        _, means = algorithm._policy_loss(first)
    assert means[1].item() == pytest.approx(error.square().mean().item(), rel=1e-3)


def test_compiled_it_keeps_observations_as_they_came(monkeypatch):
    """They are normalised when the auxiliary phase learns from them, and not before, too."""
    monkeypatch.setattr(torch, "compile", lambda function: function)
    monkeypatch.setattr(torch.compiler, "disable", lambda function: function)
    kept = []
    for compiled in (False, True):
        task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=NetConfig(norm_obs=True))
        algorithm = PPG.make(PPGConfig(rollouts_per_phase=3), task, seed=0)
        if compiled:
            compile_update(algorithm)
        for seed in range(2):
            batch = rollout(algorithm, seed)
            algorithm.update(batch)
        kept.append(np.sort(algorithm.kept.rollouts[1].obs.numpy().ravel()))
    np.testing.assert_array_equal(*kept)
    np.testing.assert_array_equal(kept[0], np.sort(batch.obs.ravel()))


def test_a_phase_follows_every_so_many_rollouts_and_learns_from_all_of_them():
    algorithm = make(rollouts_per_phase=3, aux_epochs=2, batch_size=4)
    steps = []
    for i in range(6):
        stats = algorithm.update(rollout(algorithm, seed=i))
        steps.append(stats.gradient_steps)
        assert (stats.aux_error is None) == (i % 3 != 2)
    assert steps == [3, 3, 3 + 2 * 3 * 3] * 2
    assert not algorithm.kept.rollouts


def auxiliary_phase(beta_clone):
    """Errors and divergences of a long phase over returns that depend on the observation."""
    optim = OptimConfig(lr=3e-3)
    algorithm = make(
        gamma=0.0, rollouts_per_phase=9, aux_epochs=100, batch_size=None, beta_clone=beta_clone, optim=optim
    )
    for i in range(4):
        batch = rollout(algorithm, seed=i, T=20)
        batch.rew = 3.0 * batch.obs[..., 0]
        algorithm.update(batch)
    return torch.stack(algorithm._auxiliary_phase(frozen_copy(algorithm.policy)))


def test_the_actor_learns_to_predict_returns_and_acts_as_before():
    error, kl = auxiliary_phase(beta_clone=10.0).unbind(1)
    assert error[-4:].mean() < 0.3 * error[:4].mean()
    assert kl[0] == pytest.approx(0.0, abs=1e-6)
    free_error, free_kl = auxiliary_phase(beta_clone=0.0).unbind(1)
    assert free_error[-4:].mean() < 0.3 * free_error[:4].mean()
    assert kl[-4:].mean() < 0.5 * free_kl[-4:].mean()  # the divergence is what keeps the actions


def test_rollouts_of_an_unfinished_phase_are_saved():
    first, second = make(rollouts_per_phase=2, batch_size=4), make(rollouts_per_phase=2, batch_size=4)
    first.update(rollout(first))
    second.load_state_dict(first.state_dict())
    assert len(second.kept.rollouts) == 1
    batch = rollout(first, seed=1)
    for algorithm in (first, second):
        assert algorithm.update(batch).aux_error is not None
    for a, b in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_states_with_more_and_fewer_kept_rows_are_taken():
    algorithm = make(rollouts_per_phase=3, batch_size=4)
    algorithm.update(rollout(algorithm))
    state = copy.deepcopy(algorithm.state_dict())
    algorithm.update(rollout(algorithm, seed=1, T=8))
    algorithm.load_state_dict(state)
    assert len(algorithm.kept.rollouts) == 1
    other = make(rollouts_per_phase=3, batch_size=4)
    other.update(rollout(other, T=8))
    other.load_state_dict(state)
    assert len(other.kept.rollouts[0]) == len(algorithm.kept.rollouts[0])


def test_kept_rows_come_to_the_device():
    rows = KeptRows(torch.device("meta"))
    rows.load_state_dict({"rows": {"0": {"obs": torch.zeros(3, 1)}}})
    assert rows.rollouts[0].obs.is_meta


def test_shared_layers_are_refused():
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=NetConfig(shared_backbone=True))
    with pytest.raises(ConfigError, match=r"net\.shared_backbone is True, but PPG lets actor and critic learn apart"):
        PPG.make(PPGConfig(), task)


def test_observations_are_kept_as_they_came_and_normalised_as_the_policy_does_by_then():
    net = NetConfig(hidden_sizes=(8,), norm_obs=True)
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=net)
    algorithm = PPG.make(PPGConfig(rollouts_per_phase=3, batch_size=None), task, seed=0)
    given, seen = [], []
    for i in range(2):
        batch = rollout(algorithm, seed=i)
        batch.obs = batch.obs + 5.0
        given.append(batch.obs)
        algorithm.update(batch)
    kept = [rows.obs.reshape(6, 2, 1).numpy() for rows in algorithm.kept.rollouts]
    np.testing.assert_array_equal(kept, given)
    algorithm._mixed = lambda rollouts: seen.extend(rows.obs.clone() for rows in rollouts) or []
    algorithm._auxiliary_phase(frozen_copy(algorithm.policy))
    want = algorithm.policy.normaliser(torch.from_numpy(given[0]).flatten(0, 1))
    torch.testing.assert_close(seen[0], want)
    assert abs(seen[0].mean().item()) < 1.0


def test_minibatches_of_a_phase_are_of_all_rollouts_in_random_order():
    algorithm = make(batch_size=4)
    rollouts = [Batch(x=torch.full((12,), float(i))) for i in range(4)]
    order = [int(mb.x[0]) for mb in algorithm._mixed(rollouts)]
    assert sorted(order) == sorted(list(range(4)) * 3)
    assert order != sorted(order)
