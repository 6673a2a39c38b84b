"""Makes the documentation's pictures by the commands that its pages show: `python tools/pictures.py` (needs Chromium).

docs/images/cartpole-dqn.png: the command of the home page. docs/images/report.png: those of the tutorial, as Chromium
shows their report. The algorithms' curves are made by benchmarks/learning/run.py, as their pages say.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
_HEIGHT = 1000


def blocks(page: Path, language: str) -> list[str]:
    """Return what stands in a page's blocks of a language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def command_of_home() -> str:
    """Return the command of which the home page says that it draws its picture."""
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"This picture is what\s+`(argosy .*?)` draws", text)
    return str(command)


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands as a reader types them, in a folder, with the `argosy` of this checkout."""
    argosy = folder / "bin" / "argosy"
    argosy.parent.mkdir()
    code = "import sys; from argosy.cli import main; sys.exit(main())"
    argosy.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n')
    argosy.chmod(0o755)
    env = {**os.environ, "PATH": f"{argosy.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(["bash", "-ec", script], cwd=folder, env=env, capture_output=True, text=True, check=False)


def follow_tutorial(folder: Path) -> subprocess.CompletedProcess[str]:
    """Do what the tutorial says, in a folder."""
    page = ROOT / "docs/guide/tutorial.md"
    (folder / "cart.py").write_text(blocks(page, "python")[0])
    (folder / "cart.toml").write_text(blocks(page, "toml")[0])
    return run("".join(blocks(page, "bash")), folder)


def main() -> None:
    """Make both pictures."""
    sys.path.insert(0, str(ROOT / "tests/report"))
    from browser import Browser

    with tempfile.TemporaryDirectory() as folder:
        run(command_of_home(), Path(folder)).check_returncode()
        (curve,) = Path(folder).rglob("curve.png")
        shutil.copyfile(curve, IMAGES / "cartpole-dqn.png")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
        follow_tutorial(Path(folder)).check_returncode()
        browser = Browser(profile)
        browser.open((Path(folder) / "report.html").as_uri(), 1000)
        (IMAGES / "report.png").write_bytes(browser.picture(_HEIGHT))
        browser.close()


if __name__ == "__main__":
    main()
