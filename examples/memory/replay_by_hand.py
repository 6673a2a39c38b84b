import numpy as np
from gymnasium.spaces import Box, Discrete

from argosy.algorithm import DQN, DQNConfig, Task
from argosy.data import Batch, VectorReplayBuffer
from argosy.net import NetConfig
from argosy.policy import RolloutRequest

net = NetConfig(memory="gru", memory_size=16, sequence_length=8, burn_in=4)
dqn = DQN.make(DQNConfig(), Task(observation_space=Box(-1, 1, (3,)), action_space=Discrete(2), net=net), seed=0)

buffer = VectorReplayBuffer(200, 1, seed=0)
state = np.stack([dqn.policy.default_policy_state])  # of one environment at an episode's start
obs, draws = np.zeros((1, 3), np.float32), np.random.default_rng(0)
for _ in range(100):
    result = dqn.policy.rollout(RolloutRequest(obs=obs, policy_state=state))
    obs_next = draws.uniform(-1, 1, (1, 3)).astype(np.float32)
    row = {"obs": obs, "act": result.action, "rew": np.ones(1), "obs_next": obs_next, "policy": Batch(state=state)}
    buffer.add(Batch(row, terminated=np.zeros(1, bool), truncated=np.zeros(1, bool)))
    obs, state = obs_next, result.policy_state

sample, _ = buffer.sample(5, dqn.sampling)  # the algorithm says what it wants: sequences
assert sample.obs.shape == (4 + 8, 5, 3)
assert sample.policy.state.shape == (4 + 8, 5, 16)
dqn.update(sample)
