"""Which fields a batch has, for mypy and the IDE: annotate with a protocol, pass a `Batch`.

A `Batch` fits every protocol, because its fields are known only when the program runs; what is annotated with a
protocol is checked: a field that it does not declare, or a protocol passed where another one is wanted, is an error.

The parameter is the kind of array, `torch.Tensor` unless said otherwise, as everything that learns reads tensors:

    def update(self, batch: TransitionBatch) -> Stats:
        batch = self.prepare(batch)
        target = batch.rew + batch.discount * value_next      # checked: tensors
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from typing import Any, Protocol, Self, TypeAlias, overload

import numpy as np
import torch
from typing_extensions import TypeVar  # with defaults; torch and gymnasium bring it

ArrayT = TypeVar("ArrayT", bound=np.ndarray | torch.Tensor, default=torch.Tensor)
ArrayT_co = TypeVar("ArrayT_co", bound=np.ndarray | torch.Tensor, default=torch.Tensor, covariant=True)


class ObsDict(Protocol[ArrayT_co]):
    """A dict observation: a dict, `Batch` or `NamedArray` of arrays."""

    def __getitem__(self, key: str, /) -> ArrayT_co | ObsDict[ArrayT_co]: ...


Obs: TypeAlias = ArrayT | ObsDict[ArrayT]
"""Observations [B, *obs]: one array, or a dict of them."""


class BatchProtocol(Protocol):
    """What every batch can do (see `Batch`)."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Self]: ...
    def __contains__(self, name: object, /) -> bool: ...
    @overload
    def __getitem__(self, index: str, /) -> Any: ...
    @overload
    def __getitem__(self, index: object, /) -> Self: ...
    def keys(self) -> KeysView[str]: ...  # noqa: D102
    def get(self, name: str, default: Any = None) -> Any: ...  # noqa: D102
    def split(  # noqa: D102
        self, size: int, shuffle: bool = True, merge_last: bool = False, *, rng: np.random.Generator | None = None
    ) -> Iterator[Self]: ...
    @property
    def shape(self) -> list[int]: ...  # noqa: D102


# What the environment gives.


class TransitionLike(Protocol):
    """What a buffer's `add` reads: these six, and `info` and `policy` where there are."""

    obs: Any
    act: Any
    rew: Any
    terminated: Any
    truncated: Any
    obs_next: Any


class ObsBatchProtocol(BatchProtocol, Protocol[ArrayT]):
    """What a policy needs to act."""

    obs: Obs[ArrayT]
    """[B, *obs]"""


class RolloutBatchProtocol(ObsBatchProtocol[ArrayT], Protocol[ArrayT]):
    """Transitions as the collector stores them."""

    act: ArrayT
    """[B, *act] in the policy's own scale."""
    rew: ArrayT
    """[B] or [B, N_agents], float32."""
    terminated: ArrayT
    """[B] bool: the episode ended by itself."""
    truncated: ArrayT
    """[B] bool: the episode was cut, e.g. by a time limit."""
    obs_next: Obs[ArrayT]
    """[B, *obs]: the true successor, also at an episode's end."""


class SampleBatch(RolloutBatchProtocol[ArrayT], Protocol[ArrayT]):
    """What policies and critics evaluate: rows [B, ...], or sequences [T, B, ...] where there is memory."""

    policy: Any
    """What the policy stored when it acted: its `state` before each row, log-probability, value."""
    on_reset: ArrayT
    """[T, B] bool, of sequences: the row does not go on from the one before; memory starts from its stored state."""
    final: ArrayT
    """[T, B] int64, of sequences with n-step returns: the row whose successor `obs_next` is."""
    mask: ArrayT
    """[T, B] bool, of sequences: rows to learn from, neither burn-in nor padding."""


class TrajectoryBatch(SampleBatch[ArrayT], Protocol[ArrayT]):
    """Everything stored, in order of time [T, B, ...]: what `ReplayBuffer.rollout` returns."""

    cut: ArrayT
    """[T, B] bool: the next row is not this one's successor."""
    expert: TransitionBatch[ArrayT]
    """[N, ...] rows of a data set beside it; where `Algorithm.expert_rows` says so."""


class TransitionBatch(SampleBatch[ArrayT], Protocol[ArrayT]):
    """A complete sample: what `ReplayBuffer.sample` returns."""

    done: ArrayT
    """[B] bool: terminated or truncated."""
    discount: ArrayT
    """[B] gamma^k * (1 - terminated), k steps ahead: all that a bootstrap value is multiplied with."""
    weight: ArrayT
    """[B] importance weight, 1 for uniform samples."""
    indices: ArrayT
    """[B] slots in the buffer."""
    returns: ArrayT
    """[B] discounted sum of the rewards to the episode's end; where `Sampling.fields` asks for it."""
    act_next: ArrayT
    """[B, *act] float, the action at `obs_next`, NaN where an episode ends; where `Sampling.fields` asks for it."""
    ended: ArrayT
    """[B] bool: the end of the episode is stored, too; where `Sampling.fields` asks for it."""


class PrioBatchProtocol(RolloutBatchProtocol[ArrayT], Protocol[ArrayT]):
    """Transitions with importance weights."""

    weight: ArrayT
    """[B]"""


# What learning adds.


class BatchWithReturnsProtocol(RolloutBatchProtocol[ArrayT], Protocol[ArrayT]):
    """Transitions with the returns that values are fitted to."""

    returns: ArrayT
    """[B]"""


class BatchWithAdvantagesProtocol(BatchWithReturnsProtocol[ArrayT], Protocol[ArrayT]):
    """Transitions with advantages."""

    adv: ArrayT
    """[B]"""
    value: ArrayT
    """[B] value of `obs` when the batch was collected."""


class AdvantageBatch(BatchWithAdvantagesProtocol[ArrayT], SampleBatch[ArrayT], Protocol[ArrayT]):
    """What an on-policy loss is made of: rows [M, ...] of a rollout, or sequences [T, M, ...] where there is memory."""

    logp: ArrayT
    """[M] log-probability of the action when it was taken."""


# What policies return.


class ActBatchProtocol(BatchProtocol, Protocol[ArrayT]):
    """Actions."""

    act: ArrayT
    """[B, *act] in the policy's own scale."""


class ActionBatchProtocol(ActBatchProtocol[ArrayT], Protocol[ArrayT]):
    """Actions and the policy's next recurrent state: what `Policy.forward` returns."""

    state: Any
    """[B, ...] batch or named array that only its own policy looks into; None for memoryless policies."""


class ModelOutputBatchProtocol(ActionBatchProtocol[ArrayT], Protocol[ArrayT]):
    """Actions and what the network said."""

    logits: ArrayT
    """[B, ...] Q-values, logits or parameters of a distribution."""
