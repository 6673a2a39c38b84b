"""`argosy train --help` and `argosy algorithms`, read from files, so that they need no torch.

What help/ holds comes from the configs and the docstrings under their fields; `python tests/cli/test_surface.py` writes
it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from argosy.algorithm import ALGORITHMS
from argosy.cli.table import in_columns

FOLDER = Path(__file__).with_name("help")
USAGE = """usage: argosy train ALGO --task TASK [--seed N] [options]
       argosy train --config FILE [options]

Train a policy, test it, keep the run under runs/ and draw its learning curve. Settings come from the preset for
ALGO and TASK (or from FILE, the config.json of a run); flags change them.

ALGO is one of: {algorithms}; or MODULE:CLASS for one of your own.
`argosy train ALGO --help` lists all flags; with --task TASK it shows that preset's values as defaults.
"""
TUNE_USAGE = """usage: argosy tune ALGO --task TASK --trials N [--space FILE] [options]
       argosy tune ALGO --task TASK --population N [--rounds K] [--space FILE] [options]

Look for better settings: each trial is a run, cut short when its tests are hopeless; a population's members are runs
side by side, of which bad ones go on from good ones, with settings near to theirs. Given again, the command goes on
with what is missing. `argosy tune ALGO --help` lists all flags: those of `argosy train`, whose values are what is
improved, and those of the search, last.
"""
_HELP = ("-h", "--help")


@dataclasses.dataclass(frozen=True)
class Algorithms:
    """List the algorithms and what they are for."""

    def __call__(self) -> int:
        """Print a line per algorithm."""
        print(f"{table()}\n\n`argosy train NAME --help` lists an algorithm's settings.")
        return 0


def stored(command: str, args: Sequence[str]) -> str | None:
    """Return the answer to `argosy train ...` or `tune ...` where it stands in files; None where it depends on more."""
    if list(args) in ([], *([flag] for flag in _HELP)):
        return {"train": USAGE.format(algorithms=", ".join(ALGORITHMS)), "tune": TUNE_USAGE}.get(command)
    if command == "train" and len(args) == 2 and args[0] in ALGORITHMS and args[1] in _HELP:
        defaults = "Defaults are the algorithm's own; with --task TASK those of the preset for that task."
        return page("train", args[0], defaults, _read(args[0]).partition("\n")[2], _read("all"))
    return None


def table() -> str:
    """Return what `argosy algorithms` prints."""
    rows = [(name, *_read(name).partition("\n")[0].split("\t")) for name in ALGORITHMS]
    return "\n".join(in_columns(("name", "learns", "action spaces", "presets", "what it is"), rows))


def page(command: str, algorithm: str, defaults: str, own: str, shared: str) -> str:
    """Return the help of `argosy train ALGO`, or of another command that trains."""
    return (
        f"usage: argosy {command} {algorithm} --task TASK [options]\n\n"
        f"{defaults} --debug shows where an error arose.\n"
        "A section of the algorithm's may be left out where no other has the setting: --lr for DQN's --optim.lr.\n\n"
        f"settings of {algorithm}:\n{own}\nsettings of every run:\n{shared}"
    )


def _read(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


# -- writing ---------------------------------------------------------------------------------------------------------


def flags_of(config: object, but: Collection[str] = ()) -> str:
    """Return the flags of a config, `but` not those of some fields, with their meanings, two lines for each."""
    lines = []
    for name, value, hint, meaning in settings_of(config):
        if name.partition(".")[0] not in but:
            flag = name.replace("_", "-")
            section, dot, last = flag.rpartition(".")
            shown = f"--{flag}, --{section}{dot}no-{last}" if hint is bool else f"--{flag} {metavar(hint)}"
            text = f"{meaning} (default: {shown_value(value)})"
            lines += [f"  {shown}", textwrap.fill(text, 100, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return "\n".join(lines) + "\n"


def settings_of(config: object, prefix: str = "") -> Iterator[tuple[str, object, object, str]]:
    """Yield name, value, type and docstring of every field of a config, those of nested ones with dots."""
    explained: dict[str, str] = {}
    for cls in reversed(type(config).__mro__[:-1]):
        body: list[ast.stmt] = getattr(ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0], "body", [])
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                explained[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    hints = typing.get_type_hints(type(config))
    for name in (field.name for field in dataclasses.fields(config)):  # type: ignore[arg-type]  # a dataclass
        value = getattr(config, name)
        if dataclasses.is_dataclass(value):
            yield from settings_of(value, f"{prefix}{name}.")
        else:
            meaning = re.sub(r" \(details? [^)]*\)", "", explained.get(name, ""))  # of the algorithm's file
            yield prefix + name, value, hints[name], meaning


def metavar(hint: object) -> str:
    """Return what a flag takes, in a word: INT, {a,b}, FLOAT ..."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return "|".join("None" if arg is type(None) else metavar(arg) for arg in args)
    if origin is typing.Literal:
        return "{" + ",".join(str(arg) for arg in args) + "}"
    if origin is tuple:
        return " ".join("..." if arg is Ellipsis else metavar(arg) for arg in args)
    if origin is not None and issubclass(origin, Mapping):
        return "JSON"
    return {int: "INT", float: "FLOAT", bool: "{True,False}"}.get(typing.cast(type, hint), "STR")


def shown_value(value: object) -> str:
    """Return a default, as help and documentation show it."""
    if isinstance(value, tuple):
        return ", ".join(shown_value(item) for item in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
