"""The seed of the process, and rows of dropout, which are made of others: dropout_mask, where, mul, add, randperm."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from netcl_core_kit.dispatch import _core, call
from netcl_core_kit.generator import Generator, default_generator, drawing_from
from netcl_core_kit.rows import composites

__all__ = ["drawing_at", "get_rng_state", "manual_seed", "set_rng_state", "skip", "tell"]


def manual_seed(seed: int) -> Generator:
    """Seeds the generator of this process for all devices, resets its counter, and returns it."""
    return default_generator.manual_seed(seed)


def get_rng_state() -> dict[str, int]:
    """The state of the generator, {"seed", "offset"}."""
    return default_generator.get_state()


def set_rng_state(state: Mapping[str, int]) -> None:
    """Restores a state that ``get_rng_state`` returned."""
    default_generator.set_state(state)


def tell() -> int:
    """The number of counters used so far."""
    return default_generator.offset


def skip(count: int) -> None:
    """Counts ``count`` counters as used."""
    with default_generator.lock:
        default_generator.offset += count


def drawing_at(state: Mapping[str, int]) -> AbstractContextManager[None]:
    """Within the block draws of this thread begin at ``state``, as ``get_rng_state`` returned it."""
    return drawing_from(Generator().set_state(state))


def _channels(x: Any) -> Any:
    """A tensor with one element for each channel of x, for ``dropout_mask``."""
    return x.engine.empty((*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype)


def _kept(x: Any, mask: Any, p: float) -> Any:
    return call("mul", call("where", mask, x, 0.0), 0.0 if p == 1 else 1 / (1 - p))


def _dropout(x: Any, p: float = 0.5, training: bool = True, seed: int | None = None, return_mask: bool = False) -> Any:
    if not training:
        if not 0 <= p <= 1:
            raise ValueError(f"dropout: p is {p}, not in [0, 1]")
        return (x, _core.tensor.ones(x.shape, "bool", queue=x.queue)) if return_mask else x
    mask = call("dropout_mask", x, p, seed)
    result = _kept(x, mask, p)
    return (result, mask) if return_mask else result


def _feature_dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    return _kept(x, call("dropout_mask", _channels(x), p), p) if training else x


def _alpha(channels: bool) -> Any:
    def compute(x: Any, p: float = 0.5, training: bool = False) -> Any:
        if not training:
            return x
        low = -1.7580993408473766
        mask = call("dropout_mask", _channels(x) if channels else x, p)
        scale = 0.0 if p == 1 else ((1 - p) * (1 + p * low**2)) ** -0.5
        return call("add", call("mul", call("where", mask, x, low), scale), -scale * low * p)

    return compute


def _permutation(x: Any, axis: int = 0) -> Any:
    if not isinstance(x, _core.tensor):
        return call("randperm", int(x))
    return call("index_select", x, axis, call("randperm", x.shape[axis], queue=x.queue))


composites("widest", {
    "dropout(x: Tensor, p=0.5, training=True, seed=None, return_mask=False)": _dropout,
    "feature_dropout(x: Tensor, p=0.5, training=True)": _feature_dropout,
    "alpha_dropout(x: Tensor, p=0.5, training=False)": _alpha(False),
    "feature_alpha_dropout(x: Tensor, p=0.5, training=False)": _alpha(True),
    "permutation(x: Tensor, axis=0)": _permutation,
})  # fmt: skip
