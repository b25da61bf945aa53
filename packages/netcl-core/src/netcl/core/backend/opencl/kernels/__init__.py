"""The kernels of all other operations, each module next to its OpenCL C template."""

from __future__ import annotations
