"""PPO on CartPole-v1 side by side: this fleet, the local trainer, RLlib. Same work, same machine, one after the other.

    benchmarks/peers/setup.sh rllib && python benchmarks/fleet/rllib.py

Each trains with 2 workers of 8 envs, rollouts of 2048 steps, 10 passes of minibatches of 64, MLP 64x64, for `--seconds`
of training or until the mean return of its last 100 training episodes is 475. Starting workers does not count. Shown:
environment steps learned from per second, and seconds until 475.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

HERE = Path(__file__).parent
RLLIB_PYTHON = HERE.parent / "peers" / ".env-rllib" / "bin" / "python"
GOAL = 475.0


def rllib(seconds):
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    model = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=8, rollout_fragment_length=128)
        .training(
            train_batch_size_per_learner=2048, minibatch_size=64, num_epochs=10, lr=3e-4, gamma=0.99, lambda_=0.95,
            clip_param=0.2, vf_clip_param=float("inf"), vf_loss_coeff=0.5, grad_clip=0.5, use_kl_loss=False,
        )
        .rl_module(model_config=model)
        .debugging(seed=1)
    )  # fmt: skip
    algo = config.build_algo()
    begin, steps, solved = time.perf_counter(), 0, None
    while time.perf_counter() - begin < seconds and solved is None:
        result = algo.train()
        steps = int(result["num_env_steps_sampled_lifetime"])
        if result["env_runners"].get("episode_return_mean", 0.0) >= GOAL:
            solved = time.perf_counter() - begin
    wall = time.perf_counter() - begin
    algo.stop()
    ray.shutdown()
    return {"steps_per_s": steps / wall, "seconds_to_475": solved, "env_steps": steps}


def experiment():
    from argosy.presets import preset

    return preset("ppo", "CartPole-v1", seed=1, env={"num_envs": 8})


def fleet(seconds):
    from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
    from argosy.distributed.rayhost import RayLauncher

    description = Fleet(
        name="bench",
        policies={"p": PolicySpec(experiment=experiment())},
        agents=(AgentSpec(policy="p", sample_steps=128),),
        actors=ActorGroup(count=2),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(wall_s=10 * seconds + 300),
    )
    begin = first = solved = None
    with (
        tempfile.TemporaryDirectory() as folder,
        RayLauncher(num_cpus=4) as launcher,
        FleetRun(description, Path(folder) / "run", launcher, interval_s=0.1) as run,
    ):
        for snapshot in run:
            trainer = snapshot.workers["trainer.p.0"]
            steps = snapshot.env_steps["p"]
            if begin is None and steps > 0:
                begin, first = time.perf_counter(), steps
            if begin is None:
                continue
            wall = time.perf_counter() - begin
            if trainer.get("return_mean", 0.0) >= GOAL:
                solved = wall
            if solved is not None or wall > seconds:
                break
    return {"steps_per_s": (steps - first) / wall, "seconds_to_475": solved, "env_steps": steps}


def local(seconds):
    from argosy.trainer.base import EpochRecord
    from argosy.trainer.local import build

    trainer = build(experiment())
    returns = deque(maxlen=100)
    begin, solved = time.perf_counter(), None
    while time.perf_counter() - begin < seconds and solved is None:
        epoch = EpochRecord(1)
        trainer._training_step(epoch)
        returns.extend(epoch.collected[-1].returns.tolist())
        if len(returns) == 100 and sum(returns) / 100 >= GOAL:
            solved = time.perf_counter() - begin
    steps, wall = trainer.state.env_step, time.perf_counter() - begin
    return {"steps_per_s": steps / wall, "seconds_to_475": solved, "env_steps": steps}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--only", choices=("rllib", "fleet", "local"), help="run one, print its line of JSON")
    parser.add_argument("--rllib-python", default=str(RLLIB_PYTHON))
    options = parser.parse_args()
    if options.only:
        print(json.dumps(globals()[options.only](options.seconds)))
        return
    rows = {}
    for name in ("local", "fleet", "rllib"):
        python = options.rllib_python if name == "rllib" else sys.executable
        command = [python, __file__, "--only", name, "--seconds", str(options.seconds)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        if done.returncode:
            print(f"{name}: failed\n{done.stderr[-2000:]}")
            continue
        rows[name] = json.loads(done.stdout.splitlines()[-1]) | {"load": os.getloadavg()[0]}
        print(name, rows[name], flush=True)
    (HERE / "rllib.json").write_text(json.dumps(rows, indent=1) + "\n")
    if {"fleet", "rllib", "local"} <= rows.keys():
        ours = rows["fleet"]["steps_per_s"]
        print(f"fleet / RLlib {ours / rows['rllib']['steps_per_s']:.2f}")
        print(f"fleet / local {ours / rows['local']['steps_per_s']:.2f}")


if __name__ == "__main__":
    main()
