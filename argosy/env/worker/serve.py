"""What runs in a worker process: make the envs, obey the commands of process.py, end with the owner."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from ctypes import Array, c_int32
from multiprocessing.connection import Connection
from typing import TypeAlias

import cloudpickle
import numpy as np

from argosy.env.spaces import Space, read
from argosy.env.worker.base import Actions, EnvFn, StepArrays, as_slice
from argosy.env.worker.channel import Channel
from argosy.env.worker.group import EnvGroup
from argosy.env.worker.shared import SLOTS, SharedArrays
from argosy.errors import EnvError, told
from argosy.stacks import tell_stack

Life: TypeAlias = tuple[Connection, Connection]
_PR_SET_PDEATHSIG = 1


def serve(
    channel: Channel,
    stack: Connection,
    env_fns: Sequence[EnvFn] | bytes,
    first: int,
    current: Array[c_int32],
    owner: int,
    life: Life | None,
) -> None:
    """Live as a worker process.

    Args:
        channel: pipe to the owner.
        stack: takes where this process is, when the owner asks.
        env_fns: functions that make the envs; pickled where the process was not forked.
        first: index of the first env in the vector env.
        current: index of the env at work, for the owner to read (-1: none).
        owner: process id of the owner, if it is our parent, else 0.
        life: where another process, or another thread than the owner's first one, has started us: see `die_with`.
    """
    die_with(owner, life)
    tell_stack(stack)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the owner's to handle: it closes us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the owner's handler, if it has forked us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    make: Sequence[EnvFn] = pickle.loads(env_fns) if isinstance(env_fns, bytes) else env_fns
    if "torch" in sys.modules:  # forked: its threads did not come along, and who asks for their help waits for ever
        sys.modules["torch"].set_num_threads(1)
    group: EnvGroup | None = None
    try:
        group = EnvGroup(make, first, np.ctypeslib.as_array(current))
        channel.send(b"1", 0, content=cloudpickle.dumps(group.spaces))
        _obey(channel, group, owner)
    except EnvError as error:  # an env could not be made
        channel.send(b"E", 0, content=_told(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the owner is gone
    finally:
        if group is not None:
            group.close()
        channel.close()


def die_with(owner: int, life: Life | None = None) -> None:
    """End when the owner does, killed or not, whatever an env is at, and be it in C code that no thread gets past.

    Args:
        owner: process id of our parent; 0: it is another process.
        life: of that, or of a thread that may end before its process: a pipe to which nobody writes; the owner keeps
            the other end.
    """
    if life is None and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # when the *thread* that started us ends
        if os.getppid() != owner:
            os._exit(1)
        return
    if life is not None and sys.platform == "linux":
        import fcntl

        life[1].close()
        fcntl.fcntl(life[0], fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(life[0], fcntl.F_SETSIG, signal.SIGKILL)  # comes when nobody has the other end any more
        fcntl.fcntl(life[0], fcntl.F_SETFL, os.O_ASYNC)

    def look() -> None:
        while os.getppid() == owner:
            time.sleep(1.0)
        os._exit(1)

    if owner:
        threading.Thread(target=look, name="owner", daemon=True).start()


def _obey(channel: Channel, group: EnvGroup, owner: int) -> None:
    shared: SharedArrays | None = None
    slots: list[StepArrays] = []
    while True:
        while (message := channel.recv_soon()) is None:
            # siblings that were forked after us hold the owner's end of our pipe, too: it may outlive the owner
            if owner and os.getppid() != owner:
                return
        letter, number, slot, content = message
        if letter == b"X":
            return
        try:
            if letter == b"S":
                assert shared is not None
                infos = _step_shared(shared, slots[slot], content, group)
                channel.send(b"1" if infos else b"0", number, content=infos)
            elif letter == b"M":
                spaces, n = pickle.loads(content)
                shared = SharedArrays(spaces, n, channel.recv_fd())
                shared.close_fd()
                slots = [shared.slot(slot) for slot in range(SLOTS)]
                channel.send(b"0", number)
            elif letter == b"C":
                channel.send(b"1", number, content=_call(content, group))
            else:
                channel.send(b"1", number, content=_step_or_reset(content, group, slots))
        except EnvError as error:
            channel.send(b"E", number, content=_told(error))


def _step_shared(shared: SharedArrays, out: StepArrays, some: bytes, group: EnvGroup) -> bytes:
    """Step the envs `some` (int32; none: all); return their infos, pickled, empty if there is nothing in them."""
    ids = np.frombuffer(some, np.int32).tolist() if len(some) else None
    first, behind = group.first, group.first + len(group.envs)
    rows: Sequence[int] = range(first, behind) if ids is None else ids
    last_step = slice(first, behind) if ids is None else ids
    out.terminated[last_step] = out.truncated[last_step] = False
    infos = group.step(ids, _read_actions(shared, rows, group.spaces.action), out, rows)
    if out.rew is not shared.rew:
        shape, out.rew = out.rew.shape[1:], shared.rew
        raise EnvError(
            f"a reward has shape {shape}, but shared memory was laid out for numbers; give the env an attribute"
            f" `reward_shape = {shape}`, or use SubprocVectorEnv, which takes rewards as they come"
        )
    if any(len(info) > 1 for info in infos):  # more than the env_id, which the owner knows
        return _pickled(infos)
    return b""


def _step_or_reset(content: bytes, group: EnvGroup, slots: list[StepArrays]) -> bytes:
    command, ids, given = pickle.loads(content)
    if slots:  # then only resets come this way
        return _pickled(group.reset(ids, given, slots[0], ids))
    return _pickled(group.answer(command, ids, given))


def _call(content: bytes, group: EnvGroup) -> bytes:
    name, ids, args, kwargs = pickle.loads(content)
    try:
        return bytes(cloudpickle.dumps(getattr(group, name)(ids, *args, **kwargs)))
    except Exception as error:
        raise EnvError(f"{name} of envs {ids}: {told(error)}") from error


def _pickled(results: object) -> bytes:
    try:
        return pickle.dumps(results, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise EnvError(f"what the envs returned cannot be pickled: {told(error)}") from error


def _read_actions(shared: SharedArrays, ids: Sequence[int], space: Space) -> Actions:
    if isinstance(shared.action, np.ndarray):
        return shared.action[as_slice(ids)].copy()  # envs may keep their action; the memory is written again
    return [read(shared.action, i, space) for i in ids]


def _told(error: EnvError) -> bytes:
    return pickle.dumps((str(error), "".join(traceback.format_exception(error.__cause__ or error))))
