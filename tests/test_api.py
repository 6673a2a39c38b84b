"""The public surface: grows by decision, and costs nothing to import."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import argosy
from argosy.algorithm import EXPORTS
from argosy.cli import COMMANDS

ROOT = Path(__file__).parents[1]

PUBLIC = {
    "Algorithm", "AlgorithmWrapper", "ArgosyError", "Batch", "Collector", "EnvConfig", "Experiment", "NetConfig",
    "OfflineTrainer", "OffpolicyTrainer", "OnpolicyTrainer", "Policy", "ReplayBuffer", "Result", "VectorReplayBuffer",
    "__version__", "algorithm_class", "algorithm_names", "build", "collect_data", "evaluate", "export", "film", "load",
    "make_vector_env", "pack", "preset", "register_algorithm", "register_algorithm_wrapper", "resume", "train",
    "train_seeds",
}  # fmt: skip

HEAVY = ("ray", "tensorboard", "wandb", "envpool", "ale_py", "h5py", "matplotlib")


def modules_after(code):
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return set(result.stdout.split())


def test_public_names_are_frozen():
    assert set(argosy.__all__) == PUBLIC
    assert set(argosy._HOME) | {"__version__"} == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name):
    assert getattr(argosy, name) is not None
    assert name in dir(argosy)


@pytest.mark.parametrize("name", EXPORTS)
def test_algorithms_and_their_configs_are_there_beside_them(name):
    assert getattr(argosy, name) is getattr(importlib.import_module(EXPORTS[name]), name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        argosy.trian  # noqa: B018


def test_modules_are_there_without_an_import_of_their_own():
    code = "import sys, argosy; assert {'algorithm', 'env'} <= {*dir(argosy)}; assert 'argosy.env' not in sys.modules; "
    assert "argosy.algorithm.dqn" in modules_after(code + "argosy.algorithm.DQN; argosy.env.check.check_env")


def test_the_version_is_the_package_s():
    assert argosy.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_importing_argosy_loads_nothing():
    loaded = modules_after("import argosy")
    assert not {module for module in loaded if module.partition(".")[0] in (*HEAVY, "torch", "numpy", "gymnasium")}


def test_no_public_name_loads_an_optional_dependency():
    loaded = modules_after("import argosy\nfor name in argosy.__all__: getattr(argosy, name)")
    assert "torch" in loaded
    assert not {module for module in loaded if module.partition(".")[0] in HEAVY}


def test_help_loads_neither_torch_nor_tyro():
    loaded = modules_after("import argosy.cli\nargosy.cli.main(['--help'])\nargosy.cli.main(['--version'])")
    assert not {module for module in loaded if module.partition(".")[0] in (*HEAVY, "torch", "numpy", "tyro")}


def test_commands_are_frozen():
    runs = ["train", "resume", "eval", "watch", "export", "pack", "collect", "data", "bench", "tune", "report"]
    assert list(COMMANDS) == [*runs, "compare", "dash", "launch", "fleet", "algorithms", "doctor", "check-env"]
