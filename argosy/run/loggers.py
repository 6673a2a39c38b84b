"""Where the metrics of a run go, of a local one as of a fleet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from argosy.config import Plain
from argosy.data import tree
from argosy.logger import JSONLLogger, Logger, Loggers, MlflowLogger, TensorBoardLogger, WandbLogger
from argosy.settings import LoggerConfig


def make_loggers(
    settings: LoggerConfig, folder: Path, description: Mapping[str, Plain], resume_step: int | None = None
) -> Loggers:
    """Make the loggers of a run: its metrics.jsonl, and those that are asked for; some show its description.

    `resume_step` is the env step (offline: update) at which the run goes on; what was logged beyond it goes. None: a
    new run.
    """
    loggers: list[Logger] = [JSONLLogger(folder / "metrics.jsonl", resume_step=resume_step)]
    if settings.tensorboard:
        loggers.append(TensorBoardLogger(folder / "tensorboard", resume_step=resume_step))
    # With the folder of the runs, below another of which one of the same seed may have begun in the same second
    name = re.sub(r"[^\w.-]", "-", "-".join(folder.absolute().parts[-4:]))[-128:]  # W&B takes no more
    if settings.mlflow is not None:
        parameters = {".".join(map(str, path)): value for path, value in tree.flatten(dict(description)).items()}
        loggers.append(MlflowLogger(settings.mlflow, name=name, config=parameters))
    if settings.wandb != "off":
        project, mode = settings.wandb_project, settings.wandb
        loggers.append(WandbLogger(project, name=name, save_dir=folder, config=description, mode=mode, run_id=name))
    return Loggers(*loggers)
