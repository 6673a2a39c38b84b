"""What algorithms that learn from a data set have in common. [...] are leading axes."""

from __future__ import annotations

import torch


def squared_distance(a: torch.Tensor, b: torch.Tensor, lead: int) -> torch.Tensor:
    """Squared distance [...] of actions [..., *act], of which the first `lead` axes are [...]; `b` may be flat."""
    square = (a - b.reshape(a.shape)).square()  # [B, 1] and [B] would make [B, B]
    return square if square.dim() == lead else square.flatten(lead).sum(dim=-1)


def expectile_loss(error: torch.Tensor, expectile: float) -> torch.Tensor:
    """|expectile - 1(error < 0)| * error^2 [...], whose minimum is an expectile of what the errors are from.

    Kostrikov et al., 2022, https://arxiv.org/abs/2110.06169, equation 4. 0.5 is half of the squared error; the larger,
    the nearer to the maximum.
    """
    return torch.where(error < 0.0, 1.0 - expectile, expectile) * error.square()


def advantage_weight(adv: torch.Tensor, temperature: float, limit: float) -> torch.Tensor:
    """exp(adv / temperature) [...], at most `limit`: how much an action of advantage `adv` [...] is worth imitating.

    Peng et al., 2019, https://arxiv.org/abs/1910.00177; the limit keeps a few rows from outweighing all others.
    """
    return (adv / temperature).exp().clamp(max=limit)


def conservative_gap(q: torch.Tensor, taken: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
    """Log sum exp of Q minus Q(taken) [...]: by how much other actions seem better than the stored one.

    Kumar et al., 2020, https://arxiv.org/abs/2006.04779, equation 4.

    Args:
        q: [..., A] values of all actions.
        taken: [...] values of the stored ones.
        allowed: [..., A] bool, actions that count; None: all.
    """
    if allowed is not None:
        q = q.masked_fill(~allowed, -torch.inf)
    return q.logsumexp(dim=-1) - taken
