"""Runs that are left and resumed; tests/trainer/test_checkpoint.py and others say what is saved."""

import pytest
from commands import ONLINE
from resumes import resumed_equally, resumes

from argosy.algorithm import ALGORITHMS, algorithm_class

OFFPOLICY = next(name for name in ONLINE if algorithm_class(name).kind == "offpolicy")


def test_a_resumed_run_is_the_run_that_was_not_left(tmp_path):
    assert resumed_equally((OFFPOLICY, "GRU", "normalised", "prioritised", "shmem"), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_pair_of_settings_is_resumed_equally(tmp_path):
    counts = resumes(10_000, 0, tmp_path)
    assert counts["tried"] == counts["rows"] > 3 * len(ALGORITHMS)
    assert counts["algorithms"] == len(ALGORITHMS)
    assert counts["different"] == counts["raw"] == 0, counts
