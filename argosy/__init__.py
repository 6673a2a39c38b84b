"""argosy: reinforcement learning from a laptop to a cluster.

    import argosy

    result = argosy.train("dqn", "CartPole-v1", seed=1)
    print(result.test_return_mean, result.run_dir)

Names are imported when they are first used, so that `import argosy` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.algorithm import Algorithm, algorithm_class, algorithm_names
    from argosy.collect import Collector
    from argosy.data import Batch, ReplayBuffer, VectorReplayBuffer
    from argosy.env import EnvConfig, make_vector_env
    from argosy.errors import ArgosyError
    from argosy.experiment import Experiment
    from argosy.net import NetConfig
    from argosy.policy import Policy
    from argosy.presets import preset
    from argosy.run.build import build
    from argosy.run.play import evaluate
    from argosy.run.result import Result
    from argosy.run.train import resume, train
    from argosy.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer

__version__ = "0.1.0"

_HOME = {
    "Algorithm": "argosy.algorithm",
    "ArgosyError": "argosy.errors",
    "Batch": "argosy.data",
    "Collector": "argosy.collect",
    "EnvConfig": "argosy.env",
    "Experiment": "argosy.experiment",
    "NetConfig": "argosy.net",
    "OfflineTrainer": "argosy.trainer",
    "OffpolicyTrainer": "argosy.trainer",
    "OnpolicyTrainer": "argosy.trainer",
    "Policy": "argosy.policy",
    "ReplayBuffer": "argosy.data",
    "Result": "argosy.run.result",
    "VectorReplayBuffer": "argosy.data",
    "algorithm_class": "argosy.algorithm",
    "algorithm_names": "argosy.algorithm",
    "build": "argosy.run.build",
    "evaluate": "argosy.run.play",
    "make_vector_env": "argosy.env",
    "preset": "argosy.presets",
    "resume": "argosy.run.train",
    "train": "argosy.run.train",
}

__all__ = [
    "Algorithm",
    "ArgosyError",
    "Batch",
    "Collector",
    "EnvConfig",
    "Experiment",
    "NetConfig",
    "OfflineTrainer",
    "OffpolicyTrainer",
    "OnpolicyTrainer",
    "Policy",
    "ReplayBuffer",
    "Result",
    "VectorReplayBuffer",
    "__version__",
    "algorithm_class",
    "algorithm_names",
    "build",
    "evaluate",
    "make_vector_env",
    "preset",
    "resume",
    "train",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'argosy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
