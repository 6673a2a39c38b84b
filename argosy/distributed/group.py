"""Several trainer workers as one: they average their gradients and agree on every step (gloo).

The average is taken where a gradient arrives at its parameter, before anything is done with it, so that every algorithm
works unchanged, whatever its optimiser clips or scales.
"""

from __future__ import annotations

import datetime
import pickle
import socket
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from argosy.algorithm.base import Algorithm
from argosy.distributed.host import Peer, PeerLostError

_c10d: Any = dist  # its type hints leave out half of what it documents
_TIMEOUT = datetime.timedelta(seconds=60)


class TrainerGroup:
    """The trainers of one policy.

    A member that dies makes the others' next exchange fail; all are restarted then and meet again.

    Args:
        rank: of this member; member 0 leads.
        size: number of members.
        leader: member 0.
    """

    def __init__(self, rank: int, size: int, leader: Peer) -> None:
        self.rank, self.size = rank, size
        self._leader = leader
        self._store: Any = None
        self._asked: Future[tuple[str, int] | None] | None = None
        self._processes: Any = None
        if rank == 0:
            host = socket.gethostbyname(socket.gethostname())
            self._store = _c10d.TCPStore(host, 0, None, True, _TIMEOUT, wait_for_workers=False)
            self._address: tuple[str, int] | None = (host, self._store.port)

    def address(self) -> tuple[str, int] | None:
        """Return where the members meet; None once they have met: who comes later belongs to the next meeting."""
        return self._address

    def join(self) -> bool:
        """Meet the others; False: the leader is not there yet, try again.

        Raises:
            RuntimeError: not all members came in time.
        """
        if self.rank > 0:
            if self._asked is None:
                self._asked = self._leader.call("group_address")
            if not self._asked.done():
                return False
            asked, self._asked = self._asked, None
            try:
                address = asked.result()
            except PeerLostError:
                return False
            if address is None:
                return False
            self._store = _c10d.TCPStore(*address, None, False, _TIMEOUT, wait_for_workers=False)
        self._processes = _c10d.ProcessGroupGloo(self._store, self.rank, self.size, _TIMEOUT)
        self._address = None
        return True

    @property
    def joined(self) -> bool:
        """Whether the members have met."""
        return self._processes is not None

    def average_gradients(self, algorithm: Algorithm[Any, Any]) -> None:
        """From now on, every gradient of a trainable parameter becomes the mean over the members."""
        seen: set[int] = set()
        modules = [part for part in algorithm.parts().values() if isinstance(part, torch.nn.Module)]
        tensors = [p for module in modules for p in module.parameters()]
        tensors += [part for part in vars(algorithm).values() if isinstance(part, torch.nn.Parameter)]
        for tensor in tensors:
            if tensor.requires_grad and id(tensor) not in seen:
                seen.add(id(tensor))
                register: Any = tensor.register_hook
                register(self.mean)

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the mean of a tensor over the members."""
        out = tensor.detach().cpu().contiguous().clone()
        self._processes.allreduce([out]).wait()
        return (out / self.size).to(tensor.device)

    def agree(self, *values: float) -> list[float]:
        """Return the smallest of each value over the members."""
        out = torch.tensor(values, dtype=torch.float64)
        options = _c10d.AllreduceOptions()
        options.reduceOp = _c10d.ReduceOp.MIN
        self._processes.allreduce([out], options).wait()
        return [float(value) for value in out]

    def share(self, state: Any) -> Any:
        """Return the leader's state in all members."""
        data = np.frombuffer(bytearray(pickle.dumps(state)) if self.rank == 0 else b"", np.uint8)
        size = torch.tensor([len(data)])
        self._broadcast(size)
        tensor = torch.from_numpy(data) if self.rank == 0 else torch.zeros(int(size), dtype=torch.uint8)
        self._broadcast(tensor)
        return pickle.loads(tensor.numpy().tobytes())

    def _broadcast(self, tensor: torch.Tensor) -> None:
        options = _c10d.BroadcastOptions()
        options.rootRank, options.rootTensor = 0, 0
        self._processes.broadcast([tensor], options).wait()
