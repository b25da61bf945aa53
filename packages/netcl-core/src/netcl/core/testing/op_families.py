"""The kernel families of the op table, and the ops and dtypes that represent each in a quick check of a device."""

from __future__ import annotations

from netcl.core.ops_table.dispatch import TABLE, OpRow

_ORDER = ("map", "reduce", "rows", "matmul", "conv", "window", "index", "random", "copy")

# The ops of a quick check: each kernel text of the family at least once; for a family not listed here, the first few of
# its computed ops. Dtypes other than float32 take only the first: they change loads and stores.
QUICK: dict[str, tuple[str, ...]] = {
    "map": ("add", "where", "gelu", "cast"),
    "reduce": ("sum", "var"),
    "rows": ("softmax", "batch_norm_training"),
    "matmul": ("matmul",),
    "conv": ("conv2d", "conv2d_grad_input", "conv2d_grad_weight"),
    "window": ("max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad", "im2col", "col2im"),
    "index": ("index_select", "index_select_grad", "gather", "gather_grad", "put_at", "nonzero"),
    "random": (),  # draws have no cases; they are compared with NumPy's by bits
    "copy": ("permute", "concatenate", "pad", "flip"),
}
# Ops that are defined on integers, and on bool.
_WHOLE: dict[str, tuple[str, ...]] = {
    "map": ("add", "maximum"),
    "reduce": ("sum", "max"),
    "index": ("index_select",),
    "copy": ("permute", "concatenate", "flip"),
}
_BOOL: dict[str, tuple[str, ...]] = {"index": ("index_select",), "copy": ("permute", "concatenate", "flip")}

_QUICK_OPS = 4
_LATER: dict[str, tuple[str, ...]] = {
    "attention": ("scaled_dot_product_attention", "rope", "causal_mask"),
    "scan": ("cumsum", "cummax"),
}
_LATER_DTYPES = ("float32", "float16")  # of those families, as the doctor has a minute

DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "bool")

# By the module in which the row's function is written; rows that are a text are maps. A module not listed here is a
# separate family if it has computed ops.
_MODULES = {
    "reduce": "reduce",
    "norm": "rows",
    "linalg": "matmul",
    "lu": "factorizations",
    "conv": "conv",
    "conv_transpose": "conv",
    "pool": "window",
    "adaptive": "window",
    "grid": "index",
    "unfold": "window",
    "unpool": "index",
    "index": "index",
    "getitem": "index",
    "scatter": "index",
    "masking": "index",
    "random": "random",
    "shape": "copy",
    "arrange": "copy",
    "pad": "copy",
    "tiled_attention": "attention",
}


# Rows that take no float64.
AT_MOST_32_BITS = ("cached_attention",)


def _module_of(row: OpRow) -> str:
    function = row.expression if callable(row.expression) else row.call or row.composite
    return str(getattr(function, "__module__", "")).rpartition(".")[2]


def family_of(row: OpRow) -> str:
    """Returns the family of most kernels that an op launches."""
    if row.name in ("softmax", "log_softmax", "logsumexp"):
        return "rows"
    if isinstance(row.expression, str):
        return "map"
    module = _module_of(row)
    own = row.expression is None and any(other.call and _module_of(other) == module for other in TABLE.values())
    return _MODULES.get(module, module if own else "map")


def families() -> tuple[str, ...]:
    """Returns the families of the table: the original ones first, then later ones alphabetically."""
    present = {family_of(row) for row in TABLE.values()}
    return (*(family for family in _ORDER if family in present), *sorted(present.difference(_ORDER)))


def _quick(family: str) -> tuple[str, ...]:
    if family in QUICK:
        return QUICK[family]
    if family in _LATER:
        return _LATER[family]
    return tuple(name for name, row in TABLE.items() if row.call and family_of(row) == family)[:_QUICK_OPS]


def ops_of(family: str, dtype: str, quick: bool) -> tuple[str, ...]:
    """Returns the ops that are checked for a family in a dtype; empty if the family does not support the dtype."""
    if dtype in ("int32", "int64"):
        return _WHOLE.get(family, ())
    if dtype == "bool":
        return _BOOL.get(family, ())
    if quick and dtype == "float32":
        return _quick(family)
    if quick:
        return _quick(family)[:1] if family in QUICK or dtype in _LATER_DTYPES else ()
    names = tuple(name for name, row in TABLE.items() if family_of(row) == family)
    return tuple(name for name in names if name not in AT_MOST_32_BITS) if dtype == "float64" else names
