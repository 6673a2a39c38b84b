"""Sequences: 64 of 16 rows for an LSTM, MLP 128x2; 64 of 20 rows for a transformer of 3 blocks of 128."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from floor.algorithms.common import ACT, OBS, SLOTS, Adam, Run, box_actions, discrete_actions, follow, frozen, repeated
from torch import nn

EPISODE = 50


class Remembering(nn.Module):
    """Values [..., 2] of what an LSTM remembers, by two streams."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.trunk, self.streams = nn.LSTMCell(4, 128), nn.Linear(128, 128), nn.Linear(128, 256)
        self.value, self.advantage = nn.Linear(128, 1), nn.Linear(128, 2)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        value, advantage = F.relu(self.streams(F.relu(self.trunk(hidden)))).chunk(2, dim=-1)
        adv = self.advantage(advantage)
        q: torch.Tensor = self.value(value) + adv - adv.mean(-1, keepdim=True)
        return q

    def states(self, obs: torch.Tensor, stored: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        """[T, B, 256] after each row."""
        state, after = stored[0], []
        for t in range(len(obs)):
            if t:
                state = torch.where(begins[t].unsqueeze(1), stored[t], state)
            state = torch.cat(self.cell(obs[t], state.chunk(2, dim=1)), dim=1)
            after.append(state)
        return torch.stack(after)

    def after(self, states: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        """Values after one more observation, of rows [N, ...]."""
        q: torch.Tensor = self(self.cell(obs, states.chunk(2, dim=1))[0])
        return q


def rescaled(x: torch.Tensor) -> torch.Tensor:
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + 1e-3 * x


def unrescaled(x: torch.Tensor) -> torch.Tensor:
    root = (1 + 4e-3 * (x.abs() + 1 + 1e-3)).sqrt()
    return x.sign() * (((root - 1) / 2e-3).square() - 1)


def r2d2(seed: int) -> Run:
    """Of stored states, five steps and rescaled values."""
    torch.manual_seed(seed)
    rng, length, rows = np.random.default_rng(seed), 16, 64
    obs, obs_next = (rng.standard_normal((SLOTS, 4), np.float32) for _ in range(2))
    act, rew, stored = discrete_actions(rng), np.ones(SLOTS, np.float32), np.zeros((SLOTS, 256), np.float32)
    terminated = np.arange(SLOTS) % EPISODE == EPISODE - 1
    net = Remembering()
    target, optim, updates = frozen(net), Adam(net.parameters()), 0
    copy_over, powers = follow(target, net, 1.0), 0.997 ** np.arange(6)

    def update() -> float:
        nonlocal updates
        start, step = rng.integers(0, SLOTS - length, rows), np.arange(length)[:, None]
        at = start + step
        last = np.minimum(np.minimum(step + 4, length - 1), step + EPISODE - 1 - at % EPISODE)
        count = last - step + 1
        following = rew[np.minimum(at[..., None] + np.arange(5), SLOTS - 1)] * powers[:5]
        paid = np.take_along_axis(following.cumsum(-1), count[..., None] - 1, axis=-1)[..., 0]
        discount, final = powers[count] * ~terminated[start + last], torch.from_numpy(last).unsqueeze(-1)
        seen, taken, brought, later, kept, states, begins = (
            torch.from_numpy(column)
            for column in (
                *(obs[at], act[at], paid.astype(np.float32), obs_next[start + last], discount.astype(np.float32)),
                *(stored[at], at % EPISODE == 0),
            )
        )
        after = net.states(seen, states, begins)
        with torch.no_grad():
            there, flat = final.expand_as(after), later.flatten(0, 1)
            best = net.after(after.detach().gather(0, there).flatten(0, 1), flat).argmax(1, keepdim=True)
            after_target = target.states(seen, states, begins).gather(0, there).flatten(0, 1)
            value = unrescaled(target.after(after_target, flat).gather(1, best)).view(length, rows)
            goal = rescaled(brought + kept * value)
        q = net(after[..., :128]).gather(-1, taken.unsqueeze(-1)).squeeze(-1)
        loss = F.smooth_l1_loss(q, goal)
        optim.minimise(loss)
        updates += 1
        if updates % 2_500 == 0:
            copy_over()
        return loss.item()

    return repeated(update, optim.own)


class Block(nn.Module):
    """Attention of one head, and a layer of four times the width; both normalise what they are given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.ask, self.answer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, seen: torch.Tensor, asked: slice = slice(None)) -> torch.Tensor:
        query, key, value = self.ask(self.norms[0](x)).chunk(3, dim=-1)
        query, seen = query[:, asked], seen[:, asked]
        x = x[:, asked] + self.answer(F.scaled_dot_product_attention(query, key, value, attn_mask=seen))
        out: torch.Tensor = x + self.narrow(F.gelu(self.widen(self.norms[1](x))))
        return out


class Decisions(nn.Module):
    """Actions [B, K, 6] and rewards [B, K] that follow from returns, observations and actions of the steps before."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.width = width
        self.embed_return, self.embed_obs, self.embed_act = (nn.Linear(size, width) for size in (1, OBS, ACT))
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.act, self.rew = nn.Linear(width, ACT), nn.Sequential(nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 1))
        self.rates = torch.logspace(0, -4, width // 2)

    def forward(
        self, returns: torch.Tensor, obs: torch.Tensor, act: torch.Tensor, place: torch.Tensor, episode: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        embedded = self.embed_act(act)
        tokens = torch.stack((self.embed_return(returns.unsqueeze(-1)), self.embed_obs(obs), embedded), dim=2)
        angle = place.unsqueeze(-1) * self.rates
        tokens = tokens + torch.cat((angle.sin(), angle.cos()), dim=-1).unsqueeze(2)
        x, episode = self.norms[0](tokens.flatten(1, 2)[:, :-1]), episode.repeat_interleave(3, dim=1)[:, :-1]
        seen = (episode.unsqueeze(2) == episode.unsqueeze(1)).tril()
        *before, last = self.blocks
        for block in before:
            x = block(x, seen)
        x = self.norms[1](last(x, seen, slice(1, None, 3)))  # of observations alone
        return self.act(x).tanh(), self.rew(torch.cat((x, embedded), dim=-1)).squeeze(-1)


def decision_transformer(seed: int) -> Run:
    torch.manual_seed(seed)
    rng, length, rows = np.random.default_rng(seed), 20, 64
    obs, act, rew = rng.standard_normal((SLOTS, OBS), np.float32), box_actions(rng), np.ones(SLOTS, np.float32)
    slots = np.arange(SLOTS)
    returns = (EPISODE - slots % EPISODE).astype(np.float32)
    net = Decisions()
    optim = Adam(net.parameters(), lr=1e-4)

    def update() -> object:
        at = rng.integers(0, SLOTS - length, rows)[:, None] + np.arange(length)
        place = np.minimum(at % EPISODE, np.arange(length))
        columns = (returns[at] / EPISODE, obs[at], act[at], place, at // EPISODE, rew[at])
        wanted, seen, taken, when, episode, paid = (torch.from_numpy(column) for column in columns)
        said, expected = net(wanted, seen, taken, when, episode)
        losses = (said - taken).square().mean(), (expected - paid).square().mean()
        optim.minimise(losses[0] + losses[1], max_norm=0.25)
        return torch.stack([loss.detach() for loss in losses]).tolist()

    return repeated(update, optim.own)
