"""What a fleet has trained, in use: loaded, evaluated and filmed by version and tag."""

import dataclasses
import json

import games
import memory
import numpy as np
import pytest

import argosy
from argosy import named
from argosy.cli import main
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.distributed.store.parameters import ParameterStore
from argosy.env import register, registered_environments
from argosy.errors import CheckpointError, ConfigError, TrustError
from argosy.presets import preset
from argosy.trainer.players import player_spec

PPO = preset("ppo", "CartPole-v1", seed=1, env={"num_envs": 4}, trainer={"step_per_collect": 128})
OBS = np.random.default_rng(0).uniform(-1, 1, (40, 4)).astype(np.float32)


class Drawn(games.Pairs):
    """A game that can be filmed, of as many steps as it is told."""

    def __init__(self, size=8):
        super().__init__()
        self.size = size

    def render(self):
        return np.full((self.size, self.size, 3), 25 * self.t, np.uint8)


if "drawn" not in registered_environments():
    register("drawn", Drawn)


def trained(folder, **settings):
    description = {
        "name": "test",
        "policies": {"p": PolicySpec(experiment=PPO)},
        "agents": (AgentSpec(policy="p", sample_steps=16),),
        "evaluation": EvalGroup(num_envs=2, episodes=2),
        "stop": FleetStop(updates=4, wall_s=60),
    }
    run = FleetRun(Fleet(**description | settings), folder, interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures
    return run


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The folder of a fleet of one policy, whose second version is the best."""
    folder = tmp_path_factory.mktemp("fleet") / "run"
    trained(folder)
    store = ParameterStore(folder / "parameters")
    store.tag("p", store.versions("p")[1], "best")
    store.tag("p", store.versions("p")[0], "champion")
    return folder


def test_versions_and_tags_are_loaded(one):
    store = ParameterStore(one / "parameters")
    versions = store.versions("p")
    expected = {None: versions[1], "best": versions[1], "latest": versions[-1], "champion": versions[0]}
    assert {tag: argosy.load(one, tag=tag).version for tag in expected} == expected
    for path in (one, one / "parameters" / "p"):
        policy = argosy.load(path, version=versions[2])
        saved = store.get("p", versions[2])["state_dict"]
        assert all(value.equal(saved[name]) for name, value in policy.state_dict().items())
    assert argosy.load(one / "parameters" / "p" / f"{versions[3]}.safetensors").version == versions[3]
    act, state = policy.predict(OBS)
    assert act.shape == (40,)
    assert state is None


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"tag": "champoin"}, r"policy 'p' has no version tagged 'champoin'; did you mean 'champion'\?"),
        ({"version": 10**6}, r"policy 'p' has no version 1000000; kept: \[-?\d+, "),
        ({"version": 1, "tag": "best"}, "version is 1 and tag 'best'; give one of them"),
        ({"policy": "q"}, "has no policy 'q'; known names: p"),
    ],
)
def test_what_a_fleet_has_not_is_refused(one, choice, message):
    for use in (argosy.load, argosy.evaluate):
        with pytest.raises(CheckpointError, match=message):
            use(one, **choice)


def test_a_fleet_that_ended_early_says_so(one, tmp_path):
    other = tmp_path / "run"
    (other / "parameters" / "p").mkdir(parents=True)
    (other / "fleet.json").write_text("{}")
    for name in ("config.json", "policy.json"):
        (other / "parameters" / "p" / name).write_bytes((one / "parameters" / "p" / name).read_bytes())
    with pytest.raises(CheckpointError, match="policy 'p' has no version yet"):
        argosy.load(other)


def test_reading_leaves_the_folder_of_a_running_fleet_as_it_is(one):
    torn = one / "parameters" / "p" / ".3.safetensors.1.tmp"  # what its store is writing now
    torn.write_bytes(b"half")
    argosy.load(one)
    argosy.evaluate(one, episodes=1)
    assert torn.exists()
    torn.unlink()


def test_eval_and_watch_take_a_version(one, tmp_path, capsys):
    oldest = ParameterStore(one / "parameters").versions("p")[0]
    by_tag = argosy.evaluate(one, episodes=6, seed=2, tag="champion")
    np.testing.assert_array_equal(by_tag.returns, argosy.evaluate(one, episodes=6, seed=2, version=oldest).returns)
    assert by_tag.n_collected_episodes == 6
    command = ["eval", str(one), "--episodes=6", "--seed=2", "--json", f"--version={oldest}"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["return_mean"] == by_tag.returns.mean()
    pytest.importorskip("PIL.Image")
    pytest.importorskip("pygame")
    file = tmp_path / "film.gif"
    assert main(["watch", str(one), "--tag=champion", f"--video={file}", "--max-steps=5"]) == 0
    assert file.stat().st_size > 0


def test_it_plays_as_the_fleet_s_evaluation_does(one):
    """The best policy of a fleet and the same policy in a collector get the same returns from the same envs."""
    envs = argosy.make_vector_env("CartPole-v1", 3, seed=5, test=True)
    collected = argosy.Collector(argosy.load(one), envs).collect(n_episode=3)
    played = argosy.evaluate(one, episodes=3, seed=5)
    assert sorted(collected.returns) == sorted(played.returns)
    envs.close()


def test_each_agent_plays_with_its_policy(tmp_path, capsys):
    experiment = dataclasses.replace(PPO, task="drawn")
    run = trained(
        tmp_path / "run",
        policies={"p": PolicySpec(experiment=experiment), "q": PolicySpec(experiment=experiment)},
        agents=(AgentSpec(agents="1", policy="p", frame_stack=2), AgentSpec(policy="q")),
        env_args={"size": 12},
        actors=ActorGroup(num_envs=2),
    )
    assert argosy.load(run.directory, policy="p").observation_space.shape == (2, 3)
    assert argosy.load(run.directory, policy="q").observation_space.shape == (2,)
    with pytest.raises(CheckpointError, match="has several policies; say which one: p or q"):
        argosy.evaluate(run.directory)
    with pytest.raises(CheckpointError, match="has several policies"):
        argosy.load(run.directory)
    stats = argosy.evaluate(run.directory, policy="p", episodes=8, tag="latest")
    assert stats.n_collected_episodes == 8
    assert (stats.lens == 8).all()
    assert main(["eval", str(run.directory), "--policy=q", "--episodes=4"]) == 0
    image = pytest.importorskip("PIL.Image")
    file = tmp_path / "film.gif"
    assert main(["watch", str(run.directory), "--policy=q", f"--video={file}"]) == 0
    assert "in 8 steps" in capsys.readouterr().out
    with image.open(file) as film:
        assert film.size == (12, 12)


def test_a_policy_of_one_s_own_is_made_again(tmp_path, monkeypatch):
    spec = PolicySpec(experiment=PPO, policy=memory.Memory, args={"hidden": 8})
    run = trained(tmp_path / "run", policies={"p": spec})
    policy = argosy.load(run.directory)
    assert type(policy) is memory.Memory
    act, state = policy.predict(OBS[0])
    np.testing.assert_array_equal(policy.predict(OBS[:1])[0], [act])
    assert state.shape == policy.default_policy_state.shape
    monkeypatch.setattr(named, "_TRUSTED", set())
    with pytest.raises(TrustError, match=r"own\.policy 'memory:Memory'"):
        argosy.load(run.directory)
    assert argosy.load(run.directory, trust=True).version == policy.version


def test_a_fleet_begins_with_another_run_and_a_run_with_a_fleet(one, tmp_path):
    spec = PolicySpec(experiment=dataclasses.replace(PPO, init=str(one)), publish_updates=50)
    run = trained(tmp_path / "run", policies={"p": spec})  # few versions are published, so that the first is kept
    first, best = argosy.load(run.directory, version=-1), argosy.load(one)
    assert first.version == -1 < best.version
    assert all(value.equal(best.state_dict()[name]) for name, value in first.state_dict().items())
    experiment = argosy.preset("ppo", "CartPole-v1", seed=9, init=str(one / "parameters" / "p"))
    trainer = argosy.build(experiment)
    assert all(value.equal(best.state_dict()[name]) for name, value in trainer.algorithm.policy.state_dict().items())
    trainer.train_collector.env.close()
    trainer.test_collector.env.close()


def test_what_a_fleet_begins_with_is_looked_at_before_anything_starts_and_only_then(one, tmp_path):
    begun = {"p": PolicySpec(experiment=dataclasses.replace(PPO, init=str(tmp_path / "first")))}
    with pytest.raises(CheckpointError, match="there is no run"):
        trained(tmp_path / "run", policies=begun)
    assert not (tmp_path / "run").exists()
    (tmp_path / "first").symlink_to(one)
    run = trained(tmp_path / "run", policies=begun)
    (tmp_path / "first").unlink()
    again = FleetRun(run.fleet, tmp_path / "run", resume=True, interval_s=0.1)
    assert again.run().reason == "updates reached", again.supervisor.failures


def test_what_cannot_be_written_down_is_refused_before_the_folder_is_claimed(tmp_path):
    net = dataclasses.replace(PPO.net, encoder="own:Encoder", encoder_args={"table": object()})
    with pytest.raises(ConfigError, match="cannot be written into a config file"):
        trained(tmp_path / "run", policies={"p": PolicySpec(experiment=dataclasses.replace(PPO, net=net))})
    assert not (tmp_path / "run").exists()


def test_a_warm_start_is_refused_where_nothing_is_learned(one):
    experiment = dataclasses.replace(PPO, init=str(one))
    with pytest.raises(ConfigError, match="where learning begins, but this policy does not learn; use load"):
        PolicySpec(experiment=experiment, learns=False)
    with pytest.raises(ConfigError, match=r"has init=.*, which AgentsTrainer does not do"):
        player_spec("p", experiment)
