"""Recurrent layers that know where a sequence starts anew."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from argosy.process import check_memory


class Memory(nn.Module):
    """Gated recurrent unit (Cho et al., 2014, https://arxiv.org/abs/1406.1078) or long short-term memory.

    The state is one array [..., state_size], so that it can be stored and sent like any other; its first columns are
    the output (an LSTM's hidden state, before its cell state; Hochreiter and Schmidhuber, 1997).

    Args:
        kind: "gru" or "lstm".
        in_features: width F of the input.
        size: width H of the output.
    """

    def __init__(self, kind: Literal["gru", "lstm"], in_features: int, size: int) -> None:
        super().__init__()
        check_memory(4 * 16 * size * (in_features + size), f"to learn a memory of {size:,} (net.memory_size)")
        self.cell: nn.GRUCell | nn.LSTMCell = (nn.GRUCell if kind == "gru" else nn.LSTMCell)(in_features, size)
        self.out_features = size
        self.state_size = size if kind == "gru" else 2 * size

    def output(self, state: torch.Tensor) -> torch.Tensor:
        """Return the output [..., H] that stands in states [..., S]."""
        return state[..., : self.out_features]

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the states [..., S] after one step with inputs [..., F] from states [..., S]."""
        flat_x, flat = x.reshape(-1, x.shape[-1]), state.reshape(-1, state.shape[-1])
        if isinstance(self.cell, nn.LSTMCell):
            after = torch.cat(self.cell(flat_x, flat.chunk(2, dim=-1)), dim=-1)
        else:
            after = self.cell(flat_x, flat)
        return after.reshape(*x.shape[:-1], -1)

    def forward(self, x: torch.Tensor, stored: torch.Tensor, on_reset: torch.Tensor) -> torch.Tensor:
        """Run through sequences, with gradient through time.

        Args:
            x: [T, B, F] inputs.
            stored: [T, B, S] states before the steps, of which only those are read from which a sequence starts: the
                first row's and the marked ones.
            on_reset: [T, B] bool, rows that do not go on from the row before them.

        Returns:
            [T, B, S] states after the steps.
        """
        state = stored[0]
        after: list[torch.Tensor] = []
        for t, x_t in enumerate(x):
            if t > 0:
                state = torch.where(on_reset[t].unsqueeze(-1), stored[t], state)
            state = self.step(x_t, state)
            after.append(state)
        return torch.stack(after)
