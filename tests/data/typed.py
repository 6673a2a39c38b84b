"""A user's program with typed batches and configs, for `make type`: what is right passes, each mistake is found.

A comment that would ignore an error where there is none is an error itself (`warn_unused_ignores`).
"""

import numpy as np
import torch

import argosy
from argosy.algorithm import DQN, DQNConfig
from argosy.data import Batch, NamedArray, as_tensors, namedarray
from argosy.data.protocols import (
    ActionBatchProtocol,
    BatchWithAdvantagesProtocol,
    ModelOutputBatchProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
    RolloutBatchProtocol,
    TransitionBatch,
)


@namedarray
class Memory(NamedArray):
    hidden: np.ndarray
    cell: np.ndarray | None = None


def td_target(batch: TransitionBatch, value_next: torch.Tensor) -> torch.Tensor:
    return batch.rew + batch.discount * value_next


def update(batch: TransitionBatch) -> float:
    batch = as_tensors(batch, "cpu")
    target = td_target(batch, torch.zeros(len(batch)))
    return float((batch.weight * target).mean())


def minibatches(rollout: BatchWithAdvantagesProtocol) -> list[torch.Tensor]:
    return [mb.adv * mb.returns for mb in rollout.split(64, rng=np.random.default_rng(0))]


def act(batch: ObsBatchProtocol[np.ndarray]) -> ActionBatchProtocol[np.ndarray]:
    obs = batch.obs if isinstance(batch.obs, np.ndarray) else batch.obs["position"]
    assert isinstance(obs, np.ndarray)
    return Batch(act=obs.argmax(-1), state=Memory(np.zeros((len(batch), 8))))


def rewards(batch: RolloutBatchProtocol[np.ndarray]) -> np.ndarray:
    return batch[batch.terminated].rew


def widen(batch: ModelOutputBatchProtocol) -> ActionBatchProtocol:
    return batch


def weighted(batch: PrioBatchProtocol) -> torch.Tensor:
    return batch.weight * batch.rew


def settings(algorithm: DQN) -> DQNConfig:
    return argosy.DQNConfig(gamma=algorithm.config.gamma)


def plain() -> float:
    sample = Batch(obs=np.zeros((4, 2)), rew=np.zeros(4))
    sample.act = np.zeros(4)
    return update(sample)


actions = act(Batch(obs=np.zeros((4, 2)))).act
memory = Memory(hidden=actions)[0:2]
hidden: np.ndarray = memory.hidden


def mistakes(batch: TransitionBatch, rollout: RolloutBatchProtocol) -> None:
    print(batch.reward)  # type: ignore[attr-defined]
    print(batch.adv)  # type: ignore[attr-defined]
    batch.rew = "text"  # type: ignore[assignment]
    update(rollout)  # type: ignore[arg-type]
    rewards(rollout)  # type: ignore[arg-type]
    minibatches(batch)  # type: ignore[arg-type]
    update(np.zeros(3))  # type: ignore[arg-type]
    Memory()  # type: ignore[call-arg]
    Memory(hidden=actions, hiden=actions)  # type: ignore[call-arg]
    Memory(hidden="text")  # type: ignore[arg-type]
    print(memory.hiden)  # type: ignore[attr-defined]
    memory.cell.sum()  # type: ignore[union-attr]
    DQNConfig(gama=0.9)  # type: ignore[call-arg]
    print(argosy.DQM)  # type: ignore[attr-defined]


def narrow(batch: ActionBatchProtocol) -> ModelOutputBatchProtocol:
    return batch  # type: ignore[return-value]
