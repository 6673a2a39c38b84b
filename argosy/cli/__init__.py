"""The `argosy` command: a thin dispatcher, so that help needs no torch.

Each command is a dataclass of its flags that is called, or where there is more to it a function of the arguments.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

from argosy.cli.help import stored
from argosy.errors import ArgosyError, CheckpointError, ConfigError, MissingExtraError, SpaceError, TrustError, nearest

COMMANDS = {
    "train": ("argosy.cli.train", "train ALGO --task TASK: learn, test, draw the curve"),
    "resume": ("argosy.cli.saved:Resume", "resume RUN: go on with a run that was stopped"),
    "eval": ("argosy.cli.saved:Eval", "eval RUN --episodes N: play with a policy that a run has saved"),
    "watch": ("argosy.cli.saved:Watch", "watch RUN --video FILE: film a policy that a run has saved"),
    "export": ("argosy.cli.saved:Export", "export RUN -o FILE: a policy as ONNX or TorchScript, to act without argosy"),
    "pack": ("argosy.cli.saved:Pack", "pack RUN -o FILE: a policy with its card, to be shared; takes the run's place"),
    "collect": ("argosy.cli.saved:Collect", "collect RUN --steps N -o FILE: a data set of a run's best policy"),
    "data": ("argosy.cli.data", "data FILE: what a data set holds, what is wrong with it | data convert SRC DST"),
    "bench": ("argosy.cli.bench:Bench", "bench SUITE: algorithms x tasks x seeds, side by side; runs what is missing"),
    "tune": ("argosy.cli.tune", "tune ALGO --task TASK --trials N: look for better settings"),
    "report": ("argosy.cli.report:Report", "report RUN... -o FILE: curves, scores and how sure they are, as one page"),
    "compare": ("argosy.cli.report:Compare", "compare A B: are these runs better than those?"),
    "dash": ("argosy.cli.live:Dash", "dash [RUNS]: the report on runs that go on, in the browser"),
    "launch": ("argosy.cli.launch:Launch", "launch FILE [--address A]: run a fleet on this machine or a Ray cluster"),
    "fleet": ("argosy.cli.fleet:FleetCommand", "fleet status [NAME] | stop NAME: look at running fleets, or end one"),
    "algorithms": ("argosy.cli.help:Algorithms", "list the algorithms and what they are for"),
    "doctor": ("argosy.cli.doctor:Doctor", "versions, cores, GPU, extras: what works, what is missing"),
    "check-env": ("argosy.cli.check_env", "check-env MODULE:ENV: is this environment sound?"),
}

USER_ERRORS = (ConfigError, SpaceError, CheckpointError, MissingExtraError, TrustError)


def usage() -> str:
    """Return what `argosy --help` prints."""
    commands = "\n".join(f"  {name:<12} {text}" for name, (_, text) in COMMANDS.items())
    return (
        "usage: argosy COMMAND [options]\n\n"
        "Reinforcement learning from a laptop to a cluster.\n\n"
        f"commands:\n{commands}\n\n"
        "`argosy COMMAND --help` lists the options of a command. --debug shows where an error arose.\n"
        "Start with: argosy train dqn --task CartPole-v1 --seed 1"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for what the user can mend, 1 otherwise, 130 for Ctrl-C."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if args[0] in ("-V", "--version"):
        from argosy import __version__

        print(f"argosy {__version__}")
        return 0
    sys.path.append(os.getcwd())  # for tasks given as MODULE:ENV
    try:
        if (text := stored(args[0], args[1:])) is not None:
            print(text)
            return 0
        if args[0] not in COMMANDS:
            raise ConfigError(f"unknown command {args[0]!r}: {nearest(args[0], COMMANDS)}")
        module, _, name = COMMANDS[args[0]][0].partition(":")
        command = getattr(importlib.import_module(module), name or "main")
        if isinstance(command, type):
            from argosy.cli.flags import parse  # here: tyro takes a while

            code: int = parse(command, args[1:], prog=f"argosy {args[0]}")()
        else:
            code = command(args[1:])
        return code
    except ArgosyError as error:
        if debug:
            raise
        print("\n".join([f"argosy: error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 2 if isinstance(error, USER_ERRORS) else 1
    except BrokenPipeError:  # `argosy ... | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # of paths that were given
        if debug or error.errno not in (errno.EACCES, errno.ENAMETOOLONG, errno.ELOOP):
            raise
        print(f"argosy: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        if debug:
            raise
        print("; ".join(["argosy: interrupted", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 130
