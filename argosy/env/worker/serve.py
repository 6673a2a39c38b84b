"""What runs in a worker process: make the envs, obey the commands of process.py, end with the owner."""

from __future__ import annotations

import multiprocessing.reduction
import os
import pickle
import select
import signal
import traceback
from collections.abc import Sequence
from ctypes import Array, c_int32
from multiprocessing.connection import Connection
from typing import cast

import cloudpickle
import numpy as np

from argosy.env.spaces import Space, read
from argosy.env.worker.base import Actions, EnvFn, StepArrays
from argosy.env.worker.group import EnvGroup
from argosy.env.worker.shared import SLOTS, SharedArrays, as_slice
from argosy.errors import EnvError

PULSE_S = 0.5  # how often whoever waits looks whether the other side is still alive


class PickledEnvFns:
    """Env functions, lambdas among them, that travel to a spawned process (forked ones need no pickle)."""

    def __init__(self, env_fns: Sequence[EnvFn]) -> None:
        self.env_fns = env_fns

    def __getstate__(self) -> bytes:
        return cast(bytes, cloudpickle.dumps(list(self.env_fns)))

    def __setstate__(self, state: bytes) -> None:
        self.env_fns = pickle.loads(state)


def serve(conn: Connection, env_fns: PickledEnvFns, first: int, current: Array[c_int32], owner: int) -> None:
    """Live as a worker process.

    Args:
        conn: pipe to the owner.
        env_fns: functions that make the envs.
        first: index of the first env in the vector env.
        current: index of the env at work, for the owner to read (-1: none).
        owner: process id of the owner, if it is our parent, else 0.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the owner's to handle: it closes us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    group: EnvGroup | None = None
    try:
        group = EnvGroup(env_fns.env_fns, first, np.ctypeslib.as_array(current))
        _answer(conn, 0, b"1", cloudpickle.dumps(group.spaces))
        _obey(conn, group, owner)
    except EnvError as error:  # an env could not be made
        _answer(conn, 0, b"E", _told(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the owner is gone
    finally:
        if group is not None:
            group.close()
        conn.close()


def _obey(conn: Connection, group: EnvGroup, owner: int) -> None:
    poller = select.poll()
    poller.register(conn.fileno(), select.POLLIN)
    shared: SharedArrays | None = None
    slots: list[StepArrays] = []
    while True:
        while not poller.poll(PULSE_S * 1000):
            # siblings that were forked after us hold the owner's end of our pipe, too: it may outlive the owner
            if owner and os.getppid() != owner:
                return
        message = conn.recv_bytes()
        letter, number, content = message[:1], message[1], memoryview(message)[2:]
        if letter == b"X":
            return
        try:
            if letter == b"S":
                assert shared is not None
                _answer(conn, number, *_step_shared(shared, slots[content[0]], content[1:], group))
            elif letter == b"M":
                spaces, n = pickle.loads(content)
                shared = SharedArrays(spaces, n, multiprocessing.reduction.recv_handle(conn))
                shared.close_fd()
                slots = [shared.slot(slot) for slot in range(SLOTS)]
                _answer(conn, number, b"0")
            elif letter == b"C":
                _answer(conn, number, b"1", _call(content, group))
            else:
                _answer(conn, number, b"1", _step_or_reset(letter, content, group, slots))
        except EnvError as error:
            _answer(conn, number, b"E", _told(error))


def _answer(conn: Connection, number: int, letter: bytes, content: bytes = b"") -> None:
    conn.send_bytes(letter + bytes((number,)) + content)


def _step_shared(shared: SharedArrays, out: StepArrays, some: memoryview, group: EnvGroup) -> tuple[bytes, bytes]:
    ids = np.frombuffer(some, np.int32).tolist() if len(some) else None
    rows: Sequence[int] = range(group.first, group.first + len(group.envs)) if ids is None else ids
    infos = group.step(ids, _read_actions(shared, rows, group.spaces.action), out, rows)
    if any(len(info) > 1 for info in infos):  # more than the env_id, which the owner knows
        return b"1", _pickled(infos)
    return b"0", b""


def _step_or_reset(letter: bytes, content: memoryview, group: EnvGroup, slots: list[StepArrays]) -> bytes:
    ids, given = pickle.loads(content)
    if letter == b"R" and slots:
        return _pickled(group.reset(ids, given, slots[0], ids))
    rows = range(len(group.envs) if ids is None else len(ids))
    out = StepArrays.empty(group.spaces, len(rows))
    infos = group.reset(ids, given, out, rows) if letter == b"R" else group.step(ids, given, out, rows)
    return _pickled((out, infos))


def _call(content: memoryview, group: EnvGroup) -> bytes:
    name, ids, args, kwargs = pickle.loads(content)
    try:
        return cast(bytes, cloudpickle.dumps(getattr(group, name)(ids, *args, **kwargs)))
    except Exception as error:
        raise EnvError(f"{name} of envs {ids}: {type(error).__name__}: {error}") from error


def _pickled(results: object) -> bytes:
    try:
        return pickle.dumps(results, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise EnvError(f"what the envs returned cannot be pickled: {type(error).__name__}: {error}") from error


def _read_actions(shared: SharedArrays, ids: Sequence[int], space: Space) -> Actions:
    if isinstance(shared.action, np.ndarray):
        return shared.action[as_slice(ids)].copy()  # envs may keep their action; the memory is written again
    return [read(shared.action, i, space) for i in ids]


def _told(error: EnvError) -> bytes:
    return pickle.dumps((str(error), "".join(traceback.format_exception(error.__cause__ or error))))
