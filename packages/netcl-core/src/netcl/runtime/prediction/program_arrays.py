"""Arrays of the program, as of ``from_numpy``, that a predicted period reads at the call that uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from netcl.core.storage.host import view
from netcl.core.storage.views import geometry_of, root_of

__all__ = ["ProgramArrays"]

Array = np.ndarray[Any, Any]


def _elements(tensor: Any) -> Array | None:
    """Returns the elements of ``tensor`` in the array below it; None if a kernel has written there."""
    upload, geometry = root_of(tensor).upload, geometry_of(tensor)
    assert upload is not None
    array = upload.host_ref
    if tensor.version or geometry is None or not array.flags.c_contiguous:
        return None
    return view(array, geometry.shape, geometry.strides, geometry.offset)


class ProgramArrays:
    """The inputs of a period on arrays of the program, by number: the elements in the array, and their first values."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[Array, Array, Any]] = {}

    def take(self, number: int, tensor: Any) -> bool:
        """Copies the values of an input now; False if they cannot be copied, or if an input that was taken before had
        other values in the same memory: calls that are run late can have but one of them there.
        """
        elements = _elements(tensor)
        if elements is None:
            return False
        if any(
            np.may_share_memory(elements, other) and not self.unchanged(at) for at, (other, _, _) in self._taken.items()
        ):
            return False
        values = elements.copy()
        self._taken[number] = elements, values, tensor.engine.tensor(values, tensor.dtype)
        return True

    def copy_of(self, number: int, tensor: Any) -> Any:
        """Returns the copy of an input, which a replay reads; ``tensor`` itself if it is on no array of the program."""
        taken = self._taken.get(number)
        return tensor if taken is None else taken[2]

    def unchanged(self, number: int | None = None) -> bool:
        """Returns True if the program has not written into the array of an input, or of all, since it was taken."""
        taken = self._taken
        chosen = taken.values() if number is None else [taken[number]] if number in taken else []
        return all(elements.tobytes() == values.tobytes() for elements, values, _ in chosen)

    @contextmanager
    def as_taken(self, engine: Any) -> Iterator[None]:
        """A block in which the arrays have the values that were taken, for calls that are run late."""
        changed = [
            (elements, values) for number, (elements, values, _) in self._taken.items() if not self.unchanged(number)
        ]
        now = [elements.copy() for elements, _ in changed]
        for elements, values in changed:
            elements[...] = values
        try:
            yield
        finally:
            if changed:
                engine.finish()
            for (elements, _), values in zip(changed, now):
                elements[...] = values
