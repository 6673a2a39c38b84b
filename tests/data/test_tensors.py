import warnings

import numpy as np
import pytest
import torch

from argosy.data import Batch, NamedArray, as_tensors, take_rows, to_numpy, to_torch, to_torch_as
from argosy.errors import DataError


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (np.arange(2), torch.int64, [0, 1]),
        (torch.arange(2), torch.int64, [0, 1]),
        (3, torch.int64, 3),
        (2.5, torch.float64, 2.5),
        (True, torch.bool, True),
        (np.float32(2), torch.float32, 2),
        ([1, 2], torch.int64, [1, 2]),
        ([torch.ones(1), torch.zeros(1)], torch.float32, [[1], [0]]),
        ([], torch.float64, []),
    ],
)
def test_to_torch(value, dtype, expected):
    made = to_torch(value)
    assert made.dtype == dtype
    assert made.tolist() == expected
    assert to_torch(value, torch.float32).dtype == torch.float32
    back = to_numpy(value)
    assert isinstance(back, np.ndarray)
    assert back.tolist() == expected


def test_containers_keep_their_kind_and_are_not_changed():
    batch = Batch(a=[1], n={"x": torch.ones(1)}, none=None)
    made = to_torch({"b": batch, "r": NamedArray(y=np.ones(1), none=None)})
    assert type(made["b"]) is Batch
    assert type(made["r"]) is NamedArray
    assert isinstance(made["b"].a, torch.Tensor)
    assert made["b"].n.x is batch.n.x
    assert made["b"].none is made["r"].none is None
    assert isinstance(batch.a, np.ndarray)
    back = to_numpy(made)
    assert isinstance(back["b"].n.x, np.ndarray)
    assert isinstance(made["b"].a, torch.Tensor)


@pytest.mark.parametrize("value", ["text", np.array([None]), [[1], [2, 3]], (1, np.ones(2)), np.array(["x"])])
def test_what_holds_no_numbers_is_refused(value):
    with pytest.raises(DataError, match="cannot become a tensor"):
        to_torch(value)
    with pytest.raises(DataError, match=r"field 'n\.x' is wrong"):
        to_torch({"n": {"x": value}})
    assert to_numpy(None) is to_torch(None) is None


def test_lists_of_containers_are_stacked():
    assert to_torch([{"a": 1}, {"a": 2}])["a"].tolist() == [1, 2]
    stacked = to_numpy([Batch(a=torch.ones(2)), Batch(a=torch.zeros(2))])
    assert isinstance(stacked, Batch)
    assert stacked.a.tolist() == [[1, 1], [0, 0]]


def test_to_torch_as():
    made = to_torch_as({"a": np.arange(2)}, torch.zeros(1, dtype=torch.float16))
    assert made["a"].dtype == torch.float16


def test_as_tensors_shares_memory_and_passes_objects_on():
    words = np.array(["x"], object)
    batch = Batch(a=np.zeros(2), n={"t": torch.ones(2), "o": words}, s="x", none=None, record=NamedArray(y=np.ones(1)))
    made = as_tensors(batch)
    made.a[0] = 5
    assert batch.a[0] == 5
    assert made.n.t is batch.n.t
    assert made.n.o is words
    assert made.s == "x"
    assert made.none is None
    assert isinstance(made.record.y, torch.Tensor)
    assert isinstance(batch.a, np.ndarray)


def test_memory_that_torch_cannot_share_is_copied():
    frozen = np.arange(4.0)
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = as_tensors(Batch(frozen=frozen, reverse=np.arange(4)[::-1], strided=np.arange(4)[::2]))
    made.frozen[0] = 9
    assert frozen[0] == 0
    assert made.reverse.tolist() == [3, 2, 1, 0]
    assert made.strided.tolist() == [0, 2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_as_tensors_moves_to_the_device():
    made = as_tensors(Batch(a=np.zeros(2), t=torch.ones(2)), "cuda")
    assert made.a.is_cuda
    assert made.t.is_cuda


@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((6, 3), 0), ((6, 3), 1), ((6, 3, 4, 5), 0), ((6, 3, 4, 5), 1)])
def test_rows_are_taken_along_an_axis(shape, axis):
    x, index = torch.randn(shape), torch.tensor([2, 0, 2])
    assert torch.equal(take_rows(x, index, axis), x[(slice(None),) * axis + (index,)])


def test_rows_of_images_keep_their_layout():
    x = torch.randn(6, 3, 4, 5).to(memory_format=torch.channels_last)
    taken = take_rows(x, torch.tensor([5, 1]))
    assert torch.equal(taken, x[[5, 1]])
    assert taken.is_contiguous(memory_format=torch.channels_last)
