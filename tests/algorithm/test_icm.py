"""Intrinsic curiosity: bonus and loss, computed a second time by hand."""

import numpy as np
import pytest
import torch
from algorithm_checks import make_batch
from curious import BOX, make
from gymnasium import spaces

from argosy.algorithm import Task, algorithm_class
from argosy.algorithm.wrapper import wrapped
from argosy.data import as_tensors

SEEN = spaces.Box(-1, 1, (2,), np.float32)


def icm(space, name, **arguments):
    cls = algorithm_class(name)
    task = Task(observation_space=SEEN, action_space=space)
    call = "icm(" + ", ".join(f"{key}={value}" for key, value in arguments.items()) + ")"
    return wrapped(cls.make(cls.config_type(), task, 0), [call], task, 0)


@pytest.mark.parametrize(
    ("name", "space", "act", "encoded"),
    [
        ("dqn", spaces.Discrete(3), [0, 2], [[1, 0, 0], [0, 0, 1]]),
        ("ppo", spaces.MultiDiscrete([2, 3]), [[1, 2], [0, 0]], [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]),
        ("ppo", spaces.MultiBinary(2), [[1, 0], [0, 0]], [[0, 1, 1, 0], [1, 0, 1, 0]]),
        ("sac", BOX, [[0.5, -1.0], [0.25, 0.0]], [[0.5, -1.0], [0.25, 0.0]]),
    ],
)
def test_bonus_and_loss(name, space, act, encoded):
    wrapper = icm(space, name, forward_weight=0.25)
    obs, obs_next = torch.tensor([[0.5, 0.0], [-0.25, 1.0]]), torch.tensor([[0.0, 0.5], [1.0, -1.0]])
    found = wrapper.surprise(obs, torch.tensor(act), obs_next)

    before, after = wrapper.features(obs)[0], wrapper.features(obs_next)[0]
    known = torch.tensor(encoded, dtype=torch.float32)
    foretold = wrapper.forward_model(torch.cat((before, known), -1))
    bonus = [0.5 * ((f - a) ** 2).sum().item() for f, a in zip(foretold, after, strict=True)]
    assert found.bonus.tolist() == pytest.approx(bonus)
    said = wrapper.inverse_model(torch.cat((before, after), -1))
    if name == "sac":
        inverse = ((said - known) ** 2).mean().item()
    else:
        sizes = {"dqn": [3]}.get(name, [2, 3] if isinstance(space, spaces.MultiDiscrete) else [2, 2])
        parts = [part.log_softmax(-1) for part in said.split(sizes, -1)]
        inverse = -(torch.cat(parts, -1) * known).sum().item() / 2
    assert found.metrics["loss_inverse"].item() == pytest.approx(inverse, rel=1e-5)
    assert found.metrics["loss_forward"].item() == pytest.approx(sum(bonus) / 2)
    assert found.loss.item() == pytest.approx(0.75 * inverse + 0.25 * sum(bonus) / 2, rel=1e-5)


def test_a_gaussian_s_draw_beyond_the_bounds_is_what_the_env_took():
    """PPO's draws are cut; what was meant beyond cannot be told from the observations."""
    wrapper, seen = make("ppo", "icm"), []
    surprise = wrapper.surprise
    wrapper.surprise = lambda obs, act, obs_next: seen.append(act) or surprise(obs, act, obs_next)
    batch = make_batch(wrapper)
    batch.act = 5.0 * batch.act
    wrapper.change(as_tensors(batch))
    assert np.abs(batch.act).max() > 1.0
    assert torch.cat(seen).abs().max() == 1.0
