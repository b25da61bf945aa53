"""The kernels of contractions and convolutions: a row for each, by which it is chosen, measured, launched and reported.

The choice is the measured kernel, or the cheapest row that applies. Costs of contractions are places in an order, by
thresholds of sizes; costs of convolutions are products. Policy only: nothing of a backend is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from math import inf, prod
from typing import Any, NamedTuple, TypeAlias

from netcl.core import config
from netcl.core.device.capabilities import DeviceProfile
from netcl.core.device.profile import ExtendedDeviceProfile
from netcl.core.dtypes import is_floating, itemsize
from netcl.core.tuning import images_last, matrix_units, small_channels, tiles, winograd
from netcl.core.tuning.conv_plans import blocks_of, conv_plan, dense, restricted
from netcl.core.tuning.kernel_config import KernelConfig, KernelVariant
from netcl.core.tuning.matmul_precision import get_float32_matmul_precision
from netcl.core.tuning.problems import Contraction, Geometry, dense_steps, has_short_offsets
from netcl.core.tuning.traits import Traits
from netcl.core.tuning.unit_table import UNITS

CONV_WORKSPACE = 16 * 2**20  # bytes of padded images at a time; a single image may take more
GPU_CONV_WORKSPACE = 64 * 2**20  # the same for devices that need many work-groups at a time
SMALL_OUTPUT = 256  # positions of a convolution's output below which NETCL_CONV_TILED_LOCAL applies
_SMALL = 1 << 20  # products below which one work-item per result may win on a CPU
_LONG = 512  # products from which on sums of few narrow tiles are computed by split-K on a GPU
_MANY_TILES = 64  # work-groups that keep a GPU busy without split-K
_DEPTHWISE_ROWS, _DEPTHWISE_MOST = 4, 64  # rows, and terms or columns, of the kernels for depthwise convolutions
_GEMV_ROWS = 4  # rows or columns up to which a CPU reads the other operand once, in place
_SKINNY_MOST_ROWS = 7  # of a matrix; from 8 on tiles are full enough
_SKINNY_LEAST_K = 64  # below, one work-item for each output is as good
_TILED_ROWS = 8  # below, tiles are mostly empty
_SPAN_GROUP, _SPAN_MEMORY = 256, 36 * 1024  # requirements of tiles of 128 x 128
_SECOND = 9  # the cost of kernels that only a measurement chooses


class Convolution(NamedTuple):
    """A direction of a convolution: forward, grad_input or grad_weight."""

    kind: str
    geometry: Geometry
    dtype: str


# The results of a work-group along m and n and the depth of a step, the results of a work-item along each tiled axis,
# the columns and rows of a work-group, the lanes of explicit vectors, and True if tiles are in local memory.
Tiling: TypeAlias = "tuple[int, int, int, int, tuple[int, int], int, bool]"


class Candidate(NamedTuple):
    """A kernel of contractions, or an algorithm of convolutions.

    ``applies(device, problem, op)`` is true if it can compute a problem and is worth measuring; of an algorithm it is
    the problem in the algorithm's form. ``cost``, a number or a function of the same, ranks the rows that apply.
    ``runs(device, problem)`` is false if it cannot compute a problem, even if it is requested. ``parts`` are its
    templates: readers of operands, then the main loop with the store. ``lanes`` are the sums that its epilogue takes at
    a time, 0 without one, None for the device's vector. ``functions`` compute its results, if not one of its own name.
    """

    name: str
    applies: Callable[..., Any]
    cost: float | Callable[..., float]
    tiling: Callable[[Traits, str], Tiling]
    variants: tuple[str, str]  # reported of a product and of a convolution
    parts: tuple[str, ...] = ()
    lanes: int | None = 1
    runs: Callable[[Traits, Any], Any] = lambda device, problem: True
    functions: tuple[str, ...] = ()

    def cost_of(self, device: Traits, problem: Any, op: str) -> float:
        """Returns the cost of a problem."""
        return self.cost(device, problem, op) if callable(self.cost) else self.cost


# ------------------------------------------------------------------------------------------------------- contractions


def _is_gemv(loop: str, device: Traits, c: Contraction, op: str) -> bool:
    if op != "matmul" or not device.is_cpu or min(c.m, c.n[3]) > _GEMV_ROWS:
        return False
    streams = c.b_n[3] == 1 and c.n[3] > 1
    return streams if loop == "stream" else not streams and c.a_k[3] == c.b_k[3] == 1


def _is_depthwise(device: Traits, c: Contraction, op: str) -> bool:
    return op == "conv2d" and device.is_cpu and c.m <= _DEPTHWISE_ROWS and prod(c.batch) >= 2


def _has_planes(device: Traits, c: Contraction, op: str) -> bool:
    return _is_depthwise(device, c, op) and prod(c.k) <= _DEPTHWISE_MOST and not c.partial


def _has_taps(device: Traits, c: Contraction, op: str) -> bool:
    return _is_depthwise(device, c, op) and prod(c.n) <= _DEPTHWISE_MOST


def _takes_span(device: Traits) -> bool:
    return not device.is_cpu and device.group >= _SPAN_GROUP and device.local_memory >= _SPAN_MEMORY


def _has_windows(device: Traits, c: Contraction, op: str) -> bool:
    return _takes_span(device) and c.m >= _TILED_ROWS and has_short_offsets(c)


def _cost_of_windows(device: Traits, c: Contraction, op: str) -> float:
    """Returns the least cost for convolutions, and less than ``tiled`` for products of long sums or of many tiles."""
    if op == "conv2d":
        return -1
    tile = tiles.implicit_gemm_tile(device, c)
    is_long = prod(c.k) >= _LONG and tile.splits > 1
    is_large = tiles.tiles_of(c, tile[:2]) >= _MANY_TILES
    return 2.5 if (is_long or is_large) and not c.partial else _SECOND


def _has_wide(device: Traits, c: Contraction, op: str) -> bool:
    return _takes_span(device) and min(c.m, prod(c.n)) >= tiles.SPAN // 2 and dense_steps(c) is not None


def _is_dense(device: Traits, c: Contraction) -> bool:
    return dense_steps(c) is not None and not c.accumulate


def _takes_sub_groups(device: Traits, c: Contraction) -> bool:
    able = device.sub_groups and device.group >= tiles.SUB_GROUPS_TILE[2] and _is_dense(device, c)
    return able and config.get("KERNEL_STRATEGY") != "portable"


def _has_slices(device: Traits, c: Contraction, op: str) -> bool:
    few = c.m <= _SKINNY_MOST_ROWS and prod(c.k) >= _SKINNY_LEAST_K and not device.is_cpu
    return few and device.group >= tiles.LEAST_GROUP and _is_dense(device, c)


def _has_direct(device: Traits, c: Contraction, op: str) -> bool:
    return not device.is_cpu or c.m * prod(c.n) * prod(c.k) <= _SMALL


def _of_cpus(device: Traits, dtype: str) -> Tiling:
    tile = tiles.cpu_tile(device, dtype)
    return tile.rows, tile.columns, tile.depth, tile.rows * tile.columns, (1, 1), device.vector, True


def _tiled(device: Traits, dtype: str) -> Tiling:
    edge = tiles.tiled_edge(device)
    return 4 * edge, 4 * edge, edge, 4, (edge, edge), 4, True


def _slices(device: Traits, dtype: str) -> Tiling:  # of B with contiguous columns
    group = tiles.skinny_group(device)
    return tiles.SKINNY_ROWS, group // 4, 1, tiles.SKINNY_ROWS, (group, 1), 1, True


def _broadcast(device: Traits, dtype: str) -> Tiling:
    rows, columns, group = tiles.SUB_GROUPS_TILE
    return rows, columns * group, 1, rows * columns, (group, 1), 1, False


def _unit(unit: str, device: Traits, dtype: str) -> Tiling:
    tile = UNITS[unit].tiles[0].tile
    items = 32 * tile.warps_m * tile.warps_n
    return tile.m, tile.n, tile.k, tile.m * tile.n // items, (items, 1), 1, True


def _fits_unit(unit: str, device: Traits, c: Contraction) -> bool:
    return matrix_units.fits(unit, c)


def _one(device: Traits, dtype: str) -> Tiling:
    return 1, 1, 1, 1, (1, 1), 1, False


def _span(device: Traits, dtype: str) -> Tiling:
    return tiles.SPAN, tiles.SPAN, 16, 8, (16, 16), 4, True


def _on_request(device: Traits, problem: Any, op: str) -> bool:
    return False


_NAIVE, _VECTORS = ("MATMUL_NAIVE", "CONV2D_NAIVE"), ("MATMUL_VECTORIZED", "CONV2D_IMPLICIT_GEMM")
_TILES = ("MATMUL_REGISTER_TILED", "CONV2D_IMPLICIT_GEMM")
_GEMM = ("roles", "contract_operands", "contract_registers", "contract_cpu")
_GEMV, _DEPTHWISE = ("contract_gemv",), ("contract_strides", "contract_depthwise")
_STRIDED, _WINDOWS = ("contract_strides", "contract_gpu"), ("contract_tile", "contract_implicit_gemm")
_WIDE = ("contract_tile", "contract_product", "contract_wide")

# In the order in which they are measured.
CONTRACTIONS: dict[str, Candidate] = {
    row.name: row
    for row in (
        Candidate("dot", partial(_is_gemv, "dot"), 0, _of_cpus, _VECTORS, _GEMV, functions=("dot_rows",)),
        Candidate("stream", partial(_is_gemv, "stream"), 0, _of_cpus, _VECTORS, _GEMV, functions=("stream_rows",)),
        Candidate("planes", _has_planes, 0, _of_cpus, _VECTORS, _DEPTHWISE, lanes=0),
        Candidate("taps", _has_taps, 1, _of_cpus, _VECTORS, _DEPTHWISE, lanes=0),
        *(
            Candidate(
                name, lambda device, c, op: device.is_cpu, cost, _of_cpus, _VECTORS, _GEMM, None,
                functions=("contract",),
            )
            for name, cost in (("rows", 2), ("packed", _SECOND))
        ),
        Candidate("windows", _has_windows, _cost_of_windows, _span, _TILES, _WINDOWS),
        Candidate("wide", _has_wide, 2, _span, _TILES, _WIDE, runs=_is_dense),
        Candidate(
            "broadcast", lambda device, c, op: not device.is_cpu and _takes_sub_groups(device, c), _SECOND, _broadcast,
            _TILES, ("contract_product", "contract_broadcast"), runs=_takes_sub_groups,
        ),
        Candidate("slices", _has_slices, 0, _slices, _NAIVE, ("contract_product", "contract_skinny"), runs=_is_dense),
        Candidate(
            "tiled", lambda device, c, op: not device.is_cpu and device.group >= tiles.LEAST_GROUP,
            lambda device, c, op: 3 if c.m >= _TILED_ROWS else _SECOND, _tiled, _TILES, _STRIDED,
        ),
        Candidate("direct", _has_direct, 4, _one, _NAIVE, _STRIDED),
        Candidate("plain", _on_request, inf, _one, _NAIVE, _STRIDED, lanes=0, functions=("direct",)),
        *(
            Candidate(
                unit, _on_request, inf, partial(_unit, unit), _TILES, ("contract_product", "contract_matrix_unit"),
                runs=partial(_fits_unit, unit), functions=("matrix_unit",),
            )
            for unit in UNITS  # chosen by ``product_unit`` and ``requested``
        ),
    )
}  # fmt: skip


@lru_cache(maxsize=1024)
def choose(device: Traits, c: Contraction, op: str = "") -> str:
    """Returns the cheapest kernel that applies to a contraction: of a matmul, a conv2d, or another ``op``."""
    rows = (row for row in CONTRACTIONS.values() if row.applies(device, c, op))
    return min(rows, key=lambda row: row.cost_of(device, c, op)).name


def candidates(device: Traits, c: Contraction, op: str = "", unit: str | None = None) -> tuple[str, ...]:
    """Returns the kernels to measure for a contraction, the choice first: the matrix ``unit`` if it is not None."""
    able = (row.name for row in CONTRACTIONS.values() if row.applies(device, c, op))
    return tuple(dict.fromkeys((*(() if unit is None else (unit,)), choose(device, c, op), *able)))


def runnable(device: Traits, c: Contraction, kernel: str) -> str:
    """Returns ``kernel``, or the kernel in its place if it was requested and cannot compute the contraction."""
    row = CONTRACTIONS.get(kernel)
    if row is None:  # an algorithm that cannot compute the convolution
        return choose(device, c)
    if row.runs(device, c):
        return kernel
    return choose(device, c) if kernel in UNITS else "tiled"


def swaps(is_cpu: bool, m: int, n: int) -> bool:
    """True if out^T = B^T A^T is computed, so that the few columns of a product are rows."""
    return min(m, n) <= (_GEMV_ROWS if is_cpu else _SKINNY_MOST_ROWS) and m > n


def product_kernel(device: Traits, c: Contraction, measured: str | None = None, unit: str | None = None) -> str:
    """Returns a matrix product's kernel: the ``measured`` candidate, else the matrix ``unit``, else the cheapest."""
    if measured is not None and measured in candidates(device, c, "matmul", unit):
        return measured
    return unit or choose(device, c, "matmul")


def product_unit(profile: DeviceProfile, c: Contraction, dtype: str) -> str | None:
    """Returns the matrix unit for a product, if the device has one and it pays; else None."""
    return matrix_units.unit_of(profile, dtype, get_float32_matmul_precision(), c)


# ------------------------------------------------------------------------------------------------------- convolutions


def _channels(device: Traits, p: Convolution, op: str = "") -> Any:
    return small_channels.problem_on(device, *p)


def _direct_cost(device: Traits, p: Convolution, op: str) -> float:
    return winograd.direct_cost(device.is_cpu, p.kind, p.geometry)


def _images_last(device: Traits, p: Convolution, op: str = "") -> Any:
    return images_last.plan_on(device, *p)


def _winograd(name: str, device: Traits, p: Convolution) -> Any:
    """Returns the problem of a form of the kernels; that of GPUs also runs on CPUs, if it is requested."""
    form = "gpu" if name.endswith("_gpu") else "cpu"
    if p.dtype not in winograd.DTYPES or (form == "cpu" and not device.is_cpu):
        return None
    return winograd.problem_of(p.kind, p.geometry, form, int(name[len("winograd")]))


def _may_be_winograd(name: str, device: Traits, p: Convolution, op: str) -> Any:
    of_device = name.endswith("_gpu") != device.is_cpu and config.get("CONV_WINOGRAD")
    return _winograd(name, device, p) if of_device else None


def _channels_tiling(device: Traits, dtype: str) -> Tiling:
    registers = small_channels.tile_of(device, "forward", dtype)
    columns = registers.span * registers.vector
    return registers.rows, columns, 1, registers.rows * columns, (1, 1), registers.vector, False


def _winograd_tiling(name: str, device: Traits, dtype: str) -> Tiling:
    edge, lanes = int(name[len("winograd")]), 1 if name.endswith("_gpu") else device.vector
    return edge, edge, 1, lanes, (1, 1), lanes, False


def _winograd_row(name: str) -> Candidate:
    functions = ("filter_images", "filter_gradients") if not name.endswith("_gpu") else ()
    return Candidate(
        name, partial(_may_be_winograd, name),
        lambda device, p, op: winograd.cost(_winograd(name, device, p), p.kind), partial(_winograd_tiling, name),
        ("MATMUL_NAIVE", "CONV2D_WINOGRAD"), ("winograd_matrices", "contract_winograd"), None if functions else 1,
        partial(_winograd, name), (*functions, "output_tiles", "weight_sums"),
    )  # fmt: skip


CONVOLUTIONS: dict[str, Candidate] = {
    row.name: row
    for row in (
        Candidate(
            "channels", _channels, lambda device, p, op: 0 if small_channels.pays(_channels(device, p)) else inf,
            _channels_tiling, _TILES, ("contract_channels",), None, _channels,
            ("channels_forward", "channels_input", "channels_weights"),
        ),
        # Taken before the next row at the same cost; minimal filtering was faster than both wherever it is taken.
        Candidate(
            "images_last", _images_last, _direct_cost, _of_cpus, _VECTORS, _GEMM, None, _images_last, ("contract",),
        ),
        # One contraction for each part of ``conv_plan``, each by a kernel of its own.
        Candidate("contractions", lambda device, p, op: True, _direct_cost, _one, _TILES),
        *map(_winograd_row, ("winograd2", "winograd4", "winograd2_gpu", "winograd4_gpu")),
    )
}  # fmt: skip


def algorithm(device: Traits, p: Convolution, wanted: str | None, without: Iterable[str] = ()) -> tuple[str, Any]:
    """Returns the algorithm of a convolution and its problem: ``wanted`` if it is one that can compute it, or None for
    the cheapest but ``without``; else contractions.
    """
    if wanted is not None:
        problem: Any = wanted in CONVOLUTIONS and CONVOLUTIONS[wanted].runs(device, p)
        return (wanted, problem) if problem else ("contractions", None)
    able = [row for row in CONVOLUTIONS.values() if row.name not in without and row.applies(device, p, "conv2d")]
    row = min(able, key=lambda row: row.cost_of(device, p, "conv2d"))
    return row.name, row.applies(device, p, "conv2d")


def requested(
    device: Traits, profile: DeviceProfile, p: Convolution, measured: str | None, algo: str | None = None
) -> str | None:
    """Returns the kernel that is ``measured``, asked for by ``algo`` or NETCL_CONV_TILED_LOCAL=1, or the matrix unit of
    the device for a convolution; None for the cheapest row.
    """
    if measured is not None and (config.get("CONV_WINOGRAD") or not measured.startswith("winograd")):
        return measured
    if algo == "naive":
        return "direct"
    g = p.geometry
    few = p.kind == "forward" and prod(g.out) < SMALL_OUTPUT and prod(g.kernel) > 1
    tiled = algo == "tiled_local" or (algo is None and not device.is_cpu and few and config.get("CONV_TILED_LOCAL"))
    if tiled and device.group >= tiles.LEAST_GROUP:
        return "tiled"
    if algo is not None or device.is_cpu:
        return "rows" if algo == "implicit_gemm" and device.is_cpu else None
    return matrix_units.convolution_unit_of(profile, p.dtype, p.kind, g)


def convolution_candidates(device: Traits, g: Geometry, dtype: str = "float32") -> tuple[str, ...]:
    """Returns the kernels to measure for a forward convolution."""
    p, c = Convolution("forward", g, dtype), conv_plan("forward", g).parts[0].contraction
    able = (row.name for row in CONVOLUTIONS.values() if row.applies(device, p, "conv2d"))
    kernels = ((candidates(device, c, "conv2d") if name == "contractions" else (name,)) for name in able)
    return tuple(dict.fromkeys(kernel for names in kernels for kernel in names))


def launched(device: Traits, p: Convolution, wanted: str | None = None) -> tuple[str, ...]:
    """Returns the kernels that are launched for a direction, of each contraction of the first block of images."""
    if p.geometry.sparse:
        return launched(device, p._replace(geometry=dense(p.geometry)), wanted)
    name, _ = algorithm(device, p, wanted)
    if name != "contractions":
        return (name,)
    plan = conv_plan(p.kind, p.geometry)
    whole = [part.contraction for part in plan.parts]
    if p.kind == "grad_weight":
        first = [replace(whole[0], partial=True)]
    elif all((wanted or choose(device, c, "conv2d")) == "windows" for c in whole):
        return ("windows",)
    else:
        workspace = CONV_WORKSPACE if device.is_cpu else GPU_CONV_WORKSPACE
        _, blocks = blocks_of(plan, itemsize(p.dtype), workspace)
        first = [restricted(part, *blocks[0]) for part in plan.parts]
    kernels = (runnable(device, c, wanted or choose(device, c, "conv2d")) for c in first if not c.empty)
    return tuple(dict.fromkeys(kernels))


# ------------------------------------------------------------------------------------------------------------ reports


def config_of(device: Traits, op: str, kernel: str, dtype: str) -> KernelConfig:
    """Returns the config that describes ``kernel``, for ``op`` matmul or conv2d."""
    row = CONTRACTIONS.get(kernel) or CONVOLUTIONS[kernel]
    m, n, k, work, group, lanes, local = row.tiling(device, dtype)
    variant = KernelVariant[row.variants[op == "conv2d"]]
    return KernelConfig(variant, m, n, k, work, prod(group), group, local, lanes > 1, lanes)


def entry_points(kernel: str) -> tuple[str, ...]:
    """Returns the names in a launch log that show that ``kernel`` ran, one of ``KernelConfig.extra["kernel"]``."""
    row = CONTRACTIONS.get(kernel) or CONVOLUTIONS.get(kernel)
    return (kernel,) if row is None else row.functions or (kernel,)


# ------------------------------------------------------------------------------------------------------- original API


class SizeRow(NamedTuple):
    """A variant of the original API, which names one for sizes: the first row of an op with
    ``applies(profile, sizes, flags)``.

    ``tile`` is (m, n, k); ``work`` the outputs of a work-item along m and n, ``lanes`` the ones of a vector, 0 if the
    device decides.
    """

    variant: str
    applies: Callable[[ExtendedDeviceProfile, Any, Any], Any] = lambda profile, sizes, flags: True
    tile: tuple[int, int, int] | None = None
    work: int = 1
    lanes: int = 1
    local: bool = True


def _flops(sizes: tuple[int, ...]) -> int:
    return 2 * prod(sizes)


_WHOLE = (None, 4, 4)  # the tile, outputs and lanes of a row with a kernel without tiles

# Sizes of conv2d are the kernel, the stride and the positions of the output.
SIZE_ROWS: dict[str, tuple[SizeRow, ...]] = {
    "matmul": (
        SizeRow("MATMUL_NAIVE", lambda profile, s, flags: s[0] * s[1] < 256 or _flops(s) < 1e5, local=False),
        SizeRow("MATMUL_TILED", lambda profile, s, flags: _flops(s) < 1e7, (16, 16, 16)),
        SizeRow(
            "MATMUL_VECTORIZED", lambda profile, s, flags: flags[0] and profile.prefers_vectors, (64, 64, 16), 0, 0,
        ),
        SizeRow("MATMUL_REGISTER_TILED", tile=(64, 64, 16), work=0),
    ),
    "conv2d": (
        SizeRow("CONV2D_IM2COL", lambda profile, s, flags: profile.is_cpu, (64, 64, 16), 4),
        SizeRow("CONV2D_WINOGRAD", lambda profile, s, flags: flags[0] and s[:2] == ((3, 3), (1, 1)), (32, 32, 8), 4),
        SizeRow(
            "CONV2D_TILED_LOCAL", lambda profile, s, flags: flags[1] and s[0] != (1, 1) and s[2] < SMALL_OUTPUT,
            (16, 16, 8),
        ),
        SizeRow("CONV2D_IMPLICIT_GEMM", tile=(64, 64, 16), work=4),
    ),
    "elementwise": (
        SizeRow("ELEMENTWISE_VECTORIZED", lambda profile, s, flags: s[0] >= 1024 and flags[0], None, 0, 0, False),
        SizeRow("ELEMENTWISE_SCALAR", local=False),
    ),
    "reduction": (
        SizeRow("REDUCTION_SEQUENTIAL", lambda profile, s, flags: s[0] < 256, local=False),
        SizeRow("REDUCTION_PARALLEL", lambda profile, s, flags: s[0] < 65536, *_WHOLE),
        SizeRow("REDUCTION_WORKGROUP", lambda profile, s, flags: True, *_WHOLE),
    ),
    "batchnorm": (
        SizeRow("BATCHNORM_FUSED", lambda profile, s, flags: flags[1] and not flags[0], *_WHOLE),
        SizeRow("BATCHNORM_NAIVE", lambda profile, s, flags: True, *_WHOLE),
    ),
}  # fmt: skip


def config_by_sizes(profile: ExtendedDeviceProfile, op: str, sizes: Any, dtype: str, *flags: Any) -> KernelConfig:
    """Returns the config of the original API for an op, within the device's limits."""
    if op == "conv2d":
        flags = (flags[0] and is_floating(dtype), flags[1])
    row = next(row for row in SIZE_ROWS[op] if row.applies(profile, sizes, flags))
    tile, most = row.tile, max(1, profile.base.max_work_group_size)
    lanes = row.lanes or (max(4, min(profile.vector_width, 16)) if tile else 8 if itemsize(dtype) <= 2 else 4)
    work = row.work or (lanes if not tile else 8 if profile.has_many_registers else 4)
    (columns, rows), k = (tile[1] // work, tile[0] // work) if tile else (16, 16), tile[2] if tile else 1
    memory = profile.base.local_mem_size // max(4, itemsize(dtype)) if profile.base.opencl_c_version else 1 << 62
    while columns * rows > most or (tile and (columns + rows) * work * k > memory and columns * rows * k > 1):
        halved = (columns, rows // 2, k) if rows >= columns else (columns // 2, rows, k)
        columns, rows, k = (columns, rows, k // 2) if columns * rows <= most and k > 1 else halved
    m, n, k = (rows * work, columns * work, k) if tile else (32, 32, 8)
    extra = {"kind": flags[0], "stages": 1 + (row.variant == "REDUCTION_WORKGROUP")} if op == "reduction" else {}
    local, group = bool(flags[0]) if op == "batchnorm" else row.local, 1 << min(256, most).bit_length() - 1
    variant = KernelVariant[row.variant]
    return KernelConfig(variant, m, n, k, work, group, (columns, rows), local, lanes > 1, lanes, extra)
