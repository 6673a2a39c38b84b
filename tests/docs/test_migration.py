"""docs/migration.md says what has become of every public name of Tianshou 1.0, and every replacement is there."""

import importlib
import re
from pathlib import Path

import pytest

from argosy import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
NAMES = dict(
    line.split(": ")
    for line in (ROOT / "tests/docs/tianshou_1_0_names.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)
TABLE = re.compile(r"^\| `(tianshou\.[\w.]+)` \| here \|\n\| --- \| --- \|\n((?:\|.*\n)+)", re.MULTILINE)
MISSING = "not there yet"


def rows():
    """(package, names, what is said of them) of every row of the tables of names."""
    for package, table in TABLE.findall(PAGE.partition("## Every name")[2] + "\n"):
        for line in table.splitlines():
            names, said = line.strip("| ").split(" | ", 1)
            yield package, re.findall(r"`([\w.]+)`", names), said


def resolve(name):
    """Import what a dotted name stands for."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[depth:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("module", NAMES)
def test_every_name_stands_in_the_table_of_its_package(module):
    said = {(package, name) for package, names, _ in rows() for name in names}
    kind = module.rpartition(".")[2]
    for name in NAMES[module].split():
        in_its_package = [(p, n) for p, n in said if module.startswith(p) and n in (name, f"{kind}.{name}")]
        assert in_its_package, f"{module}.{name} is not in docs/migration.md"


def test_no_name_is_there_that_tianshou_does_not_have():
    known = {name for names in NAMES.values() for name in names.split()}
    assert sorted({n for _, names, _ in rows() for n in names if n.rpartition(".")[2] not in known}) == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(argosy(?:\.\w+)+)", PAGE))))
def test_every_replacement_is_there(name):
    resolve(name)


@pytest.mark.parametrize(("names", "said"), [(names, said) for _, names, said in rows()], ids=lambda x: str(x)[:40])
def test_a_row_names_what_replaces_it_or_says_that_nothing_does(names, said):
    assert names
    assert "`" in said or said.startswith(MISSING)


def test_no_algorithm_is_called_missing_that_is_there():
    """In any of the tables; a policy that is missing has no algorithm of its name."""
    from argosy.algorithm import algorithm_names

    first_cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ") and MISSING in line]
    missing = {name.removesuffix("Policy").lower() for cell in first_cells for name in re.findall(r"\w+", cell)}
    assert {"muzero", "psro"} <= missing
    assert missing & {name.replace("_", "") for name in algorithm_names()} == set()
    assert {"c51", "iqn", "cql", "trpo"} <= missing | set(algorithm_names())


SCRIPTS = PAGE.partition("## Example scripts\n")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"`argosy (train [^`]*)`", SCRIPTS)


@pytest.mark.parametrize("command", [command for command in COMMANDS if "vizdoom" not in command])
def test_the_command_in_a_script_s_place_is_one(command, monkeypatch):
    seen = []
    monkeypatch.setattr("argosy.cli.train.run_and_report", lambda experiment, *_: seen.append(experiment) or 0)
    args = command.split()
    assert cli.main(args) == 0
    (experiment,) = seen
    assert (experiment.algorithm, experiment.task) == (args[1], args[3])


def test_every_script_of_tianshou_has_its_row():
    """Families and members as its folder of examples has them."""
    members = {
        "atari/atari": "dqn c51 qrdqn iqn fqf rainbow ppo sac",
        "mujoco/mujoco": "ddpg td3 sac redq reinforce a2c ppo npg trpo",
        "vizdoom/vizdoom": "c51 ppo",
        "offline/d4rl": "bcq cql il td3_bc",
        "offline/atari": "bcq cql crr il",
    }
    scripts = {f"{family}_{member}.py" for family, names in members.items() for member in names.split()}
    box2d = ("acrobot_dualdqn", "bipedal_bdq", "bipedal_hardcore_sac", "lunarlander_dqn", "mcc_sac")
    scripts |= {f"box2d/{name}.py" for name in box2d}
    scripts |= {"offline/convert_rl_unplugged_atari.py"}
    scripts |= {"mujoco/fetch_her_ddpg.py", "inverse/irl_gail.py", "modelbased/psrl.py", "discrete/discrete_dqn.py"}
    assert set(re.findall(r"`(\w+/\w+\.py)`", SCRIPTS)) == scripts
