import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch, channels_last
from argosy.errors import ConfigError, SpaceError
from argosy.net import Backbone, Encoder, NatureCNN, NetConfig
from argosy.net.encoder import StridedConv2d


def sample(space, *lead):
    """Random observations with leading axes, as tensors."""
    if isinstance(space, spaces.Dict):
        return {key: sample(part, *lead) for key, part in space.spaces.items()}
    flat = np.stack([np.asarray(space.sample()) for _ in range(int(np.prod(lead)))])
    return torch.from_numpy(flat.reshape(*lead, *flat.shape[1:]))


VECTORS = {
    "box": (spaces.Box(-1, 1, (3,), np.float32), 3),
    "box64": (spaces.Box(-1, 1, (2, 3), np.float64), 6),
    "scalar": (spaces.Box(-1, 1, (), np.float32), 1),
    "discrete": (spaces.Discrete(5), 5),
    "multidiscrete": (spaces.MultiDiscrete([2, 3]), 5),
    "multidiscrete2": (spaces.MultiDiscrete([[2, 3], [4, 5]]), 14),
    "multibinary": (spaces.MultiBinary(4), 4),
    "small image": (spaces.Box(0, 255, (8, 8, 3), np.uint8), 192),
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("lead", [(4,), (3, 2)])
def test_every_space_becomes_a_float_vector(name, lead):
    space, width = VECTORS[name]
    encoder = Encoder(space, NetConfig())
    assert encoder.out_features == width
    out = encoder(sample(space, *lead))
    assert out.shape == (*lead, width)
    assert out.dtype == torch.float32


def test_one_hot_by_hand():
    encoder = Encoder(spaces.Discrete(3, start=5), NetConfig())
    assert encoder(torch.tensor([5, 7])).tolist() == [[1, 0, 0], [0, 0, 1]]
    encoder = Encoder(spaces.MultiDiscrete([2, 3]), NetConfig())
    assert encoder(torch.tensor([[1, 0]])).tolist() == [[0, 1, 1, 0, 0]]


def test_uint8_is_divided_by_its_upper_bound_unless_told_not_to():
    space = spaces.Box(0, 50, (2,), np.uint8)
    obs = torch.tensor([[0, 25]], dtype=torch.uint8)
    assert Encoder(space, NetConfig())(obs).tolist() == [[0.0, 0.5]]
    assert Encoder(space, NetConfig(scale_uint8=False))(obs).tolist() == [[0.0, 25.0]]


def test_dict_entries_are_concatenated_without_the_skipped_one():
    space = spaces.Dict(
        {"a": spaces.Box(-1, 1, (2,)), "mask": spaces.MultiBinary(3), "inner": spaces.Dict({"c": spaces.Discrete(2)})}
    )
    encoder = Encoder(space, NetConfig(), skip=("mask",))
    obs = {"a": torch.tensor([[7.0, 8.0]]), "mask": torch.ones(1, 3), "inner": {"c": torch.tensor([1])}}
    assert encoder(obs).tolist() == [[7, 8, 0, 1]]
    assert encoder(Batch(obs)).tolist() == [[7, 8, 0, 1]]


@pytest.mark.parametrize("shape", [(4, 84, 84), (84, 84, 3), (84, 84), (4, 36, 40, 3)])
@pytest.mark.parametrize("lead", [(2,), (3, 2)])
def test_images_go_through_the_cnn(shape, lead):
    space = spaces.Box(0, 255, shape, np.uint8)
    encoder = Encoder(space, NetConfig(), cnn_features=16)
    assert isinstance(encoder.leaves[0], NatureCNN)
    assert encoder.only_images
    assert encoder(sample(space, *lead)).shape == (*lead, 16)


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


def test_images_laid_out_are_the_same():
    space = spaces.Box(0, 255, (4, 36, 40), np.uint8)
    encoder, obs = Encoder(space, NetConfig(), cnn_features=8), sample(space, 5)
    laid = channels_last(obs)
    assert laid.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(laid, obs)
    assert torch.equal(encoder(laid), encoder(obs))


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


def test_image_and_vector_meet_in_the_hidden_layers():
    space = spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "speed": spaces.Box(-1, 1, (2,))})
    backbone = Backbone(space, NetConfig(hidden_sizes=(7,), cnn_features=5))
    assert backbone.encoder.out_features == 7
    features, state = backbone(sample(space, 3))
    assert features.shape == (3, 7)
    assert state is None


def test_images_alone_need_no_hidden_layers():
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    assert Backbone(space, NetConfig(hidden_sizes=(7,), cnn_features=5)).out_features == 5
    assert Backbone(space, NetConfig(cnn_features=5), drop_last=True).out_features == 64  # 1x1 pixel


def test_kind_mlp_flattens_images_and_kind_cnn_reads_float_ones():
    assert Encoder(spaces.Box(0, 255, (40, 40), np.uint8), NetConfig(kind="mlp")).out_features == 1600
    encoder = Encoder(spaces.Box(0, 1, (40, 40), np.float32), NetConfig(kind="cnn"), cnn_features=9)
    assert encoder.out_features == 9


def test_a_cnn_on_a_small_image_is_refused():
    with pytest.raises(ConfigError, match=r"36x36.*kind='mlp'"):
        Encoder(spaces.Box(0, 255, (20, 20), np.uint8), NetConfig(kind="cnn"))


def test_spaces_without_encoder_are_refused_by_name():
    space = spaces.Dict({"words": spaces.Text(5)})
    with pytest.raises(SpaceError, match=r"observation\['words'\] is a Text space.*FlattenObservation"):
        Encoder(space, NetConfig())
    with pytest.raises(SpaceError, match="no entry"):
        Encoder(spaces.Dict({"mask": spaces.MultiBinary(2)}), NetConfig(), skip=("mask",))
