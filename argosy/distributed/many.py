"""Runs side by side on the machines of a Ray cluster: each a process of its own, as on one machine."""

from __future__ import annotations

import os
from typing import Any

from argosy.distributed.host.ray import RayLauncher
from argosy.run.many import Job, arguments
from argosy.run.process import LocalProcess, Process


class RayMachines:
    """Machines of a running cluster, which have the folder of the runs, and that of the code, under the same path.

    Args:
        address: of the cluster ("auto": the one of this machine); None: a local Ray.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: there is no cluster at the address.
    """

    def __init__(self, address: str | None) -> None:
        self._launcher = RayLauncher(address, namespace=f"argosy-many-{os.getpid()}")
        self._ray: Any = self._launcher.ray

    @property
    def room(self) -> int:
        """How many runs of one core find room side by side."""
        return max(1, sum(int(node.get("CPU", 0.0)) for node in self._launcher.nodes()))

    def start(self, job: Job, slot: int, slots: int) -> Process:
        """Begin a run, or go on with it, where its cores, and the GPU that it asks for, are free; wait for them."""
        gpus = int(job.experiment.device.startswith("cuda"))
        options = {"num_cpus": max(1, job.experiment.threads), "num_gpus": gpus, "max_restarts": 0}
        folders = [os.getcwd(), str(job.root.absolute())]
        actor = self._ray.remote(LocalProcess).options(**options).remote(arguments(job), (), folders)
        return _FarProcess(self._ray, actor)

    def __enter__(self) -> RayMachines:
        return self

    def __exit__(self, *error: object) -> None:
        self._launcher.close()


class _FarProcess:
    """A run's process on another machine: an actor there is its `LocalProcess`."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor, self._asked = ray, actor, actor.poll.remote()
        self._started = self._interrupted = False
        self._said = ""

    def poll(self) -> int | None:
        """Return its exit code, 1 if its machine is lost; None: it has not ended, or waits for a free machine."""
        if not self._ray.wait([self._asked], timeout=0)[0]:
            return None
        try:
            code = self._ray.get(self._asked)
            if code is None:
                self._started, self._asked = True, self._actor.poll.remote()
                return None
            self._said = str(self._ray.get(self._actor.said.remote()))
        except self._ray.exceptions.RayError as error:  # it could not begin, or its machine is gone
            code, self._said = 130 if self._interrupted and not self._started else 1, str(error)
        self._ray.kill(self._actor)
        return int(code)

    def interrupt(self) -> None:
        """Do what Ctrl-C does; one that still waits for a machine never begins."""
        self._interrupted = True
        if self._started:
            self._actor.interrupt.remote()
        else:
            self._ray.kill(self._actor)

    def kill(self) -> None:
        """End it now."""
        self._actor.kill.remote()

    def said(self) -> str:
        """Return the end of what it wrote on standard error."""
        return self._said
