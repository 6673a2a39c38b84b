"""What algorithms with a stochastic actor, and those with a critic beside it, say of their policy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, TypeVar

from argosy.algorithm.base import Algorithm, AlgorithmConfig, StatsT, Task
from argosy.algorithm.critics import ScalingConfig
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.task import Kind
from argosy.config import limited
from argosy.data import TrainingStats
from argosy.env.spaces import ARRAYS
from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.policy import ActorCriticPolicy
from argosy.policy.rollouts import scaled_head


@dataclass(frozen=True, kw_only=True)
class ActorConfig(AlgorithmConfig):
    """Settings of the actor, the same for every algorithm that has such a one."""

    bounded_mean: ClassVar[bool] = False
    """Whether tanh keeps a Gaussian's mean within the bounds of actions."""
    log_std_init: float = limited(0.0, ge=-10.0, le=2.0)
    """Continuous actions: initial logarithm of the deviation, which does not depend on the observation."""
    gsde_steps: int | None = limited(None, ge=1)
    """Steps for which noise stays the same function of the features (gSDE); None: independent noise."""
    action_scaling: bool | None = None
    """Stretch actions in [-1, 1] to a Box's bounds; None: where it has finite ones."""
    action_bound_method: Literal["auto", "clip", "tanh"] | None = limited("auto", among=("auto", "clip", "tanh", None))
    """Keep Box actions in bounds before the env sees them; "auto" clips, None does nothing."""

    def policy_class(self) -> Callable[..., ActorCriticPolicy]:
        """Return what makes the policy that the settings ask for."""
        if self.gsde_steps is None:
            return ActorCriticPolicy
        from argosy.policy.state_dependent import StateDependentActorCriticPolicy  # here, as few ask for it

        return functools.partial(StateDependentActorCriticPolicy, noise_steps=self.gsde_steps)

    def actor_arguments(self) -> dict[str, Any]:
        """Return what the settings of the actor are for the policy's constructor."""
        return {
            "log_std_init": self.log_std_init,
            "action_scaling": self.action_scaling,
            "action_bound_method": self.action_bound_method,
            "bounded_mean": self.bounded_mean,
        }

    def build_policy(self, task: Task, default_net: NetConfig) -> ActorCriticPolicy:
        """Make the policy of a task, an actor alone, or take the task's own."""
        return task.policy_or(self.policy_class(), task.net or default_net, critic=False, **self.actor_arguments())


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(ScalingConfig, ActorConfig):
    """Settings of an actor and a critic."""

    def build_policy(self, task: Task, default_net: NetConfig) -> ActorCriticPolicy:
        """Make the policy of a task, or take the task's own.

        Raises:
            ConfigError: returns are to be scaled, and the task's own policy does not.
        """
        arguments = {"value_scaling": self.value_scaling, **self.actor_arguments()}
        policy = task.policy_or(self.policy_class(), task.net or default_net, **arguments)
        if self.value_scaling is not None and scaled_head(policy) is None:
            raise ConfigError(
                f"{type(self).__name__}.return_scaling or popart is True, but {type(policy).__name__} has no"
                " `value_head` of the class argosy.net.ScaledLinear; leave them out, or give it one"
            )
        return policy


@dataclass(frozen=True, kw_only=True)
class SummedLossConfig(ActorConfig):
    """Weights of what one optimiser of actor and critic sums up beside the policy's loss."""

    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of actor and critic."""
    value_coef: float = limited(0.5, ge=0.0)
    """Weight of the value loss (a mean squared error)."""
    entropy_coef: float = limited(0.01, ge=0.0)
    """Weight of the entropy bonus."""
    entropy_coef_end: float | None = limited(None, ge=0.0)
    """What it is at the end of the run, reached on a line; None: the same."""

    def entropy_coef_at(self, env_step: int, max_env_step: int) -> float:
        """Return the weight of the entropy bonus at a step of the run."""
        start, end = self.entropy_coef, self.entropy_coef_end
        return start if end is None else start + min(env_step / max_env_step, 1.0) * (end - start)


ActorConfigT = TypeVar("ActorConfigT", bound=ActorConfig)
SummedLossConfigT = TypeVar("SummedLossConfigT", bound=SummedLossConfig)


@dataclass(frozen=True, kw_only=True, eq=False)
class ActorCriticStats(TrainingStats):
    """What one update of actor and critic reports."""

    loss_policy: float
    loss_value: float
    entropy: float
    explained_variance: float
    """1 - Var(returns - value) / Var(returns) of the values at acting time; 1 is a perfect critic. With return scaling
    both are what the critic's last layer gives and learns: while its scale changes much they differ by that, too."""
    grad_norm: float | None = None
    """Norm before clipping, of the optimiser that learns the critic; None without clipping."""


class PolicyGradient(Algorithm[ActorConfigT, StatsT]):
    """A stochastic actor, with a critic or without, that learns from rollouts of its own."""

    kind: Kind = "onpolicy"
    action_spaces = ARRAYS
    default_net = NetConfig(hidden_sizes=(64, 64), activation="tanh")
    learn_apart: ClassVar[bool] = False
    """Whether actor and critic must have layers of their own."""
    policy: ActorCriticPolicy

    @classmethod
    def build(cls, config: ActorConfigT, task: Task) -> Self:
        """Make the policy and the algorithm.

        Raises:
            ConfigError: actor and critic would share layers, and must not.
        """
        if cls.learn_apart and task.net is not None and task.net.shared_backbone:
            raise ConfigError(
                f"net.shared_backbone is True, but {cls.__name__} lets actor and critic learn apart from each other; "
                "leave it out"
            )
        return cls(config, config.build_policy(task, cls.default_net))


class SummedLoss(PolicyGradient[SummedLossConfigT, StatsT]):
    """Actor and critic learn by one optimiser; learning rate and entropy bonus may fall linearly."""

    def __init__(self, config: SummedLossConfigT, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy)
        self.entropy_coef = config.entropy_coef

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Set learning rate and entropy bonus."""
        super().schedule(env_step, max_env_step)
        self.entropy_coef = self.config.entropy_coef_at(env_step, max_env_step)
