import importlib.util
import json
import sys
from pathlib import Path

LEARNING = Path(__file__).resolve().parents[2] / "benchmarks" / "learning"


def load():
    spec = importlib.util.spec_from_file_location("benchmark_learning_run", LEARNING / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run = load()


def result(**changes):
    seed = {"seed": 1, "env_steps": 900, "updates": 700, "wall_s": 3.0, "test_return_mean": -2.0, "passed": True}
    summary = {"task": "T-v0", "algorithm": "a", "bar": None, "max_steps": 1000, "experiment": {}}
    return json.dumps({**summary, **changes, "seeds": [seed, seed]})


def test_the_table_has_a_line_per_result_and_says_what_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "DOC", tmp_path / "doc.md")
    marks = f"{run.BEGIN}old{run.END} between {run.PUBLISHED_BEGIN}{run.PUBLISHED_END}"
    run.DOC.write_text(f"before {marks} behind")
    (tmp_path / "1.json").write_text(result())
    (tmp_path / "2.json").write_text(result(bar=-3.0, label="l"))
    (tmp_path / "3.json").write_text(result(success=0.95, bar=-2.5))
    (tmp_path / "4.json").write_text(result(bar=-3.0, experiment={"data": "f.hdf5"}))
    run.write_doc()
    text = run.DOC.read_text()
    assert text.startswith("before ")
    assert text.endswith(" behind")
    assert [line.split(" | ")[:4] for line in text.splitlines() if line.startswith("| T")] == [
        ["| T-v0", "a", "no bar", "900 (900)"],
        ["| T-v0 (l)", "a", "2 of 2 (-3 within 1,000 steps)", "900 (900)"],
        ["| T-v0", "a", "2 of 2 (-2.5 and success 0.95 within 1,000 steps)", "900 (900)"],
        ["| T-v0", "a", "2 of 2 (-3)", "700 updates"],
    ]


def test_published_numbers_stand_beside_the_best_point_of_the_mean_test_curve(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "PUBLISHED", tmp_path / "published.json")
    run.PUBLISHED.write_text(json.dumps({"T-v0": {"a": [5.0, 1.0], "b": [7.0, 2.0]}, "U-v0": {"a": [9.0, 1.0]}}))
    curves = [[[0, 0.0], [500_000, 4.0], [1_000_000, 2.0]], [[0, 0.0], [500_000, 10.0], [1_000_000, 3.0]]]
    for name, steps in (("T-v0-a", 1_000_000), ("T-v0-b", 999_999)):  # the latter did not go so far
        seeds = [{"test_curve": curve, "env_steps": steps} for curve in curves]
        (tmp_path / f"{name}.json").write_text(json.dumps({"seeds": seeds}))
    assert run.beside_published()[2:] == ["| T-v0 | a | 5.0 ± 1.0 | 7.0 ± 3.0 (2) | 500,000 |"]


def test_a_seed_has_passed_that_reached_all_bars_in_time():
    seed = {"test_return_mean": -2.0, "test_success_rate": 0.96, "env_steps": 900}
    assert run.passed(seed, None, None)
    assert run.passed(seed, -2.0, 900, 0.96)
    assert not run.passed(seed, -1.9, 900, 0.95)
    assert not run.passed(seed, -2.5, 899, 0.95)
    assert not run.passed(seed, -2.5, 900, 0.97)
