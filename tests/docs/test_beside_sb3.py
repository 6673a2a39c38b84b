"""The guide's first program on each of these pages is not longer than Stable Baselines 3's way to the same thing."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "benchmarks" / "peers"
PAGES = ("own-environment", "own-network", "own-algorithm", "trained-policy")


def lines(code):
    return sum(bool(line.strip()) for line in code.splitlines())


def theirs(page):
    return PEERS / "guide" / f"{page.replace('-', '_')}.py"


@pytest.mark.parametrize("page", PAGES)
def test_as_short_as_in_sb3(page):
    ours = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "guide" / f"{page}.md").read_text(), re.DOTALL)[1]
    assert lines(ours) <= lines(theirs(page).read_text())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_sb3s_way_works(page, tmp_path):
    python = PEERS / ".env-sb3" / "bin" / "python"
    if not python.exists():
        pytest.skip("benchmarks/peers/setup.sh makes the environment of Stable Baselines 3")
    ended = subprocess.run([python, "-W", "ignore", theirs(page)], cwd=tmp_path, timeout=110)
    assert ended.returncode == 0
