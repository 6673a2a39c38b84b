"""Every hyper-parameter is explained in the glossary, once and nowhere at length again."""

import dataclasses
import re
from pathlib import Path

import pytest

from argosy.algorithm import algorithm_class, algorithm_names
from argosy.data.buffer import Priority
from argosy.env import EnvConfig
from argosy.experiment import BufferConfig, StopConfig, TrainerConfig
from argosy.net import NetConfig

GLOSSARY = (Path(__file__).parents[2] / "docs/glossary.md").read_text(encoding="utf-8")
CONFIGS = [EnvConfig, NetConfig, BufferConfig, Priority, TrainerConfig, StopConfig]
CONFIGS += [algorithm_class(name).config_type for name in algorithm_names()]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_the_glossary_explains_every_setting(config):
    explained = set(re.findall(r"`([a-z0-9_]+)`", GLOSSARY))
    assert {field.name for field in dataclasses.fields(config)} <= explained
