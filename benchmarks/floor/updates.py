"""One update of each algorithm, its sample included, as `ours/updates.py` has them: plain PyTorch and nothing else.

Unit: one update; of on-policy algorithms one pass of all that a rollout of 1,024 rows is good for.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

Run = Callable[[int], dict[str, object]]
Rows = tuple[torch.Tensor, ...]  # obs, act, rew, obs_next, discount
SLOTS, OBS, ACT, GAMMA, TAU = 20_000, 17, 6, 0.99, 0.005
STEPS, ENVS, GAE_LAMBDA = 128, 8, 0.95
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

    def __init__(self) -> None:
        super().__init__()
        self.net, self.log_std = mlp(OBS, 64, ACT), nn.Parameter(torch.zeros(ACT))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        mean: torch.Tensor = self.net(obs)
        return mean

    def logp(self, mean: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        scaled = (act - mean) * (-self.log_std).exp()
        return -(0.5 * scaled.square() + self.log_std + 0.5 * math.log(2 * math.pi)).sum(1)

    @torch.no_grad()
    def draw(self, mean: torch.Tensor) -> torch.Tensor:
        return (mean + torch.randn_like(mean) * self.log_std.exp()).clamp(-1, 1)


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


class Adam(torch.optim.Adam):
    """Adam whose step takes the gradients of its own parameters alone."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float = 1e-3, first_moment: float = 0.9) -> None:
        self.own = list(params)
        super().__init__(self.own, lr=lr, betas=(first_moment, 0.999), fused=True)

    def minimise(self, loss: torch.Tensor, max_norm: float | None = None) -> None:
        for parameter, gradient in zip(self.own, torch.autograd.grad(loss, self.own), strict=True):
            parameter.grad = gradient
        if max_norm is not None:
            nn.utils.clip_grad_norm_(self.own, max_norm)
        self.step()


def follow(target: nn.Module, online: nn.Module, tau: float) -> Callable[[], None]:
    pair: tuple[list[torch.Tensor], list[torch.Tensor]] = (list(target.parameters()), list(online.parameters()))

    @torch.no_grad()
    def step() -> None:
        torch._foreach_lerp_(*pair, tau)

    return step


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
    optims: list[Adam],
    actions: Callable[[np.random.Generator], np.ndarray],
    columns: int = 5,
) -> Run:
    """Update from samples of a filled store; of its first columns alone where no more are looked at."""
    learned = sum(parameter.numel() for optim in optims for parameter in optim.own)
    rng = np.random.default_rng(seed)
    act = actions(rng)
    terminated = np.arange(SLOTS) % 50 == 49
    store = (
        rng.standard_normal((SLOTS, obs), np.float32),
        act,
        np.ones(SLOTS, np.float32),
        rng.standard_normal((SLOTS, obs), np.float32),
        (GAMMA * ~terminated).astype(np.float32),
    )

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            at = rng.integers(0, SLOTS, rows)
            update(tuple(torch.from_numpy(column[at]) for column in store[:columns]))
        return {"updates": count, "parameters": learned}

    return run


# -- values of discrete actions: batch 64, MLP 128x2, a hard target every 500 updates ----------------------------------


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


def c51(seed: int) -> Run:
    torch.manual_seed(seed)
    support, index = torch.linspace(-10, 10, 51), torch.arange(51.0).unsqueeze(-1)

    def loss_of(batch: Rows, net: nn.Module, target: nn.Module) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            probs = target(obs_next).reshape(-1, 2, 51).softmax(-1)
            best = taken(probs, (probs @ support).argmax(1))
            place = ((rew[:, None] + discount[:, None] * support).clamp(-10, 10) + 10) * 2.5
            projected = ((1 - (place.unsqueeze(1) - index).abs()).clamp_(min=0) @ best.unsqueeze(-1)).squeeze(-1)
        return -(projected * taken(net(obs).reshape(-1, 2, 51).log_softmax(-1), act)).sum(-1).mean()

    return q_learning(seed, mlp(4, 128, 2 * 51), loss_of)


def quantile_loss(quantiles: torch.Tensor, goal: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    """[B, N], [B, M], [N] or [B, N] -> scalar."""
    difference = goal.unsqueeze(-2) - quantiles.unsqueeze(-1)
    huber = F.huber_loss(difference, torch.zeros_like(difference), reduction="none")
    weight = (tau.unsqueeze(-1) - (difference.detach() < 0).float()).abs()
    return (weight * huber).mean(-1).sum(-1).mean()


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


# -- actors and critics: batch 128, MLP 64x2 ---------------------------------------------------------------------------


def deterministic(seed: int, *, twin: bool, lr: float = 1e-3, alpha: float | None = None) -> Run:
    """DDPG; with `twin` TD3, with `alpha` TD3+BC."""
    torch.manual_seed(seed)
    actor, critic = mlp(OBS, 64, ACT), Critics(2 if twin else 1, OBS + ACT, 64)
    actor_target, critic_target = frozen(actor), frozen(critic)
    actor_optim, critic_optim = Adam(actor.parameters(), lr), Adam(critic.parameters(), lr)
    steps, updates = (follow(actor_target, actor, TAU), follow(critic_target, critic, TAU)), 0

    def update(batch: Rows) -> object:
        nonlocal updates
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            act_next = actor_target(obs_next).tanh()
            if twin:
                act_next = (act_next + (torch.randn_like(act_next) * 0.2).clamp(-0.5, 0.5)).clamp(-1, 1)
            goal = rew + discount * critic_target(obs_next, act_next).amin(0)
        losses = [(critic(obs, act) - goal).square().mean(1).sum()]
        critic_optim.minimise(losses[0])
        updates += 1
        if not twin or updates % 2 == 0:
            act_now = actor(obs).tanh()
            q = critic(obs, act_now)[0]
            if alpha is None:
                losses.append(-q.mean())
            else:
                losses.append((act_now - act).square().mean() - alpha / q.detach().abs().mean() * q.mean())
            actor_optim.minimise(losses[1])
            for step in steps:
                step()
        return torch.stack([loss.detach() for loss in losses]).tolist()

    return sampled(seed, 128, update, OBS, [actor_optim, critic_optim], box_actions)


def squashed(params: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw actions; -> (actions, log-densities)."""
    mean, log_std = params.chunk(2, dim=1)
    log_std, noise = log_std.clamp(-20, 2), torch.randn_like(mean)
    raw = mean + log_std.exp() * noise
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    return raw.tanh(), (density - 2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(1)


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

    return sampled(seed, rows, update, OBS, [actor_optim, critic_optim, alpha_optim], box_actions)


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


# -- data sets, batch 128, MLP 64x2; of discrete actions batch 64, MLP 128x2 -------------------------------------------


def bc(seed: int) -> Run:
    torch.manual_seed(seed)
    actor = Gaussian()
    optim = Adam(actor.parameters())

    def update(batch: Rows) -> float:
        obs, act = batch
        loss = -actor.logp(actor(obs), act).mean()
        optim.minimise(loss)
        return loss.item()

    return sampled(seed, 128, update, OBS, [optim], box_actions, columns=2)


def iql(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, critic, value = Gaussian(), Critics(2, OBS + ACT, 64), mlp(OBS, 64, 1)
    critic_target = frozen(critic)
    optims = [Adam(net.parameters(), lr=3e-4) for net in (actor, critic, value)]
    step = follow(critic_target, critic, TAU)

    def update(batch: Rows) -> object:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            q = critic_target(obs, act).amin(0)
            goal = rew + discount * value(obs_next).squeeze(1)
        adv = q - value(obs).squeeze(1)
        loss_value = (torch.where(adv < 0, 0.3, 0.7) * adv.square()).mean()
        optims[2].minimise(loss_value)
        loss_critic = (critic(obs, act) - goal).square().mean(1).sum()
        optims[1].minimise(loss_critic)
        weight = (3 * adv.detach()).exp().clamp(max=100)
        loss_actor = -(weight * actor.logp(actor(obs), act)).mean()
        optims[0].minimise(loss_actor)
        step()
        return torch.stack([loss.detach() for loss in (loss_value, loss_critic, loss_actor)]).tolist()

    return sampled(seed, 128, update, OBS, optims, box_actions)


def awac(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, critic = Gaussian(), Critics(2, OBS + ACT, 64)
    critic_target = frozen(critic)
    optims = [Adam(net.parameters(), lr=3e-4) for net in (actor, critic)]
    step = follow(critic_target, critic, TAU)

    def update(batch: Rows) -> object:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            goal = rew + discount * critic_target(obs_next, actor.draw(actor(obs_next))).amin(0)
        loss_critic = (critic(obs, act) - goal).square().mean(1).sum()
        optims[1].minimise(loss_critic)
        mean = actor(obs)
        with torch.no_grad():
            adv = critic(obs, act).amin(0) - critic(obs, actor.draw(mean)).amin(0)
            weight = adv.exp().clamp(max=100)
        loss_actor = -(weight * actor.logp(mean, act)).mean()
        optims[0].minimise(loss_actor)
        step()
        return torch.stack([loss_critic.detach(), loss_actor.detach()]).tolist()

    return sampled(seed, 128, update, OBS, optims, box_actions)


def discrete_crr(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, critic, updates = mlp(4, 128, 2), mlp(4, 128, 2), 0
    actor_target, critic_target = frozen(actor), frozen(critic)
    actor_optim, critic_optim = Adam(actor.parameters()), Adam(critic.parameters())
    copies = follow(actor_target, actor, 1.0), follow(critic_target, critic, 1.0)

    def update(batch: Rows) -> object:
        nonlocal updates
        obs, act, rew, obs_next, discount = batch
        at = act.unsqueeze(1)
        with torch.no_grad():
            goal = rew + discount * (actor_target(obs_next).softmax(1) * critic_target(obs_next)).sum(1)
        q, logp = critic(obs), actor(obs).log_softmax(1)
        q_taken = q.gather(1, at).squeeze(1)
        loss_critic = ((q_taken - goal).square() + 10 * (q.logsumexp(1) - q_taken)).mean()
        critic_optim.minimise(loss_critic)
        with torch.no_grad():
            weight = (q_taken - (logp.exp() * q).sum(1)).exp().clamp(max=20)
        loss_actor = -(weight * logp.gather(1, at).squeeze(1)).mean()
        actor_optim.minimise(loss_actor)
        updates += 1
        if updates % 100 == 0:
            for copy_over in copies:
                copy_over()
        return torch.stack([loss_critic.detach(), loss_actor.detach()]).tolist()

    return sampled(seed, 64, update, 4, [actor_optim, critic_optim], discrete_actions)


# -- rollouts of 8 envs x 128 steps: MLP 64x2 --------------------------------------------------------------------------


def on_policy(
    seed: int,
    *,
    epochs: int,
    batch: int,
    gae_lambda: float,
    clip: float | None,
    entropy_coef: float,
    width: int = 64,
) -> Run:
    """PPO; without `clip` A2C, whose optimiser is RMSprop."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    actor, critic = mlp(4, width, 2, nn.Tanh), mlp(4, width, 1, nn.Tanh)
    params = [*actor.parameters(), *critic.parameters()]
    optim: torch.optim.Optimizer = torch.optim.RMSprop(params, lr=7e-4, alpha=0.99, eps=1e-5)
    if clip is not None:
        optim = torch.optim.Adam(params, lr=3e-4, eps=1e-5, fused=True)
    obs, obs_next = (rng.standard_normal((STEPS, ENVS, 4), np.float32) for _ in range(2))
    act, rew = rng.integers(0, 2, (STEPS, ENVS)), np.ones((STEPS, ENVS), np.float32)
    terminated = rng.random((STEPS, ENVS)) < 0.05
    cut = terminated | (np.arange(STEPS)[:, None] == STEPS - 1)
    with torch.no_grad():
        logp_old = actor(torch.from_numpy(obs).view(-1, 4)).log_softmax(1)
        logp_old = logp_old.gather(1, torch.from_numpy(act).view(-1, 1)).squeeze(1)

    def advantages(values: np.ndarray) -> np.ndarray:
        values_next = np.empty_like(values)
        values_next[:-1] = values[1:]
        with torch.no_grad():
            values_next[cut] = critic(torch.from_numpy(obs_next[cut])).squeeze(1).numpy()
        delta, carry = rew + GAMMA * values_next * ~terminated - values, np.float32(GAMMA * gae_lambda) * ~cut
        adv, running = np.empty_like(values), np.zeros(ENVS, np.float32)
        for t in range(STEPS - 1, -1, -1):
            adv[t] = running = delta[t] + carry[t] * running
        return adv

    def update() -> float:
        rows = torch.from_numpy(obs.copy()).view(-1, 4)
        with torch.no_grad():
            values = critic(rows).view(STEPS, ENVS).numpy()
        adv = advantages(values)
        returns, adv_rows = torch.from_numpy(adv + values).view(-1), torch.from_numpy(adv).view(-1)
        act_rows, losses = torch.from_numpy(act.copy()).view(-1, 1), []
        for _ in range(epochs):
            for at in torch.split(torch.randperm(STEPS * ENVS), batch):
                logp_all, mb_adv = actor(rows[at]).log_softmax(1), adv_rows[at]
                logp = logp_all.gather(1, act_rows[at]).squeeze(1)
                loss = -(mb_adv * logp).mean()
                if clip is not None:
                    mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
                    ratio = (logp - logp_old[at]).exp()
                    loss = -torch.min(ratio * mb_adv, ratio.clamp(1 - clip, 1 + clip) * mb_adv).mean()
                loss = loss + 0.5 * (returns[at] - critic(rows[at]).squeeze(1)).square().mean()
                if entropy_coef:
                    loss = loss + entropy_coef * (logp_all.exp() * logp_all).sum(1).mean()
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(params, 0.5)
                optim.step()
                losses.append(loss.detach())
        return torch.stack(losses).mean().item()

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            update()
        return {"updates": count, "parameters": sum(parameter.numel() for parameter in params)}

    return run


def reinforce(seed: int) -> Run:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    actor = mlp(4, 64, 2, nn.Tanh)
    optim, seen, mean, var = Adam(actor.parameters()), 0, 0.0, 1.0
    obs = rng.standard_normal((STEPS, ENVS, 4), np.float32)
    act, rew = rng.integers(0, 2, (STEPS, ENVS)), np.ones((STEPS, ENVS), np.float32)
    terminated = rng.random((STEPS, ENVS)) < 0.05
    cut = terminated | (np.arange(STEPS)[:, None] == STEPS - 1)

    def update() -> object:
        nonlocal seen, mean, var
        paid, carry = rew + np.float32(GAMMA * mean) * (cut & ~terminated), np.float32(GAMMA) * ~cut
        returns, running = np.empty_like(rew), np.zeros(ENVS, np.float32)
        for t in range(STEPS - 1, -1, -1):
            returns[t] = running = paid[t] + carry[t] * running
        new, count = float(returns.mean()), returns.size
        share, difference = count / (seen + count), new - mean
        var += share * (float(returns.var()) - var + (1 - share) * difference**2)
        mean, seen = mean + share * difference, seen + count
        scaled = torch.from_numpy((returns - np.float32(mean)) / np.float32(math.sqrt(var) + 1e-8)).view(-1)
        logp = actor(torch.from_numpy(obs.copy()).view(-1, 4)).log_softmax(1)
        taken = logp.gather(1, torch.from_numpy(act.copy()).view(-1, 1)).squeeze(1)
        loss, entropy = -(taken * scaled).mean(), -(logp.detach().exp() * logp.detach()).sum(1).mean()
        optim.minimise(loss)
        return torch.stack([loss.detach(), entropy]).tolist()

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            update()
        return {"updates": count, "parameters": sum(parameter.numel() for parameter in optim.own)}

    return run


# -- frames: batch 32 of 4x84x84, Nature CNN ---------------------------------------------------------------------------


def dqn_large(seed: int) -> Run:
    """From 2,000 single frames, stacked to 4 when they are drawn, of a state and its successor in one gather of 5."""
    torch.manual_seed(seed)
    rng, slots, steps = np.random.default_rng(seed), 2_000, 50
    frames, last = (rng.integers(0, 256, (count, 84, 84), np.uint8) for count in (slots, slots // steps))
    act, rew, slot = rng.integers(0, 6, slots), np.ones(slots, np.float32), np.arange(slots)
    terminated, start = slot % steps == steps - 1, slot // steps * steps
    discount, back = (GAMMA * ~terminated).astype(np.float32), np.arange(3, -2, -1)
    net = nn.Sequential(
        *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(inplace=True), nn.Conv2d(32, 64, 4, 2), nn.ReLU(inplace=True)),
        *(nn.Conv2d(64, 64, 3), nn.ReLU(inplace=True), nn.Flatten()),
        *(nn.Linear(3_136, 512), nn.ReLU(inplace=True), nn.Linear(512, 6)),
    )
    target, optim, updates = frozen(net), Adam(net.parameters()), 0
    copy_over = follow(target, net, 1.0)

    def update() -> float:
        nonlocal updates
        at = rng.integers(0, slots, 32)
        five = frames.take(np.maximum(at[:, None] - back, start[at][:, None]), axis=0, mode="clip")
        five[terminated[at], -1] = last[at[terminated[at]] // steps]
        pixels = torch.from_numpy(five).float().div_(255)
        # with channels last the way back takes less time
        obs, obs_next = pixels[:, :4].contiguous(memory_format=torch.channels_last), pixels[:, 1:]
        taken, paid, kept = (torch.from_numpy(column[at]) for column in (act, rew, discount))
        with torch.no_grad():
            best = net(obs_next).argmax(1, keepdim=True)
            goal = paid + kept * target(obs_next).gather(1, best).squeeze(1)
        loss: torch.Tensor = (net(obs).gather(1, taken.unsqueeze(1)).squeeze(1) - goal).square().mean()
        optim.minimise(loss)
        updates += 1
        if updates % 500 == 0:
            copy_over()
        return loss.item()

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            update()
        return {"updates": count, "parameters": sum(parameter.numel() for parameter in optim.own)}

    return run


PPO = partial(on_policy, epochs=10, batch=64, gae_lambda=0.95, clip=0.2, entropy_coef=0.0)
ROWS = {
    "update_c51": c51,
    "update_qrdqn": qrdqn,
    "update_iqn": iqn,
    "update_discrete_sac": discrete_sac,
    "update_branching_dqn": branching_dqn,
    "update_ddpg": partial(deterministic, twin=False),
    "update_td3": partial(deterministic, twin=True),
    "update_sac": partial(soft, size=2, policy_freq=1),
    "update_tqc": tqc,
    "update_crossq": crossq,
    "update_droq": partial(soft, size=2, policy_freq=20, dropout=0.01),
    "update_redq": partial(soft, size=10, subset=2, policy_freq=20, auto_alpha=False),
    "update_td3_bc": partial(deterministic, twin=True, lr=3e-4, alpha=2.5),
    "update_iql": iql,
    "update_awac": awac,
    "update_bc": bc,
    "update_discrete_bcq": discrete_bcq,
    "update_discrete_cql": discrete_cql,
    "update_discrete_crr": discrete_crr,
    "update_ppo": PPO,
    "update_a2c": partial(on_policy, epochs=1, batch=1_024, gae_lambda=1.0, clip=None, entropy_coef=0.01),
    "update_reinforce": reinforce,
    "update_sac_large": partial(soft, size=2, policy_freq=1, width=256, rows=256),
    "update_dqn_large": dqn_large,
    "update_ppo_large": partial(PPO, width=256),
}
