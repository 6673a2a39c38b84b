"""Random network distillation: what is predicted, of what, and what never moves."""

import copy

import pytest
import torch
from algorithm_checks import make_batch
from curious import make

from argosy.algorithm.rnd import FEATURES


def test_the_bonus_is_the_predictor_s_error_where_a_step_led():
    around = make("dqn", "rnd(hidden_sizes=(4,))")
    obs, obs_next = torch.rand(5, 3), torch.rand(5, 3)
    found = around.surprise(obs, torch.zeros(5), obs_next)
    wanted, said = (head(backbone(obs_next)[0]) for backbone, head in (around.target, around.predictor))
    assert wanted.shape == (5, FEATURES)
    assert found.bonus.tolist() == pytest.approx(
        [((w - s) ** 2).mean().item() for w, s in zip(wanted, said, strict=True)]
    )
    assert found.loss.item() == pytest.approx(found.bonus.mean().item())


def test_only_the_predictor_learns():
    around = make("dqn", "rnd")
    before = {name: copy.deepcopy(getattr(around, name).state_dict()) for name in ("target", "predictor")}
    around.update(make_batch(around))
    moved = {
        name: any(not torch.equal(old[key], value) for key, value in getattr(around, name).state_dict().items())
        for name, old in before.items()
    }
    assert moved == {"target": False, "predictor": True}
