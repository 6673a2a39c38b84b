"""The loop on one machine: trainers (iterators over epochs) and checkpoints."""

from argosy.trainer.agents import AgentsTrainer
from argosy.trainer.base import BaseTrainer, TrainerState
from argosy.trainer.checkpoint import load_checkpoint, save_checkpoint
from argosy.trainer.offline import OfflineTrainer
from argosy.trainer.offline_to_online import OfflineToOnlineTrainer
from argosy.trainer.offpolicy import OffpolicyTrainer
from argosy.trainer.onpolicy import OnpolicyTrainer

__all__ = [
    "AgentsTrainer",
    "BaseTrainer",
    "OfflineToOnlineTrainer",
    "OfflineTrainer",
    "OffpolicyTrainer",
    "OnpolicyTrainer",
    "TrainerState",
    "load_checkpoint",
    "save_checkpoint",
]
