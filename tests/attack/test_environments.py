"""Faulty environments in every kind of vector env: a named error, or taken by a rule that is declared here."""

import math
import os
import sys
import time
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import argosy
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv, RayVectorEnv, ShmemVectorEnv, SubprocVectorEnv
from argosy.env.worker.ray import cores_of_each
from argosy.errors import ArgosyError
from argosy.policy import RandomPolicy

BAD_STEP = 5
HANG_TIMEOUT_S = 2.0
AT_ONCE = {"ray": 4}
"""Actors are processes that are slow to start: several combinations side by side, in threads."""


def in_actors(fns):
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # each actor would import all that this file does
    return RayVectorEnv(fns, hang_timeout_s=20.0, envs_per_worker=len(fns), num_cpus=0)


KINDS = {
    "dummy": DummyVectorEnv,
    "shmem": lambda fns: ShmemVectorEnv(fns, hang_timeout_s=HANG_TIMEOUT_S, envs_per_worker=1),
    "subproc": lambda fns: SubprocVectorEnv(fns, hang_timeout_s=HANG_TIMEOUT_S, envs_per_worker=1),
    "ray": in_actors,
}


class Good(gym.Env):
    """Episodes of 20 steps; the second of two envs turns bad in its fifth step (`at`), or in its second reset."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)
    steps = resets = t = 0

    def obs(self):
        return np.full(3, 0.1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.resets = 0, self.resets + 1
        return self.at_reset(self.obs(), {}) if self.resets > 1 else (self.obs(), {})

    def at_reset(self, obs, info):
        return obs, info

    def step(self, action):
        self.t, self.steps = self.t + 1, self.steps + 1
        result = self.obs(), 1.0, False, self.t >= 20, {}
        return result if self.steps < BAD_STEP else self.at_step(*result)

    def at_step(self, obs, rew, terminated, truncated, info):
        return obs, rew, terminated, truncated, info


def raising(error):
    def raises(*args, **kwargs):
        raise error

    return raises


def giving(index, value):
    """An env whose steps give something else at a place of the five."""

    def at_step(self, *result):
        made = value(self) if isinstance(value, types.FunctionType) else value
        return (*result[:index], made, *result[index + 1 :])

    return {"at_step": at_step}


def seeing(space, good, bad):
    return {"observation_space": space, "obs": lambda self: good, **giving(0, lambda self: bad)}


def masked(size, mask, **more):
    parts = {"x": spaces.Box(-1, 1, (2,), np.float32), "action_mask": spaces.Box(0, 1, (size,), np.int8)}
    return seeing(spaces.Dict(parts), mask_obs([1] * size), mask_obs(mask)) | more


def mask_obs(mask):
    return {"x": np.zeros(2, np.float32), "action_mask": np.asarray(mask, np.int8)}


def generator(self, *result):
    yield from result


def dict_obs(**parts):
    return {"a": np.zeros(2, np.float32), "b": 1} | parts


class Odd:
    """Neither a number nor an array."""


class Mute(Exception):
    """It says nothing, whoever asks."""

    def __str__(self):
        raise ValueError("of the text")

    __repr__ = __array__ = __str__


NESTED = spaces.Dict({"a": spaces.Box(-1, 1, (2,), np.float32), "b": spaces.Discrete(3)})
TUPLE = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)])
PIXELS = spaces.Box(0, 255, (3,), np.uint8)

REFUSED = {
    "obs_nan": giving(0, lambda self: np.array([0, math.nan, 0], np.float32)),
    "obs_inf": giving(0, lambda self: np.array([0, -math.inf, 0], np.float32)),
    "obs_overflows_float32": giving(0, lambda self: np.full(3, 1e300)),
    "obs_too_long": giving(0, lambda self: np.zeros(4, np.float32)),
    "obs_would_be_spread": giving(0, lambda self: np.zeros(1, np.float32)),
    "obs_scalar": giving(0, 0.5),
    "obs_column": giving(0, lambda self: np.zeros((3, 1), np.float32)),
    "obs_row": giving(0, lambda self: np.zeros((1, 3), np.float32)),
    "obs_objects": giving(0, lambda self: np.array([None, 1, 2], object)),
    "obs_text": giving(0, lambda self: np.array(["1", "2", "3"])),
    "obs_complex": giving(0, lambda self: np.full(3, 1j)),
    "obs_none": giving(0, None),
    "obs_dict": giving(0, lambda self: {"x": self.obs()}),
    "obs_ragged": giving(0, lambda self: [[0.0], 0.0, 0.0]),
    "obs_object": giving(0, lambda self: Odd()),
    "obs_cannot_be_shown": giving(0, lambda self: Mute()),
    "obs_huge": giving(0, lambda self: np.zeros(30_000_000, np.float32)),
    "obs_empty": giving(0, lambda self: np.zeros(0, np.float32)),
    "pixels_wrap": seeing(PIXELS, np.array([1, 2, 3], np.uint8), np.array([300, -5, 256])),
    "pixels_of_floats": seeing(PIXELS, np.array([1, 2, 3], np.uint8), np.array([0.5, 0.2, 0.1])),
    "int8_wraps": seeing(spaces.Box(-9, 9, (3,), np.int8), np.zeros(3, np.int8), np.array([300, 0, 0])),
    "int8_wraps_at_first": {"observation_space": spaces.Box(-100, 100, (2,), np.int8), "obs": lambda self: [300, 0]},
    "int32_wraps": seeing(spaces.Box(-9, 9, (2,), np.int32), np.zeros(2, np.int32), np.array([2**40, 0])),
    "choice_too_high": seeing(spaces.Discrete(4), 1, 9),
    "choice_negative": seeing(spaces.Discrete(4), 1, -1),
    "choice_before_start": seeing(spaces.Discrete(4, start=5), 6, 4),
    "choice_of_text": seeing(spaces.Discrete(4), 1, "2"),
    "choice_of_float": seeing(spaces.Discrete(4), 1, 2.7),
    "choice_beyond_int64": seeing(spaces.Discrete(4), 1, 2**70),
    "choice_none": seeing(spaces.Discrete(4), 1, None),
    "choices_out_of_range": seeing(spaces.MultiDiscrete([2, 3]), np.array([1, 2]), np.array([1, 3])),
    "choices_negative": seeing(spaces.MultiDiscrete([2, 3]), np.array([1, 2]), np.array([-1, 2])),
    "bits_out_of_range": seeing(spaces.MultiBinary(3), np.zeros(3, np.int8), np.array([0, 2, 0], np.int8)),
    "nested_choice_out_of_range": seeing(NESTED, dict_obs(), dict_obs(b=7)),
    "nested_nan": seeing(NESTED, dict_obs(), dict_obs(a=np.array([0, math.nan], np.float32))),
    "nested_part_missing": seeing(NESTED, dict_obs(), {"a": np.zeros(2, np.float32)}),
    "nested_part_of_wrong_shape": seeing(NESTED, dict_obs(), dict_obs(a=np.zeros(1, np.float32))),
    "nested_part_of_text": seeing(NESTED, dict_obs(), dict_obs(b="1")),
    "tuple_choice_out_of_range": seeing(TUPLE, (1, np.zeros(2, np.float32)), (3, np.zeros(2, np.float32))),
    "tuple_too_short": seeing(TUPLE, (1, np.zeros(2, np.float32)), (1,)),
    "rew_nan": giving(1, math.nan),
    "rew_inf": giving(1, math.inf),
    "rew_overflows_float32": giving(1, 1e300),
    "rew_text": giving(1, "1.0"),
    "rew_numpy_text": giving(1, lambda self: np.array("1.0")),
    "rew_bytes": giving(1, b"1"),
    "rew_none": giving(1, None),
    "rew_complex": giving(1, 1 + 2j),
    "rew_numpy_complex": giving(1, lambda self: np.complex64(1 + 2j)),
    "rew_of_one_element": giving(1, lambda self: np.array([1.0])),
    "rew_empty": giving(1, lambda self: np.zeros(0)),
    "rew_learned": giving(1, lambda self: torch.ones((), requires_grad=True)),
    "rew_cannot_be_shown": giving(1, lambda self: Mute()),
    "rew_object": giving(1, lambda self: Odd()),
    "rew_list_of_text": giving(1, lambda self: ["1", "2"]),
    "rew_huge_int": giving(1, lambda self: 10**400),
    "terminated_int": giving(2, 1),
    "terminated_text": giving(2, "False"),
    "terminated_none": giving(2, None),
    "terminated_nan": giving(2, math.nan),
    "terminated_array": giving(2, lambda self: np.array([True])),
    "terminated_cannot_be_shown": giving(2, lambda self: Mute()),
    "terminated_two": giving(2, lambda self: np.array([True, False])),
    "truncated_float": giving(3, 0.0),
    "truncated_numpy_int": giving(3, lambda self: np.int64(0)),
    "truncated_text": giving(3, ""),
    "truncated_object": giving(3, lambda self: Odd()),
    "info_none": giving(4, None),
    "info_list": giving(4, lambda self: [1, 2]),
    "info_text": giving(4, "fine"),
    "three_values": {"at_step": lambda self, *result: result[:3]},
    "four_values": {"at_step": lambda self, *result: (*result[:3], {})},
    "six_values": {"at_step": lambda self, *result: (*result, {})},
    "a_list": {"at_step": lambda self, *result: list(result)},
    "a_generator": {"at_step": generator},
    "nothing": {"at_step": lambda self, *result: None},
    "step_raises": {"at_step": raising(ZeroDivisionError("x"))},
    "step_raises_assertion": {"at_step": raising(AssertionError())},
    "step_stops_iteration": {"at_step": raising(StopIteration())},
    "step_raises_memory_error": {"at_step": raising(MemoryError("no memory"))},
    "step_raises_what_cannot_be_shown": {"at_step": raising(Mute())},
    "step_exits": {"at_step": raising(SystemExit(4))},
    "step_recurses": {"at_step": lambda self, *result: self.at_step(*result)},
    "step_takes_no_action": {"step": lambda self: None},
    "reset_raises": {"at_reset": raising(ValueError("boom"))},
    "reset_raises_what_cannot_be_shown": {"at_reset": raising(Mute())},
    "reset_exits": {"at_reset": raising(SystemExit(4))},
    "reset_returns_one": {"at_reset": lambda self, obs, info: obs},
    "reset_returns_three": {"at_reset": lambda self, obs, info: (obs, info, 1)},
    "reset_info_none": {"at_reset": lambda self, obs, info: (obs, None)},
    "reset_obs_nan": {"at_reset": lambda self, obs, info: (obs * math.nan, info)},
    "reset_obs_shape": {"at_reset": lambda self, obs, info: (obs[:1], info)},
    "reset_obs_text": {"at_reset": lambda self, obs, info: (obs.astype(str), info)},
    "reset_takes_no_seed": {"reset": lambda self: (self.obs(), {})},
    "mask_of_wrong_length": masked(5, np.ones(5)),
    "mask_allows_nothing": masked(2, [0, 0]),
    "mask_allows_nothing_at_first": masked(2, [0, 0], obs=lambda self: mask_obs([0, 0])),
    "mask_of_a_part_allows_nothing": masked(5, [1, 1, 0, 0, 0], action_space=spaces.MultiDiscrete([2, 3])),
    "constructor_raises": {"__init__": raising(OSError("no such game"))},
    "constructor_raises_what_cannot_be_shown": {"__init__": raising(Mute())},
    "constructor_exits": {"__init__": raising(SystemExit(1))},
    "is_no_env": {"__new__": lambda cls: "an env"},
    "space_of_no_elements": {"observation_space": spaces.Box(-1, 1, (0,), np.float32)},
    "action_of_no_elements": {"action_space": spaces.Box(-1, 1, (0, 2), np.float32)},
    "part_of_no_elements": {"observation_space": spaces.Dict({"a": spaces.Box(-1, 1, (0,))})},
    "dict_of_nothing": {"observation_space": spaces.Dict({}), "obs": lambda self: {}},
    "no_observation_space": {"observation_space": None},
    "space_is_no_space": {"observation_space": (3,)},
    "space_raises": {"observation_space": property(raising(RuntimeError("later")))},
    "no_action_space": {"action_space": None},
    "space_lies_about_shape": {"observation_space": spaces.Box(-1, 1, (4,), np.float32)},
    "space_lies_about_dtype": {"observation_space": spaces.Box(0, 255, (3,), np.uint8)},
    "space_lies_about_bounds": {"observation_space": spaces.Box(5, 6, (3,), np.float32)},
    "space_lies_about_kind": {"observation_space": spaces.Discrete(3)},
    "space_of_objects_lies": {"observation_space": spaces.Text(5)},
}  # fmt: skip
PROCESS_ONLY = {
    "process_exits": {"at_step": lambda self, *result: os._exit(3)},
    "process_is_killed": {"at_step": lambda self, *result: os.kill(os.getpid(), 9)},
    "process_is_killed_at_a_reset": {"at_reset": lambda self, *result: os.kill(os.getpid(), 9)},
    "hangs": {"at_step": lambda self, *result: time.sleep(1000)},
    "hangs_at_a_reset": {"at_reset": lambda self, *result: time.sleep(1000)},
    "info_cannot_travel": giving(4, lambda self: {"file": (one for one in "x")}),
}
"""In this process they end or stop the process, or need not travel."""

ACCEPTED = {
    "good": {},
    "obs_of_float64": giving(0, lambda self: np.zeros(3)),
    "obs_of_ints_for_floats": giving(0, lambda self: np.zeros(3, np.int64)),
    "obs_a_list": giving(0, lambda self: [0.0, 0.0, 0.0]),
    "obs_a_tensor": giving(0, lambda self: torch.zeros(3)),
    "obs_beyond_its_bounds": giving(0, lambda self: np.full(3, 50, np.float32)),
    "obs_written_in_place": {"obs": lambda self: vars(self).setdefault("kept", np.zeros(3, np.float32))},
    "choice_a_numpy_int": seeing(spaces.Discrete(4), 1, np.int32(3)),
    "bits_of_bools": seeing(spaces.MultiBinary(3), np.zeros(3, np.int8), np.array([True, False, True])),
    "int8_of_int64": seeing(spaces.Box(-9, 9, (3,), np.int8), np.zeros(3, np.int8), np.array([9, 0, -9])),
    "part_too_many": seeing(NESTED, dict_obs(), dict_obs(c=5)),
    "rew_an_int": giving(1, 3),
    "rew_a_bool": giving(1, True),
    "rew_a_numpy_number": giving(1, lambda self: np.float32(0.5)),
    "rew_a_scalar_array": giving(1, lambda self: np.array(0.5)),
    "flags_of_numpy": giving(2, lambda self: np.bool_(False)),
    "both_flags": giving(2, True),
    "never_ends": giving(3, False),
    "mask_allows_nothing_at_the_end": masked(2, [1, 1])
    | {"at_step": lambda self, *result: (mask_obs([0, 0]), 1.0, True, False, {})},
    "info_large": giving(4, lambda self: {"x": np.zeros(100_000)}),
    "close_raises": {"close": raising(RuntimeError("boom"))},
    "one_action": {"action_space": spaces.Discrete(1)},
}  # fmt: skip
"""By rule: numbers are converted where none is lost; Boxes are not held to their bounds; entries that no space names
are left out; an env may end as it likes."""


def env_class(members):
    return type("Faulty", (Good,), dict(members))


def outcome(kind, members):
    """Collect from two envs, the second of them faulty; return how that ended, and the error or what was collected."""
    fns = [Good if _spaces_are_good(members) else env_class(_tame(members)), env_class(members)]
    env = None
    try:
        env = KINDS[kind](fns)
        buffer = VectorReplayBuffer(400, 2)
        collector = Collector(RandomPolicy(env.single_observation_space, env.single_action_space), env, buffer, seed=1)
        collector.collect(n_step=100)
    except ArgosyError as error:
        return "refused", error
    except Exception as error:
        return "raw", error
    finally:
        if env is not None:
            env.close()
    return "accepted", buffer


def _spaces_are_good(members):
    return not {"observation_space", "action_space", "obs"} & members.keys()


def _tame(members):
    """The same env without the fault of its steps, where the fault is not of the spaces themselves."""
    return {key: value for key, value in members.items() if key not in ("at_step", "at_reset")}


def combinations(kinds):
    """Every (kind, name, whether it is to be refused, members)."""
    for kind in kinds:
        for name, members in REFUSED.items():
            yield kind, name, True, members
        for name, members in PROCESS_ONLY.items() if kind != "dummy" else ():
            yield kind, name, True, members
        for name, members in ACCEPTED.items():
            yield kind, name, False, members


def faulty_environments(count, seed, folder=None, kinds=("dummy", "shmem", "subproc")):
    """Try `count` of the combinations, drawn at random (all of them where there are no more); return counts.

    `raw` are errors without a name of ours, `silent` what was taken though no rule declares it, or refused though one
    does; both are told on stderr.
    """
    every = list(combinations(kinds))
    chosen = np.random.default_rng(seed).permutation(len(every))[:count]
    counts = {"tried": len(chosen), "refused": 0, "accepted": 0, "raw": 0, "silent": 0}
    if "ray" in kinds:
        cores_of_each(1, 0)  # starts Ray, once for all of them
    at_once = max(AT_ONCE.get(kind, 1) for kind in kinds)
    with warnings.catch_warnings(), ThreadPoolExecutor(at_once) as pool:
        warnings.simplefilter("ignore")
        tries = (map if at_once == 1 else pool.map)(lambda at: (every[at], outcome(*every[at][::3])), chosen)
        for (kind, name, is_fault, _), (how, what) in tries:
            if how != "raw" and is_fault != (how == "refused"):
                how = "silent"
            counts[how] += 1
            if how in ("raw", "silent"):
                print(f"{kind} {name}: {how}, {what!r:.300}", file=sys.stderr)
    return counts


def all_are_as_declared(counts):
    return counts["refused"] + counts["accepted"] == counts["tried"] > 0


@pytest.mark.parametrize(("kind", "count"), [("dummy", 10_000), ("shmem", 8)])
def test_a_share_of_faulty_environments(kind, count):
    assert all_are_as_declared(faulty_environments(count, 0, kinds=(kind,)))


@pytest.mark.slow
@pytest.mark.timeout(1200)  # each env that Ray runs begins with a process
@pytest.mark.parametrize("kind", KINDS)
def test_all_faulty_environments(kind):
    assert all_are_as_declared(faulty_environments(10_000, 0, kinds=(kind,)))


def said(members):
    """The errors that the checker finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [str(found) for found in argosy.env.check_env(env_class(members), steps=60) if found.level == "error"]


@pytest.mark.slow
def test_the_checker_says_the_same():
    assert [name for name, members in REFUSED.items() if not said(members)] == []
    # of what is taken it calls these wrong, since learning suffers
    told = {name for name, members in ACCEPTED.items() if said(members)}
    assert told <= {
        "obs_beyond_its_bounds",
        "obs_written_in_place",
        "part_too_many",
        "rew_a_scalar_array",
        "close_raises",
    }
