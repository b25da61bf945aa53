"""A pickle reader that executes nothing: it knows plain containers, and names that the caller defines.

A pickle is a program for a stack machine; its instructions may name any function and call it. This machine supports
about forty of the instructions, looks names up in a table of the caller's functions, and limits the length of a
program, the number of instructions and the memory of the result. Nothing is imported, and no attribute is set.
"""

from __future__ import annotations

import io
import itertools
import pickletools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from netcl.io.budget import Budget, Meter

# A state of 100,000 tensors takes about 25 MB and two million instructions.
MAX_BYTES = 64 << 20
_MAX_WORK = 64 << 20
# An instruction of one byte may make an empty list.
_INSTRUCTION_MEMORY, _INSTRUCTION_SECONDS = 80, 1.6e-6
_AT_ONCE = 1024  # instructions that are charged together
# Types allowed as keys. A tuple of tuples of ... would take exponential time to hash.
_KEYS = (str, int, float, bytes, type(None))


class PickleError(ValueError):
    """A pickle is damaged, too long, or requests something that is not allowed."""


def _refusal(name: str) -> str:
    """Returns the reason to reject a file that refers to a name, and the file to write instead."""
    if name.startswith("__torch__."):
        return "it is a program of TorchScript, which is not run; save the model's state_dict() and load that"
    return (
        f"it refers to {name}, which is no part of a state of tensors, and nothing in a file is executed; save the "
        "state_dict() of a module, and plain values of other objects"
    )


class Name:
    """The name of a function that a pickle refers to; it is called only by a call in the pickle."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: str = text

    def __repr__(self) -> str:
        return self.text.replace(" ", ".")


class Built:
    """A value that a pickle builds by two instructions: a call, and then ``build(state)``."""

    def build(self, state: Any) -> None:
        """Receives the state."""


class _Mark:
    """The position on the stack at which a container begins."""


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    # Protocol 2 writes bytes this way.
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise PickleError("text is turned into bytes as latin1 alone")
    return text.encode("latin1")


def _mapping(pairs: Any = ()) -> OrderedDict[Any, Any]:
    result: OrderedDict[Any, Any] = OrderedDict()
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise PickleError("a dictionary is made of pairs")
        result[_key(pair[0])] = pair[1]
    return result


def _key(key: Any) -> Any:
    if isinstance(key, _KEYS) or (isinstance(key, tuple) and all(isinstance(part, _KEYS) for part in key)):
        return key
    raise PickleError(f"expected texts and numbers as keys, got {type(key).__name__}")


def _defaulting(factory: Any = None, pairs: Any = ()) -> dict[Any, Any]:
    return dict(_mapping(pairs))


def _set(items: Any = ()) -> set[Any]:
    return {_key(item) for item in items}


PLAIN: Mapping[str, Callable[..., Any]] = {
    "collections OrderedDict": _mapping,
    "collections defaultdict": _defaulting,
    "builtins dict": _mapping,
    "__builtin__ dict": _mapping,
    "builtins set": _set,
    "__builtin__ set": _set,
    "_codecs encode": _encoded,
}


def read_pickle(
    file: BinaryIO,
    names: Mapping[str, Any],
    persistent: Callable[[Any], Any] | None = None,
    array: Callable[[Any, Any], None] | None = None,
    meter: Meter | None = None,
) -> Any:
    """Returns the value of the pickle at the current position of ``file``, and moves the position to its end.

    ``names`` maps "module name" to a function for calls of the name, or to any other value that replaces the name;
    ``persistent(id)`` returns the value of a persistent id; ``array(value, state)`` fills an array of NumPy that a
    function has made. ``meter`` is charged for the instructions. Raises PickleError for anything else, and lets errors
    of these functions pass. Attributes that a pickle assigns to a dictionary are dropped.
    """
    start = file.tell()
    data = file.read(MAX_BYTES + 1)
    source = io.BytesIO(data)
    machine = _Machine(names, persistent, array)
    meter = Budget().meter(len(data)) if meter is None else meter
    with warnings.catch_warnings():
        # Warnings of pickletools, about backslashes in the names of a damaged file.
        warnings.simplefilter("ignore", DeprecationWarning)
        for step in itertools.count():
            if not step % _AT_ONCE:
                meter.count(_AT_ONCE, "the instructions of its pickle")
                meter.spend(_AT_ONCE * _INSTRUCTION_MEMORY, "what its pickle makes")
                meter.take(_AT_ONCE * _INSTRUCTION_SECONDS, "running its pickle")
            code = source.read(1)
            if code == b".":
                break
            if code not in _INSTRUCTIONS:
                raise PickleError(f"the instruction {_OPCODES[code].name} is not allowed" if code in _OPCODES else _CUT)
            read_argument, effect = _INSTRUCTIONS[code]
            effect(machine, read_argument(source) if read_argument else None)
    if source.tell() > MAX_BYTES:
        raise PickleError(f"it has more than {MAX_BYTES} bytes")
    file.seek(start + source.tell())
    return machine.result()


class _Machine:
    """The stack, the memo, and the effect of each instruction on them."""

    def __init__(
        self,
        names: Mapping[str, Any],
        persistent: Callable[[Any], Any] | None,
        array: Callable[[Any, Any], None] | None,
    ) -> None:
        self.array = array
        self.names = {**PLAIN, **names}
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.work = 0

    def result(self) -> Any:
        if len(self.stack) != 1:
            raise PickleError("it is damaged (it does not end with one value)")
        return self._taken()

    def _charge(self, amount: int) -> None:
        self.work += amount
        if self.work > _MAX_WORK:
            raise PickleError("it makes far more than a state of its length holds")

    def _since_mark(self) -> list[Any]:
        for position in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[position], _Mark):
                items = self.stack[position + 1 :]
                del self.stack[position:]
                return items
        raise PickleError("it is damaged (a container has no beginning)")

    def _taken(self) -> Any:
        if not self.stack or isinstance(self.stack[-1], _Mark):
            raise PickleError("it is damaged (a value is missing)")
        return self.stack.pop()

    def _top(self, kind: Any) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise PickleError("it is damaged (no container where one is filled)")
        return self.stack[-1]

    # -- memo --------------------------------------------------------------------------------------------------------

    def _binput(self, argument: int) -> None:
        self.memo[argument] = self._top(object)

    _long_binput = _put = _binput

    def _memoize(self, argument: Any) -> None:
        self.memo[len(self.memo)] = self._top(object)

    def _binget(self, argument: int) -> None:
        if argument not in self.memo:
            raise PickleError("it is damaged (it refers to what it has not made)")
        self.stack.append(self.memo[argument])

    _long_binget = _get = _binget

    # -- containers --------------------------------------------------------------------------------------------------

    def _tuple(self, argument: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _list(self, argument: Any) -> None:
        self.stack.append(self._since_mark())

    def _dict(self, argument: Any) -> None:
        items = self._since_mark()
        self.stack.append(dict(_mapping(zip(items[::2], items[1::2]))))

    def _counted(self, count: int) -> None:
        items = [self._taken() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def _tuple1(self, argument: Any) -> None:
        self._counted(1)

    def _tuple2(self, argument: Any) -> None:
        self._counted(2)

    def _tuple3(self, argument: Any) -> None:
        self._counted(3)

    def _append(self, argument: Any) -> None:
        item = self._taken()
        self._top(list).append(item)

    def _appends(self, argument: Any) -> None:
        items = self._since_mark()
        self._top(list).extend(items)

    def _setitem(self, argument: Any) -> None:
        value, key = self._taken(), _key(self._taken())
        self._top(dict)[key] = value

    def _setitems(self, argument: Any) -> None:
        items = self._since_mark()
        if len(items) % 2:
            raise PickleError("it is damaged (a key has no value)")
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2]):
            target[_key(key)] = value

    def _additems(self, argument: Any) -> None:
        items = self._since_mark()
        self._top(set).update(_set(items))

    # -- names -------------------------------------------------------------------------------------------------------

    def _global(self, argument: str) -> None:
        self._charge(len(argument))
        if argument not in self.names:
            raise PickleError(_refusal(argument.replace(" ", ".")))
        meaning = self.names[argument]
        self.stack.append(Name(argument) if callable(meaning) else meaning)

    def _stack_global(self, argument: Any) -> None:
        name, module = self._taken(), self._taken()
        if not isinstance(name, str) or not isinstance(module, str):
            raise PickleError("it is damaged (a name is no text)")
        self._global(f"{module} {name}")

    def _call(self, function: Any, arguments: Any) -> Any:
        if not isinstance(function, Name):
            raise PickleError("it calls what is no function of a state of tensors")
        if not isinstance(arguments, tuple):
            raise PickleError("it is damaged (a call has no arguments)")
        for value in arguments:
            self._charge(len(value) + 1 if isinstance(value, (str, bytes, tuple, list, dict, set)) else 1)
        return self.names[function.text](*arguments)

    def _reduce(self, argument: Any) -> None:
        arguments, function = self._taken(), self._taken()
        self.stack.append(self._call(function, arguments))

    _newobj = _reduce

    def _build(self, argument: Any) -> None:
        state, value = self._taken(), self._top((dict, Built, np.ndarray))
        if isinstance(value, Built):
            value.build(state)
        elif self.array is not None and isinstance(value, np.ndarray):
            self.array(value, state)

    def _binpersid(self, argument: Any) -> None:
        if self.persistent is None:
            raise PickleError("it refers to values outside of it")
        self.stack.append(self.persistent(self._taken()))


_NOTHING = ("PROTO", "FRAME")
_VALUES = (
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "BINFLOAT", "FLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("BINSTRING", "SHORT_BINSTRING", "STRING"),
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_CONTAINERS: Mapping[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": set, "MARK": _Mark}
_Effect = Callable[[_Machine, Any], None]


def _effect(name: str) -> _Effect | None:
    """Returns what an instruction does to the machine, given its argument; None if it is not allowed."""
    if name in _NOTHING:
        return lambda machine, argument: None
    if name in _VALUES:
        return lambda machine, argument: machine.stack.append(argument)
    if name in _CONSTANTS:
        constant = _CONSTANTS[name]
        return lambda machine, argument: machine.stack.append(constant)
    if name in _CONTAINERS:
        container = _CONTAINERS[name]
        return lambda machine, argument: machine.stack.append(container())
    return getattr(_Machine, f"_{name.lower()}", None)


_OPCODES = {opcode.code.encode("latin1"): opcode for opcode in pickletools.opcodes}
# The reader of the argument and the effect of each instruction, by its byte.
_INSTRUCTIONS: Mapping[bytes, tuple[Callable[[BinaryIO], Any] | None, _Effect]] = {
    code: (None if opcode.arg is None else opcode.arg.reader, effect)
    for code, opcode in _OPCODES.items()
    if (effect := _effect(opcode.name)) is not None
}
_CUT = "it is damaged (an instruction is unknown, or its end is missing)"
