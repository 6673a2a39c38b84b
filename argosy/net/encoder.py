"""From an observation of any supported space to one vector: flatten, one-hot, CNN; dict entries are concatenated.

Plain networks of a user's own can stand in their place.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import nn

from argosy.config import check_arguments
from argosy.data.protocols import Obs
from argosy.errors import ConfigError, SpaceError
from argosy.named import Registry
from argosy.net.backbone import Space
from argosy.net.cnn import CNN, GridCNN, NatureCNN, layout
from argosy.net.config import NetConfig


class VectorEncoder(nn.Module):
    """Box or MultiBinary [..., *shape] of any dtype -> [..., prod(shape)] float32."""

    def __init__(self, shape: tuple[int, ...], scale: float = 1.0) -> None:
        super().__init__()
        self.rank = len(shape)
        self.scale = scale
        self.out_features = math.prod(shape)
        self.is_identity = len(shape) == 1 and scale == 1.0
        """For float32 vectors there is nothing to do."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """[..., *shape] -> [..., out_features]."""
        x = obs if obs.dtype is torch.float32 else obs.float()
        if self.rank != 1:
            x = x.unsqueeze(-1) if self.rank == 0 else x.flatten(-self.rank)
        return x if self.scale == 1.0 else x * self.scale


class OneHotEncoder(nn.Module):
    """Discrete [...] or MultiDiscrete [..., K] integers -> concatenated one-hot vectors, float32."""

    def __init__(self, sizes: tuple[int, ...], start: tuple[int, ...], rank: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.rank = rank
        self.start = nn.Buffer(torch.tensor(start), persistent=False)
        self.out_features = sum(sizes)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """[..., *shape] -> [..., out_features]."""
        index = obs.long()
        index = (index.unsqueeze(-1) if self.rank == 0 else index.flatten(-self.rank)) - self.start
        parts = [F.one_hot(index[..., k], size) for k, size in enumerate(self.sizes)]
        return torch.cat(parts, dim=-1).float()


def leaf_spaces(
    space: Space, skip: Collection[str] = (), path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Space]]:
    """Yield what is no Dict in a space, with the keys that lead there; `skip` are keys that are left out."""
    if not isinstance(space, spaces.Dict):
        yield path, space
        return
    for key, part in space.items():
        if key not in skip:
            yield from leaf_spaces(part, path=(*path, str(key)))


def _leaf_encoder(
    space: Space, config: NetConfig, name: str, cnn_features: int | None
) -> VectorEncoder | OneHotEncoder | CNN:
    if isinstance(space, spaces.Box):
        shape, is_uint8, is_bool = space.shape, space.dtype == np.uint8, space.dtype == np.bool_
        scale = 1.0 / float(space.high.max()) if is_uint8 and config.scale_uint8 and space.high.max() > 0 else 1.0
        side = min(layout(shape, is_bool)[0][1:]) if len(shape) in (2, 3, 4) else 0
        cnn = NatureCNN if side >= NatureCNN.min_side else GridCNN
        if config.kind == "cnn" and len(shape) > 1 and side < cnn.min_side:
            raise ConfigError(
                f"NetConfig.kind is 'cnn', but {name} has shape {shape}; a CNN needs an image of at least"
                f" {cnn.min_side}x{cnn.min_side}: use kind='mlp'"
            )
        is_image = is_uint8 if cnn is NatureCNN else is_bool and len(shape) == 3
        if side >= cnn.min_side and (config.kind == "cnn" or (config.kind == "auto" and is_image)):
            return cnn(shape, cnn_features, scale, is_bool)
        return VectorEncoder(shape, scale)
    if isinstance(space, spaces.Discrete):
        return OneHotEncoder((int(space.n),), (int(space.start),), rank=0)
    if isinstance(space, spaces.MultiDiscrete):
        sizes, start = tuple(space.nvec.flatten().tolist()), tuple(space.start.flatten().tolist())
        return OneHotEncoder(sizes, start, rank=space.nvec.ndim)
    if isinstance(space, spaces.MultiBinary):
        return VectorEncoder(space.shape)
    raise SpaceError(
        f"{name} is a {type(space).__name__} space, which has no encoder; supported are Box, Discrete, MultiDiscrete,"
        " MultiBinary and Dict of these (gymnasium's FlattenObservation turns others into a Box)"
    )


class Encoder(nn.Module):
    """Observation -> one vector [..., out_features]; the entries of a Dict space are concatenated in its order.

    Args:
        space: the observation space.
        config: which entries are images.
        skip: top-level keys that are no input (an action mask).
        cnn_features: width after the convolutions; None: the flattened convolutions.

    Raises:
        SpaceError: an entry's space has no encoder.
        ConfigError: `config.kind` does not fit the space.
    """

    def __init__(
        self, space: Space, config: NetConfig, skip: Collection[str] = (), cnn_features: int | None = None
    ) -> None:
        super().__init__()
        self.paths: list[tuple[str, ...]] = []
        leaves: list[VectorEncoder | OneHotEncoder | CNN] = []
        for path, part in leaf_spaces(space, skip):
            name = "the observation" + "".join(f"[{key!r}]" for key in path)
            leaves.append(_leaf_encoder(part, config, name, cnn_features))
            self.paths.append(path)
        if not leaves:
            raise SpaceError(f"the observation space {space} has no entry to look at")
        self.leaves = nn.ModuleList(leaves)
        self.is_plain = isinstance(space, spaces.Box) and isinstance(leaves[0], VectorEncoder) and leaves[0].is_identity
        """A float vector goes through as it is."""
        self.only_images = all(isinstance(leaf, CNN) for leaf in leaves)
        self.out_features = sum(leaf.out_features for leaf in leaves)

    def forward(self, obs: Obs) -> torch.Tensor:
        """[..., *obs] -> [..., out_features]."""
        entries: Any = obs
        parts = [leaf(reduce(getitem, path, entries)) for path, leaf in zip(self.paths, self.leaves, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


_ENCODERS = Registry("encoder", has=("forward",))


register_encoder = _ENCODERS.register
"""Give a name for `NetConfig.encoder` to a class or function, called as cls(observation_space, **encoder_args).

It makes a network [N, *obs] -> [N, features]; one with an attribute `out_features` maps [..., *obs] to
[..., out_features].
"""


def make_encoder(
    space: Space, config: NetConfig, skip: Collection[str], cnn_features: int | None
) -> tuple[nn.Module, int]:
    """Return the encoder that `config` asks for, `Encoder` or one of the user's own, and the width of its features.

    Raises:
        ConfigError: it cannot be imported, does not take its arguments, or is no network of such observations.
    """
    if config.encoder is None:
        own = Encoder(space, config, skip, cnn_features)
        return own, own.out_features
    cls = _ENCODERS.load(config.encoder)
    check_arguments(cls, config.encoder_args, "NetConfig.encoder_args", first=("the observation space",))
    encoder = cls(space, **config.encoder_args)
    if not isinstance(encoder, nn.Module):
        raise ConfigError(
            f"NetConfig.encoder is {config.encoder!r}, which made a {type(encoder).__name__}; it must be an nn.Module"
        )
    encoder.is_own = True  # type: ignore[assignment]  # modules take any attribute
    encoder.eval()  # acting, tests, learning and what is loaded later must see the same network
    if any(isinstance(part, _BY_MODE) for part in encoder.modules()):
        warnings.warn(
            f"{type(encoder).__name__} holds dropout or batch normalisation, which differ between training and "
            "evaluation; policies have one mode for both (eval): the first does nothing, the second keeps its first "
            "statistics. LayerNorm needs no mode",
            stacklevel=2,
        )
    width = getattr(encoder, "out_features", None)
    if isinstance(width, int):
        return encoder, width
    plain = PlainNetwork(encoder, space, scale_uint8=config.scale_uint8)
    return plain, plain.out_features


_BY_MODE = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.BatchNorm1d, nn.BatchNorm2d)


class PlainNetwork(nn.Module):
    """A network that maps rows [N, *obs] to [N, out_features], as an encoder of observations with any leading axes.

    It is given Box and MultiBinary observations as float32, Discrete and MultiDiscrete ones as int64, dicts of these
    for Dict spaces. How wide its output is, it is asked.

    Raises:
        ConfigError: it cannot read two observations of the space, or gives no vector for each.
        SpaceError: the space has parts that no tensor holds.
    """

    def __init__(self, network: nn.Module, space: Space, *, scale_uint8: bool) -> None:
        super().__init__()
        self.network, self.space, self.scale_uint8 = network, space, scale_uint8
        try:
            with torch.no_grad():
                out: object = self(_zeros(space))
        except SpaceError:
            raise
        except Exception as error:
            raise ConfigError(f"{type(network).__name__} cannot read observations of {space}: {error}") from error
        if not isinstance(out, torch.Tensor) or out.dim() != 2 or len(out) != 2:
            shown = f"shape {tuple(out.shape)}" if isinstance(out, torch.Tensor) else f"a {type(out).__name__}"
            raise ConfigError(
                f"{type(network).__name__} gave {shown} for two observations; it must give a vector for each: "
                "[2, features]"
            )
        self.out_features = out.shape[1]

    def forward(self, obs: Obs) -> torch.Tensor:
        """[..., *obs] -> [..., out_features]."""
        lead = _lead(self.space, obs)
        out: torch.Tensor = self.network(self._rows(self.space, obs))
        return out if len(lead) == 1 else out.reshape(*lead, *out.shape[1:])

    def _rows(self, space: Space, obs: Any) -> Any:
        """[..., *obs] -> [N, *obs], as the network reads them."""
        if isinstance(space, spaces.Dict):
            return {key: self._rows(part, obs[key]) for key, part in space.items()}
        rows = obs.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            return rows.long()
        if isinstance(space, spaces.Box) and space.dtype == np.uint8 and self.scale_uint8:
            return rows.float() / max(float(space.high.max()), 1.0)
        return rows.float()


def _lead(space: Space, obs: Any) -> torch.Size:
    """Return the leading axes of observations."""
    while isinstance(space, spaces.Dict):
        key = next(iter(space))
        space, obs = space[key], obs[key]
    shape: torch.Size = obs.shape[: obs.dim() - len(space.shape or ())]
    return shape


def _zeros(space: Space) -> Any:
    """Return two observations, to ask the network with."""
    if isinstance(space, spaces.Dict):
        return {key: _zeros(part) for key, part in space.items()}
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.Discrete | spaces.MultiDiscrete):
        raise SpaceError(f"networks read Box, Discrete, MultiDiscrete, MultiBinary and Dict of these, not {space}")
    return torch.zeros(2, *(space.shape or ())) + torch.as_tensor(getattr(space, "start", 0))
