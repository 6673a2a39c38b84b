import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import safetensors.torch
import torch

from argosy.distributed.store.parameters import ParameterStore, _read_blob
from argosy.errors import CheckpointError, ConfigError
from argosy.trainer.blob import decode, encode


def checkpoint(version, value=1.0):
    return {"version": version, "state_dict": {"w": torch.full((2, 3), value), "n": torch.tensor(version)}}


def test_blob_round_trip_is_exact_and_refuses_other_bytes():
    tensors = {
        "a": torch.randn(3, 4).bfloat16(),
        "b.c": torch.arange(6.0).reshape(2, 3).t(),
        "odd": torch.tensor([True, False, True]),
        "none": torch.empty(0, 3),
        "n": torch.tensor(2**40),
    }
    given = {"version": 7, "state_dict": tensors}
    got = decode(encode(given))
    assert got["version"] == 7
    assert got["state_dict"].keys() == given["state_dict"].keys()
    assert all(torch.equal(got["state_dict"][k], v) for k, v in given["state_dict"].items())
    assert all(got["state_dict"][k].shape == v.shape for k, v in tensors.items())
    read = safetensors.torch.load(encode(given).tobytes())  # by the format's own library, too
    assert all(torch.equal(read[k], v) for k, v in tensors.items())
    with pytest.raises(CheckpointError, match="are damaged: their checksum does not fit"):
        decode(encode(given)[:-3])
    with pytest.raises(CheckpointError, match="not a policy checkpoint"):
        decode(encode(given)[:30])
    with pytest.raises(CheckpointError, match=r"'c' is a tensor of torch\.complex64"):
        encode({"version": 0, "state_dict": {"c": torch.zeros(1, dtype=torch.complex64)}})
    with pytest.raises(CheckpointError):
        decode(np.zeros(100, np.uint8))


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    return ParameterStore(tmp_path / "p" if request.param == "disk" else None, keep=2)


def test_latest_tags_metadata_and_queries(store):
    for version in range(3):
        store.push("ppo", checkpoint(version, float(version)), metadata={"return_mean": version * 10.0})
    assert store.get("ppo")["version"] == 2
    assert store.get("ppo", 1)["state_dict"]["w"][0, 0] == 1.0
    store.tag("ppo", 1, "best")
    assert store.version_of("ppo", "best") == 1
    store.update_metadata("ppo", 1, {"return_mean": 99.0})
    assert store.find("ppo", lambda m: m["return_mean"] >= 20.0) == [1, 2]
    assert store.metadata("ppo", 1)["return_mean"] == 99.0
    assert store.names() == ["ppo"]


def test_gc_keeps_tagged_and_newest(store):
    store.push("a", checkpoint(0), tags=["first"])
    for version in range(1, 6):
        store.push("a", checkpoint(version))
    # 5 is latest (a tag), 0 is tagged, 3 and 4 are the two newest untagged ones
    assert store.versions("a") == [0, 3, 4, 5]
    store.tag("a", 5, "first")
    assert store.gc("a") == [0]
    assert store.gc("a", keep=0) == [3, 4]


def test_newest_only_when_changed_and_roll_back(store):
    assert store.newest("a") is None
    store.push("a", checkpoint(0))
    store.push("a", checkpoint(1))
    token, version = store.newest("a")
    blob = store.blob("a", version)
    assert (version, decode(blob)["version"]) == (1, 1)
    assert store.newest("a", token) is None
    store.update_metadata("a", 1, {"x": 1})
    assert store.newest("a", token) is None  # metadata are no new parameters
    assert store.roll_back("a", 0) == [1]
    assert store.newest("a", token)[1] == 0
    assert store.roll_back("a", 0) == []


def test_unknown_things_are_named(store):
    with pytest.raises(CheckpointError, match="no policy 'x'"):
        store.get("x")
    store.push("ppo", checkpoint(0))
    with pytest.raises(CheckpointError, match="did you mean 'ppo'"):
        store.get("ppp")
    with pytest.raises(CheckpointError, match=r"no version 5; kept: \[0\]"):
        store.get("ppo", 5)
    with pytest.raises(CheckpointError, match="tagged 'best'"):
        store.get("ppo", "best")
    with pytest.raises(ConfigError, match=r"'\.\./x'"):
        store.push("../x", checkpoint(0))
    with pytest.raises(ConfigError, match="keep is 0"):
        ParameterStore(keep=0)


def test_restart_finds_everything_again(tmp_path):
    store = ParameterStore(tmp_path)
    for version in range(3):
        store.push("a", checkpoint(version), metadata={"v": version})
    store.tag("a", 0, "best")
    token = store.newest("a")[0]
    half = tmp_path / "a" / ".9.safetensors.1.tmp"
    half.write_bytes(b"half")
    ParameterStore(tmp_path)
    assert half.exists()  # it may be one that the server of a running fleet is writing
    again = ParameterStore(tmp_path, mend=True)
    assert again.tags("a") == {"latest": 2, "best": 0}
    assert again.metadata("a", 1)["v"] == 1
    assert again.newest("a", token)[1] == 2  # a reader that knew the old store asks once more
    assert not list(tmp_path.rglob("*.tmp"))


def test_killed_while_writing_leaves_whole_versions(tmp_path):
    code = (
        "import sys, torch, pathlib\n"
        "from argosy.distributed.store.parameters import ParameterStore, _read_blob\n"
        "store = ParameterStore(pathlib.Path(sys.argv[1]), keep=3)\n"
        "for v in range(10**6):\n"
        "    store.push('a', {'version': v, 'state_dict': {'w': torch.full((50_000,), float(v))}})\n"
        "    print(v, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    for _ in range(5):
        last = int(process.stdout.readline())
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    store = ParameterStore(tmp_path)
    assert store.version_of("a", "latest") >= last
    for version in store.versions("a"):
        assert torch.equal(store.get("a", version)["state_dict"]["w"], torch.full((50_000,), float(version)))


def test_damaged_index_is_refused_by_name(tmp_path):
    ParameterStore(tmp_path).push("a", checkpoint(0))
    (tmp_path / "a" / "index.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"index\.json"):
        ParameterStore(tmp_path)


def test_a_damaged_version_is_set_aside_and_the_one_before_is_used(tmp_path):
    store = ParameterStore(tmp_path, keep=5)
    for version in range(4):
        store.push("ppo", checkpoint(version, float(version)))
    store.tag("ppo", 3, "best")
    store.tag("ppo", 0, "first")
    file = tmp_path / "ppo" / "3.safetensors"
    data = bytearray(file.read_bytes())
    data[-10] ^= 4
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"version 3 of policy 'ppo' cannot be read.*checksum"):
        store.get("ppo")
    with pytest.warns(UserWarning, match=r"version 3 .*checksum does not fit; the version before it is used"):
        assert ParameterStore(tmp_path, keep=5).get("ppo")["version"] == 2
    with pytest.warns(UserWarning, match=r"version 3 .*kept as 3\.damaged, the version before it is used"):
        again = ParameterStore(tmp_path, keep=5, mend=True)
    assert again.versions("ppo") == [0, 1, 2]
    assert again.tags("ppo") == {"latest": 2, "best": 2, "first": 0}
    assert again.get("ppo")["version"] == 2


def test_who_reads_passes_over_a_version_that_is_dropped_meanwhile(tmp_path, monkeypatch):
    store = ParameterStore(tmp_path)
    for version in range(2):
        store.push("p", checkpoint(version))

    def read(path):
        (tmp_path / "p" / "0.safetensors").unlink(missing_ok=True)
        return _read_blob(path)

    monkeypatch.setattr("argosy.distributed.store.parameters._read_blob", read)
    assert ParameterStore(tmp_path).versions("p") == [1]


def test_best_is_what_is_best_of_all_that_is_known_now(tmp_path):
    """A lucky evaluation that a longer one takes back, and versions that are forgotten, leave it to the next best."""
    store = ParameterStore(tmp_path, keep=9)
    for version in range(4):
        store.push("p", checkpoint(version))
    how = {"key": "return_mean", "tag": "best"}
    assert store.tag_best("p", 1, {"return_mean": 480.0}, **how)
    assert store.tag_best("p", 2, {"return_mean": 490.0}, **how)
    assert not store.tag_best("p", 2, {"return_mean": 450.0}, **how)
    assert store.tags("p")["best"] == 1
    assert store.tag_best("p", 3, {"return_mean": 500.0}, **how)
    store.roll_back("p", 2)
    assert store.tags("p")["best"] == 1
