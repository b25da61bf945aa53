"""LocalGradients: gradients that stay on their rank during gradient accumulation, until a reduced pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from netcl.core import Tensor
from netcl.distributed.group import ProcessGroup


class NoSync:
    """Base class of objects that reduce gradients outside of the blocks of ``no_sync``."""

    synchronizes: bool = True

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Makes gradients accumulate in ``grad`` of each rank inside the block; the first pass after it reduces the
        sums.
        """
        outer, self.synchronizes = self.synchronizes, False
        try:
            yield
        finally:
            self.synchronizes = outer


class LocalGradients(NoSync):
    """The gradients in ``grad`` of ``params`` that have not been reduced over the ranks of ``group``.

    A gradient that was reduced before the first local pass would be counted once for each rank by the next reduction:
    rank 0 keeps it, and the others drop it until then. So a pass that is reduced sends what is in ``grad``, also after
    ``zero_grad``.
    """

    def __init__(self, params: Sequence[Tensor], group: ProcessGroup | None) -> None:
        self._params, self._group = params, group
        self._local = False  # True if ``grad`` is that of this rank

    def begin(self) -> None:
        """Prepares ``grad`` for a pass that is not reduced."""
        if self._group is None or self._local:
            return
        self._local = True
        if self._group.rank:
            for param in self._params:
                param.grad = None

    def take(self) -> dict[int, Tensor]:
        """Takes the local gradients out of ``grad``, by the number of their parameter, for a pass that is reduced."""
        if not self._local:
            return {}
        self._local = False
        grads = {place: param.grad for place, param in enumerate(self._params) if param.grad is not None}
        for param in self._params:
            param.grad = None
        return grads
