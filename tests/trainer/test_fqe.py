"""Fitted Q evaluation: known values, nothing disturbed, and the best version where nothing is tested."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import argosy
from argosy.algorithm import BC, DQN, BCConfig, DQNConfig, Task
from argosy.data import Batch, ReplayBuffer
from argosy.errors import CallbackError, ConfigError, DataError
from argosy.net import NetConfig
from argosy.run.callbacks import FQE
from argosy.trainer import OfflineTrainer
from argosy.trainer.fqe import FittedQ

SMALL = NetConfig(hidden_sizes=(16,))
TWO = Task(observation_space=Box(-1, 1, (2,)), action_space=Discrete(2), net=SMALL)


def corridor(rows=400, terminal=False, seed=0):
    """Actions 0 and 1 lead to the place of that number, and place 1 pays 1; episodes are cut, or end at once."""
    rng = np.random.default_rng(seed)
    act = rng.integers(2, size=rows)
    place = np.append(0, act[:-1])
    ends = np.ones(rows, bool) if terminal else np.arange(rows) % 20 == 19
    one_hot = np.eye(2, dtype=np.float32)
    return ReplayBuffer.from_data(
        one_hot[place], act, act.astype(np.float32), ends & terminal, ends & (not terminal), ends, one_hot[act]
    )


def choosing(action, gamma=0.9):
    """A DQN whose policy always takes one action."""
    dqn = DQN.make(DQNConfig(gamma=gamma), TWO, seed=0)
    with torch.no_grad():
        dqn.policy.head.weight.zero_()
        dqn.policy.head.bias[:] = torch.eye(2)[action]
    return dqn


@pytest.mark.parametrize(("action", "value"), [(1, 10.0), (0, 0.0)])
def test_the_value_of_a_policy_is_its_discounted_return(action, value):
    judge = FittedQ(choosing(action), corridor())
    judge.fit(1, 64)
    assert judge.updates == pytest.approx(800, abs=1)  # four horizons of 10 steps, by steps of a twentieth
    assert judge.value() == pytest.approx(value, abs=0.6)


def test_what_was_cut_off_goes_on_however_short_the_pieces_are():
    """Rewards of 1 for ever are worth 200, though no episode of the data is longer than 20 rows."""
    dqn = choosing(1, gamma=0.995)
    assert FittedQ(dqn, corridor())._bounds == pytest.approx((0.0, 200.0))
    assert FittedQ(dqn, corridor(terminal=True))._bounds == (0.0, 100.0)


def test_nothing_comes_behind_a_row_that_terminated():
    judge = FittedQ(choosing(1), corridor(terminal=True))
    judge.fit(1, 64)
    assert judge.value() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("gamma", "length", "horizon"), [(1.0, 150, 150), (0.999, 150, 150), (1.0, 20, 100), (0.9, 1, 10)]
)
def test_a_horizon_is_no_longer_than_the_longest_episode(gamma, length, horizon):
    """But no shorter than 100 rows, where gamma does not say so: short pieces say little."""
    rows, one = 1500, np.ones(1500, np.float32)
    ends, obs = np.arange(rows) % length == length - 1, np.zeros((rows, 2), np.float32)
    data = ReplayBuffer.from_data(obs, ends.astype(int), one, ends, ends & False, ends, obs)
    dqn = DQN.make(DQNConfig(gamma=gamma), TWO, seed=0)
    judge = FittedQ(dqn, data, tau=1.0)
    assert judge._bounds == pytest.approx((0.0, horizon))
    judge.fit(1, 4)
    assert judge.updates == pytest.approx(4 * horizon, abs=1)


def test_data_may_lie_on_a_device(monkeypatch):
    def refuse(*args, **options):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    data = ReplayBuffer(400, device="cpu")
    data.update(corridor())
    monkeypatch.setattr(torch.Tensor, "__array__", refuse)  # as a tensor on a GPU does
    judge = FittedQ(choosing(1, gamma=0.0), data)
    judge.fit(1, 8)
    assert judge.value() > 0.0


def test_of_all_rows_only_rewards_are_read_at_once(monkeypatch):
    data, read = corridor(), []
    whole = ReplayBuffer.__getitem__
    monkeypatch.setattr(ReplayBuffer, "__getitem__", lambda self, index: read.append(len(index)) or whole(self, index))
    judge = FittedQ(choosing(1), data)
    judge.value()
    assert read == [20]  # where episodes begin


def test_continuous_actions_are_those_that_the_env_would_get():
    rng = np.random.default_rng(0)
    act, ends = rng.uniform(-1, 1, (400, 1)).astype(np.float32), np.ones(400, bool)
    obs = rng.normal(size=(400, 2)).astype(np.float32)
    data = ReplayBuffer.from_data(obs, act, -np.square(act[:, 0] - 0.3), ends, ends & False, ends, obs)
    task = Task(observation_space=Box(-9, 9, (2,)), action_space=Box(-2, 2, (1,)), net=SMALL)
    bc = BC.make(BCConfig(gamma=0.5), task, seed=0)
    with torch.no_grad():
        for parameter in bc.policy.parameters():
            parameter.mul_(20.0)  # so that actions reach beyond the bounds, where the env cuts them
    judge = FittedQ(bc, data)
    judge.fit(600, 64)
    env_act, _ = bc.policy.predict(obs)
    assert np.abs(env_act).max() == pytest.approx(2.0)
    assert judge.value() == pytest.approx(-np.square(env_act[:, 0] / 2 - 0.3).mean(), abs=0.1)


def test_targets_stay_within_what_rewards_can_sum_up_to():
    judge = FittedQ(choosing(1), corridor(40))
    with torch.no_grad():
        for parameter in judge.target.parameters():
            parameter.fill_(1e3)
    judge._follow.tau = 1e-9
    judge.updates = 1
    judge.fit(300, 32)
    assert judge.value() == pytest.approx(10.0, rel=0.2)


def trained(callbacks, epochs=3, **how):
    bc = BC.make(BCConfig(), TWO, seed=0)
    trainer = OfflineTrainer(
        algorithm=bc,
        buffer=corridor(),
        update_per_epoch=5,
        batch_size=8,
        max_epoch=epochs,
        callbacks=callbacks,
        verbose=False,
        show_progress=False,
        **how,
    )
    trainer.buffer.seed(0)
    return trainer


class Log:
    def __init__(self):
        self.rows = []

    def log(self, metrics, env_step, gradient_step):
        self.rows.append((env_step, metrics))


@pytest.fixture
def no_horizons(monkeypatch):
    monkeypatch.setattr("argosy.trainer.fqe.HORIZONS", 0)


def test_a_run_is_the_same_with_and_without_it(no_horizons):
    torch.manual_seed(0)
    with_it = trained([FQE(updates=3, batch_size=8)], logger=Log())
    with_it.run()
    after = torch.rand(1)
    torch.manual_seed(0)
    without = trained([])
    without.run()
    assert torch.rand(1) == after
    for one, other in zip(with_it.algorithm.policy.parameters(), without.algorithm.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    log = with_it.logger.rows
    assert [step for step, metrics in log if "test/fqe_value" in metrics] == [5, 10, 15]
    assert all({"test/fqe_value", "test/fqe_loss"} == set(m) for _, m in log if "test/fqe_value" in m)


def test_without_tests_it_says_which_version_is_the_best(no_horizons, monkeypatch):
    values = iter([1.0, 3.0, 2.0])
    monkeypatch.setattr(FittedQ, "value", lambda self: next(values))
    saved = []
    trainer = trained([FQE(updates=1, batch_size=8)], save_best_fn=lambda policy: saved.append(policy.version))
    trainer.run()
    assert saved == [4, 9]


def test_it_goes_on_after_a_resume_as_if_nothing_had_been(no_horizons):
    first, again = FittedQ(choosing(1), corridor()), FittedQ(choosing(1), corridor(), seed=5)
    first.fit(5, 16)
    callback = FQE()
    callback._judge, callback.best = first, 3.0
    resumed = FQE()
    resumed.load_state_dict(callback.state_dict())
    assert resumed.best == 3.0
    assert resumed.state_dict()["judge"]["updates"] == 5
    again.load_state_dict(resumed.state_dict()["judge"])
    assert first.fit(5, 16) == again.fit(5, 16)
    assert first.value() == again.value()
    used = FQE()  # a trainer that has run already, and goes back
    used._judge = choosing_judge = FittedQ(choosing(1), corridor(), seed=7)
    used.load_state_dict(callback.state_dict())
    assert used._judge is not choosing_judge
    assert used.state_dict()["judge"]["updates"] == first.updates


def test_what_cannot_be_judged_is_named():
    several = Task(observation_space=Box(-1, 1, (2,)), action_space=MultiDiscrete([2, 2]), net=SMALL)
    with pytest.raises(ConfigError, match=r"fitted Q evaluation cannot judge actions of MultiDiscrete\(\[2 2\]\)"):
        FittedQ(BC.make(BCConfig(), several, seed=0), corridor())
    memory = Task(observation_space=Box(-1, 1, (2,)), action_space=Discrete(2), net=NetConfig(memory="gru"))
    with pytest.raises(ConfigError, match=r"fitted Q evaluation cannot judge a policy with memory"):
        FittedQ(BC.make(BCConfig(), memory, seed=0), corridor())


def test_data_in_which_no_episode_begins_are_refused():
    data, one = ReplayBuffer(10), {"obs": np.eye(2, dtype=np.float32)[0], "act": 0, "rew": 1.0}
    for _ in range(12):
        data.add(Batch({**one, "terminated": False, "truncated": False, "obs_next": one["obs"]}))
    with pytest.raises(DataError, match=r"none does in the 10 rows of the data; give it data that hold the first row"):
        FittedQ(choosing(1), data)


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        ("dqn", {}, "fqe judges a policy by a data set, and this run has none"),
        ("ppo", {}, "fqe judges a policy by a data set, and this run has none"),
        ("bc", {"data": "nowhere.npz", "net": {"memory": "gru"}}, "cannot judge a policy with memory"),
    ],
)
def test_a_run_that_cannot_be_judged_is_refused_before_it_begins(tmp_path, algorithm, settings, message):
    with pytest.raises(ConfigError, match=message):
        argosy.train(algorithm, "CartPole-v1", runs=tmp_path, callbacks=["fqe"], show_progress=False, **settings)


def test_a_trainer_without_data_is_told_at_its_first_step():
    trainer = argosy.build(argosy.preset("dqn", "CartPole-v1"), callbacks=[FQE()])
    with pytest.raises(CallbackError, match=r"fqe judges a policy by a data set, and this run has none"):
        next(trainer)


def test_an_epoch_that_was_interrupted_after_its_last_step_is_judged(no_horizons):
    """What goes on there makes no step in which the critic could be made."""
    callback = FQE(updates=2, batch_size=8)
    callback.on_epoch(trained([]), None)
    assert callback.progress() == 2
    assert callback.best > -np.inf
