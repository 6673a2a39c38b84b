"""Every algorithm learns what is right in the tiniest environments; its own test says with which settings."""

import pytest
from declared import declared
from probes import check_probe
from stand_ins import BOX, OBS, learn_a_bandit

from argosy.algorithm import ALGORITHMS, Task, algorithm_class
from argosy.net import NetConfig


def probed():
    """Every probe and every case of an algorithm; what is more than a pair is slow."""
    for name in ALGORITHMS:
        seen: set[str] = set()
        for case, how in declared(name, "PROBED").items():
            fullest = "both" if "both" in how.probes else how.probes[0]
            for probe in how.probes:
                marks = () if probe == fullest or probe not in seen else pytest.mark.slow
                yield pytest.param(name, how, probe, marks=marks, id=f"{name} {case}-{probe}")
            seen.update(how.probes)


@pytest.mark.parametrize(("name", "how", "probe"), probed())
def test_probes(name, how, probe):
    check_probe(algorithm_class(name), how, probe)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if declared(name, "BANDIT") is not None])
def test_the_best_action_of_a_bandit_is_learned(name):
    config, updates = declared(name, "BANDIT")
    task = Task(observation_space=OBS, action_space=BOX, net=NetConfig(hidden_sizes=(64,)))
    algorithm = algorithm_class(name).make(config, task, seed=0)
    assert learn_a_bandit(algorithm, updates) == pytest.approx([0.5, 0.5], abs=0.15)
