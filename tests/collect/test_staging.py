from __future__ import annotations

from collections.abc import Callable

import pytest

from argosy.collect.rows import Staging
from argosy.data import CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer


class Counting(VectorReplayBuffer):
    def add(self, batch, buffer_ids=None):
        return super().add(batch, buffer_ids)


@pytest.mark.parametrize(
    ("make", "usable"),
    [
        (lambda: VectorReplayBuffer(8, 2), True),
        (lambda: VectorReplayBuffer(9, 3), False),
        (lambda: VectorReplayBuffer(8, 2, info_keys=("lives",)), False),
        (lambda: CachedReplayBuffer(ReplayBuffer(8), 1, 4), False),  # two rings for one env
        (lambda: Counting(8, 2), False),
    ],
)
def test_only_buffers_that_store_rows_as_they_come_are_staged(make: Callable[[], ReplayBuffer], usable: bool) -> None:
    assert Staging(make(), 2).usable == usable
