"""The policy worker: serves a policy to many askers, wherever they are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from argosy.collect.player import Reply
from argosy.data import tree
from argosy.data.join import cat
from argosy.distributed.host.base import Context, PeerLostError, Progress
from argosy.distributed.host.mailbox import Mailbox
from argosy.distributed.streams.inference import ParameterReader
from argosy.distributed.streams.shared_memory import Address, SharedServer
from argosy.policy import Policy, RolloutRequest

_MAX_BATCH = 4096
"""Rows per forward pass at most (a single larger request passes whole)."""


class PolicyWorker:
    """Serves a policy: what arrives while the network computes is the next batch, so that batches size themselves.

    Args:
        context: where it runs.
        policy: made for this worker.
        name: of the policy in the store.
        store: name of the parameter server.
        extra_s: added to each pass, to measure what latency costs.
    """

    def __init__(
        self,
        context: Context,
        policy: Policy,
        *,
        name: str,
        store: str = "parameters",
        extra_s: float = 0.0,
    ) -> None:
        self._policy, self._extra_s = policy, extra_s
        self._reader = ParameterReader(context.connect(store), name, policy)
        self._mail: Mailbox[RolloutRequest, Reply] = Mailbox("policy worker")
        self._batches = self._rows = 0
        self._shared = SharedServer(self.infer)

    def connect_shared(self, block: Address, bell: Address) -> tuple[Address, int] | None:
        """Let an asker on this machine use shared memory; see `SharedServer.connect`."""
        return self._shared.connect(block, bell)

    def infer(self, request: RolloutRequest) -> Future[Reply]:
        """Take a request; its answer comes after one of the next forward passes."""
        return self._mail.ask(request)

    def poll(self) -> Progress:
        """One forward pass over all that has arrived."""
        self._reader.poll()
        if self._reader.token == 0:
            return Progress.IDLE  # nothing was published yet: who asks has to wait
        batch = self._take()
        if not batch:
            return Progress.BUSY
        requests = [request for request, _ in batch]
        sizes = [_rows(request) for request in requests]
        try:
            result = self._policy.rollout(join_requests(requests))
        except Exception as error:
            for _, answer in batch:  # those who ask must hear of it before this worker is restarted
                answer.set_exception(PeerLostError(f"the policy failed: {error!r}"))
            raise
        if self._extra_s > 0:
            time.sleep(self._extra_s)
        start = 0
        for (_, answer), size in zip(batch, sizes, strict=True):
            answer.set_result(Reply(tree.index(result, slice(start, start + size)), self._policy.version))
            start += size
        self._batches += 1
        self._rows += start
        return Progress.BUSY

    def stats(self) -> Mapping[str, float]:
        """Return rows and batches so far, and requests that wait."""
        return {
            "rows": float(self._rows),
            "batches": float(self._batches),
            "queue": float(len(self._mail)),
            "version": float(self._policy.version),
        }

    def close(self) -> None:
        """Let those who wait know that no answer will come."""
        self._mail.close()
        self._shared.close()  # last: answers go out through it

    def _take(self) -> list[tuple[RolloutRequest, Future[Reply]]]:
        batch: list[tuple[RolloutRequest, Future[Reply]]] = []
        rows = 0
        self._mail.wait(0.005)
        while self._mail and (not batch or rows + _rows(self._mail.peek()) <= _MAX_BATCH):
            batch.append(self._mail.take())
            rows += _rows(batch[-1][0])
        return batch


def join_requests(requests: Sequence[RolloutRequest]) -> RolloutRequest:
    """Put requests under one another; flags that only some of them have are False in the others."""
    return requests[0] if len(requests) == 1 else cat(requests, like=requests[0])


def _rows(request: RolloutRequest) -> int:
    return int(next(len(leaf) for _, leaf in tree.leaves(request.obs) if leaf is not None))
