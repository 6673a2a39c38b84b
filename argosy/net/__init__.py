"""Networks: encoders and backbones (observation -> features), memory, heads, critics, target networks."""

from argosy.net.backbone import MLP as MLP, Backbone as Backbone, Linear as Linear, SmallForward as SmallForward
from argosy.net.cnn import GridCNN as GridCNN, NatureCNN as NatureCNN
from argosy.net.config import NetConfig as NetConfig
from argosy.net.encoder import Encoder as Encoder, register_encoder as register_encoder
from argosy.net.ensemble import (
    EnsembleCritic as EnsembleCritic,
    EnsembleLinear as EnsembleLinear,
    EnsembleMLP as EnsembleMLP,
)
from argosy.net.heads import DuelingHead as DuelingHead
from argosy.net.memory import Memory as Memory
from argosy.net.statistics import RunningStatistics as RunningStatistics, ScaledLinear as ScaledLinear
from argosy.net.targets import TargetUpdate as TargetUpdate, frozen_copy as frozen_copy, orthogonal_ as orthogonal_
