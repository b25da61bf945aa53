"""Reading and writing by random keys of every form, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netcl.core import Tensor

ENTRIES = ("int", "slice", "slice", "whole", "array", "array", "tensor", "mask", "device mask", "none")


@st.composite
def selections(draw: Any) -> tuple[tuple[int, ...], list[tuple[Any, bool]]]:
    """Returns a shape, and the entries of a key for it; True: that entry is given as a tensor."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    broadcast = draw(st.sampled_from([(), (1,), (3,), (2, 1), (2, 3), (0,)]))
    masks = broadcast != (2, 3)
    entries: list[tuple[Any, bool]] = []
    axis = 0
    while axis < len(shape):
        kind, n = draw(st.sampled_from(ENTRIES)), shape[axis]
        if kind == "none":
            entries.append((None, False))
            continue
        if kind == "int":
            entries.append((draw(st.integers(-n, n - 1)), False))
        elif kind == "slice":
            ends = st.none() | st.integers(-n - 1, n + 1)
            entries.append((slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, -1, -2]))), False))
        elif "mask" in kind and masks:
            rank = draw(st.integers(0, len(shape) - axis))
            size = int(np.prod(shape[axis : axis + rank]))
            wanted = draw(st.integers(0, size))
            if broadcast:  # as many as the other arrays broadcast with
                wanted = min(size, int(np.prod(broadcast[-1:])))
            order = draw(st.permutations(range(size)))
            mask = np.zeros(size, bool)
            mask[list(order[:wanted])] = True
            entries.append((mask.reshape(shape[axis : axis + rank]), kind == "device mask"))
            axis += rank
            if rank == 0 and draw(st.booleans()):
                break
            continue
        elif kind == "whole":
            entries.append((slice(None), False))
        else:
            index = draw(st.lists(st.integers(-n, n - 1), min_size=6, max_size=6))
            form = draw(st.sampled_from([broadcast, broadcast[-1:], ()]))
            array = np.array(index[: int(np.prod(form))], np.int64).reshape(form)
            entries.append((array, kind == "tensor"))
        axis += 1
    if draw(st.booleans()):
        at = draw(st.integers(0, len(entries)))
        cut = draw(st.integers(at, len(entries)))
        entries[at:cut] = [(Ellipsis, False)]
    return shape, entries


def placed(entries: list[tuple[Any, bool]]) -> Any:
    key = tuple(Tensor.from_host(item) if on_device else item for item, on_device in entries)
    return key[0] if len(key) == 1 else key


# The device stays the same from example to example.
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(selection=selections(), form=st.sampled_from(["number", "whole", "last axis", "tensor"]))
def test_any_key(handle: Any, selection: Any, form: str) -> None:
    shape, entries = selection
    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    key = tuple(item for item, _ in entries)
    t = Tensor.from_host(values)
    try:
        wanted = values[key]
    except IndexError:  # arrays that do not broadcast, a mask of another number of elements
        with pytest.raises((IndexError, ValueError)):
            t[placed(entries)]
        return
    got = t[placed(entries)]
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got.numpy(), wanted)
    value: Any = -1.5
    if form != "number":
        lengths = wanted.shape[-1:] if form == "last axis" else wanted.shape
        value = -1 - np.arange(int(np.prod(lengths)), dtype=np.float32).reshape(lengths)
    values[key] = value
    t[placed(entries)] = Tensor.from_host(value) if form == "tensor" else value
    np.testing.assert_array_equal(t.numpy(), values)
