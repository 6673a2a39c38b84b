"""Rollouts of 8 envs x 128 steps: MLP 64x2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from floor.algorithms.common import ENVS, GAMMA, STEPS, Adam, Categorical, Gaussian, Run, mlp, repeated
from torch import nn

Actor = Categorical | Gaussian
Objective = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]
ROWS = STEPS * ENVS


class Rollout:
    """What happened, observations of `size` numbers; actions are one of two, or one number where they `move`."""

    def __init__(self, seed: int, size: int = 4, *, moves: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.obs, self.obs_next = (rng.standard_normal((STEPS, ENVS, size), np.float32) for _ in range(2))
        self.act = rng.integers(0, 2, (STEPS, ENVS)) if not moves else rng.random((STEPS, ENVS, 1), np.float32)
        self.rew = np.ones((STEPS, ENVS), np.float32)
        self.terminated = rng.random((STEPS, ENVS)) < 0.05
        self.cut = self.terminated | (np.arange(STEPS)[:, None] == STEPS - 1)

    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations and actions [N, ...], copied as a buffer's rollout is."""
        return tuple(torch.from_numpy(column.copy()).flatten(0, 1) for column in (self.obs, self.act))  # type: ignore[return-value]

    def logp(self, actor: Actor) -> torch.Tensor:
        obs, act = self.rows()
        with torch.no_grad():
            return actor.logp(actor(obs), act)

    def values_next(self, critic: nn.Module, values: np.ndarray) -> np.ndarray:
        following = np.empty_like(values)
        following[:-1] = values[1:]
        with torch.no_grad():
            following[self.cut] = critic(torch.from_numpy(self.obs_next[self.cut])).squeeze(1).numpy()
        return following * ~self.terminated

    def advantages(
        self, critic: nn.Module, obs: torch.Tensor, gae_lambda: float, rew: np.ndarray | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (advantages, returns), both [N]."""
        with torch.no_grad():
            values = critic(obs).view(STEPS, ENVS).numpy()
        delta = (self.rew if rew is None else rew) + GAMMA * self.values_next(critic, values) - values
        adv = carried_back(delta, np.float32(GAMMA * gae_lambda) * ~self.cut)
        return torch.from_numpy(adv).view(-1), torch.from_numpy(adv + values).view(-1)


def carried_back(delta: np.ndarray, carry: np.ndarray) -> np.ndarray:
    sums, running = np.empty_like(delta), np.zeros(ENVS, np.float32)
    for t in range(STEPS - 1, -1, -1):
        sums[t] = running = delta[t] + carry[t] * running
    return sums


def standardised(adv: torch.Tensor) -> torch.Tensor:
    return (adv - adv.mean()) / (adv.std() + 1e-8)


def minibatches(columns: Sequence[torch.Tensor], size: int) -> Iterator[list[torch.Tensor]]:
    for at in torch.split(torch.randperm(ROWS), size):
        yield [column[at] for column in columns]


def clipped(logp: torch.Tensor, logp_old: torch.Tensor, adv: torch.Tensor, clip: float) -> torch.Tensor:
    adv, ratio = standardised(adv), (logp - logp_old).exp()
    return -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()


def drawn_back(logp: torch.Tensor, logp_old: torch.Tensor, adv: torch.Tensor, clip: float) -> torch.Tensor:
    adv, ratio = standardised(adv), (logp - logp_old).exp()
    return (adv.abs() / (2 * clip) * (ratio - 1).square() - ratio * adv).mean()


class Learner:
    """Passes of one optimiser over minibatches: PPO's; without `clip` A2C's, whose optimiser is RMSprop."""

    def __init__(
        self,
        actor: Actor,
        critic: nn.Module,
        *,
        epochs: int,
        batch: int,
        clip: float | None,
        entropy_coef: float,
        objective: Objective = clipped,
    ) -> None:
        self.actor, self.critic, self.clip, self.entropy_coef = actor, critic, clip, entropy_coef
        self.epochs, self.batch, self.objective = epochs, batch, objective
        self.params = [*actor.parameters(), *critic.parameters()]
        self.optim: torch.optim.Optimizer = torch.optim.RMSprop(self.params, lr=7e-4, alpha=0.99, eps=1e-5)
        if clip is not None:
            self.optim = torch.optim.Adam(self.params, lr=3e-4, eps=1e-5, fused=True)

    def learn(self, *columns: torch.Tensor) -> float:
        """From obs, act, logp, adv, returns, all [N, ...]."""
        losses = []
        for _ in range(self.epochs):
            for obs, act, logp_old, adv, returns in minibatches(columns, self.batch):
                params = self.actor(obs)
                logp = self.actor.logp(params, act)
                loss = -(adv * logp).mean() if self.clip is None else self.objective(logp, logp_old, adv, self.clip)
                loss = loss + 0.5 * (returns - self.critic(obs).squeeze(1)).square().mean()
                if self.entropy_coef:
                    loss = loss - self.entropy_coef * self.actor.entropy(params).mean()
                self.step(loss)
                losses.append(loss.detach())
        return torch.stack(losses).mean().item()

    def step(self, loss: torch.Tensor) -> None:
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 0.5)
        self.optim.step()


def on_policy(
    seed: int,
    *,
    epochs: int,
    batch: int,
    gae_lambda: float,
    clip: float | None,
    entropy_coef: float,
    width: int = 64,
    objective: Objective = clipped,
) -> Run:
    """PPO, with another objective SPO; without `clip` A2C."""
    torch.manual_seed(seed)
    actor, critic = Categorical(width), mlp(4, width, 1, nn.Tanh)
    rollout = Rollout(seed)
    logp_old = rollout.logp(actor)
    settings = {"clip": clip, "entropy_coef": entropy_coef, "objective": objective}
    learner = Learner(actor, critic, epochs=epochs, batch=batch, **settings)

    def update() -> None:
        obs, act = rollout.rows()
        learner.learn(obs, act, logp_old, *rollout.advantages(critic, obs, gae_lambda))

    return repeated(update, learner.params)


def reinforce(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, rollout = Categorical(), Rollout(seed)
    optim, seen, mean, var = Adam(actor.parameters()), 0, 0.0, 1.0
    terminated, cut = rollout.terminated, rollout.cut

    def update() -> object:
        nonlocal seen, mean, var
        paid = rollout.rew + np.float32(GAMMA * mean) * (cut & ~terminated)
        returns = carried_back(paid, np.float32(GAMMA) * ~cut)
        new, count = float(returns.mean()), returns.size
        share, difference = count / (seen + count), new - mean
        var += share * (float(returns.var()) - var + (1 - share) * difference**2)
        mean, seen = mean + share * difference, seen + count
        scaled = torch.from_numpy((returns - np.float32(mean)) / np.float32(math.sqrt(var) + 1e-8)).view(-1)
        obs, act = rollout.rows()
        params = actor(obs)
        loss, entropy = -(actor.logp(params, act) * scaled).mean(), actor.entropy(params.detach()).mean()
        optim.minimise(loss)
        return torch.stack([loss.detach(), entropy]).tolist()

    return repeated(update, optim.own)


def natural(seed: int, *, searches: bool) -> Run:
    """NPG; with `searches` TRPO."""
    torch.manual_seed(seed)
    actor, critic, rollout = Categorical(), mlp(4, 64, 1, nn.Tanh), Rollout(seed)
    params, optim = list(actor.parameters()), Adam(critic.parameters())
    sizes = [parameter.numel() for parameter in params]

    def flat(output: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(output, params, weights, retain_graph=True)])

    def parts(vector: torch.Tensor) -> list[torch.Tensor]:
        return [part.view_as(p) for part, p in zip(torch.split(vector, sizes), params, strict=True)]

    def natural_gradient(loss: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (F^-1 g, g F^-1 g)."""
        gradient, probs = flat(loss), out.detach().exp()
        given = torch.zeros_like(out, requires_grad=True)
        back = torch.autograd.grad(out, params, given, create_graph=True)
        residual = gradient.double()
        x, direction, square = torch.zeros_like(residual), residual.clone(), residual @ residual
        for _ in range(10):
            if square < 1e-10:
                break
            (change,) = torch.autograd.grad(back, given, parts(direction.float()), retain_graph=True)
            weighted = probs * change
            weighted = (weighted - probs * weighted.sum(1, keepdim=True)) / ROWS
            image = (flat(out, weighted) + 0.1 * direction.float()).double()
            length = square / (direction @ image)
            x += length * direction
            residual -= length * image
            before, square = square, residual @ residual
            direction = residual + (square / before) * direction
        return x.float(), (x @ gradient.double()).float()

    @torch.no_grad()
    def move(step: torch.Tensor) -> None:
        torch._foreach_add_(params, parts(step))

    def update() -> object:
        obs, act = rollout.rows()
        adv, returns = rollout.advantages(critic, obs, 0.95)
        adv, out = standardised(adv), actor(obs)
        logp, before = actor.logp(out, act), out.detach()
        loss = -((logp - logp.detach()).exp() * adv).mean() if searches else -(logp * adv).mean()
        direction, curvature = natural_gradient(loss, out)
        found: list[torch.Tensor] = [loss.detach()]
        if searches:
            step, share = -(0.02 / curvature.clamp(min=1e-12)).sqrt() * direction, 1.0
            for _ in range(10):
                move(share * step)
                with torch.no_grad():
                    after = actor(obs)
                    kl = (before.exp() * (before - after)).sum(1).mean()
                    gain = ((actor.logp(after, act) - logp).exp() * adv).mean()
                if kl <= 0.01 and -gain < loss:
                    break
                move(-share * step)
                share *= 0.8
        else:
            move(-1e-4 * direction)
            with torch.no_grad():
                after = actor(obs)
                kl = (before.exp() * (before - after)).sum(1).mean()
        found.append(kl)
        for _ in range(5):
            loss_value = (critic(obs).squeeze(1) - returns).square().mean()
            optim.minimise(loss_value)
        return torch.stack([*found, loss_value.detach()]).tolist()

    return repeated(update, optim.own)


def impala(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, critic, rollout = Categorical(), mlp(4, 64, 1, nn.Tanh), Rollout(seed)
    optim = Adam([*actor.parameters(), *critic.parameters()], lr=6e-4)
    logp_old = rollout.logp(actor)

    def update() -> object:
        obs, act = rollout.rows()
        params, value = actor(obs), critic(obs).squeeze(1)
        logp = actor.logp(params, act)
        values, ratio = value.detach().view(STEPS, ENVS).numpy(), (logp.detach() - logp_old).exp()
        rho = ratio.clamp(max=1).view(STEPS, ENVS).numpy()
        following = rollout.values_next(critic, values)
        delta = rho * (rollout.rew + GAMMA * following - values)
        targets = values + carried_back(delta, np.float32(GAMMA) * rho * ~rollout.cut)
        targets_next = np.concatenate((targets[1:], following[-1:]))
        adv = rho * (rollout.rew + GAMMA * np.where(rollout.cut, following, targets_next) - values)
        loss_policy = -(torch.from_numpy(adv).view(-1) * logp).mean()
        loss_value = (value - torch.from_numpy(targets).view(-1)).square().mean()
        entropy = actor.entropy(params).mean()
        loss = loss_policy + 0.5 * loss_value - 0.01 * entropy
        optim.minimise(loss, max_norm=40)
        return torch.stack([loss.detach(), loss_policy.detach(), loss_value.detach(), entropy.detach()]).tolist()

    return repeated(update, optim.own)


def ppg(seed: int, *, phase: int) -> Run:
    """With an auxiliary phase of 6 passes after every `phase` rollouts."""
    torch.manual_seed(seed)
    actor, critic, auxiliary, rollout = Categorical(), mlp(4, 64, 1, nn.Tanh), nn.Linear(64, 1), Rollout(seed)
    learner = Learner(actor, critic, epochs=1, batch=64, clip=0.2, entropy_coef=0.01)
    learner.params += auxiliary.parameters()
    learner.optim = torch.optim.Adam(learner.params, lr=5e-4, eps=1e-5, fused=True)
    logp_old, kept = rollout.logp(actor), []

    def learn_auxiliary(obs: torch.Tensor, before: torch.Tensor, returns: torch.Tensor) -> None:
        features = actor.net[:-1](obs)
        after = actor.net[-1](features).log_softmax(1)
        kl = (before.exp() * (before - after)).sum(1).mean()
        errors = [(head.squeeze(1) - returns).square().mean() for head in (auxiliary(features), critic(obs))]
        learner.step(0.5 * errors[0] + kl + 0.5 * errors[1])

    def update() -> None:
        obs, act = rollout.rows()
        adv, returns = rollout.advantages(critic, obs, 0.95)
        learner.learn(obs, act, logp_old, adv, returns)
        kept.append((obs, returns))
        if len(kept) == phase:
            with torch.no_grad():
                rows = [(obs, actor(obs), returns) for obs, returns in kept]
            for _ in range(6):
                for columns in rows:
                    for minibatch in minibatches(columns, 64):
                        learn_auxiliary(*minibatch)
            kept.clear()

    return repeated(update, learner.params)


def gail(seed: int) -> Run:
    """PPO for the reward that four steps of a discriminator make, beside 1,024 of 20,000 rows of an expert."""
    torch.manual_seed(seed)
    actor, critic = Gaussian(3, 1, nn.Tanh), mlp(3, 64, 1, nn.Tanh)
    told, rollout, rng = mlp(4, 64, 1, nn.Tanh), Rollout(seed, 3, moves=True), np.random.default_rng(seed)
    expert_obs, expert_act = (rng.standard_normal((20_000, size), np.float32) for size in (3, 1))
    logp_old, optim = rollout.logp(actor), Adam(told.parameters(), lr=3e-4)
    learner = Learner(actor, critic, epochs=10, batch=64, clip=0.2, entropy_coef=0.0)

    def update() -> None:
        obs, act = rollout.rows()
        at = rng.integers(0, 20_000, ROWS)
        theirs = torch.from_numpy(np.concatenate((expert_obs[at], expert_act[at]), axis=1))
        mine = torch.cat((obs, act.clamp(-1, 1)), dim=1)
        for own, other in zip(torch.split(torch.randperm(ROWS), 256), torch.split(theirs, 256), strict=True):
            optim.minimise(F.softplus(told(mine[own])).mean() + F.softplus(-told(other)).mean())
        with torch.no_grad():
            rew = F.softplus(told(mine)).view(STEPS, ENVS).numpy()
        learner.learn(obs, act, logp_old, *rollout.advantages(critic, obs, 0.95, rew))

    return repeated(update, [*learner.params, *optim.own])


def psrl(seed: int) -> Run:
    """What random actions did on FrozenLake: count, draw a model, find what is best in it by policy iteration."""
    rng, states, actions = np.random.default_rng(seed), 16, 4
    counts, total, squares = np.zeros((states, actions, states + 1)), *(np.zeros((states, actions)) for _ in range(2))
    happened = frozen_lake(rng)
    here = np.arange(states)

    def update() -> tuple[float, ...]:
        state, act, following, rew = (column.copy() for column in happened)
        np.add.at(counts, (state, act, following), 1.0)
        np.add.at(total, (state, act), rew)
        np.add.at(squares, (state, act), rew**2)
        likely = counts + 1 / (states + 1)
        surprise = np.log(likely.sum(-1)[state, act] / likely[state, act, following]).mean()
        weights = rng.standard_gamma(likely) + np.finfo(np.float64).tiny
        moves = (weights / weights.sum(-1, keepdims=True))[..., :-1]
        seen = counts.sum(-1)
        known = seen + 1
        mean = total / known
        rest = np.maximum(squares - known * mean**2, 0)
        precision = rng.standard_gamma(1 + seen / 2) / (1 + rest / 2)
        paid = mean + rng.standard_normal(mean.shape) / np.sqrt(known * precision)
        chosen = paid.argmax(-1)
        while True:
            values = np.linalg.solve(np.eye(states) - GAMMA * moves[here, chosen], paid[here, chosen])
            q = paid + GAMMA * moves @ values
            better = q.max(-1) > q[here, chosen] + 1e-9 * (1 + np.abs(values))
            if not better.any():
                return surprise, q[state].max(-1).mean(), (seen > 0).mean()
            chosen = np.where(better, q.argmax(-1), chosen)

    return repeated(update, [])


def frozen_lake(rng: np.random.Generator) -> list[np.ndarray]:
    """-> state, action, what follows (16: the episode's end) and reward [N] of random actions."""
    rows = []
    for env in (gym.make("FrozenLake-v1") for _ in range(ENVS)):
        state, _ = env.reset(seed=int(rng.integers(1 << 30)))
        for _ in range(STEPS):
            act = rng.integers(4)
            following, rew, terminated, truncated, _ = env.step(act)
            rows.append((state, act, 16 if terminated else following, rew))
            state = env.reset()[0] if terminated or truncated else following
    return [
        np.array(column, dtype) for column, dtype in zip(zip(*rows, strict=True), (int, int, int, float), strict=True)
    ]
