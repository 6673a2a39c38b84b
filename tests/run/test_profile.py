"""Profiles: every part is found by names that are there, times add up to the run's, and the picture is a picture."""

import importlib
import inspect
import json
import re
import signal
import threading
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from short import quick

import argosy
from argosy.cli import main
from argosy.errors import ConfigError
from argosy.run.profile import FLAME, PARTS, PROFILE, Node, flame, parts_of, profile_table, profiled

ROOT = Path(argosy.__file__).parent


@pytest.fixture
def no_alarm():
    """Take the timer from whoever ends tests that hang, and give it back."""
    left, again = signal.setitimer(signal.ITIMER_REAL, 0.0)
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, left, again)


def test_the_functions_by_which_parts_are_known_are_there():
    for places in PARTS.values():
        for place, names in places.items():
            files = sorted(ROOT.glob(f"{place}*.py" if place.endswith("/") else f"{place}.py"))
            modules = [importlib.import_module(f"argosy.{file.relative_to(ROOT).with_suffix('')}".replace("/", "."))
                       for file in files]  # fmt: skip
            owned = {name for module in modules for _, cls in inspect.getmembers(module, inspect.isclass)
                     if cls.__module__ == module.__name__ for name in vars(cls)}  # fmt: skip
            assert modules
            assert set(names) <= owned, place


@pytest.mark.parametrize(
    ("algorithm", "changes", "parts"),
    [
        ("dqn", {}, {"test", "acting", "update"}),
        ("ppo", {"trainer": {"max_epoch": 2, "step_per_epoch": 600, "step_per_collect": 300, "episode_per_test": 2}},
         {"test", "acting", "update"}),
        ("dqn", {"env": {"num_envs": 2, "test_num_envs": 2, "vector": "subproc"}}, {"waiting", "update"}),
    ],
)  # fmt: skip
def test_a_run_s_parts_add_up_to_its_time(tmp_path, no_alarm, monkeypatch, algorithm, changes, parts):
    monkeypatch.setattr("argosy.run.profile._EVERY_S", 0.001)  # the run is short
    began = time.perf_counter()
    result = quick(tmp_path, algorithm, profile=True, **changes)
    elapsed = time.perf_counter() - began
    found = json.loads((Path(result.run_dir) / PROFILE).read_text())
    assert {part for part, seconds in found.items() if seconds > 0} >= parts
    assert 0.8 * result.wall_s < sum(found.values()) < elapsed
    picture = ElementTree.fromstring((Path(result.run_dir) / FLAME).read_text())
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert any("BaseTrainer._update" in title for title in titles)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_time_goes_to_the_function_that_spends_it_also_in_c(tmp_path, no_alarm):
    with profiled(tmp_path):
        time.sleep(0.3)
        argosy.preset("dqn", "CartPole-v1")
    assert json.loads((tmp_path / PROFILE).read_text())["other"] >= 0.3
    assert "picture" in profile_table(tmp_path)


def test_what_is_waited_for_in_an_environment_s_step_is_told_apart():
    def code(file, name):
        source = compile(f"def {name}(): pass", str(ROOT / file), "exec")
        return next(const for const in source.co_consts if hasattr(const, "co_name"))

    step, recv = code("env/vector/base.py", "step"), code("env/worker/process.py", "recv")
    test, update = code("trainer/base.py", "_test"), code("trainer/base.py", "_update")
    mine = code("../mine.py", "update")
    tree = Node()
    for stack in [(mine, step), (step, recv), (test, step, recv), (update, mine), (mine,)]:
        tree.add(stack, 1.0 + tree.seconds)
    found = parts_of(tree)
    assert {part: seconds for part, seconds in found.items() if seconds} == {
        "other": 16.0, "update": 8.0, "test": 4.0, "waiting": 2.0, "env": 1.0,
    }  # fmt: skip
    assert list(found)[:2] == ["other", "update"]
    bars = re.findall(r"<title>(\w+) [^<]*: (\d+)\.00 s, ", flame(tree))
    assert " ".join(map("".join, bars)) == "_test4 step4 recv4 _update8 update8 step2 recv2 update17 step1"


def test_where_there_is_no_timer_it_says_so(tmp_path, no_alarm, capsys):
    signal.setitimer(signal.ITIMER_REAL, 100.0)
    with pytest.raises(ConfigError, match="SIGALRM"), profiled(tmp_path):
        pass
    said = []

    def try_it():
        with pytest.raises(ConfigError, match="main thread"), profiled(tmp_path):
            pass
        said.append(True)

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    assert said
    assert main(["train", "dqn", "--task", "CartPole-v1", "--profile", "--seeds", "0-1"]) == 2
    assert "leave out --seeds" in capsys.readouterr().err
