"""What must stand at one place does: torch's private functions, and what changes the process that argosy runs in."""

import ast
from pathlib import Path

import pytest

import argosy

PACKAGE = Path(argosy.__file__).parent
TORCH = {"torch", "nn", "F"}


def private_names_of_torch(tree):
    """Yield `torch._name`, `torch.nn._name`, and what is imported from such modules or is such a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            full = ast.unparse(node)
            if full.partition(".")[0] in TORCH and node.attr.startswith("_") and not node.attr.startswith("__"):
                yield full
        elif isinstance(node, ast.ImportFrom | ast.Import):
            module = getattr(node, "module", None)
            for alias in node.names:
                full = f"{module}.{alias.name}" if module else alias.name
                if full.startswith("torch.") and "._" in full:
                    yield full


def files_with(find):
    return {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if find(p.read_text(encoding="utf-8"))}


def test_private_functions_of_torch_are_named_in_one_file():
    assert files_with(lambda text: list(private_names_of_torch(ast.parse(text)))) == {"ops/kernels.py"}


@pytest.mark.parametrize("name", ["mallopt", "set_flush_denormal"])
def test_what_changes_the_process_is_called_in_one_file(name):
    assert files_with(lambda text: name in text) == {"process.py"}


def test_the_search_finds_what_it_looks_for():
    imports = "import torch._C\nfrom torch._dynamo import x\nfrom torch.nn import _y\n"
    text = imports + "torch._foreach_add(a)\nnn.a._b.c\nself._d"
    assert set(private_names_of_torch(ast.parse(text))) == {
        *("torch._C", "torch._dynamo.x", "torch.nn._y", "torch._foreach_add", "nn.a._b"),
    }
