"""Every Python block of the documentation runs as it stands, page by page, in the order of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if FENCE.search(page.read_text(encoding="utf-8"))
)


@pytest.mark.timeout(900)  # the README's example is a whole run: a minute on a quiet machine
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_of_a_page_run(page, tmp_path):
    # The blocks of one page share a namespace: a reader types them one after the other.
    program = tmp_path / "page.py"
    program.write_text("\n\n".join(FENCE.findall(page.read_text(encoding="utf-8"))), encoding="utf-8")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=800, check=False
    )
    assert result.returncode == 0, f"{page.relative_to(ROOT)}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"


def test_the_documentation_has_snippets():
    assert len(PAGES) >= 5


EXAMPLES = {
    "classic/cartpole_by_hand.py": "training",
    "imitation/three_ways.py": "imitation",
    "memory/replay_by_hand.py": "memory",
    "offline/pendulum.py": "data",
    "own/algorithm.py": "own-algorithm",
    "own/environment.py": "own-environment",
    "own/network.py": "own-network",
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_guide_shows_the_example_as_it_is(example):
    """And so it is run, with the page, but for the whole run by hand."""
    program = (ROOT / "examples" / example).read_text(encoding="utf-8")
    page = (ROOT / f"docs/guide/{EXAMPLES[example]}.md").read_text(encoding="utf-8")
    assert program in (page if example.startswith("classic/") else FENCE.findall(page))
    assert f"examples/{example}" in page
    assert len(program.splitlines()) < 50


def test_every_example_is_in_the_guide_or_a_fleet_s():
    found = {str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*.py")}
    assert {path for path in found if not path.startswith("fleet/")} == set(EXAMPLES)


@pytest.mark.parametrize("page", ["own-environment", "own-network", "own-algorithm"])
def test_what_is_ones_own_has_a_page_that_starts_with_a_whole_program(page):
    text = (ROOT / f"docs/guide/{page}.md").read_text(encoding="utf-8")
    assert f"guide/{page}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    program = FENCE.findall(text)[0]
    assert "argosy.train(" in program
    assert len(program.splitlines()) <= 40
