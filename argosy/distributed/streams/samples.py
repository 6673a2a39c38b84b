"""Sample streams: segments travel from actor workers to trainers, bounded, in order, each counted once.

A receiver that is full keeps the question open instead of being asked again and again: a call with a segment costs its
trainer far more than the answer.

Delivery is at least once: a segment is offered again until its receiver has said that it took it. The receiver drops
what it has seen before. With one segment in flight per stream the order is kept, so that "seen before" is one number
per producer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from argosy.collect.recorder import Segment
from argosy.distributed.host.base import Peer, PeerLostError, failed

_LOST_RETRY_S = 0.1


class SampleStream(Protocol):
    """The sending end."""

    def offer(self, segment: Segment) -> bool:
        """Take a segment for delivery, or return False because too many wait already: try again later."""

    def poll(self) -> None:
        """Move deliveries on; call it often."""

    @property
    def pending(self) -> int:
        """Segments that were taken and are not yet known to have arrived."""


class Inbox:
    """The receiving end: bounded, thread-safe, drops duplicates.

    Args:
        capacity: segments that may wait; more are refused, or kept waiting, and their senders with them.
            0: each is taken only when somebody gets it.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.duplicates = 0
        self._segments: deque[Segment] = deque()
        self._waiting: deque[tuple[Segment, Future[bool]]] = deque()
        self._closed = False
        self._seen: dict[str, tuple[int, int]] = {}  # producer -> (incarnation, seq) of its newest segment
        self._filled = threading.Condition()

    def put(self, segment: Segment) -> Future[bool]:
        """Take a segment as soon as there is room; the future says when. A duplicate is taken, too, and dropped."""
        answer: Future[bool] = Future()
        with self._filled:
            if self._closed:
                return failed(PeerLostError("the inbox is closed"))
            self._waiting.append((segment, answer))
            self._admit(self.capacity)
            self._filled.notify()
        return answer

    def get(self, timeout_s: float = 0.0) -> Segment | None:
        """Return the oldest segment, None if there is none for `timeout_s`."""
        with self._filled:
            if not self._segments and not self._waiting and timeout_s > 0:
                self._filled.wait(timeout_s)
            self._admit(max(self.capacity, 1))
            segment = self._segments.popleft() if self._segments else None
            self._admit(self.capacity)
            return segment

    def close(self) -> None:
        """Tell those who wait that nothing will be taken any more."""
        with self._filled:
            self._closed = True
            while self._waiting:
                self._waiting.popleft()[1].set_exception(PeerLostError("the inbox is closed"))

    def __len__(self) -> int:
        return len(self._segments) + len(self._waiting)

    def seen(self) -> dict[str, list[int]]:
        """Return, per producer, (incarnation, seq) of the newest segment that was handed out by `get`."""
        with self._filled:
            queued: dict[str, tuple[int, int]] = {}
            for segment in self._segments:
                queued.setdefault(segment.producer, (segment.incarnation, segment.seq - 1))
            return {producer: list(queued.get(producer, at)) for producer, at in self._seen.items()}

    def restore(self, seen: Mapping[str, Sequence[int]]) -> None:
        """Go on from what `seen` returned: older segments count as duplicates."""
        with self._filled:
            self._seen = {producer: (int(at[0]), int(at[1])) for producer, at in seen.items()}

    def _known(self, segment: Segment) -> bool:
        return (segment.incarnation, segment.seq) <= self._seen.get(segment.producer, (-1, -1))

    def _take(self, segment: Segment) -> None:
        self._seen[segment.producer] = (segment.incarnation, segment.seq)
        self._segments.append(segment)
        self._filled.notify()

    def _admit(self, room: int) -> None:
        """Take of those that wait what fits."""
        while self._waiting and (len(self._segments) < room or self._known(self._waiting[0][0])):
            segment, answer = self._waiting.popleft()
            if self._known(segment):
                self.duplicates += 1
            else:
                self._take(segment)
            if not answer.cancelled():
                answer.set_result(True)


class QueueStream:
    """To one receiver's inbox, by calls of its method `put`, whose future says that the segment was taken.

    Args:
        peer: the receiver.
        capacity: segments that may wait here, the one in flight included.
    """

    def __init__(self, peer: Peer, *, capacity: int = 2) -> None:
        self._peer, self._capacity = peer, capacity
        self._waiting: deque[Segment] = deque()
        self._flight: Future[bool] | None = None
        self._not_before = 0.0

    def offer(self, segment: Segment) -> bool:
        """Take a segment unless `capacity` of them wait."""
        self.poll()
        if len(self._waiting) >= self._capacity:
            return False
        self._waiting.append(segment)
        self.poll()
        return True

    def poll(self) -> None:
        """Send the oldest segment, again if need be."""
        if self._flight is not None:
            if not self._flight.done():
                return
            flight, self._flight = self._flight, None
            try:
                flight.result()
                self._waiting.popleft()
            except PeerLostError:
                self._not_before = time.monotonic() + _LOST_RETRY_S
        if self._waiting and time.monotonic() >= self._not_before:
            self._flight = self._peer.call("put", self._waiting[0])
            if self._flight.done():  # a thread's answer is there at once
                self.poll()

    @property
    def pending(self) -> int:
        """Segments not yet known to have arrived."""
        return len(self._waiting)


class RoundRobin:
    """Each segment to one of several streams, in turn; one that is full is passed over."""

    def __init__(self, streams: Sequence[SampleStream]) -> None:
        self._streams = list(streams)
        self._next = 0

    def offer(self, segment: Segment) -> bool:
        """Give the segment to the next stream that takes it."""
        for _ in self._streams:
            stream = self._streams[self._next]
            self._next = (self._next + 1) % len(self._streams)
            if stream.offer(segment):
                return True
        return False

    def poll(self) -> None:
        """Move all streams on."""
        for stream in self._streams:
            stream.poll()

    @property
    def pending(self) -> int:
        """Segments not yet known to have arrived."""
        return sum(stream.pending for stream in self._streams)


class Zipped:
    """Each segment to all of several streams: all consumers of one (broadcast), or streams of different kinds.

    The slowest sets the pace: a segment is taken only when the one before has been taken by all.
    """

    def __init__(self, streams: Sequence[SampleStream]) -> None:
        self._streams = list(streams)
        self._segment: Segment | None = None
        self._wanting: list[SampleStream] = []

    def offer(self, segment: Segment) -> bool:
        """Take a segment unless the one before is still wanted by some stream."""
        self.poll()
        if self._wanting:
            return False
        self._segment, self._wanting = segment, list(self._streams)
        self.poll()
        return True

    def poll(self) -> None:
        """Move all streams on."""
        if self._segment is not None and self._wanting:
            segment = self._segment
            self._wanting = [stream for stream in self._wanting if not stream.offer(segment)]
        for stream in self._streams:
            stream.poll()

    @property
    def pending(self) -> int:
        """Segments not yet known to have arrived everywhere, counted once per stream."""
        return sum(stream.pending for stream in self._streams) + len(self._wanting)
