"""Its loss is BC's; what it collects is tested in tests/collect/test_labels.py, runs in tests/run/test_expert.py."""

import test_bc
from gymnasium import spaces

from argosy.algorithm import BC, DAgger, DAggerConfig, OptimConfig, Task

CASES = {
    "discrete": (DAggerConfig(), spaces.Discrete(3)),
    "multi-discrete": (DAggerConfig(optim=OptimConfig(max_grad_norm=0.5)), spaces.MultiDiscrete([2, 3])),
    "box": (DAggerConfig(), test_bc.BOX),
}
BOOTSTRAPS = False
RANGES = [("gamma", 1.5), ("log_std_init", -11.0)]


def test_its_update_is_that_of_behaviour_cloning():
    assert DAgger.update is BC.update
    task = Task(observation_space=test_bc.OBS, action_space=spaces.Discrete(3))
    data = test_bc.batch([0, 1, 2])
    losses = {cls: cls.make(cls.config_type(), task, seed=0).update(data).loss for cls in (BC, DAgger)}
    assert losses[BC] == losses[DAgger]
