"""Every Python block of the documentation runs as it stands, page by page, in the order of the page."""

import ast
import builtins
import multiprocessing
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if FENCE.search(page.read_text(encoding="utf-8"))
)


PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["argosy.run.train", "argosy.distributed"])  # seconds, once instead of for each page
START = """
import os, runpy, sys
os.chdir({folder!r})
log = os.open("said.log", os.O_WRONLY | os.O_CREAT)
os.dup2(log, 1), os.dup2(log, 2)
sys.argv, sys.path[0] = ["page.py"], {folder!r}
runpy.run_path("page.py", run_name="__main__")
"""


@pytest.mark.timeout(900)  # the README's example is a whole run: a minute on a quiet machine
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_of_a_page_run(page, tmp_path):
    # The blocks of one page share a namespace: a reader types them one after the other.
    (tmp_path / "page.py").write_text("\n\n".join(FENCE.findall(page.read_text(encoding="utf-8"))), encoding="utf-8")
    (tmp_path / "start.py").write_text(START.format(folder=str(tmp_path)), encoding="utf-8")
    process = PROCESSES.Process(target=runpy.run_path, args=(str(tmp_path / "start.py"),))
    process.start()
    process.join(800)
    process.kill()
    assert process.exitcode == 0, f"{page.relative_to(ROOT)}\n{(tmp_path / 'said.log').read_text()[-6000:]}"


def lacks(block):
    """Names that a block takes from those before it."""
    nodes = list(ast.walk(ast.parse(block)))
    loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    stored |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    stored |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    return loaded - stored - {node.arg for node in nodes if isinstance(node, ast.arg)} - set(dir(builtins))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_that_its_snippets_go_on_from_each_other(page):
    text = page.read_text(encoding="utf-8")
    goes_on = any(lacks(block) for block in FENCE.findall(text))
    assert goes_on == ("```\n\nWhat follows in Python goes on from this snippet.\n" in text)


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
