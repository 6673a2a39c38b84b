"""A process and its machine: cores, devices, and what one that trains asks of its allocator and its arithmetic."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import torch

from argosy.errors import ConfigError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_DENORMAL = torch.tensor(1e-40)


def num_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_memory(nbytes: int, what: str) -> None:
    """Refuse (ConfigError) what the memory cannot hold, before it is asked for: the system might give it, then kill."""
    if hasattr(os, "sysconf"):
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if nbytes > there:
            needs, has = (f"{count / 2**30:,.1f} GiB" for count in (nbytes, there))
            raise ConfigError(f"{what} needs {needs} of memory, and this machine has {has}; make it smaller")


def yield_cpu() -> None:
    """Let this thread, and those it starts, run only while no other one wants their core (Linux; elsewhere nothing)."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def tune_process() -> None:
    """Keep freed memory, and count denormal numbers as 0 (in this thread and in those that it starts from now on).

    Only in processes of our own, and in runs: never because someone makes a buffer or an algorithm.

    By itself glibc's malloc gives freed memory back to the system, and every new sample of images, every minibatch's
    activations then pay for page faults: 3x the cost of a copy, a tenth of a PPO update on Atari images (measured).
    So it keeps up to 1 GiB, in blocks of up to 32 MiB. Other allocators are left as they are.

    The moments of dead units decay into denormal numbers, on which an optimiser's step takes five times as long.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)  # the most that it allows
        mallopt(_M_TRIM_THRESHOLD, 2**30)
    torch.set_flush_denormal(True)


@contextlib.contextmanager
def tuned_process() -> Iterator[None]:
    """Tune this process for a run; denormal numbers are as before in the end."""
    flushing = (_DENORMAL * 1.0).item() == 0.0
    tune_process()
    try:
        yield
    finally:
        torch.set_flush_denormal(flushing)


@contextlib.contextmanager
def computing_threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads; 0 leaves it alone."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Let the first SIGTERM end the block as an error would, so that no half-written file is left; the second kills."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(128 + number)  # as shells report it

    is_main = threading.current_thread() is threading.main_thread()  # only this one may handle signals
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # whose own it is knows better
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def usable_device(device: str) -> str:
    """Return the device that "auto" stands for, any other as it is; one that is not there is a ConfigError."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device).cpu()  # "meta" has no numbers to bring
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"device is {device!r}, which cannot be used here ({error}); give another (--device)"
        ) from error
    return device


def device_here(device: str) -> str:
    """Return where a policy that learned on `device` can act on this machine: there, or else on the CPU."""
    try:
        return usable_device(device)
    except ConfigError:
        return "cpu"
