"""Loggers: JSON lines, TensorBoard, Weights & Biases, MLflow, console, and several at once; the progress bar."""

from argosy.logger.base import (
    Logger as Logger,
    Loggers as Loggers,
    LoggerWarning as LoggerWarning,
    SafeLogger as SafeLogger,
)
from argosy.logger.console import ConsoleLogger as ConsoleLogger
from argosy.logger.jsonl import JSONLLogger as JSONLLogger, read_jsonl as read_jsonl
from argosy.logger.mlflow import MlflowLogger as MlflowLogger
from argosy.logger.progress import ProgressBar as ProgressBar
from argosy.logger.tensorboard import TensorBoardLogger as TensorBoardLogger
from argosy.logger.wandb import WandbLogger as WandbLogger
