"""What the library changes of a process, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import ctypes, threading
import torch
import argosy
from argosy.process import tune_process, tuned_process

def keeps_memory():
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    block = libc.malloc(31 * 2**20)
    mapped = ctypes.c_size_t.from_address(block - 8).value & 2  # glibc's mark of a block that goes back when freed
    libc.free(block)
    return not mapped

def flushes():
    return (torch.tensor(1e-40) * 1.0).item() == 0.0
"""


def run(code: str, cwd: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LOOK + code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SETTINGS = """
small = {"trainer": {"max_epoch": 1, "step_per_epoch": 64, "start_steps": 0, "episode_per_test": 1},
         "stop": {"episodes": 1}, "seed": 1}
"""

needs_glibc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc's malloc")


@needs_glibc
def test_what_a_user_makes_by_hand_leaves_the_process_as_it_was(tmp_path):
    run(
        SETTINGS
        + """
from argosy.data import VectorReplayBuffer
from argosy.presets import preset

VectorReplayBuffer(100, 2)
trainer = argosy.build(preset("dqn", "CartPole-v1", **small))
for epoch in trainer:
    pass
assert not flushes()
assert not keeps_memory()  # to be asked once: malloc learns from the block
""",
        tmp_path,
    )


@needs_glibc
def test_a_run_is_tuned(tmp_path):
    run(
        SETTINGS
        + """
from argosy.trainer.base import BaseTrainer

seen = []
step = BaseTrainer.__next__
def look(self):
    seen.append((flushes(), keeps_memory()))
    return step(self)
BaseTrainer.__next__ = look
argosy.train("dqn", "CartPole-v1", runs="runs", show_progress=False, **small)
assert seen and all(flushed and kept for flushed, kept in seen), seen
assert not flushes()  # the caller's arithmetic
""",
        tmp_path,
    )


@needs_glibc
def test_a_tuned_process(tmp_path):
    run(
        """
with tuned_process():
    assert flushes() and keeps_memory()
assert not flushes()
tune_process()
with tuned_process():
    pass
assert flushes()
seen = []
thread = threading.Thread(target=lambda: seen.append(flushes()))
thread.start()
thread.join()
assert seen == [True]
""",
        tmp_path,
    )
