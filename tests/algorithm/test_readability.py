"""Numbers that keep algorithms readable."""

import collections
import inspect
import sys
import threading
from pathlib import Path

import pytest

import argosy
from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.algorithm import base as algorithm_base
from argosy.presets import preset

PACKAGE = Path(algorithm_base.__file__).parents[1]

# Files and lines that a reader opens to follow a training step from the trainer to the gradient, all rooms but env,
# logger and the containers of data. These bounds only go down.
WAYS = {"ppo": (16, 3940), "dqn": (16, 3940)}


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


def is_on_the_way(path):
    room, *rest = path.relative_to(PACKAGE).parts
    return room not in ("env", "logger") and (room != "data" or rest[0] == "buffer")


@pytest.mark.parametrize("name", WAYS)
def test_the_way_of_a_training_step_is_short(name, monkeypatch):
    """Found by running it: an epoch of one step, every file of the package that a call enters."""
    steps = {"trainer.step_per_epoch": 2048}
    if algorithm_class(name).kind == "offpolicy":
        steps = {"trainer.step_per_epoch": 256, "trainer.start_steps": 0}
    trainer = argosy.build(preset(name, "CartPole-v1", seed=1, **{"trainer.max_epoch": 1, **steps}))
    entered = collections.Counter()

    def look(frame, event, arg):
        if event == "call":
            entered[frame.f_code.co_filename] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        next(trainer)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    way = [path for file in entered if PACKAGE in (path := Path(file)).parents and is_on_the_way(path)]
    assert {PACKAGE / f"algorithm/{name}.py", PACKAGE / "algorithm/optim.py"} <= set(way)
    files, total = WAYS[name]
    assert len(way) <= files, sorted(str(path.relative_to(PACKAGE)) for path in way)
    assert sum(map(lines, way)) <= total
