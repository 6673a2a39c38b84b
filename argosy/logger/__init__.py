"""Loggers: JSON lines, TensorBoard, Weights & Biases, MLflow, console, and several at once; the progress bar."""

from argosy.logger.base import Logger, Loggers, LoggerWarning, SafeLogger
from argosy.logger.console import ConsoleLogger
from argosy.logger.jsonl import JSONLLogger, read_jsonl
from argosy.logger.mlflow import MlflowLogger
from argosy.logger.progress import ProgressBar
from argosy.logger.tensorboard import TensorBoardLogger
from argosy.logger.wandb import WandbLogger

__all__ = [
    "ConsoleLogger",
    "JSONLLogger",
    "Logger",
    "LoggerWarning",
    "Loggers",
    "MlflowLogger",
    "ProgressBar",
    "SafeLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "read_jsonl",
]
