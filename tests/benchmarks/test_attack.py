import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parents[2] / "benchmarks" / "attack"
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "attack")]
results, run, soak = (importlib.import_module(name) for name in ("results", "run", "soak"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", run.ATTACKS)
def test_an_attack_is_a_function_that_counts_what_its_row_tells(name):
    attack = run.ATTACKS[name]
    assert callable(attack.function())
    assert attack.zero


def test_the_page_says_what_the_results_say():
    text = run.DOC.read_text()
    assert text.split(run.BEGIN)[1].split(run.END)[0].strip().splitlines() == run.table()


def test_what_is_missing_is_run_in_parts_and_added_up(folder, monkeypatch, capsys):
    seeds = []

    def attack(count, seed, scratch):
        assert scratch.is_dir()
        seeds.append(seed)
        return {"tried": count, "accepted": int(seed == 2), "left": 3}

    made = run.Attack("t", 5, "fake_attack:attack", ("accepted",), ("left",), part=2)
    monkeypatch.setitem(sys.modules, "fake_attack", type(sys)("fake_attack"))
    sys.modules["fake_attack"].attack = attack
    monkeypatch.setattr(run, "ATTACKS", {"fake": made})
    monkeypatch.setattr(run, "DOC", folder / "page.md")
    run.DOC.write_text(f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n")

    assert run.main(["--only", "fake", "--count", "2"]) == 0
    assert run.missing("fake", made) == 3
    assert run.main([]) == 1  # the third part lets something through
    assert seeds == [0, 1, 2]
    assert run.missing("fake", made) == 0
    assert "what must not happen has happened: fake" in capsys.readouterr().err
    text = run.DOC.read_text()
    assert "| t | 5 | 5 files | 1 accepted | 9 left |" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert run.main(["--list"]) == 1
    assert seeds == [0, 1, 2]
    assert results.read("fake")[0]["tried"] == 2


def test_results_of_another_table_of_algorithms_do_not_count(folder, monkeypatch):
    made = run.Attack("t", 60, "m:f", ("different",), ("algorithms",))
    monkeypatch.setattr(run, "ALGORITHMS", ["a", "b"])
    results.add("rows", {"tried": 30, "rows": 70, "algorithms": 1}, seed=0, seconds=1.0)
    assert (run.done("rows", made), run.goal("rows", made), run.missing("rows", made)) == (30, 70, 60)
    for seed in (0, 1):
        results.add("rows", {"tried": 20, "rows": 80, "algorithms": 2}, seed=seed, seconds=1.0)
    assert (run.done("rows", made), run.goal("rows", made), run.missing("rows", made)) == (40, 80, 40)
    assert run.summed("rows", made)["algorithms"] == 2


def test_a_curve_grows_after_the_warm_up_or_is_flat():
    hours = np.linspace(0.0, 2.0, 240)
    noise = np.random.default_rng(0).normal(size=240)
    warm = 500 * np.minimum(hours / 0.4, 1.0)

    def samples(memory, files):
        rows = zip(hours.tolist(), memory.tolist(), files.tolist(), strict=True)
        return [{"hours": hour, "memory_mb": mb, "files": count} for hour, mb, count in rows]

    flat = samples(500 + warm + noise, np.full(240, 80.0) + (np.arange(240) % 7 == 0))
    assert abs(soak.grown(flat, "memory_mb")) < soak.BOUNDS["memory_mb"]
    assert abs(soak.grown(flat, "files")) < soak.BOUNDS["files"]
    leaking = samples(500 + warm + noise + 50 * hours, np.floor(80 + 3 * hours))
    assert soak.grown(leaking, "memory_mb") == pytest.approx(50 / 1060, rel=0.05)
    assert soak.grown(leaking, "files") > soak.BOUNDS["files"]


def test_a_soak_is_sampled_and_leaves_nothing(folder, monkeypatch):
    monkeypatch.setattr(soak, "RESULTS", folder)
    monkeypatch.setattr(soak, "INTERVAL_S", 0.2)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(soak, "start", lambda kind, where: subprocess.Popen(command, start_new_session=True))
    soak.soak("local", 1 / 3600)
    counts = soak.gather("local")
    assert counts["left"] == 0
    assert counts["tried"] >= 1 / 3600
    rows = [json.loads(line) for line in soak.samples_path("local").read_text().splitlines()]
    assert len(rows) >= 4
    assert all(row["processes"] == 1 and row["memory_mb"] > 1 for row in rows[:-1])
    assert rows[-1]["ended"] == "by us"
    assert (folder / "soak_local.png").stat().st_size > 1000
