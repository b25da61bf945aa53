"""Lists and dicts of parameters and buffers, registered under their positions or names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn.module import Module


def _parameter(value: Any) -> Any:
    """Returns a tensor as a parameter, other values as they are."""
    return ag.Parameter(value) if isinstance(value, Tensor) and not isinstance(value, ag.Parameter) else value


class ParameterList(Module):
    """A list of parameters, which are registered as ``0``, ``1`` and so on; tensors become parameters, and other values
    are kept as they are.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size: int = 0
        if values is not None:
            self.extend(values)

    def _at(self, index: int) -> str:
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range of a list of {self._size} parameters")
        return str(index % self._size)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[at] for at in range(*index.indices(self._size))])
        return getattr(self, self._at(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._at(index), _parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[at] for at in range(self._size)])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Adds a value at the end and returns the list."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def pop(self, index: int = -1) -> Any:
        """Removes a value and returns it; later ones move up."""
        values = list(self)
        value = values.pop(index)
        for at in range(self._size):
            delattr(self, str(at))
        self._size = 0
        self.extend(values)
        return value

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds values at the end and returns the list."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList: expected an iterable of parameters, got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = [f"({at}): {type(value).__name__} {_described(value)}" for at, value in enumerate(self)]
        return "\n  ".join(["", *lines])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises an error: a list computes nothing."""
        raise TypeError("ParameterList computes nothing; index it")


class _Dict(Module):
    """A dict of tensors that are registered under their names."""

    def __init__(self, values: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if values is not None:
            self.update(values)

    def _stored(self, value: Any) -> Any:
        """Returns a value as it is registered."""
        raise TypeError(f"{type(self).__name__} does not say how it stores values")

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"{type(self).__name__}: expected a string as key, got {type(key).__name__}")
        if key not in self._keys and hasattr(type(self), key):
            raise KeyError(f"{type(self).__name__} has an attribute {key!r} already")
        self._keys[key] = None
        setattr(self, key, self._stored(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: Mapping[str, Any]) -> Any:
        result = self.copy()
        result.update(other)
        return result

    def __ior__(self, other: Mapping[str, Any]) -> Any:
        self.update(other)
        return self

    def keys(self) -> Iterable[str]:
        """Returns the names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """Returns the values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key, or ``default``."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key after storing ``default`` if there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Removes a key and returns its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes the last key and returns it with its value."""
        key = next(reversed(list(self._keys)))
        return key, self.pop(key)

    def clear(self) -> None:
        """Removes all keys."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> Any:
        """Returns another dict of the same values."""
        return type(self)(dict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> Any:
        """Returns another dict with ``default`` for each key."""
        return type(self)(dict.fromkeys(keys, default))

    def update(self, values: Any) -> None:
        """Stores the values of a mapping or of an iterable of pairs."""
        for key, value in values.items() if hasattr(values, "items") else dict(values).items():
            self[key] = value

    def extra_repr(self) -> str:
        lines = [f"({key}): {type(value).__name__} {_described(value)}" for key, value in self.items()]
        return "\n  ".join(["", *lines])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises an error: a dict computes nothing."""
        raise TypeError(f"{type(self).__name__} computes nothing; index it")


class ParameterDict(_Dict):
    """A dict of parameters; tensors become parameters, and other values are kept as they are."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__(parameters)

    def _stored(self, value: Any) -> Any:
        return _parameter(value)


class BufferDict(_Dict):
    """A dict of buffers: tensors that are part of the state but are not parameters."""

    def _stored(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            raise TypeError(f"BufferDict: expected tensors, got {type(value).__name__}")
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys and isinstance(key, str) and not hasattr(type(self), key):
            self.register_buffer(key, self._stored(value).detach())
            self._keys[key] = None
            return
        super().__setitem__(key, value)


def _described(value: Any) -> str:
    return f"of shape {value.shape} ({value.dtype})" if isinstance(value, Tensor) else repr(value)
