"""Values on a scale on which large ones are small: the transformed Bellman operator of Pohlen et al. (2018).

https://arxiv.org/abs/1805.11593
"""

from __future__ import annotations

import torch


def rescale(x: torch.Tensor, eps: float = 1e-3) -> torch.Tensor:
    """h(x) = sign(x) * (sqrt(|x| + 1) - 1) + eps * x, elementwise; `eps` > 0 keeps its slope from vanishing."""
    return x.sign() * ((x.abs() + 1.0).sqrt() - 1.0) + eps * x


def unrescale(x: torch.Tensor, eps: float = 1e-3) -> torch.Tensor:
    """The inverse of `rescale`: sign(x) * (((sqrt(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps))^2 - 1).

    Written without the difference of nearly equal numbers that this is for small `eps`.
    """
    inner = x.abs() + 1.0 + eps
    root = 2.0 * inner / ((1.0 + 4.0 * eps * inner).sqrt() + 1.0)
    return x.sign() * (root.square() - 1.0)
