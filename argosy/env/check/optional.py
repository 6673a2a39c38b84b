"""The env checker's look at what only some envs have: pictures, and goals for hindsight."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

from argosy.env.check.finding import Env, Finding, StopCheckError

GOALS = ("achieved_goal", "desired_goal")


def check_render(env: Env) -> Iterator[Finding]:
    """Compare the render mode with those declared, and look at a picture where it gives one."""
    declared = env.metadata.get("render_modes")
    if "render.modes" in env.metadata:
        yield Finding("warning", "render", "metadata['render.modes'] is of the old gym; call it 'render_modes'.")
    mode = env.render_mode
    if mode is None:
        return
    if mode not in (declared or ()):
        yield Finding(
            "warning", "render", f"render_mode is {mode!r}, metadata['render_modes'] is {declared!r}; add it there."
        )
    try:
        picture: object = env.render()
    except Exception as error:
        yield Finding("error", "render", f"it raised {type(error).__name__}: {error}")
        return
    if mode != "rgb_array":
        return
    if not isinstance(picture, np.ndarray):
        yield Finding("error", "render", f"it returned a {type(picture).__name__}; 'rgb_array' is an array [H, W, 3].")
    elif picture.ndim != 3 or picture.shape[-1] != 3 or picture.dtype != np.uint8:
        yield Finding(
            "error", "render", f"it returned {picture.dtype} {picture.shape}; 'rgb_array' is an array uint8 [H, W, 3]."
        )


def check_goals(env: Env, seed: int) -> Iterator[Finding]:
    """Check `compute_reward` of an env whose observations hold goals, as hindsight calls it: for many at once."""
    space = env.observation_space
    if not isinstance(space, spaces.Dict) or not set(GOALS) <= set(space.keys()):
        return
    achieved, desired = (space[name] for name in GOALS)
    if (achieved.shape, achieved.dtype) != (desired.shape, desired.dtype):
        yield Finding(
            "error", "observation_space", f"achieved_goal is {achieved} and desired_goal {desired}; make them alike."
        )
        return
    compute = getattr(env.unwrapped, "compute_reward", None)
    if compute is None:
        yield Finding(
            "note",
            "compute_reward",
            "observations have goals: for hindsight, the buffer needs a function of (achieved_goal, desired_goal); "
            "by custom it is the env's method compute_reward(achieved_goal, desired_goal, info).",
        )
        return
    env.action_space.seed(seed)
    env.reset(seed=seed)
    obs, rew, _, _, info = env.step(env.action_space.sample())
    goals = (np.stack([np.asarray(obs[name])] * 2) for name in GOALS)
    try:
        value = np.asarray(compute(*goals, np.array([info, info], dtype=object)))
    except Exception as error:
        raise StopCheckError(
            "compute_reward", f"for two pairs of goals it raised {type(error).__name__}: {error}"
        ) from error
    if value.shape != (2,):
        yield Finding(
            "error",
            "compute_reward",
            f"for two pairs of goals [2, ...] it returned shape {value.shape}; return one reward each, shape (2,).",
        )
    elif not np.allclose(value, float(rew)):
        yield Finding(
            "error",
            "compute_reward",
            f"it says {value[0]:.6g} where step said {float(rew):.6g}; relabelled rewards would not match stored ones.",
        )
