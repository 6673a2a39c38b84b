"""Where the time of a run goes: a table of parts, and a flame picture of functions.

A timer interrupts the main thread some fifty times in a second of the processor's time, and the functions that it is in
then are given the time since the last look: so all times add up to that of the run, and no call gets slower. What a
function in C (PyTorch, a simulator) takes counts for who has called it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import CodeType, FrameType

from argosy.errors import ConfigError
from argosy.files import read_json, write_atomically

PROFILE, FLAME = "profile.json", "flame.svg"
"""Files in the run's folder."""
PARTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "test": {"trainer/base": ("_test",)},
    "acting": {"collect/collector": ("_act",), "collect/async_collector": ("_send",)},
    "storing": {"collect/collector": ("_record", "_flush"), "collect/async_collector": ("_take_in",)},
    "sampling": {"data/buffer/": ("sample", "rollout", "update_weight")},
    "update": {"trainer/base": ("_update",)},
    "logging": {"trainer/base": ("_report", "_log")},
    "saving": {"run/checkpoints": ("save",)},
    "waiting": {"env/worker/process": ("finish_step", "recv", "wait_any"), "env/worker/ray": ("recv", "wait_any")},
    "env": {"env/vector/": ()},
}
"""Files, or folders, and functions in them by which a part is known; () stands for all. What these call belongs to it,
too; "waiting" is for environments in processes of their own."""
_EVERY_S, _LONGEST = 0.02, 5.0
"""Seconds between two looks, and how many times as many at most."""
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_ROW, _WIDTH, _LEAST = 18, 1200.0, 0.001


@dataclass
class Node:
    """A function as it was called by others: those on the way from the root of a tree."""

    code: CodeType | None = None
    """None: the root."""
    seconds: float = 0.0
    """In it and in all that it has called."""
    callees: dict[int, Node] = field(default_factory=dict)
    """By the ids of their codes: to hash a code is to hash all of its bytecode."""

    def add(self, stack: Iterable[CodeType], seconds: float) -> None:
        """Take in the seconds of a stack below this one, the outermost function first."""
        node = self
        node.seconds += seconds
        for code in stack:
            callee = node.callees.get(id(code))
            if callee is None:
                callee = node.callees[id(code)] = Node(code)
            callee.seconds += seconds
            node = callee


@contextmanager
def profiled(folder: Path) -> Iterator[None]:
    """Write profile.json, the seconds of each part, and flame.svg into `folder` in the end.

    Raises:
        ConfigError: this is not the main thread, or a system without such a timer, or the timer is in use.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        raise ConfigError("a profile needs the main thread and a timer that interrupts it (Linux, macOS)")
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        raise ConfigError("a profile needs the timer SIGALRM, which something else in this process uses")
    tree = Node()
    last, worked = time.perf_counter(), time.process_time()

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal last, worked
        if frame is not None and frame.f_code is look.__code__:
            return  # one look is under way
        stack = []
        while frame is not None:
            stack.append(frame.f_code)
            frame = frame.f_back
        now, then = time.perf_counter(), time.process_time()
        tree.add(reversed(stack), now - last)
        # Who waits, or shares the core with others, is looked at less: so often in a second of the processor's time
        times = (now - last) / max(then - worked, 1e-6)
        last, worked = now, then
        signal.setitimer(signal.ITIMER_REAL, _EVERY_S * min(max(times, 1.0), _LONGEST))

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _EVERY_S)
    try:
        yield
    finally:
        look(signal.SIGALRM, sys._getframe())  # what has passed since the last one
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        write_atomically(folder / PROFILE, (json.dumps(parts_of(tree)) + "\n").encode())
        write_atomically(folder / FLAME, flame(tree).encode("utf-8", "replace"))


def profile_table(folder: str | Path) -> str:
    """Return what `profiled` has written, as a table."""
    parts = {str(name): float(seconds) for name, seconds in read_json(Path(folder) / PROFILE).items()}
    whole = sum(parts.values()) or 1.0
    rows = [f"  {name:<8} {seconds:9.2f} s {100 * seconds / whole:5.1f} %" for name, seconds in parts.items()]
    return "\n".join(["", *rows, f"  picture  {Path(folder) / FLAME}"])


def parts_of(tree: Node) -> dict[str, float]:
    """Return the seconds of each part and of the rest, the largest first.

    A function belongs to the first part that is entered on the way to it; in an environment's step waiting is a part of
    its own.
    """
    parts = dict.fromkeys([*PARTS, "other"], 0.0)

    def add(node: Node, part: str | None) -> None:
        found = None if node.code is None else _part_of(node.code)
        if part is None or (part, found) == ("env", "waiting"):
            part = found
        parts[part or "other"] += node.seconds
        for callee in node.callees.values():
            parts[part or "other"] -= callee.seconds
            add(callee, part)

    add(tree, None)
    return {part: max(0.0, parts[part]) for part in sorted(parts, key=lambda part: -parts[part])}


def _part_of(code: CodeType) -> str | None:
    file = code.co_filename.removeprefix(_PACKAGE)
    for part, places in PARTS.items():
        for place, names in places.items():
            if file.startswith(place) and (not names or code.co_name in names):
                return part
    return None


def flame(tree: Node) -> str:
    """Return a picture: each function a bar as wide as its time, below who has called it; the name on touching it."""
    whole = tree.seconds or 1.0
    while len(tree.callees) == 1:  # what is on every stack
        (tree,) = tree.callees.values()
    bars: list[str] = []
    deepest = 0

    def draw(node: Node, left: float, depth: int) -> None:
        nonlocal deepest
        for callee in sorted(node.callees.values(), key=lambda one: one.code.co_qualname if one.code else ""):
            share = callee.seconds / whole
            if callee.code is not None and share >= _LEAST:
                deepest = max(deepest, depth)
                says = f"{callee.seconds:.2f} s, {100 * share:.1f} %"
                bars.append(_bar(callee.code, left, depth, share * _WIDTH, says))
                draw(callee, left, depth + 1)
            left += share * _WIDTH

    draw(tree, 0.0, 0)
    height = (deepest + 1) * _ROW
    style = "text{font:11px monospace;pointer-events:none}rect{stroke:#fff;stroke-width:.5}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height}" font-size="11">'
    return f"{head}<style>{style}</style>{''.join(bars)}</svg>\n"


def _bar(code: CodeType, left: float, depth: int, width: float, says: str) -> str:
    file = code.co_filename.removeprefix(_PACKAGE)
    part = _part_of(code)
    hue = 40 if part is None else 40 + 320 * (1 + list(PARTS).index(part)) // (len(PARTS) + 1)
    top, fits = depth * _ROW, int(width / 6.8)
    text = f'<text x="{left + 3:.1f}" y="{top + 13}">{escape(code.co_qualname[:fits])}</text>' if fits > 3 else ""
    title = escape(f"{code.co_qualname} ({file}:{code.co_firstlineno}): {says}")
    rect = f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_ROW}" fill="hsl({hue} 60% 75%)"/>'
    return f"<g><title>{title}</title>{rect}{text}</g>"
