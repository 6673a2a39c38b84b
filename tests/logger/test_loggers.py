"""Loggers write what can be read back, and none of them ends a training."""

import contextlib
import errno
import json
import math
import os
import threading
import time
import warnings
from unittest import mock

import numpy as np
import pytest
import torch

from argosy.logger import (
    ConsoleLogger,
    JSONLLogger,
    Loggers,
    LoggerWarning,
    MlflowLogger,
    SafeLogger,
    TensorBoardLogger,
    WandbLogger,
    read_jsonl,
)
from argosy.presets import preset
from argosy.run.loggers import make_loggers
from argosy.settings import LoggerConfig

pytestmark = pytest.mark.filterwarnings("error::argosy.logger.LoggerWarning")


def log_steps(logger, count):
    for step in range(count):
        logger.log({"a": step}, env_step=step)
    logger.close()


def read_events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_jsonl_writes_one_object_per_call_that_is_read_back(tmp_path):
    logger = JSONLLogger(tmp_path / "new" / "metrics.jsonl")
    logger.log({"loss/policy": 0.5}, env_step=10, gradient_step=1)
    logger.log({"episode/return_mean": math.nan, "x": math.inf}, env_step=20)
    rows = [json.loads(line) for line in logger.path.read_text().splitlines()]  # before close: nothing is pending
    logger.close()
    logger.close()
    assert rows == [
        {"env_step": 10, "gradient_step": 1, "loss/policy": 0.5},
        {"env_step": 20, "gradient_step": 0, "episode/return_mean": None, "x": None},
    ]
    assert read_jsonl(logger.path) == rows


def test_jsonl_of_a_resumed_run_drops_what_came_after_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for start in range(2):
        logger = JSONLLogger(path, resume_step=20 if start else None)
        for step in (10, 20, 30) if start == 0 else (30, 40):
            logger.log({"run": start}, env_step=step)
        logger.close()
    assert [(row["env_step"], row["run"]) for row in read_jsonl(path)] == [(10, 0), (20, 0), (30, 1), (40, 1)]


def test_jsonl_goes_on_after_a_torn_line(tmp_path, monkeypatch):
    logger = JSONLLogger(tmp_path / "metrics.jsonl")
    logger.log({"a": 1}, env_step=1)
    real, calls = os.write, []

    def full_disk(fd, data):
        calls.append(data)
        if len(calls) == 1:
            return real(fd, data[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full_disk)
    with pytest.warns(LoggerWarning, match="No space left"):
        logger.log({"a": 2}, env_step=2)
    monkeypatch.setattr(os, "write", real)
    logger.log({"a": 3}, env_step=3)
    logger.close()
    assert [row["a"] for row in read_jsonl(logger.path)] == [1, 3]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_warns_once_and_the_others_go_on(tmp_path):
    good = JSONLLogger(tmp_path / "good.jsonl")
    both = Loggers(JSONLLogger("/dev/full"), good)
    with pytest.warns(LoggerWarning, match=r"/dev/full.*No space left.*goes on") as record:
        log_steps(both, 5)
    assert len(record) == 1
    assert [row["a"] for row in read_jsonl(good.path)] == [0, 1, 2, 3, 4]


def test_tensorboard_event_file_is_read_back(tmp_path):
    logger = TensorBoardLogger(tmp_path / "tb")
    logger.log({"loss/policy": 0.5, "episode/return_mean": 20.0}, env_step=10, gradient_step=1)
    logger.log({"loss/policy": 0.25}, env_step=30, gradient_step=2)
    logger.close()
    logger.close()
    assert read_events(tmp_path / "tb") == {
        "loss/policy": [(10, 0.5), (30, 0.25)],
        "episode/return_mean": [(10, 20.0)],
        "gradient_step": [(10, 1.0), (30, 2.0)],
    }


def test_tensorboard_of_a_resumed_run_hides_what_came_after_the_checkpoint(tmp_path):
    for start in range(2):
        logger = TensorBoardLogger(tmp_path, resume_step=20 if start else None)
        for step in (10, 20, 30, 50) if start == 0 else (30, 40):
            logger.log({"run": start}, env_step=step)
        logger.close()
    assert read_events(tmp_path)["run"] == [(10, 0), (20, 0), (30, 1), (40, 1)]


def test_tensorboard_with_a_full_disk_warns_once(tmp_path, monkeypatch):
    from tensorboard.summary.writer.record_writer import RecordWriter

    def full_disk(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full_disk)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)  # its thread dies aloud
    logger = TensorBoardLogger(tmp_path / "tb")
    with pytest.warns(LoggerWarning, match="No space left") as record:
        log_steps(logger, 100)
    assert len(record) == 1
    for thread in threading.enumerate():
        if type(thread).__name__ == "_AsyncWriterThread":
            thread.join()


def test_tensorboard_folder_that_cannot_be_made_warns(tmp_path):
    (tmp_path / "file").write_text("")
    logger = TensorBoardLogger(tmp_path / "file" / "tb")
    with pytest.warns(LoggerWarning, match="TensorBoardLogger"):
        logger.log({"a": 1.0}, env_step=1)
    logger.close()


def test_wandb_offline_writes_its_run_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandbLogger("proj", save_dir=tmp_path, mode="offline", config={"gamma": 0.99}, name="first")
    logger.log({"episode/return_mean": 123.0}, env_step=10, gradient_step=1)
    logger.close()
    logger.close()
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    data = file.read_bytes()
    for _ in range(600):  # wandb's own process writes a moment after `finish` has returned
        if b"episode/return_mean" in data and b"gamma" in data:
            break
        time.sleep(0.1)
        data = file.read_bytes()
    for written in (b"episode/return_mean", b"123", b"env_step", b"gamma", b"first"):
        assert written in data


def test_wandb_that_is_down_is_tried_once_and_warned_about(tmp_path, monkeypatch):
    import wandb

    calls = []

    def down(**kwargs):
        calls.append(kwargs)
        raise wandb.errors.CommError("service unreachable")

    monkeypatch.setattr(wandb, "init", down)
    logger = WandbLogger("proj", save_dir=tmp_path, mode="online")
    with pytest.warns(LoggerWarning, match="service unreachable") as record:
        log_steps(logger, 3)
    assert len(record) == len(calls) == 1


def test_console_prints_the_chosen_keys(capsys):
    logger = ConsoleLogger(keys=("episode/return_mean",))
    logger.log({"loss/policy": 1.0, "episode/return_mean": 21.5}, env_step=1000)
    logger.log({"loss/policy": 1.0}, env_step=2000)
    assert capsys.readouterr().err.splitlines() == ["step 1,000  episode/return_mean 21.5"]


def test_a_foreign_logger_that_fails_is_guarded_too(tmp_path):
    class Foreign:
        closed = False

        def log(self, metrics, *, env_step, gradient_step=0):
            raise RuntimeError("boom")

        def close(self):
            self.closed = True

    foreign, good = Foreign(), JSONLLogger(tmp_path / "good.jsonl")
    both = Loggers(foreign, good)
    with pytest.warns(LoggerWarning, match="boom") as record:
        log_steps(both, 2)
    assert len(record) == 1
    assert foreign.closed
    assert len(read_jsonl(good.path)) == 2


@pytest.mark.parametrize("odd", [None, "x", 10**400, torch.zeros(2)], ids=["none", "text", "large", "tensor"])
@pytest.mark.parametrize("kind", ["jsonl", "tensorboard"])
def test_what_is_no_number_is_left_out_and_the_record_goes_on(tmp_path, kind, odd):
    logger = JSONLLogger(tmp_path / "m.jsonl") if kind == "jsonl" else TensorBoardLogger(tmp_path)
    with pytest.warns(LoggerWarning, match=r"leaves out 'my/rate', which is .*: metrics are numbers"):
        logger.log({"loss": np.float32(0.5), "my/rate": odd}, env_step=0)
    for step in (1, 2):
        logger.log({"loss": 0.5, "my/rate": odd}, env_step=step)  # without another warning
    logger.close()
    steps = read_jsonl(tmp_path / "m.jsonl") if kind == "jsonl" else read_events(tmp_path)["loss"]
    assert len(steps) == 3


def test_an_interrupt_is_not_swallowed():
    class Interrupted(SafeLogger):
        def _write(self, metrics, env_step, gradient_step):
            raise KeyboardInterrupt

    with warnings.catch_warnings(), pytest.raises(KeyboardInterrupt):
        Interrupted().log({}, env_step=0)


@pytest.mark.slow  # the data base is made: ten seconds
def test_mlflow_without_a_server_keeps_runs_and_goes_on_with_them(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    first = MlflowLogger(uri, experiment="mine", name="cart 'pole'", config={"algorithm": "dqn", "long": "x" * 9999})
    first.log({"episode/return_mean": 1.5}, env_step=10, gradient_step=2)
    first.close()
    again = MlflowLogger(uri, experiment="mine", name="cart 'pole'")
    again.log({"episode/return_mean": 2.5, "info/success (%)": 50.0}, env_step=20, gradient_step=4)
    again.close()
    again.close()

    client = mlflow.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    history = client.get_metric_history(run.info.run_id, "episode/return_mean")
    assert [(one.step, one.value) for one in history] == [(10, 1.5), (20, 2.5)]
    assert run.data.metrics["gradient_step"] == 4
    assert run.data.metrics["info/success ___"] == 50.0  # MLflow has no such characters
    assert run.data.params["algorithm"] == "dqn"
    assert run.info.status == "FINISHED"


def test_an_mlflow_that_is_down_is_tried_once_and_warned_about(monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    tries = []
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "40")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES")  # put back in the end

    def down(tracking_uri):
        tries.append(tracking_uri)
        raise ConnectionError("refused")

    monkeypatch.setattr(mlflow, "MlflowClient", down)
    logger = MlflowLogger("http://127.0.0.1:1")
    with pytest.warns(LoggerWarning, match=r"MlflowLogger.*refused"):
        log_steps(logger, 3)
    assert tries == ["http://127.0.0.1:1"]
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "40"  # the user's own
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "3"


def test_runs_at_mlflow_have_the_names_that_they_were_given(monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    client = mock.MagicMock(**{"search_runs.return_value": []})
    monkeypatch.setattr(mlflow, "MlflowClient", lambda tracking_uri: client)
    settings = {f"setting.{i}": i for i in range(250)}
    MlflowLogger("http://127.0.0.1:1", name="mine", config=settings).log({"a": 1.0}, env_step=1)
    assert client.create_run.call_args.kwargs["run_name"] == "mine"
    parts = [call.kwargs["params"] for call in client.log_batch.call_args_list if "params" in call.kwargs]
    assert [len(part) for part in parts] == [100, 100, 50]


def test_mlflow_is_told_all_settings(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    told = mock.MagicMock()
    monkeypatch.setattr("argosy.run.loggers.MlflowLogger", told)
    make_loggers(LoggerConfig(mlflow="sqlite:///x.db"), tmp_path, preset("dqn", "CartPole-v1").to_dict()).close()
    told = told.call_args.kwargs["config"]
    assert (told["algorithm"], told["config.n_step"], told["stop.test_return"]) == ("dqn", 3, 490.0)


def test_what_is_logged_again_at_the_step_of_the_checkpoint_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with contextlib.closing(JSONLLogger(path)) as logger:
        for step in (10, 20):
            logger.log({"loss/total": 1.0}, env_step=step)
            logger.log({"test/return_mean": float(step)}, env_step=step)
    with contextlib.closing(JSONLLogger(path, resume_step=20)) as logger:
        logger.log({"test/return_mean": 21.0}, env_step=20)
    rows = read_jsonl(path)
    assert [row["test/return_mean"] for row in rows if "test/return_mean" in row] == [10.0, 21.0]
    assert [row["env_step"] for row in rows if "loss/total" in row] == [10, 20]
