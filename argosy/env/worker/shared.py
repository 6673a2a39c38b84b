"""Shared memory between a vector env and its worker processes: observations, actions, rewards, flags.

The memory has no name in the file system (a memfd, or an unlinked temporary file), so that nothing can be left
behind, whatever kills whom: it is gone when the last process that maps it is.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from argosy.env.spaces import Rows, build, copy_rows, normal_form, take, write
from argosy.env.vector.protocol import Obs
from argosy.env.worker.base import Actions, EnvSpaces, StepArrays, as_slice
from argosy.errors import EnvError

ScalarT = TypeVar("ScalarT", bound=np.generic)
SLOTS = 5  # scratch; and lent out without a copy: obs, obs_next, the one being written, the one to be written next
ALIGN = 64


class _Lease:
    """Owner of a view of the shared memory; it lives as long as any array that was cut from the view."""

    def __init__(self, array: NDArray[np.generic]) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


class SharedArrays:
    """One block of shared memory for n envs, laid out by their spaces; both sides build it from the same numbers.

    Slot 0 of the observations is the scratch slot (resets, steps of some envs, asynchronous steps: copied out at
    once); the others are lent out: an observation that covers all envs is a view of its slot, and the slot is used
    again only when no array refers to it any more.

    Args:
        spaces: of one env.
        n: how many envs.
        fd: file descriptor of the memory (a new one by default); `close_fd` closes it once both sides have mapped it.
    """

    def __init__(self, spaces: EnvSpaces, n: int, fd: int | None = None) -> None:
        self.spaces, self.n = spaces, n
        self._offset = 0
        self._map: mmap.mmap | None = None
        self._layout()  # a first pass measures
        self.nbytes = self._offset
        self.fd = _new_memory(self.nbytes) if fd is None else fd
        self._map = mmap.mmap(self.fd, self.nbytes)
        self._offset = 0
        self.obs, self.action, self.rew, self.terminated, self.truncated = self._layout()
        self._lent: list[list[weakref.ref[_Lease]]] = [[] for _ in range(SLOTS)]

    def _layout(self) -> tuple[list[Obs], Obs, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        n = self.n
        obs = [build(self.spaces.observation, lambda _, s, d: self._carve((n, *s), d)) for _ in range(SLOTS)]
        action = build(normal_form(self.spaces.action), lambda _, s, d: self._carve((n, *s), d))
        rew = self._carve((n, *self.spaces.reward_shape), np.dtype(np.float32))
        terminated, truncated = (self._carve((n,), np.dtype(np.bool_)) for _ in range(2))
        return obs, action, rew, terminated, truncated

    def _carve(self, shape: tuple[int, ...], dtype: np.dtype[ScalarT]) -> NDArray[ScalarT]:
        start = self._offset
        self._offset += -(-int(np.prod(shape)) * dtype.itemsize // ALIGN) * ALIGN
        if self._map is None:
            return np.empty(0, dtype)
        return np.ndarray(shape, dtype, buffer=self._map, offset=start)

    def close_fd(self) -> None:
        """Close the file descriptor; the mapping stays as long as an array needs it."""
        os.close(self.fd)

    def slot(self, slot: int) -> StepArrays:
        """Return the arrays of one slot, as a worker writes them."""
        return StepArrays(self.obs[slot], self.rew, self.terminated, self.truncated)

    def lend(self) -> tuple[Obs | None, int]:
        """Return a view of the observations of a free slot and its number; (None, 0) if every slot is in use."""
        for slot in range(1, SLOTS):
            if all(lease() is None for lease in self._lent[slot]):
                leases: list[weakref.ref[_Lease]] = []
                self._lent[slot] = leases
                return _leased(self.obs[slot], leases), slot
        return None, 0

    def write_actions(self, ids: Sequence[int], actions: Actions) -> None:
        """Write the actions of the envs `ids`.

        Raises:
            EnvError: their type or shape does not fit the action space's.
        """
        if isinstance(actions, np.ndarray) and isinstance(self.action, np.ndarray):
            wanted = self.action.dtype
            if actions.dtype != wanted and not np.can_cast(actions.dtype, wanted, "same_kind"):
                raise EnvError(f"step: actions of type {actions.dtype} do not fit the action space's type {wanted}")
            if actions.shape[1:] != self.action.shape[1:]:
                shape = self.action.shape[1:]
                raise EnvError(
                    f"step: actions of shape {actions.shape[1:]} do not fit the action space's shape {shape}"
                )
            self.action[as_slice(ids)] = actions
        else:
            for i, action in zip(ids, actions, strict=True):
                write(self.action, i, action)

    def read(self, out: StepArrays, ids: Rows, rows: Rows) -> None:
        """Copy what the envs `ids` wrote (observations: into the scratch slot) into `rows` of `out`."""
        out.rew[rows] = self.rew[ids]
        out.terminated[rows] = self.terminated[ids]
        out.truncated[rows] = self.truncated[ids]
        copy_rows(take(self.obs[0], ids), out.obs, rows)


def _leased(obs: Obs, leases: list[weakref.ref[_Lease]]) -> Obs:
    if isinstance(obs, dict):
        return {key: _leased(part, leases) for key, part in obs.items()}
    lease = _Lease(obs)
    leases.append(weakref.ref(lease))
    return np.asarray(lease)


def _new_memory(nbytes: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("argosy")
    else:  # macOS
        fd, name = tempfile.mkstemp()
        os.unlink(name)
    os.ftruncate(fd, nbytes)
    return fd
