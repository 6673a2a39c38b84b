"""Algorithms from outside, by class, "MODULE:CLASS" or registered name; what a run names is not imported unasked."""

import json
import pickle
import sys

import own
import pytest

import argosy
from argosy import algorithm as algorithms
from argosy import named
from argosy.algorithm import ALGORITHMS, algorithm_class, algorithm_name, algorithm_names
from argosy.cli import main
from argosy.distributed import AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.errors import ConfigError, TrustError
from argosy.experiment import Experiment
from argosy.presets import preset_name, tuned_families
from argosy.run.folder import RunFolder
from argosy.run.pack import _card
from argosy.run.play import film

SHORT = {
    "env": {"num_envs": 2, "test_num_envs": 2},
    "trainer": {"episode_per_test": 2, "batch_size": 16},
    "stop": {"episodes": 2},
}
FLAGS = ["--env.num-envs=2", "--env.test-num-envs=2", "--trainer.episode-per-test=2", "--stop.episodes=2"]


def later(monkeypatch):
    """Another process, later on: it knows the table's algorithms only, and nobody has named anything in it."""
    monkeypatch.setattr(named, "_TRUSTED", set())
    monkeypatch.setattr(named, "_GIVEN", {})
    monkeypatch.setattr(algorithms._REGISTRY, "_sources", dict(ALGORITHMS))


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    later(monkeypatch)


def short(algorithm, runs, **changes):
    return argosy.train(algorithm, "CartPole-v1", runs=runs, show_progress=False, **{**SHORT, **changes})


@pytest.mark.parametrize("given", [own.Steady, "own:Steady", "steady"], ids=["class", "module", "registered"])
def test_an_algorithm_of_one_s_own_is_trained_resumed_and_evaluated(given, tmp_path, monkeypatch):
    name = "steady" if given == "steady" else "own:Steady"
    if given == "steady":
        argosy.register_algorithm("steady", own.Steady)
    result = short(given, tmp_path, lr=0.002)
    assert result.algorithm == name
    folder = RunFolder.find(result.run_dir)
    assert folder.path.parts[-3:-1] == ("CartPole-v1", name.replace(":", "-"))
    experiment = Experiment.load(folder.config)
    assert isinstance(experiment.config, own.SteadyConfig)
    assert (experiment.config.pause_updates, experiment.config.optim.lr) == (3, 0.002)  # of the preset, and changed
    assert argosy.evaluate(result.run_dir, episodes=2).n_collected_episodes == 2  # named in this process

    later(monkeypatch)
    data = json.loads(folder.config.read_text())
    data["trainer"]["max_epoch"] = 2
    folder.config.write_text(json.dumps(data))
    trust = {"trust": True}
    if given == "steady":
        with pytest.raises(argosy.ArgosyError, match=r"unknown algorithm 'steady'.*register_algorithm"):
            argosy.resume(result.run_dir)
        argosy.register_algorithm("steady", own.Steady)
        trust = {}
    else:
        for use in (argosy.resume, argosy.evaluate):
            with pytest.raises(TrustError, match=r"names code that would be imported: algorithm 'own:Steady'.*--trust"):
                use(result.run_dir)
    assert argosy.resume(result.run_dir, show_progress=False, **trust).env_steps == 240
    assert argosy.evaluate(result.run_dir, episodes=2, **trust).n_collected_episodes == 2


@pytest.mark.parametrize("field", ["task", "algorithm"])
def test_nothing_is_imported_that_only_the_run_names(field, tmp_path):
    result = short("dqn", tmp_path, trainer={"max_epoch": 1, "step_per_epoch": 100, "start_steps": 50})
    folder = RunFolder.find(result.run_dir)
    data = json.loads(folder.config.read_text())
    folder.config.write_text(json.dumps({**data, field: "this:Poem"}))  # a module that speaks when it is imported

    def movie(run):
        return film(run, tmp_path / "film.gif")

    def collect(run):
        return argosy.collect_data(run, tmp_path / "data.hdf5", steps=10)

    for use in (argosy.resume, argosy.evaluate, movie, collect):
        with pytest.raises(TrustError, match=f"{field} 'this:Poem'"):
            use(folder.path)
    assert main(["eval", str(folder.path)]) == main(["train", "--config", str(folder.config)]) == 2
    assert "this" not in sys.modules


def test_every_place_counts_but_those_where_a_colon_means_something_else(tmp_path):
    data = argosy.preset("dqn", "CartPole-v1", device="cuda:0", logger={"wandb_project": "a:b"}).to_dict()
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data))
    assert Experiment.load(path).device == "cuda:0"
    path.write_text(json.dumps({**data, "env": {"made": {"up": ["x:Y"]}}, "net": {"encoder": "z:Z"}}))
    with pytest.raises(TrustError, match=r"env\.made\.up 'x:Y', net\.encoder 'z:Z'"):
        Experiment.load(path)


def test_the_command_takes_an_algorithm_by_module_and_class(tmp_path, capsys, monkeypatch):
    train = ["train", "own:Steady", "--task=CartPole-v1", "--pause-updates=1", "--json", "--quiet"]
    assert main([*train, f"--runs={tmp_path}", *FLAGS]) == 0
    run = json.loads(capsys.readouterr().out)["run_dir"]
    later(monkeypatch)
    for command in (["resume", run], ["eval", run], ["watch", run], ["collect", run, "--steps=9", "-o=f"]):
        assert main(command) == 2
        assert "names code that would be imported: algorithm 'own:Steady'" in capsys.readouterr().err
    assert main(["eval", run, "--episodes=2", "--trust"]) == 0
    later(monkeypatch)
    again = [f"--config={run}/config.json", f"--runs={tmp_path}", "--json", "--quiet"]
    assert main(["train", *again]) == 2
    assert main(["train", "own:Steady", *again]) == 0  # named on the command line
    later(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    capsys.readouterr()
    assert main(["train", "--trust", *again]) == 0
    run = json.loads(capsys.readouterr().out)["run_dir"]
    later(monkeypatch)
    assert main(["eval", run, "--episodes=2"]) == 0  # the user's own run, in the folder where it began


def test_a_fleet_trains_it(tmp_path):
    experiment = argosy.preset(own.Steady, "CartPole-v1", trainer={"start_steps": 60, "update_per_step": 0.05})
    fleet = Fleet(
        name="own",
        policies={"p": PolicySpec(experiment=experiment)},
        agents=(AgentSpec(policy="p", sample_steps=16),),
        evaluation=EvalGroup(num_envs=2, episodes=2),
        stop=FleetStop(updates=3, wall_s=60),
    )
    run = FleetRun(fleet, tmp_path / "run", interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures


def test_an_experiment_takes_its_algorithm_to_processes_that_have_not_registered_it(monkeypatch):
    argosy.register_algorithm("steady", own.Steady)
    sent = pickle.dumps(argosy.preset("steady", "CartPole-v1"))
    later(monkeypatch)
    received = pickle.loads(sent)
    assert received.algorithm == "steady"
    assert algorithm_class("steady") is own.Steady
    assert received.replaced({"seed": 3}).seed == 3


def test_names_of_classes():
    class Local(argosy.DQN):
        pass

    assert algorithm_name(argosy.DQN) == "dqn"
    assert algorithm_name(own.Steady) == "own:Steady"
    argosy.register_algorithm("local", Local)
    assert algorithm_name(Local) == "local"
    assert algorithm_names() == [*ALGORITHMS, "local"]
    argosy.register_algorithm("lazy", "Steady", module="own")
    assert algorithm_class("lazy") is own.Steady
    with pytest.raises(ConfigError, match="algorithm 'dqn' is registered already"):
        argosy.register_algorithm("dqn", Local)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own:Unfinished", "algorithm Unfinished has no config_type and no action_spaces and no build and no update"),
        ("own:NOTHING", "algorithm 'own:NOTHING' is 'not an algorithm'; it must be a class"),
        ("own:Steddy", "'Steddy' could not be imported from 'own'"),
        ("no_such_module:X", "'X' could not be imported from 'no_such_module'"),
        ("steddy", "unknown algorithm 'steddy'"),
    ],
)
def test_what_is_no_algorithm_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        argosy.preset(name, "CartPole-v1")


def test_presets_of_one_s_own_stand_in_the_class_or_in_a_file(tmp_path, monkeypatch):
    assert tuned_families("own:Steady") == tuned_families("dqn")
    assert preset_name("own:Steady", "CartPole-v1") == "own:Steady on classic tasks"
    steady, dqn = (argosy.preset(name, "CartPole-v1") for name in ("own:Steady", "dqn"))
    assert (steady.config.optim, steady.stop) == (dqn.config.optim, dqn.stop)
    assert (steady.trainer.max_epoch, steady.config.pause_updates) == (1, 3)
    file = tmp_path / "steady.toml"
    file.write_text("[classic]\npause_updates = 7\n")
    monkeypatch.setattr(own.Steady, "presets", file)
    assert argosy.preset(own.Steady, "CartPole-v1").config.pause_updates == 7
    monkeypatch.setattr(own.Steady, "presets", {"classic": {"pause": 7}})
    with pytest.raises(ConfigError, match=r"\[classic\] of Steady.presets: unknown setting 'pause'"):
        argosy.preset(own.Steady, "CartPole-v1")
    monkeypatch.setattr(own.Steady, "presets", tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=r"missing\.toml' is not a readable TOML file"):
        argosy.preset(own.Steady, "CartPole-v1")


def test_the_card_of_a_packed_run_says_that_it_takes_trust(tmp_path):
    experiment = argosy.preset("own:Steady", "CartPole-v1")
    card = _card({"algorithm": "own:Steady", "task": "CartPole-v1"}, {}, experiment, "x.zip", tmp_path)
    assert "`argosy eval x.zip --trust`" in card
    assert 'argosy.load("x.zip", trust=True)' in card
