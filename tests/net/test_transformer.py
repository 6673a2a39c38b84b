import pytest
import torch

from argosy.net import NetConfig
from argosy.net.transformer import CausalTransformer


@pytest.mark.parametrize("heads", [1, 2])
def test_tokens_see_themselves_and_those_of_their_segment_before_them(heads):
    torch.manual_seed(0)
    net = CausalTransformer(NetConfig(hidden_sizes=(8, 8)), heads)
    segment = torch.tensor([[0, 0, 0, 1, 1]]).expand(2, -1)
    x = torch.randn(2, 5, 8)
    before = net(x, segment)
    for changed in range(5):
        other = x.clone()
        other[0, changed] += 1.0
        moved = (net(other, segment) != before).any(-1)
        sees = [at >= changed and (at > 2) == (changed > 2) for at in range(5)]
        assert moved[0].tolist() == sees
        assert not moved[1].any()
