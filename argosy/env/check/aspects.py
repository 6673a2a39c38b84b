"""The env checker's looks at spaces, infos, reproducibility, and what only some envs have: pictures, goals.

Infos travel between processes, and others keep them; the same seed and actions have to give the same episode.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
from collections.abc import Callable, Iterator

import numpy as np
from gymnasium import spaces

from argosy.env.actions import find_mask_key
from argosy.env.check.finding import Env, Finding, StopCheckError, error, legal_action, note, same, stopping, warning
from argosy.env.spaces import ARRAYS, Space, check_sizes, is_array_space, is_bounded, parts_of
from argosy.errors import SpaceError, told

GOALS = ("achieved_goal", "desired_goal")
RESERVED = ("env_id", "final_obs", "final_info")


def check_spaces(env: Env) -> Iterator[Finding]:
    """Check the observation and the action space."""
    for name in ("observation_space", "action_space"):
        space: object = getattr(env, name, None)
        if not isinstance(space, spaces.Space):
            raise StopCheckError(name, f"it is {space!r:.60}; set it to a space of gymnasium.spaces in __init__.")
        if not is_array_space(space):
            yield warning(
                name,
                f"{space} has no arrays of fixed shape: policies and shared memory cannot take it; encode it as "
                "Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of these.",
            )
        try:
            check_sizes(space, name)
        except SpaceError as raised:
            raise StopCheckError(name, f"{raised}.") from raised
    yield from _check_observation_space(env.observation_space, "observation_space")
    action = env.action_space
    try:
        find_mask_key(env.observation_space, action)
    except SpaceError as raised:
        raise StopCheckError("observation_space", f"{raised}.") from raised
    if not isinstance(action, ARRAYS):
        mend = "make it Box, Discrete, MultiDiscrete or MultiBinary"
        if is_array_space(action):
            mend += ", or let --env.wrappers FlatAction do so"
        yield error("action_space", f"{action}: no algorithm acts in it; {mend}.")
    if isinstance(action, spaces.Box):
        if not is_bounded(action):
            yield warning("action_space", f"{action} has infinite bounds, which SAC and its kin refuse; give limits.")
        elif (np.asarray(action.low) != -1).any() or (np.asarray(action.high) != 1).any():
            yield note("action_space", f"{action} is not [-1, 1]; policies scale their actions to it.")
        if (action.low >= action.high).any():
            yield error("action_space", f"{action} leaves no choice where low >= high; leave that part out.")
        if action.dtype is not None and action.dtype.kind != "f":
            yield warning("action_space", f"{action} holds whole numbers; MultiDiscrete says that better.")
        elif action.dtype != np.float32:
            yield note("action_space", f"{action}: policies give float32; declare dtype=np.float32.")
    if isinstance(action, spaces.Discrete) and action.start != 0:
        yield note("action_space", f"{action} starts at {action.start}; policies number actions from 0.")
    if isinstance(action, spaces.Discrete) and action.n < 2:
        yield warning("action_space", f"{action} has one action: there is nothing to learn.")


def _check_observation_space(space: Space, where: str) -> Iterator[Finding]:
    for key, part in (parts_of(space) or {}).items():
        yield from _check_observation_space(part, f"{where}[{key!r}]")
    if not isinstance(space, spaces.Box):
        return
    if (space.low >= space.high).all():
        yield error(where, f"no value lies between its bounds: low {space.low.min()}, high {space.high.max()}.")
    if len(space.shape) not in (1, 3) and space.dtype != np.uint8:
        yield note(where, f"shape {space.shape} is neither a vector nor an image [C, H, W]: networks will flatten it.")
    if len(space.shape) == 3:
        if space.dtype.itemsize > 1:
            small = "uint8 takes a quarter of the memory, and is read by convolutions without --net.kind cnn"
            yield warning(where, f"it looks like an image of type {space.dtype}; {small}.")
        if min(sorted(space.shape)[1:]) < 36:
            small = f"images of shape {space.shape} are too small for the default CNN (36x36)"
            yield note(where, f"{small}; --net.kind cnn reads them by a small one.")


def check_render(env: Env) -> Iterator[Finding]:
    """Compare the render mode with those declared, and look at a picture where it gives one."""
    declared = env.metadata.get("render_modes")
    if "render.modes" in env.metadata:
        yield warning("render", "metadata['render.modes'] is of the old gym; call it 'render_modes'.")
    mode = env.render_mode
    if mode is None:
        return
    if mode not in (declared or ()):
        yield warning("render", f"render_mode is {mode!r}, metadata['render_modes'] is {declared!r}; add it there.")
    try:
        picture: object = env.render()
    except Exception as raised:
        yield error("render", f"it raised {told(raised)}")
        return
    if mode != "rgb_array":
        return
    if not isinstance(picture, np.ndarray):
        yield error("render", f"it returned a {type(picture).__name__}; 'rgb_array' is an array [H, W, 3].")
    elif picture.ndim != 3 or picture.shape[-1] != 3 or picture.dtype != np.uint8:
        yield error("render", f"it returned {picture.dtype} {picture.shape}; 'rgb_array' is an array uint8 [H, W, 3].")


def check_goals(env: Env, seed: int) -> Iterator[Finding]:
    """Check `compute_reward` of an env whose observations hold goals, as hindsight calls it: for many at once.

    And `compute_terminated`, where there is one.
    """
    space = env.observation_space
    if not isinstance(space, spaces.Dict) or not set(GOALS) <= set(space.keys()):
        return
    achieved, desired = (space[name] for name in GOALS)
    if (achieved.shape, achieved.dtype) != (desired.shape, desired.dtype):
        yield error("observation_space", f"achieved_goal is {achieved} and desired_goal {desired}; make them alike.")
        return
    compute = getattr(env.unwrapped, "compute_reward", None)
    if compute is None:
        yield note(
            "compute_reward",
            "observations have goals: for hindsight, the buffer needs a function of (achieved_goal, desired_goal); "
            "by custom it is the env's method compute_reward(achieved_goal, desired_goal, info).",
        )
        return
    env.action_space.seed(seed)
    env.reset(seed=seed)
    obs, rew, terminated, _, info = env.step(env.action_space.sample())
    ends = getattr(env.unwrapped, "compute_terminated", None)
    if ends is not None and bool(said := ends(*(obs[name] for name in GOALS), info)) != bool(terminated):
        yield error(
            "compute_terminated",
            f"it says {said} where step said {bool(terminated)}; relabelled ends would not match stored ones.",
        )
    goals = (np.stack([np.asarray(obs[name])] * 2) for name in GOALS)
    with stopping("compute_reward", "for two pairs of goals it"):
        value = np.asarray(compute(*goals, np.array([info, info], dtype=object)))
    if value.shape != (2,):
        yield error(
            "compute_reward",
            f"for two pairs of goals [2, ...] it returned shape {value.shape}; return one reward each, shape (2,).",
        )
    elif not np.allclose(value, float(rew)):
        yield error(
            "compute_reward",
            f"it says {value[0]:.6g} where step said {float(rew):.6g}; relabelled rewards would not match stored ones.",
        )


class InfoChecker:
    """Looks at one info after another; says each thing once."""

    def __init__(self) -> None:
        self._last: dict[str, object] | None = None
        self._said: set[str] = set()

    def check(self, info: dict[str, object], where: str) -> Iterator[Finding]:
        """Check what `where` ("reset" or "step") returned."""
        if info is self._last and "same" not in self._said:
            self._said.add("same")
            yield warning(
                where, "info is the dict that the call before returned: what was kept of it changes; return a new one."
            )
        self._last = info
        for key in RESERVED:
            if key in info:
                yield warning(where, f"info has the key {key!r}, which vector envs overwrite; rename it.")
        if "TimeLimit.truncated" in info:
            yield warning(where, "info['TimeLimit.truncated'] is of the old gym; return truncated=True instead.")
        for key, value in info.items():
            if key not in self._said and (problem := _pickling_problem(value)):
                self._said.add(key)
                yield warning(
                    where,
                    f"info[{key!r}] cannot be pickled ({problem}), so envs in worker processes cannot return it; "
                    "keep numbers, text and arrays there.",
                )


def _pickling_problem(value: object) -> str | None:
    try:
        pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as raised:  # whatever the object's own methods raise
        return told(raised)
    return None


def check_determinism(
    env: Env, make: Callable[[], Env] | None, made: list[Env], steps: int, seed: int
) -> Iterator[Finding]:
    """Play the same episodes again, in this env and in another one."""
    first = _play(env, steps, seed)
    if (where := _differ(first, _play(env, steps, seed))) is not None:
        with _global_seeds():
            again = _play(env, steps, seed)
        with _global_seeds():
            cured = _differ(again, _play(env, steps, seed)) is None
        why = (
            "; it does with numpy's and Python's global generators seeded, so it draws from these: use self.np_random"
            if cured
            else "; look for state that reset does not reset, for threads, time or unordered sets"
        )
        yield warning("seed", f"the same seed and actions do not give the same episode ({where}){why}.")
        return
    if _differ(first, _play(env, steps, seed + 1, action_seed=seed)) is None:
        yield note("seed", "two seeds give the same episode; fine if nothing in it is random.")
    if make is not None:
        other = make()
        made.append(other)
        if other.unwrapped is env.unwrapped:
            yield error("constructor", "the function returns one env every time; it has to make a new one.")
        elif (where := _differ(first, _play(other, steps, seed))) is not None:
            yield warning("seed", f"two envs with the same seed and actions differ ({where}): they share state.")


def _play(env: Env, steps: int, seed: int, action_seed: int | None = None) -> list[tuple[object, ...]]:
    env.action_space.seed(seed if action_seed is None else action_seed)
    obs, info = env.reset(seed=seed)
    seen: list[tuple[object, ...]] = [(copy.deepcopy(obs), 0.0, False, False)]
    for _ in range(steps):
        obs, rew, terminated, truncated, info = env.step(legal_action(env.action_space, obs, info))
        seen.append((copy.deepcopy(obs), float(rew), bool(terminated), bool(truncated)))
        if terminated or truncated:
            obs, info = env.reset()
            seen.append((copy.deepcopy(obs), 0.0, False, False))
    return seen


def _differ(a: list[tuple[object, ...]], b: list[tuple[object, ...]]) -> str | None:
    for step, (one, other) in enumerate(zip(a, b, strict=False)):
        for name, x, y in zip(("observation", "reward", "terminated", "truncated"), one, other, strict=True):
            if not same(x, y):
                return f"first in the {name} {'of reset' if step == 0 else f'of step {step}'}"
    return None


@contextlib.contextmanager
def _global_seeds() -> Iterator[None]:
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002  # the one that envs misuse
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
