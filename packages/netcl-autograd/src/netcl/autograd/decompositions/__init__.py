"""Functions of the level ops-full made of other rows, for a netcl-core that leaves them out: ``complete`` adds them.

A core that has all of them pays for a comparison of names. ``netcl.ops.flatten`` and its row are then the ones of this
package, recorded op by op as a composite of the core is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import netcl.ops as ops
from netcl.core.dispatch import Domain

__all__ = ["ADDED", "MODULES", "NAMES", "complete", "functions"]

# By module, the functions that it defines: known without an import of the module.
MODULES = {
    "shapes": """
        atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod channel_shuffle chunk column_stack
        combinations diag diff dstack flatten hstack matrix_transpose narrow pixel_shuffle pixel_unshuffle repeat roll
        rot90 split squeeze stack tile transpose unbind unsqueeze vstack
    """,
    "algebra": """
        addcdiv addcmul addmm baddbmm bias_add bilinear bmm cdist corrcoef cov cumulative_trapezoid dot fill glu kron
        masked_fill matrix_exp mm mv outer pairwise_distance pdist renorm std_mean tensordot trace trapezoid vander
        var_mean
    """,
    "positions": """
        argsort bucketize embedding index_add isin masked_select permutation quantile take take_along_axis
        unravel_index
    """,
    "layers": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d batch_norm conv_tbc depthwise_conv2d
        group_norm instance_norm layer_norm local_response_norm lp_pool1d lp_pool2d rms_norm rope rrelu
        scaled_dot_product_attention
    """,
}
NAMES = frozenset(name for names in MODULES.values() for name in names.split())
# Functions whose gradient the tests of rows leave out: positions and random orders, and operands that are lists.
NOT_DIFFERENTIATED = frozenset(
    [
        "argsort",
        "broadcast_tensors",
        "bucketize",
        "column_stack",
        "dstack",
        "hstack",
        "isin",
        "permutation",
        "stack",
        "unravel_index",
        "vstack",
    ]
)
# Functions whose second derivatives they leave out: random orders, norms, which have none at zero, and powers.
NOT_TWICE = frozenset(["cdist", "matrix_exp", "pairwise_distance", "pdist", "permutation", "renorm", "vander"])


def functions(module: str) -> dict[str, tuple[Callable[..., Any], str]]:
    """The functions of a module of ``MODULES`` by name, each with its amp class."""
    found = importlib.import_module(f"netcl.autograd.decompositions.{module}")
    return {name: (getattr(found, name), found.AMP.get(name, "widest")) for name in MODULES[module].split()}


def complete() -> list[str]:
    """Adds to ``netcl.ops`` and the op table the functions that the core leaves out; returns their names."""
    absent = [name for name in NAMES if not hasattr(ops, name)]
    if absent:
        from netcl.ops.table import composite

        for module in MODULES:
            for name, (function, amp) in functions(module).items():
                if name in absent:
                    domain = Domain(gradient=name not in NOT_DIFFERENTIATED, second=name not in NOT_TWICE)
                    setattr(ops, name, composite(amp=amp, domain=domain)(function))
        # The front of netcl reads the list.
        ops.__all__ = sorted({*ops.__all__, *absent})
    return sorted(absent)


# The functions of this process's core that are the ones of this package.
ADDED = tuple(complete())
