"""The command line: help, exit codes, errors of one line."""

import errno
import json
import subprocess
import sys

import pytest

from argosy import cli
from argosy.cli.doctor import EXTRAS, import_fault
from argosy.errors import EnvError


def error_of(capsys, *args):
    """Run the command; return its exit code and the one line that it wrote to standard error."""
    code = cli.main(list(args))
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("argosy: error: ")
    return code, line.removeprefix("argosy: error: ")


def test_help_names_every_command(capsys):
    assert cli.main(["--help"]) == cli.main([]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in cli.COMMANDS)


def test_it_is_a_module_too():
    done = subprocess.run([sys.executable, "-m", "argosy", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "argosy: error: " in done.stderr


def test_every_command_explains_itself(capsys):
    for name in cli.COMMANDS:
        try:
            code = cli.main([name, "--help"])
        except SystemExit as exit_:
            code = exit_.code
        assert code in (0, None)
        assert f"argosy {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["trian"], "unknown command 'trian': did you mean 'train'?"),
        (["train", "dqm", "--task", "CartPole-v1"], "unknown algorithm 'dqm': did you mean 'dqn'?"),
        (["train", "dqn", "--task", "CartPol-v1"], "unknown task 'CartPol-v1'; did you mean 'CartPole-v1'?"),
        (["train", "dqn"], "which task? --task TASK, for instance --task CartPole-v1"),
        (["train", "dqn", "CartPole-v1"], "which task? If 'CartPole-v1' is meant: --task CartPole-v1"),
        (["train", "dqn", "--taks", "CartPole-v1"], "unknown flag '--taks': did you mean '--task'?"),
        (["train", "dqn", "--task"], "--task needs a value"),
        (["train", "dqn", "--task", "CartPole-v1", "--lrr", "1"], "unknown flag '--lrr': did you mean '--lr'?"),
        (["train", "dqn", "--seed=1", "--seeds", "0-4"], "--seed 1 and --seeds 0-4 are given; leave one of them out"),
        (
            ["train", "dqn", "--task=CartPole-v1", "--callbacks=fqe", "--callbacks", "video"],
            "--callbacks is given twice; give it once, several values as --callbacks ONE ANOTHER",
        ),
        (["train", "dqn", "--task=CartPole-v1", "--lr=1", "--lr", "2"], "--lr is given twice; give it once"),
        (["train", "dqn", "--task=CartPole-v1", "--lr=1", "--optim.lr=2"], "--optim.lr is given twice"),
        (["train", "--config=a", "--config=b"], "--config is given twice"),
        (["eval", "runs", "--seed", "1", "--seed", "2"], "--seed is given twice"),
        (["train", "dqn", "--task=CartPole-v1", "--lrr=1"], "unknown flag '--lrr': did you mean '--lr'?"),
        (
            ["train", "dqn", "--task", "CartPole-v1", "--env.nmu-envs", "1"],
            "unknown flag '--env.nmu-envs': did you mean '--env.num-envs'?",
        ),
        (["train", "dqn", "--task", "CartPole-v1", "--lr", "-1"], "--optim.lr is -1.0; it must be > 0.0"),
        (["train", "dqn", "--task", "CartPole-v1", "--env.num-envs", "0"], "--env.num-envs is 0; it must be >= 1"),
        (["train", "dqn", "--task", "CartPole-v1", "--buffer.size", "0"], "--buffer.size is 0; it must be >= 1"),
        (["train", "dqn", "--task", "CartPole-v1", "--logger.mlflow", "foo"], "--logger.mlflow is 'foo'; it must"),
        (
            ["train", "dqn", "--task", "CartPole-v1", "extra"],
            "unexpected argument 'extra'; argosy train dqn --help lists the options",
        ),
        (["train", "dqn", "--task", "CartPole-v1", "--gamma", "1.5"], "--gamma is 1.5; it must be >= 0.0 and <= 1.0"),
        (["train", "dqn", "--task", "CartPole-v1", "--seed", "-1"], "--seed is -1; it must be >= 0"),
        (
            ["train", "dqn", "--task", "CartPole-v1", "--double", "false"],
            "unexpected argument 'false'; a switch takes no value: --double or --no-double, ",
        ),
        (
            ["train", "dqn", "--task", "CartPole-v1", "--optim.kind", "adamm"],
            "unknown optimiser 'adamm'; did you mean 'adam'?",
        ),
        (
            ["train", "dqn", "--task", "CartPole-v1", "--wrap", "mine"],
            "unknown wrapper of algorithms 'mine'; ",  # other tests may have registered some
        ),
        (
            ["resume", "nowhere", "--lr", "1"],
            "unknown flag '--lr': a run that goes on keeps its settings; argosy train ",
        ),
        (["resume", "nowhere", "--total-step", "1"], "unknown flag '--total-step': did you mean '--total-steps'?"),
        (["doctor", "--foo"], "unknown flag '--foo'"),
        (["launch", "fleet.py", "--resum"], "unknown flag '--resum': did you mean '--resume'?"),
        (["fleet", "statu"], "invalid choice 'statu' for argument 'action'. Expected one of ('status', 'stop')."),
        (["eval", "nowhere"], "there is no run 'nowhere': the folder does not exist"),
        (["resume", "nowhere"], "there is no run 'nowhere': the folder does not exist"),
        (
            ["collect", "nowhere", "--steps", "9", "-o", "a.hdf5"],
            "there is no run 'nowhere': the folder does not exist",
        ),
        (["collect", "nowhere", "-o", "a.hdf5", "--steps", "0"], "steps is 0; it must be a whole number >= 1"),
        (
            ["collect", "nowhere", "-o", "a.hdf5", "--steps", "9", "--seed", "-1"],
            "seed is -1; it must be a whole number >= 0",
        ),
        (["eval", "nowhere", "--seed", "-1"], "seed is -1; it must be a whole number >= 0"),
        (["watch", "nowhere", "--seed", "-1"], "seed is -1; it must be a whole number >= 0"),
        (["check-env", "CartPole-v1", "--seed", "-1"], "seed is -1; it must be a whole number >= 0"),
        (["bench", "classic", "--seeds", "-1"], "seeds are '-1'; write 0-4 for five of them, or 1,3,5"),
        (["watch", "nowhere", "--video", "a.gif"], "there is no run 'nowhere': the folder does not exist"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(capsys, args, message):
    code, line = error_of(capsys, *args)
    assert code == 2
    assert line.startswith(message)


def test_a_value_of_the_wrong_type_is_named(capsys):
    code, line = error_of(capsys, "train", "dqn", "--task", "CartPole-v1", "--lr", "fast")
    assert code == 2
    assert "--optim.lr" in line
    assert "'fast'" in line


@pytest.mark.parametrize("given", [[], [""], ["8"], ["8", "4"]])
def test_a_network_may_have_no_hidden_layers(given):
    from argosy.cli.train import Output, _parse
    from argosy.presets import preset

    experiment, _ = _parse(preset("dqn", "CartPole-v1"), ["--net.hidden-sizes", *given], Output, "train")
    assert experiment.net.hidden_sizes == tuple(int(size) for size in given if size)


def test_short_flags_stand_for_those_of_the_only_section_that_has_them():
    from argosy.cli.train import Output, _parse
    from argosy.presets import preset

    default = preset("dqn", "CartPole-v1")
    args = ["--stop.test-return", "none", "--net.hidden-sizes", "64,32", "--trainer.step-per-epoch", "2e3"]
    args += ["--kind=sgd", "--lr", "0.01", "--args", '{"momentum": 0.9}', "--eps-end=0.2", "--no-double"]
    experiment, _ = _parse(default, args, Output, "train")
    assert experiment == default.replaced(
        {
            "optim": {"kind": "sgd", "lr": 0.01, "args": {"momentum": 0.9}},
            "exploration.eps_end": 0.2,
            "double": False,
            "stop.test_return": None,
            "net.hidden_sizes": (64, 32),
            "trainer.step_per_epoch": 2000,
        }
    )


def test_a_short_flag_that_may_be_several_is_refused(capsys):
    code, line = error_of(capsys, "train", "sac", "--task", "Pendulum-v1", "--lr", "1")
    assert code == 2
    assert line == "setting 'lr' of sac may be actor_optim.lr or critic_optim.lr or alpha_optim.lr; say which one"
    code, line = error_of(capsys, "train", "dqn", "--task", "CartPole-v1", "--eps", "0.1")  # the rate of exploration?
    assert code == 2
    assert line.startswith("setting 'eps' of dqn may be optim.eps or exploration.eps_start or ")


def test_arguments_of_a_class_of_one_s_own_are_json(capsys):
    code, line = error_of(capsys, "train", "dqn", "--task", "CartPole-v1", "--net.encoder-args", "width=3")
    assert code == 2
    assert "--net.encoder-args: 'width=3' is no JSON object" in line


def test_two_numbers_are_written_as_lists_are():
    from argosy.cli.train import Output, _parse
    from argosy.presets import preset

    default = preset("dqn", "CartPole-v1")
    for args in (["0.5", "0.9"], ["0.5,0.9"]):
        assert _parse(default, ["--optim.betas", *args], Output, "train")[0].config.optim.betas == (0.5, 0.9)


def test_two_numbers_that_are_none_or_more_are_refused(capsys):
    for text in ("0.5", "0.5,0.9,0.99", "0.5,x"):
        code, line = error_of(capsys, "train", "dqn", "--task", "CartPole-v1", "--optim.betas", text)
        assert code == 2
        assert f"--optim.betas: '{text}' are no two numbers such as 0.9 0.999" in line


def test_a_config_file_with_an_unknown_key_is_refused(capsys, tmp_path):
    (tmp_path / "config.json").write_text(
        '{"task": "CartPole-v1", "algorithm": "dqn", "config": {"optim": {"lrr": 1}}}'
    )
    code, line = error_of(capsys, "train", "--config", str(tmp_path / "config.json"))
    assert code == 2
    assert line == "unknown key 'config.optim.lrr' of OptimConfig: did you mean 'lr'?"


def test_an_algorithm_on_the_wrong_action_space_says_which_fit(capsys, tmp_path):
    code, line = error_of(capsys, "train", "dqn", "--task", "Pendulum-v1", "--runs", str(tmp_path), "--quiet")
    assert code == 2
    assert line.startswith("DQN needs a Discrete action space, not Box")
    assert list(tmp_path.iterdir()) == []


def test_other_errors_give_exit_code_1_and_debug_a_traceback(capsys, monkeypatch):
    def fails(flags):
        raise EnvError("env 3 died")

    monkeypatch.setattr("argosy.cli.doctor.Doctor.__call__", fails)
    assert error_of(capsys, "doctor") == (1, "env 3 died")
    with pytest.raises(EnvError):
        cli.main(["doctor", "--debug"])


def test_a_path_that_the_system_refuses_is_one_line(capsys, tmp_path, monkeypatch):
    def refuses(flags):
        raise PermissionError(errno.EACCES, "Permission denied", "/root/run")

    monkeypatch.setattr("argosy.cli.doctor.Doctor.__call__", refuses)
    assert error_of(capsys, "doctor") == (1, "[Errno 13] Permission denied: '/root/run'")
    with pytest.raises(PermissionError):
        cli.main(["doctor", "--debug"])
    assert "File name too long" in error_of(capsys, "eval", "a" * 5000)[1]
    (tmp_path / "loop").symlink_to("loop")
    args = ["train", "bc", "--task", "CartPole-v1", "--data", str(tmp_path / "loop"), "--quiet"]
    assert "there is no such file" in error_of(capsys, *args)[1]


def test_doctor_reports_core_and_extras(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "cores:" in out
    assert "torch 2." in out
    for extra in EXTRAS:
        assert f"\n  {extra} " in out


def test_doctor_says_nothing_of_what_modules_say(tmp_path, monkeypatch, capsys):
    (tmp_path / "talks.py").write_text("import sys\nprint('hello')\nprint('hear me', file=sys.stderr)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_fault("talks") is None
    assert capsys.readouterr() == ("", "")


def test_doctor_says_how_to_get_what_is_missing():
    from argosy.cli.doctor import extra_report

    report = extra_report("atari", (("no_such_module", "no-such-dist"), ("json", "pip")))
    assert report.startswith("MISSING no-such-dist missing, pip ")
    assert report.endswith("pip install 'argosy[atari]'")


def test_doctor_knows_the_extras_of_the_package():
    import tomllib
    from pathlib import Path

    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = set(declared["project"]["optional-dependencies"])
    assert set(EXTRAS) == extras - {"docs", "dev", "all"}


def test_algorithms_are_listed(capsys):
    assert cli.main(["algorithms"]) == 0
    out = capsys.readouterr().out
    assert "\ndqn " in out
    assert "Discrete" in out


def test_the_installed_command_works():
    command = [sys.executable, "-c", "from argosy.cli import main; raise SystemExit(main())", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("argosy ")


ENVS = """
import gymnasium as gym
import numpy as np
from argosy.env import Environment, StepResult

class Bad(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(2, 5.0, np.float32), {}

    def step(self, action):
        return np.full(2, 5.0, np.float32), 1.0, False, False, {}

class Game(Environment):
    def __init__(self):
        self.agent_count = 2
        self.observation_spaces = [gym.spaces.Discrete(3)] * 2
        self.action_spaces = [gym.spaces.Discrete(2)]

    def reset(self):
        return [StepResult(0), None]

    def step(self, actions):
        return [None, StepResult(0, terminated=True)]
"""


def test_check_env_says_what_is_wrong(capsys, tmp_path, monkeypatch):
    (tmp_path / "some_envs.py").write_text(ENVS)
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["check-env", "some_envs:Bad", "--steps", "50"]) == 1
    out = capsys.readouterr().out
    assert "error: " in out
    assert "5.0" in out
    assert cli.main(["check-env", "some_envs:Game"]) == 1
    assert "action_spaces has 1 entries for 2 agents" in capsys.readouterr().out


def test_check_env_takes_the_settings_of_train(capsys):
    args = ["argosy.env.bitflip:BitFlip", "--env.kwargs.bits", "3", "--env.max-episode-steps=2", "--steps", "60"]
    assert cli.main(["check-env", *args]) == 0
    assert error_of(capsys, "check-env", *args, "--env.max-episode-step", "2")[1].startswith("unknown flag")
    assert (
        "kwargs holds 'bit', which"
        in error_of(capsys, "check-env", "argosy.env.bitflip:BitFlip", "--env.kwargs.bit", "3")[1]
    )


def test_check_env_finds_a_sound_env_sound(capsys):
    assert cli.main(["check-env", "CartPole-v1", "--steps", "100"]) == 0
    assert "CartPole-v1: sound" in capsys.readouterr().out


def test_check_env_of_an_unknown_env_offers_the_nearest(capsys):
    code, line = error_of(capsys, "check-env", "CartPol-v1")
    assert code == 2
    assert "did you mean 'CartPole-v1'?" in line


def test_a_preset_of_one_s_own_and_data_go_together(tmp_path):
    """The file's settings of collecting stay, and what asks for data finds it."""
    from argosy.cli.train import Output, read_flags

    file = tmp_path / "own.json"
    file.write_text(json.dumps({"trainer.offline_updates": 100, "buffer.size": 5000, "trainer.start_steps": 7}))
    args = ["sac", "--task", "Pendulum-v1", "--preset", str(file), "--data", "d.hdf5"]
    experiment, *_ = read_flags(args, Output, "train")
    assert (experiment.data, experiment.trainer.offline_updates) == ("d.hdf5", 100)
    assert (experiment.buffer.size, experiment.trainer.start_steps) == (5000, 7)
