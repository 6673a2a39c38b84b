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


def test_the_guide_shows_the_example_as_it_is():
    example = (ROOT / "examples/classic/cartpole_by_hand.py").read_text(encoding="utf-8")
    assert example in (ROOT / "docs/guide/training.md").read_text(encoding="utf-8")
    assert len(example.splitlines()) < 50


@pytest.mark.parametrize("page", ["own-environment", "own-network", "own-algorithm"])
def test_what_is_ones_own_has_a_page_that_starts_with_a_whole_program(page):
    text = (ROOT / f"docs/guide/{page}.md").read_text(encoding="utf-8")
    assert f"guide/{page}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    program = FENCE.findall(text)[0]
    assert "argosy.train(" in program
    assert len(program.splitlines()) <= 40
