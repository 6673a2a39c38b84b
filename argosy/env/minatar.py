"""MinAtar (Young and Tian, 2019, https://arxiv.org/abs/1903.03176): five games on grids of 10x10, sticky actions on."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from minatar.gym import BaseEnv

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
PIXELS = 16
"""Width of a square of the grid in a picture."""


class MinAtar(BaseEnv):  # type: ignore[misc]  # of a package without types
    """One game, as the package has it but for what it forgets to reset.

    Args:
        game: one of `GAMES`.
        render_mode: "rgb_array" or None.
        settings: of `minatar.gym.BaseEnv` (`use_minimal_action_set`) and `minatar.Environment` (`sticky_action_prob`,
            `difficulty_ramping`).
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.bool_], dict[str, Any]]:
        """Begin a game: bools [10, 10, channels]."""
        self.game.last_action = 0  # or the first sticky action would be the last one of the game before
        obs, info = super().reset(seed=seed)
        return obs, info

    def render(self) -> npt.NDArray[np.uint8]:
        """Picture [160, 160, 3] of the grid."""
        picture: npt.NDArray[np.uint8] = (255 * super().render()).astype(np.uint8)
        return picture.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)


def register_games() -> None:
    """Make gymnasium know "MinAtar/Breakout-v1" (with the actions that the game needs), -v0 (all six), and so on."""
    for game in GAMES:
        for version, minimal in ((0, False), (1, True)):
            name = game.title().replace("_", "")
            kwargs = {"game": game, "use_minimal_action_set": minimal}
            gym.register(f"MinAtar/{name}-v{version}", f"{__name__}:MinAtar", kwargs=kwargs)
