"""DeepMind's Atari preprocessing for the pure-Python path; frame by frame what EnvPool's Atari envs do.

Source: Mnih et al., "Human-level control through deep reinforcement learning", 2015; Machado et al., "Revisiting the
Arcade Learning Environment", 2018. Where implementations differ, this one follows EnvPool, so that both paths give
the same pixels, rewards and episode ends for the same actions (the random number of no-ops apart).
"""

from __future__ import annotations

from types import ModuleType

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from argosy.env.config import EnvConfig
from argosy.errors import SpaceError, require

MAX_EPISODE_STEPS = 27_000  # agent steps: 108,000 frames, half an hour of play
FRAME_SHAPE = (210, 160)

Frame = NDArray[np.uint8]


class AtariPreprocessing(gym.Wrapper[Frame, int, Frame, int]):
    """Turn a raw Atari env (grey frames, no frame skip) into DeepMind's: [frame_stack, size, size] uint8.

    1. A reset plays 1 to `noop_max` no-ops; in games that offer FIRE its last one is FIRE instead.
    2. A step repeats the action `frame_skip` times; the frame is the maximum of the last two, shrunk by area.
    3. With `episodic_life` the loss of a life terminates the episode. The reset after it goes on with the game
       (no-ops, FIRE; the stack keeps its frames). Any other reset starts a new game.
    4. With `reward_clip` the reward is its sign; `info["reward"]` has the true one, `info["lives"]` the lives,
       `info["terminated"]` whether the game is over.
    5. `max_episode_steps` agent steps of one game truncate it, counted over its lives.

    Args:
        env: an ale-py env with `obs_type="grayscale"`, `frameskip=1`.
        config: see EnvConfig.
        test: no episodic life, no reward clip.

    Raises:
        SpaceError: `env` does not give grey frames.
        MissingExtraError: OpenCV is not installed.
    """

    def __init__(self, env: gym.Env[Frame, int], config: EnvConfig, *, test: bool = False) -> None:
        super().__init__(env)
        if env.observation_space.shape != FRAME_SHAPE:
            raise SpaceError(
                f"AtariPreprocessing needs grey frames of shape {FRAME_SHAPE}, got {env.observation_space}; "
                'make the env with obs_type="grayscale", frameskip=1'
            )
        self._cv2: ModuleType = require("cv2", "atari")
        self._ale = env.get_wrapper_attr("ale")
        meanings: list[str] = env.get_wrapper_attr("get_action_meanings")()
        ale_actions = require("ale_py", "atari").Action
        self._actions: list[int] = [ale_actions[meaning] for meaning in meanings]
        self._fire = meanings.index("FIRE") if config.fire_reset and "FIRE" in meanings else None
        self._skip, self._size, self._noop_max = config.frame_skip, config.image_size, config.noop_max
        self._episodic_life = config.episodic_life and not test
        self._reward_clip = config.reward_clip and not test
        self._limit = config.max_episode_steps or MAX_EPISODE_STEPS
        self._stack = np.zeros((config.frame_stack, self._size, self._size), np.uint8)
        self._pool = np.zeros((2, *FRAME_SHAPE), np.uint8)
        self._elapsed = self._lives = 0
        self._life_lost = False  # the last step ended an episode but not the game
        self.observation_space = Box(0, 255, (config.frame_stack, self._size, self._size), np.uint8)
        self.action_space = env.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Frame, dict[str, object]]:
        """Start an episode: go on with the game after the loss of a life, else start a new one."""
        new_game = not self._life_lost or seed is not None
        if new_game:
            self.env.reset(seed=seed, options=options)
            self._elapsed = 0
        noops = int(self.np_random.integers(self._noop_max)) + 1 - (self._fire is not None)
        frame: Frame | None = None
        for action in [0] * noops + ([] if self._fire is None else [self._fire]):
            frame, _, over, _, _ = self.env.step(action)
            if over:
                frame, _ = self.env.reset()
                new_game, self._elapsed = True, 0
        assert frame is not None, "noop_max >= 1 makes at least one step"
        self._pool[0] = frame
        self._push(fill=new_game)
        self._life_lost = False
        self._lives = self._ale.lives()
        return self._stack.copy(), self._info(0.0, False)

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, object]]:
        """Repeat the action over `frame_skip` frames."""
        raw_rew, over, left = 0.0, False, self._skip
        while left and not over:  # by the emulator itself: the env would fetch every frame
            raw_rew += self._ale.act(self._actions[action])
            over = self._ale.game_over(with_truncation=False)
            if left <= 2:
                self._ale.getScreenGrayscale(self._pool[2 - left if self._skip > 1 else 0])
            left -= 1
        if left == 0 and self._skip > 1:  # a game that ends within the skip shows the frame before
            np.maximum(self._pool[0], self._pool[1], out=self._pool[0])
        self._push()
        self._elapsed += 1
        truncated = self._elapsed >= self._limit
        lives = self._ale.lives()
        life_lost = self._episodic_life and not over and 0 < lives < self._lives
        self._lives, self._life_lost = lives, life_lost and not truncated
        reward = float(np.sign(raw_rew)) if self._reward_clip else raw_rew
        terminated = (over or life_lost) and not truncated
        return self._stack.copy(), reward, terminated, truncated, self._info(raw_rew, over)

    def _push(self, *, fill: bool = False) -> None:
        """Put the newest frame onto the stack, or fill the stack with it."""
        self._stack[:-1] = self._stack[1:]
        size, newest = (self._size, self._size), self._stack[-1]
        self._cv2.resize(self._pool[0], size, newest, interpolation=self._cv2.INTER_AREA)
        if fill:
            self._stack[:] = newest

    def _info(self, raw_rew: float, over: bool) -> dict[str, object]:
        return {"lives": self._lives, "reward": raw_rew, "terminated": over, "elapsed_step": self._elapsed}


def make_atari_env(
    game: str, config: EnvConfig, *, test: bool = False, render_mode: str | None = None
) -> gym.Env[Frame, int]:
    """Make one preprocessed env of a game ("Pong") with ale-py.

    Raises:
        MissingExtraError: ale-py or OpenCV is not installed.
    """
    ale_py = require("ale_py", "atari")
    gym.register_envs(ale_py)
    raw = gym.make(
        f"ALE/{game}-v5",
        obs_type="grayscale",
        frameskip=1,
        repeat_action_probability=config.repeat_action_probability,
        full_action_space=config.full_action_space,
        max_num_frames_per_episode=0,  # the limit is counted in agent steps, above
        disable_env_checker=True,
        render_mode=render_mode,
    )
    return AtariPreprocessing(raw.unwrapped, config, test=test)
