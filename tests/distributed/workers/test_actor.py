import gymnasium as gym
import numpy as np
from gymnasium import spaces

from argosy.collect.player import Player, Reply
from argosy.collect.recorder import Recorder, SegmentSpec
from argosy.collect.seats import VectorArena
from argosy.distributed.workers.actor import ActorWorker, Group, Seated
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.policy import QPolicy
from argosy.rng import Rng


class Still(gym.Env):
    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Asked:
    """An inference stream that answers when it is told to."""

    def __init__(self, policy, waiting):
        self.policy, self.waiting, self.given = policy, waiting, None

    def post(self, request):
        self.request = request
        self.waiting.append(self)

    def answer(self):
        self.given = Reply(self.policy.rollout(self.request), 0)

    def reply(self, timeout_s):
        given, self.given = self.given, None
        return given

    def close(self):
        pass


def test_all_groups_of_a_ring_ask_before_the_first_answer_is_waited_for():
    policy = QPolicy(Still.observation_space, Still.action_space, NetConfig(hidden_sizes=(8,)))
    waiting = []

    def seated(arena):
        player = Player(arena.seats[0], policy, Asked(policy, waiting))
        return [Seated(player, Recorder("x", 0, 1, SegmentSpec(sample_steps=4)), None, None, 0)]

    groups = [Group(lambda seed: VectorArena(DummyVectorEnv([Still])), seated, Rng(0)) for _ in range(3)]
    worker = ActorWorker(groups, [])
    worker.poll()
    assert len(waiting) == 3
    waiting.pop(0).answer()
    worker.poll()  # the head of the ring steps and asks again while the others wait
    assert worker.stats()["steps"] == 1.0
    assert len(waiting) == 3
    worker.poll()
    assert worker.stats()["steps"] == 1.0
    worker.close()
