"""Callbacks that have names: they do what they say, also over a resume."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from short import QUICK, quick

import argosy
from argosy.data import CollectStats
from argosy.errors import CallbackError, CheckpointError, ConfigError, EnvError
from argosy.logger import read_jsonl
from argosy.presets import preset
from argosy.run.callbacks import FQE, EarlyStop, KeepCheckpoints
from argosy.run.folder import RunFolder
from argosy.run.result import BestPolicy, drop_later_policy
from argosy.trainer.checkpoint import save_checkpoint
from argosy.trainer.statefile import read_state

LONG = {**QUICK["trainer"], "max_epoch": 6}


class Scripted:
    """Makes tests as good as it is told."""

    def __init__(self, *means):
        self.means = iter(means)

    def on_eval(self, trainer, stats):
        stats.returns[:] = next(self.means)


def test_a_run_that_gets_no_better_ends_and_is_evaluated(tmp_path):
    told = Scripted(1.0, 5.0, 5.5, 5.9, 8.0, 9.0)
    result = quick(tmp_path, trainer=LONG, callbacks=[told, EarlyStop(tests=2, at_least=1.0)])
    assert result.env_steps == 4 * 200
    assert not result.interrupted
    assert result.reason == "a callback ended it"
    assert result.test_episodes == QUICK["stop"]["episodes"]
    assert math.isfinite(result.test_return_mean)


def test_a_run_that_got_no_better_waits_anew_when_it_is_made_longer(tmp_path):
    run = quick(tmp_path, trainer=LONG, callbacks=["early_stop(tests=2, at_least=1000)"]).run_dir
    with pytest.raises(ConfigError, match=r"has finished \(a test or a callback ended it\); to go on"):
        argosy.resume(run, show_progress=False)
    assert argosy.resume(run, total_steps=2000, show_progress=False).env_steps == 5 * 200


class Ends:
    def on_step(self, trainer):
        if trainer.position >= 300:
            trainer.interrupt()


def test_a_run_that_a_callback_interrupts_has_ended(tmp_path):
    """Or many runs, trials and populations would take it for one that Ctrl-C has cut off."""
    result = quick(tmp_path, trainer=LONG, callbacks=[Ends()])
    assert 300 <= result.env_steps < 400
    assert not result.interrupted
    assert result.reason == "a callback ended it"
    assert math.isfinite(result.test_return_mean)
    with pytest.raises(ConfigError, match=r"has finished \(a test or a callback ended it\)"):
        argosy.resume(result.run_dir, show_progress=False)
    assert argosy.resume(result.run_dir, total_steps=600, show_progress=False).env_steps == 600


def test_a_best_policy_that_is_dropped_leaves_no_score_that_no_later_one_beats(tmp_path):
    folder = RunFolder.find(quick(tmp_path).run_dir)
    policy = SimpleNamespace(version=0)  # as in a checkpoint from before the best policy was met
    trainer = SimpleNamespace(
        algorithm=SimpleNamespace(policy=policy), state=SimpleNamespace(best_reward=5.0), callbacks=[FQE()]
    )
    trainer.callbacks[0].best = 7.0
    drop_later_policy(folder, trainer)
    assert not folder.best_policy.exists()
    assert trainer.state.best_reward == trainer.callbacks[0].best == -math.inf


def test_a_best_policy_that_is_torn_is_dropped(tmp_path):
    folder = RunFolder.find(quick(tmp_path).run_dir)
    folder.best_policy.write_bytes(folder.best_policy.read_bytes()[:500])
    with pytest.warns(UserWarning, match=r"policy\.safetensors.*; it is dropped, and the next policy that is tested"):
        result = argosy.resume(folder.path, total_steps=600, show_progress=False)
    assert math.isfinite(result.test_return_mean)


def test_a_full_disk_costs_a_kept_checkpoint_and_not_the_run(tmp_path, monkeypatch):
    tried = []

    def save(path, trainer):
        tried.append(path.name)
        if len(tried) < 3:
            raise CheckpointError("No space left on device")
        save_checkpoint(path, trainer)

    monkeypatch.setattr("argosy.run.callbacks.save_checkpoint", save)
    with pytest.warns(
        UserWarning, match=r"step-200.safetensors was not kept, the run goes on and will try again: No sp"
    ):
        run = quick(tmp_path, callbacks=["keep_checkpoints(every=200)"]).run_dir
    assert tried[:3] == ["step-200.safetensors"] * 3
    assert (Path(run) / "step-200.safetensors").is_file()


@pytest.mark.parametrize("target", [495.0, 8.0], ids=["never", "in tests, but not confirmed"])
def test_a_target_that_was_not_reached_stays_when_a_run_is_made_longer(target, tmp_path, monkeypatch):
    evaluated = CollectStats(n_collected_episodes=3, returns=np.ones(3))
    monkeypatch.setattr(BestPolicy, "_evaluate", lambda self, policy: evaluated)
    stop = {**QUICK["stop"], "test_return": target}
    done = quick(tmp_path, trainer=LONG, stop=stop, callbacks=["early_stop(tests=1, at_least=1000)"])
    assert done.reason == "a callback ended it"
    argosy.resume(done.run_dir, total_steps=1000, show_progress=False)
    assert json.loads((Path(done.run_dir) / "config.json").read_text())["stop"]["test_return"] == target


def test_a_test_that_is_played_again_after_a_failure_counts_once():
    stop, stats = EarlyStop(tests=3), CollectStats(n_collected_episodes=1, returns=np.ones(1))
    for position in (100, 200, 200):
        stop.on_eval(SimpleNamespace(position=position), stats)
    assert stop.since == 1


def test_early_stop_goes_on_counting_after_a_resume():
    first, again = EarlyStop(tests=3), EarlyStop(tests=3)
    first.best, first.since = 7.0, 2
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert (again.best, again.since) == (7.0, 2)


def test_checkpoints_on_the_way_are_kept_and_can_be_loaded_and_gone_on_from(tmp_path):
    result = quick(tmp_path, callbacks=["keep_checkpoints(every=100, keep=2)"])
    run = Path(result.run_dir)
    assert {file.name for file in run.glob("step-*")} == {"step-300.safetensors", "step-400.safetensors"}
    assert argosy.load(run / "step-300.safetensors").version > 0
    assert read_state(run / "step-300.safetensors", "checkpoint")["trainer"]["env_step"] == 300

    for file in run.glob("checkpoint*"):
        file.unlink()
    (run / "step-300.safetensors").rename(run / "checkpoint.safetensors")
    (run / "step-400.safetensors").unlink()
    (run / "result.json").unlink()
    again = argosy.resume(run, show_progress=False)
    assert again.env_steps == 400
    assert [file.name for file in run.glob("step-*")] == ["step-400.safetensors"]


def test_every_k_th_test_is_filmed(tmp_path):
    pytest.importorskip("PIL.Image")
    pytest.importorskip("pygame")
    trainer = {**QUICK["trainer"], "max_epoch": 3}
    result = quick(tmp_path, trainer=trainer, callbacks=["video(every=2, max_steps=5)"], net={"norm_obs": True})
    assert [file.name for file in Path(result.run_dir).glob("video-*")] == ["video-400.gif"]
    unfilmed = quick(tmp_path, trainer=trainer, net={"norm_obs": True}).policy.state_dict()
    assert all(value.equal(unfilmed[name]) for name, value in result.policy.state_dict().items())


def test_an_env_that_cannot_be_filmed_is_refused_at_once_and_costs_a_film_later(tmp_path, monkeypatch):
    class Blind(CartPoleEnv):
        def render(self):
            return None

    with pytest.raises(CallbackError, match=r"begin of Video raised .*no RGB pictures"):
        quick(tmp_path, task=Blind, callbacks=["video(every=1)"])

    def fails(*args):
        raise EnvError("no display")

    monkeypatch.setattr("argosy.run.callbacks.film_policy", fails)
    with pytest.warns(UserWarning, match=r"video-200\.gif was not made, the run goes on: no display"):
        assert quick(tmp_path, callbacks=["video(every=1)"]).env_steps == 400


class Counting:
    """Counts epochs, also over a resume."""

    def __init__(self):
        self.epochs = 0

    def on_epoch(self, trainer, stats):
        self.epochs += 1

    def state_dict(self):
        return {"epochs": self.epochs}

    def load_state_dict(self, state):
        self.epochs = state["epochs"]


class CountingToo(Counting):
    pass


def test_callbacks_keep_their_state_where_others_are_left_out(tmp_path):
    run = quick(tmp_path, callbacks=[Counting(), CountingToo(), Counting()]).run_dir
    kept = CountingToo()
    with pytest.warns(UserWarning, match="state of callbacks that are not here: Counting 0, Counting 1"):
        argosy.resume(run, total_steps=600, show_progress=False, callbacks=[kept])
    assert kept.epochs == 3


@pytest.mark.parametrize("event", ["begin", "state_dict"])
def test_whatever_of_a_callback_raises_it_is_named(event, tmp_path):
    def fails(self, *what):
        raise ZeroDivisionError("division")

    failing = type("Failing", (Counting,), {event: fails})()
    with pytest.raises(CallbackError, match=f"{event} of Failing raised ZeroDivisionError"):
        quick(tmp_path, callbacks=[failing])


def test_metrics_of_ones_own_are_the_run_s(tmp_path):
    class Mine:
        def on_epoch(self, trainer, stats):
            trainer.logger.log({"mine/epoch": 10.0 * stats.epoch}, env_step=trainer.position)

    result = quick(tmp_path, callbacks=[Mine()])
    rows = [row for row in read_jsonl(Path(result.run_dir) / "metrics.jsonl") if "mine/epoch" in row]
    assert [(row["env_step"], row["mine/epoch"]) for row in rows] == [(200, 10.0), (400, 20.0)]


def test_what_makes_no_sense_is_refused():
    experiment = preset("dqn", "CartPole-v1", **QUICK)
    for call, said in [("early_stop(tests=0)", "must be >= 1"), ("video(evry=2)", "'evry', which Video does not take"),
                       ("early_stp", "did you mean 'early_stop'?")]:  # fmt: skip
        with pytest.raises(ConfigError, match=r".") as error:
            argosy.build(experiment.replaced({"callbacks": (call,)}))
        assert said in str(error.value)
    with pytest.raises(ConfigError, match="needs a run with a folder"):
        KeepCheckpoints()._path("x")
