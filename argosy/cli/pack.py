"""`argosy pack RUN -o agent.zip`: a policy that a run has saved, to be shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.run.pack import pack


@dataclass(frozen=True, kw_only=True)
class PackFlags:
    """What `argosy pack` takes."""

    run: Annotated[str, tyro.conf.Positional]
    """The folder of a run."""
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "agent.zip"
    """The file."""
    episodes: int = 100
    """Episodes by which its score is measured."""
    licence: str = ""
    """Under which others may use it."""
    video: bool = True
    """Film an episode, where the environment draws."""
    tag: str | None = None
    """best or latest (None: the best, if any was tested)."""
    trust: bool = False
    """Import the code that the run names as MODULE:CLASS."""


def main(args: Sequence[str]) -> int:
    """Write the file."""
    description = "Pack a policy with its settings, a card and pictures into a file that load, eval and watch take."
    flags = parse(PackFlags, args, prog="argosy pack", description=description)
    path = pack(
        flags.run,
        flags.output,
        episodes=flags.episodes,
        licence=flags.licence,
        video=flags.video,
        tag=flags.tag,
        trust=flags.trust,
    )
    print(f"agent: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0
