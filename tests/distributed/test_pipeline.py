import dataclasses

import numpy as np
import pytest
import torch
from games import Turns
from torch import nn

from argosy.algorithm.base import Algorithm, AlgorithmConfig
from argosy.algorithm.optim import OptimConfig
from argosy.data import Batch, NamedArray, TrainingStats
from argosy.distributed import ActorGroup, AgentSpec, Fleet, FleetError, FleetStop, PolicySpec, test_pipeline
from argosy.env import register, registered_environments
from argosy.policy import RolloutResult, SingleModelPytorchPolicy
from argosy.presets import preset


class Memory(SingleModelPytorchPolicy):
    """A small GRU of a user's own: three methods and its state."""

    def __init__(self, observation_space, action_space, hidden=8):
        net = nn.ModuleDict({"cell": nn.GRUCell(observation_space.shape[0], hidden), "head": nn.Linear(hidden, 2)})
        state = NamedArray(h=np.zeros(hidden, np.float32))
        super().__init__(observation_space, action_space, net, default_policy_state=state)

    def rollout(self, requests):
        with torch.inference_mode():
            h = torch.from_numpy(np.where(requests.on_reset[:, None], 0.0, requests.policy_state.h).astype(np.float32))
            h = self.net["cell"](torch.from_numpy(np.asarray(requests.obs, np.float32)), h)
            logits = self.net["head"](h)
            act = torch.distributions.Categorical(logits=logits).sample()
            if requests.is_evaluation is not None:
                act = torch.where(torch.from_numpy(requests.is_evaluation), logits.argmax(-1), act)
        return RolloutResult(
            action=act.numpy(), policy_state=NamedArray(h=h.numpy()), analyzed_result=Batch(h=h.numpy())
        )

    def analyze(self, sample):
        """Log-probabilities [T, B] from the stored state at the segment's start."""
        h, out = sample.policy.state.h[0], []
        for t in range(len(sample.act)):
            h = self.net["cell"](sample.obs[t].float(), h)
            out.append(torch.distributions.Categorical(logits=self.net["head"](h)).log_prob(sample.act[t]))
            h = torch.where(sample.cut[t][:, None], 0.0, h)
        return NamedArray(logp=torch.stack(out), h=h)


class Reinforce(Algorithm):
    """A user's own algorithm."""

    kind = "onpolicy"
    config_type = AlgorithmConfig
    states_checked = 0

    def __init__(self, config, policy):
        super().__init__(config, policy)
        self.optim = OptimConfig(lr=1e-2).build(policy)

    @classmethod
    def build(cls, config, task):
        raise NotImplementedError

    def update(self, batch):
        batch = self.prepare(batch)
        # the state before a step is the one after the step before, unless an episode ended between
        before, after = batch.policy.state.h[1:], batch.policy.h[:-1]
        goes_on = ~batch.cut[:-1]
        assert torch.equal(before[goes_on], after[goes_on])
        assert torch.any(before[goes_on] != 0)
        assert torch.all(before[~goes_on] == 0)
        Reinforce.states_checked += int(goes_on.sum())
        loss = -(self.policy.analyze(batch).logp * batch.rew).mean()
        self.optim.step(loss)
        self._finish(loss=loss)
        return TrainingStats()


def fleet(task="CartPole-v1", inference="inline", **spec):
    experiment = preset("ppo", "CartPole-v1", trainer={"step_per_collect": 128}, env={"num_envs": 4})
    experiment = dataclasses.replace(experiment, task=task)
    return Fleet(
        name="pipeline",
        policies={"p": PolicySpec(experiment=experiment, workers=5, **spec)},
        agents=(AgentSpec(policy="p", sample_steps=16, inference=inference),),
        actors=ActorGroup(count=7),
        stop=FleetStop(wall_s=1e6),
    )


@pytest.mark.parametrize("inference", ["inline", "shared", "ray"])
def test_own_recurrent_policy_and_algorithm_carry_state_by_value(inference):
    Reinforce.states_checked = 0
    snapshot = test_pipeline(fleet(inference=inference, policy=Memory, args={"hidden": 6}, algorithm=Reinforce))
    assert snapshot.updates["p"] >= 2
    assert Reinforce.states_checked > 100
    assert snapshot.evaluations["p"].episodes == 2


def test_a_broken_policy_is_shown_with_its_traceback():
    class Broken(Memory):
        def rollout(self, requests):
            raise ArithmeticError("planted in the policy")

    with pytest.raises(FleetError, match="planted in the policy"):
        test_pipeline(fleet(policy=Broken, algorithm=Reinforce), timeout_s=30)


def test_a_broken_environment_is_shown_with_its_message():
    class Crash(Turns):
        def step(self, actions):
            raise ArithmeticError("planted in the game")

        def __init__(self):
            super().__init__()
            self.observation_spaces = self.observation_spaces[:1] * 2

    if "crash" not in registered_environments():
        register("crash", Crash)
    with pytest.raises(FleetError, match="planted in the game"):
        test_pipeline(fleet("crash"), timeout_s=30)
