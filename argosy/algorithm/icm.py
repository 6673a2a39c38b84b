"""Intrinsic curiosity (Pathak et al., 2017, https://arxiv.org/abs/1705.05363): a bonus for what is not foretold.

Details that matter:

1. A network turns observations into features. Of those before and after a step, an inverse model says which action was
   between them; so features hold what actions have to do with, and nothing that the agent has no hand in.
2. A forward model says the features after a step of those before it and the action. Half its squared error is the
   bonus (equation 6): what is paid for is a step whose outcome is not foretold.
3. All three learn together, from (1 - forward_weight) of the inverse model's loss and forward_weight of the forward
   one's (equation 7). The inverse loss is a cross-entropy of choices, a squared error of other actions.
4. Bonuses are divided by the root mean square of all so far, and observations normalised by running statistics, which
   is not in the paper: `scale` would mean another thing in every task.
5. Actions are as the env took them: draws of a Gaussian are cut at the bounds where the env's are.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from argosy.algorithm.base import Algorithm, Task
from argosy.algorithm.curiosity import Curiosity, Surprise
from argosy.data.protocols import Obs
from argosy.env.actions import all_choices
from argosy.errors import ConfigError
from argosy.net import MLP


class ICM(Curiosity):
    """Pays for steps whose outcome, in features that tell what was done, is not foretold.

    Args:
        inner: learns from both, the reward and the bonus.
        task: what both are made for.
        scale: what a bonus of the usual size is worth in reward, see `Curiosity`.
        lr: learning rate of the three networks.
        batch_size: rows per step of them; a rollout is gone through once.
        hidden_sizes: widths of their layers; the last one is that of the features, but after a CNN.
        forward_weight: beta of detail 3.

    Raises:
        ConfigError: an argument is out of range, or the inner algorithm learns from sums of several steps.
    """

    def __init__(
        self,
        inner: Algorithm[Any, Any],
        task: Task,
        *,
        scale: float = 1.0,
        lr: float = 1e-3,
        batch_size: int = 256,
        hidden_sizes: tuple[int, ...] = (128, 64),
        forward_weight: float = 0.2,
    ) -> None:
        super().__init__(inner, task, scale, batch_size)
        if not 0.0 <= forward_weight <= 1.0:
            raise ConfigError(f"ICM: forward_weight is {forward_weight}; it must be from 0 to 1")
        if inner.kind == "offpolicy" and inner.sampling.n_step != 1:
            raise ConfigError(
                f"ICM explains single steps, but {type(inner).__name__} samples sums of n_step={inner.sampling.n_step};"
                " use n_step=1, or rnd"
            )
        self.forward_weight, space = forward_weight, task.action_space
        self.choices = all_choices(space)
        """Among how many each part of an action chooses; [] for a Box."""
        width = sum(self.choices) or int(torch.Size(space.shape or ()).numel())
        self.features = self.backbone(task, hidden_sizes)
        size, before = self.features.out_features, hidden_sizes[:1]
        self.inverse_model = MLP(2 * size, before, width).to(self.device)
        self.forward_model = MLP(size + width, before, size).to(self.device)
        self.learn(nn.ModuleList((self.features, self.inverse_model, self.forward_model)), lr)

    def surprise(self, obs: Obs, act: torch.Tensor, obs_next: Obs) -> Surprise:
        """Half the squared error of the forward model, summed over the features."""
        (before, _), (after, _) = self.features(obs), self.features(obs_next)
        parts = act.reshape(len(act), -1)
        said = self.inverse_model(torch.cat((before, after), dim=-1))
        if self.choices:
            chosen = parts.long().unbind(dim=-1)
            logits = said.split(self.choices, dim=-1)
            losses = [F.cross_entropy(each, part) for each, part in zip(logits, chosen, strict=True)]
            loss_inverse = torch.stack(losses).sum()
            done = torch.cat([F.one_hot(part, n) for part, n in zip(chosen, self.choices, strict=True)], dim=-1)
        else:
            done, loss_inverse = parts, F.mse_loss(said, parts.float())
        foretold = self.forward_model(torch.cat((before, done.float()), dim=-1))
        bonus = 0.5 * (foretold - after).square().sum(dim=-1)
        loss_forward = bonus.mean()
        loss = (1.0 - self.forward_weight) * loss_inverse + self.forward_weight * loss_forward
        return Surprise(bonus, loss, {"loss_inverse": loss_inverse, "loss_forward": loss_forward})
