"""Every `argosy` command that the documentation shows is one: its verb, its flags, its settings' values."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest

from argosy import cli

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?:bash)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands():
    """(page, command) of every line in a block that begins with `argosy`."""
    for page in [ROOT / "README.md", ROOT / "agents/README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in FENCE.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("argosy ") and "ALGO" not in line:
                    yield str(page.relative_to(ROOT)), line


COMMANDS = sorted(set(commands()))
TRAINED = [(page, line) for page, line in COMMANDS if line.split()[1] in ("train", "tune")]


@pytest.mark.parametrize(("page", "line"), sorted(set(COMMANDS) - set(TRAINED)))
def test_its_flags_are_there(page, line, capsys, monkeypatch):
    _, verb, *args = shlex.split(line, comments=True)
    assert verb in cli.COMMANDS, line
    sub = args[:1] if verb == "data" and args[0] == "convert" else []
    with contextlib.suppress(SystemExit):
        cli.main([verb, *sub, "--help"])
    known = capsys.readouterr().out
    assert [arg for arg in args if arg.startswith("-") and not re.search(rf"(^|\s|, ){arg}\b", known)] == []


@pytest.mark.parametrize(("page", "line"), TRAINED)
def test_its_settings_are_taken(page, line, monkeypatch, tmp_path):
    from argosy.cli.train import Output, read_flags
    from argosy.cli.tune import TuneFlags

    _, verb, *args = shlex.split(line, comments=True)
    for flag in ("--preset", "--space"):  # files of the reader's
        if flag in args:
            (tmp_path / "mine.toml").write_text("")
            args[args.index(flag) + 1] = str(tmp_path / "mine.toml")
    if "--help" not in args:
        assert read_flags(args, TuneFlags if verb == "tune" else Output, verb) is not None
