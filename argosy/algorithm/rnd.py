"""Random network distillation (Burda et al., 2018, https://arxiv.org/abs/1810.12894): a bonus for what is new.

Details that matter:

1. A network that is never learned turns observations into features; a predictor learns what it says, from what was
   seen. Its squared error is the bonus: large where nothing like the observation was seen before. What is paid for is
   where a transition led.
2. Errors are divided by the root mean square of all so far, the paper's bonuses by the deviation of their discounted
   sums: samples of a replay buffer have none. A bonus is added to the reward, and one critic values both; the paper's
   has a head for each, and lets bonuses go on across episodes.
3. Observations are normalised by running statistics, as a network that nobody learns cannot adapt to their scale; of
   images, which are divided by 255, the paper normalises each pixel.
4. With `n_step` above 1, of each n steps the last observation is paid for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from argosy.algorithm.base import Algorithm, Task
from argosy.algorithm.curiosity import Curiosity, Surprise
from argosy.data.protocols import Obs
from argosy.net import MLP, frozen_copy, orthogonal_

FEATURES = 64
"""Numbers that are predicted of an observation."""


class RND(Curiosity):
    """Pays for observations of which a random network's features are not yet known.

    Args:
        inner: learns from both, the reward and the bonus.
        task: what both are made for.
        scale: what a bonus of the usual size is worth in reward, see `Curiosity`.
        lr: learning rate of the predictor.
        batch_size: rows per step of it; a rollout is gone through once.
        hidden_sizes: widths of the layers of both networks; after a CNN, of the predictor's further ones.
    """

    def __init__(
        self,
        inner: Algorithm[Any, Any],
        task: Task,
        *,
        scale: float = 1.0,
        lr: float = 1e-4,
        batch_size: int = 256,
        hidden_sizes: tuple[int, ...] = (128, 128),
    ) -> None:
        super().__init__(inner, task, scale, batch_size)
        self.target = frozen_copy(self._network(task, hidden_sizes, ()))
        self.predictor = self._network(task, hidden_sizes, hidden_sizes[:1])
        self.learn(self.predictor, lr)

    def _network(self, task: Task, hidden_sizes: tuple[int, ...], more: tuple[int, ...]) -> nn.ModuleList:
        backbone = self.backbone(task, hidden_sizes)
        network = nn.ModuleList((backbone, MLP(backbone.out_features, more, FEATURES).to(self.device)))
        orthogonal_(network, 2**0.5)
        return network

    def surprise(self, obs: Obs, act: torch.Tensor, obs_next: Obs) -> Surprise:
        """Mean squared error of the features [n, F] of where the transitions led."""
        with torch.no_grad():
            wanted = _features(self.target, obs_next)
        error = (_features(self.predictor, obs_next) - wanted).square().mean(dim=-1)
        loss = error.mean()
        return Surprise(error, loss, {"loss_predictor": loss})


def _features(network: nn.ModuleList, obs: Obs) -> torch.Tensor:
    """[n, *obs] -> [n, F]."""
    backbone, head = network
    features, _ = backbone(obs)
    out: torch.Tensor = head(features)
    return out
