"""Measure argosy's speed against the floor and against peers, side by side (`make bench`).

Every row is done by argosy (`benchmarks/ours/`), by the floor (`benchmarks/floor/`: a hand-written loop that does the
same work and nothing else) and by each peer whose environment `benchmarks/peers/setup.sh` has made. Each measurement is
a fresh process on one thread; the sides alternate, so that a change of the machine's speed meets all of them. A ratio
is the median over the repeats of the ratio within one repeat.

What was measured is kept in benchmarks/speed.json, from which the table in docs/benchmarks.md is made: some rows may be
measured again, and the others stay.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from row import files
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
DOC, KEPT = HERE.parent / "docs" / "benchmarks.md", HERE / "speed.json"
BEGIN, END = "<!-- speed table: written by make bench -->", "<!-- end of the speed table -->"
PEERS = {"tianshou1": "Tianshou 1.0.0", "tianshou2": "Tianshou 2.0.1", "sb3": "SB3 2.9.2", "d3rlpy": "d3rlpy 2.8.1"}
VERSIONS = ("torch", "numpy", "gymnasium", "envpool", "mujoco")
TIMEOUT_S = 600


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: what is done, how much of it, and what argosy must reach."""

    name: str
    title: str
    unit: str
    count: int
    warmup: int
    floor: float | None = None
    """Least ratio of ours to the floor."""
    peer: tuple[str, float] | None = None
    """A peer by the first letters of its name (the faster one if several), least ratio of ours to it."""
    at_least: float | None = None
    """Least rate of ours per second."""


UPDATES = {
    "batch 64, MLP 128x2": {
        "c51": 500,
        "rainbow": 400,
        "qrdqn": 150,
        "iqn": 400,
        "fqf": 200,
        "discrete_sac": 500,
        "branching_dqn": 500,
        "qmix": 500,
    },
    "batch 128, MLP 64x2": {
        "ddpg": 1_000,
        "td3": 1_000,
        "sac": 500,
        "redq": 500,
        "tqc": 200,
        "crossq": 500,
        "droq": 500,
        "dagger": 1_000,
    },
    "batch of 64 x 16 rows, LSTM 128, MLP 128x2": {"r2d2": 30},
    "batch 128 of a data set, MLP 64x2": {
        "td3_bc": 1_000,
        "rebrac": 500,
        "iql": 500,
        "awac": 500,
        "cql": 100,
        "bcq": 300,
        "bc": 1_000,
    },
    "batch 64 of a data set, MLP 128x2": {"discrete_bcq": 500, "discrete_cql": 300, "discrete_crr": 500},
    "batch of 64 x 20 rows of a data set, transformer 128x3": {"decision_transformer": 20},
    "rollout of 1,024 rows, MLP 64x2": {
        "ppo": 10,
        "spo": 10,
        "a2c": 200,
        "reinforce": 200,
        "npg": 50,
        "trpo": 50,
        "ppg": 16,
        "impala": 200,
        "gail": 10,
    },
    "rollout of 1,024 rows, 16 states": {"psrl": 500},
    "batch 256, MLP 256x2": {"sac_large": 100},
    "batch 32 of 4x84x84 frames, Nature CNN": {"dqn_large": 40},
    "rollout of 1,024 rows, MLP 256x2": {"ppo_large": 5},
}
"""Algorithms' updates, by what they learn from: how many are timed."""


def update_peer(name: str, what: str) -> tuple[str, float] | None:
    """Return the peer of an update, if any has it, and what ours must reach: with large networks, not to be slower."""
    if name in ("tqc", "crossq", "droq", "r2d2", "ppg", "impala", "dagger", "spo", "qmix"):
        return None
    if "data set" in what and name != "discrete_crr":  # which d3rlpy does not have
        return "d3rlpy", 1.5
    return "tianshou1", 1.0 if name.endswith("_large") else 2.0


ROWS = (
    Row(
        name="collect_cartpole",
        title="collect CartPole-v1: 8 dummy envs, epsilon-greedy MLP 128x2, stored",
        unit="env steps",
        count=16_000,
        warmup=1_600,
        floor=0.85,
        peer=("tianshou", 3.0),
    ),
    Row(
        name="sample_uniform",
        title="uniform sample of 64, complete batch",
        unit="samples",
        count=15_000,
        warmup=500,
        floor=0.6,
        peer=("tianshou", 5.0),
    ),
    Row(
        name="sample_frames",
        title="frame-stack sample of 32 x 4x84x84 with successor",
        unit="samples",
        count=1_500,
        warmup=150,
        peer=("tianshou", 3.0),
    ),
    Row(
        name="sample_prioritized",
        title="prioritised replay: add 8, sample 64, set 64 priorities",
        unit="rounds",
        count=5_000,
        warmup=200,
        peer=("tianshou", 4.0),
    ),
    Row(
        name="sample_hindsight",
        title="hindsight sample of 256, 'future' goals, rewards recomputed",
        unit="samples",
        count=1_500,
        warmup=100,
        peer=("tianshou", 3.0),
    ),
    Row(
        name="sample_sequences",
        title="sequence sample 32 x 16 (floor: argosy's own uniform sample of 512 rows)",
        unit="samples",
        count=10_000,
        warmup=500,
        floor=0.5,
    ),
    Row(
        name="sample_mapped",
        title="frame-stack sample of 32 x 4x28x28, a million frames in mapped files (floor: argosy's own in memory)",
        unit="samples",
        count=3_000,
        warmup=3_000,
        floor=0.5,
    ),
    *(
        Row(
            name=f"read_{name}",
            title=f"a million transitions: {what} into a buffer (floor: h5py reads the same arrays)",
            unit="files",
            count=5,
            warmup=1,
            floor=0.5,
        )
        for name, what in (
            ("own", "argosy's HDF5"),
            ("checked", "argosy's HDF5, looked through for NaN,"),
            ("d4rl", "D4RL's HDF5, looked through,"),
        )
    ),
    Row(
        name="named_slice",
        title="named array of 20 fields: slice",
        unit="slices",
        count=100_000,
        warmup=5_000,
        at_least=200_000,
    ),
    Row(
        name="named_pickle",
        title="named array of 20 fields, 3.8 MB: pickle protocol 5 and back (floor: the bytes copied out and in)",
        unit="round trips",
        count=1_000,
        warmup=100,
        floor=0.67,
    ),
    Row(
        name="named_bytes",
        title="named array of 20 fields, 3.8 MB: dumps and loads, raw bytes (floor: the bytes copied once)",
        unit="round trips",
        count=1_000,
        warmup=100,
        floor=0.67,
    ),
    Row(
        name="update_dqn",
        title="DQN update, batch 64, MLP 128x2, sample included",
        unit="updates",
        count=1_500,
        warmup=150,
        floor=0.85,
        peer=("tianshou", 2.5),
    ),
    Row(
        name="train_ppo_cartpole",
        title="PPO CartPole-v1 end to end: 8 envs x 128, 4 epochs, minibatch 256, MLP 64x2",
        unit="env steps",
        count=20_480,
        warmup=2_048,
        floor=0.8,
        peer=("sb3", 2.5),
    ),
    Row(
        name="train_sac_halfcheetah",
        title="SAC HalfCheetah-v5 end to end: 1 env, 1 update per step, batch 256, MLP 256x2",
        unit="env steps",
        count=300,
        warmup=30,
        floor=0.9,
        peer=("sb3", 1.3),
    ),
    Row(
        name="train_dqn_cartpole",
        title="DQN CartPole-v1 end to end: 8 envs, one update per step of all, batch 64, MLP 128x2, plain target",
        unit="env steps",
        count=16_000,
        warmup=1_600,
        floor=0.8,
        peer=("sb3", 2.2),
    ),
    *(
        Row(
            name=f"product_{name.lower()}",
            title=f"{name} HalfCheetah-v5 end to end: batch 256, MLP 256x2 (floor: an update's matrix products alone)",
            unit="env steps",
            count=300,
            warmup=30,
            floor=0.85,
        )
        for name in ("SAC", "TD3")
    ),
    Row(
        name="collect_pong",
        title="collect Pong through EnvPool: 8 envs, Nature CNN, stored (floor: EnvPool and CNN alone)",
        unit="env steps",
        count=4_000,
        warmup=400,
        floor=0.85,
    ),
    Row(
        name="step_1ms",
        title="ShmemVectorEnv, 8 envs with busy steps of 1 ms, two cores (floor: one core)",
        unit="env steps",
        count=4_000,
        warmup=160,
        floor=1.85,
        peer=("tianshou", 1.0),
    ),
    Row(
        name="step_100us",
        title="ShmemVectorEnv, 8 envs with busy steps of 0.1 ms, two cores (floor: one core)",
        unit="env steps",
        count=30_000,
        warmup=1_600,
        floor=1.6,
        peer=("tianshou", 1.0),
    ),
    Row(
        name="step_frames",
        title="ShmemVectorEnv, 8 envs of 84x84x4 bytes with busy steps of 0.1 ms, two cores (floor: one core)",
        unit="env steps",
        count=30_000,
        warmup=1_600,
        floor=1.6,
        peer=("tianshou", 1.0),
    ),
    Row(
        name="step_async",
        title="asynchronous stepping, 8 envs that wait 1 to 20 ms, as they come (floor: all in step)",
        unit="env steps",
        count=2_000,
        warmup=80,
        floor=1.5,
    ),
    Row(
        name="collect_pong_async",
        title="Pong through EnvPool's asynchronous mode, Nature CNN, two cores (floor: one after the other)",
        unit="env steps",
        count=4_000,
        warmup=400,
        floor=1.4,
    ),
    *(
        Row(
            name=f"update_{name}",
            title=f"{name} update from a {what}, sample included",
            unit="updates",
            count=count,
            warmup=max(2, count // 10),
            floor=0.9,
            peer=update_peer(name, what),
        )
        for what, updates in UPDATES.items()
        for name, count in updates.items()
    ),
)


@dataclass
class Result:
    """What was measured for one row: rates per second, one per repeat, by side."""

    row: Row
    rates: dict[str, list[float]] = field(default_factory=dict)

    def median(self, side: str) -> float | None:
        return statistics.median(self.rates[side]) if self.rates.get(side) else None

    def ratio(self, side: str) -> float | None:
        """Return the median ratio of ours to a side."""
        if not self.rates.get("ours") or not self.rates.get(side):
            return None
        return statistics.median(a / b for a, b in zip(self.rates["ours"], self.rates[side], strict=True))

    def peer(self) -> str | None:
        """Return the fastest of the peers that the row's target is about."""
        prefix = self.row.peer[0] if self.row.peer else ""
        sides = [side for side in PEERS if side.startswith(prefix) and self.rates.get(side)]
        return max(sides, key=lambda side: self.median(side) or 0.0, default=None)

    def checks(self) -> list[tuple[str, float | None, float]]:
        """Return what must be reached: what it is, the value seen (None: not measured), the least value."""
        found: list[tuple[str, float | None, float]] = []
        if self.row.floor is not None:
            found.append(("of the floor", self.ratio("floor"), self.row.floor))
        if self.row.peer is not None:
            peer = self.peer()
            found.append(
                (f"x {PEERS[peer] if peer else self.row.peer[0]}", self.ratio(peer) if peer else None, self.row.peer[1])
            )
        if self.row.at_least is not None:
            found.append((f"{self.row.unit}/s", self.median("ours"), self.row.at_least))
        return found

    def verdict(self) -> str:
        """Return "pass", "FAIL", or "-" where a comparison is missing."""
        if any(seen is not None and seen < least for _, seen, least in self.checks()):
            return "FAIL"
        return "-" if any(seen is None for _, seen, _ in self.checks()) else "pass"

    def as_dict(self) -> dict[str, object]:
        return {
            "row": self.row.name,
            "unit": self.row.unit,
            "rates_per_s": self.rates,
            "median_per_s": {side: self.median(side) for side in self.rates},
            "checks": [{"what": w, "seen": s, "least": n} for w, s, n in self.checks()],
            "verdict": self.verdict(),
        }


def python_of(side: str) -> Path | None:
    """Return the interpreter of a side, None where the peer's environment has not been made."""
    if side not in PEERS:
        return Path(sys.executable)
    python = HERE / "peers" / f".env-{side}" / "bin" / "python"
    return python if python.exists() else None


def measure(side: str, row: Row, *, count: int, warmup: int, seed: int, clock: str) -> float | None:
    """Run one row on one side in a fresh process; return units per second, None where the side lacks the row.

    Raises:
        RuntimeError: the process failed; holds the end of its output.
    """
    command = [str(python_of(side)), str(HERE / "row.py"), side, row.name]
    command += ["--count", str(count), "--warmup", str(warmup), "--seed", str(seed)]
    environ = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"{side} failed at {row.name}:\n{(done.stdout + done.stderr)[-2000:]}")
    answer = json.loads(lines[-1])
    if answer.get("missing"):
        return None
    facts = answer["facts"]
    units = next(value for value in facts.values())
    return float(units / answer[f"{clock}_s"])


def has_row(side: str, row: Row) -> bool:
    """Return whether a side offers a row (peers list theirs as functions `prepare_ROW`)."""
    names = (f"def prepare_{row.name}(", f'"{row.name}": ')
    return any(
        file.stem == row.name or any(name in file.read_text() for name in names)
        for file in filter(Path.exists, files(side, row.name))
    )


def bench(
    rows: Sequence[Row],
    sides: Sequence[str],
    repeats: int,
    *,
    scale: float,
    clock: str,
    told: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Measure all rows on all sides, alternating; `told` gets each result as soon as it is there."""
    results = [Result(row) for row in rows]
    available = [side for side in sides if python_of(side) is not None]
    work = {row.name: [side for side in available if has_row(side, row)] for row in rows}
    with tqdm(total=repeats * sum(map(len, work.values())), unit="run", disable=None) as bar:
        for result in results:
            row = result.row
            count, warmup = max(1, round(row.count * scale)), max(1, round(row.warmup * scale))
            for repeat in range(repeats):
                order = work[row.name] if repeat % 2 == 0 else work[row.name][::-1]
                for side in order:
                    bar.set_description(f"{row.name} {side}")
                    rate = measure(side, row, count=count, warmup=warmup, seed=repeat, clock=clock)
                    if rate is not None:
                        result.rates.setdefault(side, []).append(rate)
                    bar.update()
            told(result)
    return results


def machine() -> str:
    """Describe this machine without naming it."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    versions = []
    for package in VERSIONS:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    parts = [model, f"{os.cpu_count()} cores", platform.system(), f"Python {platform.python_version()}", *versions]
    return ", ".join(parts)


def number(value: float | None) -> str:
    """Format a rate to three digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table."""
    peers = [peer for peer in PEERS if any(result.rates.get(peer) for result in results)]
    head = ["row", "per second", "argosy", "floor", *(PEERS[peer] for peer in peers), "ratios (must reach)", ""]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for result in results:
        ratios = [
            f"{'not measured' if seen is None else f'{seen:.2f}' if seen < 100 else number(seen)} {what} ({least:g})"
            for what, seen, least in result.checks()
        ]
        cells = [result.row.title, result.row.unit, number(result.median("ours")), number(result.median("floor"))]
        cells += [number(result.median(peer)) for peer in peers]
        lines.append("| " + " | ".join([*cells, ", ".join(ratios), result.verdict()]) + " |")
    return "\n".join(lines)


def keep(results: Sequence[Result], path: Path = KEPT) -> list[Result]:
    """Put results beside those of earlier runs; returns all of them in the table's order."""
    rates: dict[str, dict[str, list[float]]] = json.loads(path.read_text()) if path.exists() else {}
    rates |= {result.row.name: result.rates for result in results}
    names = [row.name for row in ROWS if row.name in rates]
    path.write_text(json.dumps({name: rates[name] for name in names}, indent=1) + "\n")
    return [Result(row, rates[row.name]) for row in ROWS if row.name in names]


def write_doc(text: str, path: Path = DOC) -> None:
    """Replace what stands between the markers in a page, which is made if there is none."""
    old = path.read_text() if path.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    before, rest = old.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def main() -> int:
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", nargs="+", choices=names, default=names, metavar="ROW", help=f"of: {', '.join(names)}"
    )
    parser.add_argument("--sides", nargs="+", choices=["ours", "floor", *PEERS], default=["ours", "floor", *PEERS])
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each side (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the amount of work (default: 1)")
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: processor time, for a look on a busy machine"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements to FILE")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    args = parser.parse_args()

    rows = [row for row in ROWS if row.name in args.rows]
    absent = [side for side in args.sides if python_of(side) is None]
    missing = [PEERS[side] for side in absent if any(has_row(side, row) for row in rows)]
    keeps = args.clock == "wall" and args.scale == 1.0 and not missing and not args.no_write
    if missing:
        print(f"not compared, so not kept: {', '.join(missing)}; benchmarks/peers/setup.sh makes their environments\n")
    told = (lambda result: keep([result])) if keeps else (lambda result: None)
    results = bench(rows, args.sides, args.repeats, scale=args.scale, clock=args.clock, told=told)
    shown = table(results)
    print(shown)
    if args.json:
        document = {"machine": machine(), "repeats": args.repeats, "rows": [result.as_dict() for result in results]}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    if keeps:
        write_doc(f"{table(keep(results))}\n\nMedians of the runs of each side, one thread. {machine()}.")
        print(f"\nwritten to {DOC.relative_to(HERE.parent)}")
    return int(any(result.verdict() == "FAIL" for result in results))


if __name__ == "__main__":
    sys.exit(main())
