import os
import pickle
import struct
from multiprocessing import shared_memory
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from argosy.data import Batch, NamedArray, dumps, loads, namedarray
from argosy.data.wire import Method
from argosy.errors import DataError

METHODS = get_args(Method)
RAW = ("raw_bytes", "raw_compress", "obs_compress", "compress_except_policy_state")


@namedarray
class State(NamedArray):
    h: object
    c: object = None


@namedarray
class Sample(NamedArray):
    obs: object
    act: object = None
    policy_state: object = None
    extra: object = None


@pytest.fixture
def sample():
    made = Sample(
        obs={"image": np.zeros((4, 64), np.uint8), "v": torch.ones(4, 2, dtype=torch.bfloat16)},
        act=np.arange(8, dtype=np.int32).reshape(2, 4).T[:, ::-1],
        policy_state=State(h=np.zeros((4, 100)), c=np.zeros((0, 3))),
        extra=Batch(flag=np.array([True, False]), s=np.float32(3), name="x", k=3),
    )
    made.register_metadata(worker=3)
    return made


@pytest.mark.parametrize("method", RAW)
def test_raw_methods_refuse_names_that_json_would_change(method):
    record = NamedArray(legs={0: np.zeros(2)})
    with pytest.raises(DataError, match="a field is called 0"):
        dumps(record, method)
    assert loads(dumps(record, "pickle"), allow_pickle=True) == record


@pytest.mark.parametrize("method", METHODS)
def test_round_trip(sample, method):
    again = loads(dumps(sample, method), allow_pickle=True)
    assert again == sample
    assert dict(again.metadata) == {"worker": 3}
    assert isinstance(again.obs["v"], torch.Tensor)
    assert again.obs["v"].dtype == torch.bfloat16
    assert again.act.dtype == np.int32
    assert again.policy_state.c.shape == (0, 3)
    if method == "pickle_dict":
        assert type(again) is type(again.policy_state) is NamedArray
    else:
        assert type(again) is Sample
        assert type(again.policy_state) is State
        assert type(again.extra) is Batch


def test_what_each_method_compresses(sample):
    sizes = {method: len(dumps(sample, method)) for method in METHODS}
    image, state = sample.obs["image"].nbytes, sample.policy_state.h.nbytes
    assert sizes["obs_compress"] < sizes["raw_bytes"] - image / 2
    assert sizes["obs_compress"] > state
    assert sizes["compress_except_policy_state"] < sizes["raw_bytes"] - image / 2
    assert sizes["compress_except_policy_state"] > state
    assert sizes["raw_compress"] < sizes["raw_bytes"] - (image + state) / 2
    assert sizes["pickle_compress"] == sizes["compress_pickle"] < sizes["pickle"] - (image + state) / 2


def test_what_compression_would_enlarge_is_stored_as_it_is():
    noise = NamedArray(a=np.random.default_rng(0).integers(0, 256, 1000, np.uint8))
    assert len(dumps(noise, "raw_compress")) == len(dumps(noise, "raw_bytes"))
    assert loads(dumps(noise, "raw_compress")) == noise


@pytest.mark.parametrize("method", METHODS)
def test_raw_arrays_are_views_and_pickled_ones_are_writable(method):
    data = dumps(NamedArray(a=np.zeros(4)), method)
    array = loads(data, allow_pickle=True).a
    assert array.flags.writeable == method.endswith(("pickle", "pickle_dict", "pickle_compress"))
    if method == "raw_bytes":
        assert np.shares_memory(array, np.frombuffer(data, np.uint8))
        assert array.ctypes.data % array.itemsize == 0


def test_shared_memory_holds_the_record_itself(sample):
    sample.extra = None
    data = dumps(sample, "raw_bytes")
    block = shared_memory.SharedMemory(create=True, size=len(data))
    try:
        block.buf[: len(data)] = data
        writer, reader = loads(block.buf), loads(block.buf)
        writer[1:3] = sample[0:2] + 1
        writer.obs["v"][0] = 5
        assert reader.act[1:3].tolist() == (sample.act[0:2] + 1).tolist()
        assert reader.obs["image"][:, 0].tolist() == [0, 1, 1, 0]
        assert reader.obs["v"][:, 0].tolist() == [5, 2, 2, 1]
        assert type(reader) is Sample
        del writer, reader
    finally:
        block.close()
        block.unlink()


@pytest.mark.parametrize("method", RAW)
def test_raw_methods_refuse_objects_and_name_them(method):
    with pytest.raises(DataError, match=r"field 'n\.o' is ndarray .*object.* use a pickle method"):
        dumps(NamedArray(n=NamedArray(o=np.array([None]))), method)
    record = NamedArray(a=np.zeros(1))
    record.register_metadata(what=object())
    with pytest.raises(DataError, match="is not JSON"):
        dumps(record, method)


def test_unknown_method():
    with pytest.raises(DataError, match="no method 'raw' to dump with; did you mean 'raw_bytes'"):
        dumps(NamedArray(a=np.zeros(1)), "raw")


def test_a_class_that_is_unknown_or_has_changed_becomes_a_plain_record(sample):
    data = dumps(sample, "raw_bytes")
    unknown = data.replace(b".Sample", b".Simple")
    assert type(loads(unknown)) is NamedArray
    changed = data.replace(b'"act"', b'"oct"')
    assert type(loads(changed)) is NamedArray
    assert loads(changed).oct.dtype == np.int32


def test_loading_a_raw_message_runs_no_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    record = NamedArray(a=np.frombuffer(pickle.dumps(Trap()), np.uint8))
    loads(dumps(record, "raw_bytes"))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(RAW)))
def test_a_pickle_is_loaded_only_where_the_caller_says_so(method):
    data = dumps(NamedArray(a=np.zeros(2)), method)
    with pytest.raises(DataError, match=r"is a pickle, which may run code .*allow_pickle=True"):
        loads(data)


def replaced(data, before, after):
    """A message whose JSON header says something else, of the length that its head says."""
    at = data.index(b'{"record"')
    end = at + data[at:].index(b'"metadata": {}}') + len(b'"metadata": {}}')
    header = data[at:end].replace(before, after)
    assert header != data[at:end]
    magic, kind, _, count = struct.unpack_from("<4sBII", data)
    head = struct.pack("<4sBII", magic, kind, len(header), count) + data[13 : 13 + 16 * count]
    body = data[end + -end % 64 :]
    front = head + header
    return front + bytes(-len(front) % 64) + body


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b'"<f8"', b'"|O"', "numbers only"),  # pointers of the sender's: a crash, or worse
        (b'"<f8"', b'"|V8"', "numbers only"),
        (b'"<f8"', b'"<M8[s]"', "numbers only"),
        (b'"<f8"', b'[["a", "|O"]]', "damaged"),
        (b"[8]", b"[7]", "an array of 56 bytes lies in 64"),
        (b"[8]", b"[9]", "too small"),
        (b"[8]", b"[-2]", "damaged"),
        (b"[8]", b"[99999999999999999999]", "damaged"),
        (b'["array", "<f8", [8]]', b'["tensor", "load", [8]]', "damaged"),
        (b'["array", "<f8", [8]]', b'["tensor", "float64", [1, 9]]', "damaged"),
        (b'["array", "<f8", [8]]', b'["value", {"a": 1}]', "damaged"),
        (b'["array", "<f8", [8]]', b'["value", 1]', "more buffers than"),
        (b'["array", "<f8", [8]]', b'["array", "<f8", [8]], "b": ["array", "<f8", [8]]', "damaged"),
        (b'["array", "<f8", [8]]', b"[" * 5000 + b"]" * 5000, "damaged"),
        (b'["array", "<f8", [8]]', b'["node", "builtins.dict", {"a": ' * 40 + b"0" + b"}]" * 40, "damaged"),
        (b'"record"', b'"rekord"', "damaged"),
    ],
)
def test_a_made_up_header_is_refused(before, after, words):
    message = replaced(dumps(NamedArray(a=np.arange(8.0))), before, after)
    with pytest.raises(DataError, match=words):
        loads(message)


def test_no_more_is_inflated_than_was_declared():
    data = bytearray(dumps(NamedArray(a=np.zeros(1 << 20, np.uint8)), "raw_compress"))
    stored, size = struct.unpack_from("<2Q", data, 13)
    assert size == 1 << 20
    for wrong in (size - 1, size + 1, stored + 1, 2**60, 0):
        struct.pack_into("<Q", data, 21, wrong)
        with pytest.raises(DataError, match=r"compressed bytes are said to be|too small|lies in|damaged"):
            loads(data)


@pytest.mark.parametrize("method", ["raw_bytes", "pickle"])
def test_damaged_messages_are_refused(sample, method):
    data = dumps(sample, method)
    for wrong in (b"", b"nonsense of some length", data[:10], data[:40], data[:-1]):
        with pytest.raises(DataError, match=r"not made by dumps|cut short"):
            loads(wrong, allow_pickle=True)


@given(
    arrays=st.lists(
        hnp.arrays(
            st.sampled_from([np.float32, np.int64, np.uint8, np.bool_, np.complex64]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        min_size=1,
        max_size=4,
    ),
    method=st.sampled_from(METHODS),
    nested=st.booleans(),
)
def test_any_arrays_survive(arrays, method, nested):
    record = NamedArray(**{f"f{i}": array for i, array in enumerate(arrays)}, none=None)
    record = NamedArray(n=record, d={"x": record}) if nested else record
    again = loads(dumps(record, method), allow_pickle=True)
    assert again == record
    for name, array in (again.n if nested else again).items():
        assert array is None or array.dtype == (record.n if nested else record)[name].dtype
