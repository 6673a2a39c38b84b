import io

from argosy.cli.fleetview import Screen, clock, fitting, view
from argosy.distributed.snapshot import Snapshot


def snapshot(wall_s, steps, waited, **changes):
    workers = {
        "parameters": {"state": "running", "restarts": 0, "pid": 1, "node": "n", "pushes": 3.0, "reads": 6.0},
        "trainer.p.0": {
            "state": "running", "restarts": 1, "pid": 2, "node": "n", "updates": steps / 100, "update_s": 0.9 * wall_s,
            "wait_s": 0.1 * wall_s, "queue": 2.0, "lag_mean": 1.5, "return_mean": 20.25, "version": 7.0, "dropped": 4.0,
        },
        "policy.p.0": {"state": "running", "restarts": 0, "pid": 3, "node": "n", "rows": 8.0 * steps, "batches": steps},
        "actor.0": {"state": "running", "restarts": 0, "pid": 4, "node": "n", "steps": steps, "wait_samples_s": waited},
        "actor.1": {"state": "starting", "restarts": 0},
    }  # fmt: skip
    values = {"env_steps": {"p": 1000}, "updates": {"p": 10}, "gradient_steps": {"p": 10}, "evaluations": {}}
    return Snapshot(wall_s=wall_s, steps_per_s=50.0, updates_per_s=0.5, workers=workers, **{**values, **changes})


def test_rates_and_shares_are_of_the_time_since_the_last_view():
    lines = view("fleet f", snapshot(20.0, 1500.0, 6.0), snapshot(10.0, 1000.0, 1.0), env_steps=2000)
    assert lines[0] == "fleet f   0:00:20   running"
    assert lines[1] == "50 steps/s   0.5 updates/s   nobody waits   restarts 1"
    (policy,) = (line for line in lines if line.startswith("p "))
    assert policy.split() == ["p", "1,000", "of", "2,000", "10", "20.2", "-", "7", "1.5", "2"]
    by_name = {line.split()[0]: line for line in lines if line}
    assert by_name["actor.0"].endswith("50 steps/s  waits to send 50%")
    assert by_name["actor.1"].split() == ["actor.1", "starting", "0"]
    assert by_name["trainer.p.0"].endswith("0.5 updates/s  learns 90%  waits 10%  dropped 4")
    assert by_name["policy.p.0"].endswith("400 rows/s  8.0 rows per batch")
    assert by_name["parameters"].endswith("3 pushes  6 reads")


def test_environments_that_failed_are_counted():
    seen = snapshot(10.0, 1000.0, 1.0)
    seen.workers["actor.0"]["env_failures"] = 3.0
    seen.workers["eval.0"] = {"state": "running", "restarts": 0, "pid": 4, "node": "n", "env_failures": 2.0}
    lines = view("f", seen)
    assert lines[1].endswith("   restarts 1   env failures 5")
    assert lines[-1].endswith("steps  env failures 2")


def test_a_view_says_why_a_fleet_is_done():
    assert view("f", snapshot(3700.0, 10.0, 0.0, done=True, reason="asked to stop"))[0] == "f   1:01:40   asked to stop"


def test_a_screen_writes_over_its_own_lines_only():
    stream = io.StringIO()
    screen = Screen(stream)
    screen.show(["one", "two"])
    assert stream.getvalue() == "one\x1b[K\ntwo\x1b[K\n\x1b[J"
    screen.show(["three"])
    assert stream.getvalue().endswith("\x1b[2Fthree\x1b[K\n\x1b[J")


def test_lines_that_do_not_fit_are_counted():
    assert fitting(["a", "b"], 2) == ["a", "b"]
    assert fitting(["a", "b", "c"], 2) == ["a", "... and 2 more lines; make the window higher to see them"]
    assert clock(59.9) == "0:00:59"
