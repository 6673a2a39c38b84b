import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import NET, OBS, Recorder

import argosy
from argosy.algorithm import QMIX, QMIXConfig, Task
from argosy.data import Batch
from argosy.errors import SpaceError
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig, RolloutRequest

PARTS = spaces.MultiDiscrete([2, 3])
CASES = {
    "qmix": (QMIXConfig(target_update_freq=2, mixing_units=8), PARTS),
    "vdn": (QMIXConfig(mixer="vdn", n_step=2, double=False, tau=0.1, target_update_freq=1), PARTS),
}
LEARNS = ("policy", "mixer")
FOLLOWS = ("policy_target", "mixer_target", "update_target")
FACES = ("no_input",)
RANGES = [("mixer", "sum"), ("mixing_units", 0), ("n_step", 0), ("target_update_freq", 0), ("tau", 0.0)]
PROBED = {
    "vdn": Probed(
        config=QMIXConfig(**FAST_VALUES, mixer="vdn"),
        updates=250,
        space=spaces.MultiDiscrete([2]),
        value=lambda algorithm, obs: algorithm.policy(Batch(obs=obs)).logits.max(dim=-1).values.squeeze(-1),
    )
}
TEAM = spaces.Dict(
    agents=spaces.Box(-1, 1, (2, 3), np.float32),
    alive=spaces.MultiBinary(2),
    state=spaces.Box(-1, 1, (4,), np.float32),
    action_mask=spaces.MultiBinary(5),
)


def make(obs=OBS, net=NET, **config):
    return QMIX.make(QMIXConfig(**config), Task(observation_space=obs, action_space=PARTS, net=net), seed=0)


class Table(torch.nn.Module):
    """A head that says the same values [N, n] everywhere."""

    def __init__(self, *values):
        super().__init__()
        self.values = torch.nn.Parameter(torch.tensor(values))

    def forward(self, features):
        return self.values.expand(*features.shape[:-2], *self.values.shape)


class Product(torch.nn.Module):
    """Mixes by a product, times the sum of the state."""

    def forward(self, obs, q):
        return q.prod(dim=-1) * obs["state"].sum(dim=-1)


def with_tables(**config):
    """Two agents of two and of three choices; a third one of the first would be the best."""
    algorithm = make(obs=TEAM, **config)
    algorithm.policy.head = Table([1.0, 4.0, 99.0], [3.0, 2.0, 0.0])
    algorithm.policy_target.head = Table([5.0, 6.0, 99.0], [1.0, 9.0, 4.0])
    algorithm.optim = Recorder()
    if algorithm.config.mixer == "qmix":
        algorithm.mixer = algorithm.mixer_target = Product()
    return algorithm


def team(count=2, **changes):
    rows = {"agents": np.zeros((count, 2, 3)), "alive": np.ones((count, 2)), "state": np.full((count, 4), 0.5)}
    rows |= {"action_mask": np.ones((count, 5))} | changes
    return {
        key: np.asarray(value, np.float32 if key in ("agents", "state") else np.int8) for key, value in rows.items()
    }


def batch(obs=None, obs_next=None, **changes):
    fields = {"rew": [1.0, 2.0], "discount": [0.5, 0.0], "weight": [1.0, 0.5]} | changes
    arrays = {key: np.asarray(value, np.float32) for key, value in fields.items() if key != "act"}
    return Batch(obs=obs or team(), obs_next=obs_next or team(), act=np.array([[0, 2], [1, 0]]), **arrays)


@pytest.mark.parametrize(("double", "values"), [(True, (6.0, 1.0)), (False, (6.0, 9.0))])
@pytest.mark.parametrize("mixer", ["qmix", "vdn"])
def test_target_is_what_the_mixer_makes_of_the_choices(mixer, double, values):
    """Online choices are 1 and 0; the target network's own would be 1 and 1."""
    algorithm = with_tables(mixer=mixer, double=double)
    mixed = values[0] * values[1] * 2.0 if mixer == "qmix" else sum(values)
    assert algorithm._target(algorithm.prepare(batch())).tolist() == [1.0 + 0.5 * mixed, 2.0]


def test_loss_and_priorities_by_hand():
    # taken: 1 + 0 and 4 + 3; targets 1 + 0.5 * (6 + 1) = 4.5 and, terminated, 2
    algorithm = with_tables(mixer="vdn")
    stats = algorithm.update(batch())
    assert stats.loss == pytest.approx((3.5**2 + 0.5 * 5.0**2) / 2)
    assert stats.priorities.tolist() == pytest.approx([3.5, 5.0])
    assert stats.q_mean == pytest.approx((1.0 + 7.0) / 2)


def test_agents_that_have_left_count_as_nothing_and_masks_hold():
    algorithm = with_tables(mixer="vdn")
    after = team(alive=[[1, 0], [1, 1]], action_mask=[[1] * 5, [1, 0, 0, 0, 1]])
    found = algorithm._target(algorithm.prepare(batch(obs_next=after, discount=[1.0, 1.0])))
    assert found.tolist() == [1.0 + 6.0, 2.0 + 5.0 + 4.0]


def test_the_mixer_learns_and_its_target_follows():
    algorithm = make(obs=TEAM, tau=0.5, target_update_freq=1)
    before = [one.clone() for one in algorithm.mixer.parameters()]
    algorithm.update(batch())
    for old, new, target in zip(before, algorithm.mixer.parameters(), algorithm.mixer_target.parameters(), strict=True):
        torch.testing.assert_close(target, 0.5 * (old + new))
    assert any((old != new).any() for old, new in zip(before, algorithm.mixer.parameters(), strict=True))


@pytest.mark.parametrize(
    "changed",
    [
        {"agents": spaces.Box(-1, 1, (3, 3))},
        {"agents": spaces.MultiBinary((2, 3))},
        {"alive": spaces.Box(0, 1, (2,))},
        {"alive": spaces.MultiBinary(3)},
    ],
)
@pytest.mark.parametrize("mixer", ["qmix", "vdn"])
def test_what_is_no_team_of_as_many_is_named(mixer, changed):
    with pytest.raises(SpaceError, match=r"a team of 2 has a row of 'agents' for each of them"):
        make(obs=spaces.Dict({**TEAM.spaces, **changed}), mixer=mixer)


@pytest.mark.parametrize("kept", ["alive", "state"])
def test_a_team_s_entries_beside_what_all_see_are_refused(kept):
    seen = {"board": spaces.Box(-1, 1, (3,)), kept: {**TEAM.spaces, "state": spaces.Box(-1, 1, (2,))}[kept]}
    with pytest.raises(SpaceError, match=r"here these are None and .* Where all see all of an observation, it has no"):
        make(obs=spaces.Dict(seen))


def test_a_team_s_agents_act_by_their_own_rows_alone():
    policy = make(obs=TEAM).policy
    assert set(policy.acts_on.spaces) == {"agents", "action_mask"}
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (64, 2, 3)).astype(np.float32)
    other = rows.copy()
    other[:, 1] = -rows[:, 1]
    obs, changed = team(64, agents=rows), team(64, agents=other)
    values, moved = policy(Batch(obs=obs)).logits, policy(Batch(obs=changed)).logits
    assert values.shape == (64, 2, 3)
    assert torch.equal(values[:, 0], moved[:, 0])
    assert (values[:, 1] != moved[:, 1]).all()
    act, _ = policy.predict(obs)
    without, _ = policy.predict({key: obs[key] for key in policy.acts_on.spaces})
    np.testing.assert_array_equal(act, without)
    result = policy.rollout(RolloutRequest(obs=obs, is_evaluation=np.ones(64, bool)))
    np.testing.assert_array_equal(result.action, act)


def test_agents_explore_by_themselves_within_their_masks():
    policy = make(obs=TEAM, exploration=EpsilonConfig(eps_start=0.5)).policy
    policy.head = Table([1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    obs = team(2000, action_mask=np.tile([1, 1, 1, 0, 1], (2000, 1)))
    act = policy.rollout(RolloutRequest(obs=obs)).action
    assert act.dtype == np.int64
    shares = [np.mean(act[:, 0] == 1), np.mean(act[:, 1] == 2), np.mean((act[:, 0] == 1) & (act[:, 1] == 2))]
    assert shares == pytest.approx([0.25, 0.25, 0.0625], abs=0.04)  # half of random choices, each for itself
    assert not (act[:, 1] == 1).any()


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_each_agent_remembers_what_it_alone_saw(memory):
    policy = make(obs=TEAM, net=NetConfig(hidden_sizes=(8,), memory=memory, memory_size=4)).policy
    rng = np.random.default_rng(0)
    first = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
    other = np.stack([first[0], -first[1]])  # the second agent saw something else
    result = policy.rollout(RolloutRequest(obs=team(agents=[first, other])))
    assert result.policy_state.shape == (2, policy.backbone.state_size) == (2, 2 * 4 * (1 + (memory == "lstm")))
    after = policy(Batch(obs=team()), result.policy_state).logits
    assert torch.equal(after[0, 0], after[1, 0])
    assert (after[0, 1] != after[1, 1]).all()
    fresh = policy(Batch(obs=team())).logits
    assert torch.equal(fresh, policy(Batch(obs=team()), policy.first_states(2)).logits)
    assert (fresh != after).all()


class Recall(gym.Env):
    """Two agents are told a choice each at the start, and are paid 1 in the last of three steps if both make it."""

    observation_space = spaces.Dict(agents=spaces.Box(-1, 1, (2, 1)), state=spaces.Box(0, 1, (3,)))
    action_space = spaces.MultiDiscrete([2, 2])

    def _see(self, told=0.0):
        return {"agents": np.full((2, 1), told, np.float32), "state": np.eye(3, dtype=np.float32)[self.time]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.wanted = 0, self.np_random.integers(2, size=2)
        seen = self._see()
        seen["agents"][:, 0] = 2.0 * self.wanted - 1.0
        return seen, {}

    def step(self, action):
        if self.time == 2:
            return self._see(), float((action == self.wanted).all()), True, False, {}
        self.time += 1
        return self._see(), 0.0, False, False, {}


@pytest.mark.parametrize(("memory", "share"), [("gru", 1.0), pytest.param(None, 0.25, marks=pytest.mark.slow)])
def test_a_team_with_memory_does_what_its_agents_were_told(memory, share, tmp_path):
    trainer = {"total_steps": 4000, "step_per_epoch": 4000, "episode_per_test": 100, "start_steps": 600}
    result = argosy.train(
        "qmix",
        Recall,
        lr=3e-3,
        target_update_freq=100,
        eps_decay_steps=2500,
        trainer=trainer | {"batch_size": 32, "update_per_step": 0.25},
        stop={"episodes": 100},
        net={"hidden_sizes": (32,), "memory": memory, "memory_size": 16, "sequence_length": 3},
        threads=1,
        runs=tmp_path,
        show_progress=False,
    )
    assert result.test_return_mean == pytest.approx(share, abs=0.2 if memory is None else 0.05)


class TwoStep(gym.Env):
    """The game of the paper's section 5: the first agent picks one that pays 7, or [[0, 1], [1, 8]]."""

    observation_space = spaces.Box(0, 1, (3,))
    action_space = spaces.MultiDiscrete([2, 2])

    def _see(self):
        return np.eye(3, dtype=np.float32)[self.state]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return self._see(), {}

    def step(self, action):
        if self.state == 0:
            self.state = 1 + int(action[0])
            return self._see(), 0.0, False, False, {}
        paid = 7.0 if self.state == 1 else [[0.0, 1.0], [1.0, 8.0]][action[0]][action[1]]
        return self._see(), paid, True, False, {}


@pytest.mark.parametrize(("mixer", "best"), [("qmix", 8.0), ("vdn", 7.0)])
def test_a_sum_cannot_say_what_a_mixer_can(mixer, best, tmp_path):
    """Seen alone, each choice of the second game is worth 4 in the mean and 8 at best: a sum takes the sure 7."""
    trainer = {"total_steps": 4000, "step_per_epoch": 4000, "episode_per_test": 2, "start_steps": 200}
    result = argosy.train(
        "qmix",
        TwoStep,
        mixer=mixer,
        eps_end=1.0,
        lr=1e-3,
        trainer=trainer,
        stop={"episodes": 2},
        net={"hidden_sizes": (32,)},
        runs=tmp_path,
        show_progress=False,
    )
    assert result.test_return_mean == best
