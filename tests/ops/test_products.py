import pytest
import torch

from argosy.ops import products
from argosy.ops.products import affine, affine_each

SHAPE = (200, 160, 144)  # rows, inputs, outputs: large, and no two are equal


@pytest.fixture(autouse=True)
def _whoever_made_the_processor(monkeypatch):
    monkeypatch.setattr(products, "on", True)


def layer(*lead: int, transposed: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    rows, size_in, size_out = SHAPE
    weight = torch.randn(*lead, size_out, size_in).mT if transposed else torch.randn(*lead, size_in, size_out)
    bias = torch.randn(*lead, *(1,) * len(lead), size_out)
    return torch.randn(*lead, rows, size_in), weight, bias


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    shapes = []
    plain = products.linear_pointwise

    def kernel(a, weight, *rest):
        shapes.append((*a.shape, weight.shape[0]))
        return plain(a, weight, *rest)

    monkeypatch.setattr(products, "linear_pointwise", kernel)
    return shapes


def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("transposed", [False, True])
def test_values_and_gradients_are_those_of_plain_products(transposed, monkeypatch):
    shapes = counted(monkeypatch)
    leaves = [part.requires_grad_() for part in layer(transposed=transposed)]
    x, weight, bias = leaves
    rows, size_in, size_out = SHAPE
    y, plain = affine(*leaves), torch.addmm(bias, x, weight)
    assert shapes == [(rows, size_in, size_out)]  # the kernel was called at all
    same(y, plain)
    for gradient in (torch.randn_like(plain), torch.ones(()).expand_as(plain), torch.randn(size_out, rows).t()):
        found = torch.autograd.grad(y, leaves, gradient, retain_graph=True)
        for ours, wanted in zip(found, torch.autograd.grad(plain, leaves, gradient, retain_graph=True), strict=True):
            same(ours, wanted)
        assert found[1].stride() == weight.stride()  # fused optimisers take the layout for granted
    assert len(shapes) == 1 + 3 * 2
    with torch.no_grad():
        same(affine(*leaves), plain)


@pytest.mark.parametrize("are_leaves", [False, True])
def test_only_the_gradients_that_are_asked_for_are_computed(are_leaves, monkeypatch):
    rows, size_in, size_out = SHAPE
    to_x, to_weight = (rows, size_out, size_in), (size_in, rows, size_out)
    parts = [part.requires_grad_() for part in layer()]
    if not are_leaves:  # a critic's input depends on what the actor says
        parts = [part * 1.0 for part in parts]
    x, weight, bias = parts
    y = affine(x, weight, bias)
    shapes = counted(monkeypatch)
    for asked, computed in (
        ([x], [to_x]),
        ([weight], [to_weight]),
        ([bias], []),
        ([x, weight], [to_x, to_weight]),
        (parts, [to_x, to_weight]),
    ):
        found = torch.autograd.grad(y, asked, torch.ones_like(y), retain_graph=True)
        assert shapes == computed
        assert [part.shape for part in found] == [part.shape for part in asked]
        shapes.clear()
    y.sum().backward()
    assert shapes == [to_x, to_weight]


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_gradients_are_those_of_plain_products(transposed):
    leaves = [part.requires_grad_() for part in layer(transposed=transposed)]
    x, weight, bias = leaves
    second = []
    for y in (affine(*leaves), torch.addmm(bias, x, weight)):
        first = torch.autograd.grad((0.01 * y.square()).sum(), leaves, create_graph=True)
        second.append(torch.autograd.grad(sum((0.1 * part.square()).sum() for part in first), leaves))
    for ours, wanted in zip(*second, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=1e-2)


def test_any_leading_axes_and_rows_that_lie_apart():
    x, weight, bias = layer()
    wanted = torch.addmm(bias, x, weight)
    same(affine(x.reshape(2, 25, 4, -1), weight, bias), wanted.reshape(2, 25, 4, -1))
    same(affine(torch.cat((x, x), dim=1).chunk(2, dim=1)[1], weight, bias), wanted)
    same(affine(x.t().contiguous().t(), weight, bias), wanted)
    same(affine(x[0], weight, bias), wanted[0])
    same(affine(x[:0], weight, bias), wanted[:0])


def test_each_of_an_ensemble_has_its_own(monkeypatch):
    leaves = [part.requires_grad_() for part in layer(3)]
    x, weight, bias = leaves
    plain = torch.baddbmm(bias, x, weight)
    gradient, shapes = torch.randn_like(plain), counted(monkeypatch)
    same(affine_each(*leaves), plain)
    assert shapes == [SHAPE] * 3
    found = torch.autograd.grad(affine_each(*leaves), leaves, gradient)
    for ours, wanted in zip(found, torch.autograd.grad(plain, leaves, gradient), strict=True):
        same(ours, wanted)
    shared = x[0].detach().expand(3, -1, -1)
    same(affine_each(shared, weight, bias), torch.baddbmm(bias, shared, weight))


def test_what_onednn_is_not_for_is_torch_s_own(monkeypatch):
    shapes = counted(monkeypatch)
    x, weight, bias = layer()
    few = torch.addmm(bias, x[:70], weight)
    assert torch.equal(affine(x[:70], weight, bias), few)
    double = bias.double(), x.double(), weight.double()
    assert torch.equal(affine(double[1], double[2], double[0]), torch.addmm(*double))
    narrow = torch.randn(2000, 160), torch.randn(160, 64), torch.randn(64)
    assert torch.equal(affine(*narrow), torch.addmm(narrow[2], narrow[0], narrow[1]))
    with products.torch_alone():
        assert torch.equal(affine(x, weight, bias), torch.addmm(bias, x, weight))
        assert torch.equal(affine_each(x[None], weight[None], bias), torch.baddbmm(bias, x[None], weight[None]))
    compiled = torch.compile(affine, backend="eager")  # which makes kernels of its own
    assert torch.equal(compiled(x, weight, bias), torch.addmm(bias, x, weight))
    assert shapes == []
    affine(x, weight, bias)
    assert shapes == [SHAPE]


@pytest.mark.parametrize(("vendor", "intel"), [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_intels_processors_are_known(tmp_path, monkeypatch, vendor, intel):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    monkeypatch.setattr(products, "CPUINFO", tmp_path / "cpuinfo")
    assert products._is_intel() == intel
    monkeypatch.setattr(products, "CPUINFO", tmp_path / "none")
    monkeypatch.setattr(products.platform, "processor", lambda: f"Intel64 Family 6, {vendor}")
    assert products._is_intel() == intel


def test_errors_are_torch_s_own():
    x, weight, bias = layer()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        affine(x[:, :-1], weight, bias)
