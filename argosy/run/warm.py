"""A warm start: begin with what another run has learned."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from argosy.algorithm import Algorithm
from argosy.algorithm.wrapper import AlgorithmWrapper
from argosy.data import RunningMeanStd
from argosy.env.spaces import Space, leaves, normal_form
from argosy.errors import CheckpointError, ConfigError, TrustError
from argosy.policy import Policy
from argosy.run.agentfile import opened
from argosy.run.folder import RunFolder
from argosy.run.saved import find_policy, read_file, read_saved, read_spaces

_OWN = "exploration."
"""Part of a policy that a new run begins anew, as its schedule says."""
_COMPARED = 32
"""Observations in which a policy is compared with what it was taken from."""


@dataclass(frozen=True)
class Taken:
    """What a warm start has taken over, and what is as new."""

    path: Path
    taken: list[str]
    new: list[str]

    def __str__(self) -> str:
        return f"{', '.join(self.taken)} from {self.path}; new: {', '.join([*self.new, 'optimisers'])}"


def warm_start(algorithm: Algorithm, source: str | PathLike[str]) -> Taken:
    """Give an algorithm that has just been made the parameters of another run.

    Taken are, by their names: the policy's networks with the statistics of observations; and from a full checkpoint
    the networks, parameters and running statistics of the algorithm that fit (critics and their targets, a learned
    temperature, the scale of returns). Target networks that the file lacks become copies of what was taken. New are:
    optimisers, exploration, counters, random numbers, the replay buffer, and networks that the file lacks, such as the
    value function after imitation.

    Args:
        algorithm: as it was made.
        source: the folder of a run, whose checkpoint is read; that of a fleet's run or of a fleet's policy, of which
            the best version is; or one file: checkpoint.safetensors, policy.safetensors, VERSION.safetensors, or one
            that `pack` wrote.

    Raises:
        CheckpointError: there is no such run; or its policy has other spaces or networks, which are named.
    """
    path = RunFolder(Path(source)).checkpoint
    path = path if path.is_file() else find_policy(source)
    with opened(path) as file:
        contents, spaces = read_file(file), read_spaces(file.parent)
    while isinstance(algorithm, AlgorithmWrapper):
        algorithm = algorithm.inner
    policy: Policy = algorithm.policy
    _check_spaces(policy, spaces, path)
    parts = algorithm.parts()
    copies = _copies(parts)

    both, only_here = _take_policy(policy, contents.checkpoint["state_dict"], path)
    with contextlib.suppress(TrustError, ConfigError):  # whose code is not at hand; of its numbers all is said
        _compare(policy, read_saved(path).policy(), both, path)
    taken, new = [f"policy.{name}" for name in both], [f"policy.{name}" for name in only_here]
    saved = contents.algorithm or {}
    for name, part in parts.items():
        if part is policy or not isinstance(part, nn.Module | nn.Parameter | RunningMeanStd):
            continue
        if name in saved and _take(part, saved[name]):
            taken.append(name)
        elif copies.get(name) in ("policy", *taken):
            target: nn.Module = parts[name]
            target.load_state_dict(_without_own(parts[copies[name]].state_dict()), strict=False)
            taken.append(name)
        else:
            new.append(name)
    return Taken(path, taken, new)


def _check_spaces(policy: Policy, spaces: tuple[Space, Space], path: Path) -> None:
    theirs, mine = (list(leaves(normal_form(space))) for space in (spaces[0], policy.observation_space))
    if theirs != mine:
        raise CheckpointError(
            f"init {str(path)!r} was trained on observations of {spaces[0]}, this run's are of "
            f"{policy.observation_space}"
        )
    if spaces[1] != policy.action_space:
        raise CheckpointError(
            f"init {str(path)!r} was trained to act in {spaces[1]}, this run acts in {policy.action_space}"
        )


def _take_policy(policy: Policy, saved: Mapping[str, torch.Tensor], path: Path) -> tuple[list[str], list[str]]:
    """Take over the parts that both policies have; return their names, and those that only this policy has.

    What both have must be the same in all but its numbers.
    """
    mine, theirs = _by_part(policy.state_dict()), _by_part(saved)
    both = [name for name in mine if name in theirs]
    if not both:
        raise CheckpointError(
            f"nothing of the policy in init {str(path)!r} fits: it has {', '.join(theirs)}, this "
            f"{type(policy).__name__} has {', '.join(mine)}; begin with one of the same kind"
        )
    if ("normaliser" in mine) != ("normaliser" in theirs):
        which, other = ("normalises", "does not") if "normaliser" in theirs else ("does not normalise", "does")
        raise CheckpointError(
            f"the policy in init {str(path)!r} {which} observations, this one {other}; set net.norm_obs alike"
        )
    for name in both:
        there, here = ({key: tuple(v.shape) for key, v in one[name].items()} for one in (theirs, mine))
        for key in sorted({**here, **there}, key=lambda key: key in here and key in there):  # missing ones first
            if here.get(key) != there.get(key):
                differs = f"is only {'here' if key in here else 'there'}"
                if key in here and key in there:
                    differs = f"has shape {there[key]} there, {here[key]} here"
                raise CheckpointError(
                    f"init {str(path)!r} has another policy.{name}: {key} {differs}; give both runs the same network "
                    "(net)"
                )
        policy.load_state_dict(theirs[name], strict=False)
    return both, [name for name in mine if name not in theirs]


def _compare(policy: Policy, other: Policy, both: Collection[str], path: Path) -> None:
    """Check that a policy which has taken parts of another one does the same with them.

    Raises:
        CheckpointError: they have other layers, of the same numbers (`net.activation`).
    """
    for name in both:
        layers = (one.get_submodule(name).modules() for one in (policy, other))
        for here, there in zip_longest(*layers):
            if type(here) is not type(there):
                raise CheckpointError(
                    f"init {str(path)!r} has another policy.{name}: {type(there).__name__} there, "
                    f"{type(here).__name__} here; give both runs the same network (net)"
                )
    if not {*_by_part(policy.state_dict())} <= {*both} and not {*_by_part(other.state_dict())} <= {*both}:
        return  # what acts may be new
    space = copy.deepcopy(policy.observation_space)
    space.seed(0)
    for _ in range(_COMPARED):
        obs = space.sample()
        if policy.mask_key is not None:
            obs[policy.mask_key][...] = 1
        act, before = policy.predict(obs)[0], other.predict(obs)[0]
        if not np.allclose(act, before, rtol=1e-3, atol=1e-4, equal_nan=True):
            warnings.warn(
                f"the policy of init {str(path)!r} acts otherwise here, though its numbers were taken: by {before} "
                f"there, by {act} here. Settings beside the layers differ, such as net.scale_uint8, or "
                "algorithms do: IQL and AWAC bound their means, BC and PPO do not",
                stacklevel=4,
            )
            return


def _take(part: Any, saved: Any) -> bool:
    """Take over a part of the algorithm, if it fits."""
    if isinstance(part, nn.Parameter):
        fits = isinstance(saved, torch.Tensor) and saved.shape == part.shape
        if fits:
            part.data.copy_(saved)
        return fits
    own = part.state_dict()
    if not isinstance(saved, Mapping) or own.keys() != saved.keys():
        return False
    if any(getattr(value, "shape", None) != getattr(saved[key], "shape", None) for key, value in own.items()):
        return False
    part.load_state_dict(saved)
    return True


def _copies(parts: Mapping[str, Any]) -> dict[str, str]:
    """Return the networks that began as copies of others (targets), with the name of what they are copies of."""
    states = {name: _without_own(part.state_dict()) for name, part in parts.items() if isinstance(part, nn.Module)}
    found: dict[str, str] = {}
    for name, state in states.items():
        for other, original in states.items():
            if other == name:
                break  # copies are made after what they are copies of
            if state and state.keys() == original.keys() and all(v.equal(original[key]) for key, v in state.items()):
                found[name] = other
                break
    return found


def _without_own(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if not key.startswith(_OWN)}


def _by_part(state: Mapping[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """Return the numbers of each part of a policy, by the part's name."""
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in _without_own(state).items():
        parts.setdefault(key.partition(".")[0], {})[key] = value
    return parts
