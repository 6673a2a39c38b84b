"""The table of algorithms, and what follows from it."""

import importlib

import pytest

import argosy.algorithm
from argosy.algorithm import ALGORITHMS, EXPORTS, Algorithm, AlgorithmConfig, algorithm_class, algorithm_names
from argosy.errors import ConfigError


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_line_of_the_table_is_the_file_the_class_and_its_config(name):
    cls = algorithm_class(name)
    assert cls.__module__ == f"argosy.algorithm.{name}"
    assert issubclass(cls, Algorithm)
    assert issubclass(cls.config_type, AlgorithmConfig)
    assert {exported for exported, module in EXPORTS.items() if module == cls.__module__} == {
        cls.__name__,
        cls.config_type.__name__,
    }
    assert cls.config_type.__name__ == f"{cls.__name__}Config"


@pytest.mark.parametrize("name", EXPORTS)
def test_names_are_exported(name):
    assert getattr(argosy.algorithm, name) is getattr(importlib.import_module(EXPORTS[name]), name)
    assert name in dir(argosy.algorithm)


@pytest.mark.parametrize("name", ["Algorithm", "AlgorithmConfig", "AlgorithmWrapper", "OptimConfig", "Task"])
def test_what_all_share_is_listed_beside_them(name):
    assert name in dir(argosy.algorithm)
    assert hasattr(argosy.algorithm, name)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_says_what_it_is(name):
    cls = algorithm_class(name)
    assert cls.__doc__ is not None
    assert cls.__doc__.splitlines()[0].endswith(".")
    assert cls.kind in ("onpolicy", "offpolicy", "offline")
    assert cls.action_spaces


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match=r"unknown algorithm 'dqnn': did you mean 'dqn'\?"):
        algorithm_class("dqnn")
    with pytest.raises(AttributeError, match="no attribute 'DQNN'"):
        argosy.algorithm.DQNN  # noqa: B018
    assert algorithm_names() == list(ALGORITHMS)
