"""Data sets to learn from: trains an agent in stages, and writes what it does at each of them.

    python benchmarks/learning/data/make.py Pendulum-v1 --train sac --stages 2000 4000 20000
    cd benchmarks/learning/data && python make.py Hopper-v5 --steps 60000 --agents hopper-sac-{20,50,200}k.zip
    cd benchmarks/learning/data && python make.py Hopper-v5 --agents hopper-ppo.zip --steps 1000000 --only F --explore
    cd benchmarks/learning/data && python make.py Pendulum-v1 --agents pendulum-sac-{2,4,20}k.zip
    cd benchmarks/learning/data && python make.py MinAtar/Breakout-v1 --agents breakout-qrdqn.zip --noisy 200000 20000

Writes benchmarks/learning/runs/data/TASK/ (ignored by git): `stage-N.zip`, the agent after each of them, and of the
last one `expert.zip`, the same, and `expert.hdf5`, what it does; `medium.hdf5`, what the one in the middle does;
`mixed.hdf5`, as many transitions, an equal share of every stage, the earlier ones with random actions (`--eps`)
between the agent's own. With `--noisy`, instead, `noisy-N.hdf5`: N transitions of the last agent, with random actions
between; with `--only F`, `F.zip` and `F.hdf5`: the last agent, and what it does, or does while training
(`--explore`). How good an agent becomes differs between machines: kept ones (`--agents`) make the same data on all of
them but for rounding. The files' attribute `recipe` says which agents and settings made them.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

import argosy
from argosy.data import ReplayBuffer, sign_hdf5
from argosy.data.datasets import DatasetWriter, read_attributes
from argosy.data.join import aggregate

DATA = Path(__file__).resolve().parents[1] / "runs" / "data"


def main(args: Sequence[str] | None = None) -> int:
    """Train, collect, join, print the returns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--train", metavar="ALGORITHM", help="of the agent")
    source.add_argument("--agents", type=Path, nargs="+", help="packed ones, from the first stage to the last")
    parser.add_argument("--stages", type=int, nargs="+", default=[], help="steps of training behind each")
    parser.add_argument("--steps", type=int, default=20_000, help="transitions of each file")
    parser.add_argument("--noisy", type=int, nargs="+", default=[], metavar="N", help="transitions, of each such file")
    parser.add_argument("--only", metavar="F", help="one file, of the last agent alone")
    parser.add_argument("--explore", action="store_true", help="with --only: act as while training")
    parser.add_argument("--eps", type=float, help="share of random actions (0.3; of --noisy 0.2)")
    options = parser.parse_args(args)
    if options.noisy and options.only:
        parser.error("--noisy and --only are two kinds of files; make one after the other")
    if options.explore and not options.only:
        parser.error("--explore goes with --only F")
    if bool(options.train) != bool(options.stages):
        parser.error("--train and --stages go together: what is trained, and after how many steps it is looked at")
    folder = DATA / options.task.replace("/", "-")
    agents = options.agents or trained(options.train, options.task, sorted(options.stages), folder)
    eps = options.eps if options.eps is not None else 0.2 if options.noisy else 0.3
    if options.noisy:
        for steps in options.noisy:
            argosy.collect_data(agents[-1], folder / f"noisy-{steps}.hdf5", steps=steps, eps=eps)
            note(folder / f"noisy-{steps}.hdf5", f"{steps} steps, eps {eps}", agents[-1:])
        return 0
    if options.only:
        file = folder / f"{options.only}.hdf5"
        argosy.collect_data(agents[-1], file, steps=options.steps, explore=options.explore)
        shutil.copy(agents[-1], file.with_suffix(".zip"))
        note(file, f"{options.steps} steps{', explored' * options.explore}", agents[-1:])
        return 0
    with tempfile.TemporaryDirectory() as parts:
        files = [Path(parts) / f"{i}.hdf5" for i in range(len(agents))]
        shares = [eps] * (len(agents) - 1) + [0.0]
        for agent, file, share in zip(agents, files, shares, strict=True):
            argosy.collect_data(agent, file, steps=options.steps // len(agents), eps=share)
            print(f"{agent.stem}, eps {share}: {described(file)}", flush=True)
        join(files, folder / "mixed.hdf5")
    argosy.collect_data(agents[len(agents) // 2], folder / "medium.hdf5", steps=options.steps)
    argosy.collect_data(agents[-1], folder / "expert.hdf5", steps=options.steps)
    shutil.copy(agents[-1], folder / "expert.zip")
    for name in ("expert", "medium", "mixed"):
        note(folder / f"{name}.hdf5", f"{options.steps} steps, eps {eps}", agents)
    return 0


def note(path: Path, settings: str, agents: Sequence[Path]) -> None:
    """Write into a file which agents and settings have made it, and say how good they were."""
    recipe = hashlib.sha256(settings.encode())
    for agent in agents:
        recipe.update(agent.read_bytes())
    with h5py.File(path, "a") as file:
        file.attrs["recipe"] = recipe.hexdigest()
    sign_hdf5(path)
    print(f"{path.stem}: {described(path)}", flush=True)


def trained(algorithm: str, task: str, stages: Sequence[int], folder: Path) -> list[Path]:
    """Train an agent, and pack the best version that there is after each stage."""
    agents = [folder / f"stage-{stage}.zip" for stage in stages]
    with tempfile.TemporaryDirectory() as runs:
        changes = {"total_steps": stages[0], "stop": {"test_return": None}}
        run = argosy.train(algorithm, task, seed=1, runs=runs, show_progress=False, **changes).run_dir
        for stage, agent in zip(stages, agents, strict=True):
            if stage != stages[0]:
                argosy.resume(run, total_steps=stage, show_progress=False)
            argosy.pack(run, agent, video=False)
    return agents


def join(parts: Sequence[Path], path: Path) -> None:
    """Write files of equally many steps side by side, as if their envs had been stepped together."""
    rollouts = [ReplayBuffer.load_hdf5(part).rollout() for part in parts]
    together = aggregate(rollouts, lambda parts: np.concatenate(parts, axis=1), like=rollouts[0])
    attributes = [read_attributes(part) for part in parts]
    episodes = [int(found["episodes"]) for found in attributes]
    sums = (count * float(found["return_mean"]) for count, found in zip(episodes, attributes, strict=True))
    steps, num_envs = together.rew.shape
    with DatasetWriter(path, num_envs, steps) as writer:
        writer.write(together)
        writer.finish(
            {
                **{name: attributes[-1][name] for name in ("action_scale", "task", "env", "algorithm")},
                "episodes": sum(episodes),
                "return_mean": sum(sums) / sum(episodes),
            }
        )


def described(path: Path) -> str:
    """Say how good the policies were that made a file."""
    found = read_attributes(path)
    return f"{found['return_mean']:.1f} over {found['episodes']} episodes"


if __name__ == "__main__":
    raise SystemExit(main())
