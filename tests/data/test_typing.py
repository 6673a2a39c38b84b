"""A user's program with typed batches and configs passes `mypy --strict`; the same program with mistakes does not."""

import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = """
import numpy as np
import torch

import argosy
from argosy.algorithm import DQN, DQNConfig
from argosy.data import Batch, NamedArray, as_tensors, namedarray
from argosy.data.protocols import (
    ActionBatchProtocol,
    BatchWithAdvantagesProtocol,
    ModelOutputBatchProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
    RolloutBatchProtocol,
    TransitionBatch,
)


@namedarray
class Memory(NamedArray):
    hidden: np.ndarray
    cell: np.ndarray | None = None


def td_target(batch: TransitionBatch, value_next: torch.Tensor) -> torch.Tensor:
    return batch.rew + batch.discount * value_next


def update(batch: TransitionBatch) -> float:
    batch = as_tensors(batch, "cpu")
    target = td_target(batch, torch.zeros(len(batch)))
    return float((batch.weight * target).mean())


def minibatches(rollout: BatchWithAdvantagesProtocol) -> list[torch.Tensor]:
    return [mb.adv * mb.returns for mb in rollout.split(64, rng=np.random.default_rng(0))]


def act(batch: ObsBatchProtocol[np.ndarray]) -> ActionBatchProtocol[np.ndarray]:
    obs = batch.obs if isinstance(batch.obs, np.ndarray) else batch.obs["position"]
    assert isinstance(obs, np.ndarray)
    return Batch(act=obs.argmax(-1), state=Memory(np.zeros((len(batch), 8))))


def rewards(batch: RolloutBatchProtocol[np.ndarray]) -> np.ndarray:
    return batch[batch.terminated].rew


def widen(batch: ModelOutputBatchProtocol) -> ActionBatchProtocol:
    return batch


def weighted(batch: PrioBatchProtocol) -> torch.Tensor:
    return batch.weight * batch.rew


def settings(algorithm: DQN) -> DQNConfig:
    return argosy.DQNConfig(gamma=algorithm.config.gamma)


sample = Batch(obs=np.zeros((4, 2)), rew=np.zeros(4))
sample.act = np.zeros(4)
update(sample)
actions = act(Batch(obs=np.zeros((4, 2)))).act
memory = Memory(hidden=actions)[0:2]
hidden: np.ndarray = memory.hidden
"""

WRONG = [  # (line added to the program, part of mypy's message)
    ("def f(batch: TransitionBatch) -> torch.Tensor: return batch.reward", 'has no attribute "reward"'),
    ("def f(batch: TransitionBatch) -> torch.Tensor: return batch.adv", 'has no attribute "adv"'),
    ("def f(batch: TransitionBatch) -> None: batch.rew = 'text'", "Incompatible types in assignment"),
    ("def f(batch: RolloutBatchProtocol) -> float: return update(batch)", 'incompatible type "RolloutBatchProtocol'),
    ("def f(batch: RolloutBatchProtocol) -> None: rewards(batch)", "incompatible type"),
    ("def f(batch: ActionBatchProtocol) -> ModelOutputBatchProtocol: return batch", "Incompatible return value"),
    ("update(np.zeros(3))", "incompatible type"),
    ("Memory()", "Missing positional argument"),
    ("Memory(hidden=actions, hiden=actions)", 'Unexpected keyword argument "hiden"'),
    ("Memory(hidden='text')", "incompatible type"),
    ("memory.hiden", 'has no attribute "hiden"'),
    ("memory.cell.sum()", 'Item "None" of'),
    ("DQNConfig(gama=0.9)", 'Unexpected keyword argument "gama"'),
    ("argosy.DQM", 'has no attribute "DQM"'),
]


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """What mypy says about the right program, and about the wrong one, by line."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "right.py").write_text(RIGHT)
    wrong = RIGHT + "".join(line.replace("def f(", f"def f{i}(") + "\n" for i, (line, _) in enumerate(WRONG))
    (folder / "wrong.py").write_text(wrong)
    root = Path(__file__).parents[2]
    config, cache = root / "pyproject.toml", root / ".mypy_cache"
    if not cache.is_dir():  # that of `make type` makes seconds of a minute; without one argosy is read as installed
        config, cache = folder / "mypy.ini", folder / "cache"
        config.write_text("[mypy]\n[mypy-argosy.*]\nignore_errors = True\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", str(config)]
    done = subprocess.run(
        [*command, "--cache-dir", str(cache), str(folder / "right.py"), str(folder / "wrong.py")],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert not done.stderr
    found = {"right.py": {}, "wrong.py": {}}
    for line in done.stdout.splitlines():
        place, _, message = line.partition(": error: ")
        path, _, number = place.rpartition(":")
        if Path(path).name in found:
            found[Path(path).name].setdefault(int(number), []).append(message)
    return found


@pytest.mark.timeout(300)  # 20 s of work where mypy has no cache yet
def test_the_right_program_passes(messages):
    assert messages["right.py"] == {}


@pytest.mark.timeout(300)  # 20 s of work where mypy has no cache yet
def test_every_mistake_is_found_and_nothing_else(messages):
    first = len(RIGHT.splitlines()) + 1
    assert sorted(messages["wrong.py"]) == list(range(first, first + len(WRONG)))
    for number, (_, message) in enumerate(WRONG, start=first):
        assert any(message in said for said in messages["wrong.py"][number]), messages["wrong.py"][number]


def test_the_right_program_runs():
    exec(compile(RIGHT.replace("update(sample)", ""), "right.py", "exec"), {"__name__": "right"})
