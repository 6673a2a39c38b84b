"""Values of discrete actions: batch 64, MLP 128x2, a hard target every 500 updates."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from floor.algorithms.common import (
    CHOICES,
    GAMMA,
    OBS,
    SLOTS,
    Adam,
    Ensemble,
    RMSprop,
    Rows,
    Run,
    actions_of_parts,
    discrete_actions,
    follow,
    frozen,
    mlp,
    quantile_loss,
    repeated,
    sampled,
)
from torch import nn


def q_learning(
    seed: int,
    net: nn.Module,
    loss_of: Callable[[Rows, nn.Module, nn.Module], torch.Tensor],
    obs: int = 4,
    actions: Callable[[np.random.Generator], np.ndarray] = discrete_actions,
) -> Run:
    target, optim, updates = frozen(net), Adam(net.parameters()), 0
    copy_over = follow(target, net, 1.0)

    def update(batch: Rows) -> float:
        nonlocal updates
        loss = loss_of(batch, net, target)
        optim.minimise(loss)
        updates += 1
        if updates % 500 == 0:
            copy_over()
        return loss.item()

    return sampled(seed, 64, update, obs, [optim], actions)


def taken(values_BAN: torch.Tensor, act: torch.Tensor) -> torch.Tensor:  # noqa: N803  # the suffix says the shape
    return values_BAN.take_along_dim(act[:, None, None], dim=1).squeeze(1)


def onto_support(probs: torch.Tensor, atoms: torch.Tensor) -> torch.Tensor:
    """Move mass from atoms [B, 51] to 51 atoms from -10 to 10."""
    place = (atoms.clamp(-10, 10) + 10) * 2.5
    left = place.floor().clamp_(max=49)
    to_right, left = probs * (place - left), left.long()
    mass = torch.zeros_like(probs).scatter_add_(1, left, probs - to_right)
    return mass.scatter_add_(1, left + 1, to_right)


def c51(seed: int) -> Run:
    torch.manual_seed(seed)
    support = torch.linspace(-10, 10, 51)

    def loss_of(batch: Rows, net: nn.Module, target: nn.Module) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            probs = target(obs_next).reshape(-1, 2, 51).softmax(-1)
            best = taken(probs, (probs @ support).argmax(1))
            projected = onto_support(best, rew[:, None] + discount[:, None] * support)
        return -(projected * taken(net(obs).reshape(-1, 2, 51).log_softmax(-1), act)).sum(-1).mean()

    return q_learning(seed, mlp(4, 128, 2 * 51), loss_of)


def qrdqn(seed: int) -> Run:
    torch.manual_seed(seed)
    tau = (torch.arange(200) + 0.5) / 200

    def loss_of(batch: Rows, net: nn.Module, target: nn.Module) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            quantiles = target(obs_next).reshape(-1, 2, 200)
            goal = rew[:, None] + discount[:, None] * taken(quantiles, quantiles.mean(-1).argmax(1))
        return quantile_loss(taken(net(obs).reshape(-1, 2, 200), act), goal, tau)

    return q_learning(seed, mlp(4, 128, 2 * 200), loss_of)


class Noisy(nn.Module):
    """A linear layer with noise in its weights, which is drawn for all layers of a network at once."""

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(size_in)
        self.weight = nn.Parameter(torch.empty(size_in, size_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(size_out).uniform_(-bound, bound))
        self.weight_std = nn.Parameter(torch.full((size_in, size_out), 0.5 * bound))
        self.bias_std = nn.Parameter(torch.full((size_out,), 0.5 * bound))

    def take(self, e_in: torch.Tensor, e_out: torch.Tensor) -> None:
        noisy = torch.addcmul(self.weight, self.weight_std, torch.outer(e_in, e_out))
        self.noisy = torch.addcmul(self.bias, self.bias_std, e_out), noisy

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias, weight = self.noisy
        return torch.addmm(bias, x, weight)


class NoisyStreams(nn.Module):
    """Log-probabilities [B, 2, 51] by a value and an advantage stream, of noisy layers."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.streams = Noisy(4, 128), Noisy(128, 256)
        self.value, self.advantage = Noisy(128, 51), Noisy(128, 2 * 51)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        value, advantage = F.relu(self.streams(F.relu(self.trunk(obs)))).chunk(2, dim=1)
        adv = self.advantage(advantage).view(-1, 2, 51)
        logits: torch.Tensor = self.value(value).unsqueeze(1) + adv - adv.mean(1, keepdim=True)
        return logits.log_softmax(-1)


def rainbow(seed: int) -> Run:
    """From samples by priority, of three steps, of 20,000 slots."""
    torch.manual_seed(seed)
    rng, slots = np.random.default_rng(seed), np.arange(SLOTS)
    obs, obs_next = (rng.standard_normal((SLOTS, 4), np.float32) for _ in range(2))
    act, rew, priorities = discrete_actions(rng), np.ones(SLOTS, np.float32), np.ones(SLOTS)
    terminated, end = slots % 50 == 49, slots // 50 * 50 + 49
    net, support = NoisyStreams(), torch.linspace(-10, 10, 51)
    target, optim, updates = frozen(net), Adam(net.parameters()), 0
    copy_over = follow(target, net, 1.0)
    layers = [part for whole in (net, target) for part in whole.modules() if isinstance(part, Noisy)]
    sizes = [size for layer in layers for size in layer.weight.shape]

    def update() -> float:
        nonlocal updates
        mass = priorities.cumsum()
        at = mass.searchsorted(rng.random(64) * mass[-1], side="right")
        weight = (priorities[at] / priorities.min()) ** -0.4
        last = np.minimum(at + 2, end[at])
        steps = last - at + 1
        paid = (rew[np.minimum(at[:, None] + np.arange(3), SLOTS - 1)] * GAMMA ** np.arange(3)).cumsum(1)
        columns = obs[at], act[at], paid[np.arange(64), steps - 1], obs_next[last], GAMMA**steps * ~terminated[last]
        batch = [torch.from_numpy(column) for column in columns]
        seen, taken_act, brought, after, discount = batch[0], batch[1], batch[2].float(), batch[3], batch[4].float()
        noise = torch.randn(sum(sizes))
        e = torch.split(noise.sign() * noise.abs().sqrt(), sizes)
        for layer, e_in, e_out in zip(layers, e[::2], e[1::2], strict=True):
            layer.take(e_in, e_out)
        with torch.no_grad():
            best = (net(after).exp() @ support).argmax(1)
            probs = taken(target(after), best).exp()
            projected = onto_support(probs, brought[:, None] + discount[:, None] * support)
        cross_entropy = -(projected * taken(net(seen), taken_act)).sum(1)
        loss = (torch.from_numpy(weight).float() * cross_entropy).mean()
        optim.minimise(loss)
        divergence = cross_entropy.detach() + torch.xlogy(projected, projected).sum(1)
        priorities[at] = (divergence.numpy() + 1e-6) ** 0.6
        updates += 1
        if updates % 500 == 0:
            copy_over()
        return loss.item()

    return repeated(update, optim.own)


def discrete_cql(seed: int) -> Run:
    torch.manual_seed(seed)
    tau = (torch.arange(32) + 0.5) / 32

    def loss_of(batch: Rows, net: nn.Module, target: nn.Module) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            best = net(obs_next).view(-1, 2, 32).mean(-1).argmax(1)
            goal = rew[:, None] + discount[:, None] * taken(target(obs_next).view(-1, 2, 32), best)
        quantiles: torch.Tensor = net(obs).view(-1, 2, 32)
        own = taken(quantiles, act)
        gap = quantiles.mean(-1).logsumexp(1) - own.mean(1)
        return quantile_loss(own, goal, tau) + 10 * gap.mean()

    return q_learning(seed, mlp(4, 128, 2 * 32), loss_of)


def discrete_bcq(seed: int) -> Run:
    """Values and, by layers that they share but for the last, the imitation of the data."""
    torch.manual_seed(seed)

    def loss_of(batch: Rows, net: nn.Module, target: nn.Module) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        at = act.unsqueeze(1)
        with torch.no_grad():
            q_next, imitated = net(obs_next).chunk(2, dim=1)
            unlikely = imitated < imitated.amax(1, keepdim=True) + math.log(0.3)
            best = q_next.masked_fill(unlikely, -torch.inf).argmax(1, keepdim=True)
            goal = rew + discount * target(obs_next)[:, :2].gather(1, best).squeeze(1)
        out: torch.Tensor = net(obs)
        q, logits = out.chunk(2, dim=1)
        loss: torch.Tensor = F.smooth_l1_loss(q.gather(1, at).squeeze(1), goal) + F.cross_entropy(logits, act)
        return loss + 0.01 * logits.square().mean()

    return q_learning(seed, mlp(4, 128, 2 * 2), loss_of)


class Implicit(nn.Module):
    """Quantiles [B, A, N] at fractions [B, N]."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.embed, self.second = nn.Linear(4, 128), nn.Linear(64, 128), nn.Linear(128, 128)
        self.out = nn.Linear(128, 2)
        self.frequencies = math.pi * torch.arange(1, 65)

    def features(self, obs: torch.Tensor) -> torch.Tensor:
        return F.relu(self.first(obs))

    def forward(self, features: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        embedding = F.relu(self.embed(torch.cos(tau.unsqueeze(-1) * self.frequencies)))
        out: torch.Tensor = self.out(F.relu(self.second(features.unsqueeze(1) * embedding)))
        return out.transpose(1, 2)


def iqn(seed: int) -> Run:
    torch.manual_seed(seed)
    middles = ((torch.arange(8) + 0.5) / 8).expand(64, -1)

    def loss_of(batch: Rows, net: Implicit, target: Implicit) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            features = target.features(obs_next)
            best = target(features, middles).mean(-1).argmax(1)
            goal = rew[:, None] + discount[:, None] * taken(target(features, torch.rand(64, 8)), best)
        tau = torch.rand(64, 8)
        return quantile_loss(taken(net(net.features(obs), tau), act), goal, tau)

    return q_learning(seed, Implicit(), loss_of)  # type: ignore[arg-type]  # it gets what it gives


def fqf(seed: int) -> Run:
    """Shares of probability that a linear layer proposes, with an optimiser of its own."""
    torch.manual_seed(seed)
    net, proposal = Implicit(), nn.Linear(128, 32)
    target, target_proposal, updates = frozen(net), frozen(proposal), 0
    optims, copies = (Adam(net.parameters()), RMSprop(proposal.parameters(), 2.5e-9)), follow(target, net, 1.0)
    more_copies = follow(target_proposal, proposal, 1.0)

    def update(batch: Rows) -> object:
        nonlocal updates
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            features = target.features(obs_next)
            shares = target_proposal(features).softmax(1)
            quantiles = target(features, shares.cumsum(1) - 0.5 * shares)
            best = (quantiles @ shares.unsqueeze(-1)).squeeze(-1).argmax(1)
            goal = rew[:, None] + discount[:, None] * taken(quantiles, best)
        features = net.features(obs)
        shares = proposal(features.detach()).softmax(1)
        edges = shares.cumsum(1)
        tau, edges = (edges - 0.5 * shares).detach(), edges[:, :-1]
        own = taken(net(features, tau), act)
        loss = quantile_loss(own, goal, tau)
        with torch.no_grad():
            between = taken(net(features, edges), act)
            gradient = (between - own[:, :-1]).abs() - (own[:, 1:] - between).abs()
        loss_fraction = (gradient * edges).sum(1).mean()
        optims[0].minimise(loss)
        optims[1].minimise(loss_fraction)
        updates += 1
        if updates % 500 == 0:
            copies()
            more_copies()
        return torch.stack([loss.detach(), loss_fraction.detach()]).tolist()

    return sampled(seed, 64, update, 4, optims, discrete_actions)


class Branches(nn.Module):
    """Values [B, D, n] of the choices of each part of an action: a value stream and an advantage stream per part."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.streams = nn.Linear(OBS, 128), nn.Linear(128, (1 + len(CHOICES)) * 128)
        self.value, self.advantage = nn.Linear(128, 1), Ensemble(len(CHOICES), 128, CHOICES[0])

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        features, share = F.relu(self.trunk(obs)), 1 / (1 + len(CHOICES))
        features = features.detach().lerp(features, share)  # the same, with that share of the gradient
        streams = F.relu(self.streams(features)).view(-1, 1 + len(CHOICES), 128)
        adv = self.advantage(streams[:, 1:].transpose(0, 1)).transpose(0, 1)
        values: torch.Tensor = self.value(streams[:, :1]) + adv - adv.mean(-1, keepdim=True)
        return values


def branching_dqn(seed: int) -> Run:
    torch.manual_seed(seed)

    def loss_of(batch: Rows, net: nn.Module, target: nn.Module) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            best = net(obs_next).argmax(-1, keepdim=True)
            goal = rew + discount * target(obs_next).gather(-1, best).squeeze(-1).mean(1)
        error: torch.Tensor = net(obs).gather(-1, act.unsqueeze(-1)).squeeze(-1) - goal.unsqueeze(1)
        return error.square().mean()

    return q_learning(seed, Branches(), loss_of, OBS, actions_of_parts)


class Team(nn.Module):
    """Values [B, N, n] of each agent's choices by one network; their mixture [B], by weights that follow the state."""

    def __init__(self) -> None:
        super().__init__()
        agents, units = len(CHOICES), 32
        self.net, self.identity = mlp(OBS + agents, 128, CHOICES[0]), nn.Buffer(torch.eye(agents))
        self.sizes = agents * units, units, units, 1
        self.weights = nn.Sequential(nn.Linear(OBS, 2 * units), nn.Tanh(), nn.Linear(2 * units, sum(self.sizes)))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        agents, rows = len(CHOICES), len(obs)
        seen = torch.cat((obs.unsqueeze(1).expand(-1, agents, -1), self.identity.expand(rows, -1, -1)), -1)
        values: torch.Tensor = self.net(seen.flatten(0, 1))
        return values.view(rows, agents, -1)

    def mixed(self, obs: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        first, offset, second, last = self.weights(obs).split(self.sizes, 1)
        hidden = F.elu(torch.baddbmm(offset.unsqueeze(1), q.unsqueeze(1), first.abs().view(*q.shape, -1))).squeeze(1)
        value: torch.Tensor = (hidden * second.abs()).sum(1) + last.squeeze(1)
        return value


def qmix(seed: int) -> Run:
    torch.manual_seed(seed)

    def loss_of(batch: Rows, net: nn.Module, target: nn.Module) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            best = net(obs_next).argmax(-1, keepdim=True)
            goal = rew + discount * target.mixed(obs_next, target(obs_next).gather(-1, best).squeeze(-1))
        error: torch.Tensor = net.mixed(obs, net(obs).gather(-1, act.unsqueeze(-1)).squeeze(-1)) - goal
        return error.square().mean()

    return q_learning(seed, Team(), loss_of, OBS, actions_of_parts)
