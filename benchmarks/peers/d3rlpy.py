"""Updates of d3rlpy 2.8.1's algorithms, with the sizes and settings of `ours/updates.py`, in its own environment."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from d3rlpy.algos import AWACConfig, BCQConfig, CQLConfig, IQLConfig, ReBRACConfig, TD3PlusBCConfig
from d3rlpy.dataset import MDPDataset
from d3rlpy.models.encoders import VectorEncoderFactory

SIZE, BATCH, OBS, ACT = 20_000, 128, 17, 6


def prepare(config, seed, layer_norm=False, **settings):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    dataset = MDPDataset(
        rng.standard_normal((SIZE, OBS), np.float32),
        rng.uniform(-1, 1, (SIZE, ACT)).astype(np.float32),
        np.ones(SIZE, np.float32),
        (np.arange(SIZE) % 50 == 49).astype(np.float32),
    )
    parts = [name for name in config.__dataclass_fields__ if name.endswith("_encoder_factory")]
    normed = {"critic_encoder_factory"} if layer_norm else set()
    nets = {name: VectorEncoderFactory([64, 64], use_layer_norm=name in normed) for name in parts}
    algorithm = config(**nets, batch_size=BATCH, **settings).create(device=False)
    algorithm.build_with_dataset(dataset)

    def run(count):
        for _ in range(count):
            algorithm.update(dataset.sample_transition_batch(BATCH))
        return {"updates": count}

    return run


ROWS = {
    "update_td3_bc": partial(prepare, TD3PlusBCConfig),
    "update_rebrac": partial(prepare, ReBRACConfig, layer_norm=True),
    "update_iql": partial(prepare, IQLConfig),
    "update_awac": partial(prepare, AWACConfig),
    "update_cql": partial(prepare, CQLConfig, soft_q_backup=True),
    "update_bcq": partial(prepare, BCQConfig, n_action_samples=10),
}
