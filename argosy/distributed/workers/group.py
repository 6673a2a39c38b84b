"""Several trainer workers as one: they average their gradients, pool their statistics and agree on every step.

The average is taken where a gradient arrives at its parameter, before anything is done with it, so that every algorithm
works unchanged, whatever its optimiser clips or scales. NCCL averages the gradients of GPUs without a way through host
memory; all else goes through Gloo.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import hmac
import json
import logging
import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from argosy.algorithm.base import Algorithm
from argosy.data import RunningMeanStd
from argosy.distributed.host.base import Peer, Repeated
from argosy.errors import DataError
from argosy.net import RunningStatistics
from argosy.trainer.statefile import dump_state, load_state

_c10d: Any = dist  # its type hints leave out half of what it documents
_SIGNATURE_BYTES = hashlib.sha256().digest_size
_TIMEOUT = datetime.timedelta(seconds=60)
"""Of one exchange. That a member is gone shows long before: its supervisor then starts the whole group again."""


@dataclass(frozen=True)
class Placement:
    """Where a member learns."""

    device: str
    """cpu or cuda."""
    gpu: str = ""
    """Which one of all machines'; "": none."""
    nccl: bool = False
    """Whether this build of PyTorch has it."""

    @classmethod
    def of(cls, device: torch.device) -> Placement:
        """Look at this process's device."""
        if device.type != "cuda":
            return cls(device.type)
        return cls("cuda", str(torch.cuda.get_device_properties(device).uuid), dist.is_nccl_available())


def choose_backend(placements: Sequence[Placement]) -> tuple[Literal["nccl", "gloo"], str]:
    """Say by what a group averages gradients, the same in all its members, and why not by NCCL though on GPUs.

    Args:
        placements: of all members, in the order of their ranks.
    """
    if any(placement.device != "cuda" for placement in placements):
        return "gloo", ""
    without = [rank for rank, placement in enumerate(placements) if not placement.nccl]
    if without:
        return "gloo", f"the PyTorch of trainers {without} has no NCCL"
    gpus = [placement.gpu for placement in placements]
    if len(set(gpus)) < len(gpus):
        return "gloo", (
            f"NCCL wants a GPU for each trainer, and theirs are {gpus}; give each one of its own, e.g. "
            "trainer_resources=Resources(num_gpus=1)"
        )
    return "nccl", ""


class Meeting(NamedTuple):
    """Where the members of a group meet."""

    host: str
    port: int
    secret: str
    """What members alone know: what they write into the store, and states that they share, are signed with it."""


class SignedStore(_c10d.Store):  # type: ignore[misc]  # see `_c10d`
    """A store whose keys and values anybody may list, read and write; only what a member has written is taken.

    Args:
        store: that one.
        secret: of the members.
    """

    def __init__(self, store: Any, secret: str) -> None:
        super().__init__()
        self.open, self._secret = store, secret

    def set(self, key: str, value: str | bytes) -> None:
        """Write."""
        data = value.encode() if isinstance(value, str) else value
        self.open.set(key, _signature(self._secret, key.encode(), data) + data)

    def get(self, key: str) -> bytes:
        """Wait for what a member has written.

        Raises:
            DataError: somebody else has.
        """
        signed: bytes = self.open.get(key)
        signature, data = signed[:_SIGNATURE_BYTES], signed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, _signature(self._secret, key.encode(), data)):
            raise DataError(f"{key!r} was written by somebody who is not in this group of trainers")
        return data

    def check(self, keys: list[str]) -> bool:
        """Whether all are there."""
        return bool(self.open.check(keys))

    def wait(self, keys: list[str], timeout: datetime.timedelta = _TIMEOUT) -> None:
        """Wait until all are there."""
        self.open.wait(keys, timeout)

    def add(self, key: str, amount: int) -> int:
        """Count."""
        return int(self.open.add(key, amount))


class TrainerGroup:
    """The trainers of one policy.

    When a member fails, their supervisor starts all of them again, and they meet anew. They listen on the leader's own
    address, not on every one of its machine; what a stranger sends there is not read.

    Args:
        rank: of this member; member 0 leads.
        size: number of members.
        leader: member 0.
        device: where this member learns.
        host: address under which the others reach this member's machine.
    """

    def __init__(
        self, rank: int, size: int, leader: Peer, device: torch.device | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.rank, self.size = rank, size
        self._device, self._host = device or torch.device("cpu"), host
        self._weight = 1.0
        self._store: Any = None
        self._secret = ""
        self._address: Meeting | None = None
        self._asked: Repeated[Meeting | None] = Repeated(lambda: leader.call("group_address"))
        self._gloo: Any = None
        self._nccl: Any = None
        if rank == 0:
            listener = socket.create_server((host, 0))  # the store by itself would listen on every address
            port, handle = listener.getsockname()[1], listener.detach()
            store = _c10d.TCPStore(
                host, port, None, True, _TIMEOUT, wait_for_workers=False, master_listen_fd=handle, use_libuv=False
            )
            self._address = Meeting(host, port, secrets.token_hex(16))
            self._meet(store, self._address.secret)

    def address(self) -> Meeting | None:
        """Return where the members meet; None once they have met: who comes later belongs to the next meeting."""
        return self._address

    def join(self) -> bool:
        """Meet the others; False: not all are there yet, try again.

        Raises:
            RuntimeError: a member has gone again.
        """
        if self._store is None and not self._find_leader():
            return False
        if not self._store.check([_placement_key(rank) for rank in range(self.size)]):
            return False
        placements = [Placement(**json.loads(self._store.get(_placement_key(rank)))) for rank in range(self.size)]
        backend, reason = choose_backend(placements)
        if reason and self.rank == 0:
            logging.getLogger(__name__).warning("gradients are averaged by gloo, through host memory: %s", reason)
        self._gloo = _gloo(self._store, self.rank, self.size, self._host)
        if backend == "nccl":
            self._nccl = _nccl(self._store.open, self.rank, self.size)
        self._address = None
        return True

    @property
    def joined(self) -> bool:
        """Whether the members have met."""
        return self._gloo is not None

    def leave(self) -> None:
        """Let go of the others; their exchanges with this member fail, also those under way."""
        if self._nccl is not None:
            self._nccl.abort()
        self._gloo = self._nccl = self._store = None

    def tie(self, algorithm: Algorithm) -> None:
        """From now on, every gradient of a parameter is the mean over the members, and statistics are of all rows."""
        parts = list(_parts(algorithm))
        modules = [part for part in parts if isinstance(part, torch.nn.Module)]
        for part in (*parts, *(child for module in modules for child in module.modules())):
            if isinstance(part, RunningMeanStd | RunningStatistics):
                part.pool = self.sum
        tensors = [p for module in modules for p in module.parameters()]
        tensors += [part for part in parts if isinstance(part, torch.nn.Parameter)]
        for tensor in dict.fromkeys(tensors):  # a shared one has one hook
            if tensor.requires_grad:
                register: Any = tensor.register_hook
                register(self.mean)

    def weigh(self, size: int, total: float) -> None:
        """Let this member count in means as its part of all has it, e.g. by transitions; all do so, or none."""
        self._weight = size * self.size / total

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the mean of a tensor over the members. With NCCL it stays on its device, and nobody waits for it."""
        where = torch.device("cpu") if self._nccl is None else tensor.device
        out = tensor.detach().to(where, copy=True, memory_format=torch.contiguous_format)
        out.mul_(self._weight / self.size)
        (self._nccl or self._gloo).allreduce([out]).wait()
        return out.to(tensor.device)

    def sum(self, array: np.ndarray) -> np.ndarray:
        """Return the sum of an array over the members."""
        out = torch.from_numpy(np.array(array))
        self._gloo.allreduce([out]).wait()
        return out.numpy()

    def agree(self, *values: float) -> list[float]:
        """Return the smallest of each value over the members."""
        out = torch.tensor(values, dtype=torch.float64)
        options = _c10d.AllreduceOptions()
        options.reduceOp = _c10d.ReduceOp.MIN
        self._gloo.allreduce([out], options).wait()
        return [float(value) for value in out]

    def share(self, state: Any) -> Any:
        """Return the leader's state in all members; what states are made of, see `write_state`.

        Raises:
            CheckpointError: it holds something else.
            DataError: it was not signed by a member.
        """
        data = b""
        if self.rank == 0:
            data = dump_state("group", state)
            data = _signature(self._secret, data) + data
        size = torch.tensor([len(data)])
        self._broadcast(size)
        tensor = torch.from_numpy(np.frombuffer(bytearray(data), np.uint8)) if data else torch.zeros(int(size)).byte()
        self._broadcast(tensor)
        received = tensor.numpy().tobytes()
        signature, data = received[:_SIGNATURE_BYTES], received[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, _signature(self._secret, data)):
            raise DataError(f"a state of {len(data)} bytes came from somebody who is not in this group of trainers")
        return load_state(data, "group")

    def _find_leader(self) -> bool:
        """Go where the leader is; returns whether this member has got there."""
        asked = self._asked.poll()
        if asked is None or (address := asked.result()) is None:
            return False
        store = _c10d.TCPStore(
            address.host, address.port, None, False, _TIMEOUT, wait_for_workers=False, use_libuv=False
        )
        self._meet(store, address.secret)
        return True

    def _meet(self, store: Any, secret: str) -> None:
        """Say in the store where this member learns."""
        self._store, self._secret = SignedStore(store, secret), secret
        self._store.set(_placement_key(self.rank), json.dumps(dataclasses.asdict(Placement.of(self._device))))

    def _broadcast(self, tensor: torch.Tensor) -> None:
        options = _c10d.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        self._gloo.broadcast([tensor], options).wait()


def _parts(algorithm: Algorithm) -> Iterator[Any]:
    """Yield what an algorithm holds, and what the algorithms in it hold."""
    for part in algorithm.parts().values():
        yield from _parts(part) if isinstance(part, Algorithm) else (part,)


def _signature(secret: str, *parts: bytes) -> bytes:
    return hmac.digest(secret.encode(), b"\0".join(parts), hashlib.sha256)


def _placement_key(rank: int) -> str:
    """Return the store's key for where a member learns."""
    return f"placement.{rank}"


def _gloo(store: Any, rank: int, size: int, host: str) -> Any:
    """Open a Gloo group that the others reach at `host`; by itself it takes what the machine's name stands for."""
    options = _c10d.ProcessGroupGloo._Options()
    options._devices = [_c10d.ProcessGroupGloo.create_device(hostname=host)]
    options._timeout = _TIMEOUT
    return _c10d.ProcessGroupGloo(store, rank, size, options)


def _nccl(store: Any, rank: int, size: int) -> Any:
    """Open an NCCL group, which connects when it is first used. Its watchdog ends an exchange that takes too long."""
    options = _c10d.ProcessGroupNCCL.Options()
    options._timeout = _TIMEOUT
    return _c10d.ProcessGroupNCCL(_c10d.PrefixStore("nccl", store), rank, size, options)
