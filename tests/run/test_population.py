"""Populations: bad members go on from good ones, settings change on the way, and what was cut off goes on."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from argosy import cli
from argosy.errors import ArgosyError, ConfigError
from argosy.experiment import Experiment
from argosy.presets import preset
from argosy.presets.search import Range
from argosy.report import read_runs, read_studies, render
from argosy.run.many import Outcome
from argosy.run.population import Population
from argosy.trainer.checkpoint import KIND
from argosy.trainer.statefile import read_state

SHORT = {
    "net.hidden_sizes": (16,), "env.num_envs": 2, "env.test_num_envs": 2, "trainer.total_steps": 300,
    "trainer.step_per_epoch": 100, "trainer.step_per_collect": 4, "trainer.episode_per_test": 2,
    "trainer.start_steps": 20, "trainer.batch_size": 16, "stop.episodes": 7, "stop.test_return": 1e6,
    "optim.lr": 1e-3, "optim.lr_schedule": "linear", "seed": 3, "threads": 1,
}  # fmt: skip
SPACE = {"optim.lr": Range(low=1e-4, high=1e-2, log=True), "n_step": Range(low=1, high=3)}


def short(**changes):
    return preset("dqn", "CartPole-v1", **{**SHORT, **changes})


def population(folder, size=4, rounds=3, **changes):
    return Population(folder, short(**changes), SPACE, size=size, rounds=rounds)


def test_the_command_trains_one_and_its_members_go_on_from_the_best(tmp_path, capsys):
    space = tmp_path / "space.toml"
    space.write_text("lr = { low = 1e-4, high = 1e-2, log = true }\n")
    flags = [text for name, value in SHORT.items() for text in (f"--{name}", str(value)) if name != "net.hidden_sizes"]
    flags += ["--net.hidden_sizes", "16", "--space", str(space), "--runs", str(tmp_path), "--json", "--jobs=2"]
    command = ["tune", "dqn", "--task", "CartPole-v1", *flags, "--population=3", "--rounds=2"]
    assert cli.main(command) == 0
    shown = capsys.readouterr()
    result = json.loads(shown.out.splitlines()[-1])
    folder = tmp_path / "tune" / "CartPole-v1" / "dqn" / "study"
    assert result["folder"] == str(folder)
    assert "round 1 of 2: returns" in shown.err
    assert "round 2 of 2: returns" in shown.err
    assert (folder / "population.png").stat().st_size > 1000

    first, second = json.loads((folder / "population.json").read_text())["turns"]
    assert [turn["parent"] for turn in first] == [0, 1, 2]
    assert first[0]["settings"] == {"optim.lr": 1e-3}  # the experiment's own
    scores = [turn["score"] for turn in first]
    worst, best = max(range(3), key=lambda i: (-scores[i], i)), int(np.argmax(scores))
    assert second[worst]["parent"] == best
    assert second[worst]["settings"] != first[best]["settings"]
    assert result["score"] == max(turn["score"] for turn in second)
    for member, turn in enumerate(second):
        (run,) = (folder / "members" / str(member)).glob("CartPole-v1/dqn/*")
        experiment = Experiment.load(run / "config.json")
        assert experiment.seed == 3 + member
        assert experiment.trainer.total_steps == 300
        assert experiment.config.optim.lr == turn["settings"]["optim.lr"]
        assert experiment.config.optim.lr_schedule == "constant"
        learned = read_state(run / "checkpoint.safetensors", KIND)["algorithm"]
        assert learned["parts"]["optim"]["lr"] == turn["settings"]["optim.lr"]  # not the one of the state before
        ended = json.loads((run / "result.json").read_text())
        assert (ended["env_steps"], ended.get("interrupted", False)) == (300, False)
        tests = [row for row in map(json.loads, (run / "metrics.jsonl").open()) if "test/return_mean" in row]
        assert [row["env_step"] for row in tests][-1] == 300
        assert ended["test_return_mean"] == turn["score"]  # of more episodes than a test's
    assert read_runs([tmp_path])[0] == []  # members are no runs to be compared
    (seen,), said = read_studies([tmp_path])
    assert said == []
    text = re.findall(">([^<]+)<", render([], [], None, [seen]))
    assert "Population: dqn on CartPole-v1" in text
    assert "return, by member" in text
    assert text[text.index("optim.lr", text.index("went on from")) + 1] == str(np.argmax([t["score"] for t in second]))

    assert cli.main([*command, "--trials=5"]) == 2
    assert "--trials is about trials, but --population trains members" in capsys.readouterr().err
    assert cli.main(command) == 0  # nothing is left to do
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result


@pytest.fixture
def scripted(monkeypatch):
    """Rounds without runs: `score(member, round)` is what comes of each; `cut` are rounds that are cut off, once."""

    class Script:
        def __init__(self):
            self.asked, self.cut, self.failed = [], set(), set()

        def score(self, member, number):
            return float(member)

        def long(self, member):
            return float(member)

        def __call__(self, jobs, at_once, *, start):
            number = jobs[0].total_steps // 100 - 1
            self.asked.append(number)
            outcomes = []
            for job in jobs:
                member = int(job.root.name)
                if (member, number) in self.failed:
                    outcomes.append(Outcome(job, None, 1, "said much\nValueError: boom"))
                    continue
                folder = job.folder()
                if folder is None:
                    path = job.root / "CartPole-v1" / "dqn" / f"0-0-{job.experiment.seed}"
                    path.mkdir(parents=True)
                    (path / "config.json").write_text(job.config.read_text())
                    for name in ("checkpoint", "checkpoint-1", "policy"):
                        (path / f"{name}.safetensors").write_text(f"{name} {member}")
                    (path / "tensorboard").mkdir()
                    (path / "tensorboard" / "events").write_text(f"events {member}")
                    (path / "tensorboard" / f"only-{member}").touch()
                    folder = job.folder()
                result = {"of": member, "env_steps": 1, "wall_s": 1.0, "test_return_mean": self.long(member)}
                folder.result.write_text(json.dumps(result))
                with folder.metrics.open("a") as file:
                    row = {"env_step": 1, "test/return_mean": self.score(member, number), "of": member}
                    file.write(json.dumps(row) + "\n")
                cut_off = number in self.cut and member == 1
                outcomes.append(Outcome(job, None if cut_off else {}, 130 if cut_off else 0))
            self.cut.discard(number)
            return outcomes

    script = Script()
    monkeypatch.setattr("argosy.run.population.run_many", script)
    return script


@pytest.mark.parametrize("relative", [False, True])
def test_the_worst_take_over_the_states_of_the_best(tmp_path, scripted, monkeypatch, relative):
    monkeypatch.chdir(tmp_path)
    one = population(Path("here") if relative else tmp_path, size=8)
    assert one.replaced == 2
    told = []
    assert one.run(1, told.append)
    assert told == [0, 1, 2]
    first, second, third = one.turns
    assert [turn.parent for turn in second[2:]] == [2, 3, 4, 5, 6, 7]
    assert {turn.parent for turn in second[:2]} <= {6, 7}
    for turn in second[:2]:
        assert all(turn.settings[name] in where for name, where in SPACE.items())
        path = one.run_of(second.index(turn)).path
        assert (path / "checkpoint.safetensors").read_text() in ("checkpoint 6", "checkpoint 7")
        assert (path / "policy.safetensors").read_text() in ("policy 6", "policy 7")
        assert not (path / "checkpoint-1.safetensors").exists()  # of another training
        assert (path / "tensorboard" / "events").read_text() in ("events 6", "events 7")
        assert not (path / "tensorboard" / f"only-{second.index(turn)}").exists()
    for member in (0, 1):  # the last round's parents; of them is all that is said of a run
        parent = third[member].parent
        rows = (one.run_of(member).path / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(row)["of"] for row in rows] == [parent, parent, member]
    for turn, before in zip(second[2:], first[2:], strict=True):
        assert turn.settings == before.settings
    assert (one.run_of(5).path / "checkpoint-1.safetensors").read_text() == "checkpoint-1 5"
    assert one.best == 7
    assert Experiment.load(one.run_of(3).config).stop.episodes == 7  # the last round's
    assert Experiment.load(one.run_of(3).config).stop.test_return is None


def test_what_was_cut_off_goes_on(tmp_path, scripted):
    scripted.cut = {1}
    one = population(tmp_path)
    assert not one.run(1)
    assert scripted.asked == [0, 1]
    planned = one.turns[1]
    one = population(tmp_path)
    assert one.turns[1] == planned
    assert one.run(1)
    assert scripted.asked == [0, 1, 1, 2]
    assert population(tmp_path).run(1)
    assert scripted.asked == [0, 1, 1, 2]
    assert population(tmp_path).turns == one.turns


def test_taking_over_is_done_again_where_it_was_cut_off(tmp_path, scripted, monkeypatch):
    copied = []

    copy = shutil.copyfileobj

    def cut(source, target):
        copied.append(source.name)
        if len(copied) == 2:
            raise KeyboardInterrupt
        copy(source, target)

    one = population(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("argosy.run.population.shutil.copyfileobj", cut)
        with pytest.raises(KeyboardInterrupt):
            one.run(1)
    assert scripted.asked == [0]
    one = population(tmp_path)
    assert one.run(1)
    assert scripted.asked == [0, 1, 2]
    path = one.run_of(0).path
    parent = one.turns[1][0].parent
    assert (path / "policy.safetensors").read_text() == f"policy {parent}"


def test_a_state_to_go_on_from_that_is_gone_is_said_so(tmp_path, scripted):
    scripted.cut = {0}
    one = population(tmp_path)
    assert not one.run(1)
    (one.run_of(3).place / "checkpoint.safetensors").unlink()
    with pytest.raises(ArgosyError, match="has no checkpoint that another member could go on from"):
        population(tmp_path).run(1)


def test_what_falls_over_a_run_is_constant_where_rounds_would_each_fall_to_its_end(tmp_path):
    experiment = preset("ppo", "CartPole-v1", entropy_coef=0.02, entropy_coef_end=0.0, lr_schedule="linear")
    config = Population(tmp_path, experiment, {"optim.lr": SPACE["optim.lr"]}).experiment.config
    assert (config.entropy_coef, config.entropy_coef_end, config.optim.lr_schedule) == (0.02, None, "constant")


def test_rollouts_that_end_behind_a_round_are_no_failure(tmp_path):
    """Each round is 300 steps, a rollout 240: the first ends with 480, the second with 720, the third with 960."""
    short_rollouts = {"trainer.step_per_collect": 240, "repeat_per_collect": 1, "trainer.total_steps": 900}
    given = {name: value for name, value in SHORT.items() if name.partition(".")[0] in ("net", "env", "stop", "seed")}
    fast = {"trainer.step_per_epoch": 300, "trainer.episode_per_test": 1, "threads": 1}
    experiment = preset("ppo", "CartPole-v1", **{**given, **short_rollouts, **fast})
    one = Population(tmp_path, experiment, {"optim.lr": SPACE["optim.lr"]}, size=2, rounds=3)
    assert one.run(2)
    rows = [json.loads(line) for line in one.run_of(0).metrics.open()]
    assert rows[-1]["env_step"] == 960
    with pytest.raises(ConfigError, match="in 9 rounds are 100 each, fewer than a rollout"):
        Population(tmp_path, experiment.replaced({"trainer.step_per_epoch": 50}), one.space, size=2, rounds=9)


def test_a_member_that_fails_goes_on_from_one_that_has_not(tmp_path, scripted):
    scripted.failed = {(3, 0), (2, 0), (3, 1)}  # the first time, there is nothing of it
    one = population(tmp_path)
    assert one.run(1)
    first, second, third = one.turns
    assert [(turn.score, turn.why) for turn in first] == [(0.0, ""), (1.0, ""), *[(None, "ValueError: boom")] * 2]
    assert [turn.parent for turn in second] == [0, 1, 1, 1]  # more than the one that is always replaced
    assert third[3].parent == 2
    assert (one.run_of(3).path / "checkpoint.safetensors").read_text() == "checkpoint 1"  # which the third had from it
    assert one.best == 3
    assert population(tmp_path).turns == one.turns
    assert (tmp_path / "population.png").stat().st_size > 1000


def test_a_last_test_without_a_return_is_a_failure(tmp_path, scripted, monkeypatch):
    """A return of rounds before it says nothing about a policy that has gone astray since."""
    returns = lambda member, number: None if (member, number) == (3, 1) else float(member)  # noqa: E731
    monkeypatch.setattr(scripted, "score", returns)
    one = population(tmp_path)
    assert one.run(1)
    assert (one.turns[1][3].score, one.turns[1][3].why) == (None, "its last test has no finite return")
    assert one.turns[2][3].parent == 2


def test_the_best_one_in_the_end_goes_by_the_long_evaluation(tmp_path, scripted, monkeypatch):
    monkeypatch.setattr(scripted, "long", lambda member: None if member == 3 else -float(member))
    one = population(tmp_path)
    assert one.run(1)
    assert [turn.score for turn in one.turns[1]] == [0.0, 1.0, 2.0, 3.0]
    assert [turn.score for turn in one.turns[2]] == [0.0, -1.0, -2.0, None]
    assert one.turns[2][3].why == "its best policy has no finite return"
    assert one.best == 0


def test_where_all_fail_it_is_said_and_the_same_call_goes_on(tmp_path, scripted):
    scripted.failed = {(member, 1) for member in range(4)}
    with pytest.raises(ArgosyError, match="all 4 members have failed, the first one so: ValueError: boom"):
        population(tmp_path).run(1)
    scripted.failed = set()
    assert population(tmp_path).run(1)


def test_members_that_diverge_are_replaced(tmp_path):
    space = {"optim.lr": Range(choices=(1e-3, 1e30))}
    one = Population(tmp_path, short(**{"trainer.total_steps": 200}), space, size=2, rounds=2)
    assert [turn.settings["optim.lr"] for turn in one.turns[0]] == [1e-3, 1e30]
    assert one.run(2)
    assert "loss is nan" in one.turns[0][1].why
    assert one.turns[1][1].parent == 0


def test_settings_that_no_run_under_way_can_change_are_named(tmp_path):
    for name, where, why in (
        ("dueling", Range(choices=(False, True)), "cannot change while a run goes on: with True, the state does not"),
        ("exploration.eps_test", Range(low=0.0, high=0.1), "says how a training begins, not how it goes on: 0.1 would"),
        ("optim.lr_schedule", Range(choices=("linear", "constant")), "cannot change while a run goes on; leave"),
        ("trainer.step_per_collect", Range(low=1, high=4), "cannot change while a run goes on; leave it out"),
        ("env.num_envs", Range(low=1, high=4), "cannot change while a run goes on; leave it out"),
    ):
        with pytest.raises(ConfigError, match=f"{name} {why}"):
            Population(tmp_path / "new", short(), {**SPACE, name: where}, rounds=3)
    with pytest.raises(ConfigError, match=r"a round of 100 steps cannot be: .*start_steps"):
        population(tmp_path / "new", **{"trainer.start_steps": 150})
    assert not (tmp_path / "new").exists()


def test_who_takes_over_has_other_settings_than_whom_it_takes_over_from(tmp_path, scripted):
    space = {"optim.lr": Range(choices=(1e-3, 1e-4)), "optim.max_grad_norm": Range(low=0.5, high=1.0)}
    one = Population(tmp_path, short(**{"optim.max_grad_norm": None}), space, size=2, rounds=3)
    assert one.turns[0][0].settings["optim.max_grad_norm"] is None  # beside the range
    for number in range(200):
        changed = one._changed(one.turns[0][0].settings, np.random.default_rng(number))
        assert 0.5 <= changed["optim.max_grad_norm"] <= 1.0
        assert one._changed(changed, np.random.default_rng(number)) != changed
