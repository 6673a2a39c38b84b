"""Say in sentences what is wrong with an environment: spaces, types, ends of episodes, seeds, determinism."""

from __future__ import annotations

import copy
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from argosy.env.actions import choices, without_choice
from argosy.env.check.aspects import InfoChecker, check_determinism, check_goals, check_render, check_spaces
from argosy.env.check.finding import (
    Env,
    Finding,
    StopCheckError,
    error,
    is_legal,
    leaves,
    legal_action,
    mask_of,
    note,
    same,
    stopping,
    warning,
)
from argosy.env.config import EnvConfig
from argosy.env.spaces import is_bounded, mismatch
from argosy.env.tasks import env_factory
from argosy.env.worker.group import kind_of
from argosy.errors import ConfigError, told
from argosy.rng import check_seed

SPACES = ("observation_space", "action_space")


@dataclass
class _Trace:
    """What a run with random actions showed."""

    obs: list[object] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # of the episodes that ended
    ends: list[tuple[bool, bool]] = field(default_factory=list)  # (terminated, truncated) of each


def check_env(
    env: str | Env | Callable[[], Env], *, steps: int = 1000, seed: int = 0, config: EnvConfig | None = None
) -> list[Finding]:
    """Check an environment by looking at it and by taking random steps.

    Args:
        env: name of a task (or "MODULE:NAME"), an env, or a function that makes one. With a name or a function the
            reproducibility is checked between two envs, too. The env is closed in the end.
        steps: random steps to take.
        seed: of the env and of the actions.
        config: with a name, settings of the env.

    Returns:
        What was found, errors first; an empty list means that nothing is wrong.

    Raises:
        ConfigError: the name is unknown, `steps` is below 1, or `seed` below 0.
    """
    check_seed(seed)
    if steps < 1:
        raise ConfigError(f"steps is {steps}; it must be >= 1")
    make = (
        env_factory(env, config or EnvConfig()) if isinstance(env, str) else None if isinstance(env, gym.Env) else env
    )
    made: list[Env] = []
    findings: list[Finding] = []
    try:
        for finding in _check(env, make, made, steps, seed):
            findings.append(finding)  # noqa: PERF402  # keep those that came before an exception
    except StopCheckError as stop:
        findings.append(stop.finding)
    except (Exception, SystemExit) as raised:
        findings.append(error(_raised_in(raised), f"it raised {told(raised)}"))
    for one in made:
        try:
            one.close()
        except Exception as raised:
            findings.append(error("close", f"close raised {told(raised)}"))
    order = {"error": 0, "warning": 1, "note": 2}
    once: dict[tuple[str, str], Finding] = {}  # reset and step often say the same
    for finding in findings:
        once.setdefault((finding.level, finding.text), finding)
    return sorted(once.values(), key=lambda finding: order[finding.level])


def _raised_in(raised: BaseException) -> str:
    """Return the name of the env's function that an error came out of."""
    names = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
    return next((name for name in names if name in ("reset", "step", "render", "compute_reward")), "check")


def _check(given: object, make: Callable[[], Env] | None, made: list[Env], steps: int, seed: int) -> Iterator[Finding]:
    env: object = given
    if make is not None:
        try:
            env = make()
        except (Exception, SystemExit) as raised:
            yield error("constructor", f"making the env raised {told(raised)}")
            return
    if not isinstance(env, gym.Env):
        yield error(
            "class",
            f"{type(env).__name__} does not inherit from gymnasium.Env; envs of the old gym need "
            "a wrapper (shimmy), others the base class.",
        )
        return
    made.append(env)
    yield from check_spaces(env)
    before = copy.deepcopy((env.observation_space, env.action_space))
    yield from _check_reset(env, seed)
    trace = _Trace()
    yield from _check_steps(env, steps, seed, trace)
    for name, space, now in zip(SPACES, before, (env.observation_space, env.action_space), strict=True):
        if space != now:
            raise StopCheckError(name, f"it was {space} and is {now} now; what learns needs one that never changes.")
    yield from _check_extremes(env)
    yield from _check_trace(trace, env, steps)
    yield from check_render(env)
    yield from check_goals(env, seed)
    yield from check_determinism(env, make, made, min(steps, 200), seed)
    if make is not None:
        try:
            cloudpickle.loads(cloudpickle.dumps(make))
        except Exception as raised:
            yield warning(
                "processes",
                f"the function that makes the env cannot be sent to a spawned process ({told(raised)}); define it at "
                "the top level of a module.",
            )


# reset and step


def _check_reset(env: Env, seed: int) -> Iterator[Finding]:
    parameters = inspect.signature(env.unwrapped.reset).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for name in ("seed", "options"):
        if name not in parameters and not takes_all:
            raise StopCheckError("reset", f"it takes no {name!r}; write: def reset(self, *, seed=None, options=None).")
    with stopping("reset"):
        result: Any = env.reset(seed=seed)
    if not isinstance(result, tuple) or len(result) != 2:
        raise StopCheckError("reset", f"it returned {kind_of(result)}; return the observation and a dict: (obs, info).")
    obs, info = result
    _check_info(info, "reset")
    yield from _check_obs(env, obs, "reset")
    drawn = getattr(env.unwrapped, "np_random_seed", None)
    if drawn != seed:
        yield warning(
            "seed",
            f"after reset(seed={seed}) the env's np_random has the seed {drawn}; call super().reset(seed=seed) first "
            "in reset, and draw all random numbers from self.np_random.",
        )


def _check_obs(env: Env, obs: object, where: str) -> Iterator[Finding]:
    if sentence := mismatch(env.observation_space, obs):
        raise StopCheckError(where, f"{sentence}.")
    for name, space, part in leaves(env.observation_space, obs, "observation"):
        if not isinstance(part, np.ndarray | np.generic) and not isinstance(space, spaces.Discrete):
            yield warning(where, f"{name} is a {type(part).__name__}; return a numpy array of {space.dtype}.")
        array = np.asarray(part)
        if not array.flags.c_contiguous and not array.flags.f_contiguous:
            yield note(where, f"{name} is a view with gaps, which is slow to copy; return np.ascontiguousarray of it.")
        if array.dtype != space.dtype and space.dtype is not None and not isinstance(space, spaces.Discrete):
            yield note(where, f"{name} has type {array.dtype}, its space {space.dtype}: it is converted in each step.")
        if array.dtype.kind == "f" and np.isinf(array).any():
            raise StopCheckError(where, f"{name} holds infinite values.")


def _check_steps(env: Env, steps: int, seed: int, trace: _Trace) -> Iterator[Finding]:
    env.action_space.seed(seed)
    infos = InfoChecker()
    obs, info = env.reset(seed=seed)
    yield from infos.check(info, "reset")
    length = 0
    for _ in range(steps):
        kept = copy.deepcopy(obs)
        _check_mask(env, obs, info)
        action = legal_action(env.action_space, obs, info)
        action_before = copy.deepcopy(action)
        with stopping("step", behind=f" (action {action_before!r:.60})"):
            result: Any = env.step(action)
        yield from _check_result(result)
        before = obs
        obs, rew, terminated, truncated, info = result
        yield from _check_obs(env, obs, "step")
        if not same(before, kept):
            yield error(
                "step",
                "the observation that the last call returned was overwritten by this step: stored transitions would "
                "change afterwards; return a new array, e.g. self.state.copy().",
            )
        if not same(action, action_before):
            yield error("step", "it changes the action that it was given; work on a copy: action.copy().")
        yield from infos.check(info, "step")
        trace.obs.append(kept)
        trace.rewards.append(float(rew))
        length += 1
        if terminated or truncated:
            trace.lengths.append(length)
            trace.ends.append((bool(terminated), bool(truncated)))
            length = 0
            obs, info = env.reset()
            yield from _check_obs(env, obs, "reset")


def _check_mask(env: Env, obs: object, info: Mapping[str, object]) -> None:
    mask, sizes = mask_of(env.action_space, obs, info), choices(env.action_space)
    if mask is None or not sizes:
        return
    if mask.shape != (sum(sizes),):
        raise StopCheckError("action_mask", f"it has shape {mask.shape}; {env.action_space} needs ({sum(sizes)},).")
    if without_choice(mask[None], sizes).any():
        raise StopCheckError("action_mask", f"{mask.tolist()} allows no action, but one has to follow.")


def _check_result(result: object) -> Iterator[Finding]:
    if not isinstance(result, tuple) or len(result) != 5:
        old = " (four were the API of the old gym)" if isinstance(result, tuple) and len(result) == 4 else ""
        raise StopCheckError(
            "step", f"it returned {kind_of(result)}{old}; return (obs, reward, terminated, truncated, info)."
        )
    _, rew, terminated, truncated, info = result
    array = np.asarray(rew)
    if array.dtype.kind not in "fiub" or array.ndim > 1 or array.size == 0:
        raise StopCheckError("step", f"the reward is {rew!r:.60}; it must be a number.")
    with np.errstate(over="ignore"):
        stored = array.astype(np.float32)
    if not np.isfinite(stored).all():
        raise StopCheckError("step", f"the reward is {rew!r:.60}; rewards must be finite, as float32, too.")
    if array.shape == (1,):
        raise StopCheckError("step", "the reward is an array of one element; return float(reward).")
    if array.ndim == 1:
        raise StopCheckError(
            "step", f"the reward is an array of {array.size}: one per agent, or return float(reward).", "note"
        )
    if not isinstance(rew, bool | int | float | np.generic | np.ndarray):
        yield warning("step", f"the reward is a {type(rew).__name__}; return float(reward).")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            raise StopCheckError("step", f"{name} is {flag!r:.40} ({type(flag).__name__}); it must be True or False.")
    _check_info(info, "step")


def _check_info(info: object, where: str) -> None:
    if not isinstance(info, dict):
        raise StopCheckError(where, f"info is a {type(info).__name__}; it must be a dict, {{}} if there is none.")


def _check_extremes(env: Env) -> Iterator[Finding]:
    """Take the outermost actions: out-of-range errors hide there."""
    space = env.action_space
    actions: list[object] = []
    if isinstance(space, spaces.Discrete):
        actions = [space.start, space.start + space.n - 1]
    elif isinstance(space, spaces.Box) and is_bounded(space):
        actions = [space.low.copy(), space.high.copy()]
    elif isinstance(space, spaces.MultiDiscrete):
        actions = [np.zeros_like(space.nvec) + space.start, space.nvec - 1 + space.start]
    for action in actions:
        if not is_legal(space, action, *env.reset()):
            continue
        with stopping("step", f"the action {action!r:.60}"):
            result = env.step(action)
        yield from _check_obs(env, result[0], "step")


# what the run showed


def _check_trace(trace: _Trace, env: Env, steps: int) -> Iterator[Finding]:
    if steps >= 50 and len(set(trace.rewards)) == 1:
        value = trace.rewards[0]
        if value == 0:
            text = f"the reward was 0 in all {steps} random steps: an agent that explores like that learns nothing."
            yield warning("step", text)
        elif len(set(trace.lengths)) <= 1:
            text = (
                f"the reward was {value} in all {steps} random steps; it has to depend on what the agent does, or end."
            )
            yield note("step", text)
    if steps >= 50 and all(same(trace.obs[0], obs) for obs in trace.obs):
        yield warning("step", f"the observation never changed in {steps} random steps.")
    declared = env.spec is not None and env.spec.max_episode_steps is not None
    if not trace.lengths:
        if not declared and not env.has_wrapper_attr("_max_episode_steps"):  # of a TimeLimit
            yield warning(
                "episode",
                f"no episode ended in {steps} random steps, and no time limit is declared; tests wait for ends: set "
                "env.max_episode_steps, or wrap the env in gymnasium.wrappers.TimeLimit.",
            )
    elif len(trace.lengths) >= 3 and all(t and u for t, u in trace.ends):
        yield warning(
            "episode",
            "every episode ended with both terminated and truncated True, so that the value of the last state is taken "
            "as 0; of a time limit return only truncated=True, of a true end only terminated=True.",
        )
    elif len(trace.lengths) >= 3 and len(set(trace.lengths)) == 1 and all(t for t, _ in trace.ends):
        yield warning(
            "episode",
            f"every episode was terminated after exactly {trace.lengths[0]} steps; if that is a time limit, return "
            "truncated=True instead: the value of the last state is then not taken as 0.",
        )
    if len(trace.lengths) >= 3 and set(trace.lengths) == {1}:
        yield note("episode", "every episode has one step.")
    largest, name = 0.0, ""
    for obs in trace.obs:
        for part_name, space, part in leaves(env.observation_space, obs, "observation"):
            if isinstance(space, spaces.Box) and space.dtype != np.uint8:
                peak = float(np.abs(np.asarray(part, np.float64)).max(initial=0.0))
                largest, name = max((largest, name), (peak, part_name))
    if largest > 100:
        yield note("observation_space", f"{name} reaches {largest:.3g}; train with net.norm_obs=True.")
    if trace.rewards and max(map(abs, trace.rewards)) > 1000:
        yield note("step", f"rewards reach {max(map(abs, trace.rewards)):.3g}; scale them to about 1.")
