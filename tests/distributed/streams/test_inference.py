"""One contract for all inference streams: inline, shared memory, calls; the last two over threads and over Ray."""

import functools
import os
import signal
import time
from concurrent.futures import Future

import numpy as np
import pytest
import torch
from policies import OBS, Server, Store, SumPolicy, inline

from argosy.data import NamedArray
from argosy.distributed.host.base import PeerLostError, Resources, ThreadLauncher, end, resolved
from argosy.distributed.streams.inference import ParameterReader, Remote
from argosy.distributed.streams.shared_memory import Shared
from argosy.errors import ConfigError
from argosy.policy import RolloutRequest
from argosy.trainer.blob import encode

STREAMS = {"inline": inline, "calls": Remote, "shared memory": Shared}
KINDS = [
    ("inline", "threads"),
    ("calls", "threads"),
    ("shared memory", "threads"),
    ("calls", "ray"),
    ("shared memory", "ray"),
]


def request(obs, total=None, on_reset=None, evaluation=None):
    n = len(obs)
    return RolloutRequest(
        obs=np.asarray(obs, np.float32)[:, None],
        policy_state=NamedArray(total=np.zeros((n, 1), np.float32) if total is None else total),
        on_reset=np.full(n, total is None) if on_reset is None else np.asarray(on_reset),
        is_evaluation=evaluation,
    )


def asked(stream, question, timeout_s=20):
    stream.post(question)
    return stream.reply(timeout_s)


@pytest.fixture
def serve(request):
    handles = []

    def start(where, count=1, build=Server, names=None):
        launcher = ThreadLauncher() if where == "threads" else request.getfixturevalue("ray_launcher")
        names = names or [f"server.{i}" for i in range(count)]
        started = [launcher.start(name, 0, build, Resources(num_cpus=0.1)) for name in names]
        handles.extend(started)
        for handle in started:
            while not handle.beat().result(180).ready:
                time.sleep(0.01)
        return [launcher.connect(name) for name in names]

    yield start
    end(handles, 1.0)


@pytest.mark.parametrize(("kind", "where"), KINDS)
def test_contract(kind, where, serve):
    """State is carried from answer to question, by value; flags hold row by row; answers come to who asked."""
    peers = [] if kind == "inline" else serve(where)
    first, second = STREAMS[kind](peers), STREAMS[kind](peers)

    first.post(request([1.0, 2.0, 3.0]))
    second.post(request([50.0], evaluation=np.array([True])))
    reply, other = first.reply(20), second.reply(20)
    assert reply.result.action.tolist() == [1, 2, 3]
    assert reply.version == -1
    assert other.result.action.tolist() == [0]  # evaluates, though others in its batch explore
    assert other.result.policy_state.total.tolist() == [[50.0]]

    total = reply.result.policy_state.total
    for step in range(2, 5):
        reply = asked(first, request([1.0, 2.0, 3.0], total, on_reset=[False, False, step == 3]))
        total = reply.result.policy_state.total
    # row 2 began anew in the third step: 3 + 3
    assert total[:, 0].tolist() == [4.0, 8.0, 6.0]
    assert reply.result.action.tolist() == [4, 8, 6]
    big = np.arange(100_000, dtype=np.float32) % 7
    np.testing.assert_array_equal(asked(first, request(big)).result.action, big.astype(int))
    assert total[:, 0].tolist() == [4.0, 8.0, 6.0]  # an answer stays what it was when the next one comes
    for stream in (first, second):
        stream.close()


def test_what_arrives_during_a_pass_is_the_next_batch(serve):
    (peer,) = serve("threads", build=functools.partial(Server, pass_s=0.2))
    streams = [Remote([peer]) for _ in range(5)]
    streams[0].post(request([0.0]))
    time.sleep(0.1)  # its pass has begun
    for i, stream in enumerate(streams[1:], 1):
        stream.post(request([float(i)]))
    results = [stream.reply(20).result for stream in streams]
    assert [int(result.analyzed_result.rows[0]) for result in results] == [1, 4, 4, 4, 4]
    assert [result.action.tolist() for result in results] == [[i] for i in range(5)]


@pytest.mark.parametrize("kind", [pytest.param(Remote, marks=pytest.mark.slow), Shared])
def test_dead_server_is_replaced_by_another(kind, serve, ray_launcher):
    peers = serve("ray", 2, names=["mortal.0", "mortal.1"])
    stream = kind(peers)
    assert asked(stream, request([1.0])).result.action.tolist() == [1]
    os.kill(ray_launcher.ray.get(ray_launcher.ray.get_actor("mortal.0").ask.remote("beat")).pid, signal.SIGKILL)
    # the same question, state and all, is put to the other one
    assert asked(stream, request([2.0], np.array([[5.0]], np.float32)), 60).result.action.tolist() == [7]
    stream.close()


def test_failing_policy_is_not_an_answer(serve):
    (peer,) = serve("threads")
    peer.hosts["server.0"]._worker._policy.fail = True
    with pytest.raises(PeerLostError, match="planted"):
        peer.call("infer", request([1.0])).result(5)
    assert asked(Remote([peer]), request([1.0]), 0.3) is None


@pytest.mark.parametrize("kind", [Remote, Shared])
def test_a_question_that_was_given_up_is_not_answered_instead_of_the_next(kind, serve):
    stream = kind(serve("threads", build=functools.partial(Server, pass_s=0.1)))
    for _ in range(3):
        stream.post(request([1.0]))
        time.sleep(0.05)  # its pass has begun
        stream.post(request([2.0, 3.0]))
        assert stream.reply(20).result.action.tolist() == [2, 3]
    stream.close()


def test_shared_memory_passes_over_other_machines(serve, monkeypatch):
    (peer,) = serve("threads")
    stream = Shared([peer])
    monkeypatch.setattr(peer.hosts["server.0"]._worker, "connect_shared", lambda *_: None)
    with pytest.raises(ConfigError, match="no policy worker runs on this machine"):
        asked(stream, request([1.0]), 5)
    stream.close()


def test_server_forgets_askers_that_are_gone(serve):
    (peer,) = serve("threads")
    server = peer.hosts["server.0"]._worker._shared
    for _ in range(5):
        stream = Shared([peer])
        assert asked(stream, request([3.0]), 5).result.action.tolist() == [3]
        stream.post(request([4.0]))  # goes before the answer comes
        stream.close()
    deadline = time.monotonic() + 5
    while server._clients and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server._clients
    last = Shared([peer])
    assert asked(last, request([5.0]), 5).result.action.tolist() == [5]
    last.close()


def test_parameters_are_read_once_per_change(launcher):
    handle = launcher.start("parameters", 0, Store, Resources(num_cpus=0.1))
    policy = SumPolicy(OBS)
    reader = ParameterReader(launcher.connect("parameters"), "sum", policy)
    deadline = time.monotonic() + 60
    loads = 0
    while time.monotonic() < deadline and loads == 0:
        loads += reader.poll()
        time.sleep(0.005)
    assert (policy.version, policy.weight.item(), reader.token) == (7, 10.0, 5)
    for _ in range(20):
        assert not reader.poll()
        time.sleep(0.005)
    end([handle], 1.0)


class Owners:
    """A parameter server whose blobs are fetched from futures that the test answers."""

    def __init__(self):
        self.blobs = [Future(), Future()]
        self.asked = 0

    def call(self, method, name, token):
        self.asked += 1
        return resolved((self.asked, 7, lambda at=self.asked: self.blobs[at - 1]))


def test_reader_never_waits_for_a_blob_and_asks_again_where_its_owner_is_lost(monkeypatch):
    monkeypatch.setattr("argosy.distributed.host.base.RETRY_S", 0.0)
    owners, policy = Owners(), SumPolicy(OBS)
    reader = ParameterReader(owners, "sum", policy)
    assert [reader.poll() for _ in range(3)] == [False] * 3
    assert owners.asked == 1
    owners.blobs[0].set_exception(PeerLostError("planted"))
    assert [reader.poll() for _ in range(3)] == [False] * 3  # lost, asked again, still on its way
    assert (owners.asked, reader.token, policy.weight.item()) == (2, 0, 1.0)
    policy_there = SumPolicy(OBS)
    with torch.no_grad():
        policy_there.weight.fill_(3.0)
    owners.blobs[1].set_result(encode(policy_there.get_checkpoint()))
    assert reader.poll()
    assert (owners.asked, reader.token, policy.weight.item()) == (2, 2, 3.0)


def test_reader_says_what_went_wrong_elsewhere():
    owners = Owners()
    reader = ParameterReader(owners, "sum", SumPolicy(OBS))
    owners.blobs[0].set_exception(ZeroDivisionError("planted"))
    with pytest.raises(ZeroDivisionError, match="planted"):
        reader.poll()
    owners.call = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError, match="division"):
        reader.poll()
    failed = Future()
    failed.set_exception(KeyError("planted"))
    owners.call = lambda *_: failed
    with pytest.raises(KeyError, match="planted"):
        reader.poll()
