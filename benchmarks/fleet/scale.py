"""Scale on one machine: actors with sleeping envs (10 ms), a 10 MB policy to 32 readers, memory per worker.

python benchmarks/fleet/scale.py              a table, benchmarks/fleet/scale.json and .png
"""

import argparse
import datetime
import functools
import json
import os
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import psutil
import torch
from gymnasium import spaces

from argosy.collect.player import Inline, Player
from argosy.collect.recorder import Recorder, SegmentSpec
from argosy.collect.seats import VectorArena
from argosy.distributed.host.base import Progress, Resources
from argosy.distributed.host.ray import RayLauncher, ship_module
from argosy.distributed.store.server import ParameterServer
from argosy.distributed.workers.actor import ActorWorker, Group, Seated
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.policy import QPolicy
from argosy.rng import Rng
from argosy.trainer.blob import decode, encode

TINY = Resources(num_cpus=0.01)


class Sleeping(gym.Env):
    observation_space = spaces.Box(-1, 1, (4,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(0.01)
        return np.zeros(4, np.float32), 0.0, False, False, {}


class Member:
    """Plays, or reads each new version of a policy as soon as it hears of it: what it was told last."""

    def __init__(self, context):
        policy = QPolicy(Sleeping.observation_space, Sleeping.action_space, NetConfig(hidden_sizes=(8,)))

        def seated(arena):
            player = Player(arena.seats[0], policy, Inline(policy))
            return [Seated(player, Recorder("x", 0, 1, SegmentSpec()), None, None, 0)]

        self.actor = ActorWorker([Group(lambda seed: VectorArena(DummyVectorEnv([Sleeping])), seated, Rng(0))], [])
        self.store, self.token, self.at, self.asked = context.connect("parameters"), 0, 0.0, None
        self.mode = "rest"

    def turn(self, mode):
        self.mode = mode

    def poll(self):
        if self.mode == "play":
            return self.actor.poll()
        if self.mode == "read":
            self.read()
        return Progress.IDLE

    def read(self):
        if self.asked is None:
            self.asked = self.store.call("newest", "p", self.token)
        if self.asked.done():
            news, self.asked = self.asked.result(), None
            decode(news[2]().result(60))
            self.token, self.at = news[0], time.time()

    def arrived(self):
        return self.token, self.at

    def stats(self):
        return self.actor.stats()

    def close(self):
        self.actor.close()


class Bare:
    """A Ray actor that does nothing: what any worker costs at least."""

    def pid(self):
        return os.getpid()


def grow(launcher, handles, count):
    new = [launcher.start(f"member.{i}", 0, Member, TINY) for i in range(len(handles), count)]
    for handle in new:
        while not handle.beat().result(300).ready:
            time.sleep(0.05)
    return handles + new


def tell(launcher, count, mode):
    for i in range(count):
        launcher.connect(f"member.{i}").call("turn", mode).result(60)


def memory(pids):
    """Mean over processes in MB: PSS (shared pages divided among their users) and USS (what is theirs alone)."""
    infos = [psutil.Process(pid).memory_full_info() for pid in pids]
    return {key: float(np.mean([getattr(info, key) for info in infos])) / 2**20 for key in ("pss", "uss")}


def throughput(launcher, handles, seconds):
    count = len(handles)
    tell(launcher, count, "play")
    steps = lambda: sum(beat.result(60).stats["steps"] for beat in [handle.beat() for handle in handles])  # noqa: E731
    time.sleep(1.0)
    psutil.cpu_percent(None)
    before, begin = steps(), time.perf_counter()
    time.sleep(seconds)
    rate = (steps() - before) / (time.perf_counter() - begin)
    cpu = psutil.cpu_percent(None)
    tell(launcher, count, "rest")
    used = memory([handle.beat().result(60).pid for handle in handles])
    return {"actors": count, "steps_per_s": rate, "cpu_percent": cpu, "mb_pss": used["pss"], "mb_uss": used["uss"]}


def push(launcher, readers, megabytes):
    peer = launcher.connect("parameters")
    tell(launcher, readers, "read")
    times = []
    for version in range(8):
        checkpoint = {"version": version, "state_dict": {"w": torch.randn(megabytes * 2**18)}}
        blob, begin = encode(checkpoint), time.time()
        peer.call("push", "p", blob, version).result(60)
        token = peer.call("newest", "p").result(60)[0]
        arrived = []
        for i in range(readers):
            while (got := launcher.connect(f"member.{i}").call("arrived").result(60))[0] != token:
                time.sleep(0.01)
            arrived.append(got[1] - begin)
        times.append(max(arrived))
    return {"readers": readers, "megabytes": megabytes, "seconds_to_last_median": float(np.median(times[1:]))}


def call_rate(peer, seconds=2.0):
    """Calls per second that one worker answers to one asker, 64 of them under way."""
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for future in [peer.call("arrived") for _ in range(64)]:
            future.result(60)
        calls += 64
    return calls / (time.perf_counter() - begin)


def bare_memory(count=4):
    import ray

    actors = [ray.remote(Bare).options(num_cpus=0.01).remote() for _ in range(count)]
    used = memory([ray.get(actor.pid.remote()) for actor in actors])
    for actor in actors:
        ray.kill(actor)
    return {"mb_pss": used["pss"], "mb_uss": used["uss"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    ship_module(sys.modules["__main__"])
    rows = []
    out = {"date": datetime.date.today().isoformat(), "cores": os.cpu_count(), "throughput": rows}
    with RayLauncher(num_cpus=8, object_store_bytes=2**28, namespace="scale") as launcher:
        out["bare_ray_actor"] = bare_memory()
        print("a bare Ray actor, MB:", out["bare_ray_actor"])
        store = launcher.start("parameters", 0, functools.partial(ParameterServer, directory=None), TINY)
        handles = []
        print(f"{'actors':>7} {'steps/s':>9} {'of linear':>10} {'CPU %':>6} {'MB PSS':>7} {'MB USS':>7}")
        for count in options.actors:
            handles = grow(launcher, handles, count)
            row = throughput(launcher, handles, options.seconds)
            rows.append(row)
            row["of_linear"] = row["steps_per_s"] / count / (rows[0]["steps_per_s"] / rows[0]["actors"])
            print(
                f"{count:>7} {row['steps_per_s']:>9.1f} {row['of_linear']:>10.2f} {row['cpu_percent']:>6.0f} "
                f"{row['mb_pss']:>7.0f} {row['mb_uss']:>7.0f}",
                flush=True,
            )
        out["push"] = push(launcher, len(handles), 10)
        out["calls_per_s"] = call_rate(launcher.connect("member.0"))
        print(out["push"], f"calls/s {out['calls_per_s']:.0f}")
        for handle in [store, *handles]:
            handle.kill()
    folder = Path(__file__).parent
    (folder / "scale.json").write_text(json.dumps(out, indent=1) + "\n")
    plot(rows, folder / "scale.png")


def plot(rows, path):
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        return
    actors = [row["actors"] for row in rows]
    plt.loglog(actors, [row["steps_per_s"] / row["of_linear"] for row in rows], "--", base=2, label="linear")
    plt.loglog(actors, [row["steps_per_s"] for row in rows], "o-", base=2, label="measured")
    for row in rows:
        plt.annotate(f"{row['cpu_percent']:.0f} % CPU", (row["actors"], row["steps_per_s"]), xytext=(4, -12),
                     textcoords="offset points", fontsize=8)  # fmt: skip
    plt.xlabel("actor workers")
    plt.ylabel("steps per second")
    plt.legend()
    plt.savefig(path, dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
