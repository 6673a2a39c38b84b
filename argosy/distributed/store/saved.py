"""Policies that were trained before, for those that only play."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from argosy.distributed.store.blob import decode
from argosy.distributed.store.parameters import LATEST
from argosy.errors import CheckpointError
from argosy.policy import PolicyCheckpoint
from argosy.run.folder import RunFolder
from argosy.run.play import KIND
from argosy.trainer.statefile import read_state


def read_policy(path: str | Path) -> PolicyCheckpoint:
    """Return what acting needs of a trained policy.

    Args:
        path: a run's folder or its policy.safetensors; a version of a fleet's policy, `parameters/NAME/N.safetensors`,
            or the folder of its versions: the one tagged `best`, else the latest.

    Raises:
        CheckpointError: there is none, or it is damaged; or it needs an env's wrappers that keep statistics.
    """
    path = Path(path)
    if (path / "index.json").is_file():
        tags = json.loads((path / "index.json").read_text())["tags"]
        path = path / f"{tags.get('best', tags[LATEST])}.safetensors"
    elif path.is_dir():
        path = RunFolder.find(path).best_policy
    if not path.is_file():
        raise CheckpointError(f"there is no policy to load: {str(path)!r} does not exist")
    if path.stem.lstrip("-").isdigit():
        return decode(np.fromfile(path, np.uint8))
    state = read_state(path, KIND)
    if state["env"] is not None:
        raise CheckpointError(
            f"{str(path)!r} was trained on what a wrapper of its env normalised, which agents of others lack; train it "
            "with net.norm_obs, whose statistics belong to the policy"
        )
    checkpoint: PolicyCheckpoint = state["policy"]
    return checkpoint
