"""Random sequences of operations on a Batch, each done as well on a plain-Python model of it: nested dicts of lists."""

import copy
import pickle

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from argosy.data import Batch, as_tensors, to_numpy
from argosy.data import tree as trees

# Every field: its path, and how to make one row of it from a number. Values are small integers, so all sums are exact.
FIELDS = {
    ("a",): int,
    ("b",): lambda k: [float(k), float(-k)],
    ("flag",): lambda k: k % 2 == 1,
    ("n", "c"): lambda k: float(k),
    ("n", "m", "d"): lambda k: [[k], [2 * k]],
}
ZERO = {path: make(0) for path, make in FIELDS.items()}
numbers = st.lists(st.integers(-3, 3), max_size=5)
some_fields = st.sets(st.sampled_from(sorted(FIELDS)), min_size=1)


def build(table):
    """A Batch with the columns of a model {path: rows}."""
    batch = Batch()
    for path, rows in table.items():
        node = batch
        for name in path[:-1]:
            node = node.setdefault(name, Batch())
        width = np.asarray(ZERO[path])
        node[path[-1]] = np.asarray(rows, width.dtype).reshape(len(rows), *width.shape)
    return batch


def columns(batch):
    """The model of a Batch."""
    return {tuple(path.split(".")): leaf.tolist() for path, leaf in trees.leaves(batch) if not isinstance(leaf, Batch)}


def both(value, fn):
    """Apply fn to every number of a row."""
    return [both(part, fn) for part in value] if isinstance(value, list) else fn(value)


class BatchMachine(RuleBasedStateMachine):
    @initialize(rows=numbers)
    def start(self, rows):
        self.model = {path: [make(k) for k in rows] for path, make in FIELDS.items()}
        self.batch = build(self.model)

    @property
    def size(self):
        return len(next(iter(self.model.values())))

    def pick(self, order):
        self.model = {path: [rows[i] for i in order] for path, rows in self.model.items()}

    @rule(start=st.integers(-6, 6), stop=st.integers(-6, 6), step=st.integers(1, 3))
    def take_slice(self, start, stop, step):
        self.batch = self.batch[start:stop:step]
        self.pick(range(self.size)[start:stop:step])

    @rule(data=st.data())
    def take(self, data):
        order = data.draw(st.lists(st.integers(-self.size, self.size - 1), max_size=8) if self.size else st.just([]))
        self.batch = self.batch[np.asarray(order, np.int64)]
        self.pick(order)

    @rule(data=st.data())
    def mask(self, data):
        keep = data.draw(st.lists(st.booleans(), min_size=self.size, max_size=self.size))
        self.batch = self.batch[np.asarray(keep, bool)]
        self.pick([i for i, kept in enumerate(keep) if kept])

    @rule(data=st.data(), given=some_fields)
    def assign(self, data, given):
        given = [path for path in sorted(given) if path in self.model]
        at = data.draw(st.lists(st.integers(0, self.size - 1), unique=True) if self.size else st.just([]))
        rows = {path: [FIELDS[path](i + 5) for i in at] for path in given}
        self.batch = copy.deepcopy(self.batch)
        self.batch[np.asarray(at, np.int64)] = build(rows)
        for path, column in self.model.items():
            for k, i in enumerate(at):
                column[i] = rows[path][k] if path in rows else ZERO[path]

    @precondition(lambda self: self.size < 40)
    @rule(rows=numbers, given=some_fields, in_place=st.booleans(), first=st.booleans())
    def cat(self, rows, given, in_place, first):
        other = {path: [FIELDS[path](k) for k in rows] for path in sorted(given)}
        if in_place:
            self.batch.cat_(build(other))
        else:
            self.batch = Batch.cat([build(other), self.batch] if first else [self.batch, build(other)])
        size = self.size
        for path in {**self.model, **other}:
            mine = self.model.get(path, [ZERO[path]] * size)
            theirs = other.get(path, [ZERO[path]] * len(rows))
            self.model[path] = theirs + mine if first and not in_place else mine + theirs

    @precondition(lambda self: self.size)
    @rule()
    def rows_stacked_again(self):
        self.batch = Batch.stack(list(self.batch))

    @precondition(lambda self: self.size and self.batch.shape)  # a Batch without arrays has no axes
    @rule()
    def stacked_with_itself(self):
        twice = Batch.stack([self.batch, self.batch], axis=1)
        assert twice.shape[:2] == [self.size, 2]
        self.batch = twice[:, 1]

    @precondition(lambda self: self.size)
    @rule(size=st.integers(1, 7), merge_last=st.booleans(), seed=st.none() | st.integers(0, 99))
    def split(self, size, merge_last, seed):
        rng = None if seed is None else np.random.default_rng(seed)
        parts = list(self.batch.split(size, shuffle=seed is not None, merge_last=merge_last, rng=rng))
        assert all(len(part) == size for part in parts[:-1])
        assert len(parts[-1]) <= size or (merge_last and len(parts[-1]) < 2 * size)
        if merge_last and len(parts) > 1:
            assert len(parts[-1]) >= size
        self.batch = Batch.cat(parts)
        if seed is not None:
            self.pick(np.random.default_rng(seed).permutation(self.size).tolist())

    @rule(factor=st.integers(-2, 2), in_place=st.booleans())
    def scale(self, factor, in_place):
        if ("flag",) in self.model:  # numbers only
            self.remove(("flag",))
        if in_place:
            self.batch = copy.deepcopy(self.batch)
            self.batch *= factor
        else:
            self.batch = self.batch * factor
        self.model = {path: both(rows, lambda value: value * factor) for path, rows in self.model.items()}
        self.clip()

    @rule()
    def add_itself(self):
        if ("flag",) in self.model:
            self.remove(("flag",))
        self.batch = self.batch + self.batch
        self.model = {path: both(rows, lambda value: 2 * value) for path, rows in self.model.items()}
        self.clip()

    def clip(self):
        """Keep numbers small, so that floats stay exact."""
        self.batch = build({path: both(rows, lambda v: v % 7) for path, rows in self.model.items()})
        self.model = {path: both(rows, lambda v: v % 7) for path, rows in self.model.items()}

    def remove(self, path):
        node = self.batch
        for name in path[:-1]:
            node = node[name]
        node.pop(path[-1])
        del self.model[path]

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def remove_a_field(self, data):
        path = data.draw(st.sampled_from(sorted(self.model)))
        if not (path == ("a",) and set(self.model) == {("a",), ("flag",)}):  # arithmetic needs one that is no flag
            self.remove(path)
        if set(self.model) == {("flag",)}:
            self.set_a_field(("a",))

    @rule(path=st.sampled_from(sorted(FIELDS)))
    def set_a_field(self, path):
        rows = [FIELDS[path](k) for k in range(self.size)]
        self.model[path] = rows
        node = self.batch
        for name in path[:-1]:
            node = node.setdefault(name, {})
        setattr(node, path[-1], build({path: rows})[path[0]] if len(path) == 1 else _inner(build({path: rows}), path))

    @rule(index=st.none() | st.just(slice(1, None, 2)))
    def empty(self, index):
        self.batch = Batch.empty(self.batch, index)
        for path, rows in self.model.items():
            rows[:] = [ZERO[path] if index is None or i % 2 else row for i, row in enumerate(rows)]

    @rule()
    def through_torch(self):
        tensors = as_tensors(self.batch)
        assert all(isinstance(leaf, torch.Tensor | Batch) for _, leaf in trees.leaves(tensors))
        assert tensors == self.batch
        self.batch = to_numpy(tensors)

    @rule(in_place=st.booleans())
    def to_and_fro(self, in_place):
        before = self.batch if in_place else copy.deepcopy(self.batch)
        before.to_torch()
        assert before == self.batch
        before.to_numpy()
        self.batch = before

    @rule()
    def pickled(self):
        self.batch = pickle.loads(pickle.dumps(self.batch))

    @rule()
    def copies_are_apart(self):
        shallow = self.batch.copy()
        shallow.extra = 1
        assert "extra" not in self.batch
        deep = copy.deepcopy(self.batch)
        deep.empty_()
        self.batch = self.batch.copy()

    @invariant()
    def same_as_model(self):
        if not hasattr(self, "model"):
            return
        assert columns(self.batch) == self.model
        assert len(self.batch) == self.size
        assert self.batch.shape[:1] == [self.size] or any(not node for node in _nodes(self.batch))
        assert len(list(self.batch)) == self.size
        for path in self.model:
            leaf = self.batch
            for name in path:
                leaf = getattr(leaf, name)
            assert leaf.dtype == np.asarray(ZERO[path]).dtype


def _inner(batch, path):
    for name in path:
        batch = batch[name]
    return batch


def _nodes(batch):
    yield list(batch.keys())
    for value in batch.values():
        if isinstance(value, Batch):
            yield from _nodes(value)


BatchMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestBatchAgainstModel = BatchMachine.TestCase
