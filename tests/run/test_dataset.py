"""Runs that learn from a data set."""

import json
import shutil
import signal
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from short import OfflineDQN, quick

import argosy
from argosy.cli import main as cli
from argosy.data import Batch, Priority, ReplayBuffer, sign_hdf5
from argosy.data.datasets import Source, open_source
from argosy.distributed.specs import PolicySpec
from argosy.errors import CheckpointError, ConfigError, DataError
from argosy.experiment import Experiment
from argosy.logger import read_jsonl
from argosy.report import read_runs
from argosy.run.dataset import fitted, of_another_task, of_other_bounds
from argosy.run.folder import RunFolder
from argosy.run.play import film
from argosy.trainer import OfflineToOnlineTrainer, OfflineTrainer
from argosy.trainer.statefile import read_state

h5py = pytest.importorskip("h5py")

OFFLINE = {
    "net": {"hidden_sizes": (16,)},
    "env": {"test_num_envs": 2},
    "trainer": {"max_epoch": 2, "step_per_epoch": 100, "batch_size": 16, "episode_per_test": 2},
    "stop": {"test_return": None, "episodes": 3},
}


def learn(data, runs, algorithm="dqn", task="CartPole-v1", **changes):
    settings = {**OFFLINE, **changes}
    return argosy.train(algorithm, task, data=str(data), seed=5, runs=runs, show_progress=False, **settings)


@pytest.fixture(scope="module")
def cartpole(result, tmp_path_factory):
    """A data set of CartPole-v1."""
    path = tmp_path_factory.mktemp("data") / "cartpole.hdf5"
    argosy.collect_data(result.run_dir, path, steps=600, eps=0.3)
    return path


@pytest.fixture(scope="module")
def learned(cartpole, tmp_path_factory):
    """Of a run of DQN that has learned from it."""
    return learn(cartpole, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """A data set of Pendulum-v1."""
    runs = tmp_path_factory.mktemp("runs")
    trainer = {"max_epoch": 1, "step_per_epoch": 40, "start_steps": 20, "batch_size": 8, "episode_per_test": 1}
    run = quick(runs, algorithm="sac", task="Pendulum-v1", trainer=trainer, stop={"episodes": 1})
    argosy.collect_data(run.run_dir, runs / "pendulum.hdf5", steps=200)
    return runs / "pendulum.hdf5"


def built(data, algorithm="dqn", task="CartPole-v1"):
    trainer = argosy.build(argosy.preset(algorithm, task, data=str(data), **OFFLINE))
    assert trainer.test_collector is not None
    trainer.test_collector.env.close()
    return trainer


def last_state(run_dir):
    return read_state(RunFolder.find(run_dir).checkpoint, "checkpoint")


def longer(run_dir, epochs):
    """Let a run have so many epochs."""
    config = RunFolder.find(run_dir).config
    data = json.loads(config.read_text())
    data["trainer"]["max_epoch"] = epochs
    config.write_text(json.dumps(data))


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else np.array_equal(one, other)


# a run


def test_it_goes_by_updates_and_leaves_what_every_run_leaves(learned, cartpole):
    assert (learned.env_steps, learned.gradient_steps) == (0, 200)
    assert learned.steps_per_s == pytest.approx(200 / learned.wall_s, rel=0.05)
    assert 8 <= learned.test_return_mean <= 500
    folder = RunFolder.find(learned.run_dir)
    assert {file.name for file in folder.path.iterdir()} == {
        "config.json", "policy.json", "metrics.jsonl", "checkpoint.safetensors", "policy.safetensors", "result.json",
        "curve.png", "checkpoint-1.safetensors", "lock", "machine.json",
    }  # fmt: skip
    assert [row["env_step"] for row in read_jsonl(folder.metrics) if "test/return_mean" in row] == [100, 200]
    assert Experiment.load(folder.config).data == str(cartpole.resolve())


def test_its_policy_is_played_and_filmed_without_the_data(learned, tmp_path):
    moved = shutil.copytree(learned.run_dir, tmp_path / "run")
    data = json.loads((moved / "config.json").read_text()) | {"data": "nowhere.hdf5"}
    (moved / "config.json").write_text(json.dumps(data))
    assert argosy.evaluate(moved, episodes=2).n_collected_episodes == 2
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    film(moved, tmp_path / "film.mp4", max_steps=3)
    with pytest.raises(ConfigError, match=r"data is 'nowhere.hdf5', but there is no such file"):
        argosy.resume(moved, show_progress=False)


def test_an_offline_algorithm_learns_from_it(cartpole, tmp_path):
    done = learn(cartpole, tmp_path, algorithm=OfflineDQN, trainer={**OFFLINE["trainer"], "max_epoch": 1})
    assert (done.algorithm, done.gradient_steps) == ("short:OfflineDQN", 100)
    assert argosy.evaluate(done.run_dir, episodes=1).n_collected_episodes == 1


def test_equal_seeds_give_equal_runs(learned, cartpole, tmp_path):
    again = learn(cartpole, tmp_path)
    assert again.test_return_mean == learned.test_return_mean
    assert equal(last_state(again.run_dir)["algorithm"], last_state(learned.run_dir)["algorithm"])


def test_a_resumed_run_is_the_run_that_was_not_interrupted(learned, cartpole, tmp_path):
    half = learn(cartpole, tmp_path, trainer={**OFFLINE["trainer"], "max_epoch": 1})
    longer(half.run_dir, 2)
    whole = argosy.resume(half.run_dir, show_progress=False)
    assert (whole.gradient_steps, whole.test_return_mean) == (200, learned.test_return_mean)
    assert equal(last_state(half.run_dir)["algorithm"], last_state(learned.run_dir)["algorithm"])
    rows = read_jsonl(RunFolder.find(half.run_dir).metrics)
    assert [row["env_step"] for row in rows if "test/return_mean" in row] == [100, 200]


def test_ctrl_c_saves_and_resume_goes_on_from_anywhere(cartpole, tmp_path, monkeypatch):
    update, calls = OfflineTrainer._training_step, []

    def press(self, epoch):
        update(self, epoch)
        calls.append(epoch)
        if len(calls) == 130:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.chdir(cartpole.parent)
    monkeypatch.setattr(OfflineTrainer, "_training_step", press)
    stopped = learn(cartpole.name, tmp_path)
    assert stopped.interrupted
    assert stopped.gradient_steps == 130
    monkeypatch.chdir(tmp_path)
    whole = argosy.resume(stopped.run_dir, show_progress=False)
    assert (whole.interrupted, whole.gradient_steps) == (False, 200)


def test_another_data_set_under_the_same_name_is_noticed(result, tmp_path):
    argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=100)
    done = learn(tmp_path / "a.hdf5", tmp_path, trainer={**OFFLINE["trainer"], "max_epoch": 1})
    argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=120)
    with pytest.raises(CheckpointError, match=r"is of a training from 100 transitions, the data set has 120"):
        argosy.resume(done.run_dir, show_progress=False)
    argosy.collect_data(result.run_dir, tmp_path / "a.hdf5", steps=100, seed=1)
    with pytest.raises(CheckpointError, match=r"is of a training from 100 transitions, the data set has others"):
        argosy.resume(done.run_dir, show_progress=False)


# the data


def test_actions_are_learned_from_in_the_policy_s_scale(pendulum):
    trainer = built(pendulum, "sac", "Pendulum-v1")
    torques = ReplayBuffer.load_hdf5(pendulum)[:].act
    np.testing.assert_allclose(trainer.buffer[:].act, torques / 2, rtol=1e-5, atol=1e-6)
    assert np.abs(torques).max() > 1e-3


def test_actions_of_a_buffer_s_file_are_in_that_scale_already(pendulum, tmp_path):
    trainer = built(pendulum, "sac", "Pendulum-v1")
    trainer.buffer.save_hdf5(tmp_path / "a.hdf5")
    again = built(tmp_path / "a.hdf5", "sac", "Pendulum-v1")
    np.testing.assert_array_equal(again.buffer[:].act, trainer.buffer[:].act)


def test_actions_beyond_the_policy_s_scale_are_told(pendulum, tmp_path):
    trainer = built(pendulum, "sac", "Pendulum-v1")
    trainer.buffer.act[...] *= 2.0 / np.abs(trainer.buffer.act).max()
    trainer.buffer.save_hdf5(tmp_path / "a.hdf5")
    with pytest.warns(UserWarning, match="act reaches 2 and is taken to be in the policy's scale"):
        built(tmp_path / "a.hdf5", "sac", "Pendulum-v1")


def small(path, **changes):
    """Write a data set of 20 transitions as CartPole-v1 gives them, but for `changes`."""
    columns = {
        "obs": np.zeros((20, 4), np.float32),
        "act": np.arange(20) % 2,
        "rew": np.ones(20, np.float32),
        "terminated": np.arange(20) % 5 == 4,
        "truncated": np.zeros(20, bool),
        "done": np.arange(20) % 5 == 4,
        "obs_next": np.zeros((20, 4), np.float32),
    }
    ReplayBuffer.from_data(**{**columns, **changes}).save_hdf5(path)
    return path


def test_a_file_of_one_s_own_is_learned_from(tmp_path):
    trainer = built(small(tmp_path / "a.hdf5"))
    assert len(trainer.buffer) == 20
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        file.attrs["action_scale"] = "env"
    with pytest.raises(DataError, match=r"checksum does not fit. If you have changed it yourself, .*sign_hdf5"):
        built(tmp_path / "a.hdf5")
    sign_hdf5(tmp_path / "a.hdf5")
    assert built(tmp_path / "a.hdf5").buffer[:] == trainer.buffer[:]
    wide = np.zeros((20, 4))
    assert built(small(tmp_path / "b.hdf5", obs=wide, obs_next=wide)).buffer.obs.dtype == np.float32  # the task's


def test_states_and_priorities_of_another_policy_stay_behind(tmp_path):
    """Sequences start from zero, and rows are drawn alike."""
    buffer = ReplayBuffer(20, priority=Priority(alpha=1.0))
    for i in range(20):
        obs = np.zeros(4, np.float32)
        row = Batch(obs=obs, act=i % 2, rew=1.0, terminated=i % 5 == 4, truncated=False, obs_next=obs)
        row.policy = Batch(state=np.full(7, 7.0, np.float32))
        buffer.add(row)
    buffer.update_weight(np.arange(1), np.full(1, 1e6))
    buffer.save_hdf5(tmp_path / "a.hdf5")
    data = built(tmp_path / "a.hdf5").buffer
    assert data.priorities is None
    assert not vars(data[:].policy)


def test_data_of_another_env_with_the_same_spaces_are_told(tmp_path, recwarn):
    for task in ("HalfCheetah-v5", "CartPole-v0", "module:CartPole"):
        with h5py.File(small(tmp_path / "a.hdf5"), "a") as file:
            file.attrs["task"] = task
        sign_hdf5(tmp_path / "a.hdf5")
        built(tmp_path / "a.hdf5")
    told = [str(warning.message) for warning in recwarn if "a.hdf5" in str(warning.message)]
    assert len(told) == 1
    assert "it says that it is of 'HalfCheetah-v5', and the task is 'CartPole-v1'" in told[0]


def test_an_atari_game_is_the_same_by_each_of_its_names():
    pytest.importorskip("ale_py")
    names = "Pong", "Pong-v5", "ALE/Pong-v5", "PongNoFrameskip-v4"

    def said(theirs, task):
        return of_another_task(Source(path="a", format="b", rows=1, read=iter, attributes={"task": theirs}), task)

    assert not any(said(one, other) for one in names for other in names)
    assert "it is of 'ALE/Pong-v5', and the task is 'Breakout-v5'" in said("ALE/Pong-v5", "Breakout-v5")


def test_observations_far_outside_of_the_task_s_bounds_are_told(tmp_path, recwarn):
    """As they are where somebody has normalised them beforehand, by what no policy knows."""
    inside, outside = np.full((20, 4), 0.4, np.float32), np.full((20, 4), 0.4, np.float32)
    inside[3] = [5.0, 1e30, 0.42, -1e30]  # two numbers of CartPole's have no bounds; a little outside is rounding
    outside[7, 2] = -3.0
    built(small(tmp_path / "a.hdf5", obs=inside, obs_next=inside))
    assert not recwarn.list
    built(small(tmp_path / "b.hdf5", obs=outside, obs_next=inside))
    (told,) = [str(warning.message) for warning in recwarn]
    assert "b.hdf5'; obs[2] goes from -3 to 0.4, and the task's from -0.419 to 0.419: it is in other units" in told
    parts = {
        "far": np.full((5, 2), 3.0, np.float32),
        "near": np.zeros((5, 2), np.float32),
        "pixel": np.full((5, 2), 3, np.uint8),
    }
    box = gymnasium.spaces.Box(-1, 1, (2,))
    space = gymnasium.spaces.Dict(near=box, pixel=gymnasium.spaces.Box(0, 1, (2,), np.uint8), far=box)
    assert of_other_bounds(parts, space).startswith("obs.far[0] goes from 3 to 3, and the task's from -1 to 1: ")
    assert of_other_bounds({**parts, "far": parts["near"]}, space) is None


def test_data_of_another_form_is_refused_by_name(cartpole, pendulum, tmp_path):
    with pytest.raises(
        DataError, match=r"pendulum.hdf5', where obs has \(3,\) float32; the task's obs has \(4,\) float32"
    ):
        built(pendulum)
    with pytest.raises(
        DataError, match=r"cartpole.hdf5', where obs has \(4,\) float32; the task's obs has \(3,\) float32"
    ):
        built(cartpole, "sac", "Pendulum-v1")
    with pytest.raises(DataError, match=r"where act has \(\) float32; the task's act has \(\) int64 \(Discrete\(2\)\)"):
        built(small(tmp_path / "a.hdf5", act=np.zeros(20, np.float32)))
    images = small(tmp_path / "b.hdf5", obs=np.zeros((20, 4), np.uint8), obs_next=np.zeros((20, 4), np.uint8))
    with pytest.raises(DataError, match=r"where obs has \(4,\) uint8; the task's obs has \(4,\) float32"):
        built(images)
    with pytest.raises(DataError, match=r"where act, counted from 0, is 2 in row 2; the task has 0 .. 1"):
        built(small(tmp_path / "c.hdf5", act=np.arange(20) % 3))


def test_a_file_that_is_missing_damaged_or_empty_is_named(tmp_path):
    with pytest.raises(
        ConfigError, match=r"data is 'nowhere.hdf5', but there is no such file; `argosy collect` writes"
    ):
        built("nowhere.hdf5")
    (tmp_path / "a.hdf5").write_text("text")
    with pytest.raises(DataError, match=r"a.hdf5 is of no known kind, or damaged; known are argosy's"):
        built(tmp_path / "a.hdf5")
    ReplayBuffer(5).save_hdf5(tmp_path / "b.hdf5")
    with pytest.raises(DataError, match=r"b.hdf5', which holds no transitions"):
        built(tmp_path / "b.hdf5")


def flat(**changes):
    """Columns as D4RL has them, of 20 rows as Pendulum-v1 gives them, but for `changes`."""
    rng = np.random.default_rng(0)
    given = {
        "observations": rng.uniform(-1, 1, (20, 3)),
        "actions": rng.uniform(-2, 2, (20, 1)),
        "rewards": rng.normal(size=20),
        "terminals": np.zeros(20, bool),
        "timeouts": np.arange(20) % 10 == 9,
        "next_observations": rng.uniform(-1, 1, (20, 3)),
    }
    return given | changes


def test_files_of_other_programs_are_learned_from_as_they_are(tmp_path):
    given = flat()
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for name, value in given.items():
            file[name] = value
    np.savez(tmp_path / "a.npz", **given)
    for path in (tmp_path / "a.hdf5", tmp_path / "a.npz"):
        buffer = built(path, "sac", "Pendulum-v1").buffer
        np.testing.assert_allclose(buffer[:].act, given["actions"] / 2, atol=1e-6)  # within -1 .. 1, SAC's scale
        np.testing.assert_array_equal(buffer[:].obs, given["observations"].astype(np.float32))
        assert buffer[:].truncated.sum() == 2
    done = learn(tmp_path / "a.npz", tmp_path / "runs", "td3_bc", "Pendulum-v1")
    assert (done.env_steps, done.gradient_steps) == (0, 200)
    again = argosy.resume(done.run_dir, total_steps=210, show_progress=False)
    assert again.gradient_steps == 210


def test_numbers_that_cannot_be_learned_from_are_named(tmp_path):
    at = np.arange(20)[:, None]
    for changes, message in (
        ({"actions": np.where(at == 7, 2.1, 0.0)}, r"the action in row 7 is out of bounds: \[2.1\]"),
        ({"observations": np.where(at == 3, np.nan, np.zeros((20, 3)))}, r"obs holds NaN .* row 3"),
        ({"observations": np.zeros((20, 4)), "next_observations": np.zeros((20, 4))}, r"where obs has \(4,\) float64"),
        ({"rewards": np.full(20, np.inf)}, r"rew holds NaN or infinite .* row 0"),
    ):
        np.savez(tmp_path / "a.npz", **flat(**changes))
        with pytest.raises(DataError, match=message):
            built(tmp_path / "a.npz", "sac", "Pendulum-v1")
    np.savez(tmp_path / "a.npz", **flat(actions=np.full((20, 1), 2.003)))
    warnings.simplefilter("error")  # nor are they told of: the file says in which scale they are
    assert len(built(tmp_path / "a.npz", "sac", "Pendulum-v1").buffer) == 20  # as files round
    bad = np.zeros((20, 4), np.float32)
    bad[11, 2] = np.nan
    with pytest.raises(DataError, match=r"a.hdf5 cannot be learned from: obs holds NaN .* the first in row 11"):
        built(small(tmp_path / "a.hdf5", obs=bad))


class Boxes(gymnasium.Env):
    """Takes actions of any Box; gives observations of any space."""

    def __init__(self, action_space=None, observation_space=None):
        self.action_space = action_space or gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float64)
        self.observation_space = observation_space or gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, True, {}


def double_boxes():
    return Boxes()


def integer_boxes():
    return Boxes(gymnasium.spaces.Box(0, 9, (1,), np.int64))


def small_images():
    return Boxes(observation_space=gymnasium.spaces.Box(0, 255, (3,), np.uint8))


def choices():
    return Boxes(gymnasium.spaces.Discrete(2, start=1), gymnasium.spaces.Discrete(4))


def task(made):
    return f"{__name__}:{made.__name__}"


@pytest.mark.parametrize(
    ("made", "given", "mapped"),
    [
        (double_boxes, np.linspace(-2.0, 2.0, 20)[:, None], np.linspace(-1.0, 1.0, 20)[:, None]),
        (integer_boxes, np.arange(20)[:, None] % 10, (np.arange(20)[:, None] % 10 + 0.5) / 5 - 1),
    ],
)
def test_actions_of_any_box_become_float32_in_the_policy_s_scale(made, given, mapped, tmp_path):
    np.savez(tmp_path / "a.npz", **flat(actions=given))
    act = built(tmp_path / "a.npz", "td3_bc", task(made)).buffer[:].act
    assert act.dtype == np.float32
    np.testing.assert_allclose(act, mapped, atol=1e-6)
    assert cli(["data", "convert", str(tmp_path / "a.npz"), str(tmp_path / "a.hdf5"), "--task", task(made)]) == 0
    np.testing.assert_array_equal(built(tmp_path / "a.hdf5", "td3_bc", task(made)).buffer[:].act, act)
    policy_scale = small(tmp_path / "b.hdf5", act=mapped, obs=np.zeros((20, 3)), obs_next=np.zeros((20, 3)))
    np.testing.assert_allclose(built(policy_scale, "td3_bc", task(made)).buffer[:].act, mapped, atol=1e-6)
    assert learn(tmp_path / "a.npz", tmp_path / "runs", "td3_bc", task(made)).gradient_steps == 200


def test_integers_are_what_they_were_or_named(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (20, 3))
    np.savez(tmp_path / "a.npz", **flat(observations=images, next_observations=images.astype(np.uint16)))
    np.testing.assert_array_equal(built(tmp_path / "a.npz", "td3_bc", task(small_images)).buffer[:].obs, images)
    np.savez(tmp_path / "a.npz", **flat(observations=images + 1, next_observations=images))
    with pytest.raises(DataError, match=r"a.npz.* obs holds integers from \d+ to 256, where the task's are uint8"):
        built(tmp_path / "a.npz", "td3_bc", task(small_images))


def test_successors_are_held_against_the_task_as_observations_are(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (20, 3), np.uint8)
    np.savez(tmp_path / "a.npz", **flat(observations=images, next_observations=images / np.float32(255)))
    with pytest.raises(DataError, match=r"a.npz.* obs holds uint8, but obs_next, .*, holds float32"):
        built(tmp_path / "a.npz", "td3_bc", task(small_images))
    given = flat()
    seen, after = given.pop("observations"), given.pop("next_observations")
    nested = {"observations/a": seen, "next_observations/a": after, "next_observations/b": after}
    np.savez(tmp_path / "b.npz", **given | nested)
    space = gymnasium.spaces.Dict(a=gymnasium.spaces.Box(-1, 1, (3,)))
    with open_source(tmp_path / "b.npz") as source, pytest.raises(DataError, match=r"where obs_next has a .*, b "):
        fitted(source, space, gymnasium.spaces.Box(-2, 2, (1,)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
@pytest.mark.parametrize("shape", [(20,), (20, 1)])
def test_choices_come_as_integers_of_any_size_and_shape(dtype, shape, tmp_path):
    def tabular(act=1 + np.arange(20) % 2, obs=np.arange(20) % 4):  # noqa: B008
        act, obs = act.astype(dtype).reshape(shape), obs.astype(dtype).reshape(shape)
        np.savez(tmp_path / "a.npz", **flat(actions=act, observations=obs, next_observations=obs))
        return tmp_path / "a.npz"

    buffer = built(tabular(), "bc", task(choices)).buffer
    assert buffer[:].act.tolist() == (np.arange(20) % 2).tolist()  # counted from 0
    assert buffer[:].obs.tolist() == (np.arange(20) % 4).tolist()
    for changes, message in (
        ({"act": np.where(np.arange(20) == 7, 3, 1)}, "where act is 3 in row 7; the task has 1 .. 2"),
        ({"obs": np.where(np.arange(20) == 5, 99, 1)}, "where obs is 99 in row 5; the task has 0 .. 3"),
    ):
        path = str(tabular(**changes))
        assert cli(["data", path, "--task", task(choices)]) == 1
        with pytest.raises(DataError, match=message):
            built(path, "bc", task(choices))


def test_too_little_data_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"batch_size is 32, but the buffer holds 20 transitions"):
        argosy.build(
            argosy.preset("dqn", "CartPole-v1", data=str(small(tmp_path / "a.hdf5")), **{"trainer.batch_size": 32})
        )


# without an env


@pytest.fixture
def no_horizons(monkeypatch):
    monkeypatch.setattr("argosy.trainer.fqe.HORIZONS", 0)


UNTESTED = {**OFFLINE["trainer"], "max_epoch": 3, "step_per_epoch": 20, "episode_per_test": 0}


def test_where_nothing_is_tested_fitted_q_evaluation_says_which_version_is_the_best(
    cartpole, tmp_path, monkeypatch, no_horizons
):
    values = iter([1.0, 7.0, 2.0, 3.0])
    monkeypatch.setattr("argosy.trainer.fqe.FittedQ.value", lambda self: next(values))
    played = []
    monkeypatch.setattr("argosy.collect.Collector.collect", lambda *args, **how: played.append(how))
    done = learn(cartpole, tmp_path, trainer=UNTESTED, callbacks=["fqe(updates=1)"])
    assert not played
    assert done.chosen_by == "fitted Q evaluation"
    assert done.policy.version == 39  # of the second epoch
    assert (np.isnan(done.test_return_mean), done.test_episodes) == (True, 0)
    assert done.score == "unknown: nothing was tested; its best version was chosen by fitted Q evaluation"
    noted = json.loads(RunFolder.find(done.run_dir).result.read_text())
    assert (noted["chosen_by"], noted["test_return_mean"]) == ("fitted Q evaluation", None)
    _, said = read_runs([done.run_dir])
    assert said == [
        f"{done.run_dir}: has no score; its best version was chosen by fitted Q evaluation; it was not tested"
    ]
    rows = read_jsonl(RunFolder.find(done.run_dir).metrics)
    assert [(row["env_step"], row["test/fqe_value"]) for row in rows if "test/fqe_value" in row] == [
        (20, 1.0), (40, 7.0), (60, 2.0),
    ]  # fmt: skip
    again = argosy.resume(done.run_dir, total_steps=80, show_progress=False)
    assert (again.policy.version, again.chosen_by) == (39, "fitted Q evaluation")  # 3 is not better than 7


def test_it_is_asked_where_nobody_names_it_and_where_it_can_judge(cartpole, no_horizons, tmp_path):
    trainer = argosy.build(argosy.preset("dqn", "CartPole-v1", data=str(cartpole), **{**OFFLINE, "trainer": UNTESTED}))
    assert [type(one).__name__ for one in trainer.callbacks] == ["FQE"]
    assert trainer.test_collector is None
    with pytest.raises(ConfigError, match=r"EarlyStop goes by tests, and trainer.episode_per_test is 0"):
        learn(cartpole, tmp_path, trainer=UNTESTED, callbacks=["early_stop"])
    memory = {"memory": "gru", "memory_size": 4}
    done = learn(cartpole, tmp_path, trainer={**UNTESTED, "max_epoch": 1, "step_per_epoch": 3}, net=memory)
    assert done.chosen_by == "time: it is the last one"
    assert done.policy.version == 2


def test_where_no_episode_begins_in_the_data_the_last_version_is_kept(cartpole, tmp_path):
    data = open_source(cartpole).load()
    data.rings.first[:] = False
    data.save_hdf5(tmp_path / "pieces.hdf5")
    done = learn(tmp_path / "pieces.hdf5", tmp_path, trainer={**UNTESTED, "max_epoch": 1, "step_per_epoch": 3})
    assert done.chosen_by == "time: it is the last one"


def test_only_a_run_from_data_alone_does_without_tests():
    with pytest.raises(ConfigError, match=r"trainer.episode_per_test is 0, but only a run that learns from data alone"):
        argosy.preset("dqn", "CartPole-v1", trainer={"episode_per_test": 0})


# settings


def test_an_online_algorithm_refuses_data_by_name():
    with pytest.raises(ConfigError, match=r"data is 'a.hdf5', but ppo learns on-policy"):
        argosy.preset("ppo", "CartPole-v1", data="a.hdf5")


def test_an_offline_algorithm_asks_for_data(tmp_path):
    with pytest.raises(ConfigError, match=r"short:OfflineDQN learns from a data set; which\? --data FILE"):
        argosy.train(OfflineDQN, "CartPole-v1", runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_only_collecting_obeys_is_left_out_of_presets_and_refused_by_name():
    online = argosy.preset("dqn", "CartPole-v1")
    assert online.trainer.start_steps > 0
    offline = online.replaced({"data": "a.hdf5"})
    made = argosy.preset("dqn", "CartPole-v1", data="a.hdf5")
    assert made.stop.test_return is None  # how good a policy becomes from data is up to the data
    assert offline == made.replaced({"stop.test_return": online.stop.test_return})
    assert (offline.trainer.start_steps, offline.trainer.update_per_step, offline.buffer.size) == (0, None, 20_000)
    assert offline.trainer.step_per_epoch == online.trainer.step_per_epoch
    for changes, message in (
        ({"trainer": {"start_steps": 7}}, r"trainer.start_steps is 7, but dqn learns from a data set here"),
        ({"trainer.update_per_step": 0.5}, r"trainer.update_per_step is 0.5"),
        ({"buffer.stack_num": 2}, r"buffer.stack_num is 2"),
    ):
        with pytest.raises(ConfigError, match=message):
            argosy.preset("dqn", "CartPole-v1", data="a.hdf5", **changes)
        with pytest.raises(ConfigError, match=message.replace("dqn", "short:OfflineDQN")):
            argosy.preset(OfflineDQN, "CartPole-v1", **changes)


# offline first, online afterwards

PHASES = {
    **OFFLINE,
    "env": {"test_num_envs": 2, "num_envs": 2},
    "trainer": {**OFFLINE["trainer"], "max_epoch": 3, "offline_updates": 150, "step_per_epoch": 80},
}


@pytest.fixture(scope="module")
def went_on(pendulum, tmp_path_factory):
    """A run of IQL: 150 updates, and 90 steps of the env."""
    return learn(pendulum, tmp_path_factory.mktemp("runs"), "iql", "Pendulum-v1", **PHASES)


def test_a_run_goes_on_in_the_env_after_its_data_set(went_on):
    assert (went_on.env_steps, went_on.gradient_steps) == (90, 150 + 80)  # a batch of 16 is there after 20 steps
    rows = read_jsonl(RunFolder.find(went_on.run_dir).metrics)
    assert [row["env_step"] for row in rows if "test/return_mean" in row] == [80, 160, 240]
    with pytest.raises(ConfigError, match=r"has finished \(240 updates and steps\)"):
        argosy.resume(went_on.run_dir, show_progress=False)


@pytest.mark.parametrize("position", [100, 200])
def test_it_resumes_exactly_in_either_phase(position, went_on, pendulum, tmp_path, monkeypatch):
    step = OfflineToOnlineTrainer._training_step

    def fail(self, epoch):
        step(self, epoch)
        if self.position == position:  # the checkpoint before it, at 80 or 160, is what `resume` begins with
            raise RuntimeError("out of luck")

    monkeypatch.setattr(OfflineToOnlineTrainer, "_training_step", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        learn(pendulum, tmp_path, "iql", "Pendulum-v1", **PHASES)
    monkeypatch.setattr(OfflineToOnlineTrainer, "_training_step", step)
    (run,) = (path.parent for path in tmp_path.rglob("config.json"))
    whole = argosy.resume(run, show_progress=False)
    assert (whole.env_steps, whole.gradient_steps) == (90, 230)
    assert whole.test_return_mean == went_on.test_return_mean
    for part in ("algorithm", "buffer"):
        assert equal(last_state(run)[part], last_state(went_on.run_dir)[part])


def test_what_both_sources_cannot_do_is_refused_by_name(pendulum):
    offline = {"trainer.offline_updates": 10}
    for algorithm, changes, message in (
        ("iql", offline, r"trainer.offline_updates is 10, but there is no data set; name it: --data FILE"),
        ("sac", {"trainer.data_share": 0.5}, r"trainer.data_share is 0.5, but there is no data set"),
        ("iql", {"data": "a.hdf5", "trainer.data_share": 0.5}, r"trainer.data_share is 0.5, but iql learns from a"),
        ("bc", {"data": "a.hdf5", **offline}, r"offline_updates is 10, but bc learns nothing from what it does"),
        ("iql", {"data": "a.hdf5", "trainer.offline_updates": 20_000}, r"offline_updates is 20000, but the run"),
        ("reinforce", {"trainer.offline_updates": 10}, r"offline_updates is 10, but reinforce learns on-policy"),
    ):
        task = "Pendulum-v1" if algorithm == "sac" else "CartPole-v1"
        with pytest.raises(ConfigError, match=message):
            argosy.preset(algorithm, task, **changes)
    priority = argosy.preset("sac", "Pendulum-v1", data=str(pendulum), buffer={"priority": {"alpha": 0.5}}, **offline)
    with pytest.raises(ConfigError, match=r"buffer draws by priority, which a data set beside it does not"):
        argosy.build(priority)


# an expert's rows beside what is collected

IMITATE = {
    **OFFLINE,
    "env": {"test_num_envs": 2, "num_envs": 2},
    "trainer": {"max_epoch": 2, "step_per_epoch": 80, "step_per_collect": 40, "episode_per_test": 2},
}


def test_an_on_policy_algorithm_takes_an_expert_s_rows_from_it_and_resumes_exactly(pendulum, tmp_path):
    done = learn(pendulum, tmp_path, "gail", "Pendulum-v1", **IMITATE)
    assert done.env_steps == 160
    half = learn(pendulum, tmp_path, "gail", "Pendulum-v1", **IMITATE | {"trainer.max_epoch": 1})
    longer(half.run_dir, 2)
    argosy.resume(half.run_dir, show_progress=False)
    assert equal(last_state(half.run_dir)["algorithm"], last_state(done.run_dir)["algorithm"])


def test_it_is_refused_without_them(tmp_path):
    with pytest.raises(ConfigError, match=r"gail learns from a data set; which\? --data FILE"):
        argosy.train("gail", "Pendulum-v1", runs=tmp_path)
    with pytest.raises(ConfigError, match=r"gail learns from a data set here, a fleet from what its actors play"):
        PolicySpec(experiment=argosy.preset("gail", "Pendulum-v1"))
    with pytest.raises(ConfigError, match=r"trainer.offline_updates is 5, but gail learns on-policy"):
        argosy.preset("gail", "Pendulum-v1", data="a.hdf5", **{"trainer.offline_updates": 5})


def test_a_fleet_refuses_data_by_name():
    experiment = argosy.preset("dqn", "CartPole-v1", data="a.hdf5")
    with pytest.raises(ConfigError, match=r"dqn learns from a data set here, a fleet from what its actors play"):
        PolicySpec(experiment=experiment)
    assert not PolicySpec(experiment=experiment, learns=False).learns


def test_progress_is_shown_in_updates(cartpole, tmp_path, capsys):
    trainer = {**OFFLINE["trainer"], "max_epoch": 1}
    argosy.train("dqn", "CartPole-v1", data=str(cartpole), runs=tmp_path, **{**OFFLINE, "trainer": trainer})
    assert "epoch 1, 100 updates, test return" in capsys.readouterr().err
