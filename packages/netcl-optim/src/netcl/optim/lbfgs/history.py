"""The pairs of L-BFGS as rows of one matrix, with all their products on the host.

The two-loop recursion (Nocedal 1980) reads the pairs in products of two vectors alone, and its result is a sum of the
pairs and the gradient. So it runs on the host over the matrix of products, in double precision, and the device computes
two matrix products for each iteration: of the pairs with what is new, and of the result's weights with the pairs (Chen,
Wang and Zhou, "Large-scale L-BFGS using MapReduce", 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor

# The pair of a step and of the change of the gradient is stored if their product exceeds this number.
_CURVATURE = 1e-10
_FIRST_SLOTS = 12  # the matrix begins with rows for as many pairs, and doubles


class History:
    """The last ``size`` pairs of a step s and of the change y of the gradient g, for a ``grad`` of n elements.

    ``rows``, (3 slots, n), has s, y and g of each slot one after another, so that a pair is written by one copy; only
    the last g is used. ``order`` has the slots of the pairs, oldest first; one slot is always free for the next pair.
    ``products``, (3 slots, 3 slots) float64, are of the rows.
    """

    def __init__(self, grad: Tensor, size: int) -> None:
        self.size: int = size
        self.order: list[int] = []
        self.scale: float = 1.0  # the diagonal of the first inverse Hessian
        self._make(grad, min(size + 1, _FIRST_SLOTS))

    def _make(self, grad: Tensor, slots: int) -> None:
        self.slots, self._last = slots, 2  # the row of g
        self.rows: Tensor = Tensor.zeros((3 * slots, grad.size), grad.dtype, queue=grad.queue)
        self.products = np.zeros((3 * slots, 3 * slots))
        self._views: dict[tuple[int, int], Tensor] = {}

    @property
    def _places(self) -> list[int]:
        """The rows of the pairs: first all s, then all y, oldest first."""
        return [*(3 * slot for slot in self.order), *(3 * slot + 1 for slot in self.order)]

    def _grow(self) -> None:
        """Doubles the slots."""
        before, places, products = self.rows, self._places, self.products
        self._make(before[0], min(self.size + 1, 2 * self.slots))
        self.order = list(range(len(self.order)))
        for old, new in zip(places, self._places):
            self._view(new).write(before[old])
        self.products[np.ix_(self._places, self._places)] = products[np.ix_(places, places)]

    def _view(self, row: int, count: int = 0) -> Tensor:
        """Returns a row, or several, as a view, which is made once."""
        view = self._views.get((row, count))
        if view is None:
            view = self._views[row, count] = self.rows[row : row + count] if count else self.rows[row]
        return view

    def push(self, step: Tensor, change: Tensor, grad: Tensor) -> None:
        """Adds a pair, in the place of the oldest one if there are ``size``. A pair is left out if its product s y is
        not positive, or is NaN. ``grad`` is the gradient from now on.
        """
        if len(self.order) + 1 == self.slots <= self.size:
            self._grow()
        slot = next(slot for slot in range(self.slots) if slot not in self.order)
        new = s, y, self._last = 3 * slot, 3 * slot + 1, 3 * slot + 2
        fresh = ag.stack([step, change, grad])
        self._view(s, 3).write(fresh)
        products = ag.matmul(self.rows, fresh, transpose_b=True).numpy().astype(np.float64)
        self.products[:, new] = products
        self.products[new, :] = products.T
        curvature = self.products[s, y]
        if curvature > _CURVATURE:
            self.order = [*self.order, slot][-self.size :]
            self.scale = float(curvature / self.products[y, y])
        else:  # the weights of the pair are 0, which times NaN is NaN
            self._view(s, 2).write(Tensor.zeros((2, grad.size), grad.dtype, queue=grad.queue))
            self.products[new[:2], :] = self.products[:, new[:2]] = 0.0

    def direction(self) -> tuple[Tensor, float]:
        """Returns minus the inverse Hessian times the gradient, by the two-loop recursion, and its product with the
        gradient.
        """
        products, last = self.products, self._last
        weights = np.zeros(len(products))
        weights[last] = -1.0
        along = {}
        for slot in reversed(self.order):
            s, y = 3 * slot, 3 * slot + 1
            along[slot] = weights @ products[:, s] / products[s, y]
            weights[y] -= along[slot]
        weights *= self.scale
        for slot in self.order:
            s, y = 3 * slot, 3 * slot + 1
            weights[s] += along[slot] - weights @ products[:, y] / products[s, y]
        factors = Tensor.from_host(self.rows.queue, weights.reshape(1, -1), self.rows.dtype)
        return ag.reshape(ag.matmul(factors, self.rows), (-1,)), float(weights @ products[:, last])

    def state(self) -> dict[str, Any]:
        """Returns the states in PyTorch's layout; ``slots`` and ``products`` are of netcl, so that a run that is
        resumed computes the same bits.
        """
        places, count = self._places, len(self.order)
        rows = [self._view(place) for place in places]
        inverse = [1.0 / float(self.products[3 * slot, 3 * slot + 1]) for slot in self.order]
        return {
            "old_stps": rows[:count], "old_dirs": rows[count:], "ro": inverse, "H_diag": self.scale,
            "slots": [self.slots, *self.order], "products": self.products[np.ix_(places, places)],
        }  # fmt: skip

    @classmethod
    def of(cls, state: dict[str, Any], grad: Tensor, size: int) -> History:
        """Returns the history of a ``state``, which may be one of torch.optim."""
        history = cls(grad, size)
        steps, changes = state["old_stps"][-size:], state["old_dirs"][-size:]
        slots = state.get("slots")
        if slots is not None and len(slots) == len(steps) + 1:
            history._make(grad, slots[0])
            history.order = list(slots[1:])
        else:
            slots_needed = history.slots
            while slots_needed <= len(steps):
                slots_needed = min(size + 1, 2 * slots_needed)
            history._make(grad, slots_needed)
            history.order = list(range(len(steps)))
        places = history._places
        for place, values in zip(places, (*steps, *changes)):
            history._view(place).write(values)
        products = state.get("products")
        if products is None or len(products) != len(places):
            products = ag.matmul(history.rows, history.rows.T)[places][:, places]
        if isinstance(products, Tensor):  # a state that was loaded
            products = products.numpy()
        history.products[np.ix_(places, places)] = products
        history.scale = float(state["H_diag"])
        return history
