"""Causal self-attention over the steps of an episode."""

from __future__ import annotations

import torch
from torch import nn

from argosy.errors import ConfigError
from argosy.net.backbone import ACTIVATIONS
from argosy.net.config import NetConfig


class CausalTransformer(nn.Module):
    """Tokens [B, N, W] -> [B, N, W]: each looks at itself and at those of its segment before it (Vaswani et al., 2017).

    Layers are normalised before they are entered, and nothing is dropped.

    Args:
        config: each of its `hidden_sizes` is a block of that width; all are equal. `activation` is that of its layers.
        heads: of the attention; they share the width.

    Raises:
        ConfigError: the widths differ, or cannot be shared.
    """

    def __init__(self, config: NetConfig, heads: int) -> None:
        super().__init__()
        sizes = config.hidden_sizes
        self.width = sizes[0]
        if len(set(sizes)) > 1 or self.width % heads:
            raise ConfigError(
                f"net.hidden_sizes is {sizes}; of a transformer each is a block, and all are of one width, which its "
                f"heads ({heads}) share: e.g. {(self.width // heads * heads or heads,) * len(sizes)}"
            )
        self.heads = heads
        self.blocks = nn.ModuleList()
        for _ in sizes:
            activation = ACTIVATIONS[config.activation]()
            block = nn.TransformerEncoderLayer(
                self.width, heads, 4 * self.width, 0.0, activation, batch_first=True, norm_first=True
            )
            self.blocks.append(block)
        self.norm = nn.LayerNorm(self.width)

    def forward(self, x: torch.Tensor, segment: torch.Tensor) -> torch.Tensor:
        """Attend.

        Args:
            x: [B, N, W] tokens in order of time.
            segment: [B, N] int, to which each belongs.
        """
        count = x.shape[1]
        later = torch.ones(count, count, dtype=torch.bool, device=x.device).triu(1)
        hidden = later | (segment.unsqueeze(-1) != segment.unsqueeze(-2))
        hidden = hidden.repeat_interleave(self.heads, dim=0)
        for block in self.blocks:
            x = block(x, src_mask=hidden)
        out: torch.Tensor = self.norm(x)
        return out
