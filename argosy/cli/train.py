"""`argosy train ALGO --task TASK ...`: every setting of the experiment is a flag."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import tyro

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.cli import help
from argosy.cli.flags import SideBySide, check_once, gathered, parse
from argosy.cli.show import finish, show_start
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.named import trust_names
from argosy.presets import own_settings, preset, preset_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Common(SideBySide):
    """What commands that train take beside the experiment."""

    runs: str = "runs"
    """Folder under which runs get theirs."""
    preset: str | None = None
    """File of settings (TOML, or JSON) on those of the preset for the task; flags change them."""
    trust: bool = False
    """Import the code that FILE names as MODULE:CLASS, though this command line does not."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output(Common):
    """What a training command takes beside the experiment."""

    seeds: str | None = None
    """Several runs instead of one: 0-4, or 1,3,5. They lie in a folder of their own; `argosy resume` takes it."""
    profile: bool = False
    """Say in the end where the time went, and draw it (flame.svg in the run's folder)."""


OutputT = TypeVar("OutputT", bound=Common)


def main(args: Sequence[str]) -> int:
    """Train as the flags say."""
    read = read_flags(args, Output, "train")
    return 0 if read is None else run_and_report(*read)


def read_flags(args: Sequence[str], output: type[OutputT], command: str) -> tuple[Experiment, OutputT, str] | None:
    """Return the experiment, the other flags, and where the defaults come from; None: help was printed instead."""
    args = list(args)
    check_once(args)
    algorithm = args.pop(0) if args and not args[0].startswith("-") else None
    (config,), args = _taken(args, "--config")
    names = ("--preset", "--task", "--net.memory", "--data", "--seed", "--seeds")
    (file, task, memory, data, seed, seeds), _ = _taken(args, *names)
    if seed is not None and seeds is not None:
        raise ConfigError(f"--seed {seed} and --seeds {seeds} are given; leave one of them out")
    wants_help, trust = "-h" in args or "--help" in args, "--trust" in args
    if algorithm is None and config is None:
        raise ConfigError(
            f"which algorithm? argosy {command} ALGO --task TASK, with ALGO one of {', '.join(ALGORITHMS)}"
        )
    trust_names([part for arg in (algorithm or "", *args) for part in (arg, arg.partition("=")[2])])
    asked = {} if file is None else own_settings(file, trust=trust)
    asked |= {} if data is None else {"data": data}  # settings of collecting, but those asked for, say nothing then
    if config is not None:
        default = Experiment.load(config, trust=trust).replaced(asked)
        if algorithm not in (None, default.algorithm):
            raise ConfigError(f"{config} is about {default.algorithm!r}, not about {algorithm!r}")
        source = f"settings of {config}"
    else:
        assert algorithm is not None
        algorithm_class(algorithm)
        if task is None and not wants_help:
            if args and not args[0].startswith("-"):
                raise ConfigError(f"which task? If {args[0]!r} is meant: --task {args[0]}")
            _parse(_preset_for_help(algorithm), args, output, command)  # says which flag is misspelt
            raise ConfigError("which task? --task TASK, for instance --task CartPole-v1")
        asked |= {"net.memory": memory} if memory in ("gru", "lstm") else {}
        try:
            default = _preset_for_help(algorithm) if task is None else preset(algorithm, task, **asked)
        except ConfigError as error:
            if file is None:
                raise
            order = "flags come later, so that what it must change together has to stand in it together"
            raise ConfigError(f"{file} on the preset: {error}; {order}") from None
        source = f"preset: {preset_name(algorithm, default.task, default.net.memory)}"
    source += "" if file is None else f" and {file}"
    if wants_help:
        own, shared = help_of(default, output())
        print(help.page(command, str(default.algorithm), f"Defaults are those of the {source}.", own, shared))
        return None
    return *_parse(default, args, output, command), source


def run_and_report(experiment: Experiment, output: Output, source: str) -> int:
    """Train, with a report before and after."""
    from argosy.run.train import train

    if output.profile and output.seeds is not None:
        raise ConfigError("--profile is of one run; leave out --seeds")
    if output.address is not None and output.seeds is None:
        raise ConfigError("--address is for several runs (--seeds 0-4); for one run on many machines see argosy launch")
    if output.seeds is not None:
        from argosy.cli import many
        from argosy.run.many import new_group

        group = new_group(experiment, output.seeds, output.runs)
    if not output.quiet:
        show_start(experiment, source, output.stream, output.seeds)
    if output.seeds is not None:
        return many.run_and_report(group, output)
    result = train(experiment, runs=output.runs, show_progress=not output.quiet, profile=output.profile)
    if output.profile and not output.quiet:
        from argosy.run.profile import profile_table

        print(profile_table(result.run_dir), file=output.stream)
    return finish(result, output)


def help_of(default: Experiment, output: Common) -> tuple[str, str]:
    """Return the flags of the algorithm and those of every run, with the values of `default` and `output`."""
    shared = help.flags_of(default, but=("algorithm", "config"))
    return help.flags_of(default.config), shared + help.flags_of(output)


def flags_type(default: Experiment, output: type[Common]) -> type[Any]:
    """Return a dataclass whose fields are those of `default` and `output`, with the algorithm's settings at the top."""
    config: Any = Annotated[type(default.config), tyro.conf.arg(name="")]
    fields: list[tuple[str, Any]] = [("config", config), ("algorithm", tyro.conf.Suppress[str])]
    return dataclasses.make_dataclass("Flags", fields, bases=(output, Experiment), frozen=True, kw_only=True)


def _parse(default: Experiment, args: Sequence[str], output: type[OutputT], command: str) -> tuple[Experiment, OutputT]:
    flags, args = flags_type(default, output), gathered(default.settings(), _spelled_out(default, args, output))
    names = {field.name for field in dataclasses.fields(Experiment)}
    values = {name: getattr(default, name) for name in names}
    parsed = parse(
        flags,
        args,
        prog=f"argosy {command} {default.algorithm}",
        default=flags(**values),
        names=[*default.setting_names(), *default.short_names()],
    )
    experiment = Experiment(**{name: getattr(parsed, name) for name in names})
    return experiment, output(**{field.name: getattr(parsed, field.name) for field in dataclasses.fields(output)})


def _spelled_out(default: Experiment, args: Sequence[str], output: type[Common]) -> list[str]:
    """Let `--lr 1e-3` stand for `--optim.lr 1e-3` where only one section of the algorithm has such a setting."""
    short = set(default.short_names()) - {field.name for field in dataclasses.fields(output)}
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


def _preset_for_help(algorithm: str) -> Experiment:
    """Return the preset for a task that the algorithm can play, for a help without --task."""
    from gymnasium.spaces import Discrete

    discrete = Discrete in algorithm_class(algorithm).action_spaces
    return preset(algorithm, "CartPole-v1" if discrete else "Pendulum-v1")


def _taken(args: Sequence[str], *flags: str) -> tuple[list[str | None], list[str]]:
    """Return the last value of each flag, and the arguments without them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for flag in flags:
        parser.add_argument(flag, dest=flag)
    try:
        found, rest = parser.parse_known_args(args)
    except argparse.ArgumentError as error:
        raise ConfigError(f"{error.argument_name} needs a value") from None
    return [getattr(found, flag) for flag in flags], rest
