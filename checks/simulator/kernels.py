"""Every kernel family on the simulator, in the forms for GPUs and CPUs: results, data races, uninitialized reads.

``python checks/simulator/kernels.py`` starts oclgrind once per mode, one on each core at a time, and counts kernels and
reports; with a mode as its argument it is what runs inside.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from netcl import ops
from netcl.core import BufferPool, DeviceHandle, Tensor, manager
from netcl.core.backend.opencl import templates
from netcl.core.backend.opencl.contraction import conv, gemm, unit_trial
from netcl.core.backend.opencl.contraction.minimal_filtering import winograd
from netcl.core.backend.opencl.kernels.scans import scan as scans
from netcl.core.backend.opencl.kernels.selections import compaction
from netcl.core.backend.opencl.kernels.softmax_attention import attention_unit
from netcl.core.backend.opencl.kernels.sorts import radix_sort
from netcl.core.backend.opencl.kernels.warps import look_back
from netcl.core.backend.opencl.queue.launch import Launcher
from netcl.core.device import device
from netcl.core.dtypes import from_bfloat16
from netcl.core.engine.epilogue import Epilogue, added
from netcl.core.engine.registry import engine_for
from netcl.core.expr import Load, apply, parse
from netcl.core.kernels.primitives import KernelSpec
from netcl.core.ops_table.dispatch import TABLE, evaluate_each, reduce_each
from netcl.core.testing import MASKS, Case, assert_close, check_family, expected, masked, op_cases, run_case
from netcl.core.testing.op_families import families, family_of, ops_of
from netcl.core.tuning.unit_table import HALVES, UNITS
from netcl.ops.recurrence import GATES, recurrence, recurrence_back
from netcl.ops.tiled_attention import tiled_attention, tiled_attention_gradients
from netcl.runtime.capture import capture

UNITS_ALONE = "matrix units"
MODES = ("GPU", "CPU", "small GPU", UNITS_ALONE)
PLANTED = "planted faults"  # the mode whose reports have to come
# Accesses out of bounds are always watched. API errors are how netcl asks what a driver has, and are not. Optimised
# code has instructions that the simulator does not know.
# Without shuffles of vectors: the simulator takes element 11 of their operands for uninitialized, as in the upper half
# of sixteen numbers, and ends in a segmentation fault if a place is undefined, as in a vector made of two shorter ones.
CHECKS = ("--data-races", "--uninitialized", "--build-options", "-cl-opt-disable -DNO_SHUFFLES")
# Modes whose kernels need more local memory than the 32 KiB of the simulated device, and how much: wide takes 33 KiB.
MODES_OF_MORE_LOCAL, LOCAL = ("GPU", UNITS_ALONE), 65536
LANES = 8  # of the explicit vectors of a CPU
MOST = 400  # elements of the operands of a case
PER_OP = 3  # cases of an op

# The modules of kernels that look back, and small tiles and fans.
SWEEPS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (radix_sort, {"_EACH": 2, "_EACH_WIDE": 2, "_EACH_ALONE": 4, "_LEAST": 1}),
    (scans, {"_WARP_STRETCHES": (2,)}),
    (compaction, {"_SWEEP_GROUP": 32}),
    (look_back, {"FAN": 2}),
)

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def attended(kind: str, causal: bool = False) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """Attention and its gradients, just over a tile of queries and of keys, two heads with one of k and v."""

    def computation(q: Tensor, k: Tensor, v: Tensor, grad: Tensor, mask: Tensor) -> list[Tensor]:
        out, lse = tiled_attention(q, k, v, mask, causal, 0.5)
        return [out, *tiled_attention_gradients(grad, q, k, v, mask, out, lse, causal, 0.5)]

    mask = normal(33, 34) > 0 if kind == "seen" else normal(2, 1, 34)
    return computation, [normal(2, 33, 5), normal(1, 34, 5), normal(1, 34, 7), normal(2, 33, 7), mask]


def walked(kind: str, n: int, hidden: int, reverse: bool = False) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A recurrent net forth and back."""

    def computation(x: Tensor, weight: Tensor, state: Tensor, grad: Tensor, *cell: Tensor) -> list[Tensor]:
        own = cell[0] if cell else None
        out, cells, kept = recurrence(x, weight, state, None, own, kind, reverse)
        found = recurrence_back(weight, state, out, cells, kept, grad, None, own, kind, reverse)
        return [result for result in (out, cells, kept, *found) if result.size]

    rows = GATES[kind] * hidden
    shapes = [(3, n, rows), (rows, hidden), (n, hidden), (3, n, hidden), *([(n, hidden)] if kind == "lstm" else [])]
    return computation, [normal(*shape) / 4 for shape in shapes]


def each_updated(*given: Tensor) -> list[Tensor]:
    """An update of several tensors at a time, each by the one behind it, in place and aside."""
    first, second = Load(0, "float32"), Load(1, "float32")
    pairs = [list(given[at : at + 2]) for at in range(0, len(given), 2)]
    rate = Tensor.full((), 0.5)
    made = evaluate_each((first - second * Load(2, "float32"), apply("tanh", second)), pairs, (rate,))
    evaluate_each((first * second, second), pairs, out=[(a, b) for a, b in pairs])
    squares = reduce_each("sum", first * first, [[a] for a, _ in pairs])
    return [*(tensor for one in made for tensor in one), *given, ops.sum(squares)]


# Combinations that the table's cases do not cover. Name: (computation, inputs)
CASES: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "add with a tail": (ops.add, [normal(37), normal(37)]),
    "add with broadcasting": (ops.add, [normal(3, 1, 5), normal(4, 1)]),
    "a row to all rows": (ops.mul, [normal(33, 1), normal(33, 19)]),
    "gelu": (ops.gelu, [normal(19)]),
    "sum over everything": (lambda x: ops.sum(x), [normal(7, 61)]),
    "sum in pieces": (lambda x: ops.sum(x), [normal(40_003)]),
    "sum over the middle": (lambda x: ops.sum(x, axis=1), [normal(3, 17, 5)]),
    "sum over the first axis": (lambda x: ops.sum(x, axis=0), [normal(37, 21)]),
    "sum over the outer axes": (lambda x: ops.sum(x, axis=(0, 2)), [normal(3, 5, 19)]),
    "max over rows": (lambda x: ops.amax(x, axis=-1), [normal(5, 33)]),
    "softmax over rows": (ops.softmax, [normal(5, 33)]),
    "softmax over the first axis": (lambda x: ops.softmax(x, axis=0), [normal(35, 6)]),
    "statistics, several outputs": (lambda x: list(ops.split(ops.layer_norm(x, 33), 11, axis=1)), [normal(5, 33)]),
    "matmul of odd sides": (ops.matmul, [normal(17, 9), normal(9, 13)]),
    "matmul beyond a tile": (ops.matmul, [normal(70, 5), normal(5, 67)]),
    "matmul in batches": (ops.matmul, [normal(2, 5, 7), normal(2, 7, 3)]),
    "matmul with one row": (ops.matmul, [normal(1, 40), normal(40, 9)]),
    "conv2d": (lambda x, w: ops.conv2d(x, w, padding=1), [normal(2, 3, 7, 6), normal(4, 3, 3, 3)]),
    "conv2d in groups, strided": (
        lambda x, w: ops.conv2d(x, w, stride=2, groups=2),
        [normal(2, 4, 7, 6), normal(4, 2, 3, 3)],
    ),
    "transpose": (lambda x: ops.permute(x, (2, 0, 1)), [normal(3, 4, 5)]),
    "attention to what is seen": attended("seen"),
    "attention with a mask that is added": attended("added", causal=True),
    "LSTM": walked("lstm", 5, 9),
    "GRU from the end": walked("gru", 4, 9, reverse=True),
    "recurrence by tanh": walked("tanh", 9, 17),
    "recurrence by relu, one row": walked("relu", 1, 3),
    "each of several": (each_updated, [normal(*shape) for shape in ((5,), (3, 7), (70,), ()) for _ in range(2)]),
    "cat": (lambda a, b: ops.cat([a, b], axis=1), [normal(3, 4), normal(3, 2)]),
}
# As CPUs get these, oclgrind's --uninitialized itself ends in a segmentation fault; without it there is no report.
NOT_AS_CPU = ("LSTM", "GRU from the end", "recurrence by tanh")
# Convolutions in every variant, forced: input, weight, options of the engines' conv
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "in groups, strided": (
        (2, 4, 7, 6), (4, 2, 3, 3), {"stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 2}
    ),
    "of every channel alone": (
        (2, 3, 5, 9), (6, 1, 3, 3), {"stride": (1, 1), "padding": ((1, 1), (2, 0)), "dilation": (1, 1), "groups": 3}
    ),
    "few channels, strided and dilated": (
        (2, 2, 14, 13), (5, 2, 3, 3), {"stride": (2, 1), "padding": ((1, 2), (2, 0)), "dilation": (1, 2), "groups": 1}
    ),
    "several small images of few channels": (
        (11, 2, 3, 3), (5, 2, 3, 3), {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    ),
    "cut tiles": (
        (1, 3, 6, 7), (5, 3, 3, 3), {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    ),
}  # fmt: skip
VARIANTS = {
    "CPU": ("rows", "packed", "direct", "plain", "channels", None),
    "GPU": ("windows", "tiled", "direct", "plain", None),
    "small GPU": ("tiled", "direct", None),
}
# Products of matrices in every variant, forced: rows, steps of k and columns of its tile, and which operands it takes
# transposed. The simulator has no sub-groups, so the variant that hands elements round in them cannot run.
TRANSPOSED = tuple(product((False, True), repeat=2))
PRODUCTS: dict[str, dict[str, tuple[tuple[int, int, int], tuple[tuple[bool, bool], ...]]]] = {
    "CPU": {
        "rows": ((6, 64, 2 * LANES), TRANSPOSED),
        "packed": ((6, 64, 2 * LANES), TRANSPOSED),
        "dot": ((4, LANES, 2), ((False, True),)),
        "stream": ((4, 4, 256), ((False, False), (True, False))),
        "direct": ((2, 2, 2), TRANSPOSED),
        "plain": ((2, 2, 2), TRANSPOSED),
    },
    "GPU": {
        "wide": ((128, 16, 128), TRANSPOSED),
        "windows": ((64, 16, 128), TRANSPOSED),
        "slices": ((4, 256, 64), TRANSPOSED),
        "tiled": ((64, 16, 64), TRANSPOSED),
        "direct": ((2, 2, 2), TRANSPOSED),
        "plain": ((2, 2, 2), TRANSPOSED),
    },
    "small GPU": {
        "tiled": ((32, 8, 32), TRANSPOSED),
        "slices": ((4, 16, 16), TRANSPOSED),
        "direct": ((2, 2, 2), TRANSPOSED),
    },
}
# Terms of a sum that a variant cuts in parts (split-K).
LONG_SUMS = {"rows": 2100, "packed": 2100, "windows": 300, "slices": 600}
# Storage that changes loads and stores: (op, dtype)
STORED = [(name, dtype) for dtype in ("float16", "bfloat16") for name in ("add", "sum", "matmul", "index_select_grad")]


def size_of(case: Case) -> int:
    return sum(np.size(one) for o in case.operands for one in (o if isinstance(o, list) else [o]) if one is not None)


def from_the_table() -> Iterator[tuple[str, str, Case]]:
    """(op, dtype, case): small cases of what stands for each family and of every computed op."""
    quick = {name for family in families() for name in ops_of(family, "float32", quick=True)}
    names = [name for name, row in TABLE.items() if name in quick or row.call is not None]
    wanted = [(name, "float32") for name in names] + [pair for pair in STORED if pair[0] in TABLE]
    for name, dtype in wanted:
        small = [case for case in op_cases(name) if 0 < size_of(case) <= MOST]
        for case in sorted(small, key=size_of)[-PER_OP:] if dtype == "float32" else small[:1]:
            yield name, dtype, case


def planted(engine: Any) -> None:
    """A read of uninitialized memory, a race, and a write out of bounds."""
    body = "x[3] = get_global_id(0); x[0] = x[1] + 1; if (get_global_id(0) == 0) x[4096] = 1;"
    x = engine.empty((4,), "float32")
    KernelSpec("faults", ["__global float* x"], body).build(engine.queue).run(engine.queue, (4,), (2,), x)
    engine.finish()


def check(engine: Any) -> int:
    """Runs everything on an engine; the number of cases. AssertionError names what is wrong."""
    count = 0
    for name, (computation, inputs) in CASES.items():
        if name in NOT_AS_CPU and templates.traits(engine).is_cpu:
            continue
        found = results(computation, inputs, engine.queue)
        with device("cpu"):
            exact = results(computation, inputs, manager.default("cpu"))
        for ours, wanted in zip(found, exact, strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4, err_msg=name)
        count += 1
    for name, dtype, case in from_the_table():
        for got, want in zip(run_case(name, case, engine, dtype), expected(name, case, dtype), strict=True):
            try:
                assert_close(got, want, got.dtype)
            except AssertionError as error:
                raise AssertionError(f"{name} {dtype} {case.attributes}: {error}") from None
        count += 1
    assert check_family(engine, "random")
    return count + 1


def ended(engine: Any, shape: tuple[int, ...], narrow: tuple[int, ...]) -> tuple[Epilogue, Callable[[np.ndarray], Any]]:
    """An epilogue of results of ``shape``, with an operand as large and one of shape ``narrow``, and it on NumPy."""
    bias, residual = normal(*narrow), normal(*shape)
    expression = parse("fmax(v0 + v1, 0.0f) + v2", [Load(slot, "float32") for slot in range(3)])
    operands = tuple(engine.tensor(one, "float32") for one in (bias, residual))
    return Epilogue(expression, operands), lambda result: np.maximum(result + bias, 0) + residual


def check_convolutions(engine: Any, variants: Sequence[str | None]) -> int:
    """Every direction of the convolutions in every variant, forward with an epilogue; the number of cases."""
    twin: Any = engine_for(manager.default("cpu"))
    count = 0
    for (name, (x, weight, options)), variant in product(CONVOLUTIONS.items(), variants):
        first, second = normal(*x), normal(*weight)
        out = twin.conv("forward", *(twin.tensor(array, "float32") for array in (first, second)), **options).shape
        third = normal(*out)
        for kind, a, b, shape in (
            ("forward", first, second, None),
            ("grad_input", third, second, x),
            ("grad_weight", first, third, weight),
        ):
            call = {**options, "shape": shape}
            exact = twin.read(twin.conv(kind, *(twin.tensor(array, "float32") for array in (a, b)), **call))
            if kind == "forward":
                call["epilogue"], finish = ended(engine, out, (out[1], 1, 1))
                exact = finish(exact)
            operands = [engine.tensor(array, "float32") for array in (a, b)]
            found = engine.read(conv.conv(engine, kind, *operands, **call, variant=variant))
            np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4, err_msg=f"{name}, {kind}, {variant}")
            count += 1
    return count


def check_filtering(engine: Any) -> int:
    """Convolutions by minimal filtering in one launch, then in several for all directions; the number of cases."""
    kept = winograd._LEAST_BLOCKS, winograd._BLOCK
    count = 0
    for winograd._LEAST_BLOCKS, winograd._BLOCK in ((0, kept[1]), (kept[0], 0)):
        count += check_convolutions(engine, ("winograd2", "winograd4"))
    winograd._LEAST_BLOCKS, winograd._BLOCK = kept
    return count


def matrices(
    tile: tuple[int, int, int], transposed: tuple[tuple[bool, bool], ...], long: int | None = None
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[bool, bool]]]:
    """Shapes of operands and which are transposed: just under and over the edges of a tile, batches, nothing to sum, a
    ``long`` sum.
    """
    rows, deep, columns = tile
    sizes = [((), rows - 1, deep + 1, columns + 1, ()), ((), rows + 1, deep - 1, columns - 1, ())]
    sizes += [((2, 1), 2, 5, 3, (2,)), ((), 4, 0, 3, ())]
    sizes += [((), 3, long, 5, ())] if long else []
    for number, (outer, m, k, n, other) in enumerate(sizes):
        # Each of the four ways to transpose once.
        first, second = transposed[number % len(transposed)]
        yield (*outer, *((k, m) if first else (m, k))), (*other, *((n, k) if second else (k, n))), (first, second)


def check_products(engine: Any, mode: str) -> int:
    """Products of matrices in every variant of a mode, every other with an epilogue; the number of cases."""
    count = 0
    for variant, (tile, transposed) in PRODUCTS[mode].items():
        long = LONG_SUMS.get(variant)
        for x, y, flags in matrices(tile, transposed, long):
            a, b = normal(*x), normal(*y)
            exact = np.matmul(*(np.swapaxes(one, -1, -2) if flag else one for one, flag in zip((a, b), flags)))
            operands = [engine.tensor(one, "float32") for one in (a, b)]
            options: dict[str, Any] = {"transpose_a": flags[0], "transpose_b": flags[1], "variant": variant}
            if count % 2 == 0 or long in x:
                options["epilogue"], finish = ended(engine, exact.shape, exact.shape[-1:])
                exact = finish(exact)
            out = gemm.matmul(engine, *operands, **options)
            np.testing.assert_allclose(
                engine.read(out), exact, rtol=1e-4, atol=1e-4, err_msg=f"{variant}, {x} by {y}, transposed {flags}"
            )
            count += 1
    return count


def check_float32_operands(engine: Any) -> int:
    """Products and convolutions in bfloat16 whose operands and results are stored in float32, with the bits of those
    between casts; the number of cases.
    """
    count = 0

    def checked(
        call: Callable[..., Any], kept: Sequence[Any], narrow: Sequence[Any], wide: bool, **options: Any
    ) -> None:
        exact = from_bfloat16(engine.read(call(*narrow, **options)))
        found = [call(*kept, half="bfloat16", **options)]
        found += [call(*kept, half="bfloat16", wide=True, **options)] if wide else []
        for one in found:
            values = engine.read(one)
            values = values if one.dtype == "float32" else from_bfloat16(values)
            np.testing.assert_array_equal(values, exact, err_msg=str(options))

    for variant in ("rows", "packed"):
        tile, transposed = PRODUCTS["CPU"][variant]
        for x, y, flags in matrices(tile, transposed):
            a, b = normal(*x), normal(*y)
            kept, narrow = ([engine.tensor(one, dtype) for one in (a, b)] for dtype in ("float32", "bfloat16"))
            options: dict[str, Any] = {"transpose_a": flags[0], "transpose_b": flags[1], "variant": variant}
            checked(partial(gemm.matmul, engine), kept, narrow, True, **options)
            count += 1
    for variant in ("rows", "channels", "winograd4"):
        x, weight, options = CONVOLUTIONS["cut tiles"]
        grad = (x[0], weight[0], *x[2:])
        for kind, shapes, shape in (
            ("forward", (x, weight), None), ("grad_input", (grad, weight), x), ("grad_weight", (x, grad), weight)
        ):  # fmt: skip
            arrays = [normal(*one) for one in shapes]
            kept, narrow = ([engine.tensor(one, dtype) for one in arrays] for dtype in ("float32", "bfloat16"))
            # Weights are stored in float32, images and their gradients are not.
            kept = narrow if kind == "grad_weight" else [narrow[0], kept[1]]
            call = partial(conv.conv, engine, kind)
            checked(call, kept, narrow, kind == "grad_weight", shape=shape, variant=variant, **options)
            count += 1
    return count


def check_captured(engine: Any) -> int:
    """A captured step whose small launches are merged, in a chain and next to each other, with the bits of the calls;
    the number of cases.
    """
    weight, large = (engine.tensor(normal(*shape), "float32") for shape in ((6, 5), (7, 300)))

    def step(x: Tensor) -> list[Tensor]:
        mean = ops.mean(x, axis=0)
        spread = ops.mean(ops.square(ops.sub(x, mean)))
        product = ops.matmul(ops.mul(x, spread), weight)
        rows = ops.sum(large, axis=1), ops.amax(ops.mul(large, spread), axis=1)
        return [mean, ops.softmax(ops.mul(ops.mean(product, axis=0), spread)), *rows]

    x = engine.tensor(normal(4, 6), "float32")
    captured = capture(step, x)
    for found, exact in zip(captured.replay(x), step(x), strict=True):
        np.testing.assert_array_equal(engine.read(found), engine.read(exact))
    return 1


def check_matrix_units(engine: Any) -> int:
    """Products of small integers on the software twins of matrix units, with tails in all axes, in the two layouts that
    transpose most and least, and attention with its gradients; the number of cases.
    """
    twins = [unit for unit in UNITS.values() if unit.may_have is None]
    count = 0
    for unit in twins:
        layouts = [along for _, _, along, _ in unit_trial._cases(unit.name)]
        for dtype, along in zip((*unit.dtypes, unit.dtypes[0])[:2], dict.fromkeys((*layouts[1:3], layouts[0]))):
            done = unit_trial._multiplies(engine, dtype, unit.tiles[0].tile, along, (40, 24, 72))
            assert done, f"{unit.name} {dtype} {along}"
            count += 1
    dtypes = (*HALVES, "float32")
    trials = [(dtype, 20, 19, 10, causal) for dtype, causal in zip(dtypes, (True, False, True))]
    for trial in trials:
        name = "mma_twin_3" if trial[0] == "float32" else "mma_twin"
        for part in (attention_unit._results_of, attention_unit._gradients_of):
            assert attention_unit._is_right(engine, name, part, *trial), f"attention {trial}"
    return count + len(trials)


def check_unit_convolutions(engine: Any) -> int:
    """Each direction of a convolution on a software twin, forward with an epilogue; the number of cases. Few numbers
    are not zero, so that sums have 8 bits.
    """
    host: Any = engine_for(manager.default("cpu"))
    rng = np.random.default_rng(0)
    bias = np.ones((64, 1, 1), np.float32)
    count = 0
    for images, kernel, stride, padding, out in (
        ((1, 64, 3, 2), (3, 1), 1, ((1, 1), (0, 0)), (3, 2)),
        ((2, 64, 4, 4), (2, 1), 2, ((0, 1), (0, 0)), (2, 2)),  # eight pixels are loaded at once
    ):
        shapes = images, (64, 64, *kernel), (images[0], 64, *out)
        x, weight, grad = ((rng.random(shape) < 0.2).astype(np.float32) for shape in shapes)
        options: dict[str, Any] = {"stride": (stride, stride), "padding": padding, "dilation": (1, 1), "groups": 1}
        for kind, a, b, shape in (
            ("forward", x, weight, None), ("grad_input", grad, weight, x.shape), ("grad_weight", x, grad, weight.shape),
        ):  # fmt: skip
            exact = host.read(host.conv(kind, *(host.tensor(one, "float32") for one in (a, b)), shape=shape, **options))
            ending = added(engine.tensor(bias, "bfloat16")) if kind == "forward" else None
            operands = [engine.tensor(one, "bfloat16") for one in (a, b)]
            found = conv.conv(engine, kind, *operands, shape=shape, epilogue=ending, variant="mma_twin", **options)
            exact = exact + bias if ending else exact
            np.testing.assert_array_equal(from_bfloat16(engine.read(found)), exact, err_msg=kind)
            count += 1
    return count


def check_sweeps(engine: Any) -> int:
    """Sorts, scans and lists in one pass on the software twin of a warp, of several tiles; the number of cases."""
    kept = [{name: getattr(module, name) for name in sizes} for module, sizes in SWEEPS]
    for module, sizes in SWEEPS:
        vars(module).update(sizes)
    mask = RNG.random(2700) < 0.4
    (listed,) = compaction._swept(engine, "compaction_true", engine.tensor(mask, "bool"), "twin", "int64")
    np.testing.assert_array_equal(engine.read(listed), np.flatnonzero(mask))
    count = 1
    for dtype in ("float32", "int64"):
        x = RNG.integers(-300, 300, (2, 1300))
        given = engine.tensor(x, dtype)
        size, device = given.nbytes // x.size, templates.traits(engine)
        sort, single = (radix_sort.radix_sort(2, 1300, size, device, "twin", only) for only in (False, True))
        scan = scans._warp_scan("sum", dtype, 2, 2700, device, "twin")
        assert sort is not None
        assert single is not None
        assert scan is not None
        values, positions, alone = (engine.empty(x.shape, one) for one in (dtype, "int64", dtype))
        radix_sort.sort_long_rows(sort, True, engine, given, values, positions)
        radix_sort.sort_long_rows(single, False, engine, given, alone)
        order = np.argsort(-x, -1, kind="stable")
        np.testing.assert_array_equal(engine.read(positions), order)
        np.testing.assert_array_equal(engine.read(values), np.take_along_axis(x, order, -1))
        np.testing.assert_array_equal(engine.read(alone), np.sort(x, -1))
        y = RNG.integers(-9, 9, (2, 2700))
        sums = engine.empty(y.shape, dtype)
        scans._launch_rows(scan, "sum", False, engine, engine.tensor(y, dtype), sums)
        np.testing.assert_array_equal(engine.read(sums), np.cumsum(y, -1))
        ordered = engine.tensor(np.sort(x[0]), dtype)
        values, starts = compaction._swept(engine, "compaction_runs", ordered, "twin", dtype, "int64")
        wanted = np.unique(x[0])
        np.testing.assert_array_equal(engine.read(values), wanted)
        np.testing.assert_array_equal(np.sort(x[0])[engine.read(starts)], wanted)
        count += 4
    for (module, _), sizes in zip(SWEEPS, kept):
        vars(module).update(sizes)
    return count


def results(computation: Callable[..., Any], inputs: list[np.ndarray], place: Any) -> list[np.ndarray]:
    out = computation(*(Tensor.from_host(place, array) for array in inputs))
    return [tensor.to_host() for tensor in (out if isinstance(out, (list, tuple)) else [out])]


def seen_as(mode: str, handle: DeviceHandle) -> AbstractContextManager[DeviceHandle]:
    if mode == "small GPU":
        return masked(handle, **MASKS["group 128, 32 KB local"], opencl_c_version="OpenCL C 1.2")
    return masked(handle, is_cpu=True) if mode == "CPU" else nullcontext(handle)


def keep_every_buffer() -> None:
    """Lend no buffer twice: once the host has written a few bytes into one, the simulator takes all beyond them for
    undefined, whatever kernels write there later, and reports each read of it, as by contractions of padded images.
    So no kernel reads data left by another one.
    """
    kept: list[Any] = []
    allocate = BufferPool.allocate

    def allocate_and_keep(self: Any, *args: Any, **options: Any) -> Any:
        kept.append(allocate(self, *args, **options))
        return kept[-1]

    BufferPool.allocate = allocate_and_keep  # type: ignore[method-assign]


def inside(mode: str) -> None:
    """Under oclgrind: the checks of a mode, and a line of JSON with the counts."""
    built: set[str] = set()
    families_seen = sorted({family_of(TABLE[name]) for name, _, _ in from_the_table()} | {"random"})
    make = Launcher._new_kernel

    def counted(self: Any, source: str, name: str, args: Any, options: str) -> Any:
        built.add(f"{name} {source}")
        return make(self, source, name, args, options)

    Launcher._new_kernel = counted  # type: ignore[assignment, method-assign]
    keep_every_buffer()
    handle = manager.default("oclgrind")
    assert handle is not None
    with seen_as(mode, handle) as seen, device(seen):
        engine: Any = engine_for(seen)
        if mode == "CPU":
            engine.target = replace(engine.target, width=LANES)
            engine._traits = templates.traits(engine)._replace(vector=LANES)
        if mode == PLANTED:
            planted(engine)
            return
        if mode == UNITS_ALONE:
            families_seen, count = [mode], check_matrix_units(engine) + check_unit_convolutions(engine)
        else:
            count = check(engine) + check_convolutions(engine, VARIANTS[mode]) + check_products(engine, mode)
            count += check_captured(engine)
            count += check_float32_operands(engine) if mode == "CPU" else check_sweeps(engine) if mode == "GPU" else 0
            count += check_filtering(engine) if mode == "CPU" else 0
    print(json.dumps({"kernels": len(built), "cases": count, "families": families_seen}), flush=True)


def reports_in(log: Path) -> list[str]:
    """The reports of oclgrind's log, each from its first line on."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    reports: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if line[0].isspace() and reports:
            reports[-1] += "\n" + line
        else:
            reports.append(line)
    return reports


def last_line(report: str) -> str:
    """The line of source that a report is about."""
    return report.splitlines()[-1]


def under_the_simulator(simulator: str, mode: str) -> tuple[Any, list[str]]:
    """The output of a mode, as a finished process, and the simulator's reports."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "oclgrind.log"
        more = ("--local-mem-size", str(LOCAL)) if mode in MODES_OF_MORE_LOCAL else ()
        command = [simulator, *CHECKS, *more, "--log", str(log), sys.executable, __file__, mode]
        environment = {**os.environ, "NETCL_CACHE": "0"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        return done, reports_in(log)


def under_the_simulator_at_once(simulator: str) -> Iterator[tuple[str, Any, list[str], float]]:
    """Each mode with its output, its reports and its seconds; as many run at a time as there are cores."""

    def timed(mode: str) -> tuple[str, Any, list[str], float]:
        start = time.monotonic()
        return mode, *under_the_simulator(simulator, mode), time.monotonic() - start

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(timed, MODES)


def main() -> int:
    simulator = shutil.which("oclgrind")
    if simulator is None:
        print("oclgrind is missing: install your system's package or https://github.com/jrprice/Oclgrind")
        return 2
    worst = 0
    print(f"oclgrind {' '.join(CHECKS)}")
    _, reports = under_the_simulator(simulator, PLANTED)
    missed = [word for word in ("Uninitialized", "race", "Invalid write") if word not in "\n".join(reports)]
    if missed:
        print(f"planted faults are not reported: {', '.join(missed)}")
        return 1
    for mode, done, reports, seconds in under_the_simulator_at_once(simulator):
        if done.returncode:
            print(f"{mode}: failed with {done.returncode}\n{done.stdout}{done.stderr}")
            worst = 1
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{mode}: {found['kernels']} kernels in {found['cases']} cases of "
            f"{', '.join(found['families'])}: {len(reports)} reports, {seconds:.0f} s",
            flush=True,
        )
        for report in {last_line(report): report for report in reports}.values():
            print(report)
        worst = max(worst, int(bool(reports)))
    return worst


if __name__ == "__main__":
    if len(sys.argv) > 1:
        inside(sys.argv[1])
    else:
        sys.exit(main())
