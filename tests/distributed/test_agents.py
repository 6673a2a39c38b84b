import dataclasses
import importlib.util

import numpy as np
import pytest
from games import Pairs, Turns, pettingzoo_turns
from policies import OBS, SumPolicy

from argosy.collect.player import Inline, Player
from argosy.collect.seats import AgentArena
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.env import register, registered_environments, test_environment
from argosy.errors import ConfigError
from argosy.presets import preset

GAMES = {"pairs": Pairs, "turns": Turns}
if importlib.util.find_spec("pettingzoo"):
    GAMES["aec"] = pettingzoo_turns
for game, cls in GAMES.items():
    if game not in registered_environments():
        register(game, cls)


def experiment(algorithm, game, **changes):
    return dataclasses.replace(preset(algorithm, "CartPole-v1", seed=6, **changes), task=game)


def two_policies(game, rollout=256, start_steps=200, **changes):
    # without the bonus one run in thirty settled on choices that were not the best, and kept to them
    learning = {"lr": 3e-3, "repeat_per_collect": 3, "entropy_coef": 0.02}
    ppo = experiment("ppo", game, trainer={"step_per_collect": rollout}, **learning)
    trainer = {"start_steps": start_steps, "update_per_step": 0.25}
    dqn = experiment("dqn", game, eps_decay_steps=1500, trainer=trainer, target_update_freq=50)
    settings = {
        "name": "two",
        "policies": {"first": PolicySpec(experiment=ppo), "second": PolicySpec(experiment=dqn, publish_updates=10)},
        "agents": (
            AgentSpec(agents="0", policy="first", sample_steps=16),
            AgentSpec(agents="1", policy="second", sample_steps=16),
        ),
        "actors": ActorGroup(num_envs=8),
        "evaluation": EvalGroup(num_envs=4, episodes=20),
        "stop": FleetStop(return_mean={"first": 7.6, "second": 7.6}, wall_s=90),
    }
    return Fleet(**settings | changes)


@pytest.mark.parametrize("game", GAMES)
def test_games_are_sound(game):
    assert test_environment(game) == []


@pytest.mark.parametrize("game", GAMES)
def test_two_policies_learn_with_different_algorithms(game, tmp_path):
    """PPO plays agent 0, DQN agent 1, with different spaces, at the same time and in turn."""
    learn(game, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_they_learn_in_processes_too(game, ray_launcher, tmp_path):
    learn(game, tmp_path / "run", ray_launcher)


def learn(game, folder, launcher=None):
    best = 8.0 if game == "pairs" else 4.0
    before = untrained(game, folder.with_name("untrained"))
    goal = {"first": 0.95 * best, "second": 0.95 * best}
    driver = FleetRun(two_policies(game, stop=FleetStop(return_mean=goal, wall_s=90)), folder, launcher)
    last = driver.run()
    assert last.reason == "return reached", (last.evaluations, driver.supervisor.failures)
    for name in goal:
        returns = [result.return_mean for result in driver.results if result.policy == name]
        print(game, name, last.wall_s, returns, dict(last.updates))
        assert before[name] <= 0.7 * best  # the first version judged above may have learned already
        assert max(returns) >= 0.95 * best


def untrained(game, folder):
    """-> policy -> mean return of both policies, in a fleet that stops long before their first update."""
    fleet = two_policies(game, rollout=90_000, start_steps=90_000, stop=FleetStop(wall_s=60))
    with FleetRun(fleet, folder) as run:
        for snapshot in run:
            if len(run.results) >= 2:
                assert set(snapshot.updates.values()) == {0}
                return {result.policy: result.return_mean for result in run.results}
    raise AssertionError("no evaluation within a minute")


def test_rewards_reach_the_action_that_earned_them():
    """In turns: every completed transition pairs an observation with the pay for naming it right."""
    arena = AgentArena([Turns(), Turns()], [0, 1])
    arena.reset()
    rng = np.random.default_rng(0)
    seats = arena.seats
    told = [{}, {}]
    done = 0
    for _ in range(100):
        actions = []
        for seat, memory in zip(seats, told, strict=True):
            rows = np.flatnonzero(seat.acting)
            acts = rng.integers(2, size=len(rows))
            for row, act in zip(rows, acts, strict=True):
                memory[row] = (seat.obs[row].copy(), act)
            actions.append(acts)
        for number, (memory, stepped) in enumerate(zip(told, arena.step(actions), strict=True)):
            for k, row in enumerate(stepped.rows):
                obs, act = memory.pop(row)
                right = (obs[0] == obs[1]) if number == 0 else (obs[0] != obs[1])
                assert stepped.rew[k] == (act == right)
                done += stepped.terminated[k]
    assert done == 2 * 2 * (100 // 8)


def test_state_follows_its_row_when_agents_act_in_turn():
    class Alike(Turns):
        def _look(self):
            self.right = [0, 0]
            return [np.ones(1, np.float32)] * 2  # every look adds one

    games = [Alike(), Alike()]
    for one in games:
        one.observation_spaces = [OBS] * 2
    arena = AgentArena(games, [0, 0])
    (seat,) = arena.seats
    policy = SumPolicy()
    player = Player(seat, policy, Inline(policy))
    sums = np.zeros(4)

    arena.reset()
    for _ in range(40):
        rows = np.flatnonzero(seat.acting)
        sums[rows[seat.on_reset[rows]]] = 0.0
        sums[rows] += 1.0
        player.ask()
        acts = player.act()
        assert acts.tolist() == sums[rows].astype(int).tolist()
        arena.step([acts])


def test_agents_without_spec_and_specs_without_agents():
    base = two_policies("pairs")
    with pytest.raises(ConfigError, match="agent 1 of 'pairs' matches no spec"):
        dataclasses.replace(base, agents=(base.agents[0], AgentSpec(agents="7", policy="second"))).source().spaces()
    with pytest.raises(ConfigError, match="give them specs and policies of their own"):
        dataclasses.replace(base, agents=(AgentSpec(policy="first"), base.agents[1])).source().spaces()


@pytest.mark.parametrize(("setting", "value"), [("vector", "subproc"), ("envs_per_worker", 1), ("hang_timeout_s", 3.0)])
def test_what_steps_other_envs_is_refused_by_name(setting, value):
    plain = two_policies("pairs")
    first = experiment("ppo", "pairs", env={setting: value})
    with pytest.raises(ConfigError, match=f"env.{setting} is {value!r}, but the actor workers themselves step 'pairs'"):
        dataclasses.replace(plain, policies={**plain.policies, "first": PolicySpec(experiment=first)})
