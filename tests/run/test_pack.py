"""Agents as one file: what goes in comes out and plays the same; a file that somebody made up does nothing."""

import io
import json
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import argosy
from argosy import cli
from argosy.errors import CheckpointError, ConfigError, TrustError
from argosy.run.agentfile import NAMES, opened


@pytest.fixture(scope="module")
def agent(result, tmp_path_factory):
    """A packed run, not to be changed."""
    return argosy.pack(result.run_dir, tmp_path_factory.mktemp("packed") / "new" / "agent.zip", episodes=3)


def rewritten(agent, path, change):
    """Write a copy of an agent's file whose members `change` has changed; those that it leaves are stored."""
    with zipfile.ZipFile(agent) as source:
        members = {name: source.read(name) for name in source.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as target:
        for name, data in members.items():
            target.writestr(name, data)
    return path


def test_the_file_has_all_that_it_takes_and_a_card(agent, result):
    with zipfile.ZipFile(agent) as packed:
        names, card = packed.namelist(), packed.read("README.md").decode()
        assert {member.compress_type for member in packed.infolist()} == {zipfile.ZIP_STORED}
    assert set(names) == set(NAMES)  # curve and film, too
    for said in (
        "# dqn on CartPole-v1", "over 3 episodes, 95 % interval", "| licence | not stated |", "| seed | 5 |", "torch",
        'argosy.load("agent.zip")', "![curve.png](curve.png)", '"lr"', f"| argosy | {argosy.__version__} |",
    ):  # fmt: skip
        assert said in card
    assert str(Path(result.run_dir).parent) not in card
    assert not list(agent.parent.glob(".*"))


def test_load_eval_and_watch_take_the_file(agent, result, tmp_path, capsys):
    obs = np.zeros((3, 4), np.float32)
    np.testing.assert_array_equal(argosy.load(agent).predict(obs)[0], argosy.load(result.run_dir).predict(obs)[0])
    ours, theirs = (argosy.evaluate(place, episodes=4, seed=2).returns for place in (agent, result.run_dir))
    np.testing.assert_array_equal(ours, theirs)
    copy = shutil.copy(agent, tmp_path / "mine.zip")
    assert cli.main(["eval", str(copy), "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 2
    assert cli.main(["watch", str(copy), "--max-steps", "3"]) == 0
    assert (tmp_path / "mine.gif").is_file()
    with pytest.raises(CheckpointError, match="nothing to choose from"):
        argosy.load(agent, tag="latest")


@pytest.mark.parametrize("flag", ["init", "expert"])
def test_a_run_begins_with_the_file_or_asks_it(agent, result, tmp_path, capsys, flag):
    algorithm = "dqn" if flag == "init" else "dagger"
    args = ["--net.hidden-sizes=16", "--env.num-envs=2", "--total-steps=60", "--trainer.episode-per-test=1"]
    begun = cli.main([
        "train", algorithm, "--task", "CartPole-v1", f"--{flag}", str(agent), "--runs", str(tmp_path),
        "--stop.episodes=1", "--trainer.start-steps=50", "--lr=1e-9", *args,
    ])  # fmt: skip
    said = capsys.readouterr()
    assert begun == 0, said.err
    if flag == "init":  # at this rate nothing is learned
        assert "init: policy." in said.err
        assert f"from {agent}" in said.err
        (run,) = tmp_path.glob("CartPole-v1/dqn/*")
        for name, value in argosy.load(run, tag="latest").state_dict().items():
            if "exploration" not in name:
                torch.testing.assert_close(value, argosy.load(agent).state_dict()[name])


def test_what_is_exported_of_the_file_acts_as_the_policy(agent, tmp_path, capsys):
    assert cli.main(["export", str(agent), "-o", str(tmp_path / "policy.pt")]) == 0
    assert "policy.pt" in capsys.readouterr().out
    obs = np.random.default_rng(1).uniform(-0.2, 0.2, (30, 4)).astype(np.float32)
    actions = torch.jit.load(tmp_path / "policy.pt")(torch.from_numpy(obs))[0]
    assert actions.tolist() == argosy.load(agent).predict(obs)[0].tolist()


@pytest.mark.parametrize("flag", ["init", "expert"])
def test_a_run_that_begins_with_a_damaged_file_says_so(agent, tmp_path, capsys, flag):
    (tmp_path / "bad.zip").write_bytes(agent.read_bytes()[:2000])
    algorithm = "dqn" if flag == "init" else "dagger"
    args = ["train", algorithm, "--task", "CartPole-v1", f"--{flag}", str(tmp_path / "bad.zip")]
    assert cli.main([*args, "--runs", str(tmp_path)]) == 2
    assert "bad.zip' is damaged" in capsys.readouterr().err


def test_the_command_and_the_runs_that_differ_by_their_seeds_only(result, tmp_path, capsys):
    run = Path(shutil.copytree(result.run_dir, tmp_path / "a"))
    given = json.loads((run / "config.json").read_text())
    given["logger"]["mlflow"], given["init"] = "http://me:password@host", "/home/me/run"
    (run / "config.json").write_text(json.dumps(given))
    for name, seed, lr in (("b", 6, None), ("c", 7, 0.5)):
        other = Path(shutil.copytree(run, tmp_path / name))
        config = json.loads((other / "config.json").read_text()) | {"seed": seed}
        config["config"]["optim"]["lr"] = lr or config["config"]["optim"]["lr"]
        (other / "config.json").write_text(json.dumps(config))
        (other / "result.json").write_text('{"test_return_mean": 321.5}')
    out = tmp_path / "x.zip"
    args = ["pack", str(run), "-o", str(out), "--episodes", "2", "--licence", "CC0 | <b>", "--no-video"]
    assert cli.main(args) == 0
    assert "agent: " in capsys.readouterr().out
    with zipfile.ZipFile(out) as packed:
        card = packed.read("README.md").decode()
        assert "video.gif" not in packed.namelist()
        assert not {
            name for name in packed.namelist() if b"password" in packed.read(name) or b"/home" in packed.read(name)
        }
    assert "| 6 | 321.5 |" in card
    assert "| 7 |" not in card
    assert "<b>" not in card
    with pytest.raises(ConfigError, match=r"must end in .zip"):
        argosy.pack(run, tmp_path / "x.tar")


@pytest.mark.parametrize(
    "name", ["../evil.py", "/tmp/evil.py", "evil.py", "policy.pkl", "README.md/../../x", "config.json/"]
)
def test_nothing_is_written_under_a_name_that_is_not_known(agent, tmp_path, monkeypatch, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    bad = rewritten(agent, tmp_path / "bad.zip", lambda members: members.update({name: b"evil"}))
    with pytest.raises(CheckpointError, match="no agent that argosy packed: it holds"):
        argosy.load(bad)
    assert {path.name for path in tmp_path.rglob("*")} == {"bad.zip", "temp"}


def test_what_says_to_be_smaller_than_it_is_or_is_too_large_is_refused(agent, tmp_path):
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(agent) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name) if name != "config.json" else b"0" * 10_000_000)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(CheckpointError, match="is compressed"):
        argosy.load(path)
    rewritten(agent, path, lambda members: members.update({"config.json": bytes((1 << 26) + 1)}))
    with pytest.raises(CheckpointError, match="67,108,865 bytes, more than"):
        argosy.load(path)
    data = rewritten(agent, path, lambda members: None).read_bytes()
    at = data.rindex(b"PK\x01\x02")  # sizes of the last member in the directory
    path.write_bytes(data[: at + 20] + (1 << 31).to_bytes(4, "little") * 2 + data[at + 28 :])
    with pytest.raises(CheckpointError):
        argosy.load(path)


def test_damaged_files_are_named(agent, tmp_path):
    data = agent.read_bytes()
    path = tmp_path / "bad.zip"
    for bad in (b"", b"PK", data[: len(data) // 2], b"x" * 1000):
        path.write_bytes(bad)
        with pytest.raises(CheckpointError, match=r"bad.zip' is"):
            argosy.load(path)
    at = data.index(b"policy.safetensors") + 4000  # of the parameters
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(CheckpointError):
        argosy.load(path)
    rewritten(agent, path, lambda members: members.pop("policy.json"))
    with pytest.raises(CheckpointError, match=r"it lacks policy.json"):
        argosy.load(path)
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("config.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            target.writestr("config.json", "{}")
    with pytest.raises(CheckpointError, match="a name twice"), opened(path):
        pass


def test_code_that_a_file_names_is_not_imported(agent, tmp_path, monkeypatch):
    (tmp_path / "evil_agent.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)

    def change(members):
        config = json.loads(members["config.json"])
        config["net"]["encoder"] = "evil_agent:Encoder"
        members["config.json"] = json.dumps(config).encode()

    with pytest.raises(TrustError, match=r"bad\.zip/config\.json' names code .*evil_agent:Encoder"):
        argosy.load(rewritten(agent, tmp_path / "bad.zip", change))
    assert "evil_agent" not in sys.modules


def test_a_member_is_never_unpickled(agent, tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "owned",))

    for name in ("policy.safetensors", "config.json", "policy.json"):
        evil = io.BytesIO()
        pickle.dump(Evil(), evil)
        bad = rewritten(agent, tmp_path / "bad.zip", lambda members: members.update({name: evil.getvalue()}))  # noqa: B023
        with pytest.raises(CheckpointError):
            argosy.load(bad)
    assert not (tmp_path / "owned").exists()


AGENTS = Path(__file__).parents[2] / "agents"


@pytest.mark.parametrize(
    ("name", "bar"), [("acrobot-dqn.zip", -150.0), ("cartpole-ppo.zip", 400.0), ("pendulum-td3.zip", -400.0)]
)
def test_the_agents_that_come_with_the_code_are_whole_small_and_play_as_their_cards_say(name, bar):
    file = AGENTS / name
    assert file.stat().st_size < 500_000
    with opened(file) as policy:
        assert {one.name for one in policy.parent.iterdir()} == set(NAMES)
        card = policy.with_name("README.md").read_text(encoding="utf-8")
    assert f"`{name}`" in (AGENTS / "README.md").read_text(encoding="utf-8")
    assert float(re.search(r"mean return (\S+) over 100 episodes", card)[1]) > bar
    assert argosy.evaluate(file, episodes=5).returns.mean() > bar
