"""What a run was made on: hardware and versions, so that a report can say it."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

import torch

import argosy
from argosy.process import num_cores

_VERSIONS = ("torch", "numpy", "gymnasium")


def machine() -> dict[str, str]:
    """Return names and versions of what this process runs on; of GPUs only if it uses them."""
    found = {"argosy": argosy.__version__, "Python": platform.python_version()}
    found |= {name: importlib.metadata.version(name) for name in _VERSIONS}
    found |= {"system": platform.platform(), "processor": _processor(), "cores": str(num_cores())}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # to ask earlier would begin to use them
        found["GPU"] = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return found


def _processor() -> str:
    """Return the processor's name; where Linux does not say it, the architecture's."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
