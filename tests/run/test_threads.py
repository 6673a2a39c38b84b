import json

import pytest
import torch
from short import quick

import argosy
from argosy.presets import preset
from argosy.run import threads
from argosy.run.build import build
from argosy.run.folder import RunFolder
from argosy.run.threads import fastest_threads, threads_of


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of four cores on which layers of more than 100 columns gain from two threads, and none from four."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(threads, "num_cores", lambda: 4)
    asked = []

    def seconds(layers):
        asked.append(torch.get_num_threads())
        return {1: 1.0, 2: 0.6 if max(weight.shape[-1] for _, weight in layers) > 100 else 1.5, 4: 0.58}[asked[-1]]

    monkeypatch.setattr(threads, "_seconds", seconds)
    return asked


def algorithm_of(hidden, name="dqn", **changes):
    trainer = build(preset(name, "CartPole-v1", net={"hidden_sizes": (hidden,)}, **changes))
    trainer.test_collector.env.close()
    trainer.train_collector.env.close()
    return trainer.algorithm


def test_large_networks_take_as_many_threads_as_are_worth_it_small_ones_one(machine):
    before = torch.get_num_threads()
    assert fastest_threads(algorithm_of(128), 64) == 2
    assert set(machine) == {1, 2, 4}
    assert fastest_threads(algorithm_of(8), 64) == 4  # 0.58 of one thread's time, and two take longer
    assert torch.get_num_threads() == before


def test_it_is_measured_once(machine, tmp_path):
    big = algorithm_of(128)
    fastest_threads(big, 64)
    asked = len(machine)
    fastest_threads(algorithm_of(128), 64)
    assert len(machine) == asked
    fastest_threads(big, 65)
    assert len(machine) == 2 * asked
    file = tmp_path / "cache" / "argosy" / "threads.json"
    file.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text()), 3)))
    assert fastest_threads(big, 64) == 3
    for damaged in ("", "[]", json.dumps(dict.fromkeys(json.loads(file.read_text()), "2"))):
        file.write_text(damaged)
        assert fastest_threads(big, 64) == 2


def test_who_says_how_many_is_obeyed(machine, monkeypatch):
    algorithm = algorithm_of(128)
    assert threads_of(preset("dqn", "CartPole-v1", threads=3), algorithm) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert fastest_threads(algorithm, 64) == 0
    assert machine == []


@pytest.mark.parametrize(("name", "changes", "rows"), [("dqn", {"trainer": {"batch_size": 32}}, 32), ("ppo", {}, 64)])
def test_it_is_measured_on_the_runs_minibatches(machine, monkeypatch, name, changes, rows):
    seen = []
    monkeypatch.setattr(threads, "fastest_threads", lambda algorithm, rows: seen.append(rows) or 1)
    experiment = preset(name, "CartPole-v1", threads=0, **changes)
    assert threads_of(experiment, algorithm_of(16, name)) == 1
    assert seen == [rows]


def test_a_run_keeps_its_threads(machine, tmp_path, monkeypatch):
    made = quick(tmp_path, threads=0, net={"hidden_sizes": (128,)})
    assert RunFolder.find(made.run_dir).experiment().threads == 2
    monkeypatch.setattr(threads, "_measured", lambda *_: 1 / 0)
    argosy.resume(made.run_dir, total_steps=800, show_progress=False)


def test_a_real_measurement_needs_about_a_second(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(threads, "num_cores", lambda: 2)
    assert fastest_threads(algorithm_of(16), 64) in (1, 2)
