"""Try a fleet out: one worker of each kind, in threads, before it runs on many machines."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from argosy.distributed.fleet import Fleet
from argosy.distributed.host.supervisor import FleetError, RestartConfig
from argosy.distributed.run import FleetRun
from argosy.distributed.snapshot import Snapshot
from argosy.distributed.specs import EvalGroup, FleetStop
from argosy.experiment import StopConfig


def test_pipeline(
    fleet: Fleet,
    *,
    updates: int = 2,  # noqa: PT028  # not a test
    timeout_s: float = 120.0,  # noqa: PT028
) -> Snapshot:
    """Run one worker of each kind in threads until every policy has learned and was evaluated by two episodes.

    What passes here, the fleet runs.

    Args:
        fleet: the description, as it is; counts of workers are reduced, no failure is forgiven.
        updates: updates that each learning policy must make.
        timeout_s: seconds that this may take.

    Raises:
        FleetError: a worker failed (the message holds its traceback), an environment failed, or time ran out.
    """
    small = dataclasses.replace(
        fleet,
        policies={
            name: dataclasses.replace(
                spec,
                experiment=dataclasses.replace(spec.experiment, stop=StopConfig()),
                trainers=1,
                workers=min(spec.workers, 1),
                buffers=min(spec.buffers, 1),
                save_updates=1,
            )
            for name, spec in fleet.policies.items()
        },
        actors=dataclasses.replace(fleet.actors, count=1, env_failures=0),
        evaluation=EvalGroup(num_envs=1, episodes=2, share=1.0),
        restart=RestartConfig(budget=0, watchdog_s=timeout_s),
        stop=FleetStop(wall_s=timeout_s),
    )
    with tempfile.TemporaryDirectory() as folder, FleetRun(small, Path(folder) / "run", interval_s=0.1) as run:
        for snapshot in run:
            learned = all(count >= updates for count in snapshot.updates.values())
            if learned and set(snapshot.evaluations) == set(small.policies):
                return snapshot
    missing = [name for name, count in snapshot.updates.items() if count < updates]
    raise FleetError(
        f"after {timeout_s:.0f} s "
        + (f"the policies {missing} had not learned {updates} times" if missing else "no episode had ended")
        + f"; env steps so far: {dict(snapshot.env_steps)}"
    )


test_pipeline.__test__ = False  # type: ignore[attr-defined]  # tells pytest that this is no test
