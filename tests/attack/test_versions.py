"""Damaged parameter versions: refused, every one of them."""

import numpy as np
import pytest
import torch

from argosy.errors import CheckpointError
from argosy.trainer.blob import decode, encode


@pytest.mark.parametrize(("seed", "count"), [(0, 500), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_no_damaged_version_is_accepted(seed, count):
    rng = np.random.default_rng(seed)
    blob = encode({"version": 3, "state_dict": {"w": torch.randn(16, 8), "b": torch.randn(8), "n": torch.tensor(2)}})
    assert decode(blob)["version"] == 3
    for _ in range(count):
        damaged = blob.copy()
        match int(rng.integers(4)):
            case 0:
                damaged[rng.integers(len(blob))] ^= 1 << int(rng.integers(8))
            case 1:
                damaged = damaged[: int(rng.integers(len(blob)))]
            case 2:
                at = int(rng.integers(len(blob) - 64))
                damaged[at : at + 64] = rng.integers(0, 256, 64, np.uint8)
            case 3:
                damaged = np.concatenate([damaged, rng.integers(0, 256, int(rng.integers(1, 99)), np.uint8)])
        with pytest.raises(CheckpointError, match=r"damaged|not a policy checkpoint"):
            decode(damaged)
