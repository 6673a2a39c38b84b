"""Networks: encoders and backbones (observation -> features), heads, ensembles, target networks."""

from argosy.net.config import NetConfig
from argosy.net.encoder import Backbone, Encoder, NatureCNN
from argosy.net.heads import DuelingHead, EnsembleCritic, QNet
from argosy.net.mlp import MLP, EnsembleLinear, EnsembleMLP, Linear
from argosy.net.recurrent import GRU
from argosy.net.small import SmallForward
from argosy.net.update import TargetUpdate, frozen_copy, orthogonal_

__all__ = [
    "GRU",
    "MLP",
    "Backbone",
    "DuelingHead",
    "Encoder",
    "EnsembleCritic",
    "EnsembleLinear",
    "EnsembleMLP",
    "Linear",
    "NatureCNN",
    "NetConfig",
    "QNet",
    "SmallForward",
    "TargetUpdate",
    "frozen_copy",
    "orthogonal_",
]
