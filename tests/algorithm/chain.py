"""A chain of states (Dearden et al., 1998): going back pays a little at once, going forward much at the far end."""

import gymnasium as gym
from gymnasium import spaces


class NChain(gym.Env):
    """Action 0 goes forward and pays 10 at the end; action 1 goes back to the start and pays 2. Some do the other."""

    def __init__(self, states=5, slip=0.2, length=100):
        self.observation_space, self.action_space = spaces.Discrete(states), spaces.Discrete(2)
        self.slip, self.length = slip, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.steps = 0
        return self.state, {}

    def step(self, action):
        forward = (action == 0) != (self.np_random.random() < self.slip)
        self.steps += 1
        last = self.state == self.observation_space.n - 1
        rew = (10.0 if last else 0.0) if forward else 2.0
        self.state = min(self.state + 1, int(self.observation_space.n) - 1) if forward else 0
        return self.state, rew, False, self.steps == self.length, {}
