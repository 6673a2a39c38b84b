"""Runs that go on from a checkpoint are the runs that were never left: of every algorithm, pair by pair of settings.

The rows are a covering array: each algorithm meets each memory, buffer and kind of envs, and these meet each other.
What an algorithm refuses by name is left out. New algorithms are in the table, so they are here.
"""

import functools
import itertools
import sys
import traceback

import gymnasium as gym
import numpy as np
from commands import VECTORS, checkpoint
from gymnasium import spaces
from undisturbed import differences

import argosy
from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.errors import ArgosyError
from argosy.policy import RandomPolicy
from argosy.presets import preset
from argosy.trainer.checkpoint import collectors_of, load_checkpoint, save_checkpoint

MEMORIES = {"no memory": {}, "GRU": {"memory": "gru"}, "LSTM": {"memory": "lstm", "burn_in": 2}}
NORMS = {"as they are": {}, "normalised": {"norm_obs": True}}
GOALS, FRAMES, DATA, FILES = "hindsight", "frame stack", "data set", "in files"
SQUARES = "squares"
BUFFERS = {
    "uniform": {},
    "prioritised": {"buffer": {"priority": {"alpha": 0.6, "beta_final": 1.0}}},
    "n-step": {"n_step": 3},
    GOALS: {"buffer": {"hindsight": {"future_k": 2.0, "horizon": 10}}},
    FRAMES: {"buffer": {"stack_num": 4}},
    "successors looked up": {"buffer": {"ignore_obs_next": True}},
    FILES: {"buffer": {"storage_dir": ""}},
    "on a device": {"buffer": {"device": "cpu"}},
    DATA: {"data": ""},
}
FACTORS = (tuple(ALGORITHMS), tuple(MEMORIES), tuple(NORMS), tuple(BUFFERS), VECTORS)
RUN = {"max_epoch": 3, "episode_per_test": 2}
COLLECT = {"step_per_epoch": 48, "step_per_collect": 12}
SIMPLE = tuple(values[0] for values in FACTORS[1:])
TRIES, PART = 6, 20
OFFLINE = {"step_per_epoch": 8, "batch_size": 8}
REPLAY = {"start_steps": 12, "batch_size": 8, "update_per_step": 0.25}


class Point(gym.Env):
    """A point that is pushed around; it is paid for being near the goal.

    Args:
        discrete: pushes have one of four directions, else any.
        form: of the observations: with a goal, as a stack of frames, the number of a square of the plane, or plain.
    """

    def __init__(self, discrete=True, form="", render_mode=None):
        self.form, box = form, spaces.Box(-10, 10, (4, 2) if form == FRAMES else (2,), np.float32)
        goals = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box)
        other = {GOALS: spaces.Dict(goals), SQUARES: spaces.Discrete(25)}
        self.observation_space = other.get(form, box)
        self.action_space = spaces.Discrete(4) if discrete else spaces.Box(-1, 1, (2,), np.float32)

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -np.linalg.norm(achieved_goal - desired_goal, axis=-1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        self.seen, self.length = [self.at] * 4, int(self.np_random.integers(4, 9))
        return self.obs(), {}

    def step(self, action):
        push = np.eye(2)[action % 2] * (action - 1.5) if np.ndim(action) == 0 else action
        self.at = (self.at + 0.1 * push).astype(np.float32)
        self.seen = [*self.seen[1:], self.at]
        self.length -= 1
        return self.obs(), float(self.compute_reward(self.at, self.goal, {})), False, self.length == 0, {}

    def obs(self):
        if self.form == FRAMES:
            return np.stack(self.seen)
        if self.form == SQUARES:
            row, column = np.clip(np.round(2 * self.at) + 2, 0, 4).astype(int)
            return int(5 * row + column)
        goals = {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.goal}
        return goals if self.form == GOALS else self.at


def described(row, folder):
    """Return the experiment of a row.

    Raises:
        ArgosyError: the algorithm refuses it.
    """
    name, memory, norm, buffer, vector = row
    cls = algorithm_class(name)
    discrete = spaces.Discrete in cls.action_spaces
    settings = dict(BUFFERS[buffer])
    if buffer == FILES:
        settings["buffer"] = {"storage_dir": str(folder / "files")}
    if buffer == DATA:
        settings["data"] = str(data_set(discrete, folder))
    loop = OFFLINE if buffer == DATA and cls.kind != "onpolicy" else COLLECT
    if cls.kind == "offpolicy" and buffer != DATA:
        loop = COLLECT | REPLAY
        settings["buffer"] = {"size": 90, **settings.get("buffer", {})}
    plain = SQUARES if spaces.Discrete in cls.observation_spaces else ""
    form = buffer if buffer in (GOALS, FRAMES) else plain
    return preset(
        name,
        Point,
        seed=7,
        env={
            "num_envs": 3,
            "test_num_envs": 2,
            "vector": vector,
            "kwargs": {"discrete": discrete, "form": form},
            "wrappers": ()
            if discrete or spaces.Box in cls.action_spaces
            else ("ContinuousToDiscrete(action_per_dim=3)",),
        },
        net={"hidden_sizes": (8,), "memory_size": 8, "sequence_length": 4, **MEMORIES[memory], **NORMS[norm]},
        trainer={**RUN, **loop},
        stop={"test_return": None},
        **settings,
    )


def data_set(discrete, folder):
    """Write transitions to learn from, once."""
    path = folder / f"data-{discrete}.hdf5"
    if not path.exists():
        env = DummyVectorEnv([functools.partial(Point, discrete)] * 2)
        buffer = VectorReplayBuffer(200, 2, seed=0)
        policy = RandomPolicy(env.single_observation_space, env.single_action_space)
        Collector(policy, env, buffer, seed=0).collect(n_step=150)
        buffer.save_hdf5(path)
    return path


def resumed_equally(row, folder):
    """Whether a run that is left after its first epoch comes to the same as one that is not; says what differs."""
    made = []

    def make():
        made.append(argosy.build(described(row, folder), show_progress=False))
        return made[-1]

    try:
        on, left = make(), folder / "left"
        next(on)
        save_checkpoint(left, on)
        on.run()
        save_checkpoint(folder / "whole", on)
        resumed = make()
        load_checkpoint(left, resumed)
        resumed.run()
        save_checkpoint(folder / "resumed", resumed)
    finally:
        for trainer in made:
            for collector in collectors_of(trainer).values():
                collector.env.close()
    ours, theirs = checkpoint(folder / "resumed"), checkpoint(folder / "whole")
    if ours != theirs:
        print(f"{row}: {differences(ours, theirs)}", file=sys.stderr)
    return ours == theirs


def rows(folder, seed=0):
    """Return rows of the factors, of which each pair of values that is not refused is in one or more.

    Greedily: of random rows with a pair that is left, the one that has most of those, if it can be built.
    """
    rng = np.random.default_rng(seed)
    accepts = functools.cache(lambda row: built((*row[:-1], VECTORS[0]), folder))
    own = {name: accepted(name, accepts) for name in ALGORITHMS}
    left, found = set(), []
    for values in own.values():
        left |= set(itertools.chain.from_iterable(map(pairs, itertools.product(*values))))
    while left:
        pair = min(left)
        candidates = set()
        for values in own.values():
            if all(value in values[factor] for factor, value in pair):
                for _ in range(30):
                    row = [str(rng.choice(some)) for some in values]
                    for factor, value in pair:
                        row[factor] = value
                    candidates.add(tuple(row))
        ranked = sorted(candidates, key=lambda row: (-len(left & pairs(row)), row))
        row = next((row for row in ranked[:TRIES] if accepts(row)), None)
        if row is None:
            left.remove(pair)  # refused
        else:
            left -= pairs(row)
            found.append(row)
    return found


def accepted(name, accepts):
    """Return, factor by factor, the values that an algorithm takes beside the simplest ones of the others."""
    buffer = next(buffer for buffer in BUFFERS if accepts((name, *SIMPLE[:2], buffer, VECTORS[0])))
    simplest = (name, *SIMPLE[:2], buffer, VECTORS[0])
    found = [(name,)]
    for factor, values in enumerate(FACTORS[1:], 1):
        found.append(tuple(v for v in values if accepts((*simplest[:factor], v, *simplest[factor + 1 :]))))
    return found


def pairs(row):
    """The pairs of values that a row covers, each value with the number of its factor."""
    return set(itertools.combinations(enumerate(row), 2))


def built(row, folder):
    """Whether a row can be made, or is refused by name."""
    try:
        trainer = argosy.build(described(row, folder), show_progress=False)
    except ArgosyError:
        return False
    for collector in collectors_of(trainer).values():
        collector.env.close()
    return True


def resumes(count, seed, folder):
    """Leave and resume the runs of `count` rows, from that on which has the number `seed * PART`.

    Returns:
        How many runs were `tried` of how many `rows`, which are of how many `algorithms`; how many ended `different`
        from the run that was not left, and how many raised (`raw`).
    """
    every = rows(folder)
    chosen = (every * 2)[seed * PART % len(every) :][: min(count, len(every))]
    counts = {"tried": len(chosen), "rows": len(every), "algorithms": len(ALGORITHMS), "different": 0, "raw": 0}
    for row in chosen:
        try:
            counts["different"] += not resumed_equally(row, folder)
        except Exception:
            counts["raw"] += 1
            print(row, file=sys.stderr)
            traceback.print_exc(file=sys.stderr)
    return counts
