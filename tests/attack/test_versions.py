"""Damaged parameter versions: refused, every one of them."""

from functools import partial

import numpy as np
import pytest
import torch
from tally import all_refused, tally

from argosy.errors import CheckpointError
from argosy.trainer.blob import decode, encode


def damaged_versions(count, seed, folder):
    """Read so many damaged parameter versions."""
    rng = np.random.default_rng(seed)
    blob = encode({"version": 3, "state_dict": {"w": torch.randn(16, 8), "b": torch.randn(8), "n": torch.tensor(2)}})
    assert decode(blob)["version"] == 3
    reads = (partial(decode, damaged(blob, rng)) for _ in range(count))
    return tally(reads, CheckpointError, r"damaged|not a policy checkpoint")


def damaged(blob, rng):
    """The version with a bit flipped, cut short, with random bytes in it, or with some behind it."""
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
    return damaged


@pytest.mark.parametrize(("seed", "count"), [(0, 500), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_no_damaged_version_is_accepted(tmp_path, seed, count):
    counts = damaged_versions(count, seed, tmp_path)
    assert all_refused(counts), counts
