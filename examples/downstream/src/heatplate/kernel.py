"""The kernel of one time step, written by hand."""

from __future__ import annotations

from netcl.core.kernels.primitives import KernelSpec

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
