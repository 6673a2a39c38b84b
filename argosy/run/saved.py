"""Policies that runs have saved: found in a folder, described by the files beside them, made again.

Beside the file of a policy lie `config.json`, the experiment, and `policy.json`, what the policy was made for: in the
folder of a run, and in the folder of each policy's versions, `parameters/NAME/`, in that of a fleet. What is missing or
damaged is a CheckpointError, code that they name and nobody has allowed a TrustError, and what cannot be imported or
used here a ConfigError.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from safetensors import SafetensorError, safe_open

from argosy.algorithm import algorithm_class
from argosy.algorithm.base import Space
from argosy.config import to_plain
from argosy.env.plain import space_from_plain, space_to_plain
from argosy.errors import CheckpointError, ConfigError, nearest
from argosy.experiment import Experiment
from argosy.files import damage_named, numbered, read_json, write_atomically
from argosy.named import check_trusted, trust_written
from argosy.policy import Policy, PolicyCheckpoint
from argosy.run.agentfile import opened
from argosy.run.folder import RunFolder, run_path
from argosy.trainer.blob import decode
from argosy.trainer.players import PlayerSpec
from argosy.trainer.statefile import read_state

POLICY, CHECKPOINT = "policy", "checkpoint"
"""Kinds of files that a local run writes."""
BEST, LATEST = "best", "latest"


class Which(TypedDict, total=False):
    """Which of the policies in a folder is meant; see `load`."""

    policy: str | None
    version: int | None
    tag: str | None


@dataclass(frozen=True)
class Own:
    """Code of the user's own that a fleet was given for a policy beside the experiment; names are "MODULE:CLASS"."""

    policy: str | None = None
    args: Mapping[str, Any] | None = field(default_factory=dict)
    """Keyword arguments of the policy; None: JSON cannot hold them."""
    algorithm: str | None = None
    learns: bool = True
    """Whether an algorithm says how the policy explores."""

    @classmethod
    def of(
        cls,
        policy: Callable[..., Policy] | None,
        args: Mapping[str, object],
        algorithm: Callable[..., object] | None,
        learns: bool = True,
    ) -> Own | None:
        """Write down what a fleet was given; None: nothing."""
        if policy is None and algorithm is None:
            return None
        plain: Any = None
        with contextlib.suppress(ConfigError):
            plain = to_plain(args)
        return cls(_name_of(policy), plain, _name_of(algorithm), learns)

    def player(self, experiment: Experiment) -> PlayerSpec:
        """Return what makes the policy."""
        if self.args is None:
            raise ConfigError(
                f"policy {self.policy!r} was made with arguments that JSON cannot hold; make it in Python, and "
                "give it the parameters by load_checkpoint"
            )
        own = None if self.algorithm is None else algorithm_class(self.algorithm)
        return PlayerSpec(experiment=experiment, policy=self.policy, args=self.args, algorithm=own, learns=self.learns)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What one file holds."""

    checkpoint: PolicyCheckpoint
    algorithm: Mapping[str, Any] | None = None
    """Of a full checkpoint: all that the algorithm holds, by name."""


@dataclass(frozen=True, kw_only=True)
class Saved(Contents):
    """A saved policy, and all that making it takes."""

    path: Path
    """The file."""
    experiment: Experiment
    spaces: tuple[Space, Space]
    """Of observations and actions."""
    own: Own | None = None

    def policy(self, device: str = "cpu") -> Policy:
        """Make the policy, as it was."""
        policy = (self.own or Own()).player(self.experiment).make_policy(*self.spaces, 0, device)
        with damage_named(self.path):
            policy.load_checkpoint(self.checkpoint)
        return policy


def load(
    path: str | PathLike[str],
    *,
    policy: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    device: str = "cpu",
    trust: bool = False,
) -> Policy:
    """Return a policy that a run has saved, ready to act: no environment is made, no data read.

        policy = argosy.load("runs/CartPole-v1/dqn/20260101-120000-1")
        action, state = policy.predict(observation)

    Args:
        path: the folder of a run, of a fleet's run, or of a fleet's policy (`parameters/NAME`); or one file of them:
            policy.safetensors, checkpoint.safetensors, VERSION.safetensors; or a file that `pack` wrote.
        policy: of a fleet with several policies: which.
        version: of a fleet: which version; those that are kept.
        tag: "best", by the tests, or "latest"; a fleet's versions may have others. None: the best, if any was tested.
        device: where it is: cpu, cuda, cuda:1, ..., or auto.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.

    Raises:
        TrustError: the run names such code, and `trust` is not set.
        CheckpointError: there is no such run, policy, version or tag, or a file is missing or damaged.
        ConfigError: the device is not there, or code that the policy needs cannot be imported.
    """
    return read_policy(path, trust=trust, policy=policy, version=version, tag=tag).policy(device).eval()


def read_policy(path: str | PathLike[str], *, trust: bool = False, **which: Unpack[Which]) -> Saved:
    """Find and read a saved policy; see `load`."""
    return read_saved(find_policy(path, **which), trust=trust)


def find_policy(
    path: str | PathLike[str], *, policy: str | None = None, version: int | None = None, tag: str | None = None
) -> Path:
    """Return the file of a saved policy; see `load`. Where there is none, the error says what there is."""
    path = run_path(path)
    if path.is_file():
        for name, value in {"policy": policy, "version": version, "tag": tag}.items():
            if value is not None:
                raise CheckpointError(f"{str(path)!r} is one file, so {name} {value!r} has nothing to choose from")
        return path
    names = fleet_policies(path)
    if names:
        return _version(path / "parameters" / named_policy(path, names, policy), version, tag)
    if policy is not None:
        raise CheckpointError(f"{str(path)!r} is the run of one policy, so there is no policy {policy!r}; leave it out")
    if path.parent.name == "parameters" or (path / "index.json").is_file():
        return _version(path, version, tag)
    folder = RunFolder.find(path)
    if version is not None:
        raise CheckpointError(f"{str(path)!r} is a local run, which keeps no versions; choose by tag, best or latest")
    files = {BEST: folder.best_policy, LATEST: folder.checkpoint}
    there = {name: file for name, file in files.items() if file.is_file()}
    if tag not in (None, *there):
        raise CheckpointError(f"the run {str(path)!r} has no policy {tag!r}; it has {', '.join(there) or 'none yet'}")
    if not there:
        raise CheckpointError(f"the run {str(path)!r} has no policy yet: it ended before its first test")
    return there[tag] if tag is not None else next(iter(there.values()))


def fleet_policies(path: str | PathLike[str]) -> list[str]:
    """Return the names of a fleet's policies; [] for the folder of something else."""
    path = run_path(path)
    if not (path / "fleet.json").is_file():
        return []
    return sorted(file.parent.name for file in (path / "parameters").glob("*/config.json"))


def named_policy(path: Path, names: list[str], policy: str | None) -> str:
    """Return which of a fleet's policies is meant."""
    if policy is None and len(names) > 1:
        raise CheckpointError(
            f"{str(path)!r} has several policies; say which one: {' or '.join(names)} (--policy, in Python policy=)"
        )
    if policy is not None and policy not in names:
        raise CheckpointError(f"{str(path)!r} has no policy {policy!r}; {nearest(policy, names)}")
    return policy or names[0]


def read_saved(path: Path, *, trust: bool = False) -> Saved:
    """Read a policy's file, and what lies beside it."""
    with opened(path) as file:
        folder = RunFolder(file.parent)
        if not folder.config.is_file():
            raise CheckpointError(
                f"beside {str(path)!r} there is no config.json, which says how the policy is made; "
                "keep the two together"
            )
        experiment = folder.experiment(trust=trust)
        own, spaces = _read_own(folder.path, trust=trust), read_spaces(folder.path)
        return Saved(**vars(read_file(file)), path=path, experiment=experiment, spaces=spaces, own=own)


def read_checkpoint(path: Path) -> PolicyCheckpoint:
    """Return the parameters that a policy's file holds, whatever lies beside it."""
    with opened(path) as file:
        return read_file(file).checkpoint


def read_file(path: Path) -> Contents:
    """Read a policy's file."""
    if path in numbered(path.parent).values():
        try:
            return Contents(checkpoint=decode(np.fromfile(path, np.uint8)))
        except OSError as error:
            raise CheckpointError(f"{str(path)!r} cannot be read: {error}") from error
    with damage_named(path):
        if _kind(path) == CHECKPOINT:
            state = read_state(path, CHECKPOINT)["algorithm"]
            while POLICY not in state["parts"]:  # of an algorithm around another one
                state = state["parts"]["inner"]
            checkpoint: PolicyCheckpoint = {"version": state["version"], "state_dict": state["parts"][POLICY]}
            return Contents(checkpoint=checkpoint, algorithm=state["parts"])
        return Contents(checkpoint=read_state(path, POLICY)["policy"])


def write_description(folder: Path, observation_space: Space, action_space: Space, own: Own | None = None) -> None:
    """Write what a policy is made for into its folder; code that is named there is trusted from now on."""
    data = {
        "observation_space": space_to_plain(observation_space),
        "action_space": space_to_plain(action_space),
        "own": to_plain(own),
    }
    trust_written(data)
    write_atomically(folder / "policy.json", (json.dumps(data) + "\n").encode())


def read_spaces(folder: Path) -> tuple[Space, Space]:
    """Return the spaces that the policies in a folder are made for."""
    data = read_json(folder / "policy.json")
    with damage_named(folder / "policy.json"):
        return space_from_plain(data["observation_space"]), space_from_plain(data["action_space"])


def _read_own(folder: Path, *, trust: bool) -> Own | None:
    """Return the code of the user's own that made the policies in a folder."""
    data = read_json(folder / "policy.json")
    check_trusted(data, repr(str(folder / "policy.json")), trust=trust)
    with damage_named(folder / "policy.json"):
        return None if data["own"] is None else Own(**data["own"])


def _name_of(code: Callable[..., object] | None) -> str | None:
    return None if code is None else f"{code.__module__}:{getattr(code, '__qualname__', type(code).__qualname__)}"


def _version(folder: Path, version: int | None, tag: str | None) -> Path:
    """Return the file of a version in the folder of a policy's versions, as the parameter store keeps them."""
    kept = numbered(folder)
    if not kept:
        raise CheckpointError(f"policy {folder.name!r} has no version yet: its fleet ended before the first one")
    if version is not None and tag is not None:
        raise CheckpointError(f"version is {version} and tag {tag!r}; give one of them")
    if version is None:
        index = folder / "index.json"  # whoever died between a version and the index has left the latest only
        with damage_named(index):
            tags = {LATEST: max(kept), **(read_json(index)["tags"] if index.exists() else {})}
        if tag is None:
            tag = BEST if BEST in tags else LATEST
        if tag not in tags:
            raise CheckpointError(f"policy {folder.name!r} has no version tagged {tag!r}; {nearest(tag, tags)}")
        version = tags[tag]
    if version not in list(kept):
        raise CheckpointError(f"policy {folder.name!r} has no version {version}; kept: {list(kept)}")
    return kept[version]


def _kind(path: Path) -> str:
    """Return what a state file is of; "" where `read_state` will refuse it."""
    with contextlib.suppress(SafetensorError, OSError, ValueError), safe_open(path, framework="pt") as file:
        return str((file.metadata() or {}).get("kind", ""))
    return ""
