"""Envs in the caller's own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from argosy.env.vector.protocol import Info
from argosy.env.worker.base import Actions, EnvFn, EnvSpaces, EnvWorker, StepArrays
from argosy.env.worker.group import EnvGroup


class DummyEnvWorker(EnvWorker):
    """Runs its envs one after the other when their results are asked for."""

    def __init__(self, env_fns: Sequence[EnvFn], first: int = 0) -> None:
        super().__init__(first, len(env_fns))
        self.group = EnvGroup(env_fns, first)

    def _made(self) -> EnvSpaces:
        return self.group.spaces

    def send_step(self, ids: Sequence[int] | None, actions: Actions) -> None:  # noqa: D102
        self._sent.append(lambda out, rows: self.group.step(ids, actions, out, rows))

    def send_reset(self, ids: Sequence[int], kwargs: Sequence[Mapping[str, object]]) -> None:  # noqa: D102
        self._sent.append(lambda out, rows: self.group.reset(ids, kwargs, out, rows))

    def recv(self, out: StepArrays, rows: Sequence[int]) -> list[Info]:  # noqa: D102
        infos: list[Info] = self._sent.popleft()(out, rows)
        return infos

    @classmethod
    def wait_any(cls, workers: Sequence[Self], timeout_s: float | None) -> list[Self]:  # noqa: D102
        return [worker for worker in workers if worker._sent]

    def call(self, name: str, ids: Sequence[int], *args: object, **kwargs: object) -> list[object]:  # noqa: D102
        result: list[object] = getattr(self.group, name)(ids, *args, **kwargs)
        return result

    def close(self, deadline: float) -> None:  # noqa: D102
        self.group.close()
