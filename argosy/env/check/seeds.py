"""The env checker's look at reproducibility: the same seed and actions have to give the same episode."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable, Iterator

import numpy as np

from argosy.env.check.finding import Env, Finding, legal_action, same


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
        yield Finding("warning", "seed", f"the same seed and actions do not give the same episode ({where}){why}.")
        return
    if _differ(first, _play(env, steps, seed + 1, action_seed=seed)) is None:
        yield Finding("note", "seed", "two seeds give the same episode; fine if nothing in it is random.")
    if make is not None:
        other = make()
        made.append(other)
        if (where := _differ(first, _play(other, steps, seed))) is not None:
            yield Finding(
                "warning", "seed", f"two envs with the same seed and actions differ ({where}): they share state."
            )


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
