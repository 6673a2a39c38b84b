"""Small workers that misbehave on demand."""

import os
import time
from concurrent.futures import Future

import torch

from argosy.distributed.host.base import Progress


class Counter:
    def __init__(
        self,
        context,
        *,
        raise_at=None,
        hang_at=None,
        done_at=None,
        bad_stats=False,
        close_s=0.0,
        in_incarnations=(0,),
        error=None,
    ):
        self.context, self.polls, self.waiting, self.close_s = context, 0, [], close_s
        misbehave = context.incarnation in in_incarnations
        self.raise_at = raise_at if misbehave else None
        self.hang_at = hang_at if misbehave else None
        self.done_at, self.error = done_at, error or ZeroDivisionError("a planted fault")
        self.bad_stats = bad_stats and misbehave

    def poll(self):
        self.polls += 1
        while self.waiting:
            future, value = self.waiting.pop()
            future.set_result(value + 1)
        if self.polls == self.raise_at:
            raise self.error
        if self.polls == self.hang_at:
            time.sleep(1000)
        return Progress.DONE if self.polls == self.done_at else Progress.IDLE

    def add(self, a, b):
        return a + b

    def fail(self):
        raise KeyError("planted")

    def later(self, value):
        future = Future()
        self.waiting.append((future, value))
        return future

    def incarnation(self):
        return self.context.incarnation

    def pid(self):
        return os.getpid()

    def ask(self, other):
        return self.context.connect(other).call("add", 1, 1)

    def shared(self, value):
        return self.context.share(value)

    def stats(self):
        if self.bad_stats:
            raise RuntimeError("deque mutated during iteration")
        return {"polls": float(self.polls)}

    def close(self):
        time.sleep(self.close_s)


class Sink:
    """Receives segments; `open` decides whether it takes them out of its inbox."""

    def __init__(self, context, *, capacity=2, lose_every=0):
        from argosy.distributed.streams.samples import Inbox

        self.inbox, self.taken, self.open, self.puts, self.lose_every = Inbox(capacity), [], False, 0, lose_every

    def put(self, segment):
        from argosy.distributed.host.base import PeerLostError

        answer = self.inbox.put(segment)
        self.puts += 1
        if self.lose_every and self.puts % self.lose_every == 0:
            raise PeerLostError("the answer got lost")
        return answer

    def set_open(self, value):
        self.open = value

    def poll(self):
        segment = self.inbox.get() if self.open else None
        if segment is None:
            return Progress.IDLE
        self.taken.append((segment.producer, segment.seq, float(segment.data.rew.sum())))
        return Progress.BUSY

    def contents(self):
        return list(self.taken)

    def waiting(self):
        return len(self.inbox)

    def duplicates(self):
        return self.inbox.duplicates

    def stats(self):
        return {}

    def close(self):
        pass


class Placed(Counter):
    """Tells how its process was started and how its thread is scheduled."""

    def __init__(self, context):
        super().__init__(context)
        self.scheduling = os.sched_getscheduler(0)
        self.flushes = (torch.tensor(1e-40) * 1.0).item() == 0.0

    def flushes_denormals(self):
        return self.flushes

    def told(self):
        return self.scheduling, os.sched_getscheduler(0), os.environ.get("OMP_WAIT_POLICY")
