"""Watches the calls that a thread makes on other engines than the one that it records or predicts on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any, ClassVar

from netcl.core.engine.interceptors import Interceptor, Layer, interception
from netcl.core.engine.registry import engines

__all__ = ["watching_elsewhere"]


class _Elsewhere(Interceptor):
    layer: ClassVar[Layer] = Layer.CALL_LOG

    def __init__(self, note: Callable[[Any, str], None]) -> None:
        self.thread: int | None = get_ident()
        self._note = note

    def __call__(
        self, proceed: Callable[..., Any], engine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._note(engine, name)
        return proceed(*args, **kwargs)


@contextmanager
def watching_elsewhere(engine: Any, note: Callable[[Any, str], None]) -> Iterator[None]:
    """A block in which ``note(other, name)`` is called before each call of this thread on an engine that computes and
    is not ``engine``.
    """
    with ExitStack() as stack:
        for other in engines():
            if other is not engine and other.name != "meta":
                stack.enter_context(interception(other, _Elsewhere(note)))
        yield
