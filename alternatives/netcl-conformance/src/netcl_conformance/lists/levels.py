"""The levels of the contract: what a netcl-core may keep or leave out as a whole, and the level of each name.

``LEVELS`` has the levels in the order in which they build on each other. A core declares its own in
``netcl.core.process.contract.LEVELS``. The rows of the level ops-basic are listed here, every other function of
``netcl.ops`` is of ops-full.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BASIC", "LEVELS", "Level", "level_of"]


class Level(NamedTuple):
    """A level: packages above need it if it is ``required``; else ``without`` says what they do in its absence."""

    meaning: str
    without: str = ""

    @property
    def required(self) -> bool:
        """True if the packages above netcl-core cannot do their work without it."""
        return not self.without


LEVELS: dict[str, Level] = {
    "tensor": Level("Tensor, its creation and its views, dtypes, devices, errors, configuration, the switches of grad"),
    "ops-basic": Level("the op table, its calls and hooks, and the rows that other rows can be made of"),
    "ops-full": Level("every other function of netcl.ops"),
    "gradient": Level("the gradients of all rows, and the place of a tensor in the graph"),
    "expressions": Level("elementwise rows and updates as expressions: building and evaluating them"),
    "programs": Level(
        "rows of expressions as programs: bound to arguments, rewritten, differentiated",
        "each row has a gradient of its own, `OpRow.vjp`",
    ),
    "random": Level(
        "Philox numbers: equal bits for equal seeds on every device and core (the functions are in ops-full)",
        "random numbers are the core's own; runs repeat on one core, not across cores",
    ),
    "half": Level("float16 and bfloat16", "entering autocast raises UnsupportedError"),
    "several-devices": Level(
        "more than one device in a process, and copies between them",
        "data parallelism in one process raises DeviceNotFoundError; processes with one device each work",
    ),
    "tracing": Level("regions of deferred calls, which jit fuses to one program", "jit calls its function eagerly"),
    "capture": Level("steps that are recorded once and replayed", "a training step runs eagerly"),
    "prediction": Level(
        "calls of a training loop that are predicted, and computed as a captured step",
        "each op is computed at its call",
    ),
    "staging": Level(
        "page-locked memory that devices exchange tensors by, and host calls in captured steps",
        "gradients pass between ranks over arrays of the host",
    ),
    "profiling": Level("times and bytes by kernel", "Profiler callbacks measure wall time only"),
    "pools": Level("memory pools: their sizes, and emptying them", "memory reports are empty"),
    "packed": Level(
        "matrices of few bits per number that stay packed on the device, and the linear layer of one",
        "weights are unpacked when they are loaded",
    ),
    "opencl-kernels": Level("kernels written in OpenCL C", "KernelSpec raises UnsupportedError"),
    "front": Level(
        "PyTorch's further names: functions and methods, `netcl.linalg`, `netcl.special`, `netcl.sparse`",
        "programs with PyTorch's names lack these",
    ),
}

BASIC: tuple[str, ...] = (
    "cast",
    "clone",
    "reshape",
    "permute",
    "expand",
    "cat",
    "getitem",
    "setitem",
    "flip",
    "pad",
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "mod",
    "pow",
    "maximum",
    "minimum",
    "atan2",
    "neg",
    "abs",
    "sign",
    "square",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "sigmoid",
    "erf",
    "relu",
    "clamp",
    "floor",
    "ceil",
    "round",
    "trunc",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "isnan",
    "isinf",
    "isfinite",
    "where",
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "any",
    "all",
    "var",
    "argmax",
    "argmin",
    "cumsum",
    "sort",
    "matmul",
    "linear",
    "conv2d",
    "max_pool2d",
    "avg_pool2d",
    "gather",
    "index_select",
    "scatter_add",
    "one_hot",
    "nonzero",
)

# By the longest prefix of a dotted name; names of netcl.ops that are rows are in BASIC or else ops-full.
_LEVEL_OF: dict[str, str] = {
    "netcl.core": "tensor",
    "netcl.core.DeviceManager.split": "several-devices",
    "netcl.core.Tensor.backward": "gradient",
    "netcl.core.Tensor.creation_trace": "gradient",
    "netcl.core.Tensor.exponential_": "ops-full",
    "netcl.core.Tensor.grad_fn": "gradient",
    "netcl.core.Tensor.normal_": "ops-full",
    "netcl.core.Tensor.op_name": "gradient",
    "netcl.core.Tensor.parents": "gradient",
    "netcl.core.Tensor.rand": "ops-full",
    "netcl.core.Tensor.randn": "ops-full",
    "netcl.core.Tensor.register_hook": "gradient",
    "netcl.core.Tensor.register_post_accumulate_grad_hook": "gradient",
    "netcl.core.Tensor.uniform_": "ops-full",
    "netcl.core.engine.protocol.KernelText": "opencl-kernels",
    "netcl.core.device.icd": "tensor",
    "netcl.core.ops_table.dispatch": "ops-basic",
    "netcl.core.ops_table.dispatch.Bound": "programs",
    "netcl.core.ops_table.dispatch.OpRow.names": "ops-full",
    "netcl.core.ops_table.dispatch.OpRow.saves": "gradient",
    "netcl.core.ops_table.dispatch.OpRow.vjp": "gradient",
    "netcl.core.ops_table.dispatch.Program": "programs",
    "netcl.core.ops_table.dispatch.Record": "programs",
    "netcl.core.ops_table.dispatch.Space": "expressions",
    "netcl.core.ops_table.dispatch.bound": "programs",
    "netcl.core.ops_table.dispatch.compute": "programs",
    "netcl.core.ops_table.dispatch.evaluate": "expressions",
    "netcl.core.ops_table.dispatch.evaluate_each": "expressions",
    "netcl.core.ops_table.dispatch.known": "programs",
    "netcl.core.ops_table.dispatch.program_row": "programs",
    "netcl.core.ops_table.dispatch.reduce_each": "expressions",
    "netcl.core.expr": "expressions",
    "netcl.core.expr.Primitive": "programs",
    "netcl.core.expr.cost": "programs",
    "netcl.core.expr.derive": "programs",
    "netcl.core.expr.evaluate": "programs",
    "netcl.core.expr.register_primitive": "programs",
    "netcl.core.expr.rewrite": "programs",
    "netcl.core.expr.statistics": "programs",
    "netcl.core.expr.substitute": "programs",
    "netcl.core.expr.vjp": "programs",
    "netcl.core.graph": "tracing",
    "netcl.core.memory": "pools",
    "netcl.core.packed": "packed",
    "netcl.core.tensor.deferred": "tracing",
    "netcl.core.tensor.generator": "ops-full",
    "netcl.core.storage.gradients": "gradient",
    "netcl.core.storage.views.snapshot": "gradient",
    "netcl.core.tensor.host_draws": "ops-full",
    "netcl.core.tensor.sparse": "ops-full",
    "netcl.ops": "ops-full",
    "netcl.ops.keys": "ops-basic",
    "netcl.ops.cached_attention": "packed",
    "netcl.ops.packed_linear": "packed",
    "netcl.ops.signatures": "ops-basic",
    "netcl.ops.table": "ops-basic",
    "netcl.ops.table.elementwise": "expressions",
    "netcl.ops.table.expression": "expressions",
    "netcl.profiling": "profiling",
    "netcl.runtime": "capture",
    "netcl.runtime.prediction": "prediction",
    "netcl.runtime.staging": "staging",
    **{f"netcl.ops.{name}": "ops-basic" for name in BASIC},
}


def level_of(name: str) -> str:
    """Returns the level of a dotted name of the contract."""
    place = name
    while place not in _LEVEL_OF:
        place = place.rpartition(".")[0]
    return _LEVEL_OF[place]
