"""Hooks on gradients: what ``register_hook`` gives back, and the hooks of leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from netcl.core import Tensor

# Hooks of leaves, by id: a leaf has no GradNode to keep them, and equality of tensors is elementwise.
leaf_hooks: dict[int, dict[int, Callable[[Tensor], Tensor | None]]] = {}


# Functions that are called after the gradient of a leaf has been added up, by the id of the leaf.
accumulated_hooks: dict[int, dict[int, Callable[[Tensor], None]]] = {}


class Hook:
    """The result of ``register_hook``; ``remove()`` takes the hook off."""

    def __init__(self, hooks: dict[int, Callable[[Tensor], Tensor | None]], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Takes the hook off; a second call does nothing."""
        self._hooks.pop(self._key, None)


def hooks_of(leaf: Tensor) -> Sequence[Callable[[Tensor], Tensor | None]]:
    """Returns the hooks of a leaf, in the order they were registered."""
    return tuple(leaf_hooks.get(id(leaf), {}).values())
