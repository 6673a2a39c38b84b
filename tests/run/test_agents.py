"""The agents that come with the code: small, each as good as its card says, made by the command that is named there."""

import re
import shlex
import zipfile
from pathlib import Path

import pytest

import argosy
from argosy import cli

FOLDER = Path(__file__).parents[2] / "agents"
AGENTS = sorted(FOLDER.glob("*.zip"))
LIST = (FOLDER / "README.md").read_text(encoding="utf-8")
MADE_BY = dict(re.findall(r"^\| `([\w-]+\.zip)` \| `argosy (.*)` \|$", LIST, re.MULTILINE))


def test_each_stands_in_the_list():
    assert [agent.name for agent in AGENTS] == sorted(MADE_BY)
    assert len(AGENTS) == 3


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.stem)
def test_it_is_as_good_as_its_card_says(agent):
    assert agent.stat().st_size < 300_000
    with zipfile.ZipFile(agent) as packed:
        card = packed.read("README.md").decode()
    low = float(re.search(r"95 % interval (-?[\d.]+) to", card)[1])
    mean = float(re.search(r"mean return (-?[\d.]+) over 100 episodes", card)[1])
    returns = argosy.evaluate(agent, episodes=20, seed=11).returns
    # Twenty other episodes: their mean lies within three of its own standard errors of the card's
    assert returns.mean() >= min(low, mean - 3 * returns.std() / len(returns) ** 0.5)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.stem)
def test_it_is_of_the_preset_that_the_list_names(agent, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr("argosy.cli.train.run_and_report", lambda experiment, *_: asked.append(experiment) or 0)
    assert cli.main(shlex.split(MADE_BY[agent.name])) == 0
    with zipfile.ZipFile(agent) as packed:
        experiment = argosy.Experiment.load(packed.extract("config.json", tmp_path))
    assert experiment.replaced({"threads": asked[0].threads}) == asked[0]
