"""Winograd convolution (minimal filtering) of 3 x 3 kernels at stride 1 on GPUs: all three directions.

The transforms take a work-item for each tile of a plane. The products in between are one batched GEMM. For the gradient
of the weights it has split-K, and the last transform adds the partial sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, members, operand_parts
from netcl.core.backend.opencl.contraction.gpu import gpu_kernels
from netcl.core.backend.opencl.contraction.launch import contract
from netcl.core.backend.opencl.templates import Traits, filled_program, source, struct, traits
from netcl.core.device.capabilities import profile_of
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.winograd import Problem

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

_WORKSPACE = 512 * 2**20  # bytes of tiles at a time, and a 32nd of the device's memory; a single image may take more
_GROUP = 128  # work-items
# The template of each kernel, and its definitions.
_TEMPLATES: dict[str, tuple[str, tuple[tuple[str, object], ...]]] = {
    "data_tiles": (
        "contract_winograd_tiles", (("TILES_KERNEL", "data_tiles"), ("WINDOW", "SIDE"), ("TILES_MATRIX", "DATA")),
    ),
    "gradient_tiles": (
        "contract_winograd_tiles",
        (("TILES_KERNEL", "gradient_tiles"), ("WINDOW", "TILE"), ("TILES_MATRIX", "GRADIENT")),
    ),
    "weight_tiles": ("contract_winograd_weights", ()),
    "weight_sums": ("contract_winograd_sums", ()),
}  # fmt: skip


@lru_cache(maxsize=64)
def program(kernel: str, dtype: str, tile: int) -> str:
    """Returns the text of a kernel without epilogue, for images or weights of a dtype and tiles of ``tile`` x
    ``tile``.
    """
    template, definitions = _TEMPLATES[kernel]
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("TILE", tile), ("REALV", "REAL"), *definitions)
    return source(("storage", "winograd_matrices", template), defines)


@lru_cache(maxsize=64)
def output_program(dtype: str, tile: int, epilogue: str = "", operands: int = 1) -> str:
    """Returns the text of the kernel that computes the images of results."""
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("TILE", tile), ("REALV", "REAL"), ("OPERANDS", operands))
    names = ("storage", "contract_operands", "winograd_matrices", "contract_winograd_output")
    parts = operand_parts(epilogue, operands, "REAL", "LOAD(e{k}, plane * g.operands[{i}].row)")
    return filled_program(names, defines, parts, epilogue)


def _blocks(engine: Any, p: Problem) -> Iterator[tuple[int, int]]:
    """Returns (first, count) of each block of images; the tiles of a block are in memory together."""
    bytes_per_image = 4 * p.products * prod(p.across) * (p.ins + p.outs)
    most = min(_WORKSPACE, profile_of(engine.queue).global_mem_size // 32)
    block = max(1, min(p.batch, most // bytes_per_image))
    block = -(-p.batch // -(-p.batch // block))
    return ((first, min(block, p.batch - first)) for first in range(0, p.batch, block))


@lru_cache(maxsize=16)
def _group(device: Traits) -> int:
    return min(_GROUP, device.group)


def _launch(engine: Any, text: str, name: str, columns: int, rows: int, arguments: list[Any]) -> None:
    group = _group(traits(engine))
    engine.launch(text, name, (-(-columns // group) * group, rows), (group, 1), arguments)


def _transformed(engine: Any, p: Problem, name: str, x: TensorData, first: int, images: int) -> TensorData:
    """Computes the tiles of images (``data_tiles``) or of output gradients (``gradient_tiles``): (products, planes,
    tiles).
    """
    planes, size = x.shape[1], (x.shape[2], x.shape[3])
    tiles, image = images * prod(p.across), planes * prod(size)
    low = p.low if name == "data_tiles" else (0, 0)
    result: TensorData = engine.empty((p.products, planes, tiles), "float32")
    argument = struct(planes, tiles, p.across[1], prod(p.across), size, image, first * image, low)
    _launch(engine, program(name, x.dtype, p.tile), name, tiles, planes, [x, result, argument])
    return result


def _weights(engine: Any, p: Problem, weight: TensorData, flipped: bool) -> TensorData:
    """Computes the weights' tiles: (products, outs, ins); ``flipped``: for the gradient of the input."""
    result: TensorData = engine.empty((p.products, p.outs, p.ins), "float32")
    steps = (9, p.outs * 9) if flipped else (p.ins * 9, 9)
    argument = struct(p.outs, p.ins, steps, int(flipped))
    text = program("weight_tiles", weight.dtype, p.tile)
    _launch(engine, text, "weight_tiles", p.ins, p.outs, [weight, result, argument])
    return result


@lru_cache(maxsize=512)
def _products(p: Problem, tiles: int) -> Contraction:
    return Contraction(
        m=p.outs, k=(1, 1, 1, p.ins), n=(1, 1, 1, tiles), a_row=p.ins, a_k=(0, 0, 0, 1), b_k=(0, 0, 0, tiles),
        b_n=(0, 0, 0, 1), out_row=tiles, out_n=(0, 0, 0, 1), batch=(1, p.products), a_batch=(0, p.outs * p.ins),
        b_batch=(0, p.ins * tiles), out_batch=(0, p.outs * tiles),
    )  # fmt: skip


@lru_cache(maxsize=512)
def _weight_products(p: Problem, tiles: int, out_offset: int) -> Contraction:
    return Contraction(
        m=p.outs, k=(1, 1, 1, tiles), n=(1, 1, 1, p.ins), a_row=tiles, a_k=(0, 0, 0, 1), b_k=(0, 0, 0, 1),
        b_n=(0, 0, 0, tiles), out_row=p.ins, out_n=(0, 0, 0, 1), batch=(1, p.products), a_batch=(0, p.outs * tiles),
        b_batch=(0, p.ins * tiles), out_batch=(0, p.outs * p.ins), out_offset=out_offset, partial=True,
    )  # fmt: skip


def run(
    engine: Any,
    p: Problem,
    x: TensorData,
    weight: TensorData,
    out: TensorData,
    fused: FusedEpilogue | None,
    flipped: bool,
) -> None:
    """Computes the forward direction, or with ``flipped`` weights the gradient of the input, into ``out``."""
    rows = _weights(engine, p, weight, flipped)
    text, operands, layouts = fused or ("", (), None)
    finish = output_program(out.dtype, p.tile, text, max(1, len(operands)))
    for first, images in _blocks(engine, p):
        tiles = images * prod(p.across)
        data = _transformed(engine, p, "data_tiles", x, first, images)
        sums: TensorData = engine.empty((p.products, p.outs, tiles), "float32")
        contract(engine, _products(p, tiles), rows, data, sums)
        image = p.outs * prod(p.out)
        argument = struct(
            p.outs, tiles, p.across[1], prod(p.across), p.out, image, first * image, int(layouts is not None),
            members(layouts),
        )  # fmt: skip
        _launch(engine, finish, "output_tiles", tiles, p.outs, [sums, out, argument, *(operands or (out,))])


def grad_weight(engine: Any, p: Problem, x: TensorData, grad: TensorData, out: TensorData) -> None:
    """Computes the gradient of the weights into ``out``."""
    size, blocks = p.outs * p.ins, list(_blocks(engine, p))
    part = p.products * size
    of_block = _weight_products(p, blocks[0][1] * prod(p.across), 0)
    cut = gpu_kernels.blocking("windows", traits(engine), of_block)
    sums: TensorData = engine.empty((len(blocks) * cut.splits, part), "float32")
    for number, (first, images) in enumerate(blocks):
        data = _transformed(engine, p, "data_tiles", x, first, images)
        grads = _transformed(engine, p, "gradient_tiles", grad, first, images)
        c = _weight_products(p, images * prod(p.across), number * cut.splits * part)
        gpu_kernels.contract(engine, "windows", c, cut, grads, data, sums, part)
    arguments = [sums, out, np.int64(size), np.int64(len(blocks) * cut.splits)]
    _launch(engine, program("weight_sums", out.dtype, p.tile), "weight_sums", size, 1, arguments)
