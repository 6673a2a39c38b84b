"""`argosy doctor`: versions, cores, GPU, and which extras work."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import os
import platform
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from argosy import __version__

CORE = ("numpy", "torch", "gymnasium", "tqdm", "tyro", "safetensors")

EXTRAS: dict[str, tuple[tuple[str, str], ...]] = {
    "atari": (("ale_py", "ale-py"), ("envpool", "envpool"), ("cv2", "opencv-python-headless")),
    "minatar": (("minatar", "MinAtar"),),
    "box2d": (("Box2D", "Box2D"), ("pygame", "pygame")),
    "mujoco": (("mujoco", "mujoco"), ("gymnasium_robotics", "gymnasium-robotics")),
    "dm_control": (("envpool", "envpool"),),
    "plot": (("matplotlib", "matplotlib"),),
    "report": (("scipy", "scipy"),),
    "tune": (("optuna", "optuna"),),
    "video": (("PIL", "pillow"), ("pygame", "pygame"), ("imageio_ffmpeg", "imageio-ffmpeg")),
    "tensorboard": (("tensorboard", "tensorboard"),),
    "wandb": (("wandb", "wandb"),),
    "mlflow": (("mlflow", "mlflow-skinny"), ("sqlalchemy", "SQLAlchemy"), ("alembic", "alembic")),
    "hdf5": (("h5py", "h5py"),),
    "lerobot": (("pyarrow", "pyarrow"),),
    "minari": (("h5py", "h5py"), ("pyarrow", "pyarrow"), ("PIL", "pillow")),
    "multiagent": (("pettingzoo", "pettingzoo"), ("pygame", "pygame")),
    "fleet": (("ray", "ray"),),
    "export": (("onnx", "onnx"), ("onnxruntime", "onnxruntime"), ("onnxscript", "onnxscript")),
}
"""Modules of each extra, with the names of their distributions."""


@dataclass(frozen=True)
class Doctor:
    """Show what works here, what is missing and how to get it."""

    def __call__(self) -> int:
        """Print the report; 1 when a core dependency does not work."""
        print(f"argosy {__version__}, Python {platform.python_version()}, {platform.platform()}")
        print(f"cores: {usable_cores()}")
        faults = {module: fault for module in CORE if (fault := import_fault(module))}
        print("core:  " + ", ".join(f"{m} {'BROKEN' if m in faults else importlib.metadata.version(m)}" for m in CORE))
        for module, fault in faults.items():
            print(f"       {module}: {fault}")
        if "torch" not in faults:
            print(f"GPU:   {_gpu()}")
        print("extras:")
        for extra, modules in EXTRAS.items():
            print(f"  {extra:<12} {extra_report(extra, modules)}", flush=True)
        return 1 if faults else 0


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def import_fault(module: str) -> str | None:
    """Return why `module` cannot be imported; None if it can."""
    try:
        said = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            warnings.simplefilter("ignore")
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        return "missing" if error.name == module else f"needs {error.name}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def extra_report(extra: str, modules: Sequence[tuple[str, str]]) -> str:
    """Return one line on an extra: versions, or what does not work and how to get it."""
    faults = {module: import_fault(module) for module, _ in modules}
    shown = ", ".join(f"{dist} {faults[module] or importlib.metadata.version(dist)}" for module, dist in modules)
    if any(faults.values()):
        return f"MISSING {shown}   -> pip install 'argosy[{extra}]'"
    return f"ok      {shown}"


def _gpu() -> str:
    import torch

    built = torch.version.cuda
    if not torch.cuda.is_available():
        return "none (this torch is a CPU build)" if built is None else f"none (torch is built for CUDA {built})"
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{', '.join(names)} (CUDA {built})"
