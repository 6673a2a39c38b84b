"""Names and files that lead to something else than they should, and sizes that nobody can mean: a sentence each."""

import math
import re
import resource
import shlex
import sys

import pytest

import argosy
from argosy.cli import main
from argosy.collect.source import Agents, EnvSource
from argosy.env import DummyVectorEnv, EnvConfig, check_env, make_environment, make_vector_env
from argosy.env.tasks import env_factory
from argosy.errors import ArgosyError, ConfigError, EnvError
from argosy.presets import preset

called = []


def makes_no_env():
    called.append("makes_no_env")
    return "an env"


def exits():
    raise SystemExit(3)


@pytest.mark.parametrize(
    "name", ["os:abort", "os:getcwd", "builtins:len", "builtins:exit", "subprocess:Popen", "builtins:dict"]
)
@pytest.mark.parametrize(
    "use",
    [
        lambda name: argosy.train("ppo", name, runs="nowhere"),
        lambda name: argosy.train("ppo", "CartPole-v1", env={"wrappers": (name,)}, runs="nowhere"),
        lambda name: argosy.train("ppo", "CartPole-v1", net={"encoder": name}, runs="nowhere"),
        lambda name: argosy.train(name, "CartPole-v1", runs="nowhere"),
        lambda name: make_vector_env(name, 1),
        lambda name: make_environment(name),
        lambda name: check_env(name),
        lambda name: EnvSource.of(name, {}, EnvConfig(), [Agents("0")]).spaces(),
    ],
)
def test_names_of_what_makes_nothing_of_the_kind_are_refused_before_it_is_called(use, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"{name}.* (is <|is the class|has no|must be a)"):
        use(name)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["makes_no_env", "exits"])
def test_a_function_that_makes_no_env_is_named_when_it_is_called(name):
    with pytest.raises(EnvError, match=r"env 0 could not be made: (what should make .* made a str|SystemExit)"):
        DummyVectorEnv([env_factory(f"{__name__}:{name}", EnvConfig())])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("train dqn --task CartPole-v1 --runs {file}/x --quiet", "cannot be made or used: .*give another one"),
        ("train dqn --task CartPole-v1 --runs /proc/1 --quiet", "cannot be made or used: .*give another one"),
        ("train ppo --task : --quiet", "':' names no module"),
        ("launch {file}", "is no Python file: its name does not end in .py"),
        ("launch {folder}", "there is no file"),
        ("launch {text}", "is no Python file: "),
        ("launch {module}", "defines no `fleet = argosy.distributed.Fleet"),
        ("check-env :", "':' names no module"),
        ("check-env a:", "module 'a' could not be imported"),
        ("check-env :a", "':a' names no module"),
        ("check-env CartPole-v1 --steps 0", "steps is 0; it must be >= 1"),
        ("check-env no_python_:Env", "module 'no_python_' could not be imported: .*no_python_.py, line 1"),
        ("train dqn --task CartPole-v1 --seeds 0-99999999999", "write 0-4 for five of them, .*1,000 at most"),
        ("train dqn --task CartPole-v1 --seeds 0-1 --jobs -1 --quiet --runs {folder}", "jobs is -1; it must be >= 0"),
        ("train dqn --task CartPole-v1 --threads 99999999", "threads is 99999999; it must be >= 0 and <= 4096"),
        (
            "train dqn --task CartPole-v1 --device meta --quiet --runs {folder}",
            "device is 'meta', which cannot be used",
        ),
        (
            "train dqn --task CartPole-v1 --buffer.storage-dir {file}/x --quiet --runs {folder}",
            "the folder .* cannot be",
        ),
        ("tune dqn --task CartPole-v1 --trials 0 --quiet --runs {folder}", "trials is 0; it must be >= 1"),
        ("tune dqn --task CartPole-v1 --space {empty} --quiet --runs {folder}", "there is nothing to search for dqn"),
        ("check-env os:abort", "'os:abort' is <built-in function abort>; it must be a class, or a function"),
    ],
)
def test_commands_say_a_sentence(command, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    files = {"file": "x", "text": "x.py", "module": "y.py", "empty": "e.json"}
    no_python = "root:x:0:0 ["
    contents = {"x": "root:x", "x.py": no_python, "no_python_.py": no_python, "y.py": "x = 3", "e.json": "{}"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    paths = {name: tmp_path / file for name, file in files.items()}
    assert main(shlex.split(command.format(folder=tmp_path, **paths))) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("argosy: error: ")]
    assert re.search(says, line), line


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"env.num_envs": 10**9}, "num_envs is 1000000000; it must be <= 100000$"),
        ({"env.test_num_envs": 10**15}, "test_num_envs is 1000000000000000; it must be <= 100000$"),
        ({"buffer.size": 10**12}, "needs 29,802.3 GiB of memory, and this machine has "),
        ({"net.hidden_sizes": (10**9,)}, "must be >= 1 and <= 100000$"),
        ({"net.hidden_sizes": (100_000, 100_000)}, "needs 149.0 GiB of memory, and this machine has "),
        ({"net.memory": "lstm", "net.memory_size": 10**9}, "memory_size is 1000000000; it must be >= 1 and <= 100000$"),
        ({"net.hidden_sizes": (8,) * 100_000}, "hidden_sizes has 100,000 layers; it must be <= 1000$"),
        ({"n_step": 10**9}, "n_step is 1000000000; it must be >= 1 and <= 100000$"),
        ({"buffer.stack_num": 10**9}, "stack_num is 1000000000; it must be >= 1 and <= 1000$"),
        ({"buffer.priority.alpha": math.inf}, "alpha is inf; it must be >= 0.0 and <= 10.0$"),
        ({"trainer.update_per_step": math.inf}, "update_per_step is inf; it must be > 0 and <= 1000000.0$"),
        ({"trainer.keep_checkpoints": 10**9}, "keep_checkpoints is 1000000000; it must be >= 1 and <= 1000$"),
        ({"noisy_std": 1e300}, r"noisy_std is 1e\+300; it must be >= 0.0 and <= 100.0$"),
    ],
    ids=lambda part: f"{part!s:.50}" if isinstance(part, dict) else "",
)
def test_sizes_that_nobody_can_mean_are_refused_before_memory_is_asked_for(sizes, says, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ArgosyError, match=says):
        argosy.train(preset("dqn", "CartPole-v1", **sizes), runs=tmp_path, show_progress=False)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
