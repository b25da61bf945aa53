"""The table of PyTorch's modules: where each finds its names in netcl, and the names that are spelled otherwise.

A module has the public names of PyTorch's module (names.txt) and the names that a source lists in ``TORCH_NAMES``, as
far as one of its ``sources`` has them, and the names of ``names``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """A module of PyTorch.

    ``sources`` are modules of netcl, of which the first that has a name wins; ``names`` are other names with the paths
    ``module:object`` of what they are; ``kind`` is the path of a class of modules, for one with settings.
    """

    sources: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""


_OWN = "netcl.torch.parts"
_LAYERS = (f"{_OWN}.layers", "netcl.nn")
_OPTIMIZERS = (f"{_OWN}.optimizers", "netcl.optim")
_DATA = (f"{_OWN}.data", f"{_OWN}.loader", "netcl.data")
_COLLATE = {name: f"{_OWN}.data:{name}" for name in ("default_collate", "default_convert")}
_C10D = "netcl.distributed.distributed_c10d"
_GRADIENTS = (f"{_OWN}.gradients", "netcl.autograd")
_PRECISION = (f"{_OWN}.precision", "netcl.amp")
_LINEAR = {"NonDynamicallyQuantizableLinear": "netcl.nn:Linear"}
_FILES = {name: f"{_OWN}.whole_modules:{name}" for name in ("load", "save")}
_C10D_NAMES = {"_get_default_group": f"{_OWN}.programs.distributed:default_group"}
_PARAMETER = {"Parameter": "netcl.autograd:Parameter"}


def _own(*names: str) -> tuple[str, ...]:
    return tuple(f"{_OWN}.{name}" for name in names)


def _settings(name: str) -> Part:
    return Part(kind=f"{_OWN}.devices.backends:{name}")


PARTS: dict[str, Part] = {
    # The front "netcl", as users have it: one of its names loads the layer that owns it.
    "torch": Part(
        (*_own("top", "numbers", "functions", "foreach", "internals", "storages"), "netcl"),
        {
            **_FILES,
            "autocast": f"{_OWN}.precision:autocast",
            "dtype": "netcl.core.dtypes:DType",
            "classes": f"{_OWN}.programs.refused:classes",
            "ops": f"{_OWN}.programs.refused:ops",
            "torch": "netcl.torch",
            "vmap": f"{_OWN}.transforms:vmap",
            "__version__": f"{_OWN}.programs.version:__version__",
        },
    ),
    "torch._C": Part(_own("internals"), {"Generator": f"{_OWN}.numbers:Generator"}),
    "torch._C._nn": Part(
        (),
        {
            name: f"netcl.nn.functional:{name}"
            for name in (
                "elu_",
                "gelu",
                "hardtanh",
                "leaky_relu",
                "linear",
                "mse_loss",
                "scaled_dot_product_attention",
                "silu",
                "softplus",
                "softshrink",
            )
        },
    ),
    "torch._tensor_str": Part(("netcl",), {"_str": "builtins:repr", "set_printoptions": "netcl:set_printoptions"}),
    "torch._utils": Part(_own("internals")),
    "torch.__config__": Part(_own("programs.version"), {"show": f"{_OWN}.programs.version:show"}),
    "torch.nn": Part(_LAYERS, _PARAMETER),
    "torch.nn.attention": Part(_own("attention")),
    "torch.nn.functional": Part((*_own("functional"), "netcl.nn.functional", "netcl")),
    "torch.nn.init": Part(
        ("netcl.nn.init",),
        {
            "_calculate_correct_fan": f"{_OWN}.layers:calculate_correct_fan",
            "_calculate_fan_in_and_fan_out": "netcl.nn.init:fans",
        },
    ),
    "torch.nn.modules": Part(_LAYERS),
    "torch.nn.modules.module": Part(
        ("netcl.nn.hooks", *_LAYERS),
        {"_EXTRA_STATE_KEY_SUFFIX": f"{_OWN}.layers:EXTRA_STATE", "_IncompatibleKeys": "netcl.nn:IncompatibleKeys"},
    ),
    "torch.nn.parallel": Part(_own("parallel")),
    "torch.nn.parallel.data_parallel": Part(_own("parallel")),
    "torch.nn.parallel.distributed": Part(_own("parallel")),
    "torch.nn.parallel.scatter_gather": Part(_own("parallel")),
    "torch.nn.parameter": Part(_LAYERS, _PARAMETER),
    "torch.nn.utils": Part(("netcl.nn.utils",)),
    "torch.nn.utils.clip_grad": Part(("netcl.nn.utils",)),
    "torch.nn.utils.convert_parameters": Part(("netcl.nn.utils",)),
    "torch.nn.utils.fusion": Part(("netcl.nn.utils",)),
    "torch.nn.utils.init": Part(("netcl.nn.utils",)),
    "torch.nn.utils.parametrizations": Part(("netcl.nn.utils.parametrizations",)),
    "torch.nn.utils.parametrize": Part(("netcl.nn.utils.parametrize",)),
    "torch.nn.utils.prune": Part(("netcl.nn.utils.prune",)),
    "torch.nn.utils.rnn": Part(("netcl.nn.utils.rnn",)),
    "torch.nn.utils.spectral_norm": Part(("netcl.nn.utils",)),
    "torch.nn.utils.stateless": Part(("netcl.nn.utils.stateless",)),
    "torch.nn.utils.weight_norm": Part(("netcl.nn.utils",)),
    "torch.optim": Part(_OPTIMIZERS),
    "torch.optim.lr_scheduler": Part(("netcl.optim.lr_scheduler",), {"_LRScheduler": "netcl.optim:LRScheduler"}),
    "torch.optim.swa_utils": Part(("netcl.optim.swa_utils",)),
    "torch.utils": Part(),
    "torch.utils._pytree": Part(_own("trees")),
    "torch.utils.benchmark": Part(_own("programs.benchmark")),
    "torch.utils.checkpoint": Part(_own("checkpoint")),
    "torch.utils.cpp_extension": Part(_own("programs.refused"), {"load": f"{_OWN}.programs.refused:load_inline"}),
    "torch.utils.data": Part(_DATA),
    "torch.utils.data._utils": Part(_DATA, _COLLATE),
    "torch.utils.data._utils.collate": Part(_DATA, _COLLATE),
    "torch.utils.data.dataloader": Part(_DATA),
    "torch.utils.data.dataset": Part(_DATA),
    "torch.utils.data.distributed": Part(_DATA),
    "torch.utils.data.sampler": Part(_DATA),
    "torch.utils.dlpack": Part(("netcl",)),
    "torch.utils.hooks": Part(("netcl.nn",)),
    "torch.utils.model_zoo": Part((), {"load_url": f"{_OWN}.programs.refused:load_state_dict_from_url"}),
    "torch.utils.tensorboard": Part(_own("programs.tensorboard")),
    "torch.utils.tensorboard._pytorch_graph": Part((), {"graph": f"{_OWN}.programs.tensorboard_graph:graph"}),
    "torch.autograd": Part(_GRADIENTS),
    "torch.autograd.anomaly_mode": Part(("netcl.autograd",)),
    "torch.autograd.function": Part(_GRADIENTS, {"FunctionCtx": "netcl.autograd.function:Context"}),
    "torch.autograd.forward_ad": Part(_own("forward_ad")),
    "torch.autograd.graph": Part(("netcl.autograd.graph",)),
    "torch.autograd.functional": Part(("netcl.autograd.functional",)),
    "torch.autograd.grad_mode": Part(("netcl.autograd",)),
    "torch.autograd.gradcheck": Part(("netcl.autograd",)),
    "torch.autograd.profiler": Part(_own("programs.profiler")),
    "torch.autograd.variable": Part(_GRADIENTS),
    "torch.func": Part(_own("transforms")),
    "torch.amp": Part(_PRECISION),
    "torch.amp.autocast_mode": Part(_PRECISION),
    "torch.amp.grad_scaler": Part(_PRECISION),
    "torch.cpu": Part(_own("devices.host")),
    "torch.cpu.amp": Part(
        (), {"autocast": f"{_OWN}.precision:CpuAutocast", "GradScaler": f"{_OWN}.precision:CudaGradScaler"}
    ),
    "torch.cuda": Part(_own("devices.cuda", "devices.gpus", "devices.types")),
    "torch.cuda.amp": Part(
        _PRECISION, {"autocast": f"{_OWN}.precision:CudaAutocast", "GradScaler": f"{_OWN}.precision:CudaGradScaler"}
    ),
    "torch.cuda.memory": Part(_own("devices.cuda", "devices.gpus")),
    "torch.cuda.nvtx": Part(_own("programs.profiler")),
    "torch.cuda.random": Part(_own("devices.cuda", "devices.gpus")),
    "torch.cuda.streams": Part(_own("devices.cuda", "devices.gpus")),
    "torch.mps": Part(_own("devices.other_gpus", "devices.cuda", "devices.gpus")),
    "torch.xpu": Part(_own("devices.other_gpus", "devices.cuda", "devices.gpus")),
    "torch.accelerator": Part(_own("devices.accelerator", "devices.cuda", "devices.gpus")),
    "torch.accelerator.memory": Part(_own("devices.accelerator", "devices.cuda", "devices.gpus")),
    "torch.backends": Part(),
    "torch.backends.cpu": _settings("Cpu"),
    "torch.backends.cuda": _settings("Cuda"),
    "torch.backends.cuda.matmul": _settings("Matmul"),
    "torch.backends.cudnn": _settings("Cudnn"),
    "torch.backends.mha": _settings("Attention"),
    "torch.backends.mkl": _settings("Absent"),
    "torch.backends.mkldnn": _settings("Mkldnn"),
    "torch.backends.mps": _settings("Gpus"),
    "torch.backends.openmp": _settings("Absent"),
    "torch.backends.opt_einsum": _settings("OptEinsum"),
    "torch.distributed": Part((*_own("programs.distributed"), _C10D, "netcl.distributed")),
    "torch.distributed.algorithms": Part(),
    "torch.distributed.algorithms.ddp_comm_hooks": Part(),
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks": Part(_own("programs.comm_hooks")),
    "torch.distributed.algorithms.model_averaging": Part(),
    "torch.distributed.algorithms.model_averaging.averagers": Part(
        (), {"PeriodicModelAverager": "netcl.distributed.optim:PeriodicModelAverager"}
    ),
    "torch.distributed.constants": Part(_own("programs.distributed")),
    "torch.distributed.distributed_c10d": Part(
        (*_own("programs.distributed"), _C10D, "netcl.distributed"), _C10D_NAMES
    ),
    "torch.distributed.elastic": Part(),
    "torch.distributed.elastic.multiprocessing": Part(),
    "torch.distributed.elastic.multiprocessing.errors": Part((), {"record": f"{_OWN}.programs.distributed:record"}),
    "torch.distributed.optim": Part(("netcl.distributed.optim",)),
    "torch.distributed.tensor": Part(_own("programs.placements")),
    "torch.distributed.tensor.placement_types": Part(_own("programs.placements")),
    "torch.distributions": Part(("netcl.distributions",)),
    "torch.distributions.constraints": Part(("netcl.distributions.constraints",)),
    "torch.distributions.utils": Part(_own("distribution_utils")),
    "torch.fft": Part(),
    "torch.fx.experimental.proxy_tensor": Part((), {"get_proxy_mode": f"{_OWN}.internals:_get_tracing_state"}),
    "torch.fx": Part((), {"wrap": f"{_OWN}.programs.jit:wrap"}),
    "torch.overrides": Part(_own("overrides")),
    "torch.functional": Part((*_own("functions"), "netcl")),
    "torch.hub": Part(_own("programs.refused"), {"urlparse": "urllib.parse:urlparse"}),
    "torch.jit.annotations": Part(_own("programs.annotations")),
    "torch.jit": Part(_own("programs.jit")),
    "torch.library": Part(_own("programs.library")),
    "torch.linalg": Part((*_own("linalg"), "netcl.linalg")),
    "torch.masked": Part(_own("masked")),
    "torch.signal": Part(),
    "torch.signal.windows": Part(_own("windows")),
    "torch.special": Part(("netcl.special",)),
    "torch.sparse": Part(("netcl.sparse",), dict.fromkeys(("DoubleTensor", "FloatTensor"), "netcl:sparse_coo_tensor")),
    "torch.multiprocessing": Part(_own("programs.processes")),
    "torch.onnx": Part(_own("programs.export")),
    "torch.profiler": Part(_own("programs.profiler")),
    "torch.compiler": Part(_own("programs.compiler"), {"compile": "netcl:compile"}),
    "torch._dynamo": Part(_own("programs.compiler"), {"optimize": "netcl:compile"}),
    "torch._dynamo.config": Part(kind=f"{_OWN}.programs.compiler:Config"),
    "torch.random": Part((*_own("numbers"), "netcl")),
    "torch.serialization": Part((*_own("whole_modules", "top"), "netcl.io"), {"MAP_LOCATION": "typing:Any"}),
    "torch.testing": Part(_own("programs.testing")),
    "torch.torch_version": Part(_own("programs.types")),
    "torch.storage": Part(_own("storages")),
    "torch.types": Part(_own("programs.types")),
    "functorch": Part(
        (),
        {
            **{
                name: f"{_OWN}.transforms:{name}"
                for name in ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap")
            },
            **{
                name: f"{_OWN}.functional_modules:{name}"
                for name in (
                    "FunctionalModule",
                    "FunctionalModuleWithBuffers",
                    "combine_state_for_ensemble",
                    "make_functional",
                    "make_functional_with_buffers",
                )
            },
            "__version__": f"{_OWN}.programs.version:__version__",
        },
    ),
    "torch.version": Part(_own("programs.version"), {"__version__": f"{_OWN}.programs.version:__version__"}),
}

# Functions with the name of the module that they are in; the attribute of the parent is the function.
FUNCTIONS = frozenset(
    (
        "torch.autograd.gradcheck",
        "torch.nn.parallel.data_parallel",
        "torch.nn.utils.spectral_norm",
        "torch.nn.utils.weight_norm",
    )
)

# Modules that repeat names of the one above them: torch.nn.modules.conv, torch.optim.adam, torch.distributions.normal.
_REPEATED = ("torch.nn.modules.", "torch.optim.", "torch.distributions.")

# Base classes that programs name in isinstance, though they are private.
_BASES = {
    "torch.nn.modules.batchnorm": {"_BatchNorm": "netcl.nn.norm:_BatchNorm", "_NormBase": "netcl.nn.norm:_Running"},
    "torch.nn.modules.instancenorm": {"_InstanceNorm": "netcl.nn.norm:_InstanceNorm"},
    "torch.nn.modules.conv": {
        "_ConvNd": "netcl.nn.conv:_Conv",
        "_ConvTransposeNd": "netcl.nn.conv:_Transposed",
    },
    "torch.nn.modules.linear": _LINEAR,
    "torch.nn.modules.dropout": {"_DropoutNd": "netcl.nn.dropout:Dropout"},
    "torch.nn.modules.loss": {"_Loss": "netcl.nn.losses:_Loss", "_WeightedLoss": "netcl.nn.losses:_Weighted"},
    "torch.nn.modules.transformer": {"_get_activation_fn": "netcl.nn.transformer:_activation"},
    "torch.nn.modules.utils": {
        name: f"{_OWN}.layers:{name}" for name in ("_single", "_pair", "_triple", "_quadruple", "_ntuple")
    },
}


def repeated(places: Mapping[str, object]) -> Iterator[tuple[str, Part]]:
    """The modules among ``places`` that repeat names of the one above them, and are not in the table."""
    for place in places:
        prefix = next((prefix for prefix in _REPEATED if place.startswith(prefix)), None)
        if prefix and place not in PARTS:
            yield place, Part(PARTS[prefix.removesuffix(".")].sources, _BASES.get(place, {}))


# Why modules, or all absent names of one, are not there; netcl.core has the reasons of single functions.
ABSENT: dict[str, str] = {
    **dict.fromkeys(("torch.ao", "torch.quantization"), "there are no quantized dtypes"),
    "torch.export": "write netcl.io.export_onnx",
    "torch.fft": "there are no complex dtypes",
    "torch.nested": "there are no nested tensors; pad the parts and stack them",
}
