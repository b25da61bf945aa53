"""Names of PyTorch that libraries import and seldom use: each raises the reason at its first use.

A placeholder is a class: it can be a base class, a part of an annotation and the second argument of isinstance, and it
has no attributes. A name that a library asks for with ``hasattr``, to take another path, must not be in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from netcl.core.errors import UnsupportedError


class NotHere(type):
    """The metaclass of placeholders: a call raises UnsupportedError."""

    reason: str

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        raise UnsupportedError(cls.reason, op=cls.__name__)

    def __getitem__(cls, item: Any) -> NotHere:
        return cls


_SHARDED = "tensors are not sharded over processes; write torch.nn.parallel.DistributedDataParallel"
_SYMBOLS = "shapes are numbers, there are no symbolic ones"
_GRAPHS = "a program is not traced to a graph of torch.fx"
_COMPILER = "torch.compile fuses ops without PyTorch's compiler"
_TEXTS = "a module is not compiled to TorchScript"
_GRADS = "collectives have no gradients; write torch.nn.parallel.DistributedDataParallel"
_FILES = "write torch.save and torch.load of a state_dict"
_DISTRIBUTIONS = "write a Distribution of your own, with a sample and a log_prob"
_RPC = "there are no remote calls; write collectives of torch.distributed"

# Of a module of PyTorch the names, and the reason.
PLACEHOLDERS: Mapping[str, tuple[str, str]] = {
    "torch": (
        "Future JitType PyTorchFileReader PyTorchFileWriter ScriptFunction ScriptModule SymBool SymFloat SymInt "
        "TensorType",
        "it is an object of PyTorch's own library",
    ),
    "torch._C": ("Graph Node ScriptMethod ScriptModule ScriptObject Value", _TEXTS),
    "torch._dynamo._trace_wrapped_higher_order_op": ("TransformGetItemToIndex", _COMPILER),
    "torch._dynamo.eval_frame": ("OptimizedModule", _COMPILER),
    "torch._higher_order_ops.associative_scan": ("associative_scan", _COMPILER),
    "torch._subclasses.fake_tensor": ("FakeTensor FakeTensorMode", 'write device="meta" for tensors without values'),
    "torch.distributed": ("DeviceMesh all_to_all_single init_device_mesh", _SHARDED),
    "torch.distributed._composable.fsdp": ("fully_shard", _SHARDED),
    "torch.distributed._functional_collectives": (
        "AsyncCollectiveTensor all_gather_tensor all_gather_tensor_autograd all_reduce all_to_all_single "
        "all_to_all_single_autograd broadcast reduce_scatter_tensor wait_tensor",
        "write the functions of torch.distributed",
    ),
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper": (
        "CheckpointImpl apply_activation_checkpointing checkpoint_wrapper",
        "write torch.utils.checkpoint.checkpoint",
    ),
    "torch.distributed.algorithms.join": ("Join JoinHook Joinable", "ranks have the same number of steps"),
    "torch.distributed.checkpoint": (
        "DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter load load_state_dict save "
        "save_state_dict",
        _FILES,
    ),
    "torch.distributed.checkpoint.default_planner": ("DefaultLoadPlanner DefaultSavePlanner", _FILES),
    "torch.distributed.checkpoint.hf_storage": ("HuggingFaceStorageReader HuggingFaceStorageWriter", _FILES),
    "torch.distributed.checkpoint.optimizer": ("load_sharded_optimizer_state_dict", _FILES),
    "torch.distributed.checkpoint.state_dict": (
        "StateDictOptions get_model_state_dict get_optimizer_state_dict set_model_state_dict set_optimizer_state_dict",
        _FILES,
    ),
    "torch.distributed.device_mesh": ("DeviceMesh init_device_mesh", _SHARDED),
    "torch.distributed.fsdp": (
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig FullStateDictConfig "
        "FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision MixedPrecisionPolicy "
        "OffloadPolicy OptimStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy "
        "StateDictConfig StateDictSettings StateDictType fully_shard",
        _SHARDED,
    ),
    "torch.distributed.fsdp.fully_sharded_data_parallel": (
        "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel "
        "MixedPrecision ShardedOptimStateDictConfig ShardingStrategy StateDictType",
        _SHARDED,
    ),
    "torch.distributed.fsdp.sharded_grad_scaler": ("ShardedGradScaler", _SHARDED),
    "torch.distributed.fsdp.wrap": (
        "ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy "
        "transformer_auto_wrap_policy wrap",
        _SHARDED,
    ),
    "torch.distributed.nn": ("all_gather all_reduce all_to_all broadcast gather reduce reduce_scatter scatter", _GRADS),
    "torch.distributed.nn.functional": (
        "all_gather all_reduce all_to_all broadcast gather reduce reduce_scatter scatter",
        _GRADS,
    ),
    "torch.distributed.rpc": ("RRef remote rpc_async rpc_sync", _RPC),
    "torch.distributed.tensor": (
        "DTensor DeviceMesh distribute_module distribute_tensor init_device_mesh",
        _SHARDED,
    ),
    "torch.distributed.tensor._utils": ("compute_local_shape_and_global_offset", _SHARDED),
    "torch.distributed.tensor.parallel": (
        "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleOutput RowwiseParallel SequenceParallel "
        "loss_parallel parallelize_module",
        _SHARDED,
    ),
    "torch.distributed.tensor.placement_types": ("_StridedShard", _SHARDED),
    "torch.distributions": ("LKJCholesky Wishart", _DISTRIBUTIONS),
    "torch.distributions.constraints": ("MixtureSameFamilyConstraint cat corr_cholesky stack", _DISTRIBUTIONS),
    "torch.distributions.lkj_cholesky": ("LKJCholesky", _DISTRIBUTIONS),
    "torch.distributions.wishart": ("Wishart", _DISTRIBUTIONS),
    "torch.fft": (
        "fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 "
        "irfftn rfft rfft2 rfftfreq rfftn",
        "there are no complex dtypes",
    ),
    "torch.futures": ("Future collect_all wait_all", _RPC),
    "torch.fx": (
        "Graph GraphModule Interpreter Node Proxy Tracer Transformer replace_pattern symbolic_trace",
        _GRAPHS,
    ),
    "torch.fx.experimental.proxy_tensor": ("make_fx", _GRAPHS),
    "torch.fx.experimental.symbolic_shapes": ("ShapeEnv guard_or_false guard_or_true", _SYMBOLS),
    "torch.nn.attention.flex_attention": (
        "AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE and_masks create_block_mask create_mask flex_attention "
        "noop_mask or_masks",
        "write torch.nn.functional.scaled_dot_product_attention with a mask",
    ),
    "torch.nn.parallel.scatter_gather": (
        "Gather Scatter gather scatter scatter_kwargs",
        "a module computes on one device; write torch.nn.parallel.DistributedDataParallel",
    ),
    "torch.utils.data.dataloader": (
        "_BaseDataLoaderIter _MultiProcessingDataLoaderIter _SingleProcessDataLoaderIter",
        "iter(loader) is an iterator of another class; write iter(loader)",
    ),
    "torch.utils.flop_counter": ("FlopCounterMode register_flop_formula", "write netcl.profiling"),
}


@cache
def names_of(place: str) -> frozenset[str]:
    """The names of a module that are placeholders."""
    return frozenset(PLACEHOLDERS.get(place, ("", ""))[0].split())


@cache
def placeholder(place: str, name: str) -> NotHere:
    """Returns the class of a name."""
    text = f"{place}.{name} is not in netcl: {PLACEHOLDERS[place][1]}"
    return NotHere(name, (), {"reason": text, "__doc__": text, "__module__": place})
