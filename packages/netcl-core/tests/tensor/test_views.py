"""Views: memory that base and views share, in random programs against NumPy's views, and under capture."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.engine.registry import engine_for
from netcl.core.errors import UnsupportedError
from netcl.core.expr import Const, Load
from netcl.core.ops_table.dispatch import evaluate
from netcl.core.storage.views import Geometry
from netcl.core.tensor import in_place
from netcl.runtime.capture import capture

Pair = tuple[Any, Any]


def _pair(*shape: int) -> Pair:
    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) - 3
    return Tensor.from_host(values), values.copy()


def _same(*pairs: Pair) -> None:
    for found, wanted in pairs:
        np.testing.assert_array_equal(found.numpy(), wanted)


# name: of a tensor or an array and two numbers; None if it does not have what the view needs
_VIEWS: dict[str, Any] = {
    "select": lambda x, a, b: x[(slice(None),) * (a % x.ndim) + (b % x.shape[a % x.ndim],)] if x.ndim else None,
    "rows": lambda x, a, b: x[a % 3 :] if x.ndim and x.shape[0] > 2 else None,
    "back": lambda x, a, b: x[::-1] if x.ndim else None,
    "step": lambda x, a, b: x[..., a % 2 :: 2] if x.ndim and x.shape[-1] > 1 else None,
    "new axis": lambda x, a, b: x[None],
    "transpose": lambda x, a, b: x.transpose(),
    "swap": lambda x, a, b: (
        x.transpose([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]) if x.ndim > 1 else None  # a whole permutation
    ),
}


@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*_VIEWS, "reshape", "fill", "add", "copy", "set", "out", "host"]),
            st.integers(0, 7), st.integers(0, 5), st.integers(0, 5),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_random_programs(handle: DeviceHandle, program: list[tuple[str, int, int, int]]) -> None:
    pairs = [_pair(3, 4), _pair(2, 2, 3)]
    for name, number, a, b in program:
        x, y = pairs[number % len(pairs)]
        if name in _VIEWS:
            view = _VIEWS[name](y, a, b)
            if view is not None and view.ndim < 6:
                # [()] of a 0-d result is a scalar in NumPy, not a view
                pairs.append((_VIEWS[name](x, a, b), view if isinstance(view, np.ndarray) else np.array(view)))
                if not isinstance(view, np.ndarray):
                    pairs.pop()
        elif name == "reshape":
            wanted = y.reshape(-1)
            pairs.append((x.reshape(-1), wanted))
        elif name == "fill":
            in_place.fill(x, a)
            y[...] = a
        elif name == "add":
            in_place.write(x, x + b)
            y += b
        elif name == "copy":
            other = np.linspace(-1, 1, y.size, dtype=np.float32).reshape(y.shape)
            in_place.copy(x, Tensor.from_host(other))
            y[...] = other
        elif name == "set" and y.ndim:
            x[[0]] = a
            y[[0]] = a
        elif name == "out":
            evaluate((Load(0, "float32") * Const(2.0, "float32"),), (x,), out=(x,))
            y *= 2
        elif name == "host":
            values = np.full(y.shape, a - b, np.float32)
            x.write(values)
            y[...] = values
        _same(*pairs)


def test_a_reshape_that_no_strides_give_is_a_copy(handle: DeviceHandle) -> None:
    x, y = _pair(3, 4)
    turned = x.transpose()
    flat, wanted = turned.reshape(12), y.T.reshape(12).copy()
    in_place.fill(x, 7)
    _same((flat, wanted), (turned, np.full((4, 3), 7)))
    in_place.fill(flat, 1)
    _same((x, np.full((3, 4), 7)), (turned, np.full((4, 3), 7)))


def test_a_base_lives_in_its_views(handle: DeviceHandle) -> None:
    def parts() -> tuple[Any, Any]:
        x = Tensor.from_host(np.arange(6, dtype=np.float32)) * 2.0
        return x[0:4], x[2:6]

    first, second = parts()
    first[...] = 1
    assert second.tolist() == [1, 1, 8, 10]


def test_expanded_elements_are_refused(handle: DeviceHandle) -> None:
    x = Tensor.zeros((3, 1))
    wide = ops.expand(x, (3, 2))
    with pytest.raises(UnsupportedError, match="expanded tensor"):
        in_place.write(wide, wide + 1)
    with pytest.raises(UnsupportedError, match="expanded tensor"):
        evaluate((Load(0, "float32"),), (Tensor.ones((3, 2)),), out=(wide,))
    in_place.fill(wide, 2)  # one value for all is no contradiction
    assert x.tolist() == [[2], [2], [2]]


@pytest.mark.parametrize(
    ("shape", "strides", "wanted", "found"),
    [
        ((3, 4), (4, 1), (12,), (1,)),
        ((4, 3), (1, 4), (12,), None),
        ((4, 3), (1, 4), (2, 2, 3), (2, 1, 4)),
        ((4, 3), (1, 4), (4, 1, 3), (1, 12, 4)),
        ((2, 3, 4), (24, 8, 2), (6, 4), (8, 2)),
        ((2, 3), (0, 1), (6,), None),
        ((1, 5), (7, 2), (5,), (2,)),
        ((), (), (1, 1), (1, 1)),
    ],
)
def test_strides_of_a_reshape(shape: Any, strides: Any, wanted: Any, found: Any) -> None:
    made = Geometry(shape, strides).reshaped(wanted)
    assert (made and made.strides) == found


def test_facts_about_memory(handle: DeviceHandle) -> None:
    x = Tensor.zeros((3, 4))
    turned, row = x.T, x[1:, 1]
    assert (turned.stride(), turned.is_contiguous(), turned.storage_offset()) == ((1, 4), False, 0)
    assert (row.stride(0), row.storage_offset(), row.data_ptr() - x.data_ptr()) == (4, 5, 20)
    assert x.contiguous() is x
    assert turned.contiguous().stride() == (3, 1)
    assert row.untyped_storage() == x.untyped_storage() != Tensor.zeros((1,)).untyped_storage()
    assert row.untyped_storage().nbytes() == 48
    elements = row.storage()
    assert (len(elements), elements.nbytes(), elements.dtype, elements.element_size()) == (12, 48, "float32", 4)
    assert (elements.untyped(), elements.data_ptr()) == (x.untyped_storage(), x.data_ptr())
    row[...] = 1
    assert elements.tolist() == list(elements) == x.reshape(-1).tolist()
    assert x._version == turned._version == row._version == 1
    x.data[0] = 5
    assert x._version == 1
    assert turned.tolist()[0] == [5, 0, 0]
    other = Tensor.ones((2,))
    x.data = other
    other[0] = 3
    assert x.tolist() == [3, 1]


def test_views_made_before_a_capture(handle: DeviceHandle) -> None:
    base = Tensor.from_host(np.arange(12, dtype=np.float32).reshape(3, 4), persistent=True)
    column, turned = base[:, 1], base.T

    def step(x: Tensor) -> Tensor:
        in_place.write(column, column + x)  # through a view into its base
        return ops.sum(turned * 1.0, axis=0) + base[:, 0]

    captured = capture(step, Tensor.zeros((3,)))
    wanted = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(base.numpy(), wanted)
    np.testing.assert_array_equal(turned.numpy(), wanted.T)
    for k in range(4):
        found = captured.replay(np.full(3, k, np.float32))
        wanted[:, 1] += k
        np.testing.assert_array_equal(found.numpy(), wanted.sum(1) + wanted[:, 0])
        _same((base, wanted), (column, wanted[:, 1]), (turned, wanted.T))
        in_place.write(base, base + 1.0)  # between replays, which read the views again
        wanted += 1
        if k == 2:
            turned[0] = 0.5
            wanted.T[0] = 0.5
            flat = turned.reshape(12)
            in_place.fill(flat, -1)


def test_views_made_in_a_capture(handle: DeviceHandle) -> None:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2.0
        part, turned = y[1:3], y.T
        before = ops.sum(turned)
        in_place.fill(part[:, 0], 9)
        in_place.write(turned, turned + 1.0)
        part[0] = x[0]
        x[0] = -1.0
        return y, before + ops.sum(turned) + ops.sum(turned.reshape(12))

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    captured = capture(step, Tensor.from_host(x))
    for k in range(3):
        wanted = step(Tensor.from_host(x + k))
        found = captured.replay(Tensor.from_host(x + k))
        for one, other in zip(found, wanted):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def _copies(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the list to which each copy and each gather that an engine makes from now on adds its name."""
    engine, made = engine_for(handle), []
    for attribute, name in (("copy", "copy"), ("gathered", "copy"), ("index", "index")):
        call = getattr(engine, attribute, None)
        if call is None:
            continue
        noted = partial(lambda name, call, *args, **kwargs: (made.append(name), call(*args, **kwargs))[1], name, call)
        monkeypatch.setattr(engine, attribute, noted)
    return made


def test_a_view_is_gathered_at_its_first_use(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    x, array = _pair(6, 4, 5)
    made = _copies(handle, monkeypatch)
    view = x[2:5][1].transpose()  # one gather from the root for all three
    assert not made
    x[3, 1] = 7.0
    array[3, 1] = 7
    made.clear()
    _same((view, array[3].T), (x, array))
    assert made == ["copy"]
    _same((view, array[3].T))
    assert made == ["copy"], "it is up to date"


def test_samples_of_one_tensor_are_stacked_by_one_gather(handle: DeviceHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    x, array = _pair(6, 4, 5)
    order = [(5, 1), (0, 0), (-1, 3), (2, 2)]
    made = _copies(handle, monkeypatch)
    found = ops.stack([x[key] for key in order])
    assert made == ["index"]
    _same((found, np.stack([array[key] for key in order])))
    found[0] = 9.0  # no view of x
    _same((x, array))
    numbers = ops.stack([x[0, 0, i] for i in (3, 1, 1)])
    _same((numbers, array[0, 0, [3, 1, 1]]))
    used = x[1]
    _same((used, array[1]))
    made.clear()
    _same((ops.stack([used, x[2]]), array[[1, 2]]), (ops.stack([x[1:3], x[2:4]]), np.stack([array[1:3], array[2:4]])))
    _same((ops.stack([x[1, :, 1], x[2, :, 0]]), np.stack([array[1, :, 1], array[2, :, 0]])))
    assert "index" not in made, "rows of the table, and only those, are gathered"
