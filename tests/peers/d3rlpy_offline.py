"""Algorithms of d3rlpy 2.8.1, for `recorder`; recorded anew by `test_recorded.py`.

The batch is of random transitions, some of which end; online and target networks differ.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import recorder
import torch
from d3rlpy.algos import CalQLConfig, IQLConfig, ReBRACConfig
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.torch_utility import TorchMiniBatch

ROWS, OBS, ACT, GAMMA, HIDDEN = 16, 4, 2, 0.9, VectorEncoderFactory([8, 8])


def transitions(ends=True):
    rng = np.random.default_rng(1)
    obs, obs_next = rng.normal(size=(2, ROWS, OBS)).astype(np.float32)
    act, act_next = rng.uniform(-1.0, 1.0, (2, ROWS, ACT)).astype(np.float32)
    terminated = (np.arange(ROWS) % 4 == 1) & ends
    given = {
        "obs": obs,
        "act": act,
        "rew": rng.normal(size=ROWS).astype(np.float32),
        "obs_next": obs_next,
        "act_next": act_next,
        "returns": rng.normal(size=ROWS).astype(np.float32),
        "discount": (GAMMA * ~terminated).astype(np.float32),
        "weight": np.ones(ROWS, np.float32),
    }

    def column(x):
        return torch.from_numpy(np.asarray(x, np.float32)[:, None])

    batch = TorchMiniBatch(
        observations=torch.from_numpy(obs),
        actions=torch.from_numpy(act),
        rewards=column(given["rew"]),
        next_observations=torch.from_numpy(obs_next),
        next_actions=torch.from_numpy(act_next),
        returns_to_go=column(given["returns"]),
        terminals=column(terminated),
        intervals=torch.ones(ROWS, 1),
        device="cpu",
    )
    return batch, given


def made(config, **settings):
    """Return what computes the losses; its target networks differ from those that they follow."""
    encoders = {f"{name}_encoder_factory": HIDDEN for name in ("actor", "critic")}
    algorithm = config(**encoders, gamma=GAMMA, **settings).create(device=False)
    algorithm.create_impl((OBS,), ACT)
    torch.manual_seed(2)
    modules = algorithm.impl.modules
    for name in ("targ_q_funcs", "targ_policy"):
        for parameter in getattr(modules, name).parameters() if hasattr(modules, name) else ():
            parameter.data += 0.3 * torch.randn(parameter.shape)
    return algorithm.impl


def learn(impl, batch, given, draws=(), more=None, **parts):
    """Record losses and gradients: of the critics first, as the actor's loss leaves some in theirs."""
    losses = {"critic": impl.compute_critic_grad(batch).critic_loss.item()}
    critics = [p for name in ("q_funcs", *parts) for p in getattr(impl.modules, parts.get(name, name)).parameters()]
    kept = [parameter.grad.clone() for parameter in critics]
    losses["actor"] = impl.compute_actor_grad(batch).actor_loss.item()
    for parameter, gradient in zip(critics, kept, strict=True):
        parameter.grad = gradient
    names = ("policy", "q_funcs", "targ_q_funcs", "targ_policy", *parts.values())
    modules = {name: getattr(impl.modules, name) for name in names if hasattr(impl.modules, name)}
    return recorder.record(modules, given, losses | (more or {}), draws)


def iql():
    batch, given = transitions()
    impl = made(IQLConfig, value_encoder_factory=HIDDEN, expectile=0.8, weight_temp=2.0, max_weight=1.5)
    weight = impl._compute_weight(batch).mean().item()
    value = impl.compute_value_loss(batch).item()
    return learn(impl, batch, given, more={"weight": weight, "value": value}, value="value_func")


def rebrac():
    """Without smoothing; layers are normalised by neither."""
    batch, given = transitions()
    impl = made(ReBRACConfig, actor_beta=0.3, critic_beta=0.2, target_smoothing_sigma=0.0)
    return learn(impl, batch, given)


def cal_ql():
    """Without a terminal state, as argosy draws no actions where none follows."""
    draws = []
    batch, given = transitions(ends=False)
    settings = {"conservative_weight": 2.0, "alpha_threshold": 0.0, "n_action_samples": 3, "soft_q_backup": True}
    impl = made(CalQLConfig, **settings, alpha_learning_rate=0.0, temp_learning_rate=0.0)

    def noting(draw):
        def drawn(*args, **kwargs):
            draws.append(draw(*args, **kwargs).clone())
            return draws[-1]

        return drawn

    with (
        mock.patch("torch.distributions.normal._standard_normal", noting(torch.distributions.normal._standard_normal)),
        mock.patch.object(torch.Tensor, "uniform_", noting(torch.Tensor.uniform_)),
    ):
        return learn(impl, batch, given, draws)


CASES = {"iql": iql, "rebrac": rebrac, "cal_ql": cal_ql}

if __name__ == "__main__":
    recorder.main(CASES)
