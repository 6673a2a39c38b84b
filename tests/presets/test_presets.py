"""Presets: every file makes experiments, and a slip in one is refused by name."""

import tomllib
import typing
from pathlib import Path

import pytest

from argosy import presets
from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.env.tasks import Family
from argosy.errors import ConfigError
from argosy.presets import preset, preset_name, read_sections, tuned_families

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "classic": "CartPole-v1",
    "box2d": "BipedalWalker-v3",
    "mujoco": "HalfCheetah-v5",
    "fetch": "FetchReach-v4",
    "dm_control": "CheetahRun-v1",
    "minatar": "MinAtar/Breakout-v1",
    "atari": "PongNoFrameskip-v4",
    "other": "Taxi-v4",
}


@pytest.fixture
def files(monkeypatch):
    """Files that replace those of the package, by name."""
    changed = {}
    monkeypatch.setattr(presets, "read_sections", lambda file: changed.get(file) or read_sections(file))
    return changed


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("family", EXAMPLES)
def test_every_file_makes_an_experiment_of_every_family(algorithm, family):
    experiment = preset(algorithm, EXAMPLES[family])
    assert (experiment.algorithm, experiment.task) == (algorithm, EXAMPLES[family])
    tuned = family in tuned_families(algorithm)
    assert preset_name(algorithm, EXAMPLES[family]) == (
        f"{algorithm} on {family} tasks" if tuned else f"defaults (no preset for {algorithm} on {family} tasks)"
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_is_tuned_for_something(algorithm):
    assert tuned_families(algorithm)


def test_the_shared_files_have_a_section_per_family_and_kind():
    assert set(read_sections("families.toml")) == set(EXAMPLES) == set(typing.get_args(Family))
    assert set(read_sections("kinds.toml")) == {"onpolicy", "offpolicy", "offline"}


@pytest.mark.parametrize("task", read_sections("tasks.toml"))
def test_a_task_s_settings_are_in_every_online_preset(task):
    (settings,) = read_sections("tasks.toml")[task].values()
    for algorithm in ALGORITHMS:  # but what learns from data: how good it becomes is up to the data
        online = algorithm_class(algorithm).kind != "offline"
        assert preset(algorithm, task).stop.test_return == (settings["test_return"] if online else None)


def test_an_algorithm_s_settings_stand_on_the_kind_s_and_the_family_s(files):
    files["families.toml"] = {"classic": {"threads": 2, "trainer": {"max_epoch": 7, "step_per_epoch": 700}}}
    files["kinds.toml"] = {"offpolicy": {"trainer": {"max_epoch": 8, "batch_size": 9}}}
    files["dqn.toml"] = {"classic": {"trainer": {"batch_size": 10}, "lr": 1}}
    files["tasks.toml"] = {"CartPole-v1": {"seed": 4}}
    experiment = preset("dqn", "CartPole-v1", threads=3)
    loop = experiment.trainer
    assert (loop.step_per_epoch, loop.max_epoch, loop.batch_size) == (700, 8, 10)
    assert (experiment.config.optim.lr, experiment.seed, experiment.threads) == (1.0, 4, 3)


@pytest.mark.parametrize("changes", [{"net.memory": "gru"}, {"net": {"memory": "lstm"}}])
def test_memory_has_settings_of_its_own_on_those_of_the_family(files, changes):
    files["dqn.toml"] = {"classic": {"lr": 1, "tau": 1}, "classic-memory": {"lr": 2, "net": {"norm_obs": True}}}
    experiment = preset("dqn", "CartPole-v1", seed=3, **changes)
    assert (experiment.config.optim.lr, experiment.config.tau, experiment.net.norm_obs, experiment.seed) == (
        2,
        1,
        True,
        3,
    )
    assert preset("dqn", "CartPole-v1", lr=4, **changes).config.optim.lr == 4
    assert preset("dqn", "CartPole-v1").config.optim.lr == 1
    assert tuned_families("dqn") == ["classic"]
    assert preset_name("dqn", "CartPole-v1", "gru") == "dqn with memory on classic tasks"


@pytest.mark.parametrize(
    ("file", "sections", "message"),
    [
        ("dqn.toml", {"clasic": {}}, r"unknown section \[clasic\] of dqn.toml: did you mean 'classic'\?"),
        ("dqn.toml", {"classic": {"lrr": 1}}, r"\[classic\] of dqn.toml: unknown setting 'lrr' for dqn: did you mean"),
        ("dqn.toml", {"atari": {"net": {"kid": 1}}}, r"\[atari\] of dqn.toml: unknown setting 'net.kid'.*'net.kind'"),
        ("dqn.toml", {"classic-memory": {"lrr": 1}}, r"\[classic-memory\] of dqn.toml: unknown setting 'lrr'"),
        ("dqn.toml", {"mujoco": {"tau": 2}}, r"\[mujoco\] of dqn.toml: DQNConfig.tau is 2.0; it must be"),
        ("tasks.toml", {"CartPole-v1": {"stop": {"x": 1}}}, r"\[CartPole-v1\] of tasks.toml: unknown setting 'stop.x'"),
        ("kinds.toml", {"offpolicy": {"thread": 1}}, r"\[offpolicy\] of kinds.toml: unknown setting 'thread'"),
    ],
)
def test_a_slip_is_refused_by_file_section_and_name(files, file, sections, message):
    files[file] = sections
    with pytest.raises(ConfigError, match=message):
        preset("dqn", "CartPole-v1")


def test_the_files_belong_to_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["argosy"]
    package = ROOT / "argosy"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    data = {path for path in files if path.suffix != ".py"}
    assert data == {path for pattern in patterns for path in package.glob(pattern)}
