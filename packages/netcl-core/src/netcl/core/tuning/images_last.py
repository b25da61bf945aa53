"""Chooses convolutions over copies in which the images are the last index, on CPU devices.

The CPU kernel copies columns of its operand of images as vectors if they follow each other in memory, else one by one.
With a stride, and in rows that are no multiple of a vector, they do not. With the images as the last index, the values
of all images at a position follow each other, whatever the stride.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.tuning.conv_plans import ConvPart, ConvPlan, conv_plan
from netcl.core.tuning.problems import Contraction, Geometry, Levels

if TYPE_CHECKING:
    from netcl.core.tuning.traits import Traits

_LEAST_PRODUCTS = 1 << 20  # below, the copies take as long
_LEAST_ROWS = 8  # of filters or channels in a group; for fewer there are kernels of their own
_RUN = 2  # vectors of a run from which on no copy with the images last pays


@lru_cache(maxsize=512)
def plan_on(device: Traits, kind: str, g: Geometry, dtype: str) -> ConvPlan | None:
    """Returns the plan of a convolution that is computed in this way; None if it cannot be, or if columns are runs
    in padded images.
    """
    if not device.is_cpu or dtype != "float32" or 0 in (g.batch, *g.out) or g.batch % device.vector:
        return None
    plan = conv_plan(kind, g)
    parts = [part.contraction for part in plan.parts if prod(part.contraction.k)]
    products = [c.m * prod(c.k) * prod(c.n) * prod(c.batch) for c in parts]
    if sum(products) < _LEAST_PRODUCTS or parts[0].m < _LEAST_ROWS:
        return None
    run = min(_columns_in_a_run(c, plan.parts[0].image_axis == "k") for c in parts)
    return plan if run % device.vector and run < _RUN * device.vector else None


def _columns_in_a_run(c: Contraction, of_sums: bool) -> int:
    """Returns the number of columns, or of terms of sums over images, that follow each other in memory."""
    run = 1
    for extent, step in zip(*((reversed(c.k), reversed(c.b_k)) if of_sums else (reversed(c.n), reversed(c.b_n)))):
        if extent > 1 and step != run:
            break
        run *= extent
    return run


@lru_cache(maxsize=1024)
def blocks_of(plan: ConvPlan, vector: int, bytes_per_element: int, workspace: int) -> tuple[tuple[int, int], ...]:
    """Returns the blocks of images (first, count) that are copied together: whole vectors."""
    most = max(plan.planes * prod(plan.padded), prod(plan.shape[1:]) if plan.parts[0].image_axis == "n" else 0)
    block = max(1, workspace // (most * bytes_per_element * vector)) * vector
    return tuple((first, min(block, plan.images - first)) for first in range(0, plan.images, block))


@lru_cache(maxsize=1024)
def with_images_last(part: ConvPart, images: int) -> Contraction:
    """Returns a part over ``images`` images, in copies of the images, and of the result or its gradient, with the
    images as the last index.
    """
    c = part.contraction
    whole = replace(
        c, b_offset=c.b_offset * images, b_batch=_scaled(c.b_batch, images), b_k=_scaled(c.b_k, images),
        b_n=_scaled(c.b_n, images),
    )  # fmt: skip
    if part.image_axis == "n":
        return replace(
            whole, n=(*c.n[1:], images), b_n=_last(whole.b_n), out_row=c.out_row * images,
            out_offset=c.out_offset * images, out_n=_last(_scaled(c.out_n, images)),
            out_batch=_scaled(c.out_batch, images),
        )  # fmt: skip
    return replace(
        whole, k=(*c.k[1:], images), b_k=_last(whole.b_k), a_row=c.a_row * images, a_k=_last(_scaled(c.a_k, images)),
        a_batch=_scaled(c.a_batch, images),
    )  # fmt: skip


def _scaled(steps: Levels | tuple[int, int], images: int) -> Any:
    return tuple(step * images for step in steps)


def _last(steps: Levels) -> Levels:
    return (*steps[1:], 1)
