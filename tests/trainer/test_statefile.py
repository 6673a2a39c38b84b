from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from argosy.data.lazy import LazyArray
from argosy.errors import CheckpointError
from argosy.trainer import statefile
from argosy.trainer.statefile import dump_state, load_state, read_state, write_state


def example() -> dict[str, Any]:
    weights = torch.arange(6.0).reshape(2, 3)
    return {
        "weights": weights,
        "transposed": weights.T,
        "half": torch.ones(3, dtype=torch.bfloat16),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "scalar": np.float32(2.5),
        "a": {"b": np.ones(1)},
        "a.b": np.zeros(1),
        "flags": np.array([True, False]),
        "big": 2**127 + 1,
        "infinite": float("inf"),
        "nested": {"list": [1, "two", None, {"t": torch.tensor(7)}], "tuple": (1, (2.5, "x"))},
        "by_int": {0: {"step": torch.tensor(3.0)}, 1: {"step": torch.tensor(4.0)}},
        "odd$": {"$torch": "a name"},
    }


def assert_same(a: Any, b: Any) -> None:
    assert type(a) is type(b) or {type(a), type(b)} <= {np.ndarray, np.float32}
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    elif isinstance(a, np.ndarray | np.generic):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    else:
        assert a == b


def test_any_state_goes_round(tmp_path: Path) -> None:
    write_state(tmp_path / "new" / "state", "test", example())
    assert_same(read_state(tmp_path / "new" / "state", "test"), example())
    assert os.listdir(tmp_path / "new") == ["state"]


def test_what_was_read_can_be_written_to_and_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(path, "test", {"a": np.zeros(4), "t": torch.zeros(4)})
    state = read_state(path, "test")
    state["a"][:] = 1
    state["t"] += 1
    assert_same(read_state(path, "test"), {"a": np.zeros(4), "t": torch.zeros(4)})


def test_a_tensor_that_occurs_twice_is_written_once(tmp_path: Path) -> None:
    shared = torch.randn(1000)
    write_state(tmp_path / "once", "test", {"a": shared})
    write_state(tmp_path / "twice", "test", {"a": shared, "b": shared})
    assert (tmp_path / "twice").stat().st_size - (tmp_path / "once").stat().st_size < 1000
    state = read_state(tmp_path / "twice", "test")
    assert torch.equal(state["b"], shared)


@pytest.mark.parametrize(
    "bad", [object(), {1, 2}, np.array(["text"]), np.array([object()]), {(1, 2): 3}, torch.zeros(1, dtype=torch.cfloat)]
)
def test_what_cannot_be_written_is_named_and_the_old_file_stays(tmp_path: Path, bad: object) -> None:
    path = tmp_path / "state"
    write_state(path, "test", {"a": 1})
    with pytest.raises(CheckpointError, match=r"state\.part\.0"):
        write_state(path, "test", {"part": [bad]})
    assert read_state(path, "test") == {"a": 1}


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    write_state(path, "test", {"a": 1})

    def full_disk(file: IO[bytes], tensors: object, metadata: object) -> None:
        file.write(b"half a fi")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(statefile, "_write_tensors", full_disk)
    with pytest.raises(CheckpointError, match="No space left"):
        write_state(path, "test", {"a": 2})
    assert read_state(path, "test") == {"a": 1}
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_torn_file_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "torn.state"
    write_state(path, "test", {"a": np.arange(100)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"torn\.state"):
        read_state(path, "test")


def test_every_changed_byte_of_the_tensors_is_found(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(path, "test", {"a": np.arange(4, dtype=np.int64)})
    whole = path.read_bytes()
    for at in range(len(whole) - 32, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointError, match="damaged"):
            read_state(path, "test")


def test_a_changed_number_in_the_skeleton_is_found(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(path, "test", {"count": 1234, "a": np.zeros(1)})
    path.write_bytes(path.read_bytes().replace(b"1234", b"1235"))
    with pytest.raises(CheckpointError, match="damaged"):
        read_state(path, "test")


def test_foreign_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello, this is a text file and no checkpoint")
    torch.save({"a": 1}, tmp_path / "pickle.pt")
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    for name in ("text", "pickle.pt", "other.safetensors"):
        with pytest.raises(CheckpointError, match=name):
            read_state(tmp_path / name, "test")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no file .*nowhere"):
        read_state(tmp_path / "nowhere", "test")


def test_another_kind_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path / "state", "policy", {})
    with pytest.raises(CheckpointError, match="'policy', not a 'checkpoint'"):
        read_state(tmp_path / "state", "checkpoint")


def test_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statefile, "VERSION", 7)
    write_state(tmp_path / "state", "test", {})
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"version '7'.*update argosy"):
        read_state(tmp_path / "state", "test")


def test_the_file_is_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(path, "test", example())
    tensors = load_file(path)
    assert torch.equal(tensors["weights"], example()["weights"])
    assert torch.equal(tensors["half"], example()["half"])
    assert tensors["empty"].shape == (0, 4)
    raw = path.read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:start])
    assert start % 8 == 0
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["data_offsets"][0] % tensors[name].element_size() == 0


def test_lazy_arrays_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statefile, "_CHUNK", 64)
    rows = np.arange(70, dtype=np.float32).reshape(35, 2)
    parts: list[tuple[int, int]] = []

    def read(start: int, stop: int) -> np.ndarray:
        parts.append((start, stop))
        return rows[start:stop]

    state = {"rows": LazyArray(rows.shape, rows.dtype, read), "none": LazyArray((0, 3), rows.dtype, read)}
    write_state(tmp_path / "state", "test", state)
    assert parts == [(0, 8), (8, 16), (16, 24), (24, 32), (32, 35)]
    found = read_state(tmp_path / "state", "test")
    np.testing.assert_array_equal(found["rows"], rows)
    assert found["none"].shape == (0, 3)
    np.testing.assert_array_equal(np.asarray(state["rows"]), rows)


def test_a_state_as_bytes_is_what_the_file_holds(tmp_path):
    state = {"a": np.arange(3), "n": {"t": torch.ones(2), "x": (1, "y", None)}}
    data = dump_state("group", state)
    write_state(tmp_path / "s", "group", state)
    assert (tmp_path / "s").read_bytes() == data
    again = load_state(data, "group")
    assert again["a"].tolist() == [0, 1, 2]
    assert again["n"]["x"] == (1, "y", None)
    for wrong in (b"", data[:4], data[:-1], data[:100] + b"x" + data[101:], pickle.dumps(3)):
        with pytest.raises(CheckpointError, match=r"no state of argosy|damaged"):
            load_state(wrong, "group")
    with pytest.raises(CheckpointError, match="holds a 'group', not a 'run'"):
        load_state(data, "run")
