"""Questions that wait for a worker's next poll, each with the future by which its asker gets the answer."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Generic, TypeVar

from argosy.distributed.host.base import PeerLostError, failed

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


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
        return PeerLostError(f"the {self._owner} was stopped")
