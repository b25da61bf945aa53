"""Functions of the level ops-full made of other rows, for a netcl-core that does not define them itself.

A core calls ``complete()`` at the end of its ``netcl.ops``. Its ``netcl.ops.flatten`` and the row are then the ones of
this package, recorded op by op as any composite. The modules import names of the contract alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["MODULES", "NAMES", "complete", "functions"]

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
    found = importlib.import_module(f"{__name__}.{module}")
    return {name: (getattr(found, name), found.AMP.get(name, "widest")) for name in MODULES[module].split()}


def complete() -> list[str]:
    """Adds to ``netcl.ops`` and the op table the functions that the core does not define; returns their names."""
    import netcl.ops as ops
    from netcl.core.ops_table.dispatch import Domain
    from netcl.ops.table import composite

    absent = [name for name in NAMES if not hasattr(ops, name)]
    for module, names in MODULES.items():
        if set(names.split()).intersection(absent):
            for name, (function, amp) in functions(module).items():
                if name in absent:
                    domain = Domain(gradient=name not in NOT_DIFFERENTIATED, second=name not in NOT_TWICE)
                    setattr(ops, name, composite(amp=amp, domain=domain)(function))
    ops.__all__ = sorted({*ops.__all__, *absent})  # the front of netcl reads the list
    return sorted(absent)
