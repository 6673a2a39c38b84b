import numpy as np
import pytest
import torch

from argosy.data import Batch, NamedArray, tree
from argosy.errors import DataError


@pytest.fixture
def mixed():
    """A dict that holds a Batch, a record and a dict."""
    return {"a": np.arange(3), "b": Batch(x=torch.arange(3)), "r": NamedArray(y=np.ones(3), none=None), "d": {"e": {}}}


def test_map_leaves_keeps_every_kind_of_node(mixed):
    made = tree.map_leaves(lambda leaf: leaf[:2], mixed)
    assert made["a"].tolist() == [0, 1]
    assert type(made["b"]) is Batch
    assert made["b"].x.tolist() == [0, 1]
    assert type(made["r"]) is NamedArray
    assert made["r"].none is None
    assert made["d"] == {"e": {}}
    assert made["d"] is not mixed["d"]
    assert tree.map_leaves(lambda leaf: leaf + 1, 3) == 4
    assert tree.map_leaves(lambda leaf: leaf + 1, None) is None


def test_map_leaves_names_the_field_and_keeps_the_cause(mixed):
    with pytest.raises(DataError, match=r"field 'r\.y' \(ndarray of shape \(3,\) and type float64\): ") as caught:
        tree.map_leaves(lambda leaf: leaf.reshape(7) if leaf.dtype == np.float64 else leaf, mixed)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(KeyError, match="own"):  # what is neither a type nor a value error is the caller's own
        tree.map_leaves(lambda leaf: {}["own"], mixed)


def test_leaves(mixed):
    assert [path for path, _ in tree.leaves(mixed)] == ["a", "b.x", "r.y", "r.none"]
    assert list(tree.leaves(5)) == [("", 5)]


def test_index(mixed):
    made = tree.index(mixed, 1)
    assert (made["a"], int(made["b"].x), made["r"].y, made["d"]) == (1, 1, 1.0, {"e": {}})
    with pytest.raises(IndexError, match=r"field 'b\.x' \(Tensor of shape \(3,\)"):
        tree.index({"b": mixed["b"]}, 3)


def test_assign_keep_leaves_alone_what_is_missing(mixed):
    tree.assign(mixed, 0, {"a": 7, "r": {"none": None}}, absent="keep")
    assert mixed["a"].tolist() == [7, 1, 2]
    assert mixed["r"].y.tolist() == [1, 1, 1]
    tree.assign(mixed, 0, {"a": 8}, absent="zero")
    assert mixed["a"].tolist() == [8, 1, 2]
    assert mixed["r"].y.tolist() == [0, 1, 1]


@pytest.mark.parametrize("leaf", [3, "text", np.int64(3)])
def test_assign_needs_arrays(leaf):
    with pytest.raises(DataError, match=r"field 'a' .*cannot take|field 'a' is .*no items"):
        tree.assign({"a": leaf}, 0, {"a": 1})


def test_fill():
    made = tree.fill({"i": np.ones(2, np.int8), "t": torch.ones(2), "o": np.array(["x"], object), "k": 3, "s": "x"}, 2)
    assert made["i"].dtype == np.int8
    assert made["i"].tolist() == made["t"].tolist() == [2, 2]
    assert made["o"].tolist() == [None]
    assert made["k"] == 2
    assert made["s"] is None


def test_size_bytes(mixed):
    assert tree.size_bytes(mixed) == 3 * 3 * 8


def test_length_and_shape(mixed):
    assert tree.length(mixed) == 3
    assert tree.length({"a": {}}) is None
    assert tree.length({"a": {}, "b": np.zeros(4)}) == 4
    with pytest.raises(TypeError, match="field 'a' is int 3"):
        tree.length({"a": 3})
    assert tree.common_shape({"a": np.zeros((2, 3)), "b": torch.zeros(4, 3, 5)}) == [2, 3]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (np.arange(2), torch.arange(2), True),
        (np.arange(2), np.arange(2.0), True),
        (np.arange(2), np.arange(3), False),
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.array(["x", None]), np.array(["x", None]), True),
        (torch.ones(1, dtype=torch.bfloat16), np.ones(1), True),
        (np.float64(2), np.array(2.0), True),
        (np.zeros(1), None, False),
        (None, None, True),
        ("x", "x", True),
        ({"a": 1}, NamedArray(a=1), True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, 1, False),
    ],
)
def test_equal(a, b, same):
    assert tree.equal(a, b) is same
    assert tree.equal(b, a) is same


def test_errors_survive_being_sent_to_another_process(mixed):
    import pickle

    error = pickle.loads(pickle.dumps(tree.FieldError("a.b", "is wrong").within("n")))
    assert str(error) == "field 'n.a.b' is wrong"
    assert error.path == "n.a.b"
