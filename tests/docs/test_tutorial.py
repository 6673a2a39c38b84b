"""The tutorial's commands do what the page says, one after the other, as a reader types them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guide/tutorial.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_it_goes_from_an_environment_to_a_report_and_a_file():
    verbs = re.findall(r"^argosy ([\w-]+)", "".join(blocks("bash")), re.MULTILINE)
    assert verbs == ["check-env", "train", "train", "tune", "train", "compare", "report", "pack", "eval"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_commands_run_as_they_stand(tmp_path):
    (tmp_path / "cart.py").write_text(blocks("python")[0])
    (tmp_path / "cart.toml").write_text(blocks("toml")[0])
    argosy = tmp_path / "bin" / "argosy"
    argosy.parent.mkdir()
    code = "import sys; from argosy.cli import main; sys.exit(main())"
    argosy.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    argosy.chmod(0o755)
    env = {**os.environ, "PATH": f"{argosy.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    script = "set -e\n" + "".join(blocks("bash"))
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert "cart:Cart: sound" in done.stdout
    assert done.stdout.count("(5 of 5 seeds)") == 2
    assert "Probability that a run of A beats one of B" in done.stdout
    assert (tmp_path / "runs/tune/cart-Cart/dqn/study/best.json").is_file()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<polyline") >= 8
    assert "Search: dqn on cart:Cart" in page
    assert done.stdout.splitlines()[-3].startswith("return")
    assert "over 20 episodes" in done.stdout
