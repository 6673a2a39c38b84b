"""Run one row of the speed table on one side, in this process and on one thread; print one line of JSON.

A side is a folder of row files (`ours`, `floor`) or a peer's file (`peers/NAME.py`). A row file offers
`prepare(seed) -> run`, and `run(count) -> facts`: do `count` units of the row's work and say what was done. A peer's
file, and a side's `updates.py` and `products.py`, hold a table `ROWS` of such `prepare` functions. Only `run` is timed.
This file needs torch and the standard library alone, because it also runs in the peers' environments.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
Run = Callable[[int], dict[str, Any]]
Prepare = Callable[[int], Run]


def load(path: Path) -> ModuleType:
    """Import a Python file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def find(side: str, row: str) -> Prepare | None:
    """Return `prepare` of a row on a side, None where the side does not have the row."""
    for file in filter(Path.exists, files(side, row)):
        module = load(file)
        table: dict[str, Prepare] = getattr(module, "ROWS", None) or {row: module.prepare}
        if row in table:
            return table[row]
    return None


def files(side: str, row: str) -> list[Path]:
    """Where a side may have a row."""
    peers, kind = HERE / "peers", f"{row.split('_')[0]}s"  # "updates", "products"
    if (peers / f"{side}.py").exists():
        return [peers / f"{side}_{kind}.py", peers / f"{side}.py"]
    return [HERE / side / f"{row}.py", HERE / side / f"{kind}.py"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side")
    parser.add_argument("row")
    parser.add_argument("--count", type=int, required=True, help="units of work that are timed")
    parser.add_argument("--warmup", type=int, default=0, help="units of work before")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    # ours as in a run; of updates the floor, too: how denormal numbers and memory are treated is half of QR-DQN's
    if args.side == "ours" or (args.side == "floor" and args.row.startswith("update_")):
        from argosy.process import tune_process

        tune_process()
    prepare = find(args.side, args.row)
    if prepare is None:
        print(json.dumps({"missing": True}))
        return
    run = prepare(args.seed)
    if args.warmup:
        run(args.warmup)
    wall, cpu = time.perf_counter(), time.process_time()
    facts = run(args.count)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print("\n" + json.dumps({"wall_s": wall, "cpu_s": cpu, "facts": facts}))


if __name__ == "__main__":
    main()
