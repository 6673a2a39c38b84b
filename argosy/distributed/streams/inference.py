"""Inference streams: requests for actions travel to a policy and the answers come back.

Two ways beside a policy in this process (`argosy.collect.player.Inline`), behind the same interface `InferenceStream`:
one in another process of this machine through shared memory (`shared_memory.py`), one anywhere through calls (Ray).
The recurrent state stays with the asker, so that a server can die without anything being lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

from argosy.collect.player import InferenceStream, Reply
from argosy.distributed.host.base import Fetch, Peer, PeerLostError, Repeated
from argosy.policy import Policy, RolloutRequest
from argosy.trainer.blob import Blob, decode


class Remote(InferenceStream):
    """The policy is in a worker anywhere; if that one is lost, the next one is asked the same.

    Args:
        peers: policy workers of the same policy.
        first: index of the one to ask first.
    """

    def __init__(self, peers: Sequence[Peer], first: int = 0) -> None:
        self._peers = deque(peers)
        self._peers.rotate(-first)

    def post(self, request: RolloutRequest) -> None:
        """Ask the present peer."""
        self._request, self._is_first = request, True
        self._answer = Repeated(self._ask)
        self._answer.start()

    def reply(self, timeout_s: float) -> Reply | None:
        """Return the answer, None if it is not there after `timeout_s`."""
        answer = self._answer.poll(timeout_s)
        return None if answer is None else answer.result()

    def _ask(self) -> Future[Reply]:
        if not self._is_first:  # who was asked before is lost
            self._peers.rotate(-1)
        self._is_first = False
        return self._peers[0].call("infer", self._request)


class ParameterReader:
    """Keeps a policy up to date with the parameter store, without ever waiting for it.

    One question is always open; the store answers it when there is something new.

    Args:
        store: the parameter server.
        name: of the policy there.
        policy: where new parameters go.
    """

    def __init__(self, store: Peer, name: str, policy: Policy) -> None:
        self.policy, self.token = policy, 0
        """Changes with each load; 0 before the first."""
        self._news: Repeated[tuple[int, int, Fetch[Blob]]] = Repeated(lambda: store.call("newest", name, self.token))
        self._blob: tuple[int, Future[Blob]] | None = None  # on its way, and the token that it brings

    def poll(self) -> bool:
        """Ask, or load what came; returns whether the policy has new parameters now."""
        if self._blob is None:
            news = self._news.poll()
            if news is None:
                return False
            token, _, fetch = news.result()
            self._blob = token, fetch()
        token, blob = self._blob
        if not blob.done():
            return False
        self._blob = None
        if isinstance(blob.exception(), PeerLostError):
            return False  # the node that had it is gone: the store is asked again
        self.policy.load_checkpoint(decode(blob.result()))
        self.token = token
        return True
