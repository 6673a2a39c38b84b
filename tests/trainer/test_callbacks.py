"""Callbacks: told of what happens, in order; what they raise leaves a trainer that can go on."""

import pytest
import torch

import argosy
from argosy.errors import CallbackError, ConfigError
from argosy.presets import preset
from argosy.trainer.checkpoint import load_checkpoint, save_checkpoint

RUN = {
    "net": {"hidden_sizes": (16,)},
    "env": {"num_envs": 2, "test_num_envs": 2},
    "trainer": {"max_epoch": 2, "step_per_epoch": 40, "start_steps": 20, "batch_size": 8, "step_per_collect": 10,
                "episode_per_test": 2, "update_per_step": 0.2},
    "seed": 3,
}  # fmt: skip


class Diary:
    def __init__(self):
        self.lines = []

    def on_step(self, trainer):
        self.lines.append(f"step {trainer.state.env_step}")

    def on_update(self, trainer, stats):
        self.lines.append(f"update {trainer.state.update_step} {'loss/total' in stats.metrics()}")

    def on_eval(self, trainer, stats):
        self.lines.append(f"eval {stats.n_collected_episodes}")

    def on_epoch(self, trainer, stats):
        self.lines.append(f"epoch {stats.epoch}")


class Counter:
    """Has one method and state."""

    def __init__(self, at=0):
        self.count = at

    def on_update(self, trainer, stats):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Fails:
    def __init__(self, event, at):
        self.event, self.left = event, at
        setattr(self, event, self._fail)

    def _fail(self, trainer, *stats):
        self.left -= 1
        if self.left == 0:
            raise ZeroDivisionError("of my own")


def make(*callbacks, algorithm="dqn", **changes):
    return argosy.build(preset(algorithm, "CartPole-v1", **{**RUN, **changes}), callbacks=callbacks)


def test_callbacks_hear_everything_in_order():
    diary = Diary()
    make(diary).run()
    assert diary.lines == [
        "step 10", "step 20", "update 1 True", "update 2 True", "step 30", "update 3 True", "update 4 True", "step 40",
        "eval 2", "epoch 1", "update 5 True", "update 6 True", "step 50", "update 7 True", "update 8 True", "step 60",
        "update 9 True", "update 10 True", "step 70", "update 11 True", "update 12 True", "step 80", "eval 2",
        "epoch 2",
    ]  # fmt: skip


def test_an_object_needs_one_method_only_and_its_state_is_saved(tmp_path):
    counter, again = Counter(), Counter()
    trainer = make(counter)
    next(trainer)
    save_checkpoint(tmp_path / "file", trainer)
    other = make(again)
    load_checkpoint(tmp_path / "file", other)
    assert again.count == counter.count == 4
    load_checkpoint(tmp_path / "file", make())  # without it, too


@pytest.mark.parametrize("nothing", [object(), Counter, "Counter", [Counter()]])
def test_what_listens_to_nothing_is_refused(nothing):
    with pytest.raises(ConfigError, match=r"is no callback: it must be an object with a method on_step, on_update"):
        make(nothing)


@pytest.mark.parametrize("alone", [Counter(), "early_stop"])
def test_one_alone_stands_in_a_list_too(alone):
    for run in (argosy.build, argosy.train):
        with pytest.raises(ConfigError, match=r"callbacks is .*; it must be a list: \["):
            run(preset("dqn", "CartPole-v1", **RUN), callbacks=alone)


@pytest.mark.parametrize("event", ["on_step", "on_update", "on_eval", "on_epoch"])
def test_a_run_whose_callback_raised_goes_on_as_if_it_had_not(event, tmp_path):
    """But for the episodes, which begin anew at the checkpoint; so a second run stops there, too, without error."""
    runs = []
    for name in ("raises", "stops"):
        at = 1 if event in ("on_eval", "on_epoch") else 3
        trainer = make(Fails(event, at))
        with pytest.raises(CallbackError, match=rf"{event} of Fails raised ZeroDivisionError: of my own") as raised:
            trainer.run()
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        save_checkpoint(tmp_path / name, trainer)
        runs.append(trainer)
    resumed = make()
    load_checkpoint(tmp_path / "stops", resumed)
    for trainer in (runs[0], resumed):
        trainer.run()
        assert trainer.state.env_step == 80
        assert trainer.state.update_step == 12
    for one, other in zip(runs[0].algorithm.policy.parameters(), resumed.algorithm.policy.parameters(), strict=True):
        assert torch.equal(one, other)


class Mute(Exception):
    def __str__(self):
        raise ValueError("of the text")


@pytest.mark.parametrize(
    ("error", "said"), [(SystemExit(3), "SystemExit: 3"), (StopIteration(), "StopIteration: "), (Mute(), "Mute$")]
)
def test_whatever_a_callback_raises_is_told(error, said):
    callback = Counter()
    callback.on_step = lambda trainer: (
        (_ for _ in ()).throw(error) if not isinstance(error, StopIteration) else next(iter(()))
    )
    with pytest.raises(CallbackError, match=f"on_step of Counter raised {said}"):
        make(callback).run()


def test_an_update_that_runs_out_of_something_does_not_end_the_run_as_if_it_were_over(monkeypatch):
    trainer = make()
    monkeypatch.setattr(trainer.algorithm, "update", lambda batch: next(iter(())))
    with pytest.raises(RuntimeError, match="StopIteration was raised within a training step"):
        trainer.run()


def test_experiments_name_callbacks():
    trainer = make(callbacks=("test_callbacks:Counter(at=5)",))
    next(trainer)
    assert [callback.count for callback in trainer.callbacks] == [9]
    with pytest.raises(ConfigError, match="'form', which Counter does not take"):
        make(callbacks=("test_callbacks:Counter(form=5)",))
    with pytest.raises(ConfigError, match="unknown callback 'counter'"):
        make(callbacks=("counter",))
    with pytest.raises(ConfigError, match="callbacks is 'a:B'; it must be a tuple"):
        argosy.Experiment(**{**vars(preset("dqn", "CartPole-v1")), "callbacks": "a:B"})
