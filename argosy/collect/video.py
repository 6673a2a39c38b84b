"""Films of episodes, taken while collecting: GIF (Pillow) or MP4 (ffmpeg)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from argosy.collect.hooks import CollectHook, EpisodeEvent, StepEvent
from argosy.env import VectorEnv
from argosy.errors import ConfigError, EnvError, require

DEFAULT_FPS = 30.0
SUFFIXES = (".gif", ".mp4")


class VideoRecorder(CollectHook):
    """Films episodes of one env into files `folder`/episode-000000.gif, ...

    The envs have to be made with `render_mode="rgb_array"`, and to be synchronous.

    Args:
        folder: where the films go.
        every: film each so many-th episode of the env, from the first one on.
        env_id: which env.
        suffix: ".gif" (needs Pillow) or ".mp4" (needs ffmpeg).
        max_steps: steps of an episode to film at most.

    Raises:
        ConfigError: a number is out of range, or `suffix` is neither.
        MissingExtraError: the writer is not installed.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        every: int = 1,
        env_id: int = 0,
        suffix: str = ".gif",
        max_steps: int = 2000,
    ) -> None:
        if every < 1 or max_steps < 1 or env_id < 0:
            raise ConfigError(f"every is {every}, max_steps {max_steps}, env_id {env_id}; they must be >= 1, 1 and 0")
        self.folder, self.suffix = Path(folder), suffix
        self.every, self.env_id, self.max_steps = every, env_id, max_steps
        check_video_path(self._path(0))
        self.episodes = 0
        """Episodes of the env that have ended."""
        self._frames: list[np.ndarray] = []

    def on_step(self, event: StepEvent) -> None:
        """Take a picture."""
        if self.env_id >= event.env.num_envs:
            raise ConfigError(f"env_id is {self.env_id}; the envs are 0 to {event.env.num_envs - 1}")
        if self.env_id not in event.env_ids:
            return
        if event.lens[event.env_ids == self.env_id] == 1:
            self._frames = []  # those of an episode that a reset has cut
        if self.episodes % self.every == 0 and len(self._frames) < self.max_steps:
            self._frames.append(picture(event.env, self.env_id))
            self._fps = fps_of(event.env)

    def on_episode(self, event: EpisodeEvent) -> None:
        """Write the film of the episode."""
        if event.env_id != self.env_id:
            return
        if self._frames:
            write_video(self._path(self.episodes), self._frames, self._fps)
        self._frames = []
        self.episodes += 1

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the number of episodes."""
        return {"episodes": np.array(self.episodes)}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Go on counting; episodes begin anew."""
        self.episodes = int(state["episodes"])
        self._frames = []

    def _path(self, episode: int) -> Path:
        return self.folder / f"episode-{episode:06d}{self.suffix}"


def picture(env: VectorEnv, env_id: int = 0) -> np.ndarray:
    """Return what one env looks like; see `checked_picture`."""
    return checked_picture(lambda: env.render()[env_id])


def checked_picture(render: Callable[[], object]) -> np.ndarray:
    """Return what an env draws, as an array [H, W, 3] of its own.

    Raises:
        EnvError: it is no picture.
    """
    try:
        frame = render()
        drawn = f"returned {type(frame).__name__}"
    except NotImplementedError:
        frame, drawn = None, "is not written"
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise EnvError(
            f"the environment gives no RGB pictures: its render() {drawn}; made with "
            'render_mode="rgb_array", it is to return an array [height, width, 3] of uint8'
        )
    return frame.copy()


def fps_of(env: VectorEnv) -> float:
    """Return how many steps of the env make a second."""
    get_env_attr = getattr(env, "get_env_attr", None)
    metadata = {} if get_env_attr is None else get_env_attr("metadata", 0)[0]
    return float(metadata.get("render_fps", DEFAULT_FPS))


def check_video_path(path: str | Path) -> None:
    """Check that a film can be written there, before anything is played, and make its folder.

    Raises:
        ConfigError: the file's ending is neither .gif nor .mp4, or nothing can be written to its folder.
        MissingExtraError: the writer for it is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"the film {str(path)!r} ends in {suffix!r}; it must be one of {', '.join(SUFFIXES)}")
    require("PIL.Image" if suffix == ".gif" else "imageio_ffmpeg", "video")
    folder = Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"no film can be written to {str(folder)!r}: {error.strerror or error}") from error


def write_video(path: str | Path, frames: Sequence[np.ndarray], fps: float) -> Path:
    """Write RGB frames [H, W, 3] uint8 as a film.

    Raises:
        ConfigError: there are no frames, or the file's ending is neither .gif nor .mp4.
        MissingExtraError: the writer is not installed.
    """
    check_video_path(path)
    if not len(frames):
        raise ConfigError("a film needs at least one frame")
    path = Path(path)
    if path.suffix.lower() == ".gif":
        _write_gif(path, frames, fps)
    else:
        _write_mp4(path, frames, fps)
    return path


def _write_gif(path: Path, frames: Sequence[np.ndarray], fps: float) -> None:
    from PIL import Image

    # About 25 frames a second look smooth, and make a file of half the size of 50. GIF counts in hundredths of a
    # second, and players slow down frames of less than two.
    keep = max(1, round(fps / 25))
    duration = max(20, round(keep * 1000 / fps / 10) * 10)
    images = [Image.fromarray(frame).quantize(64) for frame in frames[::keep]]
    images[0].save(path, save_all=True, append_images=images[1:], duration=duration, loop=0, optimize=False)


def _write_mp4(path: Path, frames: Sequence[np.ndarray], fps: float) -> None:
    import imageio_ffmpeg

    height, width = (size // 2 * 2 for size in frames[0].shape[:2])  # H.264 takes even sizes only
    writer = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps, macro_block_size=2)
    writer.send(None)
    for frame in frames:
        writer.send(np.ascontiguousarray(frame[:height, :width]))
    writer.close()
