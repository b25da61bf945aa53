"""netcl trains and runs neural networks on any OpenCL device, by PyTorch's names.

Tensors and their functions are here (``netcl.tensor``, ``netcl.relu``). ``netcl.nn``, ``optim``, ``data``, ``trainer``,
``distributed``, ``io``, ``autograd`` and ``torch`` are layers that are installed separately.
"""

from __future__ import annotations

import math
import sys
from pkgutil import extend_path
from typing import Any

# Folders named netcl/ elsewhere on sys.path belong to the package too; those added to sys.path later do not.
__path__ = extend_path(__path__, __name__)

# The types of these names are in __init__.pyi, which tools/write_stubs.py writes.
_MODULES = {
    "netcl.core.device": "device get_default_device set_default_device",
    "netcl.core.dtypes": "get_default_dtype set_default_dtype",
    "netcl.core.process.grad_mode": """
        enable_grad inference_mode is_anomaly_enabled is_grad_enabled is_inference_mode_enabled no_grad
        set_anomaly_enabled set_grad_enabled
    """,
    "netcl.core.process.settings": """
        are_deterministic_algorithms_enabled get_deterministic_debug_mode get_num_interop_threads get_num_threads
        is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode set_flush_denormal
        set_num_interop_threads set_num_threads use_deterministic_algorithms
    """,
    "netcl.core.tensor.factories": """
        arange as_tensor asarray bernoulli binomial empty empty_like empty_permuted empty_strided eye from_dlpack
        from_file from_numpy frombuffer full full_like is_tensor linspace logspace meshgrid multinomial normal ones
        ones_like poisson rand rand_like randint randint_like randn randn_like randperm range scalar_tensor tensor
        zeros zeros_like
    """,
    "netcl.core.tensor.functions": """
        affine_grid_generator alias_copy as_strided_copy broadcast_shapes chain_matmul concat concatenate
        constant_pad_nd detach detach_copy diagonal_copy expand_copy frobenius_norm grid_sampler grid_sampler_2d
        grid_sampler_3d gru_cell histogramdd is_storage lstm_cell lu_unpack max_pool1d_with_indices native_batch_norm
        native_channel_shuffle native_dropout native_group_norm native_layer_norm norm_except_dim nuclear_norm
        permute_copy real rnn_relu_cell rnn_tanh_cell row_stack rsub select_copy slice_copy split_copy
        split_with_sizes_copy squeeze_copy t_copy to_dlpack transpose_copy trapz typename unbind_copy unfold_copy
        unsqueeze_copy view_copy
    """,
    "netcl.core.tensor.generator": "Generator default_generator initial_seed seed",
    "netcl.core.tensor.lowrank": "lobpcg pca_lowrank svd_lowrank",
    "netcl.core.tensor.memory_format": """
        channels_last channels_last_3d contiguous_format layout legacy_contiguous_format memory_format preserve_format
        sparse_coo sparse_csr strided
    """,
    "netcl.core.tensor.printing": "set_printoptions",
    "netcl.core.tensor.sparse": "SparseTensor sparse_coo_tensor sparse_csr_tensor spmm",
    "netcl.core.tensor.promotion": "can_cast promote_types result_type",
    "netcl.core.tensor.typed": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
        ShortTensor set_default_tensor_type
    """,
    "netcl.core.tuning.matmul_precision": "get_float32_matmul_precision set_float32_matmul_precision",
    "netcl.amp": "GradScaler autocast get_autocast_dtype is_autocast_enabled",
    "netcl.array_api": "finfo iinfo",
    "netcl.autograd.losses.front": """
        binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss kl_div margin_ranking_loss
        poisson_nll_loss triplet_margin_loss
    """,
    "netcl.io": "load save",
}
_NAMES = {
    "Tensor": "netcl.core",
    "manager": "netcl.core",
    "KernelSpec": "netcl.core.kernels.primitives",
    "Size": "netcl.core.storage.size",
    "__version__": "netcl.core.__about__",
    "compile": "netcl.autograd.compiler",
    **{name: module for module, names in _MODULES.items() for name in names.split()},
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None}

_SUBPACKAGES = {
    "core": "netcl-core",
    "ops": "netcl-core",
    "linalg": "netcl-core",
    "special": "netcl-core",
    "sparse": "netcl-core",
    "array_api": "netcl-core",
    "runtime": "netcl-core",
    "profiling": "netcl-core",
    "autograd": "netcl-autograd",
    "amp": "netcl-autograd",
    "nn": "netcl-nn",
    "io": "netcl-nn",
    "distributions": "netcl-nn",
    "optim": "netcl-optim",
    "data": "netcl-data",
    "distributed": "netcl-distributed",
    "trainer": "netcl-trainer",
    "torch_vision": "netcl-torch",
    "torch": "netcl-torch",
    "llm": "netcl-llm",
}
# Commands that a distribution adds to `netcl`: the command says what to install if they are absent.
_COMMANDS = {
    "run": "netcl-torch",
    **dict.fromkeys(("chat", "generate", "serve-llm", "lora", "quantize", "perplexity"), "netcl-llm"),
}
# Names for ``Generator(numbers=...)`` that a distribution adds.
_NUMBERS = {"mt19937": "netcl-torch"}


def _warn_of_namesake() -> None:
    """Warn if the unrelated project named netcl is installed in the same folder: it has files of the same paths."""
    import os
    import warnings
    from importlib import import_module

    try:
        installed = os.listdir(os.path.dirname(os.path.dirname(__file__)))
    except OSError:  # in a zip file
        return
    for name in installed:
        if name.startswith("netcl-") and name.endswith(".dist-info"):
            version = name.removeprefix("netcl-").removesuffix(".dist-info")
            siblings = import_module("netcl.siblings")
            warnings.warn(
                f"netcl {version} is installed, another project, which has files under netcl/ too; {siblings.repair()}",
                RuntimeWarning,
                stacklevel=3,
            )


class MissingDistributionError(ImportError):
    """A name was used of a layer that is not installed; the message says which distribution to install."""


def __getattr__(name: str) -> Any:
    """Return a subpackage, a shortcut, a dtype or an op.

    Raises ImportError for a name of a distribution that is not installed: an AttributeError would be replaced, in
    ``from netcl import nn``, by one without the name of the distribution. AttributeError for other names.

    Ops are recorded for gradients once netcl-autograd is loaded; the ops of `netcl.ops` are forward only.
    """
    from importlib import import_module

    value: Any
    if name in _SUBPACKAGES:
        value = _subpackage(name)
    elif name in _CONSTANTS:
        value = _CONSTANTS[name]
    elif name in _NAMES:
        module = _NAMES[name]
        _subpackage(module.split(".")[1])
        value = getattr(import_module(module), name)
    else:
        value = _dtype_or_op(name)
    globals()[name] = value
    return value


def _subpackage(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"netcl.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"netcl.{name}":
            raise
        raise _missing(name) from None


def _missing(name: str) -> MissingDistributionError:
    return MissingDistributionError(
        f"netcl.{name} is not installed: pip install {_SUBPACKAGES[name]}", name=f"netcl.{name}"
    )


class _ProgramFinder:
    """The last finder while Python looks for the module of ``python -m netcl.<name>``: says what to install."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raises MissingDistributionError for the program's module if it is a subpackage that is not installed."""
        part = name.removeprefix("netcl.")
        if name == "netcl.__main__" and sys.argv[:1] == ["-m"]:
            raise MissingDistributionError(
                "the command is part of netcl-trainer: pip install netcl-trainer; python -m netcl.core lists devices"
            )
        if sys.argv[:1] == ["-m"] and name in sys.orig_argv and part != name and part in _SUBPACKAGES:
            raise _missing(part)


def _dtype_or_op(name: str) -> Any:
    """A dtype as an object, or an op in its recording form; AttributeError for other names."""
    from importlib import import_module

    dtypes = import_module("netcl.core.dtypes")
    if name in dtypes.OBJECTS:
        return dtypes.OBJECTS[name]
    if not name.startswith("_"):
        ops, table = import_module("netcl.ops"), import_module("netcl.ops.table")
        methods, known = import_module("netcl.core.tensor.methods"), import_module("netcl.core.ops_table.table").TABLE
        row_name = methods.ROWS.get(name, name)
        if name in methods.FUNCTIONS:
            return methods.FUNCTIONS[name]
        if name in ops.__all__ or name in methods.ROWS:
            function = getattr(ops, name, None)
            row = getattr(function, "row", None) or known.get(row_name)
            return function if row is None else methods.extended(name, table.as_function(row, True))
    names = import_module("netcl.core.tensor.absent")
    absent = names.ABSENT_FUNCTIONS | names.ABSENT_MODULES
    if name in absent:
        raise AttributeError(f"netcl has no {name!r}: {absent[name]}")
    raise AttributeError(f"module 'netcl' has no attribute {name!r}", name=name, obj=import_module("netcl"))


def _is_installed(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(f"netcl.{name}") is not None
    except ModuleNotFoundError:  # from a finder that hides it
        return False


def __dir__() -> list[str]:
    """The public names that can be read: without names of distributions that are not installed."""
    there = {name for name in _SUBPACKAGES if _is_installed(name)}
    shortcuts = {name for name, module in _NAMES.items() if module.split(".")[1] in there}
    from importlib import import_module

    ops, dtypes, methods = map(import_module, ("netcl.ops", "netcl.core.dtypes", "netcl.core.tensor.methods"))
    own = {name for name in globals() if name.startswith("__") or not name.startswith("_")}
    dynamic = {*ops.__all__, *methods.ROWS, *methods.FUNCTIONS, *dtypes.OBJECTS}
    imported = {"Any", "annotations", "extend_path", "math", "siblings", "sys"}
    return sorted({*own, *dynamic, *shortcuts, *_CONSTANTS, *there} - imported)


_warn_of_namesake()
if sys.argv[:1] == ["-m"]:
    sys.meta_path.append(_ProgramFinder)
