"""Films of a policy: GIF (Pillow) or MP4 (ffmpeg)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from argosy.errors import ConfigError, require

SUFFIXES = (".gif", ".mp4")


def check_video_path(path: str | Path) -> None:
    """Check that a film can be written there, before anything is played.

    Raises:
        ConfigError: the file's ending is neither .gif nor .mp4.
        MissingExtraError: the writer for it is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"the film {str(path)!r} ends in {suffix!r}; it must be one of {', '.join(SUFFIXES)}")
    require("PIL.Image" if suffix == ".gif" else "imageio_ffmpeg", "video")


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
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".gif":
        _write_gif(path, frames, fps)
    else:
        _write_mp4(path, frames, fps)
    return path


def _write_gif(path: Path, frames: Sequence[np.ndarray], fps: float) -> None:
    from PIL import Image

    # GIF counts in hundredths of a second, and players slow down films of less than two: drop frames instead.
    keep = max(1, round(fps / 50))
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
