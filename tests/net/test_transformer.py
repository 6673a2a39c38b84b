import pytest
import torch

from argosy.net import NetConfig
from argosy.net.transformer import Block, CausalTransformer

EVERY = slice(None)


@pytest.mark.parametrize("heads", [1, 2])
def test_tokens_see_themselves_and_those_of_their_segment_before_them(heads):
    torch.manual_seed(0)
    net = CausalTransformer(NetConfig(hidden_sizes=(8, 8)), heads)
    segment = torch.tensor([[0, 0, 0, 1, 1]]).expand(2, -1)
    x = torch.randn(2, 5, 8)
    before = net(x, segment, EVERY)
    for changed in range(5):
        other = x.clone()
        other[0, changed] += 1.0
        moved = (net(other, segment, EVERY) != before).any(-1)
        sees = [at >= changed and (at > 2) == (changed > 2) for at in range(5)]
        assert moved[0].tolist() == sees
        assert not moved[1].any()


@pytest.mark.parametrize("asked", [slice(1, None, 3), slice(-1, None)])
def test_outcomes_that_are_asked_for_are_those_of_all(asked):
    torch.manual_seed(0)
    net = CausalTransformer(NetConfig(hidden_sizes=(8, 8)), 2)
    segment, x = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]]).expand(3, -1), torch.randn(3, 8, 8)
    torch.testing.assert_close(net(x, segment, asked), net(x, segment, EVERY)[:, asked])


def test_a_block_computes_what_torch_s_own_does():
    torch.manual_seed(0)
    block = Block(16, 2, "gelu")
    peer = torch.nn.TransformerEncoderLayer(16, 2, 64, 0.0, torch.nn.GELU(), batch_first=True, norm_first=True)
    ours = (block.query_key_value, block.out, block.mlp[0], block.mlp[2])
    attention = peer.self_attn
    with torch.no_grad():
        attention.in_proj_weight.copy_(ours[0].weight.t())
        attention.in_proj_bias.copy_(ours[0].bias)
        for layer, own in zip((attention.out_proj, peer.linear1, peer.linear2), ours[1:], strict=True):
            layer.weight.copy_(own.weight.t())
            layer.bias.copy_(own.bias)
    x, seen = torch.randn(3, 6, 16), torch.ones(6, 6, dtype=torch.bool).tril()
    torch.testing.assert_close(block(x, seen.expand(3, 1, 6, 6)), peer(x, src_mask=~seen))
