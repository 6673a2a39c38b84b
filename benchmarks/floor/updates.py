"""One update of each algorithm, its sample included, as `ours/updates.py` has them: plain PyTorch and nothing else.

Unit: one update; of on-policy algorithms one pass of all that a rollout of 1,024 rows is good for.
"""

from __future__ import annotations

from functools import partial

from floor.algorithms import actor_critics, datasets, frames, rollouts, sequences, values

PPO = partial(rollouts.on_policy, epochs=10, batch=64, gae_lambda=0.95, clip=0.2, entropy_coef=0.0)
ROWS = {
    "update_c51": values.c51,
    "update_rainbow": values.rainbow,
    "update_qrdqn": values.qrdqn,
    "update_iqn": values.iqn,
    "update_fqf": values.fqf,
    "update_r2d2": sequences.r2d2,
    "update_discrete_sac": actor_critics.discrete_sac,
    "update_branching_dqn": values.branching_dqn,
    "update_qmix": values.qmix,
    "update_ddpg": partial(actor_critics.deterministic, twin=False),
    "update_td3": partial(actor_critics.deterministic, twin=True),
    "update_sac": partial(actor_critics.soft, size=2, policy_freq=1),
    "update_tqc": actor_critics.tqc,
    "update_crossq": actor_critics.crossq,
    "update_droq": partial(actor_critics.soft, size=2, policy_freq=20, dropout=0.01),
    "update_redq": partial(actor_critics.soft, size=10, subset=2, policy_freq=20, auto_alpha=False),
    "update_td3_bc": partial(actor_critics.deterministic, twin=True, lr=3e-4, alpha=2.5),
    "update_rebrac": partial(actor_critics.deterministic, twin=True, penalty=0.01),
    "update_iql": datasets.iql,
    "update_awac": datasets.awac,
    "update_cql": datasets.cql,
    "update_bcq": datasets.bcq,
    "update_bc": datasets.bc,
    "update_dagger": datasets.bc,
    "update_discrete_bcq": values.discrete_bcq,
    "update_discrete_cql": values.discrete_cql,
    "update_discrete_crr": datasets.discrete_crr,
    "update_decision_transformer": sequences.decision_transformer,
    "update_ppo": PPO,
    "update_spo": partial(PPO, objective=rollouts.drawn_back),
    "update_a2c": partial(rollouts.on_policy, epochs=1, batch=1_024, gae_lambda=1.0, clip=None, entropy_coef=0.01),
    "update_reinforce": rollouts.reinforce,
    "update_npg": partial(rollouts.natural, searches=False),
    "update_trpo": partial(rollouts.natural, searches=True),
    "update_ppg": partial(rollouts.ppg, phase=8),
    "update_impala": rollouts.impala,
    "update_gail": rollouts.gail,
    "update_psrl": rollouts.psrl,
    "update_sac_large": partial(actor_critics.soft, size=2, policy_freq=1, width=256, rows=256),
    "update_dqn_large": frames.dqn_large,
    "update_ppo_large": partial(PPO, width=256),
}
