"""HalfCheetah-v5, PPO with normalised observations: the fleet beside the local trainer, the same preset and steps.

    python benchmarks/fleet/halfcheetah.py --seed 1

The local trainer has 64 environments in one process; the fleet 2 actor workers with 32 each, on Ray. Shown and
written to halfcheetah.json, beside the other seeds there: mean return of each one's tests over steps, and seconds.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import argosy
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec, Resources
from argosy.logger import read_jsonl
from argosy.presets import preset

HERE = Path(__file__).parent
EPOCH = 30_000
LITTLE = Resources(num_cpus=0.5)


def local(seed, steps):
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as runs:
        changes = {"trainer": {"max_epoch": -(-steps // EPOCH), "step_per_epoch": EPOCH, "checkpoint_epochs": 0}}
        settings = preset("ppo", "HalfCheetah-v5", seed=seed, stop={"episodes": 10}, **changes)
        result = argosy.train(settings, runs=runs, show_progress=False)
        rows = read_jsonl(Path(result.run_dir) / "metrics.jsonl")
    curve = [(row["env_step"], row["test/return_mean"]) for row in rows if "test/return_mean" in row]
    return {"curve": curve, "seconds": time.perf_counter() - begin}


def fleet(seed, steps):
    settings = preset("ppo", "HalfCheetah-v5", seed=seed, trainer={"max_epoch": -(-steps // EPOCH)})
    description = Fleet(
        name="halfcheetah",
        policies={"ppo": PolicySpec(experiment=settings, trainer_resources=Resources(num_cpus=1))},
        agents=(AgentSpec(policy="ppo", sample_steps=32),),
        actors=ActorGroup(count=2, num_envs=32, resources=LITTLE),
        evaluation=EvalGroup(num_envs=5, episodes=10, resources=Resources(num_cpus=0.0)),
        stop=FleetStop(env_steps=steps),
    )
    begin, curve, seen = time.perf_counter(), [], -1
    with tempfile.TemporaryDirectory() as folder, FleetRun(description, Path(folder) / "run") as run:
        for snapshot in run:
            judged = snapshot.evaluations.get("ppo")
            if judged is not None and judged.version != seen:
                seen = judged.version
                curve.append(((seen + 1) * settings.trainer.step_per_collect, judged.return_mean))
    return {"curve": curve, "seconds": time.perf_counter() - begin}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=240_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = {"seed": options.seed, "date": time.strftime("%Y-%m-%d")}
    for name, run in (("fleet", fleet), ("local", local)):
        found[name] = run(options.seed, options.steps)
        print(name, f"{found[name]['seconds']:.0f} s", found[name]["curve"][-3:], flush=True)
    file = HERE / "halfcheetah.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    others = known.get("seeds", []) if known.get("steps") == options.steps else []
    seeds = [one for one in others if one["seed"] != options.seed] + [found]
    file.write_text(json.dumps({"steps": options.steps, "seeds": seeds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
