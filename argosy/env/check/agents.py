"""Say in sentences what is wrong with an `Environment` of several agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from argosy.env.agents.environment import Environment, StepResult
from argosy.env.agents.registry import make_environment
from argosy.env.check.finding import legal_action
from argosy.env.spaces import mismatch
from argosy.errors import ConfigError, EnvError
from argosy.rng import check_seed

EPISODES = 3
MAX_STEPS = 10_000
"""Of an episode that does not end by itself."""


def test_environment(
    name: str,
    args: Mapping[str, object] | None = None,  # noqa: PT028  # not a test
    *,
    seed: int = 0,  # noqa: PT028
) -> list[str]:
    """Say in sentences what is wrong with an environment, played with random actions; an empty list: nothing was found.

    Args:
        name: a registered name, or "MODULE:CLASS".
        args: for its constructor.
        seed: of the actions and the environment.

    Raises:
        ConfigError: `seed` is below 0.
    """
    check_seed(seed)
    try:
        env = make_environment(name, args)
    except (ConfigError, EnvError) as error:
        return [str(error)]
    try:
        return _check_spaces(env) or _check_episodes(env, seed)
    finally:
        env.close()


test_environment.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test


def _check_spaces(env: Environment) -> list[str]:
    for name in ("agent_count", "observation_spaces", "action_spaces"):
        if not hasattr(env, name):
            return [f"{type(env).__name__} has no {name}; set it in the constructor."]
    count: object = env.agent_count  # what users return is what is checked here
    if not isinstance(count, int) or count < 1:
        return [f"agent_count is {count!r}; it must be a whole number >= 1."]
    sizes = {"observation_spaces": len(env.observation_spaces), "action_spaces": len(env.action_spaces)}
    return [f"{what} has {size} entries for {count} agents." for what, size in sizes.items() if size != count]


def _check_episodes(env: Environment, seed: int) -> list[str]:
    env.seed(seed)
    for i, space in enumerate(env.action_spaces):
        space.seed(seed + i)
    found = (_check_episode(env, f"episode {episode}") for episode in range(EPISODES))
    return next((sentences for sentences in found if sentences), [])


def _check_episode(env: Environment, where: str) -> list[str]:
    count = env.agent_count
    done = np.zeros(count, bool)
    actions: list[object] = []
    for step in range(MAX_STEPS + 1):
        call = f"step {step} of {where}" if step else f"reset of {where}"
        try:
            results = env.step(actions) if step else env.reset()
        except Exception as error:
            return [f"{call} raised {error!r}; the actions were {actions}."]
        if not isinstance(results, list) or len(results) != count:
            return [f"{call} returned {type(results).__name__} instead of a list of {count} StepResults (or None)."]
        found = []
        actions = [None] * count
        for agent, result in enumerate(results):
            if result is None:
                continue
            faults = _check_result(env, agent, result, bool(done[agent]), step == 0)
            found += [f"{call}, agent {agent}: {fault}" for fault in faults]
            if found:
                continue
            done[agent] = result.terminated or result.truncated
            if not done[agent]:
                actions[agent] = legal_action(env.action_spaces[agent], result.obs, result.info)
        if found or done.all():
            return found
        if all(action is None for action in actions):
            return [f"{call}: no agent is to act, but agents {np.flatnonzero(~done).tolist()} are not done."]
    return []


def _check_result(env: Environment, agent: int, result: StepResult, was_done: bool, at_reset: bool) -> Iterator[str]:
    given: object = result
    if not isinstance(given, StepResult):
        yield f"{type(given).__name__} instead of a StepResult or None."
        return
    if was_done:
        yield "a result for an agent whose episode is over; it must be None until the next reset."
    if problem := mismatch(env.observation_spaces[agent], result.obs):
        yield f"{problem}."
    try:
        finite = np.isfinite(float(result.reward))
    except (TypeError, ValueError):
        finite = False
    if not finite:
        yield f"reward is {result.reward!r}; it must be one finite number."
    if result.terminated and result.truncated:
        yield "terminated and truncated are both True; terminated alone says that the game is over."
    if at_reset and (result.terminated or result.truncated):
        yield "the episode is over before its first step."
