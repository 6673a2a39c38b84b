"""Experiment: one frozen description of a run, read by the local trainers and by a fleet alike.

It holds plain values only, so that it can be written as JSON, compared and sent to another machine. Everything a run
needs beside it (environments, networks, buffers) is made from it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import argosy
from argosy.algorithm import ALGORITHMS, algorithm_class, algorithm_name, remember_algorithm
from argosy.algorithm.base import Algorithm, AlgorithmConfig
from argosy.algorithm.wrapper import remember_wrapper, wrapper_call
from argosy.config import Checked, Plain, from_plain, limited, replaced, to_plain
from argosy.env import EnvConfig
from argosy.env.agents.registry import environment_name
from argosy.errors import ConfigError
from argosy.files import write_atomically
from argosy.named import check_trusted, given_code, take_code, trust_written
from argosy.net import NetConfig
from argosy.settings import BufferConfig as BufferConfig
from argosy.settings import LoggerConfig as LoggerConfig
from argosy.settings import StopConfig as StopConfig
from argosy.settings import TrainerConfig as TrainerConfig
from argosy.synonyms import nearest_setting

FORMAT = 1
NO_CODE = (
    "device",
    "data",
    "expert",
    "init",
    "buffer.device",
    "buffer.storage_dir",
    "logger.wandb_project",
    "logger.mlflow",
)
"""Settings in which a colon means something else than code."""
_GO_ON = ", or go on in the env after some updates from the data: trainer.offline_updates=N"
_MOST_THREADS = 4096
"""That can be meant."""
_CODE = "(code)"


@dataclass(frozen=True, kw_only=True)
class Experiment(Checked):
    """Everything that says what a run does. Same experiment, same machine, same result.

    The fields describe one policy that plays one task. Runs with several policies add fields (agents, policies,
    groups of workers) whose defaults mean this one.
    """

    task: str
    """Environment id, e.g. CartPole-v1, HalfCheetah-v5, ALE/Pong-v5; or "MODULE:NAME" of a class or function of your
    own (in Python: itself)."""
    algorithm: str | type[Algorithm[Any, Any]]
    """Name of the algorithm, as in `argosy algorithms`, "MODULE:CLASS", or the class, which is turned into its name."""
    config: AlgorithmConfig
    """Settings of the algorithm."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """How the environments are made."""
    net: NetConfig = field(default_factory=NetConfig)
    """The networks."""
    buffer: BufferConfig = field(default_factory=BufferConfig)
    """The replay buffer."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    """The training loop."""
    stop: StopConfig = field(default_factory=StopConfig)
    """When to stop."""
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    """Where metrics go."""
    seed: int = limited(0, ge=0)
    """Seed of everything random."""
    device: str = "cpu"
    """Where the networks are: cpu, cuda, cuda:1, ..., or auto (a GPU if there is one)."""
    threads: int = limited(0, ge=0, le=_MOST_THREADS)
    """Threads that PyTorch computes with; 0: what is fastest for these networks on this machine, measured once and kept
    (fleets and OMP_NUM_THREADS: PyTorch's own choice)."""
    compile: Literal["update"] | None = limited(None, among=(None, "update"))
    """Let torch compile what an update computes (see `argosy.algorithm.compiled`): for GPUs and larger networks, after
    up to a minute of compiling at the first update."""
    wrap: tuple[str, ...] = ()
    """Algorithms around the algorithm that change what it learns from (`argosy.AlgorithmWrapper`), the first one
    innermost: rnd, icm (curiosity), registered names or MODULE:CLASS, where needed with arguments: "rnd(scale=0.1)"."""
    callbacks: tuple[str, ...] = ()
    """Objects that are told what happens in a local run (`argosy.trainer.callbacks`): registered names or MODULE:CLASS,
    where needed with arguments, as in "MODULE:CLASS(every=10)"."""
    data: str | None = None
    """Data set to learn from: a file that `argosy collect` wrote, or of any kind that `argosy data` knows; nothing is
    collected then and the task is for tests, but with `trainer.offline_updates`, and where an on-policy algorithm takes
    it for what an expert does."""
    expert: str | None = None
    """Run, or a policy's file, that says what it would have done in the place of the policy, whose actions are played;
    for algorithms that learn from that."""
    init: str | None = None
    """Run, or a policy's file, whose parameters the run begins with; optimisers and all else are new."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithm", algorithm_name(self.algorithm))
        object.__setattr__(self, "task", environment_name(self.task))
        cls = algorithm_class(self.algorithm)
        if not isinstance(self.config, cls.config_type):
            wanted, given = cls.config_type.__name__, type(self.config).__name__
            raise ConfigError(f"Experiment.config is a {given}; {self.algorithm} takes a {wanted}")
        super().__post_init__()
        for name in ("wrap", "callbacks"):
            if isinstance(value := getattr(self, name), str):
                raise ConfigError(f"{name} is {value!r}; it must be a tuple: ({value!r},)")
        for name in ("data", "expert", "init"):
            if getattr(self, name) == "":  # the variable of a shell that is not set; a path would be the folder here
                raise ConfigError(f"{name} is ''; name a file or a folder, or leave it out")
        for wrapper in self.wrap:
            wrapper_call(wrapper)
        if cls.kind == "onpolicy":
            for setting, default in _REPLAYING.items():
                if (value := attrgetter(setting)(self)) != default:
                    raise ConfigError(
                        f"{setting} is {value}, but {self.algorithm} learns on-policy, once from all that was "
                        f"collected; its own settings say how (`argosy train {self.algorithm} --help`)"
                    )
            if self.data is not None and not cls.expert_rows:
                raise ConfigError(
                    f"data is {self.data!r}, but {self.algorithm} learns on-policy, only from what its present policy "
                    "collects; `argosy algorithms` lists those that learn off-policy or offline"
                )
        elif not self.collects:
            for setting, default in _COLLECTING.items():
                if (value := attrgetter(setting)(self)) != default:
                    hint = _GO_ON if cls.goes_online and not setting.startswith("buffer.") else ""
                    raise ConfigError(
                        f"{setting} is {value}, but {self.algorithm} learns from a data set here and collects nothing; "
                        f"leave it out{hint}"
                    )
        elif self.trainer.offline_updates or self.trainer.data_share is not None:
            self._check_both_sources(cls)
        if self.collects and self.trainer.episode_per_test == 0:
            raise ConfigError(
                "trainer.episode_per_test is 0, but only a run that learns from data alone does without tests; it must "
                "be >= 1"
            )
        if self.expert is not None and not (cls.needs_expert and self.collects):
            why = "asks no expert; leave it out"
            if cls.needs_expert:
                why = f"collects nothing here; leave the data out{_GO_ON}"
            raise ConfigError(f"expert is {self.expert!r}, but {self.algorithm} {why}")

    def _check_both_sources(self, cls: type[Algorithm[Any, Any]]) -> None:
        """Check a run that learns from a data set first, and then goes on in the env."""
        if self.data is None:
            name = "offline_updates" if self.trainer.offline_updates else "data_share"
            raise ConfigError(
                f"trainer.{name} is {getattr(self.trainer, name)}, but there is no data set; name it: --data FILE"
            )
        if not cls.goes_online:
            raise ConfigError(
                f"trainer.offline_updates is {self.trainer.offline_updates}, but {self.algorithm} learns nothing from "
                "what it does itself; leave it out"
            )

    @property
    def collects(self) -> bool:
        """Whether envs are played for what is learned from, not for tests alone."""
        kind = algorithm_class(self.algorithm).kind
        return kind == "onpolicy" or self.trainer.offline_updates > 0 or (self.data is None and kind != "offline")

    @property
    def beside(self) -> str | None:
        """What is learned from beside, or in the place of, what the algorithm itself does; None: nothing else."""
        cls = algorithm_class(self.algorithm)
        if cls.needs_expert:
            return "an expert"
        return "a data set" if self.data is not None or cls.kind == "offline" or cls.expert_rows else None

    @property
    def unit(self) -> str:
        """What the run's time is counted in."""
        if not self.collects:
            return "updates"
        return "updates and steps" if self.trainer.offline_updates else "steps"

    def replaced(self, changes: Mapping[str, object]) -> Experiment:
        """Return a copy with `changes`, named as the command's flags are: `lr`, `env.num_envs`, `trainer.max_epoch`.

        Settings of the algorithm stand at the top; a section takes a dict or a config object, or a dotted name, which
        goes before these. With `data`, settings of collecting that are not among the changes go back to their defaults.

        Raises:
            ConfigError: a name is unknown (the nearest one is offered), or stands for what another one says; or a value
                has the wrong type or range.
        """
        said = [self.full_name(key) for key in changes]
        if twice := sorted({name.removeprefix("config.") for name in said if said.count(name) > 1}):
            raise ConfigError(f"{twice[0]} is given twice, by different names of it; leave one of them out")
        usual = self
        if changes.get("data") is not None and self.data is None and algorithm_class(self.algorithm).kind != "onpolicy":
            usual = replaced(self, _COLLECTING)
        return replaced(usual, dict(zip(said, changes.values(), strict=True)))

    def full_name(self, name: str) -> str:
        """Return where a setting that `replaced` takes stands: `config.optim.lr` for `lr`.

        Settings of the algorithm need not say in which of its sections they are, if only one has a setting of the name,
        and no other one that begins so (`eps` may be Adam's or that of `eps_end`).
        """
        own = _leaves(self.config)
        if name == "total_steps":
            return "trainer.total_steps"
        first = name.partition(".")[0]
        if first in {leaf.partition(".")[0] for leaf in own}:
            return f"config.{name}"
        if first in _OWN:
            return name
        parts = {leaf: leaf.rpartition(".") for leaf in own}
        meant = [leaf for leaf, (_, _, last) in parts.items() if last == name]
        if len(meant) == 1:
            section = parts[meant[0]][0]
            meant += [leaf for leaf, (of, _, last) in parts.items() if last.startswith(f"{name}_") and of != section]
        if len(meant) == 1:
            return f"config.{meant[0]}"
        if meant:
            raise ConfigError(f"setting {name!r} of {self.algorithm} may be {' or '.join(meant)}; say which one")
        known = [*self.setting_names(), *self.short_names()]
        raise ConfigError(f"unknown setting {name!r} for {self.algorithm}: {nearest_setting(name, known)}")

    def setting_names(self) -> list[str]:
        """Return every name that `replaced` takes, with dots."""
        return list(self.settings())

    def settings(self) -> dict[str, object]:
        """Return the value of every setting, by its name with dots."""
        return {name.removeprefix("config."): attrgetter(name)(self) for name in _leaves(self) if name != "algorithm"}

    def short_names(self) -> list[str]:
        """Return names that need no section: those of the algorithm's settings, `lr` for `optim.lr`, and few others."""
        return [*(leaf.rpartition(".")[2] for leaf in _leaves(self.config)), "total_steps"]

    def to_dict(self) -> dict[str, Plain]:
        """Return what goes into a config.json."""
        data = to_plain(self)
        assert isinstance(data, dict)
        return {"argosy": argosy.__version__, "format": FORMAT, **data}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Experiment:
        """Make an experiment of what `to_dict` returned.

        Raises:
            ConfigError: a key is unknown (the nearest one is offered), is missing or has a wrong value.
        """
        fields = {key: value for key, value in data.items() if key not in ("argosy", "format")}
        form = data.get("format", FORMAT)
        if not isinstance(form, int) or form > FORMAT:
            raise ConfigError(f"the experiment has format {form!r}; this argosy ({argosy.__version__}) reads {FORMAT}")
        name = fields.get("algorithm")
        if not isinstance(name, str):
            raise ConfigError(f"algorithm is {name!r}; it must be the name of an algorithm")
        fields["config"] = from_plain(algorithm_class(name).config_type, fields.get("config", {}), "config")
        return from_plain(cls, fields)

    def save(self, path: str | Path) -> None:
        """Write the experiment as JSON. What it names as "MODULE:CLASS" is trusted from now on, see `trust_written`."""
        trust_written(self.to_dict())
        write_atomically(Path(path), (json.dumps(self.to_dict(), indent=2) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Experiment:
        """Read what `save` wrote, or what a person wrote like it.

        Args:
            path: the file.
            trust: import what it names as "MODULE:CLASS", even if nobody has named that in this process.

        Raises:
            TrustError: it names such code, and `trust` is not set.
            ConfigError: the file is missing, is no JSON, or `from_dict` refuses it.
        """
        try:
            data = json.loads(Path(path).read_text())
        except FileNotFoundError:
            raise ConfigError(f"there is no file {str(path)!r}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{str(path)!r} is not a readable JSON file ({error})") from None
        if not isinstance(data, dict):
            raise ConfigError(f"{str(path)!r} holds {type(data).__name__}; an experiment is a JSON object")
        check_trusted(data, repr(str(path)), but=NO_CODE, trust=trust)
        return cls.from_dict(data)

    def __getstate__(self) -> dict[str, object]:
        """Take code of one's own along: a process that receives the experiment knows no names of it."""
        own = None if self.algorithm in ALGORITHMS else algorithm_class(self.algorithm)
        wrappers = {wrapper: wrapper_call(wrapper)[0] for wrapper in self.wrap}
        code = given_code({name: value for name, value in self.to_dict().items() if name not in NO_CODE})
        return {**vars(self), _CODE: (own, wrappers, code)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own, wrappers, code = state.pop(_CODE)
        take_code(code)
        vars(self).update(state)
        for wrapper, cls in wrappers.items():
            remember_wrapper(wrapper, cls)
        if own is not None:
            remember_algorithm(algorithm_name(self.algorithm), own)


_OWN = frozenset(f.name for f in dataclasses.fields(Experiment)) - {"algorithm", "config"}


def _defaults(section: str, config: object, *names: str) -> dict[str, object]:
    return {f"{section}.{name}": getattr(config, name) for name in names}


# What only some kinds of runs obey, with the values that say nothing.
_BUFFER = _defaults("buffer", BufferConfig(), *(f.name for f in dataclasses.fields(BufferConfig)))
_REPLAYING = _defaults("trainer", TrainerConfig(), "update_per_step", "batch_size", "start_steps") | _BUFFER
_REPLAYING |= _defaults("trainer", TrainerConfig(), "offline_updates", "data_share")
_COLLECTING = _defaults("trainer", TrainerConfig(), "step_per_collect", "update_per_step", "start_steps") | _BUFFER
_COLLECTING |= _defaults("trainer", TrainerConfig(), "data_share")


def _leaves(config: object, prefix: str = "") -> list[str]:
    """Return the names of all settings under a config, nested ones with dots."""
    names: list[str] = []
    for f in dataclasses.fields(config):  # type: ignore[arg-type]  # callers pass dataclass instances
        value = getattr(config, f.name)
        name = prefix + f.name
        names += _leaves(value, name + ".") if dataclasses.is_dataclass(value) else [name]
    return names
