"""NewValues: parameters with new values at their owners, gathered by all ranks in rounds of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.distributed.flat import by_dtype, flatten_tensors, unflatten_into
from netcl.distributed.group import ProcessGroup

if TYPE_CHECKING or "staging" in LEVELS:
    from netcl.runtime.staging import host_call, order_after
if TYPE_CHECKING:
    from netcl.distributed.staging.exchange import StagedExchange


class NewValues:
    """Writes the values of the owner of each of ``params`` into the parameter of all other ranks of ``group``.

    A round has ``nbytes`` of each rank at most, or one parameter, so that the values on the way need that memory for
    each rank. Devices that exchange tensors themselves copy the parts of a round, filled up to one size, from device to
    device; a captured step repeats that. All ranks make this object, with the same parameters in the same order.
    """

    def __init__(self, params: Sequence[Tensor], owners: Sequence[int], group: ProcessGroup, nbytes: int) -> None:
        self._group = group
        of = dict(zip(map(id, params), owners))
        self._rounds: list[list[list[Tensor]]] = []
        for same in by_dtype(params):
            owned: list[list[Tensor]] = [[] for _ in range(group.size)]
            for p in same:
                owned[of[id(p)]].append(p)
            self._rounds += map(list, zip_longest(*(_divided(part, nbytes) for part in owned), fillvalue=[]))
        self._exchange = self._found_exchange(params)
        if self._exchange is not None:
            self._order = Tensor.zeros((1,), queue=self._exchange.queue, persistent=True)
            self._fill: dict[tuple[int, str], Tensor] = {}

    def _found_exchange(self, params: Sequence[Tensor]) -> StagedExchange | None:
        """Returns the exchange between the devices, if each rank has all parameters on one device."""
        if self._group.size == 1 or not params:
            return None
        exchange = self._group.exchange(params[0].device)
        fits = exchange is not None and exchange.gathers and len({id(p.queue) for p in params}) == 1
        return exchange if self._group.all_gather(np.array([fits], np.int32)).all() else None

    def gather(self) -> None:
        """Writes the new values; all ranks call it."""
        rank = self._group.rank
        for parts in self._rounds if self._group.size > 1 else ():
            if self._exchange is not None:
                self._copied(self._exchange, parts)
                continue
            like = next(part[0] for part in parts if part)
            joined = self._group.all_gather(flatten_tensors(parts[rank], like))
            start = 0
            for at, part in enumerate(parts):
                if at != rank:
                    unflatten_into(joined, part, start)
                start += sum(p.size for p in part)

    def _copied(self, exchange: StagedExchange, parts: list[list[Tensor]]) -> None:
        rank = self._group.rank
        like = next(part[0] for part in parts if part)
        sizes = [sum(p.size for p in part) for part in parts]
        width = max(sizes)
        own = list(parts[rank])
        if sizes[rank] < width:
            key = (width - sizes[rank], like.dtype)
            if key not in self._fill:
                self._fill[key] = Tensor.zeros((key[0],), key[1], queue=like.queue, persistent=True)
            own.append(self._fill[key])
        flat = flatten_tensors(own, like)
        others = [Tensor.empty((width,), like.dtype, queue=like.queue) for _ in range(self._group.size - 1)]

        def copy(reads: Any, out: Any) -> None:
            delivery = exchange.all_gather(reads[0], out[:-1], exchange.mark())
            order_after(exchange.queue, delivery.enqueued())

        host_call(copy, (flat,), (*others, self._order))
        for part, values in zip([part for at, part in enumerate(parts) if at != rank], others):
            unflatten_into(values, part)


def _divided(params: Sequence[Tensor], nbytes: int) -> list[list[Tensor]]:
    """Returns the parameters in lists of at most ``nbytes``, or of one parameter."""
    lists: list[list[Tensor]] = []
    left = 0
    for p in params:
        if not lists or p.nbytes > left:
            lists.append([])
            left = nbytes
        lists[-1].append(p)
        left -= p.nbytes
    return lists
