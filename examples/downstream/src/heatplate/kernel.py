"""The kernel of one time step, written by hand, and an operation of one line."""

from __future__ import annotations

from netcl.core.kernels.primitives import KernelSpec
from netcl.ops.table import elementwise

# A cell takes from its four neighbours; beyond the rim there is no neighbour, so no heat is lost.
DIFFUSE = KernelSpec(
    name="diffuse",
    params=[
        "__global const float* now",
        "__global float* next",
        "const int rows",
        "const int columns",
        "const float rate",
    ],
    body="""
    const size_t column = get_global_id(0);
    const size_t row = get_global_id(1);
    const size_t i = row * (size_t)columns + column;
    float flow = 0.0f;
    if (row > 0) flow += now[i - columns] - now[i];
    if (row + 1 < (size_t)rows) flow += now[i + columns] - now[i];
    if (column > 0) flow += now[i - 1] - now[i];
    if (column + 1 < (size_t)columns) flow += now[i + 1] - now[i];
    next[i] = now[i] + rate * flow;
    """,
)

# An elementwise row: C over v0 with names of attributes, compiled on OpenCL and computed by NumPy without it.
GLOW = elementwise(
    "heatplate_glow",
    "1.0f / (1.0f + exp((limit - v0) / width))",
    "The brightness from 0 to 1 of material that begins to glow at ``limit`` degrees.",
    limit=600.0,
    width=50.0,
)
