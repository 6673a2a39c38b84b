"""What tools/docs.py writes of the algorithms is complete, and the README is up to date."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import pytest

from argosy.algorithm import ALGORITHMS, OptimConfig, algorithm_class
from argosy.data import Priority
from argosy.env import EnvConfig
from argosy.experiment import BufferConfig, StopConfig, TrainerConfig
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig, NoiseConfig

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("tools_docs", ROOT / "tools/docs.py")
docs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(docs)

README = (ROOT / "README.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
HEADINGS = ["Usage", "Logged metrics", "Implementation details", "Results", "References"]
CONFIGS = [EnvConfig, NetConfig, BufferConfig, Priority, TrainerConfig, StopConfig]
CONFIGS += [OptimConfig, EpsilonConfig, NoiseConfig]
CONFIGS += [algorithm_class(name).config_type for name in ALGORITHMS]


def test_the_readme_lists_the_algorithms():
    assert docs.readme(README) == README, "run: make format"
    for name in ALGORITHMS:
        assert f"(docs/algorithms/{name}.md)" in README


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page_with_the_same_headings(name):
    page = (ROOT / f"docs/algorithms/{name}.md").read_text(encoding="utf-8")
    assert page.startswith("# ")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert f"argosy train {name} --task" in page


def test_every_page_is_of_an_algorithm_and_in_the_navigation():
    class Config:
        nav = [{"Home": "index.md"}, {"Algorithms": []}, {"Glossary": "glossary.md"}]  # noqa: RUF012

    pages = sorted(f"algorithms/{page.name}" for page in (ROOT / "docs/algorithms").glob("*.md"))
    assert sorted(docs.on_config(Config()).nav[1]["Algorithms"]) == pages


@pytest.mark.parametrize("name", docs.WRITERS)
def test_a_page_asks_for_what_is_written(name):
    (page,) = (page for page in (ROOT / "docs").rglob("*.md") if f"<!-- {name} -->" in page.read_text(encoding="utf-8"))
    assert "<!--" not in docs.on_page_markdown(page.read_text(encoding="utf-8"))


def explained():
    """Settings that the glossary's generated tables explain, the parts of nested names each."""
    rows = re.findall(r"^\| `([\w.]+)` \| \S.* \| .+ \|$", docs.on_page_markdown(GLOSSARY), re.MULTILINE)
    return {part for row in rows for part in row.split(".")}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_the_glossary_explains_every_setting(config):
    assert {field.name for field in dataclasses.fields(config)} <= explained()


def test_the_glossary_speaks_of_settings_that_there_are():
    by_hand = GLOSSARY.partition("## Turning the knobs")[2].partition("## Settings")[0]
    assert set(re.findall(r"`(\w+)`", by_hand)) <= explained()


def test_the_reference_has_every_config():
    reference = docs.on_page_markdown((ROOT / "docs/reference.md").read_text(encoding="utf-8"))
    for name in ALGORITHMS:
        config = algorithm_class(name).config_type
        assert f"::: {config.__module__}.{config.__name__}\n" in reference


def test_defaults_are_those_of_the_configs():
    assert re.search(r"\| `gamma` \| .* \| .*PPO 0.99", docs.settings_of_algorithms())
    assert re.search(r"\| `buffer.priority.alpha` \| .* \| 0 \|", docs.settings_of_experiments())


def test_the_guide_s_table_says_of_every_algorithm_when_to_take_it():
    guide = docs.on_page_markdown((ROOT / "docs/guide/algorithms.md").read_text(encoding="utf-8"))
    rows = dict(re.findall(r"^\| \[\w+\]\(../algorithms/(\w+)\.md\) \| (.*) \|$", guide, re.MULTILINE))
    assert list(rows) == list(ALGORITHMS)
    assert rows["dqn"].startswith("discrete | off-policy | yes | actions are discrete and steps are dear")
    assert rows["psrl"].startswith("discrete | on-policy | no | states and actions are few and numbered")
    assert rows["branching_dqn"].startswith("multi-discrete, continuous | off-policy | yes |")
    assert sum(not row.endswith("| ") for row in rows.values()) >= 30
