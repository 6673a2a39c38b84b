"""HalfCheetah-v5 end to end, beside its matrix products alone: 1 env, 1 update per step, batch 256, MLPs 256x2.

Unit: one env step with its update.
"""

from __future__ import annotations

from functools import partial

from offpolicy import halfcheetah

from argosy.algorithm import SAC, TD3, OptimConfig, SACConfig, TD3Config

OPTIM = OptimConfig(lr=3e-4)
ROWS = {
    "product_sac": partial(halfcheetah, SAC, SACConfig(actor_optim=OPTIM, critic_optim=OPTIM, alpha_optim=OPTIM)),
    "product_td3": partial(halfcheetah, TD3, TD3Config(actor_optim=OPTIM, critic_optim=OPTIM)),
}
