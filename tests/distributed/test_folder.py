import json

import pytest

from argosy.distributed.folder import FolderClaim
from argosy.errors import ConfigError


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
