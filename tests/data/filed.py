"""Small data sets in the layouts of other programs, as those write them."""

import gzip
import json

import h5py
import numpy as np

from argosy.data import Batch

EPISODES = (4, 3, 5)
"""Lengths: the first one terminates, the second is cut, the third stops with the file."""

FIELDS = (("obs", "observations"), ("act", "actions"), ("rew", "rewards"), ("obs_next", "next_observations"))
"""Our names and D4RL's."""


def columns(seed=0, obs_dim=3, act_dim=2):
    """Return the columns of D4RL's layout, with what they must become: obs_next by hand, and the kept rows."""
    rng = np.random.default_rng(seed)
    n = sum(EPISODES)
    seen = [rng.normal(size=(length + 1, obs_dim)).astype(np.float32) for length in EPISODES]
    ends = np.cumsum(EPISODES) - 1
    terminals, timeouts = np.zeros(n, bool), np.zeros(n, bool)
    terminals[ends[0]], timeouts[ends[1]] = True, True
    return {
        "observations": np.concatenate([obs[:-1] for obs in seen]),
        "actions": rng.uniform(-1, 1, (n, act_dim)).astype(np.float32),
        "rewards": rng.normal(size=n).astype(np.float32),
        "terminals": terminals,
        "timeouts": timeouts,
        "next_observations": np.concatenate([obs[1:] for obs in seen]),
    }


def rows_of(source, size=5):
    """All rows, read in parts of `size`."""
    return Batch.cat(list(source.read(size)))


def write_hdf5(path, arrays, **how):
    with h5py.File(path, "w") as file:
        for name, value in arrays.items():
            file.create_dataset(name, data=value, **how)
    return path


def write_minari(folder, given, *, nested=False, metadata=True):
    """Write a data set as Minari does: a group per episode in data/main_data.hdf5, and its metadata."""
    (folder / "data").mkdir(parents=True)
    start = 0
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for number, length in enumerate(EPISODES):
            rows = slice(start, start + length)
            group = file.create_group(f"episode_{number}")
            obs = np.concatenate([given["observations"][rows], given["next_observations"][rows][-1:]])
            if nested:
                inner = group.create_group("observations")
                inner["_index_0"], inner["_index_1"] = obs[:, :1], obs[:, 1:]
            else:
                group.create_dataset("observations", data=obs, chunks=True, maxshape=(None, *obs.shape[1:]))
            group["actions"], group["rewards"] = given["actions"][rows], given["rewards"][rows].astype(np.float64)
            group["terminations"], group["truncations"] = given["terminals"][rows], given["timeouts"][rows]
            group.create_dataset("infos", (length,), h5py.string_dtype())
            start += length
    if metadata:
        spec = json.dumps({"id": "Hopper-v5", "entry_point": "os:abort"})
        (folder / "data" / "metadata.json").write_text(json.dumps({"env_spec": spec, "total_steps": start}))
    return folder


def atari_rows(count=12, end=6, side=8, seed=0):
    """Return transitions of stacked images: one episode terminates at row `end`, the next one goes on."""
    rng = np.random.default_rng(seed)
    rows, stack = [], [rng.integers(256, size=(side, side), dtype=np.uint8)] * 4
    for t in range(count):
        following = [*stack[1:], rng.integers(256, size=(side, side), dtype=np.uint8)]
        rows.append({"o_t": stack, "a_t": t % 3, "r_t": t / 2, "d_t": float(t != end), "o_tp1": following})
        stack = [rng.integers(256, size=(side, side), dtype=np.uint8)] * 4 if t == end else following
    return rows


def write_records(path, rows, *, packed=True):
    """Write them as TensorFlow would: by protobuf's own encoder and TensorBoard's writer of records."""
    import cv2
    from tensorboard.summary.writer.record_writer import RecordWriter

    with (gzip.open if packed else open)(path, "wb") as file:
        writer = RecordWriter(file)
        for row in rows:
            example = example_message()()
            for name, value in row.items():
                feature = example.features.feature[name]
                if name in ("o_t", "o_tp1"):
                    feature.bytes_list.value.extend(cv2.imencode(".png", image)[1].tobytes() for image in value)
                elif name == "a_t":
                    feature.int64_list.value.append(value)
                else:
                    feature.float_list.value.append(value)
            writer.write(example.SerializeToString())
        writer.flush()
    return path


def example_message():
    """Return the class of tf.train.Example, made from a description of its fields."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.Default()
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName("argosy_test.Example"))
    except KeyError:
        pass
    file = descriptor_pb2.FileDescriptorProto(name="argosy_test.proto", package="argosy_test", syntax="proto3")
    kinds = {"BytesList": 12, "FloatList": 2, "Int64List": 3}
    for name, kind in kinds.items():
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=3)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, field) in enumerate(zip(kinds, ("bytes_list", "float_list", "int64_list"), strict=True), 1):
        feature.field.add(name=field, number=number, type=11, label=1, type_name=f".argosy_test.{name}", oneof_index=0)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=11, label=1, type_name=".argosy_test.Feature")
    features.field.add(name="feature", number=1, type=11, label=3, type_name=".argosy_test.Features.FeatureEntry")
    file.message_type.add(name="Example").field.add(
        name="features", number=1, type=11, label=1, type_name=".argosy_test.Features"
    )
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("argosy_test.Example"))
