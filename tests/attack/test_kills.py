"""Runs that are killed, and runs whose disk is full: nothing torn, lost, or left behind."""

import pytest
from disks import full_disks
from kills import kills


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "count"), [(0, 4), pytest.param(1, 100, marks=pytest.mark.slow)])
def test_runs_that_are_killed_lose_nothing(tmp_path, seed, count):
    counts = kills(count, seed, tmp_path)
    assert counts["tried"] == count
    assert not any(counts[name] for name in ("torn", "lost", "different", "left_running", "left_in_shm")), counts


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "count"), [(0, 1), pytest.param(1, 20, marks=pytest.mark.slow)])
def test_a_full_disk_ends_in_a_sentence_or_in_nothing(tmp_path, seed, count):
    try:
        counts = full_disks(count, seed, tmp_path)
    except OSError as error:
        pytest.skip(f"this process may not mount a disk: {error}")
    assert counts["tried"] == count
    assert not any(counts[name] for name in ("torn", "raw", "hanging", "lost", "different", "left")), counts
