"""Fleets that would stand still go on, are refused, or say why."""

import dataclasses
import re
import time

import gymnasium as gym
import numpy as np
import pytest
from games import Line

from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec, StalenessConfig
from argosy.distributed.host.supervisor import FleetError
from argosy.distributed.snapshot import Standstill
from argosy.env import StepResult, register, registered_environments
from argosy.errors import ConfigError
from argosy.presets import preset

PPO = preset("ppo", "CartPole-v1", seed=1, env={"num_envs": 4}, trainer={"step_per_collect": 128})
DQN = preset("dqn", "CartPole-v1", seed=1, trainer={"start_steps": 200, "update_per_step": 0.05})


def fleet(experiment=PPO, spec=None, **changes):
    settings = {
        "name": "still",
        "policies": {"p": PolicySpec(experiment=experiment, **spec or {})},
        "agents": (AgentSpec(policy="p", sample_steps=16),),
        "evaluation": EvalGroup(count=0),
        "stop": FleetStop(updates=6, wall_s=40),
    }
    return Fleet(**settings | changes)


@pytest.mark.parametrize("experiment", [PPO, DQN], ids=["onpolicy", "offpolicy"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_synchronous_fleet_has_rings_of_any_length(experiment, count, tmp_path):
    description = fleet(experiment, sync=True, actors=ActorGroup(count=count, ring=3))
    run = FleetRun(description, tmp_path / "run", interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures


class DoneEarly(Line):
    """Its second agent is done after one step."""

    def step(self, actions):
        first, _ = super().step([act or 0 for act in actions])
        return [first, StepResult(first.obs, terminated=True) if self.t == 1 else None]


class FailsOnce(Line):
    """The fourth one that is made, of the second group, fails in its third step."""

    made = 0

    def __init__(self):
        FailsOnce.made += 1
        self.fails = FailsOnce.made == 4

    def step(self, actions):
        if self.fails and self.t == 2:
            raise RuntimeError("planted")
        return super().step(actions)


def synchronous(cls, *steps, **changes):
    """-> a fleet of one policy, for a game whose agents send segments of so many steps."""
    if cls.__name__ not in registered_environments():
        register(cls.__name__, cls)
    agents = tuple(AgentSpec(agents=str(i), policy="p", sample_steps=own) for i, own in enumerate(steps))
    return fleet(dataclasses.replace(PPO, task=cls.__name__), sync=True, agents=agents, **changes)


def test_segments_that_wait_for_each_other_are_refused(tmp_path):
    assert FleetRun(synchronous(Line, 8, 8), tmp_path / "run").run().reason == "updates reached"
    with pytest.raises(ConfigError, match=r"end at different steps: .* are \[\(8, 0\), \(16, 0\)\]"):
        synchronous(Line, 8, 16)
    with pytest.raises(FleetError, match=r"agents that act in every step, but 0 of 4 have.*no restart"):
        FleetRun(synchronous(DoneEarly, 8, 8), tmp_path / "early").run()


def test_an_env_that_fails_in_a_synchronous_ring_holds_up_nobody(tmp_path):
    description = synchronous(FailsOnce, 8, 8, actors=ActorGroup(ring=2, num_envs=1))
    assert FleetRun(description, tmp_path / "run").run().reason == "updates reached"
    assert FailsOnce.made > 4


def test_dropping_needs_parameters_that_come_often_enough(tmp_path):
    with pytest.raises(ConfigError, match="allow max_lag=2 or more"):
        fleet(spec={"staleness": StalenessConfig(rule="drop", max_lag=1), "publish_updates": 3})
    spec = {"staleness": StalenessConfig(rule="drop", max_lag=2), "publish_updates": 3}
    run = FleetRun(fleet(spec=spec, stop=FleetStop(updates=12, wall_s=40)), tmp_path / "run", interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures


def forever(fields, policy):
    time.sleep(5)
    return fields


def test_a_fleet_that_learns_nothing_says_so_once_and_why(tmp_path):
    """Its segments are processed for longer than it has patience."""
    impatient = PPO.replaced({"trainer.standstill_s": 1.0})
    description = fleet(impatient, {"buffers": 1, "process": forever}, stop=FleetStop(updates=1, wall_s=3))
    run = FleetRun(description, tmp_path / "run", interval_s=0.1)
    with pytest.warns(UserWarning, match="fleet 'still': nothing was learned for 1 s") as said, run:
        snapshots = list(run)
    assert len(said) == 1
    shown = [snapshot.standstill for snapshot in snapshots if snapshot.standstill]
    assert len(shown) > 1
    assert "actor.0: waits for its segments to be taken" in shown[-1]
    assert "trainer.p.0: waits for segments" in shown[-1]
    assert "buffer.p.0: processed 0 segments" in shown[-1]
    log = (tmp_path / "run" / "standstill.log").read_text()
    assert str(tmp_path / "run" / "standstill.log") in str(said[0].message)
    of_buffer = log[log.index("-- buffer.p.0:") :]
    assert "in forever\n" in of_buffer
    assert "-- " in log[: log.index("-- buffer.p.0:")]


class Stuck(gym.Env):
    """Hangs in its twentieth step, for as long as the test takes."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        while self.steps >= 20:
            time.sleep(0.1)
        return np.zeros(3, np.float32), 0.0, False, False, {}


def test_envs_that_hang_in_processes_of_a_worker_are_told_of_with_their_stacks(tmp_path):
    gym.register("Stuck-v0", Stuck)
    env = {"num_envs": 2, "vector": "subproc"}
    stuck = PPO.replaced({"task": "Stuck-v0", "env": env, "trainer.standstill_s": 2.0})
    run = FleetRun(fleet(stuck, stop=FleetStop(updates=1, wall_s=15)), tmp_path / "run", interval_s=0.1)
    with pytest.warns(UserWarning, match="actor.0: stands in a step of its environments"), run:
        next(snapshot for snapshot in run if snapshot.standstill)
    log = (tmp_path / "run" / "standstill.log").read_text()
    of_actor = log[log.index("-- actor.0:") :]
    assert re.search(r"-- .*env 1 \(pid \d+, busy with env 1\)", of_actor)
    assert re.search(r"test_standstill.py\", line \d+ in step", of_actor)


def workers(**said):
    return {name.replace("_", ".", 2): {"state": "running", **counts} for name, counts in said.items()}


def test_who_waits_for_whom():
    watch = Standstill(10.0)
    start = workers(actor_0={"steps": 5.0}, trainer_p_0={"updates": 1.0, "env_steps": 8.0}, eval_0={"steps": 0.0})
    assert watch.look(start, 100.0) == ""
    later = workers(
        actor_0={"steps": 9.0, "wait_parameters_s": 0.1},
        actor_1={"state": "starting"},
        trainer_p_0={"updates": 1.0, "env_steps": 8.0, "dropped": 3.0, "wait_s": 11.0},
        eval_0={"steps": 900.0},
    )
    assert watch.look(later, 109.0) == ""
    assert watch.look(later, 111.0) == (
        "nothing was learned for 11 s (actor.0: made 4 steps; actor.1: starting; trainer.p.0: dropped 3 segments, "
        "which lag by more than staleness.max_lag allows)"
    )
    later["trainer.p.0"] = {**later["trainer.p.0"], "env_steps": 9.0}
    assert watch.look(later, 112.0) == ""  # it has taken something in
    stuck = {**later, "actor.0": {**later["actor.0"], "wait_parameters_s": 15.0}}
    assert "actor.0: waits for parameters" in watch.look(stuck, 130.0)


def test_without_trainers_steps_count():
    watch = Standstill(10.0)
    assert watch.look(workers(actor_0={"steps": 1.0}), 0.0) == ""
    assert watch.look(workers(actor_0={"steps": 2.0}), 11.0) == ""
    assert watch.look(workers(actor_0={"steps": 2.0}), 22.0) == (
        "nothing was done for 11 s (actor.0: stands in a step of its environments)"
    )


def test_patience_may_be_endless():
    watch = Standstill(None)
    assert watch.look(workers(actor_0={"steps": 1.0}), 0.0) == ""
    assert watch.look(workers(actor_0={"steps": 1.0}), 1e9) == ""
