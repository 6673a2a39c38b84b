"""Networks: encoders and backbones (observation -> features), memory, heads, critics, target networks."""

from argosy.net.backbone import MLP, Backbone, Linear, SmallForward
from argosy.net.cnn import GridCNN, NatureCNN
from argosy.net.config import NetConfig
from argosy.net.encoder import Encoder, register_encoder
from argosy.net.ensemble import EnsembleCritic, EnsembleLinear, EnsembleMLP
from argosy.net.heads import DuelingHead
from argosy.net.memory import Memory
from argosy.net.statistics import RunningStatistics, ScaledLinear, Scaling
from argosy.net.targets import TargetUpdate, frozen_copy, orthogonal_

__all__ = [
    "MLP",
    "Backbone",
    "DuelingHead",
    "Encoder",
    "EnsembleCritic",
    "EnsembleLinear",
    "EnsembleMLP",
    "GridCNN",
    "Linear",
    "Memory",
    "NatureCNN",
    "NetConfig",
    "RunningStatistics",
    "ScaledLinear",
    "Scaling",
    "SmallForward",
    "TargetUpdate",
    "frozen_copy",
    "orthogonal_",
    "register_encoder",
]
