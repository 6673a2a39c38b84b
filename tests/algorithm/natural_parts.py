"""Rows to learn from, and the natural gradient by the explicit Fisher matrix, for algorithms that follow it."""

import numpy as np
import torch
from gymnasium import spaces

from argosy.algorithm import Task
from argosy.data import Batch
from argosy.net import NetConfig
from argosy.ops import flat_gradient

OBS = spaces.Box(-10, 10, (2,), np.float32)


def make(cls, space=None, **config):
    net = NetConfig(hidden_sizes=(3,), activation="tanh")
    task = Task(observation_space=OBS, action_space=space or spaces.Discrete(2), net=net)
    return cls.make(cls.config_type(**config), task, seed=0)


def rows_of(algorithm, N=40):
    """A minibatch that the present policy acted in."""
    torch.manual_seed(1)
    obs, act = torch.randn(N, 2), torch.randint(2, (N,))
    if isinstance(algorithm.policy.action_space, spaces.Box):
        act = torch.randn(N, 1)
    with torch.no_grad():
        logp = algorithm.policy.analyze(Batch(obs=obs, act=act)).logp
    return Batch(obs=obs, act=act, adv=torch.randn(N), logp=logp, cut=torch.ones(N, dtype=torch.bool))


def flat(parameters):
    return torch.cat([p.detach().flatten() for p in parameters])


def natural_gradient(algorithm, mb):
    """The natural gradient of mean(logp * adv) by the explicit Fisher matrix E[score score'], and that matrix."""
    policy, parameters = algorithm.policy, algorithm.policy.actor_parameters()
    gradient = flat_gradient((policy.analyze(mb).logp * mb.adv).mean(), parameters)
    matrix = torch.zeros(len(gradient), len(gradient))
    for i in range(len(mb.adv)):
        for a in range(2):
            row = Batch(obs=mb.obs[i : i + 1], act=torch.tensor([a]))
            logp = policy.analyze(row).logp
            score = flat_gradient(logp.sum(), parameters)
            matrix += logp.exp().detach() * torch.outer(score, score) / len(mb.adv)
    matrix += algorithm.config.damping * torch.eye(len(gradient))
    return torch.linalg.solve(matrix, gradient), matrix


def rollout(algorithm, T=8, B=4):
    rng = np.random.default_rng(0)
    obs, obs_next = rng.normal(size=(2, T, B, 2)).astype(np.float32)
    ends = np.arange(T)[:, None].repeat(B, 1) == T - 1
    batch = Batch(
        obs=obs, obs_next=obs_next, act=rng.integers(2, size=(T, B)), cut=ends, terminated=np.zeros((T, B), bool)
    )
    batch.rew = rng.normal(size=(T, B)).astype(np.float32)
    with torch.no_grad():
        logp = algorithm.policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(batch.act))).logp
    batch.policy = Batch(logp=logp.numpy())
    return batch
