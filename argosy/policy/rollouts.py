"""Rollouts: their values, the rows that are learned from, the minibatches that these are cut into."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from argosy.data import Batch, TrajectoryBatch, channels_last, take_rows, tree
from argosy.net import ScaledLinear
from argosy.ops import gae, values_next
from argosy.policy.actor_critic import ActorCriticPolicy
from argosy.policy.base import Policy
from argosy.policy.sequences import sequences
from argosy.rng import Rng

CHUNK_ROWS = 2048
"""Rows of a rollout whose values are computed in one go: a CNN's activations of all of them may not fit in memory."""


@torch.no_grad()
def rollout_values(
    policy: ActorCriticPolicy, rollout: TrajectoryBatch, *, anew: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return V(obs) and V(obs_next) [T, B] of a rollout.

    V(obs) is what the policy stored when it acted, if it did. V(obs_next) is the value of the next row; where the next
    row is not the successor (`cut`), it is computed, so that a truncated episode bootstraps from its true last
    observation. What stands at terminated rows does not matter.

    Args:
        policy: its analysis has a `value`.
        rollout: tensors [T, B, ...].
        anew: evaluate the rollout by the present parameters, whatever was stored.
    """
    T, B = rollout.rew.shape  # noqa: N806  # shapes
    if not anew and "value" in rollout.policy:
        value = rollout.policy.value
    elif policy.is_recurrent:
        value = policy.analyze(rollout).value
    else:
        obs = tree.map_leaves(lambda leaf: leaf.flatten(0, 1), rollout.obs)  # faster than layers take [T, B]
        chunks = (Batch(obs=tree.index(obs, slice(i, i + CHUNK_ROWS))) for i in range(0, T * B, CHUNK_ROWS))
        value = torch.cat([policy.analyze(chunk).value for chunk in chunks]).view(T, B)

    def at_cuts(rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return policy.analyze_next(rollout, rows).value

    return value, values_next(value, rollout.terminated, rollout.cut, at_cuts)


def advantage_rows(
    policy: ActorCriticPolicy, rollout: TrajectoryBatch, gamma: float, gae_lambda: float, *, anew: bool = False
) -> Batch:
    """Make rows to learn from: `obs, act, logp`, advantages `adv`, `value` and `returns`.

    Advantages are in units of reward, the last two, which are for the critic, in those that it learns in (see
    `critic_units`).

    Args:
        policy: its analysis has a `value`.
        rollout: tensors [T, B, ...].
        gamma: discount factor.
        gae_lambda: see `gae`.
        anew: estimate all by the present parameters; returns do not count in the critic's statistics once more.
    """
    value, value_next = rollout_values(policy, rollout, anew=anew)
    adv, returns = gae(rollout.rew, value, value_next, rollout.terminated, rollout.cut, gamma, gae_lambda)
    rows = Batch(obs=rollout.obs, act=rollout.act, logp=rollout.policy.logp, adv=adv)
    rows.value = critic_units(policy, value)
    if not anew:
        take_in_returns(policy, rollout, returns)
    head = scaled_head(policy)
    if head is not None and head.keeps_outputs:
        rows.value = head.scaled(value)
    rows.returns = critic_units(policy, returns)
    return rows_to_learn(policy, rollout, rows)


def take_in_returns(policy: Policy, rollout: TrajectoryBatch, returns: torch.Tensor) -> None:
    """Let the returns [T, B] of a rollout count in the statistics of the policy's critic, if it has such."""
    head = scaled_head(policy)
    if head is not None:
        head.take_in(returns[rollout.mask] if "mask" in rollout else returns)


def critic_units(policy: Policy, values: torch.Tensor) -> torch.Tensor:
    """Return values [...] in the units in which the policy's critic learns: those of its last layer, if this scales."""
    head = scaled_head(policy)
    return values if head is None else head.scaled(values)


def scaled_head(policy: Policy) -> ScaledLinear | None:
    """Return the last layer of the policy's critic if it scales returns."""
    head = getattr(policy, "value_head", None)
    return head if isinstance(head, ScaledLinear) else None


def rows_to_learn(policy: Policy, rollout: TrajectoryBatch, rows: Batch) -> Batch:
    """Make what minibatches are drawn from: [T, B, ...] -> [N, ...], the rows that the rollout's mask leaves, if any.

    Images are laid out as convolutions read them, once for all passes (on a CPU: a copy). Rows of a policy with memory
    stay [T, B, ...], with all that `sequences` needs beside them.
    """
    if policy.is_recurrent:
        beside = {name: rollout[name] for name in ("cut", "mask") if name in rollout}
        return tree.rebuild(rows, {**vars(rows), **beside, "policy": Batch(state=rollout.policy.state)})
    rows = tree.map_leaves(lambda leaf: leaf.flatten(0, 1), rows)
    rows = rows[rollout["mask"].flatten()] if "mask" in rollout else rows
    obs = rows.get("obs")
    if isinstance(obs, torch.Tensor) and obs.dim() == 4 and obs.is_cpu and obs.shape[1] < min(obs.shape[2:]):
        rows.obs = channels_last(obs)
    return rows


def minibatches(policy: Policy, rows: Batch, batch_size: int | None, rng: Rng) -> Iterator[Batch]:
    """Yield equal shares [M, ...] of the shuffled rows, of at least `batch_size` rows each (None: all in one).

    With memory, they are shares of sequences of them [T, M, ...].
    """
    count = int(rows.mask.sum()) if "mask" in rows else rows.cut.numel() if policy.is_recurrent else len(rows)
    shares, axis = max(count // (batch_size or count), 1), 0
    if shares == 1 and not policy.is_recurrent:
        yield rows
        return
    if policy.is_recurrent:
        rows, axis = sequences(rows, policy.sequence_length, policy.burn_in), 1
    leaf = next(leaf for _, leaf in tree.leaves(rows))
    order = torch.randperm(leaf.shape[axis], generator=rng.torch).to(leaf.device)
    for index in order.tensor_split(min(shares, len(order))):
        yield tree.map_leaves(lambda leaf: take_rows(leaf, index, axis), rows)  # noqa: B023
