"""Scale on one machine: actors with sleeping envs (10 ms), a 10 MB policy to 32 readers, memory per worker.

python benchmarks/fleet/scale.py              a table and benchmarks/fleet/scale.json
"""

import argparse
import functools
import json
import os
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import psutil
import torch
from gymnasium import spaces

from argosy.distributed.actor import ActorWorker, Group, Seated
from argosy.distributed.arena import VectorArena
from argosy.distributed.fleet import AgentSpec
from argosy.distributed.host import Progress, Resources
from argosy.distributed.inference import Inline
from argosy.distributed.parameters import decode, encode
from argosy.distributed.parameterserver import ParameterServer
from argosy.distributed.player import Player
from argosy.distributed.rayhost import RayLauncher, ship_module
from argosy.distributed.recorder import Recorder
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.policy import QPolicy
from argosy.rng import Rng

TINY = Resources(num_cpus=0.01)


class Sleeping(gym.Env):
    observation_space = spaces.Box(-1, 1, (4,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(0.01)
        return np.zeros(4, np.float32), 0.0, False, False, {}


def actor(context):
    policy = QPolicy(Sleeping.observation_space, Sleeping.action_space, NetConfig(hidden_sizes=(8,)))

    def seated(arena, rng):
        seat = arena.seats[0]
        return [
            Seated(AgentSpec(policy="p"), Player(seat, policy, Inline(policy)), Recorder("x", 0, 1, 32), None, None, 0)
        ]

    return ActorWorker([Group(lambda seed: VectorArena(DummyVectorEnv([Sleeping])), seated, Rng(0))], {}, [])


class Reader:
    """Fetches each new version as soon as it hears of it."""

    def __init__(self, context):
        self.store, self.token, self.at, self.asked = context.connect("parameters"), 0, 0.0, None

    def poll(self):
        if self.asked is None:
            self.asked = self.store.call("newest", "p", self.token)
        if not self.asked.done():
            return Progress.IDLE
        news, self.asked = self.asked.result(), None
        decode(news[2]())
        self.token, self.at = news[0], time.time()
        return Progress.IDLE

    def stats(self):
        return {"token": float(self.token), "at": self.at}

    def arrived(self):
        return self.token, self.at

    def close(self):
        pass


def started(launcher, count, build, prefix):
    handles = [launcher.start(f"{prefix}.{i}", 0, build, TINY) for i in range(count)]
    for handle in handles:
        while not handle.beat().result(300).ready:
            time.sleep(0.05)
    return handles


def throughput(launcher, count, seconds):
    handles = started(launcher, count, actor, f"actor{count}")
    steps = lambda: sum(handle.beat().result(60).stats["steps"] for handle in handles)  # noqa: E731
    time.sleep(1.0)
    cpu = psutil.cpu_percent(None)
    before, begin = steps(), time.perf_counter()
    time.sleep(seconds)
    rate = (steps() - before) / (time.perf_counter() - begin)
    cpu = psutil.cpu_percent(None)
    memory = [psutil.Process(handle.beat().result(60).pid).memory_full_info().uss for handle in handles]
    for handle in handles:
        handle.kill()
    return {"actors": count, "steps_per_s": rate, "cpu_percent": cpu, "memory_mb_mean": float(np.mean(memory)) / 2**20}


def push(launcher, readers, megabytes):
    store = launcher.start("parameters", 0, functools.partial(ParameterServer, directory=None), TINY)
    handles = started(launcher, readers, Reader, "reader")
    peer = launcher.connect("parameters")
    times = []
    for version in range(6):
        checkpoint = {"version": version, "state_dict": {"w": torch.randn(megabytes * 2**18)}}
        blob, begin = encode(checkpoint), time.time()
        peer.call("push", "p", blob, version).result(60)
        token = peer.call("newest", "p").result(60)[0]
        arrived = []
        for i in range(readers):
            while (got := launcher.connect(f"reader.{i}").call("arrived").result(60))[0] != token:
                time.sleep(0.01)
            arrived.append(got[1] - begin)
        times.append(max(arrived))
    for handle in [store, *handles]:
        handle.kill()
    return {"readers": readers, "megabytes": megabytes, "seconds_to_last_median": float(np.median(times))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--readers", type=int, default=32)
    options = parser.parse_args()
    import sys

    ship_module(sys.modules["__main__"])
    out = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0], "throughput": []}
    with RayLauncher(num_cpus=8, object_store_bytes=2**28, namespace="scale") as launcher:
        print(f"{'actors':>7} {'steps/s':>9} {'of linear':>10} {'CPU %':>6} {'MB each':>8}")
        for count in options.actors:
            row = throughput(launcher, count, options.seconds)
            out["throughput"].append(row)
            linear = row["steps_per_s"] / (count * out["throughput"][0]["steps_per_s"] / options.actors[0])
            print(
                f"{count:>7} {row['steps_per_s']:>9.1f} {linear:>10.2f} {row['cpu_percent']:>6.0f} "
                f"{row['memory_mb_mean']:>8.0f}",
                flush=True,
            )
        out["push"] = push(launcher, options.readers, 10)
        print(out["push"])
    (Path(__file__).parent / "scale.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
