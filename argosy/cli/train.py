"""`argosy train ALGO --task TASK ...`: every setting of the experiment is a flag."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.cli import help
from argosy.cli.flags import parse
from argosy.cli.show import finish, show_start
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.named import trust_names
from argosy.presets import preset, preset_name

if TYPE_CHECKING:
    from argosy.run.result import Result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """What a training command takes beside the experiment."""

    runs: str = "runs"
    """Folder under which the run gets its own."""
    seeds: str | None = None
    """Several runs instead of one: 0-4, or 1,3,5. They lie in a folder of their own; `argosy resume` takes it."""
    jobs: int = 0
    """How many of these run side by side; 0: as many as cores."""
    trust: bool = False
    """Import the code that FILE names as MODULE:CLASS, though this command line does not."""
    json: bool = False
    """Print the result as one line of JSON, last, on standard output."""
    quiet: bool = False
    """No progress bar and no report."""


def main(args: Sequence[str]) -> int:
    """Train as the flags say."""
    args = list(args)
    algorithm = args.pop(0) if args and not args[0].startswith("-") else None
    config, args = _take(args, "--config")
    wants_help = "-h" in args or "--help" in args
    if algorithm is None and config is None:
        raise ConfigError(f"which algorithm? argosy train ALGO --task TASK, with ALGO one of {', '.join(ALGORITHMS)}")
    if config is not None:
        trust_names([part for arg in (algorithm or "", *args) for part in (arg, arg.partition("=")[2])])
        default = Experiment.load(config, trust="--trust" in args)
        if algorithm not in (None, default.algorithm):
            raise ConfigError(f"{config} is about {default.algorithm!r}, not about {algorithm!r}")
        source = f"settings of {config}"
    else:
        assert algorithm is not None
        algorithm_class(algorithm)
        task = _value(args, "--task")
        if task is None and not wants_help:
            raise ConfigError("which task? --task TASK, for instance --task CartPole-v1")
        memory = _value(args, "--net.memory")
        asked = {"net.memory": memory} if memory in ("gru", "lstm") else {}
        default = _preset_for_help(algorithm) if task is None else preset(algorithm, task, **asked)
        source = f"preset: {preset_name(algorithm, default.task, default.net.memory)}"
    data = _value(args, "--data")
    if data is not None:  # settings of collecting then say nothing
        default = default.replaced({"data": data})
    if wants_help:
        print(help.page(str(default.algorithm), f"Defaults are those of the {source}.", *help_of(default)))
        return 0
    experiment, output = _parse(default, args)
    return run_and_report(experiment, output, source)


def run_and_report(experiment: Experiment, output: Output, source: str) -> int:
    """Train, with a report before and after."""
    from argosy.run.train import train

    if not output.quiet:
        show_start(experiment, source, to_stderr=output.json)
    if output.seeds is not None:
        from argosy.cli import many

        group = many.new_group(experiment, output.seeds, output.runs)
        return many.run_and_report(group, output.jobs, as_json=output.json, quiet=output.quiet)
    result: Result = train(experiment, runs=output.runs, show_progress=not output.quiet)
    return finish(result, json=output.json, quiet=output.quiet)


def help_of(default: Experiment) -> tuple[str, str]:
    """Return the flags of the algorithm and those of every run, with the values of `default`."""
    shared = help.flags_of(default, but=("algorithm", "config"))
    return help.flags_of(default.config), shared + help.flags_of(Output())


def flags_type(default: Experiment) -> type[Any]:
    """Return a dataclass whose fields are those of `default` and `Output`, with the algorithm's settings at the top."""
    config: Any = Annotated[type(default.config), tyro.conf.arg(name="")]
    fields: list[tuple[str, Any]] = [("config", config), ("algorithm", tyro.conf.Suppress[str])]
    return dataclasses.make_dataclass("Flags", fields, bases=(Output, Experiment), frozen=True, kw_only=True)


def _parse(default: Experiment, args: Sequence[str]) -> tuple[Experiment, Output]:
    flags, args = flags_type(default), _gathered(default, _spelled_out(default, args))
    names = {field.name for field in dataclasses.fields(Experiment)}
    values = {name: getattr(default, name) for name in names}
    parsed = parse(
        flags,
        args,
        prog=f"argosy train {default.algorithm}",
        description=f"Train {default.algorithm} on {default.task}. Defaults are those of the preset for this task.",
        default=flags(**values),
        names=[*default.setting_names(), *default.short_names()],
    )
    experiment = Experiment(**{name: getattr(parsed, name) for name in names})
    return experiment, Output(**{field.name: getattr(parsed, field.name) for field in dataclasses.fields(Output)})


def _spelled_out(default: Experiment, args: Sequence[str]) -> list[str]:
    """Let `--lr 1e-3` stand for `--optim.lr 1e-3` where only one section of the algorithm has such a setting.

    Raises:
        ConfigError: several have it.
    """
    short = set(default.short_names()) - {field.name for field in dataclasses.fields(Output)}
    spelled = []
    for arg in args:
        flag, equals, value = arg.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        negation = "no_" if name not in short and name.startswith("no_") else ""
        name = name.removeprefix(negation)
        if flag.startswith("--") and name in short:
            section, dot, last = default.full_name(name).removeprefix("config.").rpartition(".")
            flag = f"--{section}{dot}{negation}{last}".replace("_", "-")
        spelled.append(flag + equals + value)
    return spelled


def _gathered(default: Experiment, args: Sequence[str]) -> list[str]:
    """Let `--env.kwargs.size 3 --env.kwargs.name left` stand for `--env.kwargs '{"size": 3, "name": "left"}'`.

    What is no JSON is a text.

    Raises:
        ConfigError: a value is missing.
    """
    found = {name: dict(value) for name, value in default.settings().items() if isinstance(value, Mapping)}
    changed, rest, items = set(), [], iter(args)
    for arg in items:
        flag, equals, value = arg.partition("=")
        section, _, key = flag.removeprefix("--").replace("-", "_").rpartition(".")
        if not flag.startswith("--") or section not in found:
            rest.append(arg)
            continue
        text = value if equals else next(items, None)
        if text is None:
            raise ConfigError(f"{flag} needs a value")
        try:
            found[section][key] = json.loads(text)
        except ValueError:
            found[section][key] = text
        changed.add(section)
    for section in sorted(changed):
        rest += [f"--{section.replace('_', '-')}", json.dumps(found[section])]
    return rest


def _preset_for_help(algorithm: str) -> Experiment:
    """Return the preset for a task that the algorithm can play, for a help without --task."""
    from gymnasium.spaces import Discrete

    discrete = Discrete in algorithm_class(algorithm).action_spaces
    return preset(algorithm, "CartPole-v1" if discrete else "Pendulum-v1")


def _value(args: Sequence[str], flag: str) -> str | None:
    """Return the last value of `--flag value` or `--flag=value`."""
    return _take(args, flag)[0]


def _take(args: Sequence[str], flag: str) -> tuple[str | None, list[str]]:
    """Return the last value of a flag, and the arguments without it."""
    rest, found = [], None
    items = iter(args)
    for arg in items:
        if arg == flag:
            found = next(items, None)
            if found is None:
                raise ConfigError(f"{flag} needs a value")
        elif arg.startswith(flag + "="):
            found = arg.partition("=")[2]
        else:
            rest.append(arg)
    return found, rest
