"""ZeroRedundancyOptimizer: each rank has the optimizer's state of its part of the parameters (ZeRO)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.device import manager
from netcl.core.errors import UnsupportedError
from netcl.distributed.collectives import _group
from netcl.distributed.flat import move_flat
from netcl.distributed.group import ProcessGroup
from netcl.distributed.objects import gathered_objects
from netcl.distributed.optim.gradient_shards import GradientShards
from netcl.distributed.optim.new_values import NewValues
from netcl.optim import LBFGS, Optimizer, Rule

_BY_PARAMETER = ("params", "param_names")  # the items of a group that have a value for each parameter


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer with its state divided among the ranks of a group (Rajbhandari et al. 2020, ZeRO stage 1).

    Each rank updates the parameters that it owns with an ``optimizer_class(own, **defaults)``, and then the new values
    of all are gathered, ``bucket_mb`` MiB of each rank in one collective. A parameter belongs to one rank as a whole,
    the largest first to the rank that has the fewest elements, so norms of single parameters (LAMB, Adafactor) are
    exact. For updates by element, such as SGD, Adam and AdamW, the result equals the result of ``optimizer_class`` to
    the bit. ``optim`` is the optimizer of this rank.

    The gradients must be equal on all ranks when ``step`` is called: a model in ``DataParallel`` or
    ``DistributedDataParallel`` has such gradients. With ``shard_gradients=True`` (stage 2) the model is not wrapped:
    each rank calls ``loss.backward()`` of its own part of the batch, all parts of one size, and the gradients are
    averaged while the pass continues, in buckets of that size; a rank keeps the means of the parameters that it
    owns, ``grad`` of others is None. ``step()`` completes them, and so does ``reduce_gradients()``, which is needed
    before ``GradScaler.step`` or a look at ``grad``; ``step`` drops them at its end. The constructor then copies the
    parameters of rank 0 to all ranks. ``no_sync()`` is the block for gradient accumulation.

    ``params``: parameters or groups, as of any optimizer, in one order on all ranks. ``process_group`` None: the group
    of this thread or process. ``parameters_as_bucket_view`` changes no result and is not used.

    Raises UnsupportedError for LBFGS (its step needs all gradients as one vector) and for
    ``overlap_with_ddp=True``; TypeError if ``optimizer_class`` is no class of optimizers.

        >>> import numpy as np, netcl.autograd as ag
        >>> from netcl.optim import Adam
        >>> p = ag.Parameter(np.ones(3, np.float32))
        >>> optimizer = ZeroRedundancyOptimizer([p], Adam, lr=0.1)
        >>> (p * p).sum().backward()
        >>> optimizer.step()
        >>> p.tolist()
        [0.9, 0.9, 0.9]
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        *,
        shard_gradients: bool = False,
        bucket_mb: float = 16,
        **defaults: Any,
    ) -> None:
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(f"optimizer_class: expected a class of netcl.optim, such as Adam, got {optimizer_class!r}")
        if issubclass(optimizer_class, LBFGS):
            raise UnsupportedError(
                f"ZeroRedundancyOptimizer: a step of {optimizer_class.__name__} needs the gradients of all parameters "
                "as one vector, and no rank has the state of all; use it without ZeroRedundancyOptimizer"
            )
        if overlap_with_ddp:
            raise UnsupportedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp=True is not in netcl; leave it out and call step() after "
                "the backward pass, or write shard_gradients=True"
            )
        if not bucket_mb > 0:
            raise ValueError(f"expected bucket_mb above 0, got {bucket_mb}")
        self.group: ProcessGroup = _group(process_group)
        self._counts = [0] * self.group.size  # elements that each rank owns
        self._owners: dict[int, int] = {}
        self._consolidated: dict[int, dict[str, Any]] | None = None
        self._bucket_bytes = int(bucket_mb * 2**20)
        self._shards: GradientShards | None = None
        self._new_values: NewValues
        self._gathered: list[int] | None = None
        # It has the options of every group, and checks them; it is replaced before it gets a state.
        self.optim: Optimizer = optimizer_class(params, **defaults)
        self._complete = False
        super().__init__([dict(group) for group in self.optim.param_groups], self.optim.defaults)
        self.optim = optimizer_class([self._owned(group) for group in self.param_groups], **self.optim.defaults)
        self.optim._hooks.inside = True  # this optimizer calls the hooks, also the ones of all optimizers
        self._complete = True
        if shard_gradients:
            move_flat(self.group.broadcast, self._trained())
            self._connect()

    # -- the parts of the ranks ----------------------------------------------------------------------------------------

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Adds a group ``{"params": [...], option: value}``, on all ranks; its parameters are divided among them."""
        super().add_param_group(group)
        added = self.param_groups[-1]
        for p in sorted(added["params"], key=lambda param: -param.size):
            rank = self._counts.index(min(self._counts))
            self._owners[id(p)] = rank
            self._counts[rank] += p.size
        if self._complete:
            self._consolidated = None
            self.optim.add_param_group(self._owned(added))
            if self._shards is not None:
                self._connect()

    def _owned(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a group with the parameters of this rank alone."""
        at = [at for at, p in enumerate(group["params"]) if self._owners[id(p)] == self.group.rank]
        own = {name: [group[name][place] for place in at] for name in _BY_PARAMETER if name in group}
        return {**group, **own}

    def _trained(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def _connect(self) -> None:
        if self._shards is not None:
            self._shards.drop()
            self._shards.remove()
        params = self._trained()
        self._shards = GradientShards(params, [self._owners[id(p)] for p in params], self.group, self._bucket_bytes)

    # -- options -------------------------------------------------------------------------------------------------------

    def check(self, group: Mapping[str, Any]) -> None:
        """Raises ValueError if an option of ``group`` is invalid for the class of the optimizer."""
        self.optim.check(group)

    def rule(self, group: Mapping[str, Any]) -> Rule:
        """Returns the rule of the optimizer for the options of ``group``."""
        return self.optim.rule(group)

    def numbers(self, group: Mapping[str, Any]) -> dict[str, float]:
        """Returns the scalars that the rule reads."""
        return self.optim.numbers(group)

    def _send(self, group: Any) -> None:
        for ours, theirs in zip(self.param_groups, self.optim.param_groups):
            if ours is group:
                theirs.update({name: value for name, value in group.items() if name not in _BY_PARAMETER})

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The states of the parameters that this rank owns, as stored on the device."""
        return self.optim.state

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
        """Takes one step on all ranks; ``closure`` recomputes the gradients and returns the loss, which is returned."""
        loss = None
        if closure is not None:
            with ag.enable_grad():
                loss = closure()
        if self._shards is not None:
            self._shards.finish()
            if self.found_inf is not None:  # each rank has looked at its own gradients
                self.group.all_reduce(self.found_inf, "max")
        self._consolidated = None
        own = self.optim
        own.found_inf, own.grad_scale, own._clip = self.found_inf, self.grad_scale, self._clip
        self._clip = None
        try:
            own.step(**options)
        finally:
            own.found_inf = own.grad_scale = None
        if self._shards is not None:
            self.zero_grad()
        params = self._trained()
        ids = [id(p) for p in params]
        if self._gathered != ids:  # at the first step, and after a change of groups or of requires_grad
            owners = [self._owners[key] for key in ids]
            self._new_values, self._gathered = NewValues(params, owners, self.group, self._bucket_bytes), ids
        self._new_values.gather()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients, or fills them with zeros; sharded gradients are always dropped."""
        if self._shards is not None:
            self._shards.drop()
        super().zero_grad(set_to_none or self._shards is not None)

    def reduce_gradients(self) -> None:
        """Completes sharded gradients before ``step``: the owner of a parameter has the mean in ``grad``, others None.

        All ranks call it. Raises RuntimeError without ``shard_gradients=True``.
        """
        if self._shards is None:
            raise RuntimeError("reduce_gradients: the gradients are not sharded; write shard_gradients=True")
        self._shards.finish()

    def no_sync(self) -> AbstractContextManager[None]:
        """Returns a block in which sharded gradients accumulate in ``grad`` of each rank; the first backward pass
        after the block, or ``step``, sends their sums.

        Raises RuntimeError without ``shard_gradients=True``: write the model's ``no_sync()`` then.
        """
        if self._shards is None:
            raise RuntimeError("no_sync: the gradients are not sharded; write model.no_sync()")
        return self._shards.no_sync()

    def clip_grad_norm(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Makes the next ``step`` clip the gradients, as one vector over all ranks, to the norm ``max_norm``; returns
        their norm as a 0-d tensor. All ranks call it.
        """
        if self._shards is None:
            return super().clip_grad_norm(max_norm, norm_type)
        self._shards.finish()
        own = super().clip_grad_norm(max_norm, norm_type)
        norms = self.group.all_gather(np.array([own.item()], np.float64))
        norm = float(np.linalg.norm(norms, norm_type))
        factor = min(1.0, max_norm / (norm + 1e-6)) if norm == norm else norm
        if self._clip is not None:
            self._clip = Tensor.full((), factor, self._clip.dtype, queue=self._clip.queue)
        return Tensor.full((), norm, own.dtype, queue=own.queue)

    # -- state ---------------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int | None = 0) -> None:
        """Gathers the states of all ranks, as tensors on the host, on rank ``to``, or on every rank for None. All ranks
        call it, and then rank ``to`` calls ``state_dict()``.

        If every rank calls ``state_dict()``, as ranks with a Trainer of their own do, this makes each call gather:
        ``optimizer.register_state_dict_pre_hook(lambda one: one.consolidate_state_dict(to=None))``.
        """
        if to is not None:
            self.group._check_rank(to, "to")
        index = self._index()
        states = self.optim._state_dict()["state"]
        own = [p for group in self.optim.param_groups for p in group["params"]]
        mine = {index[id(p)]: states[at] for at, p in enumerate(own) if at in states}
        host = manager.default("cpu")
        parts = gathered_objects(
            mine, self.group, -1 if to is None else to, op="consolidate_state_dict", queue=host and host.queue
        )
        self._consolidated = None
        if parts is not None:
            self._consolidated = {at: entry for part in parts for at, entry in part.items()}

    def _index(self) -> dict[int, int]:
        return {id(p): at for at, p in enumerate(p for group in self.param_groups for p in group["params"])}

    def _state_dict(self) -> dict[str, Any]:
        """Returns the consolidated state in the layout of the optimizer without ranks.

        Raises RuntimeError if ``consolidate_state_dict`` has not been called since the last step, or gathered the state
        on another rank.
        """
        if self._consolidated is None and self.group.size == 1:
            self.consolidate_state_dict()
        if self._consolidated is None:
            raise RuntimeError(
                f"state_dict: rank {self.group.rank} has its own part of the state alone; call consolidate_state_dict("
                f"to={self.group.rank}) on every rank first, after the last step"
            )
        index = self._index()
        groups = [{**group, "params": [index[id(p)] for p in group["params"]]} for group in self.param_groups]
        return {"state": dict(sorted(self._consolidated.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state of ``state_dict``, saved by any number of ranks, or by the optimizer without ranks; each
        rank is given the whole state and takes its part. Everything is checked before anything is written.

        Raises ValueError if the numbers of groups or parameters differ, ShapeError if the shape of a state differs.
        """
        for hook in self._hooks.of("load_state_dict_pre"):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        # Every rank checks the states of all parameters, so that all of them raise or none does.
        kind: Callable[..., Optimizer] = type(self.optim)
        kind([dict(group) for group in self.param_groups], **self.optim.defaults).check_state_dict(state_dict)
        state, groups, kept = state_dict["state"], [], {}
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            keys = [key for p, key in zip(group["params"], saved["params"]) if self._owners[id(p)] == self.group.rank]
            kept.update({key: state[key] for key in keys if key in state})
            options = {name: value for name, value in saved.items() if name not in _BY_PARAMETER}
            groups.append({**options, "params": keys})
        self.optim.load_state_dict({"state": kept, "param_groups": groups})
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            group.update({name: value for name, value in saved.items() if name != "params"})
        self._consolidated = None
        for hook in self._hooks.of("load_state_dict_post"):
            hook(self)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a ZeroRedundancyOptimizer is not copied or pickled: its state is on several ranks; save state_dict()"
        )
