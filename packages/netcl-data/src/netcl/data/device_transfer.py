"""Transfers batches to a device and reads NETCL_ variables by netcl.core, if the program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from netcl.data.tree import map_type


def to_device(batch: Any, queue: Any, *, use_pinned: bool = False) -> Any:
    """Returns the batch with each numeric array copied to ``queue`` as a ``netcl.core.Tensor``.

    The copy is enqueued, not awaited. Dtypes follow ``Tensor.from_host`` (float64 becomes float32, 8- and 16-bit
    integers int32). Arrays of text or objects, and leaves that are not arrays, are kept.

    Raises:
        ImportError: netcl.core is not loaded.
    """
    # Not imported here: netcl.data needs NumPy only, and a program with a device queue has loaded netcl.core.
    core = sys.modules.get("netcl.core")
    if core is None:
        raise ImportError(
            "DataLoader(device_queue=...) makes tensors of netcl.core: import netcl.core and take the queue from its "
            "manager (pip install netcl-data[device])"
        )
    # None leaves the choice to NETCL_PINNED_H2D.
    pinned = True if use_pinned else None

    def transfer(array: Any) -> Any:
        return core.Tensor.from_host(queue, array, use_pinned=pinned) if array.dtype.kind in "fiub" else array

    return map_type(transfer, np.ndarray, batch)


def prefetch_one(batches: Iterator[Any], transfer: Callable[[Any], Any]) -> Iterator[Any]:
    """Yields transferred batches; the transfer of the next batch is started before a batch is yielded."""
    held: list[Any] = []
    failure: Exception | None = None
    while True:
        try:
            held.append(transfer(next(batches)))
        except StopIteration:
            yield from held
            return
        except Exception as error:  # noqa: BLE001 - raised below
            # The previous batch is complete and is yielded first.
            failure = error
        if failure is not None:
            yield from held
            raise failure
        if len(held) > 1:
            yield held.pop(0)


def configured(name: str) -> int | None:
    """Returns the integer variable ``NETCL_<name>`` if netcl.core has been imported, else None.

    The variables belong to ``netcl.core.config``; netcl.data never imports netcl.core to read one.
    """
    config = sys.modules.get("netcl.core.config")
    return None if config is None else cast("int | None", config.get(name))
