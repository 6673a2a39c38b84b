"""Clusters that ask for a token, and others: `argosy launch --address` finds out which it is."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from argosy.distributed.host import cluster
from argosy.distributed.host.ray import RayLauncher
from argosy.errors import ConfigError


@pytest.fixture
def modes(monkeypatch):
    """What Ray was told; nothing is set before."""
    told = []
    config = SimpleNamespace(initialize=lambda text: told.append(os.environ.get("RAY_AUTH_MODE")))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    yield told, SimpleNamespace(_raylet=SimpleNamespace(Config=config))
    os.environ.pop("RAY_AUTH_MODE", None)


@pytest.mark.parametrize(("answer", "told_modes"), [(cluster._ASKS, ["token"]), (cluster._OPEN, ["disabled"]), (1, [])])
def test_mode_is_what_the_cluster_asks_for(answer, told_modes, modes, monkeypatch):
    told, ray = modes
    asked = []

    def run(command, env, **options):
        asked.append((command[-1], env["RAY_AUTH_MODE"]))
        return SimpleNamespace(returncode=answer)

    monkeypatch.setattr(cluster.subprocess, "run", run)
    assert cluster.choose_auth_mode(ray, "auto") == bool(told_modes)
    assert asked == [("auto", "disabled")]
    assert told == told_modes


@pytest.mark.parametrize(
    ("mode", "address"), [("token", "auto"), ("disabled", "host:6379"), (None, "ray://host:10001")]
)
def test_mode_that_is_set_is_respected(mode, address, modes, monkeypatch):
    told, ray = modes
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(cluster.subprocess, "run", None)  # is not asked
    assert not cluster.choose_auth_mode(ray, address)
    assert told == []


def test_what_is_no_address(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match="there is no Ray cluster at 'host:port' that lets us in"):
        RayLauncher("host:port")


def test_nobody_at_the_address(modes):
    _, ray = modes
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(ConnectionError):
            cluster.choose_auth_mode(ray, f"127.0.0.1:{silent.getsockname()[1]}")


FLEET = """
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetStop, PolicySpec, Resources
from argosy.presets import preset

little = Resources(num_cpus=0.1)
fleet = Fleet(
    name="tokens",
    policies={"p": PolicySpec(experiment=preset("ppo", "CartPole-v1"), trainer_resources=little)},
    actors=ActorGroup(resources=little),
    evaluation=EvalGroup(count=0),
    stop=FleetStop(updates=1, wall_s=120),
)
"""


@contextlib.contextmanager
def head(home, folder):
    """`ray start --head`, as a user would do it whose home is `home`; ends with all that it has started."""
    port, *others = free_ports(3)
    options = {
        "port": port,
        "ray-client-server-port": others[0],
        "dashboard-agent-listen-port": others[1],
        "num-cpus": 2,
        "object-store-memory": 100 * 2**20,
        "include-dashboard": "false",
        "temp-dir": folder,
    }
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with (home / "head.log").open("w") as log:
        process = subprocess.Popen(command, env=environment(home), stdout=log, stderr=log, start_new_session=True)
    try:
        said = wait_for(lambda: "Ray runtime started" in (home / "head.log").read_text() or process.poll() is not None)
        assert said, (home / "head.log").read_text()
        assert process.poll() is None, (home / "head.log").read_text()
        yield f"{socket.gethostbyname(socket.gethostname())}:{port}"
    finally:
        family = [process, *psutil.Process(process.pid).children(recursive=True)]
        process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(family[1:], timeout=30)
        for child in alive:
            child.kill()
        process.wait(30)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


def environment(home):
    path = os.pathsep.join([str(Path(cluster.__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    rest = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**rest, "HOME": str(home), "PYTHONPATH": path}


def wait_for(condition, timeout_s=90):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def launch(home, address, *options):
    (home / "tokens.py").write_text(FLEET)
    return argosy(home, "launch", str(home / "tokens.py"), "--address", address, *options)


def argosy(home, *command):
    args = [*command, "--runs", str(home / "runs"), "--json"]
    command = [sys.executable, "-c", f"import sys; from argosy.cli import main; sys.exit(main({args!r}))"]
    return subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize("token_before", [True, False], ids=["asks for a token", "asks for none"])
def test_launch_on_a_cluster_that_ray_start_made(token_before):
    """`ray start` asks for the user's token if there is one then; Ray makes it when it starts a cluster of its own."""
    pytest.importorskip("ray")
    with tempfile.TemporaryDirectory(prefix="argosy-") as folder:  # short enough for the paths of Ray's sockets
        check_launches(Path(folder), token_before)


def check_launches(home, token_before):
    token = home / ".ray" / "auth_token"
    token.parent.mkdir()
    if token_before:
        token.write_text("1" * 64)
    with head(home, home / "ray") as address:
        token.write_text("1" * 64)
        run = launch(home, address)
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout.splitlines()[-1])["reason"] == "updates reached"
        assert "Unauthenticated" not in run.stderr
        short = ["--total-steps", "400", "--trainer.start-steps", "100", "--stop.episodes", "1", "--quiet"]
        many = argosy(home, "train", "dqn", "--task", "CartPole-v1", "--seeds", "0-1", "--address", address, *short)
        assert many.returncode == 0, many.stderr
        assert [run["env_steps"] for run in json.loads(many.stdout.splitlines()[-1])["runs"]] == [400, 400]
        token.unlink()
        stranger = launch(home, address, "--name", "stranger")
        if token_before:
            assert stranger.returncode != 0
            assert "that lets us in" in stranger.stderr
            assert "~/.ray/auth_token" in stranger.stderr
        else:
            assert stranger.returncode == 0, stranger.stderr
