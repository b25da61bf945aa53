"""Writing in place: values, the graph, and the rules for leaves and saved tensors."""

from __future__ import annotations

import numpy as np
import pytest

import netcl as nc
import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.tensor import in_place

FRONT = pytest.mark.level("front")


def _leaf(*values: float) -> Tensor:
    leaf = Tensor.from_host(np.array(values, np.float32))
    leaf.requires_grad = True
    return leaf


def test_without_a_graph_the_memory_is_written() -> None:
    p = _leaf(1, 2, 3)
    alias = p.detach()
    with ag.no_grad():
        assert in_place.write(p, p - 0.5) is p
    assert p.numpy().tolist() == alias.numpy().tolist() == [0.5, 1.5, 2.5]
    assert p.requires_grad
    assert p.grad_fn is None
    assert p.version == 1


def test_a_leaf_that_requires_grad_is_refused() -> None:
    p = _leaf(1, 2)
    with pytest.raises(RuntimeError, match="leaf tensor that requires grad"):
        in_place.write(p, p * 2)
    with pytest.raises(RuntimeError, match="leaf tensor that requires grad"):
        in_place.fill(p, 0)


def test_a_result_is_written_and_its_gradient_is_that_of_both_ops() -> None:
    w = _leaf(1, 2, 3)
    y = w * 2
    in_place.write(y, y * y.clone())  # saves y and keeps a copy of it
    y.sum().backward()
    assert w.grad.numpy().tolist() == [8, 16, 24]


def test_what_another_op_has_saved_makes_backward_raise() -> None:
    w = _leaf(1, 2)
    y = w * 2
    z = y * y
    in_place.write(y, y + 1)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        z.sum().backward()
    y = w * 2
    in_place.write(y, ag.exp(y))
    in_place.write(y, y + 1)
    w.grad = None
    try:
        y.sum().backward()
    except RuntimeError as error:
        assert "overwritten in place" in str(error)
    else:  # the core has kept the result of exp elsewhere
        np.testing.assert_allclose(w.grad.numpy(), 2 * np.exp([2.0, 4.0]), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["div", pytest.param("erfinv", marks=FRONT), "max", pytest.param("normalize", marks=FRONT)]
)
def test_a_result_that_no_gradient_needs_may_be_overwritten(name: str) -> None:
    functions = {
        "div": lambda x: x * 1 / (x * 2 + 1),
        "erfinv": lambda x: nc.special.erfinv(x * 0.5),
        "max": lambda x: (x * 2).reshape(1, -1).max(1)[0],
        "normalize": lambda x: x / nc.linalg.vector_norm(x),
    }
    gradients = []
    for added in (0.0, 0.5):
        x = _leaf(0.25, 0.75, 0.5)
        y = functions[name](x)
        if added:
            in_place.write(y, y + added)
        y.sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(gradients[0], gradients[1])


def test_what_is_replaced_has_a_gradient_of_zeros() -> None:
    w, v = _leaf(1, 2), _leaf(3, 4)
    y = w * 2
    in_place.copy(y, v)
    (y * y).sum().backward()
    assert w.grad.numpy().tolist() == [0, 0]
    assert v.grad.numpy().tolist() == [6, 8]
    plain = Tensor.zeros((2, 2))
    in_place.copy(plain, v)
    assert plain.requires_grad
    plain.sum().backward()
    assert v.grad.numpy().tolist() == [8, 10]


def test_dtypes_and_shapes_have_to_fit() -> None:
    whole, p = Tensor.from_host(np.arange(3)), Tensor.zeros((2, 3))
    with pytest.raises(DTypeError, match="float32 result cannot be stored in a int64"):
        in_place.write(whole, whole * 1.5)
    assert in_place.copy(whole, 2.7).numpy().tolist() == [2, 2, 2]
    with pytest.raises(ShapeError, match="do not broadcast"):
        in_place.write(p, Tensor.zeros((3, 2)))
    assert in_place.write(p, whole).numpy().tolist() == [[2, 2, 2], [2, 2, 2]]


def _matrix() -> Tensor:
    w = Tensor.from_host(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    w.requires_grad = True
    return w


def test_a_write_through_a_view_is_in_the_graph_of_the_base_and_of_all_views() -> None:
    w = _matrix()
    y = w * 2
    row, turned = y[0], y.T
    in_place.write(row, row * 3)
    assert "CopySlices" in repr(y.grad_fn)
    (y * turned.T).sum().backward()  # 36 w^2 in the first row, 4 w^2 in the second
    np.testing.assert_allclose(w.grad.numpy(), [[72, 144, 216], [32, 40, 48]])


def test_a_write_into_the_base_renews_its_views() -> None:
    w = _matrix()
    y = w * 2
    flat, corner = y.reshape(6), ag.diagonal(y)
    in_place.write(y, y + w)
    (flat.sum() + corner.sum()).backward()
    assert w.grad.tolist() == [[6, 3, 3], [3, 6, 3]]


def test_a_plain_tensor_takes_values_that_require_grad() -> None:
    w = _matrix()
    state = Tensor.zeros((4, 3))
    state[1] = w[0]
    in_place.copy(state[2:4], w)
    assert state.requires_grad
    (state * state).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [[4, 8, 12], [8, 10, 12]])


def test_assignment_by_arrays_and_masks_is_recorded() -> None:
    w = _matrix()
    y = w * 2
    y[:, [0, 2]] = w[:, [1, 1]]
    y[Tensor.from_host(np.array([[False] * 3, [False, True, False]]))] = 0.0
    y.sum().backward()
    assert w.grad.tolist() == [[0, 4, 0], [0, 2, 0]]


def test_second_derivatives_pass_a_write_through_a_view() -> None:
    w = _matrix()
    y = w * 1
    row = y[0]
    in_place.write(row, row * row.clone())
    (first,) = ag.grad((y * y).sum(), w, create_graph=True)
    first.sum().backward()  # w^4 and w^2: 12 w^2 and 2
    np.testing.assert_allclose(w.grad.numpy(), [[12, 48, 108], [2, 2, 2]])


def test_views_that_must_not_be_written() -> None:
    w = _matrix()
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        in_place.fill(w[0], 0)
    y = w * 2
    with pytest.raises(RuntimeError, match="several views"):
        in_place.fill(ag.chunk(y, 2)[0], 0)
    with ag.no_grad():
        quiet = y[0]
    with pytest.raises(RuntimeError, match="taken under no_grad"):
        in_place.fill(quiet, 0)
    with ag.no_grad():
        in_place.fill(w[0], 0)
    assert w.tolist() == [[0, 0, 0], [4, 5, 6]]
    assert w.version == 1


def test_detach_shares_the_version_and_data_does_not() -> None:
    w = _matrix()
    y = w * 2
    square = y * y
    in_place.fill(y.data[0], 1)
    square.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), [[4, 4, 4], [32, 40, 48]])
    y = w * 2
    square = y * y
    in_place.fill(y.detach()[0], 1)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        square.sum().backward()


def test_a_written_base_takes_a_gradient_of_any_layout() -> None:
    w, factors = _matrix(), Tensor.from_host(np.arange(1, 7, dtype=np.float32).reshape(3, 2))
    base = Tensor.zeros((2, 3))
    base[1] = w[0]
    ag.sum(ag.mul(ag.permute(base, (1, 0)), factors)).backward()
    assert w.grad.tolist() == [[2, 4, 6], [0, 0, 0]]


def test_values_that_require_grad_go_into_data_without_its_tensor() -> None:
    w, other = _matrix(), Tensor.zeros((2, 3), requires_grad=True)
    other.data += w
    other.data[0] = w[1]
    other.data[np.array([1])] = w[:1]
    assert other.tolist() == [[4, 5, 6], [1, 2, 3]]
    assert (other.grad_fn, other.version) == (None, 0)


def test_data_that_takes_values_that_require_grad_has_their_gradient() -> None:
    w, other = _matrix(), Tensor.zeros((2, 3))
    data = other.data
    data += w
    data.sum().backward()
    assert w.grad.tolist() == [[1] * 3] * 2
    w.grad, data = None, other.data
    data[0] = w[0] * 3
    data.sum().backward()
    assert w.grad.tolist() == [[3] * 3, [0] * 3]


def test_a_saved_view_shows_what_data_was_written_after_its_base_is_gone() -> None:
    w = _matrix()
    for drop_first in (False, True):
        w.grad = None
        y = w * 2
        row = y[1]
        square = (row * row).sum()
        if drop_first:
            del row
        y.data.fill_(3)
        del y
        row = None
        square.backward()
        assert w.grad.tolist() == [[0, 0, 0], [12, 12, 12]]


def test_a_result_that_would_be_computed_again_is_kept_when_data_is_written() -> None:
    w = Tensor.from_host(np.ones(1 << 18, np.float32), requires_grad=True)
    scale = Tensor.from_host(np.full(1 << 18, 2, np.float32))
    square = (h := ag.exp(scale * w)) * h
    del h
    scale.data.zero_()
    square.sum().backward()
    np.testing.assert_allclose(w.grad.numpy()[0], 0, atol=1e-6)  # by the overwritten scale, 2 * e^4 * 0
    assert float(square[0]) == pytest.approx(np.exp(4.0))


class _Unchecked(ag.Function):
    """Writes a value into an element of a buffer, past the count of writes."""

    @staticmethod
    def forward(ctx: ag.Context, buffer: Tensor, value: Tensor, at: int) -> Tensor:
        ctx.at = at
        buffer.data[..., at] = value
        return buffer

    @staticmethod
    def backward(ctx: ag.Context, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad, grad[..., ctx.at], None


def test_a_buffer_that_a_function_fills_step_by_step_passes_gradients() -> None:
    w = Tensor.from_host(np.array([0.5, -0.25], np.float32), requires_grad=True)
    rate = Tensor.from_host(np.array(0.5, np.float32), requires_grad=True)

    def step(y: Tensor) -> Tensor:
        stages = _Unchecked.apply(Tensor.zeros((2, 3)), y, 0)
        for at in (1, 2):
            y = y + (stages[..., :at] * rate).sum(-1)
            stages = _Unchecked.apply(stages, y, at)
        return stages.sum(-1)

    step(step(w)).sum().backward()

    # A step multiplies by s(r) = 1 + (1 + r) + (1 + r)^2 + r = 2 + ... ; here in float64 by differences.
    def value(r: float) -> float:
        first = 1 + r
        second = first + (1 + first) * r
        return (1 + first + second) ** 2

    np.testing.assert_allclose(w.grad.numpy(), [value(0.5)] * 2, rtol=1e-6)
    slope = 0.25 * (value(0.5 + 1e-5) - value(0.5 - 1e-5)) / 2e-5
    np.testing.assert_allclose(rate.grad.numpy(), slope, rtol=1e-5)


def test_traced_functions_write_as_others_do() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        turned = y.T
        in_place.write(y, y + 1.0)
        y[0] = 2.0
        in_place.write(turned[1], turned[1] * 0.3)
        flat = y.reshape(6)
        in_place.write(flat, flat * 0.5)
        return (y * turned.T).sum() + ag.exp(flat).sum()

    x = Tensor.from_host(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    found = []
    jitted = ag.jit_compile(step)
    for function in (step, jitted, jitted):
        w = _matrix()
        value = function(x, w)
        value.backward()
        found.append((value.item(), w.grad.numpy()))
    for value, grad in found[1:]:
        assert value == pytest.approx(found[0][0], rel=1e-5)
        np.testing.assert_allclose(grad, found[0][1], rtol=1e-5)


def test_the_gradient_of_a_leaf_keeps_nothing_that_it_was_a_view_of() -> None:
    w = _matrix()
    (w.T * 2).sum().backward()
    assert w.grad.is_contiguous()
    assert w.grad.untyped_storage().nbytes() == 24


def test_the_shape_of_a_result_changes_in_place_in_the_graph() -> None:
    w = _leaf(1, 2, 3)
    y = w * 2
    view = y[1:]
    y.unsqueeze_(1)
    assert y.shape == (3, 1)
    y.mul_(3.0)
    assert view.tolist() == [12, 18]
    view.zero_()
    assert y.tolist() == [[6], [0], [0]]
    (y * y).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [72, 0, 0]


def test_the_shape_of_a_tensor_changes_in_place_and_its_views_follow() -> None:
    x = Tensor.from_host(np.arange(6, dtype=np.float32).reshape(2, 3))
    alias = x.detach()
    assert x.t_() is x
    assert (x.shape, x.stride()) == ((3, 2), (1, 3))
    x.squeeze_().transpose_(0, 1).swapaxes_(0, 1).swapdims_(0, 1)
    x[0] = 7.0
    assert alias.tolist() == [[7, 7, 7], [3, 4, 5]]


def test_changes_in_place_that_have_no_gradient_are_refused() -> None:
    w = _leaf(1, 2)
    with pytest.raises(RuntimeError, match="leaf tensor that requires grad"):
        w.unsqueeze_(0)
    y = w * 2
    with ag.no_grad(), pytest.raises(RuntimeError, match="write x = x.unsqueeze"):
        y.unsqueeze_(0)
    with ag.no_grad():
        assert w.unsqueeze_(0).shape == (1, 2)
    assert w.requires_grad
    view = y[:1]
    with pytest.raises(RuntimeError, match="view cannot be detached"):
        view.detach_()
    with pytest.raises(RuntimeError, match="views of this tensor"):
        y.detach_()
    z = w * 2
    assert z.detach_() is z
    assert not z.requires_grad
    assert z.grad_fn is None
