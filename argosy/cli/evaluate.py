"""`argosy eval RUN --episodes N`: play with a policy that a run has saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.cli.flags import parse
from argosy.cli.saved import SavedFlags
from argosy.run.play import evaluate


@dataclass(frozen=True, kw_only=True)
class EvalFlags(SavedFlags):
    """What `argosy eval` takes."""

    episodes: int = 100
    """Episodes to play."""
    seed: int = 0
    """Seed of the environments."""
    json: bool = False
    """Print the result as one line of JSON, last, on standard output."""


def main(args: Sequence[str]) -> int:
    """Play and report."""
    flags = parse(
        EvalFlags,
        args,
        prog="argosy eval",
        description="Play with a policy that a run has saved, the best or another.",
    )
    stats = evaluate(flags.run, episodes=flags.episodes, seed=flags.seed, **flags.chosen)
    returns, lens = stats.returns_stat, stats.lens_stat
    assert returns is not None
    assert lens is not None
    if flags.json:
        numbers = {
            "episodes": flags.episodes,
            "seed": flags.seed,
            "return_mean": returns.mean,
            "return_std": returns.std,
        }
        print(json.dumps({**numbers, "run_dir": flags.run}))
    else:
        print(f"return   {returns.mean:.1f} ± {returns.std:.1f} over {flags.episodes} episodes")
        print(f"range    {returns.min:.1f} to {returns.max:.1f}")
        print(f"length   {lens.mean:.1f} ± {lens.std:.1f} steps")
    return 0
