import contextlib
import dataclasses
import importlib.util
import json
import re
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import argosy
from argosy.data.datasets import convert, open_source

LEARNING = Path(__file__).resolve().parents[2] / "benchmarks" / "learning"


def load(name):
    spec = importlib.util.spec_from_file_location(name, LEARNING / f"{name.removeprefix('benchmark_learning_')}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run, from_data, beside = load("run"), load("from_data"), load("beside")  # by the names that others of them import
games = load("benchmark_learning_games")
beside_sb3 = load("benchmark_learning_beside_sb3")


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
        ["| T-v0", "a", "2 of 2 (-3)", "700 updates, 900 steps"],
    ]


def test_published_numbers_stand_beside_the_best_point_of_the_mean_test_curve(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "PUBLISHED", tmp_path / "published.json")
    published = {"T-v0": {"a": [5.0, 1.0], "b": [7.0, 2.0], "c": [8.0, 3.0, 3_000_000]}, "U-v0": {"a": [9.0, 1.0]}}
    run.PUBLISHED.write_text(json.dumps(published))
    curves = [[[0, 0.0], [500_000, 4.0], [1_000_000, 2.0]], [[0, 0.0], [500_000, 10.0], [1_000_000, 3.0]]]
    for name, steps in (("T-v0-a", 1_000_000), ("T-v0-b", 999_999), ("T-v0-c", 1_000_000)):  # b did not go so far
        seeds = [{"test_curve": curve, "env_steps": steps} for curve in curves]
        (tmp_path / f"{name}.json").write_text(json.dumps({"seeds": seeds}))
    assert run.beside_published()[2:] == [
        "| T-v0 | a | 5.0 ± 1.0 | 7.0 ± 3.0 (2) | 500,000 |",
        "| T-v0 | c | 8.0 ± 3.0 in 3,000,000 steps | 7.0 ± 3.0 (2) | 500,000 |",
    ]


def test_a_seed_that_stands_in_the_results_with_the_same_settings_is_not_made_again(tmp_path, monkeypatch):
    for field, value in {"RESULTS": tmp_path, "RUNS": tmp_path / "runs", "DOC": tmp_path / "doc.md"}.items():
        monkeypatch.setattr(run, field, value)
    run.DOC.write_text(f"{run.BEGIN}{run.END}{run.PUBLISHED_BEGIN}{run.PUBLISHED_END}")
    preset = argosy.preset("dqn", "CartPole-v1")
    settings = json.loads(json.dumps(run.described(preset.replaced({"seed": 7, "threads": 1}))))
    curves = {"device": "cpu", "test_curve": [[5, 9.0], [9, 500.0]], "training_curve": []}
    seeds = [{**json.loads(result())["seeds"][0], **curves, "seed": seed} for seed in (1, 2)]
    path = tmp_path / "CartPole-v1-dqn.json"
    path.write_text(json.dumps({"experiment": settings, "seeds": seeds, "machine": "another one"}))
    for count in ("2", "1"):
        assert run.main(["dqn", "CartPole-v1", "--seeds", count]) == 0
        kept = json.loads(path.read_text())["seeds"]
        assert [(seed["seed"], seed["machine"]) for seed in kept] == [(1, "another one"), (2, "another one")]
    assert not run.RUNS.exists()
    assert run.standing(path, preset).keys() == {1, 2}
    assert run.standing(path, preset.replaced({"gamma": 0.5})) == {}
    del settings["config"]["gamma"]  # of a result that is older than the setting
    path.write_text(json.dumps({"experiment": settings, "seeds": seeds}))
    assert run.standing(path, preset).keys() == {1, 2}
    settings["config"]["gone"] = 1
    path.write_text(json.dumps({"experiment": settings, "seeds": seeds}))
    assert run.standing(path, preset) == {}


def test_a_seed_that_learned_from_other_data_is_made_again(tmp_path):
    data, path = tmp_path / "T" / "expert.hdf5", tmp_path / "1.json"
    data.parent.mkdir()
    data.write_bytes(b"transitions")
    preset = run.wanted("bc", "CartPole-v1", {"data": str(data)})
    made = {"experiment": json.loads(json.dumps(run.described(preset))), "seeds": [{"seed": 1}]}
    for known, seeds in ((run.digest(data), {1}), (None, set())):
        path.write_text(json.dumps({**made, "data_sha256": known}))
        assert run.standing(path, preset).keys() == seeds
    path.write_text(json.dumps({**made, "data_sha256": run.digest(data)}))
    data.write_bytes(b"others")
    assert run.standing(path, preset) == {}


def test_what_was_interrupted_gets_into_no_table(tmp_path):
    short = {"trainer.max_epoch": 1, "trainer.step_per_epoch": 500, "trainer.start_steps": 100}
    result = argosy.train("dqn", "CartPole-v1", runs=tmp_path, show_progress=False, **short)
    made = run.finished(result)
    assert made["env_steps"] == result.env_steps
    assert made["final_return_mean"] == made["test_return_mean"]  # of one test, which is both
    assert made["commit"] is None or re.fullmatch(r"[0-9a-f]{7,}(-dirty)?", made["commit"])
    with pytest.raises(SystemExit, match="was interrupted; the same command goes on"):
        run.finished(dataclasses.replace(result, interrupted=True))


@pytest.mark.parametrize(
    ("seed", "final"),
    [
        ({"final_return_mean": 3.0, "test_curve": [[1, 5.0], [2, 4.0]]}, 3.0),
        ({"test_curve": [[1, 5.0], [2, 4.0]]}, 4.0),
        ({"final_return_mean": None, "test_curve": [[1, 4.0], [2, 5.0]]}, 9.0),
        ({"test_curve": [[1, 5.0], [2, 5.0]]}, 5.0),  # the best version is the first of equals
        ({"test_curve": []}, 9.0),
    ],
)
def test_the_final_policy_is_the_last_one_not_the_best(seed, final):
    assert run.final_return({"test_return_mean": 9.0, **seed}) == final


def test_a_seed_has_passed_that_reached_all_bars_in_time():
    seed = {"test_return_mean": -2.0, "test_success_rate": 0.96, "env_steps": 900}
    assert run.passed(seed, None, None)
    assert run.passed(seed, -2.0, 900, 0.96)
    assert not run.passed(seed, -1.9, 900, 0.95)
    assert not run.passed(seed, -2.5, 899, 0.95)
    assert not run.passed(seed, -2.5, 900, 0.97)


def row(algorithm, task, **changes):
    """A result of run.py, without having run it."""
    seeds = [{"seed": seed, "env_steps": 2000, "updates": 900, "test_return_mean": seed} for seed in (1.0, 3.0)]
    experiment = argosy.preset(algorithm, task, **changes).to_dict()
    return {"algorithm": algorithm, "task": task, "label": "mixed", "experiment": experiment, "seeds": seeds}


def test_d3rlpy_gets_the_settings_of_the_row():
    asked = beside.wanted(row("iql", "Hopper-v5", data="mixed.hdf5"))
    assert (asked["updates"], asked["actor_schedule"], "actor_updates" in asked) == (900, "linear", False)
    assert beside.wanted(row("td3_bc", "Hopper-v5", data="mixed.hdf5"))["actor_updates"] == 450  # every second one
    assert "actor_schedule" not in beside.wanted(row("awac", "Pendulum-v1", data="mixed.hdf5"))
    temperatures = {
        task: beside.wanted(row("cql", task, data="mixed.hdf5"))["settings"]["temp_learning_rate"]
        for task in ("Hopper-v5", "Pendulum-v1")
    }
    assert temperatures == {"Hopper-v5": 3e-4, "Pendulum-v1": 0.0}  # learned, and fixed
    asked = beside.wanted(row("discrete_bcq", "CartPole-v1", data="expert.hdf5"))
    assert asked["settings"] == {
        "gamma": 0.99,
        "learning_rate": 1e-3,
        "target_update_interval": 100,
        "action_flexibility": 0.3,
        "beta": 0.01,
    }
    assert "quantiles" not in asked
    asked = beside.wanted(row("discrete_cql", "CartPole-v1", data="expert.hdf5"))
    assert (asked["quantiles"], asked["settings"]["alpha"]) == (50, 10.0)


def test_an_expert_plays_the_episodes_in_which_d3rlpy_is_judged(monkeypatch):
    class Leaning:
        def predict(self, obs):
            return (obs[:, 2] > 0).astype(np.int64), None

    monkeypatch.setattr(beside, "EPISODES", 3)
    monkeypatch.setattr(argosy, "load", lambda agent: Leaning())
    lengths = []
    with contextlib.closing(gym.make("CartPole-v1")) as env:
        for seed in (200_000, 200_001, 200_002):
            (obs, _), steps, is_over = env.reset(seed=seed), 0, False
            while not is_over:
                obs, _, terminated, truncated, _ = env.step(int(obs[2] > 0))
                steps, is_over = steps + 1, terminated or truncated
            lengths.append(steps)
    assert len(set(lengths)) > 1  # some are over before others
    assert beside.expert_return(Path("expert.zip"), "CartPole-v1", 2) == pytest.approx(np.mean(lengths))


def test_sb3_gets_the_settings_of_the_row():
    asked = beside_sb3.wanted(row("sac", "Pendulum-v1"))
    assert (asked["steps"], asked["every"], asked["hidden"], asked["episodes"]) == (2000, 1000, [64, 64], 100)
    settings = {"learning_rate", "gamma", "tau", "batch_size", "learning_starts", "buffer_size", "train_freq"}
    assert asked["settings"].keys() == settings | {"gradient_steps", "ent_coef"}
    assert asked["settings"]["ent_coef"] == "auto_0.2"
    assert beside_sb3.wanted(row("sac", "Pendulum-v1", auto_alpha=False))["settings"]["ent_coef"] == "0.2"
    assert beside_sb3.wanted(row("td3", "Pendulum-v1"))["settings"]["noise_std"] == 0.1
    with pytest.raises(SystemExit, match="one optimiser for actor and critics"):
        beside_sb3.wanted(row("td3", "Pendulum-v1", **{"actor_optim.lr": 0.5}))


@pytest.mark.parametrize(
    ("peer", "name", "args"),
    [
        (beside, "Pendulum-v1-rebrac-mixed", ["--algorithms", "rebrac", "--labels", "mixed", "expert"]),
        (beside_sb3, "Pendulum-v1-td3", ["--algorithms", "td3", "sac", "--task", "Pendulum-v1"]),
    ],
)
def test_a_peer_learns_what_is_missing_and_what_was_made_with_other_settings(tmp_path, monkeypatch, peer, name, args):
    made = []

    def learn(*asked):
        made.append(asked)
        return {"return_mean": -5.0, "train_s": 1.0}

    for field, value in {"RESULTS": tmp_path, "FOUND": tmp_path / "found.json", "DOC": tmp_path / "doc.md"}.items():
        monkeypatch.setattr(peer, field, value)
    monkeypatch.setattr(peer, "learn", learn)
    monkeypatch.setattr(beside, "expert_return", lambda agent, task, seed: -4.0)
    peer.DOC.write_text(f"before {peer.BEGIN}old{peer.END} behind")
    monkeypatch.setattr(peer, "HERE", tmp_path)
    data = tmp_path / "runs" / "data" / "Pendulum-v1" / "mixed.hdf5"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"transitions")
    algorithm = name.split("-")[2]
    longer = {"updates": 901, "env_steps": 3000}
    for gamma, change, seeds, count in ((0.9, {}, 1, 1), (0.9, {}, 2, 2), (0.8, {}, 2, 4), (0.8, longer, 2, 6)):
        ours = row(algorithm, "Pendulum-v1", gamma=gamma)
        ours["experiment"]["data"] = "Pendulum-v1/mixed.hdf5"
        ours["data_sha256"] = run.digest(data)
        for seed in ours["seeds"]:
            seed.update(change)
        if gamma == 0.8:
            ours["expert"] = "runs/data/Pendulum-v1/expert.zip"
            ours["seeds"][0]["expert_return"], ours["seeds"][1]["expert_return"] = 2.0, 1.5
        (tmp_path / f"{name}.json").write_text(json.dumps(ours))
        assert peer.main([*args, "--seeds", str(seeds)]) == 0
        assert len(made) == count
    text = peer.DOC.read_text()
    assert "2.00 (1.00 to 3.00) (2) | -5.00 (-5.00 to -5.00) (2) |" in text
    if peer is beside:  # of experts with 2 and 1.5, and with -4
        assert "| 125.0 (50.0 to 200.0) | 75.0 (75.0 to 75.0) |" in text
    assert text.startswith("before ")
    assert text.endswith(" behind")


def test_games_are_averaged_from_their_lowest_to_their_highest_score(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "DOC", tmp_path / "doc.md")
    monkeypatch.setattr(games, "PICTURE", tmp_path / "minatar.png")
    run.DOC.write_text(f"before {games.BEGIN}old{games.END} behind")
    games.write_doc()
    assert "old" in run.DOC.read_text()  # nothing has been run
    for algorithm, returns in {"dqn": [0.0, 5.0], "iqn": [10.0, 10.0], "fqf": [0.0, 0.0]}.items():
        for game in games.GAMES[: 4 if algorithm == "fqf" else 5]:  # FQF has not played all of them
            seeds = [{"test_return_mean": value, "wall_s": 60.0} for value in returns]
            (tmp_path / f"MinAtar-{game}-v1-{algorithm}.json").write_text(json.dumps({"seeds": seeds}))
    games.main([])
    text = run.DOC.read_text()
    # DQN's ten scores are 0 and 0.5: with two or fewer of 0.5, as 5 % of the resamples have, the middle six are all 0
    assert [line.split(" | ") for line in text.splitlines() if line.startswith(("| dqn", "| iqn", "| fqf"))] == [
        ["| dqn", "2", *["2.5"] * 5, "0.25 (0.00 to 0.50)", "", "60 |"],
        ["| iqn", "2", *["10.0"] * 5, "1.00 (1.00 to 1.00)", "1.00", "60 |"],
    ]
    assert text.endswith(" behind")
    assert games.PICTURE.stat().st_size > 10_000


def learned(algorithm, label, finals, experts=(), task="T-v0", **changes):
    seeds = [{"updates": 2000, "final_return_mean": final, "test_return_mean": final + 10} for final in finals]
    for seed, expert in zip(seeds, experts, strict=False):
        seed["expert_return"] = expert
    share = 0.95 if experts else None
    return {"task": task, "algorithm": algorithm, "label": label, "expert_share": share, "seeds": seeds, **changes}


def test_who_learned_from_an_expert_is_counted_beside_it():
    rows = [
        learned("a", "expert", [90.0, 101.0], [100.0, 100.0]),
        learned("b", "expert-20k", [-152.0, -153.0], [-145.0, -145.0]),  # the bar is -152.25
        learned("b", "expert-ppo-1m-2k", [20.0, 90.0, 91.0, 92.0], [100.0] * 4),
        learned("c", "expert-raw", [90.0], [100.0]),  # not the preset
        learned("d", "mixed", [90.0]),
    ]
    _, _, *lines = from_data.experts(rows)
    assert lines == [
        "| T-v0 | expert | a | 2,000 | 1 of 2 | 90, 101 | 95.5 | 2 of 2 |",
        "| T-v0 | expert | b | 2,000 | 1 of 2 | 95, 94 | 94.8 | 2 of 2 |",
        "| T-v0 | expert-ppo-1m | b | 2,000 | 0 of 4 | 20, 90, 91, 92 | 90.5 | 3 of 4 |",
    ]


def test_who_learned_from_mixed_data_stands_beside_cloning_and_the_data(monkeypatch):
    monkeypatch.setattr(from_data, "BEHAVIOUR", {"T-v0": 15.0})
    finals = {"a": [30.0, 31.0], "b": [20.0, 30.0], "bc": [10.0, 20.0], "c": [1.0, 2.0], "d": [40.0]}
    rows = [learned(name, "mixed", values) for name, values in finals.items()]
    _, _, *lines = from_data.mixed([*rows, learned("bc", "mixed", [1.0], task="U-v0")])
    assert [line.split(" | ")[4:] for line in lines] == [
        ["", "they touch |"],
        ["above", "above |"],
        ["they touch", "above |"],
        ["below", "below |"],
        ["one seed", "one seed |"],
    ]
    assert lines[0].startswith("| T-v0 | bc | 2,000 | 15.0 (10.0 to 20.0) (2) |")


def test_the_tables_of_what_was_learned_from_data_are_up_to_date():
    text = run.DOC.read_text(encoding="utf-8")
    rows = [json.loads(path.read_text()) for path in sorted(run.RESULTS.glob("*.json"))]
    for lines in (from_data.experts(rows), from_data.mixed(rows)):
        assert "\n".join(lines) in text, "run: python benchmarks/learning/from_data.py"


def test_kept_agents_make_data_of_every_stage(tmp_path, monkeypatch):
    make = load("data/make")
    monkeypatch.setattr(make, "DATA", tmp_path)
    agent = LEARNING.parents[1] / "agents" / "pendulum-td3.zip"
    assert make.main(["Pendulum-v1", "--agents", str(agent), str(agent), "--eps", "0.6", "--steps", "4000"]) == 0
    files = [tmp_path / "Pendulum-v1" / f"{name}.hdf5" for name in ("expert", "medium", "mixed")]
    expert, medium, mixed = map(make.read_attributes, files)
    assert [found["episodes"] for found in (expert, medium, mixed)] == [20, 20, 20]
    assert expert["return_mean"] == medium["return_mean"]
    assert mixed["return_mean"] < expert["return_mean"] - 100.0  # half of it is with random actions
    assert (tmp_path / "Pendulum-v1" / "expert.zip").read_bytes() == agent.read_bytes()
    assert [run.digest(file) for file in files] == [expert["recipe"]] * 3
    with open_source(files[2]) as source:
        convert(source, tmp_path / "converted.hdf5")
    assert run.digest(tmp_path / "converted.hdf5") != mixed["recipe"]


def test_the_last_agent_makes_noisy_data_of_several_sizes_or_one_file_without_noise(tmp_path, monkeypatch):
    make = load("data/make")
    monkeypatch.setattr(make, "DATA", tmp_path)
    agent = LEARNING.parents[1] / "agents" / "pendulum-td3.zip"
    assert make.main(["Pendulum-v1", "--agents", str(agent), "--noisy", "2000", "400"]) == 0
    folder = tmp_path / "Pendulum-v1"
    assert sorted(file.name for file in folder.iterdir()) == ["noisy-2000.hdf5", "noisy-400.hdf5"]
    large, small = (make.read_attributes(folder / f"noisy-{steps}.hdf5") for steps in (2000, 400))
    assert (large["episodes"], small["episodes"]) == (10, 2)
    assert large["recipe"] != small["recipe"]
    assert make.main(["Pendulum-v1", "--agents", str(agent), "--only", "expert-td3", "--steps", "400"]) == 0
    assert (folder / "expert-td3.zip").read_bytes() == agent.read_bytes()
    alone = make.read_attributes(folder / "expert-td3.hdf5")
    assert (alone["episodes"], alone["eps"]) == (2, 0.0)
    assert make.main(["Pendulum-v1", "--agents", str(agent), "--only", "drawn", "--steps", "400", "--explore"]) == 0
    drawn = make.read_attributes(folder / "drawn.hdf5")
    assert drawn["explore"]
    assert len({found["recipe"] for found in (large, small, alone, drawn)}) == 4
    for wrong in (["--explore"], ["--noisy", "400", "--only", "both"]):
        with pytest.raises(SystemExit):
            make.main(["Pendulum-v1", "--agents", str(agent), *wrong])
