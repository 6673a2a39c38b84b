"""What a network looks like; which one is needed follows from the spaces and the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from argosy.config import check_limits, limited, name_code
from argosy.errors import ConfigError

WIDEST = 100_000
"""Width of a layer that can be meant; before memory for it is asked for."""
DEEPEST = 1000
"""Hidden layers that can be meant."""


@dataclass(frozen=True, kw_only=True)
class NetConfig:
    """Shape of the networks between an observation and their heads; all policies and critics take it."""

    kind: Literal["auto", "mlp", "cnn"] = limited("auto", among=("auto", "mlp", "cnn"))
    """How observations of 2 to 4 axes are read: "cnn", "mlp" (flattened), "auto": CNN for uint8 images from 36x36 and
    for grids [H, W, C] of bools."""
    hidden_sizes: tuple[int, ...] = limited((64, 64), ge=1, le=WIDEST)
    """Widths of the hidden layers; a CNN over images alone takes `cnn_features` instead."""
    activation: Literal["relu", "tanh", "elu", "gelu", "silu"] = limited(
        "relu", among=("relu", "tanh", "elu", "gelu", "silu")
    )
    """Nonlinearity of the hidden layers (a CNN's is always relu)."""
    cnn_features: int = limited(512, ge=1, le=WIDEST)
    """Width of the layer after a CNN's convolutions."""
    scale_uint8: bool = True
    """Divide uint8 observations by their upper bound (255 for images)."""
    shared_backbone: bool = False
    """Actor-critic policies only: actor and critic share all but their last layer."""
    critic_only: tuple[str, ...] = ()
    """Entries of a Dict observation that critics see and policies do not: what is known in training alone, e.g. the
    simulator's state, or what other agents see."""
    norm_obs: bool = False
    """Normalise observations of floats by their running mean and deviation, which the policy keeps."""
    memory: Literal["gru", "lstm"] | None = limited(None, among=(None, "gru", "lstm"))
    """Recurrent layer before the hidden ones: the policy remembers what it saw of the episode."""
    memory_size: int = limited(64, ge=1, le=WIDEST)
    """Width of the recurrent layer."""
    sequence_length: int = limited(16, ge=1, le=WIDEST)
    """Steps of the sequences that a policy with memory learns from."""
    burn_in: int = limited(0, ge=0)
    """Steps before them that only warm the memory up."""
    encoder: str | None = None
    """A network of one's own: "MODULE:NAME", registered, or (in Python) a class or function that makes an nn.Module of
    an observation space, as NAME(observation_space, **encoder_args)."""
    encoder_args: Mapping[str, object] = field(default_factory=dict)
    """Arguments for `encoder`."""

    def __post_init__(self) -> None:
        check_limits(self)
        if len(self.hidden_sizes) > DEEPEST:
            raise ConfigError(f"NetConfig.hidden_sizes has {len(self.hidden_sizes):,} layers; it must be <= {DEEPEST}")
        critic_only: object = self.critic_only  # what users write
        if isinstance(critic_only, str):
            raise ConfigError(f"NetConfig.critic_only is {critic_only!r}; it must be a tuple: ({critic_only!r},)")
        if self.critic_only and self.shared_backbone:
            raise ConfigError(
                f"NetConfig.critic_only is {self.critic_only}, but with shared_backbone a policy sees what its critic "
                "sees; leave one of them out"
            )
        encoder: object = self.encoder  # what users write
        if isinstance(encoder, nn.Module):
            raise ConfigError(
                f"NetConfig.encoder is a {type(encoder).__name__} that is made already, but actors, critics and targets"
                " need one each; give its class, or a function of the observation space that makes it"
            )
        name_code(self, "encoder")
        if self.encoder_args and self.encoder is None:
            raise ConfigError(
                f"NetConfig.encoder_args are {dict(self.encoder_args)}, but there is no encoder that takes them"
            )
