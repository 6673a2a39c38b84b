"""What may be hung into a collector: objects that see every vector step, or every episode that ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from argosy.data import ReplayBuffer
from argosy.env.vector.protocol import Infos, Obs, VectorEnv


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One vector step, after it was stored and before ended episodes are reset; k rows, one per env that stepped."""

    env: VectorEnv
    env_ids: np.ndarray  # [k]
    obs: Obs  # [k, ...]
    act: np.ndarray  # [k, ...] in the policy's scale
    rew: np.ndarray  # [k] or [k, N]
    terminated: np.ndarray  # [k]
    truncated: np.ndarray  # [k]
    obs_next: Obs  # [k, ...] true successors
    info: Infos
    policy: object  # what the policy stores (a Batch [k, ...] or None), e.g. log-probabilities
    buffer: ReplayBuffer | None
    slots: np.ndarray | None  # [k] where the buffer keeps the rows; None without a buffer
    lens: np.ndarray  # [k] steps that their episodes have now


@dataclass(frozen=True, slots=True)
class EpisodeEvent:
    """One episode that has just ended."""

    env_id: int
    episode_return: float | np.ndarray  # undiscounted; [N] with N agents
    length: int
    buffer: ReplayBuffer | None
    slots: np.ndarray | None  # [<= length] where the buffer keeps its steps, in order; the oldest may be overwritten


def ended_episodes(
    buffer: ReplayBuffer | None, env_ids: np.ndarray, returns: np.ndarray, lens: np.ndarray, last: np.ndarray | None
) -> Iterator[EpisodeEvent]:
    """Say of episodes that have ended, of one env each, where the buffer keeps them; `last` are their last slots."""
    for i, env_id in enumerate(env_ids):
        slots = None if buffer is None or last is None else buffer.episode_slots(int(last[i]), int(lens[i]))
        yield EpisodeEvent(int(env_id), returns[i], int(lens[i]), buffer, slots)


class CollectHook:
    """Base of hooks: overwrite what is wanted; a method that is not overwritten costs nothing."""

    def on_step(self, event: StepEvent) -> None:
        """See one vector step."""

    def on_episode(self, event: EpisodeEvent) -> None:
        """See one ended episode (after the `on_step` of its last step)."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return what has to outlive a checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Go on from what `state_dict` returned."""


class MonteCarloReturns(CollectHook):
    """Keeps the discounted return to go of every stored step of every ended episode.

    `hook.returns[batch.indices]` are those of a sampled batch; NaN where the episode has not ended yet.

    Args:
        gamma: discount per step.
    """

    def __init__(self, gamma: float = 0.99) -> None:
        self.gamma = gamma
        self.returns = np.zeros(0, dtype=np.float32)
        """[buffer.maxsize], or [buffer.maxsize, N] with N agents; empty before the first step."""
        self._head: int | None = None  # where the first ring went on; its rows may also be moved there

    def on_step(self, event: StepEvent) -> None:
        """Forget the returns of the rows that the new ones have overwritten."""
        if event.buffer is None or event.slots is None:
            return
        if len(self.returns) == 0:
            self.returns = np.full((event.buffer.maxsize, *event.rew.shape[1:]), np.nan, dtype=np.float32)
        self.returns[event.slots] = np.nan
        head, size = int(event.buffer.rings.head[0]), int(event.buffer.rings.capacity[0])
        if self._head is not None:
            self.returns[np.arange(self._head, self._head + (head - self._head) % size) % size] = np.nan
        self._head = head

    def on_episode(self, event: EpisodeEvent) -> None:
        """Compute the returns of one episode."""
        if event.buffer is None or event.slots is None:
            return
        rew = np.asarray(event.buffer.get(event.slots, "rew", stack_num=1), dtype=np.float64)
        to_go = np.empty_like(rew)
        running = np.zeros(rew.shape[1:])
        for t in range(len(rew) - 1, -1, -1):
            running = rew[t] + self.gamma * running
            to_go[t] = running
        self.returns[event.slots] = to_go

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the returns of all slots."""
        return {"returns": self.returns.copy()} | ({} if self._head is None else {"head": np.array(self._head)})

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Go on from what `state_dict` returned."""
        self.returns = np.array(state["returns"])
        self._head = int(state["head"]) if "head" in state else None
