"""Folders of runs that somebody else has made: links that lead elsewhere, odd names, files that are none."""

import json

import numpy as np
import pytest

import argosy.distributed
from argosy.distributed.folder import results_of
from argosy.env import task_spaces
from argosy.errors import CheckpointError, ConfigError
from argosy.files import append, claim
from argosy.logger import JSONLLogger, LoggerWarning, read_jsonl
from argosy.presets import preset
from argosy.run.folder import RunFolder, draw_curve
from argosy.run.many import find_group, make_group, run_many
from argosy.run.saved import find_policy, write_description
from argosy.trainer.statefile import write_state


@pytest.fixture
def elsewhere(tmp_path):
    """A file that is not the run's, and a folder for a run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").write_text("of great value\n")
    yield tmp_path / "run", tmp_path / "mine"
    assert (tmp_path / "mine").read_text() == "of great value\n"


@pytest.mark.parametrize("name", ["lock", "failures.jsonl", "metrics.jsonl", "curve.png"])
def test_what_a_link_leads_to_is_not_written_to(name, elsewhere):
    run, mine = elsewhere
    (run / name).symlink_to(mine)
    if name == "lock":
        with pytest.raises(ConfigError, match="nothing can be written in"):
            claim(run, "wait")
    elif name == "failures.jsonl":
        with pytest.raises(CheckpointError, match=r"failures\.jsonl' cannot be written"):
            append(run / name, "x")
    elif name == "metrics.jsonl":
        with pytest.warns(LoggerWarning, match=r"metrics\.jsonl"):
            JSONLLogger(run / name).log({"x": 1.0}, env_step=1)
    else:
        pytest.importorskip("matplotlib")
        JSONLLogger(run / "metrics.jsonl").log({"test/return_mean": 1.0}, env_step=1)
        assert draw_curve(RunFolder(run), "x").read_bytes().startswith(b"\x89PNG")


ROWS = [
    '{"env_step": 3, "test/return_mean": [1]}', '{"env_step": "3", "test/return_mean": 1}', '{"env_step": {}}',
    '{"env_step": 1' + "0" * 4000 + "}", '{"env_step": NaN, "test/return_mean": Infinity}', '{"test/return_mean": 1}',
    '{"env_step": 4, "test/return_mean": "x", "episode/return_mean": {"a": 1}}', "\\xff", '{"env_step": true}',
    '{"env_step": 5, "test/return_mean": 2.0}',
]  # fmt: skip


def test_metrics_are_numbers_whatever_stands_there(tmp_path):
    folder = RunFolder(tmp_path)
    folder.metrics.write_bytes("\n".join(ROWS).encode() + b'\n{"env_step": \xff}\n')
    rows = read_jsonl(folder.metrics)
    assert [row["env_step"] for row in rows] == [3, 4, True, 5]
    assert all(isinstance(value, int | float) for row in rows for value in row.values())
    pytest.importorskip("matplotlib")
    assert draw_curve(folder, "x") is not None


def test_evaluations_are_taken_as_far_as_they_are_whole(tmp_path):
    whole = {"policy": "p", "version": 1, "return_mean": 1.0, "return_std": 0.0, "length_mean": 3.0, "episodes": 3}
    whole |= {"time": 0.0, "stage": ""}
    bad = [{"policy": []}, {"return_mean": "x"}, {"version": None}, {"episodes": [3]}, {"stage": {}}]
    lines = [json.dumps(whole | change).encode() for change in bad] + [b"\xff\xfe", json.dumps(whole).encode()]
    (tmp_path / "evaluations.jsonl").write_bytes(b"\n".join(lines))
    assert [result.policy for result in results_of(tmp_path / "evaluations.jsonl", [])] == ["p"]


@pytest.mark.parametrize("name", ["--3", "³", "٣", "3 (copy)", "-", "007", "9" * 200])
def test_files_beside_the_versions_are_none_of_them(name, tmp_path):
    folder = tmp_path / "parameters" / "p"
    folder.mkdir(parents=True)
    (folder / f"{name}.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="has no version yet"):
        find_policy(folder)
    assert argosy.distributed.ParameterStore(tmp_path / "parameters").versions("p") == []


MADE_UP = {
    "nothing": {},
    "a list": [],
    "a number": 3,
    "no policy": {"env": None},
    "no env": {"policy": {"version": 1, "state_dict": {}}},
    "a policy that is a number": {"policy": 3, "env": None},
    "no networks": {"policy": {"version": 1}, "env": None},
    "networks that are a list": {"policy": {"version": 1, "state_dict": [1]}, "env": None},
    "networks that are text": {"policy": {"version": 1, "state_dict": {"a": "b"}}, "env": None},
    "networks of others": {"policy": {"version": 1, "state_dict": {"a": np.zeros(3)}}, "env": None},
}


@pytest.mark.parametrize("kind", ["policy", "checkpoint"])
@pytest.mark.parametrize("name", MADE_UP)
def test_a_policy_s_file_with_a_right_checksum_that_holds_something_else_is_refused(name, kind, tmp_path):
    experiment = preset("dqn", "CartPole-v1", **{"net.hidden_sizes": (4,)})
    experiment.save(tmp_path / "config.json")
    write_description(tmp_path, *task_spaces("CartPole-v1", experiment.env))
    state = MADE_UP[name]
    if kind == "checkpoint" and isinstance(state, dict) and isinstance(policy := state.get("policy"), dict):
        state = {"algorithm": {"version": 1, "parts": {"policy": policy.get("state_dict")}}}
    write_state(tmp_path / f"{kind}.safetensors", kind, state)
    with pytest.raises(CheckpointError, match=rf"{kind}\.safetensors|does not fit"):
        argosy.load(tmp_path / f"{kind}.safetensors")


def test_the_runs_of_a_group_are_not_trusted_because_the_group_is(tmp_path, monkeypatch):
    """The group names no code; the folder of one of its runs, which is gone on with, does."""
    (tmp_path / "downloaded_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    experiment = preset("dqn", "CartPole-v1", seed=3, **{"trainer.max_epoch": 1, "trainer.step_per_epoch": 2000})
    (job,) = make_group(tmp_path / "group", [experiment])
    folder = RunFolder.home(job.root, "CartPole-v1", "dqn") / "20260101-000000-3"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(experiment.to_dict() | {"task": "downloaded_module:Env"}))
    (folder / "checkpoint.safetensors").write_bytes(b"x")
    (outcome,) = run_many(find_group(tmp_path / "group"), 1)
    assert outcome.code == 2
    assert "names code that would be imported: task 'downloaded_module:Env'" in outcome.said
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "result",
    [{}, {"env_steps": 1, "wall_s": 1, "test_return_mean": "x"}, {"env_steps": [], "wall_s": 1, "test_return_mean": 1}],
)
def test_a_result_that_is_none_of_a_run_is_damaged(result, tmp_path):
    (job,) = make_group(tmp_path, [preset("dqn", "CartPole-v1", seed=3)])
    folder = RunFolder.home(job.root, "CartPole-v1", "dqn") / "20260101-000000-3"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(CheckpointError, match=r"result\.json' is damaged"):
        job.result()
