"""Policy that is told how much return is wanted, and attends to what the episode brought so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, TransitionBatch
from argosy.data.protocols import ObsBatchProtocol
from argosy.env.spaces import is_bounded
from argosy.errors import ConfigError, SpaceError
from argosy.net import Linear, NetConfig
from argosy.net.encoder import make_encoder
from argosy.net.transformer import CausalTransformer
from argosy.policy.actor_critic import FORBIDDEN
from argosy.policy.base import NetPolicy, PolicyState, RolloutRequest, RolloutResult

# Shapes: T time, B batch, K steps of the context, W width of the transformer, A numbers that say an action.


@dataclass(frozen=True)
class DecisionAnalysis:
    """What `DecisionPolicy` says of sequences [T, B]."""

    output: torch.Tensor
    """[T, B, A] log-probabilities of the choices, or the action of a Box in [-1, 1]."""
    rew: torch.Tensor
    """[T, B] rewards that it expects of the stored actions, in units of `reward_scale`."""


class DecisionPolicy(NetPolicy):
    """A transformer over (return to go, observation, action) of the last K steps; it takes the likeliest action.

    Its state of a row holds the tokens of the last K - 1 steps. Nobody tells a policy its rewards: what is left of the
    wanted return is reckoned by those that the network expects. Takes the arguments of `NetPolicy` as well.

    Args:
        net: encoder, and blocks of the transformer (`hidden_sizes`).
        context: steps K that it attends to; sequences to learn from have as many.
        heads: of the attention.
        target_return: what is wanted of an episode; None: the highest return of a whole episode that it was shown.

    Raises:
        ConfigError: the net has a recurrent memory, too, or blocks of different widths.
        SpaceError: the Box has infinite bounds.
    """

    action_spaces = (spaces.Discrete, spaces.Box)

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        net: NetConfig,
        *,
        context: int = 20,
        heads: int = 1,
        target_return: float | None = None,
    ) -> None:
        if net.memory is not None:
            raise ConfigError(f"net.memory is {net.memory!r}, but a transformer remembers by itself; leave it out")
        if isinstance(action_space, spaces.Box) and not is_bounded(action_space):
            raise SpaceError(f"{type(self).__name__} squashes actions into bounds; {action_space} has infinite ones")
        super().__init__(observation_space, action_space, net)
        self.sequence_length, self.burn_in, self.target_return = context, 0, target_return
        self.encoder, features = make_encoder(observation_space, net, self.no_input, net.cnn_features)
        self.transformer = CausalTransformer(net, heads)
        width, size = self.transformer.width, self.num_actions or self.action_dim
        self.embed_return, self.embed_obs = Linear(1, width), Linear(features, width)
        self.embed_act = Linear(size, width)
        self.norm = nn.LayerNorm(width)
        self.action_head = Linear(width, size)
        self.reward_head = nn.Sequential(Linear(2 * width, width), nn.GELU(), Linear(width, 1))
        self.return_scale, self.reward_scale = nn.Buffer(torch.tensor(1e-6)), nn.Buffer(torch.tensor(1e-6))
        self.best_return = nn.Buffer(torch.tensor(-torch.inf))
        self.default_policy_state = np.zeros(2 + (self.sequence_length - 1) * 3 * width, np.float32)

    @property
    def is_recurrent(self) -> bool:
        """Whether it remembers: it does."""
        return True

    def take_in_returns(self, rew: torch.Tensor, returns: torch.Tensor, begins: torch.Tensor) -> None:
        """Let rewards and returns to go [...] count: the largest ones are the units of what the network knows of them.

        Where a whole episode `begins` [...], returns are candidates for the one that is wanted.
        """
        self.return_scale.copy_(torch.maximum(self.return_scale, returns.abs().max()))
        self.reward_scale.copy_(torch.maximum(self.reward_scale, rew.abs().max()))
        whole = returns.masked_fill(~begins, -torch.inf).max()
        self.best_return.copy_(torch.maximum(self.best_return, whole))

    def forward(self, batch: ObsBatchProtocol, state: PolicyState = None) -> Batch:
        """Actions for `batch.obs` [B, *obs], after the states [B, S]."""
        obs, before = self._inputs(batch, state)
        features = self.embed_obs(self.encoder(obs))
        K, (B, W) = self.sequence_length, features.shape  # noqa: N806  # shapes
        if before is None:
            before = features.new_zeros(B, len(self.default_policy_state))
        step, spent, past = before[:, :1], before[:, 1:2], before[:, 2:]
        wanted = self.embed_return((self._wanted() - spent) / self.return_scale)
        now = torch.stack((wanted, features, torch.zeros_like(features)), dim=1)
        window = torch.cat((past.reshape(B, K - 1, 3, W), now.unsqueeze(1)), dim=1)
        # this step is the last of the window; places before the episode's first are below 0, a segment of their own
        place = torch.arange(1 - K, 1, device=self.device) + step.long().clamp(max=K - 1)
        seen = self._attend(window, place, place >= 0, slice(-1, None)).squeeze(1)
        output = self._output(seen, self._mask(obs))
        act = output.argmax(dim=-1) if self.num_actions else output.reshape(-1, *(self.action_space.shape or ()))
        window[:, -1, 2] = embedded = self._embedded(act, seen)
        spent = spent + self.reward_head(torch.cat((seen, embedded), dim=-1)) * self.reward_scale
        return Batch(act=act, logits=output, state=torch.cat((step + 1.0, spent, window[:, 1:].flatten(1)), dim=-1))

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Likeliest actions, exploring or not."""
        with torch.inference_mode():
            found = self(Batch(obs=requests.obs), requests.policy_state)
        return RolloutResult(action=found.act.cpu().numpy(), policy_state=found.state.cpu().numpy())

    def analyze(self, sample: TransitionBatch) -> DecisionAnalysis:  # type: ignore[override]  # reads more
        """Evaluate sequences [T, B, ...], whose rows know what came of them, `returns`."""
        begins = sample.on_reset.clone()
        begins[0] = True
        row = torch.arange(len(begins), device=self.device).unsqueeze(-1)
        place = row - torch.where(begins, row, 0).cummax(dim=0).values
        wanted = self.embed_return((sample.returns / self.return_scale).unsqueeze(-1))
        embedded = self._embedded(sample.act, wanted)
        tokens = torch.stack((wanted, self.embed_obs(self.encoder(sample.obs)), embedded), dim=-2)  # [T, B, 3, W]
        every = slice(1, None, 3)
        seen = self._attend(tokens.transpose(0, 1), place.t(), begins.cumsum(dim=0).t(), every).transpose(0, 1)
        rew = self.reward_head(torch.cat((seen, embedded), dim=-1)).squeeze(-1)
        return DecisionAnalysis(self._output(seen, self._mask(sample.obs)), rew)

    def _wanted(self) -> torch.Tensor:
        if self.target_return is not None:
            return torch.full_like(self.best_return, self.target_return)
        return torch.where(self.best_return.isfinite(), self.best_return, 0.0)  # no branch: exported files have none

    def _attend(self, tokens: torch.Tensor, place: torch.Tensor, segment: torch.Tensor, asked: slice) -> torch.Tensor:
        """Tokens [B, K, 3, W] at places [B, K] of segments [B, K] -> what is known at the M `asked` ones [B, M, W].

        The last action is nobody's to see.
        """
        half = (tokens.shape[-1] + 1) // 2
        angle = place.unsqueeze(-1) * torch.logspace(0.0, -4.0, half, device=place.device)
        position = torch.cat((angle.sin(), angle.cos()), dim=-1)[..., : tokens.shape[-1]]  # Vaswani et al., section 3.5
        x = self.norm((tokens + position.unsqueeze(-2)).flatten(1, 2)[:, :-1])
        out: torch.Tensor = self.transformer(x, segment.repeat_interleave(3, dim=1)[:, :-1], asked)
        return out

    def _output(self, seen: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """[..., W] -> log-probabilities [..., A], or an action in [-1, 1]."""
        out: torch.Tensor = self.action_head(seen)
        if not self.num_actions:
            return out.tanh()
        return (out if mask is None else out.masked_fill(~mask, FORBIDDEN)).log_softmax(dim=-1)

    def _embedded(self, act: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Actions [..., *act] -> tokens [..., W]."""
        if self.num_actions:
            act = F.one_hot(act.long(), self.num_actions).to(like.dtype)
        embedded: torch.Tensor = self.embed_act(act.reshape(*like.shape[:-1], -1).to(like.dtype))
        return embedded
