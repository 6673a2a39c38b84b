"""Metrics for TensorBoard: `tensorboard --logdir runs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.errors import require
from argosy.logger.base import SafeLogger

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardLogger(SafeLogger):
    """Writes scalars over env steps into an event file; `gradient_step` is one of them.

    Args:
        log_dir: folder of the event file; made at the first call.
        resume_step: hide what the folder's files hold beyond this env step (they were written after the checkpoint that
            the run goes on from). None hides nothing.

    Raises:
        MissingExtraError: tensorboard is not installed.
    """

    retries = False  # its writing thread dies with the first failure

    def __init__(self, log_dir: str | Path, *, resume_step: int | None = None) -> None:
        require("tensorboard", "tensorboard")
        self.log_dir = self.place = Path(log_dir)
        self._purge_step = None if resume_step is None else resume_step + 1
        self._writer: SummaryWriter | None = None

    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.log_dir), flush_secs=10, purge_step=self._purge_step)
        for key, value in metrics.items():
            self._writer.add_scalar(key, value, env_step)
        self._writer.add_scalar("gradient_step", gradient_step, env_step)

    def _finish(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()
