"""torch.testing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import netcl as nc
from netcl.core import Tensor
from netcl.core.dtypes import canonical, is_floating

# Relative and absolute tolerances by dtype.
_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol |expected| everywhere, for tensors, numbers,
    arrays and containers of them; without tolerances those of PyTorch for the dtypes.
    """
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype}
    options.update(check_device=check_device, msg=msg)
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or actual.keys() != expected.keys():
            raise AssertionError(_said(msg, f"the keys {list(actual)} are not {list(expected)}"))
        for key in expected:
            assert_close(actual[key], expected[key], **options)
        return
    if isinstance(expected, Sequence) and not isinstance(expected, (str, Tensor)):
        if not isinstance(actual, Sequence) or len(actual) != len(expected):
            raise AssertionError(_said(msg, f"the lengths are not equal: {len(actual)} and {len(expected)}"))
        for one, other in zip(actual, expected):
            assert_close(one, other, **options)
        return
    _compare(actual, expected, **options)


def _compare(
    actual: Any,
    expected: Any,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_dtype: bool,
    check_device: bool,
    msg: Any,
) -> None:
    if (rtol is None) != (atol is None):
        raise ValueError("give rtol and atol, or none of them")
    tensors = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    kinds = [str(getattr(x, "dtype", "float64" if isinstance(x, float) else "int64")) for x in (actual, expected)]
    if tensors and check_dtype and kinds[0] != kinds[1]:
        raise AssertionError(_said(msg, f"the dtypes are not equal: {kinds[0]} and {kinds[1]}"))
    if tensors and check_device and actual.device != expected.device:
        raise AssertionError(_said(msg, f"the devices are not equal: {actual.device} and {expected.device}"))
    one, other = (np.asarray(x.detach().to_host() if isinstance(x, Tensor) else x) for x in (actual, expected))
    if one.shape != other.shape:
        raise AssertionError(_said(msg, f"the shapes are not equal: {one.shape} and {other.shape}"))
    found = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
    rtol = max(r for r, _ in found) if rtol is None else rtol
    atol = max(a for _, a in found) if atol is None else atol
    close = np.isclose(one.astype("float64"), other.astype("float64"), rtol, atol, equal_nan)
    if close.all():
        return
    gap = np.abs(one.astype("float64") - other.astype("float64"))
    worst = np.unravel_index(int(np.nanargmax(np.where(close, 0, gap))), gap.shape) if gap.ndim else ()
    text = (
        f"{(~close).sum()} of {close.size} elements differ; the largest difference is {gap[worst]} at "
        f"{tuple(int(n) for n in worst)} (rtol {rtol}, atol {atol})"
    )
    raise AssertionError(_said(msg, text))


def _said(msg: Any, text: str) -> str:
    return str(msg(text)) if callable(msg) else text if msg is None else str(msg)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Random values for tests: in [low, high), by default [-9, 9) for floats, [-9, 10) for signed integers, [0, 10) for
    unsigned ones; zeros become 1 with ``exclude_zero``.
    """
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    kind = canonical(dtype)
    if kind == "bool":
        return nc.randint(0, 2, sizes, device=device).to("bool")
    whole = not is_floating(kind)
    first = (0 if kind.startswith("u") else -9) if low is None else low
    last = (10 if whole else 9) if high is None else high
    if whole:
        made = nc.randint(int(first), int(last), sizes, device=device).to(kind)
    else:
        made = nc.add(nc.mul(nc.rand(sizes, device=device), last - first), first).to(kind)
    if exclude_zero:
        made = nc.where(nc.eq(made, 0), nc.ones_like(made), made)
    return made.requires_grad_() if requires_grad else made
