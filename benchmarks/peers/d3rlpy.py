"""Updates of d3rlpy 2.8.1's algorithms, with the sizes and settings of `ours/updates.py`, in its own environment."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from d3rlpy.algos import (
    AWACConfig,
    BCConfig,
    BCQConfig,
    CQLConfig,
    DecisionTransformerConfig,
    DiscreteBCQConfig,
    DiscreteCQLConfig,
    IQLConfig,
    ReBRACConfig,
    TD3PlusBCConfig,
)
from d3rlpy.dataset import MDPDataset
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.models.q_functions import QRQFunctionFactory
from d3rlpy.optimizers import AdamFactory

SIZE, OBS, ACT, CONTEXT = 20_000, 17, 6, 20


def filled(seed, obs, choices=None):
    """Episodes of 50 steps; actions are 6 numbers, or one of so many choices."""
    rng = np.random.default_rng(seed)
    seen, rew = rng.standard_normal((SIZE, obs), np.float32), np.ones(SIZE, np.float32)
    act = rng.uniform(-1, 1, (SIZE, ACT)).astype(np.float32) if choices is None else rng.integers(0, choices, (SIZE, 1))
    return MDPDataset(seen, act, rew, (np.arange(SIZE) % 50 == 49).astype(np.float32))


def prepare(config, seed, dataset=None, width=64, rows=128, layer_norm=False, **settings):
    torch.manual_seed(seed)
    dataset = filled(seed, OBS) if dataset is None else dataset(seed)
    parts = [name for name in config.__dataclass_fields__ if name.endswith("encoder_factory")]
    normed = {"critic_encoder_factory"} if layer_norm else set()
    nets = {name: VectorEncoderFactory([width, width], use_layer_norm=name in normed) for name in parts}
    algorithm = config(**nets, batch_size=rows, **settings).create(device=False)
    algorithm.build_with_dataset(dataset)

    def run(count):
        for _ in range(count):
            algorithm.update(dataset.sample_transition_batch(rows))
        return {"updates": count}

    return run


def discrete(config, seed, **settings):
    dataset = partial(filled, obs=4, choices=2)
    return prepare(config, seed, dataset, width=128, rows=64, target_update_interval=500, **settings)


def decision_transformer(seed):
    """Without dropout, as argosy's, and with its activation; positions are learned here and sines there."""
    torch.manual_seed(seed)
    dataset = filled(seed, OBS)
    algorithm = DecisionTransformerConfig(
        batch_size=64,
        context_size=CONTEXT,
        encoder_factory=VectorEncoderFactory([128], exclude_last_activation=True),
        optim_factory=AdamFactory(clip_grad_norm=0.25),
        activation_type="gelu",
        attn_dropout=0.0,
        resid_dropout=0.0,
        embed_dropout=0.0,
    ).create(device=False)
    algorithm.build_with_dataset(dataset)

    def run(count):
        for _ in range(count):
            algorithm.update(dataset.sample_trajectory_batch(64, CONTEXT))
        return {"updates": count}

    return run


ROWS = {
    "update_td3_bc": partial(prepare, TD3PlusBCConfig),
    "update_rebrac": partial(prepare, ReBRACConfig, layer_norm=True),
    "update_iql": partial(prepare, IQLConfig),
    "update_awac": partial(prepare, AWACConfig, layer_norm=True),
    "update_cql": partial(prepare, CQLConfig, soft_q_backup=True),
    "update_bcq": partial(prepare, BCQConfig, n_action_samples=10),
    # its default, a squared error; argosy's likelihood of a Gaussian learns the deviation, too
    "update_bc": partial(prepare, BCConfig),
    "update_discrete_bcq": partial(discrete, DiscreteBCQConfig),
    # of quantiles, as argosy's, which then is the same algorithm: double, and as many quantiles as are usual here
    "update_discrete_cql": partial(discrete, DiscreteCQLConfig, q_func_factory=QRQFunctionFactory(n_quantiles=32)),
    "update_decision_transformer": decision_transformer,
}
