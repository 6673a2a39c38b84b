"""The wall time to a bar: our side of each task runs, and the table says what was measured."""

import dataclasses
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "walltime"


@pytest.fixture
def walltime(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import walltime

    yield walltime
    for name in ("walltime", "walltime_ours"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["dqn", "ppo", "sac", "td3"])
def test_our_side_trains_and_is_tested(walltime, monkeypatch, name):
    short = dataclasses.replace(walltime.TASKS[name], every=1_040 if name != "ppo" else 2_048, most=1)
    monkeypatch.setitem(walltime.TASKS, name, short)
    monkeypatch.setattr(walltime, "EPISODES", 2)
    found = walltime.measured("ours", name, 1)
    assert found["steps"] == short.every
    assert found["seconds"] > 0
    assert not found["there"]


def test_the_table_has_medians_of_those_that_got_there(walltime, monkeypatch, tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{walltime.BEGIN}\nold\n{walltime.END}\nafter\n")
    monkeypatch.setattr(walltime, "DOC", page)
    run = {"steps": 10_000, "return": 500.0, "there": True}
    found = {f"dqn ours {seed}": {**run, "seconds": float(seed)} for seed in (1, 2, 3)}
    found |= {f"dqn sb3 {seed}": {**run, "seconds": 3.0 * seed, "there": seed < 3} for seed in (1, 2, 3)}
    walltime.write_table(found)
    text = page.read_text()
    assert "| dqn CartPole-v1, 475 | 2.0 (10,000) | 4.5 (10,000, 1 of 3 not there) |  | 2.25 |" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
