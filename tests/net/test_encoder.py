import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm import SAC, SACConfig, Task
from argosy.data import Batch, channels_last
from argosy.errors import ConfigError, SpaceError
from argosy.net import Backbone, Encoder, GridCNN, Memory, NatureCNN, NetConfig, register_encoder
from argosy.net.encoder import VectorEncoder
from argosy.policy import RolloutRequest


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


def test_images_laid_out_are_the_same():
    space = spaces.Box(0, 255, (4, 36, 40), np.uint8)
    encoder, obs = Encoder(space, NetConfig(), cnn_features=8), sample(space, 5)
    laid = channels_last(obs)
    assert laid.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(laid, obs)
    assert torch.equal(encoder(laid), encoder(obs))


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


@pytest.mark.parametrize(
    ("space", "kind", "cnn"),
    [
        (spaces.Box(0, 1, (10, 10, 10), np.bool_), "auto", GridCNN),  # as many channels as squares in a row
        (spaces.Box(0, 1, (10, 10, 4), np.bool_), "mlp", None),
        (spaces.Box(0, 1, (10, 10), np.bool_), "auto", None),
        (spaces.Box(0, 255, (20, 20, 3), np.uint8), "auto", None),
        (spaces.Box(0, 255, (20, 20, 3), np.uint8), "cnn", GridCNN),
        (spaces.Box(0, 1, (36, 36, 3), np.float32), "cnn", NatureCNN),
        (spaces.Box(0, 255, (40, 20, 40), np.uint8), "cnn", GridCNN),  # 40 channels
    ],
)
def test_which_images_go_through_which_cnn(space, kind, cnn):
    (leaf,) = Encoder(space, NetConfig(kind=kind), cnn_features=9).leaves
    assert isinstance(leaf, VectorEncoder if cnn is None else cnn)
    assert leaf(sample(space, 2)).shape == (2, leaf.out_features)


def test_a_cnn_on_an_image_of_few_pixels_is_refused():
    with pytest.raises(ConfigError, match=r"shape \(2, 20\); a CNN needs an image of at least 3x3: use kind='mlp'"):
        Encoder(spaces.Box(0, 255, (2, 20), np.uint8), NetConfig(kind="cnn"))


def test_spaces_without_encoder_are_refused_by_name():
    space = spaces.Dict({"words": spaces.Text(5)})
    with pytest.raises(SpaceError, match=r"observation\['words'\] is a Text space.*FlattenObservation"):
        Encoder(space, NetConfig())
    with pytest.raises(SpaceError, match="no entry"):
        Encoder(spaces.Dict({"mask": spaces.MultiBinary(2)}), NetConfig(), skip=("mask",))


# ----------------------------------------------------------------------------------------------------------------------
# encoders of one's own
# ----------------------------------------------------------------------------------------------------------------------


class Tripled(nn.Module):
    """Looks at a vector, `width` times over."""

    def __init__(self, space, width=3):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.out_features = width * space.shape[0]
        self.width = width

    def forward(self, obs):
        return self.weight * torch.cat([obs] * self.width, dim=-1)


class WidthAsText(nn.Module):
    out_features = "6"

    def __init__(self, space):
        super().__init__()


class NoModule:
    out_features = 6

    def __init__(self, space):
        pass


OWN = f"{__name__}:Tripled"
PAIR = spaces.Box(-1, 1, (2,), np.float32)


def test_an_encoder_of_ones_own_takes_the_place_of_the_librarys():
    backbone = Backbone(PAIR, NetConfig(encoder=OWN, hidden_sizes=()))
    assert isinstance(backbone.encoder, Tripled)
    assert backbone(torch.tensor([[1.0, 2.0]]))[0].tolist() == [[1, 2, 1, 2, 1, 2]]
    backbone = Backbone(PAIR, NetConfig(encoder=OWN, encoder_args={"width": 2}, hidden_sizes=(7,)))
    assert backbone.trunk[0].in_features == 4
    assert backbone(torch.ones(3, 2))[0].shape == (3, 7)
    assert backbone(torch.ones(3, 5, 2))[0].shape == (3, 5, 7)
    with_memory = Backbone(PAIR, NetConfig(encoder=OWN, hidden_sizes=(), memory="gru", memory_size=4))
    assert with_memory.memory.cell.input_size == 6


def test_it_may_be_registered_by_class_or_by_name():
    register_encoder("tripled", Tripled)
    register_encoder("tripled-by-name", "Tripled", module=__name__)
    for name in ("tripled", "tripled-by-name"):
        assert isinstance(Backbone(PAIR, NetConfig(encoder=name)).encoder, Tripled)
    with pytest.raises(ConfigError, match="'tripled' is registered already"):
        register_encoder("tripled", Tripled)
    with pytest.raises(ConfigError, match="needs module="):
        register_encoder("tripled-lazy", "Tripled")


@pytest.mark.parametrize("name", [OWN, "tripled-in-policies"])
def test_every_network_of_a_policy_has_one_that_acts_and_learns(name):
    if ":" not in name:
        register_encoder(name, Tripled)
    net = NetConfig(encoder=name, encoder_args={"width": 2}, hidden_sizes=(4,))
    task = Task(observation_space=PAIR, action_space=spaces.Box(-1, 1, (1,), np.float32), net=net)
    sac = SAC.make(SACConfig(), task, seed=0)
    encoders = (sac.policy.actor.encoder, sac.critic.backbone.encoder)
    assert all(isinstance(encoder, Tripled) and encoder.width == 2 for encoder in encoders)
    assert encoders[0] is not encoders[1]
    obs = np.ones((4, 2), np.float32)
    plain = RolloutRequest(obs=obs, is_evaluation=np.ones(4, bool))
    act = sac.policy.rollout(plain).action
    assert act == pytest.approx(sac.policy(Batch(obs=obs)).act.detach().numpy())
    rows = {"rew": np.ones(4, np.float32), "discount": np.ones(4, np.float32), "weight": np.ones(4, np.float32)}
    sac.update(Batch(obs=obs, act=act, obs_next=obs, **rows))
    assert all(encoder.weight.item() != 1.0 for encoder in encoders)


class Dropped(Tripled):
    def __init__(self, space):
        super().__init__(space)
        self.dropout = nn.Dropout(0.5)

    def forward(self, obs):
        return self.dropout(super().forward(obs))


def test_what_differs_between_training_and_evaluation_is_told_and_does_not():
    with pytest.warns(UserWarning, match="Dropped holds dropout or batch normalisation"):
        backbone = Backbone(PAIR, NetConfig(encoder=f"{__name__}:Dropped", hidden_sizes=()))
    assert backbone(torch.tensor([[1.0, 2.0]]))[0].tolist() == [[1, 2, 1, 2, 1, 2]]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"encoder": "tripl"}, "unknown encoder 'tripl'"),
        ({"encoder": f"{__name__}:Nothing"}, "could not be imported"),
        ({"encoder": OWN, "encoder_args": {"widht": 2}}, r"NetConfig\.encoder_args.*widht"),
        (
            {"encoder": f"{__name__}:WidthAsText"},
            "WidthAsText cannot read observations of Box",
        ),
        ({"encoder": f"{__name__}:NoModule"}, r"NoModule' is the class .*, which has no forward"),
    ],
)
def test_encoders_that_do_not_fit_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        Backbone(PAIR, NetConfig(**config))


# ----------------------------------------------------------------------------------------------------------------------
# features of samples
# ----------------------------------------------------------------------------------------------------------------------


class Adding(Memory):
    """Its state is the sum of what it saw; its output is ten times that."""

    def output(self, state):
        return 10.0 * state

    def step(self, x, state):
        return x + state


def remembering(columns=None):
    """A backbone whose features are ten times the sum of the observations since its sequence began."""
    backbone = Backbone(PAIR, NetConfig(hidden_sizes=(), memory="gru", memory_size=2))
    backbone.memory, backbone.columns = Adding("gru", 2, 2), columns
    return backbone


def sequences(**fields):
    """Two sequences of 4 rows; the second begins anew at row 2. Only the first numbers of observations count."""
    obs = torch.zeros(4, 2, 2)
    obs[..., 0] = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])
    obs_next = torch.zeros(4, 2, 2)
    obs_next[..., 0] = torch.tensor([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3], [0.4, 0.4]])
    on_reset = torch.tensor([[True, True], [False, False], [False, True], [False, False]])
    return Batch(obs=obs, obs_next=obs_next, on_reset=on_reset, **{"policy": Batch(), **fields})


def first_numbers(features):
    return features[..., 0].T.tolist()


def test_without_memory_features_are_those_of_single_rows():
    backbone, sample = Backbone(PAIR, NetConfig(hidden_sizes=(3,))), sequences(final=torch.zeros(4, 2).long())
    assert torch.equal(backbone.features(sample), backbone(sample.obs)[0])
    assert torch.equal(backbone.features_next(sample), backbone(sample.obs_next)[0])
    rows = (torch.tensor([0, 3]), torch.tensor([1, 0]))
    torch.testing.assert_close(backbone.features_next(sample, rows), backbone(sample.obs_next[rows])[0])


def test_without_stored_states_sequences_begin_from_zero():
    backbone, sample = remembering(), sequences(policy=Batch(state=torch.full((4, 2, 2), 7.0)))  # another memory's
    assert first_numbers(backbone.features(sample)) == [[10, 30, 60, 100], [100, 300, 300, 700]]
    backbone.columns = slice(0, 2)
    assert first_numbers(backbone.features(sequences())) == [[10, 30, 60, 100], [100, 300, 300, 700]]


def test_stored_states_are_read_in_their_columns_where_a_sequence_begins():
    state = torch.full((4, 2, 5), 1000.0)
    state[..., 1:3] = torch.tensor([[[5.0], [6.0]], [[0.0], [0.0]], [[8.0], [9.0]], [[0.0], [0.0]]])
    found = remembering(slice(1, 3)).features(sequences(policy=Batch(state=state)))
    assert first_numbers(found) == [[60, 80, 110, 150], [160, 360, 390, 790]]


def test_successors_are_one_step_later():
    found = first_numbers(remembering().features_next(sequences()))
    assert found == [pytest.approx(row) for row in ([11, 32, 63, 104], [101, 302, 303, 704])]


def test_with_n_step_returns_successors_come_after_the_final_row():
    final = torch.tensor([[1, 1], [2, 1], [3, 3], [3, 3]])  # the second column's first sequence ends in row 1
    sample = sequences(final=final)
    sample.obs_next[..., 0] = 0.1 * (final + 1)  # what follows the final row
    found = first_numbers(remembering().features_next(sample))
    assert found == [pytest.approx(row) for row in ([32, 63, 104, 104], [302, 302, 704, 704])]
    rows = (torch.tensor([1, 2]), torch.tensor([0, 1]))
    assert remembering().features_next(sample, rows)[:, 0].tolist() == pytest.approx([63, 704])


def test_of_some_rows_the_successors_are_those_of_all_rows():
    torch.manual_seed(0)
    backbone, sample = Backbone(PAIR, NetConfig(hidden_sizes=(3,), memory="lstm", memory_size=4)), sequences()
    rows = (torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1]))
    torch.testing.assert_close(backbone.features_next(sample, rows), backbone.features_next(sample)[rows])


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_steps_one_by_one_give_the_features_of_the_sequence(memory):
    torch.manual_seed(0)
    backbone, sample = Backbone(PAIR, NetConfig(hidden_sizes=(3,), memory=memory, memory_size=4)), sequences()
    features, state = backbone.features(sample), None
    for t in range(4):
        if state is not None:
            state = state.masked_fill(sample.on_reset[t].unsqueeze(-1), 0.0)
        found, state = backbone(sample.obs[t], state)
        torch.testing.assert_close(found, features[t])
        assert state.shape == (2, backbone.state_size)
