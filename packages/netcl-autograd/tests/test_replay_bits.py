"""A replay has the bits of the calls, and a jitted function in float32 too: random functions that add up floats next to
values of other widths, along axes of any layout and length.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import DeviceHandle, Tensor
from netcl.core.dtypes import is_floating
from netcl.runtime.capture import capture

pytestmark = pytest.mark.level("capture")

LENGTHS = (1, 3, 7, 64, 1000, 4097, 70000)
SHAPES = [(n,) for n in LENGTHS] + [
    (3, 7), (20, 6), (64, 1), (1, 64), (7, 1000), (1000, 7), (70, 1000), (326, 100), (5, 70000), (4097, 9), (2, 3, 64),
    (8, 4, 97), (2, 1, 1000), (3, 70, 300), (40, 3, 5, 11), (64, 4097), (512, 64, 1),
]  # fmt: skip
DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "float32", "float32", "bfloat16")
CASTS = ("float16", "float32", "float64", "float32", "int32", "int64", "uint8", "bool")
EXACT = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "sub": lambda x, y: ag.abs(x) - y * 0.3,
    "div": lambda x, y: x / (ag.abs(y) + 1),
    "maximum": ag.maximum,
    "where": lambda x, y: ag.where(x > y, x, y * 0.7),
    "mask": lambda x, y: ag.where(y > 0, x, 0.25),
    "sqrt": lambda x, y: ag.sqrt(ag.abs(x) + 0.1),
    "scale": lambda x, y: x * 1.4285715 - 0.2,
    "relu": lambda x, y: ag.relu(x),
}
INEXACT = {
    "exp": lambda x, y: ag.exp(-ag.abs(x)),
    "tanh": lambda x, y: ag.tanh(x),
    "sigmoid": lambda x, y: ag.sigmoid(x) * y,
    "log": lambda x, y: ag.log(ag.abs(x) + 0.5),
}


def _normed(x: Any, axis: Any) -> Any:
    return ag.layer_norm(x, x.shape[-1:]) if x.ndim else x


def _fits(x: Any, axis: Any) -> Any:
    return axis if isinstance(axis, int) else -1


REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, axis: ag.sum(x, axis),
    "mean": lambda x, axis: ag.mean(x, axis),
    "mean2": lambda x, axis: ag.mean(x * x, axis),
    "max": lambda x, axis: ag.amax(x, axis),
    "var": lambda x, axis: ag.var(x, axis, 0),
    "std": lambda x, axis: ag.sqrt(ag.var(x, axis, 0) + 0.01),
    "center": lambda x, axis: x - ag.mean(x, axis, True),
    "share": lambda x, axis: x / (ag.sum(ag.abs(x), axis, True) + 1),
    "prod": lambda x, axis: ag.prod(x * 0.01 + 1, _fits(x, axis)),
    "argmax": lambda x, axis: ag.argmax(x, _fits(x, axis)),
    "cumsum": lambda x, axis: ag.cumsum(x, _fits(x, axis)),
    "softmax": lambda x, axis: ag.softmax(x, _fits(x, axis)),
    "logsumexp": lambda x, axis: ag.logsumexp(x, _fits(x, axis)),
    "layer_norm": _normed,
    "norm": lambda x, axis: ag.sqrt(ag.sum(x * x, axis) + 0.01),
}
JITTED = ("sum", "mean", "mean2", "max", "var", "center", "share")


class Function(NamedTuple):
    """A random function: its operands, the places of operands with gradients, and its steps as text and as calls."""

    operands: list[Any]
    text: str
    call: Callable[..., list[Any]]


def random_function(seed: int, handle: Any, exact: bool = False) -> Function:
    """Returns the function of a seed; ``exact``: without primitives that a driver computes differently in vectors."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    operands, names = [], []
    for k in range(int(rng.integers(2, 4))):
        own = tuple(1 if k and rng.random() < 0.15 else n for n in shape)
        if k and rng.random() < 0.15:
            own = own[int(rng.integers(len(own))) :]
        dtype = DTYPES[rng.integers(len(DTYPES))]
        dtype = dtype if not exact else "float32" if k == 0 or "float" in dtype else dtype
        values = rng.standard_normal(own) * 2
        tensor = Tensor.from_host(handle, (values if is_floating(dtype) else np.abs(values)).astype(np.float32))
        operands.append(tensor.astype(dtype))
        names.append(f"{dtype}{list(own)}")
    table = EXACT if exact else {**EXACT, **INEXACT}
    steps: list[tuple[str, Any, Any]] = []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.3:
            steps.append(("cast", CASTS[rng.integers(1, 4) if exact else rng.integers(len(CASTS))], 0))
        else:
            steps.append(("map", [*table][rng.integers(len(table))], int(rng.integers(len(operands)))))
    kinds = JITTED if exact else [*REDUCTIONS]
    for _ in range(1 if rng.random() < 0.6 else 2):
        axis = [None, 0, -1, tuple(range(len(shape)))[-2:]][rng.integers(4)]
        steps.append(("reduce", kinds[rng.integers(len(kinds))], axis))
        if rng.random() < 0.4:
            steps.append(("map", [*table][rng.integers(len(table))], int(rng.integers(len(operands)))))
    keeps = rng.random() < 0.3
    backward = rng.random() < 0.6
    uses = [0, *(place for kind, _, place in steps if kind == "map")]
    if exact and any(uses.count(place) > 2 for place in uses):
        backward = False  # jitted, its gradients may be added in another order

    def call(*given: Any) -> list[Any]:
        leaves = [t.detach().requires_grad_(True) if is_floating(t.dtype) else t for t in given]
        value, results = leaves[0], []
        if not is_floating(value.dtype):
            value = value.astype("float32")
        for kind, name, more in steps:
            if kind == "cast":
                value = value.astype(name)
            elif kind == "map":
                other = leaves[more] if leaves[more].dtype != "bool" else leaves[more].astype("uint8")
                value = value if is_floating(value.dtype) else value.astype("float32")
                value = table[name](value, other if _broadcast(value, other) else value)
            else:
                value = value if is_floating(value.dtype) else value.astype("float32")
                if value.ndim:
                    value = REDUCTIONS[name](value, more if value.ndim == len(shape) or more in (0, -1) else None)
            if keeps and kind == "reduce":
                results.append(value)
        results.append(value)
        if backward and is_floating(value.dtype) and value.requires_grad:
            wanted = [leaf for leaf in leaves if is_floating(leaf.dtype)]
            found = ag.grad(ag.sum(value), wanted, allow_unused=True)
            results += [one for one in found if one is not None]
        return [one.detach() for one in results]

    return Function(operands, f"{seed}: {', '.join(names)}; {steps}; {backward=} {keeps=}", call)


def _broadcast(x: Any, y: Any) -> bool:
    return all(1 in (n, m) or n == m for n, m in zip(x.shape[::-1], y.shape[::-1]))


def bits(results: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns comparable dtypes, shapes and bits; all NaN are one."""
    found = []
    for one in results:
        raw = one.astype("float32") if one.dtype == "bfloat16" else one
        values = np.array(raw.numpy())
        if values.dtype.kind == "f":
            values[np.isnan(values)] = np.nan
        found.append((one.dtype, values.shape, values.tobytes()))
    return found


def differences(
    seeds: Sequence[int], handle: Any, jitted: bool = False, log: Callable[[str], Any] | None = None
) -> list[str]:
    """Returns the functions of ``seeds`` with other bits in a replay, or in the ``jitted`` function, than in calls."""
    bad = []
    for seed in seeds:
        function = random_function(seed, handle, jitted)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = bits(function.call(*function.operands))
            if jitted:
                found = bits(ag.jit_compile(function.call)(*function.operands))
            else:
                found = bits(capture(function.call, *function.operands).replay(*function.operands))
        if expected != found:
            which = [k for k, (one, other) in enumerate(zip(expected, found)) if one != other]
            bad.append(f"{function.text} differs in {which} of {len(expected)}")
            if log:
                log(bad[-1])
    return bad


# Functions that a fused kernel would compute in another way than the calls: sums of values of another width, along an
# axis of which an operand has a part, of few long rows.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "wide": lambda x, row: x.astype("float64").astype("float32").sum(),
    "whole": lambda x, row: ag.mean(x + (x * 9).astype("int64").astype("float32")),
    "double": lambda x, row: ag.sqrt(ag.abs(x.astype("float64")) + 0.1).sum(),
    "row": lambda x, row: (x * row).sum(),
    "centered": lambda x, row: x - ag.mean(x, 0, True),
    # A compiler makes one call of a sine and a cosine, with other bits.
    "turned": lambda x, row: ag.sin(x * 9) * row + ag.cos(x * 9),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_fused_kernel_computes_as_the_calls(handle: DeviceHandle, name: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 11), (326, 100)):
        x, row = (Tensor.from_host(handle, rng.standard_normal(s).astype(np.float32)) for s in (shape, shape[1:]))
        expected = bits([FUNCTIONS[name](x, row)])
        assert bits([capture(FUNCTIONS[name], x, row).replay(x, row)]) == expected, shape
        assert bits([ag.jit_compile(FUNCTIONS[name])(x, row)]) == expected, shape


def test_a_long_mean_of_halves_adds_up_in_floats(handle: DeviceHandle) -> None:
    x = Tensor.from_host(handle, np.full(70000, 5.0, np.float16))
    assert ag.mean(x).item() == 5.0


def test_random_functions_have_the_bits_of_the_calls(handle: DeviceHandle) -> None:
    assert differences(range(2), handle) + differences(range(1), handle, jitted=True) == []


# A driver builds the kernels of each function: 0.1 to 0.3 seconds of a core, 0.5 to 1.2 with four processes a core.
@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("jitted", [False, True], ids=["replayed", "jitted"])
@pytest.mark.parametrize("first", range(4, 1004, 50))
def test_many_random_functions_have_the_bits_of_the_calls(handle: DeviceHandle, first: int, jitted: bool) -> None:
    assert differences(range(first, first + 50), handle, jitted) == []
