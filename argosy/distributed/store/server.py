"""The parameter store as a worker: one per fleet, read by everyone who acts."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from argosy.distributed.host.base import Context, Fetch, PeerLostError, Progress, failed
from argosy.distributed.store.parameters import ParameterStore, write_files
from argosy.errors import CheckpointError
from argosy.trainer.blob import Blob

T = TypeVar("T")

News: TypeAlias = tuple[int, int, Fetch[Blob]]
"""(token, version, how to get the blob)."""
_STOPPED = "the parameter server was stopped"
_NAP_S = 0.1
"""Between two looks whether to go on; a shorter one would take a core from who has something to do."""


class ParameterServer:
    """Answers for a `ParameterStore`.

    A reader asks once and is answered when there is news. It gets a reference and fetches the blob itself: in a Ray
    cluster each node fetches it once, whatever the number of its readers. Readers hear of a version at once; who pushed
    it is answered when it is on the disk, and pushes it again where the server has died before.
    """

    def __init__(self, context: Context, directory: Path | None, *, keep: int = 10) -> None:
        self._store = ParameterStore(directory, keep=keep, deferred=True, mend=True)
        self._share = context.share
        self._lock = threading.Lock()  # peers in this process call from threads of their own
        self._shared: dict[str, tuple[int, Fetch[Blob]]] = {}
        self._waiting: list[tuple[str, int, Future[News]]] = []
        self._unsaved: list[tuple[Future[Any], object]] = []  # answers that wait for the disk
        self._changed = threading.Event()
        self._pushes = self._reads = 0
        self._closed = False

    def push(
        self,
        name: str,
        blob: Blob,
        version: int,
        tags: tuple[str, ...] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> Future[int]:
        """Store a version; see `ParameterStore.push`."""
        with self._lock:
            self._pushes += 1
            if self._store.directory is None:
                blob = blob.copy()  # it lies in Ray's memory
            self._store.push(name, blob, version=version, tags=tags, metadata=metadata)
            return self._when_saved(version)

    def newest(self, name: str, token: int = 0) -> Future[News]:
        """Return (token, version, shared blob) of the latest version as soon as it is not that of `token`."""
        answer: Future[News] = Future()
        with self._lock:
            if self._closed:
                return failed(PeerLostError(_STOPPED))
            self._waiting.append((name, token, answer))
            self._tell()
        return answer

    def roll_back(self, name: str, version: int) -> Future[list[int]]:
        """Forget all newer versions; see `ParameterStore.roll_back`."""
        with self._lock:
            return self._when_saved(self._store.roll_back(name, version))

    def tag(self, name: str, version: int, tag: str) -> Future[None]:
        """Move a tag; see `ParameterStore.tag`."""
        with self._lock:
            self._store.tag(name, version, tag)
            return self._when_saved(None)

    def tag_best(
        self, name: str, version: int, values: Mapping[str, object], key: str, tag: str, pin: str | None = None
    ) -> Future[bool]:
        """Add to what is known of a version and compare; see `ParameterStore.tag_best`."""
        with self._lock:
            return self._when_saved(self._store.tag_best(name, version, values, key=key, tag=tag, pin=pin))

    def poll(self) -> Progress:
        """Write to the disk what calls have changed; others are answered meanwhile."""
        if self._changed.wait(_NAP_S):
            self._save()
        return Progress.BUSY

    def stats(self) -> Mapping[str, float]:
        """Return numbers of pushes and of reads that brought something new."""
        return {"pushes": float(self._pushes), "reads": float(self._reads)}

    def close(self) -> None:
        """Let those who wait know that no answer will come."""
        with self._lock:
            self._closed = True
            for _, _, answer in self._waiting:
                answer.set_exception(PeerLostError(_STOPPED))
            self._waiting = []
        self._save()

    def _when_saved(self, value: T) -> Future[T]:
        """Tell the news to those who wait for it; return the future of `value`, there when all is on the disk."""
        self._tell()
        if self._closed:
            return failed(PeerLostError(_STOPPED))
        answer: Future[T] = Future()
        self._unsaved.append((answer, value))
        self._changed.set()
        return answer

    def _save(self) -> None:
        with self._lock:
            self._changed.clear()
            files, unsaved, self._unsaved = self._store.unwritten(), self._unsaved, []
        try:
            write_files(files)
        except (OSError, CheckpointError) as error:
            for answer, _ in unsaved:
                answer.set_exception(PeerLostError(f"the parameter server could not write: {error}"))
            raise
        with self._lock:
            self._store.written(files)
        for answer, value in unsaved:
            if not answer.cancelled():
                answer.set_result(value)

    def _tell(self) -> None:
        """Answer those for whom there is news."""
        still = []
        for question in self._waiting:
            name, token, answer = question
            news = self._store.newest(name, token)
            if news is None:
                still.append(question)
                continue
            now, version = news
            known = self._shared.get(name)
            if known is None or known[0] != now:
                known = self._shared[name] = (now, self._share(self._store.blob(name, version)))
            self._reads += 1
            if not answer.cancelled():
                answer.set_result((now, version, known[1]))
        self._waiting = still
