"""What a fleet notes has the names that it has in a local run."""

import argosy
from argosy.distributed import EvalGroup, EvalResult, Fleet, FleetRun, FleetStop, PolicySpec, Snapshot, ThreadLauncher
from argosy.distributed.snapshot import is_due, logged
from argosy.logger import read_jsonl

LEARNT = ("loss/", "stat/")


def keys(file):
    return {key for row in read_jsonl(file) for key in row}


def test_a_fleet_of_one_policy_notes_what_a_local_run_does(tmp_path):
    trainer = {"max_epoch": 1, "step_per_epoch": 1024, "step_per_collect": 256, "episode_per_test": 2}
    experiment = argosy.preset("ppo", "CartPole-v1", net={"hidden_sizes": (16,)}, trainer=trainer, stop={"episodes": 2})
    local = argosy.train(experiment, runs=tmp_path / "runs", show_progress=False)
    stop = FleetStop(wall_s=60)
    fleet = Fleet(
        name="one", policies={"p": PolicySpec(experiment=experiment)}, stop=stop, evaluation=EvalGroup(episodes=2)
    )
    with FleetRun(fleet, tmp_path / "one", ThreadLauncher(), interval_s=0.1) as run:
        for snapshot in run:
            if snapshot.evaluations and snapshot.updates["p"]:
                break
    alone, together = keys(f"{local.run_dir}/metrics.jsonl"), keys(tmp_path / "one" / "metrics.jsonl")
    learnt = [{key for key in one if key.startswith(LEARNT)} for one in (alone, together)]
    assert learnt[0] == learnt[1] != set()
    shared = {
        "env_step",
        "gradient_step",
        "time/steps_per_s",
        "episode/return_mean",
        "test/return_mean",
        "test/return_std",
    }
    assert {*shared, "test/length_mean", "test/count"} <= alone & together


def test_names_of_several_begin_with_the_policy_s_and_each_test_is_noted_once():
    result = EvalResult(policy="b", version=3, return_mean=7.0, return_std=1.0, length_mean=9.0, episodes=5, time=0.0)
    snapshot = Snapshot(
        wall_s=1.0, steps_per_s=2.0, updates_per_s=3.0, env_steps={"a": 10, "b": 20}, updates={}, gradient_steps={},
        evaluations={"b": result},
        workers={"trainer.a.0": {"state": "running", "restarts": 1, "loss/total": 0.5, "return_mean": 4.0,
                                 "wait_s": 6.0},
                 "trainer.a.1": {"restarts": 0, "loss/total": 0.6}},
    )  # fmt: skip
    first = logged(snapshot, ("a", "b"), [])
    assert first == {
        "time/steps_per_s": 2.0, "time/updates_per_s": 3.0, "a/env_step": 10, "b/env_step": 20,
        "a/loss/total": 0.5, "a/episode/return_mean": 4.0, "trainer.a.0/wait_s": 6.0, "trainer.a.0/restarts": 1,
        "trainer.a.1/loss/total": 0.6, "trainer.a.1/restarts": 0,
        "b/test/return_mean": 7.0, "b/test/return_std": 1.0, "b/test/length_mean": 9.0, "b/test/version": 3,
        "b/test/count": 5,
    }  # fmt: skip
    assert not any("test/" in key for key in logged(snapshot, ("a", "b"), [result]))


def test_the_record_of_a_long_run_grows_slowly():
    """A row a second for half an hour, some thousands a day, and each evaluation."""
    none = {name: {} for name in ("env_steps", "updates", "gradient_steps", "workers")}
    result = EvalResult(policy="p", version=1, return_mean=1.0, return_std=0.0, length_mean=1.0, episodes=1, time=0.0)
    rows, logged_s = [], 0.0
    for second in range(1, 86_400):
        if is_due(Snapshot(wall_s=float(second), evaluations={"p": result}, **none), logged_s, [result]):
            logged_s = float(second)
            rows.append(second)
    assert rows[:2000] == list(range(1, 2001))
    assert len(rows) < 10_000
    assert is_due(Snapshot(wall_s=86_400.5, evaluations={"p": result}, **none), 86_400.0, [])
    assert is_due(Snapshot(wall_s=86_400.5, evaluations={}, done=True, **none), 86_400.0, [])


def test_what_is_no_number_is_null_in_the_status():
    """NaN is no JSON, and `jq` and browsers refuse it."""
    none = {name: {} for name in ("env_steps", "updates", "gradient_steps", "evaluations")}
    snapshot = Snapshot(wall_s=1.0, workers={"trainer.p.0": {"return_mean": float("nan")}}, **none)
    assert '"return_mean": null' in snapshot.to_json()
