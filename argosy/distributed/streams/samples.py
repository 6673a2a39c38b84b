"""Sample streams: segments travel from actor workers to trainers, bounded, in order, each counted once.

A receiver that is full keeps the question open instead of being asked again and again: a call with a segment costs its
trainer far more than the answer.

Delivery is at least once: a segment is offered again until its receiver has said that it took it. The receiver drops
what it has seen before. With one segment in flight per receiver the order is kept, so that "seen before" is one number
per producer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from argosy.collect.recorder import Segment
from argosy.distributed.host.base import Peer, PeerLostError, Repeated, failed

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


class Outbox:
    """The sending end: a segment goes to all of several policies, and of each to one of its trainers, in turn.

    The slowest sets the pace: a segment waits until the one before was taken over on the way to every policy.

    Args:
        receivers: of each policy, those that take segments for its trainers; one that is busy is passed over.
    """

    def __init__(self, receivers: Sequence[Sequence[Peer]]) -> None:
        self._routes = [deque(_Delivery(peer) for peer in own) for own in receivers]
        self._waiting: deque[Segment] = deque()
        self._wanting: list[deque[_Delivery]] = []  # routes that the oldest one has still to go

    def send(self, segment: Segment) -> None:
        """Deliver a segment, after those before it."""
        self._waiting.append(segment)
        self.poll()

    @property
    def waits(self) -> bool:
        """Whether a segment is not even on its way: it is better to make no more."""
        return bool(self._waiting)

    @property
    def pending(self) -> int:
        """Segments not yet known to have arrived everywhere, counted once per receiver."""
        return len(self._waiting) + sum(delivery.segment is not None for route in self._routes for delivery in route)

    def poll(self) -> None:
        """Move deliveries on; call it often."""
        for route in self._routes:
            for delivery in route:
                delivery.poll()
        while self._waiting:
            wanting = self._wanting or self._routes
            self._wanting = [route for route in wanting if not _hand_over(route, self._waiting[0])]
            if self._wanting:
                return
            self._waiting.popleft()


class _Delivery:
    """To one receiver, by calls of its method `put`, whose future says that the segment was taken."""

    def __init__(self, peer: Peer) -> None:
        self._call = Repeated(lambda: peer.call("put", self.segment))
        self.segment: Segment | None = None
        """The one in flight."""

    def poll(self) -> None:
        if self.segment is not None and (taken := self._call.poll()) is not None:
            taken.result()
            self.segment = None


def _hand_over(route: deque[_Delivery], segment: Segment) -> bool:
    """Give a segment to the next receiver that has none in flight; returns whether there is one."""
    for _ in range(len(route)):
        delivery = route[0]
        route.rotate(-1)
        if delivery.segment is None:
            delivery.segment = segment
            delivery.poll()
            return True
    return False


class Mailbox(Generic[QuestionT, AnswerT]):
    """Many threads ask; one, the worker's, takes the questions out.

    Args:
        owner: whose it is, for those who are sent away.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._letters: deque[tuple[QuestionT, Future[AnswerT]]] = deque()
        self._arrived = threading.Condition()
        self._closed = False

    def ask(self, question: QuestionT) -> Future[AnswerT]:
        """Leave a question."""
        answer: Future[AnswerT] = Future()
        with self._arrived:
            if self._closed:
                return failed(self._gone())
            self._letters.append((question, answer))
            self._arrived.notify()
        return answer

    def wait(self, timeout_s: float) -> bool:
        """Return whether there is a question, at the latest after `timeout_s`."""
        with self._arrived:
            return bool(self._letters) or self._arrived.wait(timeout_s)

    def peek(self) -> QuestionT:
        """Return the oldest question."""
        return self._letters[0][0]

    def take(self) -> tuple[QuestionT, Future[AnswerT]]:
        """Take the oldest question out."""
        return self._letters.popleft()

    def __len__(self) -> int:
        return len(self._letters)

    def close(self) -> None:
        """Send away those who wait, and whoever comes later."""
        with self._arrived:
            self._closed = True
            while self._letters:
                self._letters.popleft()[1].set_exception(self._gone())

    def _gone(self) -> PeerLostError:
        return PeerLostError(f"the {self._owner} was closed")


class Inbox:
    """The receiving end: bounded, thread-safe, drops duplicates.

    Args:
        capacity: segments that may wait; more are refused, or kept waiting, and their senders with them.
            0: each is taken only when somebody gets it.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.duplicates = 0
        self._offered: Mailbox[Segment, bool] = Mailbox("inbox")
        self._segments: deque[Segment] = deque()
        self._seen: dict[str, tuple[int, int]] = {}  # producer -> (incarnation, seq) of its newest segment
        self._lock = threading.Lock()

    def put(self, segment: Segment) -> Future[bool]:
        """Take a segment as soon as there is room; the future says when. A duplicate is taken, too, and dropped."""
        answer = self._offered.ask(segment)
        with self._lock:
            self._admit(self.capacity)
        return answer

    def get(self, timeout_s: float = 0.0) -> Segment | None:
        """Return the oldest segment, None if there is none for `timeout_s`."""
        if not self._segments and timeout_s > 0:
            self._offered.wait(timeout_s)
        with self._lock:
            self._admit(max(self.capacity, 1))
            segment = self._segments.popleft() if self._segments else None
            self._admit(self.capacity)
            return segment

    def clear(self) -> int:
        """Take all that was offered, forget it, and return how many segments that were."""
        with self._lock:
            self._admit(len(self))
            count = len(self._segments)
            self._segments.clear()
            return count

    def close(self) -> None:
        """Tell those who wait that nothing will be taken any more."""
        with self._lock:
            self._offered.close()

    def __len__(self) -> int:
        return len(self._segments) + len(self._offered)

    def seen(self) -> dict[str, list[int]]:
        """Return, per producer, (incarnation, seq) of the newest segment that was handed out by `get`."""
        with self._lock:
            queued: dict[str, tuple[int, int]] = {}
            for segment in self._segments:
                queued.setdefault(segment.producer, (segment.incarnation, segment.seq - 1))
            return {producer: list(queued.get(producer, at)) for producer, at in self._seen.items()}

    def restore(self, seen: Mapping[str, Sequence[int]]) -> None:
        """Go on from what `seen` returned: older segments count as duplicates."""
        with self._lock:
            self._seen = {producer: (int(at[0]), int(at[1])) for producer, at in seen.items()}

    def _admit(self, room: int) -> None:
        """Take of those that were offered what fits."""
        while self._offered and (len(self._segments) < room or self._known(self._offered.peek())):
            segment, answer = self._offered.take()
            if self._known(segment):
                self.duplicates += 1
            else:
                self._seen[segment.producer] = (segment.incarnation, segment.seq)
                self._segments.append(segment)
            if not answer.cancelled():
                answer.set_result(True)

    def _known(self, segment: Segment) -> bool:
        return (segment.incarnation, segment.seq) <= self._seen.get(segment.producer, (-1, -1))
