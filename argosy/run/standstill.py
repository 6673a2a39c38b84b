"""Notice that a run makes no step and no update any more, and say what it is in and where its processes are."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType

from argosy.env.worker.process import env_stacks
from argosy.errors import CheckpointError
from argosy.files import append
from argosy.run.callbacks import FQE
from argosy.stacks import shown, thread_stack
from argosy.trainer.base import BaseTrainer
from argosy.trainer.checkpoint import collectors_of

FILE = "standstill.log"
PHASES = {
    "argosy.run.build.build": "the making of its parts",
    "argosy.run.checkpoints.Checkpoints.load": "the loading of a checkpoint",
    "argosy.run.checkpoints.Checkpoints.save": "the saving of a checkpoint",
    "argosy.run.result.BestPolicy._evaluate": "the evaluation of its policy",
    "argosy.trainer.base.BaseTrainer._test": "a test",
    "argosy.trainer.base.BaseTrainer._update": "an update",
    "argosy.trainer.callbacks.call": "a callback",
    "argosy.collect.collector.Collector.collect": "a collection",
    "argosy.logger.base.Loggers.log": "a logger",
}
"""By the functions that are on the run's stack then."""
_PACKAGES = {
    "argosy.env": "its environments",
    "torch._dynamo": "a compilation (torch.compile)",
    "torch._inductor": "a compilation (torch.compile)",
}
_TICK_S = 1.0


class Watch:
    """Looks after the run of the thread that enters it, from a thread of its own; costs the run nothing.

    After `patience_s` without a step or an update (None: never) it says that the run stands still, and in a log in the
    run's folder where everybody was.
    """

    def __init__(self, patience_s: float | None, folder: Path) -> None:
        self._patience_s, self._log = patience_s or math.inf, folder / FILE
        self._progress: Callable[[], object] = lambda: None
        self._over = threading.Event()
        self._run: int | None = None
        self._thread = threading.Thread(target=self._look, name="standstill", daemon=True)

    def follow(self, trainer: BaseTrainer, judged_steps: Callable[[], int]) -> None:
        """Take from now on for progress what a trainer does: steps, of tests too, changes of its policy, its judgement.

        `judged_steps` counts the steps of evaluations that the trainer knows nothing of.
        """
        collectors = list(collectors_of(trainer).values())
        parameters = list(trainer.algorithm.policy.parameters())
        judges = [callback for callback in trainer.callbacks if isinstance(callback, FQE)]
        self._progress = lambda: (
            judged_steps(),
            trainer.state.update_step,
            *(collector.collect_step for collector in collectors),
            *(judge.progress() for judge in judges),
            *(parameter._version for parameter in parameters),  # grows with each step of an optimiser
        )

    def __enter__(self) -> Watch:
        self._run = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        tick_s = min(_TICK_S, self._patience_s / 4)
        seen, still_s, then = self._progress(), 0.0, time.monotonic()
        while not self._over.wait(tick_s):
            before, then = then, time.monotonic()
            if (now := self._progress()) != seen:
                if still_s >= self._patience_s:
                    self._say(f"argosy: the run goes on, after {still_s:.0f} s\n")
                seen, still_s = now, 0.0
                continue
            already = still_s >= self._patience_s
            still_s += min(then - before, 2 * tick_s)  # a process that was stopped for an hour has not stood still
            if still_s >= self._patience_s and not already:
                self._say(self._report(still_s))

    def _report(self, still_s: float) -> str:
        envs = env_stacks(self._run)
        busy = [name for name in envs if "busy" in name]
        where = phase(sys._current_frames().get(self._run or 0))
        waits = f", waiting for {'; '.join(busy)}" if busy else ""
        return (
            f"argosy: no step and no update for {still_s:.0f} s (trainer.standstill_s); the run is in {where}{waits}. "
            f"Where its processes are, in {str(self._log)!r} too:\n"
            + shown({"the run": thread_stack(self._run), **envs})
        )

    def _say(self, text: str) -> None:
        sys.stderr.write("\n" + text)  # a progress bar may stand on the line
        sys.stderr.flush()
        with contextlib.suppress(CheckpointError):  # a full disk, or the folder is gone: others say so
            append(self._log, time.strftime("%Y-%m-%d %H:%M:%S ") + text.rstrip())


def phase(frame: FrameType | None) -> str:
    """Say what a run is in, from the stack of its thread: the widest phase first."""
    found: list[str] = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        name = PHASES.get(f"{module}.{frame.f_code.co_qualname}")
        name = name or next((said for package, said in _PACKAGES.items() if module.startswith(package)), None)
        if name is not None and name not in found:
            found.append(name)
        frame = frame.f_back
    return ", in ".join(reversed(found)) or "a callback or a function of its caller's"
