"""What critics see and policies do not: `NetConfig.critic_only`."""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import argosy
import argosy.algorithm
from argosy.algorithm import Task
from argosy.data import Batch
from argosy.errors import ConfigError, SpaceError
from argosy.net import NetConfig

OBS = spaces.Dict(seen=spaces.Box(-1, 1, (3,), np.float32), hidden=spaces.Box(-1, 1, (2,), np.float32))
CHOICE, BOX = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)
ACTORS = {
    "PPO": CHOICE,
    "PPG": CHOICE,
    "IMPALA": CHOICE,
    "DiscreteSAC": CHOICE,
    "SAC": BOX,
    "TD3": BOX,
    "REDQ": BOX,
    "TQC": BOX,
    "CrossQ": BOX,
    "IQL": BOX,
    "AWAC": BOX,
}


def make(name, space=OBS, act=None, **net):
    cls = getattr(argosy.algorithm, name)
    config = getattr(argosy.algorithm, f"{name}Config")()
    net = NetConfig(**{"hidden_sizes": (16,), "critic_only": ("hidden",), **net})
    act = act or ACTORS.get(name, CHOICE)
    return cls.make(config, Task(observation_space=space, action_space=act, net=net), seed=0)


def rows(count=4, **changes):
    rng = np.random.default_rng(0)
    obs = {key: rng.uniform(-1, 1, (count, *space.shape)).astype(np.float32) for key, space in OBS.items()}
    return {**obs, **changes}


@pytest.mark.parametrize("memory", [None, "gru"])
@pytest.mark.parametrize("name", ACTORS)
def test_policies_act_without_it(name, memory):
    policy = make(name, memory=memory, norm_obs=True).policy
    assert list(policy.acts_on.spaces) == ["seen"]
    obs = rows()
    with_it, state = policy.predict(obs)
    other, _ = policy.predict(rows(hidden=-obs["hidden"]))
    without, state_without = policy.predict({"seen": obs["seen"]})
    np.testing.assert_array_equal(with_it, without)
    np.testing.assert_array_equal(with_it, other)
    if memory is None:
        assert state is None
    else:
        columns = policy._acting[0].columns  # of the actor's memory; a critic's stays as it was
        np.testing.assert_array_equal(state[:, columns], state_without[:, columns])
        again, _ = policy.predict({"seen": obs["seen"]}, state_without)
        np.testing.assert_array_equal(again, policy.predict(obs, state)[0])
    exploring, _ = policy.predict({"seen": obs["seen"]}, deterministic=False)
    assert exploring.shape == with_it.shape
    with pytest.raises(SpaceError, match=r"made for a dict with the keys \['seen'\]"):
        policy.predict({"hidden": obs["hidden"]})


@pytest.mark.parametrize("memory", [None, "gru"])
def test_values_depend_on_it_and_actions_do_not(memory):
    policy = make("PPO", memory=memory).policy
    lead = (2, 4) if memory else (4,)
    obs = {
        key: torch.rand(*lead, *space.shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
        for key, space in OBS.items()
    }
    sample = Batch(obs=obs, act=torch.zeros(lead, dtype=torch.long))
    if memory:
        states = np.stack([policy.first_states(4)] * 2)
        sample = Batch(
            sample, on_reset=torch.zeros(lead, dtype=torch.bool), policy=Batch(state=torch.from_numpy(states))
        )
    analysis = policy.analyze(sample)
    analysis.logp.sum().backward(retain_graph=True)
    assert obs["hidden"].grad is None
    assert (obs["seen"].grad != 0).all()
    analysis.value.sum().backward()
    assert (obs["hidden"].grad != 0).all()


def test_critics_outside_of_policies_see_it():
    for name in ("SAC", "IQL"):
        algorithm = make(name)
        obs = {key: torch.from_numpy(value).requires_grad_() for key, value in rows().items()}
        algorithm.critic.value(Batch(obs=obs), torch.zeros(4, 2)).sum().backward()
        assert (obs["hidden"].grad != 0).all()


def test_what_is_exported_does_without_it(tmp_path):
    pytest.importorskip("onnxruntime")
    import onnxruntime

    algorithm = make("PPO", memory="gru", norm_obs=True)
    argosy.export(algorithm.policy, tmp_path / "a.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "a.onnx"))
    inputs = {each.name for each in session.get_inputs()}
    assert "obs.seen" in inputs
    assert "obs.hidden" not in inputs


@pytest.mark.parametrize(
    ("name", "net", "message"),
    [
        ("PPO", {"critic_only": ("state",)}, r"no entry 'state': observations have \['seen', 'hidden'\]"),
        ("SAC", {"critic_only": ("hidden", "seen")}, "a policy needs something to look at"),
        ("DQN", {}, "QPolicy acts by the values that it learns.*e.g. PPO or SAC"),
        ("BCQ", {"act": BOX}, "BatchConstrainedPolicy acts by the values that it learns"),
        ("PPO", {"space": spaces.Box(-1, 1, (2,))}, "no entry 'hidden': observations are no Dict but Box"),
    ],
)
def test_what_cannot_be_is_named(name, net, message):
    with pytest.raises(ConfigError, match=message):
        make(name, **net)


def test_masks_and_shared_layers():
    masked = spaces.Dict({**OBS.spaces, "action_mask": spaces.MultiBinary(3)})
    policy = make("PPO", space=masked).policy
    act, _ = policy.predict({"seen": np.zeros(3, np.float32), "action_mask": np.array([0, 0, 1], np.int8)})
    assert act == 2
    with pytest.raises(ConfigError, match="a policy needs 'action_mask'"):
        make("PPO", space=masked, critic_only=("action_mask",))
    with pytest.raises(ConfigError, match=r"a policy needs something to look at"):
        make("PPO", space=masked, critic_only=("seen", "hidden"))
    with pytest.raises(ConfigError, match="with shared_backbone a policy sees what its critic sees"):
        NetConfig(critic_only=("hidden",), shared_backbone=True)
    with pytest.raises(ConfigError, match=r"critic_only is 'hidden'; it must be a tuple: \('hidden',\)"):
        NetConfig(critic_only="hidden")


class Secret(gym.Env):
    """One step: a coin that nobody who acts sees decides the reward, whatever is done."""

    observation_space = spaces.Dict(seen=spaces.Box(-1, 1, (1,)), coin=spaces.Box(-1, 1, (1,)))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.coin = self.np_random.choice([-1.0, 1.0])
        return {"seen": np.zeros(1, np.float32), "coin": np.full(1, self.coin, np.float32)}, {}

    def step(self, action):
        return {"seen": np.zeros(1, np.float32), "coin": np.zeros(1, np.float32)}, float(self.coin), True, False, {}


def blind():
    return gym.wrappers.FilterObservation(Secret(), ["seen"])


def explained_variance(tmp_path, make_env, **net):
    trainer = {"max_epoch": 1, "step_per_epoch": 8192, "step_per_collect": 512}
    result = argosy.train(
        "ppo", make_env, net={"hidden_sizes": (32,), **net}, trainer=trainer, runs=tmp_path, show_progress=False
    )
    metrics = Path(result.run_dir, "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in metrics][-2]["stat/explained_variance"]


def test_a_critic_knows_the_outcome_of_a_coin_that_it_alone_sees(tmp_path):
    assert explained_variance(tmp_path, Secret, critic_only=("coin",)) > 0.95
    assert explained_variance(tmp_path, blind) < 0.1
