"""Populations: bad members go on from good ones, settings change on the way, and what was cut off goes on."""

import json
import shutil

import numpy as np
import pytest

from argosy import cli
from argosy.errors import ArgosyError, ConfigError
from argosy.experiment import Experiment
from argosy.presets import preset
from argosy.presets.search import Range
from argosy.report import read_runs
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
        assert tests[-1]["test/return_mean"] == turn["score"]
    assert read_runs([tmp_path])[0] == []  # members are no runs to be compared

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
                    folder = job.folder()
                with folder.metrics.open("a") as file:
                    file.write(json.dumps({"env_step": 1, "test/return_mean": self.score(member, number)}) + "\n")
                cut_off = number in self.cut and member == 1
                outcomes.append(Outcome(job, None if cut_off else {}, 130 if cut_off else 0))
            self.cut.discard(number)
            return outcomes

    script = Script()
    monkeypatch.setattr("argosy.run.population.run_many", script)
    return script


def test_the_worst_take_over_the_states_of_the_best(tmp_path, scripted):
    one = population(tmp_path, size=8)
    assert one.replaced == 2
    told = []
    assert one.run(1, told.append)
    assert told == [0, 1, 2]
    first, second, _ = one.turns
    assert [turn.parent for turn in second[2:]] == [2, 3, 4, 5, 6, 7]
    assert {turn.parent for turn in second[:2]} <= {6, 7}
    for turn in second[:2]:
        assert all(turn.settings[name] in where for name, where in SPACE.items())
        path = one.run_of(second.index(turn)).path
        assert (path / "checkpoint.safetensors").read_text() in ("checkpoint 6", "checkpoint 7")
        assert (path / "policy.safetensors").read_text() in ("policy 6", "policy 7")
        assert not (path / "checkpoint-1.safetensors").exists()  # of another training
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

    def cut(source, target):
        copied.append(source.name)
        if len(copied) == 2:
            raise KeyboardInterrupt
        shutil.copyfileobj(source, target)

    one = population(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("argosy.run.population.shutil", type("S", (), {"copyfileobj": staticmethod(cut)}))
        with pytest.raises(KeyboardInterrupt):
            one.run(1)
    assert scripted.asked == [0]
    one = population(tmp_path)
    assert one.run(1)
    assert scripted.asked == [0, 1, 2]
    path = one.run_of(0).path
    parent = one.turns[1][0].parent
    assert (path / "policy.safetensors").read_text() == f"policy {parent}"


def test_rollouts_that_end_behind_a_round_are_no_failure(tmp_path):
    """Each round is 100 steps, a rollout 240: in the second one nobody has to move, in the third one all have."""
    short_rollouts = {"trainer.step_per_collect": 240, "repeat_per_collect": 1, "trainer.total_steps": 300}
    given = {name: value for name, value in SHORT.items() if name.partition(".")[0] in ("net", "env", "stop", "seed")}
    fast = {"trainer.step_per_epoch": 100, "trainer.episode_per_test": 1, "threads": 1}
    experiment = preset("ppo", "CartPole-v1", **{**given, **short_rollouts, **fast})
    one = Population(tmp_path, experiment, {"optim.lr": SPACE["optim.lr"]}, size=2, rounds=3)
    assert one.run(2)
    rows = [json.loads(line) for line in one.run_of(0).metrics.open()]
    assert rows[-1]["env_step"] == 480


def test_a_member_that_fails_is_named_and_the_same_call_goes_on(tmp_path, scripted):
    scripted.failed = {(2, 1)}
    with pytest.raises(ArgosyError, match="1 of 4 members have failed, member 2: ValueError: boom"):
        population(tmp_path).run(1)
    scripted.failed = set()
    assert population(tmp_path).run(1)
    assert scripted.asked == [0, 1, 1, 2]


def test_a_member_without_a_finite_test_is_named(tmp_path, scripted):
    scripted.score = lambda member, number: float("nan")
    with pytest.raises(ArgosyError, match="member 0 has no finite return"):
        population(tmp_path).run(1)


def test_the_same_seed_plans_the_same(tmp_path, scripted):
    one, other = population(tmp_path / "a"), population(tmp_path / "b")
    one.run(1)
    other.run(1)
    assert one.turns == other.turns
    assert population(tmp_path / "c", seed=4).turns != [one.turns[0]]


@pytest.mark.parametrize(
    ("changes", "given", "message"),
    [
        ({}, {"size": 1}, "a population of 1 members"),
        ({}, {"rounds": 0}, "and 0 rounds"),
        ({}, {"rounds": 4}, "300 steps in 4 rounds are 75 each, fewer than an epoch"),
        ({"trainer.start_steps": 200}, {}, "start_steps is 200, but the run has only 100 steps"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(tmp_path, changes, given, message):
    with pytest.raises(ConfigError, match=message):
        population(tmp_path / "p", **changes, **given)
    assert not (tmp_path / "p").exists()


def test_settings_that_cannot_change_and_another_population_s_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"net.hidden_sizes cannot change while a run goes on"):
        Population(tmp_path, short(), {"net.hidden_sizes": Range(choices=((8,), (16,)))}, rounds=3)
    untested = preset("bc", "CartPole-v1", data="a.hdf5", **{"trainer.episode_per_test": 0})
    with pytest.raises(ConfigError, match="members are judged by tests"):
        Population(tmp_path, untested, SPACE)
    population(tmp_path / "p")
    with pytest.raises(ConfigError, match="holds a population of other settings or another space"):
        population(tmp_path / "p", size=5)


def test_ranges_draw_and_move():
    rng = np.random.default_rng(0)
    rate, count, choice = (
        Range(low=1e-4, high=1e-2, log=True),
        Range(low=1, high=5),
        Range(choices=((8,), (16,), (32,))),
    )
    drawn = np.array([rate.draw(rng) for _ in range(2000)])
    assert ((drawn >= 1e-4) & (drawn <= 1e-2)).all()
    assert np.mean(drawn < 1e-3) == pytest.approx(0.5, abs=0.05)  # by powers
    assert {count.draw(rng) for _ in range(100)} == {1, 2, 3, 4, 5}
    assert {choice.draw(rng) for _ in range(100)} == {(8,), (16,), (32,)}
    assert rate.near(1e-3, 1.25) == pytest.approx(1.25e-3)
    assert rate.near(9e-3, 1.25) == 1e-2
    assert (count.near(2, 1.25), count.near(2, 0.8), count.near(1, 0.8), count.near(4, 1.25)) == (3, 1, 1, 5)
    assert type(count.near(2, 1.25)) is int
    assert [choice.near((16,), factor) for factor in (0.8, 1.25)] == [(8,), (32,)]
    assert choice.near([8], 0.8) == (8,)
    assert choice.near((99,), 1.25) == (16,)
