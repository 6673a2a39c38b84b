"""Metrics for Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from argosy.errors import require
from argosy.logger.base import SafeLogger

if TYPE_CHECKING:
    from wandb import Run


class WandbLogger(SafeLogger):
    """Sends metrics to W&B, over env steps; the connection is made at the first call, so that a W&B that is down warns.

    Args:
        project: name of the W&B project.
        name: name of the run.
        save_dir: folder for wandb's own files.
        config: what W&B shows as the run's configuration.
        mode: "online", "offline" (files only; `wandb sync` sends them later), "disabled", or None for `WANDB_MODE`.
        run_id: W&B's id of a run to go on with.

    Raises:
        MissingExtraError: wandb is not installed.
    """

    retries = False  # connecting can take a minute to fail

    def __init__(
        self,
        project: str = "argosy",
        *,
        name: str | None = None,
        save_dir: str | Path = ".",
        config: Mapping[str, object] | None = None,
        mode: Literal["online", "offline", "disabled"] | None = None,
        run_id: str | None = None,
    ) -> None:
        self._wandb = require("wandb", "wandb")
        self.project = self.place = project
        self._settings = {"name": name, "config": dict(config or {}), "mode": mode, "id": run_id}
        self._save_dir = Path(save_dir)
        self._run: Run | None = None

    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        if self._run is None:
            self._save_dir.mkdir(parents=True, exist_ok=True)
            self._run = run = self._wandb.init(
                project=self.project, dir=str(self._save_dir), resume="allow", reinit="create_new", **self._settings
            )
            run.define_metric("env_step")
            run.define_metric("*", step_metric="env_step")
        self._run.log({**metrics, "env_step": env_step, "gradient_step": gradient_step})

    def _finish(self) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            run.finish()
