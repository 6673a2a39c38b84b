"""Data sets: batch 128, MLP 64x2; of discrete actions batch 64, MLP 128x2."""

from __future__ import annotations

import math

import torch
from floor.algorithms.actor_critics import soft_updates, squashed
from floor.algorithms.common import (
    ACT,
    OBS,
    TAU,
    Adam,
    Critics,
    EnsembleLayerNorm,
    Gaussian,
    Rows,
    Run,
    box_actions,
    discrete_actions,
    follow,
    frozen,
    mlp,
    sampled,
)
from torch import nn


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


def cql(seed: int) -> Run:
    """With a weight that is learned."""
    torch.manual_seed(seed)
    actor, critic = mlp(OBS, 64, 2 * ACT), Critics(2, OBS + ACT, 64)
    critic_target, log_multiplier = frozen(critic), torch.zeros((), requires_grad=True)
    multiplier_optim = Adam([log_multiplier], lr=3e-4)

    def loss_of(batch: Rows, act_next: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
        obs, act, rew, obs_next, discount = batch
        with torch.no_grad():
            goal = rew + discount * critic_target(obs_next, act_next).amin(0)
            draws = [squashed(actor(seen).expand(10, -1, -1)) for seen in (obs, obs_next)]
            draws[1][1].masked_fill_(discount == 0, torch.inf)
            drawn = torch.cat([torch.empty(10, 128, ACT).uniform_(-1, 1), draws[0][0], draws[1][0]])
            logp = torch.cat([torch.full((10, 128), -ACT * math.log(2)), draws[0][1], draws[1][1]])
        q = critic(obs, act)
        q_drawn = critic(obs.repeat(30, 1), drawn.view(-1, ACT)).view(2, 30, 128)
        weighted = 5 * ((q_drawn - logp).logsumexp(1) - q).mean(1) - 5
        multiplier = log_multiplier.exp().clamp(max=1e6)
        multiplier_optim.minimise(-multiplier * weighted.detach().mean())
        loss: torch.Tensor = (q - goal).square().mean(1).sum() + multiplier.detach() * weighted.sum()
        return loss

    def value_of(obs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        q: torch.Tensor = critic(obs, act)
        return q.amin(0)

    step = follow(critic_target, critic, TAU)
    return soft_updates(seed, actor, critic, loss_of, value_of, step, 1, more_optims=[multiplier_optim])


def bcq(seed: int) -> Run:
    torch.manual_seed(seed)
    latents = 2 * ACT
    encoder, decoder = mlp(OBS + ACT, 64, 2 * latents), mlp(OBS + latents, 64, ACT)
    mover, critic = mlp(OBS + ACT, 64, ACT), Critics(2, OBS + ACT, 64)
    mover_target, critic_target = frozen(mover), frozen(critic)
    parts = [*encoder.parameters(), *decoder.parameters()], mover.parameters(), critic.parameters()
    model_optim, actor_optim, critic_optim = (Adam(part) for part in parts)
    steps = follow(mover_target, mover, TAU), follow(critic_target, critic, TAU)

    def decoded(obs: torch.Tensor, latent: torch.Tensor) -> torch.Tensor:
        act: torch.Tensor = decoder(torch.cat((obs, latent), dim=1)).tanh()
        return act

    @torch.no_grad()
    def drawn(obs: torch.Tensor) -> torch.Tensor:
        return decoded(obs, torch.randn(len(obs), latents).clamp(-0.5, 0.5))

    def moved(by: nn.Module, obs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        return (act + 0.05 * by(torch.cat((obs, act), dim=1)).tanh()).clamp(-1, 1)

    def update(batch: Rows) -> object:
        obs, act, rew, obs_next, discount = batch
        mean, log_std = encoder(torch.cat((obs, act), dim=1)).chunk(2, dim=1)
        log_std = log_std.clamp(-4, 15)
        error = (decoded(obs, mean + log_std.exp() * torch.randn_like(mean)) - act).square().mean()
        loss_model = error + 0.25 * (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).mean()
        with torch.no_grad():
            many = obs_next.repeat(10, 1)
            q = critic_target(many, moved(mover_target, many, drawn(many))).view(2, 10, 128)
            goal = rew + discount * (0.75 * q.amin(0) + 0.25 * q.amax(0)).amax(0)
        loss_critic = (critic(obs, act) - goal).square().mean(1).sum()
        loss_actor = -critic(obs, moved(mover, obs, drawn(obs)))[0].mean()
        actor_optim.minimise(loss_actor)
        critic_optim.minimise(loss_critic)
        model_optim.minimise(loss_model)
        for step in steps:
            step()
        return torch.stack([loss.detach() for loss in (loss_model, loss_critic, loss_actor)]).tolist()

    return sampled(seed, 128, update, OBS, [model_optim, actor_optim, critic_optim], box_actions)


def iql(seed: int) -> Run:
    torch.manual_seed(seed)
    actor, critic, value = Gaussian(bounded=True), Critics(2, OBS + ACT, 64), mlp(OBS, 64, 1)
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
    actor, critic = Gaussian(bounded=True), Critics(2, OBS + ACT, 64, between=lambda: [EnsembleLayerNorm(2, 64)])
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
