"""The attacks that reliability is measured by: runs what is missing, adds it to the results, writes the table.

    python benchmarks/attack/run.py                        everything that is missing of its goal: a day on two cores
    python benchmarks/attack/run.py --list                 what is there, what is missing, how long that takes
    python benchmarks/attack/run.py --only kills --count 100
    python benchmarks/attack/run.py --count 0              the table of docs/reliability.md alone

An attack is a function of tests/attack (count, seed, folder) that returns what it has counted: `tried`, what must be
zero, and what is good to know. Each part of it adds a line to benchmarks/attack/results/NAME.jsonl as soon as it is
done, so whatever ends this command loses a part at most; the next part has another seed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from results import HERE, add, read
from tqdm import tqdm

from argosy.algorithm import ALGORITHMS

DOC = HERE.parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- table of attacks: written by benchmarks/attack/run.py -->", "<!-- end of the table of attacks -->"
Counts = Mapping[str, float]


@dataclass(frozen=True)
class Attack:
    """One row of the table."""

    title: str
    goal: float
    """How many of `unit`."""
    where: str
    """MODULE:FUNCTION, of tests/attack or of this folder."""
    zero: tuple[str, ...]
    """What may not happen."""
    also: tuple[str, ...] = ()
    """What else is told."""
    part: int = 200
    """How many between two lines of results."""
    each_s: float = 0.01
    """Seconds for one, as long as there are no results that say it."""
    unit: str = "files"
    newest: bool = False
    """Each line is of the whole attack: the newest one counts."""

    def function(self) -> Callable[[int, int, Path], Counts]:
        """Import it."""
        module, name = self.where.split(":")
        found: Callable[[int, int, Path], Counts] = getattr(importlib.import_module(module), name)
        return found


OF_ALL = ("rows", "algorithms")
"""What a line tells of the whole attack."""
REFUSED = ("accepted", "raw", "slow", "greedy")
READ = ("raw", "slow", "greedy")
ATTACKS = {
    "kills": Attack(
        "SIGKILL of a local run, then resume",
        1000,
        "kills:kills",
        ("torn", "lost", "different", "left_running", "left_in_shm"),
        ("starting", "writing", "ending", "chains"),
        part=50,
        each_s=2.0,
        unit="kills",
    ),
    "disks": Attack(
        "disk full at a random moment",
        50,
        "disks:full_disks",
        ("torn", "raw", "hanging", "lost", "different", "left"),
        ("went_on", "ended"),
        part=5,
        each_s=5.0,
        unit="runs",
    ),
    "resumes": Attack(
        "a run that is left and resumed, for every pair of settings",
        60,
        "resumes:resumes",
        ("different", "raw"),
        ("algorithms",),
        part=20,
        each_s=2.0,
        unit="runs",
    ),
    "soak_local": Attack(
        "soak of a local run",
        2,
        "soak:local",
        ("growing", "left"),
        ("steps",),
        each_s=3600.0,
        unit="hours",
        newest=True,
    ),
    "soak_fleet": Attack(
        "soak of a fleet",
        2,
        "soak:fleet",
        ("growing", "left"),
        ("steps",),
        each_s=3600.0,
        unit="hours",
        newest=True,
    ),
    "states": Attack("damaged checkpoints and states", 2000, "test_states:damaged_states", REFUSED),
    "versions": Attack("damaged parameter versions", 2000, "test_versions:damaged_versions", REFUSED),
    "hdf5": Attack("damaged HDF5 files", 2000, "test_hdf5:damaged_files", REFUSED),
    "messages": Attack("damaged messages", 2000, "test_messages:damaged_messages", READ, ("accepted",)),
    "configs": Attack("made-up config.json", 2000, "test_configs:made_up_experiments", READ, ("accepted",)),
    "spaces": Attack("made-up policy.json", 2000, "test_configs:made_up_spaces", READ, ("accepted",)),
    "fleet_files": Attack(
        "made-up files of a fleet's folder", 2000, "test_fleet_files:made_up_fleets", READ, ("accepted",)
    ),
    "environments": Attack(
        "faulty environments, in this process, in worker processes, over shared memory",
        300,
        "test_environments:faulty_environments",
        ("raw", "silent"),
        ("refused", "accepted"),
        part=300,
        each_s=0.3,
        unit="environments",
    ),
    "metrics": Attack("damaged metrics.jsonl", 2000, "test_configs:damaged_metrics", READ, ("accepted",)),
    "fleet_kills": Attack(
        "SIGKILLs of a fleet's processes",
        200,
        "test_fleets:fleet_kills",
        ("torn", "lost", "stuck", "unclean", "left_running", "left_in_shm"),
        ("resumed",),
        20,
        8.0,
        "kills",
    ),
}


def main(args: Sequence[str] | None = None) -> int:
    """Attack and write the table; 1 if something was counted that must not happen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ATTACKS, metavar="NAME", help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--count", type=int, help="how many more (default: what is missing of the goal)")
    parser.add_argument("--seed", type=int, help="of the next part (default: the number of parts so far)")
    parser.add_argument("--list", action="store_true", help="say what is missing and how long it takes; run nothing")
    options = parser.parse_args(args)
    chosen = {name: ATTACKS[name] for name in options.only or ATTACKS}
    sys.path.insert(0, str(HERE.parents[1] / "tests" / "attack"))

    lacking = {
        name: missing(name, attack) if options.count is None else options.count for name, attack in chosen.items()
    }
    total_s = 0.0
    for name, attack in chosen.items():
        seconds = lacking[name] * each_s(name, attack)
        total_s += seconds
        so_far = f"{name:<14} {done(name, attack):>8,.4g} of {goal(name, attack):,g}"
        print(f"{so_far}; {lacking[name]:,g} to run, {duration(seconds)}")
    print(f"in all {duration(total_s)}", flush=True)
    if not options.list:
        for name, attack in chosen.items():
            run(name, attack, lacking[name], options.seed)
        write_doc()
    bad = [name for name, attack in chosen.items() if any(summed(name, attack).get(key) for key in attack.zero)]
    if bad:
        print(f"what must not happen has happened: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


def run(name: str, attack: Attack, count: float, first_seed: int | None = None) -> None:
    """Run so many more, in parts with a seed each."""
    if count <= 0:
        return
    function = attack.function()
    seed = first_seed if first_seed is not None else 0 if outdated(name, attack) else len(counted(name, attack))
    with tqdm(total=count, desc=name, unit=f" {attack.unit}") as bar:
        while bar.n < count:
            start = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="attack-", dir="/tmp", ignore_cleanup_errors=True) as folder:
                counts = function(min(attack.part, int(count - bar.n)), seed, Path(folder))
            add(name, counts, seed=seed, seconds=time.monotonic() - start)
            seed += 1
            bar.update(counts["tried"])
            bar.set_postfix({key: counts[key] for key in attack.zero if counts.get(key)})
            if attack.newest:
                break


def counted(name: str, attack: Attack) -> list[dict[str, float]]:
    """Return the lines of results that count: the newest one of an attack that is whole in each, else all.

    Of what is made of the table of algorithms, those of the newest table.
    """
    lines = read(name)[-1:] if attack.newest else read(name)
    return [line for line in lines if line.get("algorithms") == lines[-1].get("algorithms")]


def summed(name: str, attack: Attack) -> Counts:
    """Add up the lines of an attack; what each of them says of the whole is not added."""
    lines = counted(name, attack)
    keys = {key for line in lines for key, value in line.items() if isinstance(value, int | float)}
    whole = {key: lines[-1][key] for key in OF_ALL if key in keys}
    return {key: sum(line.get(key, 0) for line in lines) for key in keys} | whole


def done(name: str, attack: Attack) -> float:
    """How many were tried so far."""
    return summed(name, attack).get("tried", 0)


def goal(name: str, attack: Attack) -> float:
    """How many there are to be; the results say it of what was made of the table of algorithms."""
    return summed(name, attack).get("rows", attack.goal)


def outdated(name: str, attack: Attack) -> bool:
    """Whether the results are of an older table of algorithms."""
    return summed(name, attack).get("algorithms", len(ALGORITHMS)) != len(ALGORITHMS)


def missing(name: str, attack: Attack) -> float:
    """How many are missing of the goal."""
    return attack.goal if outdated(name, attack) else max(0, goal(name, attack) - done(name, attack))


def each_s(name: str, attack: Attack) -> float:
    """Seconds that one takes."""
    counts = summed(name, attack)
    return counts["seconds"] / counts["tried"] if counts.get("tried") else attack.each_s


def duration(seconds: float) -> str:
    """Say how long something takes."""
    return f"about {seconds / 3600:.1f} h" if seconds > 3600 else f"about {seconds / 60:.0f} min"


def table() -> list[str]:
    """Return the lines of the table."""
    lines = ["| attack | tried | of | must be zero | beside that | last run |", "| --- | --- | --- | --- | --- | --- |"]
    for name, attack in ATTACKS.items():
        counts, rows = summed(name, attack), counted(name, attack)
        last = f"{rows[-1]['date']}, `{rows[-1]['commit']}`" if rows else ""
        cells = [
            attack.title,
            f"{done(name, attack):,.4g}",
            f"{goal(name, attack):,g} {attack.unit}",
            told(counts, attack.zero) if rows else "not run yet",
            told(counts, attack.also) if rows else "",
            last,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def told(counts: Counts, keys: Sequence[str]) -> str:
    """Return counts as text."""
    return ", ".join(f"{counts.get(key, 0):,.10g} {key.replace('_', ' ')}" for key in keys)


def write_doc() -> None:
    """Write the table into docs/reliability.md."""
    before, rest = DOC.read_text().split(BEGIN, 1)
    DOC.write_text(before + BEGIN + "\n\n" + "\n".join(table()) + "\n\n" + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    raise SystemExit(main())
