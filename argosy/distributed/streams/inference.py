"""Inference streams: requests for actions travel to a policy and the answers come back.

Two ways beside a policy in this process (`argosy.collect.player.Inline`), behind the same interface `InferenceStream`:
one in another process of this machine through shared memory (`shared_memory.py`), one anywhere through calls (Ray).
The recurrent state stays with the asker, so that a server can die without anything being lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future

from argosy.collect.player import Pending, Reply
from argosy.distributed.host.base import Fetch, Peer, PeerLostError, then
from argosy.policy import Policy, RolloutRequest
from argosy.trainer.blob import Blob, decode

_LOST_RETRY_S = 0.1


class Remote:
    """The policy is in a worker anywhere; if that one is lost, the next one is asked the same.

    Args:
        peers: policy workers of the same policy.
        first: index of the one to ask first.
    """

    def __init__(self, peers: Sequence[Peer], first: int = 0) -> None:
        self._peers = list(peers)
        self._at = first % len(self._peers)

    def post(self, request: RolloutRequest) -> Pending:
        """Ask the present peer."""
        return _RemotePending(self, request)

    def close(self) -> None:
        """Nothing to free."""

    def _call(self, request: RolloutRequest) -> Future[Reply]:
        return self._peers[self._at].call("infer", request)

    def _give_up_on(self, at: int) -> None:
        if at == self._at:
            self._at = (at + 1) % len(self._peers)


class _RemotePending:
    """Asks again, elsewhere, until there is an answer."""

    def __init__(self, stream: Remote, request: RolloutRequest) -> None:
        self._stream, self._request = stream, request
        self._at = stream._at
        self._flight: Future[Reply] | None = stream._call(request)
        self._not_before = 0.0

    def done(self) -> bool:
        if self._flight is None:
            if time.monotonic() < self._not_before:
                return False
            self._at = self._stream._at
            self._flight = self._stream._call(self._request)
        if not self._flight.done():
            return False
        if isinstance(self._flight.exception(), PeerLostError):
            self._stream._give_up_on(self._at)
            self._flight, self._not_before = None, time.monotonic() + _LOST_RETRY_S
            return False
        return True

    def result(self, timeout: float | None = None) -> Reply:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            left = _LOST_RETRY_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if self._flight is None:
                time.sleep(min(left, _LOST_RETRY_S))
            else:
                try:
                    self._flight.exception(min(left, _LOST_RETRY_S))
                except TimeoutError:
                    continue
        assert self._flight is not None
        return self._flight.result()


class ParameterReader:
    """Keeps a policy up to date with the parameter store, without ever waiting for it.

    One question is always open; the store answers it when there is something new.

    Args:
        store: the parameter server.
        name: of the policy there.
        policy: where new parameters go.
    """

    def __init__(self, store: Peer, name: str, policy: Policy) -> None:
        self._store, self._name, self._policy = store, name, policy
        self.token = 0
        """Changes with each load; 0 before the first."""
        self._news: Future[tuple[int, int, Fetch[Blob]]]
        self._blob: Future[Blob] | None = None
        self._not_before = 0.0

    def poll(self) -> bool:
        """Ask, or load what came; returns whether the policy has new parameters now."""
        if self._blob is None:
            if time.monotonic() < self._not_before:
                return False
            self._news = self._store.call("newest", self._name, self.token)
            self._blob = then(self._news, lambda news: news[2]())
        if not self._blob.done():
            return False
        blob, self._blob = self._blob, None
        try:
            self._policy.load_checkpoint(decode(blob.result()))
        except PeerLostError:
            self._not_before = time.monotonic() + _LOST_RETRY_S
            return False
        self.token = self._news.result()[0]
        return True
