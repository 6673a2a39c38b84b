"""Commands of argosy in forks of this process, which has imported all that they need: a start costs milliseconds.

For attacks alone, which have their process to themselves (`alone`): it must have no other threads, and it takes over
whatever its commands leave behind.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import psutil

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.cli import main
from argosy.trainer.statefile import read_state

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux's prctl.h
NEWNS, NEWUSER = 0x00020000, 0x10000000  # of its sched.h
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18  # of its mount.h
VECTORS = ("dummy", "shmem", "subproc")
STEPS, EPOCHS = 60, 16
RUN = {
    "trainer.max-epoch": EPOCHS, "trainer.checkpoint-epochs": 1, "trainer.step-per-epoch": STEPS,
    "trainer.step-per-collect": 30, "trainer.episode-per-test": 1, "stop.test-return": None, "stop.episodes": 2,
    "env.num-envs": 2, "env.test-num-envs": 2, "env.max-episode-steps": 30, "net.hidden-sizes": 16,
}  # fmt: skip
OFFPOLICY = {"trainer.start-steps": 20, "trainer.update-per-step": 0.3, "trainer.batch-size": 16, "buffer.size": 500}
PLAIN = {name: cls for name in ALGORITHMS if not ((cls := algorithm_class(name)).expert_rows or cls.needs_expert)}
ONLINE = [name for name, cls in PLAIN.items() if cls.kind != "offline"]


def alone(function, *args):
    """Call an attack in a process of its own and return what it returns."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def small_disk(folder, size):
    """Mount a disk of so many bytes for this process and its children alone, as long as they live (Linux).

    Raises:
        OSError: this process may not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEWNS) != 0:
        check(libc.unshare(NEWUSER | NEWNS))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    check(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()))


def check(code):
    """Raise what a function of the C library returned as an error."""
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def adopt_orphans():
    """Become the parent of whatever a command leaves behind when it is killed."""
    assert ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0) == 0


def train_args(algorithm, runs, **flags):
    """Command line of a short run of an algorithm."""
    cls = algorithm_class(algorithm)
    kinds = {space.__name__ for space in cls.action_spaces}
    task = "CartPole-v1" if "Discrete" in kinds else "Pendulum-v1"
    if not kinds & {"Discrete", "Box"}:
        flags = {"env.wrappers": "ContinuousToDiscrete(action_per_dim=3)", **flags}
    settings = RUN | (OFFPOLICY if cls.kind == "offpolicy" else {}) | flags
    given = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    return ["train", algorithm, "--task", task, "--seed", "3", "--quiet", "--runs", str(runs), *given]


def start(args, log):
    """Fork a process, in a session of its own, that runs the command and writes to the file `log`; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        os.closerange(3, 256)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(written, stream)
        code = main(args)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(pid):
    """Return the exit code of a command that is over (a signal's negative number), else None."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def finish(pid, limit_s=300.0):
    """Wait for a command; return its exit code, None if it hangs (it is killed then)."""
    deadline = time.monotonic() + limit_s
    while (code := ended(pid)) is None:
        if time.monotonic() > deadline:
            kill(pid, group=True)
            return None
        time.sleep(0.005)
    return code


def kill(pid, *, group):
    """Kill a command, alone or with its group, and wait until it is dead."""
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def left_running(limit_s=20.0):
    """Wait until nothing that commands have started runs any more; return (and kill) what still does."""
    me, deadline = psutil.Process(), time.monotonic() + limit_s
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = [one for one in me.children(recursive=True) if one.is_running()]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    for one in left:
        print("left running:", one.cmdline(), file=sys.stderr)
        one.kill()
    return len(left)


def in_shared_memory():
    """Names in /dev/shm that a run could have left there."""
    names = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return {name for name in names if name.startswith(("argosy", "psm_", "pym-", "torch_", "sem.mp-"))}


def run_folder(runs):
    """Return the folder of the only run below `runs`, None before it is there."""
    found = [path.parent for path in Path(runs).glob("*/*/*/config.json")]
    assert len(found) <= 1, found
    return found[0] if found else None


def numbers(state, at=""):
    """Yield every leaf of a state but the clock's, as (place, comparable value)."""
    if isinstance(state, dict):
        for key, value in state.items():
            if not (str(key) == "time" or str(key).endswith("_time")):
                yield from numbers(value, f"{at}.{key}")
    elif isinstance(state, list | tuple):
        for index, value in enumerate(state):
            yield from numbers(value, f"{at}.{index}")
    elif hasattr(state, "shape"):
        array = np.asarray(state)
        yield at, (str(array.dtype), array.shape, array.tobytes())
    else:
        yield at, repr(state)


def checkpoint(path):
    """Return the numbers of a checkpoint; the global generators are not the run's, which does not seed them."""
    return dict(numbers({key: value for key, value in read_state(path, "checkpoint").items() if key != "rng"}))
