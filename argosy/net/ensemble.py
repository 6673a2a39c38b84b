"""Critics outside of policies: batched ensembles of fully connected networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from argosy.data.protocols import SampleBatch, TransitionBatch
from argosy.net.backbone import ACTIVATIONS, Backbone, Space, activation_layer, parameters_of
from argosy.net.config import NetConfig
from argosy.net.statistics import Scaled, Scaling
from argosy.ops import products
from argosy.ops.choice import of_index
from argosy.ops.products import LARGE, affine, affine_each

BLOCK = 1_024
"""Rows of a large network that are worked on together: of 256 numbers each they are a megabyte."""


Rows = Callable[[torch.Tensor], torch.Tensor]


class RowWise(nn.Module):
    """A layer of an ensemble that works on each row by itself: [K, B, in] -> [K, B, out]."""

    def of_members(self, size: int) -> list[Rows]:
        """What each of the `size` members does to rows of its own, [B, in] -> [B, out]."""
        return [self.forward] * size


class EnsembleLinear(RowWise):
    """K linear layers as one batched product: [K, B, in] (or [B, in], shared by all) -> [K, B, out].

    Each member starts as a `Linear` of its own would.
    """

    def __init__(self, size: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, in_features, out_features))
        self.bias = nn.Parameter(torch.empty(size, 1, out_features))
        bound = 1.0 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: torch.Tensor, members: torch.Tensor | None = None) -> torch.Tensor:
        """[K, B, in] or [B, in] -> [K, B, out]; of some `members` [k] alone, whose x this is -> [k, B, out]."""
        weight, bias = parameters_of(self)
        if members is not None:
            weight, bias = weight[members], bias[members]
        if x.dim() == 2:
            x = x.expand(len(weight), -1, -1)
        if weight.shape[-1] == 1 and not products.INTEL:  # sums take a quarter of MKL's time for one column elsewhere
            sums: torch.Tensor = torch.linalg.vecdot(x, weight.transpose(1, 2)).unsqueeze(-1)
            return sums + bias
        return affine_each(x, weight, bias)

    def of_members(self, size: int) -> list[Rows]:
        """What each of the `size` members does to rows of its own, [B, in] -> [B, out]."""
        weight, bias = parameters_of(self)
        own = zip(weight.unbind(), bias.squeeze(1).unbind(), strict=True)
        return [partial(affine, weight=weight, bias=bias) for weight, bias in own]


class ScaledEnsembleLinear(Scaled, EnsembleLinear):
    """An `EnsembleLinear` whose outputs are in units of reward, by one scale for all members, see `Scaled`."""

    def __init__(self, size: int, in_features: int, out_features: int, scaling: Scaling) -> None:
        super().__init__(size, in_features, out_features)
        self.scale(scaling)

    def forward(self, x: torch.Tensor, members: torch.Tensor | None = None) -> torch.Tensor:
        """As `EnsembleLinear`."""
        return self.unscaled(super().forward(x, members))


class EnsembleMLP(nn.Sequential):
    """K independent MLPs evaluated together: [B, in_features] -> [K, B, out_features], maybe scaled (see `Scaled`)."""

    def __init__(
        self,
        size: int,
        in_features: int,
        hidden_sizes: Sequence[int],
        out_features: int,
        activation: str = "relu",
        scaling: Scaling | None = None,
    ) -> None:
        layers: list[nn.Module] = []
        width = in_features
        for hidden in hidden_sizes:
            layers += [EnsembleLinear(size, width, hidden), activation_layer(activation)]
            width = hidden
        sizes = size, width, out_features
        layers.append(ScaledEnsembleLinear(*sizes, scaling) if scaling else EnsembleLinear(*sizes))
        super().__init__(*layers)
        self.size = size
        self.widest = max(layer.weight[0].numel() for layer in layers if isinstance(layer, EnsembleLinear))

    def forward(self, x: torch.Tensor, members: torch.Tensor | None = None) -> torch.Tensor:
        """[B, in_features] -> [K, B, out_features]; of some `members` [k] alone -> [k, B, out_features]."""
        rows, least = x.shape[-2], 1 if products.on else BLOCK  # members one by one are oneDNN's anyway
        if not products.alone and x.is_cpu and rows >= least and rows * self.widest >= LARGE and self._by_rows():
            return self._in_blocks(x, members)
        for layer in self:  # `forward` itself, as in `MLP`
            x = layer.forward(x, members) if isinstance(layer, EnsembleLinear) else layer.forward(x)
        return x

    def _by_rows(self) -> bool:
        return not torch.compiler.is_compiling() and all(
            isinstance(layer, (RowWise, *ACTIVATIONS.values())) for layer in self
        )

    def _in_blocks(self, x: torch.Tensor, members: torch.Tensor | None) -> torch.Tensor:
        """`forward`, a member and `BLOCK` rows at a time: what is worked on stays in the cache, nothing is stacked."""
        layers = [layer.of_members(self.size) if isinstance(layer, RowWise) else [layer] * self.size for layer in self]
        each: list[tuple[Rows, ...]] = list(zip(*layers, strict=True))
        chosen = each if members is None else [each[number] for number in members.tolist()]
        blocks = []
        for member, rows in zip(chosen, x.expand(len(chosen), -1, -1), strict=True):
            for block in rows.split(BLOCK):
                for work in member:
                    block = work(block)
                blocks.append(block)
        q = torch.cat(blocks).reshape(len(chosen), x.shape[-2], -1)
        return self[-1].unscaled(q) if isinstance(self[-1], Scaled) else q


class EnsembleCritic(nn.Module):
    """K action values Q(obs, act) over one encoder and, where `config.memory` says so, one memory of its own.

    Args:
        space: the observation space.
        action_dim: number of elements of one action; 0: values of all of `atoms` discrete actions, or of the one asked
            for.
        config: kind, widths, activation and memory.
        size: K.
        skip: top-level keys of the observation that are no input.
        atoms: N: so many numbers instead of each value, e.g. quantiles; they are a last axis [..., N] of what follows.
            None: one, without such an axis.
        scaling: whether the last layer predicts scaled returns, see `Scaled`; values are in units of reward anyway.
    """

    def __init__(
        self,
        space: Space,
        action_dim: int,
        config: NetConfig,
        size: int = 2,
        skip: Collection[str] = (),
        *,
        atoms: int | None = None,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        self.backbone = Backbone(space, replace(config, hidden_sizes=()), skip)
        width = self.backbone.out_features + action_dim
        self.q = EnsembleMLP(size, width, config.hidden_sizes, atoms or 1, config.activation, scaling)
        self.atoms, self.action_dim = atoms, action_dim

    def value(
        self, sample: SampleBatch, act: torch.Tensor | None = None, members: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Q [K, ...] of actions [..., *act] at the observations of a sample, [B, ...] or sequences [T, B, ...].

        Of N > 1 actions [N, ..., *act] at each observation, [K, N, ...]; of some `members` [k] alone, [k, ...].
        """
        return self.of_features(self.backbone.features(sample), act, members)

    def next_value(
        self, sample: SampleBatch, act_next: torch.Tensor | None = None, members: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Q [K, ...] of actions at the successors of a sample, with the memory's states carried on."""
        return self.of_features(self.backbone.features_next(sample), act_next, members)

    def values(
        self, sample: SampleBatch, act: torch.Tensor, act_next: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both of the above from one pass of observations and successors together, [..., 2 B] rows."""
        x = torch.cat((self.backbone.features(sample), self.backbone.features_next(sample)), dim=-2)
        lead = act.shape[: x.dim() - 1]
        both = torch.cat((act.reshape(*lead, -1), act_next.reshape(*lead, -1)), dim=-2)
        q, q_next = self.of_features(x, both, None).chunk(2, dim=-1 if self.atoms is None else -2)
        return q, q_next

    def scaled(self, values: torch.Tensor) -> torch.Tensor:
        """Return values or returns [...] in the units in which critics learn: those of reward, unless they scale."""
        last = self.q[-1]
        return last.scaled(values) if isinstance(last, Scaled) else values

    def take_in(self, returns: torch.Tensor, sample: TransitionBatch) -> None:
        """Let returns [B] or [B, M] of the rows that an update learned from count in the scale, if there is one."""
        last = self.q[-1]
        if isinstance(last, Scaled):
            learned = sample.weight > 0.0
            last.take_in(returns[learned & sample.mask if "mask" in sample else learned])

    def of_features(
        self, x: torch.Tensor, act: torch.Tensor | None = None, members: torch.Tensor | None = None
    ) -> torch.Tensor:
        """`value` of what the backbone has made of observations, features [..., F]."""
        if act is not None and self.action_dim:
            act = act.reshape(-1, *x.shape[:-1], self.action_dim)
            act = act[0] if len(act) == 1 else act
            x = torch.cat((x.expand(*act.shape[:-1], -1), act), dim=-1)
        lead = x.shape[:-1]
        q: torch.Tensor = self.q(x if x.dim() == 2 else x.flatten(0, -2), members)
        q = q.reshape(-1, *lead) if self.atoms is None else q.reshape(-1, *lead, self.atoms)
        if act is None or self.action_dim:
            return q
        return of_index(q, act)
