import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import GAMMA, Probed, of_both_spaces

from argosy.algorithm import PPO, OptimConfig, PPOConfig, Task
from argosy.algorithm.ppo import TERMS
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.policy import ActorCriticPolicy
from argosy.policy.rollouts import advantage_rows, minibatches, rollout_values

OBS = spaces.Box(-10, 10, (1,), np.float32)

CASES = {
    "discrete": (PPOConfig(repeat_per_collect=2, batch_size=16), spaces.Discrete(3)),
    "multi-discrete": (
        PPOConfig(repeat_per_collect=3, batch_size=None, recompute_advantage=True, popart=True),
        spaces.MultiDiscrete([2, 3]),
    ),
    "box": (
        PPOConfig(repeat_per_collect=2, return_scaling=True, value_clip=True, dual_clip=3.0, batch_size=16),
        spaces.Box(-2.0, 2.0, (2,), np.float32),
    ),
    "gsde": (PPOConfig(repeat_per_collect=2, gsde_steps=3), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [
    ("gamma", -0.1),
    ("gae_lambda", 2.0),
    ("clip_ratio", -1.0),
    ("dual_clip", 1.0),
    ("entropy_coef_end", -0.1),
    ("batch_size", 0),
    ("repeat_per_collect", 0),
    ("target_kl", 0.0),
    ("action_bound_method", "cut"),
    ("log_std_init", 3.0),
    ("gsde_steps", 0),
]
RESUME = {"batch_size": 32, "repeat_per_collect": 3}
PROBE_CONFIG = PPOConfig(
    gamma=GAMMA,
    optim=OptimConfig(lr=0.02, eps=1e-5, max_grad_norm=0.5),
    repeat_per_collect=4,
    batch_size=32,
)
SHARED = NetConfig(hidden_sizes=(16,), activation="tanh", shared_backbone=True)
PROBED = {
    **of_both_spaces(PROBE_CONFIG, 20),
    "shared": Probed(config=PROBE_CONFIG, updates=20, net=SHARED, probes=("both", "endless")),
    "multi": Probed(
        config=PROBE_CONFIG, updates=20, net=SHARED, space=spaces.MultiDiscrete([2]), probes=("both", "discount")
    ),
}


def make(space=None, **config):
    return PPO.make(PPOConfig(**config), Task(observation_space=OBS, action_space=space or spaces.Discrete(2)), seed=0)


def optim(**settings):
    return OptimConfig(**{"eps": 1e-5, "max_grad_norm": 0.5, **settings})


def rollout(T=6, B=2, seed=0, **changes):
    rng = np.random.default_rng(seed)
    fields = {
        "obs": rng.normal(size=(T, B, 1)).astype(np.float32),
        "obs_next": rng.normal(size=(T, B, 1)).astype(np.float32),
        "act": rng.integers(2, size=(T, B)),
        "rew": rng.normal(size=(T, B)).astype(np.float32),
        "terminated": np.zeros((T, B), bool),
        "truncated": np.zeros((T, B), bool),
        "cut": np.arange(T)[:, None].repeat(B, 1) == T - 1,
        "policy": Batch(logp=np.full((T, B), -0.7, np.float32)),
    }
    return Batch({**fields, **changes})


def value_is_observation(algorithm):
    """Let V(obs) be the observation itself, and note what it was asked for."""
    asked, policy = [], algorithm.policy
    analyze = policy.analyze

    def told(obs):
        asked.append(obs.clone())
        return Batch(value=obs.squeeze(-1))

    policy.analyze = lambda sample: analyze(sample) if "act" in sample else told(sample.obs)  # minibatches are learned
    policy.analyze_next = lambda sample, rows: told(sample.obs_next[rows])
    return asked


def tensors(batch):
    batch = batch.copy()
    batch.to_torch()
    return batch


def rows_of(algorithm, data):
    return advantage_rows(algorithm.policy, data, algorithm.config.gamma, algorithm.config.gae_lambda)


def column(*values):
    return np.asarray(values, np.float32).reshape(-1, 1)


def test_truncation_bootstraps_from_the_true_successor_and_termination_from_nothing():
    algorithm = make(gamma=0.5, gae_lambda=1.0)
    asked = value_is_observation(algorithm)
    data = rollout(
        T=4,
        B=1,
        obs=column(1, 2, 3, 4)[..., None],
        obs_next=column(2, 100, 50, 6)[..., None],  # row 1 truncated at 100, row 2 terminated at 50, row 3 last
        rew=column(1, 1, 1, 1),
        terminated=column(0, 0, 1, 0).astype(bool),
        truncated=column(0, 1, 0, 0).astype(bool),
        cut=column(0, 1, 1, 1).astype(bool),
    )
    data = tensors(data)
    data.policy.value = torch.from_numpy(column(1, 2, 3, 4))
    returns = rows_of(algorithm, data).returns
    # row 3: 1 + 0.5 * 6; row 2: 1; row 1: 1 + 0.5 * 100; row 0: 1 + 0.5 * returns[1]
    assert returns.flatten().tolist() == pytest.approx([26.5, 51.0, 1.0, 4.0])
    assert [rows.flatten().tolist() for rows in asked] == [[100.0, 6.0]]  # successors of cut, living rows alone


def test_values_stored_when_acting_are_used_and_missing_ones_computed():
    algorithm = make()
    asked = value_is_observation(algorithm)
    stored = Batch(logp=np.zeros((6, 2), np.float32), value=np.full((6, 2), 7.0, np.float32))
    assert (rows_of(algorithm, tensors(rollout(policy=stored))).value == 7.0).all()
    assert sum(len(rows) for rows in asked) == 2  # only the last rows' successors
    data = rollout()
    rows = rows_of(algorithm, tensors(data))
    assert rows.value.tolist() == data.obs.ravel().tolist()


def test_values_of_a_long_rollout_are_computed_in_pieces(monkeypatch):
    monkeypatch.setattr("argosy.policy.rollouts.CHUNK_ROWS", 5)
    algorithm = make()
    asked = value_is_observation(algorithm)
    data = tensors(rollout(T=7, B=2))
    value, _ = rollout_values(algorithm.policy, data)
    assert torch.equal(value, data.obs.squeeze(-1))
    assert [len(rows) for rows in asked[:-1]] == [5, 5, 4]
    assert asked[-1].tolist() == data.obs_next[-1].tolist()  # successors of the last rows


def test_rows_keep_time_and_env_together():
    data = tensors(rollout())
    rows = rows_of(make(), data)
    for key in ("obs", "act"):
        assert torch.equal(rows[key].reshape(6, 2, *rows[key].shape[1:]), data[key])
    assert torch.equal(rows.logp.reshape(6, 2), data.policy.logp)


def minibatch(**fields):
    """A minibatch for `_loss` of an algorithm whose policy says what `now` says."""
    given = {"logp": [0.0, 0.0], "value": [0.0, 0.0], "adv": [1.0, -1.0], "returns": [0.0, 0.0], **fields}
    return Batch({key: torch.tensor(value) for key, value in given.items()})


def loss_of(config, now_logp, now_value=(0.0, 0.0), entropy=0.0, **fields):
    algorithm = make(normalize_adv=False, **config)
    algorithm.policy.analyze = lambda mb: Batch(
        logp=torch.tensor(now_logp).log(), entropy=torch.full((2,), entropy), value=torch.tensor(now_value)
    )
    loss, means = algorithm._loss(minibatch(**fields))
    assert loss.item() == pytest.approx((means @ algorithm.term_weights).item())  # what `update` reports
    return {"loss": loss.item(), **dict(zip(TERMS, means.tolist(), strict=True))}


def test_clipped_objective_by_hand():
    # ratios 1.5 and 0.5 (acting probability 1): min(1.5, 1.2) * 1 and min(-0.5, -0.8)
    found = loss_of({"clip_ratio": 0.2}, [1.5, 0.5])
    assert found["loss_policy"] == pytest.approx(-(1.2 - 0.8) / 2)
    assert found["clip_fraction"] == 1.0
    assert found["approx_kl"] == pytest.approx(((0.5 - np.log(1.5)) + (-0.5 - np.log(0.5))) / 2)
    # The bound does not help where the ratio moved to the worse side: min(0.5, 0.8) and min(-1.5, -1.2)
    found = loss_of({"clip_ratio": 0.2}, [0.5, 1.5])
    assert found["loss_policy"] == pytest.approx(-(0.5 - 1.5) / 2)


def test_dual_clip_bounds_the_loss_of_negative_advantages():
    assert loss_of({"dual_clip": 3.0}, [1.0, 10.0])["loss_policy"] == pytest.approx(-(1.0 - 3.0) / 2)
    assert loss_of({}, [1.0, 10.0])["loss_policy"] == pytest.approx(-(1.0 - 10.0) / 2)


def test_value_clip_takes_the_worse_error():
    # values 1 and 0.1, acted with 0: clipped to 0.2 and 0.1; returns 1: errors max(0, 0.64) and max(0.81, 0.81)
    fields = {"now_value": (1.0, 0.1), "returns": [1.0, 1.0]}
    assert loss_of({"value_clip": True}, [1.0, 1.0], **fields)["loss_value"] == pytest.approx((0.64 + 0.81) / 2)
    assert loss_of({}, [1.0, 1.0], **fields)["loss_value"] == pytest.approx(0.81 / 2)


def test_total_loss_adds_value_and_entropy_with_their_weights():
    config = {"value_coef": 0.25, "entropy_coef": 0.1}
    found = loss_of(config, [1.0, 1.0], now_value=(2.0, 2.0), entropy=3.0, adv=[1.0, 1.0])
    assert found["loss"] == pytest.approx(-1.0 + 0.25 * 4.0 - 0.1 * 3.0)


def test_advantages_are_normalised_within_the_minibatch():
    algorithm = make()
    seen = []
    algorithm.policy.analyze = lambda mb: Batch(logp=torch.zeros(2), entropy=torch.zeros(2), value=torch.zeros(2))
    for adv in ([10.0, 30.0], [5.0, 5.0]):  # the second: no deviation to divide by
        mb = minibatch(adv=adv)
        loss, means = algorithm._loss(mb)
        seen.append(means[TERMS.index("loss_policy")].item())
        assert torch.isfinite(loss)
        assert mb.adv.tolist() == adv
    assert seen == pytest.approx([0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("count", "batch_size", "sizes"), [(12, 4, [4, 4, 4]), (13, 4, [5, 4, 4]), (7, 4, [7]), (3, 4, [3]), (9, None, [9])]
)
def test_minibatches_are_equal_shares_of_all_rows(count, batch_size, sizes):
    algorithm = make()
    rows = Batch(adv=torch.arange(count))
    parts = [part.adv for part in minibatches(algorithm.policy, rows, batch_size, algorithm.rng)]
    assert [len(part) for part in parts] == sizes
    assert sorted(torch.cat(parts).tolist()) == list(range(count))
    assert (torch.cat(parts).tolist() == list(range(count))) == (len(sizes) == 1)  # all in one are left in order


def test_passes_and_steps_are_counted():
    stats = make(repeat_per_collect=3, batch_size=4).update(rollout())
    assert stats.gradient_steps == 9


def test_a_large_divergence_stops_the_passes():
    stats = make(repeat_per_collect=50, batch_size=4, optim=optim(lr=0.05), target_kl=0.01).update(rollout())
    assert 3 <= stats.gradient_steps < 150
    assert stats.gradient_steps % 3 == 0


def test_advantages_are_estimated_anew_before_every_pass_but_the_first(monkeypatch):
    for recompute, count in ((False, [False]), (True, [False, True, True, True])):
        algorithm = make(repeat_per_collect=4, batch_size=None, recompute_advantage=recompute)
        calls = []

        def estimate(*args, anew=False, calls=calls):
            calls.append(anew)
            return advantage_rows(*args, anew=anew)

        monkeypatch.setattr("argosy.algorithm.ppo.advantage_rows", estimate)
        algorithm.update(rollout())
        assert calls == count


def test_return_scaling_leaves_advantages_in_rewards_and_gives_the_critic_unit_deviation():
    algorithm, plain = make(return_scaling=True, gamma=0.9), make(gamma=0.9)
    for each in (algorithm, plain):
        value_is_observation(each)
    rew = 100 * np.random.default_rng(1).normal(size=(50, 2)).astype(np.float32)
    data = tensors(rollout(T=50, rew=rew))
    rows, plain_rows = rows_of(algorithm, data), rows_of(plain, data)
    torch.testing.assert_close(rows.adv, plain_rows.adv)
    std = plain_rows.returns.std(correction=0).item()
    torch.testing.assert_close(rows.returns, plain_rows.returns / std, rtol=1e-4, atol=1e-5)
    assert algorithm.policy.value_head.std.item() == pytest.approx(std, rel=1e-4)


def test_recomputing_counts_each_return_once():
    algorithm = make(return_scaling=True, recompute_advantage=True, repeat_per_collect=5)
    algorithm.update(rollout(T=6, B=2))
    assert algorithm.policy.value_head.statistics.count == 12


@pytest.mark.parametrize("scaling", ["return_scaling", "popart"])
def test_the_value_loss_is_in_units_of_the_critic(scaling):
    algorithm = make(**{scaling: True})
    head = algorithm.policy.value_head
    head.take_in(torch.tensor([-30.0, 50.0]))  # mean 10, deviation 40
    algorithm.policy.analyze = lambda mb: Batch(
        logp=torch.zeros(2), entropy=torch.zeros(2), value=torch.tensor([10.0, 90.0])
    )
    _, means = algorithm._loss(minibatch(returns=head.scaled(torch.tensor([50.0, 50.0])).tolist()))
    assert means[TERMS.index("loss_value")].item() == pytest.approx(1.0)


def test_policies_of_ones_own_scale_returns_by_the_same_layer_or_are_refused():
    own = lambda observation_space, action_space: ActorCriticPolicy(observation_space, action_space)  # noqa: E731
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), policy=own)
    with pytest.raises(ConfigError, match=r"PPOConfig\.return_scaling or popart is True, but ActorCriticPolicy has no"):
        PPO.make(PPOConfig(popart=True), task)
    assert isinstance(PPO.make(PPOConfig(), task).policy, ActorCriticPolicy)


def test_schedule_of_the_entropy_bonus():
    algorithm = make(entropy_coef=0.1, entropy_coef_end=0.02)
    algorithm.schedule(250, 1000)
    assert algorithm.term_weights.tolist() == pytest.approx([1.0, 0.5, -0.08, 0.0, 0.0])
    algorithm.schedule(1100, 1000)
    assert algorithm.term_weights[2].item() == pytest.approx(-0.02)
    constant = make(entropy_coef=0.1)
    constant.schedule(250, 1000)
    assert constant.term_weights[2].item() == pytest.approx(-0.1)


def test_uneven_rollouts_in_one_column_work():
    stats = make(batch_size=4).update(rollout(T=11, B=1))
    assert np.isfinite(stats.loss)


def test_schedule_of_the_learning_rate():
    algorithm = make(optim=optim(lr=0.1, lr_schedule="linear"))
    algorithm.schedule(250, 1000)
    assert algorithm.optim.lr == pytest.approx(0.075)
    algorithm.schedule(1100, 1000)  # the last collect may overshoot
    assert algorithm.optim.lr == 0.0
    constant = make(optim=optim(lr=0.1))
    constant.schedule(250, 1000)
    assert constant.optim.lr == 0.1


def test_action_settings_reach_the_policy():
    policy = make(spaces.Box(-2.0, 2.0, (1,)), action_bound_method="tanh").policy
    assert (policy.action_bound_method, policy.action_scaling) == ("tanh", True)


def test_explained_variance_of_a_perfect_critic_is_1():
    algorithm = make(gamma=0.0)
    value_is_observation(algorithm)
    data = rollout()
    data.rew = data.obs.squeeze(-1)
    assert algorithm.update(data).explained_variance == pytest.approx(1.0, abs=1e-5)


def test_masked_rows_are_looked_at_and_not_learned_from():
    def learned(hide=(), **changes):
        algorithm = make(batch_size=None, repeat_per_collect=2, recompute_advantage=True, return_scaling=True)
        mask = np.ones((6, 2), bool)
        mask[list(hide)] = False
        algorithm.update(rollout(mask=mask, **changes))
        return torch.cat([p.detach().flatten() for p in algorithm.policy.parameters()])

    data = rollout()
    before, behind = data.obs.copy(), data.rew.copy()
    before[0] = 7.0
    behind[5] = 7.0
    hidden = learned(hide=(0, 5))
    assert torch.equal(hidden, learned(hide=(0, 5), obs=before))  # nothing depends on what came before
    assert not torch.equal(hidden, learned(hide=(0, 5), rew=behind))  # the advantages look ahead
    assert not torch.equal(hidden, learned())
    assert torch.equal(learned(), learned(obs=data.obs))


def test_minibatches_of_one_row_are_refused_where_advantages_are_normalised():
    with pytest.raises(ConfigError, match=r"batch_size is 1.*normalize_adv"):
        PPOConfig(batch_size=1)
    make(batch_size=1, normalize_adv=False).update(rollout())


def test_the_advantage_of_a_lone_row_stays_and_is_warned_about():
    algorithm, lone = make(), rollout(T=1, B=1, rew=np.full((1, 1), 5.0, np.float32))
    with pytest.warns(UserWarning, match=r"a batch of one row cannot be standardised"):
        stats = algorithm.update(lone)
    assert abs(stats.loss_policy) > 1.0  # it is learned from
