"""Recurrent layers that know where a sequence starts anew."""

from __future__ import annotations

import torch
from torch import nn


class GRU(nn.Module):
    """Gated recurrent unit (Cho et al., 2014, https://arxiv.org/abs/1406.1078) for acting and for learning.

    Args:
        in_features: width F of the input.
        hidden_size: width H of the state, which is the output, too.
    """

    def __init__(self, in_features: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(in_features, hidden_size)
        self.out_features = hidden_size

    def forward(self, x: torch.Tensor, state: torch.Tensor, on_reset: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the states after one step, or after each step of sequences, with gradient through time.

        Args:
            x: [B, F], or [T, B, F].
            state: [B, H] before the step; of sequences the stored states [T, B, H], of which only those are read from
                which a sequence starts: the first row's and the marked ones.
            on_reset: [T, B] bool, rows that do not go on from the row before them; of sequences only.

        Returns:
            [B, H] or [T, B, H].
        """
        if x.dim() == 2:
            h: torch.Tensor = self.cell(x, state)
            return h
        h = state[0]
        out: list[torch.Tensor] = []
        for t, x_t in enumerate(x):
            if t > 0 and on_reset is not None:
                h = torch.where(on_reset[t].unsqueeze(-1), state[t], h)
            h = self.cell(x_t, h)
            out.append(h)
        return torch.stack(out)
