"""Actors and critics: batch 128, MLP 64x2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from floor.algorithms.common import (
    ACT,
    OBS,
    TAU,
    Adam,
    Critics,
    Ensemble,
    EnsembleLayerNorm,
    Rows,
    Run,
    Steps,
    box_actions,
    discrete_actions,
    follow,
    frozen,
    mlp,
    quantile_loss,
    sampled,
)
from torch import nn


def deterministic(
    seed: int, *, twin: bool, lr: float = 1e-3, alpha: float | None = None, penalty: float | None = None
) -> Run:
    """DDPG; with `twin` TD3, with `alpha` TD3+BC, with a `penalty` ReBRAC."""
    torch.manual_seed(seed)

    def between() -> list[nn.Module]:
        return [] if penalty is None else [EnsembleLayerNorm(2, 64)]

    actor, critic = mlp(OBS, 64, ACT), Critics(2 if twin else 1, OBS + ACT, 64, between=between)
    actor_target, critic_target = frozen(actor), frozen(critic)
    actor_optim, critic_optim = Adam(actor.parameters(), lr), Adam(critic.parameters(), lr)
    steps, updates = (follow(actor_target, actor, TAU), follow(critic_target, critic, TAU)), 0

    def update(batch: Rows) -> object:
        nonlocal updates
        obs, act, rew, obs_next, discount = batch[:5]
        with torch.no_grad():
            act_next = actor_target(obs_next).tanh()
            if twin:
                act_next = (act_next + (torch.randn_like(act_next) * 0.2).clamp(-0.5, 0.5)).clamp(-1, 1)
            value_next = critic_target(obs_next, act_next).amin(0)
            if penalty is not None:
                value_next = value_next - penalty * (act_next - batch[5]).square().sum(1).nan_to_num(0)
            goal = rew + discount * value_next
        losses = [(critic(obs, act) - goal).square().mean(1).sum()]
        critic_optim.minimise(losses[0])
        updates += 1
        if not twin or updates % 2 == 0:
            act_now = actor(obs).tanh()
            q = critic(obs, act_now).amin(0) if penalty is not None else critic(obs, act_now)[0]
            if penalty is not None:
                cost = penalty * (act_now - act).square().sum(1).mean()
                losses.append(cost - q.mean() / q.detach().abs().mean())
            elif alpha is None:
                losses.append(-q.mean())
            else:
                losses.append((act_now - act).square().mean() - alpha / q.detach().abs().mean() * q.mean())
            actor_optim.minimise(losses[1])
            for step in steps:
                step()
        return torch.stack([loss.detach() for loss in losses]).tolist()

    columns = 5 if penalty is None else 6
    return sampled(seed, 128, update, OBS, [actor_optim, critic_optim], box_actions, columns)


def squashed(params: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw actions; -> (actions, log-densities)."""
    mean, log_std = params.chunk(2, dim=-1)
    log_std, noise = log_std.clamp(-20, 2), torch.randn_like(mean)
    raw = mean + log_std.exp() * noise
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    return raw.tanh(), (density - 2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(-1)


def soft_updates(
    seed: int,
    actor: nn.Module,
    critic: nn.Module,
    loss_of: Callable[[Rows, torch.Tensor, torch.Tensor], torch.Tensor],
    value_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    step: Callable[[], None] | None,
    policy_freq: int,
    auto_alpha: bool = True,
    rows: int = 128,
    optim: Callable[[Iterable[torch.Tensor]], Adam] = Adam,
    learning: Callable[[torch.Tensor], torch.Tensor] | None = None,
    more_optims: Sequence[Steps] = (),
) -> Run:
    """Make updates of the critics by `loss_of` (rows, next actions, what their entropy costs), then of the policy.

    The latter climbs `value_of`; what it says while it learns is `learning`, where that is not the same.
    """
    log_alpha, updates = torch.tensor(math.log(0.2), requires_grad=True), 0
    actor_optim, critic_optim = optim(actor.parameters()), optim(critic.parameters())
    alpha_optim, learning = Adam([log_alpha], lr=3e-4) if optim is Adam else optim([log_alpha]), learning or actor

    def update(batch: Rows) -> object:
        nonlocal updates
        with torch.no_grad():
            alpha = log_alpha.exp()
            act_next, logp_next = squashed(actor(batch[3]))
        losses = [loss_of(batch, act_next, alpha * logp_next)]
        critic_optim.minimise(losses[0])
        updates += 1
        if updates % policy_freq == 0:
            act_now, logp = squashed(learning(batch[0]))
            losses.append((alpha * logp - value_of(batch[0], act_now)).mean())
            actor_optim.minimise(losses[1])
            if auto_alpha:
                losses.append(-log_alpha * (logp.detach().mean() - ACT))
                alpha_optim.minimise(losses[2])
        if step is not None:
            step()
        return torch.stack([loss.detach() for loss in losses]).tolist()

    optims = [actor_optim, critic_optim, alpha_optim, *more_optims]
    return sampled(seed, rows, update, OBS, optims, box_actions)


def soft(
    seed: int,
    *,
    size: int,
    policy_freq: int,
    subset: int | None = None,
    auto_alpha: bool = True,
    width: int = 64,
    rows: int = 128,
    dropout: float | None = None,
) -> Run:
    """SAC; with a subset REDQ, with dropout DroQ."""
    torch.manual_seed(seed)

    def between() -> list[nn.Module]:
        return [] if dropout is None else [nn.Dropout(dropout), EnsembleLayerNorm(size, width)]

    actor, critic = mlp(OBS, width, 2 * ACT), Critics(size, OBS + ACT, width, between=between)
    critic_target = frozen(critic)
    part = frozen(Critics(subset or size, OBS + ACT, width))  # of the target critics
    is_plain = subset is None and dropout is None

    def target_of() -> nn.Module:
        if subset is None:
            return critic_target
        some = torch.randperm(size)[:subset]
        for own, whole in zip(part.parameters(), critic_target.parameters(), strict=True):
            own.data = whole[some]
        return part

    def loss_of(batch: Rows, act_next: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            goal = rew + discount * (target_of()(obs_next, act_next).amin(0) - cost)
        loss: torch.Tensor = (critic(obs, act) - goal).square().mean(1).sum()
        return loss

    def value_of(obs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        q: torch.Tensor = critic(obs, act)
        return q.amin(0) if is_plain else q.mean(0)

    step, pace = follow(critic_target, critic, TAU), (policy_freq, auto_alpha, rows)
    return soft_updates(seed, actor, critic, loss_of, value_of, step, *pace)


def tqc(seed: int) -> Run:
    """5 critics of 25 quantiles, of which the target leaves out the 10 largest."""
    torch.manual_seed(seed)
    actor, critic = mlp(OBS, 64, 2 * ACT), Critics(5, OBS + ACT, 64, out=25)
    critic_target, tau = frozen(critic), (torch.arange(25) + 0.5) / 25

    def loss_of(batch: Rows, act_next: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            pooled = critic_target(obs_next, act_next).transpose(0, 1).reshape(-1, 125).sort(1).values[:, :115]
            goal = rew[:, None] + discount[:, None] * (pooled - cost[:, None])
        return quantile_loss(critic(obs, act), goal, tau) * (5 / 25)  # summed over the critics, a mean over the rest

    def value_of(obs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        q: torch.Tensor = critic(obs, act)
        return q.mean((0, 2))

    return soft_updates(seed, actor, critic, loss_of, value_of, follow(critic_target, critic, TAU), policy_freq=1)


class Norm(nn.Module):
    """Batch renormalisation; by running statistics, unless it is said what share each row has in the batch's."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.mean, self.var, self.batches = torch.zeros(shape), torch.ones(shape), 0

    def forward(self, x: torch.Tensor, shares: torch.Tensor | None = None) -> torch.Tensor:
        if shares is None:
            scale = self.weight * (self.var + 1e-3).rsqrt()
            return torch.addcmul(self.bias - self.mean * scale, x, scale)
        mean = shares @ x
        var = shares @ (x - mean).square()
        std = (var + 1e-3).sqrt()
        weight: torch.Tensor = self.weight
        bias: torch.Tensor = self.bias
        if self.batches >= 100_000:
            with torch.no_grad():
                running = (self.var + 1e-3).sqrt()
                r, d = (std / running).clamp(1 / 3, 3), ((mean - self.mean) / running).clamp(-5, 5)
            weight, bias = weight * r, bias + weight * d
        self.mean.lerp_(mean.detach(), 0.01)
        self.var.lerp_(var.detach(), 0.01)
        self.batches += 1
        scale = weight / std
        return torch.addcmul(bias - mean * scale, x, scale)


class Normed(nn.Module):
    """Layers with a `Norm` before them and after each hidden one; `size` members, or one net."""

    def __init__(self, size_in: int, out: int, size: int | None = None) -> None:
        super().__init__()
        self.size, shape = size, (1, 64) if size is None else (size, 1, 64)
        linear = nn.Linear if size is None else partial(Ensemble, size)
        self.norms = nn.ModuleList([Norm(1, size_in), Norm(*shape), Norm(*shape)])
        self.layers = nn.ModuleList([linear(size_in, 64), linear(64, 64), linear(64, out)])

    def forward(self, x: torch.Tensor, shares: torch.Tensor | None = None) -> torch.Tensor:
        x = self.norms[0](x, shares)
        if self.size is not None:
            x = x.expand(self.size, -1, -1)
        x = self.norms[1](F.relu(self.layers[0](x)), shares)
        out: torch.Tensor = self.layers[2](self.norms[2](F.relu(self.layers[1](x)), shares))
        return out


def crossq(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, critic = Normed(OBS, 2 * ACT), Normed(OBS + ACT, 1, size=2)
    evenly = torch.full((1, 128), 1 / 128)

    def loss_of(batch: Rows, act_next: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        counts = torch.cat((torch.ones(128), (discount > 0).float())).unsqueeze(0)  # what follows an end does not
        both = torch.cat((torch.cat((obs, act), dim=1), torch.cat((obs_next, act_next), dim=1)))
        q, q_next = critic(both, counts / counts.sum()).squeeze(2).chunk(2, dim=1)
        goal = rew + discount * (q_next.detach().amin(0) - cost)
        loss: torch.Tensor = (q - goal).square().mean(1).sum()
        return loss

    def value_of(obs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        q: torch.Tensor = critic(torch.cat((obs, act), dim=1))
        return q.squeeze(2).amin(0)

    optim, learning = partial(Adam, first_moment=0.5), partial(actor, shares=evenly)
    return soft_updates(seed, actor, critic, loss_of, value_of, None, 3, optim=optim, learning=learning)


def discrete_sac(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, critic = mlp(4, 128, 2), Critics(2, 4, 128, out=2)
    critic_target, log_alpha = frozen(critic), torch.tensor(math.log(0.2), requires_grad=True)
    actor_optim, critic_optim = Adam(actor.parameters(), lr=3e-4), Adam(critic.parameters())
    alpha_optim, step = Adam([log_alpha], lr=3e-4), follow(critic_target, critic, TAU)

    def update(batch: Rows) -> object:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            alpha, logp = log_alpha.exp(), actor(obs_next).log_softmax(-1)
            goal = rew + discount * (logp.exp() * (critic_target(obs_next).amin(0) - alpha * logp)).sum(-1)
        loss = (critic(obs).take_along_dim(act[None, :, None], dim=-1).squeeze(-1) - goal).square().mean(1).sum()
        critic_optim.minimise(loss)
        logp = actor(obs).log_softmax(-1)
        with torch.no_grad():
            q = critic(obs).amin(0)
        entropy = -(logp.exp() * logp).sum(-1)
        loss_actor = -(alpha * entropy + (logp.exp() * q).sum(-1)).mean()
        actor_optim.minimise(loss_actor)
        loss_alpha = log_alpha * (entropy.detach().mean() - 0.98 * math.log(2))
        alpha_optim.minimise(loss_alpha)
        step()
        return torch.stack([loss.detach(), loss_actor.detach(), loss_alpha.detach()]).tolist()

    return sampled(seed, 64, update, 4, [actor_optim, critic_optim, alpha_optim], discrete_actions)
