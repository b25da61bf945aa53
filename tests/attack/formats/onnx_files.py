"""ONNX: fields of the protobuf messages, operators, attributes and constants of nodes, and bytes."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import Judge
from formats.mutate import NUMBERS, TEXTS, byte_edits, edited
from netcl.core.errors import UnsupportedError
from netcl.io import CheckpointError, import_onnx

ENVIRONMENT = {"NETCL_DEVICE": "cpu"}


def library() -> str:
    """Returns the name of the package if it is missing."""
    return "" if importlib.util.find_spec("onnx") else "the package onnx"


def graph() -> Any:
    """Returns a model with weights, shape arithmetic on constants, and attributes of many kinds."""
    import onnx
    from onnx import helper, numpy_helper

    def constant(name: str, value: Any) -> Any:
        return numpy_helper.from_array(np.asarray(value), name)

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Constant", [], ["two"], value=constant("", np.array([2, 1], np.int64))),
        helper.make_node("Tile", ["small", "two"], ["tiled"]),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"], value=constant("", np.array([5], np.int64))),
        helper.make_node("Range", ["start", "limit", "delta"], ["range"]),
        helper.make_node("Expand", ["small", "size"], ["expanded"]),
        helper.make_node("Pad", ["expanded", "pads"], ["padded"]),
        helper.make_node("Gather", ["padded", "start"], ["gathered"], axis=0),
        helper.make_node("Concat", ["size", "two"], ["joined"], axis=0),
        helper.make_node("MatMul", ["expanded", "zeros"], ["product"]),
        helper.make_node("Reshape", ["d", "shape"], ["y"]),
    ]
    weights = [
        constant("w", np.ones((4, 4), np.float32)),
        constant("b", np.ones(4, np.float32)),
        constant("small", np.array([[1], [2]], np.int64)),
        constant("size", np.array([2, 2], np.int64)),
        constant("pads", np.array([0, 1, 1, 0], np.int64)),
        constant("start", np.array(0, np.int64)),
        constant("limit", np.array(5, np.int64)),
        constant("delta", np.array(1, np.int64)),
        constant("shape", np.array([-1, 2], np.int64)),
    ]
    info = helper.make_tensor_value_info
    made = helper.make_graph(nodes, "g", [info("x", 1, ["n", 4])], [info("y", 1, None)], initializer=weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), onnx


def messages(message: Any) -> list[Any]:
    """Returns a message and all messages in it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                found += messages(inner)
    return found


def changed(model: Any, rng: random.Random, operators: Sequence[str]) -> None:
    """Changes one field of one message of the model, in place."""
    message = rng.choice(messages(model))
    fields = message.ListFields()
    if not fields:
        return
    field, value = rng.choice(fields)
    name = field.name
    if name == "op_type":
        message.op_type = rng.choice(operators)
    elif name in ("raw_data",):
        numbers = np.frombuffer(value[: len(value) // 8 * 8], np.int64).copy()
        if numbers.size:
            numbers[rng.randrange(numbers.size)] = np.int64(rng.choice(NUMBERS) & (2**63 - 1)) * rng.choice((1, -1))
            message.raw_data = numbers.tobytes()
    elif hasattr(value, "append") and len(value):
        if rng.random() < 0.4:
            del value[rng.randrange(len(value))]
        elif field.message_type is not None:
            value.add().CopyFrom(rng.choice(list(value)))
        else:
            value.append(rng.choice(list(value)))
            value[rng.randrange(len(value))] = other(value[0], rng)
    elif field.message_type is None:
        setattr(message, name, other(value, rng))
    else:
        message.ClearField(name)


def other(value: Any, rng: random.Random) -> Any:
    """Returns another value of the same type; names of the graph are among the texts."""
    if isinstance(value, str):
        return rng.choice((*TEXTS, "x", "w", "small", "size", "tiled", "zeros", "range", "y", "two", "limit"))
    if isinstance(value, bytes):
        return rng.choice((b"", b"\0" * 9, b"reflect", b"linear", value[:-1], value * 3))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
    return rng.choice([number for number in (*NUMBERS, -1, 3, 17, 21) if number < 2**31])


@attack("formats.onnx", needs=library, weight=1.5, environment=ENVIRONMENT)
def graphs(run: Run) -> None:
    """A false graph is imported, or refused with a CheckpointError or an UnsupportedError."""
    from netcl.io.onnx.model import OPERATORS_OF_IMPORT

    model, _ = graph()
    good = model.SerializeToString()
    operators = sorted(OPERATORS_OF_IMPORT)
    # An unsupported operator is named without the file.
    judge = Judge(run, ".onnx", read, good, (CheckpointError,))
    for rng in run.cases():
        if rng.random() < 0.3:
            judge.case(byte_edits(good, rng), lambda edits: edited(good, edits))
            continue
        lie = type(model).FromString(good)
        for _ in range(rng.choice((1, 1, 2, 4))):
            try:
                changed(lie, rng, operators)
            except (TypeError, ValueError):
                continue
        judge.whole(lie.SerializeToString())


def read(path: Any) -> Any:
    """Imports a file; a graph with unsupported parts counts as read."""
    try:
        return import_onnx(path)
    except UnsupportedError:
        return None
