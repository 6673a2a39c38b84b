"""The names of `argosy` beside the algorithms: type checkers read this as imports, argosy as a table."""

from argosy.algorithm import (
    Algorithm as Algorithm,
    AlgorithmWrapper as AlgorithmWrapper,
    algorithm_class as algorithm_class,
    algorithm_names as algorithm_names,
    register_algorithm as register_algorithm,
    register_algorithm_wrapper as register_algorithm_wrapper,
)
from argosy.collect import Collector as Collector
from argosy.data import Batch as Batch, ReplayBuffer as ReplayBuffer, VectorReplayBuffer as VectorReplayBuffer
from argosy.env import EnvConfig as EnvConfig, make_vector_env as make_vector_env
from argosy.errors import ArgosyError as ArgosyError
from argosy.experiment import Experiment as Experiment
from argosy.net import NetConfig as NetConfig
from argosy.policy import Policy as Policy
from argosy.presets import preset as preset
from argosy.run.build import build as build
from argosy.run.collect import collect_data as collect_data
from argosy.run.export import export as export
from argosy.run.pack import pack as pack
from argosy.run.play import evaluate as evaluate, film as film
from argosy.run.result import Result as Result
from argosy.run.saved import load as load
from argosy.run.seeds import train_seeds as train_seeds
from argosy.run.train import resume as resume, train as train
from argosy.trainer import (
    OfflineTrainer as OfflineTrainer,
    OffpolicyTrainer as OffpolicyTrainer,
    OnpolicyTrainer as OnpolicyTrainer,
)
