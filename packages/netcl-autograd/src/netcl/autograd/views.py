"""Views in the gradient graph: all views of one tensor, the base, form a group.

A write in place into a view makes the base the result of a copy of slices, and every view of the base, as after a write
into the base itself, is again the result of the ops that gave it, now on the new base.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netcl.autograd.grad_node import FLOATING, Edge, GradContext, GradNode, Grads, TensorMeta, belongs_again, edge_of
from netcl.autograd.mode import state
from netcl.autograd.recompute import Recomputed, Saving, pays
from netcl.autograd.rules.rule import arguments_of, node_of
from netcl.core import Tensor
from netcl.core.layout import contiguous_strides
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.dispatch import OpRow
from netcl.core.storage.gradients import set_view, view_of
from netcl.core.storage.views import Geometry, root_of
from netcl.core.tensor import in_place

ROWS = frozenset(("reshape", "permute", "expand", "strided_slice", "diagonal", "as_strided", "windows"))


class Group:
    """A base and its views. ``edge``: the base's place in the graph, for when the base itself is gone."""

    __slots__ = ("base", "edge", "members", "shape")

    def __init__(self, base: Tensor) -> None:
        self.base: Callable[[], Tensor | None] = weakref.ref(base)
        self.shape: tuple[int, ...] = base.shape
        self.members: list[weakref.ref[Tensor]] = []
        self.edge: Edge | None = None
        self.keep_edge(base)

    def keep_edge(self, base: Tensor) -> None:
        """Stores the place of ``base`` in the graph; of a leaf nothing is stored, since that would be a cycle."""
        self.edge = edge_of(base) if base.requires_grad and base.grad_fn is not None else None

    def base_edge(self) -> Edge | None:
        """Returns the target of the gradient of the base; None if it takes none."""
        base = self.base()
        if base is None:
            return self.edge
        return edge_of(base) if base.requires_grad and base.dtype in FLOATING else None

    def add(self, view: Tensor) -> None:
        """Adds a member."""
        members = self.members
        if len(members) >= 8 and len(members) & (len(members) - 1) == 0:
            self.members = members = [ref for ref in members if ref() is not None]
        members.append(weakref.ref(view))


class View:
    """The origin of a view: a call of ``row`` on the view ``parent`` of the group, or on its base (None). ``several``:
    it is one of several results of one function; ``recorded``: grad was enabled.
    """

    __slots__ = ("_arguments", "_call", "_of", "group", "parent", "recorded", "row", "several", "shape")

    def __init__(self, x: Tensor, row: OpRow, call: tuple[tuple[Any, ...], Mapping[str, Any]], result: Tensor) -> None:
        parent = view_of(x)
        if type(parent) is View:
            self.group: Group = parent.group
            self.parent: View | None = parent
        else:
            if type(parent) is not Group:
                parent = Group(x)
                set_view(x, parent)
            self.group, self.parent = parent, None
        self.row: OpRow = row
        self._of = x.shape, x.dtype, x.engine
        self.shape: tuple[int, ...] = result.shape
        self.several: bool = False
        self.recorded: bool = state.enabled
        self._call = call
        self._arguments: dict[str, Any] | None = None

    @property
    def meta(self) -> TensorMeta:
        """Shape, dtype and queue of the tensor that the call was of."""
        shape, dtype, engine = self._of
        return TensorMeta(shape, dtype, engine.queue)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call but for the tensor; found at the first use, as most views are never written."""
        if self._arguments is None:
            bound = arguments_of(self.row, (None, *self._call[0]), self._call[1])
            del bound["x"]
            if "shape" in bound:
                bound["shape"] = self.shape  # without -1
            elif "axes" in bound:
                bound["axes"] = tuple(int(axis) % len(self.shape) for axis in bound["axes"])
            self._arguments = bound
        return self._arguments

    def chain(self) -> list[View]:
        """Returns the views from the base on, this one last."""
        views: list[View] = []
        view: View | None = self
        while view is not None:
            views.append(view)
            view = view.parent
        return views[::-1]

    def geometry(self) -> Geometry:
        """Returns the elements of the base that the view shows."""
        shape = self.group.shape
        geometry = Geometry(shape, contiguous_strides(shape))
        for view in self.chain():
            geometry = _STEPS[view.row.name](geometry, view.arguments)
        return geometry

    def taken(self, context: GradContext, base: Tensor) -> Tensor:
        """Returns the same elements of another tensor of the base's shape."""
        for view in self.chain():
            base = context.call(view.row.name, base, *view.arguments.values())
        return base


def moved(tensor: Tensor, result: Tensor) -> None:
    """Notes that ``tensor`` has taken the place of ``result``, a base or a view, in its group."""
    place = view_of(tensor)
    if type(place) is Group:
        place.base = weakref.ref(tensor)
    elif type(place) is View:
        place.group.add(tensor)


def place_again(place: Any, tensor: Tensor, groups: dict[int, Group]) -> Any:
    """Returns the place among views of ``tensor``, which has in a later period the part of another one with ``place``.

    ``groups`` are those of this period so far, by that of the other one: a base begins its own. The base of a view that
    is in none of them is gone.
    """
    if type(place) not in (View, Group):
        return None
    before = place.group if type(place) is View else place
    group = groups.get(id(before))
    if group is None:
        group = groups[id(before)] = Group.__new__(Group)
        group.base, group.shape, group.edge, group.members = _gone, before.shape, before.edge, []
    if type(place) is not View:
        group.base = weakref.ref(tensor)
        group.keep_edge(tensor)
        return group
    view = copy.copy(place)
    view.group = group
    group.members.append(weakref.ref(tensor))
    return view


def _gone() -> None:
    """Returns None, as the reference of a tensor that is gone does."""


def _reshaped(geometry: Geometry, arguments: Mapping[str, Any]) -> Geometry:
    shaped = geometry.reshaped(arguments["shape"])
    assert shaped is not None  # else it would be no view
    return shaped


_STEPS: dict[str, Any] = {
    "reshape": _reshaped,
    "permute": lambda geometry, arguments: geometry.permuted(arguments["axes"]),
    "diagonal": lambda geometry, arguments: geometry.diagonal(
        arguments["offset"], *[arguments[name] % len(geometry.shape) for name in ("dim1", "dim2")]
    ),
    "expand": lambda geometry, arguments: geometry.expanded(arguments["shape"]),
    "strided_slice": lambda geometry, arguments: geometry.sliced(
        arguments["starts"], arguments["steps"], arguments["sizes"], arguments.get("shape")
    ),
    "as_strided": lambda geometry, arguments: geometry.strided(
        arguments["size"], arguments["stride"], arguments["storage_offset"]
    ),
    "windows": lambda geometry, arguments: geometry.windows(
        arguments["axis"] % len(geometry.shape), arguments["size"], arguments["step"]
    ),
}


def track(row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Tensor) -> None:
    """Notes that ``result`` was given by the row of a view; nothing if it has memory of its own."""
    if args:
        x, args = args[0], args[1:]
    else:
        x, kwargs = kwargs["x"], {name: value for name, value in kwargs.items() if name != "x"}
    if view_of(x) is in_place.DATA:
        set_view(result, in_place.DATA)
    elif root_of(result) is root_of(x):
        view = View(x, row, (args, kwargs), result)
        set_view(result, view)
        view.group.add(result)


def track_alias(tensor: Tensor, result: Tensor) -> None:
    """Gives ``tensor``, which stands for ``result``, its place among the views."""
    if type(view_of(result)) is View:
        set_view(tensor, view_of(result))
        view_of(result).group.add(tensor)


class Copied:
    """The recipe of a copy of a view; ``node`` saves the view's base in a place among its saved tensors."""

    __slots__ = ("_node", "_place", "_shape", "_view", "made")

    def __init__(self, view: View, shape: tuple[int, ...], node: GradNode, place: int) -> None:
        self.made: weakref.ref[Recomputed] | None = None
        self._view = view
        self._shape = shape
        self._node = node
        self._place = place

    def inputs(self, node: Saving) -> list[Any] | None:
        """Returns the base; None if it is not there as it was."""
        saved, versions = self._node.saved, self._node.versions
        if saved is None or saved[self._place].version != versions[self._place]:
            return None
        return [saved[self._place]]

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """Returns the copy."""
        context = GradContext(create_graph=False)
        return context.call("reshape", self._view.taken(context, inputs[0]), self._shape)  # type: ignore[no-any-return]


def recipe_of(x: Tensor, result: Tensor) -> Copied | None:
    """Returns the recipe of ``result`` if it is a copy of the view ``x``, and if the node of the view's base saves the
    base for its own gradient, as attention does; else None.
    """
    view = view_of(x)
    if type(view) is not View or root_of(result) is root_of(x) or not pays(result):
        return None
    group = view.group
    node = (group.base_edge() or (None, 0))[0]
    for place, tensor in enumerate((node.saved or ()) if isinstance(node, GradNode) else ()):
        if isinstance(tensor, Tensor) and root_of(tensor) is root_of(x) and tensor.shape == group.shape:
            return Copied(view, result.shape, node, place)  # type: ignore[arg-type]
    return None


def check(view: View) -> None:
    """Raises RuntimeError if a view must not be written in place while the graph is recorded."""
    base = view.group.base()
    if base is not None and base.requires_grad and base.grad_fn is None:
        raise RuntimeError(
            "a view of a leaf tensor that requires grad is written in place while grad is enabled; write under "
            "no_grad(), or into a view of a clone()"
        )
    if any(step.several for step in view.chain()):
        raise RuntimeError(
            "writing in place into one of several views that one function returned, as of split, chunk or unbind; "
            "take the view by narrow(), select() or x[...] instead"
        )
    if not all(step.recorded for step in view.chain()):
        raise RuntimeError(
            "writing in place into a view that was taken under no_grad while grad is enabled; take it with grad "
            "enabled, or write under no_grad()"
        )


def rebase(view: View, edge: Edge) -> None:
    """Makes the base of ``view`` the result of writing the value at ``edge`` into it, and renews all its views."""
    group = view.group
    step = GradNode("copy_slices", _copy_slices, (group.base_edge(), edge), (), 1, view)
    base = group.base()
    if base is not None:
        belongs_again(base, step, 0)
        if state.tape is not None:
            state.tape.nodes.append(base)
    group.edge = step, 0
    renew(group)


def renew(group: Group) -> None:
    """Makes the views of a group results of the base as it is now."""
    edge = group.base_edge()
    if edge is None:
        return
    base = group.base()
    if base is not None:
        group.keep_edge(base)
    for ref in group.members:
        member = ref()
        if member is None or type(view_of(member)) is not View or member.dtype not in FLOATING:
            continue
        to = edge
        for view in view_of(member).chain():
            to = node_of(view.row, {"x": view.meta, **view.arguments}, view.meta, to), 0
        belongs_again(member, *to)  # type: ignore[arg-type]


def _copy_slices(context: GradContext, node: GradNode, grads: list[Any], wanted: Sequence[bool]) -> Grads:
    """Returns the base's gradient with zeros where the view was written, and the written elements' for the value."""
    (grad,) = grads
    view: View = node.static
    if context.create_graph:
        written = grad.engine.zeros(grad.shape, "bool")
        in_place.fill(view.taken(GradContext(create_graph=False), written), True)
        before = context.call("where", written, 0.0, grad) if wanted[0] else None
        return before, view.taken(context, grad) if wanted[1] else None
    geometry = view.geometry()
    walk = {"shape": geometry.shape, "out_offset": 0}
    before = value = None
    if wanted[1]:
        value = grad.engine.empty(geometry.shape, grad.dtype)
        if value.size:
            value.engine.copy(
                grad, value, source_strides=geometry.strides, source_offset=geometry.offset,
                out_strides=contiguous_strides(geometry.shape), **walk,
            )  # fmt: skip
    if wanted[0]:
        before = dispatch.call("clone", grad, record=False)
        if 0 not in geometry.shape:
            zero = grad.engine.zeros((1,), grad.dtype)
            grad.engine.copy(
                zero, before, source_strides=(0,) * len(geometry.shape), source_offset=0,
                out_strides=geometry.strides, shape=geometry.shape, out_offset=geometry.offset,
            )  # fmt: skip
    return before, value
