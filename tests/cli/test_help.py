"""Help comes at once: it reads files, and imports nothing heavy."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from argosy import cli
from argosy.algorithm import ALGORITHMS
from argosy.cli.help import table

HEAVY = ("torch", "numba", "gymnasium", "numpy", "matplotlib", "ray")
ROOT = Path(__file__).parents[2]
SAVED = [[name, "--help"] for name in ("resume", "eval", "watch", "export", "pack", "collect")]
OTHERS = [[name, "--help"] for name in ("report", "compare", "data", "check-env", "bench")]
QUICK = [["--help"], ["algorithms"], ["train", "--help"], ["tune", "--help"], ["tune"], *SAVED, *OTHERS]
QUICK += [["train", name, "--help"] for name in ALGORITHMS]


@pytest.mark.parametrize("args", QUICK, ids=" ".join)
def test_help_imports_nothing_heavy_and_answers_at_once(args):
    listed = "atexit.register(lambda: print(*sys.modules))"
    program = f"import atexit, sys; from argosy import cli; {listed}; sys.exit(cli.main({args!r}))"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *_, modules = done.stdout.splitlines()
    assert not set(HEAVY) & set(modules.split())
    assert args not in SAVED or f"usage: argosy {args[0]} [-h] [OPTIONS] RUN" in done.stdout.replace("\n", " ")
    assert time.perf_counter() - began < 10  # a hang; on a quiet machine it takes a tenth of a second


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_is_that_of_the_parser_for_a_task(name, capsys):
    """What stands in files names every flag that the help of a task, made from the configs themselves, names."""
    discrete = any(line.startswith(name + " ") and "Discrete" in line for line in table().splitlines())
    task = "CartPole-v1" if discrete else "Pendulum-v1"
    pages = []
    for args in ([name, "--help"], [name, "--task", task, "--help"]):
        assert cli.main(["train", *args]) == 0
        pages.append(capsys.readouterr().out)
    flags = [[line.split()[0] for line in page.splitlines() if line.startswith("  --")] for page in pages]
    assert flags[0] == flags[1]
    assert len(flags[0]) > 60
    assert all("--lr for DQN's --optim.lr" in page for page in pages)
    assert "Defaults are those of the preset" in pages[1]


def test_the_defaults_of_a_preset_are_shown_for_a_task(capsys):
    assert cli.main(["train", "dqn", "--task=CartPole-v1", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--n-step INT\n      Rewards summed before the bootstrap value. (default: 3)" in shown


def test_memory_has_defaults_of_its_own(capsys):
    assert cli.main(["train", "ppo", "--task=CartPole-v1", "--net.memory", "gru", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Defaults are those of the preset: ppo with memory on classic tasks." in shown
    assert "Let critics predict returns divided by their running deviation. (default: True)" in shown


def test_switches_are_off_and_on_as_the_parser_has_them(capsys):
    assert cli.main(["train", "dqn", "--help"]) == 0
    assert "--net.norm-obs, --net.no-norm-obs" in capsys.readouterr().out
    args = ["train", "dqn", "--task=CartPole-v1", "--net.no-norm-obs", "--no-double", "--lr=-1"]
    assert cli.main(args) == 2  # refused for its last flag alone
    assert "--optim.lr is -1.0" in capsys.readouterr().err


def test_the_list_has_a_line_for_each(capsys):
    assert cli.main(["algorithms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(ALGORITHMS)]] == list(ALGORITHMS)
