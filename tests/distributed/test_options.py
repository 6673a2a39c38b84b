"""What an agent spec can ask for, through a whole fleet in threads."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from games import Pairs
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig
from argosy.data import TrainingStats
from argosy.distributed import (
    GAE,
    ActorGroup,
    AgentSpec,
    CurriculumStage,
    EvalGroup,
    Fleet,
    FleetRun,
    FleetStop,
    NStep,
    PolicySpec,
    RestartConfig,
    test_pipeline,
)
from argosy.distributed.curriculum import Curriculum
from argosy.env import Environment, StepResult, register, registered_environments
from argosy.errors import CheckpointError, ConfigError
from argosy.net import Linear, NetConfig
from argosy.policy import ActorCriticPolicy
from argosy.presets import preset


class Steps(Environment):
    """One agent sees the step's number, is paid it times what the stage says, and ends after six steps."""

    agent_count = 1
    stage = 1.0

    def __init__(self, length=6):
        self.length = length
        self.observation_spaces = [spaces.Box(0, 100, (1,))]
        self.action_spaces = [spaces.Discrete(2)]

    def set_curriculum_stage(self, name):
        self.wanted = {"easy": 1.0, "hard": 5.0}[name]

    wanted = 1.0

    def reset(self):
        self.t, self.stage = 0, self.wanted
        return [StepResult(np.zeros(1, np.float32))]

    def step(self, actions):
        self.t += 1
        over = self.t == self.length
        return [StepResult(np.full(1, self.t, np.float32), self.stage * self.t, over, info={"length": self.t})]


for name, cls in {"steps": Steps, "pairs": Pairs}.items():
    if name not in registered_environments():
        register(name, cls)


class Keep(Algorithm):
    """Keeps the batches that it is given, and counts itself as learning."""

    kind = "onpolicy"
    config_type = AlgorithmConfig
    batches = ()

    @classmethod
    def build(cls, config, task):
        raise NotImplementedError

    def update(self, batch):
        Keep.batches = (*Keep.batches, batch)
        self.num_updates += 1
        self.policy.version += 1
        return TrainingStats()


def fleet(algorithm=Keep, policy="actor-critic", task="steps", spec=None, **agent):
    experiment = preset("ppo", "CartPole-v1", trainer={"step_per_collect": 24}, env={"num_envs": 2})
    made = PolicySpec(experiment=dataclasses.replace(experiment, task=task), policy=policy, algorithm=algorithm)
    return Fleet(
        name="options",
        policies={"p": dataclasses.replace(made, **(spec or {}))},
        agents=(AgentSpec(policy="p", **{"sample_steps": 4, **agent}),),
        stop=FleetStop(wall_s=60),
    )


def kept(description, updates=3):
    Keep.batches = ()
    snapshot = test_pipeline(description, updates=updates)
    return Keep.batches[:updates], snapshot


def test_burn_in_bootstrap_and_frames_come_as_described():
    batches, snapshot = kept(fleet(burn_in_steps=2, bootstrap_steps=1, frame_stack=3, sample_steps=4))
    for batch in batches:
        assert batch.rew.shape[0] == 7
        assert batch.mask[:, 0].tolist() == [False, False, True, True, True, True, False]
        assert batch.obs.shape[2:] == batch.obs_next.shape[2:] == (3, 1)
    first = batches[0]
    times = first.obs[:, ::2, -1, 0].T.tolist()  # of one env; its segments stand side by side
    assert times == [[0, 0, 0, 1, 2, 3, 4], [2, 3, 4, 5, 0, 1, 2], [0, 1, 2, 3, 4, 5, 0]]
    assert first.obs[4, 0, :, 0].tolist() == [0, 1, 2]
    assert first.obs_next[6, 0, :, 0].tolist() == [3, 4, 5]
    assert snapshot.env_steps["p"] % (4 * 2) == 0  # overlaps count once


def test_whole_episodes_padded_with_returns_and_info():
    def to_go(fields, policy):
        assert isinstance(policy, ActorCriticPolicy)
        return {**fields, "returns": np.cumsum(fields["rew"][::-1], axis=0)[::-1]}

    agent = {"sample_steps": 8, "whole_episodes": True, "pad": True, "postprocess": to_go, "episode_info": ("length",)}
    batches, snapshot = kept(fleet(**agent))
    for batch in batches:
        assert batch.returns[:, 0].tolist() == [21, 20, 18, 15, 11, 6, 0, 0]
        assert batch.mask[:, 0].tolist() == [True] * 6 + [False] * 2
    assert snapshot.workers["trainer.p.0"]["info/length"] == 6.0
    assert snapshot.workers["trainer.p.0"]["return_mean"] == 21.0


def test_segments_sent_after_done_hold_advantages_of_the_whole_episode():
    agent = {"send_after_done": True, "pad": True, "postprocess": GAE(gamma=1.0, gae_lambda=1.0)}
    batches, _ = kept(fleet(**agent))
    for batch in batches:
        first = batch.obs[0, :, 0] == 0
        np.testing.assert_allclose(batch.returns[0, first], 21.0, rtol=1e-5)
        np.testing.assert_allclose(batch.returns[0, ~first], 5 + 6, rtol=1e-5)  # the second piece begins at step 4


def test_n_step_transitions_reach_the_algorithm():
    batches, _ = kept(fleet(sample_steps=6, bootstrap_steps=1, postprocess=NStep(n=2, gamma=0.5)))
    batch = batches[0]
    assert batch.rew[:, 0].tolist() == [1 + 1, 2 + 1.5, 3 + 2, 4 + 2.5, 5 + 3, 6, 1]
    assert batch.discount[:, 0].tolist() == [0.25, 0.25, 0.25, 0.25, 0, 0, 0.5]
    assert batch.obs_next[:, 0, 0].tolist() == [2, 3, 4, 5, 6, 6, 1]


@pytest.mark.parametrize(
    "agent",
    [
        {"burn_in_steps": 1, "bootstrap_steps": 2},
        {"send_after_done": True, "pad": True, "sample_steps": 4},
        {"whole_episodes": True, "sample_steps": 10, "frame_stack": 2},
    ],
)
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_the_usual_algorithms_learn_with_all_of_it(algorithm, agent):
    experiment = preset(algorithm, "CartPole-v1", env={"num_envs": 2})
    changes = {"trainer.step_per_collect": 24}
    if algorithm == "dqn":
        changes |= {"trainer.start_steps": 0, "trainer.batch_size": 16, "trainer.update_per_step": 0.1}
    experiment = dataclasses.replace(experiment.replaced(changes), task="steps")
    made = fleet(algorithm=None, policy=None, spec={"experiment": experiment}, **agent)
    assert test_pipeline(made).updates["p"] >= 2


def test_deterministic_agents_do_not_explore():
    batches, _ = kept(fleet(deterministic=True, sample_steps=6))
    acts = np.concatenate([batch.act.ravel() for batch in batches])
    obs = np.concatenate([batch.obs.ravel() for batch in batches])
    versions = {(o, a) for o, a in zip(obs.tolist(), acts.tolist(), strict=True)}
    assert len(versions) == len(set(obs.tolist()))  # `Keep` changes no parameter: one action per observation


def test_a_policy_by_name_takes_typed_arguments():
    spec = {"args": {"net": NetConfig(hidden_sizes=(7,)), "action_bound_method": None}}
    policy = fleet(spec=spec).policies["p"]
    made = policy.make_algorithm(spaces.Box(0, 1, (1,)), spaces.Discrete(2), seed=1).policy
    assert isinstance(made, ActorCriticPolicy)
    assert next(layer for layer in made.modules() if isinstance(layer, Linear)).out_features == 7


def test_agents_of_one_policy_must_be_alike(tmp_path):
    experiment = dataclasses.replace(preset("ppo", "CartPole-v1"), task="pairs")
    description = Fleet(
        name="unlike",
        policies={"p": PolicySpec(experiment=experiment)},
        agents=(AgentSpec(agents="0", policy="p"), AgentSpec(agents="1", policy="p")),
        stop=FleetStop(updates=1),
    )
    with pytest.raises(ConfigError, match="the agents of policy 'p' differ in their spaces"):
        FleetRun(description, tmp_path / "run")


def test_a_curriculum_goes_on_by_evaluations_and_is_kept(tmp_path):
    description = dataclasses.replace(
        fleet(),
        curriculum=(CurriculumStage(name="easy", return_mean={"p": 21.0}), CurriculumStage(name="hard")),
        actors=ActorGroup(count=2),
        evaluation=EvalGroup(num_envs=2, episodes=2),
        stop=FleetStop(return_mean={"p": 5 * 21.0}, wall_s=60),
    )
    driver = FleetRun(description, tmp_path / "run", interval_s=0.1)
    stages = []
    with driver:
        for snapshot in driver:
            stages.append(snapshot.stage)
    assert snapshot.reason == "return reached"
    assert stages[-1] == "hard"
    assert {(r.stage, r.return_mean) for r in driver.results} == {("easy", 21.0), ("hard", 105.0)}
    assert driver.best("p").return_mean == 105.0
    rows = [json.loads(line) for line in (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()]
    assert [row["stage"] for row in rows] == [result.stage for result in driver.results]
    (tmp_path / "run" / "stage").write_text("easy")  # as if the driver had died with the evaluation on record
    resumed = FleetRun(description, tmp_path / "run", resume=True, interval_s=0.1)
    assert resumed.curriculum.stage == "hard"
    assert resumed.run().reason == "return reached"
    assert resumed.results == driver.results
    Keep.batches = ()
    for_ever = dataclasses.replace(description, stop=FleetStop(wall_s=60))
    with pytest.raises(CheckpointError, match=r"says stage 'hard', which the curriculum lacks: \[\]"):
        FleetRun(dataclasses.replace(for_ever, curriculum=()), tmp_path / "run", resume=True)
    again = FleetRun(for_ever, tmp_path / "run", resume=True, interval_s=0.1)
    assert again.curriculum.stage == "hard"
    assert again.results == driver.results
    with again:
        next(snapshot for snapshot in again if Keep.batches)
    assert max(batch.rew.max() for batch in Keep.batches) == 30.0  # actors that are made anew begin in the hard stage


def test_a_lost_version_ends_no_stage(tmp_path):
    stages = (CurriculumStage(name="easy", return_mean={"p": 1.0, "q": 1.0}), CurriculumStage(name="hard"))
    curriculum = Curriculum(stages, tmp_path, [])
    p, q = (SimpleNamespace(policy=name, stage="easy", return_mean=1.0) for name in "pq")
    curriculum.hear(p)
    curriculum.forget()
    curriculum.hear(q)
    assert curriculum.stage == "easy"
    curriculum.hear(p)
    assert curriculum.stage == "hard"


class Leaking(Steps):
    """Raises when it has made twenty steps."""

    made = 0

    def step(self, actions):
        self.made += 1
        if self.made == 20:
            raise RuntimeError("the hull leaks")
        return super().step(actions)


def test_failures_of_environments_are_told_with_their_traceback(tmp_path):
    if "leaking" not in registered_environments():
        register("leaking", Leaking)
    description = dataclasses.replace(
        fleet(task="leaking"), evaluation=EvalGroup(count=0), stop=FleetStop(wall_s=30), actors=ActorGroup(count=2)
    )
    file = tmp_path / "run" / "failures.jsonl"
    with FleetRun(description, tmp_path / "run", interval_s=0.1) as driver:
        for _ in driver:
            if file.exists():
                break
        assert not driver.supervisor.failures  # the workers go on
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert {record["role"] for record in records} <= {"actor.0", "actor.1"}
    assert "the hull leaks" in records[0]["traceback"]
    assert "the worker goes on" in records[0]["reason"]


def judged(fields, policy):
    """Say which version the segment met on its way; one call fails, after it has written into what it was given."""
    judged.calls += 1
    fields["rew"] += 100
    if judged.calls == judged.fail_at:
        raise ZeroDivisionError("planted")
    return {**fields, "judge": np.full(fields["rew"].shape, policy.version)}


@pytest.mark.parametrize("fail_at", [0, 3])
def test_buffer_workers_process_segments_with_the_newest_parameters(fail_at, tmp_path):
    judged.calls, judged.fail_at, Keep.batches = 0, fail_at, ()
    description = dataclasses.replace(
        fleet(spec={"buffers": 2, "process": judged}),
        actors=ActorGroup(count=2),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=60, wall_s=60),
        restart=RestartConfig(backoff_s=0.05, beat_s=0.05),
    )
    snapshot = FleetRun(description, tmp_path / "run", interval_s=0.1).run()
    assert snapshot.reason == "updates reached"
    buffers = [worker for name, worker in snapshot.workers.items() if name.startswith("buffer.p.")]
    assert len(buffers) == 2
    assert sum(worker["restarts"] for worker in buffers) == (fail_at > 0)
    assert all(worker.get("segments", 1) > 0 for worker in buffers)  # one that has just been started says nothing yet
    for batch in Keep.batches:
        assert (batch.rew == batch.obs[..., 0] + 1 + 100).all()
    newest = [int(batch.judge.max()) for batch in Keep.batches]
    assert newest == sorted(newest)
    assert newest[-1] > newest[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buffers": 1}, "set both or none"),
        ({"process": judged}, "set both or none"),
        ({"buffers": 1, "process": judged, "trainers": 2}, "fewer than trainers=2"),
    ],
)
def test_buffer_workers_need_something_to_do(settings, message):
    with pytest.raises(ConfigError, match=message):
        fleet(spec=settings)
