"""Random numbers: every component owns its generators, so that a run can be saved, resumed and split over threads."""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Iterator
from typing import TypedDict

import numpy as np
import torch

from argosy.errors import ConfigError

_GLOBAL = threading.RLock()
"""Of torch's global generator: threads that build at once would draw from one another's."""


class RngState(TypedDict):
    """What `Rng.state_dict` returns: plain numbers and strings, and one uint8 tensor."""

    numpy: dict[str, object]
    torch: torch.Tensor


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed is {seed!r}; it must be a whole number >= 0")


def spawn_seeds(seed: int | None, count: int) -> list[int]:
    """Derive `count` independent 31-bit seeds from one (from the operating system's entropy if None)."""
    check_seed(seed or 0)
    return [int(s) & 0x7FFFFFFF for s in np.random.SeedSequence(seed).generate_state(count)]


def policy_seed(seed: int, name: str, *, is_first: bool) -> int:
    """Return the seed of one of several policies: the first one's is that of a run with it alone.

    Those of others hang on their names, or else policies with the same seed would begin alike and act in step.
    """
    if is_first:
        return spawn_seeds(seed, 4)[0]
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0]) & 0x7FFFFFFF


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator (layers initialise themselves from it) and put it back afterwards."""
    # Where there is no GPU, looking for one takes longer than seeding
    seed_all = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
    with _GLOBAL, torch.random.fork_rng(devices=[]):
        seed_all(seed)
        yield


class Rng:
    """A numpy and a torch (CPU) generator that start from one seed and are saved together."""

    def __init__(self, seed: int | None = None) -> None:
        self.torch = torch.Generator()
        self.seed(seed)

    def seed(self, seed: int | None) -> None:
        """Start both generators anew."""
        numpy_seed, torch_seed = spawn_seeds(seed, 2)
        self.numpy = np.random.default_rng(numpy_seed)
        self.torch.manual_seed(torch_seed)

    def draw_seed(self) -> int:
        """Draw a 31-bit seed for something else."""
        return int(self.numpy.integers(2**31))

    def state_dict(self) -> RngState:
        """Return the state of both generators."""
        return {"numpy": dict(self.numpy.bit_generator.state), "torch": self.torch.get_state()}

    def load_state_dict(self, state: RngState) -> None:
        """Continue exactly where `state` was taken."""
        self.numpy.bit_generator.state = state["numpy"]
        self.torch.set_state(state["torch"].cpu())
