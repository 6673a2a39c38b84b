"""Causal self-attention over the steps of an episode."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from argosy.errors import ConfigError
from argosy.net.backbone import MLP, Linear
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
        self.width = next(iter(sizes), 64 * heads)
        if len(set(sizes)) != 1 or self.width % heads:
            raise ConfigError(
                f"net.hidden_sizes is {sizes}; of a transformer each is a block, and all are of one width, which its "
                f"heads ({heads}) share: e.g. {(self.width // heads * heads or heads,) * max(len(sizes), 1)}"
            )
        self.blocks = nn.ModuleList(Block(self.width, heads, config.activation) for _ in sizes)
        self.norm = nn.LayerNorm(self.width)

    def forward(self, x: torch.Tensor, segment: torch.Tensor, asked: slice) -> torch.Tensor:
        """Attend. What only the outcomes of tokens other than the `asked` ones would depend on is not computed.

        Args:
            x: [B, N, W] tokens in order of time.
            segment: [B, N] int, to which each belongs.
            asked: which M of the N tokens have their outcomes returned.

        Returns:
            [B, M, W].
        """
        count = x.shape[1]
        later = torch.ones(count, count, dtype=torch.bool, device=x.device).triu(1)
        seen = (~later & (segment.unsqueeze(-1) == segment.unsqueeze(-2))).unsqueeze(1)
        *before, last = self.blocks
        for block in before:
            x = block(x, seen)
        out: torch.Tensor = self.norm(last(x, seen, asked))
        return out


class Block(nn.Module):
    """Attention, then an MLP of four times the width; each adds to its input [B, N, W], which it sees normalised.

    `nn.TransformerEncoderLayer` computes the same; its products and copies take longer on CPUs.

    Args:
        width: W.
        heads: of the attention.
        activation: name of the MLP's nonlinearity.
    """

    def __init__(self, width: int, heads: int, activation: str) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = Linear(width, 3 * width), Linear(width, width)
        nn.init.xavier_uniform_(self.query_key_value.weight)
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.out.bias)
        self.mlp = MLP(width, (4 * width,), width, activation)

    def forward(self, x: torch.Tensor, seen: torch.Tensor, asked: slice = slice(None)) -> torch.Tensor:
        """[B, N, W] tokens, [B, 1, N, N] bool which of them each sees -> [B, M, W] of those M `asked` for."""
        parts = self.query_key_value(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        query, seen = query[:, :, asked], seen[:, :, asked]
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        x = x[:, asked] + self.out(attended.transpose(1, 2).flatten(2))
        added: torch.Tensor = self.mlp(self.norm_mlp(x))
        return x + added
