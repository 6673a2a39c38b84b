"""Every field of an experiment, nested ones too, is read by local runs and by fleets, or refused by name.

Found by running them: what a config's fields are asked for while a few short runs are made, by whom. Checks of a config
itself, writing and comparing count for nothing.
"""

import dataclasses
import sys
from pathlib import Path

import pytest
from bitflip import BitFlip
from bonus import CountBonus

import argosy
from argosy.algorithm import register_algorithm_wrapper
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.env import register
from argosy.errors import ConfigError
from argosy.presets import preset

IGNORED_FILES = {
    "config.py",
    "experiment.py",
    "dataclasses.py",
    "copy.py",
    "show.py",
    "named.py",
    "unread.py",
    "<string>",
    Path(__file__).name,
}
IGNORED_CALLERS = {"__post_init__", "_check_obeyed", "_check_range"}
SHORT = {"step_per_epoch": 40, "step_per_collect": 10, "episode_per_test": 2}
ENVS = {"num_envs": 2, "test_num_envs": 2}
WHOLE = {"stop": {"test_return": 1e6, "episodes": 2}, "net": {"hidden_sizes": (8,)}}
LEARN = {"start_steps": 10, "batch_size": 8, "update_per_step": 0.2}

register("every-bits", BitFlip)
register_algorithm_wrapper("every-bonus", CountBonus)


def experiments():
    """Off-policy with goals, on-policy with memory and a wrapped algorithm, and soft values."""
    goals = {"hindsight": {"future_k": 4.0, "horizon": 6}, "priority": {"alpha": 0.5, "beta_final": 1.0}}
    off = preset("dqn", "every-bits", env=ENVS, buffer=goals, trainer={**SHORT, **LEARN}, **WHOLE)
    off = off.replaced({"optim.kind": "torch.optim:SGD", "optim.args": {"momentum": 0.5}})
    on = preset("ppo", "CartPole-v1", env=ENVS, trainer=SHORT, wrap=("every-bonus",), **WHOLE)
    net = {"memory": "gru", "encoder": "bonus:flat", "encoder_args": {}}
    on = on.replaced({"logger.wandb": "offline", "net": net})
    soft = preset("dqn", "CartPole-v1", env=ENVS, trainer={**SHORT, **LEARN}, munchausen_alpha=0.9, **WHOLE)
    return tuple(experiment.replaced({"total_steps": 80}) for experiment in (off, on, soft))


def atari():
    pytest.importorskip("ale_py")
    return preset("dqn", "Pong-v5", env={**ENVS, "vector": "dummy"}, buffer={"size": 100}, trainer={"batch_size": 8})


def fields_of(config):
    """Yield (class, field, path) of every setting, in the config's own sections and theirs."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from ((cls, name, f"{field.name}.{path}") for cls, name, path in fields_of(value))
        else:
            yield type(config), field.name, field.name


@pytest.fixture
def readers(monkeypatch):
    """By class and field, the files whose functions have asked for it."""
    found = {}
    classes = {cls for e in (*experiments(), atari()) for cls, _, _ in fields_of(e)}
    for cls in classes:
        names = {field.name for field in dataclasses.fields(cls)}

        def look(self, name, names=names, get=cls.__getattribute__):
            if name in names:
                code = sys._getframe(1).f_code
                if Path(code.co_filename).name not in IGNORED_FILES and code.co_name not in IGNORED_CALLERS:
                    found.setdefault((type(self), name), set()).add(Path(code.co_filename).name)
            return get(self, name)

        monkeypatch.setattr(cls, "__getattribute__", look)
    return found


def unread(readers, refused):
    every = {(cls, name): path for e in experiments() for cls, name, path in fields_of(e)}
    return {path for field, path in every.items() if field not in readers} - set(refused)


def test_local_runs_read_every_field(readers, tmp_path):
    off, on, soft = experiments()
    done = argosy.train(off, runs=tmp_path, show_progress=False, callbacks=["bonus:Hears"])
    argosy.train(on, runs=tmp_path, show_progress=False)
    argosy.train(soft, runs=tmp_path, show_progress=False)
    argosy.build(atari())
    argosy.collect_data(done.run_dir, tmp_path / "bits.hdf5", steps=10)
    both = {"offline_updates": 5, "batch_size": 8}
    argosy.build(preset("iql", "every-bits", data=str(tmp_path / "bits.hdf5"), trainer=both))
    processes = {**ENVS, "vector": "subproc", "wait_num": 1}
    waiting = argosy.build(preset("dqn", "CartPole-v1", env=processes))
    for collector in (waiting.train_collector, waiting.test_collector):
        collector.env.close()
    assert done.env_steps == 80
    assert unread(readers, refused=()) == set()


REFUSED = {
    "callbacks": ("bonus:Hears",),
    "env.wait_num": 2,
    "env.norm_rew": True,
    "trainer.checkpoint_epochs": 5,
    "trainer.keep_checkpoints": 5,
    "data": "file.hdf5",
    "expert": "run",
    "trainer.offline_updates": 5,
    "trainer.data_share": 0.5,
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_fleets_refuse_they_name(setting):
    with pytest.raises(ConfigError, match=f"{setting}|data set"):
        PolicySpec(experiment=preset("dqn", "CartPole-v1").replaced({setting: REFUSED[setting]}))


def test_fleets_read_every_other_field(readers, tmp_path):
    for number, experiment in enumerate(experiments()):
        fleet = Fleet(
            name="walk",
            policies={"p": PolicySpec(experiment=experiment)},
            agents=(AgentSpec(policy="p", sample_steps=5),),
            actors=ActorGroup(count=1),
        )
        with FleetRun(fleet, tmp_path / str(number), interval_s=0.1) as run:
            last = None
            for snapshot in run:
                last = snapshot
                assert snapshot.wall_s < 60, run.supervisor.failures
        assert last.reason == "env_steps reached"
        assert not run.supervisor.failures
    for experiment in (atari(), preset("dqn", "CartPole-v1", env={**ENVS, "vector": "subproc"})):
        spec = PolicySpec(experiment=experiment)
        fleet = Fleet(name="envs", policies={"p": spec}, evaluation=EvalGroup(count=0), stop=FleetStop(wall_s=1))
        source = fleet.source()
        spec.make_algorithm(*source.spaces()[0], seed=0)
        source.arena(fleet.num_envs, seed=0).close()
    assert unread(readers, REFUSED) == set()


def test_the_walk_sees_what_nobody_reads(readers):
    """Nothing has run: whatever is read here, is read by checks and by the walk itself."""
    off, *_ = experiments()
    off.replaced({"seed": 3}).to_dict()
    seen = unread(readers, refused=())
    assert {
        "seed",
        "device",
        "threads",
        "env.num_envs",
        "net.hidden_sizes",
        "trainer.batch_size",
        "buffer.size",
    } <= seen
    assert {
        "buffer.size",
        "config.gamma",
        "config.optim.lr",
        "stop.episodes",
        "logger.wandb",
        "buffer.hindsight.horizon",
    } <= seen
