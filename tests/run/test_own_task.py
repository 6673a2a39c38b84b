"""Tasks and wrappers that are given as classes and functions, with arguments, from Python and from the command."""

import json
import pickle
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from line import Car, Doubled, Line, short_line, tenth
from short import QUICK, quick

import argosy
from argosy import named
from argosy.cli import main
from argosy.distributed import AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.env import EnvConfig, make_vector_env, task_family, task_spaces
from argosy.errors import ConfigError
from argosy.experiment import Experiment


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Another process: nobody has named anything in it."""
    monkeypatch.setattr(named, "_TRUSTED", set())
    monkeypatch.setattr(named, "_GIVEN", {})


def high(task, **config):
    return task_spaces(task, EnvConfig(**config))[0].high.item()


@pytest.mark.parametrize("task", [Line, short_line, "line:Line", "line:short_line"])
def test_a_task_is_a_class_a_function_or_its_name(task):
    assert task_family(task) == "other"
    experiment = argosy.preset("dqn", task, env={"kwargs": {"length": 3}})
    assert experiment.task == (task if isinstance(task, str) else f"line:{task.__name__}")
    assert high(experiment.task, kwargs=experiment.env.kwargs) == high(task, kwargs={"length": 3}) == 3.0
    assert Experiment(task=task, algorithm="dqn", config=argosy.DQNConfig()).task == experiment.task


def test_one_may_be_defined_anywhere():
    def made(length):
        return lambda: Line(length)

    names = [argosy.preset("dqn", made(length)).task for length in (5, 6)]
    assert [high(name) for name in names] == [5.0, 6.0]  # both are "...<lambda>" to Python


@pytest.mark.parametrize("vector", ["dummy", "subproc", "shmem"])
def test_wrappers_are_classes_functions_or_names_in_every_vector(vector):
    config = EnvConfig(wrappers=(Doubled, tenth, "line:Doubled"), kwargs={"length": 1, "name": "n"}, vector=vector)
    assert config.wrappers == ("line:Doubled", "line:tenth", "line:Doubled")
    env = make_vector_env(Line, 2, config=config)
    env.reset()
    assert env.step(np.array([1, 0]))[1].tolist() == pytest.approx([0.4, 0.0])
    env.close()


def test_actions_of_choices_and_numbers_are_learned(tmp_path):
    trainer = {"max_epoch": 4, "step_per_epoch": 5_000}
    done = argosy.train(
        "ppo", Car, seed=1, runs=tmp_path, env={"wrappers": ("FlatAction",)}, trainer=trainer, show_progress=False
    )
    assert done.test_return_mean > 4.0  # whoever draws lots has 5 * (1 / 3 - 2 / 3)


def test_a_run_of_them_is_trained_resumed_and_evaluated(tmp_path):
    env = {**QUICK["env"], "kwargs": {"length": 3}, "wrappers": (Doubled,)}
    result = quick(tmp_path, task=Line, env=env)
    data = json.loads(Path(result.run_dir, "config.json").read_text())
    assert (data["task"], data["env"]["wrappers"], data["env"]["kwargs"]) == (
        "line:Line",
        ["line:Doubled"],
        {"length": 3},
    )
    assert argosy.evaluate(result.run_dir, episodes=4).returns.max() <= 2.0
    longer = result.env_steps + 100
    assert argosy.resume(result.run_dir, total_steps=longer, show_progress=False).env_steps == longer


def test_the_command_takes_arguments_by_name(tmp_path, capsys):
    args = [
        "train",
        "dqn",
        "--task=line:Line",
        "--env.kwargs.length",
        "3",
        "--env.kwargs.name=left",
        "--json",
        "--quiet",
    ]
    args += ["--trainer.max-epoch=1", "--trainer.step-per-epoch=50", "--trainer.start-steps=20", "--stop.episodes=2"]
    assert main([*args, "--trainer.episode-per-test=2", f"--runs={tmp_path}"]) == 0
    run = json.loads(capsys.readouterr().out)["run_dir"]
    assert Experiment.load(f"{run}/config.json").env.kwargs == {"length": 3, "name": "left"}
    assert main([*args, "--env.kwargs.lenght=4"]) == 2
    assert "env.kwargs holds 'lenght', which Line does not take: did you mean 'length'?" in capsys.readouterr().err
    assert main([*args, "--env.kwargs.width"]) == 2
    assert "--env.kwargs.width needs a value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "kwargs", "message"),
    [
        (Line, {"lenght": 3}, "env.kwargs holds 'lenght', which Line does not take: did you mean 'length'"),
        (Line, {"length": "long"}, r"env\.kwargs\['length'\] is 'long'; it must be int"),
        (lambda size: Line(size), {}, "env.kwargs lacks size, which <lambda> needs"),
        ("CartPole-v1", {"sutton": True}, "env.kwargs holds 'sutton', which CartPoleEnv does not take"),
        ("Pong-v5", {"difficulty": 1}, r"env\.kwargs are \{'difficulty': 1\}, but 'Pong-v5' takes the settings of"),
        (Line(), {}, "is neither a class nor a function"),
        (np, {}, "is neither a class nor a function"),
        ("__main__:Gone", {}, "move it to a module that can be imported from here"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(task, kwargs, message):
    with pytest.raises(ConfigError, match=message):
        make_vector_env(task, 1, config=EnvConfig(kwargs=kwargs, vector="dummy"))


def test_arguments_reach_an_env_that_gymnasium_makes():
    env = make_vector_env("CartPole-v1", 1, config=EnvConfig(kwargs={"sutton_barto_reward": True}))
    env.reset()
    assert env.step(np.array([0]))[1].tolist() == [0.0]  # where CartPole pays 1 otherwise
    env.close()


def local_line() -> type[gym.Env]:
    class Local(Line):
        """What no other process could import."""

    return Local


def test_an_experiment_takes_its_code_to_other_processes(monkeypatch):
    import cloudpickle

    experiment = argosy.preset("dqn", local_line(), env={"wrappers": (lambda env: Doubled(env),)})
    sent = cloudpickle.dumps(experiment)
    monkeypatch.setattr(named, "_GIVEN", {})
    received = pickle.loads(sent)
    assert received == experiment
    env = make_vector_env(received.task, 1, config=received.env)
    env.close()


def test_a_fleet_plays_it(tmp_path):
    env = {"kwargs": {"length": 3}, "wrappers": (Doubled,)}
    trainer = {"start_steps": 60, "update_per_step": 0.05}
    experiment = argosy.preset("dqn", local_line(), trainer=trainer, env=env)
    fleet = Fleet(
        name="own",
        policies={"p": PolicySpec(experiment=experiment)},
        agents=(AgentSpec(policy="p", sample_steps=16),),
        evaluation=EvalGroup(num_envs=2, episodes=2),
        stop=FleetStop(updates=3, wall_s=60),
    )
    run = FleetRun(fleet, tmp_path / "run", interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures


class Bits(gym.Env):
    """Pays for each bit that is set as it was shown."""

    observation_space = action_space = gym.spaces.MultiBinary(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bits, self.steps = self.np_random.integers(0, 2, 3, dtype=np.int8), 0
        return self.bits, {}

    def step(self, action):
        assert (action.dtype, action.shape) == (np.int8, (3,))
        reward = float((action == self.bits).mean())
        self.bits, self.steps = self.np_random.integers(0, 2, 3, dtype=np.int8), self.steps + 1
        return self.bits, reward, False, self.steps == 8, {}


def test_several_bits_are_an_action(tmp_path):
    loop = {"step_per_collect": 256, "step_per_epoch": 2048, "total_steps": 2048, "episode_per_test": 4}
    options = {**QUICK, "env": {"num_envs": 8, "test_num_envs": 4}, "trainer": loop, "stop": {"episodes": 8}}
    done = argosy.train("ppo", Bits, runs=tmp_path, show_progress=False, lr=0.02, batch_size=64, gamma=0.5, **options)
    assert done.test_return_mean > 7  # of 8; by chance 4
    pytest.importorskip("h5py")
    argosy.collect_data(done, tmp_path / "bits.hdf5", steps=64)
    loop = {"total_steps": 20, "step_per_epoch": 20, "batch_size": 16, "episode_per_test": 2}
    like = argosy.train(
        "bc", Bits, data=tmp_path / "bits.hdf5", runs=tmp_path, show_progress=False, **{**options, "trainer": loop}
    )
    assert like.gradient_steps == 20
