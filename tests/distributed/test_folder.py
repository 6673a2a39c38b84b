import json

import pytest

from argosy.distributed.folder import FolderClaim, results_of
from argosy.distributed.workers.trainer import KIND
from argosy.errors import ConfigError
from argosy.trainer.statefile import write_state


def test_one_driver_at_a_time(tmp_path):
    folder = tmp_path / "run"
    first = FolderClaim(folder, "x", resume=False)
    assert first.generation == 0
    for resume in (True, False):
        with pytest.raises(ConfigError, match=r"is in use by process \d+"):
            FolderClaim(folder, "x", resume=resume)
    first.release()
    second = FolderClaim(folder, "x", resume=True)
    assert second.generation == 1
    assert json.loads((folder / "fleet.json").read_text())["generation"] == 1
    second.release()


def test_new_and_old_folders_are_told_apart(tmp_path):
    with pytest.raises(ConfigError, match="no fleet to resume"):
        FolderClaim(tmp_path / "run", "x", resume=True)
    assert not (tmp_path / "run").exists()
    FolderClaim(tmp_path / "run", "x", resume=False).release()
    with pytest.raises(ConfigError, match="holds a fleet already"):
        FolderClaim(tmp_path / "run", "x", resume=False)
    (tmp_path / "run" / "stop").touch()
    FolderClaim(tmp_path / "run", "x", resume=True).release()  # the refused one has let go of it
    assert not (tmp_path / "run" / "stop").exists()


def test_results_of_lost_versions_are_forgotten(tmp_path):
    """Those that are above what the trainer goes on from, which will be learned anew."""
    file, row = tmp_path / "evaluations.jsonl", {"return_std": 0.0, "length_mean": 9.0, "episodes": 2, "time": 1.0}
    played = [("p", 3), ("q", 9), ("p", 4), ("fixed", 7)]
    rows = [json.dumps(row | {"policy": name, "version": version, "return_mean": 1.0}) for name, version in played]
    file.write_text("\n".join([*rows, rows[0][:20]]))
    write_state(tmp_path / "trainer.p.0.safetensors", KIND, {"algorithm": {"version": 3}})
    found = results_of(file, ["p", "q"])  # q has never been saved
    assert [(result.policy, result.version) for result in found] == [("p", 3), ("fixed", 7)]
    assert results_of(file, []) == found
    (tmp_path / "trainer.p.0.safetensors").write_bytes(b"damaged")
    assert results_of(file, ["p"]) == found
