"""An algorithm is known to its own files and to the table: no other file of the package names one."""

import ast
import tomllib
from pathlib import Path

import pytest

import argosy
from argosy.algorithm import ALGORITHMS, EXPORTS

PACKAGE = Path(argosy.__file__).parent
OWN = {PACKAGE / f"algorithm/{name}.py" for name in ALGORITHMS}
SHARED = sorted(set(PACKAGE.rglob("*.py")) - OWN)


def names(tree):
    """Yield every identifier, imported module and text of a file, with its line; prose is not taken apart."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, line
        elif isinstance(node, ast.Name):
            yield node.id, line
        elif isinstance(node, ast.Attribute):
            yield node.attr, line
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ((alias.name, line) for alias in node.names)
            yield getattr(node, "module", None) or "", line


@pytest.mark.parametrize("path", SHARED, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_shared_file_names_an_algorithm(path):
    forbidden = {*ALGORITHMS, *EXPORTS, *EXPORTS.values()}
    found = [f"line {line}: {name}" for name, line in names(ast.parse(path.read_text("utf-8"))) if name in forbidden]
    assert not found, f"{path} knows an algorithm; let it follow from the table or from the class ({', '.join(found)})"


@pytest.mark.parametrize("path", sorted((PACKAGE / "presets").glob("*.toml")), ids=lambda path: path.stem)
def test_presets_of_an_algorithm_stand_in_its_own_file(path):
    if path.stem not in ALGORITHMS:
        assert not set(tomllib.loads(path.read_text("utf-8"))) & set(ALGORITHMS)


def test_the_search_finds_what_it_looks_for():
    text = 'from argosy.algorithm.dqn import DQN\nif name == "ppo": SAC()\nargosy.PPOConfig\n"""As dqn does."""'
    found = {name for name, _ in names(ast.parse(text))}
    assert {"argosy.algorithm.dqn", "DQN", "ppo", "SAC", "PPOConfig"} <= found
    assert "dqn" not in found
