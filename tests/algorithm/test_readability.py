"""Numbers that keep algorithms readable."""

import inspect
from pathlib import Path

import pytest

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.algorithm import base as algorithm_base

PACKAGE = Path(algorithm_base.__file__).parents[1]

# What a reader opens to follow PPO from `update` to the gradient step.
PPO_PATH = (
    "algorithm/ppo.py",
    "algorithm/base.py",
    "algorithm/optim.py",
    "policy/actor_critic.py",
    "ops/returns.py",
    "ops/distributions.py",
)


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_one_file_of_at_most_250_lines(name):
    cls = algorithm_class(name)
    path = Path(inspect.getfile(cls))
    assert lines(path) <= 250
    for part in (cls, cls.config_type):
        assert inspect.getfile(part) == str(path)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_update_is_at_most_60_lines(name):
    assert len(inspect.getsource(algorithm_class(name).update).splitlines()) <= 60


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_config_field_has_one_line_of_explanation(name):
    source = inspect.getsource(algorithm_class(name).config_type).splitlines()
    fields = [i for i, line in enumerate(source) if line.startswith("    ") and line[4:5].isalpha() and ": " in line]
    fields = [i for i in fields if " = " in source[i]]
    assert fields
    for i in fields:
        assert source[i + 1].strip().startswith('"""'), source[i]
        assert source[i + 1].strip().endswith('"""'), source[i + 1]


def test_ppo_is_followed_in_6_files_and_1500_lines():
    assert len(PPO_PATH) <= 6
    assert sum(lines(PACKAGE / path) for path in PPO_PATH) <= 1500
