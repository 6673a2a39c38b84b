"""Acting with what a run has learned: evaluation and films."""

import numpy as np
import pytest

import argosy
from argosy.errors import ConfigError
from argosy.run.play import film


def test_evaluation_plays_the_best_policy_again(result):
    stats = argosy.evaluate(result.run_dir, episodes=5, seed=1)
    again = argosy.evaluate(result.run_dir, episodes=5, seed=1)
    assert stats.n_collected_episodes == 5
    np.testing.assert_array_equal(stats.returns, again.returns)
    with pytest.raises(ConfigError, match="episodes is 0"):
        argosy.evaluate(result.run_dir, episodes=0)


def test_a_film_has_a_frame_per_step(result, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("pygame")
    stats = film(result.run_dir, tmp_path / "new" / "film.gif", episodes=1, seed=3)
    with image.open(tmp_path / "new" / "film.gif") as gif:
        durations = []
        for frame in range(gif.n_frames):
            gif.seek(frame)
            durations.append(gif.info["duration"])
        assert gif.size == (600, 400)
    assert sum(durations) == 20 * stats.lens[0]  # 50 frames per second; equal frames are merged


def test_a_film_ends_with_its_steps(result, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    film(result.run_dir, tmp_path / "film.mp4", max_steps=6)
    reader = ffmpeg.read_frames(str(tmp_path / "film.mp4"))
    assert next(reader)["size"] == (600, 400)
    assert sum(1 for _ in reader) == 6


def test_a_film_of_an_unknown_kind_is_refused_before_anything_is_played(result, tmp_path):
    with pytest.raises(ConfigError, match=r"ends in '.avi'; it must be one of .gif, .mp4"):
        film(result.run_dir, tmp_path / "film.avi")
