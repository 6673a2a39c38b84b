"""The buffer worker: works on experience between the actors and a trainer, so that neither spends the time."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping
from concurrent.futures import Future

from argosy.collect.postprocess import Postprocess
from argosy.collect.recorder import Segment
from argosy.data import NamedArray
from argosy.distributed.host.base import Context, Peer, PeerLostError, Progress
from argosy.distributed.host.mailbox import Mailbox
from argosy.distributed.streams.inference import ParameterReader
from argosy.policy import Policy

_WAIT_S = 0.005


class BufferWorker:
    """Processes segments with the newest parameters (targets, relabelled goals, augmented images) and sends them on.

    A sender hears that its segment was taken when the trainer has taken it. So what this worker holds when it dies is
    sent again, and a trainer that waits makes the senders wait.

    Args:
        context: where it runs.
        policy: made for this worker.
        process: applied to the fields [T, B, ...] of each segment.
        trainer: who gets the segments.
        name: of the policy in the store.
        store: name of the parameter server.
    """

    def __init__(
        self,
        context: Context,
        policy: Policy,
        process: Postprocess,
        trainer: Peer,
        *,
        name: str,
        store: str = "parameters",
    ) -> None:
        self._policy, self._process, self._trainer = policy, process, trainer
        self._reader = ParameterReader(context.connect(store), name, policy)
        self._mail: Mailbox[Segment, bool] = Mailbox("buffer worker")
        self._segments = 0
        self._process_s = 0.0

    def put(self, segment: Segment) -> Future[bool]:
        """Take a segment; the future says when the trainer has taken it."""
        return self._mail.ask(segment)

    def poll(self) -> Progress:
        """Process one segment."""
        self._reader.poll()
        if self._reader.token == 0:
            return Progress.IDLE  # nothing was published yet
        if not self._mail.wait(_WAIT_S):
            return Progress.BUSY
        segment, answer = self._mail.take()
        start = time.perf_counter()
        try:
            fields = self._process(dict(segment.data.items()), self._policy)
        except Exception as error:
            answer.set_exception(PeerLostError(f"processing failed: {error!r}"))  # the sender keeps the segment
            raise
        self._process_s += time.perf_counter() - start
        self._segments += 1
        sent = self._trainer.call("put", dataclasses.replace(segment, data=NamedArray(**dict(fields))))
        sent.add_done_callback(functools.partial(_pass_on, answer))
        return Progress.BUSY

    def stats(self) -> Mapping[str, float]:
        """Return segments processed and the seconds that took, and segments that wait."""
        return {
            "segments": float(self._segments),
            "process_s": self._process_s,
            "queue": float(len(self._mail)),
            "version": float(self._policy.version),
        }

    def close(self) -> None:
        """Send away those who wait."""
        self._mail.close()


def _pass_on(answer: Future[bool], sent: Future[bool]) -> None:
    """Give the trainer's answer to the sender, unless that has gone."""
    if answer.cancelled():
        return
    error = sent.exception()
    if error is None:
        answer.set_result(sent.result())
    else:
        answer.set_exception(error)
