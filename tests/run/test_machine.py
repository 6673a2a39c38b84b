"""What a run was made on."""

import platform

import torch

from argosy.run import machine as module
from argosy.run.machine import machine


def test_versions_and_hardware_are_those_of_this_process():
    found = machine()
    assert found["Python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert int(found["cores"]) >= 1
    assert found["processor"]
    assert ("GPU" in found) == torch.cuda.is_initialized()


def test_a_system_without_proc_names_its_architecture(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "Path", lambda name: tmp_path / "missing")
    assert machine()["processor"] in (platform.processor(), platform.machine())
