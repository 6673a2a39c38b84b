import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.net import Backbone, NetConfig, SmallForward
from argosy.net.backbone import MAX_PRODUCTS

OBS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def make(activation="relu", space=None, sizes=(16, 8)):
    space = space or spaces.Box(-1.0, 1.0, (3,))
    backbone = Backbone(space, NetConfig(hidden_sizes=sizes, activation=activation))
    return backbone, nn.Linear(backbone.out_features, 2)


def by_torch(backbone, head, obs=OBS):
    with torch.no_grad():
        return head(backbone(torch.from_numpy(obs))[0]).numpy()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("sizes", [(), (16,), (16, 8)])
def test_equals_torch(activation, sizes):
    backbone, head = make(activation, sizes=sizes)
    before = OBS.copy()
    out = SmallForward()(backbone, head, OBS)
    np.testing.assert_allclose(out, by_torch(backbone, head), rtol=1e-5, atol=1e-6)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(OBS, before)


def test_float64_observations_become_float32():
    backbone, head = make()
    out = SmallForward()(backbone, head, OBS.astype(np.float64))
    np.testing.assert_allclose(out, by_torch(backbone, head), rtol=1e-5, atol=1e-6)
    assert out.dtype == np.float32


def test_sees_updates_loads_and_new_layers():
    backbone, head = make()
    small = SmallForward()
    small(backbone, head, OBS)
    with torch.no_grad():
        head.weight.mul_(2.0)  # as an optimiser does
    np.testing.assert_allclose(small(backbone, head, OBS), by_torch(backbone, head), rtol=1e-5, atol=1e-6)
    other, other_head = make()
    backbone.load_state_dict(other.state_dict())
    np.testing.assert_allclose(small(backbone, head, OBS), by_torch(backbone, head), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(small(other, other_head, OBS), by_torch(other, other_head), rtol=1e-5, atol=1e-6)


def test_parameters_that_moved_are_read_anew():
    backbone, head = make()
    small = SmallForward()
    small(backbone, head, OBS)
    head.weight.data = head.weight.data * 2.0
    backbone.trunk[0].bias = nn.Parameter(torch.ones(16))
    assert small(backbone, head, OBS) is None  # torch does this one
    np.testing.assert_allclose(small(backbone, head, OBS), by_torch(backbone, head), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_follows_its_own_parameters(copier):
    backbone, head = make()
    small = SmallForward()
    small(backbone, head, OBS)
    small2, backbone2, head2 = copier((small, backbone, head))
    with torch.no_grad():
        head2.bias.add_(1.0)
    np.testing.assert_allclose(small2(backbone2, head2, OBS), by_torch(backbone2, head2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(small(backbone, head, OBS), by_torch(backbone, head), rtol=1e-5, atol=1e-6)


def test_leaves_to_torch_what_is_not_plain_or_not_small():
    small = SmallForward()
    assert small(*make(), {"vector": OBS}) is None
    assert small(*make(), OBS[0]) is None
    assert small(*make("elu"), OBS) is None
    assert small(*make(space=spaces.Box(0, 255, (3,), np.uint8)), OBS.astype(np.uint8)) is None
    backbone, head = make()
    assert small(backbone, nn.Sequential(head), OBS) is None
    assert small(backbone.double(), head.double(), OBS) is None
    backbone, head = make(sizes=(256, 256))
    rows = MAX_PRODUCTS // 256**2
    assert small(backbone, head, np.zeros((rows, 3), np.float32)) is not None
    assert small(backbone, head, np.zeros((rows + 1, 3), np.float32)) is None


def test_hooks_are_called_by_torch():
    backbone, head = make()
    small = SmallForward()
    assert small(backbone, head, OBS) is not None
    handle = head.register_forward_hook(lambda *_: None)
    assert small(backbone, head, OBS) is None
    handle.remove()
    assert small(backbone, head, OBS) is not None


def test_no_rows_give_no_rows():
    backbone, head = make()
    nothing = np.zeros((0, 3), np.float32)
    assert SmallForward()(backbone, head, nothing).shape == (0, 2)
    assert SmallForward()(backbone, nn.Sequential(head), nothing) is None  # torch's to answer


def test_parametrised_layers_are_left_to_torch():
    backbone, head = make()
    small = SmallForward()
    assert small(backbone, head, OBS) is not None
    nn.utils.parametrizations.weight_norm(head)
    assert small(backbone, head, OBS) is None
