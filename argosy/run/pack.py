"""Packs a policy that a run has saved, to be shared: with its settings, a card that says what it can do, pictures."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

import argosy
from argosy.config import to_plain
from argosy.errors import MALFORMED, CheckpointError, ConfigError, EnvError, MissingExtraError
from argosy.experiment import NO_CODE, Experiment, LoggerConfig
from argosy.files import read_json
from argosy.named import names_code
from argosy.run.agentfile import CARD, CONFIG, CURVE, POLICY, VIDEO, write_agent
from argosy.run.folder import RunFolder, run_path
from argosy.run.play import evaluate, film
from argosy.run.saved import fleet_policies, read_policy, write_description
from argosy.trainer.statefile import write_state

_FRAMES = 500
_OF_A_SEED = ("seed", "threads", "logger", "argosy")


def pack(
    run_dir: str | PathLike[str],
    output: str | Path,
    *,
    episodes: int = 100,
    licence: str = "",
    video: bool = True,
    tag: str | None = None,
    trust: bool = False,
) -> Path:
    """Write a policy that a run has saved into a file that `load`, `evaluate`, `export`, `init` ... take in its place.

    Args:
        run_dir: the folder of a run.
        output: the file, ending in .zip.
        episodes: by which its score is measured for the card.
        licence: under which others may use it, for the card.
        video: film an episode, where the environment draws.
        tag: best or latest; None: the best, if any was tested.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.

    Raises:
        ConfigError: the file's name does not end in .zip, or the environment is not known here.
        CheckpointError: there is no such run, its policy is missing or damaged, or the file cannot be written.
        TrustError: the run names code, and `trust` is not set.
    """
    path, run = Path(output), run_path(run_dir)
    if path.suffix != ".zip":
        raise ConfigError(f"the file's name is {path.name!r}; it must end in .zip")
    if len(fleet_policies(run)) > 1:
        raise ConfigError(f"{str(run)!r} has several policies, which play with one another; one alone cannot be packed")
    saved = read_policy(run, tag=tag, trust=trust)
    data, expert = (path and Path(path).name for path in (saved.experiment.data, saved.experiment.expert))
    of_others_no_matter = {"logger": LoggerConfig(), "callbacks": (), "init": None, "buffer.storage_dir": None}
    experiment = saved.experiment.replaced({**of_others_no_matter, "data": data, "expert": expert})
    returns = evaluate(run, episodes=episodes, tag=tag, trust=trust).returns
    mean, half = float(returns.mean()), float(1.96 * returns.std() / np.sqrt(len(returns)))
    with tempfile.TemporaryDirectory(prefix="argosy-pack-") as made:
        folder = Path(made)
        experiment.save(folder / CONFIG)
        write_description(folder, *saved.spaces, saved.own)
        write_state(folder / POLICY, "policy", {"policy": saved.checkpoint})
        if (run / CURVE).is_file():
            shutil.copyfile(run / CURVE, folder / CURVE)
        if video:
            with contextlib.suppress(EnvError, MissingExtraError):  # one that does not draw
                film(run, folder / VIDEO, max_steps=_FRAMES, tag=tag, trust=trust)
        bounds = f"{mean - half:.4g} to {mean + half:.4g}"
        about = {
            "task": experiment.task,
            "algorithm": str(experiment.algorithm),
            "score": f"mean return {mean:.4g} over {episodes} episodes, 95 % interval {bounds}",
            "seed": str(experiment.seed),
            "licence": licence or "not stated",
            **_versions(run),
        }
        (folder / CARD).write_text(_card(about, _seeds(run), experiment, path.name, folder), encoding="utf-8")
        write_agent(path, folder)
    return path


def _versions(run: Path) -> dict[str, str]:
    """Return on what it was trained; of a run that has not noted it, the version of argosy."""
    machine = RunFolder(run).machine
    if machine.is_file():
        return {name: str(value) for name, value in read_json(machine).items()}
    return {"argosy": argosy.__version__}


def _seeds(run: Path) -> dict[int, float]:
    """Return the mean return of this run and of those beside it that differ by their seeds only."""
    seeds: dict[int, float] = {}
    ours = _but_seed(run)
    for result in sorted(run.absolute().parent.glob("*/result.json")):
        with contextlib.suppress(CheckpointError, *MALFORMED):
            mean = read_json(result).get("test_return_mean")
            if mean is not None and ours and _but_seed(result.parent) == ours:
                seeds[int(read_json(result.with_name(CONFIG))["seed"])] = float(mean)
    return seeds


def _but_seed(run: Path) -> dict[str, Any]:
    config = read_json(run / CONFIG) if (run / CONFIG).is_file() else {}
    return {name: value for name, value in config.items() if name not in _OF_A_SEED}


def _card(about: dict[str, str], seeds: dict[int, float], experiment: Experiment, file: str, folder: Path) -> str:
    """Return what a reader sees first, as Markdown."""
    name, own_code = _plain(file), names_code(experiment.to_dict(), but=NO_CODE)
    flag, argument = (" --trust", ", trust=True") if own_code else ("", "")
    parts = [
        f"# {_plain(about['algorithm'])} on {_plain(about['task'])}",
        _table(("", ""), about.items()),
        f"`argosy eval {name}{flag}` plays with it, `argosy watch {name}{flag}` films it. In Python:",
        f'```python\nimport argosy\n\npolicy = argosy.load("{name}"{argument})\n'
        "action, state = policy.predict(observation)\n```",
        *(f"![{picture}]({picture})" for picture in (CURVE, VIDEO) if (folder / picture).is_file()),
        f"Settings of the algorithm; all others are in {CONFIG}:",
        f"```json\n{json.dumps(to_plain(experiment.config), indent=1)}\n```",
    ]
    if len(seeds) > 1:
        rows = [(str(seed), f"{mean:.4g}") for seed, mean in sorted(seeds.items())]
        parts[2:2] = ["Mean returns of runs that differ by their seeds only:", _table(("seed", "mean return"), rows)]
    return "\n\n".join(parts) + "\n"


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *((_plain(name), _plain(value)) for name, value in rows)]
    return "\n".join(f"| {name} | {value} |" for name, value in lines)


def _plain(text: str) -> str:
    """Return a name without what Markdown or HTML would take for its own."""
    return re.sub(r"[^\w ./:%,()+-]", " ", text)
