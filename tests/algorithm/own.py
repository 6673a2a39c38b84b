"""An algorithm that somebody has outside of the package; named "own:Steady" where a file or a command names it."""

from dataclasses import dataclass

from argosy.algorithm import DQN, Algorithm, DQNConfig
from argosy.config import check_range


@dataclass(frozen=True, kw_only=True)
class SteadyConfig(DQNConfig):
    """DQN's settings, and one more."""

    pause_updates: int = 0
    """Updates that are left out at first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "pause_updates", ge=0)


class Steady(DQN):
    """DQN with a setting of its own."""

    config_type = SteadyConfig
    presets = {  # noqa: RUF012
        "classic": {
            "pause_updates": 3,
            "trainer": {"max_epoch": 1, "step_per_epoch": 120, "start_steps": 40, "batch_size": 32},
        }
    }


class Unfinished(Algorithm):
    """Says when it learns, and nothing else."""

    kind = "offpolicy"


NOTHING = "not an algorithm"
