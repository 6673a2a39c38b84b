import functools
import os
import signal
import time
from concurrent.futures import Future

import numpy as np
import pytest
from small_workers import Counter

from argosy.distributed.host.base import Beat, PeerLostError, Resources, ThreadLauncher, resolved
from argosy.distributed.host.supervisor import FleetError, RestartConfig, Role, Supervisor
from argosy.errors import ConfigError

# What the supervisor does by itself: on Ray it is looked at by `make test-all`
seldom_on_ray = pytest.mark.parametrize(
    "launcher", ["threads", pytest.param("ray", marks=pytest.mark.slow)], indirect=True
)
FAST = RestartConfig(budget=2, backoff_s=0.05, beat_s=0.05, watchdog_s=1.0)


def role(name, group="", **kwargs):
    return Role(name, functools.partial(Counter, **kwargs), Resources(num_cpus=0.1), group)


def until(supervisor, condition, timeout_s=120.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, (supervisor.states(), supervisor.failures)
        supervisor.poll()
        time.sleep(0.01)


@pytest.fixture
def supervise(launcher):
    made = []

    def make(*roles, config=FAST):
        made.append(Supervisor(launcher, roles, config))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.stop(1.0)


def running(supervisor):
    return lambda: set(supervisor.states().values()) == {"running"}


def test_calls_reach_workers_by_name(supervise, launcher):
    supervisor = supervise(role("a"), role("b"))
    until(supervisor, running(supervisor))
    peer = launcher.connect("a")
    assert peer.call("add", 2, 3).result(5) == 5
    assert peer.call("later", 41).result(5) == 42  # answered by a later poll
    assert peer.call("ask", "b").result(5) == 2  # a worker asks a worker
    with pytest.raises(KeyError, match="planted"):
        peer.call("fail").result(5)
    with pytest.raises(PeerLostError):
        launcher.connect("nobody").call("add", 1, 2).result(5)
    shared = peer.call("shared", np.arange(200_000)).result(5)
    np.testing.assert_array_equal(shared().result(30), np.arange(200_000))
    until(supervisor, lambda: supervisor.beats()["a"].stats["polls"] > 3)


def test_worker_that_raises_is_restarted_and_its_traceback_kept(supervise, launcher):
    supervisor = supervise(role("a", raise_at=3))
    until(supervisor, lambda: supervisor.restarts()["a"] == 1)
    until(supervisor, running(supervisor))
    assert launcher.connect("a").call("incarnation").result(5) == 1
    (failure,) = supervisor.failures
    assert failure.reason == "raised ZeroDivisionError: a planted fault"
    assert "small_workers.py" in failure.traceback


def test_workers_of_a_group_are_restarted_together():
    """That costs only who failed a part of its budget: "b" is started twice with "a", and may still fail itself."""
    faults = role("a", "pair", raise_at=1, in_incarnations=(0, 1)), role("b", "pair", raise_at=3, in_incarnations=(2,))
    supervisor = Supervisor(ThreadLauncher(), [*faults, role("c")], FAST)
    until(supervisor, lambda: supervisor.restarts() == {"a": 3, "b": 3, "c": 0})
    until(supervisor, running(supervisor))
    assert [failure.role for failure in supervisor.failures] == ["a", "a", "b"]
    supervisor.stop()
    last = Supervisor(ThreadLauncher(), [*faults, role("c")], RestartConfig(budget=0, beat_s=0.05))
    with pytest.raises(FleetError):
        until(last, lambda: False)
    assert [last.states()[name] for name in "ab"] == ["stopped", "stopped"]  # nobody waits for who does not come back
    last.stop()


def test_hanging_worker_is_found_by_the_watchdog(supervise, launcher):
    supervisor = supervise(role("a", hang_at=2))
    until(supervisor, lambda: supervisor.restarts()["a"] == 1)
    until(supervisor, running(supervisor))
    (failure,) = supervisor.failures
    assert failure.reason.startswith("hangs for")
    assert failure.reason.endswith("s (restart.watchdog_s)")
    assert "time.sleep(1000)" in failure.traceback


@seldom_on_ray
def test_budget_ends_in_an_error_with_the_traceback(supervise):
    supervisor = supervise(role("a", raise_at=1, in_incarnations=range(100)))
    with pytest.raises(FleetError, match="restarted 2 times") as caught:
        until(supervisor, lambda: False)
    assert "a planted fault" in str(caught.value)
    assert len(supervisor.failures) == 3


def test_an_error_of_several_lines_is_known_by_its_name(supervise):
    """A ConfigError ends it at once: no restart would help."""
    supervisor = supervise(
        role("a", raise_at=1, error=ConfigError("lr is -1;\ngive one above 0"), in_incarnations=range(9))
    )
    with pytest.raises(FleetError, match=r"raised argosy\.errors\.ConfigError: lr is -1;; no restart would help"):
        until(supervisor, lambda: False)
    assert len(supervisor.failures) == 1


@seldom_on_ray
def test_done_worker_still_answers(supervise, launcher):
    supervisor = supervise(role("a", done_at=2))
    until(supervisor, lambda: supervisor.states()["a"] == "done")
    assert launcher.connect("a").call("add", 1, 1).result(5) == 2


def test_killed_process_is_replaced(ray_launcher):
    supervisor = Supervisor(ray_launcher, [role("victim")], FAST)
    peer = ray_launcher.connect("victim")
    try:
        until(supervisor, running(supervisor))
        first = peer.call("pid").result(5)
        os.kill(first, signal.SIGKILL)
        until(supervisor, lambda: supervisor.restarts()["victim"] == 1)
        until(supervisor, running(supervisor))
        with pytest.raises(PeerLostError):
            peer.call("pid").result(5)  # still meant for the dead one; says so
        assert peer.call("pid").result(5) != first
        second = peer.call("pid").result(5)
    finally:
        supervisor.stop(1.0)
    with pytest.raises(PeerLostError):
        peer.call("pid").result(5)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{second}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{second}")


class Dying:
    """A launcher whose workers are dead when they are first asked how they are."""

    def __init__(self):
        self.starts = []

    def start(self, name, incarnation, build, resources):
        self.starts.append(time.monotonic())
        return self

    def beat(self):
        answer = Future()
        answer.set_exception(PeerLostError("dead"))
        return answer

    def kill(self, timeout_s=0.0):
        pass

    def nodes(self):
        return None


def test_pauses_between_restarts_grow_and_old_restarts_are_forgotten():
    launcher = Dying()
    config = RestartConfig(budget=4, failed_starts=99, backoff_s=0.05, max_backoff_s=0.2, window_s=30.0)
    supervisor = Supervisor(launcher, [role("a")], config)
    with pytest.raises(FleetError, match="restarted 4 times within 30 s"):
        until(supervisor, lambda: False)
    pauses = np.diff(launcher.starts)
    assert len(pauses) == 4
    assert all(pauses >= [0.05, 0.1, 0.2, 0.2])
    assert supervisor.states() == {"a": "stopped"}  # it is not tried again while the others are stopped
    supervisor.poll()
    assert len(launcher.starts) == 5

    patient = Supervisor(Dying(), [role("a")], RestartConfig(budget=1, failed_starts=99, backoff_s=0.05, window_s=0.01))
    until(patient, lambda: patient.restarts()["a"] == 5)  # never more than one within the window


class Stopped(Dying):
    """A launcher whose worker is in one poll all the time, and answers when it is let."""

    answers = True

    def beat(self):
        if not self.answers:
            return Future()
        busy_s = time.monotonic() - self.starts[-1]
        return resolved(Beat(pid=1, node="", ready=True, done=False, busy_s=busy_s, stats={}))

    def stack(self):
        return resolved("")


@pytest.mark.parametrize("silent", [False, True])
def test_time_in_which_all_were_suspended_counts_for_nothing(silent, monkeypatch):
    launcher, now = Stopped(), 0.0
    monkeypatch.setattr("argosy.distributed.host.supervisor.time.monotonic", lambda: now)
    supervisor = Supervisor(launcher, [role("a")], RestartConfig(watchdog_s=10.0, silence_s=10.0))

    def watch(seconds):
        nonlocal now
        for _ in range(int(seconds / 0.1)):
            supervisor.poll()
            now += 0.1

    watch(3.0)
    launcher.answers = not silent
    watch(1.0)
    now += 1000.0
    watch(3.0)
    now += 500.0
    watch(1.0)
    assert supervisor.states() == {"a": "running"}
    assert supervisor.suspended_s == pytest.approx(1500.0, abs=1.0)
    supervisor.pause()
    now += 100.0  # who polls was busy with something else
    watch(1.0)
    (failure,) = supervisor.failures
    assert failure.reason.endswith("(restart.silence_s)" if silent else "(restart.watchdog_s)")


@seldom_on_ray
def test_worker_that_cannot_say_how_it_is_is_restarted(supervise):
    supervisor = supervise(role("a", bad_stats=True))
    until(supervisor, lambda: supervisor.restarts()["a"] == 1)
    until(supervisor, running(supervisor))
    (failure,) = supervisor.failures
    assert failure.reason == "raised RuntimeError: deque mutated during iteration"
    assert "in stats" in failure.traceback


def test_stopping_goes_on_when_one_hangs(supervise, launcher):
    supervisor = supervise(role("a"), role("b", hang_at=1), config=RestartConfig(beat_s=0.05))
    until(supervisor, running(supervisor))
    start = time.monotonic()
    supervisor.stop(0.5)
    assert time.monotonic() - start < 5.0
    assert set(supervisor.states().values()) == {"stopped"}
    with pytest.raises(PeerLostError):
        launcher.connect("a").call("add", 1, 1).result(5)


def test_workers_stop_side_by_side(supervise, launcher):
    supervisor = supervise(*(role(f"slow.{index}", close_s=1.5) for index in range(3)))
    until(supervisor, running(supervisor))
    start = time.monotonic()
    supervisor.stop(5.0)
    assert 1.5 <= time.monotonic() - start < 3.0  # one after another it takes 4.5


def test_stopped_threads_end():
    launcher = ThreadLauncher()
    supervisor = Supervisor(launcher, [role("a")], FAST)
    until(supervisor, running(supervisor))
    supervisor.stop()
    with pytest.raises(PeerLostError):
        launcher.connect("a").call("add", 1, 1).result()


def test_config_is_checked():
    with pytest.raises(ConfigError, match=r"RestartConfig\.budget is -1"):
        RestartConfig(budget=-1)


def test_starts_that_fail_one_after_the_other_end_it_however_slow_they_are():
    """Each takes so long that the budget's window forgets the one before."""
    slow = RestartConfig(budget=2, window_s=0.05, backoff_s=0.1, beat_s=0.02, failed_starts=4)
    supervisor = Supervisor(ThreadLauncher(), [Role("a", Unbuilt())], slow)
    with pytest.raises(
        FleetError, match=r"4 starts in a row have failed, more are not allowed \(restart.failed_starts"
    ):
        until(supervisor, lambda: False)
    assert len(supervisor.failures) == 4


class Unbuilt:
    """Does not start, but for some times."""

    def __init__(self, starts=()):
        self.starts = starts

    def __call__(self, context):
        if context.incarnation not in self.starts:
            raise OSError("no such library")
        return Counter(context, raise_at=60, in_incarnations=self.starts)


def test_a_start_that_succeeds_begins_the_count_anew():
    config = RestartConfig(budget=100, backoff_s=0.01, max_backoff_s=0.01, beat_s=0.02, failed_starts=3)
    supervisor = Supervisor(ThreadLauncher(), [Role("a", Unbuilt(starts=(2, 5)))], config)
    with pytest.raises(FleetError, match="3 starts in a row"):
        until(supervisor, lambda: False)
    assert [failure.reason.split()[1] for failure in supervisor.failures] == [
        *["OSError:"] * 2, "ZeroDivisionError:", *["OSError:"] * 2, "ZeroDivisionError:", *["OSError:"] * 3
    ]  # fmt: skip


class Nowhere(ThreadLauncher):
    """Nodes that hold nothing but CPUs; who asks for more is never heard of."""

    def nodes(self):
        return [{"CPU": 2.0}]

    def start(self, name, incarnation, build, resources):
        handle = super().start(name, incarnation, build, resources)
        return Silent(handle) if resources.custom else handle


class Silent:
    def __init__(self, handle):
        self.stop, self.kill, self.stack = handle.stop, handle.kill, handle.stack

    def beat(self):
        return Future()


def test_who_waits_for_a_node_in_vain_is_named_with_what_it_asks_for(monkeypatch):
    monkeypatch.setattr("argosy.distributed.host.supervisor._PLACED_S", 0.1)
    lacking = Role("b", Counter, Resources(num_cpus=1.0, custom={"fast_disk": 1.0}))
    config = RestartConfig(start_s=1.0, failed_starts=2, beat_s=0.02, backoff_s=0.01)
    supervisor = Supervisor(Nowhere(), [role("a"), lacking], config)
    supervisor.poll()
    assert supervisor.unplaced() == ""
    sentence = "worker 'b' asks for 1 CPU, 1 fast_disk, and no node has as much; there are 2 CPU"
    until(supervisor, supervisor.unplaced, 5.0)
    assert supervisor.unplaced() == sentence
    with pytest.raises(
        FleetError,
        match=rf"gave no sign of life for 1 s \(restart.start_s\); 2 starts in a row have failed.*{sentence}",
    ):
        until(supervisor, lambda: False)


def test_stacks_say_where_each_worker_is(supervise, launcher):
    supervisor = supervise(role("a"), role("b", hang_at=2), config=RestartConfig(beat_s=0.05))
    until(supervisor, lambda: supervisor.beats().keys() == {"a", "b"} and supervisor.beats()["b"].stats["polls"] == 2)
    stacks = supervisor.stacks()
    assert "time.sleep(1000)" in stacks["b"]
    assert "small_workers.py" in stacks["b"]
    assert "time.sleep(1000)" not in stacks["a"]
