"""What can be held of the images and the cluster without building them: paths, versions, names, Ray's own schema."""

import importlib.metadata
import re
import shlex
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from argosy.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted((ROOT / "docker").glob("Dockerfile*"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FLEET = (ROOT / "docs/fleet.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", FLEET, re.MULTILINE | re.DOTALL)
CONSOLE = "\n".join(block for language, block in BLOCKS if not language)


def instructions(dockerfile):
    """Return (instruction, the rest of it) pairs, continued lines joined."""
    text = dockerfile.read_text(encoding="utf-8").replace("\\\n", "")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line and not line.startswith("#")]


def copied(dockerfile):
    return [path for name, rest in instructions(dockerfile) if name == "COPY" for path in rest.split()[:-1]]


def ignored(path):
    """Whether .dockerignore keeps the path from the builder: the last pattern that matches decides."""
    answer = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and fnmatch(path, line.removeprefix("!")):
            answer = not line.startswith("!")
    return answer


def cluster():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "docker/cluster.yaml").read_text(encoding="utf-8"))


def test_there_is_an_image_for_cpus_and_one_for_gpus():
    assert [path.name for path in DOCKERFILES] == ["Dockerfile", "Dockerfile.gpu"]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
class TestDockerfile:
    def test_copies_what_is_there_and_not_ignored(self, dockerfile):
        assert {"argosy", "examples", "constraints.txt", "pyproject.toml"} <= set(copied(dockerfile))
        assert [path for path in copied(dockerfile) if not (ROOT / path).exists() or ignored(path)] == []

    def test_takes_the_python_that_the_constraints_were_made_with(self, dockerfile):
        made_with = re.search(r"CPython (\d+\.\d+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"))[1]
        base = dict(instructions(dockerfile))["FROM"]
        assert base.startswith(f"python:{made_with}-slim")
        least = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"]).groups()
        assert tuple(map(int, made_with.split("."))) >= tuple(map(int, least))

    def test_installs_extras_that_exist(self, dockerfile):
        extras = re.search(r"'\.\[(.*?)\]'", dockerfile.read_text(encoding="utf-8"))[1].split(",")
        assert "fleet" in extras
        assert set(extras) <= set(PROJECT["optional-dependencies"])

    def test_a_change_of_the_sources_installs_nothing_again(self, dockerfile):
        steps = [f"{name} {rest}" for name, rest in instructions(dockerfile)]
        last_install = max(i for i, step in enumerate(steps) if "pip install" in step)
        assert not [step for step in steps[:last_install] if re.search(r"COPY .*(argosy|examples|README)", step)]

    def test_does_not_run_as_root(self, dockerfile):
        names = [name for name, _ in instructions(dockerfile)]
        assert "USER" in names
        assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")

    def test_has_what_ray_up_looks_for(self, dockerfile):
        text = dockerfile.read_text(encoding="utf-8")
        assert re.search(r"apt-get install .*openssh-client rsync", text)
        user = dict(instructions(dockerfile))["USER"]
        assert f"ENV HOME=/home/{user}\n" in text

    def test_starts_an_example_that_it_copies(self, dockerfile):
        command = dict(instructions(dockerfile))["CMD"]
        path = re.search(r'"(examples/[^"]*)"', command)[1]
        assert (ROOT / path).is_file()


def test_both_images_differ_in_torch_alone():
    cpu, gpu = (set(instructions(path)) for path in DOCKERFILES)
    assert all(re.search("torch|TORCH|NVIDIA", rest) for _, rest in cpu ^ gpu)


class TestCluster:
    def test_is_valid_for_ray(self):
        pytest.importorskip("ray")
        from ray.autoscaler._private.util import prepare_config, validate_config

        prepared = prepare_config(cluster())
        validate_config(prepared)
        node = prepared["available_node_types"]["local.cluster.node"]
        assert node["min_workers"] == len(cluster()["provider"]["worker_ips"])

    def test_the_object_stores_fit_into_shared_memory(self):
        options = " ".join(cluster()["docker"]["run_options"])
        gigabytes = float(re.search(r"--shm-size=(\d+)g", options)[1])
        lines = cluster()["head_start_ray_commands"] + cluster()["worker_start_ray_commands"]
        starts = [line for line in lines if "ray start" in line]
        sizes = [float(re.search(r"--object-store-memory=(\d+)", line)[1]) for line in starts]
        assert len(sizes) == 2
        assert max(sizes) < gigabytes * 2**30

    def test_the_folder_of_the_runs_is_that_of_the_images(self):
        volume = re.search(r"--volume \S+:(\S+)", " ".join(cluster()["docker"]["run_options"]))[1]
        for dockerfile in DOCKERFILES:
            workdir = dict(instructions(dockerfile))["WORKDIR"]
            assert volume == f"{workdir}/runs"

    def test_every_node_gets_the_token_that_it_asks_for(self):
        assert "--env RAY_AUTH_MODE=token" in cluster()["docker"]["run_options"]
        folder = re.search(r"--volume (\S+):/home/sailor/.ray", " ".join(cluster()["docker"]["run_options"]))[1]
        assert f"{folder}/auth_token" in CONSOLE


def commands(program):
    """Return what docs/fleet.md calls the program with, in its blocks of shell commands and inside `ray exec`."""
    lines = re.findall(rf"(?:^|'|nohup |argosy |\$node ){program} ([^'\n#>]*)", CONSOLE, re.MULTILINE)
    return sorted({line.strip() for line in lines})


@pytest.mark.parametrize("command", commands("argosy"))
def test_argosy_commands_of_the_page_exist(command, capsys, monkeypatch):
    verb, *args = shlex.split(command)
    assert verb in COMMANDS
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        code = main([verb, "--help"])
    except SystemExit as end:  # argparse ends like this
        code = end.code
    assert code == 0
    known = capsys.readouterr().out
    assert [arg for arg in args if arg.startswith("--") and not re.search(rf"{arg}\b", known)] == []
    assert [arg for arg in args if arg.startswith("examples/") and not (ROOT / arg).is_file()] == []


def test_ray_commands_of_the_page_exist():
    pytest.importorskip("ray")
    from ray.scripts.scripts import cli

    verbs = {command.split()[0] for command in commands("ray")}
    assert {"up", "exec", "down", "start"} <= verbs
    assert verbs <= set(cli.commands)


def test_ray_of_the_constraints_is_the_one_that_the_page_speaks_of():
    pinned = re.search(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
    pytest.importorskip("ray")
    assert importlib.metadata.version("ray") == pinned
    assert set(re.findall(r"Ray (\d+\.\d+)", FLEET)) <= {pinned.rsplit(".", 1)[0]}
