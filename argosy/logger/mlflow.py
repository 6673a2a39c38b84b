"""Metrics for MLflow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from argosy.errors import require
from argosy.logger.base import SafeLogger

if TYPE_CHECKING:
    from mlflow import MlflowClient

_TAG = "argosy.run"
_MOST = 100
"""Parameters that MLflow takes in one call."""
_OTHERS = re.compile(r"[^\w\-. :/]", re.ASCII)
"""Characters that MLflow refuses in a name."""
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""MLflow's own would let a run wait for minutes where no server answers."""


class MlflowLogger(SafeLogger):
    """Sends metrics to MLflow, over env steps; the connection is made at the first call.

    Args:
        tracking_uri: a server, http://HOST:5000, or a data base without one, sqlite:///FILE.
        experiment: MLflow's name for runs that belong together.
        name: name of the run; one that has it already goes on.
        config: what MLflow shows as the run's parameters.

    Raises:
        MissingExtraError: mlflow is not installed.
    """

    retries = False  # connecting can take a minute to fail

    def __init__(
        self,
        tracking_uri: str,
        *,
        experiment: str = "argosy",
        name: str = "run",
        config: Mapping[str, object] | None = None,
    ) -> None:
        for variable, value in _PATIENCE.items():
            os.environ.setdefault(variable, value)
        self._mlflow = require("mlflow", "mlflow")
        self.tracking_uri = self.place = tracking_uri
        self._experiment, self._name = experiment, name
        self._config = {key: str(value)[:500] for key, value in (config or {}).items()}
        self._client: MlflowClient | None = None
        self._run_id = ""

    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        if self._client is None:
            client = self._mlflow.MlflowClient(tracking_uri=self.tracking_uri)
            self._run_id, self._client = self._begin(client), client
        now, metric = int(time.time() * 1000), self._mlflow.entities.Metric
        row = {_OTHERS.sub("_", key): value for key, value in metrics.items()} | {"gradient_step": gradient_step}
        self._client.log_batch(self._run_id, [metric(key, value, now, env_step) for key, value in row.items()])

    def _begin(self, client: MlflowClient) -> str:
        """Return the run of this name, made if it is not there."""
        found = client.get_experiment_by_name(self._experiment)
        experiment = client.create_experiment(self._experiment) if found is None else found.experiment_id
        name = self._name.replace("'", "")  # the filter has no way to write one
        for run in client.search_runs([experiment], f"tags.`{_TAG}` = '{name}'"):
            client.update_run(run.info.run_id, "RUNNING")
            return str(run.info.run_id)
        run = client.create_run(experiment, run_name=self._name, tags={_TAG: name})
        parameters = [self._mlflow.entities.Param(key, value) for key, value in self._config.items()]
        for start in range(0, len(parameters), _MOST):
            client.log_batch(run.info.run_id, params=parameters[start : start + _MOST])
        return str(run.info.run_id)

    def _finish(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            client.set_terminated(self._run_id)
