"""In a notebook: a run shows its progress below the cell, and a result its curve."""

import base64
import re
from pathlib import Path

import pytest


def test_a_result_shows_numbers_and_curve(result):
    html = result._repr_html_()
    assert f"{result.test_return_mean:.1f}" in html
    assert "dqn on CartPole-v1, seed 5" in html
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", html).group(1))
    assert picture == result._repr_png_() == Path(result.curve).read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_without_a_curve_and_with_hostile_names_it_shows_the_rest(result):
    import dataclasses

    bare = dataclasses.replace(result, curve=None, task="<script>", interrupted=True)
    assert bare._repr_png_() is None
    assert "<script>" not in bare._repr_html_()
    assert "&lt;script&gt;, seed 5, interrupted" in bare._repr_html_()
    assert dataclasses.replace(result, curve="/nowhere/curve.png")._repr_png_() is None


@pytest.mark.slow
def test_a_run_in_a_notebook_shows_its_progress_and_its_curve(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cell = """
import argosy
trainer = {"max_epoch": 2, "step_per_epoch": 300, "start_steps": 100, "episode_per_test": 2}
argosy.train("dqn", "CartPole-v1", seed=1, trainer=trainer, stop={"episodes": 2})
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = notebook.cells[0].outputs
    written = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stderr")
    assert "600/600" in written
    assert "epoch 2, 600 steps" in written
    shown = next(output.data for output in outputs if output.output_type == "execute_result")
    assert "<table>" in shown["text/html"]
    assert base64.b64decode(shown["image/png"]).startswith(b"\x89PNG")
