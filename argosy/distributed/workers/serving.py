"""Workers that serve others: policy workers act for many askers, buffer workers prepare experience for a trainer.

Who asks leaves a question in the worker's mailbox, and gets a future. Buffer workers stand between the actors and a
trainer, so that neither spends the time.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Generic

import numpy as np

from argosy.collect.player import Reply
from argosy.collect.postprocess import Postprocess
from argosy.collect.recorder import Segment
from argosy.data import NamedArray, tree
from argosy.data.join import cat
from argosy.distributed.host.base import Peer, PeerLostError, Progress
from argosy.distributed.streams.inference import ParameterReader
from argosy.distributed.streams.samples import AnswerT, Mailbox, QuestionT
from argosy.distributed.streams.shared_memory import SharedServer
from argosy.policy import RolloutRequest

_MAX_BATCH = 4096
"""Rows per forward pass at most (a single larger request passes whole)."""
_WAIT_S = 0.005


class _Serving(Generic[QuestionT, AnswerT]):
    """Answers, with the newest parameters of a policy, who leaves questions."""

    def __init__(self, reader: ParameterReader, kind: str) -> None:
        self._policy, self._reader = reader.policy, reader
        self._mail: Mailbox[QuestionT, AnswerT] = Mailbox(kind)
        self._counts: dict[str, float] = {}

    def poll(self) -> Progress:
        """Answer what has arrived."""
        self._reader.poll()
        if self._reader.token == 0:
            return Progress.IDLE  # nothing was published yet: who asks has to wait
        if self._mail.wait(_WAIT_S):
            self._answer()
        return Progress.BUSY

    def _answer(self) -> None:
        raise NotImplementedError

    def stats(self) -> Mapping[str, float]:
        """Return what was done so far, and the questions that wait."""
        return {**self._counts, "queue": float(len(self._mail)), "version": float(self._policy.version)}

    def close(self) -> None:
        """Let those who wait know that no answer will come."""
        self._mail.close()


class PolicyWorker(_Serving[RolloutRequest, Reply]):
    """Serves a policy: what arrives while the network computes is the next batch, so that batches size themselves.

    Args:
        reader: keeps the policy up to date, which is made for this worker.
    """

    def __init__(self, reader: ParameterReader) -> None:
        super().__init__(reader, "policy worker")
        self._counts = {"rows": 0.0, "batches": 0.0}
        self._shared = SharedServer(self.infer)

    def connect_shared(self, machine: str) -> bytes | None:
        """Let an asker on this machine use shared memory; see `SharedServer.address`."""
        return self._shared.address(machine)

    def infer(self, request: RolloutRequest) -> Future[Reply]:
        """Take a request; its answer comes after one of the next forward passes."""
        return self._mail.ask(request)

    def _answer(self) -> None:
        """One forward pass over all that has arrived."""
        batch = [self._mail.take()]
        rows = len(batch[0][0])
        while self._mail and rows + len(self._mail.peek()) <= _MAX_BATCH:
            batch.append(self._mail.take())
            rows += len(batch[-1][0])
        try:
            # Flags that only some of the requests have are False in the others
            joined = cat([request for request, _ in batch], like=batch[0][0]) if len(batch) > 1 else batch[0][0]
            result = self._policy.rollout(joined)
        except Exception as error:
            for _, answer in batch:  # those who ask must hear of it before this worker is restarted
                answer.set_exception(PeerLostError(f"the policy failed: {error!r}"))
            raise
        start = 0
        for request, answer in batch:
            end = start + len(request)
            answer.set_result(Reply(tree.index(result, slice(start, end)), self._policy.version))
            start = end
        self._counts["batches"] += 1
        self._counts["rows"] += rows

    def close(self) -> None:
        """Let those who wait know that no answer will come."""
        super().close()
        self._shared.close()  # last: answers go out through it


class BufferWorker(_Serving[Segment, bool]):
    """Processes segments with the newest parameters (targets, relabelled goals, augmented images) and sends them on.

    A sender hears that its segment was taken when the trainer has taken it. So what this worker holds when it dies is
    sent again, and a trainer that waits makes the senders wait.

    Args:
        reader: keeps the policy up to date, which is made for this worker.
        process: applied to the fields [T, B, ...] of each segment.
        trainer: who gets the segments.
    """

    def __init__(self, reader: ParameterReader, process: Postprocess, trainer: Peer) -> None:
        super().__init__(reader, "buffer worker")
        self._process, self._trainer = process, trainer
        self._counts = {"segments": 0.0, "process_s": 0.0}

    def put(self, segment: Segment) -> Future[bool]:
        """Take a segment; the future says when the trainer has taken it."""
        return self._mail.ask(segment)

    def _answer(self) -> None:
        """Process one segment."""
        segment, answer = self._mail.take()
        start = time.perf_counter()
        try:
            own = tree.map_leaves(np.copy, segment.data)  # it may be sent again, and may be others', too
            fields = self._process(dict(own.items()), self._policy)
        except Exception as error:
            answer.set_exception(PeerLostError(f"processing failed: {error!r}"))  # the sender keeps the segment
            raise
        self._counts["process_s"] += time.perf_counter() - start
        self._counts["segments"] += 1
        sent = self._trainer.call("put", dataclasses.replace(segment, data=NamedArray(**dict(fields))))
        sent.add_done_callback(functools.partial(_pass_on, answer))


def _pass_on(answer: Future[bool], sent: Future[bool]) -> None:
    """Give the trainer's answer to the sender, unless that has gone."""
    if answer.cancelled():
        return
    error = sent.exception()
    if error is None:
        answer.set_result(sent.result())
    else:
        answer.set_exception(error)
