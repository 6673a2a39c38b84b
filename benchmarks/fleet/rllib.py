"""PPO side by side: the local trainer, this fleet, RLlib. Same work, same machine, in one run, in turn, several times.

    benchmarks/peers/setup.sh rllib
    python benchmarks/fleet/rllib.py cartpole
    python benchmarks/fleet/rllib.py pong

CartPole-v1: fleet and RLlib have 2 workers of 8 envs, the local trainer 8 envs; rollouts of 2048 steps, 10 passes of
minibatches of 64, MLPs 64x64. Pong: the same numbers of envs, rollouts of 1024 steps, 4 passes of minibatches of 256,
the CNN of Mnih et al. (2015) on 4 frames of 84x84, no EnvPool on any side; the fleet's actor workers run in the
background of its trainer, whose two threads stay on a core each. Each trains for `--seconds`, CartPole also until its
mean return was 475. The clock runs from the end of the first update to the end of a later one: neither the start of
workers nor half an update counts.

Shown: environment steps learned from per second, the ratios within each round and their medians, and seconds until
the mean return of the last 100 training episodes (with exploration) was 475. RLlib's own mean is of fewer episodes, so
its episodes are collected one by one here.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

HERE = Path(__file__).parent
RLLIB_PYTHON = HERE.parent / "peers" / ".env-rllib" / "bin" / "python"
GOAL = 475.0


class Clock:
    """Notes steps learned from and the first time at which the goal was reached, from the first update's end on."""

    def __init__(self, task, seconds, limit):
        self.seconds, self.limit = seconds, limit
        self.begin = self.first = self.solved = None
        self.solvable = task == "cartpole"

    def over(self, steps, return_mean):
        """Call at the end of each update."""
        if self.begin is None:
            self.begin, self.first = time.perf_counter(), steps
        self.steps, self.wall = steps, time.perf_counter() - self.begin
        if self.solved is None and self.solvable and return_mean >= GOAL:
            self.solved = self.wall
        return self.wall >= self.limit or (self.wall >= self.seconds and (self.solved or not self.solvable))

    def row(self):
        rate = (self.steps - self.first) / self.wall
        return {"steps_per_s": rate, "seconds_to_475": self.solved, "env_steps": self.steps, "seconds": self.wall}


def mean(returns):
    return sum(returns) / len(returns) if returns else float("nan")


def rllib_pong(config):
    import ale_py
    import gymnasium as gym
    import numpy as np

    gym.register_envs(ale_py)
    env = gym.make("PongNoFrameskip-v4")
    env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, scale_obs=True)
    env = gym.wrappers.FrameStackObservation(env, 4)
    space = gym.spaces.Box(0.0, 1.0, (84, 84, 4), np.float32)
    return gym.wrappers.TransformObservation(env, lambda obs: np.moveaxis(obs, 0, -1), space)


def note_return(*, episode, metrics_logger, **_):
    metrics_logger.log_value("returns", episode.get_return(), reduce="item_series")


def rllib(task, clock):
    import numpy as np
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.tune import register_env

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    register_env("pong", rllib_pong)
    config = PPOConfig().debugging(seed=1).callbacks(on_episode_end=note_return)
    if task == "cartpole":
        model = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
        config.environment("CartPole-v1")
        sizes = {"train_batch_size_per_learner": 2048, "minibatch_size": 64, "num_epochs": 10, "lr": 3e-4}
        fragment = 128
        config.training(clip_param=0.2, gamma=0.99)
    else:
        filters = [[32, 8, 4, "valid"], [64, 4, 2, "valid"], [64, 3, 1, "valid"]]
        model = DefaultModelConfig(
            conv_filters=filters, conv_activation="relu", head_fcnet_hiddens=[512], vf_share_layers=True
        )
        config.environment("pong")
        sizes = {"train_batch_size_per_learner": 1024, "minibatch_size": 256, "num_epochs": 4, "lr": 2.5e-4}
        fragment = 64
        config.training(clip_param=0.1, gamma=0.99, entropy_coeff=0.01)
    config.env_runners(num_env_runners=2, num_envs_per_env_runner=8, rollout_fragment_length=fragment)
    config.training(**sizes, lambda_=0.95, vf_clip_param=float("inf"), vf_loss_coeff=0.5, grad_clip=0.5)
    config.training(use_kl_loss=False)
    algo = config.rl_module(model_config=model).build_algo()
    returns = deque(maxlen=100)
    over = False
    while not over:
        result = algo.train()
        returns.extend(np.atleast_1d(result["env_runners"].get("returns", [])))
        over = clock.over(int(result["num_env_steps_sampled_lifetime"]), mean(returns))
    algo.stop()
    ray.shutdown()


def experiment(task):
    from argosy.presets import preset

    if task == "cartpole":
        return preset("ppo", "CartPole-v1", seed=1, env={"num_envs": 8})
    trainer = {"step_per_collect": 1024}
    return preset("ppo", "PongNoFrameskip-v4", seed=1, env={"num_envs": 8, "vector": "dummy"}, trainer=trainer)


def fleet(task, clock):
    from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec, Resources
    from argosy.distributed.host.ray import RayLauncher

    described = experiment(task)
    learner = Resources(num_cpus=2.0, env={"OMP_PROC_BIND": "true"}) if task == "pong" else Resources()
    description = Fleet(
        name="bench",
        policies={"p": PolicySpec(experiment=described, trainer_resources=learner)},
        agents=(AgentSpec(policy="p", sample_steps=described.trainer.step_per_collect // 16),),
        actors=ActorGroup(count=2, resources=Resources(background=task == "pong")),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(wall_s=10 * clock.limit + 300),
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        RayLauncher(num_cpus=4) as launcher,
        FleetRun(description, Path(folder) / "run", launcher, interval_s=0.25) as run,
    ):
        updates = 0
        for snapshot in run:
            if snapshot.updates["p"] == updates:
                continue
            updates = snapshot.updates["p"]
            steps = updates * described.trainer.step_per_collect
            if clock.over(steps, snapshot.workers["trainer.p.0"]["return_mean"]):
                break


def local(task, clock):
    from argosy.process import tune_process
    from argosy.run.build import build
    from argosy.trainer.base import EpochRecord

    tune_process()  # as in a run
    trainer = build(experiment(task))
    returns = deque(maxlen=100)
    over = False
    while not over:
        epoch = EpochRecord(1)
        trainer._training_step(epoch)
        returns.extend(epoch.collected[-1].returns.tolist())
        over = clock.over(trainer.state.env_step, mean(returns))


def measure(options):
    """-> side -> its row, of one round."""
    rows = {}
    for name in ("local", "fleet", "rllib"):
        python = options.rllib_python if name == "rllib" else sys.executable
        command = [python, __file__, options.task, "--only", name]
        command += ["--seconds", str(options.seconds), "--limit", str(options.limit)]
        # Small networks are fastest on one thread. The CNN may take what it finds, except in the fleet, whose
        # trainer has the CPUs that it asks for.
        threads = {"OMP_NUM_THREADS": "1"} if options.task == "cartpole" else {}
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads}, check=False)
        if done.returncode:
            sys.exit(f"{name}: failed\n{done.stderr[-2000:]}")
        rows[name] = json.loads(done.stdout.splitlines()[-1])
        print(name, {key: value and round(value, 1) for key, value in rows[name].items()}, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=("cartpole", "pong"))
    parser.add_argument("--repeats", type=int, default=5, help="rounds of the three sides")
    parser.add_argument("--seconds", type=float, default=30.0, help="least time of training")
    parser.add_argument("--limit", type=float, default=120.0, help="most time, to reach 475")
    parser.add_argument("--only", choices=("local", "fleet", "rllib"), help="run one, print its line of JSON")
    parser.add_argument("--rllib-python", default=str(RLLIB_PYTHON))
    options = parser.parse_args()
    if options.only:
        clock = Clock(options.task, options.seconds, options.limit)
        globals()[options.only](options.task, clock)
        print(json.dumps(clock.row()))
        return
    rounds = [measure(options) for _ in range(options.repeats)]
    result = {"date": datetime.date.today().isoformat(), "cores": os.cpu_count(), "rounds": rounds}
    for other in ("rllib", "local"):
        ratios = [row["fleet"]["steps_per_s"] / row[other]["steps_per_s"] for row in rounds]
        result[f"fleet / {other}"] = statistics.median(ratios)
        print(f"fleet / {other}: {statistics.median(ratios):.2f} of", ", ".join(f"{ratio:.2f}" for ratio in ratios))
    path = HERE / "rllib.json"
    results = json.loads(path.read_text()) if path.is_file() else {}
    results[options.task] = result
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
