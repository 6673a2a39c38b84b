"""Settings of the environments of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from argosy.config import check_choice, check_limits, check_range, limited, name_code
from argosy.errors import ConfigError

MOST_ENVS = 100_000
"""Envs of a run that can be meant; before memory for them is asked for."""
VectorKind: TypeAlias = Literal["auto", "dummy", "subproc", "shmem", "envpool", "ray"]


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """How environments are made and stepped. Settings from `frame_stack` on are read for Atari only.

    Raises:
        ConfigError: a value is out of range or contradicts another one.
    """

    vector: VectorKind = "auto"
    """What steps the envs; auto: EnvPool for Atari where it is installed, else dummy (this process); ray: actors of
    Ray, on all machines of its cluster."""
    num_envs: int = limited(8, ge=1)
    """Envs to train in."""
    test_num_envs: int = limited(10, ge=1)
    """Envs to test in."""
    envs_per_worker: int | None = limited(None, ge=1)
    """Envs per worker process (subproc, shmem, ray); None: as many processes as this machine has cores."""
    hang_timeout_s: float | None = limited(300.0, gt=0)
    """A worker process (subproc, shmem, ray) that needs longer for one command is killed and reported; None: never."""
    wait_num: int | None = limited(None, ge=1)
    """Training from a replay buffer only: step asynchronously, and act for this many envs as soon as they are ready;
    None: in step."""
    background: bool = False
    """EnvPool with `wait_num`, Linux: step on every core, but only while nothing else, such as the policy, runs there.
    Up to a tenth faster where the policy acts on the CPU; on a machine that others fill, the envs stand still."""
    max_episode_steps: int | None = limited(None, ge=1)
    """Steps after which an episode is truncated; None: the task's own limit. Atari counts agent steps."""
    norm_rew: bool = False
    """Training only: whether rewards are divided by the running deviation of the discounted return."""
    wrappers: tuple[str, ...] = ()
    """Wrappers around each env, the first one innermost: registered names or MODULE:CLASS, where needed with arguments,
    as in "MODULE:CLASS(size=4)"; in Python also classes and functions."""
    kwargs: Mapping[str, object] = field(default_factory=dict)
    """Arguments for what makes an env, each by its name: --env.kwargs.NAME VALUE."""
    frame_stack: int = limited(4, ge=1, le=1000)
    """Frames in one observation [frame_stack, image_size, image_size]."""
    frame_skip: int = limited(4, ge=1)
    """Emulator frames per step; the last two are merged by their maximum."""
    noop_max: int = limited(30, ge=1)
    """An episode starts with 1 to this many no-op frames."""
    image_size: int = limited(84, ge=8, le=4096)
    """Height and width of the grey frames."""
    episodic_life: bool = True
    """Training only: whether the loss of a life ends the episode."""
    reward_clip: bool = True
    """Training only: whether rewards become their sign."""
    fire_reset: bool = True
    """Whether FIRE is pressed after a reset in games that wait for it."""
    repeat_action_probability: float = limited(0.0, ge=0.0, le=1.0)
    """Probability that the emulator repeats the last action instead (sticky actions; 0.25 in ALE/...-v5)."""
    full_action_space: bool = False
    """Whether all 18 actions are offered instead of the game's own."""

    def __post_init__(self) -> None:
        check_limits(self)
        check_choice(self, "vector", get_args(VectorKind))
        check_range(self, "num_envs", "test_num_envs", le=MOST_ENVS)
        wrappers: object = self.wrappers  # what users write
        if isinstance(wrappers, str):
            raise ConfigError(f"EnvConfig.wrappers is {wrappers!r}; it must be a tuple: ({wrappers!r},)")
        name_code(self, "wrappers")
        if self.wrappers and self.vector == "envpool":
            raise ConfigError(
                f"EnvConfig.wrappers is {self.wrappers}, but EnvPool's envs are stepped in C++, where no wrapper gets; "
                "use vector='shmem', 'subproc' or 'dummy', or leave wrappers out"
            )
        if self.wait_num is not None and self.wait_num > self.num_envs:
            raise ConfigError(f"EnvConfig.wait_num is {self.wait_num}; it must be <= num_envs, {self.num_envs}")
        if self.background and self.wait_num is None:
            raise ConfigError("EnvConfig.background is True, but the envs are stepped in step; set wait_num, too")
        if self.envs_per_worker is not None and self.vector in ("dummy", "envpool"):
            raise ConfigError(
                f"EnvConfig.envs_per_worker is {self.envs_per_worker}, but vector={self.vector!r} has no workers; "
                "use vector='subproc', 'shmem' or 'ray', or leave envs_per_worker out"
            )
