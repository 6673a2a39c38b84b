"""Settings that say something, but that nothing in a run reads: what they are told by."""

from __future__ import annotations

import dataclasses
import inspect
import typing
import warnings
from collections.abc import Iterator

from argosy.algorithm import algorithm_class
from argosy.algorithm.optim import KINDS, OptimConfig
from argosy.env.tasks import task_family, vector_kind
from argosy.experiment import Experiment
from argosy.policy import ActorCriticPolicy, EpsilonConfig, NetPolicy, NoiseConfig
from argosy.policy.tabular import TabularPolicy

_ATARI = "frame_stack frame_skip noop_max image_size episodic_life reward_clip fire_reset repeat_action_probability"

_SWITCHES = (
    ("munchausen_alpha", 0.0, "munchausen_tau munchausen_low"),
    ("auto_alpha", False, "alpha_optim target_entropy"),
    ("lagrange", False, "threshold multiplier_optim"),
    ("cloning_updates", 0, "cloning_optim"),
    ("gsde_steps", None, "gsde_log_std_init"),
    ("improvement", "binary", "temperature max_weight"),
    ("improvement", "all", "temperature max_weight"),
    ("mixer", "vdn", "mixing_units"),
)
"""Settings of algorithms, and values with which they leave others without a say."""


def warn_of_unread(experiment: Experiment, *, tests_after_epochs: bool = True) -> None:
    """Warn of every setting of an experiment that differs from its default, though nothing reads it.

    And of a run that is too short to learn anything, or whose epochs are too short for their tests to differ.
    """
    for name, why in unread(experiment).items():
        value = experiment.settings()[name]
        warnings.warn(f"{name} is {value!r}, but nothing reads it: {why}", stacklevel=3)
    trainer, kind = experiment.trainer, algorithm_class(str(experiment.algorithm)).kind
    batch_size = trainer.batch_size or 64
    if kind == "onpolicy" and (rollout := trainer.step_per_collect) > trainer.length:
        warnings.warn(
            f"the run has {trainer.length:,} steps, but a rollout, trainer.step_per_collect, {rollout:,}; it is not "
            "cut: the run makes one, and updates after it",
            stacklevel=3,
        )
    tested = tests_after_epochs and trainer.episode_per_test and trainer.step_per_epoch < trainer.step_per_collect
    if kind == "onpolicy" and tested:
        warnings.warn(
            f"the same policy will be tested several times: an epoch is {trainer.step_per_epoch:,} steps "
            f"(trainer.step_per_epoch), and a rollout {trainer.step_per_collect:,} (trainer.step_per_collect)",
            stacklevel=3,
        )
    if kind == "offpolicy" and experiment.data is None and batch_size > trainer.length:
        warnings.warn(
            f"nothing will be learned: the run has {trainer.length} steps, and trainer.batch_size is {batch_size}",
            stacklevel=3,
        )
    cloning, from_data = getattr(experiment.config, "cloning_updates", 0), trainer.offline_updates or trainer.length
    if cloning >= from_data:
        after = ", and go on with it in the env" if trainer.offline_updates and cloning > from_data else ""
        warnings.warn(
            f"the policy will only imitate the data{after}: cloning_updates is {cloning:,}, the updates from the data "
            f"are {from_data:,}",
            stacklevel=3,
        )


def unread(experiment: Experiment) -> dict[str, str]:
    """Return the settings that differ from their defaults though nothing reads them, and why nothing does."""
    usual = defaults(experiment)
    found = {name: why for names, why in _rules(experiment) for name in names}
    settings = experiment.settings()
    return {name: why for name, why in found.items() if settings[name] != usual[name]}


def defaults(experiment: Experiment) -> dict[str, object]:
    """Return the values that say nothing; of a section those of its class, whatever else stands in it."""
    cls = algorithm_class(str(experiment.algorithm))
    plain = Experiment(task=experiment.task, algorithm=experiment.algorithm, config=cls.config_type())
    return plain.settings()


def _rules(experiment: Experiment) -> Iterator[tuple[list[str], str]]:
    """Yield names of settings that nothing reads in this experiment, and why."""
    net, env, buffer = experiment.net, experiment.env, experiment.buffer
    if net.memory is None:
        yield ["net.memory_size", "net.sequence_length", "net.burn_in"], "net.memory is None"
    if net.encoder is not None:
        yield ["net.kind", "net.cnn_features"], f"net.encoder, {net.encoder!r}, reads the observations"
    cls = algorithm_class(str(experiment.algorithm))
    policy = typing.get_type_hints(cls).get("policy")
    if isinstance(policy, type) and issubclass(policy, NetPolicy) and not issubclass(policy, ActorCriticPolicy):
        yield ["net.shared_backbone"], f"the {policy.__name__} of {experiment.algorithm} has no critic"
    if policy is TabularPolicy:
        names = [f"net.{field.name}" for field in dataclasses.fields(net)]
        yield names, f"the {policy.__name__} of {experiment.algorithm} has no network"
    family = task_family(experiment.task)
    if family in ("classic", "mujoco") and net.encoder is None and not env.wrappers:
        names = [f"net.{name}" for name in ("kind", "cnn_features", "scale_uint8")]
        yield names, f"{experiment.task!r} shows no images"
    if family != "atari":
        names = [f"env.{name}" for name in (*_ATARI.split(), "full_action_space")]
        yield names, f"{experiment.task!r} is no Atari game"
    vector = vector_kind(experiment.task, env, env.num_envs)
    if vector in ("dummy", "envpool"):
        yield ["env.envs_per_worker", "env.hang_timeout_s"], f"the envs ({vector}) have no worker processes"
    if buffer.priority.alpha == 0.0:
        names = [f"buffer.priority.{field.name}" for field in dataclasses.fields(buffer.priority)]
        yield [name for name in names if not name.endswith(".alpha")], "buffer.priority.alpha is 0"
    if buffer.hindsight.future_k == 0.0:
        yield ["buffer.hindsight.horizon"], "buffer.hindsight.future_k is 0"
    if experiment.logger.wandb == "off":
        yield ["logger.wandb_project"], "logger.wandb is 'off'"
    for switch, off, idle in _SWITCHES:
        if not hasattr(experiment.config, switch) or getattr(experiment.config, switch) != off:
            continue
        found = [name for name in idle.split() if hasattr(experiment.config, name)]
        optims = [name for name in found if isinstance(getattr(experiment.config, name), OptimConfig)]
        parts = [f"{name}.{field.name}" for name in optims for field in dataclasses.fields(OptimConfig)]
        yield [name for name in found if name not in optims] + parts, f"{switch} is {off}"
    if getattr(experiment.config, "munchausen_alpha", 0.0) > 0.0:
        yield ["double"], "munchausen_alpha is above 0, and its target takes all actions in"
    if experiment.trainer.episode_per_test == 0:
        yield ["stop.test_return"], "trainer.episode_per_test is 0"
    for field in dataclasses.fields(experiment.config):
        part = getattr(experiment.config, field.name)
        # presets of off-policy algorithms say how to explore, whether there will be a data set or not
        if isinstance(part, EpsilonConfig | NoiseConfig) and cls.kind == "offline" and not experiment.collects:
            names = [f"{field.name}.{f.name}" for f in dataclasses.fields(part) if f.name != "eps_test"]
            yield names, "the run learns from a data set alone, and nobody explores"
        if isinstance(part, OptimConfig) and part.kind not in ("adam", "adamw"):
            taken = inspect.signature(KINDS.load(part.kind)).parameters
            names = [f"{field.name}.{name}" for name in ("eps", "betas", "weight_decay") if name not in taken]
            yield names, f"{field.name}.kind is {part.kind!r}, which takes no such argument"
        elif isinstance(part, NoiseConfig):
            if part.noise != "ou":
                yield [f"{field.name}.ou_theta"], f"{field.name}.noise is {part.noise!r}"
            if part.noise == "none":
                yield [f"{field.name}.{name}" for name in ("noise_std", "noise_std_end")], "there is no noise"
            if part.noise == "none" or part.noise_std_end is None:
                yield [f"{field.name}.noise_decay_steps"], "the noise stays as it is"
