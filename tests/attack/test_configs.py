"""Damaged and made-up descriptions of runs: named errors, no code imported, bounded time."""

import copy
import json
import sys

import numpy as np
import pytest
from gymnasium import spaces
from tally import none_raw, tally

from argosy.env.plain import space_to_plain
from argosy.errors import ArgosyError
from argosy.experiment import Experiment
from argosy.logger import read_jsonl
from argosy.presets import preset
from argosy.run.saved import read_spaces

VALUES = [
    None, True, -1, 0, 2**70, -(2**70), 1e308, float("nan"), float("inf"), "", "x" * 10_000, "\x00", "a:b", "os:abort",
    [], {}, [[]], {"": {}}, [None] * 100, {"a": 1}, "../../x", "1e999", {"__class__": "x"}, ["os:abort"],
]  # fmt: skip


def places(tree, path=()):
    """Every key and index of nested containers."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(tree, rng):
    """Nested containers in which some values are others, gone or new."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 4))):
        paths = list(places(tree))
        if not paths:
            break
        path = paths[int(rng.integers(len(paths)))]
        node = tree
        for key in path[:-1]:
            node = node[key]
        match int(rng.integers(4)):
            case 0:
                del node[path[-1]]
            case 1 if isinstance(node, dict):
                node[str(rng.choice(["name", "config", "lr", "__init__", "net.x", ""]))] = 3
            case _:
                node[path[-1]] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    return tree


def made_up_experiments(count, seed, folder):
    """Read so many descriptions of runs, each changed in a few places; nothing they name is imported."""
    rng, path = np.random.default_rng(seed), folder / "config.json"
    tasks = {"dqn": "CartPole-v1", "ppo": "CartPole-v1", "sac": "Pendulum-v1"}
    whole = [preset(name, task).to_dict() for name, task in tasks.items()]

    def reads():
        for number in range(count):
            text = json.dumps(changed(whole[number % 3], rng))
            if rng.random() < 0.2:
                at = int(rng.integers(len(text)))
                text = text[:at] + str(rng.choice(["[", "}", '"', "\\u12", "9" * 5000, "[" * 5000])) + text[at:]
            path.write_text(text)
            yield lambda: Experiment.load(path)

    return tally(reads(), ArgosyError, limit_s=5.0)


@pytest.mark.parametrize(("seed", "count"), [(0, 300), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_a_made_up_experiment_is_named(tmp_path, seed, count):
    modules = set(sys.modules)
    counts = made_up_experiments(count, seed, tmp_path)
    assert none_raw(counts), counts
    assert counts["refused"] > count // 3
    assert "antigravity" not in set(sys.modules) - modules


@pytest.mark.parametrize("text", ["", "null", "3", "[]", "{}", "[" * 100_000, '{"task": 3}', "\x00", "{" * 1000])
def test_what_is_no_experiment_is_named(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ArgosyError):
        Experiment.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgosyError):
        Experiment.load(path)


def made_up_spaces(count, seed, folder):
    """Read so many descriptions of spaces, each changed in a few places."""
    rng = np.random.default_rng(seed)
    whole = space_to_plain(
        spaces.Dict({"a": spaces.Box(-1, 1, (3,)), "b": spaces.Discrete(4), "c": spaces.MultiDiscrete([2, 3])})
    )

    def reads():
        for _ in range(count):
            made = {"observation_space": changed(whole, rng), "action_space": changed(whole, rng), "own": None}
            (folder / "policy.json").write_text(json.dumps(changed(made, rng)))
            yield lambda: read_spaces(folder)

    return tally(reads(), ArgosyError)


@pytest.mark.parametrize(("seed", "count"), [(0, 500), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_made_up_spaces_are_named(tmp_path, seed, count):
    counts = made_up_spaces(count, seed, tmp_path)
    assert none_raw(counts), counts


def damaged_metrics(count, seed, folder):
    """Read so many files of metrics with a bit flipped and cut short: as far as they are whole."""
    rng, path = np.random.default_rng(seed), folder / "metrics.jsonl"
    whole = "\n".join(json.dumps({"env_step": i, "x": 1.0}) for i in range(20)).encode()

    def read():
        rows = read_jsonl(path)
        assert all(isinstance(row, dict) for row in rows)
        assert all(isinstance(row["env_step"], int | float | None) for row in rows)

    def reads():
        for _ in range(count):
            data = bytearray(whole)
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(data[: int(rng.integers(1, len(data)))])
            yield read

    return tally(reads(), ArgosyError)


@pytest.mark.parametrize(("seed", "count"), [(0, 300), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_damaged_metrics_are_read_as_far_as_they_are_whole(tmp_path, seed, count):
    counts = damaged_metrics(count, seed, tmp_path)
    assert none_raw(counts), counts
