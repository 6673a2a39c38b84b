"""The loop on one machine: trainers (iterators over epochs) and checkpoints."""

from argosy.trainer.agents import AgentsTrainer as AgentsTrainer
from argosy.trainer.base import BaseTrainer as BaseTrainer, TrainerState as TrainerState
from argosy.trainer.checkpoint import load_checkpoint as load_checkpoint, save_checkpoint as save_checkpoint
from argosy.trainer.offline import OfflineTrainer as OfflineTrainer
from argosy.trainer.offline_to_online import OfflineToOnlineTrainer as OfflineToOnlineTrainer
from argosy.trainer.offpolicy import OffpolicyTrainer as OffpolicyTrainer
from argosy.trainer.onpolicy import OnpolicyTrainer as OnpolicyTrainer
