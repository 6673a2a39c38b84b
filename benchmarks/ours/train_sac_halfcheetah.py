"""SAC on HalfCheetah-v5, end to end: 1 env, 1 update per step, batch 256, MLPs 256x2, learned temperature.

Unit: one env step with its update. The 300 steps before the first update are done in `prepare`.
"""

from __future__ import annotations

from collections.abc import Callable

from offpolicy import halfcheetah

from argosy.algorithm import SAC, OptimConfig, SACConfig


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    optim = OptimConfig(lr=3e-4)
    return halfcheetah(SAC, SACConfig(actor_optim=optim, critic_optim=optim, alpha_optim=optim, alpha=1.0), seed)
