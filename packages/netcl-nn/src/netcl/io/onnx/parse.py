"""Parses untrusted ONNX files: the number of messages is bounded before protobuf makes objects of them, and a model is
refused if any tensor keeps its data in another file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from netcl.io.budget import Meter

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
# An empty message of two bytes becomes an object of protobuf, one of Python and, in most cases, a node of the model.
_MESSAGE_MEMORY, _MESSAGE_SECONDS = 400, 8e-6
_FIELD_SECONDS = 5e-7
_AT_ONCE = 4096  # fields that are charged together


def parsed(onnx: Any, data: bytes, meter: Meter) -> Any:
    """Returns the ModelProto of ``data``; raises ValueError for one without a graph or with external data, and
    protobuf's errors.
    """
    _count_fields(data, _fields_of(onnx), meter)
    proto = onnx.ModelProto.FromString(data)
    if not proto.HasField("graph"):
        raise ValueError("it has no graph")
    for tensor in _tensors(proto, onnx.TensorProto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or len(tensor.external_data):
            raise ValueError(f"the tensor {tensor.name[:200]!r} keeps data in other files, which are not read")
    return proto


@lru_cache(maxsize=1)
def _fields_of(onnx: Any) -> tuple[str, Mapping[str, Mapping[int, str]]]:
    """Returns the name of the outermost message, and per message the numbers and types of the fields that are messages
    themselves.
    """
    fields: dict[str, dict[int, str]] = {}
    rest = [onnx.ModelProto.DESCRIPTOR]
    while rest:
        message = rest.pop()
        if message.full_name not in fields:
            inner = {field.number: field.message_type for field in message.fields if field.message_type is not None}
            fields[message.full_name] = {number: kind.full_name for number, kind in inner.items()}
            rest += inner.values()
    return onnx.ModelProto.DESCRIPTOR.full_name, fields


def _count_fields(data: bytes, fields: tuple[str, Mapping[str, Mapping[int, str]]], meter: Meter) -> None:
    """Charges the fields of all messages and their memory, from the wire format."""
    outermost, inner_of = fields
    rest = [(0, len(data), outermost, 1)]
    count = messages = 0
    while rest:
        offset, end, kind, depth = rest.pop()
        meter.check_depth(depth, "the model")
        inner = inner_of[kind]
        while offset < end:
            count += 1
            if count == _AT_ONCE:
                _charge(count, messages, meter)
                count = messages = 0
            tag, offset = _varint(data, offset, end)
            wire = tag & 7
            if wire == _BYTES:
                length, offset = _varint(data, offset, end)
                if length > end - offset:
                    raise ValueError("a field is longer than its message")
                if tag >> 3 in inner:
                    messages += 1
                    rest.append((offset, offset + length, inner[tag >> 3], depth + 1))
                offset += length
            elif wire == _VARINT:
                _, offset = _varint(data, offset, end)
            elif wire == _FIXED_32:
                offset += 4
            elif wire == _FIXED_64:
                offset += 8
            else:
                raise ValueError(f"a field has the wire type {wire}, which ONNX does not use")
    _charge(count, messages, meter)


def _charge(fields: int, messages: int, meter: Meter) -> None:
    meter.count(fields, "the fields of its messages")
    meter.spend(messages * _MESSAGE_MEMORY, "its messages")
    meter.take(fields * _FIELD_SECONDS + messages * _MESSAGE_SECONDS, "reading its messages")


def _varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Returns a number of 7 bits in each byte, lowest first, and the offset after it."""
    byte = data[offset]
    if byte < 0x80:
        return byte, offset + 1
    value, shift = byte & 0x7F, 7
    for place in range(offset + 1, min(offset + 10, end)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise ValueError("a number does not end")


def _tensors(message: Any, kind: Any) -> Iterator[Any]:
    """Yields all tensors in a message: initializers, attributes of nodes, of subgraphs, of functions."""
    rest = [message]
    while rest:
        current = rest.pop()
        if isinstance(current, kind):
            yield current
            continue
        for field, value in current.ListFields():
            if field.message_type is not None:
                rest += [value] if hasattr(value, "ListFields") else list(value)
