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


class Critics(nn.Module):
    """K values [K, B] of observations and actions, or of all of `out` actions [K, B, out] of observations."""

    def __init__(self, size: int, size_in: int, width: int, out: int = 1) -> None:
        super().__init__()
        self.size, self.out = size, out
        layers = [Ensemble(size, size_in, width), nn.ReLU(), Ensemble(size, width, width), nn.ReLU()]
        self.net = nn.Sequential(*layers, Ensemble(size, width, out))

    def forward(self, *x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.net(torch.cat(x, dim=1).expand(self.size, -1, -1))
        return y.squeeze(2) if self.out == 1 else y


def mlp(size_in: int, width: int, out: int, layer: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size_in, width), layer(), nn.Linear(width, width), layer(), nn.Linear(width, out))


def frozen(net: nn.Module) -> nn.Module:
    return copy.deepcopy(net).requires_grad_(False)


class Adam(torch.optim.Adam):
    """Adam whose step takes the gradients of its own parameters alone."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float = 1e-3, eps: float = 1e-8) -> None:
        self.own = list(params)
        super().__init__(self.own, lr=lr, eps=eps, fused=True)

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
) -> Run:
    """Update from samples of a filled store."""
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
            update(tuple(torch.from_numpy(column[at]) for column in store))
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


def deterministic(seed: int, *, twin: bool) -> Run:
    """DDPG; with `twin` TD3."""
    torch.manual_seed(seed)
    actor, critic = mlp(OBS, 64, ACT), Critics(2 if twin else 1, OBS + ACT, 64)
    actor_target, critic_target = frozen(actor), frozen(critic)
    actor_optim, critic_optim = Adam(actor.parameters()), Adam(critic.parameters())
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
            losses.append(-critic(obs, actor(obs).tanh())[0].mean())
            actor_optim.minimise(losses[1])
            for step in steps:
                step()
        return torch.stack([loss.detach() for loss in losses]).tolist()

    return sampled(seed, 128, update, OBS, [actor_optim, critic_optim], box_actions)


def soft(
    seed: int,
    *,
    size: int,
    subset: int | None,
    policy_freq: int,
    auto_alpha: bool,
    width: int = 64,
    rows: int = 128,
) -> Run:
    """SAC; with a subset REDQ."""
    torch.manual_seed(seed)
    actor, critic = mlp(OBS, width, 2 * ACT), Critics(size, OBS + ACT, width)
    critic_target, log_alpha, updates = frozen(critic), torch.tensor(math.log(0.2), requires_grad=True), 0
    part = frozen(Critics(subset or size, OBS + ACT, width))  # of the target critics
    actor_optim, critic_optim = Adam(actor.parameters()), Adam(critic.parameters())
    alpha_optim, step = Adam([log_alpha], lr=3e-4), follow(critic_target, critic, TAU)

    def act_logp(obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = actor(obs).chunk(2, dim=1)
        log_std, noise = log_std.clamp(-20, 2), torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        return raw.tanh(), (density - 2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(1)

    def target_of() -> nn.Module:
        if subset is None:
            return critic_target
        some = torch.randperm(size)[:subset]
        for own, whole in zip(part.parameters(), critic_target.parameters(), strict=True):
            own.data = whole[some]
        return part

    def update(batch: Rows) -> object:
        nonlocal updates
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            alpha = log_alpha.exp()
            act_next, logp_next = act_logp(obs_next)
            goal = rew + discount * (target_of()(obs_next, act_next).amin(0) - alpha * logp_next)
        losses = [(critic(obs, act) - goal).square().mean(1).sum()]
        critic_optim.minimise(losses[0])
        updates += 1
        if updates % policy_freq == 0:
            act_now, logp = act_logp(obs)
            q = critic(obs, act_now)
            losses.append((alpha * logp - (q.amin(0) if subset is None else q.mean(0))).mean())
            actor_optim.minimise(losses[1])
            if auto_alpha:
                losses.append(-log_alpha * (logp.detach().mean() - ACT))
                alpha_optim.minimise(losses[2])
        step()
        return torch.stack([loss.detach() for loss in losses]).tolist()

    return sampled(seed, rows, update, OBS, [actor_optim, critic_optim, alpha_optim], box_actions)


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
    "update_sac": partial(soft, size=2, subset=None, policy_freq=1, auto_alpha=True),
    "update_redq": partial(soft, size=10, subset=2, policy_freq=20, auto_alpha=False),
    "update_ppo": PPO,
    "update_a2c": partial(on_policy, epochs=1, batch=1_024, gae_lambda=1.0, clip=None, entropy_coef=0.01),
    "update_sac_large": partial(soft, size=2, subset=None, policy_freq=1, auto_alpha=True, width=256, rows=256),
    "update_dqn_large": dqn_large,
    "update_ppo_large": partial(PPO, width=256),
}
