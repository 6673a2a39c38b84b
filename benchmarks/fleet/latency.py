"""Latency hiding: steps/s against the size of the ring, for an env whose step sleeps and an answer that takes its time.

    python benchmarks/fleet/latency.py            a table, benchmarks/fleet/latency.json and .png

The rule: with k groups the latency l is hidden when l < (k - 1) * s. A round of the ring takes k * s then, else s + l.
"""

import argparse
import json
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from argosy.collect.player import Player, Reply
from argosy.collect.recorder import Recorder, SegmentSpec
from argosy.collect.seats import VectorArena
from argosy.distributed.workers.actor import ActorWorker, Group, Seated
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.policy import QPolicy
from argosy.rng import Rng


class Sleeping(gym.Env):
    """A step takes `seconds` without using the CPU."""

    observation_space = spaces.Box(-1, 1, (4,))
    action_space = spaces.Discrete(2)

    def __init__(self, seconds):
        self.seconds = seconds

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(self.seconds)
        return np.zeros(4, np.float32), 0.0, False, False, {}


class Late:
    """An inference stream whose answers are there `seconds` after the question."""

    def __init__(self, policy, seconds):
        self.policy, self.seconds = policy, seconds

    def post(self, request):
        self.given = Reply(self.policy.rollout(request), 0)
        self.due = time.perf_counter() + self.seconds

    def reply(self, timeout_s):
        left = self.due - time.perf_counter()
        time.sleep(max(0.0, min(left, timeout_s)))
        return self.given if left <= timeout_s else None

    def close(self):
        pass


def speed(step_s, latency_s, ring, seconds):
    policy = QPolicy(Sleeping.observation_space, Sleeping.action_space, NetConfig(hidden_sizes=(8,)))

    def seated(arena):
        seat = arena.seats[0]
        return [
            Seated(Player(seat, policy, Late(policy, latency_s)), Recorder("x", 0, 1, SegmentSpec()), None, None, 0)
        ]

    groups = [
        Group(lambda seed: VectorArena(DummyVectorEnv([lambda: Sleeping(step_s)])), seated, Rng(0)) for _ in range(ring)
    ]
    worker = ActorWorker(groups, [])
    while worker.stats()["steps"] < 3 * ring:
        worker.poll()
    begin, steps = time.perf_counter(), worker.stats()["steps"]
    while time.perf_counter() - begin < seconds:
        worker.poll()
    return (worker.stats()["steps"] - steps) / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    rows = []
    print(f"{'step ms':>8} {'latency ms':>11} {'ring':>5} {'steps/s':>9} {'rule':>9} {'ratio':>6}")
    for step_ms, latency_ms in ((10, 15), (10, 35), (20, 50)):
        for ring in (1, 2, 3, 4, 5, 6):
            s, latency = step_ms / 1000, latency_ms / 1000
            measured = speed(s, latency, ring, options.seconds)
            rule = ring / max(ring * s, s + latency)
            rows.append({"step_s": s, "latency_s": latency, "ring": ring, "steps_per_s": measured, "rule": rule})
            print(f"{step_ms:>8} {latency_ms:>11} {ring:>5} {measured:>9.1f} {rule:>9.1f} {measured / rule:>6.2f}")
    folder = Path(__file__).parent
    (folder / "latency.json").write_text(json.dumps(rows, indent=1) + "\n")
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        return
    for step_ms, latency_ms in ((10, 15), (10, 35), (20, 50)):
        own = [r for r in rows if r["step_s"] == step_ms / 1000 and r["latency_s"] == latency_ms / 1000]
        (line,) = plt.plot([r["ring"] for r in own], [r["rule"] for r in own], "--")
        label = f"step {step_ms} ms, latency {latency_ms} ms"
        plt.plot([r["ring"] for r in own], [r["steps_per_s"] for r in own], "o", color=line.get_color(), label=label)
    plt.xlabel("groups in the ring")
    plt.ylabel("steps per second (dots: measured, dashes: rule)")
    plt.legend()
    plt.savefig(folder / "latency.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
