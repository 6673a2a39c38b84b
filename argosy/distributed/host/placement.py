"""Which node can hold a worker, and what to say when none can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from argosy.distributed.host.base import Launcher, Resources
from argosy.errors import ConfigError


def check_resources(launcher: Launcher, wanted: Mapping[str, Resources]) -> None:
    """Refuse a fleet that the cluster can never hold.

    Raises:
        ConfigError: names what is asked for and what there is.
    """
    nodes = launcher.nodes()
    if nodes is None:
        return
    for name, resources in wanted.items():
        if why := lacking(name, resources, nodes):
            raise ConfigError(why)
    in_all, total = _sum([resources.amounts() for resources in wanted.values()]), _sum([n.amounts() for n in nodes])
    if not _fits(in_all, total):
        raise ConfigError(
            f"the fleet's {len(wanted)} workers ask for {_shown(in_all)} in all, the cluster has {_shown(total)}; use "
            "fewer workers, smaller shares (Resources), or more machines"
        )


def lacking(name: str, resources: Resources, nodes: Sequence[Resources]) -> str:
    """Say what a worker asks for, and what there is, if no node has as much; "" where one has, in use or not."""
    asked, has = resources.amounts(), [node.amounts() for node in nodes]
    if any(_fits(asked, node) for node in has):
        return ""
    there = "; ".join(_shown(node) for node in has) or "no nodes"
    return f"worker {name!r} asks for {_shown(asked)}, and no node has as much; there are {there}"


def _fits(asked: Mapping[str, float], has: Mapping[str, float]) -> bool:
    return all(amount <= has.get(key, 0.0) + 1e-9 for key, amount in asked.items())


def _sum(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    keys = sorted({key for part in parts for key in part})
    return {key: sum(part.get(key, 0.0) for part in parts) for key in keys}


def _shown(amounts: Mapping[str, float]) -> str:
    """Say amounts in words; Ray's own names of nodes, with a colon, are nobody's to ask for."""
    return ", ".join(f"{amount:g} {key}" for key, amount in amounts.items() if amount and ":" not in key) or "nothing"
