"""Convolutions over images: the Nature CNN, and a small one for grids of a few squares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from argosy.data import channels_last
from argosy.net.backbone import Linear


class StridedConv2d(nn.Conv2d):
    """Convolution of `scale * x` whose stride divides its kernel, without padding.

    Scaling the few weights instead of the many pixels gives the same in less time. Where channels lie last, neighbours
    in a row count as channels of one pixel, as many as the stride is long: the same sums from longer runs of memory, on
    CPUs 1.2 times as fast on the way back.
    """

    scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, C, H, W] -> [N, out_channels, ...]."""
        weight, stride = self.weight if self.scale == 1.0 else self.weight * self.scale, self.stride[0]
        n, channels, height, width = x.shape
        if x.is_cpu and width % stride == 0 and x.is_contiguous(memory_format=torch.channels_last):
            taken, kernel = channels * stride, weight.shape[2]
            x = x.permute(0, 2, 3, 1).reshape(n, height, width // stride, taken).permute(0, 3, 1, 2)
            weight = weight.reshape(-1, channels, kernel, kernel // stride, stride).permute(0, 4, 1, 2, 3)
            return F.conv2d(x, weight.reshape(-1, taken, kernel, kernel // stride), self.bias, (stride, 1))
        return F.conv2d(x, weight, self.bias, stride)


def layout(shape: tuple[int, ...], is_grid: bool = False) -> tuple[tuple[int, int, int], bool]:
    """Return channels, height and width of an image of that shape, and whether the channels lie last; see `CNN`."""
    if len(shape) == 2:
        return (1, shape[0], shape[1]), False
    if len(shape) == 4:
        return (shape[0] * shape[3], shape[1], shape[2]), True
    if is_grid or shape[0] == shape[1] or (shape[2] < shape[1] and shape[2] <= shape[0]):
        return (shape[2], shape[0], shape[1]), True
    return (shape[0], shape[1], shape[2]), False


class CNN(nn.Module, ABC):
    """Convolutions and one linear layer; a subclass says which convolutions.

    Takes images of rank 2 [H, W], 3 [C, H, W] or [H, W, C], or 4 (stacked [S, H, W, C]), of any dtype, with any leading
    axes -> [..., out_features]. The channels are last in a grid, in a square, and where they are not the longest.

    Args:
        shape: shape of one image.
        features: width of the linear layer; None: the convolutions' output, flattened.
        scale: what pixels are multiplied with.
        is_grid: of three axes the last one is that of the channels, however many these are.
    """

    min_side: ClassVar[int]
    """Height and width from which the convolutions leave at least one pixel."""

    def __init__(self, shape: tuple[int, ...], features: int | None, scale: float, is_grid: bool = False) -> None:
        super().__init__()
        self.shape, self.image, self.channels_last = shape, *layout(shape, is_grid)
        self.convolutions = self._convolutions(self.image[0], scale)
        with torch.no_grad():
            self.out_features = self.convolutions(torch.zeros(1, *self.image)).shape[1]
        self.head: nn.Module = nn.Identity()
        if features is not None:
            self.head = nn.Sequential(Linear(self.out_features, features), nn.ReLU())
            self.out_features = features

    @abstractmethod
    def _convolutions(self, channels: int, scale: float) -> nn.Sequential:
        """Make them: pixels [N, C, H, W] to flat features."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """[..., *shape] -> [..., out_features]."""
        lead = obs.shape[: obs.dim() - len(self.shape)]
        x = obs.reshape(-1, *self.shape)
        if self.channels_last:
            x = x.permute(0, 3, 1, 2) if len(self.shape) == 3 else x.permute(0, 1, 4, 2, 3)
        x = x.reshape(-1, *self.image)
        if torch.is_grad_enabled() and x.device.type == "cpu":  # the way back is 1.4x as fast with channels last
            x = channels_last(x)
        out: torch.Tensor = self.head(self.convolutions(x.float()))
        return out if len(lead) == 1 else out.reshape(*lead, -1)


class NatureCNN(CNN):
    """The three convolutions of Mnih et al. (2015), https://doi.org/10.1038/nature14236, for images from 36x36."""

    min_side = 36

    def _convolutions(self, channels: int, scale: float) -> nn.Sequential:
        first = StridedConv2d(channels, 32, 8, stride=4)
        first.scale = scale
        return nn.Sequential(
            first,
            nn.ReLU(inplace=True),
            StridedConv2d(32, 64, 4, stride=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 64, 3),
            nn.Flatten(),  # before the ReLU, whose gradient then needs no change of layout
            nn.ReLU(inplace=True),
        )


class GridCNN(CNN):
    """The one convolution of Young and Tian (2019), https://arxiv.org/abs/1903.03176, for grids of a few squares."""

    min_side = 3

    def _convolutions(self, channels: int, scale: float) -> nn.Sequential:
        layer = StridedConv2d(channels, 16, 3)
        layer.scale = scale
        return nn.Sequential(layer, nn.Flatten(), nn.ReLU(inplace=True))
