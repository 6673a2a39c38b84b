"""Policies that do not learn play: as they are made, at random, by a script, and as they were trained before."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch
from games import Line, Three
from gymnasium import spaces
from torch import nn

import argosy
from argosy.data import Batch
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.env import DummyVectorEnv, register, registered_environments
from argosy.errors import CheckpointError, ConfigError
from argosy.policy import RandomPolicy, RolloutResult, SingleModelPytorchPolicy
from argosy.presets import preset

if "line" not in registered_environments():
    register("line", Line)


def experiment(algorithm="ppo", task="line", **changes):
    changes = {"trainer": {"step_per_collect": 64}, **changes}
    return dataclasses.replace(preset(algorithm, "CartPole-v1", seed=2, **changes), task=task)


def duel(opponent, **changes):
    settings = {
        "name": "duel",
        "policies": {"own": PolicySpec(experiment=experiment()), "other": opponent},
        "agents": (AgentSpec(agents="0", policy="own", sample_steps=8), AgentSpec(agents="1", policy="other")),
        "actors": ActorGroup(num_envs=4),
        "evaluation": EvalGroup(num_envs=2, episodes=2),
        "stop": FleetStop(updates=3, wall_s=40),
    }
    return Fleet(**settings | changes)


def returns(description, folder, launcher=None):
    """-> policy -> mean returns of all evaluations; the fleet must have learned and judged."""
    with FleetRun(description, folder, launcher, interval_s=0.1) as run:
        for snapshot in run:
            if snapshot.updates["own"] >= 1 and len(run.results) >= 2:
                break
        assert not snapshot.done or snapshot.reason == "updates reached", (snapshot.reason, run.supervisor.failures)
        assert len(run.results) >= 2, run.supervisor.failures
        return {name: [r.return_mean for r in run.results if r.policy == name] for name in description.policies}


def scripted():
    return PolicySpec(experiment=experiment(), policy=Three, learns=False)


def test_a_script_plays(tmp_path):
    description = duel(scripted(), stop=FleetStop(updates=40, wall_s=40))
    assert set(returns(description, tmp_path / "run")["own"]) == {12.0}


@pytest.mark.slow
def test_a_script_plays_between_processes(ray_launcher, tmp_path):
    description = duel(scripted(), stop=FleetStop(updates=40, wall_s=60))
    assert set(returns(description, tmp_path / "run", ray_launcher)["own"]) == {12.0}


@pytest.mark.parametrize("inference", ["shared", "ray"])
def test_it_plays_in_policy_workers(inference, tmp_path):
    agents = (
        AgentSpec(agents="0", policy="own", sample_steps=8),
        AgentSpec(agents="1", policy="other", inference=inference),
    )
    spec = dataclasses.replace(scripted(), workers=1)
    description = duel(spec, agents=agents, stop=FleetStop(updates=40, wall_s=40))
    assert set(returns(description, tmp_path / "run")["own"]) == {12.0}


def test_a_random_policy_plays_in_evaluations_too(tmp_path):
    spec = PolicySpec(experiment=experiment(), policy="random", learns=False)
    evaluation = EvalGroup(num_envs=4, episodes=100)
    found = returns(duel(spec, evaluation=evaluation, stop=FleetStop(updates=400, wall_s=40)), tmp_path / "run")["own"]
    assert 6.5 < np.mean(found) < 9.5  # 4 steps of 0 .. 4


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_an_opponent_may_be_as_it_was_made(algorithm, tmp_path):
    """A preset's random first steps are for those that learn."""
    driver = FleetRun(duel(PolicySpec(experiment=experiment(algorithm, trainer={}), learns=False)), tmp_path / "run")
    last = driver.run()
    assert last.reason == "updates reached"
    assert set(last.updates) == {"own"}
    assert driver.store().version_of("other", "latest") == -1


def test_it_is_there_after_a_resume(tmp_path):
    assert FleetRun(duel(scripted()), tmp_path / "run").run().reason == "updates reached"
    longer = duel(scripted(), stop=FleetStop(updates=6, wall_s=40))
    assert FleetRun(longer, tmp_path / "run", resume=True).run().reason == "updates reached"


def test_it_teaches_whoever_gets_its_experience(tmp_path):
    """A DQN learns from what a script does; nobody learns from the script's own failures to learn."""
    agents = (
        AgentSpec(agents="0", policy="own", samples=(), sample_steps=8),
        AgentSpec(agents="1", policy="other", samples=("own",), sample_steps=8),
    )
    own = PolicySpec(experiment=experiment("dqn", trainer={"start_steps": 64, "update_per_step": 0.1}))
    description = duel(scripted(), agents=agents, policies={"own": own, "other": scripted()})
    assert FleetRun(description, tmp_path / "run").run().reason == "updates reached"
    with pytest.raises(ConfigError, match="but they send it to own; leave out samples, or sync"):
        dataclasses.replace(description, sync=True)


@pytest.mark.parametrize("sends", [True, False])
def test_who_feeds_a_learner_acts_at_random_first_and_asks_no_policy_worker(sends, tmp_path):
    """A seat that sends nothing has no first steps that could end."""
    agents = (
        AgentSpec(agents="0", policy="own", sample_steps=8, inference="shared", samples=None if sends else ()),
        AgentSpec(agents="1", policy="other", samples=None if sends else ("own",), sample_steps=8),
    )
    own = PolicySpec(experiment=experiment("dqn", trainer={"start_steps": 40_000}), workers=1)
    description = duel(scripted(), agents=agents, policies={"own": own, "other": scripted()})
    with FleetRun(description, tmp_path / "run", interval_s=0.05) as run:
        worker = next(s.workers["policy.own.0"] for s in run if s.env_steps["own"] >= 400)
    assert (worker["rows"] == 0.0) == sends


def test_it_plays_where_others_learn_in_turn_with_acting(tmp_path):
    assert FleetRun(duel(scripted(), sync=True), tmp_path / "run").run().reason == "updates reached"


def biased(policy, action):
    """Let a policy always choose one action."""
    with torch.no_grad():
        policy.action_head.output.bias.zero_()
        policy.action_head.output.bias[action] = 50.0


def test_it_is_loaded_from_a_version_of_another_fleet(tmp_path):
    before = FleetRun(duel(scripted()), tmp_path / "before")
    before.run()
    spec = PolicySpec(experiment=experiment())
    policy = spec.make_policy(Line.observation_spaces[0], Line.action_spaces[0], 0)
    biased(policy, 1)
    store = before.store()
    store.push("own", {**policy.get_checkpoint(), "version": 7}, tags=("best",))
    versions = tmp_path / "before" / "parameters" / "own"
    for number, path in enumerate([versions, versions / "7.safetensors"]):
        other = PolicySpec(experiment=experiment(), learns=False, load=path)
        found = returns(duel(other, stop=FleetStop(updates=40, wall_s=40)), tmp_path / f"run{number}")
        assert set(found["own"]) == {4.0}


def test_it_is_loaded_from_a_run(tmp_path):
    result = argosy.train(
        "ppo", "CartPole-v1", runs=tmp_path, show_progress=False,
        **{"trainer.max_epoch": 1, "trainer.step_per_epoch": 64, "trainer.step_per_collect": 64, "stop.episodes": 1},
    )  # fmt: skip
    cart = preset("ppo", "CartPole-v1", seed=5)
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    obs, act = env.single_observation_space, env.single_action_space
    own, other = (
        PolicySpec(experiment=cart, learns=False, load=path).make_policy(obs, act, seed)
        for seed, path in enumerate([result.run_dir, f"{result.run_dir}/policy.safetensors"])
    )
    assert all(torch.equal(a, b) for a, b in zip(own.parameters(), other.parameters(), strict=True))
    fresh = PolicySpec(experiment=cart, learns=False).make_policy(obs, act, 0)
    assert not torch.equal(next(own.parameters()), next(fresh.parameters()))
    assert own.version >= 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learns": True, "load": "x"}, "set learns=False"),
        ({"learns": False, "load": "nowhere"}, "there is no run '.*nowhere'"),
    ],
)
def test_what_cannot_be_loaded_is_said_before_anything_starts(settings, message, tmp_path):
    with pytest.raises((ConfigError, CheckpointError), match=message):
        FleetRun(duel(PolicySpec(experiment=experiment(), **settings)), tmp_path / "run")


def test_a_fleet_in_which_nobody_learns_needs_an_end(tmp_path):
    both = {"own": scripted(), "other": scripted()}
    with pytest.raises(ConfigError, match="no policy learns"):
        duel(scripted(), policies=both)
    judged = duel(scripted(), policies=both, stop=FleetStop(return_mean={"own": 12.0}, wall_s=40))
    assert FleetRun(judged, tmp_path / "run").run().reason == "return reached"


class Squashed(SingleModelPytorchPolicy):
    """A Gaussian actor of one's own, squashed: what SAC asks of `analyze` is `sample`."""

    def __init__(self, observation_space, action_space, hidden=16):
        size, actions = observation_space.shape[0], action_space.shape[0]
        super().__init__(
            observation_space,
            action_space,
            nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, 2 * actions)),
        )

    def _params(self, obs):
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        return mean, log_std.clamp(-5, 1).exp()

    def rollout(self, requests):
        with torch.inference_mode():
            mean, std = self._params(self._tensors(requests.obs))
        noise = self.rng.numpy.standard_normal(mean.shape, dtype=np.float32)
        if requests.is_evaluation is not None:
            noise[requests.is_evaluation] = 0.0
        return RolloutResult(action=np.tanh(mean.numpy() + std.numpy() * noise))

    def analyze(self, sample):
        return Drawn(*self._params(sample.obs))

    def analyze_next(self, sample, rows=None):
        return Drawn(*self._params(sample.obs_next))


@dataclasses.dataclass
class Drawn:
    mean: torch.Tensor
    std: torch.Tensor

    def sample(self, generator):
        raw = self.mean + self.std * torch.randn(self.mean.shape, generator=generator)
        logp = torch.distributions.Normal(self.mean, self.std).log_prob(raw) - (1 - raw.tanh().square() + 1e-6).log()
        return raw.tanh(), logp.sum(-1)


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_a_policy_of_ones_own_for_algorithms_with_critics(algorithm, tmp_path):
    own = preset(algorithm, "Pendulum-v1", seed=1, trainer={"start_steps": 64, "update_per_step": 0.1})
    policy = Squashed if algorithm == "sac" else Deterministic
    description = Fleet(
        name="own",
        policies={"p": PolicySpec(experiment=own, policy=policy, args={"hidden": 8})},
        agents=(AgentSpec(policy="p", sample_steps=16),),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=5, wall_s=40),
    )
    driver = FleetRun(description, tmp_path / "run")
    last = driver.run()
    assert last.reason == "updates reached", driver.supervisor.failures
    assert "net.0.weight" in driver.store().get("p")["state_dict"]


class Deterministic(Squashed):
    """For TD3: `act`."""

    def analyze(self, sample):
        return Batch(act=self._params(sample.obs)[0].tanh())

    def analyze_next(self, sample, rows=None):
        return Batch(act=self._params(sample.obs_next)[0].tanh())


def test_random_policies_take_what_is_allowed_and_possible():
    for space in (
        spaces.Discrete(3, start=2),
        spaces.Box(-3, 5, (2,)),
        spaces.MultiDiscrete([2, 4]),
        spaces.Box(-1, np.inf, (1,)),
    ):
        policy = RandomPolicy(spaces.Box(-1, 1, (2,)), space)
        policy.seed(1)
        acts = policy.map_action(np.asarray(policy(Batch(obs=np.zeros((200, 2)))).act))
        assert all(space.contains(act if act.ndim else int(act)) for act in acts)
        assert len(np.unique(acts, axis=0)) > 2
    masked = spaces.Dict(obs=spaces.Box(-1, 1, (2,)), action_mask=spaces.Box(0, 1, (3,), np.int8))
    policy = RandomPolicy(masked, spaces.Discrete(3))
    obs = {"obs": np.zeros((100, 2), np.float32), "action_mask": np.tile(np.array([1, 0, 1], np.int8), (100, 1))}
    assert set(np.asarray(policy(Batch(obs=obs)).act).tolist()) == {0, 2}
