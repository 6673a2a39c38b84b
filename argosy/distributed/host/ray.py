"""Run workers as Ray actors. The only module of the fleet that knows Ray's API."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from argosy.distributed.host.base import (
    Beat,
    Build,
    Context,
    Handle,
    Host,
    Peer,
    PeerLostError,
    Resources,
    Worker,
    failed,
)
from argosy.distributed.host.cluster import VitalSigns, choose_auth_mode, set_auth_mode
from argosy.distributed.host.guardian import Guardian
from argosy.env.worker.localray import start_local_ray
from argosy.errors import ArgosyError, ConfigError, require
from argosy.process import tune_process, yield_cpu

_SHM = Path("/dev/shm")
# Read when a process starts. Threads of torch that wait for each other would burn the cores of the workers beside them;
# and what a thread other than the first one frees would go back to the system, and cost page faults when it is needed.
_SEVERAL_THREADS = {"OMP_WAIT_POLICY": "passive", "MALLOC_ARENA_MAX": "1"}


class _HostActor:
    """A host as an asyncio actor: calls are answered on the event loop while the worker polls in its thread."""

    def __init__(self, build: Build, name: str, incarnation: int, namespace: str, threads: int) -> None:
        import ray
        import torch

        torch.set_num_threads(threads)
        tune_process()
        gc.freeze()  # Ray and torch bring 200,000 objects, which each full collection would look through
        peers = functools.partial(_RayPeer, namespace)
        # In the object store; a node that fetches it keeps one copy for all its readers.
        share = lambda value: functools.partial(_translated, ray.put(value), name)  # noqa: E731  # one line says it
        # A host's own name often stands for 127.0.1.1 there; Ray knows how the others reach it.
        address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        context = Context(name, incarnation, peers, share, address)
        self.host = Host(build, context)

    async def ask(self, what: str, *args: object) -> object:
        """Ask the host: call, beat, stack or stop."""
        answer: Future[object] = getattr(self.host, what)(*args)
        return await asyncio.wrap_future(answer)


def _in_background(build: Build, context: Context) -> Worker:
    """Build a worker whose thread runs when no other one wants the CPU; calls are answered as ever."""
    yield_cpu()
    return build(context)


class _RayPeer:
    """Finds the actor by name, and again when it was restarted."""

    def __init__(self, namespace: str, name: str) -> None:
        self.name, self._namespace = name, namespace
        self._actor: Any = None

    def call(self, method: str, *args: object) -> Future[Any]:
        import ray

        try:
            if self._actor is None:
                self._actor = ray.get_actor(self.name, self._namespace)
            ref = self._actor.ask.remote("call", method, *args)
        except (ValueError, ray.exceptions.RayError) as error:  # there is no actor of that name (any more)
            self._forget()
            return failed(PeerLostError(f"worker {self.name!r} is not there: {error}"))
        return _translated(ref, self.name, self._forget)

    def _forget(self) -> None:
        self._actor = None


def _translated(ref: Any, name: str, on_lost: Callable[[], None] = lambda: None) -> Future[Any]:
    """Make a future whose errors are ours: PeerLostError, or what the method raised."""
    import ray

    answer: Future[Any] = Future()

    def done(future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            answer.set_result(future.result())
        elif isinstance(error, ray.exceptions.RayTaskError):
            answer.set_exception(error.cause if isinstance(error.cause, Exception) else error)
        else:
            on_lost()
            answer.set_exception(PeerLostError(f"worker {name!r} is gone: {error}"))

    ref.future().add_done_callback(done)
    return answer


@dataclass(frozen=True)
class _RayHandle:
    launcher: RayLauncher
    actor: Any
    name: str

    def beat(self) -> Future[Beat]:
        return _translated(self.actor.ask.remote("beat"), self.name)

    def stack(self) -> Future[str]:
        return _translated(self.actor.ask.remote("stack"), self.name)

    def stop(self) -> Future[None]:
        return _translated(self.actor.ask.remote("stop"), self.name)

    def kill(self) -> None:
        self.launcher.ray.kill(self.actor)
        if self.launcher.lost():
            return  # it ends with its raylet, and nobody would answer
        # The name is free a moment later; a successor of the same name has to wait for it.
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            try:
                self.launcher.ray.get_actor(self.name, self.launcher.namespace)
            except ValueError:
                return
            time.sleep(0.01)


class RayLauncher:
    """Runs each worker as a Ray actor, on a local Ray that it starts, or on a running cluster.

    The actors belong to this process: when it ends, however it ends, Ray ends them too.

    Args:
        address: of a running cluster ("auto": the one on this machine); None starts a local Ray, which `close` stops.
        namespace: names of workers are unique within it.
        num_cpus: CPUs that a local Ray hands out; they are counted, not enforced. None: the machine's.
        object_store_bytes: size of a local Ray's object store; None: Ray's choice.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: there is no cluster at the address, or shared memory is too small for the object store.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        namespace: str = "argosy",
        num_cpus: float | None = None,
        object_store_bytes: int | None = None,
    ) -> None:
        self.ray = ray = require("ray", "fleet")
        self.namespace = namespace
        self._owns = not ray.is_initialized()
        self._guardian: Guardian | None = None
        self._vital_signs = VitalSigns(ray, is_local=self._owns and address is None)
        self._chose_mode = False
        if not self._owns:
            return
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if address is None:
            _check_shared_memory(object_store_bytes)
            try:
                start_local_ray(
                    ray,
                    num_cpus=num_cpus,
                    object_store_memory=object_store_bytes,
                    namespace=namespace,
                    logging_level=logging.ERROR,
                )
            except Exception as error:  # Ray raises nothing more special where one of its processes does not start
                raise FleetStartError(f"a local Ray could not be started: {error}") from error
            self._guardian = Guardian()
            return
        try:
            self._chose_mode = choose_auth_mode(ray, address)
            ray.init(address=address, namespace=namespace, logging_level=logging.ERROR, log_to_driver=False)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            self._forget_mode()
            said = getattr(error, "message", error)
            raise ConfigError(
                f"there is no Ray cluster at {address!r} that lets us in ({said}); start one with `ray start --head`, "
                "or leave the address out to start a local one. A cluster that asks for a token wants it here, too: in "
                "~/.ray/auth_token, in RAY_AUTH_TOKEN or in the file RAY_AUTH_TOKEN_PATH"
            ) from error

    def nodes(self) -> list[dict[str, float]]:
        """Return the amounts that each node of the cluster has."""
        nothing = Resources(num_cpus=0.0).amounts()
        return [nothing | node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def start(self, name: str, incarnation: int, build: Build, resources: Resources) -> Handle:
        """Start an actor."""
        options: dict[str, Any] = {
            "name": name,
            "namespace": self.namespace,
            "num_cpus": resources.num_cpus,
            "num_gpus": resources.num_gpus,
            "resources": dict(resources.custom) or None,
            "max_concurrency": 100_000,  # calls that wait for news or for a forward pass cost next to nothing
            "enable_task_events": False,  # Ray's server would keep a record of each call: 300 MB an hour
        }
        if resources.memory_bytes is not None:
            options["memory"] = resources.memory_bytes
        if resources.background:
            build = functools.partial(_in_background, build)
        threads = max(1, int(resources.num_cpus))
        env = dict(resources.env)
        if threads > 1:
            env = {name: value for name, value in _SEVERAL_THREADS.items() if name not in os.environ} | env
        if env:
            options["runtime_env"] = {"env_vars": env}
        try:
            host = self.ray.remote(_HostActor).options(**options)
            actor = host.remote(build, name, incarnation, self.namespace, threads)
        except ValueError as error:
            raise FleetStartError(f"worker {name!r} could not be started: {error}") from error
        return _RayHandle(self, actor, name)

    def connect(self, name: str) -> Peer:
        """Return a peer that finds the actor by name."""
        return _RayPeer(self.namespace, name)

    def lost(self) -> str:
        """Say which part of Ray is gone for good."""
        return self._vital_signs()

    def close(self) -> None:
        """Stop the local Ray that this launcher started."""
        lost = self.lost() if self._guardian is not None and self.ray.is_initialized() else ""
        if self._owns and self.ray.is_initialized():
            self.ray.shutdown()
        self._forget_mode()
        if self._guardian is not None:
            if lost:
                self._guardian.finish()  # helpers that nobody has told to end
            self._guardian.close()
            self._guardian = None

    def _forget_mode(self) -> None:
        """The next cluster may ask for something else."""
        if self._chose_mode:
            set_auth_mode(self.ray, None)
            self._chose_mode = False

    def __enter__(self) -> RayLauncher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def ship_module(module: ModuleType) -> None:
    """Let what a module defines travel to the workers by value: their machines need not have its file."""
    require("ray", "fleet")
    from ray import cloudpickle

    register: Any = cloudpickle.register_pickle_by_value
    register(module)


class FleetStartError(ArgosyError, RuntimeError):
    """A worker could not be started at all."""


def _check_shared_memory(object_store_bytes: int | None) -> None:
    """Refuse to let Ray fall back to a disk: in containers /dev/shm often has 64 MB."""
    if not _SHM.exists():
        return
    stat = os.statvfs(_SHM)
    free = stat.f_bavail * stat.f_frsize
    wanted = object_store_bytes or 100 * 2**20
    if free < wanted:
        raise ConfigError(
            f"/dev/shm has {free / 2**20:.0f} MB free, the fleet needs {wanted / 2**20:.0f} MB for shared memory; "
            "in Docker, start the container with --shm-size=2g"
        )
