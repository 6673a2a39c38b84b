"""One contract for all sample streams, over threads and over Ray."""

import functools
import time

import numpy as np
import pytest
from small_workers import Sink

from argosy.collect.recorder import Segment
from argosy.data import NamedArray
from argosy.distributed.host.base import PeerLostError, Resources, ThreadLauncher, end
from argosy.distributed.streams.samples import Inbox, Outbox

COUNT = 12


def segment(seq, producer="actor-0", incarnation=0, steps=4):
    return Segment(
        producer=producer,
        incarnation=incarnation,
        seq=seq,
        rows=np.arange(2),
        data=NamedArray(rew=np.full((steps, 2), float(seq), np.float32), policy=None),
        episode_returns=np.zeros(0),
        episode_lengths=np.zeros(0, np.int64),
    )


def value(seq, steps=4):
    return ("actor-0", seq, seq * 2.0 * steps)


# name -> (make a stream of peers, number of sinks, how the sinks share the segments)
STREAMS = {
    "one": (lambda peers: Outbox([[peer] for peer in peers]), 1, "all"),
    "in turn": (lambda peers: Outbox([peers]), 2, "split"),
    "broadcast": (lambda peers: Outbox([[peer] for peer in peers]), 2, "all"),
}


@pytest.fixture
def sinks_in_threads():
    yield from _sinks(ThreadLauncher())


@pytest.fixture
def sinks_in_ray(ray_launcher):
    yield from _sinks(ray_launcher)


def _sinks(launcher):
    handles = []

    def start(count, **kwargs):
        names = [f"sink-{len(handles) + i}" for i in range(count)]
        build = functools.partial(Sink, **kwargs)
        handles.extend(launcher.start(name, 0, build, Resources(num_cpus=0.1)) for name in names)
        for handle in handles:
            while not handle.beat().result(90).ready:
                time.sleep(0.01)
        return [launcher.connect(name) for name in names]

    yield start
    end(handles, 1.0)


def call(peer, method, *args):
    return peer.call(method, *args).result(10)


def push(outbox, segments, timeout_s=20.0, wait=True):
    """Send all segments in order; returns how many were on their way before `timeout_s` passed without progress."""
    deadline = time.monotonic() + timeout_s
    taken = 0
    while taken < len(segments) or (wait and outbox.pending):
        if taken < len(segments) and not outbox.waits:
            outbox.send(segments[taken])
            taken += 1
        outbox.poll()
        time.sleep(0.001)
        if time.monotonic() > deadline:
            break
    return taken


def drained(peers, expected, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while sum(len(call(p, "contents")) for p in peers) < expected and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)  # more would be an error that must have time to show
    return [call(p, "contents") for p in peers]


@pytest.mark.parametrize("kind", STREAMS)
def test_contract_over_threads(kind, sinks_in_threads):
    check_contract(kind, sinks_in_threads)


@pytest.mark.parametrize(
    "kind", [kind if kind == "broadcast" else pytest.param(kind, marks=pytest.mark.slow) for kind in STREAMS]
)
def test_contract_over_ray(kind, sinks_in_ray):
    check_contract(kind, sinks_in_ray)


def check_contract(kind, sinks):
    """Closed receivers stop the sender; opened ones get everything once, in order, unchanged, answers lost or not."""
    make, count, share = STREAMS[kind]
    peers = sinks(count, capacity=2, lose_every=3)
    outbox = make(peers)
    segments = [segment(i) for i in range(COUNT)]

    taken = push(outbox, segments, timeout_s=0.7, wait=False)
    assert 0 < taken < COUNT  # back-pressure: two per inbox, one under way to each, one that waits
    assert outbox.pending > 0
    assert all(call(peer, "waiting") >= 2 for peer in peers)  # two have room, and whoever was sent since waits

    for peer in peers:
        call(peer, "set_open", True)
    assert push(outbox, segments[taken:]) == COUNT - taken
    assert outbox.pending == 0
    contents = drained(peers, COUNT * (count if share == "all" else 1))
    if share == "all":
        assert contents == [[value(i) for i in range(COUNT)]] * count
    else:
        assert sorted(item for part in contents for item in part) == sorted(value(i) for i in range(COUNT))
        assert all(part == sorted(part) and len(part) >= 2 for part in contents)
    assert sum(call(peer, "duplicates") for peer in peers) > 0  # lost answers made it send again


def test_large_segments_arrive_whole(sinks_in_ray):
    (peer,) = sinks_in_ray(1)
    call(peer, "set_open", True)
    assert push(Outbox([[peer]]), [segment(1, steps=300_000)]) == 1
    assert drained([peer], 1) == [[value(1, steps=300_000)]]


def test_each_policy_has_its_trainers_in_turn(sinks_in_threads):
    """One policy's only trainer gets all, each of another one's two gets its share, in order."""
    peers = sinks_in_threads(3)
    for peer in peers:
        call(peer, "set_open", True)
    assert push(Outbox([peers[:1], peers[1:]]), [segment(i) for i in range(COUNT)]) == COUNT
    alone, *shares = drained(peers, 2 * COUNT)
    assert alone == [value(i) for i in range(COUNT)]
    assert sorted(shares[0] + shares[1]) == alone
    assert all(share == sorted(share) and share for share in shares)


def test_inbox_counts_each_segment_once():
    inbox = Inbox(capacity=3)
    assert inbox.put(segment(0)).done()
    assert inbox.put(segment(0)).done()  # taken, and dropped
    assert inbox.put(segment(0, producer="actor-1")).done()
    assert inbox.put(segment(1)).done()
    assert inbox.put(segment(1)).done()  # a duplicate needs no room
    assert not inbox.put(segment(2)).done()
    assert (len(inbox), inbox.duplicates) == (4, 2)
    assert [(s.producer, s.seq) for s in (inbox.get(), inbox.get())] == [("actor-0", 0), ("actor-1", 0)]
    assert inbox.put(segment(0, incarnation=1)).done()  # restarted: counts from 0 again
    assert inbox.put(segment(7)).done()  # the former incarnation's straggler
    assert inbox.duplicates == 3
    assert Inbox(1).get(timeout_s=0.01) is None


def test_a_full_inbox_lets_segments_wait():
    inbox = Inbox(capacity=1)
    answers = [inbox.put(segment(seq)) for seq in (0, 1, 1, 2)]
    assert [answer.done() for answer in answers] == [True, False, False, False]
    assert inbox.seen() == {"actor-0": [0, -1]}  # those that wait would be sent again
    assert inbox.get().seq == 0
    assert [answer.done() for answer in answers] == [True, True, True, False]
    assert (len(inbox), inbox.duplicates) == (2, 1)
    assert [inbox.get().seq, inbox.get().seq] == [1, 2]
    assert all(answer.result(0) for answer in answers)


def test_an_inbox_without_room_takes_a_segment_when_it_is_needed():
    inbox = Inbox(capacity=0)
    answers = [inbox.put(segment(seq)) for seq in (0, 1)]
    assert not answers[0].done()
    assert inbox.get().seq == 0
    assert [answer.done() for answer in answers] == [True, False]
    inbox.close()
    for answer in (answers[1], inbox.put(segment(1))):
        with pytest.raises(PeerLostError, match="closed"):
            answer.result(0)


def test_inbox_remembers_only_what_was_handed_out():
    inbox = Inbox(capacity=3)
    for seq in range(3):
        inbox.put(segment(seq))
    inbox.get()
    assert inbox.seen() == {"actor-0": [0, 0]}
    again = Inbox(capacity=3)
    again.restore(inbox.seen())
    assert again.put(segment(0)).done()
    assert len(again) == 0
    assert again.put(segment(1)).done()
    assert len(again) == 1
