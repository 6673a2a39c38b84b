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
    from argosy.algorithm import Algorithm as Algorithm
    from argosy.algorithm import AlgorithmWrapper as AlgorithmWrapper
    from argosy.algorithm import algorithm_class as algorithm_class
    from argosy.algorithm import algorithm_names as algorithm_names
    from argosy.algorithm import register_algorithm as register_algorithm
    from argosy.algorithm import register_algorithm_wrapper as register_algorithm_wrapper
    from argosy.algorithm.table import *  # noqa: F403  # all of it
    from argosy.collect import Collector as Collector
    from argosy.data import Batch as Batch
    from argosy.data import ReplayBuffer as ReplayBuffer
    from argosy.data import VectorReplayBuffer as VectorReplayBuffer
    from argosy.env import EnvConfig as EnvConfig
    from argosy.env import make_vector_env as make_vector_env
    from argosy.errors import ArgosyError as ArgosyError
    from argosy.experiment import Experiment as Experiment
    from argosy.net import NetConfig as NetConfig
    from argosy.policy import Policy as Policy
    from argosy.presets import preset as preset
    from argosy.run.build import build as build
    from argosy.run.collect import collect_data as collect_data
    from argosy.run.export import export as export
    from argosy.run.pack import pack as pack
    from argosy.run.play import evaluate as evaluate
    from argosy.run.result import Result as Result
    from argosy.run.saved import load as load
    from argosy.run.train import resume as resume
    from argosy.run.train import train as train
    from argosy.trainer import OfflineTrainer as OfflineTrainer
    from argosy.trainer import OffpolicyTrainer as OffpolicyTrainer
    from argosy.trainer import OnpolicyTrainer as OnpolicyTrainer

__version__ = "0.1.0"

_HOME = {
    "Algorithm": "argosy.algorithm",
    "AlgorithmWrapper": "argosy.algorithm",
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
    "collect_data": "argosy.run.collect",
    "evaluate": "argosy.run.play",
    "export": "argosy.run.export",
    "load": "argosy.run.saved",
    "make_vector_env": "argosy.env",
    "pack": "argosy.run.pack",
    "preset": "argosy.presets",
    "register_algorithm": "argosy.algorithm",
    "register_algorithm_wrapper": "argosy.algorithm",
    "resume": "argosy.run.train",
    "train": "argosy.run.train",
}

if not TYPE_CHECKING:  # who checks types has read the imports above
    __all__ = ["__version__", *_HOME]

    def __getattr__(name: str) -> object:
        home = _HOME.get(name) or importlib.import_module("argosy.algorithm").EXPORTS.get(name)
        if home is None:
            raise AttributeError(f"module 'argosy' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
