import numpy as np
import pytest
import torch

from argosy.data import Batch, NamedArray, join
from argosy.errors import DataError


def test_join_goes_over_the_union_of_fields():
    seen = {}

    def leaf(values):
        seen[len(seen)] = values
        return len(values)

    made = join.join([{"a": 1, "n": {"b": 2}}, {"n": {"c": 3}}, {"n": {}}], leaf, like={})
    assert made == {"a": 3, "n": {"b": 3, "c": 3}}
    assert seen == {
        0: [1, join.ABSENT, join.ABSENT],
        1: [2, join.ABSENT, join.ABSENT],
        2: [join.ABSENT, 3, join.ABSENT],
    }


def test_the_first_full_node_decides_the_kind():
    made = join.stack([{"n": {}}, {"n": NamedArray(x=1)}], like=Batch())
    assert type(made) is Batch
    assert type(made.n) is NamedArray
    assert made.n.x.tolist() == [0, 1]


def test_empty_node_beside_arrays_counts_as_missing():
    assert join.stack([{"n": {}}, {"n": np.ones(2)}], like={})["n"].tolist() == [[0, 0], [1, 1]]


def test_an_error_names_the_field_and_its_parts():
    def fail(values):
        raise ValueError("no")

    with pytest.raises(DataError, match=r"field 'n\.a' \(int 1, int 2\): no"):
        join.join([{"n": {"a": 1}}, {"n": {"a": 2}}], fail, like={})


def test_cat_counts_the_rows_of_a_tree_once_for_all_depths():
    # In the second tree `n` is empty: its rows are those of `a`.
    made = join.cat([{"a": np.ones(1), "n": {"x": torch.ones(1, 2)}}, {"a": np.ones(2), "n": {}}], like={})
    assert made["n"]["x"].tolist() == [[1, 1], [0, 0], [0, 0]]


def test_cat_of_a_tensor_and_an_array_is_an_array():
    made = join.cat([{"a": torch.ones(1, requires_grad=True)}, {"a": np.zeros(1)}], like={})["a"]
    assert isinstance(made, np.ndarray)
    assert made.tolist() == [1, 0]


def test_aggregate_fills_none_with_zeros_of_the_same_kind():
    made = join.aggregate(
        [{"a": None, "t": torch.ones(2)}, {"a": np.ones(2, np.int8)}, {"t": None}], lambda values: values, like={}
    )
    assert [value.tolist() for value in made["a"]] == [[0, 0], [1, 1], [0, 0]]
    assert all(value.dtype == np.int8 for value in made["a"])
    assert all(isinstance(value, torch.Tensor) for value in made["t"])
