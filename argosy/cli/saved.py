"""What is done with what a run has saved: `argosy resume`, `eval`, `watch`, `export`, `pack` and `collect`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

import argosy  # what it names is imported when it is used: help needs none of it
from argosy.cli.flags import SideBySide
from argosy.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Resume(SideBySide):
    """Go on with a run that was stopped, from its checkpoint."""

    others = "a run that goes on keeps its settings; argosy train ALGO --task TASK --init RUN begins a new one from it"

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run's folder, or that of many runs (`argosy train --seeds`), of which those that are missing go on."""
    total_steps: int | None = None
    """The run's new length in steps (offline: updates); a run that has finished goes on, too."""
    device: str | None = None
    """Where to learn on, if the run's own device is not here; another one rounds otherwise."""
    trust: bool = False
    """Import the code that the run names as MODULE:CLASS."""

    def __call__(self) -> int:
        """Go on with the run."""
        from argosy.cli import many
        from argosy.cli.show import finish
        from argosy.run.many import find_group

        if group := find_group(self.run, trust=self.trust):
            if self.total_steps is not None or self.device is not None:
                raise ConfigError(
                    f"{self.run} holds many runs, which stay as they are; --total-steps and --device take one of their "
                    "folders"
                )
            return many.run_and_report(group, self)
        if self.address is not None:
            raise ConfigError(f"--address is for a folder of many runs, and {self.run} is none")
        result = argosy.resume(
            self.run,
            total_steps=self.total_steps,
            device=self.device,
            show_progress=not self.quiet,
            trust=self.trust,
        )
        return finish(result, self)


@dataclass(frozen=True, kw_only=True)
class _RunFlags:
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or of a fleet's, or a file that `argosy pack` wrote."""
    trust: bool = False
    """Import the code that the run names as MODULE:CLASS."""


@dataclass(frozen=True, kw_only=True)
class _TaggedFlags(_RunFlags):
    tag: str | None = None
    """best, latest, or another tag of a fleet's version (None: the best, if any was tested)."""


@dataclass(frozen=True, kw_only=True)
class _SavedFlags(_TaggedFlags):
    policy: str | None = None
    """Of a fleet with several policies: which."""
    version: int | None = None
    """Of a fleet: which version; those that are kept."""


@dataclass(frozen=True, kw_only=True)
class Eval(_SavedFlags):
    """Play with a policy that a run has saved, the best or another."""

    episodes: int = 100
    """Episodes to play."""
    seed: int = 0
    """Seed of the environments."""
    json: bool = False
    """Print the result as one line of JSON, last, on standard output."""

    def __call__(self) -> int:
        """Play and report."""
        options = asdict(self)
        run, as_json, episodes = options.pop("run"), options.pop("json"), options["episodes"]
        stats = argosy.evaluate(run, **options)
        returns, lens = stats.returns_stat, stats.lens_stat
        assert returns is not None
        assert lens is not None
        if as_json:
            numbers = {"episodes": episodes, "seed": options["seed"], "return_mean": returns.mean}
            if stats.success_rate is not None:
                numbers["success_rate"] = stats.success_rate
            print(json.dumps({**numbers, "return_std": returns.std, "run_dir": run}))
        else:
            print(f"return   {returns.mean:.1f} ± {returns.std:.1f} over {episodes} episodes")
            print(f"range    {returns.min:.1f} to {returns.max:.1f}")
            if stats.success_rate is not None:
                print(f"success  {stats.success_rate:.2f}")
            print(f"length   {lens.mean:.1f} ± {lens.std:.1f} steps")
        return 0


@dataclass(frozen=True, kw_only=True)
class Watch(_SavedFlags):
    """Film a policy that a run has saved."""

    video: str = ""
    """The film, .gif or .mp4 (default: video.gif in the run's folder, or beside the file)."""
    episodes: int = 1
    """Episodes to show."""
    seed: int = 0
    """Seed of the environment."""
    max_steps: int = 2000
    """Steps of the film at most."""

    def __call__(self) -> int:
        """Film the policy."""
        options = asdict(self)
        run = Path(options.pop("run"))
        path = options.pop("video") or str(run.with_suffix(".gif") if run.is_file() else run / "video.gif")
        stats = argosy.film(run, path, **options)
        for number, (episode_return, length) in enumerate(zip(stats.returns, stats.lens, strict=True), 1):
            print(f"episode {number}: return {episode_return:.1f} in {length} steps")
        print(f"film: {path}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Export(_SavedFlags):
    """Write a policy that a run has saved as a file that acts without argosy."""

    output: Annotated[str, tyro.conf.arg(aliases=["-o"])]
    """The file, FILE.onnx, FILE.pt (TorchScript) or FILE.pt2 (torch.export)."""
    format: Literal["onnx", "torchscript", "program"] | None = None
    """What is written (None: as the file's ending says)."""

    def __call__(self) -> int:
        """Write the file."""
        options = asdict(self)
        print(f"policy: {argosy.export(options.pop('run'), options.pop('output'), **options)}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Pack(_TaggedFlags):
    """Pack a policy with its settings, a card and pictures into a file that takes the run's place."""

    output: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "agent.zip"
    """The file."""
    episodes: int = 100
    """Episodes by which its score is measured."""
    licence: str = ""
    """Under which others may use it."""
    video: bool = True
    """Film an episode, where the environment draws."""

    def __call__(self) -> int:
        """Write the file."""
        options = asdict(self)
        path = argosy.pack(options.pop("run"), options.pop("output"), **options)
        print(f"agent: {path} ({path.stat().st_size / 1e6:.1f} MB)")
        return 0


@dataclass(frozen=True, kw_only=True)
class Collect(_RunFlags):
    """Write what a run's best policy does to a file for `argosy train --data`."""

    steps: int
    """Transitions to collect, over all environments."""
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])]
    """The file, HDF5; one that is there is replaced in the end."""
    eps: float = 0.0
    """Probability of a uniformly random action instead of the policy's."""
    explore: bool = False
    """Act as while training (draws from a distribution, noise, a share of random actions) instead of as in tests."""
    seed: int = 0
    """Seed of the environments, of exploration and of random actions."""
    quiet: bool = False
    """No progress bar and no report."""

    def __call__(self) -> int:
        """Play, write and report."""
        from argosy.process import unwound_by_sigterm  # here: it brings torch along

        options = asdict(self)
        quiet, path = options.pop("quiet"), options.pop("output")
        with unwound_by_sigterm():
            stats = argosy.collect_data(options.pop("run"), path, show_progress=not quiet, **options)
        if not quiet:
            returns = stats.returns_stat
            over = f"over {stats.n_collected_episodes} episodes"
            shown = "no episode ended" if returns is None else f"{returns.mean:.1f} ± {returns.std:.1f} {over}"
            print(f"return   {shown}")
            print(f"steps    {stats.n_collected_steps:,}\nfile     {path}")
        return 0
