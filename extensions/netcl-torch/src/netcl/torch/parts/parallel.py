"""torch.nn.parallel: a model on several devices of this process, or on the ranks of a process group."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.errors import UnsupportedError
from netcl.nn import Module, SyncBatchNorm


class DataParallel(Module):
    """The model as ``module``, on shards of the batch on several devices; the outputs are joined on the first of them.

    ``device_ids``: numbers of GPUs, or devices; None: all GPUs. With one device the model is called as it is. The
    replicas are made at the first call: they follow the values of the model and its place. The tensors of a call have
    the samples on axis 0; raises UnsupportedError for another ``dim`` of several devices. Without a GPU numbers of GPUs
    are left out, as in PyTorch.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module: Module = module
        self.dim: int = dim
        gpus = _gpus()
        self.device_ids: list[Any] = gpus if device_ids is None else list(device_ids)
        if not gpus:
            self.device_ids = [one for one in self.device_ids if not isinstance(_device(one), (int, str))]
        self.output_device: Any = self.device_ids[0] if output_device is None and self.device_ids else output_device
        if len(self.device_ids) > 1 and dim != 0:
            raise UnsupportedError(f"DataParallel: the samples are on axis 0, not on dim={dim}; transpose the inputs")
        # Not a submodule, and not a part of the state.
        object.__setattr__(self, "_replicas", None)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result for the whole batch."""
        devices = [f"cuda:{one}" if isinstance(one, int) else one for one in self.device_ids]
        place = next((p.queue for p in self.module.parameters() if p.requires_grad), None)
        if len(devices) < 2 or place is None or not any(isinstance(one, Tensor) for one in (*args, *kwargs.values())):
            return self.module(*args, **kwargs)
        made = self.__dict__["_replicas"]
        if made is None or made[0] is not place:
            from netcl import distributed

            # The devices of this process alone, also if it is a rank of a group.
            alone = distributed.local_groups(1)[0]
            made = place, distributed.DataParallel(self.module, [_device(one) for one in devices], group=alone)
            object.__setattr__(self, "_replicas", made)
        return made[1](*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> DataParallel:
        return DataParallel(copy.deepcopy(self.module, memo), self.device_ids, self.output_device, self.dim)


def _gpus() -> list[int]:
    from netcl.torch.parts.devices.gpus import device_count

    return list(range(device_count()))


def _device(one: Any) -> Any:
    """The name of a device of PyTorch; handles and queues as they are."""
    return str(one) if isinstance(one, device) else one


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """``module(*inputs)`` on shards of the batch on several devices."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """The model as ``module``, of which each rank of a process group has a copy: after a backward pass the gradients
    are the means over the ranks.

    The constructor copies the parameters and buffers of rank 0 to all ranks (``init_sync``), and a call of the model in
    training its buffers (``broadcast_buffers``, ``forward_sync_buffers``). The gradients are reduced in buckets of
    ``bucket_cap_mb`` MiB (25) while the backward pass continues. A parameter without a gradient counts as zero if
    another rank has one, with or without ``find_unused_parameters``. ``static_graph=True`` sends all buckets at the end
    of the pass: a parameter may get its gradient in several parts then. ``gradient_as_bucket_view``, ``dim``,
    ``bucket_cap_mb_list`` and ``batched_grad_copy`` change nothing. With ``device_ids=[device]`` the tensors of a call
    are moved to the model's device. Layers of ``nn.SyncBatchNorm`` use the statistics of all ranks, others those of
    this one.

    Raises ValueError without a process group or for several ``device_ids``, RuntimeError if no parameter requires grad,
    and UnsupportedError for ``mixed_precision``, ``device_mesh``, ``join()`` and hooks of one's own.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        from netcl import distributed
        from netcl.distributed.in_place import group_of

        for name, value in (
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
        ):
            if value is not None:
                raise UnsupportedError(f"DistributedDataParallel: {name} is not in netcl.torch; leave it out")
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                f"DistributedDataParallel: device_ids is None or one device, not {list(device_ids)}; start a process "
                "for each device"
            )
        params = [p for p in module.parameters() if p.requires_grad]
        if not params:
            raise RuntimeError("DistributedDataParallel is not needed: no parameter of the module requires grad")
        self.module: Module = module
        self.process_group: Any = group_of(process_group)
        self.device_ids: list[Any] | None = None if device_ids is None else list(device_ids)
        self.output_device: Any = output_device
        self.dim: int = dim
        given = forward_sync_buffers if broadcast_buffers is None else broadcast_buffers
        self.broadcast_buffers: bool = True if given is None else given
        self.find_unused_parameters: bool = find_unused_parameters
        self.gradient_as_bucket_view: bool = gradient_as_bucket_view
        self.static_graph: bool = static_graph
        self.bucket_cap_mb: float = 25.0 if bucket_cap_mb is None else float(bucket_cap_mb)
        self._compression: str | None = None
        self._reducer: Any = None
        for layer in module.modules() if self.process_group.size > 1 else ():
            if isinstance(layer, SyncBatchNorm):
                # An attribute of the layer in place of the function that it calls.
                object.__setattr__(layer, "normalize", distributed.SyncBatchNorm(self.process_group))
        if init_sync:
            self._copy_of_rank_0([*module.parameters(), *module.buffers()])
        self._connect()

    def _connect(self) -> None:
        if self.process_group.size > 1:
            from netcl.distributed.training.reducer import Reducer

            params = [p for p in self.module.parameters() if p.requires_grad]
            size = int(self.bucket_cap_mb * 2**20)
            self._reducer = Reducer(params, self.process_group, size, self._compression, self.static_graph)

    def _copy_of_rank_0(self, tensors: Sequence[Tensor]) -> None:
        if self.process_group.size > 1:
            from netcl.distributed.flat import move_flat

            move_flat(self.process_group.broadcast, tensors)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result for the inputs of this rank."""
        if self._reducer is not None and ag.is_grad_enabled():
            self._reducer.prepare()
            if self.broadcast_buffers and self._reducer.synchronizes:
                self._copy_of_rank_0(list(self.module.buffers()))
        if self.device_ids:
            queue = next(self.module.parameters()).queue
            args, kwargs = _moved(args, queue), _moved(kwargs, queue)
        return self.module(*args, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """A block in which gradients accumulate on each rank; the first pass of a call after it reduces the sums."""
        return nullcontext() if self._reducer is None else self._reducer.no_sync()

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Chooses the dtype on the wire: ``fp16_compress_hook``, ``bf16_compress_hook`` or ``allreduce_hook`` of
        torch.distributed.algorithms.ddp_comm_hooks.default_hooks; raises UnsupportedError for other hooks.
        """
        if not hasattr(hook, "compression"):
            raise UnsupportedError(
                "register_comm_hook: hooks are fp16_compress_hook, bf16_compress_hook and allreduce_hook of "
                f"torch.distributed.algorithms.ddp_comm_hooks.default_hooks, not {hook!r}"
            )
        self._compression = hook.compression
        if self._reducer is not None:
            self._reducer.remove()
        self._connect()

    def join(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises UnsupportedError."""
        raise UnsupportedError(
            "DistributedDataParallel.join is not in netcl.torch: give all ranks the same number of batches, as "
            "DistributedSampler does"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedDataParallel:
        made = DistributedDataParallel(
            copy.deepcopy(self.module, memo),
            self.device_ids,
            self.output_device,
            self.dim,
            self.broadcast_buffers,
            init_sync=False,
            process_group=self.process_group,
            bucket_cap_mb=self.bucket_cap_mb,
            find_unused_parameters=self.find_unused_parameters,
            static_graph=self.static_graph,
        )
        made.training = self.training
        return made


def _moved(value: Any, queue: Any) -> Any:
    """Nested tuples, lists and dicts with their tensors on a device."""
    if isinstance(value, Tensor):
        return value if value.queue is queue else value.to(queue)
    if isinstance(value, dict):
        return {key: _moved(one, queue) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_moved(one, queue) for one in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
