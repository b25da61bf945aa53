"""The table of matrix units: for each its operands, the devices that may have it, its instruction and its tiles.

A unit's instruction multiplies two fragments and adds the product to sums, all spread over the lanes of a warp (wave,
sub-group). A fragment is described by expressions of OpenCL C in ``lane`` and ``e``, the number of an element in the
lane, so that one kernel and one software emulation (twin) serve all such units. The units ``wgmma`` and ``mma`` of
NVIDIA's GPUs have loads and twins of their own.

Sources of the instructions: PTX ISA (wgmma, mma.sync), the OpenCL extensions
cl_intel_subgroup_matrix_multiply_accumulate and its _tf32, AMD's matrix instruction calculator and clang's builtins for
amdgcn (WMMA, MFMA), the use of cl_arm_matrix_multiply in Arm's Compute Library, cl_khr_integer_dot_product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from netcl.core.device.capabilities import DeviceProfile

HALVES = ("bfloat16", "float16")
# The bfloat16 parts of float32 operands, by the names of ``set_float32_matmul_precision``.
PARTS = {"highest": 3, "high": 2, "medium": 1}


class Kind(NamedTuple):
    """A kind of operand elements: the name in instructions, the 16-bit words of an element, its type, the type of sums,
    and the value of an element ``x``.
    """

    name: str
    words: int
    element: str
    sum: str
    value: str


# By the dtype of operands; ``tf32`` is float32 with the 10 high bits of the mantissa.
KINDS = {
    "float16": Kind("f16", 1, "ushort", "float", "vload_half(0, (const half*)&x)"),
    "bfloat16": Kind("bf16", 1, "ushort", "float", "as_float((uint)x << 16)"),
    "float32": Kind("f32", 2, "uint", "float", "as_float(x)"),
    "tf32": Kind("tf32", 2, "uint", "float", "as_float(x & 0xffffe000u)"),
    "float64": Kind("f64", 4, "ulong", "double", "as_double(x)"),
}


class Held(NamedTuple):
    """The elements of a fragment in a lane: their number, and the position of element ``e`` of lane ``lane``: row (of
    B: column) and place along k, or for sums row and column.
    """

    elements: int
    first: str
    second: str


class Instruction(NamedTuple):
    """A multiply-accumulate of a warp of ``lanes`` work-items: m x k and k x n elements, ``k`` in 16-bit words.

    ``text``, by the name of the kind of operands: OpenCL C that adds the product of ``a`` and ``b``, arrays of a lane's
    elements, to ``sums``; it is empty if the unit has templates of its own. ``single`` is the kind as which elements of
    float32 are multiplied, ``across`` is False if those have to be contiguous along k, ``rounded`` is True if they have
    to be rounded before. ``attributes`` are the kernel's.
    """

    m: int
    n: int
    k: int
    lanes: int
    sums: Held
    a: Held | None = None
    b: Held | None = None
    text: Mapping[str, str] = {}
    single: str = "float32"
    across: bool = True
    rounded: bool = False
    attributes: str = ""


class UnitTile(NamedTuple):
    """The blocking of a product on a unit: the results of a work-group, its warps along m and n, the block of k in
    16-bit words, the stages of the ring of copies, the bfloat16 parts of float32 operands (0: operands as they are),
    and the number of partial sums (split-K).
    """

    unit: str
    m: int
    n: int
    k: int
    warps_m: int
    warps_n: int
    stages: int
    parts: int = 0
    splits: int = 1

    @property
    def base(self) -> str:
        """The name of the instruction, shared with the unit's software emulation (twin)."""
        return self.unit.removesuffix("_twin")


class RatedTile(NamedTuple):
    """A tile with its measured shares of a compute unit's speed (``_PRODUCTS_PER_US`` of matrix_units.py): with one
    work-group on a unit, and with as many as fit.
    """

    tile: UnitTile
    alone: float
    together: float


Tiles: TypeAlias = tuple[RatedTile, ...]
Presence: TypeAlias = Callable[[DeviceProfile], bool]


class MatrixUnit(NamedTuple):
    """A row of the table.

    ``dtypes`` are the dtypes of the operands, ``precisions`` the float32 precisions for which the unit may be used, by
    PyTorch's names. ``may_have`` is True for profiles of devices that may have the unit; a row without it is a software
    emulation (twin), which runs on any device if requested by name. ``ran`` is False if the unit was never run on
    hardware in this project.
    """

    name: str
    dtypes: tuple[str, ...]
    may_have: Presence | None
    tiles: Tiles
    precisions: tuple[str, ...] = ()
    ran: bool = True

    def possible_on(self, profile: DeviceProfile) -> bool:
        """True if a device may have the unit, by its driver's report; False for twins."""
        return self.may_have is not None and self.may_have(profile)

    @property
    def parts(self) -> int:
        """The bfloat16 parts of float32 operands, 0 for operands as they are."""
        return self.tiles[0].tile.parts

    @property
    def base(self) -> str:
        """The name of the unit's instruction."""
        return self.tiles[0].tile.base


def kind_of(tile: UnitTile, dtype: str) -> str:
    """Returns the key in ``KINDS`` of the elements that a unit multiplies for operands of a dtype."""
    if tile.parts:
        return "bfloat16"
    return INSTRUCTIONS[tile.base].single if dtype == "float32" else dtype


# -------------------------------------------------------------------------------------------------------- instructions


def _by_kind(text: str, **types: str) -> dict[str, str]:
    """Returns the ``text`` for each kind, with <kind> replaced by its name and <type> by the vector's element type."""
    return {kind: text.replace("<kind>", kind).replace("<type>", name) for kind, name in types.items()}


def _dpas(lanes: int) -> Instruction:
    """Returns Intel's XMX: 8 x 16 by 16 x lanes; a lane has a row of B's transpose, pairs of 16 bits of A or one."""
    pairs = lanes == 8
    left = "as_int8(vload16(0, a))" if pairs else "as_short8(vload8(0, a))"
    call = f"intel_sub_group_<kind>_<kind>_matrix_mad_k16({left}, as_int8(vload16(0, b)), vload8(0, sums))"
    return Instruction(
        8, lanes, 16, lanes, sums=Held(8, "e", "lane"),
        a=Held(16, "e / 2", "lane * 2 + e % 2") if pairs else Held(8, "e", "lane"), b=Held(16, "lane", "e"),
        text=_by_kind(f"vstore8({call}, 0, sums);", f16="", bf16=""),
        attributes=f"__attribute__((intel_reqd_sub_group_size({lanes})))",
    )  # fmt: skip


def _wmma(suffix: str, held: int, place: str, sums: Held) -> Instruction:
    """Returns AMD's WMMA: 16 x 16 by 16 x 16 on 32 lanes."""
    left, right = (f"as_<type>{held}(vload{held}(0, {x}))" for x in "ab")
    call = f"__builtin_amdgcn_wmma_f32_16x16x16_<kind>_w32{suffix}({left}, {right}, vload8(0, sums))"
    return Instruction(
        16, 16, 16, 32, sums=sums, a=Held(held, "lane % 16", place), b=Held(held, "lane % 16", place),
        text=_by_kind(f"vstore8({call}, 0, sums);", f16="half", bf16="short"),
    )  # fmt: skip


_MFMA_CALL = "vstore4(__builtin_amdgcn_mfma_f32_16x16x{name}({a}, {b}, vload4(0, sums), 0, 0, 0), 0, sums);"
_MFMA_SUMS = Held(4, "lane / 16 * 4 + e", "lane % 16")
_MFMA_HALVES = Held(4, "lane % 16", "lane / 16 * 4 + e")
_MFMA_SINGLE = Held(1, "lane % 16", "lane / 16")
_OF_A_WARP = Held(4, "lane / 4 + e / 2 * 8", "lane % 4 * 2 + e % 2")
_OF_TWO = Held(8, "lane / 4 + e % 4 / 2 * 8", "lane % 4 * 2 + e % 2 + e / 4 * 8")
_F64_MMA = (
    'asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"'
    ' : "+d"(sums[0]), "+d"(sums[1]) : "d"(as_double(a[0])), "d"(as_double(b[0])));'
)

INSTRUCTIONS: dict[str, Instruction] = {
    "wgmma": Instruction(16, 8, 16, 32, sums=_OF_A_WARP, single="tf32", across=False, rounded=True),
    "mma": Instruction(16, 16, 16, 32, sums=_OF_TWO, single="tf32", across=False),
    "mma_f64": Instruction(
        8, 8, 16, 32, sums=Held(2, "lane / 4", "lane % 4 * 2 + e"), a=Held(1, "lane / 4", "lane % 4"),
        b=Held(1, "lane / 4", "lane % 4"), text={"f64": _F64_MMA},
    ),
    "dpas16": _dpas(16),
    "dpas8": _dpas(8),
    "dpas_tf32": Instruction(
        8, 16, 16, 16, sums=Held(8, "e", "lane"), a=Held(4, "e * 2 + lane / 8", "lane % 8"), b=Held(8, "lane", "e"),
        text={
            "tf32": "vstore8(intel_sub_group_tf32_tf32_matrix_mad_k8(as_float4(vload4(0, a)), as_float8(vload8(0, b)), "
            "vload8(0, sums)), 0, sums);"
        },
        single="tf32", attributes="__attribute__((intel_reqd_sub_group_size(16)))",
    ),
    "wmma": _wmma("", 16, "e", Held(8, "e * 2 + lane / 16", "lane % 16")),
    "wmma_gfx12": _wmma("_gfx12", 8, "lane / 16 * 8 + e", Held(8, "lane / 16 * 8 + e", "lane % 16")),
    "mfma": Instruction(
        16, 16, 16, 64, sums=_MFMA_SUMS, a=_MFMA_HALVES, b=_MFMA_HALVES,
        text={
            "f16": _MFMA_CALL.format(name="16f16", a="as_half4(vload4(0, a))", b="as_half4(vload4(0, b))"),
            "bf16": _MFMA_CALL.format(name="16bf16_1k", a="as_short4(vload4(0, a))", b="as_short4(vload4(0, b))"),
        },
    ),
    "mfma_f32": Instruction(
        16, 16, 8, 64, sums=_MFMA_SUMS, a=_MFMA_SINGLE, b=_MFMA_SINGLE,
        text={"f32": _MFMA_CALL.format(name="4f32", a="as_float(a[0])", b="as_float(b[0])")},
    ),
    "arm": Instruction(
        4, 4, 8, 16, sums=Held(1, "lane / 4", "lane % 4"), a=Held(1, "lane / 4", "lane % 4"),
        b=Held(1, "lane % 4", "lane / 4"),
        text={"f32": "sums[0] = arm_matrix_multiply(as_float(a[0]), as_float(b[0]), sums[0]);"},
    ),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------- devices with a unit


def nvidia(least: tuple[int, int], alone: bool = False) -> Presence:
    """Returns a test for NVIDIA's GPUs of a compute capability from ``least`` on, or of ``least`` ``alone``."""

    def may_have(profile: DeviceProfile) -> bool:
        capability = compute_capability(profile)
        return capability is not None and (capability == least if alone else capability >= least)

    return may_have


def compute_capability(profile: DeviceProfile) -> tuple[int, int] | None:
    """Returns the compute capability of one of NVIDIA's GPUs, asked for once; None for other devices."""
    if profile._device is None or "cl_nv_device_attribute_query" not in profile.extensions:
        return None
    return _compute_capability(profile._device)


@lru_cache(maxsize=64)
def _compute_capability(device: Any) -> tuple[int, int]:
    return int(device.compute_capability_major_nv), int(device.compute_capability_minor_nv)


def _extension(name: str) -> Presence:
    return lambda profile: name in profile.extensions


def _amd(architectures: str) -> Presence:
    """Returns a test for AMD's GPUs by a pattern of the name in OpenCL."""
    return lambda profile: re.match(rf"gfx({architectures})\b", profile.name) is not None


# --------------------------------------------------------------------------------------------------------------- rows


def _rated(*tiles: tuple[UnitTile, float]) -> Tiles:
    """Returns tiles with the same speed for one work-group on a unit and for several."""
    return tuple(RatedTile(tile, speed, speed) for tile, speed in tiles)


# Of work-groups with 96 KB of tiles two fit on a compute unit, which hides copies and barriers; those with 128 KB have
# more copies under way, for products with few work-groups.
_WGMMA_TILES = (
    RatedTile(UnitTile("wgmma", 128, 256, 64, 8, 1, 4), 0.75, 0.75),
    RatedTile(UnitTile("wgmma", 128, 128, 64, 8, 1, 3), 0.6, 0.74),
    RatedTile(UnitTile("wgmma", 128, 128, 64, 8, 1, 4), 0.68, 0.68),
    RatedTile(UnitTile("wgmma", 64, 128, 64, 4, 1, 4), 0.44, 0.54),
    RatedTile(UnitTile("wgmma", 64, 64, 64, 4, 1, 4), 0.24, 0.43),
)
_MMA_TILES = _rated(
    (UnitTile("mma", 128, 128, 32, 2, 2, 4), 1.0),
    (UnitTile("mma", 128, 64, 32, 2, 2, 4), 0.8),
    (UnitTile("mma", 64, 64, 64, 2, 2, 4), 0.7),
)
# For operands in parts: their totals take as many registers as the sums of the unit.
_WGMMA_PARTS = _rated(
    (UnitTile("wgmma", 128, 128, 64, 8, 1, 5), 1.0),
    (UnitTile("wgmma", 64, 128, 64, 4, 1, 4), 0.75),
    (UnitTile("wgmma", 64, 64, 64, 4, 1, 4), 0.5),
)
_MMA_PARTS = _rated((UnitTile("mma", 128, 64, 32, 2, 2, 4), 1.0), (UnitTile("mma", 64, 64, 64, 2, 2, 4), 0.8))
_MMA_F64_TILES = _rated((UnitTile("mma_f64", 64, 64, 64, 2, 2, 3), 1.0))
# Twins have one small tile each: they are for tests on CPUs.
_TWIN_TILES = {
    "wgmma": UnitTile("wgmma_twin", 64, 64, 64, 4, 1, 3),
    "mma": UnitTile("mma_twin", 64, 64, 32, 2, 1, 2),
    **{
        name: UnitTile(f"{name}_twin", 64, 64, 32, 2, max(1, 32 // instruction.lanes), 2)
        for name, instruction in INSTRUCTIONS.items()
        if instruction.a is not None
    },
}
# Estimated from the registers of a lane, not measured.
_UNTRIED_TILES = {
    "dpas16": (UnitTile("dpas16", 128, 64, 32, 4, 2, 2), UnitTile("dpas16", 64, 64, 32, 2, 2, 2)),
    "dpas8": (UnitTile("dpas8", 64, 64, 32, 4, 4, 2),),
    "dpas_tf32": (UnitTile("dpas_tf32", 128, 64, 32, 4, 2, 2), UnitTile("dpas_tf32", 64, 64, 32, 2, 2, 2)),
    "wmma": (UnitTile("wmma", 128, 128, 32, 4, 2, 2), UnitTile("wmma", 64, 64, 32, 2, 2, 2)),
    "wmma_gfx12": (UnitTile("wmma_gfx12", 128, 128, 32, 4, 2, 2), UnitTile("wmma_gfx12", 64, 64, 32, 2, 2, 2)),
    "mfma": (UnitTile("mfma", 128, 128, 32, 2, 2, 2), UnitTile("mfma", 64, 64, 32, 2, 2, 2)),
    "mfma_f32": (UnitTile("mfma_f32", 128, 128, 32, 2, 2, 2), UnitTile("mfma_f32", 64, 64, 32, 2, 2, 2)),
    "arm": (UnitTile("arm", 64, 64, 32, 4, 4, 2),),
}
_EACH_PRECISION = tuple(PARTS)
_INTEL = "cl_intel_subgroup_matrix_multiply_accumulate"


def _of_parts(
    name: str, may_have: Presence | None, tiles: Tiles, most: int = 3, ran: bool = True
) -> Iterator[MatrixUnit]:
    """Yields the rows of a unit for float32 operands in ``most`` parts and fewer."""
    for parts in range(most, 0, -1):
        of_parts = tuple(rated._replace(tile=rated.tile._replace(parts=parts)) for rated in tiles)
        asked = tuple(precision for precision, count in PARTS.items() if count == parts)
        yield MatrixUnit(f"{name}_{parts}", ("float32",), may_have, of_parts, asked, ran)


def _dtypes_of(instruction: Instruction) -> tuple[str, ...]:
    """Returns the dtypes of an instruction's unconverted operands."""
    kinds = instruction.text.keys()
    return ("float64",) if "f64" in kinds else ("float32",) if kinds & {"f32", "tf32"} else HALVES


def _untried(name: str, may_have: Presence, precisions: tuple[str, ...] = ()) -> Iterator[MatrixUnit]:
    """Yields the rows of a unit without test hardware: on operands as they are, and if they have 16 bits, on float32 in
    two parts and in one. Three parts would be as exact as float32 only if the unit's sums are, which is not known.
    """
    tiles = _rated(*((tile, 1 / 2**i) for i, tile in enumerate(_UNTRIED_TILES[name])))
    yield MatrixUnit(name, _dtypes_of(INSTRUCTIONS[name]), may_have, tiles, precisions, ran=False)
    if not precisions:
        yield from _of_parts(name, may_have, tiles, 2, ran=False)


def _twins(name: str, tile: UnitTile) -> Iterator[MatrixUnit]:
    """Yields the twin of a unit for each of its kinds of operands."""
    instruction = INSTRUCTIONS[name]
    yield MatrixUnit(f"{name}_twin", _dtypes_of(instruction), None, _rated((tile, 1.0)))
    if instruction.a is None:
        yield from _of_parts(f"{name}_twin", None, _rated((tile, 1.0)))
        yield MatrixUnit(f"{name}_twin_tf32", ("float32",), None, _rated((tile, 1.0)))


UNITS: dict[str, MatrixUnit] = {
    unit.name: unit
    for unit in (
        MatrixUnit("wgmma", HALVES, nvidia((9, 0), alone=True), _WGMMA_TILES),
        MatrixUnit("mma", HALVES, nvidia((8, 0)), _MMA_TILES),
        MatrixUnit("wgmma_tf32", ("float32",), nvidia((9, 0), alone=True), _WGMMA_TILES, ("high",)),
        MatrixUnit("mma_tf32", ("float32",), nvidia((8, 0)), _MMA_TILES, ("high",)),
        *_of_parts("wgmma", nvidia((9, 0), alone=True), _WGMMA_PARTS),
        *_of_parts("mma", nvidia((8, 0)), _MMA_PARTS),
        MatrixUnit("mma_f64", ("float64",), nvidia((8, 0)), _MMA_F64_TILES),
        *_untried("dpas_tf32", _extension(f"{_INTEL}_tf32"), ("high",)),
        *_untried("dpas16", _extension(_INTEL)),
        *_untried("dpas8", _extension(_INTEL)),
        *_untried("wmma", _amd(r"11\d\d")),
        *_untried("wmma_gfx12", _amd(r"12\d\d")),
        *_untried("mfma", _amd(r"90a|94\d|950")),
        *_untried("mfma_f32", _amd(r"90a|94\d|950"), _EACH_PRECISION),
        *_untried("arm", _extension("cl_arm_matrix_multiply"), _EACH_PRECISION),
        *(row for name, tile in _TWIN_TILES.items() for row in _twins(name, tile)),
    )
}
