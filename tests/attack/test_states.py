"""Damaged and made-up state files: refused by a named error, every one of them."""

import hashlib
import json
import struct
from functools import partial

import numpy as np
import pytest
import torch
from commands import numbers
from tally import all_refused, none_raw, tally
from test_configs import changed

import argosy
from argosy.errors import CheckpointError
from argosy.presets import preset
from argosy.trainer import load_checkpoint, save_checkpoint
from argosy.trainer.statefile import dump_state, load_state, read_state, safetensors_header, write_state

STATE = {"a": np.arange(30), "n": {"t": torch.ones(20), "x": (1, "y", None), "d": {3: 4}}}


REFUSAL = r"torn|damaged|no state|was not written|format version|holds a"


def damaged_states(count, seed, folder):
    """Read so many damaged states, every other one from a file."""
    rng = np.random.default_rng(seed)
    whole, path = dump_state("run", STATE), folder / "state"

    def reads():
        for number in range(count):
            data = bytes(damaged(whole, rng))
            path.write_bytes(data)
            yield partial(load_state, data, "run") if number % 2 else partial(read_state, path, "run")

    return tally(reads(), CheckpointError, REFUSAL)


def damaged(whole, rng):
    """The file with a bit flipped, cut short, with random bytes in it, or with a part doubled."""
    damaged = bytearray(whole)
    match int(rng.integers(4)):
        case 0:
            damaged[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
        case 1:
            del damaged[int(rng.integers(len(whole))) :]
        case 2:
            at = int(rng.integers(len(whole) - 32))
            damaged[at : at + 32] = rng.integers(0, 256, 32, np.uint8).tobytes()
        case 3:
            at = int(rng.integers(len(whole)))
            damaged[at:at] = damaged[at : at + 40]
    return damaged if damaged != whole else damaged[:-1]


@pytest.mark.parametrize(("seed", "count"), [(0, 500), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_no_damaged_state_is_accepted(tmp_path, seed, count):
    counts = damaged_states(count, seed, tmp_path)
    assert all_refused(counts), counts


def signed(skeleton, metadata=None):
    """A file that anybody could make, with a right checksum."""
    digest = hashlib.sha256(skeleton.encode()).hexdigest()
    known = {"format": "argosy-state", "version": "1", "kind": "run", "skeleton": skeleton, "sha256": digest}
    return safetensors_header({}, known | (metadata or {}))


@pytest.mark.parametrize(
    "skeleton",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"$numpy": "gone"}',
        '{"$torch": ["a"]}',
        '{"$dict": [[["unhashable"], 1]]}',
        '{"$dict": 3}',
        '{"$tuple": 3}',
        "",
        "nonsense",
    ],
)
def test_a_made_up_skeleton_is_refused(skeleton, tmp_path):
    (tmp_path / "state").write_bytes(signed(skeleton))
    with pytest.raises(CheckpointError):
        read_state(tmp_path / "state", "run")


def test_a_header_that_is_no_header_is_refused():
    tensor = b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}'
    for header in (b"[]", b"3", b'{"__metadata__": 3}', tensor):
        with pytest.raises(CheckpointError):
            load_state(struct.pack("<Q", len(header)) + header + bytes(8), "run")
    with pytest.raises(CheckpointError):
        load_state(signed(json.dumps({}), {"version": "9" * 400}), "run")


SMALL = {
    "net.hidden_sizes": (4,), "env.num_envs": 2, "env.test_num_envs": 1, "env.max_episode_steps": 30,
    "buffer.size": 60, "buffer.priority.alpha": 0.6, "callbacks": ("early_stop(tests=5)",),
    "trainer.step_per_epoch": 80, "trainer.start_steps": 20, "trainer.episode_per_test": 1, "trainer.batch_size": 8,
}  # fmt: skip


def made_up_checkpoints(count, seed, folder):
    """Load so many checkpoints with right checksums, each changed in a few places: a refused one leaves all as it was.

    But for the replay buffer, which may be empty then.
    """
    rng, path = np.random.default_rng(seed), folder / "checkpoint"
    trainer = argosy.build(preset("dqn", "CartPole-v1", seed=1, **SMALL))
    next(trainer)
    save_checkpoint(path, trainer)
    whole = read_state(path, "checkpoint")
    buffer = trainer.train_collector.buffer

    def state():
        save_checkpoint(folder / "now", trainer)
        now = read_state(folder / "now", "checkpoint")
        return dict(numbers(now.pop("buffer"))), dict(numbers(now))

    def read():
        load_checkpoint(folder / "whole", trainer)
        buffered, others = state()
        load_checkpoint(folder / "whole", trainer)
        try:
            load_checkpoint(path, trainer)
        except CheckpointError:
            now = state()
            assert now[1] == others
            assert now[0] == buffered or len(buffer) == 0
            raise

    def reads():
        save_checkpoint(folder / "whole", trainer)
        for _ in range(count):
            write_state(path, "checkpoint", changed(whole, rng))
            yield read

    return tally(reads(), CheckpointError)


@pytest.mark.parametrize(("seed", "count"), [(0, 200), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_a_made_up_checkpoint_is_named_and_leaves_the_trainer_as_it_was(tmp_path, seed, count):
    counts = made_up_checkpoints(count, seed, tmp_path)
    assert none_raw(counts), counts
    assert counts["refused"] > count // 3
