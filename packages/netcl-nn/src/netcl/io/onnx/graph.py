"""The ONNX graph during export: values by tensor, constants, nodes, and sizes that depend on the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.dtypes import numpy_dtype, to_bfloat16
from netcl.core.errors import UnsupportedError
from netcl.core.storage.views import root_of
from netcl.io.onnx.library import onnx_library

Shape = tuple[int, ...]
Pair = tuple[Shape, Shape]

# netcl's dtypes and their names in ONNX.
ELEMENTS = {
    "float32": "FLOAT",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float64": "DOUBLE",
    "int32": "INT32",
    "int64": "INT64",
    "int8": "INT8",
    "int16": "INT16",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "bool": "BOOL",
}


@dataclass(frozen=True)
class Value:
    """A value of the graph: its name, its shape in both traces, its dtype."""

    name: str
    shapes: Pair
    dtype: str

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shapes[0])


class Graph:
    """Collects nodes and initializers; ``names`` maps tensors of the model to the names of its state."""

    def __init__(self, opset: int, names: Mapping[tuple[Any, ...], str]) -> None:
        self.onnx: Any = onnx_library()
        self.opset = opset
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Value] = []
        # The sizes of the batch in the two traces; equal if it is fixed.
        self.batch: tuple[int, int] = (1, 1)
        # Constants that are reshaped copies of others, by id.
        self.sources: dict[int, tuple[Tensor, Tensor]] = {}
        self._named = names
        self._live: dict[Any, Value] = {}
        self._constants: dict[Any, Value] = {}
        self._taken: set[str] = set()
        self._kept: list[Tensor] = []
        # The storages, by id, that are overwritten in place, and the storages of used constants.
        self._overwritten: dict[int, Any] = {}
        self._used: dict[int, Any] = {}
        self._batch_value: Value | None = None

    # -- values ------------------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """Returns ``name``, with a number appended if it is in use."""
        chosen, number = name, 0
        while chosen in self._taken:
            number += 1
            chosen = f"{name}_{number}"
        self._taken.add(chosen)
        return chosen

    def add_input(self, name: str, first: Tensor, second: Tensor) -> Value:
        """Adds an input of the graph."""
        value = Value(self.fresh(name), (first.shape, second.shape), first.dtype)
        self.inputs.append(value)
        self.define(first, value)
        return value

    def define(self, tensor: Tensor, value: Value) -> None:
        """Assigns a value to a tensor of the first trace."""
        self._kept.append(tensor)
        self._live[id(tensor)] = self._live[_storage(tensor)] = value

    def overwrite(self, target: Tensor, written: Value | None) -> None:
        """Assigns another value to a tensor of the first trace and to its reshapes, None if it stays a constant; other
        tensors that share its memory have no value any more.

        Raises UnsupportedError if the graph has its earlier value as a constant.
        """
        root = root_of(target)
        if id(root) in self._used:
            raise UnsupportedError(
                "a constant is used and then overwritten in place, which ONNX cannot express; write into its clone()"
            )
        if written is None:
            return
        self._overwritten[id(root)] = root
        others: dict[Any, Pair] = {}
        for tensor in self._kept:
            if root_of(tensor) is root:
                keys = (id(tensor), _storage(tensor))
                values = [value for value in (self._live.pop(key, None) for key in keys) if value is not None]
                if values and (tensor.storage_id, tensor.dtype) == (target.storage_id, target.dtype):
                    others.update(dict.fromkeys(keys, values[0].shapes))
        for key, shapes in others.items():
            self._live[key] = self.reshape(written, shapes)
        self.define(target, written)

    def live(self, tensor: Any) -> Value | None:
        """Returns the value of a tensor that depends on the inputs; None for a constant."""
        value = self._live.get(id(tensor)) or self._live.get(_storage(tensor))
        if value is None and id(root_of(tensor)) in self._overwritten:
            raise UnsupportedError(
                "a tensor is used after another that shares its memory was written in place, as x is after "
                "x[:, 0] = y, which is not exported; write x = x.select_scatter(y, 1, 0), slice_scatter(), where() or "
                "cat()"
            )
        return value

    def value(self, first: Tensor, second: Tensor) -> Value:
        """Returns the value of a tensor: one of the graph, or an initializer."""
        value = self.live(first)
        if value is not None:
            return value
        key = _storage(first)
        if key not in self._constants:
            self._kept.append(first)
            root = root_of(first)
            self._used[id(root)] = root
            source, _ = self.sources.get(id(first), (first, second))
            name = self._named.get(key) or self._named.get(_storage(source), "constant")
            host = first.to_host()
            if first.shape == second.shape:
                self._constants[key] = self.constant(host, first.dtype, name)
            elif host.size and (host == host.reshape(-1)[0]).all():
                filled = self.constant(host.reshape(-1)[0], first.dtype, name)
                self._constants[key] = self.expand(filled, (first.shape, second.shape))
            else:
                raise UnsupportedError(
                    f"a constant has the shapes {first.shape} and {second.shape} for batches of {self.batch[0]} and "
                    f"{self.batch[1]}; export with dynamic_batch=False"
                )
        return self._constants[key]

    def constant(self, array: Any, dtype: str, name: str = "constant") -> Value:
        """Adds an initializer."""
        array = np.asarray(array)
        key = (name, dtype, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        value = Value(self.fresh(name), (array.shape, array.shape), dtype)
        element = getattr(self.onnx.TensorProto, ELEMENTS[dtype])
        stored = to_bfloat16(array.astype(np.float32)) if dtype == "bfloat16" else array.astype(numpy_dtype(dtype))
        data = np.asarray(stored, stored.dtype.newbyteorder("<"), order="C").tobytes()
        self.initializers.append(self.onnx.helper.make_tensor(value.name, element, array.shape, data, raw=True))
        if key is not None:
            self._constants[key] = value
        return value

    def integers(self, numbers: Sequence[int]) -> Value:
        """Adds a vector of int64."""
        return self.constant(np.array(list(numbers), np.int64), "int64")

    # -- nodes -------------------------------------------------------------------------------------------------------

    def add(
        self, op: str, inputs: Sequence[Value | None], shapes: Pair, dtype: str | None = None, **attributes: Any
    ) -> Value:
        """Adds a node with one output, of the dtype of its first input unless one is given."""
        return self.add_many(op, inputs, [(shapes, dtype)], **attributes)[0]

    def add_many(
        self, op: str, inputs: Sequence[Value | None], outputs: Sequence[tuple[Pair, str | None]], **attributes: Any
    ) -> list[Value]:
        """Adds a node with several outputs, each given by its shapes and dtype."""
        first = next((value.dtype for value in inputs if value is not None), "float32")
        values = [Value(self.fresh(op.lower()), shapes, dtype or first) for shapes, dtype in outputs]
        names = [value.name if value is not None else "" for value in inputs]
        while names and not names[-1]:
            names.pop()
        present = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(op, names, [value.name for value in values], **present))
        return values

    def cast(self, value: Value, dtype: str) -> Value:
        """Casts the value to another dtype."""
        if value.dtype == dtype:
            return value
        return self.add("Cast", [value], value.shapes, dtype, to=getattr(self.onnx.TensorProto, ELEMENTS[dtype]))

    def reshape(self, value: Value, shapes: Pair) -> Value:
        """Reshapes the value."""
        if value.shapes == shapes:
            return value
        return self.add("Reshape", [value, self.sizes(shapes, spare=True)], shapes)

    def expand(self, value: Value, shapes: Pair) -> Value:
        """Broadcasts the value to a shape."""
        return value if value.shapes == shapes else self.add("Expand", [value, self.sizes(shapes)], shapes)

    def reduce(self, kind: str, value: Value, axes: Sequence[int], keepdims: bool = True) -> Value:
        """Adds Reduce{kind} over axes."""
        chosen = set(axes)
        shapes = tuple(
            tuple(1 if axis in chosen else size for axis, size in enumerate(shape) if keepdims or axis not in chosen)
            for shape in value.shapes
        )
        # The axes of all but ReduceSum became an input with opset 18.
        as_input = kind == "Sum" or self.opset >= 18
        inputs = [value, self.integers(axes)] if as_input else [value]
        kept: dict[str, Any] = {"keepdims": int(keepdims), **({} if as_input else {"axes": list(axes)})}
        return self.add(f"Reduce{kind}", inputs, (shapes[0], shapes[1]), **kept)

    # -- sizes -------------------------------------------------------------------------------------------------------

    def sizes(self, pair: tuple[Sequence[int], Sequence[int]], spare: bool = False) -> Value:
        """Returns a vector of int64 that had these values in the two traces; ``spare`` allows one of them to be -1."""
        first, second = (np.array(list(numbers), np.int64) for numbers in pair)
        if (first == second).all():
            return self.constant(first, "int64")
        # first = slope * batch + offset, and the batches differ by one.
        slope = second - first
        offset = first - slope * self.batch[0]
        if spare and np.count_nonzero(slope) == 1:
            return self.constant(np.where(slope != 0, -1, first), "int64")
        shapes = (first.shape, first.shape)
        scaled = self.add("Mul", [self._batch_size(), self.constant(slope, "int64")], shapes, "int64")
        return self.add("Add", [scaled, self.constant(offset, "int64")], shapes, "int64")

    def _batch_size(self) -> Value:
        """Returns the number of samples at run time, as a vector of one."""
        if self._batch_value is None:
            source = next(value for value in self.inputs if value.shapes[0] != value.shapes[1])
            shape = self.add("Shape", [source], ((source.rank,), (source.rank,)), "int64")
            parts = [shape, self.integers([0]), self.integers([1])]
            self._batch_value = self.add("Slice", parts, ((1,), (1,)), "int64")
        return self._batch_value


def _storage(tensor: Any) -> tuple[Any, ...]:
    """Returns a key shared by a tensor and its aliases of the same shape."""
    return (tensor.storage_id, tensor.shape, tensor.dtype)


def names_of(state: Mapping[str, Tensor]) -> dict[tuple[Any, ...], str]:
    """Maps the keys of tensors in ``Graph`` to the names of a model's state."""
    return {_storage(tensor): name for name, tensor in state.items()}
