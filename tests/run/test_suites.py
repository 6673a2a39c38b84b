import pytest

from argosy.cli import main
from argosy.errors import ConfigError
from argosy.run.suites import SUITES, suite


def test_a_suite_is_what_has_presets_for_its_tasks():
    made = {(one.algorithm, one.task) for one in suite("classic", (), [0])}
    assert ("dqn", "CartPole-v1") in made
    assert ("dqn", "Pendulum-v1") not in made
    assert {("ppo", task) for task in SUITES["classic"]} <= made
    assert not {"bc", "cql"} & {algorithm for algorithm, _ in made}


@pytest.mark.parametrize("name", SUITES)
def test_seeds_come_one_after_the_other(name):
    runs = suite(name, ("ppo",), [3, 4])
    assert [run.seed for run in runs] == [3] * len(SUITES[name]) + [4] * len(SUITES[name])
    assert [run.task for run in runs] == [*SUITES[name]] * 2


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="unknown suite 'clasic': did you mean 'classic'"):
        suite("clasic", (), [0])
    with pytest.raises(ConfigError, match="sac cannot act in any task of the suite 'minatar'"):
        suite("minatar", ("dqn", "sac"), [0])
    with pytest.raises(ConfigError, match="dqm"):
        suite("classic", ("dqm",), [0])


def test_the_command_says_what_is_missing(tmp_path, capsys):
    args = ["bench", "classic", "--algorithms", "dqn,qrdqn", "--seeds", "1", "--runs", str(tmp_path), "--dry"]
    assert main(args) == 0
    missing = [
        f"{name} on {task}, seed 1: missing" for name in ("dqn", "qrdqn") for task in ("CartPole-v1", "Acrobot-v1")
    ]
    assert capsys.readouterr().out.splitlines() == missing
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--help"])
    assert ended.value.code == 0
    assert "mujoco5: HalfCheetah-v5" in " ".join(capsys.readouterr().out.split())
