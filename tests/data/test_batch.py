import copy
import pickle

import numpy as np
import pytest
import torch

from argosy.data import Batch, NamedArray
from argosy.errors import DataError


def plain(value):
    """Nested lists, for comparison with what is written by hand."""
    if isinstance(value, Batch):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        return value.tolist()
    return value


# Construction


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, np.int64, 1),
        (1.5, np.float64, 1.5),
        (True, np.bool_, True),
        (3 + 2j, np.complex128, 3 + 2j),
        (np.float32(2), np.float32, 2.0),
        ([1, 2, 3], np.int64, [1, 2, 3]),
        ([1, 2.5], np.float64, [1.0, 2.5]),
        ((True, False), np.bool_, [True, False]),
        (range(3), np.int64, [0, 1, 2]),
        ([], np.float64, []),
        ([[1, 2], [3, 4]], np.int64, [[1, 2], [3, 4]]),
        ([np.zeros(2), np.ones(2)], np.float64, [[0, 0], [1, 1]]),
        ([torch.zeros(1), np.ones(1)], np.float64, [[0], [1]]),
        (["x", "yy"], object, ["x", "yy"]),
        ([1, "x"], object, [1, "x"]),
        ([1, None], object, [1, None]),
        ([[1, 2], [3]], object, [[1, 2], [3]]),
        (np.array(["x", "y"]), object, ["x", "y"]),
    ],
)
def test_values_become_arrays(value, dtype, expected):
    made = Batch(a=value).a
    assert isinstance(made, np.ndarray)
    assert made.dtype == dtype
    assert made.tolist() == expected


@pytest.mark.parametrize("value", [None, "x", b"xy", object, {1, 2}, torch.distributions.Normal(0.0, 1.0)])
def test_objects_are_kept(value):
    assert Batch(a=value).a is value


def test_zero_dimensional_arrays_of_objects_are_unpacked():
    assert Batch(a=np.array("abc")).a == "abc"
    assert plain(Batch(a=np.array({"b": 1}))) == {"a": {"b": 1}}


def test_arrays_of_unequal_shapes_become_objects():
    made = Batch(a=[np.zeros(2), np.ones(3)]).a
    assert made.dtype == object
    assert [part.shape for part in made] == [(2,), (3,)]


def test_arrays_tensors_and_batches_are_not_copied():
    array, tensor, inner = np.arange(3), torch.arange(3), Batch(c=1)
    batch = Batch(a=array, t=tensor, i=inner, d={"a": array})
    assert batch.a is array
    assert batch.t is tensor
    assert batch.i is inner
    assert batch.d.a is array
    assert Batch({"a": array}).a is array
    assert Batch(inner).c is inner.c


def test_copy_copies_everything():
    array = np.arange(3)
    for batch in (Batch(a=array, copy=True), Batch({"a": array}, copy=True), Batch(Batch(a=array), copy=True)):
        batch.a[0] = 9
    assert array.tolist() == [0, 1, 2]


def test_dicts_become_batches():
    batch = Batch(a={"b": 1, "c": {"d": [1, 2]}}, e={})
    assert isinstance(batch.a.c, Batch)
    assert plain(batch) == {"a": {"b": 1, "c": {"d": [1, 2]}}, "e": {}}


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_lists_of_dicts_are_stacked(form):
    rows = form([{"b": 1, "c": {"d": 3}}, {"b": 2, "c": {"d": 4}}])
    expected = {"b": [1, 2], "c": {"d": [3, 4]}}
    assert plain(Batch(rows)) == expected
    assert plain(Batch(a=rows)) == {"a": expected}


def test_missing_fields_of_stacked_dicts_are_zero_and_rows_are_kept():
    assert plain(Batch([{"b": 1}, {"c": 2.5}, {}])) == {"b": [1, 0, 0], "c": [0, 2.5, 0]}
    assert plain(Batch(info=[{}, {}])) == {"info": {}}


def test_lists_that_mix_dicts_with_others_become_objects():
    made = Batch(a=[{"b": 1}, None]).a
    assert made.dtype == object
    assert made.tolist() == [{"b": 1}, None]


def test_forms_can_be_combined_and_keywords_win():
    assert plain(Batch({"a": 1}, b=2)) == {"a": 1, "b": 2}
    assert plain(Batch([{"a": 1}, {"a": 2}], b=[3, 4])) == {"a": [1, 2], "b": [3, 4]}
    assert plain(Batch({"a": 1}, a=2)) == {"a": 2}
    assert plain(Batch(None)) == plain(Batch({})) == plain(Batch([])) == {}


@pytest.mark.parametrize("wrong", [5, "text", [1, 2], np.array([1, 2])])
def test_what_cannot_be_a_batch_is_refused(wrong):
    with pytest.raises(DataError, match="a Batch is made from"):
        Batch(wrong)


def test_names_must_be_strings():
    with pytest.raises(DataError, match="must be a string, got 1"):
        Batch({1: 2})
    with pytest.raises(DataError, match="must be a string, got 1"):
        Batch().update({1: 2})


def test_tensors_that_cannot_be_stacked_are_refused():
    with pytest.raises(DataError, match="cannot be stacked"):
        Batch(a=[torch.zeros(2), torch.zeros(3)])
    with pytest.raises(DataError, match="mixes tensors with"):
        Batch(a=[torch.zeros(2), None])


# Fields


def test_attributes_and_keys_are_the_same_fields():
    batch = Batch()
    batch.a = [1, 2]
    batch["b"] = {"c": 3}
    assert batch["a"] is batch.a
    assert plain(batch) == {"a": [1, 2], "b": {"c": 3}}
    assert "a" in batch
    assert "c" not in batch
    assert 1 not in batch
    batch.b2 = 4
    del batch.a
    del batch["b2"]
    assert list(batch.keys()) == ["b"]
    for missing in ("bb", 0):
        with pytest.raises(KeyError, match=f"Batch has no field '{missing}'"):
            del batch[missing]


def test_unknown_fields_name_the_nearest():
    batch = Batch(obs=1, rew=2)
    with pytest.raises(AttributeError, match="Batch has no field 'obz'; did you mean 'obs'"):
        _ = batch.obz
    with pytest.raises(KeyError, match="Batch has no field 'obz'; did you mean 'obs'"):
        batch["obz"]
    with pytest.raises(AttributeError, match="it is empty"):
        _ = Batch().obs
    assert not hasattr(batch, "__array__")
    assert getattr(batch, "mask", None) is None


def test_dictionary_methods():
    batch = Batch(a=1, b=2)
    assert [(name, int(value)) for name, value in batch.items()] == [("a", 1), ("b", 2)]
    assert [int(value) for value in batch.values()] == [1, 2]
    assert batch.get("c") is None
    assert batch.get("c", 3) == 3
    assert batch.pop("a") == 1
    assert batch.pop("a", 7) == 7
    with pytest.raises(KeyError):
        batch.pop("a")
    assert batch.setdefault("b", 5) == 2
    assert isinstance(batch.setdefault("c", [5]), np.ndarray)
    assert dict(Batch(a=1)) == {"a": np.array(1)}


def test_fields_named_like_methods_are_read_by_key():
    batch = Batch()
    batch.update(Batch({"keys": [1, 2], "shape": [3, 4], "split": [5, 6], "items": [7, 8]}))
    assert batch["keys"].tolist() == [1, 2]
    assert batch["shape"].tolist() == [3, 4]
    assert plain(Batch.cat([batch, batch])["split"]) == [5, 6, 5, 6]
    assert plain(batch[0]["keys"]) == 1


def test_update_replaces_fields():
    batch = Batch(a=1, n={"x": 1})
    batch.update({"a": [1, 2]}, b=3)
    batch.update(Batch(n={"y": 2}))
    batch.update()
    assert plain(batch) == {"a": [1, 2], "n": {"y": 2}, "b": 3}


def test_to_dict_is_nested_and_shares_arrays():
    batch = Batch(a=[1], n={"x": Batch()})
    made = batch.to_dict()
    assert made == {"a": np.array([1]), "n": {"x": {}}}
    assert made["a"] is batch.a
    assert type(made["n"]["x"]) is dict


# Rows


@pytest.fixture
def rows():
    return Batch(a=np.arange(4), n={"x": np.arange(8.0).reshape(4, 2)}, t=torch.arange(4), e=Batch(), none=None)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, 0),
        (-1, 3),
        (np.int64(2), 2),
        (slice(1, 3), [1, 2]),
        ([0, 2], [0, 2]),
        (np.array([3, 3, 0]), [3, 3, 0]),
        (np.array([True, False, False, True]), [0, 3]),
        (torch.tensor([1, 2]), [1, 2]),
        (..., [0, 1, 2, 3]),
        (None, [[0, 1, 2, 3]]),
    ],
)
def test_index(rows, index, expected):
    part = rows[index]
    assert part.a.tolist() == expected
    assert part.t.tolist() == expected
    assert (part.n.x[..., 0] / 2).tolist() == expected
    assert part.none is None
    assert list(part.e.keys()) == []


def test_index_of_several_axes():
    batch = Batch(a=np.arange(6).reshape(2, 3), b=torch.arange(12).reshape(2, 3, 2))
    assert batch[1, 2].a == 5
    assert batch[1, 2].b.tolist() == [10, 11]
    assert batch[:, 1].a.tolist() == [1, 4]


def test_slices_are_views(rows):
    rows[1:3].a[0] = 9
    assert rows.a.tolist() == [0, 9, 2, 3]


def test_bad_index_names_the_field(rows):
    with pytest.raises(IndexError, match=r"field 'a' .*out of bounds"):
        rows[4]
    with pytest.raises(IndexError, match=r"field 'n\.s'"):
        Batch(a=np.arange(2), n={"s": 1})[0]
    with pytest.raises(IndexError, match="empty Batch"):
        Batch()[0]


def test_length_is_the_smallest_first_axis():
    assert len(Batch(a=np.zeros(3), b=np.zeros(4))) == 3
    assert len(Batch(a=np.zeros(3), n={"x": torch.zeros(2)})) == 2
    assert len(Batch(a=np.zeros(3), e=Batch(f=Batch()), none=None)) == 3
    assert len(Batch(a=np.zeros((0, 2)))) == 0


@pytest.mark.parametrize("fields", [{}, {"a": 1}, {"a": [1, 2], "b": 1}, {"a": "abc"}, {"a": {}}, {"a": None}])
def test_no_length_without_a_first_axis(fields):
    with pytest.raises(TypeError, match=r"no len\(\)"):
        len(Batch(fields))
    assert list(Batch(fields)) == []


def test_iteration_is_over_rows():
    assert [plain(row) for row in Batch(a=[1, 2], n={"x": [3, 4]})] == [
        {"a": 1, "n": {"x": 3}},
        {"a": 2, "n": {"x": 4}},
    ]


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({}, []),
        ({"a": 1}, []),
        ({"a": np.zeros((3, 4)), "b": np.zeros((3, 5))}, [3, 4]),
        ({"a": np.zeros((3, 4)), "b": np.zeros((2, 4, 5))}, [2, 4]),
        ({"a": np.zeros((3, 4)), "n": {"x": torch.zeros(3)}}, [3]),
        ({"a": np.zeros((3, 4)), "e": {}}, []),
        ({"a": np.zeros((3, 4)), "none": None}, [3, 4]),
        ({"a": "abc"}, []),
    ],
)
def test_shape(fields, shape):
    assert Batch(fields).shape == shape


def test_is_empty():
    assert Batch().is_empty()
    assert not Batch(a=Batch()).is_empty()
    assert Batch(a=Batch(b=Batch())).is_empty(recurse=True)
    assert not Batch(a=[]).is_empty(recurse=True)


# Assignment of rows


def test_assign_rows():
    batch = Batch(a=np.arange(4), n={"x": torch.zeros(4)})
    batch[1] = Batch(a=7, n={"x": 1.5})
    batch[[2, 3]] = {"a": [8, 9], "n": {"x": torch.tensor([2.0, 3.0])}}
    assert plain(batch) == {"a": [0, 7, 8, 9], "n": {"x": [0, 1.5, 2, 3]}}
    batch[:] = {"a": 4, "n": {"x": 5}}
    assert plain(batch) == {"a": [4] * 4, "n": {"x": [5.0] * 4}}


def test_fields_that_are_not_assigned_become_zero():
    batch = Batch(
        a=np.arange(1, 3), f=np.ones(2), b=np.ones(2, bool), o=np.array([1, "x"], object), n={"x": torch.ones(2)}
    )
    batch[0] = Batch(a=9)
    assert plain(batch) == {
        "a": [9, 2],
        "f": [0, 1],
        "b": [False, True],
        "o": [None, "x"],
        "n": {"x": [0, 1]},
    }
    batch[1] = Batch(n=Batch())
    assert plain(batch.n.x) == [0, 0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (9, "assigned from a Batch or dict, got ndarray"),
        (None, "assigned from a Batch or dict, got NoneType"),
        ({"b": 1}, "field 'b' does not exist, and item assignment creates none"),
        ({"a": 1, "n": {"xx": 1}}, "field 'n.xx' does not exist.*did you mean 'x'"),
        ({"a": {"b": 1}}, "field 'a' is ndarray.* cannot take Batch"),
        ({"n": 3}, "field 'n' is Batch and cannot take ndarray"),
        ({"a": [1, 2, 3]}, "field 'a' .*cannot take ndarray of shape"),
    ],
)
def test_bad_assignment_names_the_field(value, message):
    batch = Batch(n={"x": np.zeros(2)}, a=np.zeros(2))
    with pytest.raises(DataError, match=message):
        batch[0] = value


def test_nothing_is_written_where_a_name_is_wrong():
    batch = Batch(a=np.zeros(2), n={"x": np.zeros(2)})
    with pytest.raises(DataError, match="does not exist"):
        batch[0] = {"a": 1, "n": {"y": 1}}
    assert plain(batch) == {"a": [0, 0], "n": {"x": [0, 0]}}


# Joining


def test_cat():
    first, second = Batch(a=[1, 2], n={"x": torch.zeros(2)}), Batch(a=[3], n={"x": torch.ones(1)})
    made = Batch.cat([first, second])
    assert plain(made) == {"a": [1, 2, 3], "n": {"x": [0, 0, 1]}}
    assert isinstance(made.n.x, torch.Tensor)
    assert plain(first) == {"a": [1, 2], "n": {"x": [0, 0]}}
    first.cat_(second)
    assert plain(first) == plain(made)


def test_cat_skips_empty_parts_and_takes_dicts():
    assert plain(Batch.cat([])) == plain(Batch.cat([Batch(), Batch()])) == {}
    assert plain(Batch.cat([Batch(a=[1]), Batch(), {"a": [2]}])) == {"a": [1, 2]}
    assert plain(Batch.cat(Batch(a=[1]))) == {"a": [1]}
    batch = Batch()
    batch.cat_({"a": [1]})
    assert plain(batch) == {"a": [1]}


def test_cat_fills_what_is_missing():
    made = Batch.cat(
        [Batch(a=[1, 2], e=Batch(), n={"c": [1, 1]}), Batch(b=[[3.0, 4.0]], e=[5], n={"d": torch.ones(1)})]
    )
    assert plain(made) == {
        "a": [1, 2, 0],
        "b": [[0, 0], [0, 0], [3, 4]],
        "e": [0, 0, 5],
        "n": {"c": [1, 1, 0], "d": [0, 0, 1]},
    }
    assert made.a.dtype == np.int64
    made = Batch.cat([Batch(a=np.array([True])), Batch(o=np.array(["x"]))])
    assert plain(made) == {"a": [True, False], "o": [None, "x"]}


def test_cat_of_none():
    assert plain(Batch.cat([Batch(a=[1], s=None), Batch(a=[2], s=None)])) == {"a": [1, 2], "s": None}
    assert plain(Batch.cat([Batch(a=[1], s=None), Batch(a=[2], s=[3])])) == {"a": [1, 2], "s": [0, 3]}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([Batch(n={"a": 1}), Batch(n={"a": 2})], "field 'n.a' is ndarray of shape .*only arrays with a first axis"),
        ([Batch(a=[1]), Batch(a=2)], "field 'a'.*only arrays with a first axis"),
        ([Batch(a=np.zeros((2, 3))), Batch(a=np.zeros((2, 4)))], "field 'a'.*must match"),
        ([Batch(a=[1]), Batch(a={"c": [1]})], "field 'a' is Batch in one part and ndarray"),
        ([Batch(a=[1]), 5], "takes batches and dicts, got int 5"),
    ],
)
def test_bad_cat_names_the_field(parts, message):
    with pytest.raises(DataError, match=message):
        Batch.cat(parts)


def test_stack():
    parts = [Batch(a=[1, 2], t=torch.zeros(2), n={"s": 1}), Batch(a=[3, 4], t=torch.ones(2), n={"s": 2.5})]
    made = Batch.stack(parts)
    assert plain(made) == {"a": [[1, 2], [3, 4]], "t": [[0, 0], [1, 1]], "n": {"s": [1, 2.5]}}
    assert isinstance(made.t, torch.Tensor)
    batch = Batch(a=[1, 2])
    batch.stack_([Batch(a=[3, 4])], axis=1)
    assert plain(batch) == {"a": [[1, 3], [2, 4]]}
    batch = Batch()
    batch.stack_([Batch(a=1), {"a": 2}])
    assert plain(batch) == {"a": [1, 2]}


def test_stack_fills_what_is_missing():
    made = Batch.stack([Batch(a=[1, 2], n={"b": 1}), Batch(c=True, n={"d": "x"}), Batch()])
    assert plain(made) == {
        "a": [[1, 2], [0, 0], [0, 0]],
        "n": {"b": [1, 0, 0], "d": [None, "x", None]},
        "c": [False, True, False],
    }
    with pytest.raises(DataError, match="field 'a' is missing in some parts"):
        Batch.stack([Batch(a=[1]), Batch(b=[1])], axis=1)


def test_stack_of_objects():
    assert plain(Batch.stack([Batch(a="x"), Batch(a="yy")])) == {"a": ["x", "yy"]}
    assert plain(Batch.stack([Batch(a=None), Batch(a=1)])) == {"a": [None, 1]}
    unequal = Batch.stack([Batch(a=np.zeros(2)), Batch(a=np.zeros(3))]).a
    assert [part.shape for part in unequal] == [(2,), (3,)]
    with pytest.raises(DataError, match="field 'a' has unequal shapes"):
        Batch.stack([Batch(a=np.zeros(2)), Batch(a=np.zeros(3))], axis=1)


def test_stack_undoes_iteration():
    batch = Batch(a=np.arange(4), n={"x": torch.arange(8.0).reshape(4, 2)})
    assert Batch.stack(list(batch)) == batch


# Splitting


@pytest.mark.parametrize(
    ("size", "merge_last", "expected"),
    [
        (2, False, [[0, 1], [2, 3], [4]]),
        (2, True, [[0, 1], [2, 3, 4]]),
        (5, True, [[0, 1, 2, 3, 4]]),
        (3, True, [[0, 1, 2, 3, 4]]),
        (10, False, [[0, 1, 2, 3, 4]]),
        (10, True, [[0, 1, 2, 3, 4]]),
        (-1, False, [[0, 1, 2, 3, 4]]),
    ],
)
def test_split(size, merge_last, expected):
    batch = Batch(a=np.arange(5), e=Batch())
    parts = list(batch.split(size, shuffle=False, merge_last=merge_last))
    assert [part.a.tolist() for part in parts] == expected
    shuffled = list(batch.split(size, merge_last=merge_last, rng=np.random.default_rng(0)))
    assert [len(part) for part in shuffled] == [len(part) for part in expected]
    order = np.random.default_rng(0).permutation(5).tolist()
    assert [i for part in shuffled for i in part.a.tolist()] == order


def test_split_draws_from_numpys_generator_by_default():
    np.random.seed(3)  # noqa: NPY002
    order = np.random.permutation(7).tolist()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    assert [i for part in Batch(a=np.arange(7)).split(3) for i in part.a.tolist()] == order


def test_split_of_no_rows():
    assert list(Batch(a=np.zeros((0, 2))).split(3)) == []
    assert list(Batch(a=np.zeros((0, 2))).split(3, merge_last=True)) == []


def test_split_merges_only_what_is_smaller():
    parts = Batch(a=np.arange(4)).split(2, shuffle=False, merge_last=True)
    assert [part.a.tolist() for part in parts] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("size", [0, -2])
def test_split_size_must_be_positive(size):
    with pytest.raises(DataError, match=f"size={size}"):
        list(Batch(a=[1]).split(size))


# Conversion


def test_to_torch_in_place_shares_memory():
    array = np.arange(3.0)
    inner = Batch(x=array)
    batch = Batch(a=[1, 2], s=2.5, n=inner, e=Batch(), none=None)
    assert batch.to_torch() is None
    assert batch.n is inner
    assert [batch.a.dtype, batch.s.dtype, batch.n.x.dtype] == [torch.int64, torch.float64, torch.float64]
    batch.n.x[0] = 7
    assert array[0] == 7
    batch.to_torch(torch.float32)
    assert batch.a.dtype == torch.float32
    batch.to_numpy()
    assert batch.a.dtype == np.float32
    assert isinstance(batch.n.x, np.ndarray)
    assert batch.none is None


def test_to_numpy_detaches():
    batch = Batch(a=torch.ones(2, requires_grad=True) * 2)
    batch.to_numpy()
    assert batch.a.tolist() == [2, 2]


def test_objects_cannot_become_tensors():
    batch = Batch(a=[1], n={"x": "text"})
    with pytest.raises(DataError, match=r"field 'n\.x' is wrong: str 'text' cannot become a tensor"):
        batch.to_torch()
    assert isinstance(batch.a, np.ndarray)


# Zeros


def test_empty():
    batch = Batch(a=np.ones(3), t=torch.ones(3), o=np.array([1, "x", 2], object), s=5, text="x", n={"x": [1, 2, 3]})
    made = Batch.empty(batch)
    assert plain(made) == {
        "a": [0] * 3,
        "t": [0] * 3,
        "o": [None] * 3,
        "s": 0,
        "text": None,
        "n": {"x": [0] * 3},
    }
    assert plain(batch.a) == [1] * 3
    tensor, array = torch.ones(2), np.ones(2)
    Batch(t=tensor, n={"a": array}).empty_()
    assert tensor.tolist() == array.tolist() == [0, 0]
    with_rows = Batch(a=np.ones(3), o=np.array([1, "x", 2], object), n={"x": [1, 2, 3]})
    assert with_rows.empty_([0, 2]) is with_rows
    assert plain(with_rows) == {"a": [0, 1, 0], "o": [None, "x", None], "n": {"x": [0, 2, 0]}}


# Arithmetic and comparison


def test_arithmetic():
    batch = Batch(a=[1, 2], n={"x": torch.ones(2), "e": Batch()}, none=None)
    assert plain(batch + 1) == {"a": [2, 3], "n": {"x": [2, 2], "e": {}}, "none": None}
    assert plain(batch * 2.5) == {"a": [2.5, 5], "n": {"x": [2.5, 2.5], "e": {}}, "none": None}
    assert plain(batch / 2) == {"a": [0.5, 1], "n": {"x": [0.5, 0.5], "e": {}}, "none": None}
    assert plain(batch - np.int64(1)) == {"a": [0, 1], "n": {"x": [0, 0], "e": {}}, "none": None}
    assert plain(batch + batch) == plain(batch * 2)
    assert plain(batch.a) == [1, 2]


def test_batches_are_combined_by_name():
    assert plain(Batch(a=[1], b=[2]) + Batch(b=[10], a=[20])) == {"a": [21], "b": [12]}
    with pytest.raises(DataError, match="same fields on both sides"):
        Batch(a=[1]) + Batch(b=[1])
    with pytest.raises(DataError, match="field 'n' needs the same fields"):
        Batch(n={"a": 1}) + Batch(n={"b": 1})


def test_in_place_arithmetic_changes_the_arrays():
    array = np.ones(2)
    batch = same = Batch(a=array, s=1.0)
    batch += 1
    batch *= 3
    batch -= 2
    batch /= 2
    assert batch is same
    assert array.tolist() == [2, 2]
    assert batch.s == 2
    row = Batch(a=[1, 2])[0]
    row += 1
    assert row.a == 2
    with pytest.raises(DataError, match="field 'a'"):
        Batch(a=[1]).__itruediv__(2)


def test_arithmetic_with_arrays():
    """An array goes to every field, broadcast as numpy does, of either kind."""
    batch = Batch(a=[[1, 2], [3, 4]], n={"x": torch.ones(2)}, none=None)
    for weight in (np.array([10.0, 100.0]), torch.tensor([10.0, 100.0])):
        assert plain(batch * weight) == {"a": [[10, 200], [30, 400]], "n": {"x": [10, 100]}, "none": None}
    assert isinstance((batch * np.ones(2)).n.x, torch.Tensor)
    assert isinstance((batch * torch.ones(2)).a, np.ndarray)
    batch.n.x /= 4
    batch += np.array([1, 2])
    assert plain(batch) == {"a": [[2, 4], [4, 6]], "n": {"x": [1.25, 2.25]}, "none": None}
    with pytest.raises(DataError, match="field 'a'"):
        batch + np.ones(3)


@pytest.mark.parametrize("other", ["x", None, np.ones(2)])
def test_other_operands_are_refused(other):
    if not isinstance(other, np.ndarray):
        with pytest.raises(TypeError):
            Batch(a=[1, 2]) + other
    for left in (other, 1, np.float64(1)):
        with pytest.raises(TypeError):
            left + Batch(a=[1, 2])


def test_comparison_is_by_value():
    batch = Batch(a=[1.0, np.nan], n={"x": torch.ones(2)}, s="x", none=None, o=np.array([1, "x"], object))
    assert batch == copy.deepcopy(batch)
    assert batch == Batch(o=batch.o, none=None, s="x", n={"x": np.ones(2)}, a=batch.a)
    assert batch != batch[:1]
    assert batch != Batch(a=[1.0, np.nan])
    assert Batch(a=[1]) != Batch(a=[2])
    assert Batch(a=[1]) != Batch(a={"b": 1})
    assert Batch(a=[1]) != {"a": [1]}
    with pytest.raises(TypeError, match="unhashable"):
        hash(batch)


# Copies, pickles, text


def test_copy_is_shallow_in_arrays_and_deep_in_containers():
    batch = Batch(a=[1], n={"x": [2]})
    for made in (copy.copy(batch), batch.copy()):
        assert made == batch
        assert made.n is not batch.n
        assert made.n.x is batch.n.x
    deep = copy.deepcopy(batch)
    deep.n.x[0] = 9
    assert batch.n.x[0] == 2


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    batch = Batch(a=[1, 2], n={"t": torch.ones(2), "r": NamedArray(x=np.zeros(2))}, none=None, s="x")
    again = pickle.loads(pickle.dumps(batch, protocol))
    assert type(again) is Batch
    assert again == batch
    assert isinstance(again.n.t, torch.Tensor)


def test_repr():
    assert repr(Batch()) == "Batch()"
    assert (
        repr(Batch(a=np.arange(3), b=Batch(c="x"), e=None))
        == "Batch(\n    a: array([0, 1, 2]),\n    b: Batch(\n           c: 'x',\n       ),\n    e: None,\n)"
    )


def test_subclasses_stay_what_they_are():
    class Mine(Batch):
        pass

    batch = Mine(a=[1, 2])
    assert type(batch[0]) is Mine
    assert type(batch + 1) is Mine
    assert type(Mine.cat([batch, batch])) is Mine
    assert type(Mine.stack([batch, batch])) is Mine
