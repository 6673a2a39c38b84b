"""What the algorithms' updates share: networks, optimiser, targets, samples."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

Run = Callable[[int], dict[str, object]]
Rows = tuple[torch.Tensor, ...]  # obs, act, rew, obs_next, discount
SLOTS, OBS, ACT, GAMMA, TAU = 20_000, 17, 6, 0.99, 0.005
STEPS, ENVS = 128, 8
CHOICES = (5, 5, 5, 5)


class Ensemble(nn.Module):
    """K linear layers as one batched product: [K, B, in] -> [K, B, out]."""

    def __init__(self, size: int, size_in: int, size_out: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(size_in)
        self.weight = nn.Parameter(torch.empty(size, size_in, size_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(size, 1, size_out).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class EnsembleLayerNorm(nn.Module):
    """K layer normalisations, each with its own scale and shift."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(size, 1, width)), nn.Parameter(torch.zeros(size, 1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(self.bias, F.layer_norm(x, x.shape[-1:]), self.weight)


class Gaussian(nn.Module):
    """Densities of actions, whose deviation does not depend on the observation."""

    def __init__(
        self, size_in: int = OBS, size_out: int = ACT, layer: Callable[[], nn.Module] = nn.ReLU, bounded: bool = False
    ) -> None:
        super().__init__()
        self.net, self.log_std = mlp(size_in, 64, size_out, layer), nn.Parameter(torch.zeros(size_out))
        self.bounded = bounded

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        mean: torch.Tensor = self.net(obs)
        return mean.tanh() if self.bounded else mean

    def logp(self, mean: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        scaled = (act - mean) * (-self.log_std).exp()
        return -(0.5 * scaled.square() + self.log_std + 0.5 * math.log(2 * math.pi)).sum(1)

    def entropy(self, mean: torch.Tensor) -> torch.Tensor:
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()

    @torch.no_grad()
    def draw(self, mean: torch.Tensor) -> torch.Tensor:
        return (mean + torch.randn_like(mean) * self.log_std.exp()).clamp(-1, 1)


class Categorical(nn.Module):
    """Log-probabilities [B, 2] of two actions."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.net = mlp(4, width, 2, nn.Tanh)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        logp: torch.Tensor = self.net(obs).log_softmax(1)
        return logp

    def logp(self, logp: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        return logp.gather(1, act.unsqueeze(1)).squeeze(1)

    def entropy(self, logp: torch.Tensor) -> torch.Tensor:
        return -(logp.exp() * logp).sum(1)


class Critics(nn.Module):
    """K values [K, B] of observations and actions, or of all of `out` actions [K, B, out] of observations.

    Layers may stand `between` hidden ones and their activations.
    """

    def __init__(
        self,
        size: int,
        size_in: int,
        width: int,
        out: int = 1,
        between: Callable[[], Iterable[nn.Module]] = tuple,
    ) -> None:
        super().__init__()
        self.size, self.out = size, out
        first = [Ensemble(size, size_in, width), *between(), nn.ReLU()]
        second = [Ensemble(size, width, width), *between(), nn.ReLU()]
        self.net = nn.Sequential(*first, *second, Ensemble(size, width, out))

    def forward(self, *x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.net(torch.cat(x, dim=1).expand(self.size, -1, -1))
        return y.squeeze(2) if self.out == 1 else y


def mlp(size_in: int, width: int, out: int, layer: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size_in, width), layer(), nn.Linear(width, width), layer(), nn.Linear(width, out))


def frozen(net: nn.Module) -> nn.Module:
    return copy.deepcopy(net).requires_grad_(False)


class Steps:
    """An optimiser whose step takes the gradients of its own parameters alone."""

    own: list[torch.Tensor]

    def minimise(self, loss: torch.Tensor, max_norm: float | None = None) -> None:
        for parameter, gradient in zip(self.own, torch.autograd.grad(loss, self.own), strict=True):
            parameter.grad = gradient
        if max_norm is not None:
            nn.utils.clip_grad_norm_(self.own, max_norm)
        self.step()


class Adam(Steps, torch.optim.Adam):
    def __init__(self, params: Iterable[torch.Tensor], lr: float = 1e-3, first_moment: float = 0.9) -> None:
        self.own = list(params)
        super().__init__(self.own, lr=lr, betas=(first_moment, 0.999), fused=True)


class RMSprop(Steps, torch.optim.RMSprop):
    def __init__(self, params: Iterable[torch.Tensor], lr: float) -> None:
        self.own = list(params)
        super().__init__(self.own, lr=lr)


def follow(target: nn.Module, online: nn.Module, tau: float) -> Callable[[], None]:
    pair: tuple[list[torch.Tensor], list[torch.Tensor]] = (list(target.parameters()), list(online.parameters()))

    @torch.no_grad()
    def step() -> None:
        torch._foreach_lerp_(*pair, tau)

    return step


def repeated(update: Callable[[], object], learned: Iterable[torch.Tensor]) -> Run:
    count_learned = sum(parameter.numel() for parameter in learned)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            update()
        return {"updates": count, "parameters": count_learned}

    return run


def box_actions(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1, 1, (SLOTS, ACT)).astype(np.float32)


def discrete_actions(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2, SLOTS)


def actions_of_parts(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, CHOICES, (SLOTS, len(CHOICES)))


def sampled(
    seed: int,
    rows: int,
    update: Callable[[Rows], object],
    obs: int,
    optims: Sequence[Steps],
    actions: Callable[[np.random.Generator], np.ndarray],
    columns: int = 5,
) -> Run:
    """Update from samples of a filled store, of its first columns alone; a sixth are the actions that followed."""
    rng = np.random.default_rng(seed)
    act = actions(rng)
    terminated = np.arange(SLOTS) % 50 == 49
    store = (
        rng.standard_normal((SLOTS, obs), np.float32),
        act,
        np.ones(SLOTS, np.float32),
        rng.standard_normal((SLOTS, obs), np.float32),
        (GAMMA * ~terminated).astype(np.float32),
        np.where(terminated[:, None], np.nan, np.roll(act, -1, axis=0)).astype(np.float32) if columns > 5 else None,
    )[:columns]

    def sample_and_update() -> None:
        at = rng.integers(0, SLOTS, rows)
        update(tuple(torch.from_numpy(column[at]) for column in store))

    return repeated(sample_and_update, [parameter for optim in optims for parameter in optim.own])


def quantile_loss(quantiles: torch.Tensor, goal: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    """[B, N], [B, M], [N] or [B, N] -> scalar."""
    difference = goal.unsqueeze(-2) - quantiles.unsqueeze(-1)
    huber = F.huber_loss(difference, torch.zeros_like(difference), reduction="none")
    weight = (tau.unsqueeze(-1) - (difference.detach() < 0).float()).abs()
    return (weight * huber).mean(-1).sum(-1).mean()
