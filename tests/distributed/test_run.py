import dataclasses
import json
import sys
import time
from unittest.mock import Mock

import pytest
from slow_learner import SlowIMPALA

from argosy.cli import main
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
    Snapshot,
    StalenessConfig,
)
from argosy.distributed.host.base import Resources, ThreadLauncher
from argosy.distributed.roles import Plan, _steps_to_start
from argosy.distributed.workers.trainer import KIND
from argosy.env import Environment, register, registered_environments
from argosy.errors import CheckpointError, ConfigError
from argosy.net import NetConfig
from argosy.presets import preset
from argosy.trainer.statefile import read_state, write_state

PPO = preset("ppo", "CartPole-v1", seed=1, env={"num_envs": 4}, trainer={"step_per_collect": 128})
DQN = preset("dqn", "CartPole-v1", seed=1, trainer={"start_steps": 200, "update_per_step": 0.05})


def fleet(experiment=PPO, **changes):
    settings = {
        "name": "test",
        "policies": {"p": PolicySpec(experiment=experiment)},
        "agents": (AgentSpec(policy="p", sample_steps=16),),
        "evaluation": EvalGroup(num_envs=2, episodes=2),
        "stop": FleetStop(updates=3, wall_s=60),
    }
    return Fleet(**settings | changes)


def run(description, folder, **kwargs):
    return FleetRun(description, folder / "run", interval_s=0.1, **kwargs)


@pytest.mark.parametrize("experiment", [PPO, DQN], ids=["ppo", "dqn"])
@pytest.mark.parametrize("inference", ["inline", "shared", "ray"])
def test_asynchronous_fleet_learns_and_judges(experiment, inference, tmp_path):
    remote = inference != "inline"
    driver = run(
        fleet(
            policies={"p": PolicySpec(experiment=experiment, workers=1 if remote else 0)},
            agents=(AgentSpec(policy="p", sample_steps=16, inference=inference),),
            actors=ActorGroup(count=2, ring=2 if remote else 1),
        ),
        tmp_path,
    )
    last = driver.run()
    assert last.reason == "updates reached", driver.supervisor.failures
    assert last.updates["p"] >= 3
    assert last.env_steps["p"] >= 3 * (128 if experiment is PPO else 20)
    assert not driver.supervisor.failures
    store = driver.store()
    assert store.version_of("p", "latest") >= 1
    assert all(store.get("p", version)["version"] == version for version in store.versions("p"))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["trainer.p.0/updates"] >= 3
    assert "loss/total" in rows[-1]  # as in a local run
    assert not any(key.startswith("trainer.p.0/loss/") for key in rows[-1])
    assert json.loads((tmp_path / "run" / "status.json").read_text())["done"]


def test_wrappers_reach_the_envs(tmp_path):
    wrappers = ("FrameStack(num_stack=2)", "gymnasium.wrappers:FlattenObservation")
    experiment = dataclasses.replace(PPO, env=dataclasses.replace(PPO.env, wrappers=wrappers))
    driver = run(fleet(experiment), tmp_path)
    last = driver.run()
    assert last.reason == "updates reached", driver.supervisor.failures
    assert [space.shape for space, _ in driver.fleet.source().spaces()] == [(8,)]


def test_resume_counts_on_and_never_twice(tmp_path):
    first = run(fleet(policies={"p": PolicySpec(experiment=PPO, save_updates=1)}), tmp_path)
    before = first.run()
    with pytest.raises(ConfigError, match="holds a fleet already"):
        run(fleet(), tmp_path)
    wanted = int(before.updates["p"]) + 3  # on a busy machine the first one ends long after its third update
    after = run(fleet(stop=FleetStop(updates=wanted, wall_s=60)), tmp_path, resume=True).run()
    assert after.updates["p"] >= wanted
    assert after.env_steps["p"] > before.env_steps["p"]
    with pytest.raises(ConfigError, match="no fleet to resume"):
        FleetRun(fleet(), tmp_path / "nothing", resume=True)


def test_a_resumed_fleet_goes_on_to_act_at_random_before_it_learns(tmp_path):
    experiment = DQN.replaced({"trainer.start_steps": 10**6, "trainer.total_steps": 10**7})
    description = fleet(
        policies={"p": PolicySpec(experiment=experiment, workers=1)},
        agents=(AgentSpec(policy="p", sample_steps=16, inference="shared"),),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(wall_s=60),
    )
    steps, file = 0, tmp_path / "run" / "trainer.p.0.safetensors"
    for resume in (False, True):
        with run(description, tmp_path, resume=resume) as driver:
            snapshot = next(snapshot for snapshot in driver if snapshot.env_steps["p"] >= steps + 400)
        assert snapshot.workers["policy.p.0"]["rows"] == 0.0  # nobody has asked the policy
        steps = read_state(file, KIND)["counters"]["env_steps"]
    plan = Plan.make(description, tmp_path / "run")
    assert _steps_to_start(plan, "p") == 10**6 - steps
    write_state(file, KIND, {"counters": {"env_steps": steps, "updates": 1}})
    assert _steps_to_start(plan, "p") == 0


def test_resume_with_other_networks_is_refused_and_spoils_nothing(tmp_path):
    first = run(fleet(), tmp_path)
    first.close()
    space, actions = first.fleet.source().spaces()[0]
    first.store().push("p", first.fleet.policies["p"].make_policy(space, actions, 0).get_checkpoint())
    config = (tmp_path / "run" / "parameters" / "p" / "config.json").read_text()
    other = fleet(dataclasses.replace(PPO, net=NetConfig(hidden_sizes=(8,))))
    with pytest.raises(CheckpointError, match=r"policy 'p' does not fit what was learned in .*; resume with the task"):
        run(other, tmp_path, resume=True)
    assert (tmp_path / "run" / "parameters" / "p" / "config.json").read_text() == config
    run(fleet(), tmp_path, resume=True).close()  # the refused one has let go of the folder


def test_a_run_that_fails_before_it_begins_can_be_begun_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("argosy.distributed.run.make_loggers", Mock(side_effect=ConfigError("no such logger")))
        with pytest.raises(ConfigError, match="no such logger"):
            run(fleet(), tmp_path)
    run(fleet(), tmp_path).close()


def test_evaluation_tags_the_best_version(tmp_path):
    driver = run(fleet(stop=FleetStop(return_mean={"p": 5.0}, wall_s=60)), tmp_path)
    last = driver.run()
    assert last.reason == "return reached"
    best = driver.best("p")
    assert best.return_mean >= 5.0
    assert best.episodes == 2
    assert driver.store().metadata("p", driver.store().version_of("p", "best"))["episodes"] == 2


@pytest.mark.parametrize(
    ("rule", "max_lag", "actors"),
    [("drop", 0, 2), ("throttle", 1, 1), ("throttle", 1, 2)],
)
def test_staleness_rules_bound_the_lag(rule, max_lag, actors, tmp_path):
    spec = PolicySpec(experiment=PPO, staleness=StalenessConfig(rule=rule, max_lag=max_lag))
    driver = run(
        fleet(policies={"p": spec}, actors=ActorGroup(count=actors), stop=FleetStop(updates=5, wall_s=60)), tmp_path
    )
    last = driver.run()
    trainer = last.workers["trainer.p.0"]
    steps = {
        int(key.removeprefix("lag_steps/")): count for key, count in trainer.items() if key.startswith("lag_steps/")
    }
    assert sum(steps.values()) == trainer["env_steps"]
    if rule == "drop":
        assert trainer["lag_max"] == 0.0
        assert steps.keys() == {0}
        assert trainer["dropped"] > 0
    else:
        # One batch in the inbox, one under way, parameters on their way; an actor beside may be starved now and then.
        assert trainer["lag_max" if actors == 1 else "lag_mean"] <= 4.0
        assert trainer["dropped"] == 0


def test_actors_wait_for_the_trainer_of_an_on_policy_algorithm_if_it_is_alone():
    assert PolicySpec(experiment=PPO).waits
    assert not PolicySpec(experiment=PPO, trainers=2).waits
    assert not PolicySpec(experiment=preset("dqn", "CartPole-v1")).waits


IMPALA = preset("impala", "CartPole-v1", seed=1, env={"num_envs": 4}, trainer={"step_per_collect": 64})


def test_actors_of_an_algorithm_that_corrects_wait_for_nobody():
    assert PolicySpec(experiment=IMPALA).corrects
    assert not PolicySpec(experiment=IMPALA).waits
    assert PolicySpec(experiment=IMPALA, staleness=StalenessConfig(rule="accept")).waits
    assert PolicySpec(experiment=IMPALA, staleness=StalenessConfig(rule="throttle")).waits
    with pytest.raises(ConfigError, match="'correct', but PPO takes all experience for its present policy's"):
        PolicySpec(experiment=PPO, staleness=StalenessConfig(rule="correct"))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("place", ["threads", pytest.param("ray", marks=pytest.mark.slow)])
def test_what_lags_behind_a_slow_learner_is_corrected_and_actors_are_not_throttled(place, tmp_path, request):
    launcher = ThreadLauncher() if place == "threads" else request.getfixturevalue("ray_launcher")
    found = {}
    for rule in ("correct", "accept"):
        spec = PolicySpec(experiment=IMPALA, algorithm=SlowIMPALA, staleness=StalenessConfig(rule=rule))
        description = fleet(
            policies={"p": spec},
            agents=(AgentSpec(policy="p", sample_steps=16),),
            stop=FleetStop(updates=20, wall_s=180),
        )
        driver = FleetRun(description, tmp_path / rule, launcher, interval_s=0.1)
        last = driver.run()
        assert last.reason == "updates reached", driver.supervisor.failures
        found[rule] = last.workers["trainer.p.0"]
    assert found["correct"]["dropped"] == found["accept"]["dropped"] == 0.0
    assert found["correct"]["lag_mean"] > found["accept"]["lag_mean"] + 0.5  # segments queue up instead of their actors
    assert found["correct"]["lag_max"] >= 2.0
    assert found["correct"]["stat/importance"] < 1.0 - 1e-4  # old experience counts for less


FED = (AgentSpec(policy="p", samples=("p",)),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": (AgentSpec(policy="q"),)}, "name a policy 'q'; known names: p"),
        ({"agents": (AgentSpec(policy="p", samples=()),)}, "no agent sends it experience"),
        ({"agents": (AgentSpec(policy="p", inference="ray"),)}, "has workers=0"),
        ({"agents": (AgentSpec(agents="1", policy="p"),)}, "no spec matches"),
        ({"policies": {}}, "at least one policy"),
        ({"policies": {"p": PolicySpec(experiment=PPO), "q": PolicySpec(experiment=PPO)}}, "no agent plays"),
        ({"policies": {"p": PolicySpec(experiment=PPO, learns=False)}, "agents": FED}, "does not learn"),
        ({"name": "../x"}, "Fleet.name"),
        ({"policies": {"a/b": PolicySpec(experiment=PPO)}}, "a name in Fleet.policies is 'a/b'; it must be made"),
        ({"policies": {0: PolicySpec(experiment=PPO)}}, "a name in Fleet.policies is 0; it must be made of letters"),
        ({"stop": FleetStop(return_mean={"x": 1.0})}, "stop.return_mean names 'x'"),
        ({"stop": FleetStop(return_mean={"p": float("nan")})}, "stop.return_mean of 'p' is nan; it must be a number"),
        ({"stop": FleetStop(return_mean={"p": "475"})}, "stop.return_mean of 'p' is '475'; it must be a number"),
        ({"stop": FleetStop(return_mean={"p": 1.0}), "evaluation": EvalGroup(count=0)}, "waits for evaluations"),
        ({"curriculum": (CurriculumStage(name="a"),)}, "no `Environment`"),
        ({"curriculum": (CurriculumStage(name="a"), CurriculumStage(name="b"))}, "would never end"),
        ({"agents": (AgentSpec(policy="p"), AgentSpec(agents="1", policy="p"))}, "is left for the specs"),
        ({"sync": True, "policies": {"p": PolicySpec(experiment=PPO, trainers=2)}}, "needs trainers=1"),
    ],
)  # fmt: skip
def test_contradictions_are_said_before_anything_starts(changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        run(fleet(**changes), tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agents": "("}, "no regular expression"),
        ({"whole_episodes": True, "burn_in_steps": 1}, "have no place"),
        ({"whole_episodes": True, "send_after_done": True}, "have no place"),
        ({"pad": True}, "pad=True needs"),
        ({"postprocess": GAE(), "inference": "ray"}, "needs inference='inline'"),
        ({"frame_stack": 0}, "frame_stack is 0"),
        ({"burn_in_steps": -1}, "burn_in_steps is -1"),
    ],
)
def test_agent_specs_are_checked(settings, message):
    with pytest.raises(ConfigError, match=message):
        AgentSpec(policy="p", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy": "actor-critik"}, "did you mean 'actor-critic'"),
        ({"policy": "actor-critic", "args": {"net": NetConfig(), "scale": 1}}, "'scale', which ActorCriticPolicy"),
        ({"args": {"net": NetConfig()}}, "no policy that takes them"),
        ({"policy": "actor-critic", "args": {"action_scaling": "yes"}}, "must be bool"),
        ({"policy": "actor-critic", "args": {"net": {"hidden_size": (4,)}}}, "hidden_size"),
        ({"experiment": preset("crossq", "Pendulum-v1"), "trainers": 2}, "CrossQ learns in one trainer only"),
        ({"experiment": preset("psrl", "FrozenLake-v1"), "trainers": 2}, "PSRL learns in one trainer only"),
    ],
)
def test_policies_and_their_arguments_are_checked(settings, message):
    with pytest.raises(ConfigError, match=message):
        PolicySpec(**{"experiment": PPO, **settings})


@pytest.mark.parametrize("made", [NStep(n=3), GAE()])
def test_what_is_made_of_rollouts_is_for_algorithms_of_one_s_own(made):
    """Those of the library would sum rewards twice, or look at none of it."""
    agents = (AgentSpec(policy="p", postprocess=made),)
    with pytest.raises(ConfigError, match=r"PPO makes its returns and advantages itself"):
        fleet(PPO, agents=agents)
    message = "replay buffer makes them itself" if isinstance(made, NStep) else "DQN makes its returns"
    with pytest.raises(ConfigError, match=message):
        fleet(DQN, agents=agents)


def test_a_stop_condition_is_needed():
    with pytest.raises(ConfigError, match="never end"):
        FleetStop()


def test_more_than_the_cluster_has_is_refused(tmp_path):
    class Small(ThreadLauncher):
        def nodes(self):
            return [{"CPU": 2.0, "memory": 100.0}, {"CPU": 1.0}]

    with pytest.raises(ConfigError, match=r"ask for 42 CPU in all, the cluster has 3 CPU, 100 memory"):
        run(fleet(actors=ActorGroup(count=40)), tmp_path, launcher=Small())
    for resources, message in [
        (Resources(num_cpus=0, custom={"fast_disk": 1}), "'actor.0' asks for 1 fast_disk, and no node has as much"),
        (Resources(num_cpus=3), r"'actor.0' asks for 3 CPU, .* there are 2 CPU, 100 memory; 1 CPU"),
        (Resources(memory_bytes=200), "asks for 1 CPU, 200 memory"),
        (Resources(num_gpus=0.5), "asks for 1 CPU, 0.5 GPU"),
    ]:
        with pytest.raises(ConfigError, match=message):
            run(fleet(actors=ActorGroup(resources=resources)), tmp_path, launcher=Small())
    assert not (tmp_path / "run").exists()


class Flaky(Environment):
    """One agent, ten steps; raises every 50 steps."""

    agent_count = 1
    steps = 0

    def __init__(self):
        from gymnasium import spaces

        self.observation_spaces = [spaces.Box(-1, 1, (2,))]
        self.action_spaces = [spaces.Discrete(2)]

    def reset(self):
        from argosy.env import StepResult

        self.t = 0
        return [StepResult(self.observation_spaces[0].sample())]

    def step(self, actions):
        from argosy.env import StepResult

        self.t += 1
        Flaky.steps += 1
        if Flaky.steps % 50 == 0:
            raise RuntimeError("the simulator crashed")
        return [StepResult(self.observation_spaces[0].sample(), float(actions[0]), terminated=self.t == 10)]


def test_environments_that_raise_are_made_anew(tmp_path):
    if "flaky" not in registered_environments():
        register("flaky", Flaky)
    experiment = preset("ppo", "CartPole-v1", trainer={"step_per_collect": 64}, env={"num_envs": 4})
    experiment = dataclasses.replace(experiment, task="flaky")
    driver = run(fleet(experiment, evaluation=EvalGroup(count=0)), tmp_path)
    last = driver.run()
    assert last.reason == "updates reached"
    assert last.workers["actor.0"]["env_failures"] > 0
    assert last.workers["actor.0"]["restarts"] == 0


FILE = """
from argosy.distributed import *
from argosy.presets import preset
fleet = Fleet(
    name="from-file",
    policies={"p": PolicySpec(experiment=preset("ppo", "CartPole-v1", trainer={"step_per_collect": 128}))},
    agents=(AgentSpec(policy="p", sample_steps=16),),
    evaluation=EvalGroup(num_envs=2, episodes=2),
    stop=FleetStop(updates=2, wall_s=60),
)
"""


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("sys.path", sys.path.copy())
    file, runs = tmp_path / "f.py", str(tmp_path / "runs")
    (tmp_path / "updates_of_f.py").write_text("UPDATES = 2")
    file.write_text(f"from updates_of_f import UPDATES\n{FILE.replace('updates=2', 'updates=UPDATES')}")
    assert main(["launch", str(file), "--in-threads", "--json", "--runs", runs]) == 0
    out = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert out["task"] == "CartPole-v1"
    assert out["env_steps"] >= 256
    assert out["reason"] == "updates reached"
    assert main(["fleet", "status", "from-file", "--runs", runs]) == 0
    assert "done (updates reached)" in capsys.readouterr().out
    assert main(["fleet", "status", "from-fil", "--runs", runs]) == 2
    assert "did you mean 'from-file'" in capsys.readouterr().err
    assert main(["launch", str(file), "--in-threads", "--runs", runs]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["launch", str(tmp_path / "no.py")]) == 2
    (tmp_path / "empty.py").write_text("")
    assert main(["launch", str(tmp_path / "empty.py")]) == 2


@pytest.mark.parametrize(
    ("actor", "trainer", "buffer", "said"),
    [
        ({"wait_samples_s": 6.0}, {"update_s": 9.0}, None, "actors wait for trainers"),
        ({"wait_samples_s": 6.0}, {"update_s": 9.0}, {"process_s": 3.0}, "actors wait for trainers"),
        ({"wait_samples_s": 6.0}, {"update_s": 3.0}, {"process_s": 9.0}, "actors wait for buffer workers"),
        (
            {"wait_samples_s": 6.0},
            {"update_s": 1.0, "wait_s": 9.0},
            {"process_s": 8.0},
            "trainers wait for buffer workers",
        ),
        ({"wait_samples_s": 0.0}, {"update_s": 1.0, "wait_s": 9.0}, {"process_s": 2.0}, "trainers wait for actors"),
        ({"wait_inference_s": 6.0}, {"update_s": 5.0, "wait_s": 5.0}, None, "actors wait for policy workers"),
        ({"wait_parameters_s": 6.0}, {"update_s": 5.0, "wait_s": 5.0}, None, "actors wait for parameters"),
        ({"wait_samples_s": 1.0}, {"update_s": 9.0, "wait_s": 1.0}, None, "nobody waits"),
    ],
)
def test_bottleneck(actor, trainer, buffer, said):
    """After ten seconds, with two actors that wait equally long."""
    workers = {"actor.0": actor, "actor.1": actor, "trainer.p.0": trainer}
    if buffer is not None:
        workers["buffer.p.0"] = buffer
    none = {name: {} for name in ("env_steps", "updates", "gradient_steps", "evaluations")}
    assert Snapshot(wall_s=10.0, steps_per_s=0.0, updates_per_s=0.0, workers=workers, **none).bottleneck() == said


def slowly(fields, policy):
    time.sleep(0.1)
    return fields


def test_buffer_workers_that_hold_a_fleet_up_are_named(tmp_path):
    spec = PolicySpec(experiment=PPO, buffers=1, process=slowly)
    last = run(fleet(policies={"p": spec}, evaluation=EvalGroup(count=0), stop=FleetStop(updates=5)), tmp_path).run()
    assert last.bottleneck().endswith("wait for buffer workers"), last.workers


def test_stop_file_ends_a_fleet(tmp_path):
    driver = run(fleet(stop=FleetStop(wall_s=60)), tmp_path)
    start = time.monotonic()
    with driver:
        reasons = [(tmp_path / "run" / "stop").touch() or snapshot.reason for snapshot in driver]
    assert reasons[-1] == "asked to stop"
    assert time.monotonic() - start < 55
