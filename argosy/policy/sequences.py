"""Sequences of a rollout, which policies with memory learn from.

The state before each step, as it was used when acting, is stored as `policy.state`. `analyze` starts from it in the
first row of a sequence and wherever `on_reset` says that a row does not go on from the one before, and computes the
states between by itself, so that the gradient runs through time.
"""

from __future__ import annotations

import torch

from argosy.data import Batch, tree


def starts(cut: torch.Tensor) -> torch.Tensor:
    """[T, B] rows whose successor is not the next row -> [T, B] rows that do not go on from the row before."""
    return torch.cat((torch.ones_like(cut[:1]), cut[:-1]))


def sequences(rows: Batch, length: int, burn_in: int = 0) -> Batch:
    """Cut a rollout into sequences, in the form of a replay buffer's samples of them.

    Args:
        rows: fields [T, B, ...] in order of time, `cut` among them: the next row is not this row's successor. Where it
            has a `mask`, this is kept within the result's.
        length: rows to learn from per sequence.
        burn_in: rows before them that warm the state up.

    Returns:
        The fields [burn_in + length, N, ...], N = ceil(T / length) * B; `mask`: rows to learn from, neither burn-in nor
        padding, each row of the rollout once; `on_reset`: rows that do not go on from the row before. Sequences
        without a row to learn from are left out.
    """
    T, B = rows.cut.shape  # noqa: N806  # shapes
    first = torch.arange(0, T, length, device=rows.cut.device)
    at = first - burn_in + torch.arange(burn_in + length, device=first.device).unsqueeze(-1)
    mask = (at >= first) & (at < T)
    marked = tree.rebuild(rows, {**vars(rows), "on_reset": starts(rows.cut)})
    found = tree.index(marked, at.clamp(0, T - 1))
    mask = mask.unsqueeze(-1).expand(*mask.shape, B)
    found.mask = mask & found.mask if "mask" in rows else mask
    found = tree.map_leaves(lambda leaf: leaf.flatten(1, 2), found)
    return found[:, found.mask.any(0)] if "mask" in rows else found
