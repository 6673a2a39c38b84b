"""Play with the policies of a fleet's run, each agent with its own, as the fleet's evaluation does."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Unpack

from argosy.collect.player import Inline, Player, play_out
from argosy.collect.seats import Arena
from argosy.collect.source import Agents, EnvSource
from argosy.config import to_plain
from argosy.data import CollectStats
from argosy.errors import ConfigError
from argosy.files import damage_named, read_json, write_atomically
from argosy.process import computing_threads, device_here
from argosy.run.folder import environment_of
from argosy.run.saved import Which, find_policy, fleet_policies, named_policy, read_saved

FILE = "agents.json"


def write_agents(
    directory: Path, experiment_of: str, agents: Iterable[tuple[str, str, int]], env_args: Mapping[str, object]
) -> None:
    """Write down who plays in a fleet: policy, pattern of the agents' numbers and frames to stack of each agent spec.

    The experiment of the policy `experiment_of` says task and environment; arguments of a registered one that JSON
    cannot hold are left out.
    """
    args: object = None
    with contextlib.suppress(ConfigError):
        args = to_plain(env_args)
    specs = [{"policy": policy, "agents": pattern, "frame_stack": stack} for policy, pattern, stack in agents]
    text = json.dumps({"experiment_of": experiment_of, "agents": specs, "env_args": args})
    write_atomically(directory / FILE, (text + "\n").encode())


def play(
    path: Path,
    episodes: int,
    seed: int,
    *,
    trust: bool = False,
    on_step: Callable[[Arena], bool] = lambda arena: True,
    render_mode: str | None = None,
    **which: Unpack[Which],
) -> CollectStats:
    """Play without exploration, see `argosy.evaluate`; policies that are not asked about play in their best version.

    Args:
        path: the run's folder.
        episodes: of the policy that is asked about, at least; every environment plays equally many.
        seed: of the environments.
        trust: see `load`.
        on_step: called before each step; False ends it.
        render_mode: "rgb_array": one environment that gives pictures.
        which: policy, version and tag of the one that is asked about.
    """
    which["policy"] = asked = named_policy(path, fleet_policies(path), which.get("policy"))
    chosen, data = find_policy(path, **which), read_json(path / FILE)
    with damage_named(path / FILE):
        if data["env_args"] is None:
            raise ConfigError(f"the environments of {str(path)!r} were made with arguments that JSON cannot hold")
        names = [spec["policy"] for spec in data["agents"]]
        files = {name: find_policy(path, policy=name) for name in set(names)} | {asked: chosen}
        saved = {name: read_saved(file, trust=trust) for name, file in files.items()}
        experiment = saved[data["experiment_of"]].experiment
        policies = {name: one.policy(device_here(one.experiment.device)).eval() for name, one in saved.items()}
        agents = [Agents(spec["agents"], spec["frame_stack"]) for spec in data["agents"]]
        source = EnvSource.of(experiment.task, data["env_args"], experiment.env, agents)
    num_envs = 1 if render_mode is not None else min(experiment.env.test_num_envs, episodes)
    with environment_of(path):
        arena = source.arena(num_envs, seed, test=True, render_mode=render_mode)
    with contextlib.closing(arena), computing_threads(experiment.threads):
        seats = [(seat, policies[names[seat.spec]]) for seat in arena.seats]
        players = [Player(seat, policy, Inline(policy), deterministic=True) for seat, policy in seats]
        played = play_out(arena, players, -(-episodes // num_envs), on_step)
    judged = [stats for stats, seat in zip(played, arena.seats, strict=True) if names[seat.spec] == asked]
    return CollectStats.merged(judged) or CollectStats()
