"""The folder of a run: what lies where, and the picture of its learning curve."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from argosy.errors import CheckpointError, ConfigError, MissingExtraError, require
from argosy.experiment import NO_CODE, Experiment
from argosy.files import claimed, make_folder, remove_torn, replacing
from argosy.logger import read_jsonl
from argosy.named import names_code


class RunFolder:
    """Paths of one run: runs/<task>/<algorithm>/<time>-<seed>/.

    What is no run, or is damaged, is a CheckpointError; a folder that cannot be made, or is in use, a ConfigError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        """As it was given, for messages."""
        self.place = path = path.absolute()  # an environment may change the working directory
        self.config = path / "config.json"
        """The experiment, as JSON."""
        self.metrics = path / "metrics.jsonl"
        """Metrics, a JSON object per line."""
        self.tensorboard = path / "tensorboard"
        """The same for TensorBoard, where it was asked for."""
        self.checkpoint = path / "checkpoint.safetensors"
        """Everything that `resume` goes on from."""
        self.crash = path / "crash.safetensors"
        """What a failure has left, to go on from; never in the place of a checkpoint."""
        self.best_policy = path / "policy.safetensors"
        """The policy with the best test so far."""
        self.result = path / "result.json"
        """The result, as JSON; there once the run has ended."""
        self.machine = path / "machine.json"
        """Hardware and versions with which it began, as JSON."""
        self.curve = path / "curve.png"
        """The learning curve."""

    def rows(self) -> list[dict[str, float | None]]:
        """Return the metrics; none before the first record."""
        return read_jsonl(self.metrics) if self.metrics.is_file() else []

    @property
    def position(self) -> int:
        """Steps that the run has noted so far; offline: updates."""
        last = (self.rows() or [{}])[-1]
        return int(last.get("env_step") or last.get("gradient_step") or 0)

    @property
    def has_state(self) -> bool:
        """Whether there is anything that `resume` may go on from."""
        states = self.place.glob(f"{self.checkpoint.stem}*{self.checkpoint.suffix}")  # a kill may leave any of them
        return self.crash.is_file() or any(states)

    @staticmethod
    def home(root: str | Path, task: str, algorithm: str) -> Path:
        """Return where the runs of an algorithm on a task lie, one folder each."""
        return Path(root) / re.sub("[/:]", "-", task) / re.sub("[/:]", "-", algorithm)

    @classmethod
    def create(cls, root: str | Path, task: str, algorithm: str, seed: int) -> RunFolder:
        """Make a new folder under `root`; two runs of the same second get different ones."""
        return cls(new_folder(cls.home(root, task, algorithm), f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"))

    def experiment(self, *, trust: bool = False) -> Experiment:
        """Return the experiment of the run; `trust` imports what it names as "MODULE:CLASS" (see `Experiment.load`)."""
        try:
            return Experiment.load(self.config, trust=trust)
        except ConfigError as error:
            raise CheckpointError(f"the run {str(self.path)!r} is damaged: {error}") from error

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Have the run to oneself; removes what a process that died has left half-written."""
        with claimed(self.place, "end it first (Ctrl-C saves the run), or wait for it"):
            remove_torn(self.place)
            yield

    def remove_if_empty(self) -> None:
        """Remove a folder into which nothing was written, and those above it that `create` has made for it."""
        with contextlib.suppress(OSError):
            if not self.config.exists():
                (self.place / "lock").unlink(missing_ok=True)
            self.place.rmdir()
            self.place.parent.rmdir()
            self.place.parent.parent.rmdir()

    @classmethod
    def find(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Return the folder of an existing run; where there is none, the error names the newest one nearby, if any."""
        folder = cls(run_path(path))
        if folder.config.is_file():
            return folder
        if not folder.path.exists():
            raise CheckpointError(f"there is no run {str(folder.path)!r}: the folder does not exist")
        if (folder.path / "fleet.json").is_file():
            raise CheckpointError(
                f"{str(folder.path)!r} is the folder of a fleet, no local run; go on by argosy launch FILE --resume"
            )
        inside = sorted(folder.path.rglob("config.json"), key=lambda file: file.stat().st_mtime)
        hint = f"; the newest run below it is {str(inside[-1].parent)!r}" if inside else ""
        raise CheckpointError(f"{str(folder.path)!r} is not the folder of a run: it has no config.json{hint}")


def new_folder(parent: Path, name: str) -> Path:
    """Make a folder of this name; where there is one, of a name with a number behind it."""
    make_folder(parent)
    for attempt in range(1000):
        path = parent / (name + (f"-{attempt}" if attempt else ""))
        try:
            path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(f"the folder {str(path)!r} cannot be made: {error}; give another one") from error
        return path
    raise CheckpointError(f"no free name for a run under {str(parent)!r}")


def run_path(path: object) -> Path:
    """Return the path of a run, for which its `Result` may stand, and a policy by mistake."""
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(
            f"a {type(path).__name__} was given for a run; give the run's folder, or its Result. A policy at hand "
            "plays by Collector(policy, env).collect(n_episode=N)"
        )
    return Path(path)


def resume_command(path: Path, *more: str) -> str:
    """Return the command line that goes on with a run, or with a folder of many."""
    return trusting_command(path, "resume", str(path), *more)


def trusting_command(path: Path, *words: str) -> str:
    """Return an argosy command line that imports the code of the user's own which a run, or one of many, names."""
    config = next(path.rglob("config.json"), None)
    own_code = config is not None and names_code(json.loads(config.read_text()), but=NO_CODE)
    return shlex.join(("argosy", *words, *(("--trust",) if own_code else ())))


def located(experiment: Experiment) -> Experiment:
    """Return an experiment that finds its data set, its expert and what it begins with from any folder."""
    paths = {"data": experiment.data, "expert": experiment.expert, "init": experiment.init}
    return experiment.replaced({name: os.path.realpath(path) for name, path in paths.items() if path is not None})


@contextlib.contextmanager
def environment_of(run_dir: str | os.PathLike[str]) -> Iterator[None]:
    """Say of an environment that cannot be made here whose it is, and what to do."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(
            f"the environment of the run {os.fspath(run_dir)!r} cannot be made here: {error}. Import what registers "
            "it, or start where its module can be imported: in the folder that the run was started in, or with that on "
            "PYTHONPATH. `argosy export` and argosy.load need no environment"
        ) from error


def draw_curve(folder: RunFolder, title: str, unit: str = "environment steps") -> Path | None:
    """Draw test and training returns over time, counted in `unit`, into the run's curve.png.

    Returns:
        The picture's path; None when nothing was logged yet, and (with a warning) when matplotlib is missing or the
        picture cannot be written.
    """
    try:
        require("matplotlib", "plot")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
        axes = figure.add_subplot()
        rows = folder.rows()
        for key, label, (color, width, marker) in (
            ("episode/return_mean", "training", ("#9ab", 1.0, "")),
            ("test/return_mean", "test", ("#d55", 2.0, "o")),
        ):
            points = [(row["env_step"], row[key]) for row in rows if row.get(key) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=label, color=color, lw=width, marker=marker, markersize=4)
        if not axes.lines:
            return None
        axes.set(xlabel=unit, ylabel="return", title=title)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        with replacing(folder.curve) as file:
            figure.savefig(file, format="png")
    except (MissingExtraError, OSError) as error:
        warnings.warn(f"no picture of the learning curve: {error}", stacklevel=2)
        return None
    return folder.curve
