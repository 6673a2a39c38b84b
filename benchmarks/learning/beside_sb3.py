"""Learning beside Stable-Baselines3: the same task, settings and steps as the rows of run.py.

    python benchmarks/learning/beside_sb3.py                     SAC and TD3 on Hopper, three seeds
    python benchmarks/learning/beside_sb3.py --algorithms td3 --seeds 1

Argosy's returns are those of `results/`; the peer learns for as many steps. What is there of the peer's in
`beside_sb3.json`, with the same settings, is not made again. Needs `benchmarks/peers/setup.sh sb3`. The table is
written into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beside import DOC, RESULTS, answer, counted, put
from run import final_return

HERE = Path(__file__).resolve().parent
FOUND = HERE / "beside_sb3.json"
PYTHON = HERE.parent / "peers" / ".env-sb3" / "bin" / "python"
BEGIN, END = "<!-- beside SB3: written by benchmarks/learning/beside_sb3.py -->", "<!-- end of beside SB3 -->"

SETTINGS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "sac": lambda config: {"ent_coef": ("auto_" if config["auto_alpha"] else "") + str(config["alpha"])},
    "td3": lambda config: {
        "noise_std": config["exploration"]["noise_std"],
        "policy_delay": config["policy_freq"],
        "target_policy_noise": config["target_noise"],
        "target_noise_clip": config["target_noise_clip"],
    },
}
"""argosy's settings of an algorithm -> SB3's of its own."""


def main(args: Sequence[str] | None = None) -> int:
    """Train what is missing, write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--task", default="Hopper-v5")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(args)
    found: dict[str, dict[str, Any]] = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    for name in options.algorithms:
        row = RESULTS / f"{options.task}-{name}.json"
        if not row.exists():
            print(f"{row.name}: argosy's side is missing; run.py makes it")
            continue
        asked, seeds = wanted(json.loads(row.read_text())), found.setdefault(row.stem, {})
        for seed in range(1, options.seeds + 1):
            if seeds.get(str(seed), {}).get("asked") != asked:
                seeds[str(seed)] = learn({**asked, "seed": seed}) | {"asked": asked}
                FOUND.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{row.stem}, seed {seed}: {seeds[str(seed)]['return_mean']:.1f}")
        write_doc(found)
    return 0


def wanted(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what SB3 is asked to do, of a row of `run.py`."""
    experiment, seeds = row["experiment"], row["seeds"]
    config, trainer = experiment["config"], experiment["trainer"]
    if config["actor_optim"] != config["critic_optim"]:
        raise SystemExit(f"{row['algorithm']}: SB3 has one optimiser for actor and critics, argosy's row has two")
    shared = {
        "learning_rate": config["actor_optim"]["lr"],
        "gamma": config["gamma"],
        "tau": config["tau"],
        "batch_size": trainer["batch_size"],
        "learning_starts": trainer["start_steps"],
        "buffer_size": experiment["buffer"]["size"],
        "train_freq": trainer["step_per_collect"],
        "gradient_steps": round(trainer["step_per_collect"] * trainer["update_per_step"]),
    }
    return {
        "algorithm": row["algorithm"],
        "task": row["task"],
        "steps": max(seed["env_steps"] for seed in seeds),
        "every": trainer["step_per_epoch"],
        "tests": trainer["episode_per_test"],
        "episodes": experiment["stop"]["episodes"],
        "hidden": experiment["net"]["hidden_sizes"],
        "settings": shared | SETTINGS[row["algorithm"]](config),
    }


def learn(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Train SB3, in a process of its own."""
    return answer(PYTHON, HERE / "peer_sb3.py", json.dumps(asked))


def write_doc(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the table of both sides into docs/benchmarks.md."""
    lines = [
        "| task | algorithm | steps | argosy: interquartile mean, 95 % interval (seeds) | SB3 2.9.2 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in sorted(found):
        row = json.loads((RESULTS / f"{name}.json").read_text())
        asked = wanted(row)
        theirs = [seed for seed in found[name].values() if seed["asked"] == asked]
        if not theirs:
            continue  # argosy's row was made anew, with other settings
        lines.append(
            f"| {row['task']} | {row['algorithm']} | {asked['steps']:,} "
            f"| {counted([final_return(seed) for seed in row['seeds']])} "
            f"| {counted([seed['return_mean'] for seed in theirs])} |"
        )
    put(DOC, BEGIN, END, lines)


if __name__ == "__main__":
    raise SystemExit(main())
