"""Golden texts of the OpenCL C templates. Every instantiation that a launch can ask for, on CPUs of 4, 8 and 16 lanes
and on GPUs, is stored by the hash of its text and by the hash of its tokens after preprocessing.

If the first changes alone, only macros or comments have changed: a driver compiles the same. If the second changes,
equal results must be shown by other tests. ``golden/templates.txt`` has the hashes.

``python packages/netcl-core/tests/backend/test_golden_templates.py`` writes them again; with a folder as an argument it
writes one instantiation of each program there, to be read or compared.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import blake2b
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import netcl.core
from netcl.core.backend.opencl.contraction import partial_sums
from netcl.core.backend.opencl.contraction.cpu import cpu_tiles, thin
from netcl.core.backend.opencl.contraction.few_channels import small_channels
from netcl.core.backend.opencl.contraction.fused_epilogue import function_text
from netcl.core.backend.opencl.contraction.gpu import gpu_kernels
from netcl.core.backend.opencl.contraction.matrix_unit import matrix_units, unit_convolution
from netcl.core.backend.opencl.contraction.matrix_unit.matrix_units import Layout
from netcl.core.backend.opencl.contraction.minimal_filtering import winograd, winograd_gpu
from netcl.core.backend.opencl.contraction.pads import padding
from netcl.core.backend.opencl.kernels import random, resample
from netcl.core.backend.opencl.kernels.copies import border, copy
from netcl.core.backend.opencl.kernels.indexing import index
from netcl.core.backend.opencl.kernels.packed_products import packed
from netcl.core.backend.opencl.kernels.recurrences import ctc, recurrence
from netcl.core.backend.opencl.kernels.scans.scan_states import scan_program
from netcl.core.backend.opencl.kernels.selections import compaction, select
from netcl.core.backend.opencl.kernels.softmax_attention import attention, attention_unit, cached_attention
from netcl.core.backend.opencl.kernels.sort_keys import keyed_program
from netcl.core.backend.opencl.kernels.sorts import radix_sort, sort
from netcl.core.backend.opencl.kernels.sparse_products import sparse
from netcl.core.backend.opencl.kernels.warps import cleared
from netcl.core.backend.opencl.kernels.warps.look_back import WARP_TEMPLATES, templates
from netcl.core.backend.opencl.kernels.windows import window
from netcl.core.backend.opencl.queue.programs.declarations import unknown
from netcl.core.backend.opencl.templates import Traits, source
from netcl.core.dtypes import itemsize
from netcl.core.engine.packed_formats import FORMATS
from netcl.core.expr import Load, apply
from netcl.core.expr.kernel_source import KernelText, Role
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.small_channels import tile_of
from netcl.core.tuning.unit_table import HALVES, INSTRUCTIONS, UNITS
from netcl.core.tuning.winograd import DTYPES

GOLDEN = Path(__file__).parents[1] / "golden"
CPU = Traits(is_cpu=True, vector=8, local_memory=1 << 20, group=4096)
CPU16 = CPU._replace(vector=16)
SMALL_CPU = CPU._replace(vector=4, local_memory=32 * 1024)
GPU = Traits(is_cpu=False, vector=4, local_memory=48 * 1024, group=1024)
SMALL_GPU = GPU._replace(group=64)
DEVICES = {"cpu": CPU, "cpu16": CPU16, "small_cpu": SMALL_CPU, "gpu": GPU, "small_gpu": SMALL_GPU}
CPUS = ("cpu", "cpu16", "small_cpu")

FLOATS = ("float32", "float64", "float16", "bfloat16")
ALL = (*FLOATS, "int32", "int64", "uint8")

# Of operands in a half type: stored in float32, and read in place.
ROLES = {
    "_in_float32": (("A_IN_FLOAT32", 1), ("B_IN_FLOAT32", 1), ("OUT_IN_FLOAT32", 1)),
    "_in_place": (("A_STORED", 1),),
    "_in_float32_in_place": (("A_STORED", 1), ("A_IN_FLOAT32", 1)),
}

Instances = Iterator[tuple[str, Callable[[], str]]]


def _epilogue(dtype: str, operands: int, lanes: int) -> str:
    """Returns relu of the sum and its operands; the templates have their own text for one operand that is added."""
    computed = "float64" if dtype == "float64" else "float32"
    value = Load(0, computed)
    for slot in range(1, operands + 1):
        value = value + Load(slot, computed)
    text = function_text(apply("maximum", value, 0.0), operands, lanes)
    assert text is not None
    return text


def _finishes(dtype: str, lanes: int) -> Iterator[tuple[str, str, int]]:
    """Yields a name, text and number of operands of each kind of epilogue."""
    if dtype in ("float32", "float16"):
        yield "_added", "", 1
    if dtype == "float32":
        for operands in range(1, 5):
            yield f"_finish{operands}", _epilogue(dtype, operands, lanes), operands


def _contractions_of_cpus() -> Instances:
    for name in CPUS:
        device = DEVICES[name]
        for dtype in FLOATS:
            lanes = device.vector // 2 if dtype == "float64" else device.vector
            for few in (False, True):
                build = partial(cpu_tiles.cpu_program, device, dtype, few=few)
                yield f"contract_cpu/{name}_{dtype}{'_few' * few}", lambda build=build: build().text
            if dtype in ("float16", "bfloat16"):
                for suffix, roles in ROLES.items():
                    build = partial(cpu_tiles.cpu_program, device, dtype, roles=roles)
                    yield f"contract_cpu/{name}_{dtype}{suffix}", lambda build=build: build().text
                tile = tile_of(device, "forward", dtype)
                for suffix, given in (("_in_float32", (("A_IN_FLOAT32", 1),)), ("_copied", (("COPIED", 1),))):
                    yield (
                        f"channels_forward/{name}_{dtype}{suffix}",
                        partial(small_channels._program, "forward", dtype, tile, "", 1, given),
                    )
                yield (
                    f"contract_winograd/{name}_{dtype}_in_float32",
                    partial(winograd._program, device, f"{dtype}_in_float32", 4),
                )
            for suffix, text, operands in _finishes(dtype, lanes):
                build = partial(cpu_tiles.cpu_program, device, dtype, text, operands)
                yield f"contract_cpu/{name}_{dtype}{suffix}", lambda build=build: build().text
            yield f"contract_depthwise/{name}_{dtype}", partial(thin.depthwise_program, device, dtype)
            yield f"contract_gemv/{name}_{dtype}", partial(thin.gemv_program, device, dtype)
            yield f"contract_attention_cpu/{name}_{dtype}", partial(attention._cpu_program, device, dtype)
            for kind in ("forward", "grad_input", "grad_weight"):
                tile = tile_of(device, kind, dtype)
                yield (
                    f"{small_channels._KERNELS[kind][1]}/{name}_{dtype}",
                    partial(small_channels._program, kind, dtype, tile, "", 1),
                )
            tile = tile_of(device, "forward", dtype)
            for suffix, text, operands in _finishes(dtype, lanes):
                yield (
                    f"channels_forward/{name}_{dtype}{suffix}",
                    partial(small_channels._program, "forward", dtype, tile, text, operands),
                )
        for dtype in DTYPES:
            for tile in (2, 4):
                for kernel in winograd._WINDOWS:
                    build = partial(winograd._tiles_program, device, dtype, tile, kernel)
                    yield f"contract_winograd_windows/{name}_{dtype}_{tile}_{kernel}", build
                build = partial(winograd._gradients_program, device, dtype, tile)
                yield f"contract_winograd_gradients/{name}_{dtype}_{tile}", build
                plain = partial(winograd._program, device, dtype, tile)
                yield f"contract_winograd/{name}_{dtype}_{tile}", plain
                for suffix, text, operands in _finishes(dtype, device.vector):
                    finished = partial(winograd._program, device, dtype, tile, text, operands)
                    yield f"contract_winograd/{name}_{dtype}_{tile}{suffix}", finished
                    finished = partial(winograd._images_program, device, dtype, tile, text, operands)
                    yield f"contract_winograd_images/{name}_{dtype}_{tile}{suffix}", finished


def _contractions_of_gpus() -> Instances:
    for dtype in DTYPES:
        for tile in (2, 4):
            for kernel in winograd_gpu._TEMPLATES:
                yield f"winograd_gpu/{kernel}_{dtype}_{tile}", partial(winograd_gpu.program, kernel, dtype, tile)
            for suffix, text, operands in (("", "", 1), *_finishes(dtype, 1)):
                finished = partial(winograd_gpu.output_program, dtype, tile, text, operands)
                yield f"winograd_gpu/output_tiles_{dtype}_{tile}{suffix}", finished
    for dtype in FLOATS:
        for edge, chunks in ((16, 1), (16, 2), (8, 4)):
            build = partial(attention._gpu_program, dtype, edge, chunks)
            yield f"contract_attention_gpu/{dtype}_{edge}_{chunks}", build
        yield f"contract_gpu/{dtype}_plain", partial(gpu_kernels.program, GPU, "plain", dtype, (("PLAIN", 1),))
        for suffix, text, operands in (("", "", 0), *_finishes(dtype, 1)):
            for name, device, kernel, c in _BLOCKED:
                block = gpu_kernels.blocking(kernel, device, c)
                build = partial(gpu_kernels.program, device, kernel, dtype, block.defines, text, operands)
                yield name.format(dtype) + suffix, build


def _product(m: int, n: int, a_along: bool, b_along: bool) -> Contraction:
    """Returns a product with operands contiguous along k or across it."""
    k = 256
    return Contraction(
        m=m, k=(1, 1, 1, k), n=(1, 1, 1, n), a_row=k if a_along else 1, a_k=(0, 0, 0, 1 if a_along else m),
        b_k=(0, 0, 0, 1 if b_along else n), b_n=(0, 0, 0, k if b_along else 1), out_row=n, out_n=(0, 0, 0, 1),
    )  # fmt: skip


_ANY = _product(4096, 4096, True, True)
# The names of programs of GPUs, their devices, kernels and problems.
_BLOCKED = (
    *((f"contract_gpu/{name}_{{}}", DEVICES[name], "tiled", _ANY) for name in ("gpu", "small_gpu", "cpu")),
    ("contract_wide/{}", GPU, "wide", _ANY),
    ("contract_wide/{}_across", GPU, "wide", _product(4096, 4096, False, False)),
    ("contract_wide/{}_scalar", GPU, "wide", _product(4095, 4095, False, False)),
    ("contract_broadcast/{}", GPU, "broadcast", _ANY),
    *(
        (f"contract_implicit_gemm/{{}}_{rows}_{int(along)}", GPU, "windows", _product(m, 4096, along, not along))
        for along in (False, True)
        for rows, m in ((32, 32), (64, 64), (128, 4096))
    ),
    *(
        (f"contract_skinny/{{}}_{group}_{rows}_{int(along)}", device, "slices", _product(rows, 4096, True, along))
        for along in (False, True)
        for group, rows, device in ((256, 4, GPU), (64, 1, SMALL_GPU))
    ),
)  # fmt: skip


def _attention_units() -> Instances:
    """Yields each kernel on the unit and on its twin, for few and for many columns, with each kind of mask."""
    plain = attention_unit._Form("bfloat16", 64, 64, True, 0, False, True, True)
    wide = attention_unit._Form("float16", 256, 48, False, 2, True, False, False)
    for kernel in attention_unit._FILES:
        for unit in ("mma", "mma_twin", "mma_3", "mma_twin_2"):
            forms = [plain._replace(dtype="float32")] if unit[-1].isdigit() else [plain, wide, plain._replace(masked=1)]
            for form in forms:
                tile = attention_unit._tile(unit, kernel, form.width, form.values, 227 * 1024)
                assert tile is not None
                name = f"attention_unit/{kernel}_{unit}_{form.width}_{form.masked}"
                yield name, partial(attention_unit._program, unit, kernel, form, tile)


def _matrix_units() -> Instances:
    """Yields each unit with each of its tiles; of the first tile the layouts, split-K, and an epilogue."""
    for unit in UNITS.values():
        dtype = unit.dtypes[0]
        across = INSTRUCTIONS[unit.base].across or dtype != "float32" or bool(unit.parts)
        for number, (tile, *_) in enumerate(unit.tiles):
            name, layout = f"contract_matrix_unit/{unit.name}_{tile.m}_{tile.n}", Layout(True, not across, True, True)
            yield name, partial(matrix_units.program, GPU, dtype, tile, layout)
            if number:
                continue
            for a_along, b_along in ((True, True), (False, True), (False, False)) if across else ():
                along = Layout(a_along, b_along, True, True)
                yield f"{name}_{int(a_along)}{int(b_along)}", partial(matrix_units.program, GPU, dtype, tile, along)
            if dtype == "bfloat16":
                yield f"{name}_float16", partial(matrix_units.program, GPU, "float16", tile, layout)
            loose = layout._replace(aligned=False, pairs=False)
            yield f"{name}_loose", partial(matrix_units.program, GPU, dtype, tile, loose)
            for place, b_along in (("columns", True), ("terms", False)) if unit.dtypes == HALVES else ():
                pixels = Layout(True, b_along, True, True, place)
                yield f"{name}_{place}", partial(matrix_units.program, GPU, dtype, tile, pixels)
                filled = pixels._replace(masked=b_along, segments=not b_along)
                yield f"{name}_{place}_filled", partial(matrix_units.program, GPU, dtype, tile, filled)
            yield f"{name}_split", partial(matrix_units.program, GPU, dtype, tile._replace(splits=2), layout)
            yield f"{name}_added", partial(matrix_units.program, GPU, dtype, tile, layout, "", 1)
    for vector, other in product((1, 2, 4, 8), (0, 1, 2, 4, 8)):
        yield f"unit_operands/{vector}_{other}", partial(unit_convolution._operands_program, vector, other)
        yield f"unit_operands/{vector}_{other}_16", partial(unit_convolution._operands_program, vector, other, 16)
    for parts in (0, 1, 2, 3):
        yield f"matrix_unit_split/{parts}", partial(matrix_units.split_program, parts)


def _recurrences() -> Instances:
    for dtype in ("float32", "float64"):
        for kind in recurrence.GATES:
            for name in ("cpu", "cpu16", "gpu"):
                for n, hidden in ((32, 64), (2, 64), (32, 8), (32, 1)):
                    tiles = recurrence._tiles(DEVICES[name], dtype, kind, n, hidden)
                    yield (
                        f"contract_recurrence/{dtype}_{kind}_{name}_{n}_{hidden}",
                        partial(recurrence._program, dtype, kind, *tiles),
                    )
    for kind in recurrence.GATES:
        for n, hidden in ((32, 64), (300, 128), (2, 1)):
            group = recurrence._group(GPU._replace(units=64), "float32", kind, n, hidden)
            assert group is not None
            yield (
                f"contract_recurrence_groups/float32_{kind}_{n}_{hidden}",
                partial(recurrence._group_program, "float32", kind, hidden, group),
            )


def _moves() -> Instances:
    for dtype in ("uint8", "float16", "float32", "float64"):
        for size in (1, 2, 4, 8):
            for kernel in ("copy", "copy_tiles"):
                yield f"copy/{kernel}_{size}", partial(copy._program, kernel, size, group=128)
            for dims in range(1, 7):
                yield f"copy/copy_elements_{2 * size}_{dims}", partial(copy._program, "copy_elements", 2 * size, dims)
                yield (
                    f"copy/scatter_elements_{2 * size}_{dims}",
                    partial(copy._scattered_program, 2 * size, dims, dims % 2),
                )
        for kernel in ("pad", "sample", "spread"):
            yield f"pad/{kernel}_{dtype}", partial(padding._program, dtype, kernel, False)
            yield f"pad/each_{kernel}_{dtype}", partial(padding._program, dtype, kernel, True)
        for integer in ("int32", "int64"):
            for kernel in ("take", "gather", "put", "scatter", "claim", "put_in_order", "scatter_in_order"):
                size = itemsize(dtype)
                yield f"index/{kernel}_{dtype}_{integer}", partial(index._program, size, integer, False, kernel)
                if kernel == "take":
                    yield f"index/{kernel}_{dtype}_{integer}_cpu", partial(index._program, size, integer, True, kernel)
    for dtype in ("float16", "bfloat16"):
        for each in (False, True):
            yield f"pad/{'each_' * each}widened_{dtype}", partial(padding._program, dtype, "pad", each, True)
    for dtype in ALL:
        for integer in ("int32", "int64"):
            for kernel in ("take_gradient", "gather_gradient", "sorted_gradient"):
                yield f"index/{kernel}_{dtype}_{integer}", partial(index._sum_program, dtype, integer, kernel)
    for suffix, (group, warp) in {
        "1": (1, ""),
        "256": (256, ""),
        **{warp: (256, warp) for warp in WARP_TEMPLATES},
    }.items():
        yield f"compaction/true_{suffix}", partial(compaction._program, "compaction_true", "bool", group, warp=warp)
        for dtype in ALL:
            for starts in (False, True):
                name = f"compaction/runs_{dtype}_{suffix}{'_starts' * starts}"
                yield name, partial(compaction._program, "compaction_runs", dtype, group, starts, warp)


def _rows() -> Instances:
    """Kernels along an axis."""
    for dtype in ALL:
        floating = dtype in FLOATS
        for kind in ("sum", "prod", "max", "min", *(("logsumexp", "linear") if floating else ())):
            for width in (1, 16):
                build = partial(scan_program, kind, dtype, "scan", "scan_levels", WIDTH=width)
                yield f"scan/{kind}_{dtype}_{width}", build
            if kind != "linear":
                sizes = {"GROUP": 64, "STRETCH": 16, "FAN": 64, "REVERSE": int(kind == "prod")}
                for suffix, warp, totals in (
                    ("", "", 0),
                    ("_totals", "", 1),
                    *((f"_{warp}", warp, 0) for warp in WARP_TEMPLATES),
                ):
                    build = partial(scan_program, kind, dtype, *templates(warp), "scan_rows", TOTALS=totals, **sizes)
                    yield f"scan_rows/{kind}_{dtype}{suffix}", build
        if itemsize(dtype) < 8:
            yield f"sort_rows/{dtype}", partial(sort._row_program, dtype, 512)
        for first, final in ((True, False), (False, False), (False, True)):
            for alone in (False, True):
                for warp in ("", *WARP_TEMPLATES):
                    name = f"sort_tiles/{dtype}_{int(first)}{int(final)}{'_values' * alone}_{warp or 'chunks'}"
                    each = 8 if not warp else 32 if alone else 16
                    yield name, partial(radix_sort.tiles_program, dtype, 256, each, warp, first, final, alone)
        for alone in (False, True):
            for warp, first in (("", True), ("", False), ("twin", True)):
                build = partial(radix_sort.counts_program, dtype, 256, 16, warp, first, alone)
                yield f"sort_counts/{dtype}{'_values' * alone}_{warp or 'chunks'}{int(first)}", build
        for name in ("cpu", "gpu"):
            for program in ("sort", "search"):
                yield f"{program}/{dtype}_{name}", partial(sort._program, dtype, DEVICES[name], program)
            yield f"select/{dtype}_{name}", partial(select._program, dtype, DEVICES[name])
        sizes = {"GROUP": 256, "EACH": 8}
        yield (
            f"select_rows/{dtype}",
            partial(keyed_program, dtype, "select_counts", "group_sums", "select_rows", **sizes),
        )
        for taps in (1, 2, 4) if dtype in ("float32", "float64") else (1,):
            for single, narrow in ((False, False), (True, True), (True, False)):
                name = f"resample/{dtype}_{taps}{'_single' * single}{'_narrow' * narrow}"
                yield name, partial(resample._program, dtype, taps, single, narrow)
        for mode, dims in (("reflect", 1), ("reflect", 6), ("replicate", 3)):
            yield f"border/{dtype}_{mode}_{dims}", partial(border._program, dtype, mode, dims)
        for fixed in ("", "g.unit[2] = 2;"):
            yield f"resample_nearest/{dtype}{'_fixed' * bool(fixed)}", partial(resample._nearest_program, dtype, fixed)
        for (kind, file), name in product(window._PLAIN.items(), CPUS if dtype in window._PLAIN_DTYPES else ()):
            yield f"window/{file}_{name}_{dtype}", partial(window._plain_program, kind, dtype, DEVICES[name])
        for kind in ("max", "avg", "max_grad", "avg_grad", "im2col", "col2im"):
            for step in (1, 2, 3) if kind in ("max", "avg") else (1,):
                yield f"window/{kind}_{dtype}_{step}", partial(window._program, kind, dtype, step, False, False, "")
            for narrow in (True, False):
                name = f"window/{kind}_{dtype}_single{'_narrow' * narrow}"
                yield name, partial(window._program, kind, dtype, 1, True, narrow, "")
            fixed = "g.taps[2] = 3; g.stride[2] = 2;"
            yield f"window/{kind}_{dtype}_fixed", partial(window._program, kind, dtype, 2, True, True, fixed)
    for dtype in (*FLOATS, "float16_in_float32", "bfloat16_in_float32"):
        for name, whole in (("cpu", False), ("gpu", False), ("gpu", True)):
            title, given = f"contract_partial_sums/{name}_{dtype}{'_whole' * whole}", (DEVICES[name], dtype, whole)
            yield title, partial(partial_sums._program, *given)
            for suffix, text, operands in _finishes(dtype, 1):
                yield f"{title}{suffix}", partial(partial_sums._program, *given, text, operands)
    for dtype in FLOATS:
        for width in (1, 4, 16):
            yield f"sparse_rows/{dtype}_{width}", partial(sparse._program, dtype, "sparse_rows", WIDTH=width)
        for lanes, group in ((1, 1), (4, 64), (16, 64)):
            text = partial(sparse._program, dtype, "sparse_pairs", LANES=lanes, GROUP=group)
            yield f"sparse_pairs/{dtype}_{lanes}", text
    for format, row in FORMATS.items():
        for name, dtypes in (("packed_unpack", FLOATS), ("packed_rows", ("float32",)), ("packed_dots", ("float32",))):
            for dtype in dtypes:
                plain = packed.around_defines("", False, False, False)
                defines = {
                    "packed_dots": (*packed.dots_defines(row, 4), *plain),
                    "packed_rows": (*packed.rows_defines(row, dtype, 1, 128, 1 << 14, True), *plain),
                }.get(name, ())
                yield f"{name}/{format}_{dtype}", partial(packed.program, format, dtype, name, defines)
    for name, own in (
        ("packed_dots", packed.dots_defines(FORMATS["Q4_1"], 1)),
        ("packed_rows", packed.rows_defines(FORMATS["Q4_1"], "float32", 1, 128, 1 << 14, True)),
    ):
        defines = (*own, *packed.around_defines("silu", True, True, True))
        yield f"{name}/Q4_1_around", partial(packed.program, "Q4_1", "float32", name, defines)
    for group, kind in ((1, "float32"), (128, "bfloat16"), (1, "int8")):
        text = partial(cached_attention.program, "float32", kind, 64, group, True, group > 1)
        yield f"cached_attention/{kind}_{group}", text
    yield "clear_words/words", cleared._program
    for run in ("ulong2", "ulong8"):
        yield f"fill/{run}", partial(source, ("fill",), (("RUN", run),))
    for dtype in ("float32", "float64"):
        yield f"ctc/{dtype}", partial(ctc._program, dtype)
    for kind, dtypes in (
        ("uniform", FLOATS),
        ("normal", FLOATS),
        ("bits", ("int32",)),
        ("randint", ALL),
        ("kept", ("bool",)),
    ):
        for dtype in dtypes:
            for lanes in (8, 1):
                yield f"random/{kind}_{dtype}_{lanes}", partial(random._program, kind, dtype, lanes)


@cache
def instances() -> dict[str, Callable[[], str]]:
    """Returns the function that gives the text of each instantiation, by ``program/instance``."""
    groups = (
        _contractions_of_cpus(), _contractions_of_gpus(), _attention_units(), _matrix_units(), _recurrences(), _moves(),
        _rows(),
    )  # fmt: skip
    return {name: build for group in groups for name, build in group}


_HEAD = re.compile(r"^__kernel .*?\bvoid (\w+)\(", re.MULTILINE)
_TOKEN = re.compile(r'"[^"\n]*"|\.?\d(?:[eEpP][+-]|[\w.])*|\w+|[-+*/%&|^<>=!]=|<<=?|>>=?|&&|\|\||\+\+|--|->|\S')
_PRAGMA = re.compile(r'_Pragma \( "(\w+)" \)')


def expanded(text: str) -> str:
    """Returns the tokens of a text behind the preprocessor, separated by single spaces; as `cpp -P` gives them."""
    import pcpp  # here, since only a text that has changed and the samples need it

    class Preprocessor(pcpp.Preprocessor):  # type: ignore[misc]
        def on_directive_handle(self, directive: Any, tokens: Any, passing: bool, before: Any) -> Any:
            if directive.value == "pragma":
                raise pcpp.OutputDirective(pcpp.Action.IgnoreAndPassThrough)
            return super().on_directive_handle(directive, tokens, passing, before)

    preprocessor = Preprocessor()
    preprocessor.line_directive = None
    preprocessor.parse(text)
    out = io.StringIO()
    preprocessor.write(out)
    return _PRAGMA.sub(r"# pragma \1", " ".join(_TOKEN.findall(out.getvalue())))


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


@cache
def _stored() -> dict[str, tuple[str, str]]:
    """Returns the hashes of each instantiation: of its text and of what the preprocessor makes of it."""
    lines = (GOLDEN / "templates.txt").read_text().splitlines()
    return {name: (text, tokens) for name, text, tokens in (line.split() for line in lines)}


def _samples() -> dict[str, str]:
    """Returns the instantiation that stands for each program: its first."""
    samples: dict[str, str] = {}
    for name in instances():
        samples.setdefault(name.partition("/")[0], name)
    return samples


def _changed(program: str) -> list[str]:
    """Returns the instantiations of a program with another text than the stored one."""
    mine = [name for name in instances() if name.startswith(f"{program}/")]
    return [name for name in mine if name in _stored() and _hash(instances()[name]()) != _stored()[name][0]]


@pytest.mark.parametrize("program", list(_samples()))
def test_the_texts_are_the_golden_ones(program: str) -> None:
    assert not _changed(program), f"read the difference of the template, then run python {Path(__file__).name}"


@pytest.mark.parametrize("program", list(_samples()))
def test_a_driver_compiles_the_golden_tokens(program: str) -> None:
    """The first of a program, and each with a changed text, compile: macros may move to Python, tokens stay."""
    names = dict.fromkeys([_samples()[program], *_changed(program)])
    found = {name: _hash(expanded(instances()[name]())) for name in names}
    assert found == {name: _stored()[name][1] for name in names}


def test_every_golden_text_belongs_to_an_instantiation() -> None:
    assert set(_stored()) == set(instances())


def test_no_text_needs_the_header_of_a_driver() -> None:
    # Sub-groups are a matter of other drivers, asm is inline PTX for NVIDIA's.
    others = ("sub_group", "get_sub_group", "asm")
    text = "\n".join(str(instances()[name]()) for name in _samples().values())
    assert {name for name in unknown(text) if not name.startswith(others)} == set()


def test_no_macro_is_variadic() -> None:
    """OpenCL C has none: NVIDIA's compiler refuses them, compilers of CPUs do not."""
    sources = [*Path(netcl.core.__path__[0]).rglob("*.cl")]
    assert sources
    assert [path.name for path in sources if "..." in re.sub("//.*", "", path.read_text(encoding="utf-8"))] == []


def test_every_template_is_instantiated() -> None:
    """By the heads of its kernels: each is in the text of some instantiation."""
    heads = re.compile(r"^\$kernel .*?(\w+)\((?:read|write|\$\{)", re.MULTILINE)
    folder = Path(str(files("netcl.core")))
    declared = {name for path in folder.rglob("*.cl") for name in heads.findall(path.read_text())}
    assert declared == {name for build in instances().values() for name in _HEAD.findall(build())}


def test_every_kernel_declares_its_arguments() -> None:
    """As the text has them: those it declares to read, and no others, are pointers to const."""
    for title, build in instances().items():
        text = build()
        assert isinstance(text, KernelText), title
        heads = re.findall(r"^__kernel [^{]*?\bvoid (\w+)\(([^{]*?)\) \{", text, re.MULTILINE)
        macros = dict(re.findall(r"^#define (\w+) (\w+)$", text, re.MULTILINE))
        assert {macros.get(name, name) for name, _ in heads} == set(text.kernels), title
        for name, parameters in heads:
            roles = [_role(parameter.strip()) for parameter in parameters.split(",")]
            assert roles == [argument.role for argument in text.kernels[macros.get(name, name)]], title


def _role(parameter: str) -> Role:
    if "*" not in parameter:
        return Role.SCALAR
    if parameter.startswith("__local "):
        return Role.LOCAL
    return Role.READ if parameter.startswith("__global const ") else Role.WRITE


def main() -> None:
    known = _stored() if (GOLDEN / "templates.txt").exists() else {}
    lines = []
    for name, build in instances().items():
        text = build()
        same = name in known and known[name][0] == _hash(text)
        lines.append(f"{name} {_hash(text)} {known[name][1] if same else _hash(expanded(text))}\n")
    (GOLDEN / "templates.txt").write_text("".join(lines))
    for folder in map(Path, sys.argv[1:]):
        folder.mkdir(exist_ok=True)
        for program, name in _samples().items():
            (folder / f"{program}.cl").write_text(f"// {name}\n{instances()[name]()}")


if __name__ == "__main__":
    main()
