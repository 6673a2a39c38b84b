"""What a network looks like; which one is needed follows from the spaces and the algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from argosy.config import check_choice, check_range

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


@dataclass(frozen=True, kw_only=True)
class NetConfig:
    """Shape of the backbones and heads."""

    kind: Literal["auto", "mlp", "cnn"] = "auto"
    """How observations of 2 to 4 axes are read: "cnn", "mlp" (flattened), "auto": CNN for uint8 images from 36x36."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers; a CNN over images alone takes `cnn_features` instead."""
    activation: Literal["relu", "tanh", "elu", "gelu", "silu"] = "relu"
    """Nonlinearity of the hidden layers (a CNN's is always relu)."""
    cnn_features: int = 512
    """Width of the layer after a CNN's convolutions."""
    scale_uint8: bool = True
    """Divide uint8 observations by their upper bound (255 for images)."""
    dueling: bool = False
    """Q-networks only: split the last hidden layer into a value and an advantage stream."""
    shared_backbone: bool = False
    """Actor-critic policies only: actor and critic share all but their last layer."""
    log_std_init: float = 0.0
    """Gaussian policies with a state-independent deviation only: its initial logarithm."""

    def __post_init__(self) -> None:
        check_choice(self, "kind", ("auto", "mlp", "cnn"))
        check_choice(self, "activation", tuple(ACTIVATIONS))
        check_range(self, "hidden_sizes", ge=1)
        check_range(self, "cnn_features", ge=1)
        check_range(self, "log_std_init", ge=-10.0, le=2.0)
