"""Data sets of what a run's best policy does."""

import json
import subprocess
import sys

import numpy as np
import pytest
from short import QUICK

import argosy
from argosy.data import ReplayBuffer
from argosy.data.datasets import read_attributes
from argosy.errors import CheckpointError, ConfigError, DataError
from argosy.run import collect

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """Of a run of SAC, whose policy acts in another scale than the env."""
    trainer = {"max_epoch": 1, "step_per_epoch": 80, "start_steps": 40, "batch_size": 8, "episode_per_test": 2}
    settings = {**QUICK, "trainer": trainer}
    runs = tmp_path_factory.mktemp("runs")
    return argosy.train("sac", "Pendulum-v1", seed=5, runs=runs, show_progress=False, **settings)


def test_the_file_holds_the_best_policy_s_episodes(result, tmp_path):
    stats = argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=2500, seed=3)
    data = ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")
    assert (len(data), data.buffer_num, stats.n_collected_steps) == (2500, 2, 2500)
    batch = data.rollout()
    own = result.policy(argosy.Batch(obs=batch.obs.reshape(-1, 4))).act
    np.testing.assert_array_equal(batch.act, own.reshape(-1, 2))
    going_on = ~batch.cut[:-1]
    np.testing.assert_array_equal(batch.obs[1:][going_on], batch.obs_next[:-1][going_on])
    assert (batch.terminated | batch.truncated).sum() == stats.n_collected_episodes
    lengths = np.diff(np.flatnonzero(np.r_[True, batch.cut[:, 0]]))
    assert set(lengths[:-1].tolist()) <= set(stats.lens.tolist())


def test_its_attributes_say_where_it_is_from(result, tmp_path):
    stats = argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=1000, eps=0.25, seed=3)
    found = read_attributes(tmp_path / "a.hdf5")
    assert (found["action_scale"], found["task"], found["algorithm"]) == ("env", "CartPole-v1", "dqn")
    assert (found["eps"], found["seed"], found["version"]) == (0.25, 3, result.policy.version)
    assert (found["episodes"], found["return_mean"]) == (stats.n_collected_episodes, stats.returns.mean())
    assert json.loads(found["env"])["num_envs"] == 2


def test_without_an_ended_episode_the_return_is_nan(pendulum, tmp_path):
    stats = argosy.collect_data(pendulum.run_dir, tmp_path / "a.hdf5", steps=10)
    assert stats.n_collected_episodes == 0
    assert np.isnan(read_attributes(tmp_path / "a.hdf5")["return_mean"])


def test_actions_are_in_the_env_s_scale(pendulum, tmp_path):
    argosy.collect_data(pendulum.run_dir, tmp_path / "a.hdf5", steps=300)
    data = ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")[:]
    own = pendulum.policy(argosy.Batch(obs=data.obs)).act.detach().numpy()  # of SAC: within -1 .. 1
    np.testing.assert_allclose(data.act, 2 * own, rtol=1e-4, atol=1e-5)
    velocity, torque = data.obs[:, 2], data.act[:, 0]
    # Pendulum-v1's own equation, of torques within -2 .. 2
    expected = velocity + (15.0 * data.obs[:, 1] + 3.0 * torque) * 0.05
    np.testing.assert_allclose(data.obs_next[:, 2], expected.clip(-8, 8), atol=1e-4)


def test_equal_seeds_give_equal_data_and_random_actions_are_asked_for(result, tmp_path):
    def collected(**settings):
        argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=500, **settings)
        return ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")[:]

    assert collected(seed=1) == collected(seed=1)
    assert collected(seed=1) != collected(seed=2)
    mixed = collected(eps=0.5)
    own = result.policy(argosy.Batch(obs=mixed.obs)).act.numpy()
    assert (mixed.act != own).mean() == pytest.approx(0.25, abs=0.08)


def test_explore_acts_as_while_training(result, pendulum, tmp_path):
    def explored(run, **settings):
        argosy.collect_data(run.run_dir, tmp_path / "a.hdf5", steps=500, explore=True, **settings)
        return ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")[:]

    drawn = explored(pendulum, seed=1)
    assert read_attributes(tmp_path / "a.hdf5")["explore"]
    assert drawn == explored(pendulum, seed=1)
    assert drawn != explored(pendulum, seed=2)
    means = pendulum.policy(argosy.Batch(obs=drawn.obs)).act.detach().numpy()
    assert np.abs(drawn.act / 2 - means).mean() > 0.1  # SAC's draws after 80 steps are wide
    discrete = explored(result)
    own = result.policy(argosy.Batch(obs=discrete.obs)).act.numpy()
    assert (discrete.act != own).mean() == pytest.approx(result.policy.exploration.eps / 2, abs=0.08)  # of two actions
    argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=500)
    assert not read_attributes(tmp_path / "a.hdf5")["explore"]


PEAKS = """
import gc, sys, tracemalloc
import argosy
from argosy.run import collect

run, file = sys.argv[1:]
collect.PART_STEPS = 50
argosy.collect_data(run, file, steps=100)  # so that all is imported
collect.ProgressBar.move = lambda *_: gc.collect()  # cycles that h5py leaves are not what this is about
for steps in (1_000, 4_000):
    tracemalloc.start()
    argosy.collect_data(run, file, steps=steps)
    print(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
"""


def test_memory_does_not_grow_with_the_file(result, tmp_path):
    """In a process of its own, where no other thread allocates and the collector has little to look through."""
    command = [sys.executable, "-c", PEAKS, result.run_dir, str(tmp_path / "a.hdf5")]
    small, large = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert (tmp_path / "a.hdf5").stat().st_size > 200_000
    assert large - small < 40_000


def test_a_buffer_s_frame_stacks_are_stored_as_the_run_stores_them(tmp_path):
    pytest.importorskip("ale_py")
    settings = {"max_epoch": 1, "step_per_epoch": 40, "start_steps": 20, "batch_size": 4, "episode_per_test": 1}
    env = {"num_envs": 1, "test_num_envs": 1, "vector": "dummy", "max_episode_steps": 20}
    changes = {"trainer": settings, "stop": {"episodes": 1}, "env": env, "buffer": {"size": 100}, "device": "cpu"}
    done = argosy.train("dqn", "ALE/Pong-v5", runs=tmp_path, show_progress=False, **changes)
    argosy.collect_data(done.run_dir, tmp_path / "a.hdf5", steps=50)
    with h5py.File(tmp_path / "a.hdf5") as file:  # frames are stored once, packed
        assert file["columns/obs"].compression == "lzf"
        assert file["columns/obs_next"].shape[0] <= 4  # episodes of 20 steps, and the newest row
    data = ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")
    assert (data.stack_num, data.ignore_obs_next, data.obs.shape) == (4, True, (50, 84, 84))
    batch = data[:]
    assert batch.obs.shape == batch.obs_next.shape == (50, 4, 84, 84)
    np.testing.assert_array_equal(batch.obs[1:20], batch.obs_next[:19])
    trainer = argosy.build(argosy.preset("dqn", "ALE/Pong-v5", data=str(tmp_path / "a.hdf5"), env=env, device="cpu"))
    trainer.test_collector.env.close()
    assert trainer.buffer[:] == batch


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"steps": 0}, r"steps is 0"), ({"steps": 9, "eps": 1.5}, r"eps is 1.5; it must be >= 0 and <= 1")],
)
def test_settings_out_of_range_are_refused(result, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", **changes)


def test_a_missing_run_and_a_place_that_cannot_be_written_are_named(result, tmp_path):
    with pytest.raises(CheckpointError, match="there is no run"):
        argosy.collect_data(tmp_path / "nowhere", tmp_path / "a.hdf5", steps=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/a.hdf5 could not be written"):
        argosy.collect_data(result.run_dir, tmp_path / "file" / "a.hdf5", steps=1)


def test_a_folder_in_the_place_of_the_file_is_refused_before_anything_is_played(result, tmp_path, monkeypatch):
    monkeypatch.setattr(collect.Collector, "collect", lambda *args, **kwargs: pytest.fail("it has played"))
    with pytest.raises(DataError, match=rf"{tmp_path} is a folder; name a file in it, e.g. {tmp_path}/data.hdf5"):
        argosy.collect_data(result.run_dir, tmp_path, steps=10)
    with pytest.raises(DataError, match=r"data\.npz would hold HDF5; let its name end in \.hdf5"):
        argosy.collect_data(result.run_dir, tmp_path / "data.npz", steps=10)
    assert list(tmp_path.iterdir()) == []


def test_what_ctrl_c_interrupts_leaves_no_file(result, tmp_path, monkeypatch):
    def press(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(collect.DatasetWriter, "write", press)
    with pytest.raises(KeyboardInterrupt):
        argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=100)
    assert list(tmp_path.iterdir()) == []
