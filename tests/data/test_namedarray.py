import copy
import pickle

import numpy as np
import pytest
import torch
import typed

from argosy.data import (
    Batch,
    NamedArray,
    array_like,
    flatten,
    from_dict,
    from_flattened,
    namedarray,
    recursive_aggregate,
    recursive_apply,
    size_bytes,
)
from argosy.errors import DataError


@namedarray
class Inner(NamedArray):
    h: np.ndarray
    c: np.ndarray | None = None


@namedarray
class Step(NamedArray):
    obs: object
    reward: np.ndarray | None = None
    state: Inner | None = None


@namedarray
class LongStep(Step):
    extra: object = None
    reward: np.ndarray | None = np.zeros(1)


@pytest.fixture
def step():
    return Step(
        obs={"image": np.arange(12).reshape(3, 4), "goal": torch.arange(3.0)},
        reward=np.array([1.0, 2.0, 3.0]),
        state=Inner(h=np.arange(3)),
    )


# Declaring and making


def test_fields_by_keyword_and_by_position():
    step = Step(1, state=2)
    assert (step.obs, step.reward, step.state) == (1, None, 2)
    assert step.fields == ("obs", "reward", "state")
    assert Step(state=2, obs=1).fields == ("obs", "reward", "state")


def test_inherited_fields_come_first_and_defaults_can_change():
    step = LongStep(obs=1)
    assert step.fields == ("obs", "reward", "state", "extra")
    assert step.reward.tolist() == [0]


@pytest.mark.parametrize(
    ("args", "fields", "message"),
    [
        ((), {"obz": 1}, "Step has no field 'obz'; did you mean 'obs'"),
        ((), {"reward": 1}, "Step needs 'obs'"),
        ((1,), {"obs": 1}, r"\['obs'\] given twice"),
        ((1, 2, 3, 4), {}, "Step has 3 fields, got 4 values"),
    ],
)
def test_wrong_fields_are_refused(args, fields, message):
    with pytest.raises(DataError, match=message):
        Step(*args, **fields)


def test_fields_made_on_the_spot():
    record = NamedArray(a=np.zeros(2), n=NamedArray(b=None))
    assert record.fields == ("a", "n")
    assert record.n.b is None
    with pytest.raises(DataError, match="by keyword"):
        NamedArray(np.zeros(2))


@pytest.mark.parametrize("name", ["metadata", "keys", "shape", "_hidden"])
def test_names_of_methods_cannot_be_fields(name):
    with pytest.raises(DataError, match=f"no field can be called '{name}'"):
        namedarray(type("Wrong", (NamedArray,), {"__annotations__": {name: "object"}}))


def test_the_decorator_is_for_subclasses():
    with pytest.raises(DataError, match=r"write class Plain\(NamedArray\)"):

        @namedarray
        class Plain:
            obs: np.ndarray


def test_class_variables_are_no_fields():
    @namedarray
    class WithConstant(NamedArray):
        a: object
        version: "ClassVar[int]" = 3  # noqa: F821

    assert WithConstant(a=1).fields == ("a",)
    assert WithConstant.version == 3


# Access


def test_fields_are_fixed(step):
    step.reward = None
    step["obs"] = 1
    assert step.obs == 1
    with pytest.raises(AttributeError, match="Step has no field 'rewrad'; did you mean 'reward'"):
        step.rewrad = 1
    with pytest.raises(AttributeError, match="did you mean 'reward'"):
        _ = step.rewrad
    with pytest.raises(KeyError, match="did you mean 'reward'"):
        step["rewrad"] = 1
    with pytest.raises(KeyError, match="did you mean 'reward'"):
        step["rewrad"]
    with pytest.raises(AttributeError, match="cannot be removed"):
        del step.reward


def test_access_by_key(step):
    assert step["reward"] is step.reward
    assert "reward" in step
    assert "h" not in step
    assert list(step.keys()) == ["obs", "reward", "state"]
    assert next(iter(step.values())) is step.obs
    assert dict(step.items())["state"] is step.state
    assert dict(**step).keys() == step.keys()
    assert step.get("nothing") is None
    assert step.to_dict()["state"] == {"h": step.state.h, "c": None}


def test_length_is_that_of_a_batch(step):
    assert len(step) == 3
    assert step.shape == [3]
    assert [row.reward for row in step] == [1, 2, 3]
    assert step.length() == 3
    with pytest.raises(IndexError, match="axis 1"):
        step.length(1)
    assert Step(obs=np.zeros((2, 5))).length(1) == 5
    with pytest.raises(IndexError, match="no field of Step is an array"):
        Step(obs=None).length()


# Rows


@pytest.mark.parametrize(
    ("index", "expected"),
    [(1, 2.0), (slice(0, 2), [1.0, 2.0]), ([2, 0], [3.0, 1.0]), (np.array([False, True, True]), [2.0, 3.0])],
)
def test_index_keeps_classes_and_none(step, index, expected):
    part = step[index]
    assert type(part) is Step
    assert type(part.state) is Inner
    assert type(part.obs) is dict
    assert part.reward.tolist() == expected
    assert (part.obs["image"][..., 0] / 4 + 1).tolist() == expected
    assert (part.obs["goal"] + 1).tolist() == expected
    assert part.state.c is None


def test_bad_index_names_the_field(step):
    step.state.h = np.zeros(1)
    with pytest.raises(IndexError, match=r"field 'state\.h'"):
        step[2]


def test_assign_rows(step):
    step[0] = 7
    assert step.reward.tolist() == [7, 2, 3]
    assert step.obs["goal"].tolist() == [7, 1, 2]
    step[[1, 2]] = step[[2, 1]]
    assert step.reward.tolist() == [7, 3, 2]
    assert step.obs["image"][:, 0].tolist() == [7, 8, 4]
    step[0] = Step(obs={"image": 0, "goal": 0}, state=Inner(h=5))
    assert step.reward.tolist() == [7, 3, 2]
    assert step.obs["goal"].tolist() == [0, 2, 1]
    assert step.state.h.tolist() == [5, 2, 1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (NamedArray(obs=None), r"lacks \['reward', 'state'\]"),
        (LongStep(obs=None), "field 'extra' does not exist"),
        (Step(obs=None, state=Inner(h=1, c=1)), r"field 'state\.c' is None and cannot take"),
        (Step(obs=None, reward=Inner(h=1)), "field 'reward' is ndarray.* cannot take Inner"),
        (Step(obs=None, reward=np.zeros(2)), "field 'reward' .*cannot take"),
    ],
)
def test_bad_assignment_names_the_field(step, value, message):
    with pytest.raises(DataError, match=message):
        step[0] = value


def test_arithmetic(step):
    twice = step + step
    assert type(twice) is Step
    assert twice.reward.tolist() == [2, 4, 6]
    assert twice.state.c is None
    weights = np.array([1.0, 10.0, 100.0])
    assert (NamedArray(a=np.arange(3), none=None) * weights).a.tolist() == [0, 10, 200]
    step.obs = None
    step.state = None
    step /= 2
    assert step.reward.tolist() == [0.5, 1, 1.5]
    with pytest.raises(DataError, match="same fields"):
        step + NamedArray(a=1)


# Trees


def test_recursive_apply(step):
    made = recursive_apply(step, lambda array: array.reshape(-1)[:2])
    assert type(made) is Step
    assert made.obs["image"].tolist() == [0, 1]
    assert made.state.h.tolist() == [0, 1]
    assert made.state.c is None
    with pytest.raises(DataError, match=r"field 'obs\.image' \(ndarray of shape \(3, 4\)"):
        recursive_apply(step, lambda array: array.reshape(5))


def test_recursive_aggregate(step):
    other = copy.deepcopy(step)
    other.state = None
    other.reward = None
    made = recursive_aggregate([step, other], np.stack)
    assert type(made) is NamedArray
    assert made.reward.tolist() == [[1, 2, 3], [0, 0, 0]]
    assert made.state.h.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert made.state.c is None
    assert made.obs["goal"].shape == (2, 3)
    made = recursive_aggregate([NamedArray(a=torch.ones(1)), NamedArray(a=None)], torch.cat)
    assert made.a.tolist() == [1, 0]


def test_recursive_aggregate_names_the_field(step):
    with pytest.raises(DataError, match=r"field 'state\.h'.*all input arrays must have the same shape"):
        recursive_aggregate([step, Step(**{**step, "state": step.state[:2]})], np.stack)
    with pytest.raises(DataError, match="the list is empty"):
        recursive_aggregate([], np.stack)


def test_from_dict():
    values = {"a": np.zeros(2), "n": {"b": np.ones(2), "e": {}}}
    record = from_dict(values)
    assert record.n.b is values["n"]["b"]
    assert record.n.e is None
    assert values["n"]["e"] == {}
    assert from_dict({}) is None


def test_flatten(step):
    pairs = flatten(step)
    assert [name for name, _ in pairs] == ["obs.image", "obs.goal", "reward", "state.h", "state.c"]
    again = from_flattened(pairs)
    assert type(again) is NamedArray
    assert again.obs.image is step.obs["image"]
    assert again.state.c is None
    assert flatten(again) == pairs
    assert from_flattened([]).fields == ()


def test_array_like(step):
    made = array_like(step, 2)
    assert made.reward.tolist() == [2, 2, 2]
    assert made.obs["image"].dtype == step.obs["image"].dtype
    assert made.obs["goal"].tolist() == [2, 2, 2]
    assert made.state.c is None
    assert step.reward.tolist() == [1, 2, 3]


def test_size_bytes(step):
    assert size_bytes(step) == 12 * 8 + 3 * 4 + 3 * 8 + 3 * 8
    assert size_bytes(Step(obs=None)) == 0


def test_records_and_batches_nest(step):
    batch = Batch(rollout=step, a=np.arange(3))
    assert type(batch[1].rollout) is Step
    both = Batch.cat([batch, batch])
    assert type(both.rollout) is Step
    assert both.rollout.state.h.tolist() == [0, 1, 2, 0, 1, 2]
    assert type(both.rollout.obs) is dict
    batch[0] = Batch(a=9, rollout=step[2])
    assert batch.rollout.reward.tolist() == [3, 2, 3]
    record = Step(obs=Batch(x=np.arange(3)))
    assert record[1].obs.x == 1


# Metadata


def test_metadata_travels_with_copies_and_pickles_alone(step):
    assert dict(step.metadata) == {}
    step.register_metadata(worker=3, tag="x")
    for again in (pickle.loads(pickle.dumps(step)), copy.deepcopy(step)):
        assert dict(again.metadata) == {"worker": 3, "tag": "x"}
    for other in (step[0], recursive_apply(step, np.copy), recursive_aggregate([step], np.stack)):
        assert dict(other.metadata) == {}
    with pytest.raises(TypeError):
        step.metadata["worker"] = 4
    assert step.pop_metadata("tag") == "x"
    assert dict(step.metadata) == {"worker": 3}
    with pytest.raises(KeyError):
        step.pop_metadata("tag")
    step.clear_metadata()
    assert dict(step.metadata) == {}


def test_metadata_cannot_have_a_fields_name(step):
    with pytest.raises(DataError, match=r"\['reward'\]"):
        step.register_metadata(reward=1)


# Statistics


def test_statistics_of_a_field():
    record = NamedArray(version=np.array([[3, -1], [5, 3]]), t=torch.tensor([1.0, 4.0]), none=None)
    assert record.unique_of("version") == [-1, 3, 5]
    assert record.unique_of("version", exclude=[-1]) == [3, 5]
    assert record.average_of("version") == pytest.approx(11 / 3)
    assert record.average_of("version", ignore_negative=False) == 2.5
    assert (record.min_of("version"), record.max_of("version")) == (3, 5)
    assert record.min_of("version", ignore_negative=False) == -1
    assert record.average_of("t") == 2.5
    assert record.max_of("none") is None
    assert record.unique_of("none") == []
    assert NamedArray(version=np.array([-1])).average_of("version") is None
    with pytest.raises(KeyError, match="did you mean 'version'"):
        record.max_of("versoin")


# Pickles and copies


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_classes(step, protocol):
    again = pickle.loads(pickle.dumps(step, protocol))
    assert type(again) is Step
    assert type(again.state) is Inner
    assert again == step
    again.reward = None


def test_pickle_out_of_band_copies_no_array(step):
    buffers = []
    data = pickle.dumps(step, protocol=5, buffer_callback=buffers.append)
    again = pickle.loads(data, buffers=buffers)
    again.reward[0] = 9
    assert step.reward[0] == 9


@pytest.mark.parametrize("protocol", [4, 5])
def test_pickle_keeps_arrays_of_every_kind(protocol):
    record = NamedArray(
        none=None,
        empty=np.zeros((0, 3), np.float32),
        scalar=np.array(5),
        half=np.ones((2, 2), np.float16),
        columns=np.asfortranarray(np.arange(6).reshape(2, 3)),
        strided=np.arange(10)[::2],
        objects=np.array([{"a": 1}, None], dtype=object),
        inner={"tensor": torch.ones(2), "record": NamedArray(x=np.arange(3, dtype=complex))},
    )
    record.register_metadata(version=3)
    again = pickle.loads(pickle.dumps(record, protocol))
    assert again == record
    assert again.fields == record.fields
    assert again.metadata == {"version": 3}
    for name in ("empty", "scalar", "half", "columns", "strided"):
        assert again[name].dtype == record[name].dtype
        assert again[name].flags.writeable


def test_copies(step):
    shallow, deep = copy.copy(step), copy.deepcopy(step)
    assert shallow.state is not step.state
    assert shallow.reward is step.reward
    deep.reward[0] = 9
    assert step.reward[0] == 1
    assert shallow == step
    assert deep != step


def test_repr():
    assert repr(Inner(h=np.arange(2))) == "Inner(\n    h: array([0, 1]),\n    c: None,\n)"


def test_the_typed_program_runs():
    assert typed.memory.hidden.tolist() == [0, 0]
    assert typed.memory.cell is None
    assert typed.act(Batch(obs=np.eye(3))).act.tolist() == [0, 1, 2]
