"""All that the loader asks of netcl.core, where the program has loaded it: tensors of a batch, and configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from netcl.data.tree import map_type

__all__ = ["configured", "one_ahead", "to_device"]


def to_device(batch: Any, queue: Any, *, use_pinned: bool = False) -> Any:
    """The batch with each numeric array copied to ``queue`` as a ``netcl.core.Tensor``.

    The copy is enqueued, not awaited. Dtypes follow ``Tensor.from_host`` (float64 becomes float32, 8- and 16-bit
    integers int32). Arrays of text or objects and all that is no array stay as they are.

    Raises:
        ImportError: netcl.core is not loaded.
    """
    # Not imported here: netcl.data stands on NumPy alone, and whoever holds a device queue has netcl.core loaded.
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


def one_ahead(batches: Iterator[Any], transfer: Callable[[Any], Any]) -> Iterator[Any]:
    """Transferred batches; the transfer of one has been started before the one before it is handed over."""
    held: list[Any] = []
    failure: Exception | None = None
    while True:
        try:
            held.append(transfer(next(batches)))
        except StopIteration:
            yield from held
            return
        except Exception as error:  # noqa: BLE001 - raised below
            # The batch before it is whole and comes first.
            failure = error
        if failure is not None:
            yield from held
            raise failure
        if len(held) > 1:
            yield held.pop(0)


def configured(name: str) -> int | None:
    """The integer variable ``NETCL_<name>`` if netcl.core has been imported, else None.

    The variables belong to ``netcl.core.config``; netcl.data reads none itself and never imports netcl.core for it.
    """
    config = sys.modules.get("netcl.core.config")
    return None if config is None else cast("int | None", config.get(name))
