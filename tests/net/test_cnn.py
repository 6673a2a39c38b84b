"""Convolutions over images."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.net import GridCNN, NatureCNN, NetConfig
from argosy.net.cnn import StridedConv2d
from argosy.net.encoder import Encoder


def test_channels_last_is_the_same_image_as_channels_first():
    torch.manual_seed(0)
    first = NatureCNN((3, 40, 44), 8, 1 / 255)
    last = NatureCNN((40, 44, 3), 8, 1 / 255)
    stacked = NatureCNN((3, 40, 44, 1), 8, 1 / 255)
    for other in (last, stacked):
        other.load_state_dict(first.state_dict())
    image = torch.randint(0, 256, (5, 3, 40, 44), dtype=torch.uint8)
    torch.testing.assert_close(first(image), last(image.permute(0, 2, 3, 1)))
    torch.testing.assert_close(first(image), stacked(image.unsqueeze(-1)))


@pytest.mark.parametrize("shape", [(10, 10, 4), (7, 7, 20), (5, 4, 26), (4, 5, 26)])
def test_the_channels_of_a_grid_of_bools_are_last_however_many_they_are(shape):
    encoder = Encoder(spaces.Box(0, 1, shape, np.bool_), NetConfig())
    (cnn,) = (part for part in encoder.modules() if isinstance(part, GridCNN))
    assert (cnn.image, cnn.channels_last) == ((shape[2], *shape[:2]), True)


@pytest.mark.parametrize(("shape", "last"), [((40, 40, 50), True), ((50, 40, 40), False), ((4, 84, 84), False)])
def test_of_other_images_a_square_says_where_the_channels_are(shape, last):
    assert NatureCNN(shape, 8, 1.0).channels_last == last


def test_bytes_give_values_and_gradients_of_the_pixels_that_they_stand_for():
    torch.manual_seed(0)
    of_bytes, of_floats = NatureCNN((3, 40, 44), 8, 1 / 255), NatureCNN((3, 40, 44), 8, 1.0)
    of_floats.load_state_dict(of_bytes.state_dict())
    image = torch.randint(0, 256, (5, 3, 40, 44), dtype=torch.uint8)
    features, same = of_bytes(image), of_floats(image / 255)
    torch.testing.assert_close(features, same)
    features.square().sum().backward()
    same.square().sum().backward()
    for own, other in zip(of_bytes.parameters(), of_floats.parameters(), strict=True):
        assert own.grad.abs().sum() > 0.0
        torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("stride", "width"), [(1, 12), (2, 12), (4, 12), (4, 14)])
def test_neighbours_as_channels_are_the_same_convolution(stride, width):
    torch.manual_seed(0)
    layer = StridedConv2d(3, 5, 4, stride=stride).double()
    layer.scale = 0.5
    plain = torch.randn(6, 3, 10, width, dtype=torch.float64, requires_grad=True)
    last = plain.detach().to(memory_format=torch.channels_last).requires_grad_()
    expected = torch.nn.functional.conv2d(0.5 * plain, layer.weight, layer.bias, stride)
    learn = (layer.weight, layer.bias)
    wanted = torch.autograd.grad(expected.square().sum(), (plain, *learn))
    for x in (plain, last):
        out = layer(x)
        torch.testing.assert_close(out, expected)
        for got, want in zip(torch.autograd.grad(out.square().sum(), (x, *learn)), wanted, strict=True):
            torch.testing.assert_close(got, want)


def test_nature_cnn_on_84x84_has_3136_features():
    assert NatureCNN((4, 84, 84), None, 1.0).out_features == 3136


def test_grid_cnn_is_one_convolution_of_16_filters_by_hand():
    cnn = GridCNN((10, 10, 4), None, 1.0)
    assert cnn.out_features == 8 * 8 * 16
    grid = torch.zeros(1, 10, 10, 4, dtype=torch.bool)
    grid[0, 4, 5, 2] = True
    conv = cnn.convolutions[0]
    out = cnn(grid).reshape(16, 8, 8)
    expected = conv.bias[:, None, None].expand(16, 8, 8).clone()
    for row in range(3):  # the square is in the field of 3 x 3 outputs
        for column in range(3):
            expected[:, 4 - row, 5 - column] += conv.weight[:, 2, row, column]
    torch.testing.assert_close(out, expected.clamp(min=0.0))
    assert GridCNN((10, 10, 4), 128, 1.0)(grid).shape == (1, 128)
