"""A policy whose every number can be said beforehand."""

import time
from concurrent.futures import Future

import numpy as np
import torch
from gymnasium import spaces

from argosy.collect.player import Inline
from argosy.data import Batch, NamedArray
from argosy.distributed.host.base import Progress
from argosy.distributed.streams.inference import ParameterReader
from argosy.distributed.workers.serving import PolicyWorker
from argosy.policy import Policy, RolloutResult
from argosy.trainer.blob import encode

OBS = spaces.Box(-np.inf, np.inf, (1,), np.float32)
ACT = spaces.Discrete(1000)


class SumPolicy(Policy):
    """State: the sum of what it saw this episode, times its one weight. Action: that sum; 0 where it evaluates."""

    action_spaces = (spaces.Discrete,)

    def __init__(self, observation_space=OBS, action_space=ACT, fail=False, pass_s=0.0):
        super().__init__(observation_space, action_space)
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.default_policy_state = NamedArray(total=np.zeros(1, np.float32))
        self.fail, self.pass_s = fail, pass_s

    def forward(self, batch, state=None):
        return Batch(act=None, logits=None, state=state)

    def rollout(self, requests):
        if self.fail:
            raise ZeroDivisionError("planted")
        time.sleep(self.pass_s)
        total = np.where(requests.on_reset[:, None], 0, requests.policy_state.total)
        total = (total + requests.obs).astype(np.float32)
        act = (total[:, 0] * self.weight.item()).astype(np.int64)
        if requests.is_evaluation is not None:
            act = np.where(requests.is_evaluation, 0, act)
        return RolloutResult(
            action=act, policy_state=NamedArray(total=total), analyzed_result=Batch(rows=np.full(len(act), len(act)))
        )

    def analyze(self, sample):
        return NamedArray(q=self.weight)


class Server(PolicyWorker):
    """Serves a SumPolicy that needs no parameter server; slow, so that requests meet."""

    def __init__(self, context, pass_s=0.0):
        policy = SumPolicy(pass_s=pass_s)
        super().__init__(ParameterReader(context.connect("parameters"), "sum", policy))
        self._reader.token = 1


class Store:
    """A parameter server with one version."""

    def __init__(self, context):
        self.context = context

    def newest(self, name, token):
        if token == 5:
            return Future()  # answered when there is news: never
        policy = SumPolicy()
        policy.version = 7
        with torch.no_grad():
            policy.weight.fill_(10.0)
        return 5, 7, self.context.share(encode(policy.get_checkpoint()))

    def poll(self):
        return Progress.IDLE

    def stats(self):
        return {}

    def close(self):
        pass


def inline(_peers):
    return Inline(SumPolicy())
