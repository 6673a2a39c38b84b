"""Several policies in one process: they learn, resume exactly, and are refused where they do not fit."""

import dataclasses

import numpy as np
import pytest
import torch
from games import Pairs, Turns
from gymnasium import spaces

from argosy.distributed import PolicySpec
from argosy.env import register, registered_environments
from argosy.errors import CheckpointError, ConfigError
from argosy.presets import preset
from argosy.trainer import AgentsTrainer
from argosy.trainer.blob import encode

GAMES = {"local pairs": (Pairs, 8), "local turns": (Turns, 4)}  # and the best return of each agent
for game, (cls, _) in GAMES.items():
    if game not in registered_environments():
        register(game, cls)
SEATS = {"0": "first", "1": "second"}


def experiments(game, steps=512, **trainer):
    target = 0.95 * GAMES[game][1]
    run = {"step_per_collect": steps, "max_epoch": 10, "step_per_epoch": 2000, "episode_per_test": 20, **trainer}
    shared = {"seed": 1, "env": {"num_envs": 8}, "stop": {"test_return": target}}
    ppo = preset("ppo", game, trainer=run, lr=3e-3, repeat_per_collect=3, **shared)
    warm = {"start_steps": 200, "update_per_step": 0.25, "max_epoch": 10, "step_per_epoch": 2000}
    dqn = preset("dqn", game, trainer=warm, eps_decay_steps=1500, target_update_freq=50, **shared)
    return {"first": ppo, "second": dqn}


@pytest.mark.parametrize("game", GAMES)
def test_two_policies_learn_with_different_algorithms(game):
    trainer = AgentsTrainer(experiments(game), SEATS)
    last = trainer.run()
    trainer.close()
    assert 0 < trainer.epoch < 10
    for stats in last.values():
        assert stats.info_stat.stopped
        assert stats.test_collect_stat.returns.mean() >= 0.95 * GAMES[game][1]
        assert len(stats.test_collect_stat.returns) == 20
        assert set(stats.test_collect_stat.lens) == {GAMES[game][1]}
    assert trainer.run() == {}


def test_critics_see_all_agents_and_policies_their_own():
    central = {"env.wrappers": ("CentralState",), "net.critic_only": ("state",), "stop.test_return": None}
    policies = experiments("local pairs", steps=64, max_epoch=1, step_per_epoch=256)
    policies = {name: policies["first"].replaced(central) for name in policies}
    trainer = AgentsTrainer(policies, SEATS)
    trainer.run()
    trainer.close()
    for name, width in (("first", 2), ("second", 3)):
        policy = trainer.algorithms[name].policy
        assert policy.acts_on == spaces.Dict(obs=spaces.Box(-1, 1, (width,)))
        assert (policy.actor.encoder.out_features, policy.critic.encoder.out_features) == (width, width + 2 + 3)


def test_who_has_no_target_does_not_keep_the_others_from_theirs():
    policies = experiments("local turns", steps=64, max_epoch=4, step_per_epoch=640)
    policies = {name: one.replaced({"stop.test_return": -1e6}) for name, one in policies.items()}
    policies["second"] = policies["second"].replaced({"stop.test_return": None})
    trainer = AgentsTrainer(policies, SEATS)
    trainer.run()
    trainer.close()
    assert trainer.epoch == 1


def test_policies_of_one_seed_do_not_begin_alike():
    policies = experiments("local turns", steps=64, max_epoch=1, step_per_epoch=64)
    trainer = AgentsTrainer(dict.fromkeys(policies, policies["first"]), SEATS)
    one, other = (trainer.algorithms[name].policy for name in policies)
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert one.rng.draw_seed() != other.rng.draw_seed()
    trainer.close()


def test_steps_updates_and_episodes_are_counted():
    policies = experiments("local turns", steps=64, max_epoch=1, step_per_epoch=640)
    trainer = AgentsTrainer(policies, SEATS)
    last = trainer.run()
    trainer.close()
    ppo, dqn = last["first"], last["second"]
    assert ppo.info_stat.train_step == ppo.train_collect_stat.n_collected_steps == 640
    assert ppo.info_stat.gradient_step == 10 * 3 * (64 // policies["first"].config.batch_size)
    assert ppo.info_stat.train_episode == 640 // 4
    # the DQN's segments hold one transition of each of the 8 rows or two: what came in during its warm-up earns nothing
    counted = dqn.info_stat.train_step - dqn.info_stat.gradient_step / 0.25
    assert 200 <= counted <= 200 + 2 * trainer._learners["second"].segment_steps * 8
    assert {"loss/total", "episode/return_mean", "test/return_mean"} <= dqn.metrics().keys()
    for stats in (ppo, dqn):
        timing, info = stats.info_stat.timing, stats.info_stat
        assert stats.metrics()["time/steps_per_s"] * timing.train_time_collect == pytest.approx(info.train_step)
        assert min(timing.train_time_collect, timing.train_time_update, timing.test_time) > 0.0
        assert timing.train_time + timing.test_time < timing.total_time


def parameters(trainer):
    return torch.cat([p.detach().flatten() for a in trainer.algorithms.values() for p in a.policy.parameters()])


def test_a_resumed_run_is_the_same_run(tmp_path):
    changes = {"trainer.step_per_epoch": 700, "stop.test_return": None}
    policies = {name: one.replaced(changes) for name, one in experiments("local turns").items()}
    whole = AgentsTrainer(policies, SEATS)
    next(whole)
    whole.save(tmp_path / "state")
    expected = next(whole)
    resumed = AgentsTrainer(policies, SEATS)
    resumed.load(tmp_path / "state")
    assert resumed.epoch == 1
    found = next(resumed)
    assert torch.equal(parameters(whole), parameters(resumed))
    for name in policies:
        assert found[name].info_stat.train_step == expected[name].info_stat.train_step
        np.testing.assert_array_equal(found[name].train_collect_stat.returns, expected[name].train_collect_stat.returns)
        np.testing.assert_array_equal(found[name].test_collect_stat.returns, expected[name].test_collect_stat.returns)
    for trainer in (whole, resumed):
        trainer.close()


def test_one_policy_may_play_all_agents():
    class Same(Pairs):
        """Both agents see two signs."""

        def __init__(self):
            super().__init__()
            self.observation_spaces = [self.observation_spaces[0]] * 2

        def _look(self):
            looks = super()._look()
            self.right[1] = 1 - self.right[1]  # both are asked the same
            return [looks[0], looks[1][:2]]

    if "local same" not in registered_environments():
        register("local same", Same)
    experiment = experiments("local pairs", max_epoch=1, step_per_epoch=1024)["first"]
    trainer = AgentsTrainer({"both": dataclasses.replace(experiment, task="local same")}, {".*": "both"})
    stats = trainer.run()["both"]
    trainer.close()
    assert stats.info_stat.train_step == 1024
    assert stats.train_collect_stat.n_collected_episodes == 1024 // 8
    with pytest.raises(ConfigError, match="differ in their spaces"):
        AgentsTrainer({"both": experiment}, {"0": "both", "1": "both"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: ({}, SEATS), "no policies"),
        (lambda p: (p, {"0": "first", "1": "secnod"}), "did you mean 'second'"),
        (lambda p: (p, {".*": "first"}), "no agent plays with policy 'second'"),
        (lambda p: (p, {"0": "first", "2": "second"}), "agent 1 of 'local pairs' matches no spec"),
        (lambda p: (p, {"*": "first"}), r"the agents '\*' are no regular expression: .*; '\.\*' means all"),
        (lambda p: ({**p, "second": dataclasses.replace(p["second"], task="local turns")}, SEATS), "different tasks"),
        (lambda p: ({"first": preset("ppo", "CartPole-v1")}, {"0": "first"}), "use argosy.train"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        AgentsTrainer(*change(experiments("local pairs")))


def opponent(**changes):
    policy = {} if "load" in changes else {"policy": "random"}
    return PolicySpec(experiment=preset("ppo", "local turns"), learns=False, **policy, **changes)


def short(**changes):
    policies = experiments("local turns", steps=64, max_epoch=2, step_per_epoch=128)
    return {"first": policies["first"].replaced({"stop.test_return": None, **changes}), "second": opponent()}


def test_an_opponent_plays_and_does_not_learn(tmp_path):
    trainer = AgentsTrainer(short(), SEATS)
    epochs = list(trainer)
    assert [set(epoch) for epoch in epochs] == [{"first"}] * 2
    assert epochs[-1]["first"].info_stat.train_step == 256
    assert (set(trainer.algorithms), set(trainer.opponents)) == ({"first"}, {"second"})
    trainer.close()


def test_a_run_with_a_random_opponent_is_resumed_exactly(tmp_path):
    whole = AgentsTrainer(short(), SEATS)
    next(whole)
    whole.save(tmp_path / "state")
    next(whole)
    resumed = AgentsTrainer(short(), SEATS)
    resumed.load(tmp_path / "state")
    next(resumed)
    assert torch.equal(parameters(whole), parameters(resumed))
    for trainer in (whole, resumed):
        trainer.close()


def test_an_opponent_is_what_was_trained_before(tmp_path):
    """A fleet's descriptions are taken as they are, also of who learns."""
    own = preset("ppo", "local turns")
    trained = PolicySpec(experiment=own).make_policy(*spaces_of_second(), 0)
    file = tmp_path / "3.safetensors"
    file.write_bytes(encode({**trained.get_checkpoint(), "version": 3}).tobytes())
    policies = {"first": PolicySpec(experiment=short()["first"]), "second": opponent(load=file)}
    trainer = AgentsTrainer(policies, SEATS)
    next(trainer)
    trainer.close()
    playing = trainer.opponents["second"]
    assert playing.version == 3
    assert all(torch.equal(a, b) for a, b in zip(playing.parameters(), trained.parameters(), strict=True))


def spaces_of_second():
    game = Turns()
    return game.observation_spaces[1], game.action_spaces[1]


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (lambda: {"first": opponent(), "second": opponent()}, "none of the policies .* learns"),
        (lambda: {**short(), "second": opponent(workers=2)}, "'second' has workers=2, .* workers of a fleet"),
        (lambda: short(**{"logger.tensorboard": True}), "'first' has logger=.*tensorboard=True.* does not do"),
        (lambda: short(callbacks=("a:B",)), "'first' has callbacks="),
        (lambda: short(**{"stop.episodes": 7}), r"'first' has stop\.episodes=7"),
        (lambda: short(**{"env.norm_rew": True}), r"'first' has env\.norm_rew=True"),
        (lambda: short(**{"env.vector": "dummy"}), r"'first' has env\.vector='dummy'"),
        (lambda: short(**{"trainer.keep_checkpoints": 2}), r"'first' has trainer\.keep_checkpoints=2"),
        (lambda: {**short(), "second": preset("bc", "local turns", data="x")}, "bc learns from a data set"),
    ],
)  # fmt: skip
def test_what_other_trainers_do_is_refused_by_name(policies, message):
    with pytest.raises(ConfigError, match=message):
        AgentsTrainer(policies(), SEATS)


def test_a_policy_may_note_what_nobody_notes_of_random_actions():
    """In turns its first own action is that of some rows, while the others still stand behind random ones."""
    changes = {"env": {"num_envs": 3}, "trainer": {"max_epoch": 1, "step_per_epoch": 200, "start_steps": 50}}
    policies = {name: preset("discrete_sac", "local turns", **changes) for name in SEATS.values()}
    trainer = AgentsTrainer(policies, SEATS)
    assert trainer.run()["first"].info_stat.gradient_step > 0
    trainer.close()


def test_foreign_files_are_refused(tmp_path):
    trainer = AgentsTrainer(experiments("local pairs"), SEATS)
    (tmp_path / "state").write_bytes(b"nothing")
    with pytest.raises(CheckpointError):
        trainer.load(tmp_path / "state")
    narrow = {name: one.replaced({"net.hidden_sizes": (7,)}) for name, one in experiments("local pairs").items()}
    renamed = {f"my {name}": one for name, one in experiments("local pairs").items()}
    before, drawn = parameters(trainer), trainer._rng.state_dict()
    for policies, seats, said in (
        (narrow, SEATS, "the state does not fit: "),
        (
            renamed,
            {seat: f"my {name}" for seat, name in SEATS.items()},
            r"of the learners \['my first', 'my second'\]; this",
        ),
    ):
        other = AgentsTrainer(policies, seats)
        other.epoch = 3
        other.save(tmp_path / "state")
        other.close()
        with pytest.raises(CheckpointError, match=said):
            trainer.load(tmp_path / "state")
        assert trainer.epoch == 0
        assert torch.equal(trainer._rng.state_dict()["torch"], drawn["torch"])
        assert torch.equal(parameters(trainer), before)
    trainer.close()
