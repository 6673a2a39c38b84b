"""What a run goes on from, whatever befell it."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from short import QUICK, quick

import argosy
from argosy.algorithm import DQN
from argosy.collect import Collector
from argosy.errors import CheckpointError, ConfigError, DataError
from argosy.run import checkpoints
from argosy.run.folder import RunFolder
from argosy.run.result import BestPolicy
from argosy.run.saved import POLICY
from argosy.trainer.statefile import read_state, write_state

LONG = {"trainer": {**QUICK["trainer"], "max_epoch": 4}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return RunFolder.find(quick(tmp_path_factory.mktemp("runs"), **LONG).run_dir)


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a run that has ended, to do harm to."""
    return RunFolder(shutil.copytree(finished.path, tmp_path / "run"))


def only_run(tmp_path):
    (config,) = tmp_path.rglob("config.json")
    return RunFolder(config.parent)


def step_of(path):
    return read_state(path, "checkpoint")["trainer"]["env_step"]


def fails_at(monkeypatch, update, error):
    """Let one update fail; returns what counts them."""
    count, learn = [0], DQN.update

    def failing(self, batch):
        count[0] += 1
        if count[0] >= update:
            raise error
        return learn(self, batch)

    monkeypatch.setattr(DQN, "update", failing)
    return count


def parameters(path):
    return read_state(path, "checkpoint")["algorithm"]["parts"]["policy"]


def test_the_newest_three_are_kept(finished):
    found = {path.name: step_of(path) for path in finished.path.glob("checkpoint*")}
    assert found == {
        "checkpoint.safetensors": 800,
        "checkpoint-1.safetensors": 600,
        "checkpoint-2.safetensors": 400,
    }


@pytest.mark.parametrize("keep", [1, 2])
def test_as_many_as_asked_for_are_kept(tmp_path, keep):
    quick(tmp_path, trainer={**LONG["trainer"], "keep_checkpoints": keep})
    assert len(list(only_run(tmp_path).path.glob("checkpoint*"))) == keep


def test_a_damaged_checkpoint_is_said_and_the_one_before_gives_the_same_run(run, finished):
    data = bytearray(run.checkpoint.read_bytes())
    data[len(data) // 2] ^= 16
    run.checkpoint.write_bytes(data)
    run.result.unlink()
    with pytest.warns(UserWarning, match=r"is damaged.*the run goes on from checkpoint-1\.safetensors"):
        argosy.resume(run.path, show_progress=False)
    assert step_of(run.checkpoint) == 800
    ours, theirs = parameters(run.checkpoint), parameters(finished.checkpoint)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_that_lacks_its_result_alone_is_not_saved_again(run):
    saved = run.checkpoint.read_bytes()
    result = run.result.read_text()
    run.result.unlink()
    argosy.resume(run.path, show_progress=False)
    assert run.checkpoint.read_bytes() == saved
    assert json.loads(run.result.read_text()) | {"run_dir": ""} == json.loads(result) | {"run_dir": ""}


def test_a_checkpoint_that_a_kill_has_left_half_way_takes_its_place(run):
    run.result.unlink()
    run.checkpoint.rename(run.path / "checkpoint-new.safetensors")
    argosy.resume(run.path, show_progress=False)
    assert {path.name: step_of(path) for path in run.path.glob("checkpoint*")} == {
        "checkpoint.safetensors": 800,
        "checkpoint-1.safetensors": 600,
        "checkpoint-2.safetensors": 400,
    }


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [(checkpoints, "save_checkpoint", CheckpointError("no space left")),
     (checkpoints.Checkpoints, "_keep", OSError("no space left"))],
)  # fmt: skip
def test_a_full_disk_is_said_and_the_run_goes_on_and_tries_again(place, name, error, tmp_path, monkeypatch):
    saved = getattr(place, name)
    left = [2]

    def full(*args):
        left[0] -= 1
        if left[0] >= 0:
            raise error
        saved(*args)

    monkeypatch.setattr(place, name, full)
    trainer = {**LONG["trainer"], "max_epoch": 6, "checkpoint_epochs": 2}
    with pytest.warns(UserWarning, match="no checkpoint was written, the run goes on and will try again: no space"):
        result = quick(tmp_path, trainer=trainer)
    assert result.env_steps == 1200
    # after epochs 2 and 3 in vain, after 4 and at the end
    assert [step_of(path) for path in only_run(tmp_path).path.glob("checkpoint*-1*")] == [800]


def test_a_folder_that_vanished_is_an_error(tmp_path):
    class Remover:
        def on_epoch(self, trainer, epoch):
            shutil.rmtree(only_run(tmp_path).path)

    with pytest.raises(CheckpointError, match=r"the run's folder .* is gone: it was removed or moved"):
        quick(tmp_path, callbacks=[Remover()], **LONG)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_failure_is_saved_beside_the_checkpoints_and_the_run_goes_on_from_it(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fails_at(patch, 60, DataError("the loss is nan"))
        with pytest.raises(DataError, match=r"(?s)the loss is nan.*the training so far is saved, go on with: argosy"):
            quick(tmp_path, **LONG)
    run = only_run(tmp_path)
    assert step_of(run.checkpoint) == 200
    assert 200 < step_of(run.crash) < 400
    assert argosy.resume(run.path, show_progress=False).env_steps == 800
    assert not run.crash.exists()


def test_what_fails_again_at_once_is_dropped_for_the_last_checkpoint(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fails_at(patch, 60, DataError("the loss is nan"))
        with pytest.raises(DataError):
            quick(tmp_path, **LONG)
    run = only_run(tmp_path)
    with monkeypatch.context() as patch:
        fails_at(patch, 1, DataError("the loss is nan"))
        with pytest.raises(DataError, match="leads here again and was dropped, go on with: argosy resume"):
            argosy.resume(run.path, show_progress=False)
    assert step_of(run.checkpoint) == 200
    assert argosy.resume(run.path, show_progress=False).env_steps == 800


def test_a_checkpoint_that_leads_to_the_failure_makes_room_for_the_one_before(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fails_at(patch, 110, DataError("the loss is nan"))
        with pytest.raises(DataError):
            quick(tmp_path, **LONG)
    run = only_run(tmp_path)
    assert [step_of(path) for path in (run.checkpoint, run.path / "checkpoint-1.safetensors")] == [400, 200]
    with monkeypatch.context() as patch:
        fails_at(patch, 1, DataError("the loss is nan"))
        with pytest.raises(DataError, match="leads here again and was dropped"):
            argosy.resume(run.path, show_progress=False)
        with pytest.raises(DataError, match=r"checkpoint\.safetensors leads here, too, and is now checkpoint\.refused"):
            argosy.resume(run.path, show_progress=False)
        assert step_of(run.checkpoint) == 200
        with pytest.raises(DataError, match="the training so far is saved"):  # the last one stays
            argosy.resume(run.path, show_progress=False)
    assert argosy.resume(run.path, show_progress=False).env_steps == 800
    assert not run.crash.exists()


def test_what_fails_again_before_the_first_checkpoint_is_to_begin_anew(tmp_path, monkeypatch):
    fails_at(monkeypatch, 5, DataError("the loss is nan"))
    with pytest.raises(DataError, match="the training so far is saved, go on with: argosy resume"):
        quick(tmp_path, **LONG)
    run = only_run(tmp_path)
    for _ in range(2):
        with pytest.raises(DataError, match=r"and there is no other; begin anew: argosy train --config .*config\.json"):
            argosy.resume(run.path, show_progress=False)
    assert run.crash.exists()


def test_a_copy_beside_the_checkpoints_is_none_of_them(run):
    shutil.copy(run.checkpoint, run.path / "checkpoint-1 (copy).safetensors")
    assert argosy.resume(run.path, total_steps=1000, show_progress=False).env_steps == 1000


def test_who_interrupts_the_last_checkpoint_reads_how_to_go_on(tmp_path, monkeypatch):
    save = checkpoints.Checkpoints.save

    def press(self, trainer):
        if trainer.is_over:
            raise KeyboardInterrupt
        return save(self, trainer)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.Checkpoints, "save", press)
        with pytest.raises(KeyboardInterrupt) as caught:
            quick(tmp_path)
    (note,) = caught.value.__notes__
    assert "go on with: argosy resume" in note
    assert argosy.resume(only_run(tmp_path).path, show_progress=False).test_episodes > 0


@pytest.mark.parametrize("full", [False, True])
def test_who_interrupts_the_last_evaluation_reads_how_to_go_on(full, tmp_path, monkeypatch):
    save = checkpoints.Checkpoints.save

    def press(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BestPolicy, "result", press)
        if full:  # the disk, in the end
            patch.setattr(
                checkpoints.Checkpoints, "save", lambda self, trainer: not trainer.is_over and save(self, trainer)
            )
        with pytest.raises(KeyboardInterrupt) as caught:
            quick(tmp_path)
    (note,) = caught.value.__notes__
    said = "the last checkpoint is whole, go on with" if full else "the training is saved, evaluate it with"
    assert note.startswith(f"{said}: argosy resume")
    assert argosy.resume(only_run(tmp_path).path, show_progress=False).test_episodes > 0


@pytest.mark.parametrize(
    "error",
    [RuntimeError("CUDA error"), MemoryError("no memory"), IndexError("out of range"), KeyboardInterrupt("the second")],
)
def test_any_error_says_how_to_go_on(tmp_path, monkeypatch, error):
    with monkeypatch.context() as patch:
        fails_at(patch, 60, error)
        with pytest.raises(type(error)) as caught:
            quick(tmp_path, **LONG)
    (note,) = caught.value.__notes__
    assert note.startswith("the last checkpoint is whole, go on with: argosy resume")
    run = only_run(tmp_path)
    assert not run.crash.exists()
    assert argosy.resume(run.path, show_progress=False).env_steps == 800


def test_an_error_before_the_first_checkpoint_leaves_something_to_go_on_from(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fails_at(patch, 5, RuntimeError("CUDA error"))
        with pytest.raises(RuntimeError) as caught:
            quick(tmp_path, **LONG)
    assert caught.value.__notes__[0].startswith("the training so far is saved, go on with: argosy resume")
    assert argosy.resume(only_run(tmp_path).path, show_progress=False).env_steps == 800


def test_an_infinite_observation_never_enters_the_buffer(tmp_path, monkeypatch):
    record = Collector._record
    steps = [0]

    def poisoned(self, rows, act, stored, outcome, ended):
        steps[0] += 1
        if steps[0] == 120:
            outcome = np.full_like(outcome[0], np.inf), *outcome[1:]
        return record(self, rows, act, stored, outcome, ended)

    with monkeypatch.context() as patch:
        patch.setattr(Collector, "_record", poisoned)
        with pytest.raises(
            argosy.errors.EnvError, match=r"obs_next\[0\] = inf in step .*nothing of this step was stored"
        ):
            quick(tmp_path, **LONG)
    run = only_run(tmp_path)
    assert argosy.resume(run.path, show_progress=False).env_steps == 800


def test_one_process_at_a_time(run):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"from argosy.files import claim; import time, pathlib; claim(pathlib.Path({str(run.path)!r}), 'x');"
            "print('has it', flush=True); time.sleep(100)",
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"has it\n"
        with pytest.raises(ConfigError, match=rf"is in use by process {holder.pid} on .*end it first"):
            argosy.resume(run.path, total_steps=1000, show_progress=False)
    finally:
        holder.kill()
        holder.wait()
    (run.path / ".checkpoint.safetensors.123.tmp").write_bytes(b"half")
    assert argosy.resume(run.path, total_steps=1000, show_progress=False).env_steps == 1000
    assert not list(run.path.glob(".*"))


@pytest.mark.parametrize(
    "make",
    [
        "make()",
        "make('forkserver')",
        "thread = threading.Thread(target=make); thread.start(); thread.join()",
    ],
)
def test_env_processes_die_with_their_owner_even_while_an_env_hangs(make, tmp_path):
    """In code that lets no other thread of its process run."""
    script = f"""
import re, sys, threading, os
sys.path.insert(0, {str(tmp_path)!r})
import gymnasium
from argosy.env import SubprocVectorEnv

class Hanging(gymnasium.Wrapper):
    def step(self, action):
        os.write(1, b"%d\\n" % os.getpid())  # in one piece: there are two who write
        re.match("(a+)+$", "a" * 60 + "b")

def make(context=None):
    fns = [lambda: Hanging(gymnasium.make("CartPole-v1"))] * 2
    env = SubprocVectorEnv(fns, envs_per_worker=1, context=context)
    env.reset()
    env.step([0, 0])

{make}
"""
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pids = [int(owner.stdout.readline()) for _ in range(2)]
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 10.0
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "an env process outlives its owner"
        time.sleep(0.05)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before the file is opened, or before it is read
        return False


def test_episodes_longer_than_an_epoch_come_to_their_end(tmp_path, monkeypatch):
    """Each env makes 40 steps per epoch, an episode of Pendulum has 200; killed twice, the run is still the same."""
    due = []

    def watched(every, trainer):
        due.append(checkpoints.is_due(every, trainer))
        if trainer.state.epoch in (20, 53):
            shutil.copytree(only_run(tmp_path / "whole").path, tmp_path / f"killed-{trainer.state.epoch}")
        return due[-1]

    monkeypatch.setattr("argosy.run.train.is_due", watched)
    trainer = {"max_epoch": 56, "step_per_epoch": 320, "step_per_collect": 160, "episode_per_test": 1}
    small = {"trainer": trainer, "env": {"num_envs": 8, "test_num_envs": 1}, "net": {"hidden_sizes": (8,)}}
    learns = {"repeat_per_collect": 1, "batch_size": 80, "stop.episodes": 1}
    whole = argosy.train("ppo", "Pendulum-v1", seed=3, runs=tmp_path / "whole", show_progress=False, **small, **learns)

    # With the 51st each env has made 2,000 steps since the first: ten episodes
    assert [epoch for epoch, is_due in enumerate(due, 1) if is_due] == [1, 51]
    whole_state = read_state(RunFolder(Path(whole.run_dir)).checkpoint, "checkpoint")
    assert whole_state["trainer"]["train_episode"] >= 9 * 8
    monkeypatch.undo()
    for epoch, steps in ((20, 320), (53, 51 * 320)):
        killed = RunFolder(tmp_path / f"killed-{epoch}")
        assert step_of(killed.checkpoint) == steps
        argosy.resume(killed.path, show_progress=False)
        again = read_state(killed.checkpoint, "checkpoint")
        assert again["trainer"]["train_episode"] == whole_state["trainer"]["train_episode"]
        for name, array in whole_state["algorithm"]["parts"]["policy"].items():
            np.testing.assert_array_equal(again["algorithm"]["parts"]["policy"][name], array)


def test_a_checkpoint_waits_for_no_episode_that_never_ends():
    class Played:
        steps_since_restart, longest_episode = 19_999, 19_999

    trainer = SimpleNamespace(state=SimpleNamespace(epoch=7))
    with patch.object(checkpoints, "collectors_of", lambda trainer: {"train_collector": Played()}):
        assert not checkpoints.is_due(None, trainer)
        Played.steps_since_restart = checkpoints.MOST_STEPS
        assert checkpoints.is_due(None, trainer)
        Played.steps_since_restart = 0  # a run that learns from data alone, so far
        assert checkpoints.is_due(None, trainer)
        assert not checkpoints.is_due(0, trainer)
        assert checkpoints.is_due(7, trainer)


def test_who_goes_on_from_an_older_checkpoint_ends_with_no_later_policy(run):
    """The best policy of steps that are not made again is none of the run that takes another way."""
    oldest = min(run.path.glob("checkpoint*"), key=step_of)
    step = step_of(oldest)
    state = read_state(oldest, "checkpoint")["trainer"]
    for file in run.path.glob("checkpoint*"):
        if file != oldest:
            file.unlink()
    oldest.replace(run.checkpoint)
    best = read_state(run.best_policy, POLICY)["policy"]
    write_state(run.best_policy, POLICY, {"policy": {**best, "version": 10**6}})
    result = argosy.resume(run.path, total_steps=step + 10, show_progress=False)
    assert result.env_steps < step + 20
    assert read_state(run.best_policy, POLICY)["policy"]["version"] < state["update_step"] + 20
