"""Runs in a peer's environment (no argosy there): writes what its algorithms make of given weights and batches.

A file of cases, `PEER_ROOM.py`, ends with `recorder.main(CASES)`. `CASES` maps a name to a function without arguments
that returns a `record`. `python PEER_ROOM.py FOLDER` writes each into FOLDER/PEER_ROOM-CASE.npz.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

Record = dict[str, Any]


def record(
    modules: Mapping[str, torch.nn.Module],
    batch: Mapping[str, np.ndarray],
    losses: Mapping[str, float],
    draws: Iterable[np.ndarray | torch.Tensor] = (),
) -> Record:
    """Return weights and gradients of modules after learning, under MODULE.PARAMETER, and what they came from.

    Gradients are those that the peer left in `.grad`: let its optimisers have a learning rate of 0.

    Args:
        modules: by the name that the test shall know them by.
        batch: what was learned from, as argosy's samplers would give it.
        losses: what came out.
        draws: random numbers that the peer drew, in order.
    """
    named = {f"{name}.{key}": p for name, module in modules.items() for key, p in module.named_parameters()}
    return {
        **{f"batch/{key}": np.asarray(value) for key, value in batch.items()},
        **{f"weight/{key}": p.detach().numpy() for key, p in named.items()},
        **{f"gradient/{key}": p.grad.numpy() for key, p in named.items() if p.grad is not None},
        **{f"loss/{key}": np.float32(value) for key, value in losses.items()},
        **{f"draw/{i}": np.asarray(draw) for i, draw in enumerate(draws)},
    }


def main(cases: Mapping[str, Callable[[], Record]]) -> None:
    """Write all cases, or those whose names follow the folder."""
    folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names or cases:
        np.random.seed(0)  # noqa: NPY002  # peers draw from it
        torch.manual_seed(0)
        np.savez_compressed(Path(folder) / f"{Path(sys.argv[0]).stem}-{name}.npz", **cases[name]())
