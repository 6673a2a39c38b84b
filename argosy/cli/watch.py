"""`argosy watch RUN --video FILE`: film a policy that a run has saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.cli.flags import parse
from argosy.cli.saved import SavedFlags
from argosy.run.play import film


@dataclass(frozen=True, kw_only=True)
class WatchFlags(SavedFlags):
    """What `argosy watch` takes."""

    video: str = ""
    """The film, .gif or .mp4 (default: video.gif in the run's folder, or beside the file)."""
    episodes: int = 1
    """Episodes to show."""
    seed: int = 0
    """Seed of the environment."""
    max_steps: int = 2000
    """Steps of the film at most."""


def main(args: Sequence[str]) -> int:
    """Film the policy."""
    flags = parse(
        WatchFlags,
        args,
        prog="argosy watch",
        description="Film a policy that a run has saved.",
    )
    run = Path(flags.run)
    path = flags.video or str(run.with_suffix(".gif") if run.is_file() else run / "video.gif")
    stats = film(flags.run, path, episodes=flags.episodes, seed=flags.seed, max_steps=flags.max_steps, **flags.chosen)
    for number, (episode_return, length) in enumerate(zip(stats.returns, stats.lens, strict=True), 1):
        print(f"episode {number}: return {episode_return:.1f} in {length} steps")
    print(f"film: {path}")
    return 0
