"""Runs with every kind of replay buffer go on exactly; what would be ignored is refused by name."""

import contextlib
import json

import pytest
import torch
from short import QUICK, quick

import argosy
from argosy.collect import AsyncCollector
from argosy.errors import ConfigError
from argosy.logger import read_jsonl
from argosy.presets import preset
from argosy.trainer.checkpoint import collectors_of, load_checkpoint, save_checkpoint

HINDSIGHT = {"hindsight": {"future_k": 4.0, "horizon": 6}}


def trainer(**changes):
    settings = {**QUICK, "seed": 5, **changes}
    return argosy.build(preset("dqn", "bitflip:BitFlip", **settings))


@pytest.mark.parametrize(
    "buffer",
    [HINDSIGHT, {"device": "cpu"}, {"storage_dir": "disk"}, {**HINDSIGHT, "priority": {"alpha": 0.6}}],
    ids=["hindsight", "device", "storage", "hindsight by priority"],
)
def test_a_run_with_this_buffer_goes_on_exactly(buffer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole, half = trainer(buffer=buffer), trainer(buffer=buffer)
    next(half)
    save_checkpoint("half", half)
    next(whole)
    save_checkpoint("whole", whole)  # a checkpoint begins new episodes, in both
    resumed = trainer(buffer=buffer)
    load_checkpoint("half", resumed)
    next(whole)
    next(resumed)
    assert whole.state.gradient_step == resumed.state.gradient_step > 50
    for key, value in whole.algorithm.policy.state_dict().items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(resumed.algorithm.policy.state_dict()[key])), key


@pytest.mark.parametrize(
    "algorithm", ["sac", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ddpg", "td3"))]
)
def test_fetch_runs_with_its_preset_and_tells_of_success(algorithm, tmp_path):
    pytest.importorskip("gymnasium_robotics")
    loop = {"step_per_epoch": 120, "max_epoch": 1, "start_steps": 100, "batch_size": 64, "episode_per_test": 2}
    settings = preset(algorithm, "FetchReach-v4", seed=1, trainer=loop, stop={"episodes": 2})
    done = argosy.train(settings, runs=tmp_path, show_progress=False)
    assert done.gradient_steps == 20
    assert done.test_success_rate in (0.0, 0.5, 1.0)
    assert json.loads(done.to_json())["test_success_rate"] == done.test_success_rate
    told = [row["test/success_rate"] for row in read_jsonl(f"{done.run_dir}/metrics.jsonl") if "test/count" in row]
    assert len(told) == 1
    assert argosy.evaluate(done.run_dir, episodes=2).success_rate in (0.0, 0.5, 1.0)


@pytest.mark.slow
def test_hindsight_solves_what_plain_replay_does_not(tmp_path):
    """Ten bits: a random policy all but never sees a reward."""
    run = {
        "trainer": {"max_epoch": 5, "step_per_epoch": 4000, "start_steps": 500, "batch_size": 128,
                    "step_per_collect": 8, "update_per_step": 0.5, "episode_per_test": 50},
        "buffer": {"size": 50_000, **HINDSIGHT},
        "net": {"hidden_sizes": (128,)},
        "gamma": 0.9, "lr": 1e-3,
    }  # fmt: skip
    settings = preset("dqn", "bitflip:TenBits", seed=1, **run)
    learned = argosy.train(settings, runs=tmp_path, show_progress=False)
    plain = argosy.train(settings.replaced({"buffer.hindsight.future_k": 0.0}), runs=tmp_path, show_progress=False)
    assert learned.test_return_mean > -7.0 > plain.test_return_mean


def test_envs_out_of_step_are_collected_from_by_an_async_collector(tmp_path):
    done = quick(tmp_path, env={"num_envs": 4, "test_num_envs": 2, "wait_num": 2})
    assert 400 <= done.env_steps < 404
    assert done.gradient_steps > 50
    with argosy_trainer(env={"num_envs": 4, "wait_num": 2}) as made:
        assert isinstance(made.train_collector, AsyncCollector)
        assert made.train_collector.env.is_async
        assert not made.test_collector.env.is_async
    with argosy_trainer(env={"num_envs": 4}) as made:
        assert not isinstance(made.train_collector, AsyncCollector)


@pytest.mark.parametrize(("algorithm", "message"), [("ppo", r"env.wait_num is 2, but only a run that fills a replay")])
def test_envs_in_step_are_a_must_where_rollouts_are_learned_from(algorithm, message):
    with pytest.raises(ConfigError, match=message):
        argosy.build(preset(algorithm, "CartPole-v1", env={"num_envs": 4, "wait_num": 2}))


def test_envs_may_live_in_actors_of_ray(tmp_path):
    ray = pytest.importorskip("ray")
    done = quick(tmp_path, env={"num_envs": 4, "test_num_envs": 2, "vector": "ray", "envs_per_worker": 2})
    ray.shutdown()
    local = quick(tmp_path, env={"num_envs": 4, "test_num_envs": 2})
    assert done.test_return_mean == local.test_return_mean


@pytest.mark.parametrize("setting", ["size", "stack_num", "ignore_obs_next", "priority.alpha", "device", "storage_dir"])
def test_an_on_policy_run_refuses_settings_of_a_replay_buffer(setting):
    value = {"ignore_obs_next": True, "device": "cpu", "storage_dir": "disk"}.get(setting, 2)
    with pytest.raises(ConfigError, match=rf"buffer.{setting.partition('.')[0]} is .*ppo learns on-policy"):
        preset("ppo", "CartPole-v1", **{f"buffer.{setting}": value})


def test_rewards_of_training_are_normalised_and_a_resumed_run_goes_on_exactly(tmp_path):
    settings = {**QUICK, "seed": 5, "gamma": 0.9, "env": {"num_envs": 3, "test_num_envs": 2, "norm_rew": True}}

    def made(**changes):
        return argosy.build(preset("dqn", "CartPole-v1", **{**settings, **changes}))

    whole, half, raw = made(), made(), made(env={**settings["env"], "norm_rew": False})
    assert whole.train_collector.env.gamma == 0.9
    tested = next(whole).test_collect_stat
    assert tested.returns.tolist() == tested.lens.tolist()  # as the env pays
    for trainer in (half, raw):
        next(trainer)
    rew = whole.train_collector.buffer[:].rew
    assert len(set(rew.tolist())) > 10
    assert set(raw.train_collector.buffer[:].rew.tolist()) == {1.0}
    for name, trainer in (("half", half), ("whole", whole)):
        save_checkpoint(tmp_path / name, trainer)
    resumed = made()
    load_checkpoint(tmp_path / "half", resumed)
    next(whole)
    next(resumed)
    assert whole.train_collector.buffer[:] == resumed.train_collector.buffer[:]


def test_rewards_that_no_env_paid_cannot_be_normalised(tmp_path):
    for changes in ({"data": str(tmp_path / "x.hdf5")}, {"buffer": HINDSIGHT}):
        with pytest.raises(ConfigError, match=r"env.norm_rew is True, but the rewards of .* leave it out"):
            argosy.build(preset("dqn", "bitflip:BitFlip", env={"norm_rew": True}, **changes))


def test_clipped_rewards_of_a_game_do_not_join_those_of_a_data_set(tmp_path):
    pytest.importorskip("ale_py")
    data = {"data": str(tmp_path / "x.hdf5"), "trainer": {"offline_updates": 10}}
    with pytest.raises(ConfigError, match=r"env.reward_clip is True, but the rewards of a data set are the game's own"):
        argosy.build(preset("discrete_bcq", "ALE/Pong-v5", **data))
    for changes in ({"env": {"reward_clip": False}}, {"trainer": {}}):  # neither, or nothing but the data set
        with pytest.raises(ConfigError, match=r"x.hdf5"):
            argosy.build(preset("discrete_bcq", "ALE/Pong-v5", **{**data, **changes}))


@contextlib.contextmanager
def argosy_trainer(**changes):
    made = argosy.build(preset("dqn", "CartPole-v1", **{**QUICK, **changes}))
    yield made
    for collector in collectors_of(made).values():
        collector.env.close()
