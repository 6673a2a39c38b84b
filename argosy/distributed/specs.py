"""What a fleet is made of: policies and how they learn, agents, groups of workers, and when it has done its work.

Plain frozen dataclasses that check themselves: a value that is out of range, or contradicts another one, is a
ConfigError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from argosy.algorithm import algorithm_class
from argosy.algorithm.base import Algorithm
from argosy.collect.postprocess import GAE, Postprocess
from argosy.collect.recorder import SegmentSpec
from argosy.config import Checked, check_limits, limited
from argosy.distributed.host.base import Resources
from argosy.env.spaces import Space
from argosy.errors import ConfigError
from argosy.policy import Policy
from argosy.run.saved import find_policy, read_checkpoint
from argosy.trainer.players import PlayerSpec


@dataclass(frozen=True, kw_only=True)
class StalenessConfig(Checked):
    """What happens to experience that an older version of the policy made."""

    rule: Literal["auto", "accept", "drop", "throttle", "correct"] = limited(
        "auto", among=("auto", "accept", "drop", "throttle", "correct")
    )
    """accept: learn from all; drop: throw segments away that lag too much; throttle: let actors wait instead; correct:
    learn from all without letting actors wait, for algorithms that make up for the lag themselves; auto: correct where
    the algorithm does, else accept."""
    max_lag: int = limited(2, ge=0)
    """Updates that the learner may be ahead of a segment ("drop": exact), or batches that may wait while actors pause
    ("throttle": the lag of actors of one speed is about one more, and the time that parameters take to arrive; one that
    is slower than the rest lags by as many updates as they earn meanwhile)."""


@dataclass(frozen=True, kw_only=True)
class PolicySpec(PlayerSpec):
    """One policy, and how a fleet lets it learn."""

    trainers: int = limited(1, ge=1)
    """Trainer workers; several average their gradients (NCCL or gloo), each with a batch of its own, of equal size."""
    workers: int = limited(0, ge=0)
    """Policy workers; 0: actor workers run the policy themselves."""
    buffers: int = limited(0, ge=0)
    """Buffer workers, which `process` segments on their way to the trainers; 0: segments go there at once."""
    process: Postprocess | None = None
    """What buffer workers apply to the fields [T, B, ...] of segments, with the newest parameters of the policy."""
    publish_updates: int = limited(1, ge=1)
    """Updates between two published versions (on-policy: 1 is right)."""
    save_updates: int = limited(20, ge=1)
    """Updates between two saved states, from which a restarted trainer goes on; more where it takes so long to save a
    replay buffer that it would be over a tenth of the time."""
    save_buffer: bool = True
    """Save the replay buffer, too; without it a restarted trainer collects anew before it learns."""
    prefetch: bool | None = None
    """Draw the next batch from the replay buffer while the present one is learned from; None: where learning is on a
    GPU (on CPUs both want the same cores)."""
    staleness: StalenessConfig = field(default_factory=StalenessConfig)
    """Rule for old experience."""
    load: str | Path | None = None
    """What a policy that does not learn plays with: the folder of a run or the file of a policy, as `argosy.load` takes
    them; None: what it is made with."""
    trainer_resources: Resources = field(default_factory=Resources)
    worker_resources: Resources = field(default_factory=Resources)
    buffer_resources: Resources = field(default_factory=Resources)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self)
        beside = "a data set" if self.kind == "offline" else self.experiment.beside
        if self.learns and beside is not None:
            raise ConfigError(
                f"{self.experiment.algorithm} learns from {beside} here, a fleet from what its actors play; train it "
                "with argosy.train, or set learns=False"
            )
        if self.staleness.rule == "drop" and self.staleness.max_lag < self.publish_updates - 1:
            raise ConfigError(
                f"PolicySpec.staleness drops what lags by more than {self.staleness.max_lag} updates, but parameters "
                f"are published every publish_updates={self.publish_updates}, so that all would soon be dropped and "
                f"nothing learned; allow max_lag={self.publish_updates - 1} or more"
            )
        if self.staleness.rule == "correct" and not self.learner.corrects_staleness:
            raise ConfigError(
                f"PolicySpec.staleness is 'correct', but {self.learner.__name__} takes all experience for its "
                "present policy's; use 'accept', 'drop' or 'throttle', or an algorithm that corrects"
            )
        if self.learns and self.load is not None:
            raise ConfigError(f"PolicySpec.load is {str(self.load)!r}, for policies that only play; set learns=False")
        if not self.learns and self.experiment.init is not None:
            raise ConfigError(
                f"init is {self.experiment.init!r}, where learning begins, but this policy does not learn; use load"
            )
        self._check_obeyed()
        if (self.buffers > 0) != (self.process is not None):
            raise ConfigError(
                f"PolicySpec.buffers is {self.buffers} and process is {self.process}; buffer workers need something to "
                "do, and only they do it: set both or none"
            )
        if 0 < self.buffers < self.trainers:
            raise ConfigError(
                f"PolicySpec.buffers is {self.buffers}, fewer than trainers={self.trainers}; each feeds one trainer"
            )
        if self.trainers > 1 and getattr(self.experiment.config, "target_kl", None) is not None:
            raise ConfigError("trainers > 1 needs target_kl=None: every trainer would stop its passes at another point")
        if self.trainers > 1 and not getattr(self.learner, "averages_gradients", True):
            raise ConfigError(f"trainers is {self.trainers}, but {self.learner.__name__} learns in one trainer only")

    def _check_obeyed(self) -> None:
        """Refuse what only a local run can do, by the setting's name, and say what a fleet has instead."""
        experiment = self.experiment
        for name, value, unset, instead in (
            ("callbacks", experiment.callbacks, (), "iterate over the FleetRun, which yields a Snapshot each second"),
            ("env.wait_num", experiment.env.wait_num, None, "use ActorGroup(ring=...), whose groups wait for no other"),
            ("env.norm_rew", experiment.env.norm_rew, False, "let critics scale returns (return_scaling)"),
            ("trainer.checkpoint_epochs", experiment.trainer.checkpoint_epochs, None, "set PolicySpec.save_updates"),
            ("trainer.keep_checkpoints", experiment.trainer.keep_checkpoints, 3, "a fleet keeps its newest state"),
        ):
            if value != unset:
                raise ConfigError(f"{name} is {value}, which a fleet does not know; leave it out, and {instead}")

    @property
    def waits(self) -> bool:
        """Whether who acts goes on only when the last segment has been taken.

        That keeps on-policy experience as fresh as can be without a pause of the learner: a rollout is made while the
        one before is learned from, no earlier. Not with several trainers: one that has its share waits for the others,
        and must not hold up whom they wait for. Not where experience is corrected, either.
        """
        rollouts = self.kind == "onpolicy" and not self.corrects
        return self.trainers == 1 and (self.staleness.rule == "throttle" or rollouts)

    @property
    def corrects(self) -> bool:
        """Whether the algorithm makes up for old experience, and nobody waits."""
        return self.staleness.rule in ("auto", "correct") and self.learner.corrects_staleness

    @property
    def kind(self) -> str:
        """Of the algorithm: onpolicy or offpolicy."""
        return str(self.learner.kind)

    @property
    def learner(self) -> type[Algorithm]:
        """The algorithm's class, one of one's own before the experiment's."""
        own = self.algorithm
        return own if isinstance(own, type) else algorithm_class(self.experiment.algorithm)

    def make_policy(
        self, observation_space: Space, action_space: Space, seed: int | None, device: str = "cpu"
    ) -> Policy:
        """Make the policy to act with; see `PlayerSpec`.

        Raises:
            CheckpointError: what it is to load is not there, damaged, or of another network.
        """
        policy = super().make_policy(observation_space, action_space, seed, device)
        if self.load is not None:
            policy.load_checkpoint(read_checkpoint(find_policy(self.load)))
        return policy


@dataclass(frozen=True, kw_only=True)
class AgentSpec(SegmentSpec):
    """Which agents act with which policy, and how their experience is sent."""

    agents: str = ".*"
    """Regular expression that matches the whole of an agent's number ("0", "1", ...); the first spec that fits wins."""
    policy: str
    """Name of the policy."""
    samples: tuple[str, ...] | None = None
    """Policies whose trainers get the experience (a copy each); None: the own policy's; (): nobody."""
    inference: Literal["inline", "shared", "ray"] = limited("inline", among=("inline", "shared", "ray"))
    """Where the policy runs: in the actor worker, or in a policy worker on the same machine (shared) or anywhere."""
    frame_stack: int = limited(1, ge=1)
    """Observations that are stacked along a new first axis before the policy sees them."""
    deterministic: bool = False
    """Act without exploration."""
    postprocess: Postprocess | None = None
    """Applied in the actor worker to the fields [T, B, ...] of a segment: `GAE`, `NStep` or a function of one's own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.postprocess, GAE) and self.inference != "inline":
            raise ConfigError(
                "AgentSpec.postprocess=GAE(...) asks the policy for values, so it needs inference='inline'"
            )
        try:
            re.compile(self.agents)
        except re.error as error:
            raise ConfigError(f"AgentSpec.agents is {self.agents!r}, no regular expression: {error}") from error


@dataclass(frozen=True, kw_only=True)
class ActorGroup(Checked):
    """Workers that step environments."""

    count: int = limited(1, ge=1)
    """Actor workers."""
    ring: int = limited(1, ge=1)
    """Groups of environments per worker: while one steps, the others wait for their actions."""
    num_envs: int | None = limited(None, ge=1)
    """Environments per group; None: `env.num_envs` of the experiment."""
    env_failures: int = limited(100, ge=0)
    """Failures of environments that one worker survives by making the group anew."""
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True, kw_only=True)
class EvalGroup(Checked):
    """Workers that evaluate versions, each in environments of its own, without exploration."""

    count: int = limited(1, ge=0)
    """Evaluation workers; 0: nothing is evaluated."""
    num_envs: int | None = limited(None, ge=1)
    """Environments per worker; None: `env.test_num_envs` of the experiment."""
    episodes: int | None = limited(None, ge=1)
    """Episodes per version; None: `trainer.episode_per_test` of the experiment."""
    share: float = limited(0.1, gt=0.0, le=1.0)
    """Part of the machine's cores that all evaluation workers together may keep busy: after an evaluation they rest
    until it was no more, and versions in between are passed over. 1: they never rest."""
    env_failures: int = limited(100, ge=0)
    """Failures of environments that one worker survives by making them anew and beginning the evaluation again."""
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True, kw_only=True)
class FleetStop:
    """When a fleet has done its work: whatever comes first."""

    env_steps: int | None = limited(None, gt=0)
    """Environment steps that every learning policy has been trained with."""
    updates: int | None = limited(None, gt=0)
    """Updates of every learning policy."""
    return_mean: Mapping[str, float] = field(default_factory=dict)
    """Per policy, the mean return of an evaluation; all must be reached (not necessarily at the same time)."""
    wall_s: float | None = limited(None, gt=0)
    """Seconds of one launch; a resumed fleet begins to count anew."""

    def __post_init__(self) -> None:
        check_limits(self)
        if not self.return_mean and self.env_steps is None and self.updates is None and self.wall_s is None:
            raise ConfigError("FleetStop says nothing, so the fleet would never end; give env_steps, return_mean, ...")
