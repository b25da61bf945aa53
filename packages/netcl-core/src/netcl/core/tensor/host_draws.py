"""Draws on the host for a seed: for generators on CPUs with other numbers than Philox's."""

from __future__ import annotations

from typing import Any

from netcl.core.engine.recording import open_here
from netcl.core.tensor.generator import generator_of_thread, lock


def draw_on_host(engine: Any, kind: str, *arguments: Any) -> Any:
    """Returns the numbers of a draw of the calling thread on ``engine``, an array: ``host.kind(*arguments)`` of its
    generator, in which tensors are read.

    Returns None if Philox draws: on GPUs, in captured steps, as their replays draw again, and for generators without
    such numbers.
    """
    host = generator_of_thread().host
    if host is None or engine.handle.device_type.lower() != "cpu" or open_here(engine) is not None:
        return None
    values = [argument.to_host() if hasattr(argument, "to_host") else argument for argument in arguments]
    with lock:
        return getattr(host, kind)(*values)
