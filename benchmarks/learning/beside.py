"""Learning from data beside d3rlpy: the same transitions, settings, seeds and updates as the rows of run.py.

    python benchmarks/learning/beside.py                         every row on Pendulum that d3rlpy can have
    python benchmarks/learning/beside.py --algorithms td3_bc iql --labels mixed --seeds 2
    python benchmarks/learning/beside.py --task Hopper-v5 --algorithms bc td3_bc iql awac --labels mixed
    python benchmarks/learning/beside.py --task CartPole-v1 --algorithms bc discrete_bcq discrete_cql --labels expert

Argosy's returns are those of `results/`. What is there of the peer's in `beside.json`, with the same settings, is not
made again. Needs `benchmarks/peers/setup.sh d3rlpy`. The table is written into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from from_data import of
from run import digest, final_return, said

import argosy
from argosy.data import Batch
from argosy.data.datasets import open_source

HERE = Path(__file__).resolve().parent
RESULTS, FOUND, DOC = HERE / "results", HERE / "beside.json", HERE.parents[1] / "docs" / "benchmarks.md"
PYTHON = HERE.parent / "peers" / ".env-d3rlpy" / "bin" / "python"
BEGIN, END = "<!-- beside d3rlpy: written by benchmarks/learning/beside.py -->", "<!-- end of beside d3rlpy -->"
EPISODES = 100
Settings = Mapping[str, Any]


def rates(config: Settings) -> dict[str, Any]:
    """What d3rlpy calls what algorithms with an actor and critics have in common."""
    return {
        "gamma": config["gamma"],
        "tau": config["tau"],
        "actor_learning_rate": config["actor_optim"]["lr"],
        "critic_learning_rate": config["critic_optim"]["lr"],
    }


def choices(config: Settings) -> dict[str, Any]:
    """What d3rlpy calls what algorithms that value choices have in common; its own are double, whatever `double` is."""
    return {
        "gamma": config["gamma"],
        "learning_rate": config["optim"]["lr"],
        "target_update_interval": config["target_update_freq"],
    }


SETTINGS: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "bc": lambda config: {"learning_rate": config["optim"]["lr"]},
    "td3_bc": lambda config: rates(config) | {"alpha": config["alpha"]},
    "rebrac": lambda config: (
        rates(config) | {"actor_beta": config["actor_penalty"], "critic_beta": config["critic_penalty"]}
    ),
    "iql": lambda config: (
        rates(config) | {"expectile": config["expectile"], "weight_temp": 1.0 / config["temperature"]}
    ),
    "awac": lambda config: rates(config) | {"lam": config["temperature"]},
    "bcq": lambda config: (
        rates(config)
        | {
            "imitator_learning_rate": config["model_optim"]["lr"],
            "lam": config["pessimism"],
            "action_flexibility": config["max_perturbation"],
            "n_action_samples": config["num_candidates"],
        }
    ),
    "cql": lambda config: (
        rates(config)
        | {
            "initial_temperature": config["alpha"],
            "temp_learning_rate": config["alpha_optim"]["lr"] if config["auto_alpha"] else 0.0,
            "alpha_learning_rate": 0.0,  # a fixed weight
            "conservative_weight": config["conservative_weight"],
            "n_action_samples": config["num_draws"],
            "soft_q_backup": config["entropy_in_target"],
        }
    ),
    "discrete_bcq": lambda config: (
        choices(config) | {"action_flexibility": config["threshold"], "beta": config["logits_penalty"]}
    ),
    "discrete_cql": lambda config: choices(config) | {"alpha": config["conservative_weight"]},
}
"""argosy's settings of an algorithm -> d3rlpy's of its own."""


def main(args: Sequence[str] | None = None) -> int:
    """Train what is missing, write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--labels", nargs="+", default=["expert", "mixed"])
    parser.add_argument("--task", default="Pendulum-v1")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(args)
    found: dict[str, dict[str, Any]] = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    for label in options.labels:
        for name in options.algorithms:
            row = RESULTS / f"{options.task}-{name}-{label}.json"
            if not row.exists():
                print(f"{row.name}: argosy's side is missing; run.py makes it")
                continue
            ours = json.loads(row.read_text())
            asked, seeds = wanted(ours), found.setdefault(row.stem, {})
            for seed in range(1, options.seeds + 1):
                if seeds.get(str(seed), {}).get("asked") != asked:
                    file = HERE / "runs" / "data" / ours["experiment"]["data"]
                    if digest(file) != asked["data_sha256"]:
                        raise SystemExit(f"{file} is not what argosy has learned from: run.py makes {row.name} anew")
                    seeds[str(seed)] = learn(file, {**asked, "seed": seed}) | {"asked": asked}
                    FOUND.write_text(json.dumps(found, indent=1) + "\n")
                if ours.get("expert") and "expert_return" not in seeds[str(seed)]:
                    agent = HERE / "runs" / "data" / Path(*Path(ours["expert"]).parts[-2:])
                    seeds[str(seed)]["expert_return"] = expert_return(agent, options.task, seed)
                    FOUND.write_text(json.dumps(found, indent=1) + "\n")
                print(f"{row.stem}, seed {seed}: {seeds[str(seed)]['return_mean']:.1f}")
            write_doc(found)
    return 0


def wanted(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what d3rlpy is asked to do, of a row of `run.py`: all but the seed."""
    experiment = row["experiment"]
    asked: dict[str, Any] = {
        "algorithm": row["algorithm"],
        "task": row["task"],
        "updates": row["seeds"][0]["updates"],
        "batch": experiment["trainer"]["batch_size"],
        "hidden": experiment["net"]["hidden_sizes"],
        "layer_norm": row["algorithm"] in {"rebrac", "awac"} or experiment["config"].get("layer_norm", False),
        "norm_obs": experiment["net"]["norm_obs"],
        "settings": SETTINGS[row["algorithm"]](experiment["config"]),
        "episodes": EPISODES,
        "data_sha256": row.get("data_sha256"),
    }
    if "num_quantiles" in experiment["config"]:
        asked["quantiles"] = experiment["config"]["num_quantiles"]
    optim = experiment["config"].get("actor_optim") or experiment["config"]["optim"]
    if optim["lr_schedule"] != "constant":
        asked["actor_schedule"] = optim["lr_schedule"]
        if (freq := experiment["config"].get("policy_freq", 1)) > 1:
            asked["actor_updates"] = asked["updates"] // freq
    return dict(json.loads(json.dumps(asked)))  # as it comes back from a file


def learn(file: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Train d3rlpy, in a process of its own, on the transitions of a file."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "data.npz"
        with open_source(file) as source:
            data = Batch.cat(list(source.parts()))
        names = ("obs", "act", "rew", "terminated", "truncated")
        np.savez(plain, **{name: data[name] for name in names})
        return answer(PYTHON, HERE / "peer_d3rlpy.py", plain, json.dumps(asked))


def expert_return(agent: Path, task: str, seed: int) -> float:
    """Mean return of an agent in the episodes in which `peer_d3rlpy.py` judges the policy of a seed."""
    policy, envs = argosy.load(agent), gym.make_vec(task, EPISODES, "sync")
    obs, _ = envs.reset(seed=[seed * 100_000 + episode for episode in range(EPISODES)])
    total, is_over = np.zeros(EPISODES), np.zeros(EPISODES, np.bool_)
    while not is_over.all():
        act, _ = policy.predict(np.float32(obs))
        obs, rew, terminated, truncated, _ = envs.step(act)
        total += np.where(is_over, 0.0, rew)
        is_over |= terminated | truncated
    return float(total.mean())


def answer(*command: object) -> dict[str, Any]:
    """Return the JSON in the last line that a peer prints, computing with one thread."""
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=quiet)
    if run.returncode:
        raise SystemExit(run.stderr[-2000:])
    made: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return made


def write_doc(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the table of both sides into docs/benchmarks.md."""
    lines = [
        "| data | algorithm | argosy: interquartile mean, 95 % interval (seeds) | d3rlpy 2.8.1 "
        "| argosy, in % of the expert in the same episodes | d3rlpy |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted(name for name in found if (RESULTS / f"{name}.json").exists()):
        row = json.loads((RESULTS / f"{name}.json").read_text())
        asked = wanted(row)
        ours = [(final_return(seed), seed.get("expert_return")) for seed in row["seeds"]]
        theirs = [
            (seed["return_mean"], seed.get("expert_return")) for seed in found[name].values() if seed["asked"] == asked
        ]
        if not theirs:
            continue  # argosy's row was made anew, with other settings
        cells = [counted([value for value, _ in side]) for side in (ours, theirs)] + [shares(ours), shares(theirs)]
        lines.append(f"| {row['task']} ({row['label']}) | {row['algorithm']} | {' | '.join(cells)} |")
    put(DOC, BEGIN, END, lines)


def shares(side: Sequence[tuple[float, float | None]]) -> str:
    """Return what is to be said of returns in percent of an expert's; nothing where one of these is not known."""
    if any(expert is None for _, expert in side):
        return ""
    return said([100 * of(value, expert) for value, expert in side if expert is not None])


def put(doc: Path, begin: str, end: str, lines: Sequence[str]) -> None:
    """Write lines into a page, in the place of what stands between two marks."""
    before, rest = doc.read_text().split(begin, 1)
    doc.write_text(before + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + rest.split(end, 1)[1])


def counted(returns: list[float]) -> str:
    """Return the interquartile mean, its interval and the number of seeds."""
    return f"{said(returns)} ({len(returns)})"


if __name__ == "__main__":
    raise SystemExit(main())
