"""A short run, for tests of what stands around the loop."""

import argosy
from argosy.algorithm import DQN

QUICK = {
    "net": {"hidden_sizes": (16,)},
    "env": {"num_envs": 2, "test_num_envs": 2},
    "trainer": {
        "max_epoch": 2,
        "checkpoint_epochs": 1,
        "step_per_epoch": 200,
        "start_steps": 50,
        "batch_size": 16,
        "step_per_collect": 4,
        "episode_per_test": 2,
    },
    "stop": {"test_return": None, "episodes": 3},
}


def quick(runs, algorithm="dqn", task="CartPole-v1", **changes):
    return argosy.train(algorithm, task, seed=5, runs=runs, show_progress=False, **{**QUICK, **changes})


class OfflineDQN(DQN):
    """An algorithm that learns from data only."""

    kind = "offline"
