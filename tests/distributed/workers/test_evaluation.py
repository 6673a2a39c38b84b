import time
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import CollectStats
from argosy.distributed import (
    AgentSpec,
    EvalGroup,
    Fleet,
    FleetError,
    FleetRun,
    FleetStop,
    PolicySpec,
    RestartConfig,
)
from argosy.distributed.host.base import Context, PeerLostError, failed, resolved
from argosy.distributed.store.parameters import ParameterStore
from argosy.distributed.workers.evaluation import EvalWorker, Listener
from argosy.env import Environment, StepResult, register, registered_environments
from argosy.errors import CheckpointError
from argosy.presets import preset


class Evaluator:
    """Answers as an evaluation worker that is restarted."""

    def __init__(self):
        self.incarnation, self.found, self.there = 0, [], True

    def call(self, method, incarnation, start):
        answer = Future()
        if self.there:
            answer.set_result((self.incarnation, self.found[start if incarnation == self.incarnation else 0 :]))
        else:
            answer.set_exception(PeerLostError("restarting"))
        return answer


def test_listener_hears_each_result_once_across_restarts():
    worker = Evaluator()
    listener = Listener(worker)
    assert listener.poll() == []
    worker.found = ["a", "b"]
    assert listener.poll() == ["a", "b"]
    assert listener.poll() == []
    worker.there = False
    assert listener.poll() == []
    worker.there, worker.incarnation, worker.found = True, 1, ["c"]  # fewer than were heard of the one before
    assert listener.poll() == ["c"]
    worker.found = ["c", "d"]
    assert listener.poll() == ["d"]


def make_worker(store):
    group = SimpleNamespace(stage="", set_stage=lambda stage: None)
    reader = SimpleNamespace(poll=lambda: False, token=1, policy=SimpleNamespace(version=3))
    return EvalWorker(
        Context("eval.0", 0, Mock()), group, {"p": reader}, store, num_envs=1, episodes=1,
        cores=1.0, targets={}, env_failures=0, stage="",
    )  # fmt: skip


def test_results_are_kept_until_they_are_heard():
    worker = make_worker(Mock())
    listener = Listener(SimpleNamespace(call=lambda _, *asked: resolved(worker.results(*asked))))
    for found in range(5):
        worker._results.append(found)
        assert listener.poll() == [found]
    assert len(worker._results) == 1


@pytest.mark.parametrize("error", [PeerLostError("restarting"), CheckpointError("dropped"), None])
def test_a_store_that_cannot_answer_costs_no_evaluation(error):
    """The next version may be far away, and of a policy that only plays there is none."""
    called = []

    def call(*args):
        called.append(args)
        return failed(error) if error is not None and len(called) == 1 else resolved(None)

    worker = make_worker(SimpleNamespace(call=call))
    assert worker._begin() or worker._begin()
    assert called[-1] == ("tag", "p", 3, "eval.0")
    assert not worker._begin()  # it is evaluated


def test_what_the_trainer_has_gone_back_behind_is_no_result():
    """Another version may have its number by now: the store says whether the one that was pinned is still there."""
    store = ParameterStore()
    for version in (2, 3):
        store.push("p", {"version": version, "state_dict": {"w": torch.zeros(1)}})

    def call(method, *args):
        try:
            if method == "tag_best":
                name, version, values, key, tag, pin = args
                return resolved(store.tag_best(name, version, values, key=key, tag=tag, pin=pin))
            return resolved(store.tag(*args))
        except CheckpointError as error:
            return failed(error)

    def evaluated():
        assert worker._begin()
        yield
        worker._group.seated = [SimpleNamespace(policy=worker._readers["p"].policy)]
        played = SimpleNamespace(stats=lambda: CollectStats(returns=np.array([5.0]), lens=np.array([7])))
        yield worker._report([played], 1)

    worker = make_worker(SimpleNamespace(call=call))
    assert [*evaluated()] == [None, 0]
    assert [result.version for result in worker.results(0, 0)[1]] == [3]
    assert store.tags("p") == {"latest": 3, "eval.0": 3, "best": 3}
    worker._evaluated, going_on = {}, evaluated()
    next(going_on)
    store.roll_back("p", 2)
    store.push("p", {"version": 3, "state_dict": {"w": torch.ones(1)}})
    assert next(going_on) == 0
    assert len(worker.results(0, 0)[1]) == 1
    assert store.tags("p") == {"latest": 3, "best": 2}


def test_a_poll_takes_no_longer_than_a_step_of_slow_environments():
    """However many steps an evaluation has: the watchdog bounds a poll."""
    worker = make_worker(Mock())
    slow = (time.sleep(0.05) for _ in range(100))
    worker._evaluation = slow
    start = time.monotonic()
    worker.poll()
    assert time.monotonic() - start < 1.0
    assert worker._evaluation is slow
    worker._evaluation = iter([None, None])
    worker.poll()
    assert worker._evaluation is None


class Tripping(Environment):
    """Ten steps of two agents; an instance raises in its 26th."""

    agent_count = 2
    observation_spaces = (spaces.Box(-1, 1, (2,)),) * 2
    action_spaces = (spaces.Discrete(2),) * 2

    def __init__(self):
        self.steps = self.t = 0

    def reset(self):
        self.t = 0
        return [StepResult(np.zeros(2, np.float32))] * 2

    def step(self, actions):
        self.t += 1
        self.steps += 1
        if self.steps == 26:
            raise RuntimeError("the simulator crashed")
        return [StepResult(np.zeros(2, np.float32), 1.0, terminated=self.t == 10)] * 2


def fleet(**evaluation):
    if "tripping" not in registered_environments():
        register("tripping", Tripping)
    experiment = preset("ppo", "CartPole-v1", trainer={"step_per_collect": 64}, env={"num_envs": 4})
    return Fleet(
        name="tripping",
        policies={"p": PolicySpec(experiment=replace(experiment, task="tripping"))},
        agents=(AgentSpec(policy="p", sample_steps=16),),
        evaluation=EvalGroup(num_envs=2, episodes=4, **evaluation),
        stop=FleetStop(wall_s=30),
        restart=RestartConfig(budget=0),
    )


def test_evaluation_survives_its_environments(tmp_path):
    with FleetRun(fleet(), tmp_path / "run", interval_s=0.05) as driver:
        last = next(s for s in driver if len(driver.results) >= 3 and s.workers["eval.0"].get("env_failures", 0) >= 2)
    assert last.workers["eval.0"]["restarts"] == 0
    assert {(result.episodes, result.return_mean) for result in driver.results} == {(4, 10.0)}
    assert driver.store().metadata("p", driver.store().version_of("p", "best"))["return_mean"] == 10.0


def test_evaluation_does_not_survive_without_end(tmp_path):
    driver = FleetRun(fleet(env_failures=0), tmp_path / "run", interval_s=0.05)
    with pytest.raises(FleetError, match=r"evaluation\.env_failures=0 allows; .*the simulator crashed"), driver:
        list(driver)


def test_best_is_best_for_every_evaluator(tmp_path):
    store = ParameterStore(tmp_path)
    for version in range(3):
        store.push("p", {"version": version, "state_dict": {"w": torch.zeros(1)}})
    assert store.tag_best("p", 0, {"return_mean": 5.0}, key="return_mean", tag="best")
    assert not ParameterStore(tmp_path).tag_best("p", 1, {"return_mean": 4.0}, key="return_mean", tag="best")
    assert store.version_of("p", "best") == 0
    assert store.tag_best("p", 2, {"return_mean": 6.0}, key="return_mean", tag="best")
    assert store.tags("p") == {"latest": 2, "best": 2}
    assert store.metadata("p", 2)["return_mean"] == 6.0
