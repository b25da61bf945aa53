"""Ops that are one matrix product, whose calls engines with a ``warm_product`` repeat by warm calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netcl.core.ops_table.call_key import key_of_values
from netcl.core.ops_table.table import OpRow
from netcl.core.tensor.data import TensorData

if TYPE_CHECKING:
    from netcl.core.backend.product import Product

__all__ = ["PRODUCTS", "product_key", "warm_product"]

# By row, the function that describes the product that a call is; it returns None for a call that is none.
PRODUCTS: dict[OpRow, Callable[..., Product | None]] = {}


def product_key(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The key of a call of a row of ``PRODUCTS``; None if it cannot be looked up."""
    key: list[Any] = [row]
    tensors = next((count for count, value in enumerate(args) if not isinstance(value, TensorData)), len(args))
    for value in args[:tensors]:
        key += (value.engine, value.shape, value.dtype)
    return key_of_values(key, args[tensors:], kwargs)


def warm_product(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], result: TensorData) -> Any:
    """The warm call of the product that has just computed ``result``; None if it has none."""
    make: Callable[..., Any] | None = getattr(result.engine, "warm_product", None)
    product = None if make is None else PRODUCTS[row](*args, **kwargs)
    return None if make is None or product is None else make(product, result.shape)
