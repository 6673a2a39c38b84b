"""With how many threads networks of a size compute fastest on this machine: measured once, and kept."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from argosy.algorithm import Algorithm
from argosy.algorithm.optim import Optim
from argosy.errors import CheckpointError
from argosy.experiment import Experiment
from argosy.files import read_json, write_atomically
from argosy.ops.products import affine, affine_each
from argosy.process import computing_threads, num_cores
from argosy.run.machine import machine

WORTH = 0.9
"""More threads are taken where they need less than this share of the time: two runs side by side share the cores."""
_MOST_ROWS = 4096
_IMAGE = 20
_REPEATS, _LEAST_S = 5, 0.02


def threads_of(experiment: Experiment, algorithm: Algorithm) -> int:
    """Return the threads of a run that begins: those that its experiment says, else the fastest for its minibatches.

    From then on they stand in the run's `config.json`: another number of threads rounds otherwise.
    """
    trainer = experiment.trainer
    rows = trainer.batch_size or 64
    if algorithm.kind == "onpolicy":
        rows = getattr(experiment.config, "batch_size", None) or trainer.step_per_collect
    return experiment.threads or fastest_threads(algorithm, rows)


def fastest_threads(algorithm: Algorithm, rows: int) -> int:
    """Return with how many threads the layers that `algorithm` learns take a batch of `rows` fastest, way and way back.

    Measured in about a second, once for each machine and size, and kept in argosy's folder of the user's cache, so that
    the same command computes the same numbers. 0, PyTorch's own choice, on a GPU, on one core, and where
    OMP_NUM_THREADS says what the user wants.
    """
    shapes = sorted(_shapes(algorithm))
    if algorithm.device.type != "cpu" or num_cores() == 1 or "OMP_NUM_THREADS" in os.environ or not shapes:
        return 0
    rows = min(rows, _MOST_ROWS)
    here = machine()  # a home may be that of several
    sizes = " ".join("x".join(map(str, shape)) for shape in shapes)
    key = f"{here['processor']}, {num_cores()} cores, torch {here['torch']}: {rows} rows, {sizes}"
    kept = _kept()
    if key not in kept:
        kept[key] = _measured(shapes, rows)
        with contextlib.suppress(OSError, CheckpointError):  # a home that cannot be written: measured again next time
            _file().parent.mkdir(parents=True, exist_ok=True)
            write_atomically(_file(), json.dumps(kept, indent=1).encode())
    return int(kept[key])


def _shapes(algorithm: Algorithm) -> Iterator[tuple[int, ...]]:
    """Shapes of all weights that are learned."""
    for part in algorithm.parts().values():
        if isinstance(part, Algorithm):
            yield from _shapes(part)
        elif isinstance(part, Optim):
            yield from (tuple(p.shape) for p in part.parameters if 2 <= p.dim() <= 4)


def _measured(shapes: list[tuple[int, ...]], rows: int) -> int:
    counts = [1 << power for power in range(num_cores().bit_length())]
    layers = [_layer(shape, rows) for shape in shapes]
    seconds = dict.fromkeys(counts, float("inf"))
    for _ in range(_REPEATS):  # in turn, so that a busy moment of the machine strikes all
        for count in counts:
            with computing_threads(count):
                seconds[count] = min(seconds[count], _seconds(layers))
    best = counts[0]
    for count in counts[1:]:
        if seconds[count] < WORTH * seconds[best]:
            best = count
    return best


def _layer(shape: tuple[int, ...], rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input and weight of a layer; convolutions see small images."""
    weight = torch.randn(shape, requires_grad=True)
    if len(shape) == 4:
        return torch.randn(rows, shape[1], _IMAGE, _IMAGE, requires_grad=True), weight
    return torch.randn(*shape[:-2], rows, shape[-2], requires_grad=True), weight


def _seconds(layers: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Time of one pass through all layers."""
    passes, begin = 0, time.perf_counter()
    while passes == 0 or time.perf_counter() - begin < _LEAST_S:
        for x, weight in layers:
            if weight.dim() == 4:
                out = torch.conv2d(x, weight)
            else:
                out = affine(x, weight, weight[0]) if weight.dim() == 2 else affine_each(x, weight, weight[:, :1])
            torch.autograd.grad(out.relu().sum(), (x, weight))
        passes += 1
    return (time.perf_counter() - begin) / passes


def _file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "argosy" / "threads.json"


def _kept() -> dict[str, int]:
    """Read what was measured before; a file that is damaged or not there counts as empty."""
    kept, most = {}, num_cores()
    with contextlib.suppress(CheckpointError):
        kept = read_json(_file())
    return {key: count for key, count in kept.items() if isinstance(count, int) and 1 <= count <= most}
