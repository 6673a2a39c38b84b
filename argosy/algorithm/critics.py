"""Critics outside of policies, for actions of either kind."""

from __future__ import annotations

from argosy.net import EnsembleCritic, NetConfig
from argosy.policy import Policy


def action_critic(policy: Policy, net: NetConfig, size: int) -> EnsembleCritic:
    """Make Q [K, ...] of what a policy sees and does: of an action in a Box, or of all choices [K, ..., A]."""
    choices = policy.num_actions
    dim = 0 if choices else policy.action_dim
    return EnsembleCritic(policy.observation_space, dim, net, size, _no_input(policy), atoms=choices or 1).to(
        policy.device
    )


def state_critic(policy: Policy, net: NetConfig) -> EnsembleCritic:
    """Make V [1, ...] of what a policy sees."""
    return EnsembleCritic(policy.observation_space, 0, net, 1, _no_input(policy)).to(policy.device)


def _no_input(policy: Policy) -> tuple[str, ...]:
    return () if policy.mask_key is None else (policy.mask_key,)
