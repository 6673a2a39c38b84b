import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


sys.path.insert(0, str(BENCHMARKS))  # rows import what they share from there, as when they run as scripts


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


speed, row = load("speed"), load("row")
TINY = {
    "train_ppo_cartpole": 1024,
    "train_sac_halfcheetah": 2,
    "update_ppo": 2,
    "update_ppg": 2,
    "update_spo": 2,
    "update_ppo_large": 1,
    "update_dqn_large": 2,
    "update_gail": 2,
    "update_decision_transformer": 2,
}
AT_ONCE = {"step_async": 8, "collect_pong_async": 8}  # envs that may come together: the last of them can be too many
LIBRARIES = {
    "collect_pong": "envpool",
    "train_sac_halfcheetah": "mujoco",
    "product_sac": "mujoco",
    "product_td3": "mujoco",
}


@pytest.mark.parametrize("name", [r.name for r in speed.ROWS])
def test_ours_and_the_floor_do_the_same_work(name, monkeypatch):
    monkeypatch.setattr("argosy.env.tasks.yield_cpu", lambda: None)  # beside other tests it would starve
    monkeypatch.setattr("recorded.TRANSITIONS", 1_600)
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    count = TINY.get(name, 4 if name.startswith("update_") else 16)
    ours = row.find("ours", name)(0)(count)
    unit, units = next(iter(ours.items()))  # the first fact is the number of units that the rate is made of
    assert count <= units < count + AT_ONCE.get(name, 1)
    if (floor := row.find("floor", name)) is not None:
        assert {**ours, unit: count} == floor(0)(count)


def test_episodes_of_the_collecting_row_are_of_one_length_on_both_sides():
    ours, floor = (row.find(side, "collect_cartpole")(0)(8_000)["episodes"] for side in ("ours", "floor"))
    assert ours == pytest.approx(floor, rel=0.5)  # a reset costs several steps: with short ones it measures resets


def test_a_side_without_the_row_is_none():
    assert row.find("ours", "no_such_row") is None


def test_a_row_runs_as_a_process_and_prints_its_time():
    command = [sys.executable, str(BENCHMARKS / "row.py"), "floor", "sample_uniform", "--count", "3"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    assert answer["facts"]["samples"] == 3
    assert answer["wall_s"] > 0
    assert answer["cpu_s"] > 0


def result(**rates):
    made = speed.Row(name="r", title="t", unit="u", count=1, warmup=0, floor=0.8, peer=("tianshou", 2.0), at_least=50.0)
    return speed.Result(made, rates)


def test_ratios_are_medians_of_ratios_within_a_repeat():
    # repeats at 1x, 10x and 1x the machine's speed: ours is 0.9, 0.5 and 0.8 of the floor
    seen = result(ours=[90.0, 500.0, 80.0], floor=[100.0, 1000.0, 100.0])
    assert seen.ratio("floor") == pytest.approx(0.8)
    assert seen.ratio("sb3") is None


def test_the_faster_peer_counts():
    seen = result(ours=[90.0], floor=[100.0], tianshou1=[30.0], tianshou2=[60.0], sb3=[80.0])
    assert seen.peer() == "tianshou2"
    assert [check[1] for check in seen.checks()] == [pytest.approx(0.9), pytest.approx(1.5), 90.0]
    assert seen.verdict() == "FAIL"


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ({"ours": [90.0], "floor": [100.0], "tianshou1": [30.0]}, "pass"),
        ({"ours": [90.0], "floor": [100.0]}, "-"),
        ({"ours": [70.0], "floor": [100.0]}, "FAIL"),
        ({"ours": [40.0], "floor": [50.0], "tianshou1": [10.0]}, "FAIL"),
    ],
)
def test_verdict(rates, verdict):
    assert result(**rates).verdict() == verdict


def test_the_table_goes_between_the_markers(tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{speed.BEGIN}\nold\n{speed.END}\nafter\n")
    speed.write_doc(speed.table([result(ours=[90.0], floor=[100.0], tianshou1=[30.0])]), page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert (
        "| t | u | 90 | 100 | 30 | 0.90 of the floor (0.8), 3.00 x Tianshou 1.0.0 (2), 90.00 u/s (50) | pass |" in text
    )


def test_rows_that_are_not_measured_again_stay(tmp_path):
    first, second = speed.ROWS[:2]
    kept = tmp_path / "speed.json"
    speed.keep([speed.Result(first, {"ours": [1.0]}), speed.Result(second, {"ours": [2.0]})], kept)
    results = speed.keep([speed.Result(first, {"ours": [3.0], "floor": [1.5]})], kept)
    assert [(r.row.name, r.rates["ours"]) for r in results] == [(first.name, [3.0]), (second.name, [2.0])]
    assert results[0].ratio("floor") == 2.0


def test_the_machine_is_not_named():
    import platform

    assert platform.node() not in speed.machine()
    assert "/" not in speed.machine().replace("w/", "")
