"""What algorithms that learn from a data set have in common. [...] are leading axes."""

from __future__ import annotations

import torch


def squared_distance(a: torch.Tensor, b: torch.Tensor, lead: int) -> torch.Tensor:
    """Squared distance [...] of actions [..., *act], of which the first `lead` axes are [...]."""
    square = (a - b).square()
    return square if square.dim() == lead else square.flatten(lead).sum(dim=-1)
