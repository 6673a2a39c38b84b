"""Distributions over a fixed support, for distributional values. [...] are leading axes, N atoms."""

from __future__ import annotations

import torch


def categorical_projection(probs: torch.Tensor, atoms: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """Move a distribution to a fixed support (Bellemare et al., 2017, https://arxiv.org/abs/1707.06887, equation 7).

    The mass of an atom goes to its two neighbours on the support, the more the nearer; atoms beyond its ends go to the
    ends.

        out_i = sum_j max(0, 1 - |clip(atoms_j, support_0, support_N) - support_i| / step) * probs_j

    Args:
        probs: [..., M] mass of each atom.
        atoms: [..., M] where the atoms are.
        support: [N] equally spaced, rising, N >= 2.

    Returns:
        [..., N] mass of each point of the support; its sum is that of `probs`.
    """
    low, high, steps = support[0], support[-1], len(support) - 1
    # in steps from the support's start; rounding may go beyond its end
    place = ((atoms.clamp(low, high) - low) * (steps / (high - low))).clamp_(max=steps)
    left = place.floor().clamp_(max=steps - 1)
    to_right = probs * (place - left)
    mass, left = probs.new_zeros(*probs.shape[:-1], steps + 1), left.long()
    return mass.scatter_add_(-1, left, probs - to_right).scatter_add_(-1, left + 1, to_right)
