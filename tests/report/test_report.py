"""The page and the comparison, of runs' folders as whole, as damaged and as hostile as they come."""

import base64
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from argosy import cli
from argosy.errors import CheckpointError, ConfigError
from argosy.report import compare, difference, read_runs, render
from argosy.report import runs as runs_module
from argosy.report.runs import labels
from argosy.report.statistics import band

VOID = {"meta", "path", "polyline", "polygon", "img"}


class Reader(HTMLParser):
    """Reads the page as a browser does: elements must nest, and texts are collected."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def make_run(root, algorithm="ppo", task="CartPole-v1", seed=0, score=100.0, *, tests=True, **config):
    folder = root / f"{algorithm}-{len(list(root.glob('*')))}"
    folder.mkdir(parents=True)
    given = {"algorithm": algorithm, "task": task, "seed": seed, "argosy": "0.1.0", "config": {"lr": 0.1} | config}
    (folder / "config.json").write_text(json.dumps(given))
    rows = []
    for step in (100, 200, 300):
        rows.append({"env_step": step, "time/steps_per_s": 50.0, "episode/return_mean": score * step / 400})
        rows += [{"env_step": step, "test/return_mean": score * step / 300}] * tests
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "result.json").write_text(json.dumps({"test_return_mean": score}))
    (folder / "machine.json").write_text(json.dumps({"Python": "3.12.1", "processor": "Abacus 9"}))
    return folder


@pytest.fixture
def grid(tmp_path):
    """Two algorithms, two tasks, five seeds."""
    for seed in range(5):
        for task, best in (("CartPole-v1", 500.0), ("Pendulum-v1", -100.0)):
            make_run(tmp_path, "ppo", task, seed, best - seed)
            make_run(tmp_path, "a2c", task, seed, best - 50.0 - seed, clip=seed < 9)
    return tmp_path


def test_the_command_writes_one_page_with_everything(grid, capsys):
    out = grid / "report.html"
    assert cli.main(["report", str(grid), "-o", str(out)]) == 0
    assert "20 runs" in capsys.readouterr().out
    html = out.read_text(encoding="utf-8")
    read, text = Reader(html), " ".join(Reader(html).texts)
    assert read.tags.count("svg") == 2 * 4 + 1  # per task: test and training returns by steps and seconds; profiles
    assert read.tags.count("polygon") == 2 * 4 * 2  # a band for each algorithm
    for said in (
        "498 (95 % interval:", "Until the test return was", "Probability that a run of the row beats one of the column",
        "Over all tasks", "Share of runs with a higher score", "clip", "Abacus 9", "Python 3.12.1",
    ):  # fmt: skip
        assert said in text
    assert "To know first" not in text
    assert "script" not in read.tags
    assert not re.search(r"https?:|src=|href=|url\(|@import|\bon\w+=", html)
    assert "default-src 'none'" in html
    assert {"color-scheme:light dark", "overflow-x:auto"} <= set(re.findall(r"[\w-]+:[\w ]+", html))
    regions = sum(name == "tabindex" for name, _ in read.attributes)
    assert regions == read.tags.count("table") > 5  # each is reached and scrolled by the keyboard


def test_a_threshold_s_steps_and_seconds_by_hand(tmp_path):
    make_run(tmp_path, score=300.0)  # tested at 100, 200, 300 steps: 100, 200, 300
    make_run(tmp_path, seed=1, score=150.0)  # 50, 100, 150
    make_run(tmp_path, seed=2, score=600.0)  # 200, 400, 600
    cells = Reader(render(read_runs([tmp_path])[0], threshold=200.0)).texts
    at = cells.index("Until the test return was 200: medians over seeds")
    assert cells[at + 5 : at + 9] == ["ppo", "2 of 3", "200", "4"]  # 200 steps at 50 a second
    cells = Reader(render(read_runs([tmp_path])[0], threshold=500.0)).texts
    assert cells[cells.index("1 of 3") + 1] == "not reached"


def test_hostile_names_stay_text(tmp_path):
    name = "<script>alert(1)</script>\"'&\ud800"
    for seed in range(2):
        folder = make_run(tmp_path, "x", name, seed, **{name: seed})
        config = json.loads((folder / "config.json").read_text()) | {"algorithm": name}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "machine.json").write_text(json.dumps({name: name}))
    out = tmp_path / "report.html"
    assert cli.main(["report", str(tmp_path), "-o", str(out)]) == 0
    read = Reader(out.read_text(encoding="utf-8"))
    assert "script" not in read.tags
    assert sum("<script>" in text for text in read.texts) >= 6
    assert {key for key, _ in read.attributes if key.startswith("on")} == set()


def test_what_is_wrong_is_said_and_the_rest_is_there(tmp_path):
    make_run(tmp_path, score=300.0)
    make_run(tmp_path, seed=1, tests=False)
    torn = make_run(tmp_path, seed=2)
    with (torn / "metrics.jsonl").open("a") as file:
        file.write(
            '{"env_step": 3\n{"env_step": "now"}\n{"env_step": 400, "test/return_mean": NaN}\n{"env_step": 1e400}\n'
        )
    cut = make_run(tmp_path, seed=3, score=123.0)
    (cut / "result.json").unlink()
    empty = make_run(tmp_path, seed=4)
    for file in ("metrics.jsonl", "result.json", "machine.json"):
        (empty / file).unlink()
    (make_run(tmp_path, seed=5) / "config.json").write_text("{")
    make_run(tmp_path, "dqn", "Acrobot-v1")
    runs, said = read_runs([tmp_path])
    assert len(runs) == 6
    for number, note in [
        (1, "no test on the way"), (2, "3 of 10 lines of metrics.jsonl are damaged"),
        (3, "its last test stands for one"), (4, "no metrics.jsonl"), (4, "no score"), (5, "left out"),
    ]:  # fmt: skip
        assert any(f"ppo-{number}" in one and note in one for one in said), note
    assert len(said) == 6
    assert [run.score for run in runs if run.task == "CartPole-v1"] == [300.0, 100.0, 100.0, 123.0, None]
    text = " ".join(Reader(render(runs, said)).texts)
    assert "of one seed there are none: dqn on Acrobot-v1 (1)" in text
    assert "ppo on CartPole-v1" not in text  # five seeds
    assert "tasks: Acrobot-v1, CartPole-v1" in text
    assert "so without an average over them: dqn, ppo" in text
    assert "4 of 5" in text


def test_settings_that_only_some_algorithms_have_are_folded(tmp_path):
    for algorithm, own in (("dqn", {"double": True}), ("ppo", {"clip": 0.2}), ("a2c", {"clip": 0.2, "n": 1})):
        make_run(tmp_path, algorithm, lr=len(own), **own)
    html = render(read_runs([tmp_path])[0])
    shown, hidden = html.split("<details><summary>Settings that only some have</summary>")
    assert '<th scope="row">lr</th>' in shown
    for name in ("double", "clip", "n"):
        assert f'<th scope="row">{name}</th>' in hidden.partition("</details>")[0]


def test_many_notes_are_folded_but_for_the_first():
    html = render([], [f"note {number}" for number in range(14)])
    assert html.index("note 9") < html.index("<details><summary>4 more</summary><ul><li>note 10</li>")
    Reader(html)


def test_variants_of_an_algorithm_are_told_apart_by_their_settings(tmp_path):
    for seed in range(2):
        make_run(tmp_path, seed=seed)
        make_run(tmp_path, seed=seed, lr=0.2)
    text = " ".join(Reader(render(read_runs([tmp_path])[0])).texts)
    assert "ppo lr=0.1" in text
    assert "ppo lr=0.2" in text


def test_numbers_that_tell_variants_apart_are_short_as_long_as_they_do(tmp_path):
    for lr in (0.0076889981437, 0.001):
        make_run(tmp_path, lr=lr)
    assert labels(read_runs([tmp_path])[0]) == ["ppo lr=0.007689", "ppo lr=0.001"]
    make_run(tmp_path, lr=0.0010000001)
    names = labels(read_runs([tmp_path])[0])
    assert len(set(names)) == 3
    assert "ppo lr=0.0010000001" in names


def test_numbers_that_no_run_notes_break_no_curve(tmp_path):
    for seed in range(2):
        folder = make_run(tmp_path, seed=seed)
        rows = [{"env_step": step, "loss/total": (-1.0) ** n * 1e99, "time/steps_per_s": 1e99}
                for n, step in enumerate((0.0, 1e-300, -5.0, 1e99))]  # fmt: skip
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    html = render(read_runs([tmp_path])[0])
    assert "loss/total by steps" in html
    assert not re.search(r"nan|inf", "".join(re.findall('points="([^"]*)"', html)))


def test_seconds_between_two_records_are_those_of_the_steps_between_them(tmp_path):
    folder = make_run(tmp_path)
    rows = [{"env_step": 100, "time/steps_per_s": 100.0}, {"env_step": 150, "test/return_mean": 1.0},
            {"env_step": 200, "time/steps_per_s": 10.0}, {"env_step": 300, "test/return_mean": 2.0}]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,), _ = read_runs([folder])
    assert [row["seconds"] for row in run.rows] == [1.0, 6.0, 11.0, 21.0]


def test_places_are_folders_patterns_and_folders_above(tmp_path):
    one = make_run(tmp_path / "many" / "[a]", seed=3)
    make_run(tmp_path / "bench", "dqn")
    assert [run.path for run in read_runs([one, tmp_path / "many"])[0]] == [one]  # once
    assert [run.algorithm for run in read_runs([f"{tmp_path}/*/dqn-*"])[0]] == ["dqn"]
    with pytest.raises(CheckpointError, match="does not exist"):
        read_runs([tmp_path / "nowhere"])


def test_who_reads_again_and_again_reads_what_has_changed_and_keeps_one_of_each(tmp_path, monkeypatch):
    folders, known, read = [make_run(tmp_path, seed=seed) for seed in range(3)], {}, []
    seen = runs_module._seen
    monkeypatch.setattr(runs_module, "_seen", lambda path: read.append(path) or seen(path))
    for value in (1.0, 2.0, 3.0):
        with (folders[1] / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"env_step": 400, "test/return_mean": value}) + "\n")
        runs, _ = read_runs([tmp_path], known)
        assert runs[1].rows[-1]["test/return_mean"] == value
    assert read == [*folders, folders[1], folders[1]]
    assert list(known) == folders


def test_compare_says_who_is_better_and_how_sure_it_is(grid, capsys):
    assert cli.main(["compare", f"{grid}/ppo*", f"{grid}/a2c*"]) == 0
    said = capsys.readouterr().out
    assert "CartPole-v1: A 498 (95 % interval:" in said
    assert "Probability that a run of A beats one of B: 1.00" in said
    assert "A is better" in said
    ours, theirs = (read_runs([f"{grid}/{name}*"])[0] for name in ("ppo", "a2c"))
    assert compare(theirs, ours)[-1].startswith("A is worse")
    assert compare(ours, ours)[-1].startswith("Not decided")


def test_compare_says_what_it_cannot_tell(tmp_path):
    ours = [make_run(tmp_path, seed=seed) for seed in range(2)]
    theirs = [make_run(tmp_path, "a2c", seed=0), make_run(tmp_path, "dqn", "Acrobot-v1")]
    said = compare(read_runs(ours)[0], read_runs(theirs)[0])
    assert "B: a2c, dqn, 2 runs" in said
    assert any(line.startswith("Left out") and "Acrobot-v1" in line for line in said)
    assert said[-1].startswith("Too few seeds to tell (2 and 1)")
    with pytest.raises(ConfigError, match="A has scores of CartPole-v1, B of Acrobot-v1"):
        compare(read_runs(ours)[0], read_runs(theirs[1:])[0])


def test_compare_answers_only_for_runs_of_one_kind(tmp_path):
    ours = [make_run(tmp_path, seed=seed, clip=clip) for seed in range(5) for clip in (True, False)]
    theirs = [make_run(tmp_path, name, seed=seed) for name in ("a2c", "dqn") for seed in range(5)]
    said = compare(read_runs(ours)[0], read_runs(theirs)[0])
    assert "A mixes on CartPole-v1, as if they were one: ppo clip=false; ppo clip=true" in said
    assert "B mixes on CartPole-v1, as if they were one: a2c; dqn" in said
    assert said[-1].startswith("No answer: the runs of A and B are not of one algorithm with the same settings")


def test_differences_and_bands_by_hand():
    apart = difference([5.0, 5.0, 5.0], [2.0, 2.0])
    assert apart == (3.0, 3.0, 3.0)
    middle, low, high = band([[0.0, 1.0], [2.0, 1.0]])
    assert middle.tolist() == [1.0, 1.0]
    assert (low.tolist(), high.tolist()) == ([0.0, 1.0], [2.0, 1.0])
    assert np.isnan(band([[1.0, 2.0]])[1:]).all()
    assert np.isnan(difference([1.0], [2.0, 3.0])[1:]).all()


def make_study(folder, name="ppo", score=1.0, **changes):
    folder.mkdir(parents=True)
    trials = [
        {"number": number, "settings": {f"lr{name}": 0.1, "kind": name}, "state": "complete", "score": score * number}
        for number in range(3)
    ]
    experiment = {"algorithm": name, "task": name}
    data = {"experiment": experiment, "trials": trials, "importance": {name: 1.0}, **changes}
    (folder / "study.json").write_text(json.dumps(data))


def test_studies_have_sections_whose_names_stay_text_and_damaged_ones_are_said(tmp_path):
    make_study(tmp_path / "good", "<b onload='x'>")
    make_run(tmp_path / "good" / "trials" / "0")
    make_study(tmp_path / "infinite", score=float("inf"))
    make_study(tmp_path / "bad", trials=[{}])
    out = tmp_path / "report.html"
    assert cli.main(["report", str(tmp_path), "-o", str(out)]) == 0
    read = Reader(out.read_text(encoding="utf-8"))
    assert "b" not in read.tags
    text = " ".join(read.texts)
    assert "Search: <b onload='x'> on <b onload='x'>" in text
    assert "The best trials" in text
    assert "bad: left out" in text
    assert "0 runs" in text  # a trial is no run, unless its folder is named
    assert len(read_runs([tmp_path / "good" / "trials"])[0]) == 1


def make_population(folder, turns, name="dqn"):
    folder.mkdir(parents=True)
    turn = {"settings": {"optim.lr": 1e-3, "kind": name}, "parent": 0}
    data = {"experiment": {"algorithm": name, "task": name}, "turns": [[turn | one for one in row] for row in turns]}
    (folder / "population.json").write_text(json.dumps(data))


def test_populations_have_sections_whose_names_stay_text_and_damaged_ones_are_said(tmp_path):
    hostile = "<b onload='x'>"
    ended = [[{"score": 1.0}, {"score": 5.0}], [{"score": 2.0, "parent": 1}, {"why": hostile}], [{"score": 3.0}, {}]]
    make_population(tmp_path / "good", ended, hostile)
    make_population(tmp_path / "new", [[{}, {}]])
    make_population(tmp_path / "other-keys", [[{"score": 1.0}], [{"score": 1.0, "settings": {}}]])
    make_population(tmp_path / "no-turn", [[{"score": 1.0, "parent": "x"}]])
    make_population(tmp_path / "empty", [])
    out = tmp_path / "report.html"
    assert cli.main(["report", str(tmp_path), "-o", str(out)]) == 0
    read = Reader(out.read_text(encoding="utf-8"))
    assert "b" not in read.tags
    at = read.texts.index("The members in round 2, the best one first")  # the third is under way
    assert read.texts[at + 1 : at + 16] == [
        "member", "return", "went on from", "optim.lr", "kind", "0", "2", "1", "0.001", hostile,
        "1", f"failed: {hostile}", "0", "0.001", hostile,
    ]  # fmt: skip
    text = " ".join(read.texts)
    assert "return, by member" in text
    assert "kind, by member" not in text
    assert "No round has ended yet." in text
    for name in ("other-keys", "no-turn", "empty"):
        assert f"{name}: left out" in text


def make_fleet(root, name="fleet", policies=("ppo",), **changes):
    folder = root / name
    for policy in policies:
        make_run(folder / "parameters", policy).rename(folder / "parameters" / policy)
        for file in ("metrics.jsonl", "result.json"):
            (folder / "parameters" / policy / file).unlink()
        made = {"Python": "3.12.1", "scale": "2 actors, 1 trainer"}
        (folder / "parameters" / policy / "machine.json").write_text(json.dumps(made))
    rows = [{"env_step": step, "time/steps_per_s": 50.0} for step in (100, 200, 300, 400)]
    for number, policy in enumerate(policies, 1):
        of = f"{policy}/" if len(policies) > 1 else ""
        for row in rows:
            step = row["env_step"] // number
            row |= {f"{of}loss/total": 0.5, f"{of}episode/return_mean": 10.0 * step, f"{of}env_step": step}
            row |= {f"{of}test/return_mean": 20.0 * step} if step != 300 else {}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trainer = f"trainer.{policies[0]}.0"
    learner = {"restarts": 2, "state": "running", "update_s": 40.0, "wait_s": 10.0}
    status = {
        "wall_s": 50.0, "before_s": 25.0, "reason": "env_steps reached",
        "workers": {trainer: {**learner, "lag_steps/0": 25.0, "lag_steps/4": 75.0},
                    "actor.0": {"restarts": 1, "steps": 400.0, "wait_samples_s": 30.0, "wait_inference_s": 5.0}},
        **changes,
    }  # fmt: skip
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "fleet.json").write_text("{}")
    return folder


def test_a_fleet_s_policy_is_a_run_and_the_fleet_has_a_section(tmp_path):
    make_fleet(tmp_path)
    (run,), (note,) = read_runs([tmp_path])
    assert run.curve("test/return_mean", "env_step")[0].tolist() == [100, 200, 400]
    assert run.curve("episode/return_mean", "env_step")[1].tolist() == [1000, 2000, 3000, 4000]
    assert run.curve("loss/total", "seconds")[0].tolist() == [2, 4, 6, 8]
    assert run.score == 8000.0
    assert "is a fleet's policy" in note
    out = tmp_path / "report.html"
    assert cli.main(["report", str(tmp_path), "-o", str(out)]) == 0
    read = Reader(out.read_text(encoding="utf-8"))
    text = " ".join(read.texts)
    assert "75 seconds, 3 restarts, actors wait for trainers; ended: env_steps reached." in text
    assert "actor.0 1 trainer 60%, policy 10% -" in text
    assert "trainer.ppo.0 2 data 20% 80%" in text
    assert "0 25.0% ████████ 4 to 7 75.0% ██████████████████████" in text
    assert "Steps per second of all actors" in text


def test_each_policy_of_a_fleet_of_several_is_a_run(tmp_path):
    make_fleet(tmp_path, policies=("a2c", "ppo"))
    runs, _ = read_runs([tmp_path])
    assert [run.algorithm for run in runs] == ["a2c", "ppo"]
    assert [run.curve("loss/total", "env_step")[0].tolist()[-1] for run in runs] == [400, 200]
    assert [run.score for run in runs] == [8000.0, 4000.0]
    assert [run.rows[-1]["episode/return_mean"] for run in runs] == [4000.0, 2000.0]


def test_a_fleet_and_a_local_run_of_one_experiment_are_compared_not_pooled(tmp_path):
    make_run(tmp_path)
    make_fleet(tmp_path)
    runs, _ = read_runs([tmp_path])
    text = " ".join(Reader(render(runs)).texts)
    for label in ("ppo scale=one process", "ppo scale=2 actors, 1 trainer"):
        assert label in text
    assert len(runs) == 2


def test_the_same_settings_and_seed_count_once(tmp_path):
    make_run(tmp_path, score=1.0)
    make_run(tmp_path, score=2.0)
    cut = make_run(tmp_path, score=3.0)
    (cut / "result.json").unlink()
    make_run(tmp_path, score=4.0, seed=1)
    make_run(tmp_path, score=5.0, lr=0.2)
    runs, said = read_runs([tmp_path])
    assert sorted(run.score for run in runs) == [2.0, 4.0, 5.0]
    for name in ("one", "two"):
        make_fleet(tmp_path / "fleets", name)  # their timing differs
    assert len(read_runs([tmp_path / "fleets"])[0]) == 2
    assert f"2 left out, whose settings and seeds newer ones have, too: {tmp_path}/ppo-0, {cut}" in said


def test_losses_are_shown_on_demand(tmp_path):
    for seed in range(2):
        folder = make_run(tmp_path, seed=seed)
        rows = [{"env_step": step, "loss/<i>": 1.0, "stat/entropy": 0.5 * step, "x/y": 1.0} for step in (1, 2, 3)]
        with (folder / "metrics.jsonl").open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
    html = render(read_runs([tmp_path])[0])
    (folded,) = re.findall("<details><summary>Losses.*?</details>", html)
    assert re.findall("<figcaption>(.*?)</figcaption>", folded) == ["loss/&lt;i&gt; by steps", "stat/entropy by steps"]
    assert folded.count("<polygon") == 2  # bands
    assert "Losses" not in render(read_runs([make_run(tmp_path / "none")])[0])


GIF = base64.b64decode("R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs=")


def test_the_best_run_s_newest_film_is_inside_the_page(tmp_path):
    for seed, score in enumerate((1.0, 9.0, 5.0)):
        folder = make_run(tmp_path, seed=seed, score=score)
        for age, name in enumerate(("video-200.gif", "video-100.gif")):
            (folder / name).write_bytes(GIF)
            os.utime(folder / name, (1e9 - age, 1e9 - age))
    (make_run(tmp_path, seed=3, score=99.0) / "other.gif").write_bytes(GIF)
    runs, _ = read_runs([tmp_path])
    html = render(runs)
    assert "<figcaption>ppo, seed 1: video-200.gif</figcaption>" in html
    assert re.findall(' src="(.*?)"', html) == [f"data:image/gif;base64,{base64.b64encode(GIF).decode()}"]
    assert "img-src data:" in html
    Reader(html)


def test_what_is_no_film_or_too_large_is_said(tmp_path):
    (make_run(tmp_path, "a2c") / "video.gif").write_bytes(b"<svg onload='alert(1)'>")
    (make_run(tmp_path, "dqn") / "video.gif").write_bytes(GIF + bytes(9_000_000))
    (make_run(tmp_path, "ppo") / "video.mp4").write_bytes(b"\0\0\0 ftypisom")
    (make_run(tmp_path, "sac") / "video.gif").mkdir()
    html = render(read_runs([tmp_path])[0])
    assert "a2c, seed 0: video.gif is neither GIF nor MP4" in html
    assert "dqn, seed 0: video.gif has 9 MB, too many for this page" in html
    assert '<video controls src="data:video/mp4;base64,' in html
    assert "svg onload" not in html
    assert "sac, seed 0: video" not in html


def test_a_fleet_s_names_stay_text_and_a_damaged_one_is_said(tmp_path):
    make_fleet(tmp_path, "<i>", reason="<b>", workers={"actor.<u>": {"restarts": 1e999, "lag_steps/4": -1.0}})
    make_fleet(tmp_path, "bad", workers=[1])
    make_fleet(tmp_path, "worse", workers={"trainer.x": {"lag_steps/many": 3.0}})
    out = tmp_path / "report.html"
    assert cli.main(["report", str(tmp_path), "-o", str(out)]) == 0
    read = Reader(out.read_text(encoding="utf-8"))
    assert not {"i", "b", "u"} & set(read.tags) - {"i"}
    text = " ".join(read.texts)
    assert "Fleet: <i>" in text
    assert "ended: <b>" in text
    assert "bad: nothing is said of this fleet" in text
    assert "worse: nothing is said of this fleet" in text
