"""The Box2D family."""

import pytest

from argosy.presets import preset, tuned_families


@pytest.mark.parametrize("algorithm", ["ppo", "sac", "td3"])
def test_presets_of_the_walker(algorithm):
    experiment = preset(algorithm, "BipedalWalker-v3")
    assert "box2d" in tuned_families(algorithm)
    assert experiment.stop.test_return == 300.0
    assert experiment.threads == 0
