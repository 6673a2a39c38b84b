"""What tools/docs.py writes of the algorithms is complete, and the README is up to date."""

import dataclasses
import functools
import importlib
import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from argosy.algorithm import ALGORITHMS, EXPORTS, OptimConfig, algorithm_class
from argosy.cli.train import Output, read_flags
from argosy.data import Priority
from argosy.env import EnvConfig
from argosy.experiment import BufferConfig, StopConfig, TrainerConfig
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig, NoiseConfig
from argosy.presets import preset

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("tools_docs", ROOT / "tools/docs.py")
docs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(docs)

README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8").splitlines()
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
HEADINGS = ["Usage", "Logged metrics", "Implementation details", "Results", "References"]
PACKAGES = ("data", "env", "policy", "net", "ops", "collect", "trainer", "distributed", "logger", "report", "errors")
CONFIGS = [EnvConfig, NetConfig, BufferConfig, Priority, TrainerConfig, StopConfig]
CONFIGS += [OptimConfig, EpsilonConfig, NoiseConfig]
CONFIGS += [algorithm_class(name).config_type for name in ALGORITHMS]


def test_the_readme_lists_the_algorithms():
    assert docs.readme(README) == README, "run: make format"
    measured = README[README.index("## Why") : README.index("**Nothing lost.**")]
    assert [line for line in measured.splitlines() if line.startswith("|") and line not in BENCHMARKS] == []
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


def test_pages_that_are_written_say_so_where_they_are_read_as_they_stand():
    mark = re.compile(rf"<!-- (?:{'|'.join(docs.WRITERS)}|names of [\w.]+) -->")
    pages = {page: page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")}
    assert [page for page, text in pages.items() if mark.search(text) and "Written by `make docs`" not in text] == []


@functools.cache
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


REFERENCE = "\n".join(
    docs.on_page_markdown(page.read_text(encoding="utf-8")) for page in sorted((ROOT / "docs/reference").glob("*.md"))
)


def found(path):
    """Import what a dotted path stands for."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("package", ["argosy", *(f"argosy.{name}" for name in PACKAGES)])
def test_the_reference_has_every_public_name(package):
    entries = re.findall(r"^::: ([\w.]+)$", REFERENCE, re.MULTILINE)
    there = {id(found(entry)) for entry in entries}
    names = docs.public_names(package)
    assert len(names) > 4
    missing = [name for name in names if id(getattr(importlib.import_module(package), name)) not in there]
    assert missing == []


def test_the_reference_has_every_algorithm_and_its_config():
    entries = set(re.findall(r"^::: ([\w.]+)$", REFERENCE, re.MULTILINE))
    assert {f"{module}.{name}" for name, module in EXPORTS.items()} <= entries
    assert len(entries) > 300


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_s_page_shows_defaults_python_and_its_curves(name):
    text = (ROOT / f"docs/algorithms/{name}.md").read_text(encoding="utf-8")
    page = docs.of_algorithm(name, text)
    called = []
    (program,) = re.findall(r"^result = (argosy\.train\(.*\))$", page, re.MULTILINE)
    eval(program, {"argosy": Called(called)})
    ((algorithm, task, changes),) = called
    command = re.search(rf"^argosy (train {name} .*)$", text, re.MULTILINE)[1]
    assert [name, task] == [algorithm, command.split()[3]]
    by_flags, *_ = read_flags(command.split()[1:], Output, "train")
    assert preset(algorithm, task, **changes) == by_flags
    for field in dataclasses.fields(algorithm_class(name).config_type):
        assert re.search(rf"^\| `{field.name}[`.]", page, re.MULTILINE), field.name
    curves = re.findall(r"!\[.*\]\((.*\.png)\)", page)
    shown = [json.loads((docs.CURVES / curve).with_suffix(".json").read_text())["algorithm"] for curve in curves]
    made = [file for file in docs.CURVES.glob("*.json") if json.loads(file.read_text())["algorithm"] == name]
    assert shown == [name] * len(made)
    assert [made_by(command) for command in re.findall(r"^python (.*)$", page, re.MULTILINE)] == curves


def made_by(command):
    """The picture that a command of benchmarks/learning makes."""
    file, algorithm, task, *flags = shlex.split(command)
    source = (ROOT / file).read_text(encoding="utf-8")
    assert all(f'"{flag}"' in source for flag in flags[::2])
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    return (
        f"{'-'.join([task.replace('/', '-').replace(':', '-'), algorithm, *filter(None, [given.get('--label')])])}.png"
    )


class Called:
    """Notes what `train` is called with."""

    def __init__(self, calls):
        self.calls = calls

    def train(self, algorithm, task, **changes):
        self.calls.append((algorithm, task, changes))


def test_ratios_come_second_in_wide_tables():
    text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    heads = re.findall(r"^\| (?:row|task) \|.*", docs.on_page_markdown(text), re.MULTILINE)
    seconds = [head.split("|")[2].strip() for head in heads]
    assert {"ratios (must reach)", "best of the others / argosy"} <= set(seconds)
    pages = (text, docs.on_page_markdown(text))
    before, after = (re.search(r"^.*DQN update.*$", page, re.MULTILINE)[0] for page in pages)
    assert sorted(before.split("|")) == sorted(after.split("|"))


def test_the_search_finds_names_within_dots_and_brackets():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    (search,) = (plugin["search"] for plugin in config["plugins"] if "search" in plugin)
    words = re.split(search["separator"], "argosy.distributed.FleetRun, 'early_stop(tests=5)'")
    assert {"FleetRun", "early_stop", "tests", "distributed"} <= set(words)


ASKED = {  # what a row of the decision table says of a task, and what then must hold of the algorithms that it names
    "discrete actions": lambda cls: Discrete in cls.action_spaces,
    "continuous actions": lambda cls: Box in cls.action_spaces,
    "discrete parts": lambda cls: MultiDiscrete in cls.action_spaces,
    "steps are cheap": lambda cls: cls.kind == "onpolicy",
    "steps are expensive": lambda cls: cls.kind == "offpolicy",
    "only data": lambda cls: cls.kind == "offline",
    "data first": lambda cls: cls.kind == "offline",
    "an expert that can be asked": lambda cls: cls.needs_expert,
}


@pytest.mark.parametrize("words", ASKED)
def test_the_decision_table_names_what_the_table_of_algorithms_allows(words):
    page = (ROOT / "docs/guide/choosing.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and words in line.split("|")[1]]
    names = re.findall(r"algorithms/(\w+)\.md", "".join(rows))
    assert names
    assert [name for name in names if not ASKED[words](algorithm_class(name))] == []


def test_the_evidence_is_that_of_the_benchmarks():
    table = docs.evidence()
    assert re.search(r"^\| \[DQN\].*CartPole-v1: 5 of 5", table, re.MULTILINE)
    assert len(table.splitlines()) == len(ALGORITHMS) + 2
    rows = docs.by_actions().splitlines()
    assert "[PPO]" in rows[2].split("|")[2]
    assert "[DQN]" in rows[2].split("|")[3]
    assert "[BC]" in rows[2].split("|")[4]


def test_defaults_are_those_of_the_configs():
    assert re.search(r"\| `gamma` \| .* \| .*PPO 0.99", docs.settings_of_algorithms())
    assert re.search(r"\| `buffer.priority.alpha` \| .* \| 0 \|", docs.settings_of_experiments())


def test_the_guide_s_table_says_of_every_algorithm_when_to_take_it():
    guide = docs.on_page_markdown((ROOT / "docs/guide/algorithms.md").read_text(encoding="utf-8"))
    rows = dict(re.findall(r"^\| \[\w+\]\(../algorithms/(\w+)\.md\) \| (.*) \|$", guide, re.MULTILINE))
    assert list(rows) == list(ALGORITHMS)
    assert rows["dqn"].startswith("discrete | off-policy | yes | actions are discrete and steps are expensive")
    assert rows["psrl"].startswith("discrete | on-policy | no | states and actions are few and numbered")
    assert rows["branching_dqn"].startswith("multi-discrete, continuous | off-policy | yes |")
    assert sum(not row.endswith("| ") for row in rows.values()) >= 30
