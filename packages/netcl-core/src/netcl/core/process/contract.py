"""The levels of the contract that this netcl-core keeps; packages above do the work of an absent one without it.

docs/reference/core-contract.md says for each level which names belong to it and what they do.
"""

from __future__ import annotations

from importlib.util import find_spec

# The levels are as in netcl_conformance.lists.levels; an alternative netcl-core lists its own.
LEVELS: frozenset[str] = frozenset(
    (
        "tensor",
        "ops-basic",
        "ops-full",
        "gradient",
        "random",
        "expressions",
        "programs",
        "half",
        "several-devices",
        "tracing",
        "capture",
        "prediction",
        "staging",
        "profiling",
        "pools",
        "packed",
        "front",
        # The lean install on NumPy has the same files without OpenCL's.
        *(("opencl-kernels",) if find_spec("netcl.core.backend.opencl") is not None else ()),
    )
)
