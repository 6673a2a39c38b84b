"""A short run that nobody disturbs, and how another one, to which something was done, compares with it."""

import functools
import json
import tempfile
import time
from pathlib import Path

import commands
from commands import checkpoint, finish, run_folder, start, train_args

from argosy.errors import ArgosyError
from argosy.experiment import Experiment
from argosy.files import read_json
from argosy.logger import read_jsonl
from argosy.run.saved import read_file
from argosy.trainer.statefile import read_state


class Peace:
    """A run that nobody disturbs, and how long it took."""

    def __init__(self, algorithm, vector, runs):
        self.args = functools.partial(train_args, algorithm, **{"env.vector": vector})
        begin = time.monotonic()
        code = finish(start(self.args(runs), runs / "log"))
        assert code == 0, (runs / "log").read_text()
        self.seconds = time.monotonic() - begin
        self.outcome = outcome(run_folder(runs))


@functools.cache
def in_peace(algorithm, vector):
    """Make it once for all chains of this process."""
    with tempfile.TemporaryDirectory() as folder:
        if not in_peace.cache_info().misses > 1:  # what is imported late is imported here
            commands.main(train_args(algorithm, folder + "/warm", **{"trainer.max-epoch": 1}))
        return Peace(algorithm, vector, Path(folder))


def outcome(run):
    """All that a run has come to, but for clocks and the folder's name."""
    result = read_json(run / "result.json")
    for name in ("run_dir", "wall_s", "steps_per_s"):
        del result[name]
    rows = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in read_jsonl(run / "metrics.jsonl")]
    return {
        **{f"checkpoint{place}": value for place, value in checkpoint(run / "checkpoint.safetensors").items()},
        **{f"metrics.{number}": json.dumps(row) for number, row in enumerate(rows)},
        "policy": (run / "policy.safetensors").read_bytes(),
        "result": json.dumps(result),
    }


def differences(ours, theirs):
    """A few of the things that differ, with both values."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    shown = "".join(f"\n  {name}: {ours.get(name)!s:.300}, not {theirs.get(name)!s:.300}" for name in names[:12])
    return f"{len(names)} differences{shown}"


def whole(run):
    """Read all that lies in the folder of a run; return what cannot be read, and the steps of its newest checkpoint."""
    torn, steps = [], 0
    checkpoints = [*run.glob("checkpoint*.safetensors"), *run.glob("crash*.safetensors")]
    described = [run / name for name in ("policy.json", "result.json") if (run / name).exists()]
    policies = [run / "policy.safetensors"] if (run / "policy.safetensors").exists() else []
    for path in (run / "config.json", *described, *policies, *checkpoints):
        try:
            if path in checkpoints:
                steps = max(steps, read_state(path, "checkpoint")["trainer"]["env_step"])
            elif path in described:
                read_json(path)
            elif path in policies:
                read_file(path)
            else:
                Experiment.load(path)
        except ArgosyError as error:
            torn.append(str(error))
    return torn, steps
